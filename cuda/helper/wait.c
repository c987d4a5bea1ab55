/*
 * wait.c
 *	  The watchdog for the device: detects pieces of work that have waited too long.
 *
 * Each piece (a request, a match being ended) has its own timer. With one timer for all, a stream
 * that hangs would never be noticed while others are served: their progress says nothing about
 * it. Progress of older pieces is different: the device works first come, first served, so while
 * these advance, a younger one is merely queued.
 *
 * If the device hangs, this process exits: nothing else frees the resources of a kernel that
 * never ends.
 */
#include "helper.h"

/* Notes that the piece waits, from now on or still. */
void
wait_on(wait *w)
{
	if (w->order != 0)
		return;
	w->order = ++h.wait_order;
	w->ns = -h.round_ns; /* the current round does not count */
}

/* Notes that the piece has made progress or does not wait for the device. */
void
wait_over(wait *w, bool moved)
{
	if (moved && w->order != 0 && (h.moved_order == 0 || w->order < h.moved_order))
		h.moved_order = w->order;
	w->order = 0;
	w->ns = 0;
}

/* Checks all waiting pieces, at the end of each round. */
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
