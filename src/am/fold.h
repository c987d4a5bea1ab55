/*-------------------------------------------------------------------------
 *
 * fold.h
 *	  Declarations shared by the files of a fold: fold.c has the steps, foldsource.c reads the
 *	  rows, merge.c merges runs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AM_FOLD_H
#define GPUJOIN_AM_FOLD_H

#include "miscadmin.h"
#include "postmaster/autovacuum.h"

#include "am.h"

/* Number of listed runs from which on the youngest ones are merged */
#define GJ_MANY_RUNS			13

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
	GjRowSort  *sorted;			/* the previous delta's rows if they have been sorted, or NULL */

	/* private to foldsource.c, except for the blocks of the previous delta */
	BlockNumber *delta_blocks;
	BlockNumber ndelta_blocks;
	struct GjFoldWords *words;	/* entries as words; NULL if rows come from sources */
	struct GjFoldMerge *merge;	/* the sources, otherwise */
	MemoryContext memory;		/* of words or merge */
	GjWide	   *wide;			/* for narrow pages */
} GjFold;

/* Rows in order: one of a sort, entries of several pages, or words */
typedef struct GjFoldRows
{
	int			n;
	const char *row;			/* of a sort, or NULL */
	const GjPageEntry *entries; /* NULL if the rows are words */
	const Page *pages;
	const GjIndexInfo *layout;	/* of the pages */
	bool		has_nulls;		/* false if no value on the pages is NULL */
	const uint64 *words;
	const GjWordForm *form;
} GjFoldRows;

/* foldsource.c */
extern void GjFoldOpenSources(GjFold *fold, int first_run);
extern bool GjFoldNextRows(GjFold *fold, GjFoldRows *rows);
extern void GjFoldCloseSources(GjFold *fold);

/*
 * Add rows to the run that a fold or a merge is writing
 */
static inline void
GjFoldWriteRows(GjRunWriter *writer, const GjFoldRows *rows)
{
	if (rows->words != NULL)
		GjRunWriterAddWords(writer, rows->form, rows->words, rows->n);
	else if (rows->row != NULL)
		GjRunWriterAdd(writer, rows->row);
	else
		GjRunWriterAddEntries(writer, rows->pages, rows->layout, rows->entries, rows->n,
							  rows->has_nulls);
}

/*
 * Return true if all runs are to be merged: the small ones have twice as many entries as the base
 * run, or the dead entries of all are a quarter of the base run's, or something in between
 *
 * An index that grows is then rewritten each time when its size has tripled, which is one and a
 * half entries for each inserted row; two if it were rewritten when its size had doubled.
 */
static inline bool
GjMergeAllIsDue(const GjIndexState *state)
{
	uint64		dead = 0;
	uint64		small = 0;

	for (int i = 0; i < state->nruns; i++)
	{
		dead += state->runs[i].dead;
		small += i > 0 ? state->runs[i].entries : 0;
	}
	return state->nruns > 0 && 4 * dead + small / 2 > state->runs[0].entries;
}

/*
 * Return the memory that a deletion, or a fold, may use: as much as VACUUM may for dead tuples
 */
static inline Size
GjVacuumMemory(void)
{
	int			kilobytes = maintenance_work_mem;

	if (MyBackendType == B_AUTOVAC_WORKER && autovacuum_work_mem != -1)
		kilobytes = autovacuum_work_mem;
	return (Size) kilobytes * 1024;
}

#endif							/* GPUJOIN_AM_FOLD_H */
