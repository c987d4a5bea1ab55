/*
 * reduce_model.c
 *	  See reduce_model.h.
 */
#include "reduce_model.h"

static uint32_t sorted_bytes; /* the size of an element or item in compare_bytes() */

static int
compare_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sorted_bytes);
}

void
sort_items(void *items, uint64_t n, uint32_t bytes)
{
	sorted_bytes = bytes;
	if (n > 1)
		qsort(items, n, bytes, compare_bytes);
}

void
free_outcome(outcome *o)
{
	free(o->elements);
	free(o->rest);
}

/* ---- the right result ---------------------------------------------------------------------- */

static int64_t
value_of(const model *m, uint64_t row, uint32_t column)
{
	uint32_t unused = 64 - 8 * gjd_column_bytes(&m->shape, column);

	if (column == 0)
		return m->keys[row];
	return (int64_t) (m->carried[column - 1][row] << unused) >> unused;
}

static bool
value_is_null(const model *m, uint64_t row, uint32_t column)
{
	return column > 0 && m->nulls[column - 1][row] != 0;
}

static bool
value_is_marked(const model *m, uint64_t row, uint32_t column, uint32_t marked)
{
	return column > 0 && (marked >> (column - 1) & 1) != 0 && !value_is_null(m, row, column) &&
		   value_of(m, row, column) ==
			   INT64_MIN >> (64 - 8 * gjd_column_bytes(&m->shape, column));
}

static bool
holds(const model *m, uint64_t row, const gjd_condition *condition)
{
	int64_t value = value_of(m, row, condition->column);
	bool null = value_is_null(m, row, condition->column);
	bool inside = value >= condition->low && value <= condition->high;

	switch (condition->test)
	{
		case GJD_BETWEEN:
			return !null && inside;
		case GJD_OUTSIDE:
			return !null && !inside;
		case GJD_IS_NULL:
			return null;
		default:
			return !null;
	}
}

static bool
passes(const model *m, uint64_t row, uint32_t marked)
{
	for (uint32_t i = 0; i < m->filter.n; i++)
	{
		const gjd_condition *condition = &m->filter.conditions[i];

		if (!value_is_marked(m, row, condition->column, marked) && !holds(m, row, condition))
			return false;
	}
	return true;
}

static bool
is_left_out(const task *t, uint64_t page)
{
	for (uint32_t i = 0; i < t->asked.n_left_out; i++)
		if (t->asked.left_out[i] == page)
			return true;
	return (t->versions ? t->versions[page] : 1) > t->asked.bound;
}

/* ---- groups of columns --------------------------------------------------------------------- */

/* Input of compare_rows() */
static const model *compared_model;
static const task *compared_task;

static int
compare_rows(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *) a;
	uint64_t y = *(const uint64_t *) b;

	for (uint32_t i = 0; i < compared_task->asked.n_columns; i++)
	{
		uint32_t column = compared_task->asked.columns[i];
		bool x_null = value_is_null(compared_model, x, column);
		bool y_null = value_is_null(compared_model, y, column);
		int64_t x_value = value_of(compared_model, x, column);
		int64_t y_value = value_of(compared_model, y, column);

		if (x_null != y_null)
			return x_null ? 1 : -1;
		if (!x_null && x_value != y_value)
			return x_value > y_value ? 1 : -1;
	}
	return 0;
}

/* Returns the number of each row's group by columns; *n gets the number of groups. */
static uint64_t *
number_groups(const model *m, const task *t, uint64_t *n)
{
	uint64_t rows = m->pages * m->shape.slots;
	uint64_t *order = malloc((rows + 1) * sizeof(*order));
	uint64_t *numbers = malloc((rows + 1) * sizeof(*numbers));

	for (uint64_t row = 0; row < rows; row++)
		order[row] = row;
	compared_model = m;
	compared_task = t;
	qsort(order, rows, sizeof(*order), compare_rows);
	*n = rows > 0;
	for (uint64_t i = 0; i < rows; i++)
	{
		*n += i > 0 && compare_rows(&order[i - 1], &order[i]) != 0;
		numbers[order[i]] = *n - 1;
	}
	free(order);
	return numbers;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/*
 * Returns the group of a row, or UINT64_MAX if it belongs to the rest; numbers are those of groups
 * by columns.
 */
static uint64_t
group_of(const model *m, const task *t, key_set set, const uint64_t *numbers, uint64_t row)
{
	uint64_t behind = m->blocks[row] - t->asked.visible_below;
	uint64_t group = 0;

	if (m->blocks[row] >= t->asked.visible_below &&
		(behind / 4 >= t->asked.map_bytes ||
		 (t->asked.map[behind / 4] >> behind % 4 * 2 & 1) == 0))
		return UINT64_MAX;
	for (uint32_t c = 1; c <= m->shape.n_carried; c++)
		if (value_is_marked(m, row, c, t->asked.marked))
			return UINT64_MAX;
	if (t->asked.grouping == GJD_BY_COLUMNS)
		return numbers[row];
	if (t->asked.grouping == GJD_BY_KEY)
		return rank_of_row(m, set, row);
	if (t->asked.grouping == GJD_BY_VALUE || t->asked.grouping == GJD_DISTINCT)
	{
		group = (uint64_t) value_of(m, row, t->asked.column) - (uint64_t) t->asked.least;
		if (value_is_null(m, row, t->asked.column))
			group = t->asked.span;
		else if (group >= t->asked.span)
			return UINT64_MAX;
	}
	return group;
}

/* Sets the values that rows of the group have in common. */
static void
set_values(const model *m, const task *t, uint64_t row, uint64_t rank, uint64_t *words)
{
	switch (t->asked.grouping)
	{
		case GJD_BY_KEY:
			words[0] = m->rest_column > 0 ? rank : (uint64_t) m->keys[row];
			break;
		case GJD_BY_VALUE:
			words[1] = value_is_null(m, row, t->asked.column);
			words[0] = words[1] ? 0 : (uint64_t) value_of(m, row, t->asked.column);
			break;
		case GJD_BY_COLUMNS:
			for (uint32_t i = 0; i < t->asked.n_columns; i++)
				if (value_is_null(m, row, t->asked.columns[i]))
					words[1] |= (uint64_t) 1 << i;
				else
					words[i == 0 ? 0 : i + 2] = (uint64_t) value_of(m, row, t->asked.columns[i]);
			break;
		default:
			break;
	}
}

static void
add_row(const model *m, const task *t, uint64_t row, uint64_t weight, uint64_t *words)
{
	words[2] += weight;
	words += gjd_group_words(&t->asked);
	for (uint32_t i = 0; i < t->asked.n_aggregates; i++)
	{
		const gjd_aggregate *a = &t->asked.aggregates[i];
		int64_t value = value_of(m, row, a->column);
		uint32_t n = gjd_aggregate_words(a, &m->shape);
		bool null = value_is_null(m, row, a->column);

		/* a row counts as often as its weight says */
		for (uint64_t time = 0; time < weight && !null; time++)
			if (a->kind == GJD_COUNT_VALUES)
				words[0]++;
			else if (a->kind == GJD_SUM && n == 2)
			{
				words[0] += (uint64_t) value & UINT32_MAX;
				words[1] += (uint64_t) (value >> 32);
			}
			else if (a->kind == GJD_SUM)
				words[0] += (uint64_t) value;
			else if ((a->kind == GJD_MIN) == (value < (int64_t) words[0]))
				words[0] = (uint64_t) value;
		words += n;
	}
}

static uint64_t
possible_groups(const task *t, key_set set)
{
	return t->asked.grouping == GJD_BY_KEY	   ? set.count
		   : t->asked.grouping == GJD_BY_VALUE ? t->asked.span + 1
		   : t->asked.grouping == GJD_DISTINCT ? t->asked.span / 64
											   : 1;
}

/*
 * Fills in the elements from the groups, which may be without rows; shared has those whose values a
 * row of the rest has.
 */
static void
keep_groups(const task *t, outcome *o, uint64_t n, uint32_t words, const bool *shared)
{
	for (uint64_t i = 0; i < n; i++)
	{
		if (t->asked.grouping == GJD_DISTINCT)
			for (uint64_t bits = o->elements[i]; bits != 0; bits &= bits - 1)
				o->reduced.groups++;
		else if (o->elements[i * words + 2] == 0 && t->asked.grouping != GJD_ONE_GROUP)
			continue;
		else
			o->reduced.groups++;
		if (t->asked.only_shared && !shared[i])
			continue;
		memmove(o->elements + o->reduced.elements++ * words, o->elements + i * words, words * 8);
	}
	if (t->asked.grouping == GJD_DISTINCT)
		return;
	if (t->asked.grouping == GJD_ONE_GROUP && o->elements[2] == 0)
		o->reduced.groups = 0;
	sort_items(o->elements, o->reduced.elements, words * 8);
}

outcome
expected_outcome(const model *m, const task *t, key_set set)
{
	uint64_t rows = m->pages * m->shape.slots;
	uint64_t n = possible_groups(t, set);
	uint32_t words = gjd_element_words(&t->asked, &m->shape);
	bool by_columns = t->asked.grouping == GJD_BY_COLUMNS;
	uint64_t *numbers = by_columns ? number_groups(m, t, &n) : NULL;
	bool *shared = calloc(n + 1, sizeof(*shared));
	gjd_entry_layout layout;
	outcome o = {.status = GJD_OK};
	char *to;

	gjd_entry_layout_of(&m->shape, m->want, 1, &layout);
	o.item_bytes = layout.item_bytes;
	o.rest = to = malloc(rows * o.item_bytes + 8);
	o.elements = calloc(n + 1, words * 8);
	o.reduced.element_bytes = words * 8;
	for (uint64_t i = 0; i < n && t->asked.grouping != GJD_DISTINCT; i++)
	{
		uint64_t *word = o.elements + i * words + gjd_group_words(&t->asked);

		for (uint32_t a = 0; a < t->asked.n_aggregates; a++)
		{
			if (t->asked.aggregates[a].kind >= GJD_MIN)
				*word = t->asked.aggregates[a].kind == GJD_MIN ? INT64_MAX : (uint64_t) INT64_MIN;
			word += gjd_aggregate_words(&t->asked.aggregates[a], &m->shape);
		}
	}
	for (uint64_t page = 0; page < m->pages; page++)
		if ((t->versions ? t->versions[page] : 1) > t->asked.bound)
			o.reduced.newer[o.reduced.n_newer++] = (uint32_t) page;
	for (uint64_t row = 0; row < rows; row++)
	{
		uint64_t rank = rank_of_row(m, set, row);
		uint64_t group;

		if ((m->valid[row / 32] >> row % 32 & 1) == 0 || is_left_out(t, row / m->shape.slots) ||
			rank == set.count)
			continue;
		o.matched++;
		if (!passes(m, row, t->asked.marked))
			continue;
		group = group_of(m, t, set, numbers, row);
		if (group == UINT64_MAX)
		{
			put_item(m, row, &to);
			o.n_rest++;
			if (by_columns)
				shared[numbers[row]] = true;
			continue;
		}
		o.reduced.rows++;
		if (t->asked.grouping != GJD_DISTINCT)
		{
			uint64_t weight = t->asked.weights ? t->asked.weights[rank] : 1;

			set_values(m, t, row, rank, o.elements + group * words);
			add_row(m, t, row, weight, o.elements + group * words);
		}
		else if (group == t->asked.span)
			o.reduced.nulls++;
		else
			o.elements[group / 64] |= (uint64_t) 1 << group % 64;
	}
	free(numbers);
	keep_groups(t, &o, n, words, shared);
	free(shared);
	if (by_columns && o.reduced.groups > t->asked.room)
		o.status = GJD_TOO_MANY;
	sort_items(o.rest, o.n_rest, o.item_bytes);
	return o;
}
