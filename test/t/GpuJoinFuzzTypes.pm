# The types of keys for GpuJoinFuzz: values, lists and arrays of them, and operator classes with
# codes that collide. All randomness comes from rand().
package GpuJoinFuzzTypes;

use strict;
use warnings;

use Exporter 'import';
use GpuJoinRandom;

our @EXPORT = qw(%types @int_types %classes %round $has_icu like_key family is_int value number
  list array range_condition by_key by_key_again ends_of_keys part_value tuple_condition
  create_tuples tuple_join create_types
  key_type key_class key_span key_value key_has_order compute_value texts decimals
  joined_groups fenced);

# Return the string for a number; the image of every second one fits a code.
sub string { return "(CASE WHEN ($_[0]) % 2 = 0 THEN 'k' ELSE 'a longer key ' END || ($_[0]))"; }

# For each type: the SQL value of a number, and its family of types that compare with each other.
# "other" is another form of the same value: the same number always has the same form in a table,
# since which one of several equal values a group shows depends on the plan.
our %types = (
	int2 => { value => sub { "($_[0])::int2" }, family => 'int' },
	int4 => { value => sub { "($_[0])::int4" }, family => 'int' },
	int8 => { value => sub { "($_[0])::int8" }, family => 'int' },
	oid => { value => sub { "(($_[0]) + 40000)::oid" }, family => 'oid' },
	date => { value => sub { "('2000-01-01'::date + ($_[0])::int)" }, family => 'date' },
	timestamp => {
		value => sub { "('2000-01-01'::timestamp + ($_[0]) * interval '7 min')" },
		family => 'timestamp' },
	timestamptz => {
		value => sub { "('2000-01-01 UTC'::timestamptz + ($_[0]) * interval '11 s')" },
		family => 'timestamptz'
	},
	mood => { value => sub { "('e' || abs(($_[0])::int) % 60)::mood" }, family => 'mood' },
	text => { value => \&string, family => 'text' },
	varchar => { value => sub { string($_[0]) . '::varchar' }, family => 'text' },
	'char(20)' => {
		value => sub { string($_[0]) . '::char(20)' },
		other => sub { "($_[0] || '  ')::bpchar" },
		family => 'char' },
	bytea => {
		value => sub { "CASE WHEN ($_[0]) % 2 = 0 THEN decode(lpad(to_hex(($_[0])::int), 8, '0'), "
			  . "'hex') ELSE decode(md5(($_[0])::text), 'hex') END" },
		family => 'bytea' },
	uuid => {
		value => sub { "(CASE WHEN ($_[0]) % 2 = 0 THEN lpad(to_hex(($_[0])::int), 32, '0') "
			  . "ELSE md5(($_[0])::text) END)::uuid" },
		family => 'uuid' },
	numeric => {
		value => sub { "(($_[0])::numeric / 4)" },
		other => sub { "trim_scale($_[0])" },
		family => 'numeric' },
	# nearly all of which have an image, so that entries can be rows
	'numeric(20,0)' => {
		value => sub { "(CASE WHEN ($_[0]) % 7 = 3 THEN 1e19 + ($_[0]) ELSE ($_[0]) END)"
			  . "::numeric(20,0)" },
		other => sub { "($_[0] + 0.00)" },
		family => 'numeric0' },
	'varchar(20)' => {
		value => sub { "(CASE WHEN ($_[0]) % 11 = 3 THEN 'a longer key ' ELSE 'k' END || ($_[0]))"
			  . "::varchar(20)" },
		family => 'varchar20' },
	# the forms of ids that text_id_ops packs, and one that it does not
	'varchar(40)' => {
		value => sub {
			my $n = "($_[0])::int";
			return "(CASE $n % 7 "
			  . "WHEN 0 THEN '00000000-0000-4000-8000-' || lpad(to_hex($n), 12, '0') "
			  . "WHEN 1 THEN 'id-' || $n WHEN 2 THEN left(md5($n\::text), 24) "
			  . "WHEN 3 THEN '01hz' || left(md5($n\::text), 22) "
			  . "WHEN 4 THEN 'c' || left(md5($n\::text), 24) "
			  . "WHEN 5 THEN left(md5($n\::text), 21) ELSE md5($n\::text) END)::varchar(40)";
		},
		family => 'varchar40' });
our @int_types = qw(int2 int4 int8);
our %extremes = (
	int2 => ['-32768', '32767'],
	int4 => ['-2147483648', '2147483647'],
	int8 => ['-9223372036854775808', '9223372036854775807'],
	text => ['', 'K', 'a longer key'],
	varchar => ['', 'k1 '],
	'char(20)' => ['', ' k1'],
	bytea => ['', '\x00'],
	uuid => ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
	'numeric(20,0)' => ['NaN', '99999999999999999999', '-4611686018427387905'],
	'varchar(20)' => ['', 'seven 7', 'eight 88'],
	'varchar(40)' => ['', 'ID-1', '00000000-0000-4000-8000-00000000000A', 'sixteen bytes 16'],
	numeric => ['NaN', 'Infinity', '-4611686018427387905', '1e30', '-0.00']);

# Operator classes with codes that collide on purpose, created with each round's tables; if a type
# has a list of classes, it always has one of these
our %classes = (int8 => ' seven_ops', text => ' one_text_ops', uuid => ' one_uuid_ops',
	'varchar(40)' => [ ' text_id_ops', ' text_id_ops', ' one_id_ops' ]);

# Does the server have nondeterministic collations?  Set by the test.
our $has_icu = 0;

# The round's choices: type of the key, type of the small side's key, range of the numbers, ...
# While "spelled" is set, values have other forms, too.
our %round;

# Return a type that compares with the key through the operator family.
sub like_key
{
	return pick(@int_types) if is_int() && !$round{class};
	return pick('text', 'varchar') if family() eq 'text';
	return $round{type};
}
sub family { return $types{ $round{type} }{family}; }
sub is_int { return family() eq 'int'; }

sub value
{
	my ($type, $number) = @_;
	return "NULL::$type" if chance(0.04);
	return "'" . pick(@{ $extremes{$type} }) . "'::$type" if $extremes{$type} && chance(0.04);
	# equal to a key except for the upper bits
	return "($number + 4294967296)::int8" if $type eq 'int8' && chance(0.05);
	return "($number + 65536)::int4" if $type eq 'int4' && chance(0.05);
	my $value = $types{$type}{value}->($number);
	return $types{$type}{other}->($value)
	  if $round{spelled} && $types{$type}{other} && chance(0.4);
	return "upper($value)" if $round{spelled} && $round{collate} && chance(0.4);
	return $value;
}

sub number { return upto($round{span} * 1.3) - int($round{span} * 0.1); }

# Return comma-separated values, sometimes with duplicates.
sub list
{
	my ($type, $n) = @_;
	my @values = map { value($type, number()) } 1 .. ($n // pick(1, 2, 3, 10, 40));
	push @values, pick(@values) if chance(0.3);
	return join(', ', @values);
}

sub array
{
	my $type = shift // like_key();
	return "NULL::${type}[]" if chance(0.03);
	return "'{}'::${type}[]" if chance(0.03);
	return "ARRAY[[" . value($type, number()) . "], [" . value($type, number()) . "]]"
	  if chance(0.05);
	return "ARRAY(SELECT " . $types{$type}{value}->('g') . " FROM generate_series(0, "
	  . upto($round{span}) . ", " . pick(1, 2, 17) . ") g)" if chance(0.15);
	return "'[3:4]={1,2}'::${type}[]" if chance(0.05) && is_int();
	return "(ARRAY[" . list($type) . "])[1:5]" if chance(0.05);
	return "array_append(ARRAY[" . list($type) . "], NULL)" if chance(0.1);
	return "ARRAY[" . list($type) . "]";
}

# Values of further columns of "big", some of which it has: see rows_sql()
my %part_values = (
	v => sub { pick(upto(100), upto(100), upto(100) . '::int8', 'NULL::int', '3000000000') },
	k2 => sub { pick(upto(37), upto(37), upto(37) . '::int2', 'NULL::int') },
	id => sub { upto(2000) },
	ok => sub { pick('true', 'false', 'NULL::bool') },
	t => sub { pick('NULL::text', map { "'" . chr(97 + upto(26)) . 'y' x upto(7) . "'" } 1 .. 9) },
	f => sub { pick(upto(20) / 2, "'NaN'", 'NULL') . '::float4' },
	n => sub { pick('-3', '0.0', '1.25', '3.250', '7.5', "'NaN'", '1e25', 'NULL') . '::numeric' },
	s => sub {
		pick("'" . substr('abcdefghijklmno', 0, upto(17)) . "'", "'abc'", 'NULL',
			"'longer than fifteen bytes " . upto(5) . "'") . '::varchar'
	},
	c => sub { "'" . substr('abcde', 0, upto(6)) . pick('', ' ') . "'::bpchar" },
	u => sub { pick("md5('" . upto(60) . "')", "md5('" . upto(60) . "')", 'NULL') . '::uuid' });
sub part_value { return $part_values{ $_[0] }->(); }

# Return a list of tuples, as the parser and ORMs write it. @more are lists of further columns that
# only "big" has.
sub tuple_condition
{
	my ($b, $key, $type, @more) = @_;
	my @columns =
	  pick(['v'], ['k2'], ['k2'], [ 'v', 'k2' ], ['id'], [ 'ok', 'k2' ], ['t'], [ 't', 'k2' ],
		['f'], @more)->@*;
	my $n = pick(2, 5, 30, 90);
	my @names = ($key, map { "$b.$_" } @columns);
	my @tuples = map {
		[ value($type, number()), map { part_value($_) } @columns ]
	} 1 .. $n;

	return '(' . join(', ', @names) . ') IN ('
	  . join(', ', map { '(' . join(', ', @$_) . ')' } @tuples) . ')'
	  if chance(0.5);
	return '(' . join(' OR ', map {
			my $tuple = $_;
			my $array = chance(0.3) ? upto(scalar @names) : -1;
			my @arm = map {
				$_ == $array && $_ == 0 ? "$key = ANY (" . array($type) . ")"
				  : $_ == $array ? "$names[$_] = ANY (ARRAY[" . join(', ', $tuple->[$_],
					part_value($columns[ $_ - 1 ])) . '])'
				  : chance(0.2) ? "$tuple->[$_] = $names[$_]" : "$names[$_] = $tuple->[$_]"
			} 0 .. $#names;
			'(' . join(' AND ', chance(0.3) ? reverse @arm : @arm) . ')'
		} @tuples) . ')';
}

# Return SQL for a table of at most $n tuples that rows of "big" have, and as many others, each
# column of which comes from some row. Some types are not those of "big".
sub create_tuples
{
	my ($type, $n) = @_;
	return "CREATE TABLE tuples AS SELECT row_number() OVER () AS place, v AS w, k::$type AS k, t, "
	  . "k2::int8 AS k2, n, s::text AS s, c::char(9) AS c, u "
	  . "FROM (SELECT * FROM big WHERE id % 7 <> 1 ORDER BY id LIMIT $n) q;\n"
	  . "INSERT INTO tuples SELECT -place, w, k, lag(t) OVER o, lag(k2) OVER o, n, "
	  . "lag(s, 2) OVER o, lag(c) OVER o, lag(u, 3) OVER o FROM tuples "
	  . "WINDOW o AS (ORDER BY place);\n";
}

# Return a join by the key and further columns with the table of create_tuples().
sub tuple_join
{
	my $filters = shift;
	my @columns = grep { chance(0.25) } qw(t k2 n s c u);
	@columns = pick(qw(t k2 n s c u)) if !@columns;
	my $on = join(' AND ', map { chance(0.2) ? "s.$_ = b.$_" : "b.$_ = s.$_" } 'k', @columns);
	$on =~ s/b\.c = s\.c/b.c::text = s.c::text/ if chance(0.2);
	my $small = pick('tuples s', 'tuples s', '(SELECT DISTINCT * FROM tuples) s',
		'(SELECT * FROM tuples WHERE w % 3 > 0 OR w IS NULL) s');
	my $list = '(' . join(', ', map { "b.$_" } 'k', @columns) . ')';
	my $arrays = join(', ', map { "unnest(ARRAY(SELECT $_ FROM tuples ORDER BY place))" } 'k',
		@columns);
	return pick(
		"SELECT b.id, s.place, b.$columns[0] FROM $small JOIN big b ON $on$filters",
		"SELECT s.place, b.id FROM $small LEFT JOIN big b ON $on$filters",
		"SELECT count(*), sum(b.id), sum(b.n), count(b.u) FROM $small JOIN big b ON $on",
		"SELECT b.$columns[-1], count(*) FROM $small JOIN big b ON $on$filters GROUP BY 1",
		"SELECT b.id FROM big b WHERE $list IN (SELECT k, " . join(', ', @columns)
		  . " FROM tuples)$filters",
		"SELECT b.id FROM big b WHERE $list IN (SELECT $arrays)$filters",
		"SELECT s.place FROM $small WHERE " . pick('', 'NOT ')
		  . "EXISTS (SELECT FROM big b WHERE $on$filters)",
		"SELECT b.id FROM big b WHERE EXISTS (SELECT FROM tuples s WHERE $on)$filters");
}

# Return SQL for the types and operator classes that keys may have.
sub create_types
{
	my $labels = join(', ', map { "'e$_'" } 0 .. 59);
	my $sql = "CREATE TYPE mood AS ENUM ($labels);\n";

	$sql .= "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', "
	  . "deterministic = false);\n"
	  if $has_icu;
	foreach ([ 'seven', 'int8', '($1 % 7) * 1000 + $2', '' ],
		[ 'one_text', 'text', '1::int8', '' ], [ 'one_uuid', 'uuid', '$2', '' ],
		[ 'one_id', 'text', '1::int8', ', FUNCTION 4 gpujoin_rest(text)' ])
	{
		my ($name, $type, $code, $more) = @$_;

		$sql .= "CREATE FUNCTION hash_$name($type, int8) RETURNS int8 IMMUTABLE STRICT "
		  . "PARALLEL SAFE LANGUAGE sql AS 'SELECT $code';\n"
		  . "CREATE OPERATOR CLASS ${name}_ops FOR TYPE $type USING gpujoin AS "
		  . "OPERATOR 1 =, FUNCTION 2 hash_$name($type, int8)$more, STORAGE int8;\n";
	}
	return $sql;
}

# The round's key, for tables other than "big": its type and operator class, the range of numbers,
# the value of a number, whether it has min() and max()
sub key_type { return $round{type} . $round{collate}; }
sub key_class { return $round{class}; }
sub key_has_order { return family() !~ /uuid|bytea/; }
sub key_span { return $round{span}; }
sub key_value { return $types{ $round{type} }{value}->($_[0]); }

# Return texts, some of which are those of keys.
sub texts
{
	my $type = shift;
	return join(', ', map {
			my $text = '(' . value($type, number()) . ')::text';
			pick($text, $text, $text, "upper($text)", "$text || ' '", "'0' || $text", "''", 'NULL')
		} 1 .. pick(1, 2, 12));
}

# Numbers with and without a fraction, and special values that are not numbers
sub decimals
{
	my $float = chance(0.3) ? '::float8' : '::numeric';
	return join(', ', map {
			my $number = number();
			pick("$number.0", "$number.000", "$number.5", $number, "'NaN'", '1e30', 'NULL',
				'9007199254740993', '-9223372036854775808', "'-Infinity'") . $float
		} 1 .. pick(1, 2, 12));
}

# Return a join with groups by the key; $filters are conditions on the grouped table.
sub joined_groups
{
	my $filters = shift;
	my $keys = list(like_key());
	my $on = pick('x.k = s.k', 's.k = x.k', 'x.k = s.k AND x.n > 1');
	my $where = pick("s.k IN ($keys)", 's.w < 20', "s.k = ANY (ARRAY[$keys]) AND s.w % 3 <> 1",
		's.k IS NOT NULL AND s.w < 9', "s.w = 3 OR s.k IN ($keys)", 'length(s.name) < 3');
	($on, $where) = (pick('x.k < s.k', 'x.k <> s.k', 'x.k = s.k OR x.n = 3'), 's.w = 3')
	  if chance(0.2);
	return 'SELECT s.k, s.w, x.* FROM small s ' . pick('', 'LEFT ')
	  . 'JOIN (SELECT k, count(*) AS n, ' . pick('sum(v)', 'min(t), max(id)')
	  . " FROM big b WHERE true$filters GROUP BY k"
	  . pick('', ', v % 3', ' HAVING count(*) > 1') . ") x ON $on WHERE $where";
}

# Return aggregates over a subquery with an OFFSET or LIMIT that limits nothing.
sub fenced
{
	my $condition = shift;
	return 'SELECT ' . pick('count(*)', 'count(k), count(v)', 'count(*) + 1')
	  . pick(' ', ', sum(v) ') . 'FROM (SELECT ' . pick('k, v', 'id, k, v', 'b.*', 'k, v + 1 AS v')
	  . " FROM big b WHERE $condition"
	  . pick(' OFFSET 0', ' OFFSET NULL', ' LIMIT ALL OFFSET 0') . ') s'
	  . pick('', '', ' WHERE v < 30', ' GROUP BY v', ' HAVING count(*) > 3');
}

# Let some queries compare the key, perhaps cast, with an expression in place of the small side's
# column.
sub compute_value
{
	my $query = shift;
	my $on = pick(
		'b.k = coalesce(s.k, s.k)', 'b.k = CASE WHEN s.w % 7 <> 3 THEN s.k END',
		'b.k::text = s.k::text', 's.k::text = b.k::text',
		"b.k::text = s.k::text || left('0', s.w % 2)",
		is_int() ? ('b.k::numeric = s.k::numeric', 'b.k = s.k * 1.0', 's.k::float8 = b.k',
			'b.k = s.k + 0.5 * (s.w % 2)', 'b.k = s.k::float8 * 1.5') : ());
	return chance(0.25) ? $query =~ s/\b(?:b\.k = s\.k|s\.k = b\.k)\b/$on/r : $query;
}

# Return a comparison that asks for a range of keys. Only some types have an index for it.
sub range_condition
{
	my ($key, $type) = @_;
	my $bound = sub {
		return "'" . pick(-32768, 32767, -2147483648, 2147483647, 2147483648,
			'-9223372036854775808', '9223372036854775807') . "'::int8" if is_int() && chance(0.1);
		return pick("'infinity'", "'-infinity'", 'NULL') . "::$type"
		  if $type =~ /^(date|timestamp)/ && chance(0.1);
		return value($type, number());
	};
	my $cast = is_int() && chance(0.1) ? "$key\::int8" : $key;
	my $one = sub { "$cast " . pick(qw(< <= > >=)) . ' ' . $bound->() };
	return pick(
		$one,
		sub { $bound->() . ' ' . pick(qw(< <= > >=)) . " $cast" },
		sub { "$cast BETWEEN " . $bound->() . ' AND ' . $bound->() },
		sub { "$cast NOT BETWEEN " . $bound->() . ' AND ' . $bound->() },
		sub { "$cast BETWEEN SYMMETRIC " . $bound->() . ' AND ' . $bound->() },
		sub { '(' . join(pick(' AND ', ' OR '), map { $one->() } 1 .. pick(2, 3, 12)) . ')' },
		sub { '(' . $one->() . ' AND ' . $one->() . pick(' OR ', ' AND ') . "$key = "
			  . value($type, number()) . ')' },
		sub { '(' . $one->() . pick(' AND ', ' OR ') . "$key "
			  . pick('IN', 'NOT IN') . ' (' . list($type) . '))' })->();
}

# Return a query for the first rows in the order of the key, of which a scan searches slices.
sub by_key
{
	my ($condition, $filters) = @_;
	my $direction = pick('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST');
	my @order = pick([ 'id' ], [ 'v', 'id' ], [ 'n', 'id' ], [ 'id DESC' ])->@*;
	my $where = pick(range_condition('b.k', like_key()), range_condition('b.k', like_key()),
		'b.k IS NOT NULL', $condition, 'true');
	return "SELECT row_number() OVER () AS place, q.* FROM (SELECT "
	  . pick('id, k', 'id, k, v', 'b.*') . " FROM big b WHERE $where" . pick('', $filters)
	  . ' ORDER BY ' . join(', ', "k$direction", @order) . ' LIMIT '
	  . pick(1, 5, 30, 400, '(SELECT 3000)') . ') q';
}

# The same for each of several rows.
sub by_key_again
{
	my $filters = shift;
	my $key = is_int() ? 'b.k' : 'b.id';
	return "SELECT w, q.* FROM (SELECT DISTINCT w % 7 AS w FROM small) s, LATERAL (SELECT id, k "
	  . "FROM big b WHERE $key " . pick('<', '<=', '>', '>=') . ' w * ' . upto(30) . ' - '
	  . upto(200) . "$filters ORDER BY k" . pick('', ' DESC') . ', id LIMIT ' . upto(20) . ') q';
}

# Return a query for the least and the greatest key.
sub ends_of_keys
{
	my ($condition, $filters) = @_;
	my $key = is_int() || like_key() =~ /^(date|timestamp)/ ? 'k' : 'id';
	return "SELECT " . pick("min($key)", "max($key)", "min($key), max($key)")
	  . " FROM big b WHERE " . pick(range_condition('b.k', like_key()), $condition,
		'b.k IS NOT NULL', 'true') . $filters;
}

1;
