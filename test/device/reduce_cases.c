/*
 * reduce_cases.c
 *	  Reductions: groups of all kinds, and the rest.
 */
#include "reduce_model.h"

/* ---- the result that the library has given --------------------------------------- */

/* Fetches groups in chunks of a given capacity, or as many as fit. */
static gjd_status
collect_groups(library *lib, gjd_match *match, outcome *o, const char *first, uint64_t capacity)
{
	uint32_t bytes = o->reduced.element_bytes;
	uint64_t room = lib->arena_bytes / 4 / bytes;
	uint64_t n = o->reduced.delivered;
	gjd_status status = GJD_OK;

	o->elements = malloc(o->reduced.elements * bytes + 8);
	memcpy(o->elements, first, n * bytes);
	if (capacity > 0 && capacity < room)
		room = capacity;
	while (status == GJD_OK && n < o->reduced.elements)
	{
		char *buffer = lib->arena;
		gjd_match_state state;
		gjd_chunk chunk;

		status = lib->api->match_groups(match, buffer, room, &chunk, NULL);
		if (status == GJD_OK)
			status = wait_match(lib, match, &state);
		if (status == GJD_OK && (chunk.first != n || chunk.items == 0))
			status = GJD_INTERNAL;
		if (status != GJD_OK)
			break;
		memcpy((char *) o->elements + n * bytes, buffer, chunk.items * bytes);
		n += chunk.items;
	}
	if (status == GJD_OK)
		status = lib->api->match_reduced(match, &o->reduced, NULL);
	return status == GJD_OK && o->reduced.delivered != o->reduced.elements ? GJD_INTERNAL : status;
}

/* If a capacity of groups is given, the match returns some groups, and chunks of this capacity
 * return the others. */
static outcome
run_reduction(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset,
			  gjd_keyset *of_others, const task *t, uint64_t capacity)
{
	gjd_reduction asked = t->asked;
	gjd_match_params params = {.struct_size = sizeof(params),
							   .what = GJD_ENTRIES,
							   .want = m->want,
							   .any_order = 1,
							   .rest_column = m->rest_column,
							   .filter = m->filter,
							   .reduction = &asked};
	delivery d = {capacity, true, 0, false};
	gjd_match_state state;
	gjd_match *match;
	outcome o = {.status = GJD_OK};

	asked.struct_size = sizeof(asked);
	if (capacity > 0)
	{
		asked.first_groups = lib->arena + lib->arena_bytes / 2;
		asked.first_capacity = capacity;
	}
	memset(lib->arena, 0x5a, 1 << 20);
	o.status = begin_crowded(lib, column, keyset, of_others, &params, &match);
	if (o.status != GJD_OK)
		return o;
	o.status = wait_match(lib, match, &state);
	memset(&o.reduced, 0x5a, sizeof(o.reduced));
	o.reduced.struct_size = sizeof(o.reduced);
	if (o.status == GJD_OK)
		o.status = lib->api->match_reduced(match, &o.reduced, NULL);
	if (o.status == GJD_OK)
		o.status = collect_groups(lib, match, &o, lib->arena + lib->arena_bytes / 2, capacity);
	if (o.status != GJD_OK)
	{
		end_match(lib, match);
		return o;
	}
	answer rest = collect_match(lib, m, match, GJD_ENTRIES, NULL, d);

	o.status = rest.status;
	o.matched = rest.matched;
	o.n_rest = rest.items;
	o.rest = rest.data;
	o.item_bytes = rest.item_bytes;
	if (t->asked.grouping != GJD_DISTINCT)
		sort_items(o.elements, o.reduced.elements, o.reduced.element_bytes);
	sort_items(o.rest, o.n_rest, o.item_bytes);
	return o;
}

static bool
same_outcome(const outcome *a, const outcome *b)
{
	const gjd_reduced *x = &a->reduced;
	const gjd_reduced *y = &b->reduced;

	if (a->status == GJD_TOO_MANY && b->status == GJD_TOO_MANY)
		return true;
	if (a->status != b->status || a->matched != b->matched || a->n_rest != b->n_rest ||
		a->item_bytes != b->item_bytes || x->element_bytes != y->element_bytes ||
		x->rows != y->rows || x->nulls != y->nulls || x->groups != y->groups ||
		x->elements != y->elements || x->n_newer != y->n_newer ||
		memcmp(x->newer, y->newer, x->n_newer * sizeof(uint32_t)) != 0)
	{
		note("status %d %d, matched %llu %llu, rest %llu %llu, rows %llu %llu, groups %llu %llu, "
			 "elements %llu %llu, nulls %llu %llu, newer %u %u",
			 a->status, b->status, (unsigned long long) a->matched,
			 (unsigned long long) b->matched, (unsigned long long) a->n_rest,
			 (unsigned long long) b->n_rest, (unsigned long long) x->rows,
			 (unsigned long long) y->rows, (unsigned long long) x->groups,
			 (unsigned long long) y->groups, (unsigned long long) x->elements,
			 (unsigned long long) y->elements, (unsigned long long) x->nulls,
			 (unsigned long long) y->nulls, x->n_newer, y->n_newer);
		return false;
	}
	if (memcmp(a->elements, b->elements, x->elements * x->element_bytes) != 0)
	{
		note("the groups differ");
		return false;
	}
	return memcmp(a->rest, b->rest, a->n_rest * a->item_bytes) == 0;
}

/* Runs a reduction in each library, in two ways of delivery. */
void
check_reduction(library *libs, int n, const model *m, key_set set, const task *t,
				gjd_column *const *columns, bool *good)
{
	outcome expected = expected_outcome(m, t, set);
	bool is_mine = test_is_mine();

	for (int i = 0; i < n && is_mine; i++)
	{
		if ((gjd_reduction_capability(&t->asked) & ~libs[i].api->capabilities) != 0)
			continue;
		for (uint64_t capacity = 0; capacity <= 7 && good[i]; capacity += 7)
		{
			open_crowd(&libs[i]);

			gjd_keyset *keyset = make_keyset_of(&libs[i], m, set, GJD_BY_AUTO);
			gjd_keyset *other = tests_are_crowded ? make_keyset_of(&libs[i], m, set, GJD_BY_AUTO)
												  : keyset;
			outcome o = run_reduction(&libs[i], m, columns[i], keyset, other, t, capacity);

			good[i] = same_outcome(&o, &expected);
			if (!good[i])
				note("%s: grouping %u, column %u, %u aggregates, capacity %llu",
					 libs[i].api->name, t->asked.grouping, t->asked.column, t->asked.n_aggregates,
					 (unsigned long long) capacity);
			free_outcome(&o);
			libs[i].api->keyset_destroy(keyset, NULL);
			if (other != keyset)
				libs[i].api->keyset_destroy(other, NULL);
			/* chunks of a few elements take long for many */
			if (expected.reduced.elements + expected.n_rest > (test_is_small() ? 50 : 2000))
				break;
		}
	}
	free_outcome(&expected);
}

/* ---- models and tasks ---------------------------------------------------------------------- */

/* Carried columns of each width, with and without NULLs, of values near 0 and at the ends. */
model *
make_values(uint32_t key_bytes, uint32_t slots, uint64_t rows, uint32_t keys, bool in_order)
{
	model *m = make_model(key_bytes, slots, (rows + slots - 1) / slots);
	uint64_t seed = rows + key_bytes;

	for (uint64_t i = 0; i < m->pages * slots; i++)
	{
		uint64_t number = in_order ? i * keys / (m->pages * slots) : random64(&seed) % keys;

		set_row(m, i, (int64_t) number - keys / 2, i < rows && i % 19 != 3);
	}
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
	{
		add_carried(m, bytes, false);
		add_carried(m, bytes, true);
	}
	for (uint32_t c = 0; c < m->shape.n_carried; c++)
		for (uint64_t i = 0; i < m->pages * slots; i++)
		{
			uint64_t least = (uint64_t) 1 << (8 * m->shape.carried_bytes[c] - 1);
			uint64_t what = random64(&seed) % 40;

			m->carried[c][i] = what == 38	? least
							   : what == 39 ? least - 1
											: random64(&seed) % 50 - 25;
		}
	return m;
}

key_set
some_keys(uint32_t keys, uint32_t step)
{
	key_set set = {malloc(((uint64_t) keys + 4) * sizeof(int64_t)), 0};

	for (int64_t key = -(int64_t) (keys / 2) - 3; key < (int64_t) (keys / 2); key += step)
		set.keys[set.count++] = key;
	return set;
}

void
all_aggregates(task *t, uint32_t first_column)
{
	t->asked.n_aggregates = GJD_MAX_AGGREGATES;
	for (uint32_t i = 0; i < GJD_MAX_AGGREGATES; i++)
		t->asked.aggregates[i] = (gjd_aggregate){i % 4, (first_column + i / 4) % 9};
}

/* Each way of grouping, by columns of each width, with different aggregates. */
static void
check_groupings(library *libs, int n, const model *m, key_set set, task *t,
				gjd_column *const *columns, bool *good)
{
	for (uint32_t first = 0; first < 9; first += test_is_small() ? 4 : 1)
	{
		all_aggregates(t, first);
		t->asked.column = first;
		t->asked.least = -20;
		t->asked.span = first % 2 ? 40 : 37;
		for (uint32_t grouping = GJD_ONE_GROUP; grouping <= GJD_BY_VALUE; grouping++)
		{
			t->asked.grouping = grouping;
			check_reduction(libs, n, m, set, t, columns, good);
			if (first % 4 == 0)
			{
				t->asked.n_aggregates = first / 4;
				check_reduction(libs, n, m, set, t, columns, good);
				all_aggregates(t, first);
			}
		}
		t->asked.grouping = GJD_DISTINCT;
		t->asked.n_aggregates = 0;
		t->asked.span = 64;
		check_reduction(libs, n, m, set, t, columns, good);
	}
}

/* The same grouped by columns, with room for all groups, for just as many, and for one less. */
static void
check_column_groups(library *libs, int n, const model *m, key_set set, task *t,
					gjd_column *const *columns, bool *good)
{
	uint32_t step = test_is_small() || m->pages > 40 ? 4 : 1;

	t->asked.grouping = GJD_BY_COLUMNS;
	for (uint32_t first = 0; first < 9; first += step)
	{
		outcome all;

		all_aggregates(t, first);
		t->asked.n_aggregates = first % 3 * 4;
		t->asked.n_columns = 1 + first % GJD_MAX_GROUP_COLUMNS;
		for (uint32_t i = 0; i < t->asked.n_columns; i++)
			t->asked.columns[i] = (first + i * 2) % 9;
		t->asked.room = m->pages * m->shape.slots + 1;
		check_reduction(libs, n, m, set, t, columns, good);
		all = expected_outcome(m, t, set);
		for (uint64_t less = 0; less < 2 && all.reduced.groups > less; less++)
		{
			t->asked.room = all.reduced.groups - less;
			check_reduction(libs, n, m, set, t, columns, good);
		}
		free_outcome(&all);
		/* only groups that rows of the rest have, too: none if all blocks are all-visible */
		t->asked.only_shared = 1;
		check_reduction(libs, n, m, set, t, columns, good);
		t->asked.room = m->pages * m->shape.slots + 1;
		check_reduction(libs, n, m, set, t, columns, good);
		t->asked.only_shared = 0;
	}
	/* distinct rows that differ in a NULL only, or not at all */
	t->asked.n_aggregates = 0;
	t->asked.n_columns = 3;
	t->asked.columns[0] = t->asked.columns[1] = t->asked.columns[2] = 2;
	t->asked.room = GJD_MAX_COLUMN_GROUPS;
	check_reduction(libs, n, m, set, t, columns, good);
}

/* Keys with weights, in each way of grouping that they allow. */
static void
check_weights(library *libs, int n, const model *m, key_set set, task *t,
				 gjd_column *const *columns, bool *good)
{
	uint32_t *weights = malloc((set.count + 1) * sizeof(*weights));

	for (uint64_t i = 0; i < set.count; i++)
		weights[i] = (uint32_t) (1 + i % 5);
	t->asked.n_keys = set.count;
	t->asked.column = 2;
	t->asked.least = -20;
	t->asked.span = 37;
	t->asked.n_columns = 2;
	t->asked.columns[0] = 2;
	t->asked.columns[1] = 0;
	t->asked.room = 5000;
	t->asked.weights = weights;
	for (uint32_t first = 0; first < 9; first += 4)
	{
		all_aggregates(t, first);
		for (uint32_t grouping = GJD_ONE_GROUP; grouping <= GJD_BY_COLUMNS; grouping++)
		{
			if (grouping == GJD_DISTINCT)
				continue;
			t->asked.grouping = grouping;
			check_reduction(libs, n, m, set, t, columns, good);
		}
	}
	t->asked.weights = NULL;
	t->asked.n_keys = 0;
	free(weights);
}

static void
check_groups(library *libs, int n, const model *m, key_set set, task *t,
			 gjd_column *const *columns, bool *good)
{
	check_column_groups(libs, n, m, set, t, columns, good);
	check_weights(libs, n, m, set, t, columns, good);
}

/* Checks of a model's reductions, all of which are described by name */
typedef struct checks
{
	const char *name;
	void (*check)(library *libs, int n, const model *m, key_set set, task *t,
				  gjd_column *const *columns, bool *good);
} checks;

static void
test_groupings(library *libs, int n, checks c, uint32_t key_bytes, uint32_t slots, uint64_t rows,
			   uint32_t keys, bool in_order)
{
	model *m = make_values(key_bytes, slots, rows, keys, in_order);
	key_set set = some_keys(keys, keys > 100 ? 1 : 2);
	uint8_t map[64];
	uint32_t left_out[] = {0, 2, 7};
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	task t = {.asked = {.bound = 1, .visible_below = UINT32_MAX / 4 * 4}};

	for (int i = 0; i < n; i++)
		good[i] = (columns[i] = make_column(&libs[i], m)) != NULL;
	c.check(libs, n, m, set, &t, columns, good);

	/* a map with holes, pages that are left out, marked values, a filter */
	for (uint32_t i = 0; i < sizeof(map); i++)
		map[i] = (uint8_t) (i * 0x9d + 0x71);
	t.asked.visible_below = 4;
	t.asked.map = map;
	t.asked.map_bytes = sizeof(map);
	t.asked.left_out = left_out;
	t.asked.n_left_out = 3;
	t.asked.marked = 0x2c;
	m->filter = (gjd_filter){
		.n = 2, .conditions = {{3, GJD_BETWEEN, -20, 24}, {8, GJD_IS_NOT_NULL, 0, 0}}};
	c.check(libs, n, m, set, &t, columns, good);
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: %s: %llu rows, %u-byte keys, set of %llu, %s", libs[i].api->name, c.name,
		   (unsigned long long) rows, key_bytes, (unsigned long long) set.count,
		   in_order ? "in order" : "at random");
		destroy_column(&libs[i], columns[i]);
	}
	free(set.keys);
	free_model(m);
}

/* Sums at the ends of their words: many rows with the least or the greatest value. */
static void
test_large_sums(library *libs, int n)
{
	uint64_t rows = test_is_small() ? 4096 : 300000;
	model *m = make_model(4, 512, rows / 512);
	int64_t keys[] = {5, 6, 7};
	uint32_t weights[] = {3, 7, 1};
	key_set set = {keys, 3};
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	task t = {.asked = {.bound = 1, .visible_below = UINT32_MAX / 4 * 4}};

	add_carried(m, 4, false);
	add_carried(m, 8, false);
	for (uint64_t i = 0; i < m->pages * 512; i++)
	{
		uint64_t key = 5 + i % 3;

		set_row(m, i, (int64_t) key, true);
		m->carried[0][i] = key == 5 ? (uint64_t) INT32_MIN : key == 6 ? INT32_MAX : -(i % 2);
		m->carried[1][i] = key == 5 ? (uint64_t) INT64_MIN : key == 6 ? INT64_MAX : -(i % 2);
	}
	for (int i = 0; i < n; i++)
		good[i] = (columns[i] = make_column(&libs[i], m)) != NULL;
	t.asked.n_aggregates = 4;
	for (uint32_t i = 0; i < 4; i++)
		t.asked.aggregates[i] = (gjd_aggregate){i < 3 ? GJD_SUM : GJD_MIN, i % 3};
	for (uint32_t grouping = GJD_ONE_GROUP; grouping <= GJD_BY_VALUE; grouping++)
	{
		t.asked.grouping = grouping;
		t.asked.least = 5;
		t.asked.span = 3;
		check_reduction(libs, n, m, set, &t, columns, good);
	}
	t.asked.grouping = GJD_BY_COLUMNS;
	t.asked.n_columns = 1;
	t.asked.columns[0] = 2;
	t.asked.room = 4;
	check_reduction(libs, n, m, set, &t, columns, good);
	t.asked.weights = weights;
	t.asked.n_keys = 3;
	check_reduction(libs, n, m, set, &t, columns, good);
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: reduction: sums of the least and greatest values", libs[i].api->name);
		destroy_column(&libs[i], columns[i]);
	}
	free_model(m);
}

/* Many groups, a large bitmap, and a rest that is larger than the first window. */
static void
test_many(library *libs, int n)
{
	uint64_t rows = test_rows(8192, 1300000);
	uint32_t keys = test_is_small() ? 1000 : 60000;
	model *m = make_model(4, 512, (rows + 511) / 512);
	key_set set = some_keys(keys, 1);
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	task t = {.asked = {.bound = 1, .visible_below = UINT32_MAX / 4 * 4}};
	uint64_t seed = 5;

	add_carried(m, 4, true);
	for (uint64_t i = 0; i < m->pages * 512; i++)
	{
		set_row(m, i, (int64_t) (random64(&seed) % keys) - keys / 2, true);
		m->carried[0][i] = random64(&seed) % 1000000;
	}
	for (int i = 0; i < n; i++)
		good[i] = (columns[i] = make_column(&libs[i], m)) != NULL;
	t.asked.n_aggregates = 1;
	t.asked.aggregates[0] = (gjd_aggregate){GJD_SUM, 1};
	t.asked.column = 1;
	t.asked.span = 700000;
	/* grouping by key with a set this large would take the model's search too long */
	t.asked.grouping = GJD_BY_VALUE;
	check_reduction(libs, n, m, set, &t, columns, good);
	t.asked.grouping = GJD_DISTINCT;
	t.asked.n_aggregates = 0;
	t.asked.span = 64 * 15000;
	check_reduction(libs, n, m, set, &t, columns, good);
	t.asked.visible_below = 16;
	check_reduction(libs, n, m, set, &t, columns, good);
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: reduction: many groups, a large bitmap, a long rest", libs[i].api->name);
		destroy_column(&libs[i], columns[i]);
	}
	free(set.keys);
	free_model(m);
}

/* Nearly as many groups as rows, far more than room, and few groups that all rows are in. */
static void
test_many_groups(library *libs, int n)
{
	uint64_t rows = test_rows(8192, 800000);
	model *m = make_model(4, 512, (rows + 511) / 512);
	int64_t keys[] = {1};
	key_set set = {keys, 1};
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	task t = {.asked = {.bound = 1, .visible_below = UINT32_MAX / 4 * 4,
						.grouping = GJD_BY_COLUMNS, .n_columns = 2, .columns = {1, 2},
						.room = rows, .n_aggregates = 1, .aggregates = {{GJD_SUM, 1}}}};
	uint64_t seed = 6;

	add_carried(m, 4, true);
	add_carried(m, 2, false);
	for (uint64_t i = 0; i < m->pages * 512; i++)
	{
		set_row(m, i, 1, true);
		m->carried[0][i] = random64(&seed) % 1000000;
		m->carried[1][i] = random64(&seed) % 40;
	}
	for (int i = 0; i < n; i++)
		good[i] = (columns[i] = make_column(&libs[i], m)) != NULL;
	check_reduction(libs, n, m, set, &t, columns, good);
	t.asked.only_shared = 1;
	t.asked.visible_below = rows / 157 / 8 * 4; /* half of the blocks */
	check_reduction(libs, n, m, set, &t, columns, good);
	t.asked.only_shared = 0;
	t.asked.visible_below = UINT32_MAX / 4 * 4;
	t.asked.room = 50;
	check_reduction(libs, n, m, set, &t, columns, good);
	t.asked.n_columns = 1;
	t.asked.columns[0] = 2;
	check_reduction(libs, n, m, set, &t, columns, good);
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: groups: very many, too many, few", libs[i].api->name);
		destroy_column(&libs[i], columns[i]);
	}
	free_model(m);
}

static void
test_models(library *libs, int n, checks c)
{
	static const uint64_t sizes[] = {0, 1, 31, 1023, 1024, 1025, 4097};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i += test_is_small() ? 3 : 1)
		test_groupings(libs, n, c, i % 2 ? 8 : 4, 32, sizes[i], 20, i % 3 == 0);
	test_groupings(libs, n, c, 4, 800, test_rows(8000, 60000), 300, true);
	test_groupings(libs, n, c, 4, 800, test_rows(8000, 60000), 300, false);
	test_groupings(libs, n, c, 8, 576, test_rows(6000, 40000), 6, true);
}

void
test_reductions(library *libs, int n)
{
	test_models(libs, n, (checks){"reduction", check_groupings});
	test_short_reductions(libs, n);
	test_large_sums(libs, n);
	test_many(libs, n);
}

void
test_groups(library *libs, int n)
{
	test_models(libs, n, (checks){"groups", check_groups});
	test_many_groups(libs, n);
}
