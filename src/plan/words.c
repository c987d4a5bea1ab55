/*-------------------------------------------------------------------------
 *
 * words.c
 *	  Numeric and text columns of an index, which has words in place of the values (base/numeric.c,
 *	  pages/wide.c).
 *
 * GpuAgg adds words, and groups by them.  So an argument or a group column that is numeric must be
 * a column that the input takes from an index alone.  The aggregates' words have the scales of
 * that index; among the indexes of partitions, those of the first one.  Values that have other
 * scales, from another partition or from the table, are converted, or handled one by one
 * (groups/strays.c): the scales decide only about speed.
 *
 * Rows with values that have no word are read from the table.  Their number is estimated from the
 * values that ANALYZE has kept.  We read only scales and sizes, without calling a function of the
 * type; so it does not matter whether the user may read the column.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "pages/pages.h"
#include "planner.h"

/* The scales of a hypothetical index, which is never executed */
#define USUAL_SCALE				2

/* The least fraction of packed keys that counts as nearly all */
#define MIN_PACKED				0.9

static bool words_find(PlannerInfo *root, Path *path, const Var *column, GjColumnKind kind,
					   int *scales);
static bool words_has(PlannerInfo *root, const IndexOptInfo *index, const RelOptInfo *rel,
					  const Var *column, GjColumnKind kind, int *scales);
static void get_kinds(const IndexOptInfo *index, GjIndexInfo *info);
static double lacking_share(Oid table, AttrNumber attno, const GjIncludedColumn *column);
static bool is_absent(Datum value, const void *arg);
static bool is_packed(Datum value, const void *arg);
static double share_of_values(HeapTuple statistics, bool (*test) (Datum value, const void *arg),
							  const void *arg, double *known);
static AttrNumber attno_of(PlannerInfo *root, const RelOptInfo *rel, const Var *column);

/*
 * Find the display scale and the stored scale of a column in an aggregate's input.  Returns false
 * if the input does not take it from indexes.
 */
bool
GjNumericScales(PlannerInfo *root, Path *path, const Var *column, int *scales)
{
	return words_find(root, path, column, GJ_COLUMN_NUMERIC, scales);
}

/*
 * Return true if the rows of an aggregate's input have words of a text or bpchar column, at most 15
 * bytes of it, or come from the table because they lack these
 */
bool
GjTextHasWords(PlannerInfo *root, Path *path, const Var *column)
{
	int			scales[2];

	return words_find(root, path, column, column->vartype == BPCHAROID ?
					  GJ_COLUMN_WIDE_BPCHAR : GJ_COLUMN_WIDE_TEXT, scales);
}

static bool
words_find(PlannerInfo *root, Path *path, const Var *column, GjColumnKind kind, int *scales)
{
	CustomPath *custom;
	const GjJoinCandidate *cand;
	ListCell   *lc;

	while (IsA(path, ProjectionPath))
		path = ((ProjectionPath *) path)->subpath;
	if (IsA(path, AppendPath))
	{
		int			others[2];

		foreach(lc, ((AppendPath *) path)->subpaths)
		{
			if (!words_find(root, lfirst(lc), column, kind,
							foreach_current_index(lc) == 0 ? scales : others))
				return false;
		}
		return ((AppendPath *) path)->subpaths != NIL;
	}
	if (!IsA(path, CustomPath))
		return false;

	custom = (CustomPath *) path;
	if (custom->methods == &GjScanPathMethods)
		return boolVal(list_nth(custom->custom_private, GJ_SCAN_PATH_INDEX_ONLY)) &&
			words_has(root, list_nth(custom->custom_private, GJ_SCAN_PATH_INDEX), path->parent,
					  column, kind, scales);
	if (custom->methods != &GjJoinPathMethods)
		return false;
	cand = linitial(custom->custom_private);
	if (bms_is_member(column->varno, cand->small->relids))
		return false;
	foreach(lc, cand->scans)
	{
		const GjJoinScan *scan = lfirst(lc);

		if (!scan->index_only || !words_has(root, scan->index, scan->table, column, kind,
											scales))
			return false;
	}
	return cand->scans != NIL;
}

/*
 * Return true if an index has words for a column, and set their scales
 */
static bool
words_has(PlannerInfo *root, const IndexOptInfo *index, const RelOptInfo *rel, const Var *column,
		  GjColumnKind kind, int *scales)
{
	AttrNumber	attno = attno_of(root, rel, column);
	GjIndexInfo info;
	int			i = 1;

	if (attno <= 0 || index->indexkeys[0] == attno)
		return false;
	while (i < index->ncolumns && index->indexkeys[i] != attno)
		i++;
	if (i == index->ncolumns)
		return false;
	scales[0] = scales[1] = USUAL_SCALE;
	if (index->hypothetical)
		return true;

	get_kinds(index, &info);
	scales[0] = info.included[i - 1].display_scale;
	scales[1] = info.included[i - 1].stored_scale;
	return info.included[i - 1].kind == kind;
}

/*
 * Return the number that a column has in a table or in its partition, or InvalidAttrNumber
 */
static AttrNumber
attno_of(PlannerInfo *root, const RelOptInfo *rel, const Var *column)
{
	const RangeTblEntry *parent = planner_rt_fetch(column->varno, root);

	if (rel->relid == column->varno)
		return column->varattno;
	if (parent->rtekind != RTE_RELATION || column->varattno <= 0)
		return InvalidAttrNumber;
	return get_attnum(planner_rt_fetch(rel->relid, root)->relid,
					  get_attname(parent->relid, column->varattno, false));
}

/*
 * Estimate the fraction of an index's entries that lack a word for one of these attributes
 */
double
GjWordsLacking(PlannerInfo *root, const RelOptInfo *rel, const IndexOptInfo *index, List *attnos)
{
	Oid			table = planner_rt_fetch(rel->relid, root)->relid;
	double		present = 1.0;
	GjIndexInfo info;

	get_kinds(index, &info);
	for (int i = 1; i < index->ncolumns; i++)
	{
		if (GjKindMayLack(info.included[i - 1].kind) &&
			list_member_int(attnos, index->indexkeys[i]))
			present *= 1.0 - lacking_share(table, index->indexkeys[i], &info.included[i - 1]);
	}
	return 1.0 - present;
}

/*
 * Get the kinds and scales of an index's columns.  Those of a hypothetical index follow from the
 * types, and its numerics are all expected to have words.
 */
static void
get_kinds(const IndexOptInfo *index, GjIndexInfo *info)
{
	if (!index->hypothetical)
	{
		Relation	relation = index_open(index->indexoid, NoLock);

		GjIndexGetInfo(relation, info);
		index_close(relation, NoLock);
		return;
	}
	memset(info, 0, sizeof(*info));
	for (int i = 1; i < index->ncolumns; i++)
	{
		const TargetEntry *entry = list_nth_node(TargetEntry, index->indextlist, i);
		Oid			type = getBaseType(exprType((const Node *) entry->expr));

		if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID)
			info->included[i - 1].kind = type == BPCHAROID ? GJ_COLUMN_WIDE_BPCHAR :
				GJ_COLUMN_WIDE_TEXT;
	}
}

/*
 * Return true if an index has words of a column, from 0, that tests of this kind can read: those
 * of texts, or those of bpchars.  The type need not be the one that the words were made for.
 */
bool
GjColumnHasWords(const IndexOptInfo *index, int column, bool is_bpchar)
{
	GjIndexInfo info;

	if (column == 0)
		return false;
	get_kinds(index, &info);
	return info.included[column - 1].kind ==
		(is_bpchar ? GJ_COLUMN_WIDE_BPCHAR : GJ_COLUMN_WIDE_TEXT);
}

static double
lacking_share(Oid table, AttrNumber attno, const GjIncludedColumn *column)
{
	HeapTuple	statistics = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(table),
											 Int16GetDatum(attno), BoolGetDatum(false));
	double		share;
	double		known;

	if (!HeapTupleIsValid(statistics))
		return 0.0;
	share = share_of_values(statistics, is_absent, column, &known);
	ReleaseSysCache(statistics);
	return Min(share, 1.0);
}

static bool
is_absent(Datum value, const void *arg)
{
	const GjIncludedColumn *column = arg;
	int64		words[2];

	if (GjKindIsText(column->kind))
		GjWordsOfText(value, column->kind == GJ_COLUMN_WIDE_BPCHAR, words);
	else
		words[0] = GjNumericToWord(value, column->display_scale, column->stored_scale);
	return words[0] == GJ_ABSENT;
}

/*
 * Return true if nearly all values of a key of texts, which has these statistics, can be packed
 * into a code and a rest
 */
bool
GjTextsArePacked(HeapTuple statistics)
{
	double		known;
	double		packed = share_of_values(statistics, is_packed, NULL, &known);

	/* statistics have no values that are very long */
	return known > 0.0 ? packed >= known * MIN_PACKED :
		((Form_pg_statistic) GETSTRUCT(statistics))->stawidth <= VARHDRSZ + GJ_IDTEXT_MAX;
}

static bool
is_packed(Datum value, const void *arg)
{
	text	   *plain = DatumGetTextPP(value);
	int64		code;
	int64		rest;

	return GjIdTextPack(VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), &code, &rest);
}

/*
 * Estimate the share of a column's rows with values that pass a test, from the values that ANALYZE
 * has kept; *known is the share of the rows that these represent
 */
static double
share_of_values(HeapTuple statistics, bool (*test) (Datum value, const void *arg),
				const void *arg, double *known)
{
	double		share = 0.0;
	double		others;
	AttStatsSlot slot;

	*known = 0.0;
	(void) get_attstatsslot(&slot, statistics, STATISTIC_KIND_MCV, InvalidOid,
							ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS);
	for (int i = 0; i < Min(slot.nvalues, slot.nnumbers); i++)
	{
		*known += slot.numbers[i];
		share += test(slot.values[i], arg) ? slot.numbers[i] : 0.0;
	}
	free_attstatsslot(&slot);

	others = 1.0 - ((Form_pg_statistic) GETSTRUCT(statistics))->stanullfrac - *known;
	others = Max(others, 0.0);
	(void) get_attstatsslot(&slot, statistics, STATISTIC_KIND_HISTOGRAM, InvalidOid,
							ATTSTATSSLOT_VALUES);
	for (int i = 0; i < slot.nvalues; i++)
		share += test(slot.values[i], arg) ? others / slot.nvalues : 0.0;
	if (slot.nvalues > 0)
		*known += others;
	free_attstatsslot(&slot);
	return share;
}
