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
 * The copies live as long as their relation: they are freed with the memory context of that,
 * which may be a short one (GEQO tries joins in contexts of their own), and the relation is taken
 * out of the table then.  The table is keyed by the relation's address, since each of a thousand
 * partitions asks.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "agg.h"
#include "alternative.h"
#include "planner.h"

typedef struct Offer
{
	dlist_node	node;
	CustomPath	path;
} Offer;

typedef struct Offers
{
	const RelOptInfo *rel;		/* the key */
	dlist_head	paths;
} Offers;

static HTAB *offers = NULL;

static Offers *get_offers(const RelOptInfo *rel, MemoryContext context);
static void create_table(void);
static void forget_offers(void *rel);
static bool has_its_index(const RelOptInfo *rel, const CustomPath *path);

/*
 * Keep a copy of a path
 */
void
GjOfferNote(const CustomPath *path)
{
	MemoryContext context = GetMemoryChunkContext(path->path.parent);
	Offer	   *offer = MemoryContextAlloc(context, sizeof(Offer));

	offer->path = *path;
	dlist_push_tail(&get_offers(path->path.parent, context)->paths, &offer->node);
}

static Offers *
get_offers(const RelOptInfo *rel, MemoryContext context)
{
	MemoryContextCallback *forget;
	Offers	   *of_rel;

	if (offers == NULL)
		create_table();
	of_rel = hash_search(offers, &rel, HASH_FIND, NULL);
	if (of_rel != NULL)
		return of_rel;

	/* nothing can fail between the entry and what will remove it */
	forget = MemoryContextAlloc(context, sizeof(MemoryContextCallback));
	forget->func = forget_offers;
	forget->arg = unconstify(RelOptInfo *, rel);
	of_rel = hash_search(offers, &rel, HASH_ENTER, NULL);
	dlist_init(&of_rel->paths);
	MemoryContextRegisterResetCallback(context, forget);
	return of_rel;
}

static void
create_table(void)
{
	HASHCTL		info = {
		.keysize = sizeof(const RelOptInfo *),.entrysize = sizeof(Offers)
	};

	offers = hash_create("gpujoin offers", 64, &info, HASH_ELEM | HASH_BLOBS);
}

static void
forget_offers(void *rel)
{
	hash_search(offers, &rel, HASH_REMOVE, NULL);
}

/*
 * The cheapest path that was offered for a relation, for one process or divided among several;
 * NULL if none was.  It is a copy of the caller's own.
 */
CustomPath *
GjOfferFind(const RelOptInfo *rel, bool is_partial)
{
	Offers	   *of_rel = offers == NULL ? NULL : hash_search(offers, &rel, HASH_FIND, NULL);
	const CustomPath *found = NULL;
	CustomPath *copy;
	dlist_iter	iter;

	if (of_rel == NULL)
		return NULL;
	dlist_foreach(iter, &of_rel->paths)
	{
		const CustomPath *path = &dlist_container(Offer, node, iter.cur)->path;

		if ((path->path.parallel_workers > 0) == is_partial && has_its_index(rel, path) &&
			(found == NULL || path->path.total_cost < found->path.total_cost))
			found = path;
	}
	if (found == NULL)
		return NULL;
	copy = palloc(sizeof(CustomPath));
	*copy = *found;
	return copy;
}

/*
 * Is the index of a scan still there?  pg_hint_plan takes those off the planner's list that a hint
 * forbids, and may free them; where it was loaded after us, that is after we have offered a path.
 */
static bool
has_its_index(const RelOptInfo *rel, const CustomPath *path)
{
	if (path->methods == &GjAlternativePathMethods)
		return GjAlternativeIsListed(rel, path);
	return path->methods != &GjScanPathMethods ||
		list_member_ptr(rel->indexlist, list_nth(path->custom_private, GJ_SCAN_PATH_INDEX));
}
