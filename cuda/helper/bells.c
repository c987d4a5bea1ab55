/*
 * bells.c
 *	  How the helper, its clients and the supervisor wake each other.
 *
 * To wake a process takes the kernel 3 us, as long as all of the library's work for the keys of a
 * request. So if a round has news for many clients, another thread wakes them, the ringer. It knows
 * nothing but the numbers of their slots, and reads and writes only their bells; a client that it
 * wakes for nothing, because the slot has another one by now, looks and sleeps again. A few
 * clients are woken at once, since waking the ringer takes time, too.
 */
#define _GNU_SOURCE

#include "helper.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Most clients that are woken without the ringer */
#define FEW_CLIENTS 3

static bool has_ringer;
static uint64_t left_to_ringer[GJP_SLOT_WORDS]; /* bits of slots */
static uint32_t ringer_bell, ringer_sleeps;

static void
wake(uint32_t *bell)
{
	syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps until the bell rings, unless it has rung since "seen" was read, or until the time is over,
 * if t is not NULL. */
static void
sleep_on(uint32_t *bell, uint32_t seen, const struct timespec *t)
{
	syscall(SYS_futex, bell, FUTEX_WAIT, seen, t, NULL, 0);
}

static void
wake_slots(uint32_t word, uint64_t bits)
{
	for (; bits != 0; bits &= bits - 1)
	{
		uint32_t *bell = &message_at(word * 64 + (uint32_t) __builtin_ctzll(bits))->bell;

		__atomic_add_fetch(bell, 1, __ATOMIC_SEQ_CST);
		wake(bell);
	}
}

/* The ringer: sleeps only if the bell has not rung since before it last looked at all slots. */
static void *
ring_forever(void *unused)
{
	for (;;)
	{
		uint32_t seen = __atomic_load_n(&ringer_bell, __ATOMIC_SEQ_CST);

		for (uint32_t word = 0; word < GJP_SLOT_WORDS; word++)
			wake_slots(word, __atomic_exchange_n(&left_to_ringer[word], 0, __ATOMIC_SEQ_CST));
		__atomic_store_n(&ringer_sleeps, 1, __ATOMIC_SEQ_CST);
		sleep_on(&ringer_bell, seen, NULL);
		__atomic_store_n(&ringer_sleeps, 0, __ATOMIC_SEQ_CST);
	}
	return unused;
}

/* Without a ringer, everything works, but many clients take longer. */
void
start_ringer(void)
{
	pthread_t thread;

	has_ringer = pthread_create(&thread, NULL, ring_forever, NULL) == 0;
}

/* Wakes the clients for which there was news in this round. */
void
ring_clients(void)
{
	bool leave = false;
	int n = 0;

	for (uint32_t word = 0; word < GJP_SLOT_WORDS; word++)
		n += __builtin_popcountll(h.to_wake[word]);
	leave = has_ringer && n > FEW_CLIENTS;
	for (uint32_t word = 0; word < GJP_SLOT_WORDS && n > 0; word++)
	{
		if (leave)
			__atomic_or_fetch(&left_to_ringer[word], h.to_wake[word], __ATOMIC_SEQ_CST);
		else
			wake_slots(word, h.to_wake[word]);
		h.to_wake[word] = 0;
	}
	if (!leave)
		return;
	__atomic_add_fetch(&ringer_bell, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ringer_sleeps, __ATOMIC_SEQ_CST))
		wake(&ringer_bell);
}

/* Has the supervisor free the slots whose clients have left and whose requests have ended. */
void
ring_supervisor(void)
{
	uint64_t one = 1;

	if (!h.ring)
		return;
	h.ring = false;
	/* A full counter means that the supervisor has not looked yet: it will see these slots, too. */
	if (write(GJP_EVENT_FD, &one, sizeof(one)) < 0 && errno != EAGAIN)
		_exit(GJP_EXIT_USAGE);
}

/* Sleeps until the doorbell rings or the time is over, unless it has rung since "seen" was read. */
void
sleep_on_doorbell(uint32_t seen, int64_t ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	__atomic_store_n(&h.control->sleeping, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&h.control->doorbell, __ATOMIC_SEQ_CST) == seen &&
		!__atomic_load_n(&h.control->stop, __ATOMIC_SEQ_CST))
		sleep_on(&h.control->doorbell, seen, &t);
	__atomic_store_n(&h.control->sleeping, 0, __ATOMIC_SEQ_CST);
}
