# Damaged index pages: each query, insertion, VACUUM and check ends in an error that names index and
# block (SQLSTATE XX002) or does what it should; nothing crashes or hangs. What no reader can see,
# since the page is as good as another one (a key, a TID, a bit), gpujoin_check() finds.
#
# Each kind of damage is done to an index of its own while the server is down, to have one restart
# for all of them. Data checksums are off (PostgreSQL 18 would have them on).

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

# Where things are in a page: src/pages/format.h
use constant {
	PAGE => 8192,
	META => 0,
	JOURNAL => 1,
	TAIL => 2,
	MAGIC => 24,
	VERSION => 28,
	SEQUENCE => 40,
	FLOOR => 56,
	JOURNAL_NEXT => 64,
	JOURNAL_USED => 68,
	JOURNAL_START => 72,
	JOURNAL_BLOCKS => 76,
	FIRST_DATA => 80,
	MIN_BLOCKS => 84,
	SLOTS => 90,
	USED_OFFSET => 92,
	NCOLUMNS => 94,
	TAIL_ROWS => 96,
	NLANES => 98,
	KEY_WIDTH => 100,
	KEY_OFFSET => 102,
	TID_OFFSET => 110,
	VALUE_WIDTH => 116,
	VALUE_OFFSET => 118,
	NULLS_OFFSET => 120,
	LANES => 356,
	CHANGE => 8160,
	MIN_KEY => 8168,
	MAX_KEY => 8176,
	USED => 8184,
	KIND => 8186,
	FLAGS => 8187,
	PAGE_ID => 8190
};
my $first_data = 2 + 1;    # one lane
my $slots = 800;           # of 4-byte keys
my $cover_slots = 544;     # and a 4-byte INCLUDE column
my $tids = 24 + $slots * 4;
my $wanted_tid = $tids + 2 * 6;    # of slot 2, whose key 3 the queries ask for
my $bitmap = $tids + $slots * 6;

# name => [block, offset, bytes, what gpujoin_check() has to say]
#   damaged    XX002
#   version    0A000
#   header     XX001: PostgreSQL itself refuses the page
#   either     the damage may be harmless
#   short      the file has lost its end: whoever needs the index notices
#   counted    the same, as far as anybody can tell
my %damages;

sub damage
{
	my ($name, $block, $offset, $bytes, $verdict) = @_;
	$damages{$name} = [ $block, $offset, $bytes, $verdict // 'damaged' ];
}

my %numbers = (zero => 0, one => 1, big => 0xffff, odd => 0x1234);

foreach my $block (META, JOURNAL, TAIL, $first_data)
{
	my $page = { META, 'meta', JOURNAL, 'journal', TAIL, 'tail', $first_data, 'data' }->{$block};

	damage("${page}_kind", $block, KIND, pack('C', 77));
	damage("${page}_kind_other", $block, KIND, pack('C', $block == TAIL ? 4 : 3));
	damage("${page}_page_id", $block, PAGE_ID, pack('v', 0));
	damage("${page}_zeroes", $block, 0, "\0" x PAGE);
	damage("${page}_garbage", $block, 24, join('', map { chr($_ * 37 % 256) } 24 .. PAGE - 1));
	damage("${page}_special", $block, 16, pack('v', 8176));
	damage("${page}_upper", $block, 14, pack('v', 8192), 'header');
	damage("${page}_page_size", $block, 18, pack('v', 0x1004), 'header');
	damage("${page}_header", $block, 0, "\xff" x 24, 'header');
	damage("${page}_used_big", $block, USED, pack('v', 0xffff));
}
damage('magic', META, MAGIC, pack('V', 0));
damage('version', META, VERSION, pack('V', 99), 'version');
damage('sequence_zero', META, SEQUENCE, pack('Q<', 0));
foreach my $field (qw(JOURNAL_NEXT JOURNAL_USED JOURNAL_START JOURNAL_BLOCKS FIRST_DATA))
{
	damage(lc "${field}_$_", META, __PACKAGE__->can($field)->(), pack('V', $numbers{$_} * 0x10001))
	  foreach qw(big odd);
}
damage('first_data_zero', META, FIRST_DATA, pack('V', 0));
foreach my $field (qw(SLOTS USED_OFFSET NCOLUMNS TAIL_ROWS NLANES KEY_WIDTH KEY_OFFSET TID_OFFSET))
{
	damage(lc "${field}_$_", META, __PACKAGE__->can($field)->(), pack('v', $numbers{$_}))
	  foreach qw(zero big odd);
}
damage('tail_rows_more', META, TAIL_ROWS, pack('v', 65), 'either');
damage('nlanes_more', META, NLANES, pack('v', 2));
my %blocks = (own_tail => TAIL, meta => META, journal => JOURNAL, absent => 5000,
	huge => 0xfffffffe);
damage("open_$_", META, LANES, pack('V', $blocks{$_})) foreach keys %blocks;
damage('open_other_data', META, LANES, pack('V', $first_data), 'either');
# two lanes, on which tails and data pages move up by one block
damage('two_lanes_less', META, NLANES, pack('v', 1));
damage('two_lanes_crossed', META, LANES, pack('VV', TAIL + 1, TAIL));
damage('two_lanes_same', META, LANES, pack('V', $first_data + 1) x 2);
damage('journal_sequence', JOURNAL, 24, pack('Q<', ~0));
damage('journal_start_block', JOURNAL, 24 + 8, pack('V', 0xffffff));
damage('journal_end_block', JOURNAL, 24 + 12, pack('V', 0xffffff));
damage('journal_entry_kind', JOURNAL, 24 + 16, pack('V', 9));
damage('journal_floor', META, FLOOR, pack('Q<', ~0));
damage('tail_used_more', TAIL, USED, pack('v', 65));
damage('tail_used_most', TAIL, USED, pack('v', 800));
damage('tail_lower', TAIL, 12, pack('v', 24));
damage('tail_key', TAIL, 24, pack('V', 4321));
damage('tail_tid', TAIL, 24 + 4, pack('vvv', 0, 0, 0));
damage('tail_tid_far', TAIL, 24 + 4, pack('vvv', 0xffff, 0xfffe, 1));
damage('tail_tid_other', TAIL, 24 + 4, pack('vvv', 0, 0, 9));
damage('tail_tid_offset', TAIL, 24 + 4, pack('vvv', 0, 1, 0xffff));
damage('tail_bounds', TAIL, MIN_KEY, pack('q<', 900));
damage('data_change', $first_data, CHANGE, pack('Q<', 1 << 60));
damage('data_used_less', $first_data, USED, pack('v', 3));
damage('data_used_none', $first_data, USED, pack('v', 0));
damage('data_min', $first_data, MIN_KEY, pack('q<', 900));
damage('data_max', $first_data, MAX_KEY, pack('q<', 2));
damage('data_key', $first_data, 24, pack('V', 999));
damage('data_key_out', $first_data, 24, pack('V', 999999));
damage('data_keys', $first_data, 24, "\x07\0\0\0" x $slots);
damage('data_tid_none', $first_data, $wanted_tid, "\0" x 6);
damage('data_tid_all', $first_data, $tids, "\xff" x (6 * $slots));
damage('data_tid_far', $first_data, $wanted_tid, pack('vvv', 0x7fff, 0xfffe, 1));
damage('data_tid_offset', $first_data, $wanted_tid, pack('vvv', 0, 0, 2047));
damage('data_tid_offset_most', $first_data, $wanted_tid, pack('vvv', 0, 0, 0xffff));
damage('data_tid_twice', $first_data, $wanted_tid, pack('vvv', 0, 0, 2));
damage('data_tids_same', $first_data, $tids, pack('vvv', 0, 0, 2) x $slots);
damage('data_bitmap_less', $first_data, $bitmap, "\xfe");
damage('data_bitmap_none', $first_data, $bitmap, "\0" x ($slots / 8));
damage('data_open', $first_data, FLAGS, pack('C', 1));
damage('data_flags', $first_data, FLAGS, pack('C', 255));
damage('none', META, 0, '', 'sound');

# Indexes with an INCLUDE column, of which no query knows the values but the check does.
my $values = 24 + $cover_slots * 10;
my $nulls = $values + $cover_slots * 4 + $cover_slots / 8;
damage('cover_none', META, 0, '', 'sound');
foreach my $field (qw(NCOLUMNS VALUE_WIDTH VALUE_OFFSET NULLS_OFFSET))
{
	damage(lc "cover_${field}_$_", META, __PACKAGE__->can($field)->(), pack('v', $numbers{$_}))
	  foreach qw(zero big odd);
}
damage('cover_tail_rows_more', META, TAIL_ROWS, pack('v', 5000));
damage('cover_value', $first_data, $values + 2 * 4, pack('V', 4711));
damage('cover_values', $first_data, $values, "\xff" x (4 * $cover_slots));
damage('cover_null', $first_data, $nulls, "\xff");
damage('cover_nulls', $first_data, $nulls, "\xff" x ($cover_slots / 8));
damage('cover_tail_used_more', TAIL, USED, pack('v', 65));
damage('cover_tail_value', TAIL, 24 + 10, pack('V', 4711));
damage('cover_tail_null', TAIL, 24 + 14, "\x01");

# One byte anywhere, but for the page's LSN: a byte there makes PostgreSQL wait for WAL to come.
srand(20261121);
foreach my $i (1 .. 40)
{
	my $block = ($i * 5) % 7;
	damage("random$i", $block, 16 + int(rand(PAGE - 16)), pack('C', int(rand(256))), 'either');
}

# Cut off before each of the fixed pages, before the data pages, amid them, and before the last one.
# A session that has not looked at the index yet has both counts to tell.
damage("truncated_$_", $_, undef, undef, 'short') foreach (0, 1, TAIL, $first_data, 4, 6, 7);
damage("cover_truncated_$_", $_, undef, undef, 'short') foreach ($first_data, 8);
damage("built_truncated_$_", $_, undef, undef, 'short') foreach ($first_data, 6);

# The count itself. One that is too low makes nobody see less; the last page that is counted must be
# in use, or the file was cut and then filled up with zeroes.
damage("min_blocks_$_", META, MIN_BLOCKS, pack('V', $_ eq 'most' ? ~0 & 0xffffffff : $_), 'counted')
  foreach (9, 5000, 'most');
damage("min_blocks_$_", META, MIN_BLOCKS, pack('V', $_))
  foreach (0, $first_data - 1, $first_data, 7);
damage("built_last_zeroes", 6, 0, "\0" x PAGE);

# ---------------------------------------------------------------------------------------------
# Make the indexes, damage them
# ---------------------------------------------------------------------------------------------

my $node = new_server('main', { no_data_checksums => 1 }, 'fsync = off', 'log_statement = none',
	'log_min_messages = warning');
my @names = sort keys %damages;

# Every fifth row comes after the build, through the tails; some rows have died, so that the journal
# has something to say and pages have free slots.
$node->safe_psql('postgres', join("\n", map {
		"CREATE TABLE t_$_ (id int, k int);
		INSERT INTO t_$_ SELECT i, i % 1000 FROM generate_series(1, 3000) i;
		CREATE INDEX i_$_ ON t_$_ USING gpujoin (k)" . (/^cover/ ? ' INCLUDE (id)' : '') . "
			WITH (lanes = " . (/two_lanes/ ? 2 : 1) . ");
" . (/^built/ ? '' : "
		DELETE FROM t_$_ WHERE id % 10 = 0;
		VACUUM t_$_;
		INSERT INTO t_$_ SELECT i, i % 1000 FROM generate_series(3001, 3850) i;")
	} @names));
my $layout = $node->safe_psql('postgres',
	"SELECT slots_per_page, lanes, format_version FROM gpujoin_index_info('i_none')");
is($layout, "$slots|1|1", 'the format is the one that this test knows');
is($node->safe_psql('postgres', "SELECT slots_per_page FROM gpujoin_index_info('i_cover_none')"),
	$cover_slots, 'and that of an index with an INCLUDE column');

my %files = map { split /\|/ } split /\n/,
  $node->safe_psql('postgres', "SELECT substr(relname, 3), pg_relation_filepath(oid) FROM pg_class
	WHERE relname LIKE 'i\\_%' AND relkind = 'i'");
my ($in_set, $all) = map {
	$node->safe_psql('postgres', "SELECT count(*), sum(id) FROM t_none" . $_)
} ' WHERE k % 10 IN (3, 7)', '';

$node->stop;
my $sound = slurp_file($node->data_dir . '/' . $files{none});
is(unpack('V', substr($sound, MAGIC, 4)), 0x4A504721, 'the metapage is where this test looks');
cmp_ok(unpack('v', substr($sound, TAIL * PAGE + USED, 2)), '>', 0, 'a tail page has rows');
cmp_ok(unpack('V', substr($sound, JOURNAL_USED, 4)), '>', 1, 'the journal has entries');
is(length($sound), 8 * PAGE, 'the index has the length from which this test cuts');

foreach my $name (@names)
{
	my ($block, $offset, $bytes) = @{ $damages{$name} };
	my $path = $node->data_dir . '/' . $files{$name};

	open(my $file, '+<', $path) or die "$path: $!";
	binmode $file;
	if (defined $offset)
	{
		seek($file, $block * PAGE + $offset, 0);
		print $file $bytes;
	}
	else
	{
		truncate($file, $block * PAGE);
	}
	close $file;
}
$node->start;
my $postmaster = slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr;

# ---------------------------------------------------------------------------------------------
# What comes of it
# ---------------------------------------------------------------------------------------------

my $offset = -s $node->logfile;
my (@wrong, @hung, %verdicts);

# All in one session, which also shows that no error leaves anything locked.
my ($session, $in, $out, $err);
my $timer = IPC::Run::timer(120);

sub open_session
{
	($in, $out, $err) = ('', '', '');
	$session = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose',
			'-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err, $timer);
	return;
}

# To how many blocks was an index cut?  None means that there is no metapage to count them.
sub truncated_to { return $damages{ $_[0] }[0]; }

# Run SQL; return its output, or SQLSTATE and message of its first error. A statement that hangs on
# a page lock cannot be interrupted, so the server is killed.
sub outcome
{
	my ($name, $what, $sql) = @_;

	open_session() unless $session;
	$out = $err = '';
	$in .= "RESET ALL; $sql;\n\\echo end of outcome\n\\warn end of outcome\n";
	$timer->start;
	unless (pump_until($session, $timer, \$out, qr/^end of outcome$/m)
		&& pump_until($session, $timer, \$err, qr/^end of outcome$/m))
	{
		my $hung = $timer->is_expired;

		$session->kill_kill;
		undef $session;
		return 'lost connection' unless $hung;
		push @hung, "$name: $what";
		$node->stop('immediate');
		$node->start;
		return 'hung';
	}
	return $out =~ s/\n?end of outcome\n//r if $err !~ /ERROR|FATAL|PANIC/;

	my ($state, $message) = $err =~ /(?:ERROR|FATAL|PANIC):  (\w{5}): (.*)/;
	# an error of ours names index and block; PostgreSQL's own name file and block
	my $ours = qr/^index "i_$name" is corrupted at block \d+$|lacks an entry in index "i_$name"$/;
	return "XX002" if $state eq 'XX002' && $message =~ $ours;
	return "short" if $state eq 'XX002' && $message eq "index \"i_$name\" is too short"
	  && $err =~ /^DETAIL:  Its file has \d+ blocks, but the metapage counts \d+\.$/m
	  && $err =~ /^HINT:  Please REINDEX it\.$/m;
	return "XX001" if $state eq 'XX001' && $message =~ /^(invalid page in|could not read) block/;
	return "0A000" if $state eq '0A000' && $message =~ /^index "i_$name" has format version/;
	return "$state $message";
}

my %errors = (
	version => qr/^0A000$/,
	header => qr/^XX00[12]$/,
	counted => qr/^(short|XX002)$/,
	short => qr/^(short|XX001)$/);
my $query = "SET gpujoin.force = on; SELECT count(*), sum(id) FROM ";
my $wanted = 'WHERE k = ANY (ARRAY(
	SELECT i FROM generate_series(0, 999) i WHERE i % 10 IN (3, 7)))';
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0; SET gpujoin.setup_cost = 0; SET enable_seqscan = off;
	SET gpujoin.aggregate = off;';

# What takes the index's length in its own way; the plans are looked at on an index that is sound
my %readers = (
	index_only => "SET gpujoin.force = on; SELECT count(k), sum(k) FROM %s $wanted",
	parallel => "$parallel $query %s $wanted",
	parallel_index_only => "$parallel SET gpujoin.force = on;
		SELECT count(k), sum(k) FROM %s $wanted");
my %plans = (
	index_only => qr/^(?!.*Gather).*Custom Scan \(GpuScan\).*Index Only: true/s,
	parallel => qr/Gather.*Parallel Custom Scan \(GpuScan\)(?!.*Index Only: true)/s,
	parallel_index_only => qr/Gather.*Parallel Custom Scan \(GpuScan\).*Index Only: true/s);

foreach my $reader (sort keys %readers)
{
	my $query = sprintf($readers{$reader}, 't_none') =~ s/SELECT count/EXPLAIN $&/r;

	like(outcome('none', $reader, $query), $plans{$reader}, "plan: $reader");
}

foreach my $name (@names)
{
	my $verdict = $damages{$name}[3];
	my $error = $errors{$verdict} // qr/^XX002$/;
	my %results = (
		check => outcome($name, 'check', "SELECT gpujoin_check('i_$name', true)"),
		info => outcome($name, 'info', "SELECT pages FROM gpujoin_index_info('i_$name')"),
		scan => outcome($name, 'scan', "$query t_$name WHERE k = ANY (ARRAY(
			SELECT i FROM generate_series(0, 999) i WHERE i % 10 IN (3, 7)))"),
		join => outcome($name, 'join', "$query generate_series(0, 999) s JOIN t_$name ON k = s
			WHERE s % 10 IN (3, 7)"),
		bitmap => outcome($name, 'bitmap', "SET enable_seqscan = off; SET gpujoin.min_rows = 100000;
			SELECT count(*), sum(id) FROM t_$name WHERE k = ANY (ARRAY(
			SELECT i FROM generate_series(0, 999) i WHERE i % 10 IN (3, 7)))"),
		insert => outcome($name, 'insert',
			"INSERT INTO t_$name SELECT i, i % 7 FROM generate_series(10001, 10400) i"),
		vacuum => outcome($name, 'vacuum', "DELETE FROM t_$name WHERE id > 10200 OR id % 10 = 1;
			VACUUM (INDEX_CLEANUP ON) t_$name"));
	my $found = $results{check} =~ $error;

	$verdicts{$verdict}{ $found ? 'found' : 'not found' }++;
	push @wrong, "$name: check said $results{check}"
	  if !$found && ($verdict !~ /either|sound|short/ || $results{check} !~ /^\d+$/);
	foreach my $what (qw(scan join bitmap))
	{
		# a wrong answer only where the check would have told
		push @wrong, "$name: $what said $results{$what}"
		  unless $results{$what} eq $in_set || $results{$what} =~ $error
		  || ($found && $results{$what} =~ /^\d+\|\d*$/);
	}
	push @wrong, "$name: $_ said $results{$_}"
	  foreach grep { $results{$_} !~ /^$|^\d+$/ && $results{$_} !~ $error } qw(info insert vacuum);
	next if $verdict ne 'short';

	# nobody works on without an index's end, whatever is left of it
	$results{$_} = outcome($name, $_, sprintf($readers{$_}, "t_$name")) foreach keys %readers;
	push @wrong, "$name: $_ said $results{$_}, not that the index is too short"
	  foreach grep { $results{$_} ne (truncated_to($name) ? 'short' : 'XX001') } sort keys %results;
}

is(join("\n", @wrong), '', 'each operation was right or named the damage');
is("@hung", '', 'nothing hung');
is(slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr, $postmaster,
	'the server went on running') if !@hung;
unlike(slurp_file($node->logfile, $offset), qr/PANIC|TRAP|terminated by signal/,
	'no process crashed');
note(scalar(@names) . ' damages; ' . join('; ', map {
			my $v = $_;
			"$v: " . join(', ', map { "$verdicts{$v}{$_} $_" } sort keys %{ $verdicts{$v} })
		} sort keys %verdicts));

# REINDEX is the remedy that the hint names.
my @still = grep {
	outcome($_, 'reindex', "REINDEX INDEX i_$_; SELECT gpujoin_check('i_$_', true) = count(*)
		FROM t_$_") ne 't'
} @names;
is("@still", '', 'REINDEX mends every index');
$in = "\\q\n";
$session->finish if $session;

done_testing();
