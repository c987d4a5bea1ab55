/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  Our executor nodes: their registration with PostgreSQL, and their functions for batches.
 *
 * Every process that may receive a plan, parallel workers included, must have registered its
 * nodes by name.  The names are those that EXPLAIN prints, and they are shared by all libraries:
 * PG-Strom has a GpuScan and a GpuJoin as well, and the second library to register a name gets an
 * error, which would keep the server from starting.  So if a name is taken, our node gets another
 * one, "gpujoin GpuScan".
 *
 * Libraries preloaded after us have not registered their nodes yet.  So we register ours when all
 * libraries have been loaded; their order does not matter then.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "nodes.h"
#include "settings.h"

#define MAX_NODES				8

typedef struct OurNode
{
	const char *name;			/* name used in our code */
	CustomScanMethods *methods;
	const GjRowMethods *rows;	/* NULL if it returns no batches */
} OurNode;

static OurNode nodes[MAX_NODES];
static int	nnodes = 0;
static int	nregistered = 0;

static void register_nodes(void);

/*
 * Register a node, now or when all libraries have been loaded
 */
void
GjNodeRegister(CustomScanMethods *methods, const GjRowMethods *rows)
{
	static bool preloaded = false;

	Assert(nnodes < MAX_NODES);
	nodes[nnodes].name = methods->CustomName;
	nodes[nnodes].rows = rows;
	nodes[nnodes++].methods = methods;
	if (nnodes == 1)
		preloaded = GjAtServerStart(NULL, register_nodes);
	if (!preloaded)
		register_nodes();
}

/*
 * Get the methods of one of our nodes, which may be registered under another name
 */
const CustomScanMethods *
GjNodeMethods(const char *name)
{
	for (int i = 0; i < nnodes; i++)
	{
		if (strcmp(nodes[i].name, name) == 0)
			return nodes[i].methods;
	}
	elog(ERROR, "there is no node \"%s\"", name);
}

/*
 * Return the functions of a node for batch consumers, or NULL if it has none
 */
const GjRowMethods *
GjNodeRowMethods(const PlanState *node)
{
	if (!IsA(node, CustomScanState))
		return NULL;
	for (int i = 0; i < nnodes; i++)
	{
		if (((const CustomScan *) node->plan)->methods == nodes[i].methods)
			return nodes[i].rows;
	}
	return NULL;
}

/*
 * Register the nodes that are not registered yet: none when the server restarts after a crash
 */
static void
register_nodes(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	for (; nregistered < nnodes; nregistered++)
	{
		CustomScanMethods *methods = nodes[nregistered].methods;

		if (GetCustomScanMethods(methods->CustomName, true) != NULL)
			methods->CustomName = psprintf(GJ_NAME " %s", methods->CustomName);
		RegisterCustomScanMethods(methods);
	}
	MemoryContextSwitchTo(old);
}
