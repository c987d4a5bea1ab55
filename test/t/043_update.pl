# ALTER EXTENSION ... UPDATE leaves the same objects as CREATE EXTENSION of the new version: with
# each existing update script, and with those of an invented release, which the test writes to the
# server's extension directory and never makes the default.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off');
my $folder = $node->config_data('--sharedir') . '/extension';
my $catalog = slurp_file("$FindBin::RealBin/../sql/common/extension_catalog.sql");
my ($current) = slurp_file("$folder/gpujoin.control") =~ /^default_version = '(.*)'/m;
my ($first, @steps) = ('1.0.0', '1.0.0--1.1.0', '1.1.0--1.2.0');
my $next = "$current.1";
my @written;

plan skip_all => "$folder cannot be written" unless -w $folder;
END { unlink @written }

sub write_script
{
	my ($name, $text) = @_;

	push @written, "$folder/gpujoin--$name.sql";
	append_to_file("$folder/gpujoin--$name.sql", $text);
}

# Return what the catalogs contain about the extension after these statements, which are rolled back
sub catalog_of
{
	my ($database, $statements) = @_;

	$statements //= '';
	return $node->safe_psql($database, "BEGIN; $statements; $catalog
		SELECT line FROM pg_temp.extension_catalog('gpujoin') line ORDER BY line COLLATE \"C\";
		ROLLBACK");
}

# Create a database with the extension, using these statements
sub database_with
{
	my ($name, @statements) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	$node->safe_psql($name, $_) foreach @statements;
	return catalog_of($name);
}

# Return the lines that only one of two texts has
sub difference
{
	my ($first, $second) = @_;
	my %seen;

	$seen{$_}++ foreach split /\n/, $first;
	$seen{$_}-- foreach split /\n/, $second;
	return join "\n", map { ($seen{$_} > 0 ? '- ' : '+ ') . $_ } grep { $seen{$_} } sort keys %seen;
}

# Existing releases --------------------------------------------------------------------------

my $fresh = database_with('fresh', 'CREATE EXTENSION gpujoin');
my @earlier = split /\n/, $node->safe_psql('postgres', "
	SELECT source FROM pg_extension_update_paths('gpujoin') JOIN pg_available_extension_versions
		ON name = 'gpujoin' AND version = source
	WHERE target = '$current' AND path IS NOT NULL");

foreach my $version (@earlier)
{
	(my $database = "from_$version") =~ tr/./_/;
	is(difference(
			$fresh,
			database_with($database, "CREATE EXTENSION gpujoin VERSION '$version'",
				'ALTER EXTENSION gpujoin UPDATE')),
		'', "an update from $version equals a new $current");
}
cmp_ok(scalar(split /\n/, $fresh), '>', 1000, 'the catalogs hold much of the extension');
is(difference($fresh, database_with('again', 'CREATE EXTENSION gpujoin')),
	'', 'it is the same in each database');

# An installation of 1.1.0 has a function without a column that the library returns since then
my $info = 'FROM gpujoin_index_info(\'used_k_x_idx\')';
$node->safe_psql('postgres', 'CREATE DATABASE used TEMPLATE template0');
$node->safe_psql('used', $_)
  foreach "CREATE EXTENSION gpujoin VERSION '1.1.0'",
  'CREATE TABLE used (k int, x numeric)',
  'INSERT INTO used VALUES (1, 1), (2, 1e300)',
  'CREATE INDEX ON used USING gpujoin (k) INCLUDE (x)';
is($node->safe_psql('used', "SELECT entries, keys $info"),
	'2|values', 'a function of 1.1.0 works with this library');
like(($node->psql('used', "SELECT included $info"))[2],
	qr/column "included" does not exist/, 'it lacks the new column');
$node->safe_psql('used', 'ALTER EXTENSION gpujoin UPDATE');
is($node->safe_psql('used', "SELECT included -> 'x' -> 'absent' $info"),
	'1', 'an update of the extension adds it');

# A later release ------------------------------------------------------------------------------

# One change of each kind: a function is added and another gets new attributes, a view gets a
# column, an operator class and its family get members, a role gets privileges, comments change.
my $script = join '', map { slurp_file("$folder/gpujoin--$_.sql") } $first, @steps;
my $view = "VIEW pg_stat_gpujoin_fallbacks AS
	SELECT reason, description, count, count > 0 AS happened FROM gpujoin_fallbacks()";
my $added = "
	CREATE FUNCTION gpujoin_next(index regclass, often int DEFAULT 3) RETURNS text
		LANGUAGE sql STABLE STRICT PARALLEL SAFE
		RETURN index::text || often::text;
	COMMENT ON FUNCTION gpujoin_next(regclass, int) IS 'something new';
	REVOKE ALL ON FUNCTION gpujoin_next(regclass, int) FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION gpujoin_next(regclass, int) TO pg_monitor;
	COMMENT ON COLUMN pg_stat_gpujoin_fallbacks.happened IS 'has it?';
	GRANT SELECT ON pg_stat_gpujoin_fallbacks TO pg_read_all_stats;
	CREATE TABLE gpujoin_remembered (id int PRIMARY KEY, what text NOT NULL DEFAULT 'nothing');
	SELECT pg_catalog.pg_extension_config_dump('gpujoin_remembered', 'WHERE id > 0');
	CREATE TYPE gpujoin_mood AS ENUM ('good', 'bad');
	ALTER OPERATOR FAMILY oid_ops USING gpujoin ADD OPERATOR 1 pg_catalog.= (int4, int4);
	COMMENT ON ACCESS METHOD gpujoin IS 'what it is now';";
my $altered = "
	ALTER FUNCTION gpujoin_check(regclass, boolean) PARALLEL SAFE COST 100;
	CREATE OR REPLACE $view;";

(my $whole = $script) =~
  s/CREATE VIEW pg_stat_gpujoin_fallbacks AS\s+SELECT \* FROM gpujoin_fallbacks\(\)/CREATE $view/
  or die 'the view is not made as it was';
$whole =~ s/(FUNCTION gpujoin_check\(.*?)PARALLEL RESTRICTED;/$1PARALLEL SAFE COST 100;/s
  or die 'the function is not made as it was';
write_script($next, $whole . $added);
write_script("$current--$next", $altered . $added);

my $new = database_with('new', "CREATE EXTENSION gpujoin VERSION '$next'");
my @update = ("CREATE EXTENSION gpujoin VERSION '$current'",
	"ALTER EXTENSION gpujoin UPDATE TO '$next'");

is(difference($new, database_with('updated', @update)), '', 'an update equals a new one');
cmp_ok(scalar(split /\n/, difference($fresh, $new)), '>', 50, 'both differ from the one before');
is(difference($new, catalog_of('updated', 'CREATE TABLE mine (k int);
	CREATE INDEX ON mine USING gpujoin (k)')), '', "users' indexes are no part of it");

# A script that forgets something is detected ------------------------------------------------

my %forgotten = (
	'a function' => ['new', 'ALTER EXTENSION gpujoin DROP FUNCTION gpujoin_next;
		DROP FUNCTION gpujoin_next'],
	'a function that is no member' => ['new', 'ALTER EXTENSION gpujoin DROP FUNCTION gpujoin_next'],
	'what can run in parallel' =>
	  ['parallel', 'ALTER FUNCTION gpujoin_check PARALLEL RESTRICTED'],
	'volatility' => ['volatile', 'ALTER FUNCTION gpujoin_next VOLATILE'],
	'what NULL gives' => ['strict', 'ALTER FUNCTION gpujoin_next CALLED ON NULL INPUT'],
	'cost' => ['procost', 'ALTER FUNCTION gpujoin_check COST 1'],
	'a default value' => ['DEFAULT 3', 'CREATE OR REPLACE FUNCTION gpujoin_next(index regclass,
		often int DEFAULT 4) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
		RETURN index::text || often::text'],
	'the body of a function' => ['often', 'CREATE OR REPLACE FUNCTION gpujoin_next(index regclass,
		often int DEFAULT 3) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
		RETURN often::text || index::text'],
	'the symbol of a function' => ['prosrc', "UPDATE pg_proc SET prosrc = 'gpujoin_gone'
		WHERE proname = 'gpujoin_load'"],
	'the library of a function' => ['probin', "UPDATE pg_proc SET probin = '\$libdir/other'
		WHERE proname = 'gpujoin_load'"],
	'the names of arguments' =>
	  ['proargnames', "UPDATE pg_proc SET proargnames[1] = 'x' WHERE proname = 'gpujoin_load'"],
	'a setting of a function' => ['proconfig', "ALTER FUNCTION gpujoin_next SET work_mem = '1MB'"],
	'rights of the owner' => ['prosecdef', 'ALTER FUNCTION gpujoin_next SECURITY DEFINER'],
	'a privilege on a function' => ['privileges',
		'GRANT EXECUTE ON FUNCTION gpujoin_next TO PUBLIC'],
	'a privilege on a view' => ['privileges',
		'REVOKE SELECT ON pg_stat_gpujoin_fallbacks FROM pg_read_all_stats'],
	'a privilege that a dump takes for given' => ['initial privileges', "DELETE FROM pg_init_privs
		WHERE objoid = 'pg_stat_gpujoin_fallbacks'::regclass"],
	'a privilege on a column' => ['privileges', 'GRANT SELECT (happened)
		ON pg_stat_gpujoin_fallbacks TO PUBLIC'],
	'the text of a view' => ['count', 'CREATE OR REPLACE VIEW pg_stat_gpujoin_fallbacks AS
		SELECT reason, description, count, count > 1 AS happened FROM gpujoin_fallbacks()'],
	'a column of a view' => ['more', 'CREATE OR REPLACE VIEW pg_stat_gpujoin_fallbacks AS
		SELECT reason, description, count, count > 0 AS happened, 1 AS more
		FROM gpujoin_fallbacks()'],
	"a view's options" => ['reloptions',
		'ALTER VIEW pg_stat_gpujoin_fallbacks SET (security_barrier)'],
	"a column's comment" => ['comment',
		'COMMENT ON COLUMN pg_stat_gpujoin_fallbacks.happened IS NULL'],
	'a comment' => ['comment', "COMMENT ON ACCESS METHOD gpujoin IS 'what it was'"],
	'a cross-type operator' => ['operator',
		'ALTER OPERATOR FAMILY oid_ops USING gpujoin DROP OPERATOR 1 (int4, int4)'],
	'a support function' => ['amproc', "UPDATE pg_amproc
		SET amproc = 'gpujoin_key(int4)'::regprocedure
		WHERE amproc = 'gpujoin_key(date)'::regprocedure"],
	'the default operator class' => ['opcdefault', "UPDATE pg_opclass SET opcdefault = false
		WHERE opcname = 'date_ops' AND opcintype = 'date'::regtype
			AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'gpujoin')"],
	'the stored type' => ['opckeytype', "UPDATE pg_opclass SET opckeytype = 'int8'::regtype
		WHERE opcname = 'int2_ops'
			AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'gpujoin')"],
	"the access method's handler" => ['amhandler', "UPDATE pg_am SET amhandler = 'bthandler'
		WHERE amname = 'gpujoin'"],
	'a table that is dumped' => ['extconfig',
		"UPDATE pg_extension SET extconfig = NULL, extcondition = NULL WHERE extname = 'gpujoin'"],
	'which of its rows are' => ['extcondition',
		"UPDATE pg_extension SET extcondition = '{WHERE id > 1}' WHERE extname = 'gpujoin'"],
	"a table's default" => ['something',
		"ALTER TABLE gpujoin_remembered ALTER what SET DEFAULT 'something'"],
	"a table's constraint" => ['attnotnull',
		'ALTER TABLE gpujoin_remembered ALTER what DROP NOT NULL'],
	'an index' => ['gpujoin_remembered_what', 'CREATE INDEX ON gpujoin_remembered (what)'],
	'a label of a type' => ['ugly', "ALTER TYPE gpujoin_mood ADD VALUE 'ugly'"],
	'a dependency' => ['depends', "DELETE FROM pg_depend WHERE objid = 'gpujoin_next'::regproc
		AND deptype = 'n'"],
	'the version' => ['extversion', "UPDATE pg_extension SET extversion = '$current'
		WHERE extname = 'gpujoin'"],
	'whether it can be moved' => ['extrelocatable',
		"UPDATE pg_extension SET extrelocatable = false WHERE extname = 'gpujoin'"]);

foreach my $what (sort keys %forgotten)
{
	my ($found, $statement) = @{ $forgotten{$what} };

	like(difference($new, catalog_of('updated', "SET allow_system_table_mods = on; $statement")),
		qr/\Q$found\E/, "a difference is found: $what");
}

# Suppose that a release's script has forgotten a privilege
write_script("$current--$next.other", $altered . $added =~ s/GRANT SELECT.*?;//r);
write_script("$next.other", $whole . $added);
my $other = database_with('other', "CREATE EXTENSION gpujoin VERSION '$next.other'");
pop @update;
like(difference($other, database_with('wrong', @update,
			"ALTER EXTENSION gpujoin UPDATE TO '$next.other'")),
	qr/^- .*pg_read_all_stats/m, 'as it is after such an update');

# A new library with the old objects: all functions are looked up by name, so an old catalog works
$node->safe_psql('wrong', 'DROP EXTENSION gpujoin; CREATE EXTENSION gpujoin;
	DROP EXTENSION gpujoin');
log_is_clean($node, 'no crash');
done_testing();
