/*-------------------------------------------------------------------------
 *
 * kernels.h
 *	  What the portable loops of kernels.c and those of kernelsx86.h
 *	  have in common.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_KERNELS_H
#define GPUJOIN_SETS_KERNELS_H

#include "keyset.h"

/* Keys that a word of hits, or of used slots, answers for */
#define GJ_WORD_KEYS			32

/* Every loop comes twice, with a constant width: the compiler drops what does not apply */
#define GJ_DEFINE_KERNELS(body, suffix, attribute) \
attribute static void \
body##4##suffix(const GjKeySet *set, const void *keys, const uint32 *used, \
				int n_words, uint32 *hits) \
{ \
	body##suffix(set, keys, sizeof(int32), used, n_words, hits); \
} \
attribute static void \
body##8##suffix(const GjKeySet *set, const void *keys, const uint32 *used, \
				int n_words, uint32 *hits) \
{ \
	body##suffix(set, keys, sizeof(int64), used, n_words, hits); \
}

#endif							/* GPUJOIN_SETS_KERNELS_H */
