/*-------------------------------------------------------------------------
 *
 * build.c
 *	  CREATE INDEX and REINDEX.
 *
 * The heap is read in physical order, so entries stand in heap order and a
 * search's TIDs ascend until slots are used again.  Each page is filled in private
 * memory and enters the index whole; WAL is written once, at the end, because until
 * the transaction commits nobody else can see the index.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/backend_progress.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "mirror/mirror.h"
#include "am.h"

typedef struct GjBuildState
{
	Relation	index;
	GjIndexInfo info;
	FmgrInfo   *key_proc;
	double		nentries;
	int			slot;			/* next free slot of the page being filled */
	GjDelta		delta;			/* to which all pages go, from info.first_data on */
	PGAlignedBlock page;
} GjBuildState;

static uint64 make_build_id(void);
static int	lanes_option(Relation index);
static void forget_cached_info(Relation index);
static void add_entry(Relation index, ItemPointer tid, Datum *values, bool *isnull,
					  bool tuple_is_alive, void *arg);
static void flush_page(GjBuildState *state);
static void add_lists(GjBuildState *state);

/*
 * Build a new index
 */
IndexBuildResult *
gjbuild(Relation heap, Relation index, IndexInfo *indexInfo)
{
	IndexBuildResult *result;
	GjBuildState *state;
	double		heap_tuples;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	/* TRUNCATE of a table made in this transaction rebuilds under the same relcache entry */
	forget_cached_info(index);
	GjMirrorRelationRebuilt(index);

	GjIndexInitFork(index, MAIN_FORKNUM, make_build_id(), lanes_option(index), false);

	state = palloc0(sizeof(GjBuildState));
	state->index = index;
	state->key_proc = index_getprocinfo(index, 1, GJ_KEY_PROC);
	GjIndexGetInfo(index, &state->info);
	state->delta.run = 1;
	state->delta.head = InvalidBlockNumber;
	GjDataInit((Page) state->page.data, &state->info, state->delta.run);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, GJ_BUILD_LOADING);
	if (heap->rd_rel->reltuples >= 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL,
									 (int64) heap->rd_rel->reltuples);

	/* no synchronised scan: it could start in the middle of the heap */
	heap_tuples = table_index_build_scan(heap, index, indexInfo, false, true,
										 add_entry, state, NULL);
	if (state->slot > 0)
		flush_page(state);
	add_lists(state);
	GjIndexNoteBuilt(index, NULL, &state->delta);

	if (RelationNeedsWAL(index))
	{
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, GJ_BUILD_LOGGING);
		GjIndexLogFork(index, MAIN_FORKNUM);
	}

	GjMirrorRelationBuilt(index);

	result = palloc(sizeof(IndexBuildResult));
	result->heap_tuples = heap_tuples;
	result->index_tuples = state->nentries;
	pfree(state);
	return result;
}

/*
 * Write the init fork of an unlogged index, to which it is reset after a crash
 */
void
gjbuildempty(Relation index)
{
	GjIndexInitFork(index, INIT_FORKNUM, make_build_id(), lanes_option(index), false);

	/* logged whatever the relation: a crash must not lose the init fork itself */
	GjIndexLogFork(index, INIT_FORKNUM);
}

/*
 * Draw an id that no other build of any index has
 */
static uint64
make_build_id(void)
{
	uint64		id;

	if (!pg_strong_random(&id, sizeof(id)))
		id = ((uint64) GetCurrentTimestamp() << 16) ^ (uint64) MyProcPid;
	return id;
}

static int
lanes_option(Relation index)
{
	GjOptions  *options = (GjOptions *) index->rd_options;

	return options ? options->lanes : GJ_DEFAULT_LANES;
}

static void
forget_cached_info(Relation index)
{
	if (index->rd_amcache)
	{
		pfree(index->rd_amcache);
		index->rd_amcache = NULL;
	}
}

/*
 * Callback of the heap scan: add one tuple's entry
 */
static void
add_entry(Relation index, ItemPointer tid, Datum *values, bool *isnull,
		  bool tuple_is_alive, void *arg)
{
	GjBuildState *state = arg;
	char		row[GJ_MAX_ROW_WIDTH];

	if (isnull[0])
		return;

	GjRowForm(&state->info, GjKeyFromDatum(state->key_proc, values[0]), tid,
			  values + 1, isnull + 1, row);
	GjDataPut((Page) state->page.data, &state->info, state->slot, row);
	if (++state->slot == state->info.slots)
		flush_page(state);
}

static void
flush_page(GjBuildState *state)
{
	Page		page = (Page) state->page.data;

	GjPageGetOpaque(page)->change = 1;	/* the build is change number one */
	GjIndexAddPage(state->index, MAIN_FORKNUM, page);
	state->nentries += state->slot;
	state->delta.data_pages++;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) state->nentries);

	GjDataInit(page, &state->info, state->delta.run);
	state->slot = 0;
}

/*
 * List all data pages, which lie one behind the other
 */
static void
add_lists(GjBuildState *state)
{
	GjDelta    *delta = &state->delta;
	BlockNumber first = state->info.first_data;

	for (BlockNumber done = 0; done < delta->data_pages; done += GJ_LIST_BLOCKS)
	{
		Page		page = (Page) state->page.data;
		GjPageOpaque opaque;

		GjListInit(page, delta->run, delta->head);
		opaque = GjPageGetOpaque(page);
		opaque->used = Min(delta->data_pages - done, GJ_LIST_BLOCKS);
		for (int i = 0; i < opaque->used; i++)
			GjPageGetList(page)->blocks[i] = first + done + i;
		((PageHeader) page)->pd_lower = GjListEnd(page) - (char *) page;
		opaque->change = 1;
		GjIndexAddPage(state->index, MAIN_FORKNUM, page);
		delta->head = first + delta->data_pages + delta->list_pages++;
	}
}
