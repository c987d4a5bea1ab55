/*-------------------------------------------------------------------------
 *
 * grouprecord.c
 *	  Keys of groups as records: the columns of a key in a few words, side by side.
 *
 * Records are compared and hashed by words, whatever the columns are.  A batch is made
 * records column by column, each in a loop that knows one width.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

static void put_columns(GjGroupTable *table, const GjInput *input, bool are_first);
static const GjKeyColumn *upper_half(const GjGroupTable *table, int word);
static void put_halves(uint64 *to, int nwords, const uint32 *lower, const uint32 *upper,
					   int nrows);
static void put_column(uint64 *to, int nwords, const GjKeyColumn *column, const char *values,
					   int nrows);
static void put_nulls(uint64 *to, int nwords, int bit, const uint8 *nulls, int nrows);
static void hash_records(GjGroupTable *table, int nrows);
static bool any_null(const GjGroupTable *table, uint32 first, int n);

void
GjTableInit(GjGroupTable *table, MemoryContext context, int ncolumns)
{
	memset(table, 0, sizeof(GjGroupTable));
	table->context = context;
	table->ncolumns = ncolumns;
	table->columns = MemoryContextAllocZero(context, ncolumns * sizeof(GjKeyColumn));
}

/*
 * Decide what a record looks like, once the columns are known.  The widest come first, so
 * that none lies in two words.  NULL bits for which the last word has no room come only when
 * there is a NULL.
 */
void
GjTableLayOut(GjGroupTable *table)
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

	table->batch_words = table->nwords;
	table->batch_records = MemoryContextAlloc(table->context,
											  GJ_BATCH_ROWS * table->nwords * sizeof(uint64));
	table->batch_hashes = MemoryContextAlloc(table->context, GJ_BATCH_ROWS * sizeof(uint64));
}

/*
 * Give records a place for NULL bits: a word, or several, behind the others.  Of the records
 * that are there no value is NULL.
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
 * Make the records of a batch and their hashes
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
		table->batch_words = nwords;
		table->batch_records = repalloc(table->batch_records,
										GJ_BATCH_ROWS * nwords * sizeof(uint64));
	}

	put_columns(table, input, true);
	put_columns(table, input, false);
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
	GjOrderWatch(table, input);
	table->is_packed = true;
}

/*
 * Put columns into the records: the first ones of their words, which they set, or the others.
 * Two of four bytes fill a word, and are put there together.
 */
static void
put_columns(GjGroupTable *table, const GjInput *input, bool are_first)
{
	for (int i = 0; i < table->ncolumns; i++)
	{
		const GjKeyColumn *column = &table->columns[i];
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
 * The column that fills the upper half of a word; the lower one then has such a column, too
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

	switch (column->width)
	{
		case 1:
			PUT(uint8);
			break;
		case 2:
			PUT(uint16);
			break;
		case 4:
			PUT(uint32);
			break;
		default:
			PUT(uint64);
			break;
	}
}

/*
 * Set a bit where there is a NULL.  The value there is zero, as whoever made the batch has
 * promised.
 */
static void
put_nulls(uint64 *to, int nwords, int bit, const uint8 *nulls, int nrows)
{
	to += bit / GJ_WORD_BITS;
	for (int i = 0; i < nrows; i++)
		to[i * nwords] |= (uint64) (nulls[i] != 0) << (bit % GJ_WORD_BITS);
}

static pg_attribute_always_inline void
hash_all(const uint64 *record, uint64 *hashes, int nrows, int data_words, int nwords)
{
	for (int i = 0; i < nrows; i++, record += nwords)
		hashes[i] = GjHashRecord(record, data_words, nwords);
}

/*
 * Hash the records of a batch; the usual lengths have their own loops
 */
static void
hash_records(GjGroupTable *table, int nrows)
{
	const uint64 *records = table->batch_records;
	uint64	   *hashes = table->batch_hashes;

	if (table->nwords == table->data_words && table->nwords == 1)
		hash_all(records, hashes, nrows, 1, 1);
	else if (table->nwords == table->data_words && table->nwords == 2)
		hash_all(records, hashes, nrows, 2, 2);
	else if (table->nwords == table->data_words && table->nwords == 3)
		hash_all(records, hashes, nrows, 3, 3);
	else
		hash_all(records, hashes, nrows, table->data_words, table->nwords);
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
 * Get a value of a group's key
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
 * Get the keys of n groups, one every stride values
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
	if (!any_null(table, first, n))
		return;
	for (int i = 0; i < n; i++)
	{
		for (int column = 0; column < ncolumns; column++)
			isnull[i * stride + column] = is_null(table, GjTableRecord(table, first + i), column);
	}
}

/*
 * Has any of these groups a NULL bit?  Nothing else is behind the first one.
 */
static bool
any_null(const GjGroupTable *table, uint32 first, int n)
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
