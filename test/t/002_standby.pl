# A streaming standby replays our WAL byte for byte (wal_consistency_checking). While a write load
# and VACUUMs run, its forced queries return the same answers as its own stock plans and as the
# primary. After promotion it continues as a primary.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	"wal_consistency_checking = 'generic'", 'max_wal_size = 256MB');

$primary->safe_psql('postgres', q{
	CREATE TABLE big (id bigserial, k int, b bigint, v int) WITH (fillfactor = 80);
	INSERT INTO big (k, b, v) SELECT nullif(i % 1000, i % 150), nullif(i % 777, 5), 0
		FROM generate_series(1, 10000) i;
	CREATE UNLOGGED TABLE loose (k int);
	CREATE INDEX loose_k ON loose USING gpujoin (k);
	INSERT INTO loose SELECT generate_series(1, 500);
});
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
# a reader's snapshot may delay replay; it must not be cancelled by it
$standby->append_conf('postgresql.conf',
	"max_standby_streaming_delay = -1\nhot_standby_feedback = on");
$standby->start;

# Build the indexes while the standby streams.
$primary->safe_psql('postgres', q{
	CREATE INDEX big_k ON big USING gpujoin (k);
	CREATE INDEX CONCURRENTLY big_b ON big USING gpujoin (b) INCLUDE (v, id)
		WITH (lanes = 2);
});

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT * FROM big WHERE b IN (3, 30, 300)',
	'SELECT b.* FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT id, b, v FROM big WHERE b = ANY (ARRAY(SELECT generate_series(0, 700, 11)))',
	'SELECT b.id, b.v FROM generate_series(0, 990, 13) s JOIN big b ON b.b = s',
	'SELECT * FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999)))',
	'SELECT * FROM big WHERE k IS NULL OR k = 5',
	'SELECT id, b, v FROM big WHERE b IS NULL');

sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')); }

sub digest
{
	my ($node, $query) = @_;
	return $node->safe_psql('postgres', qq{SET gpujoin.force = on;
		SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text)) FROM ($query) t});
}

sub same_on_both
{
	my $name = shift;

	catch_up();
	foreach my $query (@queries)
	{
		my $answer = digest($primary, $query);

		is(digest($standby, $query), $answer, "$name: standby and primary agree: $query");
	}
	is(join("\n", differing($standby, @queries)), '', "$name: standby agrees with stock");
	foreach my $index (qw(big_k big_b))
	{
		is($standby->safe_psql('postgres', "SELECT gpujoin_check('$index', true)"),
			$primary->safe_psql('postgres', "SELECT gpujoin_check('$index', true)"),
			"$name: $index has the same number of entries on both");
	}
}

catch_up();
ok(uses_node($standby, 'GpuScan', $queries[0]), 'a scan of ours is in the plan on the standby');
ok(uses_node($standby, 'GpuJoin', $queries[2]), 'a join of ours is in the plan on the standby');
like($standby->safe_psql('postgres', "SET gpujoin.force = on; EXPLAIN $queries[$_]"),
	qr/Index Only: true/, 'the index may answer alone') foreach 3, 4, 7;
same_on_both('fresh');

# Run writes and VACUUMs on the primary, readers on the standby.
my %scripts = (
	insert => 'INSERT INTO big (k, b, v) SELECT nullif(i % 1000, i % 15), nullif(i, 7), 1
		FROM generate_series(1, 40) i;',
	update => q{
		\set first random(1, 20000)
		UPDATE big SET k = nullif((coalesce(k, 3) + 7) % 1000, 10)
			WHERE id BETWEEN :first AND :first + 60;
		UPDATE big SET v = v + 1 WHERE id BETWEEN :first AND :first + 60;
	},
	delete => q{
		\set rest random(0, 99)
		DELETE FROM big WHERE id % 100 = :rest;
	},
	undone => q{
		BEGIN;
		INSERT INTO big (k, b, v) SELECT i % 1000, i, 2 FROM generate_series(1, 40) i;
		ROLLBACK;
	},
	vacuum => 'VACUUM (SKIP_LOCKED) big;',
	fold => "SELECT gpujoin_fold('big_k', random() < 0.3), gpujoin_fold('big_b', random() < 0.3);");
my %weights = (insert => 10, update => 6, delete => 1, undone => 2, vacuum => 1, fold => 1);
my @load = ('pgbench', '-n', '-c', '2', '-T', '4', '--max-tries=0');

foreach my $name (sort keys %scripts)
{
	my $file = $primary->basedir . "/$name.pgbench";

	append_to_file($file, $scripts{$name});
	push @load, '-f', "$file\@$weights{$name}";
}
my ($out, $err) = ('', '');
my $lsn = $primary->lsn('insert');
my ($runs, $failed, %seen, @different) = (0, 0);

# Repeat until enough has been compared, also on a slow machine
for (my $round = 0; $round < 2 || ($round < 20 && ($runs < 10 || keys %seen < 3)); $round++)
{
	my $pgbench =
	  IPC::Run::start([ @load, $primary->connstr('postgres') ], '>', \$out, '2>', \$err);

	while ($pgbench->pumpable)
	{
		push @different, differing($standby, @queries);
		$seen{ digest($standby, $queries[0]) } = 1;
		$runs++;
		$pgbench->pump_nb;
		last if @different || $runs > 400;
	}
	$failed++ if !$pgbench->finish;
	last if @different || $failed;
}
is($failed, 0, 'the load ran') or diag($err);
is(join("\n", @different), '', 'under load: forced and stock agree in each snapshot');
cmp_ok($runs, '>', 3, 'under load: the standby was asked often');
cmp_ok(scalar(keys %seen), '>', 1, 'under load: and its answers changed');
note("$runs rounds of queries on the standby, " . scalar(keys %seen) . ' different answers');
same_on_both('after load');

# Reuse freed slots for rows with other keys.
$primary->safe_psql('postgres', q{
	DELETE FROM big WHERE id % 2 = 0;
	VACUUM big;
	INSERT INTO big (k, b, v) SELECT nullif(5000 + i % 10, 5001), i, 3
		FROM generate_series(1, 5000) i;
});
push @queries, 'SELECT * FROM big WHERE k = ANY (ARRAY[5000, 5003, 1])';
same_on_both('after reuse');
$primary->safe_psql('postgres', 'VACUUM FULL big; UPDATE big SET k = k + 1 WHERE id % 3 = 0');
same_on_both('after VACUUM FULL');
$primary->safe_psql('postgres', q{
	REINDEX INDEX CONCURRENTLY big_k; TRUNCATE big;
	INSERT INTO big (k, b, v) SELECT i % 1000, i % 777, 0 FROM generate_series(1, 6000) i});
same_on_both('after TRUNCATE');

cmp_ok($primary->safe_psql('postgres', "SELECT '" . $primary->lsn('insert') . "'::pg_lsn - '$lsn'"),
	'>', 1000000, 'there was much to replay');
unlike(slurp_file($standby->logfile), qr/inconsistent page|FATAL.*recovery/,
	'each replayed page is the primary\'s');

# Promote the standby: it keeps the lanes, the journal and the free space.
$standby->promote;
$standby->safe_psql('postgres', q{
	INSERT INTO big (k, b, v) SELECT nullif(i % 1000, i % 150), i, 4
		FROM generate_series(1, 4000) i;
	UPDATE big SET k = k + 1 WHERE id % 5 = 0;
	DELETE FROM big WHERE id % 7 = 0;
	VACUUM big;
	INSERT INTO big (k, b, v) SELECT i % 1000, i, 5 FROM generate_series(1, 4000) i;
});
is(join("\n", differing($standby, @queries)), '', 'promoted: forced and stock agree');
is($standby->safe_psql('postgres', "SELECT gpujoin_check('big_k', true) = count(*) FROM big"), 't',
	'promoted: each row has its entry');
is($standby->safe_psql('postgres', q{
		INSERT INTO loose SELECT i % 10 FROM generate_series(1, 1000) i;
		SET gpujoin.force = on;
		SELECT count(*), gpujoin_check('loose_k', true) FROM loose WHERE k IN (3, 4)}),
	'200|1000', 'promoted: the unlogged table is empty and usable');
log_is_clean($_, 'log of ' . $_->name . ' is clean') foreach $primary, $standby;

done_testing();
