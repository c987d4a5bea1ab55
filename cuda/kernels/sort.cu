/*
 * sort.cu
 *	  Sorts results by TID and removes duplicate TIDs.
 *
 * Sorting and removing duplicates are CUB's. Entries are sorted as pairs of TID and rank, which
 * is their number by position; then every array is permuted by the ranks. Values are taken from
 * the gathered arrays, not from the column, which may have changed by now.
 */
#include "kernels.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include <algorithm>
#include <climits>

namespace gjd
{

namespace
{

constexpr int tid_bits = 48;
constexpr uint64_t most_blocks = 2048;

void
require_sortable(uint64_t count)
{
	if (count > INT_MAX)
		throw_status(GJD_NO_MEMORY, "too many results to be sorted");
}

}  // namespace

uint64_t
sort_space_bytes(uint64_t count)
{
	size_t sort_bytes = 0;
	size_t unique_bytes = 0;
	cub::DoubleBuffer<uint64_t> buffers(nullptr, nullptr);

	require_sortable(count);
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

/* ---- entries ------------------------------------------------------------------------------- */

namespace
{

/* The space of a sort: a second array of TIDs, two of ranks, and CUB's temporary storage. */
struct entry_sort_space
{
	uint64_t tids, ranks, temporary; /* bytes */

	explicit entry_sort_space(uint64_t count)
	{
		size_t sort_bytes = 0;
		size_t unique_bytes = 0;
		cub::DoubleBuffer<uint64_t> keys(nullptr, nullptr);
		cub::DoubleBuffer<uint32_t> values(nullptr, nullptr);

		require_sortable(count);
		check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, keys, values, (int) count, 0,
											  tid_bits),
			  "could not size a sort");
		check(cub::DeviceSelect::UniqueByKey(nullptr, unique_bytes, (uint64_t *) nullptr,
											 (uint32_t *) nullptr, (uint64_t *) nullptr,
											 (uint32_t *) nullptr, (uint64_t *) nullptr,
											 (int) count),
			  "could not size a sort");
		tids = gjd_align(count * 8, 256);
		ranks = gjd_align(count * 4, 256);
		temporary = std::max<size_t>(1, std::max(sort_bytes, unique_bytes));
	}

	uint64_t
	bytes() const
	{
		return tids + 2 * ranks + temporary;
	}
};

__global__ void __launch_bounds__(policy::gather_threads)
rank_kernel(uint32_t *ranks, uint32_t count)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
		 i += gridDim.x * blockDim.x)
		ranks[i] = i;
}

/* The arrays of one width, in both places. */
struct array_group
{
	const char *from;
	char *to;
	uint64_t from_pitch, to_pitch;
	uint32_t arrays;
};

struct permutation
{
	array_group groups[4]; /* by width, 1 << w bytes */
	const uint32_t *ranks;
	const uint64_t *count;
};

template <class Item>
__device__ inline void
move_items(const array_group &group, uint64_t i, uint32_t rank)
{
	for (uint32_t a = 0; a < group.arrays; a++)
		((Item *) (group.to + a * group.to_pitch))[i] =
			((const Item *) (group.from + a * group.from_pitch))[rank];
}

__global__ void __launch_bounds__(policy::gather_threads)
permute_kernel(const __grid_constant__ permutation p)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint64_t count = *p.count;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
	{
		uint32_t rank = p.ranks[i];

		move_items<uint64_t>(p.groups[3], i, rank);
		move_items<uint32_t>(p.groups[2], i, rank);
		move_items<uint16_t>(p.groups[1], i, rank);
		move_items<uint8_t>(p.groups[0], i, rank);
	}
}

}  // namespace

uint64_t
entry_sort_space_bytes(uint64_t count)
{
	return entry_sort_space(count).bytes();
}

void
launch_entry_sort(char *from, const gjd_entry_layout &from_layout, char *to,
				  const gjd_entry_layout &to_layout, uint64_t count, char *space, uint64_t bytes,
				  uint64_t *distinct, cudaStream_t stream)
{
	entry_sort_space parts(count);
	uint32_t *ranks = (uint32_t *) (space + parts.tids);
	cub::DoubleBuffer<uint64_t> keys((uint64_t *) from, (uint64_t *) space);
	cub::DoubleBuffer<uint32_t> values(ranks, (uint32_t *) ((char *) ranks + parts.ranks));
	void *temporary = (char *) ranks + 2 * parts.ranks;
	size_t temporary_bytes = parts.temporary;
	uint64_t blocks = std::min(count / policy::gather_threads + 1, most_blocks);
	permutation p = {};

	if (bytes < parts.bytes())
		throw_status(GJD_INTERNAL, "space of a sort is too small");
	rank_kernel<<<(uint32_t) blocks, policy::gather_threads, 0, stream>>>(ranks, (uint32_t) count);
	check_launch(stream, "could not sort results");
	check(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, keys, values, (int) count, 0,
										  tid_bits, stream),
		  "could not sort results");
	temporary_bytes = parts.temporary;
	check(cub::DeviceSelect::UniqueByKey(temporary, temporary_bytes, keys.Current(),
										 values.Current(), (uint64_t *) to, values.Alternate(),
										 distinct, (int) count, stream),
		  "could not sort results");
	check_launch(stream, "could not sort results");

	for (uint32_t w = 0; w < 4; w++)
		p.groups[w] = {from + from_layout.widths[w].at, to + to_layout.widths[w].at,
					   from_layout.widths[w].pitch, to_layout.widths[w].pitch,
					   from_layout.widths[w].arrays};
	/* The TIDs, the first array of all, are already in place. */
	p.groups[3].from += p.groups[3].from_pitch;
	p.groups[3].to += p.groups[3].to_pitch;
	p.groups[3].arrays--;
	p.ranks = values.Alternate();
	p.count = distinct;
	permute_kernel<<<(uint32_t) blocks, policy::gather_threads, 0, stream>>>(p);
	check_launch(stream, "could not sort results");
}

}  // namespace gjd
