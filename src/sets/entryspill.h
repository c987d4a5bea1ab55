/*-------------------------------------------------------------------------
 *
 * entryspill.h
 *	  Temporary file for entries that do not fit in memory.
 *
 * Sets with the same columns are written in sequence, and then read back once, in the same
 * order.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_ENTRYSPILL_H
#define GPUJOIN_SETS_ENTRYSPILL_H

#include "entryset.h"

typedef struct GjEntrySpill GjEntrySpill;

extern GjEntrySpill *GjEntrySpillBegin(MemoryContext context);
extern void GjEntrySpillWrite(GjEntrySpill *spill, GjEntrySet *set);
extern bool GjEntrySpillRead(GjEntrySpill *spill, GjEntrySet *set);
extern void GjEntrySpillEnd(GjEntrySpill *spill);

#endif							/* GPUJOIN_SETS_ENTRYSPILL_H */
