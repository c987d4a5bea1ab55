/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Making a mirror, and bringing one up to date.
 *
 * Both read the metapage first, and then the pages; the sequence number, the open pages and the
 * lists read first are what the mirror has when all pages have been taken (match/device.c says
 * why).  Pages may change while they are read, by insertions, switches and VACUUM: a copy
 * then has changes above that number, and the next synchronisation takes the page again.  If a
 * fold has moved the lists meanwhile, the mirror answers nothing until a synchronisation has gone
 * through all pages once more.
 *
 * The loader's process, or the query's, holds AccessShareLock on the index all the time.
 * So the index cannot be dropped, truncated or rebuilt in the meantime, and DDL has to
 * wait for the load's end, as for a query's.  A loader, which no user waits for, gives way.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "cuda/border/gpujoin_device.h"
#include "push.h"
#include "table.h"

/* When to try again what did not fit */
#define RETRY_NO_MEMORY_MS		10000

/*
 * How often a request is tried for which there is no slot; each time takes GjSlotAcquire() 20 ms.
 * A query has better things to do, a loader has a second, a command five.
 */
#define SLOT_TRIES_LOADER		50
#define SLOT_TRIES_COMMAND		250

/* How the device library lays out columns: cuda/layout.h */
#define PAGE_GROUP				128

static GjFallback load(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
					   const GjIndexState *state);
static GjFallback create_column(const GjIndexInfo *info, BlockNumber pages, int place,
								GjLoadMode mode);
static GjFallback push_all(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
						   const GjIndexState *state, BlockNumber pages);
static bool may_try_again(GjServiceResult result, GjLoadMode mode, int *tries);
static bool synchronize(Relation index, const GjIndexInfo *info, int place, GjMirror *mirror,
						uint64 *pages_pushed);
static GjFallback fallback_of(GjServiceResult result);

/*
 * Load an index, unless it is loaded
 *
 * Returns GJ_FALLBACK_NONE if there is a mirror now; otherwise the reason why not, which may be
 * that somebody else is loading it.
 */
GjFallback
GjMirrorLoad(Relation index, GjLoadMode mode)
{
	const char *why_not;
	GjIndexState state;
	GjMirrorKey key;
	GjFallback	result;
	int			place;

	if (!GjMirrorTableExists())
		return GJ_FALLBACK_NOT_PRELOADED;
	if (!GjServiceReady(&why_not))
		return GJ_FALLBACK_SERVICE;
	if (RelationUsesLocalBuffers(index))
		return GJ_FALLBACK_TEMPORARY;

	GjIndexGetState(index, &state);
	GjMirrorKeyOf(index, state.build_id, &key);
	for (;;)
	{
		result = GjMirrorClaimLoad(&key, RelationGetRelid(index), GjIndexIsPreloaded(index),
								   &place);
		if (result != GJ_FALLBACK_TABLE_FULL || !GjMirrorEvict(mode))
			break;
	}
	if (result != GJ_FALLBACK_NONE || place < 0)
		return result;
	return GjMirrorLoadClaimed(index, place, mode);
}

/*
 * Load an index whose entry in the table is ours.  Whatever happens, it is not ours afterwards.
 */
GjFallback
GjMirrorLoadClaimed(Relation index, int place, GjLoadMode mode)
{
	GjFallback	result = GJ_FALLBACK_FAILED;

	PG_TRY();
	{
		GjIndexInfo info;
		GjIndexState state;

		GjIndexGetInfo(index, &info);
		GjIndexGetState(index, &state);
		result = load(index, &info, place, mode, &state);
	}
	PG_CATCH();
	{
		GjMirrorAbandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
	return result;
}

/*
 * Return the device memory that a mirror takes
 */
uint64
GjMirrorBytes(const GjIndexInfo *info, BlockNumber pages)
{
	gjd_shape	shape;
	uint64		page_bytes;
	uint64		extent_bytes;
	uint64		extent_pages;

	GjMirrorShape(info, &shape);
	page_bytes = gjd_shape_page_bytes(&shape);
	extent_bytes = TYPEALIGN64(GJD_EXTENT_BYTES, page_bytes * PAGE_GROUP);
	extent_pages = extent_bytes / page_bytes / PAGE_GROUP * PAGE_GROUP;
	return (pages + extent_pages - 1) / extent_pages * extent_bytes;
}

/*
 * Bring a mirror up to date with the index
 *
 * Returns false if it is not up to date, perhaps as somebody else is doing that.
 */
bool
GjMirrorSync(Relation index, const GjIndexInfo *info, int place, uint64 *pages_pushed)
{
	GjMirror	mirror;
	GjMirrorKey key;
	bool		done = false;

	if (!GjMirrorGet(place, &mirror, NULL))
		return false;
	GjMirrorKeyOf(index, mirror.key.build_id, &key);
	if (memcmp(&key, &mirror.key, sizeof(key)) != 0 || !GjMirrorClaimSync(place, &mirror))
		return false;

	PG_TRY();
	{
		done = synchronize(index, info, place, &mirror, pages_pushed);
		if (!done)
			GjMirrorAbandonEntry(place);
	}
	PG_CATCH();
	{
		GjMirrorAbandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
	return done;
}

/*
 * Make the column and push all pages.  state was read before.
 */
static GjFallback
load(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
	 const GjIndexState *state)
{
	BlockNumber pages = GjIndexGetLength(index) - info->first_data;
	GjFallback	result = create_column(info, pages, place, mode);

	if (result == GJ_FALLBACK_NONE)
		result = push_all(index, info, place, mode, state, pages);
	if (result == GJ_FALLBACK_NONE)
		return result;

	if (mode == GJ_LOAD_AT_BUILD &&
		(result == GJ_FALLBACK_NO_MEMORY || result == GJ_FALLBACK_TOO_BIG))
		GjMirrorForget(place);	/* nobody has asked for it yet */
	else
		GjMirrorRefuse(place, result,
					   result == GJ_FALLBACK_NO_MEMORY || result == GJ_FALLBACK_TOO_BIG ?
					   RETRY_NO_MEMORY_MS : 0);
	return result;
}

/*
 * Make the column, and room for it
 */
static GjFallback
create_column(const GjIndexInfo *info, BlockNumber pages, int place, GjLoadMode mode)
{
	GjMirrorRoom room = {.bytes = GjMirrorBytes(info, pages), .mode = mode};
	GjServiceStatus status;
	GjServiceColumn column;
	GjServiceResult result;
	gjd_shape	shape;
	int			tries = 0;

	GjMirrorShape(info, &shape);
	do
		result = GjServiceColumnCreate(&shape, pages, &column);
	while ((result == GJ_SERVICE_NO_MEMORY && GjMirrorMakeRoom(&room)) ||
		   may_try_again(result, mode, &tries));

	if (result == GJ_SERVICE_OK)
	{
		GjMirrorSetColumn(place, &column, pages, room.bytes);
		return GJ_FALLBACK_NONE;
	}
	GjServiceGetStatus(&status);
	if (result == GJ_SERVICE_NO_MEMORY && room.bytes > status.memory_columns_limit)
		return GJ_FALLBACK_TOO_BIG;
	return fallback_of(result);
}

/*
 * Fill the column; if that fails, free it
 */
static GjFallback
push_all(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
		 const GjIndexState *state, BlockNumber pages)
{
	GjBlockRange all = {info->first_data, info->first_data + pages};
	GjServiceResult result;
	GjMirror	mirror;
	GjMirrorPush to_push = {0};
	int			tries = 0;

	(void) GjMirrorGet(place, &mirror, NULL);
	to_push.index = index;
	to_push.info = info;
	to_push.place = place;
	to_push.mode = mode;
	to_push.lists = state;
	to_push.ranges = &all;
	to_push.nranges = 1;
	to_push.count_from = all.start;
	do
		result = GjMirrorPushPages(&to_push, &mirror.column);
	while (may_try_again(result, mode, &tries));
	if (result == GJ_SERVICE_OK && !to_push.gave_way)
	{
		GjMirrorFinish(place, GjListsMoved(index, state) ? NULL : state, pages, mirror.bytes,
					   to_push.pushed, to_push.entries);
		return GJ_FALLBACK_NONE;
	}

	/* free it here and now, so that its entry can say when to try again */
	if (GjServiceColumnDrop(&mirror.column) == GJ_SERVICE_OK)
	{
		memset(&mirror.column, 0, sizeof(GjServiceColumn));
		GjMirrorSetColumn(place, &mirror.column, pages, 0);
	}
	return to_push.gave_way ? GJ_FALLBACK_LOADING : fallback_of(result);
}

/*
 * Tell whether a request for which there was no slot is worth another try
 */
static bool
may_try_again(GjServiceResult result, GjLoadMode mode, int *tries)
{
	int			most = SLOT_TRIES_LOADER;

	if (mode == GJ_LOAD_BY_QUERY)
		most = 1;
	else if (mode == GJ_LOAD_BY_OWNER || mode == GJ_LOAD_BY_SUPERUSER)
		most = SLOT_TRIES_COMMAND;
	return result == GJ_SERVICE_BUSY && ++*tries < most;
}

/*
 * Push what the mirror lacks, which is ours to synchronise
 */
static bool
synchronize(Relation index, const GjIndexInfo *info, int place, GjMirror *mirror,
			uint64 *pages_pushed)
{
	GjIndexJournal *journal = palloc(sizeof(GjIndexJournal));
	GjMirrorLag *lag;
	GjMirrorRoom room = {.mode = GJ_LOAD_BY_QUERY};
	uint64		bytes;
	GjMirrorPush to_push = {0};
	BlockNumber nblocks;
	GjServiceResult result;

	GjIndexGetJournal(index, journal);
	if (journal->state.build_id != mirror->key.build_id)
	{
		pfree(journal);
		return false;
	}
	lag = palloc(sizeof(GjMirrorLag));
	GjMirrorGetLag(index, info, mirror, journal, lag);
	nblocks = GjIndexGetLength(index);
	to_push.lists = &journal->state;
	to_push.count_from = info->first_data + mirror->pages;
	if (lag->unknown)
	{
		/* each page that was changed since, or has begun or ceased to live, says so itself */
		lag->nranges = 1;
		lag->ranges[0].start = info->first_data;
		lag->ranges[0].end = nblocks;
		to_push.above = mirror->sequence;
		to_push.before = mirror;
		to_push.count_from = info->first_data;
	}

	to_push.index = index;
	to_push.info = info;
	to_push.place = place;
	to_push.mode = GJ_LOAD_BY_QUERY;
	to_push.ranges = lag->ranges;
	to_push.nranges = lag->nranges;
	bytes = GjMirrorBytes(info, nblocks - info->first_data);
	room.bytes = bytes - Min(bytes, mirror->bytes);
	do
		result = GjMirrorPushPages(&to_push, &mirror->column);
	while (result == GJ_SERVICE_NO_MEMORY && GjMirrorMakeRoom(&room));

	if (result == GJ_SERVICE_OK)
	{
		GjMirrorFinish(place, GjListsMoved(index, &journal->state) ? NULL : &journal->state,
					   nblocks - info->first_data, Max(bytes, mirror->bytes), to_push.pushed,
					   to_push.entries + (lag->unknown ? 0 : mirror->entries));
		*pages_pushed += to_push.pushed;
	}
	else
	{
		GjMirrorAbandonEntry(place);
		if (result == GJ_SERVICE_GONE)
			GjMirrorGone(place, &mirror->column);
	}
	pfree(lag);
	pfree(journal);
	return result == GJ_SERVICE_OK;
}

static GjFallback
fallback_of(GjServiceResult result)
{
	switch (result)
	{
		case GJ_SERVICE_OK:
			return GJ_FALLBACK_NONE;
		case GJ_SERVICE_UNAVAILABLE:
			return GJ_FALLBACK_SERVICE;
		case GJ_SERVICE_BUSY:
			return GJ_FALLBACK_BUSY;
		case GJ_SERVICE_GONE:
			return GJ_FALLBACK_GONE;
		case GJ_SERVICE_NO_MEMORY:
			return GJ_FALLBACK_NO_MEMORY;
		case GJ_SERVICE_FAILED:
			break;
	}
	return GJ_FALLBACK_FAILED;
}
