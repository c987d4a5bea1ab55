# Mirrors and folds: the mirror contains what a fold has published, whatever its pages' numbers are,
# and omits what the fold has freed; finding the difference copies no more pages than have changed.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use MirrorTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'gpujoin'
gpujoin.device = reference
gpujoin.device_setup_cost = 0
gpujoin.device_memory = 256MB
gpujoin.auto_load = off
gpujoin.force = on
gpujoin.sync_blocks = 0
autovacuum = off
fsync = off
});
$node->start;
ask($node);
sql(q{
	CREATE EXTENSION gpujoin;
	CREATE EXTENSION gpujoin_test;
	CREATE TABLE t (id serial, k int);
	INSERT INTO t (k) SELECT i % 1000 FROM generate_series(1, 100000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id) WITH (lanes = 2);
});
wait_for(q{SELECT state = 'ready' FROM pg_stat_gpujoin}, 'there is a device');
sql(q{SELECT gpujoin_load('t_k')});

my ($insert, $answer) = (
	'INSERT INTO t (k) SELECT i % 1000 FROM generate_series(1, 10000) i',
	'SELECT count(k), sum(id), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT 3 * i FROM
		generate_series(1, 250) i))');
my $pushed = 0;

# Check that after synchronization the mirror has all entries and no others, and that answers equal
# PostgreSQL's own. Return the number of pages copied.
sub check
{
	my $what = shift;
	my $before = $pushed;

	is(sql($answer), sql("SET gpujoin.enabled = off; $answer"), "$what: the answer");
	is(sql(q{SELECT missing, stale, reason FROM gpujoin_mirror_check('t_k')}), '0|0|',
		"$what: the mirror");
	is(sql(q{SELECT gpujoin_check('t_k', true) = count(*) FROM t}), 't', "$what: the index");
	$pushed = sql(q{SELECT pages_pushed FROM gpujoin_mirrors() WHERE index = 't_k'::regclass});
	return $pushed - $before;
}

# Return the number of pages that the last synchronization has read
sub visited
{
	return sql(q{SELECT pages_done FROM gpujoin_mirrors() WHERE index = 't_k'::regclass});
}

# Start a session that continues with other work after SQL that may wait
sub begin
{
	my $sql = shift;
	my %session = (in => "$sql;\n", out => '', err => '');

	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1',
			'-d', $node->connstr('postgres') ],
		'<', \$session{in}, '>', \$session{out}, '2>', \$session{err});
	$session{run}->pump_nb;
	return \%session;
}

sub end
{
	my ($session, $what) = @_;

	$session->{in} .= "\\q\n";
	$session->{run}->finish;
	is($session->{err}, '', "$what: no error");
	return;
}

# Make a fold wait at a point, do something meanwhile, let it continue
sub during_fold
{
	my ($point, $what, @sql) = @_;
	my $lock = begin('SELECT pg_advisory_lock(1313)');
	my $fold;

	wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted},
		"$what: the lock is held");
	$fold = begin("SET gpujoin.debug_step = '$point wait'; SELECT gpujoin_fold('t_k')");
	wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted},
		"$what: the fold waits when $point");
	sql($_) foreach @sql;
	end($lock, "$what: lock");
	end($fold, "$what: fold");
	return;
}

check('loaded');
sql($insert);
cmp_ok(check('inserted'), '<', 60, 'which took few pages');

my $all = sql(q{SELECT pages FROM gpujoin_index_info('t_k')});
sql(q{SELECT gpujoin_fold('t_k')});
cmp_ok(check('folded'), '<', 60, "which took few pages of $all");
cmp_ok(visited(), '<', 60, 'and read few');
sql($insert);
cmp_ok(check('pages used again'), '<', 60, 'which took few pages');

# Several folds and merges between two synchronizations, with deletions and pages used again
foreach my $round ($ENV{CHECK_LONG} ? 1 .. 8 : (1, 2, 9))
{
	foreach (1 .. $round)
	{
		sql($insert);
		sql(q{SELECT gpujoin_fold('t_k')});
	}
	sql("DELETE FROM t WHERE id % 11 = $round");
	sql('VACUUM (INDEX_CLEANUP ON) t');
	sql($insert);
	check("round $round of folds");
	cmp_ok(visited(), '<', $all, 'not all pages are read') if $round < 3;
}

# A synchronization that fails: the next one reads all pages, the one after it few again
sql($insert);
sql(q{SELECT gpujoin_fold('t_k')});
{
	my ($out, $err);

	sql(q{SELECT gpujoin_inject_fault('write', 'delay', 0, 1, 3000)});
	$node->psql('postgres', "SET statement_timeout = '300ms'; $answer", stdout => \$out,
		stderr => \$err);
	like($err, qr/statement timeout/, 'a synchronization is cancelled');
	check('after that');
	cmp_ok(visited(), '>', $all, 'all pages are read');
	sql($insert);
	sql(q{SELECT gpujoin_fold('t_k')});
	check('folded once more');
	cmp_ok(visited(), '<', 100, 'few pages are read again');
	sql($insert);
}

# The mirror is synchronized up to a number above that of the run's pages before the run is
# published
during_fold('written', 'synchronised before the run is published', $insert, $answer);
check('published');
during_fold('writing', 'synchronised while the run is written', $insert, $answer, $insert);
check('written');
during_fold('published', 'synchronised before the freed pages are known', $insert, $answer);
check('freed');

# While the device works, a fold frees the pages that the CPU is about to search, and other rows
# reuse them: the answer is discarded
sql($insert);
my $wanted = sql("SET gpujoin.enabled = off; $answer");
sql(q{SELECT gpujoin_inject_fault('begin', 'delay', 0, 1, 4000)});
my $query = begin("SET gpujoin.sync_blocks = 1000000; $answer");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'active'
	AND wait_event_type = 'Extension' AND query LIKE '%3 * i%' AND pid <> pg_backend_pid()},
	'a query waits for the device');
sql(q{SELECT gpujoin_fold('t_k')});
sql($insert) foreach 1 .. 2;
end($query, 'a query beside a fold');
is($query->{out}, "$wanted\n", 'which has all rows, and those of its snapshot alone');
is(sql(q{SELECT sum(count) > 0 FROM gpujoin_fallbacks() WHERE reason = 'behind'}), 't',
	'and from the CPU');
check('folded beside a query');

# An unfinished fold, and the fold that frees its pages
$node->psql('postgres', "SET gpujoin.debug_step = 'written error'; SELECT gpujoin_fold('t_k')");
check('given up');
sql($insert);
check('more after that');
sql(q{SELECT gpujoin_fold('t_k')});
check('folded at last');

# Everything in one run, in reused pages
sql('DELETE FROM t WHERE id % 3 = 0');
sql('VACUUM (INDEX_CLEANUP ON) t');
check('deleted');
sql(q{SELECT gpujoin_fold('t_k', true)});
check('folded all');
sql($insert);
sql('UPDATE t SET k = 999 - k WHERE id % 5 = 0');
sql('VACUUM (INDEX_CLEANUP ON) t');
sql(q{SELECT gpujoin_fold('t_k', true)});
sql($insert);
check('folded all again');

# NULL keys take pages that a fold has freed, and free them again, in a delta that is as old as the
# mirror; then more ranges of pages change than the journal has. So the copies of these pages have
# entries of a former run, and of two folds the mirror knows nothing but the numbers on pages.
sql(q{
	DROP TABLE t;
	CREATE TABLE t (id serial, k int, a bigint, b bigint);
	CREATE FUNCTION fill(n int, keys int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO t (k, a, b) SELECT mod(i, keys), hashint8extended(i, 1), hashint8extended(i, 2)
		FROM generate_series(1, n) i $$;
	SELECT fill(100000, 1000);
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id, a, b) WITH (lanes = 2)});
sql(q{SELECT gpujoin_load('t_k')});
sql(q{SELECT fill(10000, 1000)});
sql(q{SELECT gpujoin_fold('t_k', true)});
my $free = q{SELECT free_pages FROM gpujoin_index_info('t_k')};
my $freed = sql($free);
sql(q{SELECT fill(60000, NULL)});
cmp_ok(sql($free), '<', $freed - 100, 'NULL keys take many of the pages that are free');
sql(q{SELECT gpujoin_fold('t_k')});
# a VACUUM deletes from about each second page of the run
foreach my $rest (2, 5)
{
	sql("DELETE FROM t WHERE k % 6 = $rest AND id / 1000 % 5 = 0");
	sql('VACUUM (INDEX_CLEANUP ON) t');
}
check('NULL keys on pages used again');
is(visited(), sql(q{SELECT pages FROM gpujoin_mirrors() WHERE index = 't_k'::regclass}),
	'the journal had lost changes');
is(sql(q{SELECT device_answers >= 16 FROM pg_stat_gpujoin}), 't',
	'it was the device that answered');

$node->stop;
done_testing();
