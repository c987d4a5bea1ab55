/*
 * device_test.c
 *	  device_test LIBRARY [LIBRARY]: tests device libraries, prints TAP.
 *
 * Every case computes the right answer from a model and asks each library for it in each of its
 * strategies; so with two libraries, their answers are also compared with each other. Environment
 * variables: with GPUJOIN_TEST_LARGE, libraries other than the reference also get a column of 100
 * M rows; GPUJOIN_TEST_CASES names groups of cases (sizes, extremes, service, entries, filters,
 * reductions, groups, top, rests, random, sets, memory); with GPUJOIN_TEST_SMALL columns are few
 * and small, for tools that slow kernels down, and with GPUJOIN_TEST_SHARE=0/4 a process makes
 * every fourth check of reductions and filters, from the first.
 */
#include "cases.h"

static const gjd_api *apis[MAX_LIBRARIES];
static int n_apis = 0;

static const gjd_strategy strategies[] = {
	GJD_BY_AUTO,	 GJD_BY_CONSTANTS,	 GJD_BY_SPAN,		 GJD_BY_ONE_BIT,
	GJD_BY_TWO_BITS, GJD_BY_GLOBAL_SPAN, GJD_BY_GLOBAL_BLOOM};

/* Runs one kind of request in one library, in all strategies that fit. */
static bool
agrees(library *lib, gjd_column *column, const model *m, key_set set, gjd_what what,
	   const answer *expected)
{
	/* rows pass the filter however their keys were found */
	bool once = lib->api->inject_fault || (test_is_small() && m->filter.n > 0);
	int n = once ? 1 : (int) (sizeof(strategies) / sizeof(strategies[0]));
	bool good = true;
	delivery d = {0, true, 0, false};

	for (int i = 0; i < n && good; i++)
	{
		gjd_keyset *keyset = make_keyset_of(lib, m, set, strategies[i]);

		if (keyset == NULL && strategies[i] != GJD_BY_AUTO)
			continue;
		if (keyset == NULL)
			return false;

		answer a = run_match(lib, m, column, keyset, what, d);

		good = same_answer(&a, expected);
		if (!good)
			note("%s, strategy %d, what %d, %llu keys", lib->api->name, strategies[i], what,
				 (unsigned long long) set.count);
		free_answer(&a);
		lib->api->keyset_destroy(keyset, NULL);
	}
	return good;
}

bool
check_column(library *lib, gjd_column *column, const model *m, key_set set)
{
	bool good = column != NULL;

	for (gjd_what what = GJD_COUNT; what <= GJD_ENTRIES && good; what++)
	{
		if (test_is_small() && what == GJD_POSITIONS)
			continue;

		answer expected = expected_answer(m, set, what);

		good = agrees(lib, column, m, set, what, &expected);
		free_answer(&expected);
	}
	return good;
}

void
check_model(library *libs, int n, const model *m, key_set set, const char *what)
{
	for (int i = 0; i < n; i++)
	{
		gjd_column *column = make_column(&libs[i], m);

		ok(check_column(&libs[i], column, m, set), "%s: %u-byte keys, %llu rows, set of %llu: %s",
		   libs[i].api->name, m->shape.key_bytes,
		   (unsigned long long) (m->pages * m->shape.slots),
		   (unsigned long long) set.count, what);
		if (column)
			destroy_column(&libs[i], column);
	}
}

static void
check_nothing_left(library *lib)
{
	gjd_memory_info info;

	lib->api->memory_info(lib->device, &info, NULL);
	ok(info.columns == 0 && info.keysets == 0 && info.matches == 0 && info.columns_used == 0,
	   "%s: nothing left behind", lib->api->name);
	ok(close_library(lib), "%s: closes", lib->api->name);
}

static bool
wanted(const char *group)
{
	const char *groups = getenv("GPUJOIN_TEST_CASES");

	if (tests_are_crowded && strstr("sizes entries reductions groups random", group) == NULL)
		return false;
	return groups == NULL || strstr(groups, group) != NULL;
}

/* Runs the cases, with the full shared memory or with as little as small cards have. */
static void
run_cases(uint32_t shared_limit)
{
	library libs[MAX_LIBRARIES];

	for (int i = 0; i < n_apis; i++)
		open_library(&libs[i], apis[i], (uint64_t) 1 << 30, (uint64_t) 512 << 20, shared_limit);
	if (shared_limit == 0)
	{
		if (wanted("sizes"))
			test_sizes(libs, n_apis);
		if (wanted("extremes"))
			test_extremes(libs, n_apis);
		if (wanted("clustered"))
			test_clustered(libs, n_apis);
		for (int i = 0; i < n_apis && wanted("service"); i++)
		{
			test_arguments(&libs[i]);
			test_pages(&libs[i]);
			test_delivery(&libs[i]);
			test_order(&libs[i]);
			test_concurrency(&libs[i]);
			test_shared_set(&libs[i]);
			test_cancel(&libs[i]);
			test_faults(&libs[i]);
		}
		for (int i = 0; i < n_apis && wanted("batches"); i++)
			test_batches(&libs[i]);
		if (wanted("entries"))
			test_entries(libs, n_apis);
		for (int i = 0; i < n_apis && wanted("entries"); i++)
			test_parts(&libs[i]);
		if (wanted("filters"))
			test_filters(libs, n_apis);
		for (int i = 0; i < n_apis && wanted("filters"); i++)
			test_filter_limits(&libs[i]);
		if (wanted("reductions"))
			test_reductions(libs, n_apis);
		if (wanted("groups"))
			test_groups(libs, n_apis);
		for (int i = 0; i < n_apis && wanted("reductions"); i++)
			test_reduction_limits(&libs[i]);
		for (int i = 0; i < n_apis && wanted("top"); i++)
			test_top(&libs[i]);
		if (wanted("rests"))
			test_rests(libs, n_apis);
		if (wanted("random"))
			test_random(libs, n_apis, test_is_small() ? 8 : 40);
	}
	if (wanted("sets"))
		test_sets(libs, n_apis);
	for (int i = 0; i < n_apis; i++)
		check_nothing_left(&libs[i]);
}

int
main(int argc, char **argv)
{
	if (argc < 2 || argc > 1 + MAX_LIBRARIES)
	{
		fprintf(stderr, "usage: device_test LIBRARY [LIBRARY]\n");
		return 2;
	}
	for (n_apis = 0; n_apis < argc - 1; n_apis++)
		apis[n_apis] = load_library(argv[n_apis + 1]);
	run_cases(0);
	tests_are_crowded = true;
	run_cases(0);
	tests_are_crowded = false;
	if (!test_is_small())
		run_cases(99 * 1024);
	for (int i = 0; i < n_apis; i++)
	{
		if (wanted("memory"))
		{
			test_memory(apis[i]);
			test_full_card(apis[i]);
			test_entry_memory(apis[i]);
		}
		if (getenv("GPUJOIN_TEST_LARGE") && apis[i]->inject_fault == NULL)
			test_large(apis[i]);
	}
	return finish_tap();
}
