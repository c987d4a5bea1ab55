/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  The planner's hooks but one (rewrite.c): add our paths and remember them, and apply
 *	  gpujoin.enabled and gpujoin.force.
 *
 * gpujoin.enabled = off removes our indexes from the planner's list of a table's indexes, so that
 * no path of any kind, not even a bitmap path, can use one.  A prohibitive cost would not do: an
 * expensive path still wins where all others are disabled.
 *
 * gpujoin.force (for tests) removes all other paths from lists that have paths of ours, and scales
 * the costs of ours down so far that everything planned above prefers them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_am_d.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#include "base/compat.h"
#include "base/settings.h"
#include "planner.h"

typedef struct Offer
{
	dlist_node	node;
	CustomPath	path;
} Offer;

typedef struct Offers
{
	const RelOptInfo *rel;		/* hash key; a copy of the relation may refer to the same paths */
	dlist_head	paths;
} Offers;

/* How the conditions of a query use a column */
typedef struct KeyUse
{
	Index		varno;
	AttrNumber	attno;
	bool		has_other;		/* another index answers equalities with it */
	bool		alone;			/* in a condition on the table alone, or in an OR, which that index
								 * does not answer as well */
	bool		in_chain;		/* in a long OR chain */
} KeyUse;

/* Number of arms "key = value" from which one set is certainly better than bitmaps */
#define LONG_CHAIN				32

static HTAB *offers = NULL;

static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;
static set_join_pathlist_hook_type prev_set_join_pathlist_hook = NULL;
static create_upper_paths_hook_type prev_create_upper_paths_hook = NULL;

const GjPlanAdditions *GjPlanAdded = NULL;

static void require_citus_first(void);
static void hide_indexes(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);
static void add_scan_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
static void add_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						   RelOptInfo *innerrel, JoinType jointype,
						   JoinPathExtraData *extra);
static void add_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
							RelOptInfo *output, void *extra);
static void force_paths(RelOptInfo *rel);
static void set_costs(CustomPath *path, Cost startup, Cost run);
static List *list_our_paths(List *paths);
static void hide_scans(PlannerInfo *root, RelOptInfo *rel);
static void show_keys(RelOptInfo *rel);
static bool has_other_index(const RelOptInfo *rel, const IndexOptInfo *ours);
static bool find_in_query(PlannerInfo *root, KeyUse *use);
static void read_quals(PlannerInfo *root, Node *jointree, KeyUse *use);
static void read_qual(PlannerInfo *root, Node *qual, KeyUse *use);
static bool is_long_chain(Node *qual, Index varno, AttrNumber attno);
static bool compares_column(Node *arm, Index varno, AttrNumber attno);
static void price_windows(PlannerInfo *root, const RelOptInfo *output);
static bool waits_for_all(const WindowClause *window, const List *functions);
static bool has_index_of_ours(PlannerInfo *root);
static Offers *get_offers(RelOptInfo *rel, MemoryContext context);
static Offers *find_offers(const RelOptInfo *rel);
static void forget_offers(void *rel);

GJ_TABLE_HOOK(install_table_hook, hide_indexes)

/*
 * Install the hooks, in front of those that are installed already
 */
void
GjPlanInit(void)
{
	if (process_shared_preload_libraries_in_progress)
		require_citus_first();

	install_table_hook();
	prev_set_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = add_scan_paths;
	prev_set_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = add_join_paths;
	prev_create_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = add_upper_paths;
	GjListStatsInit();
	GjRewriteInit();
}

/*
 * Raise an error if Citus is loaded after us
 *
 * Citus replaces the planner's hooks without calling the previous ones.  If it is loaded after us,
 * our indexes are not used, and gpujoin.enabled has no effect.  Citus has been loaded before us if
 * planner_hook is set: it sets that hook, and does not tolerate others that do.
 */
static void
require_citus_first(void)
{
	List	   *libraries;
	ListCell   *lc;

	if (planner_hook != NULL ||
		!SplitDirectoriesString(pstrdup(shared_preload_libraries_string), ',', &libraries))
		return;
	foreach(lc, libraries)
	{
		if (strcmp(lfirst(lc), "citus") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("citus must come before gpujoin in shared_preload_libraries"),
					 errdetail("It replaces the planner's hooks of libraries that come before "
							   "it.")));
	}
}

/*
 * Look at the indexes of a table
 *
 * Hide ours while gpujoin is off.  Also hide them where snapshots may expire ("snapshot too old"),
 * because searches do not test pages for that.
 */
static void
hide_indexes(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	if (GjPlanAdded != NULL)
		GjPlanAdded->add_indexes(root, relid, inhparent, rel);

	if (gj_enabled && !GjOldSnapshotsExpire())
	{
		GjNoteIndexes(rel);
		hide_scans(root, rel);
		return;
	}

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (!GjIndexIsOurs(index))
			continue;
		GjChoiceRefused(relid, index->indexoid,
						gj_enabled ? "old_snapshot_threshold is set" : "gpujoin.enabled is off");
		rel->indexlist = foreach_delete_current(rel->indexlist, lc);
	}
}

/*
 * set_rel_pathlist_hook
 */
static void
add_scan_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (prev_set_rel_pathlist_hook)
		prev_set_rel_pathlist_hook(root, rel, rti, rte);
	show_keys(rel);
	if (GjPlanAdded != NULL)
		GjPlanAdded->note_table(root, rel);

	if (!gj_enabled)
		return;

	GjAddScanPaths(root, rel, rti, rte);
	force_paths(rel);
}

/*
 * set_join_pathlist_hook
 */
static void
add_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
			   RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	if (prev_set_join_pathlist_hook)
		prev_set_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);

	if (!gj_enabled || GjOtherJoinIsWanted(root, extra) || !GjJoinMayBeHere(root, joinrel))
		return;

	GjAddJoinPaths(root, joinrel, outerrel, innerrel, jointype, extra);
	if (GjIsOfGroups(joinrel))
		return;
	GjUndercutLoop(root, joinrel);
	force_paths(joinrel);
}

/*
 * create_upper_paths_hook
 */
static void
add_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
				RelOptInfo *output, void *extra)
{
	if (prev_create_upper_paths_hook)
		prev_create_upper_paths_hook(root, stage, input, output, extra);

	if (!gj_enabled)
		return;
	if (stage == UPPERREL_WINDOW)
		price_windows(root, output);
	GjAddUpperPaths(root, stage, input, output, extra);
}

/*
 * Let the first row of the last window, if that is over all rows, cost what it waits for
 *
 * PostgreSQL 15 and 16 price the first row of count(*) OVER () like the first of the rows that it
 * counts, though it reads them all before.  So with LIMIT they would read a whole table in the
 * order of a btree to find a few rows.  Later versions know this.  Queries of tables without an
 * index of ours keep their plans.
 */
static void
price_windows(PlannerInfo *root, const RelOptInfo *output)
{
	WindowFuncLists *functions;
	ListCell   *lc;

	if (!has_index_of_ours(root))
		return;
	functions = find_window_functions((Node *) root->processed_tlist,
									  list_length(root->parse->windowClause));
	foreach(lc, output->pathlist)
	{
		WindowAggPath *path = lfirst(lc);

		if (IsA(path, WindowAggPath) &&
			waits_for_all(path->winclause, functions->windowFuncs[path->winclause->winref]))
			path->path.startup_cost = Max(path->path.startup_cost, path->subpath->total_cost);
	}
}

/*
 * Whether an aggregate of this window sees all rows, and so waits for the last one
 */
static bool
waits_for_all(const WindowClause *window, const List *functions)
{
	ListCell   *lc;

	if (window->partitionClause != NIL ||
		((window->frameOptions & FRAMEOPTION_END_UNBOUNDED_FOLLOWING) == 0 &&
		 ((window->frameOptions & FRAMEOPTION_END_CURRENT_ROW) == 0 ||
		  (window->frameOptions & FRAMEOPTION_ROWS) != 0 || window->orderClause != NIL)))
		return false;
	foreach(lc, functions)
	{
		if (lfirst_node(WindowFunc, lc)->winagg)
			return true;
	}
	return false;
}

static bool
has_index_of_ours(PlannerInfo *root)
{
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];
		ListCell   *lc;

		foreach(lc, rel == NULL ? NIL : rel->indexlist)
		{
			if (GjIndexIsOurs(lfirst(lc)))
				return true;
		}
	}
	return false;
}

/*
 * Set the costs of a path of ours and add it to its relation, unless it is for aggregates only
 */
void
GjAddPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup, Cost run)
{
	set_costs(path, startup, run);
	if (GjGatherIsWanted(root, rel))
		GjPathDisable(&path->path, &path->path.startup_cost);
	GjChoiceOffered(root, rel, path);
	GjOfferNote(path);
	if (GjPathIsForGroups(path))
		return;
	if (gj_force)
	{
		rel->pathlist = list_our_paths(rel->pathlist);
		rel->partial_pathlist = list_our_paths(rel->partial_pathlist);
	}
	add_path(rel, &path->path);
}

/*
 * Set the costs of a partial path and add it to its relation
 *
 * Charge the path for its workers (cost.c).  alone is the cost of the same path for one process,
 * unit the time that a unit of both costs takes.
 */
void
GjAddPartialPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup, Cost run,
				 Cost alone, double unit)
{
	Cost		workers = GjCostWorkers(root, rel, path->path.parallel_workers, unit, alone,
										startup + run);
	Cost		total = startup + run + workers;

	startup = Min(Max(startup + workers, 0.0), total);
	set_costs(path, startup, total - startup);
	GjOfferNote(path);
	if (GjPathIsForGroups(path))
		return;
	if (gj_force)
		rel->partial_pathlist = list_our_paths(rel->partial_pathlist);
	add_partial_path(rel, &path->path);
}

static void
set_costs(CustomPath *path, Cost startup, Cost run)
{
	double		scale = gj_force ? GJ_FORCED_COST_SCALE : 1.0;

	path->path.startup_cost = startup * scale;
	path->path.total_cost = (startup + run) * scale;
}

/*
 * Under gpujoin.force, remove the other paths of a relation that has a path of ours
 *
 * Our paths have no parameters, so set_cheapest() finds the paths that it needs.  Core calls the
 * join hook for each pair of inputs, and adds other paths between two calls; each call removes
 * those.
 */
static void
force_paths(RelOptInfo *rel)
{
	List	   *ours;

	if (!gj_force)
		return;

	ours = list_our_paths(rel->pathlist);
	if (ours != NIL)
	{
		rel->pathlist = ours;
		rel->partial_pathlist = list_our_paths(rel->partial_pathlist);
	}
}

static List *
list_our_paths(List *paths)
{
	List	   *ours = NIL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		if (GjPathIsOurs(lfirst(lc)))
			ours = lappend(ours, lfirst(lc));
	}
	return ours;
}

/*
 * Return true if a path is a GpuScan or a GpuJoin
 */
bool
GjPathIsOurs(const Path *path)
{
	return IsA(path, CustomPath) &&
		(((const CustomPath *) path)->methods == &GjScanPathMethods ||
		 ((const CustomPath *) path)->methods == &GjJoinPathMethods);
}

/*-------------------------------------------------------------------------
 * Offered paths
 *
 * Remember the paths that we offered for a relation.
 *
 * The cheapest path for a million rows need not be the cheapest input of an aggregate, which can
 * read our rows at a lower cost than those of other nodes.  But when aggregates are planned,
 * add_path() has already freed all but the cheapest paths.  So we keep a copy of each path of
 * ours.  Freeing a path does not free the nodes that it refers to, and the paths below a join are
 * the cheapest of their relations, which remain.
 *
 * The copies live as long as their relation: they are allocated in its memory context, which may
 * be short-lived (GEQO tries joins in contexts of their own).  They are found through a hash table
 * that is keyed by the relation's address, because we look up each of possibly a thousand
 * partitions; a reset callback of the context removes the relation from it.
 *-------------------------------------------------------------------------
 */

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
get_offers(RelOptInfo *rel, MemoryContext context)
{
	HASHCTL		info = {.keysize = sizeof(const RelOptInfo *),.entrysize = sizeof(Offers)};
	MemoryContextCallback *forget;
	Offers	   *of_rel;

	if (offers == NULL)
		offers = hash_create("gpujoin offers", 64, &info, HASH_ELEM | HASH_BLOBS);
	of_rel = find_offers(rel);
	if (of_rel != NULL)
		return of_rel;

	/* no error can occur between adding the entry and registering its removal */
	forget = MemoryContextAlloc(context, sizeof(MemoryContextCallback));
	forget->func = forget_offers;
	forget->arg = rel;
	of_rel = hash_search(offers, &rel, HASH_ENTER, NULL);
	dlist_init(&of_rel->paths);
	MemoryContextRegisterResetCallback(context, forget);
	return of_rel;
}

static Offers *
find_offers(const RelOptInfo *rel)
{
	return offers == NULL ? NULL : hash_search(offers, &rel, HASH_FIND, NULL);
}

static void
forget_offers(void *rel)
{
	hash_search(offers, &rel, HASH_REMOVE, NULL);
}

/*
 * Find the cheapest path that was offered for a relation: for one process or, if is_partial,
 * divided among several; returns NULL if none was offered
 *
 * The result is a copy, which the caller may change.
 */
CustomPath *
GjOfferFind(const RelOptInfo *rel, bool is_partial)
{
	Offers	   *of_rel = find_offers(rel);
	const CustomPath *found = NULL;
	CustomPath *copy;
	dlist_iter	iter;

	if (of_rel == NULL)
		return NULL;
	dlist_foreach(iter, &of_rel->paths)
	{
		const CustomPath *path = &dlist_container(Offer, node, iter.cur)->path;

		/* pg_hint_plan, if loaded after us, may have removed the index since, and freed it */
		if ((path->path.parallel_workers > 0) == is_partial && path->path.parent == rel &&
			(path->methods != &GjScanPathMethods ||
			 list_member_ptr(rel->indexlist, list_nth(path->custom_private, GJ_SCAN_PATH_INDEX))) &&
			(found == NULL || GjIsCheaper(&path->path, &found->path)))
			found = path;
	}
	if (found == NULL)
		return NULL;
	copy = palloc(sizeof(CustomPath));
	*copy = *found;
	return copy;
}

/*-------------------------------------------------------------------------
 * Scans that PostgreSQL makes
 *
 * Decide which of its own scans PostgreSQL considers for an index of ours, besides our nodes.
 *
 * Plain index scans (am/handler.c) answer conditions with values of another table, for a nested
 * loop, and find few rows that are changed or locked.  PostgreSQL does not test the predicate of a
 * partial index above them, so these have none.  If a btree has the same column, it serves nested
 * loops, and considering our index, too, would only take planning time.
 *
 * Bitmap scans are for conditions on the table alone, which they combine with other indexes, and
 * for any OR.  For the clauses of joins PostgreSQL would also make a bitmap scan wherever it makes
 * a plain one, which does the same search, for each partition.  So if the key is in no other
 * condition, the index has no bitmap scans.  Beside a btree, "key = value" is none, either.
 *
 * Nor has it any if the key is in a long OR chain.  Some tools write chains of hundreds of "key =
 * value" with OR between them.  Core considers a bitmap scan for each arm and each index that
 * answers it.  GpuScan makes one set of all arms (conditions.c); a search of the whole index for
 * each arm would be the worst plan of all, and considering a thousand of them takes a fifth of the
 * planning time.
 *
 * An index that has neither has no key columns, either, until PostgreSQL has made its index paths:
 * it would find all clauses that match the key, also those that follow from others, before it looks
 * at the kinds of scans.  That takes as long for each partition as for a second btree.
 *
 * Both cost at most a BitmapAnd or BitmapOr with other conditions: also where PostgreSQL derives a
 * condition on the key from a join, as from key = s.id AND s.id = 5.
 *
 * We do this when the planner collects a table's indexes, which is before it distributes the
 * clauses.  So we look at the query tree, in which a partition's columns are those of the table
 * that the query names.
 *-------------------------------------------------------------------------
 */

/*
 * Disable the scans of our indexes that PostgreSQL need not consider, or must not
 */
static void
hide_scans(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *lc;

	/* CREATE INDEX and CLUSTER compare costs with an empty query */
	if (root->parse->jointree == NULL)
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		KeyUse		use = {.varno = rel->relid,.attno = index->indexkeys[0]};

		if (!GjIndexIsOurs(index))
			continue;
		use.has_other = has_other_index(rel, index);
		if (index->indpred != NIL || use.has_other)
			index->amhasgettuple = false;
		if (!find_in_query(root, &use))
			continue;
		read_quals(root, (Node *) root->parse->jointree, &use);
		if (use.in_chain || ((index->amhasgettuple || use.has_other) && !use.alone))
			index->amhasgetbitmap = false;
		if (!index->amhasgettuple && !index->amhasgetbitmap)
			index->nkeycolumns = 0;
	}
}

/*
 * Show the keys of our indexes again, after PostgreSQL has made its index paths of a table
 */
static void
show_keys(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (index->nkeycolumns == 0 && GjIndexIsOurs(index))
			index->nkeycolumns = 1;
	}
}

/*
 * Return true if another index, which is not ours, answers all equalities with the key
 */
static bool
has_other_index(const RelOptInfo *rel, const IndexOptInfo *ours)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (index->relam == BTREE_AM_OID && index->indpred == NIL && !index->hypothetical &&
			index->indexkeys[0] != 0 && index->indexkeys[0] == ours->indexkeys[0])
			return true;
	}
	return false;
}

/*
 * Translate a column of a partition or child to that of the table that the query names; returns
 * false if that table has no such column, or the column is an expression
 */
static bool
find_in_query(PlannerInfo *root, KeyUse *use)
{
	use->alone = planner_rt_fetch(use->varno, root)->securityQuals != NIL;
	while (use->attno > 0 && root->append_rel_array != NULL &&
		   root->append_rel_array[use->varno] != NULL)
	{
		AppendRelInfo *appinfo = root->append_rel_array[use->varno];

		use->varno = appinfo->parent_relid;
		use->attno = use->attno <= appinfo->num_child_cols ?
			appinfo->parent_colnos[use->attno - 1] : 0;
		use->alone |= planner_rt_fetch(use->varno, root)->securityQuals != NIL;
	}
	return use->attno > 0;
}

static void
read_quals(PlannerInfo *root, Node *jointree, KeyUse *use)
{
	List	   *parts = NIL;
	Node	   *quals = NULL;
	ListCell   *lc;

	if (IsA(jointree, FromExpr))
	{
		parts = ((FromExpr *) jointree)->fromlist;
		quals = ((FromExpr *) jointree)->quals;
	}
	else if (IsA(jointree, JoinExpr))
	{
		parts = list_make2(((JoinExpr *) jointree)->larg, ((JoinExpr *) jointree)->rarg);
		quals = ((JoinExpr *) jointree)->quals;
	}

	/* the planner has already turned the quals into lists */
	if (quals != NULL && IsA(quals, List))
	{
		foreach(lc, (List *) quals)
			read_qual(root, lfirst(lc), use);
	}
	foreach(lc, parts)
		read_quals(root, lfirst(lc), use);
}

static void
read_qual(PlannerInfo *root, Node *qual, KeyUse *use)
{
	Bitmapset  *attnos = NULL;

	if (is_long_chain(qual, use->varno, use->attno))
		use->in_chain = true;
	if (use->alone || use->in_chain || (use->has_other && IsA(qual, OpExpr)))
		return;
	pull_varattnos(qual, use->varno, &attnos);
	use->alone = bms_is_member(use->attno - FirstLowInvalidHeapAttributeNumber, attnos) &&
		(is_orclause(qual) || bms_membership(pull_varnos(root, qual)) == BMS_SINGLETON);
}

static bool
is_long_chain(Node *qual, Index varno, AttrNumber attno)
{
	int			narms = 0;
	ListCell   *lc;

	if (!is_orclause(qual) || list_length(((BoolExpr *) qual)->args) < LONG_CHAIN)
		return false;

	foreach(lc, ((BoolExpr *) qual)->args)
		narms += compares_column(lfirst(lc), varno, attno);
	return narms >= LONG_CHAIN;
}

/*
 * Return true if an arm compares the column, or is a tuple with such a comparison
 */
static bool
compares_column(Node *arm, Index varno, AttrNumber attno)
{
	List	   *args = NIL;
	ListCell   *lc;

	if (IsA(arm, OpExpr))
		args = ((OpExpr *) arm)->args;
	else if (is_andclause(arm))
		args = ((BoolExpr *) arm)->args;
	foreach(lc, args)
	{
		Var		   *var = lfirst(lc);

		if (IsA(arm, OpExpr) ? IsA(var, Var) && var->varno == varno && var->varattno == attno :
			IsA(var, OpExpr) && compares_column(lfirst(lc), varno, attno))
			return true;
	}
	return false;
}
