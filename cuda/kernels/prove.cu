/*
 * prove.cu
 *	  Removes rows whose rest is not one of those that the set has for their key from the bitmap,
 *	  and recounts the tiles.
 *
 * It runs directly after the scan, which tests keys alone and is the same for all sets. Nearly all
 * rows that the scan has found have the right rest, and in key order those of one key are adjacent:
 * a lane that meets the pair of its last row again keeps the answer.
 */
#include "kernels.cuh"
#include "rows.cuh"

namespace gjd
{

namespace
{

constexpr uint32_t threads = policy::gather_threads;

__global__ void __launch_bounds__(threads)
prove_kernel(const __grid_constant__ column_view column, const __grid_constant__ placed_column keys,
			 const __grid_constant__ placed_column rests, const __grid_constant__ pair_list pairs,
			 uint32_t *bitmap, uint64_t *tile_count)
{
	__shared__ visit_space spaces[threads / 32];
	uint32_t lane = threadIdx.x % 32;
	int64_t key = 0, rest = 0; /* of the lane's last row, ... */
	bool looked_up = false;	   /* ... if it had any ... */
	bool listed = false;	   /* ... and whether the set has them */

	visit_rows<true>(
		column, bitmap, tile_count, spaces[threadIdx.x / 32],
		[&](const char *extent, uint32_t row) {
			prefetch_column(keys, extent, row, lane);
			prefetch_column(rests, extent, row, lane);
		},
		[&](const char *extent, uint32_t, uint32_t row, bool active) {
			if (!active || is_null(rests, extent, row))
				return false;

			int64_t its_key = value_of(keys, extent, row);
			int64_t its_rest = value_of(rests, extent, row);

			if (!looked_up || its_key != key || its_rest != rest)
				listed = pairs.has(its_key, its_rest);
			looked_up = true;
			key = its_key;
			rest = its_rest;
			return listed;
		});
}

}  // namespace

void
launch_proof(const gjd_column *column, const gjd_keyset *keyset, uint32_t rest_column,
			 const match_output &out)
{
	static visit_grid grid;
	const gjd_device *device = column->device;
	column_view view = view_of(column);

	view.tiles = out.tiles;
	if (view.tiles == 0)
		return;
	settle(column->device);
	prove_kernel<<<grid.blocks(device, prove_kernel, 0, view.tiles), threads, 0,
				   device->execute>>>(view, place_column(column, 0),
									  place_column(column, rest_column), pairs_of(keyset),
									  out.bitmap, out.tile_count);
	check_launch(device->execute, "could not compare rests");
}

}  // namespace gjd
