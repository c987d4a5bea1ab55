/*-------------------------------------------------------------------------
 *
 * border.c
 *	  What the extension gpujoin_advisor uses of this library, and the functions that have moved
 *	  there.
 *
 * gpujoin_advise() was part of gpujoin up to version 1.1.  The scripts of these versions still
 * create it, and users have views and jobs that call it.  So it remains, under its old name: it
 * calls the advisor if a database has that extension, and otherwise says where it has gone.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/extension.h"
#include "fmgr.h"

#include "advise.h"
#include "base/settings.h"

PG_FUNCTION_INFO_V1(gpujoin_advise);
PG_FUNCTION_INFO_V1(gpujoin_advise_query);

#define ADVISOR			"gpujoin_advisor"

extern PGDLLEXPORT const GjBorder *gpujoin_border(void);

static Datum call_advisor(FunctionCallInfo fcinfo, const char *function);

/*
 * The advisor looks this up by name
 */
const GjBorder *
gpujoin_border(void)
{
	static const GjBorder border = {
		.version = GJ_VERSION,
		.min_rows = &gj_min_rows,
		.assumed_keys = &gj_assumed_keys,
		.class_is_of_type = GjClassIsOfType,
		.codec_has_rests = GjCodecHasRests,
		.can_include = GjCanInclude,
		.column_new_flags = GjColumnNewFlags,
		.layout_make = GjLayoutMake,
		.texts_are_packed = GjTextsArePacked,
		.assume_keys = GjAssumedKeys,
		.additions = &GjPlanAdded,
		.choice_start = GjChoiceStart,
		.choice_stop = GjChoiceStop,
	};

	return &border;
}

/*
 * gpujoin_advise(): the old name of gpujoin_propose()
 */
Datum
gpujoin_advise(PG_FUNCTION_ARGS)
{
	return call_advisor(fcinfo, "gpujoin_propose");
}

/*
 * gpujoin_advise(query): the old name of gpujoin_propose(query)
 */
Datum
gpujoin_advise_query(PG_FUNCTION_ARGS)
{
	return call_advisor(fcinfo, "gpujoin_propose_query");
}

static Datum
call_advisor(FunctionCallInfo fcinfo, const char *function)
{
	PGFunction	moved;

	if (!OidIsValid(get_extension_oid(ADVISOR, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("gpujoin_advise() has moved to the extension %s", ADVISOR),
				 errhint("Use CREATE EXTENSION %s to install it in this database; the function's "
						 "new name is gpujoin_propose().", ADVISOR)));
	moved = (PGFunction) load_external_function(GJ_ADVISOR_LIBRARY, function, true, NULL);
	return moved(fcinfo);
}
