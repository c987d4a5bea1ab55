/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  EXPLAIN properties of a GpuJoin in addition to those of exec/explain.c.
 *
 * Join types are named as PostgreSQL names those of a hash join whose hashed side is the right
 * one.  Each table of the big side is a node of its own, which shows its index and the results of
 * its searches.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "utils/ruleutils.h"

#include "base/compat.h"
#include "join.h"

static const char *join_type_name(GjJoinKind kind);
static void explain_quals(CustomScanState *node, List *ancestors, ExplainState *es,
						  const char *label, List *quals);
static void explain_removed(CustomScanState *node, ExplainState *es, const char *label,
							double removed);
static void explain_small(ExplainState *es, const GjJoinReport *report);

/*
 * Show a GpuJoin
 */
void
GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
			  const GjJoinReport *report)
{
	CustomScan *scan = (CustomScan *) node->ss.ps.plan;
	List	   *joinquals = list_nth(scan->custom_exprs, GJ_JOIN_QUALS);
	List	   *otherquals = list_nth(scan->custom_exprs, GJ_JOIN_OTHER_QUALS);
	Instrumentation *instrument = node->ss.ps.instrument;

	ExplainPropertyText("Join Type",
						join_type_name(intVal(list_nth(scan->custom_private, GJ_JOIN_KIND))),
						es);
	GjExplainKeyCondition(node, ancestors, es, list_nth(scan->custom_exprs, GJ_JOIN_KEY_QUALS));
	if (joinquals != NIL)
	{
		explain_quals(node, ancestors, es, "Join Filter", joinquals);
		explain_removed(node, es, "Rows Removed by Join Filter",
						instrument ? instrument->nfiltered2 : 0);
	}
	if (otherquals != NIL)
	{
		explain_quals(node, ancestors, es, "Result Filter", otherquals);
		explain_removed(node, es, "Rows Removed by Result Filter", report->removed_above);
	}
	explain_small(es, report);
}

static const char *
join_type_name(GjJoinKind kind)
{
	switch (kind)
	{
		case GJ_JOIN_INNER:
			return "Inner";
		case GJ_JOIN_SEMI:
			return "Semi";
		case GJ_JOIN_RIGHT_SEMI:
			return "Right Semi";
		case GJ_JOIN_RIGHT:
			return "Right";
		case GJ_JOIN_RIGHT_ANTI:
			return "Right Anti";
	}
	return "???";
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
 * Per loop, and in text format only if there were any, as PostgreSQL does
 */
static void
explain_removed(CustomScanState *node, ExplainState *es, const char *label, double removed)
{
	Instrumentation *instrument = node->ss.ps.instrument;

	if (!es->analyze || instrument == NULL)
		return;
	if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat(label, NULL,
							 instrument->nloops > 0 ? removed / instrument->nloops : 0.0, 0, es);
}

/*
 * Memory depends on the machine, so it must not appear in output that tests compare
 */
static void
explain_small(ExplainState *es, const GjJoinReport *report)
{
	uint64		batches = Max(report->small.batches, report->workers.batches);
	Size		memory = Max(report->small.peak_memory, report->workers.peak_memory);

	/* no batch, or only in a worker that does not share the node */
	if (!es->analyze || batches == 0)
		return;

	ExplainPropertyUInteger("Small Rows", NULL,
							Max(report->small.rows, report->workers.rows), es);
	if (GjExplainMachine(es))
	{
		ExplainPropertyUInteger("Batches", NULL, batches, es);
		ExplainPropertyUInteger("Memory Usage", "kB", (memory + 1023) / 1024, es);
	}
}
