/*-------------------------------------------------------------------------
 *
 * resident.c
 *	  Which indexes of ours have a mirror on a device, for the cost formulas.
 *
 * The table of mirrors is looked at once for each index and query, when the planner
 * collects a table's indexes, and not at each of the many costs that a join asks for;
 * what was found is kept in this process.  It is a hint: the file is compared, not
 * what is in it, and all may have changed when the plan runs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "utils/hsearch.h"

#include "mirror/mirror.h"
#include "planner.h"

#define FEW_INDEXES				16

typedef struct ResidentEntry
{
	Oid			index;			/* hash key */
	bool		resident;
} ResidentEntry;

static HTAB *residents = NULL;

static void note_mirror(Oid index_oid);

/*
 * Note which indexes of a table, for which a plan is being made, have a mirror; they are locked
 */
void
GjNoteMirrors(RelOptInfo *rel)
{
	ListCell   *lc;

	if (!GjMirrorTableExists())
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (GjIndexIsOurs(index) && !index->hypothetical)
			note_mirror(index->indexoid);
	}
}

static void
note_mirror(Oid index_oid)
{
	Relation	index = index_open(index_oid, NoLock);
	ResidentEntry *entry;

	if (residents == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(ResidentEntry)};

		residents = hash_create("gpujoin resident indexes", FEW_INDEXES, &control,
								HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(residents, &index_oid, HASH_ENTER, NULL);
	entry->resident = GjMirrorIsResident(index);
	index_close(index, NoLock);
}

/*
 * Did the index have a mirror when it was last looked at?
 */
bool
GjIndexIsResident(Oid index_oid)
{
	ResidentEntry *entry;

	if (residents == NULL)
		return false;
	entry = hash_search(residents, &index_oid, HASH_FIND, NULL);
	return entry != NULL && entry->resident;
}
