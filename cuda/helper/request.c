/*
 * request.c
 *	  Requests of the helper: taking them in, stepping them, publishing how they end.
 *
 * What a message says is copied once and checked before use; sizes that come with parts likewise.
 * A request ends exactly once, by request_end(), and only when the device touches nothing of its
 * chunk any more: from then on the slot may belong to somebody else.
 */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gjp_message *
message_of(const request *q)
{
	return (gjp_message *) (h.arena + h.layout.messages_at) + q->slot;
}

/* Where part number "part" of a stream lies. */
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
 * Takes in what was posted in a slot. Nothing happens if it is for an earlier helper, if the slot
 * is at work, or if the bell was rung twice for one request.
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

/* Does the next thing. The step functions notice q->cancelled and wind the request up. */
outcome
request_step(request *q)
{
	if (!q->cancelled)
		q->cancelled =
			__atomic_load_n(&message_of(q)->cancelled, __ATOMIC_ACQUIRE) == q->generation;
	return q->step(q);
}

/* Has the client woken, should it sleep. What it is to see was stored before. */
static void
wake_client(const request *q)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&message_of(q)->sleeping, __ATOMIC_RELAXED))
		return;
	__atomic_or_fetch(&h.control->wake[q->slot / 64], (uint64_t) 1 << q->slot % 64,
					  __ATOMIC_RELEASE);
	h.ring = true;
}

/* What the client says of a part. */
gjp_part
read_part(const request *q, uint32_t part)
{
	gjp_part copy = message_of(q)->in[part % GJP_HALVES];

	gjp_copied();
	return copy;
}

/* Tells the client how far a stream is. */
void
publish(const request *q, uint64_t *word, uint32_t value)
{
	gjp_write_word(word, q->generation, value);
	wake_client(q);
}

/* Ends a request: the last word to its client, and the slot is free for the next one. */
void
request_end(request *q, gjp_state state)
{
	gjp_message *message = message_of(q);

	give_keys(q);
	q->step = NULL;
	h.at_work[q->slot / 64] &= ~((uint64_t) 1 << q->slot % 64);
	h.info_is_old = true;
	message->result = q->result;
	publish(q, &message->state, state);
}

/* Notes why a request fails; without a text, because of the call just made. */
void
set_failure(request *q, int32_t status, const char *text)
{
	q->result.status = status;
	q->result.device_code = text ? 0 : h.error.device_code;
	snprintf(q->result.text, sizeof(q->result.text), "%s", text ? text : h.error.message);
}

/* Ends a request that holds nothing of the device, or no longer, with a failure. */
outcome
request_fail(request *q, int32_t status, const char *text)
{
	set_failure(q, status, text);
	request_end(q, GJP_FAILED);
	return MOVED;
}

/* The same for the call that has just failed. */
outcome
request_fail_call(request *q)
{
	return request_fail(q, h.error.status, NULL);
}

/*
 * No scratch memory at present: others will end. But not for ever, since who holds it may be a
 * backend that was stopped in the middle of its result.
 */
bool
out_of_patience(request *q)
{
	if (q->busy_since == 0)
		q->busy_since = h.now;
	return h.now - q->busy_since >= BUSY_LIMIT_NS;
}

/* Lets go of the keys that were collected. */
void
give_keys(request *q)
{
	free(q->keys);
	h.keys_room -= q->room_keys;
	q->keys = NULL;
	q->room_keys = 0;
}

/* Keeps a match whose request is done until the library has let go of it. */
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

/* Ends matches whose requests are done; true if one is gone. */
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
