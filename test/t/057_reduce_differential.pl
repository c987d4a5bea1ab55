# Reductions on a device, on and off in one snapshot, and PostgreSQL's own answer: all ways in which
# rows can be grouped, while other sessions write, roll back, fold, vacuum and reuse pages. The
# visibility map changes all the time, so parts of the rows are reduced, and others are not.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use MirrorTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'", PATIENT,
	'gpujoin.force = on', 'max_parallel_workers_per_gather = 0', 'autovacuum = off',
	'gpujoin.debug_reduce_rows = 0', 'gpujoin.max_requests = 8', 'jit = off');
ask($node);
sql('CREATE EXTENSION IF NOT EXISTS gpujoin');
wait_ready($node);

sql(q{
	CREATE TABLE t (id serial, k int, a int2, b int8, d date, pad text);
	INSERT INTO t (k, a, b, d, pad) SELECT i % 500, nullif(i % 13, 0),
		(i % 5 - 2) * 4000000000000000000,
		nullif(date '2024-01-01' + i % 90, '2024-02-01'), repeat('x', 20)
	FROM generate_series(1, 40000) i;
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id, a, b, d) WITH (lanes = 2);
	CREATE TABLE s AS SELECT i * 7 % 500 AS k, i % 9 AS w, 'n' || i % 4 AS n
	FROM generate_series(1, 40) i;
	INSERT INTO s SELECT k, w + 1, n FROM s WHERE w < 3;
	CREATE TABLE keyed AS SELECT row_number() OVER () AS w, k, n FROM s;
	ALTER TABLE keyed ADD PRIMARY KEY (w);
	VACUUM ANALYZE t, s, keyed});
sql(q{SELECT gpujoin_load('t_k')});

# All forms of queries: columns of the groups, aggregates, and where the rows come from
my @keys = ('t WHERE k IN (:k, :k + 7, :k + 31, :k + 64, 499 - :k)',
	't WHERE k = ANY (ARRAY(SELECT k FROM s WHERE w > :k % 8)) AND a > 3',
	't WHERE k IN (SELECT k FROM s) AND d < \'2024-03-01\'');
my @joins = ('s JOIN t USING (k) WHERE w <= :k % 11', 's JOIN t USING (k) WHERE b >= 0');
my @forms = (
	(map { "SELECT count(*), sum(id), count(a), sum(b), max(d), avg(a) FROM $_" } @keys, @joins),
	(map { my $by = $_; map { "SELECT $by, count(*), sum(b), min(id), max(a) FROM $_ GROUP BY $by" }
			@keys, @joins } 'k', 'a', 'b', 'd', 'a, d', 'k, b, a', 'd, a, b, k'),
	(map { my $by = $_; map { "SELECT $by, count(*), sum(id), count(b) FROM $_ GROUP BY $by" }
			@joins } 'n', 'w, k', 'n, a', 'w, d, b'),
	# other columns, which depend on a primary key, have the values of one row
	(map { my $by = $_; map { "SELECT w, n, keyed.k, count(*), sum(id) FROM keyed JOIN t USING (k)"
			  . " $_ GROUP BY w$by" } '', 'WHERE w <= :k % 11', 'WHERE b >= 0' }
		'', ', a', ', a, d'),
	(map { "SELECT a + 1, d, count(*), sum(count(*)) OVER (PARTITION BY d) FROM $_ GROUP BY a, d" }
		@keys, @joins),
	(map { my $by = $_; map { ("SELECT DISTINCT $by FROM $_",
				"SELECT count(*) FROM (SELECT DISTINCT $by FROM $_) d") }
			@keys, @joins } 'a', 'k', 'b', 'a, b', 'id, a', 'k, a, b, d'),
	(map { my $of = $_; map { "SELECT count(DISTINCT $of) FROM $_" } @keys, @joins }
		'id', 'a', 'b', 'd', 't.k'));

# If nearly each row makes a group, groups are only counted, and keys that have fresh rows are left
# to the CPU, unless gpujoin.force is on
my @counted = map { my $by = $_; map { "SELECT count(*) FROM (SELECT DISTINCT $by FROM $_) d" }
	  @keys[ 0, 1 ] } 'id, k', 'id, a';
my $not_forced = 'SET LOCAL gpujoin.force = off; SET LOCAL gpujoin.min_rows = 0;
	SET LOCAL enable_seqscan = off;';

# A client runs one form, three times in one snapshot
sub form_script
{
	my ($file, $sync_blocks, $settings, @some) = @_;
	my $script = "\\set k random(0, 499)\n\\set form random(1, " . scalar(@some) . ")\n";

	$script .= "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n";
	$script .= "SET LOCAL gpujoin.sync_blocks = $sync_blocks; $settings\n";
	foreach my $i (1 .. @some)
	{
		my $answer = 'SELECT coalesce(sum(hashtextextended(x::text, 0)), 0) AS %s FROM ('
		  . "$some[$i - 1]) x \\gset\n";

		$script .= ($i == 1 ? '\if' : '\elif') . " :form = $i\n";
		$script .= sprintf($answer, 'reduced') . "SET LOCAL gpujoin.device_aggregate = off;\n"
		  . sprintf($answer, 'read') . "SET LOCAL gpujoin.enabled = off;\n"
		  . sprintf($answer, 'stock');
	}
	$script .= "\\endif\nCOMMIT;\n";
	# an error, and so a failed client, if they differ
	$script .= "SELECT 1 / ((:reduced) = (:stock) AND (:read) = (:stock))::int AS same \\gset\n";
	append_to_file($file, $script);
	return $file;
}

sub counters
{
	return map { sql("SELECT $_ FROM pg_stat_gpujoin_indexes WHERE indexrelname = 't_k'") }
	  qw(reductions reduced_rows pages_left_out);
}

# Each form once, without changes: it is reduced
my @not_reduced;
foreach my $form (@forms)
{
	my $query = $form =~ s/:k/17/gr;
	my $plan = sql("EXPLAIN (ANALYZE, FORMAT json, TIMING off) $query");

	push @not_reduced, $query unless $plan =~ /"Device Reductions": 1,/;
}
foreach my $form (@counted)
{
	my $query = $form =~ s/:k/17/gr;
	my $plan = sql("BEGIN; $not_forced EXPLAIN (ANALYZE, FORMAT json) $query; COMMIT");

	push @not_reduced, $query
	  unless $plan =~ /"Device Reductions": 1,/ && $plan =~ /"Device Group Memory": 0,/;
}
is(join("\n", @not_reduced), '', 'all ' . (@forms + @counted) . ' forms are reduced');

my ($reductions, $rows) = counters();
my $dir = $node->basedir;
my $seconds = $ENV{CHECK_SHORT} ? 8 : $ENV{CHECK_LONG} ? 120 : 10;
my @files;
foreach my $part (0 .. 5)
{
	push @files, form_script("$dir/forms$part", (4, 0, 1000)[ $part % 3 ], '',
		@forms[ grep { $_ % 6 == $part } 0 .. $#forms ]);
}
push @files, form_script("$dir/counted", 4, $not_forced, @counted);
my $bench = start_bench($node, 8, $seconds, @files, write_script("$dir/write"),
	vacuum_script("$dir/vacuum"));
finish_bench($bench, 'writers, VACUUM and folds', 'deadlock detected');
my ($more, $more_rows, $left_out) = counters();
cmp_ok($more, '>', $reductions, 'rows were reduced meanwhile');
cmp_ok($more_rows, '>', $rows, 'some of them');
cmp_ok($left_out, '>', 0, 'and pages left out');
note("reductions: ", $more - $reductions);

log_is_clean($node, 'the log is clean');
$node->stop;
done_testing();
