/*-------------------------------------------------------------------------
 *
 * code.h
 *	  Codes of keys that are hashes, or images of the values.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_CODE_H
#define GPUJOIN_BASE_CODE_H

/*
 * Return true if a code of a kind that may be a hash (pages/pages.h) does not tell the value
 */
static inline bool
GjCodeIsHash(int64 code)
{
	return code < PG_INT64_MIN / 2;
}

#endif							/* GPUJOIN_BASE_CODE_H */
