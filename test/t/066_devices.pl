# Two devices, imitated by two processes: where mirrors are loaded, copies of mirrors whose requests
# wait, and what is evicted. Each device is lost, killed, frozen and out of memory while the other
# answers; then both are, and come back. No answer is wrong, and none waits for a device that does
# not answer.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use MirrorTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'", 'gpujoin.gpu = all',
	"gpujoin.result_buffer = '16MB'", "gpujoin.device_memory = '256MB'", PATIENT,
	'gpujoin.auto_load = off', 'gpujoin.min_rows = 0', 'max_worker_processes = 20',
	'max_parallel_workers_per_gather = 0', 'max_connections = 40');
ask($node);

# Return a column of pg_stat_gpujoin for a device
sub stat_of
{
	my ($device, $column) = @_;
	return sql("SELECT $column FROM pg_stat_gpujoin WHERE device_number = $device");
}

# Return the devices that have an index, and the states of its mirrors there
sub places
{
	my $index = shift;
	return sql("SELECT string_agg(device || ' ' || state, ', ' ORDER BY device)
		FROM pg_stat_gpujoin_mirrors WHERE indexrelname = '$index'");
}

sub wait_for_both
{
	my $what = shift;
	wait_for("SELECT count(*) = 2 FROM pg_stat_gpujoin WHERE state = 'ready'", $what);
	return;
}

# Skip the delays before the next start
sub come_back
{
	my $what = shift;
	for (1 .. 1000)
	{
		last if sql("SELECT count(*) FROM pg_stat_gpujoin WHERE state = 'ready'") == 2;
		$node->reload;
		select(undef, undef, undef, 0.05);
	}
	wait_for_both($what);
	return;
}

# Search tables, some of them by reductions
my @queries = map {
	("SELECT count(*), sum(id) FROM $_ WHERE k IN (1, 5, 999)",
		"SELECT k, count(*) FROM $_ WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 3)))
			GROUP BY k",
		"SELECT * FROM $_ WHERE k IN (7, 8)")
} qw(t0 t1 t2 t3);

sub all_right
{
	my $what = shift;
	is(join("\n", differing($node, @queries)), '', "$what: all answers are right");
	return;
}

# Return what EXPLAIN says about the device of a search in a table
sub device_in
{
	my ($table, $kind) = @_;
	my $plan = sql("SET gpujoin.force = on; EXPLAIN (ANALYZE, COSTS off, TIMING off, VERBOSE)
		SELECT * FROM $table WHERE k IN (1, 2)");
	return $plan =~ /Device$kind: (.*)/ ? $1 : '';
}

# ---- what there is --------------------------------------------------------------------------

wait_for_both('both devices are ready');
is(sql('SELECT string_agg(uuid, $$ $$ ORDER BY device_number) FROM pg_stat_gpujoin'),
	'reference reference-1', 'they are two');
is(sql('SELECT count(device_answers), count(stats_reset) FROM pg_stat_gpujoin'), '1|1',
	'what is counted for all of them is in one row');
is(sql('SELECT count(*), count(DISTINCT helper_pid) FROM gpujoin_devices'), '2|2',
	'each has a process');
is(run_service($node, "50, nkeys => 1000, requests => 3, device => $_"),
	'ok 3, fallbacks 0, wrong 0, loads 1', "device $_ answers") foreach 0, 1;

# ---- where mirrors are ----------------------------------------------------------------------

sql(FILL . "SELECT fill('t' || i, 30000) FROM generate_series(0, 3) i;
	DROP INDEX t0_k, t1_k, t2_k, t3_k;
	CREATE INDEX t0_k ON t0 USING gpujoin (k) INCLUDE (id);
	CREATE INDEX t1_k ON t1 USING gpujoin (k) INCLUDE (id);
	CREATE INDEX t2_k ON t2 USING gpujoin (k) INCLUDE (id);
	CREATE INDEX t3_k ON t3 USING gpujoin (k) INCLUDE (id);");
vacuum_until_visible($node, $_) foreach qw(t0 t1 t2 t3);
sql("ANALYZE; SELECT gpujoin_load('t0_k'); SELECT gpujoin_load('t1_k');
	SELECT gpujoin_load('t2_k'); SELECT gpujoin_load('t3_k')");
is(join(' ', map { places("t${_}_k") } 0 .. 3), '0 ready 1 ready 0 ready 1 ready',
	'each is loaded where most memory is left');
is(sql("SELECT string_agg(mirrors::text, ' ') FROM pg_stat_gpujoin"), '2 2', 'counted by device');
is(device_in('t0', ''), 'reference (0)', 'EXPLAIN names the device');
is(device_in('t1', ''), 'reference (1)', 'and the other one');
all_right('both devices');

like(($node->psql('postgres', "SELECT gpujoin_load('t0_k', 2)"))[2],
	qr/there is no device 2.*numbered from 0/s, 'there is no third device');
sql("SELECT gpujoin_load('t0_k', 1)");
is(places('t0_k'), '0 ready, 1 ready', 'a mirror is loaded on both');
is(sql("SELECT gpujoin_load('t0_k') > 0"), 't', 'it is loaded');
is(places('t0_k'), '0 ready, 1 ready', 'so that nothing happens');
is(sql("SELECT gpujoin_unload('t0_k', 0)"), 't', 'and unloaded from one');
is(places('t0_k'), '1 ready', 'from that one only');
is(sql("SELECT gpujoin_unload('t0_k', 0)"), 'f', 'where it is not any more');
is(device_in('t0', ''), 'reference (1)', 'the other one answers');
sql("SELECT gpujoin_load('t0_k', 0); SELECT gpujoin_unload('t0_k', 1)");
is(places('t0_k'), '0 ready', 'a mirror has moved');

# ---- one device fails -----------------------------------------------------------------------

# Kind of fault, what happens to the device, what its requests get
foreach my $device (0, 1)
{
	my $other = 1 - $device;
	my ($mine, $others) = ("t$device", "t$other");

	foreach my $fault ('lost', 'crash', 'kill', 'stop')
	{
		my $what = "device $device: $fault";
		my $pid = stat_of($device, 'helper_pid');
		my $epoch = stat_of($device, 'epoch');
		my @before = map { stat_of($other, $_) } 'epoch', 'helper_pid', 'requests_failed';
		my $ok = stat_of($other, 'requests_ok');

		if ($fault eq 'kill' || $fault eq 'stop')
		{
			kill $fault eq 'kill' ? 'KILL' : 'STOP', $pid;
			watch_after($node, '2s') if $fault eq 'stop';
		}
		else
		{
			inject($node, 'begin', $fault, 0, 1, 0, $device);
		}
		all_right("$what, at once");
		isnt(device_in($others, ''), '', "$what: the other one answers");
		wait_for("SELECT epoch <> $epoch FROM pg_stat_gpujoin WHERE device_number = $device",
			"$what: noticed");
		watch_after($node, '1h') if $fault eq 'stop';
		all_right("$what, later");
		is(join(' ', map { stat_of($other, $_) } 'epoch', 'helper_pid', 'requests_failed'),
			"@before", "$what: the other one has not noticed");
		cmp_ok(stat_of($other, 'requests_ok'), '>', $ok, "$what: it has answered");
		come_back("$what: back");
		sql("SELECT gpujoin_unload('t$_' || '_k'), gpujoin_load('t$_' || '_k', $_ % 2)")
		  foreach 0 .. 3;
		is(device_in($mine, ''), "reference ($device)", "$what: answers again");
	}

	# Memory: the request fails, and only that
	inject($node, 'begin', 'no_memory', 0, 1, 0, $device);
	my $short = stat_of($device, 'requests_no_memory');
	like(device_in($mine, ' Reason'), qr/memory/, "device $device: no memory, and EXPLAIN says so");
	cmp_ok(stat_of($device, 'requests_no_memory'), '>', $short, "device $device: counted");
	is(device_in($others, ''), "reference ($other)", "device $device: the other one answers");
}

# Its mirrors are loaded on the other device when they are next wanted
my $pid = stat_of(1, 'helper_pid');
kill 'STOP', $pid;
watch_after($node, '2s');
wait_for("SELECT state <> 'ready' FROM pg_stat_gpujoin WHERE device_number = 1", 'one is frozen');
sql('SET gpujoin.auto_load = on; SET gpujoin.force = on;
	SELECT count(*) FROM t1 WHERE k IN (1, 2)');
watch_after($node, '1h');
wait_for("SELECT device = 0 AND state = 'ready' FROM pg_stat_gpujoin_mirrors
	WHERE indexrelname = 't1_k'", 'what it had is loaded on the other');
come_back('it is back');

# ---- a mirror on both devices, one of which fails --------------------------------------------

foreach my $device (0, 1)
{
	my $other = 1 - $device;

	sql("SELECT gpujoin_load('t2_k', 0); SELECT gpujoin_load('t2_k', 1)");
	is(places('t2_k'), '0 ready, 1 ready', 'a mirror is on both devices');
	kill 'KILL', stat_of($device, 'helper_pid');
	wait_for("SELECT string_agg(device::text, ' ') = '$other' FROM pg_stat_gpujoin_mirrors
		WHERE indexrelname = 't2_k' AND state = 'ready'", "device $device ends: one is left");
	is(device_in('t2', ''), "reference ($other)", "device $device ends: the other one answers");
	come_back("device $device is back");
	wait_for("SELECT count(*) = 1 FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't2_k'",
		"device $device is back: what it had is forgotten");
}

# ---- both fail ------------------------------------------------------------------------------

kill 'KILL', map { stat_of($_, 'helper_pid') } 0, 1;
all_right('both killed, at once');
come_back('both are back');
sql("SELECT gpujoin_unload('t$_' || '_k'), gpujoin_load('t$_' || '_k')") foreach 0 .. 3;
all_right('both are back');
isnt(device_in('t0', ''), '', 'a device answers again');

# ---- copies of mirrors whose requests wait ---------------------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir;
my $script = "$dir/look_up.sql";
append_to_file($script, "\\set k random(0, 999)\nSET gpujoin.auto_load = on;\n"
	  . "SET gpujoin.force = on;\nSELECT count(*) FROM t3 WHERE k IN (:k, :k + 7);\n");
sql("SELECT gpujoin_unload('t$_' || '_k')") foreach 0 .. 3;
sql("SELECT gpujoin_load('t3_k', 0)");
inject($node, 'begin', 'delay', 0, 0, 100, 0);
my $bench = start_bench($node, 16, 20, $script);
wait_for("SELECT count(*) = 2 FROM pg_stat_gpujoin_mirrors
	WHERE indexrelname = 't3_k' AND state = 'ready'", 'a mirror whose requests wait is copied');
finish_bench($bench, 'look-ups of a mirror that is copied');
inject($node, 'begin', 'none', 0, 0, 0, 0);
is(sql("SELECT count(*) FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't3_k' AND matches > 0"),
	'2', 'and both answer');

# Insertions, deletions, VACUUM and folds, while both copies are used
sql(q{CREATE TABLE t (id serial, k int, pad text);
	INSERT INTO t (k, pad) SELECT i % 500, repeat('x', 20) FROM generate_series(1, 30000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id) WITH (lanes = 2);
	SELECT gpujoin_load('t_k', 0); SELECT gpujoin_load('t_k', 1)});
my @compare = map {
	compare_script("$dir/compare$_.sql", $_, 'count(*), sum(id), sum(k), sum(id * k::bigint)')
} 0, 3, 1000000;
my @benches = (
	[ start_bench($node, 2, 6, write_script("$dir/write.sql")), 'writers' ],
	[ start_bench($node, 1, 6, vacuum_script("$dir/vacuum.sql")), 'vacuum' ],
	[ start_bench($node, 8, 6, @compare), 'readers of both copies' ]);
finish_bench(@$_) foreach @benches;
is(sql("SELECT count(*), bool_and(matches > 20 AND syncs > 0) FROM pg_stat_gpujoin_mirrors
	WHERE indexrelname = 't_k'"), '2|t', 'both copies were used, and brought up to date');

# ---- eviction -------------------------------------------------------------------------------

# Fill a device with pinned mirrors, beside one that has not been used for a long time, and a copy
sql("SELECT gpujoin_unload('t_k'), gpujoin_unload('t3_k'); SELECT gpujoin_load('t0_k', 0);
	SELECT gpujoin_load('t3_k', 0); SELECT gpujoin_load('t3_k', 1)");
sql("SELECT fill('f' || i, 10000) FROM generate_series(1, 40) i");
my $n = 0;
for my $i (1 .. 40)
{
	my ($status) = $node->psql('postgres', "SELECT gpujoin_load('f${i}_k', 0)");

	last if $status != 0;
	$n = $i;
	# nothing else may be evicted
	sql("ALTER INDEX f${i}_k SET (preload = on); SET gpujoin.force = on;
		SELECT count(*) FROM f$i WHERE k = 1; SELECT count(*) FROM t3 WHERE k = 1");
	last if places('t3_k') eq '1 ready';
}
cmp_ok($n, '>', 2, "$n mirrors fit beside it");
is(places('t3_k'), '1 ready', 'the copy is evicted');
is(sql("SELECT count(*) FROM pg_stat_gpujoin_mirrors WHERE state = 'ready'
	AND indexrelname ~ '^(f.*|t0)_k\$'"), $n + 1, 'before any mirror that is on one device only');
all_right('at the end');

$node->stop;
log_is_clean($node, 'the log is clean');

# ---- the setting ----------------------------------------------------------------------------

foreach my $bad ('0,0', 'all,1', join(',', 0 .. 16), 'a b')
{
	my $from = -s $node->logfile;

	$node->append_conf('postgresql.conf', "gpujoin.gpu = '$bad'");
	$node->start;
	like(slurp_file($node->logfile, $from),
		qr/invalid value for parameter "gpujoin.gpu": "$bad"\n.*DETAIL:  (It|"all") /,
		"\"$bad\" is no list of GPUs");
	is(sql('SELECT count(*) FROM pg_stat_gpujoin'), 1, "\"$bad\" is not used");
	$node->stop;
}
$node->append_conf('postgresql.conf', "gpujoin.gpu = 'reference, 9'");
$node->start;
wait_for("SELECT string_agg(state, ' ' ORDER BY device_number) = 'ready failed'
	FROM pg_stat_gpujoin", 'of two devices, there is one');
like(stat_of(1, 'reason'), qr/no such GPU.*"9" does not exist/, 'and the other one says why');
is(run_service($node, '10, nkeys => 100'), 'ok 1, fallbacks 0, wrong 0, loads 1',
	'the one answers');
like(slurp_file($node->logfile), qr/gpujoin works without device 1: no such GPU/,
	'the log names the device');
$node->stop;

done_testing();
