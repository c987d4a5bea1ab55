/*-------------------------------------------------------------------------
 *
 * kernels.h
 *	  Definitions shared by the portable loops of kernels.c and those of kernelsx86.h.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_KERNELS_H
#define GPUJOIN_SETS_KERNELS_H

#include "base/prefetch.h"
#include "keyset.h"

/* Number of keys per word of hits or of used slots */
#define GJ_WORD_KEYS			32

/*
 * Prefetch the keys at ahead that correspond to the keys of a word.  Keys need not start at a
 * cache line boundary; if they do not, the first line is skipped.
 */
static pg_attribute_always_inline void
prefetch_ahead(const char *ahead, int width, int word)
{
	const char *keys = ahead + word * GJ_WORD_KEYS * width;

	for (int at = 0; at < GJ_WORD_KEYS * width; at += GJ_CACHE_LINE)
		GjPrefetch(keys + at + GJ_CACHE_LINE - 1);
}

/*
 * Define each loop twice, with constant widths, so that the compiler drops code for the other
 * one
 */
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
