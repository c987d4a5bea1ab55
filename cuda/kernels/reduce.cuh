/*
 * reduce.cuh
 *	  Words of groups: how a row, or the rows of a warp, are added to them.
 */
#ifndef GPUJOIN_CUDA_KERNELS_REDUCE_CUH
#define GPUJOIN_CUDA_KERNELS_REDUCE_CUH

#include "hash.cuh"
#include "kernels.cuh"
#include "rows.cuh"

#include <type_traits>

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

/* ---- groups --------------------------------------------------------------------------------- */

/* The words of all groups */
struct group_sums
{
	uint32_t n_aggregates, words; /* of a group */
	placed_aggregate aggregates[GJD_MAX_AGGREGATES];
	uint64_t *all;			/* in device memory */
	uint32_t shared_groups; /* number of groups that are added up in shared memory: all of them or
							 * none; a power of two for groups of columns */
};

/* After the words in shared memory: the groups that they belong to, if these are of columns */
__device__ inline uint32_t *
owners_of(const group_sums &sums, uint64_t *shared_sums)
{
	return (uint32_t *) (shared_sums + sums.shared_groups * sums.words);
}

/* Returns the words of a group; *shared tells whether they are in shared memory. */
template <uint32_t grouping>
__device__ inline uint64_t *
words_of(const group_sums &sums, uint64_t *shared_sums, uint32_t group, bool *shared)
{
	*shared = sums.shared_groups > 0;
	if (grouping == GJD_BY_COLUMNS)
	{
		uint32_t near = group & (sums.shared_groups - 1);
		uint32_t owner = atomicCAS(&owners_of(sums, shared_sums)[near], no_group, group);

		*shared = owner == no_group || owner == group;
		if (*shared)
			return shared_sums + near * sums.words;
	}
	return (*shared ? shared_sums : sums.all) + (uint64_t) group * sums.words;
}

/* Rows of one group that the lanes of a warp have added to their registers */
template <uint32_t grouping, uint32_t most, bool weighted>
struct group_cache
{
	uint32_t group = no_group;
	std::conditional_t<weighted, uint64_t, uint32_t> rows = 0;
	addend addends[most] = {};

	__device__ void
	add(const group_sums &sums, const char *extent, uint32_t row, uint32_t weight)
	{
		rows += weight;
#pragma unroll
		for (uint32_t i = 0; i < most; i++)
			if (i < sums.n_aggregates)
				addends[i].take(sums.aggregates[i], extent, row, weight);
	}

	/* Called by all lanes */
	__device__ void
	flush(const group_sums &sums, uint64_t *shared_sums)
	{
		bool first_lane = threadIdx.x % 32 == 0;
		uint64_t *words = nullptr;
		uint32_t at = 1;
		bool shared;

		if (!__any_sync(all_lanes, rows != 0))
			return;
		if constexpr (weighted)
			rows = sum_to_first(rows);
		else
			rows = __reduce_add_sync(all_lanes, rows);
		if (first_lane)
		{
			words = words_of<grouping>(sums, shared_sums, group, &shared);
			add_word(words, rows, shared);
		}
#pragma unroll
		for (uint32_t i = 0; i < most; i++)
			if (i < sums.n_aggregates)
			{
				addends[i].add_up(sums.aggregates[i]);
				if (first_lane)
					addends[i].give(sums.aggregates[i], words + at, shared);
				at += 1 + sums.aggregates[i].wide;
				addends[i] = addend{};
			}
		rows = 0;
	}
};

/* Adds one row to its group. */
template <uint32_t grouping>
__device__ inline void
add_row(const group_sums &sums, uint64_t *shared_sums, uint32_t group, const char *extent,
		uint32_t row, uint32_t weight)
{
	bool shared;
	uint64_t *words = words_of<grouping>(sums, shared_sums, group, &shared);

	add_word(words++, weight, shared);
	for (uint32_t i = 0; i < sums.n_aggregates; i++)
	{
		addend one = {};

		one.take(sums.aggregates[i], extent, row, weight);
		one.give(sums.aggregates[i], words, shared);
		words += 1 + sums.aggregates[i].wide;
	}
}

/*
 * Adds the rows of a warp to their groups, those for which wanted is true. Registers are worth it
 * only for a group that several of the 32 rows belong to. Called by all lanes.
 */
template <uint32_t grouping, uint32_t most, bool weighted>
__device__ inline void
add_rows(const group_sums &sums, uint64_t *shared_sums,
		 group_cache<grouping, most, weighted> &cache, bool wanted, uint32_t group,
		 const char *extent, uint32_t row, uint32_t weight)
{
	constexpr uint32_t worth_caching = 8;
	uint32_t lane = threadIdx.x % 32;
	uint32_t left = __ballot_sync(all_lanes, wanted);

	for (uint32_t round = 0; round < 2 && left != 0; round++)
	{
		uint32_t leader = (uint32_t) __ffs((int) left) - 1;
		uint32_t its = __shfl_sync(all_lanes, group, leader);
		uint32_t same = __ballot_sync(all_lanes, wanted && group == its) & left;

		if (its != cache.group && __popc(same) < worth_caching && grouping != GJD_ONE_GROUP)
			break;
		if (its != cache.group)
		{
			cache.flush(sums, shared_sums);
			cache.group = its;
		}
		if (same >> lane & 1)
			cache.add(sums, extent, row, weight);
		left &= ~same;
	}
	if (left >> lane & 1)
		add_row<grouping>(sums, shared_sums, group, extent, row, weight);
}

/* Clears the words in shared memory. */
template <uint32_t grouping>
__device__ inline void
clear_shared(const group_sums &sums, uint64_t *shared_sums)
{
	for (uint32_t i = threadIdx.x; i < sums.shared_groups * sums.words; i += policy::gather_threads)
		shared_sums[i] = 0;
	for (uint32_t i = threadIdx.x; grouping == GJD_BY_COLUMNS && i < sums.shared_groups;
		 i += policy::gather_threads)
		owners_of(sums, shared_sums)[i] = no_group;
}

/* Adds the words in shared memory to those of all blocks. */
template <uint32_t grouping>
__device__ inline void
add_shared_up(const group_sums &sums, uint64_t *shared_sums)
{
	for (uint32_t i = threadIdx.x; i < sums.shared_groups * sums.words; i += policy::gather_threads)
	{
		uint32_t word = i % sums.words;
		uint64_t *to = sums.all + i;
		bool is_extreme = false;

		if (shared_sums[i] == 0)
			continue;
		if (grouping == GJD_BY_COLUMNS)
			to = sums.all + word +
				 (uint64_t) owners_of(sums, shared_sums)[i / sums.words] * sums.words;
		for (uint32_t a = 0, at = 1; a < sums.n_aggregates; a++)
		{
			is_extreme |= at == word && sums.aggregates[a].kind >= GJD_MIN;
			at += 1 + sums.aggregates[a].wide;
		}
		if (is_extreme)
			raise_word(to, shared_sums[i]);
		else
			add_word(to, shared_sums[i], false);
	}
}

}  // namespace gjd

#endif
