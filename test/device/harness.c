/*
 * harness.c
 *	  See harness.h.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>

#define BEHIND_BYTES 64 /* bytes checked after a buffer */

static int tests = 0;
static int failures = 0;

/* ---- TAP ----------------------------------------------------------------------------------- */

void
ok(bool passed, const char *format, ...)
{
	va_list args;

	tests++;
	failures += !passed;
	printf("%sok %d - ", passed ? "" : "not ", tests);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void
note(const char *format, ...)
{
	va_list args;

	printf("# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

int
finish_tap(void)
{
	printf("1..%d\n", tests);
	return failures > 0;
}

static void
give_up(const char *what, const char *why)
{
	printf("Bail out! %s: %s\n", what, why);
	exit(2);
}

bool
test_is_small(void)
{
	return getenv("GPUJOIN_TEST_SMALL") != NULL;
}

uint64_t
test_rows(uint64_t few, uint64_t many)
{
	return test_is_small() ? few : getenv("GPUJOIN_TEST_QUICK") != NULL ? many / 3 : many;
}

bool
test_is_mine(void)
{
	static unsigned long checks = 0;
	unsigned long share = 0;
	unsigned long shares = 1;
	const char *text = getenv("GPUJOIN_TEST_SHARE");

	if (text != NULL && (sscanf(text, "%lu/%lu", &share, &shares) != 2 || share >= shares))
		give_up("GPUJOIN_TEST_SHARE", "not of the form 0/4");
	return checks++ % shares == share;
}

uint64_t
random64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* ---- library ------------------------------------------------------------------------------- */

const gjd_api *
load_library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	gjd_get_api_fn get_api;

	if (handle == NULL)
		give_up(path, dlerror());
	*(void **) &get_api = dlsym(handle, GJD_ENTRY);
	if (get_api == NULL)
		give_up(path, "entry not found");
	if (get_api(GJD_API_VERSION + 1) != NULL || get_api(GJD_API_VERSION) == NULL)
		give_up(path, "wrong version");
	return get_api(GJD_API_VERSION);
}

void
open_library(library *lib, const gjd_api *api, uint64_t budget, uint64_t scratch,
			 uint32_t shared_limit)
{
	gjd_open_params params = {sizeof(params), shared_limit, NULL, budget, scratch};
	gjd_error error;

	lib->api = api;
	if (api->device_open(&params, &lib->device, &error) != GJD_OK)
		give_up("could not open the device", error.message);
	lib->arena_bytes = (uint64_t) 32 << 20;
	lib->arena = mmap(NULL, lib->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
					  -1, 0);
	if (lib->arena == MAP_FAILED)
		give_up("could not map an arena", "");
	if (api->host_register(lib->device, lib->arena, lib->arena_bytes, &error) != GJD_OK)
		note("%s: arena not registered: %s", api->name, error.message);
}

bool
close_library(library *lib)
{
	bool good = lib->api->host_unregister(lib->device, lib->arena, NULL) == GJD_OK;

	good &= lib->api->device_close(lib->device, NULL) == GJD_OK;
	munmap(lib->arena, lib->arena_bytes);
	return good;
}

/* ---- requests ------------------------------------------------------------------------------ */

gjd_status
push_pages(library *lib, gjd_column *column, const model *m, uint64_t first, uint64_t count,
		   uint64_t version)
{
	uint64_t image_bytes = gjd_shape_image_bytes(&m->shape);
	uint64_t fit = lib->arena_bytes / 2 / image_bytes;
	gjd_status status = GJD_OK;

	for (uint64_t done = 0; done < count && status == GJD_OK;)
	{
		uint64_t n = count - done < fit ? count - done : fit;
		gjd_page_head *heads = malloc(n * sizeof(*heads));
		uint64_t sent = 0;
		uint64_t ticket = 0;

		for (uint64_t i = 0; i < n; i++)
		{
			heads[i].page = first + done + i;
			heads[i].version = version;
			make_image(m, first + done + i, lib->arena + i * image_bytes);
		}
		while (sent < n && (status == GJD_OK || status == GJD_PENDING))
		{
			uint64_t accepted;

			status = lib->api->column_write_pages(column, heads + sent,
												  lib->arena + sent * image_bytes, n - sent,
												  &accepted, &ticket, NULL);
			sent += accepted;
		}
		if (status == GJD_OK)
			do
				status = lib->api->column_write_poll(column, ticket, NULL);
			while (status == GJD_PENDING);
		free(heads);
		done += n;
	}
	return status;
}

gjd_status
create_column(library *lib, const model *m, uint64_t reserve, gjd_column **column)
{
	gjd_column_params params = {.struct_size = sizeof(params),
								.key_bytes = m->shape.key_bytes,
								.slots = m->shape.slots,
								.n_carried = m->shape.n_carried,
								.reserve_pages = reserve,
								.nullable = m->shape.nullable};

	memcpy(params.carried_bytes, m->shape.carried_bytes, sizeof(params.carried_bytes));
	return lib->api->column_create(lib->device, &params, column, NULL);
}

gjd_column *
make_column(library *lib, const model *m)
{
	gjd_column *column = NULL;

	if (create_column(lib, m, 0, &column) != GJD_OK)
		return NULL;
	if (push_pages(lib, column, m, 0, m->pages, 1) != GJD_OK)
	{
		destroy_column(lib, column);
		return NULL;
	}
	return column;
}

/* Makes a set for matches with the model's rows. */
gjd_keyset *
make_keyset_of(library *lib, const model *m, key_set set, gjd_strategy strategy)
{
	gjd_keyset_params params = {sizeof(params), m->shape.key_bytes, set.keys, set.count,
								strategy,		m->rests};
	gjd_keyset *keyset = NULL;

	return lib->api->keyset_create(lib->device, &params, &keyset, NULL) == GJD_OK ? keyset : NULL;
}

gjd_keyset *
make_keyset(library *lib, uint32_t key_bytes, key_set set, gjd_strategy strategy)
{
	model any = {.shape = {.key_bytes = key_bytes}};

	return make_keyset_of(lib, &any, set, strategy);
}

void
destroy_column(library *lib, gjd_column *column)
{
	while (lib->api->column_destroy(column, NULL) == GJD_PENDING)
		;
}

gjd_status
begin_match(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset, gjd_what what,
			gjd_match **match)
{
	gjd_match_params params = {.struct_size = sizeof(params), .what = what, .want = m->want,
							   .rest_column = m->rest_column, .filter = m->filter};

	return lib->api->match_begin(column, keyset, &params, match, NULL);
}

void
end_match(library *lib, gjd_match *match)
{
	while (lib->api->match_end(match, NULL) == GJD_PENDING)
		;
}

gjd_status
wait_match(library *lib, gjd_match *match, gjd_match_state *state)
{
	gjd_status status;

	do
		status = lib->api->match_poll(match, state, NULL);
	while (status == GJD_PENDING);
	return status;
}

/* Takes n items that have been delivered to a buffer with the given room. */
static void
take_items(const model *m, gjd_what what, answer *a, uint64_t first, const char *buffer,
		   uint64_t room, uint64_t n)
{
	char *to = (char *) a->data + first * a->item_bytes;

	if (what == GJD_ENTRIES && n > 0)
		unpack_part(m, buffer, room, n, to);
	else
		memcpy(to, buffer, n * a->item_bytes);
}

/* Fetches the rest of a result in chunks, and ends the match, even if that fails. */
answer
collect_match(library *lib, const model *m, gjd_match *match, gjd_what what, void *first,
			  delivery d)
{
	gjd_match_state state;
	answer a = {.status = GJD_OK, .ascending = true};
	uint64_t half = lib->arena_bytes / 2;
	uint64_t capacity = d.capacity;
	char *space = d.registered ? lib->arena : malloc(lib->arena_bytes);

	memset(&state, 0x5a, sizeof(state));
	a.status = wait_match(lib, match, &state);
	if (a.status != GJD_OK)
		memset(&state, 0, sizeof(state));
	a.count = state.count;
	a.matched = state.matched;
	a.items = state.items;
	a.ascending = state.ascending;
	a.item_bytes = state.item_bytes;
	a.data = malloc(state.items * state.item_bytes + 8);
	if (first && state.delivered > 0)
		take_items(m, what, &a, 0, first, d.first_capacity, state.delivered);
	if (capacity == 0 && what == GJD_ENTRIES)
		capacity = gjd_entry_room(&m->shape, m->want, half);
	else if (capacity == 0 && state.item_bytes > 0)
		capacity = half / state.item_bytes;
	while (a.status == GJD_OK && state.begun < state.items)
	{
		gjd_chunk chunks[2] = {{0, 0}, {0, 0}};

		for (int i = 0; i < (d.two_at_once ? 2 : 1); i++)
		{
			gjd_status status = lib->api->match_next(match, space + (uint64_t) i * half, capacity,
													 &chunks[i], NULL);

			if (status != GJD_OK && status != GJD_PENDING)
				a.status = status;
		}
		if (a.status == GJD_OK)
			a.status = wait_match(lib, match, &state);
		for (int i = 0; i < 2; i++)
			take_items(m, what, &a, chunks[i].first, space + (uint64_t) i * half, capacity,
					   chunks[i].items);
	}
	if (a.status == GJD_OK && state.delivered != state.items)
		a.status = GJD_INTERNAL;
	end_match(lib, match);
	if (!d.registered)
		free(space);
	return a;
}

/* Returns the length of a buffer for the given number of items. */
static uint64_t
buffer_bytes(const model *m, gjd_what what, uint64_t capacity)
{
	gjd_entry_layout layout;

	if (what != GJD_ENTRIES)
		return capacity * (what == GJD_BITMAP ? 4 : 8);
	gjd_entry_layout_of(&m->shape, m->want, capacity, &layout);
	return layout.bytes;
}

/* Returns true if the bytes after a buffer are unchanged. */
static bool
is_untouched(const char *behind)
{
	for (int i = 0; i < BEHIND_BYTES; i++)
		if (behind[i] != 0x5a)
			return false;
	return true;
}

bool tests_are_crowded;

void
open_crowd(library *lib)
{
	lib->crowd_is_open = tests_are_crowded && (lib->api->capabilities & GJD_CAN_BATCH) != 0 &&
						 lib->api->batch_begin(lib->device, NULL) == GJD_OK;
}

/* Begins a match, and ends the batch, if one is open. */
gjd_status
begin_crowded(library *lib, gjd_column *column, gjd_keyset *keyset, gjd_keyset *of_others,
			  const gjd_match_params *params, gjd_match **match)
{
	gjd_match_params like = *params;
	gjd_reduction reduction;
	gjd_match *others[2] = {NULL, NULL};
	gjd_status status;

	if (!lib->crowd_is_open)
		return lib->api->match_begin(column, keyset, params, match, NULL);
	like.first_buffer = NULL;
	like.first_capacity = 0;
	if (params->reduction != NULL)
	{
		reduction = *params->reduction;
		reduction.first_groups = NULL;
		reduction.first_capacity = 0;
		like.reduction = &reduction;
	}
	if (lib->api->match_begin(column, of_others, &like, &others[0], NULL) != GJD_OK)
		others[0] = NULL;
	status = lib->api->match_begin(column, keyset, params, match, NULL);
	if (lib->api->match_begin(column, keyset, &like, &others[1], NULL) != GJD_OK)
		others[1] = NULL;
	lib->crowd_is_open = false;
	if (lib->api->batch_end(lib->device, NULL, NULL) != GJD_OK)
		status = GJD_INTERNAL;
	for (int i = 0; i < 2; i++)
		if (others[i] != NULL)
			end_match(lib, others[i]);
	return status;
}

answer
run_match(library *lib, const model *m, gjd_column *column, gjd_keyset *keyset, gjd_what what,
		  delivery d)
{
	gjd_match *match;
	uint64_t half = lib->arena_bytes / 2;
	uint64_t room = half - BEHIND_BYTES;
	uint64_t most = what == GJD_ENTRIES ? gjd_entry_room(&m->shape, m->want, room) : room / 8;
	answer a = {.status = GJD_OK, .ascending = true};
	char *first = NULL;
	char *behind = NULL;

	/* The first items go after the middle of the arena, which single chunks do not use. */
	if (d.first_capacity > most)
		d.first_capacity = most;
	if (d.first_capacity)
	{
		first = d.registered ? lib->arena + half : malloc(half);
		behind = first + buffer_bytes(m, what, d.first_capacity);
		memset(behind, 0x5a, BEHIND_BYTES);
	}

	gjd_match_params params = {.struct_size = sizeof(params),
							   .what = what,
							   .first_buffer = first,
							   .first_capacity = d.first_capacity,
							   .want = m->want,
							   .any_order = m->any_order,
							   .rest_column = m->rest_column,
							   .filter = m->filter};

	open_crowd(lib);
	a.status = begin_crowded(lib, column, keyset, keyset, &params, &match);
	if (a.status == GJD_OK)
		a = collect_match(lib, m, match, what, first, d);
	if (behind && !d.two_at_once && a.status == GJD_OK && !is_untouched(behind))
	{
		note("%s wrote behind the first buffer", lib->api->name);
		a.status = GJD_INTERNAL;
	}
	if (!d.registered)
		free(first);
	return a;
}

bool
same_answer(const answer *a, const answer *b)
{
	if (a->status != b->status || a->count != b->count || a->matched != b->matched ||
		a->items != b->items || a->ascending != b->ascending || a->item_bytes != b->item_bytes)
	{
		note("status %d %d, count %llu %llu of %llu %llu, items %llu %llu, ascending %d %d",
			 a->status, b->status, (unsigned long long) a->count, (unsigned long long) b->count,
			 (unsigned long long) a->matched, (unsigned long long) b->matched,
			 (unsigned long long) a->items, (unsigned long long) b->items, a->ascending,
			 b->ascending);
		return false;
	}
	for (uint64_t i = 0; i < a->items; i++)
		if (memcmp((char *) a->data + i * a->item_bytes, (char *) b->data + i * a->item_bytes,
				   a->item_bytes) != 0)
		{
			note("first difference at item %llu", (unsigned long long) i);
			return false;
		}
	return true;
}

void
free_answer(answer *a)
{
	free(a->data);
	a->data = NULL;
}
