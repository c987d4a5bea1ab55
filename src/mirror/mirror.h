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

/* Why a match was not answered by a device.  Names and texts: table.c */
typedef enum GjFallback
{
	GJ_FALLBACK_NONE,			/* it was */
	GJ_FALLBACK_NO_KEYS,		/* nothing to do; not counted */
	GJ_FALLBACK_NOT_PRELOADED,	/* no shared memory; not counted */
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
	GJ_FALLBACK_FAILED
} GjFallback;

#define GJ_FALLBACK_COUNT		(GJ_FALLBACK_FAILED + 1)

/*
 * Asking the device costs some 40 us, in which the CPU searches this many pages; below
 * it is not asked, but with gpujoin.force.
 */
#define GJ_MIN_DEVICE_BLOCKS	64

/*
 * What is mirrored: key.c says why it takes all of this.  No padding: keys are compared as
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

/* key.c: what is mirrored, and whether it still exists */
extern void GjMirrorKeyOf(Relation index, uint64 build_id, GjMirrorKey *key);

/* shmem.c: the table of mirrors, in shared memory */
extern void GjMirrorInit(void);
extern bool GjMirrorTableExists(void);
extern int	GjMirrorTableSize(void);

/* table.c: its entries */
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

/* commit.c: what is wanted when a transaction commits */
extern void GjMirrorCommitInit(void);
extern void GjMirrorRelationRebuilt(Relation index);
extern void GjMirrorRelationBuilt(Relation index);

/* table.c: a hint, for plans */
extern bool GjMirrorIsResident(Relation index);

/* lag.c: what it lacks */
extern void GjMirrorGetLag(Relation index, const GjIndexInfo *info, const GjMirror *mirror,
						   const GjIndexJournal *journal, GjMirrorLag *lag);

/* load.c: loading and synchronising */
extern void GjMirrorShape(const GjIndexInfo *info, gjd_shape *shape);	/* push.c */
extern uint64 GjMirrorBytes(const GjIndexInfo *info, BlockNumber pages);
extern GjFallback GjMirrorLoad(Relation index, GjLoadMode mode);
extern bool GjMirrorSync(Relation index, const GjIndexInfo *info, int place,
						 uint64 *pages_pushed);

/* stats.c: counters of answers and fallbacks */
extern void GjFallbackCount(GjFallback why);
extern uint64 GjFallbackGet(GjFallback why);
extern const char *GjFallbackName(GjFallback why);
extern const char *GjFallbackText(GjFallback why);
extern void GjMirrorStatsReset(void);
extern TimestampTz GjMirrorStatsSince(void);

/* launcher.c */
extern void GjLauncherInit(void);

#endif							/* GPUJOIN_MIRROR_H */
