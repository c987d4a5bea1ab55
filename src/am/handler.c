/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method's handler, builds, and scans of PostgreSQL's own.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/backend_progress.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/buffers.h"
#include "base/compat.h"
#include "base/prefetch.h"
#include "base/settings.h"
#include "base/step.h"
#include "base/tid.h"
#include "match/match.h"
#include "mirror/mirror.h"
#include "plan/plan.h"
#include "stats/stats.h"
#include "am.h"

/* Phases of a build, in pg_stat_progress_create_index */
#define GJ_BUILD_LOADING		2
#define GJ_BUILD_SORTING		3
#define GJ_BUILD_WRITING		4
#define GJ_BUILD_LOGGING		5

/* Number of the change made by the build */
#define BUILD_CHANGE			1

/* NULL keys get this part of the memory for sorting, when there are any: they come nearly sorted */
#define NULL_SORT_PART			16

/* Report progress every this many rows */
#define REPORT_ROWS				8192

/* Number of rows in the sample of a table with numeric columns */
#define SAMPLE_ROWS				1000

/* Without a sample: a display scale, and decimal places before the point */
#define USUAL_DISPLAY_SCALE		2
#define USUAL_PLACES			7

/* Decimal places of a word, and those before the point that are left free */
#define WORD_PLACES				18
#define FREE_PLACES				2

/* Number of rows that a plain scan prefetches together */
#define PREFETCHED_ROWS			16

/* The scale of numeric(precision, scale), of 11 bits since version 15 */
#define TYPMOD_PRECISION(typmod)	(((typmod) - VARHDRSZ) >> 16 & 0xFFFF)
#define TYPMOD_SCALE(typmod)		(((((typmod) - VARHDRSZ) & 0x7FF) ^ 1024) - 1024)

typedef struct GjBuildState
{
	GjIndexInfo info;
	GjCodec		codec;
	MemoryContext scratch;		/* of the codec */
	GjRowSort  *sort;
	GjRowSort  *null_sort;		/* of entries with NULL keys; NULL before the first one */
	uint64		nentries;
} GjBuildState;

/* The sampled values of a column that have the same display scale */
typedef struct Sample
{
	int			count;
	int			whole;			/* greatest number of decimal places before the point */
	int			decimals;		/* after it, without zeroes at the end */
} Sample;

/* The state of a scan, which lives as long as the scan */
typedef struct PlainScan
{
	MemoryContext context;		/* of the state */
	MemoryContext search;		/* of the last search */
	bool		has_rests;		/* do the index's codes have rests? */
	GjConverter *converters;	/* of the scan keys; NULL until the first search */
	GjMatchStats stats;			/* of all searches */
	GjSearchMemo *memo;			/* NULL before the second one */
	Snapshot	snapshot;		/* of the memo, with this command */
	CommandId	command;

	/* The answer to a plain scan */
	GjTidSet   *tids;			/* NULL before the first search */
	GjTidBlock	block;			/* the current block */
	int			returned;		/* the number of its TIDs that have been returned */
	bool		recheck;		/* for all TIDs */
	BlockNumber heap_blocks;	/* a lower bound of the table's length */

	/* Number of TIDs that have been returned; of those whose rows need no prefetching any more */
	uint64		taken;
	uint64		prefetched;
	bool		prefetches;		/* can further rows be prefetched? */
} PlainScan;

PG_FUNCTION_INFO_V1(gpujoin_handler);

static IndexBuildResult *gjbuild(Relation heap, Relation index, IndexInfo *indexInfo);
static void warn_of_class(Relation index, Relation heap);
static void gjbuildempty(Relation index);
static uint64 make_build_id(void);
static int	lanes_option(Relation index);
static void forget_cached_info(Relation index);
static void add_entry(Relation index, ItemPointer tid, Datum *values, bool *isnull,
					  bool tuple_is_alive, void *arg);
static bool write_base(GjBuildState *state, Relation index, GjRowSort *sort, uint32 number,
					   GjRun *run);
static char *gjbuildphasename(int64 phasenum);
static void describe_columns(Relation index, Relation heap, uint16 *flags);
static void sample_table(Relation index, Relation heap,
						 Sample (*samples)[GJ_MAX_COLUMN_SCALE + 1]);
static void sample_value(Datum value, Sample *samples);
static uint16 choose_scales(Relation index, const FormData_pg_attribute *attribute,
							const Sample *samples);
static IndexScanDesc gjbeginscan(Relation index, int nkeys, int norderbys);
static void gjrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys);
static bool gjgettuple(IndexScanDesc scan, ScanDirection direction);
static int64 gjgetbitmap(IndexScanDesc scan, TIDBitmap *tbm);
static void gjendscan(IndexScanDesc scan);
static void search(IndexScanDesc scan);
static void prefetch_next(IndexScanDesc scan);
static void prefetch_rows(Relation heap, const uint64 *tids, int n);
static void search_tids(IndexScanDesc scan, GjKeySet *keys, bool may_be_stale, GjTidSet *tids);
static void forget_memo(PlainScan *state);
static bool next_heap_block(IndexScanDesc scan);
static GjKeySet *make_key_set(IndexScanDesc scan);
static void init_converters(IndexScanDesc scan);
static bool key_may_fail(Relation index);
static BlockNumber get_heap_length(Relation index);
static int64 fill_bitmap(GjTidSet *tids, BlockNumber heap_blocks, TIDBitmap *tbm, bool recheck);

/* The access method's properties and functions */
static const IndexAmRoutine am_routine = {
	.type = T_IndexAmRoutine,
	.amstrategies = GJ_NSTRATEGIES,
	.amsupport = GJ_NPROCS,
	.amoptsprocnum = 0,
	.amcanorder = false,
	.amcanorderbyop = false,
	.amcanbackward = false,
	.amcanunique = false,
	.amcanmulticol = false,
	.amoptionalkey = false,		/* no scans of the whole index */
	.amsearcharray = true,
	.amsearchnulls = false,
	.amstorage = true,
	.amclusterable = false,
	.ampredlocks = false,		/* core and our nodes lock the whole index */
	.amcanparallel = false,
	.amcaninclude = true,
	.amusemaintenanceworkmem = true,
#ifdef GJ_HAVE_AMSUMMARIZING
	.amsummarizing = false,
#endif
#ifdef GJ_HAVE_AMCONSISTENTEQUALITY
	.amconsistentequality = true,
	.amconsistentordering = false,
#endif
	.amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL,
	.amkeytype = InvalidOid,

	.ambuild = gjbuild,
	.ambuildempty = gjbuildempty,
	.aminsert = gjinsert,
	.ambulkdelete = gjbulkdelete,
	.amvacuumcleanup = gjvacuumcleanup,
	.amcostestimate = gjcostestimate,
	.amoptions = gjoptions,
	.ambuildphasename = gjbuildphasename,
	.amvalidate = gjvalidate,
	.amadjustmembers = gjadjustmembers,
	.ambeginscan = gjbeginscan,
	.amrescan = gjrescan,
	.amgettuple = gjgettuple,
	.amgetbitmap = gjgetbitmap,
	.amendscan = gjendscan,
};

/*
 * Return the access method's properties and functions
 */
Datum
gpujoin_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(GjAmRoutine(&am_routine));
}

/*-------------------------------------------------------------------------
 * CREATE INDEX and REINDEX
 *
 * The heap is read in physical order, and the entries are sorted and become the base run.  The
 * sort may use maintenance_work_mem.  WAL is written once, at the end, because no other
 * transaction can see the index until ours commits.
 *-------------------------------------------------------------------------
 */

/*
 * Build a new index
 */
static IndexBuildResult *
gjbuild(Relation heap, Relation index, IndexInfo *indexInfo)
{
	IndexBuildResult *result;
	GjBuildState *state;
	uint16		flags[GJ_MAX_INCLUDED];
	GjRun		run;
	GjRun		null_run;
	bool		has_run;
	bool		has_nulls;
	double		heap_tuples;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	/* its check would search under a snapshot that sees rows of running transactions */
	if (indexInfo->ii_ExclusionOps != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support exclusion constraints", GJ_NAME)));

	warn_of_class(index, heap);

	/* TRUNCATE of a table made in this transaction rebuilds under the same relcache entry */
	forget_cached_info(index);
	GjMirrorRelationRebuilt(index);

	describe_columns(index, heap, flags);
	GjIndexInitFork(index, MAIN_FORKNUM, make_build_id(), lanes_option(index), flags);
	GjStep("created");

	state = palloc0(sizeof(GjBuildState));
	GjCodecInitIndex(&state->codec, index);
	state->scratch = AllocSetContextCreate(CurrentMemoryContext, "gpujoin build key",
										   ALLOCSET_DEFAULT_SIZES);
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
	has_run = write_base(state, index, state->sort, GJ_BASE_RUN, &run);
	GjRowSortEnd(state->sort);
	has_nulls = state->null_sort != NULL;
	if (has_nulls)
	{
		GjRowSortPerform(state->null_sort);
		(void) write_base(state, index, state->null_sort, GJ_NULL_RUN, &null_run);
		GjRowSortEnd(state->null_sort);
	}
	GjStep("filled");
	GjIndexNoteBuilt(index, has_run ? &run : NULL, has_nulls ? &null_run : NULL);
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
	MemoryContextDelete(state->scratch);
	pfree(state);
	return result;
}

/*
 * Warn of an index that no query will use, because the column's type has operators of its own
 */
static void
warn_of_class(Relation index, Relation heap)
{
	AttrNumber	attno = index->rd_index->indkey.values[0];
	Oid			type;

	if (attno == InvalidAttrNumber)
		return;
	type = TupleDescAttr(RelationGetDescr(heap), attno - 1)->atttypid;
	if (!GjClassIsOfType(index->rd_opcintype[0], type))
		ereport(WARNING,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("conditions with the operators of type %s will not use index \"%s\"",
						format_type_be_qualified(type), RelationGetRelationName(index)),
				 errdetail("The index has the operator class of type text."),
				 errhint("Create an operator class for access method \"%s\" with the type's "
						 "equality operator and its extended hash function.", GJ_NAME)));
}

/*
 * Write the init fork of an unlogged index, to which the index is reset after a crash
 */
static void
gjbuildempty(Relation index)
{
	uint16		flags[GJ_MAX_INCLUDED];

	describe_columns(index, NULL, flags);
	GjIndexInitFork(index, INIT_FORKNUM, make_build_id(), lanes_option(index), flags);

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
	MemoryContext old;
	char		row[GJ_MAX_ROW_WIDTH];
	int64		code;
	int64		rest;

	if (isnull[0] && !state->info.stores_nulls)
		return;
	if (isnull[0] && state->null_sort == NULL)
		state->null_sort = GjRowSortBegin(&state->info, (Size) maintenance_work_mem * 1024 /
										  NULL_SORT_PART);
	old = MemoryContextSwitchTo(state->scratch);
	if (isnull[0])
		code = rest = 0;
	else
		code = GjPairOf(&state->codec, values[0], &rest);
	GjRowForm(&state->info, code, rest, tid, values + 1, isnull + 1, row);
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->scratch);
	GjRowSortAdd(isnull[0] ? state->null_sort : state->sort, row);
	if (++state->nentries % REPORT_ROWS == 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) state->nentries);
}

/*
 * Write the base run of a part.  Returns false if there is nothing to write.
 */
static bool
write_base(GjBuildState *state, Relation index, GjRowSort *sort, uint32 number, GjRun *run)
{
	GjRunWriter *writer = GjRunWriterBegin(index, &state->info, number, BUILD_CHANGE, true);
	uint64		done = 0;
	const char *row;

	GjRunWriterMeasure(writer, sort);
	while ((row = GjRowSortNext(sort)) != NULL)
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

static char *
gjbuildphasename(int64 phasenum)
{
	switch (phasenum)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case GJ_BUILD_LOADING:
			return "loading entries";
		case GJ_BUILD_SORTING:
			return "sorting entries";
		case GJ_BUILD_WRITING:
			return "writing pages";
		case GJ_BUILD_LOGGING:
			return "writing WAL";
		default:
			return NULL;
	}
}

/*-------------------------------------------------------------------------
 * Scales of numeric columns
 *
 * Choose the two scales of each numeric column of a new index (base/numeric.c).  Any scales are
 * correct; those of most of the table's values avoid reading rows from the table.
 *
 * The display scale is that of the type, as in numeric(12,2), or else the most frequent one in a
 * sample, the first rows of the table.  The stored scale is the same if all values of the type fit
 * in a word then.  Otherwise it leaves room for integers a hundred times as big as those of the
 * sample, as long as this costs none of the sample's decimals: of a numeric(65,30), which
 * applications declare needlessly, only the decimals that are in use are stored.
 *
 * An empty table, and the copy to which an unlogged index is reset, have no sample.  The index
 * option numeric_scale is the stored scale, and the display scale where the type has none.
 *-------------------------------------------------------------------------
 */

/*
 * Choose the flags of the INCLUDE columns of a new index (GjColumnDesc).  heap is NULL if the index
 * is to be empty.
 */
static void
describe_columns(Relation index, Relation heap, uint16 *flags)
{
	TupleDesc	desc = RelationGetDescr(index);
	Sample		(*samples)[GJ_MAX_COLUMN_SCALE + 1] = palloc0(desc->natts * sizeof(*samples));
	bool		any = false;

	memset(flags, 0, GJ_MAX_INCLUDED * sizeof(uint16));
	for (int i = 1; i < desc->natts; i++)
		any |= GjColumnIsNumeric(TupleDescAttr(desc, i));
	if (any && heap != NULL)
		sample_table(index, heap, samples);
	for (int i = 1; i < Min(desc->natts, GJ_MAX_INCLUDED + 1); i++)
	{
		if (GjColumnIsNumeric(TupleDescAttr(desc, i)))
			flags[i - 1] = choose_scales(index, TupleDescAttr(desc, i), samples[i]);
		else
			flags[i - 1] = GjColumnNewFlags(TupleDescAttr(desc, i));
	}
	pfree(samples);
}

/*
 * Read the first rows of the table, whether they are alive or not, as the build may do later
 */
static void
sample_table(Relation index, Relation heap, Sample (*samples)[GJ_MAX_COLUMN_SCALE + 1])
{
	TableScanDesc scan = table_beginscan_strat(heap, SnapshotAny, 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(heap, NULL);

	for (int n = 0; n < SAMPLE_ROWS && table_scan_getnextslot(scan, ForwardScanDirection, slot);
		 n++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 1; i < RelationGetDescr(index)->natts; i++)
		{
			bool		isnull;
			Datum		value;

			if (!GjColumnIsNumeric(TupleDescAttr(RelationGetDescr(index), i)))
				continue;
			value = slot_getattr(slot, index->rd_index->indkey.values[i], &isnull);
			if (!isnull)
				sample_value(value, samples[i]);
		}
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
}

/*
 * Add a value to the samples of its display scale.  A dead row's toasted value may be gone.
 */
static void
sample_value(Datum value, Sample *samples)
{
	const struct varlena *numeric = (const struct varlena *) DatumGetPointer(value);
	GjNumericParts parts;
	Sample	   *sample;
	int16		digit;
	int			decimals;

	if (VARATT_IS_EXTERNAL(numeric) || VARATT_IS_COMPRESSED(numeric))
		return;
	GjNumericRead(numeric, &parts);
	if (parts.is_special || parts.display_scale > GJ_MAX_COLUMN_SCALE)
		return;
	sample = &samples[parts.display_scale];
	sample->count++;
	if (parts.ndigits == 0)
		return;

	/* a digit has four decimal places */
	memcpy(&digit, parts.digits, sizeof(digit));
	sample->whole = Max(sample->whole, 4 * parts.weight + (digit >= 1000 ? 4 : digit >= 100 ? 3 :
														   digit >= 10 ? 2 : 1));
	memcpy(&digit, parts.digits + (parts.ndigits - 1) * sizeof(digit), sizeof(digit));
	decimals = 4 * (parts.ndigits - 1 - parts.weight);
	decimals -= digit % 1000 == 0 ? 3 : digit % 100 == 0 ? 2 : digit % 10 == 0 ? 1 : 0;
	sample->decimals = Max(sample->decimals, decimals);
}

/*
 * Choose the scales of a column from its type and from samples of each display scale
 */
static uint16
choose_scales(Relation index, const FormData_pg_attribute *attribute, const Sample *samples)
{
	Sample		sample = {.whole = USUAL_PLACES};
	int32		typmod = attribute->atttypmod;
	int			option = GJ_AUTO_SCALE;
	int			display = USUAL_DISPLAY_SCALE;
	int			stored;

	if (index->rd_options != NULL)
		option = ((GjOptions *) index->rd_options)->numeric_scale;

	if (typmod < 0)
		(void) getBaseTypeAndTypmod(attribute->atttypid, &typmod);
	if (typmod >= (int32) VARHDRSZ)
		display = Max(TYPMOD_SCALE(typmod), 0);
	else if (option != GJ_AUTO_SCALE)
		display = option;
	else
	{
		for (int i = 0; i <= GJ_MAX_COLUMN_SCALE; i++)
		{
			if (samples[i].count > sample.count)
			{
				sample = samples[i];
				display = i;
			}
		}
	}
	if (display > GJ_MAX_COLUMN_SCALE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" cannot include column \"%s\" with a scale above %d",
						GJ_NAME, NameStr(attribute->attname), GJ_MAX_COLUMN_SCALE),
				 errhint("Leave the column out of INCLUDE; it is then read from the table.")));
	if (samples[display].count > 0)
		sample = samples[display];

	if (option != GJ_AUTO_SCALE)
		stored = Min(display, option);
	else if (typmod >= (int32) VARHDRSZ && TYPMOD_PRECISION(typmod) <= WORD_PLACES)
		stored = display;
	else
		stored = Min(display, Max(sample.decimals, WORD_PLACES - FREE_PLACES - sample.whole));
	stored = Max(Min(stored, GJ_MAX_STORED_SCALE), 0);
	return GJ_COLUMN_FLAGS(GJ_COLUMN_NUMERIC, display, stored);
}

/*-------------------------------------------------------------------------
 * The scans of PostgreSQL's own nodes
 *
 * Index Scan and Bitmap Index Scan, for "key = value" and "key = ANY (array)".
 *
 * Bitmaps let our indexes be combined with others.  Plain index scans are for keys that come from
 * another table, row by row: nested loops, LATERAL and correlated subqueries.  PostgreSQL plans
 * these itself, with Memoize, and for each partition.  They also find few rows that are changed or
 * locked (plan/scanpath.c).
 *
 * The first call of a plain scan searches for all keys on the CPU, and keeps the TIDs, in heap
 * order, each once.  The scan then holds no pin and no lock on the index, however long it is
 * paused: inserts, folds, merges and VACUUM go on.
 *
 * Claim: the scan returns each row that its snapshot sees and that has a wanted key, once, and of
 * other rows only such that PostgreSQL rejects, because xs_recheck asks it to test the condition.
 *
 *	- Only MVCC snapshots search, and the snapshot was taken before.  So all own entries of the
 *	  wanted rows are found (lemma L4 of src/README, and the head of match/search.c).
 *	- The TIDs are fetched as lemma L8 says: by index_fetch_heap(), under this snapshot, along HOT
 *	  chains.  So the wanted rows are returned, once each.  The recheck of the bitmap heap scan
 *	  in L8 is not needed: the entries were found on pages, never in a mirror, so each is certain
 *	  (L7).  If its TID leads to a row that the snapshot sees, it is the row's own entry,
 *	  even if the row was fetched much later, and VACUUM has removed entries meanwhile: a row that
 *	  reuses a TID is too young for the snapshot.  So the row's key has the entry's code.
 *	- If a code does not prove the key, or the TIDs of a block do not fit in memory, or the index
 *	  lacks rows of a standby's old snapshot (match/snapshot.c), the condition is rechecked.  Of a
 *	  block whose TIDs are unknown, each possible TID is returned; a TID that is not the root of a
 *	  HOT chain, or that does not exist, leads to no row.
 *
 * PostgreSQL does not recheck the predicate of a partial index above a plain index scan, as it does
 * above a bitmap.  So plan/hooks.c hides these scans of partial indexes, and we refuse them.
 *
 * EvalPlanQual tests the condition on the row itself.  No row is reported as dead
 * (kill_prior_tuple is ignored): only VACUUM deletes entries.  Scans go forward only, and have no
 * order and no marks.  The executor has locked the table, so that it does not get shorter.
 *-------------------------------------------------------------------------
 */

/*
 * Begin a scan
 */
static IndexScanDesc
gjbeginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	PlainScan  *state = palloc0(sizeof(PlainScan));

	state->context = CurrentMemoryContext;
	state->search = AllocSetContextCreate(CurrentMemoryContext, "gpujoin index scan",
										  ALLOCSET_DEFAULT_SIZES);
	scan->opaque = state;
	return scan;
}

/*
 * Take new scan keys, and forget the answer to the old ones
 */
static void
gjrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	PlainScan  *state = scan->opaque;

	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	state->tids = NULL;
	MemoryContextReset(state->search);
}

/*
 * Return the next TID
 */
static bool
gjgettuple(IndexScanDesc scan, ScanDirection direction)
{
	PlainScan  *state = scan->opaque;

	if (direction != ForwardScanDirection)
		elog(ERROR, "gpujoin supports only forward scans");
	if (state->tids == NULL)
		search(scan);

	for (;;)
	{
		int			n = state->block.lossy ? MaxHeapTuplesPerPage : state->block.noffsets;

		if (state->returned < n)
			break;
		if (!next_heap_block(scan))
			return false;
	}
	ItemPointerSet(&scan->xs_heaptid, state->block.block,
				   state->block.lossy ? FirstOffsetNumber + state->returned :
				   state->block.offsets[state->returned]);
	state->returned++;
	if (state->taken++ > 0 && state->prefetches)
		prefetch_next(scan);
	scan->xs_recheck = state->recheck || state->block.lossy;
	return true;
}

/*
 * Search for the keys of a plain scan
 */
static void
search(IndexScanDesc scan)
{
	PlainScan  *state = scan->opaque;
	Relation	index = scan->indexRelation;
	MemoryContext old = MemoryContextSwitchTo(state->search);
	GjIndexInfo info;
	GjTidSet   *tids;

	if (!IsMVCCSnapshot(scan->xs_snapshot) || RelationGetIndexPredicate(index) != NIL)
		elog(ERROR, "index \"%s\" cannot be scanned in this way", RelationGetRelationName(index));

	GjIndexGetInfo(index, &info);
	tids = GjTidSetCreate(state->search, get_hash_memory_limit());
	search_tids(scan, make_key_set(scan), false, tids);
	state->recheck = info.hashed;
	state->block = (GjTidBlock) {0};
	state->returned = 0;
	state->taken = 0;
	state->prefetched = 1;
	state->prefetches = scan->heapRelation->rd_tableam == GetHeapamTableAmRoutine() &&
		!RelationUsesLocalBuffers(scan->heapRelation);
	state->tids = tids;
	MemoryContextSwitchTo(old);
}

/*
 * Remember the buffer of the row that PostgreSQL has fetched last, and prefetch the next rows,
 * beginning with the one whose TID is returned
 *
 * PostgreSQL fetches them one by one, each from another page.  The first row of a scan is not
 * prefetched: it is fetched at once, and often no other one is wanted.
 */
static void
prefetch_next(IndexScanDesc scan)
{
	PlainScan  *state = scan->opaque;
	Buffer		buffer = ((IndexFetchHeapData *) scan->xs_heapfetch)->xs_cbuf;
	const uint64 *tids;
	uint64		ntids;

	if (BufferIsValid(buffer))
		GjBufferNote(scan->heapRelation, BufferGetBlockNumber(buffer), buffer);
	if (state->taken <= state->prefetched)
		return;
	state->prefetches = GjTidSetGetArray(state->tids, &tids, &ntids) && ntids > state->taken;
	if (state->prefetches)
	{
		int			n = Min(ntids - state->taken + 1, PREFETCHED_ROWS);

		prefetch_rows(scan->heapRelation, tids + state->taken - 1, n);
		state->prefetched = state->taken - 1 + n;
	}
}

/*
 * Prefetch the memory of some rows, as far as the buffers of their pages are known
 *
 * The pages are not pinned: what is read there is only an address.
 */
static void
prefetch_rows(Relation heap, const uint64 *tids, int n)
{
	Buffer		buffers[PREFETCHED_ROWS];

	for (int i = 0; i < n; i++)
		GjBufferExpect(heap, GjPackedBlock(tids[i]));
	for (int i = 0; i < n; i++)
		buffers[i] = GjBufferRecall(heap, GjPackedBlock(tids[i]));
	for (int i = 0; i < n; i++)
	{
		if (!BufferIsValid(buffers[i]))
			continue;
		GjPrefetch(BufferGetPage(buffers[i]));
		GjPrefetch(PageGetItemId(BufferGetPage(buffers[i]), GjPackedOffset(tids[i])));
	}
	for (int i = 0; i < n; i++)
	{
		Page		page;

		if (!BufferIsValid(buffers[i]))
			continue;
		page = BufferGetPage(buffers[i]);
		GjPrefetch(page + ItemIdGetOffset(PageGetItemId(page, GjPackedOffset(tids[i]))));
	}
}

/*
 * Find the TIDs of all entries with a wanted key
 */
static void
search_tids(IndexScanDesc scan, GjKeySet *keys, bool may_be_stale, GjTidSet *tids)
{
	Relation	index = scan->indexRelation;
	PlainScan  *state = scan->opaque;

	GjPredicateLock(index, scan->xs_snapshot);
	GjCountIndexSearch(scan);
	if (!GjIndexIsComplete(index, scan->xs_snapshot))
	{
		GjTidSetAddBlocks(tids, get_heap_length(index));
		GjMatchStatsFallback(&state->stats, GJ_FALLBACK_INCOMPLETE);
		state->stats.searches++;
	}
	else
	{
		/* a caller in C may have let the snapshot see more */
		if (state->memo != NULL && (state->snapshot != scan->xs_snapshot ||
									state->command != scan->xs_snapshot->curcid))
			forget_memo(state);
		else if (state->memo == NULL && state->stats.searches > 0)
			state->memo = GjSearchMemoCreate(state->context);
		state->snapshot = scan->xs_snapshot;
		state->command = scan->xs_snapshot->curcid;
		GjMatch(index, keys, may_be_stale, state->memo, tids, &state->stats);
	}
	GjTidSetFinish(tids);
}

static void
forget_memo(PlainScan *state)
{
	if (state->memo != NULL)
		pfree(state->memo);
	state->memo = NULL;
}

/*
 * Go to the next heap block that has TIDs
 *
 * Blocks past the end of the heap belong to rows that VACUUM truncated before the scan began, or to
 * a damaged entry.
 */
static bool
next_heap_block(IndexScanDesc scan)
{
	PlainScan  *state = scan->opaque;

	CHECK_FOR_INTERRUPTS();
	state->returned = 0;
	if (GjTidSetNextBlock(state->tids, &state->block))
	{
		if (state->block.block >= state->heap_blocks)
			state->heap_blocks = get_heap_length(scan->indexRelation);
		if (state->block.block < state->heap_blocks)
			return true;
	}
	state->block = (GjTidBlock) {0};
	return false;
}

/*
 * Add the TIDs of all entries with a wanted key to the bitmap
 */
static int64
gjgetbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	PlainScan  *state = scan->opaque;
	Relation	index = scan->indexRelation;
	MemoryContext old = MemoryContextSwitchTo(state->search);
	GjTidSet   *tids = GjTidSetCreate(state->search, get_hash_memory_limit());
	GjIndexInfo info;
	int64		ntids;

	GjIndexGetInfo(index, &info);
	state->stats.stale = false;
	search_tids(scan, make_key_set(scan), !key_may_fail(index), tids);
	MemoryContextSwitchTo(old);

	/*
	 * The TID of a stale entry may belong to a row that is visible, but has another key or does
	 * not satisfy the predicate.  Core's recheck tests both: it adds a partial index's predicate
	 * to the index's own conditions.  So request a recheck for such TIDs, as for whole blocks.
	 */
	ntids = fill_bitmap(tids, get_heap_length(index), tbm, info.hashed || state->stats.stale);
	MemoryContextReset(state->search);
	return ntids;
}

/*
 * End a scan, and add its work to the index's counters
 */
static void
gjendscan(IndexScanDesc scan)
{
	PlainScan  *state = scan->opaque;
	Oid			index = RelationGetRelid(scan->indexRelation);
	GjIndexUse	use = {0};

	if (state->stats.searches > 0)
	{
		GjMatchStatsToUse(&state->stats, &use);
		GjUsageMakeRoom(index);
		GjUsageAdd(index, &use);
	}
	MemoryContextDelete(state->search);
	if (state->converters != NULL)
		pfree(state->converters);
	forget_memo(state);
	pfree(state);
}

/*
 * Intersect the sets of all scan keys
 */
static GjKeySet *
make_key_set(IndexScanDesc scan)
{
	PlainScan  *state = scan->opaque;
	GjKeySet   *result = NULL;

	/* PostgreSQL asks for no scan without a condition (amoptionalkey) */
	if (scan->numberOfKeys == 0)
		elog(ERROR, "index \"%s\" cannot be scanned as a whole",
			 RelationGetRelationName(scan->indexRelation));
	if (state->converters == NULL)
		init_converters(scan);
	for (int i = 0; i < scan->numberOfKeys; i++)
	{
		ScanKey		key = &scan->keyData[i];
		GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext,
										 GjIndexKeyWidth(scan->indexRelation));

		GjAddDatumKeys(set, &state->converters[i], key->sk_argument,
					   (key->sk_flags & SK_ISNULL) != 0, (key->sk_flags & SK_SEARCHARRAY) != 0);
		GjKeySetFinish(set);
		if (result == NULL)
			result = set;
		else
		{
			GjKeySetIntersect(result, set);
			GjKeySetFree(set);
		}
	}
	return result;
}

/*
 * Look up how the values of the scan keys become keys.  Their types are those of the plan.
 */
static void
init_converters(IndexScanDesc scan)
{
	PlainScan  *state = scan->opaque;
	Relation	index = scan->indexRelation;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	GjConverter *converters = palloc0(scan->numberOfKeys * sizeof(GjConverter));
	GjCodec		codec;

	GjCodecInitIndex(&codec, index);	/* may raise an error */
	for (int i = 0; i < scan->numberOfKeys; i++)
	{
		Oid			type = scan->keyData[i].sk_subtype;

		if (!OidIsValid(type))
			type = index->rd_opcintype[0];
		converters[i].how = GJ_CONVERT_CODEC;
		if (type == index->rd_opcintype[0])
			converters[i].codec = codec;
		else if (!GjCodecInit(&converters[i].codec, index->rd_opfamily[0], type,
							  index->rd_indcollation[0], GjCodecHasPairs(&codec)))
			elog(ERROR, "missing key extraction function for type %u", type);
	}
	state->converters = converters;
	MemoryContextSwitchTo(old);
}

/*
 * Return true if computing the key can fail for rows outside a partial index, as 1 / x does for
 * rows excluded by WHERE x <> 0
 *
 * A bitmap heap scan rechecks conditions on the key before those of the index's predicate.  So
 * the bitmap must not contain the TIDs of such rows.  If blocks become lossy because work_mem is
 * too small, the scan meets such rows nevertheless, and may fail as it does with a btree.
 */
static bool
key_may_fail(Relation index)
{
	return index->rd_index->indkey.values[0] == InvalidAttrNumber &&
		RelationGetIndexPredicate(index) != NIL;
}

/*
 * Return the heap's length, read after the match.  The executor has locked the table.
 */
static BlockNumber
get_heap_length(Relation index)
{
	Relation	heap = table_open(index->rd_index->indrelid, NoLock);
	BlockNumber nblocks = RelationGetNumberOfBlocks(heap);

	table_close(heap, NoLock);
	return nblocks;
}

/*
 * Add the TIDs to the bitmap, one heap block at a time
 *
 * Blocks past the end of the heap belong to rows that VACUUM truncated, or to a damaged entry.  A
 * bitmap heap scan would skip them, but only after trying to prefetch them.
 */
static int64
fill_bitmap(GjTidSet *tids, BlockNumber heap_blocks, TIDBitmap *tbm, bool recheck)
{
	ItemPointerData batch[MaxHeapTuplesPerPage];
	GjTidBlock	block;
	int64		ntids = 0;

	while (GjTidSetNextBlock(tids, &block) && block.block < heap_blocks)
	{
		CHECK_FOR_INTERRUPTS();
		if (block.lossy)
		{
			tbm_add_page(tbm, block.block);
			ntids += MaxHeapTuplesPerPage;	/* as core counts a lossy page */
			continue;
		}
		for (int i = 0; i < block.noffsets; i++)
			ItemPointerSet(&batch[i], block.block, block.offsets[i]);
		tbm_add_tuples(tbm, batch, block.noffsets, recheck);
		ntids += block.noffsets;
	}
	return ntids;
}
