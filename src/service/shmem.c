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

#include "base/settings.h"
#include "shared.h"

/* The number of devices that "all" means if they are imitated */
#define GJ_ALL_REFERENCES		2

/* How long to wait for a missing supervisor to start */
#define SUPERVISOR_COMES_MS		(2 * GJ_SUPERVISOR_RESTART * 1000)

GjService	gj_services[GJ_MAX_DEVICES];
int			gj_nservices = 0;

static int	count_devices(void);
static GjServiceReason initial_reason(const GjService *service);
static bool is_starting(const GjService *service);
static Size shared_size(void);
static void request_memory(void);
static void start_memory(void);
static void start_service(GjService *service);
static bool make_arena(GjArena *made, char *problem, Size problem_size);
static void drop_arena(GjArena *arena);
static void fill_layout(const GjService *service);
static void describe(const GjServiceShared *shared, char *text, Size size,
					 GjServiceReason reason);
static void copy_report(const GjService *service, GjServiceStatus *status);

/*
 * Request the memory and register a supervisor for each device.  Does nothing unless the library
 * is being preloaded, because shared memory cannot be requested later.
 */
void
GjServiceInit(void)
{
	if (!GjAtServerStart(request_memory, start_memory))
		return;
	gj_nservices = count_devices();
	for (int i = 0; i < gj_nservices; i++)
	{
		gj_services[i] = (GjService) {.device = i,.arena = {.fd = -1}};
		if (gj_device != GJ_DEVICE_NONE)
			GjSupervisorRegister(i);
	}
}

/*
 * Count the devices that gpujoin.gpu names
 */
static int
count_devices(void)
{
	int			n = 0;

	if (GjWantsAllGpus())
		n = gj_device == GJ_DEVICE_REFERENCE ? GJ_ALL_REFERENCES : GjCountCards();
	else
	{
		while (GjGpuName(n) != NULL)
			n++;
	}
	return gj_device == GJ_DEVICE_NONE ? 1 : Max(Min(n, GJ_MAX_DEVICES), 1);
}

/*
 * Get the reason why there is no service before the supervisor has started.
 */
static GjServiceReason
initial_reason(const GjService *service)
{
	if (gj_device == GJ_DEVICE_NONE)
		return GJ_REASON_DEVICE_NONE;
	if (service->arena.base == NULL)
		return GJ_REASON_NO_ARENA;
	return GJ_REASON_NO_SUPERVISOR;
}

/*
 * Set the state that all processes see.  The lock must not be held.
 */
void
GjServiceSetState(GjService *service, GjServiceState state, GjServiceReason reason,
				  const char *detail)
{
	GjServiceShared *shared = service->shared;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->state_since = GetCurrentTimestamp();
	strlcpy(shared->detail, detail, sizeof(shared->detail));
	if (state == GJ_STATE_RESTARTING || state == GJ_STATE_FAILED || state == GJ_STATE_STUCK)
	{
		describe(shared, shared->last_error, sizeof(shared->last_error), reason);
		shared->last_error_at = shared->state_since;
	}
	pg_atomic_write_u32(&shared->state, (uint32) state | ((uint32) reason << 8));
	LWLockRelease(shared->lock);
}

/*
 * Write a reason as text, with the current detail
 */
static void
describe(const GjServiceShared *shared, char *text, Size size, GjServiceReason reason)
{
	const char *what = GjReasonGet(reason)->text;

	if (shared->detail[0] != '\0')
		snprintf(text, size, "%s: %s", what, shared->detail);
	else
		strlcpy(text, what, size);
}

/*
 * Return true if it is too early to tell whether the device is there, or any device if it is
 * GJ_ANY_DEVICE.  This time is limited: a helper that makes no progress while opening a device is
 * killed, and we wait only a few seconds for a missing supervisor.
 */
bool
GjServiceIsStarting(int device)
{
	bool		some = false;

	if (device != GJ_ANY_DEVICE)
		return is_starting(&gj_services[device]);
	if (GjServiceReady(NULL))
		return false;
	for (int i = 0; i < gj_nservices; i++)
		some |= is_starting(&gj_services[i]);
	return some;
}

static bool
is_starting(const GjService *service)
{
	GjServiceShared *shared = service->shared;
	uint32		word;
	TimestampTz since;

	LWLockAcquire(shared->lock, LW_SHARED);
	word = pg_atomic_read_u32(&shared->state);
	since = shared->state_since;
	LWLockRelease(shared->lock);

	if ((word & 0xFF) == GJ_STATE_STARTING)
		return true;
	return (word >> 8) == GJ_REASON_NO_SUPERVISOR &&
		!TimestampDifferenceExceeds(since, GetCurrentTimestamp(), SUPERVISOR_COMES_MS);
}

/*
 * Get everything that the status views show about a device.  If the library is not preloaded, that
 * is the same for all.
 */
void
GjServiceGetStatus(int device, GjServiceStatus *status)
{
	const GjService *service = &gj_services[device];
	GjServiceShared *shared = service->shared;
	uint32		word;

	memset(status, 0, sizeof(*status));
	if (gj_nservices == 0)
	{
		status->state = GJ_STATE_OFF;
		strlcpy(status->reason, GjReasonGet(GJ_REASON_NOT_PRELOADED)->text,
				sizeof(status->reason));
		status->hint = GjReasonGet(GJ_REASON_NOT_PRELOADED)->hint;
		return;
	}

	LWLockAcquire(shared->lock, LW_SHARED);
	word = pg_atomic_read_u32(&shared->state);
	status->state = word & 0xFF;
	status->hint = GjReasonGet(word >> 8)->hint;
	describe(shared, status->reason, sizeof(status->reason), word >> 8);
	strlcpy(status->last_error, shared->last_error, sizeof(status->last_error));
	status->last_error_at = shared->last_error_at;
	status->epoch = pg_atomic_read_u32(&shared->epoch);
	status->supervisor_pid = shared->supervisor_pid;
	status->helper_pid = shared->helper_pid;
	status->state_since = shared->state_since;
	if (status->state == GJ_STATE_READY)
		copy_report(service, status);
	status->slots = shared->nslots;
	for (int i = 0; i < shared->nslots; i++)
	{
		if (shared->slots[i].state == GJ_SLOT_USED)
			status->slots_used++;
		if (shared->slots[i].state == GJ_SLOT_ABANDONED)
			status->slots_abandoned++;
	}
	LWLockRelease(shared->lock);

	for (int i = 0; i < GJ_COUNT_COUNTERS; i++)
		status->counters[i] = pg_atomic_read_u64(&shared->counters[i]);
}

/*
 * Return the number of devices; 0 if the library is not preloaded
 */
int
GjServiceDevices(void)
{
	return gj_nservices;
}

static Size
shared_size(void)
{
	return add_size(offsetof(GjServiceShared, slots),
					mul_size(gj_max_requests, sizeof(GjServiceSlot)));
}

static void
request_memory(void)
{
	RequestAddinShmemSpace(mul_size(gj_nservices, MAXALIGN(shared_size())));
	RequestNamedLWLockTranche(GJ_NAME, gj_nservices);
}

/* Create arenas and states; called again after each crash of a child */
static void
start_memory(void)
{
	for (int i = 0; i < gj_nservices; i++)
		start_service(&gj_services[i]);
}

static void
start_service(GjService *service)
{
	char		problem[256] = "";
	char		name[32];
	GjServiceShared *shared;
	bool		found;

	drop_arena(&service->arena);
	if (gj_device != GJ_DEVICE_NONE && !make_arena(&service->arena, problem, sizeof(problem)))
		ereport(LOG,
				(errmsg("gpujoin works without a device: %s",
						GjReasonGet(GJ_REASON_NO_ARENA)->text),
				 errdetail_internal("%s", problem),
				 errhint("%s", GjReasonGet(GJ_REASON_NO_ARENA)->hint)));
	if (service->arena.base != NULL)
		fill_layout(service);

	snprintf(name, sizeof(name), "gpujoin service %d", service->device);
	shared = service->shared = ShmemInitStruct(name, shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, offsetof(GjServiceShared, slots));
		shared->lock = &GetNamedLWLockTranche(GJ_NAME)[service->device].lock;
		ConditionVariableInit(&shared->slot_freed);
		pg_atomic_init_u32(&shared->state, (uint32) GJ_STATE_OFF |
						   ((uint32) initial_reason(service) << 8));
		pg_atomic_init_u32(&shared->epoch, 1);
		pg_atomic_init_u64(&shared->still, PG_UINT64_MAX);
		pg_atomic_init_u32(&shared->nspinning, 0);
		pg_atomic_init_u32(&shared->nused, 0);
		for (int i = 0; i < GJ_COUNT_COUNTERS; i++)
			pg_atomic_init_u64(&shared->counters[i], 0);
		shared->state_since = GetCurrentTimestamp();
		strlcpy(shared->detail, problem, sizeof(shared->detail));
		shared->nslots = gj_max_requests;
		GjSlotsInit(service);
	}
}

/* Create an arena; returns false and sets problem if it fails */
static bool
make_arena(GjArena *made, char *problem, Size problem_size)
{
	Size		messages = mul_size(gj_max_requests, sizeof(gjp_message));
	GjArena		arena;

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
	*made = arena;
	return true;
}

static void
drop_arena(GjArena *arena)
{
	if (arena->base != NULL)
	{
		munmap(arena->base, arena->size);
		close(arena->fd);
	}
	memset(arena, 0, sizeof(*arena));
	arena->fd = -1;
}

/* Tell the helper the offsets and sizes of the arena's parts */
static void
fill_layout(const GjService *service)
{
	gjp_layout *layout = &GjControl(service)->layout;

	layout->magic = GJP_MAGIC;
	layout->version = GJP_VERSION;
	layout->slots = gj_max_requests;
	layout->message_bytes = sizeof(gjp_message);
	layout->total_bytes = service->arena.size;
	layout->messages_at = service->arena.messages_at;
	layout->chunks_at = service->arena.chunks_at;
	layout->chunk_bytes = service->arena.chunk_bytes;
}

/*
 * Add the helper's figures to a status.  Constant figures were checked when the helper started;
 * changing ones are read from the arena unchecked, because they are only displayed.
 */
static void
copy_report(const GjService *service, GjServiceStatus *status)
{
	const gjp_report *report = &service->shared->report;
	const volatile gjp_report *now = &GjControl(service)->report;

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
