/*
 * filter_cases.c
 *	  Conditions in addition to the set of keys: every test of every width with and without
 *	  NULLs, all places in a tile where rows are dropped, several conditions at once, columns
 *	  written to meanwhile.
 */
#include "cases.h"

#define KEYS 20

/* Values between -4 and 4, some of them the least and the greatest of the column's width. */
static void
fill_small(model *m, uint64_t seed)
{
	for (uint32_t c = 0; c < m->shape.n_carried; c++)
		for (uint64_t i = 0; i < m->pages * m->shape.slots; i++)
		{
			uint32_t bits = 8 * m->shape.carried_bytes[c];
			uint64_t least = (uint64_t) 1 << (bits - 1);
			uint64_t what = random64(&seed) % 12;

			m->carried[c][i] = what < 9 ? what - 4 : what < 10 ? least : least - 1;
			m->nulls[c][i] = (m->shape.nullable >> c & 1) && random64(&seed) % 5 == 0;
		}
}

/* A column of each width, with and without NULLs; every second key is in the set. */
static model *
small_values(uint32_t key_bytes, uint64_t rows)
{
	model *m = make_model(key_bytes, 32, (rows + 31) / 32);

	for (uint64_t i = 0; i < m->pages * 32; i++)
		set_row(m, i, (int64_t) (i * 7919 % KEYS) - KEYS / 2, i < rows && i % 19 != 3);
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
	{
		add_carried(m, bytes, false);
		add_carried(m, bytes, true);
	}
	fill_small(m, rows + key_bytes);
	return m;
}

static key_set
even_keys(void)
{
	key_set set = {malloc(KEYS * sizeof(int64_t)), 0};

	for (int64_t key = -KEYS; key < KEYS; key += 2)
		set.keys[set.count++] = key;
	return set;
}

/* Runs requests with the model's filter in each library. */
static void
check_filter(library *libs, int n, model *m, key_set set, gjd_column *const *columns,
			 bool *good)
{
	if (!test_is_mine())
		return;
	for (int i = 0; i < n; i++)
		good[i] = good[i] && check_column(&libs[i], columns[i], m, set);
}

static void
make_columns(library *libs, int n, const model *m, gjd_column **columns, bool *good)
{
	for (int i = 0; i < n; i++)
	{
		columns[i] = make_column(&libs[i], m);
		good[i] = columns[i] != NULL;
	}
}

static void
end_columns(library *libs, int n, gjd_column **columns, const bool *good, const char *what)
{
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: filter: %s", libs[i].api->name, what);
		destroy_column(&libs[i], columns[i]);
	}
}

/*
 * One condition on the key and on each column: bounds inside, at and outside of the range of
 * values.
 */
static void
test_each(library *libs, int n, uint32_t key_bytes, uint64_t rows)
{
	static const int64_t bounds[][2] = {
		{-2, 1}, {0, 0}, {1, 0}, {INT64_MIN, INT64_MAX}, {INT64_MIN, -1}, {2, INT64_MAX},
		{-128, -128}, {127, 127}, {INT16_MIN, INT16_MIN}, {INT32_MAX, INT32_MAX},
		{(int64_t) INT32_MAX + 1, (int64_t) INT32_MAX + 1}, {INT64_MAX, INT64_MIN}};
	model *m = small_values(key_bytes, rows);
	key_set set = even_keys();
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	char what[100];

	make_columns(libs, n, m, columns, good);
	m->filter.n = 1;
	for (uint32_t column = 0; column <= m->shape.n_carried; column += test_is_small() ? 3 : 1)
		for (uint32_t test = GJD_BETWEEN; test <= GJD_IS_NOT_NULL; test++)
			for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++)
			{
				if (b > (test_is_small() ? 0 : test >= GJD_IS_NULL ? 2 : 100))
					continue;
				m->filter.conditions[0] =
					(gjd_condition){column, test, bounds[b][0], bounds[b][1]};
				check_filter(libs, n, m, set, columns, good);
			}
	snprintf(what, sizeof(what), "each test of each column, %llu rows, %u-byte keys",
			 (unsigned long long) rows, key_bytes);
	end_columns(libs, n, columns, good, what);
	free(set.keys);
	free_model(m);
}

/* Several conditions at once, at random; then TIDs that do not ascend, some of them twice. */
static void
test_several(library *libs, int n, uint64_t seed)
{
	uint64_t rows = random64(&seed) % 9000 + 1;
	model *m = small_values(seed % 2 ? 4 : 8, rows);
	key_set set = even_keys();
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	int rounds = test_is_small() ? 2 : 12;

	if (seed % 3 == 0)
		for (uint64_t i = 0; i < rows; i++)
			m->blocks[i] = (uint32_t) (rows - i) / 2 * 2;
	make_columns(libs, n, m, columns, good);
	for (int round = 0; round < rounds; round++)
	{
		m->filter.n = (uint32_t) (1 + random64(&seed) % GJD_MAX_CONDITIONS);
		for (uint32_t i = 0; i < m->filter.n; i++)
		{
			int64_t low = (int64_t) (random64(&seed) % 9) - 6;

			m->filter.conditions[i] =
				(gjd_condition){(uint32_t) (random64(&seed) % (1 + m->shape.n_carried)),
								random64(&seed) % 3 == 0 ? GJD_OUTSIDE : GJD_BETWEEN, low,
								low + (int64_t) (random64(&seed) % 9)};
		}
		if (round % 4 == 3)
			m->filter.conditions[0].test = GJD_IS_NOT_NULL;
		check_filter(libs, n, m, set, columns, good);
	}
	end_columns(libs, n, columns, good, "several conditions");
	free(set.keys);
	free_model(m);
}

/*
 * In each of a few tiles one row passes, or all but one do: the first row, the last one, or those
 * at the edges of words.
 */
static void
test_places(library *libs, int n)
{
	static const uint64_t places[] = {0, 1, 31, 32, 127, 128, 1022, 1023, 1024, 2047, 4095, 4096,
									  5119};
	uint64_t rows = 5120;
	model *m = make_model(4, 32, rows / 32);
	int64_t one = 1;
	key_set set = {&one, 1};
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];

	add_carried(m, 4, false);
	for (uint64_t i = 0; i < rows; i++)
	{
		set_row(m, i, 1, true);
		m->carried[0][i] = i;
	}
	make_columns(libs, n, m, columns, good);
	m->filter.n = 1;
	for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p += test_is_small() ? 6 : 1)
		for (uint32_t test = GJD_BETWEEN; test <= GJD_OUTSIDE; test++)
		{
			int64_t place = (int64_t) places[p];

			m->filter.conditions[0] = (gjd_condition){1, test, place, place};
			check_filter(libs, n, m, set, columns, good);
		}
	end_columns(libs, n, columns, good, "first and last rows of tiles");
	free_model(m);
}

/* Keys in order: most tiles are skipped by the scan, and their bitmaps are undefined. */
static void
test_in_order(library *libs, int n)
{
	uint64_t rows = test_is_small() ? 20000 : 600000;
	model *m = make_model(4, 800, rows / 800);
	int64_t keys[] = {5, 6, 300, 301, 4000};
	key_set set = {keys, 5};
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];

	add_carried(m, 2, true);
	add_carried(m, 4, false);
	fill_small(m, 3);
	for (uint64_t i = 0; i < m->pages * 800; i++)
		set_row(m, i, (int64_t) (i / 100), i % 7 != 0);
	make_columns(libs, n, m, columns, good);
	m->filter.n = 2;
	m->filter.conditions[0] = (gjd_condition){1, GJD_BETWEEN, -1, 3};
	m->filter.conditions[1] = (gjd_condition){2, GJD_OUTSIDE, 1, 1};
	for (int round = 0; round < 2; round++)
	{
		check_filter(libs, n, m, set, columns, good);
		set.count = 0;
	}
	end_columns(libs, n, columns, good, "keys in order, and no keys at all");
	free_model(m);
}

void
test_filters(library *libs, int n)
{
	test_each(libs, n, 4, 3000);
	test_each(libs, n, 8, 1025);
	test_each(libs, n, 4, 0);
	for (uint64_t seed = 1; seed <= (test_is_small() ? 3 : 12); seed++)
		test_several(libs, n, seed);
	test_places(libs, n);
	test_in_order(libs, n);
}

/* ---- limits -------------------------------------------------------------------------------- */

/* Invalid filters are rejected. */
static void
refuse_filters(library *lib)
{
	model *m = make_model(4, 32, 1);
	gjd_keyset *keyset = make_keyset(lib, 4, (key_set){NULL, 0}, GJD_BY_AUTO);
	gjd_column *column;
	gjd_match *match;

	add_carried(m, 4, false);
	column = make_column(lib, m);
	m->filter.n = GJD_MAX_CONDITIONS + 1;
	ok(begin_match(lib, m, column, keyset, GJD_COUNT, &match) == GJD_INVALID,
	   "%s: too many conditions", lib->api->name);
	m->filter.n = 1;
	m->filter.conditions[0].column = 2;
	ok(begin_match(lib, m, column, keyset, GJD_ENTRIES, &match) == GJD_INVALID,
	   "%s: a condition on a column that is not there", lib->api->name);
	m->filter.conditions[0] = (gjd_condition){1, GJD_IS_NOT_NULL + 1, 0, 0};
	ok(begin_match(lib, m, column, keyset, GJD_TIDS, &match) == GJD_INVALID,
	   "%s: a test that there is not", lib->api->name);
	m->filter.n = 0;
	ok(begin_match(lib, m, column, keyset, GJD_COUNT, &match) == GJD_OK,
	   "%s: conditions behind the last are not looked at", lib->api->name);
	end_match(lib, match);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

/*
 * More entries pass than are gathered at once, and the column is written to meanwhile: each
 * delivered entry has passed in its own state.
 */
static void
check_written_meanwhile(library *lib)
{
	enum
	{
		slots = 160,
		pages = 8000,
		written = 500
	};
	model *m = make_model(4, slots, test_is_small() ? written * 2 : pages);
	uint64_t rows = m->pages * slots;
	uint64_t untouched = 0;
	int64_t keys[] = {1};
	gjd_keyset *keyset = make_keyset(lib, 4, (key_set){keys, 1}, GJD_BY_AUTO);
	gjd_column *column;
	gjd_match *match;
	delivery d = {0, true, 0, true};
	bool good;

	for (uint64_t i = 0; i < rows; i++)
		set_row(m, i, 1, true);
	add_carried(m, 4, false);
	add_carried(m, 1, false);
	for (uint64_t i = 0; i < rows; i++)
	{
		m->carried[0][i] = i;
		m->carried[1][i] = i % 8;
	}
	column = make_column(lib, m);
	m->filter = (gjd_filter){.n = 1, .conditions = {{2, GJD_OUTSIDE, 3, 3}}};
	good = begin_match(lib, m, column, keyset, GJD_ENTRIES, &match) == GJD_OK;
	for (uint64_t i = 0; i < written * slots; i++)
	{
		m->carried[0][i] = i + (1u << 30);
		m->carried[1][i] = i % 5;
	}
	good &= push_pages(lib, column, m, 0, written, 2) == GJD_OK;

	answer a = collect_match(lib, m, match, GJD_ENTRIES, NULL, d);

	good &= a.status == GJD_OK && a.item_bytes == 17 && a.matched == rows;
	for (uint64_t i = 0; i < a.items && good; i++)
	{
		const char *item = (char *) a.data + i * 17;
		uint32_t value;

		memcpy(&value, item + 12, 4);
		if (value >> 30 != 0)
			good = (uint64_t) item[16] == (value - (1u << 30)) % 5;
		else
			good = (uint64_t) item[16] == value % 8;
		good &= item[16] != 3;
		untouched += value >> 30 == 0 && value >= written * slots;
	}
	ok(good && untouched == (rows - written * slots) / 8 * 7,
	   "%s: filter: %llu entries of a column written to meanwhile", lib->api->name,
	   (unsigned long long) a.items);
	free_answer(&a);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

void
test_filter_limits(library *lib)
{
	refuse_filters(lib);
	check_written_meanwhile(lib);
}
