/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Read the rows of a plan node as batches of columns.
 *
 * Our nodes return batches of rows (base/nodes.h): entries of an index, whose columns are arrays
 * already; tuples of heap blocks, whose columns are copied into arrays (see "Tuples" below); or
 * arrays.  None of these rows passes through the executor.  All other rows that a node returns,
 * such as those that pass a filter, are copied into arrays one by one.  This choice is made again
 * for each batch: a node may switch between these forms, as GpuScan does when memory is short.
 *
 * The rows of an Append are those of its children, one child after another, with the columns in
 * the same places.  While it is at a child of ours, batches are taken from there.  The Append
 * itself advances to the next child, skips those that run-time pruning excludes, and starts it:
 * so the first row of each child arrives in a slot.
 *
 * A device can reduce the rows of a node, or of each child of an Append, first: GjReaderParts().
 *
 * A value keeps its width in the array, but an entry's key may be wider than its type.  Within
 * EvalPlanQual, rows are read one by one: there a node may have to return a row that it supplies.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/tupmacs.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "executor/execPartition.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "exec/exec.h"
#include "join/join.h"
#include "agg.h"

/* A wanted column */
typedef struct GjReaderColumn
{
	int			slot_at;		/* position in the node's result slot, from 0 */
	int			at;				/* position in the source's result slot, from 0 */
	int			partner;		/* column of the partners of the source's rows, or -1 */
	uint16		width;			/* width of its type, or of a code */
	bool		is_numeric;		/* is it made of numerics? */
	uint8		display_scale;	/* if so, their scales */
	uint8		stored_scale;
	GjColumnPart part;
	bool		is_key;			/* does it form groups? */
	GjStrayKind coded;			/* values have codes of this kind in their place, or none */
	int64	   *known;			/* codes of small rows, by row number; 0: not known yet */
	uint32		nknown;
	char	   *values;			/* buffer for one batch of rows, and then for one of states */
	uint8	   *nulls;
} GjReaderColumn;

struct GjReader
{
	PlanState  *node;
	PlanState  *source;			/* node whose rows are currently the node's: itself, or one below
								 * it; NULL until it is known */
	const GjRowMethods *methods;	/* functions of the source, or NULL */
	bool		mapped;			/* are all columns unchanged columns of the source? */
	bool		wants_partners; /* are some of them columns of partners? */
	bool		appends;		/* is there an Append, so that the source can change? */
	bool		ended;			/* has the node reported the end of its rows? */
	int			room;			/* maximum number of rows of the batch: strays.c */
	int			natts;			/* number of attributes needed from the node's slot */
	int			ncolumns;
	GjReaderColumn *columns;
	uint32		last_number;	/* last number assigned to a small row */
	uint32		old_numbers;	/* numbers up to this one are no longer valid */
	Size		most_known;		/* number of codes that are kept for a column */
	uint32	   *weights;
	bool	   *has_nulls;		/* for each column: has the current batch of tuples any NULL? */
	GjStrays   *strays;			/* values that have no word */
	GjStrayUse	key_use;		/* of small rows' values */
	GjBatch		batch;
	GjBatch		states;			/* groups made by a device, possibly in the middle of a batch */
	PlanState  *at_work;		/* the part that is being reduced, or NULL */
	GjReaderStats *stats;
};

static inline void
reader_put_value(GjReaderColumn *column, int row, Datum value, bool isnull)
{
	column->nulls[row] = isnull;
	store_att_byval(column->values + row * column->width, isnull ? (Datum) 0 : value,
					column->width);
}

static inline GjBatchColumn
own_column(const GjReaderColumn *column)
{
	return (GjBatchColumn) {
		.values = column->values,.nulls = column->nulls,.width = column->width
	};
}

#define FIRST_KNOWN				((uint32) 256)

/* The codes of small rows take no more than this part of the memory for each column */
#define KNOWN_PART				16

static bool read_arrays(GjReader *reader);
static int	list_nodes(GjReader *reader, PlanState **nodes);
static int	list_part(GjReader *reader, int part, PlanState **nodes);
static PlanState *node_below(GjReader *reader, PlanState *node);
static bool map_columns(GjReader *reader, PlanState **nodes, int nnodes);
static int	column_below(PlanState *node, int at);
static void take_arrays(GjReader *reader, GjRowBatch *batch);
static void reader_take_entries(GjReader *reader, GjRowBatch *batch);
static GjBatchColumn reader_take_column(GjReader *reader, int i, const GjRowBatch *batch,
										const uint16 *rows, int n, bool in_place);
static GjBatchColumn reader_take_values(GjReaderColumn *column, const char *values,
										const uint8 *nulls, uint16 width, uint64 first,
										const uint16 *rows, int n, bool in_place);
static GjBatchColumn take_word(GjReaderColumn *column, const GjShapeOutput *output, uint64 first,
							   const uint16 *rows, int n, bool in_place);
static GjBatchColumn divide_seconds(GjReaderColumn *column, const GjShapeOutput *output,
									uint64 first, const uint16 *rows, int n);
static GjBatchColumn convert_words(GjReader *reader, GjReaderColumn *column,
								   const GjShapeOutput *output, uint64 first, const uint16 *rows,
								   int n);
static const GjShapeOutput *reader_find_output(const GjRowShape *shape, int at);
static void reader_count_rows(GjReader *reader, const uint32 *weights, int n);
static bool map_request(GjReader *reader, GjReduceRequest *request);
static void start_nodes(PlanState **nodes, int n);
static void stop_nodes(PlanState **nodes, int n, double nrows);
static bool read_slots(GjReader *reader);
static bool source_changes(GjReader *reader);
static void put_row(GjReader *reader, TupleTableSlot *slot, int row);
static Datum part_of(GjReader *reader, const GjReaderColumn *column, Datum value, bool *isnull);
static Datum word_of_text(GjReader *reader, const GjReaderColumn *column, Datum value);
static Datum word_of_numeric(GjReader *reader, const GjReaderColumn *column, Datum value,
							 bool *isnull);
static void own_columns(GjReader *reader, int nrows);
static void take_tuples(GjReader *reader, GjRowBatch *batch);
static int	reader_take_block(GjReader *reader, GjRowBatch *batch);
static bool put_made(GjReader *reader, GjReaderColumn *column, int first,
					 const GjRowBatch *batch, const uint16 *rows, int n);
static void forget_codes(GjReader *reader);
static bool put_partners(GjReader *reader, int i, int first, const GjRowBatch *batch, int n);
static int64 encode(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, Datum value);
static void note(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, int64 code);
static void reader_grow(GjReaderColumn *column, uint32 least);

GjReader *
GjReaderCreate(PlanState *node, List *attnos, List *types, List *groupings, GjStrays *strays,
			   GjReaderStats *stats)
{
	GjReader   *reader = palloc0(sizeof(GjReader));
	ListCell   *lc;
	ListCell   *lc2;

	reader->node = node;
	reader->stats = stats;
	reader->strays = strays;
	reader->key_use = GJ_STRAY_KEY;
	reader->ncolumns = list_length(attnos);
	reader->columns = palloc0_array(GjReaderColumn, reader->ncolumns);
	reader->batch.columns = palloc0_array(GjBatchColumn, reader->ncolumns);
	reader->states.columns = palloc0_array(GjBatchColumn, reader->ncolumns);
	reader->weights = palloc_array(uint32, GJ_BATCH_ROWS);
	reader->has_nulls = palloc_array(bool, reader->ncolumns);
	forboth(lc, attnos, lc2, types)
	{
		GjReaderColumn *column = &reader->columns[foreach_current_index(lc)];

		column->slot_at = column->at = lfirst_int(lc) - 1;
		column->width = GjValueWidth(GJ_TYPE_OF(lfirst_int(lc2)));
		column->part = GJ_PART_OF(lfirst_int(lc2));
		column->is_key = list_member_int(groupings, foreach_current_index(lc));
		column->is_numeric = GJ_TYPE_OF(lfirst_int(lc2)) == GJ_VALUE_NUMERIC ||
			column->part == GJ_NUMERIC_KEY || column->part == GJ_NUMERIC_FORM;
		column->display_scale = GJ_DISPLAY_SCALE_OF(lfirst_int(lc2));
		column->stored_scale = GJ_STORED_SCALE_OF(lfirst_int(lc2));
		column->values = palloc(2 * GJ_BATCH_ROWS * sizeof(int64));
		column->nulls = palloc(2 * GJ_BATCH_ROWS);
		reader->natts = Max(reader->natts, lfirst_int(lc));
	}
	return reader;
}

const GjBatch *
GjReaderNext(GjReader *reader)
{
	if (reader->ended)
		return NULL;
	reader->room = GjStraysNextBatch(reader->strays);
	if (!read_arrays(reader) && !read_slots(reader))
		return NULL;
	reader->stats->batches++;
	reader->batch.is_last = reader->ended;
	return &reader->batch;
}

/* Arrays --------------------------------------------------------------------------- */

/* Maximum number of nodes between the node and its source; deeper sources are read row by row */
#define MAX_NODES				8

/*
 * Read rows that the source has as arrays.  Returns false if the next row, if any, comes in a
 * slot.
 *
 * For EXPLAIN, the nodes have returned the rows.  But a node that is not ours must not be told
 * so: its first call may rescan it, to compute its keys, which is an error once it has run.
 */
static bool
read_arrays(GjReader *reader)
{
	PlanState  *nodes[MAX_NODES];
	int			n = list_nodes(reader, nodes);
	uint64		before = reader->stats->array_rows;
	GjRowBatch *batch;

	if (n == 0 || reader->methods == NULL || reader->methods->next_batch == NULL)
		return false;
	start_nodes(nodes, n);
	batch = reader->methods->next_batch(reader->source, reader->wants_partners);
	if (batch != NULL && batch->arrays != NULL)
		take_arrays(reader, batch);
	else if (batch != NULL && batch->tuples != NULL)
		take_tuples(reader, batch);
	else if (batch != NULL)
		reader_take_entries(reader, batch);
	stop_nodes(nodes, n, reader->stats->array_rows - before);
	return batch != NULL;
}

/*
 * For EXPLAIN, the nodes work now
 */
static void
start_nodes(PlanState **nodes, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (nodes[i]->instrument != NULL)
			InstrStartNode(nodes[i]->instrument);
	}
}

/*
 * For EXPLAIN, the nodes have returned some rows
 */
static void
stop_nodes(PlanState **nodes, int n, double nrows)
{
	for (int i = n - 1; i >= 0; i--)
	{
		if (nodes[i]->instrument != NULL)
			InstrStopNode(nodes[i]->instrument, nrows);
	}
}

/*
 * List the nodes from the one that is read down to the source, which has the rows.  Returns 0 if
 * one of them must be rescanned first, or if EvalPlanQual may have a row for it: the executor
 * handles both.  Also returns 0 if a column is computed in between.
 */
static int
list_nodes(GjReader *reader, PlanState **nodes)
{
	PlanState  *node = reader->node;
	int			n = 0;

	if (node->state->es_epq_active != NULL)
		return 0;
	for (PlanState *below = node; below != NULL; below = node_below(reader, node))
	{
		node = below;
		if (n == MAX_NODES || node->chgParam != NULL)
			return 0;
		nodes[n++] = node;
	}
	if (node != reader->source)
	{
		reader->source = node;
		reader->methods = GjNodeRowMethods(node);
		reader->mapped = map_columns(reader, nodes, n);
	}
	return reader->mapped ? n : 0;
}

/*
 * Return the node whose rows are this one's, with the same or other columns.  Returns NULL if no
 * such node exists, or none at the moment.
 */
static PlanState *
node_below(GjReader *reader, PlanState *node)
{
	AppendState *append = (AppendState *) node;

	if (IsA(node, SubqueryScanState))
		return node->qual == NULL ? ((SubqueryScanState *) node)->subplan : NULL;
	if (!IsA(node, AppendState))
		return NULL;

	reader->appends = true;
	if (!append->as_begun || append->as_nasyncplans > 0)
		return NULL;
	return append->appendplans[append->as_whichplan];
}

/*
 * Map the wanted columns to the source node.  Returns false if a column is computed above the
 * source, if an encoded column is not from the small side, or if a target list has side effects.
 */
static bool
map_columns(GjReader *reader, PlanState **nodes, int nnodes)
{
	PlanState  *source = nodes[nnodes - 1];
	const GjRowMethods *methods = reader->methods;

	reader->wants_partners = false;
	for (int n = 0; n < nnodes; n++)
	{
		if (contain_volatile_functions((Node *) nodes[n]->plan->targetlist) ||
			contain_subplans((Node *) nodes[n]->plan->targetlist))
			return false;
	}
	for (int i = 0; i < reader->ncolumns; i++)
	{
		GjReaderColumn *column = &reader->columns[i];

		column->at = column->slot_at;
		for (int n = 0; n < nnodes - 1 && column->at >= 0; n++)
			column->at = column_below(nodes[n], column->at);
		if (column->at < 0)
			return false;
		column->partner = methods != NULL && methods->partner_column != NULL ?
			methods->partner_column(source, column->at) : -1;
		if (column->coded != GJ_STRAY_NONE && column->partner < 0)
			return false;
		reader->wants_partners |= column->partner >= 0;
	}
	return true;
}

static int
column_below(PlanState *node, int at)
{
	Var		   *var;

	if (!IsA(node, SubqueryScanState))
		return at;
	var = (Var *) list_nth_node(TargetEntry, node->plan->targetlist, at)->expr;
	return IsA(var, Var) ? var->varattno - 1 : -1;
}

/*
 * Build a batch that refers to the source's arrays
 */
static void
take_arrays(GjReader *reader, GjRowBatch *batch)
{
	Assert(batch->next == 0);
	for (int i = 0; i < reader->ncolumns; i++)
	{
		const GjReaderColumn *column = &reader->columns[i];

		reader->batch.columns[i] = column->part == GJ_UUID_SECOND ? batch->seconds[column->at] :
			batch->arrays[column->at];
		Assert(reader->batch.columns[i].values != NULL);
	}
	reader->batch.nrows = batch->next = batch->nrows;
	reader->batch.weights = NULL;
	reader_count_rows(reader, NULL, batch->nrows);
}

/*
 * Build a batch from the remaining rows of a batch of entries.  Refer to columns in place if the
 * rows are all entries of a range: a row with several partners is repeated, which can hide a gap.
 */
static void
reader_take_entries(GjReader *reader, GjRowBatch *batch)
{
	const uint16 *rows = batch->rows + batch->next;
	int			n = Min(batch->nrows - batch->next, reader->room);
	uint16		differ = rows[n - 1] ^ (rows[0] + n - 1);

	for (int i = 0; i < n && batch->partners != NULL; i++)
		differ |= rows[i] ^ (rows[0] + i);
	for (int i = 0; i < reader->ncolumns; i++)
		reader->batch.columns[i] = reader_take_column(reader, i, batch, rows, n, differ == 0);
	reader->batch.nrows = n;
	reader->batch.weights = batch->weights == NULL ? NULL : batch->weights + batch->next;
	batch->next += n;
	reader->ended = batch->is_last && batch->next == batch->nrows && !reader->appends;
	reader_count_rows(reader, reader->batch.weights, n);
}

static GjBatchColumn
reader_take_column(GjReader *reader, int i, const GjRowBatch *batch, const uint16 *rows, int n,
				   bool in_place)
{
	GjReaderColumn *column = &reader->columns[i];
	const GjShapeOutput *output;
	uint64		first = batch->first;

	if (column->partner >= 0)
	{
		put_partners(reader, i, 0, batch, n);
		return own_column(column);
	}

	output = reader_find_output(batch->shape, column->at);
	if (column->is_numeric && (output->display_scale != column->display_scale ||
							   output->stored_scale != column->stored_scale))
		return convert_words(reader, column, output, first, rows, n);
	if (column->part == GJ_NUMERIC_FORM)
	{
		/* the scale is the column's */
		memset(column->values, 0, n * column->width);
		memset(column->nulls, 1, n);
		return own_column(column);
	}
	if (column->part != GJ_WHOLE && !column->is_numeric)
		return take_word(column, output, first, rows, n, in_place);
	return reader_take_values(column, output->values, output->nulls, output->width, first, rows, n,
							  in_place);
}

/*
 * Take n values of an array of entries, from the first one on: the array itself, if its rows are
 * consecutive, or copies.  nulls has a byte for each value, or is a null pointer.
 */
static GjBatchColumn
reader_take_values(GjReaderColumn *column, const char *values, const uint8 *nulls, uint16 width,
				   uint64 first, const uint16 *rows, int n, bool in_place)
{
	if (in_place)
	{
		first += rows[0];
		return (GjBatchColumn) {
			.values = values + first * width,
			.nulls = nulls == NULL ? NULL : nulls + first,.width = width
		};
	}
	GjGather(column->values, values + first * width, width, rows, n);
	if (nulls != NULL)
		GjGather(column->nulls, nulls + first, sizeof(uint8), rows, n);
	return (GjBatchColumn) {
		.values = column->values,.nulls = nulls == NULL ? NULL : column->nulls,.width = width
	};
}

/*
 * Take a word of the uuids or texts of entries.  Keys are stored in another form, which a NULL
 * key's bytes must not be taken for.
 */
static GjBatchColumn
take_word(GjReaderColumn *column, const GjShapeOutput *output, uint64 first, const uint16 *rows,
		  int n, bool in_place)
{
	bool		is_first = column->part == GJ_UUID_FIRST || column->part == GJ_TEXT_FIRST ||
		column->part == GJ_BPCHAR_FIRST;
	const int64 *words = is_first ? (const int64 *) output->values : output->words->seconds;

	if (output->column == 0)
	{
		const int64 *codes = (const int64 *) output->values + first;
		const int64 *rests = output->words->seconds + first;

		for (int i = 0; i < n; i++)
			((int64 *) column->values)[i] = GjWordOfPair(codes[rows[i]], rests[rows[i]],
														 column->part);
		if (output->nulls == NULL)
			return (GjBatchColumn) {.values = column->values,.width = sizeof(int64)};
		for (int i = 0; i < n; i++)
			reader_put_value(column, i, Int64GetDatum(((int64 *) column->values)[i]),
							 output->nulls[first + rows[i]] != 0);
		return own_column(column);
	}
	if (column->part == GJ_BPCHAR_SECOND || column->part == GJ_BPCHAR_FORM)
		return divide_seconds(column, output, first, rows, n);
	return reader_take_values(column, (const char *) words, output->nulls, sizeof(int64), first,
							  rows, n, in_place);
}

/*
 * Take the second words of bpchars, or the lengths in these
 */
static GjBatchColumn
divide_seconds(GjReaderColumn *column, const GjShapeOutput *output, uint64 first,
			   const uint16 *rows, int n)
{
	const int64 *seconds = output->words->seconds + first;

	for (int i = 0; i < n; i++)
	{
		bool		isnull = output->nulls != NULL && output->nulls[first + rows[i]] != 0;
		int64		length = seconds[rows[i]] & GJ_TEXT_LENGTH_BITS;

		reader_put_value(column, i, Int64GetDatum(column->part == GJ_BPCHAR_FORM ? length :
												  seconds[rows[i]] ^ length), isnull);
	}
	return own_column(column);
}

/*
 * Convert the words of an index that has other scales, as one of a partition can have
 */
static GjBatchColumn
convert_words(GjReader *reader, GjReaderColumn *column, const GjShapeOutput *output, uint64 first,
			  const uint16 *rows, int n)
{
	union
	{
		int32		aligned;
		char		bytes[GJ_NUMERIC_BYTES];
	}			buffer;

	for (int i = 0; i < n; i++)
	{
		uint64		entry = first + rows[i];
		bool		isnull = output->nulls != NULL && output->nulls[entry] != 0;
		Datum		value = (Datum) 0;

		if (!isnull)
		{
			GjNumericOfWord(((const int64 *) output->values)[entry], output->display_scale,
							output->stored_scale, buffer.bytes);
			value = part_of(reader, column, PointerGetDatum(buffer.bytes), &isnull);
		}
		reader_put_value(column, i, value, isnull);
	}
	return own_column(column);
}

static const GjShapeOutput *
reader_find_output(const GjRowShape *shape, int at)
{
	const GjShapeOutput *output = GjShapeFind(shape, at);

	if (output == NULL)
		elog(ERROR, "a batch lacks attribute %d of the result", at + 1);
	return output;
}

static void
reader_count_rows(GjReader *reader, const uint32 *weights, int n)
{
	if (weights == NULL)
		reader->stats->array_rows += n;
	else
		for (int i = 0; i < n; i++)
			reader->stats->array_rows += weights[i];
}

/* Groups made by a device ----------------------------------------------------------- */

/*
 * Return the number of parts whose rows can be reduced one after another: the children of an Append
 * that has not been started, or the node itself.  Like ExecProcNode(), rescan the node first if a
 * parameter has changed.
 *
 * The Append will run all children that it has, unless it prunes while it runs: then none is
 * reduced, as it is not known yet which ones it will run.  A child returns the rows that have not
 * been reduced whenever the Append comes to it.
 */
int
GjReaderParts(GjReader *reader)
{
	AppendState *append = (AppendState *) reader->node;

	if (reader->node->state->es_epq_active != NULL)
		return 0;
	if (reader->node->chgParam != NULL)
		ExecReScan(reader->node);
	if (!IsA(append, AppendState))
		return 1;
	if (append->as_begun || append->as_nasyncplans > 0 || append->as_pstate != NULL ||
		(append->as_prune_state != NULL && append->as_prune_state->do_exec_prune))
		return 0;
	return append->as_nplans;
}

/*
 * Have a device reduce the rows of a part.  May be called again while it waits for the answer, for
 * another part.
 */
bool
GjReaderReduce(GjReader *reader, GjReduceRequest *request)
{
	PlanState  *nodes[MAX_NODES];
	int			n = list_part(reader, request->part, nodes);
	PlanState  *before = reader->at_work;
	PlanState  *source = reader->source;
	bool		reduced;

	if (n == 0 || reader->methods == NULL || reader->methods->reduce == NULL ||
		!map_request(reader, request))
		return false;
	if (request->part == GJ_NEXT_SEARCH)	/* the nodes are at work */
		return reader->methods->reduce(reader->source, request);
	if (before == NULL)
		start_nodes(nodes, n);
	else
	{
		/* the node above it is at work, too, and stays so */
		stop_nodes(&before, 1, 0.0);
		start_nodes(&source, 1);
	}
	reader->at_work = source;
	reduced = reader->methods->reduce(source, request);
	reader->at_work = before;
	if (before == NULL)
		stop_nodes(nodes, n, 0.0);
	else
	{
		stop_nodes(&source, 1, 0.0);
		start_nodes(&before, 1);
	}
	return reduced;
}

/*
 * Make a part that has been reduced the source again, after others have been
 */
void
GjReaderTurnTo(GjReader *reader, int part)
{
	PlanState  *nodes[MAX_NODES];

	(void) list_part(reader, part, nodes);
}

/*
 * Make a part the source.  Return the number of nodes down to it, like list_nodes().
 */
static int
list_part(GjReader *reader, int part, PlanState **nodes)
{
	AppendState *append = (AppendState *) reader->node;

	if (!IsA(append, AppendState))
	{
		int			n = list_nodes(reader, nodes);

		return reader->appends ? 0 : n;
	}
	nodes[0] = reader->node;
	/* only a part to which pruning has left no other makes several searches */
	nodes[1] = append->appendplans[GjRequestPart(part)];
	if (nodes[1]->chgParam != NULL)
		ExecReScan(nodes[1]);
	if (nodes[1] != reader->source)
	{
		reader->source = nodes[1];
		reader->methods = GjNodeRowMethods(nodes[1]);
		reader->mapped = map_columns(reader, nodes, 2);
	}
	return reader->mapped ? 2 : 0;
}

/*
 * Replace the columns of the batches by those of the source.  Returns false if that cannot reduce
 * its rows to these groups.
 */
static bool
map_request(GjReader *reader, GjReduceRequest *request)
{
	int			n = 0;

	request->ncolumns = request->ngroups;
	memcpy(request->columns, request->groups, sizeof(request->columns));
	for (int i = 0; i < request->ngroups; i++)
	{
		const GjReaderColumn *column = &reader->columns[request->groups[i]];

		if (column->partner >= 0)
			request->by_partner = true;
		else
			request->groups[n++] = column->at;
	}
	request->ngroups = n;
	request->by_key = request->by_partner;
	/* the device makes a group for each key, and one of our groups may have several keys */
	request->only_count &= !request->by_partner;
	for (int i = 0; i < request->naggs; i++)
	{
		const GjReaderColumn *column = &reader->columns[request->aggs[i].column];

		if (column->partner >= 0)
			return false;
		request->aggs[i].column = column->at;
	}
	return !request->distinct || !request->by_partner;
}

const GjBatch *
GjReaderNextStates(GjReader *reader, GjReduceRequest *request)
{
	GjStateRows *rows = request->rows;
	GjRowBatch	partners = {.partners = rows->partners};

	reader->methods->next_states(reader->source, request);
	if (rows->n == 0)
		return NULL;
	partners.partner_natts = rows->partner_natts;
	for (int i = 0, group = 0; i < request->ncolumns; i++)
	{
		GjReaderColumn *column = &reader->columns[request->columns[i]];
		GjBatchColumn *states = &reader->states.columns[request->columns[i]];

		*states = own_column(column);
		states->values += GJ_BATCH_ROWS * column->width;
		states->nulls += GJ_BATCH_ROWS;
		if (column->partner >= 0)
		{
			/* merged groups cannot be spilled */
			reader->key_use = GJ_STRAY_KEPT_KEY;
			(void) put_partners(reader, request->columns[i], GJ_BATCH_ROWS, &partners, rows->n);
			reader->key_use = GJ_STRAY_KEY;
		}
		else
		{
			for (int row = 0; row < rows->n; row++)
			{
				bool		isnull;
				Datum		value = GjReduceValue(request, group, row, column->part, &isnull);

				reader_put_value(column, GJ_BATCH_ROWS + row, value, isnull);
			}
			group++;
		}
	}
	reader->states.nrows = rows->n;
	reader->states.weights = rows->weights;
	return &reader->states;
}

/* Slots ---------------------------------------------------------------------------- */

/*
 * Copy the next rows that the node returns into arrays.  Returns false at the end.
 */
static bool
read_slots(GjReader *reader)
{
	int			nrows = 0;

	while (nrows < GJ_BATCH_ROWS && !reader->ended && GjStraysBatchRows(reader->strays) > 0)
	{
		TupleTableSlot *slot = ExecProcNode(reader->node);

		if (TupIsNull(slot))
			reader->ended = true;
		else
			put_row(reader, slot, nrows++);
		if (reader->appends && !reader->ended && source_changes(reader))
			break;
	}
	own_columns(reader, nrows);
	reader->stats->slot_rows += nrows;
	return nrows > 0;
}

/*
 * Return true if an Append has advanced to another child that may have arrays
 */
static bool
source_changes(GjReader *reader)
{
	PlanState  *nodes[MAX_NODES];
	PlanState  *before = reader->source;

	return list_nodes(reader, nodes) > 0 && reader->source != before;
}

static void
put_row(GjReader *reader, TupleTableSlot *slot, int row)
{
	slot_getsomeattrs(slot, reader->natts);
	for (int i = 0; i < reader->ncolumns; i++)
	{
		GjReaderColumn *column = &reader->columns[i];
		Datum		value = slot->tts_values[column->slot_at];
		bool		isnull = slot->tts_isnull[column->slot_at];

		if (column->coded != GJ_STRAY_NONE && !isnull)
			value = Int64GetDatum(GjStraysAdd(reader->strays, column->coded, value, GJ_STRAY_KEY));
		else if (!isnull)
			value = part_of(reader, column, value, &isnull);
		reader_put_value(column, row, value, isnull);
	}
}

/*
 * Return the part of a value that is in a column, which may be NULL
 */
static Datum
part_of(GjReader *reader, const GjReaderColumn *column, Datum value, bool *isnull)
{
	if (column->is_numeric)
		return word_of_numeric(reader, column, value, isnull);
	switch (column->part)
	{
		case GJ_UUID_FIRST:
		case GJ_UUID_SECOND:
			return GjWordOfUuid(value, column->part);
		case GJ_TEXT_FIRST:
		case GJ_TEXT_SECOND:
		case GJ_BPCHAR_FIRST:
		case GJ_BPCHAR_SECOND:
			return word_of_text(reader, column, value);
		case GJ_BPCHAR_FORM:
			return Int32GetDatum((int32) toast_raw_datum_size(value) - VARHDRSZ);
		default:
			return value;
	}
}

/*
 * Return a word of a text, or of a bpchar without trailing blanks.  A text that has no words has a
 * code and a zero instead.
 */
static Datum
word_of_text(GjReader *reader, const GjReaderColumn *column, Datum value)
{
	bool		is_bpchar = column->part == GJ_BPCHAR_FIRST || column->part == GJ_BPCHAR_SECOND;
	bool		is_first = column->part == GJ_BPCHAR_FIRST || column->part == GJ_TEXT_FIRST;
	int64		words[2];

	if (is_bpchar)
		GjWordsOfTrimmed(value, words);
	else
		GjWordsOfText(value, false, words);
	if (words[0] == GJ_ABSENT)
		words[1] = 0;
	if (words[0] == GJ_ABSENT && is_first)
		words[0] = GjStraysAdd(reader->strays, is_bpchar ? GJ_STRAY_BPCHAR : GJ_STRAY_TEXT, value,
							   column->is_key ? GJ_STRAY_KEY : GJ_STRAY_ARGUMENT);
	if (is_bpchar)
		words[1] &= ~GJ_TEXT_LENGTH_BITS;
	return Int64GetDatum(words[is_first ? 0 : 1]);
}

static Datum
word_of_numeric(GjReader *reader, const GjReaderColumn *column, Datum value, bool *isnull)
{
	int64		word;

	if (column->part == GJ_WHOLE)
		return Int64GetDatum(GjStraysWord(reader->strays, value, column->display_scale,
										  column->stored_scale));
	word = GjStraysKeyPart(reader->strays, value, column->display_scale, column->stored_scale,
						   column->part);
	*isnull = column->part == GJ_NUMERIC_FORM && word < 0;
	return Int64GetDatum(word);
}

static void
own_columns(GjReader *reader, int nrows)
{
	for (int i = 0; i < reader->ncolumns; i++)
		reader->batch.columns[i] = own_column(&reader->columns[i]);
	reader->batch.nrows = nrows;
	reader->batch.weights = NULL;
}

/*-------------------------------------------------------------------------
 * Tuples
 *
 * Often only a few tuples of a block are wanted, and a batch of so few rows would be hardly better
 * than rows one by one.  So values are copied into the reader's arrays, block by block in the
 * order in which these are fetched, until the batch is full or the next rows are of another kind.
 * Nothing refers to a block once the next one is requested.
 *-------------------------------------------------------------------------
 */

/*
 * Build a batch from these rows, at least one, and the following ones
 */
static void
take_tuples(GjReader *reader, GjRowBatch *batch)
{
	const GjRowShape *shape = batch->shape;
	bool		has_weights = batch->weights != NULL;
	bool		has_partners = batch->partners != NULL;
	bool	   *has_nulls = reader->has_nulls;

	memset(has_nulls, 0, reader->ncolumns * sizeof(bool));
	reader->batch.nrows = 0;
	do
	{
		reader->batch.nrows += reader_take_block(reader, batch);
		if (reader->batch.nrows == GJ_BATCH_ROWS)
			break;
		batch = reader->methods->next_batch(reader->source, reader->wants_partners);
	} while (batch != NULL && batch->shape == shape && batch->tuples != NULL &&
			 GjStraysBatchRows(reader->strays) > 0 &&
			 (batch->weights != NULL) == has_weights &&
			 (batch->partners != NULL) == has_partners);

	reader->batch.weights = has_weights ? reader->weights : NULL;
	for (int i = 0; i < reader->ncolumns; i++)
	{
		const GjReaderColumn *column = &reader->columns[i];

		reader->batch.columns[i] = (GjBatchColumn) {
			.values = column->values,.nulls = has_nulls[i] ? column->nulls : NULL,
			.width = column->width
		};
	}
}

/*
 * Append as many of the block's rows to the batch as fit, and return their number
 */
static int
reader_take_block(GjReader *reader, GjRowBatch *batch)
{
	const uint16 *rows = batch->rows + batch->next;
	int			first = reader->batch.nrows;
	int			n = Min(batch->nrows - batch->next, GJ_BATCH_ROWS - first);
	uint32	   *weights = NULL;
	bool	   *has_nulls = reader->has_nulls;

	for (int i = 0; i < reader->ncolumns; i++)
	{
		GjReaderColumn *column = &reader->columns[i];

		if (column->partner >= 0)
			has_nulls[i] |= put_partners(reader, i, first, batch, n);
		else if (column->is_numeric || column->part >= GJ_TEXT_FIRST)
			has_nulls[i] |= put_made(reader, column, first, batch, rows, n);
		else
			has_nulls[i] |= GjReadTupleColumn(batch->tuples, batch->shape,
											  reader_find_output(batch->shape, column->at),
											  column->part, rows, n,
											  column->values + first * column->width,
											  column->nulls + first);
	}
	if (batch->weights != NULL)
	{
		weights = reader->weights + first;
		memcpy(weights, batch->weights + batch->next, n * sizeof(uint32));
	}
	batch->next += n;
	reader_count_rows(reader, weights, n);
	return n;
}

/*
 * Copy the parts of numerics or texts of n tuples, starting at row `first`.  Returns true if any is
 * NULL.
 */
static bool
put_made(GjReader *reader, GjReaderColumn *column, int first, const GjRowBatch *batch,
		 const uint16 *rows, int n)
{
	AttrNumber	attno = reader_find_output(batch->shape, column->at)->place.attno;
	bool		any_null = false;

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = unconstify(HeapTupleData *, &batch->tuples[rows[i]]);
		bool		isnull;
		Datum		value = heap_getattr(tuple, attno, batch->shape->desc, &isnull);

		if (!isnull)
			value = part_of(reader, column, value, &isnull);
		reader_put_value(column, first + i, value, isnull);
		any_null |= isnull;
	}
	return any_null;
}

/*-------------------------------------------------------------------------
 * Partners
 *
 * Read the columns of a join's small side, and keep codes for their values.
 *
 * A value whose equality is not bitwise is a key among the strays (groups/strays.c), whose code
 * takes its place.  So is one that outlives its row, as it is one of a group's first row.  Looking
 * it up with its type's functions takes some 100 ns, and the same few small rows are used again and
 * again.  So each small row gets a number when it is first used, and its code is stored under that
 * number for each column.  The numbers are not used again when codes are forgotten, because rows
 * may outlive their codes: a rescan need not collect the small side again.  A code that is only
 * that of a batch is not stored.
 *-------------------------------------------------------------------------
 */

GjStrayKind
GjReaderEncode(GjReader *reader, int column, bool by_image)
{
	GjReaderColumn *to = &reader->columns[column];
	Form_pg_attribute att = TupleDescAttr(ExecGetResultType(reader->node), to->slot_at);

	Assert(to->width == sizeof(int64));
	to->coded = GjStraysAddType(reader->strays, att->atttypid, att->attcollation, by_image);
	to->known = palloc(FIRST_KNOWN * sizeof(int64));
	reader->most_known = Max(get_hash_memory_limit() / KNOWN_PART / sizeof(int64), FIRST_KNOWN);
	return to->coded;
}

void
GjReaderRestart(GjReader *reader)
{
	reader->ended = false;
	forget_codes(reader);
}

static void
forget_codes(GjReader *reader)
{
	reader->old_numbers = reader->last_number;
	for (int i = 0; i < reader->ncolumns; i++)
		reader->columns[i].nknown = 0;
}

/*
 * Copy a column of the partners of n rows into the array of column i, starting at row `first`.
 * Returns true if any value is NULL.
 */
static bool
put_partners(GjReader *reader, int i, int first, const GjRowBatch *batch, int n)
{
	GjReaderColumn *to = &reader->columns[i];
	void	  **partners = batch->partners + batch->next;
	int			column = to->partner;
	int			natts = batch->partner_natts;
	bool		any_null = false;
	Datum		value = (Datum) 0;
	bool		isnull = true;

	for (int p = 0; p < n; p++)
	{
		GjSmallRow *partner = partners[p];

		if (p == 0 || partner != partners[p - 1])	/* not of one key, as most neighbors are */
		{
			value = GjSmallRowValues(partner)[column];
			isnull = GjSmallRowNulls(partner, natts)[column];
			if (to->coded != GJ_STRAY_NONE && !isnull)
				value = Int64GetDatum(encode(reader, to, partner, value));
			else if (!isnull)
				value = part_of(reader, to, value, &isnull);
		}
		reader_put_value(to, first + p, value, isnull);
		any_null |= isnull;
	}
	return any_null;
}

static int64
encode(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, Datum value)
{
	uint32		at = row->number - reader->old_numbers - 1;
	int64		code;

	if (row->number > reader->old_numbers && at < column->nknown && column->known[at] != 0)
		return column->known[at];
	code = GjStraysAdd(reader->strays, column->coded, value, reader->key_use);
	if (GjStraysKept(code))
		note(reader, column, row, code);
	return code;
}

/*
 * Record a row's code, unless the row numbers are exhausted.  If there are too many, those of other
 * rows are forgotten: they may be of small rows that are no longer in memory.
 */
static void
note(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, int64 code)
{
	uint32		at;

	if (row->number <= reader->old_numbers)
	{
		if (reader->last_number - reader->old_numbers >= reader->most_known)
			forget_codes(reader);
		if (reader->last_number == GJ_SMALL_MAX_NUMBER)
			return;
		row->number = ++reader->last_number;
	}
	at = row->number - reader->old_numbers - 1;
	if (at >= column->nknown)
		reader_grow(column, at + 1);
	column->known[at] = code;
}

static void
reader_grow(GjReaderColumn *column, uint32 least)
{
	uint32		n = Max(column->nknown, FIRST_KNOWN);

	while (n < least)
		n = n > PG_UINT32_MAX / 2 ? PG_UINT32_MAX : 2 * n;
	column->known = repalloc_huge(column->known, n * sizeof(int64));
	memset(column->known + column->nknown, 0, (n - column->nknown) * sizeof(int64));
	column->nknown = n;
}
