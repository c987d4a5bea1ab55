/*-------------------------------------------------------------------------
 *
 * reach.h
 *	  The set of states that have been reached, and the search through all of them.
 *
 * The state is the model's own: it defines State before it includes this file.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_REACH_H
#define GPUJOIN_MODEL_REACH_H

#include <stdio.h>
#include <stdlib.h>

#define MAX_STATES	40000000		/* a larger number of states indicates a mistake */
#define NONE		(-1)

typedef struct Node
{
	State		state;
	uint32_t	parent;
	uint32_t	next;			/* next in its hash chain, plus 1 */
	uint32_t	hash;
	int			block;			/* of the step, or NONE */
	const char *step;
} Node;

static Node *nodes;
static uint32_t nnodes;
static uint32_t capacity;
static uint32_t *table;
static uint32_t table_size;
static uint32_t current;		/* the state whose steps are being made */
static const char *fault;		/* of the last state, if it has one */

/*
 * Make a reached state equal to those that differ from it only in irrelevant ways, and set "fault"
 * if it has one.  Return false if later steps do not matter.  Each model's own.
 */
static bool settle(State *s);

static uint32_t
hash(const State *state)
{
	const unsigned char *byte = (const unsigned char *) state;
	uint64_t	h = 14695981039346656037u;

	size_t		i = 0;

	for (; i + sizeof(uint64_t) <= sizeof(State); i += sizeof(uint64_t))
	{
		uint64_t	word;

		memcpy(&word, byte + i, sizeof(word));
		h = (h ^ word) * 1099511628211u;
		h ^= h >> 32;
	}
	for (; i < sizeof(State); i++)
		h = (h ^ byte[i]) * 1099511628211u;
	return (uint32_t) (h ^ (h >> 29));
}

static void *
must(void *memory)
{
	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return memory;
}

static void
rehash(void)
{
	table_size = table_size == 0 ? 1 << 16 : table_size * 2;
	free(table);
	table = must(calloc(table_size, sizeof(uint32_t)));
	for (uint32_t i = 0; i < nnodes; i++)
	{
		uint32_t   *chain = &table[nodes[i].hash & (table_size - 1)];

		nodes[i].next = *chain;
		*chain = i + 1;
	}
}

/*
 * Reduce gaps between change numbers to three: they are only compared, with others and with
 * neighbors
 */
static inline void
close_gaps(int8_t **numbers, int n)
{
	int8_t		from = 0;
	int8_t		to = 0;

	for (;;)
	{
		int8_t		next = INT8_MAX;
		int8_t		gap;

		for (int i = 0; i < n; i++)
		{
			if (*numbers[i] > from && *numbers[i] < next)
				next = *numbers[i];
		}
		if (next == INT8_MAX)
			break;
		gap = next - from > 3 ? 3 : next - from;
		to += gap;
		for (int i = 0; i < n; i++)
		{
			if (*numbers[i] == next)
				*numbers[i] = to;
		}
		from = to;
		/* all numbers above have moved down as far as this one */
		for (int i = 0; i < n; i++)
		{
			if (*numbers[i] > next)
				*numbers[i] -= next - to;
		}
	}
}

/* Record a state that has been reached from the current one by a step, whose name is a constant */
static void
reach(const State *reached, const char *step, int block)
{
	State		copy = *reached;
	const State *state = &copy;
	uint32_t	hashed;
	uint32_t	at;
	Node	   *node;

	if (!settle(&copy))
		return;
	hashed = hash(state);
	at = hashed & (table_size - 1);
	for (uint32_t i = table[at]; i != 0; i = nodes[i - 1].next)
	{
		if (nodes[i - 1].hash == hashed &&
			memcmp(&nodes[i - 1].state, state, sizeof(State)) == 0)
			return;
	}
	if (nnodes == MAX_STATES)
	{
		fprintf(stderr, "more than %d states\n", MAX_STATES);
		exit(2);
	}
	if (nnodes == capacity)
	{
		capacity = capacity == 0 ? 1 << 16 : capacity * 2;
		nodes = must(realloc(nodes, capacity * sizeof(Node)));
	}
	node = &nodes[nnodes++];
	node->state = *state;
	node->parent = current;
	node->hash = hashed;
	node->step = step;
	node->block = block;
	node->next = table[at];
	table[at] = nnodes;
	if (nnodes > table_size)
		rehash();
}

static void
print_steps(uint32_t node)
{
	if (node == 0)
		return;
	print_steps(nodes[node].parent);
	if (nodes[node].block == NONE)
		printf("    %s\n", nodes[node].step);
	else
		printf("    %s %d\n", nodes[node].step, nodes[node].block);
}

/* Take every step in every reachable world.  Return a fault, NULL if none has one. */
static const char *
explore(const State *start, void (*take_steps) (const State *s), uint32_t *last)
{
	nnodes = 0;
	table_size = 0;
	rehash();
	current = 0;
	reach(start, "start", NONE);
	fault = NULL;
	for (current = 0; current < nnodes && fault == NULL; current++)
	{
		State		s = nodes[current].state;

		take_steps(&s);
		*last = nnodes - 1;		/* the one that has a fault, if any */
	}
	return fault;
}

/*
 * Print what has been found in a case; with its steps if there should be no fault, or if all are
 * wanted.  Returns true if the case behaves as expected.
 */
static bool
report(const char *model, const char *name, const char *found, bool is_right, uint32_t last,
	   bool verbose)
{
	bool		good = (found == NULL) == is_right;

	printf("%s - %s%s: %s, %u states\n", good ? "ok" : "not ok", model, name,
		   found == NULL ? "no fault" : found, nnodes);
	fflush(stdout);
	if (found != NULL && (verbose || is_right))
		print_steps(last);
	return good;
}

#endif							/* GPUJOIN_MODEL_REACH_H */
