/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Memory of the device service: PostgreSQL's own shared memory, and the arena that is
 *	  shared with the helper.
 *
 * State that must be correct (slot ownership, generations, the epoch) lives in PostgreSQL's
 * shared memory, which the helper cannot access.  The arena is a memfd that contains only the
 * messages between the two (cuda/border/gpujoin_protocol.h).
 *
 * The postmaster creates the arena together with shared memory, and creates a new one when it
 * restarts after a crash: the previous helper may still be running and must not be able to access
 * the new arena.  Children inherit the mapping and the descriptor by fork.  The file is sealed
 * against changes of its size.  Otherwise a faulty helper could truncate it, and the next backend
 * that touched its chunk would get SIGBUS.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "base/gpujoin.h"
#include "shared.h"

/* How long to wait for a missing supervisor to start */
#define SUPERVISOR_COMES_MS		(2 * GJ_SUPERVISOR_RESTART * 1000)

GjServiceShared *gj_service = NULL;
GjArena		gj_arena = {.fd = -1};

static GjServiceReason initial_reason(void);
static void request_memory(void);
static void start_memory(void);
static bool make_arena(char *problem, Size problem_size);
static void drop_arena(void);
static void fill_layout(void);
static void describe(char *text, Size size, GjServiceReason reason);
static void copy_report(GjServiceStatus *status, const gjp_report *report);

/*
 * Request the memory and register the supervisor.  Does nothing unless the library is being
 * preloaded, because shared memory cannot be requested later.
 */
void
GjServiceInit(void)
{
	if (!GjAtServerStart(request_memory, start_memory))
		return;
	if (gj_device != GJ_DEVICE_NONE)
		GjSupervisorRegister();
}

/*
 * Get the reason why there is no service before the supervisor has started.
 */
static GjServiceReason
initial_reason(void)
{
	if (gj_device == GJ_DEVICE_NONE)
		return GJ_REASON_DEVICE_NONE;
	if (gj_arena.base == NULL)
		return GJ_REASON_NO_ARENA;
	return GJ_REASON_NO_SUPERVISOR;
}

/*
 * Set the state that all processes see.  The lock must not be held.
 */
void
GjServiceSetState(GjServiceState state, GjServiceReason reason, const char *detail)
{
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->state_since = GetCurrentTimestamp();
	strlcpy(gj_service->detail, detail, sizeof(gj_service->detail));
	if (state == GJ_STATE_RESTARTING || state == GJ_STATE_FAILED || state == GJ_STATE_STUCK)
	{
		describe(gj_service->last_error, sizeof(gj_service->last_error), reason);
		gj_service->last_error_at = gj_service->state_since;
	}
	pg_atomic_write_u32(&gj_service->state, (uint32) state | ((uint32) reason << 8));
	LWLockRelease(gj_service->lock);
}

/*
 * Write a reason as text, with the current detail
 */
static void
describe(char *text, Size size, GjServiceReason reason)
{
	const char *what = GjReasonGet(reason)->text;

	if (gj_service->detail[0] != '\0')
		snprintf(text, size, "%s: %s", what, gj_service->detail);
	else
		strlcpy(text, what, size);
}

/*
 * Return true if it is too early to tell whether there is a device.  This time is limited: a
 * helper that makes no progress while opening a device is killed, and we wait only a few seconds
 * for a missing supervisor.
 */
bool
GjServiceIsStarting(void)
{
	uint32		word;
	TimestampTz since;

	if (gj_service == NULL)
		return false;
	LWLockAcquire(gj_service->lock, LW_SHARED);
	word = pg_atomic_read_u32(&gj_service->state);
	since = gj_service->state_since;
	LWLockRelease(gj_service->lock);

	if ((word & 0xFF) == GJ_STATE_STARTING)
		return true;
	return (word >> 8) == GJ_REASON_NO_SUPERVISOR &&
		!TimestampDifferenceExceeds(since, GetCurrentTimestamp(), SUPERVISOR_COMES_MS);
}

/*
 * Get everything that the status views show.
 */
void
GjServiceGetStatus(GjServiceStatus *status)
{
	uint32		word;

	memset(status, 0, sizeof(*status));
	if (gj_service == NULL)
	{
		status->state = GJ_STATE_OFF;
		strlcpy(status->reason, GjReasonGet(GJ_REASON_NOT_PRELOADED)->text,
				sizeof(status->reason));
		status->hint = GjReasonGet(GJ_REASON_NOT_PRELOADED)->hint;
		return;
	}

	LWLockAcquire(gj_service->lock, LW_SHARED);
	word = pg_atomic_read_u32(&gj_service->state);
	status->state = word & 0xFF;
	status->hint = GjReasonGet(word >> 8)->hint;
	describe(status->reason, sizeof(status->reason), word >> 8);
	strlcpy(status->last_error, gj_service->last_error, sizeof(status->last_error));
	status->last_error_at = gj_service->last_error_at;
	status->epoch = pg_atomic_read_u32(&gj_service->epoch);
	status->supervisor_pid = gj_service->supervisor_pid;
	status->helper_pid = gj_service->helper_pid;
	status->state_since = gj_service->state_since;
	if (status->state == GJ_STATE_READY)
		copy_report(status, &gj_service->report);
	status->slots = gj_service->nslots;
	for (int i = 0; i < gj_service->nslots; i++)
	{
		if (gj_service->slots[i].state == GJ_SLOT_USED)
			status->slots_used++;
		if (gj_service->slots[i].state == GJ_SLOT_ABANDONED)
			status->slots_abandoned++;
	}
	LWLockRelease(gj_service->lock);

	for (int i = 0; i < GJ_COUNT_COUNTERS; i++)
		status->counters[i] = pg_atomic_read_u64(&gj_service->counters[i]);
}

static void
request_memory(void)
{
	RequestAddinShmemSpace(offsetof(GjServiceShared, slots) +
						   mul_size(gj_max_requests, sizeof(GjServiceSlot)));
	RequestNamedLWLockTranche(GJ_NAME, 1);
}

/* Create arena and state; called again after each crash of a child */
static void
start_memory(void)
{
	char		problem[256] = "";
	bool		found;

	if (gj_device == GJ_DEVICE_NONE)
		drop_arena();
	else if (!make_arena(problem, sizeof(problem)))
		ereport(LOG,
				(errmsg("gpujoin works without a device: %s",
						GjReasonGet(GJ_REASON_NO_ARENA)->text),
				 errdetail_internal("%s", problem),
				 errhint("%s", GjReasonGet(GJ_REASON_NO_ARENA)->hint)));

	gj_service = ShmemInitStruct("gpujoin service", offsetof(GjServiceShared, slots) +
								 mul_size(gj_max_requests, sizeof(GjServiceSlot)), &found);
	if (!found)
	{
		memset(gj_service, 0, offsetof(GjServiceShared, slots));
		gj_service->lock = &GetNamedLWLockTranche(GJ_NAME)->lock;
		ConditionVariableInit(&gj_service->slot_freed);
		pg_atomic_init_u32(&gj_service->state, (uint32) GJ_STATE_OFF |
						   ((uint32) initial_reason() << 8));
		pg_atomic_init_u32(&gj_service->epoch, 1);
		pg_atomic_init_u64(&gj_service->still, PG_UINT64_MAX);
		pg_atomic_init_u32(&gj_service->nspinning, 0);
		for (int i = 0; i < GJ_COUNT_COUNTERS; i++)
			pg_atomic_init_u64(&gj_service->counters[i], 0);
		gj_service->state_since = GetCurrentTimestamp();
		strlcpy(gj_service->detail, problem, sizeof(gj_service->detail));
		gj_service->nslots = gj_max_requests;
		GjSlotsInit();
	}
}

/* Create the arena, replacing any previous one; returns false and sets problem if it fails */
static bool
make_arena(char *problem, Size problem_size)
{
	Size		messages = mul_size(gj_max_requests, sizeof(gjp_message));
	GjArena		arena;

	drop_arena();
	arena.messages_at = TYPEALIGN(GJP_PAGE_BYTES, sizeof(gjp_control));
	arena.chunks_at = TYPEALIGN(GJP_PAGE_BYTES, arena.messages_at + messages);
	arena.chunk_bytes = (Size) gj_result_buffer * 1024 / gj_max_requests;
	arena.chunk_bytes = Max(TYPEALIGN_DOWN(GJP_PAGE_BYTES * GJP_HALVES, arena.chunk_bytes),
							GJ_MIN_CHUNK_BYTES);
	arena.size = add_size(arena.chunks_at, mul_size(arena.chunk_bytes, gj_max_requests));

	arena.fd = memfd_create("gpujoin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (arena.fd < 0)
	{
		snprintf(problem, problem_size, "memfd_create failed: %s", strerror(errno));
		return false;
	}
	if (ftruncate(arena.fd, arena.size) != 0 ||
		fcntl(arena.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
		(arena.base = mmap(NULL, arena.size, PROT_READ | PROT_WRITE, MAP_SHARED,
						   arena.fd, 0)) == MAP_FAILED)
	{
		snprintf(problem, problem_size, "a shared region of %zu bytes could not be made: %s",
				 arena.size, strerror(errno));
		close(arena.fd);
		return false;
	}
	gj_arena = arena;
	fill_layout();
	return true;
}

static void
drop_arena(void)
{
	if (gj_arena.base != NULL)
	{
		munmap(gj_arena.base, gj_arena.size);
		close(gj_arena.fd);
	}
	memset(&gj_arena, 0, sizeof(gj_arena));
	gj_arena.fd = -1;
}

/* Tell the helper the offsets and sizes of the arena's parts */
static void
fill_layout(void)
{
	gjp_layout *layout = &GjControl()->layout;

	layout->magic = GJP_MAGIC;
	layout->version = GJP_VERSION;
	layout->slots = gj_max_requests;
	layout->message_bytes = sizeof(gjp_message);
	layout->total_bytes = gj_arena.size;
	layout->messages_at = gj_arena.messages_at;
	layout->chunks_at = gj_arena.chunks_at;
	layout->chunk_bytes = gj_arena.chunk_bytes;
}

/*
 * Add the helper's figures to a status.  Constant figures were checked when the helper started;
 * changing ones are read from the arena unchecked, because they are only displayed.
 */
static void
copy_report(GjServiceStatus *status, const gjp_report *report)
{
	const volatile gjp_report *now = &GjControl()->report;

	strlcpy(status->device, report->device, sizeof(status->device));
	strlcpy(status->uuid, report->uuid, sizeof(status->uuid));
	status->compute_major = report->compute_major;
	status->compute_minor = report->compute_minor;
	status->driver_version = report->driver_version;
	status->runtime_version = report->runtime_version;
	status->memory_total = report->memory_total;
	status->memory_free = now->memory_free;
	status->direct_copies = report->direct_copies;
	status->memory_budget = report->memory_budget;
	status->memory_columns_limit = report->memory_columns_limit;
	status->memory_columns = now->memory_columns;
	status->memory_scratch = now->memory_scratch;
	status->columns = now->columns;
	status->keysets = now->keysets;
	status->matches = now->matches;
}
