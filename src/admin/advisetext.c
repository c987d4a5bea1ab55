/*-------------------------------------------------------------------------
 *
 * advisetext.c
 *	  Making the texts of pg_stat_statements such as can be parsed again.
 *
 * It puts a parameter into the place of each constant, even where the grammar wants a constant:
 * "date $1", "interval $1" and "extract($1 from x)" are errors of syntax.  And since 18 it keeps
 * only the first constant of a list: of "IN ($1, $2, $3)" it leaves what looks like a single key.
 *
 * A text that is neither changed well nor left alone cannot be planned, and is left out: nothing
 * depends on what is recognized here, but how many statements get advice.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "common/keywords.h"
#include "lib/stringinfo.h"
#include "parser/scansup.h"

#include "advise.h"

/* What stands for the other constants of a list */
#define SQUASHED				" /*, ... */"

static char *unsquash(const char *text);
static bool make_array(StringInfo text);
static char *cast_literals(const char *text);
static const char *add_cast(StringInfo text, int start, const char *param, int length);
static int	find_type(const char *text, int end);
static int	find_time_zone(const char *text, int end);
static bool is_field_of_extract(const StringInfo before, const char *after);
static int	find_word(const char *text, int end, const char *word);
static bool is_in_word(char c);

/*
 * Make a text that can be parsed
 */
char *
GjStatementText(const char *text)
{
	return cast_literals(unsquash(text));
}

/*
 * Make arrays of lists of which only the first constant is left, so that the planner takes them for
 * sets of unknown size, and not for one value
 */
static char *
unsquash(const char *text)
{
	StringInfoData result;
	const char *mark;

	initStringInfo(&result);
	while ((mark = strstr(text, SQUASHED)) != NULL)
	{
		appendBinaryStringInfo(&result, text, mark - text);
		text = mark + strlen(SQUASHED);
		if ((*text == ')' || *text == ']') && make_array(&result))
			text++;
	}
	appendStringInfoString(&result, text);
	return result.data;
}

/*
 * Turn "IN ($1" at the end of a text into "= ANY ($1)", "NOT IN ($1" into "<> ALL ($1)", and
 * "ARRAY[$1" into "$1"; false if it is none of these
 */
static bool
make_array(StringInfo text)
{
	int			dollar = text->len - 1;
	const char *before = NULL;
	char	   *param;
	int			start = -1;
	int			not;

	while (dollar > 0 && isdigit((unsigned char) text->data[dollar]))
		dollar--;
	if (dollar <= 0 || text->data[dollar] != '$')
		return false;
	if (text->data[dollar - 1] == '[')
	{
		start = find_word(text->data, dollar - 1, "ARRAY");
		before = "%s";
	}
	else if (text->data[dollar - 1] == '(' &&
			 (start = find_word(text->data, dollar - 1, "IN")) >= 0)
	{
		not = find_word(text->data, start, "NOT");
		before = not < 0 ? "= ANY (%s)" : "<> ALL (%s)";
		start = not < 0 ? start : not;
	}
	if (start < 0)
		return false;
	param = pstrdup(text->data + dollar);
	text->len = start;
	appendStringInfo(text, before, param);
	return true;
}

/*
 * Turn "date $1" into "CAST($1 AS date)", and "extract($1 from" into "extract(epoch from"
 */
static char *
cast_literals(const char *text)
{
	StringInfoData result;
	const char *param;

	initStringInfo(&result);
	while ((param = strchr(text, '$')) != NULL)
	{
		int			length = 1 + strspn(param + 1, "0123456789");
		int			start;

		appendBinaryStringInfo(&result, text, param - text);
		text = param + length;
		if (length > 1 && (start = find_type(result.data, result.len)) >= 0)
			text = add_cast(&result, start, param, length);
		else if (length > 1 && is_field_of_extract(&result, text))
			appendStringInfoString(&result, "epoch");
		else
			appendBinaryStringInfo(&result, param, length);
	}
	appendStringInfoString(&result, text);
	return result.data;
}

/*
 * Put a cast into the place of the type that begins at this byte and of the parameter behind it;
 * returns the text behind it.  "interval $1 day" has a part of the type there.
 */
static const char *
add_cast(StringInfo text, int start, const char *param, int length)
{
	static const char *const fields[] = {"year", "month", "day", "hour", "minute", "second"};
	char	   *type = pstrdup(text->data + start);
	const char *next = param + length;

	while (isspace((unsigned char) *next))
		next++;
	text->len = start;
	appendStringInfo(text, "CAST(%.*s AS %s", length, param, type);
	for (int i = 0; i < lengthof(fields); i++)
	{
		int			n = strlen(fields[i]);

		if (find_word(type, strlen(type), "interval") == 0 &&
			pg_strncasecmp(next, fields[i], n) == 0 && !is_in_word(next[n]))
		{
			appendStringInfo(text, " %s)", fields[i]);
			return next + n;
		}
	}
	appendStringInfoChar(text, ')');
	return param + length;
}

/*
 * Find a type at the end of so many bytes; -1: something else is there
 *
 * Before a parameter stands no name of anything else: keywords do, of which those that name types
 * are told from the others.  A name in another line may be the end of a comment.  Without a blank
 * in between, "date$1" might be a name, but hardly is.
 */
static int
find_type(const char *text, int end)
{
	int			stop = end;
	int			start;
	int			keyword;
	char	   *word;

	while (stop > 0 && scanner_isspace(text[stop - 1]))
	{
		if (text[--stop] == '\n')
			return -1;
	}
	start = stop;
	while (start > 0 && (is_in_word(text[start - 1]) || text[start - 1] == '.'))
		start--;
	if (start == stop || !is_in_word(text[start]) || isdigit((unsigned char) text[start]))
		return -1;

	word = downcase_truncate_identifier(text + start, stop - start, false);
	if (strcmp(word, "zone") == 0)
		return find_time_zone(text, start);
	if (stop == end && strcmp(word, "date") != 0 && strcmp(word, "interval") != 0 &&
		strcmp(word, "timestamp") != 0 && strcmp(word, "timestamptz") != 0)
		return -1;
	keyword = ScanKeywordLookup(word, &ScanKeywords);
	if (keyword >= 0 && (ScanKeywordCategories[keyword] != COL_NAME_KEYWORD ||
						 strcmp(word, "between") == 0))
		return -1;
	return start;
}

/*
 * Find "timestamp with time" and the like at the end of so many bytes; -1: it is "AT TIME"
 */
static int
find_time_zone(const char *text, int end)
{
	int			time = find_word(text, end, "time");
	int			with = find_word(text, time, "with");
	int			start;

	if (with < 0)
		with = find_word(text, time, "without");
	start = find_word(text, with, "timestamp");
	return start >= 0 ? start : find_word(text, with, "time");
}

static bool
is_field_of_extract(const StringInfo before, const char *after)
{
	int			end = before->len;

	while (end > 0 && isspace((unsigned char) before->data[end - 1]))
		end--;
	while (isspace((unsigned char) *after))
		after++;
	return end > 0 && before->data[end - 1] == '(' &&
		find_word(before->data, end - 1, "extract") >= 0 &&
		pg_strncasecmp(after, "from", 4) == 0 && !is_in_word(after[4]);
}

/*
 * Find a word at the end of so many bytes, before spaces; -1: it is not there
 */
static int
find_word(const char *text, int end, const char *word)
{
	int			start;

	while (end > 0 && isspace((unsigned char) text[end - 1]))
		end--;
	start = end - (int) strlen(word);
	if (start < 0 || pg_strncasecmp(text + start, word, strlen(word)) != 0 ||
		(start > 0 && is_in_word(text[start - 1])))
		return -1;
	return start;
}

static bool
is_in_word(char c)
{
	return isalnum((unsigned char) c) || c == '_' || IS_HIGHBIT_SET(c);
}
