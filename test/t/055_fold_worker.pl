# Background workers that flush indexes: a worker starts when rows are inserted, with and without
# preloading, and ends by itself. Nothing is lost when it fails, is cancelled, terminated or killed,
# or crashes at a step of a flush, nor when there is no room for it. It gives way to TRUNCATE, DROP,
# REINDEX and DROP DATABASE, and to locks of the table. It is not started where it must not be.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $next = 0;
my $node = new_server('primary', { allows_streaming => 'logical' }, 'fsync = off',
	'restart_after_crash = on', 'gpujoin.auto_load = off', 'max_worker_processes = 10');

# A flush is due from 8 pages on; there are about 800 entries on a page.
sub make_table
{
	my ($name, $kind) = @_;

	$node->safe_psql('postgres', sprintf(q{CREATE %s TABLE %s (id int, k int);
		CREATE INDEX %s_k ON %s USING gpujoin (k) INCLUDE (id) WITH (lanes = 2, fold_pages = 8)},
		$kind // '', ($name) x 3));
	return;
}

sub insertion
{
	my ($table, $rows) = @_;
	my ($from, $to) = ($next + 1, $next + ($rows // 20_000));

	$next = $to;
	return "INSERT INTO $table SELECT i, i % 1000 FROM generate_series($from, $to) i;";
}

my $is_worker = "backend_type = 'gpujoin fold worker'";
my $workers = "SELECT count(*) FROM pg_stat_activity WHERE $is_worker";
my $has_worker = "SELECT count(*) > 0 FROM pg_stat_activity WHERE $is_worker";

# Without a worker, tails and the delta have all rows
sub is_flushed
{
	my ($name, $what) = @_;

	ok($node->poll_query_until('postgres', "SELECT runs > 0 AND delta_pages < 8
		FROM gpujoin_index_info('${name}_k')"), "$what: the index is flushed");
	is_right($name, $what);
	return;
}

sub is_right
{
	my ($name, $what) = @_;

	is($node->safe_psql('postgres',
			"SELECT gpujoin_check('${name}_k', true) >= count(*) FROM $name"),
		't', "$what: all rows are in the index");
	is(join("\n", differing($node, "SELECT id FROM $name WHERE k IN (1, 5, 77, 500, 999)")),
		'', "$what: an answer is PostgreSQL's own");
	return;
}

sub no_worker
{
	my ($what) = @_;

	ok($node->poll_query_until('postgres', "SELECT NOT ($has_worker)"), "$what: the worker ends");
	return;
}

# Hold the steps of a worker in this database: its session gets the setting when it starts
sub set_step
{
	my ($step) = @_;

	$node->safe_psql('postgres', "ALTER DATABASE postgres SET gpujoin.debug_step = '$step'");
	return;
}

sub set_workers
{
	my ($change) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM $change; SELECT pg_reload_conf()");
	return;
}

# Start a worker that waits at a step, while it has the fold lock; returns the session that it waits
# for
sub worker_at
{
	my ($table, $step) = @_;
	my $holder = $node->background_psql('postgres', on_error_stop => 0);

	no_worker("before step $step");
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	set_step("$step wait");
	$node->safe_psql('postgres', "SET gpujoin.debug_step = ''; " . insertion($table));
	ok($node->poll_query_until('postgres', "$has_worker AND wait_event = 'advisory'"),
		"a worker waits at step $step");
	set_step('');
	return $holder;
}

# While another index has the only worker, the request of an index is refused; later it is flushed.
# Its own pages are not used in between; a use of another index may be needed.
sub is_repeated
{
	my ($name, $what, $use) = @_;
	my $holder;

	make_table($_) foreach "${name}1", "${name}2";
	$holder = worker_at("${name}1", 'written');
	$node->safe_psql('postgres', insertion("${name}2"));
	is($node->safe_psql('postgres', "SELECT requests > 0 AND requests = requests_refused
		FROM pg_stat_gpujoin_folds WHERE indexrelname = '${name}2_k'"), 't', "$what: refused");
	$holder->quit;
	my $from = time;
	my $until = $from + 60 * ($ENV{CHECK_PATIENCE} || 1);

	do { $node->safe_psql('postgres', $use // 'SELECT'); sleep(0.5) }
	while (time < $until && $node->safe_psql('postgres',
			"SELECT delta_pages < 8 FROM gpujoin_index_info('${name}2_k')") ne 't');
	cmp_ok(time - $from, '<', 60 * ($ENV{CHECK_PATIENCE} || 1), "$what: repeated");
	is_flushed("${name}2", $what);
	no_worker($what);
	return;
}

# It starts, flushes, and ends
make_table('big');
$node->safe_psql('postgres', insertion('big', 3_000));
is($node->safe_psql('postgres', $workers), '0', 'a few rows: no worker');
$node->safe_psql('postgres', insertion('big'));
is_flushed('big', 'insertions');
my $begun = time;
no_worker('no further insertions');
cmp_ok(time - $begun, '<', 15 * ($ENV{CHECK_PATIENCE} || 1), 'soon');
is($node->safe_psql('postgres', q{SELECT folds > 0, entries_written >= 6000, pages_written > 8,
	fold_time > 0, requests > 0, requests_refused, last_fold >= stats_reset
	FROM pg_stat_gpujoin_folds WHERE indexrelname = 'big_k'}), 't|t|t|t|t|0|t', 'it is counted');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_gpujoin_indexes
	WHERE indexrelname = 'big_k' AND searches = 0}), '0', 'not among searched indexes');

# Empty pages of a delta are not logged with all their zeros: 25 of them would be 200 kB
{
	my ($from, $to, $stats);

	$node->safe_psql('postgres', insertion('big', 2_000));
	$from = $node->lsn('insert');
	$node->safe_psql('postgres', insertion('big'));
	$to = $node->lsn('flush');
	($stats) = run_command([ 'pg_waldump', '-z', '--rmgr=Generic', '-s', $from, '-e', $to,
			'-p', $node->data_dir . '/pg_wal' ]);
	like($stats, qr/^Generic +\d+ .*/m, 'WAL of insertions');
	cmp_ok($stats =~ /^Generic +\d+ \([^)]*\) +\d+ \([^)]*\) +(\d+)/m ? $1 : -1, '<', 100_000,
		'hardly any of it are images of pages');
	is_flushed('big', 'WAL');
	no_worker('WAL');
}

# VACUUM merges small runs only, if the index may have a worker
{
	my $runs = "SELECT runs FROM gpujoin_index_info('grown_k')";
	my $round = 'INSERT INTO grown SELECT i % 1000 FROM generate_series(1, 60000) i';

	$node->safe_psql('postgres', 'CREATE TABLE grown (k int);
		INSERT INTO grown SELECT i % 1000 FROM generate_series(1, 600000) i;
		CREATE INDEX grown_k ON grown USING gpujoin (k) WITH (lanes = 2, fold_pages = 100)');
	foreach (1 .. 6)
	{
		$node->safe_psql('postgres', $round);
		$node->safe_psql('postgres', 'VACUUM grown');
	}
	is($node->safe_psql('postgres', $runs), '7', 'VACUUM leaves runs to a worker');
	set_workers('SET gpujoin.fold_workers = 0');
	$node->safe_psql('postgres', $round);
	$node->safe_psql('postgres', 'VACUUM grown');
	is($node->safe_psql('postgres', $runs), '2', 'without workers it merges them');
	set_workers('RESET gpujoin.fold_workers');
	$node->safe_psql('postgres', 'DROP TABLE grown');
	no_worker('VACUUM');
}

# VACUUM starts a worker for a merge that is due, and has ended while the worker merges.  Without
# room for a worker, or only for number 0, which does not merge, it merges by itself.
{
	my $dead = "SELECT dead_entries FROM gpujoin_index_info('merged_k')";

	$node->safe_psql('postgres', 'CREATE TABLE merged (id int, k int);
		INSERT INTO merged SELECT i, i % 1000 FROM generate_series(1, 900000) i;
		CREATE INDEX merged_k ON merged USING gpujoin (k) INCLUDE (id);
		DELETE FROM merged WHERE id % 3 = 0');
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	set_step('merge step wait');
	$node->safe_psql('postgres', "SET gpujoin.debug_step = ''; VACUUM merged");
	ok($node->poll_query_until('postgres', "$has_worker AND wait_event = 'advisory'"),
		'VACUUM starts a worker that merges');
	is($node->safe_psql('postgres', $dead), '300000', 'it has not merged itself');
	set_step('');
	$holder->quit;
	ok($node->poll_query_until('postgres', "SELECT ($dead) = 0"), 'the worker has merged');
	is_right('merged', 'a merge that VACUUM has started');
	set_workers('SET gpujoin.fold_workers = 2');
	$holder = worker_at('big', 'written');
	$node->safe_psql('postgres', 'DELETE FROM merged WHERE id % 3 = 1; VACUUM merged');
	is($node->safe_psql('postgres', $dead), '0', 'without a worker that merges, VACUUM does');
	$holder->quit;
	set_workers('SET gpujoin.fold_workers = 0');
	$node->safe_psql('postgres', 'DELETE FROM merged WHERE id % 2 = 0; VACUUM merged');
	is($node->safe_psql('postgres', $dead), '0', 'without a worker, VACUUM merges');
	set_workers('RESET gpujoin.fold_workers');
	is_right('merged', 'a merge by VACUUM');
	$node->safe_psql('postgres', 'DROP TABLE merged');
}

# Autovacuum starts, and ends, while a worker has the fold lock
{
	my $holder = worker_at('big', 'written');

	$node->safe_psql('postgres', q{SET gpujoin.debug_step = '';
		ALTER TABLE big SET (autovacuum_enabled, autovacuum_vacuum_insert_threshold = 1,
			autovacuum_vacuum_insert_scale_factor = 0);
		ALTER SYSTEM SET autovacuum_naptime = 1; ALTER SYSTEM SET autovacuum = on;
		SELECT pg_reload_conf()});
	ok($node->poll_query_until('postgres', q{SELECT autovacuum_count > 0
		FROM pg_stat_user_tables WHERE relname = 'big'}), 'autovacuum beside a worker');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity
		WHERE $is_worker AND wait_event = 'advisory'"), '1', 'the worker is still there');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET autovacuum_naptime;
		ALTER SYSTEM RESET autovacuum; SELECT pg_reload_conf();
		ALTER TABLE big RESET (autovacuum_enabled)');
	$holder->quit;
	is_flushed('big', 'beside autovacuum');
	no_worker('autovacuum');
}

# Rights: an owner without privileges; limits of time; a database's read-only default
$node->safe_psql('postgres', q{CREATE ROLE poor; CREATE DATABASE limits;
	ALTER DATABASE limits SET statement_timeout = '1ms';
	ALTER DATABASE limits SET lock_timeout = '1ms';
	ALTER DATABASE limits SET default_transaction_read_only = on;
	ALTER DATABASE limits SET default_transaction_isolation = serializable});
$ENV{PGOPTIONS} = '-c statement_timeout=0 -c lock_timeout=0 -c default_transaction_read_only=off';
$node->safe_psql('limits', q{CREATE EXTENSION gpujoin; CREATE SCHEMA poor AUTHORIZATION poor;
	SET ROLE poor; CREATE TABLE poor.big (k int);
	CREATE INDEX big_k ON poor.big USING gpujoin (k) WITH (fold_pages = 8);
	INSERT INTO poor.big SELECT generate_series(1, 20000)});
ok($node->poll_query_until('limits',
		"SELECT delta_pages < 8 FROM gpujoin_index_info('poor.big_k')"),
	'time limits of the database do not apply');

# DROP DATABASE, while a worker is there
{
	my $insert = IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr('limits'), '-c',
		'INSERT INTO poor.big SELECT generate_series(1, 60000)' ]);

	$node->poll_query_until('postgres', "$has_worker AND datname = 'limits'");
	$insert->finish;
	my $from = time;
	is($node->psql('postgres', 'DROP DATABASE limits'), 0, 'a worker gives way to DROP DATABASE');
	cmp_ok(time - $from, '<', 4.5 * ($ENV{CHECK_PATIENCE} || 1), 'at once');
	delete $ENV{PGOPTIONS};
}

# Locks: TRUNCATE waits for a unit, and the worker for no lock of the table
{
	my $holder = worker_at('big', 'written');
	my $truncate = IPC::Run::start([ 'psql', '-Xq', '-d',
			$node->connstr('postgres') . ' application_name=truncate', '-c', 'TRUNCATE big' ]);

	ok(wait_for_query($node, 'truncate', "wait_event_type = 'Lock'"),
		'TRUNCATE waits for a flush under way');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity
		WHERE $is_worker AND backend_xmin IS NOT NULL AND wait_event <> 'advisory'"), '0',
		'the worker has no snapshot of its own');
	$holder->quit;
	$truncate->finish;
	is($node->safe_psql('postgres', "SELECT gpujoin_check('big_k', true)"), '0', 'emptied');
	$node->safe_psql('postgres', insertion('big'));
	is_flushed('big', 'after TRUNCATE');
	no_worker('after TRUNCATE');
}
{
	my $locker = $node->background_psql('postgres');

	$locker->query_safe('BEGIN; LOCK TABLE big IN SHARE UPDATE EXCLUSIVE MODE');
	$node->safe_psql('postgres', insertion('big'));
	is_flushed('big', 'beside a lock like that of VACUUM');
	$locker->query_safe('COMMIT; BEGIN; LOCK TABLE big; ' . insertion('big'));
	ok($node->poll_query_until('postgres', $has_worker), 'the table is locked: a worker starts');
	$locker->query_safe('COMMIT');
	is_flushed('big', 'no longer locked');
	$locker->quit;
	$node->safe_psql('postgres', 'BEGIN; TRUNCATE big; ' . insertion('big') . 'COMMIT');
	is_right('big', 'TRUNCATE and INSERT in a transaction');
	$node->safe_psql('postgres', insertion('big'));
	is_flushed('big', 'after this transaction');
	$node->safe_psql('postgres', insertion('big') . 'REINDEX INDEX CONCURRENTLY big_k');
	is_right('big', 'REINDEX CONCURRENTLY');
	$node->safe_psql('postgres', insertion('big') . 'REINDEX INDEX big_k');
	is_right('big', 'REINDEX');
	$node->safe_psql('postgres', insertion('big') . 'DROP INDEX big_k');
	no_worker('DROP INDEX');
	$node->safe_psql('postgres', 'CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id)
		WITH (lanes = 2, fold_pages = 8)');
}

# VACUUM's deletion and a flush take turns
{
	my $holder = worker_at('big', 'begun');

	# committed before the queries below begin, whose snapshots would keep VACUUM from removing rows
	$node->safe_psql('postgres', 'DELETE FROM big WHERE id % 3 = 0');
	my $vacuum = IPC::Run::start([ 'psql', '-Xq', '-d',
			$node->connstr('postgres') . ' application_name=vacuum', '-c',
			'VACUUM (INDEX_CLEANUP ON) big' ]);

	ok(wait_for_query($node, 'vacuum', "wait_event_type = 'Lock' AND query LIKE 'VACUUM%'"),
		'a deletion waits for a flush');
	$holder->quit;
	$vacuum->finish;
	is_flushed('big', 'VACUUM');
	no_worker('VACUUM');
}

# A deletion that is slowed by its cost does not sleep while it has the fold lock, but afterwards
{
	$node->safe_psql('postgres', q{CREATE TABLE slow (id int, k int);
		CREATE INDEX slow_k ON slow USING gpujoin (k) INCLUDE (id);
		INSERT INTO slow SELECT i, i % 1000 FROM generate_series(1, 20000) i;
		SELECT gpujoin_fold('slow_k'); DELETE FROM slow WHERE id % 2 = 0;
		CREATE FUNCTION watch(OUT holding int, OUT asleep int) LANGUAGE plpgsql AS $$
		DECLARE one record; seen bool := false;
		BEGIN
			holding := 0; asleep := 0;
			FOR i IN 1 .. 10000 LOOP
				PERFORM pg_stat_clear_snapshot(), pg_sleep(0.005);
				SELECT a.wait_event, EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND
					l.locktype = 'userlock' AND l.objsubid = 4) AS has INTO one
				FROM pg_stat_activity a
				WHERE a.application_name = 'slow' AND a.query LIKE 'VACUUM%' AND a.state = 'active';
				EXIT WHEN seen AND NOT FOUND;
				CONTINUE WHEN NOT FOUND;
				seen := true;
				asleep := asleep + (one.wait_event IS NOT DISTINCT FROM 'VacuumDelay')::int;
				holding := holding +
					(one.has AND one.wait_event IS NOT DISTINCT FROM 'VacuumDelay')::int;
			END LOOP;
		END $$});
	my $vacuum = IPC::Run::start([ 'psql', '-Xq', '-d',
			$node->connstr('postgres') . ' application_name=slow',
			'-c', 'SET vacuum_cost_limit = 4', '-c', "SET vacuum_cost_delay = '20ms'",
			'-c', 'VACUUM (INDEX_CLEANUP ON, PARALLEL 0) slow' ]);
	my ($holding, $asleep) = split /[|]/, $node->safe_psql('postgres', 'SELECT * FROM watch()');

	$vacuum->finish;
	cmp_ok($asleep, '>', 10, 'a slowed VACUUM sleeps');
	# it may get the lock between the two looks
	cmp_ok($holding, '<=', 1, 'but not while it has the fold lock');
}

# Errors: the log has them, and no other worker starts at once
{
	my $offset = -s $node->logfile;

	no_worker('before an error');
	set_step('written error');
	$node->safe_psql('postgres', "SET gpujoin.debug_step = ''; " . insertion('big'));
	log_comes_to($node, qr/failed at step "written"/, 'a flush fails', $offset);
	set_step('');
	$node->safe_psql('postgres', insertion('big', 5_000)) foreach 1 .. 3;
	is($node->safe_psql('postgres', $workers), '1', 'the worker stays');
	is(() = slurp_file($node->logfile, $offset) =~ /failed at step/g, 1, 'and does not try again');
	is_right('big', 'a failed flush');

	# SIGTERM, and then there is a new one, which finds the unfinished run
	$node->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE $is_worker");
	$node->safe_psql('postgres', insertion('big'));
	is_flushed('big', 'terminated');
	no_worker('terminated');
}
foreach my $what ('terminate', 'cancel')
{
	my $holder = worker_at('big', 'writing');
	my $offset = -s $node->logfile;

	$node->safe_psql('postgres',
		"SELECT pg_${what}_backend(pid) FROM pg_stat_activity WHERE $is_worker");
	log_comes_to($node, qr/(terminat|cancel)ing .* due to/, "$what, in a flush", $offset);
	is_right('big', "$what, in a flush");
	$holder->quit;
	$node->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE $is_worker");
	$node->safe_psql('postgres', insertion('big'));
	is_flushed('big', "$what: the next one");
}

# Logical replication inserts rows, too
{
	make_table('applied');
	$node->safe_psql('postgres', 'CREATE DATABASE source');
	$node->safe_psql('source', q{CREATE TABLE applied (id int, k int);
		CREATE PUBLICATION p FOR TABLE applied});
	$node->safe_psql('source', q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
	$node->safe_psql('postgres', sprintf(q{CREATE SUBSCRIPTION s CONNECTION '%s dbname=source'
		PUBLICATION p WITH (create_slot = false, copy_data = false)}, $node->connstr));
	$node->safe_psql('source', insertion('applied', 60_000));
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 60000 FROM applied'),
		'logical replication');
	is_flushed('applied', 'logical replication');
	$node->safe_psql('postgres', 'DROP SUBSCRIPTION s; DROP TABLE applied');
	$node->safe_psql('postgres', 'DROP DATABASE source');
	no_worker('logical replication');
}

# kill -9 of the worker, and crashes at its steps: the server recovers
foreach my $step ('rotated', 'closing', 'sorted ahead', 'begun', 'written', 'published', 'kill')
{
	my $offset = -s $node->logfile;

	if ($step eq 'kill')
	{
		my $holder = worker_at('big', 'sorted');

		kill 'KILL', $node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE $is_worker");
		log_comes_to($node, qr/database system is ready to accept connections/, 'killed', $offset);
		eval { $holder->quit };
	}
	else
	{
		no_worker("before step $step");
		set_step("$step crash");
		$node->psql('postgres', "SET gpujoin.debug_step = ''; " . insertion('big'));
		log_comes_to($node, qr/database system is ready to accept connections/, "$step: crash",
			$offset);
		set_step('');
	}
	is_right('big', "$step: after the crash");
	$node->safe_psql('postgres', insertion('big'));
	is_flushed('big', "$step: after the crash");
}
no_worker('after the crashes');
my $since = -s $node->logfile;

# No room: as many workers as are allowed, then as many processes as the server has
make_table("part$_") foreach 1 .. 5;
{
	my $most = 0;
	my @started = map { insertion("part$_") } 1 .. 5;

	set_workers('SET gpujoin.fold_workers = 2');
	my @clients = map {
		IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr('postgres'), '-c', $_ ])
	} @started;
	while (grep { $_->pumpable } @clients)
	{
		my $now = $node->safe_psql('postgres',
			"SELECT count(*) FROM pg_locks WHERE locktype = 'userlock' AND database = 0 AND granted
				AND mode = 'ExclusiveLock'");
		$most = $now if $now > $most;
		$_->reap_nb foreach @clients;
		# a client may end just now
		eval { $_->pump_nb if $_->pumpable } foreach @clients;
	}
	$_->finish foreach @clients;
	cmp_ok($most, '<=', 2, 'not more workers than allowed');
	$node->safe_psql('postgres', insertion("part$_", 30_000)) foreach 1 .. 5;
	# a request that was refused is repeated by later insertions
	foreach my $part (1 .. 5)
	{
		my $until = time + 60 * ($ENV{CHECK_PATIENCE} || 1);

		do { $node->safe_psql('postgres', insertion("part$part", 2_000)); sleep(0.2) }
		while (time < $until && $node->safe_psql('postgres',
				"SELECT delta_pages < 8 FROM gpujoin_index_info('part${part}_k')") ne 't');
		is_flushed("part$part", "index $part of 5");
	}
	no_worker('five indexes');

	# A request that was refused is repeated when there is room, without any further use of the
	# index
	set_workers('SET gpujoin.fold_workers = 1');
	is_repeated('wait', 'one number');
	set_workers('SET gpujoin.fold_workers = 0');
	no_worker('gpujoin.fold_workers = 0');
	$node->safe_psql('postgres', insertion('part1', 30_000));
	is($node->safe_psql('postgres', $workers), '0', 'then no worker starts');
	set_workers('RESET gpujoin.fold_workers');
}
{
	my $slots = $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity
		WHERE backend_type LIKE 'gpujoin%' OR backend_type = 'logical replication launcher'");

	# room for the supervisor, which is not listed, and for one worker
	$node->append_conf('postgresql.conf', 'max_worker_processes = ' . ($slots + 2));
	$node->restart;
	is_repeated('again', 'one process',
		q{SET gpujoin.force = on; SELECT id FROM part1 WHERE k = 1});
	$node->append_conf('postgresql.conf', "max_worker_processes = $slots");
	$node->restart;
	make_table('none');
	my $offset = -s $node->logfile;
	$node->safe_psql('postgres', insertion('none', 60_000));
	is($node->safe_psql('postgres', "SELECT requests > 0 AND requests = requests_refused
		FROM pg_stat_gpujoin_folds WHERE indexrelname = 'none_k'"), 't',
		'no process: it is counted');
	is_right('none', 'no process');
	unlike(slurp_file($node->logfile, $offset), qr/ERROR|FATAL|WARNING/, 'nothing else happens');
	$node->append_conf('postgresql.conf', 'max_worker_processes = 10');
	$node->restart;
	$node->safe_psql('postgres', insertion('none'));
	is_flushed('none', 'processes again');
}

# Partitions and COPY; unlogged; a search asks, too; temporary, and switched off
$node->safe_psql('postgres', q{
	CREATE TABLE parts (id int, k int) PARTITION BY HASH (id);
	CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (modulus 2, remainder 0);
	CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (modulus 2, remainder 1);
	CREATE INDEX parts1_k ON parts1 USING gpujoin (k) WITH (fold_pages = 8);
	CREATE INDEX parts2_k ON parts2 USING gpujoin (k) WITH (fold_pages = 8);});
my $file = $node->basedir . '/rows';
$node->safe_psql('postgres', "COPY (SELECT i, i FROM generate_series(1, 60000) i) TO '$file'");
$node->safe_psql('postgres', "COPY parts FROM '$file'");
is_flushed("parts$_", "COPY, partition $_") foreach 1, 2;
# A request is refused while all numbers are taken, and workers stay a while
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE $is_worker");
make_table('loose', 'UNLOGGED');
$node->safe_psql('postgres', insertion('loose'));
is_flushed('loose', 'unlogged');
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE $is_worker");
make_table('lazy');
$node->safe_psql('postgres', 'ALTER INDEX lazy_k SET (fold_pages = 0);' . insertion('lazy'));
is($node->safe_psql('postgres', "SELECT runs FROM gpujoin_index_info('lazy_k')"), '0',
	'switched off');
$node->safe_psql('postgres', 'ALTER INDEX lazy_k SET (fold_pages = 8); SET gpujoin.force = on;
	SELECT id FROM lazy WHERE k IN (1, 2)');
is_flushed('lazy', 'a search asks');
# A temporary table asks for no worker: insertions fold, also beside an open cursor, and in a
# subtransaction that is undone
is($node->safe_psql('postgres', 'CREATE TEMPORARY TABLE brief (id int, k int);
	CREATE INDEX brief_k ON brief USING gpujoin (k) WITH (fold_pages = 8);' . "
	INSERT INTO brief SELECT i, i % 1000 FROM generate_series(1, 200000) i;
	BEGIN; SET gpujoin.force = on;
	DECLARE c CURSOR FOR SELECT count(*) OVER (), id FROM brief WHERE k IN (1, 500);
	FETCH c;
	SAVEPOINT s;
	INSERT INTO brief SELECT i, i % 1000 FROM generate_series(1, 50000) i;
	ROLLBACK TO s;
	INSERT INTO brief SELECT i, i FROM brief b, generate_series(1, 100) i WHERE b.k IN (1, 2);
	COMMIT;
	SELECT gpujoin_check('brief_k', true);
	SELECT count(*) FROM brief WHERE k IN (1, 500);
	SELECT runs BETWEEN 1 AND 15 AND delta_pages < 10 FROM gpujoin_index_info('brief_k');
	SELECT requests, folds > 20 FROM pg_stat_gpujoin_folds WHERE indexrelname = 'brief_k'"),
	join("\n", '400|1', 290_000, 400 + 400, 't', '0|t'), 'a temporary table');
is($node->safe_psql('postgres', 'BEGIN; CREATE TABLE young (k int);
	CREATE INDEX young_k ON young USING gpujoin (k) WITH (fold_pages = 8);
	INSERT INTO young SELECT generate_series(1, 30000);' . "
	SELECT count(*) FROM pg_stat_gpujoin_folds WHERE indexrelname = 'young_k'; COMMIT"),
	'0', 'nor for a table of this transaction');

# A standby replays flushes, and asks for none; promoted, it does
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', 'ALTER INDEX big_k SET (fold_pages = 0);' . insertion('big')
	  . 'ALTER INDEX big_k SET (fold_pages = 8);');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(join("\n", differing($standby, 'SELECT id FROM big WHERE k IN (1, 5, 77)')), '', 'standby');
is($standby->safe_psql('postgres', $workers), '0', 'a search on a standby asks for no worker');
$node->stop;
log_is_clean($node, 'log of the primary is clean', $since);
$standby->promote;
$node = $standby;
$node->safe_psql('postgres', insertion('big'));
is_flushed('big', 'promoted');

# Without preloading
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
$node->safe_psql('postgres', insertion('big'));
is_flushed('big', 'not preloaded');
no_worker('not preloaded');

log_is_clean($node, 'log of the standby is clean');
done_testing();
