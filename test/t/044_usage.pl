# Usage counters of indexes: with a device, with parallel workers, while many sessions search and
# others drop the indexes, with a full table, and when the device process or the server crashes. The
# server's counters always equal the sum. Also the progress of folds and loads, and who may see it.

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
	"gpujoin.result_buffer = '16MB'", 'gpujoin.auto_load = off', 'gpujoin.force = on',
	'max_connections = 40');
wait_ready($node);
ask($node);
sql(FILL . q{
	SELECT fill('a', 50000), fill('b', 20000);
	CREATE VIEW counted AS SELECT coalesce(indexrelname, 'others') AS index, searches AS n,
		device_answers AS device, cpu_answers AS cpu, cpu_reasons AS why, keys, tids,
		heap_fetches AS fetches, groups, search_time, wait_time, device_time
	FROM pg_stat_gpujoin_indexes});

sub counted
{
	my ($index, $columns) = @_;
	return sql("SELECT $columns FROM counted WHERE index = '$index'");
}

sub sum_is_right
{
	my $what = shift;
	is(sql(q{SELECT sum(s.device_answers) = min(g.device_answers),
			sum(s.cpu_answers) = min(g.cpu_answers)
			FROM pg_stat_gpujoin_indexes s, pg_stat_gpujoin g}), 't|t', "$what: the sum is right");
	is(sql(q{SELECT sum(cpu_answers) = sum(r.n) AND count(*) FILTER (WHERE cpu_answers <> r.n) = 0
			FROM pg_stat_gpujoin_indexes,
		LATERAL (SELECT coalesce(sum(value::int), 0) AS n FROM jsonb_each_text(cpu_reasons)) r}),
		't', "$what: reasons, too");
	return;
}

# ---- the device or the CPU answers, and the reason ------------------------------------------

my $query = 'SELECT sum(id) FROM a WHERE k IN (1, 2, 3)';

sql('SELECT gpujoin_stats_reset()');
sql($query);
is(counted('a_k', 'n, device, cpu, why, keys, tids, fetches, groups, wait_time, device_time'),
	'1|0|1|{"no_mirror": 1}|3|150|150|1|0|0', 'the CPU');
sql(q{SELECT gpujoin_load('a_k')});
sql($query);
is(counted('a_k', 'n, device, cpu, why, keys, tids, fetches, groups'),
	'2|1|1|{"no_mirror": 1}|6|300|300|2', 'the device');
is(counted('a_k', 'search_time >= wait_time, wait_time >= device_time, device_time > 0'),
	't|t|t', 'a time is part of another');
is(sql('SELECT device_answers, cpu_answers FROM pg_stat_gpujoin'), '1|1', 'the server\'s');
sum_is_right('one session');

# ---- parallel workers ------------------------------------------------------------------------

sql(q{ALTER TABLE a SET (parallel_workers = 3)});
my $parallel = q{SET gpujoin.aggregate = off; SET parallel_setup_cost = 0;
	SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	SET parallel_leader_participation = off; };
my $many = "SELECT sum(id) FROM a WHERE k = ANY ('{" . join(',', 0 .. 999) . "}')";

sql(q{SELECT gpujoin_stats_reset('a_k')});
like(sql("$parallel EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $many"),
	qr/Workers Launched: [1-9].*Parallel Custom Scan/s, 'workers scan');
is(counted('a_k', 'n, keys, tids, fetches'), '1|1000|50000|50000',
	'what several workers have done is counted once');
sql(q{SELECT gpujoin_stats_reset('a_k'); SELECT gpujoin_unload('a_k')});
sql("$parallel $many");
is(counted('a_k', 'n, cpu, keys, tids, fetches'), '1|1|1000|50000|50000',
	'without a device as well');
sum_is_right('parallel plans');

# ---- many sessions, while indexes are made and dropped ---------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir;
append_to_file("$dir/search.sql", "\\set k random(0, 999)\n"
	  . "SELECT sum(id) FROM a WHERE k IN (:k, :k + 1);\n"
	  . "SELECT count(*) FROM b WHERE k IN (:k, :k + 1);\n");
append_to_file("$dir/drop.sql", q{
\set n :client_id
CREATE TABLE passing:n AS SELECT i AS k FROM generate_series(1, 1000) i;
CREATE INDEX ON passing:n USING gpujoin (k);
SELECT count(*) FROM passing:n WHERE k IN (1, 2, 3);
DROP TABLE passing:n;
});
append_to_file("$dir/look.sql", "SELECT count(*) FROM pg_stat_gpujoin_indexes;\n"
	  . "SELECT gpujoin_stats_reset('b_k');\nSELECT * FROM gpujoin_progress;\n\\sleep 5 ms\n");
sql('SELECT gpujoin_stats_reset()');

my ($in, $out, $err) = ('', '', '');
my @run = map { [ 'pgbench', '-n', '-c', $_->[0], '-t', $_->[1], '-f', "$dir/$_->[2].sql",
	'-h', $node->host, '-p', $node->port, 'postgres' ] }
	([ 8, 100, 'search' ], [ 3, 20, 'drop' ], [ 1, 50, 'look' ]);
my @running = map { IPC::Run::start($_, \$in, '>', \$out, '2>', \$err) } @run;
$_->finish foreach @running;
unlike($err, qr/ERROR|aborted/, 'nobody meets an error') or diag($err);
is(counted('a_k', 'n, cpu'), '800|800', 'no search is lost');
is(sql('SELECT sum(n) FROM counted'), 800 + 800 + 60, 'of dropped indexes neither');
is(sql(q{SELECT string_agg(index, ' ' ORDER BY index) FROM counted}), 'a_k b_k others',
	'these are not listed any more');
is(sql(q{SELECT sum(cpu_answers) FROM gpujoin_index_stats()
		WHERE index <> ALL (SELECT oid FROM pg_class)}), '', 'nor kept');
sum_is_right('many sessions');

# A dropped database
sql('CREATE DATABASE passing');
$node->safe_psql('passing', 'CREATE EXTENSION gpujoin;' . FILL . q{SELECT fill('c', 1000);});
$node->safe_psql('passing', 'SELECT count(*) FROM c WHERE k IN (1, 2, 3)');
is(sql(q{SELECT sum(searches) FROM pg_stat_gpujoin_indexes WHERE datname = 'passing'}), 1,
	'indexes of other databases are listed');
sql('DROP DATABASE passing');
is(sql(q{SELECT count(*) FROM gpujoin_index_stats() WHERE database NOT IN
		(SELECT oid FROM pg_database)}), 0, 'until the database is dropped');
sum_is_right('a dropped database');

# ---- a full table ----------------------------------------------------------------------------

sql('SELECT gpujoin_stats_reset()');
sql('SELECT gpujoin_count_uses(3000000000::oid, 4096)');
is(sql('SELECT indexes_evicted FROM pg_stat_gpujoin'), 0, 'the table has room for 4096');
# Room is made when a scan begins, not when it ends, because its end may be part of an abort.
sql('SELECT gpujoin_count_uses(3050000000::oid, 10, false)');
is(sql('SELECT indexes_evicted FROM pg_stat_gpujoin'), 0, 'at its end a scan makes no room,');
is(sql('SELECT cpu_answers FROM pg_stat_gpujoin'), 4106, 'but is counted');
sql('SELECT gpujoin_count_uses(3100000000::oid, 6000)');
sql($query);
is(counted('a_k', 'n'), 1, 'full, it has room for those that are searched');
cmp_ok(sql('SELECT indexes_evicted FROM pg_stat_gpujoin'), '>=', 6001, 'others are given up,');
is(sql('SELECT cpu_answers FROM pg_stat_gpujoin'), 10107, 'but not what was counted');
sql($query);
is(counted('a_k', 'n'), 2, 'those that are in use stay');
sql('SELECT gpujoin_stats_reset()');
is(sql('SELECT sum(cpu_answers) FROM gpujoin_index_stats()'), 0, 'and all is new');

# ---- the device process dies -----------------------------------------------------------------

sql(q{SELECT gpujoin_load('a_k')});
is(sql('SELECT state, last_error IS NULL, memory_total > 0, memory_used > 0 FROM gpujoin_devices'),
	'ready|t|t|t', 'a device');
sql($query);
inject($node, 'begin', 'crash', 0, 1);
sql($query);
is(counted('a_k', 'device, cpu, why'), '1|1|{"failed": 1}', 'it dies: one answer is not its own');
ok($node->poll_query_until('postgres', q{SELECT last_error = 'the device process crashed'
		AND last_error_at > now() - interval '1 hour' FROM gpujoin_devices}), 'it is said why')
  or diag(sql('SELECT * FROM gpujoin_devices'));
restart_now($node);
is(sql('SELECT state, reason IS NULL, last_error IS NULL FROM gpujoin_devices'), 'ready|t|f',
	'even when it is back');
sql($query);
is(counted('a_k', 'device + cpu'), 3, 'what was counted is still there');
sum_is_right('after a crash of the device process');

# ---- progress --------------------------------------------------------------------------------

sql(q{CREATE ROLE plain LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
	INSERT INTO b SELECT i, i % 1000 FROM generate_series(1, 30000) i});

# A mirror may be loaded meanwhile, by a process of its own.
sub progress_of
{
	my ($user, $pid, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM gpujoin_progress WHERE pid = $pid",
		extra_params => [ '-U', $user ]);
}

my $holder = $node->background_psql('postgres', on_error_stop => 0);
$holder->query_safe('SELECT pg_advisory_lock(1313)');
my $folder = IPC::Run::start([ 'psql', '-XAtq', '-d',
		$node->connstr('postgres') . ' application_name=folder',
		'-c', "SET gpujoin.debug_step = 'writing wait'", '-c', "SELECT gpujoin_fold('b_k', true)" ],
	\$in, '>', \$out, '2>', \$err);
ok(wait_for_query($node, 'folder', "wait_event_type = 'Lock'"), 'a fold waits');
my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE application_name = 'folder'});
my $what = q{indexrelname, command, phase, done > 0 AND done <= total, total >= 30000, unit};
is(progress_of('watcher', $pid, $what), 'b_k|fold|writing run|t|t|entries', 'so far it is');
is(progress_of('plain', $pid, 'datname, indexrelid, command, phase, done, total, unit'),
	'postgres||||||', 'others see that something is done');
sql("SELECT pg_cancel_backend($pid)");
$folder->finish;
is(sql("SELECT count(*) FROM gpujoin_progress WHERE pid = $pid"), 0, 'cancelled, it is over');
$holder->quit;

sql(q{SELECT gpujoin_unload('a_k')});
inject($node, 'write', 'delay', 0, 0, 1000);
my $loader = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'),
		'-c', "SELECT gpujoin_load('a_k')" ], \$in, '>', \$out, '2>', \$err);
wait_for(q{SELECT count(*) = 1 FROM gpujoin_progress WHERE indexrelname = 'a_k'
		AND command = 'load' AND phase = 'pushing pages' AND total > 0 AND done <= total
		AND unit = 'pages'}, 'a load is under way');
inject($node, 'write', 'none', 0, 0);
$loader->finish;
is(sql('SELECT count(*) FROM gpujoin_progress'), 0, 'loaded, it is over');

# ---- the server crashes ----------------------------------------------------------------------

$node->stop('immediate');
$node->start;
is(sql('SELECT sum(searches) FROM pg_stat_gpujoin_indexes'), 0, 'nothing survives the server');
is(sql('SELECT stats_reset > now() - interval \'1 hour\' FROM pg_stat_gpujoin'), 't',
	'which says so');
log_is_clean($node, 'the log is clean');
$node->stop;
done_testing();
