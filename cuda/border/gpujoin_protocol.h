/*
 * gpujoin_protocol.h
 *	  The protocol between PostgreSQL's processes and the helper program, in one memfd.
 *
 * The arena, as this file calls the memfd's contents, has a control block, one message block for
 * each request slot, and one chunk of data for each slot. The postmaster creates it; every
 * backend and the helper map it. Plain C: included by src/service/ and cuda/helper/.
 *
 * TRUST
 *	Neither side trusts the other. PostgreSQL keeps all state that must be correct (who owns a
 *	slot, which generation it has, where chunks begin) in its own shared memory, and copies
 *	data read here once before it checks and uses it. The helper does the same with requests: a
 *	backend that writes wildly can spoil answers, but not the helper's memory.
 *
 * WORDS
 *	Each word has one writer. A request is named by its slot and a generation, which is
 *	different for each. Progress words carry the generation in their upper half: a word of
 *	another generation means nothing. So a late answer to an abandoned request is not mistaken
 *	for the answer to the next one.
 *
 * A REQUEST
 *	The client fills in the request, stores "posted" and rings the doorbell. Data goes both
 *	ways through the chunk's two halves: part number k of a stream is in half k % 2. The sender
 *	fills a half, writes its length to in[] or out[], and stores the number of parts sent so
 *	far (produced, filled); the receiver stores the number it has finished with (taken,
 *	consumed), and the sender is never more than two ahead. So copying out of one half and
 *	filling the other overlap. A request first sends (keys, pages), then receives (TIDs,
 *	entries, groups). Entries come in parts as defined by gpujoin_shapes.h; the message gives the
 *	capacity of each part, which determines where the arrays begin.
 *
 *	A match sends a stream of 8-byte words in sections: the keys, their rests if they have any, then
 *	the memory that the members of a reduction point to (gjp_section_words). A reduction's answer
 *	has groups, and the rest as entries. A part may contain both: there is room for groups at its
 *	beginning, and the entries follow (gjp_entries_at). The pages that were left out are
 *	in the message, once the state is final.
 *
 *	The helper finally stores the state GJP_DONE or GJP_FAILED: from then on it touches neither
 *	the chunk nor the message. The slot may be reused only after that, even if the client has
 *	lost interest, which it signals by "cancelled".
 *
 * SLEEP
 *	The helper sleeps on the doorbell, a client on the bell in its message. Both are futexes. The
 *	sleeper reads the bell, sets its flag "sleeping", looks for news once more, and sleeps unless
 *	the bell has been rung since. A process that has news for the sleeper stores the news, tests
 *	the flag, and rings the bell by adding one. No process sleeps for a slot whose client has
 *	left: when its request ends, the helper writes to the supervisor's eventfd.
 */
#ifndef GPUJOIN_PROTOCOL_H
#define GPUJOIN_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpujoin_device.h"

#define GJP_MAGIC 0x504A4701u
#define GJP_VERSION 12
#define GJP_MAX_SLOTS 256
#define GJP_SLOT_WORDS (GJP_MAX_SLOTS / 64)
#define GJP_HALVES 2
#define GJP_PAGE_BYTES 4096 /* alignment of all parts of the arena */
#define GJP_LINE 64			/* unit that two writers must not share */
#define GJP_TEXT_BYTES 256

/*
 * Maximum number of keys and other words of one request, and of all requests whose words are being
 * collected: 512 MB
 */
#define GJP_MAX_WORDS ((uint64_t) 64 << 20)

#define GJP_OWN_LINE __attribute__((aligned(GJP_LINE)))

/* Fixed descriptors of the helper, beside 0 (nothing), 1 and 2 (log) */
#define GJP_ARENA_FD 3
#define GJP_EVENT_FD 4

/* Exit codes of the helper; it may also exit with a gjd_status (16 and up) */
enum
{
	GJP_EXIT_STOPPED = 0, /* as asked */
	GJP_EXIT_USAGE = 64,  /* wrong usage, or called by another version */
	GJP_EXIT_LIBRARY = 65, /* the device library cannot be loaded */
	GJP_EXIT_HUNG = 66,	  /* the device makes no progress */
	GJP_EXIT_EXEC = 67	  /* the program could not be started at all */
};

typedef enum gjp_phase
{
	GJP_OPENING = 0,
	GJP_READY,
	GJP_ENDING /* failed: the failure is filled in, and the process is about to exit */
} gjp_phase;

typedef enum gjp_op
{
	GJP_CREATE = 1, /* a column; its name is returned as a part without data */
	GJP_DROP,
	GJP_PUSH, /* in: pages */
	GJP_MATCH, /* in: keys and other words; out: TIDs, entries or groups, unless only counted */
	GJP_FAULT /* arm a fault, in the reference library */
} gjp_op;

typedef enum gjp_state
{
	GJP_IDLE = 0,
	GJP_RUNNING,
	GJP_DONE,
	GJP_FAILED
} gjp_state;

/* Additional failure codes of a request, beside gjd_status values */
enum
{
	GJP_GONE = 1000, /* no column of that name and generation */
	GJP_CANCELLED	 /* at its client's request */
};

/* The helper's current call, for the watchdog and the log */
typedef enum gjp_call
{
	GJP_CALL_NONE = 0,
	GJP_CALL_LOAD,
	GJP_CALL_OPEN,
	GJP_CALL_REGISTER,
	GJP_CALL_INFO,
	GJP_CALL_CREATE,
	GJP_CALL_DESTROY,
	GJP_CALL_WRITE,
	GJP_CALL_KEYSET,
	GJP_CALL_BEGIN,
	GJP_CALL_POLL,
	GJP_CALL_NEXT,
	GJP_CALL_END,
	GJP_CALL_FAULT,
	GJP_CALL_BATCH,
	GJP_CALL_COUNT
} gjp_call;

/* ---- control block ------------------------------------------------------------------------- */

/* Written once, before any other process maps the arena */
typedef struct gjp_layout
{
	uint32_t magic;
	uint32_t version;
	uint32_t slots;
	uint32_t message_bytes; /* sizeof(gjp_message) */
	uint64_t total_bytes;
	uint64_t messages_at;
	uint64_t chunks_at;
	uint64_t chunk_bytes;
} gjp_layout;

/* The helper's report on itself and its device */
typedef struct gjp_report
{
	char device[128];
	char uuid[48];
	int32_t compute_major, compute_minor;
	int32_t driver_version, runtime_version;
	uint32_t direct_copies; /* are the chunks registered with the device? */
	uint64_t memory_budget, memory_columns_limit, memory_columns, memory_scratch;
	uint64_t memory_total, memory_free; /* of the card; the latter is updated from time to time */
	uint64_t columns, keysets, matches;
	uint64_t batches, batched; /* of several matches so far, and the matches in them */
	uint64_t capabilities;	/* of the library: GJD_CAN_... */
	int32_t failure_status; /* gjd_status or exit code */
	int32_t failure_code;	/* gjd_error.device_code */
	char failure[256];

	/* Why the chunks are not registered; 0 and empty if they are */
	int32_t register_status;
	int32_t register_code;
	char register_failure[256];
	uint64_t locked_limit; /* RLIMIT_MEMLOCK, bytes; all bits set if unlimited */
} gjp_report;

typedef struct gjp_control
{
	gjp_layout layout;

	/* Written by the supervisor */
	GJP_OWN_LINE uint32_t epoch; /* of the running helper, or of the one about to start */
	uint32_t timeout_ms;		 /* gpujoin.device_timeout */
	uint32_t stop;				 /* end */

	/* Written by clients; the helper clears posted bits */
	GJP_OWN_LINE uint32_t doorbell;
	GJP_OWN_LINE uint64_t posted[GJP_SLOT_WORDS];

	/* Written by the helper */
	GJP_OWN_LINE uint32_t sleeping;
	GJP_OWN_LINE uint32_t phase;
	uint32_t call;
	uint64_t heartbeat;
	GJP_OWN_LINE gjp_report report;
} gjp_control;

/* ---- message ------------------------------------------------------------------------------- */

typedef struct gjp_request
{
	uint32_t epoch;
	uint32_t op;
	uint32_t column_id; /* DROP, PUSH, MATCH */
	uint32_t column_generation;
	gjd_shape shape;	/* CREATE; PUSH, entries and filters: must be the column's; MATCH:
						 * key_bytes */
	uint32_t count_only; /* MATCH */
	uint32_t entries;	 /* MATCH: not TIDs but entries, with ... */
	gjd_want want;		 /* ... these columns */
	uint32_t any_order;	 /* MATCH: they need not ascend, nor be distinct */
	uint32_t point, kind, skip, times, millis; /* FAULT */
	uint64_t reserve_pages;					   /* CREATE */
	uint32_t at_once; /* do not wait for memory that others hold: its client holds some, too */
	uint32_t rest_column; /* MATCH: 0, or keys have rests, and this column those of entries */
	uint64_t keys;							   /* MATCH: number of keys in all parts */
	gjd_filter filter;						   /* MATCH: condition that entries must pass */
	gjd_top top;							   /* MATCH: the first rows that are wanted */
	uint32_t reduce; /* MATCH: entries are reduced as follows; pointers and lengths of memory that
					  * receives groups mean nothing */
	uint32_t groups_if_needed; /* no groups are wanted if there is no rest and no page is left out
								* because of the bound */
	uint32_t has_weights; /* is this section present? */
	gjd_reduction reduction;
} gjp_request;

/* Length of a part sent to the helper: words or pages */
typedef struct gjp_part
{
	uint32_t items;
	uint32_t last;
} gjp_part;

/* Result of a request; final together with the state */
typedef struct gjp_result
{
	int32_t status; /* gjd_status, GJP_GONE, GJP_CANCELLED */
	int32_t device_code;
	uint32_t column_id; /* CREATE: valid with the first part */
	uint32_t column_generation;
	uint64_t count;		/* MATCH: slots that matched; PUSH: pages */
	uint64_t matched;	/* MATCH: the same, before the filter */

	/*
	 * MATCH, by the helper's clock: from the request's arrival until the key set is being sent to
	 * the device, from there until the device has reported the number of matches, from there
	 * until all TIDs are in the chunk. These include time in which the device works for earlier
	 * requests, and the last one includes time in which the client did not make room.
	 */
	uint64_t set_ns, kernel_ns, transfer_ns;
	uint32_t ascending;
	uint32_t n_newer;	/* of a reduction, as in gjd_reduced, like the following */
	uint64_t rows, nulls, groups;
	uint64_t elements;	/* in all parts */
	char text[GJP_TEXT_BYTES];
} gjp_result;

typedef struct gjp_message
{
	/* Written by the client */
	GJP_OWN_LINE gjp_request request;
	GJP_OWN_LINE uint32_t posted; /* generation of the request */
	uint32_t cancelled;			  /* likewise, once the client has left */
	uint32_t sleeping;
	gjp_part in[GJP_HALVES];
	uint64_t produced; /* words of generation and number */
	uint64_t consumed;

	/* Written by the helper, the bell also by the supervisor once it has given the helper up */
	GJP_OWN_LINE uint32_t bell;
	GJP_OWN_LINE uint64_t state; /* word of generation and gjp_state */
	uint64_t taken;
	uint64_t filled;
	uint32_t out[GJP_HALVES]; /* number of items of the parts that are present */
	uint32_t room[GJP_HALVES]; /* capacity of parts of entries */
	uint64_t expected;		  /* number of items of all parts, present with the first; for
							   * reserving memory */
	uint32_t groups[GJP_HALVES];	 /* number of elements of a reduction in these parts ... */
	uint32_t group_room[GJP_HALVES]; /* ... and the room for them */
	GJP_OWN_LINE gjp_result result;
	uint32_t newer[GJD_MAX_NEWER]; /* as in gjd_reduced; final together with the state */
} gjp_message;

/* ---- words --------------------------------------------------------------------------------- */

static inline uint64_t
gjp_word(uint32_t generation, uint32_t value)
{
	return (uint64_t) generation << 32 | value;
}

/* Returns the number in a progress word, 0 if it is of another generation */
static inline uint32_t
gjp_read_word(const uint64_t *word, uint32_t generation)
{
	uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	return (uint32_t) (value >> 32) == generation ? (uint32_t) value : 0;
}

static inline void
gjp_write_word(uint64_t *word, uint32_t generation, uint32_t value)
{
	__atomic_store_n(word, gjp_word(generation, value), __ATOMIC_RELEASE);
}

/* Prevents the compiler from rereading copied data from memory that others may have changed. */
static inline void
gjp_copied(void)
{
	__asm__ __volatile__("" ::: "memory");
}

/* ---- data in a chunk ----------------------------------------------------------------------- */

static inline uint64_t
gjp_half_bytes(uint64_t chunk_bytes)
{
	return chunk_bytes / GJP_HALVES / GJP_PAGE_BYTES * GJP_PAGE_BYTES;
}

/* Sections of the words that a match sends */
typedef enum gjp_section
{
	GJP_KEYS = 0,
	GJP_RESTS,	  /* of the keys, in the same order */
	GJP_LEFT_OUT, /* uint32 */
	GJP_MAP,	  /* bytes */
	GJP_WEIGHTS,  /* uint32 */
	GJP_SECTIONS
} gjp_section;

/* Gets the number of words of a section; the last one may have unused bytes. */
static inline uint64_t
gjp_section_words(const gjp_request *request, gjp_section section)
{
	const gjd_reduction *reduction = &request->reduction;

	if (section == GJP_KEYS)
		return request->keys;
	if (section == GJP_RESTS)
		return request->rest_column > 0 ? request->keys : 0;
	if (!request->reduce)
		return 0;
	switch (section)
	{
		case GJP_LEFT_OUT:
			return ((uint64_t) reduction->n_left_out + 1) / 2;
		case GJP_MAP:
			return reduction->map_bytes / 8 + (reduction->map_bytes % 8 > 0);
		case GJP_WEIGHTS:
			return request->has_weights ? reduction->n_keys / 2 + reduction->n_keys % 2 : 0;
		default:
			return 0;
	}
}

/* Gets the place of a section's first word, or the number of all words. */
static inline uint64_t
gjp_words_before(const gjp_request *request, gjp_section section)
{
	uint64_t words = 0;

	for (int i = 0; i < (int) section; i++)
		words += gjp_section_words(request, (gjp_section) i);
	return words;
}

/* Gets the offset of the entries in a part with room for this many groups. */
static inline uint64_t
gjp_entries_at(uint64_t group_room, uint64_t element_bytes)
{
	return gjd_align(group_room * element_bytes, GJD_ENTRY_ALIGN);
}

/*
 * Gets the offset of the images in a part of pages, which follow the heads of the maximum number
 * of pages
 */
static inline uint64_t
gjp_images_at(uint64_t max_pages)
{
	return (max_pages * sizeof(gjd_page_head) + GJP_LINE - 1) / GJP_LINE * GJP_LINE;
}

/* Gets the number of pages that a part can hold; 0 if not even one fits */
static inline uint64_t
gjp_max_pages(uint64_t half_bytes, uint64_t image_bytes)
{
	if (half_bytes < GJP_LINE)
		return 0;
	return (half_bytes - GJP_LINE) / (image_bytes + sizeof(gjd_page_head));
}

#endif /* GPUJOIN_PROTOCOL_H */
