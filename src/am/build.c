/*-------------------------------------------------------------------------
 *
 * build.c
 *	  CREATE INDEX and REINDEX.
 *
 * The heap is read in physical order, and the entries are sorted and become the base run.  The
 * sort may use maintenance_work_mem.  WAL is written once, at the end, because no other
 * transaction can see the index until ours commits.
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

#include "base/step.h"
#include "mirror/mirror.h"
#include "am.h"

/* Numbers of a new index's base run, and of the change made by the build */
#define BASE_RUN				2
#define BUILD_CHANGE			1

/* Report progress every this many rows */
#define REPORT_ROWS				8192

typedef struct GjBuildState
{
	GjIndexInfo info;
	FmgrInfo   *key_proc;
	GjRowSort  *sort;
	uint64		nentries;
} GjBuildState;

static uint64 make_build_id(void);
static int	lanes_option(Relation index);
static void forget_cached_info(Relation index);
static void add_entry(Relation index, ItemPointer tid, Datum *values, bool *isnull,
					  bool tuple_is_alive, void *arg);
static bool write_run(GjBuildState *state, Relation index, GjRun *run);

/*
 * Build a new index
 */
IndexBuildResult *
gjbuild(Relation heap, Relation index, IndexInfo *indexInfo)
{
	IndexBuildResult *result;
	GjBuildState *state;
	GjRun		run;
	bool		has_run;
	double		heap_tuples;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	/* TRUNCATE of a table made in this transaction rebuilds under the same relcache entry */
	forget_cached_info(index);
	GjMirrorRelationRebuilt(index);

	GjIndexInitFork(index, MAIN_FORKNUM, make_build_id(), lanes_option(index), false);
	GjStep("created");

	state = palloc0(sizeof(GjBuildState));
	state->key_proc = index_getprocinfo(index, 1, GJ_KEY_PROC);
	GjIndexGetInfo(index, &state->info);
	state->sort = GjRowSortBegin(&state->info, (Size) maintenance_work_mem * 1024);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, GJ_BUILD_LOADING);
	if (heap->rd_rel->reltuples >= 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL,
									 (int64) heap->rd_rel->reltuples);

	/* no synchronized scan: ascending TIDs save half of the sort */
	heap_tuples = table_index_build_scan(heap, index, indexInfo, false, true,
										 add_entry, state, NULL);
	GjStep("loaded");
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, GJ_BUILD_SORTING);
	GjRowSortPerform(state->sort);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, GJ_BUILD_WRITING);
	has_run = write_run(state, index, &run);
	GjRowSortEnd(state->sort);
	GjStep("filled");
	GjIndexNoteBuilt(index, has_run ? &run : NULL, NULL);
	GjStep("noted");

	if (RelationNeedsWAL(index))
	{
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, GJ_BUILD_LOGGING);
		GjIndexLogFork(index, MAIN_FORKNUM);
		GjStep("logged");
	}

	GjMirrorRelationBuilt(index);

	result = palloc(sizeof(IndexBuildResult));
	result->heap_tuples = heap_tuples;
	result->index_tuples = state->nentries;
	pfree(state);
	return result;
}

/*
 * Write the init fork of an unlogged index, to which the index is reset after a crash
 */
void
gjbuildempty(Relation index)
{
	GjIndexInitFork(index, INIT_FORKNUM, make_build_id(), lanes_option(index), false);

	/* log it even for an unlogged index: a crash must not lose the init fork itself */
	GjIndexLogFork(index, INIT_FORKNUM);
	GjStep("emptied");
}

/*
 * Generate an id that no other build of any index has
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
 * Heap scan callback: add one tuple's entry
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
	GjRowSortAdd(state->sort, row);
	if (++state->nentries % REPORT_ROWS == 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) state->nentries);
}

/*
 * Write the base run.  Returns false if there is nothing to write.
 */
static bool
write_run(GjBuildState *state, Relation index, GjRun *run)
{
	GjRunWriter *writer = GjRunWriterBegin(index, &state->info, BASE_RUN, BUILD_CHANGE, true);
	uint64		done = 0;
	const char *row;

	while ((row = GjRowSortNext(state->sort)) != NULL)
	{
		GjRunWriterAdd(writer, row);
		if (++done % REPORT_ROWS == 0)
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) done);
	}
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) done);
	(void) GjRunWriterEnd(writer, run);
	run->published = BUILD_CHANGE;
	return run->entries > 0;
}
