# Write into the arena what a corrupt device process could write there, while the process is
# stopped: a backend must not believe it; it ends the request and continues without the device.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

# From cuda/border/gpujoin_protocol.h: offsets of the layout's parts, and the end of a message: the
# line of words that the helper writes (state, taken, filled, out[0], out[1], room, expected,
# groups, group_room), then the result and a list of pages.
use constant LAYOUT => 'L L L L Q Q Q Q';
use constant { LINE => 64, RESULT_BYTES => 1408, RUNNING => 1 };

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '1MB'", 'gpujoin.max_requests = 2', PATIENT);
my $bystander = open_bystander($node);
wait_ready($node);

my $arena;

sub read_arena
{
	my ($at, $template, $bytes) = @_;
	my $data;

	sysseek($arena, $at, 0) && sysread($arena, $data, $bytes) == $bytes or die "arena: $!";
	return unpack($template, $data);
}

sub write_arena
{
	my ($at, $data) = @_;

	sysseek($arena, $at, 0) && syswrite($arena, $data) == length $data or die "arena: $!";
	return;
}

# Return the offset of the helper's words, and its state word, for each slot.
sub read_slots
{
	my (undef, undef, $slots, $bytes, undef, $messages_at) = read_arena(0, LAYOUT, 48);
	my @words = map { $messages_at + $_ * $bytes - RESULT_BYTES - LINE } 1 .. $slots;

	return map { [ $_, read_arena($_, 'Q', 8) ] } @words;
}

# Stop the process in the middle of a match that began after the slots were read; return the offset
# of the helper's words in the message, and the request's generation. (A slot in which an earlier
# process was stopped keeps its state RUNNING until another request takes the slot.)
sub stop_in_match
{
	my ($pid, $requests, $n, @before) = @_;

	wait_for_request($node, $requests, $n);
	while (1)
	{
		kill 'STOP', $pid;
		my @slots = read_slots();

		foreach my $i (0 .. $#slots)
		{
			my ($words, $state) = @{ $slots[$i] };

			return ($words, $state >> 32)
			  if $state != $before[$i][1] && ($state & 0xFFFFFFFF) == RUNNING;
		}
		kill 'CONT', $pid;
		select(undef, undef, undef, 0.05);
	}
}

# Items, number of parts, groups, room for groups; the last two for reductions
foreach my $case ([ 'parts without anything in them, without end', 0, 0xFFFFFFFF ],
	[ 'a part longer than its half', 0xFFFFFFFF, 1 ],
	[ 'a part of a reduction without anything in it', 0, 1, 0, 0 ],
	[ 'more groups than there is room for', 0, 1, 2, 1 ],
	[ 'room for groups that is longer than a half', 0, 1, 0xFFFFFFFF, 0xFFFFFFFF ],
	[ 'more groups than keys', 0, 1, 101, 101 ],
	[ 'room for groups that leaves none for entries', 1, 1, 0, 13106 ])
{
	my ($what, $items, $filled, $groups, $group_room) = @$case;
	my $arguments = '10, nkeys => 100';

	inject($node, 'begin', 'delay', 0, 1, 600000);
	my $failed = service($node, 'requests_failed');
	my $requests = service($node, 'requests');
	my $pid = service($node, 'helper_pid');
	die "no such process: $pid" unless $pid > 1;
	open $arena, '+<:raw', "/proc/$pid/fd/3" or die "arena: $!";
	my @before = read_slots();
	$arguments .= ', reduce => true' if defined $groups;
	my $running = start_service($node, $arguments, 'last_error');
	my ($words, $generation) = stop_in_match($pid, $requests, defined $groups ? 4 : 3, @before);

	write_arena($words + 24, pack('L L', $items, $items));
	write_arena($words + 48, pack('L L L L', ($groups) x 2, ($group_room) x 2)) if defined $groups;
	write_arena($words + 16, pack('Q', $generation << 32 | $filled));
	ok($node->poll_query_until('postgres',
			"SELECT requests_failed > $failed FROM gpujoin_status()"), "$what: the request fails");
	close $arena;
	wait_replaced($node, signal_helper($node, 'KILL'));
	is(finish_service($running),
		'ok 0, fallbacks 1, wrong 0, loads 1|invalid answer of the device process',
		"$what: that is why");
	is(run_service($node, $arguments), 'ok 1, fallbacks 0, wrong 0, loads 1',
		'the next process answers');
}

is(ask_bystander($bystander), $bystander->{pid}, 'a session opened before all this is well');
$bystander->{run}->kill_kill;
no_leaks($node, 'at the end');
log_is_clean($node, 'the log shows no crash of PostgreSQL');
done_testing();
