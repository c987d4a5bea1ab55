/*-------------------------------------------------------------------------
 *
 * readpages.c
 *	  Reading data pages whose numbers are known, and adding their hits to the target.
 *
 * A page is matched in place under its share lock, for half a microsecond at most: copying it
 * first would take longer.  No page is locked while another one is.  Meanwhile the next page is
 * pinned, and the memory that will be read first is prefetched, of some pages of runs before they
 * are pinned (base/buffers.c).
 *
 * If pages must be read from disk, the following ones are read ahead ("Reading ahead" below).
 *
 * The hits of a page are found by one of two methods.  The first looks up all keys of the page in
 * the set, many at a time, which takes half a microsecond whatever is found (sets/kernels.c).  The
 * second, for a page of a run, whose keys ascend, searches the page for each listed key; entries
 * that have the key are adjacent, and are copied as a range.  That is faster if few listed keys can
 * be on the page.
 *
 * A run's page keeps keys and TIDs of deleted entries, so its keys always ascend; these entries are
 * left out.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/prefetch.h"
#include "base/step.h"
#include "search.h"

/*
 * With more listed keys on a page, it is quicker to look up all keys of the page; if the structure
 * for that would have to be built first, for a few pages, with many more
 */
#define MAX_FEW_KEYS			8
#define MAX_KEYS_UNBUILT		32

/*
 * Number of bitmap words whose hits are prefetched while those of the next words are found; up to
 * this many listed keys have so few hits that the whole page is one part
 */
#define PART_WORDS				4
#define MAX_WHOLE_KEYS			2

/* Number of slots around the expected one that are searched first for a key */
#define NEAR_SLOTS				16

/* Prefetch the values of an array in the slots near the expected one, from slot on */
#define PREFETCH_NEAR(array, width, slot) \
	GjPrefetchRange((char *) (array) + (slot) * (width), 2 * NEAR_SLOTS * (width))

/*
 * Searching the set for a key in the range of a page costs some 30 ns, a twentieth of matching the
 * page.  We do so if no more keys than this are expected in the range, if keys are spread evenly.
 */
#define SPARSE_KEYS				16

/* Return true if a page may have entries outside the limits */
#define IS_BOUNDED(chosen, limits) \
	(GjPlaceIsBefore(&(chosen)->first, &(limits)->from) || \
	 GjPlaceIsBefore(&(limits)->end, &(chosen)->next))

/* Number of chosen pages whose memory is prefetched together */
#define PAGES_AHEAD				8

#define LAST_BIT				(UINT64CONST(1) << 63)

/* Prefetch a page's header and its special space, without reading the header to locate that */
#define GjPrefetchEnds(page) \
	(GjPrefetch(page), \
	 GjPrefetch((char *) (page) + BLCKSZ - MAXALIGN(sizeof(GjPageOpaqueData))))

/*
 * Prefetch the keys of a plain page.  A pin is enough, because the addresses depend on the
 * index only, not on the page's contents.
 */
static pg_attribute_always_inline void
GjPrefetchKeys(Page page, const GjIndexInfo *info)
{
	GjPrefetchEnds(page);
	GjPrefetchRange((char *) page + info->used_offset, info->plain_words * sizeof(uint32));
	GjPrefetchRange(GjDataKeys(page, info), info->plain_slots * info->key_width);
}

/* Slots are listed this many at a time; elements after the last one are undefined */
#define GJ_HITS_SPARE			4

/* The hits on a data page, as a bitmap of slots and as a list */
typedef struct GjPageHits
{
	uint32		bits[GJ_MAX_WORDS];
	int			nslots;
	uint16		slots[GJ_MAX_SLOTS + GJ_HITS_SPARE];
} GjPageHits;

static void match_page(GjSearch *search, Buffer buffer, const GjChosenPage *chosen,
					   const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats);
static Buffer read_ahead_take(GjSearch *search, int i);
static void read_ahead_from(GjSearch *search, int from);
static Buffer pin_run_page(GjSearch *search, int i, const GjPageLimits *limits,
						   GjMatchTarget target);
static void recall_pages(GjSearch *search, int from, GjMatchTarget target);
static Buffer pin_chosen(GjSearch *search, int i);
static bool is_still_listed(const GjSearch *search, Buffer buffer, const GjChosenPage *chosen);
static void read_ahead_end(GjSearch *search);
static Buffer pin_page(GjSearch *search, int i);
static bool read_delta_page(GjSearch *search, int i, Buffer buffer, Buffer next,
							const GjPageLimits *limits, GjMatchTarget target,
							GjMatchStats *stats);
static bool match_delta_page(GjSearch *search, Page page, Buffer next, const GjPageLimits *limits,
							 GjMatchTarget target, GjMatchStats *stats);
static void spill_hits(GjSearch *search);
static bool match_keys(Page page, const GjIndexInfo *info, const GjKeySet *keys,
					   const GjPageLimits *limits, Page following, GjMatchTarget target,
					   GjMatchStats *stats);
static bool match_listed(Page page, const GjIndexInfo *info, const GjChosenPage *chosen,
						 GjMatchTarget target, GjMatchStats *stats);
static void prefetch_keys(const GjSearch *search, Page page);
static void prefetch_listed(const GjSearch *search, Page page, const GjChosenPage *chosen,
							GjMatchTarget target);
static void prefetch_alike(const GjSearch *search, Page page, const GjChosenPage *chosen,
						   GjMatchTarget target);
static inline bool has_few_keys(const GjChosenPage *chosen);
static bool page_may_match(GjPageOpaque opaque, const GjKeySet *keys);
static void find_hits(Page page, const GjIndexInfo *info, const GjKeySet *keys, Page following,
					  GjMatchTarget target, GjPageHits *hits);
static void prefetch_hits(Page page, const GjIndexInfo *info, const GjPageHits *hits, int first,
						  GjMatchTarget target);
static void prefetch_values(const char *array, int width, const GjPageHits *hits, int first);
static void drop_known_hits(Page page, const GjIndexInfo *info, const GjPageLimits *limits,
							GjPageHits *hits);
static int	estimate_slot(const GjChosenPage *chosen, int nslots, int64 key);
static bool add_used(GjMatchTarget target, Page page, const GjIndexInfo *info, int first, int end,
					 GjMatchStats *stats);
static bool add_slots(GjMatchTarget target, Page page, const GjIndexInfo *info, int first, int n,
					  GjMatchStats *stats);
static bool add_tids(GjTidSet *set, Page page, const GjIndexInfo *info, const GjPageHits *hits);
static void prefetch_narrow(Page page, const GjIndexInfo *info, const GjPageHits *hits, int first,
							GjMatchTarget target);
static void page_hits_list(GjPageHits *hits, int first, int words);

/*
 * Read the chosen pages of runs.  Returns false if one of them does not belong to its run any
 * longer; the caller must then forget the hits.
 *
 * If the result is true, the caller must still check GjListsMoved() before it trusts the hits.
 */
bool
GjReadChosen(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
			 GjMatchStats *stats)
{
	Buffer		next = search->nchosen > 0 ? pin_run_page(search, 0, limits, target) :
		InvalidBuffer;

	for (int i = 0; i < search->nchosen; i++)
	{
		const GjChosenPage *chosen = &search->chosen[i];
		Buffer		buffer = next;

		CHECK_FOR_INTERRUPTS();
		if (i + 1 < search->nchosen)
			next = pin_run_page(search, i + 1, limits, target);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!is_still_listed(search, buffer, chosen))
		{
			UnlockReleaseBuffer(buffer);
			if (i + 1 < search->nchosen)
				ReleaseBuffer(next);
			read_ahead_end(search);
			if (GjListsMoved(search->index, &search->state))
				return false;
			GjReportCorruption(search->index, chosen->block,
							   "The page is not of the run or list that it is in.");
		}
		match_page(search, buffer, chosen, limits, target, stats);
		UnlockReleaseBuffer(buffer);
	}
	search->nread += search->nchosen;
	return true;
}

/*
 * Pin a chosen page of a run, and have ready what is needed while it is locked
 */
static Buffer
pin_run_page(GjSearch *search, int i, const GjPageLimits *limits, GjMatchTarget target)
{
	const GjChosenPage *chosen = &search->chosen[i];
	Buffer		buffer;

	if (i % PAGES_AHEAD == 0)
		recall_pages(search, i, target);
	buffer = pin_chosen(search, i);
	if (IS_BOUNDED(chosen, limits) || !has_few_keys(chosen))
	{
		GjKeySetPrepare(search->keys);
		prefetch_keys(search, BufferGetPage(buffer));
	}
	else if (buffer != chosen->recalled)
		prefetch_listed(search, BufferGetPage(buffer), chosen, target);
	return buffer;
}

/*
 * Recall the buffers of the next chosen pages, and prefetch the memory that will be read first,
 * unless that is too much for several pages
 */
static void
recall_pages(GjSearch *search, int from, GjMatchTarget target)
{
	int			end = Min(from + PAGES_AHEAD, search->nchosen);
	int			expected = Min(end + PAGES_AHEAD, search->nchosen);

	for (int i = from; i < end; i++)
		search->chosen[i].recalled = GjBufferRecall(search->index, search->chosen[i].block);
	for (int i = from; i < end; i++)
	{
		const GjChosenPage *chosen = &search->chosen[i];

		if (BufferIsValid(chosen->recalled) && has_few_keys(chosen))
			prefetch_listed(search, BufferGetPage(chosen->recalled), chosen, target);
	}
	for (int i = end; i < expected; i++)
		GjBufferExpect(search->index, search->chosen[i].block);
}

/*
 * Pin a chosen page
 *
 * Like a scan of a heap, a search that has read many pages uses a small ring of buffers from then
 * on, so that it does not evict everything else from shared buffers.
 */
static Buffer
pin_chosen(GjSearch *search, int i)
{
	const GjChosenPage *chosen = &search->chosen[i];
	int64		nread = pgBufferUsage.shared_blks_read;
	Buffer		buffer;

	if (search->strategy == NULL && search->nread > NBuffers / 4 &&
		!RelationUsesLocalBuffers(search->index))
		search->strategy = GetAccessStrategy(BAS_BULKREAD);
	buffer = read_ahead_take(search, i);
	if (BufferIsValid(buffer))
		return buffer;
	buffer = GjBufferRead(search->index, chosen->block, chosen->recalled, search->strategy);
	if (pgBufferUsage.shared_blks_read != nread)
		read_ahead_from(search, i + 1);
	return buffer;
}

/*
 * Return true if a locked page belongs to the run, or to a delta, for which it was chosen
 */
static bool
is_still_listed(const GjSearch *search, Buffer buffer, const GjChosenPage *chosen)
{
	Page		page = BufferGetPage(buffer);
	const GjDelta *deltas = search->state.deltas;
	uint32		run;

	if (GjPageIsUnused(page) || GjPageCheckKind(search->index, buffer) != GJ_PAGE_DATA)
		return false;
	/* a data page's number is not 0, and numbers are unique: read.c checks both */
	run = GjPageGetOpaque(page)->run;
	if (chosen->run != 0)
		return run == chosen->run;
	return run == deltas[0].run || run == deltas[1].run;
}

static void
match_page(GjSearch *search, Buffer buffer, const GjChosenPage *chosen,
		   const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats)
{
	const GjIndexInfo *info = search->info;
	Page		page = BufferGetPage(buffer);
	GjPageLimits some = *limits;
	bool		possible;

	GjNarrowDemand(search->index, chosen->block, page, info);
	if (GjDataIsNarrow(page))
	{
		if (GjDataSlots(page, info) > search->most_slots)
			GjReportCorruption(search->index, chosen->block,
							   "A page has more slots than the metapage says of its run.");
		search->narrow_slots = GjDataSlots(page, info);
		memcpy(search->narrow, GjPageGetNarrow(page),
			   (GJ_FIRST_INCLUDED + info->nincluded) * sizeof(GjNarrowColumn));
	}
	stats->pages++;
	stats->entries += GjPageGetOpaque(page)->used;
	stats->run_pages_read++;
	some.bounded = IS_BOUNDED(chosen, limits);
	if (some.bounded || !has_few_keys(chosen))
		possible = match_keys(page, info, search->keys, &some, NULL, target, stats);
	else
		possible = match_listed(page, info, chosen, target, stats);
	if (!possible)
		GjReportCorruption(search->index, chosen->block, "An entry has an impossible TID.");
}

/*
 * Search the blocks from start to before end for entries of any run or delta
 */
void
GjSearchBlocks(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			   const GjIndexState *state, BlockNumber start, BlockNumber end,
			   GjMatchTarget target, GjMatchStats *stats)
{
	GjKeySetPrepare(keys);
	for (BlockNumber block = start; block < end; block++)
	{
		Buffer		buffer = ReadBuffer(index, block);
		Page		page = BufferGetPage(buffer);

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!GjPageIsUnused(page) && GjPageCheckKind(index, buffer) == GJ_PAGE_DATA)
		{
			GjPageOwner owner = GjPageGetOwner(state, page);

			stats->entries += GjPageGetOpaque(page)->used;
			if (owner == GJ_OWNER_RUN || owner == GJ_OWNER_DELTA)
			{
				GjNarrowDemand(index, block, page, info);
				if (!match_keys(page, info, keys, NULL, NULL, target, stats))
					GjReportCorruption(index, block, "An entry has an impossible TID.");
			}
		}
		stats->pages++;
		UnlockReleaseBuffer(buffer);
	}
}

/*-------------------------------------------------------------------------
 * Pages of deltas
 *
 * Read the pages of deltas; a search reads all of them.
 *
 * Searching a page is bound by memory latency, so we prefetch in small steps (sets/kernels.c): the
 * next page's ends as soon as it is pinned, its keys while those of this page are looked up, and
 * the columns of hits while others are found (readpages.c).  No page is locked while another one
 * is.
 *
 * Pages with 14 hits each (42 cache lines) took 0.7 us, and 0.4 us of that was memory latency
 * alone.
 *-------------------------------------------------------------------------
 */

/*
 * Read the chosen pages of deltas.  Returns false if one of them does not belong to a delta any
 * longer; the caller must then forget the hits.
 *
 * If the result is true, the lists may still have changed: search.c says why the hits are good.
 */
bool
GjReadDeltas(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
			 GjMatchStats *stats)
{
	Buffer		next = InvalidBuffer;

	if (search->nchosen > 0)
	{
		GjKeySetPrepare(search->keys);
		search->chosen[0].recalled = GjBufferRecall(search->index, search->chosen[0].block);
		next = pin_page(search, 0);
	}
	for (int i = 0; i < search->nchosen; i++)
	{
		Buffer		buffer = next;
		bool		listed;

		CHECK_FOR_INTERRUPTS();
		next = i + 1 < search->nchosen ? pin_page(search, i + 1) : InvalidBuffer;
		listed = read_delta_page(search, i, buffer, next, limits, target, stats);
		ReleaseBuffer(buffer);
		if (listed)
			continue;

		if (BufferIsValid(next))
			ReleaseBuffer(next);
		read_ahead_end(search);
		if (!GjListsMoved(search->index, &search->state))
			GjReportCorruption(search->index, search->chosen[i].block,
							   "The page is not of the run or list that it is in.");
		return false;
	}
	search->nread += search->nchosen;
	return true;
}

static Buffer
pin_page(GjSearch *search, int i)
{
	GjChosenPage *following = &search->chosen[i + 1];
	Buffer		buffer = pin_chosen(search, i);

	GjPrefetchEnds(BufferGetPage(buffer));
	if (i + 1 < search->nchosen)
		following->recalled = GjBufferRecall(search->index, following->block);
	return buffer;
}

/*
 * Add the hits of a page; returns false if it does not belong to a delta any longer
 */
static bool
read_delta_page(GjSearch *search, int i, Buffer buffer, Buffer next,
				const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats)
{
	Page		page = BufferGetPage(buffer);
	bool		possible = true;
	bool		listed;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	listed = is_still_listed(search, buffer, &search->chosen[i]);
	if (listed)
	{
		GjPlainDemand(search->index, search->chosen[i].block, page);
		stats->pages++;
		stats->delta_pages++;
		stats->entries += GjPageGetOpaque(page)->used;
		possible = match_delta_page(search, page, next, limits, target, stats);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	if (!possible)
		GjReportCorruption(search->index, search->chosen[i].block,
						   "An entry has an impossible TID.");
	if (target.entries != NULL)
		spill_hits(search);
	return listed;
}

/*
 * Find the page's hits, without those that came from tail pages after these were searched.
 * Returns false if an entry has an impossible TID.
 */
static bool
match_delta_page(GjSearch *search, Page page, Buffer next, const GjPageLimits *limits,
				 GjMatchTarget target, GjMatchStats *stats)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	GjPageLimits some = *limits;

	if (opaque->max_key < some.from.key || opaque->min_key > some.end.key)
		return true;
	some.bounded = opaque->min_key <= some.from.key || opaque->max_key >= some.end.key;
	if (opaque->change <= search->tails.sequence)
		some.known = NULL;
	return match_keys(page, search->info, search->keys, &some,
					  BufferIsValid(next) ? BufferGetPage(next) : NULL, target, stats);
}

/*
 * If the hits exceed the memory limit, write them to the temporary file.  The caller must not hold
 * a lock on a page.
 */
static void
spill_hits(GjSearch *search)
{
	GjEntrySet *hits = search->hits;

	if (hits->nentries * hits->entry_bytes <= search->limit)
		return;
	if (search->spill == NULL)
		search->spill = GjEntrySpillBegin(search->context);
	GjEntrySpillWrite(search->spill, hits);
	GjStep("hits spilled");
}

/*-------------------------------------------------------------------------
 * Reading ahead
 *
 * Read the next chosen pages from disk ahead of their use.
 *
 * For an index in memory that would waste a lookup per page, and lose the savings of
 * base/buffers.c.  So it begins once a page was not in shared buffers.
 *
 * If the server has read streams, a stream reads the rest of the chosen pages: adjacent pages
 * together, and from version 18 on while others are matched.  If a search needed a stream, it
 * starts one for the pages that are chosen next, too, until a stream has read no page from disk.
 * A stream pins pages ahead; the search takes all of them, unless it starts over.
 *
 * Otherwise, we ask the operating system to prefetch the following pages, except adjacent ones,
 * which its own read-ahead covers.
 *-------------------------------------------------------------------------
 */

#ifdef GJ_HAVE_READ_STREAMS

static void begin_stream(GjSearch *search, int from);
static BlockNumber next_chosen(ReadStream *stream, void *arg, void *buffer_data);

/*
 * Take a chosen page from the stream; returns InvalidBuffer if no stream is open
 */
static Buffer
read_ahead_take(GjSearch *search, int i)
{
	Buffer		buffer;

	if (i == 0 && search->was_cold)
		begin_stream(search, 0);
	if (search->stream == NULL)
		return InvalidBuffer;
	buffer = read_stream_next_buffer(search->stream, NULL);
	Assert(BufferGetBlockNumber(buffer) == search->chosen[i].block);
	if (i + 1 == search->nchosen)
	{
		search->was_cold = pgBufferUsage.shared_blks_read != search->nread_before;
		read_ahead_end(search);
	}
	return buffer;
}

/*
 * Begin to read ahead, since a page was not in shared buffers, and the following ones may not be
 * either
 */
static void
read_ahead_from(GjSearch *search, int from)
{
	if (from + 1 < search->nchosen)
		begin_stream(search, from);
}

/*
 * Give up the pages that have been read ahead
 */
static void
read_ahead_end(GjSearch *search)
{
	if (search->stream != NULL)
		read_stream_end(search->stream);
	search->stream = NULL;
}

static void
begin_stream(GjSearch *search, int from)
{
	Assert(search->stream == NULL);
	search->nasked = from;
	search->nread_before = pgBufferUsage.shared_blks_read;
	search->stream = read_stream_begin_relation(GJ_READ_STREAM_OF_ALL, search->strategy,
												search->index, MAIN_FORKNUM, next_chosen, search,
												0);
}

static BlockNumber
next_chosen(ReadStream *stream, void *arg, void *buffer_data)
{
	GjSearch   *search = arg;

	return search->nasked < search->nchosen ? search->chosen[search->nasked++].block :
		InvalidBlockNumber;
}

#else

/* Number of pages to prefetch */
#define AHEAD					32

static Buffer
read_ahead_take(GjSearch *search, int i)
{
	return InvalidBuffer;
}

static void
read_ahead_from(GjSearch *search, int from)
{
#ifdef USE_PREFETCH
	int			end = Min(from - 1 + AHEAD, search->nchosen);

	if (effective_io_concurrency == 0)
		return;
	from = Max(from, search->nasked);
	for (int i = from; i < end; i++)
	{
		if (search->chosen[i].block != search->chosen[i - 1].block + 1)
			(void) PrefetchBuffer(search->index, MAIN_FORKNUM, search->chosen[i].block);
	}
	search->nasked = Max(end, from);
#endif
}

static void
read_ahead_end(GjSearch *search)
{
}

#endif							/* GJ_HAVE_READ_STREAMS */

/*-------------------------------------------------------------------------
 * The hits of a page
 *-------------------------------------------------------------------------
 */

/*
 * Match a page by looking up all of its keys; following is the pinned page whose keys will be
 * looked up next, or NULL if that is not known
 */
static bool
match_keys(Page page, const GjIndexInfo *info, const GjKeySet *keys, const GjPageLimits *limits,
		   Page following, GjMatchTarget target, GjMatchStats *stats)
{
	GjPageHits	hits;

	hits.nslots = 0;
	if (GjPageGetOpaque(page)->used == 0 || !page_may_match(GjPageGetOpaque(page), keys))
	{
		if (following != NULL)
			GjPrefetchKeys(following, info);
		return true;
	}
	find_hits(page, info, keys, following, target, &hits);
	if (limits != NULL && (limits->bounded || limits->known != NULL))
		drop_known_hits(page, info, limits, &hits);
	if (hits.nslots == 0)
		return true;
	stats->tids += hits.nslots;
	if (target.tids != NULL)
		return add_tids(target.tids, page, info, &hits);
	if (target.entries->plain != NULL)
		return add_tids(target.entries->plain, page, info, &hits);
	return GjEntrySetAddHits(target.entries, page, info, hits.slots, hits.nslots);
}

/* Add the TIDs of the hits */
static bool
add_tids(GjTidSet *set, Page page, const GjIndexInfo *info, const GjPageHits *hits)
{
	uint64		packed[GJ_MAX_SLOTS];

	if (!GjDataIsNarrow(page))
		return GjTidSetAdd(set, GjDataTids(page, info), hits->bits, GjDataWords(page, info));
	GjNarrowGatherTids(page, hits->slots, hits->nslots, packed);
	return GjTidSetAddPacked(set, packed, hits->nslots);
}

/*
 * Find the slots of a page that have a key of the set, a few words at a time unless few slots can
 * have one, and prefetch the columns of these hits meanwhile
 */
static void
find_hits(Page page, const GjIndexInfo *info, const GjKeySet *keys, Page following,
		  GjMatchTarget target, GjPageHits *hits)
{
	int64		widened[GJ_MAX_SLOTS];
	const char *page_keys = GjDataGetKeys(page, info, widened);
	const uint32 *used = GjDataUsed(page, info);
	Size		word_keys = GJ_SLOTS_PER_WORD * info->key_width;
	int			part = GjKeySetIsList(keys) && GjKeySetCount(keys) <= MAX_WHOLE_KEYS ?
		GJ_MAX_WORDS : PART_WORDS;
	uint32		all[GJ_MAX_WORDS];
	int			words;

	/* do not read the bitmap of a full page from memory */
	if (GjDataIsFull(page, info))
		used = memset(all, 0xFF, GjDataWords(page, info) * sizeof(uint32));
	for (int word = 0; word < GjDataWords(page, info); word += words)
	{
		int			nslots = hits->nslots;
		const char *ahead = following == NULL ? NULL :
			GjDataKeys(following, info) + word * word_keys;

		words = Min(GjDataWords(page, info) - word, part);
		if (!GjKernelMatch(keys, page_keys + word * word_keys, used + word, words,
						   &hits->bits[word], ahead))
			continue;
		page_hits_list(hits, word, words);
		prefetch_hits(page, info, hits, nslots, target);
	}
}

/*
 * Prefetch the columns of the hits, starting with the hit number "first"
 */
static void
prefetch_hits(Page page, const GjIndexInfo *info, const GjPageHits *hits, int first,
			  GjMatchTarget target)
{
	if (GjDataIsNarrow(page))
	{
		prefetch_narrow(page, info, hits, first, target);
		return;
	}
	for (int i = 0; target.tids == NULL && i < info->nincluded; i++)
	{
		if (target.entries->included[i].width == 0)
			continue;
		prefetch_values(GjDataValues(page, &info->included[i]), info->included[i].width, hits,
						first);
		if (first == 0 && GjColumnMayHaveNulls(info, i, &target.entries->included[i]))
			GjPrefetchRange(GjDataNulls(page, &info->included[i]),
							GjDataWords(page, info) * sizeof(uint32));
	}
	prefetch_values((char *) GjDataTids(page, info), sizeof(ItemPointerData), hits, first);
}

static void
prefetch_narrow(Page page, const GjIndexInfo *info, const GjPageHits *hits, int first,
				GjMatchTarget target)
{
	const GjNarrowColumn *columns = GjPageGetNarrow(page);

	for (int i = GJ_TID_COLUMN; i < GJ_FIRST_INCLUDED + info->nincluded; i++)
	{
		if (i == GJ_TID_COLUMN ||
			(target.tids == NULL && target.entries->included[i - GJ_FIRST_INCLUDED].width > 0))
			prefetch_values((const char *) page + columns[i].offset, columns[i].width, hits,
							first);
	}
}

static pg_attribute_always_inline void
prefetch_values(const char *array, int width, const GjPageHits *hits, int first)
{
	for (int i = first; i < hits->nslots; i++)
		GjPrefetch(array + hits->slots[i] * width);
}

/* Return false only if no key of the set is between the page's bounds; may return true then, too */
static bool
page_may_match(GjPageOpaque opaque, const GjKeySet *keys)
{
	uint64		page_span = (uint64) opaque->max_key - (uint64) opaque->min_key;
	uint64		mean_gap;
	uint64		position = 0;
	int64		wanted;

	if (!GjKeySetIsList(keys))
		return GjKeySetSeek(keys, &position, opaque->min_key, &wanted) &&
			wanted <= opaque->max_key;
	Assert(GjKeySetCount(keys) > 0);
	mean_gap = ((uint64) keys->max_key - (uint64) keys->min_key) / GjKeySetCount(keys);
	if (opaque->max_key < keys->min_key || opaque->min_key > keys->max_key)
		return false;
	if (page_span / SPARSE_KEYS > mean_gap)
		return true;
	position = GjKeySetLowerBound(keys, opaque->min_key);
	return position < GjKeySetCount(keys) && GjKeySetAt(keys, position) <= opaque->max_key;
}

/*
 * Drop hits outside the limits, or whose TIDs are known
 */
static void
drop_known_hits(Page page, const GjIndexInfo *info, const GjPageLimits *limits, GjPageHits *hits)
{
	int			nslots = 0;

	for (int i = 0; i < hits->nslots; i++)
	{
		int			slot = hits->slots[i];
		GjPlace		place = GjDataGetPlace(page, info, slot);

		if ((limits->bounded && (GjPlaceIsBefore(&place, &limits->from) ||
								 !GjPlaceIsBefore(&place, &limits->end))) ||
			(limits->known != NULL && GjFewTidsFind(limits->known, place.tid) >= 0))
			hits->bits[slot / GJ_SLOTS_PER_WORD] &= ~GjSlotBit(slot);
		else
			hits->slots[nslots++] = slot;
	}
	hits->nslots = nslots;
}

/* Pages of runs ------------------------------------------------------------------- */

/*
 * Return true if so few listed keys can be on a run's page that each should be searched for.  The
 * ends of intervals always are.
 */
static inline bool
has_few_keys(const GjChosenPage *chosen)
{
	const GjKeySet *keys = chosen->keys;
	bool		is_built = keys->probe != GJ_PROBE_HASH || keys->filter != NULL;
	uint64		many = chosen->key + (is_built ? MAX_FEW_KEYS : MAX_KEYS_UNBUILT);

	if (keys->nintervals > 0)
		return true;
	return GjKeySetIsList(keys) &&
		(many >= GjKeySetCount(keys) || GjKeySetAt(keys, many) > chosen->next.key);
}

/* Where the keys of a page are, and how wide: 0 stands for those of a narrow page */
typedef struct KeyArray
{
	const char *array;
	int			stored_width;
	uint64		base;
} KeyArray;

static pg_attribute_always_inline int64
load_key(const KeyArray *keys, int width, int slot)
{
	if (width == 0)
		return (int64) (keys->base + GjNarrowLoad(keys->array, keys->stored_width, slot));
	if (width == sizeof(int32))
		return ((const int32 *) keys->array)[slot];
	return ((const int64 *) keys->array)[slot];
}

/*
 * Return the first slot from low on whose key is not below this one, or high
 */
static pg_attribute_always_inline int
find_slot(const KeyArray *keys, int width, int low, int high, int64 key)
{
	int			n = high - low;

	/* no branch on the comparison, as it would be unpredictable */
	while (n > 0)
	{
		int			half = n / 2;
		bool		below = load_key(keys, width, low + half) < key;

		low += below ? n - half : 0;
		n = half;
	}
	return low;
}

/*
 * Do the same, but search near a slot first
 */
static pg_attribute_always_inline int
find_near(const KeyArray *keys, int width, int low, int high, int near, int64 key)
{
	int			step = NEAR_SLOTS;

	if (low == high)
		return low;
	near = Min(Max(near, low), high - 1);
	if (load_key(keys, width, near) < key)
	{
		low = near + 1;
		for (; low + step < high; step *= 2)
		{
			if (load_key(keys, width, low + step) >= key)
			{
				high = low + step;
				break;
			}
			low += step + 1;
		}
	}
	else
	{
		high = near;
		for (; high - step > low; step *= 2)
		{
			if (load_key(keys, width, high - step) < key)
			{
				low = high - step + 1;
				break;
			}
			high -= step;
		}
	}
	return find_slot(keys, width, low, high, key);
}

/*
 * Estimate in which of nslots slots a key is, assuming that keys are spread evenly
 */
static int
estimate_slot(const GjChosenPage *chosen, int nslots, int64 key)
{
	double		span = (double) chosen->next.key - (double) chosen->first.key + 1.0;

	return (int) (((double) key - (double) chosen->first.key) / span * nslots);
}

/* Prefetch the keys of a page of a run, without reading the page */
static void
prefetch_keys(const GjSearch *search, Page page)
{
	const GjNarrowColumn *keys = &search->narrow[GJ_KEY_COLUMN];

	if (search->narrow_slots == 0)
	{
		GjPrefetchKeys(page, search->info);
		return;
	}
	GjPrefetchEnds(page);
	GjPrefetchRange((char *) page + keys->offset, search->narrow_slots * keys->width);
	GjPrefetchRange((char *) page + keys->nulls_offset, search->narrow_slots / BITS_PER_BYTE);
}

/*
 * Prefetch the memory that match_listed() will probably read, without reading the page
 */
static void
prefetch_listed(const GjSearch *search, Page page, const GjChosenPage *chosen,
				GjMatchTarget target)
{
	const GjIndexInfo *info = search->info;
	int			slot = estimate_slot(chosen, info->plain_slots, chosen->wanted);

	if (search->narrow_slots > 0)
	{
		prefetch_alike(search, page, chosen, target);
		return;
	}
	slot = Max(Min(slot, info->plain_slots - NEAR_SLOTS) - NEAR_SLOTS, 0);
	GjPrefetchEnds(page);
	PREFETCH_NEAR(GjDataKeys(page, info), info->key_width, slot);
	PREFETCH_NEAR(GjDataTids(page, info), sizeof(ItemPointerData), slot);
	for (int i = 0; target.entries != NULL && i < info->nincluded; i++)
	{
		if (target.entries->included[i].width != 0)
			PREFETCH_NEAR(GjDataValues(page, &info->included[i]), info->included[i].width, slot);
	}
}

/*
 * Do so where the last narrow page that was read has its arrays, as most pages of a run have
 */
static void
prefetch_alike(const GjSearch *search, Page page, const GjChosenPage *chosen, GjMatchTarget target)
{
	int			slots = search->narrow_slots;
	int			slot = estimate_slot(chosen, slots, chosen->wanted);

	slot = Max(Min(slot, slots - NEAR_SLOTS) - NEAR_SLOTS, 0);
	GjPrefetchEnds(page);
	for (int i = 0; i < GJ_FIRST_INCLUDED + search->info->nincluded; i++)
	{
		const GjNarrowColumn *column = &search->narrow[i];

		if (i < GJ_FIRST_INCLUDED ||
			(target.entries != NULL && target.entries->included[i - GJ_FIRST_INCLUDED].width != 0))
			PREFETCH_NEAR((char *) page + column->offset, column->width, slot);
	}
}

static pg_attribute_always_inline bool
match_sorted(Page page, const GjIndexInfo *info, const KeyArray *page_keys, int width,
			 const GjChosenPage *chosen, int nslots, GjMatchTarget target, GjMatchStats *stats)
{
	const GjKeySet *keys = chosen->keys;
	bool		has_gaps = GjPageGetOpaque(page)->used != nslots;
	int			slot = 0;

	for (uint64 at = chosen->key;
		 at < GjKeySetCount(keys) && GjKeySetAt(keys, at) <= chosen->next.key && slot < nslots;
		 at++)
	{
		int64		key = GjKeySetAt(keys, at);
		int			end = nslots;

		slot = find_near(page_keys, width, slot, nslots, estimate_slot(chosen, nslots, key), key);
		if (slot == nslots || load_key(page_keys, width, slot) != key)
			continue;
		if (key < PG_INT64_MAX)
			end = find_near(page_keys, width, slot + 1, nslots, slot + 1, key + 1);
		if (!(has_gaps ? add_used(target, page, info, slot, end, stats) :
			  add_slots(target, page, info, slot, end - slot, stats)))
			return false;
		slot = end;
	}
	return true;
}

/*
 * Do the same for the intervals.  The keys of a page that is inside one are not even read.
 */
static pg_attribute_always_inline bool
match_intervals(Page page, const GjIndexInfo *info, const KeyArray *page_keys, int width,
				const GjChosenPage *chosen, int nslots, GjMatchTarget target, GjMatchStats *stats)
{
	const GjKeySet *keys = chosen->keys;
	bool		has_gaps = GjPageGetOpaque(page)->used != nslots;
	int			slot = 0;

	for (uint64 at = chosen->key; at < keys->nintervals && slot < nslots; at++)
	{
		int64		low = keys->intervals[at].low;
		int64		high = keys->intervals[at].high;
		int			end = nslots;

		if (low > chosen->next.key)
			break;
		if (low > chosen->first.key)
			slot = find_near(page_keys, width, slot, nslots, estimate_slot(chosen, nslots, low),
							 low);
		if (high < chosen->next.key)
			end = find_near(page_keys, width, slot, nslots, estimate_slot(chosen, nslots, high),
							high + 1);
		if (slot < end && !(has_gaps ? add_used(target, page, info, slot, end, stats) :
							add_slots(target, page, info, slot, end - slot, stats)))
			return false;
		slot = end;
	}
	return true;
}

static pg_attribute_always_inline bool
match_found(Page page, const GjIndexInfo *info, const KeyArray *page_keys, int width,
			const GjChosenPage *chosen, int nslots, GjMatchTarget target, GjMatchStats *stats)
{
	if (chosen->keys->nintervals > 0)
		return match_intervals(page, info, page_keys, width, chosen, nslots, target, stats);
	return match_sorted(page, info, page_keys, width, chosen, nslots, target, stats);
}

/*
 * Match a run's page by searching for the few listed keys, or the intervals, that can be on it,
 * without limits on places
 */
static bool
match_listed(Page page, const GjIndexInfo *info, const GjChosenPage *chosen,
			 GjMatchTarget target, GjMatchStats *stats)
{
	/* do not read the bitmap of a full page from memory */
	int			nslots = GjDataIsFull(page, info) ? GjDataSlots(page, info) :
		GjDataEnd(page, info);

	KeyArray	keys = {GjDataKeys(page, info)};

	if (nslots == 0)
		return true;
	if (GjDataIsNarrow(page))
	{
		const GjNarrowColumn *column = &GjPageGetNarrow(page)[GJ_KEY_COLUMN];

		keys = (KeyArray) {(const char *) page + column->offset, column->width, column->base};
		return match_found(page, info, &keys, 0, chosen, nslots, target, stats);
	}
	if (info->key_width == sizeof(int32))
		return match_found(page, info, &keys, sizeof(int32), chosen, nslots, target, stats);
	return match_found(page, info, &keys, sizeof(int64), chosen, nslots, target, stats);
}

/*
 * Add the entries in use among the slots from first to before end
 */
static bool
add_used(GjMatchTarget target, Page page, const GjIndexInfo *info, int first, int end,
		 GjMatchStats *stats)
{
	for (int slot = first, n; slot < end; slot += n + 1)
	{
		for (n = 0; slot + n < end && GjDataIsUsed(page, info, slot + n); n++);
		if (n > 0 && !add_slots(target, page, info, slot, n, stats))
			return false;
	}
	return true;
}

/*
 * Add adjacent entries
 */
static bool
add_slots(GjMatchTarget target, Page page, const GjIndexInfo *info, int first, int n,
		  GjMatchStats *stats)
{
	uint64		packed[GJ_MAX_SLOTS];

	stats->tids += n;
	if (target.tids == NULL)
		return GjEntrySetAddSlots(target.entries, page, info, first, n);
	GjPagePackTids(page, info, first, n, packed);
	return GjTidSetAddPacked(target.tids, packed, n);
}

/*
 * Count bits like pg_popcount64(), but without an indirect call
 */
static inline int
count_bits(uint64 bits)
{
	bits -= (bits >> 1) & UINT64CONST(0x5555555555555555);
	bits = (bits & UINT64CONST(0x3333333333333333)) +
		((bits >> 2) & UINT64CONST(0x3333333333333333));
	bits = (bits + (bits >> 4)) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
	return (int) ((bits * UINT64CONST(0x0101010101010101)) >> 56);
}

/*
 * Append the slots of the bits in these words to the list
 *
 * The positions of the bits are random.  A loop that ended with the last bit of a word would
 * mispredict that branch, which costs as much as several hits.  So we always list GJ_HITS_SPARE
 * slots at a time, even if fewer bits are left; the next slots overwrite the excess ones.
 */
static void
page_hits_list(GjPageHits *hits, int first, int words)
{
	for (int word = first; word < first + words; word += 2)
	{
		uint64		left = hits->bits[word];
		int			end;

		if (word + 1 < first + words)
			left |= (uint64) hits->bits[word + 1] << GJ_SLOTS_PER_WORD;
		end = hits->nslots + count_bits(left);
		for (int at = hits->nslots; at < end; at += GJ_HITS_SPARE)
		{
			for (int i = 0; i < GJ_HITS_SPARE; i++)
			{
				hits->slots[at + i] = word * GJ_SLOTS_PER_WORD +
					pg_rightmost_one_pos64(left | LAST_BIT);
				left &= left - 1;
			}
		}
		hits->nslots = end;
	}
}
