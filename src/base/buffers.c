/*-------------------------------------------------------------------------
 *
 * buffers.c
 *	  Remember which shared buffer holds a block of a heap, of its visibility map, or of an index.
 *
 * ReadBuffer() looks a block up in a shared hash table: it takes a lock and follows a chain
 * through memory that is not in the processor's cache, and nothing of the page can be prefetched
 * before that.  For a page of which one row or entry is wanted, that takes longer than everything
 * else.  So all processes share a map from blocks to the buffers where they were found last.  It
 * names the buffers of the next pages before they are pinned, so that their memory is fetched while
 * others are searched.
 *
 * A processor translates the addresses of several pages at a time, but only if it meets them
 * together: a pin or a lock between two of them makes it wait.  So callers recall the buffers of
 * several pages, and prefetch what they will read first, before they pin any of them.
 *
 * The map is an array of buffers, in which each block has one place.  The blocks of a relation have
 * adjacent places, because they are read in ascending order, and so that no two of them have the
 * same one, unless the relation is larger than the map.  Blocks of two relations may have the same
 * place, and the last one that was read keeps it.  A buffer may get another block at any time.
 *
 * This is safe because an entry is only a guess.  Each entry is 0 or a number that was a buffer's,
 * and the number of buffers never changes; entries are read and written whole, without a lock.
 * ReadRecentBuffer() pins the buffer only if it holds exactly that block and is valid, which it
 * tests under the lock of the buffer's header.  Otherwise the block is read as usual.
 *
 * ReadRecentBuffer() does not raise the buffer's usage count, and a buffer that no one else uses
 * would soon be evicted.  So a buffer with a low usage count is read as usual, which raises the
 * count as far as the strategy allows.  The count is read without a lock, as a hint.
 *
 * If the library is not preloaded, each process has a smaller map of its own.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "buffers.h"
#include "compat.h"
#include "prefetch.h"
#include "settings.h"

/* A buffer that survives this many rounds of the clock sweep is in no danger */
#define SAFE_USAGE_COUNT		(BM_MAX_USAGE_COUNT - 2)

/* Maximum number of entries of a process's own map, a power of two */
#define MOST_OWN_ENTRIES		(128 * 1024)

static volatile Buffer *map = NULL;
static uint32 map_entries;		/* a power of two */

static void buffers_request_shmem(void);
static void buffers_startup_shmem(void);
static uint32 buffers_count_entries(void);
static inline volatile Buffer *entry_of(Relation rel, ForkNumber fork, BlockNumber block);
static void create_own_map(void);
static inline Buffer try_buffer(Relation rel, ForkNumber fork, BlockNumber block, Buffer buffer);
static bool has_block(Buffer buffer, Relation rel, ForkNumber fork, BlockNumber block);
static void keep_buffer(volatile Buffer *entry, Buffer buffer);

/*
 * Have the map created in shared memory, if the library is being preloaded
 */
void
GjBuffersInit(void)
{
	(void) GjAtServerStart(buffers_request_shmem, buffers_startup_shmem);
}

static void
buffers_request_shmem(void)
{
	RequestAddinShmemSpace(mul_size(buffers_count_entries(), sizeof(Buffer)));
}

static void
buffers_startup_shmem(void)
{
	Size		size = mul_size(buffers_count_entries(), sizeof(Buffer));
	bool		found;
	void	   *shared;

	shared = ShmemInitStruct("gpujoin buffers", size, &found);
	if (!found)
		memset(shared, 0, size);
	map = shared;
	map_entries = buffers_count_entries();
}

/*
 * Return the number of entries of a map with room for two blocks a buffer
 */
static uint32
buffers_count_entries(void)
{
	return pg_nextpower2_32(Min(NBuffers, PG_INT32_MAX / 4) * 2);
}

void
GjBufferExpect(Relation rel, BlockNumber block)
{
	if (!RelationUsesLocalBuffers(rel))
		GjPrefetch((const void *) entry_of(rel, MAIN_FORKNUM, block));
}

Buffer
GjBufferRecall(Relation rel, BlockNumber block)
{
	Buffer		buffer;

	if (RelationUsesLocalBuffers(rel))
		return InvalidBuffer;
	buffer = *entry_of(rel, MAIN_FORKNUM, block);
	if (BufferIsValid(buffer))
		GjPrefetchForWrite(GetBufferDescriptor(buffer - 1));
	return buffer;
}

Buffer
GjBufferRead(Relation rel, BlockNumber block, Buffer recalled, BufferAccessStrategy strategy)
{
	bool		is_local = RelationUsesLocalBuffers(rel);
	Buffer		buffer;

	if (!BufferIsValid(recalled) && !is_local)
		recalled = *entry_of(rel, MAIN_FORKNUM, block);
	buffer = try_buffer(rel, MAIN_FORKNUM, block, recalled);
	if (BufferIsValid(buffer))
		return buffer;
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	if (buffer != recalled && !is_local)
		GjBufferNote(rel, block, buffer);
	return buffer;
}

void
GjBufferNote(Relation rel, BlockNumber block, Buffer buffer)
{
	keep_buffer(entry_of(rel, MAIN_FORKNUM, block), buffer);
}

Buffer
GjBufferReadVisible(Relation heap, BlockNumber page, BlockNumber first)
{
	Buffer		recalled = InvalidBuffer;
	Buffer		buffer;

	if (!RelationUsesLocalBuffers(heap))
		recalled = *entry_of(heap, VISIBILITYMAP_FORKNUM, page);
	buffer = try_buffer(heap, VISIBILITYMAP_FORKNUM, page, recalled);
	if (BufferIsValid(buffer))
		return buffer;
	(void) visibilitymap_get_status(heap, first, &buffer);
	if (BufferIsValid(buffer) && !RelationUsesLocalBuffers(heap))
		keep_buffer(entry_of(heap, VISIBILITYMAP_FORKNUM, page), buffer);
	return buffer;
}

static void
keep_buffer(volatile Buffer *entry, Buffer buffer)
{
	/* Other processors read this cache line, which a write would take from them */
	if (*entry != buffer)
		*entry = buffer;
}

/*
 * Return the block's entry in the map
 */
static inline volatile Buffer *
entry_of(Relation rel, ForkNumber fork, BlockNumber block)
{
	/* a map must not share places with the metapage of a table's index, often file + 2 */
	uint32		file = GjRelationFile(rel) ^ (uint32) fork << 28;

	if (unlikely(map == NULL))
		create_own_map();
	return &map[(murmurhash32(file) + block) & (map_entries - 1)];
}

static void
create_own_map(void)
{
	uint32		entries = Min(buffers_count_entries(), MOST_OWN_ENTRIES);

	map = MemoryContextAllocZero(TopMemoryContext, entries * sizeof(Buffer));
	map_entries = entries;
}

/*
 * Pin this buffer, if it is one and has the block; otherwise return InvalidBuffer
 */
static inline Buffer
try_buffer(Relation rel, ForkNumber fork, BlockNumber block, Buffer buffer)
{
	if (!BufferIsValid(buffer) || !has_block(buffer, rel, fork, block) ||
		!ReadRecentBuffer(GjRelationLocator(rel), fork, block, buffer))
		return InvalidBuffer;
	GjCountBufferHit(rel);
	return buffer;
}

/*
 * Return true if the buffer seems to have the block, and to be in no danger of being evicted
 */
static bool
has_block(Buffer buffer, Relation rel, ForkNumber fork, BlockNumber block)
{
	BufferDesc *header = GetBufferDescriptor(buffer - 1);

	return header->tag.blockNum == block && header->tag.forkNum == fork &&
		GjBufferTagFile(&header->tag) == GjRelationFile(rel) &&
		BUF_STATE_GET_USAGECOUNT(GjBufferState(header)) >= SAFE_USAGE_COUNT;
}
