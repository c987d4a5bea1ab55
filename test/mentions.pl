#!/usr/bin/env perl
# test/mentions.pl [ROOT]: prints mentions of source files that do not exist: FOLDER/FILE.c, or
# FILE.c of any folder, in the comments of src/ and advisor/, and in the READMEs.
use strict;
use warnings;
use File::Basename;

chdir(shift // dirname($0) . '/..') or die "no such folder\n";

my (%file, %base);
for my $path (grep { -f } glob 'src/* src/*/* advisor/* cuda/* cuda/*/* test/* test/*/* test/*/*/*')
{
	(my $short = $path) =~ s{^(?:src|cuda|test)/}{};
	$file{$path} = $file{$short} = $base{ basename($path) } = 1;
}

# Files of PostgreSQL
my %foreign = map { $_ => 1 } qw(logtape.c nodeBitmapHeapscan.c setrefs.c visibilitymap.c);

for my $source (glob('src/*/*.[ch] src/*.c advisor/*.[ch]'),
	grep { -f } 'src/README', 'cuda/README')
{
	open(my $in, '<', $source) or die "$source: $!\n";
	while (<$in>)
	{
		next if /^\s*#\s*include/;
		while (m{(?<![\w/.-])((?:\w+/)*)(\w+\.(?:c|h|cu|cuh))\b(?!\w)}g)
		{
			my ($folder, $name) = ($1, $2);

			next if $folder eq '' ? $base{$name} : $file{"$folder$name"};
			next if $foreign{$name};
			print "$source:$.: $folder$name does not exist\n";
		}
	}
}
