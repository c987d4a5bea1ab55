/*-------------------------------------------------------------------------
 *
 * shape.c
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
#include "shape.h"

static GjFill *create_fill(List *attributes);
static void check_plan(const Scan *plan, List *attnos);
static bool describe_value(TupleDesc desc, AttrNumber attno, GjTuplePlace *place);
static const GjFillOutput *find_output(const GjFill *fill, AttrNumber attno);
static void add_output(GjFill *fill, AttrNumber attno, const GjFillOutput *output);
static void order_outputs(GjFill *fill);
static bool all_have_place(const HeapTupleData *tuples, AttrNumber attno, const uint16 *rows,
						   int n);
static void read_places(const HeapTupleData *tuples, const GjTuplePlace *place,
						const uint16 *rows, int n, char *values);
static bool read_attributes(const HeapTupleData *tuples, TupleDesc desc,
							const GjTuplePlace *place, const uint16 *rows, int n, char *values,
							uint8 *nulls);

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

	fill->desc = desc;
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

	fill->desc = row->desc;
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

/*-------------------------------------------------------------------------
 * Columns of a heap block's tuples as arrays
 *
 * A row that goes through a slot is deformed, passed from node to node and formed again.  Here, a
 * loop over a block's tuples reads one column, at the same place in each.  If a tuple does not have
 * the column at that place, or the column follows one of variable length, heap_getattr() reads
 * it: it handles NULLs, and columns that were added later.
 *-------------------------------------------------------------------------
 */

/*
 * Copy a column of some of the tuples, numbered from 0, into an array of values as wide as the
 * column, which must be by value, and set a byte of nulls for each.  output is one of the fill's.
 * Return true if any value is NULL.
 */
bool
GjReadTupleColumn(const HeapTupleData *tuples, const GjFill *fill, const GjFillOutput *output,
				  const uint16 *rows, int n, char *values, uint8 *nulls)
{
	Assert(output->by_value);
	if (output->place.offset == GJ_NO_OFFSET ||
		!all_have_place(tuples, output->place.attno, rows, n))
		return read_attributes(tuples, fill->desc, &output->place, rows, n, values, nulls);
	read_places(tuples, &output->place, rows, n, values);
	memset(nulls, 0, n);
	return false;
}

static bool
all_have_place(const HeapTupleData *tuples, AttrNumber attno, const uint16 *rows, int n)
{
	bool		all = true;

	for (int i = 0; i < n; i++)
		all &= GjTupleHasPlace(tuples[rows[i]].t_data, attno);
	return all;
}

#define READ_PLACES(type) \
	for (int i = 0; i < n; i++) \
		((type *) values)[i] = *(const type *) GjTupleAt(tuples[rows[i]].t_data, place)

static void
read_places(const HeapTupleData *tuples, const GjTuplePlace *place, const uint16 *rows, int n,
			char *values)
{
	switch (place->width)
	{
		case sizeof(uint8):
			READ_PLACES(uint8);
			break;
		case sizeof(uint16):
			READ_PLACES(uint16);
			break;
		case sizeof(uint32):
			READ_PLACES(uint32);
			break;
		default:
			READ_PLACES(uint64);
			break;
	}
}

/*
 * Read tuple by tuple; the bytes of a NULL's value are zero
 */
static bool
read_attributes(const HeapTupleData *tuples, TupleDesc desc, const GjTuplePlace *place,
				const uint16 *rows, int n, char *values, uint8 *nulls)
{
	bool		any_null = false;

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = unconstify(HeapTupleData *, &tuples[rows[i]]);
		bool		isnull;
		Datum		value = heap_getattr(tuple, place->attno, desc, &isnull);

		store_att_byval(values + i * place->width, isnull ? (Datum) 0 : value, place->width);
		nulls[i] = isnull;
		any_null |= isnull;
	}
	return any_null;
}
