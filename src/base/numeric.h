/*-------------------------------------------------------------------------
 *
 * numeric.h
 *	  Numerics as integers, and back.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_NUMERIC_H
#define GPUJOIN_BASE_NUMERIC_H

/* Words are below this, and above its negative */
#define GJ_WORD_LIMIT			(INT64CONST(1) << 62)

/* The word of a value that is not stored: its row must be read from the table */
#define GJ_ABSENT				PG_INT64_MIN

/* Scales of words are at most this: 10^18 is below 2^62 */
#define GJ_MAX_STORED_SCALE		18

/* Upper bound of the size of a numeric made of a word */
#define GJ_NUMERIC_BYTES		32

/* A numeric on disk */
typedef struct GjNumericParts
{
	bool		is_special;		/* NaN or infinite: only the sign is set then */
	bool		is_negative;
	int			display_scale;
	int			weight;			/* of the first digit, as a power of 10,000 */
	int			ndigits;
	const char *digits;			/* int16, unaligned, of base 10,000 */
} GjNumericParts;

extern void GjNumericRead(const struct varlena *value, GjNumericParts *parts);
extern bool GjNumericScale(const GjNumericParts *parts, int scale, int64 *word);
extern int64 GjNumericFloor(const GjNumericParts *parts, int scale, bool *is_exact);
extern int64 GjNumericToWord(Datum value, int display_scale, int stored_scale);
extern void GjNumericOfWord(int64 word, int display_scale, int stored_scale, char *buffer);

#endif							/* GPUJOIN_BASE_NUMERIC_H */
