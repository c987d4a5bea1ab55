/*-------------------------------------------------------------------------
 *
 * foldsource.c
 *	  The rows that a fold writes, in order: the delta's, sorted, merged with those of runs.
 *
 * None of these pages changes during the fold (fold.c), so one that is not what a list or directory
 * says is corrupted.  So are rows of a run that do not ascend: as the first of a page of the new
 * run, one could hide many others from searches.
 *
 * A fold of the delta alone writes the sorted rows one by one.  Otherwise all sources deliver
 * pages, even the sort, and these are merged up to the place where the first of them ends: all rows
 * up to that place are on them, because those of each source ascend.  Only places are merged;
 * values are copied afterwards.  If an entry fits in a word, faster code is used: "Entries as
 * words" below.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/radix.h"
#include "base/step.h"
#include "base/tid.h"
#include "stats/stats.h"
#include "fold.h"

/* Approximate number of words in a part, and log2 of the maximum number of parts */
#define PART_WORDS				1024
#define MAX_PART_BITS			11

/* Number of words of a part that are stored contiguously */
#define BLOCK_WORDS				64

/* Words with the same upper bits */
typedef struct WordPart
{
	uint32		first;			/* first block; WordSort.next links the others */
	uint32		nblocks;
	uint64		end;			/* position after the last word; 0 if the part is empty */
} WordPart;

typedef struct WordSort
{
	GjWordForm	form;
	int			shift;			/* the bits of a word above this are its part's number */
	int			nparts;
	int			at;				/* next part to be sorted */
	uint64	   *words;			/* blocks, in the order in which they were allocated to parts */
	uint32	   *next;			/* for each block, the part's next block */
	uint32		last;			/* last allocated block; block 0 is not used */
	uint64	   *scratch;		/* memory in which a part is sorted, in two halves */
	uint64		room;			/* capacity of each half, in words */
	WordPart	parts[1 << MAX_PART_BITS];
} WordSort;

/* The pages of a run, from the one where the rows begin */
typedef struct RunPages
{
	GjRunReader reader;
	bool		found;			/* the reader is already on the next page to be read */
} RunPages;

/* The delta, sorted, or a run */
typedef struct GjFoldSource
{
	GjRowSort  *sort;			/* NULL if the source is a run */
	RunPages	run;
	bool		ended;			/* no rows follow those of the current page */
	int			slot;			/* first slot of the current page that has not been merged */
	int			nslots;			/* slots of this page up to the last used one */
	bool		has_nulls;		/* false if no value of this page is NULL */
	GjPlace		last;			/* place of its last row; at first a lower bound of all rows */
} GjFoldSource;

typedef struct GjFoldMerge
{
	int			nsources;
	GjFoldSource sources[GJ_ENTRY_PAGES];
	Page	   *pages;			/* current page of each source */
	GjIndexInfo layout;			/* of plain images */
	const GjIndexInfo *info;	/* the same: that of the pages */
	GjPageEntry *buffers[2];	/* each has room for all entries of the pages */
	GjPageEntry *merged;		/* entries to be returned */
	int			nmerged;
} GjFoldMerge;

/* Entries in order, with a sentinel behind them */
typedef struct Segment
{
	GjPageEntry *entries;
	int			n;
} Segment;

/* The entries to be read */
typedef struct Extent
{
	int64		min_key;
	int64		max_key;
	uint64		n;				/* number of delta entries to be sorted */
} Extent;

/*
 * A stream of words in order: those of the delta, of a run, or merged from two other streams.
 * Some of the words are loaded.
 */
typedef struct Stream
{
	const uint64 *words;		/* the loaded words */
	uint64		n;				/* number of loaded words */
	uint64		total;			/* estimated number of words in all */
	struct Stream *first;		/* streams merged into this one, or NULL */
	struct Stream *second;
	bool		is_run;
	bool		is_delta;
	bool		ended;			/* no words follow the loaded ones */
	RunPages	run;
	uint64		last;			/* last word read from the run */
	uint64		buffer[GJ_MAX_SLOTS];
} Stream;

/* Runs, the delta, and the streams that merge two others until one is left */
#define MAX_STREAMS				(2 * (GJ_MAX_RUNS + 1) - 1)

typedef struct GjFoldWords
{
	GjWordForm	form;
	WordSort   *sort;			/* sorts the delta's words */
	Stream	   *streams[MAX_STREAMS];
	int			nstreams;
	Stream	   *all;
} GjFoldWords;

static void list_delta(GjFold *fold);
static void open_merge(GjFold *fold, int first_run);
static void sort_delta(GjFold *fold, GjFoldSource *source);
static bool merge_pages(GjFold *fold);
static bool load_page(GjFold *fold, int number);
static bool load_run_page(GjFold *fold, int number);
static bool begin_run(const GjFold *fold, RunPages *pages, const GjRun *run);
static bool next_run_page(const GjFold *fold, RunPages *pages);
static void report_moved(const GjFold *fold, const GjRunReader *reader)
			__attribute__((noreturn));
static void report_disorder(const GjFold *fold, const GjRunReader *reader)
			__attribute__((noreturn));
static void check_order(const GjFold *fold, GjFoldSource *source, Page page);
static void copy_data_page(GjFold *fold, BlockNumber block, uint32 run, char *copy);
static void copy_run_page(GjFold *fold, BlockNumber block, uint32 run, Page copy);
static int	slots_up_to(const GjFold *fold, const GjFoldSource *source, Page page,
						const GjPlace *place);
static int	take_used(const GjIndexInfo *info, Page page, int from, int to, int number,
					  GjPageEntry *entries);
static GjPageEntry *merge_segments(GjFoldMerge *merge, Segment *segments, int nsegments, int at);
static void measure(const GjFold *fold, int first_run, Extent *extent);
static BlockNumber count_blocks(const GjFold *fold);
static Stream *add_stream(GjFoldWords *words, uint64 total);
static void add_delta(GjFold *fold, uint64 room);
static void merge_streams(GjFoldWords *words);
static void put_in_order(Stream **streams, int n, Stream *stream);
static void fill_stream(GjFold *fold, Stream *stream);
static void read_run_page(GjFold *fold, Stream *stream);
static void skip_words(const GjFold *fold, Stream *stream);
static int	take_words(GjFold *fold, BlockNumber block, uint32 run, uint64 *words, uint64 room);
static void check_run_order(const GjFold *fold, Stream *run);
static void merge_into_stream(GjFold *fold, Stream *stream);
static uint64 merge_some(Stream *first, Stream *second, uint64 *out, uint64 room);
static inline void advance_stream(Stream *stream, uint64 n);
static Buffer lock_page(const GjFold *fold, BlockNumber block, uint32 run);
static bool open_words(GjFold *fold, int first_run);
static bool next_words(GjFold *fold, GjFoldRows *rows);
static void sort_block(WordSort *sort, WordPart *part);
static uint64 gather_part(WordSort *sort, const WordPart *part);
static uint64 *sort_words(const GjWordForm *form, uint64 *words, uint64 *scratch, uint64 n);
static pg_attribute_always_inline bool get_words(const GjWordForm *form, Page page,
												 const GjIndexInfo *info, int width,
												 uint64 *words);
static bool find_word_form(GjWordForm *form, int64 min_key, int64 max_key, BlockNumber nblocks);
static WordSort *begin_word_sort(const GjWordForm *form, uint64 n);
static void add_to_word_sort(WordSort *sort, const uint64 *words, int n);
static uint64 next_word_part(WordSort *sort, const uint64 **words);

#define GJ_VALUE			uint64
#define GJ_LOOP(name)		name##_words
#define GJ_PRECEDES(a, b)	((uint64) (*(a) <= *(b)))
#include "mergeloops.h"

#define GJ_VALUE			GjPageEntry
#define GJ_LOOP(name)		name##_entries
#define GJ_PRECEDES(a, b) \
	((uint64) (((a)->key < (b)->key) | (((a)->key == (b)->key) & ((a)->word <= (b)->word))))
#include "mergeloops.h"

/* After all entries: no slot has this number */
static const GjPageEntry last_entry = {PG_INT64_MAX, PG_UINT64_MAX};

/*
 * Begin to read the previous delta, if there is one, and the runs from the given one on
 *
 * A step of a merge passes a state with its sources only, and the last place that it has written.
 */
void
GjFoldOpenSources(GjFold *fold, int first_run)
{
	MemoryContext old;

	list_delta(fold);
	fold->memory = AllocSetContextCreate(CurrentMemoryContext, "gpujoin fold sources",
										 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(fold->memory);
	if (!open_words(fold, first_run))
		open_merge(fold, first_run);
	MemoryContextSwitchTo(old);
}

/*
 * Get the next rows, valid until the next call.  Returns false at the end.
 */
bool
GjFoldNextRows(GjFold *fold, GjFoldRows *rows)
{
	GjFoldMerge *merge = fold->merge;

	memset(rows, 0, sizeof(*rows));
	if (fold->words != NULL)
		return next_words(fold, rows);
	if (merge->nsources == 1 && merge->sources[0].sort != NULL)
	{
		rows->row = GjRowSortNext(merge->sources[0].sort);
		rows->n = rows->row != NULL ? 1 : 0;
		return rows->n > 0;
	}
	if (merge->nmerged == 0 && !merge_pages(fold))
		return false;
	rows->pages = merge->pages;
	rows->layout = merge->info;
	for (int i = 0; i < merge->nsources; i++)
		rows->has_nulls |= merge->sources[i].has_nulls;
	rows->entries = merge->merged;
	rows->n = Min(merge->nmerged, fold->info.plain_slots);
	merge->merged += rows->n;
	merge->nmerged -= rows->n;
	return true;
}

/*
 * Free the resources of the sources
 */
void
GjFoldCloseSources(GjFold *fold)
{
	if (fold->words == NULL && fold->merge->sources[0].sort != NULL)
		GjRowSortEnd(fold->merge->sources[0].sort);
	MemoryContextDelete(fold->memory);
}

/*
 * List the data pages of the previous delta, if there is one, but not those of the current one
 */
static void
list_delta(GjFold *fold)
{
	GjIndexState state = fold->state;

	state.deltas[0].run = 0;
	if (!GjDeltaGetBlocks(fold->index, &state, &fold->delta_blocks, &fold->ndelta_blocks))
		GjReportCorruption(fold->index, GJ_META_BLOCK, "Another fold is under way.");
}

/*
 * Open the sources of a merge of pages
 */
static void
open_merge(GjFold *fold, int first_run)
{
	GjFoldMerge *merge = palloc0(sizeof(GjFoldMerge));
	bool		has_delta = fold->state.deltas[1].run != 0;
	Size		room;

	/* one run of a full list is left: the base, or the last one */
	if (fold->state.nruns - first_run + has_delta > GJ_ENTRY_PAGES)
		elog(ERROR, "too many runs of index \"%s\" to be merged",
			 RelationGetRelationName(fold->index));
	fold->merge = merge;
	if (has_delta)
		sort_delta(fold, &merge->sources[merge->nsources++]);
	for (int i = first_run; i < fold->state.nruns; i++)
	{
		GjFoldSource *source = &merge->sources[merge->nsources++];

		source->last = (GjPlace) {PG_INT64_MIN, 0};
		source->ended = !begin_run(fold, &source->run, &fold->state.runs[i]);
	}
	/* each source also has a sentinel */
	room = (Size) merge->nsources * (GJ_MAX_SLOTS + 1);
	fold->wide = GjWideCreate(&fold->info);
	merge->info = &merge->layout;
	merge->layout = fold->wide->info;
	merge->pages = palloc(merge->nsources * sizeof(Page));
	for (int i = 0; i < merge->nsources; i++)
		merge->pages[i] = GjWideAlloc(merge->info, CurrentMemoryContext);
	for (int i = 0; i < lengthof(merge->buffers); i++)
		merge->buffers[i] = palloc(room * sizeof(GjPageEntry));
}

static void
sort_delta(GjFold *fold, GjFoldSource *source)
{
	PGAlignedBlock copy;

	source->sort = fold->sorted;
	if (source->sort != NULL)
		return;
	GjStep("sorting");
	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, fold->ndelta_blocks);
	source->sort = GjRowSortBegin(&fold->info, GjVacuumMemory());
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		CHECK_FOR_INTERRUPTS();
		GjProgressDone(i);
		copy_data_page(fold, fold->delta_blocks[i], fold->state.deltas[1].run, copy.data);
		GjRowSortAddPage(source->sort, (Page) copy.data);
	}
	GjRowSortPerform(source->sort);
}

/*
 * Merge the current pages of all sources up to the place where the first of them ends.  Returns
 * false if no rows are left.
 */
static bool
merge_pages(GjFold *fold)
{
	GjFoldMerge *merge = fold->merge;
	Segment		segments[GJ_ENTRY_PAGES];
	int			nsegments = 0;
	GjPageEntry *room = merge->buffers[0];
	GjPlace		end;
	bool		has_rows = false;

	for (int i = 0; i < merge->nsources; i++)
	{
		GjFoldSource *source = &merge->sources[i];

		while (source->slot >= source->nslots && load_page(fold, i))
			;
		if (source->slot < source->nslots &&
			(!has_rows || GjPlaceIsBefore(&source->last, &end)))
		{
			end = source->last;
			has_rows = true;
		}
	}
	if (!has_rows)
		return false;

	for (int i = 0; i < merge->nsources; i++)
	{
		GjFoldSource *source = &merge->sources[i];
		Page		page = merge->pages[i];
		int			to = slots_up_to(fold, source, page, &end);
		int			n = take_used(merge->info, page, source->slot, to, i, room);

		source->slot = Max(source->slot, to);
		if (n == 0)
			continue;
		segments[nsegments++] = (Segment) {room, n};
		merge->nmerged += n;
		room[n] = last_entry;
		room += n + 1;
	}
	merge->merged = merge_segments(merge, segments, nsegments, 0);
	return true;
}

/*
 * Load the next page of a source.  Returns false if it has no more.
 */
static bool
load_page(GjFold *fold, int number)
{
	GjFoldSource *source = &fold->merge->sources[number];
	Page		page = fold->merge->pages[number];
	const char *row;

	if (source->ended)
		return false;
	source->slot = source->nslots = 0;
	if (source->sort == NULL)
		source->ended = !load_run_page(fold, number);
	else
	{
		GjWideInit(page, fold->merge->info, 0);
		while (source->nslots < fold->info.plain_slots &&
			   (row = GjRowSortNext(source->sort)) != NULL)
			GjDataPut(page, fold->merge->info, source->nslots++, row);
		source->ended = source->nslots == 0;
		if (!source->ended)
			source->last = GjDataGetPlace(page, fold->merge->info, source->nslots - 1);
	}
	source->has_nulls = !source->ended && GjDataHasNulls(page, fold->merge->info);
	return !source->ended;
}

static bool
load_run_page(GjFold *fold, int number)
{
	GjFoldSource *source = &fold->merge->sources[number];
	const GjRunReader *reader = &source->run.reader;
	Page		page = fold->merge->pages[number];

	if (!next_run_page(fold, &source->run))
		return false;
	copy_run_page(fold, reader->block, reader->run.run, page);
	source->nslots = GjDataEnd(page, fold->merge->info);
	check_order(fold, source, page);
	if (fold->after != NULL)
		source->slot = slots_up_to(fold, source, page, fold->after);
	return true;
}

/*
 * Begin to read the pages of a run, from the one where the rows begin.  Returns false if no rows
 * are left.
 */
static bool
begin_run(const GjFold *fold, RunPages *pages, const GjRun *run)
{
	GjRunReader *reader = &pages->reader;

	GjRunReaderBegin(reader, fold->index, &fold->state, run, false);
	if (fold->after == NULL)
		return true;
	pages->found = GjRunReaderSeek(reader, fold->after);
	if (reader->moved)
		report_moved(fold, reader);
	return pages->found;
}

/*
 * Go to the next page of a run.  Returns false if it has no more.
 */
static bool
next_run_page(const GjFold *fold, RunPages *pages)
{
	CHECK_FOR_INTERRUPTS();
	if (!pages->found && !GjRunReaderNext(&pages->reader))
	{
		if (pages->reader.moved)
			report_moved(fold, &pages->reader);
		return false;
	}
	pages->found = false;
	return true;
}

static void
report_moved(const GjFold *fold, const GjRunReader *reader)
{
	GjReportCorruption(fold->index, reader->block, "A directory has a page of something else.");
}

/*
 * Return true if the rows ascend from *last on.  Sets *last to the place of the last row.  The
 * comparison has no branches, unlike GjPlaceIsBefore(), since its result is used only at the end.
 */
static pg_attribute_always_inline bool
rows_ascend(const char *keys, int width, const ItemPointerData *tids, int n, GjPlace *last)
{
	int64		last_key = last->key;
	uint64		last_tid = last->tid;
	bool		ascend = true;

	for (int i = 0; i < n; i++)
	{
		int64		key = width == sizeof(int32) ? ((const int32 *) keys)[i] :
			((const int64 *) keys)[i];
		uint64		tid = GjPackTid(&tids[i]);

		ascend &= (last_key < key) | ((last_key == key) & (last_tid <= tid));
		last_key = key;
		last_tid = tid;
	}
	*last = (GjPlace) {last_key, last_tid};
	return ascend;
}

/*
 * Check that a run's rows ascend.  Deleted rows keep their places among the others, and searches
 * also rely on that.
 */
static void
check_order(const GjFold *fold, GjFoldSource *source, Page page)
{
	const GjIndexInfo *info = fold->merge->info;
	const char *keys = GjDataKeys(page, info);
	const ItemPointerData *tids = GjDataTids(page, info);
	bool		ascend = info->key_width == sizeof(int32) ?
		rows_ascend(keys, sizeof(int32), tids, source->nslots, &source->last) :
		rows_ascend(keys, sizeof(int64), tids, source->nslots, &source->last);

	if (!ascend)
		report_disorder(fold, &source->run.reader);
}

static void
report_disorder(const GjFold *fold, const GjRunReader *reader)
{
	GjReportCorruption(fold->index, reader->block, "The entries of a run are not in order.");
}

/*
 * Return the end of the slots of a source's page whose places are not after this one.  All slots
 * before the next one are among them.
 */
static int
slots_up_to(const GjFold *fold, const GjFoldSource *source, Page page, const GjPlace *place)
{
	int			low = source->slot;
	int			high = source->nslots;

	while (low < high)
	{
		int			at = (low + high) / 2;
		GjPlace		here = GjDataGetPlace(page, fold->merge->info, at);

		if (GjPlaceIsBefore(place, &here))
			high = at;
		else
			low = at + 1;
	}
	return low;
}

/*
 * Get the entries in used slots of a source's page, and return their number; there must be room for
 * one more
 */
static int
take_used(const GjIndexInfo *info, Page page, int from, int to, int number,
		  GjPageEntry *entries)
{
	const uint32 *used = GjDataUsed(page, info);
	int			n = 0;

	for (int slot = from; slot < to; slot++)
	{
		GjPlace		place = GjDataGetPlace(page, info, slot);

		/* unless the slot is used, the next entry replaces this one */
		entries[n] = (GjPageEntry) {place.key, GjEntryWord(place.tid, number, slot)};
		n += used[slot / GJ_SLOTS_PER_WORD] >> slot % GJ_SLOTS_PER_WORD & 1;
	}
	return n;
}

/*
 * Merge segments, at least one, which are in one of the two buffers; returns the result.  In each
 * pass, neighbors are merged into the other buffer.
 */
static GjPageEntry *
merge_segments(GjFoldMerge *merge, Segment *segments, int nsegments, int at)
{
	while (nsegments > 1)
	{
		GjPageEntry *out = merge->buffers[1 - at];

		for (int i = 0; i < nsegments; i += 2)
		{
			Segment		merged = {out, segments[i].n};

			if (i + 1 < nsegments)
			{
				merged.n += segments[i + 1].n;
				merge_entries(segments[i].entries, segments[i].n, segments[i + 1].entries,
							  segments[i + 1].n, out, merged.n);
			}
			else
				memcpy(out, segments[i].entries, segments[i].n * sizeof(GjPageEntry));
			out[merged.n] = last_entry;
			out += merged.n + 1;
			segments[i / 2] = merged;
		}
		nsegments = (nsegments + 1) / 2;
		at = 1 - at;
	}
	return segments[0].entries;
}

static void
copy_data_page(GjFold *fold, BlockNumber block, uint32 run, char *copy)
{
	Buffer		buffer = lock_page(fold, block, run);

	GjPlainDemand(fold->index, block, BufferGetPage(buffer));
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/*
 * Copy a page of a run to a plain image
 */
static void
copy_run_page(GjFold *fold, BlockNumber block, uint32 run, Page copy)
{
	Buffer		buffer = lock_page(fold, block, run);

	GjDataCopy(fold->index, block, BufferGetPage(buffer), &fold->info, copy, fold->merge->info);
	UnlockReleaseBuffer(buffer);
}

/*
 * Lock a data page in share mode, after checking that it belongs to the run or delta that lists
 * it
 */
static Buffer
lock_page(const GjFold *fold, BlockNumber block, uint32 run)
{
	Buffer		buffer = ReadBufferExtended(fold->index, MAIN_FORKNUM, block, RBM_NORMAL,
											fold->strategy);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(fold->index, buffer, GJ_PAGE_DATA);
	if (GjPageGetOpaque(BufferGetPage(buffer))->run != run)
		GjReportCorruption(fold->index, block, "A data page is of another run than its directory.");
	return buffer;
}

/*-------------------------------------------------------------------------
 * Entries as words
 *
 * Deliver the rows that a fold writes, if entries are single words (see "Words, and sorting them").
 *
 * Words are used if the index has no INCLUDE columns, unless keys and TIDs have too many bits
 * together, or there is not enough memory: then rows are sorted.  The delta's words are sorted.
 * Runs are in order, so their words come page by page.  Two streams of words are merged into one,
 * and the result with another one, beginning with the shortest, so that the words of a base run
 * are merged only once.
 *
 * The number of words and the range of their keys are known before pages are read: runs and pages
 * have counts and bounds.  An entry beyond them is corruption: searches would not find it.
 *-------------------------------------------------------------------------
 */

/*
 * Begin to read the previous delta and the runs from the given one on, as words.  Returns false
 * if that is not possible.
 */
static bool
open_words(GjFold *fold, int first_run)
{
	Extent		extent;
	GjWordForm	form;
	GjFoldWords *words;
	Size		size;

	fold->words = NULL;
	if (fold->info.nincluded > 0)
		return false;
	measure(fold, first_run, &extent);
	size = extent.n * 3 * sizeof(uint64);
	if (size > GjVacuumMemory() || extent.min_key > extent.max_key ||
		!find_word_form(&form, extent.min_key, extent.max_key, count_blocks(fold)))
		return false;

	fold->wide = GjWideCreate(&fold->info);
	words = palloc0(sizeof(GjFoldWords));
	words->form = form;
	fold->words = words;
	add_delta(fold, extent.n);
	for (int i = first_run; i < fold->state.nruns; i++)
	{
		const GjRun *run = &fold->state.runs[i];
		Stream	   *stream = add_stream(words, run->entries);

		stream->is_run = true;
		stream->ended = !begin_run(fold, &stream->run, run);
	}
	merge_streams(words);
	return true;
}

/*
 * Get the next rows, but no more than a page may have.  Returns false at the end.
 */
static bool
next_words(GjFold *fold, GjFoldRows *rows)
{
	Stream	   *all = fold->words->all;

	if (all->n == 0)
		fill_stream(fold, all);
	rows->form = &fold->words->form;
	rows->words = all->words;
	rows->n = Min(all->n, fold->info.plain_slots);
	advance_stream(all, rows->n);
	return rows->n > 0;
}

/*
 * Determine the number and the bounds of the entries, from those recorded for the runs and the
 * delta's pages
 */
static void
measure(const GjFold *fold, int first_run, Extent *extent)
{
	extent->min_key = PG_INT64_MAX;
	extent->max_key = PG_INT64_MIN;
	extent->n = 0;
	for (int i = first_run; i < fold->state.nruns; i++)
	{
		const GjRun *run = &fold->state.runs[i];

		extent->min_key = Min(extent->min_key, run->min_key);
		extent->max_key = Max(extent->max_key, run->max_key);
	}
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		Buffer		buffer;
		GjPageOpaque opaque;

		CHECK_FOR_INTERRUPTS();
		buffer = lock_page(fold, fold->delta_blocks[i], fold->state.deltas[1].run);
		opaque = GjPageGetOpaque(BufferGetPage(buffer));
		if (opaque->used > 0)
		{
			extent->min_key = Min(extent->min_key, opaque->min_key);
			extent->max_key = Max(extent->max_key, opaque->max_key);
		}
		extent->n += opaque->used;
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * Return the number of blocks that TIDs may name: the table's length.  No folded entry belongs to a
 * later block, because insertions now go to the new delta, and entries of blocks that VACUUM has
 * cut off had been deleted before.  But a merge may have written such an entry last.
 */
static BlockNumber
count_blocks(const GjFold *fold)
{
	Relation	table = table_open(IndexGetRelation(RelationGetRelid(fold->index), false), NoLock);
	BlockNumber nblocks = RelationGetNumberOfBlocks(table);

	table_close(table, NoLock);
	return fold->after == NULL ? nblocks : Max(nblocks, GjPackedBlock(fold->after->tid) + 1);
}

static Stream *
add_stream(GjFoldWords *words, uint64 total)
{
	Stream	   *stream = palloc(sizeof(Stream));

	memset(stream, 0, offsetof(Stream, buffer));
	stream->total = total;
	words->streams[words->nstreams++] = stream;
	return stream;
}

/*
 * Read the delta's words, to be sorted
 */
static void
add_delta(GjFold *fold, uint64 room)
{
	GjFoldWords *words = fold->words;
	Stream	   *stream = add_stream(words, room);
	uint64		buffer[GJ_MAX_SLOTS];
	uint64		n = 0;

	words->sort = begin_word_sort(&words->form, room);
	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, fold->ndelta_blocks);
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		int			here;

		CHECK_FOR_INTERRUPTS();
		GjProgressDone(i);
		here = take_words(fold, fold->delta_blocks[i], fold->state.deltas[1].run, buffer,
						  Min(room - n, GJ_MAX_SLOTS));
		add_to_word_sort(words->sort, buffer, here);
		n += here;
	}
	stream->is_delta = true;
}

/*
 * Merge all streams into one: repeatedly merge the two with the fewest words
 */
static void
merge_streams(GjFoldWords *words)
{
	Stream	   *left[GJ_MAX_RUNS + 1] = {NULL};	/* the shortest ones come last */
	int			nleft = 0;

	while (nleft < words->nstreams)
	{
		put_in_order(left, nleft, words->streams[nleft]);
		nleft++;
	}
	while (nleft > 1)
	{
		Stream	   *first = left[--nleft];
		Stream	   *second = left[--nleft];
		Stream	   *merged = add_stream(words, first->total + second->total);

		merged->first = first;
		merged->second = second;
		put_in_order(left, nleft++, merged);
	}
	words->all = left[0];
}

static void
put_in_order(Stream **streams, int n, Stream *stream)
{
	for (; n > 0 && streams[n - 1]->total < stream->total; n--)
		streams[n] = streams[n - 1];
	streams[n] = stream;
}

/*
 * Load words of a stream, if none are loaded, unless it has ended
 */
static void
fill_stream(GjFold *fold, Stream *stream)
{
	stream->words = stream->buffer;
	while (stream->n == 0 && !stream->ended)
	{
		if (stream->is_delta)
		{
			stream->n = next_word_part(fold->words->sort, &stream->words);
			stream->ended = stream->n == 0;
		}
		else if (stream->is_run)
			read_run_page(fold, stream);
		else
			merge_into_stream(fold, stream);
	}
}

static void
read_run_page(GjFold *fold, Stream *stream)
{
	const GjRunReader *reader = &stream->run.reader;

	stream->ended = !next_run_page(fold, &stream->run);
	if (stream->ended)
		return;
	stream->words = stream->buffer;
	stream->n = take_words(fold, reader->block, reader->run.run, stream->buffer, GJ_MAX_SLOTS);
	check_run_order(fold, stream);
	if (fold->after != NULL)
		skip_words(fold, stream);
}

/*
 * Skip the words up to the place where the entries begin
 */
static void
skip_words(const GjFold *fold, Stream *stream)
{
	const GjWordForm *form = &fold->words->form;
	uint64		tid = fold->after->tid >> 16 << GJ_WORD_OFFSET_BITS | (fold->after->tid & 0xFFFF);
	uint64		last = ((uint64) fold->after->key - (uint64) form->min_key) << form->tid_bits | tid;
	uint64		n = 0;

	while (n < stream->n && stream->words[n] <= last)
		n++;
	advance_stream(stream, n);
}

/*
 * Get the words of a data page, but no more than `room`, and return their number
 */
static int
take_words(GjFold *fold, BlockNumber block, uint32 run, uint64 *words, uint64 room)
{
	const GjIndexInfo *info = &fold->info;
	const GjWordForm *form = &fold->words->form;
	Buffer		buffer = lock_page(fold, block, run);
	Page		page = GjDataOpen(fold->index, block, BufferGetPage(buffer), &info, fold->wide);
	int			n = GjDataCount(page, info);
	bool		fits;

	fits = n <= room &&
		(info->key_width == sizeof(int32) ? get_words(form, page, info, sizeof(int32), words) :
		 get_words(form, page, info, sizeof(int64), words));
	UnlockReleaseBuffer(buffer);
	if (!fits)
		GjReportCorruption(fold->index, block,
						   "A data page has entries that its bounds and counts do not tell.");
	return n;
}

/*
 * Check that a run's words ascend, as check_order() does for rows
 */
static void
check_run_order(const GjFold *fold, Stream *run)
{
	bool		ascend = true;
	uint64		last = run->last;

	for (uint64 i = 0; i < run->n; i++)
	{
		ascend &= last <= run->words[i];
		last = run->words[i];
	}
	if (!ascend)
		report_disorder(fold, &run->run.reader);
	run->last = last;
}

/*
 * Merge words of two streams, as many as a page has slots for, unless there are fewer
 */
static void
merge_into_stream(GjFold *fold, Stream *stream)
{
	uint64		room = fold->info.plain_slots;

	while (stream->n < room)
	{
		Stream	   *first = stream->first;
		Stream	   *second = stream->second;

		if (first->n == 0)
			fill_stream(fold, first);
		if (second->n == 0)
			fill_stream(fold, second);
		if (first->n == 0 && second->n == 0)
		{
			stream->ended = true;
			break;
		}
		stream->n += merge_some(first, second, stream->buffer + stream->n, room - stream->n);
	}
}

/*
 * Merge loaded words of two streams until one might run out, or take those of one if the other
 * has ended.  Returns the number of words.
 */
static uint64
merge_some(Stream *first, Stream *second, uint64 *out, uint64 room)
{
	uint64		n = Min(Min(first->n, second->n), room);
	uint64		of_first;

	if (n == 0)
	{
		Stream	   *left = first->n > 0 ? first : second;

		n = Min(left->n, room);
		memcpy(out, left->words, n * sizeof(uint64));
		advance_stream(left, n);
		return n;
	}
	of_first = merge_words(first->words, n, second->words, n, out, n);
	advance_stream(first, of_first);
	advance_stream(second, n - of_first);
	return n;
}

static inline void
advance_stream(Stream *stream, uint64 n)
{
	stream->words += n;
	stream->n -= n;
}

/*-------------------------------------------------------------------------
 * Words, and sorting them
 *
 * An entry without INCLUDE columns is a key and a TID.  If the smallest key is subtracted, and
 * the TID gets no more bits than the blocks of the table need, both usually fit into a word of
 * 64 bits: the key in the upper bits, the TID below it.  Then words sort like entries, a radix
 * sort moves only the entries themselves, and two entries are compared in one step.  Folds use
 * this if they can; pages/layout.c and pages/sort.c handle everything else.
 *
 * Words are sorted in parts, by their upper bits: a word is added to its part as it arrives, and
 * a part is sorted when it is needed, in the processor's cache.  So the memory of all words is
 * accessed only once: for a fold, whose memory the kernel has to allocate first, that is a
 * considerable part of the time.
 *-------------------------------------------------------------------------
 */

/*
 * Find the form of words for keys of a range and TIDs below a block; returns false if they do
 * not fit
 */
static bool
find_word_form(GjWordForm *form, int64 min_key, int64 max_key, BlockNumber nblocks)
{
	uint64		range = (uint64) max_key - (uint64) min_key;
	int			key_bits = range == 0 ? 0 : pg_leftmost_one_pos64(range) + 1;
	int			block_bits = Min(64 - GJ_WORD_OFFSET_BITS - key_bits, 32);

	if (block_bits <= 0 || (uint64) nblocks > (uint64) 1 << block_bits)
		return false;
	form->min_key = min_key;
	form->range = range;
	form->tid_bits = block_bits + GJ_WORD_OFFSET_BITS;
	return true;
}

/*
 * Build the word of a slot, and set bits in *excess if the entry does not fit into the form
 */
static pg_attribute_always_inline uint64
make_word(const GjWordForm *form, const char *keys, int width, const ItemPointerData *tids,
		  int slot, uint64 *excess)
{
	int64		key = width == sizeof(int32) ? ((const int32 *) keys)[slot] :
		((const int64 *) keys)[slot];
	uint64		above = (uint64) key - (uint64) form->min_key;
	uint64		offset = tids[slot].ip_posid;
	uint64		tid = (GjPackTid(&tids[slot]) >> 16) << GJ_WORD_OFFSET_BITS | offset;

	*excess |= (uint64) (above > form->range) | offset >> GJ_WORD_OFFSET_BITS |
		tid >> form->tid_bits;
	return above << form->tid_bits | tid;
}

/*
 * Get the entries of a data page as words; returns false if one of them does not have the form
 */
static pg_attribute_always_inline bool
get_words(const GjWordForm *form, Page page, const GjIndexInfo *info, int width, uint64 *words)
{
	GjWordForm	local = *form;	/* a local copy, which the writes below cannot alias */
	const char *keys = GjDataKeys(page, info);
	const ItemPointerData *tids = GjDataTids(page, info);
	const uint32 *used = GjDataUsed(page, info);
	int			nwords = GjDataWords(page, info);
	uint64		excess = 0;

	for (int word = 0; word < nwords; word++)
	{
		int			first = word * GJ_SLOTS_PER_WORD;

		if (used[word] == ~(uint32) 0)
		{
			for (int i = 0; i < GJ_SLOTS_PER_WORD; i++)
				*words++ = make_word(&local, keys, width, tids, first + i, &excess);
			continue;
		}
		for (uint32 left = used[word]; left != 0; left &= left - 1)
			*words++ = make_word(&local, keys, width, tids,
								 first + pg_rightmost_one_pos32(left), &excess);
	}
	return excess == 0;
}

/*
 * Start sorting up to n words; this takes three times the memory of the words
 */
static WordSort *
begin_word_sort(const GjWordForm *form, uint64 n)
{
	WordSort   *sort = palloc0(sizeof(WordSort));
	int			key_bits = form->range == 0 ? 0 : pg_leftmost_one_pos64(form->range) + 1;
	int			part_bits = 1;
	uint64		nblocks;

	while (part_bits < MAX_PART_BITS && n >> part_bits > PART_WORDS)
		part_bits++;
	sort->form = *form;
	sort->nparts = 1 << part_bits;
	sort->shift = key_bits + form->tid_bits - part_bits;
	nblocks = n / BLOCK_WORDS + sort->nparts + 1;
	sort->words = MemoryContextAllocHuge(CurrentMemoryContext,
										 nblocks * BLOCK_WORDS * sizeof(uint64));
	sort->next = MemoryContextAllocHuge(CurrentMemoryContext, nblocks * sizeof(uint32));
	sort->room = PART_WORDS;
	sort->scratch = palloc(sort->room * 2 * sizeof(uint64));
	return sort;
}

/*
 * Add words, which must have the form
 */
static void
add_to_word_sort(WordSort *sort, const uint64 *words, int n)
{
	for (int i = 0; i < n; i++)
	{
		WordPart   *part = &sort->parts[words[i] >> sort->shift];

		if (part->end % BLOCK_WORDS == 0)
			sort_block(sort, part);
		sort->words[part->end++] = words[i];
	}
}

static void
sort_block(WordSort *sort, WordPart *part)
{
	uint32		block = ++sort->last;

	if (part->nblocks++ == 0)
		part->first = block;
	else
		sort->next[part->end / BLOCK_WORDS - 1] = block;
	part->end = (uint64) block * BLOCK_WORDS;
}

/*
 * Get the next words in order, valid until the next call; returns their number, 0 at the end
 */
static uint64
next_word_part(WordSort *sort, const uint64 **words)
{
	while (sort->at < sort->nparts)
	{
		const WordPart *part = &sort->parts[sort->at++];
		uint64		n;

		if (part->end == 0)
			continue;
		n = gather_part(sort, part);
		*words = sort_words(&sort->form, sort->scratch, sort->scratch + sort->room, n);
		return n;
	}
	return 0;
}

/*
 * Copy the words of a part, which must not be empty, to the memory for sorting; returns their
 * number
 */
static uint64
gather_part(WordSort *sort, const WordPart *part)
{
	uint64		room = (uint64) part->nblocks * BLOCK_WORDS;
	uint32		block = part->first;

	if (room > sort->room)
	{
		sort->room = room;
		sort->scratch = repalloc_huge(sort->scratch, sort->room * 2 * sizeof(uint64));
	}
	for (uint64 n = 0; n < room; n += BLOCK_WORDS)
	{
		memcpy(sort->scratch + n, sort->words + (uint64) block * BLOCK_WORDS,
			   BLOCK_WORDS * sizeof(uint64));
		block = sort->next[block];
	}
	return room - BLOCK_WORDS + (part->end - 1) % BLOCK_WORDS + 1;
}

/*
 * Sort words, using scratch of the same length; returns the array that has the result
 */
static uint64 *
sort_words(const GjWordForm *form, uint64 *words, uint64 *scratch, uint64 n)
{
	uint64		tids = ((uint64) 1 << form->tid_bits) - 1;
	bool		ascend = true;

	/* rows inserted by one session arrive in the order of their TIDs */
	for (uint64 i = 1; i < n && ascend; i++)
		ascend = (words[i - 1] & tids) <= (words[i] & tids);
	return radix_sort_above(words, scratch, n, ascend ? form->tid_bits : 0);
}
