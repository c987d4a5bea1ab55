# A session of the soak test: psql behind pipes, which continues after errors. It replaces
# IPC::Run, so that the test only needs Perl.
package SoakSession;

use strict;
use warnings;

use IPC::Open2;

# A statement that takes longer than this hangs. On a busy machine, a concurrent index build waits
# for many other sessions.
use constant PATIENCE => 400;

$SIG{PIPE} = 'IGNORE';

# Options: name (application_name), server (primary or standby), options (PGOPTIONS)
sub new
{
	my ($class, %self) = @_;
	my $self = bless {%self}, $class;

	$self->{hung} = 0;
	return $self;
}

sub port { return $_[0] eq 'standby' ? 5433 : 5432; }

# Returns false if there is no server to connect to.
sub connect
{
	my $self = shift;
	local $ENV{PGAPPNAME} = $self->{name};
	local $ENV{PGPORT} = port($self->{server});
	local $ENV{PGOPTIONS} = $self->{options} // '';

	$self->{psql} = open2($self->{out}, $self->{in}, 'sh', '-c',
		'exec psql -XqAt -v VERBOSITY=verbose 2>&1');
	my ($pid) = grep { /^\d+$/ } $self->ask('SELECT pg_backend_pid();');
	$self->{pid} = $pid;
	return defined $pid;
}

sub is_connected { return defined $_[0]->{psql}; }

# Send statements, return the lines that come: rows and errors. After a session was ended or does
# not answer, it is no longer connected.
sub ask
{
	my ($self, $sql) = @_;
	my ($end, @lines) = ('-- end of ' . ++$self->{asked});

	return unless $self->is_connected;
	eval {
		local $SIG{ALRM} = sub { die "no answer\n" };
		alarm PATIENCE;
		print { $self->{in} } "$sql\n\\echo '$end'\n";
		$self->{in}->flush;
		while (defined(my $line = readline $self->{out}))
		{
			chomp $line;
			if ($line eq $end) { alarm 0; return; }
			push @lines, $line;
		}
		alarm 0;
		$self->leave;
	};
	if ($@)
	{
		push @lines, "HUNG: $sql";
		$self->{hung}++;
		kill 'KILL', $self->{psql};
		$self->leave;
	}
	return @lines;
}

sub leave
{
	my $self = shift;

	return unless $self->is_connected;
	close $self->{in};
	close $self->{out};
	waitpid $self->{psql}, 0;
	delete $self->{psql};
	return;
}

1;
