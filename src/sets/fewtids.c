/*-------------------------------------------------------------------------
 *
 * fewtids.c
 *	  Looking for a few TIDs among many, which are in no order.
 *
 * Each of the many is compared with the range of the few, which is narrow where they are of the
 * newest rows; then with a filter that has sixteen bits or more for each of the few, so that
 * hardly any of the others comes to the hash table.  A million take 1 to 2 ms.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "fewtids.h"

/* The filter has 2^n bits, the table an eighth of that, in slots */
#define FILTER_BITS_PER_TID		16
#define MIN_FILTER_BITS			10
#define SLOT_SHARE_BITS			3

/* A query can be cancelled after so many TIDs */
#define STEP_TIDS				65536

struct GjFewTids
{
	uint64	   *tids;
	uint64		least;
	uint64		span;			/* from the least to the greatest */
	int			filter_shift;	/* of a hash, to a bit of the filter */
	int			slot_shift;		/* to a slot */
	uint64		slot_mask;
	uint64	   *filter;
	uint32	   *slots;			/* which TID, counted from 1; 0: none */
};

static void add(GjFewTids *few, uint64 which);

static inline uint64
hash_tid(uint64 tid)
{
	return tid * UINT64CONST(0x9E3779B97F4A7C15);
}

GjFewTids *
GjFewTidsCreate(MemoryContext context, const uint64 *tids, uint64 n)
{
	GjFewTids  *few = MemoryContextAllocZero(context, sizeof(GjFewTids));
	uint64		greatest = 0;
	int			bits;

	Assert(n < PG_UINT32_MAX);
	bits = pg_ceil_log2_64(Max(n, 1) * FILTER_BITS_PER_TID);
	bits = Max(bits, MIN_FILTER_BITS);
	few->tids = MemoryContextAllocHuge(context, Max(n, 1) * sizeof(uint64));
	memcpy(few->tids, tids, n * sizeof(uint64));
	few->filter_shift = 64 - bits;
	few->slot_shift = few->filter_shift + SLOT_SHARE_BITS;
	few->slot_mask = (UINT64CONST(1) << (bits - SLOT_SHARE_BITS)) - 1;
	few->filter = MemoryContextAllocExtended(context, (Size) 1 << (bits - 3),
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	few->slots = MemoryContextAllocExtended(context, (few->slot_mask + 1) * sizeof(uint32),
											MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	few->least = PG_UINT64_MAX;
	for (uint64 i = 0; i < n; i++)
	{
		few->least = Min(few->least, tids[i]);
		greatest = Max(greatest, tids[i]);
		add(few, i);
	}
	few->span = greatest - few->least;
	return few;
}

static void
add(GjFewTids *few, uint64 which)
{
	uint64		hash = hash_tid(few->tids[which]);
	uint64		slot = hash >> few->slot_shift;
	uint64		bit = hash >> few->filter_shift;

	few->filter[bit / 64] |= UINT64CONST(1) << bit % 64;
	for (; few->slots[slot] != 0; slot = (slot + 1) & few->slot_mask)
	{
		if (few->tids[few->slots[slot] - 1] == few->tids[which])
			return;
	}
	few->slots[slot] = (uint32) which + 1;
}

int64
GjFewTidsFind(const GjFewTids *few, uint64 tid)
{
	uint64		slot = hash_tid(tid) >> few->slot_shift;

	for (; few->slots[slot] != 0; slot = (slot + 1) & few->slot_mask)
	{
		if (few->tids[few->slots[slot] - 1] == tid)
			return (int64) few->slots[slot] - 1;
	}
	return -1;
}

/*
 * May it be one of them?
 */
static inline bool
passes(const GjFewTids *few, uint64 tid)
{
	uint64		bit = hash_tid(tid) >> few->filter_shift;

	return tid - few->least <= few->span && (few->filter[bit / 64] >> bit % 64 & 1) != 0;
}

bool
GjFewTidsNext(const GjFewTids *few, const uint64 *tids, uint64 n, uint64 *at, uint64 *which)
{
	for (uint64 i = *at; i < n;)
	{
		uint64		end = Min(i + STEP_TIDS, n);

		CHECK_FOR_INTERRUPTS();
		for (; i < end; i++)
		{
			int64		found = passes(few, tids[i]) ? GjFewTidsFind(few, tids[i]) : -1;

			if (found < 0)
				continue;
			*at = i;
			*which = (uint64) found;
			return true;
		}
	}
	return false;
}

void
GjFewTidsFree(GjFewTids *few)
{
	pfree(few->tids);
	pfree(few->filter);
	pfree(few->slots);
	pfree(few);
}
