# Reductions: a device adds rows up, and the CPU adds those that the device must leave out.
# Writers, VACUUM and folds come between the steps of match/reduce.c; the answer must be that of
# PostgreSQL in the same snapshot. The comments name the rule without which a test fails.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use MirrorTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'", PATIENT,
	'gpujoin.force = on', 'max_parallel_workers_per_gather = 0', 'autovacuum = off',
	'max_prepared_transactions = 5', 'gpujoin.debug_reduce_rows = 0');
ask($node);
sql('CREATE EXTENSION IF NOT EXISTS gpujoin; CREATE EXTENSION IF NOT EXISTS gpujoin_test');
wait_ready($node);

my $count = 'SELECT count(*), sum(id), count(v), sum(v), min(v), max(v) FROM t WHERE k < 1000 AND '
  . 'k = ANY (ARRAY(SELECT generate_series(0, 60)))';
my $sync = "SET gpujoin.sync_blocks = 0; $count";

# Make a table with wide rows. Four of them fill a block. The last thirteen are on the tail of the
# only lane, and the very last is in a block that has room for other rows. All blocks are
# all-visible. Keys from 1000 on are not counted.
sub make
{
	sql(q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int, k int, v int8, pad text);
		ALTER TABLE t ALTER pad SET STORAGE PLAIN;
		INSERT INTO t SELECT i, i % 50, nullif(i % 7, 0) * 1000000007::int8, repeat('x', 1988)
		FROM generate_series(1, 2000) i;
		CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id, v) WITH (lanes = 1)});
	sql(q{SELECT gpujoin_load('t_k')});
	sql(q{INSERT INTO t SELECT i, i % 10, i, repeat('x', 1988) FROM generate_series(3001, 3013) i});
	vacuum_until_visible($node, 't');
	sql($sync);
	return;
}

# Insert rows that are not counted until the tail has been moved to a page, and the page is full
my $fill = q{INSERT INTO t SELECT i, 1000 + i % 7, i, repeat('y', 200) FROM
	generate_series(5000, 8000) i};

# Insert rows that are counted if the snapshot sees them, first into the block that has room
my $insert = q{INSERT INTO t SELECT i, i % 50, i, repeat('y', 200) FROM
	generate_series(20000, 20020) i};

sub begin
{
	my $sql = shift;
	my %session = (in => $sql, out => '', err => '');

	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1',
			'-d', $node->connstr('postgres') ],
		'<', \$session{in}, '>', \$session{out}, '2>', \$session{err}, patience(300));
	$session{run}->pump_nb;
	return \%session;
}

# Return the counters of the last plan that a session has explained
sub counter
{
	my ($plan, $name) = @_;

	return $plan =~ /"$name": ([0-9]+)/ ? $1 : '-';
}

# Stop a query at a step of its reduction, do something in other sessions, and compare the answer
# with PostgreSQL's own. Return the plan.
sub during
{
	my ($step, $what, $query, @events) = @_;
	my $lock = begin("SELECT pg_advisory_lock(1313);\n");
	my ($session, $ours, $stock);

	wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted},
		"$what: the lock is held");
	$session = begin("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;
		SET gpujoin.debug_step = '$step wait'; $query; RESET gpujoin.debug_step;
		SET gpujoin.enabled = off; $query; RESET gpujoin.enabled;
		EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query;\n");
	wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted},
		"$what: the query waits at $step");
	ref $_ ? $_->() : sql($_) foreach @events;
	$lock->{in} .= "\\q\n";
	$lock->{run}->finish;
	$session->{in} .= "\\q\n";
	$session->{run}->finish;
	is($session->{err}, '', "$what: no error");
	(undef, $ours, $stock) = split /\n/, $session->{out};
	is($ours, $stock, "$what: the answer");
	return $session->{out};
}

# ---- without changes -------------------------------------------------------------------------

make();
my $plan = sql("EXPLAIN (ANALYZE, FORMAT json, TIMING off) $count");
is(counter($plan, 'Device Reductions'), 1, 'rows are reduced');
is(counter($plan, 'Device Rows Reduced'), 2000, 'those that are not on a tail');
like(sql("EXPLAIN (ANALYZE, TIMING off) $count"), qr/^ *Device Rows Reduced: 2000$/m,
	'which a plan shows as text, too');
like(sql("SET gpujoin.device_aggregate = off; EXPLAIN (ANALYZE, FORMAT json) $count"),
	qr/"Device Reductions": 0/, 'unless that is switched off');
is(sql("$count"), sql("SET gpujoin.enabled = off; $count"), 'the answer is right');

is(sql(q{SELECT reductions > 0 AND reduced_rows = 2000 * reductions AND pages_left_out = 0
	AND reduced_groups = reductions AND reductions_failed = 0 AND entries_not_sent = reduced_rows
	FROM pg_stat_gpujoin_indexes WHERE indexrelname = 't_k'}), 't', 'views count them');

# Groups of columns; the number of distinct rows, without the rows themselves unless some are on a
# tail; weights of keys, so that the device needs no group for each key
# Done before each query, because those of PostgreSQL 19 mark the pages that they read
my $before = '';

sub reduced
{
	my ($what, $query, %expected) = @_;

	sql($before) if $before;
	my $explained = sql("EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query");

	is_deeply({ map { $_ => counter($explained, $_) } keys %expected }, \%expected,
		"$what: reduced");
	sql($before) if $before;
	is(sql($query), sql("SET gpujoin.enabled = off; $query"), "$what: the answer");
	return;
}

my $some = 'k = ANY (ARRAY(SELECT generate_series(10, 60)))';
my $all = 'k = ANY (ARRAY(SELECT generate_series(0, 60)))';
my $distinct = "SELECT count(*) FROM (SELECT DISTINCT v, id FROM t WHERE $all) d";
my $twice = '(SELECT i % 8 + 10 AS k FROM generate_series(1, 30) i) s';
my $weighed = "SELECT count(*), sum(id), sum(v), avg(v), max(v) FROM $twice JOIN t USING (k)";

reduced('groups of two columns', "SELECT sum(n), sum(s), sum(v) FROM (SELECT v, k, count(*) AS n,
	sum(id) AS s FROM t WHERE $all GROUP BY v, k) g", 'Device Rows Reduced' => 2000,
	'Device Groups' => 350);
reduced('distinct rows', "SELECT sum(v), count(v) FROM (SELECT DISTINCT v, k FROM t WHERE $all) d",
	'Device Rows Reduced' => 2000, 'Device Groups' => 350);
reduced('their number', "SELECT count(*) FROM (SELECT DISTINCT v, k FROM t WHERE $some) d",
	'Device Groups' => 280, 'Device Group Memory' => 0);
reduced('their number, with rows on a tail', "SELECT count(*) FROM (SELECT DISTINCT v, k FROM t
	WHERE $all) d", 'Device Groups' => 350);
reduced('groups of a column with a wide range', 'SELECT sum(n * v) FROM (SELECT v, count(*) AS n '
	  . "FROM t WHERE $all GROUP BY v) g", 'Device Groups' => 7);
reduced('its distinct values', "SELECT count(DISTINCT v) FROM t WHERE $all", 'Device Groups' => 7);
reduced('weights', $weighed, 'Device Groups' => 1, 'Device Rows Reduced' => 320);
reduced('weights of groups', "SELECT sum(n), sum(x) FROM (SELECT v, count(*) AS n, sum(v) AS x
	FROM $twice JOIN t USING (k) GROUP BY v) g", 'Device Groups' => 7);
reduced('partners', "SELECT count(*), sum(n * length(p)) FROM (SELECT p, v, count(*) AS n FROM
	(SELECT i % 8 + 10 AS k, 'p' || i % 3 AS p FROM generate_series(1, 30) i OFFSET 0) s
	JOIN t USING (k) GROUP BY p, v) g",
	'Device Groups' => 56);
reduced('more groups than there is room for', "SELECT sum(v) FROM (SELECT DISTINCT v, id FROM t
	WHERE $all) d", 'Device Reductions' => 1);

# The partitions of a table, each by itself
sql(q{
	CREATE TABLE p (k int, v int) PARTITION BY RANGE (v);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
	CREATE TABLE p_2 (v int, k int);
	ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (100) TO (200);
	INSERT INTO p SELECT i % 50, i % 200 FROM generate_series(1, 40000) i;
	CREATE INDEX p_k ON p USING gpujoin (k) INCLUDE (v);
	ANALYZE p});
vacuum_until_visible($node, $_) foreach 'p_1', 'p_2';
sql(q{SELECT gpujoin_load(indexrelid) FROM pg_index
	WHERE indrelid IN ('p_1'::regclass, 'p_2'::regclass)});
foreach my $query ('SELECT count(*), sum(v) FROM p WHERE k IN (1, 2, 3)',
	'SELECT sum(n * v) FROM (SELECT k, v, count(*) AS n FROM p WHERE k IN (1, 2) GROUP BY k, v) g',
	'SELECT count(DISTINCT v) FROM p WHERE k IN (1, 2, 3)')
{
	my @n = sql("EXPLAIN (ANALYZE, FORMAT json) $query") =~ /"Device Reductions": (\d)/g;

	is("@n", '1 1', "both partitions are reduced: $query");
	is(sql($query), sql("SET gpujoin.enabled = off; $query"), 'and the answer is right');
}
foreach my $query ("SELECT count(*), sum(v) FROM $twice JOIN p USING (k)",
	"SELECT sum(n * v) FROM (SELECT v, count(*) AS n FROM $twice JOIN p USING (k) GROUP BY v) g",
	"SELECT count(DISTINCT v) FROM $twice JOIN p USING (k)",
	"SELECT count(*) FROM (SELECT DISTINCT v FROM $twice JOIN p USING (k)) d",
	"SELECT y, n FROM generate_series(1, 3) y, LATERAL (SELECT count(*) FROM $twice JOIN p
		USING (k) WHERE s.k <> y + 10) q (n)")
{
	my @n = sql("EXPLAIN (ANALYZE, FORMAT json) $query") =~ /"Device Reductions": (\d)/g;

	is("@n", $query =~ /LATERAL/ ? '3 3' : '1 1', "both tables of a join are reduced: $query");
	is(sql($query), sql("SET gpujoin.enabled = off; $query"), 'and the answer is right');
}

# A join with several batches of small rows: each search is a reduction. Rows that are left come in
# the middle of that, as tuples of the heap (the groups of the next search overwrite them; groups of
# one batch are only counted)
sql(q{
	CREATE TABLE many (k int, a int, c int, b int8);
	INSERT INTO many SELECT i % 5000, i, i % 30, i * 10::int8 FROM generate_series(1, 60000) i;
	CREATE INDEX many_k ON many USING gpujoin (k) INCLUDE (a, b, c) WITH (lanes = 1);
	CREATE TABLE wide AS SELECT i * 7 % 4000 AS k, i % 3 AS w, repeat('x', i % 40) AS pad
	FROM generate_series(1, 9000) i;
	ANALYZE many, wide});
vacuum_until_visible($node, 'many');
sql(q{SELECT gpujoin_load('many_k')});
my $memory = 'SET hash_mem_multiplier = 1; SET work_mem =';
my @of_batches = (
	[ '256kB', 'SELECT count(*), sum(b), min(a) FROM wide JOIN %s USING (k)' ],
	[ '128kB', 'SELECT count(*), sum(b), min(a) FROM %s WHERE k IN (SELECT k FROM wide)' ],
	[ '256kB', 'SELECT c, count(*), avg(a) FROM wide JOIN %s USING (k) GROUP BY c ORDER BY c' ],
	[ '256kB', 'SELECT count(DISTINCT b) FROM wide JOIN %s USING (k)' ],
	[ '256kB', 'SELECT sum(c) FROM (SELECT DISTINCT c FROM wide JOIN %s USING (k)) x' ],
	[ '256kB', 'SELECT count(*) FROM (SELECT DISTINCT c FROM wide JOIN %s USING (k)) x' ],
	[ '256kB', 'SELECT w, count(*), max(b) FROM (SELECT i AS k, abs(i % 3) AS w FROM
		generate_series(-20000, 5000, 5) i OFFSET 0) s JOIN %s USING (k) GROUP BY w ORDER BY w' ]);
sub batches_are_right
{
	my $what = shift;

	foreach my $case (@of_batches)
	{
		my $query = sprintf($case->[1], 'many');
		my @n = sql("$memory '$case->[0]'; EXPLAIN (ANALYZE, FORMAT json) $query") =~
		  /"(?:Batches|Device Reductions)": ([0-9]+)/g;

		cmp_ok($n[0], '>', 1, "several batches, $what: $query");
		cmp_ok($n[1], '>', $what =~ /all/ ? $n[0] - 1 : 0, 'are reduced');
		is(sql("$memory '$case->[0]'; $query"), sql("SET gpujoin.enabled = off; $query"),
			'the answer');
	}
	return;
}
batches_are_right('all rows');

# The only part of an Append that pruning has left, when it starts, makes several searches.
sql(q{
	CREATE TABLE far (k int, b int8) PARTITION BY RANGE (k);
	CREATE TABLE far_1 PARTITION OF far FOR VALUES FROM (100000) TO (200000);
	CREATE TABLE far_2 PARTITION OF far FOR VALUES FROM (200000) TO (300000);
	INSERT INTO far SELECT i, i FROM generate_series(100000, 299999, 1000) i;
	ANALYZE far});
my $pruned = "$memory '256kB'; SET plan_cache_mode = force_generic_plan;
	PREPARE pruned(int) AS SELECT count(*), max(k), sum(b) FROM (SELECT many.k, b FROM wide
	JOIN many ON wide.k = many.k UNION ALL SELECT k, b FROM far) u WHERE k < \$1;";
my $pruned_plan = sql("$pruned EXPLAIN (ANALYZE, FORMAT json) EXECUTE pruned(5000)");
is(counter($pruned_plan, 'Subplans Removed'), 2, 'one part is left by pruning');
cmp_ok(counter($pruned_plan, 'Device Reductions'), '>', 1, 'its searches are reduced');
is(sql("$pruned EXECUTE pruned(5000)"),
	sql("SET gpujoin.enabled = off; $pruned EXECUTE pruned(5000)"), 'the answer');
sql(q{BEGIN; DELETE FROM many WHERE a % 500 = 1; ROLLBACK;
	INSERT INTO many SELECT i % 5000, i, i % 7, i FROM generate_series(1, 200) i});
batches_are_right('with a rest');

# ... which the planner prefers to a parallel plan. Return the costs of the GpuAgg, the Append and
# its two parts.
sub costs_of_parts
{
	my ($setting, $query) = @_;
	my $explained = sql("SET gpujoin.force = off; SET gpujoin.min_rows = 0;
		SET enable_seqscan = off; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;
		SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;
		SET gpujoin.device_aggregate = $setting; EXPLAIN (FORMAT json) $query");

	unlike($explained, qr/Gather/, "no parallel plan of partitions: $query")
	  if $setting eq 'on';
	return $explained =~ /"Total Cost": ([0-9.]+)/g;
}
my $values = join(', ', 0 .. 49);
foreach my $query ("SELECT count(*), sum(v) FROM p WHERE k IN ($values)",
	"SELECT k, count(*) FROM p WHERE k IN ($values) GROUP BY k",
	'SELECT count(*), sum(v) FROM (SELECT k, v FROM p_1 UNION ALL SELECT k, v FROM p_2) u '
	  . "WHERE k IN ($values)")
{
	my @reduced = costs_of_parts('on', $query);
	my @read = costs_of_parts('off', $query);

	cmp_ok($reduced[0], '<', $read[0], "reduced rows of partitions cost less: $query");
	cmp_ok($reduced[1], '<=', $reduced[2] + $reduced[3] + 0.1, 'the Append returns none of them');
	is(sql($query . ($query =~ /GROUP/ ? ' ORDER BY 1' : '')),
		sql("SET gpujoin.enabled = off; $query" . ($query =~ /GROUP/ ? ' ORDER BY 1' : '')),
		'and the answer is right');
}

# Groups that are no fewer than the rows are not sent
sql('ANALYZE t');
is(counter(sql("SET gpujoin.force = off; SET gpujoin.min_rows = 0; SET enable_seqscan = off;
	EXPLAIN (ANALYZE, FORMAT json) $distinct"), 'Device Reductions'), 0,
	'the groups of distinct rows are not sent');
make();

# Pages that are not all-visible: the device counts all groups, and sends those that rows on these
# pages have, too (an entry of the rest does not send its group). The values of one column are bits.
my $settings = join ' ', map { "ALTER DATABASE postgres $_;" } 'SET gpujoin.force = off',
  'SET gpujoin.min_rows = 0', 'SET enable_seqscan = off';
sql(q{
	CREATE TABLE d (k int, a int, b int8);
	INSERT INTO d SELECT i % 50, i % 45000, i % 45000 * 2 FROM generate_series(1, 60000) i;
	CREATE INDEX d_k ON d USING gpujoin (k) INCLUDE (a, b) WITH (lanes = 1);
	ANALYZE d});
vacuum_until_visible($node, 'd');
sql(q{SELECT gpujoin_load('d_k')});
sql($_) foreach split /(?<=;)/, $settings;
my $many = 'SELECT count(*) FROM (SELECT DISTINCT a, b FROM d WHERE k IN ('
  . join(', ', 0 .. 49) . ')) s';
my $values_of_a = 'SELECT count(DISTINCT a) FROM d WHERE k IN (' . join(', ', 0 .. 49) . ')';
reduced('the number of many groups', $many, 'Device Groups' => 45000, 'Device Group Memory' => 0);
$before = q{BEGIN; DELETE FROM d WHERE a < 300 AND ctid < '(50,0)'; ROLLBACK};
reduced('the number of many groups, and a rest', $many, 'Device Reductions' => 1);
sql($before);
my $sent = counter(sql("EXPLAIN (ANALYZE, FORMAT json) $many"), 'Device Group Memory');
cmp_ok($sent, '>', 0, 'only the groups of the rest are sent');
cmp_ok($sent, '<', 100, 'not all');
reduced('values of a column, and a rest', $values_of_a, 'Device Reductions' => 1);
my $again = "SELECT n FROM generate_series(1, 3) i, LATERAL ($many OFFSET i - i) q (n)";
sql($before);
is(sql($again), sql("SET gpujoin.enabled = off; $again"), 'groups are counted again');
$before = '';

# Rows on a tail, and then on an open page (the number is taken though T or L has hits). The last
# ones, which are on the tail then, are not counted. If the key is one of the columns, a device is
# asked for the keys that have no such row (these keys are asked for, too; or not searched for; or
# left out though the key is not among the columns, as the groups of these rows exist under other
# keys).
my $many_with_key = $many =~ s/DISTINCT/DISTINCT k,/r;
my $many_of_join = 'SELECT count(*) FROM (SELECT DISTINCT a, b FROM (SELECT i % 20 + 1 AS k
	FROM generate_series(1, 100) i) s JOIN d USING (k)) j';
foreach my $rows (10, 500)
{
	sql("INSERT INTO d SELECT i % 20 + 1, i, i * 2 FROM generate_series(1, $rows) i");
	sql('INSERT INTO d SELECT 1000, i, i FROM generate_series(1, 200) i') if $rows > 10;
	vacuum_until_visible($node, 'd');
	sql("SET gpujoin.sync_blocks = 0; $many");
	is(sql($_), sql("SET gpujoin.enabled = off; $_"), "$rows more rows: $_")
	  foreach $many, $values_of_a;
	reduced("$rows more rows, with their keys", $many_with_key, 'Device Reductions' => 1);
	reduced("$rows more rows, their keys, and a filter",
		$many_with_key =~ s/WHERE/WHERE a <> 7 AND/r, 'Device Reductions' => 1);
	reduced("$rows more rows, without their keys", $many_of_join, 'Device Reductions' => 0,
		'Device Reductions Failed' => 1);
}
is(sql($again =~ s/DISTINCT/DISTINCT k,/r),
	sql("SET gpujoin.enabled = off; $again" =~ s/DISTINCT/DISTINCT k,/r), 'and counted again');
foreach my $step ('reduce 1', 'reduce 2', 'reduce 3', 'reduce 4', 'reduce 5')
{
	during($step, "keys that have fresh rows, $step", $many_with_key,
		'INSERT INTO d SELECT i % 3 + 1, i, i FROM generate_series(1, 200) i',
		"SET gpujoin.sync_blocks = 0; $many", 'DELETE FROM d WHERE a % 1000 = 5',
		$step =~ /[35]/ ? 'VACUUM (INDEX_CLEANUP on) d' : q{SELECT gpujoin_fold('d_k', true)});
}
sql('INSERT INTO d SELECT i % 50, i, i FROM generate_series(1, 100) i');
reduced('most keys have fresh rows', $many_with_key, 'Device Reductions' => 0,
	'Device Reductions Failed' => 1);
sql($_) foreach split /(?<=;)/, $settings =~ s/SET (\S+) = \w+/RESET $1/gr;

# Rows on an open page, which the mirror lacks: the CPU searches it (L is not left out; L is not
# searched)
sql(q{INSERT INTO t SELECT i, i % 10, i, repeat('x', 1988) FROM generate_series(4001, 4400) i});
vacuum_until_visible($node, 't');
sql($sync);
$plan = sql("EXPLAIN (ANALYZE, FORMAT json, TIMING off) $count");
cmp_ok(counter($plan, 'Device Pages Left Out'), '>', 0, 'an open page is left out');
is(sql("$count"), sql("SET gpujoin.enabled = off; $count"), 'and searched');
is(sql($distinct), sql("SET gpujoin.enabled = off; $distinct"),
	'its rows are among the distinct ones');

# A part of the filter that a device does not test (a partial filter)
foreach my $filter ('id IN (1, 5, 7, 11, 1700, 2, 3, 4, 6, 8, 9)',
	'id < 1000 AND v IN (1000000007, 8)')
{
	is(sql("$count AND $filter"), sql("SET gpujoin.enabled = off; $count AND $filter"),
		"filter: $filter");
}
is(counter(sql("EXPLAIN (ANALYZE, FORMAT json) $count AND id < 1000 AND v > 5"),
	'Device Reductions'), 1, 'a filter that a device tests');

# Entries that lack a value of the filter are not reduced, but returned
sql(q{CREATE TABLE words (id int, k int, v int8, n numeric, t text, c char(3));
	INSERT INTO words SELECT i, i % 50, i % 7, CASE i % 10 WHEN 0 THEN 'NaN' WHEN 1 THEN 1e30
		WHEN 2 THEN 5.5 WHEN 3 THEN NULL ELSE (i % 10)::numeric(4, 2) END,
		CASE WHEN i % 8 = 0 THEN repeat('long', 5) WHEN i % 8 = 1 THEN ''
		ELSE left('abcdefghijkl', i % 13) END, left('abc', i % 4)
	FROM generate_series(1, 20000) i;
	CREATE INDEX words_k ON words USING gpujoin (k) INCLUDE (id, v, n, t, c)});
vacuum_until_visible($node, 'words');
sql(q{SELECT gpujoin_load('words_k')});
foreach my $filter ('n > 5', 'n < 5', 'n = 6', 'n <> 6', 'n = 5.5', 'n >= 1e29', 'n IS NULL',
	"n = 'NaN'", "t = ''", "t = 'abc'", "t = 'abcdefghij'", "t = repeat('long', 5)",
	'n > 4 AND n < 8', "t = 'abc' AND n > 5", "c = 'ab'", "c = 'ab'::text AND n <> 7",
	"n IS NOT NULL AND t = ''")
{
	my $query = 'SELECT v, count(*), sum(id) FROM words '
	  . "WHERE k = ANY (ARRAY(SELECT generate_series(0, 30))) AND $filter GROUP BY v";
	is(sql("$query ORDER BY v"), sql("SET gpujoin.enabled = off; $query ORDER BY v"),
		"filter: $filter");
	is(counter(sql("EXPLAIN (ANALYZE, FORMAT json) $query"), 'Device Reductions'), 1,
		'a device tests it');
}

# The planner charges less for rows that are reduced, and prefers that to a parallel plan
sub cost
{
	my ($settings, $columns, $by) = @_;
	my $costs = sql("SET gpujoin.force = off; SET gpujoin.min_rows = 0; SET enable_seqscan = off;
		SET parallel_setup_cost = 0; SET max_parallel_workers_per_gather = 2; $settings;
		EXPLAIN (FORMAT json) SELECT $columns FROM t WHERE k IN ("
		  . join(', ', 0 .. 60) . ") $by");

	unlike($costs, qr/Gather/, "no parallel plan with $settings: $columns")
	  if $settings =~ /= on/ && $by !~ /id/;
	return $costs =~ /"Total Cost": ([0-9.]+)/ ? $1 : 0;
}
foreach my $query ([ 'count(*), sum(id)', '' ], [ 'k, v, count(*)', 'GROUP BY k, v' ])
{
	cmp_ok(cost('SET gpujoin.device_aggregate = on', @$query), '<',
		cost('SET gpujoin.device_aggregate = off', @$query), "reduced rows cost less: $query->[0]");
}
is(cost('SET gpujoin.device_aggregate = on', 'id, v, count(*)', 'GROUP BY id, v'),
	cost('SET gpujoin.device_aggregate = off', 'id, v, count(*)', 'GROUP BY id, v'),
	'unless nearly each of them is a group');

# ---- beside writers --------------------------------------------------------------------------

# A tail is moved to a page that is pushed after V was read: the page is newer than V, left out and
# searched (R is not searched), or, if its rows have been found on the tail, they are not counted
# again (no bound; V is read after the tails)
foreach my $step ('reduce 1', 'reduce 2', 'reduce 4')
{
	make();
	foreach my $query ($count, $distinct, $weighed)
	{
		make() unless $query eq $count;
		during($step, "a tail is moved at $step", $query, $fill, $sync);
	}
}

# Rows are inserted into an all-visible block, and pushed (the map is copied before V is read)
make();
during('reduce 0', 'rows that the snapshot does not see', $count,
	$insert, $fill, $sync);
make();
during('reduce 4', 'rows inserted after the map was copied', $count,
	$insert, $fill, $sync);

# Rows are deleted, updated, and vacuumed away
make();
during('reduce 3', 'rows deleted meanwhile', $count,
	'DELETE FROM t WHERE id % 3 = 0', 'VACUUM (INDEX_CLEANUP on) t');
make();
during('reduce 3', 'rows updated meanwhile', $count,
	'UPDATE t SET k = 49 - k, v = 1 WHERE id % 3 = 0', $sync);

# Dead rows, which VACUUM removes before the map is copied (the epoch is not compared). They are too
# few for a fold.
make();
sql('DELETE FROM t WHERE id % 20 = 0');
$plan = during('reduce 3', 'dead rows are removed', $count, 'VACUUM (INDEX_CLEANUP on) t');
sql('DELETE FROM t WHERE id % 20 = 1');
during('reduce 5', 'dead rows are removed after the reply', $count, 'VACUUM (INDEX_CLEANUP on) t');

# A fold moves all entries to another run, which is pushed; other rows take the pages that it has
# freed (the list version is not compared)
foreach my $step ('reduce 2', 'reduce 4', 'reduce 5')
{
	make();
	during($step, "a fold at $step", $count, $fill, q{SELECT gpujoin_fold('t_k', true)}, $fill,
		$fill, $sync);
}

# Each command fails at a step, as if it had been cancelled there
sub fail_at
{
	my ($step, $command) = @_;
	my (undef, undef, $error) = $node->psql('postgres',
		"SET gpujoin.debug_step = '$step error'; $command");

	like($error, qr/failed at step "$step"/, "a command fails at $step");
	return;
}

# A fold has failed before its run was listed, and VACUUM before it raised the epoch, after more
# changes than the journal has room for: so another session compares all pages, and sends
# empty copies of those of the run, which are newer than V. The run has the same rows as the delta,
# which the device reduces (R is searched without lists). The page of L is newer, too.
make();
sql(q{INSERT INTO t SELECT i, 2000 + i % 340, i FROM generate_series(1, 340 * 352) i;
	REINDEX TABLE t;
	SELECT gpujoin_load('t_k');
	INSERT INTO t SELECT i, i % 50, i, repeat('z', 200) FROM generate_series(9001, 9800) i});
vacuum_until_visible($node, 't');
sql('DELETE FROM t WHERE k >= 2000 AND k % 2 = 0 AND id <= 340 * 10');
sql($sync);
my $failed = service($node, 'requests_failed');
$plan = during('reduce 4', 'pages of an unfinished fold are newer', $count,
	'INSERT INTO t SELECT i, 1000, i FROM generate_series(1, 300) i',
	sub { fail_at('written', q{SELECT gpujoin_fold('t_k')}) },
	sub { fail_at('cleaned', 'VACUUM (INDEX_CLEANUP on) t') },
	$sync);
is(service($node, 'requests_failed'), $failed, 'a page of L that is newer is no invalid answer');

# The mirror is dropped, loaded again, or the index is rebuilt in between
make();
foreach my $step ('reduce 0', 'reduce 2', 'reduce 4', 'reduce 5')
{
	during($step, "dropped at $step", $count, q{SELECT gpujoin_unload('t_k')});
	sql(q{SELECT gpujoin_load('t_k')});
	during($step, "loaded again at $step", $count, q{SELECT gpujoin_unload('t_k')},
		q{SELECT gpujoin_load('t_k')});
}

# ---- the device's process --------------------------------------------------------------------

# It is killed or frozen before and in the middle of a reduction, or the device fails. A frozen one
# is not waited for longer than device_timeout.
sub wait_replaced_at_rest
{
	my ($pid, $what) = @_;

	wait_replaced($node, $pid);
	watch_after($node, '1h');
	ok($node->poll_query_until('postgres',
			'SELECT slots_used + slots_abandoned = 0 FROM gpujoin_status()'),
		"$what: another process, and no slot is lost");
	sql(q{SELECT gpujoin_load('t_k')});
	is(counter(sql("EXPLAIN (ANALYZE, FORMAT json) $count"), 'Device Reductions'), 1,
		"$what: rows are reduced again");
	return;
}
foreach my $signal ('KILL', 'STOP')
{
	foreach my $step ('reduce 0', 'reduce 4', 'reduce 5')
	{
		my $pid = service($node, 'helper_pid');

		during($step, "$signal at $step", $count,
			sub { signal_helper($node, $signal); watch_after($node, '2s') if $signal eq 'STOP' });
		wait_replaced_at_rest($pid, "$signal at $step");
	}
}
foreach my $query ($count, $distinct)
{
	my $pid = service($node, 'helper_pid');
	my ($session, @answers);

	inject($node, 'begin', 'delay', 0, 1, 3600000);
	$session = begin("$query; SET gpujoin.enabled = off; $query;\n\\q\n");
	wait_for('SELECT slots_used > 0 FROM gpujoin_status()', 'a reduction is at work');
	signal_helper($node, 'STOP');
	watch_after($node, '2s');
	$session->{run}->finish;
	@answers = split /\n/, $session->{out};
	is($answers[0], $answers[1], "frozen at work: the answer of $query");
	is($session->{err}, '', 'without an error');
	wait_replaced_at_rest($pid, 'frozen at work');
}
foreach my $point ('keyset', 'begin', 'poll', 'next')
{
	inject($node, $point, 'no_memory', 0, 1);
	is(sql($count), sql("SET gpujoin.enabled = off; $count"), "a failure at $point");
	inject($node, $point, 'crash', 0, 1);
	is(sql($count), sql("SET gpujoin.enabled = off; $count"), "a crash at $point");
	wait_replaced($node, 0);
	sql(q{SELECT gpujoin_load('t_k')});
}

# ---- under load ------------------------------------------------------------------------------

sql(q{
	DROP TABLE t;
	CREATE TABLE t (id serial, k int, pad text);
	INSERT INTO t (k, pad) SELECT i % 500, repeat('x', 20) FROM generate_series(1, 50000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id) WITH (lanes = 2);
	VACUUM ANALYZE t});
sql(q{SELECT gpujoin_load('t_k')});

# A generic plan for an array of unknown length has more rows to be reduced than PostgreSQL expects
# for ten elements; if it cost more than a custom plan, each execution would be planned again.
my ($generic, $custom) = map {
	sql("SET gpujoin.force = off; SET gpujoin.min_rows = 0; SET enable_seqscan = off;
		SET gpujoin.debug_reduce_rows = 2000; SET plan_cache_mode = force_${_}_plan;
		PREPARE p(int[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY (\$1);
		EXPLAIN (FORMAT json) EXECUTE p('{" . join(',', 1 .. 50) . "}')") =~
	  /"Total Cost": ([0-9.]+)/
} 'generic', 'custom';
cmp_ok($generic, '<=', $custom * 1.01, 'the cost of a generic plan counts the reduction');

my $dir = $node->basedir;
my $bench = start_bench($node, 6, $ENV{CHECK_SHORT} ? 5 : 12,
	compare_script("$dir/compare", 4, 'count(*), sum(id), min(id), max(id), count(DISTINCT k)'),
	compare_script("$dir/compare2", 1000, 'count(*), sum(id), min(k)'),
	write_script("$dir/write"), vacuum_script("$dir/vacuum"));
finish_bench($bench, 'writers, VACUUM and folds', 'deadlock detected');
cmp_ok(sql(q{SELECT sum(device_answers) FROM pg_stat_gpujoin_indexes}), '>', 0,
	'the device has answered');

$node->stop;
done_testing();
