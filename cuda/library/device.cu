/*
 * device.cu
 *	  Opening and closing a device, its memory and events, and the conversion of errors.
 */
#include "library.cuh"

#include <signal.h>
#include <pthread.h>
#include <cstdio>
#include <cstdlib>
#include <string>


namespace gjd
{

/* ---- errors -------------------------------------------------------------------------------- */

gjd_status
status_of(cudaError_t code)
{
	switch (code)
	{
		case cudaSuccess:
			return GJD_OK;
		case cudaErrorMemoryAllocation:
			return GJD_NO_MEMORY;
		case cudaErrorInsufficientDriver:
		case cudaErrorStubLibrary:
		case cudaErrorSystemDriverMismatch:
			return GJD_NO_DRIVER;
		case cudaErrorNoDevice:
		case cudaErrorInvalidDevice:
			return GJD_NO_DEVICE;
		case cudaErrorDevicesUnavailable:
			return GJD_DEVICE_IN_USE;
		case cudaErrorOperatingSystem:
		case cudaErrorNotPermitted:
			return GJD_NO_PERMISSION;
		case cudaErrorNotSupported:
		case cudaErrorHostMemoryAlreadyRegistered:
		case cudaErrorNoKernelImageForDevice:
		case cudaErrorUnsupportedPtxVersion:
			return GJD_UNSUPPORTED;
		case cudaErrorInvalidValue:
		case cudaErrorInvalidConfiguration:
		case cudaErrorLaunchOutOfResources:
			return GJD_INTERNAL;
		default:
			/*
			 * Illegal addresses, ECC errors, a card off the bus: all are sticky. So are unknown
			 * errors.
			 */
			return GJD_DEVICE_LOST;
	}
}

void
throw_cuda(cudaError_t code, const char *what)
{
	(void) cudaGetLastError();
	throw failure{status_of(code), (int) code, what, cudaGetErrorString(code)};
}

gjd_status
report_failure(const failure &f, gjd_error *error)
{
	if (error != nullptr)
	{
		error->status = f.status;
		error->device_code = f.code;
		snprintf(error->message, sizeof(error->message), "%s%s%s", f.what,
				 f.detail ? ": " : "", f.detail ? f.detail : "");
	}
	return f.status;
}

/*
 * Makes a device current for the thread, unless it is already: each entry calls this, and no
 * other code sets one.
 */
static void
select_device(int ordinal, const char *what)
{
	static thread_local int selected = -1;

	if (selected == ordinal)
		return;
	check(cudaSetDevice(ordinal), what);
	selected = ordinal;
}

void
use(gjd_device *device)
{
	if (device->lost)
		throw_status(GJD_DEVICE_LOST, "device was lost");
	select_device(device->ordinal, "could not select the device");
}

/* ---- memory and events --------------------------------------------------------------------- */

cudaEvent_t
take_event(gjd_device *device)
{
	cudaEvent_t event;

	if (device->spare_events.empty())
	{
		check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "could not make an event");
		return event;
	}
	event = device->spare_events.back();
	device->spare_events.pop_back();
	return event;
}

void
give_event(gjd_device *device, cudaEvent_t event)
{
	device->spare_events.push_back(event);
}

/*
 * Columns stay until they are evicted, and what is kept until the device is closed; the scratch of
 * other requests is freed by itself. If no other request has scratch, waiting is of no use,
 * whatever the reason: free memory may be in pieces.
 */
char *
take_scratch(gjd_device *device, uint64_t *bytes, uint64_t own)
{
	uint64_t wanted = device->memory.round_up(*bytes);
	uint64_t offset = device->memory.take_high(wanted);
	uint64_t stays = device->kept_scratch + own;

	if (offset == pool::none)
	{
		if (wanted > device->memory.size() - device->columns_used - stays ||
			device->scratch_used == stays)
			throw_status(GJD_NO_MEMORY, "out of device memory for results");
		throw_status(GJD_BUSY, "no scratch memory at present");
	}
	device->scratch_used += wanted;
	*bytes = wanted;
	return device->budget + offset;
}

void
give_scratch(gjd_device *device, char *memory, uint64_t bytes)
{
	if (memory == nullptr)
		return;
	device->memory.give((uint64_t) (memory - device->budget), bytes);
	device->scratch_used -= bytes;
}

char *
take_locked(gjd_device *device, uint64_t *bytes)
{
	uint64_t wanted = device->locked_memory.round_up(*bytes);
	uint64_t offset = device->locked_memory.take_high(wanted);

	if (offset == pool::none)
	{
		reap_keysets(device, false);
		offset = device->locked_memory.take_high(wanted);
	}
	if (offset == pool::none)
		return nullptr;
	device->locked_used += wanted;
	*bytes = wanted;
	return device->locked + offset;
}

char *
require_locked(gjd_device *device, uint64_t *bytes, uint64_t own)
{
	uint64_t stays = device->kept_locked + own;
	char *memory = take_locked(device, bytes);

	if (memory != nullptr)
		return memory;
	if (device->locked_memory.round_up(*bytes) > device->locked_memory.size() - stays ||
		device->locked_used == stays)
		throw_status(GJD_NO_MEMORY, "out of page-locked memory");
	throw_status(GJD_BUSY, "no page-locked memory at present");
}

void
give_locked(gjd_device *device, char *memory, uint64_t bytes)
{
	device->locked_memory.give((uint64_t) (memory - device->locked), bytes);
	device->locked_used -= device->locked_memory.round_up(bytes);
}

const gjd_device::region *
region_of(const gjd_device *device, const void *base, uint64_t bytes)
{
	const char *p = (const char *) base;

	for (const gjd_device::region &r : device->regions)
		if (p >= r.base && bytes <= r.bytes && (uint64_t) (p - r.base) <= r.bytes - bytes)
			return &r;
	return nullptr;
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Threads that the driver starts inherit the mask: signals are for the process's own loop. */
class signals_blocked
{
  public:
	signals_blocked()
	{
		sigset_t all;

		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before_);
	}
	~signals_blocked()
	{
		pthread_sigmask(SIG_SETMASK, &before_, nullptr);
	}

  private:
	sigset_t before_;
};

/*
 * Names a device by its index among those that the environment lets this process see, as CUDA
 * numbers them.
 */
static std::string
name_of_index(const char *digits)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char *end;
	long index = strtol(digits, &end, 10);
	std::string names;

	if (*end != '\0' || index < 0)
		throw_status(GJD_NO_DEVICE, "device name is neither an index nor a UUID");
	if (visible == nullptr)
		return std::to_string(index);
	for (names = visible; index > 0 && !names.empty(); index--)
	{
		size_t comma = names.find(',');

		names = comma == std::string::npos ? "" : names.substr(comma + 1);
	}
	return names.substr(0, names.find(','));
}

/*
 * Finds the device by index or UUID, or the one with the most free memory, and hides all others
 * from CUDA, which must not have started in this process: it takes memory of each card that it
 * sees, and twice as long to start with two. A MIG instance can only be named in this way. The
 * device becomes number 0.
 */
static int
find_device(const char *name)
{
	bool is_uuid = name != nullptr &&
				   (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0);
	bool is_first = name == nullptr || name[0] == '\0';
	std::string only = is_uuid ? name : is_first ? name_of_emptiest() : name_of_index(name);
	int count;

	if (is_first && only.empty())
		only = name_of_index("0");

	if (only.empty())
		throw_status(GJD_NO_DEVICE, "device does not exist");
	if (setenv("CUDA_VISIBLE_DEVICES", only.c_str(), 1) != 0)
		throw std::bad_alloc();
	check(cudaGetDeviceCount(&count), "could not find a device");
	if (count < 1)
		throw_status(GJD_NO_DEVICE, "device does not exist");
	return 0;
}

/* Releases all resources of a device, which may be only half open. */
static void
tear_down(gjd_device *device)
{
	for (staging_buffer &buffer : device->staging)
		if (buffer.applied)
			cudaEventDestroy(buffer.applied);
	for (cudaEvent_t event : device->spare_events)
		cudaEventDestroy(event);
	for (cudaEvent_t event : device->batch.copied)
		if (event)
			cudaEventDestroy(event);
	for (const gjd_device::region &r : device->regions)
		cudaHostUnregister(r.base);
	for (cudaStream_t stream : {device->in, device->execute, device->out})
		if (stream)
			cudaStreamDestroy(stream);
	if (device->budget)
		cudaFree(device->budget);
	if (device->batch.on_device)
		cudaFree(device->batch.on_device);
	if (device->batch.staged)
		cudaFreeHost(device->batch.staged);
	if (device->locked)
		cudaFreeHost(device->locked);
	(void) cudaGetLastError();
	delete device;
}

static void
reserve_memory(gjd_device *device, const gjd_open_params *params)
{
	size_t unused, total;
	uint64_t budget = params->memory_budget;

	check(cudaMemGetInfo(&unused, &total), "could not read the memory of the device");
	if (budget == 0)
		budget = unused / 4 * 3;
	budget = budget / GJD_EXTENT_BYTES * GJD_EXTENT_BYTES;
	if (budget < 8 * GJD_EXTENT_BYTES)
		throw_status(GJD_NO_MEMORY, "memory budget is below 128 MB");
	check(cudaMalloc(&device->budget, budget), "could not reserve the memory budget");
	device->memory.reset(budget, policy::scratch_granule);
	device->columns_limit = layout_columns_limit(budget, params->scratch_reserve);

	check(cudaHostAlloc(&device->locked, policy::locked_bytes, cudaHostAllocMapped),
		  "could not lock host memory");
	device->locked_memory.reset(policy::locked_bytes, policy::locked_granule);
}

static void
make_staging(gjd_device *device)
{
	for (uint32_t i = 0; i < policy::staging_buffers; i++)
	{
		uint64_t bytes = policy::staging_bytes;
		uint64_t list_bytes = policy::staging_images * sizeof(scatter_entry);
		staging_buffer buffer = {nullptr, nullptr, nullptr, false};

		buffer.memory = take_scratch(device, &bytes);
		buffer.list = (scatter_entry *) take_locked(device, &list_bytes);
		device->staging.push_back(buffer);
		device->staging.back().applied = take_event(device);
	}
	device->kept_scratch = device->scratch_used;
	device->kept_locked = device->locked_used;
}

/* Memory for the jobs of batches, beside the budget */
static void
make_batch(gjd_device *device)
{
	launch_batch &batch = device->batch;

	check(cudaMalloc(&batch.on_device, policy::batch_bytes), "could not reserve memory");
	check(cudaHostAlloc(&batch.staged, policy::batch_slots * policy::batch_bytes,
						cudaHostAllocDefault),
		  "could not lock host memory");
	for (cudaEvent_t &copied : batch.copied)
		check(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming), "could not make an event");
}

static gjd_device *
open_device(const gjd_open_params *params)
{
	signals_blocked blocked;
	int ordinal = find_device(params->device);
	gjd_device *device = new gjd_device();

	try
	{
		device->ordinal = ordinal;
		select_device(ordinal, "could not take the device");
		check(cudaGetDeviceProperties(&device->properties, ordinal), "could not read the device");
		if (device->properties.major < 8)
			throw_status(GJD_UNSUPPORTED, "device is older than compute capability 8.0");
		device->shared_limit = (uint32_t) device->properties.sharedMemPerBlockOptin;
		if (params->shared_limit != 0 && params->shared_limit < device->shared_limit)
			device->shared_limit = params->shared_limit;
		for (cudaStream_t *stream : {&device->in, &device->execute, &device->out})
			check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
				  "could not make a stream");
		reserve_memory(device, params);
		make_staging(device);
		make_batch(device);
	}
	catch (...)
	{
		tear_down(device);
		throw;
	}
	return device;
}

/* ---- entries ------------------------------------------------------------------------------- */

gjd_status
device_open(const gjd_open_params *params, gjd_device **out, gjd_error *error)
{
	return guarded(nullptr, error, [&] {
		require(params && out && params->struct_size >= sizeof(*params), "invalid open parameters");
		*out = open_device(params);
		return GJD_OK;
	});
}

gjd_status
device_close(gjd_device *device, gjd_error *error)
{
	return guarded(nullptr, error, [&] {
		require(device, "no device");
		if (device->columns || device->matches)
			throw_status(GJD_BUSY, "device has living objects");
		if (!device->lost)
		{
			use(device);
			check(cudaStreamSynchronize(device->in), "device failed while closing");
			check(cudaStreamSynchronize(device->execute), "device failed while closing");
			check(cudaStreamSynchronize(device->out), "device failed while closing");
			reap_keysets(device, true);
		}
		if (device->keysets)
			throw_status(GJD_BUSY, "device has living objects");
		tear_down(device);
		return GJD_OK;
	});
}

static void
print_uuid(char *out, size_t size, const unsigned char *b)
{
	const char *named = getenv("CUDA_VISIBLE_DEVICES");
	const char *prefix = named && strncmp(named, "MIG-", 4) == 0 ? "MIG" : "GPU";

	snprintf(out, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 prefix, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
			 b[12], b[13], b[14], b[15]);
}

gjd_status
device_info(gjd_device *device, gjd_device_info *info, gjd_error *error)
{
	return guarded(device, error, [&] {
		size_t unused, total;

		require(device && info, "no device");
		check(cudaMemGetInfo(&unused, &total), "could not read the memory of the device");
		memset(info, 0, sizeof(*info));
		snprintf(info->name, sizeof(info->name), "%.*s", (int) sizeof(info->name) - 1,
				 device->properties.name);
		print_uuid(info->uuid, sizeof(info->uuid),
				   (const unsigned char *) device->properties.uuid.bytes);
		info->compute_major = device->properties.major;
		info->compute_minor = device->properties.minor;
		info->multiprocessors = device->properties.multiProcessorCount;
		check(cudaDriverGetVersion(&info->driver_version), "could not read the driver's version");
		check(cudaRuntimeGetVersion(&info->runtime_version), "could not read CUDA's version");
		info->shared_bytes = device->shared_limit;
		info->l2_bytes = (uint64_t) device->properties.l2CacheSize;
		info->memory_total = total;
		info->memory_free = unused;
		return GJD_OK;
	});
}

gjd_status
memory_info(gjd_device *device, gjd_memory_info *info, gjd_error *error)
{
	return guarded(device, error, [&] {
		require(device && info, "no device");
		reap_keysets(device, false);
		*info = gjd_memory_info{device->memory.size(), device->columns_limit,
								device->columns_used, device->scratch_used,
								device->columns, device->keysets, device->matches};
		return GJD_OK;
	});
}

gjd_status
host_register(gjd_device *device, void *base, uint64_t bytes, gjd_error *error)
{
	return guarded(device, error, [&] {
		signals_blocked blocked;

		require(device && base && bytes > 0, "invalid region");
		require(device->regions.size() < policy::max_regions, "too many registered regions");
		cudaError_t code = cudaHostRegister(base, bytes, cudaHostRegisterDefault);

		if (code == cudaErrorMemoryAllocation)
			throw failure{GJD_NO_HOST_MEMORY, (int) code, "could not lock host memory",
						  cudaGetErrorString(code)};
		check(code, "could not lock host memory");

		void *mapped = nullptr;

		/* Without it, all results are delivered by copies. */
		if (cudaHostGetDevicePointer(&mapped, base, 0) != cudaSuccess)
		{
			mapped = nullptr;
			(void) cudaGetLastError();
		}
		device->regions.push_back({(char *) base, bytes, (char *) mapped});
		return GJD_OK;
	});
}

gjd_status
host_unregister(gjd_device *device, void *base, gjd_error *error)
{
	return guarded(device, error, [&] {
		require(device && base, "invalid region");
		for (size_t i = 0; i < device->regions.size(); i++)
			if (device->regions[i].base == base)
			{
				check(cudaHostUnregister(base), "could not unlock host memory");
				device->regions.erase(device->regions.begin() + (long) i);
				return GJD_OK;
			}
		throw_status(GJD_INVALID, "region is not registered");
	});
}

}  // namespace gjd
