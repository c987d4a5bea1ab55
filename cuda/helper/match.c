/*
 * match.c
 *	  Requests that search a column: keys in, TIDs or entries out.
 *
 * A key list that comes as one part is read in place, since the library copies it before it
 * checks it; a longer one is collected here first. The first part of the result is requested
 * together with the match and goes to half 0, which the keys have left by then. The size of the
 * result is not known at that time, and requesting too much costs 20 us a megabyte, because the
 * excess is copied as well; so the helper requests as much as this column's recent matches
 * returned. Further parts follow as the client hands halves back: the device's scratch memory
 * holds the result until then, so a slow client does not delay others.
 */
#include "helper.h"

#include <stdlib.h>
#include <string.h>

static void
drop_keyset(request *q)
{
	if (q->keyset != NULL)
		CALL(KEYSET, h.api->keyset_destroy(q->keyset, &h.error));
	q->keyset = NULL;
}

/* Winds up a failed or canceled match: the device may still be writing to the chunk. */
static outcome
match_wind_up(request *q)
{
	drop_keyset(q);
	if (q->match != NULL && CALL(END, h.api->match_end(q->match, &h.error)) == GJD_PENDING)
		return WANTS_DEVICE;
	q->match = NULL;
	request_end(q, GJP_FAILED);
	return MOVED;
}

static outcome
match_fail(request *q, int32_t status, const char *text)
{
	set_failure(q, status, text);
	q->step = match_wind_up;
	return match_wind_up(q);
}

/* ---- how much to ask for --------------------------------------------------------------------- */

/* Least number of items to request: 64 kB, which take negligible time */
#define LEAST_FIRST_ITEMS ((uint64_t) 8192)

/* Estimates the length of a first part that will hold the whole result. */
static uint64_t
first_items(const request *q, const column *c)
{
	uint64_t usual = c->usual_items[q->asked.filter.n > 0];
	uint64_t items = usual + usual / 8;

	if (items < LEAST_FIRST_ITEMS)
		items = LEAST_FIRST_ITEMS;
	return items < q->part_items ? items : q->part_items;
}

/* Grows at once and shrinks slowly: too short a part costs more than too long a one. */
static void
note_items(const request *q, uint64_t items)
{
	column *c = column_find(q);
	uint64_t *usual;

	if (c == NULL)
		return;
	usual = &c->usual_items[q->asked.filter.n > 0];
	if (items >= *usual)
		*usual = items;
	else
		*usual -= (*usual - items) / 8;
}

/* ---- result ---------------------------------------------------------------------------------- */

/* Publishes the parts that have arrived completely. */
static bool
publish_parts(request *q, uint64_t delivered)
{
	gjp_message *message = message_of(q);
	bool any = false;

	while (q->filled < q->begun && delivered >= q->ends[q->filled % GJP_HALVES])
	{
		uint64_t end = q->ends[q->filled % GJP_HALVES];

		message->out[q->filled % GJP_HALVES] = (uint32_t) (end - q->published_items);
		message->room[q->filled % GJP_HALVES] = q->rooms[q->filled % GJP_HALVES];
		q->published_items = end;
		q->filled++;
		any = true;
	}
	if (any)
		publish(q, &message->filled, q->filled);
	return any;
}

/* Starts copies into the halves that the client has handed back. */
static gjd_status
begin_parts(request *q, uint64_t items, bool *moved)
{
	uint32_t consumed = gjp_read_word(&message_of(q)->consumed, q->generation);

	/* A client that claims to have consumed more than it was given gains nothing. */
	if (consumed > q->filled)
		consumed = q->filled;
	while (q->begun - consumed < GJP_HALVES && q->begun_items < items)
	{
		gjd_chunk chunk = {0};
		gjd_status status = CALL(NEXT, h.api->match_next(q->match, half_of(q, q->begun),
														 q->part_items, &chunk, &h.error));

		if (status != GJD_OK && status != GJD_PENDING)
			return status;
		if (chunk.items == 0)
			return GJD_PENDING;
		q->begun_items = chunk.first + chunk.items;
		q->ends[q->begun % GJP_HALVES] = q->begun_items;
		q->rooms[q->begun % GJP_HALVES] = (uint32_t) q->part_items;
		q->begun++;
		*moved = true;
	}
	return GJD_OK;
}

/*
 * Ends a match that has delivered everything. None of its work is in progress, so the client can
 * be told before the library has cleaned up.
 */
static outcome
match_done(request *q, const gjd_match_state *state)
{
	gjd_match *match = q->match;

	q->result.count = state->count;
	q->result.matched = state->matched;
	q->result.ascending = state->ascending;
	q->result.set_ns = (uint64_t) (q->match_began - q->started);
	q->result.kernel_ns = (uint64_t) (q->match_ready - q->match_began);
	q->result.transfer_ns = (uint64_t) (clock_ns() - q->match_ready);
	if (!q->asked.count_only)
		note_items(q, state->items);
	q->match = NULL;
	request_end(q, GJP_DONE);
	end_later(match);
	return MOVED;
}

static outcome
match_run(request *q)
{
	gjd_match_state state = {0};
	gjd_status status;
	bool moved = false;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	status = CALL(POLL, h.api->match_poll(q->match, &state, &h.error));
	if (status != GJD_OK && status != GJD_PENDING)
		return match_fail(q, status, NULL);
	if (!state.ready)
		return WANTS_DEVICE;
	if (!q->ready)
	{
		q->ready = true;
		q->match_ready = clock_ns();
		message_of(q)->expected = state.items;
		moved = true;
		if (state.begun > 0)
		{
			q->ends[0] = q->begun_items = state.begun;
			q->begun = 1;
		}
	}
	moved |= publish_parts(q, state.delivered);
	if (q->asked.count_only || q->published_items >= state.items)
	{
		if (status == GJD_OK)
			return match_done(q, &state);
		return moved ? MOVED : WANTS_DEVICE;
	}
	status = begin_parts(q, state.items, &moved);
	if (status != GJD_OK && status != GJD_PENDING)
		return match_fail(q, status, NULL);
	if (moved)
		return MOVED;
	return q->filled < q->begun || status == GJD_PENDING ? WANTS_DEVICE : WANTS_OTHERS;
}

/*
 * Fills in what to request from the library, and the part that receives it. Returns false if a
 * part has no room for even one item.
 */
static bool
ask_for_items(request *q, const column *c, gjd_match_params *params)
{
	params->what = q->asked.entries ? GJD_ENTRIES : GJD_TIDS;
	params->want = q->asked.want;
	params->any_order = q->asked.any_order;
	q->part_items = h.part_bytes / sizeof(gjd_tid);
	if (q->asked.entries)
		q->part_items = gjd_entry_room(&c->shape, q->asked.want, h.part_bytes);
	params->first_buffer = half_of(q, 0);
	params->first_capacity = first_items(q, c);
	q->rooms[0] = (uint32_t) params->first_capacity;
	return q->part_items > 0;
}

static outcome
match_start(request *q)
{
	gjd_match_params params = {.struct_size = sizeof(params), .what = GJD_COUNT};
	column *c = column_find(q);
	bool by_shape = q->asked.entries || q->asked.filter.n > 0;
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (c == NULL)
		return match_fail(q, GJP_GONE, "the device does not hold this column");
	if (by_shape && memcmp(&c->shape, &q->asked.shape, sizeof(gjd_shape)) != 0)
		return match_fail(q, GJD_INVALID, "entries of another shape than the column's");
	if (!gjd_filter_is_valid(&q->asked.filter, &c->shape))
		return match_fail(q, GJD_INVALID, "a filter that the column cannot have");
	params.filter = q->asked.filter;
	if (!q->asked.count_only && !ask_for_items(q, c, &params))
		return match_fail(q, GJD_INVALID, "gpujoin.result_buffer is too small for an entry");
	q->match_began = clock_ns();
	status = CALL(BEGIN, h.api->match_begin(c->handle, q->keyset, &params, &q->match, &h.error));
	if (status == GJD_BUSY)
		return out_of_patience(q) ? match_fail(q, GJD_NO_MEMORY, NULL) : WANTS_OTHERS;
	if (status != GJD_OK)
	{
		q->match = NULL;
		return match_fail(q, status, NULL);
	}
	drop_keyset(q);
	q->step = match_run;
	return MOVED;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static outcome
match_build(request *q)
{
	gjd_keyset_params params = {.struct_size = sizeof(params)};
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	params.key_bytes = q->asked.shape.key_bytes;
	params.keys = q->key_list;
	params.count = q->n_keys;
	status = CALL(KEYSET, h.api->keyset_create(h.device, &params, &q->keyset, &h.error));
	if (status == GJD_BUSY)
		return out_of_patience(q) ? match_fail(q, GJD_NO_MEMORY, NULL) : WANTS_OTHERS;
	if (status != GJD_OK)
	{
		q->keyset = NULL;
		return match_fail(q, status, NULL);
	}
	give_keys(q);
	q->step = match_start;
	return match_start(q);
}

/*
 * Reserves memory for keys that have arrived, step by step: a request's announcement alone does
 * not justify allocating memory. Returns GJD_BUSY if the keys of others take too much.
 */
static gjd_status
reserve_keys(request *q, uint64_t keys)
{
	uint64_t room = q->room_keys * 2 > keys ? q->room_keys * 2 : keys;
	uint64_t left = GJP_MAX_KEYS - h.keys_room;
	int64_t *grown;

	if (keys <= q->room_keys)
		return GJD_OK;
	if (room > q->asked.keys)
		room = q->asked.keys;
	if (room - q->room_keys > left)
		room = keys;
	if (room - q->room_keys > left)
		return GJD_BUSY;
	grown = realloc(q->keys, room * sizeof(int64_t));
	if (grown == NULL)
		return GJD_NO_HOST_MEMORY;
	h.keys_room += room - q->room_keys;
	q->keys = grown;
	q->room_keys = room;
	return GJD_OK;
}

/* Takes the next part of the key list. */
static outcome
match_keys(request *q)
{
	gjp_message *message = message_of(q);
	const char *half = half_of(q, q->taken);
	gjp_part part;
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (gjp_read_word(&message->produced, q->generation) <= q->taken)
		return WANTS_OTHERS;
	part = read_part(q, q->taken);
	if (part.items > h.half_bytes / sizeof(int64_t) || part.items > q->asked.keys - q->n_keys ||
		(part.last != 0) != (part.items == q->asked.keys - q->n_keys))
		return match_fail(q, GJD_INVALID, "part of keys has a wrong length");

	if (q->taken == 0 && part.last)
	{
		q->key_list = (const int64_t *) half;
		q->n_keys = part.items;
		q->step = match_build;
		return match_build(q);
	}
	status = reserve_keys(q, q->n_keys + part.items);
	if (status == GJD_BUSY && !out_of_patience(q))
		return WANTS_OTHERS;
	if (status != GJD_OK)
		return match_fail(q, GJD_NO_HOST_MEMORY, "out of memory for keys");
	q->busy_since = 0;
	if (part.items > 0)
		memcpy(q->keys + q->n_keys, half, part.items * sizeof(int64_t));
	q->n_keys += part.items;
	q->taken++;
	publish(q, &message->taken, q->taken);
	if (part.last)
	{
		q->key_list = q->keys;
		q->step = match_build;
	}
	return MOVED;
}

outcome
match_begin(request *q)
{
	if (q->asked.keys > GJP_MAX_KEYS)
		return match_fail(q, GJD_NO_HOST_MEMORY, "too many keys");
	if (column_find(q) == NULL)
		return match_fail(q, GJP_GONE, "the device does not hold this column");
	q->step = match_keys;
	return match_keys(q);
}
