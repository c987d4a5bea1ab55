#!/usr/bin/env perl
# test/bench/report.pl: tables and plots from benchmarks' samples (whose format lib.sh describes).
#
#	report.pl tables SAMPLES PREFIX		markdown, with links to the plots
#	report.pl plots SAMPLES PREFIX		PREFIX-rows.svg, -keys, -share, -set, -peers,
#						-1-process, -N-workers; needs gnuplot
#	report.pl summary SAMPLES...		markdown: the cases that answer the most common questions
#	report.pl growth SMALLER BIGGER		markdown: the same cases at two sizes
#	report.pl bars REPORT.md SVG		a plot of a report's first table, without its ratios
#
# PREFIX is the name of SAMPLES without .tsv: DATE-MACHINE-ROWS-rows-PARTS, which appears in
# titles of plots.
use strict;
use warnings;

my %title = (
	'jobs, 1 process' => ['The four jobs, one process', 'Milliseconds.'],
	'jobs, N workers' => ['The four jobs, up to N parallel workers', 'Milliseconds.'],
	'columns, 1 process' => [
		'Filters, aggregates, groups, DISTINCT and top-N, one process',
		'Milliseconds. "DISTINCT rows" and "a group for each row" without their way to the client.'
	],
	'columns, N workers' => ['The same, up to N parallel workers', 'Milliseconds.'],
	'row' => [
		'The same statement in a row, one process',
		'Milliseconds in PL/pgSQL, planned once. "DISTINCT rows" are thrown away by a cursor.'
	],
	'sets' => ['Other sets of 4,000 keys', 'Generic plans.'],
	'keys' => [
		'Keys of other types, one process',
		'Milliseconds. Lists are parameters of prepared statements: of generic plans, or planned'
		  . ' each time. They are arrays, as drivers with a binary protocol send them, and'
		  . ' functions have them in variables. "List as text": PostgreSQL reads the list from'
		  . ' its text, in the time of each contestant. Bars are judged on arrays.'
	],
	'tuples' => [
		'Lists of pairs, one process',
		'Milliseconds. "stock" is PostgreSQL\'s choice, "all indexes" that with gpujoin\'s index.'
	],
	'types' => [
		'Columns of other types in INCLUDE, one process',
		'Milliseconds; 4,000 keys in 20 million rows, a million rows match.'
	],
	'build' => ['Index build', ''],
	'insert' => [
		'Writing',
		'A table of its own for each kind of index; readers look up twenty sets a second.'
	],
	'upkeep' => [
		'An index\'s life',
		'A table of its own for each kind of index; VACUUM and WAL are those of the table, too.'
	],
	'clients' => [
		'Many clients',
		'A look-up: 1,000 keys, one row in a thousand. Mixed: one transaction in ten writes.'
	],
	'cold' => [
		'Cold', 'The first query after a restart, the files no longer in the kernel\'s memory.'
	],
	'peers, 1 process' => [
		'gpujoin and its peers, 4,000 keys unless stated otherwise, one process',
		'Milliseconds. PostgreSQL\'s times have planning in them, DuckDB\'s have not.'
	],
	'peers, N workers' => [
		'gpujoin and its peers, N parallel workers or threads', 'Milliseconds.'
	],
	'scale: peers' => ['Count and sum for a set of keys, one process', 'Each key has rows.'],
	'scale: set' => [
		'Count and sum for a set of keys, one process',
		'At most 4,000 of the keys have rows; generic plans.'
	],
	'scale: rows' => [
		'Count and sum in a join with 4,000 keys, one process', '5 % of the rows match.'
	],
	'scale: keys' => [
		'Count and sum in a join with a set of keys, one process', '0.1 % of the rows match.'
	],
	'scale: share' => ['Count and sum in a join with 40,000 keys, one process', '']);
my %axis = (rows => 'rows of the table', keys => 'keys in the set (0.1 % of the rows match)',
	set => 'keys in the set (at most 4,000 of them have rows)', peers => 'keys in the set',
	share => 'rows that match, per cent');

# Names of the reports' jobs in plots
my %job = (countgeneric => 'count, generic plan', joinsum => 'join, sum', group => 'group by',
	groupyear => 'group by year', distinct => 'distinct rows',
	distinctcompany => 'distinct companies', top => 'newest rows', count100 => 'count, 100 keys',
	group100 => 'group by, 100 keys', count10 => 'count, 10 keys', group10 => 'group by, 10 keys');

# Names of contestants in plots
my %shown = (covering => 'covering btree', 'gpujoin include' => 'gpujoin INCLUDE',
	'gpujoin CPU' => 'gpujoin INCLUDE, CPU');
my %colour = ('no index' => '#888888', btree => '#d08020', covering => '#b03030',
	gpujoin => '#3060c0', 'gpujoin include' => '#209050', DuckDB => '#7030a0',
	'PG-Strom' => '#30a0a0', 'PG-Strom heap' => '#30a0a0', 'PG-Strom GPU-Cache' => '#d0b000');
$colour{ $shown{$_} } = $colour{$_} for grep { $colour{$_} } keys %shown;

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ $#sorted / 2 ];
}

# Parts in the order of their first sample, each with its cases and contestants in that order.
sub read_samples
{
	my ($file) = @_;
	my (@parts, %part);

	open(my $in, '<', $file) or die "$file: $!\n";
	while (my $line = <$in>)
	{
		chomp $line;
		my ($name, $case, $who, $unit, $better, $x, $value, $remark, undef, $again) =
		  split /\t/, $line, -1;

		next if $again;
		next unless defined $value && $value =~ /^[0-9.e+-]+$/;
		push @parts, $name unless $part{$name};
		my $p = $part{$name} //= { cases => [], who => [] };
		my $c = $p->{case}{$case} //= { unit => $unit, better => $better, x => $x };

		push @{ $p->{cases} }, $case unless $c->{values};
		push @{ $p->{who} }, $who unless $p->{seen}{$who}++;
		push @{ $c->{values}{$who} }, $value;
		$c->{remark}{$who} = $remark if $remark;
	}
	return (\@parts, \%part);
}

sub is_outside { return $_[0] =~ /^(DuckDB|PG-Strom)/ }

sub number
{
	my ($value) = @_;
	return sprintf($value >= 100 ? '%.0f' : $value >= 10 ? '%.1f' : '%.2f', $value);
}

# How many times faster our best contestant is than the best of the others.
sub ahead
{
	my ($case, $median, $theirs) = @_;
	my $less = $case->{better} eq 'less';
	my $best = sub {
		my @v = sort { $a <=> $b } map { $median->{$_} } @_;
		return $less ? $v[0] : $v[-1];
	};
	my $is_ours = qr/^(gpujoin|all indexes)/;
	my $ours = $best->(grep { /$is_ours/ } keys %$median);
	my $stock = $best->(grep { !/$is_ours/ && $theirs->($_) } keys %$median);

	return '' unless $ours && $stock;
	return sprintf('%.2f', $less ? $stock / $ours : $ours / $stock);
}

# The mark of a plan that the planner had to be forced to use
sub mark_of
{
	my ($case, $who) = @_;
	my $remark = $case->{remark}{$who} // '';

	return $remark eq 'told to' ? ' *' : $remark eq 'other plan' ? ' **' : '';
}

sub explain_marks
{
	return "\\* only because told to: the planner would not have taken the index by itself;\n"
	  . "\\*\\* it did not take it even so.\n";
}

sub print_table
{
	my ($name, $part) = @_;
	my ($title, $text) = @{ $title{$name} // [ $name, '' ] };
	my @who = @{ $part->{who} };
	my $has_peers = $name =~ /peers/;
	my $second = $has_peers ? 'best of all others / best gpujoin' : 'without covering';
	my ($other, %rounds);

	print "\n## $title\n\n";
	print "$text\n\n" if $text;
	print "| case | unit | ", join(' | ', @who),
	  " | best stock / best gpujoin | $second |\n";
	print "|---|---|", '--:|' x (@who + 2), "\n";
	for my $case (@{ $part->{cases} })
	{
		my $c = $part->{case}{$case};
		my %median = map { $_ => median(@{ $c->{values}{$_} }) } keys %{ $c->{values} };
		my @cells;

		for my $who (@who)
		{
			my $mark = mark_of($c, $who);

			$other ||= $mark;
			push @cells, defined $median{$who} ? number($median{$who}) . $mark : '';
			$rounds{ @{ $c->{values}{$who} } } = 1 if $c->{values}{$who};
		}
		# Among writers, a table without an index is no rival.
		my $rival = sub { $name !~ /^(insert|upkeep)/ || $_[0] !~ /^no index/ };
		my $stock = sub { $rival->(@_) && !is_outside(@_) };
		my $others = $has_peers ? $rival : sub { $stock->(@_) && $_[0] !~ /^covering/ };

		print "| $case | $c->{unit} | ", join(' | ', @cells), ' | ',
		  ahead($c, \%median, $stock), ' | ', ahead($c, \%median, $others), " |\n";
	}
	print "\nThe last two columns: how many times better gpujoin is. Rounds: ",
	  join(', ', sort { $a <=> $b } keys %rounds), ".\n";
	print explain_marks() if $other;
}

sub print_tables
{
	my ($file, $prefix) = @_;
	my ($parts, $part) = read_samples($file);
	my $base = $prefix =~ s{.*/}{}r;

	for my $name (@$parts)
	{
		print_table($name, $part->{$name});
		my $what = plot_name($name) or next;
		print "\n![" . ($title{$name} // [$name])->[0] . "]($base-$what.svg)\n";
	}
	return;
}

# ---------------------------------------------------------------------------------------------
# Plots
# ---------------------------------------------------------------------------------------------

# The name of a part's plot, without the prefix; nothing if it has none.
sub plot_name
{
	my ($name) = @_;
	return $name =~ /^scale: (.*)/ ? $1 : $name =~ /^peers, (.*)/ ? $1 =~ s/ /-/r : '';
}

# The job, the rows, the machine and the day; the last three are taken from the samples' name.
sub plot_title
{
	my ($name, $prefix) = @_;
	my ($title) = @{ $title{$name} // [$name] };
	my ($date, $machine, $rows) = $prefix =~ m{(\d{4}-\d\d-\d\d)-([^/]*?)-(\d+)-rows}
	  or return $title;

	$machine =~ s/^cpu-(\d+)-cores$/no GPU, $1 processors/ or $machine = uc $machine =~ tr/-/ /r;
	1 while $rows =~ s/^(\d+)(\d{3})/$1,$2/;
	$machine = "$rows rows, $machine" unless $name eq 'scale: rows';
	return "$title\\n$machine, $date";
}

# The contestants' results: x and the median in ms, in the order of x.
sub lines_of
{
	my ($part) = @_;
	my %line;

	for my $c (sort { $a->{x} <=> $b->{x} } values %{ $part->{case} })
	{
		push @{ $line{$_} }, [ $c->{x}, median(@{ $c->{values}{$_} }) ] for keys %{ $c->{values} };
	}
	return \%line;
}

# The vertical position of each line's name, from top to bottom, as a fraction of the plot's
# height: at the end of the line, or far enough from it that names do not overlap.
sub places
{
	my ($line, $low, $high) = @_;
	my $gap = 0.06;
	my $top = 1 + $gap / 2;
	my %wanted = map {
		$_ => log($line->{$_}[-1][1] / $low) / log($high / $low)
	} keys %$line;
	my @who = sort { $wanted{$b} <=> $wanted{$a} || $a cmp $b } keys %wanted;
	my %place;

	for my $i (0 .. $#who)
	{
		my $room = ($#who - $i) * $gap;
		my $place = $wanted{ $who[$i] };

		$place = $room if $place < $room;
		$place = $top - $gap if $place > $top - $gap;
		$top = $place{ $who[$i] } = $place;
	}
	return \%place;
}

sub plot_lines
{
	my ($out, $part, $what) = @_;
	my $line = lines_of($part);
	my @who = grep { $line->{$_} } @{ $part->{who} };
	my @values = sort { $a <=> $b } map { map { $_->[1] } @$_ } values %$line;
	my ($low, $high) = ($values[0] / 1.3, $values[-1] * 1.3);
	my $place = places($line, $low, $high);

	print $out "set logscale xy\nset grid\nunset key\nset rmargin 23\nset yrange [$low:$high]\n",
	  "set xlabel '$axis{$what}'\nset ylabel 'milliseconds (median)'\n",
	  "set format x '", $what eq 'share' ? '%g' : '%.0s%c', "'\nset format y '%g'\n";
	print $out "set label '", shown($_), "' at graph 1.015, graph $place->{$_} left tc rgb '",
	  colour_of($_), "'\n"
	  for @who;
	print $out 'plot ', join(', ', map {
			"'-' using 1:2 with linespoints lw 2 pt 7 ps 0.6 lc rgb '" . colour_of($_) . "'"
		} @who), "\n";
	print $out map({ "$_->[0] $_->[1]\n" } @{ $line->{$_} }), "e\n" for @who;
	return;
}

# A job has a bar for each contestant; their names are listed above in the same order.
sub plot_bars
{
	my ($out, $part) = @_;
	my @who = @{ $part->{who} };
	my @cases = @{ $part->{cases} };

	my ($low) = sort { $a <=> $b }
	  map { map { median(@$_) } values %{ $_->{values} } } values %{ $part->{case} };

	$low /= 2;
	print $out "set logscale y\nset yrange [$low:]\nset grid ytics\n",
	  "set key top outside horizontal center\n",
	  "set style data histograms\nset style histogram clustered gap 1.5\n",
	  "set style fill solid\nset rmargin 10\nset ylabel 'milliseconds (median)'\n",
	  "set format y '%g'\nset xtics rotate by -25\n";
	print $out 'plot ', join(', ', map {
			"'-' using 2:xtic(1) lc rgb '" . colour_of($_) . "' title '" . shown($_) . "'"
		} @who), "\n";
	for my $who (@who)
	{
		for my $case (@cases)
		{
			my $values = $part->{case}{$case}{values}{$who};

			print $out qq("$case" ), $values ? median(@$values) : 'NaN', "\n";
		}
		print $out "e\n";
	}
	return;
}

# The first table of a report as a part: jobs, and contestants with a median each. Columns that
# begin with a slash are ratios; a cell without a number marks a contestant that failed.
sub read_table
{
	my ($file) = @_;
	my $part = { cases => [], who => [] };
	my $cells = sub { map { s/^\s+|\s+$//gr } split(/\|/, $_[0] =~ s/^\||\|\s*$//gr) };

	open(my $in, '<', $file) or die "$file: $!\n";
	while (my $line = <$in>)
	{
		last if $line !~ /^\|/ && @{ $part->{cases} };
		next if $line !~ /^\|/ || $line =~ /^\|-/;
		my ($case, @values) = $cells->($line);

		if (!@{ $part->{who} })
		{
			$part->{who} = [ grep { !m{^/} } @values ];
			next;
		}
		$case = $job{$case} // $case;
		push @{ $part->{cases} }, $case;
		for my $i (grep { ($values[$_] // '') =~ /^[0-9.]+/ } 0 .. $#{ $part->{who} })
		{
			my ($value) = $values[$i] =~ /^([0-9.]+)/;
			$part->{case}{$case}{values}{ $part->{who}[$i] } = [$value];
		}
	}
	return $part;
}

# The name of a contestant in a plot
sub shown { return $shown{ $_[0] =~ s/, N$//r } // $_[0] =~ s/, N$//r }

sub colour_of { return $colour{ $_[0] =~ s/, N$//r } // '#000000' }

sub make_plots
{
	my ($file, $prefix) = @_;
	my ($parts, $part) = read_samples($file);

	for my $name (@$parts)
	{
		my $what = plot_name($name) or next;
		my $title = plot_title($name, $prefix);
		my $is_line = $name =~ /^scale/;

		open(my $out, '|-', 'gnuplot') or die "gnuplot: $!\n";
		print $out "set terminal svg noenhanced size ", $is_line ? '820,460' : '1100,560',
		  " font 'sans-serif,13' background 'white'\n",
		  "set output '$prefix-$what.svg'\nset title \"$title\"\n";
		$is_line ? plot_lines($out, $part->{$name}, $what) : plot_bars($out, $part->{$name});
		close($out) or die "gnuplot failed\n";
	}
	return;
}

# Part, case and label of the cases that answer the most common questions.
my @summary = (
	map({ [ 'jobs, 1 process', $_, "$_, one process" ], [ 'jobs, N workers', $_, "$_, N workers" ] }
		'count(*), = ANY', 'count, sum, join', 'all columns, join', 'DISTINCT, join'),
	map({ [ 'columns, 1 process', $_, "$_, one process" ] } 'groups by key', 'groups by year',
		'count(DISTINCT)', 'newest 100', 'count over DISTINCT', 'a group for each row',
		'filter that keeps 1 %, rows of the heap'),
	[ 'clients', 'look-ups, 64 clients', '64 clients, look-ups of 1,000 keys' ],
	[ 'clients', 'mixed, 64 clients', '64 clients, one in ten writes' ],
	[ 'insert', 'single rows, 8 clients, 4 readers', '8 clients insert, 4 others look up' ],
	[ 'build', 'index on class_id', 'index build' ]);

# Put the cases of several runs into one table. If several runs have a case, use the first run's.
sub summary
{
	my @lines;
	my @runs = map { (read_samples($_))[1] } @_;
	my @who = ('no index', 'btree', 'covering', 'gpujoin', 'gpujoin include');

	push @lines, "| | unit | " . join(' | ', @who) . " |\n|---|---|" . '--:|' x @who . "\n";
	for my $row (@summary)
	{
		my ($name, $case, $label) = @$row;
		my ($c) = grep { defined } map { $_->{$name} && $_->{$name}{case}{$case} } @runs;

		next unless $c;
		my %cells = map { s/, N$//r => number(median(@{ $c->{values}{$_} })) . mark_of($c, $_) }
		  keys %{ $c->{values} };
		push @lines,
		  "| $label | $c->{unit} | " . join(' | ', map { $cells{$_} // '' } @who) . " |\n";
	}
	push @lines, "\n", explain_marks() if grep { / \*/ } @lines;
	return join('', @lines);
}

sub print_summary
{
	print summary(@_);
	return;
}

sub rows_of
{
	my ($file) = @_;
	my ($rows) = $file =~ /-(\d+)-rows/ or die "$file: its name does not tell the rows\n";
	return $rows;
}

sub print_growth
{
	my ($smaller, $bigger) = @_;
	my @rows = map { rows_of($_) } $smaller, $bigger;
	my ($parts, $small) = read_samples($smaller);
	my (undef, $big) = read_samples($bigger);

	printf "The data grow by %.4g.\n\n", $rows[1] / $rows[0];
	print "| part | case | contestant | $rows[0] rows | $rows[1] rows | grows by |\n",
	  "|---|---|---|--:|--:|--:|\n";
	for my $name (grep { $big->{$_} && !/^(build|insert|upkeep|scale)/ } @$parts)
	{
		for my $case (@{ $small->{$name}{cases} })
		{
			my ($s, $b) = map { $_->{$name}{case}{$case} } $small, $big;

			for my $who (grep { $b && $s->{values}{$_} && $b->{values}{$_} }
				@{ $small->{$name}{who} })
			{
				my ($from, $to) = map { median(@{ $_->{values}{$who} }) } $s, $b;
				printf "| %s | %s | %s | %s | %s | %.2f |\n", $name, $case, $who, number($from),
				  number($to), $s->{better} eq 'less' ? $to / $from : $from / $to;
			}
		}
	}
	return;
}

sub make_bars
{
	my ($file, $plot) = @_;
	my $title = plot_title('peers, 1 process', $file);

	open(my $out, '|-', 'gnuplot') or die "gnuplot: $!\n";
	print $out "set terminal svg noenhanced size 1100,560 font 'sans-serif,13' ",
	  "background 'white'\nset output '$plot'\nset title \"$title\"\n";
	plot_bars($out, read_table($file));
	close($out) or die "gnuplot failed\n";
	return;
}

my ($mode, @files) = @ARGV;
my %mode = (bars => \&make_bars, tables => \&print_tables, plots => \&make_plots,
	summary => \&print_summary, growth => \&print_growth);
die "usage: report.pl tables|plots|summary|growth|bars FILE...\n"
  unless $mode && $mode{$mode} && @files >= ($mode eq 'summary' ? 1 : 2);
$mode{$mode}->(@files);
