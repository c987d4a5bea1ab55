#!/usr/bin/env perl
# test/bench/regret_search.pl FILE SECONDS [SEED]: look for the worst choice over random statements
# whose row estimates are right. A third of the points are random, a third are drawn from a corner
# (see @corners), the others are a bad point with one axis changed. FILE gets the ten worst points,
# at most one of each form and plan.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use List::Util qw(max min);

use Regret;

my ($file, $seconds, $seed) = @ARGV;
die "usage: regret_search.pl FILE SECONDS [SEED]\n" unless $seconds;
$seed //= time % 100000;
srand($seed);
print "seed $seed\n";

my $rows = $ENV{REGRET_FACTS} || 600000;
my $keys = 20000;		# values of k
my $most_keys = 20000;
my %estimates;

sub any_of { return $_[ rand(@_) ]; }

# Return a number from 1 to $_[0]; each order of magnitude is equally likely.
sub up_to { return int(exp(rand(log($_[0] + 1)))) || 1; }

# Filters, and the share of the rows that they leave.
my %shares = ('v < 500' => 0.5, 'w < 100' => 0.1, 'id % 200 = 7' => 0.005, 'v = 7' => 0.001,
	'v < 10 AND w < 10' => 0.0001);

# The axes of a point, each with a function that draws a value.
my %axes = (
	table => sub { any_of(qw(sorted random delta unsorted parts)) },
	indexes => sub { any_of(qw(plain include), 'plain btree', 'include btree') },
	column => sub { any_of(qw(k k k id)) },
	n => sub { any_of(up_to($most_keys), int(rand($most_keys)) + 1) },
	source => sub { any_of(qw(array array list table generic)) },
	form => sub { any_of(qw(count sum rows groups top deep deep limit cursor cursor delete)) },
	covered => sub { any_of(0, 1) },
	offset => sub { any_of(0, rand()) },
	limit => sub { any_of(10, 1000, 1e9) },
	down => sub { any_of('', ' DESC') },
	fetch_all => sub { any_of(0, 1) },
	filter => sub { any_of('', '', '', sort keys %shares) },
	work_mem => sub { any_of(qw(64kB 256kB 1MB 4MB 64MB)) },
	hash_mem_multiplier => sub { any_of(1, 2, 8) },
	random_page_cost => sub { any_of(4, 1.1) },
	workers => sub { any_of(0, 2) },
	cursor_tuple_fraction => sub { any_of(0.1, 1) });

# Corners in which memory, batches and deltas determine the time. Axes that are drawn one by one
# seldom lead there: many keys of many rows, little memory, and a large part of an order, or rows
# that are not sorted in the index. The other axes are drawn.
my %crowded = (
	column => sub { 'k' },
	n => sub { int($most_keys * (0.1 + 0.6 * rand())) },
	source => sub { any_of(qw(array list table)) },
	indexes => sub { any_of('plain', 'include', 'include', 'include btree') },
	work_mem => sub { any_of(qw(64kB 64kB 256kB 1MB 4MB)) },
	hash_mem_multiplier => sub { any_of(1, 2) });
my @corners = (

	# Read far into an order, by OFFSET or a long LIMIT.
	{
		%crowded,
		form => sub { 'deep' },
		offset => sub { any_of(0.1 + 0.8 * rand(), 0) },
		limit => sub { any_of(10, $rows / 4, 1e9) },
		filter => sub { '' }
	},

	# Read the first rows of an order; a filter keeps few of them.
	{
		%crowded,
		form => sub { any_of(qw(top deep)) },
		offset => sub { 0 },
		limit => sub { any_of(10, 100) },
		filter => sub { any_of('v = 7', 'v < 10 AND w < 10', 'id % 200 = 7') }
	},

	# Read a cursor, in order if "offset" is set.
	{
		%crowded,
		form => sub { 'cursor' },
		offset => sub { any_of(0, 0.5) },
		fetch_all => sub { any_of(0, 1, 1) }
	},

	# Read unsorted rows, more than fit into memory.
	{
		%crowded,
		table => sub { any_of(qw(delta unsorted)) },
		form => sub { any_of(qw(count sum rows groups deep cursor)) }
	});

sub draw
{
	my %drawn = (%axes, %{ $_[0] // {} });
	return { map { $_ => $drawn{$_}->() } sort keys %drawn };
}

sub mutate
{
	my ($axes) = @_;
	my $axis = any_of(sort keys %axes);
	return { %$axes, $axis => $axes{$axis}->() };
}

# The point of these axes. Its "whole" is the statement without LIMIT or a cursor.
sub point_of
{
	my ($x) = @_;
	my $table = "facts_$x->{table}";
	my $expected = $x->{n} * ($x->{column} eq 'k' ? $rows / $keys : 1);
	my $value = $x->{column} eq 'k' ? 'i * 7919 % 20000' : "i::bigint * 7919 % $rows + 1";
	my $from = $x->{source} eq 'table'
	  ? "$table f WHERE $x->{column} IN (SELECT $x->{column} FROM keyset WHERE place <= $x->{n})"
	  : "$table f WHERE $x->{column} "
	  . { array => "= ANY (:'keys')", list => 'IN (:list)', generic => '= ANY ($1)' }
	  ->{ $x->{source} };
	my $columns = $x->{covered} ? 'ts, v' : '*';
	my $offset = int($x->{offset} * $expected);
	my $window = ' LIMIT ' . int($x->{limit}) . ($offset ? " OFFSET $offset" : '');
	my %point = (axes => $x, settings => {
			map { $_ => $x->{$_} }
			  qw(work_mem hash_mem_multiplier random_page_cost cursor_tuple_fraction) });

	$from .= " AND $x->{filter}" if $x->{filter};
	$point{settings}{max_parallel_workers_per_gather} = $x->{workers};
	$point{script} = "SELECT array_agg($value) AS keys, string_agg(($value)::text, ', ') AS list"
	  . " FROM generate_series(1, $x->{n}) i \\gset";
	$point{shown} = [ $table, join(' ', "${table}_unique", "${table}_pkey",
			map { "${table}_$_" } split(' ', $x->{indexes})) ] if $x->{table} ne 'parts';
	$point{whole} = "SELECT $columns FROM $from";
	my $ordered = "$point{whole} ORDER BY ts$x->{down}";
	my $form = $x->{form};
	my $statement =
		$form eq 'count' ? "SELECT count(*) FROM $from"
	  : $form eq 'sum' ? "SELECT sum(" . ($x->{covered} ? 'v' : 'w') . ") FROM $from"
	  : $form eq 'rows' ? "SELECT count(x) FROM ($point{whole} OFFSET 0) x"
	  : $form eq 'groups' ? "SELECT g, count(*), sum(v) FROM $from GROUP BY g"
	  : $form eq 'top' ? "$ordered LIMIT 10"
	  : $form eq 'deep' ? "SELECT count(x), min(ts), max(ts) FROM ($ordered$window) x"
	  : $form eq 'limit' ? "SELECT count(x) FROM ($point{whole}$window) x"
	  : $form eq 'cursor' ? ($x->{offset} ? $ordered : $point{whole})
	  : "DELETE FROM $from";

	$point{order} = 1 if $form eq 'top';

	# Rows that the planner is told to expect are fetched; all of them also where it is told that a
	# tenth is wanted, as drivers do.
	my $part = int(0.1 * $expected * ($shares{ $x->{filter} } // 1)) || 1;
	my $all = $x->{fetch_all} || $x->{cursor_tuple_fraction} == 1;
	my $fetch = $all ? 'MOVE ALL c' : "MOVE $part FROM c";
	@point{qw(begin end loose)} = ('BEGIN;', "$fetch; COMMIT;", 1) if $form eq 'cursor';
	@point{qw(begin end)} = ('BEGIN;', 'ROLLBACK;') if $form eq 'delete';
	if ($x->{source} eq 'generic')
	{
		return if $form eq 'cursor';
		$point{settings}{plan_cache_mode} = 'force_generic_plan';
		$point{script} .= "\nPREPARE p (int[]) AS $statement;"
		  . "\nPREPARE whole (int[]) AS $point{whole};";
		$statement = "EXECUTE p (:'keys')";
		$point{whole} = "EXECUTE whole (:'keys')";
	}
	elsif ($form eq 'cursor') { $statement = "DECLARE c CURSOR FOR $statement"; }
	return if $form eq 'delete' && $x->{n} > 1000;
	$point{statement} = $statement;
	return \%point;
}

# Return true if PostgreSQL's own plan of the whole expects the rows that come, within half as many
# again.
sub is_estimate_right
{
	my ($point) = @_;

	return $estimates{ join("\n", @{$point}{qw(whole script)}) } //= estimate($point);
}

sub estimate
{
	my ($point) = @_;
	my $ruler = Regret::get_ready('ruler', $point);
	my $plan = ask($ruler, "EXPLAIN (ANALYZE, TIMING off) $point->{whole};");

	return 0 if $plan->{cut} || $plan->{error};
	my ($expected, $came) = $plan->{text} =~ /rows=(\d+) .*?\(actual rows=([0-9.]+)/ or return 0;
	return abs($expected - $came) <= 10
	  || max($expected, $came) <= 1.5 * max(1, min($expected, $came));
}

# Return the same for points that are alike: the form, and the nodes of the plan.
sub kind
{
	my ($m) = @_;
	my @nodes = $m->{plan}{choice} =~
	  /^\s*(?:->\s*)?([A-Z][A-Za-z ]+(?:\(\w+\))?)(?= on | using |\s+\()/mg;
	return join(' ', $m->{axes}{form}, @nodes);
}

my (%worst, $tried, $aside);

sub ten_worst
{
	my @all = sort { $b->{ratio} <=> $a->{ratio} } values %worst;
	return @all[0 .. min(9, $#all)];
}

($tried, $aside) = (0, 0);
my @wrong;
while (time - $^T < $seconds * 0.85)
{
	my @bad = grep { $_->{ratio} > 1.15 } ten_worst();
	my $way = int(rand(3));
	my $x = $way == 0 && @bad ? mutate(any_of(@bad)->{axes})
	  : $way == 1 ? draw()
	  : draw(any_of(@corners));
	my $point = point_of($x) or next;
	$point->{name} = 'search_' . ($tried + $aside + 1);
	Regret::show_indexes($point);
	if (!is_estimate_right($point)) { $aside++; next; }
	my $m = measure($point, 2, { patience => 1.2 });
	$tried++;
	push @wrong, $m if $m->{wrong};
	my $kind = kind($m);
	$worst{$kind} = $m if !$worst{$kind} || $worst{$kind}{ratio} < $m->{ratio};
}

# Measure the point again, because the first time may have been an accident.
my @again;
for my $m (ten_worst())
{
	push @again, time - $^T < $seconds ? measure($m, 5) : $m;
}
# Named points may be measured again, with all indexes.
for my $table (map { "facts_$_" } qw(sorted random delta unsorted))
{
	my $names = join(' ', map { "${table}_$_" } qw(plain include unique btree pkey));
	Regret::show_indexes({ name => 'all', shown => [ $table, $names ] });
}
keep($file, $_) for (sort { $b->{ratio} <=> $a->{ratio} } @again), @wrong;
print "$tried points were measured, $aside were set aside, as their estimates were wrong\n";
