/*-------------------------------------------------------------------------
 *
 * parts.h
 *	  Functions and types that the files of a match share.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_PARTS_H
#define GPUJOIN_MATCH_PARTS_H

#include "match.h"

/* Destination of hits: TIDs only, or entries */
typedef struct GjMatchTarget
{
	GjTidSet   *tids;
	GjEntrySet *entries;		/* if tids is NULL */
} GjMatchTarget;

/* match.c */
extern void GjMatchStatsBegin(GjMatchStats *stats);
extern void GjMatchStatsEnd(GjMatchStats *stats, const GjKeySet *keys, instr_time start);
extern void GjMatchStatsElapse(GjMatchStats *stats, instr_time start);

/* stream.c */
extern void GjEntryMatchTurnTo(GjEntryMatch *match, uint64 first, uint64 end, double expected,
							   uint64 nentries);
extern double GjMaxRequests(Relation index, uint64 nentries);

/* divide.c */
extern bool GjSearchTake(GjEntryMatch *match);

/* search.c: rows that have not been moved to a data page yet */
extern void GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjTailHits *hits, GjMatchStats *stats);
extern void GjTailHitsAdd(const GjTailHits *hits, const GjIndexInfo *info,
						  GjMatchTarget target, GjMatchStats *stats);
extern void GjTailHitsForget(GjTailHits *hits);

/*
 * search.c: the CPU's answer, in pieces, read directly from the pages.  The head of search.c proves
 * that no entry is missing and none comes twice.
 */
typedef struct GjSearch GjSearch;

/* A place after all possible places */
#define GjLastPlace				((GjPlace) {PG_INT64_MAX, PG_UINT64_MAX})

extern GjSearch *GjSearchBegin(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
							   Size limit, GjTailHits *tails);
extern void GjSearchTurnTo(GjSearch *search, const GjPlace *from, const GjPlace *end);
extern bool GjSearchIsDone(const GjSearch *search);
extern void GjSearchPiece(GjSearch *search, GjEntrySet *piece, GjMatchStats *stats);
extern void GjSearchTids(GjSearch *search, GjTidSet *tids, GjMatchStats *stats);
extern int	GjSearchDivide(GjSearch *search, int nprocesses, int most, GjPlace *starts,
						   GjMatchStats *stats);
extern void GjSearchEnd(GjSearch *search);

/* readpages.c: pages that changed since a mirror was made, whatever they belong to */
extern void GjSearchBlocks(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						   const GjIndexState *state, BlockNumber start, BlockNumber end,
						   GjMatchTarget target, GjMatchStats *stats);

/* Slots are listed this many at a time; elements after the last one are undefined */
#define GJ_HITS_SPARE			4

/* The hits on a data page, as a bitmap of slots and as a list */
typedef struct GjPageHits
{
	uint32		bits[GJ_MAX_WORDS];
	int			nslots;
	uint16		slots[GJ_MAX_SLOTS + GJ_HITS_SPARE];
} GjPageHits;

/* hits.c: add a row of a tail page as an entry */
extern void GjEntrySetAddRow(GjEntrySet *set, const GjIndexInfo *info, const char *row);

/* device.c: a device's answer */
typedef struct GjMirrorFound
{
	uint64		matches;		/* number of the mirror's entries that have one of the keys */
	uint64		entries;		/* number of all its entries */
} GjMirrorFound;

extern bool GjMirrorMatch(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjMatchTarget target, const uint64 *epoch, GjMatchStats *stats);
extern bool GjMirrorCount(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  const uint64 *epoch, GjMatchStats *stats, GjMirrorFound *found);

#endif							/* GPUJOIN_MATCH_PARTS_H */
