/*-------------------------------------------------------------------------
 *
 * step.h
 *	  Named steps of changes to an index and of searches, at which tests can stop them.
 *
 * Only in builds for tests, with GPUJOIN_STEPS: a setting that crashes a server has no place in a
 * server that is used.  In others a step is nothing.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_STEP_H
#define GPUJOIN_BASE_STEP_H

#ifdef GPUJOIN_STEPS

/*
 * The setting gpujoin.debug_step: "name error", "name wait" or "name crash", or one of the values
 * below; empty if unused
 */
extern char *gj_debug_step;

extern void GjStepReached(const char *name);

/*
 * Mark a step.  Callers may hold page locks.
 */
#define GjStep(name) \
	do { \
		if (unlikely(gj_debug_step != NULL && gj_debug_step[0] != '\0')) \
			GjStepReached(name); \
	} while (0)

/* True in tests, where work that is done in steps takes as many as possible */
#define GjStepsAreShort() (gj_debug_step != NULL && gj_debug_step[0] != '\0')

/* True in tests that make an index as an older release has left it */
#define GjPagesArePlain() (gj_debug_step != NULL && strcmp(gj_debug_step, "plain pages") == 0)

/* True in tests that trust the visibility map even after a VACUUM, which gives wrong answers */
#define GjEpochIsIgnored() (gj_debug_step != NULL && strcmp(gj_debug_step, "ignore epoch") == 0)

#else
#define GjStep(name) ((void) 0)
#define GjStepsAreShort() false
#define GjPagesArePlain() false
#define GjEpochIsIgnored() false
#endif

#endif							/* GPUJOIN_BASE_STEP_H */
