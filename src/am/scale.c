/*-------------------------------------------------------------------------
 *
 * scale.c
 *	  The scales of the numeric columns of a new index.
 *
 * base/numeric.c says what the two scales of a column mean.  Any scales are correct; those of most
 * of the table's values avoid reading rows from the table.
 *
 * The display scale is that of the type, as in numeric(12,2), or else the most frequent one in a
 * sample, the first rows of the table.  The stored scale is the same if all values of the type fit
 * in a word then.  Otherwise it leaves room for integers a hundred times as big as those of the
 * sample, as long as this costs none of the sample's decimals: of a numeric(65,30), which
 * applications declare without a need, only the decimals that are in use are stored.
 *
 * An empty table, and the copy to which an unlogged index is reset, have no sample.  The index
 * option numeric_scale is the stored scale, and the display scale where the type has none.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am.h"

#define SAMPLE_ROWS				1000

/* Without a sample: a display scale, and decimal places before the point */
#define USUAL_DISPLAY_SCALE		2
#define USUAL_PLACES			7

/* Decimal places of a word, and those before the point that are left free */
#define WORD_PLACES				18
#define FREE_PLACES				2

/* The scale of numeric(precision, scale), of 11 bits since version 15 */
#define TYPMOD_PRECISION(typmod)	(((typmod) - VARHDRSZ) >> 16 & 0xFFFF)
#define TYPMOD_SCALE(typmod)		(((((typmod) - VARHDRSZ) & 0x7FF) ^ 1024) - 1024)

/* The sampled values of a column that have the same display scale */
typedef struct Sample
{
	int			count;
	int			whole;			/* greatest number of decimal places before the point */
	int			decimals;		/* after it, without zeroes at the end */
} Sample;

static void sample_table(Relation index, Relation heap,
						 Sample (*samples)[GJ_MAX_COLUMN_SCALE + 1]);
static void sample_value(Datum value, Sample *samples);
static uint16 choose_scales(Relation index, const FormData_pg_attribute *attribute,
							const Sample *samples);

/*
 * Choose the flags of the INCLUDE columns of a new index (GjColumnDesc).  heap is NULL if the index
 * is to be empty.
 */
void
GjColumnsDescribe(Relation index, Relation heap, uint16 *flags)
{
	TupleDesc	desc = RelationGetDescr(index);
	Sample		(*samples)[GJ_MAX_COLUMN_SCALE + 1] = palloc0(desc->natts * sizeof(*samples));
	bool		any = false;

	memset(flags, 0, GJ_MAX_INCLUDED * sizeof(uint16));
	for (int i = 1; i < desc->natts; i++)
		any |= GjColumnIsNumeric(TupleDescAttr(desc, i));
	if (any && heap != NULL)
		sample_table(index, heap, samples);
	for (int i = 1; i < Min(desc->natts, GJ_MAX_INCLUDED + 1); i++)
	{
		if (GjColumnIsNumeric(TupleDescAttr(desc, i)))
			flags[i - 1] = choose_scales(index, TupleDescAttr(desc, i), samples[i]);
		else
			flags[i - 1] = GjColumnNewFlags(TupleDescAttr(desc, i));
	}
	pfree(samples);
}

/*
 * Read the first rows of the table, whether they are alive or not, as the build may do later
 */
static void
sample_table(Relation index, Relation heap, Sample (*samples)[GJ_MAX_COLUMN_SCALE + 1])
{
	TableScanDesc scan = table_beginscan_strat(heap, SnapshotAny, 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(heap, NULL);

	for (int n = 0; n < SAMPLE_ROWS && table_scan_getnextslot(scan, ForwardScanDirection, slot);
		 n++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 1; i < RelationGetDescr(index)->natts; i++)
		{
			bool		isnull;
			Datum		value;

			if (!GjColumnIsNumeric(TupleDescAttr(RelationGetDescr(index), i)))
				continue;
			value = slot_getattr(slot, index->rd_index->indkey.values[i], &isnull);
			if (!isnull)
				sample_value(value, samples[i]);
		}
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
}

/*
 * Add a value to the samples of its display scale.  A dead row's toasted value may be gone.
 */
static void
sample_value(Datum value, Sample *samples)
{
	const struct varlena *numeric = (const struct varlena *) DatumGetPointer(value);
	GjNumericParts parts;
	Sample	   *sample;
	int16		digit;
	int			decimals;

	if (VARATT_IS_EXTERNAL(numeric) || VARATT_IS_COMPRESSED(numeric))
		return;
	GjNumericRead(numeric, &parts);
	if (parts.is_special || parts.display_scale > GJ_MAX_COLUMN_SCALE)
		return;
	sample = &samples[parts.display_scale];
	sample->count++;
	if (parts.ndigits == 0)
		return;

	/* a digit has four decimal places */
	memcpy(&digit, parts.digits, sizeof(digit));
	sample->whole = Max(sample->whole, 4 * parts.weight + (digit >= 1000 ? 4 : digit >= 100 ? 3 :
														   digit >= 10 ? 2 : 1));
	memcpy(&digit, parts.digits + (parts.ndigits - 1) * sizeof(digit), sizeof(digit));
	decimals = 4 * (parts.ndigits - 1 - parts.weight);
	decimals -= digit % 1000 == 0 ? 3 : digit % 100 == 0 ? 2 : digit % 10 == 0 ? 1 : 0;
	sample->decimals = Max(sample->decimals, decimals);
}

/*
 * Choose the scales of a column from its type and from samples of each display scale
 */
static uint16
choose_scales(Relation index, const FormData_pg_attribute *attribute, const Sample *samples)
{
	Sample		sample = {.whole = USUAL_PLACES};
	int32		typmod = attribute->atttypmod;
	int			option = GJ_AUTO_SCALE;
	int			display = USUAL_DISPLAY_SCALE;
	int			stored;

	if (index->rd_options != NULL)
		option = ((GjOptions *) index->rd_options)->numeric_scale;

	if (typmod < 0)
		(void) getBaseTypeAndTypmod(attribute->atttypid, &typmod);
	if (typmod >= (int32) VARHDRSZ)
		display = Max(TYPMOD_SCALE(typmod), 0);
	else if (option != GJ_AUTO_SCALE)
		display = option;
	else
	{
		for (int i = 0; i <= GJ_MAX_COLUMN_SCALE; i++)
		{
			if (samples[i].count > sample.count)
			{
				sample = samples[i];
				display = i;
			}
		}
	}
	if (display > GJ_MAX_COLUMN_SCALE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" cannot include column \"%s\" with a scale above %d",
						GJ_NAME, NameStr(attribute->attname), GJ_MAX_COLUMN_SCALE),
				 errhint("Leave the column out of INCLUDE; it is then read from the table.")));
	if (samples[display].count > 0)
		sample = samples[display];

	if (option != GJ_AUTO_SCALE)
		stored = Min(display, option);
	else if (typmod >= (int32) VARHDRSZ && TYPMOD_PRECISION(typmod) <= WORD_PLACES)
		stored = display;
	else
		stored = Min(display, Max(sample.decimals, WORD_PLACES - FREE_PLACES - sample.whole));
	stored = Max(Min(stored, GJ_MAX_STORED_SCALE), 0);
	return GJ_COLUMN_FLAGS(GJ_COLUMN_NUMERIC, display, stored);
}
