/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  Deleting the entries of dead tuples.
 *
 * Every entry that was in the index when the deletion began must be shown to the callback: lemma
 * L5 of src/README, which index-only answers rely on, and VACUUM itself require that no entry
 * points to a line pointer that becomes free.  The order is that of lemma L2: the tail pages, then
 * the state of the metapage and the number of blocks, then the data pages below that number, of
 * the runs and deltas that the state lists, in both parts of the index.  The list version need not
 * be compared, because only one deletion or fold runs at a time: a deletion waits for the fold
 * lock (am.h), and holds it from before it reads the tails until it has raised the epoch.  Entries
 * added later belong to tuples inserted later, which this VACUUM does not remove.  Because flushes
 * wait meanwhile, the deletion does not sleep, as the limits of VACUUM's cost demand, until it has
 * released the lock.
 *
 * Pages are read in file order.  Pages of dead runs are skipped, and so are those of a run that a
 * fold has left unfinished: its entries are elsewhere, too.  The pages of a merge in steps are
 * visited like the listed ones, before the epoch is raised: its entries are elsewhere, too, but the
 * merge continues, and lists these pages in the end.  A page that is reused after we have passed it
 * only receives rows that we have seen on a tail, or newer ones.
 *
 * Only a deletion removes entries from a live page.  So a slot that was in use under a share lock
 * still holds the same entry when the page is locked exclusively, and the callback runs without
 * any lock.
 *
 * The callback is called for the entries of many pages at a time, in the order of their TIDs.
 * VACUUM's callback searches the TIDs of all dead tuples.  If these are millions, nearly each
 * search in another order misses the processor's caches: it takes 280 ns instead of 30.  So pages
 * that have dead entries are read twice.  A batch is a small part of the index: it need only be so
 * large that several of its entries point to each heap page, and 16 MB of fresh memory cost more
 * page faults than searches save where the index has a million entries.
 *
 * Freed slots stay free, except on a page that a lane still fills; a fold drops them.  Free pages
 * are entered in the free space map, which is a hint: a backend that takes a page from it checks
 * again, with the page locked.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/radix.h"
#include "base/step.h"
#include "base/tid.h"
#include "am.h"
#include "fold.h"

/* Maximum number of slots whose entries are judged at a time */
#define POSITION_BITS			20
#define BATCH_SLOTS				((uint64) 1 << POSITION_BITS)

/* Batches of an index have these slots at least, and are that part of its possible slots */
#define BATCH_MIN_SLOTS			((uint64) 32768)
#define BATCH_PART				64

/* Bits of an offset in a heap page, counted from 0 */
#define OFFSET_BITS				11

StaticAssertDecl(MaxHeapTuplesPerPage <= 1 << OFFSET_BITS, "offsets do not fit");
StaticAssertDecl(POSITION_BITS + OFFSET_BITS + 32 < 64, "positions do not fit");

/* Pages of a batch */
typedef struct BatchPage
{
	BlockNumber block;
	GjPageOwner owner;
	int			used;			/* number of entries */
	int			words;			/* of its slots */
	uint64		first;			/* number of its first slot in the batch */
} BatchPage;

typedef struct GjVacuumState
{
	IndexVacuumInfo *vacuum;
	GjIndexInfo info;
	GjIndexState now;			/* state after the tails were read */
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;

	/* the batch */
	BatchPage  *pages;
	uint64		npages;
	uint64		most_pages;
	uint64		nslots;			/* of these pages */
	uint64		most_slots;
	uint64	   *entries;		/* of the pages: block, offset, and slot number in the batch */
	uint64	   *scratch;
	uint64		nentries;
	uint32	   *dead;			/* a bit for each slot of each page */
} GjVacuumState;

static void clean_tail(GjVacuumState *state, BlockNumber block);
static void batch_begin(GjVacuumState *state, BlockNumber npages);
static void batch_end(GjVacuumState *state);
static void add_page(GjVacuumState *state, BlockNumber block);
static void add_entries(GjVacuumState *state, Page page, BatchPage *to);
static void clean_batch(GjVacuumState *state);
static void find_dead(GjVacuumState *state);
static void clean_page(GjVacuumState *state, const BatchPage *page);
static void check_tid(const GjVacuumState *state, BlockNumber block, uint64 tid);

/*
 * Delete the entries whose TIDs the callback reports as dead
 */
IndexBulkDeleteResult *
gjbulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			 IndexBulkDeleteCallback callback, void *callback_state)
{
	GjVacuumState state;
	BlockNumber nblocks;

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	state.vacuum = info;
	state.stats = stats;
	state.callback = callback;
	state.callback_state = callback_state;
	GjIndexGetInfo(info->index, &state.info);

	/* these counters are per pass, except for the number of removed tuples */
	stats->num_index_tuples = 0;
	stats->pages_newly_deleted = 0;
	stats->pages_free = 0;

	GjFoldLock(info->index);
	for (BlockNumber tail = GJ_FIRST_TAIL_BLOCK; tail < state.info.first_data; tail++)
		clean_tail(&state, tail);
	GjStep("tails cleaned");

	GjIndexGetState(info->index, &state.now);
	nblocks = GjIndexGetLength(info->index);
	batch_begin(&state, nblocks - state.info.first_data);
	for (BlockNumber block = state.info.first_data; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		add_page(&state, block);
		if (state.npages == state.most_pages || state.nslots + GJ_MAX_SLOTS > state.most_slots)
			clean_batch(&state);
	}
	clean_batch(&state);
	batch_end(&state);

	GjStep("cleaned");
	/* do this before the caller can free the dead tuples' line pointers: match/visible.c */
	GjEpochRaise(info->index);
	GjFoldUnlock(info->index, ExclusiveLock);
	GjVacuumSleep();

	stats->num_pages = nblocks;
	return stats;
}

/*
 * Make the pauses that the cost of VACUUM's work demands, after work under the fold lock, during
 * which it did not sleep: vacuum_delay_point() sleeps for a part of a large cost only
 */
void
GjVacuumSleep(void)
{
	int			cost = VacuumCostBalance;

	while (VacuumCostActive && cost > 0)
	{
		VacuumCostBalance = Min(cost, Max(GjVacuumCostLimit, 1));
		cost -= VacuumCostBalance;
		GjVacuumDelayPoint();
	}
}

/*
 * Finish a VACUUM or an ANALYZE: fold if it is worthwhile and no other process does
 *
 * A manual ANALYZE should compute statistics and nothing else; autovacuum has the time, and it
 * rarely vacuums a table that only grows.
 */
IndexBulkDeleteResult *
gjvacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	GjFoldStats fold;

	if (info->analyze_only && MyBackendType != B_AUTOVAC_WORKER)
		return stats;

	GjFoldIndex(info->index, GJ_FOLD_IF_WORTH_IT, info->strategy, &fold);
	if (fold.folds > 0)
		ereport(info->message_level,
				(errmsg("index \"%s\": folded " UINT64_FORMAT " entries into " UINT64_FORMAT
						" pages", RelationGetRelationName(info->index), fold.entries,
						fold.pages)));

	/* without a deletion, the table's own tuple count is better than ours */
	if (stats == NULL)
		return NULL;
	GjStep("vacuumed");
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	IndexFreeSpaceMapVacuum(info->index);
	return stats;
}

/*
 * Delete from a tail page
 *
 * Here the callback runs under the page lock, because rows may leave a tail at any other time;
 * there are only a few dozen.
 */
static void
clean_tail(GjVacuumState *state, BlockNumber block)
{
	Relation	index = state->vacuum->index;
	Buffer		tail = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL,
										  state->vacuum->strategy);
	Page		page = BufferGetPage(tail);
	uint32		dead[GJ_MAX_WORDS] = {0};
	int			ndead = 0;
	int			nrows;

	LockBuffer(tail, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, tail, GJ_PAGE_TAIL);
	nrows = GjPageGetOpaque(page)->used;
	for (int row = 0; row < nrows; row++)
	{
		ItemPointerData tid;

		(void) GjTailGetRow(page, &state->info, row, &tid);
		check_tid(state, block, GjPackTid(&tid));
		if (state->callback(&tid, state->callback_state))
		{
			dead[row / GJ_SLOTS_PER_WORD] |= (uint32) 1 << (row % GJ_SLOTS_PER_WORD);
			ndead++;
		}
	}
	if (ndead > 0)
		GjTailDelete(index, &state->info, tail, dead);
	UnlockReleaseBuffer(tail);

	state->stats->tuples_removed += ndead;
	state->stats->num_index_tuples += nrows - ndead;
}

/*
 * Make room for a batch: in the memory that VACUUM may use, 16 MB at most
 */
static void
batch_begin(GjVacuumState *state, BlockNumber npages)
{
	Size		bytes_per_word = sizeof(BatchPage) + sizeof(uint32) +
		2 * GJ_SLOTS_PER_WORD * sizeof(uint64);
	uint64		all = (uint64) npages * GJ_MAX_SLOTS;
	uint64		most = Min(Max(all / BATCH_PART, Min(all, BATCH_MIN_SLOTS)), BATCH_SLOTS);

	/* a page has a word at least */
	most = Min(most, GjVacuumMemory() / bytes_per_word * GJ_SLOTS_PER_WORD);
	state->most_slots = Max(most, GJ_MAX_SLOTS);
	state->most_pages = GjStepsAreShort() ? 2 : state->most_slots / GJ_SLOTS_PER_WORD;
	state->pages = palloc(state->most_pages * sizeof(BatchPage));
	state->entries = palloc(state->most_slots * sizeof(uint64));
	state->scratch = palloc(state->most_slots * sizeof(uint64));
	/* a page that is read again may be damaged, and then have more slots */
	state->dead = palloc0((state->most_slots + GJ_MAX_SLOTS) / GJ_SLOTS_PER_WORD * sizeof(uint32));
	state->npages = state->nslots = state->nentries = 0;
}

static void
batch_end(GjVacuumState *state)
{
	pfree(state->pages);
	pfree(state->entries);
	pfree(state->scratch);
	pfree(state->dead);
}

/*
 * Add a page of any kind to the batch, if it may have dead entries
 */
static void
add_page(GjVacuumState *state, BlockNumber block)
{
	Relation	index = state->vacuum->index;
	Buffer		buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL,
											state->vacuum->strategy);
	Page		page = BufferGetPage(buffer);
	GjPageKind	kind = 0;
	GjPageOwner owner;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(page))
		kind = GjPageCheckKind(index, buffer);
	owner = GjPageGetOwner(&state->now, page);
	if (owner != GJ_OWNER_NOBODY && owner != GJ_OWNER_FOLD && kind == GJ_PAGE_DATA)
	{
		BatchPage  *to = &state->pages[state->npages];

		*to = (BatchPage) {.block = block,.owner = owner,.used = GjPageGetOpaque(page)->used};
		add_entries(state, page, to);
		state->npages++;
	}
	UnlockReleaseBuffer(buffer);

	if (owner == GJ_OWNER_NOBODY)
	{
		RecordFreeIndexPage(index, block);
		GjStep("freed");
		state->stats->pages_free++;
	}
}

/*
 * Add the entries of a page to the batch
 */
static void
add_entries(GjVacuumState *state, Page page, BatchPage *to)
{
	uint16		slots[GJ_MAX_SLOTS];
	int			n;

	GjNarrowDemand(state->vacuum->index, to->block, page, &state->info);
	to->words = GjDataWords(page, &state->info);
	to->first = state->nslots;
	state->nslots += GjDataSlots(page, &state->info);
	n = GjDataListUsed(page, &state->info, slots);
	for (int i = 0; i < n; i++)
	{
		uint64		tid = GjDataGetTid(page, &state->info, slots[i]);

		check_tid(state, to->block, tid);
		state->entries[state->nentries++] =
			((tid >> 16 << OFFSET_BITS) | (GjPackedOffset(tid) - 1)) << POSITION_BITS |
			(to->first + slots[i]);
	}
}

/*
 * Delete the dead entries of the batch, and empty it
 */
static void
clean_batch(GjVacuumState *state)
{
	find_dead(state);
	GjStep("judged");
	for (uint64 i = 0; i < state->npages; i++)
	{
		CHECK_FOR_INTERRUPTS();
		clean_page(state, &state->pages[i]);
	}
	memset(state->dead, 0, state->nslots / GJ_SLOTS_PER_WORD * sizeof(uint32));
	state->npages = state->nslots = state->nentries = 0;
}

/*
 * Find the dead entries of the batch
 */
static void
find_dead(GjVacuumState *state)
{
	uint64	   *sorted = radix_sort_above(state->entries, state->scratch, state->nentries,
										  POSITION_BITS);

	for (uint64 i = 0; i < state->nentries; i++)
	{
		uint64		position = sorted[i] % BATCH_SLOTS;
		uint64		number = sorted[i] >> POSITION_BITS;
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		ItemPointerSet(&tid, number >> OFFSET_BITS, number % (1 << OFFSET_BITS) + 1);
		if (state->callback(&tid, state->callback_state))
			state->dead[position / GJ_SLOTS_PER_WORD] |= GjSlotBit(position);
	}
}

/*
 * Delete from a data page.  Entries on pages that a merge has written are in its sources, too,
 * which the statistics count.
 */
static void
clean_page(GjVacuumState *state, const BatchPage *page)
{
	Relation	index = state->vacuum->index;
	const uint32 *dead = state->dead + page->first / GJ_SLOTS_PER_WORD;
	int			ndead = 0;

	for (int word = 0; word < page->words; word++)
		ndead += pg_popcount32(dead[word]);
	if (ndead > 0)
	{
		Buffer		buffer = ReadBufferExtended(index, MAIN_FORKNUM, page->block, RBM_NORMAL,
												state->vacuum->strategy);

		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		if (page->owner == GJ_OWNER_MERGE)
			GjMergeDelete(index, &state->info, buffer, dead);
		else
			GjDataDelete(index, &state->info, buffer, dead);
		UnlockReleaseBuffer(buffer);
	}
	if (page->owner == GJ_OWNER_MERGE)
		return;
	state->stats->tuples_removed += ndead;
	state->stats->num_index_tuples += page->used - ndead;
}

/*
 * Check a TID: the callback must not be called for those that no heap can have
 */
static void
check_tid(const GjVacuumState *state, BlockNumber block, uint64 tid)
{
	if (!GjPackedIsPossible(tid))
		GjReportCorruption(state->vacuum->index, block, "An entry has an impossible TID.");
}
