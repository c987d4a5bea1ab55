/*
 * reference.c
 *	  The device interface in plain C: oracle of the device tests, stand-in on machines
 *	  without a GPU, and the only library in which faults can be injected.
 *
 * It is written to be obviously correct, not fast: keys are found by binary search, and matches
 * are computed in match_begin(), which is why a match sees exactly the pages accepted before it.
 * It imitates the timing of a real device only enough to expose callers that forget to poll: all
 * started work is GJD_PENDING for at least one poll, longer under GJD_FAULT_DELAY.
 */
#define _POSIX_C_SOURCE 200809L

#include "reference.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- time, faults, memory ---------------------------------------------------------- */

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
sleep_ms(uint32_t millis)
{
	struct timespec t = {millis / 1000, (long) (millis % 1000) * 1000000};

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

due
due_in(uint32_t millis)
{
	due d = {now_ms() + millis, false};

	return d;
}

bool
is_due(due *d)
{
	bool over = d->asked && now_ms() >= d->at;

	d->asked = true;
	return over;
}

/*
 * Executes the fault armed at a point, if its turn has come; *delay is the time it adds to the
 * work.
 */
gjd_status
play_fault(gjd_device *device, gjd_fault_point point, uint32_t *delay, gjd_error *error)
{
	gjd_fault *fault = &device->faults[point];

	*delay = 0;
	if (device->lost)
		return fail(error, GJD_DEVICE_LOST, 0, "device was lost");
	if (fault->kind == GJD_FAULT_NONE)
		return GJD_OK;
	if (fault->skip > 0)
	{
		fault->skip--;
		return GJD_OK;
	}

	gjd_fault_kind kind = fault->kind;

	if (fault->times > 0 && --fault->times == 0)
		fault->kind = GJD_FAULT_NONE;
	switch (kind)
	{
		case GJD_FAULT_NO_MEMORY:
			return fail(error, GJD_NO_MEMORY, 0, "injected: out of device memory");
		case GJD_FAULT_LOST:
			device->lost = true;
			return fail(error, GJD_DEVICE_LOST, 0, "injected: device lost");
		case GJD_FAULT_DELAY:
			*delay = fault->millis;
			break;
		case GJD_FAULT_BLOCK:
			sleep_ms(fault->millis);
			break;
		case GJD_FAULT_HANG:
			for (;;)
				sleep_ms(1000);
		case GJD_FAULT_CRASH:
			signal(SIGSEGV, SIG_DFL);
			raise(SIGSEGV);
			break;
		case GJD_FAULT_ABORT:
			abort();
		case GJD_FAULT_EXIT:
			_exit(3);
		default:
			break;
	}
	return GJD_OK;
}

/*
 * Charges scratch memory, so that it runs out as on the real device. The request that needs it
 * holds "own" bytes already, which are not freed before it ends.
 */
gjd_status
charge(gjd_device *device, uint64_t bytes, uint64_t own, gjd_error *error)
{
	uint64_t used = device->columns_used + device->kept + own;
	uint64_t most = device->budget - used;

	if (bytes > most)
		return fail(error, GJD_NO_MEMORY, 0, "out of device memory");
	if (bytes > device->budget - device->columns_used - device->scratch_used)
		return fail(error, GJD_BUSY, 0, "no scratch memory at present");
	device->scratch_used += bytes;
	return GJD_OK;
}

/* ---- batches ------------------------------------------------------------------------------- */

/* Number of matches after which a batch is started though it is open */
#define MOST_BATCHED 16

/*
 * Starts what an open batch has postponed; what begins later is the next batch. Results have been
 * computed already, and are only held back.
 */
void
start_batch(gjd_device *device)
{
	if (device->batch_matches > 1)
	{
		device->batched.batches++;
		device->batched.matches += device->batch_matches;
	}
	device->batch_matches = 0;
	device->batch++;
}

/* Returns true if the match belongs to a batch that has not been started. */
bool
is_held(const gjd_match *match)
{
	const gjd_device *device = match->column->device;

	return device->batching && match->batch == device->batch;
}

static void
join_batch(gjd_match *match)
{
	gjd_device *device = match->column->device;

	if (!device->batching)
		return;
	match->batch = device->batch;
	if (++device->batch_matches >= MOST_BATCHED)
		start_batch(device);
}

static gjd_status
begin_match(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *params,
			gjd_match **match, gjd_error *error)
{
	gjd_status status = match_begin(column, keyset, params, match, error);

	if (status == GJD_OK)
		join_batch(*match);
	return status;
}

static gjd_status
batch_begin(gjd_device *device, gjd_error *error)
{
	if (device == NULL || device->batching)
		return fail(error, GJD_INVALID, 0, "no device, or a batch is open");
	if (device->lost)
		return fail(error, GJD_DEVICE_LOST, 0, "device was lost");
	device->batching = true;
	device->batch++;
	return GJD_OK;
}

static gjd_status
batch_end(gjd_device *device, gjd_batch_info *info, gjd_error *error)
{
	if (device == NULL || !device->batching)
		return fail(error, GJD_INVALID, 0, "no batch is open");
	device->batching = false;
	start_batch(device);
	if (device->lost)
		return fail(error, GJD_DEVICE_LOST, 0, "device was lost");
	if (info != NULL)
		*info = device->batched;
	return GJD_OK;
}

/* ---- device -------------------------------------------------------------------------------- */

/* Number of devices: a process may open any of them, and they share nothing. */
#define MOST_DEVICES 4

/* Returns a number that is too large if there is no such device. */
static uint32_t
device_number(const char *name)
{
	if (name == NULL || name[0] == '\0' || strcmp(name, "reference") == 0)
		return 0;
	if (name[0] >= '0' && name[0] <= '9' && name[1] == '\0')
		return (uint32_t) (name[0] - '0');
	return MOST_DEVICES;
}

static gjd_status
device_open(const gjd_open_params *params, gjd_device **out, gjd_error *error)
{
	if (params == NULL || out == NULL || params->struct_size < sizeof(*params))
		return fail(error, GJD_INVALID, 0, "invalid open parameters");
	uint32_t number = device_number(params->device);

	if (number >= MOST_DEVICES)
		return fail(error, GJD_NO_DEVICE, 0, "device \"%s\" does not exist", params->device);

	gjd_status status = planned_failure("open", number, error);

	if (status != GJD_OK)
		return status;

	gjd_device *device = calloc(1, sizeof(*device));

	if (device == NULL)
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	device->number = number;
	device->budget = params->memory_budget ? params->memory_budget : (uint64_t) 1 << 30;
	device->budget = device->budget / GJD_EXTENT_BYTES * GJD_EXTENT_BYTES;
	device->columns_limit = layout_columns_limit(device->budget, params->scratch_reserve);
	device->kept = device->scratch_used = ALL_STAGING_BYTES;
	if (device->budget < device->kept + GJD_EXTENT_BYTES)
	{
		free(device);
		return fail(error, GJD_NO_MEMORY, 0, "memory budget is below 48 MB");
	}
	*out = device;
	return GJD_OK;
}

static gjd_status
device_close(gjd_device *device, gjd_error *error)
{
	if (device == NULL)
		return fail(error, GJD_INVALID, 0, "no device");
	if (device->columns || device->keysets || device->matches)
		return fail(error, GJD_BUSY, 0, "device has living objects");
	free(device);
	return GJD_OK;
}

static gjd_status
device_info(gjd_device *device, gjd_device_info *info, gjd_error *error)
{
	if (device == NULL || info == NULL)
		return fail(error, GJD_INVALID, 0, "no device");
	memset(info, 0, sizeof(*info));
	strcpy(info->name, "reference");
	if (device->number == 0)
		strcpy(info->uuid, "reference");
	else
		snprintf(info->uuid, sizeof(info->uuid), "reference-%u", device->number);
	info->multiprocessors = 1;
	info->memory_total = device->budget;
	info->memory_free = device->budget - device->columns_used - device->scratch_used;
	return GJD_OK;
}

static gjd_status
memory_info(gjd_device *device, gjd_memory_info *info, gjd_error *error)
{
	if (device == NULL || info == NULL)
		return fail(error, GJD_INVALID, 0, "no device");
	*info = (gjd_memory_info){device->budget,	device->columns_limit, device->columns_used,
							  device->scratch_used, device->columns,	   device->keysets,
							  device->matches};
	return GJD_OK;
}

static gjd_status
host_register(gjd_device *device, void *base, uint64_t bytes, gjd_error *error)
{
	uint32_t delay;
	gjd_status status;

	if (device == NULL || base == NULL || bytes == 0)
		return fail(error, GJD_INVALID, 0, "invalid region");
	status = planned_failure("register", device->number, error);
	if (status == GJD_OK)
		status = play_fault(device, GJD_AT_REGISTER, &delay, error);
	if (status != GJD_OK)
		return status;
	for (int i = 0; i < MAX_REGIONS; i++)
		if (device->regions[i] == NULL)
		{
			device->regions[i] = base;
			return GJD_OK;
		}
	return fail(error, GJD_INVALID, 0, "more than %d regions", MAX_REGIONS);
}

static gjd_status
host_unregister(gjd_device *device, void *base, gjd_error *error)
{
	if (device == NULL || base == NULL)
		return fail(error, GJD_INVALID, 0, "invalid region");
	for (int i = 0; i < MAX_REGIONS; i++)
		if (device->regions[i] == base)
		{
			device->regions[i] = NULL;
			return GJD_OK;
		}
	return fail(error, GJD_INVALID, 0, "region is not registered");
}

static gjd_status
inject_fault(gjd_device *device, const gjd_fault *fault, gjd_error *error)
{
	if (device == NULL || fault == NULL || fault->struct_size < sizeof(*fault) ||
		(int) fault->point < 0 || fault->point >= GJD_AT_COUNT)
		return fail(error, GJD_INVALID, 0, "invalid fault");
	device->faults[fault->point] = *fault;
	return GJD_OK;
}

/* ---- the table ----------------------------------------------------------------------------- */

static const gjd_api api = {
	.version = GJD_API_VERSION,
	.struct_size = sizeof(gjd_api),
	.name = "reference",
	.device_open = device_open,
	.device_close = device_close,
	.device_info = device_info,
	.memory_info = memory_info,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.column_create = column_create,
	.column_reserve = column_reserve,
	.column_write_pages = column_write_pages,
	.column_write_poll = column_write_poll,
	.column_info = column_info,
	.column_versions = column_versions,
	.column_destroy = column_destroy,
	.keyset_create = keyset_create,
	.keyset_info = keyset_info,
	.keyset_destroy = keyset_destroy,
	.match_begin = begin_match,
	.match_poll = match_poll,
	.match_next = match_next,
	.match_end = match_end,
	.inject_fault = inject_fault,
	.capabilities = GJD_CAN_TOP | GJD_CAN_REDUCE | GJD_CAN_GROUP_BY_VALUE | GJD_CAN_DISTINCT |
					GJD_CAN_GROUP_BY_COLUMNS | GJD_CAN_WEIGH | GJD_CAN_TELL_SHARED |
					GJD_CAN_PROVE_RESTS | GJD_CAN_BATCH,
	.match_reduced = match_reduced,
	.match_groups = match_groups,
	.batch_begin = batch_begin,
	.batch_end = batch_end,
};

__attribute__((visibility("default"))) const gjd_api *
gjd_get_api(uint32_t version)
{
	return version == GJD_API_VERSION ? &api : NULL;
}
