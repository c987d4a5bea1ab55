/*-------------------------------------------------------------------------
 *
 * format.c
 *	  The format of indexes: turn an index into one as the first release made it, and make uuids
 *	  of the code and the rest that an index stores.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "pages/pages.h"

PG_FUNCTION_INFO_V1(gpujoin_use_format_2);
PG_FUNCTION_INFO_V1(gpujoin_test_uuid);

/*
 * Remove the fields that format 3 has added to the metapage, none of which may be in use
 */
Datum
gpujoin_use_format_2(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Buffer		buffer = ReadBuffer(index, GJ_META_BLOCK);
	GenericXLogState *record;
	Page		page;
	GjMetaPage	meta;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to change pages")));
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	GjMetaCheck(index, buffer);
	record = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(record, buffer, 0);
	meta = GjPageGetMeta(page);
	if (meta->version != GJ_FORMAT_VERSION || meta->nruns > GJ_FORMAT_2_RUNS ||
		GjMetaGetMore(meta)->merge_run != 0)
		elog(ERROR, "index \"%s\" needs its format", RelationGetRelationName(index));
	memset(GjMetaGetMore(meta), 0, sizeof(GjMetaMoreData));
	meta->version = 2;
	((PageHeader) page)->pd_lower = GjMetaEnd(meta) - (char *) page;
	GenericXLogFinish(record);
	UnlockReleaseBuffer(buffer);
	index_close(index, NoLock);
	PG_RETURN_VOID();
}

/*
 * Return the uuid of a code and a rest
 */
Datum
gpujoin_test_uuid(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	GjUuidOfPair(PG_GETARG_INT64(0), PG_GETARG_INT64(1), (char *) uuid->data);
	PG_RETURN_UUID_P(uuid);
}
