# From PostgreSQL 19 on, queries mark pages in the visibility map, ours too, and not only VACUUM. An
# index-only answer must not take the entry of a row that was rolled back, removed and forgotten
# while the query was running for a row, whoever has marked the row's page since; the same on a
# standby. Then writers, VACUUM and queries that mark pages run side by side, with a crash, and all
# answers are compared with stock ones.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', { allows_streaming => 1 }, 'fsync = off');

if ($primary->safe_psql('postgres', 'SHOW server_version_num') < 190000)
{
	plan skip_all => 'before PostgreSQL 19 only VACUUM marks pages';
}

$primary->safe_psql('postgres', q{
	CREATE EXTENSION pg_visibility;
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 20, i FROM generate_series(1, 40000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id, v) WITH (lanes = 1);
	CREATE TABLE pulse (n int)});
vacuum_until_visible($primary, 'big');
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	"max_standby_streaming_delay = -1\nwal_receiver_status_interval = 1");
$standby->start;

sub catch_up
{
	$primary->safe_psql('postgres', 'INSERT INTO pulse VALUES (1)');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
}

sub session
{
	my $node = shift;
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query("SET gpujoin.force = on");
	$session->query($_) foreach @_;
	return $session;
}

# Number of pages that are not marked
sub unmarked
{
	return $primary->safe_psql('postgres', q{SELECT pg_relation_size('big') / 8192 - all_visible
		FROM pg_visibility_map_summary('big')});
}

# ---- our own scans mark pages ---------------------------------------------------------------

# VACUUM has marked all pages; those of new rows are not marked.
my $more = 40000;
sub add_rows
{
	$primary->safe_psql('postgres', "INSERT INTO big
		SELECT $more + i, i % 20, i FROM generate_series(1, 5000) i");
	$more += 5000;
	return unmarked();
}

my $before = add_rows();
cmp_ok($before, '>', 10, 'pages of new rows are not marked');
$primary->safe_psql('postgres', q{SET gpujoin.force = on;
	SELECT sum(b.v), count(b.ctid) FROM big b WHERE k IN (1, 2, 3)});
cmp_ok(unmarked(), '<', $before / 2, 'a query that only reads marks those that it prunes');
$before = add_rows();
$primary->safe_psql('postgres', q{SET gpujoin.force = on;
	UPDATE big SET v = v + 1 WHERE k IN (1, 2, 3) AND ctid::text = ''});
is(unmarked(), $before, 'one that may write marks nothing');

# ---- a row that is rolled back, removed and forgotten during a query ----------------------------

# Insert rows until the last page has so many; it has room for 185. If it has more already, the next
# one becomes the last.
sub fill_last_page
{
	my ($wanted) = @_;
	my $rows = $primary->safe_psql('postgres', q{SELECT count(*) FROM big
		WHERE ctid >= format('(%s,0)', pg_relation_size('big') / 8192 - 1)::tid});
	my $missing = ($rows > $wanted ? 185 + $wanted : $wanted) - $rows;

	$primary->safe_psql('postgres',
		"INSERT INTO big SELECT 80000 + i, 0, 0 FROM generate_series(1, $missing) i");
	return;
}

# While VACUUM waits, before it removes the entry of the row in question, another row is inserted on
# that page. So VACUUM does not mark the page, but a query does, once VACUUM has ended: queries
# prune only pages that are nearly full. Returns the rows of a query that has begun while VACUUM
# waited: it reads the map for the first thousand entries, and again for the others, since so few of
# all pass its filter that it makes no copy of the map. The entry must have left its tail, which
# VACUUM has cleaned before it waits, and of which there is one.
my $id = 90000;
sub last_rows
{
	my ($node) = @_;
	my $said = '';

	fill_last_page(80);
	vacuum_until_visible($primary, 'big');
	$primary->safe_psql('postgres', 'BEGIN; INSERT INTO big VALUES (99999, 1, -1); ROLLBACK');
	fill_last_page(178);
	$primary->safe_psql('postgres', q{SELECT gpujoin_fold('big_k', true)});
	my $holder = session($primary, 'SELECT pg_advisory_lock(1313)');
	my $vacuum = IPC::Run::start([ 'psql', '-XAt', '-d',
			$primary->connstr('postgres') . ' application_name=vacuum',
			'-c', "SET gpujoin.debug_step = 'tails cleaned wait'",
			'-c', 'VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) big' ],
		'>', \$said, '2>&1');
	ok(wait_for_query($primary, 'vacuum', "wait_event_type = 'Lock'"), 'VACUUM waits');
	$id++;
	$primary->safe_psql('postgres', "INSERT INTO big VALUES ($id, 0, 0)");
	catch_up();
	my $reader = session($node, 'BEGIN ISOLATION LEVEL REPEATABLE READ',
		'DECLARE c CURSOR FOR SELECT id FROM big WHERE k IN (1, 50) AND (id < 4000 OR id > 90000)',
		'FETCH 1 FROM c');
	$holder->quit;
	$vacuum->finish;
	is(unmarked(), 1, 'VACUUM has left the page unmarked');
	$primary->safe_psql('postgres', 'SELECT count(*) FROM big');
	is(unmarked(), 0, 'a query marks it');
	catch_up();
	my @ids = split /\n/, $reader->query('FETCH ALL FROM c');
	$reader->query('COMMIT');
	$reader->quit;
	return (scalar(grep { $_ == 99999 } @ids), scalar @ids);
}

foreach my $node ($primary, $standby)
{
	my $name = $node->name;
	my ($ghosts, $n) = last_rows($node);

	is($ghosts, 0, "$name: a row that was rolled back is not answered");
	cmp_ok($n, '>', 100, "$name: all others are");
}

# ---- all at once, and a crash -------------------------------------------------------------------

my @queries = (
	'SELECT id, v FROM big WHERE k IN (1, 3, 42)',
	'SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 25, 3)))',
	'SELECT s, b.id, b.v FROM generate_series(0, 19, 7) s JOIN big b ON b.k = s WHERE b.v > 100');
my $folder = PostgreSQL::Test::Utils::tempdir();
append_to_file("$folder/write.sql", q{\set i random(1, 40000)
\set n random(1, 5)
BEGIN;
INSERT INTO big VALUES (:i + 100000, :i % 20, -:i);
UPDATE big SET v = v + 1 WHERE id BETWEEN :i AND :i + 3;
DELETE FROM big WHERE id = :i + 100000 - 7;
SELECT :n = 1 AS undo \gset
\if :undo
ROLLBACK;
\else
COMMIT;
\endif
});
append_to_file("$folder/mark.sql", q{SELECT count(*) FROM big;
SET gpujoin.force = on;
SELECT sum(v), count(ctid) FROM big WHERE k IN (1, 2, 3, 4, 5, 6);
RESET gpujoin.force;
});
append_to_file("$folder/vacuum.sql", "VACUUM (INDEX_CLEANUP ON) big;\n");

foreach my $round (1 .. 2)
{
	my $seconds = $round == 1 ? 3 : 30;
	my @runs = map {
		my ($script, $clients) = @$_;
		IPC::Run::start(
			[ 'pgbench', '-n', '-T', $seconds, '-c', $clients, '-f', "$folder/$script.sql", '-d',
				$primary->connstr('postgres') ],
			'>', \my $out, '2>', \my $err, patience(180))
	} [ 'write', 2 ], [ 'mark', 2 ], [ 'vacuum', 1 ];
	my @different = map { differing($_, @queries), differing($_, @queries) } $primary, $standby;

	is_deeply(\@different, [], "answers are right meanwhile, round $round");
	if ($round == 2)
	{
		$primary->stop('immediate');
		$_->finish foreach @runs;
		$primary->start;
	}
	else
	{
		ok($_->finish, 'a load has ended') foreach @runs;
	}
	$primary->poll_query_until('postgres', 'SELECT 1', '1');
	catch_up();
	foreach my $node ($primary, $standby)
	{
		my $name = $node->name;

		is_deeply([ differing($node, @queries) ], [], "$name: answers are right, round $round");
		is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_check_visible('big')}), 0,
			"$name: the map is right");
	}
	is($primary->safe_psql('postgres', q{SELECT gpujoin_check('big_k', true) >= count(*) FROM big}),
		't', 'the index is sound');
}

log_is_clean($_, $_->name . ': the log is clean') foreach $primary, $standby;
done_testing();
