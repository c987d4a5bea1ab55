/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Entry point of the test module: sees to it that gpujoin is there, set up as
 *	  PostgreSQL does it, since the dynamic loader has brought in no more than its code.
 *
 * Preloaded with gpujoin_test.rival = before, after or alone, it also stands in for PG-Strom, which
 * has nodes of the same names: before or after gpujoin registers its own, or without loading it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

static const CustomScanMethods rival_methods[] = {
	{.CustomName = "GpuScan"},
	{.CustomName = "GpuJoin"},
	{.CustomName = "GpuPreAgg"},
};

void		_PG_init(void);

void
_PG_init(void)
{
	const char *rival = GetConfigOption("gpujoin_test.rival", true, false);

	if (rival == NULL || !process_shared_preload_libraries_in_progress)
		rival = "no";
	if (strcmp(rival, "after") == 0)
		load_file("$libdir/gpujoin", false);
	for (int i = 0; strcmp(rival, "no") != 0 && i < lengthof(rival_methods); i++)
		RegisterCustomScanMethods(&rival_methods[i]);
	if (strcmp(rival, "alone") != 0)
		load_file("$libdir/gpujoin", false);
}
