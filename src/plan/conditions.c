/*-------------------------------------------------------------------------
 *
 * conditions.c
 *	  Fold a clause into a condition on the key: sources of keys, combined by AND and OR.
 *
 * A comparison is recognized by its operator's place in the index's operator family, never by the
 * names of its types.  A join's clause is a comparison, too, with a value of the other side.
 *
 * In WHERE, a clause lets a row pass if it is true; false and NULL are equivalent.  So we fold a
 * clause into the set of keys for which it is true:
 *
 *	  x OR y				is the union, x AND y the intersection
 *	  x IS TRUE,
 *	  COALESCE(x, false)	is x
 *	  key <> value,
 *	  key <> ALL (array)	are the intervals between the values
 *	  key < value			is an interval; comparison.c has the operators
 *	  key IS NULL			is the set of NULL keys, if the index stores them
 *
 * We never negate one of these: PostgreSQL has already pushed NOT down to the comparisons, and we
 * do not fold a NOT that remains.
 *
 *	  key IS NULL AND x		is the same if x is true: see below
 *
 * Operands of an AND that do not restrict the key may be left out: the set is too large then, and
 * the clause must also be tested on each row.  No operand of an OR may be left out.
 *
 * An index may store hashes of its keys.  Then its search also finds other values with a listed
 * hash, which the scan drops by comparing the values themselves.  So no values are excluded: that
 * would lose the rows with an unlisted value that has a listed hash.  The values are in one table
 * and are compared by one operator: so all sources of an OR must have the same operator, and of an
 * AND only one operand becomes a source.
 *
 * A hash depends on the collation.  So the condition's must be the index's; or both must be
 * deterministic, and the operator one of PostgreSQL's own for strings, which then compares bytes.
 *
 * The key may be cast if the cast is one to one: int4 to int8, to numeric as in key IN (1.0, 2.5),
 * or an integer, a uuid or a char(n) to text, because some drivers send all parameters as text.
 * match/values.c finds the keys that become a given value, of a list or a join's small side.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "pages/pages.h"
#include "planner.h"

/* State of folding a clause */
typedef struct Fold
{
	PlannerInfo *root;
	RelOptInfo *rel;
	IndexOptInfo *index;
	Relids		small;			/* of a join's clause: tables that the value may use */
	bool		exact;			/* false if the clause must also be tested on each row */
	List	   *siblings;		/* operands of the OR that is being folded */
	bool		hashed;			/* true if the index's keys are hashed */
	Oid			key_cast;		/* cast of the key that match_key() saw last, or InvalidOid */
	const char *why;			/* reason why an operator was not accepted, or NULL */

	/* result for the last operator looked up: long OR chains have only one */
	Oid			equality;
	Oid			collation;		/* under which it compares */
	Oid			cast;			/* of the key */
	bool		is_answered;
	GjSource	answer;
} Fold;

static bool may_go_first(RelOptInfo *rel, const IndexOptInfo *index, RestrictInfo *rinfo);
static void say_why(Fold *cx, RestrictInfo *rinfo, const char **refused);
static bool has_key_as_side(Fold *cx, Expr *clause);
static GjKeyNode *fold_tuples(Fold *cx, RestrictInfo *rinfo, const GjTuples **columns);
static GjKeyNode *fold(Fold *cx, Node *expr);
static bool has_keys(const Fold *cx, const GjKeyNode *node);
static GjKeyNode *fold_or(Fold *cx, BoolExpr *expr);
static GjKeyNode *fold_and(Fold *cx, BoolExpr *expr);
static GjKeyNode *fold_coalesce(Fold *cx, CoalesceExpr *expr);
static GjKeyNode *fold_clause(Fold *cx, Node *clause);
static GjKeyNode *fold_comparison(Fold *cx, const GjComparison *comparison, Oid cast);
static bool is_empty_array(Node *array);
static bool match_key(void *fold, Node *expr);
static bool cast_is_exact(Oid cast);
static bool is_cast_to_text(Oid cast);
static bool look_up_operator(Fold *cx, Oid equality, Oid collation, GjSource *source);
static bool find_operator(Fold *cx, Oid equality, Oid collation, GjSource *source);
static bool find_text_conversion(Fold *cx, Oid equality, Oid collation, GjSource *source);
static bool family_has(const IndexOptInfo *index, Oid type, Oid function);
static bool collation_fits(Fold *cx, Oid equality, Oid collation);
static bool codec_fits(Fold *cx, Oid equality, Oid value_type);
static bool same_operator(List *operands);
static bool key_is_integer(const IndexOptInfo *index);
static bool value_is_usable(Fold *cx, Node *value);
static GjKeyNode *make_node(GjStep step, List *operands);
static List *key_merge_values(List *operands);
static GjKeyNode *make_array_source(List *nodes);
static bool is_null_key(Node *test, IndexOptInfo *index);
static Expr *array_searched_for_null(Node *condition);
static bool array_is_harmless(Fold *cx, Expr *array);
static bool cannot_fail(PlannerInfo *root, void *expr);
static bool function_may_fail(Oid function, void *context);
static bool runs_subquery(PlannerInfo *root, const Param *param);
static GjKeyNode *make_source(const GjSource *source);
static GjKeyNode *make_null_node(GjSourceKind kind);
static GjKeyNode *fold_null_key(Fold *cx, BoolExpr *expr, bool *must_wait);
static bool has_subquery(Node *node, void *root);

/*
 * Fold a restriction of a table for an index; returns NULL if it does not restrict the key
 *
 * If reasons are wanted, *refused becomes the reason why a clause with the key was not folded.
 */
GjKeyCondition *
GjFoldClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, RestrictInfo *rinfo,
			 const char **refused)
{
	Fold		cx = {.root = root,.rel = rel,.index = index,.exact = true,
	.hashed = GjIndexIsHashed(index)};
	GjKeyCondition *condition;
	const GjTuples *tuples = NULL;
	GjKeyNode  *node = NULL;

	if (may_go_first(rel, index, rinfo))
	{
		node = fold_tuples(&cx, rinfo, &tuples);
		if (node == NULL)
			node = fold(&cx, (Node *) rinfo->clause);
	}
	if (node == NULL || !has_keys(&cx, node))
	{
		say_why(&cx, rinfo, refused);
		return NULL;
	}

	condition = palloc0(sizeof(GjKeyCondition));
	condition->rinfo = rinfo;
	condition->node = node;
	condition->exact = cx.exact;
	condition->tuples = tuples;
	return condition;
}

/*
 * Fold a join's clause; returns false if it is not "key = value", with a value of the small side
 *
 * *refused is as above.
 */
bool
GjFoldJoinClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, RestrictInfo *rinfo,
				 Relids small, GjSource *key, const char **refused)
{
	Fold		cx = {.root = root,.rel = rel,.index = index,.small = small,
	.hashed = GjIndexIsHashed(index)};
	GjKeyNode  *node = NULL;

	if (may_go_first(rel, index, rinfo))
		node = fold_clause(&cx, (Node *) rinfo->clause);
	if (node != NULL && node->source.conversion == GJ_CONVERT_TEXT_UUID &&
		!OidIsValid(GjIndexRestProc(index)))
		node = NULL;			/* the converted uuid would have to be kept */
	if (node == NULL || node->source.kind != GJ_SOURCE_VALUE)
	{
		say_why(&cx, rinfo, refused);
		return false;
	}
	*key = node->source;
	return true;
}

/*
 * Return true if our nodes may test this clause before all others: it must depend on the row, and
 * no security barrier may precede it
 */
static bool
may_go_first(RelOptInfo *rel, const IndexOptInfo *index, RestrictInfo *rinfo)
{
	return !rinfo->pseudoconstant && restriction_is_securely_promotable(rinfo, rel) &&
		(!GjPassesBarrier(rinfo, rel) || GjIndexIsHarmless(index));
}

/*
 * Return true if codes may be made of the keys of rows that a security barrier hides
 */
bool
GjIndexIsHarmless(const IndexOptInfo *index)
{
	Oid			family = index->opfamily[0];
	Oid			type = index->opcintype[0];

	if (!GjIndexIsHashed(index))
		return GjIndexKeepsValues(index);
	return GjHashIsHarmless(get_opfamily_proc(family, type, type, GJ_HASH_PROC)) &&
		GjHashIsHarmless(get_opfamily_proc(family, type, type, GJ_IMAGE_PROC));
}

/*
 * Return true if a hash function, or none, may be called for rows that a security barrier hides
 *
 * PostgreSQL itself hashes values of such rows for a leakproof = ANY, though it marks none of its
 * hash functions leakproof.
 */
bool
GjHashIsHarmless(Oid function)
{
	return function < FirstNormalObjectId || get_func_leakproof(function);
}

/*
 * Find the reason why a clause with the key was not folded, if reasons are wanted
 */
static void
say_why(Fold *cx, RestrictInfo *rinfo, const char **refused)
{
	Node	   *clause = (Node *) rinfo->clause;
	const char *what;

	if (!GjChoiceIsNoted() || !GjChoiceHasKey(rinfo, cx->index))
		return;

	if (!may_go_first(cx->rel, cx->index, rinfo))
		what = "has to wait for a security barrier";
	else if (contain_volatile_functions(clause))
		what = "is volatile";
	else if (contain_subplans(clause))
		what = "has a subquery that is no join: NOT IN, below OR, or dependent on the row";
	else if (!has_key_as_side(cx, rinfo->clause))
		what = "uses the key inside an expression";
	else if (cx->why != NULL)
		what = cx->why;
	else if (bms_overlap(rinfo->left_relids, cx->rel->relids) &&
			 bms_overlap(rinfo->right_relids, cx->rel->relids))
		what = "compares the key with what depends on the same row";
	else
		what = NULL;
	*refused = GjChoiceSay(cx->root, rinfo, cx->index, what);
}

/*
 * Return true if the key alone is one side of a comparison, or if the clause is not a comparison
 */
static bool
has_key_as_side(Fold *cx, Expr *clause)
{
	List	   *args = GjOperandsOf(clause);

	if (!IsA(clause, OpExpr) && !IsA(clause, ScalarArrayOpExpr))
		return true;
	return match_key(cx, linitial(args)) || match_key(cx, llast(args));
}

/*
 * Fold a whole clause that is a list of tuples; *columns becomes the first of them
 */
static GjKeyNode *
fold_tuples(Fold *cx, RestrictInfo *rinfo, const GjTuples **columns)
{
	List	   *operands = NIL;
	List	   *lists;
	ListCell   *lc;

	if (!is_orclause(rinfo->clause))
		return NULL;
	lists = GjFindTuples(cx->rel, cx->index, rinfo);
	foreach(lc, lists)
	{
		GjTuples   *tuples = lfirst(lc);
		GjKeyNode  *operand = fold_comparison(cx, &tuples->key, InvalidOid);

		if (operand == NULL)
			return NULL;
		operand->source.kind = tuples->is_product ? GJ_SOURCE_PRODUCT : GJ_SOURCE_TUPLES;
		operand->source.tuples = tuples;
		operands = lappend(operands, operand);
	}
	if (operands == NIL)
		return NULL;
	*columns = linitial(lists);
	return make_node(GJ_STEP_OR, operands);
}

static GjKeyNode *
fold(Fold *cx, Node *expr)
{
	check_stack_depth();

	switch (nodeTag(expr))
	{
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
			return fold_clause(cx, expr);
		case T_BoolExpr:
			if (is_orclause(expr))
				return fold_or(cx, (BoolExpr *) expr);
			if (is_andclause(expr))
				return fold_and(cx, (BoolExpr *) expr);
			return NULL;
		case T_BooleanTest:
			if (((BooleanTest *) expr)->booltesttype == IS_TRUE)
				return fold(cx, (Node *) ((BooleanTest *) expr)->arg);
			return NULL;
		case T_CoalesceExpr:
			return fold_coalesce(cx, (CoalesceExpr *) expr);
		case T_NullTest:
			return is_null_key(expr, cx->index) && GjIndexHasNulls(cx->index) ?
				make_null_node(GJ_SOURCE_NULL) : NULL;
		default:
			return NULL;
	}
}

/*
 * Return true if the index can have entries of a set, which may be of NULL keys only: an index is
 * not meant for reading the whole table
 */
static bool
has_keys(const Fold *cx, const GjKeyNode *node)
{
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return (node->source.kind != GJ_SOURCE_NULL &&
				node->source.kind != GJ_SOURCE_NULL_IN_ARRAY) ||
			GjIndexHasNulls(cx->index);
	foreach(lc, node->operands)
	{
		if (has_keys(cx, lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * Make a node of all keys, also of NULL keys if these are wanted
 */
GjKeyNode *
GjMakeWholeNode(bool nulls)
{
	List	   *nodes = list_make1(make_null_node(GJ_SOURCE_NOT_NULL));

	if (nulls)
		nodes = lappend(nodes, make_null_node(GJ_SOURCE_NULL));
	return make_node(GJ_STEP_OR, nodes);
}

/*
 * Make a node of all NULL keys, or of all that are not NULL
 */
static GjKeyNode *
make_null_node(GjSourceKind kind)
{
	GjSource	source = {.kind = kind};

	return make_source(&source);
}

/*
 * Fold an OR: each operand must yield a set
 */
static GjKeyNode *
fold_or(Fold *cx, BoolExpr *expr)
{
	List	   *operands = NIL;
	List	   *outer = cx->siblings;
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		GjKeyNode  *operand;

		cx->siblings = expr->args;
		operand = fold(cx, lfirst(lc));
		cx->siblings = outer;
		if (operand == NULL)
			return NULL;
		if (cx->hashed && operand->step == GJ_STEP_OR)
			operands = list_concat(operands, operand->operands);
		else
			operands = lappend(operands, operand);
	}
	if (cx->hashed && !same_operator(operands))
	{
		cx->why = "compares the key with values of several types";
		return NULL;
	}
	return make_node(GJ_STEP_OR, key_merge_values(operands));
}

static GjKeyNode *
fold_and(Fold *cx, BoolExpr *expr)
{
	bool		must_wait = false;
	GjKeyNode  *null_key = fold_null_key(cx, expr, &must_wait);
	List	   *operands = NIL;
	ListCell   *lc;

	if (null_key != NULL || must_wait)
		return null_key;

	foreach(lc, expr->args)
	{
		GjKeyNode  *operand = cx->hashed && operands != NIL ? NULL : fold(cx, lfirst(lc));

		if (operand != NULL)
			operands = lappend(operands, operand);
		else
			cx->exact = false;
	}
	return operands == NIL ? NULL : make_node(GJ_STEP_AND, operands);
}

/*
 * Fold COALESCE(x, false) as x: false and NULL are equivalent here
 */
static GjKeyNode *
fold_coalesce(Fold *cx, CoalesceExpr *expr)
{
	ListCell   *lc;

	for_each_from(lc, expr->args, 1)
	{
		Const	   *value = lfirst(lc);

		if (!IsA(value, Const) || (!value->constisnull && DatumGetBool(value->constvalue)))
			return NULL;
	}
	return fold(cx, linitial(expr->args));
}

/*
 * Fold a comparison of the key
 */
static GjKeyNode *
fold_clause(Fold *cx, Node *clause)
{
	GjComparison comparison;

	return GjReadComparison(clause, match_key, cx, &comparison) ?
		fold_comparison(cx, &comparison, cx->key_cast) : NULL;
}

/*
 * Fold key = value, key <> value or a range, key = ANY (array) or key <> ALL (array)
 *
 * = ALL and <> ANY have other meanings, and <> ALL ('{}') asks for all rows.
 */
static GjKeyNode *
fold_comparison(Fold *cx, const GjComparison *comparison, Oid cast)
{
	GjSource	source = {.value = comparison->value,.opno = comparison->opno,.cast = cast};
	bool		is_array = comparison->is_array;

	if ((!is_array || comparison->is_any) &&
		look_up_operator(cx, source.opno, comparison->collation, &source))
		source.kind = is_array ? GJ_SOURCE_ARRAY : GJ_SOURCE_VALUE;
	else if (!comparison->is_any &&
			 look_up_operator(cx, get_negator(source.opno), comparison->collation, &source))
	{
		if (cx->hashed)
		{
			cx->why = "excludes values, of which the index stores hashes";
			return NULL;
		}
		source.kind = is_array ? GJ_SOURCE_NOT_ARRAY : GJ_SOURCE_NOT_VALUE;
	}
	else if (is_array || cx->small != NULL ||
			 !GjFindRange(cx->index, source.opno, &source, &cx->why))
		return NULL;

	if (!value_is_usable(cx, (Node *) source.value) ||
		(source.kind == GJ_SOURCE_NOT_ARRAY && is_empty_array((Node *) source.value)))
		return NULL;
	return make_source(&source);
}

static bool
is_empty_array(Node *array)
{
	Const	   *constant = (Const *) array;

	return IsA(array, Const) && !constant->constisnull &&
		ARR_NDIM(DatumGetArrayTypeP(constant->constvalue)) == 0;
}

/*
 * Return true if an expression is the index's key or an exact cast of it
 */
static bool
match_key(void *fold, Node *expr)
{
	Fold	   *cx = fold;
	Node	   *arg;

	cx->key_cast = InvalidOid;
	if (match_index_to_operand(expr, 0, cx->index))
		return true;

	arg = GjReadCast(expr, &cx->key_cast);
	return arg != NULL && match_index_to_operand(arg, 0, cx->index);
}

/*
 * Return the argument of a cast that preserves equality, or NULL
 */
Node *
GjReadCast(Node *expr, Oid *cast)
{
	FuncExpr   *func;
	CoerceViaIO *coerce;
	bool		is_varlena;

	expr = GjStripRelabel(expr);	/* from varchar */
	func = (FuncExpr *) expr;
	coerce = (CoerceViaIO *) expr;

	if (IsA(expr, FuncExpr) && list_length(func->args) == 1 && cast_is_exact(func->funcid))
	{
		*cast = func->funcid;
		return linitial(func->args);
	}
	if (IsA(expr, CoerceViaIO) &&
		(coerce->resulttype == TEXTOID || coerce->resulttype == VARCHAROID))
	{
		getTypeOutputInfo(exprType((Node *) coerce->arg), cast, &is_varlena);
		return is_cast_to_text(*cast) ? (Node *) coerce->arg : NULL;
	}
	return NULL;
}

/*
 * Return true for a cast of integers that preserves equality, or one for which match/values.c
 * finds the integers that become equal to a value
 */
static bool
cast_is_exact(Oid cast)
{
	switch (cast)
	{
		case F_INT4_INT2:
		case F_INT8_INT2:
		case F_INT8_INT4:
		case F_NUMERIC_INT2:
		case F_NUMERIC_INT4:
		case F_NUMERIC_INT8:
		case F_FLOAT8_INT2:
		case F_FLOAT8_INT4:
		case F_FLOAT8_INT8:
			return true;
		default:
			return is_cast_to_text(cast);
	}
}

/*
 * Return true for a cast to text for which match/values.c finds the key; casts by an output
 * function are represented by it
 */
static bool
is_cast_to_text(Oid cast)
{
	switch (cast)
	{
		case F_TEXT_BPCHAR:
		case F_INT2OUT:
		case F_INT4OUT:
		case F_INT8OUT:
		case F_UUID_OUT:
			return true;
		default:
			return false;
	}
}

/*
 * Return true if an operator is an equality that the index can answer, with the key on the left;
 * then fill in the conversion of its right side to a key
 */
static bool
look_up_operator(Fold *cx, Oid equality, Oid collation, GjSource *source)
{
	if (!OidIsValid(equality))
		return false;

	if (equality != cx->equality || collation != cx->collation || source->cast != cx->cast)
	{
		cx->equality = equality;
		cx->collation = collation;
		cx->cast = source->cast;
		cx->answer = *source;
		cx->is_answered = find_operator(cx, equality, collation, &cx->answer);
	}
	source->conversion = cx->answer.conversion;
	source->value_type = cx->answer.value_type;
	return cx->is_answered;
}

static bool
find_operator(Fold *cx, Oid equality, Oid collation, GjSource *source)
{
	Oid			family = cx->index->opfamily[0];
	Oid			left_type;
	int			strategy;

	if (is_cast_to_text(source->cast))
		return find_text_conversion(cx, equality, collation, source);
	if (get_op_opfamily_strategy(equality, family) == GJ_EQUAL_STRATEGY)
	{
		get_op_opfamily_properties(equality, family, false, &strategy, &left_type,
								   &source->value_type);
		source->conversion = GJ_CONVERT_CODEC;
		return collation_fits(cx, equality, collation) &&
			codec_fits(cx, equality, source->value_type);
	}

	if (!OidIsValid(source->cast) || !key_is_integer(cx->index))
		return false;
	switch (get_opcode(equality))
	{
		case F_NUMERIC_EQ:
			source->conversion = GJ_CONVERT_NUMERIC;
			source->value_type = NUMERICOID;
			return true;
		case F_FLOAT8EQ:
			source->conversion = GJ_CONVERT_FLOAT8;
			source->value_type = FLOAT8OID;
			return true;
		default:
			return false;
	}
}

/*
 * Fill in the conversion of a text to the key of which it is the text
 *
 * The family's own equality must be PostgreSQL's, because we convert to its types.
 */
static bool
find_text_conversion(Fold *cx, Oid equality, Oid collation, GjSource *source)
{
	Oid			own = cx->index->indexcollations[0];

	if (get_opcode(equality) != F_TEXTEQ)
		return false;
	if (!OidIsValid(collation) || !get_collation_isdeterministic(collation) ||
		(OidIsValid(own) && !get_collation_isdeterministic(own)))
	{
		cx->why = "casts the key to text, and compares under a collation that is not deterministic";
		return false;
	}

	source->value_type = TEXTOID;
	switch (source->cast)
	{
		case F_TEXT_BPCHAR:
			source->conversion = GJ_CONVERT_TEXT_BPCHAR;
			return family_has(cx->index, BPCHAROID, F_BPCHAREQ) &&
				codec_fits(cx, equality, BPCHAROID);
		case F_UUID_OUT:
			source->conversion = GJ_CONVERT_TEXT_UUID;
			return family_has(cx->index, UUIDOID, F_UUID_EQ) &&
				codec_fits(cx, equality, UUIDOID);
		default:
			source->conversion = GJ_CONVERT_TEXT_INTEGER;
			return key_is_integer(cx->index);
	}
}

/*
 * Return true if a type is the indexed one, and its equality in the index's operator family is this
 * function
 */
static bool
family_has(const IndexOptInfo *index, Oid type, Oid function)
{
	Oid			opno = get_opfamily_member(index->opfamily[0], type, type, GJ_EQUAL_STRATEGY);

	return index->opcintype[0] == type && OidIsValid(opno) && get_opcode(opno) == function;
}

/*
 * Return true if an operator compares under a collation for which the index's codes were made
 */
static bool
collation_fits(Fold *cx, Oid equality, Oid collation)
{
	Oid			own = cx->index->indexcollations[0];
	Oid			function;

	if (!OidIsValid(own) || collation == own)
		return true;
	function = get_opcode(equality);
	if ((function == F_TEXTEQ || function == F_BPCHAREQ) && OidIsValid(collation) &&
		get_collation_isdeterministic(collation) && get_collation_isdeterministic(own))
		return true;
	cx->why = "compares under another collation than the index's";
	return false;
}

/*
 * Return true if the operator family converts values of this type to the same codes as values of
 * the indexed type.  If codes are hashes, it must also have all that an exact comparison needs
 * (rows/source.c).
 */
static bool
codec_fits(Fold *cx, Oid equality, Oid value_type)
{
	Oid			family = cx->index->opfamily[0];
	Oid			type = cx->index->opcintype[0];
	Oid			same;

	if (!cx->hashed)
		return OidIsValid(get_opfamily_proc(family, value_type, value_type, GJ_KEY_PROC)) &&
			!OidIsValid(get_opfamily_proc(family, value_type, value_type, GJ_HASH_PROC));

	if (OidIsValid(get_opfamily_proc(family, type, type, GJ_REST_PROC)) && value_type != type)
		return false;
	same = get_opfamily_member(family, value_type, value_type, GJ_EQUAL_STRATEGY);
	return OidIsValid(get_opfamily_proc(family, value_type, value_type, GJ_HASH_PROC)) &&
		!OidIsValid(get_opfamily_proc(family, value_type, value_type, GJ_KEY_PROC)) &&
		OidIsValid(get_opfamily_proc(family, value_type, value_type, GJ_IMAGE_PROC)) ==
		OidIsValid(get_opfamily_proc(family, type, type, GJ_IMAGE_PROC)) &&
		OidIsValid(same) && op_strict(same) && op_strict(equality);
}

/*
 * Return true if the index's keys are the indexed integers themselves
 */
static bool
key_is_integer(const IndexOptInfo *index)
{
	Oid			type = index->opcintype[0];

	return (type == INT2OID || type == INT4OID || type == INT8OID) && GjIndexKeepsValues(index);
}

/*
 * Return true if a value is the same for each row, or a join's value of the small side
 */
static bool
value_is_usable(Fold *cx, Node *value)
{
	return GjIsSameForRows(value) ||
		(cx->small != NULL && !contain_subplans(value) && !contain_volatile_functions(value) &&
		 bms_is_subset(pull_varnos(cx->root, value), cx->small));
}

/*-------------------------------------------------------------------------
 * Trees of clauses
 *
 * The tree into which clauses are folded, and its representation in a plan.
 *
 * Tools write chains of hundreds of "key = value".  We combine operands of an OR that differ only
 * in the value into one array, so that the plan is short, and all values are evaluated and
 * converted together.
 *-------------------------------------------------------------------------
 */

/*
 * Make a leaf
 */
static GjKeyNode *
make_source(const GjSource *source)
{
	GjKeyNode  *node = palloc0(sizeof(GjKeyNode));

	node->step = GJ_STEP_SOURCE;
	node->source = *source;
	return node;
}

static GjKeyNode *
make_node(GjStep step, List *operands)
{
	GjKeyNode  *node;

	if (list_length(operands) == 1)
		return linitial(operands);

	node = palloc0(sizeof(GjKeyNode));
	node->step = step;
	node->operands = operands;
	return node;
}

/*
 * Return true if all sources that compare the key do so by the same operator
 */
static bool
same_operator(List *operands)
{
	Oid			opno = InvalidOid;
	ListCell   *lc;

	foreach(lc, operands)
	{
		const GjKeyNode *node = lfirst(lc);

		if (!OidIsValid(node->source.opno))
			continue;
		if (OidIsValid(opno) && opno != node->source.opno)
			return false;
		opno = node->source.opno;
	}
	return true;
}

/*
 * Combine the operands of an OR that are "key = value" with the same operator into one array
 */
static List *
key_merge_values(List *operands)
{
	GjKeyNode  *first = NULL;
	List	   *values = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, operands)
	{
		GjKeyNode  *node = lfirst(lc);

		if (node->step == GJ_STEP_SOURCE && node->source.kind == GJ_SOURCE_VALUE &&
			(first == NULL || (node->source.opno == first->source.opno &&
							   node->source.cast == first->source.cast)))
		{
			first = first ? first : node;
			values = lappend(values, node);
		}
		else
			others = lappend(others, node);
	}
	if (list_length(values) < 2)
		return operands;
	return lcons(make_array_source(values), others);
}

static GjKeyNode *
make_array_source(List *nodes)
{
	GjKeyNode  *first = linitial(nodes);
	GjSource	source = first->source;
	List	   *values = NIL;
	ListCell   *lc;

	foreach(lc, nodes)
		values = lappend(values, ((GjKeyNode *) lfirst(lc))->source.value);
	source.kind = GJ_SOURCE_ARRAY;
	source.value = GjMakeArray(source.value_type, values);
	return make_source(&source);
}

/*-------------------------------------------------------------------------
 * Rows with a NULL key
 *
 * Fold "key IS NULL AND condition".
 *
 * A row-independent condition beside "key IS NULL" is a source, too, as in the clause that the
 * Entity Framework writes: key = ANY ($1) OR (key IS NULL AND array_position($1, NULL) IS NOT
 * NULL).  An index that does not store NULL keys has no such rows, so the scan reads the whole
 * table if the condition turns out to be true.  That is correct, and rare.  A plain "key IS NULL"
 * always asks for such rows; with such an index we offer nothing for it.
 *
 * We evaluate such a condition before the scan, but PostgreSQL only when it finds a NULL key.  So
 * its evaluation must have no visible effect: it cannot fail, and it runs no subquery, which might
 * also write.  array_position() can fail, if its array is multidimensional: instead the scan
 * itself searches the array, assumes that a multidimensional one may contain a NULL, and tests the
 * whole clause on each row, too.  The array may be any expression, if keys are taken from the same
 * one.
 *-------------------------------------------------------------------------
 */

/*
 * Fold an AND that combines "key IS NULL" with conditions that are the same for each row; returns
 * NULL if it is something else, or if these must not be evaluated before the scan
 *
 * *must_wait becomes true if a condition must not be evaluated before a NULL key has been found,
 * which is not known as early as the scan tests its entries.
 */
static GjKeyNode *
fold_null_key(Fold *cx, BoolExpr *expr, bool *must_wait)
{
	GjSource	source = {.kind = GJ_SOURCE_NULL};
	List	   *conditions = NIL;
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		if (!is_null_key(lfirst(lc), cx->index))
			conditions = lappend(conditions, lfirst(lc));
	}
	if (conditions == NIL || list_length(conditions) == list_length(expr->args))
		return NULL;

	source.value = list_length(conditions) == 1 ?
		array_searched_for_null(linitial(conditions)) : NULL;
	if (source.value != NULL && array_is_harmless(cx, source.value))
	{
		source.kind = GJ_SOURCE_NULL_IN_ARRAY;
		cx->exact = false;
		return make_source(&source);
	}

	if (!cannot_fail(cx->root, conditions))
	{
		foreach(lc, conditions)
			*must_wait |= has_subquery(lfirst(lc), cx->root) ||
				(!contain_var_clause(lfirst(lc)) && !cannot_fail(cx->root, lfirst(lc)));
		return NULL;
	}
	source.value = make_ands_explicit(conditions);
	return make_source(&source);
}

/*
 * Return true if an expression may run a subquery
 */
static bool
has_subquery(Node *node, void *root)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || (IsA(node, Param) && runs_subquery(root, (Param *) node)))
		return true;
	return expression_tree_walker(node, has_subquery, root);
}

static bool
is_null_key(Node *test, IndexOptInfo *index)
{
	NullTest   *null_test = (NullTest *) test;

	return IsA(test, NullTest) && null_test->nulltesttype == IS_NULL &&
		!null_test->argisrow && match_index_to_operand((Node *) null_test->arg, 0, index);
}

/*
 * Return the array of array_position(array, NULL) IS NOT NULL, or NULL for other conditions
 */
static Expr *
array_searched_for_null(Node *condition)
{
	NullTest   *test = (NullTest *) condition;
	FuncExpr   *call;
	Const	   *wanted;

	if (!IsA(test, NullTest) || test->nulltesttype != IS_NOT_NULL || test->argisrow ||
		!IsA(test->arg, FuncExpr))
		return NULL;

	call = (FuncExpr *) test->arg;
	if (call->funcid != F_ARRAY_POSITION_ANYCOMPATIBLEARRAY_ANYCOMPATIBLE)
		return NULL;
	wanted = lsecond(call->args);
	return IsA(wanted, Const) && wanted->constisnull ? linitial(call->args) : NULL;
}

/*
 * Return true if an array cannot fail, or if keys are taken from it anyway
 */
static bool
array_is_harmless(Fold *cx, Expr *array)
{
	ListCell   *lc;

	foreach(lc, cx->siblings)
	{
		ScalarArrayOpExpr *any = lfirst(lc);

		if (IsA(any, ScalarArrayOpExpr) && equal(lsecond(any->args), array))
			return true;
	}
	return cannot_fail(cx->root, array);
}

/*
 * Return true for an expression that can be evaluated at any time
 */
static bool
cannot_fail(PlannerInfo *root, void *expr)
{
	return !GjMayFail(expr, root) && !contain_volatile_functions(expr);
}

/*
 * Return true unless the evaluation of an expression without columns certainly raises no error.
 * That of a parameter of the executor may run a subquery, unless the root, which may be NULL, tells
 * otherwise.
 */
bool
GjMayFail(Node *node, void *root)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Param:
			return ((Param *) node)->paramkind == PARAM_EXEC &&
				(root == NULL || runs_subquery(root, (Param *) node));
		case T_Const:
		case T_List:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_SQLValueFunction:
			break;
		case T_ArrayExpr:
			if (((ArrayExpr *) node)->multidims)
				return true;	/* its rows must have the same length */
			break;
		case T_FuncExpr:
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
			if (check_functions_in_node(node, function_may_fail, NULL))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, GjMayFail, root);
}

/*
 * Return true unless a function is leakproof: such a function does not fail, whatever its
 * arguments
 */
static bool
function_may_fail(Oid function, void *context)
{
	return !get_func_leakproof(function);
}

/*
 * Return true if a parameter is computed by an uncorrelated subquery when its value is first
 * needed
 *
 * The subquery belongs to this query level, or to one above whose condition was pushed down.
 * Other parameters of the executor are set before a scan starts.
 */
static bool
runs_subquery(PlannerInfo *root, const Param *param)
{
	if (param->paramkind != PARAM_EXEC)
		return false;
	for (; root != NULL; root = root->parent_root)
	{
		ListCell   *lc;

		foreach(lc, root->init_plans)
		{
			if (list_member_int(lfirst_node(SubPlan, lc)->setParam, param->paramid))
				return true;
		}
	}
	return false;
}
