# test/bench/Regret.pm: common code of the no-regret programs. It runs contestants, each in a
# session of its own, which answer the same statement in turn, measures their times, and judges
# the planner's choice.
#
# A point is a hash:
#
#   name       one word
#   settings   hash of settings
#   script     what psql does once, before: \gset of keys, PREPARE
#   begin      statements that are timed, too, before the statement
#   statement  what is asked, and explained
#   end        statements that are timed, too, after it
#   shown      [table, names of the indexes that the planner sees], or nothing: all
#   order      rows come in a certain order
#   loose      any rows will do: only their number is compared
#
# measure() adds: plan, ms, wrong, and what judge() adds. It is kept as a line of JSON.
package Regret;

use strict;
use warnings;

use Digest::MD5 'md5_hex';
use Exporter 'import';
use IPC::Open2;
use JSON::PP;
use Time::HiRes 'time';

our @EXPORT = qw(@contestants FACTOR FLOOR measure judge keep read_points ask session
  reproduce median setting_commands);

# A choice is a regret if it takes more than FACTOR times the best time, and FLOOR milliseconds
# more.
use constant { FACTOR => 1.3, FLOOR => 0.2 };

our @contestants = qw(choice stock force serial);

my %told = (
	choice => '',
	stock => 'SET gpujoin.enabled = off;',
	force => 'SET gpujoin.force = on;',
	serial => 'SET max_parallel_workers_per_gather = 0;',
	ruler => 'SET gpujoin.enabled = off;');

# A statement may take this many milliseconds, and at most ten times the best time so far, or a
# second if that is longer. If it is cut short, the limit counts as its time. If processor time is
# measured, the limit by the clock is four times that, since others use the processor, too.
my $limit = ($ENV{REGRET_TIMEOUT} || 5) * 1000;
my $by_processor = ($ENV{REGRET_CLOCK} // '') eq 'cpu';

my (%sessions, %shown, $asked);

# -------------------------------------------------------------------------------------------------
# Sessions
# -------------------------------------------------------------------------------------------------

sub session
{
	my ($name) = @_;

	return $sessions{$name} if $sessions{$name};
	local $ENV{PGAPPNAME} = "regret $name";
	my $pid = open2(my $out, my $in, 'exec psql -XAt -P pager=off 2>&1');
	$in->autoflush(1);
	$sessions{$name} = { name => $name, pid => $pid, in => $in, out => $out };
	ask($sessions{$name}, '\timing on');
	return $sessions{$name};
}

# Returns a hash: text, ms, cut (by statement_timeout), error.
sub ask
{
	my ($session, $script) = @_;
	my $mark = '@end ' . ++$asked;
	my %answer = (text => '', ms => 0);

	print { $session->{in} } "$script\n\\echo $mark\n";
	while (defined(my $line = readline($session->{out})))
	{
		return \%answer if $line eq "$mark\n";
		if ($line =~ /^Time: ([0-9.]+) ms/) { $answer{ms} += $1 if !$by_processor; }
		elsif ($line =~ /^!\s+([0-9.]+) s user, ([0-9.]+) s system/)
		{
			$answer{ms} += ($1 + $2) * 1000;
		}
		elsif ($line =~ /^!|^(psql:\S* )?(LOG|DETAIL|WARNING|NOTICE|LINE \d+): /) { next; }
		elsif ($line =~ /canceling statement due to statement timeout/) { $answer{cut} = 1; }
		elsif ($line =~ /^(?:psql:\S* )?(?:ERROR|FATAL|PANIC): +(.*)/)
		{
			$answer{error} //= $1;
		}
		else { $answer{text} .= $line; }
	}
	die "the server ended the session of \"$session->{name}\" at:\n$script\n";
}

sub setting_commands
{
	my ($settings) = @_;
	return join(' ', map { "SET $_ = '$settings->{$_}';" } sort keys %{ $settings // {} });
}

# Prepares a session, so that the statement can be run in it.
sub get_ready
{
	my ($name, $point) = @_;
	my $session = session($name);
	my $clock = $by_processor
	  ? 'SET max_parallel_workers_per_gather = 0; SET log_statement_stats = on;'
	  . ' SET client_min_messages = log;'
	  : '';
	my $answer = ask($session,
		"RESET ALL; DEALLOCATE ALL; " . setting_commands($point->{settings}) . $told{$name} . "\n"
		. ($point->{script} // '') . "\nSET statement_timeout = $limit; $clock");

	die "$point->{name}: $answer->{error}\n" if $answer->{error};
	return $session;
}

# Hides the indexes that the planner must not see at this point.
sub show_indexes
{
	my ($point) = @_;
	my ($table, $names) = @{ $point->{shown} // return };

	return if ($shown{$table} // '') eq $names;
	$shown{$table} = $names;
	my $answer = ask(session('ruler'), "RESET ALL; SELECT show_indexes('$table', '$names');");
	die "$point->{name}: $answer->{error}\n" if $answer->{error};
	return;
}

# -------------------------------------------------------------------------------------------------
# Measuring
# -------------------------------------------------------------------------------------------------

# Removes the parts that differ between two EXPLAINs of the same plan.
sub shape
{
	my ($plan) = @_;
	return $plan =~ s/\(cost=.*?\)//gr =~ s/^Planning Time.*\n//mgr;
}

sub clip { return join('', map { substr($_, 0, 110) . "\n" } split(/\n/, $_[0])); }

# Return the part of an answer that is compared.
sub essence
{
	my ($point, $text) = @_;
	my @lines = split(/\n/, $text);

	return scalar(@lines) if $point->{loose};
	@lines = sort @lines if !$point->{order};
	return md5_hex(join("\n", @lines));
}

sub explain
{
	my ($point, $name) = @_;
	my $answer = ask(get_ready($name, $point), "EXPLAIN $point->{statement};");

	die "$point->{name}: $answer->{error}\n$point->{statement}\n" if $answer->{error};
	return clip($answer->{text});
}

sub run_once
{
	my ($point, $name, $most) = @_;

	ask(session($name), 'SET statement_timeout = ' . $most * ($by_processor ? 4 : 1) . ';');
	my $answer = ask(session($name), join("\n", grep { defined && length }
			$point->{begin}, "$point->{statement};", $point->{end}));

	die "$point->{name} ($name): $answer->{error}\n" if $answer->{error} && !$answer->{cut};
	return $answer if !$answer->{cut};
	ask(session($name), 'ROLLBACK;');
	$answer->{ms} = $most;
	return $answer;
}

# measure(POINT, ROUNDS, {only => [contestants], patience => N}): return the point with its times.
# Round 0 is not counted, except with slow statements. With patience N, it is over after the first
# round if the choice took at most N times the best.
sub measure
{
	my ($point, $rounds, $options) = @_;
	my @all = @{ $options->{only} // \@contestants };
	my %m = (%$point, ms => {}, same => {}, plan => {});
	my (%first, %right, %out);
	my $least = $limit;

	show_indexes($point);
	for my $name (@all)
	{
		$m{plan}{$name} = explain($point, $name);
		$m{same}{$name} = $first{ shape($m{plan}{$name}) } //= $name;
	}
	my @racers = grep { $m{same}{$_} eq $_ } @all;
	for my $round (0 .. $rounds)
	{
		for my $name ($round % 2 ? reverse(@racers) : @racers)
		{
			next if $out{$name};
			my $most = int(10 * $least);
			$most = $most < 1000 ? 1000 : $most > $limit ? $limit : $most;
			my $answer = run_once($point, $name, $most);
			$least = $answer->{ms} if $answer->{ms} < $least;
			$right{$name} //= essence($point, $answer->{text}) if !$answer->{cut};
			$out{$name} = 1 if $answer->{cut};
			push @{ $m{ms}{$name} }, $answer->{ms}
			  if $round > 0 || $answer->{cut} || $answer->{ms} > 200 || $rounds == 0;
		}
		last if $round > 0 && (@racers == 1
			|| $options->{patience} && judge(\%m)->{ratio} < $options->{patience});
	}
	my %answers = map { $_ => 1 } values %right;
	$m{wrong} = join(', ', map { "$_ $right{$_}" } sort keys %right) if keys %answers > 1;
	return judge(\%m);
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ $#sorted / 2 ];
}

# Adds to a point: time of each contestant (median; those with the same plan have one), the best of
# them, whether the choice is a regret.
sub judge
{
	my ($m) = @_;

	my (%first, %samples);

	for my $name (grep { defined $m->{plan}{$_} } @contestants)
	{
		my $same = $m->{same}{$name} = $first{ shape($m->{plan}{$name}) } //= $name;
		push @{ $samples{$same} }, @{ $m->{ms}{$name} // [] };
	}
	$m->{time} = { map { $_ => median(@{ $samples{ $m->{same}{$_} } }) }
		  grep { @{ $samples{ $m->{same}{$_} } } } keys %{ $m->{same} } };
	my ($best) = sort { $m->{time}{$a} <=> $m->{time}{$b} || $a cmp $b } keys %{ $m->{time} };
	my ($mine, $least) = ($m->{time}{choice} // 0, $m->{time}{$best});

	$m->{best} = $best;
	$m->{ratio} = $mine / ($least || 0.001);
	$m->{ratio} = FACTOR if $m->{ratio} > FACTOR && $mine <= $least + FLOOR;
	$m->{regret} = is_slower($mine, $least);
	$m->{ours} = ($m->{same}{stock} // '') ne 'choice';
	$m->{slower_than_bound} =
	  (grep { is_slower($mine, $m->{time}{$_} // $mine) } qw(stock serial)) ? 1 : 0;
	return $m;
}

sub is_slower { return $_[0] > FACTOR * $_[1] && $_[0] > $_[1] + FLOOR ? 1 : 0; }

# -------------------------------------------------------------------------------------------------
# Records
# -------------------------------------------------------------------------------------------------

sub keep
{
	my ($file, $m) = @_;

	open(my $out, '>>', $file) or die "$file: $!\n";
	print $out JSON::PP->new->canonical->encode($m), "\n";
	close($out);
	return;
}

# Points in the order of their first appearance. Those of a later file take the place of those of an
# earlier one; within a file, the measurements of the same point are combined.
sub read_points
{
	my (@files) = @_;
	my (%all, @order);

	for my $file (grep { -s } @files)
	{
		my %here;
		open(my $in, '<', $file) or die "$file: $!\n";
		while (my $line = <$in>)
		{
			my $m = decode_json($line);
			push @order, $m->{name} unless $all{ $m->{name} } || $here{ $m->{name} };
			my $h = $here{ $m->{name} } //= $m;
			next if $h == $m;
			push @{ $h->{ms}{$_} }, @{ $m->{ms}{$_} } for keys %{ $m->{ms} };
			$h->{plan} = { %{ $m->{plan} }, %{ $h->{plan} } };
		}
		close($in);
		%all = (%all, %here);
	}
	return map { judge($all{$_}) } @order;
}

# Return a script for psql that repeats the point.
sub reproduce
{
	my ($m) = @_;
	my $shown = $m->{shown} ? "SELECT show_indexes('$m->{shown}[0]', '$m->{shown}[1]');" : '';

	return join("\n", grep { defined && length } $shown, setting_commands($m->{settings}),
		$m->{script}, $m->{begin}, "$m->{statement};", $m->{end}) . "\n";
}

1;
