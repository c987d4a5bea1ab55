/*
 * newer.h
 *	  The versions of the page copies that a column has accepted last, so that a reduction finds
 *	  those above its bound without reading the versions of all pages. Plain C, shared by both
 *	  libraries, so that they leave out the same pages.
 *
 * A ring in blocks, each with its highest version. Most reductions only look at the highest of
 * all; others skip blocks. When a block is used again, the ring keeps the highest version that it
 * has forgotten: a bound below that cannot be answered.
 */
#ifndef GPUJOIN_NEWER_H
#define GPUJOIN_NEWER_H

#include <stdlib.h>

#include "gpujoin_device.h"

#define NEWER_BLOCKS 256u
#define NEWER_EACH 256u

typedef struct newer_ring
{
	uint64_t highest;	/* of all versions accepted */
	uint64_t forgotten; /* the highest of those that are not in the ring any more */
	uint64_t accepted;
	uint64_t highest_of[NEWER_BLOCKS];
	uint32_t pages[NEWER_BLOCKS * NEWER_EACH];
} newer_ring;

static inline void
newer_note(newer_ring *ring, uint64_t page, uint64_t version)
{
	uint64_t at = ring->accepted++ % (NEWER_BLOCKS * NEWER_EACH);
	uint64_t *highest = &ring->highest_of[at / NEWER_EACH];

	if (at % NEWER_EACH == 0)
	{
		if (*highest > ring->forgotten)
			ring->forgotten = *highest;
		*highest = 0;
	}
	ring->pages[at] = (uint32_t) page;
	if (version > *highest)
		*highest = version;
	if (version > ring->highest)
		ring->highest = version;
}

static inline int
newer_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a;
	uint32_t y = *(const uint32_t *) b;

	return (x > y) - (x < y);
}

/*
 * Lists the pages whose copy is newer than the bound, ascending, given the versions of all copies.
 * Returns false if there may be more than GJD_MAX_NEWER.
 */
static inline bool
newer_list(const newer_ring *ring, const uint64_t *versions, uint64_t bound, uint32_t *pages,
		   uint32_t *n)
{
	uint32_t found[2 * GJD_MAX_NEWER];
	uint32_t count = 0;

	*n = 0;
	if (ring->highest <= bound)
		return true;
	if (ring->forgotten > bound)
		return false;
	for (uint32_t block = 0; block < NEWER_BLOCKS; block++)
	{
		uint64_t first = (uint64_t) block * NEWER_EACH;

		if (ring->highest_of[block] <= bound)
			continue;
		for (uint64_t i = first; i < first + NEWER_EACH && i < ring->accepted; i++)
		{
			uint32_t page = ring->pages[i];

			if (versions[page] <= bound)
				continue;
			found[count++] = page;
			if (count < 2 * GJD_MAX_NEWER)
				continue;

			/* a page may be in the ring many times */
			qsort(found, count, sizeof(*found), newer_compare);
			count = 0;
			for (uint32_t k = 0; k < 2 * GJD_MAX_NEWER; k++)
				if (count == 0 || found[k] != found[count - 1])
					found[count++] = found[k];
			if (count > GJD_MAX_NEWER)
				return false;
		}
	}
	qsort(found, count, sizeof(*found), newer_compare);
	for (uint32_t k = 0; k < count; k++)
	{
		if (*n > 0 && found[k] == pages[*n - 1])
			continue;
		if (*n == GJD_MAX_NEWER)
			return false;
		pages[(*n)++] = found[k];
	}
	return true;
}

#endif
