# Random parts that GpuJoinFuzz assembles queries from. All randomness comes from rand().
package GpuJoinRandom;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(pick upto chance entry_filter folds compare_sql @settings $parallel @unknown);

sub pick { return $_[ int(rand(@_)) ]; }
sub upto { return int(rand($_[0])); }
sub chance { return rand() < $_[0]; }

# Return a filter that can be tested on the entries of an index that has the columns: see
# create_indexes() in GpuJoinFuzz.
sub entry_filter
{
	my ($b, $depth) = @_;
	my $operator = sub { pick('<', '<=', '=', '<>', '>=', '>') };
	my $number = sub { pick(upto(100), upto(40), '-1', '2147483648', 'NULL::int2',
			'(SELECT max(w) FROM small)') };
	my $float = sub { pick("'NaN'", "'Infinity'", "'-0'", upto(10), '2.5') . '::'
		  . pick('float4', 'float8') };
	my @leaves = (
		sub { "$b." . pick('v', 'k2', 'id') . ' ' . $operator->() . ' ' . $number->() },
		sub { $number->() . ' ' . $operator->() . " $b." . pick('v', 'k2') },
		sub { "$b.v BETWEEN " . upto(50) . ' AND ' . (20 + upto(80)) . '::int8' },
		sub {
			my @list = map { pick($number->(), upto(40)) } 1 .. pick(1, 3, 20);
			"$b.k2 " . pick('IN', 'NOT IN') . ' (' . join(', ', @list) . ')';
		},
		sub { "$b.v " . pick('= ANY', '<> ALL') . ' (' . pick("'{}'::int2[]", 'NULL::int[]',
				"'{1,2,NULL,50}'::int8[]", 'ARRAY(SELECT w FROM small WHERE w % 3 = 1)') . ')' },
		sub { "$b.f " . $operator->() . ' ' . $float->() },
		sub { "$b.f = ANY (ARRAY[" . $float->() . ', ' . $float->() . ', 3])' },
		sub { "$b.n " . $operator->() . ' '
			  . pick(upto(20), '0.125', '3.25', '3.250', "'NaN'", '1e25', '-1', 'NULL::numeric') },
		sub { "$b.n " . pick('IN', 'NOT IN') . " (1.5, 2.25, 3.125, 'NaN')" },
		sub { "$b.s " . pick('=', '<>') . " '"
			  . pick('', 'abc', 'longer than fifteen bytes 1', 'abcdefghijklmno') . "'" },
		sub { "$b.c " . pick('=', '<>', 'IN', 'NOT IN') . " ('" . pick('', 'abc', 'abc ') . "'"
			  . pick('', '::text', '::varchar') . ')' },
		sub { "$b.s " . pick('IN', 'NOT IN') . " ('abc', '', 'longer than fifteen bytes 2')" },
		sub { "$b.u " . pick('=', '<>', 'IN') . " (md5('" . upto(60) . "')::uuid)" },
		sub { pick('', 'NOT ') . "$b.ok" },
		sub { "$b.ok IS " . pick('', 'NOT ') . pick('TRUE', 'FALSE', 'UNKNOWN') },
		sub {
			"$b." . pick('f', 'ok', 'v', 'k', 'n', 's', 'u') . ' IS ' . pick('', 'NOT ') . 'NULL'
		});
	return pick(@leaves)->() if $depth == 0 || chance(0.4);
	my ($left, $right) = map { entry_filter($b, $depth - 1) } 1 .. 2;
	return pick("($left OR $right)", "($left AND $right)", "NOT ($left)", "(($left) IS NOT TRUE)",
		"(($left OR $right) IS " . pick('FALSE', 'NOT FALSE', 'UNKNOWN') . ')');
}

# Return folds of all indexes, or nothing; t/005_differential.pl defines the function
sub folds { return pick('', map { "SELECT fold_all($_);\n" } qw(false false true)); }

# Return the call that compares a query's answers
sub quoted { return "'" . $_[0] =~ s/'/''/gr . "'"; }
sub compare_sql { return "SELECT compare(" . join(', ', map { quoted($_) } @_) . ");\n"; }

# Parallel plans cost almost nothing to set up; not nothing, or a nested loop could rescan a Gather,
# and start its workers again, for each outer row.
my $cheap_parallel =
  'parallel_setup_cost=0.01 parallel_tuple_cost=0 min_parallel_table_scan_size=0';

# Settings of the planner
our @settings = (qw(work_mem=64kB work_mem=64kB enable_hashjoin=off enable_mergejoin=off
	  enable_nestloop=off enable_material=off enable_memoize=off enable_sort=off enable_hashagg=off
	  enable_partitionwise_join=on enable_partitionwise_aggregate=on from_collapse_limit=1
	  join_collapse_limit=1 enable_bitmapscan=off geqo_threshold=2 hash_mem_multiplier=1
	  cursor_tuple_fraction=1 constraint_exclusion=on),
	"$cheap_parallel max_parallel_workers_per_gather=2",
	'parallel_leader_participation=off',
	'gpujoin.min_rows=0 gpujoin.setup_cost=0 gpujoin.search_cost=0 gpujoin.tid_cost=0');

# Set all other costs that parallel plans do not divide to zero, so that everything divisible is
# divided.
our $parallel = "$cheap_parallel max_parallel_workers_per_gather=3 "
  . 'seq_page_cost=0 random_page_cost=0 gpujoin.setup_cost=0 '
  . 'gpujoin.search_cost=0 gpujoin.tid_cost=0 gpujoin.device_setup_cost=0 '
  . 'gpujoin.device_search_cost=0';

# For an array of unknown length, ours is used if it is the cheaper one for as many keys.
our @unknown = map { "gpujoin.min_rows=0 gpujoin.assumed_keys=$_" } 1, 30, 1000;

1;
