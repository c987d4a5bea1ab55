/*-------------------------------------------------------------------------
 *
 * supervisor.c
 *	  The background worker that keeps a device's helper running: it starts and watches the
 *	  helper, frees the slots of clients that left, and ends and restarts it.
 *
 * Each device has a worker of its own, so that nothing that happens to one device or its helper
 * keeps the others waiting.
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

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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
#include "base/settings.h"
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

#define GJ_HELPER_PROGRAM		"gpujoin_helper"

/* How long a helper may take to exit when asked to */
#define GJ_STOP_MS				1000

/* First descriptor that does not belong to the helper */
#define GJ_FIRST_FOREIGN_FD		(GJP_EVENT_FD + 1)

/* Limits on what a helper may write to the log: number of lines, and length of each */
#define GJ_LOG_LINES			200
#define GJ_LOG_LINE_LENGTH		400

/* Limit on reads of the log in one call: twice the capacity of a pipe */
#define GJ_LOG_MAX_READS		128

typedef struct Helper
{
	int			pid;			/* 0: none */
	int			log_fd;			/* read end of its output; -1 if closed */
	int			event_fd;		/* its eventfd; -1 if none */
} Helper;

typedef struct Supervisor
{
	Helper		helper;
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
static GjService *mine;			/* the service of this worker's device */

static char log_line[GJ_LOG_LINE_LENGTH + 1];
static int	log_length;
static int	log_lines_left;

static void child_ended(SIGNAL_ARGS);
static int64 now_ms(void);
static void enter_state(GjServiceState state, GjServiceReason reason, const char *detail);
static void start_helper(void);
static void helper_is_ready(void);
static void helper_ended(int wait_status);
static void plan_restart(GjServiceReason reason, const char *detail);
static void watch(void);
static void kill_helper(GjServiceReason reason);
static bool orphan_lives(void);
static void note_helper(int pid);
static void enter_stuck(int pid, GjServiceReason reason);
static void handle_reload(void);
static void wait_for_events(void);
static int64 next_tick(void);
static void rebuild_events(void);
static void leave(int code, Datum arg);
static void run_program(char **argv, const int *fds, pid_t parent)
			__attribute__((noreturn));
static void keep_descriptors(const int *fds);
static void close_descriptors(void);
static void reset_signals(void);
static void emit_line(void);
static bool start_program(Helper *helper, const char *library, uint32 epoch, char *problem,
						  Size problem_size);
static void name_gpu(char *name, Size size);
static void forward_log(Helper *helper);
static bool end_helper(Helper *helper);
static uint64 get_process_start(int pid);
static bool reap_helper(Helper *helper, int *wait_status);
static void close_helper(Helper *helper);
static void report_staging(const gjp_report *report);

/*
 * Register the worker of a device, while the library is preloaded.
 */
void
GjSupervisorRegister(int device)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = GJ_SUPERVISOR_RESTART;
	strlcpy(worker.bgw_library_name, GJ_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "GjSupervisorMain", BGW_MAXLEN);
	if (device == 0)
		strlcpy(worker.bgw_name, GJ_SUPERVISOR_NAME, BGW_MAXLEN);
	else
		snprintf(worker.bgw_name, BGW_MAXLEN, GJ_SUPERVISOR_NAME " %d", device);
	worker.bgw_main_arg = Int32GetDatum(device);
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

	mine = &gj_services[DatumGetInt32(arg)];
	if (mine->arena.base == NULL)
		proc_exit(0);			/* logged at server start; there is nothing to supervise */
	before_shmem_exit(leave, (Datum) 0);
	LWLockAcquire(mine->shared->lock, LW_EXCLUSIVE);
	mine->shared->supervisor_pid = MyProcPid;
	LWLockRelease(mine->shared->lock);

	sv.last_tick = now_ms();
	if (orphan_lives())
		enter_stuck(mine->shared->helper_pid, GJ_REASON_FROZEN);
	else
		start_helper();
	while (!ShutdownRequestPending)
	{
		int			wait_status;

		CHECK_FOR_INTERRUPTS();
		/*
		 * Do this first: a reload starts another helper only if it knows that this one has ended.
		 */
		if (reap_helper(&sv.helper, &wait_status))
			helper_ended(wait_status);
		if (ConfigReloadPending)
			handle_reload();
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
enter_state(GjServiceState state, GjServiceReason reason, const char *detail)
{
	sv.state = state;
	sv.since = now_ms();
	GjServiceSetState(mine, state, reason, detail);
}

/* Start a helper.  No helper may be running. */
static void
start_helper(void)
{
	gjp_control *control = GjControl(mine);
	uint32		epoch = GjServiceEpoch(mine->device);
	char		problem[256];
	const char *library = gj_device == GJ_DEVICE_REFERENCE ?
		"gpujoin_reference.so" : "gpujoin_cuda.so";

	if (GjReasonIsNotBuilt(library))
	{
		GjReasonReportNone(mine, GJ_REASON_NOT_BUILT, sv.last_reason == GJ_REASON_NOT_BUILT);
		sv.last_reason = GJ_REASON_NOT_BUILT;
		enter_state(GJ_STATE_NONE, GJ_REASON_NOT_BUILT, "");
		return;
	}

	/* No helper is alive, so the control block belongs to this process. */
	memset(&control->report, 0, sizeof(control->report));
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

	if (!start_program(&sv.helper, library, epoch, problem, sizeof(problem)))
	{
		plan_restart(GJ_REASON_NO_HOST_MEMORY, problem);
		ereport(LOG,
				(errmsg("gpujoin device process could not be started"),
				 errdetail_internal("%s", problem)));
		return;
	}
	GjServiceCount(mine, GJ_COUNT_STARTS, 1);
	note_helper(sv.helper.pid);
	rebuild_events();
	enter_state(GJ_STATE_STARTING, GJ_REASON_STARTING, "");
}

/* Record that the helper has opened its device */
static void
helper_is_ready(void)
{
	gjp_report	report;

	GjReportCopy(mine, &report);
	LWLockAcquire(mine->shared->lock, LW_EXCLUSIVE);
	mine->shared->report = report;
	mine->shared->had_device = true;
	LWLockRelease(mine->shared->lock);

	ereport(LOG,
			(errmsg("gpujoin uses device \"%s\"", report.device),
			 errdetail("UUID %s, " UINT64_FORMAT " MB reserved, results are copied %s.",
					   report.uuid, report.memory_budget / (1024 * 1024),
					   report.direct_copies ? "directly" : "through a staging buffer")));
	if (!report.direct_copies)
		report_staging(&report);
	sv.last_reason = GJ_REASON_NONE;
	sv.ready_at = now_ms();
	/* Serve first: processes that see the ready state must be able to get a slot. */
	GjSlotsServe(mine);
	enter_state(GJ_STATE_READY, GJ_REASON_NONE, "");
}

/*
 * Log why results go through a staging buffer.  The report's texts have been checked.
 */
static void
report_staging(const gjp_report *report)
{
	char		limit[64] = "no limit";

	if (report->locked_limit != PG_UINT64_MAX)
		snprintf(limit, sizeof(limit), UINT64_FORMAT " kB", report->locked_limit / 1024);
	ereport(LOG,
			(errmsg("gpujoin could not register the result buffer with the device, results are "
					"copied through a staging buffer, which is slower"),
			 errdetail("The device library said: %s (error %d).  %zu kB were to be locked; "
					   "the limit for locked memory is %s.",
					   report->register_failure, report->register_code,
					   (mine->arena.size - mine->arena.chunks_at) / 1024, limit),
			 report->register_status == GJD_NO_HOST_MEMORY ?
			 errhint("Raise the limit for locked memory of the server's user (ulimit -l, "
					 "LimitMEMLOCK of a systemd unit), or lower gpujoin.result_buffer; then "
					 "restart the server.") :
			 report->register_status == GJD_NO_PERMISSION ?
			 errhint("A container or a security module may forbid locking memory: give the server "
					 "CAP_IPC_LOCK, or raise the limit for locked memory.") :
			 errhint("Everything works without it, only more slowly.")));
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

	GjReportCopy(mine, &report);
	forward_log(&sv.helper);
	close_helper(&sv.helper);
	rebuild_events();
	if (!given_up && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == report.failure_status)
		strlcpy(detail, report.failure, sizeof(detail));
	if (GjReasonGet(reason)->lasts != GJ_IS_NO_FAULT)
		GjServiceCount(mine, GJ_COUNT_FAILURES, 1);

	/* If it ended for the same reason as the previous one, before it was ready, nothing is new. */
	GjReasonReportEnd(mine, reason, wait_status, detail,
					  sv.ready_at == 0 && reason == sv.last_reason);
	sv.last_reason = reason;
	sv.killed = false;
	plan_restart(reason, detail);
	note_helper(0);				/* no view shows a device that is ready without a process */
	if (!given_up)
		GjSlotsStop(mine);
}

/* Choose the state after the helper has ended */
static void
plan_restart(GjServiceReason reason, const char *detail)
{
	int64		now = now_ms();
	GjReasonLasts lasts = GjReasonGet(reason)->lasts;

	if (lasts == GJ_IS_NO_FAULT || lasts == GJ_LASTS ||
		(lasts == GJ_LASTS_UNLESS_SEEN && !mine->shared->had_device))
	{
		enter_state(lasts == GJ_IS_NO_FAULT ? GJ_STATE_NONE : GJ_STATE_FAILED, reason, detail);
		return;
	}
	if (lasts == GJ_LASTS_UNLESS_SEEN)
		sv.delay = GJ_MAX_DELAY_MS;
	else if (sv.delay == 0 || (sv.ready_at != 0 && now - sv.ready_at >= GJ_GOOD_SERVICE_MS))
		sv.delay = GJ_MIN_DELAY_MS;
	else
		sv.delay = Min(sv.delay * 2, GJ_MAX_DELAY_MS);
	sv.retry_at = now + sv.delay;
	enter_state(GJ_STATE_RESTARTING, reason, detail);
}

/* Check on a living helper */
static void
watch(void)
{
	gjp_control *control = GjControl(mine);
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
		GjServiceCount(mine, GJ_COUNT_KILLS, 1);
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
	enter_state(GJ_STATE_STUCK, reason, "the process does not end");
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
	enter_state(GJ_STATE_RESTARTING, reason, "");
	GjSlotsStop(mine);
}

/*
 * Return true if a previous supervisor's helper, which could not be killed, is still alive.  It
 * may still write to the arena.  It is not our child, so we must poll for its end.
 */
static bool
orphan_lives(void)
{
	int			pid = mine->shared->helper_pid;

	if (sv.helper.pid != 0 || pid == 0)
		return false;
	if (mine->shared->helper_start != 0 && get_process_start(pid) == mine->shared->helper_start)
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
	uint64		start = (pid != 0) ? get_process_start(pid) : 0;

	LWLockAcquire(mine->shared->lock, LW_EXCLUSIVE);
	mine->shared->helper_pid = pid;
	mine->shared->helper_start = start;
	LWLockRelease(mine->shared->lock);
}

/* Handle a reload: the configuration may have changed, or the user may have fixed the problem */
static void
handle_reload(void)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	__atomic_store_n(&GjControl(mine)->timeout_ms, (uint32) gj_device_timeout, __ATOMIC_RELAXED);
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
				GjSlotsFree(mine);
		}
		else if (happened[i].fd == sv.helper.log_fd)
		{
			forward_log(&sv.helper);
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
	GjServiceSetState(mine, GJ_STATE_OFF, GJ_REASON_NO_SUPERVISOR, "");
	GjSlotsStop(mine);
	if (orphan_lives() || !end_helper(&sv.helper))
		GjServiceSetState(mine, GJ_STATE_STUCK, GJ_REASON_FROZEN, "the process does not end");
	else
		note_helper(0);
	LWLockAcquire(mine->shared->lock, LW_EXCLUSIVE);
	mine->shared->supervisor_pid = 0;
	LWLockRelease(mine->shared->lock);
}

/*-------------------------------------------------------------------------
 * The helper process: start it, forward its output, wait for it
 *
 * The helper is executed, not merely forked.  A GPU driver must not be initialized in a forked
 * copy of a PostgreSQL process, and a helper without any of PostgreSQL's descriptors, mappings or
 * code cannot harm it by accident.  It gets four descriptors: the arena, the supervisor's eventfd,
 * and a pipe, used twice, for the output of the helper and its libraries.
 *
 * It dies with the supervisor (PR_SET_PDEATHSIG), even if the supervisor is killed.  It has a
 * session of its own, so that signals which the postmaster sends to the supervisor's process
 * group do not reach it.
 *
 * Between fork and exec, only async-signal-safe functions are called.
 *-------------------------------------------------------------------------
 */

/*
 * Start the helper with a library from the extension's directory.  Returns false and sets problem
 * if that fails.  If the program cannot be executed, that is noticed when the helper ends.
 */
static bool
start_program(Helper *helper, const char *library, uint32 epoch, char *problem,
			  Size problem_size)
{
	char		program[MAXPGPATH];
	char		library_path[MAXPGPATH];
	char		gpu[128];
	char		budget[32];
	char		epoch_text[32];
	char		parent_text[32];
	char	   *argv[] = {program, library_path, gpu, budget, epoch_text, parent_text, NULL};
	int			log_pipe[2];
	int			fds[3];
	pid_t		parent = getpid();
	pid_t		pid;

	snprintf(program, sizeof(program), "%s/%s", pkglib_path, GJ_HELPER_PROGRAM);
	snprintf(library_path, sizeof(library_path), "%s/%s", pkglib_path, library);
	name_gpu(gpu, sizeof(gpu));
	snprintf(budget, sizeof(budget), UINT64_FORMAT, (uint64) gj_device_memory * 1024 * 1024);
	snprintf(epoch_text, sizeof(epoch_text), "%u", epoch);
	snprintf(parent_text, sizeof(parent_text), "%d", (int) parent);

	if (pipe2(log_pipe, O_CLOEXEC) != 0)
	{
		snprintf(problem, problem_size, "pipe2 failed: %s", strerror(errno));
		return false;
	}
	helper->log_fd = log_pipe[0];
	helper->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (helper->event_fd < 0 || fcntl(helper->log_fd, F_SETFL, O_NONBLOCK) != 0)
	{
		snprintf(problem, problem_size, "eventfd failed: %s", strerror(errno));
		close(log_pipe[1]);
		close_helper(helper);
		return false;
	}
	log_length = 0;
	log_lines_left = GJ_LOG_LINES;
	fds[0] = log_pipe[1];
	fds[1] = mine->arena.fd;
	fds[2] = helper->event_fd;

	pid = fork();
	if (pid == 0)
		run_program(argv, fds, parent);
	if (pid < 0)
		snprintf(problem, problem_size, "fork failed: %s", strerror(errno));
	close(log_pipe[1]);
	if (pid < 0)
	{
		close_helper(helper);
		return false;
	}
	helper->pid = pid;
	return true;
}

/*
 * Get the name by which the library knows the device: empty if it may choose one
 */
static void
name_gpu(char *name, Size size)
{
	const char *listed = GjGpuName(mine->device);

	if (GjWantsAllGpus())
		snprintf(name, size, "%d", mine->device);
	else
		strlcpy(name, listed != NULL ? listed : "", size);
}

/*
 * Write the helper's output to the server log.  Closes the pipe at end of file.
 */
static void
forward_log(Helper *helper)
{
	char		buffer[1024];
	ssize_t		n;

	for (int reads = 0; helper->log_fd >= 0; reads++)
	{
		/* Endless output must not keep the supervisor from its other duties. */
		if (reads == GJ_LOG_MAX_READS)
			return;
		n = read(helper->log_fd, buffer, sizeof(buffer));
		if (n == 0)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		for (ssize_t i = 0; i < n; i++)
		{
			char		c = buffer[i];

			if (c == '\n')
				emit_line();
			else if (log_length < GJ_LOG_LINE_LENGTH)
				log_line[log_length++] = (c >= ' ' && c <= '~') ? c : '?';
		}
	}
	emit_line();
	if (helper->log_fd >= 0)
		close(helper->log_fd);
	helper->log_fd = -1;
}

/*
 * Return true, and set *wait_status, if the helper has ended
 */
static bool
reap_helper(Helper *helper, int *wait_status)
{
	if (helper->pid == 0 || waitpid(helper->pid, wait_status, WNOHANG) != helper->pid)
		return false;
	helper->pid = 0;
	return true;
}

/*
 * Ask a helper to exit, then kill it; used when the supervisor itself exits.  Returns false if
 * the helper is still alive, which can only happen if a driver call does not return.
 */
static bool
end_helper(Helper *helper)
{
	gjp_control *control = GjControl(mine);
	int			wait_status;

	if (helper->pid == 0)
		return true;
	__atomic_store_n(&control->stop, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&control->doorbell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &control->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
	for (int waited = 0; waited < GJ_STOP_MS + GJ_DEATH_MS; waited += 10)
	{
		if (reap_helper(helper, &wait_status))
			return true;
		if (waited == GJ_STOP_MS)
			kill(helper->pid, SIGKILL);
		pg_usleep(10 * 1000);
	}
	return false;
}

/*
 * Get the start time of a process, in ticks since boot; 0 if the process does not exist or has
 * ended.  Together with the pid this identifies a process that is not our child.
 */
static uint64
get_process_start(int pid)
{
	char		path[64];
	char		text[1024];
	char	   *at;
	int			fd;
	ssize_t		n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';

	/* The name, in parentheses, may contain any character; the state follows it as field 3. */
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
		return 0;
	at++;
	for (int field = 3; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

/*
 * Release the resources of a helper that has ended.
 */
static void
close_helper(Helper *helper)
{
	if (helper->log_fd >= 0)
		close(helper->log_fd);
	if (helper->event_fd >= 0)
		close(helper->event_fd);
	helper->log_fd = -1;
	helper->event_fd = -1;
}

/* The child: become the helper */
static void
run_program(char **argv, const int *fds, pid_t parent)
{
	static const char message[] = "could not be executed\n";

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(GJP_EXIT_EXEC);
	keep_descriptors(fds);
	close_descriptors();
	reset_signals();
	execv(argv[0], argv);
	if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
		_exit(GJP_EXIT_EXEC);
	_exit(GJP_EXIT_EXEC);
}

/*
 * Move the descriptors to the numbers that the helper expects: log (1, 2), arena, eventfd, and
 * /dev/null (0).  First move them out of each other's way, since any of them may have one of
 * those numbers.
 */
static void
keep_descriptors(const int *fds)
{
	int			moved[3];
	int			null_fd;

	for (int i = 0; i < 3; i++)
	{
		moved[i] = fcntl(fds[i], F_DUPFD, GJ_FIRST_FOREIGN_FD);
		if (moved[i] < 0)
			_exit(GJP_EXIT_EXEC);
	}
	null_fd = open("/dev/null", O_RDONLY);
	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(moved[0], STDOUT_FILENO) < 0 || dup2(moved[0], STDERR_FILENO) < 0 ||
		dup2(moved[1], GJP_ARENA_FD) < 0 || dup2(moved[2], GJP_EVENT_FD) < 0)
		_exit(GJP_EXIT_EXEC);
}

/* Close all other descriptors: data files, sockets, the postmaster's pipes */
static void
close_descriptors(void)
{
	struct rlimit limit;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, GJ_FIRST_FOREIGN_FD, ~0U, 0) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1024 * 1024)
		limit.rlim_cur = 1024 * 1024;
	for (int fd = GJ_FIRST_FOREIGN_FD; fd < (int) limit.rlim_cur; fd++)
		close(fd);
}

/* Reset signals: those that PostgreSQL ignores or blocks would remain so in the program */
static void
reset_signals(void)
{
	sigset_t	none;

	for (int i = 1; i < NSIG; i++)
	{
		if (i != SIGKILL && i != SIGSTOP)
			signal(i, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Log the current line, unless the helper has exceeded its limit */
static void
emit_line(void)
{
	log_line[log_length] = '\0';
	if (log_length > 0 && log_lines_left > 0)
	{
		log_lines_left--;
		ereport(LOG,
				(errmsg("gpujoin device process: %s", log_line),
				 log_lines_left > 0 ? 0 :
				 errdetail("Further lines of this process are left out.")));
	}
	log_length = 0;
}
