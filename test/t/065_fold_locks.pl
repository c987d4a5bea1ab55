# Who holds a lock of a relation does not wait for folds or merges behind PostgreSQL's back, where
# its deadlock detector does not look, and nobody makes PostgreSQL cancel an autovacuum. LOCK TABLE
# gets its lock beside a merge of a worker, for which gpujoin_fold() waits, and beside a merge of
# gpujoin_fold(). Sessions that meet unsorted rows at the same time register one worker. A search
# does not fail because the lock table is full.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $is_worker = "backend_type = 'gpujoin fold worker'";
# somebody has the merge lock
my $is_merging = "SELECT count(*) = 1 FROM pg_locks
	WHERE locktype = 'userlock' AND objsubid = 3 AND granted";
my $patience = 60 * ($ENV{CHECK_PATIENCE} || 1);

my $node = new_server('primary', 'fsync = off', 'gpujoin.auto_load = off',
	'deadlock_timeout = 100ms', 'max_worker_processes = 40', 'max_connections = 40',
	'max_locks_per_transaction = 10', 'log_min_messages = debug1',
	'log_autovacuum_min_duration = 0');

# Set parameters of the server
sub configure
{
	$node->append_conf('postgresql.conf', join("\n", @_, ''));
	$node->reload;
	return;
}

# Start a session that executes commands; returns it, and what it says
sub start
{
	my ($name, @commands) = @_;
	my $said = '';
	my $run = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
			$node->connstr('postgres') . " application_name=$name", map { ('-c', $_) } @commands ],
		'>', \$said, '2>&1', patience(600));

	return ($run, \$said);
}

sub is_right
{
	my ($name) = @_;

	is($node->safe_psql('postgres', "SELECT gpujoin_check('big_k', true) - count(*) FROM big"),
		'0', "$name: an entry for each row");
	return;
}

# LOCK TABLE gets the lock while the merge goes on
sub is_lockable
{
	my ($name) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET lock_timeout = '${patience}s';
		BEGIN; LOCK TABLE big; $is_merging; COMMIT");

	is("$out$err", 't', "$name: LOCK TABLE gets its lock, and the merge goes on");
	return;
}

$node->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int);
	CREATE TABLE other (id int);
	INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 60000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id) WITH (lanes = 1, fold_pages = 8)});

# Add two small runs, which make a merge of all runs due
my $add_runs = q{
	INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 70000) i;
	SELECT gpujoin_fold('big_k');
	INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 70000) i;};

# ---- gpujoin_fold() waits for the merge of a worker -------------------------------------------
{
	# steps of one page, with a pause of about a second after each
	configure('gpujoin.fold_workers = 3', "gpujoin.debug_step = 'none'",
		'autovacuum_vacuum_cost_delay = 100ms', 'autovacuum_vacuum_cost_limit = 10');
	$node->safe_psql('postgres', 'INSERT INTO big
		SELECT i, i % 1000 FROM generate_series(1, 150000) i');
	ok($node->poll_query_until('postgres', $is_merging), 'a worker merges');
	my ($run, $said) = start('fold', "SELECT gpujoin_fold('big_k', true) >= 0",
		"SELECT runs FROM gpujoin_index_info('big_k')");
	ok(wait_for_query($node, 'fold', "wait_event_type = 'Extension'"), 'gpujoin_fold() waits');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE application_name = 'fold' AND locktype = 'relation'
				AND relation IN ('big'::regclass, 'big_k'::regclass)"), '0', 'without locks');
	is_lockable('beside a worker');

	# A transaction that has locked a table does not wait: the worker may wait for that table
	my ($status, $out, $err) = $node->psql('postgres', "BEGIN; LOCK TABLE other;
		SELECT gpujoin_fold('big_k', true) >= 0; $is_merging; COMMIT");
	is($out, "t\nt", 'who has locked a table does not wait for the merge');
	like($err, qr/NOTICE:  another process merges index "big_k"/, 'and is told so');

	configure('autovacuum_vacuum_cost_delay = 0', "gpujoin.debug_step = ''");
	$run->finish;
	is($$said, "t\n1\n", 'gpujoin_fold() merges what the worker has left') or diag($$said);
	is_right('beside a worker');
}

# ---- a merge of gpujoin_fold() gives way ------------------------------------------------------
{
	configure('gpujoin.fold_workers = 0');
	$node->safe_psql('postgres', $add_runs);

	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	my ($run, $said) = start('fold', "SET gpujoin.debug_step = 'two steps wait'",
		"SELECT gpujoin_fold('big_k', true) > 0", "SELECT runs FROM gpujoin_index_info('big_k')");
	ok(wait_for_query($node, 'fold', "wait_event = 'advisory'"), 'gpujoin_fold() merges');
	is_lockable('beside gpujoin_fold()');

	# The index is rebuilt between two steps: the merge is void
	$node->safe_psql('postgres', 'TRUNCATE big; INSERT INTO big VALUES (1, 1)');
	$holder->quit;
	$run->finish;
	is($$said, "t\n0\n", 'a rebuilt index ends the merge');
	is_right('after TRUNCATE');

	# The table is dropped between two steps
	$node->safe_psql('postgres', q{
		CREATE TABLE gone (k int);
		CREATE INDEX gone_k ON gone USING gpujoin (k);
		INSERT INTO gone SELECT generate_series(1, 40000);
		SELECT gpujoin_fold('gone_k');
		INSERT INTO gone SELECT generate_series(1, 40000);});
	$holder = $node->background_psql('postgres', on_error_stop => 0);
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	($run, $said) = start('fold', "SET gpujoin.debug_step = 'two steps wait'",
		"SELECT gpujoin_fold('gone_k', true)");
	ok(wait_for_query($node, 'fold', "wait_event = 'advisory'"), 'gpujoin_fold() merges again');
	$node->safe_psql('postgres', "SET lock_timeout = '${patience}s'; DROP TABLE gone");
	$holder->quit;
	$run->finish;
	like($$said, qr/ERROR: .*(does not exist|could not open|dropped)/,
		'a dropped index is an error');
	is($node->safe_psql('postgres', $is_merging), 'f', 'which leaves the merge');
}

# ---- an autovacuum is not canceled ------------------------------------------------------------
{
	my $offset = -s $node->logfile;
	my $is_deleting = "SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'autovacuum worker' AND wait_event = 'advisory'";
	my $holder = $node->background_psql('postgres', on_error_stop => 0);

	$node->safe_psql('postgres', q{
		INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 20000) i;
		SELECT gpujoin_fold('big_k');
		INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 20000) i;
		ALTER TABLE big SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0);
		DELETE FROM big WHERE id % 3 = 0;
		ALTER DATABASE postgres SET gpujoin.debug_step = 'cleaned wait'});
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	configure('autovacuum = on', 'autovacuum_naptime = 1s', 'autovacuum_vacuum_cost_delay = 0');
	ok($node->poll_query_until('postgres', $is_deleting), 'autovacuum deletes from the index');
	configure('autovacuum_naptime = 1h');

	my @runs;
	foreach my $command ("SELECT gpujoin_fold('big_k') >= 0",
		"SELECT gpujoin_fold('big_k', true) >= 0")
	{
		my ($run, $said) = start('fold', "SET gpujoin.debug_step = ''", $command);

		push @runs, [ $run, $said ];
		ok(wait_for_query($node, 'fold', "wait_event_type = 'Extension'"), 'a fold waits');
	}
	is($node->safe_psql('postgres', "SET gpujoin.debug_step = '';
			SELECT gpujoin_check('big_k', true) > 0"), 't', 'a check does not wait');
	# Ten times deadlock_timeout: who waits in the lock manager would have canceled it
	is($node->safe_psql('postgres', "SELECT pg_sleep(1); SELECT count(*) FROM pg_locks
			WHERE locktype = 'userlock' AND NOT granted"), "\n0",
		'nobody waits in the lock manager');
	is($node->safe_psql('postgres', $is_deleting), 't', 'autovacuum still deletes');
	$holder->quit;
	foreach my $run (@runs)
	{
		$run->[0]->finish;
		is(${ $run->[1] }, "t\n", 'the fold ends');
	}
	log_comes_to($node, qr/automatic vacuum of table "postgres.public.big"/, 'autovacuum ends',
		$offset);
	unlike(slurp_file($node->logfile, $offset), qr/canceling autovacuum task/,
		'autovacuum has not been canceled');
	configure('autovacuum = off');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET gpujoin.debug_step');
	is_right('beside autovacuum');
}

# ---- one worker is registered -----------------------------------------------------------------
{
	my $nsessions = 12;
	my $search = 'SET gpujoin.force = on; SELECT count(*) FROM big WHERE k IN (1, 5)';
	my $postmaster = slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//rs;

	$node->safe_psql('postgres',
		'INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 40000) i');
	configure('gpujoin.fold_workers = 3');
	$node->poll_query_until('postgres', 'SELECT current_setting(\'gpujoin.fold_workers\') = \'3\'');
	my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. $nsessions;
	my $offset = -s $node->logfile;

	# While the postmaster is stopped no worker starts
	kill 'STOP', $postmaster;
	$_->query_safe($search) foreach @sessions;
	kill 'CONT', $postmaster;
	ok($node->poll_query_until('postgres',
			"SELECT delta_pages < 8 FROM gpujoin_index_info('big_k')"), 'a worker comes');
	$_->quit foreach @sessions;
	my $log = slurp_file($node->logfile, $offset);
	my $n = () = $log =~ /\bregistering background worker "gpujoin fold/g;
	is($n, 1, "$nsessions sessions register one worker");
	ok($node->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE $is_worker"), 'the worker ends');
}

# ---- without preloading, few insertions ask ---------------------------------------------------
{
	my $nsessions = 12;
	my $other = new_server('other', "shared_preload_libraries = ''", 'log_min_messages = debug1',
		'max_worker_processes = 40', 'gpujoin.fold_workers = 0');
	my $postmaster = slurp_file($other->data_dir . '/postmaster.pid') =~ s/\n.*//rs;

	$other->safe_psql('postgres', q{
		CREATE TABLE big (id int, k int);
		CREATE INDEX big_k ON big USING gpujoin (k) WITH (lanes = 1, fold_pages = 64);
		INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 49000) i;
		ALTER SYSTEM SET gpujoin.fold_workers = 3;
		SELECT pg_reload_conf()});
	my @sessions = map { $other->background_psql('postgres', on_error_stop => 0) } 1 .. $nsessions;
	my $offset = -s $other->logfile;

	# Each session opens a page at least, before a worker starts
	kill 'STOP', $postmaster;
	$_->query_safe('INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 1000) i')
		foreach @sessions;
	my $pages = $sessions[0]->query_safe("SELECT delta_pages FROM gpujoin_index_info('big_k')");
	kill 'CONT', $postmaster;
	cmp_ok($pages, '>', 68, 'the delta is big enough for a flush');
	ok($other->poll_query_until('postgres',
			"SELECT delta_pages < 64 FROM gpujoin_index_info('big_k')"), 'a worker comes, too');
	$_->quit foreach @sessions;
	my $log = slurp_file($other->logfile, $offset);
	my $n = () = $log =~ /\bregistering background worker "gpujoin fold/g;
	cmp_ok($n, '<=', 3, "$nsessions sessions without shared memory register few workers");

	# These requests are lost while workers are off: later each page that is opened makes one
	$other->safe_psql('postgres', 'ALTER SYSTEM SET gpujoin.fold_workers = 0;
		SELECT pg_reload_conf()');
	ok($other->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE $is_worker"), 'the worker ends');
	$other->safe_psql('postgres', 'INSERT INTO big
			SELECT i, i % 1000 FROM generate_series(1, 120000) i;
		ALTER SYSTEM SET gpujoin.fold_workers = 3; SELECT pg_reload_conf()');
	$other->poll_query_until('postgres', "SELECT current_setting('gpujoin.fold_workers') = '3'");
	$other->safe_psql('postgres',
		'INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 1000) i');
	ok($other->poll_query_until('postgres',
			"SELECT delta_pages < 64 FROM gpujoin_index_info('big_k')"), 'and another one comes');
	$other->stop;
}

# ---- the lock table is full -------------------------------------------------------------------
{
	my $search = 'EXECUTE search';
	my $reader = $node->background_psql('postgres', on_error_stop => 0);
	my $hoarder = $node->background_psql('postgres', on_error_stop => 0);

	configure('gpujoin.fold_workers = 0');
	$reader->query_safe('SET gpujoin.force = on;
		PREPARE search AS SELECT count(*) FROM big WHERE k IN (1, 5)');
	my $found = $reader->query_safe($search);
	$node->safe_psql('postgres', 'INSERT INTO big SELECT i, 7 FROM generate_series(1, 40000) i');
	configure('gpujoin.fold_workers = 3');
	$hoarder->query('SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 1000000) i');
	like(slurp_file($node->logfile), qr/ERROR:  out of shared memory/, 'the lock table is full');
	is($reader->query($search), $found, 'a search that would request a worker succeeds');
	is($reader->{stderr}, '', 'and says nothing');
	$hoarder->quit;
	$reader->quit;
	is_right('the lock table was full');
}

done_testing();
