/*
 * pages.c
 *	  Fuzz target: all readers of an index's pages.
 *
 * The code under test creates three indexes: an old and a young state of one, and another one.  A
 * script damages pages of the young one: it changes bytes or whole fields, exchanges pages,
 * replaces them by pages of the other index or of the old state, zeroes them, fills them with
 * noise, or truncates the file.  Then the index is searched in all ways, read as for a mirror,
 * checked, inserted into, and vacuumed.  Each of these must succeed or raise an error that
 * reports a damaged index, and must release all resources.
 *
 * Without damage, the answer must be right.
 */
#include "server.h"

#include "access/genam.h"
#include "access/xlogdefs.h"
#include "catalog/pg_class.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/am.h"
#include "base/tid.h"
#include "match/search.h"
#include "sets/sets.h"

#define NSHAPES 4
#define NSTATES 3				/* young, old, another index */
#define NO_DAMAGE 0xFF

extern void GjCheckPages(Relation index);	/* admin/check.c */
extern Datum gpujoin_key_int4(PG_FUNCTION_ARGS);
extern Datum gpujoin_key_int8(PG_FUNCTION_ARGS);

typedef struct Image
{
	BlockNumber nblocks;
	char	   *blocks[MAX_BLOCKS];
} Image;

static RelationData rel_data;
static FormData_pg_index index_form = {.indrelid = 1};
static FormData_pg_class index_class;
static FmgrInfo key_proc;
static Oid no_oid[1];
static Relation rel = &rel_data;
static Image images[NSHAPES][NSTATES];
static uint64 nrows[NSHAPES];	/* of the young index */

/* Indexes ------------------------------------------------------------------------------ */

/* Needed by GjCodecInit(): the class has support function 1 only */
Oid
get_opfamily_proc(Oid family, Oid lefttype, Oid righttype, int16 procnum)
{
	return procnum == GJ_KEY_PROC ? 1 : InvalidOid;
}

void
fmgr_info(Oid function, FmgrInfo *info)
{
	*info = key_proc;
}

/* The relation cache knows nothing */
RegProcedure
index_getprocid(Relation index, AttrNumber attno, uint16 procnum)
{
	return InvalidOid;
}

static void
set_shape(int shape)
{
	static const int widths[NSHAPES][4] = {{4}, {8}, {4, 4, 1}, {8, 8, 2, 4}};
	static TupleDesc descs[NSHAPES];

	if (descs[shape] == NULL)
	{
		TupleDesc	desc = calloc(1, 4096);

		while (desc->natts < 4 && widths[shape][desc->natts] != 0)
			desc->natts++;
		for (int i = 0; i < desc->natts; i++)
		{
			TupleDescAttr(desc, i)->attlen = widths[shape][i];
			TupleDescAttr(desc, i)->attbyval = true;
		}
		descs[shape] = desc;
	}
	strcpy(NameStr(index_class.relname), "fuzzed");
	index_class.relpersistence = RELPERSISTENCE_TEMP;	/* buffers of temporary relations can be
														 * named by number */
	rel->rd_rel = &index_class;
	rel->rd_index = &index_form;
	rel->rd_att = descs[shape];
	rel->rd_indexcxt = CurrentMemoryContext;
	rel->rd_amcache = NULL;
	rel->rd_opfamily = rel->rd_opcintype = rel->rd_indcollation = no_oid;
	key_proc.fn_addr = widths[shape][0] == 4 ? gpujoin_key_int4 : gpujoin_key_int8;
}

static void
insert(int64 key, uint32 row)
{
	Datum		values[4] = {Int64GetDatum(key), row, row % 2, row};
	bool		nulls[4] = {false, false, row % 7 == 0, false};
	ItemPointerData tid;
	IndexInfo	info = {.ii_Context = CurrentMemoryContext};

	ItemPointerSet(&tid, row / 100, row % 100 + 1);
	gjinsert(rel, values, nulls, &tid, NULL, UNIQUE_CHECK_NO, false, &info);
}

static void
build_run(uint32 number, uint32 first_row, uint32 n, bool narrow)
{
	GjIndexInfo info;
	GjRunWriter *writer;
	GjRun		run;

	GjIndexGetInfo(rel, &info);
	info.narrow = narrow;
	writer = GjRunWriterBegin(rel, &info, number, 1, true);
	for (uint32 row = first_row; row < first_row + n; row++)
	{
		Datum		values[3] = {row, row % 2, row};
		bool		nulls[3] = {row % 5 == 0, false, false};
		char		bytes[GJ_MAX_ROW_WIDTH];
		ItemPointerData tid;

		ItemPointerSet(&tid, row / 100, row % 100 + 1);
		GjRowForm(&info, (row - first_row) / 3, 0, &tid, values, nulls, bytes);
		GjRunWriterAdd(writer, bytes);
	}
	GjRunWriterEnd(writer, &run);
	GjIndexNoteBuilt(rel, &run, NULL);
}

static void
keep(Image *image)
{
	image->nblocks = npages;
	for (BlockNumber i = 0; i < npages; i++)
		image->blocks[i] = memcpy(malloc(BLCKSZ), pages[i], BLCKSZ);
}

static bool
some_die(ItemPointer tid, void *state)
{
	return ItemPointerGetOffsetNumberNoCheck(tid) % 50 == 7;
}

static uint64
vacuum_all(void)
{
	IndexVacuumInfo info = {.index = rel};

	return (uint64) gjbulkdelete(&info, NULL, some_die, NULL)->num_index_tuples;
}

/* A run of narrow pages and one of plain pages, a delta of several lists, rows on the tails */
static void
make_images(int shape)
{
	const uint16 flags[GJ_MAX_INCLUDED] = {0};
	GjIndexInfo info;
	uint32		row = 0;

	set_shape(shape);
	blocks_resize(0);
	GjIndexInitFork(rel, MAIN_FORKNUM, 4711, 2, flags);
	rel->rd_amcache = NULL;
	GjIndexGetInfo(rel, &info);
	build_run(GJ_BASE_RUN, 0, info.plain_slots * 4 + 5, true);
	row = info.plain_slots * 4 + 5;
	build_run(GJ_NULL_RUN + 1, row, info.plain_slots / 2, false);
	row += info.plain_slots / 2;
	for (uint32 end = row + info.plain_slots + 20; row < end; row++)
		insert(row % 300, row);
	keep(&images[shape][1]);
	vacuum_all();
	for (uint32 end = row + info.plain_slots / 2; row < end; row++)
		insert(row % 300, row);
	nrows[shape] = vacuum_all();
	keep(&images[shape][0]);

	blocks_resize(0);
	GjIndexInitFork(rel, MAIN_FORKNUM, 4712, 2, flags);
	rel->rd_amcache = NULL;
	build_run(GJ_BASE_RUN, 0, info.plain_slots, false);
	for (row = 0; row < 100; row++)
		insert(row, row);
	keep(&images[shape][2]);
}

/* Damage ------------------------------------------------------------------------------- */

static bool
damage(script *s, int shape)
{
	uint8_t		how = next_byte(s);
	BlockNumber block = next_byte(s) % npages;
	Image	   *other;
	uint32		noise;
	size_t		at;
	size_t		n;
	const uint8_t *bytes;

	switch (how % 8)
	{
		case 0:
			at = next_number(s, 2) % BLCKSZ;
			n = next_byte(s) % 64;
			bytes = next_bytes(s, &n);
			memcpy(pages[block] + at, bytes, Min(n, BLCKSZ - at));
			break;
		case 1:
			memset(pages[block], 0, BLCKSZ);
			break;
		case 2:
			memcpy(pages[block], pages[next_byte(s) % npages], BLCKSZ);
			break;
		case 3:
			noise = (uint32) next_number(s, 2);
			for (int i = how & 8 ? SizeOfPageHeaderData : 40; i < BLCKSZ - 32; i++)
				pages[block][i] = (char) ((noise = noise * 1103515245 + 12345) >> 16);
			break;
		case 4:
			other = &images[shape][1 + (how >> 3) % 2];
			memcpy(pages[block], other->blocks[block % other->nblocks], BLCKSZ);
			break;
		case 5:
			blocks_resize(Max(block, 1));
			break;
		case 6:
			at = next_number(s, 2) % BLCKSZ;
			n = next_number(s, 2) % (BLCKSZ - at);
			memset(pages[block] + at, next_byte(s), n);
			break;
		default:
			/* readers rely on a narrow page's description, and on fields of the special space */
			if (how & 8)
			{
				at = SizeOfPageHeaderData + next_byte(s) % (4 * sizeof(GjNarrowColumn));
				pages[block][at] ^= next_byte(s);
				break;
			}
			at = BLCKSZ - 1 - next_byte(s) % 32;
			pages[block][at] = next_byte(s);
			break;
	}
	return true;
}

/* Readers ------------------------------------------------------------------------------ */

static GjKeySet *keys;
static uint64 found;
static bool found_others;		/* entries with other keys than those searched for */

static GjKeySet *
make_keys(uint8_t which)
{
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, TupleDescAttr(rel->rd_att, 0)->attlen);
	static const int counts[8] = {0, 1, 5, 60, 1000, 30000, 2, 300};
	int			n = counts[which & 7];

	for (int i = 0; i < n; i++)
		GjKeySetAdd(set, (int64) i * (which & 0x10 ? 1000003 : which & 0x20 ? 1 : 7));
	GjKeySetFinish(set);
	/* searches never have an empty set */
	if ((which & 0x40) != 0 || n == 0)
		GjKeySetExclude(set);
	return set;
}

static void
search_tids(void *arg)
{
	GjTidSet   *tids = GjTidSetCreate(CurrentMemoryContext, 1024 * 1024);
	GjMatchStats stats = {0};
	GjIndexInfo info;
	GjSearch   *search;
	GjTidBlock	block;

	GjIndexGetInfo(rel, &info);
	search = GjSearchBegin(rel, &info, keys, 1024 * 1024, NULL, NULL);
	GjSearchTids(search, tids, &stats);
	GjSearchEnd(search);
	GjTidSetFinish(tids);
	found = GjTidSetCount(tids);
	while (GjTidSetNextBlock(tids, &block))
		require(block.lossy || (block.noffsets > 0 && block.noffsets <= MaxHeapTuplesPerPage &&
								block.offsets[block.noffsets - 1] <= MaxHeapTuplesPerPage));
	GjTidSetFree(tids);
}

static void
search_entries(void *arg)
{
	GjIndexInfo info;
	GjEntryWidths widths = {0};
	GjEntrySet *piece;
	GjMatchStats stats = {0};
	GjSearch   *search;
	GjPlace		starts[GJ_MAX_STEPS];

	GjIndexGetInfo(rel, &info);
	widths.key = info.key_width;
	widths.nincluded = info.nincluded;
	for (int i = 0; i < info.nincluded; i++)
		widths.included[i] = info.included[i].width;
	piece = GjEntrySetCreatePiecewise(CurrentMemoryContext, 64 * 1024,
									  GjEntrySetCreate(CurrentMemoryContext, 1024 * 1024, &widths,
													   true, 0xff));
	search = GjSearchBegin(rel, &info, keys, 64 * 1024, NULL, NULL);
	(void) GjSearchDivide(search, 2, GJ_MAX_STEPS, starts, &stats);
	found = 0;
	/* each piece continues after the previous one, so they end */
	for (bool more = true; more;)
	{
		GjEntrySetClear(piece);
		more = GjSearchPiece(search, piece, &stats);
		for (uint64 i = 0; i < piece->nentries; i++)
		{
			int64		key = info.key_width == 4 ? ((int32 *) piece->keys.values)[i] :
				((int64 *) piece->keys.values)[i];

			require((piece->tids[i] & 0xffff) != 0);
			found_others |= !GjKeySetContains(keys, key);
		}
		found += piece->nentries;
	}
	GjSearchEnd(search);
}

/* Widen a page in the way in which a device's images are made, into arrays that end with it */
static void
widen_page(BlockNumber block, const GjIndexInfo *info)
{
	Buffer		buffer = ReadBuffer(rel, block);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(page) && GjPageCheckKind(rel, buffer) == GJ_PAGE_DATA &&
		GjDataIsNarrow(page))
	{
		int			n = GjDataSlots(page, info);
		BlockNumber *blocks;
		OffsetNumber *offsets;
		char	   *values;

		GjNarrowDemand(rel, block, page, info);
		blocks = palloc(n * sizeof(BlockNumber));
		offsets = palloc(n * sizeof(OffsetNumber));
		GjNarrowSplitTids(page, blocks, offsets);
		values = palloc(n * info->key_width);
		GjNarrowCopy(page, GJ_KEY_COLUMN, info->key_width, 0, n, values);
		for (int i = 0; i < info->nincluded; i++)
		{
			int			width = info->included[i].width;

			values = palloc(n * width);
			GjNarrowCopy(page, GJ_FIRST_INCLUDED + i, width, 0, n, values);
		}
	}
	UnlockReleaseBuffer(buffer);
}

/* Read everything, like a mirror */
static void
read_all(void *arg)
{
	GjTidSet   *tids = GjTidSetCreate(CurrentMemoryContext, 1024 * 1024);
	GjMatchTarget target = {tids, NULL};
	GjMatchStats stats = {0};
	GjIndexInfo info;
	GjIndexJournal *journal = palloc(sizeof(GjIndexJournal));
	BlockNumber *blocks;
	BlockNumber nblocks;

	GjIndexGetInfo(rel, &info);
	GjIndexGetJournal(rel, journal);
	for (int i = 0; i < journal->nentries; i++)
		GjSearchBlocks(rel, &info, keys, &journal->state, journal->entries[i].start,
					   journal->entries[i].end, target, &stats);
	(void) GjDeltaGetBlocks(rel, &journal->state, &blocks, &nblocks);
	for (int i = 0; i < journal->state.nruns; i++)
	{
		GjRun	   *run = &journal->state.runs[i];

		blocks = palloc((run->data_pages + run->directory_pages) * sizeof(BlockNumber));
		(void) GjRunGetBlocks(rel, run, blocks);
	}
	GjSearchBlocks(rel, &info, keys, &journal->state, info.first_data,
				   GjIndexGetLength(rel), target, &stats);
	for (BlockNumber block = info.first_data; block < GjIndexGetLength(rel); block++)
		widen_page(block, &info);
}

static void
check(void *arg)
{
	GjCheckPages(rel);
}

static void
fold(void *arg)
{
	GjFoldStats stats;

	GjFoldIndex(rel, GJ_FOLD_DELTA, NULL, &stats);
	GjMergeRuns(rel, GJ_FOLD_ALL, NULL, &stats);
}

static void
insert_some(void *arg)
{
	for (uint32 row = 0; row < 100; row++)
		insert(row, row);
}

static void
vacuum_it(void *arg)
{
	(void) vacuum_all();
}

/* Return true if the reader ends in one of the permitted ways */
static bool
ends(void (*reader) (void *arg))
{
	bool		ok;

	rel->rd_amcache = NULL;
	ok = succeeds(reader, NULL);
	if (ok)
		require_nothing_held();
	else if (last_sqlstate != ERRCODE_INDEX_CORRUPTED && last_sqlstate != ERRCODE_DATA_CORRUPTED &&
			 last_sqlstate != ERRCODE_FEATURE_NOT_SUPPORTED &&
			 last_sqlstate != ERRCODE_DISK_FULL)
	{
		fprintf(stderr, "an error of another kind: %s\n", last_message);
		abort();
	}
	server_forget_locks();
	return ok;
}

static void
use_image(int shape)
{
	const Image *image = &images[shape][0];

	blocks_resize(image->nblocks);
	for (BlockNumber i = 0; i < image->nblocks; i++)
		memcpy(pages[i], image->blocks[i], BLCKSZ);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool made = false;
	script		s = {data, size};
	int			shape = next_byte(&s) % NSHAPES;
	uint8_t		which = next_byte(&s);
	uint8_t		what = next_byte(&s);
	bool		damaged = false;
	bool		ok = true;

	server_reset();
	for (int i = 0; !made && i < NSHAPES; i++)
		make_images(i);
	made = true;
	server_reset();
	most_memory = 8 * 1024 * 1024;
	set_shape(shape);
	GjRelationFile(rel)++;		/* a process keeps directories of files: pages/directory.c */
	use_image(shape);
	while (s.left > 0)
		damaged = damage(&s, shape);
	keys = make_keys(which);

	switch (what % 6)
	{
		case 0:
			ok = ends(search_tids);
			require(which != 0x40 || damaged || found == nrows[shape]);
			break;
		case 1:
			found_others = false;
			ok = ends(search_entries);
			require(which != 0x40 || damaged || found == nrows[shape]);
			/* a run's page is searched by bisection; only the check sees whether it ascends */
			require(!found_others || !ends(check));
			break;
		case 2:
			ok = ends(read_all);
			break;
		case 3:
			ok = ends(check);
			break;
		case 4:
			ok = ends(fold);
			break;
		default:
			ok = ends(insert_some);
			ok = ends(vacuum_it) && ok;
			break;
	}
	require(ok || damaged);
	return 0;
}
