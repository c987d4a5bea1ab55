/*
 * service_cases.c
 *	  Requirements of the service: many requests at once, abandoned requests, exhausted
 *	  memory, faults.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static model *
simple_model(uint64_t pages, int64_t distinct)
{
	model *m = make_model(4, 160, pages);

	for (uint64_t i = 0; i < pages * 160; i++)
		set_row(m, i, (int64_t) (i * 7919) % distinct, i % 13 != 0);
	return m;
}

static key_set
set_of(int64_t *keys, uint64_t count, int64_t first)
{
	key_set set = {keys, count};

	for (uint64_t i = 0; i < count; i++)
		keys[i] = first + (int64_t) i * 3;
	return set;
}

/*
 * Sixteen matches in progress while the column changes between their starts: each must see the
 * column as of its own start. In the end the handles of column and sets are destroyed before the
 * answers arrive.
 */
void
test_concurrency(library *lib)
{
	enum
	{
		n = 16
	};
	model *m = simple_model(300, 5000);
	gjd_column *column;
	gjd_match *matches[n];
	answer expected[n];
	int64_t keys[600];
	bool good = true;

	add_carried(m, 4, true);
	column = make_column(lib, m);

	for (int i = 0; i < n; i++)
	{
		gjd_what what = (gjd_what) (i % 5);
		key_set set = set_of(keys, 10 + (uint64_t) i * 30, i);
		gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);

		for (uint64_t r = (uint64_t) i * 160; r < (uint64_t) (i + 3) * 160; r++)
		{
			set_row(m, r, (int64_t) (r * (uint64_t) (i + 3)) % 5000, r % 3 != 0);
			m->carried[0][r] += (uint64_t) i;
			m->nulls[0][r] = (r + (uint64_t) i) % 2;
		}
		good &= push_pages(lib, column, m, (uint64_t) i, 3, (uint64_t) i + 2) == GJD_OK;
		expected[i] = expected_answer(m, set, what);
		good &= begin_match(lib, m, column, keyset, what, &matches[i]) == GJD_OK;
		good &= lib->api->keyset_destroy(keyset, NULL) == GJD_OK;
	}
	destroy_column(lib, column);
	for (int i = n - 1; i >= 0 && good; i--)
	{
		delivery d = {100, i % 3 != 0, 0, true};
		answer a = collect_match(lib, m, matches[i], (gjd_what) (i % 5), NULL, d);

		good &= same_answer(&a, &expected[i]);
		free_answer(&a);
		free_answer(&expected[i]);
	}
	ok(good, "%s: concurrent matches see the column as it was when they began", lib->api->name);
	free_model(m);
}

/*
 * Matches of one set, all in progress at once, each with its own first buffer: long enough or
 * not, at addresses that suit kernels or not.
 */
void
test_shared_set(library *lib)
{
	enum
	{
		n = 12
	};
	model *m = simple_model(300, 500);
	gjd_column *column = make_column(lib, m);
	int64_t keys[40];
	key_set set = set_of(keys, 40, 1);
	gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);
	answer expected = expected_answer(m, set, GJD_TIDS);
	gjd_match *matches[n];
	char *buffers[n];
	bool good = true;

	for (int i = 0; i < n; i++)
	{
		gjd_match_params params = {.struct_size = sizeof(params), .what = GJD_TIDS};

		buffers[i] = lib->arena + lib->arena_bytes / 2 + ((uint64_t) i << 17) +
					 (uint64_t) (i % 3) * 8;
		params.first_buffer = buffers[i];
		params.first_capacity = i % 4 == 3 ? 333 : 9000;
		good &= lib->api->match_begin(column, keyset, &params, &matches[i], NULL) == GJD_OK;
	}
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	for (int i = n - 1; i >= 0 && good; i--)
	{
		delivery d = {1000, true, i % 4 == 3 ? 333 : 9000, false};
		answer a = collect_match(lib, m, matches[i], GJD_TIDS, buffers[i], d);

		good &= same_answer(&a, &expected);
		free_answer(&a);
	}
	ok(good, "%s: matches of one set at once, each with a buffer", lib->api->name);
	free_answer(&expected);
	free_model(m);
}

/* Matches abandoned at once, or in the middle of their result, leave nothing behind. */
void
test_cancel(library *lib)
{
	model *m = simple_model(2000, 700);
	gjd_column *column = make_column(lib, m);
	int64_t keys[200];
	key_set set = set_of(keys, 200, 0);
	gjd_memory_info before, after;
	bool good = true;

	lib->api->memory_info(lib->device, &before, NULL);
	for (int i = 0; i < (int) test_rows(20, 200); i++)
	{
		gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);
		gjd_match_params params = {.struct_size = sizeof(params),
								   .what = i % 3 ? GJD_TIDS : GJD_ENTRIES,
								   .first_buffer = i % 2 ? lib->arena : NULL,
								   .first_capacity = 50,
								   .want = {.keys = 1}};
		gjd_match *match;
		gjd_match_state state;
		gjd_chunk chunk;

		good &= lib->api->match_begin(column, keyset, &params, &match, NULL) == GJD_OK;
		lib->api->keyset_destroy(keyset, NULL);
		if (i % 4 >= 2)
		{
			while (lib->api->match_poll(match, &state, NULL) == GJD_PENDING)
				;
			good &= lib->api->match_next(match, lib->arena, 100, &chunk, NULL) == GJD_OK &&
					chunk.items == 100;
		}
		end_match(lib, match);
	}
	lib->api->memory_info(lib->device, &after, NULL);
	ok(good && before.scratch_used == after.scratch_used && after.matches == 0 &&
		   after.keysets == 0,
	   "%s: matches given up, nothing left", lib->api->name);
	destroy_column(lib, column);
	free_model(m);
}

/* Fills the budget with columns, then the scratch with matches; both recover. */
void
test_memory(const gjd_api *api)
{
	library lib;
	model *m = make_model(4, 160, 16384);
	gjd_column *column;
	gjd_column *other;
	gjd_column_info info;
	gjd_memory_info start, end;
	gjd_match *matches[64];
	gjd_match *extra;
	int64_t keys[8];
	key_set set = set_of(keys, 8, 0);
	gjd_keyset *keyset;
	gjd_status status;
	gjd_error error;
	int n = 0;

	for (uint64_t i = 0; i < m->pages * 160; i++)
		set_row(m, i, (int64_t) (i % 24), true);
	open_library(&lib, api, (uint64_t) 192 << 20, (uint64_t) 96 << 20, 0);
	api->memory_info(lib.device, &start, NULL);
	ok(start.budget == (uint64_t) 192 << 20 && start.columns_limit == (uint64_t) 96 << 20,
	   "%s: budget as asked for", api->name);
	column = make_column(&lib, m);
	ok(column != NULL && check_column(&lib, column, m, set), "%s: column in a small budget",
	   api->name);
	api->column_info(column, &info, NULL);
	status = api->column_reserve(column, 100000, &error);
	ok(status == GJD_NO_MEMORY && error.status == GJD_NO_MEMORY, "%s: too many pages: %s",
	   api->name, error.message);

	uint64_t bytes = info.bytes;

	api->column_info(column, &info, NULL);
	ok(info.bytes == bytes, "%s: a refused reservation takes nothing", api->name);
	ok(create_column(&lib, m, 100000, &other) == GJD_NO_MEMORY,
	   "%s: no room for another column", api->name);
	ok(check_column(&lib, column, m, set), "%s: the column still answers", api->name);

	/* 873813 rows match: results of 7 MB each, until there is no scratch memory left. */
	keyset = make_keyset(&lib, 4, set, GJD_BY_AUTO);
	do
		status = begin_match(&lib, m, column, keyset, GJD_TIDS, &matches[n]);
	while (status == GJD_OK && ++n < 64);
	ok(status == GJD_BUSY && n > 0, "%s: %d matches, then no scratch memory", api->name, n);
	end_match(&lib, matches[--n]);
	ok(begin_match(&lib, m, column, keyset, GJD_TIDS, &extra) == GJD_OK,
	   "%s: room again after one has ended", api->name);
	matches[n++] = extra;

	answer expected = expected_answer(m, set, GJD_TIDS);
	bool good = true;

	while (n > 0)
	{
		delivery d = {100000, true, 0, true};
		answer a = collect_match(&lib, m, matches[--n], GJD_TIDS, NULL, d);

		good &= same_answer(&a, &expected);
		free_answer(&a);
	}
	ok(good, "%s: all of them right", api->name);
	free_answer(&expected);
	api->keyset_destroy(keyset, NULL);

	/* Every row matches: more than a window holds, and no room for the whole result. */
	for (int i = 0; i < 8; i++)
		keys[i] = i * 3;
	for (uint64_t i = 0; i < m->pages * 160; i++)
		set_row(m, i, keys[i % 8], true);
	push_pages(&lib, column, m, 0, m->pages, 2);
	keyset = make_keyset(&lib, 4, set, GJD_BY_AUTO);
	expected = expected_answer(m, set, GJD_TIDS);
	do
		status = begin_match(&lib, m, column, keyset, GJD_TIDS, &matches[n]);
	while (status == GJD_OK && ++n < 64);
	good = n > 0;
	while (n > 0)
	{
		delivery d = {300000, true, 0, true};
		answer a = collect_match(&lib, m, matches[--n], GJD_TIDS, NULL, d);

		good &= same_answer(&a, &expected);
		free_answer(&a);
	}
	ok(good, "%s: results larger than the scratch memory left", api->name);
	free_answer(&expected);
	api->keyset_destroy(keyset, NULL);

	destroy_column(&lib, column);
	api->memory_info(lib.device, &end, NULL);
	ok(end.columns_used == 0 && end.scratch_used == start.scratch_used,
	   "%s: all memory is back", api->name);
	ok(close_library(&lib), "%s: closes after running out of memory", api->name);
	free_model(m);
}

/* Creates a set of the keys 0 .. count - 1, and returns the status. */
static gjd_status
create_dense_set(library *lib, uint64_t count, gjd_keyset **keyset)
{
	gjd_keyset_params params = {sizeof(params), 4, NULL, count, GJD_BY_AUTO, NULL};
	int64_t *keys = malloc(count * sizeof(*keys));
	gjd_status status;

	for (uint64_t i = 0; i < count; i++)
		keys[i] = (int64_t) i;
	params.keys = keys;
	status = lib->api->keyset_create(lib->device, &params, keyset, NULL);
	free(keys);
	return status;
}

/*
 * A nearly full card: of 64 MB beside columns, 39 are free, because staging keeps 24. What never
 * fits is refused at once; what would fit if others had ended is told to wait.
 */
void
test_full_card(const gjd_api *api)
{
	library lib;
	model *m = make_model(4, 160, 16384);
	gjd_column *column;
	gjd_column_info info;
	gjd_keyset *one = NULL, *two = NULL;
	gjd_match *match;
	gjd_status status;

	for (uint64_t i = 0; i < m->pages * 160; i++)
		set_row(m, i, (int64_t) i, true);
	open_library(&lib, api, (uint64_t) 192 << 20, (uint64_t) 64 << 20, 0);
	column = make_column(&lib, m);
	do
		api->column_info(column, &info, NULL);
	while (api->column_reserve(column, info.reserved_pages + 1, NULL) == GJD_OK);

	status = create_dense_set(&lib, 10500000, &one);
	ok(status == GJD_NO_MEMORY, "%s: a set that never fits beside what is kept: %d", api->name,
	   status);
	ok(create_dense_set(&lib, 8000000, &one) == GJD_OK, "%s: a smaller one does", api->name);
	status = create_dense_set(&lib, 8000000, &two);
	ok(status == GJD_BUSY, "%s: another one has to wait: %d", api->name, status);
	status = begin_match(&lib, m, column, one, GJD_TIDS, &match);
	ok(status == GJD_NO_MEMORY, "%s: a result that never fits beside its own set: %d", api->name,
	   status);
	api->keyset_destroy(one, NULL);
	ok(create_dense_set(&lib, 1000, &one) == GJD_OK &&
		   begin_match(&lib, m, column, one, GJD_TIDS, &match) == GJD_OK,
	   "%s: small requests are served", api->name);
	end_match(&lib, match);
	api->keyset_destroy(one, NULL);
	destroy_column(&lib, column);
	ok(close_library(&lib), "%s: closes after being full", api->name);
	free_model(m);
}

/* ---- faults -------------------------------------------------------------------------------- */

static void
arm(library *lib, gjd_fault_point point, gjd_fault_kind kind, uint32_t skip, uint32_t times,
	uint32_t millis)
{
	gjd_fault fault = {sizeof(fault), point, kind, skip, times, millis};

	lib->api->inject_fault(lib->device, &fault, NULL);
}

static int64_t
now_ms(void)
{
	struct timespec t;

	timespec_get(&t, TIME_UTC);
	return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Returns how a child ends that begins a match under a fault. */
static int
end_of_child(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset,
			 gjd_fault_kind kind)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		gjd_match *match;

		arm(lib, GJD_AT_BEGIN, kind, 0, 1, 0);
		if (kind == GJD_FAULT_HANG)
			alarm(1);
		begin_match(lib, m, column, keyset, GJD_COUNT, &match);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

void
test_faults(library *lib)
{
	const gjd_api *api = lib->api;
	model *m = simple_model(10, 50);
	gjd_column *column;
	gjd_keyset *keyset;
	gjd_match *match;
	gjd_match_state state;
	int64_t keys[5];
	key_set set = set_of(keys, 5, 0);
	int64_t begun;
	int status;

	if (api->inject_fault == NULL)
	{
		ok(strcmp(api->name, "reference") != 0, "%s: no faults to inject", api->name);
		free_model(m);
		return;
	}
	column = make_column(lib, m);
	keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);
	arm(lib, GJD_AT_BEGIN, GJD_FAULT_NO_MEMORY, 1, 1, 0);
	ok(begin_match(lib, m, column, keyset, GJD_COUNT, &match) == GJD_OK,
	   "fault waits for its turn");
	end_match(lib, match);
	ok(begin_match(lib, m, column, keyset, GJD_COUNT, &match) == GJD_NO_MEMORY, "fault strikes");
	ok(begin_match(lib, m, column, keyset, GJD_COUNT, &match) == GJD_OK, "fault is over");
	end_match(lib, match);
	arm(lib, GJD_AT_BEGIN, GJD_FAULT_DELAY, 0, 1, 2000);
	begun = now_ms();
	begin_match(lib, m, column, keyset, GJD_COUNT, &match);
	ok(now_ms() - begun < 1500, "a delayed call returns at once");
	while (api->match_poll(match, &state, NULL) == GJD_PENDING)
		usleep(10000);
	ok(now_ms() - begun >= 1500, "a delayed match comes late");
	end_match(lib, match);
	status = end_of_child(lib, m, column, keyset, GJD_FAULT_CRASH);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "crash");
	status = end_of_child(lib, m, column, keyset, GJD_FAULT_ABORT);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "abort");
	status = end_of_child(lib, m, column, keyset, GJD_FAULT_EXIT);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 3, "exit");
	status = end_of_child(lib, m, column, keyset, GJD_FAULT_HANG);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM, "hang");
	api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);

	/* A device that is lost stays lost. */
	library lost;

	open_library(&lost, api, (uint64_t) 1 << 28, 0, 0);
	m = simple_model(10, 50);
	column = make_column(&lost, m);
	keyset = make_keyset(&lost, 4, set, GJD_BY_AUTO);
	arm(&lost, GJD_AT_POLL, GJD_FAULT_LOST, 0, 1, 0);
	begin_match(&lost, m, column, keyset, GJD_COUNT, &match);
	ok(api->match_poll(match, &state, NULL) == GJD_DEVICE_LOST &&
		   api->match_poll(match, &state, NULL) == GJD_DEVICE_LOST &&
		   begin_match(&lost, m, column, keyset, GJD_COUNT, &match) == GJD_DEVICE_LOST,
	   "a lost device stays lost");
	free_model(m);
}
