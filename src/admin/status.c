/*-------------------------------------------------------------------------
 *
 * status.c
 *	  Functions that report on mirrors and the device service: gpujoin_status(),
 *	  gpujoin_mirrors(), gpujoin_fallbacks().
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "mirror/mirror.h"
#include "resultset.h"

PG_FUNCTION_INFO_V1(gpujoin_status);
PG_FUNCTION_INFO_V1(gpujoin_mirrors);
PG_FUNCTION_INFO_V1(gpujoin_fallbacks);
PG_FUNCTION_INFO_V1(gpujoin_stats_reset);

#define STATUS_COLUMNS			45
#define MIRROR_COLUMNS			23
#define FALLBACK_COLUMNS		3

static void add_service(Row *row, const GjServiceStatus *status);
static void add_mirror(Row *row, const GjMirror *mirror, const GjMirrorUse *use);
static const char *state_name(GjServiceState state);
static const char *mirror_state_name(const GjMirror *mirror);

/*
 * gpujoin_status(): return a row about the service, the device, and the numbers of answers
 */
Datum
gpujoin_status(PG_FUNCTION_ARGS)
{
	GjServiceStatus status = {0};
	TupleDesc	desc;
	Row			row = {0};
	GjIndexUse	use;
	TimestampTz since;
	uint64		fallbacks = 0;
	int			ready = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	GjServiceGetStatus(&status);
	add_service(&row, &status);

	for (int place = 0; place < GjMirrorTableSize(); place++)
	{
		GjMirror	mirror;

		if (GjMirrorGet(place, &mirror, NULL) && mirror.state == GJ_MIRROR_READY &&
			mirror.column.epoch == status.epoch)
			ready++;
	}
	GjUsageSum(&use, &since);
	for (GjFallback why = GJ_FALLBACK_NO_KEYS; why < GJ_FALLBACK_COUNT; why++)
		fallbacks += use.n[GJ_USE_ANSWERED + why];
	add_int(&row, ready);
	add_int(&row, use.n[GJ_USE_ANSWERED + GJ_FALLBACK_NONE]);
	add_int(&row, fallbacks);
	add_int(&row, GjUsageEvicted());
	add_time(&row, since);

	if (row.n != STATUS_COLUMNS || desc->natts != STATUS_COLUMNS)
		elog(ERROR, "gpujoin_status() has another number of columns");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row.values,
													  row.nulls)));
}

/*
 * gpujoin_mirrors(): return a row for each entry of the table of mirrors
 */
Datum
gpujoin_mirrors(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows(fcinfo, MIRROR_COLUMNS);

	for (int place = 0; place < GjMirrorTableSize(); place++)
	{
		GjMirror	mirror;
		GjMirrorUse use;
		Row			row = {0};

		if (!GjMirrorGet(place, &mirror, &use))
			continue;
		add_mirror(&row, &mirror, &use);
		Assert(row.n == MIRROR_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
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
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
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

/* Rows ------------------------------------------------------------------------------- */

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
	row->values[row->n++] = BoolGetDatum(status->direct_copies);
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
	row->values[row->n++] = BoolGetDatum(mirror->pinned);
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
			if (mirror->column.epoch != GjServiceEpoch())
				return "lost";
			return mirror->owner != 0 ? "synchronizing" : "ready";
		case GJ_MIRROR_REFUSED:
			return "refused";
		case GJ_MIRROR_DROPPED:
			return "dropped";
	}
	return "empty";
}
