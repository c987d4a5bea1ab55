# The server dies at each step of a build, an insertion, a deletion and a fold, and at each step of
# reusing pages, just after the step's WAL has been flushed; at some of them once more, when nothing
# but NULL keys changes. After each recovery no row lacks its entry, answers equal PostgreSQL's own,
# and the operation can be repeated. A standby follows and has the primary's pages after every
# record. VACUUM finds the pages that the crashes leave in the files.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT b.id FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT id, v FROM big WHERE k IS NULL OR k = 5');
my $next = 100_000;
my $rest = 0;

# The key of inserted rows, and a condition on those that are deleted
my ($key, $which) = ('i % 1000', 'true');

my $node = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	'restart_after_crash = on', "wal_consistency_checking = 'all'", 'max_wal_size = 256MB',
	'wal_keep_size = 2GB', 'gpujoin.auto_load = off');
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_freespacemap;
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 3000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
	CREATE UNLOGGED TABLE loose (k int);
});

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub is_right
{
	my ($server, $name) = @_;

	is($server->safe_psql('postgres',
			"SELECT gpujoin_check('big_k', true) >= count(*) FROM big"),
		't', "$name: all rows are there");
	is(join("\n", differing($server, @queries)), '', "$name: answers are PostgreSQL's own");
}

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

# Return SQL that inserts rows for several tail pages, and for a data page with its list
sub insertion
{
	$next += 1_000;
	return "INSERT INTO big SELECT i, $key, i FROM generate_series($next, $next + 300) i;";
}

# Return SQL that deletes some rows each time, on tail pages, too
sub deletion
{
	$rest = ($rest + 1) % 100;
	return "INSERT INTO big SELECT 0, $key, 1 FROM generate_series(1, 1) i;
		DELETE FROM big WHERE id % 100 IN (0, $rest) AND $which; VACUUM (INDEX_CLEANUP ON) big;";
}

# Split the name of a case; "of NULL keys" is about such rows, whose part of the index has steps
# of its own
sub turn_to
{
	my ($step, $of_nulls) = split / of /, shift;

	($key, $which) = $of_nulls ? ('NULL::int', 'k IS NULL') : ('i % 1000', 'true');
	return $step;
}

# Return the number of free pages missing from the free space map.  (The map may also list pages
# that are not free.)
sub not_found
{
	return $node->safe_psql('postgres', q{SELECT (gpujoin_index_info('big_k')).free_pages
		- (SELECT count(*) FROM pg_freespace('big_k') WHERE avail > 0)});
}

# Builds: an uncommitted build leaves no index, and the next build succeeds
foreach my $step ('created', 'loaded', 'filled', 'noted', 'logged')
{
	crash_at($step, 'CREATE INDEX CONCURRENTLY big_v ON big USING gpujoin (v);');
	is($node->safe_psql('postgres', "SELECT indisvalid FROM pg_index
		WHERE indexrelid = to_regclass('big_v')"), 'f', "$step: the index is not valid");
	$node->safe_psql('postgres', $step eq 'logged' ?
		  'REINDEX INDEX CONCURRENTLY big_v' : 'DROP INDEX big_v');
}
is($node->safe_psql('postgres', "SELECT gpujoin_check('big_v', true) = count(*) FROM big"), 't',
	'then an index is built');
crash_at('logged', 'REINDEX TABLE big');
is_right($node, 'REINDEX');
is($node->safe_psql('postgres', "SELECT gpujoin_check('big_v', true) = count(*) FROM big"), 't',
	'REINDEX: so is the other index');
crash_at('logged', 'TRUNCATE big; INSERT INTO big VALUES (1, 1, 1)');
is_right($node, 'TRUNCATE');
crash_at('emptied', 'CREATE INDEX loose_k ON loose USING gpujoin (k)');
is($node->safe_psql('postgres', q{CREATE INDEX loose_k ON loose USING gpujoin (k);
	INSERT INTO loose SELECT generate_series(1, 1000); SELECT gpujoin_check('loose_k', true)}),
	'1000', 'an unlogged index');
$node->safe_psql('postgres', 'DROP INDEX big_v');

# Insertions: the first page of a delta, then its list, then the next page
foreach my $case ('appended', 'flushed', 'extended', 'listed', 'switched', 'arrays opened',
	map { "$_ of NULL keys" } ('appended', 'flushed', 'listed', 'switched'))
{
	my $step = turn_to($case);

	$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k', true)")
	  if $step =~ /^(listed|switched|arrays opened)$/;
	# rows that a crash rolls back have entries; then these pages are free but not in the free space
	# map
	crash_at($step, insertion() x 3);
	is($node->safe_psql('postgres', "SELECT gpujoin_check('loose_k', true)"), '0',
		"$case: the unlogged index is empty");
	is_right($node, $case);
	$node->safe_psql('postgres', insertion());
	is_right($node, "$case: afterwards");
}

# VACUUM's passes
foreach my $case ('tail deleted', 'tails cleaned', 'judged', 'deleted', 'freed', 'cleaned',
	'raised', 'vacuumed', map { "$_ of NULL keys" } ('tail deleted', 'deleted', 'raised'))
{
	my $step = turn_to($case);

	# a fold leaves free pages of a delta
	$node->safe_psql('postgres', insertion() . "SELECT gpujoin_fold('big_k', true);"
		  . insertion());
	crash_at($step, deletion());
	is_right($node, $case);
	$node->safe_psql('postgres', deletion());
	is_right($node, "$case: afterwards");
	cmp_ok(not_found(), '<=', 0, "$case: all free pages are found");
}

# Reuse of pages, by an insertion and by a fold, and pages that a fold adds to the file
foreach my $case ('found', 'listed', 'switched', 'arrays opened', 'taken', 'logged pages',
	'added', map { "$_ of NULL keys" } ('found', 'switched', 'logged pages'))
{
	my $step = turn_to($case);

	$node->safe_psql('postgres', insertion() . 'UPDATE big SET v = v + 1 WHERE id % 9 = 0;'
		  . "SELECT gpujoin_fold('big_k', true);" . deletion());
	# otherwise the deletion's row may have created the delta's list already
	$node->safe_psql('postgres', "SELECT gpujoin_fold('big_k', true)")
	  if $step =~ /^(listed|switched|arrays opened)$/;
	# a file that has just been written has no free pages
	$node->safe_psql('postgres', 'REINDEX INDEX big_k') if $step eq 'added';
	crash_at($step, insertion() x 2 . "SELECT gpujoin_fold('big_k', true);");
	is_right($node, "$case, used again");
	$node->safe_psql('postgres', insertion() . "SELECT gpujoin_fold('big_k', true);"
		  . deletion());
	is_right($node, "$case, used again: afterwards");
	cmp_ok(not_found(), '<=', 0, "$case, used again: all free pages are found");
}

$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is_right($standby, 'standby');
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC/,
	'each replayed page is the primary\'s');

# Even without a free space map VACUUM finds each free page, so that after all these crashes the
# file is not much longer than its contents require.
my $file = $node->safe_psql('postgres', "SELECT pg_relation_filepath('big_k')");
$node->stop;
unlink $node->data_dir . "/${file}_fsm" or die "there was no free space map: $!";
$node->start;
$node->safe_psql('postgres', deletion());
is(not_found(), '0', 'all that is not in use is free');
is($node->safe_psql('postgres', q{SELECT pages < 2 * (pages - free_pages) + 50
	FROM gpujoin_index_info('big_k')}), 't', 'no crash has left pages for good');
$node->stop;

$standby->promote;
$node = $standby;
is_right($node, 'promoted');
$node->safe_psql('postgres', insertion() . "SELECT gpujoin_fold('big_k', true);" . deletion());
is_right($node, 'promoted: afterwards');
cmp_ok(not_found(), '<=', 0, 'promoted: all free pages are found');
log_is_clean($standby, 'log of the standby is clean');
done_testing();
