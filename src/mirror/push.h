/*-------------------------------------------------------------------------
 *
 * push.h
 *	  Pushing pages of an index to the device: for load.c and push.c only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_PUSH_H
#define GPUJOIN_MIRROR_PUSH_H

#include "storage/bufmgr.h"

#include "mirror.h"

/* Pages on their way to a column */
typedef struct GjMirrorPush
{
	Relation	index;
	const GjIndexInfo *info;
	gjd_shape	shape;
	int			place;			/* for progress */
	GjLoadMode	mode;
	const GjBlockRange *ranges;
	int			nranges;
	int			range;			/* current one */
	BlockNumber next;			/* next block of it, if within */
	const GjIndexState *lists;	/* read before any page: which of them live */
	const GjMirror *before;		/* a full pass: what the mirror was; NULL: no page is emptied */
	uint64		above;			/* leave out pages that have not changed since this number */
	BlockNumber count_from;		/* count entries of blocks from here on */
	BufferAccessStrategy strategy;
	BlockNumber pages_read;
	uint64		pushed;
	uint64		entries;
	bool		gave_way;
} GjMirrorPush;

extern GjServiceResult GjMirrorPushPages(GjMirrorPush *state, const GjServiceColumn *column);

#endif							/* GPUJOIN_MIRROR_PUSH_H */
