/*-------------------------------------------------------------------------
 *
 * region.c
 *	  Large pieces of memory that are cheap to touch for the first time.
 *
 * A device delivers millions of entries in an instant, and touching memory for the first time
 * takes longer than writing to it: each page costs a fault, and a page is 4 kB.  Huge pages, if
 * the system has them, are 2 MB, and a region starts at the boundary of one.  Otherwise, one
 * system call for many pages takes two thirds of the time of as many faults.
 *
 * A region is a chunk of a memory context like any other, and is freed with it.  The bytes
 * allocated for alignment are not touched and take no physical memory.
 *
 * Nothing is cached here from one query to the next.  The C library does cache freed memory that
 * is not too large, and then the next query takes no faults at all (GjKeepFreedMemory).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "region.h"

/*
 * glibc's malloc() keeps up to twice the size of the largest chunk that it got from the kernel and
 * gave back, 128 kB at first, and at most 64 MB.  The plan for a list of keys, and the answer, take
 * some 600 kB; 50,000 small rows, or the groups of as many keys, take 5 to 10 MB.  Returning them
 * after each query, and having the kernel clear them for the next one, took a fifth of the
 * processor time of a look-up, and on a virtual machine half of that of such a join.  So a process
 * gives one chunk of this size back.
 */
#define KEPT_BYTES				((Size) 8 * 1024 * 1024)

/* Amount touched at a time; queries can only be canceled in between */
#define TOUCH_SIZE				((Size) 64 * 1024 * 1024)

void
GjRegionAllocateHuge(GjRegion *region, MemoryContext context, Size size)
{
	region->size = size;
	region->chunk = MemoryContextAllocHuge(context, size + GJ_HUGE_PAGE);
	region->start = (char *) TYPEALIGN(GJ_HUGE_PAGE, (uintptr_t) region->chunk);
	GjAskForHugePages(region->start, size);
}

/*
 * Enlarge a region, keeping its contents, at a new address.  It is no longer aligned to a huge
 * page: callers allocate large regions with the expected size, and these seldom grow.
 */
void
GjRegionResize(GjRegion *region, Size size)
{
	Size		offset = region->start - (char *) region->chunk;

	region->chunk = repalloc_huge(region->chunk, offset + size);
	region->start = (char *) region->chunk + offset;
	region->size = size;
	GjAskForHugePages(region->start, size);
}

/*
 * Enlarge a region that is filled from its start, by allocating a new one and copying the bytes
 * in use.  So it consists of huge pages before anything is written, as after GjRegionAllocate().
 */
void
GjRegionGrow(GjRegion *region, MemoryContext context, Size used, Size size)
{
	GjRegion	old = *region;

	GjRegionAllocate(region, context, size);
	memcpy(region->start, old.start, used);
	GjRegionFree(&old);
}

/*
 * Touch all pages of a region that is about to be written
 */
void
GjRegionTouch(const GjRegion *region)
{
#ifdef MADV_POPULATE_WRITE
	static Size page = 0;
	char	   *end;

	if (region->size < GJ_HUGE_REGION)
		return;
	if (page == 0)
		page = (Size) sysconf(_SC_PAGESIZE);
	end = (char *) TYPEALIGN_DOWN(page, (uintptr_t) region->start + region->size);
	for (char *at = (char *) TYPEALIGN(page, (uintptr_t) region->start); at < end;
		 at += TOUCH_SIZE)
	{
		CHECK_FOR_INTERRUPTS();
		/* Available since Linux 5.14.  If it fails, pages are faulted in one by one. */
		if (madvise(at, Min(end - at, TOUCH_SIZE), MADV_POPULATE_WRITE) != 0)
			break;
	}
#endif
}

/*
 * Advise the kernel to use huge pages.  If it does not, everything works the same.
 */
void
GjAskForHugePages(void *memory, Size size)
{
#ifdef MADV_HUGEPAGE
	uintptr_t	start = TYPEALIGN(GJ_HUGE_PAGE, (uintptr_t) memory);
	uintptr_t	end = TYPEALIGN_DOWN(GJ_HUGE_PAGE, (uintptr_t) memory + size);

	if (size >= GJ_HUGE_REGION)
		(void) madvise((void *) start, end - start, MADV_HUGEPAGE);
#endif
}

/*
 * Have the C library keep freed memory for the next query
 */
void
GjKeepFreedMemory(void)
{
	static bool done = false;

	if (!done)
	{
		void	   *volatile chunk = malloc(KEPT_BYTES);

		free(chunk);
		done = true;
	}
}
