/*-------------------------------------------------------------------------
 *
 * foldparts.h
 *	  What the files of a fold share: fold.c has the steps, foldsource.c the rows.
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

	/* private to foldsource.c, but for the blocks of the previous delta */
	BlockNumber *delta_blocks;
	BlockNumber ndelta_blocks;
	struct GjFoldWords *words;	/* entries as words; NULL: rows, from sources */
	struct GjFoldSource *sources;
	int			nsources;
	int			at;				/* the source of the last rows; -1: none yet */
	int			given;			/* how many these were */
} GjFold;

/* Rows in order: slots of a page that are all used, or words */
typedef struct GjFoldRows
{
	int			n;
	Page		page;
	int			slot;
	const uint64 *words;		/* NULL: slots */
	const GjWordForm *form;
} GjFoldRows;

/* foldsource.c */
extern void GjFoldOpenSources(GjFold *fold, int first_run);
extern bool GjFoldNextRows(GjFold *fold, GjFoldRows *rows);
extern void GjFoldCloseSources(GjFold *fold);

#endif							/* GPUJOIN_AM_FOLDPARTS_H */
