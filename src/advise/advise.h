/*-------------------------------------------------------------------------
 *
 * advise.h
 *	  The border between this library and that of the extension gpujoin_advisor (advisor/): all
 *	  that one may use of the other.
 *
 * The libraries are not linked to each other.  Each finds the other one by name, and has it loaded:
 * the advisor when it is loaded itself, gpujoin when a query needs the advisor.  So they work
 * whichever is loaded first, preloaded or not.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADVISE_H
#define GPUJOIN_ADVISE_H

#include "access/htup.h"
#include "catalog/pg_attribute.h"
#include "nodes/nodes.h"
#include "nodes/params.h"

#include "pages/pages.h"
#include "plan/plan.h"

/* The libraries, and the functions that they look up in each other */
#define GJ_LIBRARY				"$libdir/gpujoin"
#define GJ_BORDER				"gpujoin_border"
#define GJ_ADVISOR_LIBRARY		"$libdir/gpujoin_advisor"
#define GJ_NOTE_CHOICES			"gpujoin_note_choices"

/*
 * Functions and variables of gpujoin that the advisor uses.  It looks at the version first, which
 * is always the first member, and at nothing else if that is not its own.
 */
typedef struct GjBorder
{
	const char *version;

	/* settings */
	const int  *min_rows;
	const int  *assumed_keys;

	/* pages/: which columns an index can have, and how many entries there are on a page */
	bool		(*class_is_of_type) (Oid class_type, Oid column_type);
	bool		(*codec_has_rests) (Oid family, Oid type);
	bool		(*can_include) (const FormData_pg_attribute *attribute);
	uint16		(*column_new_flags) (const FormData_pg_attribute *attribute);
	bool		(*layout_make) (TupleDesc desc, bool has_rests, const uint16 *flags,
								GjLayout *layout);

	/* plan/: estimates; what is added to planning; notes for gpujoin_explain_choice() */
	bool		(*texts_are_packed) (HeapTuple statistics);
	double		(*assume_keys) (double ndistinct);
	const GjPlanAdditions **additions;
	bool		(*choice_start) (ParamListInfo assumed);
	List	   *(*choice_stop) (void);
} GjBorder;

typedef const GjBorder *(*GjBorderFunction) (void);

/*
 * The function of the advisor that gpujoin uses: it plans a statement with parameters, for which it
 * assumes values, while the planner's choices are noted
 */
typedef void (*GjNoteChoicesFunction) (const char *text);

/*
 * Return true if the planner handles a statement
 */
static inline bool
GjIsPlanned(const Node *statement)
{
	return IsA(statement, SelectStmt) || IsA(statement, InsertStmt) ||
		IsA(statement, UpdateStmt) || IsA(statement, DeleteStmt) || IsA(statement, MergeStmt);
}

#endif							/* GPUJOIN_ADVISE_H */
