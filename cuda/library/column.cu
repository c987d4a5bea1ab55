/*
 * column.cu
 *	  Columns: memory in extents, and the page copies sent to them.
 *
 * Page versions are kept on the host, where all pushes pass through one thread: so an outdated
 * copy is dropped before it costs a copy within the device, and no kernel has to compare
 * versions. All work on a column's memory runs on the execute stream; therefore extents can be
 * given to another column as soon as the host releases them: the other column's kernels come
 * later in stream order.
 */
#include "library.cuh"

#include <cub/block/block_reduce.cuh>
#include <cuda/std/limits>

#include <algorithm>

namespace gjd
{

namespace
{

/* One of the arrays that images and extents consist of. */
struct page_array
{
	uint64_t image_at, extent_at;
	uint32_t bits; /* of an element: whole bytes, or 1 */
};

struct scatter_shape
{
	char *const *extents;
	uint32_t slots, strips, pages_per_extent, key_bytes;
	uint64_t image_bytes, valid_at, bounds_at; /* validity bits in an image, bounds in an extent */
	uint32_t n;
	page_array arrays[4 + 2 * GJD_MAX_CARRIED];
};

static_assert(policy::staging_bytes >= GJD_MAX_IMAGE_BYTES, "a staging buffer holds any image");

template <class Word>
__device__ void
copy_words(char *to, const char *from, uint32_t bytes)
{
	const Word *source = (const Word *) from;
	Word *target = (Word *) to;

	for (uint32_t i = threadIdx.x; i < bytes / sizeof(Word); i += blockDim.x)
		target[i] = source[i];
}

/*
 * Finds the bounds of the valid keys of each strip of an image, used by skip.cu: each warp those of
 * some strips. Called by all threads of the block.
 */
template <class Key>
__device__ void
write_bounds(const scatter_shape &shape, const char *image, char *extent, uint32_t page)
{
	using reduction = cub::WarpReduce<Key>;
	constexpr uint32_t warps = policy::scatter_threads / 32;
	__shared__ typename reduction::TempStorage space[warps];
	const Key *keys = (const Key *) image;
	const uint32_t *valid = (const uint32_t *) (image + shape.valid_at);
	key_bounds<Key> *bounds = (key_bounds<Key> *) (extent + shape.bounds_at) + page * shape.strips;
	uint32_t warp = threadIdx.x / 32;
	auto least = [](Key a, Key b) { return min(a, b); };
	auto greatest = [](Key a, Key b) { return max(a, b); };

	for (uint32_t strip = warp; strip < shape.strips; strip += warps)
	{
		uint32_t end = min((strip + 1) * GJD_STRIP_ROWS, shape.slots);
		key_bounds<Key> of = {cuda::std::numeric_limits<Key>::max(),
							  cuda::std::numeric_limits<Key>::min()};

		for (uint32_t i = strip * GJD_STRIP_ROWS + threadIdx.x % 32; i < end; i += 32)
			if (valid[i / 32] >> i % 32 & 1)
			{
				of.least = min(of.least, keys[i]);
				of.greatest = max(of.greatest, keys[i]);
			}
		of.least = reduction(space[warp]).Reduce(of.least, least);
		__syncwarp();
		of.greatest = reduction(space[warp]).Reduce(of.greatest, greatest);
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			bounds[strip] = of;
	}
}

/* Copies images from staging to their pages, one block each. */
__global__ void __launch_bounds__(policy::scatter_threads)
scatter_kernel(const __grid_constant__ scatter_shape shape, const char *images,
			   const scatter_entry *list)
{
	__shared__ scatter_entry entry;

	if (threadIdx.x == 0)
		entry = list[blockIdx.x];
	__syncthreads();

	const char *image = images + entry.image * shape.image_bytes;
	char *extent = shape.extents[entry.page / shape.pages_per_extent];
	uint64_t row = (uint64_t) (entry.page % shape.pages_per_extent) * shape.slots;

	/*
	 * The number of slots is a multiple of 32: words of bits are whole, and arrays of bytes start
	 * at vectors.
	 */
	for (uint32_t i = 0; i < shape.n; i++)
	{
		const page_array &array = shape.arrays[i];
		char *to = extent + array.extent_at + row / 8 * array.bits;
		const char *from = image + array.image_at;
		uint32_t bytes = shape.slots / 8 * array.bits;

		if (array.bits == 1)
			copy_words<uint32_t>(to, from, bytes);
		else
			copy_words<uint4>(to, from, bytes);
	}
	if (shape.key_bytes == 4)
		write_bounds<int32_t>(shape, image, extent, entry.page % shape.pages_per_extent);
	else
		write_bounds<int64_t>(shape, image, extent, entry.page % shape.pages_per_extent);
}

scatter_shape
scatter_shape_of(const gjd_column *column)
{
	const gjd_shape &shape = column->shape;
	column_view view = view_of(column);
	uint64_t rows = (uint64_t) column->pages_per_extent * shape.slots;
	scatter_shape to = {view.extents, shape.slots, view.strips, column->pages_per_extent,
						shape.key_bytes,
						column->image_bytes, gjd_image_valid_at(shape.slots, shape.key_bytes),
						view.bounds_at, 4, {}};

	to.arrays[0] = {0, 0, shape.key_bytes * 8};
	to.arrays[1] = {gjd_image_blocks_at(shape.slots, shape.key_bytes), view.blocks_at, 32};
	to.arrays[2] = {gjd_image_offsets_at(shape.slots, shape.key_bytes), view.offsets_at, 16};
	to.arrays[3] = {gjd_image_valid_at(shape.slots, shape.key_bytes), view.valid_at, 1};
	for (uint32_t c = 0; c < shape.n_carried; c++)
	{
		to.arrays[to.n++] = {gjd_image_carried_at(&shape, c), layout_carried_at(&shape, rows, c),
							 shape.carried_bytes[c] * 8u};
		if (shape.nullable >> c & 1)
			to.arrays[to.n++] = {gjd_image_nulls_at(&shape, c), layout_nulls_at(&shape, rows, c),
								 1};
	}
	return to;
}

__global__ void
set_extent_kernel(char **table, uint32_t index, char *extent)
{
	table[index] = extent;
}

void
note_change(gjd_column *column)
{
	check(cudaEventRecord(column->changed, column->device->execute), "could not record an event");
	column->changing = true;
}

void
give_extent(gjd_column *column, char *extent)
{
	gjd_device *device = column->device;

	device->memory.give((uint64_t) (extent - device->budget), column->extent_bytes);
	device->columns_used -= column->extent_bytes;
}

void
free_column(gjd_column *column)
{
	gjd_device *device = column->device;

	for (char *extent : column->extents)
		give_extent(column, extent);
	if (column->extent_table)
		device->kept_scratch -= column->table_bytes;
	give_scratch(device, (char *) column->extent_table, column->table_bytes);
	if (column->changed)
		give_event(device, column->changed);
	for (gjd_column::copy &c : column->copies)
		give_event(device, c.copied);
	free(column->newer);
	device->columns--;
	delete column;
}

/* Clears a new extent and makes it visible to kernels. */
void
add_extent(gjd_column *column, char *extent)
{
	cudaStream_t stream = column->device->execute;

	check(cudaMemsetAsync(extent, 0, column->extent_bytes, stream), "could not clear an extent");
	set_extent_kernel<<<1, 1, 0, stream>>>(column->extent_table,
										   (uint32_t) column->extents.size(), extent);
	check_launch(stream, "could not add an extent");
	column->extents.push_back(extent);
	column->versions.resize(column->extents.size() * column->pages_per_extent, 0);
	column->last_round.resize(column->versions.size(), 0);
}

/* Launches the scatter of list[first .. end). */
void
scatter(gjd_column *column, const staging_buffer &staging, uint32_t first, uint32_t end)
{
	cudaStream_t stream = column->device->execute;

	if (first == end)
		return;
	scatter_kernel<<<end - first, policy::scatter_threads, 0, stream>>>(
		scatter_shape_of(column), staging.memory, staging.list + first);
	check_launch(stream, "could not apply pages");
}

/*
 * Selects the copies that are not older than those held. Two copies of one page must not be in
 * one launch, so the second one starts a new one.
 */
void
apply_batch(gjd_column *column, staging_buffer &staging, const gjd_page_head *heads, uint32_t count)
{
	uint32_t first = 0;
	uint32_t n = 0;

	column->round++;
	for (uint32_t i = 0; i < count; i++)
	{
		uint64_t page = heads[i].page;

		if (heads[i].version < column->versions[page])
		{
			column->ignored++;
			continue;
		}
		if (column->last_round[page] == column->round)
		{
			scatter(column, staging, first, n);
			first = n;
			column->round++;
		}
		column->last_round[page] = column->round;
		column->versions[page] = heads[i].version;
		newer_note(column->newer, page, heads[i].version);
		column->pages = std::max(column->pages, page + 1);
		column->applied++;
		staging.list[n++] = scatter_entry{(uint32_t) page, i};
	}
	scatter(column, staging, first, n);
}

/* Sends a staging buffer full of images. */
void
send_batch(gjd_column *column, staging_buffer &staging, const gjd_page_head *heads,
		   const char *images, uint32_t count)
{
	gjd_device *device = column->device;
	gjd_column::copy copy = {column->ticket, take_event(device)};

	column->copies.push_back(copy);
	check(cudaMemcpyAsync(staging.memory, images, count * column->image_bytes,
						  cudaMemcpyHostToDevice, device->in),
		  "could not copy pages");
	check(cudaEventRecord(copy.copied, device->in), "could not record an event");
	check(cudaStreamWaitEvent(device->execute, copy.copied, 0), "could not order streams");
	apply_batch(column, staging, heads, count);
	check(cudaEventRecord(staging.applied, device->execute), "could not record an event");
	staging.in_use = true;
	note_change(column);
}

staging_buffer *
free_staging(gjd_device *device)
{
	staging_buffer *staging = &device->staging[device->next_staging];

	if (staging->in_use && !has_happened(staging->applied))
		return nullptr;
	device->next_staging = (device->next_staging + 1) % device->staging.size();
	return staging;
}

}  // namespace

gjd_column *
create_column(gjd_device *device, const gjd_shape &shape, uint64_t reserve_pages)
{
	gjd_column *column = new gjd_column();

	column->device = device;
	column->shape = shape;
	column->pages_per_extent = gjd_shape_extent_pages(&shape);
	column->extent_bytes = gjd_shape_extent_bytes(&shape);
	column->image_bytes = gjd_shape_image_bytes(&shape);
	column->table_bytes = policy::table_bytes;
	device->columns++;
	try
	{
		column->newer = (newer_ring *) calloc(1, sizeof(newer_ring));
		if (column->newer == nullptr)
			throw std::bad_alloc();
		column->changed = take_event(device);
		column->extent_table = (char **) take_scratch(device, &column->table_bytes);
		device->kept_scratch += column->table_bytes;
		reserve_column(column, reserve_pages);
	}
	catch (...)
	{
		free_column(column);
		throw;
	}
	return column;
}

void
reserve_column(gjd_column *column, uint64_t pages)
{
	gjd_device *device = column->device;
	uint64_t per = column->pages_per_extent;
	uint64_t wanted = pages / per + (pages % per != 0);
	std::vector<char *> taken;

	if (wanted <= column->extents.size())
		return;
	flush_batch(device);
	wanted -= column->extents.size();
	if (wanted > (device->columns_limit - device->columns_used) / column->extent_bytes ||
		wanted + column->extents.size() > column->table_bytes / sizeof(char *))
		throw_status(GJD_NO_MEMORY, "out of device memory for columns");
	for (uint64_t i = 0; i < wanted; i++)
	{
		uint64_t offset = device->memory.take_low(column->extent_bytes, GJD_EXTENT_BYTES);

		if (offset == pool::none)
		{
			for (char *extent : taken)
				give_extent(column, extent);
			throw_status(GJD_NO_MEMORY, "out of device memory for columns");
		}
		device->columns_used += column->extent_bytes;
		taken.push_back(device->budget + offset);
	}
	for (char *extent : taken)
		add_extent(column, extent);
	note_change(column);
}

gjd_status
write_pages(gjd_column *column, const gjd_page_head *heads, const char *images, uint64_t count,
			uint64_t *accepted, uint64_t *ticket)
{
	gjd_device *device = column->device;
	uint64_t fit = std::min<uint64_t>(policy::staging_bytes / column->image_bytes,
									  policy::staging_images);

	flush_batch(device); /* matches that have begun must not see these pages */
	*ticket = ++column->ticket;
	while (*accepted < count)
	{
		/* The heads may be in memory that other processes write: read only a copy. */
		std::vector<gjd_page_head> batch(heads + *accepted,
										 heads + std::min(count, *accepted + fit));
		uint64_t pages = 0;

		for (const gjd_page_head &head : batch)
		{
			require(head.page < (uint64_t) 1 << 32, "page number out of range");
			pages = std::max(pages, head.page + 1);
		}
		reserve_column(column, pages);

		staging_buffer *staging = free_staging(device);

		if (staging == nullptr)
			return *accepted > 0 ? GJD_OK : GJD_PENDING;
		send_batch(column, *staging, batch.data(), images + *accepted * column->image_bytes,
				   (uint32_t) batch.size());
		*accepted += batch.size();
	}
	return GJD_OK;
}

gjd_status
poll_writes(gjd_column *column, uint64_t ticket)
{
	while (!column->copies.empty() && column->copies.front().ticket <= ticket)
	{
		if (!has_happened(column->copies.front().copied))
			return GJD_PENDING;
		give_event(column->device, column->copies.front().copied);
		column->copies.erase(column->copies.begin());
	}
	return GJD_OK;
}

gjd_status
destroy_column(gjd_column *column)
{
	if (poll_writes(column, column->ticket) == GJD_PENDING)
		return GJD_PENDING;
	if (column->changing && !has_happened(column->changed))
		return GJD_PENDING;
	column->changing = false;
	column->destroyed = true;
	release_column(column);
	return GJD_OK;
}

void
release_column(gjd_column *column)
{
	if (column->destroyed && column->users == 0)
		free_column(column);
}

}  // namespace gjd
