# Workers of many indexes: a COPY into partitions, each with an index of its own, starts no more
# workers than are allowed, and all partitions are flushed, although most requests are refused at
# first; so they are if no worker could start at all during the COPY. Soon no worker is left.
# CHECK_LONG=1 takes 1,000 partitions.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $parts = $ENV{CHECK_LONG} ? 1_000 : 60;
my $rows = 2_000 * $parts;
my $patience = $ENV{CHECK_PATIENCE} || 1;
my $most = 3;

# the launcher, the supervisor, the one of logical replication, and the workers
my $node = new_server('primary', 'fsync = off', 'gpujoin.auto_load = off',
	'max_worker_processes = 10', 'max_locks_per_transaction = 512');
my $is_worker = "backend_type = 'gpujoin fold worker'";
my $workers = "SELECT count(*) FROM pg_stat_activity WHERE $is_worker";
my $file = PostgreSQL::Test::Utils::tempdir . '/rows';

# The rows are for the partitions in turn, so that all of them are filled at the same time.
# Two pages have about 1,600 entries.
$node->safe_psql('postgres', qq{
	CREATE TABLE big (part int, k int) PARTITION BY LIST (part);
	DO \$\$
	BEGIN
		FOR i IN 0 .. $parts - 1 LOOP
			EXECUTE format('CREATE TABLE part%s PARTITION OF big FOR VALUES IN (%1\$s);
				CREATE INDEX part%1\$s_k ON part%1\$s USING gpujoin (k)
				WITH (lanes = 1, fold_pages = 2)', i);
		END LOOP;
	END \$\$;
	COPY (SELECT i % $parts, i % 1000 FROM generate_series(1, $rows) i) TO '$file';
	CREATE VIEW unsorted AS SELECT count(*) AS n FROM generate_series(0, $parts - 1) i,
		gpujoin_index_info(('part' || i || '_k')::regclass) WHERE delta_pages >= 2;
	CREATE FUNCTION holders() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM pg_locks
		WHERE locktype = ''userlock'' AND database = 0 AND granted AND mode = ''ExclusiveLock'''});

# Wait until nothing is left to be flushed; returns the largest number of workers that were seen to
# work, and the time that it took
sub wait_until_flushed
{
	my ($limit, $client) = @_;
	my $from = time;
	my $seen = 0;

	for (;;)
	{
		my $now = $node->safe_psql('postgres', 'SELECT holders()');

		$seen = $now if $now > $seen;
		if ($client && $client->pumpable)
		{
			$client->reap_nb;
			eval { $client->pump_nb if $client->pumpable };
		}
		elsif ($node->safe_psql('postgres', 'SELECT n FROM unsorted') eq '0'
			|| time - $from > $limit)
		{
			return ($seen, time - $from);
		}
		sleep(0.05);
	}
}

sub none_is_left
{
	my $what = shift;

	ok($node->poll_query_until('postgres', "SELECT ($workers) = 0"), "$what: the workers end");
	cmp_ok($node->safe_psql('postgres',
			'SELECT extract(epoch FROM now() - max(last_fold)) FROM pg_stat_gpujoin_folds'),
		'<', 15 * $patience, "$what: soon after the last flush");
	return;
}

sub is_right
{
	my $what = shift;

	is($node->safe_psql('postgres', q{SELECT sum(gpujoin_check(i.indexrelid, true)) =
			(SELECT count(*) FROM big) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE c.relname LIKE 'part%'}),
		't', "$what: the indexes have all rows");
	return;
}

# Filled while workers may start
{
	my $copy = IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr('postgres'),
			'-c', "COPY big FROM '$file'" ]);
	my ($seen, $took) = wait_until_flushed(600 * $patience, $copy);

	$copy->finish;
	note("$parts partitions: flushed after $took s");
	is($node->safe_psql('postgres', 'SELECT n FROM unsorted'), '0', 'all partitions are flushed');
	cmp_ok($seen, '<=', $most, 'not more workers than allowed');
	cmp_ok($node->safe_psql('postgres',
			'SELECT sum(requests_refused) FROM pg_stat_gpujoin_folds'),
		'>', 0, 'although most requests were refused');
	is_right('filled');
	none_is_left('filled');
}

# Filled while other indexes have all workers
{
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	my $waiting = "SELECT count(*) = $most FROM pg_stat_activity
		WHERE $is_worker AND wait_event = 'advisory'";

	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	$node->safe_psql('postgres', q{ALTER DATABASE postgres SET gpujoin.debug_step = 'begun wait'});
	foreach my $i (1 .. $most)
	{
		$node->safe_psql('postgres', qq{SET gpujoin.debug_step = '';
			CREATE TABLE other$i (k int);
			CREATE INDEX other${i}_k ON other$i USING gpujoin (k) WITH (fold_pages = 2)});
		$node->safe_psql('postgres', qq{SET gpujoin.debug_step = '';
			INSERT INTO other$i SELECT generate_series(1, 20000)});
	}
	ok($node->poll_query_until('postgres', $waiting), 'all workers are taken');
	$node->safe_psql('postgres', q{ALTER DATABASE postgres RESET gpujoin.debug_step});
	$node->safe_psql('postgres', "COPY big FROM '$file'");
	is($node->safe_psql('postgres', 'SELECT n FROM unsorted'), $parts, 'nothing is flushed');
	is($node->safe_psql('postgres', "SELECT ($workers) || ' ' || holders()"), "$most $most",
		'and no other worker is there');
	$holder->quit;

	# these sessions use no index of ours: the workers themselves repeat the requests
	my (undef, $took) = wait_until_flushed(600 * $patience);
	note("$parts partitions: flushed $took s after the workers were free");
	is($node->safe_psql('postgres', 'SELECT n FROM unsorted'), '0', 'all are flushed in the end');
	# a worker with nothing to do gives up its number at once; it would stay for a second otherwise
	cmp_ok($took, '<', ($ENV{CHECK_LONG} ? 60 : 20) * $patience, 'without delay');
	is_right('recovered');
	none_is_left('recovered');
}

log_is_clean($node, 'the log is clean');
$node->stop;
done_testing();
