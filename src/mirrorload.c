/*-------------------------------------------------------------------------
 *
 * mirrorload.c
 *	  Making a mirror, and bringing one up to date: reading index pages and pushing
 *	  them to the device.
 *
 * Both read the metapage first, and then the pages; the sequence number and the open
 * pages read first are what the mirror has when all pages have been taken (mirror.c says
 * why).  Pages may change while they are read, by insertions, switches and VACUUM: a copy
 * then has changes above that number, and the next synchronisation takes the page again.
 *
 * A page is converted under its share lock, in about a microsecond, straight into memory
 * that the device reads; no other lock is held, and nobody waits for the device with a
 * page locked.
 *
 * The loader's process, or the query's, holds AccessShareLock on the index all the time.
 * So the index cannot be dropped, truncated or rebuilt in the meantime, and DDL has to
 * wait for the load's end, as for a query's.  A loader, which no user waits for, gives way.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/rel.h"

#include "cuda/gpujoin_device.h"
#include "mirror.h"

/* When to try again what has failed */
#define RETRY_NO_MEMORY_MS		10000
#define RETRY_FAILED_MS			2000

/* A loader looks whether somebody waits for it after so many pages */
#define GIVE_WAY_PAGES			512

/* Device memory comes in pieces of this size, of which a column takes whole ones */
#define PIECE_BYTES				(UINT64CONST(16) << 20)

/* Pages on their way to a column */
typedef struct Push
{
	Relation	index;
	const GjIndexInfo *info;
	int			slot;			/* for progress */
	GjLoadMode	mode;
	const GjBlockRange *ranges;
	int			nranges;
	int			range;			/* current one */
	BlockNumber next;			/* next block of it, if within */
	uint64		above;			/* leave out pages whose last change is not above this */
	BlockNumber count_from;		/* count entries of blocks from here on */
	BufferAccessStrategy strategy;
	BlockNumber pages_read;
	uint64		pushed;
	uint64		entries;
	bool		gave_way;
} Push;

static GjFallback load(Relation index, const GjIndexInfo *info, int slot, GjLoadMode mode,
					   const GjIndexState *state);
static GjServiceResult create_column(int key_width, int slots, BlockNumber pages, int slot,
									 GjLoadMode mode);
static bool synchronize(Relation index, const GjIndexInfo *info, int slot, GjMirror *mirror,
						uint64 *pages_pushed);
static GjServiceResult push(Push *state, const GjServiceColumn *column);
static int	fill(void *arg, struct gjd_page_head *heads, char *images, int max_pages);
static bool next_block(Push *state, BlockNumber *block);
static bool take_page(Push *state, BlockNumber block, struct gjd_page_head *head,
					  char *image);
static void make_image(Page page, const GjIndexInfo *info, char *image);
static bool must_give_way(Relation index);
static GjFallback fallback_of(GjServiceResult result);

/*
 * Load an index, unless it is loaded
 *
 * GJ_FALLBACK_NONE: there is a mirror now.  Otherwise the reason why not, among them that
 * somebody else is loading it.
 */
GjFallback
GjMirrorLoad(Relation index, GjLoadMode mode)
{
	const char *why_not;
	GjIndexState state;
	GjMirrorKey key;
	GjFallback	result;
	int			slot;

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
								   &slot);
		if (result != GJ_FALLBACK_TABLE_FULL || !GjMirrorEvict(mode))
			break;
	}
	if (result != GJ_FALLBACK_NONE || slot < 0)
		return result;
	return GjMirrorLoadClaimed(index, slot, mode);
}

/*
 * Load an index whose entry in the table is ours.  Whatever happens, it is not then.
 */
GjFallback
GjMirrorLoadClaimed(Relation index, int slot, GjLoadMode mode)
{
	GjFallback	result = GJ_FALLBACK_FAILED;

	PG_TRY();
	{
		GjIndexInfo info;
		GjIndexState state;

		GjIndexGetInfo(index, &info);
		GjIndexGetState(index, &state);
		result = load(index, &info, slot, mode, &state);
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
 * Bring a mirror up to date with the index
 *
 * Returns false if it is not, be it that somebody else is doing that.
 */
bool
GjMirrorSync(Relation index, const GjIndexInfo *info, int slot, uint64 *pages_pushed)
{
	GjMirror	mirror;
	GjMirrorKey key;
	bool		done = false;

	if (!GjMirrorGet(slot, &mirror, NULL))
		return false;
	GjMirrorKeyOf(index, mirror.key.build_id, &key);
	if (memcmp(&key, &mirror.key, sizeof(key)) != 0 || !GjMirrorClaimSync(slot, &mirror))
		return false;

	PG_TRY();
	{
		done = synchronize(index, info, slot, &mirror, pages_pushed);
		if (!done)
			GjMirrorAbandonEntry(slot);
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
load(Relation index, const GjIndexInfo *info, int slot, GjLoadMode mode,
	 const GjIndexState *state)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	GjBlockRange all = {info->first_data, Max(nblocks, info->first_data)};
	BlockNumber pages = all.end - all.start;
	GjServiceResult result;
	GjMirror	mirror;
	Push		to_push = {0};

	result = create_column(info->key_width, info->slots, pages, slot, mode);
	if (result == GJ_SERVICE_OK)
	{
		(void) GjMirrorGet(slot, &mirror, NULL);
		to_push.index = index;
		to_push.info = info;
		to_push.slot = slot;
		to_push.mode = mode;
		to_push.ranges = &all;
		to_push.nranges = 1;
		to_push.next = all.start;
		to_push.count_from = all.start;
		result = push(&to_push, &mirror.column);
		if (result == GJ_SERVICE_OK && !to_push.gave_way)
		{
			GjMirrorFinish(slot, state, pages, to_push.pushed, to_push.entries);
			return GJ_FALLBACK_NONE;
		}

		/* free it here and now, so that the entry can say when to try again */
		if (GjServiceColumnDrop(&mirror.column) == GJ_SERVICE_OK)
		{
			memset(&mirror.column, 0, sizeof(GjServiceColumn));
			GjMirrorSetColumn(slot, &mirror.column, pages, 0);
		}
	}

	if (to_push.gave_way)
	{
		GjMirrorRefuse(slot, GJ_FALLBACK_LOADING, GJ_MIRROR_GAVE_WAY_MS);
		return GJ_FALLBACK_LOADING;
	}
	GjMirrorRefuse(slot, fallback_of(result),
				   result == GJ_SERVICE_NO_MEMORY ? RETRY_NO_MEMORY_MS : RETRY_FAILED_MS);
	return fallback_of(result);
}

/*
 * Make the column, and room for it
 */
static GjServiceResult
create_column(int key_width, int slots, BlockNumber pages, int slot, GjLoadMode mode)
{
	uint64		page_bytes = (uint64) slots * (key_width + 6) + slots / 8;
	uint64		bytes = (pages * page_bytes + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
	GjServiceColumn column;
	GjServiceResult result;
	bool		cleaned = false;

	for (;;)
	{
		result = GjServiceColumnCreate(key_width, slots, pages, &column);
		if (result != GJ_SERVICE_NO_MEMORY)
			break;
		if (!cleaned)
		{
			cleaned = true;
			GjMirrorSweep();
			GjMirrorCollect();
			if (!GjMirrorCanMakeRoom(bytes, mode))
				break;
		}
		else if (!GjMirrorEvict(mode))
			break;
	}
	if (result == GJ_SERVICE_OK)
		GjMirrorSetColumn(slot, &column, pages, bytes);
	return result;
}

/*
 * Push what the mirror lacks, which is ours to synchronise
 */
static bool
synchronize(Relation index, const GjIndexInfo *info, int slot, GjMirror *mirror,
			uint64 *pages_pushed)
{
	GjIndexJournal *journal = palloc(sizeof(GjIndexJournal));
	GjMirrorLag *lag = palloc(sizeof(GjMirrorLag));
	Push		to_push = {0};
	BlockNumber nblocks;
	GjServiceResult result;

	GjIndexGetJournal(index, journal);
	if (journal->state.build_id != mirror->key.build_id)
		return false;
	GjMirrorGetLag(index, info, mirror, journal, lag);
	nblocks = RelationGetNumberOfBlocks(index);
	if (lag->unknown)
	{
		/* each page that was changed since says so itself */
		lag->nranges = 1;
		lag->ranges[0].start = info->first_data;
		lag->ranges[0].end = nblocks;
		to_push.above = mirror->sequence;
	}

	to_push.index = index;
	to_push.info = info;
	to_push.slot = slot;
	to_push.mode = GJ_LOAD_BY_QUERY;
	to_push.ranges = lag->ranges;
	to_push.nranges = lag->nranges;
	to_push.next = lag->nranges > 0 ? lag->ranges[0].start : 0;
	to_push.count_from = info->first_data + mirror->pages;
	do
		result = push(&to_push, &mirror->column);
	while (result == GJ_SERVICE_NO_MEMORY && GjMirrorEvict(GJ_LOAD_BY_QUERY));

	if (result == GJ_SERVICE_OK)
	{
		GjMirrorFinish(slot, &journal->state, nblocks - info->first_data, to_push.pushed,
					   mirror->entries + to_push.entries);
		*pages_pushed += to_push.pushed;
	}
	else
	{
		GjMirrorAbandonEntry(slot);
		if (result == GJ_SERVICE_GONE)
			GjMirrorGone(slot, &mirror->column);
	}
	pfree(lag);
	pfree(journal);
	return result == GJ_SERVICE_OK;
}

/*
 * Push pages, from the first on: again after a failure
 */
static GjServiceResult
push(Push *state, const GjServiceColumn *column)
{
	GjServiceResult result;

	state->range = 0;
	state->next = state->nranges > 0 ? state->ranges[0].start : 0;
	state->pages_read = 0;
	state->pushed = 0;
	state->entries = 0;
	state->strategy = GetAccessStrategy(BAS_BULKREAD);
	result = GjServicePush(column, state->info->key_width, state->info->slots, fill, state);
	FreeAccessStrategy(state->strategy);
	return result;
}

/*
 * Callback of the service: write the next pages where the device reads them
 */
static int
fill(void *arg, struct gjd_page_head *heads, char *images, int max_pages)
{
	Push	   *state = arg;
	size_t		image_bytes = gjd_image_bytes(state->info->slots, state->info->key_width);
	BlockNumber block;
	int			npages = 0;

	while (npages < max_pages && next_block(state, &block))
	{
		CHECK_FOR_INTERRUPTS();
		if (state->mode == GJ_LOAD_BY_LOADER && state->pages_read % GIVE_WAY_PAGES == 0 &&
			must_give_way(state->index))
		{
			state->gave_way = true;
			return 0;
		}
		state->pages_read++;
		if (take_page(state, block, &heads[npages], images + npages * image_bytes))
			npages++;
	}
	state->pushed += npages;
	GjMirrorSetProgress(state->slot, state->pages_read);
	return npages;
}

static bool
next_block(Push *state, BlockNumber *block)
{
	while (state->range < state->nranges && state->next >= state->ranges[state->range].end)
	{
		if (++state->range < state->nranges)
			state->next = state->ranges[state->range].start;
	}
	if (state->range >= state->nranges)
		return false;
	*block = state->next++;
	return true;
}

/*
 * Convert a page; false if there is nothing on it that the device needs
 */
static bool
take_page(Push *state, BlockNumber block, struct gjd_page_head *head, char *image)
{
	Buffer		buffer = ReadBufferExtended(state->index, MAIN_FORKNUM, block, RBM_NORMAL,
											state->strategy);
	Page		page = BufferGetPage(buffer);
	bool		wanted = false;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(page))
	{
		GjPageOpaque opaque = GjPageGetOpaque(page);

		GjPageCheck(state->index, buffer, GJ_PAGE_DATA);
		wanted = opaque->change > state->above;
		if (wanted)
		{
			head->page = block - state->info->first_data;
			head->version = opaque->change;
			make_image(page, state->info, image);
			if (block >= state->count_from)
				state->entries += opaque->used;
		}
	}
	UnlockReleaseBuffer(buffer);
	return wanted;
}

/*
 * Write a data page as the device wants it: gpujoin_device.h
 */
static void
make_image(Page page, const GjIndexInfo *info, char *image)
{
	int			nslots = info->slots;
	const ItemPointerData *tids = GjDataTids(page, info);
	uint32	   *blocks = (uint32 *) (image + gjd_image_blocks_at(nslots, info->key_width));
	uint16	   *offsets = (uint16 *) (image + gjd_image_offsets_at(nslots, info->key_width));

	memcpy(image, GjDataKeys(page, info), (Size) nslots * info->key_width);
	for (int i = 0; i < nslots; i++)
	{
		blocks[i] = BlockIdGetBlockNumber(&tids[i].ip_blkid);
		offsets[i] = tids[i].ip_posid;
	}
	memcpy(image + gjd_image_valid_at(nslots, info->key_width), GjDataUsed(page, info),
		   info->words * sizeof(uint32));
}

/*
 * Does somebody wait for our lock on the index, or want to drop or copy the database?
 *
 * A lock of another mode is not given to us while somebody waits for one that conflicts
 * with it.  (LockHasWaitersRelation() is no help: it cannot be asked about a lock that
 * was taken on the fast path.)
 *
 * DROP DATABASE and CREATE DATABASE ... TEMPLATE lock the database and then wait a few
 * seconds for its sessions to go away; nobody holds that lock for long otherwise.
 */
static bool
must_give_way(Relation index)
{
	LOCKTAG		tag;

	if (!ConditionalLockRelation(index, RowShareLock))
		return true;
	UnlockRelation(index, RowShareLock);

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, false);
	return false;
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
