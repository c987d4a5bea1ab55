/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Inside of the device service: PostgreSQL's shared memory, the arena, and what
 *	  the service's files use of each other.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SERVICE_SHARED_H
#define GPUJOIN_SERVICE_SHARED_H

#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include "cuda/border/gpujoin_protocol.h"
#include "service.h"

/* After so many seconds the postmaster starts a supervisor that has ended again */
#define GJ_SUPERVISOR_RESTART	5

/* Why there is no device; texts, hints and whether it lasts: reason.c */
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
	GJ_REASON_HUNG,				/* the device, said the helper */
	GJ_REASON_FROZEN,			/* the helper, said the watchdog */
	GJ_REASON_CRASHED,
	GJ_REASON_EXITED,
	GJ_REASON_INTERNAL,
	GJ_REASON_COUNT
} GjServiceReason;

/* Is trying again any use? */
typedef enum GjReasonLasts
{
	GJ_PASSES,
	GJ_LASTS_UNLESS_SEEN,		/* no, unless there was a device before: it may come back */
	GJ_LASTS,					/* no */
	GJ_IS_NO_FAULT				/* no, nor is anything wrong */
} GjReasonLasts;

typedef struct GjReasonInfo
{
	const char *text;			/* for EXPLAIN and the status view */
	const char *hint;			/* for the log; NULL: none */
	GjReasonLasts lasts;
} GjReasonInfo;

typedef enum GjSlotState
{
	GJ_SLOT_FREE,
	GJ_SLOT_USED,
	GJ_SLOT_ABANDONED			/* its client has gone, the helper may still write to it */
} GjSlotState;

/* A request slot.  Protected by the service's lock. */
typedef struct GjServiceSlot
{
	GjSlotState state;
	uint32		generation;		/* of the request in it, or the last one; never 0 in use */
	int			next_free;
	Latch	   *latch;			/* of the client */
} GjServiceSlot;

typedef struct GjServiceShared
{
	LWLock	   *lock;
	ConditionVariable slot_freed;

	/* GjServiceState and, above it, GjServiceReason: read by anybody, written by the supervisor */
	pg_atomic_uint32 state;

	/*
	 * Of the helper that runs, or the next one.  Moves on when a helper is given up, under the
	 * lock, together with "serving".
	 */
	pg_atomic_uint32 epoch;
	pg_atomic_uint32 nspinning; /* clients that spin */
	pg_atomic_uint64 counters[GJ_COUNT_COUNTERS];

	/* Protected by the lock */
	bool		serving;		/* slots are given out */
	int			first_free;		/* -1: none */
	int			supervisor_pid;
	int			helper_pid;		/* kept for the next supervisor if it does not die */
	uint64		helper_start;	/* GjProcessStart() of it: pids are used again */
	bool		had_device;		/* a helper has been ready since the server's start */
	TimestampTz state_since;
	char		detail[256];	/* more than the reason's text; may be empty */
	char		last_error[256];	/* both, of the last state that was a fault */
	TimestampTz last_error_at;
	gjp_report	report;			/* checked copy, as of the helper's start */

	int			nslots;
	GjServiceSlot slots[FLEXIBLE_ARRAY_MEMBER];
} GjServiceShared;

/* The arena, as this process sees it.  Sizes here are right, those in the arena are hearsay. */
typedef struct GjArena
{
	char	   *base;			/* NULL: there is none */
	int			fd;
	Size		size;
	Size		messages_at;
	Size		chunks_at;
	Size		chunk_bytes;
} GjArena;

extern GjServiceShared *gj_service; /* NULL if not preloaded */
extern GjArena gj_arena;

static inline gjp_control *
GjControl(void)
{
	return (gjp_control *) gj_arena.base;
}

static inline gjp_message *
GjMessage(int slot)
{
	return (gjp_message *) (gj_arena.base + gj_arena.messages_at) + slot;
}

static inline char *
GjChunk(int slot)
{
	return gj_arena.base + gj_arena.chunks_at + gj_arena.chunk_bytes * slot;
}

static inline void
GjServiceCount(GjServiceCounter counter, uint64 n)
{
	pg_atomic_fetch_add_u64(&gj_service->counters[counter], n);
}

/* A request under way */
typedef struct GjExchange
{
	int			slot;
	uint32		generation;
	uint32		epoch;
	gjp_message *message;
	char	   *chunk;
	Size		half_bytes;
	uint32		produced;
	uint32		consumed;
	bool		fed;			/* the last part has been sent */

	/* What a request is about: the next part to send, and a part that came */
	void		(*feed) (struct GjExchange *x, char *half, gjp_part *part);
	bool		(*take) (struct GjExchange *x, const char *half, uint32 items);
	const GjKeySet *keys;		/* match: keys not yet sent begin at nsent */
	uint64		nsent;
	GjTidSet   *tids;			/* match: what comes goes here, or ... */
	GjEntrySet *entries;		/* ... here; both NULL: it is only counted */
	const gjd_shape *shape;		/* of the column */
	gjd_want	want;			/* of entries */
	Size		item_bytes;		/* what a TID or an entry takes on its way */
	uint64		nreceived;
	GjPushFill	fill;			/* push */
	void	   *fill_arg;
	int			max_pages;
	Size		image_bytes;

	gjp_result	result;			/* private copy, once final */
	bool		done;			/* the state was GJP_DONE, or nothing more is to come */
	bool		broken;			/* the helper sent what it must not */
} GjExchange;

/* exchange.c */
extern GjServiceResult GjExchangeRun(GjExchange *x, const gjp_request *request);
extern GjServiceResult GjServiceFail(GjServiceResult result, const char *text);

/* shmem.c */
extern void GjServiceSetState(GjServiceState state, GjServiceReason reason, const char *detail);

/* slot.c */
extern void GjSlotsInit(void);
extern int	GjSlotAcquire(uint32 *generation, uint32 *epoch, GjServiceResult *why_not);
extern void GjSlotRelease(int slot);
extern void GjSlotAbandon(int slot, uint32 epoch);
extern void GjSlotsServe(void);
extern void GjSlotsStop(void);
extern void GjSlotsWake(void);
extern void GjDoorbellRing(int slot);

/* reason.c */
extern const GjReasonInfo *GjReasonGet(GjServiceReason reason);
extern GjServiceReason GjReasonOfExit(int wait_status);
extern bool GjReasonIsNotBuilt(const char *library);
extern void GjReportCopy(gjp_report *report);
extern void GjReasonReportEnd(GjServiceReason reason, int wait_status, const char *detail,
							  bool repeated);
extern void GjReasonReportNone(GjServiceReason reason, bool repeated);
extern void GjReasonReportStaging(const gjp_report *report);

/* supervisor.c */
extern void GjSupervisorRegister(void);
extern PGDLLEXPORT void GjSupervisorMain(Datum arg);

/* helper.c */
typedef struct GjHelper
{
	int			pid;			/* 0: none */
	int			log_fd;			/* read end of its output; -1: closed */
	int			event_fd;		/* its bell; -1: none */
} GjHelper;

extern const char *GjHelperLibrary(void);
extern bool GjHelperStart(GjHelper *helper, const char *library, uint32 epoch, char *problem,
						  Size problem_size);
extern void GjHelperForwardLog(GjHelper *helper);
extern bool GjHelperEnd(GjHelper *helper);
extern uint64 GjProcessStart(int pid);
extern bool GjHelperReap(GjHelper *helper, int *wait_status);
extern void GjHelperClose(GjHelper *helper);

#endif							/* GPUJOIN_SERVICE_SHARED_H */
