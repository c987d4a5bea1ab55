/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  Every property that EXPLAIN shows of our nodes.
 *
 * Facts of the plan are shown always, counters with ANALYZE, times with TIMING.
 * Who answered, and how much memory that took, depends on the machine.  Whoever runs a
 * query to see how it went wants to know, costs or not; a test that compares plans does not.
 * It has to switch off COSTS, TIMING and SUMMARY, or no two of its plans would be the same:
 * with all three off, such facts are left out, too.
 *
 * Counters are those of all processes, if the node is parallel-aware (parallel.c);
 * of one that a worker runs as a whole, only PostgreSQL's own get to the leader.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "node/filterplan.h"
#include "node/scanplan.h"
#include "service/service.h"
#include "explain.h"

/*
 * A constant array is shown in full up to this many elements; of a longer one
 * only the first few are.
 */
#define MAX_SHOWN_ELEMENTS		32
#define SHOWN_OF_LONG_ARRAY		8

static char *deparse_condition(Expr *condition, List *context, bool useprefix);
static char *deparse_key_qual(Expr *qual, List *context, bool useprefix);
static Const *find_long_array(Expr *qual, int *nelems);
static Const *shorten_array(Const *array);
static char *mark_omission(char *text, int nelems);
static void explain_filter_recheck(CustomScanState *node, ExplainState *es);
static void explain_sort(ExplainState *es, const GjOrderedStats *stats,
						 const GjMatchStats *match);
static void explain_pages(ExplainState *es, const GjMatchStats *match);
static void explain_device(ExplainState *es, const GjMatchStats *match);
static void explain_heap_blocks(ExplainState *es, const GjFetchStats *fetch);

/*
 * Structured formats use the name that readers of plans know from PostgreSQL's own
 * index scans.
 */
void
GjExplainIndex(ExplainState *es, Oid index_oid)
{
	const char *name = get_rel_name(index_oid);

	if (name == NULL)
		elog(ERROR, "cache lookup failed for index %u", index_oid);

	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Index", quote_identifier(name), es);
	else
		ExplainPropertyText("Index Name", name, es);
}

/*
 * Show the clauses that the index answers: expressions of the finished plan, each
 * comparison with the key on the left
 */
void
GjExplainKeyCondition(CustomScanState *node, List *ancestors, ExplainState *es,
					  List *key_quals)
{
	bool		is_join = ((Scan *) node->ss.ps.plan)->scanrelid == 0;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	Expr	   *condition = make_ands_explicit(key_quals);

	ExplainPropertyText("Key Condition",
						deparse_condition(condition, context, is_join || es->verbose), es);
}

/*
 * Show the filters that entries are tested by, and the number of entries dropped; and which of
 * these filters a device has tested already
 */
void
GjExplainIndexFilter(CustomScanState *node, List *ancestors, ExplainState *es,
					 List *filters, const GjMatchStats *match)
{
	Plan	   *plan = node->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);
	List	   *on_device = NIL;
	ListCell   *lc;

	if (filters == NIL)
		return;
	foreach(lc, filters)
	{
		int			part = foreach_current_index(lc);

		if (part < 64 && (match->device_filter >> part & 1) != 0)
			on_device = lappend(on_device, lfirst(lc));
	}
	ExplainPropertyText("Index Filter",
						deparse_condition(make_ands_explicit(filters), context, es->verbose), es);
	if (es->analyze && match->searches > 0)
	{
		if (match->filtered > 0 || es->format != EXPLAIN_FORMAT_TEXT)
			ExplainPropertyUInteger("Rows Removed by Index Filter", NULL, match->filtered, es);
		if (plan->qual == NIL)
			explain_filter_recheck(node, es);
	}
	if (on_device != NIL && GjExplainMachine(es))
		ExplainPropertyText("Device Filter",
							deparse_condition(make_ands_explicit(on_device), context, es->verbose),
							es);
}

/*
 * Show how many rows of the table did not pass the filters of entries, per loop as PostgreSQL does
 *
 * Where the plan has other filters as well, PostgreSQL shows those rows as removed by "Filter".
 */
static void
explain_filter_recheck(CustomScanState *node, ExplainState *es)
{
	Instrumentation *instrument = node->ss.ps.instrument;
	double		removed = instrument == NULL ? 0.0 : instrument->nfiltered1;

	if (removed > 0.0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat("Rows Removed by Filter Recheck", NULL,
							 removed > 0.0 ? removed / Max(instrument->nloops, 1.0) : 0.0, 0, es);
}

/*
 * Deparse AND and OR by hand, so that each comparison can be shortened on its own
 */
static char *
deparse_condition(Expr *condition, List *context, bool useprefix)
{
	BoolExpr   *bool_expr = (BoolExpr *) condition;
	StringInfoData text;
	ListCell   *lc;

	if (!IsA(condition, BoolExpr) || bool_expr->boolop == NOT_EXPR)
		return deparse_key_qual(condition, context, useprefix);

	initStringInfo(&text);
	appendStringInfoChar(&text, '(');
	foreach(lc, bool_expr->args)
	{
		if (lc != list_head(bool_expr->args))
			appendStringInfoString(&text, bool_expr->boolop == AND_EXPR ? " AND " : " OR ");
		appendStringInfoString(&text, deparse_condition(lfirst(lc), context, useprefix));
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

/*
 * Deparse one comparison; where a long array has to be cut, the copy is cut, never the
 * plan, which may be cached
 */
static char *
deparse_key_qual(Expr *qual, List *context, bool useprefix)
{
	int			nelems;
	Const	   *array = find_long_array(qual, &nelems);
	ScalarArrayOpExpr *shown;

	if (array == NULL)
		return deparse_expression((Node *) qual, context, useprefix, false);

	shown = makeNode(ScalarArrayOpExpr);
	memcpy(shown, qual, sizeof(ScalarArrayOpExpr));
	shown->args = list_make2(linitial(shown->args), shorten_array(array));

	return mark_omission(deparse_expression((Node *) shown, context, useprefix, false),
						 nelems);
}

/*
 * The constant array of a clause if it is too long to be shown, else NULL
 */
static Const *
find_long_array(Expr *qual, int *nelems)
{
	Const	   *value;
	ArrayType  *array;

	if (!IsA(qual, ScalarArrayOpExpr))
		return NULL;
	value = lsecond(((ScalarArrayOpExpr *) qual)->args);
	if (!IsA(value, Const) || value->constisnull)
		return NULL;

	array = DatumGetArrayTypeP(value->constvalue);
	*nelems = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return *nelems > MAX_SHOWN_ELEMENTS ? value : NULL;
}

/*
 * An array of the same type that has the first few elements in one dimension
 */
static Const *
shorten_array(Const *constant)
{
	ArrayType  *array = DatumGetArrayTypeP(constant->constvalue);
	Oid			type = ARR_ELEMTYPE(array);
	Const	   *result = makeNode(Const);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	int			dims[1] = {SHOWN_OF_LONG_ARRAY};
	int			bounds[1] = {1};

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign, &elems, &nulls, &nelems);

	memcpy(result, constant, sizeof(Const));
	result->constvalue = PointerGetDatum(construct_md_array(elems, nulls, 1, dims, bounds, type,
															typlen, typbyval, typalign));
	return result;
}

/*
 * Say at the end of the array's text, which is the last one of a clause, that
 * there is more: the clause must not read as if it were the query's own.
 */
static char *
mark_omission(char *text, int nelems)
{
	char	   *end = NULL;

	for (char *s = strstr(text, "}'"); s != NULL; s = strstr(s + 1, "}'"))
		end = s;
	if (end == NULL)
		return text;

	return psprintf("%.*s,... (%d elements)%s", (int) (end - text), text, nelems, end);
}

/*
 * Show the order in which rows come, as PostgreSQL shows that of a Sort, and with ANALYZE what it
 * took
 */
void
GjExplainOrder(CustomScanState *node, List *ancestors, ExplainState *es, List *order,
			   List *columns, const GjOrderedStats *stats, const GjMatchStats *match)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	List	   *keys = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, order, lc2, columns)
	{
		bool		descending = list_nth_int(lfirst(lc), GJ_ORDER_DESCENDING);
		bool		nulls_first = list_nth_int(lfirst(lc), GJ_ORDER_NULLS_FIRST);

		keys = lappend(keys, psprintf("%s%s%s",
									  deparse_expression(lfirst(lc2), context, es->verbose, false),
									  descending ? " DESC" : "",
									  nulls_first == descending ? "" :
									  nulls_first ? " NULLS FIRST" : " NULLS LAST"));
	}
	ExplainPropertyList("Sort Key", keys, es);
	if (!es->analyze || stats == NULL)
		return;
	ExplainPropertyUInteger("Order Batches", NULL, stats->batches, es);
	ExplainPropertyUInteger("Rows Ordered", NULL, stats->rows, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || stats->sorts > 0)
		explain_sort(es, stats, match);
}

/*
 * Show the rows that were sorted after the last batch, and how: as PostgreSQL shows it for a Sort
 */
static void
explain_sort(ExplainState *es, const GjOrderedStats *stats, const GjMatchStats *match)
{
	const char *method;
	const char *type;

	ExplainPropertyUInteger("Order Searches", NULL, match->searches, es);
	ExplainPropertyUInteger("Rows Sorted", NULL, stats->sorted, es);
	if (stats->sorts == 0 || !GjExplainMachine(es))
		return;

	method = tuplesort_method_name(stats->sort.sortMethod);
	type = tuplesort_space_type_name(stats->sort.spaceType);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Sort Method: %s  %s: " INT64_FORMAT "kB\n", method, type,
						 stats->sort.spaceUsed);
		return;
	}
	ExplainPropertyText("Sort Method", method, es);
	ExplainPropertyInteger("Sort Space Used", "kB", stats->sort.spaceUsed, es);
	ExplainPropertyText("Sort Space Type", type, es);
}

/*
 * Say that rows may come from the index alone, and with ANALYZE how many TIDs had to be
 * looked up in the heap all the same; without statistics there was no search here
 */
void
GjExplainIndexOnly(ExplainState *es, const GjIndexOnlyStats *stats)
{
	ExplainPropertyBool("Index Only", true, es);
	if (es->analyze && stats != NULL)
		ExplainPropertyUInteger("Heap Fetches", NULL, stats->heap_fetches, es);
}

/*
 * Is what depends on the machine shown?
 */
bool
GjExplainMachine(const ExplainState *es)
{
	return es->analyze && (es->costs || es->timing || es->summary);
}

/*
 * Show what the matches and fetches of a node did so far.  A node that did not run
 * has nothing to say in text; other formats have all properties always.
 */
void
GjExplainMatch(ExplainState *es, const GjMatchStats *match, const GjFetchStats *fetch)
{
	bool		is_text = es->format == EXPLAIN_FORMAT_TEXT;

	/* without a search there is nothing to tell: or it was in a worker, not in parallel */
	if (!es->analyze || match->searches == 0)
		return;

	ExplainPropertyUInteger("Keys", NULL, match->keys, es);
	if (!is_text || match->keys_elsewhere > 0)
		ExplainPropertyUInteger("Keys of Other Partitions", NULL, match->keys_elsewhere, es);
	ExplainPropertyUInteger("Matched TIDs", NULL, match->tids, es);
	explain_heap_blocks(es, fetch);
	if (!is_text || fetch->rechecked > 0)
		ExplainPropertyUInteger("Rows Removed by Key Recheck", NULL, fetch->rechecked, es);

	if (GjExplainMachine(es))
	{
		explain_pages(es, match);
		explain_device(es, match);
	}
	if (es->timing)
	{
		ExplainPropertyFloat("Key Set Time", "ms",
							 INSTR_TIME_GET_MILLISEC(match->set_elapsed), 3, es);
		ExplainPropertyFloat("Search Time", "ms",
							 INSTR_TIME_GET_MILLISEC(match->elapsed), 3, es);
	}
}

/*
 * Show what was looked at: by a device all entries, by the CPU those of the pages it read.  Pages
 * skipped are those of runs.
 */
static void
explain_pages(ExplainState *es, const GjMatchStats *match)
{
	bool		all = es->format != EXPLAIN_FORMAT_TEXT;

	ExplainPropertyUInteger("Entries Searched", NULL, match->entries, es);
	if (!all && match->runs == 0 && match->delta_pages == 0)
		return;

	ExplainPropertyInteger("Runs", NULL, match->runs, es);
	ExplainPropertyUInteger("Delta Pages", NULL, match->delta_pages, es);
	ExplainPropertyUInteger("Pages Read", NULL, match->pages, es);
	ExplainPropertyUInteger("Pages Skipped", NULL,
							match->run_pages - Min(match->run_pages, match->run_pages_read), es);
}

/*
 * Show who answered the last match, why it was not a device, and a device's part of all
 * matches.  In text only what there is.
 *
 * Where no device is expected, a reason for its absence would read like a fault in every plan: it
 * is shown with VERBOSE only.
 */
static void
explain_device(ExplainState *es, const GjMatchStats *match)
{
	bool		all = es->format != EXPLAIN_FORMAT_TEXT;
	const char *reason = match->reason;
	const char *hint;

	if (reason != NULL && !es->verbose && !GjServiceIsExpected())
		reason = NULL;
	hint = reason ? GjServiceHint(reason) : NULL;
	if (all || match->device != NULL)
		ExplainPropertyText("Device", match->device ? match->device : "", es);
	if (all || reason != NULL)
		ExplainPropertyText("Device Reason", reason ? reason : "", es);
	if (es->verbose && (all || hint != NULL))
		ExplainPropertyText("Device Hint", hint ? hint : "", es);
	if (!all && match->device_entries == 0)
		return;

	ExplainPropertyUInteger("Device Entries", NULL, match->device_entries, es);
	ExplainPropertyUInteger("Device Pages Pushed", NULL, match->pages_pushed, es);
	if (all || match->pieces > 0)
		ExplainPropertyUInteger("Device Pieces", NULL, match->pieces, es);
	if (es->timing)
	{
		ExplainPropertyFloat("Device Request Time", "ms", match->request_ms, 3, es);
		ExplainPropertyFloat("Device Set Time", "ms", match->set_ms, 3, es);
		ExplainPropertyFloat("Device Kernel Time", "ms", match->kernel_ms, 3, es);
		ExplainPropertyFloat("Device Transfer Time", "ms", match->transfer_ms, 3, es);
	}
}

/*
 * As PostgreSQL shows them for a bitmap heap scan
 */
static void
explain_heap_blocks(ExplainState *es, const GjFetchStats *fetch)
{
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Exact Heap Blocks", NULL, fetch->exact_blocks, es);
		ExplainPropertyUInteger("Lossy Heap Blocks", NULL, fetch->lossy_blocks, es);
		return;
	}

	if (fetch->exact_blocks > 0 || fetch->lossy_blocks > 0)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfoString(es->str, "Heap Blocks:");
		if (fetch->exact_blocks > 0)
			appendStringInfo(es->str, " exact=" UINT64_FORMAT, fetch->exact_blocks);
		if (fetch->lossy_blocks > 0)
			appendStringInfo(es->str, " lossy=" UINT64_FORMAT, fetch->lossy_blocks);
		appendStringInfoChar(es->str, '\n');
	}
}
