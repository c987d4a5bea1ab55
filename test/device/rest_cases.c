/*
 * rest_cases.c
 *	  Keys that only their rests prove: sets in which many keys are equal, rows with a listed key
 *	  and another rest, in matches, reductions and limits of all kinds.
 */
#include "reduce_model.h"

#define REST 3 /* the column with rests */

typedef struct listed
{
	key_set set;
	int64_t *rests;
	uint64_t room;
} listed;

/* Rests are at the ends of their range and near zero, so that their order is tested. */
static int64_t
rest_number(uint64_t number)
{
	static const int64_t ends[] = {INT64_MIN, -1, 0, INT64_MAX};

	return number < 4 ? ends[number] : (int64_t) (number / 2) * (number % 2 ? 1 : -1);
}

static int
compare_rests(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a;
	int64_t y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

/* Lists a key, which is greater than those before, with the first n rests that have this step. */
static void
list_key(listed *l, int64_t key, uint64_t n, uint64_t step)
{
	while (l->set.count + n > l->room)
	{
		l->room = l->room * 2 + 64;
		l->set.keys = realloc(l->set.keys, l->room * sizeof(int64_t));
		l->rests = realloc(l->rests, l->room * sizeof(int64_t));
	}
	for (uint64_t i = 0; i < n; i++)
	{
		l->set.keys[l->set.count + i] = key;
		l->rests[l->set.count + i] = rest_number(i * step);
	}
	qsort(l->rests + l->set.count, n, sizeof(int64_t), compare_rests);
	l->set.count += n;
}

static void
free_listed(listed *l)
{
	free(l->set.keys);
	free(l->rests);
}

/* Rows of these keys, which are so far apart, each with one of some rests, and other columns. */
static model *
make_rows(uint64_t rows, uint32_t keys, int64_t apart, uint32_t rests, bool in_order)
{
	model *m = make_model(8, 32, (rows + 31) / 32);
	uint64_t all = m->pages * 32;
	uint64_t seed = rows + keys;

	add_carried(m, 4, true);
	add_carried(m, 2, false);
	add_carried(m, 8, keys % 4 == 0); /* some rests are NULL, and match nothing */
	add_carried(m, 8, true);
	for (uint64_t i = 0; i < all; i++)
	{
		int64_t key = (int64_t) (in_order ? i * keys / all : random64(&seed) % keys);

		set_row(m, i, (key - keys / 2) * apart, i < rows && i % 19 != 3);
		m->carried[0][i] = random64(&seed) % 50 - 25;
		m->carried[1][i] = random64(&seed) % 50 - 25;
		m->carried[REST - 1][i] = (uint64_t) rest_number(random64(&seed) % rests);
		m->carried[3][i] = random64(&seed) % 50 - 25;
	}
	m->rest_column = REST;
	return m;
}

/* Some keys of such rows, with no rest that a row has, with one, or with many. */
static listed
some_pairs(uint32_t keys, int64_t apart, uint32_t rests)
{
	listed l = {0};

	for (uint32_t i = 0; i < keys; i += 1 + i % 3)
	{
		int64_t key = ((int64_t) i - keys / 2) * apart;

		if (i % 7 == 5) /* a rest that no row has */
		{
			list_key(&l, key, 1, 0);
			l.rests[l.set.count - 1] = rest_number(rests + 10);
		}
		else
			list_key(&l, key, i % 5 == 2 ? rests / 2 + 1 : 1, i % 2 + 1);
	}
	return l;
}

/* Returns true if the library has sets with rests, and otherwise if it says so. */
static bool
has_rests(const library *lib)
{
	return (lib->api->capabilities & GJD_CAN_PROVE_RESTS) != 0;
}

/* ---- reductions ---------------------------------------------------------------------------- */

static void
check_groupings(library *libs, int n, const model *m, key_set set, task *t,
				gjd_column *const *columns, bool *good)
{
	for (uint32_t grouping = GJD_ONE_GROUP; grouping <= GJD_BY_COLUMNS; grouping++)
	{
		bool distinct = grouping == GJD_DISTINCT;

		if (distinct && t->asked.weights != NULL)
			continue;
		t->asked.grouping = grouping;
		t->asked.column = 2;
		t->asked.least = -20;
		t->asked.span = distinct ? 64 : 37;
		t->asked.n_columns = 3;
		t->asked.columns[0] = 0;
		t->asked.columns[1] = REST;
		t->asked.columns[2] = 1;
		t->asked.room = m->pages * m->shape.slots + 1;
		for (uint32_t aggregates = 0; aggregates <= GJD_MAX_AGGREGATES; aggregates += 2)
		{
			t->asked.n_aggregates = distinct ? 0 : aggregates;
			for (uint32_t i = 0; i < aggregates; i++)
				t->asked.aggregates[i] = (gjd_aggregate){i % 4, (aggregates + i / 2) % 5};
			check_reduction(libs, n, m, set, t, columns, good);
		}
	}
}

static void
check_reductions(library *libs, int n, model *m, const listed *l, gjd_column *const *columns,
				 bool *good)
{
	uint32_t *weights = malloc((l->set.count + 1) * sizeof(*weights));
	uint8_t map[64];
	uint32_t left_out[] = {0, 2, 7};
	task t = {.asked = {.bound = 1, .visible_below = UINT32_MAX / 4 * 4}};

	for (uint64_t i = 0; i < l->set.count; i++)
		weights[i] = (uint32_t) (1 + i % 5);
	for (uint32_t i = 0; i < sizeof(map); i++)
		map[i] = (uint8_t) (i * 0x9d + 0x71);
	for (int holes = 0; holes < 2; holes++)
	{
		check_groupings(libs, n, m, l->set, &t, columns, good);
		t.asked.weights = weights;
		t.asked.n_keys = l->set.count;
		check_groupings(libs, n, m, l->set, &t, columns, good);
		t.asked.weights = NULL;
		t.asked.n_keys = 0;

		/* a map with holes, pages that are left out, marked values, a filter */
		t.asked.visible_below = 4;
		t.asked.map = map;
		t.asked.map_bytes = sizeof(map);
		t.asked.left_out = left_out;
		t.asked.n_left_out = 3;
		t.asked.marked = 1;
		m->filter = (gjd_filter){.n = 1, .conditions = {{2, GJD_BETWEEN, -20, 24}}};
	}
	m->filter = (gjd_filter){.n = 0};
	free(weights);
}

/* ---- all kinds of requests ----------------------------------------------------------------- */

static void
check_rows(library *libs, int n, uint64_t rows, uint32_t keys, int64_t apart, uint32_t rests,
		   bool in_order)
{
	model *m = make_rows(rows, keys, apart, rests, in_order);
	listed l = some_pairs(keys, apart, rests);
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];

	m->rests = l.rests;
	for (int i = 0; i < n; i++)
	{
		uint64_t delivered;

		good[i] = (columns[i] = make_column(&libs[i], m)) != NULL &&
				  check_column(&libs[i], columns[i], m, l.set);
		ok(good[i], "%s: rests: matches: %llu rows, %u keys, %u rests", libs[i].api->name,
		   (unsigned long long) rows, keys, rests);
		m->filter = (gjd_filter){.n = 1, .conditions = {{1, GJD_BETWEEN, -100, 5}}};
		good[i] = check_column(&libs[i], columns[i], m, l.set);
		for (uint32_t order = 0; order < 4; order++)
			good[i] &= check_top(&libs[i], m, columns[i], l.set, (gjd_top){7, 1 + order, order},
								 &delivered);
		ok(good[i], "%s: rests: filters and limits", libs[i].api->name);
		m->filter = (gjd_filter){.n = 0};
	}
	check_reductions(libs, n, m, &l, columns, good);
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: rests: reductions", libs[i].api->name);
		destroy_column(&libs[i], columns[i]);
	}
	free_listed(&l);
	free_model(m);
}

/* More keys are equal than a page has rows, and more rows match than the first window holds. */
static void
check_large(library *libs, int n)
{
	uint64_t rows = test_rows(8192, 2600000);
	uint32_t rests = test_is_small() ? 200 : 3000;
	model *m = make_rows(rows, 3, 1, rests, false);
	listed l = {0};

	m->want = (gjd_want){0, 0};
	list_key(&l, -1, rests / 2, 2);
	list_key(&l, 0, rests, 1);
	m->rests = l.rests;
	check_model(libs, n, m, l.set, "rests: most keys are equal");
	free_listed(&l);
	free_model(m);
}

/* Pages are written to: a row gets another rest, then the set's again. */
static void
check_changes(library *lib)
{
	model *m = make_rows(320, 10, 1, 2, true);
	listed l = {0};
	gjd_column *column;
	bool good = true;

	for (int64_t key = -5; key < 5; key++)
		list_key(&l, key, 1, 1);
	m->rests = l.rests;
	column = make_column(lib, m);
	for (uint64_t version = 2; version < 6; version++)
	{
		for (uint64_t i = 0; i < 320; i++)
			m->carried[REST - 1][i] = (uint64_t) rest_number((i + version) % 3);
		good &= push_pages(lib, column, m, 0, m->pages, version) == GJD_OK &&
				check_column(lib, column, m, l.set);
	}
	ok(good, "%s: rests: of rows that change", lib->api->name);
	destroy_column(lib, column);
	free_listed(&l);
	free_model(m);
}

/* ---- parameters ---------------------------------------------------------------------------- */

static bool
is_refused(library *lib, uint32_t key_bytes, const int64_t *keys, const int64_t *rests,
		   gjd_status expected)
{
	gjd_keyset_params params = {sizeof(params), key_bytes, keys, 3, GJD_BY_AUTO, rests};
	gjd_keyset *keyset;

	return lib->api->keyset_create(lib->device, &params, &keyset, NULL) == expected;
}

static void
refuse_parameters(library *lib)
{
	const gjd_api *api = lib->api;
	model *m = make_rows(32, 3, 1, 2, true);
	int64_t keys[] = {4, 5, 5};
	int64_t rests[] = {9, -1, 1};
	int64_t equal[] = {9, 1, 1};
	int64_t down[] = {9, 1, -1};
	key_set set = {keys, 3};
	key_set other = {keys, 2};
	gjd_column *column = make_column(lib, m);
	gjd_keyset *with, *without = make_keyset(lib, 8, other, GJD_BY_AUTO);
	gjd_keyset_info info = {0};
	gjd_match *match;
	bool good = true;

	ok(is_refused(lib, 8, keys, equal, GJD_INVALID) && is_refused(lib, 8, keys, down, GJD_INVALID),
	   "%s: rests: pairs must ascend", api->name);
	ok(is_refused(lib, 4, keys, rests, GJD_INVALID), "%s: rests: of 8-byte keys only", api->name);
	m->rests = rests;
	with = make_keyset_of(lib, m, set, GJD_BY_AUTO);
	ok(with != NULL && api->keyset_info(with, &info, NULL) == GJD_OK && info.count == 3,
	   "%s: rests: equal keys are counted", api->name);
	for (uint32_t c = 0; c <= 5; c++)
	{
		bool is_legal = c == REST || c == 4;

		m->rest_column = c;
		good &= (begin_match(lib, m, column, with, GJD_COUNT, &match) == GJD_OK) == is_legal;
		if (is_legal)
			end_match(lib, match);
		good &= (begin_match(lib, m, column, without, GJD_COUNT, &match) == GJD_OK) == (c == 0);
		if (c == 0)
			end_match(lib, match);
	}
	ok(good, "%s: rests: of a column that can have them, if the set has them, too", api->name);
	api->keyset_destroy(with, NULL);
	api->keyset_destroy(without, NULL);
	destroy_column(lib, column);
	free_model(m);
}

static void
check_unsupported(library *lib)
{
	int64_t keys[] = {4, 5, 5};
	int64_t rests[] = {9, -1, 1};

	ok(is_refused(lib, 8, keys, rests, GJD_UNSUPPORTED), "%s: rests: not supported",
	   lib->api->name);
}

void
test_rests(library *libs, int n)
{
	library able[MAX_LIBRARIES];
	int n_able = 0;

	for (int i = 0; i < n; i++)
		if (has_rests(&libs[i]))
			able[n_able++] = libs[i];
		else
			check_unsupported(&libs[i]);
	for (int i = 0; i < n_able; i++)
	{
		refuse_parameters(&able[i]);
		check_changes(&able[i]);
	}
	if (n_able == 0)
		return;
	check_rows(able, n_able, 0, 5, 1, 4, true);
	check_rows(able, n_able, 1025, 5, 1, 4, true);
	check_rows(able, n_able, 4097, 40, (int64_t) 1 << 40, 12, false);
	check_rows(able, n_able, test_is_small() ? 4000 : 20000, 600, 3, 50, true);
	check_rows(able, n_able, test_is_small() ? 4000 : 20000, 600, (int64_t) 1 << 50, 50, false);
	if (!test_is_small() && getenv("GPUJOIN_TEST_QUICK") == NULL)
	{
		/* More pairs than a block builds a set of: all of them distinct keys, and not */
		check_rows(able, n_able, 20000, 30000, (int64_t) 1 << 34, 1, false);
		check_rows(able, n_able, 20000, 30000, (int64_t) 1 << 34, 4, false);
	}
	check_large(able, n_able);
}
