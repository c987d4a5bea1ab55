/*-------------------------------------------------------------------------
 *
 * client.c
 *	  The device service's interface for the rest of gpujoin: columns and matches.
 *
 * Each function runs one request: it fills in the request, a feed callback writes
 * the next part of its data, and a take callback reads a part of the answer.  Nothing read from
 * the arena is trusted: lengths are checked before use, and TIDs and groups one by one after they
 * have been copied to private memory.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "utils/wait_event.h"

#include "base/compat.h"
#include "base/region.h"
#include "base/settings.h"
#include "shared.h"

/*
 * How long a client spins, in microseconds.  For the first part of an answer: GJ_SPIN_MIN_US, or
 * twice the average time that the helper has recently needed until that point for this process'
 * matches, if that is short enough to be worthwhile.  (The time this process waited would be the
 * wrong measure: once it sleeps, waking up accounts for most of it.)  For later parts: the time
 * of several parts, since the next one is already being sent.  GJ_SPIN_ROUNDS is the number of
 * rounds between two looks at the clock.
 */
#define GJ_SPIN_MIN_US			30.0
#define GJ_SPIN_MAX_US			250.0
#define GJ_SPIN_PART_US			100.0
#define GJ_SPIN_ROUNDS			64

/* Maximum number of clients that spin at a time */
#define GJ_MAX_SPINNING			4

/*
 * If a client that spins yields its processor and gets it back only after more than this, in
 * microseconds, other processes need it: the client spins again after GJ_SLEEPS sleeps.
 */
#define GJ_YIELD_US				20.0
#define GJ_SLEEPS				100

/* Weight of the latest match in the moving average */
#define GJ_MATCH_WEIGHT			0.25

/*
 * Longest sleep, in milliseconds.  A signal ends a sleep, but one that comes after the last check
 * for interrupts and before the sleep is noticed only when this has passed.
 */
#define GJ_NAP_MS				100

/*
 * A helper whose heartbeat stands still for this part of gpujoin.device_timeout is too slow for a
 * query: the CPU is used long before the supervisor ends the helper.
 */
#define GJ_STILL_DIVISOR		10

/* A request in progress */
typedef struct Exchange
{
	GjService  *service;		/* that is asked */
	int			slot;
	uint32		generation;
	uint32		epoch;
	gjp_message *message;
	char	   *chunk;
	Size		half_bytes;
	uint64		heartbeat;		/* of the helper, as last seen, ... */
	double		still_ms;		/* ... and how long we have slept since it moved */
	uint32		produced;
	uint32		consumed;
	bool		fed;			/* has the last part been sent? */

	/* Callbacks of the request: write the next part to send, and take a part that came */
	void		(*feed) (struct Exchange *x, char *half, gjp_part *part);
	bool		(*take) (struct Exchange *x, const char *half, uint32 items);
	const GjKeySet *keys;		/* match */
	const GjProofs *proofs;		/* match: the keys with their rests, or NULL */
	const gjp_request *request; /* match */
	gjp_section section;		/* match: the words not yet sent start here ... */
	uint64		nsent_of_section;	/* ... */
	uint64		nsent;			/* words or pages */
	GjReduction *reduction;		/* match: destination of groups, or NULL */
	void		(*meanwhile) (void *arg);	/* to be called once everything has been sent */
	GjTidSet   *tids;			/* match: destination of TIDs, or ... */
	GjEntrySet *entries;		/* ... of entries; if both are NULL, they are only counted */
	const gjd_shape *shape;		/* of the column */
	gjd_want	want;			/* which columns of the entries */
	Size		item_bytes;		/* size of a TID or an entry in transfer */
	uint64		nreceived;
	instr_time	away;			/* time of the caller's own work in between */
	GjPushFill	fill;			/* push */
	void	   *fill_arg;
	int			max_pages;
	Size		image_bytes;

	gjp_result	result;			/* private copy, once final */
	bool		done;			/* was the state GJP_DONE, or is nothing more to come? */
	bool		broken;			/* did the helper violate the protocol? */
	bool		too_large;		/* ... or is the answer too large for this process? */
} Exchange;

/*
 * The slots of this process, the one acquired last at the end: there are several if a request is
 * made while others wait for their answers.  Then it ends before they do.
 */
typedef struct OwnSlot
{
	GjService  *service;
	int			slot;
	uint32		epoch;
	bool		posted;
} OwnSlot;

static OwnSlot own_slots[GJ_MOST_AT_ONCE];
static int	nown_slots = 0;
static bool exit_callback_registered = false;
static double usual_match_us = GJ_SPIN_MIN_US;
static char last_error[320];

static uint64 count_matches(const Exchange *x);
static void note_limit(const Exchange *x, uint64 limit, uint64 nbefore);
static void want_columns(Exchange *x, gjp_request *request);
static uint64 bytes_received(const Exchange *x);
static GjServiceResult run_match(const GjServiceColumn *column, const GjKeySet *keys, Exchange *x,
								 gjp_request *request, GjServiceMatchInfo *info);
static void name_device(const GjService *service, char *name, Size size);
static void feed_words(Exchange *x, char *half, gjp_part *part);
static const char *find_section(const Exchange *x, Size *nbytes);
static bool take_tids(Exchange *x, const char *half, uint32 items);
static void expect(Exchange *x);
static bool take_entries(Exchange *x, const char *half, uint32 items);
static bool take_entries_at(Exchange *x, const char *half, uint64 at, uint32 items);
static bool take_reduced(Exchange *x, const char *half, uint32 items);
static bool take_elements(Exchange *x, const char *elements, uint32 n);
static bool take_state(Exchange *x);
static bool check_newer(GjReduction *reduction);
static void feed_pages(Exchange *x, char *half, gjp_part *part);
static bool take_name(Exchange *x, const char *half, uint32 items);
static bool begin_exchange(Exchange *x, const gjp_request *request, GjServiceResult *result);
static void post(Exchange *x, const gjp_request *request);
static GjServiceResult converse(Exchange *x);
static bool send_part(Exchange *x);
static bool receive_part(Exchange *x);
static bool has_news(const Exchange *x);
static bool may_spin(uint32 nspinning);
static double us_since(instr_time start);
static bool spin(const Exchange *x, instr_time start);
static void wait_for_news(Exchange *x);
static void nap(Exchange *x);
static uint64 get_heartbeat(const GjService *service);
static void watch_heartbeat(Exchange *x, double ms);
static GjServiceResult conclude(Exchange *x);
static void leave_last_slot(void);
static void leave_at_exit(int code, Datum arg);
static GjServiceResult run_exchange(Exchange *x, int device, const gjp_request *request);
static GjServiceResult fail(GjServiceResult result, const char *text);

/*
 * Return true if a device is ready to take requests; otherwise set *why_not, if not NULL, to the
 * first one's reason
 */
bool
GjServiceReady(const char **why_not)
{
	for (int i = 1; i < gj_nservices; i++)
	{
		if (GjServiceDeviceReady(i, NULL))
			return true;
	}
	return GjServiceDeviceReady(0, why_not);
}

/*
 * Return true if this device is ready to take requests; otherwise set *why_not, if not NULL
 */
bool
GjServiceDeviceReady(int device, const char **why_not)
{
	const GjService *service = &gj_services[device];
	uint32		word;

	if (gj_nservices == 0)
	{
		if (why_not)
			*why_not = GjReasonGet(GJ_REASON_NOT_PRELOADED)->text;
		return false;
	}
	word = pg_atomic_read_u32(&service->shared->state);
	if ((word & 0xFF) == GJ_STATE_READY)
	{
		if (pg_atomic_read_u64(&service->shared->still) != get_heartbeat(service))
			return true;
		word = GJ_REASON_FROZEN << 8;
	}
	if (why_not)
		*why_not = GjReasonGet(word >> 8)->text;
	return false;
}

/*
 * Get the current epoch of a device.  Columns live until the epoch changes.
 */
uint32
GjServiceEpoch(int device)
{
	return device < gj_nservices ? pg_atomic_read_u32(&gj_services[device].shared->epoch) : 0;
}

/*
 * Return true if this process may make a request while others that it has made wait for their
 * answers: these need slots that other processes may need, too.
 */
bool
GjServiceMayAskMore(void)
{
	uint32		used = 0;
	uint32		all = 0;

	for (int i = 0; i < gj_nservices; i++)
	{
		used += pg_atomic_read_u32(&gj_services[i].shared->nused);
		all += gj_services[i].shared->nslots;
	}
	return nown_slots < GJ_MOST_AT_ONCE && used < all / 2;
}

/*
 * Return the number of requests that a device is asked for at this moment
 */
uint32
GjServiceWaiting(int device)
{
	return pg_atomic_read_u32(&gj_services[device].shared->nused);
}

/*
 * Return what the libraries of all devices that are ready can do beyond plain matches: GJD_CAN_...
 */
uint64
GjServiceCapabilities(void)
{
	uint64		all = 0;
	bool		some = false;

	for (int i = 0; i < gj_nservices; i++)
	{
		uint64		can = gj_services[i].shared->report.capabilities;

		if (!GjServiceDeviceReady(i, NULL))
			continue;
		all = some ? all & can : can;
		some = true;
	}
	return all;
}

/*
 * Create a column, with memory for at least reserve_pages.
 */
GjServiceResult
GjServiceColumnCreate(int device, const gjd_shape *shape, uint64 reserve_pages,
					  GjServiceColumn *column)
{
	gjp_request request = {.op = GJP_CREATE, .shape = *shape, .reserve_pages = reserve_pages};
	Exchange	x = {.take = take_name, .fed = true};
	GjServiceResult result = run_exchange(&x, device, &request);

	if (result == GJ_SERVICE_OK)
	{
		column->device = device;
		column->epoch = x.epoch;
		column->id = x.result.column_id;
		column->generation = x.result.column_generation;
		column->slots = shape->slots;
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
	Exchange	x = {.fed = true};

	return run_exchange(&x, column->device, &request);
}

/*
 * Send pages to a column.  Once GJ_SERVICE_OK is returned, all later matches see them.
 */
GjServiceResult
GjServicePush(const GjServiceColumn *column, const gjd_shape *shape, GjPushFill fill, void *arg)
{
	gjp_request request = {.op = GJP_PUSH, .epoch = column->epoch, .column_id = column->id,
	.column_generation = column->generation, .shape = *shape};
	Exchange	x = {.feed = feed_pages, .fill = fill, .fill_arg = arg,
	.image_bytes = gjd_shape_image_bytes(shape)};

	if (gjp_max_pages(gjp_half_bytes(gj_services[column->device].arena.chunk_bytes),
					  x.image_bytes) == 0)
		return fail(GJ_SERVICE_FAILED, "gpujoin.result_buffer is too small for a page");
	return run_exchange(&x, column->device, &request);
}

/*
 * Search a column for TIDs.
 */
GjServiceResult
GjServiceMatch(const GjServiceColumn *column, const GjKeySet *keys, GjTidSet *tids,
			   GjServiceMatchInfo *info)
{
	gjp_request request = {.shape = {.key_bytes = keys->key_width}, .count_only = (tids == NULL)};
	Exchange	x = {.take = take_tids, .tids = tids,
	.item_bytes = (tids == NULL) ? 0 : sizeof(gjd_tid)};

	return run_match(column, keys, &x, &request, info);
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
	Exchange	x = {.take = take_entries, .entries = entries, .shape = shape,
	.proofs = entries->proofs};
	uint64		nbefore = entries->nentries;
	GjServiceResult result;

	if (!GjEntrySetHasColumns(entries))
	{
		request.entries = 0;
		x.take = take_tids;
		x.item_bytes = sizeof(gjd_tid);
		return run_match(column, keys, &x, &request, info);
	}
	if ((GjServiceCapabilities() & GJD_CAN_TOP) != 0)
		request.top = entries->top;
	want_columns(&x, &request);
	result = run_match(column, keys, &x, &request, info);
	if (result == GJ_SERVICE_OK && request.top.limit > 0)
		note_limit(&x, request.top.limit, nbefore);
	else if (result == GJ_SERVICE_OK)
		entries->ndropped += count_matches(&x) - x.nreceived;
	return result;
}

/*
 * Note which entries are complete.  The device sends at least the first ones, up to the limit,
 * unless there are fewer.  Some of those that arrived have not been added to the set.
 */
static void
note_limit(const Exchange *x, uint64 limit, uint64 nbefore)
{
	GjEntrySet *entries = x->entries;

	entries->nbehind += count_matches(x) - x->nreceived;
	if (x->nreceived < limit || count_matches(x) == x->nreceived)
		return;
	entries->limited = true;
	entries->ncomplete = limit;
	GjEntrySetLost(entries, x->nreceived - Min(entries->nentries - nbefore, x->nreceived));
}

/* Request the columns of a set of entries, and its filter */
static void
want_columns(Exchange *x, gjp_request *request)
{
	const GjEntrySet *entries = x->entries;
	gjd_entry_layout one;

	x->want.keys = entries->keys.width != 0;
	for (int i = 0; i < entries->nincluded; i++)
	{
		if (entries->included[i].width != 0)
			x->want.columns |= (uint32) 1 << i;
	}
	request->want = x->want;
	request->filter = entries->filter;
	gjd_entry_layout_of(x->shape, x->want, 1, &one);
	x->item_bytes = one.item_bytes;
}

/*
 * Have a device reduce entries.
 */
GjServiceResult
GjServiceReduce(const GjServiceColumn *column, const gjd_shape *shape, const GjKeySet *keys,
				GjReduction *reduction, GjEntrySet *rest, GjServiceMatchInfo *info)
{
	gjp_request request = {.shape = *shape, .entries = 1, .any_order = 1, .reduce = 1,
	.groups_if_needed = reduction->groups_if_needed, .reduction = reduction->asked,
	.has_weights = reduction->asked.weights != NULL};
	Exchange	x = {.take = take_reduced, .entries = rest, .shape = shape,
	.reduction = reduction, .proofs = reduction->proofs, .meanwhile = reduction->meanwhile};
	GjServiceResult result;

	Assert(gjd_reduction_is_valid(&reduction->asked, shape));
	request.reduction.left_out = NULL;
	request.reduction.map = NULL;
	request.reduction.weights = NULL;
	request.reduction.first_groups = NULL;
	reduction->element_words = gjd_element_words(&reduction->asked, shape);
	reduction->keys = keys;
	reduction->nkeys = GjCountListed(keys, reduction->proofs);
	reduction->nelements = 0;
	reduction->only_counted = false;
	want_columns(&x, &request);
	result = run_match(column, keys, &x, &request, info);
	if (result == GJ_SERVICE_OK)
		rest->ndropped += count_matches(&x) - x.nreceived - reduction->rows;
	return result;
}

/*
 * Get the number of entries with a matching key.  If the device filters entries, fewer arrive.
 */
static uint64
count_matches(const Exchange *x)
{
	return Max(x->result.matched, x->result.count);
}

static uint64
bytes_received(const Exchange *x)
{
	uint64		bytes = x->nreceived * x->item_bytes;

	if (x->reduction != NULL)
		bytes += x->reduction->nelements * x->reduction->element_words * sizeof(uint64);
	return bytes;
}

/* Run a match, and fill in info, if not NULL */
static GjServiceResult
run_match(const GjServiceColumn *column, const GjKeySet *keys, Exchange *x, gjp_request *request,
		  GjServiceMatchInfo *info)
{
	instr_time	start;
	instr_time	end;
	GjServiceResult result;

	if (info)
		memset(info, 0, sizeof(*info));
	request->keys = GjCountListed(keys, x->proofs);
	request->rest_column = x->proofs != NULL ? x->proofs->column : 0;
	if (gjp_words_before(request, GJP_SECTIONS) > GJP_MAX_WORDS)
		return fail(GJ_SERVICE_NO_MEMORY, "too many keys for the device");

	request->op = GJP_MATCH;
	request->epoch = column->epoch;
	request->column_id = column->id;
	request->column_generation = column->generation;
	x->feed = feed_words;
	x->keys = keys;
	x->request = request;

	INSTR_TIME_SET_CURRENT(start);
	result = run_exchange(x, column->device, request);
	INSTR_TIME_SET_CURRENT(end);
	if (info)
	{
		INSTR_TIME_SUBTRACT(end, start);
		INSTR_TIME_SUBTRACT(end, x->away);
		info->away = x->away;
		if (result == GJ_SERVICE_OK)
			name_device(x->service, info->device, sizeof(info->device));
		info->matches = count_matches(x);
		info->tids = x->nreceived;
		info->bytes_sent = x->nsent * sizeof(int64);
		info->bytes_received = bytes_received(x);
		info->ascending = x->result.ascending != 0;
		info->total_us = INSTR_TIME_GET_DOUBLE(end) * 1e6;
		info->set_us = x->result.set_ns / 1e3;
		info->kernel_us = x->result.kernel_ns / 1e3;
		info->transfer_us = x->result.transfer_ns / 1e3;
	}
	return result;
}

static void
name_device(const GjService *service, char *name, Size size)
{
	const char *device = service->shared->report.device;

	if (gj_nservices == 1)
		strlcpy(name, device, size);
	else
		snprintf(name, size, "%s (%d)", device, service->device);
}

/*
 * Arm a fault in a reference device.
 */
GjServiceResult
GjServiceInjectFault(int device, int point, int kind, uint32 skip, uint32 times, uint32 millis)
{
	gjp_request request = {.op = GJP_FAULT, .point = point, .kind = kind, .skip = skip,
	.times = times, .millis = millis};
	Exchange	x = {.fed = true};

	return run_exchange(&x, device, &request);
}

/* Match: send the next words, of as many sections as there is room for */
static void
feed_words(Exchange *x, char *half, gjp_part *part)
{
	uint64		room = x->half_bytes / sizeof(int64);
	uint64		n = 0;

	for (;;)
	{
		uint64		left = gjp_section_words(x->request, x->section) - x->nsent_of_section;
		uint64		words = Min(left, room - n);
		Size		start = x->nsent_of_section * sizeof(int64);
		Size		nbytes;
		const char *bytes = find_section(x, &nbytes);

		/* the last word of a section may be incomplete */
		if (words > 0)
			memcpy(half + n * sizeof(int64), bytes + start,
				   Min(words * sizeof(int64), nbytes - start));
		n += words;
		x->nsent_of_section += words;
		if (words < left || x->section + 1 == GJP_SECTIONS)
			break;
		x->section++;
		x->nsent_of_section = 0;
	}
	x->nsent += n;
	part->items = (uint32) n;
	part->last = x->nsent == gjp_words_before(x->request, GJP_SECTIONS);
}

/* Return the current section's memory */
static const char *
find_section(const Exchange *x, Size *nbytes)
{
	const gjd_reduction *asked = x->reduction != NULL ? &x->reduction->asked : NULL;

	switch (x->section)
	{
		case GJP_LEFT_OUT:
			*nbytes = asked != NULL ? asked->n_left_out * sizeof(uint32) : 0;
			return asked != NULL ? (const char *) asked->left_out : NULL;
		case GJP_MAP:
			*nbytes = asked != NULL ? asked->map_bytes : 0;
			return asked != NULL ? (const char *) asked->map : NULL;
		case GJP_WEIGHTS:
			*nbytes = asked != NULL ? asked->n_keys * sizeof(uint32) : 0;
			return asked != NULL ? (const char *) asked->weights : NULL;
		case GJP_RESTS:
			*nbytes = x->proofs != NULL ? x->proofs->n * sizeof(int64) : 0;
			return x->proofs != NULL ? (const char *) x->proofs->rests : NULL;
		default:
			*nbytes = x->request->keys * sizeof(int64);
			return (const char *) (x->proofs != NULL ? x->proofs->codes : GjKeySetKeys(x->keys));
	}
}

/* Match: take TIDs */
static bool
take_tids(Exchange *x, const char *half, uint32 items)
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
expect(Exchange *x)
{
	uint64		n = *(const volatile uint64 *) &x->message->expected;

	if (x->tids != NULL)
		GjTidSetExpect(x->tids, n);
	else
		GjEntrySetExpect(x->entries, n);
}

/* Match: take entries, which are laid out for the capacity of the part they come in */
static bool
take_entries(Exchange *x, const char *half, uint32 items)
{
	return take_entries_at(x, half, 0, items);
}

static bool
take_entries_at(Exchange *x, const char *half, uint64 at, uint32 items)
{
	uint32		room = *(const volatile uint32 *) &x->message->room[x->consumed % GJP_HALVES];
	gjd_entry_layout layout;
	GjEntryArrays arrays;

	gjd_entry_layout_of(x->shape, x->want, room, &layout);
	if (items == 0 || items > room || layout.bytes > x->half_bytes - at)
		return false;
	if (x->nreceived == 0)
		expect(x);
	x->nreceived += items;
	half += at;
	arrays.tids = (const uint64 *) half;
	arrays.keys = half + layout.keys_at;
	for (int i = 0; i < x->entries->nincluded; i++)
	{
		arrays.values[i] = half + layout.column_at[i];
		arrays.nulls[i] = (const uint8 *) half + layout.nulls_at[i];
	}
	return GjEntrySetAddArrays(x->entries, &arrays, items);
}

/* Match: take groups, and the entries behind the room for them */
static bool
take_reduced(Exchange *x, const char *half, uint32 items)
{
	const gjp_message *message = x->message;
	int			part = x->consumed % GJP_HALVES;
	uint32		groups = *(const volatile uint32 *) &message->groups[part];
	uint32		room = *(const volatile uint32 *) &message->group_room[part];
	uint64		at = gjp_entries_at(room, x->reduction->element_words * sizeof(uint64));

	if (groups > room || at > x->half_bytes || (groups == 0 && items == 0))
		return false;
	if (groups > 0 && !take_elements(x, half, groups))
		return false;
	return items == 0 || take_entries_at(x, half, at, items);
}

static bool
take_elements(Exchange *x, const char *elements, uint32 n)
{
	GjReduction *r = x->reduction;
	Size		bytes = r->element_words * sizeof(uint64);
	uint64		most = gjd_most_elements(&r->asked, x->request->keys);

	if (n > most - r->nelements)
		return false;
	if (r->nelements + n > r->limit / bytes)
	{
		x->too_large = true;
		return false;
	}
	if ((r->nelements + n) * bytes > r->room)
	{
		r->room = Min(Max(r->nelements + n, r->room / bytes * 2), Min(most, r->limit / bytes)) *
			bytes;
		if (r->words == NULL)
			r->words = MemoryContextAllocHuge(r->context, r->room);
		else
			r->words = repalloc_huge(r->words, r->room);
	}
	memcpy(r->words + r->nelements * r->element_words, elements, n * bytes);
	r->nelements += n;
	return true;
}

/*
 * Take the state of a reduction that is final, and check all of it.  Returns false if it is not an
 * answer to the request.
 */
static bool
take_state(Exchange *x)
{
	GjReduction *r = x->reduction;
	const gjp_result *result = &x->result;

	if (result->n_newer > GJD_MAX_NEWER || result->elements != r->nelements)
		return false;
	r->rows = result->rows;
	r->nulls = result->nulls;
	r->ngroups = result->groups;
	r->nnewer = result->n_newer;
	memcpy(r->newer, x->message->newer, r->nnewer * sizeof(uint32));
	gjp_copied();
	if (!check_newer(r) || r->nulls > r->rows ||
		x->nreceived > result->matched || r->rows > result->matched - x->nreceived)
		return false;
	if (r->nelements == 0 && r->groups_if_needed && x->nreceived == 0 && r->nnewer == 0)
	{
		r->only_counted = true;
		return r->ngroups <= r->rows - r->nulls && (r->ngroups > 0) == (r->rows > r->nulls) &&
			r->ngroups <= (r->asked.grouping == GJD_DISTINCT ? r->asked.span :
						   gjd_most_elements(&r->asked, x->request->keys));
	}
	return GjReductionIsSound(r, x->keys, x->shape);
}

/*
 * Pages ascend.  Drop those that the caller has named, which have been pushed again meanwhile: it
 * searches them anyway.
 */
static bool
check_newer(GjReduction *r)
{
	uint32		named = 0;
	uint32		kept = 0;

	for (uint32 i = 0; i < r->nnewer; i++)
	{
		uint32		page = r->newer[i];

		if (i > 0 && page <= r->newer[i - 1])
			return false;
		while (named < r->asked.n_left_out && r->asked.left_out[named] < page)
			named++;
		if (named == r->asked.n_left_out || r->asked.left_out[named] != page)
			r->newer[kept++] = page;
	}
	r->nnewer = kept;
	return true;
}

/* Push: have the caller write pages */
static void
feed_pages(Exchange *x, char *half, gjp_part *part)
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
take_name(Exchange *x, const char *half, uint32 items)
{
	memcpy(&x->result, &x->message->result, sizeof(x->result));
	gjp_copied();
	x->done = true;
	return items == 0;
}

/*-------------------------------------------------------------------------
 * One request: post it, feed it, take its answer, and abandon it safely at any moment
 *
 * A request owns one slot from start to end, recorded in this process' variable own_slots.
 * Whatever ends the request early (an error in the caller's fill function, a cancelled query, the
 * end of the process) finds the slot there and abandons it.  The slot and its chunk then belong
 * to the helper until it has noticed.
 *
 * Waiting.  A match takes some fifty microseconds and waking a sleeping process costs half of
 * that, so a client spins first, unless too many others do, or processes with work want a
 * processor, which it notices by yielding its own.  Then it sleeps on a futex, its message's bell,
 * since the helper cannot set latches, and waking by way of the supervisor takes twice as many
 * system calls.  Before sleeping it sets a flag in its message and checks for news once more; the
 * helper tests that flag after each change.  A signal ends the sleep.  Interrupts are serviced at
 * all times; no lock is held.
 *
 * A client does not rely on the supervisor to end a wait: both the supervisor and the helper may be
 * stopped, or the helper may have died unnoticed.  It watches the helper's heartbeat while it
 * sleeps, and gives up when that has stood still for too long.  It leaves the heartbeat's value for
 * all other processes: until the heartbeat moves, the service is not ready, so that they do not
 * wait as well.  The slot stays abandoned until the helper or the supervisor works again.
 *-------------------------------------------------------------------------
 */

/*
 * Get the reason for this process' last failure.
 */
const char *
GjServiceLastError(void)
{
	return last_error;
}

/*
 * Run a request from acquiring its slot to releasing it, and count the outcome.
 */
static GjServiceResult
run_exchange(Exchange *x, int device, const gjp_request *request)
{
	static const GjServiceCounter counters[] = {
		[GJ_SERVICE_OK] = GJ_COUNT_OK,
		[GJ_SERVICE_UNAVAILABLE] = GJ_COUNT_UNAVAILABLE,
		[GJ_SERVICE_BUSY] = GJ_COUNT_BUSY,
		[GJ_SERVICE_GONE] = GJ_COUNT_GONE,
		[GJ_SERVICE_NO_MEMORY] = GJ_COUNT_NO_MEMORY,
		[GJ_SERVICE_FAILED] = GJ_COUNT_FAILED,
		[GJ_SERVICE_TOO_NEW] = GJ_COUNT_OK,
		[GJ_SERVICE_TOO_LARGE] = GJ_COUNT_NO_MEMORY,
		[GJ_SERVICE_TOO_MANY] = GJ_COUNT_NO_MEMORY
	};
	GjServiceResult result;

	last_error[0] = '\0';
	if (gj_nservices == 0)
		return fail(GJ_SERVICE_UNAVAILABLE, GjReasonGet(GJ_REASON_NOT_PRELOADED)->text);

	x->service = &gj_services[device];
	GjServiceCount(x->service, GJ_COUNT_REQUESTS, 1);
	if (begin_exchange(x, request, &result))
	{
		PG_TRY();
		{
			/* Send the first part with the request, so that a small request is a single message. */
			if (!x->fed)
				send_part(x);
			own_slots[nown_slots - 1].posted = true;
			post(x, request);
			result = converse(x);
			leave_last_slot();
		}
		PG_CATCH();
		{
			GjServiceCount(x->service, GJ_COUNT_ABANDONED, 1);
			leave_last_slot();
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	GjServiceCount(x->service, counters[result], 1);
	return result;
}

/* Get a slot; returns false and sets *result if none is available or the request cannot succeed */
static bool
begin_exchange(Exchange *x, const gjp_request *request, GjServiceResult *result)
{
	const char *why_not = "";

	if (!exit_callback_registered)
	{
		GjKeepFreedMemory();
		before_shmem_exit(leave_at_exit, (Datum) 0);
		exit_callback_registered = true;
	}
	if (nown_slots == GJ_MOST_AT_ONCE)
		*result = fail(GJ_SERVICE_BUSY, "too many requests of this process are under way");
	else if (!GjServiceDeviceReady(x->service->device, &why_not))
		*result = fail(GJ_SERVICE_UNAVAILABLE, why_not);
	else if (request->epoch != 0 && request->epoch != GjServiceEpoch(x->service->device))
		*result = fail(GJ_SERVICE_GONE, "the device process was restarted");
	else if ((x->slot = GjSlotAcquire(x->service, &x->generation, &x->epoch, result)) < 0)
		fail(*result, *result == GJ_SERVICE_BUSY ?
			 "all request slots of the device are taken" :
			 "the device process has just ended");
	else if (request->epoch != 0 && request->epoch != x->epoch)
	{
		/* The helper was restarted while we waited for a slot and does not know the column. */
		GjSlotRelease(x->service, x->slot);
		*result = fail(GJ_SERVICE_GONE, "the device process was restarted");
	}
	else
	{
		own_slots[nown_slots++] = (OwnSlot) {x->service, x->slot, x->epoch, false};
		x->message = GjMessage(x->service, x->slot);
		x->chunk = GjChunk(x->service, x->slot);
		x->half_bytes = gjp_half_bytes(x->service->arena.chunk_bytes);
		x->heartbeat = get_heartbeat(x->service);
		return true;
	}
	return false;
}

/* Post the request to the helper */
static void
post(Exchange *x, const gjp_request *request)
{
	gjp_message *message = x->message;

	message->request = *request;
	if (request->epoch == 0)
		message->request.epoch = x->epoch;
	message->request.at_once = nown_slots > 1;
	message->sleeping = 0;
	gjp_write_word(&message->consumed, x->generation, 0);
	__atomic_store_n(&message->posted, x->generation, __ATOMIC_RELEASE);
	GjDoorbellRing(x->service, x->slot);
}

/* Send and receive until the request is final or the helper has been given up */
static GjServiceResult
converse(Exchange *x)
{
	instr_time	start;
	instr_time	end;

	for (;;)
	{
		uint32		state;

		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&x->service->shared->epoch) != x->epoch)
			return fail(GJ_SERVICE_FAILED, "the device process ended");
		if (x->fed && x->meanwhile != NULL)
		{
			void		(*meanwhile) (void *arg) = x->meanwhile;

			x->meanwhile = NULL;
			INSTR_TIME_SET_CURRENT(start);
			meanwhile(x->reduction->arg);
			INSTR_TIME_SET_CURRENT(end);
			INSTR_TIME_ACCUM_DIFF(x->away, end, start);
		}

		/* Read the state first: once it is final, all parts of the answer are there. */
		state = gjp_read_word(&x->message->state, x->generation);
		if (receive_part(x))
		{
			if (x->done)
				return conclude(x);
			continue;
		}
		if (x->too_large)
			return fail(GJ_SERVICE_TOO_LARGE, "the groups do not fit in memory");
		if (x->broken)
			return fail(GJ_SERVICE_FAILED, "invalid answer of the device process");
		if (state > GJP_RUNNING)
		{
			memcpy(&x->result, &x->message->result, sizeof(x->result));
			gjp_copied();
			x->result.text[sizeof(x->result.text) - 1] = '\0';
			x->done = (state == GJP_DONE);
			return conclude(x);
		}
		if (send_part(x))
			continue;
		wait_for_news(x);
		if (x->still_ms * GJ_STILL_DIVISOR > gj_device_timeout && !has_news(x))
		{
			pg_atomic_write_u64(&x->service->shared->still, x->heartbeat);
			return fail(GJ_SERVICE_FAILED, GjReasonGet(GJ_REASON_FROZEN)->text);
		}
	}
}

/* Fill and send a part if there is more to send and room for it */
static bool
send_part(Exchange *x)
{
	gjp_message *message = x->message;
	int			half = x->produced % GJP_HALVES;
	gjp_part	part = {0, 0};

	if (x->fed ||
		x->produced - gjp_read_word(&message->taken, x->generation) >= GJP_HALVES)
		return false;
	x->feed(x, x->chunk + half * x->half_bytes, &part);
	message->in[half] = part;
	x->fed = (part.last != 0);
	x->produced++;
	gjp_write_word(&message->produced, x->generation, x->produced);
	if (x->produced > 1)
		GjDoorbellRing(x->service, -1);
	return true;
}

/*
 * Take the next part, if there is one, and hand its half of the chunk back
 *
 * A part that we did not ask for is an invalid answer.  If we ignored it, has_news() would report
 * it forever and we would never consume it.  The same is true of a count that exceeds the number
 * of halves: trusting it would make us take the same two halves again, up to four billion times.
 */
static bool
receive_part(Exchange *x)
{
	gjp_message *message = x->message;
	int			half = x->consumed % GJP_HALVES;
	uint32		filled = gjp_read_word(&message->filled, x->generation);
	uint32		items;

	if (filled <= x->consumed)
		return false;
	items = *(volatile uint32 *) &message->out[half];
	if (x->broken || x->take == NULL || filled - x->consumed > GJP_HALVES ||
		!x->take(x, x->chunk + half * x->half_bytes, items))
	{
		x->broken = true;
		return false;
	}
	x->consumed++;
	gjp_write_word(&message->consumed, x->generation, x->consumed);
	if (gjp_read_word(&message->state, x->generation) <= GJP_RUNNING)
		GjDoorbellRing(x->service, -1);
	return true;
}

/* Return true if there is something to take or to send, or the request has ended */
static bool
has_news(const Exchange *x)
{
	const gjp_message *message = x->message;

	return gjp_read_word(&message->filled, x->generation) > x->consumed ||
		gjp_read_word(&message->state, x->generation) > GJP_RUNNING ||
		(!x->fed &&
		 x->produced - gjp_read_word(&message->taken, x->generation) < GJP_HALVES) ||
		pg_atomic_read_u32(&x->service->shared->epoch) != x->epoch;
}

/*
 * Return true if one more process may spin.  The helper needs a processor, as do processes with
 * work, of which there are enough if many wait for the device.
 */
static bool
may_spin(uint32 nspinning)
{
	static long ncpus = 0;

	if (ncpus == 0)
		ncpus = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);
	return nspinning < Min(Max(ncpus / 2, 1), GJ_MAX_SPINNING) && ncpus > 1;
}

static double
us_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now) * 1e6;
}

/* Spin until there is news; returns false if that takes too long, or costs others a processor */
static bool
spin(const Exchange *x, instr_time start)
{
	static int	sleeps_left = 0;
	double		limit = Max(usual_match_us * 2, GJ_SPIN_MIN_US);
	bool		news = false;
	double		us = 0.0;

	if (sleeps_left > 0)
	{
		sleeps_left--;
		return false;
	}

	if (limit > GJ_SPIN_MAX_US)
		limit = GJ_SPIN_MIN_US;
	if (x->consumed > 0)
		limit = GJ_SPIN_PART_US;
	if (may_spin(pg_atomic_fetch_add_u32(&gj_services[0].shared->nspinning, 1)))
	{
		do
		{
			for (int i = 0; i < GJ_SPIN_ROUNDS && !news; i++)
			{
				SPIN_DELAY();
				news = has_news(x);
			}
			if (!news)
			{
				double		before = us_since(start);

				(void) sched_yield();
				us = us_since(start);
				if (us - before > GJ_YIELD_US)
					sleeps_left = GJ_SLEEPS;
				news = has_news(x);
			}
		} while (!news && !InterruptPending && us < limit && sleeps_left == 0);
	}
	pg_atomic_fetch_sub_u32(&gj_services[0].shared->nspinning, 1);
	return news;
}

/* Wait, spinning first; may return without news */
static void
wait_for_news(Exchange *x)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	if (!spin(x, start))
		nap(x);
}

/* Sleep until the bell is rung, a signal comes, or some time is over, unless there is news */
static void
nap(Exchange *x)
{
	gjp_message *message = x->message;
	uint32		seen = __atomic_load_n(&message->bell, __ATOMIC_ACQUIRE);
	struct timespec most = {0, GJ_NAP_MS * 1000000L};
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	__atomic_store_n(&message->sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!has_news(x) && !(InterruptPending && INTERRUPTS_CAN_BE_PROCESSED()))
	{
		pgstat_report_wait_start(GjWaitEventDevice());
		(void) syscall(SYS_futex, &message->bell, FUTEX_WAIT, seen, &most, NULL, 0);
		pgstat_report_wait_end();
	}
	__atomic_store_n(&message->sleeping, 0, __ATOMIC_RELAXED);
	if (!PostmasterIsAlive())
		proc_exit(1);
	watch_heartbeat(x, us_since(start) / 1e3);
}

static uint64
get_heartbeat(const GjService *service)
{
	return __atomic_load_n(&GjControl(service)->heartbeat, __ATOMIC_ACQUIRE);
}

/*
 * Add a sleep to the time in which the heartbeat has not moved.  A long sleep counts as a short
 * one: this process may have been stopped itself, or the machine suspended.
 */
static void
watch_heartbeat(Exchange *x, double ms)
{
	uint64		heartbeat = get_heartbeat(x->service);

	x->still_ms = heartbeat == x->heartbeat ? x->still_ms + Min(ms, GJ_NAP_MS) : 0.0;
	x->heartbeat = heartbeat;
}

/* Convert the result of a final request to a GjServiceResult */
static GjServiceResult
conclude(Exchange *x)
{
	GjServiceCount(x->service, GJ_COUNT_BYTES_SENT,
				   x->nsent * (x->keys ? sizeof(int64) : x->image_bytes));
	GjServiceCount(x->service, GJ_COUNT_BYTES_RECEIVED, bytes_received(x));
	if (x->done && x->keys != NULL)
		usual_match_us += ((x->result.set_ns + x->result.kernel_ns) / 1e3 - usual_match_us) *
			GJ_MATCH_WEIGHT;
	if (x->done && !x->fed)
		return fail(GJ_SERVICE_FAILED, "the device process answered before the request was sent");
	if (x->done && x->item_bytes != 0 && x->nreceived != x->result.count)
		return fail(GJ_SERVICE_FAILED, "incomplete answer of the device process");
	if (x->done && x->fill != NULL && x->nsent != x->result.count)
		return fail(GJ_SERVICE_FAILED, "the device process took fewer pages than it got");
	if (x->done && x->reduction != NULL && !take_state(x))
		return fail(GJ_SERVICE_FAILED, "invalid answer of the device process");
	if (x->done)
		return GJ_SERVICE_OK;
	switch (x->result.status)
	{
		case GJP_GONE:
			return fail(GJ_SERVICE_GONE, x->result.text);
		case GJD_TOO_NEW:
			return fail(GJ_SERVICE_TOO_NEW, x->result.text);
		case GJD_TOO_MANY:
			return fail(GJ_SERVICE_TOO_MANY, x->result.text);
		case GJD_NO_MEMORY:
		case GJD_NO_HOST_MEMORY:
			return fail(GJ_SERVICE_NO_MEMORY, x->result.text);
	}
	return fail(GJ_SERVICE_FAILED, x->result.text);
}

/*
 * Save the text, which may come from the helper, for GjServiceLastError().
 */
static GjServiceResult
fail(GjServiceResult result, const char *text)
{
	strlcpy(last_error, text, sizeof(last_error));
	for (char *c = last_error; *c != '\0'; c++)
	{
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
	return result;
}

/*
 * Leave the slot that this process acquired last, in any state: it becomes free now, or when the
 * helper is done with it.
 */
static void
leave_last_slot(void)
{
	const OwnSlot *own = &own_slots[--nown_slots];

	if (own->posted)
		GjSlotAbandon(own->service, own->slot, own->epoch);
	else
		GjSlotRelease(own->service, own->slot);
}

/* before_shmem_exit callback, because FATAL errors do not reach PG_CATCH */
static void
leave_at_exit(int code, Datum arg)
{
	while (nown_slots > 0)
	{
		GjServiceCount(own_slots[nown_slots - 1].service, GJ_COUNT_ABANDONED, 1);
		leave_last_slot();
	}
}
