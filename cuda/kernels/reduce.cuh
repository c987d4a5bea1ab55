/*
 * reduce.cuh
 *	  Words of groups: how a row, or the rows of a warp, are added to them.
 */
#ifndef GPUJOIN_CUDA_KERNELS_REDUCE_CUH
#define GPUJOIN_CUDA_KERNELS_REDUCE_CUH

#include "kernels.cuh"
#include "rows.cuh"

namespace gjd
{

struct placed_aggregate
{
	placed_column column;
	uint32_t kind;
	uint32_t wide; /* a sum in two words? */
};

/* Adds to a word in shared memory, whose halves have atomics of the hardware. */
__device__ inline void
add_shared(uint64_t *to, uint64_t value)
{
	uint32_t *halves = (uint32_t *) to;
	uint32_t low = (uint32_t) value;
	uint32_t high = (uint32_t) (value >> 32);

	if (low != 0)
		high += atomicAdd(&halves[0], low) > ~low;
	if (high != 0)
		atomicAdd(&halves[1], high);
}

__device__ inline void
add_word(uint64_t *to, uint64_t value, bool shared)
{
	if (shared)
		add_shared(to, value);
	else
		atomicAdd((unsigned long long *) to, (unsigned long long) value);
}

__device__ inline void
raise_word(uint64_t *to, uint64_t value)
{
	atomicMax((unsigned long long *) to, (unsigned long long) value);
}

/* Maps a value to the unsigned number whose maximum stands for the least or the greatest value. */
__device__ inline uint64_t
extreme_of(uint32_t kind, int64_t value)
{
	uint64_t number = (uint64_t) value ^ (uint64_t) 1 << 63;

	return kind == GJD_MIN ? ~number : number;
}

/* Adds up over the warp; lane 0 gets the result. */
__device__ inline uint64_t
sum_to_first(uint64_t value)
{
	for (uint32_t apart = 16; apart > 0; apart /= 2)
		value += __shfl_down_sync(all_lanes, value, apart);
	return value;
}

/* Addend of one lane, or of one warp, for an aggregate */
struct addend
{
	uint64_t first, second;

	__device__ void
	take(const placed_aggregate &aggregate, const char *extent, uint32_t row, uint32_t weight)
	{
		if (is_null(aggregate.column, extent, row))
			return;
		if (aggregate.kind == GJD_COUNT_VALUES)
		{
			first += weight;
			return;
		}

		int64_t value = value_of(aggregate.column, extent, row);

		if (aggregate.kind != GJD_SUM)
			first = max(first, extreme_of(aggregate.kind, value));
		else if (aggregate.wide)
		{
			first += (uint64_t) (uint32_t) value * weight;
			second += (uint64_t) (value >> 32) * weight;
		}
		else
			first += (uint64_t) value * weight;
	}

	/* Adds up over the warp; lane 0 gets the result. */
	__device__ void
	add_up(const placed_aggregate &aggregate)
	{
		if (aggregate.kind >= GJD_MIN)
			for (uint32_t apart = 16; apart > 0; apart /= 2)
				first = max(first, __shfl_down_sync(all_lanes, first, apart));
		else
			first = sum_to_first(first);
		if (aggregate.wide)
			second = sum_to_first(second);
	}

	__device__ void
	give(const placed_aggregate &aggregate, uint64_t *words, bool shared) const
	{
		if (first != 0 && aggregate.kind >= GJD_MIN)
			raise_word(words, first);
		else if (first != 0)
			add_word(words, first, shared);
		if (aggregate.wide && second != 0)
			add_word(words + 1, second, shared);
	}
};

}  // namespace gjd

#endif
