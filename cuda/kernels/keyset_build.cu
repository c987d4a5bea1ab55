/*
 * keyset_build.cu
 *	  The kernels that build filters and tables from the keys.
 */
#include "launch_batch.cuh"

namespace gjd
{

namespace
{

template <class Key>
struct build_job
{
	gjd_strategy strategy;
	uint32_t count;
	Key least;
	keyset_parts parts;
};

/* Puts a key into the first bucket with room, starting at its own. */
template <class Key>
__device__ void
insert_key(const keyset_parts &parts, Key key)
{
	constexpr uint32_t places = bucket_table<Key>::places;
	uint32_t bucket = __umulhi(full_hash(key), parts.buckets);

	for (;;)
	{
		uint32_t place = atomicAdd(&parts.fill[bucket], 1);

		if (place < places)
		{
			((Key *) parts.table)[(uint64_t) bucket * places + place] = key;
			return;
		}
		bucket = bucket + 1 == parts.buckets ? 0 : bucket + 1;
	}
}

template <class Key>
__device__ void
set_prefilter(const keyset_parts &parts, uint32_t hash)
{
	word_and_rest at(hash, parts.filter_words);

	if (parts.filter_words > 0)
		set_filter_bit(parts.filter + at.word, at.first());
}

template <class Key>
__device__ void
build_key(const build_job<Key> &job, Key key)
{
	const keyset_parts &parts = job.parts;
	uint64_t index = (uint64_t) (int64_t) key - (uint64_t) (int64_t) job.least;
	uint32_t hash = quick_hash(key);

	switch (job.strategy)
	{
		case GJD_BY_CONSTANTS:
			return;
		case GJD_BY_SPAN:
			set_filter_bit(parts.filter + (index >> 5), (uint32_t) index);
			return;
		case GJD_BY_GLOBAL_SPAN:
			set_prefilter<Key>(parts, hash);
			set_filter_bit(parts.global + (index >> 5), (uint32_t) index);
			return;
		case GJD_BY_ONE_BIT:
		{
			uint32_t shift = (uint32_t) __clz((int) parts.filter_words) + 1;

			set_filter_bit(parts.filter + (hash >> shift), hash >> (shift - 5));
			break;
		}
		case GJD_BY_TWO_BITS:
		{
			word_and_rest at(hash, parts.filter_words);

			set_filter_bit(parts.filter + at.word, at.first());
			set_filter_bit(parts.filter + at.word, at.second());
			break;
		}
		default:
		{
			word_and_rest at(second_hash(hash), parts.global_words);

			set_prefilter<Key>(parts, hash);
			set_filter_bit(parts.global + at.word, at.first());
			set_filter_bit(parts.global + at.word, at.second());
		}
	}
	insert_key(parts, key);
}

/* Fills the unused places of a bucket: see the head of keyset.cuh. */
template <class Key>
__device__ void
fill_bucket(const build_job<Key> &job, uint32_t bucket)
{
	constexpr uint32_t places = bucket_table<Key>::places;
	Key *slots = (Key *) job.parts.table + (uint64_t) bucket * places;
	uint32_t used = min(job.parts.fill[bucket], places);
	Key repeated = used > 0 ? slots[0] : ((const Key *) job.parts.keys)[0];

	for (uint32_t i = used; i < places; i++)
		slots[i] = repeated;
}

/* Adds the keys to structures that have been zeroed. */
template <class Key>
__global__ void __launch_bounds__(policy::build_threads)
build_kernel(build_job<Key> job)
{
	uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;

	if (i < job.count)
		build_key(job, ((const Key *) job.parts.keys)[i]);
}

template <class Key>
__global__ void __launch_bounds__(policy::build_threads)
fill_kernel(build_job<Key> job)
{
	uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;

	if (i < job.parts.buckets)
		fill_bucket(job, (uint32_t) i);
}

/*
 * The same in one launch of one block, which is faster than three launches for small sets. Keys
 * that are still on the host are fetched from there first: for so few, starting a copy and making
 * this stream wait for it would take the host longer than the transfer takes.
 *
 * The host is notified when all threads have reached the last barrier, after a system-wide fence:
 * from then on the kernel touches none of the memory that it has read or written.
 */
template <class Key>
struct block_build_job
{
	build_job<Key> job;
	uint4 *zero;
	uint32_t zero_vectors;
	key_transfer transfer;
};

template <class Key>
__device__ __forceinline__ void
build_in_block(const build_job<Key> &job, uint4 *zero, uint32_t zero_vectors,
			   const key_transfer &transfer)
{
	for (uint32_t i = threadIdx.x; i < zero_vectors; i += blockDim.x)
		zero[i] = uint4{0, 0, 0, 0};
	for (uint32_t i = threadIdx.x; i < transfer.vectors; i += blockDim.x)
		transfer.to[i] = transfer.from[i];
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < job.count; i += blockDim.x)
		build_key(job, ((const Key *) job.parts.keys)[i]);
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < job.parts.buckets; i += blockDim.x)
		fill_bucket(job, i);
	if (transfer.built == nullptr)
		return;
	__syncthreads();
	if (threadIdx.x == 0)
	{
		__threadfence_system();
		*transfer.built = 1;
	}
}

template <class Key>
__global__ void __launch_bounds__(1024)
block_build_kernel(const __grid_constant__ block_build_job<Key> job)
{
	build_in_block(job.job, job.zero, job.zero_vectors, job.transfer);
}

template <class Key>
__global__ void __launch_bounds__(1024)
block_build_batch_kernel(const char *jobs)
{
	__shared__ job_copy<block_build_job<Key>> copy;
	const block_build_job<Key> &job = copy.fetch(jobs);

	build_in_block(job.job, job.zero, job.zero_vectors, job.transfer);
}

template <class Key>
void
build(gjd_keyset *keyset, char *zero, uint64_t zero_bytes, const key_transfer &transfer)
{
	cudaStream_t stream = keyset->device->execute;
	build_job<Key> job = {keyset->strategy, (uint32_t) keyset->count, (Key) keyset->least,
						  keyset->parts};
	uint32_t threads = policy::build_threads;

	if (is_built_by_block(keyset, zero_bytes))
	{
		block_build_job<Key> whole = {job, (uint4 *) zero, (uint32_t) (zero_bytes / 16), transfer};

		launch_or_postpone<block_build_job<Key>, block_build_kernel<Key>,
						   block_build_batch_kernel<Key>, 1024>(keyset->device, stage_build, whole,
																1, 0, false);
		return;
	}
	check(cudaMemsetAsync(zero, 0, zero_bytes, stream), "could not clear a key set");
	build_kernel<Key><<<(job.count + threads - 1) / threads, threads, 0, stream>>>(job);
	check_launch(stream, "could not build a key set");
	if (job.parts.buckets == 0)
		return;
	fill_kernel<Key><<<(job.parts.buckets + threads - 1) / threads, threads, 0, stream>>>(job);
	check_launch(stream, "could not build a key set");
}

}  // namespace

bool
is_built_by_block(const gjd_keyset *keyset, uint64_t zero_bytes)
{
	return keys_in(keyset) <= policy::block_build_most_keys && zero_bytes <= (256 << 10);
}

void
launch_build(gjd_keyset *keyset, char *zero, uint64_t zero_bytes, const key_transfer &transfer)
{
	if (keyset->key_bytes == 4)
		build<int32_t>(keyset, zero, zero_bytes, transfer);
	else
		build<int64_t>(keyset, zero, zero_bytes, transfer);
}

}  // namespace gjd
