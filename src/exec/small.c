/*-------------------------------------------------------------------------
 *
 * small.c
 *	  Collect the small side of a join once, hand it out in batches.
 *
 * While the rows fit in the memory limit they are one batch: a hash table from key
 * to a chain of rows, the rows themselves as arrays of values, ready to be copied
 * into a joined row.  (A MinimalTuple would be smaller, but would have to be
 * deformed for each pair; a sort needs one anyway, and makes it then.)
 *
 * When the limit is passed, all rows so far and all that follow go into a sort by
 * key (small.c), which spills to disk.  It is read back in order of keys, a
 * batch after the other.  What makes this right:
 *
 *	- Each row is in exactly one batch, so that what the caller marks on it is known
 *	  when its batch ends.
 *	- Batches are cut anywhere, also among the rows of one key: then a big row meets
 *	  them in two batches, which makes up the same pairs.  Where a big row must be
 *	  returned once (whole_keys), they are cut between keys only; one key's rows
 *	  are then limited by memory alone.  With one_per_key they are a single row.
 *	- A row is never evaluated again: volatile functions below have run once.
 *
 * Memory: the sort has work_mem, a batch the limit that the caller gives.  The key
 * set that is made of a batch is accounted for here by a constant for each key.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "base/prefetch.h"
#include "small.h"
#include "smallkeys.h"
#include "smallsort.h"

#define INITIAL_KEYS			256

/* Look-ups that are on their way at the same time */
#define LOOKUP_KEYS				256

/* What a key set takes for a key: the array, its sort, the probe structure */
#define KEYSET_BYTES_PER_KEY	48

struct GjSmallSide
{
	MemoryContext context;
	TupleDesc	columns;
	GjSmallPolicy policy;
	Size		memory_limit;
	GjSmallStats stats;

	/* The batch in memory */
	MemoryContext batch_context;	/* hash table, and the next one */
	MemoryContext row_context;	/* rows and what they point to */
	keytable_hash *table;
	GjSmallRow *first;
	GjSmallRow *last;
	uint64		nrows;
	bool		shared_keys;	/* several rows have the same one */
	bool		delivered;		/* the only batch, and the caller has it */
	uint64		nbatches;		/* delivered in this run */

	/* All rows, once they have passed the limit */
	GjSmallSort *sort;
	GjSortedRow pending;		/* read last */
	bool		has_pending;	/* it is the next batch's first row */
};

struct GjSmallSort
{
	MemoryContext context;
	Tuplesortstate *state;
	TupleTableSlot *in;			/* key, then the columns */
	TupleTableSlot *out;
};

static void start_batch(GjSmallSide *side);
static void drop_batch(GjSmallSide *side);
static void add_to_batch(GjSmallSide *side, const Datum *values, const bool *isnull,
						 bool key_is_null, int64 key);
static void link_to_key(GjSmallSide *side, GjSmallRow *row, int64 key);
static GjSmallRow *copy_row(GjSmallSide *side, const Datum *values, const bool *isnull);
static bool batch_is_full(GjSmallSide *side);
static void spill(GjSmallSide *side);
static void spill_batch(GjSmallSide *side);
static bool next_sorted_batch(GjSmallSide *side);
static TupleDesc make_sort_desc(TupleDesc columns);
static GjSmallSort *sort_begin(MemoryContext parent, TupleDesc columns);
static void sort_put(GjSmallSort *sort, const Datum *values, const bool *isnull,
					 bool key_is_null, int64 key);
static void sort_finish(GjSmallSort *sort);
static bool sort_next(GjSmallSort *sort, GjSortedRow *row);
static void sort_rewind(GjSmallSort *sort);
static void sort_end(GjSmallSort *sort);

/*
 * Make an empty small side, to which rows with these columns can be added
 */
GjSmallSide *
GjSmallCreate(MemoryContext parent, TupleDesc columns, GjSmallPolicy policy,
			  Size memory_limit)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin small side",
												  ALLOCSET_DEFAULT_SIZES);
	GjSmallSide *side = MemoryContextAllocZero(context, sizeof(GjSmallSide));

	side->context = context;
	side->columns = columns;
	side->policy = policy;
	side->memory_limit = memory_limit;
	start_batch(side);
	return side;
}

static void
start_batch(GjSmallSide *side)
{
	side->batch_context = AllocSetContextCreate(side->context, "gpujoin batch",
												ALLOCSET_DEFAULT_SIZES);
	side->row_context = GenerationContextCreate(side->batch_context, "gpujoin batch rows",
												ALLOCSET_DEFAULT_SIZES);
	side->table = keytable_create(side->batch_context, INITIAL_KEYS, NULL);
	side->first = side->last = NULL;
	side->nrows = 0;
	side->shared_keys = false;
	side->delivered = false;
}

static void
drop_batch(GjSmallSide *side)
{
	if (side->batch_context != NULL)
		MemoryContextDelete(side->batch_context);
	side->batch_context = NULL;
	side->first = side->last = NULL;
	side->nrows = 0;
}

/*
 * Take a row; what its values point to is copied
 */
void
GjSmallAdd(GjSmallSide *side, const Datum *values, const bool *isnull,
		   bool key_is_null, int64 key)
{
	if (key_is_null && !side->policy.keep_null_keys)
		return;

	side->stats.rows++;
	if (side->sort != NULL)
	{
		sort_put(side->sort, values, isnull, key_is_null, key);
		return;
	}
	add_to_batch(side, values, isnull, key_is_null, key);
	if (batch_is_full(side))
		spill(side);
}

static void
add_to_batch(GjSmallSide *side, const Datum *values, const bool *isnull,
			 bool key_is_null, int64 key)
{
	GjSmallRow *row;

	if (side->policy.one_per_key && !key_is_null &&
		keytable_lookup(side->table, key) != NULL)
		return;

	row = copy_row(side, values, isnull);
	if (!key_is_null)
		link_to_key(side, row, key);
	if (side->last == NULL)
		side->first = row;
	else
		side->last->next = row;
	side->last = row;
	side->nrows++;
}

static void
link_to_key(GjSmallSide *side, GjSmallRow *row, int64 key)
{
	bool		found;
	KeyCell    *cell = keytable_insert(side->table, key, &found);

	side->shared_keys |= found;
	row->next_of_key = found ? cell->first : NULL;
	row->nrows_of_key = found ? cell->first->nrows_of_key + 1 : 1;
	cell->first = row;
}

static GjSmallRow *
copy_row(GjSmallSide *side, const Datum *values, const bool *isnull)
{
	int			natts = side->columns->natts;
	Size		size = MAXALIGN(sizeof(GjSmallRow)) + natts * (sizeof(Datum) + sizeof(bool));
	MemoryContext old_context = MemoryContextSwitchTo(side->row_context);
	GjSmallRow *row = palloc(size);

	memset(row, 0, sizeof(GjSmallRow));
	memcpy(GjSmallRowNulls(row, natts), isnull, natts * sizeof(bool));
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(side->columns, i);

		GjSmallRowValues(row)[i] = isnull[i] ? (Datum) 0 :
			datumCopy(values[i], att->attbyval, att->attlen);
	}
	MemoryContextSwitchTo(old_context);
	return row;
}

/*
 * Does the batch, with the key set that will be made of it, reach the limit?  Rows of a key are
 * counted in 32 bits; where more are in one batch (whole_keys), the count is not used.
 */
static bool
batch_is_full(GjSmallSide *side)
{
	Size		memory = MemoryContextMemAllocated(side->batch_context, true);

	side->stats.peak_memory = Max(side->stats.peak_memory, memory);
	return memory + (Size) side->table->members * KEYSET_BYTES_PER_KEY >= side->memory_limit ||
		side->nrows >= PG_UINT32_MAX;
}

/*
 * Move the rows so far into a sort, which takes all that follow
 */
static void
spill(GjSmallSide *side)
{
	side->sort = sort_begin(side->context, side->columns);
	spill_batch(side);
	drop_batch(side);
}

/*
 * Put the batch's rows into the sort, with their keys, which only the hash table knows
 */
static void
spill_batch(GjSmallSide *side)
{
	int			natts = side->columns->natts;
	keytable_iterator iter;
	KeyCell    *cell;

	keytable_start_iterate(side->table, &iter);
	while ((cell = keytable_iterate(side->table, &iter)) != NULL)
	{
		for (GjSmallRow *row = cell->first; row != NULL; row = row->next_of_key)
		{
			CHECK_FOR_INTERRUPTS();
			row->matched = true;
			sort_put(side->sort, GjSmallRowValues(row), GjSmallRowNulls(row, natts), false,
					 cell->key);
		}
	}

	/* What is in no chain has no key */
	for (GjSmallRow *row = side->first; row != NULL; row = row->next)
	{
		if (!row->matched)
			sort_put(side->sort, GjSmallRowValues(row), GjSmallRowNulls(row, natts), true, 0);
	}
}

/*
 * End adding rows
 */
void
GjSmallFinish(GjSmallSide *side)
{
	if (side->sort != NULL)
		sort_finish(side->sort);
}

/*
 * Make the next batch the current one; false when there is none left.  Rows of the
 * batch before are gone, except when there is only one at all.
 */
bool
GjSmallNextBatch(GjSmallSide *side)
{
	bool		result;

	if (side->sort != NULL)
		result = next_sorted_batch(side);
	else
	{
		result = !side->delivered && side->nrows > 0;
		side->delivered = true;
	}
	if (result)
	{
		side->nbatches++;
		side->stats.batches = Max(side->stats.batches, side->nbatches);
	}
	return result;
}

/*
 * Read rows as long as they fit.  The one that did not waits in pending for the next call, as
 * nothing else is read in between.
 */
static bool
next_sorted_batch(GjSmallSide *side)
{
	GjSortedRow *row = &side->pending;
	int64		last_key = 0;

	drop_batch(side);
	start_batch(side);
	while (side->has_pending || sort_next(side->sort, row))
	{
		CHECK_FOR_INTERRUPTS();
		side->has_pending = side->nrows > 0 && batch_is_full(side) &&
			!(side->policy.whole_keys && !row->key_is_null && row->key == last_key);
		if (side->has_pending)
			break;
		add_to_batch(side, row->values, row->isnull, row->key_is_null, row->key);
		last_key = row->key;
	}
	return side->nrows > 0;
}

/*
 * Are all rows in one batch, which survives a rewind?
 */
bool
GjSmallIsOneBatch(const GjSmallSide *side)
{
	return side->sort == NULL;
}

/*
 * Start over with the first batch, with the same rows
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
	for (GjSmallRow *row = side->first; row != NULL; row = row->next)
		row->matched = false;
}

/*
 * Forget all rows, so that others can be added
 */
void
GjSmallReset(GjSmallSide *side)
{
	if (side->sort != NULL)
		sort_end(side->sort);
	side->sort = NULL;
	side->has_pending = false;
	side->nbatches = 0;
	side->stats.rows = 0;
	drop_batch(side);
	start_batch(side);
}

/*
 * Give up everything
 */
void
GjSmallFree(GjSmallSide *side)
{
	if (side->sort != NULL)
		sort_end(side->sort);
	MemoryContextDelete(side->context);
}

/*
 * Find the chain (next_of_key) of the batch's rows with this key; NULL: none
 */
GjSmallRow *
GjSmallLookup(GjSmallSide *side, int64 key)
{
	KeyCell    *cell = keytable_lookup(side->table, key);

	return cell == NULL ? NULL : cell->first;
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
	const bool *nulls = keys->nulls;
	uint32		hashes[LOOKUP_KEYS];
	int			nfound = 0;

	for (int start = 0; start < keys->n; start += LOOKUP_KEYS)
	{
		int			end = Min(start + LOOKUP_KEYS, keys->n);

		for (int i = start; i < end; i++)
		{
			if (nulls != NULL && nulls[i])
				continue;
			hashes[i - start] = GjSmallKeyHash(codes[i]);
			GjSmallKeysPrefetch(side->table, hashes[i - start]);
		}
		for (int i = start; i < end; i++)
		{
			KeyCell    *cell;

			if (nulls != NULL && nulls[i])
				continue;
			cell = keytable_lookup_hash(side->table, codes[i], hashes[i - start]);
			if (cell == NULL)
				continue;
			GjPrefetch(cell->first);
			rows[nfound] = rows[i];
			partners[nfound++] = cell->first;
		}
	}
	return nfound;
}

/*
 * Has each key of the batch one row?
 */
bool
GjSmallKeysAreUnique(const GjSmallSide *side)
{
	return !side->shared_keys;
}

/*
 * The first of all rows of the batch (next)
 */
GjSmallRow *
GjSmallFirst(const GjSmallSide *side)
{
	return side->first;
}

uint64
GjSmallBatchRows(const GjSmallSide *side)
{
	return side->nrows;
}

/*
 * Put a row's columns into these arrays; they point into the batch
 */
void
GjSmallRowCopy(const GjSmallSide *side, const GjSmallRow *row, Datum *values, bool *isnull)
{
	int			natts = side->columns->natts;

	memcpy(values, GjSmallRowValues(row), natts * sizeof(Datum));
	memcpy(isnull, GjSmallRowNulls(row, natts), natts * sizeof(bool));
}

/*
 * Add the batch's distinct keys to a key set
 */
void
GjSmallAddKeys(GjSmallSide *side, GjKeySet *keys)
{
	keytable_iterator iter;
	KeyCell    *cell;

	keytable_start_iterate(side->table, &iter);
	while ((cell = keytable_iterate(side->table, &iter)) != NULL)
		GjKeySetAdd(keys, cell->key);
}

const GjSmallStats *
GjSmallGetStats(const GjSmallSide *side)
{
	return &side->stats;
}

/*-------------------------------------------------------------------------
 * Sorted rows
 *
 * Sort the rows of a small side that do not fit in memory by their keys.
 *
 * A tuplesort of tuples that have the key as their first column; it has work_mem
 * and spills to temporary files by itself.
 *-------------------------------------------------------------------------
 */

/*
 * Begin a sort of rows with these columns
 */
static GjSmallSort *
sort_begin(MemoryContext parent, TupleDesc columns)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin small side sort",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	GjSmallSort *sort = palloc0(sizeof(GjSmallSort));
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
	return desc;
}

static void
sort_put(GjSmallSort *sort, const Datum *values, const bool *isnull,
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
 * Sort the rows that were added, so that reading can begin
 */
static void
sort_finish(GjSmallSort *sort)
{
	tuplesort_performsort(sort->state);
}

/*
 * Read the next row; false at the end
 */
static bool
sort_next(GjSmallSort *sort, GjSortedRow *row)
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
 * Read again from the start
 */
static void
sort_rewind(GjSmallSort *sort)
{
	ExecClearTuple(sort->out);
	tuplesort_rescan(sort->state);
}

/*
 * Drop it all; the slot with a row of the sort goes before the sort does
 */
static void
sort_end(GjSmallSort *sort)
{
	ExecDropSingleTupleTableSlot(sort->in);
	ExecDropSingleTupleTableSlot(sort->out);
	tuplesort_end(sort->state);
	MemoryContextDelete(sort->context);
}
