/*-------------------------------------------------------------------------
 *
 * share.c
 *	  Dividing TIDs and entries among processes, by heap blocks.
 *
 * An array of packed TIDs is cut into steps of equal length, and a counter gives the next step
 * to be taken.  Each block must be processed by one process (two processes pinning and locking
 * the same page would be slower, and a block's TIDs are fetched together), so steps are adjusted
 * to block boundaries: a step begins with the first block that begins in it, and ends with the
 * last block that begins in it, wherever that block ends.  The process that takes a step finds
 * these boundaries in the array, which does not change.  So each TID is in exactly one step.
 *
 * A set that exceeded its memory limit is shared as one bit for each heap block: then each tuple
 * of the block is a candidate.  This takes little memory, and less than the set itself.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "share.h"

/*
 * Average number of steps per process: enough of them to let all processes end at about the same
 * time, but a step should be large enough for reading ahead, and to make the counter's cost
 * negligible.
 */
#define TID_STEPS_PER_PROCESS		32
#define MIN_STEP_TIDS			64
#define MAX_STEP_TIDS			2048
#define MIN_STEP_WORDS			1
#define MAX_STEP_WORDS			16

#define BITS_PER_WORD			64

/* State of a set over shared TIDs */
typedef struct Taker
{
	GjSharedTids *shared;
	const uint64 *words;
	uint64	   *blocks;			/* lossy: the blocks of a step, as TIDs */
	void		(*progress) (void *arg);
	void	   *arg;
} Taker;

/* As for TIDs, but each step must also check the vacuum epoch */
#define ENTRY_STEPS_PER_PROCESS		16
#define MIN_STEP_ENTRIES		1024
#define MAX_STEP_ENTRIES		16384

/* Maximum number of ranges that the heap is divided into */
#define MAX_RANGES				4096

static void share_blocks(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses);
static uint64 *allocate_words(GjSharedTids *shared, dsa_area *area, uint64 nwords);
static bool share_take_step(void *taker, const uint64 **tids, uint64 *ntids);
static uint64 range_border(const uint64 *tids, uint64 position, uint64 ntids, int range_bits);
static uint64 take_blocks(const Taker *taker, uint64 start, uint64 end, const uint64 **tids);
static bool find_places(GjSharedEntries *shared, const GjEntrySet *set, uint32 *places);
static void place_arrays(GjEntrySet *view, char *memory, uint64 n, Size *size);
static char *place(Size *size, char *memory, Size bytes);
static void share_copy_column(GjEntryColumn *to, const GjEntryColumn *from, uint64 n,
							  const uint32 *places);
static void copy_array(void *to, const void *from, int width, uint64 n, const uint32 *places);
static void share_advance(GjEntryColumn *column, uint64 n);
static bool share_take_range(pg_atomic_uint64 *next, uint64 step, const uint64 *tids, uint64 ntids,
							 int range_bits, uint64 *first, uint64 *end);

/*
 * Initialize shared memory, without TIDs
 */
void
GjTidsShareInit(GjSharedTids *shared)
{
	memset(shared, 0, sizeof(GjSharedTids));
	shared->state = GJ_SHARE_EMPTY;
	pg_atomic_init_u64(&shared->next, 0);
}

/*
 * Copy a finished set into shared memory, for the given number of processes
 */
void
GjTidsShare(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses)
{
	const uint64 *tids;
	uint64		n;

	Assert(shared->state == GJ_SHARE_EMPTY);
	GjTidsShareInit(shared);
	if (!GjTidSetGetArray(set, &tids, &n))
	{
		share_blocks(shared, area, set, nprocesses);
		return;
	}
	if (n > 0)
	{
		memcpy(allocate_words(shared, area, n), tids, n * sizeof(uint64));
		shared->state = GJ_SHARE_TIDS;
	}
	shared->step = Min(Max(n / nprocesses / TID_STEPS_PER_PROCESS, MIN_STEP_TIDS), MAX_STEP_TIDS);
}

static void
share_blocks(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses)
{
	GjTidBlock	block;
	BlockNumber last = 0;
	uint64	   *words;

	while (GjTidSetNextBlock(set, &block))
	{
		CHECK_FOR_INTERRUPTS();
		last = block.block;
	}
	GjTidSetRewind(set);

	words = allocate_words(shared, area, (uint64) last / BITS_PER_WORD + 1);
	memset(words, 0, shared->nwords * sizeof(uint64));
	while (GjTidSetNextBlock(set, &block))
	{
		CHECK_FOR_INTERRUPTS();
		words[block.block / BITS_PER_WORD] |= UINT64CONST(1) << (block.block % BITS_PER_WORD);
	}
	shared->state = GJ_SHARE_BLOCKS;
	shared->step = Min(Max(shared->nwords / nprocesses / TID_STEPS_PER_PROCESS, MIN_STEP_WORDS),
					   MAX_STEP_WORDS);
}

static uint64 *
allocate_words(GjSharedTids *shared, dsa_area *area, uint64 nwords)
{
	shared->words = dsa_allocate_extended(area, nwords * sizeof(uint64), DSA_ALLOC_HUGE);
	shared->nwords = nwords;
	return dsa_get_address(area, shared->words);
}

/*
 * Free the shared memory; no process may still be reading it
 */
void
GjTidsUnshare(GjSharedTids *shared, dsa_area *area)
{
	Assert(shared->state != GJ_SHARE_ENTRIES);
	if (shared->state != GJ_SHARE_EMPTY)
		dsa_free(area, shared->words);
	GjTidsShareInit(shared);
}

/*
 * Create a set that delivers this process's share of the TIDs, step by step
 */
GjTidSet *
GjTidsOpenShared(MemoryContext parent, GjSharedTids *shared, dsa_area *area,
				 void (*progress) (void *arg), void *arg)
{
	Taker	   *taker;
	GjTidSet   *set = GjTidSetCreateView(parent, share_take_step, sizeof(Taker), (void **) &taker);

	Assert(shared->state != GJ_SHARE_ENTRIES);
	taker->shared = shared;
	taker->progress = progress;
	taker->arg = arg;
	if (shared->state != GJ_SHARE_EMPTY)
		taker->words = dsa_get_address(area, shared->words);
	if (shared->state == GJ_SHARE_BLOCKS)
		taker->blocks = MemoryContextAlloc(GetMemoryChunkContext(taker),
										   shared->step * BITS_PER_WORD * sizeof(uint64));
	return set;
}

/*
 * Take the next step that has TIDs; returns false if all are taken
 */
static bool
share_take_step(void *arg, const uint64 **tids, uint64 *ntids)
{
	const Taker *taker = arg;
	GjSharedTids *shared = taker->shared;
	uint64		first;
	uint64		end;

	if (taker->progress != NULL)
		taker->progress(taker->arg);
	if (shared->state != GJ_SHARE_BLOCKS)
	{
		if (!share_take_range(&shared->next, shared->step, taker->words, shared->nwords, 0,
							  &first, &end))
			return false;
		*tids = taker->words + first;
		*ntids = end - first;
		return true;
	}

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!GjTakeStep(&shared->next, shared->step, shared->nwords, &first, &end))
			return false;
		*ntids = take_blocks(taker, first, end, tids);
	} while (*ntids == 0);
	return true;
}

/*
 * Take the TIDs of the next ranges of blocks: those from first to before end.  Returns false if
 * all are taken.
 */
static bool
share_take_range(pg_atomic_uint64 *next, uint64 step, const uint64 *tids, uint64 ntids,
				 int range_bits, uint64 *first, uint64 *end)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!GjTakeStep(next, step, ntids, first, end))
			return false;
		*first = range_border(tids, *first, ntids, range_bits);
		*end = range_border(tids, *end, ntids, range_bits);
	} while (*first == *end);
	return true;
}

/*
 * Take the next step of n elements, without adjusting its ends; returns false if all are taken.
 * The counter is read first, so that it is not incremented without end.
 */
bool
GjTakeStep(pg_atomic_uint64 *next, uint64 step, uint64 n, uint64 *first, uint64 *end)
{
	if (pg_atomic_read_u64(next) >= n)
		return false;
	*first = pg_atomic_fetch_add_u64(next, step);
	*end = Min(*first + step, n);
	return *first < n;
}

/*
 * Return the first position at or after this one where a range of blocks begins
 */
static uint64
range_border(const uint64 *tids, uint64 position, uint64 ntids, int range_bits)
{
	while (position > 0 && position < ntids &&
		   GjPackedBlock(tids[position]) >> range_bits ==
		   GjPackedBlock(tids[position - 1]) >> range_bits)
		position++;
	return position;
}

/*
 * List the blocks whose bits are set in these words, as TIDs without an offset
 */
static uint64
take_blocks(const Taker *taker, uint64 start, uint64 end, const uint64 **tids)
{
	uint64		n = 0;

	for (uint64 word = start; word < end; word++)
	{
		for (uint64 left = taker->words[word]; left != 0; left &= left - 1)
			taker->blocks[n++] = (word * BITS_PER_WORD + pg_rightmost_one_pos64(left)) << 16;
	}
	*tids = taker->blocks;
	return n;
}

/*-------------------------------------------------------------------------
 * Entries
 *
 * Divide entries among processes by heap blocks.
 *
 * The arrays of a finished set are copied into shared memory, in sequence, and cut into steps
 * like those of TIDs: a heap block's entries go to one process, so that their rows are fetched
 * together.  As a finished set has each TID once, each is in exactly one step.
 *
 * Entries are in no particular order.  Therefore the heap is divided into ranges of blocks, a few
 * thousand, and the entries are copied range by range, keeping their order within a range.  This
 * costs little more than a plain copy.  Steps are cut at range boundaries.
 *
 * The position of an array follows from the number of entries and the widths of the columns.
 * All processes know the widths: they run the same plan over the same index.
 *-------------------------------------------------------------------------
 */

/*
 * Initialize shared memory, without entries
 */
void
GjEntrySetShareInit(GjSharedEntries *shared)
{
	memset(shared, 0, sizeof(GjSharedEntries));
	shared->state = GJ_SHARE_EMPTY;
	pg_atomic_init_u64(&shared->next, 0);
}

/*
 * Copy a finished set, which must have tids[] or be empty, into shared memory
 */
void
GjEntrySetShare(GjSharedEntries *shared, dsa_area *area, const GjEntrySet *set, int nprocesses)
{
	uint64		n = set->nentries;
	GjEntrySet	copy = *set;
	uint32	   *places;
	Size		size;

	Assert(shared->state == GJ_SHARE_EMPTY);
	GjEntrySetShareInit(shared);
	shared->step = Min(Max(n / nprocesses / ENTRY_STEPS_PER_PROCESS, MIN_STEP_ENTRIES),
					   MAX_STEP_ENTRIES);
	if (n == 0)
		return;

	place_arrays(&copy, NULL, n, &size);
	shared->memory = dsa_allocate_extended(area, size, DSA_ALLOC_HUGE);
	place_arrays(&copy, dsa_get_address(area, shared->memory), n, &size);
	places = MemoryContextAllocHuge(set->context, n * sizeof(uint32));
	if (!find_places(shared, set, places))
	{
		pfree(places);
		places = NULL;
	}
	copy_array(copy.tids, set->tids, sizeof(uint64), n, places);
	share_copy_column(&copy.keys, &set->keys, n, places);
	for (int i = 0; i < set->nincluded; i++)
	{
		share_copy_column(&copy.included[i], &set->included[i], n, places);
		shared->has_nulls[i] = set->included[i].has_nulls;
	}
	if (places != NULL)
		pfree(places);
	shared->nentries = n;
	shared->state = GJ_SHARE_ENTRIES;
}

/*
 * Compute each entry's position when ordered by ranges of blocks; returns false if they already
 * are in that order
 */
static bool
find_places(GjSharedEntries *shared, const GjEntrySet *set, uint32 *places)
{
	uint32		next[MAX_RANGES] = {0};
	uint64		n = set->nentries;
	uint32		sum = 0;
	uint64		greatest = 0;
	uint32		last = 0;
	bool		ordered = true;
	int			shift = 16;		/* from a TID to its range's number */

	for (uint64 i = 0; i < n; i++)
		greatest = Max(greatest, set->tids[i]);
	while (greatest >> shift >= MAX_RANGES)
		shift++;
	shared->range_bits = shift - 16;
	for (uint64 i = 0; i < n; i++)
	{
		uint32		range = (uint32) (set->tids[i] >> shift);

		next[range]++;
		ordered &= range >= last;
		last = range;
	}
	if (ordered)
		return false;
	for (int range = 0; range < MAX_RANGES; range++)
	{
		uint32		here = next[range];

		next[range] = sum;
		sum += here;
	}
	for (uint64 i = 0; i < n; i++)
		places[i] = next[set->tids[i] >> shift]++;
	return true;
}

static void
share_copy_column(GjEntryColumn *to, const GjEntryColumn *from, uint64 n, const uint32 *places)
{
	if (from->width == 0)
		return;
	copy_array(to->values, from->values, from->width, n, places);
	if (from->has_nulls)
		copy_array(to->nulls, from->nulls, 1, n, places);
}

#define COPY_ARRAY(type) \
	for (uint64 i = 0; i < n; i++) \
		((type *) to)[places[i]] = ((const type *) from)[i]

/*
 * Copy an array, moving each element to its place; places is NULL if the order stays the same
 */
static void
copy_array(void *to, const void *from, int width, uint64 n, const uint32 *places)
{
	CHECK_FOR_INTERRUPTS();
	if (places == NULL)
	{
		memcpy(to, from, n * width);
		return;
	}
	GJ_BY_WIDTH(width, COPY_ARRAY);
}

/*
 * Point a set's arrays to their locations in the memory for n entries, and compute its size
 */
static void
place_arrays(GjEntrySet *view, char *memory, uint64 n, Size *size)
{
	*size = 0;
	view->tids = (uint64 *) place(size, memory, n * sizeof(uint64));
	if (view->keys.width != 0)
		view->keys.values = place(size, memory, n * view->keys.width);
	for (int i = 0; i < view->nincluded; i++)
	{
		GjEntryColumn *column = &view->included[i];

		if (column->width == 0)
			continue;
		column->values = place(size, memory, n * column->width);
		column->nulls = (uint8 *) place(size, memory, n);
	}
}

static char *
place(Size *size, char *memory, Size bytes)
{
	char	   *at = memory == NULL ? NULL : memory + *size;

	*size += MAXALIGN(bytes);
	return at;
}

/*
 * Free the shared memory; no process may still be reading it
 */
void
GjEntrySetUnshare(GjSharedEntries *shared, dsa_area *area)
{
	Assert(shared->state == GJ_SHARE_EMPTY || shared->state == GJ_SHARE_ENTRIES);
	if (shared->state == GJ_SHARE_ENTRIES)
		dsa_free(area, shared->memory);
	GjEntrySetShareInit(shared);
}

/*
 * Take the next entries; returns false if all are taken
 */
bool
GjEntrySetTakeShared(GjSharedEntries *shared, dsa_area *area, GjEntrySet *view)
{
	uint64		first;
	uint64		end;
	Size		size;

	Assert(shared->state == GJ_SHARE_EMPTY || shared->state == GJ_SHARE_ENTRIES);
	view->nentries = 0;
	if (shared->state == GJ_SHARE_EMPTY)
		return false;
	place_arrays(view, dsa_get_address(area, shared->memory), shared->nentries, &size);
	if (!share_take_range(&shared->next, shared->step, view->tids, shared->nentries,
						  shared->range_bits, &first, &end))
		return false;

	view->tids += first;
	share_advance(&view->keys, first);
	for (int i = 0; i < view->nincluded; i++)
	{
		share_advance(&view->included[i], first);
		view->included[i].has_nulls = shared->has_nulls[i];
	}
	view->nentries = view->nbulk = end - first;
	view->highest = PG_UINT64_MAX;	/* not computed */
	return true;
}

static void
share_advance(GjEntryColumn *column, uint64 n)
{
	if (column->width == 0)
		return;
	column->values += n * column->width;
	if (column->nulls != NULL)
		column->nulls += n;
}
