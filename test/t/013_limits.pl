# Limits of structures: runs out of order, for which a reader would need more pages than it has room
# for, and a fold would write a worse run; counts that do not agree, with which a deletion would
# damage the metapage; no number left for another run; no dynamic shared memory left for a parallel
# plan.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Offsets within a page: src/pages/format.h
use constant {
	PAGE => 8192,
	NEXT_RUN => 112,
	LEVEL => 24,
	KEYS => 32,
	TIDS => 32 + 448 * 12,
	KIND => 8184,
	USED => 8188
};
my ($data_kind, $directory_kind) = (4, 5);
my $first_data = 4;    # one lane, and that of NULL keys

my $node = new_server('main', { no_data_checksums => 1 }, 'fsync = off', 'max_connections = 10',
	'gpujoin.auto_load = off');
my @included = map { "c$_" } 1 .. 8;
my $columns = join ', ', map { "$_ bigint" } @included;

# More data pages than are read at a time, with two directory pages above them, but few rows
$node->safe_psql('postgres', "
	CREATE TABLE wide (id int, k int, $columns);
	INSERT INTO wide SELECT i, i / 50 FROM generate_series(1, 200000) i;
	CREATE INDEX i_wide ON wide USING gpujoin (k) INCLUDE (" . join(', ', @included) . ")
		WITH (lanes = 1);" . join('', map { "
	CREATE TABLE $_ (id int, k int);
	INSERT INTO $_ SELECT i, i % 1000 FROM generate_series(1, 3000) i;
	CREATE INDEX i_$_ ON $_ USING gpujoin (k) WITH (lanes = 1);" } qw(swapped count spent)));
my %paths = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
	"SELECT substr(relname, 3), pg_relation_filepath(oid) FROM pg_class
	WHERE relname LIKE 'i\\_%' AND relkind = 'i'");

# Write bytes into an index's file
sub damage
{
	my ($name, $block, $offset, $bytes) = @_;

	open(my $file, '+<', $node->data_dir . "/$paths{$name}") or die "$name: $!";
	binmode $file;
	seek($file, $block * PAGE + $offset, 0);
	print $file $bytes;
	close $file;
}

# Return the blocks of a directory's level, in the order in which they were written
sub directory_pages
{
	my ($name, $level) = @_;
	my $all = slurp_file($node->data_dir . "/$paths{$name}");

	return grep {
		my $kind = unpack('V', substr($all, $_ * PAGE + KIND, 4)) & 15;
		my $at = unpack('v', substr($all, $_ * PAGE + LEVEL, 2));

		$kind == $directory_kind && $at == $level
	} $first_data .. length($all) / PAGE - 1;
}

$node->stop;
my @leaves = directory_pages('wide', 0);
my @roots = directory_pages('wide', 1);
is(scalar @leaves, 2, 'the wide index has two directory pages');
is(scalar @roots, 1, 'and one above them');

# All pages begin with key 1: the very first one already does, and so does one on each directory
# page after all the others. So each search arrives at the first page, never at its target.
my $tid = sub { pack('vvv', 0, 0, $_[0]) };
foreach my $n (0, 1)
{
	damage('wide', $leaves[$n], KEYS, pack('q<', $n) . pack('q<', 1) x 447);
	damage('wide', $leaves[$n], TIDS, $tid->($n) . $tid->(1 - $n) . $tid->(0) x 446);
	damage('wide', $roots[0], KEYS + 8 * $n, pack('q<', $n));
	damage('wide', $roots[0], TIDS + 6 * $n, $tid->($n));
}
damage('swapped', $first_data, 24 + 9 * 4, pack('VV', 4, 3));
damage('count', $first_data, USED, pack('v', 3));
damage('spent', 0, NEXT_RUN, pack('V', 1 << 28));
$node->start;

sub fails
{
	my ($sql, $error, $name) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $sql);

	like($err, qr/ERROR:  $error/, $name);
}

foreach my $want ('k = ANY (ARRAY(SELECT generate_series(1, 40)))',
	'k = ANY (ARRAY(SELECT 1 + 4 * generate_series(0, 40)))')
{
	fails("SET gpujoin.force = on; SELECT count(*), sum(id) FROM wide WHERE $want",
		"index \"i_wide\" is corrupted at block ($leaves[0]|$leaves[1])",
		"a directory that is not in order: $want");
}

# A search of few keys sees too little of a directory to notice that, but comes to an end.
foreach my $want ('k = ANY (ARRAY[1])', 'k = ANY (ARRAY[1, 5, 7])')
{
	my ($status, $out, $err) = $node->psql('postgres', "SET gpujoin.force = on;
		SET statement_timeout = '60s'; SELECT count(*), sum(id) FROM wide WHERE $want");

	unlike($err, qr/timeout/, "a directory that is not in order, few keys: $want");
}

$node->safe_psql('postgres', 'INSERT INTO swapped SELECT i, i FROM generate_series(1, 500) i');
fails("SELECT gpujoin_fold('i_swapped', true)",
	"index \"i_swapped\" is corrupted at block $first_data",
	'a run that is not in order is not folded');

fails('DELETE FROM count WHERE id % 10 = 0; VACUUM (INDEX_CLEANUP on) count',
	"index \"i_count\" is corrupted at block $first_data",
	'what a page miscounts is not deleted from it');
is($node->safe_psql('postgres', "SET gpujoin.force = on;
	SELECT count(*) FROM count WHERE k = ANY (ARRAY[990, 995, 999])"), 6,
	'and the metapage is as it was');

my ($status, $out, $err) = $node->psql('postgres', 'DELETE FROM spent WHERE id % 2 = 0;
	VACUUM (INDEX_CLEANUP on) spent');
is($status, 0, 'VACUUM goes on without a number for another run');
like($err, qr/WARNING:  index "i_spent" has been folded too often/, 'but says so');
fails("SELECT gpujoin_fold('i_spent', true)", 'index "i_spent" has been folded too often',
	'who wants a fold is told, too');
is($node->safe_psql('postgres', "SET gpujoin.force = on;
	SELECT count(*) FROM spent WHERE k = ANY (ARRAY[3, 5, 8])"), 6, 'nothing is lost');

# A parallel plan that cannot share anything with workers, and gets none
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0; SET gpujoin.setup_cost = 0; SET enable_seqscan = off;
	SET gpujoin.aggregate = off; SET enable_bitmapscan = off; SET gpujoin.force = on;';
foreach my $what ('count(*), sum(id)', 'count(k), sum(k)')
{
	my $query = "SELECT $what FROM spent WHERE k = ANY (ARRAY(
		SELECT i FROM generate_series(0, 999) i WHERE i % 10 IN (3, 7)))";

	like($node->safe_psql('postgres', "$parallel EXPLAIN (COSTS OFF) $query"),
		qr/Gather.*Parallel Custom Scan \(GpuScan\)/s, "plan: $what");
	($status, $out, $err) = $node->psql('postgres', "$parallel
		SELECT gpujoin_exhaust_dsm() > 0; $query");
	is($out, "t\n" . $node->safe_psql('postgres', "SET gpujoin.enabled = off; $query"),
		"no dynamic shared memory: $what");
}

$node->stop;
done_testing();
