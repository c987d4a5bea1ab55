/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  All settings of gpujoin, with their limits from settings.h.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "executor/nodeHash.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/plancache.h"
#include "utils/varlena.h"

#include "cuda/border/gpujoin_device.h"
#include "compat.h"
#include "settings.h"
#include "step.h"

bool		gj_enabled = true;
bool		gj_force = false;
bool		gj_aggregate = true;
bool		gj_device_aggregate = true;
int			gj_min_rows = GJ_DEFAULT_MIN_ROWS;
int			gj_assumed_keys = GJ_DEFAULT_ASSUMED_KEYS;
double		gj_setup_cost = GJ_DEFAULT_SETUP_COST;
double		gj_search_cost = GJ_DEFAULT_SEARCH_COST;
double		gj_tid_cost = GJ_DEFAULT_TID_COST;
double		gj_device_setup_cost = GJ_DEFAULT_DEVICE_SETUP_COST;
double		gj_device_search_cost = GJ_DEFAULT_DEVICE_SEARCH_COST;

/* Device service */
#define ALL_GPUS				"all"

int			gj_device = GJ_DEVICE_AUTO;
char	   *gj_gpu = NULL;
int			gj_device_memory = 0;
int			gj_result_buffer = GJ_DEFAULT_RESULT_BUFFER;
int			gj_max_requests = GJ_DEFAULT_MAX_REQUESTS;
int			gj_device_timeout = GJ_DEFAULT_DEVICE_TIMEOUT;

/* Mirrors */
bool		gj_auto_load = true;
int			gj_max_mirrors = GJ_DEFAULT_MAX_MIRRORS;
int			gj_sync_blocks = GJ_DEFAULT_SYNC_BLOCKS;

/* Folds */
int			gj_fold_pages = GJ_AUTO_FOLD_PAGES;
int			gj_fold_workers = GJ_DEFAULT_FOLD_WORKERS;

/* Tests */
int			gj_reduce_rows = GJ_DEFAULT_REDUCE_ROWS;

/* A setting that changes plans */
typedef struct PlanSetting
{
	const char *name;
	const struct config_generic *record;	/* NULL until all settings are defined */
} PlanSetting;

static PlanSetting settings[] = {
	{"gpujoin.enabled", NULL},
	{"gpujoin.force", NULL},
	{"gpujoin.aggregate", NULL},
	{"gpujoin.device_aggregate", NULL},
};

static const struct config_enum_entry device_options[] = {
	{"auto", GJ_DEVICE_AUTO, false},
	{"cuda", GJ_DEVICE_CUDA, false},
	{"reference", GJ_DEVICE_REFERENCE, false},
	{"none", GJ_DEVICE_NONE, false},
	{NULL, 0, false}
};

static void define_service(void);
static void define_mirrors(void);
static void define_folds(void);
static void define_debugging(void);
static bool check_gpu(char **newval, void **extra, GucSource source);
static bool check_device_memory(int *newval, void **extra, GucSource source);
static void assign_enabled(bool newval, void *extra);
static void assign_force(bool newval, void *extra);
static void assign_aggregate(bool newval, void *extra);
static void assign_device_aggregate(bool newval, void *extra);
static void reset_plans(const PlanSetting *setting);
static void find_settings(void);
static void define_cost(const char *name, const char *description, double *variable,
						double default_value);

/*
 * Define the settings and reserve their prefix
 */
void
GjGucInit(void)
{
	DefineCustomBoolVariable("gpujoin.enabled",
							 "Enables the use of gpujoin indexes by the planner.",
							 "When off, no plan uses a gpujoin index in any way.",
							 &gj_enabled,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL,
							 assign_enabled,
							 NULL);

	DefineCustomBoolVariable("gpujoin.force",
							 "Uses gpujoin plans wherever they are possible, whatever they cost.",
							 "For tests; ignores gpujoin.min_rows.",
							 &gj_force,
							 false,
							 PGC_USERSET,
							 GUC_EXPLAIN | GUC_NOT_IN_SAMPLE,
							 NULL,
							 assign_force,
							 NULL);

	DefineCustomBoolVariable("gpujoin.aggregate",
							 "Lets gpujoin compute aggregates, groups and DISTINCT over its rows.",
							 NULL,
							 &gj_aggregate,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL,
							 assign_aggregate,
							 NULL);

	DefineCustomBoolVariable("gpujoin.device_aggregate",
							 "Lets a device compute aggregates of the rows that it finds.",
							 "When off, it sends the rows, and the CPU computes them.",
							 &gj_device_aggregate,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL,
							 assign_device_aggregate,
							 NULL);

	DefineCustomIntVariable("gpujoin.min_rows",
							"Sets the number of rows below which tables are left to PostgreSQL.",
							NULL,
							&gj_min_rows,
							GJ_DEFAULT_MIN_ROWS,
							GJ_MIN_MIN_ROWS,
							GJ_MAX_MIN_ROWS,
							PGC_USERSET,
							GUC_EXPLAIN,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("gpujoin.assumed_keys",
							"Sets how many keys the planner expects in an array whose length is "
							"known only when the query is executed.",
							NULL,
							&gj_assumed_keys,
							GJ_DEFAULT_ASSUMED_KEYS,
							1,
							GJ_MAX_ASSUMED_KEYS,
							PGC_USERSET,
							GUC_EXPLAIN,
							NULL,
							NULL,
							NULL);

	define_cost("gpujoin.setup_cost",
				"Sets the planner's estimate of the fixed cost of a search on the CPU.",
				&gj_setup_cost, GJ_DEFAULT_SETUP_COST);
	define_cost("gpujoin.search_cost",
				"Sets the planner's estimate of the cost of searching one index entry on the CPU.",
				&gj_search_cost, GJ_DEFAULT_SEARCH_COST);
	define_cost("gpujoin.tid_cost",
				"Sets the planner's estimate of the cost of handing over one matching TID.",
				&gj_tid_cost, GJ_DEFAULT_TID_COST);
	define_cost("gpujoin.device_setup_cost",
				"Sets the planner's estimate of the fixed cost of a search by a device.",
				&gj_device_setup_cost, GJ_DEFAULT_DEVICE_SETUP_COST);
	define_cost("gpujoin.device_search_cost",
				"Sets the planner's estimate of the cost of searching one index entry by a device.",
				&gj_device_search_cost, GJ_DEFAULT_DEVICE_SEARCH_COST);

	define_service();
	define_mirrors();
	define_folds();
	define_debugging();

	find_settings();

	MarkGUCPrefixReserved(GJ_NAME);
}

/*
 * Define the settings of the device service.  Settings that determine the size of shared memory
 * are fixed at server start, if the library is preloaded.  If it is not, there is no service and
 * these settings do nothing; but they exist, so that a configuration file that sets them does not
 * cause a warning in each session.  A PGC_POSTMASTER setting cannot be defined that late.
 */
static void
define_service(void)
{
	GucContext	fixed = process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP;

	DefineCustomEnumVariable("gpujoin.device",
							 "Chooses the kind of device that searches gpujoin indexes.",
							 "auto: a GPU if there is one.  cuda: a GPU.  reference: a process "
							 "that imitates one, for tests.  none: no device.",
							 &gj_device,
							 GJ_DEVICE_AUTO,
							 device_options,
							 fixed,
							 0,
							 NULL,
							 NULL,
							 NULL);

	DefineCustomStringVariable("gpujoin.gpu",
							   "Chooses the GPUs, by number or by UUID.",
							   "Empty: one, that with the most free memory.  all: all of them.  "
							   "A UUID begins with GPU- or MIG-.",
							   &gj_gpu,
							   "",
							   fixed,
							   GUC_LIST_INPUT,
							   check_gpu,
							   NULL,
							   NULL);

	DefineCustomIntVariable("gpujoin.device_memory",
							"Sets how much memory of the device gpujoin reserves.",
							"0: three quarters of what is free.  It is reserved in pieces of "
							"16 MB.",
							&gj_device_memory,
							0,
							0,
							GJ_MAX_DEVICE_MEMORY,
							fixed,
							GUC_UNIT_MB,
							check_device_memory,
							NULL,
							NULL);

	DefineCustomIntVariable("gpujoin.result_buffer",
							"Sets the size of the memory through which results come.",
							"Each of gpujoin.max_requests requests has an equal share.  It is "
							"locked in memory while there is a GPU.",
							&gj_result_buffer,
							GJ_DEFAULT_RESULT_BUFFER,
							GJ_MIN_RESULT_BUFFER,
							GJ_MAX_RESULT_BUFFER,
							fixed,
							GUC_UNIT_KB,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("gpujoin.max_requests",
							"Sets how many requests can be at the device at the same time.",
							"A search that finds no place is done by the CPU.",
							&gj_max_requests,
							GJ_DEFAULT_MAX_REQUESTS,
							1,
							GJ_MAX_MAX_REQUESTS,
							fixed,
							0,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("gpujoin.device_timeout",
							"Sets the time without progress after which the device counts as hung.",
							"Its process is then restarted.",
							&gj_device_timeout,
							GJ_DEFAULT_DEVICE_TIMEOUT,
							GJ_MIN_DEVICE_TIMEOUT,
							GJ_MAX_DEVICE_TIMEOUT,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL,
							NULL,
							NULL);
}

static void
define_mirrors(void)
{
	DefineCustomBoolVariable("gpujoin.auto_load",
							 "Loads an index into device memory when it has been built, and when "
							 "a query could use it there.",
							 "When off, only gpujoin_load() and the index option preload do.",
							 &gj_auto_load,
							 true,
							 PGC_USERSET,
							 0,
							 NULL,
							 NULL,
							 NULL);

	DefineCustomIntVariable("gpujoin.max_mirrors",
							"Sets how many indexes can be in device memory at the same time.",
							NULL,
							&gj_max_mirrors,
							GJ_DEFAULT_MAX_MIRRORS,
							1,
							GJ_MAX_MAX_MIRRORS,
							process_shared_preload_libraries_in_progress ?
							PGC_POSTMASTER : PGC_SIGHUP,
							0,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("gpujoin.sync_blocks",
							"Sets how many index pages may be searched on the CPU because the copy "
							"in device memory lacks them.",
							"If there are more, they are copied first.",
							&gj_sync_blocks,
							GJ_DEFAULT_SYNC_BLOCKS,
							0,
							GJ_MAX_SYNC_BLOCKS,
							PGC_USERSET,
							0,
							NULL,
							NULL,
							NULL);
}

static void
define_folds(void)
{
	DefineCustomIntVariable("gpujoin.fold_pages",
							"Sets how many pages of unsorted rows an index may have before a "
							"background worker sorts them.",
							"-1: a 256th of the index, at least 512 and at most 1024.  0: only "
							"VACUUM sorts them.  The index option fold_pages takes precedence.",
							&gj_fold_pages,
							GJ_AUTO_FOLD_PAGES,
							GJ_AUTO_FOLD_PAGES,
							GJ_MAX_FOLD_PAGES,
							PGC_SIGHUP,
							0,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("gpujoin.fold_workers",
							"Sets how many background workers may sort unsorted rows at the same "
							"time, each those of one index.",
							"They count against max_worker_processes.  0: only VACUUM sorts.",
							&gj_fold_workers,
							GJ_DEFAULT_FOLD_WORKERS,
							0,
							GJ_MAX_FOLD_WORKERS,
							PGC_SIGHUP,
							0,
							NULL,
							NULL,
							NULL);
}

/*
 * Define the settings for the project's own tests
 */
static void
define_debugging(void)
{
	DefineCustomIntVariable("gpujoin.debug_reduce_rows",
							"Sets the number of rows from which a device computes aggregates.",
							NULL,
							&gj_reduce_rows,
							GJ_DEFAULT_REDUCE_ROWS,
							0,
							INT_MAX,
							PGC_USERSET,
							GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							NULL,
							NULL,
							NULL);

#ifdef GPUJOIN_STEPS
	DefineCustomStringVariable("gpujoin.debug_step",
							   "Lets a change to an index fail, wait or crash at one of its steps.",
							   "The name of the step, and error, wait or crash; or plain pages, "
							   "or ignore epoch, which gives wrong answers.",
							   &gj_debug_step,
							   "",
							   PGC_SUSET,
							   GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   NULL,
							   NULL,
							   NULL);
#endif
}

/*
 * check_hook of gpujoin.gpu: a list of GPUs, each of them once, or "all"
 */
static bool
check_gpu(char **newval, void **extra, GucSource source)
{
	char	   *copy = pstrdup(*newval);
	List	   *names;
	ListCell   *lc;

	if (!SplitGUCList(copy, ',', &names))
	{
		GUC_check_errdetail("It is not a list.");
		return false;
	}
	if (list_length(names) > GJ_MAX_DEVICES)
	{
		GUC_check_errdetail("It lists more than %d GPUs.", GJ_MAX_DEVICES);
		return false;
	}
	foreach(lc, names)
	{
		const char *name = lfirst(lc);

		if (list_length(names) > 1 && strcmp(name, ALL_GPUS) == 0)
		{
			GUC_check_errdetail("\"%s\" is combined with others.", ALL_GPUS);
			return false;
		}
		for (int i = 0; i < foreach_current_index(lc); i++)
		{
			if (strcmp(list_nth(names, i), name) == 0)
			{
				GUC_check_errdetail("It lists \"%s\" twice.", name);
				return false;
			}
		}
	}
	return true;
}

/*
 * Return true if gpujoin.gpu asks for all GPUs
 */
bool
GjWantsAllGpus(void)
{
	return strcmp(gj_gpu, ALL_GPUS) == 0;
}

/*
 * Return name number n of those that gpujoin.gpu lists, or NULL
 */
const char *
GjGpuName(int n)
{
	List	   *names;

	if (!SplitGUCList(pstrdup(gj_gpu), ',', &names) || n >= list_length(names))
		return NULL;
	return list_nth(names, n);
}

/*
 * Check hook: reject less than one unit, which would be rounded down to zero
 */
static bool
check_device_memory(int *newval, void **extra, GucSource source)
{
	int			least = GJD_EXTENT_BYTES >> 20;

	if (*newval == 0 || *newval >= least)
		return true;
	GUC_check_errdetail("It must be 0, for three quarters of what is free, or at least %d MB.",
						least);
	return false;
}

static void
assign_enabled(bool newval, void *extra)
{
	reset_plans(&settings[0]);
}

static void
assign_force(bool newval, void *extra)
{
	reset_plans(&settings[1]);
}

static void
assign_aggregate(bool newval, void *extra)
{
	reset_plans(&settings[2]);
}

static void
assign_device_aggregate(bool newval, void *extra)
{
	reset_plans(&settings[3]);
}

/*
 * Discard the session's cached plans, which were made under the old value
 *
 * Not if a function has the setting in its SET clause: a call would otherwise discard all plans of
 * the session, at its start and at its end.  The plans of the function's own statements are always
 * made, and executed, under its value.  Other cached plans, of prepared statements and of functions
 * that it calls, stay as they are; those that are made during the call stay afterwards, as with
 * PostgreSQL's enable_seqscan.  The same goes for SET LOCAL in such a function.
 */
static void
reset_plans(const PlanSetting *setting)
{
	const GucStack *stack = setting->record == NULL ? NULL : setting->record->stack;

	if (stack == NULL || stack->state != GUC_SAVE)
		ResetPlanCache();
}

/*
 * Find the records of the settings with assign hooks
 */
static void
find_settings(void)
{
	int			n;
	struct config_generic **all = GjGetSettings(&n);

	for (int i = 0; i < n; i++)
	{
		for (int j = 0; j < lengthof(settings); j++)
		{
			if (strcmp(all[i]->name, settings[j].name) == 0)
				settings[j].record = all[i];
		}
	}
}

static void
define_cost(const char *name, const char *description, double *variable, double default_value)
{
	DefineCustomRealVariable(name,
							 description,
							 NULL,
							 variable,
							 default_value,
							 0.0,
							 GJ_MAX_COST,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL,
							 NULL,
							 NULL);
}
