# Two scans in one plan that a device fails for different reasons: EXPLAIN shows the reason of each
# scan.  And a device is not asked for a range of keys, neither to search nor to add up rows.

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
