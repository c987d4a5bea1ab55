# Copies of a server and ways to restore one: a base backup under load, recovery to a point in time
# and to a named point in the middle of a fold, pg_rewind after two servers have diverged, dump and
# restore, checksums that are switched on. Each time no row lacks its entry, answers equal
# PostgreSQL's own, and later insertions, folds and deletions find no damage.

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

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT b.id FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s');
my $next = 100_000;

my $primary = new_server('primary',
	{ allows_streaming => 1, has_archiving => 1, no_data_checksums => 1 }, 'fsync = off',
	'wal_log_hints = on', "wal_keep_size = '256MB'", 'gpujoin.auto_load = off');
$primary->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 20000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
});

sub insertion
{
	my $n = shift // 2500;

	$next += 10_000;
	return "INSERT INTO big SELECT i, i % 1000, i FROM generate_series($next, $next + $n - 1) i;";
}

sub is_right
{
	my ($server, $name, $database) = @_;

	is($server->safe_psql($database // 'postgres',
			"SELECT gpujoin_check('big_k', true) >= count(*) FROM big"),
		't', "$name: all rows are there");
	is(join("\n", differing($server, @queries)), '', "$name: answers are PostgreSQL's own")
	  if !defined $database;
}

# Test that the server's answers are right, and stay right when it is used
sub works
{
	my ($server, $name) = @_;

	is_right($server, $name);
	$server->safe_psql('postgres', insertion() . "SELECT gpujoin_fold('big_k');" . insertion()
		  . 'DELETE FROM big WHERE id % 10 = 7; VACUUM (INDEX_CLEANUP ON) big;'
		  . "SELECT gpujoin_fold('big_k', true);");
	is_right($server, "$name, used");
	log_is_clean($server, "$name: log is clean");
}

# Back up a server under write load
my $load = $primary->basedir . '/load.pgbench';
append_to_file($load, q{
	\set first random(1, 100000)
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(:first, :first + 500) i;
	UPDATE big SET k = 999 - k WHERE id BETWEEN :first AND :first + 300;
	DELETE FROM big WHERE id BETWEEN :first AND :first + 200;
	VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON) big;
	SELECT gpujoin_fold('big_k', random() < 0.3);
});
my ($out, $err) = ('', '');
my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', '6', '-f', $load,
		$primary->connstr('postgres') ], '>', \$out, '2>', \$err);
sleep(1);
$primary->backup('loaded');
ok($pgbench->finish, 'the load ran') or diag($err);
{
	my $node = PostgreSQL::Test::Cluster->new('backup');

	$node->init_from_backup($primary, 'loaded');
	$node->append_conf('postgresql.conf', 'archive_mode = off');
	$node->start;
	works($node, 'base backup');
	$node->stop;
}

# Recover to points in the middle of folds, by name and by time
$primary->backup('before');
my %points;
foreach my $step (qw(rotated closing begun sorted writing written published))
{
	my $holder = $primary->background_psql('postgres', on_error_stop => 0);

	$primary->safe_psql('postgres', insertion());
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	my $folder = IPC::Run::start([ 'psql', '-XAt', '-d',
			$primary->connstr('postgres') . ' application_name=folder',
			'-c', "SET gpujoin.debug_step = '$step wait'",
			'-c', "SELECT gpujoin_fold('big_k', true)" ], '>', \$out, '2>&1');
	ok(wait_for_query($primary, 'folder', "wait_event_type = 'Lock'"), "$step: the fold waits");
	$primary->safe_psql('postgres', insertion(300));
	$points{$step}{rows} = $primary->safe_psql('postgres', 'SELECT count(*) FROM big');
	$points{$step}{time} = $primary->safe_psql('postgres', 'SELECT clock_timestamp()');
	$primary->safe_psql('postgres', "SELECT pg_create_restore_point('$step')");
	sleep(0.1);
	# the first commit after the target, while the fold still waits
	$primary->safe_psql('postgres', insertion(300));
	$holder->quit;
	$folder->finish;
}
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');

foreach my $step (sort keys %points)
{
	my ($kind, $target) = $step =~ /writ|begun/ ? ('time', $points{$step}{time}) : ('name', $step);
	my $node = PostgreSQL::Test::Cluster->new("to_$step");

	$node->init_from_backup($primary, 'before', has_restoring => 1, standby => 0);
	$node->append_conf('postgresql.conf', "archive_mode = off
		recovery_target_$kind = '$target'
		recovery_target_action = 'promote'");
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM big'), $points{$step}{rows},
		"$step: recovered to that $kind");
	works($node, "$step: that $kind");
	$node->stop;
}

# Two servers diverge; the old primary is rewound
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'before', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'archive_mode = off');
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$standby->promote;
$primary->safe_psql('postgres', insertion() . "SELECT gpujoin_fold('big_k', true);" . insertion()
	  . 'DELETE FROM big WHERE id % 10 = 1; VACUUM (INDEX_CLEANUP ON) big;' . insertion());
$standby->safe_psql('postgres', 'DELETE FROM big WHERE id % 10 = 2; VACUUM big;' . insertion()
	  . "SELECT gpujoin_fold('big_k');" . insertion(500) . 'CHECKPOINT');
$primary->stop;
command_ok([ 'pg_rewind', '--target-pgdata', $primary->data_dir, '--no-sync',
		'--source-server', $standby->connstr('postgres') ], 'pg_rewind');
# pg_rewind has copied the source's configuration
$primary->append_conf('postgresql.conf', 'port = ' . $primary->port . "\nlog_statement = none");
$primary->set_standby_mode;
$primary->enable_streaming($standby);
$primary->start;
$standby->wait_for_catchup($primary, 'replay', $standby->lsn('insert'));
is_right($standby, 'the server that was followed');
is_right($primary, 'the server that was rewound');
is($primary->safe_psql('postgres', 'TABLE big ORDER BY id, k, v'),
	$standby->safe_psql('postgres', 'TABLE big ORDER BY id, k, v'), 'they have the same rows');
$standby->stop;
$primary->promote;
works($primary, 'rewound');

# Dump and restore
my $dump = $primary->basedir . '/dump';
my $definition = q{SELECT pg_get_indexdef('big_k'::regclass)};
$primary->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'pg_dump', '-Fc', '-f', $dump, $primary->connstr('postgres') ], 'pg_dump');
command_ok([ 'pg_restore', '-j2', '-d', $primary->connstr('restored'), $dump ], 'pg_restore');
is($primary->safe_psql('restored', $definition), $primary->safe_psql('postgres', $definition),
	'the index is restored as it was');
is_right($primary, 'restored', 'restored');
is($primary->safe_psql('restored', 'SET gpujoin.force = on; SELECT * FROM big
	WHERE k IN (3, 5) ORDER BY 1, 2, 3'), $primary->safe_psql('postgres', 'SELECT * FROM big
	WHERE k IN (3, 5) ORDER BY 1, 2, 3'), 'restored: same rows');

# Checksums: from version 18 on they are the default, which the server was made without
is($primary->safe_psql('postgres', 'SHOW data_checksums'), 'off', 'there are no checksums');
$primary->stop;
command_ok([ 'pg_checksums', '--enable', '--no-sync', '-D', $primary->data_dir ],
	'checksums are switched on');
command_ok([ 'pg_checksums', '--check', '-D', $primary->data_dir ], 'checksums are right');
$primary->start;
works($primary, 'with checksums');
$primary->safe_psql('postgres', insertion());
$primary->stop;
command_ok([ 'pg_checksums', '--check', '-D', $primary->data_dir ],
	'checksums are right after use');
done_testing();
