#!/usr/bin/env perl
# test/house.pl [--check | --list] [--strict] [ROOT]: counts the mechanisms of src/, which every
# server loads, its lines, and what its folders use of each other.
#
# Prints a table of the figures below; with --check only those above their limits, and what they
# count; with --list what each of them counts; with --strict all limits are 0.  The figures of
# functions come from the symbols of the objects in src/ and test/module, so both must have been
# built.
#
# A mechanism is a place where we are part of PostgreSQL, or a representation of our own that
# outlives a call.  Each has to work together with each of the others, so their number says more
# about the effort of a change than lines do:
#
#	plan node types		executors of custom scans
#	hooks installed		a hook of PostgreSQL's in a file that sets it to a function of ours
#	settings			those of users, and those for tests
#	shared memory		structs and hash tables
#	lists in plans		layouts of custom_private, custom_exprs and lists within them, also of
#						paths
#	index formats		those that the library reads
use strict;
use warnings;
use File::Basename;

# Limits.  Those of mechanisms only become lower.  Lines and functions may also become more in a
# release with new capabilities, as in 1.1.0 (keys, fold workers, merges in steps, reductions), and
# 1.2.0 (plain scans, PostgreSQL 19, seeded tables, batches, several devices, ranges, order, and
# narrow pages, which halve an index: a writer, searches of two kinds of pages, plain images, and
# vector instructions that widen values).
my %limit = (
	'plan node types' => 5,
	'hooks installed' => 10,
	'settings' => 24,
	'structs in shared memory' => 5,
	'lists in plans' => 12,
	'index formats' => 3,
	'lines' => 86827,
	'lines of code' => 60848,
	'global functions' => 894,
	'used by no other file' => 0,
	'used across folders' => 474,
	'private headers' => 8,
	'names with two meanings' => 0,
	'static functions of one name' => 0,
	'files with EXPLAIN' => 1);

# Names that mean the same in each folder that has them: plans of joins
my %same_meaning = map { $_ => 1 } qw(joinplan);

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

my (%found, %text, $fuzz_text);
my @files = grep { m{^src/.*\.[ch]$} } glob 'src/* src/*/*';
$text{$_} = slurp($_) for @files;
die "no sources\n" unless @files;
find_mechanisms();
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

sub find_mechanisms
{
	my (@nodes, %hooks, %settings, @shared, @lists, %version);

	for my $file (@files)
	{
		(my $code = $text{$file}) =~ s{/\*.*?\*/}{}gs;
		push @nodes, "$1 of $file" while $code =~ /\bCustomExecMethods (\w+) = /g;
		for ($code =~ /\b(\w+_hook)\s*=\s*\w/g, $code =~ /^(GJ_TABLE_HOOK)\(/gm)
		{
			$hooks{"$_ in $file"} = 1 unless /^prev/ || $file =~ /compat/;
		}
		$settings{$1} = 1
		  while $code =~ /\b(?:DefineCustom\w+|define_\w+)\(\s*"(gpujoin\.\w+)"/g;
		push @shared, "$1 of $file"
		  while $code =~ /\b(?:ShmemInitStruct|ShmemInitHash|GjShmemInitHash)\((".*?")/g;
		push @lists, "$1 of $file" while $code =~ /^typedef enum (Gj\w*(?:Private|Exprs|Part))$/gm;
		$version{$1} = $2 while $code =~ /^#define GJ_(FORMAT_VERSION|OLDEST_FORMAT)\s+(\d+)/gm;
	}
	$found{'plan node types'} = \@nodes;
	$found{'hooks installed'} = [ sort keys %hooks ];
	$found{'settings'} = [ sort keys %settings ];
	$found{'structs in shared memory'} = \@shared;
	$found{'lists in plans'} = \@lists;
	$found{'index formats'} =
	  [ map { "format $_" } ($version{OLDEST_FORMAT} // 1) .. ($version{FORMAT_VERSION} // 0) ];
}

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

	# Functions that a backtrace shows with the name of one in another file
	my %homes;
	for my $file (grep { /\.c$/ } @files)
	{
		$homes{$1}{$file} = 1 while $text{$file} =~ /^static [^\n;=(]*\n(\w+)\(/gm;
	}
	$found{'static functions of one name'} = [
		map { my $name = $_; map { "$name of $_" } sort keys %{ $homes{$name} } }
		grep { keys %{ $homes{$_} } > 1 } sort keys %homes ];
}

sub find_functions
{
	my (%defined, %users);

	# One call for all objects, since nm takes longer to start than to read one
	my @objects = grep { -e s/o$/c/r } glob 'src/*.o src/*/*.o test/module/*.o';
	for (@objects ? `nm -A @objects` : ())
	{
		my ($source) = s/^([^:]+)o:// ? "$1c" : next;
		$defined{$1} = $source if $source =~ /^src/ && /^\w+ T (\w+)/;
		push @{ $users{$1} }, $source if /^ +U (\w+)/;
	}
	$found{$_} = []
	  for 'used by no other file', 'used across folders';
	$found{'global functions'} = [ map { "$_ of $defined{$_}" } sort keys %defined ];
	for my $function (sort keys %defined)
	{
		my $home = $defined{$function};
		my @users = @{ $users{$function} // [] };

		push @{ $found{'used by no other file'} }, "$function of $home"
		  unless @users || is_entry($function);
		push @{ $found{'used across folders'} }, "$function of $home"
		  if grep { folder($_) ne folder($home) } @users;
	}
}

# PostgreSQL calls functions by name, fuzz targets link files of src/
sub is_entry
{
	my ($function) = @_;

	return 1 if $function =~ /^(_PG_init|Pg_magic_func|(pg_finfo_)?gpujoin_\w+|Gj\w+Main)$/;
	$fuzz_text //= join '', map { slurp($_) } glob 'test/fuzz/*.c';
	return $fuzz_text =~ /\b$function\b/;
}

sub report
{
	die "the objects of src/ and test/module have not been built\n"
	  unless @{ $found{'global functions'} };
	for my $figure ('plan node types', 'hooks installed', 'settings', 'structs in shared memory',
		'lists in plans', 'index formats', 'lines', 'lines of code', 'global functions',
		'used by no other file', 'used across folders', 'private headers',
		'names with two meanings', 'static functions of one name', 'files with EXPLAIN')
	{
		my @list = @{ $found{$figure} };
		my $above = @list > $limit{$figure};

		next if $mode eq 'check' && !$above;
		printf "%-30s %6d, at most %d\n", $figure, scalar @list, $limit{$figure};
		next if $mode eq '' || $figure =~ /^lines/;
		print "\t$_\n" for @list;
	}
}
