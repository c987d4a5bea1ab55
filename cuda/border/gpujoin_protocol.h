/*
 * gpujoin_protocol.h
 *	  What PostgreSQL's processes and the helper program say to each other, through one memfd.
 *
 * The arena, as this file calls the memfd's contents, has a control block, one message block for
 * each request slot, and one chunk of data for each slot. PostgreSQL's postmaster makes it, every
 * backend and the helper map it. Plain C: included by src/service/ and cuda/helper/.
 *
 * TRUST
 *	Neither side believes the other. PostgreSQL keeps all that must be right (who owns a slot,
 *	which generation it has, where chunks begin) in its own shared memory, and copies what it reads
 *	here once before it checks and uses it. The helper does the same with requests: a backend that
 *	writes wildly can spoil answers, but not the helper's memory.
 *
 * WORDS
 *	Each word has one writer. A request is named by its slot and a generation, which PostgreSQL
 *	draws anew for each. Words that tell progress carry the generation in their upper half: a word
 *	of another generation says nothing. So a late answer to a request that nobody waits for any
 *	more is not mistaken for the answer to the next one.
 *
 * A REQUEST
 *	The client fills in the request, stores "posted" and rings the doorbell. Data goes both ways
 *	through the chunk's two halves: part number k of a stream is in half k % 2. The sender fills a
 *	half, writes its length to in[] or out[], and stores the number of parts sent so far
 *	(produced, filled); the receiver stores how many it is done with (taken, consumed), and the
 *	sender never is more than two ahead. So copying out of one half and filling the other overlap.
 *	A request first sends (keys, pages), then receives (TIDs, entries). Entries come in parts as
 *	gpujoin_shapes.h has them; each part has the room that its message says, which says where the
 *	arrays begin.
 *
 *	The helper's last word is the state GJP_DONE or GJP_FAILED: from then on it touches neither
 *	the chunk nor the message. Only after that may the slot be used again, also when the client
 *	has lost interest, which it says by "cancelled".
 *
 * SLEEP
 *	The helper sleeps on the doorbell (a futex) after it has said so in "sleeping"; who rings looks
 *	there. A client that is going to sleep says so in its message; the helper then sets the slot's
 *	bit in "wake" and writes to the supervisor's eventfd, and the supervisor sets the latch. On
 *	both ways the sleeper looks once more after it has announced itself.
 */
#ifndef GPUJOIN_PROTOCOL_H
#define GPUJOIN_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpujoin_device.h"

#define GJP_MAGIC 0x504A4701u
#define GJP_VERSION 6
#define GJP_MAX_SLOTS 256
#define GJP_SLOT_WORDS (GJP_MAX_SLOTS / 64)
#define GJP_HALVES 2
#define GJP_PAGE_BYTES 4096 /* all parts of the arena begin at multiples of this */
#define GJP_LINE 64			/* what two writers must not share */
#define GJP_TEXT_BYTES 256

/* Keys of one request, and of all requests whose keys are being collected: 512 MB of them */
#define GJP_MAX_KEYS ((uint64_t) 64 << 20)

#define GJP_OWN_LINE __attribute__((aligned(GJP_LINE)))

/* Fixed descriptors of the helper, beside 0 (nothing), 1 and 2 (log) */
#define GJP_ARENA_FD 3
#define GJP_EVENT_FD 4

/* Exit codes of the helper; a gjd_status (16 and up) is another way to end */
enum
{
	GJP_EXIT_STOPPED = 0, /* as asked */
	GJP_EXIT_USAGE = 64,  /* called wrongly, or by another version */
	GJP_EXIT_LIBRARY = 65, /* the device library cannot be loaded */
	GJP_EXIT_HUNG = 66,	  /* the device makes no progress */
	GJP_EXIT_EXEC = 67	  /* the program could not be started at all */
};

typedef enum gjp_phase
{
	GJP_OPENING = 0,
	GJP_READY,
	GJP_ENDING /* failed: the failure is filled in, the exit code follows */
} gjp_phase;

typedef enum gjp_op
{
	GJP_CREATE = 1, /* a column; its name comes as a part without data */
	GJP_DROP,
	GJP_PUSH, /* in: pages */
	GJP_MATCH, /* in: keys; out: TIDs or entries, unless only counted */
	GJP_FAULT /* arm a fault, in the reference library */
} gjp_op;

typedef enum gjp_state
{
	GJP_IDLE = 0,
	GJP_RUNNING,
	GJP_DONE,
	GJP_FAILED
} gjp_state;

/* How a request failed, beside gjd_status values */
enum
{
	GJP_GONE = 1000, /* no column of that name and generation */
	GJP_CANCELLED	 /* as its client wished */
};

/* What the helper is doing right now, for the watchdog and the log */
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
	GJP_CALL_COUNT
} gjp_call;

/* ---- control block ------------------------------------------------------------------------- */

/* Written once, before anybody else maps the arena */
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

/* What the helper tells of itself and its device */
typedef struct gjp_report
{
	char device[128];
	char uuid[48];
	int32_t compute_major, compute_minor;
	int32_t driver_version, runtime_version;
	uint32_t direct_copies; /* the chunks are registered with the device */
	uint64_t memory_budget, memory_columns_limit, memory_columns, memory_scratch;
	uint64_t memory_total, memory_free; /* of the card, the latter from time to time */
	uint64_t columns, keysets, matches;
	int32_t failure_status; /* gjd_status or exit code */
	int32_t failure_code;	/* gjd_error.device_code */
	char failure[256];

	/* Why the chunks are not registered; 0 and empty if they are */
	int32_t register_status;
	int32_t register_code;
	char register_failure[256];
	uint64_t locked_limit; /* RLIMIT_MEMLOCK, bytes; all bits set: none */
} gjp_report;

typedef struct gjp_control
{
	gjp_layout layout;

	/* Written by the supervisor */
	GJP_OWN_LINE uint32_t epoch; /* of the helper that runs or is about to start */
	uint32_t timeout_ms;		 /* gpujoin.device_timeout */
	uint32_t stop;				 /* end */

	/* Written by clients; the helper clears posted bits */
	GJP_OWN_LINE uint32_t doorbell;
	GJP_OWN_LINE uint64_t posted[GJP_SLOT_WORDS];

	/* Written by the helper; the supervisor clears wake bits */
	GJP_OWN_LINE uint32_t sleeping;
	GJP_OWN_LINE uint32_t phase;
	uint32_t call;
	uint64_t heartbeat;
	GJP_OWN_LINE uint64_t wake[GJP_SLOT_WORDS];
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
	gjd_want want;		 /* ... this */
	uint32_t any_order;	 /* MATCH: they need not ascend, nor be distinct */
	uint32_t point, kind, skip, times, millis; /* FAULT */
	uint64_t reserve_pages;					   /* CREATE */
	uint64_t keys;							   /* MATCH: of all parts */
	gjd_filter filter;						   /* MATCH: what they have to pass */
} gjp_request;

/* Length of a part on its way to the helper: keys or pages */
typedef struct gjp_part
{
	uint32_t items;
	uint32_t last;
} gjp_part;

/* What a request came to; final together with the state */
typedef struct gjp_result
{
	int32_t status; /* gjd_status, GJP_GONE, GJP_CANCELLED */
	int32_t device_code;
	uint32_t column_id; /* CREATE: valid with the first part */
	uint32_t column_generation;
	uint64_t count;		/* MATCH: slots that matched; PUSH: pages */
	uint64_t matched;	/* MATCH: the same before the filter */

	/*
	 * MATCH, by the helper's clock: from the request's arrival until the key set is on its way to
	 * the device, from there until the device has said how much matches, from there until all
	 * TIDs lie in the chunk. What the device does for others before is in them, and in the last
	 * the time for which the client did not make room.
	 */
	uint64_t set_ns, kernel_ns, transfer_ns;
	uint32_t ascending;
	uint32_t reserved;
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

	/* Written by the helper */
	GJP_OWN_LINE uint64_t state; /* word of generation and gjp_state */
	uint64_t taken;
	uint64_t filled;
	uint32_t out[GJP_HALVES]; /* items of the parts that are there */
	uint32_t room[GJP_HALVES]; /* of parts of entries */
	uint64_t expected;		  /* items of all parts, there with the first; for making room */
	GJP_OWN_LINE gjp_result result;
} gjp_message;

/* ---- words --------------------------------------------------------------------------------- */

static inline uint64_t
gjp_word(uint32_t generation, uint32_t value)
{
	return (uint64_t) generation << 32 | value;
}

/* The number in a progress word, 0 if it is of another generation */
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

/* After this, what was copied before is not read again from where others may have changed it. */
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

/* A part of pages: the heads of all it may have, then the images */
static inline uint64_t
gjp_images_at(uint64_t max_pages)
{
	return (max_pages * sizeof(gjd_page_head) + GJP_LINE - 1) / GJP_LINE * GJP_LINE;
}

/* Pages that a part may have; 0 if not even one fits */
static inline uint64_t
gjp_max_pages(uint64_t half_bytes, uint64_t image_bytes)
{
	if (half_bytes < GJP_LINE)
		return 0;
	return (half_bytes - GJP_LINE) / (image_bytes + sizeof(gjd_page_head));
}

#endif /* GPUJOIN_PROTOCOL_H */
