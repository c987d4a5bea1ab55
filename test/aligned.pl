#!/usr/bin/env perl
# test/aligned.pl FILE...: prints the lines of C that do not begin where pgindent would put them
# because they continue an expression in parentheses: behind the open parenthesis, with tabs of
# four.  Renaming a function moves its parenthesis, and must move these lines, too.
use strict;
use warnings;

for my $file (@ARGV)
{
	open(my $in, '<', $file) or die "$file: $!\n";
	my $text = do { local $/ = undef; <$in> };

	# Comments, literals and directives do not count: other signs in their place, but no blanks
	$text =~ s{/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+'}{$& =~ s/[^\s]/x/gr}gse;
	$text =~ s/^[ \t]*#(?:[^\n]*\\\n)*[^\n]*/"\n" x ($& =~ tr{\n}{})/gme;

	my ($number, @open) = (0);
	for my $line (split(/\n/, $text))
	{
		$number++;
		1 while $line =~ s/^([^\t]*)\t/$1 . ' ' x (4 - length($1) % 4)/e;
		$line =~ /^( *)(\S)/ or next;
		my $begin = length $1;

		print "$file:$number: begins in column $begin, not $open[-1]\n"
		  if @open && $open[-1] && $2 ne '}' && $begin != $open[-1];
		for my $column (0 .. length($line) - 1)
		{
			my $sign = substr($line, $column, 1);

			# Within braces other rules hold
			if ($sign eq '(')
			{
				push @open, $column == length($line) - 1 ? 0 : $column + 1;
			}
			elsif ($sign eq '[' || $sign eq '{') { push @open, 0 }
			elsif ($sign =~ /[])}]/) { pop @open }
		}
	}
}
