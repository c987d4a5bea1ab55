/*-------------------------------------------------------------------------
 *
 * mirror.h
 *	  Mirrors: copies of indexes in the memory of a device.  A mirror is a cache whose freshness
 *	  is proved from the index's own pages.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_H
#define GPUJOIN_MIRROR_H

#include "datatype/timestamp.h"

#include "pages/pages.h"
#include "service/service.h"
#include "stats/stats.h"

/*
 * A request to the device costs about 40 us, in which the CPU searches this many pages; below
 * this number the device is not used, except with gpujoin.force.
 */
#define GJ_MIN_DEVICE_BLOCKS	64

/*
 * Identifies what a mirror is a copy of; registry.c explains why all of this is needed.  No
 * padding, because keys are compared as bytes.
 */
typedef struct GjMirrorKey
{
	Oid			database;
	Oid			database_tablespace;	/* location of the database's own directory */
	uint64		database_made;	/* distinguishes it from earlier databases with this OID */
	Oid			tablespace;
	Oid			file;			/* relfilenode */
	uint64		build_id;		/* last, because the fields before it are also compared alone */
} GjMirrorKey;

typedef enum GjMirrorState
{
	GJ_MIRROR_EMPTY,			/* a free entry of the table */
	GJ_MIRROR_WANTED,			/* to be loaded by the loader */
	GJ_MIRROR_LOADING,			/* being loaded by its owner */
	GJ_MIRROR_READY,
	GJ_MIRROR_REFUSED,			/* could not be loaded; no retry before retry_at */
	GJ_MIRROR_DROPPED			/* not found any more; its column must be freed */
} GjMirrorState;

/* An entry of the table; protected by the table's lock unless stated otherwise */
typedef struct GjMirror
{
	GjMirrorKey key;
	Oid			index;
	GjMirrorState state;
	int			owner;			/* pid of the process that loads, synchronizes or frees it; 0 if
								 * none */
	bool		doomed;			/* true if its owner must drop it when done */
	bool		pinned;			/* reloption preload: not evicted for others */
	bool		wanted;			/* true if the loader was asked: it retries failed loads */
	bool		modest;			/* true if no query has asked for it, as the index was built, or if
								 * it is wanted as a copy: evicts nothing */
	int			target;			/* the device to load it on, or GJ_ANY_DEVICE */
	bool		copied;			/* true if other entries may have the same key */
	int			tries;			/* number of consecutive failed loads */
	GjFallback	refusal;		/* reason, if GJ_MIRROR_REFUSED */
	TimestampTz retry_at;
	GjServiceColumn column;		/* epoch is 0 if it has no column */

	/*
	 * The proof: each page's copy has all changes up to sequence, and pages that are not alive
	 * according to the lists of list_version have no entries.  See the head of match/device.c.
	 * If list_version is 0, the values are those from before the lists changed; then the mirror
	 * can only be synchronized, not used.
	 */
	uint64		list_version;
	uint64		sequence;
	uint64		vacuum_epoch;
	int			nopen;
	BlockNumber open_blocks[GJ_MAX_LANES];	/* at sequence */
	uint32		next_run;		/* as of sequence */
	int			nalive;			/* number of live runs and deltas below next_run, in alive[] */
	uint32		alive[GJ_MAX_ALIVE];

	BlockNumber pages;			/* data pages of the index when last synchronized */
	BlockNumber pages_done;		/* progress, written by the owner without the lock */
	uint64		entries;		/* estimate */
	uint64		bytes;			/* device memory */
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

/* A range of blocks, excluding end */
typedef struct GjBlockRange
{
	BlockNumber start;
	BlockNumber end;
} GjBlockRange;

/* Pages that a mirror lacks: ranges are ascending and do not touch */
typedef struct GjMirrorLag
{
	bool		unknown;		/* true if the journal does not tell: pages must be found by the
								 * lists, or all be checked */
	BlockNumber blocks;
	int			nranges;
	GjBlockRange ranges[GJ_JOURNAL_ENTRIES + GJ_MAX_LANES];
} GjMirrorLag;

/* Purpose of a load, which decides how much it may evict */
typedef enum GjLoadMode
{
	GJ_LOAD_BY_QUERY,			/* for a query: only takes memory that is not in use */
	GJ_LOAD_BY_LOADER,			/* likewise, and gives way to processes that wait for the index */
	GJ_LOAD_AT_BUILD,			/* by the loader, not requested by a query: takes memory that is
								 * free */
	GJ_LOAD_BY_OWNER,			/* for a command: has time to wait for memory */
	GJ_LOAD_BY_SUPERUSER		/* for a command that evicts any mirror that is not pinned */
} GjLoadMode;

/* registry.c: keys of mirrors, and whether the index still exists */
extern void GjMirrorKeyOf(Relation index, uint64 build_id, GjMirrorKey *key);

/* registry.c: the table of mirrors, in shared memory */
extern void GjMirrorInit(void);
extern bool GjMirrorTableExists(void);
extern int	GjMirrorTableSize(void);

/* registry.c: entries of the table */
extern bool GjMirrorGet(int place, GjMirror *mirror, GjMirrorUse *use);
extern int	GjMirrorFind(const GjMirrorKey *key, int place, GjMirror *mirror);
extern void GjMirrorUsed(int place);
extern void GjMirrorStatsReset(void);
extern bool GjMirrorDrop(const GjMirrorKey *key, bool any_build, int device);

/* registry.c: requests for mirrors */
extern GjFallback GjMirrorWant(const GjMirrorKey *key, Oid index, bool pinned, bool modest,
							   int device);
extern void GjMirrorGone(int place, const GjServiceColumn *column);
extern void GjMirrorSetPinned(const GjMirrorKey *key, bool pinned);

/* place.c: copies on further devices */
extern void GjMirrorRequested(int place, const GjMirror *mirror);

/* evict.c: freeing device memory */
extern void GjMirrorCollect(void);

/* registry.c: requests when a transaction commits */
extern void GjMirrorRelationRebuilt(Relation index);
extern void GjMirrorRelationBuilt(Relation index);

/* registry.c: a hint for the planner */
extern bool GjMirrorIsResident(Relation index);

/* load.c: pages that a mirror lacks */
extern void GjMirrorGetLag(Relation index, const GjIndexInfo *info, const GjMirror *mirror,
						   const GjIndexJournal *journal, GjMirrorLag *lag);

/* load.c: loading and synchronizing */
extern void GjMirrorShape(const GjIndexInfo *info, int slots, gjd_shape *shape);	/* image.c */
extern int	GjMirrorSlots(const GjIndexInfo *info, const GjIndexState *state);
extern uint64 GjMirrorBytes(const GjIndexInfo *info, int slots, BlockNumber pages);
extern GjFallback GjMirrorLoad(Relation index, int device, GjLoadMode mode);
extern bool GjMirrorSync(Relation index, const GjIndexInfo *info, int place,
						 uint64 *pages_pushed);

/* launcher.c */
extern void GjLauncherInit(void);

#endif							/* GPUJOIN_MIRROR_H */
