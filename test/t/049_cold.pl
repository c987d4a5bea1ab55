# Searches of an index that is larger than shared buffers, so that its pages are read ahead: all
# pages, a few of them, those of the delta; for TIDs and for entries, in pieces, abandoned in the
# middle, and while folds replace the pages.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', 'jit = off', "gpujoin.device = 'none'",
	'shared_buffers = 1MB', 'min_parallel_table_scan_size = 0');

$node->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int, other int);
	INSERT INTO big SELECT i, i * 7919 % 50000, i % 10, i FROM generate_series(1, 150000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v) WITH (lanes = 2);
	VACUUM ANALYZE big;
	INSERT INTO big SELECT i, i * 7919 % 50000, i % 10, i FROM generate_series(150001, 200000) i});

# Key sets that read every page, one page in several, and only one page (twice)
my @sets = map { "'{" . join(',', @$_) . "}'" } [ map { 2 * $_ } 0 .. 24999 ],
  [ map { 2500 * $_ + 7 } 0 .. 19 ], [3], [60000];
my @queries = map {
	("SELECT count(*), sum(v) FROM big WHERE k = ANY ($_)",
		"SELECT k, v FROM big WHERE k = ANY ($_)",
		"SELECT count(*), sum(other) FROM big WHERE k = ANY ($_)")
} @sets;

sub pages_read
{
	my ($query) = @_;
	my $plan = $node->safe_psql('postgres', qq{
		SET gpujoin.force = on; EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) $query});

	return $plan =~ /Buffers: .*?read=(\d+)/ ? $1 : 0;
}

is_deeply([ differing($node, @queries) ], [], 'answers from runs and a delta on disk');
cmp_ok(pages_read($queries[0]), '>', 200, 'the pages of the index came from disk');

# A cursor whose pieces are not all read.
$node->safe_psql('postgres', qq{
	SET gpujoin.force = on; SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
	BEGIN;
	DECLARE c CURSOR FOR $queries[1];
	DECLARE d CURSOR FOR $queries[1];
	MOVE 5000 FROM c; MOVE 100 FROM d; MOVE 5000 FROM c;
	COMMIT});

# Searches are abandoned in the middle of their pages. As many sessions as attempts leave no buffer
# pinned: afterwards there are enough buffers for the rest of the test.
foreach my $ms (1 .. 20)
{
	$node->psql('postgres', "SET gpujoin.force = on; SET statement_timeout = $ms; $queries[0]");
}
is_deeply([ differing($node, @queries) ], [], 'answers after searches that were given up');

# The lists of pages move while they are read. Each answer is compared with stock's in one snapshot.
$node->safe_psql('postgres', q{
	CREATE FUNCTION answer(keys int[], ours boolean) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		result text;
	BEGIN
		PERFORM set_config('gpujoin.enabled', ours::text, true),
			set_config('gpujoin.force', ours::text, true);
		EXECUTE 'SELECT count(*) || '' '' || sum(v) FROM big WHERE k = ANY ($1)' USING keys
		INTO result;
		RETURN result;
	END $$;
	CREATE FUNCTION verify(keys int[]) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		ours text := answer(keys, true);
		stock text := answer(keys, false);
	BEGIN
		IF ours IS DISTINCT FROM stock THEN
			RAISE 'ours: %, stock: %', ours, stock;
		END IF;
	END $$});
my %scripts = (
	verify => "\\set step random(2, 50)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\n"
	  . "SELECT verify(ARRAY(SELECT generate_series(0, 49999, :step)));\nCOMMIT;\n",
	change => "\\set id random(0, 40000)\n"
	  . "UPDATE big SET v = v + 1 WHERE id BETWEEN :id AND :id + 500;\n",
	fold => "SELECT gpujoin_fold('big_k', random() < 0.3);\n");
my $folder = PostgreSQL::Test::Utils::tempdir;
append_to_file("$folder/$_", $scripts{$_}) foreach keys %scripts;
$node->safe_psql('postgres', 'CREATE INDEX big_id ON big (id)');
$node->command_ok(
	[ 'pgbench', '-n', '-c', 4, '-T', 8, '-f', "$folder/verify\@6", '-f', "$folder/change\@3", '-f',
		"$folder/fold\@3", 'postgres' ],
	'answers while folds replace the pages');

is_deeply([ differing($node, @queries) ], [], 'answers after them');
$node->safe_psql('postgres', "SELECT gpujoin_check('big_k', true)");
log_is_clean($node, 'nothing was left pinned');
$node->stop;
done_testing();
