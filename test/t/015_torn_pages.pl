# A power failure leaves pages that are partly old and partly new. Whatever the parts are, recovery
# restores each page of an index from its first full image in WAL since the last checkpoint: the
# file then equals, byte for byte, that of a server that has not lost a page.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE => 8192, SECTOR => 512 };

# With checksums, a page that was not restored is an error of its own
my $whole = new_server('whole', { extra => ['--data-checksums'] }, 'fsync = off',
	'full_page_writes = on', 'gpujoin.auto_load = off');
$whole->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 20000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(20001, 24000) i;
	SELECT gpujoin_fold('big_k');
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(24001, 27000) i;
	DELETE FROM big WHERE id % 10 = 3;
	VACUUM (INDEX_CLEANUP ON) big;
	CHECKPOINT;
});

# Create, change, free and reuse each kind of page
my $path = $whole->safe_psql('postgres', "SELECT pg_relation_filepath('big_k')");
my %old = map { $_ => slurp_file($whole->data_dir . "/$path$_") } '', '_fsm';
$whole->safe_psql('postgres', q{
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(27001, 30000) i;
	DELETE FROM big WHERE id % 10 = 4;
	VACUUM (INDEX_CLEANUP ON) big;
	SELECT gpujoin_fold('big_k', true);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(30001, 33000) i;
	SELECT gpujoin_fold('big_k');
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(33001, 33500) i;
});
$whole->stop('immediate');
PostgreSQL::Test::RecursiveCopy::copypath($whole->data_dir, $whole->backup_dir . '/crashed');

my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))');

sub recover
{
	my ($node, $name) = @_;

	$node->start;
	is($node->safe_psql('postgres', "SELECT gpujoin_check('big_k', true) = count(*) FROM big"),
		't', "$name: each row has its entry");
	is(join("\n", differing($node, @queries)), '', "$name: answers are PostgreSQL's own");
	$node->stop;
	return { map { $_ => slurp_file($node->data_dir . "/$path$_") } '', '_fsm' };
}

my $new = recover($whole, 'whole');

# Parts of a page that reached the disk: the first sectors of a write, the last, every other, or one
my @is_new = (
	sub { $_[0] < 8 },
	sub { $_[0] >= 8 },
	sub { $_[0] % 2 == 0 },
	sub { $_[0] % 2 == 1 },
	sub { $_[0] == 0 },
	sub { $_[0] == 15 });

sub tear
{
	my ($before, $after, $how) = @_;
	my $zeroes = "\0" x PAGE;
	my ($torn, $n) = ('', 0);

	foreach my $block (0 .. length($after) / PAGE - 1)
	{
		my $from = substr($before . $zeroes x (length($after) / PAGE), $block * PAGE, PAGE);
		my $to = substr($after, $block * PAGE, PAGE);

		$n++ if $from ne $to;
		$torn .= $is_new[ ($block + $how) % @is_new ]->($_)
		  ? substr($to, $_ * SECTOR, SECTOR) : substr($from, $_ * SECTOR, SECTOR)
		  foreach 0 .. PAGE / SECTOR - 1;
	}
	return ($torn, $n);
}

foreach my $how (0, 1, 3)
{
	my $node = PostgreSQL::Test::Cluster->new("torn_$how");

	$node->init_from_backup($whole, 'crashed');
	foreach my $fork ('', '_fsm')
	{
		my ($torn, $n) = tear($old{$fork}, $new->{$fork}, $how);

		cmp_ok($n, '>', $fork eq '' ? 20 : 0, "torn $how: $n pages of big_k$fork");
		open(my $file, '>', $node->data_dir . "/$path$fork") or die "big_k$fork: $!";
		binmode $file;
		print $file $torn;
		close $file;
	}
	ok(recover($node, "torn $how")->{''} eq $new->{''}, "torn $how: each page is as it should be");
	log_is_clean($node, "torn $how: log is clean");
}
done_testing();
