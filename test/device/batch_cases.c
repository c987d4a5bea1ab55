/*
 * batch_cases.c
 *	  Batches: many requests begin, and are started together.
 */
#include "cases.h"

enum
{
	n_requests = 112, /* several batches, since one has at most 64 */
	n_until_pushed = 40 /* pages are pushed before these have begun, only */
};

/* A request of a batch */
typedef struct asked
{
	gjd_what what;
	key_set set;
	gjd_match *match;
	char *first; /* its first buffer, or NULL */
	answer expected;
} asked;

/* Values of 4 or 8 bytes; pages are in key order, so that most are skipped. */
static model *
ordered_model(uint32_t key_bytes)
{
	model *m = make_model(key_bytes, 1024, 700);

	for (uint64_t i = 0; i < m->pages * 1024; i++)
		set_row(m, i, (int64_t) (i / 20) * 3, i % 17 != 0);
	add_carried(m, 4, true);
	return m;
}

/* Sets of all sizes, so that there are several of each strategy. */
static key_set
set_of_request(int i)
{
	static const uint64_t counts[] = {1000, 5, 200, 20000, 1000, 0, 60};
	uint64_t count = counts[i % 7];
	key_set set = {malloc((count + 1) * sizeof(int64_t)), count};
	int64_t step = i % 7 == 2 ? 3 : 1 + (int64_t) (107000 / (count + 1));

	for (uint64_t k = 0; k < count; k++)
		set.keys[k] = i * 5 + (int64_t) k * step;
	return set;
}

static void
begin_request(library *lib, const model *m, gjd_column *column, asked *q, int i, bool *good)
{
	gjd_match_params params = {.struct_size = sizeof(params), .what = (gjd_what) (i * 2 % 5),
							   .want = m->want, .any_order = i % 3 == 0};
	gjd_keyset *keyset;

	if (i >= n_requests - 2) /* a library may start the others earlier */
		params.what = GJD_TIDS;
	q->what = params.what;
	q->set = set_of_request(i);
	q->first = i % 4 == 0 ? NULL : lib->arena + lib->arena_bytes / 2 + ((uint64_t) i << 17);
	params.first_buffer = q->first;
	params.first_capacity = 3000;
	keyset = make_keyset_of(lib, m, q->set, GJD_BY_AUTO);
	*good &= lib->api->match_begin(column, keyset, &params, &q->match, NULL) == GJD_OK;
	q->expected = expected_answer(m, q->set, q->what);
	q->expected.ascending &= !(params.any_order != 0 &&
							   (q->what == GJD_TIDS || q->what == GJD_ENTRIES));
	*good &= lib->api->keyset_destroy(keyset, NULL) == GJD_OK;
}

/*
 * In one batch: requests of all kinds, one that is refused, one that is given up, and pages that
 * those which have begun must not see.
 */
static void
check_batch(library *lib, uint32_t key_bytes)
{
	const gjd_api *api = lib->api;
	model *m = ordered_model(key_bytes);
	gjd_column *column = make_column(lib, m);
	gjd_match_params wrong = {.struct_size = sizeof(wrong), .what = GJD_TIDS, .rest_column = 9};
	gjd_keyset *other = make_keyset_of(lib, m, (key_set) {NULL, 0}, GJD_BY_AUTO);
	asked requests[n_requests];
	gjd_match_state state;
	gjd_batch_info before, after;
	gjd_match *refused;
	bool good = api->batch_begin(lib->device, NULL) == GJD_OK;
	int given_up = n_requests - 2;

	good &= api->batch_end(lib->device, &before, NULL) == GJD_OK;
	good &= api->batch_end(lib->device, NULL, NULL) == GJD_INVALID;
	ok(good, "%s: an empty batch", api->name);

	good = api->batch_begin(lib->device, NULL) == GJD_OK &&
		   api->batch_begin(lib->device, NULL) == GJD_INVALID;
	for (int i = 0; i < n_requests; i++)
	{
		begin_request(lib, m, column, &requests[i], i, &good);
		if (i == 3)
			good &= api->match_begin(column, other, &wrong, &refused, NULL) == GJD_INVALID;
		if (i % 11 != 10 || i >= n_until_pushed)
			continue;
		for (uint64_t r = (uint64_t) i * 1024; r < (uint64_t) (i + 3) * 1024; r++)
		{
			set_row(m, r, (int64_t) (r / 7), r % 3 != 0);
			m->carried[0][r] += (uint64_t) i;
		}
		good &= push_pages(lib, column, m, (uint64_t) i, 3, (uint64_t) i + 2) == GJD_OK;
	}
	ok(good, "%s, %u bytes: requests begin in a batch", api->name, key_bytes);
	ok(api->match_poll(requests[n_requests - 1].match, &state, NULL) == GJD_PENDING &&
		   !state.ready && api->match_end(requests[given_up].match, NULL) == GJD_PENDING,
	   "%s, %u bytes: those of an open batch are pending", api->name, key_bytes);
	good = api->batch_end(lib->device, &after, NULL) == GJD_OK;
	end_match(lib, requests[given_up].match);
	ok(good && after.batches - before.batches >= 3 && after.matches - before.matches >= 12,
	   "%s, %u bytes: several batches of several requests: %llu of %llu", api->name, key_bytes,
	   (unsigned long long) (after.batches - before.batches),
	   (unsigned long long) (after.matches - before.matches));
	good = true;
	for (int i = 0; i < n_requests; i++)
	{
		asked *q = &requests[i];
		delivery d = {777, true, q->first != NULL ? 3000 : 0, false};

		if (i != given_up)
		{
			answer a = collect_match(lib, m, q->match, q->what, q->first, d);

			if (!same_answer(&a, &q->expected))
				note("request %d of kind %d, %llu keys", i, q->what,
					 (unsigned long long) q->set.count);
			good &= same_answer(&a, &q->expected);
			free_answer(&a);
		}
		free_answer(&q->expected);
		free(q->set.keys);
	}
	ok(good, "%s, %u bytes: each of them gets its own answer", api->name, key_bytes);
	api->keyset_destroy(other, NULL);
	destroy_column(lib, column);
	free_model(m);
}

void
test_batches(library *lib)
{
	if ((lib->api->capabilities & GJD_CAN_BATCH) == 0)
		return;
	check_batch(lib, 4);
	check_batch(lib, 8);
}
