# The device process fails in every way that can be arranged: killed, frozen, crashing in the middle
# of a result or of a load, hanging, out of memory, slow. Each time the request in progress returns
# without an answer, no answer is wrong, the process restarts by itself, nothing leaks, and neither
# the server nor a session that watches notices anything else.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '16MB'", PATIENT);
my $bystander = open_bystander($node);

wait_ready($node);
is(service($node, 'device'), 'reference', 'the reference device serves');

# ---- answers --------------------------------------------------------------------------------

foreach my $shape ('10, nkeys => 100', '100, key_width => 8, nkeys => 1000',
	'0, nkeys => 5', '5, nkeys => 0', '1, slots => 32, nkeys => 32',
	'700, nkeys => 560000, key_width => 8', '300, slots => 8192, nkeys => 3')
{
	is(run_service($node, "$shape, requests => 3"), 'ok 3, fallbacks 0, wrong 0, loads 1',
		"answers are right: $shape");
	is(run_service($node, "$shape, requests => 3, reduce => true"),
		'ok 3, fallbacks 0, wrong 0, loads 1', "reductions are right: $shape");
}
is(run_service($node, '10, nkeys => 100, count_only => true, requests => 3'),
	'ok 3, fallbacks 0, wrong 0, loads 1', 'counts are right');
no_leaks($node, 'after right answers');

# ---- the process ends -----------------------------------------------------------------------

# Fault point, kind of fault, number of harmless calls before it
my @deaths = (
	[ 'begin', 'crash', 0, 'a crash when a match begins' ],
	[ 'next', 'crash', 1, 'a crash in the middle of a result' ],
	[ 'write', 'crash', 1, 'a crash in the middle of a load' ],
	[ 'write', 'exit', 1, 'an exit in the middle of a load' ],
	[ 'poll', 'abort', 1, 'an abort while it is asked for results' ],
	[ 'next', 'exit', 0, 'an exit in the middle of a result' ],
	[ 'keyset', 'lost', 0, 'a lost device' ],
	[ 'begin', 'hang', 0, 'a call that never returns' ],
	[ 'poll', 'block', 0, 'a call that takes too long', 600000 ],
	[ 'poll', 'delay', 0, 'a device that makes no progress', 600000 ]);

# Deaths in the middle of reductions; a load has a second push then
my @reducing_deaths = (
	[ 'begin', 'crash', 0, 'a crash when a reduction begins' ],
	[ 'next', 'crash', 0, 'a crash in the middle of groups' ],
	[ 'next', 'exit', 20, 'an exit in the middle of the rest' ],
	[ 'poll', 'abort', 1, 'an abort while it is asked for groups' ],
	[ 'keyset', 'lost', 0, 'a device lost before a reduction' ],
	[ 'begin', 'hang', 0, 'a reduction that never returns' ],
	[ 'poll', 'delay', 0, 'a reduction that makes no progress', 600000 ]);

foreach my $death (@deaths, map { [ @$_[ 0 .. 3 ], $_->[4] // 0, 1 ] } @reducing_deaths)
{
	my ($point, $kind, $skip, $name, $millis, $reduces) = @$death;
	my $arguments = '600, nkeys => 240000, requests => 1';
	my $epoch = service($node, 'epoch');
	my $failures = service($node, 'helper_failures');
	my $starts = service($node, 'helper_starts');
	my $to_be_watched = $kind =~ /hang|block|delay/;

	is(inject($node, $point, $kind, $skip, 1, $millis // 0), '', "arm: $name");
	# A result and a load that consist of several parts
	my $requests = service($node, 'requests');
	$arguments .= ', reduce => true' if $reduces;
	my $running = start_service($node, $arguments,
		"(SELECT state <> 'ready' OR helper_starts > $starts FROM gpujoin_status())");
	if ($to_be_watched)
	{
		wait_for_request($node, $requests, $reduces ? 4 : 3);
		watch_after($node, '2s');
	}
	# A client that watches a call gives up before the watchdog does.
	my $why = $to_be_watched ? qr/\|[tf]$/ : qr/\|t$/;
	like(finish_service($running), qr/^ok 0, fallbacks 1, wrong 0.*$why/,
		"$name: the request comes back unanswered, when all can see why");
	ok($node->poll_query_until('postgres', "SELECT epoch <> $epoch FROM gpujoin_status()"),
		"$name: a new epoch");
	# more than one, if a short timeout has hit the next process, too
	ok($node->poll_query_until('postgres', "SELECT helper_failures > $failures
			FROM gpujoin_status()"), "$name: counted");
	watch_after($node, '1h') if $to_be_watched;
	restart_now($node);
	is(run_service($node, $arguments),
		'ok 1, fallbacks 0, wrong 0, loads 1', "$name: answers are right again");
	no_leaks($node, $name);
}

# ---- failures that the process survives -----------------------------------------------------

my $epoch = service($node, 'epoch');

foreach my $point ('reserve', 'write', 'keyset', 'begin', 'next')
{
	inject($node, $point, 'no_memory', 0, 1);
	like(run_service($node, '600, nkeys => 240000, requests => 1'),
		qr/^ok 0, fallbacks 1, wrong 0/, "no memory at \"$point\": no answer");
	no_leaks($node, "no memory at \"$point\"");
}
inject($node, 'poll', 'delay', 0, 3, 100);
is(run_service($node, '10, nkeys => 100, requests => 10'),
	'ok 10, fallbacks 0, wrong 0, loads 1', 'a slow device still answers');
is(service($node, 'epoch'), $epoch, 'all by one and the same process');
isnt(service($node, 'requests_no_memory'), 0, 'counted as out of memory');

# ---- killed, frozen -------------------------------------------------------------------------

foreach my $signal ('KILL', 'STOP')
{
	inject($node, 'poll', 'delay', 0, 1, 600000);
	my $requests = service($node, 'requests');
	my $running = start_service($node, '10, nkeys => 100, requests => 1');
	wait_for_request($node, $requests, 3);
	my $pid = signal_helper($node, $signal);
	watch_after($node, '2s') if $signal eq 'STOP';
	like(finish_service($running), qr/^ok 0, fallbacks 1, wrong 0/,
		"SIG$signal in the middle of a request: it comes back unanswered");
	watch_after($node, '1h') if $signal eq 'STOP';
	ok(wait_replaced($node, $pid), "SIG$signal: another process");
	ok(!-e "/proc/$pid", "SIG$signal: the old one has gone");
	is(run_service($node, '10, nkeys => 100, requests => 1'),
		'ok 1, fallbacks 0, wrong 0, loads 1', "SIG$signal: answers are right again");
	no_leaks($node, "SIG$signal");
}
isnt(service($node, 'watchdog_kills'), 0, 'the watchdog has bitten');

# The process fails while it is idle, too
my $pid = signal_helper($node, 'STOP');
watch_after($node, '2s');
ok($node->poll_query_until('postgres',
		"SELECT helper_pid NOT IN (0, $pid) AND state = 'ready' FROM gpujoin_status()"),
	'a process that freezes while idle is replaced without anybody asking');
watch_after($node, '1h');

# ---- visible from outside -------------------------------------------------------------------

my $log = slurp_file($node->logfile);

unlike($log, qr/reinitializing/, 'the server did not restart');
is(ask_bystander($bystander), $bystander->{pid}, 'a session opened before all this is well');
like($log, qr/gpujoin works without a device: the device process crashed\n.*DETAIL: .*\n.*HINT: /,
	'the crash is logged, with advice');
like($log, qr/gpujoin works without a device: the device process did not respond/,
	'the freeze is logged');
like($log, qr/gpujoin works without a device: the GPU made no progress/, 'the hang is logged');
$bystander->{run}->kill_kill;
log_is_clean($node, 'the log shows no crash of PostgreSQL');

done_testing();
