/*
 * kernels.cuh
 *	  What the library asks the launching files to put on the execute stream.
 */
#ifndef GPUJOIN_CUDA_KERNELS_CUH
#define GPUJOIN_CUDA_KERNELS_CUH

#include "match.cuh"

namespace gjd
{

/* launch.cu: the scan, by the strategy of the set. */
void launch_match(const gjd_column *column, const gjd_keyset *keyset, const match_output &out);

/* skip.cu: lists the tiles that the scan has to read; the counts of all others become zero. */
bool worth_skipping(const gjd_keyset *keyset, uint64_t tiles);
void launch_skip(const gjd_column *column, const gjd_keyset *keyset, const match_output &out);

/*
 * filter.cu: drops from bitmap and counts what does not pass; adds to *matched what was there
 * before.
 */
void launch_conditions(const gjd_column *column, const gjd_filter &filter, const match_output &out,
					   uint64_t *matched);

/* keyset_build.cu: clears zero .. zero + zero_bytes, then builds on the execute stream. */
struct key_transfer /* of keys that a block fetches itself; without vectors they are there */
{
	const uint4 *from; /* page-locked */
	uint32_t vectors;
	volatile uint32_t *built; /* set to 1 when nothing of the set is worked on any more */
};

bool is_built_by_block(const gjd_keyset *keyset, uint64_t zero_bytes);
void launch_build(gjd_keyset *keyset, char *zero, uint64_t zero_bytes,
				  const key_transfer &transfer);

/* gather.cu: from bitmap and counts to lists and entries, on the execute stream. */
struct gather_job
{
	const gjd_column *column;
	gjd_what what; /* GJD_TIDS, GJD_POSITIONS or GJD_ENTRIES */
	const uint32_t *bitmap;
	const uint64_t *tile_start;
	uint64_t tiles;
	gjd_want want; /* of entries */
};

/* Turns the counts of the tiles into where their items begin; one entry more gets the total. */
uint64_t scan_space_bytes(uint64_t tiles);
void launch_tile_scan(uint64_t *tile_start, uint64_t tiles, void *space, uint64_t bytes,
					  cudaStream_t stream);

/*
 * Writes items first .. first + capacity of the result, as far as there are so many. Entries go
 * into arrays that lie by the layout, whose room is capacity at least; NULL otherwise.
 */
void launch_gather(const gather_job &job, uint64_t first, uint64_t capacity, void *to,
				   const gjd_entry_layout *layout);

/* Sets *unordered if of the items that launch_gather() has written any two do not ascend. */
void launch_order_check(const void *items, uint64_t first, uint64_t capacity,
						const uint64_t *total, uint64_t *unordered, cudaStream_t stream);

/* Tells the host: the numbers go into the report, and last its own number. */
struct report_job
{
	match_report *report;
	uint64_t number;
	const uint64_t *total, *unordered, *matched;
};

void launch_report(const report_job &job, cudaStream_t stream);

/*
 * Writes the first items of the result, as many as there are but no more than most, where kernels
 * reach the caller's memory, and then the report. All arrays begin at multiples of 16 bytes.
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

void launch_delivery(const gjd_device *device, const delivery_job &delivery,
					 const report_job &job);

/* sort.cu: sorts items and drops doubles. Returns where the result lies: in items or in spare. */
uint64_t sort_space_bytes(uint64_t count);
uint64_t *launch_sort(uint64_t *items, uint64_t *spare, uint64_t count, void *space,
					  uint64_t bytes, uint64_t *distinct, cudaStream_t stream);

/* The same for entries, whose TIDs lie first; of equal ones the first stays. from is spoilt. */
uint64_t entry_sort_space_bytes(uint64_t count);
void launch_entry_sort(char *from, const gjd_entry_layout &from_layout, char *to,
					   const gjd_entry_layout &to_layout, uint64_t count, char *space,
					   uint64_t bytes, uint64_t *distinct, cudaStream_t stream);

}  // namespace gjd

#endif
