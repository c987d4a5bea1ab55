/*
 * top.cu
 *	  The first rows of an order: removes rows from the bitmap that are behind all of them.
 *
 * The place of a row is its value as an unsigned number, complemented if the order is descending.
 * Three passes over the matching rows find the range of these numbers, and two histograms of
 * eleven bits each: the first divides the whole range, the second the bucket in which the last
 * row within the limit is. A fourth removes what is behind that row's bucket of the second. So a
 * range of up to 2^22 values is divided exactly. Each block of the later passes adds up the earlier
 * histogram by itself, which takes less time than a launch.
 */
#include "kernels.cuh"
#include "rows.cuh"

#include <cub/block/block_scan.cuh>

namespace gjd
{

namespace
{

constexpr uint32_t bucket_bits = 11;
constexpr uint32_t buckets = 1 << bucket_bits;
constexpr uint32_t threads = policy::gather_threads;
constexpr uint32_t warps = threads / 32;
constexpr uint32_t each = buckets / threads;

/* Counters in device memory, zero at first */
struct top_counters
{
	unsigned long long beyond_least; /* complement of the least place; 0 without values */
	unsigned long long greatest;
	unsigned long long values, nulls; /* numbers of rows */
	unsigned long long histograms[2][buckets];
};

struct top_job
{
	placed_column column;
	bool descending, nulls_first;
	uint64_t limit;
	top_counters *counters;
	uint32_t *bitmap;
	uint64_t *tile_count;
};

/* Division of the range, known after the first pass */
struct division
{
	uint64_t least;
	uint32_t first_shift, second_shift; /* of places behind the least, to get their buckets */
	uint64_t wanted;					/* number of values within the limit */
	bool all;							/* no row is behind the limit */
	bool with_nulls;					/* are NULLs within the limit? */

	__device__
	division(const top_job &job)
	{
		const top_counters &counters = *job.counters;
		uint64_t range = counters.greatest - ~counters.beyond_least;
		uint32_t bits = counters.values == 0 ? 0 : 64 - (uint32_t) __clzll((long long) range);

		least = ~counters.beyond_least;
		first_shift = bits > bucket_bits ? bits - bucket_bits : 0;
		second_shift = first_shift > bucket_bits ? first_shift - bucket_bits : 0;
		wanted = job.limit;
		if (job.nulls_first)
			wanted = wanted > counters.nulls ? wanted - counters.nulls : 0;
		all = counters.values + counters.nulls <= job.limit;
		with_nulls = job.nulls_first || counters.values < job.limit;
	}

	__device__ uint32_t
	first_bucket(uint64_t place) const
	{
		return (uint32_t) ((place - least) >> first_shift);
	}

	__device__ uint32_t
	second_bucket(uint64_t place) const
	{
		return (uint32_t) ((place - least) >> second_shift) % (1u << (first_shift - second_shift));
	}
};

/* Called in each pass before a tile with many rows is visited */
struct column_prefetch
{
	const placed_column &column;

	__device__ void
	operator()(const char *extent, uint32_t row) const
	{
		prefetch_column(column, extent, row, threadIdx.x % 32);
	}
};

__device__ inline uint64_t
place_of(const top_job &job, const char *extent, uint32_t row)
{
	uint64_t place = (uint64_t) value_of(job.column, extent, row) ^ (uint64_t) 1 << 63;

	return job.descending ? ~place : place;
}

/*
 * Finds the bucket that has the row with the given number, counted from 1, in the order of
 * buckets; the last one if there are fewer rows. *before gets the number of rows in buckets before
 * it. Called by all threads.
 */
__device__ inline uint32_t
find_bucket(const unsigned long long *histogram, uint64_t number, uint64_t *before)
{
	using scan = cub::BlockScan<uint64_t, threads>;
	__shared__ typename scan::TempStorage space;
	__shared__ uint32_t found;
	__shared__ uint64_t found_before;
	uint64_t sums[each];

	for (uint32_t i = 0; i < each; i++)
		sums[i] = histogram[threadIdx.x * each + i];
	if (threadIdx.x == 0)
	{
		found = buckets - 1;
		found_before = 0;
	}
	__syncthreads();
	scan(space).InclusiveSum(sums, sums);
	for (uint32_t i = 0; i < each; i++)
	{
		uint32_t bucket = threadIdx.x * each + i;
		uint64_t here = sums[i] - histogram[bucket];

		if (here < number && sums[i] >= number)
		{
			found = bucket;
			found_before = here;
		}
	}
	__syncthreads();
	*before = found_before;
	return found;
}

__global__ void __launch_bounds__(threads)
range_kernel(const __grid_constant__ column_view column, const __grid_constant__ top_job job)
{
	__shared__ visit_space spaces[warps];
	uint64_t beyond_least = 0, greatest = 0;
	uint32_t values = 0, nulls = 0;

	visit_rows<false>(column, job.bitmap, job.tile_count, spaces[threadIdx.x / 32],
					  column_prefetch{job.column},
					  [&](const char *extent, uint32_t, uint32_t row, bool active) {
						  if (!active)
							  return false;
						  if (is_null(job.column, extent, row))
						  {
							  nulls++;
							  return false;
						  }
						  uint64_t place = place_of(job, extent, row);

						  values++;
						  beyond_least = max(beyond_least, ~place);
						  greatest = max(greatest, place);
						  return false;
					  });
	values = __reduce_add_sync(all_lanes, values);
	nulls = __reduce_add_sync(all_lanes, nulls);
	for (uint32_t apart = 16; apart > 0; apart /= 2)
	{
		beyond_least = max(beyond_least, __shfl_xor_sync(all_lanes, beyond_least, apart));
		greatest = max(greatest, __shfl_xor_sync(all_lanes, greatest, apart));
	}
	if (threadIdx.x % 32 != 0)
		return;
	if (values > 0)
	{
		atomicMax(&job.counters->beyond_least, beyond_least);
		atomicMax(&job.counters->greatest, greatest);
		atomicAdd(&job.counters->values, values);
	}
	if (nulls > 0)
		atomicAdd(&job.counters->nulls, nulls);
}

template <bool second>
__global__ void __launch_bounds__(threads)
histogram_kernel(const __grid_constant__ column_view column, const __grid_constant__ top_job job)
{
	__shared__ visit_space spaces[warps];
	__shared__ uint32_t counts[buckets];
	division divide(job);
	uint32_t bucket = 0;
	uint64_t before;

	if (divide.all || divide.wanted == 0 || (second && divide.first_shift == 0))
		return;
	if (second)
		bucket = find_bucket(job.counters->histograms[0], divide.wanted, &before);
	for (uint32_t i = threadIdx.x; i < buckets; i += threads)
		counts[i] = 0;
	__syncthreads();
	visit_rows<false>(column, job.bitmap, job.tile_count, spaces[threadIdx.x / 32],
					  column_prefetch{job.column},
					  [&](const char *extent, uint32_t, uint32_t row, bool active) {
						  if (!active || is_null(job.column, extent, row))
							  return false;
						  uint64_t place = place_of(job, extent, row);

						  if (!second)
							  atomicAdd(&counts[divide.first_bucket(place)], 1);
						  else if (divide.first_bucket(place) == bucket)
							  atomicAdd(&counts[divide.second_bucket(place)], 1);
						  return false;
					  });
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < buckets; i += threads)
		if (counts[i] > 0)
			atomicAdd(&job.counters->histograms[second][i], counts[i]);
}

__global__ void __launch_bounds__(threads)
drop_kernel(const __grid_constant__ column_view column, const __grid_constant__ top_job job)
{
	__shared__ visit_space spaces[warps];
	division divide(job);
	uint64_t before, unused;
	uint32_t first = 0, second = 0;

	if (divide.all)
		return;
	if (divide.wanted > 0)
	{
		first = find_bucket(job.counters->histograms[0], divide.wanted, &before);
		__syncthreads();
		if (divide.first_shift > 0)
			second = find_bucket(job.counters->histograms[1], divide.wanted - before, &unused);
	}
	visit_rows<true>(column, job.bitmap, job.tile_count, spaces[threadIdx.x / 32],
					 column_prefetch{job.column},
					 [&](const char *extent, uint32_t, uint32_t row, bool active) {
						 if (!active)
							 return false;
						 if (is_null(job.column, extent, row))
							 return divide.with_nulls;
						 uint64_t place = place_of(job, extent, row);
						 uint32_t bucket = divide.first_bucket(place);

						 return divide.wanted > 0 &&
								(bucket < first || (bucket == first &&
													divide.second_bucket(place) <= second));
					 });
}

/* Launches one of the passes. */
template <int pass, class Kernel>
void
launch(const gjd_device *device, Kernel kernel, const column_view &view, const top_job &job)
{
	static visit_grid grid;

	kernel<<<grid.blocks(device, kernel, 0, view.tiles), threads, 0, device->execute>>>(view, job);
	check_launch(device->execute, "could not find the first rows");
}

}  // namespace

uint64_t
top_space_bytes()
{
	return sizeof(top_counters);
}

void
launch_top(const gjd_column *column, const gjd_top &top, const match_output &out, void *space)
{
	cudaStream_t stream = column->device->execute;
	column_view view = view_of(column);
	top_job job = {place_column(column, top.column), (top.order & GJD_DESCENDING) != 0,
				   (top.order & GJD_NULLS_FIRST) != 0, top.limit, (top_counters *) space,
				   out.bitmap, out.tile_count};

	view.tiles = out.tiles;
	if (view.tiles == 0)
		return;

	settle(column->device);
	check(cudaMemsetAsync(space, 0, sizeof(top_counters), stream), "could not clear counts");
	launch<0>(column->device, range_kernel, view, job);
	launch<1>(column->device, histogram_kernel<false>, view, job);
	launch<2>(column->device, histogram_kernel<true>, view, job);
	launch<3>(column->device, drop_kernel, view, job);
}

}  // namespace gjd
