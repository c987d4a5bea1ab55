/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  gpujoin_count_uses(): count searches of nonexistent indexes, to overflow the table of
 *	  counters.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "stats/stats.h"

PG_FUNCTION_INFO_V1(gpujoin_count_uses);

/*
 * Count a search, answered by the CPU, for n indexes starting with this OID
 */
Datum
gpujoin_count_uses(PG_FUNCTION_ARGS)
{
	Oid			first = PG_GETARG_OID(0);
	int			n = PG_GETARG_INT32(1);
	bool		make_room = PG_GETARG_BOOL(2);
	GjIndexUse	use = {0};

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to invent searches")));
	use.n[GJ_USE_SEARCHES] = 1;
	use.n[GJ_USE_ANSWERED + GJ_FALLBACK_SMALL] = 1;
	GjUsagePrepare();
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (make_room)
			GjUsageMakeRoom(first + i);
		GjUsageAdd(first + i, &use);
	}
	PG_RETURN_VOID();
}
