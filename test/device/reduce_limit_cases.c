/*
 * reduce_limit_cases.c
 *	  Limits of reductions: copies newer than the bound, parameters that are refused, one state of
 *	  a column for groups and rest.
 */
#include "reduce_model.h"

static gjd_status
begin_reduction(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset,
				const gjd_reduction *asked, gjd_what what, uint32_t any_order)
{
	gjd_match_params params = {.struct_size = sizeof(params),
							   .what = what,
							   .want = m->want,
							   .any_order = any_order,
							   .reduction = asked};
	gjd_match *match;
	gjd_status status = lib->api->match_begin(column, keyset, &params, &match, NULL);

	if (status == GJD_OK)
		end_match(lib, match);
	return status;
}

/* Copies that are newer than the bound are left out, until they are too many. */
static void
check_bounds(library *lib)
{
	model *m = make_values(4, 32, 32 * 700, 20, false);
	key_set set = some_keys(20, 2);
	gjd_column *column = make_column(lib, m);
	bool good = column != NULL;
	task t = {.asked = {.struct_size = sizeof(t.asked), .bound = 4,
						.visible_below = UINT32_MAX / 4 * 4}};

	t.versions = malloc(m->pages * sizeof(uint64_t));
	for (uint64_t page = 0; page < m->pages; page++)
		t.versions[page] = 1;
	all_aggregates(&t, 3);
	/* copies with versions around the bound, some of them replaced by older or newer ones */
	for (uint64_t page = 0; page < 255; page++)
	{
		uint64_t version = 3 + page % 4;

		good &= push_pages(lib, column, m, page, 1, version) == GJD_OK;
		if (page % 5 == 0)
			good &= push_pages(lib, column, m, page, 1, ++version) == GJD_OK;
		if (page % 7 == 0)
			good &= push_pages(lib, column, m, page, 1, 2) == GJD_OK;
		t.versions[page] = version;
	}
	check_reduction(lib, 1, m, set, &t, &column, &good);
	ok(good, "%s: reduction: pages newer than the bound are left out", lib->api->name);

	gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);

	good = push_pages(lib, column, m, 300, GJD_MAX_NEWER, 9) == GJD_OK;
	for (uint64_t page = 300; page < 300 + GJD_MAX_NEWER; page++)
		t.versions[page] = 9;
	t.asked.bound = 8;
	check_reduction(lib, 1, m, set, &t, &column, &good);
	good &= push_pages(lib, column, m, 299, 1, 9) == GJD_OK;
	good &= begin_reduction(lib, m, column, keyset, &t.asked, GJD_ENTRIES, 1) == GJD_TOO_NEW;
	t.versions[299] = 9;
	t.asked.bound = 9;
	check_reduction(lib, 1, m, set, &t, &column, &good);

	/* after 65,536 further copies an older one is not known any more, though it is newer */
	if (!test_is_small())
	{
		uint64_t last = m->pages - 1;

		good &= push_pages(lib, column, m, last, 1, 200) == GJD_OK;
		for (uint64_t i = 0; i < 100; i++)
			good &= push_pages(lib, column, m, 0, last, 10 + i) == GJD_OK;
		for (uint64_t page = 0; page < last; page++)
			t.versions[page] = 109;
		t.versions[last] = 200;
		t.asked.bound = 199;
		good &= begin_reduction(lib, m, column, keyset, &t.asked, GJD_ENTRIES, 1) == GJD_TOO_NEW;
		t.asked.bound = 200;
		check_reduction(lib, 1, m, set, &t, &column, &good);
	}
	ok(good, "%s: reduction: too many newer pages", lib->api->name);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free(t.versions);
	free(set.keys);
	free_model(m);
}

static void
refuse_reductions(library *lib)
{
	model *m = make_model(4, 32, 1);
	int64_t keys[] = {1, 2};
	gjd_keyset *keyset = make_keyset(lib, 4, (key_set){keys, 2}, GJD_BY_AUTO);
	gjd_column *column;
	uint32_t pages[] = {3, 3};
	gjd_reduction good = {.struct_size = sizeof(good), .bound = 1};
	uint32_t values[] = {0, 9};
	gjd_reduction bad[21];
	int n_bad = 0;
	bool refused = true;

	add_carried(m, 4, false);
	column = make_column(lib, m);
	for (int i = 0; i < 21; i++)
		bad[i] = good;
	bad[0].struct_size = 8;
	bad[1].grouping = GJD_BY_COLUMNS + 1;
	bad[2].n_aggregates = GJD_MAX_AGGREGATES + 1;
	bad[3].n_aggregates = 1;
	bad[3].aggregates[0].column = 2;
	bad[4].n_aggregates = 1;
	bad[4].aggregates[0].kind = GJD_MAX + 1;
	bad[5].grouping = GJD_BY_VALUE;
	bad[6].grouping = GJD_BY_VALUE;
	bad[6].span = GJD_MAX_GROUPS + 1;
	bad[7].grouping = GJD_DISTINCT;
	bad[7].span = 65;
	bad[8].n_left_out = 2;
	bad[8].left_out = pages;
	bad[9].visible_below = 2;
	bad[10].map_bytes = 1;
	bad[11].marked = 2;
	for (n_bad = 12; n_bad < 17; n_bad++)
	{
		bad[n_bad].grouping = GJD_BY_COLUMNS;
		bad[n_bad].n_columns = 1;
		bad[n_bad].room = 1;
	}
	bad[12].n_columns = 0;
	bad[13].n_columns = GJD_MAX_GROUP_COLUMNS + 1;
	bad[14].columns[0] = 2;
	bad[15].room = 0;
	bad[16].room = GJD_MAX_COLUMN_GROUPS + 1;
	for (; n_bad < 20; n_bad++)
	{
		bad[n_bad].grouping = GJD_BY_KEY;
		bad[n_bad].n_keys = 2;
		bad[n_bad].weights = values + 1;
	}
	bad[17].n_keys = 1;
	bad[18].weights = values;
	bad[19].grouping = GJD_DISTINCT;
	bad[19].span = 64;
	bad[n_bad++].only_shared = 1;
	for (int i = 0; i < n_bad; i++)
	{
		uint64_t needed = gjd_reduction_capability(&bad[i]);

		if (i > 1 && (lib->api->capabilities & needed) != needed)
			continue;

		bool this = begin_reduction(lib, m, column, keyset, &bad[i], GJD_ENTRIES, 1) == GJD_INVALID;

		if (!this)
			note("reduction %d is not refused", i);
		refused &= this;
	}
	ok(refused, "%s: reduction: invalid parameters", lib->api->name);
	ok(begin_reduction(lib, m, column, keyset, &good, GJD_TIDS, 1) == GJD_INVALID &&
		   begin_reduction(lib, m, column, keyset, &good, GJD_ENTRIES, 0) == GJD_INVALID &&
		   begin_reduction(lib, m, column, keyset, &good, GJD_ENTRIES, 1) == GJD_OK,
	   "%s: reduction: only of entries in any order", lib->api->name);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

/* The column is written to while a long rest is being delivered: all of it is of one state. */
static void
check_one_state(library *lib)
{
	uint64_t rows = test_is_small() ? 64000 : 1280000;
	model *m = make_model(4, 160, rows / 160);
	int64_t key = 1;
	gjd_keyset *keyset = make_keyset(lib, 4, (key_set){&key, 1}, GJD_BY_AUTO);
	gjd_reduction asked = {.struct_size = sizeof(asked), .grouping = GJD_ONE_GROUP,
						   .n_aggregates = 1, .aggregates = {{GJD_SUM, 1}}, .bound = 9,
						   .visible_below = 1000};
	gjd_match_params params = {.struct_size = sizeof(params), .what = GJD_ENTRIES, .any_order = 1,
							   .reduction = &asked};
	delivery d = {0, true, 0, false};
	gjd_reduced reduced = {.struct_size = sizeof(reduced)};
	uint64_t words[4], counted = 0, sum = 0;
	gjd_match_state state;
	gjd_column *column;
	gjd_match *match;
	bool good;

	add_carried(m, 4, false);
	for (uint64_t i = 0; i < rows; i++)
	{
		set_row(m, i, 1, true);
		m->carried[0][i] = 1;
	}
	params.want = m->want;
	column = make_column(lib, m);
	good = lib->api->match_begin(column, keyset, &params, &match, NULL) == GJD_OK;
	for (uint64_t i = 0; i < rows / 2; i++)
		m->carried[0][i] = 1000;
	good &= push_pages(lib, column, m, 0, m->pages / 2, 2) == GJD_OK;
	good &= wait_match(lib, match, &state) == GJD_OK;
	good &= lib->api->match_reduced(match, &reduced, NULL) == GJD_OK;
	if (good && reduced.elements == 1)
	{
		gjd_chunk chunk;

		good = lib->api->match_groups(match, lib->arena, 4, &chunk, NULL) == GJD_OK &&
			   wait_match(lib, match, &state) == GJD_OK && chunk.items == 1;
		memcpy(words, lib->arena, sizeof(words));
		counted = words[2];
		sum = words[3];
	}
	answer a = collect_match(lib, m, match, GJD_ENTRIES, NULL, d);

	good &= a.status == GJD_OK;
	for (uint64_t i = 0; i < a.items && good; i++)
	{
		uint32_t value;

		memcpy(&value, (char *) a.data + i * a.item_bytes + 12, 4);
		counted++;
		sum += value;
	}
	good &= counted == rows && (sum == rows || sum == rows / 2 * 1001);
	if (!good)
		note("status %d, %llu rows, sum %llu", a.status, (unsigned long long) counted,
			 (unsigned long long) sum);
	ok(good, "%s: reduction: groups and rest are of one state", lib->api->name);
	free_answer(&a);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

void
test_reduction_limits(library *lib)
{
	if ((lib->api->capabilities & GJD_CAN_REDUCE) == 0)
		return;
	refuse_reductions(lib);
	check_bounds(lib);
	check_one_state(lib);
}
