/*
 * launch.cuh
 *	  Launches the scan with one filter and one policy: as many blocks as the device can hold
 *	  at once, each of which processes many tiles.
 */
#ifndef GPUJOIN_CUDA_KERNELS_LAUNCH_CUH
#define GPUJOIN_CUDA_KERNELS_LAUNCH_CUH

#include "launch_batch.cuh"

namespace gjd
{

/*
 * Rounds the shared memory to request up to a step, since filters differ by a few words from one
 * request to the next, and asking the driver for each size takes microseconds.
 */
inline uint32_t
in_steps(const gjd_device *device, uint32_t bytes)
{
	uint32_t up = (bytes + policy::shared_step - 1) / policy::shared_step * policy::shared_step;
	uint32_t most = device->shared_limit - policy::shared_margin;

	return up <= most ? up : most >= bytes ? most : bytes;
}

/* Returns the number of blocks that fit on a multiprocessor at once. */
template <class Kernel>
uint32_t
blocks_a_multiprocessor(Kernel kernel, uint32_t threads, uint32_t shared_bytes)
{
	int blocks;

	check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
							   (int) shared_bytes),
		  "could not get shared memory");
	check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, (int) threads,
														shared_bytes),
		  "could not size a launch");
	if (blocks == 0)
		throw_status(GJD_INTERNAL, "kernel does not fit the device");
	return (uint32_t) blocks;
}

/* Filters whose scans are made together: small sets, which come at a high rate */
template <class Filter>
constexpr bool is_batched = false;
template <class Key, uint32_t n>
constexpr bool is_batched<constants_filter<Key, n>> = true;
template <class Key>
constexpr bool is_batched<span_filter<Key>> = true;
template <class Key>
constexpr bool is_batched<one_bit_filter<Key>> = true;
template <class Key>
constexpr bool is_batched<two_bits_filter<Key>> = true;

template <class Policy, class Key, class Filter, bool with_bitmap>
void
launch_kernel(const gjd_column *column, const gjd_keyset *keyset, const Filter &filter,
			  const match_output &out)
{
	static struct
	{
		int ordinal = -1;
		uint32_t shared_bytes, blocks;
	} known;
	gjd_device *device = column->device;
	column_view view = view_of(column);
	uint32_t warps = Policy::threads / 32;
	uint32_t shared_bytes = filter.words * 4;
	auto kernel = match_kernel<Policy, Key, Filter, with_bitmap>;

	if (out.tiles != 0)
		view.tiles = out.tiles;
	if (!Filter::exact)
		shared_bytes += warps * Policy::kept_bytes;
	shared_bytes = in_steps(device, shared_bytes);

	/* Asking takes microseconds, and most consecutive requests ask the same. */
	if (known.ordinal != device->ordinal || known.shared_bytes != shared_bytes)
		known = {device->ordinal, shared_bytes,
				 blocks_a_multiprocessor(kernel, Policy::threads, shared_bytes)};

	uint64_t blocks = (uint64_t) known.blocks * (uint32_t) device->properties.multiProcessorCount;
	uint64_t needed = (view.tiles + warps - 1) / warps;
	scan_job<Key, Filter> job = {view, filter, table_of<Key>(keyset), out};

	blocks = needed < blocks ? needed : blocks;
	if constexpr (with_bitmap && is_batched<Filter>)
	{
		static int allowed = -1; /* the device on which it may use all shared memory */
		auto several = match_batch_kernel<Policy, Key, Filter>;

		if (device->batch.collecting && allowed != device->ordinal)
		{
			blocks_a_multiprocessor(several, Policy::threads,
									device->shared_limit - policy::shared_margin);
			allowed = device->ordinal;
		}
		launch_or_postpone<scan_job<Key, Filter>, match_kernel<Policy, Key, Filter, true>,
						   match_batch_kernel<Policy, Key, Filter>, Policy::threads>(
			device, stage_scan, job, (uint32_t) blocks, shared_bytes, true);
	}
	else
	{
		settle(device);
		kernel<<<(uint32_t) blocks, Policy::threads, shared_bytes, device->execute>>>(job);
		check_launch(device->execute, "could not start a match");
	}
}

}  // namespace gjd

#endif
