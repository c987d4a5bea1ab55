/*-------------------------------------------------------------------------
 *
 * tid.h
 *	  TIDs as integers, the representation used by all TID sets, and the order of entries.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_TID_H
#define GPUJOIN_BASE_TID_H

#include "access/htup_details.h"
#include "storage/itemptr.h"

/* Return true if this can be the TID of a heap tuple.  Nothing read from disk is trusted. */
#define GjTidIsPossible(tid) \
	(BlockNumberIsValid(ItemPointerGetBlockNumberNoCheck(tid)) && \
	 (OffsetNumber) (ItemPointerGetOffsetNumberNoCheck(tid) - 1) < MaxHeapTuplesPerPage)

/* Pack a TID: block << 16 | offset, a number whose order is heap order */
static inline uint64
GjPackTid(const ItemPointerData *tid)
{
	return ((uint64) tid->ip_blkid.bi_hi << 32) | ((uint64) tid->ip_blkid.bi_lo << 16) |
		tid->ip_posid;
}

static inline BlockNumber
GjPackedBlock(uint64 packed)
{
	return (BlockNumber) (packed >> 16);
}

static inline OffsetNumber
GjPackedOffset(uint64 packed)
{
	return (OffsetNumber) packed;
}

static inline bool
GjPackedIsPossible(uint64 packed)
{
	return packed >> 16 < InvalidBlockNumber &&
		(OffsetNumber) (GjPackedOffset(packed) - 1) < MaxHeapTuplesPerPage;
}

/* A place in the order of an index's entries */
typedef struct GjPlace
{
	int64		key;
	uint64		tid;			/* packed */
} GjPlace;

static inline bool
GjPlaceIsBefore(const GjPlace *a, const GjPlace *b)
{
	return a->key < b->key || (a->key == b->key && a->tid < b->tid);
}

#endif							/* GPUJOIN_BASE_TID_H */
