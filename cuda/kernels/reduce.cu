/*
 * reduce.cu
 *	  Reductions: adds up the rows that a scan has found and that are known to be visible, and
 *	  leaves only the others in the bitmap.
 *
 * Each group has words to which rows are added: their number, then those of the aggregates. All
 * are zero at first: the least and the greatest value are kept as the greatest unsigned number that
 * a value is mapped to. Every addition is exact and can be made in any order, so that atomics do.
 *
 * A warp visits 32 rows at a time. While their group stays the same, which is usual for pages in
 * key order, the lanes add to registers; only when it changes are these added up over the warp, and
 * to the group. Rows of different groups are added one by one: to words in shared memory if there
 * are few groups, otherwise to those in device memory.
 */
#include "kernels.cuh"
#include "rows.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t threads = policy::gather_threads;
constexpr uint32_t warps = threads / 32;
constexpr uint32_t no_group = 0xffffffffu;

struct placed_aggregate
{
	placed_column column;
	uint32_t kind;
	uint32_t wide; /* a sum in two words? */
};

struct reduce_job
{
	uint32_t *bitmap;
	uint64_t *tile_count;
	placed_filter filter;
	uint32_t marked_conditions; /* bit i: on a column with marks */
	uint32_t n_marks;
	placed_column marks[GJD_MAX_CARRIED];
	uint64_t visible_below, mapped; /* blocks; behind the first, as many are in the map */
	const uint8_t *map;
	const uint32_t *left_out;
	uint32_t n_left_out, pages_per_extent;
	placed_column group;
	int64_t least;
	uint64_t span;
	uint32_t n_aggregates, words; /* of a group */
	placed_aggregate aggregates[GJD_MAX_AGGREGATES];
	uint64_t *sums;
	uint32_t shared_groups; /* all groups, if they are added up in shared memory; otherwise 0 */
	const void *keys;		/* of the set, ascending; NULL if they are few */
	uint32_t n_keys;
	int64_t few[policy::most_constants];
	reduction_counters *counters;
	uint64_t *matched;
};

/* Returns the value that stands for one that did not fit. */
__device__ inline int64_t
mark_of(const placed_column &column)
{
	return INT64_MIN >> (64 - 8 * column.bytes);
}

__device__ inline bool
is_marked(const placed_column &column, const char *extent, uint32_t row)
{
	return value_of(column, extent, row) == mark_of(column) && !is_null(column, extent, row);
}

__device__ inline bool
passes(const reduce_job &job, const char *extent, uint32_t row)
{
	for (uint32_t i = 0; i < job.filter.n; i++)
	{
		const placed_condition &condition = job.filter.conditions[i];

		if (!holds(condition, extent, row) &&
			!((job.marked_conditions >> i & 1) != 0 && is_marked(condition.column, extent, row)))
			return false;
	}
	return true;
}

__device__ inline bool
is_visible(const reduce_job &job, uint32_t block)
{
	uint64_t behind = (uint64_t) block - job.visible_below;

	if (block < job.visible_below)
		return true;
	return behind < job.mapped && (__ldg(job.map + behind / 4) >> behind % 4 * 2 & 1) != 0;
}

__device__ inline bool
is_left_out(const reduce_job &job, uint32_t page)
{
	uint32_t low = 0;
	uint32_t high = job.n_left_out;

	while (low < high)
	{
		uint32_t middle = (low + high) / 2;

		if (__ldg(job.left_out + middle) < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low < job.n_left_out && __ldg(job.left_out + low) == page;
}

template <class Key>
__device__ inline uint32_t
rank_in(const Key *keys, uint32_t n, int64_t key)
{
	uint32_t low = 0;
	uint32_t high = n;

	while (low < high)
	{
		uint32_t middle = (low + high) / 2;

		if (__ldg(keys + middle) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns the number of a key in the set, which contains it. */
__device__ inline uint32_t
rank_of(const reduce_job &job, int64_t key)
{
	uint32_t rank = 0;

	if (job.keys != nullptr)
		return job.group.bytes == 4 ? rank_in((const int32_t *) job.keys, job.n_keys, key)
									: rank_in((const int64_t *) job.keys, job.n_keys, key);
	while (rank + 1 < job.n_keys && job.few[rank] != key)
		rank++;
	return rank;
}

/* ---- words --------------------------------------------------------------------------------- */

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

/* Addend of one lane, or of one warp, for an aggregate */
struct addend
{
	uint64_t first, second;

	__device__ void
	take(const placed_aggregate &aggregate, const char *extent, uint32_t row)
	{
		if (is_null(aggregate.column, extent, row))
			return;
		if (aggregate.kind == GJD_COUNT_VALUES)
		{
			first++;
			return;
		}

		int64_t value = value_of(aggregate.column, extent, row);

		if (aggregate.kind != GJD_SUM)
			first = max(first, extreme_of(aggregate.kind, value));
		else if (aggregate.wide)
		{
			first += (uint32_t) value;
			second += (uint64_t) (value >> 32);
		}
		else
			first += (uint64_t) value;
	}

	/* Adds up over the warp; lane 0 gets the result. */
	__device__ void
	add_up(const placed_aggregate &aggregate)
	{
		for (uint32_t apart = 16; apart > 0; apart /= 2)
		{
			uint64_t other = __shfl_down_sync(all_lanes, first, apart);

			first = aggregate.kind >= GJD_MIN ? max(first, other) : first + other;
			if (aggregate.wide)
				second += __shfl_down_sync(all_lanes, second, apart);
		}
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

/* Rows of one group that the lanes of a warp have added to their registers */
template <uint32_t most>
struct group_cache
{
	uint32_t group = no_group;
	uint32_t rows = 0;
	addend addends[most] = {};

	__device__ void
	add(const reduce_job &job, const char *extent, uint32_t row)
	{
		rows++;
#pragma unroll
		for (uint32_t i = 0; i < most; i++)
			if (i < job.n_aggregates)
				addends[i].take(job.aggregates[i], extent, row);
	}

	/* Called by all lanes */
	__device__ void
	flush(const reduce_job &job, uint64_t *sums, bool shared)
	{
		uint32_t all = __reduce_add_sync(all_lanes, rows);
		bool first_lane = threadIdx.x % 32 == 0;

		if (all == 0)
			return;

		uint64_t *words = sums + (uint64_t) group * job.words;

		if (first_lane)
			add_word(words++, all, shared);
#pragma unroll
		for (uint32_t i = 0; i < most; i++)
			if (i < job.n_aggregates)
			{
				addends[i].add_up(job.aggregates[i]);
				if (first_lane)
					addends[i].give(job.aggregates[i], words, shared);
				words += 1 + job.aggregates[i].wide;
				addends[i] = addend{};
			}
		rows = 0;
	}
};

/* ---- kernels ------------------------------------------------------------------------------- */

/* Adds one row to its group. */
__device__ inline void
add_row(const reduce_job &job, uint64_t *sums, bool shared, uint32_t group, const char *extent,
		uint32_t row)
{
	uint64_t *words = sums + (uint64_t) group * job.words;

	add_word(words++, 1, shared);
	for (uint32_t i = 0; i < job.n_aggregates; i++)
	{
		addend one = {};

		one.take(job.aggregates[i], extent, row);
		one.give(job.aggregates[i], words, shared);
		words += 1 + job.aggregates[i].wide;
	}
}

/*
 * most: at least the number of aggregates that are kept in registers. Rows of a group are worth
 * them only if several of the 32 belong to it.
 */
template <uint32_t grouping, uint32_t most>
__global__ void __launch_bounds__(threads)
reduce_kernel(const __grid_constant__ column_view column, const __grid_constant__ reduce_job job)
{
	constexpr uint32_t worth_caching = 8;
	extern __shared__ uint64_t shared_sums[];
	__shared__ visit_space spaces[warps];
	__shared__ uint32_t block_seen, block_rows, block_nulls;
	uint32_t lane = threadIdx.x % 32;
	uint32_t seen = 0, reduced = 0, nulls = 0;
	uint64_t *sums = job.sums;
	bool shared = grouping != GJD_DISTINCT && job.shared_groups > 0;
	group_cache<most> cache;
	int64_t cached_key = 0; /* of the cached group */

	if (threadIdx.x == 0)
		block_seen = block_rows = block_nulls = 0;
	if (shared)
	{
		for (uint32_t i = threadIdx.x; i < job.shared_groups * job.words; i += threads)
			shared_sums[i] = 0;
		sums = shared_sums;
	}
	__syncthreads();

	visit_rows<true>(
		column, job.bitmap, job.tile_count, spaces[threadIdx.x / 32],
		[&](const char *extent, uint32_t row) {
			prefetch_column(placed_column{column.blocks_at, 0, 4}, extent, row, lane);
			if (grouping != GJD_ONE_GROUP)
				prefetch_column(job.group, extent, row, lane);
			for (uint32_t i = 0; i < job.n_aggregates; i++)
				prefetch_column(job.aggregates[i].column, extent, row, lane);
		},
		[&](const char *extent, uint32_t extent_number, uint32_t row, bool active) {
			bool taken = active;
			bool passing, reduces;
			uint32_t group = 0;
			int64_t key = 0;
			bool null = false;

			if (taken && job.n_left_out > 0)
				taken = !is_left_out(job, extent_number * job.pages_per_extent +
											  row / column.slots);
			seen += taken;
			passing = taken && passes(job, extent, row);
			reduces = passing &&
					  is_visible(job, __ldg((const uint32_t *) (extent + column.blocks_at) + row));
			for (uint32_t i = 0; i < job.n_marks && reduces; i++)
				reduces = !is_marked(job.marks[i], extent, row);
			if (grouping == GJD_BY_VALUE || grouping == GJD_DISTINCT)
			{
				uint64_t place = 0;

				null = reduces && is_null(job.group, extent, row);
				if (reduces && !null)
					place = (uint64_t) value_of(job.group, extent, row) - (uint64_t) job.least;
				reduces = reduces && place < job.span;
				group = null ? (uint32_t) job.span : (uint32_t) place;
			}
			reduced += reduces;
			nulls += null && grouping == GJD_DISTINCT;
			if (grouping == GJD_DISTINCT)
			{
				if (reduces && !null)
				{
					uint32_t *word = (uint32_t *) job.sums + group / 32;

					if ((*(volatile uint32_t *) word >> group % 32 & 1) == 0)
						atomicOr(word, 1u << group % 32);
				}
				return passing && !reduces;
			}
			if (grouping == GJD_BY_KEY)
			{
				key = reduces ? value_of(job.group, extent, row) : 0;

				/* in key order the key is usually that of the rows before */
				group = cache.group;
				if (__any_sync(all_lanes, reduces && (key != cached_key || group == no_group)))
					group = reduces ? rank_of(job, key) : 0;
			}

			uint32_t left = __ballot_sync(all_lanes, reduces);

			for (uint32_t round = 0; round < 2 && left != 0; round++)
			{
				uint32_t leader = (uint32_t) __ffs((int) left) - 1;
				uint32_t its = __shfl_sync(all_lanes, group, leader);
				uint32_t same = __ballot_sync(all_lanes, reduces && group == its) & left;

				if (its != cache.group && __popc(same) < worth_caching &&
					grouping != GJD_ONE_GROUP)
					break;
				if (its != cache.group)
				{
					cache.flush(job, sums, shared);
					cache.group = its;
					cached_key = __shfl_sync(all_lanes, key, leader);
				}
				if (same >> lane & 1)
					cache.add(job, extent, row);
				left &= ~same;
			}
			if (left >> lane & 1)
				add_row(job, sums, shared, group, extent, row);
			return passing && !reduces;
		});
	if (grouping != GJD_DISTINCT)
		cache.flush(job, sums, shared);

	seen = __reduce_add_sync(all_lanes, seen);
	reduced = __reduce_add_sync(all_lanes, reduced);
	nulls = __reduce_add_sync(all_lanes, nulls);
	if (lane == 0)
	{
		atomicAdd(&block_seen, seen);
		atomicAdd(&block_rows, reduced);
		atomicAdd(&block_nulls, nulls);
	}
	__syncthreads();
	if (shared)
		for (uint32_t i = threadIdx.x; i < job.shared_groups * job.words; i += threads)
		{
			uint32_t word = i % job.words;
			bool is_extreme = false;

			for (uint32_t a = 0, at = 1; a < job.n_aggregates; a++)
			{
				is_extreme |= at == word && job.aggregates[a].kind >= GJD_MIN;
				at += 1 + job.aggregates[a].wide;
			}
			if (shared_sums[i] == 0)
				continue;
			if (is_extreme)
				raise_word(job.sums + i, shared_sums[i]);
			else
				add_word(job.sums + i, shared_sums[i], false);
		}
	if (threadIdx.x != 0)
		return;
	if (block_seen > 0)
		atomicAdd((unsigned long long *) job.matched, block_seen);
	if (block_rows > 0)
		atomicAdd(&job.counters->rows, block_rows);
	if (block_nulls > 0)
		atomicAdd(&job.counters->nulls, block_nulls);
}

/* Input of the kernel that makes the elements */
struct element_job
{
	uint64_t groups;
	uint32_t grouping, n_aggregates, words, element_words;
	uint32_t kinds[GJD_MAX_AGGREGATES], wide[GJD_MAX_AGGREGATES];
	const uint64_t *sums;
	uint64_t *elements;
	const void *keys;
	uint32_t key_bytes;
	int64_t few[policy::most_constants];
	int64_t least;
	uint64_t span;
	reduction_counters *counters;
};

__device__ inline int64_t
value_of_group(const element_job &job, uint64_t group)
{
	if (job.grouping == GJD_BY_VALUE)
		return job.least + (int64_t) group;
	if (job.grouping == GJD_ONE_GROUP)
		return 0;
	if (job.keys == nullptr)
		return job.few[group];
	return job.key_bytes == 4 ? ((const int32_t *) job.keys)[group]
							  : ((const int64_t *) job.keys)[group];
}

__device__ inline void
write_element(const element_job &job, uint64_t group, const uint64_t *words, uint64_t *to)
{
	bool null = job.grouping == GJD_BY_VALUE && group == job.span;

	*to++ = null ? 0 : (uint64_t) value_of_group(job, group);
	*to++ = null;
	*to++ = *words++;
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

/* A thread a group: those with rows become elements, in any order. */
__global__ void __launch_bounds__(threads)
element_kernel(const __grid_constant__ element_job job)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint32_t lane = threadIdx.x % 32;
	uint64_t rounded = (job.groups + 31) / 32 * 32;

	for (uint64_t group = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; group < rounded;
		 group += stride)
	{
		const uint64_t *words = job.sums + group * job.words;
		bool has_rows = group < job.groups && *words > 0;
		bool wanted = has_rows || (job.grouping == GJD_ONE_GROUP && group == 0);
		uint32_t together = __ballot_sync(all_lanes, wanted);
		uint32_t with_rows = __ballot_sync(all_lanes, has_rows);
		unsigned long long first = 0;

		if (together == 0)
			continue;
		if (lane == 0)
		{
			first = atomicAdd(&job.counters->elements, (unsigned long long) __popc(together));
			atomicAdd(&job.counters->groups, (unsigned long long) __popc(with_rows));
		}
		first = __shfl_sync(all_lanes, first, 0) + __popc(together & ((1u << lane) - 1));
		if (wanted)
			write_element(job, group, words, job.elements + first * job.element_words);
	}
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

/* ---- launches ------------------------------------------------------------------------------ */

void
place_marks(const reduction_job &from, reduce_job *to)
{
	for (uint32_t c = 0; c < from.column->shape.n_carried; c++)
		if (from.asked->marked >> c & 1)
			to->marks[to->n_marks++] = place_column(from.column, c + 1);
	for (uint32_t i = 0; i < from.filter->n; i++)
	{
		uint32_t column = from.filter->conditions[i].column;

		if (column > 0 && (from.asked->marked >> (column - 1) & 1) != 0)
			to->marked_conditions |= 1u << i;
	}
}

reduce_job
reduce_job_of(const reduction_job &from, const match_output &out, uint64_t *matched)
{
	const gjd_reduction &asked = *from.asked;
	reduce_job job = {};

	job.bitmap = out.bitmap;
	job.tile_count = out.tile_count;
	job.filter = place_filter(from.column, *from.filter);
	place_marks(from, &job);
	job.visible_below = asked.visible_below;
	job.mapped = asked.map_bytes * 4;
	job.map = from.map;
	job.left_out = from.left_out;
	job.n_left_out = from.n_left_out;
	job.pages_per_extent = from.column->pages_per_extent;
	job.group = place_column(from.column, asked.grouping == GJD_BY_KEY ? 0 : asked.column);
	job.least = asked.least;
	job.span = asked.span;
	job.n_aggregates = asked.n_aggregates;
	job.words = reduction_sum_words(asked, from.column->shape);
	for (uint32_t i = 0; i < asked.n_aggregates; i++)
		job.aggregates[i] = {place_column(from.column, asked.aggregates[i].column),
							 asked.aggregates[i].kind,
							 gjd_aggregate_words(&asked.aggregates[i], &from.column->shape) - 1};
	job.sums = from.sums;
	job.keys = from.keyset->strategy == GJD_BY_CONSTANTS ? nullptr : from.keyset->parts.keys;
	job.n_keys = (uint32_t) from.keyset->count;
	std::copy_n(from.keyset->constants, policy::most_constants, job.few);
	job.counters = from.counters;
	job.matched = matched;

	uint64_t groups = possible_groups(from.keyset, asked);

	if (asked.grouping != GJD_DISTINCT && groups * job.words * 8 <= policy::shared_group_bytes)
		job.shared_groups = (uint32_t) groups;
	return job;
}

template <uint32_t grouping, uint32_t most>
void
launch_instance(const gjd_device *device, const column_view &view, const reduce_job &job)
{
	static visit_grid grid;
	uint32_t shared = job.shared_groups * job.words * 8;
	auto kernel = reduce_kernel<grouping, most>;

	kernel<<<grid.blocks(device, kernel, shared, view.tiles), threads, shared,
			 device->execute>>>(view, job);
	check_launch(device->execute, "could not reduce rows");
}

template <uint32_t grouping>
void
launch_grouping(const gjd_device *device, const column_view &view, const reduce_job &job)
{
	if (job.n_aggregates <= 1)
		launch_instance<grouping, 1>(device, view, job);
	else if (job.n_aggregates <= 3)
		launch_instance<grouping, 3>(device, view, job);
	else
		launch_instance<grouping, GJD_MAX_AGGREGATES>(device, view, job);
}

void
launch_elements(const reduction_job &from, cudaStream_t stream)
{
	const gjd_reduction &asked = *from.asked;
	const gjd_shape &shape = from.column->shape;
	uint64_t groups = possible_groups(from.keyset, asked);
	uint64_t most = (uint64_t) from.column->device->properties.multiProcessorCount * 8;
	uint32_t blocks = (uint32_t) std::max<uint64_t>(
		1, std::min<uint64_t>(most, (groups + threads - 1) / threads));
	element_job job = {groups, asked.grouping, asked.n_aggregates,
					   reduction_sum_words(asked, shape), gjd_element_words(&asked, &shape), {}, {},
					   from.sums, from.elements,
					   from.keyset->strategy == GJD_BY_CONSTANTS ? nullptr
																 : from.keyset->parts.keys,
					   shape.key_bytes, {}, asked.least, asked.span, from.counters};

	if (asked.grouping == GJD_DISTINCT)
		bits_kernel<<<blocks, threads, 0, stream>>>(from.sums, groups, from.counters);
	else
	{
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

}  // namespace

uint64_t
possible_groups(const gjd_keyset *keyset, const gjd_reduction &asked)
{
	switch (asked.grouping)
	{
		case GJD_BY_KEY:
			return keyset->count;
		case GJD_BY_VALUE:
			return asked.span + 1;
		case GJD_DISTINCT:
			return asked.span / 64;
		default:
			return 1;
	}
}

/* A group's words while it is added up: all of an element but its value and the flag */
uint32_t
reduction_sum_words(const gjd_reduction &asked, const gjd_shape &shape)
{
	uint32_t words = gjd_element_words(&asked, &shape);

	return asked.grouping == GJD_DISTINCT ? words : words - 2;
}

void
launch_reduction(const reduction_job &from, const match_output &out, uint64_t *matched)
{
	gjd_device *device = from.column->device;
	column_view view = view_of(from.column);
	reduce_job job = reduce_job_of(from, out, matched);

	view.tiles = out.tiles;
	if (view.tiles > 0)
		switch (from.asked->grouping)
		{
			case GJD_BY_KEY:
				launch_grouping<GJD_BY_KEY>(device, view, job);
				break;
			case GJD_BY_VALUE:
				launch_grouping<GJD_BY_VALUE>(device, view, job);
				break;
			case GJD_DISTINCT:
				launch_instance<GJD_DISTINCT, 1>(device, view, job);
				break;
			default:
				launch_grouping<GJD_ONE_GROUP>(device, view, job);
		}
	launch_elements(from, device->execute);
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
