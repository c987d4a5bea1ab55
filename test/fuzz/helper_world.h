/*
 * helper_world.h
 *	  Stand-ins for the environment of the helper in its fuzz target: time, sleep and exit.
 */
#ifndef GPUJOIN_TEST_FUZZ_HELPER_WORLD_H
#define GPUJOIN_TEST_FUZZ_HELPER_WORLD_H

#include <sys/types.h>
#include <time.h>

void end_helper(int code) __attribute__((noreturn));
int world_time(clockid_t clock, struct timespec *t);
ssize_t world_write(int fd, const void *bytes, size_t n);
int world_sleep(const struct timespec *t, struct timespec *rest);

#endif
