/*-------------------------------------------------------------------------
 *
 * visiblemapselftest.c
 *	  Test of look-ups of many TIDs at a time in the visibility map, against single ones.
 *
 * For an empty temporary table: it is extended to four pages of the map, a hole except for its
 * last block, and the map is given bits that suit the test.  The table is useless afterwards.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/visibilitymap.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "match/match.h"
#include "sets/sets.h"

#define ROUNDS					400
#define MAX_TIDS				1024
#define MAP_BYTES				(BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define MAP_BLOCKS				((BlockNumber) (MAP_BYTES * 4))

/* The last page of the map does not exist */
#define HEAP_BLOCKS				(3 * MAP_BLOCKS + 1000)

PG_FUNCTION_INFO_V1(gpujoin_visible_map_selftest);

/*
 * Set bits in the first pages of the map: all blocks visible, most, few, in turn
 */
static void
make_map(Relation heap, pg_prng_state *prng, int turn)
{
	Buffer		buffer = InvalidBuffer;

	for (int page = 0; page < 3; page++)
	{
		uint8	   *bytes;

		visibilitymap_pin(heap, page * MAP_BLOCKS, &buffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		bytes = (uint8 *) PageGetContents(BufferGetPage(buffer));
		for (int i = 0; i < MAP_BYTES; i++)
		{
			uint8		random = (uint8) pg_prng_uint64(prng);
			int			kind = (page + turn) % 3;

			bytes[i] = kind == 0 ? 0x55 | random : kind == 1 ? 0x55 : random & 0x55;
			if (kind == 1 && random == 0)
				bytes[i] = 0x45;
		}
		MarkBufferDirty(buffer);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buffer);
}

/*
 * TIDs from all over the heap and beyond, or close together; in any order or ascending
 */
static int
make_tids(uint64 *tids, pg_prng_state *prng)
{
	static const int sizes[] = {1, 2, 63, 255, 256, 700, MAX_TIDS};
	int			n = sizes[pg_prng_uint64(prng) % lengthof(sizes)];
	bool		close = pg_prng_bool(prng);
	BlockNumber first = pg_prng_uint64(prng) % HEAP_BLOCKS;
	BlockNumber width = 1 + pg_prng_uint64(prng) % 300;

	if (pg_prng_uint64(prng) % 4 == 0)
		first = (1 + first / MAP_BLOCKS) * MAP_BLOCKS - width / 2;	/* of two pages of the map */
	for (int i = 0; i < n; i++)
	{
		uint64		block = close ? first + (uint64) width * i / n :
			pg_prng_uint64(prng) % (HEAP_BLOCKS + 2 * MAP_BLOCKS);

		if (!close && pg_prng_uint64(prng) % 1000 == 0)
			block = MaxBlockNumber;
		tids[i] = block << 16 | (1 + pg_prng_uint64(prng) % 100);
	}
	return n;
}

/*
 * Get the highest TID, or a higher one, as if the TIDs were a part of a set
 */
static uint64
find_highest(const uint64 *tids, int n)
{
	uint64		highest = 0;

	for (int i = 0; i < n; i++)
		highest = Max(highest, tids[i]);
	return n % 2 == 0 ? highest : highest + tids[0];
}

static void
check_tids(Relation heap, GjVisibleMap *map, const uint64 *tids, int n)
{
	uint16		rows[MAX_TIDS];
	uint64		rest[MAX_TIDS];
	bool		visible[MAX_TIDS];
	Buffer		buffer = InvalidBuffer;
	int			nrest;
	int			nrows = GjVisibleMapSort(map, tids, n, find_highest(tids, n), rows, rest, &nrest);
	int			nvisible = GjVisibleMapTest(heap, tids, n, visible);
	int			row = 0;
	int			other = 0;

	for (int i = 0; i < n; i++)
	{
		bool		expected = (visibilitymap_get_status(heap, GjPackedBlock(tids[i]), &buffer) &
								VISIBILITYMAP_ALL_VISIBLE) != 0;

		if (visible[i] != expected)
			elog(ERROR, "block %u is taken for all-visible, or is not", GjPackedBlock(tids[i]));
		if (expected ? row == nrows || rows[row++] != i :
			other == nrest || rest[other++] != tids[i])
			elog(ERROR, "block %u is among the wrong ones", GjPackedBlock(tids[i]));
	}
	if (row != nrows || other != nrest || nvisible != nrows)
		elog(ERROR, "there are more TIDs than there were");
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
}

/*
 * Compare batch answers with single ones; returns the number of TIDs tested
 */
Datum
gpujoin_visible_map_selftest(PG_FUNCTION_ARGS)
{
	Relation	heap = table_open(PG_GETARG_OID(0), AccessExclusiveLock);
	PGAlignedBlock zeroes = {0};
	GjVisibleMap *maps[2];
	pg_prng_state prng;
	int64		ntids = 0;

	if (!RelationUsesLocalBuffers(heap) || RelationGetNumberOfBlocks(heap) > 0)
		elog(ERROR, "\"%s\" is no empty temporary table", RelationGetRelationName(heap));
	smgrextend(RelationGetSmgr(heap), MAIN_FORKNUM, HEAP_BLOCKS - 1, zeroes.data, true);
	pg_prng_seed(&prng, 20260814);

	/* with copies, and without the memory for them */
	maps[0] = GjVisibleMapCreate(CurrentMemoryContext, heap, (Size) 1024 * 1024);
	maps[1] = GjVisibleMapCreate(CurrentMemoryContext, heap, 1024);
	for (int round = 0; round < ROUNDS; round++)
	{
		uint64		tids[MAX_TIDS];

		CHECK_FOR_INTERRUPTS();
		if (round % 3 == 0)
		{
			make_map(heap, &prng, round / 3);
			GjVisibleMapForget(maps[0]);
			GjVisibleMapForget(maps[1]);
		}
		for (int i = 0; i < lengthof(maps); i++)
		{
			int			n = make_tids(tids, &prng);

			check_tids(heap, maps[i], tids, n);
			ntids += n;
		}
	}
	table_close(heap, NoLock);
	PG_RETURN_INT64(ntids);
}
