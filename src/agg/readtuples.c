/*-------------------------------------------------------------------------
 *
 * readtuples.c
 *	  A batch of the tuples of several heap blocks.
 *
 * Of a block often only a few tuples are wanted, and a batch of so few rows would be hardly
 * better than rows one by one.  So values are copied into the reader's arrays, block by block
 * in the order in which these are fetched, until the batch is full or the rows that come next
 * are of another kind.  Nothing is held of a block once the next one is asked for.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "readerstate.h"

static int	take_block(GjReader *reader, PlanState *node, const GjReadyRows *ready,
					   GjReaderMode mode);
static int	take_rows(GjReader *reader, PlanState *node, const GjReadyRows *ready,
					  GjReaderMode mode, uint16 *rows, GjSmallRow **partners, int most);

/*
 * Make a batch of these rows, of which there is at least one, and of those that follow
 */
void
GjReaderTakeTuples(GjReader *reader, PlanState *node, const GjReadyRows *first,
				   GjReaderMode mode)
{
	GjReadyRows ready = *first;
	GjReaderMode next_mode = mode;
	bool	   *has_nulls = reader->has_nulls;

	memset(has_nulls, 0, reader->ncolumns * sizeof(bool));
	reader->batch.nrows = 0;
	do
		reader->batch.nrows += take_block(reader, node, &ready, mode);
	while (reader->batch.nrows < GJ_BATCH_ROWS &&
		   GjReaderLoad(reader, node, &ready, &next_mode) &&
		   ready.fill == first->fill && ready.block == first->block && next_mode == mode);

	reader->batch.weights = mode == GJ_READER_WEIGHTS ? reader->weights : NULL;
	for (int i = 0; i < reader->ncolumns; i++)
	{
		const GjReaderColumn *column = &reader->columns[i];

		reader->batch.columns[i] = (GjBatchColumn) {
			.values = column->values,.nulls = has_nulls[i] ? column->nulls : NULL,
			.width = column->width
		};
	}
}

/*
 * Append the block's rows to the batch, as many as it has room for; returns how many
 */
static int
take_block(GjReader *reader, PlanState *node, const GjReadyRows *ready, GjReaderMode mode)
{
	uint16		rows[GJ_BATCH_ROWS];
	GjSmallRow *partners[GJ_BATCH_ROWS];
	int			first = reader->batch.nrows;
	int			n = take_rows(reader, node, ready, mode, rows, partners, GJ_BATCH_ROWS - first);
	bool	   *has_nulls = reader->has_nulls;

	for (int i = 0; i < reader->ncolumns; i++)
	{
		GjReaderColumn *column = &reader->columns[i];
		int			small = mode != GJ_READER_PAIRS ? -1 :
			GjJoinSmallColumn((GjJoinState *) node, column->at + 1);

		if (small >= 0)
			has_nulls[i] |= GjReaderPutPartners(reader, i, first, small,
												GjJoinSmallColumns((GjJoinState *) node),
												partners, n);
		else
			has_nulls[i] |= GjReadyColumn(ready, GjReaderFind(ready->fill, column->at), rows, n,
										  column->values + first * column->width,
										  column->nulls + first);
	}
	return n;
}

/*
 * Take rows off the block, by their numbers there, and what comes with them
 */
static int
take_rows(GjReader *reader, PlanState *node, const GjReadyRows *ready, GjReaderMode mode,
		  uint16 *rows, GjSmallRow **partners, int most)
{
	GjFetchBlock *block = ready->block;
	int			n = 0;

	if (mode == GJ_READER_PAIRS)
	{
		n = GjJoinTakePairs((GjJoinState *) node, rows, partners, most);
		reader->stats.array_rows += n;
	}
	else if (mode == GJ_READER_WEIGHTS)
	{
		uint32	   *weights = reader->weights + reader->batch.nrows;

		n = GjJoinTakeWeights((GjJoinState *) node, rows, weights, most);
		for (int i = 0; i < n; i++)
			reader->stats.array_rows += weights[i];
	}
	else
	{
		if (GjIsJoin(node))
			n = GjJoinTakeTuples((GjJoinState *) node, rows, most);
		else
			while (n < most && block->next < block->ntuples)
				rows[n++] = (uint16) block->next++;
		reader->stats.array_rows += n;
	}
	return n;
}
