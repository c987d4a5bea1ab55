/*
 * reduce.c
 *	  Reductions in the reference library: row by row, into an array of all possible groups. Groups
 *	  of columns are appended to it as they appear, and found through a hash table.
 */
#include "reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
compare_pages(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a;
	uint32_t y = *(const uint32_t *) b;

	return (x > y) - (x < y);
}

/* Returns true if the page is one that the caller has named, or newer than the bound. */
bool
is_left_out(const reducing *r, uint64_t page)
{
	uint32_t number = (uint32_t) page;

	return (r->asked.n_left_out > 0 && bsearch(&number, r->left_out, r->asked.n_left_out,
											   sizeof(number), compare_pages) != NULL) ||
		   (r->state.n_newer > 0 && bsearch(&number, r->state.newer, r->state.n_newer,
											sizeof(number), compare_pages) != NULL);
}

static uint64_t
possible_groups(const gjd_match *match, const gjd_reduction *asked)
{
	switch (asked->grouping)
	{
		case GJD_BY_KEY:
			return match->keyset->count;
		case GJD_BY_VALUE:
			return asked->span + 1;
		case GJD_DISTINCT:
			return asked->span / 64;
		case GJD_BY_COLUMNS:
			return asked->room;
		default:
			return 1;
	}
}

static void
set_first_values(reducing *r, const gjd_shape *shape, uint64_t group)
{
	uint64_t *words = r->groups + group * r->words + gjd_group_words(&r->asked);

	for (uint32_t i = 0; i < r->asked.n_aggregates; i++)
	{
		const gjd_aggregate *aggregate = &r->asked.aggregates[i];

		if (aggregate->kind == GJD_MIN)
			*words = (uint64_t) INT64_MAX;
		else if (aggregate->kind == GJD_MAX)
			*words = (uint64_t) INT64_MIN;
		words += gjd_aggregate_words(aggregate, shape);
	}
}

static void *
copy_of(const void *from, uint64_t bytes)
{
	void *to = malloc(bytes + 1);

	if (to != NULL && bytes > 0)
		memcpy(to, from, bytes);
	return to;
}

/* Prepares a reduction; after an error, end_reduction() cleans up. */
gjd_status
begin_reduction(gjd_match *match, const gjd_reduction *asked, gjd_error *error)
{
	const gjd_shape *shape = &match->column->shape;
	reducing *r = match->reducing = calloc(1, sizeof(*r));
	bool by_columns = asked->grouping == GJD_BY_COLUMNS;
	uint64_t rows = match->column->pages * shape->slots;
	uint64_t groups, key_bytes, bytes;
	gjd_status status;

	if (r == NULL)
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	r->asked = *asked;
	if (!newer_list(match->column->newer, match->column->versions, asked->bound, r->state.newer,
					&r->state.n_newer))
		return fail(error, GJD_TOO_NEW, 0, "too many pages are newer than the bound");
	if (by_columns && r->asked.room > rows)
		r->asked.room = rows > 0 ? rows : 1;
	groups = possible_groups(match, &r->asked);
	r->n_groups = by_columns ? 0 : groups;
	r->n_places = by_columns ? groups * 2 : 0;
	r->words = gjd_element_words(asked, shape);
	r->state.element_bytes = r->words * 8;
	key_bytes = asked->n_keys * sizeof(uint32_t);
	bytes = groups * r->words * 8 + r->n_places * sizeof(uint32_t) + asked->map_bytes;
	bytes += asked->weights != NULL ? key_bytes : 0;
	bytes += asked->only_shared ? groups : 0;
	status = charge(match->column->device, bytes, match->keyset->bytes, error);
	if (status != GJD_OK)
		return status;
	match->charged = bytes;
	r->left_out = copy_of(asked->left_out, asked->n_left_out * sizeof(uint32_t));
	r->map = copy_of(asked->map, asked->map_bytes);
	r->weights = asked->weights != NULL ? copy_of(asked->weights, key_bytes) : NULL;
	r->groups = calloc(groups + 1, r->words * 8);
	r->places = calloc(r->n_places + 1, sizeof(uint32_t));
	r->shared = calloc(asked->only_shared ? groups : 1, 1);
	if (r->left_out == NULL || r->map == NULL || r->groups == NULL || r->places == NULL ||
		r->shared == NULL ||
		(asked->weights != NULL && r->weights == NULL))
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	if (!gjd_weights_are_valid(asked, r->weights))
		return fail(error, GJD_INVALID, 0, "invalid weight of a key");
	for (uint64_t group = 0; group < r->n_groups; group++)
		set_first_values(r, shape, group);
	return GJD_OK;
}

void
end_reduction(gjd_match *match)
{
	reducing *r = match->reducing;

	if (r == NULL)
		return;
	free(r->left_out);
	free(r->map);
	free(r->weights);
	free(r->groups);
	free(r->places);
	free(r->shared);
	free(r);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static bool
is_visible(const reducing *r, uint64_t block)
{
	uint64_t behind;

	if (block < r->asked.visible_below)
		return true;
	behind = block - r->asked.visible_below;
	return behind / 4 < r->asked.map_bytes && (r->map[behind / 4] >> behind % 4 * 2 & 1) != 0;
}

static bool
column_is_null(const gjd_shape *shape, const char *image, uint32_t slot, uint32_t column)
{
	return column > 0 && is_null(shape, image, slot, column - 1);
}

/* Returns true if a row that matches and passes the filter is reduced. */
bool
is_reduced(const gjd_match *match, const char *image, uint32_t slot, gjd_tid tid)
{
	const reducing *r = match->reducing;
	const gjd_shape *shape = &match->column->shape;
	bool by_span;

	if (r == NULL || !is_visible(r, tid >> 16))
		return false;
	for (uint32_t column = 1; column <= shape->n_carried; column++)
		if (is_marked(shape, r->asked.marked, image, slot, column))
			return false;
	by_span = r->asked.grouping == GJD_BY_VALUE || r->asked.grouping == GJD_DISTINCT;
	return !by_span || column_is_null(shape, image, slot, r->asked.column) ||
		   (uint64_t) value_at(shape, image, slot, r->asked.column) - (uint64_t) r->asked.least <
			   r->asked.span;
}

static void
add_value(const gjd_shape *shape, const gjd_aggregate *aggregate, int64_t value, uint64_t weight,
		  uint64_t *words)
{
	switch (aggregate->kind)
	{
		case GJD_COUNT_VALUES:
			words[0] += weight;
			break;
		case GJD_SUM:
			if (gjd_aggregate_words(aggregate, shape) == 1)
				words[0] += (uint64_t) value * weight;
			else
			{
				words[0] += (uint32_t) value * weight;
				words[1] += (uint64_t) (value >> 32) * weight;
			}
			break;
		case GJD_MIN:
			if (value < (int64_t) words[0])
				words[0] = (uint64_t) value;
			break;
		default:
			if (value > (int64_t) words[0])
				words[0] = (uint64_t) value;
			break;
	}
}

/* Gets the first words of the element that a row belongs to, but the number of rows. */
static void
get_group_values(const reducing *r, const gjd_shape *shape, const char *image, uint32_t slot,
				 uint64_t *words)
{
	words[1] = words[2] = 0;
	for (uint32_t i = 0; i < r->asked.n_columns; i++)
	{
		bool null = column_is_null(shape, image, slot, r->asked.columns[i]);
		uint64_t value = (uint64_t) value_at(shape, image, slot, r->asked.columns[i]);

		words[i == 0 ? 0 : GJD_GROUP_WORDS + i - 1] = null ? 0 : value;
		words[1] |= (uint64_t) null << i;
	}
}

/*
 * Looks up the group of a row by the values of columns, which are copied. Returns true if it
 * exists; *found is its place in the table, or the free one that it would take.
 */
static bool
look_up(const reducing *r, const gjd_shape *shape, const char *image, uint32_t slot,
		uint64_t *values, uint64_t *found)
{
	uint32_t n = gjd_group_words(&r->asked);
	uint64_t hash = 0;
	uint64_t place;

	get_group_values(r, shape, image, slot, values);
	for (uint32_t i = 0; i < n; i++)
	{
		hash = (hash ^ values[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	for (place = hash % r->n_places; r->places[place] != 0; place = (place + 1) % r->n_places)
	{
		const uint64_t *words = r->groups + (r->places[place] - 1) * (uint64_t) r->words;

		if (memcmp(words, values, 2 * sizeof(*values)) != 0 ||
			memcmp(words + GJD_GROUP_WORDS, values + GJD_GROUP_WORDS,
				   (n - GJD_GROUP_WORDS) * sizeof(*values)) != 0)
			continue;
		*found = place;
		return true;
	}
	*found = place;
	return false;
}

/*
 * Finds the group of a row by the values of columns, or appends it. Returns false if there is no
 * room.
 */
static bool
find_group(reducing *r, const gjd_shape *shape, const char *image, uint32_t slot, uint64_t *group)
{
	uint64_t values[GJD_GROUP_WORDS + GJD_MAX_GROUP_COLUMNS];
	uint64_t place;

	if (look_up(r, shape, image, slot, values, &place))
	{
		*group = r->places[place] - 1;
		return true;
	}
	if (r->n_groups == r->asked.room)
		return false;
	*group = r->n_groups++;
	r->places[place] = (uint32_t) r->n_groups;
	memcpy(r->groups + *group * r->words, values, gjd_group_words(&r->asked) * sizeof(*values));
	set_first_values(r, shape, *group);
	return true;
}

/* Notes the group that has the values of a row of the rest, if any. All rows have been reduced. */
void
share_row(gjd_match *match, const char *image, uint32_t slot)
{
	reducing *r = match->reducing;
	uint64_t values[GJD_GROUP_WORDS + GJD_MAX_GROUP_COLUMNS];
	uint64_t place;

	if (look_up(r, &match->column->shape, image, slot, values, &place))
		r->shared[r->places[place] - 1] = 1;
}

/*
 * Returns the first words of a row's group, whose value is filled in; NULL if there is no room for
 * the group.
 */
static uint64_t *
group_of(reducing *r, const gjd_match *match, const char *image, uint32_t slot, uint64_t rank)
{
	const gjd_shape *shape = &match->column->shape;
	bool by_value = r->asked.grouping == GJD_BY_VALUE;
	uint64_t value = 0;
	bool null = false;
	uint64_t group = 0;
	uint64_t *words;

	if (r->asked.grouping == GJD_BY_COLUMNS)
		return find_group(r, shape, image, slot, &group) ? r->groups + group * r->words : NULL;
	if (r->asked.grouping == GJD_BY_KEY || by_value)
	{
		value = !by_value && match->rest_column > 0
					? rank
					: (uint64_t) value_at(shape, image, slot, by_value ? r->asked.column : 0);
		null = by_value && column_is_null(shape, image, slot, r->asked.column);
		group = !by_value ? rank : null ? r->asked.span : value - (uint64_t) r->asked.least;
	}
	words = r->groups + group * r->words;
	words[0] = null ? 0 : value;
	words[1] = null;
	return words;
}

static void
note_value(reducing *r, const gjd_shape *shape, const char *image, uint32_t slot)
{
	uint64_t place = (uint64_t) value_at(shape, image, slot, r->asked.column) -
					 (uint64_t) r->asked.least;

	if (column_is_null(shape, image, slot, r->asked.column))
		r->state.nulls++;
	else
		r->groups[place / 64] |= (uint64_t) 1 << place % 64;
}

void
reduce_row(gjd_match *match, const char *image, uint32_t slot)
{
	reducing *r = match->reducing;
	const gjd_shape *shape = &match->column->shape;
	uint64_t rank = 0;
	uint64_t weight = 1;
	uint64_t *words;

	r->state.rows++;
	if (r->asked.grouping == GJD_DISTINCT)
	{
		note_value(r, shape, image, slot);
		return;
	}
	if (r->asked.grouping == GJD_BY_KEY || r->weights != NULL)
		rank = rank_of(match, image, slot);
	if (r->weights != NULL)
		weight = r->weights[rank];
	words = r->too_many ? NULL : group_of(r, match, image, slot, rank);
	if (words == NULL)
	{
		r->too_many = true;
		return;
	}
	words[2] += weight;
	words += gjd_group_words(&r->asked);
	for (uint32_t i = 0; i < r->asked.n_aggregates; i++)
	{
		const gjd_aggregate *aggregate = &r->asked.aggregates[i];

		if (!column_is_null(shape, image, slot, aggregate->column))
			add_value(shape, aggregate, value_at(shape, image, slot, aggregate->column), weight,
					  words);
		words += gjd_aggregate_words(aggregate, shape);
	}
}

/* Leaves groups without rows out, and counts the others. */
void
finish_groups(gjd_match *match)
{
	reducing *r = match->reducing;

	if (r->asked.grouping == GJD_DISTINCT)
	{
		for (uint64_t i = 0; i < r->n_groups; i++)
			for (uint64_t bits = r->groups[i]; bits != 0; bits &= bits - 1)
				r->state.groups++;
		r->state.elements = r->n_groups;
		return;
	}
	for (uint64_t i = 0; i < r->n_groups; i++)
	{
		if (r->groups[i * r->words + 2] == 0 && r->asked.grouping != GJD_ONE_GROUP)
			continue;
		r->state.groups += r->groups[i * r->words + 2] > 0 || r->asked.grouping != GJD_ONE_GROUP;
		if (r->asked.only_shared && !r->shared[i])
			continue;
		memmove(r->groups + r->state.elements * r->words, r->groups + i * r->words, r->words * 8);
		r->state.elements++;
	}
}

/* ---- delivery ------------------------------------------------------------------------------ */

void
copy_groups(gjd_match *match, void *buffer, uint64_t capacity)
{
	reducing *r = match->reducing;
	uint64_t left = r->state.elements - r->state.begun;
	uint64_t n = left < capacity ? left : capacity;

	if (n > 0)
		memcpy(buffer, r->groups + r->state.begun * r->words, n * r->words * 8);
	r->state.begun += n;
}

gjd_status
match_reduced(gjd_match *match, gjd_reduced *reduced, gjd_error *error)
{
	uint32_t size;

	if (match == NULL || reduced == NULL || reduced->struct_size < sizeof(*reduced) ||
		match->reducing == NULL || !match->state.ready)
		return fail(error, GJD_INVALID, 0, "no reduction that is ready");
	size = reduced->struct_size;
	*reduced = match->reducing->state;
	reduced->struct_size = size;
	return GJD_OK;
}

gjd_status
match_groups(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk,
			 gjd_error *error)
{
	uint32_t delay;
	gjd_status status;

	if (match == NULL || buffer == NULL || capacity == 0 || chunk == NULL ||
		match->reducing == NULL || !match->state.ready)
		return fail(error, GJD_INVALID, 0, "no reduction that is ready");
	chunk->first = match->reducing->state.begun;
	chunk->items = 0;
	status = play_fault(match->column->device, GJD_AT_NEXT, &delay, error);
	if (status != GJD_OK)
		return status;
	copy_groups(match, buffer, capacity);
	chunk->items = match->reducing->state.begun - chunk->first;
	if (chunk->items > 0)
		match->done = due_in(delay);
	return GJD_OK;
}
