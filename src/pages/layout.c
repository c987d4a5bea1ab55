/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  Where columns are located: as arrays in a data page, as rows in a tail page.
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
 * The rests of keys are one more column of 8 bytes, behind the INCLUDE columns, and treated like
 * these.  Whether there are any is a flag of the metapage.
 *
 * INCLUDE columns are never compared, only returned.  So any fixed-width type that is passed by
 * value is supported, and its Datum is stored unchanged.  A numeric is stored as an integer of 8
 * bytes (base/numeric.c).  The kind of each column is in the metapage, and with the type's width
 * it decides the layout.
 *
 * A uuid, or a short text, has two words (wide.c).  The first one is in the attribute's own column;
 * the second words of all such attributes are further columns of 8 bytes, behind the rests.  If a
 * value is NULL, both of its words are.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "port/pg_bitutils.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "base/settings.h"
#include "pages.h"

/* The part of a page that is available for arrays */
#define PAGE_START		MAXALIGN(SizeOfPageHeaderData)
#define PAGE_ROOM		((int) (BLCKSZ - PAGE_START - sizeof(GjPageOpaqueData)))

static bool is_plain(const FormData_pg_attribute *attribute);
static bool is_uuid(const FormData_pg_attribute *attribute);
static bool is_short_text(const FormData_pg_attribute *attribute, GjColumnKind *kind);
static bool can_be(const FormData_pg_attribute *attribute, uint16 flags);
static inline uint64 stored_bits(const GjIncludedColumn *column, Datum value);
static int	column_width(const FormData_pg_attribute *attribute, GjColumnKind kind);
static void store_words(const GjIndexInfo *info, const GjIncludedColumn *column, Datum value,
						bool isnull, char *row);
static void store_value(char *where, int width, uint64 value);

/*
 * Return true if a new index stores an attribute as a numeric column
 */
bool
GjColumnIsNumeric(const FormData_pg_attribute *attribute)
{
	return attribute->attlen == -1 &&
		(attribute->atttypid == NUMERICOID ||
		 (attribute->atttypid >= FirstNormalObjectId &&
		  getBaseType(attribute->atttypid) == NUMERICOID));
}

/*
 * Return true if a new index stores an attribute as a short text
 */
static bool
is_short_text(const FormData_pg_attribute *attribute, GjColumnKind *kind)
{
	Oid			type = attribute->atttypid;

	if (attribute->attlen == -1 && type >= FirstNormalObjectId)
		type = getBaseType(type);
	*kind = type == BPCHAROID ? GJ_COLUMN_WIDE_BPCHAR : GJ_COLUMN_WIDE_TEXT;
	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID;
}

/*
 * Return true if an index can include a column like this
 */
bool
GjCanInclude(const FormData_pg_attribute *attribute)
{
	GjColumnKind kind;

	return is_plain(attribute) || is_uuid(attribute) || GjColumnIsNumeric(attribute) ||
		is_short_text(attribute, &kind);
}

/*
 * Return the flags (GjColumnDesc) of an INCLUDE column of a new index, without the scales of a
 * numeric
 */
uint16
GjColumnNewFlags(const FormData_pg_attribute *attribute)
{
	GjColumnKind kind;

	return GJ_COLUMN_FLAGS(GjColumnIsNumeric(attribute) ? GJ_COLUMN_NUMERIC :
						   is_uuid(attribute) ? GJ_COLUMN_WIDE_UUID :
						   is_short_text(attribute, &kind) ? kind : GJ_COLUMN_PLAIN, 0, 0);
}

static bool
is_plain(const FormData_pg_attribute *attribute)
{
	return attribute->attbyval &&
		(attribute->attlen == 1 || attribute->attlen == 2 || attribute->attlen == 4 ||
		 attribute->attlen == 8);
}

static bool
is_uuid(const FormData_pg_attribute *attribute)
{
	return attribute->attlen == UUID_LEN && getBaseType(attribute->atttypid) == UUIDOID;
}

/*
 * Return true if a column with these flags can have the values of an attribute.  This must not read
 * catalogs, because a metapage is locked.
 */
static bool
can_be(const FormData_pg_attribute *attribute, uint16 flags)
{
	switch (GJ_COLUMN_KIND(flags))
	{
		case GJ_COLUMN_PLAIN:
			return is_plain(attribute) && flags == GJ_COLUMN_FLAGS(GJ_COLUMN_PLAIN, 0, 0);
		case GJ_COLUMN_NUMERIC:
			return attribute->attlen == -1 &&
				GJ_COLUMN_STORED_SCALE(flags) <= GJ_COLUMN_DISPLAY_SCALE(flags) &&
				GJ_COLUMN_STORED_SCALE(flags) <= GJ_MAX_STORED_SCALE;
		case GJ_COLUMN_WIDE_UUID:
			return attribute->attlen == UUID_LEN && !attribute->attbyval &&
				flags == GJ_COLUMN_FLAGS(GJ_COLUMN_WIDE_UUID, 0, 0);
		case GJ_COLUMN_WIDE_TEXT:
		case GJ_COLUMN_WIDE_BPCHAR:
			return attribute->attlen == -1 &&
				flags == GJ_COLUMN_FLAGS(GJ_COLUMN_KIND(flags), 0, 0);
		default:
			return false;
	}
}

/*
 * Return the bytes that a column takes in an entry, without a second word
 */
static int
column_width(const FormData_pg_attribute *attribute, GjColumnKind kind)
{
	return kind == GJ_COLUMN_PLAIN ? attribute->attlen : (int) sizeof(int64);
}

/*
 * Compute the layout of an index's pages; returns false if there is no valid layout
 *
 * flags[] are those of the INCLUDE columns: GjColumnDesc.
 */
bool
GjLayoutMake(TupleDesc desc, bool has_rests, const uint16 *flags, GjLayout *layout)
{
	int			nwithout = desc->natts - 1 + (has_rests ? 1 : 0);	/* second words */
	int			nincluded = nwithout;
	int			entry_width = TupleDescAttr(desc, 0)->attlen + sizeof(ItemPointerData);
	int			words;
	int			offset = PAGE_START;

	if (nwithout > GJ_MAX_INCLUDED)
		return false;
	for (int i = 1; i < desc->natts; i++)
	{
		if (!can_be(TupleDescAttr(desc, i), flags[i - 1]))
			return false;
		entry_width += column_width(TupleDescAttr(desc, i), GJ_COLUMN_KIND(flags[i - 1]));
		nincluded += GjKindIsWide(GJ_COLUMN_KIND(flags[i - 1])) ? 1 : 0;
	}
	if (nincluded > GJ_MAX_INCLUDED)
		return false;
	entry_width += (nincluded - (desc->natts - 1)) * sizeof(int64);

	/* a word of the used bitmap, and of each bitmap of NULLs, for every 32 entries */
	words = PAGE_ROOM / (entry_width * GJ_SLOTS_PER_WORD +
						 (1 + nincluded) * (int) sizeof(uint32));
	if (words == 0)
		return false;

	memset(layout, 0, sizeof(*layout));
	layout->slots = words * GJ_SLOTS_PER_WORD;
	layout->ncolumns = GJ_FIRST_INCLUDED + nincluded;
	layout->row_width = entry_width + BITMAPLEN(nincluded);

	for (int i = 0; i < layout->ncolumns; i++)
	{
		GjColumnDesc *column = &layout->columns[i];

		if (i == GJ_KEY_COLUMN)
			column->width = TupleDescAttr(desc, 0)->attlen;
		else if (i == GJ_TID_COLUMN)
			column->width = sizeof(ItemPointerData);
		else if (i > desc->natts)
		{
			column->width = sizeof(int64);
			if (i >= GJ_FIRST_INCLUDED + nwithout)
				column->flags = GJ_COLUMN_FLAGS(GJ_COLUMN_SECOND_WORD, 0, 0);
		}
		else
		{
			column->flags = flags[i - GJ_FIRST_INCLUDED];
			column->width = column_width(TupleDescAttr(desc, i - 1), GJ_COLUMN_KIND(column->flags));
		}
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
 * Form a row; values[] and isnull[] are those of the INCLUDE columns.  The rest is only used if the
 * index has rests.
 */
void
GjRowForm(const GjIndexInfo *info, int64 key, int64 rest, const ItemPointerData *tid,
		  const Datum *values, const bool *isnull, char *row)
{
	store_value(row, info->key_width, (uint64) key);
	memcpy(row + info->key_width, tid, sizeof(ItemPointerData));
	if (info->nincluded == 0)
		return;

	memset(row + info->row_nulls_offset, 0, BITMAPLEN(info->nincluded));
	for (int i = 0; i < info->nvalues; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		if (column->second != 0)
			store_words(info, column, values[i], isnull[i], row);
		else
			store_value(row + column->row_offset, column->width,
						isnull[i] ? 0 : stored_bits(column, values[i]));
		if (isnull[i])
			row[info->row_nulls_offset + i / 8] |= 1 << (i % 8);
	}
	if (info->has_rests)
		store_value(row + info->included[info->nvalues].row_offset, sizeof(int64), (uint64) rest);
}

/*
 * Store the two words of a value, and the NULL bit of the second one
 */
static void
store_words(const GjIndexInfo *info, const GjIncludedColumn *column, Datum value, bool isnull,
			char *row)
{
	int			second = column->second - 1;
	int64		words[2] = {0, 0};

	if (isnull)
		row[info->row_nulls_offset + second / 8] |= 1 << (second % 8);
	else if (GjKindIsText(column->kind))
		GjWordsOfText(value, column->kind == GJ_COLUMN_WIDE_BPCHAR, words);
	else
		GjWordsOfUuid(DatumGetPointer(value), words);
	store_value(row + column->row_offset, sizeof(int64), (uint64) words[0]);
	store_value(row + info->included[second].row_offset, sizeof(int64), (uint64) words[1]);
}

static inline uint64
stored_bits(const GjIncludedColumn *column, Datum value)
{
	if (likely(column->kind == GJ_COLUMN_PLAIN))
		return (uint64) value;
	return (uint64) GjNumericToWord(value, column->display_scale, column->stored_scale);
}

/*
 * Form the row that is stored in a slot of a data page
 */
void
GjRowFromSlot(Page page, const GjIndexInfo *info, int slot, char *row)
{
	memcpy(row, GjDataKeys(page, info) + (Size) slot * info->key_width, info->key_width);
	memcpy(row + info->key_width, &GjDataTids(page, info)[slot], sizeof(ItemPointerData));
	memset(row + info->row_nulls_offset, 0, BITMAPLEN(info->nincluded));
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		memcpy(row + column->row_offset,
			   GjDataValues(page, column) + (Size) slot * column->width, column->width);
		if (GjDataNulls(page, column)[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot))
			row[info->row_nulls_offset + i / 8] |= 1 << (i % 8);
	}
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
