/*-------------------------------------------------------------------------
 *
 * wide.c
 *	  Values of up to 16 bytes in INCLUDE columns, as two words.
 *
 * A uuid's first word is its upper half, the second one its lower half, both read in network byte
 * order, with the sign bit inverted: then comparing first words, and second words if these are
 * equal, as signed integers, is comparing uuids, as uuid_cmp() does, byte by byte.  Each uuid has
 * one pair of words and each pair one uuid.
 *
 * So uuids are equal if and only if both words are: filters, groups and tuples compare the words,
 * and need no function of the type.
 *
 * A text of at most 15 bytes is stored as these, filled up with zeroes, and its length in the last
 * byte, read in the same way.  No text has a zero byte, so only the empty text would have a first
 * word that is 0 before the sign bit is inverted; it has 1 instead.  A longer text is *absent*: its
 * words are GJ_ABSENT, and its row is read from the table, like that of a numeric that has no word
 * (base/numeric.c).  Two texts are the same bytes if and only if both words are
 * equal, which under a deterministic collation is equality; comparing words as signed integers is
 * comparing bytes, as under the C collation.  The collation itself plays no part in what is stored.
 *
 * A bpchar is compared without its trailing blanks.  They are not stored; its length, up to
 * GJ_BPCHAR_BYTES, tells how many there were.  Two bpchars are equal if and only if their words are
 * equal except for the length (GJ_TEXT_LENGTH_BITS).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "base/numeric.h"
#include "pages.h"

#define SIGN_BIT		UINT64CONST(0x8000000000000000)

#define EMPTY_TEXT		((int64) (SIGN_BIT | 1))

static void words_of_bytes(const char *from, int stored, int length, int64 *words);
static int	restore_stored(int64 first, int64 second, char *buffer);

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

	memcpy(&half, (char *) DatumGetPointer(uuid) + (word - 1) * sizeof(half), sizeof(half));
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
 * Restore the values of n rows of a batch, which are uuids, texts, or bpchars without trailing
 * blanks, in bytes, and set values[] to these.  No text may be absent.
 */
void
GjReadWide(GjColumnKind kind, const char *firsts, const char *seconds, int n, const uint16 *rows,
		   char *bytes, Datum *values)
{
	for (int i = 0; i < n; i++, bytes += GJ_WIDE_BYTES)
	{
		int64		first = ((const int64 *) firsts)[rows[i]];
		int64		second = ((const int64 *) seconds)[rows[i]];

		if (kind == GJ_COLUMN_WIDE_TEXT)
			GjTextOfWords(first, second, bytes);
		else if (kind == GJ_COLUMN_WIDE_BPCHAR)
			restore_stored(first, second, bytes);
		else
			GjUuidOfWords(first, second, bytes);
		values[i] = PointerGetDatum(bytes);
	}
}

/*
 * Set a byte for each of n values that are equal to two words, but for these bits of the second one
 */
void
GjPairIsEqual(const char *firsts, const char *seconds, int n, int64 first, int64 second,
			  int64 ignored, uint8 *pg_restrict results)
{
	for (int i = 0; i < n; i++)
		results[i] = ((((const int64 *) firsts)[i] ^ first) |
					  ((((const int64 *) seconds)[i] ^ second) & ~ignored)) == 0;
}

/*
 * Convert a text, or a bpchar, to words.  Leaves nothing allocated.
 */
void
GjWordsOfText(Datum text, bool is_bpchar, int64 *words)
{
	struct varlena *value;
	int			length = toast_raw_datum_size(text) - VARHDRSZ;
	int			stored = length;

	words[0] = words[1] = GJ_ABSENT;
	if (length > (is_bpchar ? GJ_BPCHAR_BYTES : GJ_TEXT_BYTES))
		return;
	value = PG_DETOAST_DATUM_PACKED(text);
	if (is_bpchar)
		stored = bpchartruelen(VARDATA_ANY(value), length);
	words_of_bytes(VARDATA_ANY(value), stored, length, words);
	if ((Pointer) value != DatumGetPointer(text))
		pfree(value);
}

/*
 * Convert a bpchar of any length to the words of the text that it is without its trailing blanks.
 * Leaves nothing allocated.
 */
void
GjWordsOfTrimmed(Datum bpchar, int64 *words)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(bpchar);
	int			length = bpchartruelen(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

	words_of_bytes(VARDATA_ANY(value), length, length, words);
	if ((Pointer) value != DatumGetPointer(bpchar))
		pfree(value);
}

/*
 * Convert the stored bytes of a text, or of a bpchar of this length
 */
static void
words_of_bytes(const char *from, int stored, int length, int64 *words)
{
	char		bytes[GJ_TEXT_BYTES + 1] = {0};

	words[0] = words[1] = GJ_ABSENT;
	if (stored > GJ_TEXT_BYTES)
		return;
	memcpy(bytes, from, stored);
	bytes[GJ_TEXT_BYTES] = length;
	GjWordsOfUuid(bytes, words);
	if (stored == 0)
		words[0] = EMPTY_TEXT;
}

/*
 * Restore a text, which is not absent, in a buffer of GJ_WIDE_BYTES bytes
 */
void
GjTextOfWords(int64 first, int64 second, char *buffer)
{
	char		bytes[GJ_TEXT_BYTES + 1];
	int			length;

	GjUuidOfWords(first, second, bytes);
	length = Min((uint8) bytes[GJ_TEXT_BYTES], GJ_TEXT_BYTES);
	SET_VARSIZE_SHORT(buffer, VARHDRSZ_SHORT + length);
	memcpy(VARDATA_SHORT(buffer), bytes, length);
}

/*
 * Restore a bpchar, which is not absent, in a buffer of GJ_BPCHAR_BYTES + 1 bytes
 */
void
GjBpcharOfWords(int64 first, int64 second, char *buffer)
{
	int			length = restore_stored(first, second, buffer);
	int			stored = VARSIZE_SHORT(buffer) - VARHDRSZ_SHORT;

	SET_VARSIZE_SHORT(buffer, VARHDRSZ_SHORT + length);
	memset(VARDATA_SHORT(buffer) + stored, ' ', length - stored);
}

/*
 * Restore it without trailing blanks, in a buffer of GJ_WIDE_BYTES bytes.  Returns its length with
 * blanks.
 */
static int
restore_stored(int64 first, int64 second, char *buffer)
{
	char		bytes[GJ_TEXT_BYTES + 1];
	int			length;
	int			stored = 0;

	GjUuidOfWords(first, second, bytes);
	length = Min((uint8) bytes[GJ_TEXT_BYTES], GJ_BPCHAR_BYTES);
	if (first != EMPTY_TEXT)
		stored = strnlen(bytes, Min(length, GJ_TEXT_BYTES));
	SET_VARSIZE_SHORT(buffer, VARHDRSZ_SHORT + stored);
	memcpy(VARDATA_SHORT(buffer), bytes, stored);
	return length;
}
