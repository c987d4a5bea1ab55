/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  A filter plan (node/filterplan.h) at run time: which entries pass.
 *
 * A batch of entries goes through the tree of conditions one after another, a column at a
 * time.  The result of each is a byte for each entry, with a bit for TRUE and one for FALSE,
 * so that AND, OR and NOT in three-valued logic are a few operations on bits.  An entry passes
 * if the result is TRUE.
 *
 * What columns are compared with is evaluated once a scan (filtertest.c), when the first entries
 * come: without any, nothing is, as the executor evaluates a filter for rows that it has.  Values
 * that are at hand are read sooner, for a device that tests what it can (filterdevice.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "node/filterplan.h"
#include "fill.h"
#include "filter.h"
#include "filtertest.h"

/* A step of the plan */
typedef struct Condition
{
	GjFilterStep step;
	int			noperands;
	struct Condition *operands;
	BoolTestType truth;			/* GJ_FILTER_TRUTH */
	int			column;
	Oid			type;			/* as which the column is compared */
	Oid			value_type;		/* of the value, or of the array's elements */
	GjFilterOperator operator;
	ExprState  *value;			/* NULL: there is none */
	GjColumnTest test;			/* once it has been started */
} Condition;

struct GjEntryFilter
{
	Condition	root;
	uint64		columns;
	Bitmapset  *params;
	ExprContext *econtext;
	bool		computes;		/* to evaluate some values might fail */
	bool		started;		/* values are known */
	MemoryContext context;		/* of what is made of them */
};

/* Reading a plan */
typedef struct Reader
{
	GjEntryFilter *filter;
	PlanState  *parent;
	List	   *steps;
	List	   *values;
	int			step;			/* the next one */
	int			value;			/* the next one */
} Reader;

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
static int	test_entries(void *filter, const GjBatchColumn *columns, int n, uint16 *rows);
static void run(const Condition *condition, const GjBatchColumn *columns, int n,
				uint8 *results);
static void run_operands(const Condition *condition, const GjBatchColumn *columns, int n,
						 uint8 *results);
static void put_to_truth(BoolTestType truth, int n, uint8 *results);

/*
 * Prepare a filter plan, whose values the planner has put elsewhere; NULL if there is none.
 * It lives in the memory context of the query.
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
	read_condition(&reader, &filter->root);
	Assert(reader.step == list_length(reader.steps));
	Assert(reader.value == list_length(values));
	return filter;
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
			GjTestTrue(&condition->test);
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
 * The executor params that it uses: when one changes, it must be reset
 */
Bitmapset *
GjEntryFilterParams(const GjEntryFilter *filter)
{
	return filter != NULL ? filter->params : NULL;
}

/*
 * The columns of the index that it looks at, a bit each as in GjFill
 */
uint64
GjEntryFilterColumns(const GjEntryFilter *filter)
{
	return filter != NULL ? filter->columns : 0;
}

/*
 * Forget what columns were compared with.  Costs nothing, and so evaluates nothing.
 */
void
GjEntryFilterReset(GjEntryFilter *filter)
{
	if (filter != NULL)
		filter->started = false;
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
		GjTestCompare(&condition->test, condition->type, condition->operator,
					  condition->value_type, value, isnull);
	else if (condition->step == GJ_FILTER_ANY)
		GjTestAny(&condition->test, filter->context, condition->type, condition->value_type,
				  value, isnull);
	else
		GjTestConstant(&condition->test, value, isnull);
	MemoryContextSwitchTo(old);
	ResetExprContext(filter->econtext);
}

/*
 * List those of n entries that pass, in ascending order, and return how many they are.
 * columns[] has what GjEntryFilterColumns() says; there are at most GJ_BATCH_ROWS entries.
 */
int
GjEntryFilterRun(GjEntryFilter *filter, const GjBatchColumn *columns, int n, uint16 *rows)
{
	uint8		results[GJ_BATCH_ROWS];
	int			npassed = 0;

	Assert(n <= GJ_BATCH_ROWS);
	if (!filter->started)
		start(filter);
	run(&filter->root, columns, n, results);
	for (int i = 0; i < n; i++)
	{
		rows[npassed] = i;
		npassed += results[i] & GJ_RESULT_TRUE;
	}
	return npassed;
}

/*
 * Can the values be read before there is an entry?  Not if that could fail, or would run a
 * sub-select: perhaps no entry comes, and nobody would have asked for them then.
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
 * Have a device's entries tested as they come into a set, and before that, as far as possible, by
 * the device.  Neither where values are not at hand: they are sent with the question; and to get
 * them when entries come may run a function, which might ask the device, too.
 */
void
GjEntryFilterTest(GjEntryFilter *filter, GjEntrySet *set)
{
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
	GjEntrySetTest(set, test_entries, filter, filter->columns);
	GjEntrySetFilter(set, &on_device, parts);
}

/*
 * Add a condition for a device, under which the result is as wanted, TRUE or FALSE; false, with a
 * part of it added, if that is not possible
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
			return GjTestNullForDevice(filter, condition->column, wanted == GJ_RESULT_TRUE);
		case GJ_FILTER_COMPARE:
		case GJ_FILTER_ANY:
		case GJ_FILTER_COLUMN:
		case GJ_FILTER_VALUE:
			return GjTestForDevice(filter, condition->column, &condition->test, wanted);
	}
	return false;
}

static int
test_entries(void *filter, const GjBatchColumn *columns, int n, uint16 *rows)
{
	return GjEntryFilterRun(filter, columns, n, rows);
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
			GjTestRun(&condition->test, column, n, results);
			break;
	}
}

/*
 * TRUE if both are, FALSE if one is; or the other way round
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
 * IS [NOT] TRUE and so on, which are never NULL
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
