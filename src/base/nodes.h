/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  The names under which our nodes are registered with PostgreSQL.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODES_H
#define GPUJOIN_NODES_H

#include "nodes/extensible.h"

extern void GjNodesInit(void);
extern void GjNodeRegister(CustomScanMethods *methods);
extern const CustomScanMethods *GjNodeMethods(const char *name);

#endif							/* GPUJOIN_NODES_H */
