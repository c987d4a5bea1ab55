/*-------------------------------------------------------------------------
 *
 * small.c
 *	  The small side of a GpuJoin: its rows, collected once and returned in batches that fit in
 *	  memory, each with a hash table by key.
 *
 * As long as the rows fit in the memory limit, they form a single batch: a hash table maps each key
 * to a chain of rows, and a row is an array of values that can be copied into a joined row.  (A
 * MinimalTuple would be smaller, but would have to be deformed for each pair; a sort needs one
 * anyway, so it is formed only then.)
 *
 * Once the limit is exceeded, the rows collected so far and all later rows go into a sort by key,
 * which spills to disk.  It is then read batch by batch, in key order.  Why this is correct:
 *
 *	- Each row is in exactly one batch, so the marks that the caller has set on it are final
 *	  when its batch ends.
 *	- A batch may end between any two rows, even if they have the same key: a big row then
 *	  meets them in two batches, and the pairs are the same.  If a big row must be returned
 *	  only once (whole_keys), batches end only between keys, and the rows of one key are
 *	  limited by memory alone.  With one_per_key they are a single row.
 *	- No row is evaluated twice: volatile functions below the join run once.
 *
 * If a row's key has parts, its chain is that of the rows with the same key and parts, which an
 * exact table finds (sets/exact.c).  Parts are columns of the row, so a sort by the key alone is
 * enough: a batch that has all rows of a key has all rows of each of its tuples.  A row with a NULL
 * part matches nothing, as if its key were NULL.
 *
 * If the big side's key is cast, the value is converted to the keys that are cast to it
 * (match/values.c): usually one or none.  A row that no key equals has no key, like one with a
 * NULL.  A float8 may equal several keys; the row is then collected once for each, so that a big
 * row still meets it once.  The planner offers no join that marks such rows.
 *
 * If keys are hashes, entries do not have the part that proves a key.  But their hash and the other
 * columns can be tested, in another exact table.  That only spares visits to the heap: an entry
 * that it does not list has no partner, because equal keys have equal hashes.
 *
 * If the plan is a scan of unnest(array), where the array is a constant or a parameter, it is not
 * run: its rows are the array's elements, in a copy of the array that the rows point into.
 * EvalPlanQual supplies rows of the plan, so it is run then.
 *
 * Memory: the sort may use work_mem, a batch the limit that the caller passes.  The key set that
 * is built from a batch counts toward that limit as a constant for each key.  The copy of an array
 * does not count.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "base/arrays.h"
#include "base/compat.h"
#include "base/prefetch.h"
#include "join.h"

/* Room for keys at first: for the expected number of rows, between these limits */
#define INITIAL_KEYS			256
#define MOST_INITIAL_KEYS		65536

/* ... whose cells take no more than this part of the memory */
#define INITIAL_PART			16

/* Number of keys that are prefetched at a time */
#define LOOKUP_KEYS				256

/* Number of rows that are linked to their keys at a time, after their cells were prefetched */
#define LINKED_ROWS				32

/* Memory for rows is allocated this many bytes at a time */
#define ROW_BYTES				4096

/* Number of elements of a list that are added together */
#define LIST_ELEMENTS			64

/* Memory of a key set for each key: the array, its sort, the probe structure */
#define KEYSET_BYTES_PER_KEY	48

/* Memory for each key with its parts while entries are tested (sets/exact.c) */
#define TESTS_BYTES_PER_KEY		32

typedef struct SmallSort SmallSort;

/* The row that was read last from a sort; valid until the next row is read */
typedef struct SortedRow
{
	const Datum *values;
	const bool *isnull;
	bool		key_is_null;	/* rows without a key come last */
	int64		key;
} SortedRow;

struct GjSmallSide
{
	MemoryContext context;
	TupleDesc	columns;
	GjSmallPolicy policy;
	Size		memory_limit;
	GjSmallStats *stats;

	/* The batch in memory */
	GjSmallBatch batch;
	MemoryContext batch_context;	/* holds the hash table, and row_context */
	MemoryContext row_context;	/* holds the rows and their data */
	char	   *room;			/* memory for the next rows, */
	Size		room_size;		/* and its size */
	GjKeyMap   *firsts_of_keys; /* of each key, the first row; not used if keys have parts, but
									 * batch.tuples and firsts */
	GjSmallRow **firsts;		/* of each element of batch.tuples, the first row */
	uint32		nfirsts;		/* allocated length of firsts */
	GjSmallRow *last;
	GjSmallRow *unlinked[LINKED_ROWS];	/* rows that firsts_of_keys will have, */
	int64		unlinked_keys[LINKED_ROWS]; /* and their keys */
	int			nunlinked;
	bool		delivered;		/* has the only batch been returned? */
	uint64		nbatches;		/* number of batches returned in this run */

	/* All rows, once they have exceeded the limit */
	SmallSort  *sort;
	SortedRow	pending;		/* row read last */

	/* Parts of keys */
	int			nparts;
	const GjExactPart *parts;
	GjCodec    *rest;			/* if the first part is the rest of its column; or NULL */
	GjConversion conversion;	/* of that column */
	bool		code_is_hash;	/* are keys hashes of the only part? */
	bool		tests_hashes;	/* are entries tested without the first part? */
	int		   *part_columns;

	bool		has_pending;	/* is it the first row of the next batch? */

	MemoryContext list;			/* holds the array whose elements the rows are */
	bool		borrows;		/* do rows in memory point into it? */
};

/* A list whose elements are being added */
typedef struct PendingList
{
	GjSmallSide *side;
	GjJoinState *state;
	int			nadded;			/* number of elements that are not NULL */
	int			npending;
	Datum		values[LIST_ELEMENTS];
	int64		keys[LIST_ELEMENTS];
} PendingList;

struct SmallSort
{
	MemoryContext context;
	Tuplesortstate *state;
	TupleTableSlot *in;			/* the key, then the columns */
	TupleTableSlot *out;
};

static void run_plan(GjSmallSide *side, GjJoinState *state, PlanState *plan);
static inline bool read_keys(GjJoinState *state, Datum value, int64 *first, int64 *last);
static void run_list(GjSmallSide *side, GjJoinState *state, PlanState *plan);
static void add_list(GjSmallSide *side, GjJoinState *state, ArrayType *array, int n);
static void small_add_element(void *arg, Datum element);
static void add_converted(void *arg, Datum element);
static inline void add_key(PendingList *list, Datum element, int64 key);
static void add_pending(PendingList *list);
static void add_row(GjSmallSide *side, const Datum *values, const bool *isnull, bool key_is_null,
					int64 key);
static void small_start_batch(GjSmallSide *side);
static uint32 initial_keys(const GjSmallSide *side);
static void drop_batch(GjSmallSide *side);
static void add_to_batch(GjSmallSide *side, const Datum *values, const bool *isnull,
						 bool key_is_null, int64 key);
static void link_later(GjSmallSide *side, GjSmallRow *row, int64 key);
static void link_rows(GjSmallSide *side);
static void link_to_chain(GjSmallSide *side, GjSmallRow *row, GjSmallRow *chain);
static GjSmallRow **find_first(GjSmallSide *side, const Datum *values, int64 key);
static void spill_chain(GjSmallSide *side, GjSmallRow *first, int64 key);
static int	look_up_parts(GjSmallSide *side, const GjRowKeys *keys, uint16 *rows,
						  void **partners);
static int	copy_strict(const GjSmallSide *side, const GjRowKeys *keys, uint16 *rows, int64 *words,
						const int64 **codes, const Datum **parts);
static inline bool is_borrowed(const GjSmallSide *side);
static GjSmallRow *copy_row(GjSmallSide *side, const Datum *values, const bool *isnull);
static bool batch_is_full(GjSmallSide *side);
static void small_spill(GjSmallSide *side);
static void spill_batch(GjSmallSide *side);
static bool next_sorted_batch(GjSmallSide *side);
static TupleDesc make_sort_desc(TupleDesc columns);
static SmallSort *sort_begin(MemoryContext parent, TupleDesc columns);
static void sort_put(SmallSort *sort, const Datum *values, const bool *isnull,
					 bool key_is_null, int64 key);
static void sort_finish(SmallSort *sort);
static bool sort_next(SmallSort *sort, SortedRow *row);
static void sort_rewind(SmallSort *sort);
static void sort_end(SmallSort *sort);

/*
 * Create an empty small side for rows with these columns, which updates the statistics
 */
GjSmallSide *
GjSmallCreate(MemoryContext parent, TupleDesc columns, GjSmallPolicy policy,
			  Size memory_limit, GjSmallStats *stats)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin small side",
												  ALLOCSET_DEFAULT_SIZES);
	GjSmallSide *side = MemoryContextAllocZero(context, sizeof(GjSmallSide));

	side->context = context;
	side->columns = columns;
	side->policy = policy;
	side->memory_limit = memory_limit;
	side->stats = stats;
	side->list = AllocSetContextCreate(context, "gpujoin list", ALLOCSET_SMALL_SIZES);
	small_start_batch(side);
	return side;
}

/*
 * Have keys consist of parts, too, which are these columns of rows; if rest is a codec, the first
 * part is the rest of its column, after this conversion.  code_is_hash says that keys are hashes of
 * the only part, tests_hashes that entries are tested by such a hash and all parts but the first.
 * Must be called before rows are added.
 */
void
GjSmallSetParts(GjSmallSide *side, List *columns, const GjExactPart *parts, GjCodec *rest,
				GjConversion conversion, bool code_is_hash, bool tests_hashes)
{
	ListCell   *lc;

	side->parts = parts;
	side->rest = rest;
	side->conversion = conversion;
	side->code_is_hash = code_is_hash;
	side->tests_hashes = tests_hashes;
	side->part_columns = MemoryContextAlloc(side->context, list_length(columns) * sizeof(int));
	foreach(lc, columns)
		side->part_columns[side->nparts++] = lfirst_int(lc);
	drop_batch(side);
	small_start_batch(side);
}

static void
small_start_batch(GjSmallSide *side)
{
	side->batch_context = AllocSetContextCreate(side->context, "gpujoin batch",
												ALLOCSET_DEFAULT_SIZES);
	side->row_context = GenerationContextCreate(side->batch_context, "gpujoin batch rows",
												ALLOCSET_DEFAULT_SIZES);
	side->room_size = 0;
	side->firsts_of_keys = NULL;
	side->batch.tuples = side->batch.entries = NULL;
	side->firsts = NULL;
	side->nfirsts = 0;
	if (side->nparts > 0)
		side->batch.tuples = side->batch.entries =
			GjExactCreate(side->batch_context, side->nparts, side->parts, side->code_is_hash,
						  initial_keys(side));
	else
		side->firsts_of_keys = GjKeyMapCreate(side->batch_context, initial_keys(side));
	if (side->tests_hashes)
		side->batch.entries = GjExactCreate(side->batch_context, side->nparts - 1, side->parts + 1,
											false, initial_keys(side));
	side->batch.first = side->last = NULL;
	side->batch.nrows = 0;
	side->batch.shared_keys = false;
	side->delivered = false;
}

static uint32
initial_keys(const GjSmallSide *side)
{
	Size		most = side->memory_limit / INITIAL_PART / (2 * sizeof(GjKeyCell));
	double		wanted = Min(side->policy.expected, MOST_INITIAL_KEYS);

	return (uint32) Max(Min(wanted, (double) most), INITIAL_KEYS);
}

static void
drop_batch(GjSmallSide *side)
{
	if (side->batch_context != NULL)
		MemoryContextDelete(side->batch_context);
	side->batch_context = NULL;
	side->batch.first = side->last = NULL;
	side->batch.nrows = 0;
	side->nunlinked = 0;
}

/*
 * Run the small side's plan to its end, and add its rows to an empty side
 */
void
GjSmallRun(GjSmallSide *side, GjJoinState *state)
{
	PlanState  *plan = linitial(state->css.custom_ps);

	Assert(side->batch.nrows == 0 && side->sort == NULL);
	if (state->list != NULL && plan->state->es_epq_active == NULL)
		run_list(side, state, plan);
	else
		run_plan(side, state, plan);
	if (side->sort != NULL)
		sort_finish(side->sort);
	else
		link_rows(side);
}

static void
run_plan(GjSmallSide *side, GjJoinState *state, PlanState *plan)
{
	side->borrows = false;
	for (;;)
	{
		TupleTableSlot *slot = ExecProcNode(plan);
		int64		key = 0;
		int64		last = 0;
		bool		has_key;

		if (TupIsNull(slot))
			break;
		slot_getallattrs(slot);
		has_key = !slot->tts_isnull[state->value_column] &&
			read_keys(state, slot->tts_values[state->value_column], &key, &last);
		for (; has_key && key < last; key++)
			add_row(side, slot->tts_values, slot->tts_isnull, false, key);
		add_row(side, slot->tts_values, slot->tts_isnull, !has_key, key);
	}
}

/*
 * Find the keys that equal a small row's value: from *first to *last.  Returns false if it equals
 * none.
 */
static inline bool
read_keys(GjJoinState *state, Datum value, int64 *first, int64 *last)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext old;
	bool		found;

	if (state->conversion == GJ_CONVERT_CODEC)
	{
		*first = *last = GjCodeOf(&state->codec, value);
		return true;
	}
	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	found = GjCodesOfValue(state->conversion, &state->codec, value, first, last);
	MemoryContextSwitchTo(old);
	return found;
}

/*
 * Add the elements of the array, in place of the rows that the plan would make of them
 */
static void
run_list(GjSmallSide *side, GjJoinState *state, PlanState *plan)
{
	ArrayType  *array = NULL;
	int			n = 0;
	Datum		value;
	bool		isnull;

	if (plan->chgParam != NULL)
		ExecReScan(plan);
	if (plan->instrument != NULL)
		InstrStartNode(plan->instrument);
	MemoryContextReset(side->list);
	value = ExecEvalExprSwitchContext(state->list, plan->ps_ExprContext, &isnull);
	if (!isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(side->list);

		array = DatumGetArrayTypePCopy(value);
		n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		MemoryContextSwitchTo(old);
	}
	ResetExprContext(plan->ps_ExprContext);
	if (plan->instrument != NULL)
		InstrStopNode(plan->instrument, n);
	if (n > 0)
		add_list(side, state, array, n);
}

static void
add_list(GjSmallSide *side, GjJoinState *state, ArrayType *array, int n)
{
	PendingList list = {.side = side,.state = state};
	Datum		value = (Datum) 0;
	bool		isnull = true;

	side->borrows = true;
	side->policy.expected = n;
	drop_batch(side);
	small_start_batch(side);
	(void) GjForEachElement(array, state->conversion == GJ_CONVERT_CODEC ?
							small_add_element : add_converted, &list);
	add_pending(&list);
	for (int i = list.nadded; i < n && side->policy.keep_null_keys; i++)
		add_row(side, &value, &isnull, true, 0);
}

static void
small_add_element(void *arg, Datum element)
{
	PendingList *list = arg;

	list->nadded++;
	add_key(list, element, GjCodeOf(&list->state->codec, element));
}

/* The same for an element that equals several keys, or none */
static void
add_converted(void *arg, Datum element)
{
	PendingList *list = arg;
	bool		isnull = false;
	int64		key;
	int64		last;

	list->nadded++;
	if (!read_keys(list->state, element, &key, &last))
	{
		add_row(list->side, &element, &isnull, true, 0);
		return;
	}
	for (; key < last; key++)
		add_key(list, element, key);
	add_key(list, element, key);
}

static inline void
add_key(PendingList *list, Datum element, int64 key)
{
	if (list->side->nparts > 0 && is_borrowed(list->side))
		GjExactPrefetch(list->side->batch.tuples, key);
	list->keys[list->npending] = key;
	list->values[list->npending++] = element;
	if (list->npending == LIST_ELEMENTS)
		add_pending(list);
}

static void
add_pending(PendingList *list)
{
	bool		isnull = false;

	for (int i = 0; i < list->npending; i++)
		add_row(list->side, &list->values[i], &isnull, false, list->keys[i]);
	CHECK_FOR_INTERRUPTS();
	list->npending = 0;
}

/*
 * Add a row, and copy its data, unless they are elements of the list
 */
static void
add_row(GjSmallSide *side, const Datum *values, const bool *isnull, bool key_is_null, int64 key)
{
	for (int i = 0; i < side->nparts; i++)
		key_is_null |= isnull[side->part_columns[i]];
	if (key_is_null && !side->policy.keep_null_keys)
		return;

	side->stats->rows++;
	if (side->sort != NULL)
	{
		sort_put(side->sort, values, isnull, key_is_null, key);
		return;
	}
	add_to_batch(side, values, isnull, key_is_null, key);
	if (batch_is_full(side))
		small_spill(side);
}

static void
add_to_batch(GjSmallSide *side, const Datum *values, const bool *isnull,
			 bool key_is_null, int64 key)
{
	GjSmallRow **first = NULL;
	GjSmallRow *row;

	if (side->nparts > 0 && !key_is_null)
		first = find_first(side, values, key);
	if (side->policy.one_per_key && !key_is_null &&
		(first != NULL ? *first != NULL : GjKeyMapFind(side->firsts_of_keys, key) != NULL))
		return;

	row = copy_row(side, values, isnull);
	if (first != NULL)
	{
		link_to_chain(side, row, *first);
		*first = row;
	}
	else if (!key_is_null)
		link_later(side, row, key);
	if (side->last == NULL)
		side->batch.first = row;
	else
		side->last->next = row;
	side->last = row;
	side->batch.nrows++;
}

/*
 * Link a row to its key, with others if none of these is asked for before: so the cache misses of
 * a large map overlap
 */
static void
link_later(GjSmallSide *side, GjSmallRow *row, int64 key)
{
	const GjKeyMap *map = side->firsts_of_keys;

	GjKeyMapPrefetch(map, GjKeyMapStart(map, key));
	side->unlinked[side->nunlinked] = row;
	side->unlinked_keys[side->nunlinked++] = key;
	if (side->policy.one_per_key || side->nunlinked == LINKED_ROWS)
		link_rows(side);
}

static void
link_rows(GjSmallSide *side)
{
	for (int i = 0; i < side->nunlinked; i++)
	{
		GjKeyCell  *cell = GjKeyMapAdd(side->firsts_of_keys, side->unlinked_keys[i]);

		link_to_chain(side, side->unlinked[i], cell->value);
		cell->value = side->unlinked[i];
	}
	side->nunlinked = 0;
}

/*
 * Put a row before the chain of its key, which may be NULL
 */
static void
link_to_chain(GjSmallSide *side, GjSmallRow *row, GjSmallRow *chain)
{
	side->batch.shared_keys |= chain != NULL;
	row->next_of_key = chain;
	row->nrows_of_key = chain != NULL ? chain->nrows_of_key + 1 : 1;
}

/*
 * Find or make the place of the chain of a key and the parts among these values
 */
static GjSmallRow **
find_first(GjSmallSide *side, const Datum *values, int64 key)
{
	Datum		parts[INDEX_MAX_KEYS];
	pg_uuid_t	uuid;
	uint32		number;
	bool		found;

	for (int i = 0; i < side->nparts; i++)
		parts[i] = values[side->part_columns[i]];
	if (side->conversion == GJ_CONVERT_TEXT_UUID)
	{
		if (!GjUuidOfText(parts[0], &uuid))
			elog(ERROR, "a row with a key has no uuid");
		parts[0] = UUIDPGetDatum(&uuid);
	}
	if (side->rest != NULL)
		parts[0] = GjProofOf(side->rest, key, parts[0]);
	if (side->tests_hashes)
		(void) GjExactAdd(side->batch.entries, key, parts + 1, is_borrowed(side), &found);
	number = GjExactAdd(side->batch.tuples, key, parts, is_borrowed(side), &found);
	if (number >= side->nfirsts)
	{
		side->nfirsts = Max(INITIAL_KEYS, side->nfirsts * 2);
		side->firsts = side->firsts == NULL ?
			MemoryContextAlloc(side->batch_context, side->nfirsts * sizeof(GjSmallRow *)) :
			repalloc_huge(side->firsts, side->nfirsts * sizeof(GjSmallRow *));
	}
	if (!found)
		side->firsts[number] = NULL;
	return &side->firsts[number];
}

/*
 * Return true if a row's data need not be copied.  A row that comes from the sort must be.
 */
static inline bool
is_borrowed(const GjSmallSide *side)
{
	return side->borrows && side->sort == NULL;
}

static GjSmallRow *
copy_row(GjSmallSide *side, const Datum *values, const bool *isnull)
{
	int			natts = side->columns->natts;
	Size		size = MAXALIGN(sizeof(GjSmallRow)) +
		MAXALIGN(natts * (sizeof(Datum) + sizeof(bool)));
	MemoryContext old_context = MemoryContextSwitchTo(side->row_context);
	GjSmallRow *row;

	if (side->room_size < size)
	{
		side->room_size = Max(size, ROW_BYTES);
		side->room = palloc(side->room_size);
	}
	row = (GjSmallRow *) side->room;
	side->room += size;
	side->room_size -= size;

	memset(row, 0, sizeof(GjSmallRow));
	memcpy(GjSmallRowNulls(row, natts), isnull, natts * sizeof(bool));
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(side->columns, i);

		GjSmallRowValues(row)[i] = isnull[i] ? (Datum) 0 : is_borrowed(side) ? values[i] :
			datumCopy(values[i], att->attbyval, att->attlen);
	}
	MemoryContextSwitchTo(old_context);
	return row;
}

/*
 * Return true if the batch, with the key set that will be built from it, has reached the memory
 * limit.  The rows of a key are counted in 32 bits; a batch that may have more of them
 * (whole_keys) does not use the count.
 */
static bool
batch_is_full(GjSmallSide *side)
{
	Size		memory = MemoryContextMemAllocated(side->batch_context, true);
	uint32		nkeys = side->nparts > 0 ? GjExactCount(side->batch.tuples) :
		(uint32) side->firsts_of_keys->nkeys;
	Size		per_key = KEYSET_BYTES_PER_KEY + (side->nparts > 0 ? TESTS_BYTES_PER_KEY : 0);

	side->stats->peak_memory = Max(side->stats->peak_memory, memory);
	return memory + nkeys * per_key >= side->memory_limit ||
		side->batch.nrows >= PG_UINT32_MAX;
}

/*
 * Move the batch into a sort, to which all later rows are added
 */
static void
small_spill(GjSmallSide *side)
{
	side->sort = sort_begin(side->context, side->columns);
	spill_batch(side);
	drop_batch(side);
}

/*
 * Add the batch's rows to the sort.  Only the hash table has their keys.
 */
static void
spill_batch(GjSmallSide *side)
{
	int			natts = side->columns->natts;
	const GjKeyCell *cell;
	uint64		at = 0;

	link_rows(side);
	for (uint32 i = 0; side->nparts > 0 && i < GjExactCount(side->batch.tuples); i++)
		spill_chain(side, side->firsts[i], GjExactCode(side->batch.tuples, i));
	while (side->nparts == 0 && (cell = GjKeyMapNext(side->firsts_of_keys, &at)) != NULL)
		spill_chain(side, cell->value, cell->key);

	/* rows in no chain have no key */
	for (GjSmallRow *row = side->batch.first; row != NULL; row = row->next)
	{
		if (!row->matched)
			sort_put(side->sort, GjSmallRowValues(row), GjSmallRowNulls(row, natts), true, 0);
	}
}

/*
 * Add a chain to the sort, and mark its rows
 */
static void
spill_chain(GjSmallSide *side, GjSmallRow *first, int64 key)
{
	for (GjSmallRow *row = first; row != NULL; row = row->next_of_key)
	{
		CHECK_FOR_INTERRUPTS();
		row->matched = true;
		sort_put(side->sort, GjSmallRowValues(row), GjSmallRowNulls(row, side->columns->natts),
				 false, key);
	}
}

/*
 * Return the next batch, or NULL if no batch is left.  Frees the rows of the previous batch, if
 * there are several batches.
 */
const GjSmallBatch *
GjSmallNextBatch(GjSmallSide *side)
{
	bool		found;

	if (side->sort != NULL)
		found = next_sorted_batch(side);
	else
	{
		found = !side->delivered && side->batch.nrows > 0;
		side->delivered = true;
	}
	if (!found)
		return NULL;
	side->nbatches++;
	side->stats->batches = Max(side->stats->batches, side->nbatches);
	side->batch.is_only = side->sort == NULL;
	return &side->batch;
}

/*
 * Read rows as long as they fit.  The first row that does not fit is kept in `pending` for the
 * next call, because no other row is read in between.
 */
static bool
next_sorted_batch(GjSmallSide *side)
{
	SortedRow  *row = &side->pending;
	int64		last_key = 0;

	drop_batch(side);
	small_start_batch(side);
	while (side->has_pending || sort_next(side->sort, row))
	{
		CHECK_FOR_INTERRUPTS();
		side->has_pending = side->batch.nrows > 0 && batch_is_full(side) &&
			!(side->policy.whole_keys && !row->key_is_null && row->key == last_key);
		if (side->has_pending)
			break;
		add_to_batch(side, row->values, row->isnull, row->key_is_null, row->key);
		last_key = row->key;
	}
	link_rows(side);
	return side->batch.nrows > 0;
}

/*
 * Start over with the first batch of the same rows
 */
void
GjSmallRewind(GjSmallSide *side)
{
	side->nbatches = 0;
	side->delivered = false;
	if (side->sort != NULL)
	{
		sort_rewind(side->sort);
		side->has_pending = false;
		return;
	}
	for (GjSmallRow *row = side->batch.first; row != NULL; row = row->next)
		row->matched = false;
}

/*
 * Forget all rows, so that new ones can be added
 */
void
GjSmallReset(GjSmallSide *side)
{
	if (side->sort != NULL)
		sort_end(side->sort);
	side->sort = NULL;
	side->has_pending = false;
	side->nbatches = 0;
	side->stats->rows = 0;
	drop_batch(side);
	small_start_batch(side);
}

/*
 * Free the small side
 */
void
GjSmallFree(GjSmallSide *side)
{
	if (side->sort != NULL)
		sort_end(side->sort);
	MemoryContextDelete(side->context);
}

/*
 * Return the chain (next_of_key) of the batch's rows with this key, and these parts, if keys have
 * parts; or NULL
 */
GjSmallRow *
GjSmallLookup(GjSmallSide *side, int64 key, const Datum *parts)
{
	if (side->nparts > 0)
	{
		uint32		number = GjExactFind(side->batch.tuples, key, parts);

		return number == GJ_EXACT_NONE ? NULL : side->firsts[number];
	}
	return GjKeyMapFind(side->firsts_of_keys, key);
}

/*
 * Return true if the key of row i must be looked up: it is not NULL, nor the same as that of the
 * previous entry, as most are.  Only keys of heap tuples may be NULL, and they are in no order.
 */
static inline bool
has_own_key(const GjRowKeys *keys, int i)
{
	if (keys->nulls != NULL)
		return !keys->nulls[i];
	return i == 0 || keys->codes[i] != keys->codes[i - 1];
}

/*
 * Look up the keys of rows in the side's current batch: a GjRowLookup.  A partner is the chain
 * of GjSmallRow.
 *
 * Cache misses overlap: at most LOOKUP_KEYS cells of the hash table, and then the small rows, are
 * prefetched at a time.
 */
int
GjSmallLookupRows(void *arg, const GjRowKeys *keys, uint16 *rows, void **partners)
{
	GjSmallSide *side = arg;
	const int64 *codes = keys->codes;
	const GjKeyMap *map = side->firsts_of_keys;
	uint64		starts[LOOKUP_KEYS];
	GjSmallRow *first = NULL;
	int			nfound = 0;

	if (side->nparts > 0)
		return look_up_parts(side, keys, rows, partners);
	for (int start = 0; start < keys->n; start += LOOKUP_KEYS)
	{
		int			end = Min(start + LOOKUP_KEYS, keys->n);

		for (int i = start; i < end; i++)
		{
			if (!has_own_key(keys, i))
				continue;
			starts[i - start] = GjKeyMapStart(map, codes[i]);
			GjKeyMapPrefetch(map, starts[i - start]);
		}
		for (int i = start; i < end; i++)
		{
			if (has_own_key(keys, i))
			{
				first = GjKeyMapFindFrom(map, codes[i], starts[i - start]);
				GjPrefetch(first);
			}
			if (first == NULL || (keys->nulls != NULL && keys->nulls[i]))
				continue;
			rows[nfound] = rows[i];
			partners[nfound++] = first;
		}
	}
	return nfound;
}

/*
 * Do the same for keys with parts, leaving out the keys of rows with a NULL first
 */
static int
look_up_parts(GjSmallSide *side, const GjRowKeys *keys, uint16 *rows, void **partners)
{
	int			n = keys->n;
	int64	   *words = palloc(n * (side->nparts + 1) * sizeof(int64));
	uint32	   *numbers = palloc(n * sizeof(uint32));
	const int64 *codes = keys->codes;
	const Datum *parts[INDEX_MAX_KEYS];
	int			nfound = 0;

	memcpy(parts, keys->parts, side->nparts * sizeof(Datum *));
	if (keys->nulls != NULL)
		n = copy_strict(side, keys, rows, words, &codes, parts);
	GjExactFindMany(side->batch.tuples, n, codes, parts, numbers);
	for (int i = 0; i < n; i++)
	{
		if (numbers[i] == GJ_EXACT_NONE)
			continue;
		GjPrefetch(side->firsts[numbers[i]]);
		rows[nfound] = rows[i];
		partners[nfound++] = side->firsts[numbers[i]];
	}
	pfree(words);
	pfree(numbers);
	return nfound;
}

/*
 * Copy the keys of rows without NULLs to words[], where codes and parts[] then point; list these
 * rows, and return their number
 */
static int
copy_strict(const GjSmallSide *side, const GjRowKeys *keys, uint16 *rows, int64 *words,
			const int64 **codes, const Datum **parts)
{
	Datum	   *values = (Datum *) words + keys->n;
	int			n = 0;

	for (int i = 0; i < keys->n; i++)
	{
		if (keys->nulls[i])
			continue;
		for (int k = 0; k < side->nparts; k++)
			values[k * keys->n + n] = keys->parts[k][i];
		words[n] = keys->codes[i];
		rows[n++] = rows[i];
	}
	*codes = words;
	for (int k = 0; k < side->nparts; k++)
		parts[k] = values + k * keys->n;
	return n;
}

/*
 * Add the batch's distinct keys to a key set
 */
void
GjSmallAddKeys(GjSmallSide *side, GjKeySet *keys)
{
	const GjKeyCell *cell;
	uint64		at = 0;

	for (uint32 i = 0; side->nparts > 0 && i < GjExactCount(side->batch.tuples); i++)
		GjKeySetAdd(keys, GjExactCode(side->batch.tuples, i));
	while (side->nparts == 0 && (cell = GjKeyMapNext(side->firsts_of_keys, &at)) != NULL)
		GjKeySetAdd(keys, cell->key);
}

/*-------------------------------------------------------------------------
 * Sorted rows
 *
 * Rows that do not fit in memory are sorted by key: a tuplesort of tuples whose first column is the
 * key.
 *-------------------------------------------------------------------------
 */

/*
 * Start a sort of rows with these columns
 */
static SmallSort *
sort_begin(MemoryContext parent, TupleDesc columns)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin small side sort",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SmallSort  *sort = palloc0(sizeof(SmallSort));
	TupleDesc	desc = make_sort_desc(columns);
	AttrNumber	attno = 1;
	Oid			less_than = Int8LessOperator;
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	sort->context = context;
	sort->in = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	sort->out = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	sort->state = tuplesort_begin_heap(desc, 1, &attno, &less_than, &collation, &nulls_first,
									   work_mem, NULL, TUPLESORT_RANDOMACCESS);
	MemoryContextSwitchTo(old_context);
	return sort;
}

static TupleDesc
make_sort_desc(TupleDesc columns)
{
	TupleDesc	desc = CreateTemplateTupleDesc(columns->natts + 1);

	TupleDescInitEntry(desc, 1, "key", INT8OID, -1, 0);
	for (AttrNumber i = 1; i <= columns->natts; i++)
		TupleDescCopyEntry(desc, i + 1, columns, i);
	GjTupleDescFinalize(desc);
	return desc;
}

static void
sort_put(SmallSort *sort, const Datum *values, const bool *isnull,
		 bool key_is_null, int64 key)
{
	TupleTableSlot *slot = sort->in;
	int			natts = slot->tts_tupleDescriptor->natts - 1;

	ExecClearTuple(slot);
	slot->tts_values[0] = Int64GetDatum(key);
	slot->tts_isnull[0] = key_is_null;
	memcpy(&slot->tts_values[1], values, natts * sizeof(Datum));
	memcpy(&slot->tts_isnull[1], isnull, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sort->state, slot);
	ExecClearTuple(slot);
}

/*
 * Sort the rows that were added, before they are read
 */
static void
sort_finish(SmallSort *sort)
{
	tuplesort_performsort(sort->state);
}

/*
 * Read the next row.  Returns false at the end.
 */
static bool
sort_next(SmallSort *sort, SortedRow *row)
{
	TupleTableSlot *slot = sort->out;

	if (!tuplesort_gettupleslot(sort->state, true, false, slot, NULL))
		return false;

	slot_getallattrs(slot);
	row->values = &slot->tts_values[1];
	row->isnull = &slot->tts_isnull[1];
	row->key_is_null = slot->tts_isnull[0];
	row->key = row->key_is_null ? 0 : DatumGetInt64(slot->tts_values[0]);
	return true;
}

/*
 * Start over with the first row
 */
static void
sort_rewind(SmallSort *sort)
{
	ExecClearTuple(sort->out);
	tuplesort_rescan(sort->state);
}

/*
 * Free the sort, after the slot that may hold one of its rows
 */
static void
sort_end(SmallSort *sort)
{
	ExecDropSingleTupleTableSlot(sort->in);
	ExecDropSingleTupleTableSlot(sort->out);
	tuplesort_end(sort->state);
	MemoryContextDelete(sort->context);
}
