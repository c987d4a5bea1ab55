/*
 * match.cu
 *	  A match from begin to end.
 *
 * match_begin() puts all on the execute stream that can be put there without knowing how much will
 * match: scan, sums of the tiles, gathering of as much as the window holds, a look whether it
 * ascends, and a report to the host. For most requests that is all. Where the window was too small
 * or the TIDs do not ascend, polls carry the match through further phases. No phase waits.
 */
#include "match.cuh"

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

bool
is_list(const gjd_match *match)
{
	return match->what == GJD_TIDS || match->what == GJD_POSITIONS;
}

gather_job
job_of(const gjd_match *match)
{
	return gather_job{match->column, match->what, match->bitmap, match->tile_start, match->tiles};
}

const uint64_t *
total_of(const gjd_match *match)
{
	return match->what == GJD_COUNT ? match->totals : match->tile_start + match->tiles;
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
	device->matches--;
	delete match;
}

/* Takes all the memory that the first phase needs. */
void
take_memory(gjd_match *match)
{
	gjd_device *device = match->device;
	bool counts = match->what != GJD_COUNT;
	uint64_t report_bytes = sizeof(match_report);

	match->window_items = is_list(match) ? std::min(match->rows, policy::window_items) : 0;
	match->scan_bytes = is_list(match) || counts ? scan_space_bytes(match->tiles) : 0;

	uint64_t bitmap = counts ? rounded(match->tiles * tile_words * 4) : 0;
	uint64_t starts = counts ? rounded((match->tiles + 1) * 8) : 0;
	uint64_t scan = rounded(match->scan_bytes);

	match->scratch_bytes = 256 + bitmap + starts + scan + match->window_items * 8;
	match->scratch = take_scratch(device, &match->scratch_bytes);

	char *at = match->scratch + 256;

	match->totals = (uint64_t *) match->scratch;
	match->bitmap = counts ? (uint32_t *) at : nullptr;
	match->tile_start = (uint64_t *) (at + bitmap);
	match->scan_space = at + bitmap + starts;
	match->window = (uint64_t *) (at + bitmap + starts + scan);
	match->list = match->window;

	match->report = (match_report *) take_locked(device, &report_bytes);
	if (match->report == nullptr)
		throw_status(GJD_BUSY, "no page-locked memory at present");
	match->executed = take_event(device);
}

void
note_execution(gjd_match *match)
{
	check(cudaEventRecord(match->executed, match->device->execute), "could not record an event");
}

/* Copies items into the caller's memory, behind what the execute stream has to do for them. */
void
start_copy(gjd_match *match, char *buffer, const void *from, uint64_t bytes, uint64_t end)
{
	gjd_device *device = match->device;
	gjd_match::copy copy = {end, take_event(device)};

	match->copies.push_back(copy);
	check(cudaMemcpyAsync(buffer, from, bytes, cudaMemcpyDeviceToHost, device->out),
		  "could not copy results");
	check(cudaEventRecord(copy.copied, device->out), "could not record an event");
}

/*
 * Sends what will be the first items without knowing how many there are. Only into registered
 * memory: elsewhere the call would wait for the kernels.
 */
void
send_first(gjd_match *match)
{
	const void *from = match->what == GJD_BITMAP ? (const void *) match->bitmap : match->window;
	uint64_t most = match->what == GJD_BITMAP ? match->state.items : match->window_items;
	uint64_t n = std::min(match->first_capacity, most);
	uint64_t bytes = n * match->state.item_bytes;

	if (match->first_buffer == nullptr || n == 0 ||
		!is_registered(match->device, match->first_buffer, bytes))
		return;
	check(cudaStreamWaitEvent(match->device->out, match->executed, 0), "could not order streams");
	start_copy(match, match->first_buffer, from, bytes, n);
}

void
start(gjd_match *match)
{
	cudaStream_t stream = match->device->execute;
	match_output out = {match->bitmap, match->tile_start, match->totals};

	check(cudaMemsetAsync(match->totals, 0, 256, stream), "could not clear counts");
	if (match->bitmap != nullptr)
	{
		bool nothing = match->keyset->strategy == GJD_BY_NOTHING;
		uint64_t *last = match->tile_start + (nothing ? 0 : match->tiles);

		check(cudaMemsetAsync(last, 0, (uint64_t) (match->tile_start + match->tiles + 1 - last) * 8,
							  stream),
			  "could not clear counts");
		if (nothing && match->tiles > 0)
			check(cudaMemsetAsync(match->bitmap, 0, match->tiles * tile_words * 4, stream),
				  "could not clear a bitmap");
	}
	launch_match(match->column, match->keyset, out);
	if (match->bitmap != nullptr)
		launch_tile_scan(match->tile_start, match->tiles, match->scan_space, match->scan_bytes,
						 stream);
	if (match->window_items > 0)
		launch_gather(job_of(match), 0, match->window_items, match->window);
	if (match->what == GJD_TIDS && match->window_items > 0)
		launch_order_check(match->window, 0, match->window_items, total_of(match),
						   match->totals + 1, stream);
	launch_report(match->report, total_of(match), match->totals + 1, stream);
	note_execution(match);
	send_first(match);
}

/* ---- phases -------------------------------------------------------------------------------- */

/* Makes the result final and sees to the first buffer where that is still to be done. */
void
finish(gjd_match *match, uint64_t count, bool ascending)
{
	gjd_chunk chunk;
	bool sent = !match->copies.empty() && match->phase != gjd_match::sorting;

	match->phase = gjd_match::finished;
	match->state.ready = true;
	match->state.ascending = ascending;
	match->state.count = count;
	if (is_list(match))
		match->state.items = count;
	for (gjd_match::copy &c : match->copies)
		c.end = sent ? std::min(c.end, match->state.items) : 0;
	if (sent)
		match->state.begun = match->copies.back().end;
	else if (match->first_buffer != nullptr && match->first_capacity > 0)
		next_chunk(match, match->first_buffer, match->first_capacity, &chunk);
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

/* The window was too small: gathers the whole result, or, where that does not fit, looks at it. */
void
gather_whole(gjd_match *match)
{
	cudaStream_t stream = match->device->execute;
	uint64_t count = match->report->count;
	uint64_t step = match->window_items - 1; /* windows share an item, to be compared with both */

	match->whole_bytes = count * 8;
	match->whole = try_scratch(match->device, &match->whole_bytes);
	match->windowed = match->whole == nullptr;
	if (!match->windowed)
	{
		match->list = (uint64_t *) match->whole;
		launch_gather(job_of(match), 0, count, (uint64_t *) match->whole);
		if (match->what == GJD_TIDS)
			launch_order_check(match->list, 0, count, total_of(match), match->totals + 1, stream);
	}
	else
	{
		match->window_first = pool::none;
		if (!match->copies.empty()) /* what send_first() copies lies in the window */
			check(cudaStreamWaitEvent(stream, match->copies.back().copied, 0),
				  "could not order streams");
		for (uint64_t first = 0; match->what == GJD_TIDS && first < count; first += step)
		{
			launch_gather(job_of(match), first, match->window_items, match->window);
			launch_order_check(match->window, first, match->window_items, total_of(match),
							   match->totals + 1, stream);
		}
	}
	launch_report(match->report, total_of(match), match->totals + 1, stream);
	note_execution(match);
	match->phase = gjd_match::checking;
}

/* TIDs do not ascend. Returns false where there is no memory to sort them. */
bool
start_sort(gjd_match *match)
{
	uint64_t count = match->report->count;
	uint64_t spare = rounded(count * 8);
	uint64_t *items = match->whole ? (uint64_t *) match->whole : match->window;
	uint64_t space;

	try
	{
		space = sort_space_bytes(count);
		match->sorting_bytes = spare + space;
		match->sorting_space = take_scratch(match->device, &match->sorting_bytes);
	}
	catch (const failure &f)
	{
		if (f.status != GJD_NO_MEMORY && f.status != GJD_BUSY)
			throw;
		return false;
	}
	match->list = launch_sort(items, (uint64_t *) match->sorting_space, count,
							  match->sorting_space + spare, space, match->totals,
							  match->device->execute);
	launch_report(match->report, match->totals, match->totals + 1, match->device->execute);
	note_execution(match);
	match->phase = gjd_match::sorting;
	return true;
}

/* Takes the step that the last report calls for. */
void
advance(gjd_match *match)
{
	uint64_t count = match->report->count;
	bool ordered = match->report->unordered == 0;

	switch (match->phase)
	{
		case gjd_match::counting:
			if (is_list(match) && count > match->window_items)
				return gather_whole(match);
			break;
		case gjd_match::checking:
			break;
		default:
			return finish(match, count, true);
	}
	if (!ordered && !match->windowed && start_sort(match))
		return;
	finish(match, count, ordered);
}

bool
is_reported(gjd_match *match)
{
	/* The flag is there sooner than the event, and cheaper to look at. */
	if (match->report->written != 0)
	{
		__sync_synchronize();
		return true;
	}
	return has_happened(match->executed) && match->report->written != 0;
}

void
collect_copies(gjd_match *match)
{
	while (!match->copies.empty() && has_happened(match->copies.front().copied))
	{
		match->state.delivered = std::max(match->state.delivered, match->copies.front().end);
		give_event(match->device, match->copies.front().copied);
		match->copies.erase(match->copies.begin());
	}
}

/* Loads the window with the items from the next to be copied. */
void
load_window(gjd_match *match)
{
	match->window_first = match->state.begun;
	launch_gather(job_of(match), match->window_first, match->window_items, match->window);
	note_execution(match);
	check(cudaStreamWaitEvent(match->device->out, match->executed, 0), "could not order streams");
}

}  // namespace

/* ---- entries ------------------------------------------------------------------------------- */

gjd_match *
begin_match(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *params)
{
	gjd_match *match = new gjd_match();
	column_view view = view_of(column);

	match->device = column->device;
	match->column = column;
	match->keyset = keyset;
	match->what = params->what;
	match->tiles = view.tiles;
	match->rows = column->pages * column->slots;
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
		take_memory(match);
		start(match);
	}
	catch (...)
	{
		/* Nothing was started unless CUDA failed; then what was must be over before it is freed. */
		if (match->executed)
		{
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
next_chunk(gjd_match *match, char *buffer, uint64_t capacity, gjd_chunk *chunk)
{
	uint64_t begun = match->state.begun;
	uint64_t n = std::min(capacity, match->state.items - begun);
	const char *from;

	chunk->first = begun;
	chunk->items = 0;
	if (n == 0)
		return GJD_OK;
	collect_copies(match);
	if (match->copies.size() >= gjd_match::max_copies)
		return GJD_PENDING;
	if (match->what == GJD_BITMAP)
		from = (const char *) (match->bitmap + begun);
	else if (!match->windowed)
		from = (const char *) (match->list + begun);
	else
	{
		if (match->window_first == pool::none || begun == match->window_first + match->window_items)
		{
			if (!match->copies.empty())
				return GJD_PENDING;
			load_window(match);
		}
		n = std::min(n, match->window_first + match->window_items - begun);
		from = (const char *) (match->window + (begun - match->window_first));
	}
	start_copy(match, buffer, from, n * match->state.item_bytes, begun + n);
	match->state.begun += n;
	chunk->items = n;
	return GJD_OK;
}

gjd_status
end_match(gjd_match *match)
{
	match->ending = true;
	if (!has_happened(match->executed))
		return GJD_PENDING;
	collect_copies(match);
	if (!match->copies.empty())
		return GJD_PENDING;
	free_match(match);
	return GJD_OK;
}

}  // namespace gjd
