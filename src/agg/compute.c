/*-------------------------------------------------------------------------
 *
 * compute.c
 *	  Columns computed from the columns of a batch, row by row.
 *
 * PostgreSQL evaluates the expressions, so that they have their usual meaning.  For this, each
 * row of a batch is loaded into a slot, but only with the columns that the expressions use.  That
 * costs some 50 ns per row, less than reading the row as a tuple.
 *
 * An aggregate's argument is evaluated only where its FILTER is true, because elsewhere it might
 * fail.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "executor/executor.h"
#include "optimizer/optimizer.h"

#include "base/compat.h"
#include "agg.h"
#include "groups/groups.h"

/* A batch column that is loaded into the slot */
typedef struct Input
{
	int			at;				/* position in the slot, from 0 */
	int			column;
} Input;

typedef struct Output
{
	ExprState  *expr;
	int			condition;		/* column that must be true; -1: none */
	uint16		width;
	char	   *values;			/* buffer for one batch */
	uint8	   *nulls;
} Output;

struct GjCompute
{
	ExprContext *econtext;
	TupleTableSlot *slot;
	int			ninputs;
	Input	   *inputs;
	int			ncolumns;		/* number of columns of the input batch */
	int			noutputs;
	Output	   *outputs;
	GjBatch		batch;
};

static void create_slot(GjCompute *compute, ScanState *node);
static void list_inputs(GjCompute *compute, List *exprs, List *inputs);
static void create_outputs(GjCompute *compute, ScanState *node, List *types, List *conditions);
static void load_row(GjCompute *compute, int row);
static void compute_row(GjCompute *compute, int row);
static bool is_true(const GjBatchColumn *column, int row);

GjCompute *
GjComputeCreate(ScanState *node, List *types, List *conditions, List *inputs)
{
	GjCompute  *compute = palloc0(sizeof(GjCompute));
	List	   *exprs = ((CustomScan *) node->ps.plan)->custom_exprs;

	compute->noutputs = list_length(exprs);
	compute->ncolumns = list_length(types) - compute->noutputs;
	create_slot(compute, node);
	list_inputs(compute, exprs, inputs);
	create_outputs(compute, node, types, conditions);
	return compute;
}

/*
 * Create a private slot with the same columns as the node's scan slot
 */
static void
create_slot(GjCompute *compute, ScanState *node)
{
	TupleDesc	desc = node->ss_ScanTupleSlot->tts_tupleDescriptor;

	compute->slot = ExecInitExtraTupleSlot(node->ps.state, desc, &TTSOpsVirtual);
	memset(compute->slot->tts_isnull, true, desc->natts);
	ExecStoreVirtualTuple(compute->slot);
	compute->econtext = CreateExprContext(node->ps.state);
	compute->econtext->ecxt_scantuple = compute->slot;
}

/*
 * List the columns that the expressions use
 */
static void
list_inputs(GjCompute *compute, List *exprs, List *inputs)
{
	ListCell   *lc;

	compute->inputs = palloc0_array(Input, list_length(inputs));
	foreach(lc, pull_var_clause((Node *) exprs, 0))
	{
		int			at = lfirst_node(Var, lc)->varattno - 1;
		int			column = list_nth_int(inputs, at);
		bool		is_new = true;

		for (int i = 0; i < compute->ninputs; i++)
			is_new &= compute->inputs[i].at != at;
		if (column < 0)
			elog(ERROR, "a GpuAgg's batches lack a column");
		if (is_new)
			compute->inputs[compute->ninputs++] = (Input) {at, column};
	}
}

static void
create_outputs(GjCompute *compute, ScanState *node, List *types, List *conditions)
{
	List	   *exprs = ((CustomScan *) node->ps.plan)->custom_exprs;
	ListCell   *lc;
	ListCell   *lc2;

	compute->outputs = palloc0_array(Output, compute->noutputs);
	compute->batch.columns = palloc0_array(GjBatchColumn, list_length(types));
	forboth(lc, exprs, lc2, conditions)
	{
		int			i = foreach_current_index(lc);
		Output	   *output = &compute->outputs[i];

		output->expr = ExecInitExpr(lfirst(lc), &node->ps);
		output->condition = lfirst_int(lc2);
		output->width = GjValueWidth(list_nth_int(types, compute->ncolumns + i));
		output->values = palloc(GJ_BATCH_ROWS * output->width);
		output->nulls = palloc(GJ_BATCH_ROWS);
		compute->batch.columns[compute->ncolumns + i] = (GjBatchColumn) {
			.values = output->values,.nulls = output->nulls,.width = output->width
		};
	}
}

const GjBatch *
GjComputeColumns(GjCompute *compute, const GjBatch *batch)
{
	compute->batch.nrows = batch->nrows;
	compute->batch.weights = batch->weights;
	memcpy(compute->batch.columns, batch->columns, compute->ncolumns * sizeof(GjBatchColumn));
	for (int row = 0; row < batch->nrows; row++)
	{
		load_row(compute, row);
		compute_row(compute, row);
	}
	return &compute->batch;
}

static void
load_row(GjCompute *compute, int row)
{
	for (int i = 0; i < compute->ninputs; i++)
	{
		const Input *input = &compute->inputs[i];
		const GjBatchColumn *column = &compute->batch.columns[input->column];

		compute->slot->tts_values[input->at] = fetch_att(column->values + row * column->width,
														 true, column->width);
		compute->slot->tts_isnull[input->at] = column->nulls != NULL && column->nulls[row] != 0;
	}
}

static void
compute_row(GjCompute *compute, int row)
{
	ResetExprContext(compute->econtext);
	for (int i = 0; i < compute->noutputs; i++)
	{
		const Output *output = &compute->outputs[i];
		Datum		value = (Datum) 0;
		bool		isnull = true;

		if (output->condition < 0 || is_true(&compute->batch.columns[output->condition], row))
			value = ExecEvalExprSwitchContext(output->expr, compute->econtext, &isnull);
		output->nulls[row] = isnull;
		store_att_byval(output->values + row * output->width, isnull ? (Datum) 0 : value,
						output->width);
	}
}

static bool
is_true(const GjBatchColumn *column, int row)
{
	return (column->nulls == NULL || column->nulls[row] == 0) && column->values[row] != 0;
}
