# Custom scans with the same names as ours, as in PG-Strom: gpujoin_test stands in for it. In either
# loading order the server starts, and plans name our nodes so that each process finds them.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $parallel = 'SET gpujoin.force = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
	SET force_parallel_mode = on;';
my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77])',
	'SELECT b.v FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT k, count(*), sum(v) FROM big WHERE k = ANY (ARRAY[1, 5, 77]) GROUP BY k');

my $node = new_server('main', 'fsync = off');
my $debug_parallel = $node->safe_psql('postgres', q{SELECT name FROM pg_settings
	WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
$parallel =~ s/force_parallel_mode/$debug_parallel/;
$node->safe_psql('postgres', q{
	CREATE TABLE big (k int, v int);
	INSERT INTO big SELECT i % 1000, i FROM generate_series(1, 20000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v) WITH (lanes = 2);
	ANALYZE big;});

sub plans_with_names
{
	my ($name, $prefix) = @_;

	foreach my $part ([ 0, 'GpuScan' ], [ 1, 'GpuJoin' ], [ 2, 'GpuAgg' ])
	{
		my $plan = $node->safe_psql('postgres',
			"$parallel LOAD 'gpujoin'; EXPLAIN (COSTS OFF) $queries[$part->[0]]");
		my $shown = $part->[1] eq 'GpuAgg' ? 'GpuAgg' : "$prefix$part->[1]";

		like($plan, qr/Custom Scan \((Partial )?\Q$shown\E\)/, "$name: EXPLAIN shows $shown");
		my $rows = "SELECT count(*) || ' ' || sum(hashtext(t::text)) FROM ($queries[$part->[0]]) t";
		is($node->safe_psql('postgres', "$parallel LOAD 'gpujoin'; $rows"),
			$node->safe_psql('postgres', "LOAD 'gpujoin'; SET gpujoin.enabled = off; $rows"),
			"$name: rows of $shown, through parallel workers");
	}
	return;
}

plans_with_names('no other names', '');
foreach my $place ([ before => "'gpujoin_test'" ], [ after => "'gpujoin_test'" ],
	[ before => "'gpujoin_test, gpujoin'" ], [ after => "'gpujoin, gpujoin_test'" ],
	[ alone => "'gpujoin_test'" ])
{
	my ($when, $libraries) = @$place;

	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = $libraries\ngpujoin_test.rival = '$when'");
	$node->stop;
	ok($node->start(fail_ok => 1), "$when, $libraries: the server starts") or next;
	plans_with_names("$when, $libraries", 'gpujoin ');
	is($node->safe_psql('postgres', 'SELECT gpujoin_check($$big_k$$)'), '20000', 'index is whole');
}
log_is_clean($node, 'log is clean');

done_testing();
