/*-------------------------------------------------------------------------
 *
 * pieces.c
 *	  Dividing the keys of a match among requests to a device, so that each answer fits
 *	  in memory.
 *
 * Keys ascend, so that a part of them is a range.  How many entries they have is known of
 * all together, from the answer that was too large, and of those that were asked for since
 * then.  The next request takes so many keys as should have three quarters of what fits: by
 * what is left, or by what the last ones had, whichever is more.  An answer that is still
 * too large is asked for again, with half of the keys or fewer; what is thrown away so costs
 * the device's time and the transfer, a hundredth of what its rows take above.
 *
 * A request takes its time however few entries it finds, since a device looks at all of
 * them.  So if there are to be many, the CPU, which goes through the index once, is quicker:
 * with the planner's costs and 20 M entries from 97 requests on, with the usual work_mem
 * some 40 million rows.  That is looked at before each request.  One key alone that has too
 * many entries cannot be divided; the CPU is left to find them, too.
 *
 * What a device says decides how many requests there are, and nothing else.  Each one takes
 * at least a key away, or is followed by one with half of the keys.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "parts.h"


static uint64 count_keys(const GjPieces *pieces, double entries_per_key, uint64 max);

/*
 * Begin, with one request for the keys from first to before end, which should have so many
 * entries
 *
 * capacity: so many entries fit in memory.  max_requests: with more, the CPU is quicker.
 */
void
GjPiecesBegin(GjPieces *pieces, uint64 first, uint64 end, uint64 capacity, double max_requests,
			  double expected)
{
	pieces->end = end;
	pieces->next = first;
	pieces->step = end - first;
	pieces->expected = expected;
	pieces->capacity = capacity;
	pieces->target = Max(capacity / 4 * 3, 1);
	pieces->max_requests = max_requests;
}

/*
 * Tell whether there is a request to be made: for the keys from next on, as many as step says
 */
bool
GjPiecesGoOn(const GjPieces *pieces)
{
	return pieces->step > 0 && pieces->expected <= pieces->max_requests * pieces->target;
}

/*
 * Go to the next keys, after a request that was answered with nfound entries
 */
void
GjPiecesTook(GjPieces *pieces, uint64 nfound)
{
	double		last = (double) nfound / pieces->step;
	uint64		left;

	pieces->next += pieces->step;
	pieces->expected = Max(pieces->expected - nfound, 0.0);
	left = pieces->end - pieces->next;
	if (pieces->expected <= pieces->target)
		pieces->step = left;
	else
		pieces->step = count_keys(pieces, Max(last, pieces->expected / left), left);
}

/*
 * Take fewer keys, after a request that found nfound entries, too many; none if it had one key
 *
 * Entries that do not come in order take more memory; then fewer must do.
 */
void
GjPiecesDivide(GjPieces *pieces, uint64 nfound)
{
	if (nfound <= pieces->capacity)
		pieces->target = Max(Min(pieces->target, nfound / 2), 1);
	pieces->expected = Max(pieces->expected, (double) nfound);
	pieces->step = count_keys(pieces, (double) nfound / pieces->step, pieces->step / 2);
}

/*
 * Estimate how many keys have as many entries as are wanted; at least one, if there may be any
 */
static uint64
count_keys(const GjPieces *pieces, double entries_per_key, uint64 max)
{
	double		n = entries_per_key > 0 ? pieces->target / entries_per_key : (double) max;

	return n >= max ? max : Min(Max((uint64) n, 1), max);
}
