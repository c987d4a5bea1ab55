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

#include "mirror/mirror.h"
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
	uint64		pages;			/* index pages read on the CPU, but for directories and lists */
	uint64		delta_pages;	/* of these, of deltas, */
	uint64		run_pages_read; /* and of runs, */
	uint64		run_pages;		/* which have so many in all */
	int			runs;			/* most that a search found */
	uint64		pages_pushed;	/* to a device, to bring its mirror up to date */
	uint64		tids;			/* matching TIDs */
	uint64		filtered;		/* entries that a filter dropped: the caller's, or whole's test */
	uint64		device_filter;	/* which part of the filter a device has tested: see GjEntrySet */
	uint64		pieces;			/* answers of a device, where one alone is too large */
	instr_time	set_elapsed;	/* making the key sets: kept by the caller */
	instr_time	elapsed;		/* searching */
	double		request_ms;		/* of it, answered requests to a device took */
	double		set_ms;			/* of these, the device's process: taking the key set, */
	double		kernel_ms;		/* matching, */
	double		transfer_ms;	/* and sending TIDs */
	const char *device;			/* who answered last, e.g. "CPU (AVX-512)" */
	const char *reason;			/* why not a GPU; NULL if it was one */
	uint32		answers[GJ_FALLBACK_COUNT]; /* by a device, or why not: more than one search may
											 * have, if it comes in parts */
} GjMatchStats;

/* Hits on tail pages, kept until the data pages are done */
typedef struct GjTailHits
{
	char	   *rows;			/* as they stand on the page */
	int			nrows;
	uint64		sequence;		/* the metapage's, read before; 0: unknown */
} GjTailHits;

/* Some keys of a list, divided among requests to a device (stream.c) */
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
	bool		tails_known;	/* these have been searched for them, */
	GjTailHits	tails;			/* before a device was asked */
	Size		limit;			/* of memory */
	struct GjSearch *search;	/* NULL: not begun */

	/* Of a match that several processes make together */
	struct GjSharedSearch *shared;	/* where further places come from (divide.c) */
	struct GjSharedRanges *ranges;	/* where further keys come from (divide.c) */
} GjEntryMatch;

/* match.c */
extern void GjMatch(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats);
extern void GjMatchFresh(Relation index, const GjKeySet *keys, GjTidSet *tids,
						 GjMatchStats *stats);
extern bool GjMatchStatsTells(const GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsFallback(GjMatchStats *stats, GjFallback why);
extern void GjMatchStatsToUse(const GjMatchStats *stats, GjIndexUse *use);

/* stream.c */
extern void GjEntryMatchBegin(GjEntryMatch *match, Relation index, const GjKeySet *keys,
							  GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchAsk(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern void GjEntryMatchRefuse(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);
extern void GjEntryMatchEnd(GjEntryMatch *match);
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

/* A match of entries that the CPU makes: intervals of places are taken, one at a time */
#define GJ_MAX_STEPS			256

typedef struct GjSharedSearch
{
	uint64		vacuum_epoch;	/* read before anything was found */
	int			nsteps;
	GjPlace		starts[GJ_MAX_STEPS];	/* the first place of each interval, which ends where
										 * the next one begins; the last one has all above */
	pg_atomic_uint64 next;		/* first interval that nobody has taken */
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

extern void GjSearchShare(GjSharedSearch *shared, GjEntryMatch *match, int nprocesses,
						  GjMatchStats *stats);
extern void GjSearchJoin(GjSharedSearch *shared, GjEntryMatch *match, Relation index,
						 const GjKeySet *keys, Size limit);
extern bool GjRangesShare(GjSharedRanges *shared, Relation index, const GjKeySet *keys,
						  uint64 capacity, int nprocesses, GjMatchStats *stats);
extern void GjRangesJoin(GjSharedRanges *shared, GjEntryMatch *match, Relation index,
						 const GjKeySet *keys, uint64 capacity, Size limit);
extern bool GjRangesTake(GjEntryMatch *match);
extern double GjCountRanges(double nkeys, double nmatches, double nentries, int nprocesses);

#endif							/* GPUJOIN_MATCH_H */
