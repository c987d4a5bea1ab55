# Two scans in one plan that a device fails for different reasons: EXPLAIN shows the reason of each
# scan.  And a device is not asked for a range of keys, neither to search nor to add up rows, nor
# for few keys.

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
	CREATE TABLE one AS SELECT i AS id, i % 100 AS k FROM generate_series(1, 50000) i;
	CREATE TABLE two AS TABLE one;
	CREATE INDEX one_k ON one USING gpujoin (k);
	CREATE INDEX two_k ON two USING gpujoin (k);
	SELECT gpujoin_load('one_k'), gpujoin_load('two_k')});

my ($asked) = $node->safe_psql('postgres', 'SELECT requests FROM pg_stat_gpujoin');
foreach my $query ('SELECT id FROM one WHERE k BETWEEN 5 AND 7',
	'SELECT id FROM one WHERE k NOT BETWEEN 5 AND 97',
	'SELECT k, count(*) FROM one WHERE k >= 50 GROUP BY k',
	'SELECT count(*) FROM one WHERE k < 50 AND k <> 7')
{
	like($node->safe_psql('postgres', "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $query"),
		qr/Key Ranges: [12]\n.*Device Reason: the keys are those of no list/s,
		"by the CPU: $query");
}
is($node->safe_psql('postgres', 'SELECT requests FROM pg_stat_gpujoin'), $asked,
	'no request for a range');
is($node->safe_psql('postgres', 'SELECT count(*), sum(k), min(k), max(k) FROM one
	WHERE k BETWEEN 5 AND 7'), '1500|9000|5|7', 'the answer is right');
$node->safe_psql('postgres', 'SELECT id FROM one WHERE k BETWEEN 5 AND 7 AND k IN (6, 8)');
isnt($node->safe_psql('postgres', 'SELECT requests FROM pg_stat_gpujoin'), $asked,
	'but for a list in a range');

# Few keys are found by the CPU, unless there are many runs or unsorted pages to look for them.
$node->safe_psql('postgres', q{
	CREATE TABLE many (id int, k int);
	CREATE INDEX many_k ON many USING gpujoin (k) WITH (fold_pages = 0, lanes = 1);
	INSERT INTO many SELECT i, i % 5000 FROM generate_series(1, 100000) i;
	SELECT gpujoin_fold('many_k', true);
	VACUUM ANALYZE many;
	SELECT gpujoin_load('many_k')});

# Who answers for n keys, and at what cost does the planner say so?
sub answer_for
{
	my ($n, $settings) = @_;
	my $keys = join(', ', map { 7 * $_ } 1 .. $n);
	my $query = "SELECT id FROM many WHERE k IN ($keys)";
	my $explained = $node->safe_psql('postgres',
		"SET gpujoin.force = off; SET enable_seqscan = off; SET enable_bitmapscan = off;
		 SET enable_indexscan = off; $settings EXPLAIN (ANALYZE, TIMING OFF) $query");

	is($node->safe_psql('postgres', "SELECT count(*), sum(id % 7919) FROM many WHERE k IN ($keys)"),
		$node->safe_psql('postgres', "SET gpujoin.enabled = off;
			SELECT count(*), sum(id % 7919) FROM many WHERE k IN ($keys)"), "$n keys: the answer");
	return 'CPU' if $explained =~ /Device Reason: the CPU finds so few keys before/;
	return $explained =~ /Device: reference/ ? 'device' : $explained;
}

my $usual = 'SET gpujoin.device_setup_cost = 100;';
is(answer_for(2, $usual), 'CPU', 'two keys: the CPU');
is(answer_for(33, $usual), 'CPU', 'up to a third of the cost of a request');
is(answer_for(34, $usual), 'device', 'more keys: the device');
is(answer_for(34, 'SET gpujoin.device_setup_cost = 102;'), 'CPU', 'a request costs more');
is(answer_for(2, 'SET gpujoin.device_setup_cost = 0;'), 'device', 'a request costs nothing');
is(answer_for(2, "$usual SET gpujoin.force = on;"), 'device', 'a device is wanted');
$node->safe_psql('postgres', q{
	INSERT INTO many SELECT i, i % 5000 FROM generate_series(1, 12000) i;
	SELECT gpujoin_fold('many_k')});
is($node->safe_psql('postgres', q{SELECT runs FROM gpujoin_index_info('many_k')}), 2, 'two runs');
is(answer_for(16, $usual), 'CPU', 'sixteen keys in each of two runs');
is(answer_for(17, $usual), 'device', 'seventeen keys in each of two runs');
$node->safe_psql('postgres',
	'INSERT INTO many SELECT i, i % 5000 FROM generate_series(1, 80000) i');
is(answer_for(2, $usual), 'device', 'two keys, and many unsorted pages');

# The device process crashes while it answers the first one.  The second one finds that the process
# has crashed or, if it has been restarted already, that the mirror is gone.
is(inject($node, 'begin', 'crash', 0, 1), '', 'a crash is armed');
my $plan = $node->safe_psql('postgres', q{EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)
	SELECT id FROM one WHERE k IN (1, 2)
	UNION ALL SELECT id FROM two WHERE k IN (1, 2)});
my @reasons = $plan =~ /Device Reason: (.*)/g;

is(scalar(@reasons), 2, 'both scans had to do without');
is($reasons[0], 'the device process ended', 'the first one says why');
isnt($reasons[1], $reasons[0], 'the second one has another reason');

log_is_clean($node);
done_testing();
