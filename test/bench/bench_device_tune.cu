/*
 * bench_device_tune.cu
 *	  Compares launch policies, on 200 M rows of 4 bytes, bitmap results, cold: the basis for
 *	  cuda/kernels/policy.cuh. A separate program: cuda/build/tune_device.
 */
#include "bench_device.cuh"

using namespace gjd;
using namespace bench;

template <uint32_t n_threads, uint32_t n_blocks, uint32_t kept, uint32_t at_once>
struct candidate
{
	static constexpr uint32_t threads = n_threads;
	static constexpr uint32_t blocks = n_blocks;
	static constexpr uint32_t kept_bytes = kept;
	static constexpr uint32_t verified_at_once = at_once;
};

template <class Policy>
static void
launch(setup &s, const match_output &out)
{
	const gjd_keyset *keyset = s.keyset;
	const keyset_parts &parts = keyset->parts;
	uint32_t limit = (uint32_t) ((uint64_t) keyset->greatest - (uint64_t) keyset->least + 1);
	uint32_t shift = 32;

	for (uint32_t words = parts.filter_words; words > 1; words /= 2)
		shift--;
	switch (keyset->strategy)
	{
		case GJD_BY_SPAN:
			return launch_kernel<Policy, int32_t, span_filter<int32_t>, true>(
				s.column, keyset,
				{parts.filter, parts.filter_words, limit, (int32_t) keyset->least}, out);
		case GJD_BY_ONE_BIT:
			return launch_kernel<Policy, int32_t, one_bit_filter<int32_t>, true>(
				s.column, keyset, {parts.filter, parts.filter_words, shift}, out);
		case GJD_BY_TWO_BITS:
			return launch_kernel<Policy, int32_t, two_bits_filter<int32_t>, true>(
				s.column, keyset, {parts.filter, parts.filter_words}, out);
		default:
			return launch_kernel<Policy, int32_t, global_bloom_filter<int32_t, true>, true>(
				s.column, keyset,
				{parts.filter, parts.filter_words, parts.global_words, parts.global}, out);
	}
}

template <class Policy>
static void
measure(setup &s, double matching)
{
	match_output out = {s.bitmap, s.tile_start, s.totals, 0};
	double ms = time_it(s, true, [&] { launch<Policy>(s, out); });

	printf("%-12s %5.3f keys %8llu threads %4u kept %4u at once %u: %.4f ms\n",
		   name_of(s.keyset->strategy), matching, (unsigned long long) s.keyset->count,
		   Policy::threads, Policy::kept_bytes, Policy::verified_at_once, ms);
	fflush(stdout);
}

int
main(void)
{
	gjd_open_params params = {sizeof(params), 0, nullptr, (uint64_t) 8 << 30, 0};
	gjd_device *device;
	struct
	{
		uint64_t keys;
		bool dense;
		double matching;
	} const cases[] = {{4000, true, 0.05},	   {4000, false, 0.001},   {4000, false, 0.05},
					   {100000, false, 0.001}, {100000, false, 0.05}, {1000000, false, 0.001}};

	if (gjd_get_api(GJD_API_VERSION)->device_open(&params, &device, nullptr) != GJD_OK)
		return 1;
	try
	{
		setup s(device, 200000000, 4);

		for (const auto &c : cases)
		{
			s.fill<int32_t>(c.keys, c.dense, c.matching);
			measure<candidate<640, 1, 1280, 1>>(s, c.matching);
			measure<candidate<640, 1, 1280, 2>>(s, c.matching);
			measure<candidate<640, 1, 1024, 2>>(s, c.matching);
			measure<candidate<768, 1, 1024, 1>>(s, c.matching);
			measure<candidate<768, 1, 1024, 2>>(s, c.matching);
			measure<candidate<512, 1, 1280, 1>>(s, c.matching);
			measure<candidate<512, 1, 1280, 2>>(s, c.matching);
			measure<candidate<512, 1, 1536, 3>>(s, c.matching);
			measure<candidate<384, 1, 1536, 2>>(s, c.matching);
		}
	}
	catch (const failure &f)
	{
		fprintf(stderr, "%s: %s\n", f.what, f.detail ? f.detail : "");
		return 1;
	}
	return 0;
}
