/*-------------------------------------------------------------------------
 *
 * topwords.h
 *	  Sort columns as words; for top.c and topwords.c only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_TOPWORDS_H
#define GPUJOIN_SETS_TOPWORDS_H

#include "top.h"

extern int	GjTopCountWords(const GjSortColumn *column);
extern void GjTopFirstWords(const GjSortColumn *sort, const GjEntryColumn *column, uint64 first,
							int n, uint64 *out);
extern uint64 GjTopLowestWord(const GjSortColumn *sort, const GjEntryColumn *column,
							  uint64 first, int n);
extern void GjTopWords(const GjSortColumn *column, uint16 width, const char *at, bool isnull,
					   uint64 *out);
extern void GjTopRowWords(const GjSortColumn *columns, int ncolumns, const Datum *values,
						  const bool *isnull, uint64 *out);

#endif							/* GPUJOIN_SETS_TOPWORDS_H */
