/*-------------------------------------------------------------------------
 *
 * execindexonly.c
 *	  Rows of one table answered from index entries: a match, chunk by chunk.
 *
 * Each chunk of entries is tested when it is wanted: those that are rows, without a look
 * at the heap, are delivered, the TIDs of all others are kept for the heap.
 * execentryvisible.c does the test, and has the proof.
 *
 * Nothing is held between calls: no pin, no lock.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tupmacs.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "exec.h"
#include "execentryvisible.h"
#include "gpujoin.h"

/* A piece of a match: small enough for the processor's cache */
#define PIECE_BYTES				((Size) 1024 * 1024)

/* More than the entries of any page take */
#define MIN_PIECE_BYTES			((Size) 64 * 1024)

/* Where an attribute of a slot comes from */
typedef struct Output
{
	AttrNumber	attno;			/* in the slot */
	int			column;			/* of the index, from 0: the key, then INCLUDE columns */
	const GjEntryColumn *source;	/* as of the set being delivered */
} Output;

struct GjIndexOnly
{
	GjIndexOnlyChunk chunk;		/* must be first */

	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	bool		keys;			/* wanted, whether they are an output or not */
	int			noutputs;
	Output	   *outputs;		/* attributes of a slot that looks like the table */
	int			nprojected;
	Output	   *projected;		/* columns of the node's target list */

	/* The match that is being delivered */
	MemoryContext parent;
	MemoryContext context;		/* of all that follows; NULL: not started */
	Size		limit;
	GjMatchStats *match_stats;
	GjEntryMatch match;
	GjEntrySet *whole;			/* for a device's answer */
	GjEntrySet *piece;			/* for the CPU's, piece by piece */
	GjEntrySet *entries;		/* one of the two */
	uint64		position;		/* in it, behind the last chunk */
	int			npieces;		/* so far */
	bool		certain;		/* the epoch has not moved yet */
	GjTidSet   *rest;			/* TIDs for the heap */
	GjIndexOnlyStats stats;
};

static void check_plan(const Scan *plan, List *attnos);
static int	find_column(Relation index, AttrNumber attno);
static void set_sources(GjEntrySet *entries, Output *outputs, int noutputs);
static bool load_piece(GjIndexOnly *io);
static void load_chunk(GjIndexOnly *io);
static void fill(uint64 entry, const Output *outputs, int noutputs, TupleTableSlot *slot);
static void prepare_slot(TupleTableSlot *slot);

/*
 * Prepare answering with these attributes of the node's table, all of which the index
 * has, for a node that may use no others; with keys, for GjIndexOnlyKey()
 */
GjIndexOnly *
GjIndexOnlyCreate(const ScanState *node, Relation index, List *attnos, bool keys)
{
	EState	   *estate = node->ps.state;
	GjIndexOnly *io = MemoryContextAllocZero(estate->es_query_cxt, sizeof(GjIndexOnly));
	ListCell   *lc;

	check_plan((const Scan *) node->ps.plan, attnos);
	io->heap = node->ss_currentRelation;
	io->index = index;
	io->snapshot = estate->es_snapshot;
	io->keys = keys;
	io->outputs = MemoryContextAllocZero(estate->es_query_cxt,
										 (list_length(attnos) + 1) * sizeof(Output));
	foreach(lc, attnos)
	{
		Output	   *output = &io->outputs[io->noutputs++];

		output->attno = lfirst_int(lc);
		output->column = find_column(index, output->attno);
	}
	return io;
}

/*
 * An attribute that nobody fills in would be NULL without a word: make sure that the
 * finished plan uses none
 */
static void
check_plan(const Scan *plan, List *attnos)
{
	Bitmapset  *used = NULL;
	int			member = -1;

	pull_varattnos((Node *) plan->plan.targetlist, plan->scanrelid, &used);
	pull_varattnos((Node *) plan->plan.qual, plan->scanrelid, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		if (!list_member_int(attnos, member + FirstLowInvalidHeapAttributeNumber))
			elog(ERROR, "an index-only plan uses attribute %d, which it does not provide",
				 member + FirstLowInvalidHeapAttributeNumber);
	}
	bms_free(used);
}

static int
find_column(Relation index, AttrNumber attno)
{
	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		if (index->rd_index->indkey.values[i] == attno)
			return i;
	}
	elog(ERROR, "index \"%s\" does not have attribute %d of its table",
		 RelationGetRelationName(index), attno);
}

/*
 * May a match of now be answered from entries?
 */
bool
GjIndexOnlyIsPossible(const GjIndexOnly *io)
{
	return GjEntriesMayBeRows(io->snapshot);
}

/*
 * Begin a match for keys, which must live until the reset; so must the statistics.  What
 * it takes lives below parent.
 */
void
GjIndexOnlyStart(GjIndexOnly *io, const GjKeySet *keys, MemoryContext parent, Size limit,
				 GjMatchStats *stats)
{
	MemoryContext old;
	uint32		included = 0;
	bool		wants_keys = io->keys;
	GjIndexInfo info;

	GjIndexOnlyReset(io);
	io->parent = parent;
	io->context = AllocSetContextCreate(parent, "gpujoin index-only", ALLOCSET_DEFAULT_SIZES);
	io->limit = limit;
	io->match_stats = stats;
	io->certain = true;
	for (int i = 0; i < io->noutputs; i++)
	{
		if (io->outputs[i].column == 0)
			wants_keys = true;
		else
			included |= (uint32) 1 << (io->outputs[i].column - 1);
	}

	GjIndexGetInfo(io->index, &info);
	io->whole = GjEntrySetCreate(io->context, limit, &info, wants_keys, included);
	old = MemoryContextSwitchTo(io->context);
	GjExecMatchEntries(&io->match, io->index, io->snapshot, keys, io->whole, stats);
	MemoryContextSwitchTo(old);

	if (io->match.at_once)
	{
		io->rest = GjEntrySetPlain(io->whole);	/* what is outdated goes to the heap */
		pgstat_count_index_tuples(io->index, GjEntrySetCount(io->whole));
	}
	else
		io->piece = GjEntrySetCreatePiecewise(io->context,
											  Max(Min(limit, PIECE_BYTES), MIN_PIECE_BYTES),
											  io->whole);
	io->entries = io->match.at_once ? io->whole : io->piece;
	set_sources(io->entries, io->outputs, io->noutputs);
	set_sources(io->entries, io->projected, io->nprojected);
}

bool
GjIndexOnlyIsStarted(const GjIndexOnly *io)
{
	return io != NULL && io->context != NULL;
}

/*
 * Deliver the same again: what is still there is used again
 */
void
GjIndexOnlyRestart(GjIndexOnly *io)
{
	if (io->npieces > 1)
	{
		GjIndexOnlyStart(io, io->match.keys, io->parent, io->limit, io->match_stats);
		return;
	}
	if (io->rest != NULL && io->rest != GjEntrySetPlain(io->whole))
	{
		GjTidSetFree(io->rest);
		io->rest = NULL;
	}
	io->position = 0;
	io->chunk.nrows = 0;
	io->chunk.next = 0;
}

/*
 * A key is as wide as the index has it, which may be wider than the column's type: the
 * Datum is the same
 */
static void
set_sources(GjEntrySet *entries, Output *outputs, int noutputs)
{
	for (int i = 0; i < noutputs; i++)
		outputs[i].source = outputs[i].column == 0 ? &entries->keys :
			&entries->included[outputs[i].column - 1];
}

/*
 * Make the next rows ready; false if there are no more
 */
bool
GjIndexOnlyLoad(GjIndexOnly *io)
{
	io->chunk.nrows = io->chunk.next = 0;
	while (io->chunk.nrows == 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (io->position < io->entries->nentries)
			load_chunk(io);
		else if (!load_piece(io))
			return false;
	}
	return true;
}

/*
 * Step 2, continued
 */
static bool
load_piece(GjIndexOnly *io)
{
	if (io->match.at_once || !GjEntryMatchNext(&io->match, io->piece, io->match_stats))
		return false;
	pgstat_count_index_tuples(io->index, io->entries->nentries);
	io->position = 0;
	io->npieces++;
	return true;
}

/*
 * Put the row of an entry into a virtual slot of the table's shape; attributes that the
 * plan does not need are NULL
 */
void
GjIndexOnlyFill(GjIndexOnly *io, uint64 entry, TupleTableSlot *slot)
{
	fill(entry, io->outputs, io->noutputs, slot);
}

/*
 * Can the plan's target list be filled straight from entries?  If so, prepare that.
 */
bool
GjIndexOnlyProject(GjIndexOnly *io, const Scan *plan)
{
	List	   *tlist = plan->plan.targetlist;
	Output	   *projected = palloc0((list_length(tlist) + 1) * sizeof(Output));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;
		bool		found = false;

		if (!IsA(var, Var) || var->varno != plan->scanrelid)
			return false;
		for (int i = 0; i < io->noutputs && !found; i++)
		{
			found = io->outputs[i].attno == var->varattno;
			projected[n].column = io->outputs[i].column;
		}
		if (!found)
			return false;
		projected[n++].attno = entry->resno;
	}
	io->projected = projected;
	io->nprojected = n;
	return true;
}

/*
 * Put the target list's values of an entry into its virtual slot
 */
void
GjIndexOnlyFillProjected(GjIndexOnly *io, uint64 entry, TupleTableSlot *slot)
{
	fill(entry, io->projected, io->nprojected, slot);
}

/*
 * Get the key of an entry
 */
int64
GjIndexOnlyKey(const GjIndexOnly *io, uint64 entry)
{
	const GjEntryColumn *keys = &io->entries->keys;

	return keys->width == sizeof(int32) ? ((const int32 *) keys->values)[entry] :
		((const int64 *) keys->values)[entry];
}

/*
 * Get the TID of an entry, packed as block << 16 | offset
 */
uint64
GjIndexOnlyTid(const GjIndexOnly *io, uint64 entry)
{
	return io->entries->tids[entry];
}

/*
 * Get the TIDs for which the heap must be asked, finished.  They are complete once
 * GjIndexOnlyNext() has said false.
 */
GjTidSet *
GjIndexOnlyRest(GjIndexOnly *io)
{
	if (io->rest == NULL)
		io->rest = GjTidSetCreate(io->context, io->limit);
	if (io->rest != GjEntrySetPlain(io->whole))
		GjTidSetFinish(io->rest);
	io->stats.heap_fetches += GjTidSetCount(io->rest);
	return io->rest;
}

/*
 * Forget the match
 */
void
GjIndexOnlyReset(GjIndexOnly *io)
{
	if (io->context != NULL)
		MemoryContextDelete(io->context);
	io->context = NULL;
	io->whole = NULL;
	io->piece = NULL;
	io->entries = NULL;
	io->rest = NULL;
	io->position = 0;
	io->npieces = 0;
	io->chunk.nrows = 0;
	io->chunk.next = 0;
}

/*
 * Counters, summed up over all starts
 */
GjIndexOnlyStats *
GjIndexOnlyGetStats(GjIndexOnly *io)
{
	return &io->stats;
}

/*
 * Steps 3 and 4: find out which of the next entries are rows
 */
static void
load_chunk(GjIndexOnly *io)
{
	GjIndexOnlyChunk *chunk = &io->chunk;
	const uint64 *tids = io->entries->tids + io->position;
	uint64		rest[GJ_CHUNK_ENTRIES];
	int			nrest = 0;
	int			n = (int) Min(io->entries->nentries - io->position, GJ_CHUNK_ENTRIES);

	chunk->first = io->position;
	chunk->nrows = 0;
	chunk->next = 0;
	io->position += n;
	if (io->certain)
	{
		int			nrows = GjEntriesTestMap(io->heap, tids, n, chunk->rows, rest, &nrest);

		if (nrows > 0 && GjEpochHasMoved(io->index, io->snapshot, io->match.vacuum_epoch))
			io->certain = false;
		else
			chunk->nrows = nrows;
	}

	io->stats.rows += chunk->nrows;
	if (chunk->nrows == n)
		return;
	if (io->rest == NULL)
		io->rest = GjTidSetCreate(io->context, io->limit);
	if (!(io->certain ? GjTidSetAddPacked(io->rest, rest, nrest) :
		  GjTidSetAddPacked(io->rest, tids, n)))
		elog(ERROR, "an entry of index \"%s\" has an impossible TID",
			 RelationGetRelationName(io->index));
}

static void
fill(uint64 entry, const Output *outputs, int noutputs, TupleTableSlot *slot)
{
	if (TTS_EMPTY(slot))
		prepare_slot(slot);
	for (int i = 0; i < noutputs; i++)
	{
		const GjEntryColumn *column = outputs[i].source;
		int			at = outputs[i].attno - 1;
		bool		isnull = column->nulls != NULL && column->nulls[entry];

		/* a NULL's bytes are zero */
		slot->tts_isnull[at] = isnull;
		slot->tts_values[at] = fetch_att(column->values + entry * column->width, true,
										 column->width);
	}
}

/*
 * All is by value, so that a slot once stored only gets other values
 */
static void
prepare_slot(TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	memset(slot->tts_values, 0, natts * sizeof(Datum));
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}
