# Parallel plans share one match, of TIDs (GpuScan here) or of entries (GpuJoin). A process ends
# while the match is made or used: the one that makes it, one that waits for it, the leader, or
# the device process. No other process hangs, nothing is left behind, and the next answer is
# right.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

# GpuAgg would compute an aggregate, and it needs only one process here.
my $workers = 3;
my $node = new_server('main', 'fsync = off', 'jit = off', "gpujoin.device = 'reference'",
	'gpujoin.aggregate = off',
	"gpujoin.device_timeout = '10min'", 'max_worker_processes = 20', 'max_parallel_workers = 8',
	'min_parallel_table_scan_size = 0', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0',
	'seq_page_cost = 0', 'random_page_cost = 0', 'gpujoin.setup_cost = 0',
	'gpujoin.search_cost = 0', 'gpujoin.tid_cost = 0', 'gpujoin.device_setup_cost = 0',
	'gpujoin.device_search_cost = 0', "max_parallel_workers_per_gather = $workers");

wait_ready($node);
$node->safe_psql('postgres', qq{
	CREATE TABLE big (id int, k int, v int, w int) WITH (parallel_workers = $workers);
	INSERT INTO big SELECT i, i % 100000, i % 7, i FROM generate_series(1, 300000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id, v);
	CREATE TABLE small AS SELECT i AS k FROM generate_series(1, 20000) i;
	VACUUM ANALYZE;
	CREATE FUNCTION slow(int) RETURNS boolean PARALLEL SAFE COST 1000 LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(600); RETURN true; END';
	SELECT gpujoin_load('big_k');
});
my $offset = -s $node->logfile;

my %queries = (
	GpuScan => 'SELECT count(v), sum(w) FROM big WHERE k = ANY (ARRAY(SELECT k FROM small))',
	GpuJoin => 'SELECT count(v), sum(id) FROM small JOIN big USING (k)');
# PostgreSQL would compare each row with every element of that array in turn.
my %stock = (%queries, GpuScan =>
	  'SELECT count(v), sum(w) FROM big WHERE k IN (SELECT k FROM small)');
my %answers = map {
	$_ => $node->safe_psql('postgres', "SET gpujoin.enabled = off; $stock{$_}")
} keys %queries;

# Start a query in its own session.
sub start_query
{
	my ($query, $leader_helps) = @_;
	my $session = { out => '', err => '' };

	$session->{run} = IPC::Run::start(
		[ 'psql', '-qXAt', '-v', 'VERBOSITY=verbose', '-d',
			$node->connstr('postgres') . ' application_name=victim', '-c', 'SET gpujoin.force = on',
			'-c', "SET parallel_leader_participation = $leader_helps", '-c', $query ],
		'<', \undef, '>', \$session->{out}, '2>', \$session->{err}, patience(180));
	return $session;
}

# Return the session's output when it has ended; fail if it does not end.
sub finish_query
{
	my $session = shift;

	eval { $session->{run}->finish; };
	if ($@)
	{
		$session->{run}->kill_kill;
		return "no end: $@";
	}
	chomp $session->{out};
	return $session->{err} || $session->{out};
}

# Processes of the query, ordered by start time.
my $processes = "(SELECT p.pid, p.wait_event_type, p.wait_event, p.backend_type,
	row_number() OVER (ORDER BY p.backend_start, p.pid) AS nr
	FROM pg_stat_activity p WHERE p.leader_pid = (SELECT l.pid FROM pg_stat_activity l
		WHERE l.application_name = 'victim' AND l.backend_type = 'client backend')
	AND p.backend_type = 'parallel worker') w";

# Wait until all workers wait: one for the device, the others for that worker.
sub wait_for_workers
{
	my $condition = shift;

	return $node->poll_query_until('postgres',
		"SELECT count(*) = $workers FROM $processes WHERE $condition");
}

sub nothing_left
{
	my $name = shift;

	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity
			WHERE backend_type = 'parallel worker' OR application_name = 'victim'"),
		"$name: no process is left");
	# a loader, which reloads the mirror, may still hold a lock for a moment
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks
			WHERE relation IN ('big'::regclass, 'big_k'::regclass, 'small'::regclass)}),
		"$name: no lock is left");
	foreach my $node_name (sort keys %queries)
	{
		is($node->safe_psql('postgres', "SET gpujoin.force = on; $queries{$node_name}"),
			$answers{$node_name}, "$name: $node_name answers right");
	}
}

# The device does not answer until it is replaced.
sub stop_answers { return inject($node, 'poll', 'delay', 0, 1, 600000); }

sub new_device
{
	wait_replaced($node, signal_helper($node, 'KILL'));
	$node->safe_psql('postgres', "SELECT gpujoin_load('big_k')");
}

my $waiting = "wait_event_type = 'Extension'";

foreach my $name (sort keys %queries)
{
	my $query = $queries{$name};

	like($node->safe_psql('postgres', "SET gpujoin.force = on; EXPLAIN (COSTS OFF) $query"),
		qr/Gather.*Parallel Custom Scan \($name\)/s, "$name: is parallel");
	is($node->safe_psql('postgres', "SET gpujoin.force = on; EXPLAIN $query") =~ /Index Only/,
		$name eq 'GpuJoin', "$name: from the index alone, or not");

	# ---- while the match is made -------------------------------------------------------------

	# One of these processes makes the match, the others wait for it.
	foreach my $nr (1 .. $workers)
	{
		stop_answers();
		my $session = start_query($query, 'off');
		ok(wait_for_workers($waiting), "$name: all workers wait");
		$node->safe_psql('postgres',
			"SELECT pg_terminate_backend(pid) FROM $processes WHERE nr = $nr");
		like(finish_query($session), qr/57P01|lost connection to parallel worker/,
			"$name: worker $nr is terminated during the match");
		new_device();
		nothing_left("$name, worker $nr");
	}

	foreach my $action ('pg_cancel_backend', 'pg_terminate_backend')
	{
		foreach my $leader_helps ('off', 'on')
		{
			stop_answers();
			my $session = start_query($query, $leader_helps);
			ok(wait_for_workers($waiting), "$name: all workers wait");
			$node->safe_psql('postgres', "SELECT $action(pid) FROM pg_stat_activity
				WHERE application_name = 'victim' AND backend_type = 'client backend'");
			like(finish_query($session), qr/57014|57P01|server closed the connection/,
				"$name: $action of the leader during the match, leader helps $leader_helps");
			new_device();
			nothing_left("$name, $action");
		}
	}

	stop_answers();
	my $session = start_query($query, 'off');
	ok(wait_for_workers($waiting), "$name: all workers wait");
	new_device();
	is(finish_query($session), $answers{$name}, "$name: the device's process dies: answered");
	nothing_left("$name, device");

	# ---- while rows are fetched --------------------------------------------------------------

	foreach my $victim ("$processes WHERE nr = 2",
		"pg_stat_activity WHERE application_name = 'victim' AND backend_type = 'client backend'")
	{
		my $sleepy = $name eq 'GpuScan' ? "$query AND slow(v)" : "$query WHERE slow(v)";
		$session = start_query($sleepy, 'on');
		ok(wait_for_workers("wait_event = 'PgSleep'"), "$name: all workers fetch");
		$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM $victim");
		like(finish_query($session),
			qr/57P01|lost connection to parallel worker|server closed the connection/,
			"$name: terminated during the fetch");
		nothing_left("$name, fetch");
	}
}

# ---- at any moment --------------------------------------------------------------------------

my ($cancelled, $finished, @wrong) = (0, 0);
foreach my $timeout ((grep { $_ % 3 == 1 || $ENV{CHECK_LONG} } 1 .. 20),
	25, 30, 40, 50, 70, 100, 150, 60000)
{
	foreach my $name (sort keys %queries)
	{
		my ($status, $out, $err) = $node->psql('postgres', "SET gpujoin.force = on;
			SET statement_timeout = $timeout; $queries{$name};
			RESET statement_timeout; SELECT 'alive'");
		if ($err =~ /statement timeout/) { $cancelled++; }
		elsif ($out eq "$answers{$name}\nalive") { $finished++; }
		else { push @wrong, "$name after $timeout ms: $out $err"; }
	}
}
is("@wrong", '', 'timeouts: cancelled or right');
cmp_ok($cancelled, '>', 0, 'timeouts: some were cancelled');
cmp_ok($finished, '>', 0, 'timeouts: some came to their end');
note("$cancelled cancelled, $finished finished");
nothing_left('timeouts');

log_is_clean($node, 'log has no sign of a leak', $offset);

done_testing();
