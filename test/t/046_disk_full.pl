# A file system that is really full: insertions, folds, builds, sorts and VACUUM fail or succeed,
# nothing is lost, and all succeed when there is room again. First an index on a small file system
# with room for only a few pages, then the WAL: there PostgreSQL itself stops, and recovers.
#
# SMALL_DISK names a directory on a separate file system of about 32 MB, which the tests fill up.
# test/check.sh creates one if it has the privileges.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $disk = $ENV{SMALL_DISK};

plan skip_all => 'SMALL_DISK does not name a small file system; as root, make check has one'
  if !$disk || !-d $disk || !-w $disk || (stat $disk)[0] == (stat "$disk/..")[0];

# Fill the file system except for this many pages, or release the filler.
sub leave_room
{
	my ($pages) = @_;
	my $page = "\0" x 8192;

	unlink "$disk/filler";
	return if !defined $pages;
	open(my $file, '>', "$disk/filler") or die "$disk/filler: $!";
	1 while (syswrite($file, $page) // 0) == 8192;
	truncate($file, (-s $file) - ((-s $file) % 8192) - $pages * 8192);
	close($file);
	return;
}

my @queries = (
	'SELECT * FROM wide WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT k, v FROM wide WHERE k = ANY (ARRAY(SELECT generate_series(0, 29999, 7)))',
	'SELECT b.v FROM generate_series(0, 990, 13) s JOIN wide b ON b.k = s');
my $insert = 'INSERT INTO wide SELECT i * 7919 % 30000, i FROM generate_series(1, %s) i';
my $columns = join(', ', ('v') x 13);
my $no_room = qr/No space left on device/;

sub is_right
{
	my ($node, $name) = @_;

	is($node->safe_psql('postgres',
			q{SELECT gpujoin_check('wide_k', true) >= count(*) FROM wide}),
		't', "$name: all rows are there");
	is(join("\n", differing($node, @queries)), '', "$name: answers are PostgreSQL's own");
}

# An index that cannot grow
mkdir "$disk/space";
my $node = new_server('main', { extra => ['--wal-segsize=1'] }, 'fsync = off',
	"gpujoin.device = 'reference'", 'max_wal_size = 256MB', 'gpujoin.fold_workers = 0');
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$disk/space'");
$node->safe_psql('postgres', qq{
	CREATE TABLE wide (k int, v int);
	CREATE INDEX wide_k ON wide USING gpujoin (k) INCLUDE ($columns) WITH (lanes = 2)
		TABLESPACE small;
	INSERT INTO wide SELECT i, i FROM generate_series(1, 5000) i;});
foreach my $pages (0, 1, 2, 8)
{
	my $name = "$pages pages free";
	my $folded;

	leave_room($pages);
	my ($status, $out, $err) = $node->psql('postgres', sprintf($insert, 30000));
	like($err, $no_room, "$name: an insertion fails");
	is_right($node, $name);
	($status, $out, $folded) = $node->psql('postgres', "SELECT gpujoin_fold('wide_k', true)");
	like($folded, qr/^$|$no_room/, "$name: a fold succeeds or fails for want of room");
	is_right($node, "$name, after the fold");
	$node->psql('postgres', 'DELETE FROM wide WHERE v % 100 = 5; VACUUM (INDEX_CLEANUP ON) wide');
	is_right($node, "$name, after VACUUM");
	# buffered pages have their place in the file already, and recovery needs no more
	$node->stop('immediate');
	$node->start;
	is_right($node, "$name, after a crash");
	leave_room(undef);
	$node->safe_psql('postgres', sprintf($insert, 700) . q{; SELECT gpujoin_fold('wide_k')});
	is_right($node, "$name, then there is room");
}

# Builds: the index file, and the external sort
$node->safe_psql('postgres', sprintf($insert, 100000));
my $build = "INDEX wide_b ON wide USING gpujoin (k) INCLUDE ($columns)";
my $used = sub { my ($k) = `du -sk '$disk/space'` =~ /^(\d+)/; return $k; };
my $before = $used->();

leave_room(200);
my ($status, $out, $err) = $node->psql('postgres', "CREATE $build TABLESPACE small");
like($err, $no_room, 'a build fails');
is($used->(), $before, 'what it had written is gone');
($status, $out, $err) = $node->psql('postgres',
	"SET maintenance_work_mem = '1MB'; SET temp_tablespaces = small; CREATE $build");
like($err, $no_room, 'a build that sorts outside of memory fails');
($status, $out, $err) = $node->psql('postgres', 'CREATE ' . $build =~ s/INDEX/INDEX CONCURRENTLY/r
	. ' TABLESPACE small');
like($err, $no_room, 'a concurrent build fails');
is($node->safe_psql('postgres', q{SELECT indisvalid FROM pg_index
	WHERE indexrelid = 'wide_b'::regclass}), 'f', 'and leaves an index that is not valid');
is_right($node, 'with an index that is not valid');
$node->safe_psql('postgres', 'DROP INDEX wide_b');
($status, $out, $err) = $node->psql('postgres', 'REINDEX INDEX wide_k');
like($err, $no_room, 'an index cannot be made anew');
is_right($node, 'the old one is kept');
leave_room(undef);
$node->safe_psql('postgres', "REINDEX INDEX wide_k; CREATE $build");
is($node->safe_psql('postgres', "SELECT gpujoin_check('wide_b', true) = count(*) FROM wide"), 't',
	'with room it is built');
is_right($node, 'and the other one made anew');

# Space that failures have left in the file is reused
$node->safe_psql('postgres', q{DROP INDEX wide_b; DELETE FROM wide WHERE k % 3 = 0;
	VACUUM (INDEX_CLEANUP ON) wide; SELECT gpujoin_fold('wide_k', true);
	DELETE FROM wide WHERE k % 3 = 1; VACUUM (INDEX_CLEANUP ON) wide;});
leave_room(0);
$node->safe_psql('postgres', sprintf($insert, 5000));
is_right($node, 'without room, but with free pages');
leave_room(undef);
log_is_clean($node, 'log is clean');
$node->safe_psql('postgres', 'DROP TABLE wide; DROP TABLESPACE small');
$node->stop;

# WAL that cannot be written: the server stops in the middle of it
$node = new_server('wal', { extra => [ '--wal-segsize=1', "--waldir=$disk/wal" ] },
	'fsync = off', 'wal_recycle = off', "min_wal_size = '2MB'", "max_wal_size = '4MB'");
$node->safe_psql('postgres', qq{
	CREATE TABLE wide (k int, v int);
	CREATE INDEX wide_k ON wide USING gpujoin (k) INCLUDE (v) WITH (lanes = 2);
	INSERT INTO wide SELECT i, i FROM generate_series(1, 20000) i;});
my %steps = (
	insertion => sprintf($insert, 20000),
	build => "CREATE $build",
	fold => "SELECT gpujoin_fold('wide_k', true)",
	vacuum => 'VACUUM (INDEX_CLEANUP ON) wide');

foreach my $step (sort keys %steps)
{
	my $offset = -s $node->logfile;

	$node->safe_psql('postgres', sprintf($insert, 20000)
		. '; DELETE FROM wide WHERE v % 7 = 3; CHECKPOINT');
	leave_room(0);
	# the rest of the last segment, less than a megabyte, can still be written
	($status, $out, $err) = $node->psql('postgres', "$steps{$step}; "
		. 'INSERT INTO wide SELECT i, i FROM generate_series(1, 100000) i');
	isnt($status, 0, "WAL without room during $step: the server stops");
	like(slurp_file($node->logfile, $offset), qr/PANIC: .*No space/, "WAL without room: $step");
	leave_room(undef);
	$node->stop('immediate', fail_ok => 1);
	$node->start;
	is_right($node, "WAL without room during $step, then with");
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS wide_b');
}
unlike(slurp_file($node->logfile), qr/TRAP|XX00[12]|terminated by signal (?!6)/,
	'nothing worse has happened');
$node->stop;
system('rm', '-rf', "$disk/space", "$disk/wal");
done_testing();
