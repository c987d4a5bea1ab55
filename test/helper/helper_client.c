/*
 * helper_client.c
 *	  The other side of the helper: see the header.
 */
#define _GNU_SOURCE

#include "helper_client.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

gjp_control *control;
uint32_t generations[SLOTS];
uint64_t half_bytes;

static char *arena;
static uint64_t messages_at, chunks_at;
static pid_t helper;
static int event_fd; /* on which the helper rings the supervisor */

void
pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

void
signal_helper(int signal)
{
	if (helper > 1)
		kill(helper, signal);
}

bool
helper_lives(void)
{
	int status;

	if (helper == 0 || waitpid(helper, &status, WNOHANG) == 0)
		return helper != 0;
	printf("# the helper ended: %s %d; %s\n", WIFSIGNALED(status) ? "signal" : "exit",
		   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), control->report.failure);
	helper = 0;
	return false;
}

/* Returns a number from a file of the helper in /proc, the one after a name, or -1. */
static long
proc_number(const char *name, const char *format)
{
	char path[64], line[256];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int) helper, name);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		sscanf(line, format, &number);
	if (file != NULL)
		fclose(file);
	return number;
}

long
helper_memory(void)
{
	return proc_number("status", "VmSize: %ld kB");
}

bool
helper_has_left(void)
{
	char path[64], folder[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/cwd", (int) helper);
	length = readlink(path, folder, sizeof(folder));
	return length == 1 && folder[0] == '/' && proc_number("status", "NoNewPrivs: %ld") == 1 &&
		   proc_number("oom_score_adj", "%ld") >= 500;
}

bool
supervisor_is_rung(void)
{
	uint64_t rings;

	return read(event_fd, &rings, sizeof(rings)) == sizeof(rings);
}

/* ---- the other side's part ------------------------------------------------------------------- */

gjp_message *
message_of(uint32_t slot)
{
	return (gjp_message *) (arena + messages_at) + slot;
}

char *
half_of(uint32_t slot, uint32_t part)
{
	return arena + chunks_at + CHUNK_BYTES * slot + half_bytes * (part % GJP_HALVES);
}

void
ring(void)
{
	__atomic_add_fetch(&control->doorbell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &control->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void
start_helper(char *program, char *library)
{
	gjp_layout layout = {.magic = GJP_MAGIC, .version = GJP_VERSION, .slots = SLOTS,
						 .message_bytes = sizeof(gjp_message)};
	char parent[32], epoch[32];
	char *argv[] = {program, library, "", "268435456", epoch, parent, NULL};
	int arena_fd = memfd_create("helper_test", 0);

	event_fd = eventfd(0, EFD_NONBLOCK);
	messages_at = (sizeof(gjp_control) + GJP_PAGE_BYTES - 1) / GJP_PAGE_BYTES * GJP_PAGE_BYTES;
	chunks_at = messages_at + (SLOTS * sizeof(gjp_message) + GJP_PAGE_BYTES - 1) /
								  GJP_PAGE_BYTES * GJP_PAGE_BYTES;
	layout.messages_at = messages_at;
	layout.chunks_at = chunks_at;
	layout.chunk_bytes = CHUNK_BYTES;
	layout.total_bytes = chunks_at + CHUNK_BYTES * SLOTS;
	half_bytes = gjp_half_bytes(CHUNK_BYTES);
	if (arena_fd < 0 || event_fd < 0 || ftruncate(arena_fd, (off_t) layout.total_bytes) != 0)
		exit(1);
	arena = mmap(NULL, layout.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
	if (arena == MAP_FAILED)
		exit(1);
	control = (gjp_control *) arena;
	control->layout = layout;
	control->epoch = EPOCH;
	control->timeout_ms = 60000;
	snprintf(parent, sizeof(parent), "%d", (int) getpid());
	snprintf(epoch, sizeof(epoch), "%d", EPOCH);
	fflush(stdout);
	helper = fork();
	if (helper == 0)
	{
		int high_arena = dup2(arena_fd, 100);
		int high_event = dup2(event_fd, 101);

		if (dup2(high_arena, GJP_ARENA_FD) < 0 || dup2(high_event, GJP_EVENT_FD) < 0)
			_exit(GJP_EXIT_EXEC);
		execv(program, argv);
		_exit(GJP_EXIT_EXEC);
	}
	for (int i = 0; i < WAIT_MS && helper_lives(); i++, pause_ms(1))
		if (__atomic_load_n(&control->phase, __ATOMIC_ACQUIRE) == GJP_READY)
			return;
}

/* Posts a request in a free slot. Parts may be present already. */
void
post(uint32_t slot, const gjp_request *request)
{
	gjp_message *message = message_of(slot);

	message->request = *request;
	message->sleeping = 0;
	gjp_write_word(&message->consumed, generations[slot], 0);
	__atomic_store_n(&message->posted, generations[slot], __ATOMIC_RELEASE);
	__atomic_or_fetch(&control->posted[0], (uint64_t) 1 << slot, __ATOMIC_SEQ_CST);
	ring();
}

void
send_part(uint32_t slot, uint32_t number, uint32_t items, uint32_t last)
{
	message_of(slot)->in[number % GJP_HALVES] = (gjp_part){items, last};
	gjp_write_word(&message_of(slot)->produced, generations[slot], number + 1);
}

uint32_t
state_of(uint32_t slot)
{
	return gjp_read_word(&message_of(slot)->state, generations[slot]);
}

/* Waits for a request to end, handing halves back meanwhile; GJP_IDLE if it does not end. */
uint32_t
finish(uint32_t slot)
{
	for (int i = 0; i < WAIT_MS && helper_lives(); i++)
	{
		uint32_t filled = gjp_read_word(&message_of(slot)->filled, generations[slot]);

		if (state_of(slot) == GJP_DONE || state_of(slot) == GJP_FAILED)
			return state_of(slot);
		gjp_write_word(&message_of(slot)->consumed, generations[slot], filled);
		ring();
		if (i > 100)
			pause_ms(1);
	}
	return GJP_IDLE;
}

void
cancel(uint32_t slot)
{
	__atomic_store_n(&message_of(slot)->cancelled, generations[slot], __ATOMIC_SEQ_CST);
	ring();
}

/*
 * Runs a request without parts to its end; returns the status of the result, or -1 without an
 * answer.
 */
int
ask(uint32_t slot, gjp_request request)
{
	uint32_t state;

	generations[slot]++;
	request.epoch = EPOCH;
	post(slot, &request);
	state = finish(slot);
	if (state == GJP_IDLE)
		return -1;
	return state == GJP_DONE ? GJD_OK : message_of(slot)->result.status;
}

/* Runs a match with one part of keys, with a count that may be wrong. */
int
ask_keys(uint32_t slot, name column, uint64_t says, const int64_t *keys, uint32_t items,
		 uint32_t last)
{
	gjp_request request = {.op = GJP_MATCH, .column_id = column.id, .shape = {.key_bytes = 4},
						   .column_generation = column.generation, .keys = says};

	generations[slot]++;
	if (keys != NULL)
		memcpy(half_of(slot, 0), keys, items * sizeof(*keys));
	send_part(slot, 0, items, last);
	generations[slot]--;
	return ask(slot, request);
}

/* Runs a request whose words come as one part. */
int
ask_words(uint32_t slot, gjp_request request, const int64_t *words, uint32_t n)
{
	generations[slot]++;
	memcpy(half_of(slot, 0), words, n * sizeof(*words));
	send_part(slot, 0, n, 1);
	generations[slot]--;
	return ask(slot, request);
}

/* Runs a match for entries with three keys. */
int
ask_entries(uint32_t slot, name column, gjd_shape shape, gjd_want want)
{
	gjp_request request = {.op = GJP_MATCH, .column_id = column.id, .shape = shape,
						   .column_generation = column.generation, .keys = 3, .entries = 1,
						   .want = want};

	generations[slot]++;
	for (int64_t i = 0; i < 3; i++)
		((int64_t *) half_of(slot, 0))[i] = i;
	send_part(slot, 0, 3, 1);
	generations[slot]--;
	return ask(slot, request);
}

int
ask_pages(uint32_t slot, name column, uint32_t items, uint32_t last, uint64_t first)
{
	gjp_request request = {.op = GJP_PUSH, .column_id = column.id,
						   .shape = {.key_bytes = 4, .slots = ROWS},
						   .column_generation = column.generation};
	uint64_t image_bytes = gjd_image_bytes(ROWS, 4);
	uint64_t most = gjp_max_pages(half_bytes, image_bytes);
	gjd_page_head *heads = (gjd_page_head *) half_of(slot, 0);

	generations[slot]++;
	for (uint32_t i = 0; i < items && i < most; i++)
	{
		char *image = half_of(slot, 0) + gjp_images_at(most) + image_bytes * i;

		heads[i] = (gjd_page_head){first + i, 1};
		for (uint32_t s = 0; s < ROWS; s++)
		{
			((int32_t *) image)[s] = (int32_t) (i * ROWS + s);
			((uint32_t *) (image + gjd_image_blocks_at(ROWS, 4)))[s] = i;
			((uint16_t *) (image + gjd_image_offsets_at(ROWS, 4)))[s] = (uint16_t) (s + 1);
		}
		memset(image + gjd_image_valid_at(ROWS, 4), 0xFF, ROWS / 8);
	}
	send_part(slot, 0, items, last);
	generations[slot]--;
	return ask(slot, request);
}
