# Drop the extension, with all its indexes, while other sessions use it, and create it again: a
# session about to use it gets a proper error or continues without it. A file that cannot grow:
# insertions and builds fail, nothing is lost, and all succeed when there is room again.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_server('main', { extra => ['--wal-segsize=1'] }, 'fsync = off',
	"gpujoin.device = 'reference'", "deadlock_timeout = '100ms'", 'log_error_verbosity = verbose',
	'max_wal_size = 256MB');
my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT b.id FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s');
my $make = q{
	CREATE EXTENSION IF NOT EXISTS gpujoin;
	CREATE EXTENSION IF NOT EXISTS gpujoin_test;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id) WITH (lanes = 2);};

$node->safe_psql('postgres', qq{
	CREATE TABLE big (id int, k int);
	INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 20000) i; $make});

# Dropped under load. Each client repeats the same queries, whatever the answer; a wrong number of
# rows raises an error of its own.
my $rounds = $ENV{CHECK_LONG} ? 20 : 4;
my @clients;
my @scripts = (
	q{SET gpujoin.force = on;
	SELECT 1 / (count(*) = 40)::int FROM big WHERE k IN (1, 999) AND id > 0;
	SELECT 1 / (count(b.id) = 1540)::int FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s
		AND b.id > 0;
	PREPARE p AS SELECT count(*) FROM big WHERE k = ANY ($1);
	EXECUTE p ('{1, 2, 3}'); DEALLOCATE p;},
	q{INSERT INTO big SELECT -i, i % 1000 FROM generate_series(1, 300) i;
	UPDATE big SET k = k WHERE id = -5;
	DELETE FROM big WHERE id < 0;
	SELECT gpujoin_fold('big_k');},
	q{VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) big;
	SELECT gpujoin_load('big_k');
	SELECT gpujoin_check('big_k', true);
	SELECT count(*) FROM pg_stat_gpujoin_mirrors;
	SELECT gpujoin_unload('big_k');});
foreach my $n (0 .. 3)
{
	my $file = $node->basedir . "/client_$n";

	append_to_file("$file.sql", "$scripts[$n % 3]\n" x 3000);
	push @clients, [ IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=0', '-d',
				$node->connstr('postgres') . ' application_name=client', '-f', "$file.sql" ],
			'>', "$file.out", '2>', "$file.err"), "$file.err" ];
}
my $dropped = 0;
foreach my $round (1 .. $rounds)
{
	sleep(0.3);
	foreach my $try (1 .. 50)
	{
		# make the others the victims of a deadlock; otherwise this never succeeds on a slow machine
		my ($status) = $node->psql('postgres',
			"SET deadlock_timeout = '1min'; DROP EXTENSION gpujoin CASCADE");

		$dropped++ if $status == 0;
		last if $status == 0;
	}
	sleep(0.1);
	foreach my $try (1 .. 50)
	{
		my ($status) = $node->psql('postgres', $make);

		last if $status == 0;
		$node->psql('postgres', 'DROP INDEX IF EXISTS big_k');
	}
}
is($dropped, $rounds, 'the extension was dropped under load');
sleep(0.3);
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE application_name = 'client'});
$_->[0]->finish foreach @clients;
unlike(join('', map { slurp_file($_->[1]) } @clients), qr/division by zero/, 'no answer was wrong');
my @internal = grep { /XX000|XX001|XX002/ && !/cache lookup failed|tuple concurrently/ }
  split /\n/, slurp_file($node->logfile);
is(join("\n", @internal), '', 'nobody has met anything odd');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nor has anybody crashed');
# A client that has not ended yet has a snapshot, and VACUUM keeps what that sees.
$node->poll_query_until('postgres',
	q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'client'});
$node->safe_psql('postgres', 'DELETE FROM big WHERE id < 0; VACUUM big');
is($node->safe_psql('postgres', "SELECT gpujoin_check('big_k', true) = count(*) FROM big"), 't',
	'the index is right');
is(join("\n", differing($node, @queries)), '', "answers are PostgreSQL's own");
$node->safe_psql('postgres', 'DROP EXTENSION gpujoin CASCADE');
is(join("\n", $node->safe_psql('postgres', 'SELECT count(*) FROM big WHERE k IN (1, 2)')), '40',
	'and without it PostgreSQL answers');
$node->safe_psql('postgres', $make);
ok($node->poll_query_until('postgres', 'SELECT count(*) <= 1 FROM gpujoin_mirrors()'),
	'device memory of dropped indexes is given back');

# A file that cannot grow
SKIP:
{
	my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my $limit = sub { system('prlimit', '--pid', $pid, "--fsize=$_[0]:") == 0 };
	my $right = q{SELECT gpujoin_check('wide_k', true) >= count(*) FROM wide};
	my $insert = 'INSERT INTO wide SELECT i * 7919 % 30000 FROM generate_series(1, %s) i';

	skip 'there is no prlimit', 1 if !$limit->('unlimited');
	$node->safe_psql('postgres', q{
		CREATE TABLE wide (k int);
		CREATE INDEX wide_k ON wide USING gpujoin (k)
			INCLUDE (k, k, k, k, k, k, k, k, k, k, k, k, k);
		INSERT INTO wide SELECT i FROM generate_series(1, 5000) i});
	foreach my $more (0, 1, 2, 3, 8)
	{
		my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('wide_k')") + $more * 8192;

		$limit->($size > 1_100_000 ? $size : 1_100_000);
		my ($status, $out, $err) = $node->psql('postgres', sprintf($insert, 30000));
		like($err, qr/could not extend file|could not write/,
			"$more pages more: an insertion fails");
		is($node->safe_psql('postgres', $right), 't', "$more pages more: all rows are there");
		($status, $out, $err) = $node->psql('postgres', "SELECT gpujoin_fold('wide_k', true)");
		is($node->safe_psql('postgres', $right), 't', "$more pages more: nor has a fold lost any");
		$limit->('unlimited');
		$node->safe_psql('postgres', sprintf($insert, 500));
		is($node->safe_psql('postgres', $right), 't', "$more pages more: now there is room");
	}
	$node->safe_psql('postgres', sprintf($insert, 60000));
	$limit->(1_100_000);
	my ($status, $out, $err) = $node->psql('postgres', q{CREATE INDEX wide_b ON wide
		USING gpujoin (k) INCLUDE (k, k, k, k, k, k, k, k, k, k, k, k, k)});
	like($err, qr/could not extend file|could not write/, 'a build fails');
	$limit->('unlimited');
	is($node->safe_psql('postgres', q{CREATE INDEX wide_b ON wide USING gpujoin (k);
		SELECT gpujoin_check('wide_b', true) = count(*) FROM wide}), 't', 'and is done with room');

	# space that failures have left in the file is reused
	$node->safe_psql('postgres', q{DELETE FROM wide WHERE k % 3 = 0;
		VACUUM (INDEX_CLEANUP ON) wide; SELECT gpujoin_fold('wide_k', true);
		DELETE FROM wide WHERE k % 3 = 1; VACUUM (INDEX_CLEANUP ON) wide;});
	my $pages = q{SELECT pages FROM gpujoin_index_info('wide_k')};
	my $before = $node->safe_psql('postgres', $pages);
	$node->safe_psql('postgres', sprintf($insert, 5000));
	is($node->safe_psql('postgres', $pages), $before, 'free pages are used again');
	is($node->safe_psql('postgres', $right), 't', 'and all is right');
}
$node->stop;
done_testing();
