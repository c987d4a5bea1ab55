/*-------------------------------------------------------------------------
 *
 * entryshare.h
 *	  A finished set of entries in memory that several processes share: each takes
 *	  pieces until there are no more.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_ENTRYSHARE_H
#define GPUJOIN_SETS_ENTRYSHARE_H

#include "port/atomics.h"
#include "utils/dsa.h"

#include "entryset.h"

/* Filled by one process, then read-only but for the cursor */
typedef struct GjSharedEntries
{
	dsa_pointer memory;			/* of all arrays */
	uint64		nentries;
	int			range_bits;		/* they are ordered by ranges of 2^range_bits heap blocks */
	bool		has_nulls[GJ_MAX_INCLUDED]; /* as in GjEntryColumn */
	uint64		step;			/* entries that are taken at a time */
	pg_atomic_uint64 next;		/* first entry that nobody has taken */
} GjSharedEntries;

extern void GjEntriesShareInit(GjSharedEntries *shared);
extern void GjEntriesShare(GjSharedEntries *shared, dsa_area *area, const GjEntrySet *set,
						   int nprocesses);
extern void GjEntriesUnshare(GjSharedEntries *shared, dsa_area *area);

/*
 * Make a view of entries that are taken, with the columns of the set that was shared, and
 * nothing else: it must not be added to
 */
extern bool GjEntriesTake(GjSharedEntries *shared, dsa_area *area, GjEntrySet *view);

#endif							/* GPUJOIN_SETS_ENTRYSHARE_H */
