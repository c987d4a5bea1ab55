/*-------------------------------------------------------------------------
 *
 * match.h
 *	  The one question that scans ask: which entries of this index have a key
 *	  of this set?
 *
 * Whoever answers (the search of the index pages on the CPU, or a device that
 * holds a mirror of them) delivers a superset of the TIDs of all rows that are
 * visible to a snapshot taken before the call and have such a key.  The rest
 * (dead rows, entries of a TID that was used again) is the caller's to drop: it
 * fetches under its snapshot and rechecks the key.  A match of entries delivers
 * the keys and INCLUDE columns that these TIDs have in the index as well, for who
 * can do without the fetch (exec/indexonly.c); each of these keys is in the set.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_H
#define GPUJOIN_MATCH_H

#include "portability/instr_time.h"
#include "storage/block.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "node/keyplan.h"
#include "pages/pages.h"
#include "sets/sets.h"

/* What a match did, for EXPLAIN; summed up over rescans and batches */
typedef struct GjMatchStats
{
	uint64		searches;		/* matches asked for */
	uint64		keys;			/* distinct keys searched for */
	uint64		keys_elsewhere; /* not searched for: only other partitions can have them */
	uint64		entries;		/* index entries looked at */
	uint64		device_entries; /* of these, by a device */
	bool		stale;			/* TIDs may belong to other rows by now: always recheck the key */
	bool		outdated;		/* in the last match, even if the vacuum epoch has not moved */
	uint64		pages;			/* index pages read on the CPU */
	uint64		pages_skipped;	/* data pages whose key range excludes the set */
	uint64		pages_pushed;	/* to a device, to bring its mirror up to date */
	uint64		tids;			/* matching TIDs */
	uint64		filtered;		/* entries that a filter dropped: kept by the caller */
	uint64		pieces;			/* answers of a device, where one alone is too large */
	instr_time	set_elapsed;	/* making the key sets: kept by the caller */
	instr_time	elapsed;		/* searching */
	double		request_ms;		/* of it, answered requests to a device took */
	double		set_ms;			/* of these, the device's process: taking the key set, */
	double		kernel_ms;		/* matching, */
	double		transfer_ms;	/* and sending TIDs */
	const char *device;			/* who answered last, e.g. "CPU (AVX-512)" */
	const char *reason;			/* why not a GPU; NULL if it was one */
} GjMatchStats;

/* Hits on tail pages, kept until the data pages are done */
typedef struct GjTailHits
{
	char	   *rows;			/* as they stand on the page */
	int			nrows;
} GjTailHits;

/* Some keys of a list, divided among requests to a device (pieces.c) */
typedef struct GjPieces
{
	uint64		end;			/* behind the last of these keys */
	uint64		next;			/* first key of the next request */
	uint64		step;			/* so many keys has that; 0: there is none */
	double		expected;		/* entries of the keys from next on, as far as is known */
	uint64		target;			/* entries that an answer should have */
	uint64		capacity;		/* as many as it may have */
	double		max_requests;	/* with more to come, the CPU is quicker */
} GjPieces;

/* Who finds the next piece of a match of entries */
typedef enum GjEntryPhase
{
	GJ_ENTRIES_SEARCH,			/* the CPU: those of some pages after those of others */
	GJ_ENTRIES_ASK,				/* a device: those of some keys after those of others */
	GJ_ENTRIES_AT_ONCE,			/* nobody: a device has found all, and the whole is in a set,
								 * finished, outdated or not */
	GJ_ENTRIES_DONE				/* nobody: there are no more pieces */
} GjEntryPhase;

/* A match of entries: how far it is */
typedef struct GjEntryMatch
{
	Relation	index;
	const GjKeySet *keys;
	MemoryContext context;		/* of all that it takes */
	GjIndexInfo info;
	uint64		vacuum_epoch;	/* read before anything was found */
	GjEntryPhase phase;
	bool		refused;		/* a device gave no answer for a piece: it is not asked again */
	const char *reason;			/* why the CPU found some of them; NULL: it did not */
	GjPieces	pieces;

	/* What the CPU is to find, once it is its turn */
	const GjKeySet *wanted;		/* keys, or those that a device has left; may be NULL before */
	GjTailHits	tails;			/* these come with the last piece, */
	GjFewTids  *tail_tids;		/* their TIDs, to be looked for; NULL: there are none */
	bool	   *tail_met;		/* but those that were met on a data page, too */
	BlockNumber next;			/* data page to search next */
	BlockNumber end;

	/* Of a match that several processes make together (divide.c) */
	struct GjSharedSearch *shared;	/* where further data pages come from */
	GjFewTids  *shared_tails;	/* TIDs that come from tail pages: nobody may deliver them
								 * from data pages, too; NULL: there are none */
	struct GjSharedRanges *ranges;	/* where further keys come from (ranges.c) */
} GjEntryMatch;

/* match.c */
extern void GjMatch(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats);
extern void GjMatchFresh(Relation index, const GjKeySet *keys, GjTidSet *tids,
						 GjMatchStats *stats);
extern bool GjMatchStatsTells(const GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats);

/* entries.c */
extern void GjEntryMatchBegin(GjEntryMatch *match, Relation index, const GjKeySet *keys,
							  GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchAsk(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern void GjEntryMatchRefuse(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);
extern double GjRequestCost(double nentries);

/* values.c: values to keys */
typedef struct GjConverter
{
	GjConversion how;
	FmgrInfo	proc;			/* GJ_CONVERT_PROC: the operator class's support function */
} GjConverter;

extern void GjConvertToKeys(GjKeySet *set, GjConverter *converter, Datum value);
extern void GjAddDatumKeys(GjKeySet *set, GjConverter *converter, Datum value, bool isnull,
						   bool is_array);

/* complete.c */
extern bool GjIndexIsComplete(Relation index, Snapshot snapshot);

/* Dividing a match among processes ------------------------------------------------ */

/* A match of entries that the CPU makes: pages are taken, a few at a time */
typedef struct GjSharedSearch
{
	uint64		vacuum_epoch;	/* read before anything was found */
	BlockNumber first;			/* data pages from here on, */
	BlockNumber npages;			/* so many */
	uint64		step;			/* pages that are taken at a time */
	int			ntails;			/* hits on tail pages, which the process has that found them: */
	dsa_pointer tails;			/* their TIDs, packed */
	pg_atomic_uint64 next;		/* first page that nobody has taken, counted from first */
} GjSharedSearch;

/* At most this part of a heap's pages is not all-visible, or a match is shared by heap blocks */
#define GJ_MAX_HEAP_PART		0.1

/* A match of entries that a device makes: ranges of the keys are taken, one at a time */
#define GJ_MAX_RANGES			256

typedef struct GjSharedRanges
{
	uint64		vacuum_epoch;	/* read before anything was found */
	double		key_entries;	/* that a key has, on average */
	uint64		index_entries;	/* all that the index has, as far as is known */
	int			nprocesses;		/* planned, with the leader */
	int			nranges;
	int64		starts[GJ_MAX_RANGES];	/* the first key of each but the first range, which has
										 * all before the second one's; so the last all above */
	pg_atomic_uint64 next;		/* first range that nobody has taken */
} GjSharedRanges;

typedef enum GjSharedKind
{
	GJ_SHARED_TIDS,				/* to be fetched from the heap */
	GJ_SHARED_ENTRIES,			/* found all at once */
	GJ_SHARED_RANGES,			/* entries that are still to be found, by a device, */
	GJ_SHARED_SEARCH			/* or on the CPU */
} GjSharedKind;

typedef struct GjSharedFind
{
	GjSharedKind kind;
	uint64		vacuum_epoch;	/* of entries: read before they were found */
	uint64		columns;		/* which columns of the index these have */
	GjSharedTids tids;
	GjSharedEntries entries;
	GjSharedRanges ranges;
	GjSharedSearch search;
} GjSharedFind;

/* What a process needs to take its part */
typedef struct GjSharePart
{
	GjSharedFind *found;
	dsa_area   *area;
	int			nprocesses;		/* planned, with the leader */
	void		(*progress) (void *arg);	/* called before each step */
	void	   *arg;
} GjSharePart;

/* divide.c */
extern void GjFindShareInit(GjSharedFind *found);
extern void GjFindUnshare(GjSharedFind *found, dsa_area *area);

extern void GjSearchShare(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match,
						  int nprocesses);
extern void GjSearchJoin(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match,
						 Relation index, const GjKeySet *keys);

/* ranges.c */
extern bool GjRangesShare(GjSharedRanges *shared, Relation index, const GjKeySet *keys,
						  uint64 capacity, int nprocesses, GjMatchStats *stats);
extern void GjRangesJoin(GjSharedRanges *shared, GjEntryMatch *match, Relation index,
						 const GjKeySet *keys, uint64 capacity);
extern bool GjRangesTake(GjEntryMatch *match);
extern double GjCountRanges(double nkeys, double nmatches, double nentries, int nprocesses);

#endif							/* GPUJOIN_MATCH_H */
