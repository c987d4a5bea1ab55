/*
 * reduce.cu
 *	  Reductions: adds up the rows that a scan has found and that are known to be visible, and
 *	  leaves only the others in the bitmap.
 *
 * Each group has words to which rows are added: their number, then those of the aggregates. All
 * words are zero at first. For the least and the greatest value, values are mapped to unsigned
 * numbers so that the greatest number is kept in both cases. Every addition is exact and can be
 * made in any order, so atomic operations suffice.
 *
 * A warp visits 32 rows at a time. While their group stays the same, which is usual for pages in
 * key order, the lanes add to registers; only when it changes are these added up over the warp, and
 * to the group. Rows of different groups are added one by one: to words in shared memory if there
 * are few groups, otherwise to those in device memory. How many groups columns have is not known
 * before: the first ones that a block meets are added up in its shared memory.
 */
#include "elements.cuh"
#include "launch_batch.cuh"
#include "reduce.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t threads = policy::gather_threads;
constexpr uint32_t warps = threads / 32;

struct reduce_job
{
	uint32_t *bitmap;
	uint64_t *tile_count;
	placed_filter filter;
	uint32_t marked_conditions; /* bit i: on a column with marks */
	uint32_t n_marks;
	placed_column marks[GJD_MAX_CARRIED];
	uint64_t visible_below, mapped; /* blocks; behind the first, as many are in the map */
	const uint8_t *map; /* NULL: few_map */
	uint8_t few_map[policy::few_map_bytes];
	const uint32_t *left_out;
	uint32_t n_left_out, pages_per_extent;
	placed_column key, group;
	int64_t least;
	uint64_t span;
	group_table table;
	const uint32_t *weights; /* of keys, or NULL */
	group_sums sums;
	const void *keys; /* of the set, ascending */
	uint32_t n_keys;
	pair_list pairs; /* of the set, if its keys have rests ... */
	placed_column rest; /* ... which are in this column */
	reduction_counters *counters;
	uint64_t *matched;
	bool finishes; /* does the last block make the elements? */
	element_job elements;
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

	if (block < job.visible_below || behind >= job.mapped)
		return block < job.visible_below;

	uint32_t byte = job.map == nullptr ? job.few_map[behind / 4] : __ldg(job.map + behind / 4);

	return (byte >> behind % 4 * 2 & 1) != 0;
}

__device__ inline bool
is_left_out(const reduce_job &job, uint32_t page)
{
	uint32_t place = rank_in(job.left_out, job.n_left_out, page);

	return place < job.n_left_out && __ldg(job.left_out + place) == page;
}

/* Returns the number of a key in the set, which contains it. */
__device__ inline uint32_t
rank_of(const reduce_job &job, int64_t key)
{
	return job.key.bytes == 4 ? rank_in((const int32_t *) job.keys, job.n_keys, key)
							  : rank_in((const int64_t *) job.keys, job.n_keys, key);
}

/* The number of the key of a lane's last row: in key order, the next row usually has the same. */
template <bool proven>
struct rank_cache
{
	int64_t key = 0;
	[[maybe_unused]] int64_t rest = 0;
	uint32_t rank = no_group;

	__device__ uint32_t
	of(const reduce_job &job, const char *extent, uint32_t row)
	{
		int64_t own = value_of(job.key, extent, row);

		if constexpr (proven)
		{
			int64_t own_rest = value_of(job.rest, extent, row);

			if (own != key || own_rest != rest || rank == no_group)
				rank = job.pairs.rank_of(own, own_rest);
			rest = own_rest;
		}
		else if (own != key || rank == no_group)
			rank = rank_of(job, own);
		key = own;
		return rank;
	}
};

/* ---- kernels ------------------------------------------------------------------------------- */

/*
 * Finds the places of the groups of a warp's rows; returns true if this lane's row has one. *claims
 * is the number of the warp's new groups that have not been counted, and *too_many is set when
 * there are too many groups. Called by all lanes.
 */
__device__ inline bool
find_groups(const reduce_job &job, char *const *extents, uint32_t extent_number, uint32_t row,
			bool wanted, uint32_t *claims, bool *too_many, uint32_t *group)
{
	bool pending = wanted && !*too_many;
	bool found = pending;
	group_search search = {};

	if (pending)
		search = begin_search(job.table, extents[extent_number], extent_number, row);
	while (__any_sync(all_lanes, pending))
	{
		bool claimed = false;

		if (pending)
			pending = !continue_search(job.table, extents, search, &claimed);
		*claims += __popc(__ballot_sync(all_lanes, claimed));
		if (*claims < 32 && !__any_sync(all_lanes, pending))
			break;
		*too_many = count_groups(job.table, *claims);
		*claims = 0;
		if (*too_many)
		{
			found = found && !pending;
			break;
		}
	}
	*group = (uint32_t) search.place;
	return found;
}

/* Finds the group of a row by its value; returns true if it has one. The last is that of nulls. */
__device__ inline bool
find_value(const reduce_job &job, const char *extent, uint32_t row, bool wanted, bool *null,
		   uint32_t *group)
{
	uint64_t place = 0;

	*null = wanted && is_null(job.group, extent, row);
	if (wanted && !*null)
		place = (uint64_t) value_of(job.group, extent, row) - (uint64_t) job.least;
	*group = *null ? (uint32_t) job.span : (uint32_t) place;
	return wanted && place < job.span;
}

/* Asks for the values of a tile that are grouped by and added up. */
template <uint32_t grouping>
__device__ inline void
prefetch_values(const reduce_job &job, const char *extent, uint32_t row, uint32_t lane)
{
	if (grouping == GJD_BY_VALUE || grouping == GJD_DISTINCT)
		prefetch_column(job.group, extent, row, lane);
	for (uint32_t i = 0; grouping == GJD_BY_COLUMNS && i < job.table.n_columns; i++)
		prefetch_column(job.table.columns[i], extent, row, lane);
	for (uint32_t i = 0; i < job.sums.n_aggregates; i++)
		prefetch_column(job.sums.aggregates[i].column, extent, row, lane);
}

/* Sets the bit of a distinct value. */
__device__ inline void
mark_value(const reduce_job &job, uint32_t value)
{
	uint32_t *word = (uint32_t *) job.sums.all + value / 32;

	if ((*(volatile uint32_t *) word >> value % 32 & 1) == 0)
		atomicOr(word, 1u << value % 32);
}

struct placed_reduction
{
	column_view column;
	reduce_job job;
};

/*
 * most: at least the number of aggregates that are kept in registers
 * proven: keys are numbered together with their rests (prove.cu has left only rows that have both).
 */
template <uint32_t grouping, uint32_t most, bool weighted, bool proven>
__device__ __forceinline__ void
reduce_rows(const column_view &column, const reduce_job &job)
{
	constexpr bool by_key = grouping == GJD_BY_KEY;
	extern __shared__ uint64_t shared_sums[];
	__shared__ visit_space spaces[warps];
	__shared__ uint32_t block_seen, block_rows, block_nulls, block_left;
	__shared__ bool is_last;
	uint32_t lane = threadIdx.x % 32;
	uint32_t seen = 0, reduced = 0, nulls = 0, kept = 0;
	group_cache<grouping, most, weighted> cache;
	rank_cache<proven> ranks;
	uint32_t claims = 0; /* number of the warp's new groups that have not been counted */
	bool too_many = false; /* has the warp learnt that there are too many groups? */

	if (threadIdx.x == 0)
		block_seen = block_rows = block_nulls = block_left = 0;
	if (grouping != GJD_DISTINCT)
		clear_shared<grouping>(job.sums, shared_sums);
	__syncthreads();

	visit_rows<true>(
		column, job.bitmap, job.tile_count, spaces[threadIdx.x / 32],
		[&](const char *extent, uint32_t row) {
			prefetch_column(placed_column{column.blocks_at, 0, 4}, extent, row, lane);
			if (by_key || weighted)
				prefetch_column(job.key, extent, row, lane);
			if (proven)
				prefetch_column(job.rest, extent, row, lane);
			prefetch_values<grouping>(job, extent, row, lane);
		},
		[&](const char *extent, uint32_t extent_number, uint32_t row, bool active) {
			bool taken = active;
			bool passing, reduces;
			uint32_t group = 0;
			uint32_t weight = 1;
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
				reduces = find_value(job, extent, row, reduces, &null, &group);
			if (grouping == GJD_BY_COLUMNS)
				reduces = find_groups(job, column.extents, extent_number, row, reduces, &claims,
									  &too_many, &group);
			reduced += reduces;
			kept += passing && !reduces;
			nulls += null && grouping == GJD_DISTINCT;
			if (grouping == GJD_DISTINCT)
			{
				if (reduces && !null)
					mark_value(job, group);
				return passing && !reduces;
			}
			if (reduces && (by_key || weighted))
			{
				uint32_t rank = ranks.of(job, extent, row);

				if (weighted)
					weight = __ldg(job.weights + rank);
				if (by_key)
					group = rank;
			}
			add_rows(job.sums, shared_sums, cache, reduces, group, extent, row, weight);
			return passing && !reduces;
		});
	if (grouping != GJD_DISTINCT)
		cache.flush(job.sums, shared_sums);
	if (claims > 0)
		count_groups(job.table, claims);

	seen = __reduce_add_sync(all_lanes, seen);
	reduced = __reduce_add_sync(all_lanes, reduced);
	nulls = __reduce_add_sync(all_lanes, nulls);
	kept = __reduce_add_sync(all_lanes, kept);
	if (lane == 0)
	{
		atomicAdd(&block_seen, seen);
		atomicAdd(&block_rows, reduced);
		atomicAdd(&block_nulls, nulls);
		atomicAdd(&block_left, kept);
	}
	__syncthreads();
	if (grouping != GJD_DISTINCT)
		add_shared_up<grouping>(job.sums, shared_sums);
	__syncthreads();
	if (threadIdx.x == 0)
	{
		add_count((unsigned long long *) job.matched, block_seen);
		add_count(&job.counters->rows, block_rows);
		add_count(&job.counters->nulls, block_nulls);
		add_count(&job.counters->left, block_left);
		is_last = job.finishes && is_last_block(job.counters);
	}
	__syncthreads();
	if (is_last)
		finish_elements(job.elements);
}

template <uint32_t grouping, uint32_t most, bool weighted, bool proven>
__global__ void __launch_bounds__(threads)
reduce_kernel(const __grid_constant__ placed_reduction job)
{
	reduce_rows<grouping, most, weighted, proven>(job.column, job.job);
}

template <uint32_t grouping, uint32_t most>
__global__ void __launch_bounds__(threads)
reduce_batch_kernel(const char *jobs)
{
	__shared__ job_copy<placed_reduction> copy;
	const placed_reduction &job = copy.fetch(jobs);

	reduce_rows<grouping, most, false, false>(job.column, job.job);
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

/* Returns the number of groups that blocks add up in shared memory. */
uint32_t
shared_groups_of(uint64_t groups, uint32_t words, const gjd_reduction &asked)
{
	uint32_t near = policy::most_near_groups;

	if (asked.grouping == GJD_DISTINCT)
		return 0;
	if (asked.grouping != GJD_BY_COLUMNS)
		return groups * words * 8 <= policy::shared_group_bytes ? (uint32_t) groups : 0;
	while (near * (words * 8 + 4) > policy::shared_group_bytes)
		near /= 2;
	return near;
}

group_sums
group_sums_of(const reduction_job &from)
{
	const gjd_reduction &asked = *from.asked;
	group_sums sums = {};

	sums.n_aggregates = asked.n_aggregates;
	sums.words = reduction_sum_words(asked, from.column->shape);
	for (uint32_t i = 0; i < asked.n_aggregates; i++)
		sums.aggregates[i] = {place_column(from.column, asked.aggregates[i].column),
							  asked.aggregates[i].kind,
							  gjd_aggregate_words(&asked.aggregates[i], &from.column->shape) - 1};
	sums.all = from.sums;
	sums.shared_groups = shared_groups_of(possible_groups(from.keyset, asked), sums.words, asked);
	return sums;
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
	job.map = from.few_map == nullptr ? from.map : nullptr;
	if (from.few_map != nullptr)
		std::copy_n(from.few_map, asked.map_bytes, job.few_map);
	job.left_out = from.left_out;
	job.n_left_out = from.n_left_out;
	job.pages_per_extent = from.column->pages_per_extent;
	job.key = place_column(from.column, 0);
	job.group = place_column(from.column, asked.column);
	job.least = asked.least;
	job.span = asked.span;
	job.table = group_table_of(from);
	job.weights = from.weights;
	job.sums = group_sums_of(from);
	job.keys = from.keyset->parts.keys;
	job.n_keys = (uint32_t) from.keyset->count;
	if (from.rest_column > 0)
	{
		job.pairs = pairs_of(from.keyset);
		job.rest = place_column(from.column, from.rest_column);
	}
	job.counters = from.counters;
	job.matched = matched;
	return job;
}

template <uint32_t grouping, uint32_t most, bool weighted, bool proven = false>
void
launch_instance(gjd_device *device, const column_view &view, const reduce_job &job)
{
	static visit_grid grid;
	uint32_t owner_bytes = grouping == GJD_BY_COLUMNS ? 4 : 0;
	uint32_t shared = job.sums.shared_groups * (job.sums.words * 8 + owner_bytes);
	auto kernel = reduce_kernel<grouping, most, weighted, proven>;

	uint32_t blocks = grid.blocks(device, kernel, shared, view.tiles);
	placed_reduction placed = {view, job};

	if constexpr (!weighted && !proven && (grouping == GJD_ONE_GROUP || grouping == GJD_BY_KEY))
		launch_or_postpone<placed_reduction, reduce_kernel<grouping, most, false, false>,
						   reduce_batch_kernel<grouping, most>, threads>(device, stage_reduce,
																		 placed, blocks, shared,
																		 true);
	else
	{
		settle(device);
		kernel<<<blocks, threads, shared, device->execute>>>(placed);
		check_launch(device->execute, "could not reduce rows");
	}
}

template <uint32_t grouping>
void
launch_grouping(gjd_device *device, const column_view &view, const reduce_job &job)
{
	if (job.pairs.keys != nullptr && job.weights != nullptr)
		launch_instance<grouping, GJD_MAX_AGGREGATES, true, true>(device, view, job);
	else if (grouping == GJD_BY_KEY && job.pairs.keys != nullptr && job.sums.n_aggregates <= 3)
		launch_instance<GJD_BY_KEY, 3, false, true>(device, view, job);
	else if (grouping == GJD_BY_KEY && job.pairs.keys != nullptr)
		launch_instance<GJD_BY_KEY, GJD_MAX_AGGREGATES, false, true>(device, view, job);
	else if (job.weights != nullptr && job.sums.n_aggregates <= 3)
		launch_instance<grouping, 3, true>(device, view, job);
	else if (job.weights != nullptr)
		launch_instance<grouping, GJD_MAX_AGGREGATES, true>(device, view, job);
	else if (job.sums.n_aggregates <= 1)
		launch_instance<grouping, 1, false>(device, view, job);
	else if (job.sums.n_aggregates <= 3)
		launch_instance<grouping, 3, false>(device, view, job);
	else
		launch_instance<grouping, GJD_MAX_AGGREGATES, false>(device, view, job);
}

}  // namespace

void
launch_reduction(const reduction_job &from, const match_output &out, uint64_t *matched)
{
	gjd_device *device = from.column->device;
	column_view view = view_of(from.column);
	reduce_job job = reduce_job_of(from, out, matched);

	view.tiles = out.tiles;
	job.elements = element_job_of(from);
	job.finishes =
		view.tiles > 0 && !from.asked->only_shared && elements_are_few(job.elements);
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
				launch_instance<GJD_DISTINCT, 1, false>(device, view, job);
				break;
			case GJD_BY_COLUMNS:
				launch_grouping<GJD_BY_COLUMNS>(device, view, job);
				break;
			default:
				launch_grouping<GJD_ONE_GROUP>(device, view, job);
		}
	if (job.finishes)
		return;
	settle(device);
	launch_share(from, out);
	launch_elements(from, job.elements);
}

}  // namespace gjd
