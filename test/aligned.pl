#!/usr/bin/env perl
# test/aligned.pl FILE...: prints the lines of C that pgindent would move to another column.  After
# a name was replaced by a shorter or longer one, these are:
#
#	lines that continue an expression in parentheses: they begin after the open parenthesis
#	comments after code: column 32, or the next stop if the code is longer
#	declarations: the name is 12 columns after the type, or one if the type is longer
#
# Columns are counted from 0, with tabs of four.
use strict;
use warnings;

my $words = qr/(?:(?:const|enum|extern|register|static|struct|union|unsigned|volatile) )*/;
my $not_type = qr/(?:break|case|continue|default|else|goto|return|typedef)\b/;

for my $file (@ARGV)
{
	open(my $in, '<', $file) or die "$file: $!\n";
	my $text = do { local $/ = undef; <$in> };

	# Other signs in the place of comments, literals and directives, but no blanks
	$text =~ s{(/\*.*?\*/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+'}
		{ my $sign = defined $1 ? '@' : 'x'; $& =~ s/[^\s]/$sign/gr }gsex;
	$text =~ s/^[ \t]*#(?:[^\n]*\\\n)*[^\n]*/"\n" x ($& =~ tr{\n}{})/gme;

	my ($number, @open) = (0);
	for my $line (split(/\n/, $text))
	{
		$number++;
		1 while $line =~ s/^([^\t]*)\t/$1 . ' ' x (4 - length($1) % 4)/e;
		$line =~ /^( *)(\S)/ or next;
		my ($begin, $first) = (length $1, $2);
		my $is_wrong = sub { print "$file:$number: $_[0] in column $_[1], not $_[2]\n" };

		if (@open)
		{
			$is_wrong->('begins', $begin, $open[-1])
			  if $open[-1] && $first ne '}' && $begin != $open[-1];
		}
		elsif ($line =~ /^( +)($words\w+)( +)(\**)\w+(?:\[[^\]]*\])*(?:;| = )/
			&& substr($line, $begin) !~ /^$not_type/)
		{
			my $column = length("$1$2$3$4");
			my $wanted = $begin + (length("$2 $4") > 12 ? length("$2 $4") : 12);

			$is_wrong->('name', $column, $wanted) if $column != $wanted;
		}
		if (!@open && $line =~ /^( *[^\s@][^@(]*?)( +)@/ && $line !~ /@ +[^@ ]/)
		{
			my ($end, $column) = (length $1, length "$1$2");
			my $wanted = $end < 32 ? 32 : (int($end / 4) + 1) * 4;

			$is_wrong->('comment', $column, $wanted) if $column != $wanted;
		}
		for my $column (0 .. length($line) - 1)
		{
			my $sign = substr($line, $column, 1);

			# Within braces other rules hold
			if ($sign eq '(')
			{
				push @open, $column == length($line) - 1 ? 0 : $column + 1;
			}
			elsif ($sign eq '[') { push @open, 0 }
			elsif ($sign eq '{') { push @open, 0 if @open }
			elsif ($sign =~ /[])}]/) { pop @open }
		}
	}
}
