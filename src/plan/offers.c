/*-------------------------------------------------------------------------
 *
 * offers.c
 *	  Remember the paths that we offered for a relation.
 *
 * What is cheapest for a million rows is not what is cheapest for what an aggregate makes of
 * them, if the aggregate takes our rows more cheaply than others'.  By the time aggregates are
 * planned, add_path() has dropped, and freed, what was not the cheapest for the rows.  So a
 * copy of each path of ours is kept.  What a path refers to is not freed with it; the paths
 * below a join are the cheapest of their relations, and stay.
 *
 * A copy lives as long as its relation: it is freed with the memory context of that, which
 * may be a short one (GEQO tries joins in contexts of their own), and takes itself out of
 * the list then.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "agg.h"

typedef struct Offer
{
	dlist_node	node;
	MemoryContextCallback forget;
	CustomPath	path;
} Offer;

static dlist_head offers = DLIST_STATIC_INIT(offers);

static void forget_offer(void *arg);

/*
 * Keep a copy of a path
 */
void
GjOfferNote(const CustomPath *path)
{
	MemoryContext context = GetMemoryChunkContext(path->path.parent);
	Offer	   *offer = MemoryContextAlloc(context, sizeof(Offer));

	offer->path = *path;
	offer->forget.func = forget_offer;
	offer->forget.arg = offer;
	dlist_push_tail(&offers, &offer->node);
	MemoryContextRegisterResetCallback(context, &offer->forget);
}

static void
forget_offer(void *arg)
{
	dlist_delete(&((Offer *) arg)->node);
}

/*
 * The cheapest path that was offered for a relation, for one process or divided among several;
 * NULL if none was.  It is a copy of the caller's own.
 */
CustomPath *
GjOfferFind(const RelOptInfo *rel, bool is_partial)
{
	const CustomPath *found = NULL;
	CustomPath *copy;
	dlist_iter	iter;

	dlist_foreach(iter, &offers)
	{
		const CustomPath *path = &dlist_container(Offer, node, iter.cur)->path;

		if (path->path.parent == rel && (path->path.parallel_workers > 0) == is_partial &&
			(found == NULL || path->path.total_cost < found->path.total_cost))
			found = path;
	}
	if (found == NULL)
		return NULL;
	copy = palloc(sizeof(CustomPath));
	*copy = *found;
	return copy;
}
