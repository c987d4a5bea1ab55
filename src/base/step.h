/*-------------------------------------------------------------------------
 *
 * step.h
 *	  Named steps of changes to an index and of searches, at which tests can stop them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_STEP_H
#define GPUJOIN_BASE_STEP_H

/* The setting gpujoin.debug_step: "name error", "name wait" or "name crash"; empty if unused */
extern char *gj_debug_step;

extern void GjStepReached(const char *name);

/*
 * Mark a step.  Callers may hold page locks; outside of tests this is one comparison.
 */
#define GjStep(name) \
	do { \
		if (unlikely(gj_debug_step != NULL && gj_debug_step[0] != '\0')) \
			GjStepReached(name); \
	} while (0)

/* True in tests, where work that is done in steps takes as many as possible */
#define GjStepsAreShort() (gj_debug_step != NULL && gj_debug_step[0] != '\0')

#endif							/* GPUJOIN_BASE_STEP_H */
