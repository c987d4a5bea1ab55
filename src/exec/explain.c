/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  Every property that EXPLAIN shows of our nodes.
 *
 * Nodes pass what is to be shown as a report; this file decides how and when it is shown.  Facts
 * of the plan are always shown, counters with ANALYZE, times with TIMING.
 *
 * The device, the pages read and the memory used depend on the machine.  Users who want to know
 * how a query ran need these facts, with or without costs; tests that compare plans must not see
 * them.  Such a test has to switch off COSTS, TIMING and SUMMARY anyway, because their values
 * differ from run to run.  So machine-dependent facts are left out if all three are off.
 *
 * Counters of a parallel-aware node are totals of all processes (tablescan.c).  If a worker runs
 * the whole node, only PostgreSQL's own counters reach the leader.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "service/service.h"
#include "exec.h"

/* A constant array with more elements is shown shortened, to the first few */
#define MAX_SHOWN_ELEMENTS		32
#define SHOWN_OF_LONG_ARRAY		8

static void explain_index(const GjTableScan *table, ExplainState *es);
static void explain_key_condition(CustomScanState *node, List *ancestors, ExplainState *es,
								  List *key_quals);
static void explain_index_filter(GjTableScan *table, List *ancestors, ExplainState *es);
static char *deparse_condition(Expr *condition, List *context, bool useprefix);
static char *deparse_key_qual(Expr *qual, List *context, bool useprefix);
static char *deparse_tuples(const ScalarArrayOpExpr *qual, List *context, bool useprefix);
static Const *find_long_array(Node *expr, int *nelems);
static Const *shorten_array(Const *array);
static char *mark_omission(char *text, int nelems);
static void explain_filter_recheck(CustomScanState *node, ExplainState *es);
static void explain_order(CustomScanState *node, List *ancestors, ExplainState *es,
						  const GjTableReport *report, const GjMatchStats *match);
static void explain_sort(ExplainState *es, const GjOrderedStats *stats,
						 const GjMatchStats *match);
static void explain_index_only(const GjTableScan *table, ExplainState *es);
static bool shows_machine(const ExplainState *es);
static void explain_match(ExplainState *es, const GjMatchStats *match,
						  const GjRowsStats *rows);
static void explain_pages(ExplainState *es, const GjMatchStats *match);
static void explain_device(ExplainState *es, const GjMatchStats *match);
static void explain_reductions(ExplainState *es, const GjMatchStats *match);
static void explain_heap_blocks(ExplainState *es, const GjRowsStats *rows);
static void explain_quals(CustomScanState *node, List *ancestors, ExplainState *es,
						  const char *label, List *quals);
static void explain_removed(CustomScanState *node, ExplainState *es, const char *label,
							double removed);
static void explain_small(ExplainState *es, const GjJoinReport *report);
static void explain_groupings(CustomScanState *node, List *ancestors, ExplainState *es,
							  List *group_keys);

/*
 * Show a node that scans a table by its index
 */
void
GjExplainTable(GjTableScan *table, List *ancestors, ExplainState *es,
			   const GjTableReport *report)
{
	explain_index(table, es);
	if (report->key_quals != NIL)
		explain_key_condition(&table->css, ancestors, es, report->key_quals);
	explain_index_filter(table, ancestors, es);
	if (report->order != NIL)
		explain_order(&table->css, ancestors, es, report, &table->stats);
	explain_index_only(table, es);
	if (table->rows != NULL)
		explain_match(es, &table->stats, GjRowsGetStats(table->rows));
}

/*
 * Show the index.  Structured formats use the label of PostgreSQL's own index scans.
 */
static void
explain_index(const GjTableScan *table, ExplainState *es)
{
	Oid			index = linitial_oid(GjTableScanGetPrivate(table, GJ_TABLE_INDEX_OID));
	const char *name = get_rel_name(index);

	if (name == NULL)
		elog(ERROR, "cache lookup failed for index %u", index);

	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Index", quote_identifier(name), es);
	else
		ExplainPropertyText("Index Name", name, es);
}

/*
 * Show the clauses that the index answers: expressions of the finished plan, each a comparison
 * with the key on the left
 */
static void
explain_key_condition(CustomScanState *node, List *ancestors, ExplainState *es,
					  List *key_quals)
{
	bool		is_join = ((Scan *) node->ss.ps.plan)->scanrelid == 0;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	Expr	   *condition = make_ands_explicit(key_quals);

	ExplainPropertyText("Key Condition",
						deparse_condition(condition, context, is_join || es->verbose), es);
}

/*
 * Show the filters that entries are tested by, the number of entries dropped, and the filters
 * that a device has tested already
 */
static void
explain_index_filter(GjTableScan *table, List *ancestors, ExplainState *es)
{
	Plan	   *plan = table->css.ss.ps.plan;
	List	   *filters = (List *) GjTableScanGetExpr(table, GJ_TABLE_FILTERS);
	const GjMatchStats *match = &table->stats;
	List	   *context;
	List	   *on_device = NIL;
	ListCell   *lc;

	if (filters == NIL)
	{
		/* entries may be tested by the tuples of the key condition alone */
		if (table->entry_filter != NULL && es->analyze && match->filtered > 0)
			ExplainPropertyUInteger("Rows Removed by Index Filter", NULL, match->filtered, es);
		return;
	}
	context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);
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
			explain_filter_recheck(&table->css, es);
	}
	if (on_device != NIL && shows_machine(es))
		ExplainPropertyText("Device Filter",
							deparse_condition(make_ands_explicit(on_device), context, es->verbose),
							es);
}

/*
 * Show the number of table rows that did not pass the filters of entries, per loop as PostgreSQL
 * does
 *
 * If the plan has other filters as well, PostgreSQL shows these rows as removed by "Filter".
 */
static void
explain_filter_recheck(CustomScanState *node, ExplainState *es)
{
	GjInstrumentation *instrument = node->ss.ps.instrument;
	double		removed = instrument == NULL ? 0.0 : instrument->nfiltered1;

	if (removed > 0.0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat("Rows Removed by Filter Recheck", NULL,
							 removed > 0.0 ? removed / Max(instrument->nloops, 1.0) : 0.0, 0, es);
}

/*
 * Deparse AND and OR here, so that each comparison can be shortened separately
 */
static char *
deparse_condition(Expr *condition, List *context, bool useprefix)
{
	BoolExpr   *bool_expr = (BoolExpr *) condition;
	StringInfoData text;
	ListCell   *lc;

	if (!IsA(condition, BoolExpr) || bool_expr->boolop == NOT_EXPR)
		return deparse_key_qual(condition, context, useprefix);
	if (exprType(llast(bool_expr->args)) != BOOLOID)	/* GJ_SOURCE_NULL_IN_ARRAY */
		return deparse_key_qual(linitial(bool_expr->args), context, useprefix);

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
 * Deparse one comparison.  A long array is shortened in a copy, because the plan may be cached.
 */
static char *
deparse_key_qual(Expr *qual, List *context, bool useprefix)
{
	int			nelems;
	Const	   *array;
	ScalarArrayOpExpr *shown;

	if (IsA(qual, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) qual)->opno == RECORD_EQ_OP)
		return deparse_tuples((ScalarArrayOpExpr *) qual, context, useprefix);
	array = IsA(qual, ScalarArrayOpExpr) ?
		find_long_array(lsecond(((ScalarArrayOpExpr *) qual)->args), &nelems) : NULL;
	if (array == NULL)
		return deparse_expression((Node *) qual, context, useprefix, false);

	shown = makeNode(ScalarArrayOpExpr);
	memcpy(shown, qual, sizeof(ScalarArrayOpExpr));
	shown->args = list_make2(linitial(shown->args), shorten_array(array));

	return mark_omission(deparse_expression((Node *) shown, context, useprefix, false),
						 nelems);
}

/*
 * Deparse a list of tuples, which a key plan represents as a row = ANY (unnest(arrays)), as
 * SQL that means the same: unnest() has several arguments only in FROM
 */
static char *
deparse_tuples(const ScalarArrayOpExpr *qual, List *context, bool useprefix)
{
	const FuncExpr *unnest = lsecond_node(FuncExpr, qual->args);
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfo(&text, "(%s IN (SELECT * FROM unnest(",
					 deparse_expression(linitial(qual->args), context, useprefix, false));
	foreach(lc, unnest->args)
	{
		int			nelems;
		Const	   *array = find_long_array(lfirst(lc), &nelems);
		char	   *shown = deparse_expression(array == NULL ? lfirst(lc) :
											   (Node *) shorten_array(array),
											   context, useprefix, false);

		appendStringInfo(&text, "%s%s", lc == list_head(unnest->args) ? "" : ", ",
						 array == NULL ? shown : mark_omission(shown, nelems));
	}
	appendStringInfoString(&text, ")))");
	return text.data;
}

/*
 * Return the constant array that an expression is if it is too long to be shown, or NULL
 */
static Const *
find_long_array(Node *expr, int *nelems)
{
	Const	   *value = (Const *) expr;
	ArrayType  *array;

	if (!IsA(value, Const) || value->constisnull)
		return NULL;

	array = DatumGetArrayTypeP(value->constvalue);
	*nelems = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return *nelems > MAX_SHOWN_ELEMENTS ? value : NULL;
}

/*
 * Return an array of the same type with the first few elements in one dimension
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
 * Mark the end of the array's text as shortened, so that it does not look like the query's own
 * clause.  The array is the last string in the text of a clause.
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
 * Show the order of the rows like that of a Sort, and with ANALYZE the work that it took
 */
static void
explain_order(CustomScanState *node, List *ancestors, ExplainState *es,
			  const GjTableReport *report, const GjMatchStats *match)
{
	const GjOrderedStats *stats = report->ordered;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	List	   *keys = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, report->order, lc2, report->sort_columns)
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
	if (es->format != EXPLAIN_FORMAT_TEXT || stats->slices > 0)
		ExplainPropertyUInteger("Key Slices", NULL, stats->slices, es);
	ExplainPropertyUInteger("Rows Ordered", NULL, stats->rows, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || stats->limit > 0)
		ExplainPropertyUInteger("Device Limit", NULL, stats->limit, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || stats->repeats > 0)
		ExplainPropertyUInteger("Device Limit Repeats", NULL, stats->repeats, es);
	if (es->format != EXPLAIN_FORMAT_TEXT || stats->sorts > 0)
		explain_sort(es, stats, match);
}

/*
 * Show how the rows after the last batch were sorted, as PostgreSQL shows it for a Sort
 */
static void
explain_sort(ExplainState *es, const GjOrderedStats *stats, const GjMatchStats *match)
{
	const char *method;
	const char *type;

	ExplainPropertyUInteger("Order Searches", NULL, match->searches, es);
	ExplainPropertyUInteger("Rows Sorted", NULL, stats->sorted, es);
	if (stats->sorts == 0 || !shows_machine(es))
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
 * Show that rows may come from the index alone, and with ANALYZE the number of TIDs that were
 * fetched from the heap nevertheless
 */
static void
explain_index_only(const GjTableScan *table, ExplainState *es)
{
	const GjRowsStats *stats;

	if (!boolVal(GjTableScanGetPrivate(table, GJ_TABLE_INDEX_ONLY)))
		return;
	ExplainPropertyBool("Index Only", true, es);
	if (!es->analyze || table->stats.searches == 0)
		return;
	stats = GjRowsGetStats(table->rows);
	ExplainPropertyUInteger("Heap Fetches", NULL, stats->heap_fetches, es);
	if (stats->absent > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyUInteger("Absent Values", NULL, stats->absent, es);
}

/*
 * Return true if machine-dependent facts are shown
 */
static bool
shows_machine(const ExplainState *es)
{
	return es->analyze && (es->costs || es->timing || es->summary);
}

/*
 * Show the work of the matches and fetches of a node.  Text format omits it for a node that did
 * not run.
 */
static void
explain_match(ExplainState *es, const GjMatchStats *match, const GjRowsStats *rows)
{
	bool		is_text = es->format == EXPLAIN_FORMAT_TEXT;

	/* no search, or only in a worker that runs the whole node */
	if (!es->analyze || match->searches == 0)
		return;

	ExplainPropertyUInteger("Keys", NULL, match->keys, es);
	if (!is_text || match->ranges > 0)
		ExplainPropertyUInteger("Key Ranges", NULL, match->ranges, es);
	if (!is_text || match->keys_elsewhere > 0)
		ExplainPropertyUInteger("Keys of Other Partitions", NULL, match->keys_elsewhere, es);
	ExplainPropertyUInteger("Matched TIDs", NULL, match->tids, es);
	explain_heap_blocks(es, rows);
	if (!is_text || rows->rechecked > 0)
		ExplainPropertyUInteger("Rows Removed by Key Recheck", NULL, rows->rechecked, es);

	if (shows_machine(es))
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
 * Show the entries searched: a device searches all of them, the CPU those of the pages that it
 * reads.  Skipped pages are pages of runs.
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
 * Show the device that answered the last match or the reason why none did, and the devices' share
 * of all matches.  Text format omits absent values.
 *
 * If no device is expected, a reason for its absence would look like an error in every plan, so
 * it is shown only with VERBOSE.
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
	explain_reductions(es, match);
	if (es->timing)
	{
		ExplainPropertyFloat("Device Request Time", "ms", match->request_ms, 3, es);
		ExplainPropertyFloat("Device Set Time", "ms", match->set_ms, 3, es);
		ExplainPropertyFloat("Device Kernel Time", "ms", match->kernel_ms, 3, es);
		ExplainPropertyFloat("Device Transfer Time", "ms", match->transfer_ms, 3, es);
	}
}

/*
 * Show what a device has reduced to groups: these rows are not among those that the node returns
 */
static void
explain_reductions(ExplainState *es, const GjMatchStats *match)
{
	bool		all = es->format != EXPLAIN_FORMAT_TEXT;

	if (all || match->reductions > 0)
	{
		ExplainPropertyUInteger("Device Reductions", NULL, match->reductions, es);
		ExplainPropertyUInteger("Device Rows Reduced", NULL, match->reduced_rows, es);
		ExplainPropertyUInteger("Device Groups", NULL, match->reduced_groups, es);
		ExplainPropertyUInteger("Device Group Memory", "kB", (match->reduced_bytes + 1023) / 1024,
								es);
		ExplainPropertyUInteger("Device Pages Left Out", NULL, match->left_out, es);
	}
	if (all || match->reduce_failures > 0)
		ExplainPropertyUInteger("Device Reductions Failed", NULL, match->reduce_failures, es);
}

/*
 * Show heap blocks as PostgreSQL shows those of a bitmap heap scan
 */
static void
explain_heap_blocks(ExplainState *es, const GjRowsStats *rows)
{
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Exact Heap Blocks", NULL, rows->exact_blocks, es);
		ExplainPropertyUInteger("Lossy Heap Blocks", NULL, rows->lossy_blocks, es);
		return;
	}

	if (rows->exact_blocks > 0 || rows->lossy_blocks > 0)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfoString(es->str, "Heap Blocks:");
		if (rows->exact_blocks > 0)
			appendStringInfo(es->str, " exact=" UINT64_FORMAT, rows->exact_blocks);
		if (rows->lossy_blocks > 0)
			appendStringInfo(es->str, " lossy=" UINT64_FORMAT, rows->lossy_blocks);
		appendStringInfoChar(es->str, '\n');
	}
}

/*
 * Show a join
 */
void
GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
			  const GjJoinReport *report)
{
	GjInstrumentation *instrument = node->ss.ps.instrument;

	ExplainPropertyText("Join Type", report->join_type, es);
	explain_key_condition(node, ancestors, es, report->key_quals);
	if (report->joinquals != NIL)
	{
		explain_quals(node, ancestors, es, "Join Filter", report->joinquals);
		explain_removed(node, es, "Rows Removed by Join Filter",
						instrument ? instrument->nfiltered2 : 0);
	}
	if (report->otherquals != NIL)
	{
		explain_quals(node, ancestors, es, "Result Filter", report->otherquals);
		explain_removed(node, es, "Rows Removed by Result Filter", report->removed);
	}
	explain_small(es, report);
}

static void
explain_quals(CustomScanState *node, List *ancestors, ExplainState *es,
			  const char *label, List *quals)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);

	ExplainPropertyText(label,
						deparse_expression((Node *) make_ands_explicit(quals), context,
										   true, false), es);
}

/*
 * Show the number of rows removed per loop; text format omits it if it is 0.  PostgreSQL does the
 * same.
 */
static void
explain_removed(CustomScanState *node, ExplainState *es, const char *label, double removed)
{
	GjInstrumentation *instrument = node->ss.ps.instrument;

	if (!es->analyze || instrument == NULL)
		return;
	if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat(label, NULL,
							 instrument->nloops > 0 ? removed / instrument->nloops : 0.0, 0, es);
}

/*
 * Show the size of the small side
 */
static void
explain_small(ExplainState *es, const GjJoinReport *report)
{
	/* no batch, or only in a worker that does not share the node */
	if (!es->analyze || report->batches == 0)
		return;

	ExplainPropertyUInteger("Small Rows", NULL, report->small_rows, es);
	if (shows_machine(es))
	{
		ExplainPropertyUInteger("Batches", NULL, report->batches, es);
		ExplainPropertyUInteger("Memory Usage", "kB", (report->peak_memory + 1023) / 1024, es);
	}
}

/*
 * Show groups and aggregates
 */
void
GjExplainAgg(CustomScanState *node, List *ancestors, ExplainState *es,
			 const GjAggReport *report)
{
	bool		all = es->format != EXPLAIN_FORMAT_TEXT;

	if (report->group_keys != NIL)
		explain_groupings(node, ancestors, es, report->group_keys);
	if (!es->analyze || !report->has_counters)
		return;
	ExplainPropertyUInteger("Groups", NULL, report->groups, es);
	ExplainPropertyUInteger("Arrays Read", NULL, report->batches, es);
	ExplainPropertyUInteger("Rows From Arrays", NULL, report->array_rows, es);
	ExplainPropertyUInteger("Rows From Slots", NULL, report->slot_rows, es);
	if (!report->is_partial && (report->passes > 1 || all))
		ExplainPropertyUInteger("Passes", NULL, report->passes, es);
	if (report->is_partial && (report->flushes > 0 || all))
		ExplainPropertyUInteger("Flushes", NULL, report->flushes, es);
	if (!shows_machine(es))
		return;
	ExplainPropertyUInteger("Memory Usage", "kB", (report->peak_memory + 1023) / 1024, es);
	if (report->disk_size > 0 || all)
		ExplainPropertyUInteger("Disk Usage", "kB", report->disk_size / 1024, es);
}

static void
explain_groupings(CustomScanState *node, List *ancestors, ExplainState *es, List *group_keys)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	bool		prefix = GjExplainTables(es) > 1 || es->verbose;
	List	   *texts = NIL;
	ListCell   *lc;

	foreach(lc, group_keys)
		texts = lappend(texts, deparse_expression(lfirst(lc), context, prefix, false));
	ExplainPropertyList("Group Key", texts, es);
}
