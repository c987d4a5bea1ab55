#!/usr/bin/env perl
# test/bench/flood.pl COUNT: strings of 24 bytes that have one hash under hashtextextended() with
# seed 0, one a line, in hexadecimal; no byte is zero.
#
# PostgreSQL hashes a string by Bob Jenkins' lookup3, which takes twelve bytes at a time into a
# state of three words, and each step can be undone. So the first twelve bytes are free, one word
# of the last state is, too, and the second twelve bytes follow.
use strict;
use warnings;

my $mask = 0xFFFFFFFF;

sub rot { my ($x, $k) = @_; return (($x << $k) | ($x >> (32 - $k))) & $mask }

# The steps of mix(): the word that another is taken from, the third, and the rotation.
my @mix = ([ 0, 2, 1, 4 ], [ 1, 0, 2, 6 ], [ 2, 1, 0, 8 ], [ 0, 2, 1, 16 ], [ 1, 0, 2, 19 ],
	[ 2, 1, 0, 4 ]);

sub mix
{
	my @s = @_;

	for my $step (@mix)
	{
		my ($x, $y, $z, $k) = @$step;

		$s[$x] = (($s[$x] - $s[$y]) & $mask) ^ rot($s[$y], $k);
		$s[$y] = ($s[$y] + $s[$z]) & $mask;
	}
	return @s;
}

sub undo_mix
{
	my @s = @_;

	for my $step (reverse @mix)
	{
		my ($x, $y, $z, $k) = @$step;

		$s[$y] = ($s[$y] - $s[$z]) & $mask;
		$s[$x] = (($s[$x] ^ rot($s[$y], $k)) + $s[$y]) & $mask;
	}
	return @s;
}

# The steps of final(): the word that changes, the one that it depends on, and the rotation.
my @final = ([ 2, 1, 14 ], [ 0, 2, 11 ], [ 1, 0, 25 ], [ 2, 1, 16 ], [ 0, 2, 4 ], [ 1, 0, 14 ],
	[ 2, 1, 24 ]);

sub undo_final
{
	my @s = @_;

	for my $step (reverse @final)
	{
		my ($x, $y, $k) = @$step;

		$s[$x] = (($s[$x] + rot($s[$y], $k)) & $mask) ^ $s[$y];
	}
	return @s;
}

my ($count) = @ARGV;
my $first = (0x9e3779b9 + 24 + 3923095) & $mask;
my ($b, $c) = (0x12345678, 0x9abcdef0);
my $made = 0;

for (my $n = 0; $made < $count; $n++)
{
	my @block = unpack('V3', sprintf('%012d', $n));
	my @state = mix(map { ($first + $_) & $mask } @block);
	my @wanted = undo_mix(undo_final(($n * 2654435761) & $mask, $b, $c));
	my $string = pack('V6', @block, map { ($wanted[$_] - $state[$_]) & $mask } 0 .. 2);

	next if $string =~ /\0/;
	print unpack('H*', $string), "\n";
	$made++;
}
