/*
 * pool.cuh
 *	  Hands out pieces of one reserved stretch of memory: extents from the bottom, scratch from the
 *	  top, so that neither breaks up the other's room.
 *
 * The bookkeeping is one bit a granule, on the host; nothing is written into the memory itself.
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
		used_.assign(bytes / granule, false);
	}

	uint64_t
	round_up(uint64_t bytes) const
	{
		return (bytes + granule_ - 1) / granule_ * granule_;
	}

	uint64_t
	size() const
	{
		return used_.size() * granule_;
	}

	/* Takes the lowest free piece that starts at a multiple of its own size. Returns its offset. */
	uint64_t
	take_low(uint64_t bytes, uint64_t align)
	{
		uint64_t n = bytes / granule_;
		uint64_t step = align / granule_;

		for (uint64_t at = 0; at + n <= used_.size(); at += step)
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

		for (uint64_t at = used_.size(); at > 0; at--)
		{
			run = used_[at - 1] ? 0 : run + 1;
			if (run >= n)
				return mark(at - 1, n);
		}
		return none;
	}

	void
	give(uint64_t offset, uint64_t bytes)
	{
		uint64_t n = round_up(bytes) / granule_;

		for (uint64_t i = 0; i < n; i++)
			used_[offset / granule_ + i] = false;
	}

  private:
	bool
	run_is_free(uint64_t at, uint64_t n) const
	{
		for (uint64_t i = 0; i < n; i++)
			if (used_[at + i])
				return false;
		return true;
	}

	uint64_t
	mark(uint64_t at, uint64_t n)
	{
		for (uint64_t i = 0; i < n; i++)
			used_[at + i] = true;
		return at * granule_;
	}

	uint64_t granule_ = 1;
	std::vector<bool> used_;
};

}  // namespace gjd

#endif
