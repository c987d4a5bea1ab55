/*
 * match.c
 *	  Matches of the reference library. The whole result is computed in match_begin().
 */
#include "reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void
free_match(gjd_match *match)
{
	gjd_device *device = match->column->device;

	device->scratch_used -= match->charged;
	device->matches--;
	match->column->users--;
	match->keyset->users--;
	release_column(match->column);
	release_keyset(match->keyset);
	end_reduction(match);
	free(match->items);
	free(match->hits);
	free(match->entry_arrays);
	free(match);
}

/*
 * Calls visit for rows that match and pass the filter, in order of positions: if reduced is set,
 * for those that are reduced, otherwise for the others. Rows on pages that are left out are
 * neither. Returns the number of rows before the filter.
 */
static uint64_t
visit_hits(const gjd_match *match, bool reduced, visit_fn visit, void *context)
{
	const gjd_column *column = match->column;
	uint32_t slots = column->shape.slots;
	uint32_t key_bytes = column->shape.key_bytes;
	const reducing *reducing = match->reducing;
	uint32_t marked = reducing ? reducing->asked.marked : 0;
	uint64_t matched = 0;

	for (uint64_t page = 0; page < column->pages; page++)
	{
		const char *image = page_at(column, page);
		const void *blocks = image + gjd_image_blocks_at(slots, key_bytes);
		const void *offsets = image + gjd_image_offsets_at(slots, key_bytes);
		const void *valid = image + gjd_image_valid_at(slots, key_bytes);

		if (reducing != NULL && is_left_out(reducing, page))
			continue;
		for (uint32_t slot = 0; slot < slots; slot++)
		{
			gjd_tid tid;

			if ((((const uint32_t *) valid)[slot / 32] >> slot % 32 & 1) == 0 ||
				rank_of(match, image, slot) == match->keyset->count)
				continue;
			matched++;
			tid = gjd_tid_make(((const uint32_t *) blocks)[slot],
							   ((const uint16_t *) offsets)[slot]);
			if (passes(&match->filter, &column->shape, marked, image, slot) &&
				is_within(match, image, slot) && is_reduced(match, image, slot, tid) == reduced)
				visit(context, image, page * slots + slot, tid);
		}
	}
	return matched;
}

static void
count_hit(void *context, const char *image, uint64_t position, gjd_tid tid)
{
	(void) image;
	(void) position;
	(void) tid;
	++*(uint64_t *) context;
}

static void
keep_hit(void *context, const char *image, uint64_t position, gjd_tid tid)
{
	gjd_match *match = context;

	(void) image;
	if (match->what == GJD_BITMAP)
		((uint32_t *) match->items)[position / 32] |= (uint32_t) 1 << position % 32;
	else if (match->what == GJD_POSITIONS)
		match->items[match->state.items++] = position;
	else
		match->hits[match->state.items++] = (hit){tid, position};
}

static void
reduce_hit(void *context, const char *image, uint64_t position, gjd_tid tid)
{
	gjd_match *match = context;

	(void) tid;
	reduce_row(match, image, (uint32_t) (position % match->column->shape.slots));
}

static void
share_hit(void *context, const char *image, uint64_t position, gjd_tid tid)
{
	gjd_match *match = context;

	(void) tid;
	share_row(match, image, (uint32_t) (position % match->column->shape.slots));
}

static int
compare_hits(const void *a, const void *b)
{
	const hit *x = a;
	const hit *y = b;

	if (x->tid != y->tid)
		return x->tid > y->tid ? 1 : -1;
	return (x->position > y->position) - (x->position < y->position);
}

/* Sorts hits that do not ascend by position, keeping the first of each TID. */
static void
order_hits(gjd_match *match)
{
	hit *hits = match->hits;
	uint64_t n = match->state.items;
	uint64_t kept = 0;
	bool ascending = true;

	for (uint64_t i = 1; i < n && ascending; i++)
		ascending = hits[i].tid > hits[i - 1].tid;
	if (ascending)
		return;
	qsort(hits, n, sizeof(*hits), compare_hits);
	for (uint64_t i = 0; i < n; i++)
		if (kept == 0 || hits[i].tid != hits[kept - 1].tid)
			hits[kept++] = hits[i];
	match->state.items = match->state.count = kept;
}

/* Returns the size of the result, which is charged to scratch; the number of matches is known. */
static uint64_t
result_bytes(gjd_match *match)
{
	match->state.item_bytes = 8;
	switch (match->what)
	{
		case GJD_COUNT:
			match->state.item_bytes = 0;
			return 0;
		case GJD_BITMAP:
			match->state.item_bytes = 4;
			match->state.items = match->column->pages * match->column->shape.slots / 32;
			return match->state.items * 4;
		case GJD_ENTRIES:
			gjd_entry_layout_of(&match->column->shape, match->want, match->state.count,
								&match->entries);
			match->state.item_bytes = match->entries.item_bytes;
			return match->entries.bytes;
		default:
			return match->state.count * 8;
	}
}

/* Computes the whole result. */
static gjd_status
compute(gjd_match *match, gjd_error *error)
{
	bool has_tids = match->what == GJD_TIDS || match->what == GJD_ENTRIES;
	uint64_t bytes;
	gjd_status status = GJD_OK;

	if (match->top.limit > 0)
	{
		word_list words = {.match = match};

		visit_hits(match, false, add_word, &words);
		status = set_last(match, &words, error);
	}
	if (status != GJD_OK)
		return status;
	match->state.matched = visit_hits(match, false, count_hit, &match->state.count);
	if (match->reducing != NULL)
	{
		visit_hits(match, true, reduce_hit, match);
		if (match->reducing->too_many) /* match_poll() says so */
			return GJD_OK;
		if (match->reducing->asked.only_shared)
			visit_hits(match, false, share_hit, match);
		finish_groups(match);
	}
	match->state.ascending = true;
	bytes = KEPT_BYTES + result_bytes(match);
	status = charge(match->column->device, bytes, match->keyset->bytes + match->charged, error);
	if (status != GJD_OK)
		return status;
	match->charged += bytes;
	match->items = calloc(1, match->what == GJD_ENTRIES ? 1 : bytes);
	match->hits = has_tids ? malloc((match->state.count + 1) * sizeof(hit)) : NULL;
	if (match->items == NULL || (has_tids && match->hits == NULL))
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	if (match->what != GJD_COUNT)
		visit_hits(match, false, keep_hit, match);
	if (has_tids && match->any_order)
		match->state.ascending = false;
	else if (has_tids)
		order_hits(match);
	if (match->filter.n == 0 && match->reducing == NULL && match->top.limit == 0)
		match->state.matched = match->state.count;
	if (match->what == GJD_TIDS)
		for (uint64_t i = 0; i < match->state.items; i++)
			match->items[i] = match->hits[i].tid;
	if (match->what == GJD_ENTRIES && !make_entries(match))
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	return GJD_OK;
}

static void
copy_items(gjd_match *match, void *buffer, uint64_t capacity)
{
	uint64_t left = match->state.items - match->state.begun;
	uint64_t n = left < capacity ? left : capacity;
	uint32_t bytes = match->state.item_bytes;

	if (match->what == GJD_ENTRIES)
		copy_entries(match, buffer, capacity, n);
	else if (n > 0)
		memcpy(buffer, (char *) match->items + match->state.begun * bytes, n * bytes);
	match->state.begun += n;
}

gjd_status
match_begin(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *given,
			gjd_match **out, gjd_error *error)
{
	gjd_match_params params;
	gjd_reduction reduction;
	uint32_t delay;
	gjd_status status;
	bool failed;

	if (column == NULL || keyset == NULL || out == NULL ||
		!layout_take_params(&params, sizeof(params), given, LAYOUT_MATCH_PARAMS) ||
		(params.reduction != NULL && !layout_take_params(&reduction, sizeof(reduction),
														 params.reduction, LAYOUT_REDUCTION)) ||
		column->destroyed || keyset->destroyed || column->device != keyset->device ||
		!layout_match_is_valid(&params, params.reduction ? &reduction : NULL, &column->shape))
		return fail(error, GJD_INVALID, 0, "invalid match parameters");
	if (column->shape.key_bytes != keyset->key_bytes)
		return fail(error, GJD_INVALID, 0, "key widths of column and set differ");
	if ((params.rest_column > 0) != (keyset->rests != NULL))
		return fail(error, GJD_INVALID, 0, "only one of column and set has rests");
	if (params.reduction != NULL && !gjd_keys_are_covered(&reduction, keyset->count))
		return fail(error, GJD_INVALID, 0, "not a weight or number for each key");
	status = play_fault(column->device, GJD_AT_BEGIN, &delay, error);
	if (status != GJD_OK)
		return status;

	gjd_match *match = calloc(1, sizeof(*match));

	if (match == NULL)
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	match->column = column;
	match->keyset = keyset;
	match->what = params.what;
	match->want = params.want;
	match->any_order = params.any_order != 0;
	match->rest_column = params.rest_column;
	match->filter = params.filter;
	match->top = params.top;
	column->users++;
	keyset->users++;
	column->device->matches++;
	if (params.reduction != NULL)
		status = begin_reduction(match, &reduction, error);
	if (status == GJD_OK)
		status = compute(match, error);
	if (status != GJD_OK)
	{
		free_match(match);
		return status;
	}
	failed = match->reducing != NULL && match->reducing->too_many;
	if (params.first_buffer && params.first_capacity > 0 && params.what != GJD_COUNT && !failed)
		copy_items(match, params.first_buffer, params.first_capacity);
	if (params.reduction != NULL && reduction.first_groups != NULL && !failed)
		copy_groups(match, reduction.first_groups, reduction.first_capacity);
	match->done = due_in(delay);
	*out = match;
	return GJD_OK;
}

gjd_status
match_poll(gjd_match *match, gjd_match_state *state, gjd_error *error)
{
	uint32_t delay;
	gjd_status status;

	if (match == NULL || state == NULL)
		return fail(error, GJD_INVALID, 0, "no match");
	memset(state, 0, sizeof(*state));
	if (is_held(match))
		return GJD_PENDING;
	status = play_fault(match->column->device, GJD_AT_POLL, &delay, error);
	if (status != GJD_OK)
		return status;
	if (delay > 0)
		match->done = due_in(delay);
	if (is_due(&match->done))
	{
		if (match->reducing != NULL && match->reducing->too_many)
			return fail(error, GJD_TOO_MANY, 0, "more groups than there is room for");
		match->state.ready = true;
		match->state.delivered = match->state.begun;
		if (match->reducing != NULL)
			match->reducing->state.delivered = match->reducing->state.begun;
	}
	if (match->state.ready)
		*state = match->state;
	return match->state.ready && match->state.delivered == match->state.begun &&
				   (match->reducing == NULL ||
					match->reducing->state.delivered == match->reducing->state.begun)
			   ? GJD_OK
			   : GJD_PENDING;
}

gjd_status
match_next(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk, gjd_error *error)
{
	uint32_t delay;
	gjd_status status;

	if (match == NULL || buffer == NULL || capacity == 0 || chunk == NULL)
		return fail(error, GJD_INVALID, 0, "invalid buffer");
	if (!match->state.ready)
		return fail(error, GJD_INVALID, 0, "match is not ready");
	chunk->first = match->state.begun;
	chunk->items = 0;
	status = play_fault(match->column->device, GJD_AT_NEXT, &delay, error);
	if (status != GJD_OK)
		return status;
	copy_items(match, buffer, capacity);
	chunk->items = match->state.begun - chunk->first;
	if (chunk->items > 0)
		match->done = due_in(delay);
	return GJD_OK;
}

gjd_status
match_end(gjd_match *match, gjd_error *error)
{
	if (match == NULL)
		return fail(error, GJD_INVALID, 0, "no match");
	if (match->column->device->lost)
		return fail(error, GJD_DEVICE_LOST, 0, "device was lost");
	if (is_held(match) || !is_due(&match->done))
		return GJD_PENDING;
	free_match(match);
	return GJD_OK;
}
