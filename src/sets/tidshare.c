/*-------------------------------------------------------------------------
 *
 * tidshare.c
 *	  Dividing TIDs among processes, by heap blocks.
 *
 * An array of packed TIDs is cut into steps of equal length, and a counter says
 * which step is the next to be taken.  As a block belongs to one process (two that
 * pin and lock the same page would be slower, and a block's TIDs are fetched
 * together), each step is moved to the borders of blocks: it begins with the first
 * block that begins in it, and ends with the last such block, wherever that ends.
 * Who takes a step finds these borders by looking at the array, which does not change.
 * So each TID is in exactly one step.
 *
 * A set that did not fit into its memory limit is shared as one bit for each heap
 * block: then each tuple of the block is a candidate.  That is never much, and less
 * than what such a set takes itself.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "tidshare.h"

/*
 * A process takes so many steps, on average, so that all end at about the same time;
 * but a step is large enough for reading ahead, and for the counter not to matter.
 */
#define STEPS_PER_PROCESS		32
#define MIN_STEP_TIDS			64
#define MAX_STEP_TIDS			2048
#define MIN_STEP_WORDS			1
#define MAX_STEP_WORDS			16

#define BITS_PER_WORD			64

/* What a set over shared TIDs needs to get more */
typedef struct Taker
{
	GjSharedTids *shared;
	const uint64 *words;
	uint64	   *blocks;			/* lossy: the blocks of a step, as TIDs */
	void		(*progress) (void *arg);
	void	   *arg;
} Taker;

static void share_array(GjSharedTids *shared, dsa_area *area, const uint64 *tids, uint64 n,
						int nprocesses);
static void share_blocks(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses);
static uint64 *allocate_words(GjSharedTids *shared, dsa_area *area, uint64 nwords);
static bool take_step(void *taker, const uint64 **tids, uint64 *ntids);
static uint64 range_border(const uint64 *tids, uint64 position, uint64 ntids, int range_bits);
static uint64 take_blocks(const Taker *taker, uint64 start, uint64 end, const uint64 **tids);

/*
 * Prepare shared memory: there are no TIDs
 */
void
GjTidsShareInit(GjSharedTids *shared)
{
	memset(shared, 0, sizeof(GjSharedTids));
	shared->words = InvalidDsaPointer;
	pg_atomic_init_u64(&shared->next, 0);
}

/*
 * Put a finished set into shared memory, for so many processes
 */
void
GjTidsShare(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses)
{
	const uint64 *tids;
	uint64		n;

	GjTidsShareInit(shared);
	if (GjTidSetGetArray(set, &tids, &n))
		share_array(shared, area, tids, n, nprocesses);
	else
		share_blocks(shared, area, set, nprocesses);
}

static void
share_array(GjSharedTids *shared, dsa_area *area, const uint64 *tids, uint64 n, int nprocesses)
{
	if (n > 0)
		memcpy(allocate_words(shared, area, n), tids, n * sizeof(uint64));
	shared->step = Min(Max(n / nprocesses / STEPS_PER_PROCESS, MIN_STEP_TIDS), MAX_STEP_TIDS);
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

	shared->lossy = true;
	words = allocate_words(shared, area, (uint64) last / BITS_PER_WORD + 1);
	memset(words, 0, shared->nwords * sizeof(uint64));
	while (GjTidSetNextBlock(set, &block))
	{
		CHECK_FOR_INTERRUPTS();
		words[block.block / BITS_PER_WORD] |= UINT64CONST(1) << (block.block % BITS_PER_WORD);
	}
	shared->step = Min(Max(shared->nwords / nprocesses / STEPS_PER_PROCESS, MIN_STEP_WORDS),
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
 * Free the shared memory; no process may still be reading
 */
void
GjTidsUnshare(GjSharedTids *shared, dsa_area *area)
{
	if (DsaPointerIsValid(shared->words))
		dsa_free(area, shared->words);
	GjTidsShareInit(shared);
}

/*
 * Make a set of this process's share, which gets its TIDs step by step
 */
GjTidSet *
GjTidsOpenShared(MemoryContext parent, GjSharedTids *shared, dsa_area *area,
				 void (*progress) (void *arg), void *arg)
{
	Taker	   *taker;
	GjTidSet   *set = GjTidSetCreateView(parent, take_step, sizeof(Taker), (void **) &taker);

	taker->shared = shared;
	taker->progress = progress;
	taker->arg = arg;
	if (DsaPointerIsValid(shared->words))
		taker->words = dsa_get_address(area, shared->words);
	if (shared->lossy)
		taker->blocks = MemoryContextAlloc(GetMemoryChunkContext(taker),
										   shared->step * BITS_PER_WORD * sizeof(uint64));
	return set;
}

/*
 * Take the next TIDs that there are; false if all are taken
 */
static bool
take_step(void *arg, const uint64 **tids, uint64 *ntids)
{
	const Taker *taker = arg;
	GjSharedTids *shared = taker->shared;
	uint64		first;
	uint64		end;

	if (taker->progress != NULL)
		taker->progress(taker->arg);
	if (!shared->lossy)
	{
		if (!GjTakeBlocks(&shared->next, shared->step, taker->words, shared->nwords, 0,
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
 * Take the TIDs of the next ranges of blocks: those from first to before end.  False if all
 * are taken.
 */
bool
GjTakeBlocks(pg_atomic_uint64 *next, uint64 step, const uint64 *tids, uint64 ntids,
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
 * Take the next step of n things, wherever its ends are; false if all are taken.  The
 * counter is looked at first, lest it be raised for ever.
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
 * The first position, not before this one, where a range of blocks begins
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
 * The blocks whose bits stand in these words, as TIDs without an offset
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
