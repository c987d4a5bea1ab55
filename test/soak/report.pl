#!/usr/bin/env perl
# test/soak/report.pl FOLDER SECONDS: the report of a soak test, from the files that its parts
# have left in that folder (the log folder). Each judgement is one line; the totals go to
# FOLDER/totals.
#
# A process's memory is flat if, over the second half of the time, it does not grow by more than
# SOAK_GROWTH kB a minute (128), or not by more than a megabyte in all. The rate is the median of
# the slopes between all pairs of samples, which is robust against outliers. The limit is not
# lower because caches of relations and plans keep being filled, as DDL clears them, and malloc
# takes memory in steps of up to a megabyte; in three minutes sessions were seen to grow by some
# 300 kB. It is not higher because a session runs some 400 scripts in a minute, so a leak of 330
# bytes in each would show.
use strict;
use warnings;

use JSON::PP;

my ($folder, $seconds) = @ARGV;
my $growth_allowed = $ENV{SOAK_GROWTH} || 128;
my ($passed, $failed) = (0, 0);

sub lines_of
{
	open(my $file, '<', "$folder/$_[0]") or return;
	my @lines = readline $file;
	chomp @lines;
	return @lines;
}

sub judge
{
	my ($good, $name, @details) = @_;

	$good ? $passed++ : $failed++;
	printf "%s %s\n", $good ? 'ok    ' : 'NOT OK', $name;
	return if $good;
	print '       | ', substr($_ // '', 0, 400), "\n" foreach grep { defined } @details[ 0 .. 11 ];
	return;
}

sub sorted_counts
{
	my $counts = shift;
	return join(', ', map { "$_ $counts->{$_}" }
		  sort { $counts->{$b} <=> $counts->{$a} || $a cmp $b } keys %$counts) || 'none';
}

# ---- actions of the sessions and of chaos.pl ------------------------------------------------

my (%compared, %scripts, %errors, @differences, @odd);
my ($rows, $hung, $connections, $sessions, $compared) = (0) x 5;

foreach my $file (glob "$folder/client-*.json")
{
	my $did = decode_json(join '', lines_of($file =~ s{.*/}{}r));

	$sessions++;
	$compared{$_} += $did->{compared}{$_} foreach keys %{ $did->{compared} };
	$scripts{$_} += $did->{scripts}{$_} foreach keys %{ $did->{scripts} };
	$errors{$_} += $did->{errors}{$_} foreach keys %{ $did->{errors} };
	push @differences, @{ $did->{differences} };
	push @odd, @{ $did->{odd} };
	$rows += $did->{rows};
	$hung += $did->{hung};
	$connections += $did->{connections};
}
$compared += $_ foreach values %compared;
my $chaos = decode_json(join('', lines_of('chaos.json')) || '{}');

print "scripts run: ", sorted_counts(\%scripts), "\n";
print "comparisons: $compared of $rows rows: ", sorted_counts(\%compared), "\n";
print "errors told to sessions: ", sorted_counts(\%errors), "\n";
print "chaos: ", join(', ', map { "$_ $chaos->{$_}" } grep { !ref $chaos->{$_} } sort keys %$chaos),
  "; connections $connections\n";
print lines_of('figures.txt') ? join("\n", lines_of('figures.txt')) . "\n\n" : "\n";

judge($sessions == $ENV{SOAK_CLIENTS}, "all $ENV{SOAK_CLIENTS} sessions came to their end",
	"$sessions did");
judge(!@differences, 'sessions: no answer differs from stock', @differences);
judge($compared > $seconds, "there were many comparisons", $compared);
my @never = grep { !$compared{$_} } split / /, $ENV{SOAK_QUERIES};
judge(!@never, 'each kind of question was compared', "not: @never");
judge(!@{ $chaos->{differences} // ['none'] }, 'standby: no answer differs from the primary',
	@{ $chaos->{differences} // [] });
judge(($chaos->{pairs} // 0) > 0, 'the standby was compared with the primary');
judge(!$hung && !$chaos->{hung}, 'nothing hung', "$hung sessions, $chaos->{hung} of the driver");
judge(!@odd && !@{ $chaos->{odd} // ['none'] }, 'nothing odd was told to sessions', @odd,
	@{ $chaos->{odd} // [] });
judge($chaos->{cancels} && $chaos->{ended}, 'statements were cancelled and sessions ended');
judge($ENV{SOAK_DEVICE} eq 'none' || $chaos->{kills} && $chaos->{kills_standby},
	'the device\'s process was killed, on both servers');

# ---- memory -------------------------------------------------------------------------------------

my (%process, $last);

foreach (lines_of('samples.tsv'))
{
	my ($at, $server, $pid, $name, $kb) = split /\t/;
	push @{ $process{"$server\t$pid\t$name"} }, [ $at / 60, $kb ];
	$last = $at / 60;
}
my $half = ($last // 0) / 2;

# Every process contributes at most 150 samples, because the number of pairs is half their square.
sub slope
{
	my @samples = @_;
	my $step = int(@samples / 150) + 1;
	my @slopes;

	@samples = @samples[ grep { $_ % $step == 0 } 0 .. $#samples ];
	foreach my $i (0 .. $#samples)
	{
		push @slopes, map { ($samples[$_][1] - $samples[$i][1])
			  / (($samples[$_][0] - $samples[$i][0]) || 1e-9) } $i + 1 .. $#samples;
	}
	@slopes = sort { $a <=> $b } @slopes;
	return $slopes[ $#slopes / 2 ];
}

# Growth of a session's contexts since the half
sub contexts
{
	my $number = shift;
	my (%before, @grown);

	foreach (lines_of("contexts-$number-half"))
	{
		$before{$2} = $1 if /^ *(\d+) +\d+ (.*)/;
	}
	foreach (lines_of("contexts-$number-end"))
	{
		next unless /^ *(\d+) +\d+ (.*)/ && $1 > ($before{$2} // 0) + 16;
		push @grown, "$2: " . ($before{$2} // 'little') . " kB, then $1 kB";
	}
	return @grown ? @grown : 'no memory context has grown (malloc, then)';
}

my @growth;

foreach my $key (sort keys %process)
{
	my ($server, $pid, $name) = split /\t/, $key;
	my @late = grep { $_->[0] > $half } @{ $process{$key} };

	# A helper of the second half may have started shortly after the last kill.
	next unless @late > 5 && $late[-1][0] - $late[0][0] > $half * 0.75;
	push @growth, { slope => slope(@late), minutes => $late[-1][0] - $late[0][0],
		name => "$server: $name", first => $late[0][1], last => $late[-1][1], pid => $pid };
}
foreach my $p (sort { $b->{slope} <=> $a->{slope} } @growth)
{
	my $in_all = $p->{slope} * $p->{minutes};
	my $flat = $p->{slope} <= $growth_allowed || $in_all <= 1024;

	# Its "device memory" is its own: soak.sh checks its size when nothing is loaded.
	$flat = 1 if $p->{name} =~ /helper/ && $ENV{SOAK_DEVICE} eq 'reference';

	judge($flat, sprintf('flat memory: %-36s %7.1f kB a minute, %d kB at the half, %d at the end',
			$p->{name}, $p->{slope}, $p->{first}, $p->{last}),
		$p->{name} =~ /session (\d+)/ ? contexts($1) : "process $p->{pid}");
}
my %watched = map { $_->{name} =~ s/session .*/session/r => 1 } @growth;
my @wanted = map { ("primary: $_", "standby: $_") } 'postmaster', 'checkpointer', 'session',
  'gpujoin supervisor';
push @wanted, 'primary: walsender', 'primary: autovacuum launcher', 'standby: startup',
  'standby: walreceiver';
push @wanted, 'primary: helper' if $ENV{SOAK_DEVICE} ne 'none';
my @unseen = grep { my $name = $_; !grep { index($_, $name) == 0 } keys %watched } @wanted;
judge(!@unseen, 'all kinds of processes lived long enough to be watched', "not: @unseen",
	'watched: ' . join(', ', sort keys %watched));
judge(!lines_of('zombies'), 'no zombie', lines_of('zombies'));

# ---- the servers' logs --------------------------------------------------------------------------

# Errors expected under such a load: cancels, ends of sessions, conflicts with others and with
# replay, dropped objects, a missing device (gpujoin_load)
my %expected = map { $_ => 1 } qw(57014 57P01 57P03 40001 40P01 55P03 25P02 3B001 42P01 42704
  55000 55006 25006 53200 SOAK1 42P07);
my $crash = qr/PANIC:|TRAP:|server process .* was terminated|reinitializing|exited with exit code
	[^01]|Segmentation|AddressSanitizer|runtime\ error/x;
my $leak = qr/leak|still\ active|resource\ was\ not\ closed|still\ referenced/ix;

foreach my $server (qw(primary standby))
{
	my (@crashes, @leaks, @internal, %fatal, %error);

	foreach (lines_of("server-$server.log"))
	{
		push @crashes, $_ if /$crash/;
		push @leaks, $_ if /WARNING/ && /$leak/;
		next unless /\[\d+\] (\w{5}) .*?(ERROR|FATAL):  (.*)/;
		my ($state, $level, $message) = ($1, $2, $3);
		($level eq 'FATAL' ? $fatal{$state}++ : $error{$state}++);
		# An index may be dropped between the look-up of its name and opening it.
		next if $expected{$state} || $message =~ /could not open relation with OID/;
		push @internal, $_;
	}
	print "log of $server: errors ", sorted_counts(\%error), '; fatal ', sorted_counts(\%fatal),
	  "\n";
	judge(!@crashes, "$server: no crash in the log", @crashes);
	judge(!@leaks, "$server: no warning of a leak in the log", @leaks);
	judge(!@internal, "$server: no error in the log but those of the load", @internal);
}

# ---- results of the final queries (soak.sh) -------------------------------------------------

foreach (lines_of('checks.tsv'))
{
	my ($good, $name, $detail) = split /\t/;
	judge($good eq 'ok', $name, split / ; /, $detail // '');
}
judge(scalar(lines_of('complete')), 'the test came to its end');

open(my $totals, '>', "$folder/totals") or die "no file: $!";
print $totals "$passed $failed\n";
close $totals;
