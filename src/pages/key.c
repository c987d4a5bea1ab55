/*-------------------------------------------------------------------------
 *
 * key.c
 *	  Keys: from a value of an indexed type to the integer that is stored.
 *
 * Everything compares keys as int64.  Each operator class says by its support
 * function 1 how a value becomes one; equal values of any two types of a family
 * become equal integers, which is what makes int4 = int8 work.  Integers and dates
 * are themselves.  An oid is taken as the int4 with the same bits, so that it fits
 * four bytes: the mapping is one to one, and nothing here depends on order.
 *
 * A type whose keys are hashes would map unequal values to one integer; the
 * metapage has a flag for that, and no operator class sets it yet.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "pages.h"

PG_FUNCTION_INFO_V1(gpujoin_key_int2);
PG_FUNCTION_INFO_V1(gpujoin_key_int4);
PG_FUNCTION_INFO_V1(gpujoin_key_int8);
PG_FUNCTION_INFO_V1(gpujoin_key_oid);

/*
 * Turn a value into its key
 *
 * This is done for each row that a query looks at: what the common functions do is
 * done here, without two calls.
 */
int64
GjKeyFromDatum(FmgrInfo *key_proc, Datum value)
{
	if (key_proc->fn_addr == gpujoin_key_int4)
		return DatumGetInt32(value);
	if (key_proc->fn_addr == gpujoin_key_int8)
		return DatumGetInt64(value);
	return DatumGetInt64(FunctionCall1(key_proc, value));
}

/*
 * Is a key that this function makes the value's own bits, so that they can be had back?
 */
bool
GjKeyProcKeepsValue(PGFunction function)
{
	return function == gpujoin_key_int2 || function == gpujoin_key_int4 ||
		function == gpujoin_key_int8 || function == gpujoin_key_oid;
}

/*
 * Support functions: key extraction
 */
Datum
gpujoin_key_int2(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT16(0));
}

/* int4 and date */
Datum
gpujoin_key_int4(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT32(0));
}

/* int8, timestamp and timestamptz */
Datum
gpujoin_key_int8(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT64(0));
}

Datum
gpujoin_key_oid(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int32) PG_GETARG_OID(0));
}
