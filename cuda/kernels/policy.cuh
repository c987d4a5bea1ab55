/*
 * policy.cuh
 *	  All tuning constants. cuda/README has the measurements by which they were chosen.
 */
#ifndef GPUJOIN_CUDA_KERNELS_POLICY_CUH
#define GPUJOIN_CUDA_KERNELS_POLICY_CUH

#include <cstdint>

namespace gjd
{
namespace policy
{

/* ---- memory -------------------------------------------------------------------------------- */

constexpr uint64_t scratch_granule = 256 << 10;
constexpr uint64_t locked_bytes = 32 << 20; /* 8 M keys of 4 bytes in transfer */
constexpr uint64_t locked_granule = 4 << 10;
constexpr uint64_t staging_bytes = 8 << 20; /* page images of one scatter */
constexpr uint32_t staging_buffers = 3;
constexpr uint32_t staging_images = 4096; /* at most, in one buffer */
constexpr uint64_t table_bytes = 256 << 10; /* 32768 extents a column */
constexpr uint32_t max_regions = 16;
constexpr uint64_t window_items = 1 << 20; /* TIDs gathered before their number is known */
constexpr uint64_t window_bytes = 16 << 20; /* the same for entries */
constexpr uint64_t rescan_slack = 1 << 16;	/* additional items that a second scan may find */
constexpr uint64_t totals_bytes = 2048; /* memory for the counters of a match, and few groups */

/*
 * Buffers for first items up to this size are written by kernels, which blocks other kernels for
 * 10 us at most; the calls for copies take longer.
 */
constexpr uint64_t written_bytes = 512 << 10;

/* Batches: requests in one, the bytes of their jobs, and how many of these are on their way */
constexpr uint32_t batch_requests = 64;
constexpr uint64_t batch_bytes = 256 << 10;
constexpr uint32_t batch_slots = 4;
constexpr uint32_t batch_waves = 4; /* blocks of a batch: this many times those of one request */

constexpr uint32_t looks_a_query = 64; /* polls of a report for each query to the driver */

/* ---- key sets ------------------------------------------------------------------------------ */

constexpr uint32_t most_constants = 8;
constexpr uint32_t one_bit_bits_a_key = 64;
constexpr uint32_t one_bit_most_bits = 1 << 20;
constexpr uint32_t two_bits_bits_a_key = 7;	   /* with fewer, the filter lets too many pass */
constexpr uint32_t two_bits_most_words = 51200; /* 200 KB */
constexpr uint64_t global_span_most_bits = (uint64_t) 1 << 28; /* 32 MB: stays in L2 */
constexpr uint32_t bloom_bits_a_key = 32;
constexpr uint64_t bloom_most_bytes = 32 << 20;
constexpr uint32_t prefilter_least_bits_a_tenth = 6; /* fewest filter bits per key, in tenths,
													  * for which it pays */
constexpr uint32_t block_build_most_keys = 8192;	 /* built by one block in one launch */

/* Average number of keys in a 32-byte bucket of the exact table: 8 (4) places of 4 (8) bytes. */
constexpr double keys_a_bucket(uint32_t key_bytes)
{
	return key_bytes == 4 ? 3.0 : 1.5;
}

/* ---- launches ------------------------------------------------------------------------------ */

/*
 * One block per multiprocessor, because a filter can take all its shared memory. Twenty warps,
 * which are loading the next tile, keep the memory busy, and leave registers for verifying.
 */
struct match_wide
{
	static constexpr uint32_t threads = 640;
	static constexpr uint32_t blocks = 1;
	static constexpr uint32_t kept_bytes = 1280;	/* shared memory for a warp's candidates */
	static constexpr uint32_t verified_at_once = 2; /* candidates a lane looks up at a time */
};

constexpr uint32_t shared_step = 8 << 10;	 /* granularity of the scan's shared memory */
constexpr uint32_t shared_margin = 1 << 10; /* shared memory left to the driver */
constexpr uint32_t build_threads = 256;
constexpr uint32_t skip_threads = 256;
constexpr uint64_t skip_least_tiles = 256; /* with fewer tiles, reading all takes as long as
										    * checking the bounds */
constexpr uint64_t block_sum_most_tiles = 1 << 16; /* summed up by one block in one launch */
constexpr uint32_t gather_threads = 256;
constexpr uint32_t scatter_threads = 256;
constexpr uint64_t block_element_groups = 1024; /* whose elements are made and delivered by one
												 * block in one launch */
constexpr uint64_t few_map_bytes = 128; /* a visibility map that is a parameter of the kernel */
constexpr uint32_t shared_group_bytes = 24 << 10; /* groups that take up to this are added up in
												   * shared memory first */
constexpr uint32_t most_near_groups = 1024; /* of columns, in shared memory; a power of two */

}  // namespace policy
}  // namespace gjd

#endif
