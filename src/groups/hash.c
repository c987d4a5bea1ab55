/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  Map from the key of a row to the number of its group: an open-addressing hash table, the
 *	  keys' records, and rows that arrive in order.
 *
 * The rows of a batch are packed into records and hashed first, and then looked up in steps of
 * many rows each.  A slot holds half of the hash, so that records are rarely compared with
 * different keys, and growing does not read records.  In a large table, slots and records are
 * prefetched, because a cache miss takes longer than the rest of a lookup.
 *
 * The lower half of the hash selects the slot; the upper bits select the part of a spilled row.
 * If both used the same bits, the groups of one part would share a small range of the slots.
 *
 * The hash is seeded, and runs of slots are bounded (base/probe.h).  The seed changes only between
 * two batches, and not while rows are being spilled: rows of one group must go to one part.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "base/prefetch.h"
#include "groupparts.h"

/* Rows whose slots are prefetched together */
#define GJ_FIND_ROWS			128

/* Slots up to this size fit in the cache, and are not prefetched */
#define GJ_CACHED_SIZE			((Size) 256 * 1024)

/*
 * Smaller tables fit in the cache and gain nothing from an order.  The order is known before a
 * table grows to its expected size (groups.c), or rows are deferred (defer.c).
 */
#define GJ_ORDER_GROUPS			((uint32) 16 * 1024)

/* With more groups than this in a run, deferring rows is better */
#define GJ_LONG_RUN				((uint32) 4 * 1024)

/* Rows are not deferred in smaller tables, which fit in the cache anyway */
#define GJ_DEFER_GROUPS			((uint32) 32 * 1024)

#define GJ_FIRST_RUN_SLOTS		((uint64) 1024)

static int	find_now(GjGroupTable *table, int row, int nrows, uint32 *numbers);
static void insert_slot(GjGroupTable *table, uint64 hash, uint32 group);
static void fill_slots(GjGroupTable *table);
static bool should_defer(const GjGroupTable *table, uint64 nslots);
static void lay_out(GjGroupTable *table);
static void put_columns(GjGroupTable *table, const GjInput *input);
static const GjKeyColumn *upper_half(const GjGroupTable *table, int word);
static void put_halves(uint64 *to, int nwords, const uint32 *lower, const uint32 *upper,
					   int nrows);
static void put_column(uint64 *to, int nwords, const GjKeyColumn *column, const char *values,
					   int nrows);
static void put_nulls(uint64 *to, int nwords, int bit, const uint8 *nulls, int nrows);
static void hash_records(GjGroupTable *table, int nrows);
static bool hash_any_null(const GjGroupTable *table, uint32 first, int n);
static bool ascends(GjKeyColumn *column, const GjInputColumn *input, int nrows);
static uint64 column_value(const GjKeyColumn *column, const uint64 *record);
static void make_run_slots(GjGroupTable *table, uint64 nslots);
static void insert(GjGroupTable *table, uint32 group);
static inline uint32 most_in_run(const GjGroupTable *table);
static void order_begin(GjGroupTable *table);
static void order_watch(GjGroupTable *table, const GjInput *input);
static void order_make_slots(GjGroupTable *table, uint64 nslots);
static int	order_find(GjGroupTable *table, int row, int nrows, uint32 *numbers);

/*
 * Begin with no groups and little memory
 */
void
GjTableReset(GjGroupTable *table)
{
	GjRegionFree(&table->records);
	GjRegionFree(&table->slots);
	table->nslots = 0;
	table->ngroups = table->ndeferred = table->nstarted = 0;
	table->phase = GJ_TABLE_UNMAPPED;
	order_begin(table);
	table->capacity = table->ncolumns == 0 ? 1 : GJ_GROUPS_FIRST;
	GjRegionAllocate(&table->records, table->context, GjRecordsSize(table, table->capacity));
	memset(table->records.start, 0, table->nwords * sizeof(uint64));
	GjRegionFree(&table->direct);
	table->direct_span = table->direct_null = 0;
	if (table->ncolumns == 1)
		table->phase = GJ_TABLE_DIRECT;
	else if (table->ncolumns > 1)
		GjTableMakeSlots(table, GjTableSlots(table->capacity));
}

/*
 * Forget all groups, but keep the memory, for the groups of other rows.  Those contain only a few
 * of the column's values, so a direct table would not suit them.
 */
void
GjTableClear(GjGroupTable *table)
{
	if (table->phase == GJ_TABLE_DIRECT)
	{
		GjTableReset(table);
		GjDirectEnd(table);
	}
	GjOrderEnd(table);
	table->ngroups = table->ndeferred = table->nstarted = 0;
	if (table->phase != GJ_TABLE_PENDING)
		memset(table->slots.start, 0, table->slots.size);
}

/*
 * Return the record that a slot may refer to, or the dummy if the tag differs.  This has no
 * branch, because it could not be predicted.
 */
static pg_attribute_always_inline Size
candidate(GjGroupSlot slot, uint64 hash)
{
	return slot.group & -(uint32) (slot.tag == (uint32) hash);
}

/*
 * Prefetch the slots of some rows
 */
static pg_attribute_always_inline void
prefetch_slots(const GjGroupTable *table, int row, int end)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *hashes = table->batch_hashes;
	uint64		mask = table->nslots - 1;

	for (; row < end; row++)
		GjPrefetchForWrite(&slots[hashes[row] & mask]);
}

/*
 * Prefetch the records that slots refer to
 */
static pg_attribute_always_inline void
prefetch_records(const GjGroupTable *table, int row, int end, int nwords)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *records = (const uint64 *) table->records.start;
	const uint64 *hashes = table->batch_hashes;
	uint64		mask = table->nslots - 1;

	for (; row < end; row++)
		GjPrefetch(records + candidate(slots[hashes[row] & mask], hashes[row]) * nwords);
}

static pg_attribute_always_inline bool
is_different(const uint64 *a, const uint64 *b, int nwords)
{
	uint64		difference = 0;

	for (int word = 0; word < nwords; word++)
		difference |= a[word] ^ b[word];
	return difference != 0;
}

/*
 * Look up rows in their first slots only, where nearly all existing groups are, without branches,
 * because they could not be predicted. missed[] receives the rows that were not found; returns
 * their number.
 */
static pg_attribute_always_inline int
hash_find_at_once(const GjGroupTable *table, int row, int nrows, uint32 *numbers, uint16 *missed,
				  const int nwords, const bool is_large)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *records = (const uint64 *) table->records.start;
	const uint64 *wanted = table->batch_records + row * nwords;
	const uint64 *hashes = table->batch_hashes + row;
	uint64		mask = table->nslots - 1;
	int			nmissed = 0;

	for (int i = 0; i < nrows; i++)
	{
		GjGroupSlot slot = slots[hashes[i] & mask];
		Size		group = is_large ? candidate(slot, hashes[i]) : slot.group;
		bool		differs = is_different(records + group * nwords, wanted + i * nwords, nwords);

		numbers[row + i] = slot.group - 1;
		missed[nmissed] = row + i;
		nmissed += differs | (group == 0);
	}
	return nmissed;
}

/*
 * Find the group of a row, or create it.  Returns false if there is no room for it.
 */
static pg_attribute_always_inline bool
hash_find_one(GjGroupTable *table, int row, uint32 *numbers, const int nwords)
{
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64	   *records = (uint64 *) table->records.start;
	const uint64 *record = table->batch_records + row * nwords;
	uint32		tag = (uint32) table->batch_hashes[row];
	uint64		mask = table->nslots - 1;

	for (uint64 at = tag & mask;; at = (at + 1) & mask)
	{
		GjGroupSlot slot = slots[at];

		if (slot.group == 0)
		{
			uint32		group = table->ngroups;

			if (group >= table->capacity)
				return false;
			numbers[row] = group++;
			slots[at] = (GjGroupSlot) {tag, group};
			memcpy(records + (Size) group * nwords, record, nwords * sizeof(uint64));
			table->ngroups = group;
			return true;
		}
		if (slot.tag == tag && !is_different(records + (Size) slot.group * nwords, record, nwords))
		{
			numbers[row] = slot.group - 1;
			return true;
		}
		GjSeedNote(&table->seed, (at - tag) & mask);
	}
}

/*
 * Find the groups of rows in the slots, starting at row.  Returns the row for which there is no
 * room, or nrows.  If most rows form new groups, existing ones are not looked up first.
 */
static pg_attribute_always_inline int
find_in_slots(GjGroupTable *table, int row, int nrows, uint32 *numbers, const int nwords)
{
	bool		is_large = table->slots.size > GJ_CACHED_SIZE;
	uint16		missed[GJ_FIND_ROWS];

	if (is_large)
		prefetch_slots(table, row, Min(row + GJ_FIND_ROWS, nrows));
	for (; row < nrows; row += GJ_FIND_ROWS)
	{
		int			n = Min(GJ_FIND_ROWS, nrows - row);
		uint32		nbefore = table->ngroups;
		int			nmissed = n;

		if (is_large)
			prefetch_slots(table, row + n, Min(row + n + GJ_FIND_ROWS, nrows));
		if (is_large && table->are_new)
		{
			for (int i = 0; i < n; i++)
				missed[i] = row + i;
		}
		else if (is_large)
		{
			prefetch_records(table, row, row + n, nwords);
			nmissed = hash_find_at_once(table, row, n, numbers, missed, nwords, true);
		}
		else
			nmissed = hash_find_at_once(table, row, n, numbers, missed, nwords, false);

		for (int i = 0; i < nmissed; i++)
		{
			if (!hash_find_one(table, missed[i], numbers, nwords))
				return missed[i];
		}
		table->are_new = table->ngroups - nbefore > n / 2;
	}
	return nrows;
}

/*
 * Find the groups of the rows of a packed batch, starting at row, creating new groups as needed.
 * Returns the row for which there is no room, or nrows.
 */
int
GjTableFind(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	Assert(table->is_packed && table->nslots > 0);
	if (table->phase == GJ_TABLE_PENDING && GjTableDefer(table, row, nrows, numbers))
		return nrows;
	if (table->phase == GJ_TABLE_PENDING)
		return row;
	if (table->phase == GJ_TABLE_ORDERED)
		return order_find(table, row, nrows, numbers);
	Assert(table->phase == GJ_TABLE_SLOTS);
	return find_now(table, row, nrows, numbers);
}

static int
find_now(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	switch (table->nwords)
	{
		case 1:
			return find_in_slots(table, row, nrows, numbers, 1);
		case 2:
			return find_in_slots(table, row, nrows, numbers, 2);
		case 3:
			return find_in_slots(table, row, nrows, numbers, 3);
		case 4:
			return find_in_slots(table, row, nrows, numbers, 4);
		default:
			return find_in_slots(table, row, nrows, numbers, table->nwords);
	}
}

/*
 * Return true if the row has a group, without creating one
 */
static inline bool
look_up_one(const GjGroupTable *table, int row, uint32 *number)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *record = table->batch_records + row * table->nwords;
	uint32		tag = (uint32) table->batch_hashes[row];
	uint64		mask = table->nslots - 1;

	for (uint64 at = tag & mask; slots[at].group != 0; at = (at + 1) & mask)
	{
		GjProbeNote((at - tag) & mask);
		*number = slots[at].group - 1;
		if (slots[at].tag == tag &&
			!is_different(GjTableRecord(table, *number), record, table->nwords))
			return true;
	}
	return false;
}

/*
 * Look up the groups of a batch's rows, without creating any. rows[] and numbers[] receive the
 * rows that have a group, and their groups; missed[] receives those that have none.  Returns the
 * number of missed rows.
 */
int
GjTableLookUp(const GjGroupTable *table, int nrows, uint16 *rows, uint32 *numbers, uint16 *missed)
{
	int			nfound = 0;
	int			nmissed = 0;

	Assert(table->phase == GJ_TABLE_SLOTS && table->is_packed);
	for (int first = 0; first < nrows; first += GJ_FIND_ROWS)
	{
		int			end = Min(first + GJ_FIND_ROWS, nrows);

		prefetch_slots(table, first, end);
		for (int row = first; row < end; row++)
		{
			bool		is_found = look_up_one(table, row, &numbers[nfound]);

			rows[nfound] = row;
			missed[nmissed] = row;
			nfound += is_found;
			nmissed += !is_found;
		}
	}
	return nmissed;
}

/*
 * Return the number of slots for `capacity` groups, a power of two: half of them stay free, or
 * three quarters while they fit in the cache.
 */
uint64
GjTableSlots(uint32 capacity)
{
	uint64		nslots = pg_nextpower2_64(Max(capacity, 1));

	return nslots * (nslots * 4 * sizeof(GjGroupSlot) <= GJ_CACHED_SIZE * 2 ? 4 : 2);
}

/*
 * Make room for `capacity` groups, and nslots slots, if there are slots at all
 */
void
GjTableGrow(GjGroupTable *table, uint32 capacity, uint64 nslots)
{
	CHECK_FOR_INTERRUPTS();
	Assert(capacity <= GJ_MAX_GROUPS);
	table->capacity = capacity;
	GjRegionGrow(&table->records, table->context,
				 GjRecordsSize(table, GjTableRecords(table)), GjRecordsSize(table, capacity));
	if (table->phase != GJ_TABLE_DIRECT && nslots != table->nslots)
		GjTableMakeSlots(table, nslots);
}

static inline void
insert_slot(GjGroupTable *table, uint64 hash, uint32 group)
{
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64		mask = table->nslots - 1;
	uint64		at = (uint32) hash & mask;

	while (slots[at].group != 0)
	{
		GjSeedNote(&table->seed, (at - hash) & mask);
		at = (at + 1) & mask;
	}
	slots[at] = (GjGroupSlot) {(uint32) hash, group + 1};
}

/*
 * Allocate nslots slots, more than there is room for groups.  Old slots are read in order, so
 * that the new ones are written nearly in order, too.
 */
void
GjTableMakeSlots(GjGroupTable *table, uint64 nslots)
{
	GjRegion	old = table->slots;
	uint64		nold = table->nslots;

	Assert(nslots > table->capacity);
	if (should_defer(table, nslots))
	{
		GjTableMakeTags(table, nslots);
		return;
	}
	if (table->phase == GJ_TABLE_ORDERED)
	{
		order_make_slots(table, nslots);
		return;
	}
	table->phase = GJ_TABLE_SLOTS;
	table->nslots = nslots;
	GjRegionAllocate(&table->slots, table->context, table->nslots * sizeof(GjGroupSlot));
	memset(table->slots.start, 0, table->slots.size);
	if (nold > 0)
	{
		const GjGroupSlot *from = (const GjGroupSlot *) old.start;

		for (uint64 i = 0; i < nold; i++)
		{
			if (i % GJ_UNINTERRUPTED_SLOTS == 0)
				CHECK_FOR_INTERRUPTS();
			if (from[i].group != 0)
				insert_slot(table, from[i].tag, from[i].group - 1);
		}
		GjRegionFree(&old);
		return;
	}
	if (table->ngroups > 0)
		fill_slots(table);
}

/*
 * Enter all groups into slots that are free
 */
static void
fill_slots(GjGroupTable *table)
{
	for (uint32 group = 0; group < table->ngroups; group++)
	{
		if (group % GJ_UNINTERRUPTED_SLOTS == 0)
			CHECK_FOR_INTERRUPTS();
		insert_slot(table, GjTableHash(table, group), group);
	}
}

/*
 * Replace a seed that has led to a long run.  No hash of a row may be in use.
 */
void
GjTableReseed(GjGroupTable *table)
{
	GjSeedReplace(&table->seed);
	table->is_packed = false;
	switch (table->phase)
	{
		case GJ_TABLE_SLOTS:
			memset(table->slots.start, 0, table->slots.size);
			fill_slots(table);
			break;
		case GJ_TABLE_ORDERED:
			make_run_slots(table, table->run_slots);
			break;
		case GJ_TABLE_PENDING:
			GjTableHashAgain(table);
			break;
		case GJ_TABLE_UNMAPPED:
		case GJ_TABLE_DIRECT:
			break;
	}
}

/*
 * Return true if rows should be deferred from now on, given that the table is about to get nslots
 * slots
 */
static bool
should_defer(const GjGroupTable *table, uint64 nslots)
{
	return table->phase == GJ_TABLE_PENDING ||
		(table->may_defer && table->are_new && table->phase != GJ_TABLE_ORDERED &&
		 table->capacity >= GJ_DEFER_GROUPS && table->capacity <= nslots / 2);
}

/*-------------------------------------------------------------------------
 * Records
 *
 * A record holds the columns of a key side by side in a few words.  Records are compared and
 * hashed word by word, regardless of the columns.  A batch is packed into records column by
 * column, with a separate loop for each width.
 *-------------------------------------------------------------------------
 */

/*
 * Initialize a table.  The columns belong to it from now on; their type, width and input are set.
 */
void
GjTableInit(GjGroupTable *table, MemoryContext context, int ncolumns, GjKeyColumn *columns)
{
	memset(table, 0, sizeof(GjGroupTable));
	table->context = context;
	table->seed = GjSeedCreate();
	table->ncolumns = ncolumns;
	table->columns = columns;
	lay_out(table);
}

/*
 * Determine the layout of a record.  The widest columns come first,
 * so that none spans two words.  If the last word has no room for the NULL bits, they are added
 * when the first NULL is seen.
 */
static void
lay_out(GjGroupTable *table)
{
	int			bits = 0;

	for (int width = sizeof(uint64); width > 0; width /= 2)
	{
		for (int i = 0; i < table->ncolumns; i++)
		{
			if (table->columns[i].width != width)
				continue;
			table->columns[i].word = bits / GJ_WORD_BITS;
			table->columns[i].shift = bits % GJ_WORD_BITS;
			bits += width * BITS_PER_BYTE;
		}
	}
	table->data_words = table->nwords = (bits + GJ_WORD_BITS - 1) / GJ_WORD_BITS;
	table->null_bit = bits;
	if (bits + table->ncolumns > table->nwords * GJ_WORD_BITS)
		table->null_bit = -1;
}

/*
 * Extend records by NULL bits: one or more words at the end.  No value in the existing records is
 * NULL.
 */
void
GjTableTakeNulls(GjGroupTable *table)
{
	int			old_words = table->nwords;
	uint64	   *records;

	if (table->null_bit >= 0)
		return;
	(void) GjTableSettle(table);

	table->nwords += GjTableNullWords(table);
	table->null_bit = old_words * GJ_WORD_BITS;
	GjRegionResize(&table->records, GjRecordsSize(table, table->capacity));
	records = (uint64 *) table->records.start;
	for (Size at = (Size) table->ngroups + 1; at-- > 0;)
	{
		memmove(records + at * table->nwords, records + at * old_words,
				old_words * sizeof(uint64));
		memset(records + at * table->nwords + old_words, 0,
			   (table->nwords - old_words) * sizeof(uint64));
	}
}

/*
 * Build the records of a batch and their hashes
 */
void
GjTablePack(GjGroupTable *table, const GjInput *input)
{
	int			nwords;

	for (int i = 0; i < table->ncolumns; i++)
	{
		if (input->columns[table->columns[i].input].nulls != NULL)
			GjTableTakeNulls(table);
	}
	nwords = table->nwords;
	if (table->batch_words < nwords)
	{
		/* the hashes follow the records */
		table->batch_words = nwords;
		if (table->batch_records != NULL)
			pfree(table->batch_records);
		table->batch_records = MemoryContextAlloc(table->context, GJ_BATCH_ROWS * (nwords + 1) *
												  sizeof(uint64));
		table->batch_hashes = table->batch_records + GJ_BATCH_ROWS * nwords;
	}

	put_columns(table, input);
	for (int word = table->data_words; word < nwords; word++)
	{
		for (int i = 0; i < input->nrows; i++)
			table->batch_records[i * nwords + word] = 0;
	}
	for (int i = 0; i < table->ncolumns; i++)
	{
		const uint8 *nulls = input->columns[table->columns[i].input].nulls;

		if (nulls != NULL)
			put_nulls(table->batch_records, nwords, table->null_bit + i, nulls, input->nrows);
	}
	hash_records(table, input->nrows);
	order_watch(table, input);
	table->is_packed = true;
}

/*
 * Store columns in the records: the first ones of their words, which initialize the words, and then
 * the others.  Two columns of four bytes fill a word, and are stored together.
 */
static void
put_columns(GjGroupTable *table, const GjInput *input)
{
	for (int k = 0; k < 2 * table->ncolumns; k++)
	{
		bool		are_first = k < table->ncolumns;
		const GjKeyColumn *column = &table->columns[k % table->ncolumns];
		const GjKeyColumn *upper = upper_half(table, column->word);
		uint64	   *to = table->batch_records + column->word;
		const char *values = input->columns[column->input].values;

		if ((column->shift == 0) != are_first || column == upper)
			continue;
		if (upper != NULL)
			put_halves(to, table->nwords, (const uint32 *) values,
					   (const uint32 *) input->columns[upper->input].values, input->nrows);
		else
			put_column(to, table->nwords, column, values, input->nrows);
	}
}

/*
 * Return the column that fills the upper half of a word, or NULL.  If it exists, another column
 * fills the lower half.
 */
static const GjKeyColumn *
upper_half(const GjGroupTable *table, int word)
{
	for (int i = 0; i < table->ncolumns; i++)
	{
		const GjKeyColumn *column = &table->columns[i];

		if (column->word == word && column->shift == GJ_WORD_BITS / 2 &&
			column->width == sizeof(uint32))
			return column;
	}
	return NULL;
}

static void
put_halves(uint64 *to, int nwords, const uint32 *lower, const uint32 *upper, int nrows)
{
	if (nwords == 1)
	{
		for (int i = 0; i < nrows; i++)
			to[i] = lower[i] | (uint64) upper[i] << 32;
	}
	else
	{
		for (int i = 0; i < nrows; i++, to += nwords)
			*to = lower[i] | (uint64) upper[i] << 32;
	}
}

#define PUT(type) \
	do { \
		const type *from = (const type *) values; \
		if (shift == 0 && nwords == 1) \
		{ \
			for (int i = 0; i < nrows; i++) \
				to[i] = from[i]; \
		} \
		else if (shift == 0) \
		{ \
			for (int i = 0; i < nrows; i++) \
				to[i * nwords] = from[i]; \
		} \
		else \
		{ \
			for (int i = 0; i < nrows; i++) \
				to[i * nwords] |= (uint64) from[i] << shift; \
		} \
	} while (0)

static void
put_column(uint64 *to, int nwords, const GjKeyColumn *column, const char *values, int nrows)
{
	int			shift = column->shift;

	GJ_BY_WIDTH(column->width, PUT);
}

/*
 * Set a bit for each NULL.  The value of a NULL is zero, which the creator of the batch
 * guarantees.
 */
static void
put_nulls(uint64 *to, int nwords, int bit, const uint8 *nulls, int nrows)
{
	to += bit / GJ_WORD_BITS;
	for (int i = 0; i < nrows; i++)
		to[i * nwords] |= (uint64) (nulls[i] != 0) << (bit % GJ_WORD_BITS);
}

static pg_attribute_always_inline void
hash_all(uint64 seed, const uint64 *record, uint64 *hashes, int nrows, int data_words, int nwords)
{
	for (int i = 0; i < nrows; i++, record += nwords)
		hashes[i] = GjHashRecord(seed, record, data_words, nwords);
}

/*
 * Hash the records of a batch; the usual lengths have their own loops
 */
static void
hash_records(GjGroupTable *table, int nrows)
{
	const uint64 *records = table->batch_records;
	uint64	   *hashes = table->batch_hashes;
	uint64		seed = table->seed.value;

	if (table->nwords == table->data_words && table->nwords == 1)
		hash_all(seed, records, hashes, nrows, 1, 1);
	else if (table->nwords == table->data_words && table->nwords == 2)
		hash_all(seed, records, hashes, nrows, 2, 2);
	else if (table->nwords == table->data_words && table->nwords == 3)
		hash_all(seed, records, hashes, nrows, 3, 3);
	else
		hash_all(seed, records, hashes, nrows, table->data_words, table->nwords);
}

static inline bool
is_null(const GjGroupTable *table, const uint64 *record, int column)
{
	int			bit = table->null_bit + column;

	return (record[bit / GJ_WORD_BITS] >> (bit % GJ_WORD_BITS)) & 1;
}

static pg_attribute_always_inline Datum
make_datum(GjValueType type, uint64 value)
{
	switch (type)
	{
		case GJ_VALUE_BOOL:
			return BoolGetDatum((uint8) value != 0);
		case GJ_VALUE_INT2:
			return Int16GetDatum((int16) value);
		case GJ_VALUE_INT4:
			return Int32GetDatum((int32) value);
		case GJ_VALUE_OID:
			return ObjectIdGetDatum((Oid) value);
		default:
			return Int64GetDatum((int64) value);
	}
}

/*
 * Return a value of a group's key
 */
Datum
GjTableValue(const GjGroupTable *table, uint32 group, int column, bool *isnull)
{
	const uint64 *record = GjTableRecord(table, group);
	const GjKeyColumn *key = &table->columns[column];
	uint64		value = record[key->word] >> key->shift;

	*isnull = table->null_bit >= 0 && is_null(table, record, column);
	if (*isnull)
		return (Datum) 0;

	return make_datum(key->type, value);
}

#define READ(type) \
	for (int i = 0; i < n; i++) \
		values[i * stride + column] = make_datum(type, record[i * nwords] >> shift)

/*
 * Get the keys of n groups, storing one every `stride` values
 */
void
GjTableRead(const GjGroupTable *table, uint32 first, int n, int stride, Datum *values,
			bool *isnull)
{
	const int	ncolumns = table->ncolumns;
	const int	nwords = table->nwords;

	/* without GROUP BY there is one group, and its record has no words */
	if (ncolumns == 0)
		return;
	for (int column = 0; column < ncolumns; column++)
	{
		const GjKeyColumn *key = &table->columns[column];
		const uint64 *record = GjTableRecord(table, first) + key->word;
		const int	shift = key->shift;

		switch (key->type)
		{
			case GJ_VALUE_BOOL:
				READ(GJ_VALUE_BOOL);
				break;
			case GJ_VALUE_INT2:
				READ(GJ_VALUE_INT2);
				break;
			case GJ_VALUE_INT4:
				READ(GJ_VALUE_INT4);
				break;
			case GJ_VALUE_OID:
				READ(GJ_VALUE_OID);
				break;
			default:
				READ(GJ_VALUE_INT8);
				break;
		}
	}
	memset(isnull, false, n * stride);
	if (!hash_any_null(table, first, n))
		return;
	for (int i = 0; i < n; i++)
	{
		for (int column = 0; column < ncolumns; column++)
			isnull[i * stride + column] = is_null(table, GjTableRecord(table, first + i), column);
	}
}

/*
 * Return true if any of these groups has a NULL bit set.  Only NULL bits follow the first one.
 */
static bool
hash_any_null(const GjGroupTable *table, uint32 first, int n)
{
	const uint64 *record = GjTableRecord(table, first);
	int			word = table->null_bit / GJ_WORD_BITS;
	uint64		any = 0;

	if (table->null_bit < 0)
		return false;
	for (int i = 0; i < n; i++, record += table->nwords)
	{
		any |= record[word] >> (table->null_bit % GJ_WORD_BITS);
		for (int other = word + 1; other < table->nwords; other++)
			any |= record[other];
	}
	return any != 0;
}

/*-------------------------------------------------------------------------
 * Rows in order
 *
 * If rows arrive in the order of a grouping column, all rows of a group lie within the rows that
 * have one value of that column, a run.  So the table needs slots only for the groups of one run,
 * which stay in the nearest cache, however many groups there are.  Nothing has to be cleared for
 * the next run: a slot whose group has a number below those of the run is free.
 *
 * Rows of a key-ordered index arrive like that, but the order is not guaranteed: columns are
 * watched from the first row on.  At the first NULL, or value lower than the one before, the
 * table gets slots for all of its groups.
 *-------------------------------------------------------------------------
 */

/*
 * Start watching which columns ascend, from the first row on
 */
static void
order_begin(GjGroupTable *table)
{
	table->ordered_by = NULL;
	for (int i = 0; i < table->ncolumns; i++)
	{
		table->columns[i].ascends = table->ncolumns > 1;
		table->columns[i].highest = PG_INT64_MIN;
	}
}

/*
 * Stop using an order, because it has ended or no longer helps
 */
void
GjOrderEnd(GjGroupTable *table)
{
	uint64		nslots = table->nslots;

	for (int i = 0; i < table->ncolumns; i++)
		table->columns[i].ascends = false;
	if (table->phase != GJ_TABLE_ORDERED)
		return;
	table->phase = GJ_TABLE_SLOTS;
	table->ordered_by = NULL;
	GjRegionFree(&table->slots);
	table->nslots = 0;
	GjTableMakeSlots(table, nslots);
}

/*
 * Watch a batch, before any of its rows is looked up.  This must not happen twice for a row, as
 * it would when a table without order grows and repeats the lookup: the later rows would have
 * closed a run.
 */
static void
order_watch(GjGroupTable *table, const GjInput *input)
{
	if (table->phase == GJ_TABLE_ORDERED && table->may_defer &&
		table->ngroups - table->run_first > GJ_LONG_RUN)
		GjOrderEnd(table);
	for (int i = 0; i < table->ncolumns; i++)
	{
		GjKeyColumn *column = &table->columns[i];

		if (!column->ascends || input->nrows == 0)
			continue;
		column->ascends = ascends(column, &input->columns[column->input], input->nrows);
		if (!column->ascends && column == table->ordered_by)
			GjOrderEnd(table);
		if (column->ascends && table->phase == GJ_TABLE_SLOTS &&
			table->capacity >= GJ_ORDER_GROUPS)
		{
			table->phase = GJ_TABLE_ORDERED;
			table->ordered_by = column;
			order_make_slots(table, table->nslots);
		}
	}
}

#define ASCENDS(type) \
	do { \
		const type *values = (const type *) input->values; \
		int			ndescents = values[0] < column->highest; \
		for (int i = 1; i < nrows; i++) \
			ndescents += values[i] < values[i - 1]; \
		column->highest = values[nrows - 1]; \
		return ndescents == 0; \
	} while (0)

static bool
ascends(GjKeyColumn *column, const GjInputColumn *input, int nrows)
{
	if (input->nulls != NULL)
		return false;
	if (column->type == GJ_VALUE_INT4)
		ASCENDS(int32);
	if (column->type == GJ_VALUE_INT8)
		ASCENDS(int64);
	return false;
}

/*
 * Create slots for the groups of one run. nslots is the number needed when the order ends.
 */
static void
order_make_slots(GjGroupTable *table, uint64 nslots)
{
	Assert(table->phase == GJ_TABLE_ORDERED);
	table->nslots = nslots;

	/* since values ascend, the groups of the highest one were created last */
	table->run_first = table->ngroups;
	if (table->ngroups > 0)
		table->run_value = column_value(table->ordered_by,
										GjTableRecord(table, table->ngroups - 1));
	while (table->run_first > 0 &&
		   column_value(table->ordered_by,
						GjTableRecord(table, table->run_first - 1)) == table->run_value)
		table->run_first--;
	make_run_slots(table, GJ_FIRST_RUN_SLOTS);
}

static inline uint64
column_value(const GjKeyColumn *column, const uint64 *record)
{
	uint64		value = record[column->word] >> column->shift;

	return column->width == sizeof(uint32) ? (uint32) value : value;
}

/*
 * Provide at least nslots slots for the run, half of which stay free
 */
static void
make_run_slots(GjGroupTable *table, uint64 nslots)
{
	while (nslots < 2 * ((uint64) table->ngroups - table->run_first + 1))
		nslots *= 2;
	table->run_slots = Min(nslots, table->nslots);
	GjRegionFree(&table->slots);
	GjRegionAllocate(&table->slots, table->context, table->run_slots * sizeof(GjGroupSlot));
	memset(table->slots.start, 0, table->run_slots * sizeof(GjGroupSlot));
	for (uint32 group = table->run_first; group < table->ngroups; group++)
		insert(table, group);
}

static void
insert(GjGroupTable *table, uint32 group)
{
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64		mask = table->run_slots - 1;
	uint32		tag = (uint32) GjTableHash(table, group);
	uint64		at = tag & mask;

	while (slots[at].group != 0)
	{
		GjSeedNote(&table->seed, (at - tag) & mask);
		at = (at + 1) & mask;
	}
	slots[at] = (GjGroupSlot) {tag, group + 1};
}

static pg_attribute_always_inline bool
is_same(const uint64 *a, const uint64 *b, int nwords)
{
	uint64		difference = 0;

	for (int word = 0; word < nwords; word++)
		difference |= a[word] ^ b[word];
	return difference == 0;
}

/*
 * Find the groups of the rows of one run, starting at row, or create them.  Returns the first row
 * of another run, or the row for which there is no room or no slot, or nrows.
 */
static pg_attribute_always_inline int
find_in_run(GjGroupTable *table, int row, int nrows, uint32 *numbers, const int nwords)
{
	const uint64 *record = table->batch_records + row * nwords;
	const uint64 *order = record + table->ordered_by->word;
	const int	shift = table->ordered_by->shift;
	const uint64 value_mask = table->ordered_by->width == sizeof(uint32) ? PG_UINT32_MAX :
		PG_UINT64_MAX;
	const uint64 run_value = table->run_value;
	const uint64 *hashes = table->batch_hashes;
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64	   *records = (uint64 *) table->records.start;
	const uint32 run_first = table->run_first;
	const uint64 mask = table->run_slots - 1;
	uint32		ngroups = table->ngroups;
	uint32		most = most_in_run(table);

	for (; row < nrows && (*order >> shift & value_mask) == run_value;
		 row++, record += nwords, order += nwords)
	{
		uint32		tag = (uint32) hashes[row];
		uint64		at = tag & mask;

		while (slots[at].group > run_first &&
			   (slots[at].tag != tag ||
				!is_same(records + (Size) slots[at].group * nwords, record, nwords)))
		{
			GjSeedNote(&table->seed, (at - tag) & mask);
			at = (at + 1) & mask;
		}
		if (slots[at].group <= run_first)
		{
			if (ngroups == most)
				break;
			slots[at] = (GjGroupSlot) {tag, ++ngroups};
			memcpy(records + (Size) ngroups * nwords, record, nwords * sizeof(uint64));
		}
		numbers[row] = slots[at].group - 1;
	}
	table->ngroups = ngroups;
	return row;
}

/*
 * Return the number of groups at which the run needs more slots, or the table more room
 */
static inline uint32
most_in_run(const GjGroupTable *table)
{
	if (table->run_slots == table->nslots)
		return table->capacity;
	return (uint32) Min(table->run_first + table->run_slots / 2, table->capacity);
}

static pg_attribute_always_inline int
find_in_runs(GjGroupTable *table, int row, int nrows, uint32 *numbers, const int nwords)
{
	while ((row = find_in_run(table, row, nrows, numbers, nwords)) < nrows)
	{
		uint64		value = column_value(table->ordered_by,
										 table->batch_records + row * nwords);

		if (value != table->run_value)
		{
			table->run_value = value;
			table->run_first = table->ngroups;
		}
		else if (table->ngroups < table->capacity)
			make_run_slots(table, table->run_slots * 4);
		else
			return row;
	}
	return nrows;
}

/*
 * Find the groups of rows, like GjTableFind()
 */
static int
order_find(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	switch (table->nwords)
	{
		case 1:
			return find_in_runs(table, row, nrows, numbers, 1);
		case 2:
			return find_in_runs(table, row, nrows, numbers, 2);
		case 3:
			return find_in_runs(table, row, nrows, numbers, 3);
		default:
			return find_in_runs(table, row, nrows, numbers, table->nwords);
	}
}
