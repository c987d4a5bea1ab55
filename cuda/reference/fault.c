/*
 * fault.c
 *	  Errors, and faults while the reference library starts, for tests: inject_fault() needs an
 *	  open device.
 *
 * The environment variable GPUJOIN_REFERENCE_FAULTS names a file, which is read at each of these
 * points, so that a test can change it while the server runs. Each line has the point ("open" or
 * "register", or "open1" for device 1 only), a status as below, and the code of the error.
 */
#include "reference.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct
{
	const char *name;
	gjd_status status;
} statuses[] = {
	{"no_memory", GJD_NO_MEMORY},
	{"no_host_memory", GJD_NO_HOST_MEMORY},
	{"no_driver", GJD_NO_DRIVER},
	{"no_device", GJD_NO_DEVICE},
	{"no_permission", GJD_NO_PERMISSION},
	{"in_use", GJD_DEVICE_IN_USE},
	{"unsupported", GJD_UNSUPPORTED},
};

gjd_status
fail(gjd_error *error, gjd_status status, int code, const char *format, ...)
{
	if (error)
	{
		va_list args;

		error->status = status;
		error->device_code = code;
		va_start(args, format);
		vsnprintf(error->message, sizeof(error->message), format, args);
		va_end(args);
	}
	return status;
}

gjd_status
planned_failure(const char *point, uint32_t device, gjd_error *error)
{
	const char *path = getenv("GPUJOIN_REFERENCE_FAULTS");
	FILE *file = path ? fopen(path, "r") : NULL;
	gjd_status status = GJD_OK;
	char where[32], what[32], point_of_device[32];
	int code;

	snprintf(point_of_device, sizeof(point_of_device), "%s%u", point, device);

	if (file == NULL)
		return GJD_OK;
	while (status == GJD_OK && fscanf(file, "%31s %31s %d", where, what, &code) == 3)
		for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
			if ((strcmp(where, point) == 0 || strcmp(where, point_of_device) == 0) &&
				strcmp(what, statuses[i].name) == 0)
				status = fail(error, statuses[i].status, code, "injected: %s", what);
	fclose(file);
	return status;
}
