#!/usr/bin/env perl
# test/docs/told.pl SCRIPT REFERENCE SOURCE...: checks that the reference, documents separated by
# commas, has everything that users can name, and prints omissions: functions, views and their
# columns, of the extension's SQL script; settings (except those for tests, gpujoin.debug_*), index
# options and wait events, of the sources. A name must occur as `name`, a function as `name(...)`;
# the columns of a view or function below the heading that has its name.
use strict;
use warnings;

my ($script, $reference, @sources) = @ARGV;
my $told = join('', map { slurp($_) } split(/,/, $reference));
my $sql = slurp($script);
my %outputs;

sub slurp
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/ = undef;
	return <$in>;
}

# The text below the first heading that names this, up to the next heading
sub section
{
	my ($name) = @_;

	return $told =~ /^(#+)[^\n]*`\Q$name\E[`(][^\n]*\n(.*?)(?=^#{1,6} |\z)/ms ? $2 : undef;
}

# Splits at commas that are not within parentheses
sub parts
{
	my ($list) = @_;
	my @parts = ('');
	my $depth = 0;

	for my $char (split(//, $list))
	{
		$depth += $char eq '(' ? 1 : $char eq ')' ? -1 : 0;
		push(@parts, ''), next if $char eq ',' && !$depth;
		$parts[-1] .= $char;
	}
	return @parts;
}

# The select list of a query's outermost SELECT, and its first FROM item
sub select_list
{
	my ($query) = @_;
	my $depth = 0;
	my ($begin, $end);

	while ($query =~ /(\()|(\))|\b(SELECT|FROM)\b/g)
	{
		$depth += $1 ? 1 : $2 ? -1 : 0;
		next if !$3 || $depth;
		$begin //= pos($query) if $3 eq 'SELECT';
		$end = pos($query), last if $3 eq 'FROM';
	}
	return ('', '') unless defined $begin && defined $end;
	return (substr($query, $begin, $end - $begin - 4), substr($query, $end) =~ /(\w+)/);
}

sub check_columns
{
	my ($what, @columns) = @_;
	my $text = section($what);

	print "$reference has no heading with `$what`, which has columns\n" unless defined $text;
	for (@columns)
	{
		print "$reference does not tell column `$_` of `$what`\n"
		  if defined $text && $text !~ /`\Q$_\E`/;
	}
	return;
}

$sql =~ s/--[^\n]*//g;
while ($sql =~ /CREATE\s(?:OR\sREPLACE\s)?FUNCTION\s(\w+)\s*\((.*?)\)\s*
		(?:RETURNS\s(.*?))?\s+(?:AS|LANGUAGE)\b/sgx)
{
	my ($name, $arguments, $returns) = ($1, $2, $3 // '');
	my @columns = $arguments =~ /\bOUT\s+(\w+)/g;

	push @columns, map { /(\w+)/ } parts($1) if $returns =~ /TABLE\s*\((.*)\)/s;
	$outputs{$name} = \@columns;
	print "$reference does not tell function `$name()`\n" unless $told =~ /`\Q$name\E\(/;
}
my %in_view;
while ($sql =~ /CREATE (?:OR REPLACE )?VIEW (\w+)\s*(?:\(([^)]*)\)\s*)?AS\b(.*?);/sg)
{
	my ($name, $names, $query) = ($1, $2, $3);
	my ($list, $from) = select_list($query);
	my @items = parts($names // $list);
	my @columns = map { /(\w+)\s*$/ } grep { !/\*\s*$/ } @items;

	push @columns, @{ $outputs{$from} // [] } if grep { /\*\s*$/ } @items;
	print "the columns of view $name cannot be read\n" unless @columns;
	$in_view{$from} = $name;
	check_columns($name, @columns);
}
# A function that a view uses needs no list of its own
for (grep { @{ $outputs{$_} } && !$in_view{$_} } sort keys %outputs)
{
	check_columns($_, @{ $outputs{$_} });
}
for my $source (@sources)
{
	my $text = slurp($source);

	for ($text =~ /\b(?:DefineCustom\w+|define_\w+)\(\s*"(gpujoin\.\w+)"/g)
	{
		print "$reference does not tell setting `$_`\n"
		  unless /^gpujoin\.debug_/ || $told =~ /`\Q$_\E`/;
	}
	for ($text =~ /\badd_\w+_reloption\(\s*\w+,\s*"(\w+)"/g,
		$text =~ /^GJ_WAIT_EVENT\(\w+, "(\w+)"\)/mg)
	{
		print "$reference does not tell option or wait event `$_`\n" unless $told =~ /`\Q$_\E`/;
	}
}
