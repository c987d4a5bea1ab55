/*-------------------------------------------------------------------------
 *
 * filters.c
 *	  Filters of the keys of deltas and of small runs, which a process keeps for its next searches.
 *
 * A search for few keys would read all pages of the delta, and a search for thousands of keys most
 * pages of each small run, although few of the keys are there.  So a process that searches an index
 * again and again keeps filters of their keys in its own memory: one for each page of a delta, two
 * kilobytes, and one for each small run, ten bits an entry.  A search skips pages of a delta whose
 * filters have none of its keys, and looks up in a run only the keys that the run's filter has.  Of
 * the other keys, one in 400 seems to be on a page of 800 slots, one in thirty to fifty in a run.
 *
 * The filters of sixteen pages are stored together, the bits of all pages for one hash side by
 * side: so three loads for a key tell which of the sixteen may have it.  They are allocated
 * together, too, up to eight megabytes.
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
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/prefetch.h"
#include "search.h"

/*
 * Deltas with filters: minimum number of pages, one of which is usually open and has none; maximum
 * number of listed keys of a search, of pages with filters, and of filters that one search makes
 */
#define LEAST_PAGES				3
#define MAX_KEYS				16
#define MAX_PAGES				2048
#define FILTERS_A_SEARCH		64

/* Number of pages whose filters are stored together, of bits of each, and of those of a key */
#define GROUP_PAGES				16
#define PAGE_BITS_LOG			14
#define KEY_BITS				3

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
 * use may be replaced.  So if many deltas are searched in turn, eight keep theirs.
 */
#define FILTERED_DELTAS			8
#define FILTERED_RUNS			32
#define FILTERS_STAY			64

/* A delta may take the place of one that has been used, if it has this many times its pages */
#define LARGER_FACTOR			4

/* Maximum number of groups of pages with filters */
#define MAX_GROUPS				(8 * 1024 * 1024 / sizeof(PageFilters))

/* Maximum memory for filters of runs, in words */
#define MAX_RUN_WORDS			(UINT64CONST(1) << 20)

/* Number of keys whose words of a run's filter are prefetched */
#define KEYS_AHEAD				16

/* Bits of a run's filter for each entry */
#define BITS_AN_ENTRY			10

/* The filters of some pages: for each bit number, one bit a page */
typedef struct PageFilters
{
	uint16		made;			/* pages that have a filter */
	uint16		bits[1 << PAGE_BITS_LOG];
} PageFilters;

/* The contents of all slots of a page, also of those that are not in use */
typedef struct PageKeys
{
	int			n;
	int64		keys[GJ_MAX_SLOTS];
} PageKeys;

StaticAssertDecl(GROUP_PAGES == sizeof(uint16) * BITS_PER_BYTE, "a page is a bit of an uint16");

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
	PageFilters *groups[MAX_PAGES / GROUP_PAGES];	/* in the order of the delta's list */
} FilteredDelta;

/* A small run that this process has searched */
typedef struct FilteredRun
{
	Filtered	id;
	uint64		nkeys;			/* number of keys for which it was searched */
	KeyFilter	filter;			/* words is NULL until it has been made */
} FilteredRun;

static FilteredDelta filtered_deltas[FILTERED_DELTAS];
static int	ngroups = 0;		/* of them all */
static FilteredRun filtered_runs[FILTERED_RUNS];
static uint64 nfiltered_searches = FILTERS_STAY;
static MemoryContext filter_context = NULL;

static FilteredDelta *find_delta(const GjSearch *search, const GjDelta *delta, bool few);
static bool is_of_index(const Filtered *id, const GjSearch *search);
static void set_id(Filtered *id, const GjSearch *search, uint32 run);
static bool is_delta(const GjIndexState *state, uint32 run);
static void forget_delta(FilteredDelta *filtered);
static void make_page_filters(const GjSearch *search, FilteredDelta *filtered,
							  const GjDelta *delta, const BlockNumber *blocks);
static void *allocate(Size size);
static bool is_open(const GjIndexState *state, BlockNumber block);
static bool read_page_keys(const GjSearch *search, BlockNumber block, uint32 run, PageKeys *keys);
static uint16 pages_that_may_have(const FilteredDelta *filtered, BlockNumber first,
								  const uint64 *hashes, int n);
static bool is_small(const GjSearch *search, int i);
static FilteredRun *find_run(const GjSearch *search, uint32 run);
static FilteredRun *take_run(const GjSearch *search, uint32 run);
static void forget_run(FilteredRun *filtered);
static void forget_old_runs(const GjSearch *search);
static bool make_run_filter(const GjSearch *search, FilteredRun *filtered, const GjRun *run);
static bool add_run(const GjSearch *search, const GjRun *run, uint64 *words, uint32 nwords);

static inline uint64
hash_key(int64 key)
{
	return (uint64) key * UINT64CONST(0x9E3779B97F4A7C15);
}

/*
 * Return the number of the i-th bit of a key in the filters of pages
 */
static inline uint16
page_bit(uint64 hash, int i)
{
	return hash >> (64 - (i + 1) * PAGE_BITS_LOG) & ((1 << PAGE_BITS_LOG) - 1);
}

/*
 * Return the bits of a key in the filter of a run, and find their word
 */
static inline uint64
find_bits(int64 key, uint32 nwords, uint32 *word)
{
	uint64		hash = hash_key(key);

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
	uint64		hashes[MAX_KEYS];
	BlockNumber first = 0;
	BlockNumber nleft = 0;

	if (!GjKeySetIsList(keys))
		return;
	for (uint64 key = 0; key < GjKeySetCount(keys) && few; key++)
		hashes[key] = hash_key(GjKeySetAt(keys, key));
	for (int i = 0; i < lengthof(search->state.deltas); i++)
	{
		const GjDelta *delta = &search->state.deltas[i];
		BlockNumber n = delta->run == 0 ? 0 : delta->data_pages;
		FilteredDelta *filtered = NULL;

		if (n >= LEAST_PAGES)
			filtered = find_delta(search, delta, few);
		if (filtered != NULL)
			make_page_filters(search, filtered, delta, blocks + first);
		for (BlockNumber page = 0; page < n; page += GROUP_PAGES)
		{
			uint32		left = !few || filtered == NULL ? PG_UINT16_MAX :
				pages_that_may_have(filtered, page, hashes, GjKeySetCount(keys));

			if (n - page < GROUP_PAGES)
				left &= (1 << (n - page)) - 1;
			for (; left != 0; left &= left - 1)
				blocks[nleft++] = blocks[first + page + pg_rightmost_one_pos32(left)];
		}
		first += n;
	}
	*nblocks = nleft;
}

/*
 * Return the filters of a delta: none yet, if the process has not searched it for few keys before.
 * Returns NULL if this search is not for few keys either, or if all deltas that have filters have
 * been searched recently, and none is much smaller.
 */
static FilteredDelta *
find_delta(const GjSearch *search, const GjDelta *delta, bool few)
{
	FilteredDelta *oldest = &filtered_deltas[0];
	FilteredDelta *smallest = &filtered_deltas[0];
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
				forget_delta(one);	/* it has been folded */
		}
		if (one->id.used < oldest->id.used)
			oldest = one;
		if (one->seen < smallest->seen)
			smallest = one;
	}
	one = oldest;
	if (nfiltered_searches - oldest->id.used <= FILTERS_STAY)
		one = smallest->seen < delta->data_pages / LARGER_FACTOR ? smallest : NULL;
	if (!few || one == NULL)
		return NULL;
	forget_delta(one);
	set_id(&one->id, search, delta->run);
	return one;
}

static void
forget_delta(FilteredDelta *filtered)
{
	for (int i = 0; i < lengthof(filtered->groups); i++)
	{
		if (filtered->groups[i] == NULL)
			continue;
		pfree(filtered->groups[i]);
		ngroups--;
	}
	memset(filtered, 0, sizeof(*filtered));
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
	for (BlockNumber page = 0; page < n && made < FILTERS_A_SEARCH; page++)
	{
		PageFilters *group = filtered->groups[page / GROUP_PAGES];
		uint16		bit = 1 << page % GROUP_PAGES;
		PageKeys	keys;

		if (group != NULL && group->made == PG_UINT16_MAX)
		{
			page |= GROUP_PAGES - 1;
			continue;
		}
		if (group == NULL && ngroups == MAX_GROUPS)
			return;
		if ((group != NULL && (group->made & bit) != 0) || is_open(&search->state, blocks[page]))
			continue;
		if (!read_page_keys(search, blocks[page], delta->run, &keys))
			return;
		if (group == NULL)
		{
			group = filtered->groups[page / GROUP_PAGES] = allocate(sizeof(PageFilters));
			ngroups++;
		}
		for (int i = 0; i < keys.n; i++)
		{
			uint64		hash = hash_key(keys.keys[i]);

			for (int j = 0; j < KEY_BITS; j++)
				group->bits[page_bit(hash, j)] |= bit;
		}
		group->made |= bit;
		made++;
	}
}

static void *
allocate(Size size)
{
	if (filter_context == NULL)
		filter_context = AllocSetContextCreate(TopMemoryContext, "gpujoin filters",
											   ALLOCSET_DEFAULT_SIZES);
	return MemoryContextAllocZero(filter_context, size);
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

/*
 * Read the keys of a page; returns false if it does not belong to the delta or run any longer,
 * which the search will report
 */
static bool
read_page_keys(const GjSearch *search, BlockNumber block, uint32 run, PageKeys *keys)
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
		const char *values;

		GjNarrowDemand(search->index, block, page, info);
		values = GjDataGetKeys(page, info, widened);
		keys->n = GjDataSlots(page, info);
		for (int i = 0; i < keys->n; i++)
			keys->keys[i] = info->key_width == sizeof(int32) ? ((const int32 *) values)[i] :
				((const int64 *) values)[i];
	}
	UnlockReleaseBuffer(buffer);
	return listed;
}

/*
 * Return the pages of a group that may have a listed key, given the number of its first page
 */
static uint16
pages_that_may_have(const FilteredDelta *filtered, BlockNumber first, const uint64 *hashes,
					int n)
{
	const PageFilters *group = first < MAX_PAGES ? filtered->groups[first / GROUP_PAGES] : NULL;
	uint16		may_have = 0;

	if (group == NULL)
		return PG_UINT16_MAX;
	for (int key = 0; key < n; key++)
	{
		uint16		have = PG_UINT16_MAX;

		for (int i = 0; i < KEY_BITS; i++)
			have &= group->bits[page_bit(hashes[key], i)];
		may_have |= have;
	}
	return may_have | ~group->made;
}

/* Runs ---------------------------------------------------------------------------- */

/*
 * Count a search of several runs, and make the filter of one that has been searched for many keys
 */
void
GjFilterRuns(const GjSearch *search)
{
	const GjIndexState *state = &search->state;
	bool		made = false;

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
	{
		PageKeys	keys;

		listed = read_page_keys(search, blocks[i], run->run, &keys);
		for (int j = 0; listed && j < keys.n; j++)
		{
			uint32		word;
			uint64		bits = find_bits(keys.keys[j], nwords, &word);

			words[word] |= bits;
		}
	}
	pfree(blocks);
	return listed;
}
