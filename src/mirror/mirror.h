/*-------------------------------------------------------------------------
 *
 * mirror.h
 *	  Mirrors: copies of indexes in the memory of a device, as a cache that proves
 *	  its freshness from the index's own pages.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_H
#define GPUJOIN_MIRROR_H

#include "datatype/timestamp.h"

#include "pages/pages.h"
#include "service/service.h"

/* Why a match was not answered by a device.  Names and texts: stats.c */
typedef enum GjFallback
{
	GJ_FALLBACK_NONE,			/* it was */
	GJ_FALLBACK_NO_KEYS,		/* nothing to do; not counted */
	GJ_FALLBACK_NOT_PRELOADED,	/* no shared memory */
	GJ_FALLBACK_SERVICE,		/* the service has no device, or not now */
	GJ_FALLBACK_TEMPORARY,
	GJ_FALLBACK_SMALL,
	GJ_FALLBACK_NO_MIRROR,
	GJ_FALLBACK_LOADING,
	GJ_FALLBACK_BEHIND,
	GJ_FALLBACK_NO_MEMORY,
	GJ_FALLBACK_TOO_BIG,
	GJ_FALLBACK_TABLE_FULL,
	GJ_FALLBACK_BUSY,
	GJ_FALLBACK_GONE,
	GJ_FALLBACK_FAILED,
	GJ_FALLBACK_COMPLEMENT,		/* NOT IN: a device takes lists only */
	GJ_FALLBACK_PARTIAL,		/* a bitmap scan that must not meet rows of another predicate */
	GJ_FALLBACK_TOO_MANY,		/* the device's answer was too large to be used */
	GJ_FALLBACK_VACUUMED,		/* ... or too old */
	GJ_FALLBACK_INCOMPLETE,		/* the heap is read: the index may lack rows */
	GJ_FALLBACK_NULL_KEYS		/* likewise: it lacks those that are wanted */
} GjFallback;

#define GJ_FALLBACK_COUNT		(GJ_FALLBACK_NULL_KEYS + 1)

/*
 * Asking the device costs some 40 us, in which the CPU searches this many pages; below
 * it is not asked, but with gpujoin.force.
 */
#define GJ_MIN_DEVICE_BLOCKS	64

/*
 * What is mirrored: registry.c says why it takes all of this.  No padding: keys are compared as
 * bytes.
 */
typedef struct GjMirrorKey
{
	Oid			database;
	Oid			database_tablespace;	/* where the database's own folder is */
	uint64		database_made;	/* which of all databases that ever had this OID */
	Oid			tablespace;
	Oid			file;			/* relfilenode */
	uint64		build_id;		/* last: parts before it are compared alone */
} GjMirrorKey;

typedef enum GjMirrorState
{
	GJ_MIRROR_EMPTY,			/* a free entry of the table */
	GJ_MIRROR_WANTED,			/* for the loader to make */
	GJ_MIRROR_LOADING,			/* by its owner */
	GJ_MIRROR_READY,
	GJ_MIRROR_REFUSED,			/* could not be loaded; not again before retry_at */
	GJ_MIRROR_DROPPED			/* nobody finds it any more; its column is to be freed */
} GjMirrorState;

/* One entry of the table; under the table's lock, but for what says otherwise */
typedef struct GjMirror
{
	GjMirrorKey key;
	Oid			index;
	GjMirrorState state;
	int			owner;			/* pid of who loads, synchronises or frees it; 0: nobody */
	bool		doomed;			/* its owner shall drop it when done */
	bool		pinned;			/* reloption preload: not evicted for others */
	bool		wanted;			/* the loader was asked: it tries again what fails */
	bool		modest;			/* wanted only because it was built: evicts nothing */
	int			tries;			/* loads that failed, one after the other */
	GjFallback	refusal;		/* GJ_MIRROR_REFUSED: why */
	TimestampTz retry_at;
	GjServiceColumn column;		/* epoch 0: none */

	/*
	 * The proof: each page's copy has all changes up to sequence, and pages that do not live by the
	 * lists of list_version have none.  See the head of match/device.c.  list_version 0: this is
	 * what it was before the lists moved; now it is good for nothing but to be caught up with.
	 */
	uint64		list_version;
	uint64		sequence;
	uint64		vacuum_epoch;
	int			nopen;
	BlockNumber open_blocks[GJ_MAX_LANES];	/* at sequence */
	uint32		next_run;		/* at sequence: of the numbers below it, */
	int			nalive;			/* those that were not dead */
	uint32		alive[GJ_MAX_ALIVE];

	BlockNumber pages;			/* data pages of the index when last synchronised */
	BlockNumber pages_done;		/* progress, written by the owner without the lock */
	uint64		entries;		/* about */
	uint64		bytes;			/* of device memory */
	uint64		syncs;
	uint64		pages_pushed;
	TimestampTz loaded_at;
} GjMirror;

/* Use of an entry, counted without the table's lock */
typedef struct GjMirrorUse
{
	uint64		matches;
	TimestampTz last_used;
} GjMirrorUse;

/* What is counted for each index, in the order of gpujoin_index_stats() */
typedef enum GjUseCounter
{
	GJ_USE_SEARCHES,
	GJ_USE_KEYS,
	GJ_USE_PAGES_READ,			/* on the CPU */
	GJ_USE_PAGES_SKIPPED,
	GJ_USE_PAGES_PUSHED,		/* to a device, to bring its mirror up to date */
	GJ_USE_TIDS,				/* that matched */
	GJ_USE_HEAP_BLOCKS,
	GJ_USE_HEAP_FETCHES,		/* rows */
	GJ_USE_GROUPS,				/* that GpuAgg nodes have made of rows found by it */
	GJ_USE_SEARCH_US,			/* time of searches, by whoever */
	GJ_USE_WAIT_US,				/* of it, waiting for a device's answers */
	GJ_USE_DEVICE_US,			/* of that, work of the device's process */
	GJ_USE_ANSWERED				/* from here on answers, by GjFallback */
} GjUseCounter;

#define GJ_USE_COUNT			(GJ_USE_ANSWERED + GJ_FALLBACK_COUNT)

typedef struct GjIndexUse
{
	uint64		n[GJ_USE_COUNT];
} GjIndexUse;

/* The same as it is kept for an index, or for all that have no entry of their own */
typedef struct GjUsage
{
	Oid			database;
	Oid			index;			/* InvalidOid: the others */
	TimestampTz since;
	TimestampTz last_used;		/* 0 for the others */
	GjIndexUse	use;
} GjUsage;

typedef enum GjProgressPhase
{
	GJ_PROGRESS_CLOSING,
	GJ_PROGRESS_LOOKING,
	GJ_PROGRESS_SORTING,
	GJ_PROGRESS_WRITING,
	GJ_PROGRESS_FREEING
} GjProgressPhase;

/* A fold under way */
typedef struct GjProgress
{
	int			pid;
	Oid			database;
	Oid			index;
	const char *phase;
	const char *unit;			/* of what follows; NULL: nothing is counted */
	uint64		done;
	uint64		total;
} GjProgress;

/* Some blocks, end excluded */
typedef struct GjBlockRange
{
	BlockNumber start;
	BlockNumber end;
} GjBlockRange;

/* What a mirror lacks: ranges ascend and do not touch */
typedef struct GjMirrorLag
{
	bool		unknown;		/* the journal does not tell: all pages are to be looked at */
	BlockNumber blocks;
	int			nranges;
	GjBlockRange ranges[GJ_JOURNAL_ENTRIES + GJ_MAX_LANES];
} GjMirrorLag;

/* How badly a load is wanted */
typedef enum GjLoadMode
{
	GJ_LOAD_BY_QUERY,			/* in passing: only takes memory that nobody uses */
	GJ_LOAD_BY_LOADER,			/* the same, and gives way to whoever waits for the index */
	GJ_LOAD_AT_BUILD,			/* the loader, for nobody yet: takes memory that is free */
	GJ_LOAD_BY_OWNER,			/* a command: has time to wait for memory */
	GJ_LOAD_BY_SUPERUSER		/* a command that evicts any mirror that is not pinned */
} GjLoadMode;

/* registry.c: what is mirrored, and whether it still exists */
extern void GjMirrorKeyOf(Relation index, uint64 build_id, GjMirrorKey *key);

/* registry.c: the table of mirrors, in shared memory */
extern void GjMirrorInit(void);
extern bool GjMirrorTableExists(void);
extern int	GjMirrorTableSize(void);

/* registry.c: its entries */
extern bool GjMirrorGet(int place, GjMirror *mirror, GjMirrorUse *use);
extern int	GjMirrorFind(const GjMirrorKey *key, GjMirror *mirror);
extern void GjMirrorUsed(int place);
extern bool GjMirrorDrop(const GjMirrorKey *key, bool any_build);

/* wish.c: what shall be loaded */
extern GjFallback GjMirrorWant(const GjMirrorKey *key, Oid index, bool pinned, bool modest);
extern void GjMirrorGone(int place, const GjServiceColumn *column);
extern void GjMirrorSetPinned(const GjMirrorKey *key, bool pinned);

/* evict.c: freeing device memory */
extern void GjMirrorCollect(void);

/* wish.c: what is wanted when a transaction commits */
extern void GjMirrorCommitInit(void);
extern void GjMirrorRelationRebuilt(Relation index);
extern void GjMirrorRelationBuilt(Relation index);

/* registry.c: a hint, for plans */
extern bool GjMirrorIsResident(Relation index);

/* load.c: what it lacks */
extern void GjMirrorGetLag(Relation index, const GjIndexInfo *info, const GjMirror *mirror,
						   const GjIndexJournal *journal, GjMirrorLag *lag);

/* load.c: loading and synchronising */
extern void GjMirrorShape(const GjIndexInfo *info, gjd_shape *shape);	/* load.c */
extern uint64 GjMirrorBytes(const GjIndexInfo *info, BlockNumber pages);
extern GjFallback GjMirrorLoad(Relation index, GjLoadMode mode);
extern bool GjMirrorSync(Relation index, const GjIndexInfo *info, int place,
						 uint64 *pages_pushed);

/* stats.c: names of answers and fallbacks, counters of mirrors */
extern const char *GjFallbackName(GjFallback why);
extern const char *GjFallbackText(GjFallback why);
extern void GjMirrorStatsReset(void);

/* usage.c: what is counted for each index */
extern void GjUsagePrepare(void);
extern void GjUsageMakeRoom(Oid index);
extern void GjUsageAdd(Oid index, const GjIndexUse *use);
extern void GjUsageReset(Oid index);
extern void GjUsageSum(GjIndexUse *sum, TimestampTz *since);
extern int	GjUsageCopy(GjUsage **copy);
extern uint64 GjUsageEvicted(void);

/* progress.c: how far folds are */
extern void GjProgressBegin(Oid index);
extern void GjProgressPhaseBegin(GjProgressPhase phase, uint64 total);
extern void GjProgressDone(uint64 done);
extern void GjProgressEnd(void);
extern int	GjProgressSlots(void);
extern bool GjProgressGet(int place, GjProgress *progress);

/* launcher.c */
extern void GjLauncherInit(void);

#endif							/* GPUJOIN_MIRROR_H */
