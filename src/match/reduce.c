/*-------------------------------------------------------------------------
 *
 * reduce.c
 *	  Reductions: a match in which a device adds up the rows that it can prove to be visible, and
 *	  returns the others as entries.
 *
 * A reduction is one match with two results, from one state of the mirror: groups, in which the
 * device has counted and added up rows (cuda/border/gpujoin_reduction.h), and the rest, entries as
 * of any other match.  It is made only if nothing is left to be done with a row: all conditions are
 * tested by the device, and the caller needs no more of the rows than the groups.
 *
 * The steps, in this order:
 *
 *	  0. Find the mirror, and bring it up to date if it is behind.
 *	  1. Read the metapage: V, the sequence number, and E, the vacuum epoch.
 *	  2. Search the tail pages: T, their hits.
 *	  3. Read metapage, journal, metapage (J), and the promise of the mirror, which must be of the
 *		 same list version and epoch E.  List the pages that the mirror lacks: L.  The CPU searches
 *		 them, by the lists of J: it passes over pages that do not belong to a listed run or delta.
 *	  4. Copy the visibility map: M.
 *	  5. The device leaves out the pages of L, and those whose copy has a version above V, which it
 *		 lists: R.  Of the entries on all other pages whose key is in the set and that pass the
 *		 filter, it reduces those that are on a block that is all-visible by M, and returns the
 *		 rest.
 *	  6. The CPU searches R, by the lists of J.
 *	  7. Read the metapage.  If the list version is not that of 3, or the epoch is not E (or, in
 *		 recovery, the index is no longer ready), discard everything.
 *	  8. T, the hits of L and R, and the rest are the entries of the match.  Which of them are rows
 *		 is found out as for all entries (visible.c), by a map that is copied later.
 *
 * An entry that has been reduced cannot be removed from its group again, made distinct from the
 * same entry found elsewhere, or looked up in the heap.  So the following is needed.  A model
 * tries all orders of steps of the reader and of writers: test/model/reduce.c.
 *
 * Claim: each row that the snapshot sees is in a group or among the entries.  By the proof at the
 * head of device.c, whose steps are 2, 3, 5 and 7, the match finds the row's own entry (lemma L4 of
 * src/README) on a tail, on a page of L, or in the copy of another page.  Of these the device
 * leaves out those of R.  Let P be such a page.  If the entry was on P at J, it still is when the
 * CPU searches P, as only a bulk deletion removes entries, and that one's rows are seen by no
 * snapshot; and P belongs to a run or delta of J, so the CPU does not pass over it.  If the entry
 * was not on P at J, the copy of P was made of a later state, and the entry was in another place at
 * J, where the proof finds it.
 *
 * Claim: no entry that has been reduced is among the entries as well, or has been reduced twice.
 * An entry is on one data page, and the device sees one state of all copies.  The CPU searches only
 * pages that the device has left out.  A page that an entry was moved to by a fold after J belongs
 * to no list of J, so the CPU passes over it; and if a copy of it was pushed meanwhile, the lists
 * have changed, which 7 notices.  The entries of T were on their tails after V was read; the change
 * that moves one of them to a data page draws a number above V, so a copy that has it is left out.
 *
 * Claim: each entry that has been reduced is a row that the snapshot sees, with the values that
 * were added up.
 *
 * a. The copy of a page outside of L that the device did not leave out has no change above V, and
 *	  all changes up to S of the promise (device.c); the page has not changed between S and J, or
 *	  it would be in L.  So the entry was in the index at J, or in the time from 1 to J, when the
 *	  epoch was E.  7 reads E again.  By lemma L5 the entry's TID was not free in between.
 * b. The bit of the entry's block was read after 1.  A process that inserts a row, or makes a HOT
 *	  chain, clears the bit first, and the entry has been on the page since V at the latest.  So the
 *	  bit has been set after the entry was made, when all tuples of the block were visible to every
 *	  snapshot, ours included.  The rest is visible.c, a. to c.  A process that clears the bit
 *	  later makes a change that our snapshot does not see.
 * c. The entry's key is listed.  If codes alone do not prove that, the device also has the rests of
 *	  all keys, and only takes entries whose code and rest are a pair of the list (sets/keyset.c).
 *	  The entry passes all conditions: no reduction is made if a part of the filter cannot be sent
 *	  (is_sent_whole).  The conditions that are sent hold for exactly the values that pass the
 *	  test (rows/filter.c).  An entry that lacks a value of a condition is marked
 *	  (gpujoin_reduction.h), so the device returns it.
 *
 * Claim: entries that are found on pages of L or R, or on a tail, must not be tested by M.  They
 * may have been inserted after M was copied, into a block whose bit was cleared for that.  So the
 * caller's map is copied after the match.
 *
 * On a standby, replay takes the place of the primary's processes (lemma L9, visible.c f. to h.).
 *
 * If the caller needs only the number of groups, and neither T nor a page of L has a hit, the
 * device may send that instead of the groups, provided that R and the rest are empty, too.  Then no
 * row is left that could form a group, or belong to one.
 *
 * If the groups are too many to be sent, and the rest is not empty, the device sends only those
 * that have the values of an entry of the rest, and the number of all (only_shared).
 *
 * Claim: if T, the hits of L, and R are empty, the number of groups is that of those which have
 * not been sent, plus that of the groups formed by those which have been sent and by the rows that
 * the caller makes of the rest.  Such a row has its own entry, with the row's values: entries of a
 * HOT chain have one TID, and no column of an index changes along a chain.  The entry is not
 * reduced, by the second claim above, so it is among the entries by the first, which means in the
 * rest.  So if the row belongs to a group of the device, that group has been sent.  The groups
 * that have not been sent are distinct from each other, from those sent, and from all others.
 * Columns whose entries may lack the value are not grouped by (agg/reduced.c).  If R is not empty,
 * everything is discarded.
 *
 * If there are hits on T or L, and the groups are too many to be sent, the device is asked only for
 * the keys that have no such hit (split_keys).  The caller searches for the others by itself.  That
 * is a match of its own, as for a range of keys (stream.c).  It is done only if the key is one of
 * the columns that form the groups: then the rows of the two matches have no group in common, so
 * the numbers of their groups add up.
 *
 * Nothing is returned to the caller before 8.  If a step fails, the reduction begins again, at most
 * twice if that was before 5, and at most once afterwards.  If that does not help, or if the device
 * does not answer, or the caller has no memory for the groups, the match is made without a
 * reduction.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/settings.h"
#include "base/step.h"
#include "mirror/mirror.h"
#include "search.h"

/*
 * A failure before the request counts 1, a later one 2; no further attempt is made once the sum
 * reaches this
 */
#define TOO_MANY_FAILURES		3

/* A device is asked for a part of the keys if at most one in this many is left to the caller */
#define MAX_KEYS_LEFT			2

/* The copy of the visibility map may use this part of the memory */
#define MAP_PART				4

typedef enum Outcome
{
	REDUCED,
	FAILED_EARLY,				/* before the request: may be tried again */
	FAILED_LATE,				/* after it: may be tried again */
	REFUSED						/* cannot be done now */
} Outcome;

/* State of an attempt */
typedef struct Attempt
{
	const GjEntryRequest *request;
	GjDeviceMatch match;		/* its target is the rest */
	uint64		vacuum_epoch;	/* E */
	GjTailHits	tails;			/* T */
	bool		count_is_enough;	/* true if the caller needs only the number of groups */
	GjKeySet   *asked_keys;		/* keys that the device is asked for, if not all */
	GjKeySet   *left_keys;		/* the others, which the caller has to search for */
	GjVisibleMap *map;			/* M */
	uint32	   *lag;			/* numbers of the pages of L, as the device counts pages */
	GjServiceMatchInfo info;
} Attempt;

static bool is_sent_whole(const GjEntryRequest *request, const GjEntrySet *rest);
static Outcome attempt(Attempt *a);
static void read_state(Attempt *a);
static bool copy_map(Attempt *a);
static bool list_lag(Attempt *a);
static bool split_keys(Attempt *a);
static void rest_add_tails(Attempt *a);
static void add_keys(const GjEntrySet *entries, GjKeySet *keys);
static bool is_key_grouped(const gjd_reduction *asked);
static Outcome ask_reduction(Attempt *a);
static void search_newer(Attempt *a);
static void forget_attempt(Attempt *a);
static void count(Attempt *a);

/*
 * Make a match whose rows a device reduces as far as it can.  Returns true if it did: then the
 * request's reduction has the groups, "rest" has the entries of all other rows, as if a device had
 * found them at once, and *epoch is the vacuum epoch that was read before; *left becomes a set of
 * those keys whose rows are in none of these, or NULL.  Otherwise returns false, with nothing in
 * any of these.
 *
 * "rest" is empty, and has its test attached.  Allocates in the current memory context.
 */
bool
GjMirrorReduce(const GjEntryRequest *request, const GjIndexInfo *info, GjEntrySet *rest,
			   uint64 *epoch, const GjKeySet **left)
{
	GjMatchStats *stats = request->stats;
	GjMatchStats before = *stats;
	int			failures = 0;

	if (!is_sent_whole(request, rest))
		return false;
	while (failures < TOO_MANY_FAILURES)
	{
		Attempt		a = {
			.request = request,.count_is_enough = request->reduction->groups_if_needed
		};
		Outcome		outcome;

		a.match = (GjDeviceMatch) {
			.index = request->index,.info = info,.keys = request->keys,
			.target = {NULL, rest},.epoch = &a.vacuum_epoch,.stats = stats
		};
		outcome = attempt(&a);
		request->reduction->groups_if_needed = a.count_is_enough;
		forget_attempt(&a);
		if (outcome == REDUCED)
		{
			*epoch = a.vacuum_epoch;
			*left = a.left_keys;
			return true;
		}
		if (a.left_keys != NULL)
			GjKeySetFree(a.left_keys);
		GjEntrySetClear(rest);
		before.pages_pushed = stats->pages_pushed;
		before.reduce_failures++;
		*stats = before;
		failures += outcome == FAILED_EARLY ? 1 : outcome == FAILED_LATE ? 2 : TOO_MANY_FAILURES;
	}
	return false;
}

/*
 * Return true if the device tests all conditions of the filter, and rests if the filter does
 */
static bool
is_sent_whole(const GjEntryRequest *request, const GjEntrySet *rest)
{
	uint64		sent = rest->filter_parts;

	if (request->reduction->proofs != NULL)
		sent |= GJ_TEST_OF_RESTS;
	return request->test == NULL ||
		(request->test->parts != 0 && (request->test->parts & ~sent) == 0);
}

/*
 * Go through all steps
 */
static Outcome
attempt(Attempt *a)
{
	const GjEntryRequest *request = a->request;
	GjDeviceMatch *match = &a->match;
	GjEntrySet *rest = match->target.entries;
	GjReduction *reduction = request->reduction;
	Outcome		outcome;

	read_state(a);
	if (GjMirrorReach(match, true) != GJ_FALLBACK_NONE)
		return REFUSED;
	GjStep("reduce 0");

	read_state(a);
	GjStep("reduce 1");
	GjSearchTails(request->index, match->info, request->keys, &a->tails, match->stats);
	GjStep("reduce 2");

	if (GjMirrorReach(match, false) != GJ_FALLBACK_NONE ||
		match->mirror.vacuum_epoch != a->vacuum_epoch)
		return FAILED_EARLY;
	GjStep("reduce 3");
	if (!list_lag(a))
		return REFUSED;
	GjMirrorSearchLag(match);
	reduction->groups_if_needed = a->count_is_enough && a->tails.nrows == 0 && rest->nentries == 0;
	if (reduction->are_many && !reduction->groups_if_needed && !split_keys(a))
		return REFUSED;
	if (!copy_map(a))
		return REFUSED;
	GjStep("reduce 4");

	outcome = ask_reduction(a);
	if (outcome != REDUCED)
		return outcome;
	GjStep("reduce 5");
	search_newer(a);
	GjStep("reduce 6");
	if (GjListsMoved(request->index, &match->journal.state) ||
		!GjIndexIsCurrent(request->index, request->snapshot, a->vacuum_epoch))
		return FAILED_LATE;

	if (a->left_keys == NULL)
		rest_add_tails(a);
	GjEntrySetFinish(rest);
	if (rest->gave_up)
		return REFUSED;
	count(a);
	return REDUCED;
}

/*
 * Read V and E
 */
static void
read_state(Attempt *a)
{
	GjIndexState state;

	GjIndexGetState(a->request->index, &state);
	a->vacuum_epoch = state.vacuum_epoch;
	a->request->reduction->asked.bound = state.sequence;
}

/*
 * List the pages of L.  Returns false if they are too many.
 */
static bool
list_lag(Attempt *a)
{
	const GjMirrorLag *lag = &a->match.lag;
	gjd_reduction *asked = &a->request->reduction->asked;

	if (lag->blocks > GJD_MAX_LEFT_OUT)
		return false;
	a->lag = palloc_array(uint32, lag->blocks + 1);
	asked->left_out = a->lag;
	asked->n_left_out = 0;
	for (int i = 0; i < lag->nranges; i++)
	{
		for (BlockNumber block = lag->ranges[i].start; block < lag->ranges[i].end; block++)
			a->lag[asked->n_left_out++] = block - a->match.info->first_data;
	}
	return true;
}

/*
 * Leave the keys that have a hit on T or L out of the request.  Returns false if that does not
 * help, or if these keys are too many.
 */
static bool
split_keys(Attempt *a)
{
	GjDeviceMatch *match = &a->match;
	GjReduction *reduction = a->request->reduction;
	GjEntrySet *hits = match->target.entries;
	const GjKeySet *keys = match->keys;

	/* neither weights nor rests are listed for a part of the keys */
	if (!is_key_grouped(&reduction->asked) || reduction->asked.weights != NULL ||
		reduction->proofs != NULL)
		return false;
	rest_add_tails(a);
	if (hits->gave_up || hits->keys.width == 0)
		return false;
	a->left_keys = GjKeySetCreate(CurrentMemoryContext, keys->key_width);
	add_keys(hits, a->left_keys);
	GjKeySetFinish(a->left_keys);
	if (GjKeySetCount(a->left_keys) > GjKeySetCount(keys) / MAX_KEYS_LEFT)
		return false;
	GjEntrySetClear(hits);
	a->asked_keys = GjKeySetCreate(CurrentMemoryContext, keys->key_width);
	for (uint64 i = 0; i < GjKeySetCount(keys); i++)
	{
		if (!GjKeySetContains(a->left_keys, GjKeySetAt(keys, i)))
			GjKeySetAdd(a->asked_keys, GjKeySetAt(keys, i));
	}
	GjKeySetFinish(a->asked_keys);
	match->keys = a->asked_keys;
	reduction->groups_if_needed = true;
	return true;
}

/*
 * Add the hits of T to the rest
 */
static void
rest_add_tails(Attempt *a)
{
	const GjDeviceMatch *match = &a->match;

	for (int i = 0; i < a->tails.nrows; i++)
		GjEntrySetAddRow(match->target.entries, match->info,
						 a->tails.rows + i * match->info->row_width);
}

static void
add_keys(const GjEntrySet *entries, GjKeySet *keys)
{
	const char *values = entries->keys.values;

	for (uint64 i = 0; i < entries->nentries; i++)
		GjKeySetAdd(keys, entries->keys.width == sizeof(int32) ? ((const int32 *) values)[i] :
					((const int64 *) values)[i]);
}

/*
 * Return true if rows of different keys are in different groups
 */
static bool
is_key_grouped(const gjd_reduction *asked)
{
	for (uint32 i = 0; i < asked->n_columns; i++)
	{
		if (asked->columns[i] == 0)
			return true;
	}
	return false;
}

/*
 * Copy M.  Returns false if it takes too much memory.
 */
static bool
copy_map(Attempt *a)
{
	gjd_reduction *asked = &a->request->reduction->asked;

	a->map = GjVisibleMapCreate(CurrentMemoryContext, a->request->heap,
								a->request->limit / MAP_PART);
	return GjVisibleMapCopy(a->map, &asked->visible_below, &asked->map, &asked->map_bytes);
}

/*
 * Step 5
 */
static Outcome
ask_reduction(Attempt *a)
{
	GjDeviceMatch *match = &a->match;
	GjReduction *reduction = a->request->reduction;
	GjEntrySet *rest = match->target.entries;
	GjServiceResult result;
	gjd_shape	shape;

	GjMirrorShape(match->info, match->mirror.column.slots, &shape);
	reduction->asked.only_shared = reduction->are_many;
	if (a->request->test != NULL)
		reduction->asked.marked |= (uint32) (a->request->test->words / (GJ_ENTRY_KEY << 1));
	result = GjServiceReduce(&match->mirror.column, &shape, match->keys, reduction, rest, &a->info);
	INSTR_TIME_SUBTRACT(match->stats->elapsed, a->info.away);
	switch (result)
	{
		case GJ_SERVICE_OK:
			break;
		case GJ_SERVICE_TOO_NEW:
			return FAILED_LATE;
		case GJ_SERVICE_TOO_LARGE:
		case GJ_SERVICE_TOO_MANY:
			return REFUSED;
		default:
			(void) GjMirrorNoteRefusal(match, result);
			return REFUSED;
	}
	GjEntrySetEndBulk(rest);
	if (reduction->are_many && reduction->nnewer > 0)
		return FAILED_LATE;
	if (!reduction->only_counted && !reduction->fits(reduction->fits_arg, reduction->nelements))
		return REFUSED;
	return REDUCED;
}

/*
 * Search the pages of R
 */
static void
search_newer(Attempt *a)
{
	const GjReduction *reduction = a->request->reduction;
	GjDeviceMatch *match = &a->match;
	BlockNumber nblocks = reduction->nnewer > 0 ? RelationGetNumberOfBlocks(match->index) : 0;
	uint64		entries = match->stats->entries;

	for (uint32 i = 0; i < reduction->nnewer; i++)
	{
		BlockNumber block = match->info->first_data + reduction->newer[i];

		if (block >= match->info->first_data && block < nblocks)
			GjSearchBlocks(match->index, match->info, match->keys, &match->journal.state,
						   block, block + 1, match->target, match->stats);
	}
	match->stats->entries = entries;	/* they were counted with the mirror's */
}

/*
 * Free what the attempt needed
 */
static void
forget_attempt(Attempt *a)
{
	gjd_reduction *asked = &a->request->reduction->asked;

	GjTailHitsForget(&a->tails);
	if (a->asked_keys != NULL)
		GjKeySetFree(a->asked_keys);
	if (a->map != NULL)
		GjVisibleMapForget(a->map);
	if (a->lag != NULL)
		pfree(a->lag);
	asked->left_out = NULL;
	asked->map = NULL;
	asked->n_left_out = 0;
	asked->map_bytes = 0;
}

/*
 * Add the work to the statistics
 */
static void
count(Attempt *a)
{
	const GjReduction *reduction = a->request->reduction;
	const GjEntrySet *rest = a->match.target.entries;
	GjMatchStats *stats = a->match.stats;

	GjMirrorNoteAnswer(&a->match, &a->info);
	if (a->request->test != NULL)
		stats->device_filter |= rest->filter_parts;
	stats->stale = true;
	stats->answers[GJ_FALLBACK_NONE]++;
	stats->tids += GjEntrySetFound(rest) + reduction->rows;
	stats->filtered += rest->ndropped;
	stats->reductions++;
	stats->reduced_rows += reduction->rows;
	stats->reduced_groups += reduction->ngroups;
	stats->reduced_bytes += reduction->nelements * reduction->element_words * sizeof(uint64);
	stats->left_out += a->match.lag.blocks + reduction->nnewer;
}
