/*
 * top_cases.c
 *	  The first rows of an order: rows that a limit may drop, and rows that it must not drop.
 */
#include "cases.h"

/* Place of a row in the order, as an unsigned number of 65 bits: NULLs are at an end */
typedef struct place
{
	int part;
	uint64_t value;
} place;

static place
place_of(const model *m, gjd_top top, uint64_t row)
{
	uint32_t unused = 64 - 8 * gjd_column_bytes(&m->shape, top.column);
	int64_t value = m->keys[row];
	place p = {1, 0};

	if (top.column > 0)
		value = (int64_t) (m->carried[top.column - 1][row] << unused) >> unused;
	if (top.column > 0 && m->nulls[top.column - 1][row])
		p.part = top.order & GJD_NULLS_FIRST ? 0 : 2;
	else
		p.value = (uint64_t) value + ((uint64_t) 1 << 63);
	if (p.part == 1 && top.order & GJD_DESCENDING)
		p.value = ~p.value;
	return p;
}

static int
compare_places(const void *a, const void *b)
{
	const place *x = a;
	const place *y = b;

	if (x->part != y->part)
		return x->part - y->part;
	return (x->value > y->value) - (x->value < y->value);
}

/* Returns the row of a TID: TIDs are those of make_model(). */
static uint64_t
row_of(gjd_tid tid)
{
	return (tid >> 16) * 157 + (tid & 0xffff) - 1;
}

/*
 * Checks that the delivered rows belong to the whole answer, that each is delivered once, and
 * that no row is missing that comes before the last row within the limit, or ties with it.
 * Returns the number of delivered rows.
 */
bool
check_top(library *lib, const model *m, gjd_column *column, key_set set, gjd_top top,
		  uint64_t *delivered)
{
	answer whole = expected_answer(m, set, GJD_POSITIONS);
	const uint64_t *rows = whole.data;
	place *places = malloc((whole.items + 1) * sizeof(*places));
	uint8_t *is_hit = calloc(m->pages * m->shape.slots + 1, 1);
	gjd_keyset *keyset = make_keyset_of(lib, m, set, GJD_BY_AUTO);
	gjd_match_params params = {.struct_size = sizeof(params), .what = GJD_TIDS,
							   .rest_column = m->rest_column, .filter = m->filter, .top = top};
	delivery d = {0, true, 0, false};
	gjd_match *match;
	uint64_t required = 0;
	bool good = lib->api->match_begin(column, keyset, &params, &match, NULL) == GJD_OK;

	*delivered = 0;
	if (good)
	{
		answer a = collect_match(lib, m, match, GJD_TIDS, NULL, d);

		for (uint64_t i = 0; i < whole.items; i++)
		{
			places[i] = place_of(m, top, rows[i]);
			is_hit[rows[i]] = 1;
		}
		qsort(places, whole.items, sizeof(*places), compare_places);
		for (uint64_t i = 0; i < a.items; i++)
		{
			uint8_t *hit = &is_hit[row_of(((gjd_tid *) a.data)[i])];

			good &= *hit == 1;
			*hit = 2;
		}
		for (uint64_t i = 0; i < whole.items; i++)
		{
			place p = place_of(m, top, rows[i]);
			bool wanted = whole.items <= top.limit ||
						  compare_places(&p, &places[top.limit - 1]) <= 0;

			required += wanted;
			good &= !wanted || is_hit[rows[i]] == 2;
		}
		good &= a.status == GJD_OK && a.count == a.items;
		*delivered = a.items;
		if (!good)
			note("%s: column %u, order %u, limit %llu: %llu delivered, %llu required, status %d",
				 lib->api->name, top.column, top.order, (unsigned long long) top.limit,
				 (unsigned long long) a.items, (unsigned long long) required, a.status);
		free_answer(&a);
	}
	free_answer(&whole);
	free(places);
	free(is_hit);
	lib->api->keyset_destroy(keyset, NULL);
	return good;
}

static void
test_orders(library *lib, uint32_t key_bytes, uint64_t rows)
{
	model *m = make_model(key_bytes, 32, (rows + 31) / 32);
	int64_t keys[50];
	key_set set = {keys, 50};
	gjd_column *column;
	uint64_t seed = rows;
	uint64_t delivered;
	bool good = true;

	for (int64_t i = 0; i < 50; i++)
		keys[i] = i * 2 - 50;
	for (uint64_t i = 0; i < m->pages * 32; i++)
		set_row(m, i, (int64_t) (random64(&seed) % 100) - 50, i < rows);
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
	{
		add_carried(m, bytes, false);
		add_carried(m, bytes, true);
	}
	/* some columns with few values, the least and the greatest among them */
	for (uint64_t i = 0; i < m->pages * 32; i++)
	{
		m->carried[3][i] = random64(&seed) % 3;
		m->carried[5][i] = i % 2 ? (uint64_t) INT32_MIN : INT32_MAX;
		m->carried[7][i] = i % 3 ? (uint64_t) INT64_MIN : INT64_MAX;
	}
	column = make_column(lib, m);
	for (int with_filter = 0; with_filter < 2 && good; with_filter++)
	{
		for (uint32_t c = 0; c <= 8 && good; c++)
			for (uint32_t order = 0; order < 4 && good; order++)
				for (uint64_t limit = 1; limit < 4000 && good; limit = limit * 19 + 1)
					good = check_top(lib, m, column, set, (gjd_top){limit, c, order}, &delivered);
		m->filter = (gjd_filter){.n = 1, .conditions = {{1, GJD_BETWEEN, -100, 20}}};
	}
	ok(good, "%s: limit: %llu rows, %u-byte keys", lib->api->name, (unsigned long long) rows,
	   key_bytes);
	destroy_column(lib, column);
	free_model(m);
}

/* A limit drops nearly all of many rows, even if their values are close together. */
static void
check_selectivity(library *lib)
{
	uint64_t rows = test_is_small() ? 20000 : 400000;
	model *m = make_model(4, 800, rows / 800);
	int64_t key = 1;
	key_set set = {&key, 1};
	uint64_t seed = 9;
	uint64_t delivered;
	gjd_column *column;
	bool good = true;

	add_carried(m, 4, false);
	add_carried(m, 8, true);
	add_carried(m, 4, false);
	for (uint64_t i = 0; i < m->pages * 800; i++)
	{
		set_row(m, i, 1, true);
		m->carried[0][i] = 7000 + random64(&seed) % 7300;
		m->carried[1][i] = random64(&seed);
		m->carried[2][i] = 3;
	}
	column = make_column(lib, m);
	for (uint32_t order = 0; order < 2; order++)
	{
		good &= check_top(lib, m, column, set, (gjd_top){100, 1, order}, &delivered);
		good &= delivered < 100 + 2 * rows / 7300 + 100;
		good &= check_top(lib, m, column, set, (gjd_top){100, 2, order}, &delivered);
		good &= delivered < 1000;
		good &= check_top(lib, m, column, set, (gjd_top){100, 3, order}, &delivered);
		good &= delivered == rows;
	}
	ok(good, "%s: limit: few of %llu rows are delivered", lib->api->name,
	   (unsigned long long) rows);
	destroy_column(lib, column);
	free_model(m);
}

void
test_top(library *lib)
{
	static const uint64_t sizes[] = {0, 1, 33, 1024, 1025, 9000};

	if ((lib->api->capabilities & GJD_CAN_TOP) == 0)
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i += test_is_small() ? 4 : 1)
		test_orders(lib, i % 2 ? 8 : 4, sizes[i]);
	check_selectivity(lib);
}
