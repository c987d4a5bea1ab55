/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  Filters of entries: a filter plan (node/filterplan.h) at run time.
 *
 * A batch of entries is tested by the conditions of the tree in order, one column at a time.  The
 * result of a condition is a byte for each entry, with a bit for TRUE and one for FALSE, so that
 * AND, OR and NOT in three-valued logic take few bit operations.  An entry passes if the result is
 * TRUE.
 *
 * The values that columns are compared with are evaluated once per scan, when the first entries
 * arrive.  Without entries they are not evaluated, just as the executor evaluates a filter only if
 * it has a row.  Values that are available are read earlier, for a device that tests the conditions
 * it can.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/arrays.h"
#include "node/filterplan.h"
#include "rows.h"

/* Result of a test for one entry: a bit for TRUE and one for FALSE */
#define GJ_RESULT_NULL			0
#define GJ_RESULT_TRUE			1
#define GJ_RESULT_FALSE			2

typedef enum GjTestKind
{
	GJ_TEST_CONSTANT,			/* the result is yes for each entry */
	GJ_TEST_SAME,				/* the result is yes for each entry whose column is not NULL */
	GJ_TEST_RANGE,				/* low <= column <= high */
	GJ_TEST_LESS,				/* column < number */
	GJ_TEST_LESS_EQUAL,			/* column <= number */
	GJ_TEST_EQUAL,				/* column = number */
	GJ_TEST_NAN,				/* column is not a number */
	GJ_TEST_LISTED				/* column is in the set */
} GjTestKind;

typedef struct GjColumnTest
{
	GjTestKind	kind;
	Oid			type;			/* type as which the column is compared */
	uint8		yes;			/* result if the test holds */
	uint8		no;				/* result if it does not hold */
	int64		low;
	int64		high;
	double		number;
	GjKeySet   *set;			/* elements; GjFloatKey() of floating-point numbers */
} GjColumnTest;

/*
 * Return true if the type is compared in double precision
 */
static inline bool
GjIsFloat(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/*
 * Return the bits of a number, normalized so that equal numbers have equal bits
 */
static inline int64
GjFloatKey(double value)
{
	union
	{
		double		number;
		int64		bits;
	}			both;

	both.number = isnan(value) ? NAN : value == 0.0 ? 0.0 : value;
	return both.bits;
}

/* A step of the plan */
typedef struct Condition
{
	GjFilterStep step;
	int			noperands;
	struct Condition *operands;
	BoolTestType truth;			/* GJ_FILTER_TRUTH */
	int			column;
	Oid			type;			/* type as which the column is compared */
	Oid			value_type;		/* type of the value, or of the array's elements */
	GjFilterOperator operator;
	ExprState  *value;			/* NULL if the condition has no value */
	GjColumnTest test;			/* valid once the filter has been started */
} Condition;

struct GjEntryFilter
{
	Condition	root;			/* an AND */
	List	   *parts;			/* columns that are looked up in exact with the code, or NIL */
	GjExact    *exact;
	uint64		columns;
	Bitmapset  *params;
	ExprContext *econtext;
	bool		computes;		/* true if evaluating the values may fail */
	bool		started;		/* true if the tests have their values */
	MemoryContext context;		/* for sets made from the values */
	GjEntryTest test;			/* the filter as a test for matches */
};

/* State of reading a plan */
typedef struct Reader
{
	GjEntryFilter *filter;
	PlanState  *parent;
	List	   *steps;
	List	   *values;
	int			step;			/* next step */
	int			value;			/* next value */
} Reader;

/* Up to this number of elements, each is compared with all values in a loop */
#define FEW_ELEMENTS			8

/* The elements of an array that go into a test's set */
typedef struct Elements
{
	GjColumnTest *test;
	Oid			type;
} Elements;

static void read_parts(GjEntryFilter *filter, List *parts);
static void read_condition(Reader *reader, Condition *condition);
static void read_operands(Reader *reader, Condition *condition, int noperands);
static void read_column(Reader *reader, Condition *condition);
static int	next_step(Reader *reader);
static void read_value(Reader *reader, Condition *condition);
static bool is_computed(Node *value);
static bool tells_time(Node *node);
static bool is_of_time(Oid function);
static bool collect_params(Node *node, void *params);
static bool is_at_hand(const GjEntryFilter *filter);
static void start(GjEntryFilter *filter);
static void start_condition(GjEntryFilter *filter, Condition *condition);
static bool add_for_device(const Condition *condition, uint8 wanted, gjd_filter *filter);
static int	run_filter(void *arg, const GjBatchColumn *columns, int n, uint16 *rows);
static int	drop_unlisted(GjEntryFilter *filter, const GjBatchColumn *columns, uint16 *rows, int n);
static inline int64 read_word(const GjBatchColumn *column, int i);
static void attach_filter(void *arg, GjEntrySet *set);
static void run(const Condition *condition, const GjBatchColumn *columns, int n,
				uint8 *results);
static void run_operands(const Condition *condition, const GjBatchColumn *columns, int n,
						 uint8 *results);
static void put_to_truth(BoolTestType truth, int n, uint8 *results);
static void run_range(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *pg_restrict results);
static void run_float(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *pg_restrict results);
static void run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n,
					   uint8 *pg_restrict results);
static void run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
					uint8 *pg_restrict results);
static int64 get_key(Oid type, const GjBatchColumn *column, int i);
static bool add(gjd_filter *filter, int column, gjd_test test, int64 low, int64 high);
static void compare_integer(GjColumnTest *test, GjFilterOperator operator, int64 value);
static void compare_float(GjColumnTest *test, GjFilterOperator operator, double value);
static void get_limits(Oid type, int64 *min, int64 *max);
static int64 read_integer(Oid type, Datum value);
static double read_float(Oid type, Datum value);
static void add_element(void *destination, Datum value);
static void test_run(const GjColumnTest *test, const GjBatchColumn *column, int n,
					 uint8 *pg_restrict results);
static bool test_for_device(gjd_filter *filter, int column, const GjColumnTest *test,
							uint8 wanted);
static bool test_null_for_device(gjd_filter *filter, int column, bool isnull);
static void test_compare(GjColumnTest *test, Oid type, GjFilterOperator operator,
						 Oid value_type, Datum value, bool isnull);
static void test_any(GjColumnTest *test, MemoryContext context, Oid type, Oid element_type,
					 Datum array, bool isnull);
static void test_true(GjColumnTest *test);
static void test_constant(GjColumnTest *test, Datum value, bool isnull);

/*
 * Prepare a filter plan, or return NULL if the plan is empty.  The planner has stored its values
 * separately.  The filter lives in the memory context of the query.
 */
GjEntryFilter *
GjEntryFilterInit(List *plan, List *values, PlanState *parent)
{
	GjEntryFilter *filter;
	Reader		reader = {.parent = parent,.values = values};

	if (plan == NIL)
		return NULL;
	Assert(list_length(plan) == GJ_FILTER_PLAN_COUNT);
	filter = palloc0(sizeof(GjEntryFilter));
	filter->context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin filter",
											ALLOCSET_SMALL_SIZES);
	filter->econtext = CreateExprContext(parent->state);
	reader.filter = filter;
	reader.steps = list_nth(plan, GJ_FILTER_PLAN_STEPS);
	if (reader.steps != NIL)
		read_condition(&reader, &filter->root);
	Assert(reader.step == list_length(reader.steps));
	read_parts(filter, list_nth(plan, GJ_FILTER_PLAN_PARTS));
	Assert(reader.value == list_length(values));
	filter->test = (GjEntryTest) {
		.run = run_filter,.attach = attach_filter,.arg = filter,.columns = filter->columns,
		.varies = filter->params != NULL
	};
	/* no device looks up tuples */
	if (filter->root.noperands < 64 && filter->parts == NIL)
		filter->test.parts = (UINT64CONST(1) << filter->root.noperands) - 1;
	return filter;
}

static void
read_parts(GjEntryFilter *filter, List *parts)
{
	ListCell   *lc;

	filter->parts = parts;
	if (parts != NIL)
		filter->columns |= GJ_ENTRY_KEY;
	foreach(lc, parts)
		filter->columns |= GJ_ENTRY_KEY << lfirst_int(lc);
}

static void
read_condition(Reader *reader, Condition *condition)
{
	check_stack_depth();
	condition->step = next_step(reader);
	switch (condition->step)
	{
		case GJ_FILTER_AND:
		case GJ_FILTER_OR:
			read_operands(reader, condition, next_step(reader));
			break;
		case GJ_FILTER_TRUTH:
			condition->truth = next_step(reader);
			read_operands(reader, condition, 1);
			break;
		case GJ_FILTER_NOT:
			read_operands(reader, condition, 1);
			break;
		case GJ_FILTER_COMPARE:
			read_column(reader, condition);
			condition->type = next_step(reader);
			condition->value_type = next_step(reader);
			condition->operator = next_step(reader);
			read_value(reader, condition);
			break;
		case GJ_FILTER_ANY:
			read_column(reader, condition);
			condition->type = next_step(reader);
			condition->value_type = next_step(reader);
			read_value(reader, condition);
			break;
		case GJ_FILTER_NULL:
		case GJ_FILTER_COLUMN:
			read_column(reader, condition);
			test_true(&condition->test);
			break;
		case GJ_FILTER_VALUE:
			read_value(reader, condition);
			break;
	}
}

static void
read_operands(Reader *reader, Condition *condition, int noperands)
{
	condition->noperands = noperands;
	condition->operands = palloc0(noperands * sizeof(Condition));
	for (int i = 0; i < noperands; i++)
		read_condition(reader, &condition->operands[i]);
}

static void
read_column(Reader *reader, Condition *condition)
{
	condition->column = next_step(reader);
	reader->filter->columns |= GJ_ENTRY_KEY << condition->column;
}

static int
next_step(Reader *reader)
{
	return list_nth_int(reader->steps, reader->step++);
}

static void
read_value(Reader *reader, Condition *condition)
{
	Expr	   *value = list_nth(reader->values, reader->value++);

	condition->value = ExecInitExpr(value, reader->parent);
	reader->filter->computes |= is_computed((Node *) value);
	collect_params((Node *) value, &reader->filter->params);
}

/*
 * Return true if evaluating a value could fail.  A param alone cannot.  The planner has evaluated
 * what has no param, to estimate how many rows pass; but a stable function may fail when a cached
 * plan is executed again, unless only the time has changed.
 */
static bool
is_computed(Node *value)
{
	while (IsA(value, RelabelType))
		value = (Node *) ((RelabelType *) value)->arg;
	return !IsA(value, Param) && !tells_time(value);
}

/*
 * Return true if the expression has nothing but constants, the time, and functions that do not
 * fail as time goes by: "now() - interval '1 day'", "current_date"
 */
static bool
tells_time(Node *node)
{
	List	   *args;
	ListCell   *lc;

	switch (nodeTag(node))
	{
		case T_Const:
		case T_SQLValueFunction:
			return true;
		case T_RelabelType:
			return tells_time((Node *) ((RelabelType *) node)->arg);
		case T_FuncExpr:
			if (!is_of_time(((FuncExpr *) node)->funcid))
				return false;
			args = ((FuncExpr *) node)->args;
			break;
		case T_OpExpr:
			if (!is_of_time(get_opcode(((OpExpr *) node)->opno)))
				return false;
			args = ((OpExpr *) node)->args;
			break;
		default:
			return false;
	}
	foreach(lc, args)
	{
		if (!tells_time(lfirst(lc)))
			return false;
	}
	return true;
}

static bool
is_of_time(Oid function)
{
	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
		case F_TIMESTAMP_TIMESTAMPTZ:
		case F_TIMESTAMP_DATE:
		case F_TIMESTAMPTZ_DATE:
		case F_TIMESTAMPTZ_TIMESTAMP:
		case F_DATE_PLI:
		case F_DATE_MII:
		case F_DATE_PL_INTERVAL:
		case F_DATE_MI_INTERVAL:
		case F_TIMESTAMP_PL_INTERVAL:
		case F_TIMESTAMP_MI_INTERVAL:
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
			return true;
		default:
			return false;
	}
}

static bool
collect_params(Node *node, void *params)
{
	Bitmapset **set = params;

	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		*set = bms_add_member(*set, ((Param *) node)->paramid);
	return expression_tree_walker(node, collect_params, params);
}

/*
 * Return the IDs of the executor's parameters in the filter.  When one of them changes, the filter
 * must be reset.
 */
Bitmapset *
GjEntryFilterParams(const GjEntryFilter *filter)
{
	return filter != NULL ? filter->params : NULL;
}

/*
 * Return the filter as a test for matches; NULL if there is no filter
 */
const GjEntryTest *
GjEntryFilterGetTest(const GjEntryFilter *filter)
{
	return filter != NULL ? &filter->test : NULL;
}

/*
 * Return the columns of the index that the filter reads, as bits like those of GjRowShape
 */
uint64
GjEntryFilterColumns(const GjEntryFilter *filter)
{
	return filter != NULL ? filter->columns : 0;
}

/*
 * Forget the values that columns were compared with.  This is cheap, and evaluates nothing.
 */
void
GjEntryFilterReset(GjEntryFilter *filter)
{
	if (filter != NULL)
		filter->started = false;
}

/*
 * Set the table that must list the keys and parts of entries.  Must be called before a match, and
 * the table must live as long as its entries are tested.
 */
void
GjEntryFilterSetExact(GjEntryFilter *filter, GjExact *exact)
{
	if (filter != NULL)
		filter->exact = exact;
}

static void
start(GjEntryFilter *filter)
{
	MemoryContextReset(filter->context);
	start_condition(filter, &filter->root);
	filter->started = true;
}

static void
start_condition(GjEntryFilter *filter, Condition *condition)
{
	MemoryContext old;
	Datum		value;
	bool		isnull;

	for (int i = 0; i < condition->noperands; i++)
		start_condition(filter, &condition->operands[i]);
	if (condition->value == NULL)
		return;

	old = MemoryContextSwitchTo(filter->econtext->ecxt_per_tuple_memory);
	value = ExecEvalExpr(condition->value, filter->econtext, &isnull);
	if (condition->step == GJ_FILTER_COMPARE)
		test_compare(&condition->test, condition->type, condition->operator,
					 condition->value_type, value, isnull);
	else if (condition->step == GJ_FILTER_ANY)
		test_any(&condition->test, filter->context, condition->type, condition->value_type,
				 value, isnull);
	else
		test_constant(&condition->test, value, isnull);
	MemoryContextSwitchTo(old);
	ResetExprContext(filter->econtext);
}

/*
 * List the entries, of n, that pass, in ascending order, and return their number.  columns[] has
 * the columns of GjEntryFilterColumns(); n is at most GJ_BATCH_ROWS.
 */
static int
run_filter(void *arg, const GjBatchColumn *columns, int n, uint16 *rows)
{
	GjEntryFilter *filter = arg;
	uint8		results[GJ_BATCH_ROWS];
	int			npassed = 0;

	Assert(n <= GJ_BATCH_ROWS);
	if (!filter->started)
		start(filter);
	if (filter->root.noperands > 0)
		run(&filter->root, columns, n, results);
	else
		memset(results, GJ_RESULT_TRUE, n);
	for (int i = 0; i < n; i++)
	{
		rows[npassed] = i;
		npassed += results[i] & GJ_RESULT_TRUE;
	}
	return filter->parts == NIL ? npassed : drop_unlisted(filter, columns, rows, npassed);
}

/*
 * Keep those of n entries that the exact table lists, or may list, as their code is a hash.
 * Entries of rows that are not visible are looked up, too, so only words may be compared: see
 * plan/entryfilter.c.
 */
static int
drop_unlisted(GjEntryFilter *filter, const GjBatchColumn *columns, uint16 *rows, int n)
{
	int			nparts = list_length(filter->parts);
	MemoryContext old = MemoryContextSwitchTo(filter->econtext->ecxt_per_tuple_memory);
	Datum	   *values = palloc(nparts * n * sizeof(Datum));
	const Datum *arrays[INDEX_MAX_KEYS];
	int64		codes[GJ_BATCH_ROWS];
	uint32		numbers[GJ_BATCH_ROWS];
	int			nread = 0;
	int			nlisted = 0;
	ListCell   *lc;

	Assert(filter->exact != NULL || n == 0);
	for (int i = 0; i < n; i++)
	{
		bool		isnull = false;

		foreach(lc, filter->parts)
		{
			const uint8 *nulls = columns[lfirst_int(lc)].nulls;

			isnull |= nulls != NULL && nulls[rows[i]];
		}
		if (!isnull)
			rows[nread++] = rows[i];
	}
	for (int i = 0; i < nread; i++)
		codes[i] = read_word(&columns[0], rows[i]);
	foreach(lc, filter->parts)
	{
		Datum	   *part = values + foreach_current_index(lc) * n;
		GjBatchColumn column = columns[lfirst_int(lc)];

		for (int i = 0; i < nread; i++)
			part[i] = Int64GetDatum(read_word(&column, rows[i]));
		arrays[foreach_current_index(lc)] = part;
	}
	GjExactFindWords(filter->exact, nread, codes, arrays, numbers);
	for (int i = 0; i < nread; i++)
	{
		if (numbers[i] != GJ_EXACT_NONE)
			rows[nlisted++] = rows[i];
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(filter->econtext);
	return nlisted;
}

/*
 * Read an integer of an entry
 */
static inline int64
read_word(const GjBatchColumn *column, int i)
{
	switch (column->width)
	{
		case sizeof(int8):
			return ((const int8 *) column->values)[i];
		case sizeof(int16):
			return ((const int16 *) column->values)[i];
		case sizeof(int32):
			return ((const int32 *) column->values)[i];
		default:
			return ((const int64 *) column->values)[i];
	}
}

/*
 * Return true if the values can be read before the first entry arrives.  They cannot if that may
 * fail or run a sub-select, because without entries the values would not be evaluated at all.
 */
static bool
is_at_hand(const GjEntryFilter *filter)
{
	int			param = -1;

	if (filter->computes)
		return false;
	while ((param = bms_next_member(filter->params, param)) >= 0)
		if (filter->econtext->ecxt_param_exec_vals[param].execPlan != NULL)
			return false;
	return true;
}

/*
 * Have a device's entries tested as they are added to a set, and before that, as far as possible,
 * by the device.  If values are not available yet, neither is done: the device needs them with the
 * request, and evaluating them when entries arrive may run a function that uses the device, too.
 */
static void
attach_filter(void *arg, GjEntrySet *set)
{
	GjEntryFilter *filter = arg;
	const Condition *root = &filter->root;
	gjd_filter	on_device = {0};
	uint64		parts = 0;

	if (!filter->started)
	{
		if (!is_at_hand(filter))
			return;
		start(filter);
	}
	for (int i = 0; i < Min(root->noperands, 64); i++)
	{
		uint32		n = on_device.n;

		if (add_for_device(&root->operands[i], GJ_RESULT_TRUE, &on_device))
			parts |= UINT64CONST(1) << i;
		else
			on_device.n = n;
	}
	GjEntrySetTest(set, run_filter, filter, filter->columns);
	GjEntrySetFilter(set, &on_device, parts);
}

/*
 * Add a condition for a device under which the result is the wanted one, TRUE or FALSE.  Returns
 * false, possibly with a part of it added, if that is not possible.
 */
static bool
add_for_device(const Condition *condition, uint8 wanted, gjd_filter *filter)
{
	uint8		other = GJ_RESULT_TRUE + GJ_RESULT_FALSE - wanted;
	bool		possible = true;

	switch (condition->step)
	{
		case GJ_FILTER_AND:
		case GJ_FILTER_OR:
			if (condition->step != (wanted == GJ_RESULT_TRUE ? GJ_FILTER_AND : GJ_FILTER_OR))
				return false;
			for (int i = 0; i < condition->noperands && possible; i++)
				possible = add_for_device(&condition->operands[i], wanted, filter);
			return possible;
		case GJ_FILTER_NOT:
			return add_for_device(condition->operands, other, filter);
		case GJ_FILTER_TRUTH:
			if (wanted != GJ_RESULT_TRUE ||
				(condition->truth != IS_TRUE && condition->truth != IS_FALSE))
				return false;
			return add_for_device(condition->operands,
								  condition->truth == IS_TRUE ? wanted : other, filter);
		case GJ_FILTER_NULL:
			return test_null_for_device(filter, condition->column, wanted == GJ_RESULT_TRUE);
		case GJ_FILTER_COMPARE:
		case GJ_FILTER_ANY:
		case GJ_FILTER_COLUMN:
		case GJ_FILTER_VALUE:
			return test_for_device(filter, condition->column, &condition->test, wanted);
	}
	return false;
}

static void
run(const Condition *condition, const GjBatchColumn *columns, int n, uint8 *results)
{
	const GjBatchColumn *column = &columns[condition->column];

	switch (condition->step)
	{
		case GJ_FILTER_AND:
		case GJ_FILTER_OR:
			run_operands(condition, columns, n, results);
			break;
		case GJ_FILTER_TRUTH:
			run(condition->operands, columns, n, results);
			put_to_truth(condition->truth, n, results);
			break;
		case GJ_FILTER_NOT:
			run(condition->operands, columns, n, results);
			for (int i = 0; i < n; i++)
				results[i] = (results[i] & GJ_RESULT_TRUE) << 1 | results[i] >> 1;
			break;
		case GJ_FILTER_NULL:
			memset(results, GJ_RESULT_FALSE, n);
			for (int i = 0; column->nulls != NULL && i < n; i++)
				results[i] = GJ_RESULT_FALSE - (column->nulls[i] != 0);
			break;
		case GJ_FILTER_COMPARE:
		case GJ_FILTER_ANY:
		case GJ_FILTER_COLUMN:
		case GJ_FILTER_VALUE:
			test_run(&condition->test, column, n, results);
			break;
	}
}

/*
 * Combine the operands: for AND, the result is TRUE if all are TRUE, and FALSE if any is FALSE; for
 * OR it is the other way round
 */
static void
run_operands(const Condition *condition, const GjBatchColumn *columns, int n, uint8 *results)
{
	uint8		others[GJ_BATCH_ROWS];
	uint8		all = condition->step == GJ_FILTER_AND ? GJ_RESULT_TRUE : GJ_RESULT_FALSE;
	uint8		any = GJ_RESULT_TRUE + GJ_RESULT_FALSE - all;

	run(&condition->operands[0], columns, n, results);
	for (int k = 1; k < condition->noperands; k++)
	{
		run(&condition->operands[k], columns, n, others);
		for (int i = 0; i < n; i++)
			results[i] = (results[i] & others[i] & all) | ((results[i] | others[i]) & any);
	}
}

/*
 * Apply IS [NOT] TRUE, FALSE or UNKNOWN, whose result is never NULL
 */
static void
put_to_truth(BoolTestType truth, int n, uint8 *results)
{
	bool		negated = truth == IS_NOT_TRUE || truth == IS_NOT_FALSE ||
		truth == IS_NOT_UNKNOWN;
	uint8		wanted = truth == IS_TRUE || truth == IS_NOT_TRUE ? GJ_RESULT_TRUE :
		truth == IS_FALSE || truth == IS_NOT_FALSE ? GJ_RESULT_FALSE : GJ_RESULT_NULL;
	uint8		yes = negated ? GJ_RESULT_FALSE : GJ_RESULT_TRUE;
	uint8		no = negated ? GJ_RESULT_TRUE : GJ_RESULT_FALSE;

	for (int i = 0; i < n; i++)
		results[i] = results[i] == wanted ? yes : no;
}

/*-------------------------------------------------------------------------
 * Runs of values
 *
 * Loops that test one column of all entries.
 *
 * They have no branches, so that the compiler can process several values at a time.
 *-------------------------------------------------------------------------
 */

/*
 * Test n values of a column.  A constant test does not read them.
 */
static void
test_run(const GjColumnTest *test, const GjBatchColumn *column, int n,
		 uint8 *pg_restrict results)
{
	switch (test->kind)
	{
		case GJ_TEST_CONSTANT:
			memset(results, test->yes, n);
			return;
		case GJ_TEST_SAME:
			memset(results, test->yes, n);
			break;
		case GJ_TEST_RANGE:
			run_range(test, column, n, results);
			break;
		case GJ_TEST_LESS:
		case GJ_TEST_LESS_EQUAL:
		case GJ_TEST_EQUAL:
		case GJ_TEST_NAN:
			run_float(test, column, n, results);
			break;
		case GJ_TEST_LISTED:
			run_listed(test, column, n, results);
			break;
	}
	if (column->nulls != NULL)
	{
		for (int i = 0; i < n; i++)
			results[i] &= column->nulls[i] == 0 ? 0xFF : GJ_RESULT_NULL;
	}
}

/*
 * Test a range with one comparison of unsigned integers: values below low wrap around to values
 * above the span.  This works for signed integers as well.
 */
#define RUN_RANGE(type) \
	do { \
		const type *values = (const type *) column->values; \
		const type	low = (type) test->low; \
		const type	span = (type) ((uint64) test->high - (uint64) test->low); \
		for (int i = 0; i < n; i++) \
			results[i] = no ^ ((type) (values[i] - low) <= span ? change : 0); \
	} while (0)

static void
run_range(const GjColumnTest *test, const GjBatchColumn *column, int n,
		  uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;

	GJ_BY_WIDTH(column->width, RUN_RANGE);
}

#define RUN_FLOAT_LOOP(type, condition) \
	do { \
		for (int i = 0; i < n; i++) \
		{ \
			double		value = ((const type *) column->values)[i]; \
			results[i] = no ^ ((condition) ? change : 0); \
		} \
	} while (0)

#define RUN_FLOAT(condition) \
	do { \
		if (column->width == sizeof(float4)) \
			RUN_FLOAT_LOOP(float4, condition); \
		else \
			RUN_FLOAT_LOOP(float8, condition); \
	} while (0)

static void
run_float(const GjColumnTest *test, const GjBatchColumn *column, int n,
		  uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;
	const double number = test->number;

	if (test->kind == GJ_TEST_LESS)
		RUN_FLOAT(value < number);
	else if (test->kind == GJ_TEST_LESS_EQUAL)
		RUN_FLOAT(value <= number);
	else if (test->kind == GJ_TEST_EQUAL)
		RUN_FLOAT(value == number);
	else
		RUN_FLOAT(value != value);
}

static void
run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n,
		   uint8 *pg_restrict results)
{
	if (test->set->nkeys <= FEW_ELEMENTS && !GjIsFloat(test->type))
	{
		run_few(test, column, n, results);
		return;
	}
	for (int i = 0; i < n; i++)
		results[i] = GjKeySetLists(test->set, get_key(test->type, column, i)) ? test->yes
			: test->no;
}

#define RUN_FEW(type) \
	do { \
		const type	key = (type) test->set->keys[k]; \
		for (int i = 0; i < n; i++) \
			results[i] |= ((const type *) column->values)[i] == key; \
	} while (0)

/*
 * Compare each element with all values.  Elements are values that the column can have, so they fit
 * its width.
 */
static void
run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
		uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;

	memset(results, 0, n);
	for (uint64 k = 0; k < test->set->nkeys; k++)
		GJ_BY_WIDTH(column->width, RUN_FEW);
	for (int i = 0; i < n; i++)
		results[i] = no ^ (results[i] != 0 ? change : 0);
}

/*
 * Return a value in the form in which it would be in a set
 */
static int64
get_key(Oid type, const GjBatchColumn *column, int i)
{
	switch (type)
	{
		case FLOAT4OID:
			return GjFloatKey(((const float4 *) column->values)[i]);
		case FLOAT8OID:
			return GjFloatKey(((const float8 *) column->values)[i]);
		case OIDOID:
			return ((const uint32 *) column->values)[i];
		default:
			break;
	}
	switch (column->width)
	{
		case 1:
			return ((const uint8 *) column->values)[i];
		case 2:
			return ((const int16 *) column->values)[i];
		case 4:
			return ((const int32 *) column->values)[i];
		default:
			return ((const int64 *) column->values)[i];
	}
}

/*-------------------------------------------------------------------------
 * Filters of a device
 *
 * Tests of columns that a device performs.
 *
 * If one entry in a hundred passes, most of the time would be spent on sending the others.  A
 * device supports conditions on values as signed integers (cuda/border/gpujoin_shapes.h), and does
 * not send entries that fail any of them.
 *
 * Claim: it drops only entries that do not pass.  A device tests the same data that it would send:
 * key and columns of one state of an entry in the index (match/device.c), with the bits that they
 * have there.  So it does not matter where an entry is dropped, and the proof at the head of
 * match/stream.c applies here, too.  A condition holds for the values that pass the test, and for
 * no others: tests of integers have been converted to ranges, within the limits of the column's
 * type; dates and timestamps are integers with the same order, including infinity; a boolean is 0
 * or 1.  An oid has no sign, so it is not tested.
 *
 * Only a reduction (match/reduce.c) relies on it, and only if all parts of the filter are sent.
 * Entries that arrive are tested again, by all conditions; those from other sources (tail pages,
 * missing pages of a mirror, the CPU's pieces) have not been tested before.  An answer of TIDs
 * alone is not filtered: it may be outdated.
 *-------------------------------------------------------------------------
 */

/*
 * Add a condition under which the test of a column has the wanted result, TRUE or FALSE.  Returns
 * false if no such condition exists, or if there is no room for it.
 */
static bool
test_for_device(gjd_filter *filter, int column, const GjColumnTest *test, uint8 wanted)
{
	switch (test->kind)
	{
		case GJ_TEST_CONSTANT:
			return test->yes == wanted || add(filter, 0, GJD_BETWEEN, 1, 0);
		case GJ_TEST_SAME:
			if (test->yes == wanted)
				return add(filter, column, GJD_IS_NOT_NULL, 0, 0);
			return add(filter, 0, GJD_BETWEEN, 1, 0);
		case GJ_TEST_RANGE:
			if (test->type == OIDOID)
				return false;
			return add(filter, column, test->yes == wanted ? GJD_BETWEEN : GJD_OUTSIDE,
					   test->low, test->high);
		case GJ_TEST_LESS:
		case GJ_TEST_LESS_EQUAL:
		case GJ_TEST_EQUAL:
		case GJ_TEST_NAN:
		case GJ_TEST_LISTED:
			break;
	}
	return false;
}

/*
 * Add a condition that the column is NULL, or that it is not
 */
static bool
test_null_for_device(gjd_filter *filter, int column, bool isnull)
{
	return add(filter, column, isnull ? GJD_IS_NULL : GJD_IS_NOT_NULL, 0, 0);
}

static bool
add(gjd_filter *filter, int column, gjd_test test, int64 low, int64 high)
{
	gjd_condition *condition = &filter->conditions[filter->n];

	if (filter->n == GJD_MAX_CONDITIONS)
		return false;
	*condition = (gjd_condition) {.column = column,.test = test,.low = low,.high = high};
	filter->n++;
	return true;
}

/*-------------------------------------------------------------------------
 * Tests of entries
 *
 * Create the tests of columns.
 *
 * A comparison of integers, dates and the like is converted to a range.  Floating-point numbers are
 * compared in double precision, to which both types are converted without loss; NaN equals itself
 * and is greater than all others, as everywhere in PostgreSQL.  The elements of an array are
 * converted to a set of keys.
 *-------------------------------------------------------------------------
 */

/*
 * Make a test for: column operator value
 */
static void
test_compare(GjColumnTest *test, Oid type, GjFilterOperator operator, Oid value_type,
			 Datum value, bool isnull)
{
	test->type = type;
	test->yes = GJ_RESULT_TRUE;
	test->no = GJ_RESULT_FALSE;
	if (isnull)
		test_constant(test, value, true);
	else if (GjIsFloat(type))
		compare_float(test, operator, read_float(value_type, value));
	else
		compare_integer(test, operator, read_integer(value_type, value));
}

static inline void
negate(GjColumnTest *test)
{
	test->yes = GJ_RESULT_FALSE;
	test->no = GJ_RESULT_TRUE;
}

/*
 * Make a test for the range of values of the column's type that satisfy the comparison.  The value
 * itself may be outside of the type's limits.
 */
static void
compare_integer(GjColumnTest *test, GjFilterOperator operator, int64 value)
{
	int64		min;
	int64		max;
	bool		empty;

	get_limits(test->type, &min, &max);
	test->kind = GJ_TEST_RANGE;
	test->low = min;
	test->high = max;
	switch (operator)
	{
		case GJ_FILTER_LT:
			empty = value <= min;
			if (!empty)
				test->high = Min(max, value - 1);
			break;
		case GJ_FILTER_LE:
			empty = value < min;
			test->high = Min(max, value);
			break;
		case GJ_FILTER_GT:
			empty = value >= max;
			if (!empty)
				test->low = Max(min, value + 1);
			break;
		case GJ_FILTER_GE:
			empty = value > max;
			test->low = Max(min, value);
			break;
		default:
			empty = value < min || value > max;
			test->low = test->high = value;
			break;
	}
	if (operator == GJ_FILTER_NE)
		negate(test);
	if (empty)
	{
		test->kind = GJ_TEST_SAME;
		test->yes = test->no;
	}
}

/*
 * Make a test of floating-point numbers.  C's comparisons are false if one side is NaN.
 */
static void
compare_float(GjColumnTest *test, GjFilterOperator operator, double value)
{
	bool		negated = operator == GJ_FILTER_GE || operator == GJ_FILTER_GT ||
		operator == GJ_FILTER_NE;
	bool		nan = isnan(value);

	test->number = value;
	switch (operator)
	{
		case GJ_FILTER_LT:
		case GJ_FILTER_GE:
			/* all values except NaN are less than NaN */
			test->kind = nan ? GJ_TEST_NAN : GJ_TEST_LESS;
			negated ^= nan;
			break;
		case GJ_FILTER_LE:
		case GJ_FILTER_GT:
			test->kind = nan ? GJ_TEST_SAME : GJ_TEST_LESS_EQUAL;
			break;
		default:
			test->kind = nan ? GJ_TEST_NAN : GJ_TEST_EQUAL;
			break;
	}
	if (negated)
		negate(test);
}

/*
 * Make a test for: column = ANY (array).  Elements that the column's type cannot have are left out.
 */
static void
test_any(GjColumnTest *test, MemoryContext context, Oid type, Oid element_type, Datum array,
		 bool isnull)
{
	ArrayType  *elements;

	test->type = type;
	if (isnull)
	{
		test_constant(test, array, true);
		return;
	}
	elements = DatumGetArrayTypeP(array);
	if (ArrayGetNItems(ARR_NDIM(elements), ARR_DIMS(elements)) == 0)
	{
		test_constant(test, BoolGetDatum(false), false);
		return;
	}
	test->kind = GJ_TEST_LISTED;
	test->set = GjKeySetCreate(context, sizeof(int64));
	test->yes = GJ_RESULT_TRUE;
	test->no = GjForEachElement(elements, add_element, &(Elements) {test, element_type}) ?
		GJ_RESULT_NULL : GJ_RESULT_FALSE;
	GjKeySetFinish(test->set);
}

static void
add_element(void *destination, Datum value)
{
	GjColumnTest *test = ((Elements *) destination)->test;
	Oid			element_type = ((Elements *) destination)->type;
	int64		min;
	int64		max;
	int64		key;

	if (GjIsFloat(test->type))
	{
		GjKeySetAdd(test->set, GjFloatKey(read_float(element_type, value)));
		return;
	}
	get_limits(test->type, &min, &max);
	key = read_integer(element_type, value);
	if (key >= min && key <= max)
		GjKeySetAdd(test->set, key);
}

/*
 * Make a test for a boolean column
 */
static void
test_true(GjColumnTest *test)
{
	test->kind = GJ_TEST_RANGE;
	test->type = BOOLOID;
	test->low = test->high = false;
	negate(test);
}

/*
 * Make a test whose result is the same for each entry
 */
static void
test_constant(GjColumnTest *test, Datum value, bool isnull)
{
	test->kind = GJ_TEST_CONSTANT;
	test->yes = isnull ? GJ_RESULT_NULL :
		DatumGetBool(value) ? GJ_RESULT_TRUE : GJ_RESULT_FALSE;
}

/*
 * Get the limits of a type that is compared as integers
 */
static void
get_limits(Oid type, int64 *min, int64 *max)
{
	switch (type)
	{
		case BOOLOID:
			*min = false;
			*max = true;
			break;
		case INT2OID:
			*min = PG_INT16_MIN;
			*max = PG_INT16_MAX;
			break;
		case INT4OID:
		case DATEOID:
			*min = PG_INT32_MIN;
			*max = PG_INT32_MAX;
			break;
		case OIDOID:
			*min = 0;
			*max = PG_UINT32_MAX;
			break;
		default:
			*min = PG_INT64_MIN;
			*max = PG_INT64_MAX;
			break;
	}
}

static int64
read_integer(Oid type, Datum value)
{
	switch (type)
	{
		case BOOLOID:
			return DatumGetBool(value);
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		case OIDOID:
			return DatumGetObjectId(value);
		default:
			return DatumGetInt64(value);
	}
}

static double
read_float(Oid type, Datum value)
{
	return type == FLOAT4OID ? DatumGetFloat4(value) : DatumGetFloat8(value);
}
