/*
 * pool.cuh
 *	  Allocates pieces of one reserved range of memory: extents from the bottom, scratch from
 *	  the top, so that neither fragments the other's space.
 *
 * The bookkeeping is one bit per granule, on the host; nothing is written into the memory itself.
 */
#ifndef GPUJOIN_CUDA_KERNELS_POOL_CUH
#define GPUJOIN_CUDA_KERNELS_POOL_CUH

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
		uint64_t run = 0;

		for (uint64_t at = granules_; at > 0; at--)
		{
			/* Under load, a long stretch at the top is in use. */
			if (at % 64 == 0 && used_[at / 64 - 1] == ~(uint64_t) 0)
			{
				at -= 63;
				run = 0;
				continue;
			}
			run = is_used(at - 1) ? 0 : run + 1;
			if (run >= n)
				return mark(at - 1, n);
		}
		return none;
	}

	void
	give(uint64_t offset, uint64_t bytes)
	{
		uint64_t n = round_up(bytes) / granule_;

		for (uint64_t i = offset / granule_; i < offset / granule_ + n; i++)
			used_[i / 64] &= ~((uint64_t) 1 << i % 64);
	}

  private:
	bool
	is_used(uint64_t at) const
	{
		return (used_[at / 64] >> at % 64 & 1) != 0;
	}

	bool
	run_is_free(uint64_t at, uint64_t n) const
	{
		for (uint64_t i = 0; i < n; i++)
			if (is_used(at + i))
				return false;
		return true;
	}

	uint64_t
	mark(uint64_t at, uint64_t n)
	{
		for (uint64_t i = at; i < at + n; i++)
			used_[i / 64] |= (uint64_t) 1 << i % 64;
		return at * granule_;
	}

	uint64_t granule_ = 1;
	uint64_t granules_ = 0;
	std::vector<uint64_t> used_; /* one bit per granule */
};

}  // namespace gjd

#endif
