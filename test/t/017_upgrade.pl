# pg_upgrade to each newer PostgreSQL that this machine has: the indexes' files are kept, the
# indexes are valid, none of them is rebuilt, and the new server's gpujoin reads, changes, folds and
# checks them. gpujoin is built for the newer server in a private copy of that server.
#
# A pg_upgrade that fails says why. Some minor releases mark columns with an option that an older
# release of a newer major version refuses (docs/operations.md). Then the upgrade of a plain table
# without gpujoin must fail in the same way, and the test goes on without the marks.
#
# UPGRADE_TO=/.../pg_config names the newer server, if it is not in Debian's location.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'builds gpujoin anew; CHECK_LONG=1 runs it' if !$ENV{CHECK_LONG};

my $source = "$FindBin::RealBin/../..";
my $old_bin = `pg_config --bindir`;
chomp $old_bin;
my $old_version = version(`pg_config --version`);

# Find the pg_config of complete servers: those with programs, headers and makefiles
my @newer = grep {
	my $config = $_;
	my ($bin, $pgxs, $headers) =
		map { `$config --$_ 2>/dev/null` } qw(bindir pgxs includedir-server);

	chomp($bin, $pgxs, $headers);
	-x "$bin/pg_upgrade" && -e $pgxs && -e "$headers/postgres.h"
	  && version(`$config --version`) > $old_version;
} $ENV{UPGRADE_TO} ? $ENV{UPGRADE_TO} : map { "/usr/lib/postgresql/$_/bin/pg_config" } 16 .. 19;

plan skip_all => "there is no PostgreSQL newer than $old_version with pg_upgrade and headers"
  if !@newer;

sub version { return $_[0] =~ /(\d+)/ ? $1 : 0; }

# Make a private copy of a server with gpujoin installed; return its bin directory
sub build_for
{
	my ($config, $folder) = @_;
	my $copied = qx{env -u MAKEFLAGS -u MAKELEVEL bash -c '
		set -e
		source "$source/test/setup.sh"
		pgbin=\$("$config" --bindir) work=$folder
		copy_sources
		copy_postgres
		for part in . test/module; do
			make -s -j2 -C $folder/src/\$part PG_CONFIG="\$private_pg_config" NVCC= with_llvm=no \\
				all install >>$folder/build.log 2>&1
		done
		dirname "\$(dirname "\$private_pg_config")"'};

	die "gpujoin could not be built for $config:\n" . slurp_file("$folder/build.log") if $? != 0;
	chomp $copied;
	return $copied;
}

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT * FROM big WHERE b IN (3, 30, 300)',
	'SELECT * FROM parts WHERE k IN (4, 40, 400)',
	'SELECT b.id FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s');
my @indexes = qw(big_k big_b big_d part_1_k_idx part_2_k_idx tiny_k);

# Keys of which indexes have hashes, codes and rests, and INCLUDE columns of two words and scales
my %keys = (
	u => 'id(i)', t => "'text number ' || i", i => 'id(i)::text', v => "'v' || i",
	c => "'code ' || i", b => 'decode(md5(i::text), \'hex\')', n => 'i / 4.0',
	a => "('10.1.' || i / 256 || '.' || i % 256)::inet",
	e => "(enum_range(NULL::state))[1 + i % 5]");

foreach my $key (sort keys %keys)
{
	push @indexes, "keys_$key";
	push @queries, "SELECT * FROM keys WHERE $key = ANY (ARRAY(SELECT $keys{$key}
		FROM generate_series(1, 1200, 7) i))",
	  "SELECT $key, id, s, w FROM keys WHERE ($key, s) IN (SELECT $keys{$key}, 'state ' || i % 3
		FROM generate_series(1, 1200, 7) i) AND w IS NOT NULL",
	  "SELECT count(*), sum(m) FROM keys JOIN (SELECT $keys{$key} AS x
		FROM generate_series(1, 1200, 7) i) q ON $key = x";
}
my $valid = sprintf("SELECT count(*) FROM pg_index WHERE indisvalid AND indisready
	AND indexrelid::regclass::text IN (%s)", join(', ', map { "'$_'" } @indexes));

# Create runs, a delta, tails, deleted entries, an unfinished fold, an index without rows
sub fill
{
	my $node = shift;

	$node->safe_psql('postgres', q{
		CREATE TABLE big (id int, k int, b bigint, d date, v int);
		INSERT INTO big SELECT i, i % 1000, i % 777, '2000-01-01'::date + i % 500, i
			FROM generate_series(1, 20000) i;
		CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
		CREATE INDEX big_b ON big USING gpujoin (b);
		CREATE INDEX big_d ON big USING gpujoin (d);
		CREATE TABLE parts (id int, k int) PARTITION BY RANGE (id);
		CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (500);
		CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (500) TO (5000);
		CREATE INDEX ON parts USING gpujoin (k);
		INSERT INTO parts SELECT i, i % 500 FROM generate_series(1, 3000) i;
		CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE LANGUAGE sql
			AS $$ SELECT overlay(md5($1::text) PLACING '8' FROM 17 FOR 1)::uuid $$;
		CREATE TYPE state AS ENUM ('new', 'open', 'paid', 'sent', 'gone');
		CREATE TABLE keys (id int, u uuid, t text, i text, v varchar(9), c char(20), b bytea,
			n numeric, a inet, e state, w uuid, s text, m numeric(12, 2));
		CREATE FUNCTION fill_keys(int, int) RETURNS void LANGUAGE sql AS $$
			INSERT INTO keys SELECT j, id(i), 'text number ' || i, id(i)::text, 'v' || i,
				'code ' || i, decode(md5(i::text), 'hex'), i / 4.0,
				('10.1.' || i / 256 || '.' || i % 256)::inet, (enum_range(NULL::state))[1 + i % 5],
				CASE WHEN i % 9 > 0 THEN id(j) END, repeat('state ' || i % 3, 1 + i / 900), i / 7.0
			FROM generate_series($1, $2) j, LATERAL (SELECT j % 1000 AS i) l $$;
		SELECT fill_keys(1, 5000);
		CREATE INDEX keys_u ON keys USING gpujoin (u) INCLUDE (id, s, w, m);
		CREATE INDEX keys_t ON keys USING gpujoin (t) INCLUDE (id, s, w, m);
		CREATE INDEX keys_i ON keys USING gpujoin (i text_id_ops) INCLUDE (id, s, w, m);
		CREATE INDEX keys_v ON keys USING gpujoin (v) INCLUDE (id, s, w, m);
		CREATE INDEX keys_c ON keys USING gpujoin (c) INCLUDE (id, s, w, m);
		CREATE INDEX keys_b ON keys USING gpujoin (b) INCLUDE (id, s, w, m);
		CREATE INDEX keys_n ON keys USING gpujoin (n) INCLUDE (id, s, w, m);
		CREATE INDEX keys_a ON keys USING gpujoin (a) INCLUDE (id, s, w, m);
		CREATE INDEX keys_e ON keys USING gpujoin (e) INCLUDE (id, s, w, m);
		SELECT fill_keys(5001, 5400);
		VACUUM ANALYZE keys;
		CREATE TABLE tiny (k int);
		CREATE INDEX tiny_k ON tiny USING gpujoin (k);
		INSERT INTO big SELECT i, i % 1000, i % 777, '2000-01-01'::date + i % 500, i
			FROM generate_series(20001, 23000) i;
		SELECT gpujoin_fold('big_k');
		DELETE FROM big WHERE id % 20 = 3;
		VACUUM big;
		INSERT INTO big SELECT i, i % 1000, i % 777, '2000-01-01'::date + i % 500, i
			FROM generate_series(23001, 25000) i;});
	$node->psql('postgres', q{SET gpujoin.debug_step = 'written error';
		SELECT gpujoin_fold('big_b')});
	return;
}

# Upgrade a stopped server to a new one of HOME; return that, and the errors in pg_upgrade's logs
sub upgrade
{
	my ($old, $name, $home, $version) = @_;
	my $new = PostgreSQL::Test::Cluster->new($name, install_path => $home);
	my @errors;

	$new->init(extra => $version >= 18 ? ['--no-data-checksums'] : []);
	$new->append_conf('postgresql.conf', "shared_preload_libraries = 'gpujoin'
		autovacuum = off\nfsync = off");
	chdir $new->basedir;
	return $new if run_log([ "$home/bin/pg_upgrade", '-b', $old_bin, '-B', "$home/bin",
			'-d', $old->data_dir, '-D', $new->data_dir, '-p', $old->port, '-P', $new->port,
			'-s', $new->host, '-j', '2' ]);
	push @errors, slurp_file($_) =~ /^(.*(?:error|ERROR|FATAL|PANIC): .*)$/mg
	  foreach glob $new->data_dir . '/pg_upgrade_output.d/*/log/*.log';
	return ($new, @errors ? @errors : 'pg_upgrade failed');
}

# Is it so without gpujoin? Upgrade a server that has a plain table
sub upgrade_of_stock
{
	my ($name, @target) = @_;
	my $stock = PostgreSQL::Test::Cluster->new($name);

	$stock->init(no_data_checksums => 1);
	$stock->start;
	$stock->safe_psql('postgres', 'CREATE TABLE plain (a int)');
	$stock->stop;
	return upgrade($stock, "${name}_after", @target);
}

foreach my $config (@newer)
{
	my $version = version(`$config --version`);
	my $name = "$old_version to $version";
	my $home = build_for($config, PostgreSQL::Test::Utils::tempdir);
	my $old = new_server("before_$version", { no_data_checksums => 1 }, 'fsync = off');

	fill($old);
	is($old->safe_psql('postgres', $valid), scalar @indexes, "$name: valid before");
	my %info = map {
		$_ => $old->safe_psql('postgres', "SELECT gpujoin_check('$_', true), * FROM
			gpujoin_index_info('$_')")
	} @indexes;
	my @rows = map { $old->safe_psql('postgres', "SELECT count(*), md5(string_agg(t::text, ','
		ORDER BY t::text)) FROM ($_) t") } @queries;
	$old->stop;

	my ($new, @errors) = upgrade($old, "after_$version", $home, $version);
	if (grep { /"pg_attver"/ } @errors)
	{
		my (undef, @of_stock) = upgrade_of_stock("stock_$version", $home, $version);

		note "$name: without marks of columns, which this target does not know";
		like("@of_stock", qr/"pg_attver"/, "$name: it fails without gpujoin, too");
		$old->start;
		$old->safe_psql('postgres', q{UPDATE pg_attribute SET attoptions = NULL
			WHERE attoptions::text LIKE '{pg_attver=%}'});
		$old->stop;
		($new, @errors) = upgrade($old, "again_$version", $home, $version);
	}
	is(join("\n", @errors), '', "$name: pg_upgrade");
	$new->start;
	is($new->safe_psql('postgres', $valid), scalar @indexes, "$name: valid afterwards");
	is($new->safe_psql('postgres', "SELECT gpujoin_check('$_', true), * FROM
			gpujoin_index_info('$_')"), $info{$_}, "$name: $_ is as it was") foreach @indexes;
	$new->safe_psql('postgres', 'ANALYZE');
	is(join("\n", differing($new, @queries)), '', "$name: answers are PostgreSQL's own");
	is($new->safe_psql('postgres', "SELECT count(*), md5(string_agg(t::text, ','
		ORDER BY t::text)) FROM ($queries[$_]) t"), $rows[$_], "$name: same rows as before: $_")
	  foreach 0 .. $#queries;
	ok(uses_node($new, 'GpuScan', $queries[0]), "$name: a scan of ours is in the plan");

	$new->safe_psql('postgres', q{
		INSERT INTO big SELECT i, i % 1000, i % 777, '2000-01-01'::date + i % 500, i
			FROM generate_series(25001, 28000) i;
		INSERT INTO tiny SELECT generate_series(1, 2000);
		SELECT fill_keys(5401, 6000);
		SELECT gpujoin_fold('keys_u'), gpujoin_fold('keys_i');
		INSERT INTO parts SELECT i, i % 500 FROM generate_series(3001, 4900) i;
		DELETE FROM big WHERE id % 20 = 5; VACUUM (INDEX_CLEANUP ON) big;
		SELECT gpujoin_fold('big_k'), gpujoin_fold('big_b', true), gpujoin_fold('big_d');});
	is($new->safe_psql('postgres', "SELECT gpujoin_check('$_', true) > 0"), 't',
		"$name: $_ is right after use") foreach @indexes;
	is(join("\n", differing($new, @queries)), '', "$name: so are answers");
	log_is_clean($new, "$name: log is clean");
	$new->stop;
}
done_testing();
