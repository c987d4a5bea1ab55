/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  Where columns are located: as arrays in a data page, as rows in a tail page; and how values
 *	  become keys.
 *
 * Both layouts follow from the widths of the columns alone.  The metapage describes the arrays
 * nevertheless, so that other programs, and later versions, need not know the rules; code that
 * reads the metapage compares them.
 *
 * A data page has, in this order, the keys, the TIDs, the values of each INCLUDE column, the
 * bitmap of used slots, and for each INCLUDE column its bitmap of NULLs.  The number of slots is
 * a multiple of 32.  So each array is a multiple of 32 bytes long, starts at a multiple of 8,
 * and is aligned; a bitmap is a multiple of 4.
 *
 * A row, both on a tail page and in memory, consists of key, TID and values without padding,
 * then a bit for each value that is NULL.  The bytes of a NULL are zero everywhere, so that
 * equal entries are equal bytes.
 *
 * INCLUDE columns are never compared, only returned.  So any fixed-width type that is passed by
 * value is supported, and its Datum is stored unchanged.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "port/pg_bitutils.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "base/gpujoin.h"
#include "pages.h"

/* The part of a page that is available for arrays */
#define PAGE_START		MAXALIGN(SizeOfPageHeaderData)
#define PAGE_ROOM		((int) (BLCKSZ - PAGE_START - sizeof(GjPageOpaqueData)))

PG_FUNCTION_INFO_V1(gpujoin_key_int2);
PG_FUNCTION_INFO_V1(gpujoin_key_int4);
PG_FUNCTION_INFO_V1(gpujoin_key_int8);
PG_FUNCTION_INFO_V1(gpujoin_key_oid);

static int	null_bytes(int ncolumns);
static void store_value(char *where, int width, uint64 value);
static int	list_used(Page page, const GjIndexInfo *info, uint16 *slots);
static void to_rows(char *rows, const GjIndexInfo *info, int offset, const char *values,
					int width, const uint16 *slots, int n);
static void from_rows(char *values, int width, const char *const *rows, int offset, int n);
static bool any_null(const GjIndexInfo *info, const char *const *rows, int n);

/*
 * Check that the INCLUDE columns of an index can be stored; the error names one that cannot
 */
void
GjCheckIncluded(Relation index)
{
	TupleDesc	desc = RelationGetDescr(index);
	GjLayout	layout;

	for (int i = 1; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (!GjCanInclude(attribute))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("access method \"%s\" cannot include column \"%s\" of type %s",
							GJ_NAME, NameStr(attribute->attname),
							format_type_be(attribute->atttypid)),
					 errdetail("Only types of fixed width that are passed by value can be "
							   "included: integers, floating-point numbers, boolean, \"char\", "
							   "date, timestamp, oid and the like."),
					 errhint("Leave the column out of INCLUDE; it is then read from the table.")));
	}
	if (!GjLayoutMake(desc, &layout))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has too many included columns",
						RelationGetRelationName(index)),
				 errdetail("An index can include %d columns, and 32 of its entries must fit "
						   "on a page.", GJ_MAX_INCLUDED),
				 errhint("Leave some columns out of INCLUDE; they are then read from the "
						 "table.")));
}

/*
 * Return true if an index can include a column like this
 */
bool
GjCanInclude(const FormData_pg_attribute *attribute)
{
	return attribute->attbyval &&
		(attribute->attlen == 1 || attribute->attlen == 2 || attribute->attlen == 4 ||
		 attribute->attlen == 8);
}

/*
 * Compute the layout of an index's pages; returns false if there is no valid layout
 */
bool
GjLayoutMake(TupleDesc desc, GjLayout *layout)
{
	int			nincluded = desc->natts - 1;
	int			entry_width = sizeof(ItemPointerData);
	int			words;
	int			offset = PAGE_START;

	if (nincluded > GJ_MAX_INCLUDED)
		return false;
	for (int i = 0; i < desc->natts; i++)
		entry_width += TupleDescAttr(desc, i)->attlen;

	/* a word of the used bitmap, and of each bitmap of NULLs, for every 32 entries */
	words = PAGE_ROOM / (entry_width * GJ_SLOTS_PER_WORD +
						 (1 + nincluded) * (int) sizeof(uint32));
	if (words == 0)
		return false;

	memset(layout, 0, sizeof(*layout));
	layout->slots = words * GJ_SLOTS_PER_WORD;
	layout->ncolumns = GJ_FIRST_INCLUDED + nincluded;
	layout->row_width = entry_width + null_bytes(nincluded);

	for (int i = 0; i < layout->ncolumns; i++)
	{
		GjColumnDesc *column = &layout->columns[i];

		if (i == GJ_TID_COLUMN)
			column->width = sizeof(ItemPointerData);
		else
			column->width = TupleDescAttr(desc, i == GJ_KEY_COLUMN ? 0 : i - 1)->attlen;
		column->offset = offset;
		offset += layout->slots * column->width;
	}
	layout->used_offset = offset;
	offset += words * sizeof(uint32);
	for (int i = GJ_FIRST_INCLUDED; i < layout->ncolumns; i++)
	{
		layout->columns[i].nulls_offset = offset;
		offset += words * sizeof(uint32);
	}
	layout->end = offset;
	return true;
}

/*
 * Fill in the arrays and rows as described by a checked metapage
 */
void
GjLayoutDescribe(const GjMetaPageData *meta, GjIndexInfo *info)
{
	int			row_offset;

	info->slots = meta->slots;
	info->words = meta->slots / GJ_SLOTS_PER_WORD;
	info->key_width = meta->columns[GJ_KEY_COLUMN].width;
	info->keys_offset = meta->columns[GJ_KEY_COLUMN].offset;
	info->tids_offset = meta->columns[GJ_TID_COLUMN].offset;
	info->used_offset = meta->used_offset;
	info->nincluded = meta->ncolumns - GJ_FIRST_INCLUDED;

	row_offset = info->key_width + sizeof(ItemPointerData);
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjColumnDesc *desc = &meta->columns[GJ_FIRST_INCLUDED + i];
		GjIncludedColumn *column = &info->included[i];

		column->width = desc->width;
		column->offset = desc->offset;
		column->nulls_offset = desc->nulls_offset;
		column->row_offset = row_offset;
		row_offset += desc->width;
	}
	info->row_nulls_offset = row_offset;
	info->row_width = row_offset + null_bytes(info->nincluded);
	info->arrays_end = info->used_offset +
		(1 + info->nincluded) * info->words * sizeof(uint32);
}

/*
 * Return the width of a tail row, for callers that have not read the metapage
 */
int
GjRowWidth(TupleDesc desc)
{
	int			width = sizeof(ItemPointerData) + null_bytes(desc->natts - 1);

	for (int i = 0; i < desc->natts; i++)
		width += TupleDescAttr(desc, i)->attlen;
	return width;
}

/*
 * Form a row; values[] and isnull[] are those of the INCLUDE columns
 */
void
GjRowForm(const GjIndexInfo *info, int64 key, const ItemPointerData *tid,
		  const Datum *values, const bool *isnull, char *row)
{
	store_value(row, info->key_width, (uint64) key);
	memcpy(row + info->key_width, tid, sizeof(ItemPointerData));
	if (info->nincluded == 0)
		return;

	memset(row + info->row_nulls_offset, 0, null_bytes(info->nincluded));
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		store_value(row + column->row_offset, column->width, isnull[i] ? 0 : (uint64) values[i]);
		if (isnull[i])
			row[info->row_nulls_offset + i / 8] |= 1 << (i % 8);
	}
}

/*
 * Form the row that is stored in a slot of a data page
 */
void
GjRowFromSlot(Page page, const GjIndexInfo *info, int slot, char *row)
{
	memcpy(row, GjDataKeys(page, info) + (Size) slot * info->key_width, info->key_width);
	memcpy(row + info->key_width, &GjDataTids(page, info)[slot], sizeof(ItemPointerData));
	memset(row + info->row_nulls_offset, 0, null_bytes(info->nincluded));
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		memcpy(row + column->row_offset,
			   GjDataValues(page, column) + (Size) slot * column->width, column->width);
		if (GjDataNulls(page, column)[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot))
			row[info->row_nulls_offset + i / 8] |= 1 << (i % 8);
	}
}

static int
null_bytes(int ncolumns)
{
	return (ncolumns + 7) / 8;
}

/*
 * Store the lower bytes of a value at an address that need not be aligned
 */
static void
store_value(char *where, int width, uint64 value)
{
	union
	{
		uint8		one;
		uint16		two;
		uint32		four;
		uint64		eight;
	}			bytes;

	switch (width)
	{
		case 1:
			bytes.one = (uint8) value;
			break;
		case 2:
			bytes.two = (uint16) value;
			break;
		case 4:
			bytes.four = (uint32) value;
			break;
		default:
			bytes.eight = value;
			break;
	}
	memcpy(where, &bytes, width);
}

/*-------------------------------------------------------------------------
 * Rows of many columns
 *
 * Many rows at a time: from the columns of a data page, and into them.
 *
 * A fold takes each row out of a delta's page and puts it into a run's.  Row by row that is a
 * call, a switch and a bit for each value; column by column it is a loop that copies.
 *-------------------------------------------------------------------------
 */

/*
 * Form rows from a data page's entries, stored consecutively; returns their number
 */
int
GjDataGetRows(Page page, const GjIndexInfo *info, char *rows)
{
	uint16		slots[GJ_MAX_SLOTS];
	int			n = list_used(page, info, slots);
	int			null_bytes = info->row_width - info->row_nulls_offset;

	if (n == 0)
		return 0;
	to_rows(rows, info, 0, GjDataKeys(page, info), info->key_width, slots, n);
	to_rows(rows, info, info->key_width, (char *) GjDataTids(page, info),
			sizeof(ItemPointerData), slots, n);
	for (int i = 0; null_bytes > 0 && i < n; i++)
		memset(rows + i * info->row_width + info->row_nulls_offset, 0, null_bytes);
	for (int column = 0; column < info->nincluded; column++)
	{
		const GjIncludedColumn *included = &info->included[column];
		const uint32 *nulls = GjDataNulls(page, included);
		uint32		any = 0;

		to_rows(rows, info, included->row_offset, GjDataValues(page, included),
				included->width, slots, n);
		for (int word = 0; word < info->words; word++)
			any |= nulls[word];
		for (int i = 0; any != 0 && i < n; i++)
		{
			if (nulls[slots[i] / GJ_SLOTS_PER_WORD] & GjSlotBit(slots[i]))
				rows[i * info->row_width + info->row_nulls_offset + column / 8] |=
					1 << (column % 8);
		}
	}
	return n;
}

static int
list_used(Page page, const GjIndexInfo *info, uint16 *slots)
{
	const uint32 *used = GjDataUsed(page, info);
	int			n = 0;

	for (int word = 0; word < info->words; word++)
	{
		for (uint32 left = used[word]; left != 0; left &= left - 1)
			slots[n++] = word * GJ_SLOTS_PER_WORD + pg_rightmost_one_pos32(left);
	}
	return n;
}

/* Copy a constant size, so that each copy is a load and a store */
#define COPY_TO_ROWS(size) \
	for (int i = 0; i < n; i++) \
		memcpy(rows + i * row_width + offset, values + slots[i] * (size), (size))

static void
to_rows(char *rows, const GjIndexInfo *info, int offset, const char *values, int width,
		const uint16 *slots, int n)
{
	Size		row_width = info->row_width;

	switch (width)
	{
		case 1:
			COPY_TO_ROWS(1);
			break;
		case 2:
			COPY_TO_ROWS(2);
			break;
		case 4:
			COPY_TO_ROWS(4);
			break;
		case sizeof(ItemPointerData):
			COPY_TO_ROWS(sizeof(ItemPointerData));
			break;
		default:
			COPY_TO_ROWS(8);
			break;
	}
}

/*
 * Put rows into an empty data page; they must be in the order of (key, TID) and fit
 */
void
GjDataPutRows(Page page, const GjIndexInfo *info, const char *const *rows, int n)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32	   *used = GjDataUsed(page, info);

	Assert(opaque->used == 0 && n > 0 && n <= info->slots);
	from_rows(GjDataKeys(page, info), info->key_width, rows, 0, n);
	from_rows((char *) GjDataTids(page, info), sizeof(ItemPointerData), rows, info->key_width, n);
	for (int column = 0; column < info->nincluded; column++)
		from_rows(GjDataValues(page, &info->included[column]), info->included[column].width,
				  rows, info->included[column].row_offset, n);
	if (any_null(info, rows, n))
	{
		for (int column = 0; column < info->nincluded; column++)
		{
			uint32	   *nulls = GjDataNulls(page, &info->included[column]);

			for (int i = 0; i < n; i++)
			{
				if (rows[i][info->row_nulls_offset + column / 8] & (1 << (column % 8)))
					nulls[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
			}
		}
	}
	for (int i = 0; i < n; i++)
		used[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
	opaque->used = n;
	opaque->min_key = GjDataGetKey(page, info, 0);
	opaque->max_key = GjDataGetKey(page, info, n - 1);
}

#define COPY_FROM_ROWS(size) \
	for (int i = 0; i < n; i++) \
		memcpy(values + i * (size), rows[i] + offset, (size))

static void
from_rows(char *values, int width, const char *const *rows, int offset, int n)
{
	switch (width)
	{
		case 1:
			COPY_FROM_ROWS(1);
			break;
		case 2:
			COPY_FROM_ROWS(2);
			break;
		case 4:
			COPY_FROM_ROWS(4);
			break;
		case sizeof(ItemPointerData):
			COPY_FROM_ROWS(sizeof(ItemPointerData));
			break;
		default:
			COPY_FROM_ROWS(8);
			break;
	}
}

static bool
any_null(const GjIndexInfo *info, const char *const *rows, int n)
{
	int			nbytes = info->row_width - info->row_nulls_offset;
	char		any = 0;

	for (int i = 0; i < n; i++)
	{
		for (int byte = 0; byte < nbytes; byte++)
			any |= rows[i][info->row_nulls_offset + byte];
	}
	return any != 0;
}

/*-------------------------------------------------------------------------
 * Values as keys
 *
 * Keys: from a value of an indexed type to the integer that is stored.
 *
 * All keys are compared as int64.  Support function 1 of each operator class converts a value to
 * its key; equal values of any two types of a family become equal integers, which is what makes
 * int4 = int8 work.  Integers and dates are their own keys.  An oid is treated as the int4 with
 * the same bits, so that it fits four bytes: the mapping is one to one, and nothing here depends
 * on order.
 *
 * A type whose keys are hashes would map unequal values to one integer; the
 * metapage has a flag for that, and no operator class sets it yet.
 *-------------------------------------------------------------------------
 */

/*
 * Convert a value to its key
 *
 * This is called for each row that a query processes, so the work of the common functions is
 * done here, which saves two calls.
 */
int64
GjKeyFromDatum(FmgrInfo *key_proc, Datum value)
{
	if (key_proc->fn_addr == gpujoin_key_int4)
		return DatumGetInt32(value);
	if (key_proc->fn_addr == gpujoin_key_int8)
		return DatumGetInt64(value);
	return DatumGetInt64(FunctionCall1(key_proc, value));
}

/*
 * Return true if a key computed by this function is the value's own bits, so that the value can
 * be restored
 */
bool
GjKeyProcKeepsValue(PGFunction function)
{
	return function == gpujoin_key_int2 || function == gpujoin_key_int4 ||
		function == gpujoin_key_int8 || function == gpujoin_key_oid;
}

/*
 * Support functions: key extraction
 */
Datum
gpujoin_key_int2(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT16(0));
}

/* int4 and date */
Datum
gpujoin_key_int4(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT32(0));
}

/* int8, timestamp and timestamptz */
Datum
gpujoin_key_int8(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT64(0));
}

Datum
gpujoin_key_oid(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int32) PG_GETARG_OID(0));
}
