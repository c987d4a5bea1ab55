/*-------------------------------------------------------------------------
 *
 * sortparts.h
 *	  What sort.c and merge.c share: chunks of sorted rows in a temporary file.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PAGES_SORTPARTS_H
#define GPUJOIN_PAGES_SORTPARTS_H

#include "storage/buffile.h"

#include "pages.h"

/* Rows in order, in the file; counted in rows */
typedef struct GjChunk
{
	uint64		start;
	uint64		end;
} GjChunk;

/* Private to merge.c */
typedef struct GjMerge GjMerge;

/* merge.c */
extern int	GjMergeOrder(Size memory);
extern GjMerge *GjMergeBegin(const GjIndexInfo *info, BufFile *file, const GjChunk *chunks,
							 int nchunks, Size memory);
extern const char *GjMergeNext(GjMerge *merge);
extern void GjMergeEnd(GjMerge *merge);

#endif							/* GPUJOIN_PAGES_SORTPARTS_H */
