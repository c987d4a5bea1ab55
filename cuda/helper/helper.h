/*
 * helper.h
 *	  Internals of the helper program: its state, and the functions that its files share.
 */
#ifndef GPUJOIN_CUDA_HELPER_H
#define GPUJOIN_CUDA_HELPER_H

#include "border/gpujoin_protocol.h"

/* Size of parts for long key lists and results when the chunks are not registered */
#define STAGED_PART_BYTES ((uint64_t) 256 << 10)
#define NS_PER_MS ((int64_t) 1000000)

/* How long a request waits for scratch memory held by others */
#define BUSY_LIMIT_NS (1000 * NS_PER_MS)

/*
 * Chains: the kernels of all matches that begin in one round. The device works through them in
 * order. So while it has as many as this, small matches are held: the device would not work on them
 * yet, and those that come meanwhile join them, so that one chain answers more of them. If none of
 * the chains ends for a long time, one may hang, and matches are held no longer.
 */
#define MOST_CHAINS 2
#define HOLD_LIMIT_NS (500 * NS_PER_MS)
#define MOST_HELD_KEYS 8192 /* larger sets take the host time, for which the device need not wait */

/* Outcome of a request's step */
typedef enum outcome
{
	MOVED,		 /* progress was made: step again soon */
	WANTS_DEVICE, /* waits for the device */
	WANTS_OTHERS /* waits for its client, or for other requests to end */
} outcome;

/*
 * Time that a piece of work has waited for the device without progress. The device works first
 * come, first served: while an older piece makes progress, a younger one is merely queued.
 * Progress of younger pieces proves nothing, though.
 */
typedef struct wait
{
	uint64_t order; /* rank of the piece by when it first waited; 0 if it has not */
	int64_t ns;
} wait;

/* A match whose request has ended, but which the library has not released yet */
typedef struct ending
{
	gjd_match *match;
	wait device_wait;
} ending;

typedef struct request request;
typedef outcome (*step_fn)(request *q);

/* A column that clients can name */
typedef struct column
{
	gjd_column *handle; /* NULL if the place is free */
	uint32_t generation;
	gjd_shape shape;
	uint32_t pushes; /* number of requests that still hold the handle */
	bool dropping;
	uint64_t usual_items[4]; /* maximum number of TIDs or entries of recent matches, by kind */
} column;

/* A part of a result */
typedef struct part
{
	uint64_t items_end, groups_end; /* number of items and groups in all parts up to this one */
	uint32_t item_room, group_room;
} part;

struct request
{
	step_fn step; /* NULL if the slot has no request */
	uint32_t slot;
	uint32_t generation;
	gjp_request asked; /* private copy: clients can change the message at any time */
	bool cancelled;
	int64_t started, busy_since;
	wait device_wait;
	gjp_result result;

	uint32_t column; /* CREATE, PUSH */

	/* PUSH: parts accepted and released, pages accepted of the current part */
	uint32_t accepted, taken, position;
	uint64_t tickets[GJP_HALVES];
	bool last;

	/* MATCH */
	int64_t *collected; /* words that were sent; NULL while a single part can be read in place */
	uint64_t room_words;
	const int64_t *words;
	uint64_t n_words, all_words;
	gjd_keyset *keyset;
	gjd_match *match;
	bool ready;
	uint32_t *chain; /* in which the device works on the match; NULL once it has reported */
	int64_t match_began, match_ready; /* times */
	uint32_t begun, filled; /* parts handed to the library, parts published */
	uint64_t begun_items, begun_groups;
	uint64_t published_items, published_groups;
	part parts[GJP_HALVES];
	uint64_t part_items;	/* capacity of a part that has items only */
	uint32_t element_bytes; /* of a reduction */
	gjd_reduced reduced;	/* as of the last poll */
};

typedef struct helper
{
	char *arena;
	gjp_layout layout; /* private copy */
	gjp_control *control;
	uint32_t epoch;
	uint64_t half_bytes;
	uint64_t part_bytes; /* of results */
	const gjd_api *api;
	gjd_error error; /* of the last call that failed */
	gjd_device *device;
	int64_t now;
	bool info_is_old; /* has memory_info changed since it was reported? */
	bool ring;		  /* has the request of a client that left ended in this round? */
	request requests[GJP_MAX_SLOTS];
	uint64_t at_work[GJP_SLOT_WORDS]; /* bits of slots with a request */
	uint64_t to_wake[GJP_SLOT_WORDS]; /* bits of slots that got news while their clients slept */
	uint64_t words_room; /* of all requests together */
	uint32_t chains[MOST_CHAINS]; /* number of matches in each that the device has not reported */
	uint32_t *chain;			  /* for matches that begin in this round; NULL if none is free */
	int64_t full_since;			  /* since when none is free, or 0 */
	bool holds;					  /* are small matches held in this round? */
	ending *endings;
	uint32_t n_endings, room_endings;

	/* The watchdog for the device */
	uint64_t wait_order;   /* rank given out last */
	uint64_t moved_order;  /* of the oldest piece that made progress in this round */
	int64_t round_ns;	   /* duration of the previous round, capped */
} helper;

extern helper h;

/*
 * Publishes each call into the library for the watchdog: if a call never returns, the supervisor
 * can name it. Calls leave their error in h.error.
 */
#define CALL(what, expression) (call_begins(GJP_CALL_##what), call_ends(expression))

/* base.c */
void beat(void); /* tells the watchdog that this process is alive */
void call_begins(gjp_call call);
gjd_status call_ends(gjd_status status);
int64_t clock_ns(void);
int64_t timeout_ns(void);
void report_memory(void);
void report_card(void);
void die(int status, int device_code, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* request.c */
bool request_begin(uint32_t slot);
outcome request_step(request *q);
void request_end(request *q, gjp_state state);
void set_failure(request *q, int32_t status, const char *text);
outcome request_fail(request *q, int32_t status, const char *text);
outcome request_fail_call(request *q);
gjp_message *message_at(uint32_t slot);
gjp_message *message_of(const request *q);
char *half_of(const request *q, uint32_t part);
gjp_part read_part(const request *q, uint32_t part);
void publish(const request *q, uint64_t *word, uint32_t value);
bool out_of_patience(request *q);
void leave_chain(request *q);
void give_words(request *q);
void end_later(gjd_match *match);
bool end_matches(void);

/* bells.c */
void start_ringer(void);
void ring_clients(void);
void ring_supervisor(void);
void sleep_on_doorbell(uint32_t seen, int64_t ns);

/* wait.c */
void wait_on(wait *w);
void wait_over(wait *w, bool moved);
void wait_check(wait *w);

/* open.c */
void map_arena(void);
void load_library(const char *path);
void open_device(const char *name, uint64_t budget);
void register_chunks(void);

/* column.c */
outcome create_begin(request *q);
outcome drop_begin(request *q);
outcome push_begin(request *q);
column *column_find(const request *q);

/* match.c */
outcome match_begin(request *q);

#endif /* GPUJOIN_CUDA_HELPER_H */
