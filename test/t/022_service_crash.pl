# A PostgreSQL process is killed, which causes PostgreSQL's own crash restart: afterwards there is
# one device process, a new one, and it answers. Then there is no device, for each possible
# reason: gpujoin.device = none, no library, no driver; and no GPU where none was requested.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	'restart_after_crash = on', "gpujoin.result_buffer = '4MB'", PATIENT);

wait_ready($node);

# Return the pid of a process of this server, as the process itself reports it.
sub pid_of
{
	my $pid = shift;

	die "no such process" unless $pid > 1;
	return $pid;
}

# Wait until a process has ended; a zombie has ended.
sub is_gone
{
	my $pid = shift;

	foreach (1 .. 3600)
	{
		return 1 if !-e "/proc/$pid";
		open my $stat, '<', "/proc/$pid/stat" or return 1;
		return 1 if (<$stat> // 'gone) Z ') =~ /\) Z /;
		select(undef, undef, undef, 0.05);
	}
	return 0;
}

sub comes_back
{
	my ($name, $helper) = @_;

	poll_through_restarts($node, 'SELECT true');
	ok(is_gone($helper), "$name: the device process has gone, too");
	ok($node->poll_query_until('postgres', "SELECT state = 'ready'
			AND helper_pid NOT IN (0, $helper) FROM gpujoin_status()"),
		"$name: there is a device again, with another process");
	is(run_service($node, '20, nkeys => 500, requests => 5'),
		'ok 5, fallbacks 0, wrong 0, loads 1', "$name: answers are right");
	no_leaks($node, $name);
}

# ---- killed in the middle of a request ------------------------------------------------------

my $helper = service($node, 'helper_pid');
inject($node, 'poll', 'delay', 0, 0, 2000);
my $requests = service($node, 'requests');
my $running = start_service($node, '10, nkeys => 100');
wait_for_request($node, $requests, 3);
my $backend = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity
	WHERE query LIKE '%gpujoin_service_test%' AND pid <> pg_backend_pid()");
kill 'KILL', pid_of($backend);
finish_service($running);
comes_back('backend killed', $helper);

$helper = service($node, 'helper_pid');
kill 'KILL', pid_of(service($node, 'supervisor_pid'));
comes_back('supervisor killed', $helper);

my $log = slurp_file($node->logfile);
my $restarts = () = $log =~ /all server processes terminated; reinitializing/g;
is($restarts, 2, 'these were crash restarts');

# ---- the supervisor terminated, which is not a crash ----------------------------------------

$helper = service($node, 'helper_pid');
my $supervisor = service($node, 'supervisor_pid');
# An existing session sends a request while there is no device process: a new one cannot start,
# because the postmaster is stopped meanwhile.
my $before = -s $node->logfile;
my %session = (out => '', err => '');
$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'),
	'-c', "DO \$\$ BEGIN RAISE LOG 'now it may go'; LOOP
		EXIT WHEN (SELECT supervisor_pid <> $supervisor FROM gpujoin_status());
		PERFORM pg_sleep(0.01); END LOOP; END \$\$",
	'-c', service_sql('10, nkeys => 100') ],
	'<', \undef, '>', \$session{out}, '2>', \$session{err}, patience(300));
log_comes_to($node, qr/now it may go/, 'a session looks at the supervisor', $before);
my $postmaster = pid_of($node->{_pid});
kill 'STOP', $postmaster;
kill 'TERM', pid_of($supervisor);
like(finish_service(\%session), qr/^ok 0, fallbacks 1, wrong 0/,
	'when that has gone there is no device');
kill 'CONT', $postmaster;
comes_back('supervisor terminated', $helper);
is(() = slurp_file($node->logfile) =~ /reinitializing/g, 2, 'that was no crash');

# ---- the whole server stops: nothing is left ------------------------------------------------

$helper = service($node, 'helper_pid');
$node->stop('fast');
ok(is_gone($helper), 'with the server the device process ends');
$node->start;
wait_ready($node);
$helper = service($node, 'helper_pid');
$node->stop('immediate');
ok(is_gone($helper), 'and when it is stopped immediately');

# ---- no device ------------------------------------------------------------------------------

$node->adjust_conf('postgresql.conf', 'gpujoin.device', "'none'");
$node->start;
is(service($node, "state || ': ' || reason"), 'off: gpujoin.device is none', 'no device wanted');
is(service($node, 'supervisor_pid'), 0, 'and no process for it');
like(run_service($node, '10, nkeys => 100'), qr/^ok 0, fallbacks 1, wrong 0/,
	'nothing is answered');

# The library exists but finds no such device
my $from = -s $node->logfile;
$node->adjust_conf('postgresql.conf', 'gpujoin.device', "'reference'");
$node->append_conf('postgresql.conf', "gpujoin.gpu = '17'");
$node->restart;
$node->poll_query_until('postgres', "SELECT state = 'failed' FROM gpujoin_status()");
is(service($node, "state || ': ' || reason"),
	'failed: no such GPU: device "17" does not exist', 'a device that does not exist');
sleep 3;
is(service($node, 'helper_starts'), 1, 'is looked for once');
$node->reload;
$node->poll_query_until('postgres', 'SELECT helper_starts = 2 FROM gpujoin_status()');
$node->poll_query_until('postgres', "SELECT state = 'failed' FROM gpujoin_status()");
is(service($node, 'helper_starts'), 2, 'and again after a reload');
$log = slurp_file($node->logfile, $from);
like($log, qr/gpujoin works without a device: no such GPU.*DETAIL.*"17" does not exist.*HINT/s,
	'with reason and advice in the log');

# Wait until the server knows whether there is a device
sub settled
{
	$node->poll_query_until('postgres',
		"SELECT state IN ('none', 'failed', 'ready') FROM gpujoin_status()");
	return service($node, 'state');
}

# This machine may or may not have a GPU: either it is used, or its absence is no fault unless it
# was requested. (A card that exists but cannot be used is a fault.) The log may say that the shared
# session ends.
$node->stop;
$from = -s $node->logfile;
$node->adjust_conf('postgresql.conf', 'gpujoin.device', "'auto'");
$node->adjust_conf('postgresql.conf', 'gpujoin.gpu', "''");
$node->start;
my $state = settled();
note("auto: $state: " . service($node, 'reason') . service($node, 'device'));
is(run_service($node, '20, nkeys => 500, requests => 5'),
	$state eq 'ready' ? 'ok 5, fallbacks 0, wrong 0, loads 1' :
	  'ok 0, fallbacks 5, wrong 0, loads 0', "auto: $state");
SKIP:
{
	skip 'there is a card', 8 if glob '/dev/nvidia[0-9]*';
	is($state, 'none', 'auto: there is no GPU');
	like(service($node, 'reason'), qr/^(no device library for GPUs is installed|there is no GPU: )/,
		'which is said');
	like(service($node, 'hint'), qr{^To run without a GPU, nothing is needed\.},
		'and what may be done');
	$supervisor = service($node, 'supervisor_pid');
	my $reloaded = -s $node->logfile;
	$node->reload;
	log_comes_to($node, qr/received SIGHUP/, 'a reload', $reloaded);
	sleep 2;
	is(settled() . ' ' . service($node, 'helper_failures') . ' ' . service($node, 'supervisor_pid'),
		"none 0 $supervisor", 'looked for again when reloaded, without a failure or a restart');
	$log = slurp_file($node->logfile, $from);
	is(() = $log =~ /gpujoin works without a device/g, 1, 'it is in the log once');
	unlike($log, qr/WARNING|ERROR|FATAL|gpujoin device process/, 'not as something that is wrong');

	$node->adjust_conf('postgresql.conf', 'gpujoin.device', "'cuda'");
	$node->restart;
	is(settled(), 'failed', 'where one was asked for, that there is none is a fault');
}
log_is_clean($node, 'the log is clean', $from);

done_testing();
