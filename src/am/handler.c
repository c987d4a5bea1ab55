/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method's handler.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "fmgr.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "plan/plan.h"
#include "am.h"

PG_FUNCTION_INFO_V1(gpujoin_handler);

static char *gjbuildphasename(int64 phasenum);

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
