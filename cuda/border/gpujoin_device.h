/*
 * gpujoin_device.h
 *	  The interface between the helper program and a device library.
 *
 * Two libraries implement it: gpujoin_cuda.so (CUDA) and gpujoin_reference.so (plain C, the
 * oracle of the tests and the device of machines without a GPU). Each exports one symbol,
 * gjd_get_api(); everything else is reached through the table it returns. The caller is the
 * helper program, a process that may crash without harming the server: nothing here depends on
 * PostgreSQL. PostgreSQL code may include this file for its plain structures (page images, TIDs),
 * but never loads a library.
 *
 * SHAPES
 *	A column is the mirror of one index. It has pages 0, 1, 2, ... with one fixed number of
 *	slots (a multiple of 32); position = page * slots + slot. A slot has a key (int32 or
 *	int64), a TID (block, offset), a validity bit, and a value or NULL of each carried column,
 *	which only filters read; the keys of invalid slots are never read. A page that was never
 *	written has no valid slot. No key value is reserved.
 *	A key set is a set of distinct keys, built once and usable by any number of matches. Where a
 *	key alone does not prove that an entry is wanted, it has a rest, which the entry has in a
 *	carried column: then keys are distinct together with their rests.
 *	A match is one request: the valid slots of a column whose key is in the set, and which pass
 *	a filter if there is one, as a count, as TIDs, as positions, as a bitmap over positions, or
 *	as entries: TIDs together with the keys and carried columns that the caller wants.
 *	Where all this lies in memory: gpujoin_shapes.h.
 *
 * ORDER
 *	Calls on one device take effect in the order in which they are made. A match sees every page
 *	that column_write_pages() *accepted* before its match_begin(), and none accepted after, though
 *	neither call waits for the device. So a caller that notes its sequence number when the last
 *	page of it was accepted knows exactly which state each later match has seen.
 *	The only exception is a result too large for the memory reserved at first: it may see
 *	either version of pages written before the match is ready. Each entry is consistent even
 *	then: its TID, key and carried values were in the slot together, and matched.
 *	A batch (batch_begin) only delays work: it changes neither this nor any answer.
 *
 * ASYNCHRONY
 *	No call waits for a kernel or a copy, apart from device_open, device_close, host_register,
 *	host_unregister and copies of unregistered memory, see below. Calls that start work return
 *	at once; the matching poll returns GJD_PENDING until it is done. So one thread can drive
 *	any number of requests. Work runs first come, first served on three streams: in (pages,
 *	keys), execute (kernels), out (results); kernels write device scratch, and a small
 *	first_buffer, and never wait for the caller, who fetches results in chunks whenever there
 *	is room.
 *
 * THREADS
 *	A device and everything made from it belong to one thread at a time. The library has no
 *	callbacks. The driver's threads are started with all signals blocked.
 *
 * ERRORS
 *	Every entry returns a gjd_status and, if that is neither GJD_OK nor GJD_PENDING and the
 *	error argument is not NULL, fills the caller's gjd_error. No exception, longjmp, exit or
 *	output crosses the interface. After GJD_DEVICE_LOST the device is unusable: every later
 *	call returns the same, and the process has to end (a new one may open the device again).
 *	After any other error the object named in the call is as it was before, unless said
 *	otherwise.
 *
 * OWNERSHIP
 *	Host memory is the caller's: (pointer, capacity) in, counts out. The comment of each call
 *	says whether it keeps using it after it returns. Memory that was registered (host_register)
 *	is read and written by the card directly; other memory works too, but then the copying call
 *	waits for that copy (so use chunks of modest size). Registered memory may be shared with
 *	processes that are not trusted: the library copies data before validating it.
 *
 * USE
 *	device_open and host_register of the result arena; then one loop over all requests. For
 *	each: keyset_create, match_begin (with first_buffer in the request's part of the arena),
 *	keyset_destroy at once, since the match keeps the set; match_poll in every round until
 *	GJD_OK or an error; tell the requester count and items delivered; while it has room:
 *	match_next, poll until delivered has grown; match_end until GJD_OK, also when the requester
 *	is gone: only then may the buffers be reused. GJD_BUSY: keep the request and try again
 *	after some match has ended. GJD_NO_MEMORY: destroy an unused column and try again, or tell
 *	the requester. Pages: column_write_pages with the rest of the batch in every round until
 *	all are accepted, then column_write_poll until GJD_OK, then return the buffer. Nothing
 *	sleeps: a loop without work in progress must itself wait for its callers.
 *
 * GROWING THIS FILE
 *	Structures begin with struct_size, set by the caller to the sizeof it was compiled with;
 *	new members are added at the end and zero means "as before"; a shorter structure is still
 *	accepted. New entries are added at the end of gjd_api; its struct_size tells how far it
 *	reaches. New kinds of result will be new values of gjd_what.
 */
#ifndef GPUJOIN_DEVICE_H
#define GPUJOIN_DEVICE_H

#if defined(POSTGRES_H) && (defined(__CUDACC__) || defined(__CUDA_RUNTIME_H__))
#error "postgres.h and CUDA headers never meet in one translation unit"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpujoin_shapes.h"
#include "gpujoin_reduction.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GJD_API_VERSION 2

typedef struct gjd_device gjd_device;
typedef struct gjd_column gjd_column;
typedef struct gjd_keyset gjd_keyset;
typedef struct gjd_match gjd_match;

typedef enum gjd_status
{
	GJD_OK = 0,
	GJD_PENDING = 1, /* not an error: still in progress, poll again */
	GJD_BUSY = 2,	 /* no room now, but there will be when requests in progress have ended */
	GJD_INVALID = 16,	/* the caller's mistake; nothing was done */
	GJD_NO_MEMORY,		/* the budget or the card is full: evict a column, or do without the
						 * device */
	GJD_NO_HOST_MEMORY, /* malloc or page locking failed */
	GJD_NO_DRIVER,		/* no driver, or one too old for the library: retrying is of no use */
	GJD_NO_DEVICE,		/* driver there, device absent, or none by that name */
	GJD_NO_PERMISSION,	/* the device exists but this process may not use it */
	GJD_DEVICE_IN_USE,	/* exclusive or prohibited compute mode: another process uses it */
	GJD_UNSUPPORTED,	/* the device or the system cannot do this */
	GJD_DEVICE_LOST,	/* sticky: end the process */
	GJD_INTERNAL,		/* a bug of the library */
	GJD_TOO_NEW,		/* too many copies are newer than a reduction's bound; nothing was done */
	GJD_TOO_MANY		/* a reduction has more groups than room; end the match */
} gjd_status;

typedef struct gjd_error
{
	gjd_status status;
	int32_t device_code; /* cudaError_t or errno, 0 if neither */
	char message[256];	 /* lower case, no full stop; always terminated */
} gjd_error;

/* ---- device -------------------------------------------------------------------------------- */

typedef struct gjd_open_params
{
	uint32_t struct_size;
	uint32_t shared_limit; /* tests: pretend that a block has only this many bytes of shared
						    * memory */
	const char *device;	   /* NULL or "": the first; "2": by index; "GPU-..." or "MIG-...": by UUID,
							* which must precede the process's first use of CUDA */
	uint64_t memory_budget;	  /* bytes taken from the card at open, rounded down to extents; 0:
							   * three quarters of the free memory */
	uint64_t scratch_reserve; /* part of it that columns cannot take, for results and key sets;
							   * 0: a sixteenth of the budget, at least 64 MB, at most 4 GB */
} gjd_open_params;

typedef struct gjd_device_info
{
	char name[128];
	char uuid[48]; /* "GPU-..." or "MIG-..."; "reference" for the reference library */
	int32_t compute_major, compute_minor;
	int32_t multiprocessors;
	int32_t driver_version;	 /* as CUDA numbers them: 12040 is 12.4; 0 for the reference */
	int32_t runtime_version;
	uint32_t shared_bytes; /* shared memory a block can have */
	uint64_t l2_bytes;
	uint64_t memory_total;
	uint64_t memory_free; /* of the card, now */
} gjd_device_info;

typedef struct gjd_memory_info
{
	uint64_t budget;	   /* bytes reserved at open */
	uint64_t columns_limit; /* part of it that columns may take */
	uint64_t columns_used; /* held by columns, in whole extents */
	uint64_t scratch_used; /* held by key sets, matches, staging (from open to close) and columns'
							  lists of extents */
	uint64_t columns, keysets, matches; /* live objects; a destroyed column counts while in use */
} gjd_memory_info;

/* ---- column -------------------------------------------------------------------------------- */

typedef struct gjd_column_params
{
	uint32_t struct_size;
	uint32_t key_bytes; /* 4 or 8 */
	uint32_t slots;		/* a page; multiple of 32, at most GJD_MAX_SLOTS */
	uint32_t n_carried; /* carried columns */
	uint64_t reserve_pages; /* like column_reserve() */

	/* Only with carried columns: as in gjd_shape */
	uint32_t nullable;
	uint8_t carried_bytes[GJD_MAX_CARRIED];
} gjd_column_params;

typedef struct gjd_column_info
{
	uint64_t pages;			 /* highest page accepted + 1 */
	uint64_t reserved_pages; /* pages that fit into the reserved memory */
	uint64_t bytes;			 /* device memory held */
	uint64_t copies_applied; /* page copies applied ... */
	uint64_t copies_ignored; /* ... and ignored because a newer one was present */
	uint32_t users;			 /* number of matches that hold the column */
} gjd_column_info;

/* Metadata of a page copy. The library copies it before reading it. */
typedef struct gjd_page_head
{
	uint64_t page;
	uint64_t version; /* the page's change counter */
} gjd_page_head;

/* ---- key set ------------------------------------------------------------------------------- */

/*
 * How keys are tested against a set. The library chooses (GJD_BY_AUTO); tests and benchmarks may
 * name a strategy, and get GJD_INVALID if it does not fit the set or the device. All give the
 * same answer.
 */
typedef enum gjd_strategy
{
	GJD_BY_AUTO = 0,
	GJD_BY_CONSTANTS,	/* compared one by one */
	GJD_BY_SPAN,		/* exact bitmap from the least to the greatest key, in shared memory */
	GJD_BY_ONE_BIT,		/* one-bit hash filter in shared memory, then an exact table */
	GJD_BY_TWO_BITS,	/* two bits in one word, in shared memory, then an exact table */
	GJD_BY_GLOBAL_SPAN, /* exact bitmap in device memory behind a filter in shared memory */
	GJD_BY_GLOBAL_BLOOM, /* filter in device memory behind one in shared memory, then the table */
	GJD_BY_SEARCH,		/* the reference library's binary search */
	GJD_BY_NOTHING		/* the empty set */
} gjd_strategy;

typedef struct gjd_keyset_params
{
	uint32_t struct_size;
	uint32_t key_bytes; /* of the columns it is for: 4 or 8 */
	const int64_t *keys; /* ascending, distinct; copied before the call returns */
	uint64_t count;		/* may be 0; keys that key_bytes cannot hold are left out */
	gjd_strategy strategy;

	/*
	 * NULL, or a rest for each key, which must have 8 bytes. Any number of keys may be equal then:
	 * pairs of key and rest ascend and are distinct. Such a set is only for matches that name a
	 * column with rests. Needs GJD_CAN_PROVE_RESTS.
	 */
	const int64_t *rests;
} gjd_keyset_params;

typedef struct gjd_keyset_info
{
	uint64_t count; /* keys kept, equal ones included */
	uint64_t bytes; /* device memory */
	gjd_strategy strategy;
} gjd_keyset_info;

/* ---- match --------------------------------------------------------------------------------- */

typedef enum gjd_what
{
	GJD_COUNT = 0, /* no items */
	GJD_TIDS,	   /* items are gjd_tid; if "ascending" is set, ascending and distinct */
	GJD_POSITIONS, /* items are uint64 positions, ascending */
	GJD_BITMAP,	   /* items are uint32, pages * slots / 32 of them; bit p % 32 of item p / 32 */
	GJD_ENTRIES	   /* items are entries, in the order of GJD_TIDS; of entries with equal TIDs,
				    * the first by position is kept. They come in parts (gjd_entry_layout), whose
				    * room is the capacity of the buffer */
} gjd_what;

typedef struct gjd_match_params
{
	uint32_t struct_size;
	gjd_what what;

	/*
	 * Optional: destination of the first items, delivered without a match_next() call, which
	 * saves a round trip. The buffer is the library's until match_poll() first returns GJD_OK;
	 * its contents after the delivered items are undefined then.
	 */
	void *first_buffer;
	uint64_t first_capacity; /* in items */

	gjd_want want; /* GJD_ENTRIES: what to return beside TIDs; GJD_INVALID if it names columns
				    * that do not exist */

	/*
	 * Not 0: TIDs and entries may come in column order, and with duplicates. The library does not
	 * check then whether they ascend, and the state does not report it.
	 */
	uint32_t any_order;

	/*
	 * Not 0, if the set has rests: carried column rest_column - 1, of 8 bytes, has those of the
	 * entries. An entry matches only if its key and its rest are a pair of the set, and so not if
	 * its rest is NULL.
	 */
	uint32_t rest_column;

	gjd_filter filter; /* GJD_INVALID if a condition names a column that does not exist */

	/* NULL, or what to reduce; only of GJD_ENTRIES in any order, without a limit */
	const gjd_reduction *reduction;
	gjd_top top; /* only of GJD_TIDS and GJD_ENTRIES */
} gjd_match_params;

typedef struct gjd_match_state
{
	bool ready;		/* count, items and ascending are final; match_next() may be called */
	bool ascending; /* TIDs ascend strictly. If they do not in column order, the library sorts
					 * them and removes duplicates; false if memory did not suffice: sort them
					 * yourself, and expect duplicates */
	uint32_t item_bytes; /* GJD_ENTRIES: in all arrays together */
	uint64_t count;		/* slots that matched; without duplicates if TIDs were sorted */
	uint64_t matched;	/* slots whose key, with its rest if it has one, is in the set, before the
						 * filter; equals count if there is no filter */
	uint64_t items;		/* of the whole result */
	uint64_t begun;		/* items handed to copies so far */
	uint64_t delivered; /* items present in the caller's buffers; grows in order */
} gjd_match_state;

typedef struct gjd_chunk
{
	uint64_t first; /* index of the first item */
	uint64_t items; /* items being copied into the given buffer */
} gjd_chunk;

/* Batches of several matches so far, and the number of matches in them */
typedef struct gjd_batch_info
{
	uint64_t batches, matches;
} gjd_batch_info;

/* ---- faults (reference library only) ------------------------------------------------------- */

typedef enum gjd_fault_kind
{
	GJD_FAULT_NONE = 0,
	GJD_FAULT_NO_MEMORY, /* the call fails with GJD_NO_MEMORY */
	GJD_FAULT_LOST,		 /* the call fails with GJD_DEVICE_LOST, and so do all after it */
	GJD_FAULT_DELAY,	 /* the work that the call starts takes millis longer: polls return
						  * GJD_PENDING */
	GJD_FAULT_BLOCK,	 /* the call itself takes millis longer */
	GJD_FAULT_HANG,		 /* the call never returns */
	GJD_FAULT_CRASH,	 /* SIGSEGV in the call */
	GJD_FAULT_ABORT,	 /* abort() in the call */
	GJD_FAULT_EXIT		 /* _exit(3) in the call */
} gjd_fault_kind;

typedef enum gjd_fault_point
{
	GJD_AT_RESERVE = 0, /* column_create, column_reserve: when they allocate memory */
	GJD_AT_WRITE,		/* column_write_pages */
	GJD_AT_KEYSET,		/* keyset_create */
	GJD_AT_BEGIN,		/* match_begin */
	GJD_AT_POLL,		/* match_poll */
	GJD_AT_NEXT,		/* match_next */
	GJD_AT_REGISTER,	/* host_register */
	GJD_AT_COUNT
} gjd_fault_point;

typedef struct gjd_fault
{
	uint32_t struct_size;
	gjd_fault_point point;
	gjd_fault_kind kind; /* GJD_FAULT_NONE disarms the point */
	uint32_t skip;		 /* number of calls that pass unharmed first */
	uint32_t times;		 /* number of calls that are hit then; 0: all */
	uint32_t millis;
} gjd_fault;

/* ---- the table ----------------------------------------------------------------------------- */

typedef struct gjd_api
{
	uint32_t version;
	uint32_t struct_size;
	const char *name; /* "cuda" or "reference" */

	/* Takes the device, creates streams and reserves the budget. Takes about 0.3 s. */
	gjd_status (*device_open)(const gjd_open_params *params, gjd_device **device,
							  gjd_error *error);

	/* Waits for the device and releases everything. GJD_BUSY while objects made from it exist. */
	gjd_status (*device_close)(gjd_device *device, gjd_error *error);
	gjd_status (*device_info)(gjd_device *device, gjd_device_info *info, gjd_error *error);
	gjd_status (*memory_info)(gjd_device *device, gjd_memory_info *info, gjd_error *error);

	/*
	 * Locks [base, base + bytes) for direct copies; page aligned. May fail (GJD_NO_HOST_MEMORY,
	 * GJD_NO_PERMISSION, GJD_UNSUPPORTED) without harm: continue without it. A region is
	 * unregistered by its base, when no work uses it. At most 16 regions.
	 */
	gjd_status (*host_register)(gjd_device *device, void *base, uint64_t bytes, gjd_error *error);
	gjd_status (*host_unregister)(gjd_device *device, void *base, gjd_error *error);

	/* Creates a column. GJD_NO_MEMORY if reserve_pages do not fit. */
	gjd_status (*column_create)(gjd_device *device, const gjd_column_params *params,
								gjd_column **column, gjd_error *error);

	/*
	 * Reserves memory for at least this many pages in total, in whole extents; never shrinks. All
	 * or nothing: after GJD_NO_MEMORY the column is unchanged.
	 */
	gjd_status (*column_reserve)(gjd_column *column, uint64_t pages, gjd_error *error);

	/*
	 * Pushes copies of count pages: heads[i] goes with the i-th image. Accepts the first
	 * *accepted of them, fewer than count if staging is full (0 and GJD_PENDING if none fits now:
	 * offer the rest again later) and reserves memory as needed (on GJD_NO_MEMORY, *accepted is
	 * the number accepted before). A copy with a lower version than the copy held is counted and
	 * ignored, even within one call. To erase entries, push the page with their validity cleared.
	 * heads are no longer used after return; the accepted images must stay unchanged until
	 * column_write_poll() of *ticket returns GJD_OK.
	 */
	gjd_status (*column_write_pages)(gjd_column *column, const gjd_page_head *heads,
									 const void *images, uint64_t count, uint64_t *accepted,
									 uint64_t *ticket, gjd_error *error);

	/* GJD_OK when the images of this ticket, and of all earlier ones, are no longer needed. */
	gjd_status (*column_write_poll)(gjd_column *column, uint64_t ticket, gjd_error *error);
	gjd_status (*column_info)(gjd_column *column, gjd_column_info *info, gjd_error *error);

	/* Gets the versions of the copies held, starting with page first; 0 for pages never written. */
	gjd_status (*column_versions)(gjd_column *column, uint64_t first, uint64_t count,
								  uint64_t *versions, gjd_error *error);

	/*
	 * Ends the handle. Matches in progress keep what they need; the memory is freed when the last
	 * of them ends. GJD_PENDING, without any effect, while page copies are still being applied:
	 * call it again.
	 */
	gjd_status (*column_destroy)(gjd_column *column, gjd_error *error);

	/* Builds a set. The keys are checked: GJD_INVALID unless they ascend strictly. */
	gjd_status (*keyset_create)(gjd_device *device, const gjd_keyset_params *params,
								gjd_keyset **keyset, gjd_error *error);
	gjd_status (*keyset_info)(gjd_keyset *keyset, gjd_keyset_info *info, gjd_error *error);

	/* Ends the handle, at any time; matches in progress keep the set. */
	gjd_status (*keyset_destroy)(gjd_keyset *keyset, gjd_error *error);

	/*
	 * Starts a match. GJD_INVALID if the key widths differ; GJD_BUSY if there is no scratch
	 * memory until another match ends; GJD_NO_MEMORY if there never will be.
	 */
	gjd_status (*match_begin)(gjd_column *column, gjd_keyset *keyset,
							  const gjd_match_params *params, gjd_match **match, gjd_error *error);

	/*
	 * Drives the match and returns its state. GJD_OK: nothing is in progress (ready is set, all
	 * copies begun are delivered). GJD_PENDING: something is; state tells what has arrived
	 * already.
	 */
	gjd_status (*match_poll)(gjd_match *match, gjd_match_state *state, gjd_error *error);

	/*
	 * Starts copying the next items, as many as fit into capacity (in items, at least 1), into a
	 * buffer that is the library's until delivered has reached first + items. Up to four copies
	 * may be in progress. chunk->items is 0, with GJD_OK, when all items have been begun, and
	 * with GJD_PENDING when nothing can be begun before a poll has made progress. GJD_INVALID
	 * before ready.
	 */
	gjd_status (*match_next)(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk,
							 gjd_error *error);

	/*
	 * Ends the match, whatever its state. GJD_OK: everything is freed, and the library will not
	 * touch the caller's buffers any more. GJD_PENDING: some of its work is still in progress;
	 * the handle lives on, and the only valid call is match_end() again, until it returns GJD_OK.
	 */
	gjd_status (*match_end)(gjd_match *match, gjd_error *error);

	/* Arms a fault. NULL in every library except the reference library. */
	gjd_status (*inject_fault)(gjd_device *device, const gjd_fault *fault, gjd_error *error);

	/*
	 * GJD_CAN_...: a match that needs another capability is GJD_UNSUPPORTED. Together they tell
	 * which of the two following entries may be called.
	 */
	uint64_t capabilities;

	/* Gets the state of a reduction that match_poll() has reported ready. */
	gjd_status (*match_reduced)(gjd_match *match, gjd_reduced *reduced, gjd_error *error);

	/* The same as match_next() for the elements of a reduction's result. */
	gjd_status (*match_groups)(gjd_match *match, void *buffer, uint64_t capacity,
							   gjd_chunk *chunk, gjd_error *error);

	/*
	 * Opens a batch. Work for key sets and matches that begin from here on is postponed until
	 * batch_end(), or earlier: the library starts it when there is enough, or when other work has
	 * to come after it. Polls return GJD_PENDING until then. What several matches have in common
	 * is started together, which takes less of the caller's time. A match that fails to begin does
	 * not concern the others. GJD_INVALID if a batch is open, or, for batch_end(), if none is.
	 * info may be NULL. Both need GJD_CAN_BATCH.
	 */
	gjd_status (*batch_begin)(gjd_device *device, gjd_error *error);
	gjd_status (*batch_end)(gjd_device *device, gjd_batch_info *info, gjd_error *error);
} gjd_api;

typedef const gjd_api *(*gjd_get_api_fn)(uint32_t version);

/* The only exported symbol; look it up by GJD_ENTRY. NULL if the version is not supported. */
#define GJD_ENTRY "gjd_get_api"
const gjd_api *gjd_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* GPUJOIN_DEVICE_H */
