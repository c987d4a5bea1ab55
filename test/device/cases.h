/*
 * cases.h
 *	  The cases of the device test, by file.
 */
#ifndef GPUJOIN_TEST_CASES_H
#define GPUJOIN_TEST_CASES_H

#include "harness.h"

/* device_test.c */
bool check_column(library *lib, gjd_column *column, const model *m, key_set set);
void check_model(library *libs, int n, const model *m, key_set set, const char *what);

/* answers_cases.c: correctness of answers */
void test_sizes(library *libs, int n);
void test_extremes(library *libs, int n);
void test_sets(library *libs, int n);
void test_clustered(library *libs, int n);
void test_random(library *libs, int n, int rounds);
void test_large(const gjd_api *api);

/* column_cases.c: changes of columns, delivery of results */
void test_arguments(library *lib);
void test_pages(library *lib);
void test_delivery(library *lib);
void test_order(library *lib);

/* entry_cases.c: entries in columns */
void test_entries(library *libs, int n);
void test_parts(library *lib);
void test_entry_memory(const gjd_api *api);

/* filter_cases.c: conditions in addition to the set */
void test_filters(library *libs, int n);
void test_filter_limits(library *lib);

/* reduce_cases.c: groups, the rest */
void test_reductions(library *libs, int n);
void test_groups(library *libs, int n); /* of columns, of keys with numbers and weights */

/* reduce_limit_cases.c: pages that are left out, refused parameters */
void test_reduction_limits(library *lib);

/* top_cases.c: the first rows of an order */
void test_top(library *lib);

bool check_top(library *lib, const model *m, gjd_column *column, key_set set, gjd_top top,
			   uint64_t *delivered);

/* batch_cases.c: requests that begin together */
void test_batches(library *lib);

/* rest_cases.c: keys that only their rests prove */
void test_rests(library *libs, int n);

/* service_cases.c: requirements of the service */
void test_concurrency(library *lib);
void test_shared_set(library *lib);
void test_cancel(library *lib);
void test_memory(const gjd_api *api);
void test_full_card(const gjd_api *api);
void test_faults(library *lib);

#endif
