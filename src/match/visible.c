/*-------------------------------------------------------------------------
 *
 * visible.c
 *	  The visibility map, asked for many TIDs in any order.
 *
 * A page of the map is about 256 MB of the heap.  Entries come in the order of their keys, and so
 * from all over the heap: to look for the page of each would take longer than all else that is done
 * with an entry.  So a page is copied when it is first asked for, and then a look at the map is a
 * look at an array: a million take a millisecond or two.  The copies of all pages lie one behind
 * the other, so that a block's bits are where its number says.  They take 1/32768 of the heap's
 * size; where that is too much, pages are pinned, a few at a time.
 *
 * Most often all of the heap is all-visible, perhaps but for its end.  Then it is enough to know
 * which TID is the highest one of a set, and nothing is done for an entry.
 *
 * Few TIDs are not worth a copy.
 *
 * The map is read without a lock, as PostgreSQL's index-only scans read it.  When it may be read,
 * and how old a copy may be, is said in visible.c.  Nothing is pinned between calls.
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

#include "base/gpujoin.h"
#include "base/tid.h"
#include "sets/sets.h"
#include "match.h"

/* The format of the visibility map, which visibilitymap.c keeps to itself */
#define BYTES_PER_PAGE			(BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define BLOCKS_PER_BYTE			(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define BLOCKS_PER_PAGE			((BlockNumber) (BYTES_PER_PAGE * BLOCKS_PER_BYTE))

StaticAssertDecl(BITS_PER_HEAPBLOCK == 2 && VISIBILITYMAP_ALL_VISIBLE == 1,
				 "the visibility map has another format");

/* The bits of a byte that say so of its blocks */
#define ALL_VISIBLE_BITS		0x55

/* Blocks that are close together */
#define MAX_TOGETHER			4096

/* So few pages are copied at once */
#define FEW_PAGES				8

/* For so many TIDs at a time pages are copied */
#define MIN_COPY_TIDS			64

/* Pages that are pinned at a time: at the place that their number says */
#define PINNED_PAGES			8

struct GjVisibleMap
{
	MemoryContext context;
	Relation	heap;
	Size		limit;

	/* Pages that are copied; bytes is NULL: there are no copies */
	uint8	   *bytes;
	bool	   *copied;
	BlockNumber npages;
	BlockNumber ncopied;
	uint64		nvisible;		/* the first so many blocks are all-visible; known once all pages
								 * are copied, 0 before */
	bool		too_large;		/* for the limit */
	uint64		nreads;
};

/* Pages that are pinned; bytes is NULL: none is */
typedef struct Pins
{
	Relation	heap;
	BlockNumber pages[PINNED_PAGES];
	Buffer		buffers[PINNED_PAGES];
	const uint8 *bytes[PINNED_PAGES];
} Pins;

static bool make_room(GjVisibleMap *map);
static bool are_visible_first(const GjVisibleMap *map, const uint64 *tids, int n);
static bool are_visible_together(GjVisibleMap *map, const uint64 *tids, int n);
static void copy_pages(GjVisibleMap *map, const uint64 *tids, int n);
static void copy_page(GjVisibleMap *map, BlockNumber page);
static void count_visible(GjVisibleMap *map);
static int	sort_by_copies(const GjVisibleMap *map, const uint64 *tids, int n, uint16 *rows,
						   uint64 *rest, int *nrest);
static int	sort_by_pins(Relation heap, const uint64 *tids, int n, uint16 *rows, uint64 *rest,
						 int *nrest);
static void begin(Pins *pins, Relation heap);
static bool is_visible(Pins *pins, BlockNumber block);
static bool pin(Pins *pins, BlockNumber page);
static void end(Pins *pins);

/*
 * Do bytes of the map say of a block, counted from their first one, that it is all-visible?
 */
static inline bool
is_set(const uint8 *bytes, uint64 block)
{
	return (bytes[block / BLOCKS_PER_BYTE] >> block % BLOCKS_PER_BYTE * BITS_PER_HEAPBLOCK &
			VISIBILITYMAP_ALL_VISIBLE) != 0;
}

GjVisibleMap *
GjVisibleMapCreate(MemoryContext context, Relation heap, Size limit)
{
	GjVisibleMap *map = MemoryContextAllocZero(context, sizeof(GjVisibleMap));

	map->context = context;
	map->heap = heap;
	map->limit = limit;
	return map;
}

int
GjVisibleMapSort(GjVisibleMap *map, const uint64 *tids, int n, uint64 highest, uint16 *rows,
				 uint64 *rest, int *nrest)
{
	if (n < MIN_COPY_TIDS || !make_room(map))
	{
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
	map->too_large = false;
}

uint64
GjVisibleMapReads(const GjVisibleMap *map)
{
	return map->nreads;
}

/* Copies -------------------------------------------------------------------------- */

/*
 * Make room for copies of all pages; false: there is not so much
 */
static bool
make_room(GjVisibleMap *map)
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
		copy_page(map, page);
	return true;
}

/*
 * Where some of the set's blocks at the heap's end are not all-visible, all of these may be
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
 * Where entries do come in heap order, a chunk's are close together, and most often all blocks
 * there are all-visible.  May say no where they are.
 */
static bool
are_visible_together(GjVisibleMap *map, const uint64 *tids, int n)
{
	uint64		differing = 0;
	uint64		first;
	uint64		end;
	BlockNumber page;
	uint8		bits = ALL_VISIBLE_BITS;

	/* blocks that have the upper bits in common, of which there may be more than are asked for */
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
		copy_page(map, page);
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
			copy_page(map, page);
	}
}

static void
copy_page(GjVisibleMap *map, BlockNumber page)
{
	uint8	   *to = map->bytes + (Size) page * BYTES_PER_PAGE;
	Buffer		buffer = InvalidBuffer;

	(void) visibilitymap_get_status(map->heap, page * BLOCKS_PER_PAGE, &buffer);
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

	begin(&pins, heap);
	for (int i = 0; i < n; i++)
	{
		if (is_visible(&pins, GjPackedBlock(tids[i])))
			rows[nrows++] = i;
		else
			rest[nothers++] = tids[i];
	}
	end(&pins);
	*nrest = nothers;
	return nrows;
}

int
GjVisibleMapTest(Relation heap, const uint64 *tids, int n, bool *visible)
{
	int			nvisible = 0;
	Pins		pins;

	begin(&pins, heap);
	for (int i = 0; i < n; i++)
	{
		visible[i] = is_visible(&pins, GjPackedBlock(tids[i]));
		nvisible += visible[i];
	}
	end(&pins);
	return nvisible;
}

static void
begin(Pins *pins, Relation heap)
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
 * Pin a page in the place of another one; false: there is none, and its blocks are not
 * all-visible
 */
static bool
pin(Pins *pins, BlockNumber page)
{
	int			place = page % PINNED_PAGES;
	Buffer	   *buffer = &pins->buffers[place];

	(void) visibilitymap_get_status(pins->heap, page * BLOCKS_PER_PAGE, buffer);
	pins->pages[place] = page;
	pins->bytes[place] = BufferIsValid(*buffer) ?
		(const uint8 *) PageGetContents(BufferGetPage(*buffer)) : NULL;
	return pins->bytes[place] != NULL;
}

static void
end(Pins *pins)
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
 * Which entries are rows, without a look at the heap: the visibility map and the
 * vacuum epoch.
 *
 * An entry says that some tuple was inserted once.  Whether a snapshot sees it, the
 * heap knows; the visibility map knows of pages all of whose tuples everybody sees.
 * A search that holds nothing must fear that between its reading an entry and its
 * reading the map the tuple goes away, the line pointer is used again, and the map is
 * set for the new one.  PostgreSQL's index-only scans keep a pin on the index page,
 * for which VACUUM waits.  Ours keep nothing; they notice that VACUUM was there:
 *
 *	  1. read the vacuum epoch in the index's metapage: E
 *	  2. match (GjEntryMatchBegin does 1 and begins 2, GjEntryMatchNext goes on with it)
 *	  3. a chunk of entries at a time: read the visibility map for their blocks (visible.c)
 *	  4. read the epoch again, under the metapage's share lock.  If it is still E, the
 *		 chunk's entries on all-visible blocks are rows; if it is not, this chunk and
 *		 all that come later go to the heap.
 *
 * Claim: an entry (T, values) on a block that the map, read at 3, calls all-visible,
 * with E at 1 and at 4, stands for exactly one row that the snapshot sees, whose key
 * and INCLUDE columns are these values, and no other entry of the set stands for it.
 *
 * a. T still is what it was when the entry was made: lemma L5 of src/README, with 1 and 4 as the
 *	  two moments.
 * b. At 3 T leads to a tuple that everybody sees.  The map's bit is set only where the
 *	  page has no dead line pointer and all tuples are visible to every snapshot, ours
 *	  included, which is registered and holds the horizon back.  It is cleared, before
 *	  anything else happens, by whoever changes the page.  By (a) T is neither unused nor
 *	  a heap-only tuple of another chain; so it is a tuple, or redirects to one, that our
 *	  snapshot sees.  That is true for good: a snapshot does not change.
 * c. This tuple has the entry's values, as a member of the HOT chain that the entry was made for
 *	  (lemma L4).  A chain that was broken before the index was built has members that are dead or
 *	  not visible to all, and is not on an all-visible page before only the member is left whose
 *	  values were indexed.
 * d. Each TID once.  By (a) two entries with T that pass are of the same tuple, and so are
 *	  one, met on a tail page and where it moved to; the match leaves one of them out.  (Two of
 *	  different rows may be in a set: then the epoch has moved, and neither passes.)  If
 *	  an entry with T passes, and another one, found later, does not, because the epoch has
 *	  moved: T still is the row that passed, as our snapshot sees it, so that VACUUM cannot
 *	  have made T free; hence they are one entry again.  Those that do not pass are fetched
 *	  as sets of TIDs; where there are several of them, two with T in two sets are of rows
 *	  that our snapshot does not see, or they, too, would be one entry.  None of the sets is
 *	  lossy: it would have rows that passed.
 *	  Where entries of some keys are found later than those of others, match/stream.c shows
 *	  the same of two entries with T that have different keys.
 * e. No row is missing: entries that do not pass go to the heap, all of them.
 *
 * The order in memory: who inserts clears the bit first and adds the entry then, under
 * the page lock under which 2 reads it; who deletes clears it before the commit, and our
 * snapshot knows of it only after that; so 3 sees the bit cleared.  Who sets the bit has
 * raised the epoch first; if 3 sees the bit set, 4, behind the barrier of taking a lock,
 * sees the epoch raised.
 *
 * With a mirror whose epoch is E, the same argument holds by lemma L6: an entry of a copy counts as
 * found after 1.  If the mirror has another epoch, the device's answer is used as TIDs for the heap
 * (GjMatchStats.outdated).
 *
 * In a parallel plan (match/divide.c) the process that comes first does 1 and gives E to the
 * others before they begin.  2 is done by it, or by all together, or by each process for some
 * of the keys; 3 and 4 by each process for the chunks that it takes, so that for each chunk
 * they come in this order.
 *
 * 3 may read a copy of the map's page, if the copy was made after 2 had found the chunk's entries,
 * for an earlier chunk, say.  It is the moment of copying that counts, in a. and b. as in the order
 * in memory, and 4 comes after that.  So 4 need not be done again for a chunk that was tested by
 * copies behind which it has been done: what they say of an entry that had been found before is
 * true for good, as in b., whatever VACUUM does now.  What has been found later needs another copy:
 * who inserts might have cleared the bit and added the entry in between.
 *
 * Nor need 3 look at each entry, where all copies together say that each block up to the highest
 * one of a set of entries is all-visible; of what is added to a set its highest TID is kept
 * (sets/entryset.c).
 *
 * Reading the map before and after the match would not do instead of the epoch: an
 * aborted insertion, pruned, vacuumed away, set all-visible again, passes both.
 *
 * On a standby: replay makes the primary's changes one after another, in the order in
 * which they were logged, which is that of what is said above; all pages of a record of
 * ours stay locked until it is done.  So a., c. and the order in memory hold as they
 * stand, with replay in place of the processes of the primary.  What is different:
 *
 * f. The snapshots of a standby do not hold the primary's horizon back.  The record that
 *	  sets a bit of the map has the newest transaction that inserted a tuple of the page, and
 *	  before it sets the bit, replay waits until there is no snapshot left that might not
 *	  see that one: it asks for an end and then waits for it.  Snapshots taken later see it.
 *	  No transaction is named where all tuples are frozen: what is frozen is visible to every
 *	  snapshot, in the heap just so.  No other record sets bits: an image of a page of the map
 *	  has, beside its own record's, only those that earlier records have set.  (Images of heap
 *	  pages have the page's flag before its record comes; so heap.c leaves it alone.)
 *	  So b. holds.  Likewise the records that prune and freeze wait for the snapshots that
 *	  see what they remove, long before the entries go: hence d. and e.
 * g. A bit that the primary cleared with a change of the page is cleared by that change's
 *	  record, before it looks at the page, and whether the page needs the change or not.
 *	  Where replay begins anew, nobody may read before it has come to what is newest on
 *	  disk; until then a bit can be lost, but none can be left over: the clearing either
 *	  comes again, or was on disk with the checkpoint.
 * h. On the primary VACUUM leaves an index out only when nobody uses it any more: DROP INDEX
 *	  CONCURRENTLY and REINDEX CONCURRENTLY wait for that before they say that it is not ready.
 *	  They do not wait for a standby's sessions; and should they be broken off after that,
 *	  VACUUM frees places of which the index still has entries, without a word to us.  Under a
 *	  snapshot taken during recovery, 4 therefore looks, too, whether the index is still
 *	  ready.  That it is not was replayed, its invalidation sent, before VACUUM began.
 *
 * That a snapshot outlives the promotion of its standby changes nothing: it then holds
 * the horizon back like all others.
 *
 * Not in serializable transactions: everything goes to the heap.  Reading a tuple must
 * leave a predicate lock in one step with testing its visibility, under the lock on its
 * page; who deletes tests for such locks under that lock, before the map's bit is cleared.
 * Without the page lock, a deletion might fall in between, and neither would notice the
 * other.
 *
 * Nothing is held between calls: no pin, no lock.
 *-------------------------------------------------------------------------
 */

/*
 * May a match under this snapshot be answered from entries?
 */
bool
GjEntriesMayBeRows(Snapshot snapshot)
{
	return !IsolationIsSerializable() && IsMVCCSnapshot(snapshot);
}

/*
 * Are nearly all pages of the heap all-visible?
 *
 * Then it does not matter that processes which take entries by their keys, and not by
 * their blocks, come to the same blocks.  A block that is fetched by one process takes it
 * half a microsecond, and by several as much each, in memory.  To copy what a device has
 * found into shared memory takes 50 ns an entry, for which all wait.  With six entries on a
 * block both are even where half of the blocks have to be fetched; with fewer entries on a
 * block, fewer processes meet there.
 */
bool
GjHeapIsMostlyVisible(Relation heap)
{
	BlockNumber total = RelationGetNumberOfBlocks(heap);
	BlockNumber visible;

	visibilitymap_count(heap, &visible, NULL);
	return visible >= total * (1.0 - GJ_MAX_HEAP_PART);
}

/*
 * Step 4: has VACUUM been there since the epoch was read, or may it come without our
 * seeing it?
 *
 * What the relation cache says is looked at behind the lock of the metapage: then it has
 * heard of all that was replayed before the map was read.
 */
bool
GjEpochHasMoved(Relation index, Snapshot snapshot, uint64 epoch)
{
	GjIndexState state;

	if (gj_debug_ignore_vacuum_epoch)
		return false;
	GjIndexGetState(index, &state);
	if (state.vacuum_epoch != epoch)
		return true;
	if (!snapshot->takenDuringRecovery)
		return false;
	AcceptInvalidationMessages();
	return !index->rd_index->indisready;
}
