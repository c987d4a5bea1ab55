/*
 * batch.cu
 *	  Postpones launches, and makes those of a batch.
 */
#include "kernels.cuh"

#include <algorithm>
#include <functional>

namespace gjd
{

namespace
{

uint32_t
rounded(uint32_t bytes)
{
	return (bytes + 15) / 16 * 16;
}

bool
comes_before(const postponed &a, const postponed &b)
{
	if (a.stage != b.stage)
		return a.stage < b.stage;
	return a.launch != b.launch && std::less<>()(a.launch, b.launch);
}

bool
are_together(const postponed &a, const postponed &b)
{
	return a.stage == b.stage && a.launch == b.launch;
}

/* Number of launches, from first on, that become one */
size_t
count_together(const std::vector<postponed> &launches, size_t first)
{
	size_t end = first + 1;

	while (end < launches.size() && are_together(launches[first], launches[end]))
		end++;
	return end - first;
}

/* Returns a part of the page-locked memory that no copy reads any more. */
char *
next_staged(launch_batch &batch)
{
	uint32_t slot = batch.next_slot++ % policy::batch_slots;

	if (!has_happened(batch.copied[slot]))
		check(cudaEventSynchronize(batch.copied[slot]), "device failed while working");
	return batch.staged + (uint64_t) slot * policy::batch_bytes;
}

/*
 * Copies the jobs of launches that are not alone, in order. The copy waits for the kernels of the
 * last batch, which are before it on the stream.
 */
void
copy_jobs(gjd_device *device, const std::vector<postponed> &launches, const char *jobs)
{
	launch_batch &batch = device->batch;
	char *staged = nullptr;
	uint32_t bytes = 0;

	for (size_t first = 0; first < launches.size();)
	{
		size_t n = count_together(launches, first);

		for (size_t i = first; i < first + n && n > 1; i++)
		{
			if (staged == nullptr)
				staged = next_staged(batch);
			memcpy(staged + bytes, jobs + launches[i].at, launches[i].bytes);
			bytes += rounded(launches[i].bytes);
		}
		first += n;
	}
	if (staged == nullptr)
		return;
	check(cudaMemcpyAsync(batch.on_device, staged, bytes, cudaMemcpyHostToDevice, device->execute),
		  "could not copy the jobs of a batch");
	check(cudaEventRecord(batch.copied[(batch.next_slot - 1) % policy::batch_slots],
						  device->execute),
		  "could not record an event");
}

/*
 * Returns the number of blocks for each of n jobs: those of all jobs together are a few times what
 * one of them would use alone.
 */
uint32_t
blocks_each(const std::vector<postponed> &launches, size_t first, size_t n)
{
	uint32_t blocks = 0;
	uint64_t share;

	for (size_t i = first; i < first + n; i++)
		blocks = std::max(blocks, launches[i].blocks);
	share = ((uint64_t) blocks * policy::batch_waves + n - 1) / n;
	return launches[first].strides && share < blocks ? (uint32_t) share : blocks;
}

}  // namespace

void
postpone(gjd_device *device, const postponed &launch, const void *job)
{
	launch_batch &batch = device->batch;

	if (batch.jobs.size() + rounded(launch.bytes) > policy::batch_bytes)
		flush_batch(device);

	postponed noted = launch;

	noted.at = (uint32_t) batch.jobs.size();
	batch.jobs.insert(batch.jobs.end(), (const char *) job, (const char *) job + launch.bytes);
	batch.jobs.resize(rounded((uint32_t) batch.jobs.size()));
	batch.launches.push_back(noted);
}

/*
 * Makes all postponed launches. A failure is not that of a single request, which has got all its
 * memory before: the device is lost.
 */
void
flush_batch(gjd_device *device)
{
	launch_batch &batch = device->batch;
	std::vector<postponed> launches;
	std::vector<char> jobs;
	const char *on_device = batch.on_device;

	if (batch.requests > 1)
	{
		batch.made++;
		batch.served += batch.requests;
	}
	batch.requests = 0;
	if (batch.launches.empty())
		return;
	launches.swap(batch.launches);
	jobs.swap(batch.jobs);
	std::stable_sort(launches.begin(), launches.end(), comes_before);
	try
	{
		copy_jobs(device, launches, jobs.data());
		for (size_t first = 0; first < launches.size();)
		{
			const postponed &one = launches[first];
			size_t n = count_together(launches, first);
			uint32_t shared_bytes = 0;

			for (size_t i = first; i < first + n; i++)
				shared_bytes = std::max(shared_bytes, launches[i].shared_bytes);
			one.launch(device, on_device, jobs.data() + one.at, (uint32_t) n,
					   blocks_each(launches, first, n), shared_bytes);
			if (n > 1)
				on_device += n * rounded(one.bytes);
			first += n;
		}
	}
	catch (const failure &f)
	{
		throw failure{GJD_DEVICE_LOST, f.code, f.what, f.detail};
	}
}

/* Precedes a launch that cannot be postponed, and whatever else must come after those that are. */
void
settle(gjd_device *device)
{
	if (device->batch.collecting)
		flush_batch(device);
}

}  // namespace gjd
