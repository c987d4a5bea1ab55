/*-------------------------------------------------------------------------
 *
 * parts.h
 *	  What the files of a match use of each other.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_PARTS_H
#define GPUJOIN_MATCH_PARTS_H

#include "match.h"

/* Where hits go: TIDs alone, or entries */
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

/* search.c: rows that have not come to a data page yet */
extern void GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjTailHits *hits, GjMatchStats *stats);
extern void GjTailHitsAdd(const GjTailHits *hits, const GjIndexInfo *info,
						  GjMatchTarget target, GjMatchStats *stats);
extern void GjTailHitsForget(GjTailHits *hits);

/*
 * search.c: the CPU's answer, straight from the pages, in pieces.  Its head says why nothing is
 * missing, and why nothing comes twice.
 */
typedef struct GjSearch GjSearch;

/* Behind all places that there can be */
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

/* readpages.c: pages that changed since a mirror was made, wherever they belong to */
extern void GjSearchBlocks(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						   const GjIndexState *state, BlockNumber start, BlockNumber end,
						   GjMatchTarget target, GjMatchStats *stats);

/* Slots are listed so many at a time, and what is behind the last one means nothing */
#define GJ_HITS_SPARE			4

/* Which slots of a data page are wanted: as bits, and as a list */
typedef struct GjPageHits
{
	uint32		bits[GJ_MAX_WORDS];
	int			nslots;
	uint16		slots[GJ_MAX_SLOTS + GJ_HITS_SPARE];
} GjPageHits;

/* hits.c: hits on a page, or a row of a tail page, to entries */
extern void GjEntrySetAddRow(GjEntrySet *set, const GjIndexInfo *info, const char *row);

/* device.c: the answer of a device */
typedef struct GjMirrorFound
{
	uint64		matches;		/* entries that have one of the keys, as far as the mirror knows */
	uint64		entries;		/* that it has in all */
} GjMirrorFound;

extern bool GjMirrorMatch(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjMatchTarget target, const uint64 *epoch, GjMatchStats *stats);
extern bool GjMirrorCount(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  const uint64 *epoch, GjMatchStats *stats, GjMirrorFound *found);

#endif							/* GPUJOIN_MATCH_PARTS_H */
