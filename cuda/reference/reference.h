/*
 * reference.h
 *	  Internals of the reference library: its objects, and the functions that its files share.
 */
#ifndef GPUJOIN_CUDA_REFERENCE_H
#define GPUJOIN_CUDA_REFERENCE_H

#include "border/layout.h"
#include "border/newer.h"

#define MAX_REGIONS 16
#define STAGING_BYTES ((uint64_t) 8 << 20) /* limit of one column_write_pages() call */
#define KEPT_BYTES 4096					   /* least scratch charged for each object */

/* Scratch that the CUDA library keeps: for staging, and for a column's list of extents */
#define ALL_STAGING_BYTES (3 * STAGING_BYTES)
#define TABLE_BYTES ((uint64_t) 256 << 10)

/* The moment at which started work counts as done: after that time, and at least one poll. */
typedef struct due
{
	int64_t at; /* ms */
	bool asked;
} due;

struct gjd_device
{
	uint32_t number;
	uint64_t budget, columns_limit, columns_used, scratch_used;
	uint64_t kept; /* part of scratch_used that no request holds */
	uint64_t columns, keysets, matches;
	bool lost;
	bool batching;			/* is a batch open? */
	uint64_t batch;			/* its number; that of the next one if none is open */
	uint64_t batch_matches; /* begun in it */
	gjd_batch_info batched;
	gjd_fault faults[GJD_AT_COUNT];
	void *regions[MAX_REGIONS];
};

struct gjd_column
{
	gjd_device *device;
	gjd_shape shape;
	uint32_t pages_per_extent;
	uint64_t page_bytes, extent_bytes;
	char **extents; /* pages of an extent, each stored as its image */
	uint64_t n_extents, pages;
	uint64_t *versions; /* one for each reserved page */
	newer_ring *newer; /* of the copies accepted last */
	uint64_t applied, ignored;
	uint64_t ticket;
	due written;
	uint32_t users;
	bool destroyed;
	bool has_table; /* is the list of extents charged? */
};

struct gjd_keyset
{
	gjd_device *device;
	uint32_t key_bytes, users;
	int64_t *keys;
	int64_t *rests; /* of the keys, or NULL */
	uint64_t count, bytes;
	bool destroyed;
};

typedef struct hit
{
	gjd_tid tid;
	uint64_t position;
} hit;

/* A reduction in progress, with copies of the memory that its parameters point to; see reduce.c. */
typedef struct reducing
{
	gjd_reduction asked;
	uint32_t *left_out;
	uint8_t *map;
	uint32_t *weights; /* of keys, or NULL */
	uint64_t n_groups; /* elements before empty ones are left out */
	uint32_t words;	   /* of each */
	uint64_t *groups;
	uint32_t *places; /* GJD_BY_COLUMNS: a hash table of numbers of groups, counted from 1 */
	uint64_t n_places;
	uint8_t *shared; /* only_shared: for each group, does a row of the rest have its values? */
	bool too_many; /* are there more groups than room? */
	gjd_reduced state;
} reducing;

/* A row's place in an order: NULLs come before or after all values. */
typedef struct sort_word
{
	uint32_t part;
	uint64_t value;
} sort_word;

struct gjd_match
{
	gjd_column *column;
	gjd_keyset *keyset;
	gjd_what what;
	gjd_want want;
	bool any_order;			  /* may items come in any order? */
	uint32_t rest_column;	  /* 0 if keys have no rests */
	gjd_filter filter;
	uint64_t *items;		  /* TIDs, positions, or words of a bitmap */
	hit *hits;				  /* what TIDs and entries are made from */
	gjd_entry_layout entries; /* layout of the entries in ... */
	char *entry_arrays;		  /* ... this */
	gjd_match_state state;
	reducing *reducing; /* NULL if nothing is reduced */
	gjd_top top;
	sort_word last; /* of the rows to deliver, if there is a limit */
	bool limited;	/* is it known? */
	uint64_t charged;
	uint64_t batch; /* it is pending as long as this batch is open */
	due done;
};

/* The places of all rows in an order */
typedef struct word_list
{
	gjd_match *match;
	sort_word *words;
	uint64_t n, room;
	bool failed;
} word_list;

typedef void (*visit_fn)(void *context, const char *image, uint64_t position, gjd_tid tid);

/* reference.c */
due due_in(uint32_t millis);
bool is_due(due *d);
gjd_status play_fault(gjd_device *device, gjd_fault_point point, uint32_t *delay,
					  gjd_error *error);
void start_batch(gjd_device *device);
bool is_held(const gjd_match *match);
gjd_status charge(gjd_device *device, uint64_t bytes, uint64_t own, gjd_error *error);

/* fault.c */
gjd_status fail(gjd_error *error, gjd_status status, int code, const char *format, ...);
gjd_status planned_failure(const char *point, uint32_t device, gjd_error *error);

/* column.c */
gjd_status column_create(gjd_device *device, const gjd_column_params *params, gjd_column **out,
						 gjd_error *error);
gjd_status column_reserve(gjd_column *column, uint64_t pages, gjd_error *error);
gjd_status column_write_pages(gjd_column *column, const gjd_page_head *heads, const void *images,
							  uint64_t count, uint64_t *accepted, uint64_t *ticket,
							  gjd_error *error);
gjd_status column_write_poll(gjd_column *column, uint64_t ticket, gjd_error *error);
gjd_status column_info(gjd_column *column, gjd_column_info *info, gjd_error *error);
gjd_status column_versions(gjd_column *column, uint64_t first, uint64_t count, uint64_t *versions,
						   gjd_error *error);
gjd_status column_destroy(gjd_column *column, gjd_error *error);
const char *page_at(const gjd_column *column, uint64_t page);
void release_column(gjd_column *column);

/* filter.c */
bool is_null(const gjd_shape *shape, const char *image, uint32_t slot, uint32_t c);
int64_t value_at(const gjd_shape *shape, const char *image, uint32_t slot, uint32_t column);
bool is_marked(const gjd_shape *shape, uint32_t marked, const char *image, uint32_t slot,
			   uint32_t column);
bool passes(const gjd_filter *filter, const gjd_shape *shape, uint32_t marked, const char *image,
			uint32_t slot);

/* keyset.c */
gjd_status keyset_create(gjd_device *device, const gjd_keyset_params *params, gjd_keyset **out,
						 gjd_error *error);
gjd_status keyset_info(gjd_keyset *keyset, gjd_keyset_info *info, gjd_error *error);
gjd_status keyset_destroy(gjd_keyset *keyset, gjd_error *error);
void release_keyset(gjd_keyset *keyset); /* frees a set that is destroyed and not in use */

/* Returns the number of a row's key, with its rest, in the set; count if it is not in the set. */
uint64_t rank_of(const gjd_match *match, const char *image, uint32_t slot);

/* reduce.c */
gjd_status begin_reduction(gjd_match *match, const gjd_reduction *asked, gjd_error *error);
void end_reduction(gjd_match *match);
bool is_left_out(const reducing *r, uint64_t page);
bool is_reduced(const gjd_match *match, const char *image, uint32_t slot, gjd_tid tid);
void reduce_row(gjd_match *match, const char *image, uint32_t slot);
void share_row(gjd_match *match, const char *image, uint32_t slot);
void finish_groups(gjd_match *match);
void copy_groups(gjd_match *match, void *buffer, uint64_t capacity);
gjd_status match_reduced(gjd_match *match, gjd_reduced *reduced, gjd_error *error);
gjd_status match_groups(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk,
						gjd_error *error);

/* top.c */
bool is_within(const gjd_match *match, const char *image, uint32_t slot);
void add_word(void *context, const char *image, uint64_t position, gjd_tid tid);

/* Sorts the words that add_word() collected, finds the last one wanted, and frees them. */
gjd_status set_last(gjd_match *match, word_list *list, gjd_error *error);

/* match.c */
gjd_status match_begin(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *params,
					   gjd_match **out, gjd_error *error);
gjd_status match_poll(gjd_match *match, gjd_match_state *state, gjd_error *error);
gjd_status match_next(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk,
					  gjd_error *error);
gjd_status match_end(gjd_match *match, gjd_error *error);

/* entries.c */
bool make_entries(gjd_match *match); /* false: out of memory */
void copy_entries(const gjd_match *match, char *part, uint64_t room, uint64_t n);

#endif
