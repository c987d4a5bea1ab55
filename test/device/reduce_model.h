/*
 * reduce_model.h
 *	  The right result of a reduction: reduce_model.c.
 */
#ifndef GPUJOIN_TEST_REDUCE_MODEL_H
#define GPUJOIN_TEST_REDUCE_MODEL_H

#include "cases.h"

/* A reduction, and the versions of the pages that it must read */
typedef struct task
{
	gjd_reduction asked;
	uint64_t *versions; /* NULL if all are 1 */
} task;

/* A result, either the right one or the one that a library has given */
typedef struct outcome
{
	gjd_status status;
	gjd_reduced reduced;
	uint64_t *elements;
	uint64_t matched, n_rest;
	char *rest; /* items of entries, sorted */
	uint32_t item_bytes;
} outcome;

void sort_items(void *items, uint64_t n, uint32_t bytes);
void free_outcome(outcome *o);

/* Computes the right result from the model, row by row. */
outcome expected_outcome(const model *m, const task *t, key_set set);

/* reduce_cases.c: sets *good of each library to false if it does not have that result */
void check_reduction(library *libs, int n, const model *m, key_set set, const task *t,
					 gjd_column *const *columns, bool *good);

/* reduce_cases.c: models and tasks */
model *make_values(uint32_t key_bytes, uint32_t slots, uint64_t rows, uint32_t keys,
				   bool in_order);
key_set some_keys(uint32_t keys, uint32_t step);
void all_aggregates(task *t, uint32_t first_column);

/* short_cases.c: inputs and groups that make a reduction take fewer calls, and longer ones */
void test_short_reductions(library *libs, int n);

#endif
