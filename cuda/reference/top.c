/*
 * top.c
 *	  The first rows of an order, in the reference library: all of them are sorted.
 */
#include "reference.h"

#include <errno.h>
#include <stdlib.h>

static sort_word
word_of(const gjd_match *match, const char *image, uint32_t slot)
{
	const gjd_shape *shape = &match->column->shape;
	uint32_t column = match->top.column;
	sort_word word = {1, (uint64_t) value_at(shape, image, slot, column) ^ (uint64_t) 1 << 63};

	if (column > 0 && is_null(shape, image, slot, column - 1))
		return (sort_word){match->top.order & GJD_NULLS_FIRST ? 0 : 2, 0};
	if (match->top.order & GJD_DESCENDING)
		word.value = ~word.value;
	return word;
}

static int
compare_words(const void *a, const void *b)
{
	const sort_word *x = a;
	const sort_word *y = b;

	if (x->part != y->part)
		return x->part > y->part ? 1 : -1;
	return (x->value > y->value) - (x->value < y->value);
}

/* Returns true if a row is not behind the last that is wanted. */
bool
is_within(const gjd_match *match, const char *image, uint32_t slot)
{
	sort_word word;

	if (!match->limited)
		return true;
	word = word_of(match, image, slot);
	return compare_words(&word, &match->last) <= 0;
}

void
add_word(void *context, const char *image, uint64_t position, gjd_tid tid)
{
	word_list *list = context;

	(void) tid;
	if (list->n == list->room)
	{
		uint64_t room = list->room * 2 + 1024;
		sort_word *words = realloc(list->words, room * sizeof(*words));

		if (words == NULL)
		{
			list->failed = true;
			return;
		}
		list->words = words;
		list->room = room;
	}
	list->words[list->n++] =
		word_of(list->match, image, (uint32_t) (position % list->match->column->shape.slots));
}

gjd_status
set_last(gjd_match *match, word_list *list, gjd_error *error)
{
	gjd_status status = GJD_OK;

	if (list->failed)
		status = fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	else if (list->n > match->top.limit)
	{
		qsort(list->words, list->n, sizeof(*list->words), compare_words);
		match->last = list->words[match->top.limit - 1];
		match->limited = true;
	}
	free(list->words);
	return status;
}
