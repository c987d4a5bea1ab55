/*
 * launch_batch.cuh
 *	  Launches a kernel now, or with the others of a batch.
 */
#ifndef GPUJOIN_CUDA_KERNELS_LAUNCH_BATCH_CUH
#define GPUJOIN_CUDA_KERNELS_LAUNCH_BATCH_CUH

#include "kernels.cuh"

namespace gjd
{

template <class Job, auto single, auto several, uint32_t threads>
void
launch_jobs(const gjd_device *device, const void *on_device, const void *one, uint32_t n,
			uint32_t blocks, uint32_t shared_bytes)
{
	if (n == 1)
		single<<<blocks, threads, shared_bytes, device->execute>>>(*(const Job *) one);
	else
		several<<<dim3(blocks, n), threads, shared_bytes, device->execute>>>(
			(const char *) on_device);
	check_launch(device->execute, "could not start the kernel of a request");
}

/* The kernel gets the job by value, or jobs in device memory, as job_copy reads them. */
template <class Job, auto single, auto several, uint32_t threads>
void
launch_or_postpone(gjd_device *device, batch_stage stage, const Job &job, uint32_t blocks,
				   uint32_t shared_bytes, bool strides)
{
	if (device->batch.collecting)
		postpone(device, {stage, launch_jobs<Job, single, several, threads>, blocks, shared_bytes,
						  strides, 0, sizeof(Job)},
				 &job);
	else
		launch_jobs<Job, single, several, threads>(device, nullptr, &job, 1, blocks, shared_bytes);
}

}  // namespace gjd

#endif
