#!/usr/bin/env perl
# test/bench/regret.pl: reports on the measurements of no_regret.sh.
#
#	regret.pl suspects FILE...	names of the points whose choice looks bad, one a line
#	regret.pl report FILE...	markdown; the points of a later file replace those of an earlier one
#	regret.pl search FILE	markdown: the worst points of the search, and how to repeat them
#
# Regret.pm describes the files. A point of the grid is called
# FORM,ROWS,SET,KEYS,MATCHING,PAGE_COST.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use Regret;

# Returns a plan in one line: its kinds of nodes, each with its number.
sub gist
{
	my ($plan) = @_;
	my @nodes = map { s/^\s*(->)?\s*//r =~ s/ using t\d+_/ using /r =~ s/ on \w+.*//r
		=~ s/\s+\(cost=.*//r }
	  grep { !/^\s*(->)?\s*(Finalize |Partial )?(Aggregate|Gather)/ }
	  grep { /^\S|->/ } split(/\n/, $plan);
	my (@kinds, %count);
	$count{$_}++ || push @kinds, $_ for map { s/\s+$//r } @nodes;
	return join(', ', map { $count{$_} > 1 ? "$_ ($count{$_})" : $_ } @kinds);
}

# Returns the reason for a regret, as far as the point itself shows it.
sub reason
{
	my ($p) = @_;
	my ($form, $rows, $set, $keys, $matching) = (split(/,/, $p->{name}), ('', 0, '', 0, 0));
	my ($choice, $best) = ($p->{plan}{choice}, $p->{plan}{ $p->{best} });

	return '' if $p->{name} !~ /,/;
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
	  if $matching < $keys && $p->{slower_than_bound};
	return 'rows are expected for each key; most have none' if $matching < $keys;
	return 'a btree is charged for a page from the disk for each key; here all are in memory'
	  if $p->{slower_than_bound} && $best =~ /Index/;
	return '';
}

sub ms { return sprintf($_[0] >= 100 ? '%.0f' : '%.2f', $_[0]); }

sub table
{
	my (@points) = @_;

	print "| point | choice | stock | force | serial | ratio | the choice | the best | why |\n",
	  "|---|--:|--:|--:|--:|--:|---|---|---|\n";
	for my $p (sort { $b->{ratio} <=> $a->{ratio} } @points)
	{
		print '| ', join(' | ', $p->{name} =~ s/,/, /gr, times_of($p),
			sprintf('%.2f', $p->{ratio}), gist($p->{plan}{choice}),
			$p->{best} . ': ' . gist($p->{plan}{ $p->{best} }), reason($p)), " |\n";
	}
	return;
}

sub times_of
{
	my ($p) = @_;
	return map { defined $p->{time}{$_} ? ms($p->{time}{$_}) : q{} } @contestants;
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
	my @slower = grep { $_->{slower_than_bound} } @points;
	my @missed = grep { !$_->{slower_than_bound} } @regrets;
	my @ours = grep { $_->{ours} } @points;
	my @wrong = grep { $_->{wrong} } @points;
	my @named = grep { $_->{name} !~ /,/ } @points;

	print "\n", scalar(@points), ' points; gpujoin is chosen at ', scalar(@ours),
	  ', where stock takes ', geometric_mean(map { $_->{time}{stock} / $_->{time}{choice} } @ours),
	  " times as long (geometric mean). ", scalar(@slower),
	  ' choices are slower than stock, or than ours without workers, ', scalar(@missed),
	  ' more are not the best; ',
	  scalar(grep { reason($_) eq '' } @regrets), " of both are not explained.\n";
	print "\n**Different answers: ", join('; ', map { $_->{name} } @wrong), "**\n" if @wrong;
	for (['Slower than stock, or than ours without workers', @slower],
		['Slower than gpujoin.force', @missed])
	{
		my ($title, @list) = @$_;
		print "\n## $title: ", scalar(@list), "\n\n";
		table(@list) if @list;
	}
	print "\n## All points that have a name\n\n";
	table(@named);
	print "\n## Plans\n";
	for my $p (sort { $b->{ratio} <=> $a->{ratio} } @regrets)
	{
		print "\n```\n-- $p->{name}, the choice, ", ms($p->{time}{choice}), " ms\n",
		  clip($p->{plan}{choice}),
		  "-- $p->{best}, ", ms($p->{time}{ $p->{best} }), " ms\n",
		  clip($p->{plan}{ $p->{best} }), "```\n";
	}
	return;
}

# Returns a plan with long lines cut off, and with a limited number of lines.
sub clip
{
	my @lines = split(/\n/, $_[0]);

	splice(@lines, 20, @lines - 20, '...') if @lines > 25;
	return join('', map { substr($_, 0, 110) . "\n" } @lines);
}

sub search
{
	my (@points) = @_;

	my @wrong = map { $_->{name} } grep { $_->{wrong} } @points;

	print "\n**Different answers: ", join('; ', @wrong), "**\n" if @wrong;
	table(@points);
	for my $p (@points)
	{
		my $better = $p->{same}{ $p->{best} } eq 'choice' ? ''
		  : "-- $p->{best}\n" . clip($p->{plan}{ $p->{best} });
		print "\n```\n-- $p->{name}: ", sprintf('%.2f', $p->{ratio}), "\n", reproduce($p), "\n",
		  clip($p->{plan}{choice}), $better, "```\n";
	}
	return;
}

my ($mode, @files) = @ARGV;
die "usage: regret.pl suspects|report|search FILE...\n" unless @files;
my @points = read_points(@files);
if ($mode eq 'report') { report(@points); }
elsif ($mode eq 'search') { search(@points); }
else { print map { "$_->{name}\n" } grep { $_->{regret} && $_->{name} !~ /^cold/ } @points; }
