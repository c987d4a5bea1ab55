#!/usr/bin/env perl
# test/bench/regret.pl: what no_regret.sh has measured.
#
#	regret.pl suspects FILE...	names of the points whose choice looks bad, one a line
#	regret.pl report FILE...	markdown; the points of a later file replace those of an earlier one
#
# A file is what psql printed: "@plan POINT PLAN", then EXPLAIN's lines; "@run POINT PLAN ROUND",
# then the answer and "Time: ... ms", or what log_statement_stats says. A point is
# FORM,ROWS,SET,KEYS,MATCHING.
use strict;
use warnings;

use constant { FACTOR => 1.3, FLOOR => 0.2, TIMEOUT => 30000 };

my @plans = qw(choice stock force);

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ $#sorted / 2 ];
}

# Without what differs from one EXPLAIN to the next of the same plan.
sub shape
{
	my ($plan) = @_;
	return $plan =~ s/\(cost=.*?\)//gr =~ s/^Planning Time.*\n//mgr;
}

sub read_points
{
	my (@files) = @_;
	my (%all, @order);

	for my $file (@files)
	{
		next unless -s $file;
		my (%point, $p, $plan, $round, $is_new);
		open(my $in, '<', $file) or die "$file: $!\n";
		while (my $line = <$in>)
		{
			if ($line =~ /^\@plan (\S+) (\S+)/)
			{
				($plan, $round) = ($2, undef);
				push @order, $1 unless $all{$1} || $point{$1};
				$p = $point{$1} //= { name => $1 };
				$p->{plan}{$plan} = '';
			}
			elsif ($line =~ /^\@run (\S+) (\S+) (\d+)/)
			{
				($p, $plan, $round) = ($point{$1}, $2, $3);
				$p->{answer}{$plan} = '' if $round == 0;
				$is_new = 1;
			}
			elsif ($line =~ /^!\s+([0-9.]+) s user, ([0-9.]+) s system/)
			{
				# What follows the run are settings.
				push @{ $p->{ms}{$plan} }, ($1 + $2) * 1000 if $round && $is_new;
				$is_new = 0;
			}
			elsif ($line =~ /^!|^(psql:\S* )?(LOG|DETAIL): /) { next; }
			elsif (defined $round && $line =~ /^Time: ([0-9.]+) ms/)
			{
				push @{ $p->{ms}{$plan} }, $1 if $round > 0;
			}
			elsif (!$plan) { next; }
			elsif ($line =~ /canceling statement due to statement timeout/)
			{
				push @{ $p->{ms}{$plan} }, TIMEOUT;
			}
			elsif (defined $round) { $p->{answer}{$plan} .= $line if $round == 0; }
			else { $p->{plan}{$plan} .= $line; }
		}
		%all = (%all, %point);
	}
	return map { judge($all{$_}) } grep { $all{$_}{ms} && $all{$_}{ms}{choice} } @order;
}

# Adds to a point: median of each plan (time), the best one, whether the choice is a regret.
sub judge
{
	my ($p) = @_;
	my %samples;

	$p->{raw} = { %{ $p->{plan} } };
	$p->{plan}{$_} = shape($p->{plan}{$_}) for @plans;
	push @{ $samples{ $p->{plan}{$_} } }, @{ $p->{ms}{$_} // [] } for @plans;
	for my $plan (@plans)
	{
		my $ms = $samples{ $p->{plan}{$plan} };
		$p->{time}{$plan} = @$ms ? median(@$ms) : TIMEOUT;
	}
	my ($best) = sort { $p->{time}{$a} <=> $p->{time}{$b} } @plans;
	my ($mine, $least) = ($p->{time}{choice}, $p->{time}{$best});

	$p->{best} = $best;
	$p->{ratio} = $mine / $least;
	$p->{regret} = $mine > FACTOR * $least && $mine > $least + FLOOR;
	$p->{ours} = $p->{plan}{choice} ne $p->{plan}{stock};
	$p->{worse_than_stock} = $mine > FACTOR * $p->{time}{stock}
	  && $mine > $p->{time}{stock} + FLOOR;
	return $p;
}

# The part of a plan that says most, in one line.
sub gist
{
	my ($plan) = @_;
	my @nodes = map { s/^\s*(->)?\s*//r =~ s/ using t\d+_/ using /r =~ s/ on \w+.*//r }
	  grep { !/^\s*(->)?\s*(Finalize |Partial )?(Aggregate|Gather)/ }
	  grep { /^\S|->/ } split(/\n/, $plan);
	return join(', ', map { s/\s+$//r } @nodes);
}

# Why, as far as the point itself tells; what it does not is to be found out.
sub reason
{
	my ($p) = @_;
	my ($form, $rows, $set, $keys, $matching) = split(/,/, $p->{name});
	my ($choice, $best) = ($p->{plan}{choice}, $p->{plan}{ $p->{best} });

	return 'what is in memory is not known to the planner' if $form =~ /^cold/;
	return 'the choice starts workers, which takes longer than parallel_setup_cost says'
	  if $choice =~ /Workers Planned/ && $best !~ /Workers Planned/;
	return 'workers are not started, which takes less than parallel_setup_cost says'
	  if $choice !~ /Workers Planned/ && $best =~ /Workers Planned/;
	return 'nearly all rows are read either way; ours are charged like those of a scan'
	  if $form eq 'not_in';
	return 'rows are expected for each key, and so ten of them soon'
	  if $form eq 'limit' && $matching < $keys;
	return 'rows are expected for each key; one that no row has costs a btree little'
	  if $matching < $keys && $p->{worse_than_stock};
	return 'rows are expected for each key; most have none' if $matching < $keys;
	return 'a btree is charged for a page from the disk for each key; here all are in memory'
	  if $p->{worse_than_stock} && $best =~ /Index/;
	return '';
}

sub ms { return sprintf($_[0] >= 100 ? '%.0f' : '%.2f', $_[0]); }

sub table
{
	my (@points) = @_;

	print "| form | rows | indexes | keys | matching keys | choice | stock | force | ratio | ",
	  "the choice | the best | why |\n|---|--:|---|--:|--:|--:|--:|--:|--:|---|---|---|\n";
	for my $p (sort { $b->{ratio} <=> $a->{ratio} } @points)
	{
		print '| ', join(' | ', split(/,/, $p->{name}), (map { ms($p->{time}{$_}) } @plans),
			sprintf('%.2f', $p->{ratio}), gist($p->{plan}{choice}),
			$p->{best} . ': ' . gist($p->{plan}{ $p->{best} }), reason($p)), " |\n";
	}
	return;
}

sub geometric_mean
{
	my $sum = 0;

	$sum += log($_) for @_;
	return @_ ? sprintf('%.2f', exp($sum / @_)) : '-';
}

sub report
{
	my (@points) = @_;
	my @regrets = grep { $_->{regret} } @points;
	my @slower = grep { $_->{worse_than_stock} } @points;
	my @missed = grep { !$_->{worse_than_stock} } @regrets;
	my @ours = grep { $_->{ours} } @points;
	my @wrong = grep {
		my $p = $_;
		$p->{name} !~ /^limit/ && grep {
			defined $p->{answer}{$_} && ($p->{answer}{$_} ne $p->{answer}{choice})
			  && $p->{answer}{$_} ne '' && $p->{answer}{choice} ne ''
		} @plans
	} @points;

	print "\n", scalar(@points), ' points; gpujoin is chosen at ', scalar(@ours),
	  ', where stock takes ', geometric_mean(map { $_->{time}{stock} / $_->{time}{choice} } @ours),
	  " times as long (geometric mean). ", scalar(@slower),
	  ' choices are slower than stock, ', scalar(@missed), ' more are not the best; ',
	  scalar(grep { reason($_) eq '' } @regrets), " of both are not explained.\n";
	print "\n**Different answers: ", join('; ', map { $_->{name} } @wrong), "**\n" if @wrong;
	for (['Slower than stock', @slower], ['Slower than gpujoin.force', @missed])
	{
		my ($title, @list) = @$_;
		print "\n## $title: ", scalar(@list), "\n\n";
		table(@list) if @list;
	}
	print "\n## Plans\n";
	for my $p (sort { $b->{ratio} <=> $a->{ratio} } @regrets)
	{
		print "\n```\n-- $p->{name}, the choice, ", ms($p->{time}{choice}), " ms\n",
		  clip($p->{raw}{choice}),
		  "-- $p->{best}, ", ms($p->{time}{ $p->{best} }), " ms\n",
		  clip($p->{raw}{ $p->{best} }), "```\n";
	}
	return;
}

sub clip { return join('', map { substr($_, 0, 110) . "\n" } split(/\n/, $_[0])); }

my ($mode, @files) = @ARGV;
die "usage: regret.pl suspects|report FILE...\n" unless @files;
my @points = read_points(@files);
$mode eq 'report' ? report(@points) : print map { "$_->{name}\n" } grep { $_->{regret} } @points;
