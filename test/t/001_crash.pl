# Kill the server several times amid insertions, updates, deletions, VACUUMs and folds of
# rows with and without a key.
# After each recovery every index must pass gpujoin_check() against its table, forced queries must
# return the same rows as stock plans, and unlogged tables and their indexes must be empty and
# usable.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_server('main', 'fsync = off', 'max_wal_size = 64MB', 'min_wal_size = 32MB');

$node->safe_psql('postgres', q{
	CREATE TABLE big (id bigserial, k int, b bigint, v int) WITH (fillfactor = 80);
	CREATE INDEX big_k ON big USING gpujoin (k) WITH (lanes = 2);
	CREATE INDEX big_b ON big USING gpujoin (b) INCLUDE (v, id, k);
	CREATE UNLOGGED TABLE loose (id bigserial, k int);
	CREATE INDEX loose_k ON loose USING gpujoin (k) INCLUDE (id);
	INSERT INTO big (k, b, v) SELECT i % 1000, i % 777, 0 FROM generate_series(1, 20000) i;
});

# SKIP_LOCKED keeps a VACUUM from waiting for another one whose truncation waits for it.
my %scripts = (
	insert => q{
		INSERT INTO big (k, b, v) SELECT nullif(i % 1000, i % 150), i, 1
			FROM generate_series(1, 300) i;
		INSERT INTO loose (k) SELECT nullif(i, i % 25) FROM generate_series(1, 50) i;
	},
	update => q{
		\set first random(1, 40000)
		UPDATE big SET k = nullif((coalesce(k, 3) + 7) % 1000, 10), b = nullif(b, 9) + 1
			WHERE id BETWEEN :first AND :first + 300;
		UPDATE big SET v = v + 1 WHERE id BETWEEN :first AND :first + 300;
	},
	undone => q{
		BEGIN;
		INSERT INTO big (k, b, v) SELECT nullif(i % 1000, i % 150), i, 2
			FROM generate_series(1, 200) i;
		ROLLBACK;
	},
	delete => q{
		\set rest random(0, 19)
		DELETE FROM big WHERE id % 20 = :rest AND id % 3 = 0;
	},
	vacuum => q{ VACUUM (SKIP_LOCKED) big; },
	fold => q{
		SELECT gpujoin_fold('big_k', random() < 0.3);
		SELECT gpujoin_fold('big_b', random() < 0.3);
		SELECT gpujoin_fold('loose_k');
	});
my %weights = (insert => 6, update => 5, undone => 2, delete => 1, vacuum => 2, fold => 1);
my @load = ('pgbench', '-n', '-c', '4', '-j', '2', '-T', '60', '--max-tries=0');

foreach my $name (sort keys %scripts)
{
	my $file = $node->basedir . "/$name.pgbench";

	append_to_file($file, $scripts{$name});
	push @load, '-f', "$file\@$weights{$name}";
}

my $queries = [
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT * FROM big WHERE b IN (3, 30, 300)',
	'SELECT * FROM big WHERE k IS NULL',
	'SELECT id, b, v FROM big WHERE b IS NULL OR b = 30',
	'SELECT b.* FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT b.id, s FROM generate_series(0, 300) s(b) JOIN big b USING (b)',
	'SELECT * FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999)))'
];

ok(uses_node($node, 'GpuScan', $queries->[0]), 'a scan of ours is in the plan');
ok(uses_node($node, 'GpuJoin', $queries->[4]), 'a join of ours is in the plan');

my $sequence = "SELECT sequence FROM gpujoin_index_info('big_k')";
my $changes = $node->safe_psql('postgres', $sequence);

foreach my $round (1 .. 5)
{
	my $offset = -s $node->logfile;
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start([ @load, $node->connstr('postgres') ], '>', \$out, '2>', \$err);

	$node->poll_query_until('postgres', "SELECT ($sequence) > $changes + 20");
	sleep(0.5 + 0.3 * $round);
	# in every other round, kill soon after a checkpoint; in the rest there is more WAL to replay
	$node->safe_psql('postgres', 'CHECKPOINT') if $round % 2;
	sleep(0.2);
	# however far the load has come
	$node->safe_psql('postgres', "CREATE TABLE replayed_$round ()");
	$node->stop('immediate');
	$pgbench->finish;
	$node->start;

	ok(slurp_file($node->logfile, $offset) =~ /redo done/, "round $round: there was WAL to replay");

	my ($before, $now) = ($changes, $node->safe_psql('postgres', $sequence));
	cmp_ok($now, '>', $before + 5, "round $round: the index had changed");
	$changes = $now;

	foreach my $index (qw(big_k big_b))
	{
		is($node->safe_psql('postgres',
				"SELECT gpujoin_check('$index', true) >= count(*) FROM big"),
			't', "round $round: $index has an entry for each row");
	}
	is(join("\n", differing($node, @$queries)), '', "round $round: same rows as stock");

	is($node->safe_psql('postgres', "SELECT gpujoin_check('loose_k', true), count(*) FROM loose"),
		'0|0', "round $round: unlogged table and its index are empty");
	is($node->safe_psql('postgres', q{
			INSERT INTO loose (k) SELECT i % 100 FROM generate_series(1, 2000) i;
			SET gpujoin.force = on;
			SELECT count(*), gpujoin_check('loose_k', true) FROM loose WHERE k IN (3, 4)}),
		'40|2000', "round $round: and usable");
	$node->safe_psql('postgres', 'TRUNCATE loose');
	is($node->safe_psql('postgres', "VACUUM big; SELECT 1"), '1', "round $round: VACUUM works");
	is(join("\n", differing($node, @$queries)), '', "round $round: same rows after VACUUM");
	log_is_clean($node, "round $round: log is clean", $offset);
}

# Everything that the crashes left behind disappears together with the rows.
is($node->safe_psql('postgres', q{
		DELETE FROM big; VACUUM (FREEZE, INDEX_CLEANUP ON) big;
		SELECT entries FROM gpujoin_index_info('big_k')}), '0', 'VACUUM finds every entry');

done_testing();
