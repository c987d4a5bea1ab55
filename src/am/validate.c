/*-------------------------------------------------------------------------
 *
 * validate.c
 *	  The check of operator classes, and what their members depend on.
 *
 * An operator class is valid if every operator is an equality operator that returns boolean, if
 * both of its types have in the family a key extraction function, or both a hash function, and if
 * keys are stored in four or eight bytes, hashes in eight.  pages/codec.c says what the functions
 * must return.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "base/settings.h"
#include "pages/pages.h"
#include "am.h"

static char *copy_family_name(Oid family_oid);
static bool check_procs(CatCList *procs, const char *family);
static bool has_signature(Form_pg_amproc proc);
static int	get_codec_proc(Oid family, Oid type);
static bool check_operators(CatCList *operators, Oid family_oid, const char *family);
static bool check_class(CatCList *operators, CatCList *procs, Form_pg_opclass opclass);
static bool check_storage(Form_pg_opclass opclass);
static void set_owner(OpFamilyMember *member, Oid family, Oid opclass);

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
	result = check_class(operators, procs, opclass) && result;

	ReleaseCatCacheList(procs);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Choose what new members of an operator family depend on
 *
 * An operator class is useless without the functions and the equality of its own type, and an
 * index that uses it has codes that they made: so these belong to the class, even if ALTER
 * OPERATOR FAMILY adds them later.  Operators of two types belong to the family.
 */
void
gjadjustmembers(Oid opfamilyoid, Oid opclassoid, List *operators, List *functions)
{
	Oid			type = InvalidOid;
	ListCell   *lc;

	if (OidIsValid(opclassoid))
	{
		CommandCounterIncrement();	/* to see the class */
		type = get_opclass_input_type(opclassoid);
	}
	foreach(lc, list_concat_copy(operators, functions))
	{
		OpFamilyMember *member = lfirst(lc);

		if (member->lefttype != member->righttype)
			set_owner(member, opfamilyoid, InvalidOid);
		else if (member->lefttype == type)
			set_owner(member, opfamilyoid, opclassoid);
		else
			set_owner(member, opfamilyoid,
					  opclass_for_family_datatype(get_index_am_oid(GJ_NAME, false), opfamilyoid,
												  member->lefttype));
	}
}

/*
 * Let a member belong to an operator class; to the family, if the class does not exist
 */
static void
set_owner(OpFamilyMember *member, Oid family, Oid opclass)
{
	member->ref_is_family = !OidIsValid(opclass);
	member->ref_is_hard = OidIsValid(opclass);
	member->refobjid = OidIsValid(opclass) ? opclass : family;
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

	if (OidIsValid(get_opfamily_proc(opclass->opcfamily, opclass->opcintype, opclass->opcintype,
									 GJ_HASH_PROC)))
	{
		if (type == INT8OID)
			return true;
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class \"%s\" of access method %s has a hash function, "
						"but not STORAGE int8",
						NameStr(opclass->opcname), GJ_NAME)));
		return false;
	}
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

		if (proc->amprocnum < GJ_KEY_PROC || proc->amprocnum > GJ_NPROCS)
			problem = "invalid support number";
		else if (proc->amproclefttype != proc->amprocrighttype ||
				 !has_signature(proc))
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
has_signature(Form_pg_amproc proc)
{
	if (proc->amprocnum == GJ_HASH_PROC)
		return check_amproc_signature(proc->amproc, INT8OID, false, 2, 2, proc->amproclefttype,
									  INT8OID);
	return check_amproc_signature(proc->amproc, INT8OID, false, 1, 1, proc->amproclefttype);
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
		else if (get_codec_proc(family_oid, op->amoplefttype) == 0 ||
				 get_codec_proc(family_oid, op->amoprighttype) == 0)
			problem = "has a type without a key extraction function";
		else if (get_codec_proc(family_oid, op->amoplefttype) !=
				 get_codec_proc(family_oid, op->amoprighttype))
			problem = "compares keys with hashes";

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
 * Return the number of the support function that makes the codes of a type; 0 if the type has none
 * or both
 */
static int
get_codec_proc(Oid family, Oid type)
{
	bool		key = OidIsValid(get_opfamily_proc(family, type, type, GJ_KEY_PROC));
	bool		hash = OidIsValid(get_opfamily_proc(family, type, type, GJ_HASH_PROC));

	return key == hash ? 0 : key ? GJ_KEY_PROC : GJ_HASH_PROC;
}

/*
 * Check that the class's own type has its equality operator and its function
 */
static bool
check_class(CatCList *operators, CatCList *procs, Form_pg_opclass opclass)
{
	List	   *groups = identify_opfamily_groups(operators, procs);
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		if (group->lefttype == opclass->opcintype && group->righttype == opclass->opcintype &&
			(group->operatorset & (1 << GJ_EQUAL_STRATEGY)) != 0 &&
			get_codec_proc(opclass->opcfamily, opclass->opcintype) != 0)
			return true;
	}
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator class \"%s\" of access method %s lacks an equality operator or "
					"a key extraction function for type %s",
					NameStr(opclass->opcname), GJ_NAME, format_type_be(opclass->opcintype))));
	return false;
}
