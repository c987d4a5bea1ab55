/*-------------------------------------------------------------------------
 *
 * source.c
 *	  The keys that a scan's conditions select: a key plan (node/keyplan.h) at run time.
 *
 * Each source is evaluated once per (re)scan, and its value is freed when its keys have been added.
 * A source yields the keys for which PostgreSQL's own comparison is true:
 *
 *	  = ANY		nothing for a NULL array; a NULL element adds nothing
 *	  <> ALL	nothing for a NULL array, or if an element is NULL, because the result is NULL or
 *				false for each row; every row, including those with a NULL key, if the array is
 *				empty; otherwise the keys that are not in it
 *	  =, <>		nothing for a NULL value
 *	  <, <=,	nothing for a NULL value; otherwise an interval, to which both ends belong: so a
 *	  >=, >		strict bound is moved by one, unless nothing is beyond it
 *	  IS NULL	rows with a NULL key, if the condition that belongs to it is true
 *	  IS NOT	the interval of all codes: no code is compared with another, so they need not have
 *	  NULL		the order of their type, and may be hashes
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "match/match.h"
#include "node/scanplan.h"
#include "keys.h"

/* A node of the tree */
typedef struct KeyNode
{
	GjStep		step;
	List	   *operands;		/* GJ_STEP_AND, GJ_STEP_OR: list of KeyNode */
	GjSourceKind kind;			/* GJ_STEP_SOURCE, as all of the following */
	ExprState  *value;			/* NULL if there is none */
	GjConverter converter;
	int			narrays;		/* of tuples */
	ExprState **arrays;			/* of the key, and of each other column */
} KeyNode;

/* The value of a parameter, detoasted */
typedef struct ParamValue
{
	int16		typlen;
	bool		typbyval;
	bool		pending;		/* true if its subquery has not run; for a set: was not needed */
	bool		isnull;
	Datum		value;
} ParamValue;

struct GjKeyProgram
{
	PlanState  *parent;
	int			key_width;		/* of the index */
	List	   *key_plan;
	List	   *values;			/* expressions of the sources' values, in the order of the steps */
	KeyNode    *root;
	int			nparts;			/* columns that the exact table of tuples compares; or 0 */
	bool		key_is_part;	/* is the first of them the key, because its codes are hashes? */
	bool		tests_entries;	/* then: can the other columns be tested in entries? */
	bool		has_rests;		/* have codes rests? These are compared instead of keys. */
	GjExactPart *parts;
	List	   *params;			/* Param nodes of the executor's parameters in the values */
	ParamValue *param_types;	/* their types; typlen is 0 before the first search */
	bool		is_one_value;	/* only "key = value", and nothing but the code proves it */
	Bitmapset  *param_ids;		/* their IDs */

	/* Of the node */
	struct GjKeyShare *share;	/* sets of its query, in this process; NULL before the first one */
	struct GjSharedKeys *keys;	/* its set, which is freed with the last user; or NULL */
};

/* State of reading a key plan */
typedef struct KeyReader
{
	GjKeyProgram *program;
	Relation	index;			/* or NULL */
	const GjCodec *codec;		/* of the index */
	GjStepReader steps;
} KeyReader;

/* The elements of an array of tuples' values */
typedef struct Elements
{
	int			n;
	Datum	   *values;
	bool	   *nulls;
} Elements;

/* The sets that the scans of a query share */
typedef struct GjKeyShare
{
	dlist_node	node;			/* in shares */
	GjKeyRouter router;			/* for the query's EState */
	MemoryContextCallback callback;
	int			users;			/* number of nodes */
	List	   *sets;			/* of GjSharedKeys */
} GjKeyShare;

typedef struct GjSharedKeys
{
	GjKeyShare *share;
	MemoryContext context;
	int			users;
	GjKeyProgram *program;		/* of the scan for which the set was made */
	int			nparams;
	ParamValue *params;
	GjKeySet   *set;
	GjKeyRoutes *routes;		/* NULL until a partition takes its keys */
} GjSharedKeys;

static List *get_part(List *key_plan, GjKeyPlanPart part);
static bool lives_as_long(Node *value);
static KeyNode *read_node(KeyReader *reader, Expr *condition);
static void read_source(KeyReader *reader, KeyNode *source, Expr *condition);
static void init_codec(KeyReader *reader, GjConverter *converter, Oid type, Oid equality);
static bool codec_has_rests(List *codec);
static GjExactPart *make_part(Oid family, Oid equality, Oid collation, bool has_rests);
static void init_arrays(KeyReader *reader, KeyNode *source, List *arrays);
static void init_parts(GjKeyProgram *program, List *key_plan);
static bool adds_keys(GjSourceKind kind);
static bool source_collect_params(Node *node, void *arg);
static GjKeySet *run_node(GjKeyProgram *program, KeyNode *node, MemoryContext context);
static GjKeySet *run_and(GjKeyProgram *program, List *operands, MemoryContext context);
static GjKeySet *run_or(GjKeyProgram *program, List *operands, MemoryContext context);
static void add_source(GjKeyProgram *program, KeyNode *source, GjKeySet *set);
static void source_add_value(KeyNode *source, GjKeySet *set, Datum value, bool isnull);
static void source_add_range(GjSourceKind kind, GjKeySet *set, int64 bound);
static void add_tuples(GjKeyProgram *program, KeyNode *source, GjKeySet *set);
static bool read_elements(KeyNode *source, ExprContext *econtext, Elements *arrays);
static void add_tuple(GjKeyProgram *program, KeyNode *source, GjKeySet *set,
					  const Elements *arrays, const int *positions);
static void add_others(KeyNode *source, GjKeySet *set, Datum value);
static bool may_contain_nulls(ArrayType *array);
static void keys_release(GjKeyProgram *program);
static GjKeyShare *attach(EState *estate);
static void forget_share(void *share);
static int	read_params(const GjKeyProgram *program, ParamValue **values);
static void read_param(const Param *param, ExprContext *econtext, ParamValue *type,
					   ParamValue *value);
static bool replace_value(GjKeyProgram *program, const ParamValue *params, int nparams);
static GjSharedKeys *find_keys(const GjKeyProgram *program, const ParamValue *params, int nparams);
static bool is_asked_for(const GjSharedKeys *keys, const GjKeyProgram *program,
						 const ParamValue *params, int nparams);
static bool is_same_value(const ParamValue *had, const ParamValue *has);
static GjSharedKeys *create_keys(GjKeyProgram *program);
static void note_params(GjSharedKeys *keys, const GjKeyProgram *program);

static dlist_head shares = DLIST_STATIC_INIT(shares);

/*
 * Prepare a key plan and its condition for an index, which is NULL for EXPLAIN, with this codec
 */
GjKeyProgram *
GjKeyProgramInit(List *key_plan, Expr *condition, PlanState *parent, Relation index,
				 const GjCodec *codec)
{
	GjKeyProgram *program = palloc0_object(GjKeyProgram);
	KeyReader	reader = {.program = program,.index = index,.codec = codec,
	.steps = {get_part(key_plan, GJ_KEY_PLAN_STEPS)}};
	KeyNode    *root;

	program->parent = parent;
	program->key_width = index != NULL ? GjIndexKeyWidth(index) : 0;
	program->key_plan = key_plan;
	program->root = root = read_node(&reader, condition);
	Assert(reader.steps.next == list_length(reader.steps.steps));
	source_collect_params((Node *) program->values, program);
	program->param_types = palloc0_array(ParamValue, list_length(program->params));
	init_parts(program, key_plan);
	program->is_one_value = root->step == GJ_STEP_SOURCE && root->kind == GJ_SOURCE_VALUE &&
		root->converter.how == GJ_CONVERT_CODEC && root->converter.part == NULL;
	return program;
}

static KeyNode *
read_node(KeyReader *reader, Expr *condition)
{
	KeyNode    *node = palloc0_object(KeyNode);
	ListCell   *lc;

	check_stack_depth();
	node->step = GjNextStep(&reader->steps);
	if (node->step == GJ_STEP_SOURCE)
		read_source(reader, node, condition);
	else
	{
		foreach(lc, castNode(BoolExpr, condition)->args)
			node->operands = lappend(node->operands, read_node(reader, lfirst(lc)));
	}
	return node;
}

static void
read_source(KeyReader *reader, KeyNode *source, Expr *condition)
{
	GjKeyProgram *program = reader->program;
	List	   *operands = GjOperandsOf(condition);
	Node	   *value = operands != NIL ? llast(operands) : NULL;
	Oid			type;
	Oid			opno;

	source->kind = GjNextStep(&reader->steps);
	source->converter.how = GjNextStep(&reader->steps);
	type = GjNextStep(&reader->steps);
	opno = GjNextStep(&reader->steps);
	if (source->kind == GJ_SOURCE_TUPLES)
		init_arrays(reader, source, castNode(FuncExpr, value)->args);
	else if (source->kind == GJ_SOURCE_PRODUCT)
	{
		List	   *arrays = NIL;
		ListCell   *lc;

		foreach(lc, operands)
			arrays = lappend(arrays, llast(GjOperandsOf(lfirst(lc))));
		init_arrays(reader, source, arrays);
	}
	else
	{
		source->value = ExecInitExpr((Expr *) value, program->parent);
		source->converter.values_last = lives_as_long(value);
		program->values = lappend(program->values, value);
	}
	if (OidIsValid(type))
		init_codec(reader, &source->converter, type, opno);
}

/*
 * Return true if the value of an expression lives as long as the query, and is not copied when the
 * expression is evaluated: a constant, or a parameter that the query was given
 */
static bool
lives_as_long(Node *value)
{
	value = GjStripRelabel(value);
	return value != NULL && (IsA(value, Const) || (IsA(value, Param) &&
												   ((Param *) value)->paramkind == PARAM_EXTERN));
}

static void
init_arrays(KeyReader *reader, KeyNode *source, List *arrays)
{
	GjKeyProgram *program = reader->program;
	ListCell   *lc;

	source->arrays = palloc_array(ExprState *, list_length(arrays));
	foreach(lc, arrays)
		source->arrays[source->narrays++] = ExecInitExpr(lfirst(lc), program->parent);
	program->key_is_part = source->narrays ==
		list_length(get_part(program->key_plan, GJ_KEY_PLAN_PART_OPERATORS));
	program->values = lappend(program->values, arrays);
}

/*
 * Prepare the comparison of the columns of tuples
 */
static void
init_parts(GjKeyProgram *program, List *key_plan)
{
	List	   *operators = get_part(key_plan, GJ_KEY_PLAN_PART_OPERATORS);
	ListCell   *opno,
			   *collation;

	program->parts = palloc_array(GjExactPart, list_length(operators));
	program->has_rests = codec_has_rests(get_part(key_plan, GJ_KEY_PLAN_CODEC));
	program->tests_entries = program->key_is_part && !program->has_rests;
	forboth(opno, operators, collation, get_part(key_plan, GJ_KEY_PLAN_PART_COLLATIONS))
	{
		if (!GjExactPartInit(&program->parts[program->nparts++], lfirst_oid(opno),
							 lfirst_oid(collation), InvalidOid))
			elog(ERROR, "operator %u cannot compare the columns of tuples", lfirst_oid(opno));
		if (program->nparts > 1 && !GjExactPartIsBits(&program->parts[program->nparts - 1]))
			program->tests_entries = false;
	}
	if (program->key_is_part && program->has_rests)
		GjExactPartUseRest(&program->parts[0]);
}

/*
 * Return true if the index's codes have rests
 */
static bool
codec_has_rests(List *codec)
{
	return codec != NIL && OidIsValid(lthird_oid(codec));
}

static void
init_codec(KeyReader *reader, GjConverter *converter, Oid type, Oid equality)
{
	List	   *codec = get_part(reader->program->key_plan, GJ_KEY_PLAN_CODEC);
	Relation	index = reader->index;
	const GjCodec *own = reader->codec;
	Oid			family;
	Oid			collation;

	if (converter->how == GJ_CONVERT_TEXT_UUID)
		type = UUIDOID;
	else if (converter->how == GJ_CONVERT_TEXT_BPCHAR)
		type = BPCHAROID;
	else if (converter->how != GJ_CONVERT_CODEC)
		return;
	family = linitial_oid(codec);
	collation = lsecond_oid(codec);
	if (converter->how != GJ_CONVERT_CODEC)
		equality = get_opfamily_member(family, type, type, GJ_EQUAL_STRATEGY);
	if (index != NULL && type == index->rd_opcintype[0] && family == index->rd_opfamily[0] &&
		collation == own->collation && codec_has_rests(codec) == GjCodecHasPairs(own))
		converter->codec = *own;
	else if (!GjCodecInit(&converter->codec, family, type, collation, codec_has_rests(codec)))
		elog(ERROR, "missing key extraction function for type %u", type);
	if (converter->codec.kind == GJ_CODEC_HASH || GjCodecHasPairs(&converter->codec))
		converter->part = make_part(family, equality, collation,
									GjCodecHasPairs(&converter->codec));
}

/*
 * Describe how rows with a listed hash are compared with the values: by the condition's operator.
 * Keys that have rests are compared by these.  The planner has made sure that the family has all
 * of these functions.
 */
static GjExactPart *
make_part(Oid family, Oid equality, Oid collation, bool has_rests)
{
	GjExactPart *part = palloc(sizeof(GjExactPart));

	if (!GjExactPartInit(part, equality, collation, family))
		elog(ERROR, "operator %u cannot compare keys", equality);
	if (has_rests)
		GjExactPartUseRest(part);
	return part;
}

/*
 * Return the IDs of the executor's parameters in the values
 */
Bitmapset *
GjKeyProgramParams(const GjKeyProgram *program)
{
	return program->param_ids;
}

/*
 * Return true if the plan is for an index whose codes have rests
 */
bool
GjKeyProgramHasRests(const GjKeyProgram *program)
{
	return program->has_rests;
}

static List *
get_part(List *key_plan, GjKeyPlanPart part)
{
	Assert(list_length(key_plan) == GJ_KEY_PLAN_COUNT);
	return (List *) list_nth(key_plan, part);
}

static bool
source_collect_params(Node *node, void *arg)
{
	GjKeyProgram *program = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		program->params = lappend(program->params, node);
		program->param_ids = bms_add_member(program->param_ids, ((Param *) node)->paramid);
	}
	return expression_tree_walker(node, source_collect_params, arg);
}

/*
 * Create the set of keys that satisfy all conditions.  It is finished, and has a context of its own
 * below the given one.
 */
GjKeySet *
GjKeyProgramRun(GjKeyProgram *program, MemoryContext context)
{
	return run_node(program, program->root, context);
}

static GjKeySet *
run_node(GjKeyProgram *program, KeyNode *node, MemoryContext context)
{
	GjKeySet   *set;

	check_stack_depth();
	if (node->step == GJ_STEP_AND)
		return run_and(program, node->operands, context);
	if (node->step == GJ_STEP_OR)
		return run_or(program, node->operands, context);
	set = GjKeySetCreate(context, program->key_width);
	add_source(program, node, set);
	GjKeySetFinish(set);
	return set;
}

static GjKeySet *
run_and(GjKeyProgram *program, List *operands, MemoryContext context)
{
	GjKeySet   *set = run_node(program, linitial(operands), context);
	ListCell   *lc;

	for_each_from(lc, operands, 1)
	{
		GjKeySet   *other = run_node(program, lfirst(lc), context);

		GjKeySetIntersect(set, other);
		GjKeySetFree(other);
	}
	return set;
}

/*
 * Compute the union of the operands.  The keys of all lists, which may be many, are added to one
 * set.
 */
static GjKeySet *
run_or(GjKeyProgram *program, List *operands, MemoryContext context)
{
	GjKeySet   *set = GjKeySetCreate(context, program->key_width);
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, operands)
	{
		KeyNode    *node = lfirst(lc);

		if (node->step == GJ_STEP_SOURCE && adds_keys(node->kind))
			add_source(program, node, set);
		else
			others = lappend(others, run_node(program, node, context));
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

/*
 * Return true if a source only adds keys, or intervals of them
 */
static bool
adds_keys(GjSourceKind kind)
{
	return kind == GJ_SOURCE_VALUE || kind == GJ_SOURCE_ARRAY || kind == GJ_SOURCE_TUPLES ||
		kind == GJ_SOURCE_PRODUCT || GjSourceIsRange(kind);
}

/*
 * Evaluate a source.  Its value and the detoasted copy of it are in the per-tuple memory, which is
 * reset when the keys have been copied.
 */
static void
add_source(GjKeyProgram *program, KeyNode *source, GjKeySet *set)
{
	ExprContext *econtext = program->parent->ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	Datum		value;
	bool		isnull = false;

	if (source->arrays != NULL)
		add_tuples(program, source, set);
	else
	{
		value = source->value == NULL ? BoolGetDatum(true) :
			ExecEvalExpr(source->value, econtext, &isnull);
		source_add_value(source, set, value, isnull);
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(econtext);
}

static void
source_add_value(KeyNode *source, GjKeySet *set, Datum value, bool isnull)
{
	switch (source->kind)
	{
		case GJ_SOURCE_VALUE:
		case GJ_SOURCE_ARRAY:
			GjAddDatumKeys(set, &source->converter, value, isnull, source->kind == GJ_SOURCE_ARRAY);
			break;
		case GJ_SOURCE_NOT_VALUE:
		case GJ_SOURCE_NOT_ARRAY:
			if (!isnull)
				add_others(source, set, value);
			break;
		case GJ_SOURCE_NULL:
			set->nulls = !isnull && DatumGetBool(value);
			break;
		case GJ_SOURCE_NULL_IN_ARRAY:
			set->nulls = !isnull && may_contain_nulls(DatumGetArrayTypeP(value));
			break;
		case GJ_SOURCE_TUPLES:
		case GJ_SOURCE_PRODUCT:
			Assert(false);		/* see add_tuples() */
			break;
		case GJ_SOURCE_BELOW:
		case GJ_SOURCE_AT_MOST:
		case GJ_SOURCE_AT_LEAST:
		case GJ_SOURCE_ABOVE:
			if (!isnull)
				source_add_range(source->kind, set, GjCodeOf(&source->converter.codec, value));
			break;
		case GJ_SOURCE_NOT_NULL:
			GjKeySetAddInterval(set, PG_INT64_MIN, PG_INT64_MAX);
			break;
	}
}

/*
 * Add the keys on one side of a bound.  The bound may be outside of what the index can store.
 */
static void
source_add_range(GjSourceKind kind, GjKeySet *set, int64 bound)
{
	bool		is_upper = kind == GJ_SOURCE_BELOW || kind == GJ_SOURCE_AT_MOST;
	bool		is_strict = kind == GJ_SOURCE_BELOW || kind == GJ_SOURCE_ABOVE;

	if (is_strict && bound == (is_upper ? PG_INT64_MIN : PG_INT64_MAX))
		return;
	if (is_strict)
		bound += is_upper ? -1 : 1;
	GjKeySetAddInterval(set, is_upper ? PG_INT64_MIN : bound, is_upper ? bound : PG_INT64_MAX);
}

/*
 * Add tuples: their keys to the set, and the values of all parts to its exact table
 *
 * If the key is a part, because its codes are hashes, then entries have no proof of it.  But they
 * can be tested by the code and the other columns.  If codes have rests, as entries do, then the
 * rest is the part.
 *
 * A tuple with a NULL equals nothing.  Of arrays whose combinations are wanted, all but one have a
 * single element; see plan/tuples.c.
 */
static void
add_tuples(GjKeyProgram *program, KeyNode *source, GjKeySet *set)
{
	Elements	arrays[INDEX_MAX_KEYS];
	int			positions[INDEX_MAX_KEYS] = {0};
	int			n = 0;

	Assert(source->narrays == program->nparts + (program->key_is_part ? 0 : 1) &&
		   source->narrays <= INDEX_MAX_KEYS);
	if (set->exact == NULL)
		set->exact = GjExactCreate(set->context, program->nparts, program->parts, false, 0);
	if (set->entry_exact == NULL && program->tests_entries)
		set->entry_exact = GjExactCreate(set->context, program->nparts - 1, program->parts + 1,
										 false, 0);
	if (!read_elements(source, program->parent->ps_ExprContext, arrays))
		return;

	for (int i = 0; i < source->narrays; i++)
		n = Max(n, arrays[i].n);
	for (int at = 0; at < n; at++)
	{
		for (int i = 0; i < source->narrays; i++)
			positions[i] = source->kind == GJ_SOURCE_PRODUCT && arrays[i].n == 1 ? 0 : at;
		add_tuple(program, source, set, arrays, positions);
	}
}

/*
 * Read the elements of all arrays.  Returns false if there is no tuple.
 */
static bool
read_elements(KeyNode *source, ExprContext *econtext, Elements *arrays)
{
	for (int i = 0; i < source->narrays; i++)
	{
		bool		isnull;
		Datum		value = ExecEvalExpr(source->arrays[i], econtext, &isnull);
		ArrayType  *array;
		int16		typlen;
		bool		typbyval;
		char		typalign;

		if (isnull)
			return false;
		array = DatumGetArrayTypeP(value);
		get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
		deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign,
						  &arrays[i].values, &arrays[i].nulls, &arrays[i].n);
		if (arrays[i].n == 0)
			return false;
	}
	return true;
}

static void
add_tuple(GjKeyProgram *program, KeyNode *source, GjKeySet *set, const Elements *arrays,
		  const int *positions)
{
	Datum		values[INDEX_MAX_KEYS];
	Datum		proof;
	int64		key;

	for (int i = 0; i < source->narrays; i++)
	{
		if (arrays[i].nulls[positions[i]])
			return;
		values[i] = arrays[i].values[positions[i]];
	}
	key = GjCodeAndProof(&source->converter.codec, values[0], &proof);
	GjKeySetAdd(set, key);
	values[0] = proof;
	GjExactList(set->exact, key, values + (program->key_is_part ? 0 : 1), false);
	if (program->tests_entries)
		GjExactList(set->entry_exact, key, values + 1, false);
}

/*
 * Add all keys except the value, or those of the array
 */
static void
add_others(KeyNode *source, GjKeySet *set, Datum value)
{
	bool		is_array = source->kind == GJ_SOURCE_NOT_ARRAY;
	ArrayType  *array = is_array ? DatumGetArrayTypeP(value) : NULL;

	if (is_array && array_contains_nulls(array))
		return;
	GjAddDatumKeys(set, &source->converter, value, false, is_array);
	GjKeySetExclude(set);
	set->nulls = is_array && ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) == 0;
}

/*
 * Return true if the array contains a NULL, or if array_position() does not accept it
 */
static bool
may_contain_nulls(ArrayType *array)
{
	return ARR_NDIM(array) > 1 || array_contains_nulls(array);
}

/*-------------------------------------------------------------------------
 * One set for all scans of a query
 *
 * Scans of one query that search for the same keys, such as those of the partitions of a table,
 * share the set: it is created once, and divided among partitions once (partition.c).
 *
 * The keys are the same if the conditions are equal as expressions, and the values of the
 * executor's parameters in them are equal.  All other parts of the conditions are the same during
 * the query:  constants, its own parameters, stable functions.  Our conditions contain no volatile
 * functions.  The values of parameters are compared, regardless of the node that has set them, so
 * rescans need no attention.  A subquery that has not run yet has no value, and is not run to get
 * one: the condition may not need it, and it may fail, or write.  If its value was not needed for a
 * set, it would not be needed when the other values are the same.
 *
 * A query is identified by its EState.  The shared sets live in its memory, and are found by its
 * address; a callback removes them when that memory is freed.  Each process has its own sets, and
 * so has a copy of the plan for EvalPlanQual, whose scans do not use this section.
 *
 * A set is freed when its last user releases it.  A scan that only needs a part of the set, which
 * has memory of its own, remains a user, because other users are likely to come.
 *-------------------------------------------------------------------------
 */

/*
 * Return the set, or the part of it that the table at the end of this path of partitions can have,
 * in the given memory.  Both are valid until the program forgets its set or takes another one.
 */
const GjKeySet *
GjKeysTake(GjKeyProgram *program, List *partitions, MemoryContext context)
{
	ParamValue *params = NULL;
	int			nparams = program->params == NIL ? 0 : read_params(program, &params);

	if (program->keys == NULL || !replace_value(program, params, nparams))
	{
		keys_release(program);
		if (program->share == NULL)
			program->share = attach(program->parent->state);
		program->keys = find_keys(program, params, nparams);
		if (program->keys == NULL)
			program->keys = create_keys(program);
		program->keys->users++;
	}
	ResetExprContext(program->parent->ps_ExprContext);
	if (partitions == NIL)
		return program->keys->set;
	if (program->keys->routes == NULL)
		program->keys->routes = GjKeyRoutesCreate(&program->share->router, program->keys->context,
												  program->keys->set);
	return GjKeyRoutesTake(program->keys->routes, partitions, context);
}

static void
keys_release(GjKeyProgram *program)
{
	GjSharedKeys *keys = program->keys;

	program->keys = NULL;
	if (keys == NULL || --keys->users > 0)
		return;
	keys->share->sets = list_delete_ptr(keys->share->sets, keys);
	MemoryContextDelete(keys->context);
}

/*
 * Release the set, unless its next value will take the place of the one that it has
 */
void
GjKeysForget(GjKeyProgram *program)
{
	if (!program->is_one_value || program->keys == NULL || program->keys->users > 1)
		keys_release(program);
}

/*
 * Search for another value, in the place of the one that the set has.  That takes a fraction of the
 * time of a new set, and is the usual case of a scan that is rescanned for each row of another
 * table.  Returns false if the set has to be made anew.
 */
static bool
replace_value(GjKeyProgram *program, const ParamValue *params, int nparams)
{
	GjSharedKeys *keys = program->keys;

	if (!program->is_one_value || keys->users > 1 || keys->nparams != nparams ||
		keys->program != program ||
		(keys->routes != NULL && GjKeyRoutesAreUsed(keys->routes)))
		return false;
	for (int i = 0; i < nparams; i++)
	{
		if (params[i].pending || keys->params[i].pending || !params[i].typbyval)
			return false;
	}
	for (int i = 0; i < nparams; i++)
		keys->params[i] = params[i];
	GjKeySetRestart(keys->set);
	add_source(program, program->root, keys->set);
	GjKeySetFinish(keys->set);
	return true;
}

/*
 * Stop using sets of this query.  The last user closes the partitioned tables.
 */
void
GjKeysEnd(GjKeyProgram *program)
{
	GjKeyShare *share = program->share;

	keys_release(program);
	program->share = NULL;
	if (share == NULL || --share->users > 0)
		return;

	Assert(share->sets == NIL);
	GjKeyRouterClose(&share->router);
}

/*
 * Return the sets that are shared in this query, with the caller as a new user
 */
static GjKeyShare *
attach(EState *estate)
{
	GjKeyShare *share;
	dlist_iter	iter;

	dlist_foreach(iter, &shares)
	{
		share = dlist_container(GjKeyShare, node, iter.cur);
		if (share->router.estate == estate)
		{
			share->users++;
			return share;
		}
	}

	share = MemoryContextAllocZero(estate->es_query_cxt, sizeof(GjKeyShare));
	share->router.estate = estate;
	share->users = 1;
	dlist_push_head(&shares, &share->node);
	share->callback.func = forget_share;
	share->callback.arg = share;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &share->callback);
	return share;
}

static void
forget_share(void *share)
{
	dlist_delete(&((GjKeyShare *) share)->node);
}

/*
 * Read the values of the executor's parameters, in the per-tuple memory
 */
static int
read_params(const GjKeyProgram *program, ParamValue **values)
{
	ExprContext *econtext = program->parent->ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	int			nparams = 0;
	ListCell   *lc;

	*values = palloc_array(ParamValue, list_length(program->params));
	foreach(lc, program->params)
	{
		read_param(lfirst(lc), econtext, &program->param_types[nparams], &(*values)[nparams]);
		nparams++;
	}
	MemoryContextSwitchTo(old);
	return nparams;
}

static void
read_param(const Param *param, ExprContext *econtext, ParamValue *type, ParamValue *value)
{
	ParamExecData *data = &econtext->ecxt_param_exec_vals[param->paramid];

	if (type->typlen == 0)
		get_typlenbyval(param->paramtype, &type->typlen, &type->typbyval);
	*value = *type;
	value->pending = data->execPlan != NULL;
	value->isnull = value->pending || data->isnull;
	value->value = data->value;
	if (!value->isnull && value->typlen == -1)
		value->value = PointerGetDatum(PG_DETOAST_DATUM(data->value));
}

static GjSharedKeys *
find_keys(const GjKeyProgram *program, const ParamValue *params, int nparams)
{
	ListCell   *lc;

	foreach(lc, program->share->sets)
	{
		if (is_asked_for(lfirst(lc), program, params, nparams))
			return lfirst(lc);
	}
	return NULL;
}

static bool
is_asked_for(const GjSharedKeys *keys, const GjKeyProgram *program, const ParamValue *params,
			 int nparams)
{
	if (keys->program->key_width != program->key_width || keys->nparams != nparams ||
		!equal(keys->program->key_plan, program->key_plan) ||
		!equal(keys->program->values, program->values))
		return false;

	for (int i = 0; i < nparams; i++)
	{
		if (!is_same_value(&keys->params[i], &params[i]))
			return false;
	}
	return true;
}

/*
 * Return true if the set was built without this parameter, or from this value
 */
static bool
is_same_value(const ParamValue *had, const ParamValue *has)
{
	if (had->pending)
		return true;
	if (has->pending || had->isnull != has->isnull)
		return false;
	return has->isnull || datumIsEqual(had->value, has->value, has->typbyval, has->typlen);
}

static GjSharedKeys *
create_keys(GjKeyProgram *program)
{
	GjKeyShare *share = program->share;
	MemoryContext query = share->router.estate->es_query_cxt;
	GjKeySet   *set = GjKeyProgramRun(program, query);
	MemoryContext old = MemoryContextSwitchTo(set->context);
	GjSharedKeys *keys = palloc0(sizeof(GjSharedKeys));

	keys->share = share;
	keys->context = set->context;	/* its own memory, too */
	keys->set = set;
	keys->program = program;
	if (program->params != NIL)
		note_params(keys, program);

	MemoryContextSwitchTo(query);
	share->sets = lappend(share->sets, keys);
	MemoryContextSwitchTo(old);
	return keys;
}

/*
 * Record the values that the set was built from, after all subqueries that it needed have run
 */
static void
note_params(GjSharedKeys *keys, const GjKeyProgram *program)
{
	ParamValue *params;

	keys->nparams = read_params(program, &params);
	keys->params = palloc_array(ParamValue, keys->nparams);
	for (int i = 0; i < keys->nparams; i++)
	{
		keys->params[i] = params[i];
		if (!params[i].isnull)
			keys->params[i].value = datumCopy(params[i].value, params[i].typbyval,
											  params[i].typlen);
	}
}
