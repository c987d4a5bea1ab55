# What vacuums or rewrites a table beside writers: VACUUM with several processes, also autovacuum's
# from PostgreSQL 19 on, VACUUM FULL, CLUSTER by another index, REPACK and REPACK (CONCURRENTLY).
# After each, answers equal PostgreSQL's own and no row lacks its entry.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{CHECK_LONG} ? 60 : 6;

# REPACK (CONCURRENTLY) decodes what was logged meanwhile
my $node = new_server('main', 'fsync = off', 'gpujoin.auto_load = off', 'wal_level = logical',
	'min_parallel_index_scan_size = 0', 'max_parallel_maintenance_workers = 2',
	'max_worker_processes = 16');
my $has_repack = $node->safe_psql('postgres', 'SHOW server_version_num') >= 190000;
my @indexes = qw(big_k big_u big_even);
my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT k, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT k, count(*), sum(v) FROM big WHERE k BETWEEN 100 AND 250 GROUP BY k',
	'SELECT id, u FROM big WHERE u = ANY (ARRAY(SELECT u_of(i) FROM generate_series(0, 999, 9) i))',
	'SELECT id, k FROM big WHERE v % 2 = 0 AND k IN (4, 8, 16, 32)',
	'SELECT b.id, b.t FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s');

$node->safe_psql('postgres', q{
	CREATE FUNCTION u_of(int) RETURNS uuid IMMUTABLE LANGUAGE sql
		AS $$ SELECT md5($1::text)::uuid $$;
	CREATE TABLE big (id int PRIMARY KEY, k int, v int, u uuid, t text);
	INSERT INTO big SELECT i, i % 1000, i, u_of(i % 1000), 'text ' || i
		FROM generate_series(1, 20000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v) WITH (lanes = 2, fold_pages = 8);
	CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (id) WITH (fold_pages = 8);
	CREATE INDEX big_even ON big USING gpujoin (k) WHERE v % 2 = 0;
	CREATE SEQUENCE next START 100000 INCREMENT 10;
});
is(join("\n", grep { !uses_node($node, 'Gpu(?:Scan|Join|Agg)', $_) } @queries), '',
	'each query uses a gpujoin index');

sub is_right
{
	my $name = shift;

	is(join("\n", differing($node, @queries)), '', "$name: answers are PostgreSQL's own");
}

sub has_all_rows
{
	my $name = shift;

	foreach my $index (@indexes)
	{
		my $rows = 'count(*)' . ($index eq 'big_even' ? ' FILTER (WHERE v % 2 = 0)' : '');

		is($node->safe_psql('postgres', "SELECT gpujoin_check('$index', true) >= $rows FROM big"),
			't', "$name: no row lacks its entry in $index");
	}
}

# Start writers, of keys and of other columns; some updates fail, because two of them deadlock
my $load = $node->basedir . '/load.pgbench';
append_to_file($load, q{
	\set first random(1, 19000)
	INSERT INTO big SELECT n + i, i * 7 % 1000, i, u_of(i), 'new'
		FROM nextval('next') n, generate_series(0, 9) i;
	UPDATE big SET k = 999 - k WHERE id BETWEEN :first AND :first + 20;
	UPDATE big SET t = t || '.', v = v + 1 WHERE id BETWEEN :first AND :first + 50;
	DELETE FROM big WHERE id BETWEEN :first AND :first + 2;
});

# Run commands, each again and again, while others write; compare meanwhile and afterwards
sub beside_writers
{
	my ($name, @commands) = @_;
	my ($out, $err, $until, $runs) = ('', '', time + $seconds, 0);
	my $writers = IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-T', $seconds + 1, '--max-tries',
			'100', '-f', $load, $node->connstr('postgres') ], '>', \$out, '2>', \$err);

	do
	{
		foreach my $command (@commands)
		{
			my ($status, undef, $messages) = $node->psql('postgres', $command);

			is($status, 0, "$name: $command") or diag($messages);
			is_right("$name, run " . ++$runs);
		}
	} while (time < $until);
	$writers->finish;
	like($out, qr/number of transactions actually processed: [1-9]/, "$name: rows were written")
	  or diag($err);
	is_right("$name, at the end");
	has_all_rows($name);
	log_is_clean($node, "$name: log is clean");
}

my ($status, $out, $messages) = $node->psql('postgres', 'DELETE FROM big WHERE id % 10 = 3;
	VACUUM (VERBOSE, PARALLEL 2, INDEX_CLEANUP ON) big');
like($messages, qr/launched [12] parallel vacuum workers? for index vacuuming/,
	'VACUUM vacuums indexes in parallel');
is_right('parallel VACUUM');
has_all_rows('parallel VACUUM');
beside_writers('VACUUM', 'VACUUM (PARALLEL 2, INDEX_CLEANUP ON) big');
beside_writers('rewriting', 'VACUUM FULL big', 'CLUSTER big USING big_pkey');

SKIP:
{
	skip 'PostgreSQL 19 has REPACK, and autovacuum with several processes', 1 if !$has_repack;

	beside_writers('REPACK', 'REPACK big', 'REPACK big USING INDEX big_pkey',
		'REPACK (ANALYZE) big');
	beside_writers('REPACK (CONCURRENTLY)', 'REPACK (CONCURRENTLY) big',
		'REPACK (CONCURRENTLY) big USING INDEX big_pkey');

	my $offset = -s $node->logfile;

	$node->safe_psql('postgres', "ALTER TABLE big SET (autovacuum_parallel_workers = 2,
		autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0,
		autovacuum_vacuum_insert_threshold = 100, log_autovacuum_min_duration = 0)");
	$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1s\n"
		  . 'autovacuum_max_parallel_workers = 2');
	$node->reload;
	beside_writers('autovacuum', 'SELECT pg_sleep(1)');
	log_comes_to($node, qr/parallel workers: index vacuum: [1-9]\d* planned, [1-9]\d* launched/,
		'autovacuum vacuums indexes in parallel', $offset);
}
done_testing();
