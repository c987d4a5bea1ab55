# Shared by the TAP tests: a server with gpujoin, and comparison of our answers with stock ones.
package GpuJoinTest;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Sessions;
use Test::More;

our @EXPORT = qw(new_server differing uses_node log_is_clean wait_for_query log_comes_to
  vacuum_until_visible poll_through_restarts patience);

# Return a started server with both extensions in database postgres. Further arguments are lines for
# the configuration; init options come first, as a hash reference. Timed checkpoints and the
# background writer are effectively off, because VACUUM skips entries of pages that they pin. A
# device is asked for few keys, too.
sub new_server
{
	my ($name, @lines) = @_;
	my $init = ref $lines[0] ? shift @lines : {};
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%$init);
	$node->append_conf('postgresql.conf', join("\n",
			'autovacuum = off', 'checkpoint_timeout = 1h', 'bgwriter_lru_maxpages = 0',
			"shared_preload_libraries = 'gpujoin'", 'gpujoin.device_setup_cost = 0',
			"log_line_prefix = '%m [%p] %q%a '", @lines, ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION gpujoin; CREATE EXTENSION gpujoin_test');
	return $node;
}

# Run each query in one snapshot without and with gpujoin; return those whose rows differ, with both
# answers. The rows are compared as multisets of text.
sub differing
{
	my ($node, @queries) = @_;
	my @different;

	foreach my $query (@queries)
	{
		my $digest = "SELECT count(*) || ' ' || "
		  . "md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '')) FROM ($query) t;";
		my ($status, $out, $err) = ask_shared($node, 'postgres', qq{
			BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
			SET LOCAL gpujoin.enabled = off;
			$digest
			SET LOCAL gpujoin.enabled = on;
			SET LOCAL gpujoin.force = on;
			$digest
			COMMIT});
		my ($stock, $ours) = split /\n/, $out;

		push @different, "$query: stock " . ($stock // "nothing") . ", ours " . ($ours // $err)
		  if $status != 0 || !defined $ours || $stock ne $ours;
	}
	return @different;
}

# Return true if this node (GpuScan or GpuJoin) is in the forced plan of the query.
sub uses_node
{
	my ($node, $name, $query) = @_;
	my $plan = $node->safe_psql('postgres', "SET gpujoin.force = on; EXPLAIN (COSTS OFF) $query");

	return $plan =~ /Custom Scan \($name\)/;
}

# Test that the log since an offset shows neither a crash nor an unreleased resource.
sub log_is_clean
{
	my ($node, $name, $offset) = @_;
	my @findings = grep {
		/PANIC:|TRAP:|terminated by signal| leak: |still active|resource was not closed|XX000/
	} split /\n/, slurp_file($node->logfile, $offset // 0);

	is(join("\n", @findings), '', $name);
}

# Wait until the log since an offset matches: a process may log an action after it has taken effect.
sub log_comes_to
{
	my ($node, $pattern, $name, $offset) = @_;
	my $until = time + 180 * ($ENV{CHECK_PATIENCE} || 1);
	my $log = slurp_file($node->logfile, $offset // 0);

	while ($log !~ $pattern && time < $until)
	{
		select(undef, undef, undef, 0.1);
		$log = slurp_file($node->logfile, $offset // 0);
	}
	like($log, $pattern, $name);
	return;
}

# VACUUM a table until all its pages are all-visible. One VACUUM may not be enough if an exiting
# process still has a page pinned, or if there is an old snapshot.
sub vacuum_until_visible
{
	my ($node, $table) = @_;
	my $visible = '';

	for (my $tries = 0; $tries < 300 && $visible ne 't'; $tries++)
	{
		select(undef, undef, undef, 0.1) if $tries;
		$node->safe_psql('postgres', "VACUUM (ANALYZE, INDEX_CLEANUP ON, TRUNCATE OFF) $table");
		$visible = $node->safe_psql('postgres',
			"SELECT relallvisible = relpages FROM pg_class WHERE oid = '$table'::regclass");
	}
	is($visible, 't', "VACUUM has set all pages of $table all-visible");
	return;
}

# Wait until a session, named by application_name, runs or waits for something.
sub wait_for_query
{
	my ($node, $name, $condition) = @_;

	return $node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM pg_stat_activity
		 WHERE application_name = '$name' AND " . ($condition // "state = 'active'"));
}

# Wait until a query returns true, also while the server is restarting. poll_query_until() dies if
# psql exits, for want of a connection, before it has read the query.
sub poll_through_restarts
{
	my ($node, $query) = @_;

	for (;;)
	{
		my $is_true = eval { $node->poll_query_until('postgres', $query) };

		return $is_true unless $@;
		die $@ unless $@ =~ /Broken pipe/;
	}
}

# Return the time limit for a program; CHECK_PATIENCE extends it where everything takes longer.
sub patience { return IPC::Run::timeout($_[0] * ($ENV{CHECK_PATIENCE} || 1)); }

1;
