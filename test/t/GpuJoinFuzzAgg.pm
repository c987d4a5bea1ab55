# Random aggregates, groups and distinct rows for 005_differential.pl, as text for psql.
#
# The queries read a table of their own, "facts", which has a column of each type that GpuAgg
# supports and some that it does not, with NULLs, extremes, NaN and infinity; and joins of it with
# the round's small sides.  Keys, conditions and small sides are those of GpuJoinFuzz.
#
# Floats are sums of quarters, so that PostgreSQL's answer does not depend on the order of rows, and
# -0 does not occur.
package GpuJoinFuzzAgg;

use strict;
use warnings;

use Exporter 'import';
use GpuJoinFuzz;
use GpuJoinFuzzTypes qw(key_type key_class key_span key_value key_has_order);
use GpuJoinRandom ();

our @EXPORT = qw(create_facts aggregate_query change_facts);

sub pick { return GpuJoinFuzz::pick(@_); }
sub upto { return GpuJoinFuzz::upto(@_); }
sub chance { return GpuJoinFuzz::chance(@_); }

my $next;
my $has_nulls;	# may keys be NULL?
my @columns = qw(id v k k2 a b c d s tz ok o f y m n u st l ch);
my @numbers = qw(id v k2 a b c f y m n);
my @groupable = qw(id v k k k2 k2 a a b c d s tz ok ok o m m n n u st l ch);

# ---------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------

# Return SQL that inserts n rows, numbered from first on; depending on the range of key numbers, few
# or many keys have several rows.
sub facts_rows
{
	my ($first, $n) = @_;
	my $span = key_span();
	my $long = pick(3, 3, 5000);
	my $key = key_value("(hashint4(i) % $span + $span) % $span");

	$key = "CASE WHEN i % 41 <> 0 THEN $key END" if $has_nulls;
	return "INSERT INTO facts SELECT i, $key, i % 37, i % 100, "
	  . "CASE WHEN i % 7 <> 0 THEN (i % 11 - 5)::int2 END, "
	  . "CASE i % 211 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647 WHEN 2 THEN NULL "
	  . "ELSE i % 100000 * 7919 % 1000 END, "
	  . "CASE i % 97 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 "
	  . "WHEN 2 THEN NULL ELSE i % 50 * 1000000007::int8 END, "
	  . "CASE i % 301 WHEN 0 THEN 'infinity' ELSE date '1990-01-01' + i % 40 END, "
	  . "timestamp '2000-01-01' + i % 20 * interval '1 s', "
	  . "CASE i % 13 WHEN 0 THEN '-infinity' WHEN 1 THEN NULL "
	  . "ELSE timestamptz '2000-01-01 UTC' + i % 9 * interval '1 day' END, "
	  . "CASE i % 6 WHEN 0 THEN NULL ELSE i % 4 = 0 END, "
	  . "CASE i % 17 WHEN 0 THEN 4294967295 ELSE i % 17 END::oid, "
	  . "CASE i % 401 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' "
	  . "WHEN 3 THEN NULL ELSE (i % 100 / 4.0)::text END::float4, "
	  . "CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN -i / 4.0 ELSE 1 + i % 64 / 4.0 END, "
	  . "'t' || i % 5, CASE i % 89 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' "
	  . "ELSE i % 5000 * 7919 % 40000 / 100.0 - 150 END, "
	  # each value has one form, because the plan decides which one a group shows
	  . "CASE i % 43 WHEN 0 THEN NULL WHEN 1 THEN 'Infinity' WHEN 2 THEN 1e30 WHEN 3 THEN 'NaN' "
	  . "WHEN 4 THEN -1 - i % 20 ELSE 1 + i % 900 / 8.0 END, "
	  . "CASE WHEN i % 31 <> 0 THEN md5((i % 400)::text)::uuid END, "
	  # short texts, and some of more than 15 bytes
	  . "CASE i % 8 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'status ' || i % 6 END, "
	  . "CASE i % 7 WHEN 0 THEN 'a value of more than 15 bytes: ' || i % $long WHEN 1 THEN NULL "
	  . "ELSE left('abcdefghijklmnop', i % 16) || i % 3 END, "
	  . "CASE i % 9 WHEN 0 THEN NULL ELSE left('wxyz', i % 5) END "
	  . "FROM generate_series($first, $first + $n - 1) i;\n";
}

sub create_facts
{
	# stock reads all rows for each small one
	my $rows = pick(0, 30, 1500, $GpuJoinFuzz::round{small} > 200 ? 1500 : (4000, 4000, 7000));
	$next = 10001;
	$has_nulls = chance(0.5);
	my $columns = "id int, k " . key_type() . ($has_nulls ? '' : ' NOT NULL')
	  . ", k2 int, v int, a int2, b int4, c int8, "
	  . "d date, s timestamp, tz timestamptz, ok bool, o oid, f float4, y float8, t text, "
	  . "m numeric(12,2), n numeric, u uuid, st varchar, l text COLLATE \"C\", ch char(5)";
	my $with = 'WITH (autovacuum_enabled = off)';
	my $kind = pick(qw(TABLE TABLE TABLE TABLE), 'UNLOGGED TABLE', 'TEMP TABLE', 'partitioned');
	my $all = ' INCLUDE (id, v, k2, a, b, c, d, s, tz, ok, o, f, y, m, n, u, st, l, ch)';
	my $include = pick('', $all, $all, ' INCLUDE (a, ok, c)', ' INCLUDE (m, a, n)',
		' INCLUDE (u, st, m, l, ch)');
	my $sql = "CREATE $kind facts ($columns) $with;\n";

	$sql = "CREATE TABLE facts ($columns) PARTITION BY HASH (id);\n" . join('', map {
			"CREATE TABLE facts_$_ PARTITION OF facts "
			  . "FOR VALUES WITH (MODULUS 3, REMAINDER $_) $with;\n"
		} 0 .. 2) if $kind eq 'partitioned';
	$sql .= "ALTER TABLE facts ADD CONSTRAINT facts_id PRIMARY KEY (id);\n" if chance(0.3);
	$sql .= facts_rows(1, $rows);
	$sql .= "CREATE INDEX facts_gj ON facts USING gpujoin (k" . key_class() . ")$include;\n";
	$sql .= facts_parts();
	$sql .= pick('', 'VACUUM ANALYZE facts', 'VACUUM (FREEZE, ANALYZE) facts', 'ANALYZE facts')
	  . ";\n";
	return $sql;
}

# Return SQL that creates a view of the table, a small side with a primary key, and functions: some
# are inlined, some are expensive or volatile, so that they are computed after sorting
sub facts_parts
{
	return "CREATE VIEW seen AS SELECT *, a > 3 AS large, k2 % 3 AS z, coalesce(a, 0::int2) AS e, "
	  . "a > 0 OR k2 > 50 AS one, a > 3 AND ok AS both, a > 4 AS o2 FROM facts;\n"
	  . "CREATE TABLE keyed AS SELECT DISTINCT ON (w) k, w, 'name ' || w % 4 AS name, "
	  . "w % 3 = 0 AS flag, w / 4.0::float8 AS x, md5(w::text)::uuid AS u, "
	  # equal, but not the same
	  . "(1.5 || repeat('0', w % 4))::numeric AS n, make_interval(days => w % 2, "
	  . "hours => 24 - w % 2 * 24) AS i, ('b' || repeat(' ', w % 3))::bpchar AS c FROM small;\n"
	  . "ALTER TABLE keyed ADD PRIMARY KEY (w);\n"
	  . "CREATE FUNCTION opposite(x bool) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT NOT x';\n"
	  . "CREATE FUNCTION third(x int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT x % 3';\n"
	  . "CREATE FUNCTION dear(x int) RETURNS int IMMUTABLE COST 10000 LANGUAGE plpgsql AS "
	  . "'BEGIN RETURN x + 1; END';\n"
	  . "CREATE FUNCTION moody(x int) RETURNS int VOLATILE LANGUAGE plpgsql AS "
	  . "'BEGIN RETURN x - 1; END';\n";
}

sub change_facts
{
	my $some = "id % " . pick(2, 5, 50) . " = " . upto(2);

	return pick("UPDATE facts SET a = a + 1, ok = NOT ok WHERE $some;\n",
		"UPDATE facts SET f = NULL, c = c WHERE $some;\n",
		"UPDATE facts SET m = -m, n = m + 1000 WHERE $some;\n",
		"UPDATE facts SET l = l || ' and more', st = NULL WHERE $some;\n",
		"DELETE FROM facts WHERE $some;\n",
		"UPDATE facts SET k = " . key_value(upto(20)) . " WHERE $some;\n", "VACUUM facts;\n",
		"BEGIN;\nDELETE FROM facts WHERE $some;\nROLLBACK;\n",
		facts_rows(next_rows(800), pick(1, 100, 800)));
}

# Return the first number of n rows that do not exist yet
sub next_rows
{
	my $n = shift;
	my $first = $next;

	$next += $n;
	return $first;
}

# ---------------------------------------------------------------------------------------------
# Queries
# ---------------------------------------------------------------------------------------------

sub aggregate
{
	my $any = pick(@columns);
	my $number = pick(@numbers);
	my $ordered = pick(grep { !/^(ok|u)$/ && ($_ ne 'k' || key_has_order()) } @columns);

	return pick('count(*)', 'count(*)', 'count(1)', computed(), "count(b.$any)", "count(b.$any)",
		"sum(b.$number)", "sum(b.$number)", "sum(b.$number)", "avg(b.$number)", "avg(b.$number)",
		"min(b.$ordered)", "max(b.$ordered)", 'min(b.l)', 'max(b.l)', 'max(b.st COLLATE "C")',
		'bool_and(b.ok)', 'bool_or(b.ok)', 'every(b.ok)',
		"count(DISTINCT b.$any)", "count(DISTINCT b.$any)",
		# sometimes an aggregate that only PostgreSQL computes
		chance(0.1)
		? pick('max(b.t)', 'sum(b.n + 1)', "sum(DISTINCT b.a)", "count(b.*)",
			"array_agg(b.a ORDER BY b.id)")
		: "count(b.a)") . (chance(0.15) ? ' FILTER (WHERE ' . condition() . ')' : '');
}

# Return an aggregate of an expression that may fail where its FILTER is false
sub computed
{
	return pick('sum(b.a + b.k2)', 'max(b.b % 100)', 'min(b.d + 3)', 'avg(b.y * 2)',
		'count(nullif(b.a, 1))', 'count(DISTINCT b.v % 5)', 'bool_or(b.a > b.k2)')
	  if chance(0.8);
	return 'sum(100 / b.a) FILTER (WHERE b.a <> 0 AND ' . condition() . ') + count(*)';
}

sub condition
{
	return pick('b.ok', 'b.ok', 'NOT b.ok', 'b.a > 2', 'b.b % 3 = 1', 'b.a IS NULL OR b.k2 < 50',
		'b.f > 3', 'b.m > 1.005', 'b.n < 3', 'b.d < b.s', 'b.o IN (1, 2, 3)', "b.t <> 't1'",
		"b.st <> 'status 3'", "b.l < 'b'", "b.ch = 'wx'");
}

sub aggregates { return join(', ', map { aggregate() } 1 .. pick(1, 1, 2, 4, 9)); }

# Return expressions to group by, with their column numbers in the target list
sub group_columns
{
	my $small = shift;
	my @small = $small ? ('s.w', 's.w', 's.k') : ();
	return map {
		pick(@small, (map { "b.$_" } @groupable),
			'b.a + 1', 'b.b % 7', 'b.ok IS NULL', 'b.d + 1', 'b.k2 % 3', '5', 'b.a + b.k2',
			chance(0.1) ? pick('b.f', 'b.t') : 'b.a')
	} 1 .. pick(1, 1, 2, 2, 3, 5);
}

sub having
{
	return pick('', '', '', ' HAVING count(*) > 1', ' HAVING min(b.b) < 100',
		' HAVING bool_or(b.ok)',
		' HAVING sum(b.a) IS NULL', ' HAVING count(DISTINCT b.k2) > 2 AND max(b.c) > 5',
		' HAVING count(*) > (SELECT min(w) FROM small)', ' HAVING false');
}

sub filter
{
	return pick('', '', '', ' AND b.a > 0', ' AND b.ok', ' AND b.b % 3 = 1', ' AND b.f IS NOT NULL',
		' AND b.m > 1.005', ' AND b.n BETWEEN 2 AND 60.5', " AND (b.n IN (2, 'NaN') OR b.m < 0)",
		" AND b.t <> 't1'", " AND b.st IN ('status 1', 'status 3')", " AND b.l <> 'ab1'",
		" AND b.ch <> 'w'", ' AND b.k2 < 20', ' AND b.c > b.b', ' AND random() >= 0');
}

# Return a condition on the key, or one that all rows, or all with a key, satisfy: then the whole
# index may take the place of the table
sub key_condition
{
	return chance(0.7) ? GpuJoinFuzz::key_condition('b') : pick('true', 'true', 'b.k IS NOT NULL');
}

# FROM and WHERE; 's' is included if a small side is requested
sub scan_source { return "facts b WHERE " . key_condition() . filter(); }

sub join_source
{
	my $small = GpuJoinFuzz::small_side('s');
	return pick("$small JOIN facts b ON b.k = s.k WHERE true" . filter(),
		"$small JOIN facts b ON b.k = s.k WHERE true" . filter(),
		"$small LEFT JOIN facts b ON b.k = s.k",
		"$small LEFT JOIN facts b ON b.k = s.k" . filter(),
		"facts b RIGHT JOIN $small ON b.k = s.k",
		"$small FULL JOIN facts b ON b.k = s.k",
		"$small, facts b WHERE b.k = s.k AND b.a <> s.w" . filter(),
		"$small JOIN facts b ON b.k = s.k JOIN (SELECT DISTINCT w FROM small) u ON u.w = s.w",
		"$small LEFT JOIN (SELECT *, coalesce(k2, 7) AS e FROM facts) b ON b.k = s.k");
}

sub semi_source
{
	my $small = GpuJoinFuzz::small_side('s');
	return "facts b WHERE " . pick("b.k IN (SELECT s.k FROM $small)",
		"EXISTS (SELECT FROM $small WHERE s.k = b.k)", "b.k = ANY (SELECT s.k FROM $small)",
		"EXISTS (SELECT FROM $small WHERE s.k = b.k AND s.w < b.k2)") . filter();
}

sub source
{
	my $kind = upto(3);
	return $kind == 0 ? (scan_source(), 0) : $kind == 1 ? (join_source(), 1) : (semi_source(), 0);
}

sub plain
{
	my ($source) = source();
	return "SELECT " . aggregates() . " FROM $source" . having();
}

sub grouped
{
	my ($source, $small) = source();
	my @groups = group_columns($small);
	my $list = join(', ', map { $groups[$_] . " AS g$_" } 0 .. $#groups);
	my $what = chance(0.9) ? ', ' . aggregates() : '';
	my $by =
	  join(', ', chance(0.5) ? 1 .. @groups : map { $_ eq '5' ? 1 : $_ } @groups);

	return "SELECT $list$what FROM $source GROUP BY $by" . having();
}

sub distinct
{
	my ($source, $small) = source();
	my @groups = group_columns($small);
	my $list = join(', ', map { $groups[$_] . " AS g$_" } 0 .. $#groups);

	return "SELECT DISTINCT $list FROM $source"
	  . pick('', '', ' ORDER BY ' . join(', ', 1 .. @groups));
}

# ---------------------------------------------------------------------------------------------
# Targets that contain a grouping expression, in forms that planning changes
# ---------------------------------------------------------------------------------------------

# Expressions to group by, over columns of "b"
my @truths = ('b.a > 3', 'b.a IN (1, 2)', 'b.a IS NULL', 'b.a BETWEEN 0 AND 3', 'b.ok', 'NOT b.ok',
	'ROW(b.a, b.k2) = ROW(1, 5)', 'ROW(b.a, b.k2) < ROW(2, 30)', 'b.a IS DISTINCT FROM 3',
	'b.a > b.k2', 'b.d < b.s', "b.d > '1990-01-10'", 'b.a > 0 OR b.k2 > 50', 'b.a > 0 AND b.ok',
	'b.f > 3', 'b.m > 1.005',
	"b.st = 'status 3'", "b.l < 'b'", "b.u > '80000000-0000-0000-0000-000000000000'",
	'b.a = ANY (ARRAY[1, 2]::int2[])', 'opposite(b.a > 2)', 'b.b = 7', 'b.c <= 1000000007',
	'b.a > (SELECT min(w) FROM small)', 'coalesce(b.ok, false)', 'b.ok IS NOT TRUE');
my @integers = ('b.a % 3', 'b.a + b.k2', 'b.k2 % 7', 'coalesce(b.a, 0)', 'b.k2', 'b.v', 'b.a + 1',
	'length(b.st)', 'CASE WHEN b.a > 3 THEN 1 ELSE b.k2 % 2 END', 'third(b.k2)', 'abs(b.a)',
	'coalesce((SELECT max(w) FROM small WHERE w % 7 = 3), b.k2)', 'nullif(b.k2 % 5, 1)', 'b.a::int',
	'(b.k2 + (SELECT count(*) FROM small))::int', 'b.k2', '5');

# Return a target that is a function of a truth value, or of an integer
sub of_truth
{
	my ($e, @others) = @_;
	my $other = pick(@others, 'false', 'NULL');

	return pick($e, "NOT ($e)", "NOT ($e)", "NOT ($e)", "($e) = false", "($e) <> true",
		"($e) IS NOT TRUE", "($e) IS NULL", "CASE WHEN NOT ($e) THEN 1 ELSE 2 END",
		"coalesce(NOT ($e), false)", "opposite($e)", "($e) OR ($other)", "($e) AND ($other)",
		"NOT (($e) AND ($other))", "NOT (($e) OR ($other))", "($e) IS DISTINCT FROM true",
		"CASE WHEN true THEN NOT ($e) END", "ROW(NOT ($e), 1) = ROW(true, 1)", "(NOT ($e))::int",
		# the parser accepts only columns there
		$e =~ /^b\.\w+$/ ? "(SELECT count(*) FROM small WHERE w > 7 AND NOT ($e))" : ());
}

sub of_integer
{
	my $e = shift;

	return pick($e, "($e) + 1", "-($e)", "NOT (($e) > 2)", "NOT (($e) IS NULL)", "coalesce($e, -1)",
		"NOT (($e) IN (1, 2))", "NOT (($e) BETWEEN 1 AND 4)", "greatest($e, 0)", "third($e)",
		"dear($e)", "moody($e)",
		$e =~ /^b\.\w+$/ ? ("(SELECT max(w) FROM small WHERE w < ($e))") x 4 : (),
		"CASE WHEN ($e) > 1 THEN 'more' ELSE 'less' END", "NOT (($e) IS DISTINCT FROM 1)",
		"coalesce(coalesce($e, 3), 4)", "nullif($e, 2)");
}

# Return FROM and WHERE; grouping expressions of the table, of a subquery or a view, or of a small
# side with a primary key, each with a function that makes targets of it; and columns that depend
# on a key among them
sub regrouped_source
{
	my $scan = "WHERE " . key_condition() . filter();
	my ($small, $join) = (GpuJoinFuzz::small_side('s'), pick(' JOIN ', ' LEFT JOIN '));
	my ($from, $has_small) = @{ pick([ source() ],
			[ source() ],
			[ "(SELECT * FROM facts" . pick('', ' OFFSET 0') . ") b $scan", 0 ],
			[ "seen b $scan", 0 ],
			[ "$small${join}seen b ON b.k = s.k" . filter(), 1 ],
			[ "keyed s${join}facts b ON b.k = s.k" . filter(), 1 ],
			[ "keyed s${join}facts b ON b.k = s.k" . filter(), 1 ]) };
	my $is_view = $from =~ /seen b/;
	my @truths_here = (@truths, $is_view ? map { "b.$_" } (qw(large one both o2)) x 4 : (),
		$has_small ? ('s.w > 20', 'b.k2 > s.w') x 3 : ());
	my @integers_here = (@integers, $is_view ? map { "b.$_" } (qw(z e)) x 4 : ());
	my @groups = map {
		chance(0.5)
		  ? [ pick(@truths_here), \&of_truth ]
		  : [ pick(@integers_here), \&of_integer ]
	} 1 .. pick(1, 1, 2, 3);
	my @dependent;

	if ($from =~ /^keyed s/ && chance(0.7))
	{
		unshift @groups, [ 's.w', \&of_integer ];
		@dependent = ('s.name', 's.flag', 's.x', 's.u', 'NOT s.flag', 'upper(s.name)', 's.k',
			's.x + s.w', "s.name > 'name 1'", 's.n', 's.n + s.w', 's.i', "s.c || '.'");
	}
	elsif ($from =~ /^keyed s/ && chance(0.5))
	{
		my $form = pick(qw(s.n s.i s.c));
		unshift @groups, [ 'abs(s.w)', \&of_integer ], [ $form, sub { "$form\::text || '.'" } ];
	}
	return ($from, \@groups, \@dependent);
}

# Return a target: a grouping expression in some form, or a dependent column
sub target
{
	my ($groups, $dependent) = @_;
	my @truths_of = map { $_->[0] } grep { $_->[1] == \&of_truth } @$groups;
	my ($e, $form) = pick(@$groups)->@*;

	return pick(@$dependent) if @$dependent && chance(0.4);
	return $form->($e, @truths_of);
}

sub regrouped
{
	my ($from, $groups, $dependent) = regrouped_source();
	my $any = sub { target($groups, $dependent) };
	my $quiet = sub { my $t; do { $t = $any->() } while ($t =~ /moody/); $t };
	my @targets = map { $any->() } 1 .. pick(1, 2, 3);
	my $list = join(', ', map { "$targets[$_] AS t$_" } 0 .. $#targets);
	my $by = join(', ', map { $_->[0] eq '5' ? "5 + 0" : $_->[0] } @$groups);
	my $aggregates = join(', ', map { aggregate() } 1 .. pick(1, 1, 3));
	my $having = pick('', '', ' HAVING ' . truth($quiet->()),
		' HAVING count(*) > 1 AND ' . truth($quiet->()));
	my $tail = "FROM $from GROUP BY $by$having";

	# which of several equal values, such as 1.5 and 1.50, or a day and 24 hours, a group shows, or
	# which of their rows come first, is up to PostgreSQL
	my $limit = ' LIMIT ' . (1 + upto(40));
	my ($distinct, $t0) = ('DISTINCT', 't0');
	($distinct, $t0, $limit) = ('', 't0 IS NULL', '') if $list =~ /\bs\.[ni]\b/;

	return pick(
		"SELECT $list, $aggregates $tail",
		"SELECT $list, $aggregates $tail",
		"SELECT $list, $aggregates $tail ORDER BY " . $quiet->() . ', 1',
		"SELECT $distinct $list $tail",
		"SELECT $list, count(*), sum(count(*)) OVER () $tail",
		"SELECT $list, count(*) AS n, sum(count(*)) OVER (PARTITION BY " . $quiet->() . ") $tail",
		"SELECT $list, rank() OVER (ORDER BY count(*), " . $quiet->() . ") $tail",
		"SELECT $list, rank() OVER (PARTITION BY " . $quiet->() . " ORDER BY count(*)) $tail "
		  . "ORDER BY count(*)",
		"SELECT $distinct $list, max(count(*)) OVER (PARTITION BY " . $quiet->() . ") $tail",
		"SELECT count(*) AS n, $list $tail ORDER BY " . join(', ', 1 .. @targets + 1)
		  . $limit,
		"SELECT $t0, count(*), sum(n) FROM (SELECT $list, count(*) AS n $tail) q GROUP BY $t0",
		"SELECT t0, s.w FROM (SELECT $list, count(*) AS n $tail) q LEFT JOIN small s ON s.w = n",
		"SELECT w, (SELECT max(n) FROM (SELECT $list, count(*) AS n $tail) q WHERE n < w + 5) "
		  . "FROM (SELECT DISTINCT w % 3 AS w FROM small) w");
}

# Return a condition that is true of some values of an expression
sub truth
{
	my $e = shift;
	return pick("($e) IS NOT NULL", "($e) IS NULL", "($e)::text > '1'", "NOT (($e)::text < 'm')");
}

# All rows are those for which a condition is true, those for which it is false, and those for which
# it is neither: return a query for the groups that say otherwise
sub ternary
{
	my (undef, $groups) = regrouped_source();
	my @of_table = grep { $_->[0] !~ /\bs\.w|b\.(large|one|both|o2|z|e)\b/ } @$groups;
	@of_table = ([ 'b.a > 3', \&of_truth ]) if !@of_table;
	my $small = GpuJoinFuzz::small_side('s');
	my $from = pick("facts b WHERE " . key_condition() . filter(),
		"seen b WHERE " . key_condition() . filter(),
		"$small JOIN facts b ON b.k = s.k WHERE true" . filter(),
		"$small LEFT JOIN facts b ON b.k = s.k" . filter() . ' WHERE true', semi_source());
	my $by = join(', ', map { $_->[0] eq '5' ? '5 + 0' : $_->[0] } @of_table);
	my $target = target(\@of_table, []) =~ s/moody/dear/r;
	my @parts = (@truths, 'b.v < 40', 'b.k2 > 30', (GpuJoinFuzz::key_condition('b')) x 5);
	my ($p, $sum) = (pick(@parts), pick(qw(b.b b.k2 b.v b.a)));
	my $rows = "SELECT ($target)::text AS t, count(*) AS n, count(b.id) AS i, sum($sum) AS s, "
	  . "min(b.v) AS least, max(b.k2) AS most FROM $from AND ";
	my ($whole, $parts) = map {
		"SELECT t, sum(n), sum(i), sum(s), min(least), max(most) FROM $_ GROUP BY t"
	} qw(whole parts);

	return "WITH whole AS (${rows}true GROUP BY $by), parts AS ("
	  . join(' UNION ALL ', map { "$rows$_ GROUP BY $by" } "($p)", "NOT ($p)", "($p) IS NULL")
	  . ") ($whole EXCEPT ALL $parts) UNION ALL ($parts EXCEPT ALL $whole)";
}

# Name the columns of a subquery, so that an outer query can read them
sub some_groups
{
	my ($source, $small) = source();
	my ($group, $other) = group_columns($small);
	$other //= 'b.a';
	return pick(
		"SELECT DISTINCT $group AS p, $other AS q, b.ok AS r FROM $source",
		"SELECT $group AS p, count(*) AS q, min(b.b) AS r FROM $source GROUP BY 1" . having(),
		"SELECT $other AS p, count(DISTINCT b.k2) AS q, bool_or(b.ok) AS r FROM $source GROUP BY 1",
		"SELECT b.k2 AS p, b.a AS q, b.d AS r FROM $source" . pick('', ' OFFSET 0'));
}

sub about_groups
{
	my $from = shift;
	return pick("SELECT count(*) FROM $from", "SELECT count(p), count(q) FROM $from",
		"SELECT q, count(*) FROM $from GROUP BY q", "SELECT DISTINCT r, q FROM $from",
		"SELECT r, count(*), count(DISTINCT p) FROM $from GROUP BY r", "SELECT * FROM $from",
		"SELECT q, r, count(p) FROM $from GROUP BY 1, 2 HAVING count(*) > 1");
}

my %shapes = (
	agg_plain => \&plain,
	agg_grouped => \&grouped,
	agg_distinct => \&distinct,
	# rows with a NULL key do not matter to some of these
	agg_key => sub {
		my @of_key = map {
			pick('count(b.k)', 'count(DISTINCT b.k)', key_has_order() ? 'max(b.k)' : (),
				'count(b.k) FILTER (WHERE b.a > 2)', chance(0.2) ? aggregate() : ())
		} 1 .. pick(1, 2, 3);
		"SELECT " . join(', ', @of_key) . " FROM facts b WHERE true" . filter()
		  . pick('', '', ' HAVING count(b.k) > 5', ' HAVING count(*) > 5') },
	agg_regrouped => \&regrouped,
	agg_ternary => \&ternary,
	agg_of_groups => sub { about_groups("(" . some_groups() . ") u") },
	agg_cte => sub { "WITH u AS " . pick('', 'MATERIALIZED ', 'NOT MATERIALIZED ') . "("
		  . some_groups() . ") " . about_groups('u' . pick('', ' WHERE q IS NOT NULL')) },
	agg_lateral => sub {
		my ($small, $join) = (GpuJoinFuzz::small_side('s'), pick(',', ' LEFT JOIN'));
		my $query = pick("SELECT " . aggregates() . " FROM facts b WHERE b.k = s.k" . filter(),
			"SELECT b.a, count(*), sum(b.b) FROM facts b WHERE b.k = ANY (ARRAY[s.k, s.k]) "
			  . "GROUP BY b.a" . having(),
			"SELECT DISTINCT b.ok, b.a, s.w AS sw FROM facts b WHERE b.k = s.k" . filter(),
			"SELECT b.a, count(*) AS c FROM " . scan_source() . " GROUP BY b.a "
			  . "HAVING count(*) > s.w");
		# a subplan that does not depend on the row can be a Gather, which starts its workers for
		# each row
		$small = "(SELECT DISTINCT k, w FROM $small ORDER BY w, k LIMIT 9) s"
		  if $query =~ /HAVING count\(\*\) > s.w/;
		"SELECT s.w, u.* FROM $small$join LATERAL ($query) u";
	},
	agg_correlated => sub { "SELECT s.w, (SELECT " . aggregate() . " FROM facts b WHERE "
		  . pick('b.k = s.k', 'b.k = ANY (ARRAY[s.k, s.k])') . filter() . ")::text AS q, "
		  . "(SELECT " . aggregate() . " FROM " . scan_source() . ")::text AS r FROM "
		  . GpuJoinFuzz::small_side('s') },
	agg_above => sub { pick(
			"SELECT w, n, sum(n) OVER (ORDER BY w, n) AS c FROM (SELECT b.k2 AS w, count(*) AS n "
			  . "FROM " . scan_source() . " GROUP BY 1) u",
			"SELECT b.k2, count(*), rank() OVER (ORDER BY count(*), b.k2) FROM " . scan_source()
			  . " GROUP BY b.k2",
			"SELECT b.a, b.ok, count(*) FROM " . scan_source() . " GROUP BY 1, 2 ORDER BY 1, 2 "
			  . "LIMIT " . upto(9) . " OFFSET " . upto(3),
			"SELECT DISTINCT b.k2, b.ok FROM " . scan_source() . " ORDER BY 1 DESC, 2 LIMIT 4",
			"SELECT count(*)::int8 AS c FROM " . scan_source() . pick(' UNION ', ' UNION ALL ',
				' EXCEPT ') . "SELECT sum(b.b) FROM " . join_source(),
			"SELECT s.w FROM " . GpuJoinFuzz::small_side('s') . " WHERE s.w < (SELECT count(*) "
			  . "FROM facts b WHERE b.k = s.k)",
			"SELECT b.id, b.a, b.c, count(*) FROM " . scan_source() . " GROUP BY b.id, b.a, b.c",
			"SELECT b.k2, count(*) FROM facts b WHERE (SELECT count(*) FROM " . scan_source()
			  . ") > 3 AND " . GpuJoinFuzz::key_condition('b') . " GROUP BY 1") });

my @settings = (qw(work_mem=64kB work_mem=64kB work_mem=64kB enable_hashagg=off enable_sort=off
	  enable_material=off enable_memoize=off enable_partitionwise_aggregate=on geqo_threshold=2
	  join_collapse_limit=1 hash_mem_multiplier=1 enable_hashjoin=off enable_nestloop=off),
	qw(parallel_leader_participation=off enable_parallel_append=off),
	'gpujoin.min_rows=0 gpujoin.setup_cost=0 gpujoin.search_cost=0 gpujoin.tid_cost=0',
	'gpujoin.min_rows=0 gpujoin.setup_cost=20');

sub generic
{
	my $type = GpuJoinFuzz::like_key();
	my $array;
	do { $array = GpuJoinFuzz::array($type) } while ($array =~ /SELECT/);
	my @groups = group_columns(0);
	my $list = join(', ', map { $groups[$_] . " AS g$_" } 0 .. $#groups);
	my $by = join(', ', 1 .. @groups);

	return pick(
		"SELECT " . aggregates() . " FROM facts b WHERE b.k = ANY (\$1::${type}[])" . filter(),
		"SELECT $list, " . aggregates() . " FROM facts b WHERE b.k = ANY (\$1::${type}[])"
		  . filter() . " GROUP BY $by" . having(),
		"SELECT DISTINCT $list FROM facts b WHERE b.k = ANY (\$1::${type}[])",
		"SELECT $list, count(*) FROM unnest(\$1::${type}[]) u(k) JOIN facts b USING (k) "
		  . "GROUP BY $by"),
	  "($array)";
}

sub aggregate_query
{
	my $shape = chance(0.12) ? 'agg_generic' : pick(sort(keys %shapes), ('agg_regrouped') x 4);
	my $how = pick(qw(whole whole loop scroll cursor parallel parallel));
	my ($query, $args) = ('', '');

	if ($shape eq 'agg_generic')
	{
		$how = 'generic';
		($query, $args) = generic();
	}
	else
	{
		$query = $shapes{$shape}->();
		$query .= ' ON true' if $query =~ /LEFT JOIN LATERAL/;
	}
	$args = pick(GpuJoinRandom::folds(), grep { !/BEGIN|VACUUM/ } map { change_facts() } 1 .. 20)
	  =~ s/;\n$//r
	  if $how eq 'cursor';
	return GpuJoinRandom::compare_sql($shape, $how, $query, $args,
		join(' ', (map { pick(@settings) } 1 .. pick(0, 1, 1, 2)),
			$how eq 'parallel' ? $GpuJoinRandom::parallel : ()));
}

1;
