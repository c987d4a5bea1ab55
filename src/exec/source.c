/*-------------------------------------------------------------------------
 *
 * source.c
 *	  The keys that a scan's conditions ask for: a key plan (node/keyplan.h) at run time.
 *
 * Each source is evaluated once a (re)scan, and its value is forgotten when its keys
 * have been taken.  What a source yields are the keys for which PostgreSQL's own
 * comparison is true:
 *
 *	  = ANY		nothing for a NULL array, a NULL element adds nothing
 *	  <> ALL	nothing for a NULL array, nor if an element is NULL (the result is
 *				NULL or false for each row); every row, those with a NULL key
 *				included, if the array is empty; else the keys that are not in it
 *	  =, <>		nothing for a NULL value
 *	  IS NULL	rows with a NULL key, if the condition that goes with it is true
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "match/match.h"
#include "source.h"

typedef struct KeySource
{
	GjSourceKind kind;
	ExprState  *value;
	GjConverter converter;
} KeySource;

struct GjKeyProgram
{
	List	   *steps;
	KeySource  *sources;
	int			nsources;
	List	   *params;			/* Param nodes of the executor's params in the values, */
	Bitmapset  *param_ids;		/* and their ids */
};

/* A run through the steps */
typedef struct Run
{
	GjKeyProgram *program;
	ExprContext *econtext;
	MemoryContext context;		/* of the sets */
	int			key_width;
	int			step;			/* the next one */
	int			source;			/* the next one */
} Run;

/* The same for putting clauses together */
typedef struct Rebuild
{
	List	   *key_plan;
	List	   *values;
	Expr	   *key;
	int			step;
	int			source;
} Rebuild;

static List *get_part(List *key_plan, GjKeyPlanPart part);
static bool collect_params(Node *node, void *arg);
static GjKeySet *run_step(Run *run);
static GjKeySet *run_or(Run *run, int noperands);
static GjKeySet *run_and(Run *run, int noperands);
static GjKeySet *run_source(Run *run, KeySource *source);
static GjKeySet *create_set(Run *run);
static void add_source(Run *run, KeySource *source, GjKeySet *set);
static void add_value(KeySource *source, GjKeySet *set, Datum value, bool isnull);
static void add_except_array(KeySource *source, GjKeySet *set, Datum value, bool isnull);
static bool may_contain_nulls(ArrayType *array);
static Expr *rebuild_step(Rebuild *rebuild);
static Expr *rebuild_source(Rebuild *rebuild, int source);
static Expr *make_null_test(Expr *arg);
static Expr *rebuild_key(Rebuild *rebuild, Oid cast);

/*
 * Prepare a key plan, whose values the planner has put elsewhere
 */
GjKeyProgram *
GjKeyProgramInit(List *key_plan, List *values, PlanState *parent)
{
	GjKeyProgram *program = palloc0(sizeof(GjKeyProgram));
	ListCell   *kind,
			   *how,
			   *proc,
			   *value;

	program->steps = get_part(key_plan, GJ_KEY_PLAN_STEPS);
	program->sources = palloc0_array(KeySource, list_length(values));

	forfour(kind, get_part(key_plan, GJ_KEY_PLAN_KINDS),
			how, get_part(key_plan, GJ_KEY_PLAN_CONVERSIONS),
			proc, get_part(key_plan, GJ_KEY_PLAN_PROCS),
			value, values)
	{
		KeySource  *source = &program->sources[program->nsources++];

		source->kind = lfirst_int(kind);
		source->value = ExecInitExpr(lfirst(value), parent);
		source->converter.how = lfirst_int(how);
		if (OidIsValid(lfirst_oid(proc)))
			fmgr_info(lfirst_oid(proc), &source->converter.proc);
	}
	Assert(program->nsources == list_length(values));
	collect_params((Node *) values, program);
	return program;
}

/*
 * Get the ids of the executor's params in the values
 */
Bitmapset *
GjKeyProgramParams(const GjKeyProgram *program)
{
	return program->param_ids;
}

/*
 * Get these params themselves, each as often as it is there
 */
List *
GjKeyProgramParamNodes(const GjKeyProgram *program)
{
	return program->params;
}

static List *
get_part(List *key_plan, GjKeyPlanPart part)
{
	Assert(list_length(key_plan) == GJ_KEY_PLAN_COUNT);
	return (List *) list_nth(key_plan, part);
}

static bool
collect_params(Node *node, void *arg)
{
	GjKeyProgram *program = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		program->params = lappend(program->params, node);
		program->param_ids = bms_add_member(program->param_ids, ((Param *) node)->paramid);
	}
	return expression_tree_walker(node, collect_params, arg);
}

/*
 * Make the set of keys that satisfy all conditions: finished, in a context of its own
 * below the given one
 */
GjKeySet *
GjKeyProgramRun(GjKeyProgram *program, ExprContext *econtext, MemoryContext context,
				int key_width)
{
	Run			run = {.program = program,.econtext = econtext,.context = context,
	.key_width = key_width};

	return run_step(&run);
}

static GjKeySet *
run_step(Run *run)
{
	List	   *steps = run->program->steps;

	check_stack_depth();
	switch ((GjKeyStep) list_nth_int(steps, run->step++))
	{
		case GJ_STEP_SOURCE:
			return run_source(run, &run->program->sources[run->source++]);
		case GJ_STEP_AND:
			return run_and(run, list_nth_int(steps, run->step++));
		case GJ_STEP_OR:
			return run_or(run, list_nth_int(steps, run->step++));
	}
	elog(ERROR, "unknown step of a key plan");
}

static GjKeySet *
run_and(Run *run, int noperands)
{
	GjKeySet   *set = run_step(run);

	for (int i = 1; i < noperands; i++)
	{
		GjKeySet   *other = run_step(run);

		GjKeySetIntersect(set, other);
		GjKeySetFree(other);
	}
	return set;
}

/*
 * Lists of keys, of which there may be many, are collected in one set
 */
static GjKeySet *
run_or(Run *run, int noperands)
{
	GjKeySet   *set = create_set(run);
	List	   *others = NIL;
	ListCell   *lc;

	for (int i = 0; i < noperands; i++)
	{
		KeySource  *source = &run->program->sources[run->source];

		if (list_nth_int(run->program->steps, run->step) == GJ_STEP_SOURCE &&
			(source->kind == GJ_SOURCE_VALUE || source->kind == GJ_SOURCE_ARRAY))
		{
			add_source(run, source, set);
			run->step++;
			run->source++;
		}
		else
			others = lappend(others, run_step(run));
	}
	GjKeySetFinish(set);

	foreach(lc, others)
	{
		GjKeySetUnite(set, lfirst(lc));
		GjKeySetFree(lfirst(lc));
	}
	list_free(others);
	return set;
}

static GjKeySet *
run_source(Run *run, KeySource *source)
{
	GjKeySet   *set = create_set(run);

	add_source(run, source, set);
	GjKeySetFinish(set);
	return set;
}

static GjKeySet *
create_set(Run *run)
{
	return GjKeySetCreate(run->context, run->key_width);
}

/*
 * Evaluate a source.  Its value and the detoasted copy of it live in the per-tuple
 * memory, and not longer than it takes to copy the keys.
 */
static void
add_source(Run *run, KeySource *source, GjKeySet *set)
{
	MemoryContext old = MemoryContextSwitchTo(run->econtext->ecxt_per_tuple_memory);
	Datum		value;
	bool		isnull;

	value = ExecEvalExpr(source->value, run->econtext, &isnull);
	add_value(source, set, value, isnull);
	MemoryContextSwitchTo(old);
	ResetExprContext(run->econtext);
}

static void
add_value(KeySource *source, GjKeySet *set, Datum value, bool isnull)
{
	switch (source->kind)
	{
		case GJ_SOURCE_VALUE:
			GjAddDatumKeys(set, &source->converter, value, isnull, false);
			break;
		case GJ_SOURCE_ARRAY:
			GjAddDatumKeys(set, &source->converter, value, isnull, true);
			break;
		case GJ_SOURCE_NOT_VALUE:
			GjAddDatumKeys(set, &source->converter, value, isnull, false);
			set->complement = !isnull;
			break;
		case GJ_SOURCE_NOT_ARRAY:
			add_except_array(source, set, value, isnull);
			break;
		case GJ_SOURCE_NULL:
			set->nulls = !isnull && DatumGetBool(value);
			break;
		case GJ_SOURCE_NULL_IN_ARRAY:
			set->nulls = !isnull && may_contain_nulls(DatumGetArrayTypeP(value));
			break;
	}
}

/*
 * All keys but those of the array
 */
static void
add_except_array(KeySource *source, GjKeySet *set, Datum value, bool isnull)
{
	ArrayType  *array;

	if (isnull)
		return;
	array = DatumGetArrayTypeP(value);
	if (array_contains_nulls(array))
		return;

	GjAddDatumKeys(set, &source->converter, PointerGetDatum(array), false, true);
	set->complement = true;
	set->nulls = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) == 0;
}

/*
 * Is there a NULL in the array, or is it one that array_position() does not take?
 */
static bool
may_contain_nulls(ArrayType *array)
{
	return ARR_NDIM(array) > 1 || array_contains_nulls(array);
}

/*
 * Put the conditions together again, for EXPLAIN
 *
 * The key is what the index has; where a condition casts it, the cast comes back.
 */
List *
GjKeyPlanClauses(List *key_plan, List *values, Expr *key)
{
	Rebuild		rebuild = {.key_plan = key_plan,.values = values,.key = key};

	return make_ands_implicit(rebuild_step(&rebuild));
}

static Expr *
rebuild_step(Rebuild *rebuild)
{
	List	   *steps = get_part(rebuild->key_plan, GJ_KEY_PLAN_STEPS);
	GjKeyStep	step = list_nth_int(steps, rebuild->step++);
	List	   *operands = NIL;
	int			noperands;

	if (step == GJ_STEP_SOURCE)
		return rebuild_source(rebuild, rebuild->source++);

	noperands = list_nth_int(steps, rebuild->step++);
	for (int i = 0; i < noperands; i++)
		operands = lappend(operands, rebuild_step(rebuild));
	return makeBoolExpr(step == GJ_STEP_AND ? AND_EXPR : OR_EXPR, operands, -1);
}

static Expr *
rebuild_source(Rebuild *rebuild, int source)
{
	List	   *key_plan = rebuild->key_plan;
	GjSourceKind kind = list_nth_int(get_part(key_plan, GJ_KEY_PLAN_KINDS), source);
	Oid			opno = list_nth_oid(get_part(key_plan, GJ_KEY_PLAN_OPERATORS), source);
	Expr	   *value = list_nth(rebuild->values, source);
	Expr	   *key = rebuild_key(rebuild, list_nth_oid(get_part(key_plan, GJ_KEY_PLAN_CASTS),
														source));
	ScalarArrayOpExpr *any;

	if (kind == GJ_SOURCE_NULL)
		return makeBoolExpr(AND_EXPR, list_make2(make_null_test(key), value), -1);
	if (kind == GJ_SOURCE_NULL_IN_ARRAY)
		return make_null_test(key); /* the filter has the rest */
	if (kind == GJ_SOURCE_VALUE || kind == GJ_SOURCE_NOT_VALUE)
		return make_opclause(opno, BOOLOID, false, key, value, InvalidOid, InvalidOid);

	any = makeNode(ScalarArrayOpExpr);
	any->opno = opno;
	any->opfuncid = get_opcode(opno);
	any->useOr = kind == GJ_SOURCE_ARRAY;
	any->args = list_make2(key, value);
	any->location = -1;
	return &any->xpr;
}

static Expr *
make_null_test(Expr *arg)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = arg;
	test->nulltesttype = IS_NULL;
	test->location = -1;
	return &test->xpr;
}

static Expr *
rebuild_key(Rebuild *rebuild, Oid cast)
{
	if (!OidIsValid(cast))
		return rebuild->key;
	return (Expr *) makeFuncExpr(cast, get_func_rettype(cast), list_make1(rebuild->key),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CAST);
}
