/*-------------------------------------------------------------------------
 *
 * prefetch.h
 *	  Prefetching of cache lines.
 *
 * Any address is allowed: nothing is read or written, and an invalid address does no harm.  With
 * a compiler that has no builtin for it, this does nothing.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_PREFETCH_H
#define GPUJOIN_BASE_PREFETCH_H

/*
 * The empty asm statement counts as a side effect.  Without one, gcc considers a function that only
 * prefetches to have none, and removes all calls of it that it has not inlined.
 */
#ifdef __GNUC__
#define GjPrefetch(address) \
	({ __builtin_prefetch(address); __asm__ volatile(""); })
#define GjPrefetchForWrite(address) \
	({ __builtin_prefetch((address), 1); __asm__ volatile(""); })
#else
#define GjPrefetch(address)				((void) (address))
#define GjPrefetchForWrite(address)		((void) (address))
#endif

#define GJ_CACHE_LINE			64

/*
 * Prefetch each cache line of a range of bytes
 */
static pg_attribute_always_inline void
GjPrefetchRange(const void *start, Size size)
{
	const char *end = (const char *) start + size;

	for (const char *at = (const char *) TYPEALIGN_DOWN(GJ_CACHE_LINE, start); at < end;
		 at += GJ_CACHE_LINE)
		GjPrefetch(at);
}

#endif							/* GPUJOIN_BASE_PREFETCH_H */
