#!/usr/bin/env perl
# test/soak/client.pl NUMBER ROLE ENDS FOLDER: one session of the soak test, until that time. Its
# actions are logged in FOLDER/client-NUMBER.json. Each third session is "mortal": it is ended at
# times and reconnects; the memory of the others is watched.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use JSON::PP;
use SoakScripts;
use SoakSession;

my ($number, $role, $ends, $folder) = @ARGV;
my $begun = time;
my $mortal = $number % 3 == 2 ? 'mortal' : 'steady';
my %did = (role => $role, scripts => {}, compared => {}, rows => 0, errors => {}, differences => [],
	connections => 0, hung => 0, odd => []);
my $session = SoakSession->new(
	name => "soak $mortal $number $role",
	server => $role eq 'standby' ? 'standby' : 'primary',
	options => $role eq 'generic'
	? '-c gpujoin.force=on -c plan_cache_mode=force_generic_plan'
	: '');

srand($ENV{SOAK_SEED} + $number);

# The watcher reads the names of sessions from this file.
sub connect_again
{
	my $until = time + 60;

	until ($session->connect)
	{
		$session->leave;
		return 0 if time > $until;
		select(undef, undef, undef, 0.2);
	}
	$did{connections}++;
	if ($mortal eq 'steady')
	{
		open(my $file, '>', "$folder/pids/$session->{pid}") or die "no file: $!";
		print $file "session $number $role";
		close $file;
	}
	return 1;
}

# Lines that none of our commands should print
sub count_lines
{
	my ($text, @lines) = @_;

	foreach (@lines)
	{
		if (/^same (\w+) (\d+)$/) { $did{compared}{$1}++; $did{rows} += $2; }
		elsif (/: +SOAK1:/) { push @{ $did{differences} }, $_; }
		elsif (/^(?:psql:\S* )?(?:ERROR|FATAL|PANIC):  (\w{5}):/) { $did{errors}{$1}++; }
		elsif (/^HUNG|^WARNING:  (?!55P03)/ || /invalid command|syntax error/)
		{
			push @{ $did{odd} }, "$_: $text" if @{ $did{odd} } < 20;
		}
	}
	return;
}

# The session's memory contexts, to explain growth
sub note_contexts
{
	my $when = shift;

	return unless $session->is_connected;
	my @lines = $session->ask("SELECT format('%8s %8s %s %s',
		(sum(used_bytes) / 1024)::int, count(*), name,
		left(regexp_replace(ident, '\\s+', ' ', 'g'), 60)) FROM pg_backend_memory_contexts
		GROUP BY name, ident ORDER BY sum(used_bytes) DESC LIMIT 25;");
	open(my $file, '>', "$folder/contexts-$number-$when") or die "no file: $!";
	print $file map { "$_\n" } "kB used, contexts; pid $session->{pid}", @lines;
	close $file;
	return;
}

my $noted = 0;
while (time < $ends)
{
	if (!$session->is_connected && !connect_again())
	{
		push @{ $did{odd} }, 'the server does not come back';
		last;
	}
	my ($kind, $text) = SoakScripts::script($role);
	count_lines($text, $session->ask($text));
	$did{scripts}{$kind}++;
	select(undef, undef, undef, rand($role eq 'ddl' || $role eq 'vacuum' ? 2 : 0.05));
	if (!$noted && time > ($begun + $ends) / 2)
	{
		note_contexts('half');
		$noted = 1;
	}
}
note_contexts('end');
$did{hung} = $session->{hung};
$session->leave;
open(my $file, '>', "$folder/client-$number.json") or die "no file: $!";
print $file JSON::PP->new->canonical->encode(\%did);
close $file;
