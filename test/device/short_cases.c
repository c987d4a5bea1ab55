/*
 * short_cases.c
 *	  Reductions on both sides of the limits up to which a library can save calls: visibility maps
 *	  that are a parameter of a kernel, groups whose words are among the counters of the match,
 *	  groups whose elements are made by one block, and nothing left to gather.
 */
#include "reduce_model.h"

/* Adds up 4,096 rows of 20 keys, half of which are in the set. */
static void
test_short(library *libs, int n, const char *name,
		   void (*check)(library *, int, const model *, key_set, gjd_column *const *, bool *))
{
	model *m = make_model(4, 32, 128);
	int64_t keys[10];
	key_set set = {keys, 10};
	gjd_column *columns[MAX_LIBRARIES] = {0};
	bool good[MAX_LIBRARIES];
	uint64_t seed = 8;

	for (int i = 0; i < 10; i++)
		keys[i] = 2 * i - 10;
	add_carried(m, 4, true);
	add_carried(m, 4, false);
	for (uint64_t i = 0; i < m->pages * 32; i++)
	{
		set_row(m, i, (int64_t) (random64(&seed) % 20) - 10, i % 7 != 3);
		m->blocks[i] = (uint32_t) (i % 701);
		m->carried[0][i] = random64(&seed) % 2100;
		m->carried[1][i] = random64(&seed) % (2100 * 64);
	}
	for (int i = 0; i < n; i++)
		good[i] = (columns[i] = make_column(&libs[i], m)) != NULL;
	check(libs, n, m, set, columns, good);
	for (int i = 0; i < n; i++)
	{
		ok(good[i], "%s: reduction: %s", libs[i].api->name, name);
		destroy_column(&libs[i], columns[i]);
	}
	free_model(m);
}

/* No page is left out, so that the map is the only input. */
static void
check_maps(library *libs, int n, const model *m, key_set set, gjd_column *const *columns,
		   bool *good)
{
	static const uint64_t sizes[] = {0, 1, 127, 128, 129, 170};
	uint8_t map[170];
	task t = {.asked = {.bound = 1, .map = map, .n_aggregates = 1,
						.aggregates = {{GJD_SUM, 1}}}};

	for (uint32_t i = 0; i < sizeof(map); i++)
		map[i] = (uint8_t) (i * 0x9d + 0x71);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (uint32_t grouping = GJD_ONE_GROUP; grouping <= GJD_BY_KEY; grouping++)
		{
			t.asked.map_bytes = sizes[s];
			t.asked.visible_below = s % 3 * 8;
			t.asked.grouping = grouping;
			check_reduction(libs, n, m, set, &t, columns, good);
		}
}

/* The words of 224 groups have room among the counters, and 1,024 groups are for one block. */
static void
check_few_groups(library *libs, int n, const model *m, key_set set, gjd_column *const *columns,
				 bool *good)
{
	static const uint64_t most[] = {224, 1024};
	task t = {.asked = {.bound = 1, .visible_below = 400}};

	for (uint32_t i = 0; i < 4; i++)
	{
		uint64_t places = most[i / 2] + i % 2;

		t.asked.grouping = GJD_BY_VALUE;
		t.asked.column = 1;
		t.asked.span = places - 1;
		check_reduction(libs, n, m, set, &t, columns, good);
		t.asked.grouping = GJD_DISTINCT;
		t.asked.column = 2;
		t.asked.span = places * 64;
		check_reduction(libs, n, m, set, &t, columns, good);
	}
}

/* No row is left, then some are, in turns: a library may expect the same as the time before. */
static void
check_leaving(library *libs, int n, const model *m, key_set set, gjd_column *const *columns,
			  bool *good)
{
	static const uint64_t visible_below[] = {400, 704, 704, 0, 0, 700, 704, 8, 704};
	task t = {.asked = {.bound = 1, .n_aggregates = 1, .aggregates = {{GJD_SUM, 1}},
						.room = 5000, .n_columns = 1, .columns = {1}}};

	for (size_t i = 0; i < sizeof(visible_below) / sizeof(visible_below[0]); i++)
	{
		t.asked.visible_below = visible_below[i];
		for (uint32_t grouping = GJD_ONE_GROUP; grouping <= GJD_BY_COLUMNS; grouping++)
		{
			t.asked.column = grouping == GJD_ONE_GROUP || grouping == GJD_BY_KEY ? 0 : 2;
			t.asked.span = grouping == GJD_DISTINCT ? 2100 * 64 : 2100 * 64 - i;
			t.asked.grouping = grouping;
			t.asked.n_aggregates = grouping != GJD_DISTINCT;
			check_reduction(libs, n, m, set, &t, columns, good);
		}
	}
}

void
test_short_reductions(library *libs, int n)
{
	test_short(libs, n, "maps of all sizes", check_maps);
	test_short(libs, n, "few groups, and one more", check_few_groups);
	test_short(libs, n, "no rows left, and some", check_leaving);
}
