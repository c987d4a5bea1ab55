# The device process is stopped, or killed, while its supervisor is stopped as well, so that nobody
# ends or replaces it. A query that waits for it gives up and uses the CPU; those that follow do not
# wait at all. As soon as the process or its supervisor works again, the device answers as before.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '4MB'", "gpujoin.device_memory = '256MB'", PATIENT);
my $lookup = "SELECT count(*), sum(a) FROM big WHERE key = ANY (ARRAY(
	SELECT generate_series(1, 40000, 7)))";

wait_ready($node);
$node->safe_psql('postgres', q{
	CREATE TABLE big (key int, a int);
	INSERT INTO big SELECT i, i % 1000 FROM generate_series(1, 200000) i;
	CREATE INDEX big_key ON big USING gpujoin (key);
	VACUUM ANALYZE big;
	SELECT gpujoin_load('big_key');
});
my $answer = $node->safe_psql('postgres', "SET gpujoin.enabled = off; $lookup");

# Run a query that must not wait for ever; it is cancelled if it does.
sub ask
{
	my ($sql, %settings) = @_;
	my $before = join '', map { "SET $_ = '$settings{$_}'; " } sort keys %settings;
	my ($out, $err) = ('', '');

	$node->psql('postgres', "SET statement_timeout = '60s'; $before$sql", stdout => \$out,
		stderr => \$err);
	return $out || $err;
}

# Ask for all that can have changed, in one line.
sub counts
{
	return { map { $_ => service($node, $_) }
		  qw(requests_failed requests_unavailable watchdog_kills) };
}

sub is_right_without_device
{
	my ($name) = @_;
	my $before = counts();

	like(ask(service_sql('10, nkeys => 100, requests => 1')), qr/^ok 0, fallbacks 1, wrong 0/,
		"$name: a request comes back");
	my $first = counts();
	is($first->{requests_failed}, $before->{requests_failed} + 1, "$name: it has waited");
	is(ask($lookup, 'gpujoin.force' => 'on'), $answer, "$name: the CPU answers a query");
	like(ask(service_sql('10, nkeys => 100, requests => 1')), qr/^ok 0, fallbacks 1, wrong 0/,
		"$name: another request comes back");
	my $then = counts();
	is($then->{requests_failed}, $first->{requests_failed}, "$name: without waiting");
	is($then->{watchdog_kills}, 0, "$name: nobody has intervened");
	return;
}

sub is_right_with_device
{
	my ($name) = @_;

	ok($node->poll_query_until('postgres', "SELECT ok = 1 AND wrong = 0
		FROM gpujoin_service_test(10, nkeys => 100, requests => 1)"),
		"$name: the device answers");
	return;
}

# A part of this time is what a client waits.
watch_after($node, '5s');
$node->poll_query_until('postgres', "SELECT current_setting('gpujoin.device_timeout') = '5s'");

my $supervisor = service($node, 'supervisor_pid');
my $helper = service($node, 'helper_pid');

die 'no such process' unless $supervisor > 1 && $helper > 1;

# ---- stopped --------------------------------------------------------------------------------

kill 'STOP', $supervisor;
kill 'STOP', $helper;
is_right_without_device('stopped');
kill 'CONT', $helper;
is_right_with_device('it goes on');
is(service($node, 'helper_pid'), $helper, 'the same process');

# ---- killed ---------------------------------------------------------------------------------

kill 'KILL', $helper;
is_right_without_device('killed');
kill 'CONT', $supervisor;
ok(wait_replaced($node, $helper), 'its supervisor goes on, and replaces it');
watch_after($node, '1h');
is_right_with_device('replaced');
is(service($node, 'supervisor_pid'), $supervisor, 'by the same supervisor');
$node->safe_psql('postgres', "SELECT gpujoin_unload('big_key')");
no_leaks($node, 'at the end');

done_testing();
