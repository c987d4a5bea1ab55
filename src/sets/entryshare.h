/*-------------------------------------------------------------------------
 *
 * entryshare.h
 *	  A finished entry set in memory shared by several processes, each of which takes pieces
 *	  until all are taken.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_ENTRYSHARE_H
#define GPUJOIN_SETS_ENTRYSHARE_H

#include "port/atomics.h"
#include "utils/dsa.h"

#include "entryset.h"

/* Filled by one process, then read-only except for the cursor */
typedef struct GjSharedEntries
{
	dsa_pointer memory;			/* of all arrays */
	uint64		nentries;
	int			range_bits;		/* entries are ordered by ranges of 2^range_bits heap blocks */
	bool		has_nulls[GJ_MAX_INCLUDED]; /* as in GjEntryColumn */
	uint64		step;			/* number of entries taken at a time */
	pg_atomic_uint64 next;		/* first entry not taken yet */
} GjSharedEntries;

extern void GjEntriesShareInit(GjSharedEntries *shared);
extern void GjEntriesShare(GjSharedEntries *shared, dsa_area *area, const GjEntrySet *set,
						   int nprocesses);
extern void GjEntriesUnshare(GjSharedEntries *shared, dsa_area *area);

/*
 * Point the view to the next entries, with the columns of the set that was shared.  The view has
 * no other contents, and entries must not be added to it.  Returns false if all entries are
 * taken.
 */
extern bool GjEntriesTake(GjSharedEntries *shared, dsa_area *area, GjEntrySet *view);

#endif							/* GPUJOIN_SETS_ENTRYSHARE_H */
