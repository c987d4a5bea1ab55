/*-------------------------------------------------------------------------
 *
 * service.h
 *	  The device service's interface for the rest of gpujoin: columns of keys and TIDs can be
 *	  loaded onto a device and searched there.
 *
 * The device is driven by the helper, a program separate from PostgreSQL; a background worker,
 * the supervisor, restarts it when it ends.  So any call may fail at any time, and the caller
 * must then proceed without the device: every fault is a result code, never an error, and the CPU
 * search answers instead.  The only errors raised by these functions are interrupts (cancel,
 * termination, timeouts), out of memory in this process, and errors raised by the caller's own
 * fill(); a request abandoned this way releases its resources itself.
 *
 * Never call these functions while holding a lock that another backend could need, above all a
 * buffer content lock: most of them wait for the device.
 *
 * There may be several devices, each with a helper and a supervisor of its own, which know nothing
 * of each other.
 *
 * The contents of the service are volatile.  A column carries the epoch in which it was created;
 * as soon as GjServiceEpoch() of its device differs, it is gone.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SERVICE_H
#define GPUJOIN_SERVICE_H

#include "datatype/timestamp.h"
#include "portability/instr_time.h"

#include "cuda/border/gpujoin_reduction.h"
#include "sets/sets.h"

struct gjd_page_head;			/* cuda/border/gpujoin_device.h */

typedef enum GjServiceResult
{
	GJ_SERVICE_OK,
	GJ_SERVICE_UNAVAILABLE,		/* no device, or not at the moment */
	GJ_SERVICE_BUSY,			/* all request slots are taken */
	GJ_SERVICE_GONE,			/* the column no longer exists: forget it */
	GJ_SERVICE_NO_MEMORY,		/* out of device memory: drop columns, or use the CPU */
	GJ_SERVICE_FAILED,			/* the request failed, or the helper died during it */
	GJ_SERVICE_TOO_NEW,			/* more pages than a reduction can list are newer than its bound */
	GJ_SERVICE_TOO_LARGE,		/* the groups exceed the caller's memory limit */
	GJ_SERVICE_TOO_MANY			/* there are more groups than the request has room for */
} GjServiceResult;

/*
 * A column, in the memory of a device.  Devices are numbered from 0, as gpujoin.gpu lists them.
 */
typedef struct GjServiceColumn
{
	uint32		device;
	uint32		epoch;			/* of that device; 0: there is no column */
	uint32		id;
	uint32		generation;
	uint32		slots;			/* of a page */
} GjServiceColumn;

/* Statistics of a match; zero for the steps that it did not reach */
typedef struct GjServiceMatchInfo
{
	char		device[128];	/* name of the device; with its number if there are several */
	uint64		matches;		/* slots that matched, before a filter */
	uint64		tids;			/* TIDs or entries received */
	uint64		bytes_sent;
	uint64		bytes_received;
	bool		ascending;		/* they came in heap order, without duplicates */
	double		total_us;		/* the whole call, without the caller's own work in between */
	instr_time	away;			/* time of that work */

	/*
	 * Time spent in the helper until the key set was being sent to the device, until the device
	 * had reported the number of matches, and until the last TID had arrived.  They include
	 * waiting for earlier requests of other clients.
	 */
	double		set_us;
	double		kernel_us;
	double		transfer_us;
} GjServiceMatchInfo;

/* A request to reduce entries on the device, and its answer */
typedef struct GjReduction
{
	/*
	 * The request.  Its struct_size and the destination of the first groups are ignored.
	 */
	gjd_reduction asked;
	const GjProofs *proofs;		/* the keys with their rests, which entries must have; or NULL if
								 * keys have none */
	bool		groups_if_needed;	/* true to get only the number of groups if there is no rest
									 * and no page is newer than the bound */
	void		(*meanwhile) (void *arg);	/* work for the time until the answer is there, or NULL;
											 * called once if the answer is GJ_SERVICE_OK,
											 * otherwise perhaps; may make further requests */
	void	   *arg;
	bool		(*fits) (void *arg, uint64 nelements);	/* does the caller have room for nelements?
														 * Called by match/reduce.c */
	void	   *fits_arg;
	MemoryContext context;		/* for the words */
	Size		limit;			/* maximum size of the words */
	uint64	   *words;			/* memory for the elements, from this context, or NULL; the answer's
								 * elements then, in no order except for GJD_DISTINCT */
	Size		room;			/* size of the words, in bytes */
	bool		are_many;		/* true if the groups are too many to be sent all: used by
								 * match/reduce.c */

	/* The answer, which has been checked against the request */
	uint64		rows;			/* that were reduced */
	uint64		nulls;			/* GJD_DISTINCT: of them, rows whose value is NULL */
	uint64		ngroups;		/* groups with rows; GJD_DISTINCT: distinct values */
	bool		only_counted;	/* true if the groups have not been sent, but only their number */
	const GjKeySet *keys;		/* that were asked for; may have been freed since */
	uint64		nkeys;			/* number of them, or of the keys with their rests */
	uint32		element_words;	/* number of words of an element */
	uint64		nelements;
	uint32		nnewer;
	uint32		newer[GJD_MAX_NEWER];	/* pages left out because of the bound, ascending */
} GjReduction;

/* A sum of a device is exact if its group has no more rows than these */
#define GJ_MAX_SUMMED_ROWS		(UINT64CONST(1) << 31)

/*
 * Return the number of the key of a group of GJD_BY_KEY, in the list of the keys, or in that of the
 * keys with their rests
 */
static inline uint64
GjNumberOfKey(const uint64 *element)
{
	return element[1] >> 1;
}

/*
 * Callback that writes up to max_pages pages to be pushed: heads[i] and the i-th image, each of
 * them gjd_shape_image_bytes(shape) long.  The memory is shared with the helper: write it, but do
 * not trust what you read back.  Returns the number of pages, 0 at the end.  It may raise errors
 * and take its time; the device does not wait for it.
 */
typedef int (*GjPushFill) (void *arg, struct gjd_page_head *heads, char *images, int max_pages);

/* client.c */
extern int	GjServiceDevices(void); /* number of devices, ready or not; shmem.c */
extern bool GjServiceReady(const char **why_not);	/* is any device ready?  Cheap, takes no lock;
													 * the text is static */
extern bool GjServiceDeviceReady(int device, const char **why_not);
extern uint32 GjServiceEpoch(int device);	/* changes whenever the device's memory is lost; never
											 * 0 while ready */
extern bool GjServiceMayAskMore(void);
extern uint32 GjServiceWaiting(int device); /* number of requests that it is asked for now */
extern uint64 GjServiceCapabilities(void);	/* GJD_CAN_...; 0 without a device */
extern GjServiceResult GjServiceColumnCreate(int device, const gjd_shape *shape,
											 uint64 reserve_pages, GjServiceColumn *column);
extern GjServiceResult GjServiceColumnDrop(const GjServiceColumn *column);
extern GjServiceResult GjServicePush(const GjServiceColumn *column, const gjd_shape *shape,
									 GjPushFill fill, void *arg);

/*
 * Add the TIDs of all matching slots to tids (not finished here), or only count them if tids is
 * NULL. info may be NULL.  After a failure, tids may contain a part of the answer, which is
 * harmless if the whole index is searched then: a TID set makes TIDs distinct.
 */
extern GjServiceResult GjServiceMatch(const GjServiceColumn *column, const GjKeySet *keys,
									  GjTidSet *tids, GjServiceMatchInfo *info);

/*
 * The same for entries, with the keys and carried columns that the set wants: carried column i is
 * INCLUDE column i.  The shape is that of the column.  Entries that fail the set's filter are not
 * sent; they are added to the set's count of dropped entries.  If the set wants only the first
 * entries in an order, others may be missing.
 */
extern GjServiceResult GjServiceMatchEntries(const GjServiceColumn *column,
											 const gjd_shape *shape, const GjKeySet *keys,
											 GjEntrySet *entries, GjServiceMatchInfo *info);

/*
 * Have entries reduced to groups; those that cannot be reduced are added to the rest, as by
 * GjServiceMatchEntries().  With proofs, the keys are those of its list, and a group of GJD_BY_KEY
 * has the number of its key in that list.  The rest's filter must be the whole filter: the rows of
 * groups cannot be tested again.  After a failure, the answer and the rest must not be used.
 */
extern GjServiceResult GjServiceReduce(const GjServiceColumn *column, const gjd_shape *shape,
									   const GjKeySet *keys, GjReduction *reduction,
									   GjEntrySet *rest, GjServiceMatchInfo *info);

/*
 * Return true if it is too early to tell whether there is this device, or any if it is
 * GJ_ANY_DEVICE; the watchdog limits this time
 */
#define GJ_ANY_DEVICE	(-1)
extern bool GjServiceIsStarting(int device);

/* Get the reason why the last call did not return GJ_SERVICE_OK; valid until the next call */
extern const char *GjServiceLastError(void);

/* Return true if a user would expect a device to answer; in reason.c */
extern bool GjServiceIsExpected(void);

/* Get the hint for a reason that GjServiceReady() gave, a static text; NULL if it has no hint */
extern const char *GjServiceHint(const char *reason);

/* Arm a fault (kinds and points: cuda/border/gpujoin_device.h); reference device only */
extern GjServiceResult GjServiceInjectFault(int device, int point, int kind, uint32 skip,
											uint32 times, uint32 millis);

/* Status, for the views ---------------------------------------------------------------- */

typedef enum GjServiceState
{
	GJ_STATE_OFF,				/* not preloaded, or gpujoin.device = none */
	GJ_STATE_NONE,				/* there is no GPU, and the settings ask for none */
	GJ_STATE_STARTING,
	GJ_STATE_READY,
	GJ_STATE_RESTARTING,		/* waits before restarting the helper */
	GJ_STATE_FAILED,			/* gave up: retrying is of no use until something changes */
	GJ_STATE_STUCK				/* the helper was killed but does not die */
} GjServiceState;

/* Counters since the server's start, in the order of gpujoin_status */
typedef enum GjServiceCounter
{
	GJ_COUNT_REQUESTS,
	GJ_COUNT_OK,
	GJ_COUNT_FAILED,			/* including those failed because the helper died */
	GJ_COUNT_UNAVAILABLE,
	GJ_COUNT_BUSY,
	GJ_COUNT_NO_MEMORY,
	GJ_COUNT_GONE,
	GJ_COUNT_ABANDONED,			/* cancelled, or their backend ended */
	GJ_COUNT_BYTES_SENT,
	GJ_COUNT_BYTES_RECEIVED,
	GJ_COUNT_STARTS,			/* of the helper */
	GJ_COUNT_FAILURES,			/* unexpected ends of the helper */
	GJ_COUNT_KILLS,				/* by the watchdog */
	GJ_COUNT_COUNTERS
} GjServiceCounter;

typedef struct GjServiceStatus
{
	GjServiceState state;
	char		reason[256];	/* why not ready; empty if ready */
	const char *hint;			/* what may help; NULL if there is no hint */
	uint32		epoch;
	int			supervisor_pid; /* 0: none */
	int			helper_pid;		/* 0: none */
	TimestampTz state_since;
	char		last_error[256];	/* the last fault, perhaps fixed since; empty if none */
	TimestampTz last_error_at;

	/* The device; all zero while there is no device */
	char		device[128];
	char		uuid[48];
	int			compute_major;
	int			compute_minor;
	int			driver_version; /* as CUDA numbers them: 12040 is 12.4 */
	int			runtime_version;	/* likewise, of the toolkit */
	uint64		memory_total;	/* of the card */
	uint64		memory_free;	/* of the card, some seconds old */
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
	int			slots_abandoned;	/* left by their backend, but not yet by the helper */

	uint64		counters[GJ_COUNT_COUNTERS];
} GjServiceStatus;

/* shmem.c */
extern void GjServiceGetStatus(int device, GjServiceStatus *status);	/* works in any state */

/* Install all hooks and register the supervisors; called once, by _PG_init */
extern void GjServiceInit(void);

#endif							/* GPUJOIN_SERVICE_H */
