# Folds that do not finish: the server is killed at each step of a fold, while other sessions
# insert. After recovery nothing is lost, gpujoin_check() finds no damage, and the next fold
# completes the work. A standby answers queries while it replays folds, and is promoted in the
# middle of one. A fold that is cancelled, or runs out of disk space, is repeated from the start.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT b.id FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT id, v FROM big WHERE k IS NULL OR k = 5');
my $next = 100_000;
my $key = 'i % 1000';

my $primary = new_server('primary', { allows_streaming => 1, extra => ['--wal-segsize=1'] },
	'fsync = off', "wal_consistency_checking = 'generic'", 'max_wal_size = 256MB',
	'wal_keep_size = 2GB', 'gpujoin.auto_load = off');
my $node = $primary;

$node->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 20000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
});

sub insert
{
	$node->safe_psql('postgres',
		"INSERT INTO big SELECT i, $key, i FROM generate_series($next, $next + 2500) i");
	$next += 10_000;
}

sub is_right
{
	my ($server, $name) = @_;

	is($server->safe_psql('postgres',
			"SELECT gpujoin_check('big_k', true) >= count(*) FROM big"),
		't', "$name: all rows are there");
	is(join("\n", differing($server, @queries)), '', "$name: answers are PostgreSQL's own");
}

# Make a fold wait at a step; return the session that it waits for, and the fold's session
sub fold_until
{
	my ($step, $command) = @_;
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	my $said = '';

	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	my $folder = IPC::Run::start([ 'psql', '-XAt', '-d',
			$node->connstr('postgres') . ' application_name=folder',
			'-c', "SET gpujoin.debug_step = '$step wait'",
			'-c', $command // "SELECT gpujoin_fold('big_k', true)" ],
		'>', \$said, '2>&1');
	ok(wait_for_query($node, 'folder', "wait_event_type = 'Lock'"), "$step: the fold waits");
	return ($holder, $folder, \$said);
}

# Crash at each step in turn; the next fold finds what the last crash left.  NULL keys are folded
# last: if no others have been inserted, the steps are those of their part.
foreach my $case (qw(rotated closing begun sorted writing written forgotten published dropped),
	map { "$_ of NULL keys" } qw(rotated closing written published dropped))
{
	my ($step, $of_nulls) = split / of /, $case;

	$key = $of_nulls ? 'NULL::int' : 'i % 1000';
	# the dropped run is one without any live entry
	$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k', true);
		UPDATE big SET v = v + 1" . ($of_nulls ? ' WHERE k IS NULL' : '')) if $step eq 'dropped';
	insert();

	my ($holder, $folder) =
	  fold_until($step, $step eq 'dropped' ? 'VACUUM (INDEX_CLEANUP ON) big' : undef);

	insert();
	is_right($node, "$case: while the fold waits");
	# this commit flushes the fold's WAL, so that recovery replays it
	$node->stop('immediate');
	$folder->finish;
	eval { $holder->quit };
	$node->start;
	is_right($node, "$case: after the crash");
	# the next step is reached only after an unfinished fold
	next if $step eq 'dropped';
	$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k')") if $step ne 'written';
	is_right($node, "$case: after the next fold");
}
$key = 'nullif(i % 1000, i % 10)';
$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k', true)");
is_right($node, 'all folded');

# VACUUM has found the pages that the crashes left, and they are reused
my $pages = q{SELECT pages FROM gpujoin_index_info('big_k')};
$node->safe_psql('postgres', 'DELETE FROM big WHERE id % 10 = 0; VACUUM (INDEX_CLEANUP ON) big');
my $before = $node->safe_psql('postgres', $pages);
insert();
$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k', true)");
is($node->safe_psql('postgres', $pages), $before, 'what the crashes left is used again');

# Cancelled
{
	my ($holder, $folder, $said) = fold_until('writing',
		'INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 3000) i; '
		  . "SELECT gpujoin_fold('big_k', true)");

	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'folder'});
	$folder->finish;
	like($$said, qr/canceling statement due to user request/, 'a fold is cancelled');
	$holder->quit;
	is_right($node, 'cancelled');
}

# Disk full: first for the sort's temporary files, then for the index itself
{
	insert();
	my ($status, $out, $err) = $node->psql('postgres', q{SET temp_file_limit = 8;
		SET maintenance_work_mem = '1MB'; INSERT INTO big
		SELECT i, i % 1000, i FROM generate_series(1, 90000) i;
		SELECT gpujoin_fold('big_k', true)});

	like($err, qr/temporary file size exceeds/, 'a fold finds no room for temporary files');
	is_right($node, 'no room for temporary files');
}

SKIP:
{
	my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my $limit = sub { system('prlimit', '--pid', $pid, "--fsize=$_[0]:") == 0 };

	skip 'there is no prlimit', 5 if !$limit->(3_000_000);
	# 1.1 MB of rows, 2 MB of delta, 2 MB for the new run; WAL segments are 1 MB
	my ($status, $out, $err) = $node->psql('postgres', q{
		CREATE TABLE wide (k int);
		CREATE INDEX wide_k ON wide USING gpujoin (k)
			INCLUDE (k, k, k, k, k, k, k, k, k, k, k, k, k);
		INSERT INTO wide SELECT i * 7919 % 30000 FROM generate_series(1, 30000) i;
		SELECT gpujoin_fold('wide_k')});
	like($err, qr/could not extend file/, 'a fold finds no room for its pages');
	my $checked = q{SELECT gpujoin_check('wide_k', true), count(*) FROM wide WHERE k < 29999};
	is($node->safe_psql('postgres', $checked), '30000|29999', 'no room: all rows are there');
	isnt($node->psql('postgres', q{SELECT gpujoin_fold('wide_k')}), 0, 'nor is there any later');
	ok($limit->('unlimited'), 'now there is room');
	is($node->safe_psql('postgres', "SELECT gpujoin_fold('wide_k') > 100; $checked"),
		"t\n30000|29999", 'folded when there was');
	$node->safe_psql('postgres', 'DROP TABLE wide');
}

# A standby
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	"max_standby_streaming_delay = -1\nhot_standby_feedback = on");
$standby->start;

my $file = $node->basedir . '/load.pgbench';
append_to_file($file, q{
	\set first random(1, 1000000)
	INSERT INTO big SELECT i, nullif(i % 1000, i % 500), i
		FROM generate_series(:first, :first + 2000) i;
	UPDATE big SET k = nullif(999 - coalesce(k, 499), 499)
		WHERE id BETWEEN :first AND :first + 1500;
	DELETE FROM big WHERE id BETWEEN :first AND :first + 700;
	VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON) big;
	SELECT gpujoin_fold('big_k', random() < 0.3);
});
my ($out, $err, $runs, @different) = ('', '', 0);
my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', '5', '-f', $file,
		$primary->connstr('postgres') ], '>', \$out, '2>', \$err);

while ($pgbench->pumpable && $runs < 300 && !@different)
{
	push @different, differing($standby, @queries), differing($primary, @queries);
	$runs++;
	$pgbench->pump_nb;
}
ok($pgbench->finish, 'folds and changes went on') or diag($err);
is(join("\n", @different), '', "$runs times: answers of both servers are PostgreSQL's own");
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is_right($standby, 'standby');
my ($refused, undef, $why) = $standby->psql('postgres', "SELECT gpujoin_fold('big_k')");
like($why, qr/recovery is in progress/, 'a standby does not fold');

# Promote while the primary folds
insert();
my ($holder, $folder) = fold_until('written');
insert();
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$primary->stop('immediate');
$folder->finish;
eval { $holder->quit };
$standby->promote;
$node = $standby;
is_right($node, 'promoted');
insert();
$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k')");
is_right($node, 'promoted, folded');
$node->safe_psql('postgres', "DELETE FROM big WHERE id % 3 = 0; VACUUM big");
is_right($node, 'promoted, vacuumed');

# Autovacuum's ANALYZE folds; a user's ANALYZE does not
$node->safe_psql('postgres', q{
	CREATE TABLE grows (k int) WITH (autovacuum_vacuum_insert_threshold = -1,
		autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0);
	CREATE INDEX grows_k ON grows USING gpujoin (k);
	INSERT INTO grows SELECT i FROM generate_series(1, 60000) i;
	ANALYZE grows;
	INSERT INTO grows SELECT i FROM generate_series(1, 10) i;});
my $delta = q{SELECT delta_pages FROM gpujoin_index_info('grows_k')};
cmp_ok($node->safe_psql('postgres', $delta), '>', 64, 'ANALYZE does not fold');
$node->safe_psql('postgres', $_)
  foreach "ALTER SYSTEM SET autovacuum = on", "ALTER SYSTEM SET autovacuum_naptime = '1s'",
  'SELECT pg_reload_conf()';
ok($node->poll_query_until('postgres', "SELECT ($delta) = 0"), "autovacuum's ANALYZE folds");
is($node->safe_psql('postgres', "SELECT gpujoin_check('grows_k', true)"), '60010',
	'all is there');

log_is_clean($node, 'nothing in the log of the promoted server');
done_testing();
