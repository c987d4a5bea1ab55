/*-------------------------------------------------------------------------
 *
 * index.c
 *	  Opening an index that was passed to a function, and the index options.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "pages.h"

/*
 * Unsorted pages after which an index is flushed: one in this many, within these bounds.  A flush
 * of 512 pages writes as many as it reads and takes about 20 ms; a search reads 1024 pages in 0.3
 * ms.
 */
#define FOLD_PART				256
#define MIN_FOLD_PAGES			512
#define MAX_FOLD_PAGES			1024

static relopt_kind gj_relopt_kind;

static Oid	table_of_own_index(Oid index_oid);
static bool is_of_our_method(Oid index_oid);
static void report_not_ours(Oid index_oid);

/*
 * Register the index options
 */
void
GjOptionsInit(void)
{
	gj_relopt_kind = add_reloption_kind();
	add_int_reloption(gj_relopt_kind, "lanes",
					  "Number of pages that concurrent inserters fill side by side",
					  GJ_DEFAULT_LANES, GJ_MIN_LANES, GJ_MAX_LANES,
					  AccessExclusiveLock);
	add_bool_reloption(gj_relopt_kind, "preload",
					   "Keeps the index in device memory, also after a start of the server",
					   false, ShareUpdateExclusiveLock);
	add_int_reloption(gj_relopt_kind, "fold_pages",
					  "Number of pages of unsorted rows before a background worker sorts them",
					  GJ_NO_FOLD_PAGES, GJ_AUTO_FOLD_PAGES, GJ_MAX_FOLD_PAGES,
					  ShareUpdateExclusiveLock);
	add_int_reloption(gj_relopt_kind, "numeric_scale",
					  "Number of digits after the decimal point of included numerics",
					  GJ_AUTO_SCALE, GJ_AUTO_SCALE, GJ_MAX_STORED_SCALE,
					  AccessExclusiveLock);
}

/*
 * Parse and check the options of an index
 */
bytea *
gjoptions(Datum reloptions, bool validate)
{
	static const relopt_parse_elt table[] = {
		{"lanes", RELOPT_TYPE_INT, offsetof(GjOptions, lanes)},
		{"preload", RELOPT_TYPE_BOOL, offsetof(GjOptions, preload)},
		{"fold_pages", RELOPT_TYPE_INT, offsetof(GjOptions, fold_pages)},
		{"numeric_scale", RELOPT_TYPE_INT, offsetof(GjOptions, numeric_scale)}
	};

	return (bytea *) build_reloptions(reloptions, validate, gj_relopt_kind,
									  sizeof(GjOptions), table, lengthof(table));
}

/*
 * Return true if this relation is a gpujoin index
 */
bool
GjRelationIsIndex(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX && rel->rd_indam != NULL &&
		rel->rd_indam->amoptions == gjoptions;
}

/*
 * Return true if the index has the reloption preload: its mirror is loaded at server start, and
 * pinned
 */
bool
GjIndexIsPreloaded(Relation index)
{
	return index->rd_options != NULL && ((GjOptions *) index->rd_options)->preload;
}

/*
 * Return the number of unsorted pages from which on a background worker flushes the index, or 0 if
 * only VACUUM folds it
 */
BlockNumber
GjIndexFoldPages(Relation index)
{
	int			pages = GJ_NO_FOLD_PAGES;

	if (index->rd_options != NULL)
		pages = ((GjOptions *) index->rd_options)->fold_pages;
	if (pages == GJ_NO_FOLD_PAGES)
		pages = gj_fold_pages;
	if (pages != GJ_AUTO_FOLD_PAGES)
		return (BlockNumber) pages;
	return Max(MIN_FOLD_PAGES, Min(MAX_FOLD_PAGES,
								   RelationGetNumberOfBlocks(index) / FOLD_PART));
}

/*
 * Get the table of an index that the user owns, before anything is locked
 *
 * A user without rights on a table must neither hold a lock on it nor wait for one, because
 * later lock requests would queue behind.  The result may be outdated by the time the caller has
 * the lock, so the caller has to check again.
 */
static Oid
table_of_own_index(Oid index_oid)
{
	Oid			heap_oid = IndexGetRelation(index_oid, true);
	char	   *name = get_rel_name(index_oid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open relation with OID %u", index_oid)));
	if (!OidIsValid(heap_oid))
		report_not_ours(index_oid);
	if (!GjIsTableOwner(heap_oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, name);
	return heap_oid;
}

/*
 * List the indexes of all partitions of a partitioned index, ordered by OID; for another index,
 * list the index itself
 *
 * Takes no lock: any of them may have been dropped by the time it is opened.
 */
List *
GjListIndexes(Oid index_oid)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (get_rel_relkind(index_oid) != RELKIND_PARTITIONED_INDEX)
		return list_make1_oid(index_oid);
	foreach(lc, find_all_inheritors(index_oid, NoLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_INDEX)
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

/*
 * List the same indexes for a command; raises an error if a partitioned index is not a gpujoin
 * index, or if the user may not manage it
 *
 * The caller opens each of them with GjOpenManagedIndex(), which checks the rights on its table.
 */
List *
GjListManagedIndexes(Oid index_oid)
{
	if (get_rel_relkind(index_oid) == RELKIND_PARTITIONED_INDEX)
	{
		(void) table_of_own_index(index_oid);
		if (!is_of_our_method(index_oid))
			report_not_ours(index_oid);
	}
	return GjListIndexes(index_oid);
}

static bool
is_of_our_method(Oid index_oid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index_oid));
	Oid			method;

	if (!HeapTupleIsValid(tuple))
		return false;
	method = ((Form_pg_class) GETSTRUCT(tuple))->relam;
	ReleaseSysCache(tuple);
	return GetIndexAmRoutineByAmId(method, false)->amoptions == gjoptions;
}

static void
report_not_ours(Oid index_oid)
{
	const char *name = get_rel_name(index_oid);

	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a %s index", name ? name : "?", GJ_NAME)));
}

/*
 * Open a gpujoin index with the locks that a query takes; raises an error if the user may not
 * manage it
 *
 * The lock on the table is kept until the end of the transaction; close the index with NoLock or
 * with the index's lock.
 */
Relation
GjOpenManagedIndex(Oid index_oid)
{
	Oid			heap_oid = table_of_own_index(index_oid);
	Relation	heap = table_open(heap_oid, AccessShareLock);	/* before the index, as always */
	Relation	index;

	/* we may have waited for the lock, and the index may have changed meanwhile */
	if (IndexGetRelation(index_oid, true) != heap_oid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the index has been dropped")));
	index = relation_open(index_oid, AccessShareLock);
	if (!GjIsTableOwner(heap_oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, RelationGetRelationName(index));
	if (!GjRelationIsIndex(index))
	{
		if (index->rd_rel->relkind != RELKIND_PARTITIONED_INDEX || !is_of_our_method(index_oid))
			report_not_ours(index_oid);
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("index \"%s\" is partitioned", RelationGetRelationName(index)),
				 errhint("Name the index of a partition; pg_partition_tree() lists them.")));
	}
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary index \"%s\" of another session",
						RelationGetRelationName(index))));
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(index)),
				 errhint("Drop it, or REINDEX it.")));
	table_close(heap, NoLock);
	return index;
}
