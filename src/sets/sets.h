/*-------------------------------------------------------------------------
 *
 * sets.h
 *	  What a question is made of, and its answer: sets of keys, of TIDs and of entries,
 *	  and rows as columns.
 *	  Sets know no page and no index.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_H
#define GPUJOIN_SETS_H

#include "batch.h"
#include "entryset.h"
#include "entryshare.h"
#include "entryspill.h"
#include "keyset.h"
#include "tidset.h"
#include "tidshare.h"
#include "top.h"

#endif							/* GPUJOIN_SETS_H */
