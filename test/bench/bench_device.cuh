/*
 * bench_device.cuh
 *	  The test bed of the device benchmark: columns with known shares of matches, a check of
 *	  the answers, clocks, and lines of output.
 */
#ifndef GPUJOIN_BENCH_DEVICE_CUH
#define GPUJOIN_BENCH_DEVICE_CUH

#include "kernels/launch.cuh"
#include "library/library.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bench
{

using namespace gjd;

constexpr uint32_t slots_of(uint32_t key_bytes) { return key_bytes == 4 ? 800 : 576; }
constexpr int repeats = 15;
constexpr uint64_t flush_bytes = 512 << 20;
constexpr int64_t dense_span = 80000; /* of a dense set */

__host__ __device__ inline uint64_t
mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

struct setup
{
	gjd_device *device;
	cudaStream_t stream;
	uint32_t processors, key_bytes;
	uint64_t rows, tiles;
	gjd_column *column;
	gjd_keyset *keyset = nullptr;
	char *flat;	 /* the keys again, contiguous, for algorithms that need that */
	char *space; /* for lists and for the work space of the other algorithms */
	char *flush;
	uint32_t *bitmap;
	uint64_t *tile_start, *totals;
	void *scan_space;
	uint64_t scan_bytes;
	uint32_t *tile_list;

	/* carried: columns of four bytes, all zero */
	setup(gjd_device *device, uint64_t rows, uint32_t key_bytes, uint32_t carried = 0);
	~setup();
	template <class Key> void fill(uint64_t keys, bool dense, double matching);
	/* keys in order, with the bounds of pages; returns the number of matching rows */
	template <class Key> uint64_t fill_in_order(uint64_t keys, double matching);
	setup(const setup &) = delete;
	setup &operator=(const setup &) = delete;
};

struct result
{
	const char *span;
	double matching;
	bool cold;
	double floor_ms;
};

const char *name_of(gjd_strategy strategy);
void print(const setup &s, const result &r, const char *what, double ms);
template <class Key> bool check_answer(setup &s);

/* requests through the interface: bench_device_requests.cu */
void measure_requests(const gjd_api *api, gjd_device *device);

/* reductions and limits, given registered memory: bench_device_reduce.cu */
void measure_reductions(const gjd_api *api, gjd_device *device, char *arena);

template <class Work>
double
time_it(setup &s, bool cold, Work work)
{
	std::vector<float> times;
	cudaEvent_t begin, end;

	check(cudaEventCreate(&begin), "event");
	check(cudaEventCreate(&end), "event");
	work();
	for (int i = 0; i < repeats; i++)
	{
		float ms;

		if (cold)
			check(cudaMemsetAsync(s.flush, i, flush_bytes, s.stream), "flush");
		check(cudaEventRecord(begin, s.stream), "event");
		work();
		check(cudaEventRecord(end, s.stream), "event");
		check(cudaEventSynchronize(end), "benchmark kernel");
		check(cudaEventElapsedTime(&ms, begin, end), "event");
		times.push_back(ms);
	}
	cudaEventDestroy(begin);
	cudaEventDestroy(end);
	std::sort(times.begin(), times.end());
	return times[times.size() / 2];
}

}  // namespace bench

#endif
