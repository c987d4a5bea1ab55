/*
 * skip.cu
 *	  Finds the tiles that can have a match, by the bounds of the keys of each strip of a page.
 *
 * If pages are ordered by key, few of them can contain a key of a small set, and the scan reads
 * only those. The bounds are written with the page (library/column.cu). Each thread checks one
 * tile: the strips of one page that overlap it have bounds together, and the set's keys are an
 * ascending list.
 *
 * The list of tiles is in no order: the scan writes its result for a tile to the tile's own
 * place. For the tiles that it leaves out only the count is written, as zero; gathering reads
 * that first.
 */
#include "launch_batch.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

/* The keys of a set, ascending */
template <class Key>
struct sought_keys
{
	const Key *list;
	uint32_t n;
};

/* Returns true if a key is within two bounds, inclusive. */
template <class Key>
__device__ inline bool
has_between(const sought_keys<Key> &keys, Key least, Key greatest)
{
	uint32_t rank = rank_in(keys.list, keys.n, least);

	return rank < keys.n && __ldg(keys.list + rank) <= greatest;
}

/*
 * Returns the bounds of the rows of a page from the first to the one before the end, numbers in the
 * page: those of the strips that have any of them.
 */
template <class Key>
__device__ inline key_bounds<Key>
bounds_of(const key_bounds<Key> *strips, uint32_t first, uint32_t end)
{
	key_bounds<Key> all = strips[first / GJD_STRIP_ROWS];

	for (uint32_t strip = first / GJD_STRIP_ROWS + 1; strip * GJD_STRIP_ROWS < end; strip++)
	{
		all.least = min(all.least, strips[strip].least);
		all.greatest = max(all.greatest, strips[strip].greatest);
	}
	return all;
}

template <class Key>
struct skip_job
{
	column_view column;
	sought_keys<Key> keys;
	uint64_t *tile_count;
	uint32_t *listed;
	uint32_t *list;
};

template <class Key>
__device__ __forceinline__ void
skip(const column_view &column, const sought_keys<Key> &keys, uint64_t *tile_count,
	 uint32_t *listed, uint32_t *list)
{
	uint64_t tile = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t lane = threadIdx.x % 32;
	bool wanted = false;

	if (tile < column.tiles)
	{
		const char *extent = column.extents[tile / column.tiles_per_extent];
		const key_bounds<Key> *bounds = (const key_bounds<Key> *) (extent + column.bounds_at);
		uint32_t row = (uint32_t) (tile % column.tiles_per_extent) * tile_rows;
		uint32_t end = row + tile_rows;

		for (uint32_t page = row / column.slots; page * column.slots < end && !wanted; page++)
		{
			uint32_t start = page * column.slots;
			key_bounds<Key> part =
				bounds_of(bounds + page * column.strips, max(row, start) - start,
						  min(end - start, column.slots));

			wanted = has_between(keys, part.least, part.greatest);
		}
		if (!wanted && tile_count != nullptr)
			tile_count[tile] = 0;
	}

	uint32_t together = __ballot_sync(all_lanes, wanted);
	uint32_t first = 0;

	if (together == 0)
		return;
	if (lane == 0)
		first = atomicAdd(listed, __popc(together));
	first = __shfl_sync(all_lanes, first, 0);
	if (wanted)
		list[first + __popc(together & ((1u << lane) - 1))] = (uint32_t) tile;
}

template <class Key>
__global__ void __launch_bounds__(policy::skip_threads)
skip_kernel(const __grid_constant__ skip_job<Key> job)
{
	skip(job.column, job.keys, job.tile_count, job.listed, job.list);
}

template <class Key>
__global__ void __launch_bounds__(policy::skip_threads)
skip_batch_kernel(const char *jobs)
{
	__shared__ job_copy<skip_job<Key>> copy;
	const skip_job<Key> &job = copy.fetch(jobs);

	skip(job.column, job.keys, job.tile_count, job.listed, job.list);
}

template <class Key>
void
launch(const gjd_column *column, const gjd_keyset *keyset, const match_output &out)
{
	column_view view = view_of(column);
	sought_keys<Key> keys = {(const Key *) keyset->parts.keys, (uint32_t) keyset->count};

	if (out.tiles != 0)
		view.tiles = out.tiles;

	skip_job<Key> job = {view, keys, out.bitmap != nullptr ? out.tile_count : nullptr, out.listed,
						 out.list};

	launch_or_postpone<skip_job<Key>, skip_kernel<Key>, skip_batch_kernel<Key>,
					   policy::skip_threads>(
		column->device, stage_skip, job,
		(uint32_t) ((view.tiles + policy::skip_threads - 1) / policy::skip_threads), 0, false);
}

}  // namespace

/* Returns false if there are about as many keys as tiles: hardly any tile could be skipped then. */
bool
worth_skipping(const gjd_keyset *keyset, uint64_t tiles)
{
	return tiles >= policy::skip_least_tiles && keyset->count <= tiles;
}

void
launch_skip(const gjd_column *column, const gjd_keyset *keyset, const match_output &out)
{
	if (keyset->key_bytes == 4)
		launch<int32_t>(column, keyset, out);
	else
		launch<int64_t>(column, keyset, out);
}

}  // namespace gjd
