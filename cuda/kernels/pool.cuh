/*
 * pool.cuh
 *	  Allocates pieces of one reserved range of memory: extents from the bottom, scratch from
 *	  the top, so that neither fragments the other's space.
 *
 * The bookkeeping is one bit per granule, on the host; nothing is written into the memory itself.
 */
#ifndef GPUJOIN_CUDA_KERNELS_POOL_CUH
#define GPUJOIN_CUDA_KERNELS_POOL_CUH

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gjd
{

class pool
{
  public:
	static constexpr uint64_t none = ~(uint64_t) 0;

	void
	reset(uint64_t bytes, uint64_t granule)
	{
		granule_ = granule;
		granules_ = bytes / granule;
		used_.assign((granules_ + 63) / 64, 0);
		mark(granules_, used_.size() * 64 - granules_); /* they do not exist */
	}

	uint64_t
	round_up(uint64_t bytes) const
	{
		return (bytes + granule_ - 1) / granule_ * granule_;
	}

	uint64_t
	size() const
	{
		return granules_ * granule_;
	}

	/* Takes the lowest free piece that starts at a multiple of its own size. Returns its offset. */
	uint64_t
	take_low(uint64_t bytes, uint64_t align)
	{
		uint64_t n = bytes / granule_;
		uint64_t step = align / granule_;

		for (uint64_t at = 0; at + n <= granules_; at += step)
			if (run_is_free(at, n))
				return mark(at, n);
		return none;
	}

	/* Takes the highest free piece. Returns its offset. */
	uint64_t
	take_high(uint64_t bytes)
	{
		uint64_t n = round_up(bytes) / granule_;
		uint64_t run = 0; /* free granules from "at" on */

		for (uint64_t at = used_.size() * 64; at > 0;)
		{
			/* The granules below "at" in its word, the next one as the highest bit */
			uint64_t bits = used_[(at - 1) / 64] << (63 - (at - 1) % 64);
			uint64_t left = (at - 1) % 64 + 1;
			uint64_t free = bits == 0 ? left : std::min(left, leading_zeros(bits));

			run += free;
			at -= free;
			if (run >= n)
				return mark(at + run - n, n);
			if (free == left)
				continue;
			run = 0;
			at -= std::min(left - free, leading_zeros(~(bits << free)));
		}
		return none;
	}

	void
	give(uint64_t offset, uint64_t bytes)
	{
		each_word(offset / granule_, round_up(bytes) / granule_,
				  [this](uint64_t word, uint64_t bits) { used_[word] &= ~bits; });
	}

  private:
	static uint64_t
	leading_zeros(uint64_t bits)
	{
		return bits == 0 ? 64 : (uint64_t) __builtin_clzll(bits);
	}

	/* Calls a function with each word that has some of n granules, and their bits. */
	template <class Function>
	static void
	each_word(uint64_t at, uint64_t n, Function function)
	{
		while (n > 0)
		{
			uint64_t here = std::min(n, 64 - at % 64);

			function(at / 64, ~(uint64_t) 0 >> (64 - here) << at % 64);
			at += here;
			n -= here;
		}
	}

	bool
	run_is_free(uint64_t at, uint64_t n) const
	{
		uint64_t used = 0;

		each_word(at, n, [&](uint64_t word, uint64_t bits) { used |= used_[word] & bits; });
		return used == 0;
	}

	uint64_t
	mark(uint64_t at, uint64_t n)
	{
		each_word(at, n, [this](uint64_t word, uint64_t bits) { used_[word] |= bits; });
		return at * granule_;
	}

	uint64_t granule_ = 1;
	uint64_t granules_ = 0;
	std::vector<uint64_t> used_; /* one bit per granule */
};

}  // namespace gjd

#endif
