/*-------------------------------------------------------------------------
 *
 * counters.c
 *	  Statistics of each index, and the progress of commands: gpujoin_index_stats(),
 *	  gpujoin_fold_stats(), gpujoin_progress().
 *
 * All users may call them, like PostgreSQL's own index statistics and progress views, and the same
 * rules apply: counters are of indexes in this database, and for commands of other roles only the
 * place where they run is shown.  Roles that may read all statistics see everything.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/jsonb.h"
#include "utils/syscache.h"

#include "mirror/mirror.h"
#include "resultset.h"

PG_FUNCTION_INFO_V1(gpujoin_index_stats);
PG_FUNCTION_INFO_V1(gpujoin_fold_stats);
PG_FUNCTION_INFO_V1(gpujoin_stats_reset_index);
PG_FUNCTION_INFO_V1(gpujoin_progress);

#define USAGE_COLUMNS			25
#define OLD_USAGE_COLUMNS		19	/* in version 1.0.0 of the extension */
#define FOLD_COLUMNS			10
#define PROGRESS_COLUMNS		8

static bool reads_all_stats(void);
static int	hide_unknown(GjUsage *usage, int n);
static void add_usage(Row *row, const GjUsage *usage);
static uint64 count_fallbacks(const GjIndexUse *use);
static Datum list_fallbacks(const GjIndexUse *use);
static void add_count(JsonbParseState **state, const char *name, uint64 count);
static void put_progress(ReturnSetInfo *rsinfo, const char *command, const GjProgress *progress);
static bool get_load(int place, GjProgress *progress, const char **command);
static bool may_see(int pid);

/*
 * gpujoin_index_stats(): return a row for each index that has been searched, and for roles that may
 * read all statistics one row for all other indexes
 */
Datum
gpujoin_index_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows_from(fcinfo, OLD_USAGE_COLUMNS, USAGE_COLUMNS);
	bool		all = reads_all_stats();
	GjUsage    *usage;
	int			n = GjUsageCopy(&usage);

	n = hide_unknown(usage, n);
	for (int i = 0; i < n; i++)
	{
		Row			row = {0};

		if (usage[i].database != MyDatabaseId && !all)
			continue;
		/* an index that has only been folded */
		if (i > 0 && usage[i].last_used == 0)
			continue;
		add_usage(&row, &usage[i]);
		Assert(row.n == USAGE_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	pfree(usage);
	return (Datum) 0;
}

/*
 * gpujoin_fold_stats(): return a row for each index that has been folded, or for which a fold
 * worker has been requested; and for roles that may read all statistics one row for all other
 * indexes
 */
Datum
gpujoin_fold_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows(fcinfo, FOLD_COLUMNS);
	bool		all = reads_all_stats();
	GjUsage    *usage;
	int			n = GjUsageCopy(&usage);

	n = hide_unknown(usage, n);
	for (int i = 0; i < n; i++)
	{
		const uint64 *count = usage[i].use.n;
		Row			row = {0};

		if ((usage[i].database != MyDatabaseId && !all) ||
			count[GJ_USE_FOLDS] + count[GJ_USE_REQUESTS] == 0)
			continue;
		add_oid(&row, usage[i].database);
		add_oid(&row, usage[i].index);
		add_int(&row, count[GJ_USE_FOLDS]);
		add_int(&row, count[GJ_USE_FOLDED]);
		add_int(&row, count[GJ_USE_FOLD_PAGES]);
		add_double(&row, count[GJ_USE_FOLD_US] / 1000.0);
		add_int(&row, count[GJ_USE_REQUESTS]);
		add_int(&row, count[GJ_USE_REFUSED]);
		add_time(&row, usage[i].last_fold);
		add_time(&row, usage[i].since);
		Assert(row.n == FOLD_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	pfree(usage);
	return (Datum) 0;
}

/*
 * gpujoin_stats_reset(regclass): set the counters of an index, or of those of all partitions, to
 * zero
 */
Datum
gpujoin_stats_reset_index(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	foreach(lc, GjListIndexes(PG_GETARG_OID(0)))
	{
		if (OidIsValid(lfirst_oid(lc))) /* InvalidOid would reset all, in all databases */
			GjUsageReset(lfirst_oid(lc));
	}
	PG_RETURN_VOID();
}

static bool
reads_all_stats(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/*
 * Add the counters of indexes that this transaction cannot see to "others", the first element:
 * indexes of a transaction that was rolled back or is not finished, or that were dropped
 * unnoticed.  Sums do not change.  Returns the number of remaining elements.
 */
static int
hide_unknown(GjUsage *usage, int n)
{
	int			left = 1;

	for (int i = 1; i < n; i++)
	{
		if (usage[i].database != MyDatabaseId ||
			SearchSysCacheExists1(RELOID, ObjectIdGetDatum(usage[i].index)))
		{
			usage[left++] = usage[i];
			continue;
		}
		for (int j = 0; j < GJ_USE_COUNT; j++)
			usage[0].use.n[j] += usage[i].use.n[j];
	}
	return left;
}

static void
add_usage(Row *row, const GjUsage *usage)
{
	const uint64 *n = usage->use.n;

	add_oid(row, usage->database);
	add_oid(row, usage->index);
	add_int(row, n[GJ_USE_SEARCHES]);
	add_int(row, n[GJ_USE_ANSWERED + GJ_FALLBACK_NONE]);
	add_int(row, count_fallbacks(&usage->use));
	row->values[row->n++] = list_fallbacks(&usage->use);
	add_int(row, n[GJ_USE_KEYS]);
	add_int(row, n[GJ_USE_PAGES_READ]);
	/* processes that share a search may report at different times */
	add_int(row, Max((int64) n[GJ_USE_PAGES_SKIPPED], 0));
	add_int(row, n[GJ_USE_PAGES_PUSHED]);
	add_int(row, n[GJ_USE_TIDS]);
	add_int(row, n[GJ_USE_HEAP_BLOCKS]);
	add_int(row, n[GJ_USE_HEAP_FETCHES]);
	add_int(row, n[GJ_USE_GROUPS]);
	add_double(row, n[GJ_USE_SEARCH_US] / 1000.0);
	add_double(row, n[GJ_USE_WAIT_US] / 1000.0);
	add_double(row, n[GJ_USE_DEVICE_US] / 1000.0);
	add_time(row, usage->last_used);
	add_time(row, usage->since);
	add_int(row, n[GJ_USE_REDUCTIONS]);
	add_int(row, n[GJ_USE_REDUCED_ROWS]);
	add_int(row, n[GJ_USE_LEFT_OUT]);
	add_int(row, n[GJ_USE_REDUCED_GROUPS]);
	add_int(row, n[GJ_USE_REDUCE_FAILURES]);
	add_int(row, n[GJ_USE_NOT_SENT]);
}

static uint64
count_fallbacks(const GjIndexUse *use)
{
	uint64		n = 0;

	for (GjFallback why = GJ_FALLBACK_NO_KEYS; why < GJ_FALLBACK_COUNT; why++)
		n += use->n[GJ_USE_ANSWERED + why];
	return n;
}

/*
 * Build a JSON object of the reasons that occurred, with their counts
 */
static Datum
list_fallbacks(const GjIndexUse *use)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (GjFallback why = GJ_FALLBACK_NO_KEYS; why < GJ_FALLBACK_COUNT; why++)
	{
		uint64		n = use->n[GJ_USE_ANSWERED + why];

		if (n > 0)
			add_count(&state, GjFallbackName(why), n);
	}
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

static void
add_count(JsonbParseState **state, const char *name, uint64 count)
{
	JsonbValue	key = {.type = jbvString};
	JsonbValue	number = {.type = jbvNumeric};

	key.val.string.val = unconstify(char *, name);
	key.val.string.len = strlen(name);
	number.val.numeric = int64_to_numeric((int64) count);
	pushJsonbValue(state, WJB_KEY, &key);
	pushJsonbValue(state, WJB_VALUE, &number);
}

/*
 * gpujoin_progress(): return a row for each fold and load in progress
 */
Datum
gpujoin_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows(fcinfo, PROGRESS_COLUMNS);
	const char *command;
	GjProgress	progress;

	for (int place = 0; place < GjProgressSlots(); place++)
	{
		if (GjProgressGet(place, &progress))
			put_progress(rsinfo, "fold", &progress);
	}
	for (int place = 0; place < GjMirrorTableSize(); place++)
	{
		if (get_load(place, &progress, &command))
			put_progress(rsinfo, command, &progress);
	}
	return (Datum) 0;
}

static void
put_progress(ReturnSetInfo *rsinfo, const char *command, const GjProgress *progress)
{
	Row			row = {0};

	if (progress->pid != 0)
		row.values[row.n++] = Int32GetDatum(progress->pid);
	else
		add_null(&row);
	add_oid(&row, progress->database);
	if (may_see(progress->pid))
	{
		add_oid(&row, progress->index);
		add_text(&row, command);
		add_text(&row, progress->phase);
		if (progress->unit != NULL)
		{
			add_int(&row, progress->done);
			add_int(&row, progress->total);
			add_text(&row, progress->unit);
		}
	}
	while (row.n < PROGRESS_COLUMNS)
		add_null(&row);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
}

/*
 * Get the progress of a mirror's load; returns true if the mirror is being loaded, or brought up to
 * date, or about to be loaded
 */
static bool
get_load(int place, GjProgress *progress, const char **command)
{
	GjMirror	mirror;

	if (!GjMirrorGet(place, &mirror, NULL))
		return false;
	*progress = (GjProgress) {
		.pid = mirror.owner,.database = mirror.key.database,.index = mirror.index,
		.phase = "pushing pages",.unit = "pages",.done = mirror.pages_done,.total = mirror.pages
	};
	*command = "load";
	switch (mirror.state)
	{
		case GJ_MIRROR_WANTED:
			progress->phase = "waiting";
			progress->unit = NULL;
			return true;
		case GJ_MIRROR_LOADING:
			if (mirror.pages == 0)	/* creating the column, or making room for it */
			{
				progress->phase = "taking memory";
				progress->unit = NULL;
			}
			return true;
		case GJ_MIRROR_READY:
			*command = "synchronize";
			return mirror.owner != 0;
		default:
			return false;
	}
}

/*
 * Return true if the user may see the activity of a process, as in PostgreSQL's views
 */
static bool
may_see(int pid)
{
	PGPROC	   *proc;

	if (pid == 0 || reads_all_stats())
		return true;
	proc = BackendPidGetProc(pid);
	return proc != NULL && has_privs_of_role(GetUserId(), proc->roleId);
}
