/*-------------------------------------------------------------------------
 *
 * keyshare.c
 *	  The scans of one query that ask for the same keys, as those of a partitioned table's
 *	  partitions do, share the set: it is collected once, and divided once among partitions.
 *
 * When are the keys the same?  If the conditions are, as expressions, and so are the values
 * of the executor's parameters in them.  All else that they consist of is the same for
 * the whole of a query: constants, its own parameters, stable functions.  Volatile ones are
 * in no condition of ours.  A parameter's value is compared, not who has set it, so that
 * nothing has to be known of rescans.  A subquery that has not run yet has no value.  It is
 * not run to get one: the condition may not need it, and it may fail, or write.  What was
 * not needed when a set was made would not be needed for the same values of the others.
 *
 * A query is an EState.  What its scans share lives in its memory, and is looked up by its
 * address; a callback forgets it when that memory goes.  Each process has its own, and so
 * does a copy of the plan for EvalPlanQual, whose scans do not come here.
 *
 * A set is freed when the last scan that uses it lets it go.  One that holds only a part
 * of it, in memory of its own, still counts as a user: others are likely to come.
 *
 * The part of a table among the partitions is found from the top down.  At each level
 * whose partitions the key tells (partition.c), keys are divided among all of them at
 * once; what is below is made from one partition's share.  That of a complement is the same:
 * of the keys that are not wanted, those that no row of the table has do not matter.  Below
 * a partition that is younger than the snapshot it begins anew with all keys, since no bound
 * above it had to hold for its rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "lib/ilist.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "keyshare.h"
#include "partition.h"

/* What the scans of a query share */
typedef struct GjKeyShare
{
	dlist_node	node;			/* in shares */
	EState	   *estate;
	MemoryContextCallback callback;
	int			users;			/* nodes */
	List	   *sets;			/* of GjSharedKeys */
	List	   *parents;		/* of Parent */
} GjKeyShare;

/* A partitioned table, of which NULL is remembered, too */
typedef struct Parent
{
	Oid			relid;
	GjPartitions *partitions;
} Parent;

/* The value of a parameter, flat */
typedef struct ParamValue
{
	int16		typlen;
	bool		typbyval;
	bool		pending;		/* a subquery that has not run; of a set, that it did not need */
	bool		isnull;
	Datum		value;
} ParamValue;

struct GjSharedKeys
{
	GjKeyShare *share;
	MemoryContext context;
	int			users;
	List	   *key_plan;
	List	   *values;
	int			key_width;
	int			nparams;
	ParamValue *params;
	GjKeySet   *set;
	List	   *routes;			/* of Route */
};

/* How keys are divided among the partitions of one table */
typedef struct Route
{
	GjPartitions *partitions;
	const int64 *above;			/* the keys that were divided: where they are tells which */
	GjKeySplit *split;
} Route;

/* Part of a set */
typedef struct Slice
{
	const int64 *keys;
	uint64		nkeys;
} Slice;

static dlist_head shares = DLIST_STATIC_INIT(shares);

static GjKeyShare *attach(EState *estate);
static void forget_share(void *share);
static int	read_params(const GjKeyRequest *request, ParamValue **values);
static void read_param(const Param *param, ExprContext *econtext, ParamValue *value);
static GjSharedKeys *find_keys(GjKeyShare *share, const GjKeyRequest *request,
							   const ParamValue *params, int nparams);
static bool is_asked_for(const GjSharedKeys *keys, const GjKeyRequest *request,
						 const ParamValue *params, int nparams);
static bool is_same_value(const ParamValue *had, const ParamValue *has);
static GjSharedKeys *create_keys(GjKeyShare *share, const GjKeyRequest *request);
static void note_params(GjSharedKeys *keys, const GjKeyRequest *request);
static Slice find_slice(GjSharedKeys *keys, List *partitions);
static GjPartitions *open_parent(GjKeyShare *share, Oid relid);
static GjKeySplit *get_split(GjSharedKeys *keys, GjPartitions *partitions, Slice slice);

/*
 * Get the set that is asked for, as a whole.  It and its parts are good until the user
 * releases it or takes another one.
 */
const GjKeySet *
GjKeysTake(GjKeyUser *user, EState *estate, const GjKeyRequest *request)
{
	ParamValue *params;
	int			nparams = read_params(request, &params);

	GjKeysRelease(user);
	if (user->share == NULL)
		user->share = attach(estate);
	user->keys = find_keys(user->share, request, params, nparams);
	if (user->keys == NULL)
		user->keys = create_keys(user->share, request);
	user->keys->users++;
	ResetExprContext(request->econtext);
	return user->keys->set;
}

/*
 * The set of those keys that a table may have: the whole, or one in the given memory
 */
const GjKeySet *
GjKeysPart(const GjKeyUser *user, List *partitions, MemoryContext context)
{
	const GjKeySet *whole = user->keys->set;
	Slice		slice = find_slice(user->keys, partitions);

	if (slice.keys == whole->keys)
		return whole;
	return GjKeySetPart(context, whole, slice.keys, slice.nkeys);
}

/*
 * Can only other tables have the keys?  Not if there are none.
 */
bool
GjKeysAreElsewhere(const GjKeyUser *user, List *partitions)
{
	return user->keys->set->nkeys > 0 && find_slice(user->keys, partitions).nkeys == 0;
}

void
GjKeysRelease(GjKeyUser *user)
{
	GjSharedKeys *keys = user->keys;

	user->keys = NULL;
	if (keys == NULL || --keys->users > 0)
		return;
	keys->share->sets = list_delete_ptr(keys->share->sets, keys);
	MemoryContextDelete(keys->context);
}

/*
 * The last user closes the tables
 */
void
GjKeysEnd(GjKeyUser *user)
{
	GjKeyShare *share = user->share;
	ListCell   *lc;

	GjKeysRelease(user);
	user->share = NULL;
	if (share == NULL || --share->users > 0)
		return;

	Assert(share->sets == NIL);
	foreach(lc, share->parents)
	{
		Parent	   *parent = lfirst(lc);

		if (parent->partitions != NULL)
			GjPartitionsClose(parent->partitions);
	}
	list_free_deep(share->parents);
	share->parents = NIL;
}

/*
 * Join those who share in this query
 */
static GjKeyShare *
attach(EState *estate)
{
	GjKeyShare *share;
	dlist_iter	iter;

	dlist_foreach(iter, &shares)
	{
		share = dlist_container(GjKeyShare, node, iter.cur);
		if (share->estate == estate)
		{
			share->users++;
			return share;
		}
	}

	share = MemoryContextAllocZero(estate->es_query_cxt, sizeof(GjKeyShare));
	share->estate = estate;
	share->users = 1;
	dlist_push_head(&shares, &share->node);
	share->callback.func = forget_share;
	share->callback.arg = share;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &share->callback);
	return share;
}

static void
forget_share(void *share)
{
	dlist_delete(&((GjKeyShare *) share)->node);
}

/*
 * The values of the executor's parameters, in the per-tuple memory
 */
static int
read_params(const GjKeyRequest *request, ParamValue **values)
{
	List	   *params = GjKeyProgramParamNodes(request->program);
	MemoryContext old = MemoryContextSwitchTo(request->econtext->ecxt_per_tuple_memory);
	int			nparams = 0;
	ListCell   *lc;

	*values = palloc_array(ParamValue, list_length(params));
	foreach(lc, params)
		read_param(lfirst(lc), request->econtext, &(*values)[nparams++]);
	MemoryContextSwitchTo(old);
	return nparams;
}

static void
read_param(const Param *param, ExprContext *econtext, ParamValue *value)
{
	ParamExecData *data = &econtext->ecxt_param_exec_vals[param->paramid];

	get_typlenbyval(param->paramtype, &value->typlen, &value->typbyval);
	value->pending = data->execPlan != NULL;
	value->isnull = value->pending || data->isnull;
	value->value = data->value;
	if (!value->isnull && value->typlen == -1)
		value->value = PointerGetDatum(PG_DETOAST_DATUM(data->value));
}

static GjSharedKeys *
find_keys(GjKeyShare *share, const GjKeyRequest *request, const ParamValue *params, int nparams)
{
	ListCell   *lc;

	foreach(lc, share->sets)
	{
		if (is_asked_for(lfirst(lc), request, params, nparams))
			return lfirst(lc);
	}
	return NULL;
}

static bool
is_asked_for(const GjSharedKeys *keys, const GjKeyRequest *request, const ParamValue *params,
			 int nparams)
{
	if (keys->key_width != request->key_width || keys->nparams != nparams ||
		!equal(keys->key_plan, request->key_plan) || !equal(keys->values, request->values))
		return false;

	for (int i = 0; i < nparams; i++)
	{
		if (!is_same_value(&keys->params[i], &params[i]))
			return false;
	}
	return true;
}

/*
 * Is the parameter's value the one that the set was made of, if it was?
 */
static bool
is_same_value(const ParamValue *had, const ParamValue *has)
{
	if (had->pending)
		return true;
	if (has->pending || had->isnull != has->isnull)
		return false;
	return has->isnull || datumIsEqual(had->value, has->value, has->typbyval, has->typlen);
}

static GjSharedKeys *
create_keys(GjKeyShare *share, const GjKeyRequest *request)
{
	MemoryContext context = AllocSetContextCreate(share->estate->es_query_cxt,
												  "gpujoin shared keys", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GjSharedKeys *keys = palloc0(sizeof(GjSharedKeys));

	keys->share = share;
	keys->context = context;
	keys->key_plan = request->key_plan;
	keys->values = request->values;
	keys->key_width = request->key_width;
	keys->set = GjKeyProgramRun(request->program, request->econtext, context,
								request->key_width);
	note_params(keys, request);

	MemoryContextSwitchTo(share->estate->es_query_cxt);
	share->sets = lappend(share->sets, keys);
	MemoryContextSwitchTo(old);
	return keys;
}

/*
 * Of what values the set was made, now that all subqueries have run that it needed
 */
static void
note_params(GjSharedKeys *keys, const GjKeyRequest *request)
{
	ParamValue *params;

	keys->nparams = read_params(request, &params);
	keys->params = palloc_array(ParamValue, keys->nparams);
	for (int i = 0; i < keys->nparams; i++)
	{
		keys->params[i] = params[i];
		if (!params[i].isnull)
			keys->params[i].value = datumCopy(params[i].value, params[i].typbyval,
											  params[i].typlen);
	}
}

static Slice
find_slice(GjSharedKeys *keys, List *partitions)
{
	const Slice whole = {keys->set->keys, keys->set->nkeys};
	Slice		slice = whole;

	for (int i = 0; i < list_length(partitions); i += 2)
	{
		Oid			relid = list_nth_oid(partitions, i);
		Oid			partition = list_nth_oid(partitions, i + 1);
		GjPartitions *parent;
		GjKeySplit *split;
		int			place;

		if (!GjPartitionIsOlder(partition, keys->share->estate->es_snapshot))
		{
			slice = whole;
			continue;
		}
		if (!OidIsValid(relid) || slice.nkeys == 0)
			continue;
		parent = open_parent(keys->share, relid);
		if (parent == NULL)
			continue;
		place = GjPartitionsPlace(parent, partition);
		if (place < 0)
			continue;
		split = get_split(keys, parent, slice);
		slice.keys = split->keys + split->starts[place];
		slice.nkeys = split->starts[place + 1] - split->starts[place];
	}
	return slice;
}

static GjPartitions *
open_parent(GjKeyShare *share, Oid relid)
{
	MemoryContext old;
	Parent	   *parent;
	ListCell   *lc;

	foreach(lc, share->parents)
	{
		parent = lfirst(lc);
		if (parent->relid == relid)
			return parent->partitions;
	}

	old = MemoryContextSwitchTo(share->estate->es_query_cxt);
	parent = palloc(sizeof(Parent));
	parent->relid = relid;
	parent->partitions = GjPartitionsOpen(share->estate, relid);
	share->parents = lappend(share->parents, parent);
	MemoryContextSwitchTo(old);
	return parent->partitions;
}

static GjKeySplit *
get_split(GjSharedKeys *keys, GjPartitions *partitions, Slice slice)
{
	MemoryContext old;
	Route	   *route;
	ListCell   *lc;

	foreach(lc, keys->routes)
	{
		route = lfirst(lc);
		if (route->partitions == partitions && route->above == slice.keys)
			return route->split;
	}

	old = MemoryContextSwitchTo(keys->context);
	route = palloc(sizeof(Route));
	route->partitions = partitions;
	route->above = slice.keys;
	route->split = GjPartitionsSplit(partitions, keys->context, slice.keys, slice.nkeys);
	keys->routes = lappend(keys->routes, route);
	MemoryContextSwitchTo(old);
	return route->split;
}
