# Everything at once: writers, VACUUM, synchronization, loads, DDL, and a device process that is
# killed repeatedly. No answer is wrong, no session gets an error, nothing is left over at the end.
# Then PostgreSQL processes are killed in the middle of a load, which causes PostgreSQL's own crash
# restart: the marked index is loaded again, and answers are right.

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

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '16MB'", "gpujoin.device_memory = '256MB'", 'gpujoin.force = on',
	PATIENT, 'restart_after_crash = on', 'max_connections = 40',
	'max_worker_processes = 20');
my $bystander = open_bystander($node);
wait_ready($node);
ask($node);

sql(q{CREATE TABLE t (id serial, k int, pad text) WITH (fillfactor = 70);
	INSERT INTO t (k, pad) SELECT i % 500, repeat('x', 20) FROM generate_series(1, 30000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) WITH (lanes = 2, preload)});

my $dir = PostgreSQL::Test::Utils::tempdir;
my @compare = map { compare_script("$dir/compare$_.sql", $_) } (0, 3, 1000000);
my $write = write_script("$dir/write.sql");
my $vacuum = vacuum_script("$dir/vacuum.sql");
my $check = check_script("$dir/check.sql");

# A load fails when the device process dies; that is no error of this test.
append_to_file("$dir/reload.sql", q{
DO $$ BEGIN
	PERFORM gpujoin_unload('t_k');
	PERFORM gpujoin_load('t_k');
EXCEPTION WHEN object_not_in_prerequisite_state OR out_of_memory THEN NULL; END $$;
});

# Each client builds, fills, rolls back and drops its own table.
append_to_file("$dir/ddl.sql", q{
\set what random(1, 7)
SET client_min_messages = warning;
SET lock_timeout = '60s';
CREATE TABLE IF NOT EXISTS d:client_id (k int);
CREATE INDEX IF NOT EXISTS dk:client_id ON d:client_id USING gpujoin (k);
\if :what = 1
INSERT INTO d:client_id SELECT i % 500 FROM generate_series(1, 60000) i;
REINDEX TABLE d:client_id;
\elif :what = 2
TRUNCATE d:client_id;
\elif :what = 3
BEGIN;
INSERT INTO d:client_id SELECT i % 500 FROM generate_series(1, 60000) i;
SAVEPOINT s;
REINDEX TABLE d:client_id;
ROLLBACK TO s;
CREATE INDEX dx:client_id ON d:client_id USING gpujoin (k) WITH (preload);
ROLLBACK;
\elif :what = 4
DROP TABLE d:client_id;
\elif :what = 5
ALTER INDEX dk:client_id SET (preload);
\elif :what = 6
ALTER INDEX dk:client_id RESET (preload);
\else
VACUUM FULL d:client_id;
\endif
});

# ---- the device process ---------------------------------------------------------------------

my $seconds = $ENV{MIRROR_SECONDS} || 15;
my $kills = 0;

sub kill_under_load
{
	my @benches = (
		[ start_bench($node, 2, $seconds, $write), 'writers' ],
		[ start_bench($node, 1, $seconds, $vacuum), 'vacuum' ],
		[ start_bench($node, 3, $seconds, @compare), 'readers' ],
		[ start_bench($node, 1, $seconds, $check), 'checks' ],
		[ start_bench($node, 1, $seconds, "$dir/reload.sql"), 'loads' ],
		[ start_bench($node, 2, $seconds, "$dir/ddl.sql"), 'DDL' ]);
	my $readers = $benches[2]->[0]->{handle};

	while ($readers->pumpable)
	{
		$readers->pump_nb;
		my $pid = signal_helper($node, $kills % 3 == 2 ? ('STOP', 'KILL') : 'KILL');
		$kills++ if $pid;
		wait_replaced($node, $pid);
		# leave a moment for loading, synchronizing and answering
		select(undef, undef, undef, 0.2 + 0.1 * ($kills % 5));
	}
	finish_bench(@$_) foreach @benches;
	return;
}

# On a busy machine that time may be too short.
foreach (1 .. 8)
{
	kill_under_load();
	last if $kills >= 5 && service($node, 'device_answers') > 10;
}
cmp_ok($kills, '>=', 5, 'the process was killed often enough');
note("$kills kills");

is(sql(q{SELECT gpujoin_load('t_k') > 0}), 't', 'the mirror is there, or loaded again');
is(sql(q{SELECT gpujoin_check('t_k', true) > 0}), 't', 'the index is sound');
is(sql(q{SET gpujoin.sync_blocks = 0;
	SELECT missing, stale, reason FROM gpujoin_mirror_check('t_k')}), '0|0|',
	'and the mirror complete');
cmp_ok(service($node, 'device_answers'), '>', 10, 'the device did answer');
note(sql(q{SELECT 'device=' || device_answers FROM gpujoin_status()}) . ' '
	  . sql(q{SELECT string_agg(reason || '=' || count, ' ') FROM gpujoin_fallbacks()
		WHERE count > 0}));

sql("DROP TABLE IF EXISTS d$_") foreach 0 .. 1;
$node->reload;
wait_for(q{SELECT count(*) = 1 FROM gpujoin_mirrors()}, 'what was dropped has no entry');
wait_for(q{SELECT columns = 1 AND memory_mirrors = (SELECT bytes FROM gpujoin_mirrors()) AND
	slots_used + slots_abandoned + keysets + matches = 0 AND memory_scratch = } .
	(STAGING + COLUMN_LIST) . ' FROM gpujoin_status()',
	'there is one column, its bytes are all, no slot is in use');
is(ask_bystander($bystander), $bystander->{pid}, 'a session opened before all this is well');
$bystander->{run}->kill_kill;
unlike(slurp_file($node->logfile), qr/reinitializing/, 'the server did not restart');
log_is_clean($node, 'the log shows no crash of PostgreSQL');

# ---- processes of PostgreSQL ----------------------------------------------------------------

# Test that the server restarts by itself, loads the marked index and holds nothing else
sub recovers
{
	my $what = shift;

	poll_through_restarts($node, 'SELECT true');
	wait_for(q{SELECT count(*) = 1 AND bool_and(state = 'ready' AND pinned)
		FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k'}, "$what: loaded again");
	wait_for(q{SELECT columns = 1 AND slots_used + slots_abandoned = 0 AND
		memory_mirrors = (SELECT sum(bytes) FROM gpujoin_mirrors()) FROM gpujoin_status()},
		"$what: nothing else is held");
	is(sql(q{SELECT missing, reason FROM gpujoin_mirror_check('t_k')}), '0|',
		"$what: it is complete");
	is(join("\n", differing($node, 'SELECT id, pad FROM t WHERE k IN (1, 99, 250)')), '',
		"$what: answers are right");
}

# Kill a process of the server; return its pid
sub kill_backend
{
	my $condition = shift;
	my $pid = sql("SELECT min(pid) FROM pg_stat_activity WHERE $condition");

	die "no process: $condition" unless $pid =~ /^\d+$/ && $pid > 1;
	kill 'KILL', $pid;
}

foreach my $who ("application_name = 'load'", "backend_type = 'gpujoin loader'",
	"backend_type = 'gpujoin launcher'")
{
	my ($out, $err) = ('', '');
	my $session;

	sql(q{SELECT gpujoin_unload('t_k')});
	# wait until everything has ended
	inject($node, 'write', 'delay', 0, 0, 600000);
	if ($who =~ /'load'/)
	{
		local $ENV{PGAPPNAME} = 'load';
		$session = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'),
				'-c', "SELECT gpujoin_load('t_k')" ], '<', \undef, '>', \$out, '2>', \$err);
	}
	else
	{
		sql('ALTER INDEX t_k SET (preload)');
	}
	wait_for(q{SELECT state = 'loading' FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k'},
		"a load is under way: $who");
	kill_backend($who);
	$session->finish if $session;
	recovers($who);
}
my $restarts = () = slurp_file($node->logfile) =~ /all server processes terminated; reinit/g;
is($restarts, 3, 'these were crash restarts');

# After an orderly end the launcher is restarted and continues.
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE backend_type = 'gpujoin launcher'});
sql(q{SELECT gpujoin_unload('t_k'); ALTER INDEX t_k SET (preload)});
recovers('launcher terminated');
is(() = slurp_file($node->logfile) =~ /all server processes terminated; reinit/g, 3,
	'that was no crash');

sql('DROP TABLE t');
$node->reload;
wait_for('SELECT count(*) = 0 FROM gpujoin_mirrors()', 'no entry is left');
no_leaks($node, 'in the end');
$node->stop;
done_testing();
