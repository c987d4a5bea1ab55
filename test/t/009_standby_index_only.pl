# Index-only answers on a standby: rows come from the index where replay has set the visibility map,
# and never include a row that the snapshot does not see. Each rule is also switched off to show
# what it prevents: a row that was rolled back, removed and forgotten while a query was running; the
# same after a VACUUM that skipped the index; a mirror that has entries of deleted rows. A query
# must also return every row that its snapshot sees, whatever has happened to the index since.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use ServiceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	"gpujoin.device = 'reference'");

$primary->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 20, i FROM generate_series(1, 40000) i;
	INSERT INTO big SELECT i, NULL, i FROM generate_series(40001, 43000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id, v);
	CREATE TABLE pulse (n int)});
vacuum();
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	"max_standby_streaming_delay = -1\nwal_receiver_status_interval = 1");
$standby->start;
wait_ready($standby);

# WAL of an uncommitted transaction is sent when another one commits.
sub catch_up
{
	$primary->safe_psql('postgres', 'INSERT INTO pulse VALUES (1)');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
}

sub vacuum { vacuum_until_visible($primary, 'big'); }

sub session
{
	my $node = shift;
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query("SET gpujoin.force = on; SET gpujoin.sync_blocks = 1000000");
	$session->query($_) foreach @_;
	return $session;
}

sub ours { return $standby->safe_psql('postgres', "SET gpujoin.force = on; $_[0]"); }

my @queries = (
	'SELECT id, v FROM big WHERE k IN (1, 3, 42)',
	'SELECT id, v FROM big WHERE k IS NULL OR k = 42',
	'SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 25, 3)))',
	'SELECT s, b.id, b.v FROM generate_series(0, 19, 7) s JOIN big b ON b.k = s WHERE b.v > 100');

# ---- answers without the heap ---------------------------------------------------------------

catch_up();
foreach my $query (@queries)
{
	like(ours("EXPLAIN (ANALYZE, COSTS off, TIMING off) $query"),
		qr/Index Only: true\n\s+Heap Fetches: 0\n/, "without the heap: $query");
}
is_deeply([ differing($standby, @queries) ], [], 'answers are right');

# ---- a row that is rolled back, removed and forgotten during a query ----------------------------

# Return the last rows of a query, which runs in a session of the standby while something happens.
# The row in question is the last one.
sub last_rows
{
	my ($step, $meanwhile, $key) = (@_, 1);
	my $wanted = $key eq 'NULL' ? 'k IS NULL' : "k IN ($key, 50)";
	my $writer = session($primary, 'BEGIN', "INSERT INTO big VALUES (99999, $key, -1)");

	catch_up();
	my $reader = session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ',
		"DECLARE c CURSOR FOR SELECT id FROM big WHERE $wanted", 'FETCH 1 FROM c');
	$writer->query('ROLLBACK');
	$meanwhile->($reader);
	vacuum();
	catch_up();
	$reader->query("SET gpujoin.debug_step = '$step'");
	$reader->query('MOVE 1500 FROM c');
	my @ids = split /\n/, $reader->query('FETCH ALL FROM c');
	$reader->query('COMMIT');
	$_->quit foreach $writer, $reader;
	return (scalar(grep { $_ == 99999 } @ids), scalar @ids);
}

sub nothing { }

my ($ghosts, $n);
foreach my $key (1, 'NULL')
{
	($ghosts, $n) = last_rows('', \&nothing, $key);
	is($ghosts, 0, "key $key: a row that was rolled back is not answered");
	cmp_ok($n, '>', 100, "key $key: all others are");
	is((last_rows('ignore epoch', \&nothing, $key))[0], 1, "key $key: without the rule it is");
}

# Leave the index in the state that an interrupted DROP INDEX CONCURRENTLY or REINDEX CONCURRENTLY
# leaves after its last wait: VACUUM frees slots without processing the index, and the index's
# vacuum epoch does not change. The primary has waited for its own queries, but it does not know the
# queries here. It must however keep the old row of pg_index, or the query is cancelled.
sub leave_index_out
{
	give_index_up(shift->query('SELECT pg_backend_pid()'));
}

sub give_index_up
{
	my $xmin = $standby->safe_psql('postgres',
		"SELECT backend_xmin FROM pg_stat_activity WHERE pid = $_[0]");

	ok($primary->poll_query_until('postgres',
			"SELECT backend_xmin::text = '$xmin' FROM pg_stat_replication"),
		'the primary keeps what the query may see');
	$primary->safe_psql('postgres', q{UPDATE pg_index
		SET indisvalid = false, indisready = false, indislive = false
		WHERE indexrelid = 'big_k'::regclass});
}

sub new_index
{
	$primary->safe_psql('postgres', q{
		UPDATE pg_index SET indislive = true WHERE indexrelid = 'big_k'::regclass});
	$primary->safe_psql('postgres', q{DROP INDEX big_k;
		CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id, v)});
}

sub feedback
{
	$standby->safe_psql('postgres', "ALTER SYSTEM SET hot_standby_feedback = $_[0]");
	$standby->reload;
	ok($primary->poll_query_until('postgres', "SELECT backend_xmin IS NOT NULL = ($_[0])
			FROM pg_stat_replication"), "feedback is $_[0]");
}

feedback('true');
($ghosts, $n) = last_rows('', \&leave_index_out);
is($ghosts, 0, 'nor with an index that VACUUM has left out');
cmp_ok($n, '>', 100, 'all others are answered there, too');
new_index();
is((last_rows('ignore epoch', \&leave_index_out))[0], 1, 'without the rule it is answered');
new_index();

# ---- indexes without rows that a snapshot sees --------------------------------------------------

# Between planning a query and taking its snapshot, an index is abandoned and a row is inserted that
# does not get into the index.
$primary->safe_psql('postgres', q{
	CREATE FUNCTION when_free(n int) RETURNS int STABLE LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_advisory_lock(1); RETURN n; END'});
catch_up();
my $blocker = session($standby, 'SELECT pg_advisory_lock(1)');
my ($out, $err) = ('', '');
my $run = IPC::Run::start(
	[ 'psql', '-qXAt', '-d', $standby->connstr('postgres'), '-c', 'SET gpujoin.force = on',
		'-c', 'SELECT sum((id = 99998)::int) FROM big WHERE k = ANY (ARRAY[when_free(5)])' ],
	'<', \undef, '>', \$out, '2>', \$err, patience(180));
my $waiting = "FROM pg_stat_activity WHERE wait_event = 'advisory'";
ok($standby->poll_query_until('postgres', "SELECT count(*) = 1 $waiting"), 'a query is planned');
give_index_up($standby->safe_psql('postgres', "SELECT pid $waiting"));
$primary->safe_psql('postgres', 'INSERT INTO big VALUES (99998, 5, 0)');
catch_up();
$blocker->quit;
$run->finish;
is($err . $out, "1\n", 'a row that an index has not been given is answered');
new_index();
feedback('false');

# A new index lacks rows that are dead to every transaction on the primary, but not here. So does a
# rebuilt one, which only pg_class shows.
$primary->safe_psql('postgres', q{
	CREATE TABLE late (id int, k int, j int) WITH (autovacuum_enabled = off);
	INSERT INTO late SELECT i, i % 20, i % 20 FROM generate_series(1, 4000) i;
	CREATE INDEX late_j ON late USING gpujoin (j) INCLUDE (id)});
catch_up();
my $early = session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1 FROM pulse');
$primary->safe_psql('postgres', $_) foreach 'DELETE FROM late WHERE id % 7 = 0',
	'CREATE INDEX late_k ON late USING gpujoin (k) INCLUDE (id)',
	'CREATE INDEX late_id ON late USING gpujoin (id)', 'REINDEX INDEX late_j';
catch_up();
$early->query('SET enable_seqscan = off; SET min_parallel_table_scan_size = 0;
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0');
foreach my $workers (0, 2)
{
	my %counts = (
		'SELECT count(id) FROM late WHERE k IN (1, 3)' => 400,
		'SELECT count(ctid) FROM late WHERE k IN (1, 3)' => 400,
		'SELECT count(id) FROM late WHERE j IN (1, 3)' => 400,
		'SELECT count(b.id) FROM generate_series(1, 3, 2) s JOIN late b ON b.k = s' => 400,
		'SELECT count(*) FROM late WHERE k = 1 OR id = 7' => 201);

	$early->query("SET max_parallel_workers_per_gather = $workers");
	foreach my $query (sort keys %counts)
	{
		like($early->query("EXPLAIN $query"), qr/Custom Scan|BitmapOr/, "uses indexes: $query");
		is($early->query($query), $counts{$query},
			"a snapshot older than an index, $workers workers: $query");
	}
}
$early->query('COMMIT');
is($early->query('SELECT count(id) FROM late WHERE k = 7'), 171, 'a later snapshot');
$early->quit;
vacuum();
catch_up();
is_deeply([ differing($standby, @queries) ], [], 'answers are right with the new index');

# ---- changes ------------------------------------------------------------------------------------

$primary->safe_psql('postgres', q{
	DELETE FROM big WHERE id % 400 = 7;
	UPDATE big SET v = -v WHERE id % 500 = 11;
	UPDATE big SET k = nullif(7, k) WHERE id % 500 = 7 OR (k IS NULL AND id % 50 = 9);
	INSERT INTO big SELECT -i, nullif(i % 20, 18), i FROM generate_series(1, 1000) i;
	BEGIN; INSERT INTO big SELECT 0, i % 20, i FROM generate_series(1, 1000) i; ROLLBACK});
catch_up();
unlike(ours("EXPLAIN (ANALYZE, COSTS off, TIMING off) $queries[0]"),
	qr/Heap Fetches: 0\n/, 'changed pages are read');
is_deeply([ differing($standby, @queries) ], [], 'answers are right after changes');
vacuum();
catch_up();
like(ours("EXPLAIN (ANALYZE, COSTS off, TIMING off) $queries[0]"),
	qr/Heap Fetches: 0\n/, 'pages that replay has set all-visible are not read');
is_deeply([ differing($standby, @queries) ], [], 'answers are right after VACUUM');

# ---- a mirror on the standby --------------------------------------------------------------------

is(ours("SELECT gpujoin_load('big_k') IS NOT NULL"), 't', 'the standby has a mirror');
like(ours("EXPLAIN (ANALYZE, VERBOSE, TIMING off) $queries[0]"),
	qr/Heap Fetches: 0\n.*Device: reference/s, 'the device answers without the heap');

# The device adds rows up there, too, by the map that replay has set
my @reduced = ('SELECT count(*), sum(v), max(id) FROM big WHERE k IN (1, 3, 42)',
	'SELECT k, v % 2 IS NULL, count(*) FROM big WHERE k IN (1, 3, 42) GROUP BY 1, 2',
	'SELECT k, v, count(*) FROM big WHERE k IN (1, 3, 42) GROUP BY k, v',
	'SELECT count(*) FROM (SELECT DISTINCT k, v FROM big WHERE k IN (1, 3, 42)) d',
	'SELECT count(*), sum(b.v) FROM generate_series(0, 19, 7) s JOIN big b ON b.k = s');
my $reduce = 'SET gpujoin.debug_reduce_rows = 0; SET max_parallel_workers_per_gather = 0';
foreach my $query (@reduced[ 0, 2, 3, 4 ])
{
	like(ours("$reduce; EXPLAIN (ANALYZE, TIMING off) $query"), qr/Device Reductions: 1/,
		"reduced on the standby: $query");
}
sub check_reduced
{
	my $what = shift;

	is(ours("$reduce; $_ ORDER BY 1"), $standby->safe_psql('postgres',
			"SET gpujoin.enabled = off; $_ ORDER BY 1"), "$what: $_")
	  foreach grep { !/GROUP BY k, v/ } @reduced;
	return;
}
check_reduced('the answer is right');
$primary->safe_psql('postgres', q{
	DELETE FROM big WHERE id % 900 = 41;
	INSERT INTO big SELECT i, i % 20, i FROM generate_series(50001, 50200) i});
catch_up();
check_reduced('after changes');
vacuum();
catch_up();
check_reduced('after VACUUM');

$primary->safe_psql('postgres', 'DELETE FROM big WHERE k = 3');
vacuum();
catch_up();
my $gone = 'SET gpujoin.sync_blocks = 1000000; SELECT count(id) FROM big WHERE k = 3';
cmp_ok(ours("SET gpujoin.debug_step = 'ignore epoch'; $gone"), '>', 0,
	'without the rule a mirror answers rows that are no more');
is(ours($gone), '0', 'with it, it does not');
is_deeply([ differing($standby, @queries) ], [], 'answers are right with the mirror');

# ---- snapshots that do not see rows that are visible to all on the primary ----------------------

my $count = 'SELECT count(id) FROM big WHERE k = 7';
my $before = ours($count);
my $old = session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
is($old->query($count), $before, 'a session has a snapshot');
$primary->safe_psql('postgres', 'INSERT INTO big VALUES (100001, 7, 1)');
vacuum();
ok($standby->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot'}),
	'replay waits for it before it sets the map');
is($old->query($count), $before, 'the session does not see the new row');
is(ours($count), $before + 1, 'others do');
$old->query('COMMIT');
catch_up();
is($old->query($count), $before + 1, 'and so does it later');
$old->quit;

$standby->safe_psql('postgres', 'ALTER SYSTEM SET max_standby_streaming_delay = 0');
$standby->reload;
$old = session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ',
	'DECLARE c CURSOR FOR SELECT id FROM big WHERE k = 7', 'FETCH 1 FROM c');
$primary->safe_psql('postgres', 'INSERT INTO big VALUES (100002, 7, 1)');
vacuum();
catch_up();
ok($standby->poll_query_until('postgres', q{SELECT confl_snapshot > 0
	FROM pg_stat_database_conflicts WHERE datname = 'postgres'}),
	'where replay does not wait, the query is cancelled');
my $rest = eval { $old->query('FETCH ALL FROM c') } // '';
unlike($rest, qr/\d/, 'and gives no more rows');
eval { $old->quit };
$standby->safe_psql('postgres', 'ALTER SYSTEM RESET max_standby_streaming_delay');
$standby->reload;
is(ours($count), $before + 2, 'a new query sees the row');

# ---- promotion ----------------------------------------------------------------------------------

my $ids = 'SELECT id FROM big WHERE k IN (5, 6) AND id > 0';
my $expected = $standby->safe_psql('postgres', "SET gpujoin.enabled = off; $ids ORDER BY id");
my $cursor = session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ',
	"DECLARE c CURSOR FOR $ids");
my @seen = (scalar $cursor->query('FETCH 1 FROM c'));
$standby->promote;
$standby->safe_psql('postgres', q{
	DELETE FROM big WHERE k = 5;
	UPDATE big SET v = 0 WHERE k = 6});
$standby->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) big');
$standby->safe_psql('postgres',
	'INSERT INTO big SELECT i, 5, 0 FROM generate_series(200001, 204000) i');
$standby->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) big');
push @seen, split /\n/, $cursor->query('FETCH ALL FROM c');
is(join("\n", sort { $a <=> $b } @seen), $expected,
	'promoted: a query that began before goes on with its snapshot');
$cursor->query('COMMIT');
$cursor->quit;
is_deeply([ differing($standby, @queries) ], [], 'promoted: answers are right');

log_is_clean($_, 'log of ' . $_->name . ' is clean') foreach $primary, $standby;
$_->stop foreach $standby, $primary;

done_testing();
