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
 * Nothing but the length and the columns' widths says where an array stands, and all
 * processes know the widths: they run the same plan over the same index.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "entryshare.h"
#include "tidshare.h"

/* As with TIDs, but a step costs another look at the vacuum epoch */
#define STEPS_PER_PROCESS		16
#define MIN_STEP_ENTRIES		1024
#define MAX_STEP_ENTRIES		16384

static void place_arrays(GjEntrySet *view, char *memory, uint64 n, Size *size);
static char *place(Size *size, char *memory, Size bytes);
static void copy_column(GjEntryColumn *to, const GjEntryColumn *from, uint64 n);
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
	Size		size;

	GjEntriesShareInit(shared);
	shared->step = Min(Max(n / nprocesses / STEPS_PER_PROCESS, MIN_STEP_ENTRIES),
					   MAX_STEP_ENTRIES);
	if (n == 0)
		return;

	place_arrays(&copy, NULL, n, &size);
	shared->memory = dsa_allocate_extended(area, size, DSA_ALLOC_HUGE);
	place_arrays(&copy, dsa_get_address(area, shared->memory), n, &size);
	memcpy(copy.tids, set->tids, n * sizeof(uint64));
	copy_column(&copy.keys, &set->keys, n);
	for (int i = 0; i < set->nincluded; i++)
	{
		copy_column(&copy.included[i], &set->included[i], n);
		shared->has_nulls[i] = set->included[i].has_nulls;
	}
	shared->nentries = n;
}

static void
copy_column(GjEntryColumn *to, const GjEntryColumn *from, uint64 n)
{
	if (from->width == 0)
		return;
	memcpy(to->values, from->values, n * from->width);
	if (from->nulls != NULL)
		memcpy(to->nulls, from->nulls, n);
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
	if (!GjTakeBlocks(&shared->next, shared->step, view->tids, shared->nentries, &first, &end))
		return false;

	view->tids += first;
	advance(&view->keys, first);
	for (int i = 0; i < view->nincluded; i++)
	{
		advance(&view->included[i], first);
		view->included[i].has_nulls = shared->has_nulls[i];
	}
	view->nentries = view->nascending = end - first;
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
