/*-------------------------------------------------------------------------
 *
 * covers.c
 *	  Does an index of ours have all that a query wants of a table?
 *
 * Then rows on all-visible pages need not be read from the heap (rows/indexonly.c).
 * What is wanted is what leaves the scan (reltarget) and what filters use.  The key
 * conditions themselves need nothing: a match is exact where the index's keys are the
 * values themselves, and rows that are read from the heap have all attributes.
 *
 * The key is handed out as a column's value only if the column itself is indexed and
 * the operator class keeps it as it is.  So it is with our own classes; of somebody
 * else's key function we know nothing.  INCLUDE columns are kept as they are.
 *
 * System columns are not in the index.  So neither tables that are updated nor those
 * whose rows are locked get this far: their plans need ctid.
 *
 * In a serializable transaction every row is read from the heap (match/visible.c), so
 * that a plan made in one is not offered, nor costed, as if they were not.  A cached plan
 * may be executed at another level than it was made at: what is right is decided then,
 * here only what is quick.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "nodes/bitmapset.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "planner.h"

static bool index_has(const IndexOptInfo *index, AttrNumber attno);

/*
 * Can a scan be answered from the index alone?  Fills attnos with the attributes that
 * it needs, in ascending order; filters are the clauses that the scan tests.
 */
bool
GjIndexOnlyCovers(RelOptInfo *rel, IndexOptInfo *index, List *filters, List **attnos)
{
	List	   *exprs = list_copy(rel->reltarget->exprs);
	ListCell   *lc;

	*attnos = NIL;
	if (!enable_indexonlyscan || IsolationIsSerializable() || index->indexkeys[0] == 0 ||
		!GjIndexKeepsValues(index))
		return false;

	foreach(lc, filters)
		exprs = lappend(exprs, lfirst_node(RestrictInfo, lc)->clause);
	return GjIndexOnlyHas(index, rel->relid, exprs, attnos);
}

/*
 * Does an index have all attributes of its table that these expressions use?
 */
bool
GjIndexOnlyHas(IndexOptInfo *index, Index varno, List *exprs, List **attnos)
{
	Bitmapset  *used = NULL;
	int			member = -1;

	*attnos = NIL;
	pull_varattnos((Node *) exprs, varno, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno <= 0 || !index_has(index, attno))
			return false;
		*attnos = lappend_int(*attnos, attno);
	}
	return true;
}

static bool
index_has(const IndexOptInfo *index, AttrNumber attno)
{
	for (int i = 0; i < index->ncolumns; i++)
	{
		if (index->indexkeys[i] == attno)
			return true;
	}
	return false;
}
