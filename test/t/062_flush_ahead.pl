# A flush sorts the delta without the fold lock. It discards the sorted rows if a deletion has
# changed the delta in between, or if another fold has made a run of it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @queries = ('SELECT count(*), sum(id) FROM t WHERE k IN (1, 5, 77, 500, 999)',
	'SELECT count(*), sum(id) FROM t WHERE k IN (2001, 2003)',
	'SELECT id FROM t WHERE k IN (1, 77, 500, 2001)');
my $has_worker = "SELECT count(*) > 0 FROM pg_stat_activity
	WHERE backend_type = 'gpujoin fold worker'";
my $node = new_server('primary', 'fsync = off', 'gpujoin.auto_load = off');

# A flush is due from 8 pages on
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, k int);
	CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (id) WITH (lanes = 2, fold_pages = 8)});

# Insert 20,000 rows; their worker waits after it has sorted them. Returns the session that it waits
# for.
sub sort_ahead
{
	my $holder = $node->background_psql('postgres', on_error_stop => 0);

	ok($node->poll_query_until('postgres', "SELECT NOT ($has_worker)"), 'no worker is left');
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET gpujoin.debug_step =
		'sorted ahead wait'");
	$node->safe_psql('postgres', "SET gpujoin.debug_step = '';
		INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 20000) i");
	ok($node->poll_query_until('postgres', "$has_worker AND wait_event = 'advisory'"),
		'the worker has sorted the delta');
	$node->safe_psql('postgres', "ALTER DATABASE postgres RESET gpujoin.debug_step");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks
			WHERE locktype = 'userlock' AND objsubid = 4"),
		'0', 'it does not have the fold lock');
	return $holder;
}

sub is_flushed
{
	my ($what) = @_;

	ok($node->poll_query_until('postgres', "SELECT runs > 0 AND delta_pages < 8
		FROM gpujoin_index_info('t_k')"), "$what: the index is flushed");
	vacuum_until_visible($node, 't');
	is($node->safe_psql('postgres', "SELECT gpujoin_check('t_k', true) - count(*) FROM t"),
		'0', "$what: it has an entry for each row, and no other");
	is(join("\n", differing($node, @queries)), '', "$what: answers are PostgreSQL's own");
	return;
}

# Nothing happens in between
sort_ahead()->quit;
is_flushed('undisturbed');

# The flush writes the rows that it has sorted. If it sorted the delta again, it would wait.
{
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	my $flushed = "(SELECT delta_pages < 8 FROM gpujoin_index_info('t_k'))";

	ok($node->poll_query_until('postgres', "SELECT NOT ($has_worker)"), 'no worker is left');
	$holder->query_safe('SELECT pg_advisory_lock(1313)');
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET gpujoin.debug_step =
		'sorting wait'");
	$node->safe_psql('postgres', "SET gpujoin.debug_step = '';
		INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 20000) i");
	ok($node->poll_query_until('postgres',
			"SELECT $flushed OR ($has_worker AND wait_event = 'advisory')"), 'a flush ends');
	is($node->safe_psql('postgres', "SELECT $flushed"), 't', 'it does not sort again');
	$node->safe_psql('postgres', "ALTER DATABASE postgres RESET gpujoin.debug_step");
	$holder->quit;
}
is_flushed('sorted once');

# A deletion, after which the TIDs are used again; its VACUUM cannot fold
{
	my $holder = sort_ahead();
	my $pages = $node->safe_psql('postgres', "SELECT pg_relation_size('t') / 8192");
	my ($status, $out, $err);

	$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 3 = 0');
	($status, $out, $err) = $node->psql('postgres', "SET gpujoin.debug_step = 'closing error';
		VACUUM (INDEX_CLEANUP ON) t");
	like($err, qr/failed at step "closing"/, 'VACUUM has deleted entries, but not folded');
	$node->safe_psql('postgres',
		'INSERT INTO t SELECT i, 2000 + i % 5 FROM generate_series(1, 5000) i');
	cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM t
			WHERE k >= 2000 AND (ctid::text::point)[0] < $pages"),
		'>', 0, 'TIDs are used again');
	$holder->quit;
	is_flushed('a deletion');
}

# Another fold, and another delta, which is to be flushed now; the pages of the first one are free,
# but unchanged
{
	my $holder = sort_ahead();
	my $pages = "SELECT delta_pages FROM gpujoin_index_info('t_k')";
	my $before;

	$node->safe_psql('postgres',
		'INSERT INTO t SELECT i, 2000 + i % 5 FROM generate_series(1, 10000) i');
	$before = $node->safe_psql('postgres', $pages);
	$node->safe_psql('postgres', 'VACUUM t');
	cmp_ok($node->safe_psql('postgres', $pages), '<', $before, 'VACUUM folds the delta');
	cmp_ok($node->safe_psql('postgres', $pages), '>=', 8, 'but not the next one');
	$holder->quit;
	is_flushed('another fold');
}

# An error
{
	my $offset = -s $node->logfile;

	ok($node->poll_query_until('postgres', "SELECT NOT ($has_worker)"), 'no worker is left');
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET gpujoin.debug_step =
		'sorted ahead error'");
	$node->safe_psql('postgres', "SET gpujoin.debug_step = '';
		INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 20000) i");
	log_comes_to($node, qr/failed at step "sorted ahead"/, 'a flush fails', $offset);
	$node->safe_psql('postgres', "ALTER DATABASE postgres RESET gpujoin.debug_step");
	# no worker starts soon
	$node->safe_psql('postgres', "SELECT gpujoin_fold('t_k')");
	is_flushed('an error');
}
log_is_clean($node, 'no errors are left');
$node->stop;
done_testing();
