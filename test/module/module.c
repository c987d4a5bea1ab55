/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Entry point of the test module: loads gpujoin through PostgreSQL, which initializes it,
 *	  because the dynamic loader has only mapped its code.
 *
 * If preloaded with gpujoin_test.rival = before, after or alone, it also imitates PG-Strom, which
 * has nodes of the same names: it registers them before or after gpujoin does, or without loading
 * gpujoin.
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
