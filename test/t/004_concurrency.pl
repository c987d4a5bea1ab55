# Run insertions, updates, deletions, rollbacks, VACUUMs, folds and a REINDEX CONCURRENTLY at the
# same time, with readers that compare forced answers with stock ones, each pair in one snapshot.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seconds = $ENV{CHECK_LONG} ? 20 : 12;
my $node = new_server('main', 'fsync = off', 'synchronous_commit = off', 'jit = off');

# "verify" runs in REPEATABLE READ, so both queries see the same rows. Writers change single rows,
# so they cannot deadlock with each other.
$node->safe_psql('postgres', q{
	CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE LANGUAGE sql
		AS $$ SELECT overlay(md5($1::text) PLACING '8' FROM 17 FOR 1)::uuid $$;
	CREATE FUNCTION code(int) RETURNS text IMMUTABLE LANGUAGE sql
		AS $$ SELECT CASE WHEN $1 % 9 = 0 THEN 'longer than fifteen bytes ' ELSE 'k' END || $1 $$;
	CREATE TABLE big (id bigserial, k int, v int, pad text,
		u uuid GENERATED ALWAYS AS (id(k)) STORED,
		t text GENERATED ALWAYS AS (code(k)) STORED) WITH (fillfactor = 70);
	CREATE TABLE small (k int, w int, t text GENERATED ALWAYS AS (code(k)) STORED);
	CREATE TABLE verified (query text, rows bigint, failed boolean, stock text, forced text);
	INSERT INTO big (k, v, pad)
		SELECT i % 200, 0, repeat('x', i % 50) FROM generate_series(1, 8000) i;
	INSERT INTO small SELECT i * 7 % 200, i % 3 FROM generate_series(1, 20) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (t) WITH (lanes = 2);
	CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (t);
	CREATE INDEX big_t ON big USING gpujoin (t text_id_ops) INCLUDE (u);
	CREATE INDEX big_id ON big (id);
	CREATE FUNCTION answer(query text, forced boolean) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		result text;
	BEGIN
		PERFORM set_config('gpujoin.enabled', forced::text, true),
			set_config('gpujoin.force', forced::text, true);
		EXECUTE format($q$SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' ORDER BY
			t::text)), '') FROM (%s) t$q$, query) INTO result;
		RETURN result;
	END $$;
	CREATE FUNCTION verify(query text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		stock text;
		forced text;
	BEGIN
		IF random() < 0.5 THEN
			stock := answer(query, false);
			forced := answer(query, true);
		ELSE
			forced := answer(query, true);
			stock := answer(query, false);
		END IF;
		INSERT INTO verified
		VALUES (query, split_part(stock, ' ', 1)::bigint, stock <> forced, stock, forced);
	END $$;
});

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[:a, :b, 5000, :c])',
	'SELECT id, v FROM big WHERE k IN (:a, :b) AND v % 2 = 0',
	'SELECT b.id, s.w FROM small s JOIN big b ON b.k = s.k',
	'SELECT b.* FROM big b WHERE EXISTS (SELECT FROM small s WHERE s.k = b.k AND s.w = :w)',
	'SELECT s.k, b.id FROM small s LEFT JOIN big b ON b.k = s.k AND b.v > 3',
	'SELECT count(*), sum(v) FROM big WHERE k = ANY (ARRAY(SELECT k FROM small WHERE w < :w))',
	'SELECT u, t FROM big WHERE (u, t) IN '
	  . '((id(:a), code(:a)), (id(:b), code(:b)), (id(:c), code(0)))',
	'SELECT id FROM big WHERE (k, t) IN ((:a, code(:a)), (:b, code(:b)), (:c, code(:a)))',
	'SELECT t, count(*), count(u) FROM big WHERE t IN (code(:a), code(:b), code(9)) GROUP BY t',
	'SELECT s.k, b.t FROM small s JOIN big b ON b.k = s.k AND b.t = s.t WHERE s.w <> :w');
my %scripts = (
	'insert@8' => q{INSERT INTO big (k, v, pad) VALUES (:a, :c, repeat('y', :b % 50));},
	'batch@2' => q{INSERT INTO big (k, v) SELECT i % 200, :c FROM generate_series(1, 100) i;},
	'rekey@8' => q{UPDATE big SET k = :b WHERE id = :id;},
	'hot@8' => q{UPDATE big SET v = v + 1 WHERE id = :id;},
	'delete@4' => q{DELETE FROM big WHERE id = :id; DELETE FROM big WHERE id = :id + 1;},
	'sweep@1' => q{DELETE FROM big WHERE id IN (SELECT id FROM big WHERE k = :a
		ORDER BY id LIMIT 30 FOR UPDATE SKIP LOCKED);},
	'undone@3' => q{BEGIN; INSERT INTO big (k, v) SELECT :a, i FROM generate_series(1, 30) i;
		SAVEPOINT s; UPDATE big SET k = :c WHERE id = :id; ROLLBACK TO s; ROLLBACK;},
	'partly@3' => q{BEGIN; SAVEPOINT s; INSERT INTO big (k, v) VALUES (:a, 1); ROLLBACK TO s;
		INSERT INTO big (k, v) VALUES (:b, 2); COMMIT;},
	'lock@2' => q{BEGIN; SET LOCAL gpujoin.force = on;
		SELECT id FROM big WHERE k = ANY (ARRAY[:a]) AND id % 50 = 0 FOR UPDATE SKIP LOCKED;
		COMMIT;},
	'vacuum@1' => 'VACUUM (SKIP_LOCKED) big;',
	'fold@1' => q{
		DO $$
		BEGIN
			-- While waiting it would hold a snapshot, and a concurrent index build waits for that
			SET LOCAL lock_timeout = '200ms';
			PERFORM gpujoin_fold('big_k', random() < 0.3), gpujoin_fold('big_u'),
				gpujoin_fold('big_t');
		-- REINDEX was faster: the index is gone, locked, or the old one
		EXCEPTION WHEN undefined_object OR lock_not_available
			OR object_not_in_prerequisite_state THEN
		END $$;
	},
	'check@1' => q{SELECT gpujoin_check('big_k', :w = 1);});
$scripts{"verify$_\@4"} = "BEGIN ISOLATION LEVEL REPEATABLE READ;\n"
  . "SELECT verify('$queries[$_]');\nCOMMIT;"
  foreach 0 .. $#queries;

my @load = ('pgbench', '-n', '-c', '6', '-j', '2', '-T', $seconds, '--max-tries=0');
my $variables = "\\set id random(1, 12000)\n\\set a random(0, 199)\n\\set b random(0, 199)\n"
  . "\\set c random(0, 199)\n\\set w random(0, 2)\n";

foreach my $script (sort keys %scripts)
{
	my ($name, $weight) = split /@/, $script;
	my $file = $node->basedir . "/$name.pgbench";

	# pgbench does not replace variables inside quotes, so concatenate
	my $sql = $scripts{$script} =~ s/(verify\('.*'\))/$1 =~ s{:([abcw])\b}{' || :$1 || '}gr/er;
	append_to_file($file, $variables . $sql . "\n");
	push @load, '-f', "$file\@$weight";
}
foreach my $query (@queries[ 0 .. 2, 6 .. 9 ])
{
	my $plain = $query =~ s/:[abcw]/1/gr;
	ok(uses_node($node, 'GpuScan', $plain) || uses_node($node, 'GpuJoin', $plain), "ours: $query");
}

my $offset = -s $node->logfile;
my ($out, $err) = ('', '');
sub start_load
{
	return IPC::Run::start([ @load, $node->connstr('postgres') ], '>', \$out, '2>', \$err);
}
my $pgbench = start_load();

# Rebuild the index twice under this load.
sleep($seconds / 3);
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY big_k');
sleep($seconds / 6);
$node->safe_psql('postgres',
	'CREATE INDEX CONCURRENTLY big_k2 ON big USING gpujoin (k); DROP INDEX CONCURRENTLY big_k2');
my $failed = !$pgbench->finish;

# On a slow machine, continue until enough has been compared and deleted
my $deleted = q{SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'big'};
sub has_done_much
{
	return $node->safe_psql('postgres',
		"SELECT count(*) > 200 AND count(DISTINCT stock) > 100 AND ($deleted) > 500
		FROM verified") eq 't';
}
for (my $round = 0; $round < 20 && !$failed && !has_done_much(); $round++)
{
	$failed = !start_load()->finish;
}
ok(!$failed, 'no client failed') or diag($err);
is($node->safe_psql('postgres', 'SELECT * FROM verified WHERE failed LIMIT 5'), '',
	'forced and stock agree in each snapshot');
my ($count, $rows, $kinds) = split /\|/,
  $node->safe_psql('postgres', q{SELECT count(*), sum(rows), count(DISTINCT stock) FROM verified});
note("$count comparisons of $rows rows, $kinds different answers");
cmp_ok($count, '>', 200, 'there were many comparisons');
cmp_ok($kinds, '>', 100, 'of many different answers');

is($node->safe_psql('postgres', "SELECT gpujoin_check('$_', true) >= count(*) FROM big"), 't',
	"each row has its entry in $_") foreach qw(big_k big_u big_t);

# A plain VACUUM may leave entries: it skips the indexes when few heap pages have dead tuples, and
# skips a page that the checkpointer has pinned. These options make it visit every page and every
# index.
is( $node->safe_psql(
		'postgres', q{VACUUM (FREEZE, DISABLE_PAGE_SKIPPING, INDEX_CLEANUP ON) big;
		SELECT gpujoin_check('big_k', true) - count(*) FROM big}),
	'0',
	'after VACUUM there is no other entry');
cmp_ok($node->safe_psql('postgres', $deleted), '>', 500, 'much was deleted');
log_is_clean($node, 'log is clean', $offset);
unlike(slurp_file($node->logfile, $offset), qr/deadlock|ERROR/, 'no error of any kind');

done_testing();
