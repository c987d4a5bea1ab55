/*-------------------------------------------------------------------------
 *
 * keysets.h
 *	  Part of gpujoin_kernel_selftest().
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_TEST_KEYSETS_H
#define GPUJOIN_TEST_KEYSETS_H

#include "common/pg_prng.h"

extern void GjTestKeySetCombinations(pg_prng_state *prng, int key_width);

#endif							/* GPUJOIN_TEST_KEYSETS_H */
