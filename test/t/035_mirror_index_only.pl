# Index-only answers through the mirror: INCLUDE columns of every width, with NULLs, come from the
# device and are right, after any changes and after any failure of the device process. A mirror's
# entries are trusted only if no VACUUM has removed entries since the mirror was made: the test
# disables that rule once, and must get a wrong answer then.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Parts of a few hundred entries, so that answers consist of many parts
my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '1MB'", 'gpujoin.max_requests = 8', PATIENT);

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, k int, c "char", s int2, i int4, l int8, d date, b bool, w float8,
		pad text);
	INSERT INTO t
	SELECT n, n % 300, (n % 100)::int::"char", n % 1000, nullif(n % 5, 0), n::bigint << 33,
		nullif(date '2020-01-01' + n % 700, date '2020-01-01'), nullif(n % 3, 0) = 1, n / 7.0, 'x'
	FROM generate_series(1, 40000) n;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id, c, s, i, l, d, b, w);
	CREATE TABLE wide (id int8, k int8, v int2);
	-- no NULLs in the first and last parts of an answer
	INSERT INTO wide
	SELECT n, (n % 50) * 10000000000,
		CASE WHEN n NOT BETWEEN 9000 AND 11000 OR n % 3 = 0 THEN n % 9 END
	FROM generate_series(1, 20000) n;
	CREATE INDEX wide_k ON wide USING gpujoin (k) INCLUDE (v, id)});
vacuum_until_visible($node, $_) foreach 't', 'wide';
wait_ready($node);

# Wait until the mirrors are loaded: a query does not wait for a loader.
sub load_mirrors
{
	$node->safe_psql('postgres', q{SELECT gpujoin_load('t_k'), gpujoin_load('wide_k')});
	return;
}
load_mirrors();

# Return what a query's nodes report: their device, and the number of heap fetches
sub how
{
	my $query = shift;
	my $plan = $node->safe_psql('postgres', 'SET gpujoin.force = on;'
		  . "EXPLAIN (ANALYZE, VERBOSE, FORMAT json, TIMING off) $query");
	my ($device) = $plan =~ /"Device": "([^"]*)"/;
	my ($fetches) = $plan =~ /"Heap Fetches": (\d+)/;

	return ($device // '-') . ', ' . ($fetches // 'no') . ' heap fetches';
}

my $all = 'SELECT id, k, c, s, i, l, d, b, w FROM t';
my @queries = (
	"$all WHERE k IN (1, 2, 3)",
	"$all WHERE k = ANY (ARRAY(SELECT generate_series(0, 400, 3)))",
	"SELECT count(*) FROM t WHERE k BETWEEN 5 AND 9 AND k IN (5, 6, 7, 8, 9, 10)",
	"SELECT k FROM t WHERE k IN (7, 8, 250)",
	"SELECT b, d FROM t WHERE k IN (0, 299, 10) AND i IS NOT NULL AND w > 1000",
	"SELECT max(l), min(c), count(s) FROM t WHERE k IN (17, 18)",
	"SELECT id, v, k FROM wide WHERE k IN (0, 10000000000, 480000000000, -5)",
	"SELECT v FROM wide WHERE k = ANY (ARRAY[20000000000, 30000000000])",
	"$all WHERE k IN (1000, 1001)",
	'SELECT v, id FROM wide
		WHERE k = ANY (ARRAY(SELECT n * 10000000000 FROM generate_series(0, 60) n))',
	# filters that are tested on entries, for rows from the heap and from entries
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 400, 3))) AND i = 3 AND b',
	'SELECT * FROM t WHERE k IN (7, 8, 250) AND (i IS NULL OR d < \'2020-06-01\') AND NOT b',
	'SELECT id, w FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 400, 3)))
		AND s IN (3, 33, 333) OR k IN (5, 6) AND b IS NOT TRUE AND w > 1000',
	'SELECT x, t.* FROM generate_series(100, 200) x JOIN t ON t.k = x
		WHERE i BETWEEN 2 AND 3 AND l > 1::bigint << 45');

# ---- answers --------------------------------------------------------------------------------

is_deeply([ differing($node, @queries) ], [], 'answers are right');
is(how($_), 'reference, 0 heap fetches', "from the device: $_") foreach @queries[0 .. 3, 6, 7, 9];
is($node->safe_psql('postgres', q{
	SELECT count(*), bool_and(bytes >= pg_relation_size(indexrelid))
	FROM pg_stat_gpujoin_mirrors WHERE state = 'ready'}), '2|t', 'mirrors count what they carry');

# ---- changes --------------------------------------------------------------------------------

# Each round makes all kinds of changes, sometimes with VACUUM; mirrors are synchronized
# immediately, or only when much is missing.
srand($ENV{GPUJOIN_TEST_SEED} // 7);
my @different;
foreach my $round (1 .. ($ENV{CHECK_LONG} ? 12 : 6))
{
	my ($from, $key) = (int rand 40000, int rand 300);
	my $sync_blocks = (0, 5, 1000000)[ $round % 3 ];

	$node->safe_psql('postgres', qq{
		INSERT INTO t
		SELECT -$round * 1000 - n, (n + $key) % 300, 'q', n, NULL, n, NULL, n % 2 = 0, n, 'new'
		FROM generate_series(1, 400) n;
		BEGIN;
		INSERT INTO t SELECT -n, n % 300, 'z', n, n, n, NULL, NULL, n, 'gone'
		FROM generate_series(1, 300) n;
		ROLLBACK;
		UPDATE t SET i = -$round, b = NOT b WHERE id BETWEEN $from AND $from + 300;
		UPDATE t SET pad = 'hot' WHERE id BETWEEN $from AND $from + 600;
		UPDATE t SET k = (k + 1) % 300 WHERE id BETWEEN $from + 500 AND $from + 700;
		DELETE FROM t WHERE k = $key AND id % 2 = 0;
		UPDATE wide SET v = -$round WHERE id % 97 = $round});
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t') if $round % 2;
	$node->safe_psql('postgres', "ALTER SYSTEM SET gpujoin.sync_blocks = $sync_blocks");
	$node->reload;
	push @different, map { "round $round: $_" } differing($node, @queries,
		"$all WHERE k IN ($key, " . ($key + 1) . ', ' . ($key + 2) . ')');
}
is(join("\n", @different), '', 'answers are right after changes of every kind');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET gpujoin.sync_blocks');
$node->reload;
vacuum_until_visible($node, 't');
load_mirrors();
is(how($queries[0]), 'reference, 0 heap fetches', 'and from the device again');

# ---- deleted entries ------------------------------------------------------------------------

# The mirror has entries of deleted rows; VACUUM has removed them from the index, freed their heap
# slots and set the pages all-visible.
my $gone = 'SELECT id, i FROM t WHERE k IN (42)';
my $count = "SELECT count(*) FROM ($gone) q";

sub make_stale
{
	$node->safe_psql('postgres', q{
		SELECT gpujoin_unload('t_k'), gpujoin_load('t_k');
		DELETE FROM t WHERE k = 42});
	vacuum_until_visible($node, 't');
}

make_stale();
cmp_ok($node->safe_psql('postgres', "SET gpujoin.force = on; SET gpujoin.sync_blocks = 1000000;
	SET gpujoin.debug_step = 'ignore epoch'; $count"), '>', 0,
	'without the rule, rows are answered that are no more');
is($node->safe_psql('postgres', "SET gpujoin.force = on; $count"), '0', 'with it, they are not');

# The mirror cannot be synchronized: its matches are checked against the heap.
$node->safe_psql('postgres', q{INSERT INTO t SELECT n, 42 FROM generate_series(1, 90) n});
make_stale();
is(inject($node, 'write', 'no_memory', 0, 0, 0), '', 'no page can be pushed');
my ($fetches) = how($gone) =~ /^reference, (\d+) heap fetches$/;
cmp_ok($fetches // 0, '>', 0, 'entries of an outdated mirror go to the heap');
is_deeply([ differing($node, $gone, @queries) ], [], 'and the answers are right');
is(inject($node, 'write', 'none', 0, 0, 0), '', 'pages can be pushed again');
is_deeply([ differing($node, $gone, @queries) ], [], 'right after that, too');

# ---- filters and deleted entries ------------------------------------------------------------

# The mirror's entries point to heap slots that now hold other rows, which have the same keys and
# pass the filter, while the values in the entries do not. Of two entries with one TID the mirror's
# comes first: if it were trusted, the row would be lost.
my $passing = 'SELECT id, i, pad FROM t WHERE k IN (77, 78) AND i = -100';
my $lost = "SELECT count(*) FROM ($passing) q";
my $fetched = "SELECT count(pad) FROM ($passing) q";

sub make_stale_for_filter
{
	$node->safe_psql('postgres', 'DELETE FROM t WHERE k = 77 OR i = -100');
	vacuum_until_visible($node, 't'); # otherwise the mirror would have entries that pass, too
	$node->safe_psql('postgres', q{
		INSERT INTO t SELECT n, 77, 'a', 1, 5, 5, NULL, true, 1, 'before'
		FROM generate_series(1, 200) n;
		SELECT gpujoin_unload('t_k'), gpujoin_load('t_k');
		DELETE FROM t WHERE k = 77});
	vacuum_until_visible($node, 't');
	$node->safe_psql('postgres', q{
		INSERT INTO t SELECT n, 77 + n % 2, 'a', 1, -100, 5, NULL, true, 1, 'after'
		FROM generate_series(1, 5000) n});
}

# The value must be computed at execution: otherwise entries are tested as they arrive, before one
# can replace another.
(my $run = $lost) =~ s/(-100)/(SELECT $1)/ or die 'no value in the condition';
(my $run_fetched = $fetched) =~ s/(-100)/(SELECT $1)/ or die 'no value in the condition';
make_stale_for_filter();
cmp_ok($node->safe_psql('postgres', "SET gpujoin.force = on; SET gpujoin.sync_blocks = 1000000;
	SET gpujoin.debug_step = 'ignore epoch'; $run"), '<', 5000,
	'without the rule, rows are lost that have the place of another');
cmp_ok($node->safe_psql('postgres', "SET gpujoin.force = on; SET gpujoin.sync_blocks = 1000000;
	SET gpujoin.debug_step = 'ignore epoch'; $run_fetched"), '<', 5000,
	'also of those that are fetched from the heap');
is($node->safe_psql('postgres', "SET gpujoin.force = on; $run"), '5000', 'with it, they are not');
make_stale_for_filter();
is(inject($node, 'write', 'no_memory', 0, 0, 0), '', 'no page can be pushed');
cmp_ok($node->safe_psql('postgres', "SET gpujoin.force = on;
	SET gpujoin.debug_step = 'ignore epoch'; $_"), '<', 5000,
	"lost without the rule if the mirror stays outdated: $_") foreach $run, $run_fetched;
is($node->safe_psql('postgres', "SET gpujoin.force = on; $_"), '5000', "not lost with it: $_")
  foreach $lost, $run, $fetched, $run_fetched;
is_deeply([ differing($node, $passing, @queries) ], [], 'and other answers are right, too');
is(inject($node, 'write', 'none', 0, 0, 0), '', 'pages can be pushed again');
is_deeply([ differing($node, $passing, @queries) ], [], 'right after that, too');
vacuum_until_visible($node, 't');
load_mirrors();

# ---- the process ends -----------------------------------------------------------------------

foreach my $death ([ 'next', 'crash', 3 ], [ 'begin', 'exit', 0 ], [ 'next', 'no_memory', 2 ],
	[ 'poll', 'lost', 1 ], [ 'keyset', 'no_memory', 0 ])
{
	my ($point, $kind, $skip) = @$death;
	my $name = "$kind at $point";

	how($queries[1]); # the mirrors are now up to date
	is(inject($node, $point, $kind, $skip, 1, 0), '', "arm: $name");
	like(how($queries[1]), qr/^CPU.*, 0 heap fetches$/, "$name: the CPU answers, index-only");
	is_deeply([ differing($node, @queries) ], [], "$name: answers are right");
	restart_now($node);
	load_mirrors();
	is(how($queries[1]), 'reference, 0 heap fetches', "$name: then the device answers again");
}
$node->safe_psql('postgres', q{SELECT gpujoin_unload('t_k'), gpujoin_unload('wide_k')});
no_leaks($node, 'at the end');
$node->stop;

# The log contains the ends of the device process, which are intended
unlike(slurp_file($node->logfile),
	qr/PANIC:|TRAP:| leak: |resource was not closed|XX000|reinitializing/,
	'nothing else is in the log');
done_testing();
