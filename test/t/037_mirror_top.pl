# ORDER BY ... LIMIT through the mirror: the device's matches are sorted, after any changes. Entries
# are not trusted if VACUUM has removed some of them, because other rows may have reused their
# slots. The test disables that rule once, and must get wrong answers then, but in the right order.
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
	CREATE TABLE t (id int, k int, i int, l int8, f float8, s int2, pad text, u uuid, n numeric);
	INSERT INTO t
	SELECT n, n % 300, nullif(n * 7919 % 1000, 0), n::bigint << 33, nullif(n % 11, 0) / 7.0, n % 9,
		'x', md5(nullif(n % 5000, 9)::text)::uuid, CASE n % 50 WHEN 1 THEN 'NaN'
		WHEN 2 THEN n % 70 + 0.125 ELSE round(n * 31 % 997 / 10.0, 2) END
	FROM generate_series(1, 40000) n;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id, i, l, f, s, u, n)});
vacuum_until_visible($node, 't');
wait_ready($node);
$node->safe_psql('postgres', q{SELECT gpujoin_load('t_k')});

# Add each row's position to it
sub placed { return "SELECT row_number() OVER () AS place, q.* FROM ($_[0]) q"; }

sub how
{
	my $plan = $node->safe_psql('postgres',
		"SET gpujoin.force = on; EXPLAIN (ANALYZE, FORMAT json, TIMING off) $_[0]");
	my ($device) = $plan =~ /"Device": "([^"]*)"/;
	my ($batches) = $plan =~ /"Order Batches": (\d+)/;
	my ($limit) = $plan =~ /"Device Limit": (\d+)/;
	my ($repeats) = $plan =~ /"Device Limit Repeats": (\d+)/;

	return
		($device // '-') . ', '
	  . ($batches // 'no')
	  . ' batches'
	  . ($limit ? ', limited' : '')
	  . ($repeats ? ', repeated' : '');
}

my $keys = 'k = ANY (ARRAY(SELECT generate_series(0, 400, 3)))';
my @queries = map { placed($_) } (
	"SELECT id, i, l FROM t WHERE $keys ORDER BY l DESC LIMIT 100",
	"SELECT * FROM t WHERE $keys ORDER BY i DESC, id LIMIT 100",
	"SELECT id, f FROM t WHERE $keys ORDER BY f NULLS FIRST, id DESC LIMIT 2000",
	"SELECT id FROM t WHERE $keys ORDER BY s, i NULLS FIRST, id LIMIT (SELECT 5000)",
	"SELECT * FROM t WHERE $keys AND pad = 'x' ORDER BY k DESC, id OFFSET 3000 LIMIT 20",
	"SELECT id FROM t WHERE k IN (41, 42, 43) ORDER BY i, id LIMIT 50",
	"SELECT id, l FROM t WHERE $keys AND i > 500 AND s < 8 ORDER BY l DESC, id LIMIT 100",
	"SELECT id, l FROM t WHERE $keys AND f < 0.2 ORDER BY l DESC, id LIMIT 100",
	"SELECT id, s FROM t WHERE $keys ORDER BY s NULLS FIRST, i DESC, id LIMIT 30",
	"SELECT id, u FROM t WHERE $keys ORDER BY u, id LIMIT 30",
	"SELECT * FROM t WHERE $keys ORDER BY u DESC, n, id LIMIT 30",
	"SELECT id, n FROM t WHERE $keys AND n > 3 ORDER BY n DESC, id LIMIT 90",
	"SELECT id, u FROM t WHERE $keys AND n > 3 AND s < 8 ORDER BY u DESC NULLS LAST, id LIMIT 90");

is_deeply([ differing($node, @queries) ], [], 'answers are in order');
is(how($queries[$_]), 'reference, 1 batches', "from the device, number $_") foreach 2, 5, 10, 11;
is(how($queries[$_]), 'reference, 1 batches, limited', "the first ones from the device, number $_")
  foreach 0, 1, 4, 6, 8, 9, 12;
is(how($queries[3]), 'reference, 3 batches', 'in batches, each four times as long');
is(how($queries[7]), 'reference, 1 batches, repeated', 'entries that the CPU drops are replaced');
$node->safe_psql('postgres', "ALTER SYSTEM SET work_mem = '64kB'");
$node->safe_psql('postgres', 'ALTER SYSTEM SET hash_mem_multiplier = 1');
$node->reload;
is_deeply([ differing($node, @queries) ], [], 'with little memory, too');
like(how($queries[0]), qr/^(reference|CPU.*), 1 batches/, 'in as many batches');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
$node->reload;

# ---- changes --------------------------------------------------------------------------------

srand($ENV{GPUJOIN_TEST_SEED} // 7);
my @different;
foreach my $round (1 .. 6)
{
	my ($from, $key) = (int rand 40000, int rand 300);
	my $sync_blocks = (0, 5, 1000000)[ $round % 3 ];

	$node->safe_psql('postgres', qq{
		INSERT INTO t SELECT -$round * 1000 - n, (n + $key) % 300, n, -n, n, n % 5, 'x'
		FROM generate_series(1, 400) n;
		BEGIN;
		INSERT INTO t SELECT -n, n % 300, n, (1::bigint << 60) + n, n, n, 'gone'
		FROM generate_series(1, 300) n;
		ROLLBACK;
		UPDATE t SET i = -$round, l = l + (1::bigint << 50) WHERE id BETWEEN $from AND $from + 300;
		UPDATE t SET pad = 'hot' WHERE id BETWEEN $from AND $from + 600;
		DELETE FROM t WHERE k = $key AND id % 2 = 0});
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t') if $round % 2;
	$node->safe_psql('postgres', "ALTER SYSTEM SET gpujoin.sync_blocks = $sync_blocks");
	$node->reload;
	push @different, map { "round $round: $_" } differing($node, @queries);
}
is(join("\n", @different), '', 'answers are in order after changes');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET gpujoin.sync_blocks');
$node->reload;

# ---- deleted entries ------------------------------------------------------------------------

# The mirror has entries of deleted rows. Other rows have reused some of their slots: some have the
# same key and another position in the order, some also have the same values, and some have another
# key.
sub make_stale
{
	$node->safe_psql('postgres', q{
		DELETE FROM t WHERE k = 42;
		INSERT INTO t SELECT n, 42, n, n, n, n % 5, 'old' FROM generate_series(1, 240) n});
	vacuum_until_visible($node, 't');
	$node->safe_psql('postgres', q{
		SELECT gpujoin_unload('t_k'), gpujoin_load('t_k');
		DELETE FROM t WHERE k = 42});
	vacuum_until_visible($node, 't');
	$node->safe_psql('postgres', q{
		INSERT INTO t
		SELECT n, 42 + n % 2 * 18, CASE WHEN n % 3 = 0 THEN n ELSE 300 - n END, n, n, n % 5, 'new'
		FROM generate_series(1, 160) n});
	vacuum_until_visible($node, 't');
	return;
}

# With little memory the device is asked for a few keys at a time: entries with the same TID then
# meet only during sorting
my $blind = "SET gpujoin.force = on; SET gpujoin.sync_blocks = 1000000; SET work_mem = '64kB';
	SET hash_mem_multiplier = 1; SET gpujoin.debug_step = 'ignore epoch';";
my $some = 'k = ANY (ARRAY(SELECT generate_series(42, 60)))';
my @stale = map { placed($_) } ("SELECT id, i FROM t WHERE $some ORDER BY i DESC, id LIMIT 5000",
	"SELECT * FROM t WHERE $some ORDER BY i, id, l, k LIMIT 5000");
my $disorder = "SELECT count(*) FILTER (WHERE i < before)
	FROM (SELECT i, lag(i) OVER (ORDER BY place) AS before FROM ($stale[1]) q) p";

make_stale();
is_deeply([ differing($node, @stale, @queries) ], [], 'stale entries do no harm');
make_stale();
is($node->safe_psql('postgres', "$blind $disorder"), '0',
	'without the rule, what comes from the heap is in its own place');
cmp_ok($node->safe_psql('postgres', "$blind SELECT count(*) FROM ($stale[0]) q"), '>',
	$node->safe_psql('postgres', "SELECT count(*) FROM ($stale[0]) q"),
	'but rows are answered that are no more');

# The mirror cannot be synchronized: the CPU searches
make_stale();
is(inject($node, 'write', 'no_memory', 0, 0, 0), '', 'no page can be pushed');
like(how($stale[0]), qr/^CPU.*, 1 batches$/, 'what is outdated is not put in order');
is_deeply([ differing($node, @stale, @queries) ], [], 'and the answers are right');
is(inject($node, 'write', 'none', 0, 0, 0), '', 'pages can be pushed again');
is_deeply([ differing($node, @stale, @queries) ], [], 'right after that, too');

# ---- the process ends -----------------------------------------------------------------------

foreach my $death ([ 'next', 'crash', 3 ], [ 'keyset', 'no_memory', 0 ])
{
	my ($point, $kind, $skip) = @$death;

	how($queries[1]);
	is(inject($node, $point, $kind, $skip, 1, 0), '', "arm: $kind at $point");
	is_deeply([ differing($node, @queries) ], [], "$kind at $point: answers are in order");
	restart_now($node);
	$node->safe_psql('postgres', q{SELECT gpujoin_load('t_k')});
}
$node->safe_psql('postgres', q{SELECT gpujoin_unload('t_k')});
no_leaks($node, 'at the end');
$node->stop;
done_testing();
