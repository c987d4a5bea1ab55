# The extension gpujoin_advisor: in sessions that have loaded nothing, preloaded, beside a gpujoin
# of another version; updates and dumps of databases in which gpujoin_advise() was part of gpujoin;
# removal.

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

my $facts = q{
	CREATE TABLE facts AS SELECT (i * 7919::int8 % 20000)::int AS k
	FROM generate_series(1, 40000) i;
	VACUUM ANALYZE facts;};
my $query = q{'SELECT count(*) FROM facts WHERE k = ANY ($1)'};
my $advice = 'CREATE INDEX ON public.facts USING gpujoin (k)';
my $moved = qr/gpujoin_advise\(\) has moved to the extension gpujoin_advisor
HINT:.*CREATE EXTENSION gpujoin_advisor/;

# said(DATABASE, SQL): what one session writes
sub said
{
	my ($database, $sql) = @_;
	my ($status, $out, $err) = $node->psql($database, $sql, on_error_stop => 0);

	return $out . $err;
}

# A database of version 1.1.0, with views on its functions, one of which only its owner may call
$node->safe_psql('postgres', 'CREATE DATABASE old');
$node->safe_psql('old', "$facts
	CREATE EXTENSION gpujoin VERSION '1.1.0';
	CREATE ROLE advised;
	REVOKE EXECUTE ON FUNCTION gpujoin_advise() FROM PUBLIC;
	GRANT SELECT ON facts TO advised;
	CREATE VIEW advice AS SELECT create_index FROM gpujoin_advise($query);
	CREATE VIEW all_advice AS SELECT queryid, create_index FROM gpujoin_advise();");
my $dump = $node->basedir . '/old.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'old' ], 'a dump of 1.1.0');

# The library is replaced first: the functions of 1.1.0 say where they have gone, and are back with
# the extension, before and after the update
like(said('old', 'TABLE advice'), $moved, '1.1.0: the function has moved');
$node->safe_psql('old', 'CREATE EXTENSION gpujoin_advisor');
is(said('old', 'TABLE advice'), $advice, '1.1.0: it works with the extension');
$node->safe_psql('old', 'DROP EXTENSION gpujoin_advisor; ALTER EXTENSION gpujoin UPDATE');
like(said('old', 'TABLE advice'), $moved, 'after the update it has moved, too');
like(said('old', 'TABLE all_advice'), $moved, 'so has the other one');
$node->safe_psql('old', 'CREATE EXTENSION gpujoin_advisor');
is(said('old', 'TABLE advice'), $advice, 'after the update it works with the extension');
like(said('old', 'TABLE all_advice'), qr/extension "pg_stat_statements" is not installed/,
	'so does the other one');
like(said('old', 'SET ROLE advised; SELECT * FROM gpujoin_advise()'),
	qr/permission denied for function gpujoin_advise/, 'a revoked right stays revoked');

# Dumps: of 1.1.0, and with the new extension
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d',
		$node->connstr('restored') ], 'it is restored');
like(said('restored', 'TABLE advice'), $moved, 'restored: the function has moved');
$node->safe_psql('restored', 'CREATE EXTENSION gpujoin_advisor');
is(said('restored', 'ANALYZE; TABLE advice'), $advice, 'restored: it works with the extension');
like(said('restored', 'SET ROLE advised; SELECT * FROM gpujoin_advise()'),
	qr/permission denied for function gpujoin_advise/, 'restored: a revoked right stays revoked');
$node->command_ok([ 'pg_dump', '-f', $dump, 'restored' ], 'a dump with the extension');
$node->safe_psql('postgres', 'CREATE DATABASE again');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d',
		$node->connstr('again') ], 'it is restored, too');
is(said('again', 'ANALYZE; TABLE advice'), $advice, 'and works at once');

# It needs gpujoin, and goes with it
like(said('postgres', 'CREATE EXTENSION gpujoin_advisor'),
	qr/required extension "gpujoin" is not installed/, 'it needs gpujoin');
$node->safe_psql('postgres', "$facts CREATE EXTENSION gpujoin_advisor CASCADE");
like(said('postgres', 'DROP EXTENSION gpujoin'),
	qr/extension gpujoin_advisor depends on extension gpujoin/, 'which is not dropped below it');

# Whatever a session loads first
my @first = ("SELECT create_index FROM gpujoin_propose($query)",
	"LOAD 'gpujoin_advisor'; SELECT create_index FROM gpujoin_propose($query)",
	"LOAD 'gpujoin'; SELECT create_index FROM gpujoin_propose($query)",
	"SET gpujoin.min_rows = 1; SELECT create_index FROM gpujoin_advise($query)");
foreach my $preloaded ('', 'gpujoin', 'gpujoin_advisor', 'gpujoin, gpujoin_advisor',
	'gpujoin_advisor, gpujoin')
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$preloaded'");
	$node->restart;
	is(said('postgres', $_), $advice, "preloaded: $preloaded; $_") foreach @first;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_gpujoin'), 1,
		"preloaded: $preloaded; the views work");
}

# Notes and hooks are there for one call only
is($node->safe_psql('postgres', qq{CREATE EXTENSION gpujoin_test;
	SELECT gpujoin_test_hooks() AS before \\gset
	SELECT count(*) FROM gpujoin_explain_choice($query);
	SELECT count(*) FROM gpujoin_explain_choice('SELECT 1 FROM facts');
	SELECT gpujoin_test_hooks() = :'before'}), "1\n1\nt", 'no hook remains installed');

# A library of another version: a copy that says it is one
my $library = `pg_config --pkglibdir`;
chomp $library;
my $copy = $node->basedir . '/gpujoin_advisor.so';
my $code = slurp_file("$library/gpujoin_advisor.so");
my ($version) = slurp_file("$FindBin::RealBin/../../src/base/settings.h") =~
  /^#define GJ_VERSION\s+"(\S+)"/m;
my $other = $version =~ s/\d+$/9/r;
ok($code =~ s/\x00\Q$version\E\x00/\x00$other\x00/g, 'the library has its version in it');
open(my $out, '>:raw', $copy) or die "$copy: $!";
print $out $code;
close($out) or die "$copy: $!";
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'gpujoin'");
$node->restart;
like(said('postgres', "LOAD '$copy'"), qr/ERROR:  gpujoin_advisor $other needs gpujoin $other
DETAIL:  The library of gpujoin in use is version $version.
HINT:  Install both in the same version, and restart the server/, 'another version is refused');
like(said('postgres', "LOAD '$copy'; SELECT 1 FROM gpujoin_advise($query)"),
	qr/^1.*needs gpujoin $other/s, 'and the right one works after it');

# Removed
$node->safe_psql('postgres', 'DROP EXTENSION gpujoin CASCADE');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_proc WHERE proname LIKE 'gpujoin%'}), 0,
	'nothing is left of them');
log_is_clean($node, 'the log is clean');
$node->stop;
done_testing();
