/*
 * helper_match.c
 *	  Requests that search a column: keys in, TIDs out.
 *
 * A list of keys that comes as one part is read where it lies, since the library copies it before
 * it checks it; a longer one is collected here first. The first part of the result is asked for
 * with the match itself and goes to half 0, which the keys have left by then. Further parts
 * follow as the client gives halves back: the device's scratch memory holds the result until then,
 * so a slow client delays nobody else.
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

/* Winds a failed or cancelled match up: the device may still be writing to the chunk. */
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

/* ---- result ---------------------------------------------------------------------------------- */

/* Publishes the parts that have arrived in full. */
static bool
publish_parts(request *q, uint64_t delivered)
{
	gjp_message *message = message_of(q);
	bool any = false;

	while (q->filled < q->begun && delivered >= q->ends[q->filled % GJP_HALVES])
	{
		uint64_t end = q->ends[q->filled % GJP_HALVES];

		message->out[q->filled % GJP_HALVES] = (uint32_t) (end - q->published_items);
		q->published_items = end;
		q->filled++;
		any = true;
	}
	if (any)
		publish(q, &message->filled, q->filled);
	return any;
}

/* Starts copies into the halves that the client has given back. */
static gjd_status
begin_parts(request *q, uint64_t items, bool *moved)
{
	uint32_t consumed = gjp_read_word(&message_of(q)->consumed, q->generation);

	/* A client that claims more than it was given gains nothing. */
	if (consumed > q->filled)
		consumed = q->filled;
	while (q->begun - consumed < GJP_HALVES && q->begun_items < items)
	{
		gjd_chunk chunk = {0};
		gjd_status status = CALL(NEXT, h.api->match_next(q->match, half_of(q, q->begun),
														 h.part_items, &chunk, &h.error));

		if (status != GJD_OK && status != GJD_PENDING)
			return status;
		if (chunk.items == 0)
			return GJD_PENDING;
		q->begun_items = chunk.first + chunk.items;
		q->ends[q->begun % GJP_HALVES] = q->begun_items;
		q->begun++;
		*moved = true;
	}
	return GJD_OK;
}

/*
 * Ends a match that has delivered all. Nothing of it is under way, so the client can be told
 * before the library has cleaned up.
 */
static outcome
match_done(request *q, const gjd_match_state *state)
{
	q->result.count = state->count;
	q->result.ascending = state->ascending;
	q->result.device_ns = (uint64_t) (clock_ns() - q->started);
	end_later(q->match);
	q->match = NULL;
	request_end(q, GJP_DONE);
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

static outcome
match_start(request *q)
{
	gjd_match_params params = {.struct_size = sizeof(params), .what = GJD_COUNT};
	column *c = column_find(q);
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (c == NULL)
		return match_fail(q, GJP_GONE, "the device does not hold this column");
	if (!q->asked.count_only)
	{
		params.what = GJD_TIDS;
		params.first_buffer = half_of(q, 0);
		params.first_capacity = h.part_items;
	}
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
	params.key_bytes = q->asked.key_bytes;
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
	free(q->keys);
	q->keys = NULL;
	q->step = match_start;
	return match_start(q);
}

/* Takes the next part of the key list. */
static outcome
match_keys(request *q)
{
	gjp_message *message = message_of(q);
	const char *half = half_of(q, q->taken);
	gjp_part part;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (gjp_read_word(&message->produced, q->generation) <= q->taken)
		return WANTS_OTHERS;
	part = message->in[q->taken % GJP_HALVES];
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
	if (q->keys == NULL)
		q->keys = malloc(q->asked.keys * sizeof(int64_t));
	if (q->keys == NULL)
		return match_fail(q, GJD_NO_HOST_MEMORY, "out of memory for keys");
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
