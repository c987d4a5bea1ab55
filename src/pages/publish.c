/*-------------------------------------------------------------------------
 *
 * publish.c
 *	  Changing the list of runs and deltas of an index, each change by one WAL record of the
 *	  metapage; and the record that writes a run's pages.
 *
 * Only a fold makes these changes, under the fold lock (am/am.h), so only one fold runs at a time.
 * Deletions, which count a run's dead entries in the metapage, take that lock, too.  Only the
 * current delta and the lanes can change at the same time.
 *
 * Freeing pages increments list_version, by the same record: lemma L1 of src/README.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/step.h"
#include "pages.h"

StaticAssertDecl(GJ_PAGES_PER_RECORD <= XLR_NORMAL_MAX_BLOCK_ID + 1,
				 "a record has room for the pages");

/* A change of the metapage in progress */
typedef struct MetaChange
{
	Buffer		buffer;
	GenericXLogState *record;
	GjMetaPage	meta;
} MetaChange;

static void log_images(const Buffer *buffers, int n);
static void set_runs(GjMetaPage meta, const GjRun *runs, int nruns);
static void set_null_runs(GjMetaPage meta, const GjRun *runs, int nruns);
static uint32 draw_number(Relation index, GjMetaPage meta);

/*
 * Begin a change; it also makes the index one of the newest format, before any narrow page is
 * written, and gives a metapage of format 2 the fields of format 3
 */
static void
begin_meta_change(MetaChange *change, Relation index)
{
	Page		page;

	change->buffer = ReadBuffer(index, GJ_META_BLOCK);
	LockBuffer(change->buffer, BUFFER_LOCK_EXCLUSIVE);
	GjMetaCheck(index, change->buffer);
	change->record = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(change->record, change->buffer, 0);
	change->meta = GjPageGetMeta(page);
	if (change->meta->version == GJ_OLDEST_FORMAT)
	{
		memset(GjMetaGetMore(change->meta), 0, sizeof(GjMetaMoreData));
		change->meta->version = GJ_FORMAT_PLAIN;
		((PageHeader) page)->pd_lower = GjMetaEnd(change->meta) - (char *) page;
	}
	if (!GjPagesArePlain())
		change->meta->version = GJ_FORMAT_VERSION;
}

static void
finish_change(MetaChange *change)
{
	GenericXLogFinish(change->record);
	UnlockReleaseBuffer(change->buffer);
}

/*
 * Write pages of a run that is not published yet to free pages, which are exclusively locked
 *
 * Their images go into a WAL record type that PostgreSQL itself replays, as for a build.
 * Generic WAL would copy each page four more times, into memory allocated for each record.
 */
void
GjRunPagesWrite(Relation index, const Buffer *buffers, const PGAlignedBlock *images, int n)
{
	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
	{
		memcpy(BufferGetPage(buffers[i]), images[i].data, BLCKSZ);
		MarkBufferDirty(buffers[i]);
	}
	if (RelationNeedsWAL(index))
		log_images(buffers, n);
	END_CRIT_SECTION();
	GjStep("logged pages");
}

static void
log_images(const Buffer *buffers, int n)
{
	XLogRecPtr	end;

	XLogBeginInsert();
	for (int i = 0; i < n; i++)
		XLogRegisterBuffer(i, buffers[i], REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
	end = XLogInsert(RM_XLOG_ID, XLOG_FPI);
	for (int i = 0; i < n; i++)
		PageSetLSN(BufferGetPage(buffers[i]), end);
}

/*
 * Give up the run that a fold has left unfinished, which frees its pages
 */
void
GjFoldForget(Relation index)
{
	MetaChange	change;

	begin_meta_change(&change, index);
	change.meta->fold_run = 0;
	change.meta->sequence++;	/* as for any freeing of pages: read.c */
	change.meta->list_version++;
	finish_change(&change);
}

/*
 * Start a new delta of a part; the current one becomes the previous one, to be folded
 */
void
GjDeltaRotate(Relation index, bool of_nulls)
{
	MetaChange	change;
	uint32		number;
	GjDelta    *delta;
	GjDelta    *previous;

	begin_meta_change(&change, index);
	delta = GjMetaGetDelta(change.meta, of_nulls);
	previous = GjMetaGetPrevious(change.meta, of_nulls);
	if (previous->run != 0)
		elog(ERROR, "index \"%s\" has a delta to be folded", RelationGetRelationName(index));
	number = draw_number(index, change.meta);
	*previous = *delta;
	*delta = (GjDelta) {.run = number, .head = InvalidBlockNumber};
	finish_change(&change);
}

/*
 * Make sure that a lane adds nothing more to the previous delta; returns true if it had a page
 * of it open.  If the lane's tail has no rows, note that.
 *
 * The lock on the lane's tail keeps all other processes from using the lane.
 */
bool
GjLaneClose(Relation index, int lane)
{
	Buffer		tail = ReadBuffer(index, GJ_FIRST_TAIL_BLOCK + lane);
	MetaChange	change;
	GjLane	   *closed;
	bool		was_open;
	bool		is_empty;

	LockBuffer(tail, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, tail, GJ_PAGE_TAIL);
	begin_meta_change(&change, index);
	closed = GjMetaGetLane(change.meta, lane);
	was_open = closed->run == GjMetaGetPrevious(change.meta, lane >= change.meta->nlanes)->run &&
		BlockNumberIsValid(closed->open_block);
	is_empty = GjPageGetOpaque(BufferGetPage(tail))->used == 0 && lane < change.meta->nlanes &&
		GjMetaTracksTails(change.meta) &&
		(GjMetaUsedTails(change.meta) & UINT64CONST(1) << lane) != 0;
	if (was_open)
		closed->open_block = InvalidBlockNumber;
	if (is_empty)
		GjMetaGetMore(change.meta)->empty_tails |= UINT64CONST(1) << lane;
	if (was_open || is_empty)
		finish_change(&change);
	else
	{
		GenericXLogAbort(change.record);
		UnlockReleaseBuffer(change.buffer);
	}
	UnlockReleaseBuffer(tail);
	return was_open;
}

/*
 * Reserve a number for the run that a fold is about to write, and the sequence number of its
 * pages
 */
uint32
GjFoldBegin(Relation index, uint64 *sequence)
{
	MetaChange	change;
	uint32		number;

	begin_meta_change(&change, index);
	if (change.meta->fold_run != 0)
		elog(ERROR, "index \"%s\" has an unfinished fold", RelationGetRelationName(index));
	number = draw_number(index, change.meta);
	change.meta->fold_run = number;
	*sequence = ++change.meta->sequence;
	finish_change(&change);
	return number;
}

/*
 * Replace the runs of a part by the given ones; if a run's published number is 0, set it to the
 * current sequence number
 *
 * With folded, the fold's new run is one of them, unless the fold had nothing to write, and the
 * previous delta is removed.  The pages of that delta, and of all runs that are not among these,
 * become free.  end is the block after the last page of the runs.
 */
void
GjRunsPublish(Relation index, bool of_nulls, const GjRun *runs, int nruns, BlockNumber end,
			  bool folded)
{
	MetaChange	change;
	GjMetaPage	meta;

	Assert(nruns <= (of_nulls ? GJ_MAX_NULL_RUNS : GJ_MAX_RUNS));
	begin_meta_change(&change, index);
	meta = change.meta;
	meta->sequence++;
	if (of_nulls)
		set_null_runs(meta, runs, nruns);
	else
		set_runs(meta, runs, nruns);
	if (folded)
	{
		meta->fold_run = 0;
		*GjMetaGetPrevious(meta, of_nulls) = (GjDelta) {.head = InvalidBlockNumber};
	}
	meta->list_version++;
	meta->min_blocks = Max(meta->min_blocks, end);
	finish_change(&change);
}

/*
 * Reserve a number for the run that a merge is about to write in steps, and mark the runs that it
 * replaces
 *
 * There must be at least one, and at most GJ_MAX_RUNS - 1, or a fold in between would find no room
 * in the list.
 */
uint32
GjMergeAnnounce(Relation index, const bool *is_source)
{
	MetaChange	change;
	uint32		number;

	begin_meta_change(&change, index);
	if (GjMetaGetMore(change.meta)->merge_run != 0)
		elog(ERROR, "index \"%s\" has an unfinished merge", RelationGetRelationName(index));
	number = draw_number(index, change.meta);
	GjMetaGetMore(change.meta)->merge_run = number;
	GjMetaGetMore(change.meta)->merge_dead = 0;
	for (int i = 0; i < change.meta->nruns; i++)
	{
		if (is_source[i])
			GjMetaGetRun(change.meta, i)->flags |= GJ_RUN_SOURCE;
	}
	finish_change(&change);
	return number;
}

/*
 * Draw the sequence number of the pages that a step of a merge writes
 *
 * Each step needs one of its own.  A page that it takes may have been free when the merge began,
 * and a device may have a copy of its contents in between, with a number that must be older.
 */
uint64
GjMergeDrawChange(Relation index)
{
	MetaChange	change;
	uint64		sequence;

	begin_meta_change(&change, index);
	sequence = ++change.meta->sequence;
	finish_change(&change);
	return sequence;
}

/*
 * List the run that a merge has written at the place of the first of its sources, which become
 * free; end is the block after its last page
 *
 * A run without entries is not listed.  Entries that were deleted from its pages since they were
 * written count as dead.
 */
void
GjMergePublish(Relation index, const GjRun *run, BlockNumber end)
{
	MetaChange	change;
	GjMetaMore	more;
	GjRun		runs[GJ_MAX_RUNS];
	int			nruns = 0;
	bool		listed = run->entries == 0;

	begin_meta_change(&change, index);
	more = GjMetaGetMore(change.meta);
	if (more->merge_run != run->run)
		elog(ERROR, "index \"%s\" has another merge", RelationGetRelationName(index));
	change.meta->sequence++;
	for (int i = 0; i < change.meta->nruns; i++)
	{
		const GjRun *old = GjMetaGetRun(change.meta, i);

		if (!GjRunIsSource(old))
			runs[nruns++] = *old;
		else if (!listed)
		{
			runs[nruns] = *run;
			runs[nruns++].dead = more->merge_dead;
			listed = true;
		}
	}
	set_runs(change.meta, runs, nruns);
	more->merge_run = 0;
	more->merge_dead = 0;
	change.meta->list_version++;
	change.meta->min_blocks = Max(change.meta->min_blocks, end);
	finish_change(&change);
}

/*
 * Give up the run that a merge has left unfinished, which frees its pages
 */
void
GjMergeForget(Relation index)
{
	MetaChange	change;

	begin_meta_change(&change, index);
	GjMetaGetMore(change.meta)->merge_run = 0;
	GjMetaGetMore(change.meta)->merge_dead = 0;
	for (int i = 0; i < change.meta->nruns; i++)
		GjMetaGetRun(change.meta, i)->flags &= ~GJ_RUN_SOURCE;
	change.meta->sequence++;	/* as for any freeing of pages: read.c */
	change.meta->list_version++;
	finish_change(&change);
}

/*
 * List these runs, and no others
 */
static void
set_runs(GjMetaPage meta, const GjRun *runs, int nruns)
{
	memset(meta->runs, 0, sizeof(meta->runs));
	memset(GjMetaGetMore(meta)->runs, 0, sizeof(GjMetaGetMore(meta)->runs));
	for (int i = 0; i < nruns; i++)
	{
		*GjMetaGetRun(meta, i) = runs[i];
		if (runs[i].published == 0)
			GjMetaGetRun(meta, i)->published = meta->sequence;
	}
	meta->nruns = nruns;
}

static void
set_null_runs(GjMetaPage meta, const GjRun *runs, int nruns)
{
	GjMetaNull	nulls = GjMetaGetNulls(meta);

	memset(nulls->runs, 0, sizeof(nulls->runs));
	for (int i = 0; i < nruns; i++)
	{
		nulls->runs[i] = runs[i];
		if (runs[i].published == 0)
			nulls->runs[i].published = meta->sequence;
	}
	nulls->nruns = nruns;
}

/*
 * Return a new number for a run or delta.  Numbers are not reused, because pages of dead ones
 * still carry theirs.
 */
static uint32
draw_number(Relation index, GjMetaPage meta)
{
	if (meta->next_run > GJ_MAX_RUN_NUMBER)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has been folded too often", RelationGetRelationName(index)),
				 errhint("REINDEX it.")));
	return meta->next_run++;
}
