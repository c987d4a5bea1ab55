# Sessions that share the device do not wait for one another: two scans in one plan with a single
# request slot, beside a cursor whose rows are not read; results larger than their part of the
# result buffer; stopped backends, also while the device process is replaced; a stream of the device
# that hangs while other requests are served. Wait events show what a session waits for.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', 'jit = off', "gpujoin.device = 'reference'",
	"gpujoin.result_buffer = '1MB'", 'gpujoin.max_requests = 1', "work_mem = '64MB'", PATIENT);

wait_ready($node);
my $event = $node->safe_psql('postgres', "SELECT current_setting('server_version_num')::int
	>= 170000") eq 't' ? 'GpujoinDevice' : 'Extension';

# Return the pid of the backend of a running service test.
sub backend_of
{
	return $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity
		WHERE query LIKE '%gpujoin_service_test%' AND pid <> pg_backend_pid()");
}

# Stop it while it waits for an answer, as it does most of the time.
sub stop_backend
{
	my $event = shift;

	foreach (1 .. 100)
	{
		waits_for_device($event) or last;
		my $pid = backend_of();

		die "no such process" unless $pid =~ /^\d+$/ && $pid > 1;
		kill 'STOP', $pid;
		return $pid if service($node, 'slots_used') == 1;
		kill 'CONT', $pid;
	}
	die 'no backend waits for the device';
}

sub waits_for_device
{
	my $event = shift;

	return $node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE query LIKE '%gpujoin_service_test%' AND pid <> pg_backend_pid()
		AND wait_event_type = 'Extension' AND wait_event = '$event')");
}

# ---- one slot -------------------------------------------------------------------------------

# 150,000 of 200,000 rows match: more than two parts of the only chunk.
$node->safe_psql('postgres', q{
	CREATE TABLE a AS SELECT i AS id, i % 1000 AS k FROM generate_series(1, 200000) i;
	CREATE TABLE b AS SELECT i AS id, i % 500 AS k FROM generate_series(1, 200000) i;
	CREATE INDEX ON a USING gpujoin (k);
	CREATE INDEX ON b USING gpujoin (k);
	VACUUM ANALYZE a, b;
});
# They are loaded automatically. With one slot this may need more than one attempt.
$node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_gpujoin_mirrors
	WHERE state = 'ready'");
my $keys = 'ARRAY(SELECT generate_series(0, 749))';
my $both = "SELECT a.id, a.k AS ak, b.k AS bk FROM a JOIN b ON b.id = a.id
	WHERE a.k = ANY ($keys) AND b.k = ANY ($keys)";
my $plan = $node->safe_psql('postgres',
	"SET gpujoin.force = on; EXPLAIN (ANALYZE, TIMING OFF) $both");

is(() = $plan =~ /Custom Scan \(GpuScan\)/g, 2, 'a plan with two scans');
is(() = $plan =~ /Device: reference/g, 2, 'the device answers both, with one slot')
  or diag($plan);

my $cursor = { in => '', out => '', err => '' };
$cursor->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
	'<', \$cursor->{in}, '>', \$cursor->{out}, '2>', \$cursor->{err}, patience(300));
$cursor->{in} .= "SET gpujoin.force = on; BEGIN;
	DECLARE c CURSOR FOR SELECT id FROM a WHERE k = ANY ($keys); FETCH 2 FROM c;\n";
$cursor->{run}->pump until $cursor->{out} =~ /\d+\n\d+\n/ || $cursor->{err} ne '';
is($cursor->{err}, '', 'a cursor is opened, and left alone');
is(service($node, 'slots_used'), 0, 'it holds no slot');

my $busy = service($node, 'requests_busy');
is_deeply([ differing($node, $both) ], [], 'the plan beside it answers rightly');
is(service($node, 'requests_busy'), $busy, 'and found the slot free each time');
$cursor->{in} .= "MOVE ALL FROM c; COMMIT;\n\\echo done\n";
$cursor->{run}->pump until $cursor->{out} =~ /done/ || $cursor->{err} ne '';
is($cursor->{err}, '', 'the cursor is read to its end');
$cursor->{run}->kill_kill;

my $script = $node->basedir . '/both.sql';
my $right = $node->safe_psql('postgres',
	"SET gpujoin.enabled = off; SELECT sum(id + 7 * ak + 11 * bk) FROM ($both) s");
append_to_file($script, "SET gpujoin.force = on;\n
	SELECT 1 / (sum(id + 7 * ak + 11 * bk) = $right)::int FROM ($both) s;\n");
$node->command_checks_all(
	[ 'pgbench', '-n', '-c', '4', '-t', '3', '-f', $script, $node->connstr('postgres') ],
	0, [qr/number of failed transactions: 0 /], [], 'four sessions share one slot');

# ---- a load while the slot is taken ---------------------------------------------------------

$node->safe_psql('postgres', q{SELECT gpujoin_unload('a_k_idx'), gpujoin_unload('b_k_idx')});
inject($node, 'begin', 'delay', 0, 0, 300);
my $running = start_service($node, '10, nkeys => 100, requests => 3');
waits_for_device($event);
is($node->safe_psql('postgres', q{SELECT gpujoin_load('a_k_idx') > 0}), 't',
	'a load waits for its turn');
# searches may do without the device if the load keeps them waiting
like(finish_service($running), qr/^ok \d, fallbacks \d, wrong 0, loads 1$/, 'beside searches');

inject($node, 'begin', 'delay', 0, 1, 600000);
my $requests = service($node, 'requests');
$running = start_service($node, '10, nkeys => 100');
wait_for_request($node, $requests, 3);
waits_for_device($event);
my ($status, $out, $err) = $node->psql('postgres', q{SELECT gpujoin_load('b_k_idx')});
like($err, qr/"b_k_idx": all request slots are in use\nHINT:  Raise gpujoin.max_requests/,
	'but not for ever, and says what may help');
wait_replaced($node, signal_helper($node, 'KILL'));
is(finish_service($running), 'ok 0, fallbacks 1, wrong 0, loads 1', 'what was in its way');
$node->safe_psql('postgres', 'DROP TABLE a, b');

# ---- what a session waits for ---------------------------------------------------------------

$node->adjust_conf('postgresql.conf', 'gpujoin.max_requests', '4');
$node->restart;
wait_ready($node);

inject($node, 'begin', 'delay', 0, 0, 300);
$running = start_service($node, '10, nkeys => 100, requests => 50');
ok(waits_for_device($event), "who waits for the device shows \"$event\"");
inject($node, 'begin', 'none', 0, 0);
is(finish_service($running), 'ok 50, fallbacks 0, wrong 0, loads 1', 'and is answered');

# ---- requests that wait ---------------------------------------------------------------------

# Four requests stay, others are served. They have so many keys that the helper does not hold them:
# each of them gets one of the four delays.
$node->adjust_conf('postgresql.conf', 'gpujoin.max_requests', '8');
$node->restart;
wait_ready($node);
$node->safe_psql('postgres', q{
	CREATE TABLE a AS SELECT i AS id, i % 1000 AS k FROM generate_series(1, 200000) i;
	CREATE INDEX a_k ON a USING gpujoin (k);
	VACUUM ANALYZE a;
	SELECT gpujoin_load('a_k');
});

# Return the device that answers for n keys, or the reason why none does.
sub answers
{
	my $n = shift;
	my $where = "k = ANY (ARRAY(SELECT generate_series(0, $n - 1)))";
	my $text = $node->safe_psql('postgres',
		"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT id FROM a WHERE $where");

	is($node->safe_psql('postgres', "SELECT count(*) FROM a WHERE $where"),
		($n < 1000 ? $n : 1000) * 200, "$n keys have their rows");
	return $text =~ /Device Reason: (.*)/ ? $1 : $text =~ /Device: (.*)/ ? $1 : $text;
}

inject($node, 'begin', 'delay', 0, 4, 600000);
$requests = service($node, 'requests');
my @holders = map { start_service($node, '10, nkeys => 10000') } 1 .. 4;
wait_for_request($node, $requests, 12);
$node->poll_query_until('postgres', 'SELECT slots_used = 4 FROM gpujoin_status()');
is(answers($_), 'reference', "$_ keys: the device answers beside requests that wait")
  foreach 1, 2000;
wait_replaced($node, signal_helper($node, 'KILL'));
finish_service($_) foreach @holders;
# a loader may be at work
$node->safe_psql('postgres', q{SELECT gpujoin_load('a_k')});
is(answers(1), 'reference', 'and after them');
$node->safe_psql('postgres', 'DROP TABLE a');

# ---- a stopped backend ----------------------------------------------------------------------

inject($node, 'begin', 'delay', 0, 0, 300);
$running = start_service($node, '100, nkeys => 80000, requests => 50');
my $backend = stop_backend($event);
inject($node, 'begin', 'none', 0, 0);
is(run_service($node, '100, nkeys => 80000, requests => 20'),
	'ok 20, fallbacks 0, wrong 0, loads 1',
	'a backend that does not read its result delays nobody');
is(service($node, 'slots_used'), 1, 'its slot stays its own');
kill 'CONT', $backend;
is(finish_service($running), 'ok 50, fallbacks 0, wrong 0, loads 1', 'and it gets its answer');

inject($node, 'begin', 'delay', 0, 0, 300);
$running = start_service($node, '100, nkeys => 80000, requests => 50');
$backend = stop_backend($event);
wait_replaced($node, signal_helper($node, 'KILL'));
is(run_service($node, '100, nkeys => 80000, requests => 20'),
	'ok 20, fallbacks 0, wrong 0, loads 1',
	'the device process is replaced while a backend is stopped: others are served');
kill 'CONT', $backend;
like(finish_service($running), qr/^ok \d+, fallbacks 1, wrong 0, loads 2$/,
	'and the backend finds out, and does without');
no_leaks($node, 'after backends that were stopped');

# ---- a stream that hangs while others are served --------------------------------------------

my $load = $node->basedir . '/load.sql';
append_to_file($load, "SELECT 1 / (wrong = 0)::int
	FROM gpujoin_service_test(2, nkeys => 50, requests => 50);\n");
my ($load_out, $load_err) = ('', '');
my $from = -s $node->logfile;

# The next match takes ten minutes; later ones take no time. It is the third request of its session;
# the device begins other sessions' requests later because they are posted later.
inject($node, 'begin', 'delay', 0, 1, 600000);
$requests = service($node, 'requests');
$running = start_service($node, '10, nkeys => 100');
wait_for_request($node, $requests, 3);
waits_for_device($event);
my $pgbench = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '2', '-T', '600', '-f', $load, $node->connstr('postgres') ],
	'<', \undef, '>', \$load_out, '2>', \$load_err, patience(700));
# The requests of the sessions beside it, and those of the search that hangs
$node->poll_query_until('postgres', "SELECT requests > $requests + 30 FROM gpujoin_status()");
watch_after($node, '5s');
is(finish_service($running), 'ok 0, fallbacks 1, wrong 0, loads 1',
	'work that hangs is given up');
$pgbench->pump_nb;
ok($pgbench->pumpable, 'while the device went on to answer others');
watch_after($node, '1h');
like(slurp_file($node->logfile, $from),
	qr/gpujoin works without a device: the GPU made no progress/, 'and that is logged');
$pgbench->signal('INT');
eval { $pgbench->finish };
restart_now($node);
is(run_service($node, '10, nkeys => 100'), 'ok 1, fallbacks 0, wrong 0, loads 1',
	'answers are right again');
no_leaks($node, 'at the end');
log_is_clean($node, 'the log shows no crash of PostgreSQL');

done_testing();
