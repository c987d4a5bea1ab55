/*
 * locks.c
 *	  Stand-in for PostgreSQL's lock manager: see server.h.
 */
#include "server.h"

#include "storage/lmgr.h"
#include "storage/lock.h"

int			nfold_locks;		/* the only user lock of a transaction */
int			nmerge_locks;		/* the only one of a session; an error does not release it */

void
LockRelationForExtension(Relation rel, LOCKMODE mode)
{
}

void
UnlockRelationForExtension(Relation rel, LOCKMODE mode)
{
}

LockAcquireResult
LockAcquire(const LOCKTAG *tag, LOCKMODE mode, bool for_session, bool dont_wait)
{
	if (!for_session)
		require(nfold_locks++ == 0);
	else
		require(dont_wait && nmerge_locks++ == 0);
	return LOCKACQUIRE_OK;
}

LockAcquireResult
LockAcquireExtended(const LOCKTAG *tag, LOCKMODE mode, bool for_session, bool dont_wait,
					bool report_memory_error,
#if PG_VERSION_NUM >= 180000
					LOCALLOCK **local, bool log_failure)
#else
					LOCALLOCK **local)
#endif
{
	require(dont_wait && !report_memory_error);
	return LockAcquire(tag, mode, for_session, dont_wait);
}

bool
LockRelease(const LOCKTAG *tag, LOCKMODE mode, bool of_session)
{
	require(of_session ? --nmerge_locks == 0 : --nfold_locks == 0);
	return true;
}

#if PG_VERSION_NUM >= 170000
bool
LockHeldByMe(const LOCKTAG *tag, LOCKMODE mode, bool or_stronger)
#else
bool
LockHeldByMe(const LOCKTAG *tag, LOCKMODE mode)
#endif
{
	/* VACUUM has locked the table */
	return tag->locktag_type == LOCKTAG_RELATION || nmerge_locks > 0;
}
