# Random damage: thousands of indexes with one or two wrong pages, for each way in which storage
# fails: bytes, fields, torn and lost writes, swapped pages, pages of another index or of an older
# state, zeroes, a file that is too short or too long. 003_corruption.pl contains the known cases,
# with the expected result of each; this test looks for unforeseen cases.
#
# Each operation on such an index must return the right answer, or an error that says that the
# index, or the page, is damaged. A wrong answer is allowed only if gpujoin_check() reports the
# damage. If the check finds nothing, everything must work, also after insertions, VACUUM and a
# fold, and the check must still find nothing then. No process crashes or hangs.
#
# There are a few dozen indexes of four shapes. Each round damages all of them, each in another way,
# while the server is down; the table stays unchanged. So writing its file again repairs an index.
# CHECK_LONG=1 runs thousands of damages. CORRUPTION_SEED and CORRUPTION_DAMAGES override the
# defaults: a failure prints the seed of its damage, with which it can be reproduced alone.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE => 8192, SPECIAL => 8160, KIND => 8184 };
my @kinds = (undef, qw(meta journal tail data directory list narrow));

my $seed = $ENV{CORRUPTION_SEED} || 20261122;
my $wanted = $ENV{CORRUPTION_DAMAGES} || ($ENV{CHECK_LONG} ? 6000 : 240);
my $ntables = 60;

# ---------------------------------------------------------------------------------------------
# The indexes
# ---------------------------------------------------------------------------------------------

my $node = new_server('main', { no_data_checksums => 1 }, 'fsync = off', 'log_statement = none',
	'log_min_messages = log', 'max_wal_size = 4GB', 'gpujoin.device = none');

# Do everything with an index except VACUUM, which cannot run in a function; return the answer, or
# SQLSTATE and message of the error. Insertions are rolled back.
$node->safe_psql('postgres', q{
	CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		answer text;
	BEGIN
		EXECUTE sql INTO answer;
		RETURN coalesce(answer, 'nothing');
	EXCEPTION WHEN OTHERS THEN
		IF sqlerrm = 'undo' THEN
			RETURN 'nothing';
		END IF;
		RETURN sqlstate || ' ' || sqlerrm;
	END $$;

	CREATE FUNCTION insert_and_undo(t regclass) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE format('INSERT INTO %s SELECT i, i %% 7 FROM generate_series(10001, 10400) i', t);
		RAISE EXCEPTION 'undo';
	END $$;

	CREATE FUNCTION outcomes(name text) RETURNS SETOF text LANGUAGE plpgsql
	SET gpujoin.force = on SET statement_timeout = '60s' AS $$
	DECLARE
		t text := 't_' || name;
		keys text := 'WHERE k = ANY (ARRAY(SELECT i FROM generate_series(0, 999) i
			WHERE i % 10 IN (3, 7)))';
	BEGIN
		RETURN NEXT 'check ' || try(format('SELECT gpujoin_check(%L, true)', 'i_' || name));
		RETURN NEXT 'scan ' || try(format('SELECT count(*) || $s$ $s$ || sum(id) FROM %s %s', t,
			keys));
		RETURN NEXT 'few ' || try(format('SELECT count(*) || $s$ $s$ || sum(id) FROM %s
			WHERE k IN (3, 500, 997)', t));
		RETURN NEXT 'keys ' || try(format('SELECT count(k) || $s$ $s$ || sum(k) FROM %s %s', t,
			keys));
		RETURN NEXT 'join ' || try(format('SELECT count(*) || $s$ $s$ || sum(id)
			FROM generate_series(0, 999) s JOIN %s ON k = s WHERE s %% 10 IN (3, 7)', t));
		RETURN NEXT 'insert ' || try(format('SELECT insert_and_undo(%L)', t));
	END $$;
});

# A base run, a small run, a delta with two pages and rows on the tail; pages that a fold has freed;
# deleted entries, and a journal. In the older state no page of the delta is full: nothing could
# tell that such a page, which gets no more entries, has lost a deletion. Half of the indexes have
# an INCLUDE column, half of these have 8-byte keys.
my @names = map { "x$_" } 1 .. $ntables;
my %shapes = map { $names[$_] => $_ % 4 } 0 .. $#names;

sub all_tables
{
	my ($sql) = @_;

	$node->safe_psql('postgres', join("\n", map {
			my $type = $shapes{$_} & 2 ? 'bigint' : 'int';
			my $include = $shapes{$_} & 1 ? 'INCLUDE (id)' : '';
			$sql =~ s/NAME/$_/gr =~ s/TYPE/$type/gr =~ s/INCLUDE/$include/gr } @names));
	return;
}

all_tables('CREATE TABLE t_NAME (id int, k TYPE) WITH (autovacuum_enabled = off);
	INSERT INTO t_NAME SELECT i, i % 1000 FROM generate_series(1, 3000) i;
	CREATE INDEX i_NAME ON t_NAME USING gpujoin (k) INCLUDE WITH (lanes = 1);
	INSERT INTO t_NAME SELECT i, i % 1000 FROM generate_series(3001, 3900) i;');
all_tables('VACUUM t_NAME; SELECT gpujoin_fold(\'i_NAME\');
	INSERT INTO t_NAME SELECT i, i % 1000 FROM generate_series(3901, 4400) i;
	DELETE FROM t_NAME WHERE id % 10 = 0;');
my %files = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
	"SELECT substr(relname, 3), pg_relation_filepath(oid) FROM pg_class
	 WHERE relname LIKE 'i\\_x%' AND relkind = 'i'");

sub read_all
{
	return map { $_ => slurp_file($node->data_dir . '/' . $files{$_}) } @names;
}

$node->safe_psql('postgres', 'CHECKPOINT');
my %old = read_all();
all_tables('VACUUM t_NAME;
	INSERT INTO t_NAME SELECT i, i % 1000 FROM generate_series(4401, 5400) i;');
all_tables('VACUUM t_NAME;');

my %right = map { split / /, $_, 2 } split /\n/, $node->safe_psql('postgres', "
	SET gpujoin.enabled = off;
	SELECT 'scan ' || count(*) || ' ' || sum(id) FROM t_x1 WHERE k % 10 IN (3, 7);
	SELECT 'few ' || count(*) || ' ' || sum(id) FROM t_x1 WHERE k IN (3, 500, 997);
	SELECT 'keys ' || count(k) || ' ' || sum(k) FROM t_x1 WHERE k % 10 IN (3, 7);
	SELECT 'check ' || count(*) FROM t_x1");
$right{join} = $right{scan};
$right{insert} = 'nothing';

like($node->safe_psql('postgres', "SET gpujoin.force = on; EXPLAIN SELECT count(k), sum(k)
	FROM t_x2 WHERE k = ANY (ARRAY(SELECT i FROM generate_series(0, 999) i))"),
	qr/GpuScan|GpuAgg/, 'queries use the index');
$node->stop;
my %sound = read_all();

# Classify blocks by their contents; the runs listed in the metapage show which ones are free.
sub page_kinds
{
	my ($image) = @_;
	my %blocks;

	foreach my $block (0 .. length($image) / PAGE - 1)
	{
		my $word = unpack('V', substr($image, $block * PAGE + KIND, 4));
		push @{ $blocks{ $kinds[ $word & 15 ] // 'zero' } }, $block;
	}
	return \%blocks;
}

my %blocks = map { $_ => page_kinds($sound{$_}) } @names;
is_deeply([ sort keys %{ $blocks{x1} } ], [ sort grep { defined } @kinds ],
	'the indexes have pages of every kind');

# ---------------------------------------------------------------------------------------------
# Damages
# ---------------------------------------------------------------------------------------------

sub any { return $_[ int(rand(@_)) ]; }

# Choose a place where damage is likely to matter: the header's array bounds, fixed fields, the
# special space. Not the page's LSN, because PostgreSQL would wait for future WAL.
sub place
{
	return any(8 + int(rand(16)), 24 + int(rand(200)), 24 + int(rand(1000)),
		8 + int(rand(PAGE - 8)), SPECIAL + int(rand(PAGE - SPECIAL)));
}

my %ways = (
	bytes => sub {
		my ($page) = @_;
		substr($$page, place(), 1) = chr(int(rand(256))) foreach 0 .. any(0, 0, 1, 7, 63);
	},
	bits => sub {
		my ($page) = @_;
		my $at = place();
		substr($$page, $at, 1) = chr(ord(substr($$page, $at, 1)) ^ 1 << int(rand(8)));
	},
	field => sub {
		my ($page) = @_;
		my ($template, $width) = @{ any([ 'v', 2 ], [ 'V', 4 ], [ 'Q<', 8 ]) };
		my $at = int(place() / $width) * $width;
		my $now = unpack($template, substr($$page, $at, $width));
		my $most = $width == 8 ? ~0 : (1 << 8 * $width) - 1;
		my $new = any(0, 1, 2, $most, $most >> 1, ($most >> 1) + 1, $now + 1 & $most,
			$now - 1 & $most, $now * 2 & $most, int(rand(65536)), int(rand(12)));
		substr($$page, $at, $width) = pack($template, $new);
	},
	range => sub {
		my ($page) = @_;
		my $at = place();
		my $n = 1 + int(rand(any(8, 100, PAGE - $at)));
		$n = PAGE - $at if $n > PAGE - $at;
		substr($$page, $at, $n) = any("\0", "\xff", "\x01", "\x7f") x $n;
	},
	noise => sub {
		my ($page) = @_;
		my $at = any(24, 24, 8, 4096);
		substr($$page, $at, SPECIAL - $at) = pack('C*', map { int(rand(256)) } $at .. SPECIAL - 1);
	},
	zeroes => sub { my ($page) = @_; $$page = "\0" x PAGE; },
	torn => sub {
		my ($page, $other) = @_;
		my $sectors = 1 + int(rand(15));
		substr($$page, 0, $sectors * 512) = substr($other->{old}, 0, $sectors * 512);
	},
	torn_zeroes => sub {
		my ($page) = @_;
		my $sectors = 1 + int(rand(15));
		substr($$page, -$sectors * 512) = "\0" x ($sectors * 512);
	},
	exchanged => sub { my ($page, $other) = @_; $$page = $other->{own}; },
	foreign => sub { my ($page, $other) = @_; $$page = $other->{foreign}; },
	old => sub { my ($page, $other) = @_; $$page = $other->{old}; });

# Return what can replace a page; a missing page is all zeroes.
sub others
{
	my ($name, $block) = @_;
	my $same = any(0, 1, 1);
	my %images = (own => $sound{$name}, old => $old{$name}, foreign => $sound{ any(@names) });
	my %others;

	foreach (keys %images)
	{
		my $n = length($images{$_}) / PAGE;
		my $from = $_ eq 'old' || $_ eq 'foreign' && $same ? $block : int(rand($n));
		$others{$_} = $from < $n ? substr($images{$_}, $from * PAGE, PAGE) : "\0" x PAGE;
	}
	return \%others;
}

# Damage an index; return its file and a description of the damage.
sub damage
{
	my ($name) = @_;
	my $image = $sound{$name};
	my $n = length($image) / PAGE;
	my @done;

	if (rand() < 0.04)
	{
		my $cut = int(rand($n));
		$image = rand() < 0.5 ? substr($image, 0, $cut * PAGE) :
		  $image . any("\0" x PAGE, substr($image, $cut * PAGE, PAGE)) x (1 + int(rand(3)));
		return ($image, length($image) / PAGE . " of $n blocks");
	}
	foreach (1 .. any(1, 1, 1, 2, 3))
	{
		my $kind = any(sort keys %{ $blocks{$name} });
		my $block = any(@{ $blocks{$name}{$kind} });
		my $way = any(qw(bytes bits field field field range noise zeroes torn torn_zeroes exchanged
			  foreign old old));
		my $page = substr($image, $block * PAGE, PAGE);

		$ways{$way}->(\$page, others($name, $block));
		substr($image, $block * PAGE, PAGE) = $page;
		push @done, "$kind $block $way";
	}
	return ($image, join(', ', @done));
}

# ---------------------------------------------------------------------------------------------
# Rounds
# ---------------------------------------------------------------------------------------------

my (@wrong, %counts, %found_by_way);

sub is_error
{
	my ($name, $outcome) = @_;

	return $outcome =~ /^XX002 index "i_$name" is (?:corrupted at block \d+|too short)$/
	  || $outcome =~ /^XX002 .*lacks an entry in index "i_$name"$/
	  || $outcome =~ /^XX001 (invalid page in|could not read) block/
	  || $outcome =~ /^0A000 index "i_$name" has (format version|flags)/;
}

# Run SQL for each of some indexes; return the output for each. If the server crashes, blame the
# first index without an answer, and run the SQL again for the rest.
sub ask_all
{
	my ($stream, $sql, @asked) = @_;
	my %answers;

	while (@asked)
	{
		my ($out, $err) = ('', '');
		my $script = join('', map { my $s = $sql =~ s/NAME/$_/gr; "\\echo = $_\n\\warn = $_\n$s\n" }
			  @asked) . "\\echo = end\n\\warn = end\n";
		my $result = $node->psql('postgres', "\\set VERBOSITY verbose\n$script",
			stdout => \$out, stderr => \$err, on_error_stop => 0, timeout => 300,
			timed_out => \my $timed_out);
		my %parts = map { /^(\w+)\n?(.*?)\n*\z/s ? ($1 => $2) : () } split /^= /m,
		  $stream eq 'out' ? "$out\n" : "$err\n";
		my $last = (grep { defined $parts{$_} } @asked)[-1] // $asked[0];
		my @left = grep { !exists $parts{$_} } @asked;

		@answers{@asked} = map { $parts{$_} // '' } @asked;
		return %answers if exists $parts{end};
		$answers{$last} = $timed_out ? 'hung' : 'lost connection';
		@asked = @left;
		# a process that hangs on a page lock ends only with the server
		$node->stop('immediate') if $timed_out;
		$timed_out ? $node->start : poll_through_restarts($node, 'SELECT true');
	}
	return %answers;
}

sub look
{
	my ($label, $name, $answers, $clean) = @_;
	my %results = map { split / /, $_, 2 } split /\n/, $answers;
	my $check = $results{check} // '';
	my $found = is_error($name, $check);

	push @wrong, "$label: check said " . ($check eq '' ? $answers : $check)
	  if !$found && $check ne $right{check} || $clean && $found;
	foreach my $what (sort grep { $_ ne 'check' } keys %right)
	{
		my $result = $results{$what} // $answers;
		my $ok = $result eq $right{$what} || is_error($name, $result) && !$clean
		  || $found && $what ne 'insert' && $result =~ /^\d+( -?\d+)?$|^nothing$/;

		push @wrong, "$label: $what said $result" if !$ok || !$found && is_error($name, $result)
		  && $what ne 'insert';
	}
	return $found;
}

my $log_offset = -s $node->logfile;
my $done = 0;
my $postmaster;

for (my $round = 0; $done < $wanted; $round++)
{
	my (%labels, @damaged);

	while (@damaged < $ntables && $done < $wanted)
	{
		my $name = $names[ ($seed + $done) % $ntables ];

		srand($seed + $done);
		my ($image, $what) = damage($name);

		push @damaged, $name;
		$labels{$name} = 'seed ' . ($seed + $done++) . " (index $name: $what)";
		open(my $file, '>', $node->data_dir . '/' . $files{$name}) or die $!;
		binmode $file;
		print $file $image;
		close $file;
	}
	$node->start;
	$postmaster = slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr;

	my %answers = ask_all('out', "SELECT * FROM outcomes('NAME');", @damaged);
	my @clean = grep { !look($labels{$_}, $_, $answers{$_}, 0) } @damaged;
	my %vacuumed = ask_all('err', "VACUUM (INDEX_CLEANUP ON) t_NAME;
		SELECT gpujoin_fold('i_NAME', true);", @damaged);
	foreach my $name (@damaged)
	{
		my @errors = $vacuumed{$name} =~ /(?:ERROR|FATAL|PANIC):\s+(.*)/g;

		foreach (@errors, $vacuumed{$name} =~ /^[hl].*/)
		{
			my $error = s/^(\w{5}): /$1 /r;
			push @wrong, "$labels{$name}: VACUUM or fold said $error"
			  if !is_error($name, $error) || grep { $_ eq $name } @clean;
		}
	}
	# an index in which the check has found nothing stays sound
	%answers = ask_all('out', "SELECT * FROM outcomes('NAME');", @clean);
	look("$labels{$_}, folded", $_, $answers{$_}, 1) foreach @clean;
	$counts{found} += @damaged - @clean;
	$counts{harmless} += @clean;
	is(slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr, $postmaster,
		'the server went on running') if $round == 0;
	$node->stop;
	last if @wrong > 20;
}

is(join("\n", @wrong), '', 'each operation was right or named the damage');
unlike(slurp_file($node->logfile, $log_offset), qr/PANIC|TRAP|terminated by signal/,
	'no process crashed');
note("$done damages from seed $seed: " . join(', ', map { "$counts{$_} $_" } sort keys %counts));

done_testing();
