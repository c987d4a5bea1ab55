/*-------------------------------------------------------------------------
 *
 * visible.c
 *	  The candidates of one heap block that a snapshot sees.
 *
 * On a page that is marked all-visible, every tuple is visible to every snapshot,
 * so that none need be tested.  That is the page's own flag, read under the page's
 * lock, and the rule by which PostgreSQL's sequential scans go; as there, it is not
 * trusted under a snapshot that was taken during recovery.  A TID whose line pointer
 * was used again since the match is no exception: had the row that took the place
 * been inserted after the snapshot was taken, the snapshot would have kept the page
 * from being marked.
 *
 * A serializable transaction must look at each tuple and lock it, all-visible or
 * not; core's functions do that.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/rel.h"

#include "base/prefetch.h"
#include "visible.h"

/* Where the line pointers of most pages are, page header included */
#define POINTER_BYTES			512

static int	collect_chains(Relation heap, Buffer buffer, Snapshot snapshot,
						   const GjTidBlock *tids, HeapTuple tuples);
static int	collect_roots(Relation heap, Page page, const GjTidBlock *tids, HeapTuple tuples);
static int	collect_whole_block(Relation heap, Buffer buffer, Snapshot snapshot,
								BlockNumber block, bool all_visible, HeapTuple tuples);
static bool is_visible(Relation heap, Buffer buffer, Snapshot snapshot, HeapTuple tuple);

static inline void
fill_tuple(HeapTuple tuple, Oid relid, Page page, ItemId item, BlockNumber block,
		   OffsetNumber offset)
{
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	tuple->t_tableOid = relid;
	ItemPointerSet(&tuple->t_self, block, offset);
}

/*
 * Find the visible tuples among the candidates of a block
 */
int
GjCollectVisible(Relation heap, Buffer buffer, Snapshot snapshot, const GjTidBlock *tids,
				 HeapTuple tuples)
{
	Page		page = BufferGetPage(buffer);
	bool		all_visible;
	int			n;

	heap_page_prune_opt(heap, buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery &&
		!CheckForSerializableConflictOutNeeded(heap, snapshot);
	if (tids->lossy)
		n = collect_whole_block(heap, buffer, snapshot, tids->block, all_visible, tuples);
	else if (all_visible)
		n = collect_roots(heap, page, tids, tuples);
	else
		n = collect_chains(heap, buffer, snapshot, tids, tuples);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return n;
}

/*
 * Of each chain whose root is a candidate, take the member that is visible
 *
 * heap_hot_search_buffer() takes the predicate locks.  Chains share no member, so
 * the tuples are no more than a page has.
 */
static int
collect_chains(Relation heap, Buffer buffer, Snapshot snapshot, const GjTidBlock *tids,
			   HeapTuple tuples)
{
	int			n = 0;

	for (int i = 0; i < tids->noffsets; i++)
	{
		ItemPointerData tid;

		ItemPointerSet(&tid, tids->block, tids->offsets[i]);
		if (heap_hot_search_buffer(&tid, heap, buffer, snapshot, &tuples[n], NULL, true))
			n++;
	}
	return n;
}

/*
 * Collect the candidates of an all-visible page: there, a chain has a single member.  Its root
 * is that member or redirects to it.
 */
static int
collect_roots(Relation heap, Page page, const GjTidBlock *tids, HeapTuple tuples)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	Oid			relid = RelationGetRelid(heap);
	int			n = 0;

	for (int i = 0; i < tids->noffsets; i++)
	{
		OffsetNumber offset = tids->offsets[i];
		HeapTuple	tuple = &tuples[n];
		bool		redirected = false;
		ItemId		item;

		if (offset > last)
			break;
		item = PageGetItemId(page, offset);
		if (ItemIdIsRedirected(item))
		{
			redirected = true;
			offset = ItemIdGetRedirect(item);
			if (offset < FirstOffsetNumber || offset > last)
				continue;
			item = PageGetItemId(page, offset);
		}
		if (!ItemIdIsNormal(item))
			continue;

		fill_tuple(tuple, relid, page, item, tids->block, offset);
		if (redirected || !HeapTupleIsHeapOnly(tuple))
			n++;
	}
	return n;
}

/*
 * Take each visible tuple of a block whose offsets are not known.  As all are looked at,
 * chains need not be followed.
 */
static int
collect_whole_block(Relation heap, Buffer buffer, Snapshot snapshot, BlockNumber block,
					bool all_visible, HeapTuple tuples)
{
	Page		page = BufferGetPage(buffer);
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	Oid			relid = RelationGetRelid(heap);
	int			n = 0;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);

		if (!ItemIdIsNormal(item))
			continue;
		fill_tuple(&tuples[n], relid, page, item, block, offset);
		if (all_visible || is_visible(heap, buffer, snapshot, &tuples[n]))
			n++;
	}
	return n;
}

/*
 * Test a tuple, and do what a serializable transaction has to do about it
 */
static bool
is_visible(Relation heap, Buffer buffer, Snapshot snapshot, HeapTuple tuple)
{
	bool		visible = HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);

	if (visible)
		PredicateLockTID(heap, &tuple->t_self, snapshot, HeapTupleHeaderGetXmin(tuple->t_data));
	HeapCheckForSerializableConflictOut(visible, heap, tuple, buffer, snapshot);
	return visible;
}

/*
 * Ask for the page's header and the line pointers of the candidates.  The page
 * may be changed meanwhile: nothing is read.
 */
void
GjPrefetchLinePointers(Buffer buffer, const GjTidBlock *tids)
{
	Page		page = BufferGetPage(buffer);

	GjPrefetch(page);
	for (int i = 0; i < tids->noffsets; i++)
		GjPrefetch(PageGetItemId(page, tids->offsets[i]));
	if (tids->lossy)
		GjPrefetchRange((char *) page + GJ_CACHE_LINE, POINTER_BYTES - GJ_CACHE_LINE);
}

/*
 * Ask for the candidates' tuples, first and last line, as long as they are short.
 * The page may be changed meanwhile, or a line pointer redirect: then other lines
 * come, which does no harm.
 */
void
GjPrefetchTuples(Buffer buffer, const GjTidBlock *tids)
{
	Page		page = BufferGetPage(buffer);

	for (int i = 0; i < tids->noffsets; i++)
	{
		ItemId		item = PageGetItemId(page, tids->offsets[i]);
		char	   *tuple = (char *) page + ItemIdGetOffset(item);

		GjPrefetch(tuple);
		GjPrefetch(tuple + Min(ItemIdGetLength(item), GJ_CACHE_LINE));
	}
}
