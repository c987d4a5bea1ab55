/*-------------------------------------------------------------------------
 *
 * visible.c
 *	  The visibility map, for many TIDs in any order; and the proof that an entry on an
 *	  all-visible page is a row ("Entries" below).
 *
 * A page of the map covers about 256 MB of the heap.  Entries come in the order of their keys, and
 * so from all parts of the heap: looking up the map's page for each entry would take longer than
 * all other work on the entry.  So a page is copied when it is first used, and testing a TID is an
 * array access: a million take a millisecond or two.  The copies of all pages are contiguous, so
 * that a block's number gives the position of its bits.  They take 1/32768 of the heap's size; if
 * that exceeds the limit, or TIDs are few, pages are pinned, a few at a time.
 *
 * Usually the whole heap is all-visible, except perhaps for its end.  Then the highest TID of a set
 * decides for all of its entries.
 *
 * The map is read without a lock, as PostgreSQL's index-only scans read it.  "Entries" below says
 * when it may be read, and how old a copy may be.  Nothing is pinned between calls.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xact.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/buffers.h"
#include "base/step.h"
#include "base/tid.h"
#include "sets/sets.h"
#include "search.h"

/* The format of the visibility map, which is private to visibilitymap.c */
#define BYTES_PER_PAGE			(BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define BLOCKS_PER_BYTE			(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define BLOCKS_PER_PAGE			((BlockNumber) (BYTES_PER_PAGE * BLOCKS_PER_BYTE))

StaticAssertDecl(BITS_PER_HEAPBLOCK == 2 && VISIBILITYMAP_ALL_VISIBLE == 1,
				 "the visibility map has another format");

/* The bits of a byte that are set if its blocks are all-visible */
#define ALL_VISIBLE_BITS		0x55

/* Maximum distance of blocks that are close together */
#define MAX_TOGETHER			4096

/* Up to this many pages, all are copied at once */
#define FEW_PAGES				8

/* Minimum number of TIDs for which pages are copied; copying takes as long as to test this many */
#define MIN_COPY_TIDS			256

/* Number of pages that are pinned at a time; a page's number gives its position */
#define PINNED_PAGES			8

struct GjVisibleMap
{
	MemoryContext context;
	Relation	heap;
	Size		limit;

	/* Copies of pages; bytes is NULL if none have been made */
	uint8	   *bytes;
	bool	   *copied;
	BlockNumber npages;
	BlockNumber ncopied;
	uint64		nvisible;		/* number of leading blocks that are all-visible; 0 until all pages
								 * have been copied */
	bool		too_large;		/* copies would exceed the limit */
	uint64		npinned;		/* number of TIDs that have been tested by pinned pages */
	uint64		nreads;			/* number of times that pages have been read */
};

/* Pinned pages; bytes is NULL where no page is pinned */
typedef struct Pins
{
	Relation	heap;
	BlockNumber pages[PINNED_PAGES];
	Buffer		buffers[PINNED_PAGES];
	const uint8 *bytes[PINNED_PAGES];
} Pins;

static bool reserve_copies(GjVisibleMap *map);
static bool are_visible_first(const GjVisibleMap *map, const uint64 *tids, int n);
static bool are_visible_together(GjVisibleMap *map, const uint64 *tids, int n);
static void copy_pages(GjVisibleMap *map, const uint64 *tids, int n);
static void copy_map_page(GjVisibleMap *map, BlockNumber page);
static void count_visible(GjVisibleMap *map);
static int	sort_by_copies(const GjVisibleMap *map, const uint64 *tids, int n, uint16 *rows,
						   uint64 *rest, int *nrest);
static int	sort_by_pins(Relation heap, const uint64 *tids, int n, uint16 *rows, uint64 *rest,
						 int *nrest);
static void begin_pins(Pins *pins, Relation heap);
static bool is_visible(Pins *pins, BlockNumber block);
static bool pin(Pins *pins, BlockNumber page);
static void end_pins(Pins *pins);

/*
 * Return true if a block is all-visible; it is counted from the first one of the bytes
 */
static inline bool
is_set(const uint8 *bytes, uint64 block)
{
	return (bytes[block / BLOCKS_PER_BYTE] >> block % BLOCKS_PER_BYTE * BITS_PER_HEAPBLOCK &
			VISIBILITYMAP_ALL_VISIBLE) != 0;
}

/*
 * Create a map; copies of its pages take up to "limit" bytes
 */
GjVisibleMap *
GjVisibleMapCreate(MemoryContext context, Relation heap, Size limit)
{
	GjVisibleMap *map = MemoryContextAllocZero(context, sizeof(GjVisibleMap));

	map->context = context;
	map->heap = heap;
	map->limit = limit;
	return map;
}

/*
 * Divide TIDs into those on all-visible blocks, whose positions are stored in rows[], and the
 * others, which are stored in rest[].  Returns the number of the former.  No TID is above
 * "highest". Each page of the map is read now, or was read after the last GjVisibleMapForget().
 */
int
GjVisibleMapSort(GjVisibleMap *map, const uint64 *tids, int n, uint64 highest, uint16 *rows,
				 uint64 *rest, int *nrest)
{
	if ((map->bytes == NULL && map->npinned + n < MIN_COPY_TIDS) || !reserve_copies(map))
	{
		map->npinned += n;
		map->nreads++;
		return sort_by_pins(map->heap, tids, n, rows, rest, nrest);
	}
	if (GjPackedBlock(highest) < map->nvisible || are_visible_first(map, tids, n) ||
		are_visible_together(map, tids, n))
	{
		for (int i = 0; i < n; i++)
			rows[i] = i;
		*nrest = 0;
		return n;
	}
	if (map->ncopied < map->npages)
		copy_pages(map, tids, n);
	return sort_by_copies(map, tids, n, rows, rest, nrest);
}

/*
 * Forget the copies.  Entries must be tested by pages that are read after the entries were found.
 */
void
GjVisibleMapForget(GjVisibleMap *map)
{
	if (map->bytes != NULL)
	{
		pfree(map->bytes);
		pfree(map->copied);
	}
	map->bytes = NULL;
	map->nvisible = 0;
	map->npinned = 0;
	map->too_large = false;
}

/*
 * Copy all pages now.  Sets the number of leading blocks, a multiple of four, that are all-visible,
 * and the bytes of the map for the blocks after them, without trailing zeroes.  Returns false if
 * the limit is too low.
 */
bool
GjVisibleMapCopy(GjVisibleMap *map, uint64 *visible_below, const uint8 **bytes, uint64 *nbytes)
{
	uint64		end;

	if (!reserve_copies(map))
		return false;
	for (BlockNumber page = 0; page < map->npages; page++)
	{
		if (!map->copied[page])
			copy_map_page(map, page);
	}
	*visible_below = map->nvisible / BLOCKS_PER_BYTE * BLOCKS_PER_BYTE;
	*bytes = map->bytes + *visible_below / BLOCKS_PER_BYTE;
	for (end = (uint64) map->npages * BYTES_PER_PAGE; end > 0 && map->bytes[end - 1] == 0; end--)
		;
	*nbytes = Max(end, *visible_below / BLOCKS_PER_BYTE) - *visible_below / BLOCKS_PER_BYTE;
	return true;
}

/*
 * Return how often pages have been read
 */
uint64
GjVisibleMapReads(const GjVisibleMap *map)
{
	return map->nreads;
}

/* Copies -------------------------------------------------------------------------- */

/*
 * Make room for copies of all pages; returns false if the limit is too low
 */
static bool
reserve_copies(GjVisibleMap *map)
{
	BlockNumber nblocks;

	if (map->bytes != NULL || map->too_large)
		return map->bytes != NULL;

	nblocks = RelationGetNumberOfBlocks(map->heap);
	map->npages = (nblocks + BLOCKS_PER_PAGE - 1) / BLOCKS_PER_PAGE;
	map->ncopied = 0;
	map->nvisible = 0;
	map->too_large = (Size) map->npages * BYTES_PER_PAGE > map->limit;
	if (map->too_large)
		return false;
	map->bytes = MemoryContextAllocHuge(map->context, (Size) map->npages * BYTES_PER_PAGE);
	map->copied = MemoryContextAllocZero(map->context, map->npages * sizeof(bool));
	for (BlockNumber page = 0; page < map->npages && map->npages <= FEW_PAGES; page++)
		copy_map_page(map, page);
	return true;
}

/*
 * Return true if all blocks of these TIDs are before the first one that is not all-visible, even if
 * not all blocks of the set are
 */
static bool
are_visible_first(const GjVisibleMap *map, const uint64 *tids, int n)
{
	uint64		last = 0;

	if (map->nvisible == 0)
		return false;
	(void) GjCheckPackedTids(tids, n, &last);
	return GjPackedBlock(last) < map->nvisible;
}

/*
 * Return true if the blocks of these TIDs are close together, and all blocks there are all-visible.
 * That is the usual case if entries come in heap order.  May return false even if the blocks are
 * all-visible.
 */
static bool
are_visible_together(GjVisibleMap *map, const uint64 *tids, int n)
{
	uint64		differing = 0;
	uint64		first;
	uint64		end;
	BlockNumber page;
	uint8		bits = ALL_VISIBLE_BITS;

	/* test all blocks that have the upper bits in common, even if these are too many */
	for (int i = 1; i < n; i++)
		differing |= tids[i] ^ tids[0];
	differing >>= 16;
	if (differing >= MAX_TOGETHER)
		return false;
	end = pg_nextpower2_64(Max(differing + 1, BLOCKS_PER_BYTE));
	first = GjPackedBlock(tids[0]) & ~(end - 1);
	end += first;
	page = first / BLOCKS_PER_PAGE;
	if (page >= map->npages || page != (end - 1) / BLOCKS_PER_PAGE)
		return false;
	if (!map->copied[page])
		copy_map_page(map, page);
	for (uint64 i = first / BLOCKS_PER_BYTE; i < end / BLOCKS_PER_BYTE; i++)
		bits &= map->bytes[i];
	return bits == ALL_VISIBLE_BITS;
}

/*
 * Copy the pages that these TIDs need
 */
static void
copy_pages(GjVisibleMap *map, const uint64 *tids, int n)
{
	for (int i = 0; i < n; i++)
	{
		BlockNumber page = GjPackedBlock(tids[i]) / BLOCKS_PER_PAGE;

		if (page < map->npages && !map->copied[page])
			copy_map_page(map, page);
	}
}

static void
copy_map_page(GjVisibleMap *map, BlockNumber page)
{
	uint8	   *to = map->bytes + (Size) page * BYTES_PER_PAGE;
	Buffer		buffer = GjBufferReadVisible(map->heap, page, page * BLOCKS_PER_PAGE);

	if (BufferIsValid(buffer))
	{
		memcpy(to, PageGetContents(BufferGetPage(buffer)), BYTES_PER_PAGE);
		ReleaseBuffer(buffer);
	}
	else
		memset(to, 0, BYTES_PER_PAGE);
	map->nreads++;
	map->copied[page] = true;
	if (++map->ncopied == map->npages)
		count_visible(map);
}

static void
count_visible(GjVisibleMap *map)
{
	Size		nbytes = (Size) map->npages * BYTES_PER_PAGE;
	Size		at = 0;
	uint64		all;
	uint64		bits;

	StaticAssertStmt(BYTES_PER_PAGE % sizeof(uint64) == 0, "a page of the map is whole words");
	memset(&all, ALL_VISIBLE_BITS, sizeof(all));
	for (; at < nbytes; at += sizeof(uint64))
	{
		memcpy(&bits, map->bytes + at, sizeof(bits));
		if ((bits & all) != all)
			break;
	}
	/* The heap may end within a byte */
	map->nvisible = (uint64) at * BLOCKS_PER_BYTE;
	while (map->nvisible < (uint64) nbytes * BLOCKS_PER_BYTE &&
		   is_set(map->bytes, map->nvisible))
		map->nvisible++;
}

static int
sort_by_copies(const GjVisibleMap *map, const uint64 *tids, int n, uint16 *rows, uint64 *rest,
			   int *nrest)
{
	const uint8 *bytes = map->bytes;
	const uint64 nblocks = (uint64) map->npages * BLOCKS_PER_PAGE;
	int			nrows = 0;
	int			nothers = 0;

	for (int i = 0; i < n; i++)
	{
		uint64		block = GjPackedBlock(tids[i]);
		bool		visible = block < nblocks && is_set(bytes, block);

		rows[nrows] = i;
		nrows += visible;
		rest[nothers] = tids[i];
		nothers += !visible;
	}
	*nrest = nothers;
	return nrows;
}

/* Pins ---------------------------------------------------------------------------- */

static int
sort_by_pins(Relation heap, const uint64 *tids, int n, uint16 *rows, uint64 *rest, int *nrest)
{
	int			nrows = 0;
	int			nothers = 0;
	Pins		pins;

	begin_pins(&pins, heap);
	for (int i = 0; i < n; i++)
	{
		if (is_visible(&pins, GjPackedBlock(tids[i])))
			rows[nrows++] = i;
		else
			rest[nothers++] = tids[i];
	}
	end_pins(&pins);
	*nrest = nothers;
	return nrows;
}

/*
 * Test whether each of a few TIDs is on an all-visible block; returns the number of those that are
 */
int
GjVisibleMapTest(Relation heap, const uint64 *tids, int n, bool *visible)
{
	int			nvisible = 0;
	Pins		pins;

	begin_pins(&pins, heap);
	for (int i = 0; i < n; i++)
	{
		visible[i] = is_visible(&pins, GjPackedBlock(tids[i]));
		nvisible += visible[i];
	}
	end_pins(&pins);
	return nvisible;
}

static void
begin_pins(Pins *pins, Relation heap)
{
	pins->heap = heap;
	for (int i = 0; i < PINNED_PAGES; i++)
	{
		pins->buffers[i] = InvalidBuffer;
		pins->bytes[i] = NULL;
	}
}

static inline bool
is_visible(Pins *pins, BlockNumber block)
{
	BlockNumber page = block / BLOCKS_PER_PAGE;
	BlockNumber at = block % BLOCKS_PER_PAGE;
	int			place = page % PINNED_PAGES;

	if ((pins->bytes[place] == NULL || pins->pages[place] != page) && !pin(pins, page))
		return false;
	return is_set(pins->bytes[place], at);
}

/*
 * Pin a page in the place of another one.  Returns false if it does not exist, so that its blocks
 * are not all-visible.
 */
static bool
pin(Pins *pins, BlockNumber page)
{
	int			place = page % PINNED_PAGES;
	Buffer	   *buffer = &pins->buffers[place];

	if (BufferIsValid(*buffer))
		ReleaseBuffer(*buffer);
	*buffer = GjBufferReadVisible(pins->heap, page, page * BLOCKS_PER_PAGE);
	pins->pages[place] = page;
	pins->bytes[place] = BufferIsValid(*buffer) ?
		(const uint8 *) PageGetContents(BufferGetPage(*buffer)) : NULL;
	return pins->bytes[place] != NULL;
}

static void
end_pins(Pins *pins)
{
	for (int i = 0; i < PINNED_PAGES; i++)
	{
		if (BufferIsValid(pins->buffers[i]))
			ReleaseBuffer(pins->buffers[i]);
	}
}

/*-------------------------------------------------------------------------
 * Entries
 *
 * Decide which entries are rows without a visit to the heap, by the visibility map and the vacuum
 * epoch.
 *
 * An entry shows that some tuple was inserted at some time.  Only the heap knows whether a
 * snapshot sees the tuple, but the visibility map knows pages on which all tuples are visible to
 * all snapshots.  After a search that holds nothing has read an entry, and before it reads the
 * map, the tuple may be removed, its line pointer reused, and the map set for the new tuple.
 * PostgreSQL's index-only scans keep a pin on the index page, for which VACUUM waits.  Ours keep
 * nothing; instead they notice that VACUUM has run:
 *
 *	  1. read the vacuum epoch in the index's metapage: E
 *	  2. match (GjEntriesOpen() does 1 and begins 2, GjEntriesNext() continues it)
 *	  3. a chunk of entries at a time: read the visibility map for their blocks
 *	  4. read the epoch again, under the metapage's share lock (GjEntriesAreCurrent).  If it is
 *		 still E, the chunk's entries on all-visible blocks are rows; if it is not, this chunk and
 *		 all later ones are fetched from the heap.
 *
 * Claim: an entry (T, values) on a block that is all-visible according to the map, read at 3, with
 * E at 1 and at 4, represents exactly one visible row, whose key and INCLUDE columns are these
 * values, and no other entry of the set represents it.
 *
 * a. T still is the same line pointer as when the entry was made: lemma L5 of src/README, with 1
 *	  and 4 as the two moments.
 * b. At 3 T leads to a tuple that is visible to all snapshots.  The map's bit is set only if
 *	  the page has no dead line pointer and all tuples are visible to every snapshot, including
 *	  ours, which is registered and holds the horizon back.  (A query that sets it has a horizon of
 *	  its own, which like that of VACUUM never passes a registered snapshot.  When it prunes the
 *	  page, a root that has entries becomes a dead line pointer; it does not become free.)  A
 *	  process that changes the page clears the bit before it does anything else.  By (a) T is
 *	  neither unused nor a heap-only tuple of another chain; so it is a tuple, or redirects to one,
 *	  that our snapshot sees.  That remains true, as a snapshot does not change.
 * c. This tuple has the entry's values, as a member of the HOT chain that the entry was made for
 *	  (lemma L4).  A chain that was broken before the index was built has a dead member, or one that
 *	  is not visible to all snapshots, and is on an all-visible page only once the member with the
 *	  indexed values is the only one left.
 * d. Each TID once.  By (a) two entries with T that pass are of the same tuple, and so are one
 *	  entry, found on a tail page and at the place to which it moved; the match drops one of them.
 *	  (Two entries of different rows may be in a set: then the epoch has moved, and neither passes.)
 *	  If an entry with T passes, and another one, found later, does not, because the epoch has
 *	  moved: T still is the row that passed, as our snapshot sees it, so VACUUM cannot have made T
 *	  free; hence they are one entry again.  Entries that do not pass are fetched as sets of TIDs.
 *	  If there are several sets, and two of them have T, the entries are of rows that our snapshot
 *	  does not see, or they would be one entry, too.  None of the sets is lossy: it would contain
 *	  rows that passed.  If entries of some keys are found later than those of others, lemma
 *	  L7 says the same of two entries with T that have different keys.
 * e. No row is missing: all entries that do not pass are fetched from the heap.
 *
 * The order in memory: a process that inserts a tuple clears the bit first and adds the entry
 * later, under the page lock under which 2 reads it.  A process that deletes a tuple clears the bit
 * before the commit, and our snapshot knows of the deletion only after that; so 3 sees the bit
 * cleared.
 *
 * VACUUM may set the bit, and from PostgreSQL 19 on any query that prunes the page, ours too
 * (GjPrune).  If T was freed after 1, the following happened in this order, each step before the
 * next by the lock on the heap page: VACUUM, which had raised the epoch, made T free under an
 * exclusive lock; perhaps another process reused T under such a lock; and a process set the bit
 * while it held one (a query: a cleanup lock).  So whoever set it, the epoch had been raised
 * before, and if 3 sees the bit set, 4, after the barrier of taking a lock, sees the epoch raised.
 * A query may also set the bit while VACUUM has freed nothing: a. holds then, and b. asks only
 * which tuples the page has.
 *
 * With a mirror whose epoch is E, the same argument holds by lemma L6: an entry of a copy counts as
 * found after 1.  If the mirror has another epoch, the device's answer is used as TIDs for the heap
 * (GjMatchStats.outdated).
 *
 * In a parallel plan (divide.c) the first process does 1 and gives E to the others before they
 * begin.  2 is done by it, or by all together, or by each process for some of the keys; 3 and 4 by
 * each process for the chunks that it takes.  So for each chunk the steps are taken in this order.
 *
 * 3 may read a copy of the map's page, if the copy was made after 2 had found the chunk's entries,
 * for an earlier chunk, say.  The time of copying is the one that counts, in a. and b. as in the
 * order in memory, and 4 follows it.  So 4 need not be repeated for a chunk that was tested by
 * copies after which it has been done: the bits of entries that had been found before remain
 * true, as in b., whatever VACUUM does now.  Entries that are found later need another copy: a
 * process could have cleared the bit and inserted the entry in between.
 *
 * 3 does not test each entry if all copies together show that each block up to the highest one of
 * a set of entries is all-visible; a set keeps the highest TID that was added to it
 * (sets/entryset.c).
 *
 * Reading the map before and after the match could not replace the epoch: both readings miss an
 * aborted insertion that is pruned and vacuumed away before the page is set all-visible again.
 *
 * On a standby: replay makes the primary's changes one after another, in the order in which they
 * were logged, which is the order described above; all pages of a record of ours stay locked until
 * it has been replayed.  So a., c. and the order in memory hold unchanged, with replay in place of
 * the processes of the primary.  These points differ:
 *
 * f. The snapshots of a standby do not hold the primary's horizon back.  The record that sets a
 *	  bit of the map contains the newest transaction that inserted a tuple of the page, and before
 *	  replay sets the bit, it waits until no snapshot is left that might not see that transaction:
 *	  it cancels such queries and then waits for their end.  Snapshots taken later see it.  No
 *	  transaction is named if all tuples are frozen: frozen tuples are visible to every snapshot, in
 *	  the heap, too.  Up to PostgreSQL 18 that is a record of its own, written by VACUUM; from 19 on
 *	  it is the record that prunes or freezes the page, written by VACUUM or by a query, and it
 *	  names the newest of the transactions that any of its changes needs.  No other record sets
 *	  bits: an image of a page of the map has, apart from its own record's, only bits that earlier
 *	  records have set.  Queries of the standby itself set none, as they cannot write.  (Images of
 *	  heap pages have the page's flag before its record comes, so rows/heap.c does not rely on it.)
 *	  So b. holds.  Likewise the records that prune and freeze wait for the snapshots that see the
 *	  removed tuples, long before the entries are removed: hence d. and e.
 * g. A bit that the primary cleared with a change of the page is cleared by that change's record,
 *	  before replay reads the page, and whether the page needs the change or not.  (From 19 on the
 *	  record has the map's page, too, whose LSN tells whether that has been done.)  After a restart
 *	  of replay, no query runs before replay has reached the newest state on disk; until then a bit
 *	  can be lost, but none can be left set: either the clearing is replayed again, or it was on
 *	  disk with the checkpoint.
 * h. On the primary VACUUM skips an index only if no session uses it any longer: DROP INDEX
 *	  CONCURRENTLY and REINDEX CONCURRENTLY wait for that before they mark it not ready.  They do
 *	  not wait for a standby's sessions; and if they are interrupted after that, VACUUM frees line
 *	  pointers of which the index still has entries, without calling us.  Under a snapshot taken
 *	  during recovery, 4 therefore also tests whether the index is still ready.  The record that
 *	  marked it not ready was replayed, and its invalidation sent, before VACUUM began.
 *
 * A snapshot that outlives the promotion of its standby changes nothing: it then holds the horizon
 * back like all others.
 *
 * Not in serializable transactions: all rows are read from the heap.  Reading a tuple must leave a
 * predicate lock in one step with testing its visibility, under the lock on its page; a process
 * that deletes a tuple tests for such locks under that lock, before the map's bit is cleared.
 * Without the page lock, a deletion might happen in between, and neither process would notice the
 * other.
 *
 * Nothing is held between calls: no pin, no lock.
 *-------------------------------------------------------------------------
 */

/*
 * Return true if entries may be rows under this snapshot
 */
bool
GjEntriesMayBeRows(Snapshot snapshot)
{
	return !IsolationIsSerializable() && IsMVCCSnapshot(snapshot);
}

/*
 * Step 4: return true if VACUUM has not removed entries since the vacuum epoch was read, which was
 * before any entry was found.  Must be called after the visibility map has been read.
 *
 * On a standby VACUUM can also skip an index that is no longer ready.  We look at the relation
 * cache after locking the metapage: then it has processed all changes that were replayed before the
 * map was read.
 */
bool
GjIndexIsCurrent(Relation index, Snapshot snapshot, uint64 epoch)
{
	GjIndexCounters now;

	if (GjEpochIsIgnored())
		return true;
	GjIndexGetCounters(index, &now);
	if (now.vacuum_epoch != epoch)
		return false;
	if (!snapshot->takenDuringRecovery)
		return true;
	AcceptInvalidationMessages();
	return index->rd_index->indisready;
}
