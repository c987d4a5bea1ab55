/*-------------------------------------------------------------------------
 *
 * mirror.c
 *	  gpujoin_mirror_check(): check that a match on the mirror finds every entry of the index.
 *
 * This function is for tests.  The distinct keys of the index are distributed over a few sets;
 * each set is matched like in a query, with the mirror, its missing pages and the tail pages.
 * Every entry must be found by the set that contains its key.
 *
 * It may run concurrently with insertions and VACUUM.  The entries are read before and after the
 * matches.  An entry present both times must have been present in between, unless a bulk deletion
 * ended meanwhile and the TID was reused: the vacuum epoch shows that, and then everything is
 * repeated.  An entry that was found but is present neither time is stale; an index at rest,
 * whose mirror has just been synchronized, has no stale entries.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/settings.h"
#include "match/match.h"

PG_FUNCTION_INFO_V1(gpujoin_mirror_check);

/*
 * Number of sets to distribute the keys over: a TID under a wrong key is likely to be in another
 * one
 */
#define NSETS					4

/* Number of restarts because of a VACUUM */
#define MAX_ROUNDS				20

#define CHECK_COLUMNS			4

typedef struct Entry
{
	int64		key;
	uint64		tid;			/* block << 16 | offset */
} Entry;

typedef struct Entries
{
	Entry	   *entries;
	uint64		n;
	uint64		capacity;
} Entries;

static bool check_once(Relation index, int64 *checked, int64 *missing, int64 *stale,
					   const char **reason);
static void read_entries(Relation index, const GjIndexInfo *info, Entries *out);
static void read_tail(Relation index, const GjIndexInfo *info, BlockNumber block, Entries *out);
static void read_page(Relation index, const GjIndexInfo *info, const GjIndexState *state,
					  BlockNumber block, Entries *out);
static void add_entry(Entries *out, int64 key, const ItemPointerData *tid);
static const char *match_set(Relation index, const Entries *entries, int which, Entries *found);
static int	set_of(int64 key);
static int	compare_entries(const void *a, const void *b);
static uint64 count_absent(const Entries *what, const Entries *in, const Entries *also_in);
static bool contains(const Entries *in, const Entry *entry);

Datum
gpujoin_mirror_check(PG_FUNCTION_ARGS)
{
	Relation	index = GjOpenManagedIndex(PG_GETARG_OID(0));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin mirror check",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int64		checked = 0;
	int64		missing = 0;
	int64		stale = 0;
	const char *reason = NULL;
	TupleDesc	desc;
	Datum		values[CHECK_COLUMNS];
	bool		nulls[CHECK_COLUMNS] = {0};
	bool		done = false;

	for (int round = 0; round < MAX_ROUNDS && !done; round++)
	{
		done = check_once(index, &checked, &missing, &stale, &reason);
		if (!done)
			MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	relation_close(index, NoLock);
	if (!done)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("index \"%s\" is vacuumed all the time",
						RelationGetRelationName(index))));

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(checked);
	values[1] = Int64GetDatum(missing);
	values[2] = Int64GetDatum(stale);
	if (reason == NULL)
		nulls[3] = true;
	else
		values[3] = PointerGetDatum(cstring_to_text(reason));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * Returns false if a bulk deletion ended meanwhile. *reason is set to why the device did not
 * answer, if it did not.
 */
static bool
check_once(Relation index, int64 *checked, int64 *missing, int64 *stale, const char **reason)
{
	GjIndexInfo info;
	GjIndexState before;
	GjIndexState after;
	Entries		first = {0};
	Entries		last = {0};
	Entries		both = {0};
	Entries		found = {0};

	*reason = NULL;
	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &before);
	read_entries(index, &info, &first);
	for (int which = 0; which < NSETS && *reason == NULL; which++)
		*reason = match_set(index, &first, which, &found);
	read_entries(index, &info, &last);
	GjIndexGetState(index, &after);
	if (before.vacuum_epoch != after.vacuum_epoch)
		return false;

	for (uint64 i = 0; i < first.n; i++)
	{
		/* the key is replaced by the number of its set */
		first.entries[i].key = set_of(first.entries[i].key);
	}
	for (uint64 i = 0; i < last.n; i++)
		last.entries[i].key = set_of(last.entries[i].key);
	qsort(first.entries, first.n, sizeof(Entry), compare_entries);
	qsort(last.entries, last.n, sizeof(Entry), compare_entries);
	qsort(found.entries, found.n, sizeof(Entry), compare_entries);

	for (uint64 i = 0; i < first.n; i++)
	{
		if (contains(&last, &first.entries[i]))
		{
			ItemPointerData tid;

			ItemPointerSet(&tid, first.entries[i].tid >> 16, first.entries[i].tid & 0xFFFF);
			add_entry(&both, first.entries[i].key, &tid);
		}
	}
	*checked = both.n;
	*missing = *reason == NULL ? count_absent(&both, &found, NULL) : 0;
	*stale = count_absent(&found, &first, &last);
	return true;
}

/*
 * Read all entries, tails first, repeating this if a fold happened meanwhile
 */
static void
read_entries(Relation index, const GjIndexInfo *info, Entries *out)
{
	GjIndexState state;

	do
	{
		BlockNumber nblocks;

		out->n = 0;
		for (int lane = 0; lane < info->nlanes; lane++)
			read_tail(index, info, GJ_FIRST_TAIL_BLOCK + lane, out);
		GjIndexGetState(index, &state);
		nblocks = GjIndexGetLength(index);
		for (BlockNumber block = info->first_data; block < nblocks; block++)
			read_page(index, info, &state, block, out);
	} while (GjListsMoved(index, &state));
}

static void
read_tail(Relation index, const GjIndexInfo *info, BlockNumber block, Entries *out)
{
	Buffer		buffer = ReadBuffer(index, block);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(index, buffer, GJ_PAGE_TAIL);
	for (int row = 0; row < GjPageGetOpaque(page)->used; row++)
	{
		ItemPointerData tid;
		int64		key = GjTailGetRow(page, info, row, &tid);

		add_entry(out, key, &tid);
	}
	UnlockReleaseBuffer(buffer);
}

/*
 * Read the entries of a page, if it is a live data page
 */
static void
read_page(Relation index, const GjIndexInfo *info, const GjIndexState *state, BlockNumber block,
		  Entries *out)
{
	Buffer		buffer = ReadBuffer(index, block);
	Page		page = BufferGetPage(buffer);
	GjPageOwner owner;

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	owner = GjPageGetOwner(state, page);
	if ((owner == GJ_OWNER_RUN || owner == GJ_OWNER_DELTA) &&
		GjPageCheckKind(index, buffer) == GJ_PAGE_DATA)
	{
		int			nslots = GjDataSlots(page, info);
		GjWide	   *wide = GjWideCreate(info);

		page = GjDataOpen(index, block, page, &info, wide);
		for (int slot = 0; slot < nslots; slot++)
		{
			if (GjDataIsUsed(page, info, slot))
				add_entry(out, GjDataGetKey(page, info, slot), &GjDataTids(page, info)[slot]);
		}
	}
	UnlockReleaseBuffer(buffer);
}

static void
add_entry(Entries *out, int64 key, const ItemPointerData *tid)
{
	if (out->n == out->capacity)
	{
		out->capacity = Max(out->capacity * 2, 1024);
		if (out->entries == NULL)
			out->entries = MemoryContextAllocHuge(CurrentMemoryContext,
												  out->capacity * sizeof(Entry));
		else
			out->entries = repalloc_huge(out->entries, out->capacity * sizeof(Entry));
	}
	out->entries[out->n].key = key;
	out->entries[out->n].tid =
		(uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 |
		ItemPointerGetOffsetNumberNoCheck(tid);
	out->n++;
}

/*
 * Match one of the sets; returns why the device did not answer, or NULL
 */
static const char *
match_set(Relation index, const Entries *entries, int which, Entries *found)
{
	GjKeySet   *keys = GjKeySetCreate(CurrentMemoryContext, GjIndexKeyWidth(index));
	GjTidSet   *tids = GjTidSetCreate(CurrentMemoryContext, MaxAllocHugeSize / 4);
	GjMatchStats stats = {0};
	GjTidBlock	block;

	for (uint64 i = 0; i < entries->n; i++)
	{
		if (set_of(entries->entries[i].key) == which)
			GjKeySetAdd(keys, entries->entries[i].key);
	}
	GjKeySetFinish(keys);
	GjMatch(index, keys, true, NULL, tids, &stats);
	GjTidSetFinish(tids);
	while (GjTidSetNextBlock(tids, &block))
	{
		for (int i = 0; i < block.noffsets; i++)
		{
			ItemPointerData tid;

			ItemPointerSet(&tid, block.block, block.offsets[i]);
			add_entry(found, which, &tid);
		}
	}
	if (GjKeySetCount(keys) == 0)
		stats.reason = NULL;
	GjTidSetFree(tids);
	GjKeySetFree(keys);
	return stats.reason == NULL ? NULL : pstrdup(stats.reason);
}

static int
set_of(int64 key)
{
	return (int) (((uint64) key * UINT64CONST(0x9E3779B97F4A7C15)) >> 33) % NSETS;
}

static int
compare_entries(const void *a, const void *b)
{
	const Entry *left = a;
	const Entry *right = b;

	if (left->tid != right->tid)
		return left->tid < right->tid ? -1 : 1;
	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return 0;
}

/*
 * Count the entries that are in neither of two sorted lists
 */
static uint64
count_absent(const Entries *what, const Entries *in, const Entries *also_in)
{
	uint64		absent = 0;

	for (uint64 i = 0; i < what->n; i++)
	{
		if (!contains(in, &what->entries[i]) &&
			(also_in == NULL || !contains(also_in, &what->entries[i])))
			absent++;
	}
	return absent;
}

static bool
contains(const Entries *in, const Entry *entry)
{
	return in->n > 0 &&
		bsearch(entry, in->entries, in->n, sizeof(Entry), compare_entries) != NULL;
}
