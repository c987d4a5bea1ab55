/*
 * server.c
 *	  Stand-in for a PostgreSQL server: see server.h.
 *
 * Functions here have the names and types of PostgreSQL's and do what these promise, as far as
 * our code relies on it.  Functions that are never called are missing: the linker leaves them
 * undefined, and calling one crashes with a stack that names the caller.
 */
#include "server.h"

#include <setjmp.h>
#include <stdarg.h>

#include "access/generic_xlog.h"
#include "access/table.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"

#include "mirror/mirror.h"

/* Errors ---------------------------------------------------------------------------- */

sigjmp_buf *PG_exception_stack;
ErrorContextCallback *error_context_stack;
volatile sig_atomic_t InterruptPending;
int			wal_compression;
bool		VacuumCostActive;
int			VacuumCostBalance;
#if PG_VERSION_NUM >= 160000
int			vacuum_cost_limit;
#else
int			VacuumCostLimit;
#endif
volatile uint32 CritSectionCount;
#if PG_VERSION_NUM >= 190000
bool		timing_tsc_enabled;
bool		timing_initialized = true;
uint64		ticks_per_ns_scaled;
uint64		max_ticks_no_overflow;
#endif
int			last_sqlstate;
char		last_message[512];
static int	error_level;

bool
errstart(int elevel, const char *domain)
{
	error_level = elevel;
	last_sqlstate = ERRCODE_INTERNAL_ERROR;
	return elevel >= ERROR;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	require(CritSectionCount == 0 && PG_exception_stack != NULL);
	siglongjmp(*PG_exception_stack, 1);
}

void
pg_re_throw(void)
{
	siglongjmp(*PG_exception_stack, 1);
}

int
errcode(int sqlerrcode)
{
	last_sqlstate = sqlerrcode;
	return 0;
}

/* Format all texts, so that their arguments are read */
#define MAKE_TEXT(fmt) \
	do { \
		va_list		args; \
		va_start(args, fmt); \
		vsnprintf(last_message, sizeof(last_message), fmt, args); \
		va_end(args); \
	} while (0)

int
errmsg(const char *fmt,...)
{
	MAKE_TEXT(fmt);
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	MAKE_TEXT(fmt);
	return 0;
}

int
errdetail(const char *fmt,...)
{
	MAKE_TEXT(fmt);
	return 0;
}

int
errdetail_internal(const char *fmt,...)
{
	MAKE_TEXT(fmt);
	return 0;
}

int
errhint(const char *fmt,...)
{
	MAKE_TEXT(fmt);
	return 0;
}

char *
psprintf(const char *fmt,...)
{
	char	   *text = palloc(sizeof(last_message));
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(last_message), fmt, args);
	va_end(args);
	return text;
}

bool
succeeds(void (*function) (void *arg), void *arg)
{
	sigjmp_buf	here;
	bool		ok = false;

	if (sigsetjmp(here, 0) == 0)
	{
		PG_exception_stack = &here;
		function(arg);
		ok = true;
	}
	PG_exception_stack = NULL;
	CurrentMemoryContext = TopMemoryContext;
	return ok;
}

/* Buffers: block n is local buffer n ---------------------------------------------------- */

char	   *pages[MAX_BLOCKS];
BlockNumber npages;
Block	   *LocalBufferBlockPointers = (Block *) pages;
int			NBuffers = 1024;
int			NLocBuffer = MAX_BLOCKS;
static int	pins[MAX_BLOCKS];
static int	locks[MAX_BLOCKS];	/* -1: exclusive */

/* Only the table's length is read; the targets' rows are all within it. */
#define TABLE_BLOCKS			1000
static RelationData table;

/* Do what the end of a transaction does */
void
server_forget_locks(void)
{
	memset(pins, 0, sizeof(pins));
	memset(locks, 0, sizeof(locks));
	nfold_locks = 0;
}

void
server_reset(void)
{
	server_forget_locks();
	MemoryContextReset(TopMemoryContext);
}

void
require_nothing_held(void)
{
	for (int i = 0; i < MAX_BLOCKS; i++)
		require(pins[i] == 0 && locks[i] == 0);
	require(nfold_locks == 0 && nmerge_locks == 0);
}

void
blocks_resize(BlockNumber n)
{
	for (; npages < n; npages++)
		pages[npages] = calloc(1, BLCKSZ);
	for (; npages > n; npages--)
		free(pages[npages - 1]);
}

#define BLOCK_OF(buffer)	(-(buffer) - 1)

/* Return true if PostgreSQL would accept the page when it reads the block */
static bool
may_be_read(const char *image)
{
	const PageHeaderData *p = (const PageHeaderData *) image;

	if (p->pd_upper == 0)
	{
		for (int i = 0; i < BLCKSZ; i++)
		{
			if (image[i] != 0)
				return false;
		}
		return true;
	}
	return (p->pd_flags & ~PD_VALID_FLAG_BITS) == 0 && p->pd_lower <= p->pd_upper &&
		p->pd_upper <= p->pd_special && p->pd_special <= BLCKSZ &&
		p->pd_special == MAXALIGN(p->pd_special);
}

Buffer
ReadBuffer(Relation rel, BlockNumber block)
{
	if (block == P_NEW)
	{
		if (npages == MAX_BLOCKS)
			ereport(ERROR, (errcode(ERRCODE_DISK_FULL), errmsg("disk full")));
		blocks_resize(npages + 1);
		block = npages - 1;
	}
	if (block >= npages || !may_be_read(pages[block]))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("invalid page")));
	pins[block]++;
	return -(Buffer) block - 1;
}

#if PG_VERSION_NUM >= 160000
BlockNumber
ExtendBufferedRelBy(BufferManagerRelation of, ForkNumber fork, BufferAccessStrategy strategy,
					uint32 flags, uint32 n, Buffer *buffers, uint32 *added)
{
	for (*added = 0; *added < n; (*added)++)
		buffers[*added] = ReadBuffer(of.rel, P_NEW);
	return BLOCK_OF(buffers[0]);
}
#endif

Buffer
ReadBufferExtended(Relation rel, ForkNumber fork, BlockNumber block, ReadBufferMode mode,
				   BufferAccessStrategy strategy)
{
	return ReadBuffer(rel, block);
}

BlockNumber
BufferGetBlockNumber(Buffer buffer)
{
	require(buffer < 0 && pins[BLOCK_OF(buffer)] > 0);
	return BLOCK_OF(buffer);
}

bool
ConditionalLockBuffer(Buffer buffer)
{
	BlockNumber block = BufferGetBlockNumber(buffer);

	if (locks[block] != 0)
		return false;
	locks[block] = -1;
	return true;
}

/* A process that waits for itself waits forever */
static void
lock_buffer(Buffer buffer, int mode)
{
	BlockNumber block = BufferGetBlockNumber(buffer);

	if (mode == BUFFER_LOCK_UNLOCK)
	{
		require(locks[block] != 0);
		locks[block] = 0;
		return;
	}
	require(locks[block] == 0);
	locks[block] = mode == BUFFER_LOCK_EXCLUSIVE ? -1 : 1;
}

#if PG_VERSION_NUM >= 190000
void
LockBufferInternal(Buffer buffer, BufferLockMode mode)
{
	lock_buffer(buffer, mode);
}

void
UnlockBuffer(Buffer buffer)
{
	lock_buffer(buffer, BUFFER_LOCK_UNLOCK);
}
#else
void
LockBuffer(Buffer buffer, int mode)
{
	lock_buffer(buffer, mode);
}
#endif

void
ReleaseBuffer(Buffer buffer)
{
	BlockNumber block = BufferGetBlockNumber(buffer);

	require(pins[block] > 1 || locks[block] == 0);
	pins[block]--;
}

void
UnlockReleaseBuffer(Buffer buffer)
{
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	ReleaseBuffer(buffer);
}

void
MarkBufferDirty(Buffer buffer)
{
	require(locks[BufferGetBlockNumber(buffer)] == -1);
}

BlockNumber
RelationGetNumberOfBlocksInFork(Relation rel, ForkNumber fork)
{
	return rel == &table ? TABLE_BLOCKS : npages;
}

Oid
IndexGetRelation(Oid index, bool missing_ok)
{
	return index + 1;
}

Relation
table_open(Oid relid, LOCKMODE lock)
{
	return &table;
}

void
table_close(Relation rel, LOCKMODE lock)
{
	require(rel == &table);
}

void
PageInit(Page page, Size size, Size special)
{
	PageHeader	p = (PageHeader) page;

	memset(p, 0, size);
	p->pd_lower = SizeOfPageHeaderData;
	p->pd_upper = p->pd_special = size - MAXALIGN(special);
	PageSetPageSizeAndVersion(page, size, PG_PAGE_LAYOUT_VERSION);
}

/* Generic WAL: copies that become the pages ------------------------------------------------ */

struct GenericXLogState
{
	int			n;
	Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
	char	   *images[MAX_GENERIC_XLOG_PAGES];
};

GenericXLogState *
GenericXLogStart(Relation rel)
{
	return palloc0(sizeof(GenericXLogState));
}

Page
GenericXLogRegisterBuffer(GenericXLogState *state, Buffer buffer, int flags)
{
	char	   *image = palloc(BLCKSZ);

	require(state->n < MAX_GENERIC_XLOG_PAGES);
	require(locks[BufferGetBlockNumber(buffer)] == -1);
	memcpy(image, BufferGetPage(buffer), BLCKSZ);
	state->buffers[state->n] = buffer;
	state->images[state->n++] = image;
	return (Page) image;
}

XLogRecPtr
GenericXLogFinish(GenericXLogState *state)
{
	for (int i = 0; i < state->n; i++)
	{
		PageHeader	p = (PageHeader) state->images[i];

		require(p->pd_lower <= p->pd_upper);
		memset(state->images[i] + p->pd_lower, 0, p->pd_upper - p->pd_lower);
		memcpy(BufferGetPage(state->buffers[i]), state->images[i], BLCKSZ);
	}
	return 1;
}

void
GenericXLogAbort(GenericXLogState *state)
{
}

/* Other records: a logged page must be locked, and each record must begin and end */

void
XLogBeginInsert(void)
{
	require(CritSectionCount != 0);
}

void
XLogRegisterBuffer(uint8 id, Buffer buffer, uint8 flags)
{
	PageHeader	p = (PageHeader) BufferGetPage(buffer);

	require(id <= XLR_NORMAL_MAX_BLOCK_ID);
	require(locks[BufferGetBlockNumber(buffer)] == -1);
	require(p->pd_lower >= SizeOfPageHeaderData && p->pd_lower <= p->pd_upper);
	require(p->pd_upper <= p->pd_special && p->pd_special <= BLCKSZ);
}

#if PG_VERSION_NUM >= 180000
void
XLogRegisterBufData(uint8 id, const void *data, uint32 length)
#elif PG_VERSION_NUM >= 160000
void
XLogRegisterBufData(uint8 id, char *data, uint32 length)
#else
void
XLogRegisterBufData(uint8 id, char *data, int length)
#endif
{
	require(length > 0);
}

XLogRecPtr
XLogInsert(RmgrId rmid, uint8 info)
{
	return 1;
}

/* Other services of a server --------------------------------------------------------------- */

int			MyProcPid = 1;
Oid			MyDatabaseId = 1;
int			maintenance_work_mem = 1024;
int			effective_io_concurrency;
int			autovacuum_work_mem = -1;
int			XactIsoLevel;
BackendType MyBackendType;
BufferUsage pgBufferUsage;

/* The progress of a fold is not reported. */
void
GjProgressBegin(Oid index)
{
}

void
GjProgressPhaseBegin(GjProgressPhase phase, uint64 total)
{
}

void
GjProgressDone(uint64 done)
{
}

void
GjProgressEnd(void)
{
}

void
ProcessInterrupts(void)
{
}

void
RecordFreeIndexPage(Relation rel, BlockNumber block)
{
	require(block < npages);
}

void
IndexFreeSpaceMapVacuum(Relation rel)
{
}

size_t
get_hash_memory_limit(void)
{
	return 1024 * 1024;
}

bool
RecoveryInProgress(void)
{
	return false;
}

/* No process asks for a fold worker: this is not a server process */
bool		IsUnderPostmaster = false;
int			gj_fold_pages = GJ_AUTO_FOLD_PAGES;
int			gj_fold_workers = 0;

void
GjUsageMakeRoom(Oid index)
{
}

void
GjUsageAdd(Oid index, const GjIndexUse *use)
{
}

bool
GjUsageAskOnce(Oid index)
{
	return false;
}

void
GjUsageSetWaiting(Oid index, bool waits)
{
}

bool
GjUsageIsWaiting(void)
{
	return false;
}

bool
GjUsageTakeWaiting(Oid *database, Oid *index)
{
	return false;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 0;
}

BlockNumber
GetFreeIndexPage(Relation rel)
{
	return InvalidBlockNumber;
}

PrefetchBufferResult
PrefetchBuffer(Relation rel, ForkNumber fork, BlockNumber block)
{
	return (PrefetchBufferResult)
	{
		InvalidBuffer, false
	};
}
