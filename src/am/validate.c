/*-------------------------------------------------------------------------
 *
 * validate.c
 *	  Checking an operator class.
 *
 * An operator class is valid if every operator is an equality operator that returns boolean, if
 * both of its types have a key extraction function in the family, and if keys are stored in four
 * or eight bytes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "base/gpujoin.h"
#include "am.h"

static char *copy_family_name(Oid family_oid);
static bool check_procs(CatCList *procs, const char *family);
static bool check_operators(CatCList *operators, Oid family_oid, const char *family);
static bool check_groups(CatCList *operators, CatCList *procs, Form_pg_opclass opclass);
static bool check_storage(Form_pg_opclass opclass);

/*
 * Validate an operator class, and its family
 *
 * Reports all problems found, at level INFO.
 */
bool
gjvalidate(Oid opclassoid)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclassoid));
	Form_pg_opclass opclass;
	CatCList   *operators;
	CatCList   *procs;
	char	   *family;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclassoid);
	opclass = (Form_pg_opclass) GETSTRUCT(tuple);
	family = copy_family_name(opclass->opcfamily);
	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(opclass->opcfamily));
	procs = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(opclass->opcfamily));

	/* do not stop early: each check reports its own findings */
	result = check_storage(opclass);
	result = check_procs(procs, family) && result;
	result = check_operators(operators, opclass->opcfamily, family) && result;
	result = check_groups(operators, procs, opclass) && result;

	ReleaseCatCacheList(procs);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(tuple);
	return result;
}

static char *
copy_family_name(Oid family_oid)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family_oid));
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family_oid);
	name = pstrdup(NameStr(((Form_pg_opfamily) GETSTRUCT(tuple))->opfname));
	ReleaseSysCache(tuple);
	return name;
}

/*
 * Check that keys are stored as four or eight bytes, by value or not
 */
static bool
check_storage(Form_pg_opclass opclass)
{
	Oid			type = OidIsValid(opclass->opckeytype) ? opclass->opckeytype :
		opclass->opcintype;
	int16		width = get_typlen(type);

	if (width == sizeof(int32) || width == sizeof(int64))
		return true;
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator class \"%s\" of access method %s stores keys of type %s, "
					"which is not 4 or 8 bytes wide",
					NameStr(opclass->opcname), GJ_NAME, format_type_be(type))));
	return false;
}

static bool
check_procs(CatCList *procs, const char *family)
{
	bool		result = true;

	for (int i = 0; i < procs->n_members; i++)
	{
		Form_pg_amproc proc = (Form_pg_amproc) GETSTRUCT(&procs->members[i]->tuple);
		const char *problem = NULL;

		if (proc->amprocnum != GJ_KEY_PROC)
			problem = "invalid support number";
		else if (proc->amproclefttype != proc->amprocrighttype ||
				 !check_amproc_signature(proc->amproc, INT8OID, false, 1, 1,
										 proc->amproclefttype))
			problem = "wrong signature for support number";

		if (problem)
		{
			ereport(INFO,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator family \"%s\" of access method %s contains function %s "
							"with %s %d",
							family, GJ_NAME, format_procedure(proc->amproc), problem,
							proc->amprocnum)));
			result = false;
		}
	}
	return result;
}

static bool
check_operators(CatCList *operators, Oid family_oid, const char *family)
{
	bool		result = true;

	for (int i = 0; i < operators->n_members; i++)
	{
		Form_pg_amop op = (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple);
		const char *problem = NULL;

		if (op->amopstrategy != GJ_EQUAL_STRATEGY)
			problem = "has an invalid strategy number";
		else if (op->amoppurpose != AMOP_SEARCH || OidIsValid(op->amopsortfamily))
			problem = "is not a search operator";
		else if (!check_amop_signature(op->amopopr, BOOLOID, op->amoplefttype,
									   op->amoprighttype))
			problem = "has the wrong signature";
		else if (!OidIsValid(get_opfamily_proc(family_oid, op->amoplefttype, op->amoplefttype,
											   GJ_KEY_PROC)) ||
				 !OidIsValid(get_opfamily_proc(family_oid, op->amoprighttype,
											   op->amoprighttype, GJ_KEY_PROC)))
			problem = "has a type without a key extraction function";

		if (problem)
		{
			ereport(INFO,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator %s in operator family \"%s\" of access method %s %s",
							format_operator(op->amopopr), family, GJ_NAME, problem)));
			result = false;
		}
	}
	return result;
}

/*
 * Check that the class's own type has its equality operator and its function
 */
static bool
check_groups(CatCList *operators, CatCList *procs, Form_pg_opclass opclass)
{
	List	   *groups = identify_opfamily_groups(operators, procs);
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		if (group->lefttype == opclass->opcintype && group->righttype == opclass->opcintype &&
			(group->operatorset & (1 << GJ_EQUAL_STRATEGY)) != 0 &&
			(group->functionset & (1 << GJ_KEY_PROC)) != 0)
			return true;
	}
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator class \"%s\" of access method %s lacks an equality operator or "
					"a key extraction function for type %s",
					NameStr(opclass->opcname), GJ_NAME, format_type_be(opclass->opcintype))));
	return false;
}
