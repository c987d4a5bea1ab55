/*
 * open.c
 *	  Startup of the helper: the arena, the library, the device.
 *
 * Any failure here ends the process with a reason for the supervisor, except a failure to
 * register the chunks: without that everything works, only slower.
 */
#define _GNU_SOURCE

#include "helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Maps the arena; its layout must be the one that this program was compiled for, and fit the
 * file.
 */
void
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

void
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

/*
 * Exits because the device cannot be opened. To the driver, a card whose device files this user
 * may not open does not exist; here we detect that it exists and name the file that denies
 * access.
 */
static void
die_of_open(void)
{
	bool may_be_hidden = h.error.status == GJD_NO_DEVICE || h.error.status == GJD_NO_DRIVER;
	glob_t files = {0};

	if (may_be_hidden && strcmp(h.api->name, "cuda") == 0 &&
		glob("/dev/nvidia[0-9]*", 0, NULL, &files) == 0)
	{
		glob("/dev/nvidiactl", GLOB_APPEND, NULL, &files);
		glob("/dev/nvidia-uvm", GLOB_APPEND, NULL, &files);
		for (size_t i = 0; i < files.gl_pathc; i++)
			if (access(files.gl_pathv[i], R_OK | W_OK) != 0 && errno == EACCES)
				die(GJD_NO_PERMISSION, EACCES, "%s: %s", files.gl_pathv[i], strerror(EACCES));
	}
	die(h.error.status, h.error.device_code, "%s", h.error.message);
}

void
open_device(const char *name, uint64_t budget)
{
	gjp_report *report = &h.control->report;
	gjd_open_params params = {.struct_size = sizeof(params)};
	gjd_device_info info = {0};

	params.device = name;
	params.memory_budget = budget;
	if (CALL(OPEN, h.api->device_open(&params, &h.device, &h.error)) != GJD_OK)
		die_of_open();
	if (CALL(INFO, h.api->device_info(h.device, &info, &h.error)) != GJD_OK)
		die(h.error.status, h.error.device_code, "%s", h.error.message);
	memcpy(report->device, info.name, sizeof(report->device));
	memcpy(report->uuid, info.uuid, sizeof(report->uuid));
	report->compute_major = info.compute_major;
	report->compute_minor = info.compute_minor;
	report->driver_version = info.driver_version;
	report->runtime_version = info.runtime_version;
	report->memory_total = info.memory_total;
	report->memory_free = info.memory_free;
	report->capabilities = h.api->capabilities;
	report_memory();
}

/*
 * Without registration everything works, but each copy waits for the card; so use small parts
 * then.
 */
void
register_chunks(void)
{
	gjp_report *report = &h.control->report;
	uint64_t bytes = h.layout.chunk_bytes * h.layout.slots;
	uint64_t part_bytes = h.half_bytes;
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	gjd_status status = CALL(
		REGISTER, h.api->host_register(h.device, h.arena + h.layout.chunks_at, bytes, &h.error));

	getrlimit(RLIMIT_MEMLOCK, &limit);
	report->locked_limit = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	report->direct_copies = status == GJD_OK;
	if (status != GJD_OK)
	{
		report->register_status = status;
		report->register_code = h.error.device_code;
		memcpy(report->register_failure, h.error.message, sizeof(report->register_failure));
		if (part_bytes > STAGED_PART_BYTES)
			part_bytes = STAGED_PART_BYTES;
	}
	h.part_bytes = part_bytes;
}
