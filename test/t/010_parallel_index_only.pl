# Parallel index-only answers under VACUUM: the matches are divided, and each process tests its
# share when it takes it. Rows that are rolled back, removed and forgotten meanwhile are not
# returned, whether a device has found them or the CPU has yet to find them; if the rule is
# switched off, they are returned. All processes send requests to a device, each for some of the
# keys: answers that other processes get later, or do not get because of a failure, are combined
# correctly.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use IPC::Run;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $processes = 4;
my $workers = $processes - 1;
my $node = new_server('main', 'fsync = off', 'jit = off', "gpujoin.device = 'reference'",
	'gpujoin.auto_load = off', 'gpujoin.force = on', PATIENT,
	'max_worker_processes = 20', 'max_parallel_workers = 8', 'min_parallel_table_scan_size = 0',
	'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'seq_page_cost = 0',
	'random_page_cost = 0', 'gpujoin.setup_cost = 0', 'gpujoin.search_cost = 0',
	'gpujoin.tid_cost = 0', 'gpujoin.device_setup_cost = 0', 'gpujoin.device_search_cost = 0',
	"max_parallel_workers_per_gather = $workers");

wait_ready($node);
my $gate = $node->data_dir . '/gate';
$node->safe_psql('postgres', qq{
	CREATE TABLE big (id int, k int, v int) WITH (parallel_workers = $workers);
	CREATE TABLE few (LIKE big) WITH (parallel_workers = $workers);
	CREATE INDEX few_k ON few USING gpujoin (k) INCLUDE (id, v) WITH (lanes = 1);
	CREATE TABLE small AS SELECT i AS k FROM generate_series(0, 9) i;
	CREATE FUNCTION wait_at_gate(int) RETURNS boolean PARALLEL SAFE COST 1000 LANGUAGE plpgsql AS
		'BEGIN
			WHILE (pg_stat_file(''gate'', true)).size IS NOT NULL LOOP
				PERFORM pg_sleep(0.1);
			END LOOP;
			RETURN true;
		END'});

# One table for the device, and one for the CPU: with the latter the processes must have searched
# all pages before they wait, otherwise VACUUM removes the entries that they are to find. They begin
# with four pages each, the last of which gets the rows in question; the entries tested first are
# fewer than those found.
my ($entries) = $node->safe_psql('postgres', q{
	INSERT INTO few SELECT i, i % 10, i FROM generate_series(1, 20000) i;
	SELECT gpujoin_fold('few_k', true);
	SELECT 32 * ceil(run_entries[1] / run_pages[1] / 32.0)
	FROM gpujoin_index_info('few_k')}) =~ /(\d+)$/;
$node->safe_psql('postgres', qq{
	TRUNCATE few;
	INSERT INTO big SELECT i, i % 10, i FROM generate_series(1, 100000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id, v);
	DROP INDEX few_k;
	INSERT INTO few SELECT i, i % 10, i FROM generate_series(1, (4 * $processes - 1) * $entries) i;
	CREATE INDEX few_k ON few USING gpujoin (k) INCLUDE (id, v) WITH (lanes = 1);
	SELECT gpujoin_load('big_k')});
vacuum_until_visible($node, $_) foreach 'big', 'few', 'small';

my %tables = (reference => 'big', CPU => 'few');
my %queries = (
	scan => 'SELECT count(id), sum(v) FROM %s WHERE k = ANY (ARRAY(SELECT k FROM small))
		AND wait_at_gate(v)',
	join => 'SELECT count(id), sum(v) FROM small JOIN %s USING (k) WHERE wait_at_gate(v)');

# Return the answer of a query during which something happens once each process has its first rows
sub answer_meanwhile
{
	my ($query, $event, @settings) = @_;
	my ($out, $err) = ('', '');

	append_to_file($gate, '');
	my $run = IPC::Run::start(
		[ 'psql', '-qXAt', '-d', $node->connstr('postgres') . ' application_name=reader',
			(map { ('-c', $_) } @settings, $query) ],
		'<', \undef, '>', \$out, '2>', \$err, patience(180));
	ok($node->poll_query_until('postgres', "SELECT count(*) = $processes FROM pg_stat_activity
			WHERE wait_event = 'PgSleep'"), 'each process has its first rows');
	$event->();
	unlink $gate;
	$run->finish;
	chomp $out;
	return $err || $out;
}

# The same, but rows are rolled back and removed before something else happens
sub answer_under_vacuum
{
	my ($table, $query, $step, $more) = @_;
	my $writer = $node->background_psql('postgres');

	$writer->query_safe("BEGIN;
		INSERT INTO $table SELECT -i, i % 10, 1 FROM generate_series(1, 250) i");

	# the CPU would find and test unsorted entries first, and then no process would wait
	$node->safe_psql('postgres', "SELECT gpujoin_fold('few_k', true)") if $table eq 'few';
	return answer_meanwhile(
		$query,
		sub {
			$writer->query_safe('ROLLBACK');
			$writer->quit;
			vacuum_until_visible($node, $table);
			$more->() if $more;
		},
		"SET gpujoin.debug_step = '$step'");
}

# A device's matches for few keys are divided by heap blocks
my $few_keys = 'SELECT count(id), sum(v) FROM big WHERE k IN (0, 1, 2, 3, 4, 5, 6)';
my $few_rows = $node->safe_psql('postgres', "SET gpujoin.enabled = off; $few_keys");
unlike($node->safe_psql('postgres', "EXPLAIN (ANALYZE, TIMING off) $few_keys"),
	qr/Device: CPU|Device Pieces/, 'few keys are not divided');
is(answer_under_vacuum('big', "$few_keys AND wait_at_gate(v)", ''),
	$few_rows, 'their rows are right under VACUUM');
isnt(answer_under_vacuum('big', "$few_keys AND wait_at_gate(v)", 'ignore epoch'),
	$few_rows, 'and wrong without the rule');

foreach my $device (sort keys %tables)
{
	my $table = $tables{$device};
	my $expected = $node->safe_psql('postgres',
		"SET gpujoin.enabled = off; SELECT count(id), sum(v) FROM $table");

	foreach my $name (sort keys %queries)
	{
		my $query = sprintf $queries{$name}, $table;

		like($node->safe_psql('postgres', "EXPLAIN (ANALYZE, VERBOSE, TIMING off) $query"),
			qr/Gather.*Parallel Custom Scan.*Index Only: true.*Heap Fetches: 0.*Device: $device/s,
			"$name, $device: in parallel, without the heap");
		is($node->safe_psql('postgres', $query), $expected, "$name, $device: right");
		is(answer_under_vacuum($table, $query, ''), $expected,
			"$name, $device: right under VACUUM");
		isnt(answer_under_vacuum($table, $query, 'ignore epoch'), $expected,
			"$name, $device: wrong without the rule");
	}
}

# ---- each process requests its own keys -------------------------------------------------------

# Ten keys are ten ranges; each process has one of them when it waits
my $query = sprintf $queries{scan}, 'big';
my $expected = $node->safe_psql('postgres',
	'SET gpujoin.enabled = off; SELECT count(id), sum(v) FROM big');
my $explain = "EXPLAIN (ANALYZE, TIMING off) $query";
like($node->safe_psql('postgres', $explain), qr/Device: reference\n.*Device Pieces: 10\n/s,
	'the keys are divided');

# A query brings the mirror to the new vacuum epoch. The other processes' next requests then have
# another epoch than the answers that they already have.
sub bring_up_to_date
{
	$node->safe_psql('postgres', 'SET max_parallel_workers_per_gather = 0;
		SELECT count(id) FROM big WHERE k IN (1, 2, 3)');
}
is(answer_under_vacuum('big', $query, '', \&bring_up_to_date),
	$expected, 'right with a mirror of another vacuum epoch');
like(answer_under_vacuum('big', $explain, '', \&bring_up_to_date),
	qr/Device: CPU.*Device Reason: VACUUM has been there.*Device Pieces: 4\n/s,
	'which is not asked');

# One process gets no answer: the others do, and the CPU finds the rest of its keys
sub fail_once { inject($node, 'keyset', 'no_memory', 0, 1, 0); }
like(answer_meanwhile($explain, \&fail_once),
	qr/Matched TIDs: 100000\n.*Device: CPU.*Device Reason: .*memory.*Device Pieces: [4-9]\n/s,
	'all is found when one request fails');
is(answer_meanwhile($query, sub { wait_replaced($node, signal_helper($node, 'KILL')) }),
	$expected, 'right when the device has another process');
$node->safe_psql('postgres', q{SELECT gpujoin_load('big_k')});
is( answer_meanwhile(
		$query, sub { $node->safe_psql('postgres', q{SELECT gpujoin_unload('big_k')}) }),
	$expected,
	'right when the mirror is dropped');

# ---- the device fails, and the CPU finds hits in a delta --------------------------------------

# Each search of the CPU reads the delta once, and it makes one for each range at most. There is
# memory for the hits, so nothing goes to a temporary file.
$node->safe_psql('postgres', qq{
	CREATE TABLE young (LIKE big) WITH (parallel_workers = $workers);
	CREATE INDEX young_k ON young USING gpujoin (k) INCLUDE (id, v);
	INSERT INTO young SELECT i, i % 10, i FROM generate_series(1, 100000) i;
	VACUUM (ANALYZE, INDEX_CLEANUP OFF) young;
	SELECT gpujoin_load('young_k')});
my $delta_pages = $node->safe_psql('postgres', q{
	SELECT delta_pages FROM gpujoin_index_info('young_k')});
$query = sprintf $queries{scan}, 'young';
$explain = "EXPLAIN (ANALYZE, BUFFERS, TIMING off) $query";
my $divided = $node->safe_psql('postgres', $explain);
like($divided, qr/Device: reference\n.*Device Pieces: 10\n/s, 'keys of a delta are divided');
sub fail_from_now_on { inject($node, 'keyset', 'no_memory', 0, 1000000, 0); }
my $plan = answer_meanwhile($explain, \&fail_from_now_on);
like($plan, qr/Matched TIDs: 100000\n.*Device: CPU.*Device Reason: .*memory/s,
	'the CPU finds the rest');
my $pages_read = 0;
$pages_read += $1 while $plan =~ /Delta Pages: (\d+)/g;
cmp_ok($delta_pages, '>', 100, 'the delta has many pages');
cmp_ok($pages_read, '>=', $delta_pages, 'which are read');
cmp_ok($pages_read, '<=', 10 * $delta_pages, 'once for each range at most');
unlike($plan, qr/temp read|temp written/, 'and nothing goes to a temporary file');
inject($node, 'keyset', 'none', 0, 0, 0);

log_is_clean($node, 'log has no sign of a leak');

done_testing();
