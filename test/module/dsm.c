/*-------------------------------------------------------------------------
 *
 * dsm.c
 *	  Take all dynamic shared memory, for tests of running out of it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "storage/dsm.h"

PG_FUNCTION_INFO_V1(gpujoin_exhaust_dsm);

/*
 * gpujoin_exhaust_dsm(): take all segments until the session ends; returns their number
 */
Datum
gpujoin_exhaust_dsm(PG_FUNCTION_ARGS)
{
	dsm_segment *segment;
	int32		n = 0;

	while ((segment = dsm_create(1, DSM_CREATE_NULL_IF_MAXSEGMENTS)) != NULL)
	{
		dsm_pin_mapping(segment);
		n++;
	}
	PG_RETURN_INT32(n);
}
