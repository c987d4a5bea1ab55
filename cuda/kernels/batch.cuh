/*
 * batch.cuh
 *	  Batches: launches of several requests that are postponed, and then made together.
 *
 * The host needs microseconds for each launch, and a small request is four to six of them. While a
 * batch is open, those that begin a request are only noted: the kernel, its job, and the stage,
 * the place in the order of a request's kernels. At the end of the batch the stages are
 * launched in order, and all jobs of a stage for the same kernel are one launch: blockIdx.y is
 * the job's number, and the grid is as wide as the widest of them needs. The code of a job is
 * the same in both kernels, the one for a job and the one for several.
 *
 * This changes nothing but the order of requests. Each one has memory of its own, which it got
 * before and keeps until it has ended, so no request can see whether kernels of others come before,
 * after or beside its own. All of them read columns, and nothing writes to a column while a launch
 * is postponed: who changes one ends the batch first (library/column.cu). Within a request, stages
 * keep the order; a launch that cannot be postponed is preceded by all that have been.
 */
#ifndef GPUJOIN_CUDA_KERNELS_BATCH_CUH
#define GPUJOIN_CUDA_KERNELS_BATCH_CUH

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "policy.cuh"

struct gjd_device;

namespace gjd
{

/* Kernels that can be postponed, in the order in which a request has them */
enum batch_stage : uint32_t
{
	stage_build,
	stage_skip,
	stage_scan,
	stage_reduce,
	stage_sums,
	stage_gather,
	stage_order,
	stage_deliver
};

/*
 * Launches a kernel for one job, or the one for several. One job is read here, and passed by value;
 * several are on the device.
 */
using batch_launcher = void (*)(const gjd_device *device, const void *on_device, const void *one,
								uint32_t n, uint32_t blocks, uint32_t shared_bytes);

struct postponed
{
	batch_stage stage;
	batch_launcher launch;
	uint32_t blocks, shared_bytes;
	bool strides; /* do fewer blocks do the same work? */
	uint32_t at, bytes; /* of the job */
};

struct launch_batch
{
	bool open;		 /* has batch_begin() been called? */
	bool collecting; /* are launches postponed now? */
	std::vector<postponed> launches;
	std::vector<char> jobs;
	uint32_t requests; /* that have launches in it */
	char *on_device;   /* the jobs of the last batch that was launched */
	char *staged;	   /* page-locked, policy::batch_slots times */
	cudaEvent_t copied[policy::batch_slots];
	uint32_t next_slot;
	uint64_t made, served; /* number of batches of several requests, and of these requests */
};

/* A job of a batch, copied to shared memory by all threads of a block */
template <class Job>
struct job_copy
{
	alignas(16) char bytes[(sizeof(Job) + 15) / 16 * 16];

	__device__ const Job &
	fetch(const char *jobs)
	{
		const uint4 *from = (const uint4 *) (jobs + (uint64_t) blockIdx.y * sizeof(bytes));

		for (uint32_t i = threadIdx.x; i < sizeof(bytes) / 16; i += blockDim.x)
			((uint4 *) bytes)[i] = from[i];
		__syncthreads();
		return *(const Job *) bytes;
	}
};

}  // namespace gjd

#endif
