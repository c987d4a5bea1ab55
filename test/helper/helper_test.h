/*
 * helper_test.h
 *	  What the cases of the helper's test share
 */
#ifndef GPUJOIN_HELPER_TEST_H
#define GPUJOIN_HELPER_TEST_H

#include "helper_client.h"

/* The column that is searched again and again: page p, slot s has key p * ROWS + s */
#define PAGES 8
extern name good;

/* Ends the test if the helper no longer serves an honest client. */
void ok_and_well(bool passed, const char *what);
bool nothing_is_left(void); /* of requests that have ended, but the good column */

uint64_t odd_number(void); /* small, next to a limit, or arbitrary */
void test_chance(int rounds);

#endif
