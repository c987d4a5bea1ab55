/*-------------------------------------------------------------------------
 *
 * region.c
 *	  Large pieces of memory that are cheap to touch for the first time.
 *
 * A device delivers millions of entries in an instant, and touching memory for the first
 * time takes longer than writing to it: for each page a fault, and a page is 4 kB.  Huge
 * pages are 2 MB, where the system has them, and a region begins at the border of one.
 * Where it has none, one call for many pages takes two thirds of the time of as many faults.
 *
 * A region is a chunk of a memory context like any other, and goes with that.  What is
 * allocated for the sake of the border is not touched, and so takes no memory.
 *
 * Nothing is kept here from one query to the next.  The C library does keep what it is given
 * back, if that is not too large (glibc: chunks of less than 32 MB), and then the next query
 * takes no fault at all.
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

/* Size of a huge page, and from which size on memory is to consist of them */
#define HUGE_PAGE				((Size) 2 * 1024 * 1024)
#define HUGE_REGION				(2 * HUGE_PAGE)

/* So much is touched at a time, since a query can be cancelled only in between */
#define TOUCH_SIZE				((Size) 64 * 1024 * 1024)

/*
 * Allocate bytes of any number.  What is small is allocated as it is.
 */
void
GjRegionAllocate(GjRegion *region, MemoryContext context, Size size)
{
	region->size = size;
	if (size < HUGE_REGION)
	{
		region->chunk = MemoryContextAllocHuge(context, size);
		region->start = region->chunk;
		return;
	}
	region->chunk = MemoryContextAllocHuge(context, size + HUGE_PAGE);
	region->start = (char *) TYPEALIGN(HUGE_PAGE, (uintptr_t) region->chunk);
	GjAskForHugePages(region->start, size);
}

/*
 * Make a region larger.  What it has stays, at another address.  It begins at the border of a
 * huge page no more: large ones are allocated as large as is expected, and seldom grow.
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
 * Make a region larger by a new one, for one that is written to from its beginning on: of
 * what it has, the first bytes are used, and stay.  So it consists of huge pages before
 * anything is written, as after GjRegionAllocate().
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
 * Touch all of a region, which is going to be written to
 */
void
GjRegionTouch(const GjRegion *region)
{
#ifdef MADV_POPULATE_WRITE
	static Size page = 0;
	char	   *end;

	if (region->size < HUGE_REGION)
		return;
	if (page == 0)
		page = (Size) sysconf(_SC_PAGESIZE);
	end = (char *) TYPEALIGN_DOWN(page, (uintptr_t) region->start + region->size);
	for (char *at = (char *) TYPEALIGN(page, (uintptr_t) region->start); at < end;
		 at += TOUCH_SIZE)
	{
		CHECK_FOR_INTERRUPTS();
		/* Linux 5.14 has it.  Where it is not taken, pages come one by one. */
		if (madvise(at, Min(end - at, TOUCH_SIZE), MADV_POPULATE_WRITE) != 0)
			break;
	}
#endif
}

void
GjRegionFree(GjRegion *region)
{
	if (region->chunk != NULL)
		pfree(region->chunk);
	memset(region, 0, sizeof(GjRegion));
}

/*
 * Ask for huge pages for memory.  Only advice: where it is not taken, all works the same.
 */
void
GjAskForHugePages(void *memory, Size size)
{
#ifdef MADV_HUGEPAGE
	uintptr_t	start = TYPEALIGN(HUGE_PAGE, (uintptr_t) memory);
	uintptr_t	end = TYPEALIGN_DOWN(HUGE_PAGE, (uintptr_t) memory + size);

	if (size >= HUGE_REGION)
		(void) madvise((void *) start, end - start, MADV_HUGEPAGE);
#endif
}
