/*-------------------------------------------------------------------------
 *
 * newindex.c
 *	  Plan a query as if it had more indexes of ours.
 *
 * The planner asks for a table's indexes once and trusts the answer.  So an IndexOptInfo of an
 * index that does not exist is treated like a real one: in tests, in costs, and in the competition
 * with other plans.  We estimate its size by the rules for building it: all entries in one run, no
 * deltas.  It counts as mirrored if a mirror would be loaded automatically (cost.c).
 *
 * Such indexes have their table's OID: some extensions look up the name of each index that the
 * planner lists, to compare it with a hint's, and would fail if no relation had that OID.
 *
 * The plan is examined and discarded.  It must never be executed: while the planner evaluates a
 * function, the queries in that function are planned and executed, too.  We recognize our own
 * planning by its list of parameters, which is unique.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "optimizer/plancat.h"
#include "tcop/tcopprot.h"
#include "utils/catcache.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "advisor.h"
#include "base/compat.h"
#include "base/settings.h"
#include "pages/pages.h"

/* Our operator class for texts that are ids */
#define ID_CLASS				"text_id_ops"

/* The parameters of the query that is being planned, and the indexes that are added */
static ParamListInfo planning = NULL;
static const List *new_indexes = NIL;

static void add_indexes(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);
static bool concerns(const GjNewIndex *index, Oid relid);
static GjNewIndex *translate(const GjNewIndex *index, Oid relid);
static IndexOptInfo *make_info(RelOptInfo *rel, Relation table, const GjNewIndex *index);
static void set_columns(IndexOptInfo *info, Relation table, const GjNewIndex *index);
static void set_method(IndexOptInfo *info);
static bool has_ids(Oid table, AttrNumber attno);
static bool is_deterministic(Oid table, AttrNumber attno);
static Oid	find_id_class(void);
static Oid	stored_type(Oid opclass, Oid type);
static bool make_layout(const GjNewIndex *index, GjLayout *layout);
static double entries_of_page(Relation table, const GjNewIndex *index, const GjLayout *layout,
							  double tuples);
static BlockNumber count_pages(Relation table, const GjNewIndex *index, double tuples);
static double null_share(Oid relid, AttrNumber attno);

/*
 * Plan a query as if these indexes (GjNewIndex) existed; with NIL, plan it as it is
 */
PlannedStmt *
GjNewIndexPlan(const GjTrial *trial, const List *indexes)
{
	static const GjPlanAdditions additions = {add_indexes, GjTrialNote};
	const GjPlanAdditions *old_additions = *gj->additions;
	ParamListInfo old_planning = planning;
	const List *old_indexes = new_indexes;
	PlannedStmt *plan;

	PG_TRY();
	{
		*gj->additions = &additions;
		planning = trial->params;
		new_indexes = indexes;
		plan = GjPlanQuery(copyObject(unconstify(Query *, trial->query)), trial->text,
						   CURSOR_OPT_PARALLEL_OK, planning);
	}
	PG_FINALLY();
	{
		*gj->additions = old_additions;
		planning = old_planning;
		new_indexes = old_indexes;
	}
	PG_END_TRY();
	return plan;
}

/*
 * Add the new indexes of a table, or of the partitioned table that it belongs to, if this planner
 * run is ours
 */
static void
add_indexes(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	Relation	table;
	ListCell   *lc;

	if (root->glob->boundParams != planning || new_indexes == NIL || inhparent)
		return;
	table = table_open(relid, NoLock);
	foreach(lc, new_indexes)
	{
		const GjNewIndex *index = lfirst(lc);

		if (concerns(index, relid) && (table->rd_rel->relkind == RELKIND_RELATION ||
									   table->rd_rel->relkind == RELKIND_MATVIEW))
			rel->indexlist = lcons(make_info(rel, table, translate(index, relid)),
								   rel->indexlist);
	}
	table_close(table, NoLock);
}

static bool
concerns(const GjNewIndex *index, Oid relid)
{
	return relid == index->table ||
		(get_rel_relispartition(relid) &&
		 list_member_oid(get_partition_ancestors(relid), index->table));
}

/*
 * Translate an index's column numbers to those of a partition
 */
static GjNewIndex *
translate(const GjNewIndex *index, Oid relid)
{
	GjNewIndex *result = palloc0(sizeof(GjNewIndex));
	int			attno = -1;

	result->table = relid;
	result->key = get_attnum(relid, get_attname(index->table, index->key, false));
	while ((attno = bms_next_member(index->included, attno)) >= 0)
		result->included =
			bms_add_member(result->included,
						   get_attnum(relid, get_attname(index->table, attno, false)));
	return result;
}

static IndexOptInfo *
make_info(RelOptInfo *rel, Relation table, const GjNewIndex *index)
{
	IndexOptInfo *info = makeNode(IndexOptInfo);

	info->indexoid = RelationGetRelid(table);
	info->reltablespace = rel->reltablespace;
	info->rel = rel;
	info->pages = count_pages(table, index, rel->tuples);
	info->tuples = rel->tuples;
	info->tree_height = -1;
	info->hypothetical = true;
	info->immediate = true;
	set_columns(info, table, index);
	set_method(info);
	return info;
}

static void
set_columns(IndexOptInfo *info, Relation table, const GjNewIndex *index)
{
	Oid			opclass = GjNewIndexClass(RelationGetRelid(table), index->key);
	int			attno = index->key;
	int			before = -1;

	info->ncolumns = 1 + bms_num_members(index->included);
	info->nkeycolumns = 1;
	info->indexkeys = palloc0(sizeof(int) * info->ncolumns);
	info->canreturn = palloc0(sizeof(bool) * info->ncolumns);
	info->opclassoptions = palloc0(sizeof(bytea *) * info->ncolumns);
	info->indexcollations = palloc0(sizeof(Oid));
	info->opfamily = palloc(sizeof(Oid));
	info->opcintype = palloc(sizeof(Oid));
	info->opfamily[0] = get_opclass_family(opclass);
	info->opcintype[0] = get_opclass_input_type(opclass);

	for (int i = 0; i < info->ncolumns; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(table), attno - 1);
		Var		   *var = makeVar(info->rel->relid, attno, attribute->atttypid,
								  attribute->atttypmod, attribute->attcollation, 0);

		if (i == 0)
			info->indexcollations[0] = attribute->attcollation;
		info->indexkeys[i] = attno;
		info->indextlist = lappend(info->indextlist,
								   makeTargetEntry((Expr *) var, i + 1, NULL, false));
		attno = before = bms_next_member(index->included, before);
	}
}

static void
set_method(IndexOptInfo *info)
{
	const IndexAmRoutine *am;

	info->relam = get_index_am_oid(GJ_NAME, false);
	am = GetIndexAmRoutineByAmId(info->relam, false);
	info->amoptionalkey = am->amoptionalkey;
	info->amsearcharray = am->amsearcharray;
	info->amsearchnulls = am->amsearchnulls;
	info->amhasgettuple = am->amgettuple != NULL;
	info->amhasgetbitmap = am->amgetbitmap != NULL;
	info->amcanparallel = am->amcanparallel;
	info->amcostestimate = am->amcostestimate;
}

/*
 * Return the operator class for an index on a column; InvalidOid if the column cannot be indexed
 */
Oid
GjNewIndexClass(Oid table, AttrNumber attno)
{
	Oid			type = get_atttype(table, attno);
	Oid			opclass = GetDefaultOpClass(type, get_index_am_oid(GJ_NAME, false));

	if (!OidIsValid(opclass) || !gj->class_is_of_type(get_opclass_input_type(opclass), type))
		return InvalidOid;
	if (get_opclass_input_type(opclass) == TEXTOID && has_ids(table, attno))
	{
		Oid			id_class = find_id_class();

		return OidIsValid(id_class) ? id_class : opclass;
	}
	return opclass;
}

/*
 * Return true if nearly all values of a column of texts are ids that can be packed, but too long
 * for images.  Without statistics, returns false.  All partitions of a table get the same answer.
 */
static bool
has_ids(Oid table, AttrNumber attno)
{
	bool		result = false;
	HeapTuple	statistics;

	if (!is_deterministic(table, attno))
		return false;
	if (get_rel_relispartition(table))
	{
		char	   *name = get_attname(table, attno, false);

		table = llast_oid(get_partition_ancestors(table));
		attno = get_attnum(table, name);
	}
	statistics = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(table), Int16GetDatum(attno),
								 BoolGetDatum(get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE));
	if (HeapTupleIsValid(statistics))
	{
		result = ((Form_pg_statistic) GETSTRUCT(statistics))->stawidth > GJ_IMAGE_WIDTH &&
			gj->texts_are_packed(statistics);
		ReleaseSysCache(statistics);
	}
	return result;
}

static bool
is_deterministic(Oid table, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCacheAttNum(table, attno);
	Oid			collation = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		collation = ((Form_pg_attribute) GETSTRUCT(tuple))->attcollation;
		ReleaseSysCache(tuple);
	}
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

/*
 * Find our operator class for texts that are ids; InvalidOid if it has been dropped
 */
static Oid
find_id_class(void)
{
	CatCList   *classes = SearchSysCacheList1(CLAAMNAMENSP,
											  ObjectIdGetDatum(get_index_am_oid(GJ_NAME, false)));
	Oid			result = InvalidOid;

	for (int i = 0; i < classes->n_members; i++)
	{
		Form_pg_opclass opclass = (Form_pg_opclass) GETSTRUCT(&classes->members[i]->tuple);

		if (strcmp(NameStr(opclass->opcname), ID_CLASS) == 0 &&
			opclass->opcintype == TEXTOID && gj->codec_has_rests(opclass->opcfamily, TEXTOID))
			result = opclass->oid;
	}
	ReleaseCatCacheList(classes);
	return result;
}

/*
 * Return the type in which keys are stored
 */
static Oid
stored_type(Oid opclass, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Oid			stored;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for opclass %u", opclass);
	stored = ((Form_pg_opclass) GETSTRUCT(tuple))->opckeytype;
	ReleaseSysCache(tuple);
	return OidIsValid(stored) ? stored : type;
}

/*
 * Return true if an index can have these columns: a page must have room for their values.  Columns
 * that have been dropped meanwhile, with or without their types, take no room.
 */
bool
GjNewIndexFits(const GjNewIndex *index)
{
	GjLayout	layout;

	return !OidIsValid(get_atttype(index->table, index->key)) ||
		!OidIsValid(GjNewIndexClass(index->table, index->key)) || make_layout(index, &layout);
}

static bool
make_layout(const GjNewIndex *index, GjLayout *layout)
{
	Oid			opclass = GjNewIndexClass(index->table, index->key);
	List	   *types = list_make1_oid(stored_type(opclass,
												   get_atttype(index->table, index->key)));
	TupleDesc	desc;
	uint16	   *flags;
	int			attno = -1;

	while ((attno = bms_next_member(index->included, attno)) >= 0)
	{
		Oid			type = get_atttype(index->table, attno);

		if (OidIsValid(type))
			types = lappend_oid(types, type);
	}
	desc = CreateTemplateTupleDesc(list_length(types));
	for (int i = 0; i < list_length(types); i++)
		TupleDescInitEntry(desc, i + 1, NULL, list_nth_oid(types, i), -1, 0);
	GjTupleDescFinalize(desc);
	flags = palloc0(desc->natts * sizeof(uint16));
	for (int i = 1; i < desc->natts; i++)
		flags[i - 1] = gj->column_new_flags(TupleDescAttr(desc, i));
	return gj->layout_make(desc, gj->codec_has_rests(get_opclass_family(opclass),
													 get_opclass_input_type(opclass)),
						   flags, layout);
}

/* Return the number of bytes that integers from 0 up to this one need on a narrow page */
static int
offset_width(double range)
{
	int			bytes = 0;

	for (; range >= 1.0; range /= 256.0)
		bytes++;
	return bytes <= 6 ? bytes : sizeof(int64);
}

static double
value_of(Datum value, int length)
{
	switch (length)
	{
		case sizeof(char):
			return DatumGetChar(value);
		case sizeof(int16):
			return DatumGetInt16(value);
		case sizeof(int32):
			return DatumGetInt32(value);
		default:
			return (double) DatumGetInt64(value);
	}
}

/*
 * Return the difference between the greatest and the least value of a column that is stored as a
 * plain integer, according to statistics; -1 if it is not known
 */
static double
value_range(Oid relid, AttrNumber attno, int width)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
										Int16GetDatum(attno), BoolGetDatum(false));
	int			kinds[] = {STATISTIC_KIND_MCV, STATISTIC_KIND_HISTOGRAM};
	double		low = get_float8_infinity();
	double		high = -low;
	AttStatsSlot slot;

	if (!HeapTupleIsValid(tuple))
		return -1.0;
	for (int kind = 0; kind < lengthof(kinds); kind++)
	{
		if (!get_attstatsslot(&slot, tuple, kinds[kind], InvalidOid, ATTSTATSSLOT_VALUES))
			continue;
		for (int i = 0; i < slot.nvalues && get_typlen(slot.valuetype) == width &&
			 get_typbyval(slot.valuetype); i++)
		{
			low = Min(low, value_of(slot.values[i], width));
			high = Max(high, value_of(slot.values[i], width));
		}
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return high < low ? -1.0 : high - low;
}

/*
 * Estimate how many entries a page of a run has: each column takes as many bytes as its differences
 * on the page need
 *
 * Keys are assumed to be spread evenly; TIDs, and values of INCLUDE columns, to be anywhere.
 */
static double
entries_of_page(Relation table, const GjNewIndex *index, const GjLayout *layout, double tuples)
{
	Oid			relid = RelationGetRelid(table);
	double		room = GJ_PAGE_ROOM - layout->ncolumns * sizeof(GjNarrowColumn);
	double		blocks = Max(RelationGetNumberOfBlocks(table), 1);
	double		keys = value_range(relid, index->key,
								   layout->columns[GJ_KEY_COLUMN].width);
	double		bytes = 0.25;	/* bitmaps */
	double		n = layout->slots;
	int			attno = -1;
	int			shift = 1;

	while (shift < MaxHeapTuplesPerPage && shift <= tuples / blocks)
		shift *= 2;
	bytes += offset_width(blocks * shift);
	for (int i = GJ_FIRST_INCLUDED; i < layout->ncolumns; i++)
	{
		double		range = -1.0;

		if (attno != -2)
			attno = bms_next_member(index->included, attno);
		if (attno != -2 && GJ_COLUMN_KIND(layout->columns[i].flags) == GJ_COLUMN_PLAIN)
			range = value_range(relid, attno, layout->columns[i].width);
		bytes += range < 0.0 ? layout->columns[i].width : offset_width(range);
	}
	for (int i = 0; i < 3; i++)
	{
		double		range = keys * n / Max(tuples, n);

		n = room / (bytes + (keys < 0.0 ? layout->columns[GJ_KEY_COLUMN].width :
							 offset_width(range)));
		n = Min(n, GJ_MAX_SLOTS);
	}
	return Max(floor(n / GJ_SLOTS_PER_WORD) * GJ_SLOTS_PER_WORD, layout->slots);
}

/*
 * Return the number of pages of an index on a table with this many rows
 */
static BlockNumber
count_pages(Relation table, const GjNewIndex *index, double tuples)
{
	Oid			relid = RelationGetRelid(table);
	double		pages;
	double		data_pages;
	double		level;
	GjLayout	layout;

	if (!make_layout(index, &layout))
		elog(ERROR, "a new index has too many columns");

	tuples *= 1.0 - null_share(relid, index->key);
	data_pages = ceil(tuples / entries_of_page(table, index, &layout, tuples));
	pages = GJ_FIRST_TAIL_BLOCK + GJ_DEFAULT_LANES + data_pages;
	level = data_pages;
	do
	{
		level = ceil(level / GJ_DIRECTORY_FANOUT);
		pages += level;
	} while (level > 1.0);
	return (BlockNumber) Min(pages, (double) MaxBlockNumber);
}

static double
null_share(Oid relid, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
										Int16GetDatum(attno), BoolGetDatum(false));
	double		share;

	if (!HeapTupleIsValid(tuple))
		return 0.0;
	share = ((Form_pg_statistic) GETSTRUCT(tuple))->stanullfrac;
	ReleaseSysCache(tuple);
	return share;
}

/*
 * Return the size of an index in bytes, summed up over all partitions
 */
int64
GjNewIndexSize(const GjNewIndex *index)
{
	int64		pages = 0;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(index->table, AccessShareLock, NULL))
	{
		Oid			relid = lfirst_oid(lc);
		char		kind = get_rel_relkind(relid);
		Relation	table;
		BlockNumber heap_pages;
		double		tuples;
		double		allvisfrac;

		if ((kind != RELKIND_RELATION && kind != RELKIND_MATVIEW) ||
			(relid != index->table && !get_rel_relispartition(relid)))
			continue;
		table = table_open(relid, NoLock);
		estimate_rel_size(table, NULL, &heap_pages, &tuples, &allvisfrac);
		pages += count_pages(table, translate(index, relid), tuples);
		table_close(table, NoLock);
	}
	return pages * BLCKSZ;
}
