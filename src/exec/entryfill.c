/*-------------------------------------------------------------------------
 *
 * entryfill.c
 *	  Which of an index's columns go into which attributes of a slot.
 *
 * A slot has the shape of the table, where filters or expressions want to see the row, or
 * that of a target list of plain columns, which then needs no projection.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

#include "entryfill.h"

static GjEntryFill *create_fill(int noutputs);
static void check_plan(const Scan *plan, List *attnos);
static int	find_column(Relation index, AttrNumber attno);
static const GjEntryOutput *find_output(const GjEntryFill *fill, AttrNumber attno);
static void add_output(GjEntryFill *fill, AttrNumber attno, int column);
static void move_to_front(GjEntryFill *fill, int i);

static GjEntryFill *
create_fill(int noutputs)
{
	return palloc0(offsetof(GjEntryFill, outputs) + noutputs * sizeof(GjEntryOutput));
}

/*
 * For slots of the table's shape: these attributes, all of which the index has, for a plan
 * that may use no others
 */
GjEntryFill *
GjEntryFillRow(Relation index, const Scan *plan, List *attnos)
{
	GjEntryFill *fill = create_fill(list_length(attnos));
	ListCell   *lc;

	check_plan(plan, attnos);
	foreach(lc, attnos)
		add_output(fill, lfirst_int(lc), find_column(index, lfirst_int(lc)));
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
	while ((member = bms_next_member(used, member)) >= 0)
	{
		if (!list_member_int(attnos, member + FirstLowInvalidHeapAttributeNumber))
			elog(ERROR, "an index-only plan uses attribute %d, which it does not provide",
				 member + FirstLowInvalidHeapAttributeNumber);
	}
	bms_free(used);
}

static int
find_column(Relation index, AttrNumber attno)
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
 * For slots of a target list's shape, whose Vars of this number mean attributes that
 * another fill has.  NULL if something else is wanted, is to
 * be computed, or is not in the index
 */
GjEntryFill *
GjEntryFillTarget(const GjEntryFill *row, List *tlist, Index varno)
{
	GjEntryFill *fill = create_fill(list_length(tlist));
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		const GjEntryOutput *output;

		output = IsA(var, Var) && var->varno == varno ? find_output(row, var->varattno) : NULL;
		if (output == NULL)
			return NULL;
		add_output(fill, entry->resno, output->column);
	}
	return fill;
}

static const GjEntryOutput *
find_output(const GjEntryFill *fill, AttrNumber attno)
{
	for (int i = 0; i < fill->noutputs; i++)
	{
		if (fill->outputs[i].at == attno - 1)
			return &fill->outputs[i];
	}
	return NULL;
}

static void
add_output(GjEntryFill *fill, AttrNumber attno, int column)
{
	fill->outputs[fill->noutputs].at = attno - 1;
	fill->outputs[fill->noutputs].column = column;
	fill->noutputs++;
	fill->columns |= GJ_ENTRY_KEY << column;
}

/*
 * Fill from this set from now on, as it is now
 *
 * A key is as wide as the index has it, which may be wider than the column's type: the
 * Datum is the same.
 */
void
GjEntryFillSource(GjEntryFill *fill, const GjEntrySet *set)
{
	fill->nint4 = 0;
	for (int i = 0; i < fill->noutputs; i++)
	{
		GjEntryOutput *output = &fill->outputs[i];
		const GjEntryColumn *column = output->column == 0 ? &set->keys :
			&set->included[output->column - 1];

		output->width = column->width;
		output->values = column->values;
		output->nulls = column->has_nulls ? column->nulls : NULL;
		if (output->width == sizeof(int32) && output->nulls == NULL)
			move_to_front(fill, i);
	}
}

/*
 * Have an output follow those of the same kind
 */
static void
move_to_front(GjEntryFill *fill, int i)
{
	GjEntryOutput moved = fill->outputs[i];

	fill->outputs[i] = fill->outputs[fill->nint4];
	fill->outputs[fill->nint4++] = moved;
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
