/*-------------------------------------------------------------------------
 *
 * sets.h
 *	  Sets of keys, of TIDs and of entries, which requests and their results consist of, and rows
 *	  as columns.  This folder does not know about pages or indexes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_H
#define GPUJOIN_SETS_H

#include "batch.h"
#include "entryset.h"
#include "exact.h"
#include "keymap.h"
#include "keyset.h"
#include "share.h"
#include "tidset.h"
#include "top.h"

#endif							/* GPUJOIN_SETS_H */
