/*-------------------------------------------------------------------------
 *
 * advise.h
 *	  Indexes that do not exist: how the planner gets to see them, and what is noted
 *	  of a query's tables while one looks for those that would pay.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_ADVISE_H
#define GPUJOIN_PLAN_ADVISE_H

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

#include "plan.h"

/* A saving below this share of a query's cost is none */
#define GJ_ADVISE_LEAST_SAVING	0.1

/* newindex.c */
extern bool GjNewIndexPlansWithout(const PlannerInfo *root);
extern bool GjNewIndexIs(const IndexOptInfo *index);
extern void GjNewIndexAdd(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);
extern PlannedStmt *GjNewIndexPlan(const GjTrial *trial, const List *indexes);
extern Oid	GjNewIndexClass(Oid table, AttrNumber attno);

/* assumed.c */
extern void GjAssumeNoteTable(PlannerInfo *root, RelOptInfo *rel);
extern const char *GjAssumedText(const GjTrial *trial);
extern Node *GjAssumedHide(PlannerInfo *root, Node *expr);

/* advise.c */
extern void GjAdviseNoteTable(PlannerInfo *root, RelOptInfo *rel);

#endif							/* GPUJOIN_PLAN_ADVISE_H */
