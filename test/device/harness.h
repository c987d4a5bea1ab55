/*
 * harness.h
 *	  TAP lines, libraries under test, and a model of a column that knows the right answers.
 */
#ifndef GPUJOIN_TEST_HARNESS_H
#define GPUJOIN_TEST_HARNESS_H

#include "border/gpujoin_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LIBRARIES 2

/* ---- TAP ---- */

void ok(bool passed, const char *format, ...);
void note(const char *format, ...);
int finish_tap(void); /* prints the plan; returns the exit status */

bool test_is_small(void); /* requested for checking tools */

/*
 * The number of rows of a case that is large for the blocks of a card: few for checking tools, a
 * third if GPUJOIN_TEST_QUICK is set, because the reference library has no blocks.
 */
uint64_t test_rows(uint64_t few, uint64_t many);

/* Returns true if this process makes the next check of a reduction or a filter. */
bool test_is_mine(void);

/* ---- random numbers ---- */

uint64_t random64(uint64_t *state);

/* ---- library ---- */

typedef struct library
{
	const gjd_api *api;
	gjd_device *device;
	char *arena; /* registered */
	uint64_t arena_bytes;
	bool crowd_is_open; /* has open_crowd() opened a batch? */
} library;

const gjd_api *load_library(const char *path);

/* Opens a device with this budget and registers an arena. Exits on failure. */
void open_library(library *lib, const gjd_api *api, uint64_t budget, uint64_t scratch,
				  uint32_t shared_limit);
bool close_library(library *lib);

/* ---- model: model.c ---- */

typedef struct model
{
	gjd_shape shape;
	gjd_want want; /* requested columns of entries; all at first */
	bool any_order; /* any order requested */
	gjd_filter filter; /* filter of rows; empty at first */
	uint32_t rest_column; /* column with the rests of keys; 0 at first: keys have none */
	const int64_t *rests; /* of the keys of sets that rows are matched with */
	uint64_t pages;
	int64_t *keys;
	uint32_t *valid;
	uint32_t *blocks;
	uint16_t *offsets;
	uint64_t *carried[GJD_MAX_CARRIED]; /* values; a column has their low bytes */
	uint8_t *nulls[GJD_MAX_CARRIED];	/* 1 where a nullable column is NULL */
} model;

typedef struct key_set
{
	int64_t *keys;
	uint64_t count;
} key_set;

typedef struct answer
{
	gjd_status status;
	uint64_t count, matched, items;
	bool ascending;
	void *data; /* items * item_bytes; malloced. Entries: see expected_answer() */
	uint32_t item_bytes;
} answer;

model *make_model(uint32_t key_bytes, uint32_t slots, uint64_t pages);
void free_model(model *m);
void set_row(model *m, uint64_t position, int64_t key, bool is_valid);
void make_image(const model *m, uint64_t page, char *image);

/* Adds a carried column, or fills all of them with new values that depend on the seed. */
void add_carried(model *m, uint32_t bytes, bool nullable);
void fill_carried(model *m, uint64_t seed);

/* Returns the number of a row's key, with its rest if it has one, in the set; count if absent. */
uint64_t rank_of_row(const model *m, key_set set, uint64_t row);
void sort_set(key_set *set); /* sorts and removes duplicates */

/*
 * Computes the right answer. An entry's item is its TID, then the wanted key, columns and NULLs,
 * without gaps.
 */
answer expected_answer(const model *m, key_set set, gjd_what what);

/* Stores the item of a row's entry, and advances. */
void put_item(const model *m, uint64_t row, char **to);

/* Converts n entries of a part with the given room into items of an answer. */
void unpack_part(const model *m, const char *part, uint64_t room, uint64_t n, char *items);

/* ---- requests ---- */

/* Pushes pages first .. first + count of the model, all with one version; waits. */
gjd_status push_pages(library *lib, gjd_column *column, const model *m, uint64_t first,
					  uint64_t count, uint64_t version);
gjd_status create_column(library *lib, const model *m, uint64_t reserve, gjd_column **column);
gjd_column *make_column(library *lib, const model *m);
gjd_keyset *make_keyset(library *lib, uint32_t key_bytes, key_set set, gjd_strategy strategy);
gjd_keyset *make_keyset_of(library *lib, const model *m, key_set set, gjd_strategy strategy);
void destroy_column(library *lib, gjd_column *column);

typedef struct delivery
{
	uint64_t capacity; /* items a chunk; 0: as many as fit the arena */
	bool registered;
	uint64_t first_capacity; /* with a first_buffer, unless 0 */
	bool two_at_once;		 /* begin a second chunk before waiting for the first */
} delivery;

/*
 * If set, matches of run_match() and reductions begin in a batch, between two others like them,
 * which are given up: they must not change the answer.
 */
extern bool tests_are_crowded;

void open_crowd(library *lib); /* opens a batch, if so */
gjd_status begin_crowded(library *lib, gjd_column *column, gjd_keyset *keyset,
						 gjd_keyset *of_others, const gjd_match_params *params, gjd_match **match);

/* Runs a match; the model must be that of the column and is used to unpack entries. */
answer run_match(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset,
				 gjd_what what, delivery d);
answer collect_match(library *lib, const model *m, gjd_match *match, gjd_what what, void *first,
					 delivery d);
gjd_status begin_match(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset,
					   gjd_what what, gjd_match **match);
void end_match(library *lib, gjd_match *match);
gjd_status wait_match(library *lib, gjd_match *match, gjd_match_state *state);
bool same_answer(const answer *a, const answer *b);
void free_answer(answer *a);

#endif
