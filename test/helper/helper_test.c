/*
 * helper_test.c
 *	  The helper program alone, with a hostile client: whatever is written to the arena by a
 *	  process that may write there, the helper neither crashes nor hangs, takes little memory,
 *	  and continues to answer others correctly.
 *
 * Called with the helper and the reference library; plays the supervisor and the clients. TAP.
 */
#include "helper_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The column that is searched again and again: page p, slot s has key p * ROWS + s */
#define PAGES 8

static name good;
static uint64_t random_state = 20261121;
static int n_tests, n_failed;

/* ---- TAP, chance ----------------------------------------------------------------------------- */

static void
ok(bool passed, const char *what)
{
	n_tests++;
	n_failed += !passed;
	printf("%sok %d - %s\n", passed ? "" : "not ", n_tests, what);
	fflush(stdout);
}

static uint64_t
chance(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Returns a number that is small, next to a limit, or arbitrary */
static uint64_t
odd_number(void)
{
	static const uint64_t odd[] = {0, 1, 2, 4, 8, 31, 32, 64, 65536, UINT32_MAX, UINT64_MAX,
								   (uint64_t) 1 << 31, (uint64_t) 1 << 40, (uint64_t) 1 << 63,
								   (uint64_t) 64 << 20, ((uint64_t) 64 << 20) + 1};
	uint64_t n = chance();

	if (n % 4 == 0)
		return chance();
	if (n % 4 == 1)
		return chance() % 100;
	return odd[chance() % (sizeof(odd) / sizeof(odd[0]))] + (n >> 8) % 3 - 1;
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

static void
ok_and_well(bool passed, const char *what)
{
	bool well = helper_lives() && answers_rightly();

	if (!passed || !well)
		printf("# %s, %s\n", passed ? "as wanted" : "another answer than wanted",
			   well ? "all is well afterwards" : "no right answers afterwards");
	ok(passed && well, what);
	if (!well)
		exit(1);
}

static bool
nothing_is_left(void)
{
	const volatile gjp_report *r = &control->report;

	for (int i = 0; i < 5000 && helper_lives(); i++, pause_ms(1))
		if (r->columns == 1 && r->keysets == 0 && r->matches == 0 && r->memory_scratch == 0)
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
				  ask_keys(0, good, GJP_MAX_KEYS + 1, keys, 3, 1) == GJD_NO_HOST_MEMORY;

	ok_and_well(passed, "more keys than there may be are refused");
	passed = ask_keys(0, good, 2, keys, 3, 1) == GJD_INVALID &&
			 ask_keys(0, good, 5, keys, 3, 1) == GJD_INVALID &&
			 ask_keys(0, good, 3, keys, 3, 0) == GJD_INVALID &&
			 ask_keys(0, good, UINT32_MAX, NULL, UINT32_MAX, 1) >= GJD_INVALID &&
			 ask_keys(0, good, GJP_MAX_KEYS, NULL, (uint32_t) (half_bytes / 8 + 1), 0) ==
				 GJD_INVALID;
	ok_and_well(passed, "parts of keys that are not as long as they must be are refused");
	passed = ask_keys(0, good, 6, keys, 6, 1) == GJD_INVALID &&
			 ask_keys(0, good, 4, keys, 4, 1) == GJD_INVALID;
	ok_and_well(passed, "keys that do not ascend are refused");
}

/* All clients announce half a gigabyte of keys, send a few, and stop. */
static void
test_promises(void)
{
	gjp_request request = {.epoch = EPOCH, .op = GJP_MATCH, .column_id = good.id,
						   .shape = {.key_bytes = 4},
						   .column_generation = good.generation, .keys = GJP_MAX_KEYS};
	long before = helper_memory();
	long most = before;
	bool passed = true;

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
	for (uint32_t slot = 0; slot < SLOTS - 1; slot++)
	{
		cancel(slot);
		passed &= finish(slot) == GJP_FAILED;
	}
	ok_and_well(passed && nothing_is_left(), "and given back");
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

/* ---- chance ---------------------------------------------------------------------------------- */

static void
scribble(uint32_t slot, bool at_work)
{
	gjp_message *message = message_of(slot);

	if (chance() % 2 == 0)
		message->in[chance() % GJP_HALVES] = (gjp_part){(uint32_t) odd_number(), chance() % 2};
	if (chance() % 2 == 0)
		gjp_write_word(&message->produced, generations[slot], (uint32_t) odd_number());
	if (at_work && chance() % 2 == 0)
		gjp_write_word(&message->consumed, generations[slot], (uint32_t) odd_number());
	if (chance() % 4 == 0)
		for (int i = 0; i < 64; i++)
			((uint64_t *) half_of(slot, (uint32_t) chance()))[chance() % (half_bytes / 8)] =
				odd_number();
	if (at_work && chance() % 8 == 0)
		message->request.op = GJP_FAULT + 1 + (uint32_t) (chance() % 1000);
}

static gjp_request
random_request(void)
{
	gjp_request r = {.epoch = EPOCH, .op = 1 + (uint32_t) (chance() % 5),
					 .column_id = chance() % 2 ? good.id : (uint32_t) odd_number(),
					 .column_generation = good.generation,
					 .shape = {.key_bytes = chance() % 2 ? 4 : (uint32_t) odd_number(),
							   .slots = chance() % 2 ? ROWS : (uint32_t) odd_number()},
					 .count_only = chance() % 2, .reserve_pages = odd_number(),
					 .entries = chance() % 2,
					 .want = {chance() % 2 ? 0 : (uint32_t) odd_number(), chance() % 2},
					 .keys = chance() % 2 ? chance() % 50000 : odd_number()};

	if (chance() % 4 == 0)
		r.shape.n_carried = (uint32_t) odd_number();

	/*
	 * The good column stays, and faults are limited to those that leave it and the helper intact.
	 */
	if (r.op == GJP_DROP || (r.op == GJP_PUSH && r.column_id == good.id))
		r.column_generation += 1 + chance() % 1000;
	r.point = (uint32_t) odd_number();
	r.kind = chance() % 2 ? GJD_FAULT_NO_MEMORY : GJD_FAULT_NONE;
	r.times = 1;
	return r;
}

/* Drops a column that was created by a random request. */
static void
drop_made(uint32_t slot, uint32_t op)
{
	gjp_request drop = {.op = GJP_DROP, .column_id = message_of(slot)->result.column_id,
						.column_generation = message_of(slot)->result.column_generation};

	if (op == GJP_CREATE && state_of(slot) == GJP_DONE)
		ask(slot, drop);
}

static void
test_chance(int rounds)
{
	int done = 0;
	int failed = 0;
	long before = helper_memory();

	for (int i = 0; i < rounds && helper_lives(); i++)
	{
		uint32_t slot = (uint32_t) (chance() % (SLOTS - 1));
		gjp_request request = random_request();
		uint32_t state;

		generations[slot]++;
		scribble(slot, false);
		post(slot, &request);
		for (uint64_t n = chance() % 20; n > 0; n--)
			scribble(slot, true);
		cancel(slot);
		state = finish(slot);
		done += state == GJP_DONE;
		failed += state == GJP_FAILED;
		if (state == GJP_IDLE)
			break;
		drop_made(slot, request.op);
	}
	for (uint32_t point = 0; point < GJD_AT_COUNT; point++)
		ask(0, (gjp_request){.op = GJP_FAULT, .point = point, .kind = GJD_FAULT_NONE});
	printf("# of %d requests of chance %d were done, %d failed\n", rounds, done, failed);
	ok_and_well(done + failed == rounds, "requests of chance all come to an end");
	ok_and_well(nothing_is_left(), "and leave nothing behind");
	ok_and_well(helper_memory() - before < 256 * 1024, "nor take memory");
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
	ok(control->report.memory_total > 0 &&
		   control->report.memory_free <= control->report.memory_total,
	   "and told of the card's memory");
	test_unknown();
	test_shapes();
	test_pages();
	test_keys();
	test_promises();
	test_words();
	test_chance(5000);
	control->stop = 1;
	ring();
	printf("1..%d\n", n_tests);
	return n_failed != 0;
}
