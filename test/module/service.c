/*-------------------------------------------------------------------------
 *
 * service.c
 *	  SQL functions to try the device service without an index: synthetic columns
 *	  and injected faults.  For superusers; they tie up the device.
 *
 * gpujoin_service_test() creates a column of known contents, searches it repeatedly and compares
 * every answer with the expected one.  If the device goes away in between, it behaves like a
 * mirror: it counts a fallback, and creates the column again as soon as there is a device.  The
 * returned times are medians of GjServiceMatch() alone, and of its phases in the device's
 * process, so they show the cost of a request beyond the work of the device.  With reduce, the
 * rows of the lower half of the heap blocks are reduced by key, and the others are returned as
 * entries; two pages are left out, and one has been written again since the bound.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "cuda/border/gpujoin_device.h"
#include "service/service.h"

/* TIDs of the synthetic rows */
#define GJ_TEST_ROWS_PER_BLOCK	100

/* Positions between two checks for interrupts */
#define GJ_TEST_PER_CHECK		65536

/* Pages of a reduction: those that the caller leaves out, and one with a newer version */
static const uint32 left_out[] = {1, 4};
#define NEWER_PAGE				2
#define FIRST_VERSION			7

/* How long to wait for a missing device */
#define GJ_TEST_RETRY_US		20000
#define GJ_TEST_BUSY_US			1000

typedef enum TestTime
{
	TEST_TOTAL,					/* the whole call */
	TEST_DEVICE,				/* its part in the device's process: the sum of the following */
	TEST_SET,
	TEST_KERNEL,
	TEST_TRANSFER,
	TEST_TIMES
} TestTime;

typedef struct TestRun
{
	int			pages;
	gjd_shape	shape;
	uint64		positions;
	uint64		repeats;		/* rows that share a key */
	GjKeySet   *keys;
	uint64	   *expected;		/* positions that match, ascending */
	uint64		nexpected;
	Size		tid_memory;
	bool		reduce;

	int			device;
	GjServiceColumn column;
	bool		loaded;
	int			next_page;		/* of the current push */
	int			end_page;
	uint64		version;		/* of the pages pushed */

	int64		ok;
	int64		fallbacks;
	int64		wrong;
	int64		loads;
	double	   *us[TEST_TIMES]; /* of each answered request */
	double		sum_us;			/* of the whole calls */
	char		last_error[256];
} TestRun;

PG_FUNCTION_INFO_V1(gpujoin_service_test);
PG_FUNCTION_INFO_V1(gpujoin_inject_fault);

static void require_superuser(void);
static void prepare(TestRun *run, int nkeys);
static void search_all(TestRun *run, int requests, bool verify, bool count_only);
static bool load(TestRun *run);
static void unload(TestRun *run);
static void search_once(TestRun *run, bool verify, bool count_only);
static GjServiceResult reduce_once(TestRun *run, GjEntrySet **rest, GjReduction *reduction,
								   GjServiceMatchInfo *info);
static bool reduction_is_right(const TestRun *run, GjEntrySet *rest,
							   const GjReduction *reduction, const GjServiceMatchInfo *info);
static bool is_left_out(const TestRun *run, uint64 position);
static bool is_visible(const TestRun *run, uint64 position);
static bool answer_is_right(const TestRun *run, GjTidSet *tids);
static int	fill_pages(void *arg, struct gjd_page_head *heads, char *images, int max_pages);
static void fill_image(const TestRun *run, int page, char *image);
static void note_times(TestRun *run, const GjServiceMatchInfo *info);
static void note_failure(TestRun *run);
static double median(double *values, int64 n);
static int	compare_doubles(const void *a, const void *b);
static int	find_name(const char *what, const char *name, const char *const *names, int n);

static inline int64
key_at(const TestRun *run, uint64 position)
{
	return (int64) (position * UINT64CONST(2654435761) % run->positions / run->repeats);
}

static inline bool
valid_at(uint64 position)
{
	return position % 7 != 3;
}

/*
 * Search a synthetic column; see the install script for the arguments.
 */
Datum
gpujoin_service_test(PG_FUNCTION_ARGS)
{
	TestRun		run = {.pages = PG_GETARG_INT32(0), .shape = {.slots = PG_GETARG_INT32(1),
	.key_bytes = PG_GETARG_INT32(2)}};
	int			nkeys = PG_GETARG_INT32(3);
	int			requests = PG_GETARG_INT32(4);
	bool		verify = PG_GETARG_BOOL(5);
	bool		count_only = PG_GETARG_BOOL(6);
	int			repeats = PG_GETARG_INT32(7);
	TupleDesc	desc;
	Datum		values[12];
	bool		nulls[12] = {0};
	int64		answers;

	require_superuser();
	run.device = PG_GETARG_INT32(9);
	if (run.device < 0 || run.device >= Max(GjServiceDevices(), 1) || run.pages < 0 ||
		!gjd_shape_is_valid(&run.shape) || run.shape.slots > 8192 ||
		nkeys < 0 || requests < 0 || repeats < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid arguments")));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	run.repeats = repeats;
	run.reduce = PG_GETARG_BOOL(8);
	prepare(&run, nkeys);
	for (int i = 0; i < TEST_TIMES; i++)
		run.us[i] = MemoryContextAllocHuge(CurrentMemoryContext, (requests + 1) * sizeof(double));
	PG_TRY();
	{
		search_all(&run, requests, verify, count_only);
	}
	PG_FINALLY();
	{
		unload(&run);
	}
	PG_END_TRY();

	values[0] = Int64GetDatum((int64) run.nexpected);
	values[1] = Int64GetDatum(run.ok);
	values[2] = Int64GetDatum(run.fallbacks);
	values[3] = Int64GetDatum(run.wrong);
	values[4] = Int64GetDatum(run.loads);
	answers = run.ok + run.wrong;
	for (int i = 0; i < TEST_TIMES; i++)
		values[5 + i] = Float8GetDatum(median(run.us[i], answers));
	values[10] = Float8GetDatum(run.sum_us > 0 ? answers * 1e6 / run.sum_us : 0);
	values[11] = CStringGetTextDatum(run.last_error);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * Arm a fault of the reference device.  Returns an empty text, or why it was not possible.
 */
Datum
gpujoin_inject_fault(PG_FUNCTION_ARGS)
{
	static const char *const points[] = {"reserve", "write", "keyset", "begin", "poll", "next",
	"register"};
	static const char *const kinds[] = {"none", "no_memory", "lost", "delay", "block", "hang",
	"crash", "abort", "exit"};
	int			device = PG_GETARG_INT32(5);
	int			point;
	int			kind;

	require_superuser();
	if (device < 0 || device >= Max(GjServiceDevices(), 1))
		elog(ERROR, "there is no device %d", device);
	point = find_name("point", text_to_cstring(PG_GETARG_TEXT_PP(0)), points, lengthof(points));
	kind = find_name("kind", text_to_cstring(PG_GETARG_TEXT_PP(1)), kinds, lengthof(kinds));
	GjServiceInjectFault(device, point, kind, Max(PG_GETARG_INT32(2), 0),
						 Max(PG_GETARG_INT32(3), 0), Max(PG_GETARG_INT32(4), 0));
	PG_RETURN_TEXT_P(cstring_to_text(GjServiceLastError()));
}

static void
require_superuser(void)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to try the gpujoin device service")));
}

/* Make the key set, and the right answer */
static void
prepare(TestRun *run, int nkeys)
{
	uint64		room = 1024;
	uint64		step;

	run->positions = (uint64) run->pages * run->shape.slots;
	run->keys = GjKeySetCreate(CurrentMemoryContext, run->shape.key_bytes);
	step = (nkeys > 0) ? Max(run->positions / run->repeats / nkeys, 1) : 1;
	for (int i = 0; i < nkeys; i++)
		GjKeySetAdd(run->keys, (int64) (i * step));
	GjKeySetFinish(run->keys);

	run->expected = palloc(room * sizeof(uint64));
	for (uint64 i = 0; i < run->positions; i++)
	{
		if (i % GJ_TEST_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!valid_at(i) || !GjKeySetContains(run->keys, key_at(run, i)))
			continue;
		if (run->nexpected == room)
		{
			room *= 2;
			run->expected = repalloc_huge(run->expected, room * sizeof(uint64));
		}
		run->expected[run->nexpected++] = i;
	}
	run->tid_memory = (run->nexpected + 8192) * 2 * sizeof(uint64);
}

static void
search_all(TestRun *run, int requests, bool verify, bool count_only)
{
	for (int i = 0; i < requests; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (run->loaded && run->column.epoch != GjServiceEpoch(run->device))
			run->loaded = false;
		if (!run->loaded && !load(run))
			run->fallbacks++;
		else
			search_once(run, verify, count_only);
	}
}

/* Make and fill the column */
static bool
load(TestRun *run)
{
	if (!GjServiceDeviceReady(run->device, NULL))
		pg_usleep(GJ_TEST_RETRY_US);
	if (GjServiceColumnCreate(run->device, &run->shape, run->pages, &run->column) !=
		GJ_SERVICE_OK)
	{
		note_failure(run);
		return false;
	}
	run->loaded = true;
	run->next_page = 0;
	run->end_page = run->pages;
	run->version = FIRST_VERSION;
	if (GjServicePush(&run->column, &run->shape, fill_pages, run) == GJ_SERVICE_OK)
	{
		run->loads++;
		run->next_page = Min(NEWER_PAGE, run->pages);
		run->end_page = Min(NEWER_PAGE + 1, run->pages);
		run->version++;
		if (!run->reduce ||
			GjServicePush(&run->column, &run->shape, fill_pages, run) == GJ_SERVICE_OK)
			return true;
	}
	note_failure(run);
	unload(run);
	return false;
}

/* Drop the column; if all slots are taken, retry, since no other process would ever drop it */
static void
unload(TestRun *run)
{
	while (run->loaded && GjServiceColumnDrop(&run->column) == GJ_SERVICE_BUSY)
		pg_usleep(GJ_TEST_BUSY_US);
	run->loaded = false;
}

static void
search_once(TestRun *run, bool verify, bool count_only)
{
	GjTidSet   *tids = NULL;
	GjServiceMatchInfo info;
	GjServiceResult result;
	GjEntrySet *rest = NULL;
	GjReduction reduction = {0};
	bool		right;

	if (run->reduce)
		result = reduce_once(run, &rest, &reduction, &info);
	else
	{
		if (!count_only)
			tids = GjTidSetCreate(CurrentMemoryContext, run->tid_memory);
		result = GjServiceMatch(&run->column, run->keys, tids, &info);
	}
	if (result != GJ_SERVICE_OK)
	{
		note_failure(run);
		run->fallbacks++;
		if (result == GJ_SERVICE_GONE)
			run->loaded = false;
	}
	else
	{
		note_times(run, &info);
		if (run->reduce)
			right = reduction_is_right(run, rest, &reduction, &info);
		else
			right = (info.matches == run->nexpected);
		if (right && verify && tids != NULL)
			right = answer_is_right(run, tids);
		if (right)
			run->ok++;
		else
			run->wrong++;
	}
	if (tids != NULL)
		GjTidSetFree(tids);
	if (rest != NULL)
		GjEntrySetFree(rest);
	if (reduction.words != NULL)
		pfree(reduction.words);
}

/* GjReduction.meanwhile */
static void
count_call(void *arg)
{
	++*(int *) arg;
}

static GjServiceResult
reduce_once(TestRun *run, GjEntrySet **rest, GjReduction *reduction, GjServiceMatchInfo *info)
{
	GjEntryWidths widths = {.key = run->shape.key_bytes};
	uint64		nblocks = run->positions / GJ_TEST_ROWS_PER_BLOCK + 1;
	uint8	   *map = palloc0(nblocks / 4 + 1);
	int			ncalls = 0;
	GjServiceResult result;

	/* the map has the second quarter of the blocks */
	reduction->asked = (gjd_reduction) {.grouping = GJD_BY_KEY, .n_aggregates = 2,
	.aggregates = {{GJD_SUM, 0}, {GJD_MAX, 0}}, .n_left_out = lengthof(left_out),
	.left_out = left_out, .bound = FIRST_VERSION, .visible_below = nblocks / 4 / 4 * 4,
	.map = map};
	for (uint64 block = reduction->asked.visible_below; block < nblocks / 2; block++)
	{
		uint64		behind = block - reduction->asked.visible_below;

		map[behind / 4] |= 1 << behind % 4 * 2;
		reduction->asked.map_bytes = behind / 4 + 1;
	}
	reduction->context = CurrentMemoryContext;
	reduction->limit = MaxAllocHugeSize;
	reduction->meanwhile = count_call;
	reduction->arg = &ncalls;
	*rest = GjEntrySetCreate(CurrentMemoryContext, run->tid_memory * 4, &widths, true, 0);
	result = GjServiceReduce(&run->column, &run->shape, run->keys, reduction, *rest, info);
	pfree(map);
	if (result == GJ_SERVICE_OK && ncalls != 1)
		elog(ERROR, "called %d times", ncalls);
	return result;
}

/* Return true if groups and rest together have each row once, but for the pages left out */
static bool
reduction_is_right(const TestRun *run, GjEntrySet *rest, const GjReduction *reduction,
				   const GjServiceMatchInfo *info)
{
	uint64	   *nrows = palloc0((GjKeySetCount(run->keys) + 1) * sizeof(uint64));
	uint64		nrest = 0;
	uint64		nfound = 0;
	uint64		xor = 0;
	bool		has_newer = run->pages > NEWER_PAGE;
	bool		right;

	for (uint64 i = 0; i < run->nexpected; i++)
	{
		uint64		position = run->expected[i];

		if (is_left_out(run, position))
			continue;
		nfound++;
		if (is_visible(run, position))
			nrows[GjKeySetLowerBound(run->keys, key_at(run, position))]++;
		else
		{
			nrest++;
			xor ^= position / GJ_TEST_ROWS_PER_BLOCK << 16 |
				(position % GJ_TEST_ROWS_PER_BLOCK + 1);
		}
	}
	right = reduction->rows == nfound - nrest && reduction->ngroups == reduction->nelements &&
		reduction->nnewer == has_newer && (!has_newer || reduction->newer[0] == NEWER_PAGE) &&
		rest->nentries == nrest && info->matches == nfound && info->tids == nrest;
	for (uint64 i = 0; right && i < reduction->nelements; i++)
	{
		const uint64 *group = reduction->words + i * reduction->element_words;
		int64		key = (int64) group[0];
		uint64		place = GjKeySetLowerBound(run->keys, key);
		uint64		sum = group[3];

		if (run->shape.key_bytes == 8)
			sum = group[3] + (group[4] << 32);
		right = nrows[place] == group[2] && sum == group[2] * key &&
			(int64) group[reduction->element_words - 1] == key;
		nrows[place] = 0;
	}
	for (uint64 i = 0; i < GjKeySetCount(run->keys); i++)
		right &= nrows[i] == 0;
	for (uint64 i = 0; right && i < rest->nentries; i++)
		xor ^= rest->tids[i];
	pfree(nrows);
	return right && xor == 0;
}

static bool
is_left_out(const TestRun *run, uint64 position)
{
	uint64		page = position / run->shape.slots;

	return page == left_out[0] || page == left_out[1] || page == NEWER_PAGE;
}

static bool
is_visible(const TestRun *run, uint64 position)
{
	return position / GJ_TEST_ROWS_PER_BLOCK <
		(run->positions / GJ_TEST_ROWS_PER_BLOCK + 1) / 2;
}

/* Compare with the matching positions, whose TIDs ascend */
static bool
answer_is_right(const TestRun *run, GjTidSet *tids)
{
	GjTidBlock	block;
	uint64		n = 0;

	GjTidSetFinish(tids);
	while (GjTidSetNextBlock(tids, &block))
	{
		for (int i = 0; i < block.noffsets; i++, n++)
		{
			if (n == run->nexpected ||
				run->expected[n] / GJ_TEST_ROWS_PER_BLOCK != block.block ||
				run->expected[n] % GJ_TEST_ROWS_PER_BLOCK + 1 != block.offsets[i])
				return false;
		}
		if (block.lossy)
			return false;
	}
	return n == run->nexpected;
}

/* GjPushFill */
static int
fill_pages(void *arg, struct gjd_page_head *heads, char *images, int max_pages)
{
	TestRun    *run = arg;
	int			n = 0;

	CHECK_FOR_INTERRUPTS();
	while (n < max_pages && run->next_page < run->end_page)
	{
		heads[n].page = run->next_page;
		heads[n].version = run->version;
		fill_image(run, run->next_page, images + n * gjd_shape_image_bytes(&run->shape));
		run->next_page++;
		n++;
	}
	return n;
}

static void
fill_image(const TestRun *run, int page, char *image)
{
	const gjd_shape *shape = &run->shape;
	uint32	   *blocks = (uint32 *) (image + gjd_image_blocks_at(shape->slots, shape->key_bytes));
	uint16	   *offsets = (uint16 *) (image + gjd_image_offsets_at(shape->slots, shape->key_bytes));
	uint32	   *valid = (uint32 *) (image + gjd_image_valid_at(shape->slots, shape->key_bytes));

	memset(valid, 0, run->shape.slots / 8);
	for (int slot = 0; slot < run->shape.slots; slot++)
	{
		uint64		position = (uint64) page * run->shape.slots + slot;

		if (run->shape.key_bytes == 4)
			((int32 *) image)[slot] = (int32) key_at(run, position);
		else
			((int64 *) image)[slot] = key_at(run, position);
		blocks[slot] = (uint32) (position / GJ_TEST_ROWS_PER_BLOCK);
		offsets[slot] = (uint16) (position % GJ_TEST_ROWS_PER_BLOCK + 1);
		if (valid_at(position))
			valid[slot / 32] |= (uint32) 1 << (slot % 32);
	}
}

static void
note_times(TestRun *run, const GjServiceMatchInfo *info)
{
	int64		i = run->ok + run->wrong;

	run->us[TEST_TOTAL][i] = info->total_us;
	run->us[TEST_DEVICE][i] = info->set_us + info->kernel_us + info->transfer_us;
	run->us[TEST_SET][i] = info->set_us;
	run->us[TEST_KERNEL][i] = info->kernel_us;
	run->us[TEST_TRANSFER][i] = info->transfer_us;
	run->sum_us += info->total_us;
}

static void
note_failure(TestRun *run)
{
	strlcpy(run->last_error, GjServiceLastError(), sizeof(run->last_error));
}

static double
median(double *values, int64 n)
{
	if (n == 0)
		return 0.0;
	qsort(values, n, sizeof(double), compare_doubles);
	return values[n / 2];
}

static int
compare_doubles(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return (left > right) - (left < right);
}

static int
find_name(const char *what, const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (strcmp(name, names[i]) == 0)
			return i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("no fault %s \"%s\"", what, name)));
}
