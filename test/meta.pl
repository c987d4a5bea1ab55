# test/meta.pl [META.json]: checks a META.json against PGXN's specification 1.0.0; prints errors.
# Lint also runs PGXN's own validate_pgxn_meta, if it is installed.

use strict;
use warnings;

use JSON::PP;

my $file = shift // 'META.json';

open(my $handle, '<', $file) or die "$file: $!\n";
my $meta = eval { decode_json(do { local $/; <$handle> }) } or die "$file is no JSON: $@";

sub wrong { print "$file: ", @_, "\n" }

my $term = sub { $_[0] =~ m{^[^\s/\\[:cntrl:]]{2,}$} };
my $tag = sub { $_[0] =~ m{^[^/\\[:cntrl:]]{1,255}$} };
my $text = sub { $_[0] =~ /\S/ };
my $version = sub { $_[0] =~ /^\d+\.\d+\.\d+(-[A-Za-z][0-9A-Za-z-]*)?$/ };
my $range = sub {
	my @parts = split /,\s*/, $_[0];
	return !grep { !/^(?:(?:[<>]=?|[=!]=)\s*)?\d+\.\d+\.\d+\S*$/ && $_ ne '0' } @parts;
};
my $url = sub { $_[0] =~ m{^[a-z][a-z+.-]*://[^/?#\s]+\S*$} };
my $mail = sub { $_[0] =~ /^\S+@\S+$/ };
my $there = sub { -e $_[0] };
my $type = sub { $_[0] =~ /^[a-z]+$/ };

# Checks a value: by a test of a string, a list of one test, or a map.
sub check
{
	my ($place, $value, $wanted) = @_;

	if (ref $wanted eq 'CODE')
	{
		wrong("$place: \"", $value // 'null', '" is not valid')
		  if !defined $value || ref $value || !$wanted->($value);
	}
	elsif (ref $wanted eq 'ARRAY')
	{
		my @values = ref $value eq 'ARRAY' ? @$value : ($value);

		wrong("$place is empty") unless @values;
		check("$place, element", $_, $wanted->[0]) foreach @values;
	}
	elsif (ref $value ne 'HASH') { wrong("$place is no map") }
	else { check_map($place, $value, $wanted) }
}

# Required keys end in "!"; "*" stands for any other. Custom keys begin with x_.
sub check_map
{
	my ($place, $map, $wanted) = @_;

	foreach my $key (grep { /!$/ } keys %$wanted)
	{
		wrong("$place has no ", $key =~ s/!//r) unless exists $map->{ $key =~ s/!//r };
	}
	foreach my $key (sort keys %$map)
	{
		my $rule = $wanted->{"$key!"} // $wanted->{$key} // $wanted->{'*'};

		next if !$rule && $key =~ /^x_[\w-]+$/i;
		if ($rule) { check("$place/$key", $map->{$key}, $rule) }
		else { wrong("$place: unknown key $key") }
	}
}

my $relations = { map { $_ => { '*' => $range } } qw(requires recommends suggests conflicts) };

check('', $meta, {
	'name!' => $term,
	'version!' => $version,
	'abstract!' => $text,
	'maintainer!' => [$text],
	'license!' => ref $meta->{license} eq 'HASH' ? { '*' => $url } : [$text],
	'meta-spec!' => { 'version!' => sub { $_[0] eq '1.0.0' }, 'url' => $url },
	'provides!' => {
		'*' => {
			'file!' => $there,
			'version!' => $version,
			'abstract' => $text,
			'docfile' => $there }
	},
	'description' => $text,
	'generated_by' => $text,
	'release_status' => sub { $_[0] =~ /^(stable|testing|unstable)$/ },
	'tags' => [$tag],
	'no_index' => { 'file' => [$text], 'directory' => [$text] },
	'prereqs' => { map { $_ => $relations } qw(configure runtime build test develop) },
	'resources' => {
		'homepage' => $url,
		'license' => [$url],
		'bugtracker' => { 'web' => $url, 'mailto' => $mail },
		'repository' => { 'url' => $url, 'web' => $url, 'type' => $type }
	} });
