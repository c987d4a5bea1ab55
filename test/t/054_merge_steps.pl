# Merges that do not finish: the server crashes at each step of a merge, and while VACUUM
# deletes from the pages of one; the process is cancelled or terminated; a standby is promoted in
# the middle. Nothing is lost or comes twice, the next merge starts over, and VACUUM finds the pages
# that were left. Of two processes that merge the same index, the second one waits for the first,
# and folds find room in the list of runs while a merge waits.

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
	'SELECT id FROM big WHERE w = ANY (ARRAY(SELECT generate_series(0, 999, 7)))');
my $next = 100_000;
my $rest = 0;

my $node = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	'restart_after_crash = on', "wal_consistency_checking = 'all'", 'max_wal_size = 256MB',
	'wal_keep_size = 2GB', 'gpujoin.auto_load = off');
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_freespacemap;
	CREATE TABLE big (id int, k int, v int, w int);
	INSERT INTO big SELECT i, i % 1000, i, i % 1000 FROM generate_series(1, 6000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
	CREATE INDEX big_w ON big USING gpujoin (w) WITH (lanes = 1);
});

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub is_right
{
	my ($server, $name) = @_;

	is($server->safe_psql('postgres', "SELECT gpujoin_check('big_k', true) >= count(*),
			gpujoin_check('big_w', true) >= count(*) FROM big"),
		't|t', "$name: all rows are there");
	is(join("\n", differing($server, @queries)), '', "$name: answers are PostgreSQL's own");
}

# Return SQL that makes another run of both indexes
sub add_run
{
	$next += 10_000;
	return "INSERT INTO big SELECT i, i % 1000, i, i % 1000
		FROM generate_series($next, $next + 2500) i;
		SELECT gpujoin_fold('big_k'), gpujoin_fold('big_w');";
}

sub deletion
{
	$rest = ($rest + 1) % 100;
	return "DELETE FROM big WHERE id % 100 = $rest; VACUUM (INDEX_CLEANUP ON) big;";
}

my $merge = "SELECT gpujoin_fold('big_k', true), gpujoin_fold('big_w', true);";

# Run a command that crashes at a step; return when the server has recovered
sub crash_at
{
	my ($step, $command) = @_;
	my $offset = -s $node->logfile;
	my ($status, $out, $err) = $node->psql('postgres', "SET gpujoin.debug_step = '$step crash';
		$command");

	like($err, qr/server closed the connection|terminating connection/, "$step: a crash") or return;
	log_comes_to($node, qr/database system is ready to accept connections/, "$step: recovered",
		$offset);
}

# Start a merge that waits at a step; return the session that it waits for, the merge's session, and
# what that says
sub merge_until
{
	my ($step, $command) = @_;
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	my $said = '';

	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	my $merger = IPC::Run::start([ 'psql', '-XAt', '-d',
			$node->connstr('postgres') . ' application_name=merger',
			'-c', "SET gpujoin.debug_step = '$step wait'", '-c', $command // $merge ],
		'>', \$said, '2>&1');
	ok(wait_for_query($node, 'merger', "wait_event_type = 'Lock'"), "$step: the merge waits");
	return ($holder, $merger, \$said);
}

sub merging
{
	return $node->safe_psql('postgres', "SELECT merge_pages > 0 FROM gpujoin_index_info('big_k')");
}

# Return the number of free pages missing from the free space map
sub not_found
{
	return $node->safe_psql('postgres', q{SELECT sum((gpujoin_index_info(i)).free_pages
		- (SELECT count(*) FROM pg_freespace(i) WHERE avail > 0))
		FROM unnest(ARRAY['big_k', 'big_w']::regclass[]) i});
}

sub is_merged
{
	my ($name) = @_;

	is($node->safe_psql('postgres', "$merge
		SELECT max(runs), max(merge_pages) FROM unnest(ARRAY['big_k', 'big_w']::regclass[]) i,
			gpujoin_index_info(i)") =~ s/.*\n//r, '1|0', "$name: merged");
	is_right($node, "$name: merged");
}

# Crash at each step
foreach my $step ('merge begun', 'merge step', 'merging', 'merge written', 'merge paused',
	'two steps', 'merge complete', 'merge published', 'merge freeing', 'merge forgotten')
{
	$node->safe_psql('postgres', add_run() . deletion());
	# something to forget
	crash_at('two steps', $merge) if $step eq 'merge forgotten';
	crash_at($step, $merge);
	is_right($node, $step);
	is(merging(), $step eq 'two steps' ? 't' : 'f', "$step: is a merge unfinished?")
	  if $step eq 'two steps' || $step eq 'merge published';
	$node->safe_psql('postgres', add_run() . deletion()) if $step eq 'merge paused';
	is_merged($step);
	$node->safe_psql('postgres', deletion());
	cmp_ok(not_found(), '<=', 0, "$step: all free pages are found");
}

# VACUUM deletes from the pages of a merge that waits, and crashes, or does not
foreach my $ends ('crash', 'go on')
{
	$node->safe_psql('postgres', add_run() . 'DELETE FROM big WHERE id % 5 = 0');
	my ($holder, $merger) = merge_until('two steps');

	is(merging(), 't', "$ends: a merge is under way");
	if ($ends eq 'crash')
	{
		crash_at('merge deleted', 'VACUUM (INDEX_CLEANUP ON) big');
		eval { $holder->quit };
	}
	else
	{
		$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) big; ' . add_run());
		is_right($node, 'VACUUM during a merge');
		$holder->query_safe('SELECT pg_advisory_unlock(1313)');
		$holder->quit;
	}
	$merger->finish;
	is_right($node, "$ends, VACUUM during a merge");
	is_merged("$ends, VACUUM during a merge");
	$node->safe_psql('postgres', deletion());
	cmp_ok(not_found(), '<=', 0, "$ends, VACUUM during a merge: all free pages are found");
}

# Cancelled, terminated
foreach my $end ('cancel', 'terminate')
{
	$node->safe_psql('postgres', add_run());
	my ($holder, $merger, $said) = merge_until('two steps');

	$node->safe_psql('postgres', "SELECT pg_${end}_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'merger'");
	$merger->finish;
	like($$said, qr/canceling statement|terminating connection/, "$end: the merge has ended");
	$holder->quit;
	is(merging(), 't', "$end: its pages are left");
	is_right($node, $end);
	is_merged($end);
	$node->safe_psql('postgres', deletion());
	cmp_ok(not_found(), '<=', 0, "$end: all free pages are found");
}

# Two processes: the second one waits, and finds nothing left to do, or only what is new
{
	$node->safe_psql('postgres', add_run());
	my ($holder, $merger) = merge_until('two steps', "SELECT gpujoin_fold('big_k', true)");
	my $said = '';
	my $second = IPC::Run::start([ 'psql', '-XAt', '-d',
			$node->connstr('postgres') . ' application_name=second',
			'-c', "SELECT gpujoin_fold('big_k', true)" ], '>', \$said, '2>&1');

	ok(wait_for_query($node, 'second', "wait_event_type IN ('Extension', 'Lock')"),
		'the second merge waits');
	# the list has room for folds, however many
	foreach (1 .. 20)
	{
		$node->safe_psql('postgres', "INSERT INTO big SELECT $_, $_, $_, $_
			FROM generate_series(1, 900); SELECT gpujoin_fold('big_k')");
	}
	is(merging(), 't', 'the first merge is under way');
	is_right($node, 'folds during a merge');
	$holder->query_safe('SELECT pg_advisory_unlock(1313)');
	$holder->quit;
	ok($merger->finish, 'the first merge ends');
	ok($second->finish, 'the second merge ends');
	is_right($node, 'two merges');
	is_merged('two merges');
}

$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is_right($standby, 'standby');
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC/,
	'each replayed page is the primary\'s');

# Promotion in the middle of a merge
{
	$node->safe_psql('postgres', add_run());
	my ($holder, $merger) = merge_until('two steps');

	$node->safe_psql('postgres', deletion());
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	is_right($standby, 'standby during a merge');
	$node->stop('immediate');
	$merger->finish;
	eval { $holder->quit };
	$standby->promote;
	$node = $standby;
	is(merging(), 't', 'promoted: the merge is unfinished');
	is_right($node, 'promoted');
	$node->safe_psql('postgres', add_run() . deletion());
	is_merged('promoted');
	$node->safe_psql('postgres', deletion());
	cmp_ok(not_found(), '<=', 0, 'promoted: all free pages are found');
}
log_is_clean($node, 'log of the promoted server is clean');
done_testing();
