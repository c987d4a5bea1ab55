# A device's answer that is larger than work_mem arrives in pieces, some keys at a time. Between two
# pieces anything may happen: the mirror is dropped, changed or rebuilt, VACUUM removes dead rows,
# the device process dies. Answers stay right, and nothing is left on the device.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Room for a few thousand entries
my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '1MB'", 'gpujoin.max_requests = 1', PATIENT, 'work_mem = 64kB',
	'hash_mem_multiplier = 1', 'gpujoin.force = on', 'max_parallel_workers_per_gather = 0');

# In table hot, key 150 has half of the rows
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, k int, v int8, pad text);
	INSERT INTO t SELECT n, n % 300, nullif(n % 10, 0) * 1000000000::int8, 'x'
	FROM generate_series(1, 18000) n;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id, v);
	CREATE TABLE hot (id int, k int);
	INSERT INTO hot SELECT n, CASE WHEN n % 2 = 0 THEN 150 ELSE n % 300 END
	FROM generate_series(1, 20000) n;
	CREATE INDEX hot_k ON hot USING gpujoin (k) INCLUDE (id);
	CREATE TABLE s (k int, w int);
	INSERT INTO s SELECT n % 250, n FROM generate_series(1, 500) n;
	VACUUM ANALYZE});
wait_ready($node);

# Return what a query's plan reports: the device that answered, pieces, and the reason for no device
sub how
{
	my ($query, $settings) = @_;
	my $plan = $node->safe_psql('postgres',
		($settings // '') . "EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query");
	my ($device) = $plan =~ /"Device": "([^"]*)"/;
	my ($pieces) = $plan =~ /"Device Pieces": ([0-9]+)/;
	my ($reason) = $plan =~ /"Device Reason": "([^"]*)"/;

	return ($device // '-', $pieces // -1, $reason // '-');
}

my $keys = 'k = ANY (ARRAY(SELECT generate_series(-5, 310)))';
my $all = "SELECT id, k, v FROM t WHERE $keys";
my $many = "SELECT id FROM hot WHERE $keys";

# ---- answers --------------------------------------------------------------------------------

my ($device, $pieces) = how($all);
is($device, 'reference', 'the device answers');
cmp_ok($pieces, '>', 5, 'in pieces');
like($node->safe_psql('postgres', "EXPLAIN (ANALYZE, TIMING off) $all"),
	qr/^ *Device Pieces: $pieces$/m, 'which a plan shows as text, too');
cmp_ok((how("SELECT count(*) FROM t WHERE $keys"))[1], '>', 1, 'TIDs alone come in pieces, too');
is((how("$all LIMIT 50"))[1], 1, 'no more of them than are wanted');
is((how('SELECT id FROM t WHERE k IN (1, 2, 3)'))[1], 0, 'what fits in memory comes at once');
($device, $pieces, my $reason) = how($many);
like("$device, $reason", qr/^CPU.*, there are more entries than fit in memory$/,
	'one key with too many rows is left to the CPU');
cmp_ok($pieces, '>', 1, 'with those behind it only');
cmp_ok((how("SELECT s.w, t.id FROM s JOIN t USING (k)"))[1], '>', 5, 'a join has pieces');

my @queries = (
	$all, $many,
	"SELECT count(*) FROM t WHERE $keys",
	"SELECT count(*), sum(v), min(id) FROM t WHERE $keys AND v IS NOT NULL",
	"SELECT v FROM t WHERE $keys AND id % 7 = 3",
	'SELECT s.w, t.id, t.v FROM s JOIN t USING (k)',
	'SELECT count(*) FROM s JOIN t USING (k)',
	'SELECT id FROM t WHERE k IN (SELECT k FROM s)',
	'SELECT w FROM s WHERE EXISTS (SELECT FROM t WHERE t.k = s.k AND t.v > w)',
	'SELECT w FROM s WHERE NOT EXISTS (SELECT FROM t WHERE t.k = s.k AND t.id % 1000 = w)',
	'SELECT w, t.id FROM s LEFT JOIN t ON t.k = s.k AND t.id % 3 = w % 3',
	"SELECT x, id FROM generate_series(1, 3) x, t WHERE $keys AND id % 50 = x");
is_deeply([ differing($node, @queries) ], [], 'answers are right');

# The processes of a parallel plan divide the keys, and each gets pieces; a process that finds the
# only request slot taken searches on the CPU. The leader alone does not divide them.
my $sum = "SELECT count(*), sum(id) FROM t WHERE $keys";
my $parallel = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; '
  . 'SET gpujoin.aggregate = off; '
  . 'SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;';
like($node->safe_psql('postgres', "$parallel EXPLAIN $sum"),
	qr/Parallel Custom Scan/, 'a parallel plan');
is($node->safe_psql('postgres', "$parallel $sum"),
	$node->safe_psql('postgres', "SET gpujoin.enabled = off; $sum"), 'has the same rows');
($device, $pieces, $reason) = how($sum, "$parallel SET max_parallel_workers = 0;");
is("$device, $reason", 'reference, ', 'its leader alone, too, asks the device');
cmp_ok($pieces, '>', 5, 'in pieces');

# ---- between two pieces ---------------------------------------------------------------------

# Take rows of the cursor c, and compute a digest of them that does not depend on their order
$node->safe_psql('postgres', q{
	CREATE FUNCTION take(n int, OUT rows int, OUT digest numeric) LANGUAGE plpgsql AS $$
	DECLARE
		c refcursor := 'c';
		r record;
	BEGIN
		rows := 0;
		digest := 0;
		WHILE rows < n LOOP
			FETCH c INTO r;
			EXIT WHEN NOT FOUND;
			rows := rows + 1;
			digest := digest + hashtextextended(r::text, 0);
		END LOOP;
	END $$});

# Read a query's rows with a cursor; after the first ones something happens in other sessions. The
# rows must be the same as without gpujoin, under the same snapshot. Return the differences.
sub meanwhile
{
	my ($query, $event, @settings) = @_;
	my $session = $node->background_psql('postgres');
	my ($ours, $stock);

	$session->query($_)
	  foreach @settings, 'BEGIN ISOLATION LEVEL REPEATABLE READ',
	  "DECLARE c CURSOR FOR $query", 'CREATE TEMP TABLE taken AS SELECT * FROM take(100)';
	is(service($node, 'slots_used'), '0', 'nothing of the device is held');
	$event->();
	$session->query('INSERT INTO taken SELECT * FROM take(1000000)');
	$ours = $session->query('SELECT sum(rows), sum(digest) FROM taken');
	$session->query('SET LOCAL gpujoin.enabled = off');
	$stock = $session->query(
		"SELECT count(*), sum(hashtextextended(q::text, 0)::numeric) FROM ($query) q");
	$session->query('ROLLBACK');
	$session->quit;
	return $ours eq $stock ? '' : "$ours, not $stock";
}

sub change
{
	$node->safe_psql('postgres', q{
		DELETE FROM t WHERE id % 11 = 0;
		UPDATE t SET k = 299 - k WHERE id % 13 = 0;
		UPDATE t SET v = -1 WHERE id % 17 = 0;
		INSERT INTO t SELECT n, n % 300, n FROM generate_series(100000, 101000) n});
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
}

sub unload { $node->safe_psql('postgres', q{SELECT gpujoin_unload('t_k')}); }

sub load { $node->safe_psql('postgres', q{SELECT gpujoin_load('t_k')}); }

is(meanwhile($all, sub { is((how($all))[0], 'reference', 'others are served') }),
	'', 'rows are right after a pause');
is(meanwhile($all, \&unload), '', 'and when the mirror was dropped');
is(meanwhile($all, sub { unload(); load(); change() }), '', 'and when it was made anew');
is(meanwhile($all, \&change), '', 'and when rows were changed');
is(meanwhile($all, sub { change(); unload(); load() }), '', 'and when VACUUM was there first');
is(meanwhile($all, sub { wait_replaced($node, signal_helper($node, 'KILL')) }),
	'', 'and when the device has another process');
foreach my $death ([ 'next', 'crash', 1 ], [ 'keyset', 'no_memory', 1 ])
{
	my ($point, $kind, $skip) = @$death;

	how($all); # the mirror is loaded now
	is(meanwhile($all, sub { inject($node, $point, $kind, $skip, 1, 0) }),
		'', "and after $kind at $point");
	restart_now($node);
}
how($all);
inject($node, 'keyset', 'no_memory', 4, 1, 0);
($device, $pieces) = how($all);
like("$device, $pieces pieces", qr/^CPU.*, [1-9] pieces$/,
	'the CPU goes on where the device fails');
inject($node, 'keyset', 'none', 0, 0, 0);

# ---- dead rows ------------------------------------------------------------------------------

# The mirror has entries of rows that are rolled back after the first piece; VACUUM frees their heap
# slots and sets their pages all-visible. With $refill, other rows reuse the slots.
sub ghosts
{
	my ($refill, @settings) = @_;
	my $writer = $node->background_psql('postgres');
	my $result;

	$writer->query('BEGIN');
	$writer->query('INSERT INTO t SELECT -n, 299, n FROM generate_series(1, 200) n');
	unload();
	load();
	$result = meanwhile(
		$all,
		sub {
			$writer->query('ROLLBACK');
			$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
			$node->safe_psql('postgres',
				'INSERT INTO t SELECT n, 3, n FROM generate_series(200000, 200200) n')
			  if $refill;
		},
		'SET gpujoin.sync_blocks = 1000000',
		@settings);
	$writer->quit;
	return $result;
}

isnt(ghosts(0, "SET gpujoin.debug_step = 'ignore epoch'"),
	'', 'without the rule of the vacuum epoch, rows are answered that are no more');
is(ghosts(0), '', 'with it, they are not');
is(ghosts(1), '', 'nor when others have taken their places');
is_deeply([ differing($node, @queries[ 0 .. 5 ]) ], [], 'answers are right in the end');

$node->safe_psql('postgres', q{SELECT gpujoin_unload('t_k'), gpujoin_unload('hot_k')});
no_leaks($node, 'at the end');
$node->stop;
unlike(slurp_file($node->logfile),
	qr/PANIC:|TRAP:| leak: |resource was not closed|XX000|reinitializing/,
	'nothing is in the log that must not be');
done_testing();
