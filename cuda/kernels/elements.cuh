/*
 * elements.cuh
 *	  How groups become the elements of a result: in a kernel for that, or in the last block of the
 *	  kernel that adds up the groups.
 */
#ifndef GPUJOIN_CUDA_KERNELS_ELEMENTS_CUH
#define GPUJOIN_CUDA_KERNELS_ELEMENTS_CUH

#include "hash.cuh"
#include "report.cuh"

namespace gjd
{

/* Input of the kernels that make and deliver the elements */
struct element_job
{
	uint64_t groups;
	uint32_t grouping, n_aggregates, words, element_words, group_words;
	uint32_t kinds[GJD_MAX_AGGREGATES], wide[GJD_MAX_AGGREGATES];
	uint64_t *sums;
	uint64_t *elements; /* for GJD_DISTINCT, the sums */
	const void *keys;
	uint32_t key_bytes;
	bool numbered; /* with rests, the value of a key's group is its number */
	int64_t least;
	uint64_t span;
	reduction_counters *counters;
	group_table table; /* GJD_BY_COLUMNS */
	const uint32_t *shared; /* a bit for each group that is wanted, or NULL if all are */
	char *const *extents;
	uint64_t *to; /* address of the caller's memory for the first elements, as many as fit */
	uint64_t capacity;
	report_job report; /* by finish_elements(); its address is NULL if another kernel reports */
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

/* The threads that do a piece of work together: those of a block or of all blocks */
struct crew
{
	uint64_t thread, threads;
};

__device__ inline crew
block_crew()
{
	return {threadIdx.x, blockDim.x};
}

__device__ inline crew
grid_crew()
{
	return {(uint64_t) blockIdx.x * blockDim.x + threadIdx.x, (uint64_t) gridDim.x * blockDim.x};
}

/*
 * A thread a group: those with rows, if they are wanted, become elements, in any order. All lanes
 * of a warp take part in each round.
 */
__device__ inline void
write_elements(const element_job &job, crew crew)
{
	uint32_t lane = threadIdx.x % 32;
	uint64_t rounded = (job.groups + 31) / 32 * 32;
	bool counted = job.grouping == GJD_BY_COLUMNS; /* have groups been counted already? */

	if (counted && job.counters->groups > job.table.room)
		return;
	for (uint64_t group = crew.thread; group < rounded; group += crew.threads)
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

/* Counts the bits of a bitmap, which is the result itself. */
__device__ inline void
count_bits(const element_job &job, crew crew)
{
	uint32_t bits = 0;

	for (uint64_t i = crew.thread; i < job.groups; i += crew.threads)
		bits += (uint32_t) __popcll(job.sums[i]);
	bits = __reduce_add_sync(all_lanes, bits);
	if (threadIdx.x % 32 == 0 && bits > 0)
		atomicAdd(&job.counters->groups, (unsigned long long) bits);
	if (crew.thread == 0)
		job.counters->elements = job.groups;
}

__device__ inline void
make_elements(const element_job &job, crew crew)
{
	if (job.grouping == GJD_DISTINCT)
		count_bits(job, crew);
	else
		write_elements(job, crew);
}

/* Writes the first elements into the caller's memory, after all of them have been made. */
__device__ inline void
deliver_elements(const element_job &job, crew crew)
{
	uint64_t n = min((uint64_t) job.counters->elements, job.capacity) * job.element_words;

	for (uint64_t i = crew.thread; i < n; i += crew.threads)
		job.to[i] = job.elements[i];
}

/*
 * Does all of that for few groups, in one block. A barrier separates the steps: what all threads
 * of the block have written before, atomically or not, each of them sees after it. The report
 * comes after a system-wide fence: once it is written, the kernel no longer touches the caller's
 * memory. Not inlined, so that the many kernels that add up groups have it once.
 */
static __device__ __noinline__ void
finish_elements(const element_job &job)
{
	make_elements(job, block_crew());
	__syncthreads();
	deliver_elements(job, block_crew());
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	__threadfence_system();
	if (job.report.report != nullptr)
		write_report(job.report);
}

/* ---- the last block ------------------------------------------------------------------------- */

__device__ inline void
add_count(unsigned long long *to, uint32_t more)
{
	if (more > 0)
		atomicAdd(to, (unsigned long long) more);
}

/*
 * Returns true if all other blocks have added everything. Called by one thread of each block, after
 * a barrier that follows all its additions: the fence before the count publishes them, and the
 * one after it lets the last block see those of the others, which the next barrier passes on to
 * its threads.
 */
__device__ inline bool
is_last_block(reduction_counters *counters)
{
	__threadfence();

	bool last = atomicAdd(&counters->blocks_done, 1) == gridDim.x - 1;

	__threadfence();
	return last;
}

/* ---- elements.cu ---------------------------------------------------------------------------- */

element_job element_job_of(const reduction_job &from);
bool elements_are_few(const element_job &job);
void launch_share(const reduction_job &from, const match_output &out);
void launch_elements(const reduction_job &from, const element_job &job);

}  // namespace gjd

#endif
