/*-------------------------------------------------------------------------
 *
 * resident.c
 *	  What the cost formulas ask of our indexes: has one a mirror on a device, and how many of
 *	  its pages are in order?
 *
 * The table of mirrors is looked at once for each index and query, when the planner
 * collects a table's indexes, and the metapage when a cost is computed first, not at each of
 * the many costs that a join asks for; what was found is kept in this process.  It is a hint: of
 * mirrors the file is compared, not what is in it, and all may have changed when the plan runs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "utils/hsearch.h"

#include "base/gpujoin.h"
#include "mirror/mirror.h"
#include "pages/pages.h"
#include "planner.h"

#define FEW_INDEXES				16

typedef struct IndexNote
{
	Oid			index;			/* hash key */
	bool		resident;
	bool		counted;		/* what follows is known */
	GjIndexPages pages;
} IndexNote;

static HTAB *notes = NULL;

static IndexNote *find_note(Oid index_oid);
static bool would_be_resident(const IndexOptInfo *index);
static void count_pages(Relation index, GjIndexPages *pages);

/*
 * Look anew at the indexes of a table, for which a plan is being made; they are locked
 */
void
GjNoteIndexes(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		IndexNote  *note;

		if (!GjIndexIsOurs(index))
			continue;
		note = find_note(index->indexoid);
		note->counted = false;
		note->resident = index->hypothetical && would_be_resident(index);
		if (GjMirrorTableExists() && !index->hypothetical)
		{
			Relation	rd = index_open(index->indexoid, NoLock);

			note->resident = GjMirrorIsResident(rd);
			index_close(rd, NoLock);
		}
	}
}

/*
 * Would an index that does not exist be loaded once it is built?  As long as nobody asks for its
 * place, it would: by the loader, or by the first queries.
 */
static bool
would_be_resident(const IndexOptInfo *index)
{
	GjServiceStatus status;

	if (!GjMirrorTableExists() || !gj_auto_load || index->pages < GJ_MIN_DEVICE_BLOCKS ||
		!GjServiceReady(NULL))
		return false;
	GjServiceGetStatus(&status);
	return (uint64) index->pages * BLCKSZ <= status.memory_columns_limit;
}

static IndexNote *
find_note(Oid index_oid)
{
	IndexNote  *note;
	bool		found;

	if (notes == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(IndexNote)};

		notes = hash_create("gpujoin indexes in plans", FEW_INDEXES, &control,
							HASH_ELEM | HASH_BLOBS);
	}
	note = hash_search(notes, &index_oid, HASH_ENTER, &found);
	if (!found)
		note->resident = note->counted = false;
	return note;
}

/*
 * Did the index have a mirror when it was last looked at?
 */
bool
GjIndexIsResident(Oid index_oid)
{
	return find_note(index_oid)->resident;
}

/*
 * Where an index has its pages; of one that does not exist, as if it had just been built
 */
const GjIndexPages *
GjIndexGetPages(const IndexOptInfo *index)
{
	static GjIndexPages built;
	IndexNote  *note;
	Relation	rd;

	if (index->hypothetical)
	{
		built = (GjIndexPages) {.unsorted = GJ_DEFAULT_LANES,.nruns = 1};
		built.entries = index->tuples;
		built.runs[0] = Max((double) index->pages - GJ_FIRST_TAIL_BLOCK - GJ_DEFAULT_LANES, 1.0);
		return &built;
	}
	note = find_note(index->indexoid);
	if (!note->counted)
	{
		rd = index_open(index->indexoid, NoLock);
		count_pages(rd, &note->pages);
		index_close(rd, NoLock);
		note->counted = true;
	}
	return &note->pages;
}

static void
count_pages(Relation index, GjIndexPages *pages)
{
	GjIndexInfo info;
	GjIndexState state;

	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	pages->unsorted = info.nlanes;
	pages->entries = 0.0;
	for (int i = 0; i < lengthof(state.deltas); i++)
	{
		if (state.deltas[i].run == 0)
			continue;
		pages->unsorted += state.deltas[i].data_pages;
		pages->entries += (double) state.deltas[i].data_pages * info.slots;
	}
	pages->nruns = state.nruns;
	for (int i = 0; i < state.nruns; i++)
	{
		pages->runs[i] = state.runs[i].data_pages;
		pages->entries += state.runs[i].entries;
	}
}
