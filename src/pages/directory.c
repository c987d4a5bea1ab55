/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  Copies of pages of directories, which a process keeps for its next searches.
 *
 * A search for few keys looks up one element on each level of a directory.  To find, pin, lock and
 * check a page takes several times as long as that, so a process that looks into a page again keeps
 * a copy of it in its own memory.
 *
 * This is safe because a directory never changes, and the number of a run is never used twice.  So
 * a page that was the run's when it was copied has been the same since the run was published, and
 * remains so as long as a state of the metapage lists the run (lemma L1 of src/README).  Later the
 * copy is of no use.  A run is identified by the index's file, too: if ALTER INDEX SET TABLESPACE
 * is rolled back, the old file has the build id and the numbers of the new one.
 *
 * Each page has one place among the copies.  It takes the place of another one when it is asked for
 * twice in a row.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "pages.h"

/* Number of copies, a power of two; the system gives memory to those that are made, 8 kB each */
#define KEPT_PAGES				64

typedef struct KeptPage
{
	Oid			tablespace;
	Oid			file;
	uint64		build_id;
	uint32		run;
	BlockNumber block;
	int			n;				/* number of elements; 0: no page has been copied */
	uint64		asked;			/* build id + block of the page that was asked for last, in vain */
	GjDirectory copy;
} KeptPage;

static KeptPage kept[KEPT_PAGES];

static KeptPage *place_of(Relation index, BlockNumber block);

/*
 * Return the copy of a page that a state lists; NULL if there is none
 */
const GjDirectory *
GjDirectoryRecall(Relation index, uint64 build_id, uint32 run, BlockNumber block, int *n)
{
	const KeptPage *page = place_of(index, block);

	*n = page->n;
	if (page->n == 0 || page->block != block || page->run != run || page->build_id != build_id ||
		page->file != GjRelationFile(index) || page->tablespace != GjRelationTablespace(index))
		return NULL;
	return &page->copy;
}

/*
 * Consider keeping a copy of a page, which has been checked, and belongs to the run
 */
void
GjDirectoryKeep(Relation index, uint64 build_id, uint32 run, BlockNumber block,
				const GjDirectory *directory, int n)
{
	KeptPage   *page = place_of(index, block);
	uint64		asked = build_id + block;

	if (page->asked != asked)
	{
		page->asked = asked;
		return;
	}
	page->copy = *directory;
	page->tablespace = GjRelationTablespace(index);
	page->file = GjRelationFile(index);
	page->build_id = build_id;
	page->run = run;
	page->block = block;
	page->n = n;
}

static KeptPage *
place_of(Relation index, BlockNumber block)
{
	return &kept[(murmurhash32(GjRelationFile(index)) + block) & (KEPT_PAGES - 1)];
}
