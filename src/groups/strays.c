/*-------------------------------------------------------------------------
 *
 * strays.c
 *	  Values that have no word.
 *
 * In a batch, the values of a numeric column are words: integers of one scale (base/numeric.c),
 * which the loops for int8 add and compare; those of a text column are two words (pages/wide.c).
 * A row may have any other value, such as NaN, or 1.5 in a column of prices like 1.50, or a text
 * of 20 bytes.  It comes from the table, or from another index.  Such a value is a *stray*: a copy
 * is kept here, and its code is in the place of the first word; the second one is 0.  No word has
 * the bits of a code (GjIsStray).
 *
 * A value that forms groups is a *key*.  Equal keys have one code, and keys that are equal to a
 * word have that word: 1.5 and 1.50 are one group, and the number of digits that it shows is a
 * state of the group (GJ_AGG_FORM).  Keys are kept as long as the groups of a pass, if there is
 * memory.  If not, and if the pass makes no more groups, a further key gets a code of the batch,
 * like an argument: it is forgotten with the batch.  The set of groups spills a row that has such
 * a code, with the value (GjStraysWrite), by a hash of the value, and never looks the code up.
 *
 * A column of a join's small side whose equality is not bitwise has no words at all: each of its
 * values is a key, and is compared by its type's functions (GjStraysAddType).  So is one beside the
 * groups (GJ_AGG_ONE_ROW), but compared by its bytes: 1.5 is not 1.50.  It is needed only for the
 * first row of a group, and once a key is not kept, no more groups are made.
 *
 * So no group is split between passes: a key gets its code when its first row is read, and if that
 * is a code of the batch, no later row gets another one, as no key is kept from then on.  So either
 * all of the key's rows in a pass have the same code, or all are spilled to the same part.
 *
 * An aggregate handles rows with strays one by one.  For each group that has some it keeps, beside
 * the state in words, a sum, a count and a best value, which PostgreSQL's functions compute.  The
 * result is put together in the end.  It is PostgreSQL's own: a sum is shown with the greatest
 * scale of its values, so a group without words must not add their scale; NaN and the infinities
 * are counted, as numeric_avg_accum() does.  The strays of count(DISTINCT) are sorted with the
 * numbers of their groups, on disk if need be, and counted when all rows have been added.
 *
 * Memory for the best values and sums of groups that have strays counts as that of groups: it
 * limits the number of groups, but existing groups may get strays even if the memory is used up, as
 * in PostgreSQL's own hash aggregation.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/numeric.h"
#include "groupparts.h"

#define FIRST_STRAYS			64

/* Keys that are kept whatever the memory is, so that parts with few keys need no further pass */
#define LEAST_KEYS				64

/* Bytes of a key beside its value */
#define KEY_OVERHEAD			64

/* A batch ends when its values have this size */
#define BATCH_BYTES				((Size) 1024 * 1024)

/* A place in the file: its segment, and the offset there, which is at most 1 GB */
#define OFFSET_BITS				31

/* A key, by its number in the list */
typedef struct KeyCell
{
	int32		key;
	uint32		hash;
	char		status;
} KeyCell;

static uint64 strays_hash_value(const GjStrays *strays, const GjStray *stray);
static bool are_equal(const GjStrays *strays, const GjStray *a, const GjStray *b);

#define SH_PREFIX keytable
#define SH_ELEMENT_TYPE KeyCell
#define SH_KEY_TYPE int32
#define SH_KEY key
#define KEY_OF(tb, key) (&((GjStrays *) (tb)->private_data)->keys.strays[key])
#define SH_HASH_KEY(tb, key) \
	((uint32) strays_hash_value((const GjStrays *) (tb)->private_data, KEY_OF(tb, key)))
#define SH_EQUAL(tb, a, b) \
	are_equal((const GjStrays *) (tb)->private_data, KEY_OF(tb, a), KEY_OF(tb, b))
#define SH_STORE_HASH
#define SH_GET_HASH(tb, cell) (cell)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* An aggregate's state for the strays of a group */
typedef struct StraySum
{
	Datum		value;			/* the sum of numbers, or the least or greatest value; 0: none */
	int64		count;			/* of numbers */
	int64		nans;
	int64		infinities;
	int64		negative_infinities;
} StraySum;

typedef struct SumCell
{
	uint32		group;
	char		status;
	StraySum	sum;
} SumCell;

static inline uint32 hash_group(const GjStraySums *sums, uint32 group);

#define SH_PREFIX sumtable
#define SH_ELEMENT_TYPE SumCell
#define SH_KEY_TYPE uint32
#define SH_KEY group
#define SH_HASH_KEY(tb, key) hash_group((const GjStraySums *) (tb)->private_data, key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct GjStraySums
{
	MemoryContext context;
	MemoryContext parent;
	GjSeed		seed;
	sumtable_hash *table;		/* NULL if no group has strays */

	/* Strays that count(DISTINCT) has seen, each with its group's number */
	Size		sort_memory;
	Tuplesortstate *sort;		/* NULL before the first one */
	GjStrayKind kind;
	TupleDesc	desc;
	TupleTableSlot *slot;

	/* The rows of a batch that have words */
	int64		values[GJ_BATCH_ROWS];
	int64		seconds[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	uint32		weights[GJ_BATCH_ROWS];
};

static bool read_numeric(GjStrays *strays, Datum value, int stored_scale, int64 *word,
						 int *scale);
static void make_memory(GjStrays *strays);
static int64 strays_find_key(GjStrays *strays, const GjStray *stray, bool must_keep);
static void strays_append(GjStrayList *list, const GjStray *stray);
static void keep_last(GjStrays *strays, GjStrayList *list);
static void check_permission(Oid function);
static Size size_of(const GjStrays *strays, const GjStray *stray);
static void strays_forget(GjStrayList *list);
static const GjStray *find_stray(const GjStrays *strays, int64 code);
static const char *get_bytes(const GjStrays *strays, const GjStray *stray, int *length);
static int	compare_bytes(const GjStrays *strays, const GjStray *a, const GjStray *b);
static void go_to(BufFile *file, int fileno, off_t offset);
static void read_file(BufFile *file, void *bytes, Size size);
static void add_value(GjStraySums *sums, const GjAggSpec *spec, uint32 group, const GjStray *stray,
					  uint32 weight);
static Datum better_value(const GjAggSpec *spec, Datum a, Datum b);
static void add_number(GjStraySums *sums, StraySum *sum, Numeric value, uint32 weight);
static void add_distinct(GjStraySums *sums, uint32 group, const GjStray *stray);
static void begin_sort(GjStraySums *sums, GjStrayKind kind);
static bool differ(const GjStraySums *sums, const Datum *a, const Datum *b);
static void replace(GjStraySums *sums, Datum *to, Datum value);
static const StraySum *find_sum(const GjStraySums *sums, uint32 group);
static Datum finite_sum(const GjAgg *agg, const void *state, bool has_words,
						const StraySum *strays, int64 *count);
static bool special_sum(const StraySum *strays, Datum *sum);
static Datum scaled_numeric(const GjAgg *agg, GjWideSum sum);

GjStrays *
GjStraysCreate(MemoryContext parent)
{
	GjStrays   *strays = MemoryContextAllocZero(parent, sizeof(GjStrays));

	strays->context = parent;
	strays->seed = GjSeedCreate();
	return strays;
}

/*
 * Have memory for the first stray: most queries meet none
 */
static void
make_memory(GjStrays *strays)
{
	if (strays->scratch != NULL)
		return;
	strays->keys.context = AllocSetContextCreate(strays->context, "gpujoin stray keys",
												 ALLOCSET_DEFAULT_SIZES);
	strays->batch.context = AllocSetContextCreate(strays->context, "gpujoin strays of a batch",
												  ALLOCSET_DEFAULT_SIZES);
	strays->scratch = AllocSetContextCreate(strays->context, "gpujoin strays scratch",
											ALLOCSET_SMALL_SIZES);
}

/*
 * Prepare to keep keys of a type, compared by its functions or as images.  A hash function without
 * a seed is the type's own risk, as in PostgreSQL's grouping nodes.
 */
GjStrayKind
GjStraysAddType(GjStrays *strays, Oid type, Oid collation, bool by_image)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR_FINFO |
											  TYPECACHE_HASH_PROC_FINFO |
											  TYPECACHE_HASH_EXTENDED_PROC_FINFO);
	GjStrayType *added;

	if (!OidIsValid(entry->eq_opr) || !OidIsValid(entry->hash_proc))
		elog(ERROR, "type %u cannot be hashed", type);
	if (!by_image)
		check_permission(entry->eq_opr_finfo.fn_oid);
	if (strays->types == NULL)
		strays->types = MemoryContextAlloc(strays->context, sizeof(GjStrayType));
	else
		strays->types = repalloc(strays->types, (strays->ntypes + 1) * sizeof(GjStrayType));
	added = &strays->types[strays->ntypes++];
	added->collation = collation;
	added->length = entry->typlen;
	added->byval = entry->typbyval;
	added->by_image = by_image;
	added->takes_seed = OidIsValid(entry->hash_extended_proc);
	fmgr_info_cxt(added->takes_seed ? entry->hash_extended_proc : entry->hash_proc, &added->hash,
				  strays->context);
	fmgr_info_cxt(entry->eq_opr_finfo.fn_oid, &added->equal, strays->context);
	return GJ_STRAY_TYPED + strays->ntypes - 1;
}

/* Check that the user may execute the function, as PostgreSQL's own grouping nodes do */
static void
check_permission(Oid function)
{
	AclResult	result = GjCheckMayExecute(function);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

static inline GjStrayType *
type_of(const GjStrays *strays, GjStrayKind kind)
{
	Assert(kind >= GJ_STRAY_TYPED && kind - GJ_STRAY_TYPED < strays->ntypes);
	return &strays->types[kind - GJ_STRAY_TYPED];
}

void
GjStraysBegin(GjStrays *strays, Size room)
{
	strays_forget(&strays->batch);
	strays_forget(&strays->keys);
	strays->table = NULL;
	strays->room = room;
	strays->exist = strays->closed = false;
}

int
GjStraysNextBatch(GjStrays *strays)
{
	strays_forget(&strays->batch);
	return GjStraysBatchRows(strays);
}

int
GjStraysBatchRows(const GjStrays *strays)
{
	Size		mean = strays->nkept == 0 ? 1 : strays->kept_size / strays->nkept + 1;

	if (strays->batch.size > BATCH_BYTES)
		return 0;
	return (int) Max(1, Min(GJ_BATCH_ROWS, BATCH_BYTES / mean));
}

/*
 * Return the code of a value
 */
int64
GjStraysAdd(GjStrays *strays, GjStrayKind kind, Datum value, GjStrayUse use)
{
	MemoryContext old;
	GjStray		stray = {.kind = kind};
	int64		code = -1;

	make_memory(strays);
	old = MemoryContextSwitchTo(strays->scratch);
	strays->exist = true;
	if (kind == GJ_STRAY_NUMERIC)
		stray.value = NumericGetDatum(DatumGetNumeric(value));
	else if (kind >= GJ_STRAY_TYPED && type_of(strays, kind)->length != -1)
		stray.value = value;
	else
		stray.value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	if (use != GJ_STRAY_ARGUMENT)
		code = strays_find_key(strays, &stray, use == GJ_STRAY_KEPT_KEY);
	if (code < 0)
	{
		strays_append(&strays->batch, &stray);
		keep_last(strays, &strays->batch);
		code = GJ_STRAY_BATCH_CODES + strays->batch.n - 1;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(strays->scratch);
	return GJ_STRAY_CODE + code;
}

/*
 * Return the number of a key, which is new or known; -1 if it is new and there is no room for it
 */
static int64
strays_find_key(GjStrays *strays, const GjStray *stray, bool must_keep)
{
	GjStrayList *keys = &strays->keys;
	KeyCell    *cell;
	bool		found;

	CHECK_FOR_INTERRUPTS();
	if (strays->table == NULL)
		strays->table = keytable_create(keys->context, FIRST_STRAYS, strays);
	strays_append(keys, stray);
	cell = keytable_lookup(strays->table, keys->n - 1);
	if (cell == NULL && keys->n > LEAST_KEYS && !must_keep &&
		keys->size + size_of(strays, stray) >= strays->room)
		strays->closed = true;
	if (cell != NULL || (strays->closed && !must_keep))
	{
		keys->n--;
		return cell == NULL ? -1 : cell->key;
	}
	cell = keytable_insert(strays->table, keys->n - 1, &found);
	keep_last(strays, keys);
	return cell->key;
}

/*
 * Append a stray to a list
 */
static void
strays_append(GjStrayList *list, const GjStray *stray)
{
	if (list->strays == NULL)
	{
		list->capacity = FIRST_STRAYS;
		list->strays = MemoryContextAlloc(list->context, FIRST_STRAYS * sizeof(GjStray));
	}
	else if (list->n == list->capacity)
	{
		list->strays = repalloc_huge(list->strays, (Size) 2 * list->capacity * sizeof(GjStray));
		list->capacity *= 2;
	}
	list->strays[list->n++] = *stray;
}

/*
 * Copy the value of the last stray to the list's memory
 */
static void
keep_last(GjStrays *strays, GjStrayList *list)
{
	GjStray	   *stray = &list->strays[list->n - 1];
	const GjStrayType *type = stray->kind < GJ_STRAY_TYPED ? NULL : type_of(strays, stray->kind);
	MemoryContext old = MemoryContextSwitchTo(list->context);

	stray->value = datumCopy(stray->value, type != NULL && type->byval,
							 type != NULL ? type->length : -1);
	list->size += size_of(strays, stray) + KEY_OVERHEAD;
	strays->kept_size += size_of(strays, stray);
	strays->nkept++;
	MemoryContextSwitchTo(old);
}

/*
 * Return the bytes that a value takes
 */
static Size
size_of(const GjStrays *strays, const GjStray *stray)
{
	const GjStrayType *type;

	if (stray->kind < GJ_STRAY_TYPED)
		return VARSIZE_ANY(DatumGetPointer(stray->value));
	type = type_of(strays, stray->kind);
	return type->byval ? sizeof(Datum) : datumGetSize(stray->value, false, type->length);
}

static void
strays_forget(GjStrayList *list)
{
	if (list->strays == NULL)
		return;
	MemoryContextReset(list->context);
	list->strays = NULL;
	list->n = 0;
	list->size = 0;
}

static const GjStray *
find_stray(const GjStrays *strays, int64 code)
{
	uint64		number = (uint64) code - (uint64) GJ_STRAY_CODE;

	Assert(number < GJ_STRAY_BATCH_CODES ? number < strays->keys.n :
		   number - GJ_STRAY_BATCH_CODES < strays->batch.n);
	return number < GJ_STRAY_BATCH_CODES ? &strays->keys.strays[number] :
		&strays->batch.strays[number - GJ_STRAY_BATCH_CODES];
}

/*
 * Return the bytes by which a value is compared.  strays are needed only for a type's.
 */
static const char *
get_bytes(const GjStrays *strays, const GjStray *stray, int *length)
{
	const char *bytes = (const char *) DatumGetPointer(stray->value);
	int			type_length = stray->kind < GJ_STRAY_TYPED ? -1 :
		type_of(strays, stray->kind)->length;

	if (type_length == -1)
	{
		*length = VARSIZE_ANY_EXHDR(bytes);
		if (stray->kind == GJ_STRAY_BPCHAR)
			*length = bpchartruelen(VARDATA_ANY(bytes), *length);
		return VARDATA_ANY(bytes);
	}
	*length = size_of(strays, stray);
	return type_of(strays, stray->kind)->byval ? (const char *) &stray->value : bytes;
}

static int
compare_bytes(const GjStrays *strays, const GjStray *a, const GjStray *b)
{
	int			length_a;
	int			length_b;
	const char *bytes_a = get_bytes(strays, a, &length_a);
	const char *bytes_b = get_bytes(strays, b, &length_b);
	int			difference = memcmp(bytes_a, bytes_b, Min(length_a, length_b));

	return difference != 0 ? difference : length_a - length_b;
}

/*
 * Return the hash of a value, the same for equal ones.  It is seeded, like all hashes here, because
 * values that were chosen to collide would make long runs of cells (base/probe.h).
 */
static uint64
strays_hash_value(const GjStrays *strays, const GjStray *stray)
{
	const char *bytes;
	int			length;

	if (stray->kind >= GJ_STRAY_TYPED && !type_of(strays, stray->kind)->by_image)
	{
		GjStrayType *type = type_of(strays, stray->kind);

		if (type->takes_seed)
			return DatumGetUInt64(FunctionCall2Coll(&type->hash, type->collation, stray->value,
													UInt64GetDatum(strays->seed.value)));
		return strays->seed.value ^
			GjHashFinish(DatumGetUInt32(FunctionCall1Coll(&type->hash, type->collation,
														  stray->value)));
	}
	if (stray->kind == GJ_STRAY_NUMERIC)
		return DatumGetUInt64(DirectFunctionCall2(hash_numeric_extended, stray->value,
												  UInt64GetDatum(strays->seed.value)));
	bytes = get_bytes(strays, stray, &length);
	return DatumGetUInt64(hash_any_extended((const unsigned char *) bytes, length,
											strays->seed.value));
}

static bool
are_equal(const GjStrays *strays, const GjStray *a, const GjStray *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind >= GJ_STRAY_TYPED && !type_of(strays, a->kind)->by_image)
	{
		GjStrayType *type = type_of(strays, a->kind);

		return DatumGetBool(FunctionCall2Coll(&type->equal, type->collation, a->value, b->value));
	}
	if (a->kind == GJ_STRAY_NUMERIC)
		return DatumGetBool(DirectFunctionCall2(numeric_eq, a->value, b->value));
	return compare_bytes(strays, a, b) == 0;
}

bool
GjStraysHash(const GjStrays *strays, int64 code, uint64 *hash)
{
	MemoryContext old;

	if (!GjIsStray(code) || GjStraysKept(code))
		return false;
	old = MemoryContextSwitchTo(strays->scratch);
	*hash = strays_hash_value(strays, find_stray(strays, code));
	MemoryContextSwitchTo(old);
	MemoryContextReset(strays->scratch);
	return true;
}

/*
 * Return the word of a numeric in a column with these scales, or the code of a stray
 */
int64
GjStraysWord(GjStrays *strays, Datum value, int display_scale, int stored_scale)
{
	int64		word = GjNumericToWord(value, display_scale, stored_scale);

	return word != GJ_ABSENT ? word :
		GjStraysAdd(strays, GJ_STRAY_NUMERIC, value, GJ_STRAY_ARGUMENT);
}

/*
 * Return a part of a numeric that forms groups: the word, or the code of a key, which are the same
 * for equal values; or the form, which is its own scale, or -1 if it has a word and that scale is
 * the column's
 */
int64
GjStraysKeyPart(GjStrays *strays, Datum value, int display_scale, int stored_scale,
				GjColumnPart part)
{
	int64		word;
	int			scale;
	bool		has_word = read_numeric(strays, value, stored_scale, &word, &scale);

	if (part == GJ_NUMERIC_FORM)
		return has_word && scale == display_scale ? -1 : scale;
	return has_word ? word : GjStraysAdd(strays, GJ_STRAY_NUMERIC, value, GJ_STRAY_KEY);
}

/*
 * Read a numeric's own scale and its word.  Returns false if it has no word, whatever its scale is.
 */
static bool
read_numeric(GjStrays *strays, Datum value, int stored_scale, int64 *word, int *scale)
{
	MemoryContext old;
	GjNumericParts parts;
	bool		has_word;

	make_memory(strays);
	old = MemoryContextSwitchTo(strays->scratch);
	GjNumericRead(PG_DETOAST_DATUM_PACKED(value), &parts);
	has_word = !parts.is_special && GjNumericScale(&parts, stored_scale, word);
	*scale = parts.is_special ? 0 : parts.display_scale;
	MemoryContextSwitchTo(old);
	MemoryContextReset(strays->scratch);
	return has_word;
}

/*
 * Return the value of a code, or the text that two words are.  The buffer has GJ_RESTORED_BYTES.
 */
Datum
GjStraysText(const GjStrays *strays, int64 first, int64 second, GjRestore restore, char *buffer)
{
	if (GjIsStray(first))
		return find_stray(strays, first)->value;
	restore(first, second, buffer);
	return PointerGetDatum(buffer);
}

/*
 * Return the numeric of a group, which has a form: its scale, or -1 for that of the column
 */
Datum
GjStraysNumeric(const GjStrays *strays, int64 word, int display_scale, int stored_scale, int scale)
{
	Datum		value;
	char	   *zero;
	uint16		header[2] = {(uint16) scale, 0};	/* a zero of this scale, with weight 0 */

	if (GjIsStray(word))
		value = find_stray(strays, word)->value;
	else
	{
		value = PointerGetDatum(palloc(GJ_NUMERIC_BYTES));
		GjNumericOfWord(word, display_scale, stored_scale, DatumGetPointer(value));
	}
	if (scale < 0 || numeric_is_nan(DatumGetNumeric(value)) ||
		numeric_is_inf(DatumGetNumeric(value)))
		return value;

	/* a sum has the greater scale */
	zero = palloc(VARHDRSZ + sizeof(header));
	SET_VARSIZE(zero, VARHDRSZ + sizeof(header));
	memcpy(VARDATA(zero), header, sizeof(header));
	return DirectFunctionCall2(numeric_add, DirectFunctionCall1(numeric_trim_scale, value),
							   PointerGetDatum(zero));
}

/*-------------------------------------------------------------------------
 * Values of spilled rows
 *
 * They are appended to a temporary file, which is never shortened before the groups are begun
 * again.
 *-------------------------------------------------------------------------
 */

int64
GjStraysWrite(GjStrays *strays, int64 code)
{
	GjStray    *stray = unconstify(GjStray *, find_stray(strays, code));
	uint32		size = size_of(strays, stray);
	bool		byval = stray->kind >= GJ_STRAY_TYPED && type_of(strays, stray->kind)->byval;
	int64		place;
	MemoryContext old = MemoryContextSwitchTo(strays->context);

	if (strays->file == NULL)
	{
		strays->file = BufFileCreateTemp(false);
		strays->fileno = 0;
		strays->offset = 0;
	}
	else
		go_to(strays->file, strays->fileno, strays->offset);
	place = (int64) strays->fileno << OFFSET_BITS | strays->offset;
	BufFileWrite(strays->file, &size, sizeof(size));
	BufFileWrite(strays->file, byval ? (void *) &stray->value : DatumGetPointer(stray->value),
				 size);
	BufFileTell(strays->file, &strays->fileno, &strays->offset);
	MemoryContextSwitchTo(old);
	return GJ_STRAY_CODE + place;
}

static void
go_to(BufFile *file, int fileno, off_t offset)
{
	if (BufFileSeek(file, fileno, offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of values")));
}

int64
GjStraysRead(GjStrays *strays, GjStrayKind kind, int64 place, bool is_key)
{
	GjStrayUse	use = is_key ? GJ_STRAY_KEY : GJ_STRAY_ARGUMENT;
	uint64		at = (uint64) place - (uint64) GJ_STRAY_CODE;
	uint32		size;
	char	   *value;
	int64		code;

	go_to(strays->file, (int) (at >> OFFSET_BITS),
		  (off_t) (at & ((UINT64CONST(1) << OFFSET_BITS) - 1)));
	read_file(strays->file, &size, sizeof(size));
	value = MemoryContextAlloc(strays->context, size);
	read_file(strays->file, value, size);
	if (kind >= GJ_STRAY_TYPED && type_of(strays, kind)->byval)
		code = GjStraysAdd(strays, kind, *(Datum *) value, use);
	else
		code = GjStraysAdd(strays, kind, PointerGetDatum(value), use);
	pfree(value);
	return code;
}

static void
read_file(BufFile *file, void *bytes, Size size)
{
	if (BufFileRead(file, bytes, size) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file of values")));
}

/*-------------------------------------------------------------------------
 * Aggregates
 *-------------------------------------------------------------------------
 */

GjStraySums *
GjStraySumsCreate(MemoryContext parent, Size sort_memory)
{
	GjStraySums *sums = MemoryContextAllocZero(parent, sizeof(GjStraySums));

	sums->parent = parent;
	sums->seed = GjSeedCreate();
	sums->sort_memory = sort_memory;
	return sums;
}

/*
 * Forget the groups
 */
void
GjStraySumsClear(GjStraySums *sums)
{
	if (sums->sort != NULL)
	{
		ExecDropSingleTupleTableSlot(sums->slot);
		tuplesort_end(sums->sort);
	}
	if (sums->context != NULL)
		MemoryContextDelete(sums->context);
	sums->context = NULL;
	sums->table = NULL;
	sums->sort = NULL;
}

Size
GjStraySumsMemory(const GjStraySums *sums)
{
	return sums->context == NULL ? 0 : MemoryContextMemAllocated(sums->context, true);
}

/*
 * Remove the rows with strays from the input of an aggregate.  For count(DISTINCT), keep those
 * whose value is equal to a word.
 */
void
GjStraySumsTake(GjStraySums *sums, const GjAggSpec *spec, GjAggInput *input)
{
	const int64 *words = input->values;
	int			n = 0;

	for (int i = 0; i < input->nrows; i++)
	{
		int64		word = words[i];
		uint32		group = input->groups == NULL ? 0 : input->groups[i];
		uint32		weight = input->weights == NULL ? 1 : input->weights[i];
		int			scale;

		if (GjIsStray(word))
		{
			const GjStray *stray = find_stray(spec->strays, word);

			if (spec->kind != GJ_AGG_COUNT_DISTINCT ||
				!read_numeric(spec->strays, stray->value, spec->stored_scale, &word, &scale))
			{
				add_value(sums, spec, group, stray, weight);
				continue;
			}
		}
		sums->values[n] = word;
		if (input->seconds != NULL)
			sums->seconds[n] = ((const int64 *) input->seconds)[i];
		sums->groups[n] = group;
		sums->weights[n++] = weight;
	}
	input->values = sums->values;
	if (input->seconds != NULL)
		input->seconds = sums->seconds;
	if (input->groups != NULL)
		input->groups = sums->groups;
	if (input->weights != NULL)
		input->weights = sums->weights;
	input->nrows = n;
}

static inline uint32
hash_group(const GjStraySums *sums, uint32 group)
{
	return murmurhash32(group ^ (uint32) sums->seed.value);
}

/*
 * Add a stray to the state of its group
 */
static void
add_value(GjStraySums *sums, const GjAggSpec *spec, uint32 group, const GjStray *stray,
		  uint32 weight)
{
	MemoryContext old;
	StraySum   *sum;
	bool		found;

	if (sums->context == NULL)
		sums->context = AllocSetContextCreate(sums->parent, "gpujoin stray sums",
											  ALLOCSET_DEFAULT_SIZES);
	if (spec->kind == GJ_AGG_COUNT_DISTINCT || spec->kind == GJ_AGG_COUNT_PAIRS)
	{
		add_distinct(sums, group, stray);
		return;
	}
	if (sums->table == NULL)
		sums->table = sumtable_create(sums->context, FIRST_STRAYS, sums);
	sum = &sumtable_insert(sums->table, group, &found)->sum;
	if (!found)
		memset(sum, 0, sizeof(StraySum));

	old = MemoryContextSwitchTo(spec->strays->scratch);
	if (spec->kind == GJ_AGG_SUM || spec->kind == GJ_AGG_AVG)
		add_number(sums, sum, DatumGetNumeric(stray->value), weight);
	else
		replace(sums, &sum->value, sum->value == 0 ? stray->value :
				better_value(spec, sum->value, stray->value));
	MemoryContextSwitchTo(old);
	MemoryContextReset(spec->strays->scratch);
}

/*
 * Return the lesser or the greater one of two values
 */
static Datum
better_value(const GjAggSpec *spec, Datum a, Datum b)
{
	GjStray		values[] = {{a, spec->stray_kind}, {b, spec->stray_kind}};

	switch (spec->kind)
	{
		case GJ_AGG_MIN:
			return DirectFunctionCall2(numeric_smaller, a, b);
		case GJ_AGG_MAX:
			return DirectFunctionCall2(numeric_larger, a, b);
		case GJ_AGG_MIN_PAIR:
			return compare_bytes(spec->strays, &values[0], &values[1]) <= 0 ? a : b;
		case GJ_AGG_MAX_PAIR:
			return compare_bytes(spec->strays, &values[0], &values[1]) >= 0 ? a : b;
		default:
			elog(ERROR, "no aggregate of kind %d for values without a word", (int) spec->kind);
	}
}

static void
add_number(GjStraySums *sums, StraySum *sum, Numeric value, uint32 weight)
{
	Datum		times = NumericGetDatum(value);

	if (numeric_is_nan(value))
		sum->nans += weight;
	else if (numeric_is_inf(value))
	{
		GjNumericParts parts;

		GjNumericRead((const struct varlena *) value, &parts);
		*(parts.is_negative ? &sum->negative_infinities : &sum->infinities) += weight;
	}
	else
	{
		if (weight != 1)
			times = DirectFunctionCall2(numeric_mul, times,
										NumericGetDatum(int64_to_numeric(weight)));
		sum->count += weight;
		replace(sums, &sum->value, sum->value == 0 ? times :
				DirectFunctionCall2(numeric_add, sum->value, times));
	}
}

/*
 * Keep a copy of a value in place of another one
 */
static void
replace(GjStraySums *sums, Datum *to, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(sums->context);
	Datum		before = *to;

	if (value != before)
	{
		*to = datumCopy(value, false, -1);
		if (before != 0)
			pfree(DatumGetPointer(before));
	}
	MemoryContextSwitchTo(old);
}

/*
 * Add a value that count(DISTINCT) has seen
 */
static void
add_distinct(GjStraySums *sums, uint32 group, const GjStray *stray)
{
	MemoryContext old = MemoryContextSwitchTo(sums->context);

	if (sums->sort == NULL)
		begin_sort(sums, stray->kind);
	ExecClearTuple(sums->slot);
	sums->slot->tts_values[0] = Int64GetDatum((int64) group);
	sums->slot->tts_values[1] = stray->value;
	ExecStoreVirtualTuple(sums->slot);
	tuplesort_puttupleslot(sums->sort, sums->slot);
	MemoryContextSwitchTo(old);
}

/*
 * Prepare to sort the values by their bytes, or as numbers
 */
static void
begin_sort(GjStraySums *sums, GjStrayKind kind)
{
	Oid			type = kind == GJ_STRAY_NUMERIC ? NUMERICOID :
		kind == GJ_STRAY_BPCHAR ? BPCHAROID : TEXTOID;
	AttrNumber	columns[] = {1, 2};
	Oid			operators[2];
	Oid			collations[] = {InvalidOid, type == NUMERICOID ? InvalidOid : C_COLLATION_OID};
	bool		nulls_first[] = {false, false};

	sums->kind = kind;
	sums->desc = CreateTemplateTupleDesc(2);
	TupleDescInitEntry(sums->desc, 1, "group", INT8OID, -1, 0);
	TupleDescInitEntry(sums->desc, 2, "value", type, -1, 0);
	TupleDescInitEntryCollation(sums->desc, 2, collations[1]);
	GjTupleDescFinalize(sums->desc);
	for (int i = 0; i < lengthof(operators); i++)
		operators[i] = lookup_type_cache(TupleDescAttr(sums->desc, i)->atttypid,
										 TYPECACHE_LT_OPR)->lt_opr;
	sums->slot = MakeSingleTupleTableSlot(sums->desc, &TTSOpsVirtual);
	memset(sums->slot->tts_isnull, 0, 2 * sizeof(bool));
	sums->sort = tuplesort_begin_heap(sums->desc, 2, columns, operators, collations, nulls_first,
									  (int) Max(sums->sort_memory / 1024, 64), NULL,
									  TUPLESORT_NONE);
}

/*
 * Count the strays that count(DISTINCT) has seen, and forget them
 */
void
GjStraySumsCount(GjStraySums *sums, int64 *counts)
{
	MemoryContext scratch;
	TupleTableSlot *slots[2];
	Datum		before[2] = {Int64GetDatum(-1), (Datum) 0};

	if (sums->sort == NULL)
		return;
	scratch = AllocSetContextCreate(sums->context, "gpujoin strays scratch",
									ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < lengthof(slots); i++)
		slots[i] = MakeSingleTupleTableSlot(sums->desc, &TTSOpsMinimalTuple);
	tuplesort_performsort(sums->sort);
	for (int i = 0; tuplesort_gettupleslot(sums->sort, true, true, slots[i], NULL); i = 1 - i)
	{
		MemoryContext old = MemoryContextSwitchTo(scratch);

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slots[i]);
		if (differ(sums, before, slots[i]->tts_values))
			counts[DatumGetInt64(slots[i]->tts_values[0])]++;
		memcpy(before, slots[i]->tts_values, sizeof(before));
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
	}
	for (int i = 0; i < lengthof(slots); i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	GjStraySumsClear(sums);
}

/*
 * Return true if two groups or their values differ
 */
static bool
differ(const GjStraySums *sums, const Datum *a, const Datum *b)
{
	GjStray		values[] = {{a[1], sums->kind}, {b[1], sums->kind}};

	return DatumGetInt64(a[0]) != DatumGetInt64(b[0]) ||
		!are_equal(NULL, &values[0], &values[1]);
}

/*-------------------------------------------------------------------------
 * Results
 *-------------------------------------------------------------------------
 */

/*
 * Return the state for a group's strays, or NULL if it has none
 */
static const StraySum *
find_sum(const GjStraySums *sums, uint32 group)
{
	SumCell    *cell = sums->table == NULL ? NULL : sumtable_lookup(sums->table, group);

	return cell == NULL ? NULL : &cell->sum;
}

/*
 * Return the result of an aggregate of numerics, from the state, which is of words, and from the
 * values that have none
 */
Datum
GjNumericResult(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;
	const StraySum *strays = find_sum(agg->stray_sums, group);
	bool		is_average = agg->spec.kind == GJ_AGG_AVG;
	bool		has_words = is_average ? ((const GjWideAverage *) state)->count > 0 :
		!agg->keeps_seen || agg->seen.start[group];
	Datum		value = (Datum) 0;
	int64		count;

	*isnull = !has_words && strays == NULL;
	if (*isnull)
		return (Datum) 0;
	if (agg->spec.kind == GJ_AGG_MIN || agg->spec.kind == GJ_AGG_MAX)
	{
		if (!has_words)
			return datumCopy(strays->value, false, -1);
		value = scaled_numeric(agg, (GjWideSum) {*(const int64 *) state,
							   *(const int64 *) state < 0 ? -1 : 0});
		if (strays == NULL)
			return value;
		return DirectFunctionCall2(agg->spec.kind == GJ_AGG_MIN ? numeric_smaller :
								   numeric_larger, value, strays->value);
	}
	if (strays != NULL && special_sum(strays, &value))
		return value;
	value = finite_sum(agg, state, has_words, strays, &count);
	if (!is_average)
		return value;
	return DirectFunctionCall2(numeric_div, value, NumericGetDatum(int64_to_numeric(count)));
}

/*
 * Return the result of min() or max() of texts, likewise
 */
Datum
GjTextResult(const GjAgg *agg, uint32 group, bool *isnull)
{
	const GjWordPair *state = (const GjWordPair *) agg->states.start + group;
	const StraySum *strays = find_sum(agg->stray_sums, group);
	bool		has_words = !agg->keeps_seen || agg->seen.start[group];
	Datum		value;

	*isnull = !has_words && strays == NULL;
	if (*isnull)
		return (Datum) 0;
	value = PointerGetDatum(palloc(GJ_RESTORED_BYTES));
	if (has_words)
		agg->spec.restore(state->first, state->second, DatumGetPointer(value));
	if (strays != NULL)
		value = has_words ? better_value(&agg->spec, value, strays->value) : strays->value;
	return value;
}

/*
 * Return the sum of the values that are numbers, which has the greatest scale of them, and their
 * count, if it is an average
 */
static Datum
finite_sum(const GjAgg *agg, const void *state, bool has_words, const StraySum *strays,
		   int64 *count)
{
	Datum		strays_sum = strays == NULL ? (Datum) 0 : strays->value;

	*count = strays == NULL ? 0 : strays->count;
	if (agg->spec.kind == GJ_AGG_AVG)
		*count += ((const GjWideAverage *) state)->count;
	if (!has_words)
		return strays_sum != (Datum) 0 ? datumCopy(strays_sum, false, -1) :
			NumericGetDatum(int64_to_numeric(0));
	if (strays_sum == (Datum) 0)
		return scaled_numeric(agg, *(const GjWideSum *) state);
	return DirectFunctionCall2(numeric_add, scaled_numeric(agg, *(const GjWideSum *) state),
							   strays_sum);
}

/*
 * Return true if a sum is not a number, and set it
 */
static bool
special_sum(const StraySum *strays, Datum *sum)
{
	const char *name;

	if (strays->nans > 0 || (strays->infinities > 0 && strays->negative_infinities > 0))
		name = "NaN";
	else if (strays->infinities > 0)
		name = "Infinity";
	else if (strays->negative_infinities > 0)
		name = "-Infinity";
	else
		return false;
	*sum = DirectFunctionCall3(numeric_in, CStringGetDatum(name), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
	return true;
}

/*
 * Make a numeric of a word or a sum of words
 */
static Datum
scaled_numeric(const GjAgg *agg, GjWideSum sum)
{
	int			display_scale = agg->spec.display_scale;
	int			stored_scale = agg->spec.stored_scale;
	char	   *buffer;
	Datum		value;

	if (sum.high == -(int64) ((int64) sum.low < 0) && (int64) sum.low != PG_INT64_MIN)
	{
		buffer = palloc(GJ_NUMERIC_BYTES);
		GjNumericOfWord((int64) sum.low, display_scale, stored_scale, buffer);
		return PointerGetDatum(buffer);
	}

	/* multiply by 10^-S, which is exact, and show D digits */
	buffer = palloc(GJ_NUMERIC_BYTES);
	GjNumericOfWord(1, stored_scale, stored_scale, buffer);
	value = DirectFunctionCall2(numeric_mul, GjWideNumeric(sum), PointerGetDatum(buffer));
	return DirectFunctionCall2(numeric_round, value, Int32GetDatum(display_scale));
}

/*
 * Return the state of sum() or avg() of a group for a parallel plan, both of which have the kind
 * of the latter: the output of numeric_avg_serialize()
 */
Datum
GjNumericState(const GjAgg *agg, uint32 group)
{
	const void *average = agg->states.start + group * agg->state_size;
	static const StraySum none = {0};
	const StraySum *strays = find_sum(agg->stray_sums, group);
	StringInfoData buf;
	int64		count;
	Datum		sum = finite_sum(agg, average, ((const GjWideAverage *) average)->count > 0, strays,
								 &count);
	int			scale;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	scale = GjSendNumeric(&buf, sum);
	/* only moving aggregates use the greatest scale, and the number of values that have it */
	pq_sendint32(&buf, scale);
	pq_sendint64(&buf, count);
	strays = strays == NULL ? &none : strays;
	pq_sendint64(&buf, strays->nans);
	pq_sendint64(&buf, strays->infinities);
	pq_sendint64(&buf, strays->negative_infinities);
	return PointerGetDatum(pq_endtypsend(&buf));
}
