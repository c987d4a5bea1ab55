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

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "gpujoin.h"
#include "nodes.h"

#define MAX_NODES				8

typedef struct OurNode
{
	const char *name;			/* name used in our code */
	CustomScanMethods *methods;
	const GjRowMethods *rows;	/* NULL if it returns no batches */
} OurNode;

static OurNode nodes[MAX_NODES];
static int	nnodes = 0;
static bool registered = false;
static shmem_startup_hook_type previous_startup_hook = NULL;

static void register_nodes(void);
static void register_after_all(void);

/*
 * Add a node to those that GjNodesInit() registers
 */
void
GjNodeRegister(CustomScanMethods *methods, const GjRowMethods *rows)
{
	Assert(nnodes < MAX_NODES && !registered);
	nodes[nnodes].name = methods->CustomName;
	nodes[nnodes].rows = rows;
	nodes[nnodes++].methods = methods;
}

/*
 * Register the nodes, now or when all libraries have been loaded
 */
void
GjNodesInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
	{
		register_nodes();
		return;
	}
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = register_after_all;
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
 * shmem_startup_hook, the first hook to run when all libraries are loaded; runs again after a
 * crash
 */
static void
register_after_all(void)
{
	if (previous_startup_hook)
		previous_startup_hook();
	if (!registered)
		register_nodes();
}

static void
register_nodes(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	registered = true;
	for (int i = 0; i < nnodes; i++)
	{
		CustomScanMethods *methods = nodes[i].methods;

		if (GetCustomScanMethods(methods->CustomName, true) != NULL)
			methods->CustomName = psprintf(GJ_NAME " %s", methods->CustomName);
		RegisterCustomScanMethods(methods);
	}
	MemoryContextSwitchTo(old);
}
