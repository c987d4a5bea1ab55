/*
 * kernels.cuh
 *	  Interface of the launching files for the library: work to put on the execute stream.
 */
#ifndef GPUJOIN_CUDA_KERNELS_CUH
#define GPUJOIN_CUDA_KERNELS_CUH

#include "match.cuh"

namespace gjd
{

/* batch.cu: launches that are made together */
void postpone(gjd_device *device, const postponed &launch, const void *job);
void flush_batch(gjd_device *device); /* throws; nothing is postponed any more */
void settle(gjd_device *device);	  /* the same, if launches are being postponed */

/* launch.cu: the scan, by the strategy of the set. */
void launch_match(const gjd_column *column, const gjd_keyset *keyset, const match_output &out);

/* skip.cu: lists the tiles that the scan has to read; the counts of all others become zero. */
bool worth_skipping(const gjd_keyset *keyset, uint64_t tiles);
void launch_skip(const gjd_column *column, const gjd_keyset *keyset, const match_output &out);

/*
 * prove.cu: removes rows whose rest, in the given column, is not in the set with their key from
 * bitmap and counts.
 */
void launch_proof(const gjd_column *column, const gjd_keyset *keyset, uint32_t rest_column,
				  const match_output &out);

/*
 * filter.cu: removes rows that fail from bitmap and counts; adds the number of rows before that
 * to *matched.
 */
void launch_conditions(const gjd_column *column, const gjd_filter &filter, const match_output &out,
					   uint64_t *matched);

/*
 * top.cu: removes rows behind a limit from bitmap and counts. The space is cleared before it is
 * used.
 */
uint64_t top_space_bytes();
void launch_top(const gjd_column *column, const gjd_top &top, const match_output &out, void *space);

/*
 * reduce.cu: removes rows that fail the filter, whose page is left out, or that are reduced, from
 * bitmap and counts; then makes the elements of the result, writes the first of them into the
 * caller's memory, and reports, if nothing is to follow.
 */
struct reduction_counters /* zero at first */
{
	unsigned long long rows, nulls, elements, groups;
	unsigned long long left; /* rows in the bitmap */
	unsigned long long blocks_done;
};

struct reduction_job
{
	const gjd_column *column;
	const gjd_keyset *keyset;
	const gjd_reduction *asked;
	uint32_t rest_column; /* 0 if keys have no rests */
	const gjd_filter *filter;
	const uint8_t *few_map; /* the map on the host if it is a kernel's parameter, or NULL ... */
	const uint8_t *map;		/* ... and the copies on the device */
	const uint32_t *left_out;
	uint32_t n_left_out;
	uint64_t *sums; /* group_places * reduction_sum_words words, zero at first */
	uint64_t *elements;
	reduction_counters *counters;
	uint64_t *slots; /* GJD_BY_COLUMNS: a slot for each place, zero at first */
	const uint32_t *weights; /* of keys, or NULL */
	uint32_t *shared; /* only_shared: a bit for each place, zero at first; otherwise NULL */
	void *first_elements; /* address for kernels */
	uint64_t first_capacity; /* 0: none are written there */
	const struct report_job *report; /* NULL if kernels follow */
};

uint64_t possible_groups(const gjd_keyset *keyset, const gjd_reduction &asked);
uint64_t group_places(const gjd_keyset *keyset, const gjd_reduction &asked);
uint32_t reduction_sum_words(const gjd_reduction &asked, const gjd_shape &shape);
void launch_reduction(const reduction_job &job, const match_output &out, uint64_t *matched);

/* keyset_build.cu: clears zero .. zero + zero_bytes, then builds on the execute stream. */
struct key_transfer /* keys that a block fetches itself; if vectors is 0, they are on the device
					 * already */
{
	const uint4 *from; /* page-locked */
	uint4 *to;
	uint32_t vectors;
	volatile uint32_t *built; /* set to 1 when the build no longer uses its inputs */
};

bool is_built_by_block(const gjd_keyset *keyset, uint64_t zero_bytes);
void launch_build(gjd_keyset *keyset, char *zero, uint64_t zero_bytes,
				  const key_transfer &transfer);

/* gather.cu: turns bitmap and counts into lists and entries, on the execute stream. */
struct gather_job
{
	const gjd_column *column;
	gjd_what what; /* GJD_TIDS, GJD_POSITIONS or GJD_ENTRIES */
	const uint32_t *bitmap;
	const uint64_t *tile_start;
	uint64_t tiles;
	gjd_want want; /* of entries */
};

/*
 * Turns the counts of the tiles into the start positions of their items; an additional last
 * element gets the total.
 */
uint64_t scan_space_bytes(uint64_t tiles);
void launch_tile_scan(gjd_device *device, uint64_t *tile_start, uint64_t tiles, void *space,
					  uint64_t bytes);

/*
 * Writes items first .. first + capacity of the result, or as many of them as exist. Entries go
 * into arrays placed by the layout, whose room must be at least capacity; NULL otherwise.
 */
void launch_gather(const gather_job &job, uint64_t first, uint64_t capacity, void *to,
				   const gjd_entry_layout *layout);

/* Sets *unordered if any two adjacent items written by launch_gather() do not ascend. */
void launch_order_check(gjd_device *device, const void *items, uint64_t first, uint64_t capacity,
						const uint64_t *total, uint64_t *unordered);

/* Reports to the host: the numbers go into the report, and its own sequence number last. */
struct report_job
{
	match_report *report;
	uint64_t number;
	const uint64_t *total, *unordered, *matched;
	const struct reduction_counters *reduced; /* NULL if nothing is reduced */
};

void launch_report(gjd_device *device, const report_job &job);

/*
 * Writes the first items of the result, as many as exist but at most "most", to the address at
 * which kernels reach the caller's memory, and then the report. All arrays start at multiples of
 * 16 bytes.
 */
struct delivery_job
{
	uint64_t most;
	uint32_t *blocks_done; /* 0 at first */
	struct arrays /* of items of 1 << w bytes */
	{
		const char *from;
		char *to;
		uint64_t from_pitch, to_pitch;
		uint32_t n;
	} widths[4];
};

void launch_delivery(gjd_device *device, const delivery_job &delivery,
					 const report_job &job);

/*
 * sort.cu: sorts items and removes duplicates. Returns the array that holds the result: items or
 * spare.
 */
uint64_t sort_space_bytes(uint64_t count);
uint64_t *launch_sort(uint64_t *items, uint64_t *spare, uint64_t count, void *space,
					  uint64_t bytes, uint64_t *distinct, cudaStream_t stream);

/*
 * The same for entries, whose TIDs come first; of equal ones the first is kept. Destroys the
 * contents of from.
 */
uint64_t entry_sort_space_bytes(uint64_t count);
void launch_entry_sort(char *from, const gjd_entry_layout &from_layout, char *to,
					   const gjd_entry_layout &to_layout, uint64_t count, char *space,
					   uint64_t bytes, uint64_t *distinct, cudaStream_t stream);

}  // namespace gjd

#endif
