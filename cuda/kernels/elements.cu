/*
 * elements.cu
 *	  The result of a reduction, made from its groups, and its first delivery.
 */
#include "elements.cuh"
#include "rows.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t threads = policy::gather_threads;

__global__ void __launch_bounds__(threads)
element_kernel(const __grid_constant__ element_job job)
{
	make_elements(job, grid_crew());
}

__global__ void __launch_bounds__(threads)
finish_kernel(const __grid_constant__ element_job job)
{
	finish_elements(job);
}

__global__ void __launch_bounds__(threads)
deliver_elements_kernel(const __grid_constant__ element_job job)
{
	deliver_elements(job, grid_crew());
	__threadfence_system();
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

}  // namespace

/* Has a kernel look up the rows of the rest, if only groups that they have are wanted. */
void
launch_share(const reduction_job &from, const match_output &out)
{
	static visit_grid grid;
	const gjd_device *device = from.column->device;
	column_view view = view_of(from.column);

	view.tiles = out.tiles;
	if (!from.asked->only_shared || view.tiles == 0)
		return;
	share_kernel<<<grid.blocks(device, share_kernel, 0, view.tiles), threads, 0,
				   device->execute>>>(view, group_table_of(from), out.bitmap, out.tile_count,
									  from.shared);
	check_launch(device->execute, "could not look up the rest");
}

element_job
element_job_of(const reduction_job &from)
{
	const gjd_reduction &asked = *from.asked;
	const gjd_shape &shape = from.column->shape;
	element_job job = {};

	job.groups = group_places(from.keyset, asked);
	job.grouping = asked.grouping;
	job.n_aggregates = asked.n_aggregates;
	job.words = reduction_sum_words(asked, shape);
	job.element_words = gjd_element_words(&asked, &shape);
	job.group_words = gjd_group_words(&asked);
	job.sums = from.sums;
	job.elements = asked.grouping == GJD_DISTINCT ? from.sums : from.elements;
	job.keys = from.keyset->parts.keys;
	job.key_bytes = shape.key_bytes;
	job.numbered = from.keyset->has_rests;
	job.least = asked.least;
	job.span = asked.span;
	job.counters = from.counters;
	job.table = group_table_of(from);
	job.shared = from.shared;
	job.extents = view_of(from.column).extents;
	job.to = (uint64_t *) from.first_elements;
	job.capacity = from.first_capacity;
	if (from.report != nullptr)
		job.report = *from.report;
	for (uint32_t i = 0; i < asked.n_aggregates; i++)
	{
		job.kinds[i] = asked.aggregates[i].kind;
		job.wide[i] = gjd_aggregate_words(&asked.aggregates[i], &shape) - 1;
	}
	return job;
}

/* Returns true if one block makes all elements: it takes less time than another launch. */
bool
elements_are_few(const element_job &job)
{
	return job.groups <= policy::block_element_groups;
}

void
launch_elements(const reduction_job &from, const element_job &job)
{
	gjd_device *device = from.column->device;
	cudaStream_t stream = device->execute;
	uint64_t processors = (uint64_t) device->properties.multiProcessorCount;
	uint64_t blocks = std::min<uint64_t>(processors * 8, (job.groups + threads - 1) / threads);
	uint64_t delivered = std::min(job.capacity, possible_groups(from.keyset, *from.asked));
	uint64_t needed = (delivered * job.element_words + threads - 1) / threads;

	if (elements_are_few(job))
	{
		finish_kernel<<<1, threads, 0, stream>>>(job);
		check_launch(stream, "could not finish groups");
		return;
	}
	element_kernel<<<(uint32_t) blocks, threads, 0, stream>>>(job);
	check_launch(stream, "could not finish groups");
	if (delivered > 0)
	{
		deliver_elements_kernel<<<(uint32_t) std::min(processors, needed), threads, 0, stream>>>(
			job);
		check_launch(stream, "could not deliver groups");
	}
	if (from.report != nullptr)
		launch_report(device, *from.report);
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

}  // namespace gjd
