/*-------------------------------------------------------------------------
 *
 * table.h
 *	  The table of mirrors in shared memory: for this folder only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_TABLE_H
#define GPUJOIN_MIRROR_TABLE_H

#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include "mirror.h"

typedef struct GjMirrorEntry
{
	GjMirror	mirror;			/* protected by the lock */
	pg_atomic_uint64 matches;
	pg_atomic_uint64 last_used; /* TimestampTz */
	pg_atomic_uint32 waits;		/* requests that had to wait, less those that had not: place.c */

	/* The contents of the copies, for the mirror's owner only: load.c */
	dsm_handle	copies_handle;
	uint32		copies_room;	/* number of pages in the segment; 0 without one */
	bool		copies_certain;
	GjServiceColumn copies_of;	/* the column that they are for */
} GjMirrorEntry;

/* Number of databases that can be requested one by one; if there are more, all are searched */
#define GJ_PRELOAD_REQUESTS		16

typedef struct GjMirrorTable
{
	LWLock	   *lock;			/* held only briefly: never while waiting, reading a page or
								 * talking to the service */
	int			size;
	int			high;			/* entries from here on are empty; never decreases */
	Latch	   *launcher;		/* latch of the launcher, or NULL; protected by the lock */

	/*
	 * Search for indexes marked with preload, protected by the lock.  Databases to search are
	 * requested by the list, or all together; the work is done when all requested databases have
	 * been searched.
	 */
	bool		preloaded;		/* true if nothing is left to do */
	bool		preload_all;
	int			npreload;
	Oid			preload[GJ_PRELOAD_REQUESTS];

	/* Tasks of loaders, by the numbers that launchers assigned; 0 means none */
	uint32		task_sent;		/* last one assigned */
	uint32		task_done;		/* last one that tried all wanted mirrors */
	uint32		task_looked;	/* ... and found all marked indexes */

	GjMirrorEntry entries[FLEXIBLE_ARRAY_MEMBER];
} GjMirrorTable;

extern GjMirrorTable *gj_mirrors;	/* NULL unless preloaded */

/* registry.c; needs the lock */
extern void GjMirrorDropEntry(GjMirror *mirror);

/* registry.c */
extern void GjMirrorExitHook(void);
extern void GjMirrorAbandon(void);

/* registry.c: claiming and finishing entries */
extern GjFallback GjMirrorClaimLoad(const GjMirrorKey *key, Oid index, bool pinned, int device,
									int *place);
extern bool GjMirrorClaimWanted(Oid database, int *place, GjMirror *mirror);
extern bool GjMirrorClaimSync(int place, GjMirror *mirror);
extern void GjMirrorFinish(int place, const GjIndexState *state, BlockNumber pages, uint64 bytes,
						   uint64 pushed, uint64 entries);

/* registry.c: failed loads */
extern void GjMirrorRefuse(int place, GjFallback why, int retry_ms);
extern void GjMirrorForget(int place);
extern void GjMirrorAbandonEntry(int place);
extern void GjMirrorRetry(bool new_device);

/* registry.c; need the lock */
extern bool GjMirrorHasCopy(int place);
extern GjMirror *GjMirrorFindOn(const GjMirrorKey *key, int device, int *place);

/* place.c: devices for a mirror */
extern int	GjMirrorListDevices(int target, int *devices);
extern bool GjMirrorIsBetter(const GjMirror *mirror, const GjMirror *other);

/* registry.c: whether the index of a mirror still exists */
extern bool GjMirrorIsGone(const GjMirrorKey *key);

/*
 * evict.c: freeing device memory
 *
 * Room for a column.  Set device, bytes and mode, and all other fields to zero; then, as long as
 * the service reports that it has no memory and GjMirrorMakeRoom() returns true, try again.
 */
typedef struct GjMirrorRoom
{
	int			device;
	uint64		bytes;
	GjLoadMode	mode;
	bool		begun;
	uint64		held;			/* memory held by columns at the first call */
	uint64		evicted;		/* the part of that given up since */
	int			waits;
} GjMirrorRoom;

extern bool GjMirrorMakeRoom(GjMirrorRoom *room);
extern bool GjMirrorEvict(GjLoadMode mode);
extern void GjMirrorSweep(void);

/* load.c */
extern GjFallback GjMirrorLoadClaimed(Relation index, int place, GjLoadMode mode);

/* image.c */
extern void GjImageMake(Page page, const GjIndexInfo *info, const gjd_shape *shape, char *image);

/* launcher.c */
extern PGDLLEXPORT void GjLauncherMain(Datum arg);

/* loader.c; bgw_extra of a loader is its task */
typedef struct GjLoaderTask
{
	uint32		number;			/* reported when the task is done */
	bool		marked;			/* true to request all marked indexes first */
} GjLoaderTask;

extern PGDLLEXPORT void GjLoaderMain(Datum arg);

/* Return true if the entry's column exists, as far as we know */
static inline bool
GjMirrorHasColumn(const GjMirror *mirror)
{
	const GjServiceColumn *column = &mirror->column;

	return column->epoch != 0 && column->epoch == GjServiceEpoch(column->device);
}

#endif							/* GPUJOIN_MIRROR_TABLE_H */
