/*
 * delivery.cu
 *	  Delivery of a match's result to the caller's memory.
 */
#include "library.cuh"

#include <algorithm>

namespace gjd
{

bool
is_list(const gjd_match *match)
{
	return match->what != GJD_COUNT && match->what != GJD_BITMAP;
}

bool
has_tids(const gjd_match *match)
{
	return match->what == GJD_TIDS || match->what == GJD_ENTRIES;
}

gather_job
job_of(const gjd_match *match)
{
	return gather_job{match->column, match->what,	match->bitmap, match->tile_start,
					  match->tiles,	 match->want};
}

void
note_execution(gjd_match *match)
{
	if (match->executed == nullptr)
		match->executed = take_event(match->device);
	settle(match->device);
	check(cudaEventRecord(match->executed, match->device->execute), "could not record an event");
}

/*
 * Fails unless the column is unchanged since the scan, because a window of entries is gathered by
 * the scan's bitmap. TIDs alone do not require this: a TID newer than the scan is at worst a
 * superfluous one, and one that is gone was erased.
 */
void
require_unchanged(const gjd_match *match)
{
	if (match->what == GJD_ENTRIES && match->seen != match->column->ticket)
		throw_status(GJD_NO_MEMORY,
					 "column was written to, and its result is larger than the memory");
}

namespace
{

/* Copies entries first .. first + n of the list into a part with the given room. */
void
copy_entries(gjd_match *match, char *part, uint64_t room, uint64_t first, uint64_t n)
{
	gjd_device *device = match->device;
	const gjd_entry_layout &from = match->list_layout;
	gjd_entry_layout to;

	gjd_entry_layout_of(&match->column->shape, match->want, room, &to);
	for (uint32_t w = 0; w < 4; w++)
	{
		const char *source = match->list + from.widths[w].at + (first << w);
		char *target = part + to.widths[w].at;
		uint32_t arrays = from.widths[w].arrays;

		if (arrays > 1 && from.widths[w].pitch <= device->properties.memPitch &&
			to.widths[w].pitch <= device->properties.memPitch)
		{
			check(cudaMemcpy2DAsync(target, to.widths[w].pitch, source, from.widths[w].pitch,
									n << w, arrays, cudaMemcpyDeviceToHost, device->out),
				  "could not copy results");
			continue;
		}
		for (uint32_t a = 0; a < arrays; a++)
			check(cudaMemcpyAsync(target + a * to.widths[w].pitch,
								  source + a * from.widths[w].pitch, n << w,
								  cudaMemcpyDeviceToHost, device->out),
				  "could not copy results");
	}
}

/*
 * Starts copying items of the list into the caller's memory, after the kernels that produce them.
 */
void
start_copy(gjd_match *match, char *buffer, uint64_t room, uint64_t first, uint64_t n, uint64_t end)
{
	gjd_device *device = match->device;
	gjd_match::copy copy = {end, take_event(device), false};
	uint64_t bytes = match->state.item_bytes;

	match->copies.push_back(copy);
	if (match->what == GJD_ENTRIES)
		copy_entries(match, buffer, room, first, n);
	else
		check(cudaMemcpyAsync(buffer, match->list + first * bytes, n * bytes,
							  cudaMemcpyDeviceToHost, device->out),
			  "could not copy results");
	check(cudaEventRecord(copy.copied, device->out), "could not record an event");
}

/* Gathers the items from the next one to be copied into the window. */
void
load_window(gjd_match *match)
{
	require_unchanged(match);
	match->window_first = match->state.begun;
	if (match->executed == nullptr) /* created only when it is needed to mark an end */
		match->executed = take_event(match->device);
	launch_gather(job_of(match), match->window_first, match->window_items, match->window,
				  &match->window_layout);
	note_execution(match);
	check(cudaStreamWaitEvent(match->device->out, match->executed, 0), "could not order streams");
}

/*
 * Returns the number of items to deliver into the first buffer without match_next(), and the
 * buffer's length; 0 if there is no such buffer or it is not registered, because a copy to other
 * memory would wait for the kernels.
 */
uint64_t
first_items(const gjd_match *match, uint64_t *bytes, const gjd_device::region **region)
{
	uint64_t most = match->what == GJD_BITMAP ? match->state.items : match->window_items;
	uint64_t n = std::min(match->first_capacity, most);

	if (match->first_buffer == nullptr || n == 0)
		return 0;
	*bytes = n * match->state.item_bytes;
	if (match->what == GJD_ENTRIES)
	{
		gjd_entry_layout part;

		gjd_entry_layout_of(&match->column->shape, match->want, match->first_capacity, &part);
		*bytes = part.bytes;
	}
	*region = region_of(match->device, match->first_buffer, *bytes);
	return *region != nullptr ? n : 0;
}

/* Fills in the arrays of a result by width, in a part with the given room, or in the window. */
delivery_job
delivery_of(const gjd_match *match, char *to)
{
	const gjd_entry_layout &from = match->window_layout;
	delivery_job job = {};
	gjd_entry_layout part;

	job.blocks_done = (uint32_t *) (match->totals + 4);
	if (match->what != GJD_ENTRIES)
	{
		job.widths[3] = {match->window, to, 0, 0, 1};
		return job;
	}
	gjd_entry_layout_of(&match->column->shape, match->want, match->first_capacity, &part);
	for (uint32_t w = 0; w < 4; w++)
		job.widths[w] = {match->window + from.widths[w].at, to + part.widths[w].at,
						 from.widths[w].pitch, part.widths[w].pitch, from.widths[w].arrays};
	return job;
}

/*
 * Has a kernel write the first items into the caller's memory, and the report after them. For
 * small results, which can come at a high rate, one launch replaces two events, a wait, a copy
 * per width and a report, and the kernel knows the number of items. Returns false, without doing
 * anything, if that is not possible or not worthwhile.
 */
bool
deliver_first(gjd_match *match, const report_job &job)
{
	const gjd_device::region *region;
	uint64_t bytes;
	uint64_t n = is_list(match) ? first_items(match, &bytes, &region) : 0;

	if (n == 0 || bytes > policy::written_bytes || region->mapped == nullptr ||
		(uintptr_t) match->first_buffer % sizeof(uint4) != 0)
		return false;

	delivery_job delivery =
		delivery_of(match, region->mapped + (match->first_buffer - region->base));

	delivery.most = n;
	launch_delivery(match->device, delivery, job);
	match->written = n;
	return true;
}

/* Sends the first items before their number is known. */
void
send_first(gjd_match *match)
{
	const gjd_device::region *region;
	uint64_t bytes;
	uint64_t n = first_items(match, &bytes, &region);

	if (n == 0)
		return;
	note_execution(match);
	check(cudaStreamWaitEvent(match->device->out, match->executed, 0), "could not order streams");
	start_copy(match, match->first_buffer, match->first_capacity, 0, n, n);
}

}  // namespace

report_job
report_of(const gjd_match *match, const uint64_t *total)
{
	return report_job{match->report, match->reports + 1, total, match->totals + 1,
					  match->totals + 3, reported_counters(match)};
}

/* Has the kernels report their result; this is their last action for now. */
void
report(gjd_match *match, const uint64_t *total)
{
	launch_report(match->device, report_of(match, total));
	match->reports++;
}

void
report_first(gjd_match *match, const uint64_t *total)
{
	if (deliver_first(match, report_of(match, total)))
	{
		match->reports++;
		return;
	}
	report(match, total);
	send_first(match);
}

void
collect_copies(gjd_match *match)
{
	while (!match->copies.empty() && has_happened(match->copies.front().copied))
	{
		const gjd_match::copy &copy = match->copies.front();
		uint64_t &delivered = copy.of_groups ? match->reduction->state.delivered
											 : match->state.delivered;

		delivered = std::max(delivered, copy.end);
		give_event(match->device, match->copies.front().copied);
		match->copies.erase(match->copies.begin());
	}
}

gjd_status
next_chunk(gjd_match *match, char *buffer, uint64_t capacity, gjd_chunk *chunk)
{
	uint64_t begun = match->state.begun;
	uint64_t n = std::min(capacity, match->state.items - begun);
	uint64_t first = begun;

	chunk->first = begun;
	chunk->items = 0;
	if (n == 0)
		return GJD_OK;
	collect_copies(match);
	if (match->copies.size() >= gjd_match::max_copies)
		return GJD_PENDING;
	if (match->windowed)
	{
		if (match->window_first == pool::none || begun == match->window_first + match->window_items)
		{
			if (!match->copies.empty())
				return GJD_PENDING;
			load_window(match);
		}
		first = begun - match->window_first;
		n = std::min(n, match->window_items - first);
	}
	start_copy(match, buffer, capacity, first, n, begun + n);
	match->state.begun += n;
	chunk->items = n;
	return GJD_OK;
}

}  // namespace gjd
