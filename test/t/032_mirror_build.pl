# A newly built index is loaded automatically when its transaction commits: after all forms of
# CREATE INDEX, REINDEX, VACUUM FULL, CLUSTER, ALTER TABLE, and when it gets the option preload. A
# rollback, including that of a subtransaction, leaves no mirror; temporary and small indexes get
# none.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use MirrorTest;
use ServiceTest;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '16MB'", "gpujoin.device_memory = '512MB'", 'gpujoin.min_rows = 0',
	'max_prepared_transactions = 5', 'allow_in_place_tablespaces = on');
wait_ready($node);
ask($node);

# Return the FROM clause that finds the mirror of an index's current file
sub mirror_of
{
	my $index = shift;
	return "FROM gpujoin_mirrors() m, pg_class c WHERE m.index = c.oid
		AND c.relname = '$index' AND m.filenode = c.relfilenode";
}

sub becomes_ready
{
	my ($index, $what) = @_;
	wait_for("SELECT count(*) = 1 " . mirror_of($index) . " AND m.state = 'ready'", $what);
}

# The indexes that have an entry, in any state
my $entries = q{
	SELECT coalesce(string_agg(coalesce(relname, m.index::text), ' ' ORDER BY relname), '')
	FROM gpujoin_mirrors() m LEFT JOIN pg_class c ON c.oid = m.index};

# Test that only these indexes have one. The launcher removes entries of removed files at its next
# check.
sub only_mirrors
{
	my ($expected, $what) = @_;
	$node->reload;
	ok($node->poll_query_until('postgres', $entries, $expected), $what)
	  or diag(sql('SELECT * FROM gpujoin_mirrors()'));
}

# Stop the launcher while it waits: it must not hold the lock on the table of mirrors. Return its
# pid.
sub stop_launcher
{
	my $condition = q{FROM pg_stat_activity WHERE backend_type = 'gpujoin launcher'};
	my $pid = sql("SELECT pid $condition");

	die "no launcher: $pid" unless $pid =~ /^\d+$/ && $pid > 1;
	kill 'STOP', $pid;
	while (sql("SELECT wait_event_type = 'Extension' $condition") ne 't')
	{
		kill 'CONT', $pid;
		select(undef, undef, undef, 0.1);
		kill 'STOP', $pid;
	}
	return $pid;
}

sql(q{CREATE TABLE t (id int PRIMARY KEY, k int);
	INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 200000) i;
	CREATE TABLE tiny AS SELECT * FROM t WHERE id <= 1000});

# ---- building -------------------------------------------------------------------------------

sql('CREATE INDEX tiny_k ON tiny USING gpujoin (k)');
inject($node, 'write', 'delay', 0, 0, 2000);
sql('CREATE INDEX t_k ON t USING gpujoin (k)');
wait_for(q{SELECT count(*) = 1 FROM pg_stat_gpujoin_mirrors m JOIN pg_stat_activity a USING (pid)
	WHERE indexrelname = 't_k' AND m.state = 'loading' AND pages_done > 0
	AND backend_xmin IS NULL}, 'while it is loaded, nothing keeps VACUUM back');
inject($node, 'write', 'none', 0, 0);
becomes_ready('t_k', 'CREATE INDEX');
only_mirrors('t_k', 'but not an index that no device would be asked about');
is(sql(q{SELECT missing, stale, reason FROM gpujoin_mirror_check('t_k')}), '0|0|',
	'the mirror is complete');
is(sql(q{SELECT pinned FROM gpujoin_mirrors()}), 'f', 'and not pinned');

foreach my $what ('REINDEX INDEX t_k', 'REINDEX INDEX CONCURRENTLY t_k', 'VACUUM FULL t',
	'CLUSTER t USING t_pkey', 'ALTER TABLE t ALTER k TYPE bigint',
	'TRUNCATE t; INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 200000) i;'
	  . 'REINDEX TABLE t')
{
	my $old = sql("SELECT relfilenode FROM pg_class WHERE relname = 't_k'");
	sql($what);
	isnt(sql("SELECT relfilenode FROM pg_class WHERE relname = 't_k'"), $old,
		"$what: another file");
	becomes_ready('t_k', "$what: loaded again");
	only_mirrors('t_k', "$what: the old one has gone");
}
sql('DROP INDEX t_k; CREATE INDEX CONCURRENTLY t_k ON t USING gpujoin (k)');
becomes_ready('t_k', 'CREATE INDEX CONCURRENTLY, which makes it valid later');

sql(q{CREATE UNLOGGED TABLE u AS SELECT * FROM t; CREATE INDEX u_k ON u USING gpujoin (k)});
becomes_ready('u_k', 'an unlogged index');
sql(q{CREATE TEMP TABLE tmp AS SELECT * FROM t; CREATE INDEX tmp_k ON tmp USING gpujoin (k);
	CREATE INDEX tmp_p ON tmp USING gpujoin (k) WITH (preload)});
only_mirrors('t_k u_k', 'no temporary one');
sql('DROP TABLE u');
only_mirrors('t_k', 'which has gone with its table');

# ---- rollbacks ------------------------------------------------------------------------------

# The launcher would soon clean up after a rollback: stop it meanwhile.
my $launcher = stop_launcher();
sql(q{BEGIN; CREATE INDEX gone ON t USING gpujoin (k); ROLLBACK});
sql(q{BEGIN; CREATE INDEX gone ON t USING gpujoin (k) WITH (preload); ROLLBACK});
is(sql($entries), 't_k', 'what was rolled back leaves nothing');
sql(q{BEGIN;
	CREATE INDEX t_k2 ON t USING gpujoin (k);
	SAVEPOINT a; CREATE INDEX gone1 ON t USING gpujoin (k); ROLLBACK TO a;
	SAVEPOINT b; SAVEPOINT c; CREATE INDEX gone2 ON t USING gpujoin (k); RELEASE c; ROLLBACK TO b;
	SAVEPOINT d; SAVEPOINT e; CREATE INDEX t_k3 ON t USING gpujoin (k); RELEASE e; RELEASE d;
	DO 'BEGIN CREATE INDEX gone3 ON t USING gpujoin (k); RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL; END';
	COMMIT});
is(sql($entries), 't_k t_k2 t_k3', 'nor does what a part of a transaction has rolled back');
kill 'CONT', $launcher;
becomes_ready('t_k2', 'built in a transaction');
becomes_ready('t_k3', 'built in a subtransaction of a subtransaction');
sql(q{BEGIN; CREATE INDEX gone ON t USING gpujoin (k); DROP INDEX gone; COMMIT});
only_mirrors('t_k t_k2 t_k3', 'what was dropped in the same transaction goes again');
my $built = sql("SELECT run_pages[1] - pages_pushed FROM gpujoin_index_info('t_k3'),
		pg_stat_gpujoin_mirrors WHERE indexrelname = 't_k3'");
is($built, '1', 'each page but that of the directory was pushed once');
sql('DROP INDEX t_k2, t_k3');

# The session that commits a prepared transaction does not know what it contains.
sql(q{BEGIN; CREATE INDEX t_k2 ON t USING gpujoin (k); PREPARE TRANSACTION 'p'});
sql(q{COMMIT PREPARED 'p'});
only_mirrors('t_k', 'a prepared transaction: not loaded by itself');
is(sql(q{SELECT gpujoin_load('t_k2') > 0}), 't', 'but on demand');
sql('DROP INDEX t_k2');

# ---- settings and options -------------------------------------------------------------------

sql(q{SET gpujoin.auto_load = off; CREATE INDEX off_k ON t USING gpujoin (k);
	CREATE INDEX on_k ON t USING gpujoin (k) WITH (preload)});
becomes_ready('on_k', 'gpujoin.auto_load = off: only with the option preload');
only_mirrors('on_k t_k', 'the other is not even wanted');
is(sql('SELECT pinned ' . mirror_of('on_k')), 't', 'it is pinned');
sql('DROP INDEX on_k');

sql('ALTER INDEX off_k SET (preload)');
becomes_ready('off_k', 'ALTER INDEX SET (preload)');
is(sql('SELECT pinned ' . mirror_of('off_k')), 't', 'it is pinned');
sql('ALTER INDEX off_k RESET (preload)');
wait_for('SELECT NOT pinned ' . mirror_of('off_k'),
	'ALTER INDEX RESET (preload): not pinned any more');
sql('BEGIN; ALTER INDEX off_k SET (preload); ROLLBACK');
sql(q{CREATE TABLESPACE ts LOCATION ''; ALTER INDEX off_k SET (preload)});
wait_for('SELECT pinned ' . mirror_of('off_k'), 'a mirror that is there already is pinned');
sql('ALTER INDEX off_k SET TABLESPACE ts');
becomes_ready('off_k', 'an index moved to another tablespace');
only_mirrors('off_k t_k', 'its old mirror has gone');
sql('ALTER INDEX tiny_k SET (preload)');
becomes_ready('tiny_k', 'a small index that is marked');

# ---- a crash --------------------------------------------------------------------------------

sql(q{CREATE UNLOGGED TABLE u AS SELECT * FROM t;
	CREATE INDEX u_k ON u USING gpujoin (k) WITH (preload)});
becomes_ready('u_k', 'an unlogged index that is marked');
$node->stop('immediate');
$node->start;
wait_ready($node);
becomes_ready('u_k', 'after a crash it is loaded again');
is(sql(q{SET gpujoin.force = on; SELECT count(*) FROM u WHERE k = 7}), '0', 'and empty');
sql('INSERT INTO u SELECT * FROM t');
is(sql(q{SET gpujoin.force = on; SELECT count(*) FROM u WHERE k = 7}), '200', 'and used');
becomes_ready('off_k', 'so is a permanent one');

wait_for('SELECT slots_used + slots_abandoned = 0 FROM gpujoin_status()',
	'no request slot is left over');
$node->stop;
log_is_clean($node, 'the log shows no crash of PostgreSQL');
done_testing();
