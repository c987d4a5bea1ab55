/*
 * helper.c
 *	  The helper program: drives the device for PostgreSQL, in a process of its own.
 *
 * PostgreSQL's supervisor starts it with the arena and an eventfd as descriptors; it has no other
 * descriptor and no other memory of PostgreSQL. So whatever goes wrong here (a crash in the driver,
 * a wild write, a call that never returns) only costs the waiting queries the device's answer. The
 * supervisor sees the helper end and starts another. That protects the server from faults, not from
 * an enemy: the helper is a process of the server's user, who may open the server's files.
 *
 * One thread runs everything, but that another one may wake clients (bells.c). A request is a small
 * state machine (request.c and others); the loop takes in new requests, steps each active one in
 * turn, and wakes sleeping processes. No step waits: the library's calls are asynchronous, and data
 * expected from another process is checked for again in the next round. So no client, not even a
 * frozen backend, delays the others.
 *
 * It ends with exit code 0 when asked to; with a gjd_status or GJP_EXIT_* code after a failure,
 * which it first describes in the report; or by SIGKILL from the supervisor or the kernel.
 */
#define _GNU_SOURCE

#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * How long the helper spins for news from clients, without work for the device, before it sleeps;
 * longer if a client is in the middle of a request, most likely copying a part. Longer spinning
 * would take a processor from other processes on small machines.
 */
#define IDLE_SPIN_NS ((int64_t) 50000)
#define ACTIVE_SPIN_NS ((int64_t) 100000)

/*
 * While the device works the helper polls; after this long it sleeps between polls, for an eighth
 * of the time waited so far
 */
#define POLL_SPIN_NS ((int64_t) 200000)
#define POLL_SLEEP_MAX_NS NS_PER_MS
#define ACTIVE_NAP_NS (20 * NS_PER_MS)
#define IDLE_NAP_NS (500 * NS_PER_MS)

/*
 * A round longer than this was not the device's fault: this process was stopped, or had no
 * processor
 */
#define ROUND_MAX_NS (100 * NS_PER_MS)

/* Interval of updating figures for the status view, while busy */
#define INFO_EVERY_NS (100 * NS_PER_MS)

/* Interval of asking for the card's free memory, only while there is nothing else to do */
#define CARD_EVERY_NS (10000 * NS_PER_MS)

/* Of the scale from -1000 (never chosen) to 1000 (chosen first) when memory runs out */
#define OOM_SCORE_ADJ "500"

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

/* Takes in requests that were posted. */
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

/* Outcome of a round */
typedef struct round
{
	bool active; /* are there requests? */
	bool moved;	 /* has a request made progress? */
	bool device; /* does a request, or a match being ended, wait for the device? */
} round_t;

/* Ends this process if the device makes no progress on a piece of work. */
static void
check_waits(void)
{
	for (uint32_t word = 0; word < GJP_SLOT_WORDS; word++)
		for (uint64_t bits = h.at_work[word]; bits != 0; bits &= bits - 1)
			wait_check(&h.requests[word * 64 + (uint32_t) __builtin_ctzll(bits)].device_wait);
	for (uint32_t i = 0; i < h.n_endings; i++)
		wait_check(&h.endings[i].device_wait);
}

/* Steps a request and records the outcome in the round. */
static void
play_request(request *q, round_t *r)
{
	r->active = true;
	switch (request_step(q))
	{
		case MOVED:
			r->moved = true;
			wait_over(&q->device_wait, true);
			break;
		case WANTS_DEVICE:
			r->device = true;
			wait_on(&q->device_wait);
			break;
		case WANTS_OTHERS:
			wait_over(&q->device_wait, false);
			break;
	}
}

/* Steps the requests that have a match, or the others. */
static void
play_requests(bool matching, round_t *r)
{
	for (uint32_t word = 0; word < GJP_SLOT_WORDS; word++)
		for (uint64_t bits = h.at_work[word]; bits != 0; bits &= bits - 1)
		{
			request *q = &h.requests[word * 64 + (uint32_t) __builtin_ctzll(bits)];

			if ((q->match != NULL) == matching)
				play_request(q, r);
		}
}

/*
 * Opens a batch if more than one request is at work: what they have the device do in this round is
 * started together.
 */
static bool
open_batch(void)
{
	int at_work = 0;

	for (uint32_t word = 0; word < GJP_SLOT_WORDS; word++)
		at_work += __builtin_popcountll(h.at_work[word]);
	if (at_work < 2 || (h.api->capabilities & GJD_CAN_BATCH) == 0)
		return false;
	return CALL(BATCH, h.api->batch_begin(h.device, &h.error)) == GJD_OK;
}

/* Ends it. If that fails, the requests of the batch would never be answered. */
static void
close_batch(void)
{
	gjd_batch_info info = {0};

	if (CALL(BATCH, h.api->batch_end(h.device, &info, &h.error)) != GJD_OK)
		die(h.error.status, h.error.device_code, "%s", h.error.message);
	h.control->report.batches = info.batches;
	h.control->report.batched = info.matches;
}

/* Returns a chain with which the device has ended, or NULL. */
static uint32_t *
free_chain(void)
{
	for (int i = 0; i < MOST_CHAINS; i++)
		if (h.chains[i] == 0)
			return &h.chains[i];
	return NULL;
}

/* Chooses the chain of this round's matches, and whether small ones are held. */
static void
choose_chain(void)
{
	h.chain = free_chain();
	if (h.chain != NULL)
		h.full_since = 0;
	else if (h.full_since == 0)
		h.full_since = h.now;
	h.holds = h.chain == NULL && h.now - h.full_since < HOLD_LIMIT_NS;
}

/*
 * A round. Clients whose answers are there are woken before other requests begin, so that they work
 * at the same time.
 */
static round_t
play_round(void)
{
	round_t r = {0};
	bool batch;

	h.moved_order = 0;
	beat();
	play_requests(true, &r);
	ring_clients();
	r.moved |= take_requests();
	choose_chain();
	batch = open_batch();
	play_requests(false, &r);
	if (batch)
		close_batch();
	if (h.n_endings > 0)
	{
		if (end_matches())
			r.moved = true;
		r.device |= h.n_endings > 0;
	}
	ring_clients();
	ring_supervisor();
	if (r.device)
		check_waits();
	return r;
}

/* Spins or sleeps after a round without progress; quiet is the time since the last progress. */
static void
rest(const round_t *r, uint32_t seen, int64_t quiet)
{
	static int64_t last_card;
	int64_t nap = timeout_ns() / 4;

	if (nap > IDLE_NAP_NS)
		nap = IDLE_NAP_NS;
	if (r->device)
	{
		if (quiet >= POLL_SPIN_NS)
			sleep_on_doorbell(seen, quiet / 8 < POLL_SLEEP_MAX_NS ? quiet / 8 : POLL_SLEEP_MAX_NS);
		else
			relax();
		return;
	}
	if (quiet < (r->active ? ACTIVE_SPIN_NS : IDLE_SPIN_NS))
	{
		relax();
		return;
	}
	if (h.info_is_old)
		report_memory();
	if (!r->active && h.now - last_card > CARD_EVERY_NS)
	{
		report_card();
		last_card = h.now;
	}
	/* Scratch memory that a request waits for is freed without ringing the doorbell. */
	sleep_on_doorbell(seen, r->active && nap > ACTIVE_NAP_NS ? ACTIVE_NAP_NS : nap);
}

static void
serve(void)
{
	int64_t before = clock_ns();
	int64_t last_info = before;
	int64_t quiet = 0;

	h.now = before;
	while (!__atomic_load_n(&h.control->stop, __ATOMIC_ACQUIRE))
	{
		uint32_t seen = __atomic_load_n(&h.control->doorbell, __ATOMIC_SEQ_CST);
		round_t r;

		h.now = clock_ns();
		h.round_ns = h.now - before < ROUND_MAX_NS ? h.now - before : ROUND_MAX_NS;
		before = h.now;
		r = play_round();
		if (h.info_is_old && h.now - last_info > INFO_EVERY_NS)
		{
			report_memory();
			last_info = h.now;
		}
		quiet = r.moved ? 0 : quiet + h.round_ns;
		if (!r.moved)
			rest(&r, seen, quiet);
	}
}

/*
 * Leaves the data directory, where the supervisor works: a core file, or a file that a driver opens
 * by a relative name, does not belong there. No program executed from here gets more rights than
 * this one has. If the machine runs out of memory, the kernel ends this process rather than one of
 * PostgreSQL, which would take all others with it.
 */
static void
leave_server(void)
{
	int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (chdir("/") != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die(GJP_EXIT_USAGE, 0, "could not leave the server's environment: %s", strerror(errno));
	/* Without /proc the score remains the server's. */
	if (oom >= 0 && (write(oom, OOM_SCORE_ADJ, strlen(OOM_SCORE_ADJ)) < 0 || close(oom) != 0))
		fprintf(stderr, "could not change the process's oom_score_adj: %s\n", strerror(errno));
}

/* gpujoin_helper LIBRARY DEVICE BUDGET EPOCH PARENT; the library's path is absolute */
int
main(int argc, char **argv)
{
	uint64_t one = 1;

	if (argc != 6)
	{
		fprintf(stderr, "gpujoin_helper is started by PostgreSQL only\n");
		return GJP_EXIT_USAGE;
	}
	/* Die with the supervisor; it may have ended before this call. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != (pid_t) strtol(argv[5], NULL, 10))
		return GJP_EXIT_USAGE;

	h.epoch = (uint32_t) strtoul(argv[4], NULL, 10);
	map_arena();
	leave_server();
	load_library(argv[1]);
	open_device(argv[2], strtoull(argv[3], NULL, 10));
	register_chunks();
	start_ringer();
	__atomic_store_n(&h.control->phase, (uint32_t) GJP_READY, __ATOMIC_RELEASE);
	if (write(GJP_EVENT_FD, &one, sizeof(one)) < 0)
		return GJP_EXIT_USAGE;
	serve();
	_exit(GJP_EXIT_STOPPED);
}
