#!/usr/bin/env perl
# test/layers.pl: checks that each folder uses only lower layers.  Prints violations.
#
# A folder is a layer.  It uses the layers before it in the list of its tree, and only through
# their doors: the headers named like the folders.  Of a folder marked with * every header is a
# door.  The pairs after the list must not use each other.  Files in no folder are on top of all
# layers.
use strict;
use warnings;
use File::Basename;

chdir dirname($0) . '/..';
check('src',
	'base* node* stats sets groups pages service mirror match rows exec join agg plan advise am '
	  . 'admin',
	'pages>sets pages>groups groups>pages plan>exec plan>join advise>exec advise>join');
check('cuda', 'border* helper reference kernels library',
	'reference>helper kernels>helper kernels>reference library>helper library>reference');

sub check
{
	my ($tree, $layers, $apart) = @_;
	my @layers = split ' ', $layers;
	my %all_doors = map { s/\*$// ? ($_ => 1) : () } @layers;
	my %place = map { $layers[$_] => $_ } 0 .. $#layers;
	my %apart = map { $_ => 1 } split ' ', $apart;
	my $folder = sub { $_[0] =~ m{^$tree/(\w+)/} ? $1 : '' };

	# Returns what is wrong with one file's use of another, if anything
	my $wrong = sub {
		my ($from, $to) = map { $folder->($_) } @_;
		return '' if $from eq $to || $from eq '';
		return "in a folder that has no place among the layers" unless exists $place{$from};
		return "against the order of layers" if $to eq '' || $place{$to} > $place{$from};
		return $apart{"$from>$to"} ? "$from must not know $to" : '';
	};

	my %uses;
	for my $file (grep { /\.(c|h|cu|cuh)$/ } glob "$tree/* $tree/*/*")
	{
		open my $f, '<', $file or die "$file: $!";
		for (grep { s/^\s*#\s*include\s+"([^"]+)".*/$1/s } <$f>)
		{
			my ($to) = grep { -e } dirname($file) . "/$_", "$tree/$_" or next;
			my ($in, $door) = ($folder->($to), basename($to) =~ /(\w+)/);
			my $why = $wrong->($file, $to);

			$why ||= "not the door of $in"
			  unless $in eq $folder->($file) || $all_doors{$in} || $door eq $in;
			print "$file includes $to: $why\n" if $why;
			push @{ $uses{$file} }, $to;
		}
	}
	my %seen;
	find_circle(\%uses, \%seen, $_) for sort keys %uses;

	# A function can be used without its header, too: check the symbols of the objects, if built
	my (%defined, %used);
	my @objects = grep { -e s/o$/c/r } glob "$tree/*/*.o";
	for (@objects ? `nm -A @objects` : ())
	{
		my ($source) = s/^([^:]+)o:// ? "$1c" : next;
		$defined{$1} = $source if /^\w+ [TDBRC] (\w+)/;
		$used{$1}{$source} = 1 if /^ +U (\w+)/;
	}
	for my $name (grep { $defined{$_} } sort keys %used)
	{
		my $why;
		$why = $wrong->($_, $defined{$name}) and print "$_ uses $name of $defined{$name}: $why\n"
		  for sort keys %{ $used{$name} };
	}
}

# Prints each include cycle through the file, once
sub find_circle
{
	my ($uses, $seen, $file, @way) = @_;

	for my $i (grep { $way[$_] eq $file } 0 .. $#way)
	{
		print "circle: ", join(' -> ', @way[$i .. $#way], $file), "\n";
		return;
	}
	return if $seen->{$file};
	find_circle($uses, $seen, $_, @way, $file) for @{ $uses->{$file} };
	$seen->{$file} = 1;
}
