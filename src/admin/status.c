/*-------------------------------------------------------------------------
 *
 * status.c
 *	  Functions that report: the device service, mirrors, counters of indexes, and progress.
 *
 * All users may call those for counters and progress, like PostgreSQL's own index statistics and
 * progress views, and the same rules apply: counters are of indexes in this database, and for
 * commands of other roles only the place where they run is shown.  Roles that may read all
 * statistics see everything.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "base/compat.h"
#include "mirror/mirror.h"

PG_FUNCTION_INFO_V1(gpujoin_status);
PG_FUNCTION_INFO_V1(gpujoin_device_stats);
PG_FUNCTION_INFO_V1(gpujoin_mirrors);
PG_FUNCTION_INFO_V1(gpujoin_fallbacks);
PG_FUNCTION_INFO_V1(gpujoin_stats_reset);
PG_FUNCTION_INFO_V1(gpujoin_index_stats);
PG_FUNCTION_INFO_V1(gpujoin_fold_stats);
PG_FUNCTION_INFO_V1(gpujoin_stats_reset_index);
PG_FUNCTION_INFO_V1(gpujoin_progress);

#define STATUS_COLUMNS			45
#define MIRROR_COLUMNS			24
#define OLD_MIRROR_COLUMNS		23	/* in version 1.1.0, and of gpujoin_mirrors() */
#define FALLBACK_COLUMNS		3
#define USAGE_COLUMNS			25
#define OLD_USAGE_COLUMNS		19	/* in version 1.0.0 of the extension */
#define FOLD_COLUMNS			10
#define PROGRESS_COLUMNS		8

/* Room for the columns of each of these */
#define MAX_COLUMNS				48

/* Values of a row, filled in order */
typedef struct Row
{
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
	int			n;
} Row;

static void add_status(Row *row, int device);
static void add_service(Row *row, const GjServiceStatus *status);
static const char *state_name(GjServiceState state);
static void add_mirror(Row *row, const GjMirror *mirror, const GjMirrorUse *use);
static const char *mirror_state_name(const GjMirror *mirror);
static bool reads_all_stats(void);
static int	hide_unknown(GjUsage *usage, int n);
static void add_usage(Row *row, const GjUsage *usage);
static uint64 count_fallbacks(const GjIndexUse *use);
static Datum list_fallbacks(const GjIndexUse *use);
static void status_add_count(GjJsonState *state, const char *name, uint64 count);
static void put_progress(ReturnSetInfo *rsinfo, const char *command, const GjProgress *progress);
static bool get_load(int place, GjProgress *progress, const char **command);
static bool may_see(int pid);

/* Rows of results, filled one value at a time ------------------------------------------ */

/*
 * Begin a set of rows of this many columns.  The function of an older version of the extension may
 * lack some of the last ones, but has at least "least" columns.
 */
static ReturnSetInfo *
start_rows_from(FunctionCallInfo fcinfo, int least, int ncolumns)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts < least || rsinfo->setDesc->natts > ncolumns)
		elog(ERROR, "%s() has another number of columns", get_func_name(fcinfo->flinfo->fn_oid));
	return rsinfo;
}

static ReturnSetInfo *
start_rows(FunctionCallInfo fcinfo, int ncolumns)
{
	return start_rows_from(fcinfo, ncolumns, ncolumns);
}

static void
status_put_row(ReturnSetInfo *rsinfo, Row *row, int ncolumns)
{
	Assert(row->n == ncolumns);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
}

static void
add_null(Row *row)
{
	row->nulls[row->n++] = true;
}

static void
status_add_bool(Row *row, bool value)
{
	row->values[row->n++] = BoolGetDatum(value);
}

static void
add_text(Row *row, const char *value)
{
	if (value[0] == '\0')
		add_null(row);
	else
		row->values[row->n++] = CStringGetTextDatum(value);
}

static void
add_int(Row *row, uint64 value)
{
	row->values[row->n++] = Int64GetDatum((int64) value);
}

static void
add_time(Row *row, TimestampTz value)
{
	if (value == 0)
		add_null(row);
	else
		row->values[row->n++] = TimestampTzGetDatum(value);
}

static void
add_oid(Row *row, Oid value)
{
	if (!OidIsValid(value))
		add_null(row);
	else
		row->values[row->n++] = ObjectIdGetDatum(value);
}

static void
add_double(Row *row, double value)
{
	row->values[row->n++] = Float8GetDatum(value);
}

/* The device service ------------------------------------------------------------------- */

/*
 * gpujoin_status(): return a row about the service of the first device, the device, and the numbers
 * of answers
 */
Datum
gpujoin_status(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Row			row = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	add_status(&row, 0);
	if (row.n != STATUS_COLUMNS || desc->natts != STATUS_COLUMNS)
		elog(ERROR, "gpujoin_status() has another number of columns");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row.values,
													  row.nulls)));
}

/*
 * gpujoin_device_stats(): return the same for each device, with its number
 */
Datum
gpujoin_device_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows(fcinfo, STATUS_COLUMNS + 1);

	for (int device = 0; device < Max(GjServiceDevices(), 1); device++)
	{
		Row			row = {0};

		add_status(&row, device);
		row.values[row.n++] = Int32GetDatum(device);
		status_put_row(rsinfo, &row, STATUS_COLUMNS + 1);
	}
	return (Datum) 0;
}

/*
 * Add the columns of a device.  What is counted for the server is in the first one's row only, so
 * that sums are right.
 */
static void
add_status(Row *row, int device)
{
	GjServiceStatus status;
	GjIndexUse	use;
	TimestampTz since;
	int			ready = 0;

	GjServiceGetStatus(device, &status);
	add_service(row, &status);
	for (int place = 0; place < GjMirrorTableSize(); place++)
	{
		GjMirror	mirror;

		if (GjMirrorGet(place, &mirror, NULL) && mirror.state == GJ_MIRROR_READY &&
			(int) mirror.column.device == device && mirror.column.epoch == status.epoch)
			ready++;
	}
	add_int(row, ready);
	if (device == 0)
	{
		GjUsageSum(&use, &since);
		add_int(row, use.n[GJ_USE_ANSWERED + GJ_FALLBACK_NONE]);
		add_int(row, count_fallbacks(&use));
		add_int(row, GjUsageEvicted());
		add_time(row, since);
	}
	while (row->n < STATUS_COLUMNS)
		add_null(row);
}

static void
add_service(Row *row, const GjServiceStatus *status)
{
	add_text(row, state_name(status->state));
	add_text(row, status->reason);
	add_text(row, status->hint ? status->hint : "");
	add_time(row, status->state_since);
	add_text(row, status->last_error);
	add_time(row, status->last_error_at);
	add_text(row, status->device);
	add_text(row, status->uuid);
	if (status->compute_major > 0)
		add_text(row, psprintf("%d.%d", status->compute_major, status->compute_minor));
	else
		add_null(row);
	add_int(row, status->driver_version);
	add_int(row, status->runtime_version);
	add_int(row, status->epoch);
	add_int(row, status->supervisor_pid);
	add_int(row, status->helper_pid);
	add_int(row, status->memory_budget);
	add_int(row, status->memory_columns_limit);
	add_int(row, status->memory_columns);
	add_int(row, status->memory_scratch);
	add_int(row, status->memory_total);
	add_int(row, status->memory_free);
	add_int(row, status->columns);
	add_int(row, status->keysets);
	add_int(row, status->matches);
	status_add_bool(row, status->direct_copies);
	add_int(row, status->slots);
	add_int(row, status->slots_used);
	add_int(row, status->slots_abandoned);
	for (int i = 0; i < GJ_COUNT_COUNTERS; i++)
		add_int(row, status->counters[i]);
}

/*
 * Get the name of a state, as shown to users
 */
static const char *
state_name(GjServiceState state)
{
	switch (state)
	{
		case GJ_STATE_OFF:
			return "off";
		case GJ_STATE_NONE:
			return "none";
		case GJ_STATE_STARTING:
			return "starting";
		case GJ_STATE_READY:
			return "ready";
		case GJ_STATE_RESTARTING:
			return "restarting";
		case GJ_STATE_FAILED:
			return "failed";
		case GJ_STATE_STUCK:
			return "stuck";
	}
	return "unknown";
}

/*
 * gpujoin_fallbacks(): return how often each reason kept the device from answering
 */
Datum
gpujoin_fallbacks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows(fcinfo, FALLBACK_COLUMNS);
	GjIndexUse	use;
	TimestampTz since;

	GjUsageSum(&use, &since);
	/* the one before is not counted */
	for (GjFallback why = GJ_FALLBACK_NOT_PRELOADED; why < GJ_FALLBACK_COUNT; why++)
	{
		Row			row = {0};

		add_text(&row, GjFallbackName(why));
		add_text(&row, GjFallbackText(why));
		add_int(&row, use.n[GJ_USE_ANSWERED + why]);
		status_put_row(rsinfo, &row, FALLBACK_COLUMNS);
	}
	return (Datum) 0;
}

/*
 * gpujoin_stats_reset(): set the counters of indexes, answers and fallbacks to zero
 */
Datum
gpujoin_stats_reset(PG_FUNCTION_ARGS)
{
	GjUsageReset(InvalidOid);
	GjMirrorStatsReset();
	PG_RETURN_VOID();
}

/*
 * gpujoin_mirrors(): return a row for each entry of the table of mirrors
 */
Datum
gpujoin_mirrors(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows_from(fcinfo, OLD_MIRROR_COLUMNS, MIRROR_COLUMNS);

	for (int place = 0; place < GjMirrorTableSize(); place++)
	{
		GjMirror	mirror;
		GjMirrorUse use;
		Row			row = {0};

		if (!GjMirrorGet(place, &mirror, &use))
			continue;
		add_mirror(&row, &mirror, &use);
		status_put_row(rsinfo, &row, MIRROR_COLUMNS);
	}
	return (Datum) 0;
}

static void
add_mirror(Row *row, const GjMirror *mirror, const GjMirrorUse *use)
{
	row->values[row->n++] = ObjectIdGetDatum(mirror->key.database);
	row->values[row->n++] = ObjectIdGetDatum(mirror->index);
	row->values[row->n++] = ObjectIdGetDatum(mirror->key.tablespace);
	row->values[row->n++] = ObjectIdGetDatum(mirror->key.file);
	add_text(row, psprintf("%016llx", (unsigned long long) mirror->key.build_id));
	add_text(row, mirror_state_name(mirror));
	add_text(row, mirror->state == GJ_MIRROR_REFUSED ? GjFallbackText(mirror->refusal) : "");
	status_add_bool(row, mirror->pinned);
	if (mirror->owner != 0)
		add_int(row, mirror->owner);
	else
		add_null(row);
	add_int(row, mirror->pages);
	add_int(row, mirror->pages_done);
	add_int(row, mirror->entries);
	add_int(row, mirror->bytes);
	add_int(row, mirror->sequence);
	add_int(row, mirror->vacuum_epoch);
	add_int(row, mirror->nopen);
	add_int(row, mirror->syncs);
	add_int(row, mirror->pages_pushed);
	add_int(row, use->matches);
	add_time(row, use->last_used);
	add_time(row, mirror->loaded_at);
	add_time(row, mirror->state == GJ_MIRROR_REFUSED ? mirror->retry_at : 0);
	add_int(row, mirror->tries);
	if (mirror->column.epoch != 0)
		row->values[row->n++] = Int32GetDatum(mirror->column.device);
	else if (mirror->target != GJ_ANY_DEVICE)
		row->values[row->n++] = Int32GetDatum(mirror->target);
	else
		add_null(row);
}

static const char *
mirror_state_name(const GjMirror *mirror)
{
	switch (mirror->state)
	{
		case GJ_MIRROR_EMPTY:
			break;
		case GJ_MIRROR_WANTED:
			return "wanted";
		case GJ_MIRROR_LOADING:
			return "loading";
		case GJ_MIRROR_READY:
			if (mirror->column.epoch != GjServiceEpoch(mirror->column.device))
				return "lost";
			return mirror->owner != 0 ? "synchronizing" : "ready";
		case GJ_MIRROR_REFUSED:
			return "refused";
		case GJ_MIRROR_DROPPED:
			return "dropped";
	}
	return "empty";
}

/* Counters of indexes ---------------------------------------------------------------- */

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
		status_put_row(rsinfo, &row, USAGE_COLUMNS);
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
		status_put_row(rsinfo, &row, FOLD_COLUMNS);
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
	GjJsonState state = {0};

	GjPushJson(&state, WJB_BEGIN_OBJECT, NULL);
	for (GjFallback why = GJ_FALLBACK_NO_KEYS; why < GJ_FALLBACK_COUNT; why++)
	{
		uint64		n = use->n[GJ_USE_ANSWERED + why];

		if (n > 0)
			status_add_count(&state, GjFallbackName(why), n);
	}
	GjPushJson(&state, WJB_END_OBJECT, NULL);
	return JsonbPGetDatum(JsonbValueToJsonb(state.result));
}

static void
status_add_count(GjJsonState *state, const char *name, uint64 count)
{
	JsonbValue	key = {.type = jbvString};
	JsonbValue	number = {.type = jbvNumeric};

	key.val.string.val = unconstify(char *, name);
	key.val.string.len = strlen(name);
	number.val.numeric = int64_to_numeric((int64) count);
	GjPushJson(state, WJB_KEY, &key);
	GjPushJson(state, WJB_VALUE, &number);
}

/* Progress --------------------------------------------------------------------------- */

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
	status_put_row(rsinfo, &row, PROGRESS_COLUMNS);
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
