/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  Filters of entries: a filter plan (node/scanplan.h) at run time.
 *
 * A batch of entries is tested by the conditions of the tree in order, one column at a time.  The
 * result of a condition is a byte for each entry, with a bit for TRUE and one for FALSE, so that
 * AND, OR and NOT in three-valued logic take few bit operations.  An entry passes if the result is
 * TRUE.
 *
 * A numeric column has words, which are tested as integers, and a text column two words.  An entry
 * may lack these (base/numeric.c, pages/wide.c); then it passes, and the row is tested when it has
 * been read from the table.
 *
 * The values that columns are compared with are evaluated once per scan, when the first entries
 * arrive.  Values that are available are read earlier ("Early values" below), for a device that
 * tests the conditions it can.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "port/pg_bitutils.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "columntest.h"

/* A step of the plan */
typedef struct Condition
{
	GjStep		step;
	int			noperands;
	struct Condition *operands;
	BoolTestType truth;			/* GJ_STEP_TRUTH */
	int			column;
	int			second;			/* column with the second words of the values, or 0 */
	Oid			type;			/* type as which the column is compared */
	Oid			value_type;		/* type of the value, or of the array's elements */
	GjFilterOperator operator;
	ExprState  *value;			/* NULL if the condition has no value */
	uint64		words;			/* numeric columns that it and its operands compare */
	GjColumnTest test;			/* valid once the filter has been started */
} Condition;

struct GjEntryFilter
{
	Condition	root;			/* an AND */
	GjIndexInfo info;
	List	   *parts;			/* columns that are looked up in exact with the code, or NIL */
	uint64		part_words;		/* those of them that may lack a value */
	const GjKeySet *keys;		/* of the match */
	GjExact    *exact;
	uint64		columns;
	uint64		words;			/* columns with words that an entry may lack */
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
	GjStepReader steps;
} Reader;

static void read_parts(GjEntryFilter *filter, List *parts);
static bool tests_rests(const GjEntryFilter *filter);
static int	add_column(GjEntryFilter *filter, int column);
static void read_condition(Reader *reader, Condition *condition, Expr *expr);
static void read_operands(Reader *reader, Condition *condition, List *operands);
static void note_words(Reader *reader, Condition *condition);
static void read_column(Reader *reader, Condition *condition);
static void read_value(Reader *reader, Condition *condition, Expr *value);
static bool is_at_hand(const GjEntryFilter *filter);
static void filter_start(GjEntryFilter *filter);
static void start_condition(GjEntryFilter *filter, Condition *condition);
static bool add_for_device(const Condition *condition, uint8 wanted, gjd_filter *filter);
static int	run_filter(void *arg, const GjBatchColumn *columns, int n, uint16 *rows);
static void run_on_words(const Condition *root, const GjBatchColumn *columns, int n,
						 uint8 *results);
static int	drop_unlisted(GjEntryFilter *filter, const GjBatchColumn *columns, int nentries,
						  uint16 *rows, int n);
static int	drop_nulls(const GjEntryFilter *filter, const GjBatchColumn *columns, uint16 *rows,
					   int n);
static int	list_complete(const GjEntryFilter *filter, const GjBatchColumn *columns,
						  const uint16 *rows, int n, uint16 *complete);
static const Datum *read_part(const GjIncludedColumn *included, const GjBatchColumn *columns,
							  int column, int nentries, int n, const uint16 *rows, char *bytes,
							  Datum *values);
static const int64 *filter_read_words(const GjBatchColumn *column, int nentries, int n,
									  const uint16 *rows, int64 *words);
static void attach_filter(void *arg, GjEntrySet *set);
static bool may_prove(const GjEntryFilter *filter);
static void run(const Condition *condition, const GjBatchColumn *columns, int n,
				uint8 *results);
static void run_operands(const Condition *condition, const GjBatchColumn *columns, int n,
						 uint8 *results);
static void put_to_truth(BoolTestType truth, int n, uint8 *results);
static bool may_fail(Node *value);
static bool tells_time(Node *node);
static bool is_of_time(Oid function);
static bool collect_params(Node *node, void *params);

/*
 * Prepare a filter plan and its clauses for an index, or return NULL if the plan is empty.  The
 * filter lives in the memory context of the query.
 */
GjEntryFilter *
GjEntryFilterInit(Relation index, List *plan, List *clauses, PlanState *parent)
{
	GjEntryFilter *filter;
	Reader		reader = {.parent = parent};

	if (plan == NIL)
		return NULL;
	Assert(list_length(plan) == GJ_FILTER_PLAN_COUNT);
	filter = palloc0(sizeof(GjEntryFilter));
	GjIndexGetInfo(index, &filter->info);
	filter->context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin filter",
											ALLOCSET_SMALL_SIZES);
	filter->econtext = CreateExprContext(parent->state);
	reader.filter = filter;
	reader.steps.steps = list_nth(plan, GJ_FILTER_PLAN_STEPS);
	filter->root.step = GJ_STEP_AND;
	read_operands(&reader, &filter->root, clauses);
	Assert(reader.steps.next == list_length(reader.steps.steps));
	read_parts(filter, list_nth(plan, GJ_FILTER_PLAN_PARTS));
	filter->test = (GjEntryTest) {
		.run = run_filter,.attach = attach_filter,.arg = filter,.columns = filter->columns,
		.words = filter->words,.varies = filter->params != NULL,.proves = tests_rests(filter)
	};
	/* no device looks up tuples, but it may compare rests */
	if (filter->root.noperands < 63 && (filter->parts == NIL || tests_rests(filter)))
		filter->test.parts = ((UINT64CONST(1) << filter->root.noperands) - 1) |
			(filter->parts != NIL ? GJ_TEST_OF_RESTS : 0);
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
	{
		(void) add_column(filter, lfirst_int(lc));
		if (GjKindMayLack(filter->info.included[lfirst_int(lc) - 1].kind))
			filter->part_words |= GJ_ENTRY_KEY << lfirst_int(lc);
	}
}

/*
 * Return true if what is looked up with the code is only the key's rest
 */
static bool
tests_rests(const GjEntryFilter *filter)
{
	return filter->info.has_rests && list_length(filter->parts) == 1 &&
		linitial_int(filter->parts) == GjIndexSecondColumn(&filter->info, 0);
}

/*
 * Have the filter read a column, and the second words of its values, whose column is returned; 0 if
 * they have none
 */
static int
add_column(GjEntryFilter *filter, int column)
{
	int			second = column == 0 ? 0 : filter->info.included[column - 1].second;

	filter->columns |= GJ_ENTRY_KEY << column;
	if (second != 0)
		filter->columns |= GJ_ENTRY_KEY << second;
	return second;
}

static void
read_condition(Reader *reader, Condition *condition, Expr *expr)
{
	check_stack_depth();
	condition->step = GjNextStep(&reader->steps);
	switch (condition->step)
	{
		case GJ_STEP_AND:
		case GJ_STEP_OR:
			read_operands(reader, condition, GjOperandsOf(expr));
			break;
		case GJ_STEP_TRUTH:
			condition->truth = castNode(BooleanTest, expr)->booltesttype;
			read_operands(reader, condition, list_make1(((BooleanTest *) expr)->arg));
			break;
		case GJ_STEP_NOT:
			read_operands(reader, condition, is_notclause(expr) ? GjOperandsOf(expr) :
						  list_make1(expr));
			break;
		case GJ_STEP_COMPARE:
		case GJ_STEP_ANY:
			read_column(reader, condition);
			condition->type = GjNextStep(&reader->steps);
			condition->value_type = GjNextStep(&reader->steps);
			expr = list_nth(GjOperandsOf(expr), GjNextStep(&reader->steps));
			condition->operator = GjNextStep(&reader->steps);
			note_words(reader, condition);
			read_value(reader, condition, expr);
			break;
		case GJ_STEP_NULL:
		case GJ_STEP_COLUMN:
			read_column(reader, condition);
			GjTestCompare(&condition->test, BOOLOID, GJ_FILTER_EQ, BOOLOID, BoolGetDatum(true),
						  false);
			break;
		case GJ_STEP_VALUE:
			read_value(reader, condition, expr);
			break;
		case GJ_STEP_SOURCE:
			Assert(false);
	}
}

static void
read_operands(Reader *reader, Condition *condition, List *operands)
{
	ListCell   *lc;

	condition->operands = palloc0(list_length(operands) * sizeof(Condition));
	foreach(lc, operands)
	{
		Condition  *operand = &condition->operands[condition->noperands++];

		read_condition(reader, operand, lfirst(lc));
		condition->words |= operand->words;
	}
}

/*
 * Note whether a column that is compared has words in place of numerics
 */
static void
note_words(Reader *reader, Condition *condition)
{
	const GjIncludedColumn *column = reader->filter->info.included + Max(condition->column, 1) - 1;

	if (condition->type != NUMERICOID && condition->type != TEXTOID &&
		condition->type != BPCHAROID)
		return;
	if (condition->column == 0 || !GjKindMayLack(column->kind) ||
		(condition->type == BPCHAROID && column->kind != GJ_COLUMN_WIDE_BPCHAR))
		elog(ERROR, "a filter compares a column that has no words");
	condition->words = GJ_ENTRY_KEY << condition->column;
	reader->filter->words |= condition->words;
	if (condition->second != 0)
		reader->filter->words |= GJ_ENTRY_KEY << condition->second;
	condition->test.stored_scale = column->stored_scale;
	condition->test.ignored = column->kind == GJ_COLUMN_WIDE_BPCHAR ? GJ_TEXT_LENGTH_BITS : 0;
}

static void
read_column(Reader *reader, Condition *condition)
{
	condition->column = GjNextStep(&reader->steps);
	condition->second = add_column(reader->filter, condition->column);
}

static void
read_value(Reader *reader, Condition *condition, Expr *value)
{
	condition->value = ExecInitExpr(value, reader->parent);
	reader->filter->computes |= may_fail((Node *) value);
	collect_params((Node *) value, &reader->filter->params);
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
 * Return the columns of the index that the filter reads and that may lack a value, as bits like
 * those of GjRowShape.  An entry that passes and lacks one is no row, as far as is known.
 */
uint64
GjEntryFilterWords(const GjEntryFilter *filter)
{
	return filter != NULL ? filter->root.words | filter->part_words : 0;
}

/*
 * Forget the values that columns were compared with.  This is cheap, and evaluates nothing.
 */
void
GjEntryFilterReset(GjEntryFilter *filter)
{
	filter->started = false;
}

/*
 * Set the keys of a match, and the table that must list the keys and parts of its entries.  Must be
 * called before the match, and both must live as long as its entries are tested.
 */
void
GjEntryFilterSetExact(GjEntryFilter *filter, const GjKeySet *keys, GjExact *exact)
{
	filter->keys = keys;
	filter->exact = exact;
}

static void
filter_start(GjEntryFilter *filter)
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
	if (condition->step == GJ_STEP_COMPARE)
		GjTestCompare(&condition->test, condition->type, condition->operator,
					  condition->value_type, value, isnull);
	else if (condition->step == GJ_STEP_ANY)
		GjTestAny(&condition->test, filter->context, condition->type, condition->value_type,
				  value, isnull);
	else
		GjTestConstant(&condition->test, value, isnull);
	MemoryContextSwitchTo(old);
	ResetExprContext(filter->econtext);
}

/*
 * List the entries, of n, that pass, in ascending order, and return their number.  columns[] has
 * the columns of the test; n is at most GJ_BATCH_ROWS.
 */
static int
run_filter(void *arg, const GjBatchColumn *columns, int n, uint16 *rows)
{
	GjEntryFilter *filter = arg;
	uint8		results[GJ_BATCH_ROWS];
	int			npassed = 0;

	Assert(n <= GJ_BATCH_ROWS);
	if (!filter->started)
		filter_start(filter);
	if (filter->root.words != 0)
		run_on_words(&filter->root, columns, n, results);
	else if (filter->root.noperands > 0)
		run(&filter->root, columns, n, results);
	else
	{
		for (npassed = 0; npassed < n; npassed++)
			rows[npassed] = npassed;
	}
	for (int i = 0; i < n && filter->root.noperands > 0; i++)
	{
		rows[npassed] = i;
		npassed += results[i] & GJ_RESULT_TRUE;
	}
	/* entries of NULL keys have no code to be looked up, and come in sets of their own */
	if (filter->parts == NIL || columns[0].nulls != NULL)
		return npassed;
	return drop_unlisted(filter, columns, n, rows, npassed);
}

/*
 * Run the filter's AND, some of whose operands compare numeric columns.  An operand is taken to be
 * TRUE for an entry that lacks the value of one of these: the row must be read from the table
 * (rows/rows.c, exec/ordered.c), and is tested then.
 */
static void
run_on_words(const Condition *root, const GjBatchColumn *columns, int n, uint8 *results)
{
	uint8		others[GJ_BATCH_ROWS];

	memset(results, GJ_RESULT_TRUE, n);
	for (int k = 0; k < root->noperands; k++)
	{
		const Condition *operand = &root->operands[k];

		run(operand, columns, n, others);
		for (uint64 words = operand->words; words != 0; words &= words - 1)
		{
			int			column = pg_rightmost_one_pos64(words);
			const int64 *values = (const int64 *) columns[column].values;

			for (int i = 0; i < n; i++)
				others[i] = values[i] == GJ_ABSENT ? GJ_RESULT_TRUE : others[i];
		}
		for (int i = 0; i < n; i++)
			results[i] &= others[i];
	}
}

/*
 * Keep those of n selected entries that the exact table lists, or may list, as their code is a hash
 * or they lack a value
 *
 * Entries of rows that are not visible are looked up, too, so only words, uuids and the bytes of
 * texts may be compared: see plan/entryfilter.c.
 */
static int
drop_unlisted(GjEntryFilter *filter, const GjBatchColumn *columns, int nentries, uint16 *rows,
			  int n)
{
	int			nparts = list_length(filter->parts);
	MemoryContext old = MemoryContextSwitchTo(filter->econtext->ecxt_per_tuple_memory);
	Datum	   *values = palloc(nparts * n * (sizeof(Datum) + GJ_WIDE_BYTES));
	char	   *bytes = (char *) (values + nparts * n);
	const Datum *arrays[INDEX_MAX_KEYS];
	uint16		complete[GJ_BATCH_ROWS];
	int64		words[GJ_BATCH_ROWS];
	const int64 *codes;
	uint32		numbers[GJ_BATCH_ROWS];
	int			nread = drop_nulls(filter, columns, rows, n);
	int			ncomplete = list_complete(filter, columns, rows, nread, complete);
	int			nunlisted = 0;
	int			nlisted = 0;
	ListCell   *lc;

	Assert(filter->exact != NULL || n == 0);
	codes = filter_read_words(&columns[0], nentries, ncomplete, complete, words);
	foreach(lc, filter->parts)
	{
		int			k = foreach_current_index(lc);

		arrays[k] = read_part(&filter->info.included[lfirst_int(lc) - 1], columns,
							  lfirst_int(lc), nentries, ncomplete, complete,
							  bytes + k * n * GJ_WIDE_BYTES, values + k * n);
	}
	GjExactFindWords(filter->exact, ncomplete, codes, arrays, numbers);
	for (int i = 0; i < ncomplete; i++)
		nunlisted += numbers[i] == GJ_EXACT_NONE;
	for (int i = 0, at = 0; i < nread && nunlisted > 0; i++)
	{
		bool		is_complete = at < ncomplete && complete[at] == rows[i];

		rows[nlisted] = rows[i];
		nlisted += !is_complete || numbers[at] != GJ_EXACT_NONE;
		at += is_complete;
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(filter->econtext);
	return nunlisted > 0 ? nlisted : nread;
}

/*
 * Drop the entries with a NULL in a part
 */
static int
drop_nulls(const GjEntryFilter *filter, const GjBatchColumn *columns, uint16 *rows, int n)
{
	ListCell   *lc;

	foreach(lc, filter->parts)
	{
		const uint8 *nulls = columns[lfirst_int(lc)].nulls;
		int			nkept = 0;

		for (int i = 0; nulls != NULL && i < n; i++)
		{
			rows[nkept] = rows[i];
			nkept += nulls[rows[i]] == 0;
		}
		n = nulls != NULL ? nkept : n;
	}
	return n;
}

/*
 * List those of n entries that lack no part, and return their number
 */
static int
list_complete(const GjEntryFilter *filter, const GjBatchColumn *columns, const uint16 *rows, int n,
			  uint16 *complete)
{
	memcpy(complete, rows, n * sizeof(uint16));
	for (uint64 words = filter->part_words; words != 0; words &= words - 1)
	{
		const int64 *values = (const int64 *) columns[pg_rightmost_one_pos64(words)].values;
		int			nkept = 0;

		for (int i = 0; i < n; i++)
		{
			complete[nkept] = complete[i];
			nkept += values[complete[i]] != GJ_ABSENT;
		}
		n = nkept;
	}
	return n;
}

/*
 * Return a part of n listed entries, which may be copied to values[] and bytes[]
 */
static const Datum *
read_part(const GjIncludedColumn *included, const GjBatchColumn *columns, int column,
		  int nentries, int n, const uint16 *rows, char *bytes, Datum *values)
{
	if (included->second == 0)
		return (const Datum *) filter_read_words(&columns[column], nentries, n, rows,
												 (int64 *) values);
	GjReadWide(included->kind, columns[column].values, columns[included->second].values, n, rows,
			   bytes, values);
	return values;
}

/*
 * Return integers of n listed entries, with their sign: the column itself, if these are all of its
 * entries, or copies in words[]
 */
static const int64 *
filter_read_words(const GjBatchColumn *column, int nentries, int n, const uint16 *rows,
				  int64 *words)
{
#define READ_WORDS(type) \
	for (int i = 0; i < n; i++) \
		words[i] = ((const type *) column->values)[rows[i]]

	if (n == nentries && column->width == sizeof(int64))
		return (const int64 *) column->values;
	GJ_BY_SIGNED_WIDTH(column->width, READ_WORDS);
	return words;
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
 *
 * A device compares rests only to find the first entries in an order.  Others are mostly those of
 * listed keys, and the CPU tests them in any case.
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
		filter_start(filter);
	}
	for (int i = 0; i < Min(root->noperands, 64); i++)
	{
		uint32		n = on_device.n;

		if (add_for_device(&root->operands[i], GJ_RESULT_TRUE, &on_device))
			parts |= UINT64CONST(1) << i;
		else
			on_device.n = n;
	}
	if (set->top.limit > 0 && may_prove(filter))
		set->proofs = GjProofsCreate(set->context, filter->keys, filter->exact,
									 linitial_int(filter->parts));
	if (set->proofs != NULL)
	{
		set->memory_limit = GjMemoryLeft(set->memory_limit, set->proofs->memory);
		parts |= GJ_TEST_OF_RESTS;
	}
	GjEntrySetTest(set, run_filter, filter, filter->columns);
	GjEntrySetFilter(set, &on_device, parts);
}

/*
 * Return true if a device can look up what the filter looks up
 */
static bool
may_prove(const GjEntryFilter *filter)
{
	return (filter->test.parts & GJ_TEST_OF_RESTS) != 0 && filter->exact != NULL &&
		GjKeySetIsList(filter->keys) && (GjServiceCapabilities() & GJD_CAN_PROVE_RESTS) != 0;
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
		case GJ_STEP_AND:
		case GJ_STEP_OR:
			if (condition->step != (wanted == GJ_RESULT_TRUE ? GJ_STEP_AND : GJ_STEP_OR))
				return false;
			for (int i = 0; i < condition->noperands && possible; i++)
				possible = add_for_device(&condition->operands[i], wanted, filter);
			return possible;
		case GJ_STEP_NOT:
			return add_for_device(condition->operands, other, filter);
		case GJ_STEP_TRUTH:
			if (wanted != GJ_RESULT_TRUE ||
				(condition->truth != IS_TRUE && condition->truth != IS_FALSE))
				return false;
			return add_for_device(condition->operands,
								  condition->truth == IS_TRUE ? wanted : other, filter);
		case GJ_STEP_NULL:
			return GjTestNullForDevice(filter, condition->column, wanted == GJ_RESULT_TRUE);
		default:
			return GjTestForDevice(filter, condition->column, condition->second, &condition->test,
								   wanted);
	}
}

static void
run(const Condition *condition, const GjBatchColumn *columns, int n, uint8 *results)
{
	const GjBatchColumn *column = &columns[condition->column];

	switch (condition->step)
	{
		case GJ_STEP_AND:
		case GJ_STEP_OR:
			run_operands(condition, columns, n, results);
			break;
		case GJ_STEP_TRUTH:
			run(condition->operands, columns, n, results);
			put_to_truth(condition->truth, n, results);
			break;
		case GJ_STEP_NOT:
			run(condition->operands, columns, n, results);
			for (int i = 0; i < n; i++)
				results[i] = (results[i] & GJ_RESULT_TRUE) << 1 | results[i] >> 1;
			break;
		case GJ_STEP_NULL:
			memset(results, GJ_RESULT_FALSE, n);
			for (int i = 0; column->nulls != NULL && i < n; i++)
				results[i] = GJ_RESULT_FALSE - (column->nulls[i] != 0);
			break;
		default:
			GjTestRun(&condition->test, column, &columns[condition->second], n, results);
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
	uint8		all = condition->step == GJ_STEP_AND ? GJ_RESULT_TRUE : GJ_RESULT_FALSE;
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
 * Early values
 *
 * Whether a filter's values can be evaluated before the first entry arrives.
 *
 * Without entries they must not be evaluated if that might raise an error, just as the executor
 * evaluates a filter only if it has a row.  But a device needs the values with the request.
 *-------------------------------------------------------------------------
 */

/*
 * Return true if evaluating a value could fail.  A param alone cannot.  The planner has evaluated
 * what has no param, to estimate how many rows pass; but a stable function may fail when a cached
 * plan is executed again, unless only the time has changed.
 */
static bool
may_fail(Node *value)
{
	value = GjStripRelabel(value);
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

/*
 * Add the executor's parameters in an expression to a Bitmapset *
 */
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
