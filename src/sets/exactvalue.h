/*-------------------------------------------------------------------------
 *
 * exactvalue.h
 *	  Values in the exact table (exact.c): how they are stored, hashed and compared bit by bit.
 *
 * This is a header because it consists of static functions only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_EXACTVALUE_H
#define GPUJOIN_SETS_EXACTVALUE_H

#include "utils/builtins.h"
#include "utils/uuid.h"

#include "base/compat.h"
#include "exact.h"

static inline uint64
mix(uint64 h)
{
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	return h ^ (h >> 32);
}

/*
 * Mix the halves of a uuid into a hash that depends on the seed
 */
static inline uint64
hash_uuid(uint64 hash, Datum value)
{
	uint64		halves[2];

	memcpy(halves, DatumGetPointer(value), UUID_LEN);
	return mix(hash + halves[0]) ^ halves[1];
}

/*
 * Mix the bytes of a varlena into a hash that depends on the seed
 */
static inline uint64
hash_varlena(uint64 hash, Datum value)
{
	const char *bytes = VARDATA_ANY(DatumGetPointer(value));
	int			length = VARSIZE_ANY_EXHDR(DatumGetPointer(value));
	uint64		word = 0;

	hash += length;
	for (; length > (int) sizeof(word); length -= sizeof(word), bytes += sizeof(word))
	{
		memcpy(&word, bytes, sizeof(word));
		hash = mix(hash + word);
	}
	word = 0;
	memcpy(&word, bytes, length);
	return hash ^ word;
}

static inline bool
bytes_are_equal(Datum value, Datum other)
{
	const char *left = DatumGetPointer(value);
	const char *right = DatumGetPointer(other);

	return VARSIZE_ANY_EXHDR(left) == VARSIZE_ANY_EXHDR(right) &&
		memcmp(VARDATA_ANY(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(left)) == 0;
}

/*
 * Return a value of a fixed width of at most 8 bytes as a word
 */
static inline Datum
to_word(Datum value, int16 length)
{
	switch (length)
	{
		case sizeof(int8):
			return Int64GetDatum((int64) (int8) value);
		case sizeof(int16):
			return Int64GetDatum((int64) DatumGetInt16(value));
		case sizeof(int32):
			return Int64GetDatum((int64) DatumGetInt32(value));
		default:
			return value;
	}
}

/*
 * Return a bpchar without its trailing blanks
 */
static inline Datum
without_blanks(Datum value)
{
	const char *bytes = VARDATA_ANY(DatumGetPointer(value));
	int			length = VARSIZE_ANY_EXHDR(DatumGetPointer(value));
	int			stored = bpchartruelen(unconstify(char *, bytes), length);

	return stored == length ? value :
		PointerGetDatum(cstring_to_text_with_len(bytes, stored));
}

/*
 * Return a value as a word, or as a Datum that is not toasted
 */
static inline Datum
plain_value(Datum value, const GjExactPart *part, int64 code, int16 length)
{
	if (part->is_word)
		return to_word(value, length);
	if (GjExactPartHasWord(part, code) || length != -1)
		return value;
	value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	return part->is_padded ? without_blanks(value) : value;
}

#endif							/* GPUJOIN_SETS_EXACTVALUE_H */
