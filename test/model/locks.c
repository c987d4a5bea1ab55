/*-------------------------------------------------------------------------
 *
 * locks.c
 *	  An exhaustive model of the locks that folds, merges and deletions of an index share with
 *	  PostgreSQL: "Locks" in src/README.
 *
 * A lock of a table has holders and a queue, as in PostgreSQL's lock manager: a request waits if it
 * conflicts with a holder or with one who waits already; a try fails in the same cases.  (With
 * holders only, the mutants that sleep under a lock would have no fault.)  The fold lock has a
 * queue, too; the merge lock is only tried.
 *
 * A worker merges in two steps (am/worker.c), gpujoin_fold(i, true) folds and merges
 * (admin/command.c), an autovacuum deletes and merges (am/vacuum.c), a check starts over
 * (admin/check.c), DDL locks the table, and perhaps another one, and a query reads it.  In some
 * worlds the transaction of gpujoin_fold() has locked the table before, or the other one.
 *
 * A process that sleeps until something changes has no step meanwhile.  One that waits in a circle
 * of the lock manager gets an error.  From each state a state must be reachable in which all have
 * ended: otherwise some of them wait for each other where PostgreSQL does not see it.  And none may
 * wait in the lock manager for a lock that the autovacuum has: PostgreSQL would cancel it.
 *
 *	  locks				all rules, then all mutants; exit status 0 if each behaves as expected
 *	  locks -v			with the orders of steps
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum Mutant
{
	ALL_RULES,
	SLEEPS_UNDER_LOCK,			/* gpujoin_fold() keeps its lock while it sleeps for a merge */
	SLEEPS_AFTER_LOCK,			/* it sleeps for a merge though its transaction has locked the
								 * table before ... */
	SLEEPS_AFTER_OTHER,			/* ... or another table */
	FOLD_WAITS,					/* it waits for the fold lock in the lock manager */
	CHECK_WAITS,				/* so does a check */
	FOLD_LOCK_FIRST				/* a worker locks the table after it has got the fold lock */
} Mutant;

enum
{
	WORKER, FOLD, VACUUM, CHECK, DDL, QUERY, PROCESSES
};

/* Locks; the first two are of tables */
enum
{
	TABLE, OTHER, FOLDS, MERGES, LOCKS
};

/* Modes: of queries, of VACUUM, of DDL.  User locks have the first and the last. */
enum
{
	NO, SHARE, UPDATE, EXCLUSIVE
};

#define END			99
#define LAST_STEP	2			/* of a merge */

typedef struct Lock
{
	int8_t		held[PROCESSES];	/* mode */
	int8_t		nwaiting;
	int8_t		queue[PROCESSES];
	int8_t		wanted[PROCESSES];	/* by those in the queue */
} Lock;

typedef struct State
{
	Lock		locks[LOCKS];
	int8_t		next[PROCESSES];	/* step of each process */
	int8_t		steps[PROCESSES];	/* of its merge */
	int8_t		before;			/* lock that gpujoin_fold()'s transaction had, or NONE */
	bool		both;			/* DDL locks both tables */
	bool		is_folded;
} State;

#include "reach.h"

static Mutant mutant;
static bool *can_end;			/* of each node; NULL while states are collected */
static bool leads_to_end;

/* The lock manager -------------------------------------------------------------------- */

static bool
do_conflict(int a, int b)
{
	return a != NO && b != NO && (a == EXCLUSIVE || b == EXCLUSIVE || (a == UPDATE && b == UPDATE));
}

/* Return true if a mode conflicts with one that others have, or await in the first n places */
static bool
is_blocked(const Lock *lock, int p, int mode, int n)
{
	for (int other = 0; other < PROCESSES; other++)
	{
		if (other != p && do_conflict(lock->held[other], mode))
			return true;
	}
	for (int i = 0; i < n; i++)
	{
		if (do_conflict(lock->wanted[i], mode))
			return true;
	}
	return false;
}

static bool
try(State *t, int which, int p, int mode)
{
	Lock	   *lock = &t->locks[which];

	if (lock->held[p] < mode && is_blocked(lock, p, mode, lock->nwaiting))
		return false;
	if (lock->held[p] < mode)
		lock->held[p] = mode;
	return true;
}

/* Get a lock, now or when it is granted; until then the process has no step */
static void
request(State *t, int which, int p, int mode)
{
	Lock	   *lock = &t->locks[which];

	if (try(t, which, p, mode))
		return;
	lock->queue[lock->nwaiting] = p;
	lock->wanted[lock->nwaiting++] = mode;
}

static void
release(State *t, int which, int p)
{
	Lock	   *lock = &t->locks[which];
	int			n = 0;

	lock->held[p] = p == FOLD && t->before == which ? SHARE : NO;
	for (int i = 0; i < lock->nwaiting; i++)
	{
		if (is_blocked(lock, lock->queue[i], lock->wanted[i], n))
		{
			lock->queue[n] = lock->queue[i];
			lock->wanted[n++] = lock->wanted[i];
		}
		else
			lock->held[lock->queue[i]] = lock->wanted[i];
	}
	for (int i = n; i < PROCESSES; i++)
		lock->queue[i] = lock->wanted[i] = 0;
	lock->nwaiting = n;
}

static bool
waits_for(const State *s, int which, int p)
{
	for (int i = 0; i < s->locks[which].nwaiting; i++)
	{
		if (s->locks[which].queue[i] == p)
			return true;
	}
	return false;
}

static bool
is_waiting(const State *s, int p)
{
	for (int which = 0; which < LOCKS; which++)
	{
		if (waits_for(s, which, p))
			return true;
	}
	return false;
}

/* Does p, or one that it waits for, wait in the lock manager for "whom"? */
static bool
waits_for_process(const State *s, int p, int whom, unsigned seen)
{
	for (int which = 0; which < LOCKS; which++)
	{
		const Lock *lock = &s->locks[which];
		int			at = 0;

		while (at < lock->nwaiting && lock->queue[at] != p)
			at++;
		for (int other = 0; at < lock->nwaiting && other < PROCESSES; other++)
		{
			bool		is_before = do_conflict(lock->held[other], lock->wanted[at]);

			for (int i = 0; i < at; i++)
				is_before |= lock->queue[i] == other &&
					do_conflict(lock->wanted[i], lock->wanted[at]);
			if (other == p || !is_before)
				continue;
			if (other == whom || (!(seen & (1u << other)) &&
								  waits_for_process(s, other, whom, seen | 1u << other)))
				return true;
		}
	}
	return false;
}

/* The processes ----------------------------------------------------------------------- */

static uint32_t
find_node(const State *s)
{
	uint32_t	i = table[hash(s) & (table_size - 1)];

	while (memcmp(&nodes[i - 1].state, s, sizeof(State)) != 0)
		i = nodes[i - 1].next;
	return i - 1;
}

static void
go(const State *t, int p, const char *step)
{
	if (can_end == NULL)
		reach(t, step, p);
	else
		leads_to_end |= can_end[find_node(t)];
}

static void
end(State *t, int p)
{
	t->next[p] = END;
	t->steps[p] = 0;
	if (p == FOLD)
		t->before = NONE;
	for (int which = 0; which < LOCKS; which++)
	{
		Lock	   *lock = &t->locks[which];

		for (int i = 0; i < lock->nwaiting; i++)
			lock->wanted[i] = lock->queue[i] == p ? NO : lock->wanted[i];
		release(t, which, p);
	}
}

/* An error of one that waits in a circle: PostgreSQL has detected it */
static void
detect_deadlock(const State *s, int p)
{
	State		t = *s;

	if (!waits_for_process(s, p, p, 0))
		return;
	end(&t, p);
	go(&t, p, "deadlock");
}

/* A step of a merge, which begins with the merge lock; returns false if another has that */
static bool
merge(State *t, int p)
{
	if (t->steps[p] == 0 && !try(t, MERGES, p, EXCLUSIVE))
		return false;
	t->steps[p]++;
	return true;
}

/* A unit: both locks, or none and a sleep */
static void
work(const State *s)
{
	State		t = *s;
	int			first = mutant == FOLD_LOCK_FIRST ? FOLDS : TABLE;
	int			second = mutant == FOLD_LOCK_FIRST ? TABLE : FOLDS;

	switch (s->next[WORKER])
	{
		case 0:
			if (!try(&t, first, WORKER, first == TABLE ? SHARE : EXCLUSIVE))
				return;
			t.next[WORKER] = 1;
			break;
		case 1:
			if (try(&t, second, WORKER, second == TABLE ? SHARE : EXCLUSIVE))
				t.next[WORKER] = 2;
			else if (mutant == FOLD_LOCK_FIRST)
				return;
			else
			{
				release(&t, TABLE, WORKER);
				t.next[WORKER] = 0;
			}
			break;
		default:
			t.next[WORKER] = 0;
			release(&t, FOLDS, WORKER);
			release(&t, TABLE, WORKER);
			if (!merge(&t, WORKER) || t.steps[WORKER] == LAST_STEP)
				end(&t, WORKER);
			break;
	}
	go(&t, WORKER, "worker");
}

/* Does gpujoin_fold() sleep, though this process has a lock of a table? */
static bool
sleeps_with_lock(const State *s)
{
	if (s->locks[TABLE].held[FOLD] != NO)
		return mutant == SLEEPS_UNDER_LOCK || mutant == SLEEPS_AFTER_LOCK;
	return mutant == SLEEPS_AFTER_OTHER || s->locks[OTHER].held[FOLD] == NO;
}

static void
fold(const State *s)
{
	State		t = *s;

	switch (s->next[FOLD])
	{
		case 0:
			request(&t, TABLE, FOLD, SHARE);
			t.next[FOLD] = 1;
			break;
		case 1:
			t.next[FOLD] = 2;
			if (mutant == FOLD_WAITS)
				request(&t, FOLDS, FOLD, EXCLUSIVE);
			else if (!try(&t, FOLDS, FOLD, EXCLUSIVE))
			{
				release(&t, TABLE, FOLD);
				t.next[FOLD] = 0;
			}
			break;
		case 2:
			release(&t, FOLDS, FOLD);
			t.next[FOLD] = 0;
			if (!t.is_folded)
				t.is_folded = true;
			else if (!merge(&t, FOLD))
				t.next[FOLD] = 3;
			else if (t.steps[FOLD] == LAST_STEP)
				end(&t, FOLD);
			if (t.next[FOLD] != END && (t.next[FOLD] == 0 || mutant != SLEEPS_UNDER_LOCK))
				release(&t, TABLE, FOLD);
			break;
		default:
			if (!sleeps_with_lock(s))
				end(&t, FOLD);	/* it says that another process merges */
			else if (is_blocked(&s->locks[MERGES], FOLD, EXCLUSIVE, 0))
				return;
			else
				t.next[FOLD] = 0;
			break;
	}
	go(&t, FOLD, "gpujoin_fold()");
}

static void
vacuum(const State *s)
{
	State		t = *s;

	t.next[VACUUM]++;
	switch (s->next[VACUUM])
	{
		case 0:
			/* it only tries, like an autovacuum */
			if (!try(&t, TABLE, VACUUM, UPDATE))
				end(&t, VACUUM);
			break;
		case 1:
		case 4:
			request(&t, FOLDS, VACUUM, EXCLUSIVE);
			break;
		case 2:
			release(&t, FOLDS, VACUUM);
			break;
		case 3:
			if (!try(&t, FOLDS, VACUUM, EXCLUSIVE) || !merge(&t, VACUUM))
				end(&t, VACUUM);
			else
				release(&t, FOLDS, VACUUM);
			break;
		default:
			end(&t, VACUUM);
			break;
	}
	go(&t, VACUUM, "VACUUM");
}

static void
check(const State *s)
{
	State		t = *s;

	t.next[CHECK]++;
	if (s->next[CHECK] == 0)
		request(&t, TABLE, CHECK, SHARE);
	else if (s->next[CHECK] == 2)
		end(&t, CHECK);
	else if (mutant == CHECK_WAITS)
		request(&t, FOLDS, CHECK, SHARE);
	else
		(void) try(&t, FOLDS, CHECK, SHARE);
	go(&t, CHECK, "check");
}

static void
lock_tables(const State *s, int p, int mode)
{
	State		t = *s;

	t.next[p]++;
	if (s->next[p] == 0)
		request(&t, TABLE, p, mode);
	else if (s->next[p] == 1 && p == DDL && s->both)
		request(&t, OTHER, p, mode);
	else
		end(&t, p);
	go(&t, p, p == DDL ? "DDL" : "query");
}

static void
take_steps(const State *s)
{
	for (int p = 0; p < PROCESSES; p++)
	{
		if (s->next[p] == END)
			continue;
		if (is_waiting(s, p))
			detect_deadlock(s, p);
		else if (p == WORKER)
			work(s);
		else if (p == FOLD)
			fold(s);
		else if (p == VACUUM)
			vacuum(s);
		else if (p == CHECK)
			check(s);
		else
			lock_tables(s, p, p == DDL ? EXCLUSIVE : SHARE);
	}
}

/* Faults ------------------------------------------------------------------------------ */

static bool
settle(State *s)
{
	for (int p = 0; p < PROCESSES; p++)
	{
		if (s->locks[FOLDS].held[VACUUM] != NO && waits_for(s, FOLDS, p))
			fault = "an autovacuum is canceled";
	}
	return true;
}

static bool
is_end(const State *s)
{
	for (int p = 0; p < PROCESSES; p++)
	{
		if (s->next[p] != END)
			return false;
	}
	return true;
}

/* Find a state from which not all can end: the one that is reached first */
static const char *
find_trap(uint32_t *last)
{
	bool		has_more = true;

	can_end = must(calloc(nnodes, sizeof(bool)));
	for (uint32_t i = 0; i < nnodes; i++)
		can_end[i] = is_end(&nodes[i].state);
	while (has_more)
	{
		has_more = false;
		for (uint32_t i = nnodes; i-- > 0;)
		{
			leads_to_end = false;
			if (!can_end[i])
				take_steps(&nodes[i].state);
			can_end[i] |= leads_to_end;
			has_more |= leads_to_end;
		}
	}
	for (*last = 0; *last < nnodes && can_end[*last]; (*last)++)
		;
	free(can_end);
	can_end = NULL;
	return *last < nnodes ? "some wait for each other" : NULL;
}

static const struct
{
	Mutant		mutant;
	int			before;
	const char *name;
}			cases[] =
{
	{ALL_RULES, NONE, "all rules"},
	{ALL_RULES, TABLE, "all rules, the transaction has locked the table"},
	{ALL_RULES, OTHER, "all rules, the transaction has locked another table"},
	{SLEEPS_UNDER_LOCK, NONE, "gpujoin_fold() sleeps under its lock"},
	{SLEEPS_AFTER_LOCK, TABLE, "it sleeps though the transaction has locked the table"},
	{SLEEPS_AFTER_OTHER, OTHER, "it sleeps though the transaction has locked another table"},
	{FOLD_WAITS, NONE, "it waits in the lock manager"},
	{CHECK_WAITS, NONE, "a check waits in the lock manager"},
	{FOLD_LOCK_FIRST, NONE, "the fold lock comes before the table"},
};

int
main(int argc, char **argv)
{
	bool		verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	int			failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		State		start;
		uint32_t	last;
		const char *found;

		mutant = cases[i].mutant;
		memset(&start, 0, sizeof(start));
		start.before = cases[i].before;
		start.both = start.before == OTHER;
		if (start.before != NONE)
			start.locks[start.before].held[FOLD] = SHARE;
		found = explore(&start, take_steps, &last);
		if (found == NULL)
			found = find_trap(&last);
		failed += !report("locks, ", cases[i].name, found, mutant == ALL_RULES, last, verbose);
	}
	return failed > 0;
}
