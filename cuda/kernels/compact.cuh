/*
 * compact.cuh
 *	  What a warp does with the answers of its lanes: puts them into row order, adds up, and
 *	  verifies candidates.
 *
 * A warp owns a tile of 1024 rows. It loads them 16 bytes a lane, so a lane's answers belong to
 * rows that lie apart; bit b of its mask is vector b / per, key b % per of it. Exchanging bits with
 * its neighbours, in as many steps as a butterfly has, each lane gets 32 rows that lie together:
 * one word of the bitmap over positions.
 */
#ifndef GPUJOIN_CUDA_KERNELS_COMPACT_CUH
#define GPUJOIN_CUDA_KERNELS_COMPACT_CUH

#include "column.cuh"
#include "keyset.cuh"

namespace gjd
{

constexpr uint32_t all_lanes = 0xffffffffu;

/* One step: lanes whose number differs in bit step exchange fields of width bits. */
template <uint32_t step, uint32_t width>
__device__ inline uint32_t
exchange_fields(uint32_t mask, uint32_t low_fields, uint32_t lane)
{
	uint32_t other = __shfl_xor_sync(all_lanes, mask, step);

	return lane & step ? (mask & ~low_fields) | ((other & ~low_fields) >> (step * width))
					   : (mask & low_fields) | ((other & low_fields) << (step * width));
}

/* Brings a tile's masks into row order. Lane i then holds word row_word<Key>(i) of the tile. */
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
	constexpr uint32_t groups = 16 / sizeof(Key); /* of lanes that exchange among themselves */
	constexpr uint32_t lanes = 32 / groups;

	return lane % lanes * groups + lane / lanes;
}

/* Sum over the lanes before this one; *total gets the sum over all. */
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
 * Where the lanes of a warp keep the keys that passed a filter that is not exact, each its own, in
 * the order in which it tested them. Reading them again from the column instead was measured: it
 * finds them in no cache any more and costs up to two thirds of the column's bytes once more.
 */
template <class Policy, class Key>
struct candidate_store
{
	static constexpr uint32_t step = 32 * sizeof(Key); /* from one key of a lane to its next */
	static constexpr uint32_t slack = 16 / sizeof(Key); /* written between two looks at the end */
	static constexpr uint32_t depth = Policy::kept_bytes / step - slack;

	const Key *first; /* of this lane */
	uint32_t begin;	  /* the same as an address in shared memory */

	__device__
	candidate_store(char *area, uint32_t lane)
		: first((const Key *) area + lane),
		  begin((uint32_t) __cvta_generic_to_shared(area) + lane * (uint32_t) sizeof(Key))
	{
	}

	/* Keeps the key if the answer's top bit says so. No branch: lanes differ at every key. */
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

	/* To be called after every slack keys: what is too much is overwritten, and read again. */
	__device__ void
	limit(uint32_t &place) const
	{
		place = min(place, begin + depth * step);
	}
};

/* The row in its tile that bit of the lane's mask stands for, before it is in row order. */
template <class Key>
__device__ inline uint32_t
row_of_bit(uint32_t bit, uint32_t lane)
{
	constexpr uint32_t per = 16 / sizeof(Key);

	return bit / per * 32 * per + lane * per + bit % per;
}

/*
 * Looks the candidates up in the table, several a lane at a time, so that the waits overlap.
 * Returns the mask with only true matches left.
 */
template <class Policy, class Key>
__device__ inline uint32_t
verify_candidates(uint32_t mask, const candidate_store<Policy, Key> &store, const Key *keys,
				  const bucket_table<Key> &table, uint32_t lane)
{
	constexpr uint32_t n = Policy::verified_at_once;
	uint32_t left = mask;

	__syncwarp(); /* for the compiler: what keep() has stored is loaded below */
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

			/* The highest bit was tested first. Without a bit left, bits[k] is 0. */
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
	__syncwarp(); /* and the next tile's candidates come after */
	return mask;
}

}  // namespace gjd

#endif
