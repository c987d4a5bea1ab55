# Loaded by GpuJoinTest: queries and polls of the TAP tests share one session of each server.
#
# Starting psql and a backend takes a hundred times as long as a short query, and took half of the
# tests' processor time. So safe_psql() and poll_query_until() send statements that leave nothing in
# their session to a psql that remains open. All others have a session of their own, and so have
# those of psql() and background_psql().
package Sessions;

use strict;
use warnings;

use Errno;
use Exporter 'import';
use File::Temp;
use IPC::Open3;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes;

our @EXPORT = qw(ask_shared);

use constant MARK => 'end of the answer';

my $own_session = \&PostgreSQL::Test::Cluster::safe_psql;
my $own_poll = \&PostgreSQL::Test::Cluster::poll_query_until;

# Sessions by connection string
my %sessions;

# Start psql; the error output goes to a file, which is read after each answer.
sub open_session
{
	my ($node, $dbname) = @_;
	my $session = { errors => File::Temp->new };

	local %ENV = $node->_get_env();
	open my $errors, '>>', $session->{errors}->filename or die "session: $!";
	$session->{psql} = open3($session->{in}, $session->{out}, '>&' . fileno $errors,
		$node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1',
		'-d', $node->connstr($dbname), '-f', '-');
	$session->{in}->autoflush(1);
	return $session;
}

sub close_session
{
	my $session = shift;

	local $?;
	close $session->{$_} foreach qw(in out);
	1 while waitpid($session->{psql}, 0) == -1 && $!{EINTR};
	return $? >> 8;
}

# Send SQL and return psql's exit status, which is 0 if it goes on, its output and error output.
sub ask_session
{
	my ($session, $sql) = @_;
	my ($out, $status, $at) = ('', 0, -s $session->{errors}->filename);
	my $reset = $sql =~ /\bSET\b/ ? 'RESET ALL;' : '';

	local $SIG{PIPE} = 'IGNORE';
	print { $session->{in} } "$sql\n;$reset\n\\echo " . MARK . "\n";
	while ($out !~ s/^@{[MARK]}\n\z//m)
	{
		my $n = sysread $session->{out}, $out, 65536, length $out;

		# with 17 and later, another child that ends interrupts this
		next if $n || (!defined $n && $!{EINTR});
		$status = close_session($session) || 2;
		last;
	}
	chomp $out;
	return ($status, $out, slurp_file($session->{errors}->filename, $at) =~ s/\n\z//r);
}

# Run SQL in the shared session; it must leave nothing there. A session whose server or backend has
# ended since the last answer is replaced.
sub ask_shared
{
	my ($node, $dbname, $sql) = @_;
	my $session = delete $sessions{ $node->connstr($dbname) };

	$session = open_session($node, $dbname)
	  if !$session || (ask_session($session, 'SELECT'))[0] != 0;
	my @answer = ask_session($session, $sql);

	$sessions{ $node->connstr($dbname) } = $session if $answer[0] == 0;
	return @answer;
}

# End the shared session.
sub end_shared
{
	my $session = delete $sessions{ $_[0]->connstr('postgres') };

	close_session($session) if $session;
	return;
}

# Return true if these statements leave nothing in their session but settings, which are reset.
# Other databases are dropped; where rows are inserted depends on the backend. A semicolon in a
# string begins something that is no statement.
sub is_shared
{
	my ($dbname, $sql) = @_;
	my $statement = qr/(SELECT|EXPLAIN|SHOW|SET (?!LOCAL|ROLE|SESSION))\b/;

	return 0 if $dbname ne 'postgres' || $sql =~ /\\|set_config|advisory|\bINTO\b|backend_pid/;
	return !grep { !/\A\s*(\z|$statement)/ } split /;/, $sql;
}

sub safe_psql
{
	my ($node, $dbname, $sql, %params) = @_;

	end_shared($node) if $sql =~ /\bALTER\b/;    # new settings are those of new sessions
	return $own_session->(@_) if %params || !is_shared($dbname, $sql);
	my ($status, $out, $err) = ask_shared($node, $dbname, $sql);

	die "error running SQL: '$err'\nwith sql '$sql'" if $status;
	print "#### Begin standard error\n$err\n#### End standard error\n" if $err ne '';
	return $out;
}

sub poll_query_until
{
	my ($node, $dbname, $query, $expected) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;
	my ($status, $out, $err);

	return $own_poll->(@_) if !defined $query || !is_shared($dbname, $query);
	$expected //= 't';
	do
	{
		($status, $out, $err) = ask_shared($node, $dbname, $query);
		return 1 if $out eq $expected && $err eq '';
		Time::HiRes::sleep(0.05);
	} while (time < $until);
	diag("$query\nhas not become $expected, but: $out\n$err");
	return 0;
}

# A server that is stopped would log that it has terminated the session.
{
	no warnings 'redefine';    ## no critic (ProhibitNoWarnings)
	my $stop = \&PostgreSQL::Test::Cluster::stop;
	my $restart = \&PostgreSQL::Test::Cluster::restart;

	*PostgreSQL::Test::Cluster::safe_psql = \&safe_psql;
	*PostgreSQL::Test::Cluster::poll_query_until = \&poll_query_until;
	*PostgreSQL::Test::Cluster::stop = sub { end_shared($_[0]); return $stop->(@_); };
	*PostgreSQL::Test::Cluster::restart = sub { end_shared($_[0]); return $restart->(@_); };
}

1;
