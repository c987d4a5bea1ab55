/*
 * column_cases.c
 *	  Wrong arguments, changing pages, every way of delivery, the order of TIDs.
 */
#include "cases.h"

static key_set
numbers(uint64_t count, int64_t first, int64_t step)
{
	key_set set = {malloc((count + 1) * sizeof(int64_t)), count};

	for (uint64_t i = 0; i < count; i++)
		set.keys[i] = first + (int64_t) i * step;
	return set;
}

void
test_arguments(library *lib)
{
	const gjd_api *api = lib->api;
	gjd_column_params params = {.struct_size = sizeof(params), .key_bytes = 4, .slots = 32};
	gjd_column *column = NULL;
	gjd_keyset *keyset = NULL;
	gjd_match *match = NULL;
	int64_t keys[] = {3, 2};
	key_set set = {keys, 2};
	key_set one = {keys, 1};
	gjd_error error = {GJD_OK, 0, ""};
	gjd_device_info info;
	uint64_t ticket, accepted;
	gjd_page_head head = {(uint64_t) 1 << 40, 1};
	model *m = make_model(4, 32, 0);

	ok(api->version == GJD_API_VERSION && api->struct_size == sizeof(gjd_api), "%s: table",
	   api->name);
	ok(api->device_info(lib->device, &info, NULL) == GJD_OK && info.name[0] && info.uuid[0],
	   "%s: device names itself", api->name);
	params.slots = 33;
	ok(api->column_create(lib->device, &params, &column, &error) == GJD_INVALID &&
		   error.status == GJD_INVALID && error.message[0],
	   "%s: slots must be a multiple of 32", api->name);
	params.slots = 32;
	params.key_bytes = 2;
	ok(api->column_create(lib->device, &params, &column, NULL) == GJD_INVALID,
	   "%s: key width must be 4 or 8", api->name);
	params.key_bytes = 4;
	ok(make_keyset(lib, 4, set, GJD_BY_AUTO) == NULL, "%s: keys must ascend", api->name);
	keys[1] = 3;
	ok(make_keyset(lib, 4, set, GJD_BY_AUTO) == NULL, "%s: keys must be distinct", api->name);
	api->column_create(lib->device, &params, &column, NULL);
	ok(api->column_write_pages(column, &head, lib->arena, 1, &accepted, &ticket, NULL) ==
			   GJD_INVALID && accepted == 0,
	   "%s: page numbers have a limit", api->name);
	ok(api->column_write_pages(column, &head, lib->arena + 4, 1, &accepted, &ticket, NULL) ==
		   GJD_INVALID,
	   "%s: images must be aligned", api->name);
	keyset = make_keyset(lib, 8, one, GJD_BY_AUTO);
	ok(begin_match(lib, m, column, keyset, GJD_COUNT, &match) == GJD_INVALID,
	   "%s: key widths must agree", api->name);
	ok(begin_match(lib, m, column, keyset, (gjd_what) 17, &match) == GJD_INVALID,
	   "%s: unknown kind of result", api->name);
	ok(api->match_poll(NULL, NULL, &error) == GJD_INVALID, "%s: handles are checked", api->name);
	api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

static void
check_changed(library *lib, gjd_column *column, const model *m, key_set set, const char *what)
{
	ok(check_column(lib, column, m, set), "%s: %s", lib->api->name, what);
}

/* Pages that are written again, outdated, written twice at once, erased, or far away. */
void
test_pages(library *lib)
{
	model *m = make_model(4, 96, 60);
	model *old = make_model(4, 96, 60);
	key_set set = numbers(30, 0, 3);
	gjd_column *column;
	gjd_column_info info;
	uint64_t versions[4];
	gjd_page_head heads[3] = {{7, 11}, {7, 13}, {7, 12}};
	uint64_t bytes;
	uint64_t accepted, ticket;

	for (uint64_t i = 0; i < 60 * 96; i++)
	{
		set_row(m, i, (int64_t) (i * 7919 % 200), i % 5 != 0);
		set_row(old, i, (int64_t) (i * 31 % 90), true);
	}
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
	{
		add_carried(m, bytes, bytes != 2);
		add_carried(old, bytes, bytes != 2);
	}
	fill_carried(old, 77);
	column = make_column(lib, old);
	check_changed(lib, column, old, set, "pages as written first");
	push_pages(lib, column, m, 0, 60, 10);
	check_changed(lib, column, m, set, "pages overwritten");
	push_pages(lib, column, old, 0, 60, 9);
	check_changed(lib, column, m, set, "older copies are ignored");
	lib->api->column_info(column, &info, NULL);
	ok(info.pages == 60 && info.copies_ignored == 60 && info.copies_applied == 120,
	   "%s: copies are counted", lib->api->name);

	/* Three copies of one page in one call: the one with the highest version stays. */
	bytes = gjd_shape_image_bytes(&m->shape);
	make_image(old, 7, lib->arena);
	for (uint64_t i = 7 * 96; i < 8 * 96; i++)
		set_row(m, i, (int64_t) (i % 50), i % 2 == 0);
	make_image(m, 7, lib->arena + bytes);
	make_image(old, 7, lib->arena + 2 * bytes);
	lib->api->column_write_pages(column, heads, lib->arena, 3, &accepted, &ticket, NULL);
	while (lib->api->column_write_poll(column, ticket, NULL) == GJD_PENDING)
		;
	ok(accepted == 3, "%s: three copies of one page accepted", lib->api->name);
	check_changed(lib, column, m, set, "the newest of three copies stays");
	lib->api->column_versions(column, 6, 4, versions, NULL);
	ok(versions[0] == 10 && versions[1] == 13 && versions[2] == 10, "%s: versions are kept",
	   lib->api->name);
	lib->api->column_versions(column, 58, 4, versions, NULL);
	ok(versions[1] == 10 && versions[2] == 0 && versions[3] == 0,
	   "%s: pages never written have version 0", lib->api->name);

	for (uint64_t i = 20 * 96; i < 40 * 96; i++)
		set_row(m, i, m->keys[i], false);
	push_pages(lib, column, m, 20, 20, 20);
	check_changed(lib, column, m, set, "erased entries do not match");
	destroy_column(lib, column);

	/* A page in the second extent; the pages before it have never been written. */
	model *far = make_model(4, 96, 40000);

	for (uint64_t i = 39000 * 96; i < 40000 * 96; i++)
		set_row(far, i, (int64_t) (i % 1000), true);
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
		add_carried(far, bytes, bytes != 2);
	column = make_column(lib, m);
	for (uint64_t i = 0; i < 60 * 96; i++)
		set_row(far, i, m->keys[i], m->valid[i / 32] >> i % 32 & 1);
	for (uint32_t c = 0; c < 4; c++)
		for (uint64_t i = 0; i < 60 * 96; i++)
		{
			far->carried[c][i] = m->carried[c][i];
			far->nulls[c][i] = m->nulls[c][i];
		}
	push_pages(lib, column, far, 39000, 1000, 1);
	check_changed(lib, column, far, set, "pages far apart, holes between");
	destroy_column(lib, column);
	free(set.keys);
	free_model(far);
	free_model(old);
	free_model(m);
}

/* The same result through buffers of all kinds. */
void
test_delivery(library *lib)
{
	static const delivery ways[] = {
		{0, true, 0, false},	{0, false, 0, false},	{1, true, 0, false},  {7, true, 0, true},
		{1000, true, 0, true},	{1000, false, 0, true}, {0, true, 1, false},  {0, true, 500, false},
		{0, false, 500, false}, {64, true, 64, false},	{0, true, 1 << 20, false}};
	model *m = make_model(8, 64, 100);
	key_set set = numbers(700, 0, 1);
	gjd_column *column;
	gjd_keyset *keyset = make_keyset(lib, 8, set, GJD_BY_AUTO);
	key_set nothing = {NULL, 0};
	gjd_keyset *empty = make_keyset(lib, 8, nothing, GJD_BY_AUTO);

	for (uint64_t i = 0; i < 6400; i++)
		set_row(m, i, (int64_t) (i * 7919 % 2000), i % 11 != 0);
	add_carried(m, 4, true);
	add_carried(m, 2, false);
	column = make_column(lib, m);
	for (gjd_what what = GJD_COUNT; what <= GJD_ENTRIES; what++)
	{
		answer expected = expected_answer(m, set, what);
		answer none = expected_answer(m, nothing, what);

		for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
		{
			answer a = run_match(lib, m, column, keyset, what, ways[w]);
			answer b = run_match(lib, m, column, empty, what, ways[w]);

			ok(same_answer(&a, &expected) && same_answer(&b, &none),
			   "%s: kind %d, delivery %zu", lib->api->name, what, w);
			free_answer(&a);
			free_answer(&b);
		}
		free_answer(&expected);
		free_answer(&none);
	}
	lib->api->keyset_destroy(keyset, NULL);
	lib->api->keyset_destroy(empty, NULL);
	destroy_column(lib, column);
	free(set.keys);
	free_model(m);
}

/* Results that do not ascend by TID come sorted, each TID once; also extreme TIDs. */
static int
compare_tids(const void *a, const void *b)
{
	gjd_tid x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* Sorts the items of an answer, and compares them. */
static bool
same_items(answer *a, const answer *expected)
{
	if (a->status != GJD_OK || a->items != expected->items)
		return false;
	qsort(a->data, a->items, a->item_bytes, compare_tids);
	a->ascending = expected->ascending;
	return same_answer(a, expected);
}

void
test_order(library *lib)
{
	for (int shape = 0; shape < 4; shape++)
	{
		model *m = make_model(4, 160, shape == 3 ? 20000 : 50);
		uint64_t rows = m->pages * 160;
		key_set set = numbers(40, 5, 2);
		uint64_t seed = 99;
		static const char *const names[] = {"reversed", "doubles", "shuffled", "many, shuffled"};
		delivery d = {0, true, 100, false};

		for (uint64_t i = 0; i < rows; i++)
		{
			uint64_t r = shape == 0 ? rows - i : shape == 1 ? i / 2 : random64(&seed);

			set_row(m, i, (int64_t) (i % 90), true);
			m->blocks[i] = (uint32_t) (shape < 2 ? r / 100 : r);
			m->offsets[i] = (uint16_t) (shape < 2 ? r % 100 : r >> 32);
		}
		add_carried(m, 2, true);
		add_carried(m, 8, false);
		add_carried(m, 1, true);
		add_carried(m, 4, false);
		m->blocks[20] = UINT32_MAX;
		m->offsets[20] = UINT16_MAX;

		gjd_column *column = make_column(lib, m);
		gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);

		for (int e = 0; e < 2; e++)
		{
			gjd_what what = e ? GJD_ENTRIES : GJD_TIDS;
			answer expected = expected_answer(m, set, what);
			answer a = run_match(lib, m, column, keyset, what, d);

			ok(same_answer(&a, &expected), "%s: %s %s", lib->api->name, e ? "entries" : "TIDs",
			   names[shape]);
			free_answer(&a);
			m->any_order = true;
			a = run_match(lib, m, column, keyset, what, d);
			m->any_order = false;
			ok(!a.ascending && a.count >= expected.count &&
				   (shape == 1 || same_items(&a, &expected)),
			   "%s: %s %s, in any order", lib->api->name, e ? "entries" : "TIDs", names[shape]);
			free_answer(&a);
			free_answer(&expected);
		}
		lib->api->keyset_destroy(keyset, NULL);
		destroy_column(lib, column);
		free(set.keys);
		free_model(m);
	}
}
