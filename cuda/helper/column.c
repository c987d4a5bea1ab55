/*
 * column.c
 *	  Requests that create, fill and drop columns.
 *
 * Clients name a column by its index in the table and a generation that is never reused, so a
 * stale name matches nothing. A column that is being dropped is invisible to all other requests
 * at once; its handle is destroyed when no push holds it any more.
 *
 * A column belongs to the client only after the client has acknowledged the name. If the client
 * leaves before that (a canceled query), the column is dropped here, because no one else knows
 * its name.
 */
#include "helper.h"

#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 65536

static column *columns;
static uint32_t n_columns;
static uint32_t last_generation;

/*
 * Finds the column that a request names; NULL if it does not exist. The pointer is valid for this
 * step only.
 */
column *
column_find(const request *q)
{
	column *c;

	if (q->asked.column_id >= n_columns)
		return NULL;
	c = &columns[q->asked.column_id];
	if (c->handle == NULL || c->dropping || c->generation != q->asked.column_generation)
		return NULL;
	return c;
}

/* ---- create, drop ---------------------------------------------------------------------------- */

/* Finds a free place in the table; -1 if the table is full. */
static int64_t
find_place(void)
{
	uint32_t room = n_columns ? n_columns * 2 : 64;
	column *grown;

	for (uint32_t i = 0; i < n_columns; i++)
		if (columns[i].handle == NULL)
			return i;
	if (n_columns >= MAX_COLUMNS)
		return -1;
	grown = realloc(columns, room * sizeof(*columns));
	if (grown == NULL)
		return -1;
	memset(grown + n_columns, 0, (room - n_columns) * sizeof(*columns));
	columns = grown;
	n_columns = room;
	return room / 2 == 32 ? 0 : room / 2;
}

static outcome
drop_step(request *q)
{
	column *c = &columns[q->column];

	if (c->pushes > 0)
		return WANTS_OTHERS;
	if (CALL(DESTROY, h.api->column_destroy(c->handle, &h.error)) == GJD_PENDING)
		return WANTS_DEVICE;
	c->handle = NULL;
	c->dropping = false;
	request_end(q, q->result.status == GJD_OK ? GJP_DONE : GJP_FAILED);
	return MOVED;
}

outcome
drop_begin(request *q)
{
	column *c = column_find(q);

	if (c == NULL)
		return request_fail(q, GJP_GONE, "the device does not hold this column");
	c->dropping = true;
	q->column = q->asked.column_id;
	q->step = drop_step;
	return MOVED;
}

/* The client knows the name only when it has consumed the part that contains it. */
static outcome
await_owner(request *q)
{
	if (gjp_read_word(&message_of(q)->consumed, q->generation) == 1)
	{
		request_end(q, GJP_DONE);
		return MOVED;
	}
	if (!q->cancelled)
		return WANTS_OTHERS;
	q->result.status = GJP_CANCELLED;
	columns[q->column].dropping = true;
	q->step = drop_step;
	return MOVED;
}

outcome
create_begin(request *q)
{
	gjd_column_params params = {.struct_size = sizeof(params)};
	gjd_column *handle = NULL;
	gjd_status status;
	int64_t place = find_place();
	column *c;

	if (place < 0)
		return request_fail(q, GJD_NO_HOST_MEMORY, "too many columns");
	params.key_bytes = q->asked.shape.key_bytes;
	params.slots = q->asked.shape.slots;
	params.n_carried = q->asked.shape.n_carried;
	params.nullable = q->asked.shape.nullable;
	memcpy(params.carried_bytes, q->asked.shape.carried_bytes, sizeof(params.carried_bytes));
	params.reserve_pages = q->asked.reserve_pages;
	status = CALL(CREATE, h.api->column_create(h.device, &params, &handle, &h.error));
	if (status == GJD_BUSY)
		return out_of_patience(q) ? request_fail(q, GJD_NO_MEMORY, NULL) : WANTS_OTHERS;
	if (status != GJD_OK)
		return request_fail(q, status, NULL);

	c = &columns[place];
	*c = (column){.handle = handle, .shape = q->asked.shape};
	if (++last_generation == 0)
		last_generation = 1;
	c->generation = last_generation;
	q->column = (uint32_t) place;
	q->result.column_id = q->column;
	q->result.column_generation = c->generation;
	message_of(q)->result = q->result;
	message_of(q)->out[0] = 0;
	q->step = await_owner;
	publish(q, &message_of(q)->filled, 1);
	return MOVED;
}

/* ---- push ------------------------------------------------------------------------------------ */

/* Releases parts whose images the device has taken, in order of arrival. */
static bool
release_parts(request *q, gjd_column *handle)
{
	bool any = false;

	while (q->taken < q->accepted)
	{
		uint64_t ticket = q->tickets[q->taken % GJP_HALVES];

		if (ticket != 0 &&
			CALL(POLL, h.api->column_write_poll(handle, ticket, &h.error)) == GJD_PENDING)
			break;
		q->taken++;
		any = true;
	}
	if (any)
		publish(q, &message_of(q)->taken, q->taken);
	return any;
}

/*
 * Winds up a push: the device reads the images of accepted parts, and of the current part, until
 * their tickets are done.
 */
static outcome
push_wind_up(request *q)
{
	column *c = &columns[q->column];

	if (q->position > 0)
	{
		q->position = 0;
		q->accepted++;
	}
	release_parts(q, c->handle);
	if (q->taken < q->accepted)
		return WANTS_DEVICE;
	c->pushes--;
	request_end(q, q->result.status == GJD_OK ? GJP_DONE : GJP_FAILED);
	return MOVED;
}

static outcome
push_fail(request *q, int32_t status, const char *text)
{
	set_failure(q, status, text);
	q->step = push_wind_up;
	return MOVED;
}

/* Offers the rest of the current part. */
static outcome
accept_pages(request *q, gjd_column *handle, gjp_part part)
{
	uint64_t image_bytes = gjd_shape_image_bytes(&q->asked.shape);
	uint64_t max_pages = gjp_max_pages(h.half_bytes, image_bytes);
	char *half = half_of(q, q->accepted);
	gjd_status status = GJD_OK;
	uint64_t accepted = 0;
	uint64_t ticket = 0;

	if (part.items > max_pages || q->position > part.items)
		return push_fail(q, GJD_INVALID, "part of pages is too long");
	if (part.items > q->position)
		status = CALL(WRITE, h.api->column_write_pages(
								 handle, (gjd_page_head *) half + q->position,
								 half + gjp_images_at(max_pages) + image_bytes * q->position,
								 part.items - q->position, &accepted, &ticket, &h.error));
	if (q->position == 0)
		q->tickets[q->accepted % GJP_HALVES] = 0;
	if (accepted > 0)
		q->tickets[q->accepted % GJP_HALVES] = ticket;
	q->position += (uint32_t) accepted;
	q->result.count += accepted;
	if (status != GJD_OK && status != GJD_PENDING)
		return push_fail(q, status, NULL);
	if (q->position < part.items)
		return accepted > 0 ? MOVED : WANTS_DEVICE;
	q->position = 0;
	q->accepted++;
	q->last = part.last;
	return MOVED;
}

static outcome
push_step(request *q)
{
	gjp_message *message = message_of(q);
	column *c = column_find(q);
	uint32_t produced = gjp_read_word(&message->produced, q->generation);
	bool moved;

	if (q->cancelled)
		return push_fail(q, GJP_CANCELLED, "cancelled");
	if (c == NULL)
		return push_fail(q, GJP_GONE, "the column was dropped");
	moved = release_parts(q, c->handle);
	if (q->last)
	{
		if (q->taken < q->accepted)
			return moved ? MOVED : WANTS_DEVICE;
		q->step = push_wind_up;
		return MOVED;
	}
	/* Both halves may be accepted but not released yet; then the next part cannot have arrived. */
	if (q->accepted < produced && q->accepted - q->taken < GJP_HALVES)
	{
		outcome o = accept_pages(q, c->handle, read_part(q, q->accepted));

		return moved ? MOVED : o;
	}
	if (moved)
		return MOVED;
	return q->taken < q->accepted ? WANTS_DEVICE : WANTS_OTHERS;
}

outcome
push_begin(request *q)
{
	column *c = column_find(q);

	if (c == NULL)
		return request_fail(q, GJP_GONE, "the device does not hold this column");
	if (memcmp(&c->shape, &q->asked.shape, sizeof(gjd_shape)) != 0)
		return request_fail(q, GJD_INVALID, "pages of another shape than the column's");
	c->pushes++;
	q->column = q->asked.column_id;
	q->step = push_step;
	return MOVED;
}
