# Plan advice (PostgreSQL 19): where advice of pg_plan_advice, given or stored by pg_stash_advice,
# names kinds of scans or joins, an index or an order, the plan is the one that PostgreSQL makes of
# this advice without gpujoin, even under gpujoin.force. A stored plan is still used after CREATE
# INDEX ... USING gpujoin.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main');

if ($node->safe_psql('postgres', 'SHOW server_version_num') < 190000)
{
	plan skip_all => 'PostgreSQL has plan advice from version 19 on';
}

$node->append_conf('postgresql.conf', join("\n",
		"shared_preload_libraries = 'gpujoin, pg_plan_advice, pg_stash_advice'",
		'compute_query_id = on', 'max_parallel_workers_per_gather = 2',
		'min_parallel_table_scan_size = 0', 'parallel_setup_cost = 0', ''));
$node->restart;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_stash_advice;
	CREATE TABLE big (id int, k int NOT NULL, v int);
	INSERT INTO big SELECT i, i * 7919 % 20000, i FROM generate_series(1, 100000) i;
	CREATE INDEX big_bt ON big (k);
	CREATE TABLE small (k int NOT NULL, j int);
	INSERT INTO small SELECT i * 5, i % 10 FROM generate_series(1, 500) i;
	CREATE TABLE third (j int, t text);
	INSERT INTO third SELECT i, 'row ' || i FROM generate_series(0, 9) i;
	VACUUM ANALYZE big, small, third});

my $scan = 'SELECT sum(b.v), count(*) FROM big b ' .
	'WHERE b.k = ANY (ARRAY(SELECT generate_series(1, 900)))';
my $join = 'SELECT count(*), sum(b.v) FROM small s JOIN big b ON b.k = s.k';
my $three = 'SELECT count(*), sum(b.v), max(t.t) FROM small s JOIN big b ON b.k = s.k ' .
	'JOIN third t ON t.j = s.j';

sub plan_of
{
	my ($query, $advice, @settings) = @_;

	my ($status, $out, $err) = $node->psql('postgres', join(';', @settings,
			"SET pg_plan_advice.advice = '$advice'", "EXPLAIN (COSTS OFF) $query"));

	is($err, '', "no message: $advice");
	$out =~ s/\n?Supplied Plan Advice:.*//s;
	return $out;
}

# ---- a stored plan ------------------------------------------------------------------------------

my %stored;
foreach my $query ($scan, $join, $three)
{
	my $plan = $node->safe_psql('postgres', "EXPLAIN (VERBOSE, PLAN_ADVICE) $query");
	my ($query_id) = $plan =~ /Query Identifier: (-?\d+)/;
	my ($advice) = $plan =~ /Generated Plan Advice:\n(.*?)(?:\n\S|\z)/s;

	$advice =~ s/\s+/ /g;
	$stored{$query} = [ $node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), $query_id,
		$advice ];
}
$node->safe_psql('postgres',
	'CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v); VACUUM ANALYZE big');
$node->safe_psql('postgres', "SELECT pg_create_advice_stash('kept')");
foreach my $query ($scan, $join, $three)
{
	my ($plan, $query_id, $advice) = @{ $stored{$query} };
	my $force = 'SET gpujoin.force = on';

	like(plan_of($query, '', $force), qr/Custom Scan \(Gpu/, "ours without advice: $query");
	$node->safe_psql('postgres', "SELECT pg_set_stashed_advice('kept', $query_id, '$advice')");
	foreach my $setting ($force, 'SET gpujoin.force = off')
	{
		is($node->safe_psql('postgres',
				"$setting; SET pg_stash_advice.stash_name = 'kept'; EXPLAIN (COSTS OFF) $query")
			  =~ s/\n?Supplied Plan Advice:.*//sr,
			$plan, "the stored plan is kept, $setting: $query");
	}
}

# ---- advice of each kind ------------------------------------------------------------------------

# The plans are those that PostgreSQL makes without gpujoin.
my @advice = (
	[ $scan, 'SEQ_SCAN(b)', qr/Seq Scan on big b/ ],
	[ $scan, 'INDEX_SCAN(b big_bt)', qr/Index Scan using big_bt/ ],
	[ $scan, 'INDEX_ONLY_SCAN(b big_bt)', qr/Index/ ],
	[ $scan, 'DO_NOT_SCAN(b)', qr/on big b/ ],
	[ $scan, 'SEQ_SCAN(b) GATHER(b)', qr/Gather.*Parallel Seq Scan on big b/s ],
	[ $scan, 'SEQ_SCAN(b) NO_GATHER(b)', qr/Seq Scan on big b/ ],
	[ $join, 'HASH_JOIN(s)', qr/Hash Join/ ],
	[ $join, 'HASH_JOIN(b)', qr/Hash Join/ ],
	[ $join, 'MERGE_JOIN_PLAIN(s)', qr/Merge Join/ ],
	[ $join, 'NESTED_LOOP_PLAIN(b)', qr/Nested Loop/ ],
	[ $join, 'SEQ_SCAN(b)', qr/Seq Scan on big b/ ],
	[ $join, 'INDEX_SCAN(b big_bt)', qr/using big_bt/ ],
	[ $three, 'JOIN_ORDER(s t b) HASH_JOIN(t b)', qr/Hash Join.*Hash Join/s ],
	[ $three, 'HASH_JOIN(b) HASH_JOIN(t)', qr/Hash Join/ ]);

foreach my $case (@advice)
{
	my ($query, $advice, $expected) = @$case;
	my $stock = plan_of($query, $advice, 'SET gpujoin.enabled = off');

	like($stock, $expected, "advice has an effect: $advice");
	is(plan_of($query, $advice, $_), $stock, "obeyed, $_: $advice")
	  foreach 'SET gpujoin.force = on', 'SET gpujoin.force = off';
}

# Advice that leaves us a choice: PostgreSQL's own bitmap scan over our index, one of ours in
# parallel or not, a join of ours in the given order
like(plan_of($scan, 'BITMAP_HEAP_SCAN(b)', 'SET gpujoin.force = on'),
	qr/Bitmap Heap Scan on big b/, 'a bitmap scan');
like(plan_of($scan, 'GATHER(b)', 'SET gpujoin.force = on'), qr/Gather.*Parallel Custom Scan/s,
	'a parallel scan of ours');
unlike(plan_of($scan, 'NO_GATHER(b)', 'SET gpujoin.force = on'), qr/Gather/, 'none');
like(plan_of($three, 'JOIN_ORDER(s t b)', 'SET gpujoin.force = on'),
	qr/GpuJoin.*(Hash Join|Nested Loop|Merge Join).*(small s.*third t|third t.*small s)/s,
	'the join of the small tables first');

# pg_plan_advice of 19rc1 raises an error for a custom join that is an input of another join. So
# there is none in queries that it gives advice for or collects it from, but in all others.
like(plan_of($three, 'JOIN_ORDER(s b t)', 'SET gpujoin.force = on'),
	qr/(Hash Join|Nested Loop|Merge Join).*(Hash Join|Nested Loop|Merge Join)/s,
	'the join with the big table first is not ours');

my @first = ('SET gpujoin.force = on', 'SET join_collapse_limit = 1');
my $input = qr/(Hash Join|Nested Loop|Merge Join).*GpuJoin/s;

like(plan_of($three, '', @first), $input, 'without advice, a join of ours is an input of another');
foreach my $collect ([ '', 'EXPLAIN (COSTS OFF, PLAN_ADVICE)' ],
	[ 'SET pg_plan_advice.always_store_advice_details = on', 'EXPLAIN (COSTS OFF)' ])
{
	my ($status, $out, $err) = $node->psql('postgres',
		join(';', @first, $collect->[0], "$collect->[1] $three"));

	is($err, '', "no message while advice is collected: @$collect");
	unlike($out, $input, "then it is not: @$collect");
}

# The reason is told
my $told = $node->safe_psql('postgres', qq{SET pg_plan_advice.advice = 'SEQ_SCAN(b)';
	SELECT string_agg(t::text, E'\\n') FROM gpujoin_explain_choice(\$q\$$scan\$q\$) t});
like($told, qr/plan advice names another kind of scan/, 'gpujoin_explain_choice() tells why');

log_is_clean($node, 'the log is clean');
done_testing();
