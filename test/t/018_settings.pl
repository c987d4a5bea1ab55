# Settings at their limits, and in unlikely combinations. A server either refuses to start, with a
# reason, or it works: builds, insertions, deletions, folds, and answers equal to PostgreSQL's own.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $long = $ENV{CHECK_LONG};
my @queries = (
	'SELECT * FROM big WHERE k = ANY (ARRAY[1, 5, 77, 500, 999])',
	'SELECT id, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 7)))',
	'SELECT count(*), sum(v), k FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 999, 3)))
		GROUP BY k',
	'SELECT count(DISTINCT v) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 500)))',
	'SELECT v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 500)))
		ORDER BY v, id LIMIT 7',
	'SELECT b.id FROM generate_series(0, 990, 13) s JOIN big b ON b.k = s',
	'SELECT b.id FROM big a JOIN big b ON b.k = a.k WHERE a.v < 20',
	'SELECT id FROM big WHERE k NOT IN (1, 2) AND v < 100');

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'");
$node->safe_psql('postgres', q{
	CREATE TABLE big (id int, k int, v int);
	INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 9000) i;
	CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v, id) WITH (lanes = 2);
	ANALYZE big;});
$node->stop;
my $next = 100_000;

# Start a server with these lines; test that everything works
sub works_with
{
	my ($name, @lines) = @_;
	my $file = $node->data_dir . '/absurd.conf';
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', "include_if_exists = 'absurd.conf'")
	  if slurp_file($node->data_dir . '/postgresql.conf') !~ /absurd/;
	open(my $conf, '>', $file) or die "$file: $!";
	print $conf map { "$_\n" } @lines;
	close $conf;
	if (!$node->start(fail_ok => 1))
	{
		my $log = slurp_file($node->logfile, $offset);

		like($log, qr/FATAL/, "$name: the server says why it does not start");
		unlike($log, qr/PANIC|TRAP|signal 11/, "$name: in good order");
		return;
	}
	does_all($name);
	$node->stop;
	log_is_clean($node, "$name: log is clean", $offset);
	return;
}

# Do everything in one session, optionally with settings of its own
sub does_all
{
	my ($name, $settings) = @_;

	$settings //= '';
	$next += 10_000;
	is($node->safe_psql('postgres', qq{$settings
		INSERT INTO big SELECT i, i % 1000, i FROM generate_series($next, $next + 1000) i;
		UPDATE big SET v = v + 1 WHERE id % 50 = 1;
		DELETE FROM big WHERE id % 30 = $next / 10000;
		VACUUM (INDEX_CLEANUP ON) big;
		SELECT gpujoin_fold('big_k') >= 0;
		CREATE INDEX big_v ON big USING gpujoin (v);
		SELECT gpujoin_check('big_v', true) = count(*) FROM big;
		DROP INDEX big_v;
		SELECT gpujoin_check('big_k', true) = count(*) FROM big;}), "t\nt\nt", "$name: changes");
	return if $settings ne '';
	is(join("\n", differing($node, @queries)), '', "$name: answers are PostgreSQL's own");
}

# Settings at server start
my %absurd = (
	'the least memory' => [ 'shared_buffers = 128kB', 'work_mem = 64kB',
		'maintenance_work_mem = 1MB', 'temp_buffers = 800kB', 'hash_mem_multiplier = 1',
		'wal_buffers = 32kB', 'max_wal_size = 2MB', 'min_wal_size = 2MB' ],
	'few connections and locks' => [ 'max_connections = 4', 'superuser_reserved_connections = 0',
		'max_wal_senders = 0', 'max_locks_per_transaction = 10', 'max_pred_locks_per_page = 0',
		'max_pred_locks_per_transaction = 10', 'max_worker_processes = 1' ],
	'no workers' => [ 'max_worker_processes = 0', 'max_parallel_workers = 0' ],
	'the least of gpujoin' => [ 'gpujoin.max_mirrors = 1', 'gpujoin.max_requests = 1',
		'gpujoin.result_buffer = 1MB', 'gpujoin.device_memory = 16MB',
		'gpujoin.device_timeout = 100', 'gpujoin.sync_blocks = 0', 'gpujoin.min_rows = 0',
		'gpujoin.assumed_keys = 1' ],
	'compiled expressions' => [ 'jit = on', 'jit_above_cost = 0', 'jit_optimize_above_cost = 0' ]);
%absurd = (%absurd,
	'the most of gpujoin' => [ 'gpujoin.max_mirrors = 65536', 'gpujoin.max_requests = 256',
		'gpujoin.device_memory = 16TB', "gpujoin.device_timeout = '1d'",
		'gpujoin.sync_blocks = 2147483647', 'gpujoin.min_rows = 2147483647',
		'gpujoin.assumed_keys = 2147483647' ],
	'more results than memory' => ['gpujoin.result_buffer = 16GB'],
	'many requests in a small buffer' => [ 'gpujoin.max_requests = 256',
		'gpujoin.result_buffer = 1MB' ],
	'no device' => ["gpujoin.device = 'none'"],
	'a GPU that is not there' => [ "gpujoin.device = 'cuda'", "gpujoin.gpu = '-1'" ],
	'a GPU of a strange name' => [ "gpujoin.device = 'cuda'", "gpujoin.gpu = '" . 'x' x 500 . "'" ],
	'no dynamic shared memory file' => ['dynamic_shared_memory_type = mmap'],
	'shared memory of a kind' => ['shared_memory_type = sysv'],
	'minimal WAL' => [ 'wal_level = minimal', 'max_wal_senders = 0', 'wal_skip_threshold = 0',
		'full_page_writes = off' ],
	'logical WAL' => [ 'wal_level = logical', 'wal_compression = on', 'wal_log_hints = on',
		'track_commit_timestamp = on' ],
	'all of it parallel' => [ 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0',
		'min_parallel_table_scan_size = 0', 'max_parallel_workers_per_gather = 64',
		'max_parallel_maintenance_workers = 64', 'parallel_leader_participation = off' ],
	'nothing but custom scans' => [ map { "$_ = off" } qw(enable_seqscan enable_indexscan
		  enable_bitmapscan enable_hashjoin enable_mergejoin enable_nestloop enable_hashagg
		  enable_sort enable_material enable_memoize enable_indexonlyscan) ]) if $long;
works_with($_, @{ $absurd{$_} }) foreach sort keys %absurd;

# Session settings: each of our settings at its limits and beyond
works_with('as it should be');
open(my $conf, '>', $node->data_dir . '/absurd.conf');
close $conf;
$node->start;
my @settings = map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', q{
	SELECT name, vartype, min_val, max_val FROM pg_settings
	WHERE name LIKE 'gpujoin.%' AND context = 'user' ORDER BY 1});
cmp_ok(scalar @settings, '>', 8, 'there are settings');
foreach (@settings)
{
	my ($name, $type, $min, $max) = @$_;
	my @values = $type eq 'bool' ? qw(on off) : ($min, $max);

	foreach my $value (@values)
	{
		$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
		$node->reload;
		is(join("\n", differing($node, $long ? @queries : $queries[1])), '',
			"$name = $value: answers are PostgreSQL's own");
	}
	$node->safe_psql('postgres', "ALTER SYSTEM RESET $name");
	next if $type eq 'bool';
	foreach my $value ('nan', "-1", '1e300', '', ' ', 'on', "''''", '0x7fffffffffffffffffff')
	{
		my ($status, $out, $err) = $node->psql('postgres', "SET $name = '$value'");

		like($err, qr/invalid value|requires a numeric value|is outside the valid range/,
			"$name = $value: refused")
		  if $status != 0;
		is($node->safe_psql('postgres', "SET $name = '$value'; SELECT 1"), '1', "$name = $value")
		  if $status == 0;
	}
}
$node->reload;
does_all("session: $_", $_) foreach 'SET maintenance_work_mem = 1024;',
  "SET temp_file_limit = 0; SET maintenance_work_mem = '1GB';", 'SET vacuum_cost_delay = 0.001;',
  'SET default_statistics_target = 1;', 'SET constraint_exclusion = on;',
  'SET default_transaction_isolation = serializable;', 'SET statement_timeout = 0;';

# Options of an index
foreach my $lanes (1, 64)
{
	is($node->safe_psql('postgres', qq{CREATE INDEX big_l ON big USING gpujoin (k)
		WITH (lanes = $lanes); INSERT INTO big SELECT i, i, i FROM generate_series(1, 1000) i;
		SELECT gpujoin_check('big_l', true) = count(*) FROM big; DROP INDEX big_l}), 't',
		"$lanes lanes");
}
foreach my $option ('lanes = 0', 'lanes = 65', 'lanes = -1', "lanes = 'x'", 'lanes = 99999999999',
	"preload = 'perhaps'", 'fillfactor = 10', 'unheard = 1')
{
	my ($status) = $node->psql('postgres',
		"CREATE INDEX big_l ON big USING gpujoin (k) WITH ($option)");

	isnt($status, 0, "$option: refused");
}
$node->stop;
log_is_clean($node, 'log is clean');
done_testing();
