/*-------------------------------------------------------------------------
 *
 * fold.h
 *	  Declarations shared by the files of a fold: fold.c has the steps, foldsource.c reads the
 *	  rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AM_FOLD_H
#define GPUJOIN_AM_FOLD_H

#include "am.h"

/*
 * Size of the runs that a flush merges, in units of the delta that is worth a flush: five of them
 * take it about 0.25 s.  Merges take care of bigger ones.
 */
#define GJ_FLUSH_UNITS			8

typedef struct GjFold
{
	Relation	index;
	BufferAccessStrategy strategy;	/* for reading pages; may be NULL */
	GjFoldMode	mode;
	BlockNumber flush_pages;	/* minimum number of a delta's pages for a flush; 0: never */
	GjIndexInfo info;
	GjIndexState state;
	GjFoldStats *stats;
	const GjPlace *after;		/* entries of runs up to this place are skipped, or NULL */

	/* private to foldsource.c, except for the blocks of the previous delta */
	BlockNumber *delta_blocks;
	BlockNumber ndelta_blocks;
	struct GjFoldWords *words;	/* entries as words; NULL if rows come from sources */
	struct GjFoldSource *sources;
	int			nsources;
	int			at;				/* source of the last rows; -1: none yet */
	int			given;			/* number of rows last returned */
} GjFold;

/* Rows in order: used slots of a page, or words */
typedef struct GjFoldRows
{
	int			n;
	Page		page;
	int			slot;
	const uint64 *words;		/* NULL if the rows are slots */
	const GjWordForm *form;
} GjFoldRows;

/* foldsource.c */
extern void GjFoldOpenSources(GjFold *fold, int first_run);
extern bool GjFoldNextRows(GjFold *fold, GjFoldRows *rows);
extern void GjFoldCloseSources(GjFold *fold);

#endif							/* GPUJOIN_AM_FOLD_H */
