/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  What the launcher tells a loader, and what it knows of databases.
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
	uint32		number;			/* to be reported when it is done */
	bool		marked;			/* ask for all marked indexes first */
} GjLoaderTask;

/* A database that needs attention */
typedef struct GjDatabase
{
	Oid			oid;
	bool		marked;			/* marked indexes are to be looked for */
	int			failures;		/* of loaders, one after the other */
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
