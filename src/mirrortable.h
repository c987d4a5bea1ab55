/*-------------------------------------------------------------------------
 *
 * mirrortable.h
 *	  The table of mirrors as it lies in shared memory: for mirror*.c and
 *	  preload.c only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRRORTABLE_H
#define GPUJOIN_MIRRORTABLE_H

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include "mirror.h"

typedef struct GjMirrorEntry
{
	GjMirror	mirror;			/* under the lock */
	pg_atomic_uint64 matches;
	pg_atomic_uint64 last_used; /* TimestampTz */
} GjMirrorEntry;

typedef struct GjMirrorTable
{
	LWLock	   *lock;			/* for moments only: never while waiting, reading a page or
								 * talking to the service */
	int			size;
	int			high;			/* entries from here on are empty; never goes back */
	Latch	   *launcher;		/* of the launcher, or NULL; under the lock */
	bool		preloaded;		/* the databases' marked indexes were asked for */
	pg_atomic_uint64 fallbacks[GJ_FALLBACK_COUNT];	/* [GJ_FALLBACK_NONE]: device's answers */
	pg_atomic_uint64 stats_since;
	GjMirrorEntry entries[FLEXIBLE_ARRAY_MEMBER];
} GjMirrorTable;

extern GjMirrorTable *gj_mirrors;	/* NULL unless preloaded */

extern void GjMirrorDropEntry(GjMirror *mirror);
extern void GjMirrorExitHook(void);

/* Does the entry's column exist, as far as we know? */
static inline bool
GjMirrorHasColumn(const GjMirror *mirror)
{
	return mirror->column.epoch != 0 && mirror->column.epoch == GjServiceEpoch();
}

#endif							/* GPUJOIN_MIRRORTABLE_H */
