# Aggregates under adverse conditions: a standby, a device process that is killed repeatedly,
# cancelling and timing out in the middle of many groups, hardly any memory, and one session with
# thousands of executions and rescans, whose memory must not grow. It also tests cursors that move
# backwards, outlive their transaction, or read a temporary table that changes.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use MirrorTest;
use ServiceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('primary', { allows_streaming => 1 }, 'fsync = off', 'jit = off', PATIENT,
	"gpujoin.device = 'reference'", 'max_parallel_workers_per_gather = 0', 'gpujoin.force = on',
	'max_wal_size = 2GB');
wait_ready($node);
ask($node);

sql(q{
	CREATE TABLE t (id serial, k int, pad text) WITH (fillfactor = 70);
	INSERT INTO t (k, pad) SELECT i % 500, repeat('x', 20) FROM generate_series(1, 30000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id);
	CREATE TABLE many (k int, a int, b int, ok bool, c int8);
	INSERT INTO many SELECT i % 100, i, i % 1000, i % 3 = 0, i FROM generate_series(1, 120000) i;
	CREATE INDEX many_k ON many USING gpujoin (k) INCLUDE (a, b, ok, c);
	CREATE TABLE small AS SELECT i AS k, i % 3 AS g FROM generate_series(1, 60) i
		UNION ALL SELECT 7, 9});
sql('VACUUM (FREEZE, ANALYZE)');

# Groups by two columns, one group per row
my $keys = 'ARRAY(SELECT generate_series(0, 98))';
my $groups = "SELECT a, b, count(*) AS n, sum(c) AS s FROM many WHERE k = ANY ($keys) "
  . "GROUP BY a, b";
my @queries = (
	'SELECT k, count(*), sum(id), avg(id) FROM t WHERE k IN (1, 2, 3, 4) GROUP BY k',
	'SELECT count(*), sum(c), avg(c), bool_or(ok), count(DISTINCT b) FROM many WHERE k < 50 AND '
	  . 'k IN (1, 5, 9)',
	'SELECT s.g, count(*), count(DISTINCT b), sum(c) FROM small s JOIN many USING (k) GROUP BY s.g',
	'SELECT DISTINCT b, ok FROM many WHERE k IN (3, 4, 5)',
	'SELECT s.k, count(many.k), max(c) FROM small s LEFT JOIN many USING (k) GROUP BY s.k',
	'SELECT g, (SELECT count(*) FROM many WHERE k = ANY (ARRAY[g, g + 1])) AS n FROM small');

# ---- a standby --------------------------------------------------------------------------------

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
wait_ready($standby);
sql('DELETE FROM many WHERE a % 1000 = 1; UPDATE many SET c = c + 1 WHERE a % 1000 = 2;
	INSERT INTO many SELECT 3, -i, i, NULL, NULL FROM generate_series(1, 2000) i');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
foreach my $query (@queries)
{
	like($standby->safe_psql('postgres', "EXPLAIN $query"), qr/GpuAgg/, "on a standby: $query");
}
is_deeply([ differing($standby, @queries, $groups) ], [], 'and right');
vacuum_until_visible($node, 'many');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is_deeply([ differing($standby, @queries) ], [], 'and right after VACUUM');
$standby->stop;

# ---- stopped in the middle --------------------------------------------------------------------

my $little = "SET work_mem = '64kB'; SET hash_mem_multiplier = 1;";
my $endless = "$little SELECT count(*), sum(n) FROM generate_series(1, 10000) i, "
  . "LATERAL ($groups HAVING count(*) < i + 2 OFFSET 0) u";
like(sql("$little EXPLAIN (COSTS off) $groups"), qr/GpuAgg/, 'many groups are ours');
foreach my $action ('pg_cancel_backend', 'pg_terminate_backend', '')
{
	my ($out, $err) = ('', '');
	my $psql = IPC::Run::start(
		[ 'psql', '-qXAt', '-d', $node->connstr('postgres') . ' application_name=victim', '-c',
			"SET statement_timeout = '" . ($action ? 0 : '700ms') . "'; $endless; $endless" ],
		'<', \undef, '>', \$out, '2>', \$err, patience(180));

	if ($action)
	{
		wait_for_query($node, 'victim',
			"state = 'active' AND query_start < now() - interval '0.5 s'");
		sql("SELECT $action(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
	}
	$psql->finish;
	like($err, qr/canceling statement|terminating connection/, "ended: " . ($action || 'timeout'));
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_ls_tmpdir()'),
		'and left no file behind');
}

# With many passes, each group is returned exactly once.
is_deeply(
	[ differing($node, "SELECT * FROM ($groups) u OFFSET 0",
			"SELECT n, count(*) FROM ($groups) u GROUP BY n") ],
	[], 'many groups');
my $explained = sql("SET work_mem = '1MB'; SET hash_mem_multiplier = 1;
	EXPLAIN (ANALYZE, BUFFERS, TIMING off) $groups");
my $passes = $explained =~ /Passes: (\d+)/ ? $1 : 0;
cmp_ok($passes, '>', 7, "in $passes passes");
like($explained, qr/Disk Usage: \d{4} kB/, 'over the disk');
like($explained, qr/temp read=\d+ written=\d+/, 'which counts as temporary blocks');
like($explained, qr/Groups: (\d+)\n.*GpuScan[^\n]* rows=\1(?:\.00)? loops=1\)/s,
	'and the rows are read once');
is(sql("SET work_mem = '1MB'; SET hash_mem_multiplier = 1; SELECT count(*), sum(n), sum(s),
		count(DISTINCT a) FROM ($groups OFFSET 0) u"),
	sql("SET gpujoin.enabled = off; SELECT count(*), sum(n), sum(s), count(DISTINCT a)
		FROM ($groups OFFSET 0) u"), 'nothing is lost between passes, and nothing is there twice');

# ---- the device process is killed ---------------------------------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir;
my $columns = "count(*), sum(id), count(DISTINCT id % 7), (SELECT string_agg(concat_ws(':', k, n), "
  . "',' ORDER BY k) FROM (SELECT k, count(*) AS n FROM t WHERE k IN (:k, :k + 7, 499 - :k) "
  . "GROUP BY k) u)";
my @benches = (
	[ start_bench($node, 1, 8, write_script("$dir/write.sql")), 'writer' ],
	[ start_bench($node, 1, 8, vacuum_script("$dir/vacuum.sql")), 'vacuum' ],
	[ start_bench($node, 2, 8, compare_script("$dir/compare.sql", 0, $columns)), 'readers' ]);
my $kills = 0;
while ($benches[2]->[0]->{handle}->pumpable)
{
	$benches[2]->[0]->{handle}->pump_nb;
	my $pid = signal_helper($node, 'KILL');
	$kills++ if $pid;
	wait_replaced($node, $pid);
	select(undef, undef, undef, 0.3);
}
finish_bench(@$_) foreach @benches;
cmp_ok($kills, '>', 2, "killed $kills times under aggregates");
is_deeply([ differing($node, @queries) ], [], 'and right afterwards');

# ---- memory of a long session -----------------------------------------------------------------

# A temporary table has no mirror, which keeps each execution short.
my $few = q{
	SET client_min_messages = warning;
	CREATE TEMP TABLE few AS SELECT i AS id, i % 50 AS k, i % 7 AS a, i % 3 = 0 AS ok,
		i::int8 AS c FROM generate_series(1, 2000) i;
	CREATE INDEX ON few USING gpujoin (k) INCLUDE (id, a, ok, c);
	VACUUM (FREEZE, ANALYZE) few;
	CREATE FUNCTION pg_temp.used() RETURNS numeric LANGUAGE sql VOLATILE AS
		'SELECT sum(used_bytes) FROM pg_backend_memory_contexts';
	CREATE FUNCTION pg_temp.growth(n int) RETURNS numeric LANGUAGE plpgsql AS $$
	DECLARE
		x record;
		used numeric[];
	BEGIN
		FOR i IN 1 .. n LOOP
			SELECT count(*), max(u.n) INTO x FROM (SELECT a, ok, sum(c) AS n, avg(c),
				count(DISTINCT id) FROM few WHERE k = ANY (ARRAY[i % 50, i * 7 % 50])
				GROUP BY a, ok HAVING avg(c) > 1) u;
			IF i % (n / 4) = 0 THEN used := used || pg_temp.used(); END IF;
		END LOOP;
		RETURN used[4] - used[2];
	END $$;};

my %rescans = (
	'one group' => 'SELECT avg(c) + count(DISTINCT id) FROM few
		WHERE k = ANY (ARRAY[i % 50, i * 7 % 50])',
	'groups' => "SELECT sum(s) FROM (SELECT a, ok, avg(c) AS s FROM few WHERE k = i % 50
		GROUP BY a, ok HAVING avg(c) > 0) u",
	'of a join' => 'SELECT max(n) FROM (SELECT g, count(*) AS n, sum(c) FROM small s
		JOIN few USING (k) WHERE k = i % 50 GROUP BY g) u',
	'groups of groups' => 'SELECT count(*) FROM (SELECT DISTINCT n FROM (SELECT a, count(*) AS n
		FROM few WHERE k = ANY (ARRAY[i % 50, 7]) GROUP BY a) u) v',
	'spilled groups' => 'SELECT count(*) FROM (SELECT id, c, count(DISTINCT id + i) AS s FROM few
		WHERE k = ANY (ARRAY(SELECT generate_series(0, 30))) GROUP BY id, c LIMIT 1100) u',
	'the same groups' => 'SELECT sum(s) FROM (SELECT a, avg(c) AS s FROM few WHERE k = 7 GROUP BY a
		HAVING avg(c) > i % 10) u');
foreach my $what (sort keys %rescans)
{
	# (the first call of used() makes a plan that is kept)
	my $growth = sql("$few SET work_mem = '64kB';
		SELECT max(u) - min(u) FROM (SELECT i, ($rescans{$what}) AS s,
		CASE WHEN i IN (10, 1000, 4000) THEN pg_temp.used() END AS u
		FROM generate_series(1, 4000) i OFFSET 0) v WHERE i > 10");
	cmp_ok($growth, '<', 20000, "memory stays over rescans: $what");
}
foreach my $case ([ 'force_generic_plan', 20000 ], [ 'force_custom_plan', 4000 ])
{
	my ($mode, $n) = @$case;
	my $growth = sql("$few SET plan_cache_mode = $mode; SELECT pg_temp.growth($n)");
	cmp_ok($growth, '<', 20000, "memory stays over executions: $mode");
}

# ---- cursors and temporary tables ---------------------------------------------------------------

is(sql(q{
	CREATE TEMP TABLE tt AS SELECT i % 10 AS k, i AS v FROM generate_series(1, 5000) i;
	CREATE INDEX ON tt USING gpujoin (k) INCLUDE (v);
	BEGIN;
	DECLARE c SCROLL CURSOR WITH HOLD FOR
		SELECT k, count(*), sum(v) FROM tt WHERE k IN (1, 2) GROUP BY k ORDER BY k;
	FETCH 1 FROM c;
	DELETE FROM tt WHERE v > 2000;
	FETCH 1 FROM c;
	COMMIT;
	FETCH BACKWARD 1 FROM c;
	SELECT k, count(*), sum(v) FROM tt WHERE k IN (1, 2) GROUP BY k ORDER BY k;
	VACUUM tt;
	SELECT k, count(*), sum(v) FROM tt WHERE k IN (1, 2) GROUP BY k ORDER BY k;
	WITH u AS MATERIALIZED (SELECT k, count(*) AS n FROM tt WHERE k IN (1, 2) GROUP BY k)
	SELECT a.n, b.k FROM u a JOIN u b ON a.k = b.k ORDER BY 2;
}), "1|500|1248000\n2|500|1248500\n1|500|1248000\n1|200|199200\n2|200|199400\n1|200|199200\n"
	  . "2|200|199400\n200|1\n200|2", 'cursors over a temporary table');

log_is_clean($node, 'log has no sign of crash or leak');
done_testing();
