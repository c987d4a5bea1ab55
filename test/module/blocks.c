/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  gpujoin_blocks_backward(): check whether the pages of runs are stored in key order.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "pages/pages.h"

PG_FUNCTION_INFO_V1(gpujoin_blocks_backward);

/*
 * Count the data pages of runs that have lower keys than the previous one in the file
 */
Datum
gpujoin_blocks_backward(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	BlockNumber length = GjIndexGetLength(index);
	GjIndexInfo info;
	GjIndexState state;
	int64		low = PG_INT64_MIN;
	int64		nbackward = 0;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to look at pages")));
	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	for (BlockNumber block = info.first_data; block < length; block++)
	{
		Buffer		buffer = ReadBuffer(index, block);
		Page		page = BufferGetPage(buffer);

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!GjPageIsUnused(page) && GjPageCheckKind(index, buffer) == GJ_PAGE_DATA &&
			GjPageGetOwner(&state, page) == GJ_OWNER_RUN)
		{
			nbackward += GjPageGetOpaque(page)->min_key < low;
			low = GjPageGetOpaque(page)->min_key;
		}
		UnlockReleaseBuffer(buffer);
	}
	index_close(index, AccessShareLock);
	PG_RETURN_INT64(nbackward);
}
