# Loads that fail, or collide. Two sessions load one index: the work is done once. A load shows its
# progress, can be cancelled and terminated. The device process is killed, freezes or crashes in the
# middle of a load, or is out of memory: a loader eventually completes each request, none is lost,
# nothing is left over, and retries are spaced out. Finally, which mirrors are evicted.

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
	"gpujoin.result_buffer = '16MB'", "gpujoin.device_memory = '128MB'", 'gpujoin.min_rows = 0',
	PATIENT, 'gpujoin.auto_load = off', 'max_prepared_transactions = 5');
my $bystander = open_bystander($node);
wait_ready($node);
ask($node);

sub state_of
{
	my $index = shift;
	return "SELECT string_agg(state, ' ') FROM pg_stat_gpujoin_mirrors
		WHERE indexrelname = '$index'";
}

sub becomes_ready
{
	my ($index, $what) = @_;
	wait_for("SELECT (" . state_of($index) . ") = 'ready'", $what);
	is(sql("SELECT missing, stale, reason FROM gpujoin_mirror_check('$index')"), '0|0|',
		"$what: complete");
}

# Slow down each part of a load
sub slow { inject($node, 'write', 'delay', 0, 0, shift); }
sub fast { inject($node, 'write', 'none', 0, 0); }

# Start a statement in its own session
sub start
{
	my ($name, $statement) = @_;
	my $session = { out => '', err => '' };
	local $ENV{PGAPPNAME} = $name;
	local $ENV{PGOPTIONS} = '-c gpujoin.force=on';

	$session->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $statement ],
		'<', \undef, '>', \$session->{out}, '2>', \$session->{err}, patience(300));
	return $session;
}

sub start_load
{
	my ($index, $name) = @_;
	return start($name, "SELECT gpujoin_load('$index')");
}

sub finish
{
	my $load = shift;
	$load->{run}->finish;
	chomp $load->{out};
	return $load->{out} . $load->{err};
}

sub nothing_left
{
	my $what = shift;
	$node->reload;
	wait_for('SELECT count(*) = 0 FROM gpujoin_mirrors()', "$what: no entry is left");
	no_leaks($node, $what);
}

sql(FILL . q{SELECT fill('t', 300000);
	SELECT fill('big', 1400000)});

# ---- one load at a time ---------------------------------------------------------------------

my $bytes = sql(q{SELECT gpujoin_load('t_k')});
my $sent = service($node, 'bytes_sent');
cmp_ok($sent, '>', 3000000, 'a load sends pages');
sql(q{SELECT gpujoin_unload('t_k')});

slow(600);
my @loads = map { start_load('t_k', "load$_") } 1 .. 4;
wait_for(q{SELECT count(*) = 4 FROM pg_stat_activity
	WHERE application_name LIKE 'load_' AND state = 'active'}, 'four sessions load one index');
wait_for(q{SELECT count(*) = 1 FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k' AND
	state = 'loading' AND pages_done > 0 AND pages_done < pages AND
	pid = ANY (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'load_')},
	'one of them does it, and shows its progress');
fast();
is(finish($_), $bytes, 'all of them get their answer') foreach @loads;
is(service($node, 'bytes_sent') - $sent, $sent, 'each page was sent once');
is( sql(q{SELECT pages_pushed * 2 > run_pages[1] AND pages_pushed <= run_pages[1]
		FROM pg_stat_gpujoin_mirrors, gpujoin_index_info('t_k')}),
	't', 'and counted once');
is(service($node, 'columns'), 1, 'there is one column');
sql(q{SELECT gpujoin_unload('t_k')});
nothing_left('after loads side by side');

# ---- a load that is interrupted -------------------------------------------------------------

foreach my $how ('pg_cancel_backend', 'pg_terminate_backend')
{
	slow(1000);
	my $first = start_load('t_k', 'first');
	wait_for("SELECT (" . state_of('t_k') . ") = 'loading'", "$how: loading");
	my $second = start_load('t_k', 'second');
	wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'second'
		AND state = 'active'}, "$how: another session waits");
	sql("SELECT $how(pid) FROM pg_stat_activity WHERE application_name = 'first'");
	like(finish($first), qr/canceling statement|terminating connection/, "$how: ended");
	fast();
	is(finish($second), $bytes, "$how: the other one loads it then");
	is(sql(q{SELECT gpujoin_unload('t_k')}), 't', "$how: which leaves a mirror");
	nothing_left($how);
}

# Unloaded during a load
slow(1000);
my $load = start_load('t_k', 'load');
wait_for("SELECT (" . state_of('t_k') . ") = 'loading'", 'loading once more');
is(sql(q{SELECT gpujoin_unload('t_k')}), 't', 'and unloaded meanwhile');
fast();
like(finish($load), qr/^\d+$/, 'the load ends well');
nothing_left('unloaded while loading');

# ---- the device process ends in the middle of a load -----------------------------------------

my $epoch;

sub new_epoch
{
	my $what = shift;
	wait_for("SELECT epoch <> $epoch FROM gpujoin_status()", "$what: the process has ended");
	watch_after($node, '1h') if $what =~ /^STOP/;
	restart_now($node);
}

# A command fails and leaves nothing; the loader retries its requests by itself.
foreach my $how ('KILL', 'STOP', 'crash', 'lost')
{
	foreach my $who ('command', 'loader')
	{
		my $what = "$how in a load by a $who";

		$epoch = service($node, 'epoch');
		$how =~ /^[A-Z]/ ? slow(600000) : inject($node, 'write', $how, 3, 1);
		if ($who eq 'command')
		{
			$load = start_load('t_k', 'load');
		}
		else
		{
			sql('ALTER INDEX t_k SET (preload)');
		}
		if ($how =~ /^[A-Z]/)
		{
			wait_for("SELECT (" . state_of('t_k') . ") = 'loading'", "$what: loading");
			signal_helper($node, $how);
			watch_after($node, '2s') if $how eq 'STOP';
		}
		if ($who eq 'command')
		{
			like(finish($load), qr/could not load index "t_k": /, "$what: an error");
			new_epoch($what);
			is(sql(q{SET gpujoin.force = on; SELECT count(*) FROM t WHERE k = 7}), '300',
				"$what: the answer is right");
		}
		else
		{
			new_epoch($what);
			becomes_ready('t_k', "$what: it is loaded in the end");
			sql('ALTER INDEX t_k RESET (preload)');
			wait_for(q{SELECT NOT pinned FROM gpujoin_mirrors()}, "$what: not pinned any more");
		}
		sql(q{SELECT gpujoin_unload('t_k')});
		nothing_left($what);
	}
}

# ---- a loader that is terminated, or does not get the index ----------------------------------

slow(1000);
sql('ALTER INDEX t_k SET (preload)');
wait_for(q{SELECT count(*) = 1 FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k' AND
	state = 'loading' AND pages_done > 0}, 'a loader is at work');
is(sql(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
	WHERE backend_type = 'gpujoin loader'}), '1', 'and is terminated');
wait_for(q{SELECT state <> 'loading' FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k'},
	'it has ended');
fast();
becomes_ready('t_k', 'another one comes');
is(sql('SELECT failed_loads FROM gpujoin_mirrors()'), '0', 'and has done it');

# At the next start the index is locked, by a transaction that outlives the server. Another index of
# its table shows that the loader has run.
sql(q{CREATE INDEX t_k2 ON t USING gpujoin (k) WITH (preload)});
becomes_ready('t_k2', 'another index that is marked');
sql(q{BEGIN; REINDEX INDEX t_k; PREPARE TRANSACTION 'reindex'});
$node->restart;
wait_ready($node);
$bystander->{run}->kill_kill;
$bystander = open_bystander($node);
# the prepared transaction also locks the table: no query may touch it
wait_for("SELECT (" . state_of('t_k2') . ") = 'ready'", 'after a restart: one is loaded');
is(sql(state_of('t_k')), '', 'the other one is locked');
sql(q{ROLLBACK PREPARED 'reindex'});
$node->reload;
becomes_ready('t_k', 'when the lock has gone, it is loaded as well');
sql('DROP INDEX t_k2; ALTER INDEX t_k RESET (preload)');
wait_for(q{SELECT NOT pinned FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k'},
	'it can go now');

# ---- a database that allows no connection ----------------------------------------------------

$node->safe_psql('postgres', 'CREATE DATABASE closed');
$node->safe_psql('closed', q{
	CREATE EXTENSION gpujoin;
	CREATE TABLE c AS SELECT i AS k FROM generate_series(1, 60000) i;
	CREATE INDEX c_k ON c USING gpujoin (k) WITH (preload)});
wait_for(q{SELECT count(*) = 2 FROM gpujoin_mirrors() WHERE state = 'ready'},
	'a mirror in another database');
sql('ALTER DATABASE closed ALLOW_CONNECTIONS false');
my $log_at = -s $node->logfile;
$epoch = service($node, 'epoch');
signal_helper($node, 'KILL');
new_epoch('closed database');
# The database that allows no connection sorts before the other one, or after it; the other one's
# index is loaded every time.
foreach my $round (1 .. 3)
{
	becomes_ready('t_k', "an open database does not wait for a closed one ($round)");
	sql(q{SELECT gpujoin_unload('t_k'); ALTER INDEX t_k SET (preload)});
}
becomes_ready('t_k', 'nor does its index when marked');
$node->reload foreach 1 .. 3;
is(sql(q{SELECT state FROM pg_stat_gpujoin_mirrors WHERE datname = 'closed'}), 'wanted',
	'that of the closed one is wanted');
unlike(slurp_file($node->logfile, $log_at), qr/not currently accepting connections/,
	'no loader was sent in vain');
sql('ALTER DATABASE closed ALLOW_CONNECTIONS true');
$node->reload;
wait_for(q{SELECT state = 'ready' FROM pg_stat_gpujoin_mirrors WHERE datname = 'closed'},
	'it is loaded when the database is open again');
sql('DROP DATABASE closed; ALTER INDEX t_k RESET (preload)');
sql(q{SELECT gpujoin_unload('t_k')});
nothing_left('two databases');

# A loader that fails immediately each time: the retries come at growing intervals.
inject($node, 'reserve', 'no_memory', 0, 0);
sql('ALTER INDEX t_k SET (preload)');
wait_for(q{SELECT state = 'refused' AND failed_loads > 0 AND retry_at IS NOT NULL AND
	reason LIKE '%not enough device memory%'
	FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k'}, 'no memory: refused for a while');
log_comes_to($node,
	qr/could not load index "t_k", which has the option "preload": there is not enough/,
	'said in the log');
like(finish(start_load('t_k', 'load')), qr/"t_k": there is not enough device memory/,
	'a command is told');
is(sql(q{SET gpujoin.force = on; SET gpujoin.auto_load = on;
	SELECT count(*) FROM t WHERE k = 7}), '300', 'a query does without');
wait_for(q{SELECT failed_loads > 1 FROM pg_stat_gpujoin_mirrors}, 'failures are counted');
inject($node, 'reserve', 'none', 0, 0);
is(finish(start_load('t_k', 'load')), $bytes, 'with memory it is loaded');
sql(q{ALTER INDEX t_k RESET (preload); SELECT gpujoin_unload('t_k')});
nothing_left('no memory');

# ---- making room ----------------------------------------------------------------------------

# The mirror to be evicted is being read: the load waits for its memory, and other mirrors stay.
sql("SELECT fill('e$_', 30000); SELECT gpujoin_load('e${_}_k')") foreach 1 .. 4;
is(sql('SELECT count(*) FROM gpujoin_mirrors()'), '4', 'the device is full');
inject($node, 'poll', 'delay', 0, 1, 3000);
my $reader = start('reader', 'SELECT count(*) FROM e1 WHERE k = 7');
wait_for('SELECT slots_used > 0 FROM gpujoin_status()', 'one is being read');
is(sql(q{SELECT gpujoin_load('t_k')}), $bytes, 'another one is loaded');
is(finish($reader), '30', 'the reader gets its answer');
is(sql(q{SELECT count(*) FROM pg_stat_gpujoin_mirrors WHERE state = 'ready'}), '4',
	'and only one had to go');

# The owner of a table cannot evict mirrors that others use
sql(q{CREATE ROLE owner LOGIN; CREATE SCHEMA o AUTHORIZATION owner;
	SET ROLE owner; CREATE TABLE o.o AS SELECT * FROM generate_series(1, 60000) k;
	CREATE INDEX o_k ON o.o USING gpujoin (k)});
sql("SELECT gpujoin_load('${_}_k')") foreach ('e2', 'e3', 'e4', 't');
sql("SET gpujoin.force = on; SELECT count(*) FROM $_ WHERE k = 7") foreach ('e2', 'e3', 'e4', 't');
my ($status, $out, $err) = $node->psql('postgres', q{SET ROLE owner; SELECT gpujoin_load('o.o_k')});
like($err, qr/could not load index "o_k": there is not enough device memory/,
	'an owner does not evict what was used a moment ago');
like($err, qr/HINT:  Mirrors used within the last minute/, 'and is told why');
is(sql('SELECT count(*) FROM gpujoin_mirrors() WHERE state = \'ready\''), '4',
	'nothing was evicted');
sql(q{SELECT gpujoin_load('o.o_k')});
is(sql(q{SELECT string_agg(indexrelname, ' ' ORDER BY indexrelname) FROM pg_stat_gpujoin_mirrors
	WHERE state = 'ready'}), 'e3_k e4_k o_k t_k', 'a superuser does');

# A growing mirror allocates more memory, and its size shows that.
sql("SELECT gpujoin_unload('${_}_k')") foreach ('e3', 'e4', 'o.o', 't');
is(sql(q{SELECT gpujoin_load('big_k')}), $bytes, 'a mirror just below the size of a piece');
sql(q{INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 200000) i;
	SET gpujoin.force = on; SET gpujoin.sync_blocks = 0; SELECT count(*) FROM big WHERE k = 7});
wait_for('SELECT memory_mirrors = 2 * ' . $bytes . ' FROM gpujoin_status()', 'has grown above');
is(sql('SELECT bytes FROM gpujoin_mirrors()'), 2 * $bytes, 'and shows what it takes');

# ---- a truncated index -----------------------------------------------------------------------

# Truncate it under a session that has used it before, and under a complete mirror: matching with
# the mirror, copying the index and searching it must all detect that the file is too short.
sql(q{SELECT fill('cut', 100000); VACUUM cut; SELECT gpujoin_load('cut_k'); CHECKPOINT});
my $file = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('cut_k')});
my $question = 'SELECT count(*) FROM cut WHERE k IN (3, 7)';
my $length = (-s $file) - 8192;
like(sql("SET gpujoin.force = on; EXPLAIN ANALYZE $question"), qr/Device: reference/,
	'a device answers');
($status, $out, $err) = $node->psql('postgres', qq{SET gpujoin.force = on; $question;
	\\! truncate -s $length $file
	$question; SELECT gpujoin_mirror_check('cut_k'); SELECT gpujoin_unload('cut_k');
	SELECT gpujoin_load('cut_k'); $question; SET gpujoin.auto_load = on; $question;
	INSERT INTO cut SELECT i, 7 FROM generate_series(1, 300) i;
	SET gpujoin.enabled = off; DELETE FROM cut WHERE k = 3;
	VACUUM (INDEX_CLEANUP ON) cut; SELECT gpujoin_check('cut_k')}, on_error_stop => 0);
is($out, "200\nt", 'nothing but an unload works then');
is(() = $err =~ /ERROR:  index "cut_k" is too short\n/g, 8, 'each of the others says why')
  or diag($err);
sql('REINDEX INDEX cut_k');
is(sql("SET gpujoin.force = on; SELECT gpujoin_load('cut_k') > 0; $question"), "t\n100",
	'an index built anew can be loaded and answers');
sql('DROP TABLE cut');

# ---- too little memory at all ----------------------------------------------------------------

$node->adjust_conf('postgresql.conf', 'gpujoin.device_memory', "'80MB'");
$node->restart;
wait_ready($node);
($status, $out, $err) = $node->psql('postgres', q{SELECT gpujoin_load('big_k')});
like($err, qr/could not load index "big_k": gpujoin.device_memory is too small for the index/,
	'an index that can never fit');
like($err, qr/DETAIL:  It needs 32 MB.  Of 80 MB of device memory, 16 MB are for mirrors/,
	'how much it takes, and how much there is');
like($err, qr/HINT:  Raise gpujoin.device_memory/, 'and what to do');
like(sql(q{SET gpujoin.force = on; SET gpujoin.auto_load = on;
	EXPLAIN ANALYZE SELECT count(*) FROM big WHERE k = 7}),
	qr/Device Reason: gpujoin.device_memory is too small for the index/, 'EXPLAIN says so');
is(sql(q{SELECT gpujoin_load('e1_k')}), 16 * 1024 * 1024, 'a small one fits');
unlike(slurp_file($node->logfile), qr/leaves no room for mirrors/, 'no warning yet');

$node->adjust_conf('postgresql.conf', 'gpujoin.device_memory', "'64MB'");
$node->restart;
wait_ready($node);
($status, $out, $err) = $node->psql('postgres', q{SELECT gpujoin_load('e1_k')});
like($err, qr/gpujoin.device_memory is too small for the index.*Of 64 MB of device memory, 0 MB/s,
	'no room for any mirror');
$node->wait_for_log(qr/WARNING:  gpujoin.device_memory leaves no room for mirrors/);
pass('is said in the log');

wait_for('SELECT slots_used + slots_abandoned = 0 FROM gpujoin_status()',
	'no request slot is left over');
$bystander->{run}->kill_kill;
$node->stop;
unlike(slurp_file($node->logfile), qr/reinitializing/, 'the server did not restart');
log_is_clean($node, 'the log shows no crash of PostgreSQL');
done_testing();
