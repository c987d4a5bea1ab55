/*-------------------------------------------------------------------------
 *
 * exactselftest.c
 *	  Test of exact tables (sets/exact.c) against a list that is searched from its start.
 *
 * Elements are random, from a fixed seed, with few values, so that many are equal: as integers of
 * different widths, and as spellings of one numeric.  Codes are the first value, one of three, or
 * always the same, so that parts must tell elements apart.  Many rows repeat the row before.  Some
 * elements are listed without being looked for, so that the first search has to enter them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "sets/sets.h"

#define MAX_PARTS				3
#define MAX_ELEMENTS			900
#define ROWS					(2 * GJ_BATCH_ROWS + 100)
#define PAIRS					3000
#define ORDERED_CODES			1000
#define ORDERED_RESTS			5
#define ROUNDS					70

/* Memory of a table of pairs: its contexts, and elements and cells that are an eighth full */
#define MOST_FIXED_BYTES		(32 * 1024)
#define MOST_PAIR_BYTES			(8 * 16 + 16 * 9)

/* The types of the parts' operators, all of which are named "=" */
static const struct
{
	Oid			row_type;
	Oid			value_type;
} operators[] = {
	{INT8OID, INT2OID}, {INT4OID, INT8OID}, {BOOLOID, BOOLOID},
	{TEXTOID, TEXTOID}, {NUMERICOID, NUMERICOID}, {BPCHAROID, BPCHAROID},
};

typedef struct TestTable
{
	int			nparts;
	int			kinds[MAX_PARTS];	/* in operators[] */
	int			codes;			/* number of different codes, or 0: as many as first values */
	int			nlisted;
	int			listed[MAX_ELEMENTS][MAX_PARTS];
} TestTable;

PG_FUNCTION_INFO_V1(gpujoin_exact_selftest);

/*
 * Make the value of a number, in one of several spellings
 */
static Datum
make_value(Oid type, int number, bool other_spelling)
{
	switch (type)
	{
		case INT2OID:
			return Int16GetDatum((int16) (number - 5));
		case INT4OID:
			return Int32GetDatum(number - 5);
		case INT8OID:
			return Int64GetDatum((int64) number - 5);
		case BOOLOID:
			return BoolGetDatum(number % 2 == 1);
		case NUMERICOID:
			return DirectFunctionCall3(numeric_in,
									   CStringGetDatum(psprintf(other_spelling ? "%d.500" : "%d.5",
																number)),
									   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
		default:
			return CStringGetTextDatum(psprintf("%d%s", number,
												type == BPCHAROID && other_spelling ? "  " : ""));
	}
}

static bool
numbers_are_equal(const TestTable *table, const int *a, const int *b)
{
	for (int i = 0; i < table->nparts; i++)
	{
		bool		is_bool = operators[table->kinds[i]].row_type == BOOLOID;

		if (is_bool ? a[i] % 2 != b[i] % 2 : a[i] != b[i])
			return false;
	}
	return true;
}

static uint32
find_listed(const TestTable *table, const int *numbers)
{
	for (int i = 0; i < table->nlisted; i++)
	{
		if (numbers_are_equal(table, table->listed[i], numbers))
			return i;
	}
	return GJ_EXACT_NONE;
}

static int64
make_code(const TestTable *table, const int *numbers)
{
	bool		is_bool = operators[table->kinds[0]].row_type == BOOLOID;
	int			first = is_bool ? numbers[0] % 2 : numbers[0];

	return table->codes == 0 ? first : first % table->codes;
}

/*
 * Add random elements to a table and to a list, then look up random rows, one by one and together
 */
static int64
run_round(pg_prng_state *prng)
{
	TestTable  *table = palloc0(sizeof(TestTable));
	GjExactPart parts[MAX_PARTS];
	GjExact    *exact;
	int			span = 2 + pg_prng_uint64(prng) % (pg_prng_bool(prng) ? 30 : 30000);
	int64	   *codes = palloc_array(int64, ROWS);
	uint32	   *found = palloc_array(uint32, ROWS);
	uint32	   *expected = palloc_array(uint32, ROWS);
	bool		repeats = pg_prng_bool(prng);
	bool		lists = pg_prng_bool(prng);
	Datum	   *values[MAX_PARTS];

	table->nparts = 1 + pg_prng_uint64(prng) % MAX_PARTS;
	table->codes = (int) (pg_prng_uint64(prng) % 3) * 2 % 3;
	for (int i = 0; i < table->nparts; i++)
	{
		int			kind = (int) (pg_prng_uint64(prng) % lengthof(operators));
		Oid			opno = OpernameGetOprid(list_make1(makeString("=")), operators[kind].row_type,
											operators[kind].value_type);
		Oid			type = operators[kind].row_type;

		table->kinds[i] = kind;
		values[i] = palloc_array(Datum, ROWS);
		if (!GjExactPartInit(&parts[i], opno, type_is_collatable(type) ? C_COLLATION_OID :
							 InvalidOid, InvalidOid))
			elog(ERROR, "operator %u is said not to be usable", opno);
	}
	exact = GjExactCreate(CurrentMemoryContext, table->nparts, parts,
						  table->nparts == 1 && pg_prng_bool(prng),
						  pg_prng_bool(prng) ? 0 : MAX_ELEMENTS / 2);

	for (int n = 0; n < MAX_ELEMENTS; n++)
	{
		int		   *numbers = table->listed[table->nlisted];
		Datum		value[MAX_PARTS];
		uint32		listed;
		bool		was_there;

		for (int i = 0; i < table->nparts; i++)
		{
			numbers[i] = (int) (pg_prng_uint64(prng) % span);
			value[i] = make_value(operators[table->kinds[i]].value_type, numbers[i],
								  pg_prng_bool(prng));
		}
		listed = find_listed(table, numbers);
		if (lists && n % 100 != 99)
		{
			GjExactList(exact, make_code(table, numbers), value, n % 3 == 0);
			table->nlisted += listed == GJ_EXACT_NONE;
			continue;
		}
		if (GjExactAdd(exact, make_code(table, numbers), value, n % 3 == 0, &was_there) !=
			(listed == GJ_EXACT_NONE ? (uint32) table->nlisted : listed) ||
			was_there != (listed != GJ_EXACT_NONE))
			elog(ERROR, "an element of an exact table got a wrong number");
		if (!was_there && GjExactCode(exact, table->nlisted) != make_code(table, numbers))
			elog(ERROR, "an element of an exact table has a wrong code");
		table->nlisted += !was_there;
	}
	for (int n = 0; n < ROWS; n++)
	{
		int			numbers[MAX_PARTS];
		Datum		value[MAX_PARTS];

		if (repeats && n > 0 && pg_prng_uint64(prng) % 20 != 0)
		{
			for (int i = 0; i < table->nparts; i++)
				values[i][n] = values[i][n - 1];
			codes[n] = codes[n - 1];
			expected[n] = expected[n - 1];
			continue;
		}
		for (int i = 0; i < table->nparts; i++)
		{
			numbers[i] = (int) (pg_prng_uint64(prng) % (span + span / 2));
			value[i] = values[i][n] = make_value(operators[table->kinds[i]].row_type, numbers[i],
												 pg_prng_bool(prng));
		}
		codes[n] = make_code(table, numbers);
		expected[n] = find_listed(table, numbers);
		if (GjExactFind(exact, codes[n], value) != expected[n])
			elog(ERROR, "an exact table finds a wrong element");
	}
	GjExactFindMany(exact, ROWS, codes, (const Datum *const *) values, found);
	if (memcmp(found, expected, ROWS * sizeof(uint32)) != 0)
		elog(ERROR, "an exact table finds wrong elements");
	if (GjExactCount(exact) != (uint32) table->nlisted)
		elog(ERROR, "an exact table has %u elements instead of %d", GjExactCount(exact),
			 table->nlisted);
	return MAX_ELEMENTS + ROWS;
}

/*
 * Look up entries: codes with their rests, and codes that are hashes, which prove nothing.  Codes
 * are listed with every third rest.
 */
static int64
run_entries(pg_prng_state *prng)
{
	Oid			opno = OpernameGetOprid(list_make1(makeString("=")), TEXTOID, TEXTOID);
	GjExactPart part;
	GjExact    *exact;
	int64	   *codes = palloc_array(int64, ROWS);
	Datum	   *rests = palloc_array(Datum, ROWS);
	uint32	   *found = palloc_array(uint32, ROWS);
	const Datum *parts[1] = {rests};

	if (!GjExactPartInit(&part, opno, C_COLLATION_OID, InvalidOid))
		elog(ERROR, "operator %u is said not to be usable", opno);
	GjExactPartUseRest(&part);
	exact = GjExactCreate(CurrentMemoryContext, 1, &part, pg_prng_bool(prng), 0);
	for (int code = -20; code < 20; code++)
	{
		for (int rest = 0; rest < 30; rest += 3)
		{
			Datum		value = code < 0 ? make_value(TEXTOID, rest, false) : Int64GetDatum(rest);
			bool		was_there;

			(void) GjExactAdd(exact, code < 0 ? PG_INT64_MIN - code : code, &value, false,
							  &was_there);
		}
	}
	for (int n = 0; n < ROWS; n++)
	{
		bool		repeats = n > 0 && pg_prng_uint64(prng) % 10 != 0;
		int			code = (int) (pg_prng_uint64(prng) % 50) - 25;

		codes[n] = repeats ? codes[n - 1] : code < 0 ? PG_INT64_MIN - code : code;
		rests[n] = n > 0 && pg_prng_uint64(prng) % 10 != 0 ? rests[n - 1] :
			Int64GetDatum(pg_prng_uint64(prng) % 30);
	}
	GjExactFindWords(exact, ROWS, codes, parts, found);
	for (int n = 0; n < ROWS; n++)
	{
		int64		rest = DatumGetInt64(rests[n]);
		uint32		number = (uint32) (200 + codes[n] * 10 + rest / 3);

		if (found[n] != (codes[n] < 0 ? GJ_EXACT_UNKNOWN :
						 codes[n] < 20 && rest % 3 == 0 ? number : GJ_EXACT_NONE))
			elog(ERROR, "an exact table finds a wrong element for an entry");
	}
	return ROWS;
}

/*
 * Look up entries in the order of their codes, among pairs that are listed in order, some of them
 * twice: no element gets a cell.  The same with the last entry out of order needs cells.
 */
static int64
run_ordered(pg_prng_state *prng)
{
	GjExactPart part = {.row_length = pg_prng_bool(prng) ? -1 : sizeof(int64)};
	bool		is_rest = part.row_length == -1;
	int			density = 1 + pg_prng_uint64(prng) % 20;
	bool		listed[ORDERED_CODES][ORDERED_RESTS];
	int64	   *codes = palloc_array(int64, ROWS);
	Datum	   *rests = palloc_array(Datum, ROWS);
	uint32	   *found = palloc_array(uint32, ROWS);
	const Datum *parts[1] = {rests};
	int64		code = PG_INT64_MIN;
	GjExact    *exact;
	uint32		n;

	GjExactPartUseRest(&part);
	exact = GjExactCreate(CurrentMemoryContext, 1, &part, true, 0);
	for (int i = 0; i < ORDERED_CODES * ORDERED_RESTS; i++)
	{
		Datum		rest = Int64GetDatum(i % ORDERED_RESTS - 2);
		bool	   *is_listed = &listed[i / ORDERED_RESTS][i % ORDERED_RESTS];

		*is_listed = pg_prng_uint64(prng) % density == 0;
		for (int k = 0; *is_listed && k <= i % 2; k++)
			GjExactList(exact, i / ORDERED_RESTS, &rest, true);
	}
	for (int i = 0; i < ROWS; i++)
	{
		codes[i] = code;
		rests[i] = Int64GetDatum(pg_prng_uint64(prng) % ORDERED_RESTS - 2);
		code += pg_prng_uint64(prng) % 3;
		if (i == 20)
			code = 0;
	}
	for (int round = 0; round < 2; round++)
	{
		GjExactFindWords(exact, ROWS, codes, parts, found);
		for (int i = 0; i < ROWS; i++)
		{
			bool		has = codes[i] >= 0 && codes[i] < ORDERED_CODES &&
				listed[codes[i]][DatumGetInt64(rests[i]) + 2];

			if (is_rest && codes[i] < 0 ? found[i] != GJ_EXACT_UNKNOWN :
				has != (found[i] != GJ_EXACT_NONE))
				elog(ERROR, "an exact table finds a wrong element for an entry in order");
		}
		if (GjExactCount(exact) > 0 && (GjExactListed(exact, &n) != NULL) != (round == 0))
			elog(ERROR, "elements %s cells", round == 0 ? "in order got" : "got no");
		codes[ROWS - 1] = 0;
	}
	return 2 * ROWS;
}

/*
 * List pairs for a device: those whose code is in a set that has half of the codes, or all.  Codes
 * are spread over all integers, differ in few bits, or are few; some pairs are equal.  The least
 * integer differs from others in the uppermost bit, and so makes those that differ in few bits have
 * the same upper bits: sorting by these gives up.
 */
static int64
run_pairs(pg_prng_state *prng)
{
	int			npairs = (int) (pg_prng_uint64(prng) % PAIRS);
	uint64		ncodes = 1 + pg_prng_uint64(prng) % (pg_prng_bool(prng) ? PAIRS : 20);
	uint64		factor = pg_prng_bool(prng) ? UINT64CONST(0x9E3779B97F4A7C15) :
		UINT64CONST(1) << pg_prng_uint64(prng) % 60;
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, sizeof(int64));
	GjExactPart part = {0};
	GjExact    *pairs;
	bool		narrowed = pg_prng_bool(prng);
	GjProofs   *proofs;
	uint64		expected = 0;

	GjExactPartUseRest(&part);
	pairs = GjExactCreate(CurrentMemoryContext, 1, &part, false, 0);
	GjExactListPairs(pairs, 1, &(int64) {PG_INT64_MIN}, &(int64) {0});
	GjKeySetAdd(set, PG_INT64_MIN);
	set->spread = pg_prng_bool(prng);
	for (int i = 0; i < npairs; i++)
	{
		int64		code = (int64) (pg_prng_uint64(prng) % ncodes * factor);
		int64		rest = (int64) (pg_prng_uint64(prng) % 5) - 2;

		GjExactListPairs(pairs, 1, &code, &rest);
		if (!narrowed || (code / 8) % 2 == 0)
			GjKeySetAdd(set, code);
	}
	GjKeySetFinish(set);
	set->narrowed = narrowed;
	proofs = GjProofsCreate(CurrentMemoryContext, set, pairs, 1);

	for (uint64 i = 0; i < proofs->n; i++)
	{
		Datum		rest = Int64GetDatum(proofs->rests[i]);

		if (!GjKeySetContains(set, proofs->codes[i]) ||
			GjExactFind(pairs, proofs->codes[i], &rest) == GJ_EXACT_NONE)
			elog(ERROR, "a pair is listed for a device that is not in the table");
		if (i > 0 && (proofs->codes[i - 1] > proofs->codes[i] ||
					  (proofs->codes[i - 1] == proofs->codes[i] &&
					   proofs->rests[i - 1] >= proofs->rests[i])))
			elog(ERROR, "pairs that are listed for a device do not ascend");
	}
	(void) GjExactFind(pairs, 0, &(Datum) {0});
	if (MemoryContextMemAllocated(GetMemoryChunkContext(pairs), true) >
		MOST_FIXED_BYTES + GjExactCount(pairs) * MOST_PAIR_BYTES)
		elog(ERROR, "an exact table keeps the memory of elements that are repeated");
	for (uint32 i = 0; i < GjExactCount(pairs); i++)
		expected += GjKeySetContains(set, GjExactCode(pairs, i));
	if (proofs->n != expected)
		elog(ERROR, UINT64_FORMAT " pairs are listed for a device instead of " UINT64_FORMAT,
			 proofs->n, expected);
	GjKeySetFree(set);
	return npairs;
}

/*
 * Compare exact tables with lists; returns the number of comparisons
 */
Datum
gpujoin_exact_selftest(PG_FUNCTION_ARGS)
{
	pg_prng_state prng;
	int64		n = 0;

	pg_prng_seed(&prng, 42);
	for (int i = 0; i < ROUNDS; i++)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "exact table test",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(context);

		n += run_round(&prng) + run_entries(&prng) + run_ordered(&prng) + run_pairs(&prng);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(context);
	}
	PG_RETURN_INT64(n);
}
