# A generic plan of SELECT DISTINCT that removes nothing, because of a unique key, must not be
# executed under a snapshot that is older than the key, in which rows are not distinct: one that
# another session has exported. A plan that is made when no such snapshot exists any more may be.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', 'gpujoin.force = on');
my $query = 'SELECT DISTINCT big.* FROM small JOIN big USING (k)';

$node->safe_psql('postgres', q{
	CREATE TABLE big (id int NOT NULL, k int, t text);
	INSERT INTO big SELECT i, i % 100, 'row ' || i FROM generate_series(1, 10000) i;
	INSERT INTO big TABLE big;
	CREATE INDEX ON big USING gpujoin (k);
	CREATE TABLE small AS SELECT k FROM generate_series(1, 3) k});

# This session sees each row twice
my ($in, $out) = ("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot();\n", '');
my $reader = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
	'<', \$in, '>', \$out, patience(60));
$reader->pump until $out =~ /^\S+-\S+\n/;
chomp(my $snapshot = $out);

$node->safe_psql('postgres', q{
	DELETE FROM big WHERE ctid NOT IN (SELECT min(ctid) FROM big GROUP BY id);
	CREATE UNIQUE INDEX ON big (id)});

# Execute a generic plan twice, the second time after $begin, and explain it; return the numbers of
# rows, and whether the plan removes duplicates.
sub executed
{
	my ($begin) = @_;
	my ($now, $then, $plan) = split /--\n/, $node->safe_psql('postgres', qq{
		SET plan_cache_mode = force_generic_plan;
		PREPARE q AS $query;
		EXECUTE q;
		\\echo --
		BEGIN ISOLATION LEVEL REPEATABLE READ; $begin
		EXECUTE q;
		COMMIT;
		\\echo --
		EXPLAIN (COSTS OFF) EXECUTE q});

	return join(' ', (map { scalar(() = /\n/g) } $now, $then),
		$plan =~ /Aggregate|Unique/ ? 'made distinct' : 'distinct anyway');
}

is(executed("SET TRANSACTION SNAPSHOT '$snapshot';"),
	'300 300 made distinct', 'no duplicates under an older snapshot');

$in .= "COMMIT;\\q\n";
$reader->finish;
is(executed(''), '300 300 distinct anyway', 'when there is none, nothing need be removed');

log_is_clean($node, 'the log is clean');
$node->stop;
done_testing();
