/*-------------------------------------------------------------------------
 *
 * entryvisible.c
 *	  Which entries are rows, without a look at the heap: the visibility map and the
 *	  vacuum epoch.
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
 *	  3. a chunk of entries at a time: read the visibility map for their blocks (visiblemap.c)
 *	  4. read the epoch again, under the metapage's share lock.  If it is still E, the
 *		 chunk's entries on all-visible blocks are rows; if it is not, this chunk and
 *		 all that come later go to the heap.
 *
 * Claim: an entry (T, values) on a block that the map, read at 3, calls all-visible,
 * with E at 1 and at 4, stands for exactly one row that the snapshot sees, whose key
 * and INCLUDE columns are these values, and no other entry of the set stands for it.
 *
 * a. T still is what it was when the entry was made.  A line pointer with an index
 *	  entry becomes free for another tuple (LP_UNUSED) only in VACUUM's second heap pass,
 *	  after ambulkdelete has removed its entries and returned.  That holds for the line
 *	  pointers of aborted insertions, too, and for all horizons.  Before it returns,
 *	  ambulkdelete raises the epoch (gjbulkdelete).  Were T free, or somebody else's, at 3,
 *	  then that raise had come before 3, so before 4; as 4 still reads E, it had come
 *	  before 1; so the entry had been gone from the index before 1, and 2 could not have
 *	  found it.
 * b. At 3 T leads to a tuple that everybody sees.  The map's bit is set only where the
 *	  page has no dead line pointer and all tuples are visible to every snapshot, ours
 *	  included, which is registered and holds the horizon back.  It is cleared, before
 *	  anything else happens, by whoever changes the page.  By (a) T is neither unused nor
 *	  a heap-only tuple of another chain; so it is a tuple, or redirects to one, that our
 *	  snapshot sees.  That is true for good: a snapshot does not change.
 * c. This tuple has the entry's values.  It is a member of the HOT chain that the entry
 *	  was made for.  An update of an indexed column is no HOT update, and INCLUDE columns
 *	  count as indexed.  (Chains that are broken in this sense, older than the index, have
 *	  a dead member, or one that not everybody sees, and are not on all-visible pages
 *	  before only the member is left whose values were indexed.)
 * d. Each TID once.  By (a) two entries with T that pass are of the same tuple, and so are
 *	  one, met on a tail page and where it moved to; the match leaves one of them out.  (Two of
 *	  different rows may be in a set: then the epoch has moved, and neither passes.)  If
 *	  an entry with T passes, and another one, found later, does not, because the epoch has
 *	  moved: T still is the row that passed, as our snapshot sees it, so that VACUUM cannot
 *	  have made T free; hence they are one entry again.  Those that do not pass are fetched
 *	  as sets of TIDs; where there are several of them, two with T in two sets are of rows
 *	  that our snapshot does not see, or they, too, would be one entry.  None of the sets is
 *	  lossy: it would have rows that passed.
 *	  Where entries of some keys are found later than those of others, match/entries.c shows
 *	  the same of two entries with T that have different keys.
 * e. No row is missing: entries that do not pass go to the heap, all of them.
 *
 * The order in memory: who inserts clears the bit first and adds the entry then, under
 * the page lock under which 2 reads it; who deletes clears it before the commit, and our
 * snapshot knows of it only after that; so 3 sees the bit cleared.  Who sets the bit has
 * raised the epoch first; if 3 sees the bit set, 4, behind the barrier of taking a lock,
 * sees the epoch raised.
 *
 * With a mirror: what a device finds was read from the index's pages when the mirror was
 * loaded or synchronised last, and 1 was then.  Its promise (match/device.c) has a sequence
 * number S and an epoch, read at one moment before the pages.  An entry in a copy that
 * the index does not have any more was deleted by a change with a number above S, that
 * is, after that moment; so the bulk deletion that did it raised the epoch later.  Hence
 * the same argument, if the mirror's epoch is E; if it is not, the device's answer is
 * used as TIDs for the heap (GjMatchStats.outdated).
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
 *	  pages have the page's flag before its record comes; so visible.c leaves it alone.)
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
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/gpujoin.h"
#include "match/match.h"
#include "entryvisible.h"

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
