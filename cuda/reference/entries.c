/*
 * entries.c
 *	  Entries in the reference library: gathered from the pages when the match begins, one by
 *	  one, into arrays laid out like those of a part.
 */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

/* Stores the entry found at a position as element i of the arrays. */
static void
put_entry(gjd_match *match, uint64_t i)
{
	const gjd_shape *shape = &match->column->shape;
	const gjd_entry_layout *to = &match->entries;
	const hit *found = &match->hits[i];
	const char *image = page_at(match->column, found->position / shape->slots);
	uint64_t slot = found->position % shape->slots;

	((gjd_tid *) match->entry_arrays)[i] = found->tid;
	if (match->want.keys)
		memcpy(match->entry_arrays + to->keys_at + i * shape->key_bytes,
			   image + slot * shape->key_bytes, shape->key_bytes);
	for (uint32_t c = 0; c < shape->n_carried; c++)
	{
		uint32_t bytes = shape->carried_bytes[c];

		if ((match->want.columns >> c & 1) == 0)
			continue;
		memcpy(match->entry_arrays + to->column_at[c] + i * bytes,
			   image + gjd_image_carried_at(shape, c) + slot * bytes, bytes);
		if (shape->nullable >> c & 1)
		{
			uint32_t word;

			memcpy(&word, image + gjd_image_nulls_at(shape, c) + slot / 32 * 4, sizeof(word));
			match->entry_arrays[to->nulls_at[c] + i] = (char) (word >> slot % 32 & 1);
		}
	}
}

bool
make_entries(gjd_match *match)
{
	/* Duplicates have been removed, so there are fewer than charged for. */
	gjd_entry_layout_of(&match->column->shape, match->want, match->state.items, &match->entries);
	match->entry_arrays = malloc(match->entries.bytes + 1);
	if (match->entry_arrays == NULL)
		return false;
	for (uint64_t i = 0; i < match->state.items; i++)
		put_entry(match, i);
	return true;
}

/* Copies the next n entries into a part that has room for at least n. */
void
copy_entries(const gjd_match *match, char *part, uint64_t room, uint64_t n)
{
	gjd_entry_layout to;

	gjd_entry_layout_of(&match->column->shape, match->want, room, &to);
	for (uint32_t w = 0; w < 4; w++)
		for (uint32_t a = 0; a < to.widths[w].arrays; a++)
			memcpy(part + to.widths[w].at + a * to.widths[w].pitch,
				   match->entry_arrays + match->entries.widths[w].at +
					   a * match->entries.widths[w].pitch + (match->state.begun << w),
				   n << w);
}
