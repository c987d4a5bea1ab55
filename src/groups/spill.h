/*-------------------------------------------------------------------------
 *
 * spill.h
 *	  Records for which there is no memory: written to a temporary file in parts, by bits of
 *	  their hash, and read again part by part.
 *
 * Life of a spill: write records; then, for each part, begin it, and read its records.  While a
 * part is read, some of its records may be written again, in parts of it, by the next bits.
 * These come before the parts that have waited longer, so that there are never many.
 *
 * Records of a part come in the order in which they were written.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_SPILL_H
#define GPUJOIN_GROUPS_SPILL_H

#include "nodes/memnodes.h"

/* Each part that is written takes a block of memory */
#define GJ_SPILL_MIN_PARTS		4
#define GJ_SPILL_MAX_PARTS		64

/* Most records that are written or read at a time */
#define GJ_SPILL_RECORDS		1024

/* The temporary file of any number of spills.  It is made when there is something to write. */
typedef struct GjSpillFile GjSpillFile;

extern GjSpillFile *GjSpillFileCreate(MemoryContext parent);
extern void GjSpillFileReset(GjSpillFile *file);
extern Size GjSpillFileMemory(const GjSpillFile *file);

/* The most bytes that there ever were on disk */
extern uint64 GjSpillFileSize(const GjSpillFile *file);

typedef struct GjSpill GjSpill;

extern GjSpill *GjSpillCreate(MemoryContext context, GjSpillFile *file, Size record_size);

/* Forget all records; their file is reset by whoever owns it */
extern void GjSpillForget(GjSpill *spill);

/*
 * Prepare to write records, in about so many parts; most: as many as memory allows.  False: the
 * hash has no more bits to tell parts by.
 */
extern bool GjSpillBegin(GjSpill *spill, double wanted, int most);
extern bool GjSpillCanBegin(const GjSpill *spill);

/* Write n records and their hashes, of which the upper bits count */
extern void GjSpillWrite(GjSpill *spill, const char *records, const uint64 *hashes, int n);

/* Nothing will be written before the next part is begun: gives memory back */
extern void GjSpillEnd(GjSpill *spill);

/* Are there parts that have not been begun? */
extern bool GjSpillWaits(const GjSpill *spill);

/* Begin to read the next part; false: there is none.  nrecords: how many it has. */
extern bool GjSpillNextPart(GjSpill *spill, uint64 *nrecords);

/* Read the next records of the part; returns how many, 0 at the end */
extern int	GjSpillRead(GjSpill *spill, char *records, int most);

#endif							/* GPUJOIN_GROUPS_SPILL_H */
