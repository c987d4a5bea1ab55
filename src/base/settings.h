/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  Names shared by the whole PostgreSQL side: settings, their limits, and one Init function
 *	  for each subsystem.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_SETTINGS_H
#define GPUJOIN_BASE_SETTINGS_H

#ifdef __CUDACC__
#error "src/ is the PostgreSQL side: CUDA code includes cuda/border/gpujoin_device.h only"
#endif

/* Name of the access method, the extension and the prefix of the settings */
#define GJ_NAME					"gpujoin"

/* Version of the library, which that of the advisor compares with its own */
#define GJ_VERSION				"1.2.0"

/* Maximum number of INCLUDE columns of an index */
#define GJ_MAX_INCLUDED			30

/* gpujoin.min_rows: smaller tables are left to PostgreSQL's own plans */
#define GJ_DEFAULT_MIN_ROWS		10000
#define GJ_MIN_MIN_ROWS			0
#define GJ_MAX_MIN_ROWS			INT_MAX

/* gpujoin.assumed_keys: assumed length of an array that is not known before execution */
#define GJ_DEFAULT_ASSUMED_KEYS	1000
#define GJ_MAX_ASSUMED_KEYS		INT_MAX

/* Number of rows from which a device computes aggregates: a request takes a little longer then */
#define GJ_DEFAULT_REDUCE_ROWS	32000

/*
 * Cost settings, in the planner's units (seq_page_cost = 1).  The formulas that use them are in
 * plan/cost.c.
 */
#define GJ_DEFAULT_SETUP_COST		20.0	/* per search: key set, latches */
#define GJ_DEFAULT_SEARCH_COST		0.0002 /* per index entry searched on the CPU */
#define GJ_DEFAULT_TID_COST			0.002	/* per matching TID handed over */
#define GJ_DEFAULT_DEVICE_SETUP_COST	100.0	/* per request to a device */
#define GJ_DEFAULT_DEVICE_SEARCH_COST	0.00001 /* per index entry searched by a device */
#define GJ_MAX_COST					1.0e6

/* Device service: the choice of device, and the memory shared with its process */
typedef enum GjDevice
{
	GJ_DEVICE_AUTO,				/* a GPU if there is one */
	GJ_DEVICE_CUDA,
	GJ_DEVICE_REFERENCE,		/* plain C, for tests */
	GJ_DEVICE_NONE
} GjDevice;

/* Maximum number of devices */
#define GJ_MAX_DEVICES				16

#define GJ_MAX_DEVICE_MEMORY		(16 * 1024 * 1024)	/* MB */

#define GJ_DEFAULT_RESULT_BUFFER	(128 * 1024)	/* kB */
#define GJ_MIN_RESULT_BUFFER		1024
#define GJ_MAX_RESULT_BUFFER		(16 * 1024 * 1024)

/* Smallest share of the result buffer for a request: each half has room for the image of a narrow
 * page, which may have four times the slots of a plain one */
#define GJ_MIN_CHUNK_BYTES			((Size) 16 * BLCKSZ)

#define GJ_DEFAULT_MAX_REQUESTS		64
#define GJ_MAX_MAX_REQUESTS			256

#define GJ_DEFAULT_DEVICE_TIMEOUT	10000	/* ms */
#define GJ_MIN_DEVICE_TIMEOUT		100
#define GJ_MAX_DEVICE_TIMEOUT		(24 * 60 * 60 * 1000)

extern int	gj_device;
extern char *gj_gpu;
extern int	gj_device_memory;
extern int	gj_result_buffer;
extern int	gj_max_requests;
extern int	gj_device_timeout;

/* Mirrors: their maximum number, and how far one may lag before it is synchronized */
#define GJ_DEFAULT_MAX_MIRRORS		256
#define GJ_MAX_MAX_MIRRORS			65536

/* Searching this many pages on the CPU takes about as long as the rest of a request */
#define GJ_DEFAULT_SYNC_BLOCKS		128
#define GJ_MAX_SYNC_BLOCKS			INT_MAX

extern bool gj_auto_load;
extern int	gj_max_mirrors;
extern int	gj_sync_blocks;

/*
 * Folds by background workers: the number of unsorted pages from which on an index is flushed (-1:
 * by its size, 0: never), and the number of workers
 */
#define GJ_AUTO_FOLD_PAGES			(-1)
#define GJ_MAX_FOLD_PAGES			INT_MAX
#define GJ_DEFAULT_FOLD_WORKERS		3
#define GJ_MAX_FOLD_WORKERS			64

extern int	gj_fold_pages;
extern int	gj_fold_workers;

/* For tests: a device is asked to reduce rows if at least this number is expected */
extern int	gj_reduce_rows;

/* preload.c */
extern bool GjAtServerStart(void (*request) (void), void (*start) (void));

/* guc.c */
extern bool gj_enabled;
extern bool gj_force;
extern bool gj_aggregate;
extern bool gj_device_aggregate;
extern int	gj_min_rows;
extern int	gj_assumed_keys;
extern double gj_setup_cost;
extern double gj_search_cost;
extern double gj_tid_cost;
extern double gj_device_setup_cost;
extern double gj_device_search_cost;

extern void GjGucInit(void);
extern bool GjWantsAllGpus(void);
extern const char *GjGpuName(int n);

/*
 * Return true if a code of a kind that may be a hash (pages/pages.h) does not tell the value
 */
static inline bool
GjCodeIsHash(int64 code)
{
	return code < PG_INT64_MIN / 2;
}

#endif							/* GPUJOIN_BASE_SETTINGS_H */
