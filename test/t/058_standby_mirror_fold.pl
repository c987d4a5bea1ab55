# Mirrors of a standby catch up with folds of the primary, and read few pages for that:
# flushes by gpujoin_fold() and by a background worker, a merge before, between and after its steps,
# an unfinished fold, deletions. So they do after promotion, with folds of their own.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use MirrorTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	"gpujoin.device = 'none'", 'gpujoin.auto_load = off', 'gpujoin.force = on',
	'gpujoin.sync_blocks = 0');
my $next = 0;

sub insert
{
	my $rows = shift // 10_000;
	my ($from, $to) = ($next + 1, $next + $rows);

	$next = $to;
	$primary->safe_psql('postgres',
		"INSERT INTO t SELECT i, i % 1000 FROM generate_series($from, $to) i");
	return;
}

sub on_primary { return $primary->safe_psql('postgres', @_); }
sub fold { return on_primary("SELECT gpujoin_fold('t_k')"); }

# about 570 entries on a page; no worker until later
on_primary(q{
	CREATE TABLE t (id int, k int);
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id) WITH (lanes = 2, fold_pages = 0)});
insert(200_000);
on_primary(q{REINDEX INDEX t_k});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "gpujoin.device = 'reference'\n"
	  . "gpujoin.device_memory = 256MB\nmax_standby_streaming_delay = -1\n");
$standby->start;
ask($standby);
wait_for(q{SELECT state = 'ready' FROM pg_stat_gpujoin}, 'the standby has a device');

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'))
	  if $primary != $standby;
	return;
}

my $answer = 'SELECT count(k), sum(id), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT 3 * i FROM
	generate_series(1, 250) i))';

# Check the standby's answer, and that its mirror has all entries and no others; returns the number
# of pages that the synchronization has read
sub check
{
	my $what = shift;
	my $before;

	catch_up();
	$before = sql('SELECT device_answers FROM pg_stat_gpujoin');
	is(sql($answer), sql("SET gpujoin.enabled = off; $answer"), "$what: the answer");
	cmp_ok(sql('SELECT device_answers FROM pg_stat_gpujoin'), '>', $before,
		"$what: the device has answered");
	is(sql(q{SELECT missing, stale, reason FROM gpujoin_mirror_check('t_k')}), '0|0|',
		"$what: the mirror");
	is(sql(q{SELECT gpujoin_check('t_k')}), sql('SELECT count(*) FROM t'), "$what: the index");
	return sql('SELECT pages_done FROM gpujoin_mirrors()');
}

# Make the primary wait at a step of a statement, and check the standby meanwhile
sub check_at
{
	my ($step, $statement, $what) = @_;
	my $holder = $primary->background_psql('postgres', on_error_stop => 0);
	my $folder;

	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	$folder = IPC::Run::start([ 'psql', '-XAtq', '-d', $primary->connstr('postgres'),
			'-c', "SET gpujoin.debug_step = '$step wait'", '-c', $statement ]);
	ok($primary->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted"), "$what: the primary waits when $step");
	insert(1_000);
	check($what);
	$holder->quit;
	$folder->finish;
	return;
}

sql(q{SELECT gpujoin_load('t_k')});
my $all = sql(q{SELECT pages FROM gpujoin_index_info('t_k')});
cmp_ok($all, '>', 150, 'many pages');
check('loaded');

foreach my $round (1 .. 6)
{
	insert();
	fold();
	# one of them merges the others
	cmp_ok(check("flush $round"), '<', $round < 5 ? 150 : $all, 'few pages were read');
}
insert();
on_primary('DELETE FROM t WHERE id % 11 = 0');
on_primary('VACUUM (INDEX_CLEANUP ON) t');
check('deletions');
insert();
check('inserted, unsorted');

# An unfinished fold, and the next one, which forgets it
$primary->psql('postgres', "SET gpujoin.debug_step = 'written error'; SELECT gpujoin_fold('t_k')");
check('an unfinished fold');
fold();
check('folded at last');

# Steps of a merge
insert();
fold();
check_at('merge begun', q{SELECT gpujoin_fold('t_k', true)}, 'a merge begins');
insert();
fold();
check_at('merge paused', q{SELECT gpujoin_fold('t_k', true)}, 'between steps of a merge');
check('merged');
insert();
fold();
cmp_ok(check('flush after the merge'), '<', 150, 'few pages were read');

# A worker: what it does between an answer and the look at the mirror may leave the mirror behind,
# so check only when it has ended
my $no_worker = q{SELECT count(*) = 0 FROM pg_stat_activity
	WHERE backend_type = 'gpujoin fold worker'};
on_primary('ALTER INDEX t_k SET (fold_pages = 8)');
my $folds = on_primary("SELECT folds FROM pg_stat_gpujoin_folds WHERE indexrelname = 't_k'");
insert();
ok($primary->poll_query_until('postgres', "SELECT folds > $folds FROM pg_stat_gpujoin_folds
	WHERE indexrelname = 't_k'"), 'a worker flushes');
ok($primary->poll_query_until('postgres', $no_worker), 'and ends');
check('flushed by a worker');
foreach my $round (1 .. 12)
{
	insert(6_000);
	catch_up();
	is(sql($answer), sql("SET gpujoin.enabled = off; $answer"), "beside a worker, $round");
}
ok($primary->poll_query_until('postgres', $no_worker), 'the worker has ended');
check('when the worker has ended');

# Promoted.  How many runs the worker has left depends on its timing, so begin with one.
$primary->stop;
$standby->promote;
$primary = $standby;
on_primary('ALTER INDEX t_k SET (fold_pages = 0)');
on_primary(q{SELECT gpujoin_fold('t_k', true)});
insert();
fold();
check('promoted');
insert();
fold();
cmp_ok(check('a fold of its own'), '<', 150, 'few pages were read');
on_primary(q{SELECT gpujoin_fold('t_k', true)});
check('all merged');

log_is_clean($standby, 'log of the standby is clean');
$standby->stop;
done_testing();
