/*-------------------------------------------------------------------------
 *
 * spill.h
 *	  Records that do not fit in memory: written to a temporary file in parts, by bits of their
 *	  hash, and read back part by part.
 *
 * Call sequence of a spill: write records; then, for each part, begin it, and read its records.
 * While a part is being read, some of its records may be written again, in subparts by the next
 * hash bits.  Subparts are read before the parts that have waited longer, so that there are never
 * many.
 *
 * Records of a part are read in the order in which they were written.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_SPILL_H
#define GPUJOIN_GROUPS_SPILL_H

#include "nodes/memnodes.h"

/* Each part being written takes a block of memory */
#define GJ_SPILL_MIN_PARTS		4
#define GJ_SPILL_MAX_PARTS		64

/* Maximum number of records to write or read at a time */
#define GJ_SPILL_RECORDS		1024

/* The temporary file of any number of spills, created when there is something to write. */
typedef struct GjSpillFile GjSpillFile;

extern GjSpillFile *GjSpillFileCreate(MemoryContext parent);
extern void GjSpillFileReset(GjSpillFile *file);
extern Size GjSpillFileMemory(const GjSpillFile *file);

/* Return the peak size on disk, in bytes */
extern uint64 GjSpillFileSize(const GjSpillFile *file);

typedef struct GjSpill GjSpill;

extern GjSpill *GjSpillCreate(MemoryContext context, GjSpillFile *file, Size record_size);

/* Forget all records.  The owner of the file resets it. */
extern void GjSpillForget(GjSpill *spill);

/*
 * Prepare to write records, in about `wanted` parts, but at most `most`, the number that memory
 * allows.  Returns false if the hash has no bits left to distinguish parts.
 */
extern bool GjSpillBegin(GjSpill *spill, double wanted, int most);
extern bool GjSpillCanBegin(const GjSpill *spill);

/* Write n records and their hashes, whose upper bits select the part */
extern void GjSpillWrite(GjSpill *spill, const char *records, const uint64 *hashes, int n);

/* Finish writing before the next part is begun; frees memory */
extern void GjSpillEnd(GjSpill *spill);

/* Return true if any part has not been begun */
extern bool GjSpillWaits(const GjSpill *spill);

/*
 * Begin to read the next part, and set *nrecords to the number of its records.  Returns false if
 * no part is left.
 */
extern bool GjSpillNextPart(GjSpill *spill, uint64 *nrecords);

/* Read the next records of the part.  Returns their number, 0 at the end. */
extern int	GjSpillRead(GjSpill *spill, char *records, int most);

#endif							/* GPUJOIN_GROUPS_SPILL_H */
