/*
 * helper.c
 *	  Fuzz target: the helper's request decoder, with clients that send anything at all.
 *
 * The helper's own files and the reference library are compiled into this program.  A script
 * writes requests, parts and words into the arena as backends would, and lets the helper run
 * rounds in between.  One slot belongs to no client: the helper must not write there, nor past
 * the end of the arena.  In the end all clients cancel; then every request must end, and the
 * device must not hold anything of them.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "helper_world.h"

/* The library has a function of this name, too, in a separate file (reference.c) */
#define match_begin helper_match_begin
#define _exit(code) end_helper(code)
#define clock_gettime world_time
#define write world_write
#define main helper_main
#include "helper/base.c"
#include "helper/wait.c"
#include "helper/bells.c"
#include "helper/open.c"
#include "helper/request.c"
#include "helper/column.c"
#include "helper/match.c"
#include "helper/helper.c"
#undef main

const gjd_api *gjd_get_api(uint32_t version);

#define SLOTS 4
#define NOBODYS (SLOTS - 1)
#define EPOCH 7
#define CHUNK_BYTES ((uint64_t) 16 << 10)
#define MESSAGES_AT ((uint64_t) 2 * GJP_PAGE_BYTES)
#define CHUNKS_AT (MESSAGES_AT + SLOTS * GJP_PAGE_BYTES)
/* 64 MB of it are reserved for results (border/layout.h): 8 MB are left for columns */
#define BUDGET ((uint64_t) 72 << 20)
#define ROUND_NS (10 * NS_PER_MS)

/* A request that has not ended after this many rounds will never end: the helper waits at most
 * 100 rounds */
#define MANY_ROUNDS 1000

/* Contents of an unused chunk */
#define NOTHING 0x5A

static jmp_buf helper_ended;
static int exit_code;
static int64_t world_ns;
static bool may_die;			/* has a fault been injected? */
static uint32_t generations[SLOTS];

/* ---- the world ------------------------------------------------------------------------------- */

void
end_helper(int code)
{
	exit_code = code;
	longjmp(helper_ended, 1);
}

int
world_time(clockid_t clock, struct timespec *t)
{
	(void) clock;
	t->tv_sec = world_ns / 1000000000;
	t->tv_nsec = world_ns % 1000000000;
	return 0;
}

/* Only a call that hangs sleeps for as long as a second. */
int
world_sleep(const struct timespec *t, struct timespec *rest)
{
	(void) rest;
	if (t->tv_sec > 0)
		end_helper(GJP_EXIT_HUNG);
	world_ns += t->tv_nsec;
	return 0;
}

static void
make_arena(void)
{
	size_t bytes = CHUNKS_AT + SLOTS * CHUNK_BYTES;
	gjp_layout layout = {.magic = GJP_MAGIC, .version = GJP_VERSION, .slots = SLOTS,
		.message_bytes = sizeof(gjp_message), .total_bytes = bytes,
		.messages_at = MESSAGES_AT, .chunks_at = CHUNKS_AT, .chunk_bytes = CHUNK_BYTES};

	_Static_assert(sizeof(gjp_control) <= MESSAGES_AT, "the control block fits");
	_Static_assert(sizeof(gjp_message) <= GJP_PAGE_BYTES, "the messages fit");
	memset(&h, 0, sizeof(h));
	h.arena = aligned_alloc(GJP_PAGE_BYTES, bytes);
	memset(h.arena, 0, CHUNKS_AT);
	memset(h.arena + CHUNKS_AT, NOTHING, SLOTS * CHUNK_BYTES);
	h.control = (gjp_control *) h.arena;
	h.control->layout = h.layout = layout;
	h.control->timeout_ms = 60000;
	h.epoch = EPOCH;
	h.half_bytes = gjp_half_bytes(CHUNK_BYTES);
	h.api = gjd_get_api(GJD_API_VERSION);
	h.now = world_ns = 1000000000;
	open_device("", BUDGET);
	register_chunks();
}

static void
play(int rounds)
{
	for (int i = 0; i < rounds; i++)
	{
		h.now = world_ns += ROUND_NS;
		h.round_ns = ROUND_NS;
		play_round();
		h.ring = false;
	}
}

/* No process listens to the supervisor's bell. */
ssize_t
world_write(int fd, const void *bytes, size_t n)
{
	(void) fd;
	(void) bytes;
	return (ssize_t) n;
}

/* ---- the actions of clients ------------------------------------------------------ */

/* A shape that is valid more often than not */
static gjd_shape
some_shape(script *s)
{
	gjd_shape shape = {.key_bytes = next_byte(s) & 1 ? 8 : 4};
	uint8_t how = next_byte(s);

	shape.slots = 32 * (1 + (how & 3));
	shape.n_carried = how >> 2 & 3;
	shape.nullable = how >> 4 & 7;
	for (uint32_t c = 0; c < shape.n_carried; c++)
		shape.carried_bytes[c] = 1 << (next_byte(s) & 3);
	return shape;
}

/* A filter of columns that may exist, with tests that may; all, no or few values pass. */
static gjd_filter
some_filter(script *s, uint8_t n)
{
	gjd_filter filter = {.n = n};

	for (uint32_t i = 0; i < filter.n && i < GJD_MAX_CONDITIONS; i++)
	{
		uint8_t what = next_byte(s);

		filter.conditions[i].column = what & 7;
		filter.conditions[i].test = what >> 3 & 7;
		filter.conditions[i].low = (int8_t) next_byte(s);
		filter.conditions[i].high = (int8_t) next_byte(s);
	}
	return filter;
}

static gjd_top
some_top(script *s)
{
	gjd_top top = {.limit = next_byte(s), .column = next_byte(s) & 3, .order = next_byte(s) & 7};

	return top;
}

/* A reduction that is valid more often than not; no memory is sent for it yet */
static gjd_reduction
some_reduction(script *s)
{
	uint8_t what = next_byte(s);
	gjd_reduction reduction = {.struct_size = next_byte(s), .grouping = what & 7};

	reduction.column = next_byte(s) & 3;
	reduction.n_aggregates = what >> 4;
	for (uint32_t i = 0; i < reduction.n_aggregates && i < GJD_MAX_AGGREGATES; i++)
		reduction.aggregates[i] =
			(gjd_aggregate){.kind = next_byte(s) & 7, .column = next_byte(s) & 3};
	reduction.least = (int8_t) next_byte(s);
	reduction.span = (uint64_t) next_byte(s) << (what & 8);
	reduction.marked = next_byte(s) & 7;
	reduction.n_left_out = next_byte(s) & 15;
	reduction.bound = next_byte(s) & 1 ? UINT64_MAX : (uint64_t) h.now;
	reduction.visible_below = next_byte(s);
	reduction.map_bytes = next_byte(s) & 63;
	return reduction;
}

static void
write_request(script *s, gjp_message *message)
{
	gjp_request request = {.epoch = EPOCH, .op = next_byte(s)};

	request.column_id = next_byte(s);
	request.column_generation = next_byte(s);
	request.shape = some_shape(s);
	request.count_only = next_byte(s) & 1;
	request.entries = next_byte(s) & 1;
	request.want.keys = next_byte(s) & 1;
	request.want.columns = next_byte(s);
	request.any_order = next_byte(s);
	request.rest_column = request.any_order >> 1 & 3;
	request.any_order &= 1;
	request.reserve_pages = next_byte(s);
	request.keys = next_number(s, 2);
	if (request.op == GJP_FAULT)
	{
		request.point = next_byte(s);
		request.kind = next_byte(s);
		request.skip = next_byte(s) & 3;
		request.times = next_byte(s) & 3;
		request.millis = next_byte(s);
	}
	message->request = request;
}

/* Overwrites the request, or anything else that a client has in its message. */
static void
scribble(script *s, gjp_message *message)
{
	size_t at = next_number(s, 2) % offsetof(gjp_message, state);
	size_t n = next_byte(s);
	const uint8_t *bytes = next_bytes(s, &n);

	if (n > offsetof(gjp_message, state) - at)
		n = offsetof(gjp_message, state) - at;
	memcpy((char *) message + at, bytes, n);
}

/* Fills a half with keys, or with pages that are valid if the request tells the right shape. */
static void
write_data(script *s, const request *q)
{
	gjp_message *message = message_of(q);
	gjd_shape shape = message->request.shape;
	char *half = half_of(q, next_byte(s));
	uint32_t n = next_byte(s);
	uint32_t factor = next_byte(s);
	uint64_t image_bytes, max_pages;

	for (uint32_t i = 0; i < n; i++)
		((int64_t *) half)[i] = (int64_t) i * factor;
	if (message->request.op != GJP_PUSH || !gjd_shape_is_valid(&shape))
		return;
	image_bytes = gjd_shape_image_bytes(&shape);
	max_pages = gjp_max_pages(h.half_bytes, image_bytes);
	for (uint32_t i = 0; i < n && i < max_pages; i++)
	{
		char *image = half + gjp_images_at(max_pages) + image_bytes * i;
		gjd_page_head *head = (gjd_page_head *) half + i;

		memset(image, (int) factor, image_bytes);
		memset(image + gjd_image_valid_at(shape.slots, shape.key_bytes), 0xff, shape.slots / 8);
		*head = (gjd_page_head){.page = i, .version = h.now};
	}
}

static void
scribble_data(script *s, const request *q)
{
	size_t at = next_number(s, 2) % CHUNK_BYTES;
	size_t n = next_byte(s);
	const uint8_t *bytes = next_bytes(s, &n);

	if (n > CHUNK_BYTES - at)
		n = CHUNK_BYTES - at;
	memcpy(half_of(q, 0) + at, bytes, n);
}

static void
step_client(script *s)
{
	uint8_t what = next_byte(s);
	request nobody = {.slot = (what >> 4) % NOBODYS};
	gjp_message *message = message_of(&nobody);
	uint32_t generation = generations[nobody.slot];
	uint32_t number;

	switch (what & 15)
	{
		case 0:
			play(1 + next_byte(s) % 8);
			break;
		case 1:
			write_request(s, message);
			break;
		case 2:
			__atomic_store_n(&message->posted, ++generations[nobody.slot], __ATOMIC_RELEASE);
			/* FALLTHROUGH */
		case 3:
			h.control->posted[0] |= (uint64_t) 1 << nobody.slot;
			break;
		case 4:
			number = next_byte(s) % GJP_HALVES;
			message->in[number].items = (uint32_t) next_number(s, 2);
			message->in[number].last = next_byte(s) & 1;
			break;
		case 5:
			gjp_write_word(&message->produced, generation, next_byte(s));
			break;
		case 6:
			gjp_write_word(&message->consumed, generation, next_byte(s));
			break;
		case 7:
			message->cancelled = generation;
			break;
		case 8:
			write_data(s, &nobody);
			break;
		case 9:
			scribble_data(s, &nobody);
			break;
		case 10:
			message->request.keys = next_number(s, 8);
			message->request.reserve_pages = next_number(s, 8);
			break;
		case 11:
			h.control->posted[next_byte(s) % GJP_SLOT_WORDS] |= next_number(s, 8);
			break;
		case 12:
			/* act like a well-behaved client: send one whole part, and take all parts of the
			 * answer */
			message->request.keys = next_byte(s);
			message->in[0] = (gjp_part){
				(uint32_t) gjp_words_before(&message->request, GJP_SECTIONS), 1};
			gjp_write_word(&message->produced, generation + 1, 1);
			gjp_write_word(&message->consumed, generation + 1, 1);
			break;
		case 13:
			message->sleeping = next_byte(s);
			break;
		case 14:
			number = next_byte(s);
			message->request.filter = some_filter(s, number & 15);
			if (number & 32)
				message->request.top = some_top(s);
			message->request.reduce = number >> 6 & 1;
			message->request.groups_if_needed = number >> 7;
			if (message->request.reduce)
				message->request.reduction = some_reduction(s);
			break;
		default:
			scribble(s, message);
			break;
	}
	may_die |= message->request.op == GJP_FAULT;
}

/* ---- the end of the conversation ------------------------------------------------- */

static bool
somebody_asks(void)
{
	for (uint32_t i = 0; i < h.layout.slots; i++)
		if (h.requests[i].step != NULL)
			return true;
	return h.n_endings > 0;
}

static void
end_all(void)
{
	gjd_memory_info info = {0};
	gjd_fault none = {.struct_size = sizeof(none)};

	for (int point = 0; point < GJD_AT_COUNT; point++)
	{
		none.point = point;
		h.api->inject_fault(h.device, &none, &h.error);
	}
	/* first take in requests that have been posted but not taken yet */
	play(1);
	for (uint32_t i = 0; i < SLOTS; i++)
		message_of(&(request){.slot = i})->cancelled = h.requests[i].generation;
	for (int rounds = 0; somebody_asks(); rounds++)
	{
		require(rounds < MANY_ROUNDS);
		play(1);
	}
	require(h.words_room == 0);
	h.api->memory_info(h.device, &info, &h.error);
	require(info.keysets == 0 && info.matches == 0);
}

static bool
is_all(const void *memory, char byte, size_t n)
{
	const char *at = memory;

	return n == 0 || (at[0] == byte && memcmp(at, at + 1, n - 1) == 0);
}

/*
 * The bell may have been rung for the slot without a client: then the helper has failed an empty
 * request.
 */
static void
look_for_wild_writes(void)
{
	const char *chunk = h.arena + CHUNKS_AT + CHUNK_BYTES * NOBODYS;
	const char *message = h.arena + MESSAGES_AT + sizeof(gjp_message) * NOBODYS;

	require(is_all(chunk, NOTHING, CHUNK_BYTES));
	require(is_all(message, 0, offsetof(gjp_message, state)));
	require(memcmp(&h.control->layout, &h.layout, sizeof(gjp_layout)) == 0);
}

/* This includes memory of a helper that a fault has ended. */
static void
free_all(void)
{
	gjd_error error;
	gjd_status status;

	for (uint32_t i = 0; i < SLOTS; i++)
	{
		request *q = &h.requests[i];

		free(q->collected);
		if (q->keyset != NULL)
			h.api->keyset_destroy(q->keyset, &error);
		if (q->match != NULL)
			h.api->match_end(q->match, &error);
	}
	for (uint32_t i = 0; i < h.n_endings; i++)
		h.api->match_end(h.endings[i].match, &error);
	for (uint32_t i = 0; i < n_columns; i++)
		for (status = GJD_PENDING; status == GJD_PENDING && columns[i].handle != NULL;)
		{
			status = h.api->column_destroy(columns[i].handle, &error);
			world_ns += ROUND_NS;
		}
	free(columns);
	columns = NULL;
	n_columns = last_generation = 0;
	free(h.endings);
	free(h.arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	script s = {data, size};

	may_die = false;
	memset(generations, 0, sizeof(generations));
	if (setjmp(helper_ended) == 0)
	{
		make_arena();
		while (s.left > 0)
			step_client(&s);
		end_all();
		look_for_wild_writes();
	}
	else if (!may_die)
	{
		fprintf(stderr, "the helper ended: %d, %s\n", exit_code, h.control->report.failure);
		abort();
	}
	if (setjmp(helper_ended) == 0)
	{
		free_all();
		require(h.api->device_close(h.device, &h.error) == GJD_OK || may_die);
	}
	return 0;
}
