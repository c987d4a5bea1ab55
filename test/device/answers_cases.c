/*
 * answers_cases.c
 *	  Correctness of answers: sizes around the tile, extreme keys, sets for every strategy,
 *	  random cases.
 */
#include "cases.h"

static int64_t
random_key(uint64_t *state, uint32_t key_bytes, uint64_t range)
{
	int64_t key = (int64_t) (range ? random64(state) % range : random64(state));

	return key_bytes == 4 ? (int32_t) key : key;
}

static key_set
new_set(uint64_t capacity)
{
	key_set set = {malloc((capacity + 1) * sizeof(int64_t)), 0};

	return set;
}

/* Columns of every size around tiles; the set matches none, some or all rows. */
void
test_sizes(library *libs, int n)
{
	static const uint64_t sizes[] = {0,	   1,	 31,   32,	 33,	1023,  1024,
									 1025, 4095, 4096, 4097, 10245, 131072};
	static const char *const names[] = {"none match", "some match", "all match"};

	for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (int matching = 0; matching < 3; matching++)
			{
				if (test_is_small() && (s % 4 != 2 || matching == 0))
					continue;

				model *m = make_model(key_bytes, 32, (sizes[s] + 31) / 32);
				key_set set = new_set(50);
				uint64_t seed = s;

				for (uint64_t i = 0; i < m->pages * 32; i++)
					set_row(m, i, (int64_t) (random64(&seed) % 50) * 7 - 100, i < sizes[s]);
				for (int k = 0; k < 50; k++)
					if (matching == 2 || (matching == 1 && k % 5 == 0))
						set.keys[set.count++] = k * 7 - 100;
					else if (matching == 0)
						set.keys[set.count++] = k * 7 - 99;
				check_model(libs, n, m, set, names[matching]);
				free(set.keys);
				free_model(m);
			}
}

/* The ends of the key ranges, alone and together, as keys and in the set. */
void
test_extremes(library *libs, int n)
{
	static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, (int64_t) INT32_MIN - 1, INT32_MIN,
								   INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX,
								   (int64_t) INT32_MAX + 1, INT64_MAX - 1, INT64_MAX};
	enum
	{
		count = sizeof(ends) / sizeof(ends[0])
	};

	for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
	{
		model *m = make_model(key_bytes, 64, 40);
		key_set all = new_set(count);
		key_set outside = new_set(2);

		for (uint64_t i = 0; i < 64 * 40; i++)
			set_row(m, i, key_bytes == 4 ? ends[3 + i % 7] : ends[i % count], i % 3 != 0);
		for (int k = 0; k < count; k++)
		{
			if (test_is_small() && k % 4 != 0)
				continue;

			key_set one = {(int64_t *) &ends[k], 1};

			check_model(libs, n, m, one, "an extreme key alone");
		}
		memcpy(all.keys, ends, sizeof(ends));
		all.count = count;
		check_model(libs, n, m, all, "all extreme keys");
		outside.keys[0] = INT64_MIN;
		outside.keys[1] = INT64_MAX;
		outside.count = 2;
		check_model(libs, n, m, outside, "keys wider than the column");
		free(all.keys);
		free(outside.keys);
		free_model(m);
	}
}

/* Sets of many sizes, dense and sparse, with few and with many rows matching. */
void
test_sets(library *libs, int n)
{
	static const uint64_t sizes[] = {0,	   1,	 2,		3,		8,		9,	   40,
									 1000, 4000, 20000, 100000, 250000, 600000};

	for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (int wide = 0; wide < 2; wide++)
			{
				if (test_is_small() && (s < 4 || s % 2 != 1))
					continue;

				model *m = make_model(key_bytes, 160, test_is_small() ? 70 : 700);
				key_set set = new_set(sizes[s]);
				uint64_t seed = s * 2 + wide + 17;
				uint64_t range = wide ? 0 : sizes[s] * 3 + 5;

				for (uint64_t k = 0; k < sizes[s]; k++)
					set.keys[set.count++] = random_key(&seed, key_bytes, range);
				sort_set(&set);
				for (uint64_t i = 0; i < m->pages * m->shape.slots; i++)
				{
					int64_t key = random_key(&seed, key_bytes, range);

					if (set.count > 0 && random64(&seed) % 10 == 0)
						key = set.keys[random64(&seed) % set.count];
					set_row(m, i, key, random64(&seed) % 16 != 0);
				}
				check_model(libs, n, m, set, wide ? "wide" : "dense");
				free(set.keys);
				free_model(m);
			}
}

/* A column in key order, with gaps, empty pages, and some unordered pages. */
static model *
in_order(uint32_t key_bytes, uint64_t pages, int64_t step)
{
	model *m = make_model(key_bytes, 160, pages);
	uint64_t rows = pages * 160;

	for (uint64_t i = 0; i < rows; i++)
	{
		uint64_t page = i / 160;
		int64_t key = ((int64_t) (i / 50) - (int64_t) (rows / 100)) * step;

		if (page % 97 == 5)
			key = (int64_t) (i * 7919 % (rows / 50)) * step;
		set_row(m, i, key, page % 31 != 7 && i % 13 != 0);
	}
	return m;
}

/*
 * Few keys among many ordered pages: the scan must skip exactly the tiles whose bounds have no
 * key. Pages are then written again, with other bounds, and back.
 */
void
test_clustered(library *libs, int n)
{
	static const uint64_t sizes[] = {1, 2, 8, 9, 40, 200};

	for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
		for (int i = 0; i < n; i++)
		{
			int64_t step = key_bytes == 4 ? 3 : 1000000007;
			model *m = in_order(key_bytes, 2000, step);
			model *other = in_order(key_bytes, 2000, step);
			gjd_column *column = make_column(&libs[i], m);
			bool good = column != NULL;
			key_set set = new_set(200);

			for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && good; s++)
			{
				set.count = sizes[s];
				for (uint64_t k = 0; k < sizes[s]; k++)
					set.keys[k] = ((int64_t) (k * 6400 / sizes[s]) - 3200) * step + (k % 3 == 1);
				good = check_column(&libs[i], column, m, set);
				ok(good, "%s: %u-byte keys in order, set of %llu", libs[i].api->name, key_bytes,
				   (unsigned long long) sizes[s]);
			}
			for (uint64_t row = 0; row < 300 * 160; row++)
				set_row(other, row, m->keys[row + 900 * 160], row % 7 != 0);
			push_pages(&libs[i], column, other, 0, 300, 1000);
			ok(check_column(&libs[i], column, other, set), "%s: pages with other bounds",
			   libs[i].api->name);
			push_pages(&libs[i], column, m, 0, 300, 1001);
			ok(check_column(&libs[i], column, m, set), "%s: and with the first ones again",
			   libs[i].api->name);
			if (column != NULL)
				destroy_column(&libs[i], column);
			free(set.keys);
			free_model(m);
			free_model(other);
		}
}

/* Random shapes, clustered keys, sets that overlap them more or less. */
void
test_random(library *libs, int n, int rounds)
{
	for (int round = 0; round < rounds; round++)
	{
		uint64_t seed = (uint64_t) round * 1000003;
		uint32_t key_bytes = random64(&seed) % 2 ? 4 : 8;
		uint32_t slots = 32 * (uint32_t) (1 + random64(&seed) % 40);
		model *m = make_model(key_bytes, slots, random64(&seed) % 300);
		uint64_t range = (uint64_t) 1 << random64(&seed) % 33;
		uint64_t wanted = random64(&seed) % ((uint64_t) 1 << random64(&seed) % 18);
		uint64_t invalid = 1 + random64(&seed) % 20;
		int64_t base = random_key(&seed, key_bytes, 0);
		key_set set = new_set(wanted);

		for (uint64_t k = 0; k < wanted; k++)
		{
			int64_t key = base + (int64_t) (random64(&seed) % range);

			set.keys[set.count++] = key_bytes == 4 ? (int32_t) key : key;
		}
		sort_set(&set);
		for (uint64_t i = 0; i < m->pages * slots; i++)
		{
			int64_t key = base + (int64_t) (random64(&seed) % range);

			set_row(m, i, key_bytes == 4 ? (int32_t) key : key, random64(&seed) % invalid != 0);
		}
		for (uint64_t c = random64(&seed) % 4; c > 0; c--)
			add_carried(m, 1u << random64(&seed) % 4, random64(&seed) % 2);
		check_model(libs, n, m, set, "random");
		free(set.keys);
		free_model(m);
	}
}

/* 100 M rows, pushed while they are generated; the expected answer is counted at the same time. */
void
test_large(const gjd_api *api)
{
	enum
	{
		slots = 800,
		pages = 125000,
		batch = 1250,
		distinct = 2000000
	};
	library lib;
	model *m = make_model(4, slots, batch);
	key_set set = new_set(4000);
	char *in_set = calloc(distinct, 1);
	uint64_t expected = 0;
	uint64_t sum = 0;
	uint64_t seed = 5;
	gjd_column *column;

	open_library(&lib, api, (uint64_t) 3 << 30, (uint64_t) 1 << 30, 0);
	for (int k = 0; k < 4000; k++)
		set.keys[set.count++] = (int64_t) (random64(&seed) % distinct);
	sort_set(&set);
	for (uint64_t k = 0; k < set.count; k++)
		in_set[set.keys[k]] = 1;
	ok(create_column(&lib, m, pages, &column) == GJD_OK, "%s: room for 100 M rows",
	   api->name);
	for (uint64_t page = 0; page < pages; page += batch)
	{
		gjd_status status;
		model moved = *m;

		for (uint64_t i = 0; i < batch * slots; i++)
		{
			int64_t key = (int64_t) (random64(&seed) % distinct);
			uint64_t row = page * slots + i;

			set_row(m, i, key, row % 97 != 0);
			m->blocks[i] = (uint32_t) (row / 157);
			m->offsets[i] = (uint16_t) (row % 157 + 1);
			if (in_set[key] && row % 97 != 0)
			{
				expected++;
				sum += gjd_tid_make(m->blocks[i], m->offsets[i]) * expected;
			}
		}
		/* push_pages() reads the rows of page p at p * slots, so move the model's rows back. */
		moved.keys -= page * slots;
		moved.valid -= page * slots / 32;
		moved.blocks -= page * slots;
		moved.offsets -= page * slots;
		status = push_pages(&lib, column, &moved, page, batch, 1);
		if (status != GJD_OK)
			ok(false, "%s: pages pushed, status %d", api->name, status);
	}
	for (int s = GJD_BY_SPAN - 1; s <= GJD_BY_GLOBAL_BLOOM; s++)
	{
		gjd_keyset *keyset =
			make_keyset(&lib, 4, set, s < GJD_BY_SPAN ? GJD_BY_AUTO : (gjd_strategy) s);
		delivery d = {0, true, 1000, false};
		uint64_t got = 0;

		if (keyset == NULL)
			continue;

		answer a = run_match(&lib, m, column, keyset, GJD_TIDS, d);

		for (uint64_t i = 0; i < a.items; i++)
			got += ((gjd_tid *) a.data)[i] * (i + 1);
		ok(a.status == GJD_OK && a.count == expected && got == sum && a.ascending,
		   "%s: 100 M rows, strategy %d: %llu of %llu", api->name, s,
		   (unsigned long long) a.count, (unsigned long long) expected);
		free_answer(&a);
		api->keyset_destroy(keyset, NULL);
	}
	destroy_column(&lib, column);
	ok(close_library(&lib), "%s: closes after 100 M rows", api->name);
	free(in_set);
	free(set.keys);
	free_model(m);
}
