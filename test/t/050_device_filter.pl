# Filters that a device tests: EXPLAIN shows them, and entries that fail them are not sent.
# test/sql/filter_device.sql tests that rows and counters are the same as without a device.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'", PATIENT,
	'gpujoin.force = on', 'gpujoin.auto_load = off', 'max_parallel_workers_per_gather = 0');
wait_ready($node);
$node->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int, w int, f float8, b bool, d date,
		u uuid, n numeric, t text, c char(4));
	INSERT INTO big SELECT i, i % 100, i % 1000, nullif(i % 5, 1), i, i % 2 = 0,
		current_date - i % 7, lpad(to_hex(i % 1000), 32, '0')::uuid,
		CASE WHEN i % 2500 = 3 THEN 'NaN' ELSE round((i % 1000 - 500) / 100.0, 2) END,
		CASE WHEN i % 2500 = 4 THEN 'longer than fifteen bytes' ELSE 'text ' || i % 500 END,
		'c' || i % 500
		FROM generate_series(1, 50000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, w, f, b, d, u, n, t, c);
	SELECT gpujoin_load('big_k')});
vacuum_until_visible($node, 'big');

# Return a query's EXPLAIN output, and the number of bytes that the device has sent for it
sub ask
{
	my ($condition, %how) = @_;
	my $columns = $how{columns} || 'v, w';
	my $options = $how{options} || 'ANALYZE';
	my $before = service($node, 'bytes_received');
	my $plan = $node->safe_psql('postgres', ($how{settings} || '') .
		"EXPLAIN ($options) SELECT $columns FROM big
			WHERE k = ANY (ARRAY(SELECT generate_series(0, 49))) AND $condition " .
		($how{more} || ''));
	return ($plan, service($node, 'bytes_received') - $before);
}

sub line_of
{
	my ($plan, $name) = @_;
	return $plan =~ /^ *"?$name"?: "?(.*?)"?,?$/m ? $1 : 'none';
}

my $uuid = '00000000-0000-0000-0000-000000000007';

# A condition, and the part of it that the device tests
foreach (
	[ 'v = 7', '(v = 7)' ],
	[ 'v = 7 AND w IS NOT NULL', '((w IS NOT NULL) AND (v = 7))' ],
	[ 'v = 7 AND f < 9', '(v = 7)' ],
	[ 'v IN (1, 2) AND b', 'b' ],
	[ "v < 5 AND f < 9 AND NOT b", '((NOT b) AND (v < 5))' ],
	[ "u = '$uuid'", "(u = '$uuid'::uuid)" ],
	[ "u <> '$uuid' AND v = 7", '(v = 7)' ],
	[ "u IN ('$uuid', NULL)", 'none' ],
	[ 'n > 4.9 AND n < 5', "((n > 4.9) AND (n < '5'::numeric))" ],
	[ 'NOT n = 1.5', '(n <> 1.5)' ],
	[ 'n IN (1.5, 2)', 'none' ],
	[ "t = 'text 7'", "(t = 'text 7'::text)" ],
	[ "c = 'c7'", "(c = 'c7'::bpchar)" ],
	[ "c = 'c7'::text", "((c)::text = 'c7'::text)" ],
	[ "t <> 'text 7'", 'none' ],
	[ '(v = 7 OR w = 2)', 'none' ],
	[ 'f < 9', 'none' ],
	[ 'v = 7 AND id > 0', '(v = 7)' ])
{
	my ($condition, $expected) = @$_;
	my ($plan) = ask($condition);

	is(line_of($plan, 'Device Filter'), $expected, "tested by the device: $condition");
	like($plan, qr/Device: reference/, 'which has answered');
}

# 25,000 rows match; for each the device sends 8 bytes of a TID, the columns, and a byte for each
# nullable column.
my $all = 25000;
my $entry = 8 + 4 + 1 + 4 + 1;

foreach ([ 'rows', 'v, w' ], [ 'heap', 'id, v, w' ])
{
	my ($kind, $columns) = @$_;
	my ($plan, $bytes) = ask('v = 7 AND w = 2', columns => $columns);

	is(line_of($plan, 'Matched TIDs'), $all, "$kind: all that match are counted");
	is(line_of($plan, 'Rows Removed by Index Filter'), $all - 50, "$kind: and what is removed");
	is($bytes, 50 * $entry, "$kind: what does not pass is not sent");
	($plan, $bytes) = ask('v IN (7, 8) AND w = 2', columns => $columns);
	is($bytes, 5000 * $entry, "$kind: what the device does not test is");
	($plan, $bytes) = ask("u = '$uuid' AND w = 2", columns => $columns);
	is($bytes, 50 * (8 + ($kind eq 'rows' ? 4 + 1 : 0) + 4 + 1 + 2 * (8 + 1)),
		"$kind: both words of a uuid are tested");
	($plan, $bytes) = ask('v IN (7) AND w IN (2, 3)', columns => $columns);
	is(line_of($plan, 'Rows Removed by Index Filter'), $all - 50, "$kind: a list of one");
}

# Entries without a word for the value are sent, and their rows read: 20 match that lack n, 20 t
foreach (
	[ 'n = -4.93', 50 + 20, 8 ], [ 'n <> -4.93', 24950, 8 ], [ 'n <= -4.97', 190 + 20, 8 ],
	[ 'n > 99', 20, 8 ], [ "t = 'text 7'", 100 + 20, 16 ], [ "t = ''", 20, 16 ],
	[ "t = 'longer than fifteen bytes'", 20, 16 ], [ "c = 'c7'", 100, 16 ],
	[ "c = 'c7 '::text", 0, 16 ])
{
	my ($condition, $sent, $width) = @$_;
	my ($plan, $bytes) = ask($condition, columns => 'v');

	is($bytes, $sent * (8 + 4 + 1 + $width + $width / 8), "what may satisfy $condition is sent");
}

my ($plan, $bytes) = ask('v = 7', columns => 'count(*), sum(w)');
like($plan, qr/GpuAgg/, 'aggregates');
is($bytes, 50 * $entry, 'of entries that have passed');
($plan, $bytes) = ask('v = 7', more => 'ORDER BY w DESC LIMIT 3');
like($plan, qr/Sort Key/, 'the first rows');
is($bytes, 50 * $entry, 'of entries that have passed');

# Entries kept for a rescan must satisfy any later value of the parameter
($plan, $bytes) = ask('v = (SELECT 7) AND w = 2');
is(line_of($plan, 'Rows Removed by Index Filter'), $all - 50, 'rows: a param of the executor');
is(line_of($plan, 'Device Filter'), 'none', 'rows: is for the CPU');
($plan, $bytes) = ask('v = (SELECT 7) AND w = 2', columns => 'id, v, w');
is(line_of($plan, 'Rows Removed by Index Filter'), $all - 50, 'heap: a param of the executor');
is(line_of($plan, 'Device Filter'), 'none', 'heap: is for the CPU, as it has not run yet');

# The current time is read before entries arrive, because reading it cannot fail; a setting is not
foreach (
	[ "d > current_date - 3", '(d > (CURRENT_DATE - 3))' ],
	[ "d > date_trunc('day', now() - interval '2 days')::date",
		"(d > (date_trunc('day'::text, (now() - '2 days'::interval)))::date)" ],
	[ "v = current_setting('my.value')::int", 'none' ])
{
	my ($condition, $expected) = @$_;
	my ($plan) = ask($condition, settings => "SET my.value = '7';");

	is(line_of($plan, 'Device Filter'), $expected, "before there is an entry: $condition");
}

# Output formats
($plan) = ask('v = 7', options => 'ANALYZE, FORMAT json');
is(line_of($plan, 'Device Filter'), '(v = 7)', 'JSON has it');
($plan) = ask('f = 7', options => 'ANALYZE, FORMAT json');
unlike($plan, qr/Device Filter/, 'JSON has it only where there is one');
($plan) = ask('v = 7', options => 'COSTS');
unlike($plan, qr/Device Filter/, 'without a search nothing is said');
($plan) = ask('v = 7', options => 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF');
unlike($plan, qr/Device Filter/, 'nor where machines make no difference');

# If the device does not answer, the CPU tests
inject($node, 'begin', 'no_memory', 0, 0);
($plan) = ask('v = 7');
unlike($plan, qr/Device Filter/, 'a device that does not answer has tested nothing');
is(line_of($plan, 'Rows Removed by Index Filter'), $all - 50, 'the CPU has');
inject($node, 'begin', 'none', 0, 0);

# In a parallel plan each process requests some of the keys
($plan) = ask('v = 7', settings => 'SET max_parallel_workers_per_gather = 2;
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	SET gpujoin.setup_cost = 0; SET gpujoin.device_setup_cost = 0;
	SET gpujoin.device_search_cost = 0;');
like($plan, qr/Parallel Custom Scan/, 'a parallel plan');
is(line_of($plan, 'Device Filter'), '(v = 7)', 'in which the device has tested');
is(line_of($plan, 'Matched TIDs'), $all, 'all that match are counted');
is(line_of($plan, 'Rows Removed by Index Filter'), $all - 50, 'and what is removed');

log_is_clean($node);
done_testing();
