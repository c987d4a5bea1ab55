# A session of the soak test: psql behind pipes, which goes on after errors. Used instead of
# IPC::Run, so that the test runs wherever there is a Perl.
package SoakSession;

use strict;
use warnings;

use IPC::Open2;

# What takes longer than this does not end at all. On a busy machine an index that is built
# concurrently waits for many others.
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

# Send statements, return the lines that come: rows and errors. A session that was ended, or that
# does not answer, is one no more afterwards.
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
