/*-------------------------------------------------------------------------
 *
 * topwords.c
 *	  Sort columns as words that are compared in place of them.
 *
 * Each column becomes one or two unsigned words whose ascending order is the one that is
 * wanted, DESC and NULLs included.
 *
 *	- A value of up to four bytes takes one word, and NULL is a number below or above all.
 *	- One of eight bytes leaves no such number: NULL is the lowest or the highest one, and a
 *	  second word tells it from that value.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_type_d.h"

#include "topwords.h"

#define SMALL_MAX				((uint64) PG_UINT32_MAX)

/*
 * Can values of this type be put in the order of its btree operators?  Only PostgreSQL's own
 * types, which have no other default order.
 */
bool
GjTypeSorts(Oid type, GjSortKind *kind)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*kind = GJ_SORT_SIGNED;
			return true;
		case BOOLOID:
		case OIDOID:
			*kind = GJ_SORT_UNSIGNED;
			return true;
		case FLOAT4OID:
		case FLOAT8OID:
			*kind = GJ_SORT_FLOAT;
			return true;
		default:
			return false;
	}
}

/*
 * How many words has a value?
 */
int
GjTopCountWords(const GjSortColumn *column)
{
	return column->width > sizeof(uint32) ? 2 : 1;
}

/*
 * A value as a number of up to 32 bits, or of 64 (large), in the ascending order of values
 */
static pg_attribute_always_inline uint64
order_value(GjSortKind kind, uint16 width, bool large, const char *at)
{
	int64		value = 0;

	if (kind == GJ_SORT_FLOAT && width == sizeof(float4))
	{
		float4		f = *(const float4 *) at;
		uint32		bits = *(const uint32 *) at;

		/* 0 and -0 are equal, and all NaNs are, above infinity */
		bits = isnan(f) ? 0x7fc00000 : f == 0 ? 0 : bits;
		return bits >> 31 ? (uint32) ~bits : bits | 0x80000000;
	}
	if (kind == GJ_SORT_FLOAT)
	{
		float8		f = *(const float8 *) at;
		uint64		bits = *(const uint64 *) at;

		bits = isnan(f) ? UINT64CONST(0x7ff8000000000000) : f == 0 ? 0 : bits;
		return bits >> 63 ? ~bits : bits | UINT64CONST(0x8000000000000000);
	}
	switch (width)
	{
		case sizeof(uint8):
			value = *(const uint8 *) at;
			break;
		case sizeof(int16):
			value = *(const int16 *) at;
			break;
		case sizeof(int32):
			value = *(const int32 *) at;
			break;
		case sizeof(int64):
			value = *(const int64 *) at;
			break;
	}
	if (large)
		return (uint64) value ^ (kind == GJ_SORT_SIGNED ? UINT64CONST(0x8000000000000000) : 0);
	return (uint32) value ^ (kind == GJ_SORT_SIGNED ? 0x80000000 : 0);
}

/*
 * The first words of many entries
 */
void
GjTopFirstWords(const GjSortColumn *sort, const GjEntryColumn *column, uint64 first, int n,
				uint64 *out)
{
	const uint16 width = column->width;
	const bool	large = sort->width > sizeof(uint32);
	const char *at = column->values + first * width;
	const uint64 flip = !sort->descending ? 0 : large ? PG_UINT64_MAX : SMALL_MAX;
	const uint64 add = large ? 0 : 1;

#define MAKE(kind, width, large) \
	for (int i = 0; i < n; i++) \
		out[i] = (order_value(kind, width, large, at + i * (width)) ^ flip) + add

	if (sort->kind == GJ_SORT_SIGNED && width == sizeof(int32) && !large)
		MAKE(GJ_SORT_SIGNED, sizeof(int32), false);
	else if (sort->kind == GJ_SORT_SIGNED && width == sizeof(int64) && large)
		MAKE(GJ_SORT_SIGNED, sizeof(int64), true);
	else if (sort->kind == GJ_SORT_FLOAT && width == sizeof(float8))
		MAKE(GJ_SORT_FLOAT, sizeof(float8), true);
	else
		MAKE(sort->kind, width, large);
#undef MAKE

	if (!column->has_nulls)
		return;
	for (int i = 0; i < n; i++)
	{
		uint64		null = sort->nulls_first ? 0 : large ? PG_UINT64_MAX : SMALL_MAX + 2;

		out[i] = column->nulls[first + i] ? null : out[i];
	}
}

#define FIND_EXTREME(type, extreme) \
	do { \
		const type *values = (const type *) column->values + first; \
		extreme = values[0]; \
		if (sort->descending) \
		{ \
			for (int i = 1; i < n; i++) \
				extreme = Max(extreme, values[i]); \
		} \
		else \
		{ \
			for (int i = 1; i < n; i++) \
				extreme = Min(extreme, values[i]); \
		} \
	} while (0)

/*
 * No first word of these entries is lower; zero, where that is not found out faster than the
 * words are made.
 */
uint64
GjTopLowestWord(const GjSortColumn *sort, const GjEntryColumn *column, uint64 first, int n)
{
	uint64		words[2];

	if (column->has_nulls || sort->kind != GJ_SORT_SIGNED)
		return 0;
	if (column->width == sizeof(int32))
	{
		int32		extreme;

		FIND_EXTREME(int32, extreme);
		GjTopWords(sort, column->width, (const char *) &extreme, false, words);
		return words[0];
	}
	if (column->width == sizeof(int64))
	{
		int64		extreme;

		FIND_EXTREME(int64, extreme);
		GjTopWords(sort, column->width, (const char *) &extreme, false, words);
		return words[0];
	}
	return 0;
}

/*
 * The words of one value
 */
void
GjTopWords(const GjSortColumn *column, uint16 width, const char *at, bool isnull, uint64 *out)
{
	bool		large = column->width > sizeof(uint32);
	uint64		max = large ? PG_UINT64_MAX : SMALL_MAX;
	uint64		value;

	if (isnull)
		value = column->nulls_first ? 0 : large ? max : max + 2;
	else
		value = (order_value(column->kind, width, large, at) ^ (column->descending ? max : 0)) +
			(large ? 0 : 1);
	out[0] = value;
	if (large)
		out[1] = isnull != column->nulls_first;
}

/*
 * The words of the sort columns of a row that comes from elsewhere
 */
void
GjTopRowWords(const GjSortColumn *columns, int ncolumns, const Datum *values, const bool *isnull,
			  uint64 *out)
{
	for (int i = 0; i < ncolumns; i++)
	{
		const GjSortColumn *column = &columns[i];
		union
		{
			uint64		align;
			char		bytes[sizeof(uint64)];
		}			value;

		store_att_byval(value.bytes, values[i], column->width);
		GjTopWords(column, column->width, value.bytes, isnull[i], out);
		out += GjTopCountWords(column);
	}
}
