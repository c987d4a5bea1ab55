/*-------------------------------------------------------------------------
 *
 * explain.h
 *	  Every property that EXPLAIN shows of more than one node.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_EXPLAIN_H
#define GPUJOIN_EXEC_EXPLAIN_H

#include "base/compat.h"
#include "match/match.h"
#include "rows/rows.h"
#include "indexonly.h"
#include "ordered.h"

extern void GjExplainIndex(ExplainState *es, Oid index_oid);
extern void GjExplainKeyCondition(CustomScanState *node, List *ancestors, ExplainState *es,
								  List *key_quals);
extern void GjExplainIndexFilter(CustomScanState *node, List *ancestors, ExplainState *es,
								 List *filters, const GjMatchStats *match);
extern void GjExplainOrder(CustomScanState *node, List *ancestors, ExplainState *es, List *order,
						   List *columns, const GjOrderedStats *stats,
						   const GjMatchStats *match);
extern void GjExplainIndexOnly(ExplainState *es, const GjIndexOnlyStats *stats);
extern bool GjExplainMachine(const ExplainState *es);
extern void GjExplainMatch(ExplainState *es, const GjMatchStats *match,
						   const GjFetchStats *fetch);

#endif							/* GPUJOIN_EXEC_EXPLAIN_H */
