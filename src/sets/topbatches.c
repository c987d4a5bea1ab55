/*-------------------------------------------------------------------------
 *
 * topbatches.c
 *	  When to stop taking batches from an order, and to sort what is left.
 *
 * The first entries of an order are found without sorting the others.  But each batch of them
 * costs a search and a look at every match, while one sort delivers all that is left.  So a scan
 * that is asked for more than was expected takes one more batch, several times as long, and
 * others as long as all of them together cost a small part of what the sort will: then the scan
 * never takes much longer than a sort from the beginning would have taken, however wrong the
 * estimate was.
 *
 * The unit of cost is a look at one entry of the index.  Costs are counted in entries, not measured,
 * so that equal scans do the same.  The planner asks with estimates, the executor with what it has
 * seen.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "top.h"

/* Each batch is this many times as long as the one before, if there is memory for it */
#define BATCH_GROWTH			4

/* This many batches are taken in any case */
#define MIN_BATCHES				2

/* The part of a sort's cost that all batches together may have */
#define BATCHES_PART			0.2

/* Cost of a row that is sorted; and of one that is fetched by itself and not with its neighbors */
#define SORTED_ROW				64.0
#define FETCHED_ROW				128.0

/*
 * Begin with a batch of bound entries, or of as many as there is memory for
 */
void
GjTopBatchesStart(GjTopBatches *batches, uint64 bound, uint64 most)
{
	*batches = (GjTopBatches) {.wanted = Min(bound, most),.most = most,.nbatches = 1};
}

/*
 * Go on to the next batch; or return false if the rest should be sorted instead.  For each batch,
 * so many entries are searched, of which so many match.
 */
bool
GjTopBatchesNext(GjTopBatches *batches, double searched, double matched, bool from_heap)
{
	uint64		wanted = Min(batches->wanted * BATCH_GROWTH, batches->most);
	double		select = searched + matched;
	double		fetched = from_heap ? FETCHED_ROW : 0.0;
	double		left;

	batches->delivered += batches->wanted;
	batches->spent += select + batches->wanted * fetched;
	left = Max(matched - batches->delivered, 0.0);
	if (batches->nbatches >= MIN_BATCHES &&
		batches->spent + select + Min((double) wanted, left) * fetched >
		BATCHES_PART * (searched + left * SORTED_ROW))
		return false;

	batches->wanted = wanted;
	batches->nbatches++;
	return true;
}
