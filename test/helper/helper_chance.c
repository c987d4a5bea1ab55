/*
 * helper_chance.c
 *	  Random requests to the helper, and random words in the arena while it works on them
 */
#include "helper_test.h"

#include <stdio.h>

static uint64_t random_state = 20261121;

static uint64_t
chance(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

uint64_t
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

static void
scribble(uint32_t slot, uint64_t words, bool at_work)
{
	gjp_message *message = message_of(slot);

	if (chance() % 2 == 0)
		message->in[chance() % GJP_HALVES] = (gjp_part){(uint32_t) odd_number(), chance() % 2};
	if (!at_work && chance() % 2 == 0)
		message->in[0] = (gjp_part){(uint32_t) words, 1};
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

static void
add_reduction(gjp_request *r)
{
	r->reduce = 1;
	r->groups_if_needed = chance() % 4 == 0;
	r->any_order = chance() % 8 != 0;
	r->reduction.struct_size = (uint32_t) odd_number();
	r->reduction.grouping = (uint32_t) chance() % 7;
	r->reduction.column = chance() % 8 ? 0 : (uint32_t) odd_number();
	r->reduction.n_aggregates = chance() % 8 ? chance() % 4 : (uint32_t) odd_number();
	for (int i = 0; i < GJD_MAX_AGGREGATES; i++)
		r->reduction.aggregates[i] = (gjd_aggregate){(uint32_t) chance() % 5,
													 chance() % 16 ? 0 : (uint32_t) odd_number()};
	r->reduction.least = (int64_t) (chance() % 2 ? 0 : odd_number());
	r->reduction.span = chance() % 2 ? 64 * (chance() % 100) : odd_number();
	r->reduction.marked = chance() % 8 ? 0 : (uint32_t) odd_number();
	r->reduction.n_left_out = chance() % 4 ? chance() % 4 : (uint32_t) odd_number();
	r->reduction.bound = odd_number();
	r->reduction.visible_below = chance() % 2 ? chance() % 10 * 4 : odd_number();
	r->reduction.map_bytes = chance() % 4 ? chance() % 100 : odd_number();
	r->reduction.n_columns = chance() % 4 ? 1 : (uint32_t) odd_number();
	r->reduction.room = chance() % 2 ? chance() % 100 : odd_number();
	r->reduction.only_shared = chance() % 4 == 0;
	r->reduction.n_keys = chance() % 2 ? r->keys : odd_number();
	r->has_weights = chance() % 4 == 0;
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
	if (chance() % 2 == 0)
		add_reduction(&r);
	if (chance() % 8 == 0)
		r.rest_column = (uint32_t) odd_number();
	if (chance() % 8 == 0)
		r.top = (gjd_top){odd_number(), (uint32_t) chance() % 3, (uint32_t) chance() % 5};
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

void
test_chance(int rounds)
{
	int done = 0;
	int failed = 0;
	long before = helper_memory();

	for (int i = 0; i < rounds && helper_lives(); i++)
	{
		uint32_t slot = (uint32_t) (chance() % (SLOTS - 1));
		gjp_request request = random_request();
		uint64_t words = gjp_words_before(&request, GJP_SECTIONS);
		uint32_t state;

		generations[slot]++;
		scribble(slot, words, false);
		post(slot, &request);
		for (uint64_t n = chance() % 20; n > 0; n--)
			scribble(slot, words, true);
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
