/*
 * reference.c
 *	  The reference library for the fuzz target of the helper: unchanged, except that it uses
 *	  the target's time, and that faults which end the process return to the target.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "border/gpujoin_device.h"
#include "fuzz.h"
#include "helper_world.h"

/* The sanitizer's bookkeeping of large extents would dominate the target's run time. */
#undef GJD_EXTENT_BYTES
#define GJD_EXTENT_BYTES ((uint64_t) 64 << 10)

#define _exit(code) end_helper(code)
#define abort() end_helper(3)
#define raise(number) end_helper(number)
#define nanosleep world_sleep
#define clock_gettime world_time
#include "reference/reference.c"
#include "reference/fault.c"
#include "reference/column.c"
#include "reference/filter.c"
#include "reference/keyset.c"
#include "reference/match.c"
#include "reference/entries.c"
#include "reference/reduce.c"
#include "reference/top.c"
