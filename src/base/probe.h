/*-------------------------------------------------------------------------
 *
 * probe.h
 *	  How hash tables with open addressing are protected from keys that collide.
 *
 * A table's hash is seeded at random, so that no prepared list of keys collides.  Nevertheless, a
 * loop over cells counts them: once it has passed GJ_MAX_RUN of them, which does not happen by
 * chance, even in a table that is three quarters full, it checks for interrupts, and the table gets
 * another seed before more keys are added.  If seeds do not help, because values of a type have the
 * same hash whatever the seed is, the loops are long but can be interrupted.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_PROBE_H
#define GPUJOIN_BASE_PROBE_H

#include "common/pg_prng.h"
#include "miscadmin.h"

#define GJ_MAX_RUN				4096

/* Number of times that a table gets another seed */
#define GJ_MAX_RESEEDS			8

/* The seed of a table's hash */
typedef struct GjSeed
{
	uint64		value;
	int			nreplaced;		/* number of seeds before this one */
	bool		is_bad;			/* has a long run been seen? */
} GjSeed;

static inline GjSeed
GjSeedCreate(void)
{
	return (GjSeed) {.value = pg_prng_uint64(&pg_global_prng_state)};
}

/* Draw another seed.  The caller enters all keys again. */
static inline void
GjSeedReplace(GjSeed *seed)
{
	seed->value = pg_prng_uint64(&pg_global_prng_state);
	seed->nreplaced++;
	seed->is_bad = false;
}

/*
 * Note that a cell at this distance from the first one is used for another key than the one that is
 * being added.  (A distance takes fewer instructions than a counter.)
 */
static inline void
GjSeedNote(GjSeed *seed, uint64 distance)
{
	if (likely(distance % GJ_MAX_RUN != GJ_MAX_RUN - 1))
		return;
	CHECK_FOR_INTERRUPTS();
	seed->is_bad = seed->nreplaced < GJ_MAX_RESEEDS;
}

/*
 * Allow interrupts while a key is looked up
 */
static inline void
GjProbeNote(uint64 distance)
{
	if (unlikely(distance % GJ_MAX_RUN == GJ_MAX_RUN - 1))
		CHECK_FOR_INTERRUPTS();
}

#endif							/* GPUJOIN_BASE_PROBE_H */
