# Cancelling, timing out and terminating at each stage of our work leaves nothing behind: a build,
# the search, the collection of a big small side, the fetch, insertions, VACUUM. Sets and small
# sides that are too big for memory or temp_file_limit either work or fail with a proper error.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes;

my $node = new_server('main', 'fsync = off', 'jit = off', 'max_wal_size = 2GB',
	'log_statement = none', 'max_parallel_workers_per_gather = 0');

$node->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 100000, i % 7 FROM generate_series(1, 400000) i;
	CREATE INDEX big_k ON big USING gpujoin (k);
	CREATE TABLE thousand AS SELECT i FROM generate_series(0, 999) i;
	CREATE FUNCTION slow(int) RETURNS boolean LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(0.02); RETURN true; END';
	CREATE TABLE filled (k int);
	CREATE INDEX filled_k ON filled USING gpujoin (k);
});
my $sound = q{SELECT count(*), sum(id) FROM big WHERE k = ANY (ARRAY[1, 2, 99999])};
my $answer = $node->safe_psql('postgres', "SET gpujoin.enabled = off; $sound");
my $offset = -s $node->logfile;

# This small side never ends.
my $endless = 'SELECT a.i * 1000000000::bigint + b.i * 1000000 + c.i * 1000 + d.i AS k
	FROM thousand a, thousand b, thousand c, thousand d';
# stage => [SQL, condition that shows that its session has reached the stage]
my %stages = (
	'array of a query' => [ "SELECT count(*) FROM big WHERE k = ANY (ARRAY($endless))" ],
	'collection' => [ "SELECT count(*) FROM ($endless) s JOIN big b USING (k)" ],
	'collection that spills' =>
	  [ "SET work_mem = '64kB'; SELECT count(*) FROM ($endless) s JOIN big b USING (k)" ],
	'fetch of a scan' => [
		'SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000)))
		AND slow(v)',
		"wait_event = 'PgSleep'" ],
	'fetch of a join' => [
		'SELECT count(*) FROM generate_series(1, 5000) s JOIN big b ON b.k = s AND slow(b.v + s)',
		"wait_event = 'PgSleep'" ],
	'batches' => [ "SET work_mem = '64kB'; SELECT count(*) FROM thousand a, thousand b JOIN big
		ON big.k = b.i WHERE slow(a.i)", "wait_event = 'PgSleep'" ],
	'fetch under a cursor' => [
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big WHERE k = ANY (ARRAY[1, 2, 3]);
		FETCH 2 FROM c; SELECT pg_sleep(60)', "wait_event = 'PgSleep'" ],
	'insertion' => [ 'INSERT INTO filled SELECT a.i FROM thousand a, thousand b, thousand c' ],
	'build' => [
		'CREATE INDEX too_slow ON big USING gpujoin (k) WHERE slow_for(id)',
		"wait_event = 'PgSleep'" ],
	'build concurrently' => [
		'CREATE INDEX CONCURRENTLY too_slow ON big USING gpujoin (k) WHERE slow_for(id)',
		"wait_event = 'PgSleep'" ],
	# from PostgreSQL 19 on, queries have marked the pages that VACUUM would skip
	'VACUUM' => [ 'SET vacuum_cost_delay = 50; SET vacuum_cost_limit = 20;
		VACUUM (DISABLE_PAGE_SKIPPING) big',
		"wait_event = 'VacuumDelay'" ]);

# declared immutable only so that an index predicate may use it
$node->safe_psql('postgres', q{CREATE FUNCTION slow_for(int) RETURNS boolean IMMUTABLE
	LANGUAGE plpgsql AS
	'BEGIN IF $1 > 100000 THEN PERFORM pg_sleep(0.02); END IF; RETURN true; END'});

# Start SQL in its own session, disturb it, return its messages.
sub disturbed
{
	my ($stage, $settings, $action) = @_;

	# a failed CREATE INDEX CONCURRENTLY leaves an invalid index, in stock PostgreSQL as well
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS too_slow');
	my ($sql, $condition) = @{ $stages{$stage} };
	my ($out, $err) = ('', '');
	my @statements = split(/;\s+(?=[A-Z])/, "$settings; $sql");
	my $psql = IPC::Run::start(
		[ 'psql', '-qXAt', '-v', 'VERBOSITY=verbose', '-v', 'ON_ERROR_STOP=1',
			'-d', $node->connstr('postgres') . ' application_name=victim',
			map { ('-c', $_) } @statements ],
		'<', \undef, '>', \$out, '2>', \$err, patience(180));

	if ($action)
	{
		wait_for_query($node, 'victim', "state = 'active' AND " . ($condition
				// "query_start < now() - interval '0.3 s'"));
		$node->safe_psql('postgres', "SELECT $action(pid) FROM pg_stat_activity
			WHERE application_name = 'victim'");
	}
	eval { $psql->finish; };
	if ($@)
	{
		$psql->kill_kill;
		return "no end: $@";
	}
	return $err;
}

sub nothing_left
{
	my $name = shift;

	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'victim'");
	# a mirror loader may still hold a lock for a moment
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks
			WHERE relation IN ('big'::regclass, 'big_k'::regclass, 'filled_k'::regclass)}),
		"$name: no lock is left");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), '0',
		"$name: no temporary file is left");
}

my $force = 'SET gpujoin.force = on';
my ($status, $out, $err);

foreach my $stage (sort keys %stages)
{
	my $plain = $stages{$stage}[0];

	if ($plain =~ /JOIN|ANY/ && $plain !~ /DECLARE/)
	{
		my ($query) = $plain =~ /(SELECT count.*)/s;
		ok(uses_node($node, $plain =~ /JOIN/ ? 'GpuJoin' : 'GpuScan', $query), "$stage: is ours");
	}
	like(disturbed($stage, $force, 'pg_cancel_backend'),
		qr/ERROR:  57014: canceling statement due to user/, "$stage: can be cancelled");
	like(disturbed($stage, "$force; SET statement_timeout = '400ms'"),
		qr/57014: .* statement timeout/, "$stage: can time out");
	like(disturbed($stage, $force, 'pg_terminate_backend'), qr/57P01|server closed the connection/,
		"$stage: can be terminated");
	nothing_left($stage);
	is($node->safe_psql('postgres', "$force; $sound"), $answer, "$stage: answers are still right");
}
is($node->safe_psql('postgres',
		"SELECT gpujoin_check('big_k', true), gpujoin_check('filled_k', true) > 0"),
	'400000|t', 'the indexes are sound');
is($node->safe_psql('postgres',
		"VACUUM (FREEZE, INDEX_CLEANUP ON) filled; SELECT gpujoin_check('filled_k', true)"),
	'0', 'what the cancelled insertions left goes with VACUUM');

# Try timeouts of all lengths, to hit the stages in between. The entries of the last table are in a
# delta, and with the lower memory its hits go to a temporary file, unless a device has them.
$node->safe_psql('postgres', q{
	SET gpujoin.auto_load = off;
	CREATE TABLE young (id int, k int);
	CREATE INDEX young_k ON young USING gpujoin (k) INCLUDE (id) WITH (fold_pages = 0);
	INSERT INTO young SELECT i, i % 100000 FROM generate_series(1, 400000) i;
	VACUUM (ANALYZE, INDEX_CLEANUP OFF) young});
my ($cancelled, $finished, @wrong) = (0, 0);
my $queries = [
	'SELECT count(*), sum(id) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 60000, 3)))',
	'SELECT count(*), sum(id) FROM generate_series(0, 60000, 3) s JOIN big b ON b.k = s',
	'SELECT count(*), sum(id) FROM young WHERE k = ANY (ARRAY(SELECT generate_series(0, 60000, 3)))'
];
like($node->safe_psql('postgres', "$force; SET work_mem = '64kB'; SET gpujoin.auto_load = off;
		EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) $queries->[2]"),
	qr/Buffers:.* temp read=\d+ written=\d+\n.*Index Only: true.*Delta Pages: /s,
	'hits of a delta go to a file');
foreach my $query (@$queries)
{
	my $stock = $query =~ s/ = ANY \(ARRAY(\(.*\))\)/ IN $1/r;
	my $right = $node->safe_psql('postgres', "SET gpujoin.enabled = off; $stock");

	foreach my $timeout ((grep { $_ % 3 == 1 || $ENV{CHECK_LONG} } 1 .. 25),
		30, 35, 40, 50, 60, 80, 100, 60000)
	{
		foreach my $work_mem ('64kB', '4MB')
		{
			my ($status, $out, $err) = $node->psql('postgres',
				"$force; SET work_mem = '$work_mem'; SET statement_timeout = $timeout; $query;
				RESET statement_timeout; SELECT 'alive'");
			# If the timeout fires between the last check for interrupts and the end of the
			# statement, PostgreSQL no longer knows the reason, and reports a user's request.
			if ($err =~ /canceling statement due to (statement timeout|user request)/)
			{
				$cancelled++;
			}
			elsif ($out eq "$right\nalive") { $finished++; }
			else { push @wrong, "$query: $out $err"; }
		}
	}
}
is("@wrong", '', 'timeouts: cancelled or right');
nothing_left('timeouts');
cmp_ok($cancelled, '>', 10, 'timeouts: some were cancelled');
cmp_ok($finished, '>', 3, 'timeouts: some came to their end');
note("$cancelled cancelled, $finished finished");

# One chunk of entries, or one heap block, yields very many pairs if many small rows have the same
# key. Cancel an aggregate of them in between; if it is not cancelled, one of the last pairs raises
# an error.
$node->safe_psql('postgres', q{
	CREATE TABLE twins (k int, v int, w int);
	INSERT INTO twins SELECT 1, i, i FROM generate_series(1, 150) i;
	CREATE INDEX twins_k ON twins USING gpujoin (k) INCLUDE (v);
	CREATE TABLE many AS SELECT 1 AS k, i FROM generate_series(1, 500000) i;
	ANALYZE many});
vacuum_until_visible($node, 'twins');
foreach ([ 'pairs of entries', 'v', 1 ], [ 'pairs of tuples', 'w', 0 ])
{
	my ($name, $column, $is_index_only) = @$_;
	my $settings = "$force; SET work_mem = '256MB'";
	my $query = "SELECT count(*), sum(10 / (abs($column - %d) + abs(i - %d)))
		FROM many JOIN twins USING (k)";
	my $plan = $node->safe_psql('postgres',
		"$settings; EXPLAIN (COSTS OFF) " . sprintf($query, 150, 3000));

	like($plan, qr/GpuAgg.*GpuJoin/s, "$name: is ours");
	is($plan =~ /Index Only: true/ ? 1 : 0, $is_index_only, "$name: by that way");
	($status, $out, $err) = $node->psql('postgres',
		"$settings; SET statement_timeout = '300ms'; " . sprintf($query, 150, 3000));
	like($err, qr/statement timeout/, "$name: can time out");
	($status, $out, $err) = $node->psql('postgres', "$settings; " . sprintf($query, 1, 500000));
	like($err, qr/division by zero/, "$name: the first one raises it");
}

# A row that stands for many pairs is added as often, if the sum is one of floats: an order of
# additions that changes nothing would change the last digits. All rows are one batch, and its last
# row overflows: unless the statement is cancelled within the batch, it ends with that error. The
# timeout is long enough to collect the pairs, and far too short to add them.
$node->safe_psql('postgres', q{
	CREATE TABLE floats (k int, f float8, g float4, h float8);
	INSERT INTO floats SELECT 1, 1, 1, CASE WHEN i = 1000 THEN 1e308 ELSE 1 END
		FROM generate_series(1, 1000) i;
	CREATE INDEX floats_k ON floats USING gpujoin (k) INCLUDE (f, g, h);
	CREATE TABLE weights AS SELECT 1 AS k FROM generate_series(1, 900000);
	ANALYZE weights});
vacuum_until_visible($node, 'floats');
foreach my $sums ('sum(f), sum(f + 1), sum(f + 2), sum(f + 3), sum(f + 4), sum(h)',
	'avg(f), avg(g), avg(h)', 'avg(g) FILTER (WHERE f > 0), avg(h) FILTER (WHERE f > 0)')
{
	my $settings = "$force; SET work_mem = '256MB'";
	my $pairs = 'FROM weights JOIN floats USING (k)';
	my $start = [ Time::HiRes::gettimeofday() ];

	like($node->safe_psql('postgres', "$settings; EXPLAIN (COSTS OFF) SELECT $sums $pairs"),
		qr/GpuAgg.*GpuJoin.*Index Only: true/s, "$sums: is ours");
	is($node->safe_psql('postgres', "$settings; SELECT count(*) $pairs"), '900000000', 'all pairs');
	my $timeout = int(1000 * Time::HiRes::tv_interval($start)) + 100;
	($status, $out, $err) = $node->psql('postgres',
		"$settings; SET statement_timeout = $timeout; SELECT $sums $pairs");
	like($err, qr/canceling statement due to (statement timeout|user request)/,
		"$sums: is cancelled within a batch");
}

# Within one transaction: the session still works after a subtransaction is cancelled.
is($node->safe_psql('postgres', qq{$force;
	BEGIN;
	DECLARE c CURSOR FOR SELECT id FROM big WHERE k = ANY (ARRAY[1, 2, 3]) ORDER BY id;
	DO \$\$
	BEGIN
		FOR n IN 1..10 LOOP
			BEGIN
				PERFORM sum(x) FROM (SELECT 1 / (a.i - 50 * n) AS x, a.i AS k FROM thousand a) s
				JOIN big b USING (k);
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
		END LOOP;
	END \$\$;
	FETCH 2 FROM c; CLOSE c; $sound; COMMIT}), "1\n2\n$answer", 'errors in subtransactions');

# Limits.
($status, $out, $err) = $node->psql('postgres', "$force; SET work_mem = '64kB';
	SET temp_file_limit = '1MB'; \\set VERBOSITY verbose
	SELECT count(*) FROM (SELECT a.i * 1000 + b.i AS k FROM thousand a, thousand b) s
	JOIN big USING (k)", on_error_stop => 1);
like($err, qr/53400: temporary file size exceeds/, 'temp_file_limit');
nothing_left('temp_file_limit');
is($node->safe_psql('postgres', "$force; SET work_mem = '64kB'; SELECT count(*), sum(id) FROM
	(SELECT a.i * 1000 + b.i AS k FROM thousand a, thousand b) s JOIN big USING (k)"),
	$node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM big WHERE k < 1000000'),
	'a small side of a million rows in little memory');
nothing_left('million rows');

# Five million elements, as a query's result and as a literal.
my $all = $node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM big');
is($node->safe_psql('postgres', "$force; SELECT count(*), sum(id) FROM big
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 4999999)))"), $all, 'array of five million');
is($node->safe_psql('postgres', qq{$force; SET work_mem = '64kB';
	SELECT format('SELECT count(*), sum(id) FROM big WHERE k = ANY (%L::int[])',
		array_agg(i)::text) FROM generate_series(-2500000, 2499999) i \\gexec}), $all,
	'literal of five million');
is($node->safe_psql('postgres', "$force; SELECT count(*), sum(id) FROM big
	WHERE k = ANY (array_fill(77, ARRAY[3000000]))"),
	$node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM big WHERE k = 77'),
	'three million times the same');

log_is_clean($node, 'log has no sign of a leak', $offset);
unlike(slurp_file($node->logfile, $offset), qr/WARNING/, 'nor any warning');

done_testing();
