/*
 * entry_cases.c
 *	  Entries in columns: every width with and without NULLs, selections of columns, their
 *	  location in parts, columns written to meanwhile, insufficient memory.
 */
#include "cases.h"

/* A column of each width, with and without NULLs; keys are multiples of 7. */
static model *
all_widths(uint32_t key_bytes, uint64_t rows, int64_t distinct)
{
	model *m = make_model(key_bytes, 32, (rows + 31) / 32);

	for (uint64_t i = 0; i < m->pages * 32; i++)
		set_row(m, i, (int64_t) (i * 7919 % (uint64_t) distinct) * 7, i < rows && i % 19 != 3);
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
	{
		add_carried(m, bytes, false);
		add_carried(m, bytes, true);
	}
	return m;
}

static key_set
multiples(uint64_t count, int64_t step)
{
	key_set set = {malloc((count + 1) * sizeof(int64_t)), count};

	for (uint64_t i = 0; i < count; i++)
		set.keys[i] = (int64_t) i * step;
	return set;
}

/* Requests entries, in one kind of delivery after another. */
static bool
entries_agree(library *lib, gjd_column *column, const model *m, key_set set)
{
	static const delivery ways[] = {{0, true, 100, false}, {33, true, 0, true}};
	gjd_keyset *keyset = make_keyset(lib, m->shape.key_bytes, set, GJD_BY_AUTO);
	answer expected = expected_answer(m, set, GJD_ENTRIES);
	bool good = column != NULL && keyset != NULL;

	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]) && good; w++)
	{
		answer a = run_match(lib, m, column, keyset, GJD_ENTRIES, ways[w]);

		good = same_answer(&a, &expected);
		free_answer(&a);
	}
	free_answer(&expected);
	lib->api->keyset_destroy(keyset, NULL);
	return good;
}

/* Sizes around tiles; none, some, all match; all columns wanted, each alone, none. */
void
test_entries(library *libs, int n)
{
	static const uint64_t sizes[] = {0, 1, 33, 1023, 1024, 1025, 4097, 20000};
	static const char *const names[] = {"none match", "some match", "all match"};

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int matching = 0; matching < 3; matching++)
		{
			model *m = all_widths(s % 2 ? 8 : 4, sizes[s], 50);
			key_set set = multiples(matching == 1 ? 5 : 50, 7);
			uint32_t all = m->want.columns;

			if (matching == 0)
				set.count = 0;
			for (int i = 0; i < n; i++)
			{
				gjd_column *column = make_column(&libs[i], m);
				bool good = entries_agree(&libs[i], column, m, set);

				for (uint32_t c = 0; c < m->shape.n_carried && !test_is_small(); c++)
				{
					m->want = (gjd_want){(uint32_t) 1 << c, c % 2};
					good &= entries_agree(&libs[i], column, m, set);
				}
				m->want = (gjd_want){0, 0};
				good &= entries_agree(&libs[i], column, m, set);
				m->want = (gjd_want){all, 1};
				ok(good, "%s: entries, %llu rows, %s", libs[i].api->name,
				   (unsigned long long) sizes[s], names[matching]);
				destroy_column(&libs[i], column);
			}
			free(set.keys);
			free_model(m);
		}

	/* The maximum number of columns. */
	model *m = make_model(4, 64, 50);
	key_set set = multiples(20, 3);

	for (uint64_t i = 0; i < 50 * 64; i++)
		set_row(m, i, (int64_t) (i % 100), i % 2);
	for (uint32_t c = 0; c < GJD_MAX_CARRIED; c++)
		add_carried(m, 1u << c % 4, c % 3 != 0);
	for (int i = 0; i < n; i++)
	{
		gjd_column *column = make_column(&libs[i], m);

		ok(entries_agree(&libs[i], column, m, set), "%s: entries of %d columns",
		   libs[i].api->name, GJD_MAX_CARRIED);
		destroy_column(&libs[i], column);
	}
	free(set.keys);
	free_model(m);
}

/* ---- parts --------------------------------------------------------------------------------- */

/* Inconsistent shapes are rejected. */
static void
refuse_shapes(library *lib)
{
	model *m = make_model(4, 32, 1);
	gjd_column *column;
	gjd_match *match;
	gjd_keyset *keyset = make_keyset(lib, 4, (key_set){NULL, 0}, GJD_BY_AUTO);

	add_carried(m, 4, false);
	m->shape.carried_bytes[0] = 3;
	ok(create_column(lib, m, 0, &column) == GJD_INVALID, "%s: carried columns of 3 bytes",
	   lib->api->name);
	m->shape.carried_bytes[0] = 4;
	m->shape.nullable = 2;
	ok(create_column(lib, m, 0, &column) == GJD_INVALID, "%s: NULLs of a column that is not there",
	   lib->api->name);
	m->shape.nullable = 0;
	m->shape.n_carried = GJD_MAX_CARRIED + 1;
	ok(create_column(lib, m, 0, &column) == GJD_INVALID, "%s: too many carried columns",
	   lib->api->name);
	m->shape.n_carried = 1;
	column = make_column(lib, m);
	m->want.columns = 3;
	ok(begin_match(lib, m, column, keyset, GJD_ENTRIES, &match) == GJD_INVALID,
	   "%s: a column wanted that is not there", lib->api->name);

	/* A caller that was compiled before carried columns existed. */
	gjd_match_params old = {.struct_size = offsetof(gjd_match_params, want), .what = GJD_COUNT};
	gjd_column_params before = {.struct_size = offsetof(gjd_column_params, nullable),
								.key_bytes = 4,
								.slots = 32,
								.nullable = 1};
	gjd_column *plain = NULL;

	ok(lib->api->match_begin(column, keyset, &old, &match, NULL) == GJD_OK,
	   "%s: parameters of an older caller", lib->api->name);
	end_match(lib, match);
	ok(lib->api->column_create(lib->device, &before, &plain, NULL) == GJD_OK,
	   "%s: what an older caller has not got is not read", lib->api->name);
	destroy_column(lib, plain);
	before.struct_size -= 8;
	ok(lib->api->column_create(lib->device, &before, &plain, NULL) == GJD_INVALID,
	   "%s: parameters cut short", lib->api->name);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

/* Arrays are disjoint and aligned in the part; the computed room does fit. */
static void
check_layout(library *lib)
{
	model *m = all_widths(4, 32, 1);
	bool good = true;

	for (uint64_t bytes = 0; bytes < 100000; bytes = bytes * 5 / 4 + 1)
	{
		uint64_t room = gjd_entry_room(&m->shape, m->want, bytes);
		gjd_entry_layout at;
		uint64_t end = 0;

		gjd_entry_layout_of(&m->shape, m->want, room, &at);
		good &= room == 0 || at.bytes <= bytes;
		good &= at.n_arrays == 2 + 8 + 4 && at.item_bytes == 8 + 4 + 30 + 4;
		good &= bytes < 1000 + at.n_arrays * 64 || room * at.item_bytes > bytes / 4;
		for (int w = 3; w >= 0; w--)
		{
			good &= at.widths[w].at == end && at.widths[w].pitch >= room << w &&
					at.widths[w].pitch % GJD_ENTRY_ALIGN == 0;
			end += at.widths[w].arrays * at.widths[w].pitch;
		}
		good &= end == at.bytes;
		good &= room == 0 || at.nulls_at[7] == at.bytes - at.widths[0].pitch;
	}
	ok(good, "%s: layout of parts", lib->api->name);
	free_model(m);
}

/* The last part is not full: nothing is written after its entries. */
static void
check_rest_untouched(library *lib)
{
	model *m = all_widths(8, 2000, 40);
	key_set set = multiples(20, 7);
	gjd_column *column = make_column(lib, m);
	gjd_keyset *keyset = make_keyset(lib, 8, set, GJD_BY_AUTO);
	gjd_entry_layout at;
	gjd_match *match;
	gjd_match_state state;
	gjd_chunk chunk = {0, 0};
	uint64_t room = 5000;
	bool good = true;

	gjd_entry_layout_of(&m->shape, m->want, room, &at);
	memset(lib->arena, 0x5a, lib->arena_bytes);
	begin_match(lib, m, column, keyset, GJD_ENTRIES, &match);
	wait_match(lib, match, &state);
	good &= lib->api->match_next(match, lib->arena, room, &chunk, NULL) == GJD_OK;
	wait_match(lib, match, &state);
	good &= chunk.items == state.items && chunk.items > 0 && chunk.items < room;
	for (uint32_t w = 0; w < 4; w++)
		for (uint32_t a = 0; a < at.widths[w].arrays; a++)
			for (uint64_t i = chunk.items << w; i < at.widths[w].pitch; i++)
				good &= lib->arena[at.widths[w].at + a * at.widths[w].pitch + i] == 0x5a;
	for (uint64_t i = at.bytes; i < at.bytes + 4096; i++)
		good &= lib->arena[i] == 0x5a;
	ok(good, "%s: what is behind the entries of a part stays", lib->api->name);
	end_match(lib, match);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free(set.keys);
	free_model(m);
}

/*
 * More entries than are gathered at once, of a column that is written to meanwhile. Each entry
 * must be of one state; those of unwritten pages must all be present. New entries have offsets
 * above 1000, which distinguishes them from old ones.
 */
static void
check_written_meanwhile(library *lib)
{
	enum
	{
		slots = 160,
		pages = 8000,
		written = 500
	};
	model *m = make_model(4, slots, test_is_small() ? written * 2 : pages);
	uint64_t rows = m->pages * slots;
	int64_t keys[] = {1, 2};
	key_set set = {keys, 2};
	gjd_column *column;
	gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);
	gjd_match *match;
	delivery d = {0, true, 0, true};
	uint64_t untouched = 0;
	bool good;

	for (uint64_t i = 0; i < rows; i++)
		set_row(m, i, 1, true);
	add_carried(m, 8, false);
	for (uint64_t i = 0; i < rows; i++)
		m->carried[0][i] = i;
	column = make_column(lib, m);
	good = begin_match(lib, m, column, keyset, GJD_ENTRIES, &match) == GJD_OK;
	for (uint64_t i = 0; i < written * slots; i++)
	{
		set_row(m, i, i % 3 + 1, i % 5 != 0); /* key 3 is not in the set */
		m->offsets[i] = (uint16_t) (m->offsets[i] + 1000);
		m->carried[0][i] = ~i;
	}
	good &= push_pages(lib, column, m, 0, written, 2) == GJD_OK;

	answer a = collect_match(lib, m, match, GJD_ENTRIES, NULL, d);

	good &= a.status == GJD_OK && a.item_bytes == 20;
	for (uint64_t i = 0; i < a.items && good; i++)
	{
		const char *item = (char *) a.data + i * 20;
		gjd_tid tid;
		int32_t key;
		uint64_t value, row;

		memcpy(&tid, item, 8);
		memcpy(&key, item + 8, 4);
		memcpy(&value, item + 12, 8);
		row = (tid >> 16) * 157 + (tid & 0xffff) % 1000 - 1;
		if ((tid & 0xffff) > 1000)
			good = value == ~row && row % 5 != 0 && key == (int32_t) (row % 3 + 1) && key < 3;
		else
			good = value == row && key == 1;
		untouched += row >= written * slots;
	}
	ok(good && untouched == rows - written * slots,
	   "%s: %llu entries of a column written to meanwhile", lib->api->name,
	   (unsigned long long) a.items);
	free_answer(&a);
	lib->api->keyset_destroy(keyset, NULL);
	destroy_column(lib, column);
	free_model(m);
}

void
test_parts(library *lib)
{
	refuse_shapes(lib);
	check_layout(lib);
	check_rest_untouched(lib);
	check_written_meanwhile(lib);
}

/* ---- memory -------------------------------------------------------------------------------- */

static int
compare_items(const void *a, const void *b)
{
	return (*(const gjd_tid *) a > *(const gjd_tid *) b) -
		   (*(const gjd_tid *) a < *(const gjd_tid *) b);
}

/* Starts as many matches as there is memory for and takes their results, the last first. */
static void
exhaust(library *lib, const model *m, gjd_column *column, key_set set, const char *what)
{
	gjd_keyset *keyset = make_keyset(lib, 4, set, GJD_BY_AUTO);
	answer expected = expected_answer(m, set, GJD_ENTRIES);
	gjd_match *matches[64];
	gjd_status status;
	bool good;
	int n = 0;
	int unordered = 0;
	int begun;

	do
		status = begin_match(lib, m, column, keyset, GJD_ENTRIES, &matches[n]);
	while (status == GJD_OK && ++n < 64);
	begun = n;
	good = n > 0 && status == GJD_BUSY;

	/* All must be ready before the first one frees memory. */
	for (int i = 0; i < n; i++)
	{
		gjd_match_state state;

		good &= wait_match(lib, matches[i], &state) == GJD_OK;
	}
	while (n > 0)
	{
		delivery d = {100000, true, 0, true};
		answer a = collect_match(lib, m, matches[--n], GJD_ENTRIES, NULL, d);

		if (!a.ascending && a.data)
		{
			/* The answer still has its duplicates; the model has none. */
			qsort(a.data, a.items, a.item_bytes, compare_items);
			a.ascending = true;
			unordered++;
		}
		good &= same_answer(&a, &expected);
		free_answer(&a);
	}
	ok(good, "%s: entries %s, %d at once, %d not sorted", lib->api->name, what, begun, unordered);
	free_answer(&expected);
	lib->api->keyset_destroy(keyset, NULL);
}

/* Results larger than the remaining memory, in order and not, and of a column that changes. */
void
test_entry_memory(const gjd_api *api)
{
	library lib;
	uint64_t pages = 6400;
	model *m = make_model(4, 160, pages);
	int64_t keys[] = {0, 1, 2};
	key_set set = {keys, 3};
	gjd_column *column;
	gjd_column_info info;
	gjd_memory_info end;
	gjd_keyset *keyset;
	gjd_match *matches[64];
	int n = 0;
	bool good;

	for (uint64_t i = 0; i < pages * 160; i++)
		set_row(m, i, (int64_t) (i % 3), true);
	add_carried(m, 8, false);
	add_carried(m, 4, true);
	add_carried(m, 1, false);
	open_library(&lib, api, (uint64_t) 192 << 20, (uint64_t) 128 << 20, 0);
	column = make_column(&lib, m);
	api->column_info(column, &info, NULL);
	ok(info.bytes >= pages * gjd_shape_page_bytes(&m->shape) &&
		   info.bytes < pages * gjd_shape_page_bytes(&m->shape) + 2 * GJD_EXTENT_BYTES,
	   "%s: carried columns take %llu bytes", api->name, (unsigned long long) info.bytes);
	exhaust(&lib, m, column, set, "larger than the memory");
	for (uint64_t i = 0; i < pages * 160; i++)
		m->blocks[i] = (uint32_t) (pages * 160 - i);
	push_pages(&lib, column, m, 0, pages, 2);
	exhaust(&lib, m, column, set, "larger than the memory, in reverse");

	/* A match that cannot get its result at once must not mix old and new contents. */
	keyset = make_keyset(&lib, 4, set, GJD_BY_AUTO);
	while (n < 64 && begin_match(&lib, m, column, keyset, GJD_ENTRIES, &matches[n]) == GJD_OK)
		n++;
	good = n > 0;
	answer before = expected_answer(m, set, GJD_ENTRIES);

	fill_carried(m, 5);
	good &= push_pages(&lib, column, m, 0, pages, 3) == GJD_OK;
	answer after = expected_answer(m, set, GJD_ENTRIES);

	while (n > 0)
	{
		delivery d = {100000, true, 0, true};
		answer a = collect_match(&lib, m, matches[--n], GJD_ENTRIES, NULL, d);

		if (a.status == GJD_OK && !a.ascending)
		{
			qsort(a.data, a.items, a.item_bytes, compare_items);
			a.ascending = true;
		}
		if (a.status != GJD_NO_MEMORY)
			good &= a.items == before.items &&
					(memcmp(a.data, before.data, a.items * a.item_bytes) == 0 ||
					 memcmp(a.data, after.data, a.items * a.item_bytes) == 0);
		free_answer(&a);
	}
	ok(good, "%s: entries larger than the memory, of a column written to meanwhile", api->name);
	free_answer(&before);
	free_answer(&after);
	api->keyset_destroy(keyset, NULL);
	destroy_column(&lib, column);
	api->memory_info(lib.device, &end, NULL);
	ok(end.columns_used == 0 && end.keysets == 0 && end.matches == 0,
	   "%s: all memory of entries is back", api->name);
	ok(close_library(&lib), "%s: closes after entries ran out of memory", api->name);
	free_model(m);
}
