# Keys that only their rests prove, uuids and text ids: a device reduces the rows whose code and
# rest are those of a listed key, and no others. Many keys share a code, in lists and in the table;
# rows are on tails, in open pages, and on blocks that are not all-visible; texts may be no ids.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use MirrorTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'", PATIENT,
	'gpujoin.force = on', 'max_parallel_workers_per_gather = 0', 'autovacuum = off',
	'gpujoin.debug_reduce_rows = 0');
ask($node);
sql('CREATE EXTENSION IF NOT EXISTS gpujoin; CREATE EXTENSION IF NOT EXISTS gpujoin_test');
wait_ready($node);

# id: no two share a code. v7: made in bulk, a hundred in each millisecond, so that some share one.
# alike: hundreds share a code, with rests of both signs.
sql(q{
	CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE LANGUAGE sql AS
		$$ SELECT md5($1::text)::uuid $$;
	CREATE FUNCTION v7(int) RETURNS uuid IMMUTABLE LANGUAGE sql AS
		$$ SELECT (lpad(to_hex(1700000000000 + $1 / 100), 12, '0') || '7' || '00' || $1 % 3 || '8'
			|| right(md5($1::text), 15))::uuid $$;
	CREATE FUNCTION alike(int) RETURNS uuid IMMUTABLE LANGUAGE sql AS
		$$ SELECT gpujoin_test_uuid($1 / 400, CASE $1 % 3 WHEN 0 THEN -$1 ELSE $1 END) $$;
	CREATE FUNCTION key(i int) RETURNS uuid IMMUTABLE LANGUAGE sql AS
		$$ SELECT CASE i % 3 WHEN 0 THEN id(i) WHEN 1 THEN v7(i) ELSE alike(i) END $$;
	CREATE FUNCTION name(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$ SELECT CASE WHEN i % 20 = 3 THEN 'no id, but a text ' || i
			WHEN i % 3 = 0 THEN v7(i)::text WHEN i % 3 = 1 THEN 'user-' || i
			ELSE gpujoin_test_unpack(-3100000000000000000, i) END $$;
	CREATE TABLE t (id int, u uuid, s text, v int8, c int2);
	INSERT INTO t SELECT i, key(i % 3000), name(i % 3000), nullif(i % 7, 0) * 1000000007::int8,
		nullif(i % 11, 3) FROM generate_series(1, 9000) i;
	INSERT INTO t VALUES (-1, NULL, NULL, 1, 1), (-2, id(0), name(0), NULL, NULL);
	CREATE INDEX t_u ON t USING gpujoin (u) INCLUDE (id, v, c) WITH (lanes = 1);
	CREATE INDEX t_s ON t USING gpujoin (s text_id_ops) INCLUDE (id, v, c) WITH (lanes = 1);
	CREATE TABLE small AS SELECT key(i) AS u, name(i) AS s, i % 5 AS p
		FROM generate_series(1000, 4000, 7) i;
	INSERT INTO small SELECT key(i), name(i), i % 3 FROM generate_series(1000, 1500, 5) i;
	INSERT INTO small VALUES (NULL, NULL, 1), (id(1000000), 'user-x', 2)});
vacuum_until_visible($node, 't');
sql(q{ANALYZE small; SELECT gpujoin_load('t_u'), gpujoin_load('t_s')});

sub counter
{
	my ($plan, $name) = @_;

	return $plan =~ /"$name": ([0-9]+)/ ? $1 : '-';
}

# The answer in one snapshot by PostgreSQL, by us without reductions, and with them; and how many
# rows have been reduced.
sub answers_of
{
	my $query = shift;
	my @lines = split /\n/, sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SET gpujoin.enabled = off;
		SELECT md5(string_agg(q::text, ',' ORDER BY q::text)) FROM ($query) q;
		RESET gpujoin.enabled; SET gpujoin.device_aggregate = off;
		SELECT md5(string_agg(q::text, ',' ORDER BY q::text)) FROM ($query) q;
		RESET gpujoin.device_aggregate;
		SELECT md5(string_agg(q::text, ',' ORDER BY q::text)) FROM ($query) q");
	my $plan = sql("EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query");

	return ([ $lines[1], $lines[2] ], [ $lines[0], $lines[0] ],
		counter($plan, 'Device Rows Reduced'));
}

# A few rows may be on a tail, or on the last block.
sub reduced
{
	my ($what, $query, $rows, $others) = @_;
	my ($ours, $stock, $reduced) = answers_of($query);

	is_deeply($ours, $stock, "$what: the answer");
	is($rows - $reduced <= ($others // 0) ? $rows : $reduced, $rows, "$what: rows reduced");
	cmp_ok($reduced, '<=', $rows, "$what: no others");
	return;
}

# Keys of each kind; keys that no row has, but whose code some have; keys of another code
my $list = 'u = ANY (ARRAY(SELECT key(i) FROM generate_series(1, 4000, 2) i) || '
  . 'ARRAY(SELECT gpujoin_test_uuid(i, 100000 + i) FROM generate_series(0, 5) i))';
my $sums = 'count(*), sum(id), count(v), sum(v), avg(v), min(v), max(c)';
my $all = sql("SET gpujoin.enabled = off; SELECT count(*) FROM t WHERE $list");

sub check_uuids
{
	my ($when, $rows, $of_join, $others) = @_;

	reduced("$when: a list", "SELECT $sums FROM t WHERE $list", $rows, $others);
	reduced("$when: groups of a column", "SELECT c, $sums FROM t WHERE $list GROUP BY c", $rows,
		$others);
	reduced("$when: groups of columns",
		"SELECT c, v, $sums FROM t WHERE $list GROUP BY c, v", $rows, $others);
	reduced("$when: distinct values", "SELECT count(DISTINCT v) FROM t WHERE $list", $rows,
		$others);
	reduced("$when: the number of distinct rows",
		"SELECT count(*) FROM (SELECT DISTINCT c, v FROM t WHERE $list) d", $rows, $others);
	reduced("$when: groups of keys", "SELECT u, $sums FROM t WHERE $list GROUP BY u", $rows,
		$others);
	reduced("$when: groups of keys and a column",
		"SELECT c, u, v, $sums FROM t WHERE $list GROUP BY c, u, v", $rows, $others);
	reduced("$when: distinct keys", "SELECT DISTINCT u FROM t WHERE $list", $rows, $others);
	reduced("$when: the number of distinct keys",
		"SELECT count(*) FROM (SELECT DISTINCT u FROM t WHERE $list) d", $rows, $others);
	reduced("$when: the number of distinct keys with a column",
		"SELECT count(*) FROM (SELECT DISTINCT u, c FROM t WHERE $list) d", $rows, $others);
	reduced("$when: count of distinct keys", "SELECT count(DISTINCT u) FROM t WHERE $list", $rows,
		$others);
	reduced("$when: count of distinct keys in a join",
		"SELECT count(DISTINCT t.u) FROM small JOIN t USING (u)", $of_join, $others);
	reduced("$when: groups of keys in a join",
		"SELECT u, $sums FROM small JOIN t USING (u) GROUP BY u", $of_join, $others);
	reduced("$when: partners and keys",
		"SELECT p, u, c, $sums FROM small JOIN t USING (u) GROUP BY p, u, c", $of_join, $others);
	reduced("$when: weights", "SELECT $sums FROM small JOIN t USING (u)", $of_join, $others);
	reduced("$when: partners",
		"SELECT p, $sums FROM small JOIN t USING (u) GROUP BY p", $of_join, $others);
	reduced("$when: partners and a column",
		"SELECT p, c, $sums FROM small JOIN t USING (u) GROUP BY p, c", $of_join, $others);
	reduced("$when: a semi-join",
		"SELECT $sums FROM t WHERE u IN (SELECT u FROM small)", $of_join, $others);
	return;
}

my $joined = sql('SET gpujoin.enabled = off;
	SELECT count(*) FROM t WHERE u IN (SELECT u FROM small)');

cmp_ok($all, '>', 3000, 'there are rows');
check_uuids('uuids', $all, $joined);
reduced('a filter', "SELECT $sums FROM t WHERE $list AND v > 2000000000 AND c < 8",
	sql("SET gpujoin.enabled = off;
		SELECT count(*) FROM t WHERE $list AND v > 2000000000 AND c < 8"));
reduced('one key', 'SELECT count(*), sum(v) FROM t WHERE u = key(1)', 3);
reduced('keys with one code, of which one is listed', "SELECT $sums FROM t WHERE u = alike(5)", 3);
reduced('a listed code, and no listed key', 'SELECT count(*), sum(v) FROM t WHERE '
	  . 'u = gpujoin_test_uuid(0, 1000000)', 0);
reduced('more keys than a request takes in one part', "SELECT $sums FROM t WHERE u = ANY (ARRAY(
	SELECT key(i) FROM generate_series(1, 200000) i))",
	sql('SET gpujoin.enabled = off; SELECT count(*) FROM t WHERE u <> key(0)'));
reduced('two conditions', "SELECT $sums FROM t WHERE u IN (alike(5), alike(8)) OR u = key(3)", 9);

# Not reduced: tuples; the CPU proves entries
reduced('tuples', "SELECT $sums FROM t WHERE (u, c) IN ((alike(2), 2), (alike(5), 5))", 0);
reduced('a join by two columns', "SELECT $sums FROM small s JOIN t ON t.u = s.u AND t.c = s.p", 0);

# ---- the first rows of an order ----------------------------------------------------------------

# A device sends none of other keys; without an order it does, and the CPU drops them.
foreach my $order ('ORDER BY id LIMIT 20', 'ORDER BY v DESC NULLS LAST, id LIMIT 30', '')
{
	my $query = "SELECT row_number() OVER (), q.* FROM (SELECT id, v FROM t WHERE $list $order) q";
	my ($ours, $stock) = answers_of($query);
	my $plan = sql("EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query");

	is_deeply($ours, $stock, "rows '$order': the answer") if $order ne '';
	like($plan, qr/"Device": "reference"/, "rows '$order': by the device");
	is(counter($plan, 'Rows Removed by Index Filter') > 0, $order eq '', "rows '$order': dropped");
	is(counter($plan, 'Device Limit') > 0, $order ne '', "rows '$order': limited");
}

# ---- texts -------------------------------------------------------------------------------------

my $ids = 's = ANY (ARRAY(SELECT name(i) FROM generate_series(0, 4000, 2) i))';
my $mixed = 's = ANY (ARRAY(SELECT name(i) FROM generate_series(0, 4000, 2) i) || name(3))';

reduced('texts', "SELECT $sums FROM t WHERE $ids",
	sql("SET gpujoin.enabled = off; SELECT count(*) FROM t WHERE $ids"));
reduced('texts of which one is no id', "SELECT $sums FROM t WHERE $mixed", 0);
reduced('only a text that is no id', "SELECT $sums FROM t WHERE s = name(3)", 0);
reduced('joined texts', "SELECT p, $sums FROM small JOIN t USING (s) WHERE length(small.s) < 12 "
	  . 'GROUP BY p', sql('SET gpujoin.enabled = off; SELECT count(*) FROM t WHERE s IN '
	  . '(SELECT s FROM small WHERE length(s) < 12)'));
reduced('the number of distinct texts', "SELECT count(DISTINCT s) FROM t WHERE $ids", 0);
reduced('joined texts of which some are no ids', "SELECT $sums FROM small JOIN t USING (s)", 0);

# ---- several batches of small rows -------------------------------------------------------------

# Each batch is a reduction if there is memory for its groups.  If a text of the small side forms
# groups, the rows are read.
sql(q{CREATE TABLE wide AS SELECT key(i % 4000) AS u, name(i % 4000) AS s, i % 4 AS p,
		CASE WHEN i % 5 > 0 THEN 'group ' || i % 5 END AS g
	FROM generate_series(1, 12000) i; ANALYZE wide});
my $memory = q{SET hash_mem_multiplier = 1; SET work_mem = '320kB'};

sub check_batches
{
	my $when = shift;

	foreach my $query ('SELECT count(DISTINCT t.u) FROM wide JOIN t USING (u)',
		'SELECT count(DISTINCT u) FROM t WHERE u IN (SELECT u FROM wide)',
		"SELECT $sums FROM wide JOIN t USING (u)",
		"SELECT p, $sums FROM wide JOIN t USING (u) GROUP BY p ORDER BY p",
		"SELECT $sums FROM wide JOIN t USING (s) WHERE length(wide.s) < 12",
		"SELECT g, $sums FROM wide JOIN t USING (u) GROUP BY g ORDER BY g",
		"SELECT g, c, $sums FROM wide JOIN t USING (u) GROUP BY g, c ORDER BY g, c",
		"SELECT g, $sums FROM wide JOIN t USING (s) WHERE length(wide.s) < 12 GROUP BY g
			ORDER BY g")
	{
		my $plan = sql("$memory; EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query");
		my $batches = counter($plan, 'Batches');

		cmp_ok($batches, '>', 1, "several batches, $when: $query");
		# a batch whose rows take all memory leaves none for the groups of its keys
		cmp_ok(counter($plan, 'Device Reductions') +
				($query =~ /BY p/ ? counter($plan, 'Device Reductions Failed') : 0),
			$query =~ /BY g/ ? '==' : '>', $query =~ /BY/ ? 0 : $batches - 1, 'reductions');
		is(sql("$memory; $query"), sql("SET gpujoin.enabled = off; $query"), 'the answer');
	}
	return;
}
check_batches('all rows');

# ---- changes -----------------------------------------------------------------------------------

# New rows are on the tail, and then in an open page; blocks are no longer all-visible.
sql(q{INSERT INTO t SELECT i, key(i % 3000), name(i % 3000), i, i % 9
	FROM generate_series(10001, 10012) i});
my ($ours, $stock, $reduced);

foreach my $rows (5, 3000)
{
	foreach my $query ("SELECT $sums FROM t WHERE $list",
		"SELECT u, $sums FROM t WHERE $list GROUP BY u",
		"SELECT u, c, count(*) FROM t WHERE $list GROUP BY u, c",
		"SELECT count(*) FROM (SELECT DISTINCT u FROM t WHERE $list) d",
		"SELECT count(DISTINCT u) FROM t WHERE $list",
		"SELECT p, $sums FROM small JOIN t USING (u) GROUP BY p",
		"SELECT p, c, $sums FROM small JOIN t USING (u) GROUP BY p, c",
		"SELECT $sums FROM t WHERE $ids")
	{
		($ours, $stock, $reduced) = answers_of($query);
		is_deeply($ours, $stock, "$rows new rows: $query");
		cmp_ok($reduced, '>', 0, 'most of them are reduced');
	}
	sql(qq{INSERT INTO t SELECT i, key(i % 3000), name(i % 3000), i, i % 9
		FROM generate_series(20000, 20000 + $rows * 2) i;
		UPDATE t SET u = key(id % 2000 + 1), v = v + 1 WHERE id < 500 AND id % 50 = 3;
		UPDATE t SET u = alike(5), s = 'user-1' WHERE id < 500 AND id % 100 = 7;
		DELETE FROM t WHERE id BETWEEN 2000 AND 2500 AND id % 40 = 11});
}

check_batches('with a rest');

# The keys with their rests take memory that the rest of the rows would need: 2000 keys take 32 kB,
# and 300 kB are enough without them.
foreach my $kb (312, 1024)
{
	sql("ALTER DATABASE postgres SET work_mem = '${kb}kB';
		ALTER DATABASE postgres SET hash_mem_multiplier = 1");
	($ours, $stock, $reduced) = answers_of("SELECT $sums FROM t WHERE $list");
	is_deeply($ours, $stock, "$kb kB: the answer");
	is($reduced > 0, $kb == 1024, "$kb kB: rows are reduced");
}
sql('ALTER DATABASE postgres RESET ALL');
sql(q{VACUUM t; SELECT gpujoin_fold('t_u'), gpujoin_fold('t_s')});
vacuum_until_visible($node, 't');
$all = sql("SET gpujoin.enabled = off; SELECT count(*) FROM t WHERE $list");
$joined = sql('SET gpujoin.enabled = off; SELECT count(*) FROM t WHERE u IN (SELECT u FROM small)');
check_uuids('after a fold', $all, $joined, 20);

# The mirror cannot be brought up to date, and has listed entries whose places other rows have taken
# since. Rows from the heap are rechecked only if their entries are certain.
my $gone = q{SELECT s FROM t
	WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(70001, 70200) i))};
sql(q{INSERT INTO t SELECT i, id(i), 'gone', 1, 1 FROM generate_series(70001, 70200) i});
sql('SELECT gpujoin_fold(\'t_u\')');
vacuum_until_visible($node, 't');
sql(q{SELECT gpujoin_unload('t_u'), gpujoin_load('t_u')});
is(sql("SELECT count(s) FROM ($gone) q"), '200', 'rows that are there');
sql(q{DELETE FROM t WHERE id BETWEEN 70001 AND 70200});
sql('VACUUM (INDEX_CLEANUP on) t');
sql(q{INSERT INTO t SELECT i, id(i), 'came', 1, 1 FROM generate_series(80001, 80200) i});
is(inject($node, 'write', 'no_memory', 0, 0, 0), '', 'no page can be pushed');
cmp_ok(sql("SET gpujoin.debug_step = 'ignore epoch'; SELECT count(s) FROM ($gone) q"), '>', 0,
	'without the rule, rows are answered that are not listed');
is(sql("SELECT count(s) FROM ($gone) q"), '0', 'with it, they are not');
is(inject($node, 'write', 'none', 0, 0, 0), '', 'pages can be pushed again');
is(sql("SELECT count(s) FROM ($gone) q"), '0', 'none after that');

log_is_clean($node, 'the log');
$node->stop;
done_testing();
