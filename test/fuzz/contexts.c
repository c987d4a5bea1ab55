/*
 * contexts.c
 *	  Stand-in for PostgreSQL's memory contexts: see server.h.  Each piece of memory comes
 *	  from malloc(), so that the sanitizer detects writes past its end and uses after free.
 *
 * Allocations that PostgreSQL would refuse, or that are larger than any input justifies, are
 * findings.
 */
#include "server.h"

#include "lib/ilist.h"
#include "nodes/memnodes.h"
#include "utils/memutils.h"

typedef struct Context
{
	MemoryContextData base;
	struct Context *parent;
	dlist_head	children;
	dlist_node	sibling;
	dlist_head	chunks;
} Context;

typedef struct Chunk
{
	dlist_node	node;
	Context    *context;
	Size		size;
} Chunk;

#define CHUNK_HEAD	MAXALIGN(sizeof(Chunk) + 8)

static Context top = {
	.children = DLIST_STATIC_INIT(top.children),
	.chunks = DLIST_STATIC_INIT(top.chunks)
};
MemoryContext CurrentMemoryContext = (MemoryContext) &top;
MemoryContext TopMemoryContext = (MemoryContext) &top;
MemoryContext CacheMemoryContext = (MemoryContext) &top;
Size		most_memory = MaxAllocHugeSize;

static void *
allocate(MemoryContext context, Size size, Size most, bool zero)
{
	Chunk	   *chunk;

	require(context != NULL && size <= most);
	require(size <= most_memory);
	chunk = malloc(CHUNK_HEAD + size);
	require(chunk != NULL);
	chunk->context = (Context *) context;
	chunk->size = size;
	dlist_push_tail(&chunk->context->chunks, &chunk->node);
	if (zero)
		memset((char *) chunk + CHUNK_HEAD, 0, size);
	return (char *) chunk + CHUNK_HEAD;
}

static Chunk *
chunk_of(void *pointer)
{
	return (Chunk *) ((char *) pointer - CHUNK_HEAD);
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name, Size min, Size init,
							  Size max)
{
	Context    *context = calloc(1, sizeof(Context));

	dlist_init(&context->children);
	dlist_init(&context->chunks);
	context->parent = (Context *) parent;
	dlist_push_tail(&context->parent->children, &context->sibling);
	return (MemoryContext) context;
}

void
MemoryContextReset(MemoryContext context)
{
	Context    *c = (Context *) context;

	while (!dlist_is_empty(&c->children))
		MemoryContextDelete((MemoryContext) dlist_container(Context, sibling,
															dlist_head_node(&c->children)));
	while (!dlist_is_empty(&c->chunks))
		pfree((char *) dlist_container(Chunk, node, dlist_head_node(&c->chunks)) + CHUNK_HEAD);
}

void
MemoryContextDelete(MemoryContext context)
{
	Context    *c = (Context *) context;

	MemoryContextReset(context);
	dlist_delete(&c->sibling);
	free(c);
}

void
MemoryContextSetParent(MemoryContext context, MemoryContext parent)
{
	Context    *c = (Context *) context;

	dlist_delete(&c->sibling);
	c->parent = (Context *) parent;
	dlist_push_tail(&c->parent->children, &c->sibling);
}

Size
MemoryContextMemAllocated(MemoryContext context, bool recurse)
{
	Context    *c = (Context *) context;
	Size		sum = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &c->chunks)
		sum += dlist_container(Chunk, node, iter.cur)->size;
	if (recurse)
	{
		dlist_foreach(iter, &c->children)
			sum += MemoryContextMemAllocated((MemoryContext)
											 dlist_container(Context, sibling, iter.cur), true);
	}
	return sum;
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return allocate(context, size, MaxAllocSize, false);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return allocate(context, size, MaxAllocSize, true);
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	return allocate(context, size, MaxAllocHugeSize, false);
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	return allocate(context, size, flags & MCXT_ALLOC_HUGE ? MaxAllocHugeSize : MaxAllocSize,
					(flags & MCXT_ALLOC_ZERO) != 0);
}

void *
palloc(Size size)
{
	return allocate(CurrentMemoryContext, size, MaxAllocSize, false);
}

void *
palloc0(Size size)
{
	return allocate(CurrentMemoryContext, size, MaxAllocSize, true);
}

void
pfree(void *pointer)
{
	dlist_delete(&chunk_of(pointer)->node);
	free(chunk_of(pointer));
}

void *
repalloc_huge(void *pointer, Size size)
{
	Chunk	   *old = chunk_of(pointer);
	void	   *new = allocate((MemoryContext) old->context, size, MaxAllocHugeSize, false);

	memcpy(new, pointer, Min(size, old->size));
	pfree(pointer);
	return new;
}

void *
repalloc(void *pointer, Size size)
{
	require(size <= MaxAllocSize);
	return repalloc_huge(pointer, size);
}
