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

my %picture = ('docs/gain.svg' => gain());

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
