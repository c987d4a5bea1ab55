/*-------------------------------------------------------------------------
 *
 * pages.h
 *	  The pages of an index: reading, checking and writing them; layout.h is about their values.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PAGES_H
#define GPUJOIN_PAGES_H

#include "access/tupdesc.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "storage/buf.h"
#include "storage/lock.h"
#include "utils/rel.h"

#include "base/numeric.h"
#include "base/settings.h"
#include "base/tid.h"
#include "format.h"
#include "layout.h"

/* The part of the metapage that changes, as of one moment */
typedef struct GjIndexState
{
	uint64		build_id;
	uint64		sequence;
	uint64		vacuum_epoch;
	uint64		journal_floor;
	uint64		list_version;
	uint32		next_run;
	uint32		fold_run;
	uint32		merge_run;
	uint64		merge_dead;
	uint16		format;			/* version of the metapage */
	uint64		used_tails;		/* one bit a lane of the part: its tail may have rows */
	int			nruns;			/* of one part of the index (format.h) */
	int			nall;			/* of both: the other ones follow */
	GjRun		runs[GJ_MAX_RUNS + GJ_MAX_NULL_RUNS];
	GjDelta		deltas[2];		/* the current one, the previous one; run is 0 if it does not
								 * exist */
	GjDelta		other_deltas[2];	/* those of the other part */
	BlockNumber min_blocks;
	BlockNumber open_blocks[GJ_MAX_LANES];	/* valid ones only */
	int			nopen;
} GjIndexState;

/* Counters of the metapage, as of one moment */
typedef struct GjIndexCounters
{
	uint64		build_id;
	uint64		sequence;
	uint64		vacuum_epoch;
	uint64		list_version;
	uint64		used_tails;		/* as in GjIndexState */
} GjIndexCounters;

/*
 * Return the number of pages with unsorted entries, except tails
 */
static inline uint64
GjStateUnsorted(const GjIndexState *state)
{
	return (uint64) (state->deltas[0].run != 0 ? state->deltas[0].data_pages : 0) +
		(state->deltas[1].run != 0 ? state->deltas[1].data_pages : 0);
}

/* Runs and two deltas of each part, the runs that a fold and a merge are writing */
#define GJ_MAX_ALIVE	(GJ_MAX_RUNS + GJ_MAX_NULL_RUNS + 6)

/*
 * The list that a page belongs to, according to a state that was read before the page.  The state
 * is of one part of the index: a reader of this part takes no page of the other one, and nobody
 * reuses it.
 */
typedef enum GjPageOwner
{
	GJ_OWNER_RUN,				/* a listed run */
	GJ_OWNER_DELTA,				/* the current delta or the previous one */
	GJ_OWNER_OTHER,				/* a listed run, or a delta, of the other part */
	GJ_OWNER_FOLD,				/* the run that a fold is writing */
	GJ_OWNER_MERGE,				/* the run that a merge is writing in steps */
	GJ_OWNER_NOBODY,			/* the page is free, and remains free until it is reused */
	GJ_OWNER_LATER				/* a run or delta that is younger than the state */
} GjPageOwner;

/*
 * Reads the data pages of a run, in order.  Directory pages, or elements of them, are copied, so
 * nothing is locked or pinned between two calls.
 */
typedef struct GjRunReader
{
	Relation	index;
	uint64		build_id;
	GjRun		run;
	bool		few;			/* single elements are copied, not pages */
	BlockNumber nblocks;		/* the run's pages are before this block */
	bool		moved;			/* true if a page did not belong to the run any more: the state is
								 * outdated */
	BlockNumber block;			/* current data page */
	GjPlace		first;			/* first entry of the current page */
	GjPlace		next;			/* first entry of the next page */
	bool		has_next;		/* false on the last page */
	/* private to run.c */
	struct GjDirectoryCopy *levels;	/* [height], from the leaves up */
} GjRunReader;

/* Number of pages that one WAL record has room for */
#define GJ_PAGES_PER_RECORD		4

/* Writes a run: private to run.c */
typedef struct GjRunWriter GjRunWriter;

/* Sorts rows by (key, TID): private to sort.c */
typedef struct GjRowSort GjRowSort;

/* Larger offsets do not occur: base/tid.h knows which TIDs are possible */
#define GJ_WORD_OFFSET_BITS		(MaxHeapTuplesPerPage < 512 ? 9 : 12)

StaticAssertDecl(MaxHeapTuplesPerPage < 1 << 12, "offsets fit their bits");

/* Form of entries as single words, which sort like (key, TID): am/foldsource.c */
typedef struct GjWordForm
{
	int64		min_key;
	uint64		range;			/* difference between the largest and the smallest key */
	int			tid_bits;		/* width of the TID, below the key */
} GjWordForm;

/* Numbers of pages, and of their slots, have this many bits in an entry's word */
#define GJ_ENTRY_SLOT_BITS		12
#define GJ_ENTRY_PAGES			16

StaticAssertDecl(GJ_MAX_SLOTS <= 1 << GJ_ENTRY_SLOT_BITS, "slots fit their bits");

/*
 * An entry on one of several pages.  Entries compare like (key, TID): the word has the TID, and
 * below it the number of the page, and the slot.
 */
typedef struct GjPageEntry
{
	int64		key;
	uint64		word;
} GjPageEntry;

#define GjEntryWord(tid, page, slot) \
	((tid) << 16 | (uint64) (page) << GJ_ENTRY_SLOT_BITS | (slot))
#define GjEntryTid(word)		((word) >> 16)
#define GjEntryPage(word)		((word) >> GJ_ENTRY_SLOT_BITS & (GJ_ENTRY_PAGES - 1))
#define GjEntrySlot(word)		((word) & (((uint64) 1 << GJ_ENTRY_SLOT_BITS) - 1))

/*
 * The journal, and the state of the index no later than the journal was read: it has the entries
 * of all changes up to state.sequence that are above floor.
 */
typedef struct GjIndexJournal
{
	GjIndexState state;
	uint64		floor;			/* changes up to this one may be missing */
	int			nentries;
	GjJournalEntry entries[GJ_JOURNAL_ENTRIES];
} GjIndexJournal;

/*
 * Return true if the page is all zeroes.  A crash between extending the index and initializing
 * the new page leaves such a page; it contains nothing.
 */
static inline bool
GjPageIsUnused(Page page)
{
	return PageIsNew(page);
}

/* Reloptions */
typedef struct GjOptions
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	int			lanes;
	bool		preload;		/* load its mirror after each start of the server */
	int			fold_pages;		/* GJ_NO_FOLD_PAGES if not set */
	int			numeric_scale;	/* of the next build; GJ_AUTO_SCALE if not set */
} GjOptions;

/* The option numeric_scale is not set: am/handler.c chooses the scales */
#define GJ_AUTO_SCALE			(-1)

/* The option fold_pages is not set: the setting gpujoin.fold_pages applies */
#define GJ_NO_FOLD_PAGES		(GJ_AUTO_FOLD_PAGES - 1)

/* layout.c: layout of columns in pages and rows */
extern bool GjColumnIsNumeric(const FormData_pg_attribute *attribute);
extern bool GjCanInclude(const FormData_pg_attribute *attribute);
extern uint16 GjColumnNewFlags(const FormData_pg_attribute *attribute);
extern bool GjLayoutMake(TupleDesc desc, bool has_rests, const uint16 *flags,
						 GjLayout *layout);
extern void GjRowForm(const GjIndexInfo *info, int64 key, int64 rest, const ItemPointerData *tid,
					  const Datum *values, const bool *isnull, char *row);
extern void GjRowFromSlot(Page page, const GjIndexInfo *info, int slot, char *row);

/* narrow.c: pages of runs, with a base and a width for each column */
extern void GjWideLayout(const GjIndexInfo *info, int slots, GjIndexInfo *wide);
extern void GjWideInit(Page image, const GjIndexInfo *wide, uint32 run);
extern void GjWideShift(Page image, const GjIndexInfo *wide, int n, int left);
extern void GjFrameInit(GjFrame *frame);
extern void GjFrameAdd(GjFrame *frame, Page image, const GjIndexInfo *wide, int first, int n);
extern void GjFrameUnite(GjFrame *frame, const GjFrame *other, int ncolumns);
extern int	GjRunsRoom(const GjIndexInfo *info, const GjIndexState *state, const bool *merged);
extern int	GjMeasuredRoom(const GjIndexInfo *info, const uint64 *pages);
extern bool GjNarrowIsPossible(const GjIndexInfo *info);
extern bool GjFrameFits(const GjFrame *frame, const GjIndexInfo *info, int n);
extern void GjNarrowMake(Page page, const GjFrame *frame, Page image, const GjIndexInfo *wide,
						 int n);
extern bool GjNarrowCheck(Page page, const GjIndexInfo *info);
extern void GjPlainDemand(Relation index, BlockNumber block, Page page);
extern void GjNarrowDemand(Relation index, BlockNumber block, Page page, const GjIndexInfo *info);
extern const char *GjDataGetKeys(Page page, const GjIndexInfo *info, int64 *widened);
extern void GjNarrowCopyTids(Page page, int first, int n, uint64 *tids);
extern void GjNarrowSplitTids(Page page, BlockNumber *blocks, OffsetNumber *offsets);
extern void GjNarrowGatherTids(Page page, const uint16 *slots, int n, uint64 *tids);
extern void GjNarrowCopy(Page page, int number, int width, int first, int n, char *values);
extern void GjNarrowGather(Page page, int number, int width, const uint16 *slots, int n,
						   char *values);
extern void GjNarrowWiden(Page page, Page image, const GjIndexInfo *wide);

/* Where a reader has plain images of narrow pages */
typedef struct GjWide
{
	GjIndexInfo info;
	Page		image;
	MemoryContext context;
} GjWide;

extern GjWide *GjWideCreate(const GjIndexInfo *info);
extern Page GjWideAlloc(const GjIndexInfo *wide, MemoryContext context);
extern void GjDataCopy(Relation index, BlockNumber block, Page page, const GjIndexInfo *info,
					   Page image, const GjIndexInfo *wide);
extern Page GjDataOpen(Relation index, BlockNumber block, Page page, const GjIndexInfo **info,
					   GjWide *wide);

/* wide.c: values of two words */
#define GJ_TEXT_BYTES			15	/* of the longest text that has words */
#define GJ_BPCHAR_BYTES			126 /* of the longest bpchar, with its trailing blanks */
#define GJ_TEXT_LENGTH_BITS		INT64CONST(0xFF)	/* bits of a text's second word */
#define GJ_WIDE_BYTES			16	/* of a value that is restored: a uuid, or a short varlena */

extern void GjWordsOfUuid(const char *bytes, int64 *words);
extern Datum GjWordOfUuid(Datum uuid, int word);
extern void GjUuidOfWords(int64 first, int64 second, char *bytes);
extern void GjWordsOfText(Datum text, bool is_bpchar, int64 *words);
extern void GjWordsOfTrimmed(Datum bpchar, int64 *words);
extern void GjTextOfWords(int64 first, int64 second, char *buffer);
extern void GjBpcharOfWords(int64 first, int64 second, char *buffer);
extern void GjReadWide(GjColumnKind kind, const char *firsts, const char *seconds, int n,
					   const uint16 *rows, char *bytes, Datum *values);
extern void GjPairIsEqual(const char *firsts, const char *seconds, int n, int64 first,
						  int64 second, int64 ignored, uint8 *pg_restrict results);

/* read.c: reading and checking pages */
extern void GjIndexGetInfo(Relation index, GjIndexInfo *info);
extern void GjIndexGetPart(Relation index, bool of_nulls, GjIndexState *state);
extern void GjIndexGetState(Relation index, GjIndexState *state);
extern void GjIndexGetCounters(Relation index, GjIndexCounters *counters);
extern void GjIndexGetJournal(Relation index, GjIndexJournal *journal);
extern BlockNumber GjIndexGetLength(Relation index);
extern void GjMetaCheck(Relation index, Buffer metabuf);
extern void GjMetaCheckLanes(Relation index, const GjMetaPageData *meta);
extern void GjPageCheck(Relation index, Buffer buffer, GjPageKind kind);
extern GjPageKind GjPageCheckKind(Relation index, Buffer buffer);
extern void GjReportCorruption(Relation index, BlockNumber block, const char *detail)
			__attribute__((noreturn));
extern BlockNumber GjLaneGetOpenBlock(Relation index, int lane, uint32 *run);

/* write.c: empty pages, and new indexes that other processes cannot see */
extern void GjPageInit(Page page, GjPageKind kind, uint32 run);
extern void GjDataInit(Page page, const GjIndexInfo *info, uint32 run);
extern void GjIndexInitFork(Relation index, ForkNumber fork, uint64 build_id, int nlanes,
							const uint16 *flags);
extern void GjIndexAddPage(Relation index, ForkNumber fork, Page image);
extern void GjIndexNoteBuilt(Relation index, const GjRun *run, const GjRun *null_run);
extern void GjIndexLogFork(Relation index, ForkNumber fork);

/* write.c: changes to pages, and their WAL */
extern void GjDataPut(Page page, const GjIndexInfo *info, int slot, const char *row);
extern void GjTailAppend(Relation index, const GjIndexInfo *info, Buffer tail,
						 const char *row);
extern void GjTailFlush(Relation index, const GjIndexInfo *info, Buffer tail, Buffer data);
extern bool GjLaneSwitch(Relation index, const GjIndexInfo *info, int lane, Buffer new_data,
						 Buffer list);
extern bool GjListAdd(Relation index, bool of_nulls, Buffer new_list, const GjDelta *delta);
extern void GjTailDelete(Relation index, const GjIndexInfo *info, Buffer tail,
						 const uint32 *dead);
extern void GjDataDelete(Relation index, const GjIndexInfo *info, Buffer data,
						 const uint32 *dead);
extern void GjMergeDelete(Relation index, const GjIndexInfo *info, Buffer data,
						  const uint32 *dead);
extern void GjEpochRaise(Relation index);

/* read.c: which pages hold the index's entries, and whether they still do */
extern GjPageOwner GjPageGetOwner(const GjIndexState *state, Page page);
extern int	GjListsGetAlive(const GjIndexState *state, uint32 *numbers);
extern uint64 GjListsCountFree(const GjIndexState *state, const GjIndexInfo *info,
							   BlockNumber length);
extern bool GjDeltaGetBlocks(Relation index, const GjIndexState *state, BlockNumber **blocks,
							 BlockNumber *nblocks);
extern void GjDeltaGetLists(Relation index, const GjDelta *delta, BlockNumber *blocks);

/* run.c: finding a key in a run */
extern void GjRunReaderBegin(GjRunReader *reader, Relation index, const GjIndexState *state,
							 const GjRun *run, bool few);
extern bool GjRunReaderSeek(GjRunReader *reader, const GjPlace *place);
extern bool GjRunReaderNext(GjRunReader *reader);
extern void GjRunReaderEnd(GjRunReader *reader);
extern bool GjRunFindPage(Relation index, const GjRun *run, const GjPlace *place, uint64 *number,
						  int64 *key);
extern bool GjRunGetBlocks(Relation index, const GjRun *run, BlockNumber *blocks);

/* directory.c: pages of directories that a process keeps */
extern const GjDirectory *GjDirectoryRecall(Relation index, uint64 build_id, uint32 run,
											BlockNumber block, int *n);
extern void GjDirectoryKeep(Relation index, uint64 build_id, uint32 run, BlockNumber block,
							const GjDirectory *directory, int n);

/* run.c: writing a run from sorted rows */
extern void GjRunWriterBind(GjRunWriter *writer, const GjIndexState *state, const bool *merged);
extern void GjRunWriterMeasure(GjRunWriter *writer, GjRowSort *sort);
extern GjRunWriter *GjRunWriterBegin(Relation index, const GjIndexInfo *info, uint32 run,
									 uint64 change, bool building);
extern void GjRunWriterAdd(GjRunWriter *writer, const char *row);
extern void GjRunWriterAddEntries(GjRunWriter *writer, const Page *pages,
								  const GjIndexInfo *from, const GjPageEntry *entries, int n,
								  bool has_nulls);
extern void GjRunWriterAddWords(GjRunWriter *writer, const GjWordForm *form, const uint64 *words,
								int n);
extern bool GjRunWriterPause(GjRunWriter *writer, GjPlace *last);
extern void GjRunWriterContinue(GjRunWriter *writer, Relation index, uint64 change);
extern BlockNumber GjRunWriterEnd(GjRunWriter *writer, GjRun *run);

/* publish.c: the list of runs and deltas of an index */
extern void GjRunPagesWrite(Relation index, const Buffer *buffers, const PGAlignedBlock *images,
							int n);
extern void GjFoldForget(Relation index);
extern void GjDeltaRotate(Relation index, bool of_nulls);
extern bool GjLaneClose(Relation index, int lane);
extern uint32 GjFoldBegin(Relation index, uint64 *change);
extern void GjRunsPublish(Relation index, bool of_nulls, const GjRun *runs, int nruns,
						  BlockNumber end, bool folded);
extern uint32 GjMergeAnnounce(Relation index, const bool *is_source);
extern uint64 GjMergeDrawChange(Relation index);
extern void GjMergePublish(Relation index, const GjRun *run, BlockNumber end);
extern void GjMergeForget(Relation index);

/* sort.c: sorting rows */
extern GjRowSort *GjRowSortBegin(const GjIndexInfo *info, Size memory);
extern void GjRowSortAdd(GjRowSort *sort, const char *row);
extern void GjRowSortAddPage(GjRowSort *sort, Page page);
extern void GjRowSortPerform(GjRowSort *sort);
extern void GjRowSortRewind(GjRowSort *sort);
extern const char *GjRowSortNext(GjRowSort *sort);
extern uint64 GjRowSortSkip(GjRowSort *sort, uint64 n, int part);
extern void GjRowSortEnd(GjRowSort *sort);

/* codec.c: conversion of values to the integers that are compared */
typedef enum GjCodecKind
{
	GJ_CODEC_INT4,				/* the bits of a Datum that is an int32, */
	GJ_CODEC_INT8,				/* or an int64 */
	GJ_CODEC_KEY,				/* what support function 1 returns */
	GJ_CODEC_HASH,				/* an image, or the hash that support function 2 returns */
	GJ_CODEC_UUID,				/* the upper half of a uuid, mixed with its rest, the lower one */
	GJ_CODEC_TEXT				/* a text packed into code and rest; if it cannot be, a hash */
} GjCodecKind;

typedef struct GjCodec
{
	GjCodecKind kind;
	bool		keeps_value;	/* the code is the value's own bits, so the value can be restored */
	bool		hashes_bytes;	/* the hash is that of a text's bytes */
	Oid			collation;
	FmgrInfo	proc;			/* support function 1, or 2; of a uuid 4 */
	FmgrInfo	image;			/* support function 3, if it is used */
	MemoryContext scratch;		/* for what these leave behind; NULL until it is needed */
} GjCodec;

extern bool GjCodecInit(GjCodec *codec, Oid family, Oid type, Oid collation, bool has_rests);
extern bool GjCodecHasRests(Oid family, Oid type);
extern void GjCodecInitIndex(GjCodec *codec, Relation index);
extern uint64 GjCodecIdentity(Relation index, bool *has_rests);
extern bool GjClassIsOfType(Oid class_type, Oid column_type);
extern int64 GjCodeCompute(GjCodec *codec, Datum value);
extern int64 GjPairCompute(GjCodec *codec, Datum value, int64 *rest);
extern void GjPairsOfUuids(const char *uuids, int n, int64 *codes, int64 *rests);
extern Datum GjProofOf(GjCodec *codec, int64 code, Datum value);
extern void GjUuidOfPair(int64 code, int64 rest, char *bytes);
extern int64 GjWordOfPair(int64 code, int64 rest, int word);

/*
 * Restore the bytes of a uuid from the words of a column of the index, from 0
 */
static inline void
GjUuidOfColumn(int column, int64 first, int64 second, char *bytes)
{
	if (column == 0)
		GjUuidOfPair(first, second, bytes);
	else
		GjUuidOfWords(first, second, bytes);
}

/* idtext.c: texts as a code and a rest */
#define GJ_IDTEXT_MAX			36	/* length of the longest text that is packed */

extern bool GjIdTextPack(const char *bytes, int length, int64 *code, int64 *rest);
extern int	GjIdTextUnpack(int64 code, int64 rest, char *bytes);

/*
 * Mix the bits of a word.  The results are on disk, so tables in memory have functions of their
 * own.
 */
static inline uint64
GjMixStored(uint64 h)
{
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	return h ^ (h >> 32);
}

/*
 * Return true if the index stores rests beside its codes
 */
static inline bool
GjCodecHasPairs(const GjCodec *codec)
{
	return codec->kind == GJ_CODEC_UUID || codec->kind == GJ_CODEC_TEXT;
}

/*
 * Return true if a value with this code has a rest, as all have but texts whose code is a hash
 */
static inline bool
GjCodeHasRest(const GjCodec *codec, int64 code)
{
	return codec->kind == GJ_CODEC_UUID || (codec->kind == GJ_CODEC_TEXT && !GjCodeIsHash(code));
}

/*
 * Return true if codes can be hashes, so that an entry that has one is no proof of a row
 */
static inline bool
GjCodecMayHash(const GjCodec *codec)
{
	return codec->kind == GJ_CODEC_HASH || codec->kind == GJ_CODEC_TEXT;
}

/*
 * Return true if a code proves nothing, or if it has a rest that must be compared, too
 */
static inline bool
GjCodeNeedsProof(const GjCodec *codec, int64 code)
{
	return GjCodecHasPairs(codec) || (codec->kind == GJ_CODEC_HASH && GjCodeIsHash(code));
}

/*
 * Convert a value to its code.  This is called for each row that a query processes, so the work
 * for the common types is done here.
 */
static inline int64
GjCodeOf(GjCodec *codec, Datum value)
{
	if (codec->kind == GJ_CODEC_INT4)
		return DatumGetInt32(value);
	if (codec->kind == GJ_CODEC_INT8)
		return DatumGetInt64(value);
	return GjCodeCompute(codec, value);
}

/*
 * Return the code of a value, and its rest, which is 0 if the codec has none
 */
static inline int64
GjPairOf(GjCodec *codec, Datum value, int64 *rest)
{
	if (GjCodecHasPairs(codec))
		return GjPairCompute(codec, value, rest);
	*rest = 0;
	return GjCodeOf(codec, value);
}

/*
 * Return the code of a value, and what tells it from other values of that code
 */
static inline int64
GjCodeAndProof(GjCodec *codec, Datum value, Datum *proof)
{
	int64		rest;
	int64		code = GjPairOf(codec, value, &rest);

	*proof = GjCodeHasRest(codec, code) ? Int64GetDatum(rest) : value;
	return code;
}

/* request.c: asking for a background worker that folds; locks of folds, merges and workers */
typedef enum GjFoldLockKind
{
	GJ_LOCK_WORKER = 1,			/* held by the worker of an index */
	GJ_LOCK_NUMBER,				/* held by the worker that has a number */
	GJ_LOCK_MERGE,				/* held by a process that merges runs of an index */
	GJ_LOCK_FOLD				/* the fold lock of an index */
} GjFoldLockKind;

/*
 * Return true if the worker that has this number merges: of several, one is left for flushes
 */
static inline bool
GjFoldNumberMerges(int number)
{
	return number > 0 || gj_fold_workers == 1;
}

extern bool GjFoldRequest(Relation index, const GjIndexState *state, int factor);
extern void GjFoldRepeat(bool at_once);
extern bool GjFoldNumberIsWanted(void);
extern void GjFoldTag(GjFoldLockKind kind, uint32 index_or_number, LOCKTAG *tag);
extern bool GjFoldHasWorker(Relation index);
extern bool GjDatabaseIsWanted(void);

/* index.c: recognizing gpujoin indexes, and their options */
extern bool GjRelationIsIndex(Relation rel);
extern bool GjIndexIsPreloaded(Relation index);
extern BlockNumber GjIndexFoldPages(Relation index);
extern List *GjListIndexes(Oid index_oid);
extern List *GjListManagedIndexes(Oid index_oid);
extern Relation GjOpenManagedIndex(Oid index_oid);
extern void GjOptionsInit(void);
extern bytea *gjoptions(Datum reloptions, bool validate);

/*
 * Return true if pages have been freed since the state was read
 */
static inline bool
GjListsMoved(Relation index, const GjIndexState *state)
{
	GjIndexCounters now;

	GjIndexGetCounters(index, &now);
	return now.list_version != state->list_version || now.build_id != state->build_id;
}

/*
 * Return true if a merge in steps reads this run: then nothing else may merge or drop it
 */
static inline bool
GjRunIsSource(const GjRun *run)
{
	return (run->flags & GJ_RUN_SOURCE) != 0;
}

/*
 * Return the width of a stored key in bytes: that of the operator class's storage type
 */
static inline int
GjIndexKeyWidth(Relation index)
{
	return TupleDescAttr(RelationGetDescr(index), 0)->attlen;
}

#endif							/* GPUJOIN_PAGES_H */
