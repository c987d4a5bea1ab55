/*
 * hash.cuh
 *	  Groups by the values of columns: a hash table of rows.
 *
 * A slot of the table is one word: some bits of the hash, and the row that was the first of its
 * group. It is set once, by a compare-and-swap, and then never changes, so no thread ever waits for
 * another. Rows are equal if their values in the columns are, which are read where they are: the
 * column does not change while the kernel runs. A group is numbered by its place in the table.
 *
 * The table has twice as many places as there is room for groups. A warp counts the places that it
 * has filled 32 or more at a time, since additions of all warps to one counter for each row would
 * take longer than everything else; the rest in the end; and all of them before it goes on with a
 * search that has not ended within a few places. So in the end the counter is the number of groups,
 * or larger than the room, in which case the result is not used. And if the table is full, the
 * counter is soon larger than the room, and each warp sees that before it searches on, and gives
 * up.
 */
#ifndef GPUJOIN_CUDA_KERNELS_HASH_CUH
#define GPUJOIN_CUDA_KERNELS_HASH_CUH

#include "kernels.cuh"
#include "rows.cuh"

namespace gjd
{

constexpr uint32_t no_group = 0xffffffffu;

/* The parts of a slot: a part of the hash that is never 0, the extent, the row in it. */
constexpr uint32_t slot_row_bits = 24;
constexpr uint32_t slot_extent_bits = 16;
constexpr uint32_t slot_hash_shift = slot_row_bits + slot_extent_bits;

/* A table and the columns by whose values rows are grouped */
struct group_table
{
	uint64_t *slots; /* zero at first */
	uint64_t places, room;
	unsigned long long *groups; /* number of slots that are set */
	uint32_t n_columns;
	placed_column columns[GJD_MAX_GROUP_COLUMNS];
};

inline group_table
group_table_of(const reduction_job &from)
{
	const gjd_reduction &asked = *from.asked;
	group_table table = {};

	if (asked.grouping != GJD_BY_COLUMNS)
		return table;
	table.slots = from.slots;
	table.places = group_places(from.keyset, asked);
	table.room = asked.room;
	table.groups = &from.counters->groups;
	table.n_columns = asked.n_columns;
	for (uint32_t i = 0; i < asked.n_columns; i++)
		table.columns[i] = place_column(from.column, asked.columns[i]);
	return table;
}

__device__ inline uint32_t
slot_extent(uint64_t slot)
{
	return (uint32_t) (slot >> slot_row_bits) % (1u << slot_extent_bits);
}

__device__ inline uint32_t
slot_row(uint64_t slot)
{
	return (uint32_t) slot % (1u << slot_row_bits);
}

__device__ inline uint64_t
hash_row(const group_table &table, const char *extent, uint32_t row)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < table.n_columns; i++)
	{
		bool null = is_null(table.columns[i], extent, row);
		uint64_t value = null ? 0x2545f4914f6cdd1du
							  : (uint64_t) value_of(table.columns[i], extent, row);

		hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	hash *= 0xd6e8feb86659fd93u;
	return hash ^ hash >> 32;
}

__device__ inline bool
rows_are_equal(const group_table &table, const char *extent, uint32_t row,
			   const char *other_extent, uint32_t other_row)
{
	for (uint32_t i = 0; i < table.n_columns; i++)
	{
		const placed_column &column = table.columns[i];
		bool null = is_null(column, extent, row);

		if (null != is_null(column, other_extent, other_row) ||
			(!null && value_of(column, extent, row) != value_of(column, other_extent, other_row)))
			return false;
	}
	return true;
}

/* Adds to the number of groups; returns true if they are too many. Called by all lanes. */
__device__ inline bool
count_groups(const group_table &table, uint32_t more)
{
	unsigned long long before = 0;

	if (threadIdx.x % 32 == 0)
		before = atomicAdd(table.groups, (unsigned long long) more);
	return __shfl_sync(all_lanes, before, 0) + more > table.room;
}

/* A search for the place of a row's group */
struct group_search
{
	uint64_t own, place; /* the slot that the row would fill, and the place to look at next */
};

__device__ inline group_search
begin_search(const group_table &table, const char *extent, uint32_t extent_number, uint32_t row)
{
	uint64_t hash = hash_row(table, extent, row);

	return {(hash | 1) << slot_hash_shift | (uint64_t) extent_number << slot_row_bits | row,
			__umul64hi(hash, table.places)};
}

/*
 * Looks at a few places. Returns true if search.place is that of the row's group; *claimed is set
 * if the row is the first of it, which the caller has to count.
 */
__device__ inline bool
continue_search(const group_table &table, char *const *extents, group_search &search, bool *claimed)
{
	constexpr uint32_t few_places = 32;
	const char *extent = extents[slot_extent(search.own)];

	for (uint32_t i = 0; i < few_places; i++)
	{
		unsigned long long *slot = (unsigned long long *) &table.slots[search.place];
		uint64_t found = *(volatile unsigned long long *) slot;

		if (found == 0)
		{
			found = atomicCAS(slot, 0, search.own);
			if (found == 0)
			{
				*claimed = true;
				return true;
			}
		}
		if (found >> slot_hash_shift == search.own >> slot_hash_shift &&
			rows_are_equal(table, extent, slot_row(search.own), extents[slot_extent(found)],
						   slot_row(found)))
			return true;
		search.place = search.place + 1 == table.places ? 0 : search.place + 1;
	}
	return false;
}

/*
 * Returns the place of the group that has a row's values, or no_group; only when no row is added
 * any more, and the groups are not too many, so that the table has a free place.
 */
__device__ inline uint32_t
find_group(const group_table &table, char *const *extents, uint32_t extent_number, uint32_t row)
{
	const char *extent = extents[extent_number];
	group_search search = begin_search(table, extent, extent_number, row);

	for (uint64_t found; (found = table.slots[search.place]) != 0;)
	{
		if (found >> slot_hash_shift == search.own >> slot_hash_shift &&
			rows_are_equal(table, extent, row, extents[slot_extent(found)], slot_row(found)))
			return (uint32_t) search.place;
		search.place = search.place + 1 == table.places ? 0 : search.place + 1;
	}
	return no_group;
}

}  // namespace gjd

#endif
