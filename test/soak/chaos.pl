#!/usr/bin/env perl
# test/soak/chaos.pl ENDS FOLDER: causes failures during the soak test, until that time: it kills
# the device's process (the primary's in the first half, the standby's in the second, so that its
# memory can be watched in the other half), cancels statements, ends sessions. At intervals it
# holds up writers for a moment and compares the standby's answers with the primary's. Its actions
# are logged in FOLDER/chaos.json.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use JSON::PP;
use SoakScripts;
use SoakSession;

my ($ends, $folder) = @ARGV;
my $begun = time;
my $has_device = $ENV{SOAK_DEVICE} ne 'none';
my %did = (kills => 0, kills_standby => 0, cancels => 0, ended => 0, workers_ended => 0,
	pairs => 0, differences => [], no_lock => 0, hung => 0, odd => []);
my %session;

srand($ENV{SOAK_SEED});

sub session
{
	my $server = shift;

	$session{$server} //= SoakSession->new(name => 'soak driver', server => $server);
	$session{$server}->is_connected || $session{$server}->connect;
	return $session{$server};
}

sub ask
{
	my ($server, $sql) = @_;
	my @lines = session($server)->ask($sql);

	push @{ $did{odd} }, grep { /^(FATAL|PANIC|HUNG)/ } @lines;
	return @lines;
}

# Kills by pid, after checking that it is the right program; need not wait for its successor.
sub kill_helper
{
	my $server = shift;
	my ($pid) = grep { /^\d+$/ } ask($server, 'SELECT helper_pid FROM gpujoin_status();');

	return unless $pid && $pid > 1;
	return unless (readlink("/proc/$pid/exe") // '') =~ /gpujoin_helper/;
	kill 'STOP', $pid if rand() < 0.3;
	kill 'KILL', $pid or return;
	$did{ $server eq 'primary' ? 'kills' : 'kills_standby' }++;
	for (1 .. 50)
	{
		select(undef, undef, undef, 0.1);
		last if grep { $_ eq 'ready' } ask($server, "SELECT pg_reload_conf(); SELECT state
			FROM gpujoin_status() WHERE helper_pid <> $pid;");
	}
	return;
}

sub cancel
{
	my @lines = ask($_[0], q{SELECT 'sent' WHERE EXISTS (SELECT FROM (SELECT pid
		FROM pg_stat_activity WHERE application_name ~ '^soak (mortal|steady)'
		AND state = 'active' ORDER BY random() LIMIT 1) a WHERE pg_cancel_backend(pid));});
	$did{cancels} += grep { $_ eq 'sent' } @lines;
	return;
}

sub end_session
{
	my @lines = ask($_[0], q{SELECT 'sent' WHERE EXISTS (SELECT FROM (SELECT pid
		FROM pg_stat_activity WHERE application_name LIKE 'soak mortal%'
		ORDER BY random() LIMIT 1) a WHERE pg_terminate_backend(pid));});
	$did{ended} += grep { $_ eq 'sent' } @lines;
	return;
}

# Our workers: the launcher of loaders, which is restarted
sub end_worker
{
	my @lines = ask('primary', q{SELECT 'sent' WHERE EXISTS (SELECT FROM (SELECT pid
		FROM pg_stat_activity WHERE backend_type IN ('gpujoin loader', 'parallel worker')
		ORDER BY random() LIMIT 1) a WHERE pg_terminate_backend(pid));});
	$did{workers_ended} += grep { $_ eq 'sent' } @lines;
	return;
}

# While the tables are locked against writers, and the standby has replayed all changes, all
# queries must have one answer on both, with gpujoin and without.
sub compare_servers
{
	my @names = sort keys %SoakScripts::queries;
	my @lines = ask('primary', q{BEGIN; SET LOCAL lock_timeout = '20s';
		LOCK TABLE big, items, parts, side, small, accounts IN SHARE MODE;
		SELECT 'lsn ' || pg_current_wal_insert_lsn();});
	my ($lsn) = map { /^lsn (\S+)/ ? $1 : () } @lines;

	if (!$lsn)
	{
		$did{no_lock}++;
		ask('primary', 'ROLLBACK;');
		return;
	}
	# without a transaction here, the WAL up to this point might not be sent
	ask('primary', "SELECT pg_logical_emit_message(false, 'soak', 'now');");
	for (1 .. 600)
	{
		last if grep { $_ eq 't' } ask('standby', "SELECT pg_last_wal_replay_lsn() >= '$lsn';");
		select(undef, undef, undef, 0.1);
	}
	foreach my $name (map { $names[ rand @names ] } 1 .. 6)
	{
		my $query = SoakScripts::query($name);
		my $how = $SoakScripts::queries{$name}->[0][0];
		my %answer;
		foreach my $server (qw(primary standby))
		{
			foreach my $enabled (qw(on off))
			{
				($answer{"$server $enabled"}) = map { /^answer (.*)/ ? $1 : () } ask($server,
					"SET gpujoin.enabled = $enabled; SET gpujoin.force = $enabled;
					SELECT 'answer ' || soak_answer('$how', \$\$$query\$\$);");
			}
		}
		next if grep { !defined } values %answer;	# cancelled by replay
		my %different = map { $_ => 1 } values %answer;
		$did{pairs}++;
		push @{ $did{differences} }, "standby $name: "
		  . join(', ', map { "$_: $answer{$_}" } sort keys %answer) . ": $query"
		  if keys %different > 1;
	}
	ask('primary', 'COMMIT;');
	return;
}

my %every = (kill => 4, cancel => 0.4, cancel_standby => 3, end => 2, end_worker => 3,
	compare => 20);
my %next = map { $_ => time + $every{$_} } keys %every;
my %action = (
	kill => sub {
		return unless $has_device;
		my $share = (time - $begun) / ($ends - $begun);
		kill_helper('primary') if $share < 0.45;
		kill_helper('standby') if $share > 0.55 && $share < 0.95;
	},
	cancel => sub { cancel('primary') },
	cancel_standby => sub { cancel('standby') },
	end => sub { end_session(rand() < 0.8 ? 'primary' : 'standby') },
	end_worker => sub { end_worker() },
	compare => sub { compare_servers() });

while (time < $ends)
{
	foreach my $what (sort keys %every)
	{
		next if time < $next{$what} || time >= $ends;
		$action{$what}->();
		$next{$what} = time + $every{$what} * (0.5 + rand());
	}
	select(undef, undef, undef, 0.2);
}
compare_servers();
$did{hung} += $_->{hung} foreach values %session;
$_->leave foreach values %session;
open(my $file, '>', "$folder/chaos.json") or die "no file: $!";
print $file JSON::PP->new->canonical->encode(\%did);
close $file;
