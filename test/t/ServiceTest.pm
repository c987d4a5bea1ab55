# Shared by the TAP tests of the device service.
package ServiceTest;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(PATIENT STAGING COLUMN_LIST service wait_ready restart_now run_service
  start_service finish_service wait_for_request watch_after inject no_leaks comes_to_rest
  signal_helper wait_replaced service_sql open_bystander ask_bystander);

# A line for the configuration. On a busy machine a healthy device process may be silent for
# seconds; only tests of the watchdog shorten this, when the watchdog has to act.
use constant PATIENT => "gpujoin.device_timeout = '1h'";

# Scratch memory that a device keeps from start to end: three buffers of 8 MB for page images
# (staging_buffers and staging_bytes in cuda/kernels/policy.cuh), and for each column a list of its
# extents. The reference device counts the same.
use constant STAGING => 3 * 8 * 1024 * 1024;
use constant COLUMN_LIST => 256 * 1024;

# Time limit for background programs, in seconds
use constant LONG => 300 * ($ENV{CHECK_PATIENCE} || 1);

# Return one column of gpujoin_status(): of the first device.
sub service
{
	my ($node, $column) = @_;

	return $node->safe_psql('postgres', "SELECT $column FROM gpujoin_status()");
}

sub wait_ready
{
	my $node = shift;

	return $node->poll_query_until('postgres', "SELECT state = 'ready' FROM gpujoin_status()");
}

# Skip the delay before the next start: a reload ends it. Repeat the reload, because the helper may
# still be exiting. Use this after the supervisor has noticed the end; after an end that the test
# has just caused, use wait_replaced().
sub restart_now
{
	my $node = shift;

	return wait_replaced($node, 0);
}

# Skip the delay after the process with this pid was killed; wait until another one has replaced it.
sub wait_replaced
{
	my ($node, $pid) = @_;
	my $until = time + LONG;

	while (time < $until)
	{
		return 1
		  if service($node, "state = 'ready' AND helper_pid NOT IN (0, $pid)") eq 't';
		$node->reload;
		select(undef, undef, undef, 0.05);
	}
	die 'the device process does not come back: '
	  . $node->safe_psql('postgres', 'SELECT * FROM gpujoin_status()');
}

# Make the watchdog act after this time.
sub watch_after
{
	my ($node, $timeout) = @_;

	$node->adjust_conf('postgresql.conf', 'gpujoin.device_timeout', "'$timeout'");
	$node->reload;
	return;
}

# Return the SQL of a service test. The optional expression is evaluated as soon as the test has
# ended.
sub service_sql
{
	my ($arguments, $also) = @_;

	$also = $also ? ", $also" : '';
	return "SELECT format('ok %s, fallbacks %s, wrong %s, loads %s', ok, fallbacks, wrong, loads)
		$also FROM gpujoin_service_test($arguments)";
}

sub run_service
{
	my ($node, $arguments) = @_;

	return $node->safe_psql('postgres', service_sql($arguments));
}

# Start a service test in the background.
sub start_service
{
	my ($node, $arguments, $also) = @_;
	my $running = { out => '', err => '' };

	$running->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			service_sql($arguments, $also) ],
		'<', \undef, '>', \$running->{out}, '2>', \$running->{err},
		IPC::Run::timeout(LONG));
	return $running;
}

# Wait until a service test has reached its n-th request from here on (1: making the column, 2:
# filling it, 3: the first search). $requests is an earlier result of service($node, 'requests').
sub wait_for_request
{
	my ($node, $requests, $n) = @_;

	$node->poll_query_until('postgres',
		"SELECT requests >= $requests + $n AND slots_used > 0 FROM gpujoin_status()")
	  or die 'the service test does not wait: '
	  . $node->safe_psql('postgres', 'SELECT * FROM gpujoin_status()');
	return;
}

sub finish_service
{
	my $running = shift;

	$running->{run}->finish;
	chomp $running->{out};
	return $running->{out} || $running->{err};
}

# Arm a fault of the reference device; return an empty text, or why it was not possible: the helper
# may crash at once. This is a request, too, so it waits for a free slot.
sub inject
{
	my ($node, $point, $kind, $skip, $times, $millis, $device) = @_;

	$millis //= 0;
	$device //= 0;
	my $why_not;

	for (my $tries = 0; $tries < 300; $tries++)
	{
		select(undef, undef, undef, 0.1) if $tries;
		$why_not = $node->safe_psql('postgres',
			"SELECT gpujoin_inject_fault('$point', '$kind', $skip, $times, $millis, $device)");
		last if $why_not !~ /slots are in use/;
	}
	diag("inject: $why_not") if $why_not ne '';
	return $why_not;
}

# Open a session that must survive whatever happens next.
sub open_bystander
{
	my $node = shift;
	my $bystander = { in => '', out => '', err => '' };

	$bystander->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
		'<', \$bystander->{in}, '>', \$bystander->{out}, '2>', \$bystander->{err},
		IPC::Run::timeout(4 * LONG));
	$bystander->{pid} = ask_bystander($bystander);
	return $bystander;
}

# Return its backend's pid, as the session reports it; die or return something else if it is not
# well.
sub ask_bystander
{
	my $bystander = shift;

	$bystander->{out} = '';
	$bystander->{in} .= "SELECT pg_backend_pid();\n";
	$bystander->{run}->pump until $bystander->{out} =~ /\n/ || $bystander->{err} ne '';
	chomp $bystander->{out};
	return $bystander->{out};
}

# Send signals to the device process, if there is one at this moment; return its pid. A pid of 0
# would be this test itself.
sub signal_helper
{
	my ($node, @signals) = @_;
	my $pid = service($node, 'helper_pid');

	return 0 unless $pid > 1;
	kill $_, $pid foreach @signals;
	return $pid;
}

# Wait until no slot, column, key set, match or byte is in use, except what the device itself keeps.
# The helper's counters lag a moment; without a helper there are no counters.
sub comes_to_rest
{
	my $node = shift;

	return $node->poll_query_until('postgres', "SELECT state = 'ready' AND slots_used
			+ slots_abandoned + columns + keysets + matches + memory_mirrors = 0
			AND memory_scratch = " . STAGING . " FROM gpujoin_status()");
}

sub no_leaks
{
	my ($node, $name) = @_;

	ok(comes_to_rest($node), "no leaks: $name")
	  or diag($node->safe_psql('postgres', 'SELECT * FROM gpujoin_status()'));
}

1;
