# gpujoin_propose() over pg_stat_statements: statements with parameters, one index for several of
# them, visibility for users, a standby.  It runs only superusers' functions.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('primary', { allows_streaming => 1 }, 'fsync = off',
	"shared_preload_libraries = 'pg_stat_statements, gpujoin'", "gpujoin.device = 'none'",
	'max_parallel_workers_per_gather = 0');

$node->safe_psql('postgres', q{
	CREATE SCHEMA tools;
	CREATE EXTENSION pg_stat_statements SCHEMA tools;
	CREATE EXTENSION gpujoin_advisor;
	GRANT USAGE ON SCHEMA tools TO PUBLIC;
	CREATE TABLE facts (id int, k int, v int, y bigint, note text);
	INSERT INTO facts SELECT i, (i * 7919::int8) % 60000, i % 7, i % 1000, 'n'
	FROM generate_series(1, 120000) i;
	CREATE TABLE secret AS SELECT * FROM facts;
	CREATE TABLE keys AS SELECT i * 10 AS k FROM generate_series(1, 500) i;
	CREATE TABLE gone AS SELECT * FROM keys;
	VACUUM ANALYZE facts, secret, keys;
	CREATE ROLE app LOGIN;
	CREATE ROLE other LOGIN;
	CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
	CREATE ROLE dba LOGIN IN ROLE app;
	GRANT SELECT ON facts, keys TO app, other, dba;
	CREATE SCHEMA other AUTHORIZATION other;
});

# advice(NODE, USER): return a line for each worthwhile proposal, and the other messages
sub advice
{
	my ($on, $user, $what) = @_;
	my ($status, $out, $err) = $on->psql('postgres',
		'SELECT ' . ($what // 'statements, calls, create_index')
		. ' FROM gpujoin_propose() WHERE create_index IS NOT NULL',
		extra_params => [ '-U', $user ]);

	return ($out, $err);
}

sub run_as { my ($user, $sql) = @_;
	$node->safe_psql('postgres', $sql, extra_params => [ '-U', $user ]); return; }

sub superuser { return $node->safe_psql('postgres', 'SELECT current_user'); }
my $superuser = superuser();

# Three statements of an application, one of another kind, three that can no longer be planned
$node->safe_psql('postgres', 'SELECT tools.pg_stat_statements_reset()');
run_as('app', q{
	SELECT count(*) FROM facts WHERE k IN (1, 2, 3);
	SELECT count(*) FROM facts WHERE k IN (4, 5, 6);
	SELECT v, sum(y) FROM facts JOIN keys USING (k) GROUP BY v;
	PREPARE p(int[]) AS SELECT sum(v) FROM facts WHERE k = ANY ($1);
	EXECUTE p('{1,2,3}');
	SELECT note FROM facts WHERE id = 77;
	CREATE TEMP TABLE mine (k int);
	SELECT count(*) FROM mine WHERE k = 1;
});
run_as($superuser, 'SELECT count(*) FROM gone WHERE k = 1; DROP TABLE gone');
run_as($superuser, q{SELECT count(*) FROM facts JOIN (VALUES (1, 'a'), (2, 'b')) pairs (k, n)
	ON pairs.k = facts.k AND pairs.n = facts.note});

my ($rows, $said) = advice($node, $superuser);
like($rows, qr/^3\|4\|CREATE INDEX ON public\.facts USING gpujoin \(k\) INCLUDE \(v, y\)$/m,
	'one index serves three statements, called four times');
like($said, qr/statements could not be planned/, 'what cannot be planned is counted');
unlike($said, qr/other roles/, 'a superuser sees all');
like($node->safe_psql('postgres', q{SELECT relation IS NULL, statements, calls, query, note
	FROM gpujoin_propose() WHERE query LIKE '%FROM gone%'}),
	qr/^t\|1\|1\|SELECT count.*FROM gone.*\|the statement could not be planned: relation "gone"/,
	'and named, with the reason');
like($node->safe_psql('postgres', q{SELECT note FROM gpujoin_propose()
	WHERE query LIKE '%pairs (k, n)%'}),
	qr/could not be planned: operator does not exist.* \(the types of some constants are unknown/,
	'so are constants that have lost their types');
is($node->safe_psql('postgres', q{SELECT bool_and(queryid IS NOT NULL AND time_share BETWEEN 0 AND 1
	AND query <> '' AND cost_with < 0.9 * cost_now AND index_size > 0) FROM gpujoin_propose()
	WHERE create_index IS NOT NULL}), 't', 'the other columns are there');
is($node->safe_psql('postgres', q{SELECT count(*) FROM tools.pg_stat_statements
	WHERE query LIKE '%sum(y)%' AND calls <> 1}), '0', 'nothing was executed');
like($node->safe_psql('postgres', q{SELECT gpujoin_test_hooks() AS before \gset
	SELECT count(*) FROM gpujoin_propose();
	SELECT gpujoin_test_hooks() = :'before'}), qr/^\d+\nt$/, 'no hook remains installed');

# Which statements users see
like((advice($node, 'app'))[0], qr/^3\|4\|.*INCLUDE \(v, y\)$/m, 'an application sees its own');
like((advice($node, 'dba'))[0], qr/^$/, 'a member of its role does not see the texts');
$node->safe_psql('postgres', 'GRANT pg_read_all_stats TO dba');
like((advice($node, 'dba'))[0], qr/^3\|4\|.*INCLUDE \(v, y\)$/m, 'but with pg_read_all_stats');
($rows, $said) = advice($node, 'watcher');
is($rows, '', 'who may read all statistics, but is no member, sees nothing');
like($said, qr/\d+ statements of other roles were left out/, 'and is told');
($rows, $said) = advice($node, 'other');
is($rows, '', 'nor does anybody else');

# The estimate of an average call stays the same once the index exists
my $promised = $node->safe_psql('postgres', q{SELECT cost_with FROM gpujoin_propose()
	WHERE key_column = 'k' AND create_index IS NOT NULL});
my $query = 'SELECT v, sum(y) FROM facts JOIN keys USING (k) GROUP BY v';
my $alone = $node->safe_psql('postgres', qq{SELECT cost_with FROM gpujoin_propose('$query')
	WHERE create_index IS NOT NULL});
$node->safe_psql('postgres', 'CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (v, y)');
my ($cost) = $node->safe_psql('postgres', "EXPLAIN $query") =~ /cost=[0-9.]+\.\.([0-9.]+)/;
cmp_ok(abs($cost / $alone - 1), '<', 0.2, "the plan costs $cost, $alone were promised");
unlike((advice($node, $superuser))[0], qr/\(k\)/, 'and it is proposed no more');
# (from 18 on, the statements with lists of constants have an array of unknown length)
like($node->safe_psql('postgres', q{SELECT note FROM gpujoin_propose()
	WHERE key_column = 'k' AND relation = 'facts'::regclass}),
	qr/^the column has a gpujoin index already(, with 1000 keys in \$1)?$/, 'with the reason');
$node->safe_psql('postgres', 'DROP INDEX facts_k');

# Parameters that pg_stat_statements has put where the grammar or the types do not allow them
$node->safe_psql('postgres', 'SELECT tools.pg_stat_statements_reset()');
run_as('app', q{
	SELECT count(*) FROM facts WHERE k = ANY (ARRAY[1, 2, 3]);
	SELECT count(*) FROM facts JOIN (VALUES (1), (2)) u (k) USING (k);
	SELECT count(*) FROM facts WHERE k IN (SELECT unnest(ARRAY[1, 2]));
	SELECT count(*) FROM facts WHERE k IN (SELECT generate_series(1, 9));
	SELECT count(*) FROM facts WHERE k IN (7, 8) AND now() > date '2020-01-01' + interval '1 day';
	SELECT count(*) FROM facts WHERE k IN (7, 8) AND extract(year FROM current_date - 2) > 7;
});
($rows, $said) = advice($node, $superuser, 'statements, relation, key_column');
is($rows, '6|facts|k', 'arrays, VALUES and typed literals that were normalized');
unlike($said, qr/could not be planned/, 'all of them');

# Statements that change rows are planned, too, but not executed; an array of unknown length has as
# many keys in a btree's plan as in ours
$node->safe_psql('postgres', q{
	GRANT UPDATE, DELETE ON facts TO app;
	CREATE INDEX facts_btree ON facts (k, id);
	SELECT tools.pg_stat_statements_reset()});
run_as('app', q{
	UPDATE facts SET note = DEFAULT WHERE k = ANY ('{1, 2, 3}'::int[]);
	DELETE FROM facts WHERE k = ANY ('{-1, -2}'::int[]);
	SELECT sum(v) FROM facts WHERE k = ANY ('{1, 2, 3}'::int[]);
});
my $before = $node->safe_psql('postgres', 'SELECT count(*), max(xmin::text::int) FROM facts');
($rows, $said) = advice($node, $superuser, 'statements, calls, create_index, note');
like($rows, qr/^3\|3\|.* \(k\) INCLUDE \(v\)\|with 1000 keys in \$1$/,
	'one index serves UPDATE, DELETE and SELECT');
unlike($said, qr/could not be planned/, 'all of them are planned');
is($node->safe_psql('postgres', 'SELECT count(*), max(xmin::text::int) FROM facts'), $before,
	'and none is executed');
$node->safe_psql('postgres', 'CREATE INDEX facts_k ON facts USING gpujoin (k)');
like((advice($node, $superuser, 'create_index, note'))[0],
	qr/INCLUDE \(v\)\|replaces index facts_k, .*: [0-9.]+ times as fast by cost, with 1000 keys/,
	'an index without the column would be replaced');
$node->safe_psql('postgres', 'DROP INDEX facts_k, facts_btree; VACUUM ANALYZE facts');

# Users get no advice for statements on tables that they cannot read now, and none of their
# functions is run
$node->safe_psql('postgres', 'GRANT SELECT ON secret TO other');
$node->safe_psql('postgres', 'SELECT tools.pg_stat_statements_reset()');
run_as('other', q{
	SELECT count(*) FROM secret WHERE k IN (1, 2);
	CREATE FUNCTION other.who() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN RAISE LOG 'planned as %', current_user; RETURN 5; END $$;
	CREATE FUNCTION other.inlined(i int) RETURNS int LANGUAGE sql STABLE RETURN i + random();
	SELECT count(*) FROM facts WHERE k IN (other.who(), 7);
	SELECT sum(y), min(other.inlined(v)) FROM facts WHERE k IN (7, 8);
});
my $log = -s $node->logfile;
like((advice($node, $superuser))[0], qr/^1\|1\|.*facts USING gpujoin \(k\)/m,
	'a function that is not needed for planning');
unlike(slurp_file($node->logfile, $log), qr/planned as/, 'none is run');
like($node->safe_psql('postgres', q{SELECT note FROM gpujoin_propose() WHERE query LIKE '%who()%'
	AND query LIKE 'SELECT count%'}), qr/function "who", which is not a superuser's, is not run/,
	'the statement that needs one is left out, with the reason');
is($node->safe_psql('postgres', 'SELECT current_user FROM gpujoin_propose() LIMIT 1'),
	$superuser, 'and the caller is who he was');
$node->safe_psql('postgres', 'REVOKE SELECT ON secret FROM other');
unlike((advice($node, 'other'))[0], qr/secret/, 'a table that may not be read any more');

# No function runs with the rights of a role that has not called it: if names are now
# resolved with another search path, a statement may refer to another user's objects
$node->safe_psql('postgres', q{
	GRANT CREATE ON SCHEMA public TO other;
	CREATE SCHEMA safe;
	GRANT USAGE ON SCHEMA safe TO PUBLIC;
	CREATE FUNCTION safe.five() RETURNS int IMMUTABLE RETURN 5;
	CREATE FUNCTION safe.ask() RETURNS bigint LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = safe, pg_catalog SET pg_stat_statements.track = 'all' AS $$
	BEGIN RETURN (SELECT count(*) FROM public.facts WHERE k IN (five(), 7)); END $$;
	ALTER SYSTEM SET pg_stat_statements.track = 'all';
	SELECT pg_reload_conf();
});
foreach my $how ('', 'SET work_mem = 4096', 'SECURITY DEFINER')
{
	$node->safe_psql('postgres', 'SELECT tools.pg_stat_statements_reset()');
	run_as('other', qq{
		CREATE OR REPLACE FUNCTION public.five() RETURNS int LANGUAGE plpgsql IMMUTABLE $how AS \$\$
		BEGIN RAISE LOG 'stranger as %', current_user; RETURN 5; END \$\$;
		SELECT safe.ask()});
	$log = -s $node->logfile;
	like((advice($node, $superuser))[1], qr/could not be planned/,
		"a statement that would run a stranger's function is not planned ($how)");
	unlike(slurp_file($node->logfile, $log), qr/stranger as/, 'and the function is not run');
}
run_as('other', 'DROP FUNCTION public.five()');
$node->safe_psql('postgres', 'REVOKE CREATE ON SCHEMA public FROM other');

# A function that fails when its statement is planned again does not spoil the other advice
$node->safe_psql('postgres', 'SELECT tools.pg_stat_statements_reset()');
run_as('other', 'CREATE SEQUENCE other.n');
$node->safe_psql('postgres', q{
	CREATE FUNCTION other.fails() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
	DECLARE n int := nextval('other.n');
	BEGIN IF n > current_setting('my.most', true)::int THEN RAISE 'too often'; END IF; RETURN 5;
	END $$});
run_as('other', q{
	SELECT sum(v) FROM facts WHERE k IN (other.fails(), 7);
});
run_as('app', 'SELECT sum(y) FROM facts WHERE k IN (6, 7)');
my $failed = '';
foreach my $most (1 .. 12)
{
	my ($status, $out, $err) = $node->psql('postgres', qq{SET my.most = $most;
		SELECT setval('other.n', 1, false); SELECT * FROM gpujoin_propose()});
	$failed .= $err if $status != 0;
}
is($failed, '', 'advice comes nevertheless');

# The same is true of a table or a column that is dropped while other statements are analyzed
$node->safe_psql('postgres', q{
	CREATE TABLE doomed AS SELECT * FROM facts;
	CREATE TABLE maimed AS SELECT * FROM facts;
	VACUUM ANALYZE doomed, maimed;
	CREATE FUNCTION safe.waits() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN PERFORM pg_advisory_xact_lock(14); RETURN 5; END $$;
	SELECT tools.pg_stat_statements_reset();
	SELECT count(*), pg_sleep(1.5) FROM doomed WHERE k IN (1, 2);
	SELECT sum(v), pg_sleep(1.5) FROM maimed WHERE k IN (1, 2);
	SELECT sum(y) FROM facts WHERE k IN (safe.waits(), 1, 2)});
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(14)');
my ($out_now, $err_now) = ('', '');
my $advised = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'),
		'-c', 'SELECT create_index FROM gpujoin_propose() WHERE create_index IS NOT NULL' ],
	'>', \$out_now, '2>', \$err_now);
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks
	WHERE locktype = 'advisory' AND NOT granted}), 'advice is being worked out');
$node->safe_psql('postgres', 'DROP TABLE doomed; ALTER TABLE maimed DROP COLUMN v');
$holder->query_safe('SELECT pg_advisory_unlock(14)');
$advised->finish;
$holder->quit;
is($out_now . $err_now, "CREATE INDEX ON public.facts USING gpujoin (k) INCLUDE (y)\n",
	'what is dropped meanwhile is left out');

# Executions inside functions count for the statement, regardless of its sender
my $nested = 'SELECT sum(y) FROM public.facts WHERE k IN (6, 7)';
$node->safe_psql('postgres', qq{
	CREATE FUNCTION safe.nested() RETURNS numeric LANGUAGE sql SECURITY DEFINER AS '$nested';
	SELECT tools.pg_stat_statements_reset();
	SET pg_stat_statements.track = 'all';
	SELECT safe.nested();
	SELECT safe.nested()});
is($node->safe_psql('postgres', q{SELECT statements, calls, time_share BETWEEN 0.6 AND 1
	FROM gpujoin_propose() WHERE create_index IS NOT NULL}), '1|2|t',
	'the time of a statement in a function is that of its caller as well');
$node->safe_psql('postgres', $nested);
is($node->safe_psql('postgres', q{SELECT count(DISTINCT queryid), count(*)
	FROM tools.pg_stat_statements WHERE query LIKE 'SELECT sum(y)%'}), '1|2',
	'one that clients send and functions run has two rows');
is($node->safe_psql('postgres', q{SELECT statements, calls
	FROM gpujoin_propose() WHERE create_index IS NOT NULL}), '1|3', 'and is one statement');

# On a standby, which is read-only
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$standby->safe_psql('postgres', $query);
like((advice($standby, $superuser))[0], qr/facts USING gpujoin \(k\) INCLUDE \(v, y\)/,
	'a standby has advice for its own statements');
is($standby->safe_psql('postgres', q{SELECT key_column FROM gpujoin_propose(
	'SELECT * FROM facts WHERE k = ANY ($1)')}), 'k', 'and for a query');
is($standby->safe_psql('postgres', q{SELECT key_column FROM gpujoin_propose(
	'DELETE FROM facts WHERE k = ANY ($1)')}), 'k',
	'and for a statement that only the primary runs');

# Not loaded at server start
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'gpujoin'");
$node->restart;
my ($status, $out, $err) = $node->psql('postgres', 'SELECT * FROM gpujoin_propose()');
like($err, qr/pg_stat_statements must be loaded via/, 'pg_stat_statements says what it lacks');

log_is_clean($_, $_->name . ': the log is clean') for $node, $standby;
$standby->stop;
$node->stop;
done_testing();
