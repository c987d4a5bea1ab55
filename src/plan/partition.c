/*-------------------------------------------------------------------------
 *
 * partition.c
 *	  Where a table stands among partitions that the key tells apart.
 *
 * A leaf of a partitioned table is planned like any table, with the whole condition.  When
 * its scan starts, it takes only those keys that it can have (rows/source.c).  For that the
 * plan says through which partitions one comes to it.  Levels that are partitioned by
 * something else, or by more than the key, only tell how old the partition is.  A partition
 * that the query names itself has no parent here; it is searched for all keys.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/pathnode.h"
#include "parser/parsetree.h"

#include "planner.h"

static bool is_partitioned_by(const RelOptInfo *parent, AttrNumber attno);

/*
 * List the way from the top down to a table: for each level the OID of the partitioned table,
 * invalid if the index's key does not divide it, and that of the partition; NIL if the key
 * divides none.  *share becomes the part of the keys that is to be expected in this table.
 */
List *
GjFindPartitions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double *share)
{
	AttrNumber	attno = index->indexkeys[0];
	Index		relid = rel->relid;
	List	   *partitions = NIL;
	bool		divided = false;
	AppendRelInfo *appinfo;

	*share = 1.0;
	while (root->append_rel_array != NULL && attno > 0 &&
		   (appinfo = root->append_rel_array[relid]) != NULL)
	{
		RelOptInfo *parent = root->simple_rel_array[appinfo->parent_relid];
		bool		by_key;

		/* the column's number in the parent; the parent of a UNION ALL has none */
		if (!OidIsValid(appinfo->parent_reloid) || attno > appinfo->num_child_cols)
			break;
		attno = appinfo->parent_colnos[attno - 1];

		by_key = is_partitioned_by(parent, attno);
		partitions = lcons_oid(planner_rt_fetch(relid, root)->relid, partitions);
		partitions = lcons_oid(by_key ? appinfo->parent_reloid : InvalidOid, partitions);
		if (by_key)
			*share /= Max(bms_num_members(parent->live_parts), 1);
		divided |= by_key;
		relid = appinfo->parent_relid;
	}
	if (divided && GjIndexKeepsValues(index))
		return partitions;
	*share = 1.0;
	return NIL;
}

static bool
is_partitioned_by(const RelOptInfo *parent, AttrNumber attno)
{
	const Var  *key = GjOnlyPartitionKey(parent);

	return key != NULL && attno > 0 && key->varattno == attno;
}

/*
 * Return the column by which alone a table is partitioned; NULL if there is none
 */
Var *
GjOnlyPartitionKey(const RelOptInfo *rel)
{
	Node	   *key;

	if (rel->part_scheme == NULL || rel->part_scheme->partnatts != 1 ||
		list_length(rel->partexprs[0]) != 1)
		return NULL;
	key = linitial(rel->partexprs[0]);
	return IsA(key, Var) ? (Var *) key : NULL;
}
