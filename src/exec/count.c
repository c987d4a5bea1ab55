/*-------------------------------------------------------------------------
 *
 * count.c
 *	  Counting for an index what a scan of its table has done (mirror/usage.c).
 *
 * Each process adds what it has done itself, once, when the node ends; after an error, when the
 * query's memory goes.  The node's statistics would say it, but for EXPLAIN workers hand theirs
 * over to the leader, where they are not to be counted again.  So whoever moves statistics holds
 * the count meanwhile: what was done remains, and what then stands there is taken from it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/rel.h"

#include "base/nodes.h"
#include "node/joinplan.h"
#include "node/scanplan.h"
#include "table.h"

static void measure(GjTableScan *table, GjIndexUse *use);
static void end_after_error(void *arg);
static bool add_groups(PlanState *node, void *ngroups);

/*
 * Begin to count, at the end of opening a scan
 */
void
GjCountBegin(GjTableScan *table)
{
	GjUsageMakeRoom(RelationGetRelid(table->index));
	table->counted_index = RelationGetRelid(table->index);
	table->at_end.func = end_after_error;
	table->at_end.arg = table;
	MemoryContextRegisterResetCallback(table->css.ss.ps.state->es_query_cxt, &table->at_end);
}

/*
 * Keep what has been done until here: the statistics will be changed
 */
void
GjCountHold(GjTableScan *table)
{
	GjIndexUse	now;

	measure(table, &now);
	for (int i = 0; i < GJ_USE_COUNT; i++)
		table->moved.n[i] += now.n[i];
}

/*
 * They have been changed: what they say now is not what this process has done
 */
void
GjCountRelease(GjTableScan *table)
{
	GjIndexUse	now;

	measure(table, &now);
	for (int i = 0; i < GJ_USE_COUNT; i++)
		table->moved.n[i] -= now.n[i];
}

/*
 * Find out what the statistics say
 */
static void
measure(GjTableScan *table, GjIndexUse *use)
{
	const GjFetchStats *fetch = GjFetchGetStats(table->fetch);

	GjMatchStatsToUse(&table->stats, use);
	use->n[GJ_USE_HEAP_BLOCKS] = fetch->exact_blocks + fetch->lossy_blocks;
	use->n[GJ_USE_HEAP_FETCHES] = fetch->tuples;
	use->n[GJ_USE_GROUPS] = 0;
}

/*
 * A node above has made groups of the rows of the scans below this one: count them for each of
 * their indexes
 */
void
GjCountGroups(PlanState *node, uint64 ngroups)
{
	if (ngroups > 0)
		(void) add_groups(node, &ngroups);
}

static bool
add_groups(PlanState *node, void *ngroups)
{
	if (IsA(node, CustomScanState))
	{
		const CustomScanMethods *methods = castNode(CustomScan, node->plan)->methods;
		GjTableScan *table = (GjTableScan *) node;

		if ((methods == GjNodeMethods(GJ_SCAN_NAME) ||
			 methods == GjNodeMethods(GJ_JOIN_SCAN_NAME)) &&
			table->used)
			table->moved.n[GJ_USE_GROUPS] += *(uint64 *) ngroups;
	}
	return planstate_tree_walker(node, add_groups, ngroups);
}

/*
 * Add what was done to what is counted for the index.  The fetch is still there.
 */
void
GjCountEnd(GjTableScan *table)
{
	Oid			index = table->counted_index;

	if (!OidIsValid(index))
		return;
	table->counted_index = InvalidOid;
	GjCountHold(table);
	if (table->used)
		GjUsageAdd(index, &table->moved);
}

static void
end_after_error(void *arg)
{
	GjCountEnd(arg);
}
