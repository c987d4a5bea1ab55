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
 * can do without the fetch (execindexonly.c); each of these keys is in the set.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_H
#define GPUJOIN_MATCH_H

#include "portability/instr_time.h"
#include "storage/block.h"
#include "utils/relcache.h"

#include "am.h"
#include "entryset.h"
#include "keyset.h"
#include "tidset.h"

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

/* Where hits go: TIDs alone, or entries */
typedef struct GjMatchTarget
{
	GjTidSet   *tids;
	GjEntrySet *entries;		/* if tids is NULL */
} GjMatchTarget;

/* Hits on tail pages, kept until the data pages are done */
typedef struct GjTailHits
{
	char	   *rows;			/* as they stand on the page */
	int			nrows;
} GjTailHits;

/* Some keys of a list, divided among requests to a device (matchpieces.c) */
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

/*
 * A match of entries: how far it is.  A device finds them all at once, if they are not too
 * many, or those of some keys after those of others (divided); the CPU those of some pages
 * after those of others.
 */
typedef struct GjEntryMatch
{
	Relation	index;
	const GjKeySet *keys;
	MemoryContext context;		/* of all that it takes */
	GjIndexInfo info;
	uint64		vacuum_epoch;	/* read before anything was found */
	bool		at_once;		/* the whole is in a set, finished, outdated or not */
	bool		divided;		/* a device is to be asked for the next piece */
	bool		refused;		/* a device was asked for a piece, and gave no answer */
	const char *reason;			/* why the CPU found some of them; NULL: it did not */
	GjPieces	pieces;

	/* What the CPU is to find, unless all is at once or divided */
	const GjKeySet *wanted;		/* keys, or those that a device has left; may be NULL before */
	GjTailHits	tails;			/* these come with the last piece, */
	bool	   *tail_met;		/* but those that were met on a data page, too */
	BlockNumber next;			/* data page to search next */
	BlockNumber end;
	bool		done;			/* there are no more pieces */

	/* Of a match that several processes make together (matchshare.h) */
	struct GjSharedSearch *shared;	/* where further data pages come from */
	const uint64 *shared_tails; /* TIDs that come from tail pages: nobody may deliver them
								 * from data pages, too */
	struct GjSharedRanges *ranges;	/* where further keys come from (matchranges.c) */
} GjEntryMatch;

/* match.c */
extern void GjMatch(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats);
extern void GjMatchStatsBegin(GjMatchStats *stats);
extern void GjMatchStatsEnd(GjMatchStats *stats, const GjKeySet *keys, instr_time start);
extern void GjMatchStatsElapse(GjMatchStats *stats, instr_time start);
extern bool GjMatchStatsTells(const GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats);

/* matchentries.c, matchshare.c */
extern void GjEntryMatchBegin(GjEntryMatch *match, Relation index, const GjKeySet *keys,
							  GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchAsk(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);
extern void GjEntryMatchTurnTo(GjEntryMatch *match, uint64 first, uint64 end, double expected,
							   uint64 nentries);
extern double GjRequestCost(double nentries);
extern double GjMaxRequests(Relation index, uint64 nentries);
extern bool GjSearchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);

/* matchpieces.c */
extern void GjPiecesBegin(GjPieces *pieces, uint64 first, uint64 end, uint64 capacity,
						  double max_requests, double expected);
extern bool GjPiecesGoOn(const GjPieces *pieces);
extern void GjPiecesTook(GjPieces *pieces, uint64 nfound);
extern void GjPiecesDivide(GjPieces *pieces, uint64 nfound);

/*
 * search.c: the CPU's answer, straight from the pages.  First the tails, then the data pages:
 * the head of search.c says why.
 */
extern void GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjTailHits *hits, GjMatchStats *stats);
extern void GjSearchData(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						 GjMatchTarget target, GjMatchStats *stats);
extern BlockNumber GjSearchBlocks(Relation index, const GjIndexInfo *info,
								  const GjKeySet *keys, BlockNumber start, BlockNumber end,
								  BlockNumber total, GjMatchTarget target,
								  GjMatchStats *stats);
extern uint64 GjTailHitTid(const GjTailHits *hits, const GjIndexInfo *info, int i);
extern void GjTailHitsAdd(GjTailHits *hits, const GjIndexInfo *info, GjMatchTarget target,
						  GjMatchStats *stats);

#endif							/* GPUJOIN_MATCH_H */
