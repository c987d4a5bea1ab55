/*-------------------------------------------------------------------------
 *
 * fill.c
 *	  Which columns of an index's entries, or of heap tuples, go into which attributes of
 *	  a slot.
 *
 * A slot has the shape of the table, where filters or expressions want to see the row, or
 * that of a target list of plain columns, which then needs no projection.
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

#include "access/sysattr.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

#include "node/tableplan.h"
#include "fill.h"

static GjFill *create_fill(List *attributes);
static void check_plan(const Scan *plan, List *attnos);
static bool describe_value(TupleDesc desc, AttrNumber attno, GjTuplePlace *place);
static const GjFillOutput *find_output(const GjFill *fill, AttrNumber attno);
static void add_output(GjFill *fill, AttrNumber attno, const GjFillOutput *output);
static void order_outputs(GjFill *fill);

static GjFill *
create_fill(List *attributes)
{
	return palloc0(offsetof(GjFill, outputs) + list_length(attributes) * sizeof(GjFillOutput));
}

/*
 * Prepare filling slots of the table's shape from entries: these attributes, all of which the
 * index has, for a plan that may use no others
 */
GjFill *
GjFillEntryRow(Relation index, const Scan *plan, List *attnos)
{
	GjFill	   *fill = create_fill(attnos);
	ListCell   *lc;

	check_plan(plan, attnos);
	foreach(lc, attnos)
	{
		GjFillOutput output = {.column = GjIndexColumnOf(index, lfirst_int(lc)),.by_value = true};

		add_output(fill, lfirst_int(lc), &output);
	}
	return fill;
}

/*
 * An attribute that nobody fills in would be NULL without a word: make sure that the
 * finished plan uses none
 */
static void
check_plan(const Scan *plan, List *attnos)
{
	Bitmapset  *used = NULL;
	int			member = -1;

	pull_varattnos((Node *) plan->plan.targetlist, plan->scanrelid, &used);
	pull_varattnos((Node *) plan->plan.qual, plan->scanrelid, &used);
	pull_varattnos(list_nth(((const CustomScan *) plan)->custom_exprs, GJ_TABLE_FILTERS),
				   plan->scanrelid, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		if (!list_member_int(attnos, member + FirstLowInvalidHeapAttributeNumber))
			elog(ERROR, "an index-only plan uses attribute %d, which it does not provide",
				 member + FirstLowInvalidHeapAttributeNumber);
	}
	bms_free(used);
}

/*
 * Which column of an index, from 0, has an attribute of its table?  An error if none has
 */
int
GjIndexColumnOf(Relation index, AttrNumber attno)
{
	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		if (index->rd_index->indkey.values[i] == attno)
			return i;
	}
	elog(ERROR, "index \"%s\" does not have attribute %d of its table",
		 RelationGetRelationName(index), attno);
}

/*
 * Prepare filling slots of a target list's shape from tuples, where Vars of this number mean
 * attributes of the table.  What is something else, or has no place, is left out.  To fill
 * arrays, no place is needed, but values that can be in an array.
 */
GjFill *
GjFillTupleRow(TupleDesc desc, List *tlist, Index varno, bool to_arrays)
{
	GjFill	   *fill = create_fill(tlist);
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		GjFillOutput output = {0};

		if (!IsA(var, Var) || var->varno != varno ||
			!(GjTupleFindPlace(desc, var->varattno, &output.place) ||
			  (to_arrays && describe_value(desc, var->varattno, &output.place))))
			continue;
		output.width = output.place.width;
		output.by_value = output.place.by_value;
		add_output(fill, entry->resno, &output);
	}
	order_outputs(fill);
	return fill;
}

/*
 * Prepare filling a scan's result slot, or arrays, from tuples; NULL if there is more to do than
 * that.  EvalPlanQual gives rows of its own; without a projection the result slot is another.
 */
GjFill *
GjFillTupleScan(const ScanState *scan, bool to_arrays)
{
	const Scan *plan = (const Scan *) scan->ps.plan;
	GjFill	   *fill;

	if (scan->ps.qual != NULL || scan->ps.state->es_epq_active != NULL)
		return NULL;
	if (scan->ps.ps_ProjInfo == NULL && !to_arrays)
		return NULL;
	fill = GjFillTupleRow(RelationGetDescr(scan->ss_currentRelation), plan->plan.targetlist,
						  plan->scanrelid, to_arrays);
	return fill->noutputs == list_length(plan->plan.targetlist) ? fill : NULL;
}

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
 * Say what an attribute is that lies somewhere; false if it is not by value
 */
static bool
describe_value(TupleDesc desc, AttrNumber attno, GjTuplePlace *place)
{
	Form_pg_attribute att;

	if (attno <= 0)
		return false;
	att = TupleDescAttr(desc, attno - 1);
	*place = (GjTuplePlace) {.attno = attno,.width = att->attlen,.by_value = att->attbyval,
	.offset = GJ_NO_OFFSET};
	return att->attbyval;
}

/*
 * Prepare filling slots of a target list's shape, where Vars of this number mean what another
 * fill puts into a slot; NULL if anything else is wanted
 */
GjFill *
GjFillTarget(const GjFill *row, List *tlist, Index varno)
{
	GjFill	   *fill = create_fill(tlist);
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		const GjFillOutput *output;

		output = IsA(var, Var) && var->varno == varno ? find_output(row, var->varattno) : NULL;
		if (output == NULL)
			return NULL;
		add_output(fill, entry->resno, output);
	}
	order_outputs(fill);
	return fill;
}

static const GjFillOutput *
find_output(const GjFill *fill, AttrNumber attno)
{
	for (int i = 0; i < fill->noutputs; i++)
	{
		if (fill->outputs[i].at == attno - 1)
			return &fill->outputs[i];
	}
	return NULL;
}

static void
add_output(GjFill *fill, AttrNumber attno, const GjFillOutput *output)
{
	GjFillOutput *added = &fill->outputs[fill->noutputs++];

	*added = *output;
	added->at = attno - 1;
	fill->columns |= GJ_ENTRY_KEY << output->column;
	fill->natts = Max(fill->natts, output->place.attno);
}

/*
 * Fill from this set of entries from now on, as it is now
 *
 * A key is as wide as the index has it, which may be wider than the column's type: the
 * Datum is the same.
 */
void
GjFillSource(GjFill *fill, const GjEntrySet *set)
{
	for (int i = 0; i < fill->noutputs; i++)
	{
		GjFillOutput *output = &fill->outputs[i];
		const GjEntryColumn *column = output->column == 0 ? &set->keys :
			&set->included[output->column - 1];

		output->width = column->width;
		output->values = column->values;
		output->nulls = column->has_nulls ? column->nulls : NULL;
	}
	order_outputs(fill);
}

/*
 * Put the outputs first that have 4 bytes: most do, and they have a loop of their own
 */
static void
order_outputs(GjFill *fill)
{
	fill->nint4 = 0;
	for (int i = 0; i < fill->noutputs; i++)
	{
		GjFillOutput moved = fill->outputs[i];

		if (moved.width != sizeof(int32) || !moved.by_value || moved.nulls != NULL)
			continue;
		fill->outputs[i] = fill->outputs[fill->nint4];
		fill->outputs[fill->nint4++] = moved;
	}
}

/*
 * Make the slot one that only needs values
 */
void
GjPrepareSlot(TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	memset(slot->tts_values, 0, natts * sizeof(Datum));
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}
