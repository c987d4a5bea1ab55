/*-------------------------------------------------------------------------
 *
 * groupsstate.h
 *	  A set of groups: private to groups.c and groupmemory.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPSSTATE_H
#define GPUJOIN_GROUPSSTATE_H

#include "groupparts.h"

/* Groups that are read at a time, for who takes one after the other */
#define GJ_READ_GROUPS			64

struct GjGroups
{
	MemoryContext context;		/* all below */
	Size		memory_limit;
	bool		is_partial;		/* deliver states; groups need not be whole */
	double		expected;		/* so many groups */
	uint32		most_groups;	/* that a pass may have, whatever memory there is */

	GjInput		input;
	GjGroupTable table;			/* without columns: of one group */
	int			naggs;
	GjAgg	   *aggs;
	GjSelection selection;
	uint32	   *numbers;		/* of the batch's rows' groups */
	GjRuns		runs;
	uint16	   *rows;
	uint32		nsettled;		/* groups with rows of earlier batches */

	GjSpillFile *file;
	GjSpill    *spill;			/* of rows */
	char	   *records;		/* room for a batch of them */
	bool		is_full;		/* no more groups in this pass */
	bool		is_first_pass;
	double		pass_expected;	/* so many groups in this pass, at most */

	uint32		next;			/* group to deliver */
	int			ncolumns;		/* of the key, and results */
	int			ncomputed;		/* which are computed group by group, as they take memory */
	int		   *computed;		/* their numbers */
	uint32		read_first;		/* all others have been read: from this group */
	uint32		read_end;		/* up to before that one */
	Datum	   *read_values;	/* GJ_READ_GROUPS times those of a group */
	bool	   *read_nulls;
	uint32		ndelivered;		/* the most that were, in this pass */
	uint64		nread;			/* rows of batches in this pass */
	GjGroupsStats stats;
};

/* groupmemory.c */
extern bool GjGroupsGrow(GjGroups *groups);
extern bool GjGroupsFit(GjGroups *groups, Size growth);
extern void GjGroupsMakeSetsRoom(GjGroups *groups);
extern void GjGroupsFinishSets(GjGroups *groups);
extern void GjGroupsBeginSpill(GjGroups *groups);
extern Size GjGroupsMemory(const GjGroups *groups);

#endif							/* GPUJOIN_GROUPSSTATE_H */
