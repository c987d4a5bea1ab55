/*-------------------------------------------------------------------------
 *
 * partition.h
 *	  The partitions of a table that is partitioned by the key, and which keys can be
 *	  in which of them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_PARTITION_H
#define GPUJOIN_EXEC_PARTITION_H

#include "nodes/execnodes.h"
#include "utils/snapshot.h"

typedef struct GjPartitions GjPartitions;

/* Keys by partition: those of the one at a place begin at its start, in ascending order */
typedef struct GjKeySplit
{
	int64	   *keys;
	uint64	   *starts;			/* of each place, and the end */
} GjKeySplit;

#endif							/* GPUJOIN_EXEC_PARTITION_H */
