/*-------------------------------------------------------------------------
 *
 * fallback.c
 *	  Names and texts of the reasons why a device did not answer.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats.h"

/* In the order of GjFallback: a name for views, a text for EXPLAIN */
static const struct
{
	const char *name;
	const char *text;
}			fallbacks[GJ_FALLBACK_COUNT] =
{
	{"none", "the device answered"},
	{"no_keys", "there is no key to search for"},
	{"not_preloaded", "gpujoin is not in shared_preload_libraries"},
	{"service", "the device service is not available, see pg_stat_gpujoin"},
	{"temporary", "the index is temporary"},
	{"small", "the index is too small to be worth it"},
	{"no_mirror", "the index is not loaded, and gpujoin.auto_load is off"},
	{"loading", "the index is being loaded"},
	{"behind", "the mirror is too far behind the index"},
	{"no_memory", "there is not enough device memory"},
	{"too_big", "gpujoin.device_memory is too small for the index"},
	{"table_full", "there are gpujoin.max_mirrors mirrors already"},
	{"busy", "all request slots are in use"},
	{"gone", "the mirror was dropped in the meantime"},
	{"failed", "the device did not answer"},
	{"not_in", "the keys are those of no list"},
	{"partial", "the index is partial, on an expression, and the scan a bitmap scan"},
	{"too_many", "there are more entries than fit in memory"},
	{"vacuumed", "VACUUM has been there since the mirror was made"},
	{"incomplete", "the index may lack rows that the snapshot sees"},
	{"null_keys", "rows with a NULL key are wanted"}
};

/*
 * Return the name of a reason
 */
const char *
GjFallbackName(GjFallback why)
{
	return fallbacks[why].name;
}

/*
 * Return the text of a reason
 */
const char *
GjFallbackText(GjFallback why)
{
	return fallbacks[why].text;
}
