#!/usr/bin/env perl
# test/bench/regret_points.pl: measure points of the no-regret grid.
#
#	regret_points.pl FILE ROUNDS SECONDS named [PATTERN]	the points of regret_rows.pl
#	regret_points.pl FILE ROUNDS SECONDS grid		all others, in a scattered order
#	regret_points.pl FILE ROUNDS SECONDS again <NAMES	those of these names
#	regret_points.pl FILE ROUNDS SECONDS once NAME CONTESTANT	a point, by one contestant
#
# FILE gets what was measured. No point is begun when SECONDS are over. Prints how many points there
# are, and how many were reached.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use Regret;
require 'regret_rows.pl';

my ($file, $rounds, $seconds, $mode, @rest) = @ARGV;
die "usage: regret_points.pl FILE ROUNDS SECONDS named|grid|again|once ...\n" unless $mode;

# -------------------------------------------------------------------------------------------------
# The grid: FORM,ROWS,INDEXES,KEYS,MATCHING,PAGE_COST
# -------------------------------------------------------------------------------------------------

my $where = q{WHERE k = ANY (:'keys')};
my %forms = (
	any_count => sub { "SELECT count(*) FROM $_[0] $where" },
	any_sum => sub { "SELECT sum(v) FROM $_[0] $where" },
	any_rows => sub { "SELECT count(x) FROM (SELECT * FROM $_[0] $where OFFSET 0) x" },
	any_generic => sub { "EXECUTE p (:'keys')" },
	unique => sub { "SELECT count(text) FROM $_[0] WHERE id = ANY (:'keys')" },
	group => sub { "SELECT v, count(*), max(id) FROM $_[0] $where GROUP BY v" },
	top => sub { "SELECT id, v FROM $_[0] $where ORDER BY v, id LIMIT 10" },
	limit => sub { "SELECT count(text) FROM (SELECT * FROM $_[0] $where LIMIT 10) x" },
	cursor => sub { "DECLARE c CURSOR FOR SELECT * FROM $_[0] $where" },
	delete => sub { "DELETE FROM $_[0] $where" },
	not_in => sub { "SELECT sum(v) FROM $_[0] WHERE k <> ALL (:'keys')" },
	join => sub { "SELECT count(*), sum(v) FROM $_[1] s JOIN $_[0] b ON b.k = s.k" },
	semi => sub { "SELECT count(*), sum(v) FROM $_[0] WHERE k IN (SELECT k FROM $_[1])" },
	unnest => sub { "SELECT count(*), sum(v) FROM unnest(:'keys'::int[]) s(k)
		JOIN $_[0] b ON b.k = s.k" });
my @all_forms = qw(any_count any_sum any_rows any_generic unique group top limit cursor delete
  not_in join semi unnest);
my @sets = qw(gpujoin gpujoin+btree include+covering);

sub words { return split(' ', $ENV{ $_[0] } || $_[1]); }

# The names of all points, except those with more matching keys than keys.
sub grid_names
{
	my @names;

	for my $rows (words('REGRET_ROWS', '100000 1000000'))
	{
		for my $keys (words('REGRET_KEYS', '1 10 100 1000 10000 100000'))
		{
			my %matching = map { $_ => 1 } $keys < 80000 ? $keys : 80000, int(($keys + 99) / 100);
			for my $matching (sort { $a <=> $b } keys %matching)
			{
				for my $form (words('REGRET_FORMS', "@all_forms"))
				{
					next if $form eq 'delete' && $keys > 1000;
					push @names, join(',', $form, $rows, $_->[0], $keys, $matching, $_->[1])
					  for map { [ $_, 4 ], [ $_, 1.1 ] } @sets;
				}
			}
		}
	}
	return @names;
}

# Scatter the points, so that no part of the grid comes only at the end.
sub scattered
{
	my @names = @_;
	my @places =
	  sort { ($a + 1) * 7919 % 10007 <=> ($b + 1) * 7919 % 10007 || $a <=> $b } 0 .. $#names;
	return @names[@places];
}

my %key_tables;

# Create a table of keys, which is used for all points with this number of keys.
sub key_table
{
	my ($keys, $matching) = @_;
	return $key_tables{"$keys $matching"} //= do
	{
		my $made = ask(session('ruler'), "SELECT make_keys($keys, $matching);");
		die "make_keys: $made->{error}\n" if $made->{error};
		$made->{text} =~ s/\s//gr;
	};
}

sub grid_point
{
	my ($name) = @_;
	my ($form, $rows, $set, $keys, $matching, $page_cost) = split(/,/, $name =~ s/^cold_//r);
	my $table = "t$rows";
	my $key_table = key_table($keys, $matching);
	my @shown = map { "${table}_$_" } split(/\+/, $set);
	my %point = (
		name => $name,
		settings => { random_page_cost => $page_cost },
		script => "SELECT array_agg(k) AS keys FROM $key_table \\gset",
		statement => $forms{$form}->($table, $key_table),
		shown => [ $table, join(' ', $form eq 'delete' || $form eq 'unique'
			? ("${table}_pkey", @shown, "${table}_ids") : @shown) ]);

	@point{qw(begin end loose)} = ('BEGIN;', 'FETCH 100 FROM c; MOVE ALL c; COMMIT;', 1)
	  if $form eq 'cursor';
	@point{qw(begin end)} = ('BEGIN;', 'ROLLBACK;') if $form eq 'delete';
	$point{loose} = 1 if $form eq 'limit';
	$point{order} = 1 if $form eq 'top';
	if ($form eq 'any_generic')
	{
		$point{settings}{plan_cache_mode} = 'force_generic_plan';
		$point{script} .= "\nPREPARE p (int[]) AS SELECT sum(v) FROM $table WHERE k = ANY (\$1);";
	}
	return \%point;
}

# -------------------------------------------------------------------------------------------------
# The forms of the question
# -------------------------------------------------------------------------------------------------

my %named = map { $_->{name} => $_ } named_points();
my $pattern = $mode eq 'named' ? $rest[0] // '.' : '.';
my @names =
	$mode eq 'named' ? grep { /$pattern/ } map { $_->{name} } named_points()
  : $mode eq 'grid' ? scattered(grid_names())
  : $mode eq 'again' ? map { chomp; $_ } <STDIN>
  : $rest[0];
my $options =
	$mode eq 'once' ? { only => [ $rest[1] ] }
  : $mode eq 'again' ? {}
  : { patience => 1.2 };
my $reached = 0;

for my $name (@names)
{
	last if time - $^T >= $seconds;
	my $m = measure($named{$name} // grid_point($name), $rounds, $options);
	keep($file, $m);
	$reached++;
	printf STDERR "%-30s choice %.2f stock %.2f force %.2f serial %.2f: %.2f%s\n", $name,
	  (map { $m->{time}{$_} } @contestants), $m->{ratio}, $m->{wrong} ? " WRONG: $m->{wrong}" : ''
	  if $ENV{REGRET_VERBOSE};
}
print "$reached of ", scalar(@names), "\n";
