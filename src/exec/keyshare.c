/*-------------------------------------------------------------------------
 *
 * keyshare.c
 *	  The scans of one query that ask for the same keys, as those of a partitioned table's
 *	  partitions do, share the set: it is collected once, and divided once among partitions
 *	  (route.c).
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
#include "route.h"

/* What the scans of a query share */
typedef struct GjKeyShare
{
	dlist_node	node;			/* in shares */
	GjKeyRouter router;			/* of the query's estate */
	MemoryContextCallback callback;
	int			users;			/* nodes */
	List	   *sets;			/* of GjSharedKeys */
} GjKeyShare;

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
	GjKeyRoutes *routes;
};

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
	return GjKeyRoutesTake(user->keys->routes, partitions, context);
}

/*
 * Can only other tables have the keys?  Not if there are none.
 */
bool
GjKeysAreElsewhere(const GjKeyUser *user, List *partitions)
{
	return GjKeyRoutesAreElsewhere(user->keys->routes, partitions);
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
 * Stop using sets of this query; its last user closes the partitioned tables
 */
void
GjKeysEnd(GjKeyUser *user)
{
	GjKeyShare *share = user->share;

	GjKeysRelease(user);
	user->share = NULL;
	if (share == NULL || --share->users > 0)
		return;

	Assert(share->sets == NIL);
	GjKeyRouterClose(&share->router);
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
		if (share->router.estate == estate)
		{
			share->users++;
			return share;
		}
	}

	share = MemoryContextAllocZero(estate->es_query_cxt, sizeof(GjKeyShare));
	share->router.estate = estate;
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
	MemoryContext query = share->router.estate->es_query_cxt;
	MemoryContext context = AllocSetContextCreate(query, "gpujoin shared keys",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GjSharedKeys *keys = palloc0(sizeof(GjSharedKeys));

	keys->share = share;
	keys->context = context;
	keys->key_plan = request->key_plan;
	keys->values = request->values;
	keys->key_width = request->key_width;
	keys->set = GjKeyProgramRun(request->program, request->econtext, context,
								request->key_width);
	keys->routes = GjKeyRoutesCreate(&share->router, context, keys->set);
	note_params(keys, request);

	MemoryContextSwitchTo(query);
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
