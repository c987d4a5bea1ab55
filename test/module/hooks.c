/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  gpujoin_test_hooks(): which functions PostgreSQL's hooks call that are installed for the time
 *	  of one call only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpujoin_test_hooks);

/*
 * Return the addresses, to be compared with those before
 */
Datum
gpujoin_test_hooks(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%p %p %p", (void *) needs_fmgr_hook,
											  (void *) fmgr_hook, (void *) planner_hook)));
}
