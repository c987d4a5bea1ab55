/*
 * gather.cu
 *	  From a bitmap and the counts of its tiles to lists of TIDs or positions.
 *
 * Scanning, sorting and dropping doubles are CUB's: the scan runs over one number a tile and the
 * others only over results, so nothing is to be won there.
 */
#include "match.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include <algorithm>
#include <climits>

namespace gjd
{

namespace
{

constexpr uint32_t tile_lanes = 8; /* lanes that share a tile: few matches a tile are the rule */
constexpr uint32_t tiles_a_warp = 32 / tile_lanes;
constexpr uint32_t list_rows = 1024; /* a warp's list; longer results take several turns */
constexpr uint32_t blocks_a_processor = 8;
constexpr int tid_bits = 48;

__device__ inline uint64_t
item_at(const column_view &column, gjd_what what, const char *extent, uint64_t row,
		uint64_t position)
{
	if (what == GJD_POSITIONS)
		return position;

	uint64_t block = __ldg((const uint32_t *) (extent + column.blocks_at) + row);
	uint64_t offset = __ldg((const uint16_t *) (extent + column.offsets_at) + row);

	return block << 16 | offset;
}

/*
 * A warp takes four tiles at a time, eight lanes each, which are a run of neighbours in the result
 * as well. It lists their rows in shared memory and writes the items from the list, so that
 * neighbouring lanes write neighbouring items.
 */
__global__ void __launch_bounds__(policy::gather_threads)
gather_kernel(const __grid_constant__ column_view column, gjd_what what, const uint32_t *bitmap,
			  const uint64_t *tile_start, uint64_t first, uint64_t capacity, uint64_t *to)
{
	__shared__ uint16_t lists[policy::gather_threads / 32][list_rows];
	uint32_t lane = threadIdx.x % 32;
	uint16_t *list = lists[threadIdx.x / 32];
	uint64_t warp = ((uint64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	uint64_t warps = (uint64_t) gridDim.x * blockDim.x / 32;

	for (uint64_t base = warp * tiles_a_warp; base < column.tiles; base += warps * tiles_a_warp)
	{
		uint64_t start = tile_start[base];
		uint64_t end = tile_start[min(base + tiles_a_warp, column.tiles)];

		if (start == end || end <= first || start >= first + capacity)
			continue;

		/* An extent has a multiple of four tiles; the bitmap ends with the last tile. */
		bool inside = base + lane / tile_lanes < column.tiles;
		uint4 loaded = {0, 0, 0, 0};

		if (inside)
			loaded = ((const uint4 *) (bitmap + base * tile_words))[lane];

		const char *extent = column.extents[base / column.tiles_per_extent];
		uint64_t row = base % column.tiles_per_extent * tile_rows;
		uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
		uint32_t total = __popc(words[0]) + __popc(words[1]) + __popc(words[2]) + __popc(words[3]);
		uint32_t rank = sum_before(total, lane, &total);

		for (uint32_t listed = 0; listed < total; listed += list_rows)
		{
			uint32_t n = min(total - listed, list_rows);

#pragma unroll
			for (uint32_t i = 0; i < 4; i++)
				for (; words[i] != 0 && rank < listed + list_rows; words[i] &= words[i] - 1)
					list[rank++ - listed] =
						(uint16_t) (lane * 128 + i * 32 + __ffs((int) words[i]) - 1);
			__syncwarp();
			for (uint32_t i = lane; i < n; i += 32)
			{
				uint64_t place = start + listed + i - first; /* wraps before the window */

				if (place < capacity)
					to[place] = item_at(column, what, extent, row + list[i],
										base * tile_rows + list[i]);
			}
			__syncwarp();
		}
	}
}

__global__ void __launch_bounds__(policy::gather_threads)
order_kernel(const uint64_t *items, uint64_t first, uint64_t capacity, const uint64_t *total,
			 uint64_t *unordered)
{
	uint64_t n = *total > first ? min(*total - first, capacity) : 0;
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x + 1; i < n; i += stride)
		if (items[i] <= items[i - 1])
			*unordered = 1;
}

__global__ void
report_kernel(match_report *report, const uint64_t *total, const uint64_t *unordered)
{
	report->count = *total;
	report->unordered = *unordered;
	__threadfence_system();
	report->written = 1;
}

uint32_t
blocks_for(const gjd_device *device, uint64_t threads)
{
	uint64_t most = (uint64_t) device->properties.multiProcessorCount * blocks_a_processor;
	uint64_t needed = (threads + policy::gather_threads - 1) / policy::gather_threads;

	return (uint32_t) std::max<uint64_t>(1, std::min(most, needed));
}

}  // namespace

uint64_t
scan_space_bytes(uint64_t tiles)
{
	size_t bytes = 0;

	check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, (uint64_t *) nullptr, (uint64_t *) nullptr,
										(int) (tiles + 1)),
		  "could not size a scan");
	return std::max<size_t>(bytes, 1);
}

void
launch_tile_scan(uint64_t *tile_start, uint64_t tiles, void *space, uint64_t bytes,
				 cudaStream_t stream)
{
	size_t space_bytes = bytes;

	check(cub::DeviceScan::ExclusiveSum(space, space_bytes, tile_start, tile_start,
										(int) (tiles + 1), stream),
		  "could not sum up tiles");
	check_launch(stream, "could not sum up tiles");
}

void
launch_gather(const gather_job &job, uint64_t first, uint64_t capacity, uint64_t *to)
{
	gjd_device *device = job.column->device;
	column_view view = view_of(job.column);

	view.tiles = job.tiles;
	if (view.tiles == 0)
		return;
	gather_kernel<<<blocks_for(device, view.tiles * tile_lanes), policy::gather_threads, 0,
					device->execute>>>(view, job.what, job.bitmap, job.tile_start, first, capacity,
									   to);
	check_launch(device->execute, "could not gather results");
}

void
launch_order_check(const uint64_t *items, uint64_t first, uint64_t capacity,
				   const uint64_t *total, uint64_t *unordered, cudaStream_t stream)
{
	uint32_t blocks = (uint32_t) std::min<uint64_t>(capacity / policy::gather_threads + 1, 1024);

	order_kernel<<<blocks, policy::gather_threads, 0, stream>>>(items, first, capacity, total,
																 unordered);
	check_launch(stream, "could not check the order of results");
}

void
launch_report(match_report *report, const uint64_t *total, const uint64_t *unordered,
			  cudaStream_t stream)
{
	report->written = 0;
	report_kernel<<<1, 1, 0, stream>>>(report, total, unordered);
	check_launch(stream, "could not report");
}

/* ---- sorting ------------------------------------------------------------------------------- */

uint64_t
sort_space_bytes(uint64_t count)
{
	size_t sort_bytes = 0;
	size_t unique_bytes = 0;
	cub::DoubleBuffer<uint64_t> buffers(nullptr, nullptr);

	if (count > INT_MAX)
		throw_status(GJD_NO_MEMORY, "too many results to be sorted");
	check(cub::DeviceRadixSort::SortKeys(nullptr, sort_bytes, buffers, (int) count, 0, tid_bits),
		  "could not size a sort");
	check(cub::DeviceSelect::Unique(nullptr, unique_bytes, (uint64_t *) nullptr,
									(uint64_t *) nullptr, (uint64_t *) nullptr, (int) count),
		  "could not size a sort");
	return std::max<size_t>(1, std::max(sort_bytes, unique_bytes));
}

uint64_t *
launch_sort(uint64_t *items, uint64_t *spare, uint64_t count, void *space, uint64_t bytes,
			uint64_t *distinct, cudaStream_t stream)
{
	cub::DoubleBuffer<uint64_t> buffers(items, spare);
	size_t space_bytes = bytes;

	check(cub::DeviceRadixSort::SortKeys(space, space_bytes, buffers, (int) count, 0, tid_bits,
										 stream),
		  "could not sort results");
	space_bytes = bytes;
	check(cub::DeviceSelect::Unique(space, space_bytes, buffers.Current(), buffers.Alternate(),
									distinct, (int) count, stream),
		  "could not sort results");
	check_launch(stream, "could not sort results");
	return buffers.Alternate();
}

}  // namespace gjd
