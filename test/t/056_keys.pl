# Keys that an index stores as a code and a rest (uuid, ids that are texts): a crash, a standby,
# dump and restore, an index that was built before its operator class had rests, and the mirror,
# which searches for codes only. Eight hundred uuids have one code, so that each search finds
# strangers; and so have the texts. One text in twenty is no id.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', { allows_streaming => 1 }, "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '1MB'", 'fsync = off', "wal_consistency_checking = 'generic'",
	PATIENT);

$node->safe_psql('postgres', q{
	CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE LANGUAGE sql AS 'SELECT md5($1::text)::uuid';
	CREATE FUNCTION alike(int) RETURNS uuid IMMUTABLE LANGUAGE sql
		AS 'SELECT gpujoin_test_uuid(77, $1)';
	CREATE TABLE t (id int, u uuid, v int, pad text);
	INSERT INTO t SELECT i, id(i % 1600), i % 50, 'x' FROM generate_series(1, 12000) i;
	INSERT INTO t SELECT i, alike(i % 800), i % 50, 'y' FROM generate_series(1, 4000) i;
	INSERT INTO t VALUES (0, NULL, 1, 'null');
	CREATE INDEX t_u ON t USING gpujoin (u) INCLUDE (v);
	CREATE OPERATOR CLASS old_ops FOR TYPE uuid USING gpujoin AS
		OPERATOR 1 =, FUNCTION 2 gpujoin_hash(uuid, int8), STORAGE int8;
	CREATE TABLE old (id int, u uuid, v int);
	INSERT INTO old SELECT id, u, v FROM t WHERE id < 4000;
	CREATE INDEX old_u ON old USING gpujoin (u old_ops) INCLUDE (v);
	ALTER OPERATOR FAMILY old_ops USING gpujoin ADD FUNCTION 4 (uuid, uuid) gpujoin_rest(uuid);
	CREATE FUNCTION text_id(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$ SELECT CASE WHEN i % 20 = 0 THEN 'a text that is no id ' || i WHEN i % 20 < 10
			THEN gpujoin_test_unpack(-3100000000000000000, i) ELSE 'id-' || i END $$;
	CREATE TABLE ids (id int, u text, v int);
	INSERT INTO ids SELECT i, text_id(i % 1600), i % 50 FROM generate_series(1, 12000) i;
	CREATE INDEX ids_u ON ids USING gpujoin (u text_id_ops) INCLUDE (v)});
vacuum_until_visible($node, $_) foreach 't', 'old', 'ids';

my $list = 'ARRAY(SELECT id(i) FROM generate_series(1, 2000, 7) i)'
  . ' || ARRAY(SELECT alike(i) FROM generate_series(1, 1200, 7) i)';
my $texts = 'ARRAY(SELECT text_id(i) FROM generate_series(1, 2000, 3) i)';
my @queries = (
	"SELECT u, v FROM t WHERE u = ANY ($list)",
	"SELECT * FROM t WHERE u = ANY ($list)",
	"SELECT count(*), sum(v) FROM t WHERE u = ANY ($list)",
	"SELECT v, count(*) FROM t WHERE u = ANY ($list) GROUP BY v",
	'SELECT u, v FROM t WHERE u = alike(8)',
	"SELECT s, u, v FROM unnest($list) s JOIN t ON u = s",
	"SELECT sum(v) FROM unnest($list) s JOIN t ON u = s",
	"SELECT s, v FROM unnest($list) s LEFT JOIN t ON u = s",
	"SELECT u, v FROM t WHERE u = ANY ($list) ORDER BY v, u LIMIT 100",
	"SELECT u, v FROM old WHERE u = ANY ($list)",
	"SELECT s, v FROM unnest($list) s JOIN old ON u = s",
	"SELECT u, v FROM ids WHERE u = ANY ($texts)",
	"SELECT count(*), sum(v) FROM ids WHERE u = ANY ($texts)",
	"SELECT s, sum(v) FROM unnest($texts) s JOIN ids ON u = s GROUP BY s",
	"SELECT u, v FROM ids WHERE u = ANY ($texts) ORDER BY v, u LIMIT 100");

# Return how the indexes store their keys
sub stored_keys
{
	my ($server, $database) = @_;

	return $server->safe_psql($database // 'postgres', q{
		SELECT keys FROM unnest('{t_u,old_u,ids_u}'::regclass[]) i, gpujoin_index_info(i)});
}

# Test that all answers are PostgreSQL's own, and no row lacks its entry
sub is_right
{
	my ($server, $name) = @_;

	is(join("\n", differing($server, @queries)), '', "$name: answers are PostgreSQL's own");
	is($server->safe_psql('postgres', q{
		SELECT gpujoin_check('t_u', true) >= count(*) FROM t
		UNION ALL SELECT gpujoin_check('old_u', true) >= count(*) FROM old
		UNION ALL SELECT gpujoin_check('ids_u', true) >= count(*) FROM ids}),
		"t\nt\nt", "$name: no row lacks its entry");
	is(stored_keys($server), "values\nhashes\nvalues or hashes",
		"$name: the older index still has hashes");
	return;
}

is_right($node, 'after the build');

# ---- the mirror -----------------------------------------------------------------------------

sub plan_of
{
	my $query = shift;

	return $node->safe_psql('postgres', 'SET gpujoin.force = on;'
		  . "EXPLAIN (ANALYZE, VERBOSE, TIMING off) $query");
}

wait_ready($node);
$node->safe_psql('postgres', q{
	SELECT gpujoin_load('t_u'), gpujoin_load('old_u'), gpujoin_load('ids_u')});
is_right($node, 'with a mirror');
like(plan_of($queries[4]),
	qr/(?=.*Removed by Index Filter: 3995)(?=.*Heap Fetches: 0).*Device: reference/s,
	'the device finds codes, strangers are dropped by their rests');
like(plan_of($queries[1]), qr/(?=.*Removed by Index Filter).*Device: reference/s,
	'before the heap is read, too');
like(plan_of($queries[3]), qr/GpuAgg.*Device: reference/s,
	'an aggregate uses entries of the device');
like(plan_of($queries[12]),
	qr/(?=.*Index Only: true)(?=.*Heap Fetches: [1-9]).*Device: reference/s,
	'texts that are no ids are read from the heap, one by one');
unlike(plan_of($queries[3]), qr/Reduced/, 'which has not made groups of them');
$node->safe_psql('postgres', q{
	INSERT INTO t SELECT i, alike(i % 1200), i % 50, 'z' FROM generate_series(1, 1200) i;
	DELETE FROM t WHERE u = alike(7) OR id % 17 = 3;
	UPDATE t SET u = alike(id % 100) WHERE id % 19 = 5;
	INSERT INTO ids SELECT i, text_id(i % 1700), i % 50 FROM generate_series(1, 1200) i;
	DELETE FROM ids WHERE id % 17 = 3;
	UPDATE ids SET u = text_id(id % 100) WHERE id % 19 = 5});
is_right($node, 'after changes that the mirror lacks');
$node->safe_psql('postgres', q{
	SELECT gpujoin_fold('t_u', true), gpujoin_fold('ids_u', true);
	VACUUM (INDEX_CLEANUP ON) t, ids});
is_right($node, 'after a fold');

# ---- a standby, and a crash -----------------------------------------------------------------

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{
	INSERT INTO t SELECT i, alike(i % 1200), i % 50, 'z' FROM generate_series(1, 1200) i;
	INSERT INTO old SELECT i, alike(i % 1200), i % 50 FROM generate_series(1, 1200) i;
	INSERT INTO ids SELECT i, text_id(i % 1800), i % 50 FROM generate_series(1, 1200) i;
	SELECT gpujoin_fold('t_u'), gpujoin_fold('old_u'), gpujoin_fold('ids_u')});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is_right($standby, 'on a standby');

$node->safe_psql('postgres',
	q{INSERT INTO t SELECT i, alike(i % 1200), i % 50, 'a' FROM generate_series(1, 300) i});
$node->stop('immediate');
$node->start;
is_right($node, 'after a crash');

# ---- dump and restore -----------------------------------------------------------------------

my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, 'postgres' ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-d', 'copy', $dump ], 'restore');
is(stored_keys($node, 'copy'), "values\nvalues\nvalues or hashes", 'restored indexes have rests');
my $digest = "SELECT count(*), md5(string_agg(u::text || v, ',' ORDER BY u, v))
	FROM t WHERE u = ANY ($list)";
is($node->safe_psql('copy', $digest), $node->safe_psql('postgres', $digest),
	'and give the same answer');
$node->safe_psql('postgres', q{REINDEX INDEX old_u});
is(join("\n", differing($node, @queries)), '', 'REINDEX: answers stay right');
is(stored_keys($node), "values\nvalues\nvalues or hashes",
	'REINDEX: the older index has rests now');

$standby->stop;
log_is_clean($node, 'the log shows neither a crash nor a leak');
$node->stop;
done_testing();
