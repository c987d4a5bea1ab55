/*
 * model.c
 *	  A column that knows the right answers. See harness.h.
 */
#include "harness.h"

model *
make_model(uint32_t key_bytes, uint32_t slots, uint64_t pages)
{
	model *m = malloc(sizeof(*m));
	uint64_t rows = pages * slots;

	memset(m, 0, sizeof(*m));
	m->shape.key_bytes = key_bytes;
	m->shape.slots = slots;
	m->want.keys = 1;
	m->pages = pages;
	m->keys = calloc(rows + 1, sizeof(*m->keys));
	m->valid = calloc(rows / 32 + 1, sizeof(*m->valid));
	m->blocks = malloc((rows + 1) * sizeof(*m->blocks));
	m->offsets = malloc((rows + 1) * sizeof(*m->offsets));
	for (uint64_t i = 0; i < rows; i++)
	{
		m->blocks[i] = (uint32_t) (i / 157);
		m->offsets[i] = (uint16_t) (i % 157 + 1);
	}
	return m;
}

void
free_model(model *m)
{
	for (uint32_t c = 0; c < m->shape.n_carried; c++)
	{
		free(m->carried[c]);
		free(m->nulls[c]);
	}
	free(m->keys);
	free(m->valid);
	free(m->blocks);
	free(m->offsets);
	free(m);
}

void
set_row(model *m, uint64_t position, int64_t key, bool is_valid)
{
	uint32_t bit = (uint32_t) 1 << position % 32;

	m->keys[position] = key;
	if (is_valid)
		m->valid[position / 32] |= bit;
	else
		m->valid[position / 32] &= ~bit;
}

void
add_carried(model *m, uint32_t bytes, bool nullable)
{
	uint32_t c = m->shape.n_carried++;
	uint64_t rows = m->pages * m->shape.slots;

	m->shape.carried_bytes[c] = (uint8_t) bytes;
	m->shape.nullable |= (uint32_t) nullable << c;
	m->want.columns |= (uint32_t) 1 << c;
	m->carried[c] = malloc((rows + 1) * sizeof(*m->carried[c]));
	m->nulls[c] = calloc(rows + 1, 1);
	fill_carried(m, c + 1);
}

void
fill_carried(model *m, uint64_t seed)
{
	for (uint32_t c = 0; c < m->shape.n_carried; c++)
		for (uint64_t i = 0; i < m->pages * m->shape.slots; i++)
		{
			m->carried[c][i] = random64(&seed);
			m->nulls[c][i] = (m->shape.nullable >> c & 1) && random64(&seed) % 5 == 0;
		}
}

void
make_image(const model *m, uint64_t page, char *image)
{
	uint32_t slots = m->shape.slots;
	uint32_t key_bytes = m->shape.key_bytes;
	uint64_t row = page * slots;

	memset(image, 0, gjd_shape_image_bytes(&m->shape));
	for (uint32_t i = 0; i < slots; i++)
		memcpy(image + i * key_bytes, &m->keys[row + i], key_bytes);
	memcpy(image + gjd_image_blocks_at(slots, key_bytes), m->blocks + row, slots * 4);
	memcpy(image + gjd_image_offsets_at(slots, key_bytes), m->offsets + row, slots * 2);
	memcpy(image + gjd_image_valid_at(slots, key_bytes), m->valid + row / 32, slots / 8);
	for (uint32_t c = 0; c < m->shape.n_carried; c++)
	{
		uint32_t bytes = m->shape.carried_bytes[c];
		char *values = image + gjd_image_carried_at(&m->shape, c);

		for (uint32_t i = 0; i < slots; i++)
			memcpy(values + i * bytes, &m->carried[c][row + i], bytes);
		for (uint32_t i = 0; i < slots && (m->shape.nullable >> c & 1); i++)
			if (m->nulls[c][row + i])
				image[gjd_image_nulls_at(&m->shape, c) + i / 8] |= (char) (1 << i % 8);
	}
}

/* ---- sets ---------------------------------------------------------------------------------- */

static int
compare_keys(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a;
	int64_t y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

void
sort_set(key_set *set)
{
	uint64_t kept = 0;

	qsort(set->keys, set->count, sizeof(*set->keys), compare_keys);
	for (uint64_t i = 0; i < set->count; i++)
		if (kept == 0 || set->keys[i] != set->keys[kept - 1])
			set->keys[kept++] = set->keys[i];
	set->count = kept;
}

uint64_t
rank_of_row(const model *m, key_set set, uint64_t row)
{
	const int64_t *rests = m->rest_column > 0 ? m->rests : NULL;
	int64_t key = m->keys[row];
	int64_t rest = rests ? (int64_t) m->carried[m->rest_column - 1][row] : 0;
	uint64_t low = 0;
	uint64_t high = set.count;

	if (rests && m->nulls[m->rest_column - 1][row])
		return set.count;
	while (low < high)
	{
		uint64_t middle = (low + high) / 2;

		if (set.keys[middle] < key || (set.keys[middle] == key && rests && rests[middle] < rest))
			low = middle + 1;
		else
			high = middle;
	}
	return low < set.count && set.keys[low] == key && (!rests || rests[low] == rest) ? low
																					 : set.count;
}

/* ---- filters ------------------------------------------------------------------------------- */

/* Returns a row's value, truncated to a column of the given width */
static int64_t
signed_value(uint64_t value, uint32_t bytes)
{
	return (int64_t) (value << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

static bool
row_passes(const model *m, uint64_t row)
{
	for (uint32_t i = 0; i < m->filter.n; i++)
	{
		const gjd_condition *condition = &m->filter.conditions[i];
		bool null = false;
		int64_t value = m->keys[row];

		if (condition->column > 0)
		{
			uint32_t c = condition->column - 1;

			null = m->nulls[c][row] != 0;
			value = signed_value(m->carried[c][row], m->shape.carried_bytes[c]);
		}

		bool inside = value >= condition->low && value <= condition->high;

		if (condition->test == GJD_IS_NULL ? !null
										   : null || (condition->test == GJD_BETWEEN && !inside) ||
												 (condition->test == GJD_OUTSIDE && inside))
			return false;
	}
	return true;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void
put_bytes(char **to, const void *value, uint32_t bytes)
{
	memcpy(*to, value, bytes);
	*to += bytes;
}

/* Stores the wanted columns of an entry, in the order of items. */
void
put_item(const model *m, uint64_t row, char **to)
{
	gjd_tid tid = gjd_tid_make(m->blocks[row], m->offsets[row]);

	put_bytes(to, &tid, 8);
	if (m->want.keys)
		put_bytes(to, &m->keys[row], m->shape.key_bytes);
	for (uint32_t c = 0; c < m->shape.n_carried; c++)
	{
		if ((m->want.columns >> c & 1) == 0)
			continue;
		put_bytes(to, &m->carried[c][row], m->shape.carried_bytes[c]);
		if (m->shape.nullable >> c & 1)
			put_bytes(to, &m->nulls[c][row], 1);
	}
}

void
unpack_part(const model *m, const char *part, uint64_t room, uint64_t n, char *items)
{
	const gjd_shape *shape = &m->shape;
	gjd_entry_layout at;

	gjd_entry_layout_of(shape, m->want, room, &at);
	for (uint64_t i = 0; i < n; i++)
	{
		put_bytes(&items, part + i * 8, 8);
		if (m->want.keys)
			put_bytes(&items, part + at.keys_at + i * shape->key_bytes, shape->key_bytes);
		for (uint32_t c = 0; c < shape->n_carried; c++)
		{
			uint32_t bytes = shape->carried_bytes[c];

			if ((m->want.columns >> c & 1) == 0)
				continue;
			put_bytes(&items, part + at.column_at[c] + i * bytes, bytes);
			if (shape->nullable >> c & 1)
				put_bytes(&items, part + at.nulls_at[c] + i, 1);
		}
	}
}

/* A match, by TID and then position. */
typedef struct hit
{
	gjd_tid tid;
	uint64_t row;
} hit;

static int
compare_hits(const void *a, const void *b)
{
	const hit *x = a;
	const hit *y = b;

	if (x->tid != y->tid)
		return x->tid > y->tid ? 1 : -1;
	return (x->row > y->row) - (x->row < y->row);
}

/* Sorts hits and keeps the first of each TID. Returns their number. */
static uint64_t
order_hits(hit *hits, uint64_t n)
{
	uint64_t kept = 0;

	qsort(hits, n, sizeof(*hits), compare_hits);
	for (uint64_t i = 0; i < n; i++)
		if (kept == 0 || hits[i].tid != hits[kept - 1].tid)
			hits[kept++] = hits[i];
	return kept;
}

/* Stores the items of hits. */
static void
list_hits(const model *m, const hit *hits, gjd_what what, answer *a)
{
	gjd_entry_layout layout;
	char *to;

	gjd_entry_layout_of(&m->shape, m->want, 1, &layout);
	a->item_bytes = what == GJD_ENTRIES ? layout.item_bytes : 8;
	a->data = to = malloc(a->count * a->item_bytes + 8);
	for (uint64_t i = 0; i < a->count; i++)
		if (what == GJD_ENTRIES)
			put_item(m, hits[i].row, &to);
		else
			put_bytes(&to, what == GJD_TIDS ? &hits[i].tid : &hits[i].row, 8);
	a->items = a->count;
}

answer
expected_answer(const model *m, key_set set, gjd_what what)
{
	uint64_t rows = m->pages * m->shape.slots;
	answer a = {.status = GJD_OK, .ascending = true};
	hit *hits = malloc((rows + 1) * sizeof(*hits));
	uint32_t *bitmap = calloc(rows / 32 + 1, 4);

	for (uint64_t i = 0; i < rows; i++)
	{
		if ((m->valid[i / 32] >> i % 32 & 1) == 0 || rank_of_row(m, set, i) == set.count)
			continue;
		a.matched++;
		if (!row_passes(m, i))
			continue;
		bitmap[i / 32] |= (uint32_t) 1 << i % 32;
		hits[a.count++] = (hit){gjd_tid_make(m->blocks[i], m->offsets[i]), i};
	}
	if (what == GJD_TIDS || what == GJD_ENTRIES)
		a.count = order_hits(hits, a.count);
	if (m->filter.n == 0)
		a.matched = a.count;
	if (what == GJD_BITMAP)
	{
		a.item_bytes = 4;
		a.items = rows / 32;
		a.data = bitmap;
		bitmap = NULL;
	}
	else if (what != GJD_COUNT)
		list_hits(m, hits, what, &a);
	free(hits);
	free(bitmap);
	return a;
}
