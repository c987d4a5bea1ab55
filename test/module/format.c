/*-------------------------------------------------------------------------
 *
 * format.c
 *	  The format of indexes: turn an index into one as the first release made it, and make values
 *	  with the codes that an index stores.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "pages/pages.h"

PG_FUNCTION_INFO_V1(gpujoin_use_format);
PG_FUNCTION_INFO_V1(gpujoin_test_uuid);
PG_FUNCTION_INFO_V1(gpujoin_test_flood);
PG_FUNCTION_INFO_V1(gpujoin_test_one_hash);

static bool
has_narrow_pages(GjMetaPage meta)
{
	for (int i = 0; i < meta->nruns; i++)
	{
		if (GjMetaGetRun(meta, i)->most_slots != 0)
			return true;
	}
	return false;
}

/*
 * Make an index one of an older format, as a former release has left it: without narrow pages, and
 * without NULL keys, for which it must have been built with the debug step "plain pages"; if
 * it is format 2, without the fields that format 3 has added to the metapage, either.  None of
 * these may be in use, so an index must have been empty when it became one of format 3.
 */
Datum
gpujoin_use_format(PG_FUNCTION_ARGS)
{
	int			version = PG_GETARG_INT32(1);
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
	if (has_narrow_pages(meta) || GjMetaHasNulls(meta) || version < GJ_OLDEST_FORMAT ||
		version > meta->version ||
		(version == GJ_OLDEST_FORMAT &&
		 (meta->nruns > GJ_FORMAT_2_RUNS || GjMetaGetMore(meta)->merge_run != 0)))
		elog(ERROR, "index \"%s\" needs its format", RelationGetRelationName(index));
	if (version == GJ_OLDEST_FORMAT)
		memset(GjMetaGetMore(meta), 0, sizeof(GjMetaMoreData));
	meta->version = version;
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

/* A step of PostgreSQL's hash function (common/hashfn.c), which is a bijection of 96 bits */
static void
mix(uint32 *state)
{
	static const int rotations[6] = {4, 6, 8, 16, 19, 4};

	for (int i = 0; i < 6; i++)
	{
		uint32	   *a = &state[i % 3];
		uint32	   *b = &state[(i + 1) % 3];
		uint32	   *c = &state[(i + 2) % 3];

		*a -= *c;
		*a ^= pg_rotate_left32(*c, rotations[i]);
		*c += *b;
	}
}

/*
 * Return 24 bytes that have the same 64-bit hash, without a seed, for each number: half of them are
 * the number, the others lead from the state after these to the same state.
 */
Datum
gpujoin_test_flood(PG_FUNCTION_ARGS)
{
	bytea	   *result = palloc0(VARHDRSZ + 6 * sizeof(uint32));
	uint32		words[6] = {PG_GETARG_INT32(0)};
	uint32		state[3];

	for (int i = 0; i < 3; i++)
		state[i] = 0x9e3779b9 + sizeof(words) + 3923095 + words[i];
	mix(state);
	for (int i = 0; i < 3; i++)
		words[3 + i] = -state[i];
	SET_VARSIZE(result, VARHDRSZ + sizeof(words));
	memcpy(VARDATA(result), words, sizeof(words));
	PG_RETURN_BYTEA_P(result);
}

/*
 * A hash function that ignores value and seed
 */
Datum
gpujoin_test_one_hash(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(1);
}
