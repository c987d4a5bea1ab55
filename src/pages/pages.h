/*-------------------------------------------------------------------------
 *
 * pages.h
 *	  The gpujoin index access method: on-disk format and prototypes.
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
 * keys are not stored.  Why this is so, and the lock order: src/README.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PAGES_H
#define GPUJOIN_PAGES_H

#include "access/amapi.h"
#include "access/itup.h"
#include "access/tupdesc.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "nodes/pathnodes.h"
#include "storage/bufpage.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

/* Format ------------------------------------------------------------------ */

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

/* Key, TID and up to 30 INCLUDE columns */
#define GJ_MAX_COLUMNS			32
#define GJ_MAX_INCLUDED			(GJ_MAX_COLUMNS - GJ_FIRST_INCLUDED)

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

/* Phases of a build, in pg_stat_progress_create_index */
#define GJ_PHASE_LOADING		2
#define GJ_PHASE_LOGGING		3

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

/* In memory ------------------------------------------------------------------ */

/* What follows from the types of an index's columns: see layout.c */
typedef struct GjLayout
{
	uint16		slots;
	uint16		used_offset;
	uint16		end;			/* of the arrays: pd_lower */
	uint16		row_width;		/* of a tail row */
	uint16		ncolumns;
	GjColumnDesc columns[GJ_MAX_COLUMNS];
} GjLayout;

/* An INCLUDE column: its arrays on a data page, its value in a tail row */
typedef struct GjIncludedColumn
{
	uint16		width;			/* 1, 2, 4 or 8 */
	uint16		offset;
	uint16		nulls_offset;	/* a bit a slot, set: NULL, and the value is 0 */
	uint16		row_offset;
} GjIncludedColumn;

/*
 * What of the metapage stands still between two builds.  A copy is kept in
 * rd_amcache, which any relcache invalidation may free: so callers get a copy.
 * Offsets are from the start of a page.
 */
typedef struct GjIndexInfo
{
	uint64		build_id;
	BlockNumber first_data;
	uint16		slots;
	uint16		words;			/* of the used bitmap: slots / 32 */
	uint16		key_width;		/* 4 or 8 */
	uint16		row_width;		/* of a tail row */
	uint16		row_nulls_offset;	/* in a tail row: a bit a column, set: NULL */
	uint16		keys_offset;
	uint16		tids_offset;
	uint16		used_offset;
	uint16		arrays_end;
	uint16		tail_rows;
	uint16		nlanes;
	bool		hashed;
	uint16		nincluded;
	GjIncludedColumn included[GJ_MAX_INCLUDED];
} GjIndexInfo;

/* What changes, read at one moment */
typedef struct GjIndexState
{
	uint64		build_id;
	uint64		sequence;
	uint64		vacuum_epoch;
	uint64		journal_floor;
	BlockNumber min_blocks;
	BlockNumber open_blocks[GJ_MAX_LANES];	/* valid ones only */
	int			nopen;
} GjIndexState;

/*
 * The journal, and the state of the index at a moment not later than it was read:
 * it has the entries of all changes up to state.sequence that are above floor.
 */
typedef struct GjIndexJournal
{
	GjIndexState state;
	uint64		floor;			/* changes up to this one may be missing */
	int			nentries;
	GjJournalEntry entries[GJ_JOURNAL_ENTRIES];
} GjIndexJournal;

/* Array access on a data page that was checked by GjPageCheck() */
#define GjDataKeys(page, info)	((char *) (page) + (info)->keys_offset)
#define GjDataTids(page, info)	((ItemPointerData *) ((char *) (page) + (info)->tids_offset))
#define GjDataUsed(page, info)	((uint32 *) ((char *) (page) + (info)->used_offset))

/* Array and bitmap of an INCLUDE column */
#define GjDataValues(page, column)	((char *) (page) + (column)->offset)
#define GjDataNulls(page, column)	((uint32 *) ((char *) (page) + (column)->nulls_offset))

#define GjSlotBit(slot)			((uint32) 1 << ((slot) % GJ_SLOTS_PER_WORD))

/* Row access on a tail page: key at the row's start, TID behind it; unaligned */
#define GjTailRow(page, info, i) \
	((char *) PageGetContents(page) + (Size) (i) * (info)->row_width)

/* Reloptions */
typedef struct GjOptions
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	int			lanes;
	bool		preload;		/* mirror it after each start of the server */
} GjOptions;

/* predicate.c */
extern void GjPredicateLock(Relation index, Snapshot snapshot);

/* index.c */
extern Relation GjOpenManagedIndex(Oid index_oid);

/* layout.c: where columns stand in pages and rows */
extern void GjCheckIncluded(Relation index);
extern bool GjLayoutMake(TupleDesc desc, GjLayout *layout);
extern void GjLayoutDescribe(const GjMetaPageData *meta, GjIndexInfo *info);
extern int	GjRowWidth(TupleDesc desc);
extern void GjRowForm(const GjIndexInfo *info, int64 key, const ItemPointerData *tid,
					  const Datum *values, const bool *isnull, char *row);
extern int64 GjRowGetKey(const GjIndexInfo *info, const char *row, ItemPointer tid);
extern void GjRowFromSlot(Page page, const GjIndexInfo *info, int slot, char *row);

/* read.c: reading and checking pages */
extern void GjIndexGetInfo(Relation index, GjIndexInfo *info);
extern void GjIndexGetState(Relation index, GjIndexState *state);
extern void GjIndexGetJournal(Relation index, GjIndexJournal *journal);
extern BlockNumber GjIndexGetLength(Relation index);
extern void GjMetaCheck(Relation index, Buffer metabuf);
extern void GjPageCheck(Relation index, Buffer buffer, GjPageKind kind);
extern bool GjPageIsUnused(Page page);
extern void GjReportCorruption(Relation index, BlockNumber block, const char *detail)
			__attribute__((noreturn));
extern BlockNumber GjLaneGetOpenBlock(Relation index, int lane);
extern int64 GjTailGetRow(Page page, const GjIndexInfo *info, int row, ItemPointer tid);
extern int64 GjDataGetKey(Page page, const GjIndexInfo *info, int slot);

/* write.c: all page writes, all WAL */
extern void GjDataInit(Page page, const GjIndexInfo *info);
extern void GjIndexInitFork(Relation index, ForkNumber fork, uint64 build_id, int nlanes,
							bool hashed);
extern void GjIndexAddPage(Relation index, ForkNumber fork, Page image);
extern void GjIndexNoteLength(Relation index);
extern void GjIndexLogFork(Relation index, ForkNumber fork);
extern void GjDataPut(Page page, const GjIndexInfo *info, int slot, const char *row);
extern void GjTailAppend(Relation index, const GjIndexInfo *info, Buffer tail,
						 const char *row);
extern void GjTailFlush(Relation index, const GjIndexInfo *info, Buffer tail, Buffer data);
extern void GjLaneSwitch(Relation index, const GjIndexInfo *info, int lane,
						 Buffer old_data, Buffer new_data);
extern void GjTailDelete(Relation index, const GjIndexInfo *info, Buffer tail,
						 const uint32 *dead);
extern void GjDataDelete(Relation index, const GjIndexInfo *info, Buffer data,
						 const uint32 *dead);
extern void GjEpochRaise(Relation index);

/* key.c: from a value to the integer by which keys are compared */
extern int64 GjKeyFromDatum(FmgrInfo *key_proc, Datum value);
extern bool GjKeyProcKeepsValue(PGFunction function);

/* am/handler.c */
extern bool GjRelationIsIndex(Relation rel);
extern int	GjIndexKeyWidth(Relation index);
extern bool GjIndexIsPreloaded(Relation index);

/* index access method interface functions */
extern bool gjvalidate(Oid opclassoid);
extern IndexBuildResult *gjbuild(Relation heap, Relation index, struct IndexInfo *indexInfo);
extern void gjbuildempty(Relation index);
extern bool gjinsert(Relation index, Datum *values, bool *isnull, ItemPointer heap_tid,
					 Relation heap, IndexUniqueCheck checkUnique, bool indexUnchanged,
					 struct IndexInfo *indexInfo);
extern IndexBulkDeleteResult *gjbulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
										   IndexBulkDeleteCallback callback,
										   void *callback_state);
extern IndexBulkDeleteResult *gjvacuumcleanup(IndexVacuumInfo *info,
											  IndexBulkDeleteResult *stats);
extern IndexScanDesc gjbeginscan(Relation index, int nkeys, int norderbys);
extern void gjrescan(IndexScanDesc scan, ScanKey keys, int nkeys,
					 ScanKey orderbys, int norderbys);
extern int64 gjgetbitmap(IndexScanDesc scan, TIDBitmap *tbm);
extern void gjendscan(IndexScanDesc scan);
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);
extern bytea *gjoptions(Datum reloptions, bool validate);

#endif							/* GPUJOIN_PAGES_H */
