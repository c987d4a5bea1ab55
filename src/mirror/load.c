/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Loading a mirror, and bringing one up to date.
 *
 * Both read the metapage first, and then the pages; the sequence number, the open pages and the
 * lists that were read first describe the mirror once all pages have been copied (match/device.c
 * explains why).  Pages may change while they are read, by insertions, switches and VACUUM: a
 * copy then has changes above that number, and the next synchronization copies the page again.
 * If a fold has changed the lists meanwhile, the mirror is not used until another synchronization
 * has followed.
 *
 * The process that loads, a loader or a backend that runs a query or command, holds
 * AccessShareLock on the index all the time.  So the index cannot be dropped, truncated or
 * rebuilt in the meantime, and DDL has to wait for the end of the load, as it waits for a query.
 * A loader, which no user waits for, gives way.
 *
 * The sections below copy the pages, and find out which pages a mirror lacks.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/dsm.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "cuda/border/gpujoin_device.h"
#include "mirror.h"
#include "table.h"

/* The numbers of runs that a mirror's copies contain, opened by its owner */
typedef struct MirrorCopies
{
	int			place;
	BlockNumber pages;
	bool		certain;		/* true if the numbers are true of all copies */
	uint32	   *runs;			/* for each page, the run whose entries its copy has, or 0; NULL if
								 * not open */
	dsm_segment *segment;
} MirrorCopies;

/* Pages being copied to a column */
typedef struct GjMirrorPush
{
	Relation	index;
	const GjIndexInfo *info;
	gjd_shape	shape;
	int			place;			/* number of the entry, for progress */
	GjLoadMode	mode;
	const GjBlockRange *ranges;
	int			nranges;
	int			range;			/* current range */
	BlockNumber next;			/* next block of the range */
	const GjIndexState *lists;	/* lists that were read before any page; they tell which pages are
								 * alive */
	const GjMirror *before;		/* in a full pass, the mirror's previous state; NULL if no page
								 * can have become empty */
	uint64		above;			/* skip pages that have not changed since this number */
	MirrorCopies copies;		/* what the copies contain, if runs is not NULL */
	bool		by_copies;		/* true to push pages whose copy has the entries of another run */
	BlockNumber count_from;		/* count entries of blocks from here on */
	BufferAccessStrategy strategy;
	BlockNumber pages_read;
	uint64		pushed;
	uint64		entries;
	bool		gave_way;
} GjMirrorPush;

/* Delay before retrying what did not fit */
#define RETRY_NO_MEMORY_MS		10000

/*
 * How often to try a request for which there is no slot; GjSlotAcquire() takes 20 ms each time.
 * A query does not retry, a loader does so for a second, a command for five.
 */
#define SLOT_TRIES_LOADER		50
#define SLOT_TRIES_COMMAND		250

/* Least number of pages for which a segment of numbers has room */
#define LEAST_PAGES				4096

/* Number of pages by which forms of a mirror are compared */
#define MANY_PAGES				1000000

/* Number of pages after which a loader checks whether another process waits for it */
#define GIVE_WAY_PAGES			512

static GjFallback load(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
					   const GjIndexState *state);
static GjFallback create_column(const GjIndexInfo *info, int slots, BlockNumber pages, int place,
								GjLoadMode mode);
static GjServiceResult create_on(int device, const GjIndexInfo *info, int slots, BlockNumber pages,
								 int place, GjLoadMode mode, bool may_evict);
static bool fits(uint64 bytes, int n, const int *devices);
static GjFallback push_all(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
						   const GjIndexState *state, BlockNumber pages);
static bool may_try_again(GjServiceResult result, GjLoadMode mode, int *tries);
static bool synchronize(Relation index, const GjIndexInfo *info, int place, GjMirror *mirror,
						uint64 *pages_pushed);
static bool plan_push(GjMirrorPush *state, const GjMirror *mirror, const GjIndexJournal *journal,
					  GjMirrorLag *lag, BlockNumber nblocks);
static void visit_all(GjMirrorPush *state, const GjMirror *mirror, GjMirrorLag *lag,
					  BlockNumber nblocks);
static bool list_moved_pages(GjMirrorPush *state, const GjMirrorLag *lag, BlockNumber nblocks);
static bool run_is_listed(const GjIndexState *lists, uint32 run);
static void add_block(GjBlockRange *ranges, int *n, BlockNumber block);
static uint64 estimate_entries(const GjIndexState *state, const GjIndexInfo *info);
static GjFallback fallback_of(GjServiceResult result);
static int	fill_images(void *arg, struct gjd_page_head *heads, char *images, int max_pages);
static bool next_block(GjMirrorPush *state, BlockNumber *block);
static bool open_copies(int place, const GjServiceColumn *column, BlockNumber pages,
						MirrorCopies *copies);
static bool make_copies_room(MirrorCopies *copies, BlockNumber pages);
static dsm_segment *create_segment(Size size);
static void close_copies(MirrorCopies *copies, bool certain);
static bool is_wanted(const GjMirrorPush *state, Page page, GjPageKind kind, GjPageOwner owner);
static bool has_changed(const GjMirrorPush *state, GjPageOpaque opaque);
static bool was_dead(const GjMirror *before, uint32 run);
static bool convert_page(GjMirrorPush *state, BlockNumber block, struct gjd_page_head *head,
						 char *image);
static bool must_give_way(Relation index);
static int	merge_ranges(GjBlockRange *ranges, int n);
static void add_range(GjMirrorLag *lag, BlockNumber start, BlockNumber end);
static int	compare_ranges(const void *a, const void *b);
static GjServiceResult mirror_push_pages(GjMirrorPush *state, const GjServiceColumn *column);
static void set_column(int place, const GjServiceColumn *column, BlockNumber pages, uint64 bytes);

/*
 * Load an index, on any device or on this one, unless it is loaded
 *
 * Returns GJ_FALLBACK_NONE if a mirror exists now; otherwise the reason why not, for example
 * that another process is loading it.
 */
GjFallback
GjMirrorLoad(Relation index, int device, GjLoadMode mode)
{
	const char *why_not;
	GjIndexState state;
	GjMirrorKey key;
	GjFallback	result;
	int			place;

	if (!GjMirrorTableExists())
		return GJ_FALLBACK_NOT_PRELOADED;
	if (device == GJ_ANY_DEVICE ? !GjServiceReady(&why_not) :
		!GjServiceDeviceReady(device, &why_not))
		return GJ_FALLBACK_SERVICE;
	if (RelationUsesLocalBuffers(index))
		return GJ_FALLBACK_TEMPORARY;

	GjIndexGetState(index, &state);
	GjMirrorKeyOf(index, state.build_id, &key);
	for (;;)
	{
		result = GjMirrorClaimLoad(&key, RelationGetRelid(index), GjIndexIsPreloaded(index),
								   device, &place);
		if (result != GJ_FALLBACK_TABLE_FULL || !GjMirrorEvict(mode))
			break;
	}
	if (result != GJ_FALLBACK_NONE || place < 0)
		return result;
	return GjMirrorLoadClaimed(index, place, mode);
}

/*
 * Load an index whose entry in the table is owned by this process.  In any case, the entry has
 * no owner afterwards.
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
GjMirrorBytes(const GjIndexInfo *info, int slots, BlockNumber pages)
{
	gjd_shape	shape;
	uint64		fit;

	GjMirrorShape(info, slots, &shape);
	fit = gjd_shape_extent_pages(&shape);
	return (pages + fit - 1) / fit * gjd_shape_extent_bytes(&shape);
}

/* The number of slots that any page of the listed runs and deltas fits */
static int
slots_needed(const GjIndexInfo *info, const GjIndexState *state)
{
	uint32		most = info->plain_slots;

	for (int i = 0; i < state->nruns; i++)
		most = Max(most, state->runs[i].most_slots);
	return most;
}

/*
 * Return the number of slots that each page of a mirror gets.  With some more than needed, less of
 * each piece of memory may be left over.
 */
int
GjMirrorSlots(const GjIndexInfo *info, const GjIndexState *state)
{
	int			needed = slots_needed(info, state);
	int			best = needed;

	for (int slots = needed; slots <= needed + needed / 16; slots += GJ_SLOTS_PER_WORD)
	{
		if (GjMirrorBytes(info, slots, MANY_PAGES) < GjMirrorBytes(info, best, MANY_PAGES))
			best = slots;
	}
	return best;
}

/*
 * Bring a mirror up to date with the index
 *
 * Returns false if it is not up to date, perhaps because another process is synchronizing it.
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
 * Create the column and push all pages.  state was read before.
 */
static GjFallback
load(Relation index, const GjIndexInfo *info, int place, GjLoadMode mode,
	 const GjIndexState *state)
{
	BlockNumber pages = GjIndexGetLength(index) - info->first_data;
	GjFallback	result = create_column(info, GjMirrorSlots(info, state), pages, place, mode);
	GjMirror	mirror;

	if (result == GJ_FALLBACK_NONE)
		result = push_all(index, info, place, mode, state, pages);
	if (result == GJ_FALLBACK_NONE)
		return result;

	(void) GjMirrorGet(place, &mirror, NULL);
	if (mirror.target != GJ_ANY_DEVICE ||
		(mode == GJ_LOAD_AT_BUILD &&
		 (result == GJ_FALLBACK_NO_MEMORY || result == GJ_FALLBACK_TOO_BIG)))
		GjMirrorForget(place);	/* no query needs it there, or has requested it yet */
	else
		GjMirrorRefuse(place, result,
					   result == GJ_FALLBACK_NO_MEMORY || result == GJ_FALLBACK_TOO_BIG ?
					   RETRY_NO_MEMORY_MS : 0);
	return result;
}

/*
 * Create the column on a device that has room for it; if none has, make room on one
 */
static GjFallback
create_column(const GjIndexInfo *info, int slots, BlockNumber pages, int place, GjLoadMode mode)
{
	GjServiceResult result = GJ_SERVICE_UNAVAILABLE;
	int			devices[GJ_MAX_DEVICES];
	int			n;
	GjMirror	mirror;

	(void) GjMirrorGet(place, &mirror, NULL);
	n = GjMirrorListDevices(mirror.target, devices);
	for (int i = 0; i < n && n > 1 && result != GJ_SERVICE_OK; i++)
		result = create_on(devices[i], info, slots, pages, place, mode, false);
	for (int i = 0; i < n && result != GJ_SERVICE_OK; i++)
		result = create_on(devices[i], info, slots, pages, place, mode, true);
	if (result == GJ_SERVICE_NO_MEMORY && !fits(GjMirrorBytes(info, slots, pages), n, devices))
		return GJ_FALLBACK_TOO_BIG;
	return fallback_of(result);
}

/*
 * Create the column on a device
 */
static GjServiceResult
create_on(int device, const GjIndexInfo *info, int slots, BlockNumber pages, int place,
		  GjLoadMode mode, bool may_evict)
{
	GjMirrorRoom room = {
		.device = device,.bytes = GjMirrorBytes(info, slots, pages),.mode = mode
	};
	GjServiceColumn column;
	GjServiceResult result;
	gjd_shape	shape;
	int			tries = 0;

	GjMirrorShape(info, slots, &shape);
	do
		result = GjServiceColumnCreate(device, &shape, pages, &column);
	while ((result == GJ_SERVICE_NO_MEMORY && may_evict && GjMirrorMakeRoom(&room)) ||
		   may_try_again(result, mode, &tries));
	if (result == GJ_SERVICE_OK)
		set_column(place, &column, pages, room.bytes);
	return result;
}

/*
 * Return true if one of the devices could hold a column of this size
 */
static bool
fits(uint64 bytes, int n, const int *devices)
{
	GjServiceStatus status;

	for (int i = 0; i < n; i++)
	{
		GjServiceGetStatus(devices[i], &status);
		if (bytes <= status.memory_columns_limit)
			return true;
	}
	return false;
}

/*
 * Record the column that the owner has created
 */
static void
set_column(int place, const GjServiceColumn *column, BlockNumber pages, uint64 bytes)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	Assert(mirror->owner == MyProcPid && mirror->state == GJ_MIRROR_LOADING);
	mirror->column = *column;
	mirror->pages = pages;
	mirror->bytes = bytes;
	LWLockRelease(gj_mirrors->lock);
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
	(void) open_copies(place, &mirror.column, pages, &to_push.copies);
	to_push.index = index;
	to_push.info = info;
	to_push.place = place;
	to_push.mode = mode;
	to_push.lists = state;
	to_push.ranges = &all;
	to_push.nranges = 1;
	to_push.count_from = all.start;
	do
		result = mirror_push_pages(&to_push, &mirror.column);
	while (may_try_again(result, mode, &tries));
	close_copies(&to_push.copies, result == GJ_SERVICE_OK && !to_push.gave_way);
	if (result == GJ_SERVICE_OK && !to_push.gave_way)
	{
		GjMirrorFinish(place, GjListsMoved(index, state) ? NULL : state, pages, mirror.bytes,
					   to_push.pushed, to_push.entries);
		return GJ_FALLBACK_NONE;
	}

	/* free it now, so that its entry can record when to retry */
	if (GjServiceColumnDrop(&mirror.column) == GJ_SERVICE_OK)
	{
		memset(&mirror.column, 0, sizeof(GjServiceColumn));
		set_column(place, &mirror.column, pages, 0);
	}
	return to_push.gave_way ? GJ_FALLBACK_LOADING : fallback_of(result);
}

/*
 * Return true if a request for which there was no slot should be retried
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
 * Push the pages that the mirror lacks; this process owns the synchronization
 */
static bool
synchronize(Relation index, const GjIndexInfo *info, int place, GjMirror *mirror,
			uint64 *pages_pushed)
{
	GjIndexJournal *journal = palloc(sizeof(GjIndexJournal));
	GjMirrorLag *lag;
	GjMirrorRoom room = {.device = mirror->column.device,.mode = GJ_LOAD_BY_QUERY};
	uint64		bytes;
	GjMirrorPush to_push = {0};
	BlockNumber nblocks;
	GjServiceResult result;
	instr_time	began;
	instr_time	took;

	INSTR_TIME_SET_CURRENT(began);
	GjIndexGetJournal(index, journal);
	if (journal->state.build_id != mirror->key.build_id)
	{
		pfree(journal);
		return false;
	}
	lag = palloc(sizeof(GjMirrorLag));
	GjMirrorGetLag(index, info, mirror, journal, lag);
	nblocks = GjIndexGetLength(index);
	to_push.index = index;
	to_push.info = info;
	to_push.place = place;
	to_push.mode = GJ_LOAD_BY_QUERY;
	(void) open_copies(place, &mirror->column, nblocks - info->first_data, &to_push.copies);
	if (!plan_push(&to_push, mirror, journal, lag, nblocks))
	{
		close_copies(&to_push.copies, to_push.copies.certain);
		return false;
	}
	bytes = GjMirrorBytes(info, mirror->column.slots, nblocks - info->first_data);
	room.bytes = bytes - Min(bytes, mirror->bytes);
	if (slots_needed(info, &journal->state) <= (int) mirror->column.slots)
		result = mirror_push_pages(&to_push, &mirror->column);
	else
	{
		/* a mirror with wider pages is loaded in place of it, once this one is not in use */
		result = GjServiceColumnDrop(&mirror->column);
		if (result == GJ_SERVICE_OK)
			result = GJ_SERVICE_GONE;
	}
	while (result == GJ_SERVICE_NO_MEMORY && GjMirrorMakeRoom(&room))
	{
		/* the numbers of the copies tell what was to be pushed, not whether it was */
		if (to_push.by_copies)
			visit_all(&to_push, mirror, lag, nblocks);
		result = mirror_push_pages(&to_push, &mirror->column);
	}
	/* a pass over all pages makes the numbers certain, other pushes keep them so */
	close_copies(&to_push.copies, result == GJ_SERVICE_OK &&
				 (to_push.copies.certain || to_push.before != NULL));

	if (result == GJ_SERVICE_OK)
	{
		uint64		entries = to_push.entries;

		if (!lag->unknown)
			entries += mirror->entries;
		else if (to_push.by_copies)
			entries = estimate_entries(&journal->state, info);
		GjMirrorFinish(place, GjListsMoved(index, &journal->state) ? NULL : &journal->state,
					   nblocks - info->first_data, Max(bytes, mirror->bytes), to_push.pushed,
					   entries);
		*pages_pushed += to_push.pushed;
		INSTR_TIME_SET_CURRENT(took);
		INSTR_TIME_SUBTRACT(took, began);
		ereport(DEBUG1,
				(errmsg_internal("synchronized the mirror of index \"%s\": %u pages read, "
								 UINT64_FORMAT " pushed, %.3f ms",
								 RelationGetRelationName(index), to_push.pages_read,
								 to_push.pushed, INSTR_TIME_GET_MILLISEC(took))));
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

/*
 * Decide which pages to visit: those of the lag; if the lists have changed, also those whose copies
 * this concerns; if that is not known, all pages.  Returns false if the lists are changing now.
 */
static bool
plan_push(GjMirrorPush *state, const GjMirror *mirror, const GjIndexJournal *journal,
		  GjMirrorLag *lag, BlockNumber nblocks)
{
	state->lists = &journal->state;
	state->ranges = lag->ranges;
	state->nranges = lag->nranges;
	state->count_from = state->info->first_data + mirror->pages;
	if (!lag->unknown)
		return true;

	state->above = mirror->sequence;
	state->count_from = state->info->first_data;
	state->by_copies = state->copies.runs != NULL && state->copies.certain &&
		journal->floor <= mirror->sequence && mirror->sequence > 0;
	if (state->by_copies)
		return list_moved_pages(state, lag, nblocks);

	visit_all(state, mirror, lag, nblocks);
	return true;
}

/*
 * Visit all pages: those that have changed, become alive or died since are recognized one by one
 */
static void
visit_all(GjMirrorPush *state, const GjMirror *mirror, GjMirrorLag *lag, BlockNumber nblocks)
{
	lag->nranges = state->nranges = 1;
	lag->ranges[0].start = state->info->first_data;
	lag->ranges[0].end = nblocks;
	state->ranges = lag->ranges;
	state->by_copies = false;
	state->before = mirror;
}

/*
 * List the pages of the lag, those of runs that have been published since, and those whose copies
 * have entries of runs and deltas that are not alive any more; returns false if the lists have
 * changed again
 */
static bool
list_moved_pages(GjMirrorPush *state, const GjMirrorLag *lag, BlockNumber nblocks)
{
	const GjIndexState *lists = state->lists;
	BlockNumber first_data = state->info->first_data;
	Size		room = lag->nranges + (Size) (nblocks - first_data);
	GjBlockRange *ranges;
	int			n = lag->nranges;
	uint32		alive = 0;

	for (int i = 0; i < lists->nruns; i++)
	{
		if (lists->runs[i].published > state->above)
			room += (Size) lists->runs[i].data_pages + lists->runs[i].directory_pages;
	}
	ranges = palloc_extended(room * sizeof(GjBlockRange), MCXT_ALLOC_HUGE);
	memcpy(ranges, lag->ranges, n * sizeof(GjBlockRange));

	for (int i = 0; i < lists->nruns; i++)
	{
		const GjRun *run = &lists->runs[i];
		uint64		npages = (uint64) run->data_pages + run->directory_pages;
		BlockNumber *blocks;

		if (run->published <= state->above)
			continue;
		blocks = palloc_extended(npages * sizeof(BlockNumber), MCXT_ALLOC_HUGE);
		if (!GjRunGetBlocks(state->index, run, blocks))
			return false;
		for (uint64 j = 0; j < npages; j++)
		{
			if (blocks[j] < first_data || blocks[j] >= nblocks)
				GjReportCorruption(state->index, run->root, "A run has blocks that do not exist.");
			add_block(ranges, &n, blocks[j]);
		}
		pfree(blocks);
	}
	for (BlockNumber page = 0; page < nblocks - first_data; page++)
	{
		uint32		run = state->copies.runs[page];

		/* most pages are of the same run as the one before */
		if (run == 0 || run == alive)
			continue;
		if (run_is_listed(lists, run))
			alive = run;
		else
			add_block(ranges, &n, first_data + page);
	}
	state->ranges = ranges;
	state->nranges = merge_ranges(ranges, n);
	return true;
}

static bool
run_is_listed(const GjIndexState *lists, uint32 run)
{
	for (int i = 0; i < lists->nruns; i++)
	{
		if (lists->runs[i].run == run)
			return true;
	}
	return run == lists->deltas[0].run || run == lists->deltas[1].run;
}

/*
 * Add a block to the last range, or as a range of its own
 */
static void
add_block(GjBlockRange *ranges, int *n, BlockNumber block)
{
	if (*n > 0 && ranges[*n - 1].end == block)
		ranges[*n - 1].end++;
	else
		ranges[(*n)++] = (GjBlockRange) {block, block + 1};
}

/*
 * Estimate the number of entries on the index's data pages
 */
static uint64
estimate_entries(const GjIndexState *state, const GjIndexInfo *info)
{
	uint64		n = 0;

	for (int i = 0; i < state->nruns; i++)
		n += GjRunCountAlive(&state->runs[i]);
	for (int i = 0; i < lengthof(state->deltas); i++)
		n += (uint64) state->deltas[i].data_pages * info->plain_slots;
	return n;
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
		case GJ_SERVICE_TOO_NEW:
		case GJ_SERVICE_TOO_LARGE:
		case GJ_SERVICE_TOO_MANY:
			break;
	}
	return GJ_FALLBACK_FAILED;
}

/*-------------------------------------------------------------------------
 * Pushing pages
 *
 * Read index pages, and write them where the device reads them.
 *
 * A page is converted under its share lock, in a few microseconds, directly into memory that
 * the device reads; no other lock is held, and we do not wait for the device with a page locked.
 *
 * A page is copied if it is a data page that is alive according to the lists that were read
 * before.  In a full pass, all other pages are copied as empty ones: the column may have their
 * contents from when they were alive.  In other passes, this is done only with pages whose copies
 * are known to have entries of a run or delta that is not alive ("The contents of copies").  Of
 * two copies of a page, the device keeps the one with the higher version, which is the change
 * counter.  The empty copy of a free page has the version after that of the page, and is replaced
 * at the next real change, whose number is higher by at least two (pages/read.c).  The empty copy
 * of a page that is not alive yet has the version before that of the page, so that the page itself
 * replaces it once it is alive.
 *
 * At the end, the caller checks whether the lists have changed since they were read.
 *-------------------------------------------------------------------------
 */

/*
 * Push pages, starting with the first one, also if called again after a failure
 */
static GjServiceResult
mirror_push_pages(GjMirrorPush *state, const GjServiceColumn *column)
{
	GjServiceResult result;

	state->range = 0;
	state->next = state->nranges > 0 ? state->ranges[0].start : 0;
	state->pages_read = 0;
	state->pushed = 0;
	state->entries = 0;
	state->strategy = GetAccessStrategy(BAS_BULKREAD);
	GjMirrorShape(state->info, column->slots, &state->shape);
	result = GjServicePush(column, &state->shape, fill_images, state);
	FreeAccessStrategy(state->strategy);
	return result;
}

/*
 * Callback of the service: write the next pages to memory that the device reads
 */
static int
fill_images(void *arg, struct gjd_page_head *heads, char *images, int max_pages)
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
			/* pages are read without a snapshot, and a leftover one must not hold back VACUUM */
			InvalidateCatalogSnapshotConditionally();
		}
		state->pages_read++;
		if (convert_page(state, block, &heads[npages], images + npages * image_bytes))
			npages++;
	}
	state->pushed += npages;

	/* only for display, so no lock is taken */
	((volatile GjMirror *) &gj_mirrors->entries[state->place].mirror)->pages_done =
		state->pages_read;
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
 * Convert a page; returns false if the device does not need it
 */
static bool
convert_page(GjMirrorPush *state, BlockNumber block, struct gjd_page_head *head, char *image)
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

		uint32		shown = lives && kind == GJ_PAGE_DATA ? opaque->run : 0;
		uint32	   *copied = NULL;

		if (state->copies.runs != NULL)
			copied = &state->copies.runs[block - state->info->first_data];
		if (state->by_copies)
			wanted = *copied != shown || (shown != 0 && has_changed(state, opaque));
		else
			wanted = is_wanted(state, page, kind, owner);
		/* a pass over all pages notes those that it does not copy, too */
		if (copied != NULL && (wanted || state->before != NULL))
			*copied = shown;
		if (wanted)
		{
			head->page = block - state->info->first_data;
			head->version = opaque->change;
			if (owner == GJ_OWNER_NOBODY)
				head->version++;
			else if (!lives)
				head->version--;
			if (shown != 0)
			{
				GjNarrowDemand(state->index, block, page, state->info);
				if (GjDataSlots(page, state->info) > (int) state->shape.slots)
					GjReportCorruption(state->index, block,
									   "The page has more slots than its run says.");
				GjImageMake(page, state->info, &state->shape, image);
			}
			else
				GjImageMake(NULL, state->info, &state->shape, image);
		}
		if (shown != 0 && block >= state->count_from)
			state->entries += opaque->used;
	}
	UnlockReleaseBuffer(buffer);
	return wanted;
}

/*
 * Return true if the column's copy of the page may be wrong
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
		case GJ_OWNER_OTHER:
		case GJ_OWNER_FOLD:
		case GJ_OWNER_MERGE:
		case GJ_OWNER_LATER:
			break;
	}
	return state->before != NULL;
}

/*
 * Return true if a live page has changed, or become alive, since the mirror's sequence number
 *
 * The pages of a run are written with a number that was taken before the run was published.
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
 * Return true if a run or delta was dead in the mirror's previous state.  In that case its pages
 * were emptied, or never copied.
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
 * Return true if a process waits for our lock on the index, or wants to drop or copy the
 * database
 *
 * A lock of another mode is not granted to us while a process waits for a lock that conflicts
 * with it.  (LockHasWaitersRelation() is no help: it cannot be used for a lock that was taken on
 * the fast path.)
 */
static bool
must_give_way(Relation index)
{
	if (!ConditionalLockRelation(index, RowShareLock))
		return true;
	UnlockRelation(index, RowShareLock);
	return GjDatabaseIsWanted();
}

/*-------------------------------------------------------------------------
 * Missing pages of a mirror
 *
 * A mirror lacks the pages that have changed since it was brought up to date.
 *
 * The metapage's sequence counts changes to data pages; each change takes the next number and
 * stores it on the page as its change counter, which never decreases, even if the page is
 * reused.  Three sources show what has changed since a sequence number S:
 *
 *	- the metapage lists the pages that lanes have open: these change all the time;
 *	- the journal, a ring in a block of its own, has the ranges of blocks that were opened for
 *	  insertion or lost entries, each with a sequence number; neighbors share an entry, which then
 *	  carries the later number;
 *	- if the ring has lost entries with numbers above S (journal_floor is the highest number that
 *	  may be lost), the pages' change counters.
 *
 * So a copy taken at S lacks the pages that were open at S and the ranges with numbers above S.
 * A change and its journal entry are one WAL record: if the entry were made earlier, a copy
 * could be taken in between and would never learn of the change.  A flush to an open page needs
 * no entry; closing a page needs none either, since it was open at S or was opened after S.
 *
 * All this holds as long as the index has the lists of runs and deltas by which the copy was
 * taken.  A fold frees pages and publishes others, whose numbers were taken long before.  Then a
 * synchronization visits, besides the lag,
 *
 *	- the pages of runs that were published after S, which their directories name;
 *	- the pages whose copies have entries of a run or delta that is no longer listed, as the
 *	  numbers of the copies tell.
 *
 * That is enough to keep the promise of match/device.c.  Let P be a page that is live by the new
 * lists.  If its run was published after S, P is visited.  If its run or delta was listed at S
 * already, P was its page at S, or was opened after S, and the lag has all changes since; a new
 * delta's pages were all opened after S.  A bulk deletion enters its changes in the journal,
 * except those to pages of an unfinished merge, whose run is published later.  All other pages are
 * not live.  If a copy of one has entries, these are of a run or delta that was live when the copy
 * was made, and is not any more.  If the lists change again meanwhile, the numbers still tell what
 * each copy contains, and the next synchronization starts from S once more.
 *
 * If these numbers are not certain, or the journal has lost entries, all pages are visited.
 *-------------------------------------------------------------------------
 */

/*
 * List the blocks that a mirror lacks
 *
 * The journal must have been read after the tail pages (step 5 of the proof), or by the process
 * that synchronizes: then these are the pages that changed between two sequence numbers.
 */
void
GjMirrorGetLag(Relation index, const GjIndexInfo *info, const GjMirror *mirror,
			   const GjIndexJournal *journal, GjMirrorLag *lag)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);

	lag->unknown = journal->floor > mirror->sequence ||
		journal->state.list_version != mirror->list_version;
	lag->nranges = 0;
	lag->blocks = 0;

	for (int i = 0; i < mirror->nopen; i++)
		add_range(lag, mirror->open_blocks[i], mirror->open_blocks[i] + 1);
	for (int i = 0; i < journal->nentries; i++)
	{
		const GjJournalEntry *entry = &journal->entries[i];

		if (entry->sequence <= mirror->sequence)
			continue;
		if (entry->start < info->first_data || entry->end <= entry->start ||
			entry->end > nblocks)
			GjReportCorruption(index, GJ_JOURNAL_BLOCK,
							   "A journal entry names blocks that do not exist.");
		add_range(lag, entry->start, entry->end);
	}

	lag->nranges = merge_ranges(lag->ranges, lag->nranges);
	for (int i = 0; i < lag->nranges; i++)
		lag->blocks += lag->ranges[i].end - lag->ranges[i].start;
}

/*
 * Sort ranges, and merge those that overlap or touch; returns their number
 */
static int
merge_ranges(GjBlockRange *ranges, int n)
{
	int			nmerged = 0;

	qsort(ranges, n, sizeof(GjBlockRange), compare_ranges);
	for (int i = 0; i < n; i++)
	{
		GjBlockRange *last = nmerged > 0 ? &ranges[nmerged - 1] : NULL;

		if (last != NULL && ranges[i].start <= last->end)
			last->end = Max(last->end, ranges[i].end);
		else
			ranges[nmerged++] = ranges[i];
	}
	return nmerged;
}

static void
add_range(GjMirrorLag *lag, BlockNumber start, BlockNumber end)
{
	lag->ranges[lag->nranges].start = start;
	lag->ranges[lag->nranges].end = end;
	lag->nranges++;
}

static int
compare_ranges(const void *a, const void *b)
{
	const GjBlockRange *left = a;
	const GjBlockRange *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return 0;
}

/*-------------------------------------------------------------------------
 * The contents of copies
 *
 * For each page there is the number of the run or delta whose entries its copy has, or 0 if the
 * copy is empty.  When a fold has changed the lists of an index, the copies of the pages of runs
 * and deltas that have died must be emptied.  The index does not tell which pages these were; the
 * numbers do, so that a synchronization need not read all pages.
 *
 * The numbers of a mirror are in a segment of dynamic shared memory, which belongs to the mirror's
 * place in the table, and is kept for the next mirror there.  Only the process that owns the
 * mirror, which loads or synchronizes it, reads or writes them.  They are *certain* if they are
 * true of all copies in the column that they are for.  They are made so by a pass over all pages.
 * While pages are pushed they are not certain, and stay so if the process fails: then the next
 * synchronization passes over all pages.  The same happens if there is no memory for them.
 *-------------------------------------------------------------------------
 */

/*
 * Open the numbers of a mirror that this process owns, with room for that many pages
 *
 * Returns false if there is no memory.  Until close_copies() the numbers are not certain.
 */
static bool
open_copies(int place, const GjServiceColumn *column, BlockNumber pages, MirrorCopies *copies)
{
	GjMirrorEntry *entry = &gj_mirrors->entries[place];

	Assert(entry->mirror.owner == MyProcPid);
	memset(copies, 0, sizeof(*copies));
	copies->place = place;
	copies->pages = pages;
	copies->certain = entry->copies_certain &&
		memcmp(&entry->copies_of, column, sizeof(GjServiceColumn)) == 0;
	entry->copies_certain = false;
	entry->copies_of = *column;
	if (entry->copies_room > 0)
		copies->segment = dsm_attach(entry->copies_handle);
	if ((copies->segment == NULL || entry->copies_room < pages) && !make_copies_room(copies, pages))
	{
		close_copies(copies, false);
		return false;
	}
	copies->runs = dsm_segment_address(copies->segment);
	if (!copies->certain)
		memset(copies->runs, 0, (Size) entry->copies_room * sizeof(uint32));
	return true;
}

/*
 * Replace the segment by one with more room
 */
static bool
make_copies_room(MirrorCopies *copies, BlockNumber pages)
{
	GjMirrorEntry *entry = &gj_mirrors->entries[copies->place];
	uint64		room = Max((uint64) pages + pages / 2, LEAST_PAGES);
	dsm_segment *segment;

	room = Min(room, MaxBlockNumber);
	segment = create_segment(room * sizeof(uint32));
	if (segment == NULL)
		return false;
	memset(dsm_segment_address(segment), 0, room * sizeof(uint32));
	if (copies->segment == NULL)
		copies->certain = false;
	else
	{
		memcpy(dsm_segment_address(segment), dsm_segment_address(copies->segment),
			   (Size) entry->copies_room * sizeof(uint32));
		dsm_detach(copies->segment);
		dsm_unpin_segment(entry->copies_handle);
	}
	dsm_pin_segment(segment);
	entry->copies_handle = dsm_segment_handle(segment);
	entry->copies_room = (uint32) room;
	copies->segment = segment;
	return true;
}

/*
 * Create a segment; returns NULL if there is no memory or no slot for it, which is not an error.
 * Errors of the operating system are raised with no lock held and nothing else to undo.
 */
static dsm_segment *
create_segment(Size size)
{
	MemoryContext context = CurrentMemoryContext;
	dsm_segment *volatile segment = NULL;

	PG_TRY();
	{
		segment = dsm_create(size, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return segment;
}

/*
 * Close the numbers; they are certain if all that has been pushed is noted
 */
static void
close_copies(MirrorCopies *copies, bool certain)
{
	if (copies->segment == NULL)
		return;
	dsm_detach(copies->segment);
	copies->segment = NULL;
	copies->runs = NULL;
	gj_mirrors->entries[copies->place].copies_certain = certain;
}
