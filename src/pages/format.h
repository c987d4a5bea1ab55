/*-------------------------------------------------------------------------
 *
 * format.h
 *	  The on-disk format of an index.
 *
 * An index is a log-structured column store.  Its entries, (key, TID, INCLUDE columns), are in
 * three places:
 *
 *	  tails		rows that arrived last, stored as rows, a few dozen per lane
 *	  deltas	data pages to which full tails are moved: unsorted, found by lists
 *	  runs		data pages with entries in the order of (key, TID), found by a directory: a base
 *				run, and a few small ones.  A run is never changed except by deletions.
 *
 * VACUUM folds: the delta's entries are sorted and become a run; occasionally all runs are
 * merged into one.  Then the cost of a search depends on its result: it reads the delta, and
 * those parts of the runs that may match.
 *
 * Blocks are, in this order:
 *
 *	  0					metapage
 *	  1					journal: ring of block ranges that changed, with sequence numbers, from
 *						which a mirror learns which blocks to copy again
 *	  2 .. lanes + 1	tail pages, one per lane
 *	  lanes + 2			tail page of NULL keys, if the index stores these
 *	  first_data ..		data pages, directory pages, list pages, in any order
 *
 * A data page has an array of keys, an array of TIDs, an array for each INCLUDE column, a bitmap
 * of used slots, a bitmap of NULLs for each INCLUDE column.  All plain data pages have the same
 * number of slots; a narrow page, of a run, has its own number, and arrays of offsets from a base
 * (narrow.c).
 *
 * From first_data on, each page carries the number of the run or delta that it belongs to (both
 * share one sequence of numbers, and no number is used twice).  The metapage lists the live runs
 * and deltas.  All other pages are free, although nothing on them shows it: thus one record, of
 * the metapage, publishes a new run and frees all pages that it replaces.  read.c has the rules.
 *
 * A key of 16 bytes is stored as a code and a rest (codec.c).  The rest is one more column behind
 * the INCLUDE columns, which the catalogs do not know, and which is never NULL.  An INCLUDE column
 * of 16 bytes is stored as two words; the second words are further columns, behind the rest.
 *
 * An index has two parts: one of the entries that have a key, one of those whose key is NULL.  Each
 * has tails, deltas and runs of its own, so no page, run or delta has entries of both, and an entry
 * never moves from one part to the other.  An entry of the second part has code 0 and rest 0.
 * Readers of one part read its lists only; what they have in common are the numbers of runs and
 * deltas, the counters, the journal, and the free pages.  Indexes of former releases have no second
 * part: there NULL keys are not stored.
 *
 * am/insert.c explains why rows are stored in tails first, write.c has the lock order.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PAGES_FORMAT_H
#define GPUJOIN_PAGES_FORMAT_H

#include "storage/bufpage.h"
#include "storage/itemptr.h"

#include "base/settings.h"

#define GJ_MAGIC				0x4A504721	/* "!GPJ" */
#define GJ_FORMAT_VERSION		4
#define GJ_FORMAT_PLAIN			3	/* with plain pages only */
#define GJ_OLDEST_FORMAT		2	/* an index of this format can be used: read.c */
#define GJ_PAGE_ID				0xFF91	/* last two bytes of each page, for pg_filedump */

#define GJ_META_BLOCK			0
#define GJ_JOURNAL_BLOCK		1
#define GJ_FIRST_TAIL_BLOCK		2

/* The slots of a data page come in multiples of a word of the used bitmap */
#define GJ_SLOTS_PER_WORD		32

/* Upper bound of the number of words in a used bitmap */
#define GJ_MAX_WORDS			(BLCKSZ / GJ_SLOTS_PER_WORD)

/*
 * Number of rows that a tail page takes before it is flushed.  A flush locks and logs three pages,
 * which is shared by this number of rows; each search reads all tails.
 */
#define GJ_TAIL_ROWS			64

#define GJ_DEFAULT_LANES		4
#define GJ_MIN_LANES			1
#define GJ_MAX_LANES			64

/* Key, TID and INCLUDE columns */
#define GJ_MAX_COLUMNS			(GJ_FIRST_INCLUDED + GJ_MAX_INCLUDED)

/* A row on a tail page: key, TID, values, a bit for each value that is NULL */
#define GJ_MAX_ROW_WIDTH \
	(sizeof(int64) + sizeof(ItemPointerData) + GJ_MAX_INCLUDED * sizeof(Datum) + \
	 (GJ_MAX_INCLUDED + 7) / 8)

/*
 * Support functions, see codec.c: of an operator class whose int8 tells the value, the conversion;
 * of others a hash function, one that returns an image of some values, and one that returns what
 * the code lacks to tell the value
 */
#define GJ_KEY_PROC				1
#define GJ_HASH_PROC			2
#define GJ_IMAGE_PROC			3
#define GJ_REST_PROC			4
#define GJ_NPROCS				4

/* The only strategy: equality (with the same number as for a btree, for familiarity) */
#define GJ_EQUAL_STRATEGY		1
#define GJ_NSTRATEGIES			1

typedef enum GjPageKind
{
	GJ_PAGE_META = 1,
	GJ_PAGE_JOURNAL,
	GJ_PAGE_TAIL,
	GJ_PAGE_DATA,				/* of a run or a delta */
	GJ_PAGE_DIRECTORY,			/* of a run */
	GJ_PAGE_LIST,				/* of a delta */
	GJ_PAGE_NARROW				/* data of a run, with a base and a width for each column */
} GjPageKind;

/* Runs and deltas have numbers from 1 up to this one; 0 means none */
#define GJ_MAX_RUN_NUMBER		((1 << 28) - 1)

/* The numbers that are drawn by the build of an index */
#define GJ_FIRST_DELTA			1
#define GJ_BASE_RUN				2
#define GJ_NULL_DELTA			3	/* of NULL keys */
#define GJ_NULL_RUN				4

/* Special space of each page, 32 bytes */
typedef struct GjPageOpaqueData
{
	uint64		change;			/* metapage sequence number of the last change; never decreases,
								 * even if the page is reused */
	int64		min_key;		/* bounds of the keys put here since the page was last empty; */
	int64		max_key;		/* meaningless while used == 0, and on tail pages */
	uint32		kind:4;			/* GjPageKind */
	uint32		run:28;			/* run or delta that the page belongs to; 0 before first_data */
	uint16		used;			/* number of entries on this page, or elements of a directory or
								 * list */
	uint16		page_id;		/* GJ_PAGE_ID */
} GjPageOpaqueData;

typedef GjPageOpaqueData *GjPageOpaque;

#define GjPageGetOpaque(page) ((GjPageOpaque) PageGetSpecialPointer(page))

/* A column's array on a data page */
typedef struct GjColumnDesc
{
	uint16		width;			/* bytes per value: 1, 2, 4, 8; 6 for the TIDs */
	uint16		offset;			/* of the array, from the start of the page */
	uint16		nulls_offset;	/* of the bitmap of NULLs; 0 if never NULL */
	uint16		flags;			/* what is stored: see below */
} GjColumnDesc;

/*
 * A column on a narrow page: each value is a base and an offset (narrow.c)
 */
typedef struct GjNarrowColumn
{
	int64		base;			/* least value; of the TIDs, the lowest block */
	uint16		offset;			/* of the array, from the start of the page */
	uint16		nulls_offset;	/* of the bitmap of NULLs; 0 if no value is NULL; of the key: of
								 * the bitmap of used slots */
	uint8		width;			/* bytes of an offset: 0 to 6, 8 */
	uint8		shift;			/* of the TIDs: bits of the offset number */
	uint16		slots;			/* of the TIDs: slots of the page */
} GjNarrowColumn;

#define GjPageGetNarrow(page) ((GjNarrowColumn *) PageGetContents(page))

/* Upper bound of the slots of a narrow page: an entry has nearly two bytes then */
#define GJ_MAX_SLOTS			Min(4096, BLCKSZ / 2)

/*
 * Kinds of columns, in the lower 4 bits of their flags.  The next 6 bits have the
 * display scale of numeric values, the upper 6 the scale of the stored integers: base/numeric.c.
 */
typedef enum GjColumnKind
{
	GJ_COLUMN_PLAIN,			/* a Datum, by value */
	GJ_COLUMN_NUMERIC,			/* an int64: a numeric, times a power of ten */
	GJ_COLUMN_WIDE_UUID,		/* the first of the two words of a uuid: wide.c */
	GJ_COLUMN_WIDE_TEXT,		/* the same of a text of at most 15 bytes */
	GJ_COLUMN_SECOND_WORD,		/* the second word of an attribute that has two */
	GJ_COLUMN_WIDE_BPCHAR		/* like GJ_COLUMN_WIDE_TEXT, without trailing blanks */
} GjColumnKind;

#define GJ_COLUMN_LAST_KIND		GJ_COLUMN_WIDE_BPCHAR

static inline bool
GjKindIsText(GjColumnKind kind)
{
	return kind == GJ_COLUMN_WIDE_TEXT || kind == GJ_COLUMN_WIDE_BPCHAR;
}

/*
 * Return true if an attribute of this kind has two words
 */
static inline bool
GjKindIsWide(GjColumnKind kind)
{
	return kind == GJ_COLUMN_WIDE_UUID || GjKindIsText(kind);
}

/*
 * Return true if an entry may lack the value of an attribute of this kind: then its word, or both,
 * are GJ_ABSENT
 */
static inline bool
GjKindMayLack(GjColumnKind kind)
{
	return kind == GJ_COLUMN_NUMERIC || GjKindIsText(kind);
}

#define GJ_MAX_COLUMN_SCALE		63

#define GJ_COLUMN_FLAGS(kind, display_scale, stored_scale) \
	((uint16) ((kind) | (display_scale) << 4 | (stored_scale) << 10))
#define GJ_COLUMN_KIND(flags)			((GjColumnKind) ((flags) & 0xF))
#define GJ_COLUMN_DISPLAY_SCALE(flags)	((flags) >> 4 & GJ_MAX_COLUMN_SCALE)
#define GJ_COLUMN_STORED_SCALE(flags)	((flags) >> 10 & GJ_MAX_COLUMN_SCALE)

#define GJ_KEY_COLUMN			0
#define GJ_TID_COLUMN			1
#define GJ_FIRST_INCLUDED		2

/* A lane: its tail is block GJ_FIRST_TAIL_BLOCK + lane */
typedef struct GjLane
{
	BlockNumber open_block;		/* data page being filled, or InvalidBlockNumber */
	uint32		run;			/* delta that the page belongs to */
} GjLane;

/* A run: everything except flags and dead is fixed when it is published */
typedef struct GjRun
{
	uint32		run;			/* its number */
	uint16		height;			/* number of directory levels, at least 1 */
	uint16		flags;
	uint64		published;		/* metapage sequence number at publication */
	uint64		entries;		/* number of entries at publication */
	uint64		dead;			/* number of these that were deleted since */
	int64		min_key;		/* bounds of its keys */
	int64		max_key;
	BlockNumber root;			/* of the directory */
	BlockNumber data_pages;
	BlockNumber directory_pages;
	uint32		most_slots;		/* of a page; 0 if its pages are plain */
} GjRun;

/* GjRun.flags */
#define GJ_RUN_SOURCE			0x0001	/* merge_run will replace it, and nothing else */

/*
 * Return the number of a run's entries that have not been deleted
 */
static inline uint64
GjRunCountAlive(const GjRun *run)
{
	return run->entries - run->dead;
}

/* A delta: data pages that lanes have filled or are filling */
typedef struct GjDelta
{
	uint32		run;			/* its number; 0 if it does not exist */
	BlockNumber head;			/* last list page; InvalidBlockNumber if it has none */
	BlockNumber data_pages;		/* number of elements in the lists */
	BlockNumber list_pages;
} GjDelta;

#define GJ_MAX_RUNS				16	/* the first one is the base, if any */
#define GJ_FORMAT_2_RUNS		8	/* of these, the ones that format 2 had room for */
#define GJ_MAX_NULL_RUNS		4	/* of NULL keys */

/* GjMetaPageData.flags */
#define GJ_META_HASHED_KEYS		0x0001	/* equal codes prove nothing: a match needs recheck */
#define GJ_META_RESTS			0x0002	/* the last column, of 8 bytes, has the keys' rests */
#define GJ_META_NULL_KEYS		0x0004	/* NULL keys are stored: the index has GjMetaNullData */
#define GJ_META_FLAGS			(GJ_META_HASHED_KEYS | GJ_META_RESTS | GJ_META_NULL_KEYS)	/* all
								 * that are known */

/*
 * Metapage contents, from PageGetContents() on; GjMetaMoreData follows the lanes, and
 * GjMetaNullData after it, if the flags say so
 */
typedef struct GjMetaPageData
{
	uint32		magic;
	uint32		version;
	uint64		build_id;		/* random, new for each build: identifies what a mirror has
								 * copied */
	uint64		sequence;		/* number of the last change to a data page */
	uint64		vacuum_epoch;	/* number of bulk deletions finished since the build */
	uint64		list_version;	/* incremented when pages are freed; compared by readers */
	uint64		journal_floor;	/* changes up to this one may have left the journal */
	uint32		journal_next;	/* ring index of the next journal entry */
	uint32		journal_used;	/* entries in the ring */
	BlockNumber journal_start;	/* first journal block */
	uint32		journal_blocks; /* number of journal blocks (1 in this version) */
	BlockNumber first_data;		/* first data page */
	BlockNumber min_blocks;		/* minimum length of the file: up to the last page in use */
	uint16		flags;
	uint16		slots;			/* slots of each plain data page */
	uint16		used_offset;	/* of the bitmap of used slots, from the start of the page */
	uint16		ncolumns;		/* used elements of columns[]: 2 plus the number of INCLUDE
								 * columns */
	uint16		tail_rows;		/* number of rows that a tail page takes */
	uint16		nlanes;
	uint16		nruns;			/* used elements of runs[] */
	uint16		reserved;
	uint32		next_run;		/* number of the next run or delta */
	uint32		fold_run;		/* run that is being written and not listed yet; 0 if none */
	GjDelta		delta;			/* the current delta, in which lanes open pages */
	GjDelta		previous;		/* the previous delta, which is being folded */
	GjRun		runs[GJ_FORMAT_2_RUNS]; /* see GjMetaGetRun() */
	GjColumnDesc columns[GJ_MAX_COLUMNS];
	GjLane		lanes[FLEXIBLE_ARRAY_MEMBER];
} GjMetaPageData;

typedef GjMetaPageData *GjMetaPage;

#define GjPageGetMeta(page) ((GjMetaPage) PageGetContents(page))

/*
 * Fields that format 3 added to the metapage, after the lanes.  An index of format 2 is used as it
 * is, until a fold appends these fields (publish.c).  pd_lower points after them.
 */
typedef struct GjMetaMoreData
{
	uint32		merge_run;		/* run that a merge is writing in steps; 0 if none */
	uint32		merge_reserved;
	uint64		merge_dead;		/* number of its entries that have been deleted already */
	uint64		hash_identity;	/* identifies the hash function; 0 if keys are no hashes */
	uint64		tracks_tails;	/* 1 if the index was built with empty_tails, or 0 */
	uint64		empty_tails;	/* a bit a lane, but for that of NULL keys: its tail has no rows */
	uint64		reserved[5];
	GjRun		runs[GJ_MAX_RUNS - GJ_FORMAT_2_RUNS];
} GjMetaMoreData;

typedef GjMetaMoreData *GjMetaMore;

/* From format 3 on */
#define GjMetaGetMore(meta) ((GjMetaMore) &(meta)->lanes[(meta)->nlanes])

/*
 * The part of NULL keys.  Only an index that is built with it, in format 4 or later, has it.
 */
typedef struct GjMetaNullData
{
	GjLane		lane;			/* its tail is the block after those of the other lanes */
	GjDelta		delta;			/* the current delta, */
	GjDelta		previous;		/* and the one that is being folded */
	uint32		nruns;
	uint32		reserved;
	GjRun		runs[GJ_MAX_NULL_RUNS];
} GjMetaNullData;

typedef GjMetaNullData *GjMetaNull;

#define GjMetaGetNulls(meta)	((GjMetaNull) (GjMetaGetMore(meta) + 1))

static inline bool
GjMetaHasNulls(const GjMetaPageData *meta)
{
	return (meta->flags & GJ_META_NULL_KEYS) != 0;
}

/* Bits of all tails but that of NULL keys, and those of tails that may have rows */
#define GjMetaAllTails(meta)	(PG_UINT64_MAX >> (GJ_MAX_LANES - (meta)->nlanes))
#define GjMetaUsedTails(meta) \
	(GjMetaTracksTails(meta) ? GjMetaAllTails(meta) & ~GjMetaGetMore(meta)->empty_tails : \
	 GjMetaAllTails(meta))

/* The format whose libraries keep these bits: it must not follow GJ_FORMAT_VERSION */
#define GJ_TAILS_FORMAT			4

/*
 * Return true if all who add rows to a tail keep the bits.  A session whose library knows only
 * older formats may have an older index open, even after a fold has turned that into one of format
 * 4; but it cannot open an index that was built with the bits.
 */
#define GjMetaTracksTails(meta) \
	((meta)->version >= GJ_TAILS_FORMAT && GjMetaGetMore(meta)->tracks_tails == 1)

/* Address after the contents of a metapage, which pd_lower points to */
#define GjMetaEnd(meta) \
	((char *) &(meta)->lanes[(meta)->nlanes] + \
	 ((meta)->version == GJ_OLDEST_FORMAT ? 0 : sizeof(GjMetaMoreData)) + \
	 (GjMetaHasNulls(meta) ? sizeof(GjMetaNullData) : 0))

/* A lane; the one of NULL keys comes after the others */
static inline GjLane *
GjMetaGetLane(GjMetaPageData *meta, int lane)
{
	return lane < meta->nlanes ? &meta->lanes[lane] : &GjMetaGetNulls(meta)->lane;
}

/* The current delta of a part, and the previous one */
static inline GjDelta *
GjMetaGetDelta(GjMetaPageData *meta, bool of_nulls)
{
	return of_nulls ? &GjMetaGetNulls(meta)->delta : &meta->delta;
}

static inline GjDelta *
GjMetaGetPrevious(GjMetaPageData *meta, bool of_nulls)
{
	return of_nulls ? &GjMetaGetNulls(meta)->previous : &meta->previous;
}

/*
 * Return an element of the list of runs, which has two parts
 */
static inline GjRun *
GjMetaGetRun(const GjMetaPageData *meta, int i)
{
	return i < GJ_FORMAT_2_RUNS ? (GjRun *) &meta->runs[i] :
		&GjMetaGetMore(meta)->runs[i - GJ_FORMAT_2_RUNS];
}

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
	BlockNumber end;			/* block after the last one */
	uint32		kind;			/* GjJournalKind */
	uint32		reserved;
} GjJournalEntry;

/* Fewer than would fit: generic WAL compares the whole ring for each new entry */
#define GJ_JOURNAL_ENTRIES		160

#define GjPageGetJournal(page) ((GjJournalEntry *) PageGetContents(page))

/*
 * Directory: a tree whose leaves list data pages, in order.  Element i is for the lower page
 * whose entries, or elements, begin with (keys[i], tids[i]).
 */
#define GJ_DIRECTORY_FANOUT		448

/* One more than the levels of a directory of all possible blocks */
#define GJ_MAX_HEIGHT			4

typedef struct GjDirectory
{
	uint16		level;			/* 0 if it lists data pages */
	uint16		reserved[3];
	int64		keys[GJ_DIRECTORY_FANOUT];
	BlockNumber blocks[GJ_DIRECTORY_FANOUT];
	ItemPointerData tids[GJ_DIRECTORY_FANOUT];
} GjDirectory;

#define GjPageGetDirectory(page) ((GjDirectory *) PageGetContents(page))

/* List of a delta's data pages; pd_lower points after the last element */
#define GJ_LIST_BLOCKS			2000

typedef struct GjList
{
	BlockNumber previous;		/* list page before this one, or InvalidBlockNumber */
	uint32		reserved;
	BlockNumber blocks[FLEXIBLE_ARRAY_MEMBER];
} GjList;

#define GjPageGetList(page) ((GjList *) PageGetContents(page))

/* Address after the last element */
#define GjListEnd(page) \
	((char *) &GjPageGetList(page)->blocks[GjPageGetOpaque(page)->used])

/* A build of PostgreSQL may have pages of another size than 8 kB: these do not fit smaller ones */
#define GJ_PAGE_ROOM \
	(BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(GjPageOpaqueData)))

StaticAssertDecl(offsetof(GjMetaPageData, lanes) + GJ_MAX_LANES * sizeof(GjLane) +
				 sizeof(GjMetaMoreData) + sizeof(GjMetaNullData) <= GJ_PAGE_ROOM,
				 "the metapage does not fit a page");
StaticAssertDecl(GJ_JOURNAL_ENTRIES * sizeof(GjJournalEntry) <= GJ_PAGE_ROOM,
				 "the journal does not fit a page");
StaticAssertDecl(sizeof(GjDirectory) <= GJ_PAGE_ROOM, "a directory does not fit a page");
StaticAssertDecl(offsetof(GjList, blocks) + GJ_LIST_BLOCKS * sizeof(BlockNumber) <= GJ_PAGE_ROOM,
				 "a list does not fit a page");

#endif							/* GPUJOIN_PAGES_FORMAT_H */
