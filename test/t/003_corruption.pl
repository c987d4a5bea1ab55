# Damaged index pages: each query, insertion, VACUUM and check either ends in an error that names
# index and block (SQLSTATE XX002) or works correctly; nothing crashes or hangs. gpujoin_check()
# must find damage that no reader can see because the page is still plausible (a key, a TID, a bit).
#
# Each kind of damage is done to its own index while the server is down, so that one restart is
# enough for all of them. Data checksums are off (PostgreSQL 18 enables them by default).

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

# Offsets within a page: src/pages/format.h
use constant {
	PAGE => 8192,
	META => 0,
	JOURNAL => 1,
	TAIL => 2,
	MAGIC => 24,
	VERSION => 28,
	SEQUENCE => 40,
	LIST_VERSION => 56,
	FLOOR => 64,
	JOURNAL_NEXT => 72,
	JOURNAL_USED => 76,
	JOURNAL_START => 80,
	JOURNAL_BLOCKS => 84,
	FIRST_DATA => 88,
	MIN_BLOCKS => 92,
	FLAGS => 96,
	SLOTS => 98,
	USED_OFFSET => 100,
	NCOLUMNS => 102,
	TAIL_ROWS => 104,
	NLANES => 106,
	NRUNS => 108,
	NEXT_RUN => 112,
	FOLD_RUN => 116,
	DELTA => 120,
	PREVIOUS => 136,
	RUN => 152,
	KEY_WIDTH => 664,
	KEY_OFFSET => 666,
	TID_OFFSET => 674,
	VALUE_WIDTH => 680,
	VALUE_OFFSET => 682,
	NULLS_OFFSET => 684,
	LANES => 920,
	MERGE_RUN => 928,
	EMPTY_TAILS => 960,
	MORE_RUNS => 1008,
	NULLS => 1520,
	CHANGE => 8160,
	MIN_KEY => 8168,
	MAX_KEY => 8176,
	KIND => 8184,
	USED => 8188,
	PAGE_ID => 8190
};
my $first_data = 2 + 1;    # one lane
my $slots = 800;           # of 4-byte keys
my $cover_slots = 544;     # and a 4-byte INCLUDE column
my $tids = 24 + $slots * 4;
my $wanted_tid = $tids + 9 * 6;    # slot 9, whose key 3 the queries look up
my $bitmap = $tids + $slots * 6;
# Data pages of the base run, in order, and its directory; list page and data pages of the delta
my ($delta_run, $base_run) = (1, 2);
my $directory = $first_data + 4;
my $list = $directory + 1;
my @delta = ($list + 1, $list + 2);
my $length = $list + 3;

# name => [block, offset, bytes, expected result of gpujoin_check()]
#   damaged    XX002
#   version    0A000
#   header     XX001: PostgreSQL itself rejects the page
#   either     the damage may be harmless
#   short      the file is truncated: every user of the index notices
#   counted    looks like short: the check cannot tell the difference
my %damages;

sub damage
{
	my ($name, $block, $offset, $bytes, $verdict) = @_;
	$damages{$name} = [ $block, $offset, $bytes, $verdict // 'damaged' ];
}

# Pages of runs are plain, and NULL keys are not stored, as before format 4, except where a name
# begins with narrow or null: then there is one more tail.
my $null_tail = $first_data;
my $narrow_data = $first_data + 1;
my @narrow = map { 24 + 16 * $_ } 0 .. 2;    # descriptions of key, TID, INCLUDE column
my ($base, $place, $bitmap_place, $width, $shift, $count) = (0, 8, 10, 12, 13, 14);

damage("narrow_width_$_", $narrow_data, $narrow[0] + $width, pack('C', $_))
  foreach (0, 1, 3, 4, 5, 7, 9, 255);
damage("narrow_tid_width_$_", $narrow_data, $narrow[1] + $width, pack('C', $_))
  foreach (0, 1, 7, 8);
my %bases = (minus => -1, one => 1, wide => 1 << 31, block => 1 << 32, huge => 1 << 62);
damage("narrow_base_$_", $narrow_data, $narrow[0] + $base, pack('q<', $bases{$_}))
  foreach keys %bases;
damage("narrow_tid_base_$_", $narrow_data, $narrow[1] + $base, pack('q<', $bases{$_}))
  foreach keys %bases;
damage("narrow_slots_$_", $narrow_data, $narrow[1] + $count, pack('v', $_))
  foreach (0, 32, 33, 4096, 4128, 0xffe0, 0xffff);
damage("narrow_shift_$_", $narrow_data, $narrow[1] + $shift, pack('C', $_))
  foreach (0, 1, 13, 64, 255);
damage("narrow_place_$_", $narrow_data, $narrow[0] + $place, pack('v', $_))
  foreach (0, 8190, 0xffff);
damage("narrow_tid_place_$_", $narrow_data, $narrow[1] + $place, pack('v', $_))
  foreach (0, 8190, 0xffff);
damage("narrow_bitmap_$_", $narrow_data, $narrow[0] + $bitmap_place, pack('v', $_))
  foreach (0, 56, 8190, 0xffff);
damage("narrow_tid_bitmap", $narrow_data, $narrow[1] + $bitmap_place, pack('v', 56));
damage("narrow_lower", $narrow_data, 12, pack('v', 8160));
damage("narrow_kind_plain", $narrow_data, KIND, pack('V', $base_run << 4 | 4));
damage("narrow_used_$_", $narrow_data, USED, pack('v', $_)) foreach (0, 3, 4096, 4097);
damage("narrow_keys", $narrow_data, 24 + 32 + 200, "\xff" x 64);
damage("narrow_end", $narrow_data, 8160 - 400, "\xff" x 400);
damage("narrow_most_slots_$_", META, RUN + 60, pack('V', $_)) foreach (0, 32, 4097, 0xffffffff);
damage("narrow_cover_width_$_", $narrow_data, $narrow[2] + $width, pack('C', $_))
  foreach (0, 1, 5, 8);
damage("narrow_cover_base", $narrow_data, $narrow[2] + $base, pack('q<', 77));
damage("narrow_cover_nulls_$_", $narrow_data, $narrow[2] + $bitmap_place, pack('v', $_))
  foreach (24, 8000, 0xffff);
damage('narrow_none', META, 0, '', 'sound');
damage('null_flag', META, FLAGS, pack('v', 0));
damage("null_lane_$_", META, NULLS, pack('VV', $_, 3)) foreach (META, $null_tail, 0xfffffffe);
damage('null_lane_run', META, NULLS + 4, pack('V', $delta_run));
damage("null_delta_$_", META, NULLS + 8, pack('V', $_)) foreach (0, $delta_run, $base_run, 4, 99);
damage("null_delta_pages_$_", META, NULLS + 16, pack('V', $_)) foreach (0, 2, 2001, 0xffffffff);
damage("null_previous_$_", META, NULLS + 24, pack('V', $_)) foreach ($delta_run, 3, 99);
damage("null_runs_$_", META, NULLS + 40, pack('V', $_)) foreach (0, 2, 5, 0xffffffff);
damage("null_run_$_", META, NULLS + 48, pack('V', $_)) foreach (0, $delta_run, $base_run, 99);
damage("null_run_flags", META, NULLS + 48 + 6, pack('v', 1));
damage("null_run_min", META, NULLS + 48 + 32, pack('q<', -1));
damage("null_run_max", META, NULLS + 48 + 40, pack('q<', 1));
damage('null_tail_key', $null_tail, 24, pack('V', 7));
damage('null_tail_keys', $null_tail, 24, "\x07" x 400);
damage('null_tail_used', $null_tail, USED, pack('v', 65));
damage('null_none', META, 0, '', 'sound');
damage('delta_kind_narrow', $delta[0], KIND, pack('V', $delta_run << 4 | 7));
damage('delta_open_kind_narrow', $delta[1], KIND, pack('V', $delta_run << 4 | 7));
damage('data_kind_narrow', $first_data, KIND, pack('V', $base_run << 4 | 7));

my %numbers = (zero => 0, one => 1, big => 0xffff, odd => 0x1234);

foreach my $block (META, JOURNAL, TAIL, $first_data, $directory, $list, $delta[0])
{
	my $page = {
		META, 'meta', JOURNAL, 'journal', TAIL, 'tail', $first_data, 'data',
		$directory, 'directory', $list, 'list', $delta[0], 'delta' }->{$block};

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
damage('version_shorter', META, VERSION, pack('V', 2));
# in the first version's metapage, the kind was at another offset
damage('version_old', META, VERSION, pack('V', 1), 'version');
my %also = (version_old => [ KIND, pack('vC', 0, 1) ]);
damage('flags', META, FLAGS, pack('v', 0x8000), 'version');
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
	huge => 0xfffffffe, run => $first_data, directory => $directory, list => $list);
damage("open_$_", META, LANES, pack('V', $blocks{$_})) foreach keys %blocks;
damage('open_run_none', META, LANES + 4, pack('V', 0));
damage('open_run_base', META, LANES, pack('VV', $first_data, $base_run));
# two lanes, which shift tails and data pages by one block
damage('two_lanes_less', META, NLANES, pack('v', 1));
damage('two_lanes_crossed', META, LANES, pack('VVVV', TAIL + 1, $delta_run, TAIL, $delta_run));
damage('two_lanes_same', META, LANES, pack('VV', $delta[1] + 1, $delta_run) x 2);
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
damage('data_bitmap_less', $first_data, $bitmap, "\xf0");
damage('data_bitmap_more', $first_data, $bitmap, "\xff");
damage('data_bitmap_none', $first_data, $bitmap, "\0" x ($slots / 8));
damage('data_order', $first_data, 24 + 9 * 4, pack('VV', 4, 3));
damage('data_order_deleted', $first_data, 24, pack('VVV', 0, 1, 0));

# Page owners: unused run numbers, other runs' numbers, numbers not assigned yet
foreach my $number (0, $delta_run, $base_run, 3, 77, (1 << 28) - 1)
{
	damage("data_run_$number", $first_data, KIND, pack('V', $number << 4 | 4))
	  if $number != $base_run;
	damage("last_run_$number", $directory - 1, KIND, pack('V', $number << 4 | 4))
	  if $number != $base_run;
	damage("directory_run_$number", $directory, KIND, pack('V', $number << 4 | 5))
	  if $number != $base_run;
	damage("list_run_$number", $list, KIND, pack('V', $number << 4 | 6))
	  if $number != $delta_run;
	damage("delta_run_$number", $delta[0], KIND, pack('V', $number << 4 | 4))
	  if $number != $delta_run;
	damage("delta_open_run_$number", $delta[1], KIND, pack('V', $number << 4 | 4))
	  if $number != $delta_run;
}

# The directory: level, keys, blocks, TIDs
my ($dir_keys, $dir_blocks, $dir_tids) = (32, 32 + 448 * 8, 32 + 448 * 12);
damage('directory_level', $directory, 24, pack('v', 1));
damage("directory_used_$_", $directory, USED, pack('v', $_)) foreach (0, 1, 3, 5, 448, 449);
damage('directory_key_less', $directory, $dir_keys + 8, pack('q<', 5));
damage('directory_key_more', $directory, $dir_keys + 8, pack('q<', 999));
damage('directory_key_first', $directory, $dir_keys, pack('q<', -5));
damage('directory_keys_same', $directory, $dir_keys, pack('q<', 7) x 4);
damage('directory_tid', $directory, $dir_tids + 6, pack('vvv', 0, 0, 9));
my %others = (%blocks, self => $directory, delta => $delta[0], second => $first_data + 1);
damage("directory_block_$_", $directory, $dir_blocks, pack('V', $others{$_}))
  foreach grep { !/^(run|directory)$/ } keys %others;
damage('directory_blocks_swapped', $directory, $dir_blocks,
	pack('VV', $first_data + 1, $first_data));

# The list: the page before, blocks
damage("list_previous_$_", $list, 24, pack('V', $blocks{$_})) foreach keys %blocks;
damage("list_used_$_", $list, USED, pack('v', $_)) foreach (0, 1, 3, 2000, 2001);
damage('list_lower', $list, 12, pack('v', 32));
damage("list_block_$_", $list, 32, pack('V', $others{$_}))
  foreach grep { !/^(delta|second|self)$/ } keys %others;
damage('list_block_twice', $list, 32, pack('VV', $delta[1], $delta[1]));

# The metapage's fields about them
damage('list_version_zero', META, LIST_VERSION, pack('Q<', 0));
damage("nruns_$_", META, NRUNS, pack('v', $_)) foreach (0, 2, 8, 9, 16, 17, 0xffff);
damage("next_run_$_", META, NEXT_RUN, pack('V', $_)) foreach (0, 1, 2, 1 << 29, 0xffffffff);
damage('next_run_9', META, NEXT_RUN, pack('V', 9), 'either');
damage("fold_run_$_", META, FOLD_RUN, pack('V', $_)) foreach (1, 2, 3, 0xffffffff);
damage('tail_seems_empty', META, EMPTY_TAILS, pack('Q<', 1));
damage("merge_run_$_", META, MERGE_RUN, pack('V', $_)) foreach (1, 2, 3, 0xffffffff);
damage("base_flags_$_", META, RUN + 6, pack('v', $_)) foreach (1, 2, 0xffff);
damage('more_runs', META, MORE_RUNS, pack('V', 2), 'either');
damage("delta_number_$_", META, DELTA, pack('V', $_)) foreach (0, 2, 3, 0xffffffff);
damage("delta_head_$_", META, DELTA + 4, pack('V', $blocks{$_} // 0xffffffff))
  foreach 'none', grep { $_ ne 'list' } keys %blocks;
damage("delta_pages_$_", META, DELTA + 8, pack('V', $_)) foreach (0, 1, 3, 2001, 0xffffffff);
damage("delta_lists_$_", META, DELTA + 12, pack('V', $_)) foreach (0, 2, 0xffffffff);
damage("previous_$_", META, PREVIOUS, pack('V4', $_, $list, 2, 1)) foreach (1, 2, 3);
damage("base_number_$_", META, RUN, pack('V', $_)) foreach (0, 1, 3, 0xffffffff);
damage("base_height_$_", META, RUN + 4, pack('v', $_)) foreach (0, 2, 5, 0xffff);
damage('base_published', META, RUN + 8, pack('Q<', 1 << 60));
damage("base_entries_$_", META, RUN + 16, pack('Q<', $_))
  foreach (0, 299, 2400, 2999, 3001, 1 << 60);
damage("base_dead_$_", META, RUN + 24, pack('Q<', $_)) foreach (0, 299, 301, 1 << 60);
damage("base_min_$_", META, RUN + 32, pack('q<', $_)) foreach (1, 1000);
damage("base_max_$_", META, RUN + 40, pack('q<', $_)) foreach (0, 998, 1000);
damage("base_root_$_", META, RUN + 48, pack('V', $blocks{$_}))
  foreach grep { $_ ne 'directory' } keys %blocks;
damage("base_pages_$_", META, RUN + 52, pack('V', $_)) foreach (0, 3, 5, 0xffffffff);
damage("base_directory_pages_$_", META, RUN + 56, pack('V', $_)) foreach (0, 2, 0xffffffff);
damage('none', META, 0, '', 'sound');

# Indexes with an INCLUDE column: queries cannot verify its values, but the check can.
my $values = 24 + $cover_slots * 10;
my $nulls = $values + $cover_slots * 4 + $cover_slots / 8;
damage('cover_none', META, 0, '', 'sound');
foreach my $field (qw(NCOLUMNS VALUE_WIDTH VALUE_OFFSET NULLS_OFFSET))
{
	damage(lc "cover_${field}_$_", META, __PACKAGE__->can($field)->(), pack('v', $numbers{$_}))
	  foreach qw(zero big odd);
}
damage('cover_tail_rows_more', META, TAIL_ROWS, pack('v', 5000));
damage('cover_value', $first_data, $values + 3 * 4, pack('V', 4711));
damage('cover_values', $first_data, $values, "\xff" x (4 * $cover_slots));
damage('cover_null', $first_data, $nulls, "\xff");
damage('cover_nulls', $first_data, $nulls, "\xff" x ($cover_slots / 8));
damage('cover_tail_used_more', TAIL, USED, pack('v', 65));
damage('cover_tail_value', TAIL, 24 + 10, pack('V', 4711));
damage('cover_tail_null', TAIL, 24 + 14, "\x01");

# One byte anywhere except in the page's LSN: a damaged LSN can make PostgreSQL wait for future WAL.
srand(20261121);
foreach my $i (1 .. 40)
{
	my $block = ($i * 5) % $length;
	damage("random$i", $block, 16 + int(rand(PAGE - 16)), pack('C', int(rand(256))), 'either');
}

# Truncate before each fixed page, before the data pages, among them, and before the last one. A
# session that has not opened the index yet can detect this from the two block counts.
damage("truncated_$_", $_, undef, undef, 'short')
  foreach (0, 1, TAIL, $first_data, 4, $directory - 1, $directory, $list, $length - 1);
damage("cover_truncated_$_", $_, undef, undef, 'short') foreach ($first_data, 8, 12);
damage("built_truncated_$_", $_, undef, undef, 'short') foreach ($first_data, 6, $directory);

# The count of blocks. A count that is too low hides no rows; the last counted page must be in use,
# otherwise the file was truncated and then extended with zeroes.
damage("min_blocks_$_", META, MIN_BLOCKS, pack('V', $_ eq 'most' ? ~0 & 0xffffffff : $_), 'counted')
  foreach ($length + 1, 5000, 'most');
damage("min_blocks_$_", META, MIN_BLOCKS, pack('V', $_))
  foreach (0, $first_data - 1, $first_data, 7, $length - 1);
damage("built_last_zeroes", $directory, 0, "\0" x PAGE);
damage("built_data_zeroes", $directory - 1, 0, "\0" x PAGE);

# ---------------------------------------------------------------------------------------------
# Make the indexes, damage them
# ---------------------------------------------------------------------------------------------

# The queries look for no key that is NULL.
sub keys_of { return $_[0] =~ /^null/ ? 'CASE WHEN i % 10 <> 5 THEN i % 1000 END' : 'i % 1000'; }

my $node = new_server('main', { no_data_checksums => 1 }, 'fsync = off', 'log_statement = none',
	'log_min_messages = warning');
my @names = sort keys %damages;

# Every fifth row is inserted after the build, through the tails, and is in the delta. Some rows are
# dead, so the journal is not empty and pages have gaps.
$node->safe_psql('postgres', join("\n", map {
		"CREATE TABLE t_$_ (id int, k int);
		INSERT INTO t_$_ SELECT i, " . keys_of($_) . " FROM generate_series(1, 3000) i;
		SET gpujoin.debug_step = '" . (/^(narrow|null)/ ? '' : 'plain pages') . "';
		CREATE INDEX i_$_ ON t_$_ USING gpujoin (k)" . (/cover/ ? ' INCLUDE (id)' : '') . "
			WITH (lanes = " . (/two_lanes/ ? 2 : 1) . ");
" . (/^built/ ? '' : "
		DELETE FROM t_$_ WHERE id % 10 = 0;
		VACUUM t_$_;
		INSERT INTO t_$_ SELECT i, " . keys_of($_) . " FROM generate_series(3001, 3900) i;")
	} @names));
my $layout = $node->safe_psql('postgres',
	"SELECT slots_per_page, lanes, format_version FROM gpujoin_index_info('i_none')");
is($layout, "$slots|1|4", 'the format is the one that this test knows');
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
is(length($sound), $length * PAGE, 'the index has the length from which this test cuts');
is_deeply([ map { unpack('V', substr($sound, $_ * PAGE + KIND, 4)) } $first_data .. $length - 1 ],
	[ map { $$_[0] << 4 | $$_[1] } ([ $base_run, 4 ]) x 4, [ $base_run, 5 ], [ $delta_run, 6 ],
		([ $delta_run, 4 ]) x 2 ], 'and the pages that this test damages');

foreach my $name (@names)
{
	my ($block, $offset, $bytes) = @{ $damages{$name} };
	my $path = $node->data_dir . '/' . $files{$name};

	open(my $file, '+<', $path) or die "$path: $!";
	binmode $file;
	if (defined $offset)
	{
		foreach ([ $offset, $bytes ], $also{$name} // ())
		{
			seek($file, $block * PAGE + $$_[0], 0);
			print $file $$_[1];
		}
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
# Results
# ---------------------------------------------------------------------------------------------

my $offset = -s $node->logfile;
my (@wrong, @hung, %verdicts, %vacuumed);

# Use one session for everything, which also shows that no error leaves anything locked.
my ($session, $in, $out, $err);
my $timer = IPC::Run::timer(120 * ($ENV{CHECK_PATIENCE} || 1));

sub open_session
{
	($in, $out, $err) = ('', '', '');
	$session = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose',
			'-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err, $timer);
	return;
}

# Return the number of blocks that an index was truncated to. 0 means that no metapage is left to
# store the counts.
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
	return "0A000"
	  if $state eq '0A000' && $message =~ /^index "i_$name" has (format version|flags)/;
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

# Statements that read the index's length in different ways; the plans are checked on a sound index
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
			VACUUM (INDEX_CLEANUP ON) t_$name"),
		fold => outcome($name, 'fold', "SELECT gpujoin_fold('i_$name', true)"));
	my $found = $results{check} =~ $error;
	$vacuumed{$name} = $results{vacuum};

	$verdicts{$verdict}{ $found ? 'found' : 'not found' }++;
	push @wrong, "$name: check said $results{check}"
	  if !$found && ($verdict !~ /either|sound|short/ || $results{check} !~ /^\d+$/);
	foreach my $what (qw(scan join bitmap))
	{
		# a wrong answer is allowed only if the check reports the damage
		push @wrong, "$name: $what said $results{$what}"
		  unless $results{$what} eq $in_set || $results{$what} =~ $error
		  || ($found && $results{$what} =~ /^\d+\|\d*$/);
	}
	push @wrong, "$name: $_ said $results{$_}"
	  foreach grep { $results{$_} !~ /^$|^\d+$/ && $results{$_} !~ $error }
	  qw(info insert vacuum fold);
	next if $verdict ne 'short';

	# no statement may continue on a truncated index, whatever is left of it
	$results{$_} = outcome($name, $_, sprintf($readers{$_}, "t_$name")) foreach keys %readers;
	push @wrong, "$name: $_ said $results{$_}, not that the index is too short"
	  foreach grep { $results{$_} ne (truncated_to($name) ? 'short' : 'XX001') } sort keys %results;
}

is(join("\n", @wrong), '', 'each operation was right or named the damage');
is("@hung", '', 'nothing hung');
is($vacuumed{cover_tail_used_more}, 'XX002', 'VACUUM does not look for impossible TIDs');
is(slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr, $postmaster,
	'the server went on running') if !@hung;
unlike(slurp_file($node->logfile, $offset), qr/PANIC|TRAP|terminated by signal/,
	'no process crashed');
note(scalar(@names) . ' damages; ' . join('; ', map {
			my $v = $_;
			"$v: " . join(', ', map { "$verdicts{$v}{$_} $_" } sort keys %{ $verdicts{$v} })
		} sort keys %verdicts));

# REINDEX, which the hint recommends, repairs the index.
my @still = grep {
	outcome($_, 'reindex', "REINDEX INDEX i_$_; SELECT gpujoin_check('i_$_', true) = count(*)
		FROM t_$_") ne 't'
} @names;
is("@still", '', 'REINDEX mends every index');
$in = "\\q\n";
$session->finish if $session;

done_testing();
