/*
 * wait.c
 *	  The watchdog for the device: has a piece of work been waiting for too long?
 *
 * Each piece (a request, a match being ended) is watched by itself. Were it one timer for all, a
 * stream that hangs would never be noticed as long as others are served: their movement says
 * nothing about it. Pieces that were begun before it are another matter: the device works first
 * come, first served, so while these move, it is only in the queue.
 *
 * The device is told to hang by ending this process: nothing else frees what a kernel that never
 * ends holds.
 */
#include "helper.h"

/* It waits, from now on or still. */
void
wait_on(wait *w)
{
	if (w->order != 0)
		return;
	w->order = ++h.wait_order;
	w->ns = -h.round_ns; /* this round does not count */
}

/* It has got further, or does not wait for the device. */
void
wait_over(wait *w, bool moved)
{
	if (moved && w->order != 0 && (h.moved_order == 0 || w->order < h.moved_order))
		h.moved_order = w->order;
	w->order = 0;
	w->ns = 0;
}

/* At the end of each round, for all that wait. */
void
wait_check(wait *w)
{
	if (w->order == 0)
		return;
	if (h.moved_order != 0 && h.moved_order < w->order)
		w->ns = 0;
	else
		w->ns += h.round_ns;
	if (w->ns > timeout_ns())
		die(GJP_EXIT_HUNG, 0, "the device made no progress for %u ms",
			(unsigned) (timeout_ns() / NS_PER_MS));
}
