/*-------------------------------------------------------------------------
 *
 * client.c
 *	  The device service's interface for the rest of gpujoin: columns and matches.
 *
 * Each function runs one request (exchange.c): it fills in the request, a feed callback writes
 * the next part of its data, and a take callback reads a part of the answer.  Nothing read from
 * the arena is trusted: lengths are checked before use, and TIDs one by one after they have been
 * copied to private memory.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "portability/instr_time.h"

#include "shared.h"

static uint64 count_matches(const GjExchange *x);
static GjServiceResult match(const GjServiceColumn *column, const GjKeySet *keys, GjExchange *x,
							 gjp_request *request, GjServiceMatchInfo *info);
static void feed_keys(GjExchange *x, char *half, gjp_part *part);
static bool take_tids(GjExchange *x, const char *half, uint32 items);
static void expect(GjExchange *x);
static bool take_entries(GjExchange *x, const char *half, uint32 items);
static void feed_pages(GjExchange *x, char *half, gjp_part *part);
static bool take_name(GjExchange *x, const char *half, uint32 items);

/*
 * Return true if a device is ready to take requests; otherwise set *why_not, if not NULL
 */
bool
GjServiceReady(const char **why_not)
{
	uint32		word;

	if (gj_service == NULL)
	{
		if (why_not)
			*why_not = GjReasonGet(GJ_REASON_NOT_PRELOADED)->text;
		return false;
	}
	word = pg_atomic_read_u32(&gj_service->state);
	if ((word & 0xFF) == GJ_STATE_READY)
		return true;
	if (why_not)
		*why_not = GjReasonGet(word >> 8)->text;
	return false;
}

/*
 * Get the current epoch.  Columns live until the epoch changes.
 */
uint32
GjServiceEpoch(void)
{
	return gj_service ? pg_atomic_read_u32(&gj_service->epoch) : 0;
}

/*
 * Create a column, with memory for at least reserve_pages.
 */
GjServiceResult
GjServiceColumnCreate(const gjd_shape *shape, uint64 reserve_pages, GjServiceColumn *column)
{
	gjp_request request = {.op = GJP_CREATE, .shape = *shape, .reserve_pages = reserve_pages};
	GjExchange	x = {.take = take_name, .fed = true};
	GjServiceResult result = GjExchangeRun(&x, &request);

	if (result == GJ_SERVICE_OK)
	{
		column->epoch = x.epoch;
		column->id = x.result.column_id;
		column->generation = x.result.column_generation;
	}
	return result;
}

/*
 * Free a column; returns GJ_SERVICE_GONE if it does not exist.
 */
GjServiceResult
GjServiceColumnDrop(const GjServiceColumn *column)
{
	gjp_request request = {.op = GJP_DROP, .epoch = column->epoch, .column_id = column->id,
	.column_generation = column->generation};
	GjExchange	x = {.fed = true};

	return GjExchangeRun(&x, &request);
}

/*
 * Send pages to a column.  Once GJ_SERVICE_OK is returned, all later matches see them.
 */
GjServiceResult
GjServicePush(const GjServiceColumn *column, const gjd_shape *shape, GjPushFill fill, void *arg)
{
	gjp_request request = {.op = GJP_PUSH, .epoch = column->epoch, .column_id = column->id,
	.column_generation = column->generation, .shape = *shape};
	GjExchange	x = {.feed = feed_pages, .fill = fill, .fill_arg = arg,
	.image_bytes = gjd_shape_image_bytes(shape)};

	if (gjp_max_pages(gjp_half_bytes(gj_arena.chunk_bytes), x.image_bytes) == 0)
		return GjServiceFail(GJ_SERVICE_FAILED, "gpujoin.result_buffer is too small for a page");
	return GjExchangeRun(&x, &request);
}

/*
 * Search a column for TIDs.
 */
GjServiceResult
GjServiceMatch(const GjServiceColumn *column, const GjKeySet *keys, GjTidSet *tids,
			   GjServiceMatchInfo *info)
{
	gjp_request request = {.shape = {.key_bytes = keys->key_width}, .count_only = (tids == NULL)};
	GjExchange	x = {.take = take_tids, .tids = tids,
	.item_bytes = (tids == NULL) ? 0 : sizeof(gjd_tid)};

	return match(column, keys, &x, &request, info);
}

/*
 * Search a column for entries, or for TIDs if no columns of the entries are wanted.  They come in
 * any order.
 */
GjServiceResult
GjServiceMatchEntries(const GjServiceColumn *column, const gjd_shape *shape,
					  const GjKeySet *keys, GjEntrySet *entries, GjServiceMatchInfo *info)
{
	gjp_request request = {.shape = *shape, .entries = 1, .any_order = 1};
	GjExchange	x = {.take = take_entries, .entries = entries, .shape = shape};
	gjd_entry_layout one;
	GjServiceResult result;

	if (!GjEntrySetHasColumns(entries))
	{
		request.entries = 0;
		x.take = take_tids;
		x.item_bytes = sizeof(gjd_tid);
		return match(column, keys, &x, &request, info);
	}
	x.want.keys = entries->keys.width != 0;
	for (int i = 0; i < entries->nincluded; i++)
	{
		if (entries->included[i].width != 0)
			x.want.columns |= (uint32) 1 << i;
	}
	request.want = x.want;
	request.filter = entries->filter;
	gjd_entry_layout_of(shape, x.want, 1, &one);
	x.item_bytes = one.item_bytes;
	result = match(column, keys, &x, &request, info);
	if (result == GJ_SERVICE_OK)
		entries->ndropped += count_matches(&x) - x.nreceived;
	return result;
}

/*
 * Get the number of entries with a matching key.  If the device filters entries, fewer arrive.
 */
static uint64
count_matches(const GjExchange *x)
{
	return Max(x->result.matched, x->result.count);
}

/* Run a match, and fill in info, if not NULL */
static GjServiceResult
match(const GjServiceColumn *column, const GjKeySet *keys, GjExchange *x, gjp_request *request,
	  GjServiceMatchInfo *info)
{
	instr_time	start;
	instr_time	end;
	GjServiceResult result;

	if (info)
		memset(info, 0, sizeof(*info));
	if (keys->nkeys > GJP_MAX_KEYS)
		return GjServiceFail(GJ_SERVICE_NO_MEMORY, "too many keys for the device");

	request->op = GJP_MATCH;
	request->epoch = column->epoch;
	request->column_id = column->id;
	request->column_generation = column->generation;
	request->keys = keys->nkeys;
	x->feed = feed_keys;
	x->keys = keys;

	INSTR_TIME_SET_CURRENT(start);
	result = GjExchangeRun(x, request);
	INSTR_TIME_SET_CURRENT(end);
	if (info)
	{
		INSTR_TIME_SUBTRACT(end, start);
		if (result == GJ_SERVICE_OK)
			memcpy(info->device, gj_service->report.device, sizeof(info->device));
		info->matches = count_matches(x);
		info->tids = x->nreceived;
		info->bytes_sent = x->nsent * sizeof(int64);
		info->bytes_received = x->nreceived * x->item_bytes;
		info->ascending = x->result.ascending != 0;
		info->total_us = INSTR_TIME_GET_DOUBLE(end) * 1e6;
		info->set_us = x->result.set_ns / 1e3;
		info->kernel_us = x->result.kernel_ns / 1e3;
		info->transfer_us = x->result.transfer_ns / 1e3;
	}
	return result;
}

/*
 * Arm a fault in the reference device.
 */
GjServiceResult
GjServiceInjectFault(int point, int kind, uint32 skip, uint32 times, uint32 millis)
{
	gjp_request request = {.op = GJP_FAULT, .point = point, .kind = kind, .skip = skip,
	.times = times, .millis = millis};
	GjExchange	x = {.fed = true};

	return GjExchangeRun(&x, &request);
}

/* Match: send the next keys */
static void
feed_keys(GjExchange *x, char *half, gjp_part *part)
{
	uint64		left = x->keys->nkeys - x->nsent;
	uint64		n = Min(left, x->half_bytes / sizeof(int64));

	if (n > 0)
		memcpy(half, x->keys->keys + x->nsent, n * sizeof(int64));
	x->nsent += n;
	part->items = (uint32) n;
	part->last = (n == left);
}

/* Match: take TIDs */
static bool
take_tids(GjExchange *x, const char *half, uint32 items)
{
	GjEntryArrays arrays = {.tids = (const uint64 *) half};

	/* Reject empty parts: the helper could send them forever. */
	if (items == 0 || items > x->half_bytes / sizeof(gjd_tid) ||
		(x->tids == NULL && x->entries == NULL))
		return false;
	/* The expected number is not trusted; it only serves as an estimate. */
	if (x->nreceived == 0)
		expect(x);
	x->nreceived += items;
	return x->tids != NULL ? GjTidSetAddPacked(x->tids, arrays.tids, items) :
		GjEntrySetAddArrays(x->entries, &arrays, items);
}

static void
expect(GjExchange *x)
{
	uint64		n = *(const volatile uint64 *) &x->message->expected;

	if (x->tids != NULL)
		GjTidSetExpect(x->tids, n);
	else
		GjEntrySetExpect(x->entries, n);
}

/* Match: take entries, which are laid out for the capacity of the part they come in */
static bool
take_entries(GjExchange *x, const char *half, uint32 items)
{
	uint32		room = *(const volatile uint32 *) &x->message->room[x->consumed % GJP_HALVES];
	gjd_entry_layout layout;
	GjEntryArrays arrays;

	gjd_entry_layout_of(x->shape, x->want, room, &layout);
	if (items == 0 || items > room || layout.bytes > x->half_bytes)
		return false;
	if (x->nreceived == 0)
		expect(x);
	x->nreceived += items;
	arrays.tids = (const uint64 *) half;
	arrays.keys = half + layout.keys_at;
	for (int i = 0; i < x->entries->nincluded; i++)
	{
		arrays.values[i] = half + layout.column_at[i];
		arrays.nulls[i] = (const uint8 *) half + layout.nulls_at[i];
	}
	return GjEntrySetAddArrays(x->entries, &arrays, items);
}

/* Push: have the caller write pages */
static void
feed_pages(GjExchange *x, char *half, gjp_part *part)
{
	uint64		max_pages = gjp_max_pages(x->half_bytes, x->image_bytes);
	int			n;

	n = x->fill(x->fill_arg, (gjd_page_head *) half, half + gjp_images_at(max_pages),
				(int) max_pages);
	if (n < 0 || n > max_pages)
		elog(ERROR, "invalid number of pages: %d", n);
	x->nsent += n;
	part->items = n;
	part->last = (n == 0);
}

/*
 * Create: the column has been named, and our acknowledgement makes it ours.  From here until we
 * return to the caller, interrupts must not be processed, or the column would leak.
 */
static bool
take_name(GjExchange *x, const char *half, uint32 items)
{
	memcpy(&x->result, &x->message->result, sizeof(x->result));
	gjp_copied();
	x->done = true;
	return items == 0;
}
