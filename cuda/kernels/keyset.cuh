/*
 * keyset.cuh
 *	  Key sets as kernels see them: filters in shared and device memory, and the exact table.
 *
 * A filter's test() returns a word whose top bit is the answer, because that bit can be shifted
 * into a lane's mask by one instruction. To get it there by one shift too, bit b of a filter word
 * is stored at position 31 - b. A filter declares whether it is exact; keys that pass an inexact
 * one must be looked up in the table. Filters are small values, passed to kernels by value; their
 * part in shared memory is copied from an image at the start of a block.
 *
 * No key value is reserved anywhere: the unused places of a bucket repeat a key of the set, so
 * that finding it there is correct, and a bucket is full if its last place differs from its
 * first.
 */
#ifndef GPUJOIN_CUDA_KERNELS_KEYSET_CUH
#define GPUJOIN_CUDA_KERNELS_KEYSET_CUH

#include "objects.cuh"
#include "policy.cuh"

namespace gjd
{

/* ---- hashing ------------------------------------------------------------------------------- */

__device__ inline uint32_t
fold(int32_t key)
{
	return (uint32_t) key;
}

__device__ inline uint32_t
fold(int64_t key)
{
	return (uint32_t) key + (uint32_t) (key >> 32) * 0x85ebca6bu;
}

/* A hash with good upper bits, one multiplication: for the filters, which test every row. */
template <class Key>
__device__ inline uint32_t
quick_hash(Key key)
{
	return fold(key) * 0x9e3779b1u;
}

/* Derives a second hash from the first, for the filter in device memory. */
__device__ inline uint32_t
second_hash(uint32_t hash)
{
	return (hash ^ hash >> 15) * 0x2c1b3c6du;
}

/* A hash with good bits throughout: for the table, which few rows reach. */
template <class Key>
__device__ inline uint32_t
full_hash(Key key)
{
	uint32_t x = fold(key);

	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* An index of a word, and the hash bits not used up by choosing the word. */
struct word_and_rest
{
	uint32_t word, rest;

	__device__
	word_and_rest(uint32_t hash, uint32_t words)
	{
		uint64_t product = (uint64_t) hash * words;

		word = (uint32_t) (product >> 32);
		rest = (uint32_t) product;
	}

	__device__ uint32_t
	first() const
	{
		return rest >> 27;
	}

	__device__ uint32_t
	second() const
	{
		return rest >> 22;
	}
};

/* Returns bit (bit % 32) of a filter word, as the top bit of the result. */
__device__ inline uint32_t
bit_to_top(uint32_t word, uint32_t bit)
{
	return __funnelshift_l(0, word, bit);
}

__device__ inline void
set_filter_bit(uint32_t *word, uint32_t bit)
{
	atomicOr(word, 0x80000000u >> (bit & 31));
}

/* Loads if wanted; predicated instead of branching, so that many loads can be in progress. */
__device__ inline uint32_t
load_if(bool wanted, const uint32_t *from)
{
	uint32_t loaded;

	asm("{\n\t"
		".reg .pred wanted;\n\t"
		"setp.ne.u32 wanted, %2, 0;\n\t"
		"mov.u32 %0, 0;\n\t"
		"@wanted ld.global.nc.u32 %0, [%1];\n\t"
		"}"
		: "=&r"(loaded)
		: "l"(from), "r"((uint32_t) wanted));
	return loaded;
}

/* ---- filters ------------------------------------------------------------------------------- */

template <class Key, uint32_t n>
struct constants_filter
{
	static constexpr bool exact = true;
	const uint32_t *image;
	uint32_t words;
	Key keys[n];

	__device__ uint32_t
	test(Key key, const uint32_t *) const
	{
		bool hit = false;

#pragma unroll
		for (uint32_t i = 0; i < n; i++)
			hit |= key == keys[i];
		return hit ? 0x80000000u : 0;
	}
};

/*
 * Returns the index of a key in a bitmap that starts at least; limit, a bit that is never set, if
 * outside.
 */
__device__ inline uint32_t
span_index(int32_t key, int32_t least, uint32_t limit)
{
	return min((uint32_t) key - (uint32_t) least, limit);
}

__device__ inline uint32_t
span_index(int64_t key, int64_t least, uint32_t limit)
{
	uint64_t index = (uint64_t) key - (uint64_t) least;

	return index < limit ? (uint32_t) index : limit;
}

template <class Key>
struct span_filter
{
	static constexpr bool exact = true;
	const uint32_t *image;
	uint32_t words;
	uint32_t limit;
	Key least;

	__device__ uint32_t
	test(Key key, const uint32_t *shared) const
	{
		uint32_t index = span_index(key, least, limit);

		return bit_to_top(shared[index >> 5], index);
	}
};

/* words is a power of two here, 1 << (32 - shift). */
template <class Key>
struct one_bit_filter
{
	static constexpr bool exact = false;
	const uint32_t *image;
	uint32_t words;
	uint32_t shift;

	__device__ uint32_t
	test(Key key, const uint32_t *shared) const
	{
		uint32_t hash = quick_hash(key);

		return bit_to_top(shared[hash >> shift], hash >> (shift - 5));
	}
};

template <class Key>
struct two_bits_filter
{
	static constexpr bool exact = false;
	const uint32_t *image;
	uint32_t words;

	__device__ uint32_t
	test(Key key, const uint32_t *shared) const
	{
		word_and_rest at(quick_hash(key), words);
		uint32_t word = shared[at.word];

		return bit_to_top(word, at.first()) & bit_to_top(word, at.second());
	}
};

/* words is 0 if a filter in shared memory would let nearly all keys pass. */
template <class Key, bool prefilter>
struct global_span_filter
{
	static constexpr bool exact = true;
	const uint32_t *image;
	uint32_t words;
	uint32_t limit;
	Key least;
	const uint32_t *global;

	__device__ uint32_t
	test(Key key, const uint32_t *shared) const
	{
		uint32_t index = span_index(key, least, limit);
		bool pass = index != limit;

		if (prefilter)
		{
			word_and_rest at(quick_hash(key), words);

			pass &= (int32_t) bit_to_top(shared[at.word], at.first()) < 0;
		}
		return bit_to_top(load_if(pass, global + (index >> 5)), index);
	}
};

template <class Key, bool prefilter>
struct global_bloom_filter
{
	static constexpr bool exact = false;
	const uint32_t *image;
	uint32_t words;
	uint32_t global_words;
	const uint32_t *global;

	__device__ uint32_t
	test(Key key, const uint32_t *shared) const
	{
		uint32_t hash = quick_hash(key);
		bool pass = true;

		if (prefilter)
		{
			word_and_rest at(hash, words);

			pass = (int32_t) bit_to_top(shared[at.word], at.first()) < 0;
		}

		word_and_rest at(second_hash(hash), global_words);
		uint32_t word = load_if(pass, global + at.word);

		return bit_to_top(word, at.first()) & bit_to_top(word, at.second());
	}
};

/* ---- the exact table ----------------------------------------------------------------------- */

/* Buckets of 32 bytes, one sector of the L2 cache; a full one overflows into the next. */
template <class Key>
struct bucket_table
{
	static constexpr uint32_t places = 32 / sizeof(Key);
	const Key *slots;
	uint32_t buckets;

	struct bucket
	{
		union
		{
			uint4 halves[2];
			Key keys[places];
		};

		__device__ bool
		has(Key key) const
		{
			bool hit = false;

#pragma unroll
			for (uint32_t i = 0; i < places; i++)
				hit |= keys[i] == key;
			return hit;
		}

		__device__ bool
		is_full() const
		{
			return keys[0] != keys[places - 1];
		}
	};

	__device__ uint32_t
	bucket_of(Key key) const
	{
		return __umulhi(full_hash(key), buckets);
	}

	__device__ bucket
	load(uint32_t number) const
	{
		const uint4 *source = (const uint4 *) (slots + (uint64_t) number * places);
		bucket b;

		b.halves[0] = __ldg(source);
		b.halves[1] = __ldg(source + 1);
		return b;
	}

	/*
	 * The same for lanes that want it; for the others nothing is read, and the result is
	 * undefined.
	 */
	__device__ bucket
	load_if(bool wanted, uint32_t number) const
	{
		bucket b = {};

		if (wanted)
			b = load(number);
		return b;
	}

	/* Continues the search after a full bucket that does not contain the key. */
	__device__ bool
	has_behind(uint32_t number, Key key) const
	{
		for (;;)
		{
			number = number + 1 == buckets ? 0 : number + 1;
			bucket b = load(number);

			if (b.has(key) || !b.is_full())
				return b.has(key);
		}
	}

	__device__ bool
	contains(Key key) const
	{
		uint32_t number = bucket_of(key);
		bucket b = load(number);

		return b.has(key) || (b.is_full() && has_behind(number, key));
	}
};

template <class Key>
inline bucket_table<Key>
table_of(const gjd_keyset *keyset)
{
	return bucket_table<Key>{(const Key *) keyset->parts.table, keyset->parts.buckets};
}

/* ---- ascending lists ----------------------------------------------------------------------- */

/* Returns the number of the first of n values that is not less than another; n if all are. */
template <class Listed, class Value>
__device__ inline uint32_t
rank_in(const Listed *listed, uint32_t n, Value value)
{
	uint32_t low = 0;
	uint32_t high = n;

	while (low < high)
	{
		uint32_t middle = (low + high) / 2;

		if (__ldg(listed + middle) < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- keys with rests ----------------------------------------------------------------------- */

/* Keys and rests, ascending. Any number of keys may be equal: a search takes log2(n) steps. */
struct pair_list
{
	const int64_t *keys, *rests;
	uint32_t n;

	/* Returns the number of the first pair that is not less; n if all are less. */
	__device__ uint32_t
	rank_of(int64_t key, int64_t rest) const
	{
		uint32_t low = 0;
		uint32_t high = n;

		while (low < high)
		{
			uint32_t middle = (low + high) / 2;
			int64_t its = __ldg(keys + middle);

			if (its < key || (its == key && __ldg(rests + middle) < rest))
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	__device__ bool
	has(int64_t key, int64_t rest) const
	{
		uint32_t rank = rank_of(key, rest);

		return rank < n && __ldg(keys + rank) == key && __ldg(rests + rank) == rest;
	}
};

inline pair_list
pairs_of(const gjd_keyset *keyset)
{
	const int64_t *keys = (const int64_t *) keyset->memory;

	return pair_list{keys, keys + keyset->n_pairs, (uint32_t) keyset->n_pairs};
}

/* Returns the number of keys as the caller counts them. */
inline uint64_t
keys_in(const gjd_keyset *keyset)
{
	return keyset->has_rests ? keyset->n_pairs : keyset->count;
}

}  // namespace gjd

#endif
