/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  Tasks of loaders, and the launcher's list of databases.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_LAUNCHER_H
#define GPUJOIN_MIRROR_LAUNCHER_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/* bgw_extra of a loader */
typedef struct GjLoaderTask
{
	uint32		number;			/* reported when the task is done */
	bool		marked;			/* true to request all marked indexes first */
} GjLoaderTask;

/* A database that needs attention */
typedef struct GjDatabase
{
	Oid			oid;
	bool		marked;			/* true if marked indexes must be searched for */
	int			failures;		/* number of consecutive failures of loaders */
	TimestampTz not_before;
} GjDatabase;

typedef struct GjDatabases
{
	MemoryContext context;
	List	   *list;			/* of GjDatabase */
} GjDatabases;

/* loader.c */
extern List *GjDatabaseList(GjDatabases *databases, bool only_open);
extern bool GjDatabaseIsListed(GjDatabases *databases, Oid oid, bool only_open);
extern GjDatabase *GjDatabaseFind(GjDatabases *databases, Oid oid);
extern GjDatabase *GjDatabaseNeed(GjDatabases *databases, Oid oid);
extern GjDatabase *GjDatabaseChoose(GjDatabases *databases, TimestampTz now);
extern void GjDatabasePostpone(GjDatabase *database);
extern void GjDatabaseForget(GjDatabases *databases, GjDatabase *database);

#endif							/* GPUJOIN_MIRROR_LAUNCHER_H */
