/*
 * match.c
 *	  Requests that search a column: keys in, TIDs, entries or groups out.
 *
 * Words that come as one part are read in place: the library copies the keys, their weights and
 * numbers before it checks them; the list of pages to leave out is copied here; every value of a
 * visibility map is legal. More words are collected here first. The first part of the result is
 * requested together with the match and goes to half 0, which the words have left by then. The size
 * of the result is not known at that time, and requesting too much costs 20 us a megabyte, because
 * the excess is copied as well; so the helper requests as much as this column's recent matches
 * returned. Further parts follow as the client hands halves back: the device's scratch memory
 * holds the result until then, so a slow client does not delay others.
 *
 * The number of groups is limited by the request, and excess groups are not copied. So the first
 * part has room for all groups, if they take up to half of it: then groups and rest mostly
 * arrive together, in one part.
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

/* Finds the number of items that matches of this kind usually return. */
static uint64_t *
usual_items(const request *q, column *c)
{
	if (q->asked.reduce)
		return &c->usual_items[3];
	if (q->asked.top.limit > 0)
		return &c->usual_items[2];
	return &c->usual_items[q->asked.filter.n > 0];
}

/* Estimates the length of a first part that will hold the whole result. */
static uint64_t
first_items(const request *q, column *c, uint64_t room)
{
	uint64_t usual = *usual_items(q, c);
	uint64_t items = usual + usual / 8;

	if (items < LEAST_FIRST_ITEMS)
		items = LEAST_FIRST_ITEMS;
	return items < room ? items : room;
}

/* Grows at once and shrinks slowly: too short a part costs more than too long a one. */
static void
note_items(const request *q, uint64_t items)
{
	column *c = column_find(q);
	uint64_t *usual;

	if (c == NULL)
		return;
	usual = usual_items(q, c);
	if (items >= *usual)
		*usual = items;
	else
		*usual -= (*usual - items) / 8;
}

/* ---- result ---------------------------------------------------------------------------------- */

/* Publishes the parts that have arrived completely. */
static bool
publish_parts(request *q, const gjd_match_state *state)
{
	gjp_message *message = message_of(q);
	bool any = false;

	while (q->filled < q->begun)
	{
		uint32_t half = q->filled % GJP_HALVES;
		const part *p = &q->parts[half];

		if (state->delivered < p->items_end || q->reduced.delivered < p->groups_end)
			break;
		message->out[half] = (uint32_t) (p->items_end - q->published_items);
		message->room[half] = p->item_room;
		message->groups[half] = (uint32_t) (p->groups_end - q->published_groups);
		message->group_room[half] = p->group_room;
		q->published_items = p->items_end;
		q->published_groups = p->groups_end;
		q->filled++;
		any = true;
	}
	if (any)
		publish(q, &message->filled, q->filled);
	return any;
}

/* Returns the number of groups that the client gets. */
static uint64_t
wanted_groups(const request *q, const gjd_match_state *state)
{
	if (q->asked.groups_if_needed && state->items == 0 && q->reduced.n_newer == 0)
		return 0;
	return q->reduced.elements;
}

/* Start to copy the next groups, or the next items once all groups are copied, into a free half. */
static gjd_status
begin_part(request *q, uint64_t groups)
{
	bool has_groups = q->begun_groups < groups;
	char *half = half_of(q, q->begun);
	gjd_chunk chunk = {0};
	gjd_status status;
	part *p = &q->parts[q->begun % GJP_HALVES];

	if (has_groups)
		status = CALL(NEXT, h.api->match_groups(q->match, half, h.part_bytes / q->element_bytes,
												&chunk, &h.error));
	else
		status = CALL(NEXT, h.api->match_next(q->match, half, q->part_items, &chunk, &h.error));
	if (status != GJD_OK && status != GJD_PENDING)
		return status;
	if (chunk.items == 0)
		return GJD_PENDING;
	*p = (part){.item_room = (uint32_t) q->part_items};
	if (has_groups)
	{
		q->begun_groups = chunk.first + chunk.items;
		*p = (part){.group_room = (uint32_t) chunk.items};
	}
	else
		q->begun_items = chunk.first + chunk.items;
	p->groups_end = q->begun_groups;
	p->items_end = q->begun_items;
	q->begun++;
	return GJD_OK;
}

/* Starts copies into the halves that the client has handed back. */
static gjd_status
begin_parts(request *q, uint64_t groups, uint64_t items, bool *moved)
{
	uint32_t consumed = gjp_read_word(&message_of(q)->consumed, q->generation);

	/* A client that claims to have consumed more than it was given gains nothing. */
	if (consumed > q->filled)
		consumed = q->filled;
	while (q->begun - consumed < GJP_HALVES &&
		   (q->begun_groups < groups || q->begun_items < items))
	{
		gjd_status status = begin_part(q, groups);

		if (status != GJD_OK)
			return status;
		*moved = true;
	}
	return GJD_OK;
}

static void
tell_reduced(request *q)
{
	const gjd_reduced *reduced = &q->reduced;

	q->result.rows = reduced->rows;
	q->result.nulls = reduced->nulls;
	q->result.groups = reduced->groups;
	q->result.elements = q->published_groups;
	q->result.n_newer = reduced->n_newer;
	memcpy(message_of(q)->newer, reduced->newer, reduced->n_newer * sizeof(uint32_t));
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
	if (q->asked.reduce)
		tell_reduced(q);
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

/* Notes what the library has put into the first part. */
static void
match_is_ready(request *q, const gjd_match_state *state)
{
	leave_chain(q);
	q->ready = true;
	q->match_ready = clock_ns();
	message_of(q)->expected = state->items;
	if (state->begun > 0 || q->reduced.begun > 0)
	{
		q->parts[0].items_end = q->begun_items = state->begun;
		q->parts[0].groups_end = q->begun_groups = q->reduced.begun;
		q->begun = 1;
	}
}

static outcome
match_run(request *q)
{
	gjd_match_state state = {0};
	gjd_status status;
	gjd_status begun;
	uint64_t groups;
	bool moved = false;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	status = CALL(POLL, h.api->match_poll(q->match, &state, &h.error));
	if (status != GJD_OK && status != GJD_PENDING)
		return match_fail(q, status, NULL);
	if (!state.ready)
		return WANTS_DEVICE;
	if (q->asked.reduce &&
		CALL(POLL, h.api->match_reduced(q->match, &q->reduced, &h.error)) != GJD_OK)
		return match_fail(q, h.error.status, NULL);
	if (!q->ready)
	{
		match_is_ready(q, &state);
		moved = true;
	}
	moved |= publish_parts(q, &state);
	groups = wanted_groups(q, &state);
	if (q->asked.count_only || (q->published_items >= state.items && q->published_groups >= groups))
	{
		if (status == GJD_OK)
			return match_done(q, &state);
		return moved ? MOVED : WANTS_DEVICE;
	}
	begun = begin_parts(q, groups, state.items, &moved);
	if (begun != GJD_OK && begun != GJD_PENDING)
		return match_fail(q, begun, NULL);
	if (moved)
		return MOVED;
	return q->filled < q->begun || begun == GJD_PENDING ? WANTS_DEVICE : WANTS_OTHERS;
}

/* ---- request --------------------------------------------------------------------------------- */

/*
 * Fills in what to request from the library, and the part that receives it. Returns false if a
 * part has no room for even one item.
 */
static bool
ask_for_items(request *q, column *c, gjd_match_params *params)
{
	uint64_t at = gjp_entries_at(q->parts[0].group_room, q->element_bytes);
	uint64_t room = h.part_bytes / sizeof(gjd_tid);

	params->what = q->asked.entries ? GJD_ENTRIES : GJD_TIDS;
	params->want = q->asked.want;
	params->any_order = q->asked.any_order;
	q->part_items = room;
	if (q->asked.entries)
	{
		q->part_items = gjd_entry_room(&c->shape, q->asked.want, h.part_bytes);
		room = gjd_entry_room(&c->shape, q->asked.want, h.part_bytes - at);
	}
	params->first_buffer = half_of(q, 0) + at;
	params->first_capacity = first_items(q, c, room);
	q->parts[0].item_room = (uint32_t) params->first_capacity;
	return q->part_items > 0;
}

static const void *
section_of(const request *q, gjp_section section)
{
	return q->words + gjp_words_before(&q->asked, section);
}

/*
 * Fills in a reduction, and makes room for its groups in the first part. Returns a text if the
 * column cannot have it.
 */
static const char *
ask_for_groups(request *q, const column *c, gjd_reduction *reduction)
{
	static uint32_t left_out[GJD_MAX_LEFT_OUT];
	uint64_t groups;

	*reduction = q->asked.reduction;
	reduction->struct_size = sizeof(*reduction);
	reduction->left_out = left_out;
	reduction->map = section_of(q, GJP_MAP);
	reduction->first_groups = NULL;
	reduction->first_capacity = 0;
	reduction->weights = q->asked.has_weights ? section_of(q, GJP_WEIGHTS) : NULL;
	if (reduction->n_left_out > GJD_MAX_LEFT_OUT)
		return "too many pages to leave out";
	memcpy(left_out, section_of(q, GJP_LEFT_OUT), reduction->n_left_out * sizeof(*left_out));
	if (!gjd_reduction_is_valid(reduction, &c->shape))
		return "a reduction that the column cannot have";
	q->element_bytes = gjd_element_words(reduction, &c->shape) * 8;
	if (q->asked.groups_if_needed)
		return NULL;

	groups = gjd_most_elements(reduction, q->asked.keys);
	if (groups > h.part_bytes / 2 / q->element_bytes)
		groups = h.part_bytes / 2 / q->element_bytes;
	q->parts[0].group_room = (uint32_t) groups;
	reduction->first_groups = half_of(q, 0);
	reduction->first_capacity = groups;
	return NULL;
}

/* Checks whether column and library can answer the request; returns a text if they cannot. */
static const char *
find_mistake(const request *q, const column *c)
{
	const gjp_request *asked = &q->asked;
	bool by_shape = asked->entries || asked->filter.n > 0 || asked->top.limit > 0 ||
					asked->reduce || asked->rest_column > 0;

	if (by_shape && memcmp(&c->shape, &asked->shape, sizeof(gjd_shape)) != 0)
		return "entries of another shape than the column's";
	if (!gjd_rest_is_valid(asked->rest_column, &c->shape))
		return "rests of keys that the column cannot have";
	if (!gjd_filter_is_valid(&asked->filter, &c->shape))
		return "a filter that the column cannot have";
	if (!gjd_top_is_valid(&asked->top, &c->shape))
		return "an order that the column cannot have";
	if (asked->reduce && (asked->count_only || !asked->entries))
		return "a reduction without entries";
	return NULL;
}

static outcome
match_start(request *q)
{
	gjd_match_params params = {.struct_size = sizeof(params), .what = GJD_COUNT};
	gjd_reduction reduction;
	column *c = column_find(q);
	uint64_t needed = q->asked.top.limit > 0 ? GJD_CAN_TOP : 0; /* capabilities */
	const char *mistake;
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (c == NULL)
		return match_fail(q, GJP_GONE, "the device does not hold this column");
	mistake = find_mistake(q, c);
	if (mistake == NULL && q->asked.reduce)
		mistake = ask_for_groups(q, c, &reduction);
	if (mistake != NULL)
		return match_fail(q, GJD_INVALID, mistake);
	params.rest_column = q->asked.rest_column;
	params.filter = q->asked.filter;
	params.top = q->asked.top;
	params.reduction = q->asked.reduce ? &reduction : NULL;
	if (params.reduction != NULL)
		needed |= gjd_reduction_capability(&reduction);
	if ((needed & ~h.api->capabilities) != 0)
		return match_fail(q, GJD_UNSUPPORTED, "the device library cannot do this");
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
	q->chain = h.chain;
	if (q->chain != NULL)
		++*q->chain;
	give_words(q);
	drop_keyset(q);
	q->reduced.struct_size = sizeof(q->reduced);
	q->step = match_run;
	return MOVED;
}

/* ---- words ----------------------------------------------------------------------------------- */

static outcome
match_build(request *q)
{
	gjd_keyset_params params = {.struct_size = sizeof(params)};
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (h.holds && q->asked.keys <= MOST_HELD_KEYS)
		return WANTS_OTHERS;
	if (q->asked.rest_column > 0 && (h.api->capabilities & GJD_CAN_PROVE_RESTS) == 0)
		return match_fail(q, GJD_UNSUPPORTED, "the device library cannot do this");
	params.key_bytes = q->asked.shape.key_bytes;
	params.rests = q->asked.rest_column > 0 ? section_of(q, GJP_RESTS) : NULL;
	params.keys = q->words;
	params.count = q->asked.keys;
	status = CALL(KEYSET, h.api->keyset_create(h.device, &params, &q->keyset, &h.error));
	if (status == GJD_BUSY)
		return out_of_patience(q) ? match_fail(q, GJD_NO_MEMORY, NULL) : WANTS_OTHERS;
	if (status != GJD_OK)
	{
		q->keyset = NULL;
		return match_fail(q, status, NULL);
	}
	if (!q->asked.reduce)
		give_words(q);
	q->step = match_start;
	return match_start(q);
}

/*
 * Reserves memory for words that have arrived, step by step: a request's announcement alone does
 * not justify allocating memory. Returns GJD_BUSY if the words of others take too much.
 */
static gjd_status
reserve_words(request *q, uint64_t words)
{
	uint64_t room = q->room_words * 2 > words ? q->room_words * 2 : words;
	uint64_t left = GJP_MAX_WORDS - h.words_room;
	int64_t *grown;

	if (words <= q->room_words)
		return GJD_OK;
	if (room > q->all_words)
		room = q->all_words;
	if (room - q->room_words > left)
		room = words;
	if (room - q->room_words > left)
		return GJD_BUSY;
	grown = realloc(q->collected, room * sizeof(int64_t));
	if (grown == NULL)
		return GJD_NO_HOST_MEMORY;
	h.words_room += room - q->room_words;
	q->collected = grown;
	q->room_words = room;
	return GJD_OK;
}

/* Takes the next part of the words. */
static outcome
match_words(request *q)
{
	gjp_message *message = message_of(q);
	const char *half = half_of(q, q->taken);
	gjp_part sent;
	gjd_status status;

	if (q->cancelled)
		return match_fail(q, GJP_CANCELLED, "cancelled");
	if (gjp_read_word(&message->produced, q->generation) <= q->taken)
		return WANTS_OTHERS;
	sent = read_part(q, q->taken);
	if (sent.items > h.half_bytes / sizeof(int64_t) || sent.items > q->all_words - q->n_words ||
		(sent.last != 0) != (sent.items == q->all_words - q->n_words))
		return match_fail(q, GJD_INVALID, "part of keys has a wrong length");

	if (q->taken == 0 && sent.last)
	{
		q->words = (const int64_t *) half;
		q->n_words = sent.items;
		q->step = match_build;
		return match_build(q);
	}
	status = reserve_words(q, q->n_words + sent.items);
	if (status == GJD_BUSY && !out_of_patience(q))
		return WANTS_OTHERS;
	if (status != GJD_OK)
		return match_fail(q, GJD_NO_HOST_MEMORY, "out of memory for keys");
	q->busy_since = 0;
	if (sent.items > 0)
		memcpy(q->collected + q->n_words, half, sent.items * sizeof(int64_t));
	q->n_words += sent.items;
	q->taken++;
	publish(q, &message->taken, q->taken);
	if (sent.last)
	{
		q->words = q->collected;
		q->step = match_build;
	}
	return MOVED;
}

outcome
match_begin(request *q)
{
	bool too_many = q->asked.keys > GJP_MAX_WORDS ||
					(q->asked.reduce && q->asked.reduction.n_keys > GJP_MAX_WORDS);

	if (!too_many)
		q->all_words = gjp_words_before(&q->asked, GJP_SECTIONS);
	if (too_many || q->all_words > GJP_MAX_WORDS)
		return match_fail(q, GJD_NO_HOST_MEMORY, "too many keys");
	if (column_find(q) == NULL)
		return match_fail(q, GJP_GONE, "the device does not hold this column");
	q->step = match_words;
	return match_words(q);
}
