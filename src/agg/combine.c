/*-------------------------------------------------------------------------
 *
 * combine.c
 *	  Add up the answers to several requests for the same keys, before groups are made of them.
 *
 * The partitions of a table, and the tables of a join, are asked for the same keys, and each answer
 * has a group of nearly every key.  Looking each of them up among the groups takes several times as
 * long as reading it.  So the first answer is kept, and the states of others are added to those of
 * the same keys.  Only the sums become groups: a key is looked up once, and so are its partners.
 * The verification has found the number of each group's key (service/verify.c), which tells where
 * the key's states are.
 *
 * Why it is safe.  All requests are those of one reducer (reduced.c), so they have the same
 * aggregates in the same order, whatever the columns' numbers are in each index; that the elements
 * have the same form is tested nevertheless.  The first word of an element alone tells its group:
 * the key's code, or its number in the list of the keys with their rests.  Codes are compared for
 * each element, so the number of a key is only a guess where its states are.  Lists with rests are
 * compared as a whole.
 *
 * A table's answer may stand for the big rows alone, which are then combined with the partners of
 * their key, or multiplied by their number (by_key); or the device has done so, by weights.  The
 * join decides that for each table, so only answers of one kind are added up.  If partners are
 * still to come, both answers must be of one node: its small rows stay the same while several
 * requests are under way (join/pairs.c), and all answers become groups before the last of these
 * returns.
 *
 * States are added as a device would have added up the rows of both answers.  Numbers of values and
 * sums of up to four bytes are added modulo 2^64; the two halves of a sum of eight bytes are below
 * 2^63 each, as long as the group has at most GJ_MAX_SUMMED_ROWS rows.  An element that has more,
 * together with the states of its key, is appended: then its key has two elements, which are merged
 * like any other groups.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/settings.h"
#include "agg.h"

/* The word of an element that has the number of rows */
#define ROWS_WORD				2

/* Elements to add between two checks for interrupts */
#define UNINTERRUPTED			(64 * 1024)

static bool has_same_form(const GjReduceRequest *to, const GjReduceRequest *from);
static bool has_same_keys(const GjReduction *to, const GjReduction *from);
static void number_elements(GjCombined *combined);
static uint32 append_states(GjReduction *to, const uint64 *element);
static bool only_adds(const GjReduceRequest *request);
static void combine_states(const GjReduceRequest *request, uint64 *to, const uint64 *from);

/*
 * Return true if an answer can be added to those that have been added up: it has the same keys
 */
bool
GjCombineCan(const GjCombined *combined, const GjReduceRequest *request)
{
	const GjReduceRequest *to = combined->request;
	uint64		most = to->reduction.nelements + request->reduction.nelements;
	Size		bytes = request->reduction.element_words * sizeof(uint64);

	return GjCombineMay(request) && has_same_form(to, request) &&
		has_same_keys(&to->reduction, &request->reduction) && to->by_key == request->by_key &&
		(!to->by_key || GjRequestPart(request->part) == GjRequestPart(to->part)) &&
		most <= PG_UINT32_MAX &&
		Min(most, to->reduction.nkeys) <= get_hash_memory_limit() / 2 / bytes;
}

/*
 * Add an answer to those that have been added up.  Returns false, and adds nothing, if it cannot be
 * added to them.
 */
bool
GjCombineAdd(GjCombined *combined, const GjReduceRequest *request)
{
	GjReduction *to = &combined->request->reduction;
	const GjReduction *from = &request->reduction;
	uint32		width = from->element_words;
	bool		adds = only_adds(request);

	if (!GjCombineCan(combined, request))
		return false;
	if (combined->places == NULL)
		number_elements(combined);
	for (uint64 i = 0; i < from->nelements; i++)
	{
		const uint64 *element = from->words + i * width;
		uint32	   *place = &combined->places[GjNumberOfKey(element)];
		uint64	   *known = *place < to->nelements ? to->words + *place * width : NULL;

		Assert(GjNumberOfKey(element) < to->nkeys);
		if (known != NULL && known[0] == element[0] && element[ROWS_WORD] <= GJ_MAX_SUMMED_ROWS &&
			known[ROWS_WORD] <= GJ_MAX_SUMMED_ROWS - element[ROWS_WORD])
		{
			if (!adds)
				combine_states(request, known, element);
			else
				for (uint32 word = ROWS_WORD; word < width; word++)
					known[word] += element[word];
		}
		else
			*place = append_states(to, element);
		if (i % UNINTERRUPTED == 0)
			CHECK_FOR_INTERRUPTS();
	}
	return true;
}

static bool
has_same_form(const GjReduceRequest *to, const GjReduceRequest *from)
{
	bool		same = to->ngroups == from->ngroups && to->naggs == from->naggs &&
		to->by_partner == from->by_partner &&
		to->reduction.element_words == from->reduction.element_words;

	for (int i = 0; same && i < to->ngroups; i++)
		same = to->group_words[i] == from->group_words[i];
	for (int i = 0; same && i < to->naggs; i++)
		same = to->aggs[i].kind == from->aggs[i].kind && to->words[i] == from->words[i];
	return same;
}

/*
 * Return true if both have been asked for the same keys.  Without rests, this is a guess: the set
 * may be another one by now.
 */
static bool
has_same_keys(const GjReduction *to, const GjReduction *from)
{
	const GjProofs *a = to->proofs;
	const GjProofs *b = from->proofs;

	if (a == NULL || b == NULL)
		return a == b && to->keys == from->keys && to->nkeys == from->nkeys;
	return a->n == b->n && memcmp(a->codes, b->codes, a->n * sizeof(int64)) == 0 &&
		memcmp(a->rests, b->rests, a->n * sizeof(int64)) == 0;
}

/*
 * Find the place of each key's element.  A key without one has any place, as it is compared.
 */
static void
number_elements(GjCombined *combined)
{
	const GjReduction *to = &combined->request->reduction;

	combined->places = MemoryContextAllocExtended(combined->request->context,
												  to->nkeys * sizeof(uint32),
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint64 i = 0; i < to->nelements; i++)
		combined->places[GjNumberOfKey(to->words + i * to->element_words)] = (uint32) i;
}

/*
 * Append an element, and return its place
 */
static uint32
append_states(GjReduction *to, const uint64 *element)
{
	Size		bytes = to->element_words * sizeof(uint64);

	if ((to->nelements + 1) * bytes > to->room)
	{
		to->room = Max(to->room * 2, 64 * bytes);
		to->words = to->words == NULL ? MemoryContextAllocHuge(to->context, to->room) :
			repalloc_huge(to->words, to->room);
	}
	memcpy(to->words + to->nelements * to->element_words, element, bytes);
	return (uint32) to->nelements++;
}

/*
 * Return true if all words from that of the rows on are added
 */
static bool
only_adds(const GjReduceRequest *request)
{
	bool		adds = true;

	for (int i = 0; i < request->naggs; i++)
		adds &= request->aggs[i].kind == GJD_COUNT_VALUES || request->aggs[i].kind == GJD_SUM;
	return adds;
}

static void
combine_states(const GjReduceRequest *request, uint64 *to, const uint64 *from)
{
	to[ROWS_WORD] += from[ROWS_WORD];
	for (int i = 0; i < request->naggs; i++)
	{
		int			at = request->words[i];

		switch (request->aggs[i].kind)
		{
			case GJD_MIN:
				to[at] = (uint64) Min((int64) to[at], (int64) from[at]);
				break;
			case GJD_MAX:
				to[at] = (uint64) Max((int64) to[at], (int64) from[at]);
				break;
			default:
				for (; at < request->words[i + 1]; at++)
					to[at] += from[at];
		}
	}
}
