# Users without privileges: objects that others have planted in a schema get neither into the
# extension nor into what runs when a superuser uses its views. The server resources that a plain
# user can consume are bounded by limits that this user cannot raise.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	'gpujoin.max_mirrors = 4', 'gpujoin.max_requests = 2', "gpujoin.device_memory = '128MB'",
	'max_connections = 20');

sub fails
{
	my ($sql, $error, $name, $database) = @_;
	my ($status, $out, $err) = $node->psql($database // 'postgres', $sql);

	like($err, qr/$error/, $name);
}

# A schema in which an enemy has created objects before the extension is created in it: operators
# that match as well as PostgreSQL's, functions that could be mistaken for ours, types of the same
# names
$node->safe_psql('postgres', 'CREATE DATABASE hostile; CREATE ROLE enemy');
my $operators = join('', map {
	my ($left, $right) = @$_;
	qq{CREATE FUNCTION planted.trap($left, $right) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
		AS \$\$ BEGIN RAISE EXCEPTION 'trapped'; END \$\$;
	CREATE OPERATOR planted.= (LEFTARG = $left, RIGHTARG = $right, FUNCTION = planted.trap);}
} map { my $left = $_; map { [ $left, $_ ] } qw(int2 int4 int8) } qw(int2 int4 int8));
$node->safe_psql('hostile', qq{
	CREATE SCHEMA planted AUTHORIZATION enemy;
	GRANT CREATE ON SCHEMA planted TO enemy;
	SET ROLE enemy;
	CREATE DOMAIN planted.int8 AS text;
	CREATE DOMAIN planted.regclass AS text;
	$operators} . join('', map { qq{
	CREATE FUNCTION planted.trap($_, $_) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
		AS \$\$ BEGIN RAISE EXCEPTION 'trapped'; END \$\$;
	CREATE OPERATOR planted.= (LEFTARG = $_, RIGHTARG = $_, FUNCTION = planted.trap);}
	} qw(oid date timestamp timestamptz name)) . q{
	CREATE FUNCTION planted.gpujoin_key(anyelement) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
		AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
	CREATE FUNCTION planted.gpujoin_status(VARIADIC text[], OUT state text) RETURNS text
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
	CREATE FUNCTION planted.gpujoin_mirrors(int DEFAULT 0) RETURNS int
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
	CREATE FUNCTION planted.current_database() RETURNS name
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
	RESET ROLE;});
# a call without arguments, or with a default, is ambiguous: PostgreSQL refuses it, which is safe
fails('CREATE EXTENSION gpujoin SCHEMA planted',
	'ERROR:  function gpujoin_mirrors\(\) is not unique', 'what cannot be told apart is refused',
	'hostile');
$node->safe_psql('hostile', q{
	DROP FUNCTION planted.gpujoin_mirrors(int);
	CREATE FUNCTION planted.join(bigint, text) RETURNS text LANGUAGE plpgsql IMMUTABLE
		AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
	CREATE OPERATOR planted.|| (LEFTARG = bigint, RIGHTARG = text, FUNCTION = planted.join);
	CREATE FUNCTION planted.rest(bigint, int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
		AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
	CREATE OPERATOR planted.% (LEFTARG = bigint, RIGHTARG = int, FUNCTION = planted.rest);
	CREATE EXTENSION gpujoin SCHEMA planted;
	CREATE EXTENSION gpujoin_test SCHEMA planted;
	CREATE TABLE public.t (k int, b bigint);
	INSERT INTO public.t SELECT i, i FROM generate_series(1, 1000) i;
	CREATE INDEX t_k ON public.t USING gpujoin (k) INCLUDE (b);
	CREATE INDEX t_b ON public.t USING gpujoin (b);
	ANALYZE public.t;});
is($node->safe_psql('hostile', q{
	SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid)
	FROM pg_depend d, pg_depend e
	WHERE e.deptype = 'e' AND e.classid = d.classid AND e.objid = d.objid
		AND (d.refclassid, d.refobjid) IN (
			SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE proowner = 'enemy'::regrole
			UNION SELECT 'pg_operator'::regclass, oid FROM pg_operator
				WHERE oprowner = 'enemy'::regrole
			UNION SELECT 'pg_type'::regclass, oid FROM pg_type
				WHERE typowner = 'enemy'::regrole)}), '',
	'nothing of ours depends on what was planted');
foreach my $view (qw(pg_stat_gpujoin pg_stat_gpujoin_fallbacks pg_stat_gpujoin_mirrors
	pg_stat_gpujoin_indexes pg_stat_gpujoin_folds gpujoin_devices gpujoin_progress))
{
	is(($node->psql('hostile', "SELECT * FROM planted.$view"))[2], '',
		"$view calls nothing that was planted");
}
is($node->safe_psql('hostile', q{SELECT DISTINCT n.nspname FROM pg_amop a
	JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
	WHERE a.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'gpujoin')}), 'pg_catalog',
	"the operators are PostgreSQL's own");
is($node->safe_psql('hostile', q{SELECT DISTINCT l.lanname NOT IN ('internal', 'c') FROM pg_amproc p
	JOIN pg_proc f ON f.oid = p.amproc JOIN pg_language l ON l.oid = f.prolang
	JOIN pg_opfamily o ON o.oid = p.amprocfamily
	WHERE o.opfmethod = (SELECT oid FROM pg_am WHERE amname = 'gpujoin')}), 'f',
	'and the functions are in C, ours or PostgreSQL\'s own');

# Use everything with a path on which the traps come first
my $path = 'SET search_path = planted, pg_catalog, public;';
is($node->safe_psql('hostile', "$path SELECT count(*) >= 0 FROM pg_stat_gpujoin_mirrors;
	SELECT state <> '' FROM pg_stat_gpujoin; SELECT sum(count) >= 0 FROM pg_stat_gpujoin_fallbacks;
	SELECT gpujoin_check('public.t_k'::pg_catalog.regclass, true);
	SELECT gpujoin_load('public.t_k'::pg_catalog.regclass) > 0;
	SELECT gpujoin_fold('public.t_b'::pg_catalog.regclass, true);
	SELECT gpujoin_unload('public.t_k'::pg_catalog.regclass);"),
	"t\nt\nt\n1000\nt\n0\nt", 'functions and views work, and step into no trap');
is($node->safe_psql('hostile', "$path SET gpujoin.force = on; SELECT pg_catalog.sum(b) FROM t
	WHERE k OPERATOR(pg_catalog.=) ANY (ARRAY[3, 5]);
	SELECT count(*) FROM gpujoin_explain_choice(
		'SELECT b FROM public.t WHERE k OPERATOR(pg_catalog.=) ANY (ARRAY[3, 5])');"), "8\n2",
	'so do queries');
fails("$path SET gpujoin.force = on; SELECT b FROM t WHERE k = 3", 'ERROR:  trapped',
	'an operator that is not of the class is not taken for one', 'hostile');
$node->safe_psql('hostile', 'DROP TABLE public.t');

# Settings that a plain user cannot change: they limit resources that all users share
$node->safe_psql('postgres', 'CREATE ROLE plain; GRANT ALL ON SCHEMA public TO plain');
foreach my $setting ('max_mirrors = 9', 'max_requests = 9', "device_memory = '1GB'",
	"result_buffer = '1GB'", 'device_timeout = 1000', "device = 'none'", "gpu = '1'",
	"debug_step = 'written crash'")
{
	fails("SET ROLE plain; SET gpujoin.$setting",
		'cannot be changed|permission denied to set parameter', "a user cannot: $setting");
}

# Temporary files: temp_file_limit applies to each of our features that writes them
$node->safe_psql('postgres', q{
	SET ROLE plain;
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i, i FROM generate_series(1, 100000) i;
});
my $limited = "SET temp_file_limit = '64kB'; SET SESSION AUTHORIZATION plain;";
foreach my $what (
	[ 'a build', q{SET maintenance_work_mem = '1MB'; CREATE INDEX ON big USING gpujoin (k)} ],
	[ 'a join', q{SET work_mem = '64kB'; SET gpujoin.force = on;
		SELECT count(b.id) FROM generate_series(1, 90000) s JOIN big b ON b.k = s} ],
	[ 'groups', q{SET work_mem = '64kB'; SET gpujoin.force = on;
		SELECT count(*) FROM (SELECT id, count(*), sum(v) FROM big WHERE k = ANY (ARRAY(
			SELECT generate_series(1, 90000))) GROUP BY id OFFSET 0) s} ],
	[ 'a fold', q{SET maintenance_work_mem = '1MB';
		INSERT INTO big SELECT i, i, i FROM generate_series(1, 100000) i;
		SELECT gpujoin_fold('big_k', true)} ])
{
	my ($name, $sql) = @$what;

	$node->safe_psql('postgres', 'CREATE INDEX big_k ON big USING gpujoin (k)')
	  if $name eq 'a join';
	fails("$limited $sql", 'temporary file size exceeds', "$name: temp_file_limit");
	fails("$limited SET temp_file_limit = -1", 'permission denied', 'which a user cannot raise');
}

# Mirrors: at most gpujoin.max_mirrors, within the available memory, and without evicting mirrors
# that others have just used
$node->safe_psql('postgres', q{SET SESSION AUTHORIZATION plain;
	SET gpujoin.auto_load = off;} . join('', map { qq{
	CREATE TABLE m$_ (k int);
	INSERT INTO m$_ SELECT generate_series(1, 1000);
	CREATE INDEX m${_}_k ON m$_ USING gpujoin (k);} } 1 .. 6));
my $loaded = 0;
foreach my $n (1 .. 6)
{
	my ($status, $out, $err) = $node->psql('postgres',
		"SET SESSION AUTHORIZATION plain; SELECT gpujoin_load('m${n}_k')");

	$loaded++ if $status == 0;
	like($err, qr/could not load index "m${n}_k"/, "no room for mirror $n") if $status != 0;
}
cmp_ok($loaded, '<=', 4, "a user has $loaded mirrors, as many as there can be");
is($node->safe_psql('postgres',
		'SELECT memory_mirrors <= memory_limit AND memory_limit < memory_budget
		FROM pg_stat_gpujoin'), 't', 'and no more memory than all may have');

# A mirror pinned by its owner stays until the owner or a superuser unpins it
my $pinned = "SELECT pinned FROM pg_stat_gpujoin_mirrors WHERE indexrelname = 'm1_k'";
fails('SET SESSION AUTHORIZATION enemy; ALTER INDEX m1_k SET (preload = on)', 'must be owner',
	'only an owner can pin an index');
$node->safe_psql('postgres',
	'SET SESSION AUTHORIZATION plain; ALTER INDEX m1_k SET (preload = on)');
ok($node->poll_query_until('postgres', $pinned), 'an owner pins an index');
$node->safe_psql('postgres', 'ALTER INDEX m1_k RESET (preload)');
ok($node->poll_query_until('postgres', "SELECT NOT ($pinned)"), 'and a superuser unpins it');

# Request slots: while one user holds them all, other sessions search on the CPU and do not wait
my @cursors = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
$_->query_safe(q{SET SESSION AUTHORIZATION plain; SET gpujoin.force = on; BEGIN;
	DECLARE c CURSOR FOR SELECT k FROM m1 WHERE k = ANY (ARRAY[1, 2, 3]); FETCH c})
	foreach @cursors;
is($node->safe_psql('postgres', q{SET gpujoin.force = on; SET statement_timeout = '20s';
	SELECT count(*) FROM m2 WHERE k = ANY (ARRAY[5, 6])}), '2', 'nobody waits for a place');
$_->quit foreach @cursors;
is($node->safe_psql('postgres', 'SELECT slots_used FROM pg_stat_gpujoin'), '0',
	'and all places are given back');
$node->stop;
done_testing();
