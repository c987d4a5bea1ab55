/*
 * request.c
 *	  Requests of the helper: taking them in, stepping them, publishing their outcome.
 *
 * The contents of a message are copied once and checked before use, as are the sizes that come
 * with parts. A request ends exactly once, by request_end(), and only when the device no longer
 * touches its chunk: from then on the slot may belong to another client.
 */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gjp_message *
message_at(uint32_t slot)
{
	return (gjp_message *) (h.arena + h.layout.messages_at) + slot;
}

gjp_message *
message_of(const request *q)
{
	return message_at(q->slot);
}

/* Returns the address of a stream's part number "part". */
char *
half_of(const request *q, uint32_t part)
{
	return h.arena + h.layout.chunks_at + h.layout.chunk_bytes * q->slot +
		   h.half_bytes * (part % GJP_HALVES);
}

static outcome
fault_begin(request *q)
{
	gjd_fault fault = {.struct_size = sizeof(fault)};

	if (h.api->inject_fault == NULL)
		return request_fail(q, GJD_UNSUPPORTED, "faults are for the reference device only");
	fault.point = (gjd_fault_point) q->asked.point;
	fault.kind = (gjd_fault_kind) q->asked.kind;
	fault.skip = q->asked.skip;
	fault.times = q->asked.times;
	fault.millis = q->asked.millis;
	if (CALL(FAULT, h.api->inject_fault(h.device, &fault, &h.error)) != GJD_OK)
		return request_fail_call(q);
	request_end(q, GJP_DONE);
	return MOVED;
}

static step_fn
first_step(uint32_t op)
{
	switch (op)
	{
		case GJP_CREATE:
			return create_begin;
		case GJP_DROP:
			return drop_begin;
		case GJP_PUSH:
			return push_begin;
		case GJP_MATCH:
			return match_begin;
		case GJP_FAULT:
			return fault_begin;
	}
	return NULL;
}

/*
 * Takes in the request posted in a slot. Does nothing if it is for an earlier helper, if the slot
 * is busy, or if the bell was rung twice for one request.
 */
bool
request_begin(uint32_t slot)
{
	request *q = &h.requests[slot];
	gjp_message *message;
	uint32_t generation;

	if (q->step != NULL)
		return false;
	q->slot = slot;
	message = message_of(q);
	generation = __atomic_load_n(&message->posted, __ATOMIC_ACQUIRE);
	if (generation == q->generation || message->request.epoch != h.epoch)
		return false;
	memset(q, 0, sizeof(*q));
	q->slot = slot;
	q->generation = generation;
	q->asked = message->request;
	gjp_copied();
	q->started = h.now;
	q->step = first_step(q->asked.op);
	h.at_work[slot / 64] |= (uint64_t) 1 << slot % 64;
	gjp_write_word(&message->state, generation, GJP_RUNNING);
	if (q->step == NULL)
		request_fail(q, GJD_INVALID, "unknown operation");
	return true;
}

/* Returns true if the client has left. */
static bool
is_cancelled(const request *q)
{
	return __atomic_load_n(&message_of(q)->cancelled, __ATOMIC_ACQUIRE) == q->generation;
}

/* Executes the next step. The step functions notice q->cancelled and wind the request up. */
outcome
request_step(request *q)
{
	if (!q->cancelled)
		q->cancelled = is_cancelled(q);
	return q->step(q);
}

/* Reads the client's description of a part. */
gjp_part
read_part(const request *q, uint32_t part)
{
	gjp_part copy = message_of(q)->in[part % GJP_HALVES];

	gjp_copied();
	return copy;
}

/* Tells the client the progress of a stream, and has it woken if it sleeps. */
void
publish(const request *q, uint64_t *word, uint32_t value)
{
	gjp_write_word(word, q->generation, value);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&message_of(q)->sleeping, __ATOMIC_RELAXED))
		h.to_wake[q->slot / 64] |= (uint64_t) 1 << q->slot % 64;
}

/* Ends a request: its final state is published, and the slot is free for the next one. */
void
request_end(request *q, gjp_state state)
{
	gjp_message *message = message_of(q);

	give_words(q);
	leave_chain(q);
	q->step = NULL;
	h.at_work[q->slot / 64] &= ~((uint64_t) 1 << q->slot % 64);
	h.info_is_old = true;
	message->result = q->result;
	publish(q, &message->state, state);
	h.ring |= is_cancelled(q);
}

/* Records why a request fails; without a text, the error of the call just made. */
void
set_failure(request *q, int32_t status, const char *text)
{
	q->result.status = status;
	q->result.device_code = text ? 0 : h.error.device_code;
	snprintf(q->result.text, sizeof(q->result.text), "%s", text ? text : h.error.message);
}

/* Fails a request that no longer holds anything of the device. */
outcome
request_fail(request *q, int32_t status, const char *text)
{
	set_failure(q, status, text);
	request_end(q, GJP_FAILED);
	return MOVED;
}

/* The same, with the error of the call that has just failed. */
outcome
request_fail_call(request *q)
{
	return request_fail(q, h.error.status, NULL);
}

/*
 * Returns true if the request has waited too long for scratch memory. Other requests will end and
 * free some, but a backend stopped in the middle of its result may hold its memory forever; and so
 * may the request's own client until it has the answer.
 */
bool
out_of_patience(request *q)
{
	if (q->busy_since == 0)
		q->busy_since = h.now;
	if (q->asked.at_once)
		return true;
	return h.now - q->busy_since >= BUSY_LIMIT_NS;
}

/* Notes that the device has reported the request's match, or works on it no longer. */
void
leave_chain(request *q)
{
	if (q->chain != NULL)
		--*q->chain;
	q->chain = NULL;
}

/* Frees the words that were collected. */
void
give_words(request *q)
{
	free(q->collected);
	h.words_room -= q->room_words;
	q->collected = NULL;
	q->room_words = 0;
}

/* Keeps a match whose request has ended until the library has released it. */
void
end_later(gjd_match *match)
{
	if (CALL(END, h.api->match_end(match, &h.error)) != GJD_PENDING)
		return;
	if (h.n_endings == h.room_endings)
	{
		uint32_t room = h.room_endings ? h.room_endings * 2 : 64;
		ending *grown = realloc(h.endings, room * sizeof(*grown));

		if (grown == NULL)
			die(GJD_NO_HOST_MEMORY, 0, "out of memory");
		h.endings = grown;
		h.room_endings = room;
	}
	h.endings[h.n_endings++] = (ending){match, {0, 0}};
}

/* Ends matches whose requests have ended; returns true if one was released. */
bool
end_matches(void)
{
	uint32_t kept = 0;
	uint32_t n = h.n_endings;

	for (uint32_t i = 0; i < n; i++)
	{
		ending *e = &h.endings[i];

		if (CALL(END, h.api->match_end(e->match, &h.error)) != GJD_PENDING)
		{
			wait_over(&e->device_wait, true);
			continue;
		}
		wait_on(&e->device_wait);
		h.endings[kept++] = *e;
	}
	h.n_endings = kept;
	h.info_is_old |= kept < n;
	return kept < n;
}
