/*-------------------------------------------------------------------------
 *
 * tuplefill.c
 *	  Values straight from heap tuples, past slots.
 *
 * To put a tuple into a slot, take it apart, and project what is wanted into another slot
 * takes longer than all else for a row.  Most columns that are wanted are of fixed width,
 * with nothing but such columns before them.  Then each tuple has them at the same place,
 * as long as
 *
 *	- it has no NULL: one takes no room, so that what follows it lies elsewhere.  A bit of
 *	  the tuple's header says whether there is any, also in columns that were dropped;
 *	- it has all the attributes: one that was made before a column was added is shorter,
 *	  and what it lacks comes from the table's description.
 *
 * Dropped columns keep their width and alignment in the description, since older tuples
 * still have them.  Tuples that are not so go the usual way.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/plannodes.h"
#include "utils/rel.h"

#include "tuplefill.h"

static GjTupleFill *create_fill(List *tlist);
static const GjTuplePlace *find_output(const GjTupleFill *fill, AttrNumber attno);
static void add_output(GjTupleFill *fill, AttrNumber attno, const GjTuplePlace *place);

/*
 * Find out where an attribute lies; false, and no place, if that is not the same in all
 * tuples
 */
bool
GjTupleFindPlace(TupleDesc desc, AttrNumber attno, GjTuplePlace *place)
{
	uint32		offset = 0;

	place->attno = 0;
	if (attno <= 0)
		return false;
	for (int i = 0; i < attno; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attlen <= 0)
			return false;
		offset = att_align_nominal(offset, att->attalign);
		if (i == attno - 1)
			*place = (GjTuplePlace) {.attno = attno,.width = att->attlen,
			.by_value = att->attbyval,.offset = offset};
		offset += att->attlen;
	}
	return true;
}

/*
 * Prepare filling slots of a target list's shape, whose Vars of this number mean attributes
 * of the table.  What is something else, or has no place, is left out.
 */
GjTupleFill *
GjTupleFillRow(TupleDesc desc, List *tlist, Index varno)
{
	GjTupleFill *fill = create_fill(tlist);
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		GjTuplePlace place;

		if (IsA(var, Var) && var->varno == varno &&
			GjTupleFindPlace(desc, var->varattno, &place))
			add_output(fill, entry->resno, &place);
	}
	return fill;
}

/*
 * Prepare filling a scan's result slot; NULL if there is more to do than that.  EvalPlanQual
 * gives rows of its own.
 */
GjTupleFill *
GjTupleFillScan(const ScanState *scan)
{
	const Scan *plan = (const Scan *) scan->ps.plan;
	GjTupleFill *fill;

	if (scan->ps.qual != NULL || scan->ps.ps_ProjInfo == NULL ||
		scan->ps.state->es_epq_active != NULL)
		return NULL;
	fill = GjTupleFillRow(RelationGetDescr(scan->ss_currentRelation), plan->plan.targetlist,
						  plan->scanrelid);
	return fill->noutputs == list_length(plan->plan.targetlist) ? fill : NULL;
}

/*
 * Like GjTupleFillRow() where Vars of this number mean what another fill puts into a slot; NULL if
 * something is left out
 */
GjTupleFill *
GjTupleFillTarget(const GjTupleFill *row, List *tlist, Index varno)
{
	GjTupleFill *fill = create_fill(tlist);
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		const GjTuplePlace *place;

		place = IsA(var, Var) && var->varno == varno ? find_output(row, var->varattno) : NULL;
		if (place == NULL)
			return NULL;
		add_output(fill, entry->resno, place);
	}
	return fill;
}

static GjTupleFill *
create_fill(List *tlist)
{
	return palloc0(offsetof(GjTupleFill, outputs) + list_length(tlist) * sizeof(GjTupleOutput));
}

static const GjTuplePlace *
find_output(const GjTupleFill *fill, AttrNumber attno)
{
	for (int i = 0; i < fill->noutputs; i++)
	{
		if (fill->outputs[i].attno == attno)
			return &fill->outputs[i].place;
	}
	return NULL;
}

static void
add_output(GjTupleFill *fill, AttrNumber attno, const GjTuplePlace *place)
{
	GjTupleOutput *output = &fill->outputs[fill->noutputs++];

	fill->natts = Max(fill->natts, place->attno);
	if (place->by_value && place->width == sizeof(int32))
	{
		/* most are of this kind: they have a loop of their own, and come first */
		*output = fill->outputs[fill->nint4];
		output = &fill->outputs[fill->nint4++];
	}
	*output = (GjTupleOutput) {.attno = attno,.place = *place};
}
