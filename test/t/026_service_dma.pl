# The device process is repeatedly killed with -9 in the middle of a large result, while the device
# writes to memory that a backend reads. Every answer is right, after each kill the device's memory
# returns to its earlier level, and a session opened before is unaffected. CHECK_DEVICE=cuda does
# this with a card, and with results of some 15 MB; CHECK_KILLS sets the number of kills.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $device = $ENV{CHECK_DEVICE} || 'reference';
my $has_card = $device eq 'cuda';

# With a card, restarting the process takes some seconds.
my $rounds = $ENV{CHECK_KILLS} || ($has_card ? 10 : $ENV{CHECK_LONG} ? 20 : 8);
my $until = time + 280 * ($ENV{CHECK_PATIENCE} || 1);

my ($pages, $repeats) = $has_card ? (5_000, 40_000) : (400, 4_000);
my $requests = $has_card ? 16 : 60;

# Use as much device memory as this test needs, the same amount in each round: the default is a
# fraction of the free memory, which takes longer to reserve and to release, and depends on what has
# been released before.
my $node = new_server('main', 'fsync = off', "gpujoin.device = '$device'",
	"gpujoin.result_buffer = '8MB'", "gpujoin.device_memory = '1GB'", PATIENT);

# Return the card's memory in use, in MiB; 0 for the reference device, which has none to measure
sub card_memory
{
	return 0 unless $has_card;
	return `nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits` + 0;
}

# Allowed difference between two starts of the driver, in MiB. A process whose memory is not
# released holds more than a thousand.
use constant SLACK => 64;

# Return the amount of the card's memory in use, once it no longer changes: a killed process's
# memory is released a moment after its end.
sub memory_level
{
	my $wanted = shift;
	my $patience = time + 30;
	my $level = card_memory();

	while ($level > $wanted && time < $patience)
	{
		select(undef, undef, undef, 0.1);
		$level = card_memory();
	}
	return $level;
}

wait_ready($node);
my $bystander = open_bystander($node);
my $session = ask_bystander($bystander);
my $arguments = "$pages, nkeys => 64, repeats => $repeats, requests => $requests";
my $offset = -s $node->logfile;
my $whole = "ok $requests, fallbacks 0, wrong 0, loads 1";

is(run_service($node, $arguments), $whole, 'the answers without a kill');
cmp_ok(
	$node->safe_psql('postgres', "SELECT matches FROM gpujoin_service_test($pages, nkeys => 64,
		repeats => $repeats)"), '>=', 50 * $repeats, 'the results are large');
no_leaks($node, 'before');
my $before = card_memory();

my ($killed, $tried, @wrong, @left) = (0, 0);
my $begun = time;
while ($killed < $rounds && $tried++ < 4 * $rounds && time < $until)
{
	my $asked = service($node, 'requests');
	my $running = start_service($node, $arguments);
	my ($answer, $pid, $ok, $fallbacks);

	# The column is made and filled first. If the test has finished meanwhile, try again.
	while ($running->{run}->pumpable)
	{
		last if service($node, "requests > $asked + 3 AND slots_used > 0") eq 't';
		$running->{run}->pump_nb;
	}
	$pid = signal_helper($node, 'KILL');
	wait_replaced($node, $pid) if $pid;

	$answer = finish_service($running);
	($ok, $fallbacks) = $answer =~ /^ok (\d+), fallbacks (\d+), wrong 0, /;
	$killed++ if $fallbacks;
	push @wrong, $answer unless defined $ok && $ok + $fallbacks == $requests;
	next if comes_to_rest($node);
	push @left, service($node, 'gpujoin_status');
	last;
}
is(join("\n", @wrong), '', "no answer is wrong, none is missing");
is(join("\n", @left), '', 'after each kill the device holds no more than before');
is($killed, $rounds, 'so many kills hit a request');
note("$tried kills in " . (time - $begun) . ' s');

is(run_service($node, $arguments), $whole, 'the answers after the kills');
no_leaks($node, 'after');
my $after = memory_level($before + SLACK);
cmp_ok($after, '<=', $before + SLACK,
	"memory of the card: $before MiB before, $after MiB after");
is(ask_bystander($bystander), $session, 'a session from before is still there');
unlike(slurp_file($node->logfile, $offset),
	qr/reinitializing|PANIC|server process .* was terminated/, 'no restart');

done_testing();
