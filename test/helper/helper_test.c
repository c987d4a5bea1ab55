/*
 * helper_test.c
 *	  The helper program alone, with a hostile client: whatever is written to the arena by a
 *	  process that may write there, the helper neither crashes nor hangs, takes little memory,
 *	  and continues to answer others correctly.
 *
 * Called with the helper and the reference library; plays the supervisor and the clients. TAP.
 */
#include "helper_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

name good;
static int n_tests, n_failed;

/* ---- TAP ------------------------------------------------------------------------------------- */

static void
ok(bool passed, const char *what)
{
	n_tests++;
	n_failed += !passed;
	printf("%sok %d - %s\n", passed ? "" : "not ", n_tests, what);
	fflush(stdout);
}

/* ---- is all well? ---------------------------------------------------------------------------- */

/* Returns true if an honest client in the last slot gets the right answer. */
static bool
answers_rightly(void)
{
	int64_t keys[] = {-5, 3, 70, 200, 511, 512, 900};
	const gjd_tid *tids = (const gjd_tid *) half_of(SLOTS - 1, 0);
	const gjp_message *message = message_of(SLOTS - 1);

	if (ask_keys(SLOTS - 1, good, 7, keys, 7, 1) != GJD_OK || message->result.count != 4 ||
		message->expected != 4 || message->out[0] != 4)
		return false;
	for (int i = 0; i < 4; i++)
		if (tids[i] != gjd_tid_make((uint32_t) keys[i + 1] / ROWS, keys[i + 1] % ROWS + 1))
			return false;
	return true;
}

/* Returns a request to reduce the entries of the good column. */
static gjp_request
reduction_of(gjd_reduction reduction, uint64_t keys)
{
	return (gjp_request){.op = GJP_MATCH, .column_id = good.id,
						 .column_generation = good.generation, .entries = 1, .any_order = 1,
						 .shape = {.key_bytes = 4, .slots = ROWS}, .keys = keys, .reduce = 1,
						 .reduction = reduction};
}

/*
 * Returns true if an honest client gets the right groups. The keys are 3 and 70 of pages 0 and 1,
 * and 200 of page 3; heap block n is page n. Page 1 is left out, and the map has block 3 only. The
 * copies have version 1, which is not above the bound.
 */
static bool
reduces_rightly(void)
{
	gjd_reduction asked = {.grouping = GJD_BY_KEY, .n_aggregates = 2, .n_left_out = 1,
						   .aggregates = {{GJD_SUM, 0}, {GJD_MIN, 0}}, .bound = 1, .map_bytes = 1};
	const int64_t words[] = {3, 70, 200, 1, 1 << 6};
	const int64_t group[] = {200, 0, 1, 200, 200};
	const gjp_message *message = message_of(SLOTS - 1);
	const char *half = half_of(SLOTS - 1, 0);
	const gjd_tid *rest;

	if (ask_words(SLOTS - 1, reduction_of(asked, 3), words, 5) != GJD_OK ||
		message->groups[0] != 1 || message->group_room[0] != 3 || message->out[0] != 1)
		return false;
	rest = (const gjd_tid *) (half + gjp_entries_at(3, sizeof(group)));
	return memcmp(half, group, sizeof(group)) == 0 && rest[0] == gjd_tid_make(0, 4) &&
		   message->result.rows == 1 && message->result.count == 1 &&
		   message->result.matched == 2 && message->result.groups == 1 &&
		   message->result.elements == 1 && message->result.n_newer == 0;
}

void
ok_and_well(bool passed, const char *what)
{
	bool well = helper_lives() && answers_rightly() && reduces_rightly();

	if (!passed || !well)
		printf("# %s, %s\n", passed ? "as wanted" : "another answer than wanted",
			   well ? "all is well afterwards" : "no right answers afterwards");
	ok(passed && well, what);
	if (!well)
		exit(1);
}

/* Of the reference device: staging, and the list of extents of a column */
#define KEPT_SCRATCH ((24 << 20) + (256 << 10))

bool
nothing_is_left(void)
{
	const volatile gjp_report *r = &control->report;

	for (int i = 0; i < 5000 && helper_lives(); i++, pause_ms(1))
		if (r->columns == 1 && r->keysets == 0 && r->matches == 0 &&
			r->memory_scratch == KEPT_SCRATCH)
			return true;
	return false;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void
test_unknown(void)
{
	static const uint32_t ops[] = {0, 6, 1000, UINT32_MAX};
	bool passed = true;

	for (size_t i = 0; i < 4; i++)
		passed &= ask(0, (gjp_request){.op = ops[i]}) == GJD_INVALID;
	ok_and_well(passed, "unknown operations are refused");

	for (uint64_t i = 0; i < 200; i++)
	{
		gjp_request request = {.op = (uint32_t[]){GJP_DROP, GJP_PUSH, GJP_MATCH}[i % 3],
							   .column_id = i < 100 ? good.id : (uint32_t) odd_number(),
							   .column_generation = good.generation + 1 + (uint32_t) i,
							   .shape = {.key_bytes = 4, .slots = ROWS}};

		passed &= ask(0, request) == GJP_GONE;
	}
	ok_and_well(passed, "columns that there are not are gone");
	passed = ask(0, (gjp_request){.op = GJP_FAULT, .point = 99, .kind = 1}) == GJD_INVALID &&
			 ask(0, (gjp_request){.op = GJP_FAULT, .point = UINT32_MAX, .kind = 1}) == GJD_INVALID;
	ok_and_well(passed, "faults at unknown points are refused");
}

static void
test_shapes(void)
{
	static const gjp_request wrong[] = {
		{.op = GJP_CREATE, .shape = {.key_bytes = 0, .slots = 32}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 3, .slots = 32}},
		{.op = GJP_CREATE, .shape = {.key_bytes = UINT32_MAX, .slots = 32}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = 0}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = 33}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = UINT32_MAX - 31}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = 32}, .reserve_pages = UINT64_MAX},
		{.op = GJP_CREATE, .shape = {.key_bytes = 8, .slots = 65536},
		 .reserve_pages = (uint64_t) 1 << 40},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = 32, .n_carried = UINT32_MAX}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = 32, .n_carried = 1}},
		{.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = 32, .nullable = 1}},
	};
	gjp_request other = {.op = GJP_PUSH, .column_id = good.id,
						 .shape = {.key_bytes = 8, .slots = ROWS},
						 .column_generation = good.generation};
	long before = helper_memory();
	bool passed = true;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		passed &= ask(0, wrong[i]) >= GJD_INVALID;
	passed &= helper_memory() - before < 64 * 1024;
	ok_and_well(passed, "columns of impossible shapes are refused");
	passed = ask(0, other) == GJD_INVALID;
	other.shape.key_bytes = 4;
	other.shape.slots = 65536;
	passed &= ask(0, other) == GJD_INVALID;
	other.shape = (gjd_shape){.key_bytes = 4, .slots = ROWS, .n_carried = UINT32_MAX};
	passed &= ask(0, other) == GJD_INVALID;
	ok_and_well(passed, "pages of another shape than the column's are refused");

	gjd_shape shape = {.key_bytes = 4, .slots = ROWS};

	passed = ask_entries(0, good, shape, (gjd_want){0, 1}) == GJD_OK &&
			 message_of(0)->out[0] > 0 && message_of(0)->room[0] >= message_of(0)->out[0];
	ok_and_well(passed, "entries come");
	passed = ask_entries(0, good, shape, (gjd_want){1, 1}) == GJD_INVALID &&
			 ask_entries(0, good, shape, (gjd_want){UINT32_MAX, 1}) == GJD_INVALID;
	shape.n_carried = UINT32_MAX;
	passed &= ask_entries(0, good, shape, (gjd_want){UINT32_MAX, 1}) == GJD_INVALID;
	ok_and_well(passed, "entries of columns that there are not are refused");
}

static void
test_pages(void)
{
	bool passed = ask_pages(0, good, UINT32_MAX, 1, 0) == GJD_INVALID &&
				  ask_pages(0, good, 100000, 1, 0) == GJD_INVALID;

	ok_and_well(passed, "parts with more pages than they can have are refused");
	passed = ask_pages(0, good, 1, 1, UINT64_MAX) >= GJD_INVALID &&
			 ask_pages(0, good, 2, 1, (uint64_t) 1 << 40) >= GJD_INVALID;
	ok_and_well(passed, "pages that no memory can hold are refused");
}

static void
test_keys(void)
{
	int64_t keys[] = {1, 2, 3, 3, 2, 1};
	bool passed = ask_keys(0, good, UINT64_MAX, keys, 3, 1) == GJD_NO_HOST_MEMORY &&
				  ask_keys(0, good, GJP_MAX_WORDS + 1, keys, 3, 1) == GJD_NO_HOST_MEMORY;

	ok_and_well(passed, "more keys than there may be are refused");
	passed = ask_keys(0, good, 2, keys, 3, 1) == GJD_INVALID &&
			 ask_keys(0, good, 5, keys, 3, 1) == GJD_INVALID &&
			 ask_keys(0, good, 3, keys, 3, 0) == GJD_INVALID &&
			 ask_keys(0, good, UINT32_MAX, NULL, UINT32_MAX, 1) >= GJD_INVALID &&
			 ask_keys(0, good, GJP_MAX_WORDS, NULL, (uint32_t) (half_bytes / 8 + 1), 0) ==
				 GJD_INVALID;
	ok_and_well(passed, "parts of keys that are not as long as they must be are refused");
	passed = ask_keys(0, good, 6, keys, 6, 1) == GJD_INVALID &&
			 ask_keys(0, good, 4, keys, 4, 1) == GJD_INVALID;
	ok_and_well(passed, "keys that do not ascend are refused");
}

/* Reductions of all keys, whose groups take one part or several, or are not wanted */
static void
test_groups(void)
{
	gjd_reduction asked = {.grouping = GJD_DISTINCT, .span = 1 << 21, .visible_below = 1000,
						   .bound = 1};
	gjp_request request = reduction_of(asked, 0);
	int64_t keys[PAGES * ROWS];
	const gjp_message *message = message_of(0);
	bool passed;

	for (int i = 0; i < PAGES * ROWS; i++)
		keys[i] = i;
	request.keys = PAGES * ROWS;
	passed = ask_words(0, request, keys, PAGES * ROWS) == GJD_OK &&
			 message->result.rows == PAGES * ROWS && message->result.groups == PAGES * ROWS &&
			 message->result.elements == (1 << 21) / 64 &&
			 gjp_read_word(&message->filled, generations[0]) > 2;
	ok_and_well(passed, "groups come in several parts");
	request.groups_if_needed = 1;
	passed = ask_words(0, request, keys, PAGES * ROWS) == GJD_OK &&
			 message->result.groups == PAGES * ROWS && message->result.elements == 0 &&
			 gjp_read_word(&message->filled, generations[0]) == 0;
	ok_and_well(passed, "groups that are not needed do not come");
	request.reduction.visible_below = 4;
	passed = ask_words(0, request, keys, PAGES * ROWS) == GJD_OK &&
			 message->result.groups == 4 * ROWS && message->result.count == 4 * ROWS &&
			 message->result.elements == (1 << 21) / 64;
	ok_and_well(passed, "they are needed if there is a rest");
	request.reduction.bound = 0;
	passed = ask_words(0, request, keys, PAGES * ROWS) == GJD_OK &&
			 message->result.rows == 0 && message->result.matched == 0 &&
			 message->result.elements == (1 << 21) / 64 && message->result.n_newer == PAGES &&
			 message->newer[0] == 0 && message->newer[PAGES - 1] == PAGES - 1;
	ok_and_well(passed, "pages that are newer than the bound are named");
	request.reduce = 0;
	request.top = (gjd_top){.limit = 5, .column = 0, .order = GJD_DESCENDING};
	passed = ask_words(0, request, keys, PAGES * ROWS) == GJD_OK && message->result.count >= 5 &&
			 message->result.count <= ROWS && message->result.matched == PAGES * ROWS;
	ok_and_well(passed, "the first rows of an order come");
}

/* Keys with weights, and groups by columns */
static void
test_weights(void)
{
	gjd_reduction asked = {.n_aggregates = 1, .visible_below = 1000, .aggregates = {{GJD_SUM, 0}},
						   .bound = 1, .n_keys = 3};
	const uint64_t group[] = {0, 0, 9, 1016};
	int64_t words[] = {3, 70, 200, 2 | (int64_t) 3 << 32, 4};
	gjp_request request = reduction_of(asked, 3);
	bool passed;

	request.has_weights = 1;
	passed = ask_words(0, request, words, 5) == GJD_OK && message_of(0)->groups[0] == 1 &&
			 message_of(0)->result.rows == 3 && memcmp(half_of(0, 0), group, sizeof(group)) == 0;
	ok_and_well(passed, "keys have weights");
	words[3] = 0;
	passed = ask_words(0, request, words, 5) == GJD_INVALID;
	words[3] = 2 | (int64_t) 3 << 32;
	passed &= ask_words(0, request, words, 4) == GJD_INVALID;
	request.reduction.n_keys = 2;
	passed &= ask_words(0, request, words, 4) == GJD_INVALID;
	request.reduction.n_keys = UINT64_MAX;
	passed &= ask_words(0, request, words, 4) >= GJD_INVALID;
	ok_and_well(passed, "weights that cannot be are refused");

	asked = (gjd_reduction){.grouping = GJD_BY_COLUMNS, .n_columns = 1, .visible_below = 1000,
							.bound = 1, .room = 2};
	passed = ask_words(0, reduction_of(asked, 3), words, 3) == GJD_TOO_MANY;
	asked.room = 3;
	passed &= ask_words(0, reduction_of(asked, 3), words, 3) == GJD_OK &&
			  message_of(0)->groups[0] == 3;
	ok_and_well(passed, "groups by columns, with enough room and without");
}

static void
test_reductions(void)
{
	static const gjd_reduction wrong[] = {
		{.grouping = 1000},
		{.grouping = UINT32_MAX},
		{.n_aggregates = GJD_MAX_AGGREGATES + 1},
		{.n_aggregates = UINT32_MAX},
		{.n_aggregates = 1, .aggregates = {{GJD_MAX + 1, 0}}},
		{.n_aggregates = 1, .aggregates = {{GJD_SUM, 1}}},
		{.n_aggregates = 1, .aggregates = {{GJD_SUM, UINT32_MAX}}},
		{.grouping = GJD_BY_VALUE},
		{.grouping = GJD_BY_VALUE, .span = UINT64_MAX},
		{.grouping = GJD_BY_VALUE, .span = 10, .column = UINT32_MAX},
		{.grouping = GJD_DISTINCT, .span = 63},
		{.grouping = GJD_DISTINCT, .span = UINT64_MAX - 63},
		{.grouping = GJD_DISTINCT, .span = 64, .n_aggregates = 1},
		{.marked = 1},
		{.visible_below = 3},
		{.visible_below = (uint64_t) 1 << 32},
	};
	static const gjd_top orders[] = {{1, 1, 0}, {1, UINT32_MAX, 0}, {UINT64_MAX, 0, 4},
									 {1, 0, UINT32_MAX}};
	const int64_t words[] = {1, (int64_t) 5 << 32 | 6, 0};
	gjp_request request;
	long before = helper_memory();
	bool passed = true;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		passed &= ask_words(0, reduction_of(wrong[i], 1), words, 1) == GJD_INVALID;
	request = reduction_of((gjd_reduction){0}, 1);
	request.entries = 0;
	passed &= ask_words(0, request, words, 1) == GJD_INVALID;
	request.entries = request.count_only = 1;
	passed &= ask_words(0, request, words, 1) == GJD_INVALID;
	request.count_only = 0;
	request.any_order = 0;
	passed &= ask_words(0, request, words, 1) == GJD_INVALID;
	request.any_order = 1;
	request.shape.slots *= 2;
	passed &= ask_words(0, request, words, 1) == GJD_INVALID;
	request = reduction_of((gjd_reduction){0}, 1);
	request.top.limit = 1;
	passed &= ask_words(0, request, words, 1) == GJD_INVALID;
	ok_and_well(passed, "impossible reductions are refused");

	passed = true;
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
	{
		request = reduction_of((gjd_reduction){0}, 1);
		request.reduce = 0;
		request.top = orders[i];
		passed &= ask_words(0, request, words, 1) == GJD_INVALID;
	}
	ok_and_well(passed, "impossible orders are refused");

	passed = ask_words(0, reduction_of((gjd_reduction){.n_left_out = 2}, 1), words, 1) ==
				 GJD_INVALID &&
			 ask_words(0, reduction_of((gjd_reduction){.n_left_out = 1}, 1), words, 3) ==
				 GJD_INVALID &&
			 ask_words(0, reduction_of((gjd_reduction){.map_bytes = 17}, 1), words, 3) ==
				 GJD_INVALID &&
			 ask_words(0, reduction_of((gjd_reduction){.n_left_out = UINT32_MAX}, 1), words, 3) >=
				 GJD_INVALID &&
			 ask_words(0, reduction_of((gjd_reduction){.map_bytes = UINT64_MAX}, 1), words, 3) >=
				 GJD_INVALID &&
			 ask_words(0, reduction_of((gjd_reduction){.map_bytes = (uint64_t) 1 << 40}, 1), words,
					   3) >= GJD_INVALID &&
			 ask_words(0, reduction_of((gjd_reduction){.n_left_out = 2}, 1), words, 2) ==
				 GJD_INVALID;
	ok_and_well(passed, "lists that are not as long as they must be, or descend, are refused");
	ok_and_well(helper_memory() - before < 64 * 1024, "and take no memory");
}

/* All clients announce half a gigabyte of keys, send a few, and stop. */
static void
test_promises(void)
{
	gjp_request request = {.epoch = EPOCH, .op = GJP_MATCH, .column_id = good.id,
						   .shape = {.key_bytes = 4},
						   .column_generation = good.generation, .keys = GJP_MAX_WORDS};
	long before = helper_memory();
	long most = before;
	bool passed = true;
	uint32_t first = message_of(0)->bell;
	uint32_t second = message_of(1)->bell;

	for (uint32_t slot = 0; slot < SLOTS - 1; slot++)
	{
		generations[slot]++;
		memset(half_of(slot, 0), 0, half_bytes);
		send_part(slot, 0, 100, 0);
		post(slot, &request);
	}
	for (uint32_t slot = 0; slot < SLOTS - 1; slot++)
		for (int i = 0; i < WAIT_MS && helper_lives() &&
						gjp_read_word(&message_of(slot)->taken, generations[slot]) == 0; i++)
			pause_ms(1);
	most = helper_memory();
	printf("# %ld kB before, %ld kB with %d promises\n", before, most, SLOTS - 1);
	ok_and_well(most - before < 64 * 1024, "memory is taken for keys that come, not for promises");
	ok_and_well(!supervisor_is_rung(), "the supervisor is not rung for clients that wait");
	message_of(0)->sleeping = 1;
	for (uint32_t slot = 0; slot < SLOTS - 1; slot++)
	{
		cancel(slot);
		passed &= finish(slot) == GJP_FAILED;
	}
	ok_and_well(passed && nothing_is_left(), "and given back");
	ok_and_well(supervisor_is_rung(), "the supervisor is rung if clients have left");
	ok_and_well(message_of(0)->bell != first && message_of(1)->bell == second,
				"a client is rung if it sleeps");
}

/*
 * Requests that wait while the helper is stopped are one batch; a wrong one, one of a client that
 * has left, and pages are among them.
 */
static void
post_keys(uint32_t slot, uint32_t key_bytes, const int64_t *keys, uint32_t n)
{
	gjp_request request = {.op = GJP_MATCH, .epoch = EPOCH, .column_id = good.id,
						   .column_generation = good.generation,
						   .shape = {.key_bytes = key_bytes}, .keys = n};

	generations[slot]++;
	memcpy(half_of(slot, 0), keys, n * sizeof(*keys));
	send_part(slot, 0, n, 1);
	post(slot, &request);
}

static void
test_batches(void)
{
	const uint32_t n = SLOTS - 1;
	const int64_t keys[] = {3, 70, 200, 511};
	uint64_t batched = control->report.batched;
	bool passed = true;

	signal_helper(SIGSTOP);
	for (uint32_t slot = 0; slot < n; slot++)
		post_keys(slot, slot == 1 ? 8 : 4, keys, 4);
	cancel(2);
	ring();
	signal_helper(SIGCONT);
	for (uint32_t slot = 0; slot < n; slot++)
	{
		bool fails = slot == 1 || slot == 2;

		passed &= finish(slot) == (fails ? GJP_FAILED : GJP_DONE);
		passed &= fails || (message_of(slot)->result.count == 4 && message_of(slot)->out[0] == 4 &&
							((const gjd_tid *) half_of(slot, 0))[2] == gjd_tid_make(3, 9));
	}
	ok_and_well(passed && nothing_is_left(), "requests of a batch get their own answers");
	for (int i = 0; i < 5000 && control->report.batched == batched; i++)
		pause_ms(1);
	ok_and_well(control->report.batched - batched >= n - 2, "there was a batch");
}

/* Posts a request, and waits until the helper has taken it in and has had time to begin it. */
static void
post_and_pause(uint32_t slot, const int64_t *keys, uint32_t n)
{
	post_keys(slot, 4, keys, n);
	ring();
	for (int i = 0; i < 5000 && state_of(slot) == GJP_IDLE; i++)
		pause_ms(1);
	pause_ms(5);
}

/*
 * While the device works on two matches that began in different rounds, small ones are held, until
 * one of the two is over, or both have taken too long; then they are one batch. One whose client
 * leaves ends at once, and a large one is not held. Without holding, each would begin when it
 * comes, and there would be no batch.
 */
static void
test_held(void)
{
	enum
	{
		n_many = 9000
	};
	static int64_t many[n_many];
	const int64_t keys[] = {3, 70, 200, 511};
	const uint32_t left = 3, large = 6;
	uint64_t batches = control->report.batches;
	uint64_t batched = control->report.batched;
	bool passed = ask(0, (gjp_request){.op = GJP_FAULT, .point = GJD_AT_BEGIN, .times = 2,
									   .kind = GJD_FAULT_DELAY, .millis = 2000}) == GJD_OK;

	for (int i = 0; i < n_many; i++)
		many[i] = i;
	for (uint32_t slot = 0; slot < large; slot++)
		post_and_pause(slot, keys, 4);
	cancel(left);
	ring();
	passed &= finish(left) == GJP_FAILED;
	post_and_pause(large, many, n_many);
	passed &= finish(large) == GJP_DONE &&
			  message_of(large)->result.count == (uint64_t) PAGES * ROWS;
	for (uint32_t slot = 0; slot < large; slot++)
		passed &= slot == left || state_of(slot) == GJP_RUNNING;
	ok(passed, "two matches are under way, and those behind them are held");
	passed &= finish(large - 1) == GJP_DONE && state_of(0) == GJP_RUNNING;
	ok(passed, "they do not wait for matches that hang");
	for (uint32_t slot = 0; slot < large - 1; slot++)
		passed &= slot == left || (finish(slot) == GJP_DONE && message_of(slot)->out[0] == 4);
	ok_and_well(passed && nothing_is_left(), "all of them are answered");
	for (int i = 0; i < 5000 && control->report.batched - batched < 3; i++)
		pause_ms(1);
	ok(control->report.batches - batches == 1 && control->report.batched - batched == 3,
	   "those that were held are one batch");
}

static void
test_words(void)
{
	gjp_request request = {.epoch = EPOCH + 1, .op = GJP_MATCH, .column_id = good.id};
	bool passed;

	generations[0]++;
	post(0, &request);
	passed = answers_rightly() && state_of(0) == GJP_IDLE;
	ok_and_well(passed, "a request for another helper is not touched");

	for (int i = 0; i < GJP_SLOT_WORDS; i++)
		__atomic_store_n(&control->posted[i], UINT64_MAX, __ATOMIC_SEQ_CST);
	ring();
	ok_and_well(true, "bells for slots that there are not");

	memset(&control->layout, 0xFF, sizeof(control->layout));
	ok_and_well(true, "the layout is overwritten");

	generations[0]++;
	message_of(0)->in[0] = (gjp_part){1, 0};
	message_of(0)->in[1] = (gjp_part){1, 0};
	gjp_write_word(&message_of(0)->produced, generations[0], UINT32_MAX);
	request.epoch = EPOCH;
	request.column_generation = good.generation;
	request.shape.key_bytes = 4;
	request.keys = 1000;
	post(0, &request);
	passed = finish(0) == GJP_FAILED;
	ok_and_well(passed, "parts that were never sent");

	generations[0]++;
	send_part(0, 0, 0, 1);
	request.keys = 0;
	message_of(0)->request = request;
	post(0, &request);
	gjp_write_word(&message_of(0)->consumed, generations[0], UINT32_MAX);
	passed = finish(0) == GJP_DONE;
	ok_and_well(passed, "parts taken that never came");
}

int
main(int argc, char **argv)
{
	gjp_request create = {.op = GJP_CREATE, .shape = {.key_bytes = 4, .slots = ROWS}};

	if (argc != 3)
		return 2;
	start_helper(argv[1], argv[2]);
	if (ask(0, create) == GJD_OK)
		good = (name){message_of(0)->result.column_id, message_of(0)->result.column_generation};
	ok_and_well(ask_pages(0, good, PAGES, 1, 0) >= GJD_OK && ask_pages(0, good, 0, 1, 0) == GJD_OK,
				"an honest client is served");
	ok(supervisor_is_rung(), "and the supervisor was told that the helper is ready");
	ok(helper_has_left(), "the helper has left the folder and the rights of its parent");
	ok(control->report.memory_total > 0 &&
		   control->report.memory_free <= control->report.memory_total,
	   "and told of the card's memory");
	test_unknown();
	test_shapes();
	test_pages();
	test_keys();
	test_groups();
	test_weights();
	test_reductions();
	test_promises();
	test_batches();
	test_held();
	test_words();
	test_chance(5000);
	control->stop = 1;
	ring();
	printf("1..%d\n", n_tests);
	return n_failed != 0;
}
