/*
 * match.cuh
 *	  The scan: reads the keys of a column once, and produces a bitmap over positions and the
 *	  count of each tile, or only the total count.
 *
 * If the pages' bounds tell which tiles can have a match (skip.cu), it reads only those.
 *
 * A warp owns a tile. Order requires no communication between tiles: the bitmap is in order by
 * construction, and the summed counts of the tiles give the start of each tile's results in a
 * list. There are no partial tiles (see column.cuh): rows after the last page are invalid.
 */
#ifndef GPUJOIN_CUDA_KERNELS_MATCH_CUH
#define GPUJOIN_CUDA_KERNELS_MATCH_CUH

#include "compact.cuh"

namespace gjd
{

struct match_output
{
	uint32_t *bitmap;	  /* NULL if only the total is wanted */
	uint64_t *tile_count; /* one per tile */
	uint64_t *total;	  /* incremented if there is no bitmap */
	uint64_t tiles;		  /* number of tiles to scan; 0: all that the column has now */
	uint32_t *list = nullptr; /* tiles to scan; all of them if NULL */
	uint32_t *listed = nullptr; /* their number */
};

template <class Key>
struct key_vector;

template <>
struct key_vector<int32_t>
{
	using type = int4;
	static constexpr uint32_t keys = 4;
	static __device__ int32_t
	get(const int4 &v, uint32_t i)
	{
		return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
	}
};

template <>
struct key_vector<int64_t>
{
	using type = longlong2;
	static constexpr uint32_t keys = 2;
	static __device__ int64_t
	get(const longlong2 &v, uint32_t i)
	{
		return i == 0 ? v.x : v.y;
	}
};

/*
 * Loads past the L1 cache, which would only hold each line for a moment. Volatile, because the
 * loads of the next tile must not be moved after the work on this one.
 */
template <class Vector>
__device__ inline Vector
load_streaming(const Vector *from)
{
	union
	{
		uint32_t words[4];
		Vector vector;
	} loaded;

	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
				 : "=r"(loaded.words[0]), "=r"(loaded.words[1]), "=r"(loaded.words[2]),
				   "=r"(loaded.words[3])
				 : "l"(from));
	return loaded.vector;
}

/* The part of a tile that a lane has in registers at a time: eight vectors. */
template <class Key>
struct key_batch
{
	using vector = typename key_vector<Key>::type;
	static constexpr int per = key_vector<Key>::keys;
	static constexpr int vectors = 8;
	static constexpr int a_tile = 32 / per / vectors;

	vector loaded[vectors];

	__device__ void
	load(const Key *keys, int batch, uint32_t lane)
	{
#pragma unroll
		for (int i = 0; i < vectors; i++)
			loaded[i] = load_streaming((const vector *) keys + (batch * vectors + i) * 32 + lane);
	}

	/*
	 * Tests the keys, the last first, because each answer is shifted in at the mask's low end.
	 * Candidates of an inexact filter are kept after each vector, so that the tests of a vector
	 * overlap.
	 */
	template <class Filter, class Store>
	__device__ uint32_t
	test(const Filter &filter, const uint32_t *shared, uint32_t mask, const Store &store,
		 uint32_t &place) const
	{
#pragma unroll
		for (int i = vectors - 1; i >= 0; i--)
		{
			uint32_t answers[per];

#pragma unroll
			for (int j = per - 1; j >= 0; j--)
			{
				answers[j] = filter.test(key_vector<Key>::get(loaded[i], j), shared);
				mask = __funnelshift_l(answers[j], mask, 1);
			}
			if (!Filter::exact)
			{
#pragma unroll
				for (int j = per - 1; j >= 0; j--)
					Store::keep(answers[j], key_vector<Key>::get(loaded[i], j), place);
				store.limit(place);
			}
		}
		return mask;
	}
};

/* The parameters of a scan */
template <class Key, class Filter>
struct scan_job
{
	column_view column;
	Filter filter;
	bucket_table<Key> table;
	match_output out;
};

/*
 * The loop is a pipeline: as soon as a tile's keys have been tested, the loads of the next tile
 * start, and the remaining work for this one (above all verifying, a chain of dependent loads)
 * overlaps with them.
 */
template <class Policy, class Key, class Filter, bool with_bitmap>
__device__ __forceinline__ void
scan(const column_view &column, const Filter &filter, const bucket_table<Key> &table,
	 const match_output &out)
{
	extern __shared__ uint4 shared_vectors[];
	uint32_t *shared = (uint32_t *) shared_vectors;
	uint32_t lane = threadIdx.x % 32;
	uint32_t warp = threadIdx.x / 32;
	uint32_t index = row_word<Key>(lane);
	candidate_store<Policy, Key> store((char *) (shared + filter.words) + warp * Policy::kept_bytes,
									   lane);
	tile_stride stride(gridDim.x * (Policy::threads / 32), column.tiles_per_extent);
	uint64_t found = 0;
	key_batch<Key> batch;

	/* Adjacent tiles go to different blocks, so that the last round is spread over all of them. */
	uint64_t place = warp * gridDim.x + blockIdx.x;
	uint64_t listed = out.list != nullptr ? *out.listed : column.tiles;

	/* Computing the position of each tile is worthwhile only if some are skipped. */
	bool by_list = listed < column.tiles - column.tiles / 8;
	uint64_t end = by_list ? listed : column.tiles;
	bool inside = place < end;
	tile_cursor at(inside && by_list ? out.list[place] : place, column.tiles_per_extent);
	const char *extent = inside ? column.extents[at.extent] : nullptr;

	if (inside)
		batch.load((const Key *) extent + (uint64_t) at.within * tile_rows,
				   key_batch<Key>::a_tile - 1, lane);
	for (uint32_t i = threadIdx.x; i < filter.words / 4; i += Policy::threads)
		shared_vectors[i] = __ldg((const uint4 *) filter.image + i);
	__syncthreads();

	while (inside)
	{
		const Key *keys = (const Key *) extent + (uint64_t) at.within * tile_rows;
		const uint32_t *valid =
			(const uint32_t *) (extent + column.valid_at) + (uint64_t) at.within * tile_words;
		uint64_t tile = at.tile;
		uint32_t mask = 0;
		uint32_t kept = store.begin;

		place += stride.tiles;
		inside = place < end;
		if (!by_list)
			at.advance(stride);
		else if (inside)
			at = tile_cursor(out.list[place], column.tiles_per_extent);
		extent = inside ? column.extents[at.extent] : nullptr;
#pragma unroll
		for (int part = key_batch<Key>::a_tile - 1; part >= 0; part--)
		{
			mask = batch.test(filter, shared, mask, store, kept);
			if (part > 0)
				batch.load(keys, part - 1, lane);
			else if (inside)
				batch.load((const Key *) extent + (uint64_t) at.within * tile_rows,
						   key_batch<Key>::a_tile - 1, lane);
		}

		if (!Filter::exact)
			mask = verify_candidates<Policy>(mask, store, keys, table, lane);

		uint32_t word = into_row_order<Key>(mask, lane);

		if (word != 0)
			word &= valid[index];
		if (with_bitmap)
		{
			uint32_t n = __reduce_add_sync(all_lanes, __popc(word));

			out.bitmap[tile * tile_words + index] = word;
			if (lane == 0)
				out.tile_count[tile] = n;
		}
		else
			found += __popc(word);
	}
	if (!with_bitmap)
	{
		/* A warp sees fewer than 2^32 rows of any column that fits on a card. */
		found = __reduce_add_sync(all_lanes, (uint32_t) found);
		if (lane == 0 && found > 0)
			atomicAdd((unsigned long long *) out.total, (unsigned long long) found);
	}
}

template <class Policy, class Key, class Filter, bool with_bitmap>
__global__ void __launch_bounds__(Policy::threads, Policy::blocks)
match_kernel(const __grid_constant__ scan_job<Key, Filter> job)
{
	scan<Policy, Key, Filter, with_bitmap>(job.column, job.filter, job.table, job.out);
}

template <class Policy, class Key, class Filter>
__global__ void __launch_bounds__(Policy::threads, Policy::blocks)
match_batch_kernel(const char *jobs)
{
	__shared__ job_copy<scan_job<Key, Filter>> copy;
	const scan_job<Key, Filter> &job = copy.fetch(jobs);

	scan<Policy, Key, Filter, true>(job.column, job.filter, job.table, job.out);
}

}  // namespace gjd

#endif
