/*
 * elements.cu
 *	  The result of a reduction, made from its groups, and its first delivery.
 */
#include "hash.cuh"
#include "reduce.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t threads = policy::gather_threads;

/* Input of the kernel that makes the elements */
struct element_job
{
	uint64_t groups;
	uint32_t grouping, n_aggregates, words, element_words, group_words;
	uint32_t kinds[GJD_MAX_AGGREGATES], wide[GJD_MAX_AGGREGATES];
	const uint64_t *sums;
	uint64_t *elements;
	const void *keys;
	uint32_t key_bytes;
	bool numbered; /* with rests, the value of a key's group is its number */
	int64_t few[policy::most_constants];
	int64_t least;
	uint64_t span;
	reduction_counters *counters;
	group_table table; /* GJD_BY_COLUMNS */
	const uint32_t *shared; /* a bit for each group that is wanted, or NULL if all are */
	char *const *extents;
};

__device__ inline int64_t
value_of_group(const element_job &job, uint64_t group)
{
	if (job.grouping == GJD_BY_VALUE)
		return job.least + (int64_t) group;
	if (job.grouping == GJD_ONE_GROUP)
		return 0;
	if (job.numbered)
		return (int64_t) group;
	if (job.keys == nullptr)
		return job.few[group];
	return job.key_bytes == 4 ? ((const int32_t *) job.keys)[group]
							  : ((const int64_t *) job.keys)[group];
}

/* Writes the values that the rows of a group by columns have in common. */
__device__ inline void
write_values(const element_job &job, uint64_t group, uint64_t *to)
{
	uint64_t slot = job.table.slots[group];
	const char *extent = job.extents[slot_extent(slot)];
	uint32_t row = slot_row(slot);
	uint64_t nulls = 0;

	for (uint32_t i = 0; i < job.table.n_columns; i++)
	{
		bool null = is_null(job.table.columns[i], extent, row);

		nulls |= (uint64_t) null << i;
		to[i == 0 ? 0 : GJD_GROUP_WORDS + i - 1] =
			null ? 0 : (uint64_t) value_of(job.table.columns[i], extent, row);
	}
	to[1] = nulls;
}

__device__ inline void
write_element(const element_job &job, uint64_t group, const uint64_t *words, uint64_t *to)
{
	bool null = job.grouping == GJD_BY_VALUE && group == job.span;

	if (job.grouping == GJD_BY_COLUMNS)
		write_values(job, group, to);
	else
	{
		to[0] = null ? 0 : (uint64_t) value_of_group(job, group);
		to[1] = null;
	}
	to[2] = *words++;
	to += job.group_words;
	for (uint32_t i = 0; i < job.n_aggregates; i++)
	{
		uint64_t first = *words++;

		/* the opposite of extreme_of() */
		if (job.kinds[i] == GJD_MIN)
			first = ~first;
		if (job.kinds[i] >= GJD_MIN)
			first ^= (uint64_t) 1 << 63;
		*to++ = first;
		if (job.wide[i])
			*to++ = *words++;
	}
}

/* A thread a group: those with rows, if they are wanted, become elements, in any order. */
__global__ void __launch_bounds__(threads)
element_kernel(const __grid_constant__ element_job job)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint32_t lane = threadIdx.x % 32;
	uint64_t rounded = (job.groups + 31) / 32 * 32;
	bool counted = job.grouping == GJD_BY_COLUMNS; /* have groups been counted already? */

	if (counted && job.counters->groups > job.table.room)
		return;
	for (uint64_t group = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; group < rounded;
		 group += stride)
	{
		const uint64_t *words = job.sums + group * job.words;
		bool has_rows = group < job.groups && *words > 0;
		bool unshared = has_rows && job.shared != nullptr &&
						(job.shared[group / 32] >> group % 32 & 1) == 0;
		bool wanted =
			(has_rows && !unshared) || (job.grouping == GJD_ONE_GROUP && group == 0);
		uint32_t together = __ballot_sync(all_lanes, wanted);
		uint32_t with_rows = __ballot_sync(all_lanes, has_rows);
		unsigned long long first = 0;

		if (together == 0)
			continue;
		if (lane == 0)
		{
			first = atomicAdd(&job.counters->elements, (unsigned long long) __popc(together));
			if (!counted)
				atomicAdd(&job.counters->groups, (unsigned long long) __popc(with_rows));
		}
		first = __shfl_sync(all_lanes, first, 0) + __popc(together & ((1u << lane) - 1));
		if (wanted)
			write_element(job, group, words, job.elements + first * job.element_words);
	}
}

/* only_shared: sets the bits of the groups that have the values of a row of the rest. */
__global__ void __launch_bounds__(threads)
share_kernel(const __grid_constant__ column_view column, const __grid_constant__ group_table table,
			 uint32_t *bitmap, uint64_t *tile_count, uint32_t *shared)
{
	__shared__ visit_space spaces[threads / 32];

	if (*table.groups > table.room)
		return;
	visit_rows<false>(
		column, bitmap, tile_count, spaces[threadIdx.x / 32], [](const char *, uint32_t) {},
		[&](const char *, uint32_t extent_number, uint32_t row, bool active) {
			uint32_t group =
				active ? find_group(table, column.extents, extent_number, row) : no_group;

			if (group != no_group)
				atomicOr(&shared[group / 32], 1u << group % 32);
			return true;
		});
}

/* Counts the bits of a bitmap, which is the result itself. */
__global__ void __launch_bounds__(threads)
bits_kernel(const uint64_t *words, uint64_t n, reduction_counters *counters)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint32_t bits = 0;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
		bits += (uint32_t) __popcll(words[i]);
	bits = __reduce_add_sync(all_lanes, bits);
	if (threadIdx.x % 32 == 0 && bits > 0)
		atomicAdd(&counters->groups, (unsigned long long) bits);
	if (blockIdx.x == 0 && threadIdx.x == 0)
		counters->elements = n;
}

/* Writes the first elements into the caller's memory. */
__global__ void __launch_bounds__(threads)
deliver_elements_kernel(const uint64_t *elements, uint32_t words,
						const reduction_counters *counters, uint64_t *to, uint64_t capacity)
{
	uint64_t n = min((uint64_t) counters->elements, capacity) * words;
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
		to[i] = elements[i];
	__threadfence_system();
}

void
launch_share(const reduction_job &from, const match_output &out)
{
	static visit_grid grid;
	const gjd_device *device = from.column->device;
	column_view view = view_of(from.column);

	view.tiles = out.tiles;
	if (view.tiles == 0)
		return;
	share_kernel<<<grid.blocks(device, share_kernel, 0, view.tiles), threads, 0,
				   device->execute>>>(view, group_table_of(from), out.bitmap, out.tile_count,
									  from.shared);
	check_launch(device->execute, "could not look up the rest");
}

}  // namespace

void
launch_elements(const reduction_job &from, const match_output &out)
{
	cudaStream_t stream = from.column->device->execute;
	const gjd_reduction &asked = *from.asked;
	const gjd_shape &shape = from.column->shape;
	uint64_t groups = group_places(from.keyset, asked);
	uint64_t most = (uint64_t) from.column->device->properties.multiProcessorCount * 8;
	uint32_t blocks = (uint32_t) std::max<uint64_t>(
		1, std::min<uint64_t>(most, (groups + threads - 1) / threads));
	element_job job = {};

	if (asked.only_shared)
		launch_share(from, out);
	if (asked.grouping == GJD_DISTINCT)
		bits_kernel<<<blocks, threads, 0, stream>>>(from.sums, groups, from.counters);
	else
	{
		job.groups = groups;
		job.grouping = asked.grouping;
		job.n_aggregates = asked.n_aggregates;
		job.words = reduction_sum_words(asked, shape);
		job.element_words = gjd_element_words(&asked, &shape);
		job.group_words = gjd_group_words(&asked);
		job.sums = from.sums;
		job.elements = from.elements;
		job.keys = from.keyset->strategy == GJD_BY_CONSTANTS ? nullptr : from.keyset->parts.keys;
		job.key_bytes = shape.key_bytes;
		job.numbered = from.keyset->has_rests;
		job.least = asked.least;
		job.span = asked.span;
		job.counters = from.counters;
		job.table = group_table_of(from);
		job.shared = from.shared;
		job.extents = view_of(from.column).extents;
		for (uint32_t i = 0; i < asked.n_aggregates; i++)
		{
			job.kinds[i] = asked.aggregates[i].kind;
			job.wide[i] = gjd_aggregate_words(&asked.aggregates[i], &shape) - 1;
		}
		std::copy_n(from.keyset->constants, policy::most_constants, job.few);
		element_kernel<<<blocks, threads, 0, stream>>>(job);
	}
	check_launch(stream, "could not finish groups");
}

uint64_t
possible_groups(const gjd_keyset *keyset, const gjd_reduction &asked)
{
	switch (asked.grouping)
	{
		case GJD_BY_KEY:
			return keys_in(keyset);
		case GJD_BY_VALUE:
			return asked.span + 1;
		case GJD_DISTINCT:
			return asked.span / 64;
		case GJD_BY_COLUMNS:
			return asked.room;
		default:
			return 1;
	}
}

/* Places of groups while they are added up: for groups by columns, a hash table */
uint64_t
group_places(const gjd_keyset *keyset, const gjd_reduction &asked)
{
	uint64_t groups = possible_groups(keyset, asked);

	return asked.grouping == GJD_BY_COLUMNS ? groups * 2 : groups;
}

/* A group's words while it is added up: the number of rows, and those of the aggregates */
uint32_t
reduction_sum_words(const gjd_reduction &asked, const gjd_shape &shape)
{
	uint32_t words = gjd_element_words(&asked, &shape);

	return asked.grouping == GJD_DISTINCT ? words : words - gjd_group_words(&asked) + 1;
}

void
launch_group_delivery(const reduction_job &job, void *to, uint64_t capacity)
{
	gjd_device *device = job.column->device;
	uint32_t words = gjd_element_words(job.asked, &job.column->shape);
	uint64_t groups = std::min(capacity, possible_groups(job.keyset, *job.asked));
	uint64_t most = (uint64_t) device->properties.multiProcessorCount;
	uint64_t needed = (groups * words + threads - 1) / threads;

	deliver_elements_kernel<<<(uint32_t) std::max<uint64_t>(1, std::min(most, needed)), threads, 0,
							  device->execute>>>(
		job.asked->grouping == GJD_DISTINCT ? job.sums : job.elements, words, job.counters,
		(uint64_t *) to, capacity);
	check_launch(device->execute, "could not deliver groups");
}

}  // namespace gjd
