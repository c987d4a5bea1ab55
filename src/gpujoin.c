/*-------------------------------------------------------------------------
 *
 * gpujoin.c
 *	  Entry point of the library: one Init call per subsystem, nothing else.
 *
 * The library is loaded by shared_preload_libraries or on first use, when the
 * relation cache calls the access method's handler.  Both work: the planner opens
 * a table's indexes before it calls the hooks, so that even the first query that
 * touches a gpujoin index finds them installed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "agg/agg.h"
#include "base/buffers.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "join/join.h"
#include "mirror/mirror.h"
#include "pages/pages.h"
#include "plan/plan.h"
#include "service/service.h"
#include "stats/stats.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	GjGucInit();
	GjOptionsInit();
	GjPlanInit();
	GjExecScanInit();
	GjExecJoinInit();
	GjExecAggInit();
	GjBuffersInit();
	GjUsageInit();
	GjProgressInit();
	GjServiceInit();
	GjMirrorInit();
	GjLauncherInit();
}
