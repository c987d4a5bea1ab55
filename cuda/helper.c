/*
 * helper.c
 *	  The helper program: drives the device for PostgreSQL, in a process of its own.
 *
 * PostgreSQL's supervisor starts it with the arena and an eventfd as descriptors; nothing else of
 * PostgreSQL is in reach, so whatever happens here (a crash in the driver, a wild write, a call
 * that never returns) costs the queries that wait their device's answer and nothing more. The
 * supervisor sees it end and starts another.
 *
 * One thread runs everything. A request is a little state machine (helper_request.c and others);
 * the loop takes new ones in, steps each that is under way in turn, and rings those who sleep.
 * No step waits: the library's calls are asynchronous, and what another process owes us is looked
 * at again in the next round. So nobody, a frozen backend for instance, holds up the others.
 *
 * How it ends: exit code 0 when asked to; a gjd_status or GJP_EXIT_* code after a failure, which
 * it describes in the report before; or by the supervisor's or the kernel's SIGKILL.
 */
#define _GNU_SOURCE

#include "helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Idle, it looks for new requests this long before it sleeps */
#define IDLE_SPIN_NS ((int64_t) 50000)

/* While the device works it polls; after this long it sleeps in between, an eighth of the wait */
#define POLL_SPIN_NS ((int64_t) 200000)
#define POLL_SLEEP_MAX_NS NS_PER_MS
#define ACTIVE_NAP_NS (20 * NS_PER_MS)
#define IDLE_NAP_NS (500 * NS_PER_MS)

/* A longer round than this was not the device's: this process was stopped, or had no processor */
#define ROUND_MAX_NS (100 * NS_PER_MS)

/* Figures for the status view, while busy */
#define INFO_EVERY_NS (100 * NS_PER_MS)

helper h;

/* ---- time, watchdog, the end ----------------------------------------------------------------- */

int64_t
clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
beat(void)
{
	__atomic_add_fetch(&h.control->heartbeat, 1, __ATOMIC_RELEASE);
}

void
call_begins(gjp_call call)
{
	__atomic_store_n(&h.control->call, (uint32_t) call, __ATOMIC_RELEASE);
	beat();
}

/* A lost device is beyond repair for this process, whoever meets it first. */
gjd_status
call_ends(gjd_status status)
{
	if (status == GJD_DEVICE_LOST)
		die(GJD_DEVICE_LOST, h.error.device_code, "%s",
			h.error.status == GJD_DEVICE_LOST ? h.error.message : "the device was lost");
	__atomic_store_n(&h.control->call, (uint32_t) GJP_CALL_NONE, __ATOMIC_RELEASE);
	beat();
	return status;
}

/* Leaves the reason in the report and ends. The driver's exit handlers are not worth a hang. */
void
die(int status, int device_code, const char *format, ...)
{
	if (h.control != NULL)
	{
		gjp_report *report = &h.control->report;
		va_list args;

		va_start(args, format);
		vsnprintf(report->failure, sizeof(report->failure), format, args);
		va_end(args);
		report->failure_status = status;
		report->failure_code = device_code;
		__atomic_store_n(&h.control->phase, (uint32_t) GJP_ENDING, __ATOMIC_RELEASE);
	}
	_exit(status);
}

static void
die_of_call(void)
{
	die(h.error.status, h.error.device_code, "%s", h.error.message);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Maps the arena; its layout must be what this program was compiled for, and fit the file. */
static void
map_arena(void)
{
	struct stat st;
	const gjp_layout *layout;
	uint64_t slots;

	if (fstat(GJP_ARENA_FD, &st) != 0 || st.st_size < (off_t) sizeof(gjp_control))
		_exit(GJP_EXIT_USAGE);
	h.arena = mmap(NULL, (size_t) st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, GJP_ARENA_FD, 0);
	if (h.arena == MAP_FAILED)
		_exit(GJP_EXIT_USAGE);
	h.control = (gjp_control *) h.arena;
	h.layout = h.control->layout;
	layout = &h.layout;
	slots = layout->slots;
	if (layout->magic != GJP_MAGIC || layout->version != GJP_VERSION ||
		layout->message_bytes != sizeof(gjp_message) || slots == 0 || slots > GJP_MAX_SLOTS ||
		layout->total_bytes != (uint64_t) st.st_size || layout->messages_at % GJP_PAGE_BYTES != 0 ||
		layout->chunks_at % GJP_PAGE_BYTES != 0 || layout->chunk_bytes % GJP_PAGE_BYTES != 0 ||
		layout->chunk_bytes < GJP_HALVES * GJP_PAGE_BYTES ||
		layout->messages_at < sizeof(gjp_control) || layout->messages_at > layout->chunks_at ||
		layout->chunks_at - layout->messages_at < slots * sizeof(gjp_message) ||
		layout->chunks_at > layout->total_bytes ||
		(layout->total_bytes - layout->chunks_at) / slots < layout->chunk_bytes)
		die(GJP_EXIT_USAGE, 0, "the program gpujoin_helper is of another version than gpujoin.so");
	h.half_bytes = gjp_half_bytes(layout->chunk_bytes);
}

static void
load_library(const char *path)
{
	void *library;
	gjd_get_api_fn get_api;

	call_begins(GJP_CALL_LOAD);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		die(GJP_EXIT_LIBRARY, 0, "%s", dlerror());
	*(void **) &get_api = dlsym(library, GJD_ENTRY);
	h.api = get_api ? get_api(GJD_API_VERSION) : NULL;
	if (h.api == NULL)
		die(GJP_EXIT_LIBRARY, 0, "%s is not a device library of this version", path);
	call_ends(GJD_OK);
}

static void
report_memory(void)
{
	gjp_report *report = &h.control->report;
	gjd_memory_info info = {0};

	h.info_is_old = false;
	if (CALL(INFO, h.api->memory_info(h.device, &info, &h.error)) != GJD_OK)
		return;
	report->memory_budget = info.budget;
	report->memory_columns_limit = info.columns_limit;
	report->memory_columns = info.columns_used;
	report->memory_scratch = info.scratch_used;
	report->columns = info.columns;
	report->keysets = info.keysets;
	report->matches = info.matches;
}

static void
open_device(const char *name, uint64_t budget)
{
	gjp_report *report = &h.control->report;
	gjd_open_params params = {.struct_size = sizeof(params)};
	gjd_device_info info = {0};

	params.device = name;
	params.memory_budget = budget;
	if (CALL(OPEN, h.api->device_open(&params, &h.device, &h.error)) != GJD_OK)
		die_of_call();
	if (CALL(INFO, h.api->device_info(h.device, &info, &h.error)) != GJD_OK)
		die_of_call();
	memcpy(report->device, info.name, sizeof(report->device));
	memcpy(report->uuid, info.uuid, sizeof(report->uuid));
	report->compute_major = info.compute_major;
	report->compute_minor = info.compute_minor;
	report->driver_version = info.driver_version;
	report_memory();
}

/* Without registration all works, but each copy waits for the card: then in small parts. */
static void
register_chunks(void)
{
	uint64_t bytes = h.layout.chunk_bytes * h.layout.slots;
	gjd_status status = CALL(
		REGISTER, h.api->host_register(h.device, h.arena + h.layout.chunks_at, bytes, &h.error));
	uint64_t part_bytes = h.half_bytes;

	h.control->report.direct_copies = status == GJD_OK;
	if (status != GJD_OK)
	{
		fprintf(stderr, "result buffer is not registered with the device, copies are slower: %s\n",
				h.error.message);
		fflush(stderr);
		if (part_bytes > STAGED_PART_BYTES)
			part_bytes = STAGED_PART_BYTES;
	}
	h.part_items = part_bytes / sizeof(gjd_tid);
}

/* ---- bells ----------------------------------------------------------------------------------- */

/* Has the supervisor wake those whose bits were set in this round. */
static void
ring_supervisor(void)
{
	uint64_t one = 1;

	if (!h.ring)
		return;
	h.ring = false;
	/* A full counter means that the supervisor has not yet looked: it will see the new bits too. */
	if (write(GJP_EVENT_FD, &one, sizeof(one)) < 0 && errno != EAGAIN)
		_exit(GJP_EXIT_USAGE);
}

/* Sleeps until somebody rings, or so long, unless the bell has rung since it read "seen". */
static void
sleep_on_doorbell(uint32_t seen, int64_t ns)
{
	uint32_t *bell = &h.control->doorbell;
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	__atomic_store_n(&h.control->sleeping, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(bell, __ATOMIC_SEQ_CST) == seen &&
		!__atomic_load_n(&h.control->stop, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, bell, FUTEX_WAIT, seen, &t, NULL, 0);
	__atomic_store_n(&h.control->sleeping, 0, __ATOMIC_SEQ_CST);
}

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("isb");
#endif
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int64_t
timeout_ns(void)
{
	return (int64_t) __atomic_load_n(&h.control->timeout_ms, __ATOMIC_RELAXED) * NS_PER_MS;
}

/* Takes requests that were posted. */
static bool
take_requests(void)
{
	bool any = false;

	for (uint32_t word = 0; word * 64 < h.layout.slots; word++)
	{
		uint64_t *posted = &h.control->posted[word];
		uint64_t bits;

		if (__atomic_load_n(posted, __ATOMIC_RELAXED) == 0)
			continue;
		for (bits = __atomic_exchange_n(posted, 0, __ATOMIC_ACQ_REL); bits != 0; bits &= bits - 1)
		{
			uint32_t slot = word * 64 + (uint32_t) __builtin_ctzll(bits);

			if (slot < h.layout.slots)
				any |= request_begin(slot);
		}
	}
	return any;
}

/* How a round went */
typedef struct round
{
	bool active; /* there are requests */
	bool moved;	 /* one of them got further */
	bool device; /* one of them, or a match being ended, waits for the device */
} round_t;

static round_t
play_round(void)
{
	round_t r = {0};

	h.now = clock_ns();
	beat();
	r.moved = take_requests();
	for (uint32_t i = 0; i < h.layout.slots; i++)
	{
		request *q = &h.requests[i];

		if (q->step == NULL)
			continue;
		r.active = true;
		switch (request_step(q))
		{
			case MOVED:
				r.moved = true;
				break;
			case WANTS_DEVICE:
				r.device = true;
				break;
			case WANTS_OTHERS:
				break;
		}
	}
	if (h.n_ending > 0)
	{
		if (end_matches())
			r.moved = true;
		r.device |= h.n_ending > 0;
	}
	ring_supervisor();
	return r;
}

/* What to do after a round in which nothing moved. quiet: how long that has been so. */
static void
rest(const round_t *r, uint32_t seen, int64_t quiet)
{
	int64_t nap = timeout_ns() / 4;

	if (nap > IDLE_NAP_NS)
		nap = IDLE_NAP_NS;
	if (r->device)
	{
		if (quiet > timeout_ns())
			die(GJP_EXIT_HUNG, 0, "the device made no progress for %u ms", h.control->timeout_ms);
		if (quiet >= POLL_SPIN_NS)
			sleep_on_doorbell(seen, quiet / 8 < POLL_SLEEP_MAX_NS ? quiet / 8 : POLL_SLEEP_MAX_NS);
		else
			relax();
		return;
	}
	if (quiet < IDLE_SPIN_NS)
	{
		relax();
		return;
	}
	if (h.info_is_old)
		report_memory();
	/* Scratch memory that a request waits for becomes free without a bell. */
	sleep_on_doorbell(seen, r->active && nap > ACTIVE_NAP_NS ? ACTIVE_NAP_NS : nap);
}

static void
serve(void)
{
	int64_t before = clock_ns();
	int64_t last_info = before;
	int64_t quiet = 0;

	while (!__atomic_load_n(&h.control->stop, __ATOMIC_ACQUIRE))
	{
		uint32_t seen = __atomic_load_n(&h.control->doorbell, __ATOMIC_SEQ_CST);
		round_t r = play_round();

		if (h.info_is_old && h.now - last_info > INFO_EVERY_NS)
		{
			report_memory();
			last_info = h.now;
		}
		quiet += h.now - before < ROUND_MAX_NS ? h.now - before : ROUND_MAX_NS;
		before = h.now;
		if (r.moved)
			quiet = 0;
		else
			rest(&r, seen, quiet);
	}
}

/* gpujoin_helper LIBRARY DEVICE BUDGET EPOCH PARENT */
int
main(int argc, char **argv)
{
	uint64_t one = 1;

	if (argc != 6)
	{
		fprintf(stderr, "gpujoin_helper is started by PostgreSQL only\n");
		return GJP_EXIT_USAGE;
	}
	/* Not to outlive the supervisor; it may have gone before this call. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != (pid_t) strtol(argv[5], NULL, 10))
		return GJP_EXIT_USAGE;

	h.epoch = (uint32_t) strtoul(argv[4], NULL, 10);
	map_arena();
	load_library(argv[1]);
	open_device(argv[2], strtoull(argv[3], NULL, 10));
	register_chunks();
	__atomic_store_n(&h.control->phase, (uint32_t) GJP_READY, __ATOMIC_RELEASE);
	if (write(GJP_EVENT_FD, &one, sizeof(one)) < 0)
		return GJP_EXIT_USAGE;
	serve();
	_exit(GJP_EXIT_STOPPED);
}
