/*-------------------------------------------------------------------------
 *
 * supervisor.c
 *	  The background worker that keeps the helper running: it starts and watches the helper,
 *	  wakes the clients for which the helper rings, and ends and restarts it.
 *
 * The worker uses shared memory, but no database and no transaction, and holds locks only
 * briefly.  Whatever happens to the helper is an event for the worker, not an error: the worker
 * ends only with the server, or when told to.
 *
 *	  starting		the helper is opening the device
 *	  ready			it serves requests
 *	  restarting	it ended; the next one is started after a delay of 1, 2, 4 .. 60 s,
 *					which is reset after a minute of good service
 *	  failed		it ended for a lasting reason (no driver, say): the worker does not retry
 *					until the configuration is reloaded.  If there was a device before, it may
 *					come back (its driver is being replaced, say), so the worker retries once
 *					a minute
 *	  none			there is no GPU and the settings ask for none, so nothing is wrong.  The
 *					worker looks again when the configuration is reloaded
 *	  stuck			it was killed but does not die, which can happen in a driver call; the
 *					next one cannot be started before, not even by the next supervisor
 *
 * Watchdog.  The helper's heartbeat advances with each iteration of its loop and around each of
 * its calls into the library, even when it is idle.  If it stands still for
 * gpujoin.device_timeout (longer while the device is being opened), the helper is killed.  Only
 * the heartbeat is trusted; what the helper reports about itself is only logged.  The time is
 * summed over the worker's own iterations, and a long iteration counts as a short one: otherwise
 * a supervisor that was stopped itself, or a machine that was suspended, would kill a helper that
 * had no chance to run.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "shared.h"

#define GJ_SUPERVISOR_NAME		"gpujoin supervisor"

#define GJ_TICK_MS				1000
#define GJ_MIN_DELAY_MS			1000
#define GJ_MAX_DELAY_MS			60000
#define GJ_GOOD_SERVICE_MS		60000

/* Opening a device can take long on machines with many */
#define GJ_OPEN_TIMEOUT_MS		60000

/* How long a killed helper may take to exit */
#define GJ_DEATH_MS				10000

typedef struct Supervisor
{
	GjHelper	helper;
	WaitEventSet *events;
	GjServiceState state;
	int64		since;			/* when the state began, in ms */
	int64		ready_at;		/* when this helper became ready; 0 if not yet */
	int64		retry_at;
	int64		delay;
	bool		killed;			/* has this worker killed it?  If so, wait for it to exit */
	GjServiceReason kill_reason;
	GjServiceReason last_reason;	/* why the last helper ended, to avoid logging it twice */
	uint64		heartbeat;
	int64		still;			/* ms since the heartbeat last moved */
	int64		last_tick;
} Supervisor;

static Supervisor sv = {.helper = {.log_fd = -1, .event_fd = -1}};

static void child_ended(SIGNAL_ARGS);
static int64 now_ms(void);
static void enter(GjServiceState state, GjServiceReason reason, const char *detail);
static void start_helper(void);
static void helper_is_ready(void);
static void helper_ended(int wait_status);
static void plan_restart(GjServiceReason reason, const char *detail);
static void watch(void);
static void kill_helper(GjServiceReason reason);
static bool orphan_lives(void);
static void note_helper(int pid);
static void enter_stuck(int pid, GjServiceReason reason);
static void reload(void);
static void wait_for_events(void);
static int64 next_tick(void);
static void rebuild_events(void);
static void leave(int code, Datum arg);

/*
 * Register the worker, while the library is preloaded.
 */
void
GjSupervisorRegister(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = GJ_SUPERVISOR_RESTART;
	strlcpy(worker.bgw_library_name, GJ_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "GjSupervisorMain", BGW_MAXLEN);
	strlcpy(worker.bgw_name, GJ_SUPERVISOR_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_type, GJ_SUPERVISOR_NAME, BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/*
 * Main entry point of the worker.
 */
void
GjSupervisorMain(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGCHLD, child_ended);
	BackgroundWorkerUnblockSignals();

	if (gj_arena.base == NULL)
		proc_exit(0);			/* logged at server start; there is nothing to supervise */
	before_shmem_exit(leave, (Datum) 0);
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->supervisor_pid = MyProcPid;
	LWLockRelease(gj_service->lock);

	sv.last_tick = now_ms();
	if (orphan_lives())
		enter_stuck(gj_service->helper_pid, GJ_REASON_FROZEN);
	else
		start_helper();
	while (!ShutdownRequestPending)
	{
		int			wait_status;

		CHECK_FOR_INTERRUPTS();
		/*
		 * Do this first: a reload starts another helper only if it knows that this one has ended.
		 */
		if (GjHelperReap(&sv.helper, &wait_status))
			helper_ended(wait_status);
		if (ConfigReloadPending)
			reload();
		if (sv.state == GJ_STATE_RESTARTING && sv.helper.pid == 0 && now_ms() >= sv.retry_at)
			start_helper();
		if (sv.state == GJ_STATE_STUCK && sv.helper.pid == 0 && !orphan_lives())
			start_helper();
		if (sv.helper.pid != 0)
			watch();
		wait_for_events();
	}

	/* Exit with 1, so that the worker is restarted even if it was terminated. */
	proc_exit(1);
}

/* SIGCHLD handler: the helper may have ended */
static void
child_ended(SIGNAL_ARGS)
{
	int			save_errno = errno;

	SetLatch(MyLatch);
	errno = save_errno;
}

static int64
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
enter(GjServiceState state, GjServiceReason reason, const char *detail)
{
	sv.state = state;
	sv.since = now_ms();
	GjServiceSetState(state, reason, detail);
}

/* Start a helper.  No helper may be running. */
static void
start_helper(void)
{
	gjp_control *control = GjControl();
	uint32		epoch = GjServiceEpoch();
	char		problem[256];
	const char *library = GjHelperLibrary();

	if (GjReasonIsNotBuilt(library))
	{
		GjReasonReportNone(GJ_REASON_NOT_BUILT, sv.last_reason == GJ_REASON_NOT_BUILT);
		sv.last_reason = GJ_REASON_NOT_BUILT;
		enter(GJ_STATE_NONE, GJ_REASON_NOT_BUILT, "");
		return;
	}

	/* No helper is alive, so the control block belongs to this process. */
	memset(&control->report, 0, sizeof(control->report));
	memset(control->wake, 0, sizeof(control->wake));
	memset(control->posted, 0, sizeof(control->posted));
	control->phase = GJP_OPENING;
	control->call = GJP_CALL_NONE;
	control->sleeping = 0;
	control->stop = 0;
	control->epoch = epoch;
	control->timeout_ms = gj_device_timeout;
	sv.killed = false;
	sv.ready_at = 0;
	sv.still = 0;

	if (!GjHelperStart(&sv.helper, library, epoch, problem, sizeof(problem)))
	{
		plan_restart(GJ_REASON_NO_HOST_MEMORY, problem);
		ereport(LOG,
				(errmsg("gpujoin device process could not be started"),
				 errdetail_internal("%s", problem)));
		return;
	}
	GjServiceCount(GJ_COUNT_STARTS, 1);
	note_helper(sv.helper.pid);
	rebuild_events();
	enter(GJ_STATE_STARTING, GJ_REASON_STARTING, "");
}

/* Record that the helper has opened its device */
static void
helper_is_ready(void)
{
	gjp_report	report;

	GjReportCopy(&report);
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->report = report;
	gj_service->had_device = true;
	LWLockRelease(gj_service->lock);

	ereport(LOG,
			(errmsg("gpujoin uses device \"%s\"", report.device),
			 errdetail("UUID %s, " UINT64_FORMAT " MB reserved, results are copied %s.",
					   report.uuid, report.memory_budget / (1024 * 1024),
					   report.direct_copies ? "directly" : "through a staging buffer")));
	if (!report.direct_copies)
		GjReasonReportStaging(&report);
	sv.last_reason = GJ_REASON_NONE;
	sv.ready_at = now_ms();
	/* Serve first: processes that see the ready state must be able to get a slot. */
	GjSlotsServe();
	enter(GJ_STATE_READY, GJ_REASON_NONE, "");
}

/*
 * Clean up after a helper that has ended and been waited for.  Wake clients last, so that a
 * client whose request failed finds the state, counters and log up to date.
 */
static void
helper_ended(int wait_status)
{
	bool		given_up = sv.killed;
	GjServiceReason reason = given_up ? sv.kill_reason : GjReasonOfExit(wait_status);
	gjp_report	report;
	char		detail[256] = "";

	GjReportCopy(&report);
	GjHelperForwardLog(&sv.helper);
	GjHelperClose(&sv.helper);
	rebuild_events();
	note_helper(0);
	if (!given_up && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == report.failure_status)
		strlcpy(detail, report.failure, sizeof(detail));
	if (GjReasonGet(reason)->lasts != GJ_IS_NO_FAULT)
		GjServiceCount(GJ_COUNT_FAILURES, 1);

	/* If it ended for the same reason as the previous one, before it was ready, nothing is new. */
	GjReasonReportEnd(reason, wait_status, detail,
					  sv.ready_at == 0 && reason == sv.last_reason);
	sv.last_reason = reason;
	sv.killed = false;
	plan_restart(reason, detail);
	if (!given_up)
		GjSlotsStop();
}

/* Choose the state after the helper has ended */
static void
plan_restart(GjServiceReason reason, const char *detail)
{
	int64		now = now_ms();
	GjReasonLasts lasts = GjReasonGet(reason)->lasts;

	if (lasts == GJ_IS_NO_FAULT || lasts == GJ_LASTS ||
		(lasts == GJ_LASTS_UNLESS_SEEN && !gj_service->had_device))
	{
		enter(lasts == GJ_IS_NO_FAULT ? GJ_STATE_NONE : GJ_STATE_FAILED, reason, detail);
		return;
	}
	if (lasts == GJ_LASTS_UNLESS_SEEN)
		sv.delay = GJ_MAX_DELAY_MS;
	else if (sv.delay == 0 || (sv.ready_at != 0 && now - sv.ready_at >= GJ_GOOD_SERVICE_MS))
		sv.delay = GJ_MIN_DELAY_MS;
	else
		sv.delay = Min(sv.delay * 2, GJ_MAX_DELAY_MS);
	sv.retry_at = now + sv.delay;
	enter(GJ_STATE_RESTARTING, reason, detail);
}

/* Check on a living helper */
static void
watch(void)
{
	gjp_control *control = GjControl();
	uint64		heartbeat = __atomic_load_n(&control->heartbeat, __ATOMIC_ACQUIRE);
	int64		now = now_ms();
	int64		limit = gj_device_timeout;

	sv.still += Min(now - sv.last_tick, 2 * next_tick());
	sv.last_tick = now;
	if (sv.killed)
	{
		if (sv.state != GJ_STATE_STUCK && now - sv.since >= GJ_DEATH_MS)
			enter_stuck(sv.helper.pid, sv.kill_reason);
		return;
	}

	if (heartbeat != sv.heartbeat)
	{
		sv.heartbeat = heartbeat;
		sv.still = 0;
	}
	if (sv.state == GJ_STATE_STARTING)
	{
		limit = Max(limit, GJ_OPEN_TIMEOUT_MS);
		if (__atomic_load_n(&control->phase, __ATOMIC_ACQUIRE) == GJP_READY)
			helper_is_ready();
	}
	if (sv.still > limit)
	{
		GjServiceCount(GJ_COUNT_KILLS, 1);
		kill_helper(GJ_REASON_FROZEN);
	}
}

/* Record that a killed helper does not die */
static void
enter_stuck(int pid, GjServiceReason reason)
{
	ereport(LOG,
			(errmsg("gpujoin device process %d was killed but does not end", pid),
			 errdetail("A call to the GPU's driver probably does not return."),
			 errhint("Until it is gone, the CPU does all searches.")));
	enter(GJ_STATE_STUCK, reason, "the process does not end");
}

/*
 * Give the helper up.  It is our child and has not been waited for, so its pid cannot have been
 * reused.
 */
static void
kill_helper(GjServiceReason reason)
{
	kill(sv.helper.pid, SIGKILL);
	sv.killed = true;
	sv.kill_reason = reason;
	enter(GJ_STATE_RESTARTING, reason, "");
	GjSlotsStop();
}

/*
 * Return true if a previous supervisor's helper, which could not be killed, is still alive.  It
 * may still write to the arena.  It is not our child, so we must poll for its end.
 */
static bool
orphan_lives(void)
{
	int			pid = gj_service->helper_pid;

	if (sv.helper.pid != 0 || pid == 0)
		return false;
	if (gj_service->helper_start != 0 && GjProcessStart(pid) == gj_service->helper_start)
	{
		kill(pid, SIGKILL);
		return true;
	}
	note_helper(0);
	return false;
}

/* Record the running helper in shared memory, 0 if none is running */
static void
note_helper(int pid)
{
	uint64		start = (pid != 0) ? GjProcessStart(pid) : 0;

	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->helper_pid = pid;
	gj_service->helper_start = start;
	LWLockRelease(gj_service->lock);
}

/* Handle a reload: the configuration may have changed, or the user may have fixed the problem */
static void
reload(void)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	__atomic_store_n(&GjControl()->timeout_ms, (uint32) gj_device_timeout, __ATOMIC_RELAXED);
	if (sv.helper.pid == 0 && !orphan_lives())
	{
		sv.delay = 0;
		if (sv.state != GJ_STATE_NONE)
			sv.last_reason = GJ_REASON_NONE;
		start_helper();
	}
}

/* Sleep until an event occurs; serve the eventfd and the log */
static void
wait_for_events(void)
{
	WaitEvent	happened[4];
	bool		idle = sv.helper.pid == 0 &&
		(sv.state == GJ_STATE_FAILED || sv.state == GJ_STATE_NONE);
	int			n;

	if (sv.events == NULL)
		rebuild_events();
	n = WaitEventSetWait(sv.events, idle ? -1L : (long) next_tick(), happened,
						 lengthof(happened), GjWaitEventSupervisor());
	for (int i = 0; i < n; i++)
	{
		uint64		rings;

		if (happened[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		else if (happened[i].fd == sv.helper.event_fd)
		{
			if (read(sv.helper.event_fd, &rings, sizeof(rings)) > 0)
				GjSlotsWake();
		}
		else if (happened[i].fd == sv.helper.log_fd)
		{
			GjHelperForwardLog(&sv.helper);
			if (sv.helper.log_fd < 0)
				rebuild_events();
		}
	}
}

/* Get the milliseconds until the next check on the helper, or its restart */
static int64
next_tick(void)
{
	int64		tick = Min(GJ_TICK_MS, gj_device_timeout / 4);

	if (sv.helper.pid == 0 && sv.state == GJ_STATE_RESTARTING)
		return Max(Min(tick, sv.retry_at - now_ms()), 1);
	return tick;
}

static void
rebuild_events(void)
{
	if (sv.events != NULL)
		FreeWaitEventSet(sv.events);
	sv.events = GjCreateWaitEventSet(4);
	AddWaitEventToSet(sv.events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(sv.events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (sv.helper.event_fd >= 0)
		AddWaitEventToSet(sv.events, WL_SOCKET_READABLE, sv.helper.event_fd, NULL, NULL);
	if (sv.helper.log_fd >= 0)
		AddWaitEventToSet(sv.events, WL_SOCKET_READABLE, sv.helper.log_fd, NULL, NULL);
}

/*
 * before_shmem_exit callback: clients must not wait for a helper without a supervisor.  If it
 * does not die, leave a note for the next supervisor.
 */
static void
leave(int code, Datum arg)
{
	GjServiceSetState(GJ_STATE_OFF, GJ_REASON_NO_SUPERVISOR, "");
	GjSlotsStop();
	if (orphan_lives() || !GjHelperEnd(&sv.helper))
		GjServiceSetState(GJ_STATE_STUCK, GJ_REASON_FROZEN, "the process does not end");
	else
		note_helper(0);
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->supervisor_pid = 0;
	LWLockRelease(gj_service->lock);
}
