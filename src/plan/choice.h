/*-------------------------------------------------------------------------
 *
 * choice.h
 *	  Notes of what the planner thought of our indexes, while
 *	  gpujoin_explain_choice() wants to know.  All functions but GjChoiceIsNoted()
 *	  may be called at any time, and do nothing when nobody does.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_CHOICE_H
#define GPUJOIN_PLAN_CHOICE_H

#include "nodes/pathnodes.h"

#include "plan.h"

/* The reasons of an index whose table has no condition on its key; a join may know better */
#define GJ_CHOICE_NO_CONDITION		"no condition on its key"
#define GJ_CHOICE_ONLY_IN_JOINS		"no condition on its key, other than in joins"

/* choice.c */
extern void GjChoiceHidden(Oid relation, const IndexOptInfo *index);
extern const char *GjChoiceNoCondition(PlannerInfo *root, IndexOptInfo *index);
extern void GjChoiceRefused(Oid relation, Oid index, const char *reason);
extern void GjChoiceJoinRefused(PlannerInfo *root, RelOptInfo *big, RelOptInfo *small,
								List *restrictlist, const char *refused);
extern const char *GjChoiceFormat(const char *format,...) pg_attribute_printf(1, 2);
extern void GjChoiceOffered(PlannerInfo *root, RelOptInfo *rel, CustomPath *path);
extern void GjChoiceTaken(CustomPath *path);
extern void GjChoiceAggregate(const char *node, Path *input, const Path *path,
							  const RelOptInfo *output, const char *refused);
extern void GjChoiceAggregateTaken(const CustomPath *path);
extern bool GjChoiceHasKey(RestrictInfo *rinfo, IndexOptInfo *index);
extern const char *GjChoiceSay(PlannerInfo *root, RestrictInfo *rinfo, const char *what);

#endif							/* GPUJOIN_PLAN_CHOICE_H */
