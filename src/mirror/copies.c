/*-------------------------------------------------------------------------
 *
 * copies.c
 *	  What a mirror's copies contain: for each page, the number of the run or delta whose entries
 *	  its copy has, or 0 if the copy is empty.
 *
 * When a fold has changed the lists of an index, the copies of the pages of runs and deltas that
 * have died must be emptied.  The index does not tell which pages these were; the numbers do, so
 * that a synchronization need not read all pages (load.c).
 *
 * The numbers of a mirror are in a segment of dynamic shared memory, which belongs to the mirror's
 * place in the table, and is kept for the next mirror there.  Only the process that owns the
 * mirror, which loads or synchronizes it, reads or writes them.  They are *certain* if they are
 * true of all copies in the column that they are for.  They are made so by a pass over all pages.
 * While pages are pushed they are not certain, and stay so if the process fails: then the next
 * synchronization passes over all pages.  The same happens if there is no memory for them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/dsm.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "table.h"

/* Least number of pages for which a segment has room */
#define LEAST_PAGES				4096

static bool make_room(GjMirrorCopies *copies, BlockNumber pages);
static dsm_segment *create_segment(Size size);

/*
 * Open the numbers of a mirror that this process owns, with room for that many pages
 *
 * Returns false if there is no memory.  Until GjCopiesClose() the numbers are not certain.
 */
bool
GjCopiesOpen(int place, const GjServiceColumn *column, BlockNumber pages, GjMirrorCopies *copies)
{
	GjMirrorEntry *entry = &gj_mirrors->entries[place];

	Assert(entry->mirror.owner == MyProcPid);
	memset(copies, 0, sizeof(*copies));
	copies->place = place;
	copies->pages = pages;
	copies->certain = entry->copies_certain &&
		memcmp(&entry->copies_of, column, sizeof(GjServiceColumn)) == 0;
	entry->copies_certain = false;
	entry->copies_of = *column;
	if (entry->copies_room > 0)
		copies->segment = dsm_attach(entry->copies_handle);
	if ((copies->segment == NULL || entry->copies_room < pages) && !make_room(copies, pages))
	{
		GjCopiesClose(copies, false);
		return false;
	}
	copies->runs = dsm_segment_address(copies->segment);
	if (!copies->certain)
		memset(copies->runs, 0, (Size) entry->copies_room * sizeof(uint32));
	return true;
}

/*
 * Replace the segment by one with more room
 */
static bool
make_room(GjMirrorCopies *copies, BlockNumber pages)
{
	GjMirrorEntry *entry = &gj_mirrors->entries[copies->place];
	uint64		room = Max((uint64) pages + pages / 2, LEAST_PAGES);
	dsm_segment *segment;

	room = Min(room, MaxBlockNumber);
	segment = create_segment(room * sizeof(uint32));
	if (segment == NULL)
		return false;
	memset(dsm_segment_address(segment), 0, room * sizeof(uint32));
	if (copies->segment == NULL)
		copies->certain = false;
	else
	{
		memcpy(dsm_segment_address(segment), dsm_segment_address(copies->segment),
			   (Size) entry->copies_room * sizeof(uint32));
		dsm_detach(copies->segment);
		dsm_unpin_segment(entry->copies_handle);
	}
	dsm_pin_segment(segment);
	entry->copies_handle = dsm_segment_handle(segment);
	entry->copies_room = (uint32) room;
	copies->segment = segment;
	return true;
}

/*
 * Create a segment; returns NULL if there is no memory or no slot for it, which is no reason to
 * fail.  The operating system's errors are raised with no lock held, and nothing else is to be
 * undone.
 */
static dsm_segment *
create_segment(Size size)
{
	MemoryContext context = CurrentMemoryContext;
	dsm_segment *volatile segment = NULL;

	PG_TRY();
	{
		segment = dsm_create(size, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return segment;
}

/*
 * Close the numbers; they are certain if all that has been pushed is noted
 */
void
GjCopiesClose(GjMirrorCopies *copies, bool certain)
{
	if (copies->segment == NULL)
		return;
	dsm_detach(copies->segment);
	copies->segment = NULL;
	copies->runs = NULL;
	gj_mirrors->entries[copies->place].copies_certain = certain;
}
