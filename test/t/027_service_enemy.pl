# Write into the arena what a corrupt device process could write there, while the process is
# stopped: a backend must not believe it; it ends the request and continues without the device.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

# From cuda/border/gpujoin_protocol.h: offsets of the layout's parts, and the end of a message: the
# line of words that the helper writes (state, taken, filled, out[0], out[1], room, expected,
# groups, group_room), then the result and a list of pages.
use constant LAYOUT => 'L L L L Q Q Q Q';
use constant { LINE => 64, RESULT_BYTES => 1408, RUNNING => 1, DONE => 2 };

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

# ---- answers to reductions -----------------------------------------------------------------------

# A whole answer that is not one to the request. The query must end as if it had not been there. One
# that could be true is accepted, which shows that each of the others is refused for its contents.
$node->safe_psql('postgres', q{
	CREATE TABLE t (k int NOT NULL, v int NOT NULL);
	INSERT INTO t SELECT i % 100, i % 7 FROM generate_series(1, 40000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (v)});
vacuum_until_visible($node, 't');

my $settings = 'SET gpujoin.force = on; SET gpujoin.debug_reduce_rows = 0';

# Write the state of a request that is done: no rest, the number of rows reduced and that of groups;
# and the groups in the first half of the slot's chunk
sub forge
{
	my ($words, $generation, $rows, $n, @groups) = @_;
	my ($bytes, $messages_at, $chunks_at, $chunk_bytes) =
	  (read_arena(0, LAYOUT, 48))[ 3, 5, 6, 7 ];
	my $slot = ($words + LINE + RESULT_BYTES - $messages_at) / $bytes - 1;
	my $elements = grep { ref } @groups;

	write_arena($chunks_at + $slot * $chunk_bytes, pack('q*', map { @$_ } @groups)) if $elements;
	write_arena($words + 24, pack('L4 Q L4', 0, 0, 0, 0, 0, ($elements) x 4));
	write_arena($words + LINE, pack('l2 L2 Q2 Q3 L2 Q4', (0) x 5, $rows, (0) x 5, $rows, 0, $n,
			$elements));
	write_arena($words + 16, pack('Q', $generation << 32 | ($elements > 0 ? 1 : 0)));
	write_arena($words, pack('Q', $generation << 32 | DONE));
	return;
}

my $by_key = 'SELECT k, count(*), sum(v), max(v) FROM t WHERE k IN (3, 5, 8) GROUP BY k ORDER BY k';
my $by_columns = 'SELECT k, v, count(*), sum(v) FROM t WHERE k IN (3, 5, 8) GROUP BY k, v
	ORDER BY k, v';
my $weighed = 'SELECT count(*), sum(v) FROM (VALUES (3), (5), (5), (8)) s (k) JOIN t USING (k)';
my $number = 'SELECT count(*) FROM (SELECT DISTINCT k, v FROM t WHERE k IN (3, 5, 8)) d';

# Query, what is wrong, rows, number of groups, groups: value, NULLs, rows, other values, aggregates
foreach my $case ([ $by_key, '', 9, 1, [ 5, 0, 9, 9, 40, 6 ] ],
	[ $by_key, 'a key that was not asked for', 9, 1, [ 4, 0, 9, 9, 40, 6 ] ],
	[ $by_key, 'a NULL', 9, 1, [ 0, 1, 9, 9, 40, 6 ] ],
	[ $by_key, 'a group without rows', 0, 1, [ 5, 0, 0, 0, 0, 6 ] ],
	[ $by_key, 'more rows than were reduced', 9, 1, [ 5, 0, 10, 10, 40, 6 ] ],
	[ $by_key, 'fewer rows', 9, 1, [ 5, 0, 8, 8, 40, 6 ] ],
	[ $by_key, 'rows whose sum overflows', 9, 2, [ 5, 0, 9, 9, 40, 6 ],
		[ 3, 0, -9, -9, 40, 6 ] ],
	[ $by_key, 'values that do not exist', 9, 1, [ 5, 0, 9, 10, 40, 6 ] ],
	[ $by_key, 'a sum that is too great', 9, 1, [ 5, 0, 9, 9, 9 << 31, 6 ] ],
	[ $by_key, 'a value that is too great', 9, 1, [ 5, 0, 9, 9, 40, 1 << 31 ] ],
	[ $by_key, 'a group twice', 18, 2, [ 5, 0, 9, 9, 40, 6 ], [ 5, 0, 9, 9, 40, 6 ] ],
	[ $by_key, 'another number of groups', 9, 2, [ 5, 0, 9, 9, 40, 6 ] ],
	[ $by_columns, '', 9, 1, [ 5, 0, 9, 6, 9, 40 ] ],
	[ $by_columns, 'a key of columns that was not asked for', 9, 1, [ 4, 0, 9, 6, 9, 40 ] ],
	[ $by_columns, 'a column that is too great', 9, 1, [ 5, 0, 9, 1 << 31, 9, 40 ] ],
	[ $by_columns, 'a column more', 9, 1, [ 5, 4, 9, 6, 9, 40 ] ],
	[ $by_columns, 'columns without rows', 9, 2, [ 5, 0, 9, 6, 9, 40 ], [ 5, 0, 0, 1, 0, 0 ] ],
	[ $by_columns, 'more groups than rows', 9, 2, [ 5, 0, 9, 6, 9, 40 ], [ 5, 0, 9, 1, 9, 40 ] ],
	[ $weighed, '', 9, 1, [ 0, 0, 18, 18, 40 ] ],
	[ $weighed, 'more rows than the weights allow', 9, 1, [ 0, 0, 19, 19, 40 ] ],
	[ $weighed, 'fewer rows than without weights', 9, 1, [ 0, 0, 8, 8, 40 ] ],
	[ $weighed, 'no group', 9, 0 ],
	[ $number, '', 9, 9 ],
	[ $number, 'a greater number of groups than of rows', 9, 10 ],
	[ $number, 'no groups of rows', 9, 0 ])
{
	my ($query, $what, $rows, $n, @groups) = @$case;
	my $right = $node->safe_psql('postgres', "SET gpujoin.enabled = off; $query");
	my $pid = service($node, 'helper_pid');
	my ($out, $err, $requests, $failed) = ('', '');

	$node->safe_psql('postgres', q{SELECT gpujoin_load('t_k')});
	inject($node, 'begin', 'delay', 0, 1, 600000);
	($requests, $failed) = map { service($node, $_) } qw(requests requests_failed);
	open $arena, '+<:raw', "/proc/$pid/fd/3" or die "arena: $!";
	my @before = read_slots();
	my $run = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $settings,
			'-c', $query ], '<', \undef, '>', \$out, '2>', \$err, patience(60));

	forge(stop_in_match($pid, $requests, 1, @before), $rows, $n, @groups);
	$node->poll_query_until('postgres', "SELECT requests_failed > $failed OR slots_used = 0
		FROM gpujoin_status()");
	my $refused = service($node, 'requests_failed') > $failed;

	close $arena;
	wait_replaced($node, signal_helper($node, 'KILL'));
	$run->finish;
	chomp $out;
	if ($what eq '')
	{
		isnt($out, $right, "an answer that could be true is accepted: $query");
		ok(!$refused, 'without a failure');
	}
	else
	{
		is($out . $err, $right, "$what: the answer is right");
		ok($refused, "$what: the request fails");
	}
}

is(ask_bystander($bystander), $bystander->{pid}, 'a session opened before all this is well');
$bystander->{run}->kill_kill;

# The launcher loads the mirror that was lost with the last process.
$node->safe_psql('postgres', 'DROP TABLE t');
no_leaks($node, 'at the end');
log_is_clean($node, 'the log shows no crash of PostgreSQL');
done_testing();
