/*-------------------------------------------------------------------------
 *
 * foldparts.h
 *	  What the files of a fold share: fold.c has the steps, foldrows.c the rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AM_FOLDPARTS_H
#define GPUJOIN_AM_FOLDPARTS_H

#include "am.h"

typedef struct GjFold
{
	Relation	index;
	BufferAccessStrategy strategy;	/* for pages that are read; NULL: none */
	GjIndexInfo info;
	GjIndexState state;
	GjFoldStats *stats;

	/* private to foldrows.c, but for the blocks of the previous delta */
	BlockNumber *delta_blocks;
	BlockNumber ndelta_blocks;
	struct GjFoldSource *sources;
	int			nsources;
	int			at;				/* the source of the last row; -1: none yet */
} GjFold;

/* foldrows.c */
extern void GjFoldOpenSources(GjFold *fold, int nruns);
extern const char *GjFoldNextRow(GjFold *fold);
extern void GjFoldCloseSources(GjFold *fold);
extern void GjFoldPoint(const char *point);

#endif							/* GPUJOIN_AM_FOLDPARTS_H */
