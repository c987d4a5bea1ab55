/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  The names under which PostgreSQL knows our nodes.
 *
 * Every process that may be handed a plan has to know its nodes by name, parallel workers
 * included.  The names are those that EXPLAIN prints, one library's for all: PG-Strom has a GpuScan
 * and a GpuJoin, too, and whoever comes second with a name is refused, which would keep the server
 * from starting.  So where a name of ours is taken, the node gets another, "gpujoin GpuScan".
 *
 * Libraries that are preloaded after us have not had their turn yet.  Then we register when all are
 * loaded, so that their order does not matter.
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
	const char *name;			/* as our code calls it */
	CustomScanMethods *methods;
} OurNode;

static OurNode nodes[MAX_NODES];
static int	nnodes = 0;
static bool registered = false;
static shmem_startup_hook_type previous_startup_hook = NULL;

static void register_nodes(void);
static void register_after_all(void);

/*
 * Have a node registered by GjNodesInit
 */
void
GjNodeRegister(CustomScanMethods *methods)
{
	Assert(nnodes < MAX_NODES && !registered);
	nodes[nnodes].name = methods->CustomName;
	nodes[nnodes++].methods = methods;
}

/*
 * Register the nodes, now or when all libraries are loaded
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
 * The methods of a node of ours, which may be registered under another name
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

/* shmem_startup_hook: the first that runs when all libraries are loaded; again after a crash */
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
