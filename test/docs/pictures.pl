#!/usr/bin/env perl
# test/docs/pictures.pl [--check] [FOLDER]: draws the pictures of the documents, docs/*.svg, and
# with --check only says which of them are not as this script draws them.
#
# The figures come from reports in test/bench/results. All colors are of middle brightness, so that
# the pictures can be read on a light and on a dark page without knowing which it is.
use strict;
use warnings;

my $check = @ARGV && $ARGV[0] eq '--check' ? shift : 0;
my $folder = shift // '.';
my $results = "$folder/test/bench/results";
my %color = (text => '#768390', ours => '#2f9e58', other => '#9aa5b1', line => '#9aa5b1');
my $font = 'font-family="Helvetica, Arial, sans-serif"';

sub slurp
{
	my ($file) = @_;

	open(my $in, '<', $file) or return '';
	local $/ = undef;
	return <$in>;
}

# figure REPORT, SECTION, ROW, COLUMN: a cell of a table in a report
sub figure
{
	my ($report, $section, $row, $column) = @_;
	my ($table) = slurp("$results/$report") =~ /^\#\# \Q$section\E\n(.*?)(?=^\#\# |\z)/ms
	  or die "$report has no section $section\n";
	my @rows = map { [map { s/^\s+|\s+$//gr } split /\|/, $_, -1] } $table =~ /^(\|.*)$/mg;
	my ($index) = grep { $rows[0][$_] eq $column } 0 .. $#{ $rows[0] };
	my ($cells) = grep { $_->[1] eq $row } @rows;

	die "$report has no $row, $column\n" unless $index && $cells && $cells->[$index] ne '';
	return $cells->[$index];
}

sub escaped { return $_[0] =~ s/&/&amp;/gr =~ s/</&lt;/gr =~ s/>/&gt;/gr }

sub text
{
	my ($x, $y, $text, $more) = @_;

	return sprintf(qq{<text x="%g" y="%g" %s>%s</text>\n},
		$x, $y, $more // '', escaped($text));
}

sub svg
{
	my ($width, $height, $title, $body) = @_;

	return qq{<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $width $height" width="$width"}
	  . qq{ height="$height" $font font-size="14" fill="$color{text}">\n}
	  . '<title>' . escaped($title) . "</title>\n$body</svg>\n";
}

# Bars of times, in groups with a heading; the last bar of each group is gpujoin's
sub bars
{
	my ($title, @groups) = @_;
	my ($y, $left, $full, $most) = (22, 165, 425, 0);
	my $body = text(0, $y, $title, 'font-weight="bold"');

	for my $bar (map { @{ $_->{bars} } } @groups) { $most = $bar->[1] if $bar->[1] > $most }
	for my $group (@groups)
	{
		$y += 34;
		$body .= text(0, $y, $group->{heading});
		for my $bar (@{ $group->{bars} })
		{
			my ($name, $ms) = @$bar;
			my $ours = $name =~ /^gpujoin/;
			my $width = $full * $ms / $most;
			my $bold = $ours ? qq{ font-weight="bold" fill="$color{ours}"} : '';

			$y += 24;
			$body .= text($left - 10, $y, $name, qq{text-anchor="end"$bold});
			$body .= sprintf(qq{<rect x="%g" y="%g" width="%.1f" height="16" fill="%s"/>\n},
				$left, $y - 13, $width, $ours ? $color{ours} : $color{other});
			$body .= text(sprintf('%.1f', $left + $width + 8), $y, "$ms ms", $bold =~ s/^ //r);
		}
	}
	return svg(700, $y + 12, $title, $body);
}

sub gain
{
	my $types = '2026-11-27-cpu-16-cores-20000000-rows-types.md';
	my $peers = '2026-11-28-nvidia-h100-20000000-rows-peers.md';
	my @cpu = ($types, 'Columns of other types in INCLUDE, one process', 'sum(price), int8');
	my @gpu = ($peers, 'One process', 'joinsum');

	return bars('Sum over the rows of 4,000 keys in a table of 20 million rows',
		{ heading => 'without a GPU', bars => [
			['covering btree', figure(@cpu, 'covering')],
			['gpujoin', figure(@cpu, 'gpujoin include')]] },
		{ heading => 'with an NVIDIA H100', bars => [
			['covering btree', figure(@gpu, 'covering btree')],
			['PG-Strom, cached', figure(@gpu, 'PG-Strom GPU-Cache')],
			['DuckDB, on the CPU', figure(@gpu, 'DuckDB')],
			['gpujoin', figure(@gpu, 'gpujoin INCLUDE')]] });
}

# A box with centered lines of text, of which the first is bold
sub box
{
	my ($x, $y, $width, @lines) = @_;
	my $height = 18 * @lines + 14;
	my $body = qq{<rect x="$x" y="$y" width="$width" height="$height" rx="5" fill="none"}
	  . qq{ stroke="$color{line}"/>\n};

	for my $i (0 .. $#lines)
	{
		$body .= text($x + $width / 2, $y + 21 + 18 * $i, $lines[$i],
			'text-anchor="middle" ' . ($i ? 'font-size="12"' : 'font-weight="bold"'));
	}
	return $body;
}

# An arrow along points [X, Y], with a label above the middle of its first part
sub arrow
{
	my ($label, @points) = @_;
	my ($x, $y) = @{ $points[-1] };
	my ($dx, $dy) = ($x <=> $points[-2][0], $y <=> $points[-2][1]);
	my @head = map { sprintf '%g,%g', $x - 8 * $dx + 4 * $_ * $dy, $y - 8 * $dy + 4 * $_ * $dx }
	  -1, 1;
	my $body = sprintf qq{<polyline points="%s" fill="none" stroke="%s"/>\n},
	  join(' ', map { "$_->[0],$_->[1]" } @points), $color{line};

	$body .= qq{<polygon points="$x,$y @head" fill="$color{line}"/>\n};
	$body .= text(($points[0][0] + $points[1][0]) / 2, ($points[0][1] + $points[1][1]) / 2 - 6,
		$label, 'text-anchor="middle" font-size="12"') if $label ne '';
	return $body;
}

sub row
{
	my @box = (
		[10, 90, 150, 'set of keys', 'distinct codes, int64', 'sets/keyset.c'],
		[220, 90, 170, 'match', 'tails, deltas, runs;', 'or a device, and', 'pages that it lacks',
			'match/, mirror/'],
		[460, 20, 200, 'entries', 'of all-visible pages:', 'the values are the row',
			'rows/rows.c, match/visible.c'],
		[460, 170, 200, 'TIDs', 'heap, snapshot, HOT chain;', 'the key is looked up again',
			'rows/heap.c'],
		[730, 90, 130, 'batch', 'rows as arrays,', 'or tuples', 'sets/batch.h'],
		[920, 90, 170, 'the query', 'pairs of rows, groups,', 'first of an order, slots',
			'join/, agg/, exec/']);
	my @way = (
		[[160, 124], [220, 124]],
		[[390, 110], [425, 110], [425, 63], [460, 63]],
		[[390, 152], [425, 152], [425, 213], [460, 213]],
		[[660, 63], [695, 63], [695, 110], [730, 110]],
		[[660, 213], [695, 213], [695, 150], [730, 150]],
		[[860, 124], [920, 124]]);
	my $body = join '', map({ box(@$_) } @box), map({ arrow('', @$_) } @way);

	return svg(1100, 270, 'The way of a row, from the keys of a query to its result', $body);
}

sub entry
{
	my @place = (
		['tail page', 'of a lane', 'read by every search'],
		['delta', 'unsorted data pages', 'read by every search'],
		['small run', 'sorted, a directory', 'pages that can match'],
		['bigger run', 'sorted, a directory', 'pages that can match']);
	my @step = ('move', 'fold', 'merge');
	my @file = ('am/insert.c', 'am/fold.c', 'am/merge.c');
	my $body = text(0, 59, 'INSERT', 'font-weight="bold"') . arrow('', [58, 54], [100, 54]);

	for my $i (0 .. $#place)
	{
		my $x = 100 + 240 * $i;

		$body .= box($x, 20, 160, @{ $place[$i] });
		$body .= arrow($step[$i], [$x + 160, 54], [$x + 240, 54])
		  . text($x + 200, 72, $file[$i], 'text-anchor="middle" font-size="10"') if $i < 3;
		$body .= arrow('', [$x + 80, 88], [$x + 80, 130]);
	}
	$body .= qq{<line x1="100" y1="130" x2="980" y2="130" stroke="$color{line}"/>\n};
	$body .= text(540, 152, 'VACUUM deletes an entry where it is then; its slot is not used again, '
		  . 'folds and merges leave it behind', 'text-anchor="middle" font-size="12"');
	$body .= text(540, 172, 'each step is published by one WAL record; pages that a step has '
		  . 'left are free, as a whole', 'text-anchor="middle" font-size="12"');
	return svg(1000, 186, 'The life of an entry', $body);
}

my %picture =
  ('docs/gain.svg' => gain(), 'docs/row.svg' => row(), 'docs/entry.svg' => entry());

for my $name (sort keys %picture)
{
	if ($check)
	{
		print "$name is not as test/docs/pictures.pl draws it\n"
		  if slurp("$folder/$name") ne $picture{$name};
		next;
	}
	open(my $out, '>', "$folder/$name") or die "$folder/$name: $!\n";
	print $out $picture{$name};
	close($out) or die "$folder/$name: $!\n";
}
