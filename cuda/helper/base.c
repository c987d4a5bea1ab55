/*
 * base.c
 *	  Foundations of the helper: its state, the clock, the current library call, and exiting.
 */
#define _GNU_SOURCE

#include "helper.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

helper h;

int64_t
clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t
timeout_ns(void)
{
	return (int64_t) __atomic_load_n(&h.control->timeout_ms, __ATOMIC_RELAXED) * NS_PER_MS;
}

/* No other process writes the heartbeat, so it is not added to atomically, which takes longer. */
void
beat(void)
{
	uint64_t *heartbeat = &h.control->heartbeat;

	__atomic_store_n(heartbeat, *heartbeat + 1, __ATOMIC_RELEASE);
}

void
call_begins(gjp_call call)
{
	__atomic_store_n(&h.control->call, (uint32_t) call, __ATOMIC_RELEASE);
	beat();
}

/* A lost device cannot be recovered by this process, no matter which call finds out first. */
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

/*
 * Writes the reason to the report and exits. The driver's exit handlers could hang, so they are
 * skipped.
 */
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

/* Reports the figures that change. */
void
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

/*
 * Reports the free memory of the card, which other processes change as well. This asks the
 * driver, and so takes longer than reporting our own figures.
 */
void
report_card(void)
{
	gjd_device_info info = {0};

	if (CALL(INFO, h.api->device_info(h.device, &info, &h.error)) == GJD_OK)
		h.control->report.memory_free = info.memory_free;
}
