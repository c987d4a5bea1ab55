/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Internals of the device service: PostgreSQL's shared memory, the arena, and the
 *	  functions that the service's files share.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SERVICE_SHARED_H
#define GPUJOIN_SERVICE_SHARED_H

#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#include "cuda/border/gpujoin_protocol.h"
#include "service.h"

/* Maximum number of requests that a process has under way */
#define GJ_MOST_AT_ONCE			16

/* Seconds until the postmaster restarts a supervisor that has ended */
#define GJ_SUPERVISOR_RESTART	5

/* Reasons why no device is available; texts, hints and durability are in reason.c */
typedef enum GjServiceReason
{
	GJ_REASON_NONE,
	GJ_REASON_NOT_PRELOADED,
	GJ_REASON_DEVICE_NONE,
	GJ_REASON_NOT_BUILT,
	GJ_REASON_NO_GPU,
	GJ_REASON_NO_SUPERVISOR,
	GJ_REASON_STARTING,
	GJ_REASON_NO_ARENA,
	GJ_REASON_NO_PROGRAM,
	GJ_REASON_NO_LIBRARY,
	GJ_REASON_VERSION,
	GJ_REASON_NO_DRIVER,
	GJ_REASON_NO_DEVICE,
	GJ_REASON_NO_PERMISSION,
	GJ_REASON_IN_USE,
	GJ_REASON_NO_MEMORY,
	GJ_REASON_NO_HOST_MEMORY,
	GJ_REASON_UNSUPPORTED,
	GJ_REASON_INVALID,
	GJ_REASON_LOST,
	GJ_REASON_HUNG,				/* the device, according to the helper */
	GJ_REASON_FROZEN,			/* the helper, according to the watchdog */
	GJ_REASON_CRASHED,
	GJ_REASON_EXITED,
	GJ_REASON_INTERNAL,
	GJ_REASON_COUNT
} GjServiceReason;

/* Does the reason persist, so that retrying is of no use? */
typedef enum GjReasonLasts
{
	GJ_PASSES,
	GJ_LASTS_UNLESS_SEEN,		/* yes, unless there was a device before: it may come back */
	GJ_LASTS,					/* yes */
	GJ_IS_NO_FAULT				/* yes, and nothing is wrong */
} GjReasonLasts;

typedef struct GjReasonInfo
{
	const char *text;			/* for EXPLAIN and the status view */
	const char *hint;			/* for the log; NULL if it has no hint */
	GjReasonLasts lasts;
} GjReasonInfo;

typedef enum GjSlotState
{
	GJ_SLOT_FREE,
	GJ_SLOT_USED,
	GJ_SLOT_ABANDONED			/* its client has left, but the helper may still write to it */
} GjSlotState;

/* A request slot, protected by the service's lock */
typedef struct GjServiceSlot
{
	GjSlotState state;
	uint32		generation;		/* of the current request, or the last one; never 0 in use */
	int			next_free;
} GjServiceSlot;

/* The state of a device's service */
typedef struct GjServiceShared
{
	LWLock	   *lock;
	ConditionVariable slot_freed;

	/*
	 * GjServiceState, and GjServiceReason above it: read by any process, written by the
	 * supervisor
	 */
	pg_atomic_uint32 state;

	/*
	 * Epoch of the running helper, or of the next one.  Incremented under the lock when a helper
	 * is given up, together with clearing "serving".
	 */
	pg_atomic_uint32 epoch;
	pg_atomic_uint64 still;		/* heartbeat of a helper that a client has given up; if it is the
								 * current one, requests are pointless */
	pg_atomic_uint32 nspinning; /* number of clients that spin, for any device; of the first one */
	pg_atomic_uint32 nused;		/* number of slots that are not free; written under the lock */
	pg_atomic_uint64 counters[GJ_COUNT_COUNTERS];

	/* Fields protected by the lock */
	bool		serving;		/* are slots given out? */
	int			first_free;		/* -1 if no slot is free */
	int			supervisor_pid;
	int			helper_pid;		/* kept for the next supervisor if the helper does not die */
	uint64		helper_start;	/* its get_process_start(), because pids are reused */
	bool		had_device;		/* has a helper been ready since the server's start? */
	TimestampTz state_since;
	char		detail[256];	/* details beyond the reason's text; may be empty */
	char		last_error[256];	/* reason and detail of the last state that was a fault */
	TimestampTz last_error_at;
	gjp_report	report;			/* checked copy, taken when the helper started */

	int			nslots;
	GjServiceSlot slots[FLEXIBLE_ARRAY_MEMBER];
} GjServiceShared;

/* The arena, as mapped in this process.  Trust the sizes here, never those stored in the arena. */
typedef struct GjArena
{
	char	   *base;			/* NULL if there is no arena */
	int			fd;
	Size		size;
	Size		messages_at;
	Size		chunks_at;
	Size		chunk_bytes;
} GjArena;

/* The service of a device, as this process sees it */
typedef struct GjService
{
	int			device;			/* number of the device, from 0 */
	GjServiceShared *shared;
	GjArena		arena;
} GjService;

/* Of each device; there is none if the library is not preloaded */
extern GjService gj_services[GJ_MAX_DEVICES];
extern int	gj_nservices;

static inline gjp_control *
GjControl(const GjService *service)
{
	return (gjp_control *) service->arena.base;
}

static inline gjp_message *
GjMessage(const GjService *service, int slot)
{
	return (gjp_message *) (service->arena.base + service->arena.messages_at) + slot;
}

static inline char *
GjChunk(const GjService *service, int slot)
{
	const GjArena *arena = &service->arena;

	return arena->base + arena->chunks_at + arena->chunk_bytes * slot;
}

static inline void
GjServiceCount(GjService *service, GjServiceCounter counter, uint64 n)
{
	pg_atomic_fetch_add_u64(&service->shared->counters[counter], n);
}

/* shmem.c */
extern void GjServiceSetState(GjService *service, GjServiceState state, GjServiceReason reason,
							  const char *detail);

/* slot.c */
extern void GjSlotsInit(GjService *service);
extern int	GjSlotAcquire(GjService *service, uint32 *generation, uint32 *epoch,
						  GjServiceResult *why_not);
extern void GjSlotRelease(GjService *service, int slot);
extern void GjSlotAbandon(GjService *service, int slot, uint32 epoch);
extern void GjSlotsServe(GjService *service);
extern void GjSlotsStop(GjService *service);
extern void GjSlotsFree(GjService *service);
extern void GjDoorbellRing(const GjService *service, int slot);

/* verify.c */
extern bool GjReductionIsSound(GjReduction *r, const GjKeySet *keys,
							   const gjd_shape *shape);

/* reason.c */
extern const GjReasonInfo *GjReasonGet(GjServiceReason reason);
extern GjServiceReason GjReasonOfExit(int wait_status);
extern int	GjCountCards(void);
extern bool GjReasonIsNotBuilt(const char *library);
extern void GjReportCopy(const GjService *service, gjp_report *report);
extern void GjReasonReportNone(const GjService *service, GjServiceReason reason, bool repeated);
extern void GjReasonReportEnd(const GjService *service, GjServiceReason reason, int wait_status,
							  const char *detail, bool repeated);

/* supervisor.c */
extern void GjSupervisorRegister(int device);
extern PGDLLEXPORT void GjSupervisorMain(Datum arg);


#endif							/* GPUJOIN_SERVICE_SHARED_H */
