/*-------------------------------------------------------------------------
 *
 * codes.c
 *	  Numbers for values by their type's own equality.
 *
 * They are in a hash table by the type's own functions, as PostgreSQL's nodes that group rows have
 * it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "codes.h"

#define FIRST_VALUES			64

typedef struct Cell
{
	Datum		value;
	uint32		hash;
	int32		code;
	char		status;
} Cell;

struct GjCodes
{
	MemoryContext context;
	MemoryContext values_context;	/* the table and what the values point to */
	MemoryContext scratch;		/* of the type's functions */
	Oid			collation;
	FmgrInfo	hash;
	FmgrInfo	equal;
	int16		typlen;
	bool		typbyval;
	struct valuetable_hash *table;
	Datum	   *values;			/* by number */
	int32		nvalues;
	int32		capacity;
};

static void check_permission(Oid function);
static void start(GjCodes *codes);
static int32 add_value(GjCodes *codes, Cell *cell, Datum value);
static bool are_equal(GjCodes *codes, Datum a, Datum b);

#define SH_PREFIX valuetable
#define SH_ELEMENT_TYPE Cell
#define SH_KEY_TYPE Datum
#define SH_KEY value
#define SH_HASH_KEY(tb, key) \
	DatumGetUInt32(FunctionCall1Coll(&((GjCodes *) (tb)->private_data)->hash, \
									 ((GjCodes *) (tb)->private_data)->collation, key))
#define SH_EQUAL(tb, a, b) are_equal((GjCodes *) (tb)->private_data, a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, cell) (cell)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

GjCodes *
GjCodesCreate(MemoryContext parent, Oid type, Oid collation)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR_FINFO |
											  TYPECACHE_HASH_PROC_FINFO);
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin codes",
												  ALLOCSET_DEFAULT_SIZES);
	GjCodes    *codes = MemoryContextAllocZero(context, sizeof(GjCodes));

	if (!OidIsValid(entry->eq_opr) || !OidIsValid(entry->hash_proc))
		elog(ERROR, "type %u cannot be hashed", type);
	check_permission(entry->eq_opr_finfo.fn_oid);
	codes->context = context;
	codes->scratch = AllocSetContextCreate(context, "gpujoin codes scratch",
										   ALLOCSET_SMALL_SIZES);
	codes->collation = collation;
	codes->typlen = entry->typlen;
	codes->typbyval = entry->typbyval;
	fmgr_info_cxt(entry->hash_proc, &codes->hash, context);
	fmgr_info_cxt(entry->eq_opr_finfo.fn_oid, &codes->equal, context);
	start(codes);
	return codes;
}

/* As PostgreSQL's own nodes that group rows ask for it */
static void
check_permission(Oid function)
{
	AclResult	result = GjCheckMayExecute(function);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

static void
start(GjCodes *codes)
{
	codes->values_context = AllocSetContextCreate(codes->context, "gpujoin codes values",
												  ALLOCSET_DEFAULT_SIZES);
	codes->table = valuetable_create(codes->values_context, FIRST_VALUES, codes);
	codes->capacity = FIRST_VALUES;
	codes->values = MemoryContextAlloc(codes->values_context, FIRST_VALUES * sizeof(Datum));
	codes->nvalues = 0;
}

void
GjCodesClear(GjCodes *codes)
{
	MemoryContextDelete(codes->values_context);
	start(codes);
}

int32
GjCodesFind(GjCodes *codes, Datum value)
{
	MemoryContext old_context = MemoryContextSwitchTo(codes->scratch);
	bool		found;
	Cell	   *cell = valuetable_insert(codes->table, value, &found);
	int32		code = found ? cell->code : add_value(codes, cell, value);

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(codes->scratch);
	return code;
}

static int32
add_value(GjCodes *codes, Cell *cell, Datum value)
{
	if (codes->nvalues == codes->capacity)
	{
		codes->values = repalloc_huge(codes->values,
									  (Size) 2 * codes->capacity * sizeof(Datum));
		codes->capacity *= 2;
	}
	MemoryContextSwitchTo(codes->values_context);
	cell->value = datumCopy(value, codes->typbyval, codes->typlen);
	cell->code = codes->nvalues;
	codes->values[codes->nvalues] = cell->value;
	return codes->nvalues++;
}

static bool
are_equal(GjCodes *codes, Datum a, Datum b)
{
	return DatumGetBool(FunctionCall2Coll(&codes->equal, codes->collation, a, b));
}

Datum
GjCodesValue(const GjCodes *codes, int32 code)
{
	return codes->values[code];
}
