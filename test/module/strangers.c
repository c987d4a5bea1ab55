/*-------------------------------------------------------------------------
 *
 * strangers.c
 *	  Another library that hooks the planner, at any time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "optimizer/planner.h"

#include "base/compat.h"

PG_FUNCTION_INFO_V1(gpujoin_test_hook_planner);

static planner_hook_type previous_planner = NULL;
static int	nplanned;

static PlannedStmt *
count_plans(GJ_PLANNER_ARGUMENTS)
{
	nplanned++;
	return previous_planner != NULL ? previous_planner(GJ_PLANNER_PASSED) :
		standard_planner(GJ_PLANNER_PASSED);
}

/*
 * Hook the planner, unless that is done, and stay.  Returns the number of statements that have been
 * planned through the hook.  As the function is immutable, it may be called within the planner.
 */
Datum
gpujoin_test_hook_planner(PG_FUNCTION_ARGS)
{
	static bool is_hooked = false;

	if (!is_hooked)
	{
		is_hooked = true;
		previous_planner = planner_hook;
		planner_hook = count_plans;
	}
	PG_RETURN_INT32(nplanned);
}
