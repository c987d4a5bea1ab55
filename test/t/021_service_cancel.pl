# Requests that no backend waits for any more: cancelled at random moments, with a terminated
# backend, with a late answer. The test also has requests under pressure: more clients than slots,
# and a device process that is killed repeatedly under load. No answer is wrong, nothing leaks.

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
	"gpujoin.result_buffer = '1MB'", 'gpujoin.max_requests = 4', PATIENT);
my $bystander = open_bystander($node);

wait_ready($node);
my $epoch = service($node, 'epoch');

# ---- cancelled ------------------------------------------------------------------------------

# Each statement makes a column, fills it and searches it, so the timeout hits any of these steps.
# The setting is part of the same query: it is undone when that is cancelled, and does not affect
# the next.
inject($node, 'poll', 'delay', 0, 0, 10);
my $script = join '', map {
	"SET statement_timeout = '" . (3 + $_ % 60) . "ms' \\;\n"
	  . service_sql('60, nkeys => 2000') . ";\n"
} 1 .. 200;
my ($status, $out, $err) = $node->psql('postgres', $script, on_error_stop => 0);
my $cancelled = () = $err =~ /canceling statement due to statement timeout/g;
# All slots may be waiting for the device process if it does not get a processor.
my $answered = () = $out =~ /ok (?:1, fallbacks 0|0, fallbacks 1), wrong 0/g;

cmp_ok($cancelled, '>', 100, "of 200 requests $cancelled were cancelled");
is($cancelled + $answered, 200, 'and the others answered');
inject($node, 'poll', 'none', 0, 0);
no_leaks($node, 'after 200 requests with a timeout');
# Do not require all of them: on a busy machine the steps before a request may take longer than
# the timeout.
cmp_ok(service($node, 'requests_abandoned'), '>', 0, 'abandoned requests are counted');

# The answer to the first request arrives while the second is in progress.
inject($node, 'poll', 'delay', 0, 1, 400);
($status, $out, $err) = $node->psql('postgres', "SET statement_timeout = '100ms' \\;\n"
	  . service_sql('10, nkeys => 1000') . ";\n"
	  . service_sql('20, nkeys => 77, requests => 200') . ";\n", on_error_stop => 0);
like($err, qr/canceling statement/, 'a request is cancelled');
like($out, qr/ok 200, fallbacks 0, wrong 0/, 'its late answer reaches nobody');

# ---- terminated -----------------------------------------------------------------------------

inject($node, 'poll', 'delay', 0, 1, 600000);
my $requests = service($node, 'requests');
my $running = start_service($node, '10, nkeys => 100');
wait_for_request($node, $requests, 3);
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE query LIKE '%gpujoin_service_test%' AND pid <> pg_backend_pid()");
like(finish_service($running), qr/terminating connection/,
	'a backend is terminated while it waits');
is(service($node, 'epoch'), $epoch, 'all that time it was the same device process');

# The column of that session has no owner any more: here only the end of the process frees it.
wait_replaced($node, signal_helper($node, 'KILL'));
no_leaks($node, 'after the termination');

# ---- an error during a load -----------------------------------------------------------------

inject($node, 'write', 'delay', 0, 0, 20);
($status, $out, $err) = $node->psql('postgres', "SET statement_timeout = '15ms';\n"
	  . service_sql('400, nkeys => 10') . ";\n", on_error_stop => 0) for 1 .. 20;
inject($node, 'write', 'none', 0, 0);
no_leaks($node, 'after loads that were cancelled');

# ---- more clients than slots, and kills under load ------------------------------------------

my $load = $node->basedir . '/load.sql';
append_to_file($load, "SELECT 1 / (wrong = 0)::int
	FROM gpujoin_service_test(20, nkeys => 500, requests => 20);\n");

# Eight clients, each with this number of transactions
sub load_of
{
	my $transactions = shift;

	return ('pgbench', '-n', '-c', '8', '-j', '1', '-t', $transactions, '-f', $load,
		$node->connstr('postgres'));
}

$node->command_checks_all([ load_of(40) ], 0, [qr/number of failed transactions: 0 /], [],
	'eight clients share four slots');
no_leaks($node, 'after that');

# Repeat rounds of load until there were enough kills, however fast the machine is.
my $kills = 0;
my $rounds = 0;
my $bad_rounds = 0;

while ($kills < 12)
{
	my ($pgbench_out, $pgbench_err) = ('', '');
	my $pgbench = IPC::Run::start([ load_of(20) ], '<', \undef, '>', \$pgbench_out, '2>',
		\$pgbench_err, patience(300));

	while ($pgbench->pumpable && $kills < 12)
	{
		$pgbench->pump_nb;
		my $pid = signal_helper($node, $kills % 3 == 2 ? ('STOP', 'KILL') : 'KILL');
		$kills++ if $pid;
		wait_replaced($node, $pid);
		select(undef, undef, undef, 0.3);
	}
	$pgbench->finish;
	$rounds++;
	next if $pgbench->result(0) == 0 && $pgbench_out =~ /number of failed transactions: 0 /;
	$bad_rounds++;
	diag($pgbench_out . $pgbench_err);
}
is($bad_rounds, 0, 'no client failed and no answer was wrong under load while it was killed');
note("$kills kills in $rounds rounds of load");
is(run_service($node, '20, nkeys => 500, requests => 5'), 'ok 5, fallbacks 0, wrong 0, loads 1',
	'the next answers are right');
no_leaks($node, 'after the kills under load');

is(ask_bystander($bystander), $bystander->{pid}, 'a session opened before all this is well');
$bystander->{run}->kill_kill;
unlike(slurp_file($node->logfile), qr/reinitializing/, 'the server did not restart');
log_is_clean($node, 'the log shows no crash of PostgreSQL');

done_testing();
