/*
 * gather.cu
 *	  Turns a bitmap and the counts of its tiles into lists of TIDs or positions, or into
 *	  columns of entries.
 *
 * The scan of the counts is CUB's: it processes one number per tile, so a kernel of our own could
 * not gain anything on the device. It does on the host: for small columns one launch replaces
 * CUB's two.
 */
#include "launch_batch.cuh"
#include "report.cuh"

#include <cub/block/block_exchange.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t tile_lanes = 8; /* lanes that share a tile: usually a tile has few matches */
constexpr uint32_t tiles_a_warp = 32 / tile_lanes;
constexpr uint32_t list_rows = 1024; /* length of a warp's list; longer results take several
									  * rounds */
constexpr uint32_t blocks_a_processor = 8;
constexpr uint32_t sum_threads = 1024; /* threads of the block that sums up the tiles of a small
									    * column */
constexpr uint32_t sum_each = 8;	   /* tiles per thread at a time */

/* Rows that a warp has listed, and the items of the result that they become. */
struct listed_rows
{
	const char *extent;
	uint64_t row;		/* in the extent, of the first tile */
	uint64_t position;	/* position of that row */
	const uint16_t *list; /* rows, relative to it */
	uint32_t n;
	uint64_t place;		/* of the first item, in the window; wraps around if the item is before
						 * the window */
	uint64_t capacity;	/* of the window */
};

/* Writes one value for each row: adjacent lanes write adjacent items. */
template <class Item, class Value>
__device__ inline void
write_items(const listed_rows &rows, uint32_t lane, Item *to, Value value)
{
#pragma unroll 4
	for (uint32_t i = lane; i < rows.n; i += 32)
	{
		uint64_t place = rows.place + i;

		if (place < rows.capacity)
			to[place] = value(rows.list[i]);
	}
}

__device__ inline void
write_tids(const column_view &column, const listed_rows &rows, uint32_t lane, uint64_t *to)
{
	const uint32_t *blocks = (const uint32_t *) (rows.extent + column.blocks_at) + rows.row;
	const uint16_t *offsets = (const uint16_t *) (rows.extent + column.offsets_at) + rows.row;

	write_items(rows, lane, to, [=](uint32_t row) {
		return (uint64_t) __ldg(blocks + row) << 16 | __ldg(offsets + row);
	});
}

/* Destinations of listed rows: TIDs, ... */
struct tid_sink
{
	uint64_t *to;

	__device__ void
	write(const column_view &column, const listed_rows &rows, uint32_t lane) const
	{
		write_tids(column, rows, lane, to);
	}
};

/* ... positions, ... */
struct position_sink
{
	uint64_t *to;

	__device__ void
	write(const column_view &, const listed_rows &rows, uint32_t lane) const
	{
		uint64_t position = rows.position;

		write_items(rows, lane, to, [=](uint32_t row) { return position + row; });
	}
};

/* A wanted array of an extent, and the destination of its values. */
struct entry_array
{
	uint64_t from_at; /* in an extent */
	uint64_t to_at;	  /* in the result */
	uint32_t bits;	  /* 8, 16, 32, 64; or 1, written as a byte */
};

/* ... or entries. */
struct entry_sink
{
	char *to;
	uint32_t n;
	entry_array arrays[1 + 2 * GJD_MAX_CARRIED];

	template <class Item>
	__device__ void
	write_array(const entry_array &array, const listed_rows &rows, uint32_t lane) const
	{
		const Item *from = (const Item *) (rows.extent + array.from_at) + rows.row;

		write_items(rows, lane, (Item *) (to + array.to_at),
					[=](uint32_t row) { return __ldg(from + row); });
	}

	__device__ void
	write_bits(const entry_array &array, const listed_rows &rows, uint32_t lane) const
	{
		const uint32_t *from = (const uint32_t *) (rows.extent + array.from_at) + rows.row / 32;

		write_items(rows, lane, (uint8_t *) (to + array.to_at), [=](uint32_t row) {
			return (uint8_t) (__ldg(from + row / 32) >> row % 32 & 1);
		});
	}

	__device__ void
	write(const column_view &column, const listed_rows &rows, uint32_t lane) const
	{
		write_tids(column, rows, lane, (uint64_t *) to);
		for (uint32_t i = 0; i < n; i++)
			switch (arrays[i].bits)
			{
				case 64:
					write_array<uint64_t>(arrays[i], rows, lane);
					break;
				case 32:
					write_array<uint32_t>(arrays[i], rows, lane);
					break;
				case 16:
					write_array<uint16_t>(arrays[i], rows, lane);
					break;
				case 8:
					write_array<uint8_t>(arrays[i], rows, lane);
					break;
				default:
					write_bits(arrays[i], rows, lane);
			}
	}
};

/*
 * A warp takes four tiles at a time, eight lanes each, whose items are adjacent in the result as
 * well. It lists their rows in shared memory and writes the items from the list.
 */
template <class Sink>
struct placed_gather
{
	column_view column;
	Sink sink;
	const uint32_t *bitmap;
	const uint64_t *tile_start;
	uint64_t first, capacity;
};

template <class Sink>
__device__ __forceinline__ void
gather(const column_view &column, const Sink &sink, const uint32_t *bitmap,
	   const uint64_t *tile_start, uint64_t first, uint64_t capacity)
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

		/*
		 * An extent has a multiple of four tiles; the bitmap ends with the last tile, and is
		 * undefined where the scan has skipped a tile.
		 */
		uint64_t tile = base + lane / tile_lanes;
		uint4 loaded = {0, 0, 0, 0};

		if (tile < column.tiles && tile_start[tile] != tile_start[tile + 1])
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
			sink.write(column,
					   listed_rows{extent, row, base * tile_rows, list, n, start + listed - first,
								   capacity},
					   lane);
			__syncwarp();
		}
	}
}

template <class Sink>
__global__ void __launch_bounds__(policy::gather_threads)
gather_kernel(const __grid_constant__ placed_gather<Sink> job)
{
	gather(job.column, job.sink, job.bitmap, job.tile_start, job.first, job.capacity);
}

template <class Sink>
__global__ void __launch_bounds__(policy::gather_threads)
gather_batch_kernel(const char *jobs)
{
	__shared__ job_copy<placed_gather<Sink>> copy;
	const placed_gather<Sink> &job = copy.fetch(jobs);

	gather(job.column, job.sink, job.bitmap, job.tile_start, job.first, job.capacity);
}

struct sum_job
{
	uint64_t *tile_start;
	uint32_t tiles;
};

/*
 * Turns counts into start positions, in one block. Adjacent threads read and write adjacent
 * tiles; in between, each has eight adjacent ones, for the scan. Each tile is read and written by
 * the same thread, so a round cannot overwrite another's counts; sums within a round fit into 32
 * bits, since a tile has 1024 rows.
 */
__device__ __forceinline__ void
sum_up(uint64_t *tile_start, uint32_t tiles)
{
	using exchange = cub::BlockExchange<uint32_t, sum_threads, sum_each>;
	using scan = cub::BlockScan<uint32_t, sum_threads>;
	__shared__ union
	{
		typename exchange::TempStorage exchange;
		typename scan::TempStorage scan;
	} space;
	uint64_t before = 0;

	for (uint32_t base = 0; base < tiles; base += sum_threads * sum_each)
	{
		uint32_t sums[sum_each];
		uint32_t all;

#pragma unroll
		for (uint32_t i = 0; i < sum_each; i++)
		{
			uint32_t tile = base + i * sum_threads + threadIdx.x;

			sums[i] = tile < tiles ? (uint32_t) tile_start[tile] : 0;
		}
		exchange(space.exchange).StripedToBlocked(sums, sums);
		__syncthreads();
		scan(space.scan).ExclusiveSum(sums, sums, all);
		__syncthreads();
		exchange(space.exchange).BlockedToStriped(sums, sums);
		__syncthreads();
#pragma unroll
		for (uint32_t i = 0; i < sum_each; i++)
		{
			uint32_t tile = base + i * sum_threads + threadIdx.x;

			if (tile < tiles)
				tile_start[tile] = before + sums[i];
		}
		before += all;
	}
	if (threadIdx.x == 0)
		tile_start[tiles] = before;
}

__global__ void __launch_bounds__(sum_threads)
sum_kernel(const __grid_constant__ sum_job job)
{
	sum_up(job.tile_start, job.tiles);
}

__global__ void __launch_bounds__(sum_threads)
sum_batch_kernel(const char *jobs)
{
	__shared__ job_copy<sum_job> copy;
	const sum_job &job = copy.fetch(jobs);

	sum_up(job.tile_start, job.tiles);
}

struct order_job
{
	const uint64_t *items;
	uint64_t first, capacity;
	const uint64_t *total;
	uint64_t *unordered;
};

__device__ __forceinline__ void
check_order(const uint64_t *items, uint64_t first, uint64_t capacity, const uint64_t *total,
			uint64_t *unordered)
{
	uint64_t n = *total > first ? min(*total - first, capacity) : 0;
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x + 1; i < n; i += stride)
		if (items[i] <= items[i - 1])
			*unordered = 1;
}

__global__ void __launch_bounds__(policy::gather_threads)
order_kernel(const __grid_constant__ order_job job)
{
	check_order(job.items, job.first, job.capacity, job.total, job.unordered);
}

__global__ void __launch_bounds__(policy::gather_threads)
order_batch_kernel(const char *jobs)
{
	__shared__ job_copy<order_job> copy;
	const order_job &job = copy.fetch(jobs);

	check_order(job.items, job.first, job.capacity, job.total, job.unordered);
}

__global__ void
report_kernel(const __grid_constant__ report_job job)
{
	write_report(job);
}

/* Copies an array, 16 bytes per thread; both start at multiples of 16. */
__device__ inline void
copy_array(char *to, const char *from, uint64_t bytes)
{
	uint64_t thread = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint64_t whole = bytes / sizeof(uint4);

	for (uint64_t i = thread; i < whole; i += stride)
		((uint4 *) to)[i] = ((const uint4 *) from)[i];
	if (thread < bytes % sizeof(uint4))
		to[whole * sizeof(uint4) + thread] = from[whole * sizeof(uint4) + thread];
}

/*
 * Writes the first items into the caller's memory on the host, then the report. In each block all
 * threads write, then one thread counts the block, after a system-wide fence: so the block that
 * counts last knows that all items are on the host before the report is. Once the report is
 * written, the kernel no longer touches the caller's memory.
 */
__device__ __forceinline__ void
deliver(const delivery_job &delivery, const report_job &job)
{
	uint64_t n = min(*job.total, delivery.most);

	for (uint32_t w = 0; w < 4; w++)
	{
		const delivery_job::arrays &arrays = delivery.widths[w];

		for (uint32_t a = 0; a < arrays.n; a++)
			copy_array(arrays.to + a * arrays.to_pitch, arrays.from + a * arrays.from_pitch,
					   n << w);
	}
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	__threadfence_system();
	if (atomicAdd(delivery.blocks_done, 1) != gridDim.x - 1)
		return;
	__threadfence_system();
	write_report(job);
}

struct placed_delivery
{
	delivery_job delivery;
	report_job report;
};

__global__ void __launch_bounds__(policy::gather_threads)
deliver_kernel(const __grid_constant__ placed_delivery job)
{
	deliver(job.delivery, job.report);
}

__global__ void __launch_bounds__(policy::gather_threads)
deliver_batch_kernel(const char *jobs)
{
	__shared__ job_copy<placed_delivery> copy;
	const placed_delivery &job = copy.fetch(jobs);

	deliver(job.delivery, job.report);
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

	if (tiles <= policy::block_sum_most_tiles)
		return 1;
	check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, (uint64_t *) nullptr, (uint64_t *) nullptr,
										(int) (tiles + 1)),
		  "could not size a scan");
	return std::max<size_t>(bytes, 1);
}

void
launch_tile_scan(gjd_device *device, uint64_t *tile_start, uint64_t tiles, void *space,
				 uint64_t bytes)
{
	cudaStream_t stream = device->execute;
	size_t space_bytes = bytes;

	if (tiles <= policy::block_sum_most_tiles)
	{
		launch_or_postpone<sum_job, sum_kernel, sum_batch_kernel, sum_threads>(
			device, stage_sums, sum_job{tile_start, (uint32_t) tiles}, 1, 0, false);
		return;
	}
	settle(device);
	/* The value after the last count is not part of any sum, but CUB reads it. */
	check(cudaMemsetAsync(tile_start + tiles, 0, sizeof(*tile_start), stream),
		  "could not clear counts");
	check(cub::DeviceScan::ExclusiveSum(space, space_bytes, tile_start, tile_start,
										(int) (tiles + 1), stream),
		  "could not sum up tiles");
	check_launch(stream, "could not sum up tiles");
}

template <class Sink>
static void
launch_sink(const gather_job &job, uint64_t first, uint64_t capacity, const Sink &sink)
{
	gjd_device *device = job.column->device;
	column_view view = view_of(job.column);

	view.tiles = job.tiles;
	launch_or_postpone<placed_gather<Sink>, gather_kernel<Sink>, gather_batch_kernel<Sink>,
					   policy::gather_threads>(
		device, stage_gather,
		placed_gather<Sink>{view, sink, job.bitmap, job.tile_start, first, capacity},
		blocks_for(device, view.tiles * tile_lanes), 0, true);
}

static entry_sink
entry_sink_of(const gather_job &job, char *to, const gjd_entry_layout &layout)
{
	const gjd_shape &shape = job.column->shape;
	uint64_t rows = (uint64_t) job.column->pages_per_extent * shape.slots;
	entry_sink sink = {to, 0, {}};

	if (job.want.keys)
		sink.arrays[sink.n++] = {0, layout.keys_at, shape.key_bytes * 8};
	for (uint32_t c = 0; c < shape.n_carried; c++)
	{
		if ((job.want.columns >> c & 1) == 0)
			continue;
		sink.arrays[sink.n++] = {layout_carried_at(&shape, rows, c), layout.column_at[c],
								 shape.carried_bytes[c] * 8u};
		if (shape.nullable >> c & 1)
			sink.arrays[sink.n++] = {layout_nulls_at(&shape, rows, c), layout.nulls_at[c], 1};
	}
	return sink;
}

void
launch_gather(const gather_job &job, uint64_t first, uint64_t capacity, void *to,
			  const gjd_entry_layout *layout)
{
	if (job.tiles == 0)
		return;
	if (job.what == GJD_ENTRIES)
		launch_sink(job, first, capacity, entry_sink_of(job, (char *) to, *layout));
	else if (job.what == GJD_TIDS)
		launch_sink(job, first, capacity, tid_sink{(uint64_t *) to});
	else
		launch_sink(job, first, capacity, position_sink{(uint64_t *) to});
}

void
launch_order_check(gjd_device *device, const void *items, uint64_t first, uint64_t capacity,
				   const uint64_t *total, uint64_t *unordered)
{
	uint32_t blocks = (uint32_t) std::min<uint64_t>(capacity / policy::gather_threads + 1, 1024);

	launch_or_postpone<order_job, order_kernel, order_batch_kernel, policy::gather_threads>(
		device, stage_order,
		order_job{(const uint64_t *) items, first, capacity, total, unordered}, blocks, 0, true);
}

void
launch_report(gjd_device *device, const report_job &job)
{
	settle(device);
	report_kernel<<<1, 1, 0, device->execute>>>(job);
	check_launch(device->execute, "could not report");
}

void
launch_delivery(gjd_device *device, const delivery_job &delivery, const report_job &job)
{
	uint64_t vectors = (delivery.most * 8 + sizeof(uint4) - 1) / sizeof(uint4);

	launch_or_postpone<placed_delivery, deliver_kernel, deliver_batch_kernel,
					   policy::gather_threads>(device, stage_deliver,
											   placed_delivery{delivery, job},
											   blocks_for(device, vectors), 0, true);
}

}  // namespace gjd
