#!/usr/bin/env perl
# test/house.pl [--check | --list] [--strict] [ROOT]: measures how src/ is divided into files.
#
# Prints a table of the figures below; with --check only those above their limits, and what they
# count; with --list what each of them counts; with --strict all limits are 0.  The figures of
# functions come from the symbols of the objects in src/ and test/module, so both must have been
# built.
use strict;
use warnings;
use File::Basename;

# Limits.  They become lower; only a release with new capabilities may raise them, as 1.1.0 did
# (keys, fold workers, merges in steps, reductions), and 1.2.0 (plain scans, PostgreSQL 19, seeded
# tables, batches, several devices).  Any other change should be divided
# differently.
my %limit = (
	'files' => 170,
	'lines' => 85200,
	'lines of code' => 60000,
	'global functions' => 822,
	'used by no other file' => 0,
	'used across folders' => 440,
	'single callers in the folder' => 236,
	'pairs of files to merge' => 0,
	'private headers' => 8,
	'names with two meanings' => 0,
	'files with EXPLAIN' => 1);

# A pair of files is to be merged if it shares this many functions that have a single caller, and
# the file would not become longer than that.
my ($shared_functions, $merged_lines) = (8, 1200);

# Names that mean the same in each folder that has them: the library, plans of joins
my %same_meaning = map { $_ => 1 } qw(gpujoin joinplan);

# In these folders every header is public
my %all_public = map { $_ => 1 } qw(base node);

my $mode = @ARGV && $ARGV[0] =~ /^--(check|list)$/ ? $1 : '';
shift if $mode;
if (@ARGV && $ARGV[0] eq '--strict')
{
	%limit = map { $_ => 0 } keys %limit;
	shift;
}
chdir(shift // dirname($0) . '/..') or die "no such folder\n";

my (%found, %text);
my @files = grep { m{^src/.*\.[ch]$} } glob 'src/* src/*/*';
$text{$_} = slurp($_) for @files;
die "no sources\n" unless @files;
$found{'files'} = [@files];
$found{'lines'} = [ map { ($_) x ($text{$_} =~ tr/\n//) } @files ];
$found{'lines of code'} = [ map { ($_) x lines_of_code($text{$_}) } @files ];
$found{'private headers'} = [ grep { is_private($_) } @files ];
$found{'files with EXPLAIN'} = [ grep { $text{$_} =~ /\bExplainProperty\w*\s*\(/ } @files ];
find_names();
find_functions();
report();

sub slurp
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/ = undef;
	return <$in>;
}

sub folder { return $_[0] =~ m{^src/(\w+)/} ? $1 : '' }
sub name { return $_[0] =~ m{(\w+)\.\w+$} ? $1 : $_[0] }

# Lines that are neither blank nor only a comment
sub lines_of_code
{
	my ($source) = @_;

	$source =~ s{/\*.*?\*/|//[^\n]*}{}gs;
	return scalar grep { /\S/ } split(/\n/, $source);
}

# Files that this one includes, in its own folder
sub includes
{
	my ($file) = @_;
	my $folder = dirname($file);

	return grep { exists $text{$_} }
	  map { "$folder/$_" } $text{$file} =~ /^\s*#\s*include\s+"(\w+\.h)"/gm;
}

# A private header is neither the folder's door, nor a part of it, nor a template
sub is_private
{
	my ($file) = @_;
	my $folder = folder($file);

	return 0 if $file !~ /\.h$/ || $folder eq '' || $all_public{$folder};
	return 0 if $text{$file} =~ /\bincluded\s(?:\*\s+)?(?:once\sper\stype|there\sonly)\b/i;
	my @door = grep { exists $text{$_} } "src/$folder/$folder.h";
	my %part;
	while (my $header = shift @door) { push @door, includes($header) unless $part{$header}++ }
	return !$part{$file};
}

# A name stands for one thing, in the whole tree
sub find_names
{
	my %folders;

	$folders{ name($_) }{ folder($_) } = 1 for @files;
	$found{'names with two meanings'} =
	  [ map { "$_ in " . join(', ', sort keys %{ $folders{$_} }) }
		  grep { keys %{ $folders{$_} } > 1 && !$same_meaning{$_} } sort keys %folders ];
}

sub find_functions
{
	my (%defined, %users, %shared);

	for my $object (glob 'src/*.o src/*/*.o test/module/*.o')
	{
		(my $source = $object) =~ s/o$/c/;
		next unless -e $source;
		my $ours = $source =~ /^src/;
		for (`nm '$object'`)
		{
			$defined{$1} = $source if $ours && /^\w+ T (\w+)/;
			push @{ $users{$1} }, $source if /^ +U (\w+)/;
		}
	}
	$found{$_} = []
	  for 'used by no other file', 'used across folders', 'single callers in the folder';
	$found{'global functions'} = [ map { "$_ of $defined{$_}" } sort keys %defined ];
	for my $function (sort keys %defined)
	{
		my $home = $defined{$function};
		my @users = @{ $users{$function} // [] };

		push @{ $found{'used by no other file'} }, "$function of $home"
		  unless @users || is_entry($function);
		push @{ $found{'used across folders'} }, "$function of $home"
		  if grep { folder($_) ne folder($home) } @users;
		next unless @users == 1 && folder($users[0]) eq folder($home);
		push @{ $found{'single callers in the folder'} }, "$function of $home, for $users[0]";
		$shared{ join(' ', sort $home, $users[0]) }++;
	}
	$found{'pairs of files to merge'} = [
		map { "$_ share $shared{$_} functions" }
		  grep { $shared{$_} >= $shared_functions && can_be_merged(split) } sort keys %shared ];
}

# PostgreSQL calls functions by name, fuzz targets link files of src/
sub is_entry
{
	my ($function) = @_;

	return 1 if $function =~ /^(_PG_init|Pg_magic_func|(pg_finfo_)?gpujoin_\w+|Gj\w+Main)$/;
	return grep { slurp($_) =~ /\b$function\b/ } glob 'test/fuzz/*.c';
}

sub can_be_merged
{
	my $lines = 0;

	$lines += $text{$_} =~ tr/\n// for @_;
	return $lines <= $merged_lines;
}

sub report
{
	die "the objects of src/ and test/module have not been built\n"
	  unless @{ $found{'global functions'} };
	for my $figure ('files', 'lines', 'lines of code', 'global functions',
		'used by no other file', 'used across folders', 'single callers in the folder',
		'pairs of files to merge', 'private headers', 'names with two meanings',
		'files with EXPLAIN')
	{
		my @list = @{ $found{$figure} };
		my $above = @list > $limit{$figure};

		next if $mode eq 'check' && !$above;
		printf "%-30s %6d, at most %d\n", $figure, scalar @list, $limit{$figure};
		next if $mode eq '' || $figure eq 'files' || $figure =~ /^lines/;
		print "\t$_\n" for @list;
	}
}
