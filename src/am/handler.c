/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method's handler, its options and its cost estimate.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_class.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "pages/pages.h"
#include "plan/plan.h"

PG_FUNCTION_INFO_V1(gpujoin_handler);

static relopt_kind gj_relopt_kind;

static char *gjbuildphasename(int64 phasenum);

/*
 * Register the index options
 */
void
GjAmInit(void)
{
	gj_relopt_kind = add_reloption_kind();
	add_int_reloption(gj_relopt_kind, "lanes",
					  "Number of pages that concurrent inserters fill side by side",
					  GJ_DEFAULT_LANES, GJ_MIN_LANES, GJ_MAX_LANES,
					  AccessExclusiveLock);
	add_bool_reloption(gj_relopt_kind, "preload",
					   "Keeps the index in device memory, also after a start of the server",
					   false, ShareUpdateExclusiveLock);
}

/*
 * Return what PostgreSQL needs to know of the access method
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
	amroutine->amusemaintenanceworkmem = false;
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

/*
 * Parse and check the options of an index
 */
bytea *
gjoptions(Datum reloptions, bool validate)
{
	static const relopt_parse_elt table[] = {
		{"lanes", RELOPT_TYPE_INT, offsetof(GjOptions, lanes)},
		{"preload", RELOPT_TYPE_BOOL, offsetof(GjOptions, preload)}
	};

	return (bytea *) build_reloptions(reloptions, validate, gj_relopt_kind,
									  sizeof(GjOptions), table, lengthof(table));
}

static char *
gjbuildphasename(int64 phasenum)
{
	switch (phasenum)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case GJ_PHASE_LOADING:
			return "loading entries";
		case GJ_PHASE_LOGGING:
			return "writing WAL";
		default:
			return NULL;
	}
}

/*
 * Is this relation an index of ours?
 */
bool
GjRelationIsIndex(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX && rel->rd_indam != NULL &&
		rel->rd_indam->ambuild == gjbuild;
}

/*
 * Bytes of a stored key: the operator class's storage type decides
 */
int
GjIndexKeyWidth(Relation index)
{
	return TupleDescAttr(RelationGetDescr(index), 0)->attlen;
}

/*
 * Is the index to be mirrored after each start of the server, and kept so?
 */
bool
GjIndexIsPreloaded(Relation index)
{
	return index->rd_options != NULL && ((GjOptions *) index->rd_options)->preload;
}

/*
 * Estimate a bitmap index scan: a search of all entries, whatever the clause
 */
void
gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
			   Cost *startup, Cost *total, Selectivity *selectivity,
			   double *correlation, double *pages)
{
	IndexOptInfo *index = path->indexinfo;
	List	   *quals = NIL;
	ListCell   *lc;

	foreach(lc, path->indexclauses)
		quals = lappend(quals, lfirst_node(IndexClause, lc)->rinfo);

	*selectivity = clauselist_selectivity(root, quals, index->rel->relid, JOIN_INNER, NULL);
	*correlation = 0.0;
	*pages = index->pages;

	/* the bitmap is there only when all entries have been searched */
	*startup = *total = GjCostBitmap(index, 1.0, *selectivity * index->rel->tuples);
}
