/*-------------------------------------------------------------------------
 *
 * key.c
 *	  What a mirror is a copy of, and whether that still exists.
 *
 * A mirror is proved fresh by a sequence number of the index (match/device.c).  That needs both to
 * have the same history: numbers of an index with another past say nothing.  So the key has all
 * that tells histories apart:
 *
 *	  build id		each build of an index begins a new one
 *	  file			a copy of a database has files with the same names and build ids; they go
 *					their own ways from there, so database and tablespace are part of the name
 *	  database		can be made a second time, from the same template and with the same OID
 *					(CREATE DATABASE ... OID), and that within moments.  Its file PG_VERSION is
 *					written when a database's folder is made, by replay too, and never again: its
 *					time and its inode tell one from the other
 *
 * A process stays in one database, which cannot be dropped or moved meanwhile, on a standby
 * either: looking at that file once is enough.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "table.h"

static bool get_database_made(Oid database, Oid tablespace, uint64 *made);

/*
 * Name the contents of an index's file
 */
void
GjMirrorKeyOf(Relation index, uint64 build_id, GjMirrorKey *key)
{
	static uint64 made = 0;

	/* where the file cannot be read, share mirrors with no other process */
	if (made == 0 && !get_database_made(MyDatabaseId, MyDatabaseTableSpace, &made))
		made = (uint64) GetCurrentTimestamp();

	memset(key, 0, sizeof(GjMirrorKey));
	key->database = GjRelationDatabase(index);
	key->database_tablespace = MyDatabaseTableSpace;
	key->database_made = made;
	key->tablespace = GjRelationTablespace(index);
	key->file = GjRelationFile(index);
	key->build_id = build_id;
}

/*
 * Is the file gone, or does its name belong to another database by now?  A file of no length
 * counts as gone: that is what PostgreSQL leaves of a dropped one until the next checkpoint.
 * Any process may ask.
 */
bool
GjMirrorIsGone(const GjMirrorKey *key)
{
	char		path[MAXPGPATH];
	struct stat st;
	uint64		made;

	GjRelationPath(key->database, key->tablespace, key->file, path);
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	if (st.st_size == 0)
		return true;
	if (!get_database_made(key->database, key->database_tablespace, &made))
		return errno == ENOENT || errno == ENOTDIR;
	return made != key->database_made;
}

/*
 * Get a number that tells the database which has this OID now from earlier ones; false, with
 * errno, if there is none
 */
static bool
get_database_made(Oid database, Oid tablespace, uint64 *made)
{
	char	   *folder = GetDatabasePath(database, tablespace);
	char		path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), "%s/PG_VERSION", folder);
	pfree(folder);
	if (stat(path, &st) < 0)
		return false;
	*made = ((uint64) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec) ^
		((uint64) st.st_ino * UINT64CONST(0x9E3779B97F4A7C15));
	return true;
}
