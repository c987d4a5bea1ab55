#!/usr/bin/env perl
# test/soak/watch.pl INTERVAL FOLDER DATA...: samples the memory of all processes of the servers
# with these data folders, until it is ended. Lines of FOLDER/samples.tsv: seconds, server, pid,
# name, kB.
#
# It counts anonymous memory, in RAM or swapped out, which is private to a process. The server's
# shared memory, the device service's and the files of programs are not included. Sessions are the
# processes named in FOLDER/pids; short-lived processes are left out.
#
# FOLDER/zombies lists processes that were dead in two samples, FOLDER/shm the names of all
# dynamic shared memory seen in a process.
use strict;
use warnings;

use Time::HiRes qw(sleep time);

my ($interval, $folder, @data) = @ARGV;
my ($begun, %dead_before, %zombies, %shm) = (time);
my $short_lived = qr/autovacuum worker|parallel worker|gpujoin loader|\[local\]/;
my $running = 1;

$SIG{TERM} = $SIG{INT} = sub { $running = 0; };
open(my $samples, '>', "$folder/samples.tsv") or die "no file: $!";
$samples->autoflush(1);

sub text_of
{
	open(my $file, '<', $_[0]) or return '';
	local $/ = undef;
	return readline($file) // '';
}

# pid => [ parent, state ] of all processes
sub processes
{
	my %processes;

	foreach my $file (glob '/proc/[0-9]*/stat')
	{
		$processes{$1} = [ $3, $2 ] if text_of($file) =~ /^(\d+) \(.*\) (\w) (\d+) /s;
	}
	return %processes;
}

sub name_of
{
	my ($pid, $postmaster) = @_;
	my $title = text_of("/proc/$pid/cmdline") =~ s/\0.*|\s+$//gsr;
	my $session = text_of("$folder/pids/$pid");

	return 'postmaster' if $pid == $postmaster;
	return $session if $session ne '';
	return 'helper' if $title =~ /gpujoin_helper/;
	return $1 if $title =~ /^postgres: (startup|walsender|walreceiver)/;
	return if $title =~ $short_lived;
	return $title =~ /^postgres: (.*?) *$/ ? $1 : undef;
}

sub private_memory
{
	my $kb = 0;
	my $any = 0;

	foreach (split /\n/, text_of("/proc/$_[0]/smaps_rollup"))
	{
		if (/^(?:Anonymous|Swap): +(\d+) kB/) { $kb += $1; $any = 1; }
	}
	return $any ? $kb : undef;
}

sub append
{
	my ($file, $line) = @_;

	open(my $out, '>>', "$folder/$file") or die "no file: $!";
	print $out "$line\n";
	return;
}

sub look_at
{
	my ($server, $pid, $postmaster, $state) = @_;

	if ($state eq 'Z')
	{
		append('zombies', "$server $pid") if $dead_before{$pid} && !$zombies{$pid}++;
		return $pid;
	}
	foreach (text_of("/proc/$pid/maps") =~ m{(/dev/shm/PostgreSQL\.\d+)}g)
	{
		append('shm', $_) unless $shm{$_}++;
	}
	my $name = name_of($pid, $postmaster) // return;
	my $kb = private_memory($pid) // return;
	printf $samples "%.1f\t%s\t%d\t%s\t%d\n", time - $begun, $server, $pid, $name, $kb;
	return;
}

while ($running)
{
	my %processes = processes();
	my %dead;

	foreach my $data (@data)
	{
		my ($postmaster) = text_of("$data/postmaster.pid") =~ /^(\d+)/ or next;
		my ($server) = $data =~ m{([^/]+)$};
		my %ours = ($postmaster => 1);

		foreach my $round (1 .. 2)	# children, and their children
		{
			$ours{$_} = 1 foreach grep { $ours{ $processes{$_}[0] } } keys %processes;
		}
		foreach my $pid (grep { $processes{$_} } keys %ours)
		{
			my $state = $processes{$pid}[1];
			$dead{$pid} = 1 if look_at($server, $pid, $postmaster, $state);
		}
	}
	%dead_before = %dead;
	sleep $interval;
}
