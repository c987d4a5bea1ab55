/*-------------------------------------------------------------------------
 *
 * format.h
 *	  How an index lies on disk.
 *
 * An index is a log-structured column store.  Its entries, (key, TID, INCLUDE columns), are
 * in three places:
 *
 *	  tails		rows that arrived last, side by side, a few dozen a lane
 *	  deltas	data pages to which full tails are moved: unsorted, found by lists
 *	  runs		data pages with entries in the order of (key, TID), found by a directory:
 *				a base run, and a few small ones.  A run is never changed but by deletions.
 *
 * VACUUM folds: what the delta has is sorted and becomes a run; now and then all runs become
 * one.  The cost of a search follows its answer then: it reads the delta, and of the runs
 * what may match.
 *
 * Blocks are, in this order:
 *
 *	  0					metapage
 *	  1					journal: ring of block ranges that changed, with sequence
 *						numbers, from which a mirror learns what to take again
 *	  2 .. lanes + 1	tail pages, one a lane
 *	  first_data ..		data pages, directory pages, list pages, as they come
 *
 * A data page has an array of keys, an array of TIDs, an array for each INCLUDE column, a bitmap
 * of used slots, a bitmap of NULLs for each INCLUDE column; the same number of slots on each,
 * so that (block - first_data) * slots + slot is an entry's position.
 *
 * From first_data on each page carries the number of the run or delta that it belongs to
 * (both are numbered alike, and no number is used twice).  The metapage lists those that live.
 * All other pages are free, though nothing on them says so: thus one record, of the metapage,
 * publishes a new run and frees all that it replaces.  read.c has the rules.
 *
 * NULL keys are not stored.  am/insert.c says why rows come through tails, write.c has the
 * lock order.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PAGES_FORMAT_H
#define GPUJOIN_PAGES_FORMAT_H

#include "storage/bufpage.h"
#include "storage/itemptr.h"

#include "base/gpujoin.h"

#define GJ_MAGIC				0x4A504721	/* "!GPJ" */
#define GJ_FORMAT_VERSION		2
#define GJ_PAGE_ID				0xFF91	/* last two bytes of each page, for pg_filedump */

#define GJ_META_BLOCK			0
#define GJ_JOURNAL_BLOCK		1
#define GJ_FIRST_TAIL_BLOCK		2

/* Slots of a data page come in words of the used bitmap */
#define GJ_SLOTS_PER_WORD		32

/* More words than the used bitmap of any page has */
#define GJ_MAX_WORDS			(BLCKSZ / GJ_SLOTS_PER_WORD)

/*
 * Rows a tail page takes before it is flushed.  Generic WAL compares a whole
 * page byte by byte (about 1 ns a byte): n rows cost n/2 row widths each insert,
 * plus one full data page compare shared by n inserts.  The sum is flat between
 * 50 and 80 rows.
 */
#define GJ_TAIL_ROWS			64

#define GJ_DEFAULT_LANES		4
#define GJ_MIN_LANES			1
#define GJ_MAX_LANES			64

/* Key, TID and INCLUDE columns */
#define GJ_MAX_COLUMNS			(GJ_FIRST_INCLUDED + GJ_MAX_INCLUDED)

/* A row as it stands on a tail page: key, TID, values, a bit for each that is NULL */
#define GJ_MAX_ROW_WIDTH \
	(sizeof(int64) + sizeof(ItemPointerData) + GJ_MAX_INCLUDED * sizeof(Datum) + \
	 (GJ_MAX_INCLUDED + 7) / 8)

/* Support function: value of the key's type -> int8 by which keys are compared */
#define GJ_KEY_PROC				1
#define GJ_NPROCS				1

/* The only strategy: equality (the same number as a btree's, for familiarity) */
#define GJ_EQUAL_STRATEGY		1
#define GJ_NSTRATEGIES			1

typedef enum GjPageKind
{
	GJ_PAGE_META = 1,
	GJ_PAGE_JOURNAL,
	GJ_PAGE_TAIL,
	GJ_PAGE_DATA,				/* of a run or a delta */
	GJ_PAGE_DIRECTORY,			/* of a run */
	GJ_PAGE_LIST				/* of a delta */
} GjPageKind;

/* Runs and deltas have numbers from 1 on, up to this one; 0: none */
#define GJ_MAX_RUN_NUMBER		((1 << 28) - 1)

/* Special space of each page, 32 bytes */
typedef struct GjPageOpaqueData
{
	uint64		change;			/* metapage sequence of the last change; never
								 * goes back, also when the page is used anew */
	int64		min_key;		/* bounds of the keys put here since the page was */
	int64		max_key;		/* last empty; meaningless while used == 0 */
	uint32		kind:4;			/* GjPageKind */
	uint32		run:28;			/* which run or delta the page is of; 0 before first_data */
	uint16		used;			/* entries on this page; elements of a directory or list */
	uint16		page_id;		/* GJ_PAGE_ID */
} GjPageOpaqueData;

typedef GjPageOpaqueData *GjPageOpaque;

#define GjPageGetOpaque(page) ((GjPageOpaque) PageGetSpecialPointer(page))

/* One column array of a data page: where it stands in the page */
typedef struct GjColumnDesc
{
	uint16		width;			/* bytes a value: 1, 2, 4, 8; 6 for the TIDs */
	uint16		offset;			/* of the array, from the start of the page */
	uint16		nulls_offset;	/* of the bitmap of NULLs; 0: never NULL */
	uint16		flags;			/* none defined yet */
} GjColumnDesc;

#define GJ_KEY_COLUMN			0
#define GJ_TID_COLUMN			1
#define GJ_FIRST_INCLUDED		2

/* A lane: its tail is block GJ_FIRST_TAIL_BLOCK + lane */
typedef struct GjLane
{
	BlockNumber open_block;		/* data page being filled, or InvalidBlockNumber */
	uint32		run;			/* the delta that it belongs to */
} GjLane;

/* A run: all of this is fixed when it is published, but for dead */
typedef struct GjRun
{
	uint32		run;			/* its number */
	uint16		height;			/* levels of the directory, 1 at least */
	uint16		flags;			/* none defined yet */
	uint64		published;		/* metapage sequence when it was */
	uint64		entries;		/* that it had then */
	uint64		dead;			/* of these, deleted since */
	int64		min_key;		/* bounds of its keys */
	int64		max_key;
	BlockNumber root;			/* of the directory */
	BlockNumber data_pages;
	BlockNumber directory_pages;
	uint32		reserved;
} GjRun;

/* A delta: data pages that lanes have filled or are filling */
typedef struct GjDelta
{
	uint32		run;			/* its number; 0: there is none */
	BlockNumber head;			/* last list page; InvalidBlockNumber: none yet */
	BlockNumber data_pages;		/* that the lists have */
	BlockNumber list_pages;
} GjDelta;

#define GJ_MAX_RUNS				8	/* runs[0] is the base, if there is any */

/* GjMetaPageData.flags */
#define GJ_META_HASHED_KEYS		0x0001	/* keys are hashes: a match needs recheck */

/* Metapage contents, from PageGetContents() on; pd_lower ends behind the lanes */
typedef struct GjMetaPageData
{
	uint32		magic;
	uint32		version;
	uint64		build_id;		/* random, new at each build: what a mirror mirrors */
	uint64		sequence;		/* number of the last change to a data page */
	uint64		vacuum_epoch;	/* bulk deletions finished since the build */
	uint64		list_version;	/* raised when pages are freed: what a reader compares */
	uint64		journal_floor;	/* changes up to this one may have left the journal */
	uint32		journal_next;	/* ring index of the next journal entry */
	uint32		journal_used;	/* entries in the ring */
	BlockNumber journal_start;	/* first journal block */
	uint32		journal_blocks; /* how many (1 in this version) */
	BlockNumber first_data;		/* first data page */
	BlockNumber min_blocks;		/* the file is not shorter: behind the last page in use */
	uint16		flags;
	uint16		slots;			/* slots of each data page */
	uint16		used_offset;	/* bitmap of used slots, from the start of the page */
	uint16		ncolumns;		/* used elements of columns[]: 2, and INCLUDE columns */
	uint16		tail_rows;		/* rows a tail page takes */
	uint16		nlanes;
	uint16		nruns;			/* used elements of runs[] */
	uint16		reserved;
	uint32		next_run;		/* number of the next run or delta */
	uint32		fold_run;		/* run that is being written, not listed yet; 0: none */
	GjDelta		delta;			/* the current one, into which lanes open pages */
	GjDelta		previous;		/* the one before, which is being folded */
	GjRun		runs[GJ_MAX_RUNS];
	GjColumnDesc columns[GJ_MAX_COLUMNS];
	GjLane		lanes[FLEXIBLE_ARRAY_MEMBER];
} GjMetaPageData;

typedef GjMetaPageData *GjMetaPage;

#define GjPageGetMeta(page) ((GjMetaPage) PageGetContents(page))

/* Journal: entries from PageGetContents() on, a ring in the order of sequence */
typedef enum GjJournalKind
{
	GJ_JOURNAL_OPENED = 1,		/* blocks opened for insertion */
	GJ_JOURNAL_DELETED			/* blocks that lost entries */
} GjJournalKind;

typedef struct GjJournalEntry
{
	uint64		sequence;		/* of the last change that this entry covers */
	BlockNumber start;			/* first block */
	BlockNumber end;			/* behind the last block */
	uint32		kind;			/* GjJournalKind */
	uint32		reserved;
} GjJournalEntry;

/* Fewer than fit: generic WAL compares the whole ring at each new entry */
#define GJ_JOURNAL_ENTRIES		160

#define GjPageGetJournal(page) ((GjJournalEntry *) PageGetContents(page))

/*
 * Directory: a tree whose leaves name data pages, in order.  Element i is of the page below
 * whose entries, or elements, begin with (keys[i], tids[i]).
 */
#define GJ_DIRECTORY_FANOUT		448

/* More levels than a directory of all blocks that there can be */
#define GJ_MAX_HEIGHT			4

typedef struct GjDirectory
{
	uint16		level;			/* 0: names data pages */
	uint16		reserved[3];
	int64		keys[GJ_DIRECTORY_FANOUT];
	BlockNumber blocks[GJ_DIRECTORY_FANOUT];
	ItemPointerData tids[GJ_DIRECTORY_FANOUT];
} GjDirectory;

#define GjPageGetDirectory(page) ((GjDirectory *) PageGetContents(page))

/* List of a delta's data pages; pd_lower ends behind the last element */
#define GJ_LIST_BLOCKS			2000

typedef struct GjList
{
	BlockNumber previous;		/* list page before this one, or InvalidBlockNumber */
	uint32		reserved;
	BlockNumber blocks[FLEXIBLE_ARRAY_MEMBER];
} GjList;

#define GjPageGetList(page) ((GjList *) PageGetContents(page))

/* Behind the last element */
#define GjListEnd(page) \
	((char *) &GjPageGetList(page)->blocks[GjPageGetOpaque(page)->used])

#endif							/* GPUJOIN_PAGES_FORMAT_H */
