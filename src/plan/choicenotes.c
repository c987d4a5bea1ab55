/*-------------------------------------------------------------------------
 *
 * choicenotes.c
 *	  The notes for gpujoin_explain_choice(): which of our indexes a query could
 *	  use, which it does, and why not.
 *
 * EXPLAIN shows the plan that won.  The other paths are gone by then, so our hooks take notes while
 * the planner is at work (choice.c), from GjChoiceStart() to GjChoiceStop().  Which index is chosen
 * is known from the request to make a plan of the path.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "advise.h"
#include "choice.h"

/* The notes; NULL: none are taken */
static MemoryContext notes_context = NULL;
static List *notes = NIL;

/*
 * Take notes of all that is planned, in the current memory context; false: they are taken already
 */
bool
GjChoiceStart(void)
{
	if (notes_context != NULL)
		return false;
	notes_context = CurrentMemoryContext;
	notes = NIL;
	return true;
}

/*
 * Take no more notes; returns those that were taken
 */
List *
GjChoiceStop(void)
{
	List	   *result = notes;

	notes_context = NULL;
	notes = NIL;
	return result;
}

/*
 * Plan a query with parameters, and take notes
 *
 * It is planned first without, to find out for which parameters to assume values.
 */
void
GjChoiceNote(const Query *query, const char *text)
{
	MemoryContext context = notes_context;
	GjTrial    *trial = GjTrialMake(query, text);

	notes_context = NULL;
	(void) GjTrialStart(trial);
	notes_context = context;
	(void) GjNewIndexPlan(trial, NIL);
}

bool
GjChoiceIsNoted(void)
{
	return notes_context != NULL;
}

/*
 * Copy a string to where the notes are: the planner's memory is gone before they are read
 */
const char *
GjChoiceText(const char *text)
{
	return MemoryContextStrdup(notes_context, text);
}

/*
 * Make a note, to be filled in
 */
GjChoice *
GjChoiceAdd(Oid relation, Oid index, const char *node)
{
	MemoryContext old = MemoryContextSwitchTo(notes_context);
	GjChoice   *choice = palloc0(sizeof(GjChoice));

	choice->relation = relation;
	choice->index = index;
	choice->node = node;
	notes = lappend(notes, choice);
	MemoryContextSwitchTo(old);
	return choice;
}

GjChoice *
GjChoiceFind(Oid relation, Oid index, const char *node)
{
	ListCell   *lc;

	foreach(lc, notes)
	{
		GjChoice   *choice = lfirst(lc);

		if (choice->relation == relation && choice->index == index && choice->node == node)
			return choice;
	}
	return NULL;
}
