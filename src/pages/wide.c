/*-------------------------------------------------------------------------
 *
 * wide.c
 *	  Values of 16 bytes in INCLUDE columns, as two words.
 *
 * A uuid's first word is its upper half, the second one its lower half, both read in network byte
 * order, with the sign bit inverted: then comparing first words, and second words if these are
 * equal, as signed integers, is comparing uuids, as uuid_cmp() does, byte by byte.  Each uuid has
 * one pair of words and each pair one uuid.
 *
 * So uuids are equal if and only if both words are: filters, groups and tuples compare the words,
 * and need no function of the type.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"
#include "utils/uuid.h"

#include "pages.h"

#define SIGN_BIT		UINT64CONST(0x8000000000000000)

/*
 * Convert the bytes of a uuid to words
 */
void
GjWordsOfUuid(const char *bytes, int64 *words)
{
	uint64		halves[2];

	memcpy(halves, bytes, sizeof(halves));
	words[0] = (int64) (pg_ntoh64(halves[0]) ^ SIGN_BIT);
	words[1] = (int64) (pg_ntoh64(halves[1]) ^ SIGN_BIT);
}

/*
 * Return the first word or the second one, for a word of 1 or 2
 */
Datum
GjWordOfUuid(Datum uuid, int word)
{
	uint64		half;

	memcpy(&half, DatumGetPointer(uuid) + (word - 1) * sizeof(half), sizeof(half));
	return Int64GetDatum((int64) (pg_ntoh64(half) ^ SIGN_BIT));
}

/*
 * Restore the bytes
 */
void
GjUuidOfWords(int64 first, int64 second, char *bytes)
{
	uint64		halves[2] = {(uint64) first ^ SIGN_BIT, (uint64) second ^ SIGN_BIT};

	halves[0] = pg_hton64(halves[0]);
	halves[1] = pg_hton64(halves[1]);
	memcpy(bytes, halves, sizeof(halves));
}

/*
 * Restore the uuids of n rows of a batch in bytes, and set values[] to these
 */
void
GjReadUuids(const char *firsts, const char *seconds, int n, const uint16 *rows, char *bytes,
			Datum *values)
{
	for (int i = 0; i < n; i++, bytes += UUID_LEN)
	{
		GjUuidOfWords(((const int64 *) firsts)[rows[i]], ((const int64 *) seconds)[rows[i]], bytes);
		values[i] = PointerGetDatum(bytes);
	}
}

/*
 * Set a byte for each of n values that are equal to two words
 */
void
GjPairIsEqual(const char *firsts, const char *seconds, int n, int64 first, int64 second,
			  uint8 *pg_restrict results)
{
	for (int i = 0; i < n; i++)
		results[i] = ((((const int64 *) firsts)[i] ^ first) |
					  (((const int64 *) seconds)[i] ^ second)) == 0;
}
