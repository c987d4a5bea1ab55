#!/usr/bin/env perl
# test/docs/run.pl DATA DOCUMENT: runs the examples of a document as its reader would, in order.
# TAP, one test per block; test/check.sh starts the server, whose data folder is DATA.
#
#	```sql		one psql session for all blocks between two of the next kinds; an error fails
#	```conf		is appended to the server's configuration, and the server restarted
#	```sh		bash -e in the top folder of the sources
#	```text		directly below one of these: its output, in which it must be found
#	```python	and other languages: quoted from the program named in a comment above,
#			<!-- test/clients/with_django.py -->, which make check-clients runs
#
# In an output, blanks are not compared, and "..." stands for anything: alone on a line for lines,
# within one for characters. A block with ERROR in its output may fail.
#
# A block that is only indented would never be tested: it is an error. Goals of make, and
# variables for them, must exist wherever they are named as `code`.
#
# Examples that cannot be run are listed in test/docs/not_run, with the reason, and nowhere else.
# Even in these the goals of make and the variables must exist.
use strict;
use warnings;

my ($data, $document) = @ARGV;
my $number = 0;
my $failed = 0;
my $scratch = "$data.docs";
my %runs = map { $_ => 1 } qw(sql conf sh);
my %quoted = map { $_ => 1 } qw(python ruby java csharp javascript);

# ok NAME, PROBLEMS...: one test, passed if there are no problems
sub ok
{
	my ($name, @problems) = @_;

	$number++;
	print @problems ? "not ok" : "ok", " $number - $name\n";
	print map { s/^/#   /gmr } map { "$_\n" } @problems;
	$failed++ if @problems;
	return;
}

sub slurp
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/ = undef;
	return <$in> // '';
}

sub spill
{
	my ($mode, $file, $text) = @_;

	open(my $out, $mode, $file) or die "$file: $!\n";
	print $out $text;
	close($out) or die "$file: $!\n";
	return;
}

# All fenced blocks: kind, text, line, and the output that is shown below
sub read_blocks
{
	my ($file) = @_;
	my (@blocks, $block);
	my $between = 1;
	my $line = 0;
	my ($source, $blank);

	for (split(/\n/, slurp($file)))
	{
		$line++;
		if ($block && /^\s*```\s*$/)
		{
			my $of = @blocks && $block->{kind} eq 'text' && !$between ? $blocks[-1] : undef;

			if ($of && $runs{ $of->{kind} } && !defined $of->{output})
			{
				$of->{output} = $block->{text};
			}
			else
			{
				push @blocks, $block;
			}
			($block, $between) = (undef, 0);
		}
		elsif ($block)
		{
			$block->{text} .= s/^ {0,$block->{indent}}//r . "\n";
		}
		elsif (/^( *)```(\w*)\s*$/)
		{
			$block = { kind => $2, text => '', line => $line, indent => length($1),
				source => $source };
			ok("$file, line $line", "a block of unknown kind \"$2\"")
			  unless $runs{$2} || $quoted{$2} || $2 eq 'text';
			$source = undef;
		}
		elsif (/\S/)
		{
			ok("$file, line $line", 'a block that is not fenced') if /^(?: {4}|\t)/ && $blank;
			$between = 1;
			$source = /^<!-- (test\S+) -->$/ ? $1 : undef;
		}
		$blank = /^\s*$/;
	}
	ok("$file, line $block->{line}", "the block has no end") if $block;
	return @blocks;
}

# The lines "DOCUMENT: BEGINNING OF THE BLOCK | REASON" of this document
sub read_not_run
{
	my @entries;

	for (split(/\n/, slurp('test/docs/not_run')))
	{
		next if /^#|^\s*$/;
		my ($file, $beginning, $reason) = /^(\S+): (.*?) \| (.+)$/ or die "not_run: $_\n";
		push @entries, { beginning => $beginning, reason => $reason, used => 0 }
		  if $file eq $document;
	}
	return @entries;
}

# Returns true if the output has these lines in a row
sub matches
{
	my ($output, $wanted) = @_;
	my $pattern = '';

	for ($output, $wanted)
	{
		s/[ \t]+/ /g;
		s/^ | $//gm;
	}
	for my $line (split(/\n/, $wanted))
	{
		next if $line eq '';
		$pattern .= $line eq '...' ? '(?:.*\n)*?'
		  : join('.*', map { quotemeta } split(/\.\.\./, $line, -1)) . '\s*\n';
	}
	return $output =~ /^$pattern/m;
}

sub judge
{
	my ($block, $output, $status) = @_;
	my $wanted = $block->{output};
	my $may_fail = defined $wanted && $wanted =~ /ERROR:/;
	my @problems;

	$output =~ s/^psql:[^ ]*:\d+: //gm;
	push @problems, "it fails:", $output
	  if !$may_fail && ($status || $output =~ /^(ERROR|FATAL|psql: error):/m);
	push @problems, "the document shows:", $wanted, "but it says:", $output
	  if !@problems && defined $wanted && !matches($output, $wanted);
	ok(name($block), @problems);
	return;
}

sub name
{
	my ($block) = @_;

	return "$document, line $block->{line}, $block->{kind}: " . first_line($block);
}

sub first_line
{
	my ($block) = @_;

	return $block->{text} =~ /(\S.*)/ ? $1 =~ s/#/\\#/gr : '';
}

sub output_of
{
	my ($command) = @_;
	my $output = `$command 2>&1 </dev/null`;

	return ($output, $?);
}

# Runs several blocks in one session, separated by echoed marks
sub run_sql
{
	my @blocks = @_;
	my $mark = "-----block-----\n";

	return unless @blocks;
	spill('>', "$scratch.sql", join("\\echo $mark", map { $_->{text} } @blocks));
	my ($output, $status) = output_of("timeout 240 psql -X -f $scratch.sql");
	my @outputs = split(/^\Q$mark\E/m, $output, -1);

	# psql's own status applies to a session that was cut short
	for my $i (0 .. $#blocks)
	{
		judge($blocks[$i], $outputs[$i] // 'the session has ended before', $status);
	}
	return;
}

sub run_conf
{
	my ($block) = @_;

	spill('>>', "$data/gpujoin.conf", $block->{text});
	my ($output, $status) = output_of("pg_ctl -D $data -s -w -l $scratch.log restart");
	$output .= slurp("$scratch.log") if $status;
	# The server only warns of unknown settings of an extension when it starts
	for my $name ($status ? () : $block->{text} =~ /^\s*([\w.]+)\s*=/gm)
	{
		$output .= (output_of("psql -Xqc 'SHOW $name'"))[0] =~ s/^ERROR/psql: error/mr;
	}
	judge($block, $output, $status);
	return;
}

sub run_sh
{
	my ($block) = @_;

	spill('>', "$scratch.sh", $block->{text});
	judge($block, output_of("timeout 240 bash -e $scratch.sh"));
	return;
}

# Goals of make must exist, and variables that are set must be used by some script
sub check_names
{
	my ($block) = @_;

	ok(name($block) . " (not run: names)", wrong_names($block->{text})) if $block->{kind} eq 'sh';
	return;
}

sub check_code
{
	my $text = slurp($document) =~ s/^ *```.*?^ *```$//gmsr;
	my $commands = join("\n", grep { /^(?:[A-Z_]+=\S* )*make / } $text =~ /`([^`]+)`/g);

	ok("$document, commands in the text", wrong_names($commands)) if $commands ne '';
	return;
}

sub wrong_names
{
	my ($text) = @_;
	my @problems;

	for my $goal ($text =~ /\bmake((?: +[\w-]+=(?:"[^"]*"|\S*)| +[a-z][\w-]*)*)/g)
	{
		for (grep { !/=/ } $goal =~ /[\w-]+=(?:"[^"]*"|\S*)|[a-z][\w-]*/g)
		{
			push @problems, "make has no goal $_" if system("make -n $_ >$scratch.log 2>&1");
		}
	}
	for my $variable ($text =~ /\b([A-Z][A-Z_]+)=/g)
	{
		push @problems, "no script knows $variable"
		  if system("grep -rqw $variable Makefile cuda/Makefile.inc test --include=*.sh "
			  . "--include=Makefile*");
	}
	return @problems;
}

# A block must occur in its source, line by line, with any indentation there; a line "..."
# separates two parts, each of which must occur
sub check_quoted
{
	my ($block) = @_;
	my @problems;

	return ok(name($block), 'no comment above names the program that this is quoted from')
	  unless $block->{source};
	my $source = -e $block->{source} ? slurp($block->{source}) : '';
	push @problems, "there is no $block->{source}" if $source eq '';
	for my $part (split(/^\.\.\.\n/m, $block->{text}))
	{
		my $pattern = join('', map { $_ eq '' ? "\\n" : "\\1\Q$_\E\\n" } split(/\n/, $part));

		$pattern =~ s/^\\1/([ \\t]*)/;
		push @problems, "$block->{source} has no such lines:", $part if $source !~ /^$pattern/m;
	}
	ok(name($block), @problems);
	return;
}

check_code();
my @not_run = read_not_run();
my @session;
for my $block (read_blocks($document))
{
	next unless $runs{ $block->{kind} } || $quoted{ $block->{kind} };
	my ($entry) = sort { length($b->{beginning}) <=> length($a->{beginning}) }
	  grep { index($block->{text}, $_->{beginning}) == 0 } @not_run;

	if ($entry)
	{
		$entry->{used}++;
		check_names($block);
		next;
	}
	if ($quoted{ $block->{kind} })
	{
		check_quoted($block);
		next;
	}
	if ($block->{kind} eq 'sql')
	{
		push @session, $block;
		next;
	}
	run_sql(splice(@session));
	$block->{kind} eq 'conf' ? run_conf($block) : run_sh($block);
}
run_sql(@session);
for (grep { $_->{used} != 1 } @not_run)
{
	ok("$document, not_run", "$_->{used} blocks begin with \"$_->{beginning}\", not one");
}
print "1..", $number, $number ? "\n" : " # skipped: no examples\n";
exit($failed ? 1 : 0);
