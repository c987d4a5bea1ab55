# The device cannot be opened, or its result buffer cannot be registered: each reason appears in the
# status and in the log, with advice. Transient failures are retried, permanent ones are not, unless
# there was a device before. The reference library reads the failures from a file.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use POSIX ();
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $faults = PostgreSQL::Test::Utils::tempdir() . '/faults';

sub fail_with
{
	my $text = shift;

	open my $file, '>', "$faults.new" or die "$faults.new: $!";
	print $file "$text\n";
	close $file;
	rename "$faults.new", $faults or die "$faults: $!";
	return;
}

# Return what the log says about a failure: detail and hint belong to the message before them.
sub logged
{
	my ($node, $from, $text, $detail, $hint, $name) = @_;
	my $log = slurp_file($node->logfile, $from);

	like($log, qr/$text\n[^\n]*DETAIL:[^\n]*$detail[^\n]*\n[^\n]*HINT:[^\n]*$hint/,
		"$name: in the log, with advice");
	return;
}

fail_with('open no_driver 35');
local $ENV{GPUJOIN_REFERENCE_FAULTS} = $faults;
my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '4MB'", PATIENT);

# ---- at the server's start ------------------------------------------------------------------

# Failure, state, reason, advice
my @failures = (
	[ 'no_driver', 35, 'failed', 'no usable GPU driver', 'Install the GPU' ],
	[ 'no_device', 100, 'failed', 'no such GPU', 'nvidia-smi -L' ],
	[ 'no_permission', 13, 'failed', 'no permission to use the GPU', '/dev/nvidia' ],
	[ 'in_use', 46, 'restarting', 'the GPU is reserved by another process', 'compute mode' ],
	[ 'no_memory', 2, 'restarting', 'the GPU has not enough free memory', 'device_memory' ],
	[ 'no_host_memory', 12, 'restarting', 'the device process ran out of memory', 'ulimit -l' ],
	# the last one is permanent: the status keeps its message until the reload
	[ 'unsupported', 801, 'failed', 'the GPU or the system cannot do what gpujoin needs',
		'compute capability 8.0' ]);
my $from = 0;

foreach my $failure (@failures)
{
	my ($kind, $code, $state, $reason, $hint) = @$failure;

	if ($kind ne 'no_driver')
	{
		$from = -s $node->logfile;
		fail_with("open $kind $code");
		$node->reload;
	}
	# all in one query: "restarting" does not last
	ok($node->poll_query_until('postgres', "SELECT state = '$state' AND
			reason = '$reason: injected: $kind' AND hint ~ '$hint' FROM gpujoin_status()"),
		"$kind: $state, with the reason, and advice");
	logged($node, $from, "gpujoin works without a device: $reason",
		"injected: $kind \\(error $code\\)", $hint, $kind);
}
like(run_service($node, '10, nkeys => 100'), qr/^ok 0, fallbacks 1, wrong 0/,
	'without a device nothing is answered');

$node->safe_psql('postgres', q{
	CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 1000) i;
	CREATE INDEX t_k ON t USING gpujoin (k)});
my ($status, $out, $err) = $node->psql('postgres', q{SELECT gpujoin_load('t_k')});
like($err, qr/"t_k": the GPU or the system cannot do what .*\nHINT:  Choose another GPU/,
	'who wants to load an index is told why, and what may help');
like($node->safe_psql('postgres', q{SET gpujoin.force = on;
	EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM t WHERE k = 7}),
	qr/Device Reason: the GPU or the system cannot do what .*\n *Device Hint: Choose another GPU/,
	'so does EXPLAIN');

fail_with('');
$node->reload;
ok(wait_ready($node), 'when the obstacle has gone there is a device');

# ---- there was a device, and it disappears --------------------------------------------------

foreach my $kind ('no_driver', 'no_device', 'no_permission')
{
	fail_with("open $kind 100");
	signal_helper($node, 'KILL');
	ok($node->poll_query_until('postgres', "SELECT reason LIKE '%injected: $kind'
			FROM gpujoin_status()"), "$kind where there was a device");
	is(service($node, 'state'), 'restarting', "$kind where there was a device: looked for again");
	fail_with('');
	restart_now($node);
}

# ---- a reload during a failure --------------------------------------------------------------

# Have the next process wait for the file of failures, a pipe, while it opens its device.
sub open_slowly
{
	my $old = service($node, 'helper_pid');

	unlink $faults;
	POSIX::mkfifo($faults, 0600) or die "$faults: $!";
	kill 'KILL', $old if $old > 1;
	$node->reload;
	open my $pipe, '>', $faults or die "$faults: $!";
	ok($node->poll_query_until('postgres', "SELECT helper_pid NOT IN (0, $old) AND
		state = 'starting' FROM gpujoin_status()"), 'the next process opens its device');
	return $pipe;
}

# While the supervisor is stopped:
my $pipe = open_slowly();
my $supervisor = service($node, 'supervisor_pid');
my $opening = service($node, 'helper_pid');
die 'no such process' unless $supervisor > 1 && $opening > 1;
kill 'STOP', $supervisor;
print $pipe "open unsupported 801\n";
close $pipe;
fail_with('');
foreach (1 .. 1800)
{
	last if slurp_file("/proc/$opening/stat") =~ /\) Z/;
	select(undef, undef, undef, 0.1);
}
kill 'HUP', $supervisor;
kill 'CONT', $supervisor;
ok(wait_ready($node), 'a reload counts, although the failure has not been noticed yet');

# ---- a load requested meanwhile ---------------------------------------------------------------

foreach my $case ([ '', qr/^t\n$/, qr/^$/, 'is done when the device is there' ],
	[ 'open unsupported 801', qr/^$/,
		qr/ERROR:  55000: could not load index "t_k": the GPU or the .*\nHINT:  Choose another GPU/,
		'fails when it is known that there is none' ])
{
	my ($fault, $right, $error, $what) = @$case;
	my ($answer, $said) = ('', '');

	$pipe = open_slowly();
	($status, $out, $err) = $node->psql('postgres',
		q{SET statement_timeout = '50ms'; SELECT gpujoin_load('t_k')});
	like($err, qr/canceling statement due to statement timeout/,
		'a load waits, and can be cancelled');
	local $ENV{PGAPPNAME} = 'load';
	my $load = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c',
			q{SELECT gpujoin_load('t_k') > 0} ],
		'<', \undef, '>', \$answer, '2>', \$said, patience(300));
	wait_for_query($node, 'load', "wait_event_type = 'Extension'");
	# from now on another file is read
	fail_with($fault);
	print $pipe "$fault\n";
	close $pipe;
	$load->finish;
	like($answer, $right, "who waits: the load $what");
	like($said, $error, "who waits: is told if the load $what");
}
fail_with('');
$node->reload;
ok(wait_ready($node), 'and again there is a device');
$node->safe_psql('postgres', q{SELECT gpujoin_unload('t_k')});

# ---- the result buffer cannot be registered -------------------------------------------------

foreach my $case ([ 'no_host_memory', 12, 'LimitMEMLOCK' ], [ 'no_permission', 1, 'CAP_IPC_LOCK' ],
	[ 'unsupported', 801, 'more slowly' ])
{
	my ($kind, $code, $hint) = @$case;

	$from = -s $node->logfile;
	fail_with("register $kind $code");
	wait_replaced($node, signal_helper($node, 'KILL'));
	is(service($node, 'direct_copies'), 'f', "register, $kind: copies are not direct");
	logged($node, $from, 'gpujoin could not register the result buffer[^\n]*',
		"injected: $kind \\(error $code\\).*limit for locked memory is", $hint, "register, $kind");
	is(run_service($node, '600, nkeys => 240000, requests => 2'),
		'ok 2, fallbacks 0, wrong 0, loads 1', "register, $kind: answers are right");
}
no_leaks($node, 'after all this');
log_is_clean($node, 'the log shows no crash of PostgreSQL');

done_testing();
