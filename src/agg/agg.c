/*-------------------------------------------------------------------------
 *
 * agg.c
 *	  GpuAgg, an executor node: groups and aggregates of its child's rows.
 *
 * All rows are read as batches (reader.c) into groups (groups.c) before the first group is
 * returned.  Rows of groups that do not fit in memory are spilled, and grouped after the groups in
 * memory have been returned, so that a caller that stops early does not wait for them.
 *
 * HAVING and the target list are evaluated on the scan tuple, which has the group columns, the
 * aggregates, and the other columns that are used, with the values of the group's first row.
 *
 * A partial GpuAgg runs in each process of a parallel plan, for the rows that its child returns
 * there, and returns transition states.  The PostgreSQL node above combines groups anyway, so
 * each group need not be returned in one piece: if the groups take too much memory, they are
 * returned, and the remaining rows form new ones.
 *
 * ExecScan() is not used: within EvalPlanQual it would take this node, which scans no table, for
 * a join, and ask to recheck a row that does not exist.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/tupmacs.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "optimizer/optimizer.h"
#include "storage/spin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/uuid.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "base/region.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "node/aggplan.h"
#include "service/service.h"
#include "agg.h"

typedef struct GjAggStats
{
	GjGroupsStats groups;
	GjReaderStats reader;
	uint64		flushes;		/* number of times that partial groups were returned before all
								 * rows were read */
} GjAggStats;

/* In the plan's shared memory */
typedef struct GjAggShare GjAggShare;

/* A batch column that is loaded into the slot of expressions */
typedef struct ComputeInput
{
	int			at;				/* position in the slot, from 0 */
	int			column;
} ComputeInput;

typedef struct ComputeOutput
{
	ExprState  *expr;
	int			condition;		/* column that must be true; -1: none */
	uint16		width;
	char	   *values;			/* buffer for one batch */
	uint8	   *nulls;
} ComputeOutput;

/* Columns computed from the columns of a batch */
typedef struct GjCompute
{
	ExprContext *econtext;
	TupleTableSlot *slot;
	int			ninputs;
	ComputeInput *inputs;
	int			ncolumns;		/* number of columns of the input batch */
	int			noutputs;
	ComputeOutput *outputs;
	GjBatch		batch;
} GjCompute;

/* A column of the node's row, and the columns of the groups from which it is made */
typedef struct MadeColumn
{
	int			column;
	int			second;			/* of two words; 0: there is one */
	int			form;			/* of a numeric or bpchar; 0: none */
	GjColumnPart part;			/* of a group column: part that the first one is */
	uint8		display_scale;	/* of a numeric */
	uint8		stored_scale;
} MadeColumn;

typedef struct GjAggState
{
	CustomScanState css;		/* must be first */
	PlanState  *child;
	GjReader   *reader;
	GjStrays   *strays;			/* numerics in the batches that have no word */
	GjCompute  *compute;		/* columns computed for each row, or NULL */
	GjGroups   *groups;			/* NULL in EXPLAIN without ANALYZE */
	GjAggReducer *reducer;		/* NULL if no device can compute the aggregates, or none was ready
								 * when the node began */
	bool		filled;			/* are the groups of this pass complete? */
	bool		begun;			/* has GjGroupsBegin() been called? */
	bool		is_plain;		/* does the result consist of the groups' columns alone? */
	bool		is_bare;		/* is the slot's row the result, without any computation? */
	int			nahead;			/* if so: number of groups whose arrays follow those of the slot */
	bool		is_counted;		/* some groups have only been counted: see count_groups() */
	uint64		ncounted;		/* number of such groups, in all executions */
	GjReaderStats reader_stats;
	GjRowBatch	batch;			/* groups returned to a batch consumer */
	GjBatchColumn *arrays;		/* their columns, or NULL until they are needed */
	GjBatchColumn *seconds;		/* second words of those that are uuids */

	List	   *coded;			/* integer list: columns of the node's row that hold codes */

	/* Columns of the node's row that are made of two columns of the groups: see show_made() */
	bool		is_made;		/* is any column made of two? */
	bool		has_strays;		/* may any have values without a word? */
	int			ncolumns;		/* group columns, aggregates and columns of one row */
	MadeColumn *columns;
	char	   *made;			/* the node's current row: GJ_RESTORED_BYTES a column */

	bool		ended;			/* have all rows been read? */

	/* Used only if partial */
	bool		is_partial;
	uint64		flushes;
	GjAggShare *share;			/* NULL if no parallel plan is running */
	GjAggStats	workers;		/* sum of the workers' statistics */
} GjAggState;

struct GjAggShare
{
	slock_t		mutex;
	GjAggStats	stats;			/* sum of the workers' statistics not yet added to the leader's */
};

static Node *agg_create_state(CustomScan *plan);
static Node *create_partial_state(CustomScan *plan);
static void begin_agg(CustomScanState *node, EState *estate, int eflags);
static void check_permissions(const CustomScan *plan);
static void create_groups(GjAggState *agg, CustomScan *plan, EState *estate);
static GjStrayKind *encode_columns(GjAggState *agg, CustomScan *plan);
static GjValueType column_type(CustomScan *plan, int column);
static TupleTableSlot *exec_agg(CustomScanState *node);
static TupleTableSlot *next_ahead(GjAggState *agg);
static bool next_group(GjAggState *agg);
static inline void show_group(TupleTableSlot *slot);
static void map_groups(GjAggState *agg, CustomScan *plan);
static inline bool agg_is_pair(const GjAggState *agg, int column);
static void show_made(GjAggState *agg, TupleTableSlot *slot, const Datum *values,
					  const bool *isnull);
static int	agg_count_keys(const CustomScan *plan);
static Datum make_value(GjAggState *agg, const MadeColumn *made, const Datum *values,
						char *buffer);
static Datum pad(Datum value, int length);
static int	item_of(const CustomScan *plan, int column);
static GjStrayKind strays_of(int item);
static void decode_columns(GjAggState *agg, TupleTableSlot *slot);
static bool agg_input_is_plain(List *target);
static GjRowBatch *agg_next_batch(PlanState *node, bool want_partners);
static bool count_groups(PlanState *node, GjReduceRequest *request);
static void next_count(PlanState *node, GjReduceRequest *request);
static void load_batch(GjAggState *agg);
static void load_seconds(GjAggState *agg, GjBatchColumn *array, int column, int nrows);
static void create_arrays(GjAggState *agg);
static GjBatchColumn create_array(MemoryContext context, uint16 width);
static void agg_fill(GjAggState *agg);
static uint64 begin_groups(GjAggState *agg, bool only_count);
static bool next_pass(GjAggState *agg);
static void rescan_agg(CustomScanState *node);
static void end_agg(CustomScanState *node);
static void explain_agg(CustomScanState *node, List *ancestors, ExplainState *es);
static void *agg_get_private(const CustomScan *plan, GjAggPrivate item);
static void add_stats(GjAggStats *to, const GjAggStats *from);
static Size agg_estimate_share(CustomScanState *node, ParallelContext *pcxt);
static void agg_init_share(CustomScanState *node, ParallelContext *pcxt, void *area);
static void agg_reset_share(CustomScanState *node, ParallelContext *pcxt, void *area);
static void agg_attach_share(CustomScanState *node, shm_toc *toc, void *area);
static void agg_shutdown(CustomScanState *node);
static GjAggStats agg_get_stats(const GjAggState *agg);
static GjCompute *compute_create(ScanState *node, List *types, List *conditions, List *inputs);
static const GjBatch *compute_columns(GjCompute *compute, const GjBatch *batch);
static void create_slot(GjCompute *compute, ScanState *node);
static void list_inputs(GjCompute *compute, List *exprs, List *inputs);
static void create_outputs(GjCompute *compute, ScanState *node, List *types, List *conditions);
static void load_row(GjCompute *compute, int row);
static void compute_row(GjCompute *compute, int row);
static bool is_true(const GjBatchColumn *column, int row);

static CustomScanMethods plan_methods = {
	.CustomName = GJ_AGG_NAME,
	.CreateCustomScanState = agg_create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = GJ_AGG_NAME,
	.BeginCustomScan = begin_agg,
	.ExecCustomScan = exec_agg,
	.EndCustomScan = end_agg,
	.ReScanCustomScan = rescan_agg,
	.ExplainCustomScan = explain_agg,
};

static CustomScanMethods partial_plan_methods = {
	.CustomName = GJ_PARTIAL_AGG_NAME,
	.CreateCustomScanState = create_partial_state,
};

static const CustomExecMethods partial_exec_methods = {
	.CustomName = GJ_PARTIAL_AGG_NAME,
	.BeginCustomScan = begin_agg,
	.ExecCustomScan = exec_agg,
	.EndCustomScan = end_agg,
	.ReScanCustomScan = rescan_agg,
	.EstimateDSMCustomScan = agg_estimate_share,
	.InitializeDSMCustomScan = agg_init_share,
	.ReInitializeDSMCustomScan = agg_reset_share,
	.InitializeWorkerCustomScan = agg_attach_share,
	.ShutdownCustomScan = agg_shutdown,
	.ExplainCustomScan = explain_agg,
};

static const GjRowMethods row_methods = {
	.next_batch = agg_next_batch,
	.reduce = count_groups,
	.next_states = next_count,
};

void
GjExecAggInit(void)
{
	GjNodeRegister(&plan_methods, &row_methods);
	GjNodeRegister(&partial_plan_methods, NULL);
}

static Node *
agg_create_state(CustomScan *plan)
{
	GjAggState *agg = (GjAggState *) newNode(sizeof(GjAggState), T_CustomScanState);

	agg->css.methods = &exec_methods;
	return (Node *) agg;
}

static Node *
create_partial_state(CustomScan *plan)
{
	GjAggState *agg = (GjAggState *) agg_create_state(plan);

	agg->css.methods = &partial_exec_methods;
	agg->is_partial = true;
	return (Node *) agg;
}

static void
begin_agg(CustomScanState *node, EState *estate, int eflags)
{
	GjAggState *agg = (GjAggState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	check_permissions(plan);
	/* the child is only read forwards */
	eflags &= ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	agg->child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	node->custom_ps = list_make1(agg->child);
	node->ss.ps.ps_ExprContext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	GjKeepFreedMemory();
	agg->strays = GjStraysCreate(estate->es_query_cxt);
	agg->reader = GjReaderCreate(agg->child, agg_get_private(plan, GJ_AGG_COLUMNS),
								 agg_get_private(plan, GJ_AGG_TYPES),
								 agg_get_private(plan, GJ_AGG_GROUPINGS), agg->strays,
								 &agg->reader_stats);
	if (plan->custom_exprs != NIL)
		agg->compute = compute_create(&node->ss, agg_get_private(plan, GJ_AGG_TYPES),
									  agg_get_private(plan, GJ_AGG_CONDITIONS),
									  agg_get_private(plan, GJ_AGG_INPUTS));
	memset(node->ss.ss_ScanTupleSlot->tts_isnull, true,
		   node->ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts);
	create_groups(agg, plan, estate);
	map_groups(agg, plan);
	agg->is_plain = agg->coded == NIL && !agg->has_strays &&
		agg_input_is_plain(plan->scan.plan.targetlist);
	agg->is_bare = node->ss.ps.qual == NULL && node->ss.ps.ps_ProjInfo == NULL &&
		agg->coded == NIL && !agg->is_made;
}

/*
 * Check that the user may execute the aggregate functions.  PostgreSQL's own node checks this at
 * startup, for EXPLAIN as well.
 */
static void
check_permissions(const CustomScan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->custom_scan_tlist)
	{
		const Aggref *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;
		AclResult	result;

		if (!IsA(aggref, Aggref))
			continue;
		result = GjCheckMayExecute(aggref->aggfnoid);
		if (result != ACLCHECK_OK)
			aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggref->aggfnoid));
		InvokeFunctionExecuteHook(aggref->aggfnoid);
	}
}

static void
create_groups(GjAggState *agg, CustomScan *plan, EState *estate)
{
	List	   *groupings = agg_get_private(plan, GJ_AGG_GROUPINGS);
	List	   *aggregates = agg_get_private(plan, GJ_AGG_AGGREGATES);
	int			naggs = list_length(aggregates) / 3;
	GjGroupSpec *group_specs = palloc0_array(GjGroupSpec, list_length(groupings));
	GjAggSpec  *agg_specs = palloc0_array(GjAggSpec, naggs);
	GjStrayKind *kinds = encode_columns(agg, plan);
	ListCell   *lc;

	foreach(lc, groupings)
		group_specs[foreach_current_index(lc)] = (GjGroupSpec) {
			.type = column_type(plan, lfirst_int(lc)),.column = lfirst_int(lc),
			.stray_kind = kinds[lfirst_int(lc)],.strays = agg->strays
		};
	for (int i = 0; i < naggs; i++)
	{
		int			column = list_nth_int(aggregates, 3 * i + 1);

		agg_specs[i] = (GjAggSpec) {
			.kind = list_nth_int(aggregates, 3 * i),.column = column,
			.filter = list_nth_int(aggregates, 3 * i + 2),
			.type = column < 0 ? GJ_VALUE_BOOL : column_type(plan, column),
			.strays = agg->strays
		};
		if (column >= 0)
		{
			int			item = list_nth_int(agg_get_private(plan, GJ_AGG_TYPES), column);

			agg_specs[i].display_scale = GJ_DISPLAY_SCALE_OF(item);
			agg_specs[i].stored_scale = GJ_STORED_SCALE_OF(item);
			agg_specs[i].stray_kind = kinds[column];
			agg_specs[i].restore = GjTextOfWords;
		}
	}
	agg->groups = GjGroupsCreate(estate->es_query_cxt, get_hash_memory_limit(), agg->is_partial,
								 list_length(groupings), group_specs, naggs, agg_specs);
	GjGroupsExpect(agg->groups, intVal(agg_get_private(plan, GJ_AGG_EXPECTED)));
	if (!agg->is_partial && gj_device_aggregate && GjServiceReady(NULL))
		agg->reducer = GjAggReducerCreate(list_length(agg_get_private(plan, GJ_AGG_COLUMNS)),
										  list_length(groupings), group_specs, naggs, agg_specs,
										  intVal(agg_get_private(plan, GJ_AGG_EXPECTED)));
}

/*
 * Have columns of the small side encoded whose values have no words.  Returns for each column of
 * the batches which values without a word it may have.
 */
static GjStrayKind *
encode_columns(GjAggState *agg, CustomScan *plan)
{
	List	   *types = agg_get_private(plan, GJ_AGG_TYPES);
	List	   *inputs = agg_get_private(plan, GJ_AGG_INPUTS);
	GjStrayKind *kinds = palloc_array(GjStrayKind, list_length(types));
	ListCell   *lc;

	foreach(lc, types)
		kinds[foreach_current_index(lc)] = strays_of(lfirst_int(lc));
	agg->coded = agg_get_private(plan, GJ_AGG_CODED);
	foreach(lc, agg->coded)
	{
		int			column = list_nth_int(inputs, lfirst_int(lc));

		kinds[column] = GjReaderEncode(agg->reader, column, lfirst_int(lc) >= agg_count_keys(plan));
	}
	return kinds;
}

static GjValueType
column_type(CustomScan *plan, int column)
{
	return GJ_TYPE_OF(list_nth_int(agg_get_private(plan, GJ_AGG_TYPES), column));
}

static TupleTableSlot *
exec_agg(CustomScanState *node)
{
	GjAggState *agg = (GjAggState *) node;
	PlanState  *ps = &node->ss.ps;

	if (agg->nahead > 0)
		return next_ahead(agg);
	while (next_group(agg))
	{
		if (!ExecQual(ps->qual, ps->ps_ExprContext))
			InstrCountFiltered1(ps, 1);
		else if (ps->ps_ProjInfo != NULL)
			return ExecProject(ps->ps_ProjInfo);
		else
			return node->ss.ss_ScanTupleSlot;
	}
	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	if (ps->ps_ResultTupleSlot != NULL)
		return ExecClearTuple(ps->ps_ResultTupleSlot);
	return NULL;
}

/*
 * Show the group whose arrays follow those of the slot.  Nothing has been allocated for these.
 */
static TupleTableSlot *
next_ahead(GjAggState *agg)
{
	TupleTableSlot *slot = agg->css.ss.ss_ScanTupleSlot;

	CHECK_FOR_INTERRUPTS();
	agg->nahead--;
	GjGroupsSkip(agg->groups, 1);
	slot->tts_values += agg->ncolumns;
	slot->tts_isnull += agg->ncolumns;
	show_group(slot);
	return slot;
}

/*
 * Show the next group in the scan slot.  By-reference results remain valid until the next call.
 */
static bool
next_group(GjAggState *agg)
{
	ExprContext *econtext = agg->css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = agg->css.ss.ss_ScanTupleSlot;
	MemoryContext old_context;
	Datum	   *values;
	bool	   *isnull;
	int			found;

	CHECK_FOR_INTERRUPTS();
	ResetExprContext(econtext);
	do
	{
		if (!agg->filled)
			agg_fill(agg);
		old_context = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		found = GjGroupsNext(agg->groups, &values, &isnull);
		MemoryContextSwitchTo(old_context);
	} while (found == 0 && next_pass(agg));
	if (found == 0)
		return false;
	agg->nahead = agg->is_bare ? found - 1 : 0;
	if (agg->is_made)
		show_made(agg, slot, values, isnull);
	else
	{
		slot->tts_values = values;
		slot->tts_isnull = isnull;
	}
	if (agg->coded != NIL)
		decode_columns(agg, slot);
	show_group(slot);
	return true;
}

/*
 * Mark the slot as filled.  GjGroupsNext() has already set the slot's arrays, so it must be
 * cleared and stored only if it was cleared, or owns memory because it was materialized.
 */
static inline void
show_group(TupleTableSlot *slot)
{
	if (!TTS_EMPTY(slot) && !TTS_SHOULDFREE(slot))
		return;
	ExecClearTuple(slot);
	ExecStoreVirtualTuple(slot);
}

/*
 * Find the columns of the groups from which those of the node's row are made
 */
static void
map_groups(GjAggState *agg, CustomScan *plan)
{
	int			nkeys = agg_count_keys(plan);
	int			form = list_length(agg_get_private(plan, GJ_AGG_GROUPINGS));
	int			column = 0;

	agg->ncolumns = intVal(agg_get_private(plan, GJ_AGG_COLUMNS_MADE));
	agg->columns = palloc0_array(MadeColumn, agg->ncolumns);
	for (int i = 0; i < agg->ncolumns; i++)
	{
		MadeColumn *made = &agg->columns[i];
		int			item = item_of(plan, column);

		made->column = column++;
		made->part = GJ_PART_OF(item);
		made->display_scale = GJ_DISPLAY_SCALE_OF(item);
		made->stored_scale = GJ_STORED_SCALE_OF(item);
		if (made->part == GJ_NUMERIC_KEY || made->part == GJ_BPCHAR_FIRST)
			made->form = form++;
		if (made->part != GJ_WHOLE && made->part != GJ_NUMERIC_KEY)
			made->second = column++;
		agg->is_made |= made->part != GJ_WHOLE;
		agg->has_strays |= strays_of(item) != GJ_STRAY_NONE;
		if (i == nkeys - 1)
			column = form;
	}
	if (agg->is_made)
		agg->made = palloc(agg->ncolumns * GJ_RESTORED_BYTES);
}

/*
 * Return the item, in the list of types, of a column of the groups that has a column's values; 0
 * for an aggregate
 */
static int
item_of(const CustomScan *plan, int column)
{
	List	   *groupings = agg_get_private(plan, GJ_AGG_GROUPINGS);
	List	   *aggregates = agg_get_private(plan, GJ_AGG_AGGREGATES);
	int			agg = column - list_length(groupings);

	if (agg >= 0 && list_nth_int(aggregates, 3 * agg) != GJ_AGG_ONE_ROW)
		return 0;
	return list_nth_int(agg_get_private(plan, GJ_AGG_TYPES),
						agg < 0 ? list_nth_int(groupings, column) :
						list_nth_int(aggregates, 3 * agg + 1));
}

/*
 * Return the kind of values without a word that a column of a batch may have
 */
static GjStrayKind
strays_of(int item)
{
	if (GJ_TYPE_OF(item) == GJ_VALUE_NUMERIC || GJ_PART_OF(item) == GJ_NUMERIC_KEY)
		return GJ_STRAY_NUMERIC;
	return GJ_PART_OF(item) == GJ_TEXT_FIRST ? GJ_STRAY_TEXT :
		GJ_PART_OF(item) == GJ_BPCHAR_FIRST ? GJ_STRAY_BPCHAR : GJ_STRAY_NONE;
}

/*
 * Return the number of group columns of the node's row.  A value of two words is one column there.
 */
static int
agg_count_keys(const CustomScan *plan)
{
	int			ngroupings = list_length(agg_get_private(plan, GJ_AGG_GROUPINGS));
	int			n = 0;

	for (int i = 0; i < ngroupings; i++)
	{
		GjColumnPart part = GJ_PART_OF(item_of(plan, i));

		n += part != GJ_UUID_SECOND && part != GJ_TEXT_SECOND && part != GJ_BPCHAR_SECOND;
	}
	return n;
}

/*
 * Return true if a column of the node's row is made of two words
 */
static inline bool
agg_is_pair(const GjAggState *agg, int column)
{
	return agg->columns[column].second != 0;
}

/*
 * Copy a group, some of whose columns are made of two, to the slot
 */
static void
show_made(GjAggState *agg, TupleTableSlot *slot, const Datum *values, const bool *isnull)
{
	for (int i = 0; i < agg->ncolumns; i++)
	{
		const MadeColumn *made = &agg->columns[i];

		slot->tts_isnull[i] = isnull[made->column];
		slot->tts_values[i] = values[made->column];
		if (made->part != GJ_WHOLE && !isnull[made->column])
			slot->tts_values[i] = make_value(agg, made, values, agg->made + i * GJ_RESTORED_BYTES);
	}
}

static Datum
make_value(GjAggState *agg, const MadeColumn *made, const Datum *values, char *buffer)
{
	MemoryContext old = MemoryContextSwitchTo(agg->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	int64		first = DatumGetInt64(values[made->column]);
	int64		second = DatumGetInt64(values[made->second]);
	Datum		value = PointerGetDatum(buffer);

	switch (made->part)
	{
		case GJ_UUID_FIRST:
			GjUuidOfWords(first, second, buffer);
			break;
		case GJ_TEXT_FIRST:
			value = GjStraysText(agg->strays, first, second, GjTextOfWords, buffer);
			break;
		case GJ_BPCHAR_FIRST:
			value = GjStraysText(agg->strays, first, second | GJ_TEXT_BYTES, GjBpcharOfWords,
								 buffer);
			value = pad(value, DatumGetInt32(values[made->form]));
			break;
		default:
			value = GjStraysNumeric(agg->strays, first, made->display_scale, made->stored_scale,
									DatumGetInt32(values[made->form]));
			break;
	}
	MemoryContextSwitchTo(old);
	return value;
}

/*
 * Return a bpchar with as many trailing blanks as it takes to have this length
 */
static Datum
pad(Datum value, int length)
{
	struct varlena *from = (struct varlena *) DatumGetPointer(value);
	struct varlena *to = palloc(VARHDRSZ + length);

	SET_VARSIZE(to, VARHDRSZ + length);
	memset(VARDATA(to), ' ', length);
	memcpy(VARDATA(to), VARDATA_ANY(from),
		   Min(bpchartruelen(VARDATA_ANY(from), VARSIZE_ANY_EXHDR(from)), length));
	return PointerGetDatum(to);
}

static void
decode_columns(GjAggState *agg, TupleTableSlot *slot)
{
	ListCell   *lc;

	foreach(lc, agg->coded)
	{
		int			at = lfirst_int(lc);

		if (!slot->tts_isnull[at])
			slot->tts_values[at] = GjStraysText(agg->strays, DatumGetInt64(slot->tts_values[at]),
												0, NULL, NULL);
	}
}

/*
 * Method of GjRowMethods.  Groups pass through the executor if it filters them or computes
 * something.
 */
static GjRowBatch *
agg_next_batch(PlanState *node, bool want_partners)
{
	GjAggState *agg = (GjAggState *) castNode(CustomScanState, node);

	if (agg->batch.next < agg->batch.nrows)
		return &agg->batch;
	if (node->qual != NULL || !agg->is_plain)
		return NULL;
	if (!agg->filled)
		agg_fill(agg);
	do
	{
		if (GjGroupsRemaining(agg->groups) > 0)
		{
			load_batch(agg);
			return &agg->batch;
		}
	} while (GjGroupsNextPass(agg->groups));
	return NULL;
}

/*
 * Method of GjRowMethods: have a device count groups, without making them; the node then returns
 * only the others.  Returns false if the caller needs more than the number, or if the device has
 * counted none.
 */
static bool
count_groups(PlanState *node, GjReduceRequest *request)
{
	GjAggState *agg = (GjAggState *) castNode(CustomScanState, node);
	CustomScan *plan = (CustomScan *) node->plan;
	GjReduction *reduction = &request->reduction;
	uint64		ncounted;

	if (request->ngroups > 0 || request->naggs > 0 || request->distinct || request->by_partner ||
		node->qual != NULL || !agg->is_plain || agg->begun || agg->reducer == NULL ||
		agg_get_private(plan, GJ_AGG_GROUPINGS) == NIL ||
		agg_get_private(plan, GJ_AGG_AGGREGATES) != NIL)
		return false;
	ncounted = begin_groups(agg, true);
	if (!agg->is_counted)
		return false;
	agg->ncounted += ncounted;
	reduction->nelements = 1;
	reduction->element_words = GJD_GROUP_WORDS;
	reduction->room = GJD_GROUP_WORDS * sizeof(uint64);
	reduction->words = MemoryContextAllocZero(reduction->context, reduction->room);
	reduction->words[GJD_GROUP_WORDS - 1] = ncounted;
	request->words[0] = GJD_GROUP_WORDS;
	return true;
}

static void
next_count(PlanState *node, GjReduceRequest *request)
{
	GjReduceNext(request);
}

/*
 * Copy the next groups into arrays, one for each column of the result that is passed by value
 */
static void
load_batch(GjAggState *agg)
{
	List	   *target = agg->css.ss.ps.plan->targetlist;
	int			nrows = (int) Min(GjGroupsRemaining(agg->groups), GJ_BATCH_ROWS);
	ListCell   *lc;

	agg->nahead = 0;
	if (agg->arrays == NULL)
		create_arrays(agg);
	foreach(lc, target)
	{
		GjBatchColumn *array = &agg->arrays[foreach_current_index(lc)];
		int			column = ((Var *) lfirst_node(TargetEntry, lc)->expr)->varattno - 1;
		char	   *values = unconstify(char *, array->values);
		uint8	   *nulls = unconstify(uint8 *, array->nulls);

		if (values == NULL)
			continue;
		if (agg_is_pair(agg, column))
			load_seconds(agg, &agg->seconds[foreach_current_index(lc)], column, nrows);
		for (int row = 0; row < nrows; row++)
		{
			bool		isnull;
			Datum		value = GjGroupsValue(agg->groups, row, agg->columns[column].column,
											  &isnull);

			nulls[row] = isnull;
			store_att_byval(values + row * array->width, isnull ? (Datum) 0 : value,
							array->width);
		}
	}
	GjGroupsSkip(agg->groups, nrows);
	agg->batch = (GjRowBatch) {.nrows = nrows,.arrays = agg->arrays,.seconds = agg->seconds};
}

/*
 * Copy the second words of the next groups' uuids
 */
static void
load_seconds(GjAggState *agg, GjBatchColumn *array, int column, int nrows)
{
	for (int row = 0; row < nrows; row++)
	{
		bool		isnull;
		Datum		value = GjGroupsValue(agg->groups, row, agg->columns[column].second, &isnull);

		unconstify(int64 *, (const int64 *) array->values)[row] = DatumGetInt64(value);
		unconstify(uint8 *, array->nulls)[row] = isnull;
	}
}

static void
create_arrays(GjAggState *agg)
{
	MemoryContext context = agg->css.ss.ps.state->es_query_cxt;
	TupleDesc	desc = ExecGetResultType(&agg->css.ss.ps);
	List	   *target = agg->css.ss.ps.plan->targetlist;

	agg->arrays = MemoryContextAllocZero(context, desc->natts * sizeof(GjBatchColumn));
	agg->seconds = MemoryContextAllocZero(context, desc->natts * sizeof(GjBatchColumn));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attbyval)
			agg->arrays[i] = create_array(context, att->attlen);
		else if (agg_is_pair(agg,
							 ((Var *) list_nth_node(TargetEntry, target, i)->expr)->varattno - 1))
		{
			agg->arrays[i] = create_array(context, sizeof(int64));
			agg->seconds[i] = create_array(context, sizeof(int64));
		}
	}
}

static GjBatchColumn
create_array(MemoryContext context, uint16 width)
{
	return (GjBatchColumn) {
		.values = MemoryContextAlloc(context, GJ_BATCH_ROWS * width),
		.nulls = MemoryContextAlloc(context, GJ_BATCH_ROWS),
		.width = width
	};
}

/*
 * Return true if the result consists of the node's columns without any computation
 */
static bool
agg_input_is_plain(List *target)
{
	ListCell   *lc;

	foreach(lc, target)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(var, Var) || var->varno != INDEX_VAR)
			return false;
	}
	return true;
}

static void
agg_fill(GjAggState *agg)
{
	if (!agg->begun)
		(void) begin_groups(agg, false);
	while (!agg->ended && (!agg->is_partial || GjGroupsMakeRoom(agg->groups)))
	{
		const GjBatch *batch = GjReaderNext(agg->reader);

		CHECK_FOR_INTERRUPTS();
		agg->ended = batch == NULL || batch->is_last;
		if (batch != NULL)
			GjGroupsAdd(agg->groups, agg->compute != NULL ?
						compute_columns(agg->compute, batch) : batch);
	}
	GjGroupsFinish(agg->groups);
	agg->filled = true;
}

/*
 * Begin to collect rows, with those that a device can reduce.  Returns the number of groups that
 * have only been counted (GjAggReduce).
 */
static uint64
begin_groups(GjAggState *agg, bool only_count)
{
	MemoryContext old = MemoryContextSwitchTo(agg->css.ss.ps.state->es_query_cxt);
	uint64		ncounted = 0;

	GjReaderRestart(agg->reader);
	GjGroupsBegin(agg->groups);
	agg->begun = true;
	if (agg->reducer != NULL)
		ncounted = GjAggReduce(agg->reducer, agg->reader, agg->groups, only_count);
	agg->is_counted = ncounted > 0;
	MemoryContextSwitchTo(old);
	return ncounted;
}

/*
 * Build the groups of spilled rows, or, if partial, continue with the remaining rows.  Returns
 * false if there is nothing left.
 */
static bool
next_pass(GjAggState *agg)
{
	if (GjGroupsNextPass(agg->groups))
		return true;
	if (!agg->is_partial || agg->ended)
		return false;
	agg->flushes++;
	agg->begun = agg->filled = false;
	return true;
}

/*
 * Rescan: return the same groups again if the child's rows are the same, no computed column can
 * have changed, and all groups are still there.  The rows of a partial node are different ones
 * whenever processes divide them again.
 */
static void
rescan_agg(CustomScanState *node)
{
	GjAggState *agg = (GjAggState *) node;

	agg->batch.nrows = agg->batch.next = agg->nahead = 0;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(agg->child, node->ss.ps.chgParam);
	if (!agg->begun)
		return;
	if (agg->child->chgParam == NULL)
	{
		if (agg->filled && !agg->is_partial && !agg->is_counted &&
			node->ss.ps.state->es_epq_active == NULL &&
			(agg->compute == NULL || node->ss.ps.chgParam == NULL) &&
			GjGroupsRewind(agg->groups))
			return;
		ExecReScan(agg->child);
	}
	agg->begun = agg->filled = agg->ended = agg->is_counted = false;
}

static void
end_agg(CustomScanState *node)
{
	GjAggState *agg = (GjAggState *) node;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	if (agg->groups != NULL)
	{
		GjCountGroups(agg->child, GjGroupsGetStats(agg->groups)->groups + agg->ncounted);
		GjGroupsFree(agg->groups);
	}
	ExecEndNode(agg->child);
}

static void
explain_agg(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjAggState *agg = (GjAggState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	int			nkeys = agg_count_keys(plan);
	GjAggReport report = {.is_partial = agg->is_partial};

	for (int i = 0; i < nkeys; i++)
		report.group_keys = lappend(report.group_keys,
									list_nth_node(TargetEntry, plan->custom_scan_tlist, i)->expr);
	if (agg->groups != NULL)
	{
		GjAggStats	stats = agg_get_stats(agg);

		report.has_counters = true;
		report.groups = stats.groups.groups + agg->ncounted;
		report.batches = stats.reader.batches;
		report.array_rows = stats.reader.array_rows;
		report.slot_rows = stats.reader.slot_rows;
		report.passes = stats.groups.passes;
		report.flushes = stats.flushes;
		report.peak_memory = stats.groups.peak_memory;
		report.disk_size = stats.groups.disk_size;
	}
	GjExplainAgg(node, ancestors, es, &report);
}

static void *
agg_get_private(const CustomScan *plan, GjAggPrivate item)
{
	Assert(list_length(plan->custom_private) == GJ_AGG_PRIVATE_COUNT);
	return list_nth(plan->custom_private, item);
}

/*-------------------------------------------------------------------------
 * Counters of processes
 *
 * EXPLAIN shows the sum of the counters of all processes of a parallel GpuAgg.
 *
 * Nothing else is shared: each process groups the rows that its child returns.  A worker adds its
 * counters when its node is shut down, before the end of its rows; the leader collects them when
 * its own node is shut down.
 *-------------------------------------------------------------------------
 */

static Size
agg_estimate_share(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(GjAggShare);
}

static void
agg_init_share(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjAggShare *share = area;

	memset(share, 0, sizeof(GjAggShare));
	SpinLockInit(&share->mutex);
	agg_attach_share(node, pcxt->toc, area);
}

/*
 * Prepare for another execution, keeping the counters
 */
static void
agg_reset_share(CustomScanState *node, ParallelContext *pcxt, void *area)
{
}

static void
agg_attach_share(CustomScanState *node, shm_toc *toc, void *area)
{
	((GjAggState *) node)->share = area;
}

/*
 * Collect or hand over the counters, because the shared memory may go away
 */
static void
agg_shutdown(CustomScanState *node)
{
	GjAggState *agg = (GjAggState *) node;
	GjAggShare *share = agg->share;
	GjAggStats	own;

	if (share == NULL)
		return;
	own = agg_get_stats(agg);
	SpinLockAcquire(&share->mutex);
	if (IsParallelWorker())
		add_stats(&share->stats, &own);
	else
	{
		add_stats(&agg->workers, &share->stats);
		memset(&share->stats, 0, sizeof(GjAggStats));
	}
	SpinLockRelease(&share->mutex);
	agg->share = NULL;
}

/*
 * Return the statistics of this process, and in the leader also those of its workers
 */
static GjAggStats
agg_get_stats(const GjAggState *agg)
{
	GjAggStats	stats = {
		.groups = *GjGroupsGetStats(agg->groups),
		.reader = agg->reader_stats,
		.flushes = agg->flushes,
	};

	add_stats(&stats, &agg->workers);
	return stats;
}

static void
add_stats(GjAggStats *to, const GjAggStats *from)
{
	to->groups.rows += from->groups.rows;
	to->groups.groups += from->groups.groups;
	to->groups.passes += from->groups.passes;
	to->groups.disk_size += from->groups.disk_size;
	to->groups.peak_memory = Max(to->groups.peak_memory, from->groups.peak_memory);
	to->reader.batches += from->reader.batches;
	to->reader.array_rows += from->reader.array_rows;
	to->reader.slot_rows += from->reader.slot_rows;
	to->flushes += from->flushes;
}

/*-------------------------------------------------------------------------
 * Computed columns
 *
 * PostgreSQL evaluates the expressions, so that they have their usual meaning.  For this, each
 * row of a batch is loaded into a slot, but only with the columns that the expressions use.  That
 * costs some 50 ns per row, less than reading the row as a tuple.
 *
 * An aggregate's argument is evaluated only where its FILTER is true, because elsewhere it might
 * fail.
 *-------------------------------------------------------------------------
 */

/*
 * Prepare to compute the node's custom_exprs, which refer to its scan tuple.  The lists are
 * described in aggplan.h.  Allocates in the current memory context.
 */
static GjCompute *
compute_create(ScanState *node, List *types, List *conditions, List *inputs)
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

	compute->inputs = palloc0_array(ComputeInput, list_length(inputs));
	foreach(lc, pull_var_clause((Node *) exprs, 0))
	{
		int			at = lfirst_node(Var, lc)->varattno - 1;
		int			column = list_nth_int(inputs, at);
		bool		is_new = true;

		for (int i = 0; i < compute->ninputs; i++)
			is_new &= compute->inputs[i].at != at;
		if (column < 0)
			elog(ERROR, "batches of GpuAgg lack a column that an expression uses");
		if (is_new)
			compute->inputs[compute->ninputs++] = (ComputeInput) {at, column};
	}
}

static void
create_outputs(GjCompute *compute, ScanState *node, List *types, List *conditions)
{
	List	   *exprs = ((CustomScan *) node->ps.plan)->custom_exprs;
	ListCell   *lc;
	ListCell   *lc2;

	compute->outputs = palloc0_array(ComputeOutput, compute->noutputs);
	compute->batch.columns = palloc0_array(GjBatchColumn, list_length(types));
	forboth(lc, exprs, lc2, conditions)
	{
		int			i = foreach_current_index(lc);
		ComputeOutput *output = &compute->outputs[i];

		output->expr = ExecInitExpr(lfirst(lc), &node->ps);
		output->condition = lfirst_int(lc2);
		output->width = GjValueWidth(GJ_TYPE_OF(list_nth_int(types, compute->ncolumns + i)));
		output->values = palloc(GJ_BATCH_ROWS * output->width);
		output->nulls = palloc(GJ_BATCH_ROWS);
		compute->batch.columns[compute->ncolumns + i] = (GjBatchColumn) {
			.values = output->values,.nulls = output->nulls,.width = output->width
		};
	}
}

/*
 * Return the batch with the computed columns appended.  It is valid until the next call.  May
 * raise any error that the expressions raise.
 */
static const GjBatch *
compute_columns(GjCompute *compute, const GjBatch *batch)
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
		const ComputeInput *input = &compute->inputs[i];
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
		const ComputeOutput *output = &compute->outputs[i];
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
