/*-------------------------------------------------------------------------
 *
 * entryspill.h
 *	  Entries that do not fit in memory, in a temporary file.
 *
 * The contents of sets with the same columns are written one after the other; then they are read
 * back, one after the other in the same order, once.
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
