/*-------------------------------------------------------------------------
 *
 * tails.c
 *	  Searching the tail pages, a few dozen of the latest rows each.
 *
 * This is done on the CPU whoever answers: they are few, and what is on them stands nowhere
 * else.  The hits are copied, as the rows may move on at any time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "parts.h"

/*
 * Read all tail pages, one share lock after another
 *
 * The caller has the index open with at least AccessShareLock, its snapshot taken, and a set
 * that wants a key.
 */
void
GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys, GjTailHits *hits,
			  GjMatchStats *stats)
{
	int			max_rows = BLCKSZ / info->row_width;

	for (int lane = 0; lane < info->nlanes; lane++)
	{
		Buffer		buffer = ReadBuffer(index, GJ_FIRST_TAIL_BLOCK + lane);
		Page		page = BufferGetPage(buffer);
		int			nrows;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		GjPageCheck(index, buffer, GJ_PAGE_TAIL);
		nrows = GjPageGetOpaque(page)->used;
		for (int row = 0; row < nrows; row++)
		{
			ItemPointerData tid;
			int64		key = GjTailGetRow(page, info, row, &tid);

			if (!GjKeySetContains(keys, key))
				continue;
			if (!GjTidIsPossible(&tid))
				GjReportCorruption(index, BufferGetBlockNumber(buffer),
								   "An entry has an impossible TID.");
			if (hits->rows == NULL)
				hits->rows = palloc(info->nlanes * max_rows * info->row_width);
			memcpy(hits->rows + hits->nrows++ * info->row_width, GjTailRow(page, info, row),
				   info->row_width);
		}
		stats->pages++;
		stats->entries += nrows;
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * Prepare to look for the TIDs of the hits, in the current memory context
 */
GjFewTids *
GjTailHitsTids(const GjTailHits *hits, const GjIndexInfo *info)
{
	uint64	   *tids = palloc(hits->nrows * sizeof(uint64));
	GjFewTids  *few;

	for (int i = 0; i < hits->nrows; i++)
	{
		ItemPointerData tid;

		(void) GjRowGetKey(info, hits->rows + i * info->row_width, &tid);
		tids[i] = GjPackTid(&tid);
	}
	few = GjFewTidsCreate(CurrentMemoryContext, tids, hits->nrows);
	pfree(tids);
	return few;
}

/*
 * Add what was found on the tail pages
 */
void
GjTailHitsAdd(const GjTailHits *hits, const GjIndexInfo *info, GjMatchTarget target,
			  GjMatchStats *stats)
{
	for (int i = 0; i < hits->nrows; i++)
	{
		const char *row = hits->rows + i * info->row_width;
		ItemPointerData tid;

		(void) GjRowGetKey(info, row, &tid);
		if (target.tids != NULL)
			GjTidSetAddOne(target.tids, &tid);
		else
			GjEntrySetAddRow(target.entries, info, row);
	}
	stats->tids += hits->nrows;
}

/*
 * Forget what was found
 */
void
GjTailHitsForget(GjTailHits *hits)
{
	if (hits->rows != NULL)
		pfree(hits->rows);
	hits->rows = NULL;
	hits->nrows = 0;
}
