/*-------------------------------------------------------------------------
 *
 * entryshare.c
 *	  Dividing entries among processes, by heap blocks.
 *
 * The arrays of a finished set are copied into shared memory, one behind the other, and
 * cut into steps as those of TIDs are (tidshare.c): a heap block's entries go to one
 * process, so that what they have to fetch of it is fetched together.  As a finished set
 * has each TID once, each is in exactly one step.
 *
 * They come in any order.  So the heap is divided into ranges of blocks, some thousand, and the
 * entries are copied range by range; within one they stay in their order.  That takes little
 * more than to copy them as they are.  Steps are cut at the borders of ranges.
 *
 * Nothing but the length and the columns' widths says where an array stands, and all
 * processes know the widths: they run the same plan over the same index.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "entryshare.h"
#include "tidshare.h"

/* As with TIDs, but a step costs another look at the vacuum epoch */
#define STEPS_PER_PROCESS		16
#define MIN_STEP_ENTRIES		1024
#define MAX_STEP_ENTRIES		16384

/* Ranges that the heap is divided into, at most */
#define MAX_RANGES				4096

static bool find_places(GjSharedEntries *shared, const GjEntrySet *set, uint32 *places);
static void place_arrays(GjEntrySet *view, char *memory, uint64 n, Size *size);
static char *place(Size *size, char *memory, Size bytes);
static void copy_column(GjEntryColumn *to, const GjEntryColumn *from, uint64 n,
						const uint32 *places);
static void copy_array(void *to, const void *from, int width, uint64 n, const uint32 *places);
static void advance(GjEntryColumn *column, uint64 n);

/*
 * Prepare shared memory: there are no entries
 */
void
GjEntriesShareInit(GjSharedEntries *shared)
{
	memset(shared, 0, sizeof(GjSharedEntries));
	shared->memory = InvalidDsaPointer;
	pg_atomic_init_u64(&shared->next, 0);
}

/*
 * Put a finished set, which has tids[] or no entries, into shared memory
 */
void
GjEntriesShare(GjSharedEntries *shared, dsa_area *area, const GjEntrySet *set, int nprocesses)
{
	uint64		n = set->nentries;
	GjEntrySet	copy = *set;
	uint32	   *places;
	Size		size;

	GjEntriesShareInit(shared);
	shared->step = Min(Max(n / nprocesses / STEPS_PER_PROCESS, MIN_STEP_ENTRIES),
					   MAX_STEP_ENTRIES);
	if (n == 0)
		return;

	place_arrays(&copy, NULL, n, &size);
	shared->memory = dsa_allocate_extended(area, size, DSA_ALLOC_HUGE);
	place_arrays(&copy, dsa_get_address(area, shared->memory), n, &size);
	places = MemoryContextAllocHuge(set->context, n * sizeof(uint32));
	if (!find_places(shared, set, places))
	{
		pfree(places);
		places = NULL;
	}
	copy_array(copy.tids, set->tids, sizeof(uint64), n, places);
	copy_column(&copy.keys, &set->keys, n, places);
	for (int i = 0; i < set->nincluded; i++)
	{
		copy_column(&copy.included[i], &set->included[i], n, places);
		shared->has_nulls[i] = set->included[i].has_nulls;
	}
	if (places != NULL)
		pfree(places);
	shared->nentries = n;
}

/*
 * Find out where each entry goes, if they are ordered by ranges of blocks; false: they are
 */
static bool
find_places(GjSharedEntries *shared, const GjEntrySet *set, uint32 *places)
{
	uint32		next[MAX_RANGES] = {0};
	uint64		n = set->nentries;
	uint32		sum = 0;
	uint64		greatest = 0;
	uint32		last = 0;
	bool		ordered = true;
	int			shift = 16;		/* of a TID, to a range's number */

	for (uint64 i = 0; i < n; i++)
		greatest = Max(greatest, set->tids[i]);
	while (greatest >> shift >= MAX_RANGES)
		shift++;
	shared->range_bits = shift - 16;
	for (uint64 i = 0; i < n; i++)
	{
		uint32		range = (uint32) (set->tids[i] >> shift);

		next[range]++;
		ordered &= range >= last;
		last = range;
	}
	if (ordered)
		return false;
	for (int range = 0; range < MAX_RANGES; range++)
	{
		uint32		here = next[range];

		next[range] = sum;
		sum += here;
	}
	for (uint64 i = 0; i < n; i++)
		places[i] = next[set->tids[i] >> shift]++;
	return true;
}

static void
copy_column(GjEntryColumn *to, const GjEntryColumn *from, uint64 n, const uint32 *places)
{
	if (from->width == 0)
		return;
	copy_array(to->values, from->values, from->width, n, places);
	if (from->has_nulls)
		copy_array(to->nulls, from->nulls, 1, n, places);
}

#define COPY_ARRAY(type) \
	for (uint64 i = 0; i < n; i++) \
		((type *) to)[places[i]] = ((const type *) from)[i]

/*
 * Copy an array, each element to its place; NULL: as it is
 */
static void
copy_array(void *to, const void *from, int width, uint64 n, const uint32 *places)
{
	CHECK_FOR_INTERRUPTS();
	if (places == NULL)
	{
		memcpy(to, from, n * width);
		return;
	}
	switch (width)
	{
		case 1:
			COPY_ARRAY(uint8);
			break;
		case 2:
			COPY_ARRAY(uint16);
			break;
		case 4:
			COPY_ARRAY(uint32);
			break;
		default:
			COPY_ARRAY(uint64);
			break;
	}
}

/*
 * Point a set's arrays to where those of n entries stand in the memory, and say how much
 * that is
 */
static void
place_arrays(GjEntrySet *view, char *memory, uint64 n, Size *size)
{
	*size = 0;
	view->tids = (uint64 *) place(size, memory, n * sizeof(uint64));
	if (view->keys.width != 0)
		view->keys.values = place(size, memory, n * view->keys.width);
	for (int i = 0; i < view->nincluded; i++)
	{
		GjEntryColumn *column = &view->included[i];

		if (column->width == 0)
			continue;
		column->values = place(size, memory, n * column->width);
		column->nulls = (uint8 *) place(size, memory, n);
	}
}

static char *
place(Size *size, char *memory, Size bytes)
{
	char	   *at = memory == NULL ? NULL : memory + *size;

	*size += MAXALIGN(bytes);
	return at;
}

/*
 * Free the shared memory; no process may still be reading
 */
void
GjEntriesUnshare(GjSharedEntries *shared, dsa_area *area)
{
	if (DsaPointerIsValid(shared->memory))
		dsa_free(area, shared->memory);
	GjEntriesShareInit(shared);
}

/*
 * Take the next entries; false if all are taken
 */
bool
GjEntriesTake(GjSharedEntries *shared, dsa_area *area, GjEntrySet *view)
{
	uint64		first;
	uint64		end;
	Size		size;

	view->nentries = 0;
	if (shared->nentries == 0)
		return false;
	place_arrays(view, dsa_get_address(area, shared->memory), shared->nentries, &size);
	if (!GjTakeBlocks(&shared->next, shared->step, view->tids, shared->nentries,
					  shared->range_bits, &first, &end))
		return false;

	view->tids += first;
	advance(&view->keys, first);
	for (int i = 0; i < view->nincluded; i++)
	{
		advance(&view->included[i], first);
		view->included[i].has_nulls = shared->has_nulls[i];
	}
	view->nentries = view->nbulk = end - first;
	view->highest = PG_UINT64_MAX;	/* nobody has asked */
	return true;
}

static void
advance(GjEntryColumn *column, uint64 n)
{
	if (column->width == 0)
		return;
	column->values += n * column->width;
	if (column->nulls != NULL)
		column->nulls += n;
}
