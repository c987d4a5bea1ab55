/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Entry point of the test module: sees to it that gpujoin is there, set up as
 *	  PostgreSQL does it, since the dynamic loader has brought in no more than its code.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	load_file("$libdir/gpujoin", false);
}
