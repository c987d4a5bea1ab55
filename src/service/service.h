/*-------------------------------------------------------------------------
 *
 * service.h
 *	  What the rest of gpujoin knows of the device service: columns of keys and
 *	  TIDs can be put on a device, and searched there.
 *
 * The device is driven by the helper, a program apart from PostgreSQL; a
 * background worker, the supervisor, starts it again when it ends.  So anything
 * here may fail at any time and has to be taken as "then without": every fault is
 * a result code, never an error, and the CPU search answers instead.  The only
 * errors that come out of these functions are interrupts (cancel, termination,
 * timeouts), out of memory of this process, and what the caller's own fill()
 * raises; a request that is left so frees what it holds by itself.
 *
 * No function here may be called with a lock held that another backend could
 * need, a buffer's content lock above all: most of them wait for the device.
 *
 * What the service holds is volatile.  A column is named with the epoch in which
 * it was made; as soon as GjServiceEpoch() differs, it is gone.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SERVICE_H
#define GPUJOIN_SERVICE_H

#include "datatype/timestamp.h"

#include "cuda/border/gpujoin_shapes.h"
#include "sets/sets.h"

struct gjd_page_head;			/* cuda/border/gpujoin_device.h */

typedef enum GjServiceResult
{
	GJ_SERVICE_OK,
	GJ_SERVICE_UNAVAILABLE,		/* no device, or not now */
	GJ_SERVICE_BUSY,			/* all request slots are taken */
	GJ_SERVICE_GONE,			/* the column is not (any more) there: forget it */
	GJ_SERVICE_NO_MEMORY,		/* of the device: drop columns, or do without */
	GJ_SERVICE_FAILED			/* the request failed, or the helper died during it */
} GjServiceResult;

typedef struct GjServiceColumn
{
	uint32		epoch;
	uint32		id;
	uint32		generation;
} GjServiceColumn;

/* What a match did; zero where it did not come so far */
typedef struct GjServiceMatchInfo
{
	char		device[128];	/* name of the device */
	uint64		matches;		/* slots that matched, before a filter */
	uint64		tids;			/* TIDs or entries received */
	uint64		bytes_sent;
	uint64		bytes_received;
	bool		ascending;		/* they came in heap order, without doubles */
	double		total_us;		/* the whole call */

	/*
	 * Of it, in the helper: until the key set was on its way to the device, until the device had
	 * said how much matches, until the last TID had come.  What was asked for by others before
	 * is in them.
	 */
	double		set_us;
	double		kernel_us;
	double		transfer_us;
} GjServiceMatchInfo;

/*
 * Writes up to max_pages pages to be pushed: heads[i] and the i-th image, each image
 * gjd_shape_image_bytes(shape) long.  The memory is shared with the helper: write it,
 * do not trust what is read back.  Returns how many, 0 for the end.  May raise errors and take
 * its time; the device does not wait for it.
 */
typedef int (*GjPushFill) (void *arg, struct gjd_page_head *heads, char *images, int max_pages);

/* client.c */
extern bool GjServiceReady(const char **why_not);	/* cheap, takes no lock; the text is static */
extern uint32 GjServiceEpoch(void); /* changes whenever the device's memory is gone; never 0 while
									 * ready */
extern GjServiceResult GjServiceColumnCreate(const gjd_shape *shape, uint64 reserve_pages,
											 GjServiceColumn *column);
extern GjServiceResult GjServiceColumnDrop(const GjServiceColumn *column);
extern GjServiceResult GjServicePush(const GjServiceColumn *column, const gjd_shape *shape,
									 GjPushFill fill, void *arg);

/*
 * Adds the TIDs of all matching slots to tids (not finished here).  tids may be NULL: then they
 * are only counted.  info may be NULL.  After a failure tids may have got a part of the answer,
 * which is harmless when the whole index is searched then: a TID set makes TIDs distinct.
 */
extern GjServiceResult GjServiceMatch(const GjServiceColumn *column, const GjKeySet *keys,
									  GjTidSet *tids, GjServiceMatchInfo *info);

/*
 * The same for entries, with the keys and carried columns that the set wants: carried column i
 * is INCLUDE column i.  The shape is that of the column.  What does not pass the set's filter does
 * not come, and is counted in the set as dropped.
 */
extern GjServiceResult GjServiceMatchEntries(const GjServiceColumn *column,
											 const gjd_shape *shape, const GjKeySet *keys,
											 GjEntrySet *entries, GjServiceMatchInfo *info);

/* Is it too early to say whether there is a device?  For as long as the watchdog allows, at most */
extern bool GjServiceIsStarting(void);

/* Why the last call did not return GJ_SERVICE_OK; lives until the next call */
extern const char *GjServiceLastError(void);

/* Would a user expect a device to answer?  reason.c */
extern bool GjServiceIsExpected(void);

/* What may help against a reason that GjServiceReady() gave; NULL: nothing to say.  Static */
extern const char *GjServiceHint(const char *reason);

/* Arms a fault (kinds and points: cuda/border/gpujoin_device.h); the reference device only */
extern GjServiceResult GjServiceInjectFault(int point, int kind, uint32 skip, uint32 times,
											uint32 millis);

/* Status, for the views ---------------------------------------------------------------- */

typedef enum GjServiceState
{
	GJ_STATE_OFF,				/* not preloaded, or gpujoin.device = none */
	GJ_STATE_NONE,				/* there is no GPU, and none was asked for: all is well */
	GJ_STATE_STARTING,
	GJ_STATE_READY,
	GJ_STATE_RESTARTING,		/* waits before it starts the helper again */
	GJ_STATE_FAILED,			/* gave up: trying again is no use until something is changed */
	GJ_STATE_STUCK				/* the helper was killed but does not die */
} GjServiceState;

/* What is counted from the server's start on, in the order of gpujoin_status */
typedef enum GjServiceCounter
{
	GJ_COUNT_REQUESTS,
	GJ_COUNT_OK,
	GJ_COUNT_FAILED,			/* also because the helper died */
	GJ_COUNT_UNAVAILABLE,
	GJ_COUNT_BUSY,
	GJ_COUNT_NO_MEMORY,
	GJ_COUNT_GONE,
	GJ_COUNT_ABANDONED,			/* cancelled, or their backend ended */
	GJ_COUNT_BYTES_SENT,
	GJ_COUNT_BYTES_RECEIVED,
	GJ_COUNT_STARTS,			/* of the helper */
	GJ_COUNT_FAILURES,			/* ends of the helper that nobody asked for */
	GJ_COUNT_KILLS,				/* by the watchdog */
	GJ_COUNT_COUNTERS
} GjServiceCounter;

typedef struct GjServiceStatus
{
	GjServiceState state;
	char		reason[256];	/* why not ready; empty if ready */
	const char *hint;			/* what may help; NULL: nothing to say */
	uint32		epoch;
	int			supervisor_pid; /* 0: none */
	int			helper_pid;		/* 0: none */
	TimestampTz state_since;
	char		last_error[256];	/* the last fault, perhaps over; empty: there was none */
	TimestampTz last_error_at;

	/* The device; zero while there is none */
	char		device[128];
	char		uuid[48];
	int			compute_major;
	int			compute_minor;
	int			driver_version; /* as CUDA numbers them: 12040 is 12.4 */
	int			runtime_version;	/* likewise, of the toolkit */
	uint64		memory_total;	/* of the card, */
	uint64		memory_free;	/* as of some seconds ago */
	uint64		memory_budget;
	uint64		memory_columns_limit;
	uint64		memory_columns; /* held by columns */
	uint64		memory_scratch; /* held by key sets, matches, staging and lists of extents */
	uint64		columns;
	uint64		keysets;
	uint64		matches;
	bool		direct_copies;	/* the result buffer is registered with the device */

	/* Request slots */
	int			slots;
	int			slots_used;
	int			slots_abandoned;	/* left by their backend, not yet by the helper */

	uint64		counters[GJ_COUNT_COUNTERS];
} GjServiceStatus;

/* shmem.c */
extern void GjServiceGetStatus(GjServiceStatus *status);	/* works in any state */
extern const char *GjServiceStateName(GjServiceState state);

/* All hooks and the supervisor's registration; once, from _PG_init */
extern void GjServiceInit(void);

#endif							/* GPUJOIN_SERVICE_H */
