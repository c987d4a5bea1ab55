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

#include "base/prefetch.h"
#include "keyset.h"

/* Keys that a word of hits, or of used slots, answers for */
#define GJ_WORD_KEYS			32

/*
 * Have those of the keys at ahead on their way from memory that stand where a word's keys do.  Keys
 * need not begin with a cache line: if they do not, the first one is left out.
 */
static pg_attribute_always_inline void
prefetch_ahead(const char *ahead, int width, int word)
{
	const char *keys = ahead + word * GJ_WORD_KEYS * width;

	for (int at = 0; at < GJ_WORD_KEYS * width; at += GJ_CACHE_LINE)
		GjPrefetch(keys + at + GJ_CACHE_LINE - 1);
}

/* Every loop comes twice, with a constant width: the compiler drops what does not apply */
#define GJ_DEFINE_KERNELS(body, suffix, attribute) \
attribute static void \
body##4##suffix(const GjKeySet *set, const void *keys, const uint32 *used, \
				int n_words, uint32 *hits, const char *ahead) \
{ \
	body##suffix(set, keys, sizeof(int32), used, n_words, hits, ahead); \
} \
attribute static void \
body##8##suffix(const GjKeySet *set, const void *keys, const uint32 *used, \
				int n_words, uint32 *hits, const char *ahead) \
{ \
	body##suffix(set, keys, sizeof(int64), used, n_words, hits, ahead); \
}

#endif							/* GPUJOIN_SETS_KERNELS_H */
