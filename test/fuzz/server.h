/*
 * server.h
 *	  What stands in for a PostgreSQL server in fuzz targets of code that runs in one: memory
 *	  contexts, errors, and buffers of one index, each page of which is memory of its own, so that
 *	  the sanitizer sees who reads past its end.
 */
#ifndef GPUJOIN_TEST_FUZZ_SERVER_H
#define GPUJOIN_TEST_FUZZ_SERVER_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/relcache.h"

#include "fuzz.h"

/* No input asks for more; more than one of these at a time would not be noticed here */
#define MAX_BLOCKS 64

extern char *pages[MAX_BLOCKS];
extern BlockNumber npages;

/* More memory at a time than anything in a small index is a reason for */
extern Size most_memory;

/* The last error */
extern int last_sqlstate;
extern char last_message[512];

extern void server_reset(void);
extern void require_nothing_held(void);
extern void server_forget_locks(void);
extern void blocks_resize(BlockNumber n);

/* Runs a function; false if it ended with an error */
extern bool succeeds(void (*function) (void *arg), void *arg);

#endif
