/*
 * bench_device_cuco.cuh
 *	  Groups by a word of 64 bits with cuCollections, for comparison: only if its headers are given
 *	  (make variable CUCO_DIR).
 */
#ifndef GPUJOIN_BENCH_DEVICE_CUCO_CUH
#define GPUJOIN_BENCH_DEVICE_CUCO_CUH

#include <cuda/std/functional>
#include <cuda/std/version>

/* Releases of cuCollections that use this are older than its removal. */
#if CCCL_MAJOR_VERSION >= 3
namespace thrust
{
template <class T = void>
struct identity
{
	template <class U>
	__host__ __device__ constexpr U &&
	operator()(U &&value) const noexcept
	{
		return static_cast<U &&>(value);
	}
};
}  // namespace thrust
#endif

#include <cuco/static_map.cuh>

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace bench
{

/* A table with twice as many places as there are rows, cleared before each use, as ours is */
class cuco_groups
{
  public:
	using pair = cuco::pair<uint64_t, uint64_t>;
	using map_type =
		cuco::static_map<uint64_t, uint64_t, cuco::extent<std::size_t>, cuda::thread_scope_device,
						 thrust::equal_to<uint64_t>,
						 cuco::linear_probing<1, cuco::default_hash_function<uint64_t>>>;

	struct row_pair
	{
		const uint64_t *keys;
		const int32_t *values;

		__device__ pair
		operator()(int64_t i) const
		{
			return {keys[i], (uint64_t) (int64_t) values[i]};
		}
	};

	struct add_value
	{
		template <class Ref>
		__device__ void
		operator()(Ref ref, uint64_t value) const
		{
			ref.fetch_add(value, cuda::memory_order_relaxed);
		}
	};

	cuco_groups(const uint64_t *keys, const int32_t *values, uint64_t n, cudaStream_t stream)
		: rows_(thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0),
												row_pair{keys, values})),
		  n_(n),
		  stream_(stream),
		  map_(cuco::extent<std::size_t>{n * 2}, cuco::empty_key<uint64_t>{~(uint64_t) 0},
			   cuco::empty_value<uint64_t>{0}, {}, {}, {}, {}, {}, stream)
	{
	}

	void
	add_up()
	{
		map_.clear_async(stream_);
		map_.insert_or_apply_async(rows_, rows_ + (int64_t) n_, add_value{}, stream_);
	}

	void
	insert()
	{
		map_.clear_async(stream_);
		map_.insert_async(rows_, rows_ + (int64_t) n_, stream_);
	}

  private:
	thrust::transform_iterator<row_pair, thrust::counting_iterator<int64_t>> rows_;
	uint64_t n_;
	cudaStream_t stream_;
	map_type map_;
};

}  // namespace bench

#endif
