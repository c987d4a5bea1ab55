/*-------------------------------------------------------------------------
 *
 * filters.c
 *	  Filters of the keys of deltas and of small runs, which a process keeps for its next searches.
 *
 * A search for few keys would read all pages of the delta, and a search for thousands of keys most
 * pages of each small run, although few of the keys are there.  So a process that searches an index
 * again and again keeps filters of their keys in its own memory: one for each page of a delta, one
 * and a half kilobytes, and one for each small run, ten bits an entry.  A search skips pages of a
 * delta whose filters have none of its keys, and looks up in a run only the keys that the run's
 * filter has.  Of the other keys, one in 170 seems to be on a page of 800 slots, one in thirty
 * to fifty in a run.
 *
 * Why no hit is skipped: a filter has all keys that its page or run will ever have.
 *
 *	  - Rows are added only to pages that a lane has open, and a lane opens only free pages.  So a
 *		page of a delta that no lane had open in V never gets another entry as long as it belongs
 *		to that delta, and its filter is made after V was read.
 *	  - A run never gets another entry once a state lists it, and its filter is made of all of its
 *		pages, each of which was found to be the run's own.
 *
 * Deletions only remove entries.  If a later V lists the delta or run, its pages belong to it until
 * the list version changes (lemma L1), which the search detects.
 *
 * A delta or run is identified by the index's file, too: if ALTER INDEX SET TABLESPACE is rolled
 * back, the old file has the build id and the numbers of the new one, but not its entries.
 *
 * The filter of a page takes 2 to 3 us to make, and searching the page 0.2 to 0.4 us, or 1.5 if
 * another process has just written it.  So the first search of a delta makes no filters, nor does a
 * search that finds too many new pages, because the process comes too rarely.  Each of the others
 * makes some, also of new pages.  Searches for many keys do, too, although they cannot use filters
 * of pages: otherwise the next search for few keys would have to make more.  A run gets its filter
 * after searches for enough keys to pay for it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/prefetch.h"
#include "search.h"

/*
 * Deltas with filters: minimum number of pages; maximum number of listed keys of a search, of pages
 * with filters, and of filters that one search makes
 */
#define LEAST_PAGES				16
#define MAX_KEYS				16
#define MAX_PAGES				2048
#define FILTERS_A_SEARCH		64

/* Number of pages whose filters are prefetched */
#define PAGES_AHEAD				4

/*
 * Runs with filters: minimum number of pages, maximum number of entries, and of listed keys for
 * each page
 */
#define LEAST_RUN_PAGES			24
#define MAX_RUN_ENTRIES			(1 << 20)
#define MAX_KEYS_A_PAGE			16

/* Searching a run for one key takes about as long as adding this many to a filter */
#define ENTRIES_A_KEY			32

/*
 * Number of deltas and of runs for which a process keeps filters, and number of searches, those of
 * a delta and of an index's runs counted apart, after which the filters of one that they did not
 * use may be replaced.  So if many deltas are searched in turn, four keep theirs.
 */
#define FILTERED_DELTAS			4
#define FILTERED_RUNS			32
#define FILTERS_STAY			64

/* Maximum memory for filters of runs, in words; number of words of a page's filter */
#define MAX_RUN_WORDS			(UINT64CONST(1) << 20)
#define PAGE_WORDS				192

/* Number of keys whose words of a run's filter are prefetched */
#define KEYS_AHEAD				16

/* Bits of a run's filter for each entry */
#define BITS_AN_ENTRY			10

/* The bits of a listed key, and their word, in the filter of a page */
typedef struct KeyBits
{
	uint32		word;
	uint64		bits;
} KeyBits;

/* Identifies a delta or run */
typedef struct Filtered
{
	Oid			tablespace;		/* of the index's file */
	Oid			file;
	uint64		build_id;
	uint32		run;			/* 0 if this is not in use */
	uint64		used;			/* number of the last search of it */
} Filtered;

/* A filter, in which each key sets up to three bits of one word */
typedef struct KeyFilter
{
	uint64	   *words;
	uint32		nwords;
} KeyFilter;

/* A delta that this process has searched, with filters of some of its pages */
typedef struct FilteredDelta
{
	Filtered	id;
	BlockNumber seen;			/* number of its pages at the last search; 0 before the first one */
	uint64	   *words;			/* of the pages' filters, in the order of the delta's list */
	BlockNumber room;			/* number of filters for which there is memory */
	uint64		filtered[MAX_PAGES / 64];	/* one bit a page: it has a filter */
} FilteredDelta;

/* A small run that this process has searched */
typedef struct FilteredRun
{
	Filtered	id;
	uint64		nkeys;			/* number of keys for which it was searched */
	KeyFilter	filter;			/* words is NULL until it has been made */
} FilteredRun;

static FilteredDelta filtered_deltas[FILTERED_DELTAS];
static FilteredRun filtered_runs[FILTERED_RUNS];
static uint64 nfiltered_searches = FILTERS_STAY;
static MemoryContext filter_context = NULL;

static FilteredDelta *find_delta(const GjSearch *search, const GjDelta *delta, bool few);
static bool is_of_index(const Filtered *id, const GjSearch *search);
static void set_id(Filtered *id, const GjSearch *search, uint32 run);
static bool is_delta(const GjIndexState *state, uint32 run);
static void make_page_filters(const GjSearch *search, FilteredDelta *filtered,
							  const GjDelta *delta, const BlockNumber *blocks);
static void reserve_filters(FilteredDelta *filtered, BlockNumber n);
static void *allocate(Size size);
static bool is_open(const GjIndexState *state, BlockNumber block);
static bool filter_page(const GjSearch *search, BlockNumber block, uint32 run, uint64 *words,
						uint32 nwords);
static bool may_have_any(const FilteredDelta *filtered, BlockNumber i, const KeyBits *bits,
						 int n);
static bool is_small(const GjSearch *search, int i);
static FilteredRun *find_run(const GjSearch *search, uint32 run);
static FilteredRun *take_run(const GjSearch *search, uint32 run);
static void forget_run(FilteredRun *filtered);
static void forget_old_runs(const GjSearch *search);
static bool make_run_filter(const GjSearch *search, FilteredRun *filtered, const GjRun *run);
static bool add_run(const GjSearch *search, const GjRun *run, uint64 *words, uint32 nwords);

/*
 * Return the bits of a key, and find their word
 */
static inline uint64
find_bits(int64 key, uint32 nwords, uint32 *word)
{
	uint64		hash = (uint64) key * UINT64CONST(0x9E3779B97F4A7C15);

	*word = (hash >> 32) * nwords >> 32;
	return UINT64CONST(1) << (hash >> 41 & 63) | UINT64CONST(1) << (hash >> 35 & 63) |
		UINT64CONST(1) << (hash >> 29 & 63);
}

/* Deltas -------------------------------------------------------------------------- */

/*
 * Remove pages whose filters have none of the listed keys from the pages of the deltas
 */
void
GjFilterDeltas(const GjSearch *search, BlockNumber *blocks, BlockNumber *nblocks)
{
	const GjKeySet *keys = search->keys;
	bool		few = GjKeySetCount(keys) <= MAX_KEYS;
	KeyBits		bits[MAX_KEYS];
	BlockNumber first = 0;
	BlockNumber nleft = 0;

	if (!GjKeySetIsList(keys))
		return;
	for (uint64 key = 0; key < GjKeySetCount(keys) && few; key++)
		bits[key].bits = find_bits(GjKeySetAt(keys, key), PAGE_WORDS, &bits[key].word);
	for (int i = 0; i < lengthof(search->state.deltas); i++)
	{
		const GjDelta *delta = &search->state.deltas[i];
		BlockNumber n = delta->run == 0 ? 0 : delta->data_pages;
		FilteredDelta *filtered = NULL;

		if (n >= LEAST_PAGES)
			filtered = find_delta(search, delta, few);
		if (filtered != NULL)
			make_page_filters(search, filtered, delta, blocks + first);
		for (BlockNumber page = 0; page < n; page++)
		{
			if (!few || filtered == NULL ||
				may_have_any(filtered, page, bits, GjKeySetCount(keys)))
				blocks[nleft++] = blocks[first + page];
		}
		first += n;
	}
	*nblocks = nleft;
}

/*
 * Return the filters of a delta: none yet, if the process has not searched it for few keys before.
 * Returns NULL if this search is not for few keys either, or if all deltas that have filters have
 * been searched recently.
 */
static FilteredDelta *
find_delta(const GjSearch *search, const GjDelta *delta, bool few)
{
	FilteredDelta *oldest = &filtered_deltas[0];
	FilteredDelta *one;

	nfiltered_searches += few;
	for (int i = 0; i < FILTERED_DELTAS; i++)
	{
		one = &filtered_deltas[i];
		if (is_of_index(&one->id, search))
		{
			if (one->id.run == delta->run)
			{
				if (few)
					one->id.used = nfiltered_searches;
				return one;
			}
			if (!is_delta(&search->state, one->id.run))
				one->id.used = 0;	/* it has been folded */
		}
		if (one->id.used < oldest->id.used)
			oldest = one;
	}
	one = oldest;
	if (!few || nfiltered_searches - one->id.used <= FILTERS_STAY)
		return NULL;
	if (one->words != NULL)
		pfree(one->words);
	memset(one, 0, sizeof(*one));
	set_id(&one->id, search, delta->run);
	return one;
}

static bool
is_of_index(const Filtered *id, const GjSearch *search)
{
	return id->build_id == search->state.build_id && id->file == GjRelationFile(search->index) &&
		id->tablespace == GjRelationTablespace(search->index);
}

static void
set_id(Filtered *id, const GjSearch *search, uint32 run)
{
	id->tablespace = GjRelationTablespace(search->index);
	id->file = GjRelationFile(search->index);
	id->build_id = search->state.build_id;
	id->run = run;
	id->used = nfiltered_searches;
}

static bool
is_delta(const GjIndexState *state, uint32 run)
{
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run == run)
			return true;
	}
	return false;
}

/*
 * Make filters of some of a delta's pages, if the process has searched it before and not many pages
 * are new since
 */
static void
make_page_filters(const GjSearch *search, FilteredDelta *filtered, const GjDelta *delta,
				  const BlockNumber *blocks)
{
	BlockNumber n = Min(delta->data_pages, MAX_PAGES);
	BlockNumber seen = filtered->seen;
	int			made = 0;

	filtered->seen = delta->data_pages;
	if (seen == 0 || delta->data_pages - seen > FILTERS_A_SEARCH)
		return;
	reserve_filters(filtered, n);
	for (BlockNumber page = 0; page < n && made < FILTERS_A_SEARCH; page++)
	{
		uint64		bit = UINT64CONST(1) << page % 64;
		uint64	   *words = filtered->words + (Size) page * PAGE_WORDS;

		if ((filtered->filtered[page / 64] & bit) != 0 || is_open(&search->state, blocks[page]))
			continue;
		memset(words, 0, PAGE_WORDS * sizeof(uint64));
		if (!filter_page(search, blocks[page], delta->run, words, PAGE_WORDS))
			return;
		filtered->filtered[page / 64] |= bit;
		made++;
	}
}

/*
 * Make room for the filters of n pages
 */
static void
reserve_filters(FilteredDelta *filtered, BlockNumber n)
{
	Size		size;

	if (n <= filtered->room)
		return;
	n = Min(Max(n, 2 * filtered->room), MAX_PAGES);
	size = (Size) n * PAGE_WORDS * sizeof(uint64);
	filtered->words = filtered->words == NULL ? allocate(size) : repalloc(filtered->words, size);
	filtered->room = n;
}

static void *
allocate(Size size)
{
	if (filter_context == NULL)
		filter_context = AllocSetContextCreate(TopMemoryContext, "gpujoin filters",
											   ALLOCSET_DEFAULT_SIZES);
	return MemoryContextAlloc(filter_context, size);
}

/*
 * Return true if a lane has the page open
 */
static bool
is_open(const GjIndexState *state, BlockNumber block)
{
	for (int i = 0; i < state->nopen; i++)
	{
		if (state->open_blocks[i] == block)
			return true;
	}
	return false;
}

static inline void
prefetch_word(const KeyFilter *filter, int64 key)
{
	uint32		word;

	(void) find_bits(key, filter->nwords, &word);
	GjPrefetch(&filter->words[word]);
}

static inline bool
may_have_key(const KeyFilter *filter, int64 key)
{
	uint32		word;
	uint64		bits = find_bits(key, filter->nwords, &word);

	return (filter->words[word] & bits) == bits;
}

static pg_attribute_always_inline void
set_key_bits(uint64 *words, uint32 nwords, const char *keys, int width, int n)
{
	for (int i = 0; i < n; i++)
	{
		int64		key = width == sizeof(int32) ? ((const int32 *) keys)[i] :
			((const int64 *) keys)[i];
		uint32		word;
		uint64		bits = find_bits(key, nwords, &word);

		words[word] |= bits;
	}
}

/*
 * Add the keys of a page to a filter, also what is in slots that are not in use; returns false if
 * it does not belong to the delta or run any longer, which the search will report
 */
static bool
filter_page(const GjSearch *search, BlockNumber block, uint32 run, uint64 *words, uint32 nwords)
{
	const GjIndexInfo *info = search->info;
	Buffer		buffer = ReadBuffer(search->index, block);
	Page		page = BufferGetPage(buffer);
	bool		listed;

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	listed = !GjPageIsUnused(page) &&
		GjPageCheckKind(search->index, buffer) == GJ_PAGE_DATA &&
		GjPageGetOpaque(page)->run == run;
	if (listed)
	{
		int64		widened[GJ_MAX_SLOTS];
		const char *keys;

		GjNarrowDemand(search->index, block, page, info);
		keys = GjDataGetKeys(page, info, widened);
		if (info->key_width == sizeof(int32))
			set_key_bits(words, nwords, keys, sizeof(int32), GjDataSlots(page, info));
		else
			set_key_bits(words, nwords, keys, sizeof(int64), GjDataSlots(page, info));
	}
	UnlockReleaseBuffer(buffer);
	return listed;
}

/*
 * Return true if a page of a delta may have a listed key
 */
static bool
may_have_any(const FilteredDelta *filtered, BlockNumber i, const KeyBits *bits, int n)
{
	const uint64 *words;
	bool		may_have = false;

	if (i >= MAX_PAGES || (filtered->filtered[i / 64] >> i % 64 & 1) == 0)
		return true;
	words = filtered->words + (Size) i * PAGE_WORDS;
	for (int key = 0; key < n; key++)
	{
		GjPrefetch(&words[PAGES_AHEAD * PAGE_WORDS + bits[key].word]);
		may_have |= (words[bits[key].word] & bits[key].bits) == bits[key].bits;
	}
	return may_have;
}

/* Runs ---------------------------------------------------------------------------- */

/*
 * Count a search of small runs, and make the filter of one that has been searched for many keys
 */
void
GjFilterRuns(const GjSearch *search)
{
	const GjIndexState *state = &search->state;
	bool		made = false;

	if (state->nruns < 2)
		return;
	nfiltered_searches++;
	forget_old_runs(search);
	for (int i = 0; i < state->nruns; i++)
	{
		const GjRun *run = &state->runs[i];
		FilteredRun *filtered = is_small(search, i) ? take_run(search, run->run) : NULL;

		if (filtered == NULL)
			continue;
		filtered->nkeys += GjKeySetCount(search->keys);
		if (filtered->filter.words == NULL && !made &&
			filtered->nkeys > run->entries / ENTRIES_A_KEY)
			made = make_run_filter(search, filtered, run);
	}
}

/*
 * Return the listed keys that may be in a run, of those that the search has not come to yet: all
 * keys if the run has no filter, NULL if no key may be there.  A set other than the search's own is
 * the caller's to free.
 */
const GjKeySet *
GjFilterRunKeys(const GjSearch *search, int i)
{
	const GjKeySet *keys = search->keys;
	const FilteredRun *filtered = is_small(search, i) ?
		find_run(search, search->state.runs[i].run) : NULL;
	const GjKeySet *part = NULL;
	int64	   *left;
	uint64		n = 0;

	if (filtered == NULL || filtered->filter.words == NULL)
		return keys;
	left = palloc(GjKeySetCount(keys) * sizeof(int64));
	for (uint64 at = GjKeySetLowerBound(keys, search->next.key);
		 at < GjKeySetCount(keys) && GjKeySetAt(keys, at) <= search->end.key; at++)
	{
		int64		key = GjKeySetAt(keys, at);

		if (at + KEYS_AHEAD < GjKeySetCount(keys))
			prefetch_word(&filtered->filter, GjKeySetAt(keys, at + KEYS_AHEAD));
		left[n] = key;
		n += may_have_key(&filtered->filter, key);
	}
	if (n > 0)
		part = GjKeySetCount(keys) <= MAX_KEYS ? keys :
			GjKeySetPart(search->context, keys, left, n);
	pfree(left);
	return part;
}

/*
 * Return true if a filter of a run can be worth its memory for a search.  The first run of an index
 * is its biggest one, usually, and has most of the keys.
 */
static bool
is_small(const GjSearch *search, int i)
{
	const GjRun *run = &search->state.runs[i];

	return i > 0 && GjKeySetIsList(search->keys) && run->data_pages >= LEAST_RUN_PAGES &&
		run->entries <= MAX_RUN_ENTRIES &&
		GjKeySetCount(search->keys) <= (uint64) run->data_pages * MAX_KEYS_A_PAGE;
}

static FilteredRun *
find_run(const GjSearch *search, uint32 run)
{
	for (int i = 0; i < FILTERED_RUNS; i++)
	{
		if (filtered_runs[i].id.run == run && is_of_index(&filtered_runs[i].id, search))
			return &filtered_runs[i];
	}
	return NULL;
}

/*
 * Find a run that is being searched, or put it in the place of another one; returns NULL if all
 * have been searched recently
 */
static FilteredRun *
take_run(const GjSearch *search, uint32 run)
{
	FilteredRun *one = find_run(search, run);

	if (one == NULL)
	{
		one = &filtered_runs[0];
		for (int i = 1; i < FILTERED_RUNS; i++)
		{
			if (filtered_runs[i].id.used < one->id.used)
				one = &filtered_runs[i];
		}
		if (nfiltered_searches - one->id.used <= FILTERS_STAY)
			return NULL;
		forget_run(one);
		set_id(&one->id, search, run);
	}
	one->id.used = nfiltered_searches;
	return one;
}

static void
forget_run(FilteredRun *filtered)
{
	if (filtered->filter.words != NULL)
		pfree(filtered->filter.words);
	memset(filtered, 0, sizeof(*filtered));
}

/*
 * Forget the runs of the index that are not listed any longer
 */
static void
forget_old_runs(const GjSearch *search)
{
	const GjIndexState *state = &search->state;

	for (int i = 0; i < FILTERED_RUNS; i++)
	{
		int			at = 0;

		if (filtered_runs[i].id.run == 0 || !is_of_index(&filtered_runs[i].id, search))
			continue;
		while (at < state->nruns && state->runs[at].run != filtered_runs[i].id.run)
			at++;
		if (at == state->nruns)
			forget_run(&filtered_runs[i]);
	}
}

/*
 * Make the filter of a run, unless there is too little memory; returns false if none was made
 */
static bool
make_run_filter(const GjSearch *search, FilteredRun *filtered, const GjRun *run)
{
	uint32		nwords = run->entries * BITS_AN_ENTRY / 64 + 1;
	uint64		all = nwords;
	uint64	   *words;

	for (int i = 0; i < FILTERED_RUNS; i++)
	{
		if (nfiltered_searches - filtered_runs[i].id.used > FILTERS_STAY)
			forget_run(&filtered_runs[i]);
		all += filtered_runs[i].filter.nwords;
	}
	if (all > MAX_RUN_WORDS)
		return false;
	words = palloc0(nwords * sizeof(uint64));
	if (add_run(search, run, words, nwords))
	{
		filtered->filter.words = allocate(nwords * sizeof(uint64));
		filtered->filter.nwords = nwords;
		memcpy(filtered->filter.words, words, nwords * sizeof(uint64));
	}
	pfree(words);
	return filtered->filter.words != NULL;
}

/*
 * Add all keys of a run to a filter; returns false if the run is not listed any longer
 */
static bool
add_run(const GjSearch *search, const GjRun *run, uint64 *words, uint32 nwords)
{
	Size		n = (Size) run->directory_pages + run->data_pages;
	BlockNumber *blocks = palloc(n * sizeof(BlockNumber));
	bool		listed = GjRunGetBlocks(search->index, run, blocks);

	for (Size i = run->directory_pages; i < n && listed; i++)
		listed = filter_page(search, blocks[i], run->run, words, nwords);
	pfree(blocks);
	return listed;
}
