/*-------------------------------------------------------------------------
 *
 * reason.c
 *	  Reasons why no device is available: texts, hints, and whether retrying can help.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <glob.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "miscadmin.h"

#include "base/settings.h"
#include "shared.h"

static const GjReasonInfo reasons[GJ_REASON_COUNT] = {
	[GJ_REASON_NONE] = {"", NULL, GJ_PASSES},
	[GJ_REASON_NOT_PRELOADED] = {
		"gpujoin is not in shared_preload_libraries",
		"Add it there, and restart the server.", GJ_LASTS
	},
	[GJ_REASON_DEVICE_NONE] = {
		"gpujoin.device is none", NULL, GJ_LASTS
	},
	[GJ_REASON_NOT_BUILT] = {
		"no device library for GPUs is installed",
		"To run without a GPU, nothing is needed.  To use one, install gpujoin's package for CUDA, "
		"or build gpujoin where nvcc (CUDA 12 or 13) is found, and reload the configuration.",
		GJ_IS_NO_FAULT
	},
	[GJ_REASON_NO_GPU] = {
		"there is no GPU",
		"To run without a GPU, nothing is needed.  One that is added later, with its driver, is "
		"found when the configuration is reloaded.", GJ_IS_NO_FAULT
	},
	[GJ_REASON_NO_SUPERVISOR] = {
		"the supervisor of the device process is not running",
		"Check that max_worker_processes leaves room for it.", GJ_PASSES
	},
	[GJ_REASON_STARTING] = {
		"the device process is starting", NULL, GJ_PASSES
	},
	[GJ_REASON_NO_ARENA] = {
		"no memory could be shared with the device process",
		"Lower gpujoin.result_buffer, or raise the limits for memory and open files of the "
		"server's user; then restart the server.", GJ_LASTS
	},
	[GJ_REASON_NO_PROGRAM] = {
		"the device process could not be started",
		"The program gpujoin_helper must be in the folder of gpujoin.so, and executable by the "
		"server's user.",
		GJ_LASTS
	},
	[GJ_REASON_NO_LIBRARY] = {
		"the device library could not be loaded",
		"Install the library that gpujoin.device asks for in the folder of gpujoin.so, then reload "
		"the configuration.  The one for \"reference\" is part of gpujoin's tests: "
		"\"make install-reference\" installs it.", GJ_LASTS
	},
	[GJ_REASON_VERSION] = {
		"the device process and gpujoin.so are of different versions",
		"Install all files of gpujoin anew and restart the server.", GJ_LASTS
	},
	[GJ_REASON_NO_DRIVER] = {
		"no usable GPU driver",
		"Install the GPU's driver, or set gpujoin.device to none.  It is looked for again when "
		"the configuration is reloaded.", GJ_LASTS_UNLESS_SEEN
	},
	[GJ_REASON_NO_DEVICE] = {
		"no such GPU",
		"Compare gpujoin.gpu with the GPUs that nvidia-smi -L lists for the server's user.  It is "
		"looked for again when the configuration is reloaded.", GJ_LASTS_UNLESS_SEEN
	},
	[GJ_REASON_NO_PERMISSION] = {
		"no permission to use the GPU",
		"Give the server's user read and write access to /dev/nvidiactl, /dev/nvidia-uvm and the "
		"GPU's /dev/nvidia*, then reload the configuration.",
		GJ_LASTS_UNLESS_SEEN
	},
	[GJ_REASON_IN_USE] = {
		"the GPU is reserved by another process",
		"In the compute mode \"exclusive process\", only one process can use a GPU: end the other, "
		"change the mode (nvidia-smi -c DEFAULT), or choose another GPU with gpujoin.gpu.",
		GJ_PASSES
	},
	[GJ_REASON_NO_MEMORY] = {
		"the GPU has not enough free memory",
		"Lower gpujoin.device_memory, or free memory of the GPU: nvidia-smi lists who uses it.",
		GJ_PASSES
	},
	[GJ_REASON_NO_HOST_MEMORY] = {
		"the device process ran out of memory",
		"Lower gpujoin.result_buffer, or raise the limits for memory and locked memory (ulimit -l) "
		"of the server's user.", GJ_PASSES
	},
	[GJ_REASON_UNSUPPORTED] = {
		"the GPU or the system cannot do what gpujoin needs",
		"Choose another GPU with gpujoin.gpu (compute capability 8.0 or newer), update its "
		"driver, or set gpujoin.device to none.", GJ_LASTS
	},
	[GJ_REASON_INVALID] = {
		"the device library refused its settings",
		"Check gpujoin.gpu and gpujoin.device_memory.", GJ_LASTS
	},
	[GJ_REASON_LOST] = {
		"the GPU was lost", "The system's log may have a message from the driver.", GJ_PASSES
	},
	[GJ_REASON_HUNG] = {
		"the GPU made no progress",
		"If the GPU was only slow, raise gpujoin.device_timeout.", GJ_PASSES
	},
	[GJ_REASON_FROZEN] = {
		"the device process did not respond",
		"If it was only slow, raise gpujoin.device_timeout.", GJ_PASSES
	},
	[GJ_REASON_CRASHED] = {
		"the device process crashed",
		"It is restarted automatically.  Unless somebody has killed it, the system's log may have "
		"a message from the driver.", GJ_PASSES
	},
	[GJ_REASON_EXITED] = {
		"the device process exited",
		"It is restarted automatically.  What it printed before is in this log.", GJ_PASSES
	},
	[GJ_REASON_INTERNAL] = {
		"the device library failed",
		"It is restarted automatically.  If that does not help, set gpujoin.device to none.",
		GJ_PASSES
	}
};

static GjServiceReason reason_of_status(int wait_status);
static bool gpu_is_optional(void);
static bool card_is_seen(void);
static void clean_text(char *text, Size size);
static int	say_without(const GjService *service, const GjReasonInfo *info);
static const char *describe_end(const GjService *service, int wait_status, const char *detail);

static const char *const calls[GJP_CALL_COUNT] = {
	[GJP_CALL_NONE] = NULL,
	[GJP_CALL_LOAD] = "dlopen",
	[GJP_CALL_OPEN] = "device_open",
	[GJP_CALL_REGISTER] = "host_register",
	[GJP_CALL_INFO] = "device_info",
	[GJP_CALL_CREATE] = "column_create",
	[GJP_CALL_DESTROY] = "column_destroy",
	[GJP_CALL_WRITE] = "column_write_pages",
	[GJP_CALL_KEYSET] = "keyset_create",
	[GJP_CALL_BEGIN] = "match_begin",
	[GJP_CALL_POLL] = "match_poll",
	[GJP_CALL_NEXT] = "match_next",
	[GJP_CALL_END] = "match_end",
	[GJP_CALL_FAULT] = "inject_fault",
	[GJP_CALL_BATCH] = "batch_end"
};

/*
 * Get the texts of a reason.
 */
const GjReasonInfo *
GjReasonGet(GjServiceReason reason)
{
	Assert(reason < GJ_REASON_COUNT);
	return &reasons[reason];
}

/*
 * Find the hint for a reason, given its text; returns NULL if there is no hint.
 */
const char *
GjServiceHint(const char *text)
{
	for (int i = 0; i < GJ_REASON_COUNT; i++)
	{
		if (strcmp(reasons[i].text, text) == 0)
			return reasons[i].hint;
	}
	return NULL;
}

/*
 * Return true if users expect a device to answer: the settings ask for one, or the machine has a
 * card that gpujoin may use, even if its driver, its library or preloading is missing.
 */
bool
GjServiceIsExpected(void)
{
	if (gj_nservices == 0)
		return card_is_seen();
	if (gj_device == GJ_DEVICE_NONE)
		return false;
	return !gpu_is_optional() || card_is_seen();
}

/*
 * Determine from its wait status why the helper ended.  The lack of a GPU is not a fault unless
 * the settings ask for one; a card that is present but unusable is.
 */
GjServiceReason
GjReasonOfExit(int wait_status)
{
	GjServiceReason reason = reason_of_status(wait_status);

	if ((reason == GJ_REASON_NO_DRIVER || reason == GJ_REASON_NO_DEVICE) &&
		gpu_is_optional() && !card_is_seen())
		return GJ_REASON_NO_GPU;
	return reason;
}

/*
 * Return true if we need not even look for a GPU, because the library for it was not built.
 */
bool
GjReasonIsNotBuilt(const char *library)
{
	char		path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/%s", pkglib_path, library);
	return gpu_is_optional() && access(path, F_OK) != 0 && errno == ENOENT;
}

/*
 * Return true if the settings do not ask for a GPU and none has been seen since the server
 * started
 */
static bool
gpu_is_optional(void)
{
	for (int i = 0; i < gj_nservices; i++)
	{
		if (gj_services[i].shared->had_device)
			return false;
	}
	return gj_device == GJ_DEVICE_AUTO && (gj_gpu[0] == '\0' || GjWantsAllGpus());
}

/* Return true if the machine has a card, even if its driver does not work */
static bool
card_is_seen(void)
{
	return GjCountCards() > 0;
}

/*
 * Count the machine's cards, without starting their driver
 */
int
GjCountCards(void)
{
	glob_t		files = {0};
	int			n = 0;

	if (glob("/dev/nvidia[0-9]*", GLOB_NOSORT, NULL, &files) == 0)
		n = files.gl_pathc;
	globfree(&files);
	return n;
}

static GjServiceReason
reason_of_status(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return GJ_REASON_CRASHED;
	switch (WEXITSTATUS(wait_status))
	{
		case GJD_INVALID:
			return GJ_REASON_INVALID;
		case GJD_NO_MEMORY:
			return GJ_REASON_NO_MEMORY;
		case GJD_NO_HOST_MEMORY:
			return GJ_REASON_NO_HOST_MEMORY;
		case GJD_NO_DRIVER:
			return GJ_REASON_NO_DRIVER;
		case GJD_NO_DEVICE:
			return GJ_REASON_NO_DEVICE;
		case GJD_NO_PERMISSION:
			return GJ_REASON_NO_PERMISSION;
		case GJD_DEVICE_IN_USE:
			return GJ_REASON_IN_USE;
		case GJD_UNSUPPORTED:
			return GJ_REASON_UNSUPPORTED;
		case GJD_DEVICE_LOST:
			return GJ_REASON_LOST;
		case GJD_INTERNAL:
			return GJ_REASON_INTERNAL;
		case GJP_EXIT_USAGE:
			return GJ_REASON_VERSION;
		case GJP_EXIT_LIBRARY:
			return GJ_REASON_NO_LIBRARY;
		case GJP_EXIT_HUNG:
			return GJ_REASON_HUNG;
		case GJP_EXIT_EXEC:
			return GJ_REASON_NO_PROGRAM;
	}
	return GJ_REASON_EXITED;
}

/*
 * Copy the helper's report and make its texts printable: they may lack a terminator or contain
 * any bytes.
 */
void
GjReportCopy(const GjService *service, gjp_report *report)
{
	memcpy(report, &GjControl(service)->report, sizeof(*report));
	gjp_copied();
	clean_text(report->device, sizeof(report->device));
	clean_text(report->uuid, sizeof(report->uuid));
	clean_text(report->failure, sizeof(report->failure));
	clean_text(report->register_failure, sizeof(report->register_failure));
}

static void
clean_text(char *text, Size size)
{
	text[size - 1] = '\0';
	for (; *text != '\0'; text++)
	{
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}

/*
 * Log that the helper has ended, and why; at a lower level if the same was logged before.
 */
void
GjReasonReportEnd(const GjService *service, GjServiceReason reason, int wait_status,
				  const char *detail, bool repeated)
{
	const GjReasonInfo *info = GjReasonGet(reason);

	ereport(repeated ? DEBUG1 : LOG,
			(say_without(service, info),
			 errdetail_internal("%s", describe_end(service, wait_status, detail)),
			 info->hint ? errhint("%s", info->hint) : 0));
}

/*
 * Log that no helper is started, because it would have nothing to do; at a lower level if the same
 * was logged before.
 */
void
GjReasonReportNone(const GjService *service, GjServiceReason reason, bool repeated)
{
	const GjReasonInfo *info = GjReasonGet(reason);

	ereport(repeated ? DEBUG1 : LOG,
			(say_without(service, info),
			 errhint("%s", info->hint)));
}

static int
say_without(const GjService *service, const GjReasonInfo *info)
{
	if (gj_nservices == 1)
		return errmsg("gpujoin works without a device: %s", info->text);
	return errmsg("gpujoin works without device %d: %s", service->device, info->text);
}

/*
 * Describe how the helper ended; the text is valid until the next call. detail is the checked
 * text from the helper's report, or empty.
 */
static const char *
describe_end(const GjService *service, int wait_status, const char *detail)
{
	static char text[400];
	int			code = GjControl(service)->report.failure_code;
	uint32		call = GjControl(service)->call;
	const char *call_name = (call < GJP_CALL_COUNT) ? calls[call] : NULL;
	const char *within = call_name ? " in a call of " : "";

	if (call_name == NULL)
		call_name = "";
	if (detail[0] != '\0' && code != 0)
		snprintf(text, sizeof(text), "The device library said: %s (error %d).", detail, code);
	else if (detail[0] != '\0')
		snprintf(text, sizeof(text), "The device library said: %s.", detail);
	else if (WIFSIGNALED(wait_status))
		snprintf(text, sizeof(text), "The process was ended by signal %d%s%s.",
				 WTERMSIG(wait_status), within, call_name);
	else
		snprintf(text, sizeof(text), "The process exited with code %d%s%s.",
				 WEXITSTATUS(wait_status), within, call_name);
	return text;
}
