/*
 * match.cu
 *	  A match from begin to end.
 *
 * match_begin() puts all work on the execute stream that does not depend on the number of
 * matches: scan, comparison of rests, filter, sums of the tiles, gathering of as much as the window
 * holds, a check whether it ascends, and a report to the host. For most requests that is all. If
 * the window was too small or the TIDs do not ascend, polls drive the match through further phases.
 * No phase waits.
 *
 * Pages may be written between two phases. So if the column was written to, a later gathering is
 * preceded by another scan, in one go, which sees one state of each page. Only TIDs that are
 * gathered a window at a time, for lack of memory, may be newer than the scan.
 */
#include "library.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

uint64_t
rounded(uint64_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

const uint64_t *
total_of(const gjd_match *match)
{
	return match->bitmap == nullptr ? match->totals : match->tile_start + match->tiles;
}

void
free_match(gjd_match *match)
{
	gjd_device *device = match->device;
	uint64_t report_bytes = sizeof(match_report);

	give_scratch(device, match->scratch, match->scratch_bytes);
	give_scratch(device, match->whole, match->whole_bytes);
	give_scratch(device, match->sorting_space, match->sorting_bytes);
	if (match->report)
		give_locked(device, (char *) match->report, report_bytes);
	if (match->executed)
		give_event(device, match->executed);
	for (gjd_match::copy &c : match->copies)
		give_event(device, c.copied);
	match->column->users--;
	match->keyset->users--;
	release_column(match->column);
	release_keyset(match->keyset);
	end_reduction(match);
	device->matches--;
	delete match;
}

/* Decides how much to gather before the number of matches is known. Returns the bytes. */
uint64_t
size_window(gjd_match *match)
{
	const gjd_shape &shape = match->column->shape;

	if (!is_list(match))
		return 0;
	match->window_items = std::min(match->rows, policy::window_items);
	if (match->what != GJD_ENTRIES)
		return match->window_items * 8;
	match->window_items = std::min(match->window_items,
								   gjd_entry_room(&shape, match->want, policy::window_bytes));
	gjd_entry_layout_of(&shape, match->want, match->window_items, &match->window_layout);
	match->state.item_bytes = match->window_layout.item_bytes;
	return match->window_layout.bytes;
}

/*
 * Uses the zeroed counters that the set was built with, unless another match has. The build
 * precedes the match on the stream, and the set lives as long as the match does.
 */
void
take_zeros(gjd_match *match)
{
	gjd_keyset *keyset = match->keyset;

	if (keyset->zeros == nullptr)
		return;
	match->totals = keyset->zeros;
	match->totals_are_zero = true;
	keyset->zeros = nullptr;
}

/* Allocates all memory that the first phase needs. */
void
take_memory(gjd_match *match)
{
	gjd_device *device = match->device;
	bool counts = match->what != GJD_COUNT || match->filter.n > 0 || match->rest_column > 0;
	uint64_t report_bytes = sizeof(match_report);
	uint64_t window = size_window(match);
	const reducing *r = match->reduction;

	match->scan_bytes = counts ? scan_space_bytes(match->tiles) : 0;

	uint64_t bitmap = counts ? rounded(match->tiles * tile_words * 4) : 0;
	uint64_t starts = counts ? rounded((match->tiles + 1) * 8) : 0;
	uint64_t scan = rounded(match->scan_bytes);
	bool skipping = match->what != GJD_BITMAP && worth_skipping(match->keyset, match->tiles);
	uint64_t list = skipping ? rounded(match->tiles * 4) : 0;
	uint64_t top = match->top.limit > 0 ? rounded(top_space_bytes()) : 0;

	match->scratch_bytes = policy::totals_bytes + bitmap + starts + scan + list + top + window;
	match->scratch = take_scratch(device, &match->scratch_bytes,
								  match->keyset->bytes + (r != nullptr ? r->scratch_bytes : 0));

	char *at = match->scratch + policy::totals_bytes;

	match->totals = (uint64_t *) match->scratch;
	match->bitmap = counts ? (uint32_t *) at : nullptr;
	match->tile_start = (uint64_t *) (at + bitmap);
	match->scan_space = at + bitmap + starts;
	match->tile_list = skipping ? (uint32_t *) (at + bitmap + starts + scan) : nullptr;
	match->top_space = top > 0 ? at + bitmap + starts + scan + list : nullptr;
	match->window = at + bitmap + starts + scan + list + top;
	match->list = match->what == GJD_BITMAP ? at : match->window;
	match->list_layout = match->window_layout;

	match->report = (match_report *) require_locked(device, &report_bytes,
													r != nullptr ? r->locked_bytes : 0);
	match->report->written = 0;
	take_zeros(match);
}

/* Returns true if the TIDs must be checked for ascending order. */
bool
must_ascend(const gjd_match *match)
{
	return has_tids(match) && !match->any_order;
}

/* Gathers items, and checks whether their TIDs ascend. */
void
gather(gjd_match *match, uint64_t first, uint64_t n, char *to, const gjd_entry_layout *layout)
{
	launch_gather(job_of(match), first, n, to, layout);
	if (must_ascend(match))
		launch_order_check(match->device, to, first, n, total_of(match), match->totals + 1);
}

/* Puts the scan on the stream, up to the bitmap; its counters have been zeroed. */
void
scan(gjd_match *match)
{
	match_output out = {match->bitmap, match->tile_start, match->totals, match->tiles,
						match->tile_list, (uint32_t *) (match->totals + 2)};

	if (match->tile_list != nullptr && match->keyset->strategy != GJD_BY_NOTHING)
		launch_skip(match->column, match->keyset, out);
	launch_match(match->column, match->keyset, out);
	if (match->rest_column > 0 && match->keyset->strategy != GJD_BY_NOTHING)
		launch_proof(match->column, match->keyset, match->rest_column, out);
	if (match->reduction != nullptr)
	{
		reduce(match, out);
		return;
	}
	if (match->filter.n > 0 || match->top_space != nullptr)
		launch_conditions(match->column, match->filter, out, match->totals + 3);
	if (match->top_space != nullptr)
		launch_top(match->column, match->top, out, match->top_space);
}

/* Turns the counts of the tiles into start positions. */
void
sum_tiles(gjd_match *match)
{
	launch_tile_scan(match->device, match->tile_start, match->tiles, match->scan_space,
					 match->scan_bytes);
}

void
start(gjd_match *match)
{
	cudaStream_t stream = match->device->execute;

	if (!match->totals_are_zero)
		check(cudaMemsetAsync(match->totals, 0, policy::totals_bytes, stream),
			  "could not clear counts");
	if (match->bitmap != nullptr && match->tiles > 0 &&
		match->keyset->strategy == GJD_BY_NOTHING) /* no scan runs that would write them */
	{
		check(cudaMemsetAsync(match->tile_start, 0, match->tiles * 8, stream),
			  "could not clear counts");
		check(cudaMemsetAsync(match->bitmap, 0, match->tiles * tile_words * 4, stream),
			  "could not clear a bitmap");
	}
	match->postponed = match->reduction != nullptr && !match->column->leaves_rows;
	scan(match);
	if (match->postponed)
		return;
	if (match->bitmap != nullptr)
		sum_tiles(match);
	if (match->window_items > 0)
		gather(match, 0, match->window_items, match->window, &match->window_layout);
	report_first(match, total_of(match));
}

/* ---- phases -------------------------------------------------------------------------------- */

/* Returns true if a row whose key is in the set need not be in the result. */
bool
is_filtered(const gjd_match *match)
{
	return match->filter.n > 0 || match->reduction != nullptr || match->top_space != nullptr;
}

/* Makes the result final and fills the first buffer if that has not been done. */
void
finish(gjd_match *match, uint64_t count, bool ascending)
{
	gjd_chunk chunk;
	bool as_sent = match->phase != gjd_match::sorting && !match->rescanned;
	bool sent = !match->copies.empty() && as_sent;

	match->phase = gjd_match::finished;
	match->state.ready = true;
	match->state.ascending = ascending;
	match->state.count = count;
	match->state.matched = is_filtered(match) ? match->report->matched : count;
	if (is_list(match))
		match->state.items = count;
	for (gjd_match::copy &c : match->copies) /* all are of items */
		c.end = sent ? std::min(c.end, match->state.items) : 0;
	if (sent)
		match->state.begun = match->copies.back().end;
	else if (match->written > 0 && as_sent)
		match->state.begun = match->state.delivered =
			std::min(match->written, match->state.items);
	else if (match->first_buffer != nullptr && match->first_capacity > 0)
		next_chunk(match, match->first_buffer, match->first_capacity, &chunk);
	if (match->reduction != nullptr)
	{
		match->column->leaves_rows = count > 0;
		finish_reduction(match);
	}
}

char *
try_scratch(gjd_device *device, uint64_t *bytes)
{
	try
	{
		return take_scratch(device, bytes);
	}
	catch (const failure &)
	{
		return nullptr;
	}
}

/*
 * Allocates memory for the given number of items of the result; returns false if there is not
 * enough.
 */
bool
take_whole(gjd_match *match, uint64_t items)
{
	give_scratch(match->device, match->whole, match->whole_bytes);
	match->whole_items = items;
	match->whole_bytes = items * 8;
	if (match->what == GJD_ENTRIES)
	{
		gjd_entry_layout_of(&match->column->shape, match->want, items, &match->list_layout);
		match->whole_bytes = match->list_layout.bytes;
	}
	match->whole = try_scratch(match->device, &match->whole_bytes);
	match->list = match->whole;
	return match->whole != nullptr;
}

/*
 * Scans again: the bitmap is the state of the column when it was scanned, and the column has been
 * written to since. The scan costs less than gathering the result.
 */
void
scan_again(gjd_match *match)
{
	match->seen = match->column->ticket;
	match->rescanned = true;
	if (match->reduction != nullptr)
		reduce_again(match);
	check(cudaMemsetAsync(match->totals, 0, policy::totals_bytes, match->device->execute),
		  "could not clear counts");
	scan(match);
	sum_tiles(match);
}

/* Makes what was postponed: the first items, as many as the window holds. */
void
gather_rest(gjd_match *match)
{
	match->postponed = false;
	if (match->seen == match->column->ticket)
		sum_tiles(match);
	else
		scan_again(match);
	match->rescanned = false; /* no items of the first scan have been sent */
	gather(match, 0, match->window_items, match->window, &match->window_layout);
	report_first(match, total_of(match));
}

/*
 * Handles lack of memory for the whole result: it will be gathered a window at a time, and its
 * order is checked now. Adjacent windows share an item, so that it is compared with both
 * neighbors.
 */
void
look_through(gjd_match *match)
{
	uint64_t count = match->report->count;

	match->windowed = true;
	match->window_first = pool::none;
	match->list = match->window;
	match->list_layout = match->window_layout;
	require_unchanged(match);
	if (!match->copies.empty()) /* the window contains the items that send_first() copies */
		check(cudaStreamWaitEvent(match->device->execute, match->copies.back().copied, 0),
			  "could not order streams");
	for (uint64_t first = 0; must_ascend(match) && first < count; first += match->window_items - 1)
		gather(match, first, match->window_items, match->window, &match->window_layout);
}

/*
 * The window was too small: gathers the whole result, or, if that does not fit, checks its order.
 */
void
gather_whole(gjd_match *match)
{
	uint64_t count = match->report->count;
	bool changed = match->seen != match->column->ticket;

	/* A new scan may find more items; if they do not fit, another one follows. */
	if (take_whole(match, changed ? count + count / 8 + policy::rescan_slack : count))
	{
		if (changed)
			scan_again(match);
		gather(match, 0, match->whole_items, match->whole, &match->list_layout);
	}
	else
		look_through(match);
	report(match, total_of(match));
	match->phase = gjd_match::checking;
}

/*
 * Allocates memory for a sort, followed by the sorted entries; returns false if there is not
 * enough.
 */
bool
take_sorting_space(gjd_match *match, uint64_t count, uint64_t *space, gjd_entry_layout *layout)
{
	try
	{
		if (match->what == GJD_ENTRIES)
		{
			gjd_entry_layout_of(&match->column->shape, match->want, count, layout);
			*space = rounded(entry_sort_space_bytes(count));
			match->sorting_bytes = *space + layout->bytes;
		}
		else
		{
			*space = sort_space_bytes(count);
			match->sorting_bytes = rounded(count * 8) + *space;
		}
		match->sorting_space = take_scratch(match->device, &match->sorting_bytes);
	}
	catch (const failure &f)
	{
		if (f.status != GJD_NO_MEMORY && f.status != GJD_BUSY)
			throw;
		return false;
	}
	return true;
}

/* Starts a sort of TIDs that do not ascend. Returns false if memory does not suffice. */
bool
start_sort(gjd_match *match)
{
	cudaStream_t stream = match->device->execute;
	uint64_t count = match->report->count;
	char *items = match->whole ? match->whole : match->window;
	gjd_entry_layout layout;
	uint64_t space;

	if (!take_sorting_space(match, count, &space, &layout))
		return false;
	if (match->what == GJD_ENTRIES)
	{
		char *sorted = match->sorting_space + space;

		launch_entry_sort(items, match->list_layout, sorted, layout, count, match->sorting_space,
						  space, match->totals, stream);
		match->list = sorted;
		match->list_layout = layout;
	}
	else
	{
		uint64_t spare = rounded(count * 8);

		match->list = (const char *) launch_sort((uint64_t *) items,
												 (uint64_t *) match->sorting_space, count,
												 match->sorting_space + spare, space,
												 match->totals, stream);
	}
	report(match, match->totals);
	match->phase = gjd_match::sorting;
	return true;
}

/* Takes the step that the last report calls for. */
void
advance(gjd_match *match)
{
	uint64_t count = match->report->count;
	bool ordered = match->report->unordered == 0;

	require_room(match);
	switch (match->phase)
	{
		case gjd_match::counting:
			if (match->postponed && count > 0)
				return gather_rest(match);
			if (is_list(match) && count > match->window_items)
				return gather_whole(match);
			break;
		case gjd_match::checking:
			if (!match->windowed && count > match->whole_items)
				return gather_whole(match);
			break;
		default:
			return finish(match, count, true);
	}
	if (!ordered && !match->windowed && start_sort(match))
		return;
	finish(match, count, ordered && !match->any_order);
}

/*
 * Returns true if the last requested report has arrived. It follows all kernels of the match on
 * their stream and is written when they are over, so none of them touches anything any more.
 *
 * A failed device never writes it. Asking the driver takes a microsecond, though, and all active
 * matches are polled in each round, so the driver is asked only now and then.
 */
bool
is_reported(gjd_match *match)
{
	gjd_device *device = match->device;

	if (match->report->written == match->reports)
	{
		__sync_synchronize();
		return true;
	}
	if (++device->looks % policy::looks_a_query == 0)
		is_idle(device->execute);
	return false;
}

}  // namespace

/* ---- calls --------------------------------------------------------------------------------- */

gjd_match *
begin_match(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *params,
			const gjd_reduction *reduction)
{
	postponing postponed(column->device);
	gjd_match *match = new gjd_match();
	column_view view = view_of(column);

	match->device = column->device;
	match->column = column;
	match->keyset = keyset;
	match->what = params->what;
	match->want = params->want;
	match->any_order = params->any_order != 0 && has_tids(match);
	match->rest_column = params->rest_column;
	match->filter = params->filter;
	match->top = params->top;
	match->seen = column->ticket;
	match->tiles = view.tiles;
	match->rows = column->pages * column->shape.slots;
	match->first_buffer = (char *) params->first_buffer;
	match->first_capacity = params->first_capacity;
	match->state.item_bytes = params->what == GJD_BITMAP ? 4 : params->what == GJD_COUNT ? 0 : 8;
	match->state.items = params->what == GJD_BITMAP ? match->rows / 32 : 0;
	if (params->what == GJD_COUNT)
		match->first_buffer = nullptr;
	column->users++;
	keyset->users++;
	match->device->matches++;
	try
	{
		if (reduction != nullptr)
			begin_reduction(match, reduction);
		take_memory(match);
		start(match);
		if (++match->device->batch.requests >= policy::batch_requests || !match->device->batch.open)
			flush_batch(match->device);
	}
	catch (...)
	{
		/*
		 * Nothing was started unless CUDA failed; then wait for the started work before freeing
		 * memory.
		 */
		if (match->report)
		{
			try
			{
				flush_batch(match->device);
			}
			catch (const failure &) /* of the device: the next call tells */
			{
				match->device->lost = true;
			}
			cudaStreamSynchronize(match->device->execute);
			cudaStreamSynchronize(match->device->out);
		}
		free_match(match);
		throw;
	}
	return match;
}

gjd_status
poll_match(gjd_match *match)
{
	while (match->phase != gjd_match::finished)
	{
		if (!is_reported(match))
			return GJD_PENDING;
		advance(match);
	}
	collect_copies(match);
	return match->copies.empty() ? GJD_OK : GJD_PENDING;
}

gjd_status
end_match(gjd_match *match)
{
	match->ending = true;
	if (!is_reported(match) || (match->executed && !has_happened(match->executed)))
		return GJD_PENDING;
	collect_copies(match);
	if (!match->copies.empty())
		return GJD_PENDING;
	free_match(match);
	return GJD_OK;
}

}  // namespace gjd
