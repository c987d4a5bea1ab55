/*
 * reduce.cu
 *	  Reductions: memory and inputs of the kernels, and delivery of the groups.
 *
 * Groups and rest must be of one state of the column. The kernels that make them follow the scan
 * directly; if the match has to scan again, everything is made again, with the pages that are newer
 * than the bound by then.
 */
#include "library.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t counters_at = 8; /* in the match's totals, like ... */
constexpr uint32_t few_groups_at = 32; /* ... what is cleared, if there is room for it */

uint64_t
rounded(uint64_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

reduction_counters *
counters_of(const gjd_match *match)
{
	return (reduction_counters *) (match->totals + counters_at);
}

/* Lists the pages to leave out after the map, in page-locked memory. */
void
list_pages(gjd_match *match)
{
	reducing *r = match->reduction;
	uint32_t *list = (uint32_t *) (r->locked + r->left_out_at);

	if (!newer_list(match->column->newer, match->column->versions.data(), r->asked.bound,
					r->state.newer, &r->state.n_newer))
		throw_status(GJD_TOO_NEW, "too many pages are newer than the bound");
	r->n_left_out = (uint32_t) (std::set_union(r->named, r->named + r->asked.n_left_out,
											   r->state.newer, r->state.newer + r->state.n_newer,
											   list) - list);
}

/* Returns true if slots and words have room in the totals, with which they are cleared. */
bool
groups_are_in_totals(const reducing *r)
{
	return r->cleared_bytes <= policy::totals_bytes - few_groups_at * sizeof(uint64_t);
}

char *
cleared_memory(const gjd_match *match)
{
	const reducing *r = match->reduction;

	return groups_are_in_totals(r) ? (char *) (match->totals + few_groups_at) : r->scratch;
}

char *
elements_of(const gjd_match *match)
{
	const reducing *r = match->reduction;

	return r->asked.grouping == GJD_DISTINCT ? cleared_memory(match) + r->sums_at
											 : r->scratch + r->cleared_bytes;
}

/* Returns true if the only input is a map short enough to be a parameter of the kernel. */
bool
inputs_are_few(const reducing *r)
{
	return r->asked.map_bytes <= policy::few_map_bytes && r->asked.weights == nullptr &&
		   r->n_left_out == 0;
}

reduction_job
job_of_reduction(const gjd_match *match)
{
	const reducing *r = match->reduction;
	char *cleared = cleared_memory(match);
	reduction_job job = {};

	job.column = match->column;
	job.keyset = match->keyset;
	job.asked = &r->asked;
	job.rest_column = match->rest_column;
	job.filter = &match->filter;
	job.few_map = inputs_are_few(r) ? (const uint8_t *) r->locked : nullptr;
	job.map = (const uint8_t *) r->inputs;
	job.left_out = (const uint32_t *) (r->inputs + r->left_out_at);
	job.n_left_out = r->n_left_out;
	job.sums = (uint64_t *) (cleared + r->sums_at);
	job.elements = (uint64_t *) elements_of(match);
	job.counters = counters_of(match);
	job.slots = (uint64_t *) cleared;
	if (r->asked.weights != nullptr)
		job.weights = (const uint32_t *) (r->inputs + r->weights_at);
	if (r->asked.only_shared)
		job.shared = (uint32_t *) (cleared + r->shared_at);
	return job;
}

/* Has a kernel write the first elements, if it can reach the caller's memory. */
void
deliver_first_groups(gjd_match *match, reduction_job *job)
{
	reducing *r = match->reduction;
	uint64_t elements = std::min(r->asked.first_capacity,
								 possible_groups(match->keyset, r->asked));
	uint64_t bytes = elements * r->state.element_bytes;
	const gjd_device::region *region;

	r->written = 0;
	if (r->asked.first_groups == nullptr || bytes == 0 || bytes > policy::written_bytes ||
		(uintptr_t) r->asked.first_groups % 8 != 0)
		return;
	region = region_of(match->device, r->asked.first_groups, bytes);
	if (region == nullptr || region->mapped == nullptr)
		return;
	job->first_elements = region->mapped + ((char *) r->asked.first_groups - region->base);
	job->first_capacity = elements;
	r->written = elements;
}

/* Copies the memory that the parameters point to, and checks it. */
void
copy_inputs(reducing *r)
{
	const gjd_reduction &asked = r->asked;
	uint32_t *weights = (uint32_t *) (r->locked + r->weights_at);

	if (asked.map_bytes > 0)
		memcpy(r->locked, asked.map, asked.map_bytes);
	if (asked.weights != nullptr)
		std::copy_n(asked.weights, asked.n_keys, weights);
	require(gjd_weights_are_valid(&asked, asked.weights ? weights : nullptr),
			"invalid weight of a key");
	std::copy_n(asked.left_out, asked.n_left_out, r->named);
}

}  // namespace

/* Allocates memory and copies what the parameters point to. */
void
begin_reduction(gjd_match *match, const gjd_reduction *asked)
{
	const gjd_shape &shape = match->column->shape;
	reducing *r = match->reduction = new reducing();
	bool distinct = asked->grouping == GJD_DISTINCT;
	uint32_t words = gjd_element_words(asked, &shape);
	uint64_t key_bytes = rounded(asked->n_keys * sizeof(uint32_t));

	r->asked = *asked;
	if (asked->grouping == GJD_BY_COLUMNS) /* groups are no more than rows */
		r->asked.room = std::min(asked->room, std::max<uint64_t>(1, match->tiles * tile_rows));
	r->state.element_bytes = words * 8;
	r->weights_at = rounded(asked->map_bytes);
	r->left_out_at = r->weights_at + (asked->weights != nullptr ? key_bytes : 0);
	r->input_bytes = r->left_out_at + (GJD_MAX_LEFT_OUT + GJD_MAX_NEWER) * sizeof(uint32_t);

	uint64_t places = group_places(match->keyset, r->asked);
	uint64_t slots = asked->grouping == GJD_BY_COLUMNS ? rounded(places * 8) : 0;
	uint64_t sums = rounded(places * reduction_sum_words(r->asked, shape) * 8);
	uint64_t shared = asked->only_shared ? rounded(places / 8 + 4) : 0;
	uint64_t elements =
		distinct ? 0 : rounded(possible_groups(match->keyset, r->asked) * words * 8);

	r->cleared_bytes = slots + sums + shared;
	r->scratch_bytes = r->cleared_bytes + elements + r->input_bytes;
	r->scratch = take_scratch(match->device, &r->scratch_bytes, match->keyset->bytes);
	r->sums_at = slots;
	r->shared_at = slots + sums;
	r->inputs = r->scratch + r->cleared_bytes + elements;
	r->locked_bytes = r->input_bytes;
	r->locked = require_locked(match->device, &r->locked_bytes, 0);
	copy_inputs(r);
	list_pages(match);
}

void
end_reduction(gjd_match *match)
{
	reducing *r = match->reduction;

	if (r == nullptr)
		return;
	give_scratch(match->device, r->scratch, r->scratch_bytes);
	if (r->locked)
		give_locked(match->device, r->locked, r->locked_bytes);
	delete r;
}

/*
 * Puts the reduction on the stream, after a scan; the match's totals are zero. If items are
 * postponed, its kernels report, and the number of items is that of the rows left in the bitmap,
 * though its tiles have not been summed up.
 */
void
reduce(gjd_match *match, const match_output &out)
{
	cudaStream_t stream = match->device->execute;
	reducing *r = match->reduction;
	uint64_t bytes = r->left_out_at + r->n_left_out * sizeof(uint32_t);
	reduction_job job = job_of_reduction(match);
	report_job report = report_of(match, (const uint64_t *) &job.counters->left);

	if (!inputs_are_few(r))
		check(cudaMemcpyAsync(r->inputs, r->locked, bytes, cudaMemcpyHostToDevice, stream),
			  "could not copy a reduction's inputs");
	if (!groups_are_in_totals(r))
		check(cudaMemsetAsync(r->scratch, 0, r->cleared_bytes, stream), "could not clear groups");
	deliver_first_groups(match, &job);
	if (match->postponed)
		job.report = &report;
	launch_reduction(job, out, match->totals + 3);
	match->reports += match->postponed;
}

/* Lists the pages to leave out again; what was started with the previous list is over. */
void
reduce_again(gjd_match *match)
{
	list_pages(match);
}

const reduction_counters *
reported_counters(const gjd_match *match)
{
	return match->reduction != nullptr ? counters_of(match) : nullptr;
}

/* Throws if a reduction that has reported has more groups than room. */
void
require_room(const gjd_match *match)
{
	const reducing *r = match->reduction;

	if (r != nullptr && r->asked.grouping == GJD_BY_COLUMNS &&
		match->report->groups > r->asked.room)
		throw_status(GJD_TOO_MANY, "more groups than there is room for");
}

/* Makes the groups final, and starts to copy the first ones if no kernel has written them. */
void
finish_reduction(gjd_match *match)
{
	reducing *r = match->reduction;
	gjd_chunk chunk;

	r->state.rows = match->report->reduced;
	r->state.nulls = match->report->nulls;
	r->state.elements = match->report->elements;
	r->state.groups = match->report->groups;
	if (r->written > 0)
		r->state.begun = r->state.delivered = std::min(r->written, r->state.elements);
	else if (r->asked.first_groups != nullptr && r->asked.first_capacity > 0)
		next_groups(match, r->asked.first_groups, r->asked.first_capacity, &chunk);
}

gjd_status
next_groups(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk)
{
	gjd_device *device = match->device;
	reducing *r = match->reduction;
	uint64_t n = std::min(capacity, r->state.elements - r->state.begun);

	chunk->first = r->state.begun;
	chunk->items = 0;
	if (n == 0)
		return GJD_OK;
	collect_copies(match);
	if (match->copies.size() >= gjd_match::max_copies)
		return GJD_PENDING;

	gjd_match::copy copy = {r->state.begun + n, take_event(device), true};
	uint64_t bytes = r->state.element_bytes;

	match->copies.push_back(copy);
	check(cudaMemcpyAsync(buffer, elements_of(match) + r->state.begun * bytes, n * bytes,
						  cudaMemcpyDeviceToHost, device->out),
		  "could not copy groups");
	check(cudaEventRecord(copy.copied, device->out), "could not record an event");
	r->state.begun += n;
	chunk->items = n;
	return GJD_OK;
}

}  // namespace gjd
