/*
 * objects.cuh
 *	  Internals of the CUDA library: failures, and the objects behind the handles.
 *
 * Host code may throw gjd::failure (and std::bad_alloc), which are caught in each entry point
 * (guarded() in library/library.cuh). Objects are plain: their resources are released by the
 * release functions of their files, because they can only be released when the device is done
 * with them.
 */
#ifndef GPUJOIN_CUDA_KERNELS_OBJECTS_CUH
#define GPUJOIN_CUDA_KERNELS_OBJECTS_CUH

#ifdef POSTGRES_H
#error "device code does not include postgres.h"
#endif

#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "border/layout.h"
#include "border/newer.h"
#include "batch.cuh"
#include "pool.cuh"

namespace gjd
{

/* ---- errors -------------------------------------------------------------------------------- */

struct failure
{
	gjd_status status;
	int code;
	const char *what;	/* lower case, static */
	const char *detail; /* CUDA's message, or NULL */
};

gjd_status status_of(cudaError_t code);
[[noreturn]] void throw_cuda(cudaError_t code, const char *what);
gjd_status report_failure(const failure &f, gjd_error *error);

[[noreturn]] inline void
throw_status(gjd_status status, const char *what)
{
	throw failure{status, 0, what, nullptr};
}

inline void
check(cudaError_t code, const char *what)
{
	if (code != cudaSuccess)
		throw_cuda(code, what);
}

/* Must be called after every launch; debug builds wait for the kernel, to blame the right one. */
inline void
check_launch(cudaStream_t stream, const char *what)
{
	check(cudaGetLastError(), what);
#ifdef GPUJOIN_DEBUG_SYNC
	check(cudaStreamSynchronize(stream), what);
#else
	(void) stream;
#endif
}

inline void
require(bool condition, const char *what)
{
	if (!condition)
		throw_status(GJD_INVALID, what);
}

/* Returns true if the driver's code means completed, false if not ready; throws on failure. */
inline bool
is_over(cudaError_t code)
{
	if (code == cudaErrorNotReady)
	{
		(void) cudaGetLastError();
		return false;
	}
	check(code, "device failed while working");
	return true;
}

/* Returns true if the event has happened. */
inline bool
has_happened(cudaEvent_t event)
{
	return is_over(cudaEventQuery(event));
}

/* Returns true if all work put on the stream is done. */
inline bool
is_idle(cudaStream_t stream)
{
	return is_over(cudaStreamQuery(stream));
}

}  // namespace gjd

/* ---- objects ------------------------------------------------------------------------------- */

/* A report that kernels write into page-locked memory, so that the host need not copy it. */
struct match_report
{
	volatile uint64_t count;
	volatile uint64_t unordered; /* number of adjacent items that do not ascend */
	volatile uint64_t matched;	 /* before the filter, if there is one */
	volatile uint64_t reduced, nulls, elements, groups; /* of a reduction */
	volatile uint64_t written;	 /* set last: sequence number of the match's report, from 1 */
};

/* One page of a scatter: the number of its image in the staging buffer, and its destination. */
struct scatter_entry
{
	uint32_t page, image;
};

struct staging_buffer
{
	char *memory;
	scatter_entry *list; /* page-locked, read by the scatter kernel where it lies */
	cudaEvent_t applied; /* set when the scatter kernels that read it are done */
	bool in_use;
};

struct gjd_device
{
	int ordinal;
	cudaDeviceProp properties;
	uint32_t shared_limit; /* bytes of shared memory a block may use */
	cudaStream_t in, execute, out;
	char *budget;
	gjd::pool memory;	/* over budget */
	uint64_t columns_limit, columns_used, scratch_used, locked_used;
	uint64_t kept_scratch, kept_locked; /* parts of these that no request holds */
	char *locked;
	gjd::pool locked_memory; /* over locked: page-locked host memory for keys, heads, reports */
	std::vector<staging_buffer> staging;
	uint32_t next_staging;
	std::vector<cudaEvent_t> spare_events;
	gjd::launch_batch batch;
	std::vector<gjd_keyset *> building; /* sets whose kernels may still be running */
	struct region
	{
		char *base;
		uint64_t bytes;
		char *mapped; /* address for kernels, or NULL */
	};
	std::vector<region> regions;
	uint64_t columns, keysets, matches;
	uint32_t looks; /* number of polls that found no report */
	bool lost;
};

struct gjd_column
{
	gjd_device *device;
	gjd_shape shape;
	uint32_t pages_per_extent;
	uint64_t extent_bytes, image_bytes;
	std::vector<char *> extents;
	char **extent_table; /* its copy on the device */
	uint64_t table_bytes;
	uint64_t pages;
	std::vector<uint64_t> versions;
	std::vector<uint32_t> last_round; /* for each page, the last scatter that touched it */
	uint32_t round;
	cudaEvent_t changed; /* set when the last work that changes the column is done */
	bool changing;
	newer_ring *newer; /* of the copies accepted last */
	uint64_t applied, ignored;
	bool leaves_rows; /* true if the last reduction left rows in the bitmap */
	uint64_t ticket;
	struct copy
	{
		uint64_t ticket;
		cudaEvent_t copied; /* set when the images have left the caller's memory */
	};
	std::vector<copy> copies; /* in order of tickets */
	uint32_t users;
	bool destroyed;
};

namespace gjd
{

/* Positions of the parts of a key set in its one piece of device memory. */
struct keyset_parts
{
	void *keys;
	uint32_t *filter;		/* image of the filter in shared memory */
	uint32_t filter_words;
	uint32_t *global;		/* bitmap or Bloom filter in device memory */
	uint32_t global_words;
	void *table;			/* exact table of 32-byte buckets */
	uint32_t *fill;			/* number of keys in each bucket */
	uint32_t buckets;
};

}  // namespace gjd

struct gjd_keyset
{
	gjd_device *device;
	uint32_t key_bytes;
	uint64_t count; /* distinct keys */
	gjd_strategy strategy;
	int64_t least, greatest;
	int64_t constants[8];
	gjd::keyset_parts parts;
	char *memory;
	uint64_t bytes;
	bool has_rests;
	uint64_t n_pairs;	  /* with rests: keys, equal ones included; these and their rests are at the
						   * start of the memory */
	uint64_t distinct_at; /* position of the distinct keys in the memory */
	uint64_t input_bytes; /* of keys and rests, which come from the host */
	char *locked; /* page-locked copy of the keys until built */
	uint64_t locked_bytes;
	volatile uint32_t *built_word; /* after the keys, if the kernel itself reports its end; or
								    * ... */
	cudaEvent_t built;			   /* ... an event */
	bool building;
	uint64_t *zeros; /* counters for the first match; NULL if absent or taken */
	uint32_t users;
	bool destroyed;
};

/* A reduction in progress, with copies of the memory that its parameters point to */
struct reducing
{
	gjd_reduction asked;
	gjd_reduced state;
	char *scratch; /* what follows up to the inputs */
	uint64_t scratch_bytes;
	uint64_t sums_at, shared_at; /* after the slots; all are in the match's totals if few */
	uint64_t cleared_bytes;		 /* of slots, sums and shared */
	char *inputs; /* map, weights, pages to leave out: on the device ... */
	uint64_t input_bytes;
	char *locked; /* ... and in page-locked memory */
	uint64_t locked_bytes;
	uint64_t weights_at, left_out_at;
	uint32_t named[GJD_MAX_LEFT_OUT]; /* pages named by the caller */
	uint32_t n_left_out;			  /* those, and newer ones */
	uint64_t written;				  /* number of first elements that come with the report */
};

struct gjd_match
{
	static constexpr uint32_t max_copies = 4;

	gjd_device *device;
	gjd_column *column;
	gjd_keyset *keyset;
	gjd_what what;
	gjd_want want;
	bool any_order; /* may items come in any order? */
	uint32_t rest_column; /* 0 if keys have no rests */
	gjd_filter filter;
	gjd_top top;
	reducing *reduction; /* NULL if nothing is reduced */
	uint64_t rows, tiles;
	uint64_t seen; /* the column's last write before the scan */

	char *scratch; /* contains everything up to the window */
	uint64_t scratch_bytes;
	uint32_t *bitmap;
	uint64_t *tile_start; /* counts, then start positions, of the tiles; the total after them */
	uint64_t *totals;	  /* [0] a count or the number of distinct TIDs, [1] unordered, [2] tiles
						   * listed, [3] matches before the filter, [4] blocks that have
						   * delivered, [8] counters of a reduction, [32] its few groups */
	void *top_space;	  /* NULL without a limit */
	bool totals_are_zero; /* are they zero when the first kernel starts? */
	uint32_t *tile_list;  /* tiles that can have a match; all are scanned if NULL */
	void *scan_space;
	uint64_t scan_bytes;
	char *window; /* gathered items */
	uint64_t window_items;
	gjd_entry_layout window_layout; /* layout of entries, like all layouts here */

	char *whole; /* the whole result, if the window is too small */
	uint64_t whole_bytes, whole_items;
	char *sorting_space;
	uint64_t sorting_bytes;
	const char *list; /* location of the items: window, whole or sorted */
	gjd_entry_layout list_layout;

	match_report *report;
	uint64_t reports;	  /* number of reports requested */
	cudaEvent_t executed; /* what copies wait for; NULL if none has waited yet */
	enum
	{
		counting, /* first kernels are running */
		checking, /* the whole result is being gathered, or its order checked */
		sorting,
		finished
	} phase;
	bool postponed; /* are sums and items made only if the first report tells of rows? */
	bool rescanned; /* are the items sent by send_first() of another scan? */
	bool windowed; /* does the whole result not fit, so that it is gathered a window at a time? */
	uint64_t window_first;

	char *first_buffer;
	uint64_t first_capacity;
	uint64_t written; /* number of first items that come with the first report */

	struct copy
	{
		uint64_t end; /* number of items delivered when it is done */
		cudaEvent_t copied;
		bool of_groups; /* copies elements of a reduction, not items */
	};
	std::vector<copy> copies;
	gjd_match_state state;
	bool ending;
};

#endif
