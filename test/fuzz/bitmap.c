/*
 * bitmap.c
 *	  Stand-in for PostgreSQL's TIDBitmap: it accepts TIDs, as strictly as the real one, and
 *	  returns none.  It does not use PostgreSQL's header, whose types differ between versions.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "storage/itemptr.h"

#include "fuzz.h"

static int	anything;

void *tbm_create(long maxbytes, void *dsa);
void tbm_add_tuples(void *bitmap, const ItemPointer tids, int n, bool recheck);
void tbm_add_page(void *bitmap, BlockNumber block);
void *tbm_begin_iterate(void *bitmap);
void *tbm_begin_private_iterate(void *bitmap);
void *tbm_iterate(void *iterator);
bool tbm_private_iterate(void *iterator, void *result);
void tbm_end_iterate(void *iterator);
void tbm_end_private_iterate(void *iterator);

void *
tbm_create(long maxbytes, void *dsa)
{
	return &anything;
}

void
tbm_add_tuples(void *bitmap, const ItemPointer tids, int n, bool recheck)
{
	for (int i = 0; i < n; i++)
	{
		OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&tids[i]);

		require(offset >= 1 && offset <= MaxHeapTuplesPerPage);
	}
}

void
tbm_add_page(void *bitmap, BlockNumber block)
{
}

void *
tbm_begin_iterate(void *bitmap)
{
	return &anything;
}

void *
tbm_begin_private_iterate(void *bitmap)
{
	return &anything;
}

void *
tbm_iterate(void *iterator)
{
	return NULL;
}

bool
tbm_private_iterate(void *iterator, void *result)
{
	return false;
}

void
tbm_end_iterate(void *iterator)
{
}

void
tbm_end_private_iterate(void *iterator)
{
}
