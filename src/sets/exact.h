/*-------------------------------------------------------------------------
 *
 * exact.h
 *	  The exact table: which values, or tuples of values, are listed, where a key's code alone does
 *	  not prove that.
 *
 * An element is a code and one or more parts.  GjExactAdd() gives it a number: 0, 1, ... in the
 * order in which elements are added.  An element of a list gets its number only when a value is
 * looked up, or an element is added: until then, GjExactCount(), GjExactCode() and GjExactPairs()
 * include elements that are repeated.
 *
 * A value that is looked up belongs to a row of the table that is searched.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_EXACT_H
#define GPUJOIN_SETS_EXACT_H

#include "fmgr.h"
#include "nodes/memnodes.h"

#include "base/settings.h"

/* How the values of a part are compared: filled in by GjExactPartInit() */
typedef struct GjExactPart
{
	bool		is_word;		/* equal if and only if their bits, as int64, are */
	bool		is_uuid;		/* equal if and only if the 16 bytes that Datums point to are */
	bool		is_bytes;		/* equal if and only if the bytes of the varlenas are */
	bool		is_padded;		/* bpchars, which are texts here, without their trailing blanks */
	bool		is_rest;		/* equal bit by bit, unless the element's code is a hash */
	int16		row_length;		/* typlen of a row's value and of an element's */
	int16		value_length;
	bool		value_byval;
	Oid			collation;
	FmgrInfo	equal;			/* compares a row's value with an element's */
	FmgrInfo	row_hash;		/* extended hash functions of one family */
	FmgrInfo	value_hash;
	FmgrInfo	same;			/* compares the values of two elements */
} GjExactPart;

/*
 * Return true if values are compared bit by bit, without a function of the type
 */
static inline bool
GjExactPartIsBits(const GjExactPart *part)
{
	return part->is_word || part->is_uuid || part->is_bytes;
}

/*
 * Return true if a part is a word in elements with this code
 */
static inline bool
GjExactPartHasWord(const GjExactPart *part, int64 code)
{
	return part->is_word || (part->is_rest && !GjCodeIsHash(code));
}

typedef struct GjExact GjExact;

/* An element whose only part is a word: the rest of a key, beside its code */
typedef struct GjExactPair
{
	int64		code;
	int64		rest;
} GjExactPair;

static inline int
GjComparePairs(const GjExactPair *a, const GjExactPair *b)
{
	if (a->code != b->code)
		return a->code > b->code ? 1 : -1;
	return (a->rest > b->rest) - (a->rest < b->rest);
}

static inline bool
GjPairsAscend(const GjExactPair *pairs, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
	{
		if (GjComparePairs(&pairs[i - 1], &pairs[i]) > 0)
			return false;
	}
	return true;
}

/* Result of a search that has found nothing, or that words do not decide */
#define GJ_EXACT_NONE			PG_UINT32_MAX
#define GJ_EXACT_UNKNOWN		(PG_UINT32_MAX - 1)

extern bool GjExactPartInit(GjExactPart *part, Oid equality, Oid collation, Oid index_family);
extern void GjExactPartUseRest(GjExactPart *part);
extern GjExact *GjExactCreate(MemoryContext parent, int nparts, const GjExactPart *parts,
							  bool code_is_hash, uint64 expected);
extern uint32 GjExactAdd(GjExact *exact, int64 code, const Datum *values, bool borrowed,
						 bool *found);
extern void GjExactList(GjExact *exact, int64 code, const Datum *values, bool borrowed);
extern void GjExactListPairs(GjExact *exact, int n, const int64 *codes, const int64 *rests);
extern void GjExactPrefetch(const GjExact *exact, int64 code);
extern uint32 GjExactFind(GjExact *exact, int64 code, const Datum *values);
extern void GjExactFindMany(GjExact *exact, int n, const int64 *codes, const Datum *const *values,
							uint32 *numbers);
extern void GjExactFindWords(GjExact *exact, int n, const int64 *codes,
							 const Datum *const *values, uint32 *numbers);
extern uint32 GjExactCount(const GjExact *exact);
extern int64 GjExactCode(const GjExact *exact, uint32 number);
extern GjExactPair *GjExactListed(GjExact *exact, uint32 *n);
extern const GjExactPair *GjExactPairs(const GjExact *exact, uint32 *n);
extern void GjExactMove(GjExact *exact, MemoryContext parent);

#endif							/* GPUJOIN_SETS_EXACT_H */
