/*-------------------------------------------------------------------------
 *
 * keyshare.h
 *	  Sets of keys that the scans of one query share.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_KEYSHARE_H
#define GPUJOIN_EXEC_KEYSHARE_H

#include "source.h"

typedef struct GjSharedKeys GjSharedKeys;

/* A node that uses a shared set, or will; begins as zeros */
typedef struct GjKeyUser
{
	struct GjKeyShare *share;	/* of its query, in this process */
	GjSharedKeys *keys;			/* the set, which lives as long as somebody uses it */
} GjKeyUser;

/* What a scan asks for.  Lists are of its plan, and live as long as the query. */
typedef struct GjKeyRequest
{
	List	   *key_plan;		/* node/keyplan.h */
	List	   *values;			/* of its sources */
	GjKeyProgram *program;		/* made of the first two */
	ExprContext *econtext;
	int			key_width;		/* of the index */
} GjKeyRequest;

extern const GjKeySet *GjKeysTake(GjKeyUser *user, EState *estate, const GjKeyRequest *request);
extern const GjKeySet *GjKeysPart(const GjKeyUser *user, List *partitions,
								  MemoryContext context);
extern bool GjKeysAreElsewhere(const GjKeyUser *user, List *partitions);
extern void GjKeysRelease(GjKeyUser *user);
extern void GjKeysEnd(GjKeyUser *user);

#endif							/* GPUJOIN_EXEC_KEYSHARE_H */
