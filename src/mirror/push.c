/*-------------------------------------------------------------------------
 *
 * push.c
 *	  Reading index pages and writing them where the device reads them.
 *
 * A page is converted under its share lock, in about a microsecond, straight into memory
 * that the device reads; no other lock is held, and nobody waits for the device with a
 * page locked.
 *
 * A page is taken if it is a data page that lives by the lists that were read before.  In a full
 * pass all other pages are taken as empty ones: the column may have what was there when they
 * lived.  The device keeps of two copies of a page the one with the higher version, which is the
 * change counter.  An empty one of a page that is free comes right behind that, and is replaced by
 * the next real change, which has a number of at least two more (pages/lists.c).  An empty one of
 * a page that does not live yet comes right before its own number, so that the page itself replaces
 * it once it lives.
 *
 * Whose lists those are that were read is looked at again by the caller, at the end.
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
#include "utils/snapmgr.h"

#include "cuda/border/gpujoin_device.h"
#include "push.h"
#include "table.h"

/* A loader looks whether somebody waits for it after so many pages */
#define GIVE_WAY_PAGES			512

static int	fill(void *arg, struct gjd_page_head *heads, char *images, int max_pages);
static bool next_block(GjMirrorPush *state, BlockNumber *block);
static bool is_wanted(const GjMirrorPush *state, Page page, GjPageKind kind, GjPageOwner owner);
static bool has_changed(const GjMirrorPush *state, GjPageOpaque opaque);
static bool was_dead(const GjMirror *before, uint32 run);
static bool take_page(GjMirrorPush *state, BlockNumber block, struct gjd_page_head *head,
					  char *image);
static void make_image(Page page, const GjIndexInfo *info, const gjd_shape *shape,
					   char *image);
static bool must_give_way(Relation index);

/*
 * Describe the shape of an index's mirror, which has all of its INCLUDE columns
 */
void
GjMirrorShape(const GjIndexInfo *info, gjd_shape *shape)
{
	StaticAssertStmt(GJ_MAX_INCLUDED <= GJD_MAX_CARRIED, "a device carries all INCLUDE columns");
	memset(shape, 0, sizeof(gjd_shape));
	shape->key_bytes = info->key_width;
	shape->slots = info->slots;
	shape->n_carried = info->nincluded;
	for (int i = 0; i < info->nincluded; i++)
	{
		shape->carried_bytes[i] = info->included[i].width;
		shape->nullable |= (uint32) 1 << i;
	}
}

/*
 * Push pages, from the first one on; so again after a failure
 */
GjServiceResult
GjMirrorPushPages(GjMirrorPush *state, const GjServiceColumn *column)
{
	GjServiceResult result;

	state->range = 0;
	state->next = state->nranges > 0 ? state->ranges[0].start : 0;
	state->pages_read = 0;
	state->pushed = 0;
	state->entries = 0;
	state->strategy = GetAccessStrategy(BAS_BULKREAD);
	GjMirrorShape(state->info, &state->shape);
	result = GjServicePush(column, &state->shape, fill, state);
	FreeAccessStrategy(state->strategy);
	return result;
}

/*
 * Callback of the service: write the next pages where the device reads them
 */
static int
fill(void *arg, struct gjd_page_head *heads, char *images, int max_pages)
{
	GjMirrorPush *state = arg;
	size_t		image_bytes = gjd_shape_image_bytes(&state->shape);
	BlockNumber block;
	int			npages = 0;

	while (npages < max_pages && next_block(state, &block))
	{
		CHECK_FOR_INTERRUPTS();
		if ((state->mode == GJ_LOAD_BY_LOADER || state->mode == GJ_LOAD_AT_BUILD) &&
			state->pages_read % GIVE_WAY_PAGES == 0)
		{
			state->gave_way = must_give_way(state->index);
			if (state->gave_way)
				return 0;
			/* pages are read without a snapshot: what is left of one must not keep VACUUM back */
			InvalidateCatalogSnapshotConditionally();
		}
		state->pages_read++;
		if (take_page(state, block, &heads[npages], images + npages * image_bytes))
			npages++;
	}
	state->pushed += npages;
	GjMirrorSetProgress(state->place, state->pages_read);
	return npages;
}

static bool
next_block(GjMirrorPush *state, BlockNumber *block)
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
take_page(GjMirrorPush *state, BlockNumber block, struct gjd_page_head *head, char *image)
{
	Buffer		buffer = ReadBufferExtended(state->index, MAIN_FORKNUM, block, RBM_NORMAL,
											state->strategy);
	Page		page = BufferGetPage(buffer);
	bool		wanted = false;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(page))
	{
		GjPageOpaque opaque = GjPageGetOpaque(page);
		GjPageKind	kind = GjPageCheckKind(state->index, buffer);
		GjPageOwner owner = GjPageGetOwner(state->lists, page);
		bool		lives = owner == GJ_OWNER_RUN || owner == GJ_OWNER_DELTA;

		wanted = is_wanted(state, page, kind, owner);
		if (wanted)
		{
			head->page = block - state->info->first_data;
			head->version = opaque->change;
			if (owner == GJ_OWNER_NOBODY)
				head->version++;
			else if (!lives)
				head->version--;
			if (lives && kind == GJ_PAGE_DATA)
				make_image(page, state->info, &state->shape, image);
			else
				memset(image, 0, gjd_shape_image_bytes(&state->shape));
		}
		if (lives && kind == GJ_PAGE_DATA && block >= state->count_from)
			state->entries += opaque->used;
	}
	UnlockReleaseBuffer(buffer);
	return wanted;
}

/*
 * May the column have something else than what it should have of the page?
 */
static bool
is_wanted(const GjMirrorPush *state, Page page, GjPageKind kind, GjPageOwner owner)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);

	if (kind != GJ_PAGE_DATA && state->before == NULL)
		return false;
	switch (owner)
	{
		case GJ_OWNER_RUN:
		case GJ_OWNER_DELTA:
			return has_changed(state, opaque);
		case GJ_OWNER_NOBODY:
			return state->before != NULL && !was_dead(state->before, opaque->run);
		case GJ_OWNER_FOLD:
		case GJ_OWNER_LATER:
			break;
	}
	return state->before != NULL;
}

/*
 * Has a page that lives changed, or begun to live, since the number that the mirror has?
 *
 * The pages of a run are written with a number that was drawn before it was published.
 */
static bool
has_changed(const GjMirrorPush *state, GjPageOpaque opaque)
{
	if (opaque->change > state->above)
		return true;
	for (int i = 0; i < state->lists->nruns; i++)
	{
		if (state->lists->runs[i].run == opaque->run)
			return state->lists->runs[i].published > state->above;
	}
	return false;
}

/*
 * Was a run or delta dead when the mirror was what it was?  Then its pages were emptied, or had
 * never been there.
 */
static bool
was_dead(const GjMirror *before, uint32 run)
{
	for (int i = 0; i < before->nalive; i++)
	{
		if (before->alive[i] == run)
			return false;
	}
	return run < before->next_run;
}

/*
 * Write a data page as the device wants it: cuda/border/gpujoin_shapes.h
 */
static void
make_image(Page page, const GjIndexInfo *info, const gjd_shape *shape, char *image)
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
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		memcpy(image + gjd_image_carried_at(shape, i), GjDataValues(page, column),
			   (Size) nslots * column->width);
		memcpy(image + gjd_image_nulls_at(shape, i), GjDataNulls(page, column),
			   info->words * sizeof(uint32));
	}
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

