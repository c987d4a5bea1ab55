# With and without shared_preload_libraries, and with session_preload_libraries: the first query of
# a session already uses our nodes, settings made before the library is loaded take effect, other
# sessions survive DROP EXTENSION, and pg_dump dumps everything.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\n");
$node->start;

my $scan = 'SELECT count(*), sum(id) FROM s.big WHERE k = ANY (ARRAY[1, 2, 500])';
my $join = 'SELECT count(*), sum(b.id) FROM (VALUES (1), (2), (500)) v(k) JOIN s.big b USING (k)';

# Run psql in a new session, with settings that are in effect from its start
sub fresh
{
	my ($settings, $sql) = @_;
	local $ENV{PGOPTIONS} = join(' ', map { "-c $_" } @$settings);
	my ($status, $out, $err) = $node->psql('postgres', $sql);

	return ($out, $err);
}

sub first_query_uses_ours
{
	my $name = shift;

	foreach (['GpuScan', $scan], ['GpuJoin', $join])
	{
		my ($custom, $query) = @$_;

		like((fresh(['gpujoin.force=on'], "EXPLAIN $query"))[0], qr/Custom Scan \($custom\)/,
			"$name: the first query of a session uses $custom");
		unlike((fresh([ 'gpujoin.force=on', 'gpujoin.enabled=off' ], "EXPLAIN $query"))[0],
			qr/Custom Scan|big_k/, "$name: or not, where gpujoin.enabled is off");
		is((fresh(['gpujoin.force=on'], $query))[0], expected(),
			"$name: $custom gives the rows");
		is((fresh(['gpujoin.force=on'], "PREPARE q AS $query; EXECUTE q"))[0], expected(),
			"$name: also as a prepared statement");
	}
	# chosen by cost alone: nothing is forced, nothing is loaded manually
	like((fresh([ 'gpujoin.min_rows=0', 'enable_seqscan=off' ], "EXPLAIN $scan"))[0],
		qr/Custom Scan \(GpuScan\)/, "$name: costs decide as well");
	my ($out, $err) = fresh([], "$scan; SET gpujoin.nonsense = 1");
	like($err, qr/invalid configuration parameter name "gpujoin.nonsense"/,
		"$name: the prefix is reserved");
	my $in_worker = [ 'gpujoin.force=on', $node->pg_version < 16 ? 'force_parallel_mode=on'
		  : 'debug_parallel_query=on' ];
	like((fresh($in_worker, "EXPLAIN $scan"))[0], qr/Gather.*Custom Scan \(GpuScan\)/s,
		"$name: a parallel worker can have the node");
	is((fresh($in_worker, $scan))[0], expected(), "$name: and gives the rows");
}

my $expected;
sub expected { return $expected; }

# Use a schema other than public that is not in the search path
$node->safe_psql('postgres', q{
	CREATE SCHEMA s; CREATE SCHEMA ext;
	CREATE EXTENSION gpujoin SCHEMA ext;
	CREATE TABLE s.big (id int, k int, d date, t text);
	INSERT INTO s.big
		SELECT i, i % 1000, '2000-01-01'::date + i % 50, 'x' FROM generate_series(1, 20000) i;
	CREATE INDEX big_k ON s.big USING gpujoin (k);
	CREATE INDEX big_part ON s.big USING gpujoin (d) WITH (lanes = 3) WHERE id > 100;
	CREATE INDEX big_expr ON s.big USING gpujoin ((k + 1));
	CREATE TABLE s.parts (k bigint) PARTITION BY HASH (k);
	CREATE TABLE s.part_1 PARTITION OF s.parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE s.part_2 PARTITION OF s.parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	CREATE INDEX parts_k ON s.parts USING gpujoin (k);
	INSERT INTO s.parts SELECT generate_series(1, 1000);
	ANALYZE;
});
$expected = $node->safe_psql('postgres',
	"SET gpujoin.enabled = off; SELECT count(*), sum(id) FROM s.big WHERE k IN (1, 2, 500)");

first_query_uses_ours('not preloaded');
is((fresh([], "SHOW shared_preload_libraries"))[0], '', 'it was not');
is((fresh(['gpujoin.nonsense=1'], $scan))[0], expected(),
	'a setting that does not exist disturbs no query');
is((fresh([], "SET gpujoin.force = maybe; SET gpujoin.min_rows = -1; $scan"))[0], expected(),
	'wrong values of settings that nobody knows yet are dropped when the library is loaded');

# If no GPU is expected, only VERBOSE explains its absence; in JSON the reason stays empty
SKIP:
{
	skip 'this machine has a GPU', 3 if glob '/dev/nvidia[0-9]*';
	my $reason = 'gpujoin is not in shared_preload_libraries';

	unlike((fresh(['gpujoin.force=on'], "EXPLAIN ANALYZE $scan"))[0], qr/Device Reason/,
		'no GPU: EXPLAIN gives no reason');
	like((fresh(['gpujoin.force=on'], "EXPLAIN (ANALYZE, FORMAT JSON) $scan"))[0],
		qr/"Device Reason": ""/, 'no GPU: nor does it in JSON');
	like((fresh(['gpujoin.force=on'], "EXPLAIN (ANALYZE, VERBOSE) $scan"))[0],
		qr/Device Reason: $reason\n *Device Hint: Add it there/, 'no GPU: it does with VERBOSE');
}

# Test the errors about settings in a session that has not loaded the library, and README's advice
my $alter_role = 'SET ROLE plain; ALTER ROLE plain SET gpujoin.enabled = on';
my $number_of_settings = "SELECT count(*) > 10 FROM pg_settings WHERE name LIKE 'gpujoin.%'";
$node->safe_psql('postgres', 'CREATE ROLE plain');
like((fresh([], 'SHOW gpujoin.enabled'))[1], qr/unrecognized configuration parameter/,
	'not loaded: a setting cannot be shown');
is((fresh([], $number_of_settings))[0], 'f', 'not loaded: there are none to be listed');
like((fresh([], $alter_role))[1], qr/permission denied to set parameter "gpujoin.enabled"/,
	'not loaded: ordinary users cannot keep one for their role');
like((fresh([], "SET gpujoin.nonsense = 1; $scan"))[1],
	qr/WARNING:  invalid configuration parameter name "gpujoin.nonsense", removing it/,
	'not loaded: a wrong name is dropped later, with a warning');
$node->safe_psql('postgres',
	"ALTER DATABASE postgres SET session_preload_libraries = 'gpujoin'");
is((fresh([], 'SHOW gpujoin.enabled'))[0], 'on', 'loaded at the start: a setting can be shown');
is((fresh([], $number_of_settings))[0], 't', 'loaded at the start: they are listed');
is((fresh([], $alter_role))[1], '', 'loaded at the start: anybody can keep one for a role');
like((fresh([], 'SET gpujoin.nonsense = 1'))[1], qr/invalid configuration parameter name/,
	'loaded at the start: a wrong name is refused');
like((fresh(['gpujoin.force=on'], "EXPLAIN $scan"))[0], qr/Custom Scan \(GpuScan\)/,
	'loaded at the start: settings from before count');
$node->safe_psql('postgres',
	'ALTER DATABASE postgres RESET session_preload_libraries; DROP ROLE plain');

# Other sessions keep plans with our nodes while the extension is dropped.
sub other_session { return $node->background_psql('postgres', on_error_stop => 0); }
my @others = (other_session(), other_session());
foreach my $other (@others)
{
	$other->query("SET gpujoin.force = on; SET plan_cache_mode = force_generic_plan;"
		  . "PREPARE a(int[]) AS SELECT count(*), sum(id) FROM s.big WHERE k = ANY (\$1);"
		  . "PREPARE b AS $join;");
	is($other->query("EXECUTE a('{1,2,500}')"), expected(), 'another session has a cached scan');
	is($other->query('EXECUTE b'), expected(), 'another session has a cached join');
}
$others[1]->query(
	'BEGIN; DECLARE c CURSOR FOR SELECT id FROM s.big WHERE k = ANY (ARRAY[1, 2, 500]);');
$others[1]->query('FETCH 3 FROM c');
is($node->psql('postgres', 'SET lock_timeout = 300; DROP EXTENSION gpujoin CASCADE'), 3,
	'DROP EXTENSION waits for a cursor on the table');
like($others[1]->query('FETCH ALL FROM c'), qr/20500|19500/, 'which goes on');
$others[1]->query('COMMIT');
$node->safe_psql('postgres', 'DROP EXTENSION gpujoin CASCADE');
foreach my $other (@others)
{
	is($other->query("EXECUTE a('{1,2,500}')"), expected(), 'after the drop the scan is replanned');
	is($other->query('EXECUTE b'), expected(), 'after the drop the join is replanned');
	unlike($other->query('EXPLAIN EXECUTE b'), qr/Custom Scan/, 'and is not ours');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_index
	WHERE indrelid IN ('s.big'::regclass, 's.parts'::regclass, 's.part_1'::regclass)}), '0',
	'no index is left');

# Create it again.
$node->safe_psql('postgres', q{
	CREATE EXTENSION gpujoin SCHEMA ext;
	CREATE INDEX big_k ON s.big USING gpujoin (k);
	CREATE INDEX big_part ON s.big USING gpujoin (d) WITH (lanes = 3) WHERE id > 100;
	CREATE INDEX big_expr ON s.big USING gpujoin ((k + 1));
	CREATE INDEX parts_k ON s.parts USING gpujoin (k);
	COMMENT ON INDEX s.big_k IS 'kept';
});
foreach my $other (@others)
{
	is($other->query("EXECUTE a('{1,2,500}')"), expected(), 'created again: same rows');
	like($other->query("EXPLAIN EXECUTE a('{1,2,500}')"), qr/Custom Scan \(GpuScan\)/,
		'created again: ours again');
	$other->quit;
}
like((fresh([], 'ALTER EXTENSION gpujoin UPDATE'))[1], qr/already installed/,
	'there is no other version to update to');

# Dump and restore, as text and as an archive.
my $definitions = q{SELECT indexdef FROM pg_indexes WHERE schemaname = 's' ORDER BY 1};
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fp', '-f', "$dump.sql", $node->connstr('postgres') ], 'pg_dump');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dump.custom", $node->connstr('postgres') ],
	'pg_dump -Fc');
$node->safe_psql('postgres', 'CREATE DATABASE plain; CREATE DATABASE archive');
$node->command_ok(
	[ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-f', "$dump.sql", $node->connstr('plain') ],
	'restore');
$node->command_ok(
	[ 'pg_restore', '-e', '-j', '2', '-d', $node->connstr('archive'), "$dump.custom" ],
	'pg_restore');
foreach my $db (qw(plain archive))
{
	is($node->safe_psql($db, $definitions), $node->safe_psql('postgres', $definitions),
		"$db: same indexes");
	is($node->safe_psql($db, q{SELECT sum(ext.gpujoin_check(c.oid, true)) FROM pg_class c
			JOIN pg_am a ON a.oid = relam WHERE amname = 'gpujoin' AND relkind = 'i'}),
		20000 + 19900 + 20000 + 1000, "$db: indexes are complete");
	is($node->safe_psql($db, "SET gpujoin.force = on; $scan"), expected(), "$db: same rows");
	is($node->safe_psql($db, "SELECT obj_description('s.big_k'::regclass)"), 'kept',
		"$db: comment is there");
}
like(slurp_file("$dump.sql"), qr/CREATE EXTENSION IF NOT EXISTS gpujoin WITH SCHEMA ext/,
	'the dump has the extension');
unlike(slurp_file("$dump.sql"), qr/OPERATOR CLASS|ACCESS METHOD/, 'but not its members');

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'gpujoin'");
$node->restart;
is((fresh([], "SHOW shared_preload_libraries"))[0], 'gpujoin', 'now it is preloaded');
first_query_uses_ours('preloaded');
# The library does not disturb a database without the extension.
$node->safe_psql('postgres', 'CREATE DATABASE bare');
is($node->safe_psql('bare', 'CREATE TABLE t AS SELECT generate_series(1, 100) k;
	SET gpujoin.force = on; SELECT count(*) FROM t WHERE k IN (1, 2)'), '2', 'a bare database');
log_is_clean($node, 'log is clean');

done_testing();
