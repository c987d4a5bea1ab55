/*
 * result.c
 *	  Fuzz target: a backend that reads the helper's answers.
 *
 * The backend's own client runs requests of all kinds; a script plays the other side of the
 * arena: valid and invalid parts, words of any value, texts, and all other bytes that the helper
 * may write.  The backend takes a step of the script whenever it waits, and some while it works.
 * Each request must end, at the latest when the helper is given up; the results must be in the
 * backend's own memory, and possible.
 */
#include "server.h"

#include "access/htup_details.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "utils/wait_event.h"

#include "service/shared.h"

#define CHUNK_BYTES 16384
#define MESSAGES_AT 8192
#define CHUNKS_AT 12288
#define GENERATION 5
#define EPOCH 3

GjService	gj_services[GJ_MAX_DEVICES];
int			gj_nservices = 1;
static uint32 wait_event_info;
uint32	   *my_wait_event_info = &wait_event_info;
volatile sig_atomic_t postmaster_possibly_dead = false;
int			gj_device;
int			gj_device_timeout = 10000;
char	   *gj_gpu = "";
char		pkglib_path[MAXPGPATH];

static script play;
static bool slot_is_used;

/* Functions of the service and the server that a client calls -------------------------- */

int
GjSlotAcquire(GjService *service, uint32 *generation, uint32 *epoch, GjServiceResult *why_not)
{
	require(!slot_is_used);
	slot_is_used = true;
	*generation = GENERATION;
	*epoch = EPOCH;
	return 0;
}

void
GjSlotRelease(GjService *service, int slot)
{
	require(slot_is_used);
	slot_is_used = false;
}

void
GjSlotAbandon(GjService *service, int slot, uint32 epoch)
{
	GjSlotRelease(service, slot);
}

bool
GjWantsAllGpus(void)
{
	return false;
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
}

/* The helper -------------------------------------------------------------------------------- */

static char *
next_half(void)
{
	uint32		filled = gjp_read_word(&GjMessage(&gj_services[0], 0)->filled, GENERATION);

	return GjChunk(&gj_services[0], 0) + gjp_half_bytes(CHUNK_BYTES) * (filled % GJP_HALVES);
}

static const GjReduction *reducing; /* the current request's, or NULL */
static uint32 ngroups_delivered;

/* Write groups of one row each, whose keys or values follow those of the previous part */
static void
deliver_groups(gjp_message *message, uint32 half, uint32 n)
{
	uint32		nwords = reducing->element_words;
	uint64	   *words = (uint64 *) next_half();

	for (uint32 i = 0; i < n; i++, words += nwords)
	{
		memset(words, 0, nwords * sizeof(uint64));
		if (reducing->asked.grouping == GJD_DISTINCT)
		{
			words[0] = 1;
			continue;
		}
		if (reducing->asked.grouping != GJD_ONE_GROUP)
			words[0] = (ngroups_delivered + i) * 3;
		words[2] = 1;
		for (uint32 word = GJD_GROUP_WORDS; word < nwords; word++)
			words[word] = 1;
		if (reducing->asked.grouping == GJD_BY_COLUMNS)
			words[GJD_GROUP_WORDS] = words[0];
	}
	ngroups_delivered += n;
	message->groups[half] = message->group_room[half] = n;
	message->result.rows += n;
	message->result.groups += n;
	message->result.elements += n;
	message->result.matched += n;
}

/* Deliver a valid part of TIDs or entries, after groups if the request has a reduction */
static void
deliver(void)
{
	gjp_message *message = GjMessage(&gj_services[0], 0);
	uint32		filled = gjp_read_word(&message->filled, GENERATION);
	uint32		n = next_byte(&play);
	BlockNumber block = next_byte(&play);
	uint64	   *tids = (uint64 *) next_half();

	if (reducing != NULL)
	{
		uint32		groups = next_byte(&play) & 63;

		deliver_groups(message, filled % GJP_HALVES, groups);
		tids += gjp_entries_at(groups, reducing->element_words * 8) / 8;
		message->result.matched += n;
	}
	for (uint32 i = 0; i < n; i++)
		tids[i] = (uint64) (block + i / 50) << 16 | (i % 50 + 1);
	message->out[filled % GJP_HALVES] = n;
	message->room[filled % GJP_HALVES] = n;
	gjp_write_word(&message->filled, GENERATION, filled + 1);
	message->result.count += n;
}

static void
finish(gjp_state state)
{
	GjMessage(&gj_services[0], 0)->result.status = next_byte(&play) | next_byte(&play) << 8;
	gjp_write_word(&GjMessage(&gj_services[0], 0)->state, GENERATION, state);
}

/* Write the script's bytes into memory that the helper may write to */
static void
scribble(char *at, size_t room)
{
	size_t		offset = next_number(&play, 2) % room;
	size_t		n = next_byte(&play) % 64;
	const uint8_t *bytes = next_bytes(&play, &n);

	memcpy(at + offset, bytes, Min(n, room - offset));
}

static void
play_helper(void)
{
	gjp_message *message = GjMessage(&gj_services[0], 0);
	uint8_t		what;

	if (play.left == 0)
	{
		pg_atomic_write_u32(&gj_services[0].shared->epoch, EPOCH + 1);
		return;
	}
	what = next_byte(&play);
	switch (what % 12)
	{
		case 0:
			deliver();
			break;
		case 1:
			finish(GJP_DONE);
			break;
		case 2:
			finish(GJP_FAILED);
			break;
		case 3:
			gjp_write_word(&message->filled, GENERATION, (uint32) next_number(&play, 4));
			break;
		case 4:
			message->out[what >> 4 & 1] = (uint32) next_number(&play, 4);
			break;
		case 5:
			message->room[what >> 4 & 1] = (uint32) next_number(&play, 4);
			break;
		case 6:
			message->expected = next_number(&play, 8);
			break;
		case 7:
			gjp_write_word(&message->taken, GENERATION, (uint32) next_number(&play, 4));
			break;
		case 8:
			scribble(GjChunk(&gj_services[0], 0), CHUNK_BYTES);
			break;
		case 9:
			scribble((char *) &message->state, sizeof(gjp_message) - offsetof(gjp_message, state));
			break;
		case 10:
			message->result.count = next_number(&play, 8);
			break;
		default:
			/* simulate a stray write to the client's own part */
			scribble((char *) message, sizeof(gjp_message));
			break;
	}
}

void
GjDoorbellRing(const GjService *service, int slot)
{
	if (play.left > 0 && play.data[0] >= 128)
		play_helper();
}

/* The client's only system call is the sleep on its bell. */
long
syscall(long number, ...)
{
	play_helper();
	return 0;
}

bool
PostmasterIsAliveInternal(void)
{
	return true;
}

/* Requests ------------------------------------------------------------------------------------ */

static script setup;			/* the parameters of the request, from the input's first bytes */

static GjKeySet *
make_keys(void)
{
	GjKeySet   *keys = GjKeySetCreate(CurrentMemoryContext, 4);
	uint32		n = next_byte(&setup) * (next_byte(&setup) % 16);

	for (uint32 i = 0; i < n; i++)
		GjKeySetAdd(keys, i * 3);
	GjKeySetFinish(keys);
	return keys;
}

static void
look_at_tids(GjTidSet *tids)
{
	GjTidBlock	block;

	GjTidSetFinish(tids);
	while (GjTidSetNextBlock(tids, &block))
	{
		require(block.lossy || (block.noffsets > 0 && block.noffsets <= MaxHeapTuplesPerPage));
		for (int i = 0; i < block.noffsets; i++)
			require(block.offsets[i] >= 1 && block.offsets[i] <= MaxHeapTuplesPerPage &&
					(i == 0 || block.offsets[i - 1] < block.offsets[i]));
	}
}

static void
match_tids(void *arg)
{
	GjServiceColumn column = {0, EPOCH, 1, 1};
	GjServiceMatchInfo info;
	GjKeySet   *keys = make_keys();
	GjTidSet   *tids = next_byte(&setup) & 1 ?
		GjTidSetCreate(CurrentMemoryContext, 64 * 1024) : NULL;
	GjServiceResult result = GjServiceMatch(&column, keys, tids, &info);

	/* a part of an answer must be as valid as all of it */
	if (tids != NULL && result != GJ_SERVICE_FAILED)
		look_at_tids(tids);
}

static void
match_entries(void *arg)
{
	GjServiceColumn column = {0, EPOCH, 1, 1};
	gjd_shape	shape = {.key_bytes = 4, .slots = 32, .n_carried = 3, .nullable = 5,
	.carried_bytes = {4, 8, 1}};
	GjEntryWidths widths = {4, 3, {4, 8, 1}};
	GjServiceMatchInfo info;
	GjKeySet   *keys = make_keys();
	uint8_t		wanted = next_byte(&setup);
	GjEntrySet *entries = GjEntrySetCreate(CurrentMemoryContext, 256 * 1024, &widths,
										   wanted & 1, wanted >> 1 & 7);
	uint64		sum = 0;

	if (GjServiceMatchEntries(&column, &shape, keys, entries, &info) != GJ_SERVICE_OK)
		return;
	GjEntrySetEndBulk(entries);
	GjEntrySetFinish(entries);
	if (GjEntrySetPlain(entries) != NULL)
		look_at_tids(GjEntrySetPlain(entries));
	for (uint64 i = 0; entries->tids != NULL && i < entries->nentries; i++)
	{
		uint64		offset = entries->tids[i] & 0xffff;

		require(offset >= 1 && offset <= MaxHeapTuplesPerPage);
		if (entries->keys.width != 0)
			sum += ((uint32 *) entries->keys.values)[i];
		for (int c = 0; c < entries->nincluded; c++)
		{
			const GjEntryColumn *included = &entries->included[c];

			for (int byte = 0; byte < included->width; byte++)
				sum += (uint8) included->values[i * included->width + byte];
			if (included->width != 0 && included->has_nulls)
				sum += included->nulls[i] != 0;
		}
	}
	require(sum != PG_UINT64_MAX);
}

static int	nmeanwhile;

static void
work_meanwhile(void *arg)
{
	require(arg == &nmeanwhile);
	nmeanwhile++;
}

/*
 * Each group is of the request, and there is no other of its value, except for groups of columns;
 * they have all rows.  With weights, each row counts once or twice.
 */
static void
look_at_groups(const GjReduction *r, const GjKeySet *keys)
{
	bool		by_columns = r->asked.grouping == GJD_BY_COLUMNS;
	uint32		first = gjd_group_words(&r->asked);
	uint64		rows = 0;

	require(r->nelements * r->element_words * sizeof(uint64) <= r->limit);
	require(!r->only_counted || (r->groups_if_needed && r->nelements == 0));
	for (uint32 i = 1; i < r->nnewer; i++)
		require(r->newer[i] > r->newer[i - 1]);
	if (r->asked.grouping == GJD_DISTINCT)
	{
		require(r->nelements == 0 || r->nelements == r->asked.span / 64);
		require(r->ngroups <= r->rows);
		return;
	}
	for (uint64 i = 0; i < r->nelements; i++)
	{
		const uint64 *group = r->words + i * r->element_words;

		rows += group[2];
		require(group[1] <= by_columns);
		require(!by_columns || GjKeySetContains(keys, (int64) group[GJD_GROUP_WORDS]));
		if (r->asked.grouping == GJD_BY_KEY)
			require(GjKeySetContains(keys, (int64) group[0]));
		if (r->asked.grouping == GJD_BY_VALUE)
			require(group[1] || group[0] < r->asked.span);
		for (uint64 k = 0; k < i && !by_columns; k++)
			require(group[0] != r->words[k * r->element_words] ||
					group[1] != r->words[k * r->element_words + 1]);
		for (uint32 a = 0; a < r->asked.n_aggregates; a++)
			require(r->asked.aggregates[a].kind != GJD_COUNT_VALUES ||
					group[first + a] <= group[2]);
	}
	require(!r->asked.only_shared || (r->nelements <= r->ngroups && r->ngroups <= r->rows));
	require(r->nelements == 0 || r->asked.only_shared ||
			(rows >= r->rows && rows <= (r->asked.weights != NULL ? 2 : 1) * r->rows));
}

static void
reduce(void *arg)
{
	static const uint32 left_out[] = {1, 5, 70000};
	GjServiceColumn column = {0, EPOCH, 1, 1};
	gjd_shape	shape = {.key_bytes = 4, .slots = 32, .n_carried = 3, .nullable = 5,
	.carried_bytes = {4, 8, 1}};
	GjEntryWidths widths = {4, 3, {4, 8, 1}};
	GjServiceMatchInfo info;
	GjKeySet   *keys = make_keys();
	uint8_t		what = next_byte(&setup);
	GjEntrySet *rest = GjEntrySetCreate(CurrentMemoryContext, 256 * 1024, &widths, what & 1, 0);
	GjReduction reduction = {.asked = {.grouping = what >> 1 & 3, .column = 1, .span = 640,
	.aggregates = {{GJD_COUNT_VALUES, 1}, {GJD_SUM, 2}, {GJD_MIN, 3}}, .n_left_out = what & 3,
	.left_out = left_out, .map = (const uint8_t *) left_out, .map_bytes = what & 7},
	.groups_if_needed = what >> 3 & 1, .context = CurrentMemoryContext, .limit = 32 * 1024,
	.meanwhile = work_meanwhile, .arg = &nmeanwhile};
	uint32	   *weights = palloc((GjKeySetCount(keys) + 1) * sizeof(uint32));
	GjServiceResult result;

	if (reduction.asked.grouping == GJD_BY_VALUE && (what & 64) != 0)
	{
		reduction.asked.grouping = GJD_BY_COLUMNS;
		reduction.asked.n_columns = 2;
		reduction.asked.columns[0] = 1;
		reduction.asked.room = 100;
		reduction.asked.only_shared = what >> 4 & 1;
	}
	for (uint64 i = 0; i < GjKeySetCount(keys); i++)
		weights[i] = 1 + i % 2;
	if ((what & 128) != 0 && reduction.asked.grouping != GJD_DISTINCT)
	{
		reduction.asked.weights = weights;
		reduction.asked.n_keys = GjKeySetCount(keys);
	}
	if (reduction.asked.grouping != GJD_DISTINCT)
		reduction.asked.n_aggregates = what >> 4 & 3;
	nmeanwhile = 0;
	ngroups_delivered = 0;
	reducing = &reduction;
	result = GjServiceReduce(&column, &shape, keys, &reduction, rest, &info);
	require(nmeanwhile <= 1 && (nmeanwhile == 1 || result != GJ_SERVICE_OK));
	if (result == GJ_SERVICE_OK)
		look_at_groups(&reduction, keys);
}

static void
create(void *arg)
{
	gjd_shape	shape = {.key_bytes = 4, .slots = 32};
	GjServiceColumn column = {0};

	if (GjServiceColumnCreate(0, &shape, 10, &column) == GJ_SERVICE_OK)
		require(column.epoch == EPOCH);
}

static int
fill_pages(void *arg, struct gjd_page_head *heads, char *images, int max_pages)
{
	int		   *left = arg;
	int			n = Min(Min(*left, 3), max_pages);

	memset(heads, 0, n * sizeof(gjd_page_head));
	memset(images, 1, n * 512);
	*left -= n;
	return n;
}

static void
push(void *arg)
{
	gjd_shape	shape = {.key_bytes = 4, .slots = 32};
	GjServiceColumn column = {0, EPOCH, 1, 1};
	int			npages_left = next_byte(&setup);

	(void) GjServicePush(&column, &shape, fill_pages, &npages_left);
}

static void
drop(void *arg)
{
	GjServiceColumn column = {0, EPOCH, 1, 1};

	(void) GjServiceColumnDrop(&column);
}

/* Copy the helper's report, as the supervisor does */
static void
report(void *arg)
{
	gjp_report	copy;

	for (int i = 0; i < 4; i++)
		scribble((char *) &GjControl(&gj_services[0])->report, sizeof(gjp_report));
	GjReportCopy(&gj_services[0], &copy);
	require(strlen(copy.device) < sizeof(copy.device) && strlen(copy.uuid) < sizeof(copy.uuid));
	require(strlen(copy.failure) < sizeof(copy.failure));
	GjReasonReportEnd(&gj_services[0], GjReasonOfExit(next_byte(&play) << 8), next_byte(&play),
					  copy.failure, false);
}

static void
make_arena(void)
{
	static GjServiceShared *shared;
	GjArena    *arena = &gj_services[0].arena;

	if (shared == NULL)
	{
		shared = calloc(1, sizeof(GjServiceShared) + sizeof(GjServiceSlot));
		arena->size = CHUNKS_AT + CHUNK_BYTES;
		arena->base = aligned_alloc(4096, arena->size);
		arena->messages_at = MESSAGES_AT;
		arena->chunks_at = CHUNKS_AT;
		arena->chunk_bytes = CHUNK_BYTES;
	}
	memset(arena->base, 0, arena->size);
	gj_services[0].shared = shared;
	memset(shared, 0, sizeof(GjServiceShared));
	pg_atomic_init_u32(&shared->state, GJ_STATE_READY);
	pg_atomic_init_u32(&shared->epoch, EPOCH);
	/* other processes are spinning already, so this one sleeps at once */
	pg_atomic_init_u32(&shared->nspinning, 1000000);
	for (int i = 0; i < GJ_COUNT_COUNTERS; i++)
		pg_atomic_init_u64(&shared->counters[i], 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const requests[]) (void *arg) = {
		match_tids, match_entries, reduce, reduce, create, push, drop, report
	};
	uint8_t		which;

	if (size < 4)
		return 0;
	setup = (script) {data, 4};
	play = (script) {data + 4, size - 4};
	server_reset();
	reducing = NULL;
	/*
	 * the announced number of items is not trusted: it must not make the backend allocate more
	 * than this
	 */
	most_memory = 4 * 1024 * 1024;
	make_arena();
	which = next_byte(&setup);
	if (!succeeds(requests[which % lengthof(requests)], NULL))
		fprintf(stderr, "%s\n", last_message), abort();
	require(!slot_is_used);
	for (const char *c = GjServiceLastError(); *c != '\0'; c++)
		require(*c >= ' ' && *c <= '~');
	return 0;
}
