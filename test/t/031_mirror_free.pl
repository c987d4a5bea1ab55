# Device memory of vanished indexes is released: DROP, TRUNCATE, REINDEX, rollback, DROP DATABASE;
# on a standby too. Mirrors are loaded again after a restart (reloption preload) and after the
# device process died. If a mirror does not fit, it evicts the least recently used ones, and a query
# continues without the device.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use MirrorTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'gpujoin'
gpujoin.device = reference
gpujoin.device_setup_cost = 0
gpujoin.device_memory = 128MB
gpujoin.result_buffer = 16MB
gpujoin.min_rows = 0
autovacuum = off
max_worker_processes = 20
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION gpujoin; CREATE EXTENSION gpujoin_test;' . FILL);

sub wait_ready
{
	my $server = shift;
	$server->poll_query_until('postgres', q{SELECT state = 'ready' FROM pg_stat_gpujoin})
	  or die 'the device is not ready';
}

# Columns and bytes on the device, and entries of the table
sub held
{
	my $server = shift;
	return $server->safe_psql('postgres', q{
		SELECT columns, memory_mirrors, (SELECT count(*) FROM gpujoin_mirrors())
		FROM gpujoin_status()});
}

sub wait_held
{
	my ($server, $expected, $what) = @_;
	$server->reload;	# makes the launcher check immediately
	$server->poll_query_until('postgres', q{
		SELECT columns || '|' || memory_mirrors || '|' ||
			(SELECT count(*) FROM gpujoin_mirrors()) FROM gpujoin_status()}, $expected);
	is(held($server), $expected, $what);
}

my $states = 'SELECT indexrelname, state FROM pg_stat_gpujoin_mirrors ORDER BY 1';

sub states
{
	my $server = shift;
	return $server->safe_psql('postgres', $states);
}

# What is held is counted when a load begins, so wait for its end.
sub wait_states
{
	my ($server, $expected, $what) = @_;

	$server->poll_query_until('postgres', $states, $expected);
	is(states($server), $expected, $what);
}

wait_ready($node);
my $extent = 16 * 1024 * 1024;
my $none = '0|0|0';
wait_held($node, $none, 'nothing held at first');

# gpujoin_load, gpujoin_unload
$node->safe_psql('postgres', q{SELECT fill('a', 100000)});
is($node->safe_psql('postgres', q{SELECT gpujoin_load('a_k'), gpujoin_load('a_k')}),
	"$extent|$extent", 'loaded, once');
wait_held($node, "1|$extent|1", 'one column');
is($node->safe_psql('postgres', q{SELECT gpujoin_unload('a_k'), gpujoin_unload('a_k')}),
	't|f', 'unloaded, once');
wait_held($node, $none, 'nothing held after unloading');

$node->safe_psql('postgres', q{SELECT gpujoin_load('a_k')});

# Ways to remove an index
my %ends = (
	'DROP INDEX' => 'DROP INDEX b_k',
	'DROP TABLE' => 'DROP TABLE b',
	'TRUNCATE' => 'TRUNCATE b',
	'REINDEX' => 'REINDEX INDEX b_k',
	'REINDEX CONCURRENTLY' => 'REINDEX INDEX CONCURRENTLY b_k',
	'VACUUM FULL' => 'VACUUM FULL b',
	'ALTER TYPE' => 'ALTER TABLE b ALTER k TYPE bigint',
	'DROP SCHEMA' => 'CREATE SCHEMA s; ALTER TABLE b SET SCHEMA s; DROP SCHEMA s CASCADE');
foreach my $what (sort keys %ends)
{
	$node->safe_psql('postgres', q{SELECT fill('b', 50000)});
	$node->safe_psql('postgres', q{SELECT gpujoin_load('b_k')});
	wait_held($node, "2|" . 2 * $extent . "|2", "$what: two columns before");
	$node->safe_psql('postgres', "SET gpujoin.auto_load = off; $ends{$what}");
	wait_held($node, "1|$extent|1", "$what: one column after");
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS b');
}

$node->safe_psql('postgres', q{
	BEGIN;
	SELECT fill('b', 50000);
	SELECT gpujoin_load('b_k');
	ROLLBACK});
wait_held($node, "1|$extent|1", 'rollback of CREATE INDEX');

$node->safe_psql('postgres', q{
	SET gpujoin.auto_load = off;
	BEGIN;
	SELECT fill('b', 50000);
	SELECT gpujoin_load('b_k');
	TRUNCATE b;
	SET LOCAL gpujoin.auto_load = on;
	INSERT INTO b SELECT i, 7 FROM generate_series(1, 200) i;
	SET LOCAL gpujoin.force = on;
	SELECT 1 / (count(*) = 200)::int FROM b WHERE k = 7;
	SELECT 1 / (count(*) = 0)::int FROM b WHERE k = 8;
	SAVEPOINT s;
	TRUNCATE b;
	SELECT 1 / (count(*) = 0)::int FROM b WHERE k = 7;
	ROLLBACK TO s;
	SELECT 1 / (count(*) = 200)::int FROM b WHERE k = 7;
	COMMIT});
pass('TRUNCATE in the transaction that made the table: right answers');
wait_held($node, "2|" . 2 * $extent . "|2", 'and one mirror of it');
$node->safe_psql('postgres', 'DROP TABLE b');
wait_held($node, "1|$extent|1", 'and none after the drop');

# A database
$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', q{
	CREATE EXTENSION gpujoin;
	CREATE TABLE b (k int);
	INSERT INTO b SELECT generate_series(1, 50000);
	SET gpujoin.auto_load = off;
	CREATE INDEX b_k ON b USING gpujoin (k);
	SELECT gpujoin_load('b_k')});
wait_held($node, "2|" . 2 * $extent . "|2", 'DROP DATABASE: two columns before');
$node->safe_psql('postgres', 'DROP DATABASE d');
wait_held($node, "1|$extent|1", 'DROP DATABASE: one column after');

# A database created again, with the same OID, from the same template and grown to the same size:
# its index has the same name, the same build and the same number of changes as the mirror's index.
# Also on a standby, where no process is notified. The launcher hardly has time to check in between.
my $born = 4000000000;

sub make_again
{
	my ($server, $key) = @_;

	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS d');
	$node->safe_psql('postgres', "CREATE DATABASE d TEMPLATE origin OID $born");
	$node->safe_psql('d', "INSERT INTO b SELECT $key FROM generate_series(1, 30000)");
	$node->wait_for_catchup($server) if $server != $node;
	return $server->safe_psql('d', qq{
		SELECT gpujoin_load('b_k') > 0;
		SET gpujoin.force = on;
		SELECT count(id) FROM b WHERE k = $key});
}

sub test_same_name
{
	my ($server, $name) = @_;

	is(make_again($server, -$_), "t\n30000", "$name: a database of the same OID, $_")
	  foreach (1 .. 3);
	$node->safe_psql('postgres', 'DROP DATABASE d');
	$node->wait_for_catchup($server) if $server != $node;
	wait_held($server, $server == $node ? "1|$extent|1" : $none, "$name: nothing of them is left");
}

$node->safe_psql('postgres', 'CREATE DATABASE origin');
$node->safe_psql('origin', q{
	CREATE EXTENSION gpujoin;
	CREATE TABLE b (k int, id serial);
	SET gpujoin.auto_load = off;
	CREATE INDEX b_k ON b USING gpujoin (k)});
test_same_name($node, 'primary');

# The same on a standby, which has no pages of unlogged relations
$node->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE loose (k int);
	CREATE INDEX loose_k ON loose USING gpujoin (k) WITH (preload)});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
wait_ready($standby);
wait_held($standby, $none, 'standby: nothing held at first');
test_same_name($standby, 'standby');
$node->safe_psql('postgres', q{SELECT fill('b', 50000)});
$node->wait_for_catchup($standby);
$standby->safe_psql('postgres', q{SELECT gpujoin_load('a_k'), gpujoin_load('b_k')});
wait_held($standby, "2|" . 2 * $extent . "|2", 'standby: two columns');
$node->safe_psql('postgres', 'DROP TABLE b');
$node->wait_for_catchup($standby);
wait_held($standby, "1|$extent|1", 'standby: one after the drop');
$standby->stop;
unlike(slurp_file($standby->logfile), qr/could not open file/,
	'standby: what it has no pages of is not looked at');
$node->safe_psql('postgres', 'DROP TABLE loose');

# Restart and preload
$node->safe_psql('postgres', q{
	SELECT fill('p', 200000);
	SELECT fill('q', 200000);
	ALTER INDEX p_k SET (preload)});
is($node->safe_psql('postgres', q{SELECT reloptions FROM pg_class WHERE relname = 'p_k'}),
	'{preload=true}', 'reloption');
$node->restart;
wait_ready($node);
wait_held($node, "1|$extent|1", 'preloaded after a restart');
wait_states($node, 'p_k|ready', 'the one that was marked');

# The device process dies: mirrors come back by themselves, including those that were loaded
# manually while gpujoin.auto_load is off
$node->append_conf('postgresql.conf', 'gpujoin.auto_load = off');
$node->reload;
$node->safe_psql('postgres', q{SELECT gpujoin_load('q_k')});
my $epoch = $node->safe_psql('postgres', 'SELECT epoch FROM gpujoin_status()');
kill 'KILL', $node->safe_psql('postgres', 'SELECT helper_pid FROM gpujoin_status()');
$node->poll_query_until('postgres',
	"SELECT state = 'ready' AND epoch <> $epoch FROM gpujoin_status()");
wait_held($node, "2|" . 2 * $extent . "|2", 'loaded again after the helper was killed');
wait_states($node, "p_k|ready\nq_k|ready", 'both of them');
is($node->safe_psql('postgres', q{SELECT missing, stale, reason FROM gpujoin_mirror_check('q_k')}),
	'0|0|', 'and complete');

$node->append_conf('postgresql.conf', 'gpujoin.auto_load = on');
$node->reload;

# A loader loads a big index, and gives way to DDL
$node->safe_psql('postgres', q{SELECT fill('big', 1000000)});
$node->safe_psql('postgres', q{SELECT count(*) FROM big WHERE k IN (1, 2, 3)});
$node->poll_query_until('postgres', q{
	SELECT state = 'ready' FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 'big_k'});
like(states($node), qr/big_k\|ready/, 'loaded because a query wanted it');
$node->safe_psql('postgres', q{DROP TABLE big});
$node->safe_psql('postgres', q{SELECT fill('big', 1000000)});
$node->safe_psql('postgres', q{SELECT count(*) FROM big WHERE k IN (1, 2, 3)});
$node->safe_psql('postgres', q{SET statement_timeout = '300s'; DROP TABLE big});
wait_held($node, "2|" . 2 * $extent . "|2", 'dropped while it was being loaded');

# Cancelling a load leaves nothing behind
$node->safe_psql('postgres', q{SELECT fill('big', 1000000)});
$node->safe_psql('postgres', q{SELECT gpujoin_inject_fault('write', 'delay', 0, 0, 300)});
my ($status, $out, $err) = $node->psql('postgres',
	q{SET statement_timeout = '100ms'; SELECT gpujoin_load('big_k')});
like($err, qr/canceling statement due to statement timeout/, 'a load can be cancelled');
$node->safe_psql('postgres', q{SELECT gpujoin_inject_fault('write', 'none', 0, 0, 0)});
wait_held($node, "2|" . 2 * $extent . "|2", 'and leaves nothing behind');
is($node->safe_psql('postgres', q{SELECT gpujoin_load('big_k') > 0}), 't', 'and done again');
$node->safe_psql('postgres', q{DROP TABLE big});

# Eviction: 64 MB of the 128 are reserved for results, so four columns of one piece fit
$node->safe_psql('postgres', q{SELECT gpujoin_unload('q_k')});
$node->safe_psql('postgres', qq{SELECT fill('e$_', 30000); SELECT gpujoin_load('e${_}_k')})
  foreach (1 .. 3);
wait_held($node, "4|" . 4 * $extent . "|4", 'the device is full');
$node->safe_psql('postgres', q{
	SET gpujoin.force = on;
	SELECT count(*) FROM e1 WHERE k = 1});
$node->safe_psql('postgres', q{SELECT fill('e4', 30000); SELECT gpujoin_load('e4_k')});
wait_states($node, "e1_k|ready\ne3_k|ready\ne4_k|ready\np_k|ready",
	'the one unused for longest had to go; pinned and used ones stayed');
wait_held($node, "4|" . 4 * $extent . "|4", 'and its memory was used');

# A query does not evict a mirror that was used a moment ago
like($node->safe_psql('postgres', q{
	SET gpujoin.force = on;
	SELECT count(*) FROM e1 WHERE k = 1;
	SELECT count(*) FROM e3 WHERE k = 1;
	SELECT count(*) FROM e4 WHERE k = 1;
	EXPLAIN (ANALYZE) SELECT count(*) FROM e2 WHERE k = 1}),
	qr/Device Reason: there is not enough device memory/, 'a query does without');
is($node->safe_psql('postgres', q{
	SET gpujoin.force = on;
	SELECT count(*) FROM e2 WHERE k = 1}), '30', 'and has its answer');
$node->safe_psql('postgres', q{SELECT fill('huge', 5200000)});
($status, $out, $err) = $node->psql('postgres', q{SELECT gpujoin_load('huge_k')});
like($err, qr/could not load index "huge_k": there is not enough device memory/,
	'what does not fit beside a pinned one is refused');
like($err, qr/DETAIL:.*needs 64 MB.*128 MB.*64 MB are for mirrors.*64 MB of these are in use/s,
	'with figures');
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM pg_stat_gpujoin_mirrors WHERE state = 'ready'}), '4',
	'and nothing was evicted for it');

ok($node->poll_query_until('postgres',
		q{SELECT slots_used + slots_abandoned = 0 FROM gpujoin_status()}),
	'no request slot is left over');
$node->stop;
unlike(slurp_file($node->logfile), qr/reinitializing|terminated by signal (?!9)|PANIC/,
	'no crash');
done_testing();
