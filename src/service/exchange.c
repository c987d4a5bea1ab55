/*-------------------------------------------------------------------------
 *
 * exchange.c
 *	  The backend's side of a request to the device: post it, feed it, take its answer, and
 *	  abandon it safely at any moment.
 *
 * A request owns one slot from start to end, recorded in this process' variable my_slot.
 * Whatever ends the request early (an error in the caller's fill function, a cancelled query, the
 * end of the process) finds the slot there and abandons it.  The slot and its chunk then belong
 * to the helper until it has noticed.
 *
 * Waiting.  A match takes some fifty microseconds and waking a sleeping process costs half of
 * that, so a client spins first, unless the clients already spinning would take processors from
 * processes with work to do.  Then it sleeps on its latch.  Before sleeping it sets a flag in its
 * message and checks for news once more; the helper tests that flag after each change.
 * Interrupts are serviced at all times; no lock is held.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/spin.h"

#include "base/compat.h"
#include "shared.h"

/*
 * How long a client spins, in microseconds.  For the first part of an answer: GJ_SPIN_MIN_US, or
 * twice the average time that the helper has recently needed until that point for this process'
 * matches, if that is short enough to be worthwhile.  (The time this process waited would be the
 * wrong measure: once it sleeps, waking up accounts for most of it.)  For later parts: the time
 * of several parts, since the next one is already being sent.  GJ_SPIN_ROUNDS is the number of
 * rounds between two looks at the clock.
 */
#define GJ_SPIN_MIN_US			30.0
#define GJ_SPIN_MAX_US			250.0
#define GJ_SPIN_PART_US			100.0
#define GJ_SPIN_ROUNDS			64

/* Weight of the latest match in the moving average */
#define GJ_MATCH_WEIGHT			0.25

/* Longest sleep, in milliseconds, in case a wakeup is lost */
#define GJ_NAP_MS				1000

static int	my_slot = -1;
static uint32 my_epoch;
static bool my_slot_posted;
static bool exit_callback_registered = false;
static double usual_match_us = GJ_SPIN_MIN_US;
static char last_error[320];

static bool begin(GjExchange *x, const gjp_request *request, GjServiceResult *result);
static void post(GjExchange *x, const gjp_request *request);
static GjServiceResult converse(GjExchange *x);
static bool send_part(GjExchange *x);
static bool receive_part(GjExchange *x);
static bool has_news(const GjExchange *x);
static bool may_spin(uint32 nspinning);
static double us_since(instr_time start);
static bool spin(const GjExchange *x, instr_time start);
static void wait_for_news(GjExchange *x);
static GjServiceResult conclude(const GjExchange *x);
static void leave_my_slot(void);
static void leave_at_exit(int code, Datum arg);

/*
 * Get the reason for this process' last failure.
 */
const char *
GjServiceLastError(void)
{
	return last_error;
}

/*
 * Run a request from acquiring its slot to releasing it, and count the outcome.
 */
GjServiceResult
GjExchangeRun(GjExchange *x, const gjp_request *request)
{
	static const GjServiceCounter counters[] = {
		[GJ_SERVICE_OK] = GJ_COUNT_OK,
		[GJ_SERVICE_UNAVAILABLE] = GJ_COUNT_UNAVAILABLE,
		[GJ_SERVICE_BUSY] = GJ_COUNT_BUSY,
		[GJ_SERVICE_GONE] = GJ_COUNT_GONE,
		[GJ_SERVICE_NO_MEMORY] = GJ_COUNT_NO_MEMORY,
		[GJ_SERVICE_FAILED] = GJ_COUNT_FAILED
	};
	GjServiceResult result;

	last_error[0] = '\0';
	if (gj_service == NULL)
		return GjServiceFail(GJ_SERVICE_UNAVAILABLE, GjReasonGet(GJ_REASON_NOT_PRELOADED)->text);

	GjServiceCount(GJ_COUNT_REQUESTS, 1);
	if (begin(x, request, &result))
	{
		PG_TRY();
		{
			/* Send the first part with the request, so that a small request is a single message. */
			if (!x->fed)
				send_part(x);
			my_slot_posted = true;
			post(x, request);
			result = converse(x);
			leave_my_slot();
		}
		PG_CATCH();
		{
			GjServiceCount(GJ_COUNT_ABANDONED, 1);
			leave_my_slot();
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	GjServiceCount(counters[result], 1);
	return result;
}

/* Get a slot; returns false and sets *result if none is available or the request cannot succeed */
static bool
begin(GjExchange *x, const gjp_request *request, GjServiceResult *result)
{
	const char *why_not = "";

	if (!exit_callback_registered)
	{
		before_shmem_exit(leave_at_exit, (Datum) 0);
		exit_callback_registered = true;
	}
	if (my_slot >= 0)
		*result = GjServiceFail(GJ_SERVICE_BUSY, "a request of this process is under way");
	else if (!GjServiceReady(&why_not))
		*result = GjServiceFail(GJ_SERVICE_UNAVAILABLE, why_not);
	else if (request->epoch != 0 && request->epoch != GjServiceEpoch())
		*result = GjServiceFail(GJ_SERVICE_GONE, "the device process was restarted");
	else if ((x->slot = GjSlotAcquire(&x->generation, &x->epoch, result)) < 0)
		GjServiceFail(*result, *result == GJ_SERVICE_BUSY ?
					  "all request slots of the device are taken" :
					  "the device process has just ended");
	else if (request->epoch != 0 && request->epoch != x->epoch)
	{
		/* The helper was restarted while we waited for a slot and does not know the column. */
		GjSlotRelease(x->slot);
		*result = GjServiceFail(GJ_SERVICE_GONE, "the device process was restarted");
	}
	else
	{
		my_slot = x->slot;
		my_epoch = x->epoch;
		my_slot_posted = false;
		x->message = GjMessage(x->slot);
		x->chunk = GjChunk(x->slot);
		x->half_bytes = gjp_half_bytes(gj_arena.chunk_bytes);
		return true;
	}
	return false;
}

/* Post the request to the helper */
static void
post(GjExchange *x, const gjp_request *request)
{
	gjp_message *message = x->message;

	message->request = *request;
	if (request->epoch == 0)
		message->request.epoch = x->epoch;
	message->sleeping = 0;
	gjp_write_word(&message->consumed, x->generation, 0);
	__atomic_store_n(&message->posted, x->generation, __ATOMIC_RELEASE);
	GjDoorbellRing(x->slot);
}

/* Send and receive until the request is final or the helper has been given up */
static GjServiceResult
converse(GjExchange *x)
{
	for (;;)
	{
		uint32		state;

		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&gj_service->epoch) != x->epoch)
			return GjServiceFail(GJ_SERVICE_FAILED, "the device process ended");

		/* Read the state first: once it is final, all parts of the answer are there. */
		state = gjp_read_word(&x->message->state, x->generation);
		if (receive_part(x))
		{
			if (x->done)
				return conclude(x);
			continue;
		}
		if (x->broken)
			return GjServiceFail(GJ_SERVICE_FAILED, "invalid answer of the device process");
		if (state > GJP_RUNNING)
		{
			memcpy(&x->result, &x->message->result, sizeof(x->result));
			gjp_copied();
			x->result.text[sizeof(x->result.text) - 1] = '\0';
			x->done = (state == GJP_DONE);
			return conclude(x);
		}
		if (send_part(x))
			continue;
		wait_for_news(x);
	}
}

/* Fill and send a part if there is more to send and room for it */
static bool
send_part(GjExchange *x)
{
	gjp_message *message = x->message;
	int			half = x->produced % GJP_HALVES;
	gjp_part	part = {0, 0};

	if (x->fed ||
		x->produced - gjp_read_word(&message->taken, x->generation) >= GJP_HALVES)
		return false;
	x->feed(x, x->chunk + half * x->half_bytes, &part);
	message->in[half] = part;
	x->fed = (part.last != 0);
	x->produced++;
	gjp_write_word(&message->produced, x->generation, x->produced);
	if (x->produced > 1)
		GjDoorbellRing(-1);
	return true;
}

/*
 * Take the next part, if there is one, and hand its half of the chunk back
 *
 * A part that we did not ask for is an invalid answer.  If we ignored it, has_news() would report
 * it forever and we would never consume it.  The same is true of a count that exceeds the number
 * of halves: trusting it would make us take the same two halves again, up to four billion times.
 */
static bool
receive_part(GjExchange *x)
{
	gjp_message *message = x->message;
	int			half = x->consumed % GJP_HALVES;
	uint32		filled = gjp_read_word(&message->filled, x->generation);
	uint32		items;

	if (filled <= x->consumed)
		return false;
	items = *(volatile uint32 *) &message->out[half];
	if (x->broken || x->take == NULL || filled - x->consumed > GJP_HALVES ||
		!x->take(x, x->chunk + half * x->half_bytes, items))
	{
		x->broken = true;
		return false;
	}
	x->consumed++;
	gjp_write_word(&message->consumed, x->generation, x->consumed);
	GjDoorbellRing(-1);
	return true;
}

/* Return true if there is something to take or to send, or the request has ended */
static bool
has_news(const GjExchange *x)
{
	const gjp_message *message = x->message;

	return gjp_read_word(&message->filled, x->generation) > x->consumed ||
		gjp_read_word(&message->state, x->generation) > GJP_RUNNING ||
		(!x->fed &&
		 x->produced - gjp_read_word(&message->taken, x->generation) < GJP_HALVES) ||
		pg_atomic_read_u32(&gj_service->epoch) != x->epoch;
}

/*
 * Return true if one more process may spin.  The helper needs a processor, as do processes with
 * work.
 */
static bool
may_spin(uint32 nspinning)
{
	static long ncpus = 0;

	if (ncpus == 0)
		ncpus = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);
	return nspinning < Max(ncpus / 2, 1) && ncpus > 1;
}

static double
us_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now) * 1e6;
}

/* Spin until there is news; returns false if that takes too long */
static bool
spin(const GjExchange *x, instr_time start)
{
	double		limit = Max(usual_match_us * 2, GJ_SPIN_MIN_US);
	bool		news = false;

	if (limit > GJ_SPIN_MAX_US)
		limit = GJ_SPIN_MIN_US;
	if (x->consumed > 0)
		limit = GJ_SPIN_PART_US;
	if (may_spin(pg_atomic_fetch_add_u32(&gj_service->nspinning, 1)))
	{
		do
		{
			for (int i = 0; i < GJ_SPIN_ROUNDS && !news; i++)
			{
				SPIN_DELAY();
				news = has_news(x);
			}
		} while (!news && !InterruptPending && us_since(start) < limit);
	}
	pg_atomic_fetch_sub_u32(&gj_service->nspinning, 1);
	return news;
}

/* Wait, spinning first; may return without news */
static void
wait_for_news(GjExchange *x)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	if (!spin(x, start))
	{
		__atomic_store_n(&x->message->sleeping, 1, __ATOMIC_SEQ_CST);
		if (!has_news(x))
		{
			WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, GJ_NAP_MS,
					  GjWaitEventDevice());
			ResetLatch(MyLatch);
		}
		__atomic_store_n(&x->message->sleeping, 0, __ATOMIC_SEQ_CST);
	}
}

/* Convert the result of a final request to a GjServiceResult */
static GjServiceResult
conclude(const GjExchange *x)
{
	GjServiceCount(GJ_COUNT_BYTES_SENT, x->nsent * (x->keys ? sizeof(int64) : x->image_bytes));
	GjServiceCount(GJ_COUNT_BYTES_RECEIVED, x->nreceived * x->item_bytes);
	if (x->done && x->keys != NULL)
		usual_match_us += ((x->result.set_ns + x->result.kernel_ns) / 1e3 - usual_match_us) *
			GJ_MATCH_WEIGHT;
	if (x->done && x->item_bytes != 0 && x->nreceived != x->result.count)
		return GjServiceFail(GJ_SERVICE_FAILED, "incomplete answer of the device process");
	if (x->done && x->fill != NULL && x->nsent != x->result.count)
		return GjServiceFail(GJ_SERVICE_FAILED, "the device process took fewer pages than it got");
	if (x->done)
		return GJ_SERVICE_OK;
	switch (x->result.status)
	{
		case GJP_GONE:
			return GjServiceFail(GJ_SERVICE_GONE, x->result.text);
		case GJD_NO_MEMORY:
		case GJD_NO_HOST_MEMORY:
			return GjServiceFail(GJ_SERVICE_NO_MEMORY, x->result.text);
	}
	return GjServiceFail(GJ_SERVICE_FAILED, x->result.text);
}

/*
 * Save the text, which may come from the helper, for GjServiceLastError().
 */
GjServiceResult
GjServiceFail(GjServiceResult result, const char *text)
{
	strlcpy(last_error, text, sizeof(last_error));
	for (char *c = last_error; *c != '\0'; c++)
	{
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
	return result;
}

/*
 * Leave the slot of this process, if it has one, in any state: it becomes free now, or when the
 * helper is done with it.
 */
static void
leave_my_slot(void)
{
	int			slot = my_slot;

	if (slot < 0)
		return;
	my_slot = -1;
	if (my_slot_posted)
		GjSlotAbandon(slot, my_epoch);
	else
		GjSlotRelease(slot);
}

/* before_shmem_exit callback, because FATAL errors do not reach PG_CATCH */
static void
leave_at_exit(int code, Datum arg)
{
	if (my_slot >= 0)
		GjServiceCount(GJ_COUNT_ABANDONED, 1);
	leave_my_slot();
}
