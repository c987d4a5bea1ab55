# Random tables, changes and queries for 005_differential.pl, as text for psql.
#
# A round has one big table "big" with key column k (of a type of GpuJoinFuzzTypes, on plain,
# partitioned, inherited, temporary and unlogged tables) and small relations with columns k and w;
# %round describes them. All randomness comes from rand().
package GpuJoinFuzz;

use strict;
use warnings;
use Exporter 'import';
use GpuJoinFuzzTypes;
use GpuJoinRandom;

our @EXPORT = qw(create_tables random_query transaction check_indexes);

# ---------------------------------------------------------------------------------------------
# Random things
# ---------------------------------------------------------------------------------------------

# Return a condition that is not on the key.
sub filter
{
	my $b = shift;
	return pick("$b.v < " . upto(100), "$b.id % 3 <> 1", "length($b.t) % 2 = 0", "$b.v IS NOT NULL",
		"($b.v > " . upto(80) . " OR $b.id % 5 = 0)", "$b.v = ANY (ARRAY[1, 5, 9, 33, NULL])",
		"$b.id NOT IN (3, 4, 5)", "$b.t LIKE '%a%'", "coalesce($b.v, 0) + $b.id > 50",
		'random() >= 0', "$b.k IS NOT NULL", 'true', entry_filter($b, 2), entry_filter($b, 2),
		entry_filter($b, 2), $round{predicate} ? "$b.$round{predicate}" : 'true');
}

sub filters
{
	my $b = shift;
	return join('', map { ' AND ' . filter($b) } 1 .. pick(0, 0, 1, 2));
}

# Return a condition on the key that a scan can answer from a set.
sub key_condition
{
	my $b = shift;
	my $key = $round{expression} && chance(0.4) ? "($b.k + 1)" : "$b.k";
	$key = "$b.k2" if is_int() && chance(0.1);
	my $type = like_key();
	local $round{spelled} = 1;
	return pick(
		sub { tuple_condition($b, $key, $type) },
		sub { tuple_condition($b, $key, $type, ['n'], ['s'], ['c'], ['u'], [ 'u', 's', 'c' ]) },
		sub { "$key IN (" . list($type) . ")" },
		sub { "$key = ANY (" . array($type) . ")" },
		sub { "$key = " . value($type, number()) },
		sub { value($type, number()) . " = $key" },
		sub { "$key = ANY (ARRAY(SELECT s.k FROM small s WHERE s.w < " . upto(60) . "))" },
		sub { "$key = (SELECT (array_agg(s.k ORDER BY s.k DESC))[1] FROM small s WHERE s.w < "
			  . upto(60) . ")" },
		sub { is_int() ? "$key = ANY (keys_of(" . upto(60) . "))"
			  : "$key IN (" . list($type) . ")" },
		sub { pick("$key IS " . pick('', '', 'NOT ') . 'NULL', null_condition($b, $key, $type)) },
		sub { "$key IN (" . list($type) . ") AND $key = ANY (" . array($type) . ")" },
		(sub { range_condition($key, $type) }) x 2,
		sub { folded_condition($b, $key, $type, 2) },
		sub { folded_condition($b, $key, $type, 2) })->();
}

# Return a condition that rows with a NULL key may fulfill, or only they.
sub null_condition
{
	my ($b, $key, $type) = @_;
	my $null = "$key IS NULL";
	my $point = "$key = " . value($type, number());
	return pick("($key IN (" . list($type) . ") OR $null)", "($point OR $null)",
		"($null OR $key = ANY (" . array($type) . '))', "NOT ($null OR $point)",
		'(' . range_condition($key, $type) . " OR $null)", "($null AND " . filter($b) . ')',
		"$key IS " . pick('', 'NOT ') . 'DISTINCT FROM ' . value($type, number()));
}

# Return a condition that must be folded into a set: wrapped, chained, negated, with the key cast.
sub folded_condition
{
	my ($b, $key, $type, $depth) = @_;
	my $nested = sub { $depth > 0
		  ? folded_condition($b, $key, $type, $depth - 1)
		  : "$key IN (" . list($type) . ")" };
	my $cast = is_int() ? "$key\::" . pick('int8', 'numeric', 'float8') : $key;
	my $array = array($type);
	return pick(
		sub { my @arms = map { "$key = " . value($type, number()) } 1 .. pick(2, 3, 30);
			"(" . join(' OR ', @arms) . ")" },
		sub { "($key = " . value(like_key(), number()) . " OR " . $nested->() . ")" },
		sub { "(" . $nested->() . pick(' OR ', ' AND ') . $nested->() . ")" },
		sub { "((" . $nested->() . ") IS TRUE)" },
		sub { "COALESCE(" . $nested->() . pick(', false', ', NULL, false') . ")" },
		sub { is_int() || family() =~ /uuid|char/
			  ? "$key\::text " . '= ANY (ARRAY[' . texts($type) . ']::text[])'
			  : $nested->() },
		sub { "$key NOT IN (" . list($type) . ")" },
		sub { "$key <> ALL ($array)" },
		sub { "$key <> " . value($type, number()) },
		sub { "$key IN (SELECT " . pick("unnest($array)", "e FROM unnest($array) e") . ')' },
		sub { "NOT (" . $nested->() . ")" },
		sub { range_condition($key, $type) },
		sub { "(" . $nested->() . " AND " . filter($b) . ")" },
		sub { null_condition($b, $key, $type) },
		sub { is_int() ? "$cast IN (" . decimals() . ")" : $nested->() },
		sub { is_int() ? "$cast <> ALL (ARRAY[" . decimals() . "])" : $nested->() },
		sub { "($key = ANY ($array) OR ($key IS NULL AND "
			  . "array_position($array, NULL) IS NOT NULL))" })->();
}

# Return a small relation with columns k and w, as an item of FROM.
sub small_side
{
	my $alias = shift;
	my $type = like_key();
	my $rows = join(', ', map { "(" . value($type, number()) . ", $_)" } 1 .. pick(1, 3, 20));
	return pick(
		"small $alias", "small $alias", "temp_small $alias",
		"(VALUES $rows) $alias(k, w)",
		"unnest(ARRAY[" . list($type) . "]) WITH ORDINALITY $alias(k, w)",
		"(SELECT k, min(w) AS w FROM small GROUP BY k) $alias",
		"(SELECT DISTINCT k, w % 3 AS w FROM small) $alias",
		"(SELECT k, w FROM small ORDER BY w, k LIMIT " . upto(30) . ") $alias",
		"(SELECT k, w FROM small WHERE w < " . upto(60) . ") $alias",
		"(SELECT k, w FROM small UNION ALL SELECT k, w FROM temp_small) $alias",
		"(SELECT s.k, s.w + t.w AS w FROM small s JOIN temp_small t ON t.w = s.w) $alias",
		"some_keys(" . upto(40) . ") $alias",
		"(SELECT k, w FROM small WHERE false) $alias");
}

sub targets
{
	return pick('b.*, s.*', 's.w, b.id', 'b.id, b.v + s.w AS x, b.t', 'b.ctid, b.tableoid, s.k',
		'b, s.w', 'b.id', 's.k, s.w', '1 AS one', 'b.k = s.k AS e, length(b.t), b.id', 's, b.k');
}

sub join_filter
{
	return pick('', '', ' AND b.v > s.w', ' AND b.id % 3 <> s.w % 3', ' AND s.w < 20',
		' AND (b.v < 50 OR s.w > 10)', ' AND b.t <> s.w::text', ' AND b.v = s.w', ' AND b.k2 = s.w',
		' AND s.w = b.k2 AND b.v = s.w', filters('b'));
}

# Shapes of queries. Each returns SQL with only "big" as the big table.
my %shapes = (
	in_list => sub { "SELECT " . pick('*', 'id', 'ctid, k', 'count(*)', 'b, tableoid::regclass')
		  . " FROM big b WHERE " . key_condition('b') . filters('b') },
	covered => sub { # use only columns that some indexes have: see create_indexes()
		my $where = key_condition('b') . pick('', '', ' AND b.v < ' . upto(100),
			' AND ' . entry_filter('b', 2), ' AND b.id % 3 <> 1',
			' AND b.v IS NOT NULL AND b.k IS NOT NULL');
		my $what = pick('count(*)', 'id', 'v, id, k', 'k', 'sum(id), count(v)', 'v + id, k', '1',
			'id, v, n, s, c, u', 'n, id', 's, u', 'sum(n), min(n), max(n), count(s)',
			'c, octet_length(c)', 'count(DISTINCT u), count(DISTINCT s)');
		"SELECT $what FROM big b WHERE $where" },
	negated => sub { "SELECT id, k FROM big b WHERE " . pick('NOT (', '(') . "b.k "
		  . pick('IN', 'NOT IN') . " (" . list(like_key()) . ")) "
		  . pick('', 'IS NOT TRUE', 'IS NULL') },
	ternary => sub { # all rows are those for which a condition is true, false, or neither
		my ($rows, $p) = ("SELECT id, v FROM big b WHERE " . key_condition('b'), filter('b'));
		my $parts = join ' UNION ALL ', map { "$rows AND $_" } "($p)", "NOT ($p)", "($p) IS NULL";
		"($rows EXCEPT ALL ($parts)) UNION ALL (($parts) EXCEPT ALL $rows)" },
	or_lists => sub { "SELECT id, k, v FROM big b WHERE (" . key_condition('b') . " OR "
		  . pick(key_condition('b'), 'b.v = 7', 'b.k IS NULL') . ")" . filters('b') },
	aggregate => sub { "SELECT k, count(*), sum(v), min(t) FROM big b WHERE " . key_condition('b')
		  . filters('b') . " GROUP BY k" . pick('', ' HAVING count(*) > 1') },
	param_filter => sub { "SELECT w, (SELECT " . pick('count(*)', 'sum(b.id)', 'max(b.t)',
			'sum(v)') . " FROM big b WHERE " . key_condition('b') . ' AND b.' . pick('v', 'k2')
		  . pick(' = ', ' > ', ' <> ') . "w) FROM (SELECT DISTINCT w % 7 AS w FROM small) s" },
	limited => sub { # ordered by columns that some indexes have, with row positions
		my @order = map { $_ . pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') }
		  pick([ 'id' ], [ 'v', 'id' ], [ 'k', 'v', 'id' ], [ 'v', 'k', 'id' ], [ 'n', 'id' ],
			[ 'u', 'id' ], [ 'u', 'n', 'id' ], [ 'v', 'n', 'id' ])->@*;
		"SELECT row_number() OVER () AS place, q.* FROM (SELECT "
		  . pick('id', 'id, v, k', 'b.*', 'id, n, u, v') . ' FROM big b WHERE '
		  . pick((key_condition('b')) x 3, 'true', 'b.k IS NOT NULL', 'b.k IS NULL')
		  . pick('', '', filters('b')) . ' ORDER BY '
		  . join(', ', @order) . pick(' LIMIT 30', ' LIMIT (SELECT 300)', ' OFFSET 50 LIMIT 5',
			' FETCH FIRST 4 ROWS WITH TIES', ' LIMIT 4 FOR UPDATE') . ') q' },
	by_key => sub { by_key(key_condition('b'), filters('b')) },
	by_key_again => sub { by_key_again(filters('b')) },
	ends => sub { ends_of_keys(key_condition('b'), filters('b')) },
	grouped => sub { my $by = pick('s', 'c', 'u', 's, c', 'u, v', 's, k2');
		"SELECT $by, " . pick('count(*)', 'sum(n), avg(n)', 'min(n), count(u)', 'sum(v), count(s)')
		  . ' FROM big b WHERE ' . key_condition('b') . pick('', filters('b')) . " GROUP BY $by";
	},
	window => sub { "SELECT id, count(*) OVER (PARTITION BY k) FROM big b WHERE "
		  . key_condition('b') },
	union_all => sub { "SELECT id, k FROM big b WHERE " . key_condition('b')
		  . pick(' UNION ALL ', ' UNION ', ' INTERSECT ', ' EXCEPT ALL ')
		  . "SELECT id, k FROM big b WHERE " . key_condition('b') . filters('b') },
	inner_join => sub { my $small = small_side('s');
		my $on = pick('b.k = s.k', 's.k = b.k');
		my ($target, $and) = (targets(), join_filter());
		pick("SELECT $target FROM $small JOIN big b ON $on$and",
			"SELECT $target FROM big b JOIN $small ON $on$and",
			"SELECT $target FROM $small, big b WHERE $on$and",
			"WITH s AS " . pick('', 'MATERIALIZED ') . "(SELECT * FROM $small) "
			  . "SELECT $target FROM s JOIN big b ON $on$and") },
	covered_join => sub { my $what = pick('count(*), sum(b.v)', 's.w, b.id', 'b.k, b.v',
			'DISTINCT b.id, b.v, b.k');
		"SELECT $what FROM " . small_side('s') . " JOIN big b ON b.k = s.k"
		  . pick('', '', ' AND b.v > s.w', ' AND b.id % 3 = 1', ' WHERE b.v < ' . upto(100),
			' WHERE ' . entry_filter('b', 2)) },
	join_aggregate => sub { "SELECT s.w, count(*), sum(b.v), max(b.id) FROM " . small_side('s')
		  . " JOIN big b ON b.k = s.k" . join_filter() . " GROUP BY s.w" },
	join_tuple => sub { tuple_join(filters('b')) },
	join_limited => sub { "SELECT b.id, s.w FROM " . small_side('s') . " JOIN big b ON b.k = s.k"
		  . join_filter() . " ORDER BY b.id, s.w LIMIT " . upto(40) },
	distinct => sub { "SELECT DISTINCT b.* FROM " . small_side('s') . " JOIN big b ON b.k = s.k" },
	outer_join => sub { my $small = small_side('s');
		my $and = join_filter();
		my $where = pick('', '', ' WHERE b.id IS NULL', ' WHERE s.w > 5', ' WHERE b.v > 30',
			' WHERE s.w IS NULL');
		pick("SELECT s.*, b.id, b.v FROM $small LEFT JOIN big b ON b.k = s.k$and$where",
			"SELECT s.*, b.id, b.v FROM big b RIGHT JOIN $small ON b.k = s.k$and$where",
			"SELECT s.*, b.id, b.v FROM big b LEFT JOIN $small ON b.k = s.k$and$where",
			"SELECT s.w, x.id, x.c FROM $small LEFT JOIN (SELECT id, k, v, 'c' AS c FROM big b "
			  . "WHERE true" . filters('b') . ") x ON x.k = s.k",
			"SELECT s.*, b.id FROM $small FULL JOIN big b ON b.k = s.k$where") },
	exists => sub { "SELECT b.id, b.k, b.v FROM big b WHERE " . pick('', 'NOT ')
		  . "EXISTS (SELECT FROM " . small_side('s') . " WHERE s.k = b.k"
		  . pick('', ' AND s.w < 20', ' AND s.w < b.v') . ")" . filters('b') },
	in_select => sub { "SELECT b.id, b.k, b.t FROM big b WHERE b.k "
		  . pick('IN', 'IN', 'IN', 'NOT IN', '= ANY') . " (SELECT s.k FROM " . small_side('s')
		  . pick('', ' WHERE s.w < 20', ' WHERE s.k IS NOT NULL') . ")" . filters('b') },
	small_exists => sub { "SELECT s.* FROM " . small_side('s') . " WHERE " . pick('', 'NOT ')
		  . "EXISTS (SELECT FROM big b WHERE b.k = s.k" . filters('b') . ")" },
	correlated => sub { "SELECT s.w, (SELECT count(*) FROM big b WHERE b.k = s.k" . filters('b')
		  . ") FROM " . small_side('s') },
	arrays => sub { "SELECT s.w, (SELECT count(*) FROM big b WHERE b.k = ANY (s.ks)" . filters('b')
		  . ") FROM (SELECT w % 5 AS w, array_agg(k) AS ks FROM small WHERE w < " . upto(60)
		  . " GROUP BY 1) s" },
	lateral => sub { my $small = small_side('s');
		my $on = pick('b.k = s.k', 'b.k = ANY (ARRAY[s.k, s.k])', '');
		# without an index, stock compares each pair of rows with a condition's whole array
		$small = "(SELECT k, w FROM $small ORDER BY w, k LIMIT 9) s" if !$on;
		$on ||= key_condition('b') . ' AND b.v > s.w';
		"SELECT s.w, x.* FROM $small" . pick(' CROSS', ' LEFT') . ' JOIN LATERAL (SELECT b.id, '
		  . "b.v, w + b.v AS y FROM big b WHERE $on" . pick('', ' ORDER BY b.id LIMIT 2') . ') x' },
	three_way => sub { "SELECT s.w, b.id, t.w FROM " . small_side('s') . " JOIN big b ON b.k = s.k "
		  . pick('JOIN ', 'LEFT JOIN ') . pick('temp_small t',
			'(SELECT (array_agg(k ORDER BY k))[1] AS k, w FROM small GROUP BY w) t')
		  . pick(' ON t.w = s.w', ' ON t.w = b.v', ' ON t.k = b.k AND t.w < 5') },
	# without table scans, which all cost the same, the plan may be a nested loop over all pairs
	self_join => sub { "SELECT id, c.v FROM big b JOIN big c USING (id) WHERE " . key_condition('b')
		  . filters('c') . ($round{rows} > 2000 && ' AND b.id % 9 = 4 AND c.id % 9 = 4') },
	joined_groups => sub { joined_groups(pick('', filters('b'))) },
	fenced => sub { fenced(key_condition('b') . pick('', filters('b'))) },
	nested => sub { "SELECT s.w, x.n FROM (SELECT k, count(*) AS n FROM big b WHERE "
		  . key_condition('b') . " GROUP BY k) x JOIN " . small_side('s') . " ON s.k = x.k" },
	united => sub { "SELECT u.*, s.w FROM " . small_side('s') . pick(' JOIN ', ' LEFT JOIN ')
		  . "(SELECT id, k, v, t FROM big UNION ALL SELECT -id, k, 7, upper(t) FROM big"
		  . pick('', ' UNION ALL SELECT id, k, w, name FROM (SELECT 0 AS id, * FROM small) x')
		  . ") u ON u.k = s.k" . pick('', ' AND u.v > 20', ' AND u.v < s.w') },
	initplan_join => sub { "SELECT (SELECT count(*) FROM " . small_side('s')
		  . " JOIN big b ON b.k = s.k" . join_filter() . ") AS n, w FROM small" },
	locked => sub { "SELECT b.id, b.k, b.ctid FROM big b WHERE " . key_condition('b') . filters('b')
		  . pick(' FOR UPDATE', ' FOR SHARE', ' FOR NO KEY UPDATE SKIP LOCKED') },
	locked_join => sub { "SELECT b.id, b.k, s.w FROM small s JOIN big b ON b.k = s.k"
		  . join_filter() . pick(' FOR UPDATE', ' FOR UPDATE OF b', ' FOR SHARE OF s') });

my %changes = (
	update => sub { "UPDATE big b SET "
		  . pick('v = v + 1', 'k = k', 'k = NULL', "t = t || 'x', v = 3")
		  . " WHERE " . key_condition('b') . filters('b') . " RETURNING *" },
	delete => sub { "DELETE FROM big b WHERE " . key_condition('b') . filters('b')
		  . " RETURNING id" },
	update_from => sub { "UPDATE big b SET v = s.w FROM "
		  . "(SELECT k, min(w) AS w FROM small GROUP BY k) s WHERE b.k = s.k" . filters('b')
		  . " RETURNING b.id, b.v, s.w" },
	delete_using => sub { "DELETE FROM big b USING small s WHERE b.k = s.k" . filters('b')
		  . " RETURNING b.id" },
	delete_exists => sub { "DELETE FROM big b WHERE EXISTS (SELECT FROM small s WHERE s.k = b.k"
		  . pick('', ' AND s.w < b.v') . ")" . filters('b') . " RETURNING b.id, b.k" },
	update_small => sub { "UPDATE small s SET w = w + 1 WHERE " . pick('', 'NOT ')
		  . "EXISTS (SELECT FROM big b WHERE b.k = s.k" . filters('b') . ") RETURNING s.*" },
	merge => sub { "MERGE INTO big b USING (SELECT k, min(w) AS w FROM small GROUP BY k) s "
		  . "ON b.k = s.k" . pick('', ' AND b.v > 30')
		  . pick('', ' WHEN MATCHED AND s.w < 9 THEN DELETE')
		  . " WHEN MATCHED THEN UPDATE SET v = s.w"
		  . pick('', " WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (950000, s.k, s.w)") },
	insert_select => sub { "INSERT INTO big (id, k, v, t) SELECT 900000 + b.id, b.k, 5, 'n' "
		  . "FROM big b WHERE " . key_condition('b') . " RETURNING id, k, v" },
	update_in => sub { "UPDATE big SET v = 77 WHERE k IN (SELECT "
		  . pick('k FROM small WHERE w < 9', 'unnest(ARRAY[' . list(like_key()) . '])')
		  . ") RETURNING id, v" });

# Return statements with parameters, and their arguments.
sub generic_query
{
	my $type = like_key();
	my $array;
	local $round{spelled} = 1;
	do { $array = array($type) } while ($array =~ /SELECT/);
	return pick(
		sub { [ "SELECT id, k FROM big b WHERE b.k = ANY (\$1::${type}[])" . filters('b'),
				"($array)" ] },
		sub { [ "SELECT id, t FROM big b WHERE b.k = ANY (\$1::${type}[]) AND b.v >= \$2::int "
			  . "AND (\$3::int8[] IS NULL OR b.k2 = ANY (\$3::int8[])) "
			  . "AND NOT b.ok IS FALSE",
				"($array, " . upto(60) . ', ' . pick('NULL', "'{1,2,3,17}'") . ')' ] },
		sub { [ "SELECT v, k2 FROM big b WHERE b.k = ANY (\$1::${type}[]) AND b.v < \$2::int2",
				"($array, " . pick(upto(60), 'NULL') . ')' ] },
		sub { [ "SELECT count(*), sum(v) FROM big b WHERE b.k = \$1::$type AND b.v > \$2::int",
				"(" . value($type, number()) . ", " . upto(60) . ")" ] },
		sub { [ "SELECT id, k FROM big b WHERE b.k IN (\$1::$type, \$2::$type, \$3::$type)",
				"(" . join(', ', map { value($type, number()) } 1 .. 3) . ")" ] },
		sub { [ "SELECT id, k FROM big b WHERE b.k <> ALL (\$1::${type}[])" . filters('b'),
				"($array)" ] },
		sub { [ "SELECT id, k FROM big b WHERE b.k " . pick('', 'NOT ') . "BETWEEN \$1::$type "
			  . "AND \$2::$type" . filters('b'),
				'(' . value($type, number()) . ', '
			  . pick(value($type, number()), 'NULL') . ')' ] },
		sub { [ "SELECT id, k FROM big b WHERE (b.k = \$1::$type OR b.k = \$2::$type "
			  . "OR b.k = ANY (\$3::${type}[]))" . filters('b'),
				"(" . join(', ', (map { value($type, number()) } 1 .. 2), $array) . ")" ] },
		sub { [ 'SELECT ' . pick('count(*), sum(v)', 'id, k') . " FROM big b WHERE (b.k = "
			  . pick("\$1::$type", "ANY (ARRAY[\$1::$type, NULL])") . ' OR b.k IS NULL)'
			  . filters('b'), '(' . pick(value($type, number()), 'NULL') . ')' ] },
		sub { [ 'SELECT id, k FROM big b WHERE b.k IS ' . pick('', 'NOT ')
			  . "DISTINCT FROM \$1::$type" . filters('b'),
				'(' . pick(value($type, number()), 'NULL') . ')' ] },
		sub { [ "SELECT id, k FROM big b WHERE (b.k = ANY (\$1::${type}[]) OR (b.k IS NULL "
			  . "AND array_position(\$1, NULL) IS NOT NULL))" . filters('b'), "($array)" ] },
		sub { [ "SELECT id, k FROM big b WHERE b.k = ANY (\$1::text::${type}[])" . filters('b'),
				"($array\::text)" ] },
		sub { [ "SELECT s.w, b.id FROM small s JOIN big b ON b.k = s.k WHERE s.w < \$1::int"
			  . join_filter(), "(" . upto(60) . ")" ] },
		sub { [ "SELECT id, k FROM big b WHERE (b.k, b.k2) IN ((\$1::$type, \$2::int), "
			  . "(\$3::$type, \$4::int8), (\$5::$type, \$2::int))" . filters('b'),
				"(" . join(', ', map { (value($type, number()), pick(upto(37), 'NULL')) } 1 .. 2)
				  . ", " . value($type, number()) . ")" ] },
		sub { [ "SELECT id, k FROM big b WHERE (b.k = \$1::$type AND b.k2 = ANY (\$2::int[])) "
			  . "OR (b.k = ANY (\$3::${type}[]) AND b.k2 = \$4::int)" . filters('b'),
				"(" . value($type, number()) . ", '{1,2,NULL,30}', $array, " . upto(37) . ")" ] },
		sub { my ($column, $part) = pick([ 't', 'text' ], [ 'k2', 'int8' ], [ 'n', 'numeric' ],
				[ 's', 'varchar' ], [ 'c', 'bpchar' ], [ 'u', 'uuid' ])->@*;
			my $values = join(', ', map { part_value($column) } 1 .. pick(5, 40));
			return [ "SELECT b.id, b.k2 FROM big b WHERE (b.k, b.$column) IN "
				  . "(SELECT unnest(\$1::${type}[]), unnest(\$2::${part}[]))",
				"($array, ARRAY[$values]::${part}[])" ] },
		sub { [ "SELECT b.id, b.t FROM unnest(\$1::${type}[]) u(k) JOIN big b ON b.k = u.k",
				"($array)" ] },
		sub { [ "SELECT count(*), sum(v) FROM (SELECT v FROM big b WHERE b.k IN "
			  . "(SELECT unnest(\$1::${type}[])) OFFSET \$2) s",
				"($array, " . pick('0', 'NULL') . ")" ] },
		sub { [ "SELECT s.k, s.w, x.n FROM small s LEFT JOIN (SELECT k, count(*) AS n FROM big b "
			  . "GROUP BY k) x ON x.k = s.k WHERE s.w < \$1::int AND s.k = ANY (\$2::${type}[])",
				"(" . upto(60) . ", $array)" ] },
		sub { [ "SELECT b.id FROM big b "
			  . "WHERE b.k = ANY (ARRAY(SELECT k FROM small WHERE w < \$1::int))",
				"(" . upto(60) . ")" ] })->();
}

# ---------------------------------------------------------------------------------------------
# A round: tables, then changes and queries in turn
# ---------------------------------------------------------------------------------------------

sub rows_sql
{
	my ($first, $n) = @_;
	my $key = $types{ $round{type} }{value}->("(hashint4(i + $round{salt}) % $round{span} + "
		  . "$round{span}) % $round{span}");
	$key = "CASE WHEN hashint4(i * 7) % 100 < $round{nulls} THEN NULL ELSE $key END"
	  if $round{nulls};
	my $long = $round{toasted} ? "repeat(md5(i::text), (i % 40 = 0)::int * 100)" : "''";
	return "INSERT INTO big (id, k, v, t, k2, f, ok, n, s, c, u) SELECT i, $key, i % 100, "
	  . "chr(97 + i % 26) || repeat('y', i % 7) || $long, i % 37, "
	  . "(CASE i % 13 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' ELSE (i % 20 / 2.0)::text END)::float4, "
	  . "CASE i % 5 WHEN 0 THEN NULL ELSE i % 3 = 0 END, "
	  . "CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN i % 7 + 0.125 WHEN 3 THEN 1e25 "
	  . "ELSE (i % 90 / 4.0 - 3)::numeric(8, 2) END, "
	  . "CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN 'longer than fifteen bytes ' || i % 5 "
	  . "ELSE left('abcdefghijklmno', i % 17) END, left('abcde', i % 6), "
	  . "CASE i % 12 WHEN 0 THEN NULL ELSE md5((i % 50)::text)::uuid END "
	  . "FROM generate_series($first, $first + $n - 1) i;\n";
}

sub create_tables
{
	%round = (
		type => pick(sort(keys %types), @int_types),
		span => pick(3, 30, 300, 3000, 24000),
		nulls => pick(0, 5, 5, 60),
		salt => upto(1000000),
		step => pick(1, 1, 7),
		toasted => chance(0.2),
		rows => pick(0, 10, 500, 2000, 2000, 4000, 4000, 20000),
		kind => pick(qw(plain plain plain plain unlogged temporary partitioned by_key by_hash
			  by_list deep inherited)));
	$round{type} = $ENV{GPUJOIN_KEY} if $ENV{GPUJOIN_KEY};
	my $class = $classes{ $round{type} };
	$round{class} = ref $class ? pick(@$class) : $class && chance(0.3) ? $class : '';
	$round{collate} =
	  $has_icu && !$round{class} && family() eq 'text' && $round{kind} !~ /by_|deep/ && chance(0.4)
	  ? ' COLLATE nocase' : '';
	my $words = 'n numeric, s varchar, c char(5), u uuid';
	my $columns = "gone1 text, id int, gone2 int, k $round{type}$round{collate}, v int, t text, "
	  . "k2 int, f float4, ok bool, $words";
	my $with = "WITH (autovacuum_enabled = off" . pick('', ', fillfactor = 60') . ")";
	my $sql = "DROP SCHEMA t CASCADE; CREATE SCHEMA t;\n" . create_types();
	my @leaves = ('big');

	if ($round{kind} eq 'partitioned')
	{
		$sql .= "CREATE TABLE big ($columns) PARTITION BY HASH (id);\n"
		  . "CREATE TABLE big_0 PARTITION OF big FOR VALUES WITH (MODULUS 3, REMAINDER 0) $with;\n"
		  . "CREATE TABLE big_1 (t text, x int, ok bool, k2 int, k $round{type}$round{collate}, "
		  . "$words, v int, id int, f float4) $with;\n"
		  . "ALTER TABLE big_1 DROP x, ADD gone1 text, ADD gone2 int;\n"
		  . "ALTER TABLE big ATTACH PARTITION big_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);\n"
		  . "CREATE TABLE big_2 PARTITION OF big FOR VALUES WITH (MODULUS 3, REMAINDER 2) $with;\n";
		@leaves = qw(big_0 big_1 big_2);
	}
	elsif ($round{kind} eq 'by_key')
	{
		my $middle = $types{ $round{type} }{value}->(int($round{span} / 2));
		$sql .= "CREATE TABLE big ($columns) PARTITION BY RANGE (k);\n"
		  . "CREATE TABLE big_0 PARTITION OF big FOR VALUES FROM (MINVALUE) TO ($middle) $with;\n"
		  . "CREATE TABLE big_1 PARTITION OF big FOR VALUES FROM ($middle) TO (MAXVALUE) $with;\n"
		  . "CREATE TABLE big_2 PARTITION OF big DEFAULT $with;\n";
		@leaves = qw(big_0 big_1 big_2);
	}
	elsif ($round{kind} eq 'by_hash')
	{
		$sql .= "CREATE TABLE big ($columns) PARTITION BY HASH (k);\n"
		  . "CREATE TABLE big_0 PARTITION OF big FOR VALUES WITH (MODULUS 2, REMAINDER 0) $with;\n"
		  . "CREATE TABLE big_1 PARTITION OF big FOR VALUES WITH (MODULUS 4, REMAINDER 1) $with;\n"
		  . "CREATE TABLE big_2 (v int, k $round{type}, k2 int, f float4, id int, gone2 int, "
		  . "ok bool, t text, $words, gone1 text) $with;\n"
		  . "ALTER TABLE big ATTACH PARTITION big_2 FOR VALUES WITH (MODULUS 4, REMAINDER 3);\n";
	}
	elsif ($round{kind} eq 'by_list')
	{
		my @values = map { $types{ $round{type} }{value}->($_) } 0 .. 5;
		$sql .= "CREATE TABLE big ($columns) PARTITION BY LIST (k);\n"
		  . "CREATE TABLE big_0 PARTITION OF big FOR VALUES IN ($values[0], $values[5]) $with;\n"
		  . "CREATE TABLE big_1 PARTITION OF big FOR VALUES IN ($values[3], NULL) $with;\n"
		  . "CREATE TABLE big_2 PARTITION OF big DEFAULT $with;\n";
	}
	elsif ($round{kind} eq 'deep')
	{
		$sql .= "CREATE TABLE big ($columns) PARTITION BY RANGE (id);\n"
		  . "CREATE TABLE big_0 PARTITION OF big FOR VALUES FROM (MINVALUE) TO (400) $with;\n"
		  . "CREATE TABLE big_1 (t text, gone2 int, id int, k2 int, k $round{type}, gone1 text, "
		  . "$words, v int, f float4, ok bool) PARTITION BY HASH (k);\n"
		  . "CREATE TABLE big_2 PARTITION OF big_1 "
		  . "FOR VALUES WITH (MODULUS 2, REMAINDER 0) $with;\n"
		  . "CREATE TABLE big_3 PARTITION OF big_1 "
		  . "FOR VALUES WITH (MODULUS 2, REMAINDER 1) $with;\n"
		  . "ALTER TABLE big ATTACH PARTITION big_1 DEFAULT;\n";
	}
	elsif ($round{kind} eq 'inherited')
	{
		$sql .= "CREATE TABLE big ($columns) $with;\n"
		  . "CREATE TABLE big_0 (extra int) INHERITS (big) $with;\n"
		  . "CREATE TABLE big_1 () INHERITS (big_0) $with;\n";
		@leaves = qw(big big_0 big_1);
	}
	else
	{
		my %kinds = (plain => '', unlogged => 'UNLOGGED', temporary => 'TEMPORARY');
		$sql .= "CREATE $kinds{ $round{kind} } TABLE big ($columns) $with;\n";
	}

	my $before = upto($round{rows});
	$round{next} = $round{rows} + 1;
	$sql .= "ALTER TABLE big DROP gone1;\n" if chance(0.5);
	$sql .= rows_sql(1, $before);
	$sql .= create_indexes(@leaves);
	$sql .= "ALTER TABLE big DROP gone2;\n" if chance(0.5);
	$sql .= rows_sql($before + 1, $round{rows} - $before);
	$sql .= "ALTER TABLE big ADD late int DEFAULT 5;\n" if chance(0.3);
	$sql .= "INSERT INTO big_0 (id, k, v, t, k2) SELECT id + 100000, k, v, t, k2 FROM ONLY big;\n"
	  . "INSERT INTO big_1 (id, k, v, t, k2) SELECT id + 200000, k, v, t, k2 FROM ONLY big;\n"
	  if $round{kind} eq 'inherited';

	my $type = like_key();
	# keep a join's result, and stock's work for correlated subqueries, small; tables grow
	my $most = $round{rows} > 4000 ? $round{rows} : 4000;
	$round{small} = pick(grep { $_ * $most <= 12000 * $round{span} and $_ * $round{rows} <= 3e5 }
		  0, 5, 60, 200, 200, 3000);
	my $small_key = $types{$type}{value}->("i * $round{step} % " . int($round{span} * 1.2 + 1));
	$sql .= "CREATE TABLE small (k $type$round{collate}, w int, name text);\n"
	  . "INSERT INTO small SELECT nullif($small_key, " . $types{$type}{value}->(2) . "), i % 60, "
	  . "'n' || i FROM generate_series(1, $round{small}) i;\n"
	  . "CREATE TEMP TABLE temp_small AS SELECT k, w FROM small WHERE w % 7 = 1 LIMIT 60;\n"
	  . "INSERT INTO temp_small SELECT k::$type, 1000 + v FROM big LIMIT 3;\n"
	  . "CREATE FUNCTION some_keys(n int) RETURNS TABLE (k $type, w int) STABLE LANGUAGE sql AS "
	  . "'SELECT k, w FROM small WHERE w < n';\n";
	my $tuples = int(12000 * $round{span} / $most);
	$sql .= create_tuples($type, $tuples > 60 ? 60 : $tuples < 3 ? 3 : $tuples);
	$sql .= "ANALYZE;\n" if chance(0.5);
	return $sql;
}

sub create_indexes
{
	my @leaves = @_;
	my ($sql, $lanes) = ('', pick('', '', ' WITH (lanes = 1)', ' WITH (lanes = 7)'));
	my @tables = $round{kind} eq 'inherited' ? @leaves : ('big');

	$round{predicate} = pick(undef, undef, 'v < 60', 'v % 2 = 0');
	$round{expression} = is_int() && chance(0.3);
	foreach my $table (@tables)
	{
		my $where = $round{predicate} ? " WHERE $round{predicate}" : '';
		my $include = pick('', ' INCLUDE (id, v)', ' INCLUDE (v)',
			family() eq 'bytea' ? '' : ' INCLUDE (id, v, k2, k)',
			' INCLUDE (v, k2, f, ok)', ' INCLUDE (id, v, k2, f, ok)', ' INCLUDE (id, t)',
			' INCLUDE (id, v, k2, t)', ' INCLUDE (v, n, s, c, u)', ' INCLUDE (id, n)',
			' INCLUDE (id, v, n, s, c, u, k2, f, ok)', ' INCLUDE (s, v, u)');
		my $on = "ON $table USING gpujoin (k$round{class})$include";
		$sql .= "CREATE INDEX ${table}_gj $on$lanes$where;\n";
		$sql .= "CREATE INDEX ${table}_whole_gj $on;\n"
		  if $round{predicate} && chance(0.8);
		$sql .= "CREATE INDEX ${table}_k2_gj ON $table USING gpujoin (k2)$lanes;\n" if chance(0.5);
		$sql .= "CREATE INDEX ${table}_e_gj ON $table USING gpujoin ((k + 1));\n"
		  if $round{expression};
		$sql .= "CREATE INDEX ${table}_v ON $table (v);\n" if chance(0.3);
		$sql .= "CREATE INDEX ${table}_kb ON $table (k);\n" if chance(0.4);
	}
	return $sql;
}

sub random_change
{
	my $n = pick(1, 20, 200, 900);
	my $any = sub { "id % " . pick(2, 3, 7, 50) . " = " . upto(3) };
	return pick(
		sub { my $sql = rows_sql($round{next}, $n); $round{next} += $n; $sql },
		sub { "UPDATE big SET v = (v + 1) % 100 WHERE " . $any->() . ";\n" },
		sub { "UPDATE big SET ok = NOT ok, f = NULL WHERE " . $any->() . ";\n" },
		sub { "UPDATE big SET t = t || 'z' WHERE " . $any->() . ";\n" },
		sub { "UPDATE big SET n = n + 1, s = s || 'x', u = NULL WHERE " . $any->() . ";\n" },
		sub { "UPDATE big SET k = " . $types{ $round{type} }{value}->(number() =~ s/-//r)
			  . " WHERE " . $any->() . ";\n" },
		sub { 'UPDATE big SET k = NULL WHERE ' . pick('id % 97 = 3', $any->()) . ";\n" },
		sub { "UPDATE big SET k = " . $types{ $round{type} }{value}->(number() =~ s/-//r)
			  . " WHERE k IS NULL AND " . $any->() . ";\n" },
		sub { "DELETE FROM big WHERE " . $any->() . ";\n" })->();
}

# Return changes within one transaction of a random kind.
sub transaction
{
	my @changes = map { random_change() } 1 .. pick(1, 2, 3);
	return pick(
		sub { join('', @changes) },
		sub { "BEGIN;\n" . join('', @changes) . "COMMIT;\n" },
		sub { "BEGIN;\n" . join('', @changes) . "ROLLBACK;\n" },
		sub { "BEGIN;\nSAVEPOINT a;\n" . join('', @changes) . "ROLLBACK TO a;\n" . random_change()
			  . "SAVEPOINT b;\n" . random_change() . "RELEASE b;\nCOMMIT;\n" },
		sub { $round{kind} eq 'temporary' ? join('', @changes) : "BEGIN;\n"
			  . join('', grep { !/temp/ } @changes) . "PREPARE TRANSACTION 'p';\n"
			  . pick('COMMIT', 'ROLLBACK') . " PREPARED 'p';\n" },
		sub { "VACUUM big;\n" },
		sub { join('', @changes) . "VACUUM (FREEZE, INDEX_CLEANUP on) big;\n" },
		sub { chance(0.3) ? "VACUUM FULL big;\n" : "VACUUM ANALYZE big;\n" },
		sub { chance(0.3) ? "REINDEX TABLE big;\n" : "VACUUM big;\n" },
		sub { chance(0.2) ? "TRUNCATE big;\n" . rows_sql(1, 700) : join('', @changes) })->();
}

sub random_query
{
	my $kind = rand();
	my ($shape, $how, $query, $args) = ('', '', '', '');

	if ($kind < 0.08)
	{
		$shape = pick(sort keys %changes);
		($how, $query) = ('change', $changes{$shape}->());
	}
	elsif ($kind < 0.2)
	{
		($shape, $how) = ('generic', 'generic');
		($query, $args) = @{ generic_query() };
	}
	else
	{
		$shape = pick(sort(keys %shapes), 'join_tuple', 'join_tuple');
		$how = pick(qw(whole whole loop scroll cursor parallel parallel));
		$how = 'loop' if $shape =~ /locked/;
		$how = pick(qw(loop scroll cursor)) if $shape eq 'joined_groups';
		$args = pick(random_change(), random_change(), folds()) =~ s/;\n$//r if $how eq 'cursor';
		$query = compute_value($shapes{$shape}->());
		$query .= ' ON true' if $shape eq 'lateral' && $query =~ /LEFT JOIN LATERAL/;
	}
	my $settings = join(' ', (map { pick(@settings) } 1 .. pick(0, 1, 2)),
		$how eq 'parallel' ? $parallel : (),
		($how eq 'generic' || $shape eq 'arrays') && chance(0.7) ? pick(@unknown) : ());
	return compare_sql($shape, $how, $query, $args, $settings);
}

sub check_indexes
{
	return "SELECT 'checked|' || count(gpujoin_check(c.oid, true)) FROM pg_class c "
	  . "JOIN pg_am a ON a.oid = c.relam WHERE amname = 'gpujoin' AND relkind = 'i';\n";
}

1;
