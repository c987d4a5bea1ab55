/*
 * server.h
 *	  Stand-in for a PostgreSQL server, for fuzz targets of backend code: memory contexts,
 *	  errors, and buffers of one index, each page of which is a separate allocation, so that
 *	  the sanitizer detects reads past its end.
 */
#ifndef GPUJOIN_TEST_FUZZ_SERVER_H
#define GPUJOIN_TEST_FUZZ_SERVER_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/relcache.h"

#include "fuzz.h"

/* Large enough for every input; more than one of these at a time would not be noticed here */
#define MAX_BLOCKS 64

extern char *pages[MAX_BLOCKS];
extern BlockNumber npages;

/* Limit of memory at a time, more than anything in a small index justifies */
extern Size most_memory;

/* Locks that are held: locks.c */
extern int nfold_locks;
extern int nmerge_locks;

/* The last error */
extern int last_sqlstate;
extern char last_message[512];

extern void server_reset(void);
extern void require_nothing_held(void);
extern void server_forget_locks(void);
extern void blocks_resize(BlockNumber n);

/* Runs a function; returns false if it raised an error */
extern bool succeeds(void (*function) (void *arg), void *arg);

#endif
