#!/usr/bin/env perl
# test/english.pl [--check | --list | --examples] PATH...: finds sentences that are hard to read.
#
# Splits the comments of C, CUDA, SQL, shell and Perl files and the text of documents below each
# PATH into sentences, and counts those that contain one of the constructions below.  With --list
# it prints them, with --check only a rate above the limit; with --examples it prints a sentence
# with each construction.
#
# The constructions are correct, but rare in plain technical English.  In the headers of PostgreSQL
# 15 (/usr/include/postgresql/15/server) 2.5 of 1,000 sentences have one, so a few are no fault.
# The remedy is usually to rewrite the whole comment, with the function, the caller or the page as
# the subject.
use strict;
use warnings;
use File::Find;

# Sentences with a construction, of 1,000; it only ever becomes lower
my $limit = 5;

# The constructions: a name with the remedy, the pattern, an example
my @constructions = (
	[ '"who" without an antecedent: name the caller',
	  qr/\b(?:by|for|from|of|than|to|with) who(?:ever)?\b(?! we\b)/,
	  'Keep the page for who reads it next.' ],
	[ '"who" as the subject: name the process',
	  qr/(?:^|[;:.] )[Ww]ho(?:ever)? (?!is|are|may|was)\w+[^?]*$|, whoever\b/,
	  'Who comes first reads the page.' ],
	[ '"what" begins the subject: name the thing',
	  qr/^What (?!happens|if\b|this\b|it\b|the\b)[^?]*$/,
	  'What was found is sorted.' ],
	[ '"what" begins an object: name the thing',
	  qr/\b(?:by|for|from|of|than|to|with) what (?!\w+ing\b|the \w+ (?:wants|asked))/,
	  'Add the page to what was found.' ],
	[ '"so many": "n", or "this many"',
	  qr/\bso (?:many|much)\b(?! (?:as|faster|more|slower|that)\b)/,
	  'Return so many rows.' ],
	[ '"anew": from scratch, again', qr/\banew\b/, 'Read the page anew.' ],
	[ '"there is none", "is no more": does not exist',
	  qr/\bthere (?:are|is|was|were) none\b|(?<!there )\b(?:are|is) no more\b(?! than)/,
	  'Return NULL if there is none.' ],
	[ '"nobody", "somebody": no process, another backend',
	  qr/\b(?:any|no|some)body\b/i, 'The page is read when nobody has locked it.' ],
	[ '"one behind the other": in order, contiguous',
	  qr/\bone (?:after|behind) the other\b/, 'The rows lie one behind the other.' ],
	[ 'an inverted condition: if',
	  qr/\b(?:be|were) (?:it|they)\b|\b(?:had|should) (?:it|there|they) (?:be|been)\b/,
	  'Read all pages, be they full or not.' ],
	[ '"False:" as a sentence: Return false if',
	  qr/(?:^|[.;] )(?:False|NULL|True): /, 'False: the row does not fit.' ],
	[ '"besides" at the end: also', qr/\bbesides\b(?= *(?:[.,;:)]|$))/,
	  'The page is counted besides.' ],
	[ 'a relative clause with "of which": two sentences', qr/, of which\b/,
	  'There are ten pages, of which two are full.' ],
	[ 'a long question: Return true if',
	  qr/^(?:Are|Can|Could|Did|Do|Does|Has|Have|Is|May|Must|Should|Was|Were|Will) [^.]{70,}\?$/,
	  'Is the page that was read first still one of those that the list of runs and deltas has?' ],
	[ '"on its way", "at hand": prefetched, available',
	  qr/\bon (?:its|the|their) way from\b|\bat hand\b/, 'The values are at hand.' ],
	[ '"neither" or "nor" as the first word', qr/^(?:Neither|Nor) (?!\w+ nor\b)/,
	  'Nor does it lock the page.' ],
	[ 'a clause with "that" as the subject',
	  qr/^That (?:a|all|an|each|no|some|the) [^,]* (?:does not|is|was) (?!why)/,
	  'That the page may change is no fault.' ],
	[ '"lest", "thereof" and the like',
	  qr/\b(?:hereby|hither|lest|nought|thereof|therein|whence|whereof)\b/i,
	  'Lock the page lest it change.' ]);

my $mode = @ARGV && $ARGV[0] =~ /^--(check|examples|list)$/ ? $1 : '';
shift if $mode;
if ($mode eq 'examples')
{
	print "/* $_->[2] */\n" for @constructions;
	exit;
}

my ($sentences, $marked) = (0, 0);
for my $path (@ARGV)
{
	-e $path or die "$path is not there\n";
	find({ no_chdir => 1, wanted => \&look, preprocess => \&choose }, $path);
}
die "no sentences found\n" unless $sentences;

my $rate = 1000 * $marked / $sentences;
my $result = sprintf("%d of %d sentences, %.1f of 1,000", $marked, $sentences, $rate);
if ($mode ne 'check') { print "$result\n" }
elsif ($rate > $limit) { print "$result, at most $limit; test/english.pl --list @ARGV\n" }

sub choose { return grep { !/^(?:\.git|build|corpus|results|tmp_check)$/ } sort @_ }

sub look
{
	my $file = $_;

	return unless -f $file;
	my @texts =
	    $file =~ /\.(?:c|h|cu|cuh)$/ ? c_comments($file)
	  : $file =~ m{(?:\.md|/README|^README)$} ? document($file)
	  : $file =~ /\.sql$/ ? line_comments($file, '--')
	  : $file =~ m{\.(?:pl|pm|sh|spec)$|Makefile$} ? line_comments($file, '#')
	  : ();
	for my $text (@texts)
	{
		my ($line, $words) = @$text;

		for my $sentence (split(/(?<=[.?!])\s+(?=[A-Z(\"'`])/, $words))
		{
			next unless $sentence =~ /[A-Za-z]{2,} [a-z]+/;
			$sentences++;
			my ($why) = grep { $sentence =~ $_->[1] } @constructions or next;
			$marked++;
			print "$file:$line: $why->[0]\n\t$sentence\n" if $mode eq 'list';
		}
	}
}

sub slurp
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/ = undef;
	return <$in>;
}

# Returns the paragraphs of a text as pairs of a line number and the words on one line
sub paragraphs
{
	my ($line, $text) = @_;
	my @paragraphs;

	for my $part (split(/(\n\s*\n)/, $text))
	{
		my $words = join(' ', split(' ', $part));

		push @paragraphs, [ $line, $words ] if $words ne '';
		$line += $part =~ tr/\n//;
	}
	return @paragraphs;
}

sub c_comments
{
	my $text = slurp($_[0]);
	my @found;

	while ($text =~ m{/\*(.*?)\*/|//([^\n]*)}gs)
	{
		my $line = 1 + substr($text, 0, $-[0]) =~ tr/\n//;
		my $comment = $1 // $2;

		$comment =~ s/^[ \t]*\*+[ \t]?|[-=*]{4,}//gm;
		push @found, paragraphs($line, $comment);
	}
	return @found;
}

sub line_comments
{
	my ($file, $mark) = @_;
	my ($number, $start, $block, @found) = (0, 0, '');

	for (split(/\n/, slurp($file)), '')
	{
		$number++;
		if (/^\s*$mark+(?!!)\s?(.*)/)
		{
			$start ||= $number;
			$block .= "$1\n";
		}
		elsif ($start)
		{
			push @found, paragraphs($start, $block);
			($start, $block) = (0, '');
		}
	}
	return @found;
}

# Paragraphs and list items, but no code, tables and headings
sub document
{
	my ($number, $start, $block, $in_code, @found) = (0, 0, '', 0);

	for my $line (split(/\n/, slurp($_[0])), '')
	{
		$number++;
		$in_code = !$in_code if $line =~ /^```/;
		my $is_text = !$in_code && $line !~ /^(?:\s*$|```|\s{4}|\s*\||#|\s*[-=]{3,}\s*$)/;
		my $is_item = $line =~ /^\s*(?:[-*>]|\d+\.)\s/;

		if ($start && (!$is_text || $is_item))
		{
			push @found, paragraphs($start, $block);
			($start, $block) = (0, '');
		}
		next unless $is_text;
		$start ||= $number;
		$block .= $line =~ s/^\s*(?:[-*>]|\d+\.)\s+//r . "\n";
	}
	return @found;
}
