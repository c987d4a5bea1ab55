# kill -9 at random moments, repeatedly: of a process that inserts, deletes, folds or builds, then
# of the postmaster. A standby follows all the time and compares each page. After each recovery no
# row lacks its entry, and answers equal PostgreSQL's own, on both servers.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'takes minutes; CHECK_LONG=1 runs it' if !$ENV{CHECK_LONG};

my $rounds = $ENV{KILL_ROUNDS} // 24;
my $seed = $ENV{KILL_SEED} // time;
srand($seed);
note("KILL_SEED=$seed");

my $node = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	'restart_after_crash = on', "wal_consistency_checking = 'all'", 'max_wal_size = 64MB',
	'min_wal_size = 32MB', "wal_keep_size = '4GB'", 'autovacuum = on', "autovacuum_naptime = '1s'");
$node->safe_psql('postgres', q{
	-- One in twenty text ids has no form that can be packed, one in forty codes is too long
	CREATE TABLE big (id bigserial, k int, b bigint, v int,
		u uuid GENERATED ALWAYS AS (md5(k::text)::uuid) STORED,
		t text GENERATED ALWAYS AS (CASE WHEN b % 20 = 0 THEN 'no id, but number ' || b::text
			ELSE overlay(md5(b::text)::uuid::text PLACING '8' FROM 20 FOR 1) END) STORED,
		c char(30) GENERATED ALWAYS AS (CASE WHEN k % 40 = 0 THEN 'a code that is too long'
			ELSE 'code' || (k % 40)::text END) STORED)
		WITH (fillfactor = 80);
	CREATE INDEX big_k ON big USING gpujoin (k) WITH (lanes = 2);
	CREATE INDEX big_b ON big USING gpujoin (b) INCLUDE (v, id, k, c);
	CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (c, v);
	CREATE INDEX big_t ON big USING gpujoin (t text_id_ops) INCLUDE (u);
	CREATE INDEX big_c ON big USING gpujoin (c);
	INSERT INTO big (k, b, v) SELECT i % 1000, i % 777, 0 FROM generate_series(1, 5000) i;
	CREATE UNLOGGED TABLE loose (k int);
	CREATE INDEX loose_k ON loose USING gpujoin (k);
});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;

my %scripts = (
	insert => q{
		INSERT INTO big (k, b, v) SELECT i % 1000, i, 1 FROM generate_series(1, 100) i;
		INSERT INTO loose SELECT generate_series(1, 50);
	},
	update => q{
		\set first random(1, 40000)
		UPDATE big SET k = (k + 7) % 1000, b = b + 1 WHERE id BETWEEN :first AND :first + 100;
	},
	delete => q{
		\set rest random(0, 19)
		DELETE FROM big WHERE id % 20 = :rest AND id % 3 = 0;
	},
	vacuum => q{ VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON) big; },
	fold => q{
		SELECT gpujoin_fold('big_k', random() < 0.3);
		SELECT gpujoin_fold('big_b', random() < 0.3);
		SELECT gpujoin_fold('big_u', random() < 0.3);
		SELECT gpujoin_fold('big_t', random() < 0.3);
	},
	build => q{ SET lock_timeout = '2s'; REINDEX INDEX big_b; REINDEX INDEX big_t;
		TRUNCATE loose; });
my %weights = (insert => 6, update => 4, delete => 1, vacuum => 2, fold => 2, build => 1);
my @load = ('pgbench', '-n', '-c', '4', '-j', '2', '-T', '60', '--max-tries=0');

foreach my $name (sort keys %scripts)
{
	my $file = $node->basedir . "/$name.pgbench";

	append_to_file($file, $scripts{$name});
	push @load, '-f', "$file\@$weights{$name}";
}

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE b = ANY (ARRAY(SELECT generate_series(0, 300, 7)))',
	'SELECT b.* FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT u, c, v FROM big WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid
		FROM generate_series(0, 999, 7) i))',
	'SELECT t, u FROM big WHERE t = ANY (ARRAY(SELECT DISTINCT t FROM big WHERE b < 300))',
	"SELECT id FROM big WHERE c IN ('code7', 'code8 ', 'a code that is too long')",
	"SELECT b, c FROM big WHERE (b, c) IN ((7, 'code7'), (41, 'code1  '), (40,
		'a code that is too long'))",
	'SELECT b.u, b.c, b.v FROM (SELECT DISTINCT u, c FROM big WHERE k < 200) s JOIN big b
		ON b.u = s.u AND b.c = s.c');

sub is_right
{
	my ($server, $name) = @_;

	foreach my $index (qw(big_k big_b big_u big_t big_c))
	{
		is($server->safe_psql('postgres',
				"SELECT gpujoin_check('$index', true) >= count(*) FROM big"),
			't', "$name: $index has an entry for each row");
	}
	is(join("\n", differing($server, @queries)), '', "$name: answers are PostgreSQL's own");
}

foreach my $round (1 .. $rounds)
{
	my $offset = -s $node->logfile;
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start([ @load,
			$node->connstr('postgres') . ' application_name=load' ], '>', \$out, '2>', \$err);

	sleep(0.3 + rand(1.5));
	if ($round % 3 == 0)
	{
		my @started = split /\n/,
		  $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity');

		$node->kill9;
		$pgbench->finish;
		# the postmaster's children notice its end and exit
		for (1 .. 600)
		{
			last if !grep { kill(0, $_) } @started;
			sleep(0.1);
		}
		ok($node->start(fail_ok => 1), "round $round: the server starts after its end");
	}
	else
	{
		my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
			WHERE application_name = 'load' ORDER BY random() LIMIT 1});
		my $done = $pid ne '' && kill('KILL', $pid);

		ok($done, "round $round: a process is killed");
		$pgbench->finish;
		log_comes_to($node, qr/database system is ready to accept connections/,
			"round $round: the server recovers", $offset);
	}
	is_right($node, "round $round");
	is($node->safe_psql('postgres', "SELECT gpujoin_check('loose_k', true)"), '0',
		"round $round: the unlogged index is empty");
	$node->safe_psql('postgres', 'DELETE FROM big WHERE id < (SELECT max(id) - 8000 FROM big)');
	next if $round % 4;
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is_right($standby, "round $round: standby");
}
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC/,
	'each replayed page is the primary\'s');
my @odd = grep { /PANIC:|TRAP:| leak: |XX00[12]|was terminated by signal (?!9)/ } split /\n/,
  slurp_file($node->logfile);
is(join("\n", @odd), '', 'log is clean but for the kills');

# All these crashes have left free pages only
$node->safe_psql('postgres', q{DELETE FROM big; VACUUM (FREEZE, INDEX_CLEANUP ON) big;
	SELECT gpujoin_fold('big_k', true); INSERT INTO big (k) VALUES (1); DELETE FROM big;
	VACUUM (INDEX_CLEANUP ON) big;});
is($node->safe_psql('postgres', q{SELECT entries, pages - free_pages < 10
	FROM gpujoin_index_info('big_k')}), '0|t', 'every page is free in the end');
done_testing();
