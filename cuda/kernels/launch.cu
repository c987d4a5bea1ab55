/*
 * launch.cu
 *	  Selects the kernel for the strategy of a key set.
 */
#include "launch.cuh"

namespace gjd
{

namespace
{

template <class Key, class Filter>
void
launch_filter(const gjd_column *column, const gjd_keyset *keyset, const Filter &filter,
			  const match_output &out)
{
	if (out.bitmap != nullptr)
		launch_kernel<policy::match_wide, Key, Filter, true>(column, keyset, filter, out);
	else
		launch_kernel<policy::match_wide, Key, Filter, false>(column, keyset, filter, out);
}

template <class Key, uint32_t n>
void
launch_constants(const gjd_column *column, const gjd_keyset *keyset, const match_output &out)
{
	constants_filter<Key, n> filter = {};

	for (uint32_t i = 0; i < n; i++)
		filter.keys[i] = (Key) keyset->constants[i];
	launch_filter<Key>(column, keyset, filter, out);
}

template <class Key, bool prefilter>
void
launch_global(const gjd_column *column, const gjd_keyset *keyset, const match_output &out)
{
	const keyset_parts &parts = keyset->parts;
	uint32_t limit = (uint32_t) ((uint64_t) keyset->greatest - (uint64_t) keyset->least + 1);

	if (keyset->strategy == GJD_BY_GLOBAL_SPAN)
		launch_filter<Key>(column, keyset,
						   global_span_filter<Key, prefilter>{parts.filter, parts.filter_words,
															  limit, (Key) keyset->least,
															  parts.global},
						   out);
	else
		launch_filter<Key>(column, keyset,
						   global_bloom_filter<Key, prefilter>{parts.filter, parts.filter_words,
															   parts.global_words, parts.global},
						   out);
}

template <class Key>
void
launch_strategy(const gjd_column *column, const gjd_keyset *keyset, const match_output &out)
{
	const keyset_parts &parts = keyset->parts;
	uint32_t limit = (uint32_t) ((uint64_t) keyset->greatest - (uint64_t) keyset->least + 1);
	uint32_t shift = 32;

	switch (keyset->strategy)
	{
		case GJD_BY_CONSTANTS:
			if (keyset->count <= 2)
				return launch_constants<Key, 2>(column, keyset, out);
			return launch_constants<Key, policy::most_constants>(column, keyset, out);
		case GJD_BY_SPAN:
			return launch_filter<Key>(column, keyset,
									  span_filter<Key>{parts.filter, parts.filter_words, limit,
													   (Key) keyset->least},
									  out);
		case GJD_BY_ONE_BIT:
			for (uint32_t words = parts.filter_words; words > 1; words /= 2)
				shift--;
			return launch_filter<Key>(
				column, keyset, one_bit_filter<Key>{parts.filter, parts.filter_words, shift}, out);
		case GJD_BY_TWO_BITS:
			return launch_filter<Key>(
				column, keyset, two_bits_filter<Key>{parts.filter, parts.filter_words}, out);
		case GJD_BY_GLOBAL_SPAN:
		case GJD_BY_GLOBAL_BLOOM:
			if (parts.filter_words > 0)
				return launch_global<Key, true>(column, keyset, out);
			return launch_global<Key, false>(column, keyset, out);
		default:
			throw_status(GJD_INTERNAL, "key set without a strategy");
	}
}

}  // namespace

/* The empty set has no kernel: its counts and bitmap are already zero. */
void
launch_match(const gjd_column *column, const gjd_keyset *keyset, const match_output &out)
{
	if (column->pages == 0 || keyset->strategy == GJD_BY_NOTHING)
		return;
	if (keyset->key_bytes == 4)
		launch_strategy<int32_t>(column, keyset, out);
	else
		launch_strategy<int64_t>(column, keyset, out);
}

}  // namespace gjd
