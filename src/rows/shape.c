/*-------------------------------------------------------------------------
 *
 * shape.c
 *	  Copying columns of index entries or heap tuples to the attributes of a slot, or to arrays.
 *
 * A slot has the table's columns, if filters or expressions need the row; or it has those of a
 * target list of plain columns, which needs no projection then.
 *
 * Storing a tuple in a slot, deforming it and projecting some of its columns to another slot takes
 * longer than all other work for a row.  Most of these columns have a fixed width, and are preceded
 * only by columns of fixed width.  Such a column is at the same place in each tuple that
 *
 *	- has no NULL.  A NULL takes no space, so the columns after it are at other places.  A bit of
 *	  the tuple's header tells whether the tuple has any NULL, also in dropped columns;
 *	- has all the attributes.  A tuple that was formed before a column was added is shorter, and
 *	  the values of the missing columns come from the table's descriptor.
 *
 * Dropped columns keep their width and alignment in the descriptor, since older tuples still have
 * them.  Other tuples are deformed in the usual way.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type_d.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "node/scanplan.h"
#include "pages/pages.h"
#include "shape.h"

/* Room for a value that is made: a bpchar takes most of it */
#define MADE_BYTES				(VARHDRSZ + GJ_BPCHAR_BYTES)

static GjRowShape *create_shape(List *attributes);
static void describe_column(GjShapeOutput *output, const GjIncludedColumn *column);
static inline bool is_made(const GjShapeOutput *output);
static void check_plan(const Scan *plan, List *attnos);
static int	column_of_index(Relation index, AttrNumber attno);
static bool describe_value(TupleDesc desc, AttrNumber attno, GjTuplePlace *place);
static void add_output(GjRowShape *shape, AttrNumber attno, const GjShapeOutput *output);
static void order_outputs(GjRowShape *shape);
static void swap_outputs(GjRowShape *shape, int i, int j);
static bool all_have_place(const HeapTupleData *tuples, AttrNumber attno, const uint16 *rows,
						   int n);
static void read_places(const HeapTupleData *tuples, const GjTuplePlace *place,
						const uint16 *rows, int n, char *values);
static bool shape_read_words(const HeapTupleData *tuples, const GjRowShape *shape,
							 const GjShapeOutput *output, int word, const uint16 *rows, int n,
							 int64 *values, uint8 *nulls);
static bool read_attributes(const HeapTupleData *tuples, TupleDesc desc,
							const GjTuplePlace *place, const uint16 *rows, int n, char *values,
							uint8 *nulls);

static GjRowShape *
create_shape(List *attributes)
{
	return palloc0(offsetof(GjRowShape, outputs) + list_length(attributes) * sizeof(GjShapeOutput));
}

/*
 * Prepare filling slots with the table's columns from entries.  attnos are the attributes to be
 * filled.  The index must have all of them, and the plan must use no others.  If the index has
 * rests, keys are made of codes and rests.
 */
GjRowShape *
GjShapeOfEntries(Relation index, GjCodecKind codec, const Scan *plan, List *attnos)
{
	GjRowShape *shape = create_shape(attnos);
	GjIndexInfo info;
	ListCell   *lc;

	shape->key_is_text = codec == GJ_CODEC_TEXT;
	GjIndexGetInfo(index, &info);
	check_plan(plan, attnos);
	foreach(lc, attnos)
	{
		GjShapeOutput output = {.column = column_of_index(index, lfirst_int(lc))};

		output.second = GjIndexSecondColumn(&info, output.column);
		output.by_value = output.second == 0;
		if (output.column > 0)
			describe_column(&output, &info.included[output.column - 1]);
		add_output(shape, lfirst_int(lc), &output);
	}
	return shape;
}

static void
describe_column(GjShapeOutput *output, const GjIncludedColumn *column)
{
	output->kind = column->kind;
	output->display_scale = column->display_scale;
	output->stored_scale = column->stored_scale;
	output->by_value = column->kind == GJ_COLUMN_PLAIN;
}

/*
 * Return true if an output's value is not stored in the index, but made of words that are
 */
static inline bool
is_made(const GjShapeOutput *output)
{
	return output->second != 0 || output->kind != GJ_COLUMN_PLAIN;
}

/*
 * Raise an error if the finished plan uses other attributes.  They would silently be NULL.
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
 * Return the first column of an index, from 0, that is an attribute of its table.  It must exist.
 * That may be a key that is in INCLUDE, too: a plan takes it from entries only if they tell it.
 */
static int
column_of_index(Relation index, AttrNumber attno)
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
 * Prepare filling slots with the columns of a target list from tuples.  varno is that of the table.
 * Entries that are not Vars of the table, or whose place varies, are left out.  For arrays, the
 * place may vary, but the value must be by value, a uuid, or a numeric, which the caller converts.
 */
GjRowShape *
GjShapeOfTuples(TupleDesc desc, List *tlist, Index varno, bool to_arrays)
{
	GjRowShape *shape = create_shape(tlist);
	ListCell   *lc;

	shape->desc = desc;
	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		GjShapeOutput output = {0};

		if (!IsA(var, Var) || var->varno != varno ||
			!(GjTupleFindPlace(desc, var->varattno, &output.place) ||
			  (to_arrays && describe_value(desc, var->varattno, &output.place))))
			continue;
		output.width = output.place.width;
		output.by_value = output.place.by_value;
		add_output(shape, entry->resno, &output);
	}
	order_outputs(shape);
	return shape;
}

/*
 * Find the place of an attribute.  If it is not the same in all tuples, returns false and sets no
 * place.
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
 * Describe an attribute whose place varies.  Returns false unless it is by value, a numeric, or,
 * judging by its width, a uuid.
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
	return att->attbyval || att->attlen == UUID_LEN || att->atttypid == NUMERICOID;
}

/*
 * Prepare filling slots with the columns of a target list.  Vars with this number refer to the
 * columns of another shape.  Returns NULL if the list has anything else.
 */
GjRowShape *
GjShapeOfTarget(const GjRowShape *row, List *tlist, Index varno)
{
	GjRowShape *shape = create_shape(tlist);
	ListCell   *lc;

	shape->desc = row->desc;
	shape->key_is_text = row->key_is_text;
	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		const GjShapeOutput *output;

		output = IsA(var, Var) && var->varno == varno ? GjShapeFind(row, var->varattno - 1) : NULL;
		if (output == NULL)
			return NULL;
		add_output(shape, entry->resno, output);
	}
	order_outputs(shape);
	return shape;
}

static void
add_output(GjRowShape *shape, AttrNumber attno, const GjShapeOutput *output)
{
	GjShapeOutput *added = &shape->outputs[shape->noutputs++];

	*added = *output;
	added->at = attno - 1;
	shape->columns |= GJ_ENTRY_KEY << output->column;
	if (output->second != 0)
		shape->columns |= GJ_ENTRY_KEY << output->second;
	if (is_made(output))
	{
		shape->nmade++;
		added->words = palloc0(sizeof(GjShapeWords));
		added->words->made = palloc(MADE_BYTES);	/* each shape fills slots of its own */
	}
	shape->natts = Max(shape->natts, output->place.attno);
}

/*
 * Fill from this set of entries, in its current state, from now on
 *
 * The index's keys may be wider than the column's type; the Datum is the same.
 */
void
GjShapeSetSource(GjRowShape *shape, const GjEntrySet *set)
{
	for (int i = 0; i < shape->noutputs; i++)
	{
		GjShapeOutput *output = &shape->outputs[i];
		const GjEntryColumn *column = output->column == 0 ? &set->keys :
			&set->included[output->column - 1];

		output->width = column->width;
		output->values = column->values;
		output->nulls = column->has_nulls ? column->nulls : NULL;
		if (output->second != 0)
			output->words->seconds = (const int64 *) set->included[output->second - 1].values;
	}
	order_outputs(shape);
}

/*
 * Move the outputs with 4 bytes to the front.  They are the most frequent ones, and have a loop of
 * their own.  Move those whose values are made to the end.
 */
static void
order_outputs(GjRowShape *shape)
{
	int			nplain = 0;
	int			nint4 = 0;

	for (int i = 0; i < shape->noutputs; i++)
	{
		if (!is_made(&shape->outputs[i]))
			swap_outputs(shape, i, nplain++);
	}
	for (int i = 0; i < nplain; i++)
	{
		const GjShapeOutput *output = &shape->outputs[i];

		if (output->width == sizeof(int32) && output->by_value && output->nulls == NULL)
			swap_outputs(shape, i, nint4++);
	}
	shape->end_int4 = &shape->outputs[nint4];
	shape->end_plain = &shape->outputs[nplain];
}

static void
swap_outputs(GjRowShape *shape, int i, int j)
{
	GjShapeOutput moved = shape->outputs[i];

	shape->outputs[i] = shape->outputs[j];
	shape->outputs[j] = moved;
}

/*
 * Store those values of an entry in the slot that are made: of two words, and numerics.  No value
 * may be absent.
 */
void
GjFillMade(const GjRowShape *shape, uint64 entry, TupleTableSlot *slot)
{
	for (int i = shape->noutputs - shape->nmade; i < shape->noutputs; i++)
	{
		const GjShapeOutput *output = &shape->outputs[i];
		int64		word = ((const int64 *) output->values)[entry];

		slot->tts_isnull[output->at] = output->nulls != NULL && output->nulls[entry];
		if (slot->tts_isnull[output->at])
			continue;
		if (output->kind == GJ_COLUMN_WIDE_TEXT)
			GjTextOfWords(word, output->words->seconds[entry], output->words->made);
		else if (output->kind == GJ_COLUMN_WIDE_BPCHAR)
			GjBpcharOfWords(word, output->words->seconds[entry], output->words->made);
		else if (output->column == 0 && shape->key_is_text)
			SET_VARSIZE(output->words->made, VARHDRSZ +
						GjIdTextUnpack(word, output->words->seconds[entry],
									   VARDATA(output->words->made)));
		else if (output->second != 0)
			GjUuidOfColumn(output->column, word, output->words->seconds[entry],
						   output->words->made);
		else
			GjNumericOfWord(word, output->display_scale, output->stored_scale, output->words->made);
		slot->tts_values[output->at] = PointerGetDatum(output->words->made);
	}
}

/*
 * Return true if the index could not store one of the values of an entry
 */
bool
GjShapeLacksValue(const GjRowShape *shape, uint64 entry)
{
	for (int i = shape->noutputs - shape->nmade; i < shape->noutputs; i++)
	{
		const GjShapeOutput *output = &shape->outputs[i];

		if (GjKindMayLack(output->kind) &&
			((const int64 *) output->values)[entry] == GJ_ABSENT)
			return true;
	}
	return false;
}

/*
 * Make the slot a stored virtual tuple, so that a row only has to set values
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
 * column, which must be by value, and set a byte of nulls for each.  If the column has uuids, word
 * is 1 or 2, and the word is copied.  output is one of the shape's.  Return true if any value is
 * NULL.
 */
bool
GjReadTupleColumn(const HeapTupleData *tuples, const GjRowShape *shape, const GjShapeOutput *output,
				  int word, const uint16 *rows, int n, char *values, uint8 *nulls)
{
	Assert(output->by_value || word == 1 || word == 2);
	if (word != 0)
		return shape_read_words(tuples, shape, output, word, rows, n, (int64 *) values, nulls);
	if (output->place.offset == GJ_NO_OFFSET ||
		!all_have_place(tuples, output->place.attno, rows, n))
		return read_attributes(tuples, shape->desc, &output->place, rows, n, values, nulls);
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
	GJ_BY_WIDTH(place->width, READ_PLACES);
}

/*
 * Read a word of the uuids of tuples
 */
static bool
shape_read_words(const HeapTupleData *tuples, const GjRowShape *shape, const GjShapeOutput *output,
				 int word, const uint16 *rows, int n, int64 *values, uint8 *nulls)
{
	const GjTuplePlace *place = &output->place;
	bool		any_null = false;

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = unconstify(HeapTupleData *, &tuples[rows[i]]);
		bool		isnull = false;
		Datum		value;

		if (place->offset != GJ_NO_OFFSET && GjTupleHasPlace(tuple->t_data, place->attno))
			value = PointerGetDatum(GjTupleAt(tuple->t_data, place));
		else
			value = heap_getattr(tuple, place->attno, shape->desc, &isnull);
		values[i] = isnull ? 0 : DatumGetInt64(GjWordOfUuid(value, word));
		nulls[i] = isnull;
		any_null |= isnull;
	}
	return any_null;
}

/*
 * Read the column tuple by tuple.  The bytes of a NULL's value are zero.
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
