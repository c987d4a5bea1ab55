# Mirrors under load: insertions, updates, deletions, VACUUM and folds, on a primary and on its
# standby. Every answer from the device is compared with PostgreSQL's own in the same snapshot, and
# every entry of the index must be in the mirror.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use MirrorTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = q{
shared_preload_libraries = 'gpujoin'
gpujoin.device = reference
gpujoin.device_setup_cost = 0
gpujoin.device_memory = 512MB
gpujoin.result_buffer = 16MB
gpujoin.force = on
autovacuum = off
fsync = off
checkpoint_timeout = 1h
bgwriter_lru_maxpages = 0
max_connections = 30
max_worker_processes = 20
wal_consistency_checking = 'generic'
max_standby_streaming_delay = -1
hot_standby_feedback = on
};

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', $conf);
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE EXTENSION gpujoin;
	CREATE EXTENSION gpujoin_test;
	CREATE TABLE t (id serial, k int, pad text);
	ALTER TABLE t SET (fillfactor = 70);
	INSERT INTO t (k, pad) SELECT i % 500, repeat('x', 20) FROM generate_series(1, 30000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id) WITH (lanes = 2);
});
$primary->poll_query_until('postgres', q{SELECT state = 'ready' FROM pg_stat_gpujoin})
  or die 'the device is not ready';

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$standby->poll_query_until('postgres', q{SELECT state = 'ready' FROM pg_stat_gpujoin})
  or die "the standby's device is not ready";

my $dir = PostgreSQL::Test::Utils::tempdir;
my @compare;
foreach my $sync_blocks (0, 3, 1000000)
{
	push @compare, compare_script("$dir/compare_rows$sync_blocks.sql", $sync_blocks);
	push @compare, compare_script("$dir/compare_entries$sync_blocks.sql", $sync_blocks,
		'count(*), sum(id), sum(k), sum(id * k::bigint)');
}

my $write = write_script("$dir/write.sql");
my $vacuum = vacuum_script("$dir/vacuum.sql");
my $check = check_script("$dir/check.sql");

my $seconds = $ENV{MIRROR_SECONDS} || 12;
my @benches = (
	[ start_bench($primary, 2, $seconds, $write), 'writers' ],
	[ start_bench($primary, 1, $seconds, $vacuum), 'vacuum' ],
	[ start_bench($primary, 3, $seconds, @compare), 'readers of the primary' ],
	[ start_bench($primary, 1, $seconds, $check), 'checks of the primary' ],
	[ start_bench($standby, 3, $seconds, @compare), 'readers of the standby' ],
	[ start_bench($standby, 1, $seconds, $check), 'checks of the standby' ]);
finish_bench(@$_) foreach @benches;

# On a slow machine, continue until enough has been seen
sub has_seen_much
{
	return 2 == grep {
		$_->safe_psql('postgres', q{SELECT bool_and(s.device_answers > 100 AND m.syncs > 10)
			FROM pg_stat_gpujoin s, pg_stat_gpujoin_mirrors m}) eq 't'
	} $primary, $standby;
}

for (my $round = 0; $round < 5 && !has_seen_much(); $round++)
{
	my @more = (
		[ start_bench($primary, 1, $seconds, $write), 'writers, for longer' ],
		[ start_bench($primary, 2, $seconds, @compare), 'readers of the primary, for longer' ],
		[ start_bench($standby, 2, $seconds, @compare), 'readers of the standby, for longer' ]);
	finish_bench(@$_) foreach @more;
}

# At rest
like($primary->safe_psql('postgres', q{EXPLAIN SELECT count(*), sum(id) FROM t WHERE k IN (1, 2)}),
	qr/Index Only: true/, 'some of the answers were index-only');
is($primary->safe_psql('postgres', q{SELECT gpujoin_check('t_k', true) > 0}), 't',
	'the index is sound');
$primary->wait_for_catchup($standby);
foreach my $node ($primary, $standby)
{
	my $name = $node->name;

	is($node->safe_psql('postgres', q{
		SET gpujoin.sync_blocks = 0;
		SELECT missing, stale, reason FROM gpujoin_mirror_check('t_k')}),
		'0|0|', "$name: the mirror is complete, and has nothing stale after a synchronisation");
	is($node->safe_psql('postgres', q{
		SELECT device_answers > 100 AND columns = 1 AND slots_used = 0 AND slots_abandoned = 0
		FROM pg_stat_gpujoin}), 't', "$name: the device did answer, and nothing is left over");
	is($node->safe_psql('postgres', q{
		SELECT syncs > 10 AND pages_pushed > pages FROM pg_stat_gpujoin_mirrors}), 't',
		"$name: the mirror was synchronised often");
	note($node->safe_psql('postgres', q{
		SELECT string_agg(reason || '=' || count, ' ') FROM gpujoin_fallbacks() WHERE count > 0}));
}

# Make more changes than the journal keeps: open pages for insertion, then delete entries from every
# other page of the run, which holds two keys a page; each such page takes a journal entry. This
# does not trigger a fold. (The standby's feedback would keep VACUUM from deleting.)
$standby->stop;
$primary->safe_psql('postgres', q{
	CREATE TABLE w (id int, k int);
	INSERT INTO w SELECT i, i % 800 FROM generate_series(1, 800000) i;
	CREATE INDEX w_k ON w USING gpujoin (k);
	SELECT gpujoin_load('w_k');
	INSERT INTO w SELECT i, i % 800 FROM generate_series(800001, 840000) i;
	DELETE FROM w WHERE k % 4 = 0 AND id < 100000});
$primary->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_replication});
$primary->safe_psql('postgres', 'VACUUM w');
is($primary->safe_psql('postgres', q{
	SET gpujoin.sync_blocks = 1000000;
	SELECT missing, stale, reason FROM gpujoin_mirror_check('w_k')}), '0|0|',
	'a journal that has wrapped: the pages tell themselves');
my $pushed = $primary->safe_psql('postgres', q{
	SELECT syncs, pages_pushed - pages FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 'w_k'});
like($pushed, qr/^1\|(2\d\d|3\d\d)$/, 'only those that had changed were pushed again');

# A mirror loaded under concurrent writes has every entry that existed before
$primary->safe_psql('postgres', q{SELECT gpujoin_unload('t_k')});
my $writers = start_bench($primary, 2, 5, $write);
append_to_file("$dir/reload.sql", q{
SELECT gpujoin_unload('t_k') AS unloaded \gset
SELECT gpujoin_load('t_k') AS bytes \gset
SELECT missing AS missing FROM gpujoin_mirror_check('t_k') \gset
SELECT 1 / (:missing = 0)::int AS same \gset
});
my $loaders = start_bench($primary, 2, 5, "$dir/reload.sql");
my $readers = start_bench($primary, 2, 5, @compare);
finish_bench($writers, 'writers beside loads');
finish_bench($loaders, 'loads');
finish_bench($readers, 'readers beside loads');

$primary->stop;
foreach my $node ($primary, $standby)
{
	my $log = slurp_file($node->logfile);
	unlike($log, qr/reinitializing|terminated by signal|PANIC/, $node->name . ': no crash');
}
done_testing();
