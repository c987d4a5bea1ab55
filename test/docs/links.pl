#!/usr/bin/env perl
# test/docs/links.pl DOCUMENT...: checks the links of documents in markdown, and prints broken
# ones. Files and headings must exist; of addresses only the form is checked, since a test must
# not depend on the network.
use strict;
use warnings;
use File::Basename qw(dirname);

my %anchors;

# Text without literal parts: fenced blocks, and code within a line
sub text_of
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	my $text = do { local $/ = undef; <$in> };
	$text =~ s/^\s*```.*?^\s*```\s*$/"\n" x ($& =~ tr{\n}{})/gmse;
	return $text;
}

# Like GitHub's anchors: lower case, hyphens for blanks, no other signs; a number for duplicates
sub anchors_of
{
	my ($file) = @_;
	my %seen;

	return $anchors{$file} if $anchors{$file};
	$anchors{$file} = {};
	for my $heading (text_of($file) =~ /^#+\s+(.+?)\s*$/gm)
	{
		my $anchor = lc($heading) =~ s/\[([^\]]*)\]\([^)]*\)/$1/gr =~ s/[^\w\s-]//gr =~ s/ /-/gr;
		my $n = $seen{$anchor}++;

		$anchors{$file}{ $n ? "$anchor-$n" : $anchor } = 1;
	}
	return $anchors{$file};
}

sub problem_of
{
	my ($file, $target) = @_;

	if ($target =~ /^[a-z]+:/)
	{
		return $target =~ m{^(https?://[\w.-]+\.[a-z]{2,}(/[\w./?&=%#~+:,\@-]*)?|mailto:\S+@\S+)$}
		  ? '' : 'is no address';
	}
	my ($path, $anchor) = $target =~ /^([^#]*)(?:#(.*))?$/;
	my $there = $path eq '' ? $file : dirname($file) . "/$path";

	return 'is outside the project' if $path =~ m{^/};
	return 'is not there' unless -e $there;
	return '' unless defined $anchor;
	return 'has an anchor, but is not markdown' unless $there =~ /\.md$/;
	return anchors_of($there)->{$anchor} ? '' : 'has no such heading';
}

for my $file (@ARGV)
{
	my $line = 0;

	for (split(/\n/, text_of($file)))
	{
		$line++;
		s/`[^`]*`//g;
		while (/\]\(\s*<?([^)\s>]*)>?[^)]*\)/g)
		{
			my $problem = problem_of($file, $1);

			print "$file:$line: $1 $problem\n" if $problem;
		}
		print "$file:$line: a link without a target: $1\n" while /(\[[^\]]+\]\[[^\]]*\])/g;
	}
}
