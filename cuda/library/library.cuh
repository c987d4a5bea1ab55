/*
 * library.cuh
 *	  The host side of the CUDA library: conversion of exceptions to status values, and the
 *	  functions that its files share.
 */
#ifndef GPUJOIN_CUDA_LIBRARY_CUH
#define GPUJOIN_CUDA_LIBRARY_CUH

#include "kernels/kernels.cuh"

#include <string>

namespace gjd
{

/* Postpones launches while it lives, if a batch is open. */
class postponing
{
  public:
	explicit postponing(gjd_device *device) : device_(device)
	{
		device->batch.collecting = device->batch.open;
	}
	~postponing()
	{
		device_->batch.collecting = false;
	}

  private:
	gjd_device *device_;
};

/* cards.cu */
std::string name_of_emptiest();

/* device.cu */
cudaEvent_t take_event(gjd_device *device);
void give_event(gjd_device *device, cudaEvent_t event);

/*
 * Rounds bytes up; throws GJD_NO_MEMORY if there never is as much memory for a request that holds
 * "own" bytes already, and GJD_BUSY if others have to end first.
 */
char *take_scratch(gjd_device *device, uint64_t *bytes, uint64_t own = 0);
void give_scratch(gjd_device *device, char *memory, uint64_t bytes);
char *take_locked(gjd_device *device, uint64_t *bytes); /* NULL if none is free */
char *require_locked(gjd_device *device, uint64_t *bytes, uint64_t own); /* like take_scratch() */
void give_locked(gjd_device *device, char *memory, uint64_t bytes);

/* Returns the registered memory that contains a buffer, or NULL. */
const gjd_device::region *region_of(const gjd_device *device, const void *base, uint64_t bytes);
void use(gjd_device *device); /* throws if lost; makes the device current */

/* column.cu */
gjd_column *create_column(gjd_device *device, const gjd_shape &shape, uint64_t reserve_pages);
void reserve_column(gjd_column *column, uint64_t pages);
gjd_status write_pages(gjd_column *column, const gjd_page_head *heads, const char *images,
					   uint64_t count, uint64_t *accepted, uint64_t *ticket);
gjd_status poll_writes(gjd_column *column, uint64_t ticket);
gjd_status destroy_column(gjd_column *column);
void release_column(gjd_column *column); /* frees it if it is destroyed and unused */

/* keyset.cu */
gjd_keyset *create_keyset(gjd_device *device, const gjd_keyset_params *params);
void destroy_keyset(gjd_keyset *keyset);
void release_keyset(gjd_keyset *keyset);
void reap_keysets(gjd_device *device, bool all);

/* reduce.cu */
void begin_reduction(gjd_match *match, const gjd_reduction *asked);
void end_reduction(gjd_match *match);
void reduce(gjd_match *match, const match_output &out);
void reduce_again(gjd_match *match); /* prepares a second scan; throws */
const reduction_counters *reported_counters(const gjd_match *match); /* NULL without a reduction */
void require_room(const gjd_match *match); /* throws */
void finish_reduction(gjd_match *match);
gjd_status next_groups(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk);

/* match.cu */
gjd_match *begin_match(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *params,
					   const gjd_reduction *reduction);
gjd_status poll_match(gjd_match *match);
gjd_status end_match(gjd_match *match);

/* delivery.cu */
gjd_status next_chunk(gjd_match *match, char *buffer, uint64_t capacity, gjd_chunk *chunk);
bool is_list(const gjd_match *match); /* is the result a list of gathered items? */
bool has_tids(const gjd_match *match);
gather_job job_of(const gjd_match *match);
void note_execution(gjd_match *match);
void require_unchanged(const gjd_match *match); /* throws */
report_job report_of(const gjd_match *match, const uint64_t *total); /* the next report */
void report(gjd_match *match, const uint64_t *total);
void report_first(gjd_match *match, const uint64_t *total); /* with the first items */
void collect_copies(gjd_match *match);

/* Runs an entry: no exception escapes, and a lost device stays lost. */
template <class Body>
gjd_status
guarded(gjd_device *device, gjd_error *error, Body body) noexcept
{
	failure f;

	try
	{
		if (device != nullptr)
			use(device);
		return body();
	}
	catch (const failure &caught)
	{
		f = caught;
	}
	catch (const std::bad_alloc &)
	{
		f = failure{GJD_NO_HOST_MEMORY, 0, "out of memory", nullptr};
	}
	catch (...)
	{
		f = failure{GJD_INTERNAL, 0, "unexpected exception", nullptr};
	}
	if (f.status == GJD_DEVICE_LOST && device != nullptr)
		device->lost = true;
	return report_failure(f, error);
}

}  // namespace gjd

#endif
