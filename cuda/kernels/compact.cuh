/*
 * compact.cuh
 *	  Operations of a warp on the answers of its lanes: put them into row order, sum up,
 *	  verify candidates.
 *
 * A warp owns a tile of 1024 rows. It loads them 16 bytes a lane, so the answers of a lane belong
 * to rows that are not adjacent; bit b of its mask is vector b / per, key b % per of it. By
 * exchanging bits with its neighbors, in the steps of a butterfly, each lane gets 32 adjacent
 * rows: one word of the bitmap over positions.
 */
#ifndef GPUJOIN_CUDA_KERNELS_COMPACT_CUH
#define GPUJOIN_CUDA_KERNELS_COMPACT_CUH

#include "column.cuh"
#include "keyset.cuh"

namespace gjd
{

constexpr uint32_t all_lanes = 0xffffffffu;

/* One step: lanes whose numbers differ in bit step exchange fields of width bits. */
template <uint32_t step, uint32_t width>
__device__ inline uint32_t
exchange_fields(uint32_t mask, uint32_t low_fields, uint32_t lane)
{
	uint32_t other = __shfl_xor_sync(all_lanes, mask, step);

	return lane & step ? (mask & ~low_fields) | ((other & ~low_fields) >> (step * width))
					   : (mask & low_fields) | ((other & low_fields) << (step * width));
}

/* Puts a tile's masks into row order. Lane i then holds word row_word<Key>(i) of the tile. */
template <class Key>
__device__ inline uint32_t
into_row_order(uint32_t mask, uint32_t lane)
{
	if (sizeof(Key) == 4)
	{
		mask = exchange_fields<4, 4>(mask, 0x0000ffffu, lane);
		mask = exchange_fields<2, 4>(mask, 0x00ff00ffu, lane);
		return exchange_fields<1, 4>(mask, 0x0f0f0f0fu, lane);
	}
	mask = exchange_fields<8, 2>(mask, 0x0000ffffu, lane);
	mask = exchange_fields<4, 2>(mask, 0x00ff00ffu, lane);
	mask = exchange_fields<2, 2>(mask, 0x0f0f0f0fu, lane);
	return exchange_fields<1, 2>(mask, 0x33333333u, lane);
}

template <class Key>
__device__ inline uint32_t
row_word(uint32_t lane)
{
	constexpr uint32_t groups = 16 / sizeof(Key); /* number of lanes that exchange among
												   * themselves */
	constexpr uint32_t lanes = 32 / groups;

	return lane % lanes * groups + lane / lanes;
}

/* Returns the sum over the lanes before this one; *total gets the sum over all. */
__device__ inline uint32_t
sum_before(uint32_t value, uint32_t lane, uint32_t *total)
{
	uint32_t sum = value;

#pragma unroll
	for (uint32_t step = 1; step < 32; step *= 2)
	{
		uint32_t other = __shfl_up_sync(all_lanes, sum, step);

		sum += lane >= step ? other : 0;
	}
	*total = __shfl_sync(all_lanes, sum, 31);
	return sum - value;
}

/* ---- candidates ---------------------------------------------------------------------------- */

/*
 * Shared memory in which each lane of a warp keeps its own keys that passed an inexact filter, in
 * the order in which it tested them. Reading them again from the column instead was measured:
 * they are no longer in any cache, which costs up to two thirds of the column's bytes once more.
 */
template <class Policy, class Key>
struct candidate_store
{
	static constexpr uint32_t step = 32 * sizeof(Key); /* from one key of a lane to its next */
	static constexpr uint32_t slack = 16 / sizeof(Key); /* written between two checks of the
														 * limit */
	static constexpr uint32_t depth = Policy::kept_bytes / step - slack;

	const Key *first; /* of this lane */
	uint32_t begin;	  /* the same as an address in shared memory */

	__device__
	candidate_store(char *area, uint32_t lane)
		: first((const Key *) area + lane),
		  begin((uint32_t) __cvta_generic_to_shared(area) + lane * (uint32_t) sizeof(Key))
	{
	}

	/*
	 * Keeps the key if the answer's top bit is set. It has no branch, because lanes differ at
	 * every key.
	 */
	static __device__ void
	keep(uint32_t answer, int32_t key, uint32_t &place)
	{
		asm volatile("{\n\t"
					 ".reg .pred kept;\n\t"
					 "setp.lt.s32 kept, %1, 0;\n\t"
					 "@kept st.shared.u32 [%0], %2;\n\t"
					 "@kept add.u32 %0, %0, 128;\n\t"
					 "}"
					 : "+r"(place)
					 : "r"(answer), "r"(key));
	}

	static __device__ void
	keep(uint32_t answer, int64_t key, uint32_t &place)
	{
		asm volatile("{\n\t"
					 ".reg .pred kept;\n\t"
					 "setp.lt.s32 kept, %1, 0;\n\t"
					 "@kept st.shared.u64 [%0], %2;\n\t"
					 "@kept add.u32 %0, %0, 256;\n\t"
					 "}"
					 : "+r"(place)
					 : "r"(answer), "l"(key));
	}

	/*
	 * Must be called after every slack keys: candidates beyond the limit are overwritten, and
	 * read again.
	 */
	__device__ void
	limit(uint32_t &place) const
	{
		place = min(place, begin + depth * step);
	}
};

/*
 * Returns the row in its tile that a bit of the lane's mask stands for, before the mask is put
 * into row order.
 */
template <class Key>
__device__ inline uint32_t
row_of_bit(uint32_t bit, uint32_t lane)
{
	constexpr uint32_t per = 16 / sizeof(Key);

	return bit / per * 32 * per + lane * per + bit % per;
}

/*
 * Looks the candidates up in the table, several per lane at a time, so that their latencies
 * overlap. Returns the mask with only true matches left.
 */
template <class Policy, class Key>
__device__ inline uint32_t
verify_candidates(uint32_t mask, const candidate_store<Policy, Key> &store, const Key *keys,
				  const bucket_table<Key> &table, uint32_t lane)
{
	constexpr uint32_t n = Policy::verified_at_once;
	uint32_t left = mask;

	__syncwarp(); /* for the compiler: the loads below depend on the stores of keep() */
	for (uint32_t taken = 0; left != 0; taken += n)
	{
		uint32_t bits[n], numbers[n];
		Key sought[n];
		typename bucket_table<Key>::bucket found[n];

#pragma unroll
		for (uint32_t k = 0; k < n; k++)
		{
			uint32_t bit = 31 - __clz((int) left);
			bool kept = taken + k < candidate_store<Policy, Key>::depth;

			/* The highest bit was tested first. If no bit is left, bits[k] is 0. */
			bits[k] = left & 1u << (bit & 31);
			left ^= bits[k];
			sought[k] = kept ? store.first[(taken + k) * 32]
							 : keys[row_of_bit<Key>(bit & 31, lane)];
			numbers[k] = table.bucket_of(sought[k]);
			found[k] = table.load_if(bits[k] != 0, numbers[k]);
		}
#pragma unroll
		for (uint32_t k = 0; k < n; k++)
			if (bits[k] != 0 && !found[k].has(sought[k]) &&
				!(found[k].is_full() && table.has_behind(numbers[k], sought[k])))
				mask ^= bits[k];
	}
	__syncwarp(); /* before the next tile's candidates are stored */
	return mask;
}

}  // namespace gjd

#endif
