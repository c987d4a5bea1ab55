/*-------------------------------------------------------------------------
 *
 * format.h
 *	  How an index lies on disk.
 *
 * An index is a small column store.  Its blocks are, in this order:
 *
 *	  0					metapage
 *	  1					journal: ring of block ranges that changed, with sequence
 *						numbers, from which a mirror learns what to take again
 *	  2 .. lanes + 1	tail pages, one a lane: rows that arrived last, (key, TID)
 *						side by side, a few dozen at most
 *	  first_data ..		data pages: an array of keys, an array of TIDs, an array for each
 *						INCLUDE column, a bitmap of used slots, a bitmap of NULLs for
 *						each INCLUDE column; the same number of slots on each, so that
 *						(block - first_data) * slots + slot is an entry's position
 *
 * Rows enter through a lane's tail page and move, a tail-full at a time, to free
 * slots of the lane's open data page.  After that an entry never moves.  NULL
 * keys are not stored.  am/insert.c says why, write.c has the lock order.
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
#define GJ_FORMAT_VERSION		1
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

/*
 * A data page is worth opening again when a sixteenth of it is free.  Less would
 * make every few rows cost a page switch, more would let free slots pile up.
 */
#define GjReusableSlots(info)	((info)->slots / 16)

/* The free space map counts bytes, up to less than a page, which is all slots */
#define GjSlotsToSpace(info, nslots) \
	((Size) (nslots) * (BLCKSZ - BLCKSZ / 8) / (info)->slots)

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
	GJ_PAGE_DATA
} GjPageKind;

/* GjPageOpaqueData.flags */
#define GJ_PAGE_OPEN			0x01	/* a lane fills this data page */

/* Special space of each page, 32 bytes */
typedef struct GjPageOpaqueData
{
	uint64		change;			/* metapage sequence of the last change; never
								 * goes back, also when the page is used anew */
	int64		min_key;		/* bounds of the keys put here since the page was */
	int64		max_key;		/* last empty; meaningless while used == 0 */
	uint16		used;			/* entries on this page */
	uint8		kind;			/* GjPageKind */
	uint8		flags;
	uint16		reserved;
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
} GjLane;

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

#endif							/* GPUJOIN_PAGES_FORMAT_H */
