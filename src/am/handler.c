/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method's handler, its bitmap scans, and the check of its operator classes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "match/match.h"
#include "plan/plan.h"
#include "stats/stats.h"
#include "am.h"

PG_FUNCTION_INFO_V1(gpujoin_handler);

static char *gjbuildphasename(int64 phasenum);
static GjKeySet *make_key_set(IndexScanDesc scan);
static void add_scan_key(Relation index, GjKeySet *set, ScanKey key);
static bool key_may_fail(Relation index);
static void count(Relation index, const GjMatchStats *stats);
static BlockNumber get_heap_length(Relation index);
static int64 fill_bitmap(GjTidSet *tids, BlockNumber heap_blocks, TIDBitmap *tbm, bool recheck);
static char *copy_family_name(Oid family_oid);
static bool check_procs(CatCList *procs, const char *family);
static bool check_operators(CatCList *operators, Oid family_oid, const char *family);
static bool check_groups(CatCList *operators, CatCList *procs, Form_pg_opclass opclass);
static bool check_storage(Form_pg_opclass opclass);
static IndexScanDesc gjbeginscan(Relation index, int nkeys, int norderbys);
static void gjrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys);
static int64 gjgetbitmap(IndexScanDesc scan, TIDBitmap *tbm);
static void gjendscan(IndexScanDesc scan);
static bool gjvalidate(Oid opclassoid);

/*
 * Return the access method's properties and functions
 */
Datum
gpujoin_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *amroutine = makeNode(IndexAmRoutine);

	amroutine->amstrategies = GJ_NSTRATEGIES;
	amroutine->amsupport = GJ_NPROCS;
	amroutine->amoptsprocnum = 0;
	amroutine->amcanorder = false;
	amroutine->amcanorderbyop = false;
	amroutine->amcanbackward = false;
	amroutine->amcanunique = false;
	amroutine->amcanmulticol = false;
	amroutine->amoptionalkey = false;	/* NULLs are not stored */
	amroutine->amsearcharray = true;
	amroutine->amsearchnulls = false;
	amroutine->amstorage = true;
	amroutine->amclusterable = false;
	amroutine->ampredlocks = false; /* core and our nodes lock the whole index */
	amroutine->amcanparallel = false;
	amroutine->amcaninclude = true;
	amroutine->amusemaintenanceworkmem = true;
#ifdef GJ_HAVE_AMSUMMARIZING
	amroutine->amsummarizing = false;
#endif
#ifdef GJ_HAVE_AMCONSISTENTEQUALITY
	amroutine->amconsistentequality = true;
	amroutine->amconsistentordering = false;
#endif
	amroutine->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL;
	amroutine->amkeytype = InvalidOid;

	amroutine->ambuild = gjbuild;
	amroutine->ambuildempty = gjbuildempty;
	amroutine->aminsert = gjinsert;
	amroutine->ambulkdelete = gjbulkdelete;
	amroutine->amvacuumcleanup = gjvacuumcleanup;
	amroutine->amcostestimate = gjcostestimate;
	amroutine->amoptions = gjoptions;
	amroutine->ambuildphasename = gjbuildphasename;
	amroutine->amvalidate = gjvalidate;
	amroutine->ambeginscan = gjbeginscan;
	amroutine->amrescan = gjrescan;
	amroutine->amgetbitmap = gjgetbitmap;
	amroutine->amendscan = gjendscan;

	PG_RETURN_POINTER(amroutine);
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
 * Bitmap index scans
 *
 * "key = value" and "key = ANY (array)" for PostgreSQL's own Bitmap Heap Scan, so that our
 * indexes can be combined with others.
 *-------------------------------------------------------------------------
 */

/*
 * Begin a scan
 */
static IndexScanDesc
gjbeginscan(Relation index, int nkeys, int norderbys)
{
	return RelationGetIndexScan(index, nkeys, norderbys);
}

/*
 * Take new scan keys
 */
static void
gjrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
}

/*
 * Add the TIDs of all entries with a wanted key to the bitmap
 */
static int64
gjgetbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	GjMatchStats stats = {0};
	GjKeySet   *set = make_key_set(scan);
	GjTidSet   *tids = GjTidSetCreate(CurrentMemoryContext, GjWorkMemory());
	GjIndexInfo info;
	int64		ntids;

	GjPredicateLock(scan->indexRelation, scan->xs_snapshot);
	GjIndexGetInfo(scan->indexRelation, &info);
	if (!GjIndexIsComplete(scan->indexRelation, scan->xs_snapshot))
	{
		GjTidSetAddBlocks(tids, get_heap_length(scan->indexRelation));
		GjMatchStatsFallback(&stats, GJ_FALLBACK_INCOMPLETE);
		stats.searches++;
	}
	else if (key_may_fail(scan->indexRelation))
		GjMatchFresh(scan->indexRelation, set, tids, &stats);
	else
		GjMatch(scan->indexRelation, set, tids, &stats);
	GjTidSetFinish(tids);
	count(scan->indexRelation, &stats);

	/*
	 * The TID of a stale entry may belong to a row that is visible, but has another key or does
	 * not satisfy the predicate.  Core's recheck tests both: it adds a partial index's predicate
	 * to the index's own conditions.  So request a recheck for such TIDs, as for whole blocks.
	 */
	ntids = fill_bitmap(tids, get_heap_length(scan->indexRelation), tbm,
						info.hashed || stats.stale);
	GjTidSetFree(tids);
	GjKeySetFree(set);
	return ntids;
}

/*
 * End a scan
 */
static void
gjendscan(IndexScanDesc scan)
{
	/* nothing is kept between calls */
}

/*
 * Intersect the sets of all scan keys
 */
static GjKeySet *
make_key_set(IndexScanDesc scan)
{
	Relation	index = scan->indexRelation;
	GjKeySet   *result = NULL;

	for (int i = 0; i < scan->numberOfKeys; i++)
	{
		GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, GjIndexKeyWidth(index));

		add_scan_key(index, set, &scan->keyData[i]);
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

static void
add_scan_key(Relation index, GjKeySet *set, ScanKey key)
{
	Oid			type = OidIsValid(key->sk_subtype) ? key->sk_subtype : index->rd_opcintype[0];
	GjConverter converter = {.how = GJ_CONVERT_PROC};

	fmgr_info(get_opfamily_proc(index->rd_opfamily[0], type, type, GJ_KEY_PROC),
			  &converter.proc);
	GjAddDatumKeys(set, &converter, key->sk_argument, (key->sk_flags & SK_ISNULL) != 0,
				   (key->sk_flags & SK_SEARCHARRAY) != 0);
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
 * Add the work of the match to the index's counters
 */
static void
count(Relation index, const GjMatchStats *stats)
{
	GjIndexUse	use = {0};

	GjMatchStatsToUse(stats, &use);
	GjUsageMakeRoom(RelationGetRelid(index));
	GjUsageAdd(RelationGetRelid(index), &use);
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

/*-------------------------------------------------------------------------
 * Operator classes
 *
 * An operator class is valid if every operator is an equality operator that returns boolean, if
 * both of its types have a key extraction function in the family, and if keys are stored in four
 * or eight bytes.
 *-------------------------------------------------------------------------
 */

/*
 * Validate an operator class, and its family
 *
 * Reports all problems found, at level INFO.
 */
static bool
gjvalidate(Oid opclassoid)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclassoid));
	Form_pg_opclass opclass;
	CatCList   *operators;
	CatCList   *procs;
	char	   *family;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclassoid);
	opclass = (Form_pg_opclass) GETSTRUCT(tuple);
	family = copy_family_name(opclass->opcfamily);
	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(opclass->opcfamily));
	procs = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(opclass->opcfamily));

	/* do not stop early: each check reports its own findings */
	result = check_storage(opclass);
	result = check_procs(procs, family) && result;
	result = check_operators(operators, opclass->opcfamily, family) && result;
	result = check_groups(operators, procs, opclass) && result;

	ReleaseCatCacheList(procs);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(tuple);
	return result;
}

static char *
copy_family_name(Oid family_oid)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family_oid));
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family_oid);
	name = pstrdup(NameStr(((Form_pg_opfamily) GETSTRUCT(tuple))->opfname));
	ReleaseSysCache(tuple);
	return name;
}

/*
 * Check that keys are stored as four or eight bytes, by value or not
 */
static bool
check_storage(Form_pg_opclass opclass)
{
	Oid			type = OidIsValid(opclass->opckeytype) ? opclass->opckeytype :
		opclass->opcintype;
	int16		width = get_typlen(type);

	if (width == sizeof(int32) || width == sizeof(int64))
		return true;
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator class \"%s\" of access method %s stores keys of type %s, "
					"which is not 4 or 8 bytes wide",
					NameStr(opclass->opcname), GJ_NAME, format_type_be(type))));
	return false;
}

static bool
check_procs(CatCList *procs, const char *family)
{
	bool		result = true;

	for (int i = 0; i < procs->n_members; i++)
	{
		Form_pg_amproc proc = (Form_pg_amproc) GETSTRUCT(&procs->members[i]->tuple);
		const char *problem = NULL;

		if (proc->amprocnum != GJ_KEY_PROC)
			problem = "invalid support number";
		else if (proc->amproclefttype != proc->amprocrighttype ||
				 !check_amproc_signature(proc->amproc, INT8OID, false, 1, 1,
										 proc->amproclefttype))
			problem = "wrong signature for support number";

		if (problem)
		{
			ereport(INFO,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator family \"%s\" of access method %s contains function %s "
							"with %s %d",
							family, GJ_NAME, format_procedure(proc->amproc), problem,
							proc->amprocnum)));
			result = false;
		}
	}
	return result;
}

static bool
check_operators(CatCList *operators, Oid family_oid, const char *family)
{
	bool		result = true;

	for (int i = 0; i < operators->n_members; i++)
	{
		Form_pg_amop op = (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple);
		const char *problem = NULL;

		if (op->amopstrategy != GJ_EQUAL_STRATEGY)
			problem = "has an invalid strategy number";
		else if (op->amoppurpose != AMOP_SEARCH || OidIsValid(op->amopsortfamily))
			problem = "is not a search operator";
		else if (!check_amop_signature(op->amopopr, BOOLOID, op->amoplefttype,
									   op->amoprighttype))
			problem = "has the wrong signature";
		else if (!OidIsValid(get_opfamily_proc(family_oid, op->amoplefttype, op->amoplefttype,
											   GJ_KEY_PROC)) ||
				 !OidIsValid(get_opfamily_proc(family_oid, op->amoprighttype,
											   op->amoprighttype, GJ_KEY_PROC)))
			problem = "has a type without a key extraction function";

		if (problem)
		{
			ereport(INFO,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator %s in operator family \"%s\" of access method %s %s",
							format_operator(op->amopopr), family, GJ_NAME, problem)));
			result = false;
		}
	}
	return result;
}

/*
 * Check that the class's own type has its equality operator and its function
 */
static bool
check_groups(CatCList *operators, CatCList *procs, Form_pg_opclass opclass)
{
	List	   *groups = identify_opfamily_groups(operators, procs);
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		if (group->lefttype == opclass->opcintype && group->righttype == opclass->opcintype &&
			(group->operatorset & (1 << GJ_EQUAL_STRATEGY)) != 0 &&
			(group->functionset & (1 << GJ_KEY_PROC)) != 0)
			return true;
	}
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator class \"%s\" of access method %s lacks an equality operator or "
					"a key extraction function for type %s",
					NameStr(opclass->opcname), GJ_NAME, format_type_be(opclass->opcintype))));
	return false;
}
