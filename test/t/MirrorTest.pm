# Shared by the TAP tests of mirrors: queries to one server, tables with an index, and pgbench
# clients in the background that write, compare answers and check mirrors.
package MirrorTest;

use strict;
use warnings;

use Exporter 'import';
use GpuJoinTest qw(poll_through_restarts);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(FILL ask sql wait_for compare_script write_script vacuum_script check_script
  start_bench finish_bench);

# SQL function: create a table with n rows of 1,000 keys and an index "name"_k, which is not loaded
use constant FILL => q{
	CREATE FUNCTION fill(name text, n int) RETURNS void LANGUAGE plpgsql
	SET gpujoin.auto_load = off AS $$
	BEGIN
		EXECUTE format('CREATE TABLE %I (id int, k int)', name);
		EXECUTE format('INSERT INTO %I SELECT i, i %% 1000 FROM generate_series(1, %s) i',
			name, n);
		EXECUTE format('CREATE INDEX %I ON %I USING gpujoin (k)', name || '_k', name);
	END $$;
};

# The server that sql() and wait_for() use
my $asked;

sub ask
{
	$asked = shift;
	return;
}

sub sql { return $asked->safe_psql('postgres', @_); }

sub wait_for
{
	my ($query, $what) = @_;
	ok(poll_through_restarts($asked, $query), $what)
	  or diag(sql('SELECT * FROM gpujoin_mirrors()'), sql('SELECT * FROM gpujoin_status()'));
}

# The scripts use a table t (id serial, k int, pad text) with keys 0 to 499 and an index t_k.

# One comparison: the same query with and without gpujoin in one snapshot. This is plain SQL because
# a procedure would have to be replanned for each setting. For aggregates over columns that the
# index has, the answer is index-only if possible.
sub compare_script
{
	my ($file, $sync_blocks, $columns) = @_;
	my $script = "\\set k random(0, 499)\n";
	my $where = 'k IN (:k, :k + 7, :k + 31, :k + 64, 499 - :k)';
	my $answer;

	$columns //= 'count(*), sum(id), sum(hashtext(pad)::bigint)';
	$answer = "SELECT hashtextextended(concat_ws(' ', $columns), 0) AS %s\n"
	  . "FROM t WHERE $where \\gset\n";

	$script .= "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n";
	$script .= "SET LOCAL gpujoin.sync_blocks = $sync_blocks;\n";
	$script .= sprintf($answer, 'ours');
	$script .= "SET LOCAL gpujoin.enabled = off;\n";
	$script .= sprintf($answer, 'stock');
	$script .= "COMMIT;\n";
	# an error, and so a failed client, if they differ
	$script .= "SELECT 1 / ((:ours) = (:stock))::int AS same \\gset\n";
	append_to_file($file, $script);
	return $file;
}

sub write_script
{
	my $file = shift;

	append_to_file($file, q{
\set k random(0, 499)
\set what random(1, 100)
\if :what <= 40
INSERT INTO t (k, pad) SELECT (:k + i) % 500, repeat('y', 20) FROM generate_series(1, 120) i;
\elif :what <= 60
UPDATE t SET k = (k + 1) % 500 WHERE id IN (SELECT id FROM t WHERE id % 200 = :k % 200 LIMIT 150);
\elif :what <= 80
UPDATE t SET pad = repeat('z', :k % 50) WHERE id % 300 = :k % 300;
\elif :what <= 92
DELETE FROM t WHERE id % 100 = :k % 100 AND id < (SELECT max(id) - 20000 FROM t);
\else
BEGIN;
INSERT INTO t (k, pad) SELECT i % 500, 'gone' FROM generate_series(1, 200) i;
SAVEPOINT s;
DELETE FROM t WHERE k = :k;
ROLLBACK TO s;
ROLLBACK;
\endif
});
	return $file;
}

sub vacuum_script
{
	my $file = shift;

	append_to_file($file, q{
VACUUM (INDEX_CLEANUP ON) t;
\set fold random(1, 8)
\if :fold <= 2
SELECT gpujoin_fold('t_k', :fold = 1);
\endif
\sleep 200 ms
});
	return $file;
}

sub check_script
{
	my $file = shift;

	append_to_file($file, q{
SELECT missing AS missing FROM gpujoin_mirror_check('t_k') \gset
SELECT 1 / (:missing = 0)::int AS same \gset
\sleep 50 ms
});
	return $file;
}

# Run pgbench with files on a node in the background; return a handle. A client that gets a
# deadlock, as writers of many rows may, tries again.
sub start_bench
{
	my ($node, $clients, $seconds, @files) = @_;
	my ($in, $out, $err) = ('', '', '');
	my @command = ('pgbench', '-n', '-c', $clients, '-j', 2, '-T', $seconds, '--max-tries=0',
		'-h', $node->host, '-p', $node->port, map { ('-f', $_) } @files);
	my $handle = IPC::Run::start([@command, 'postgres'], \$in, '>', \$out, '2>', \$err);
	return { handle => $handle, out => \$out, err => \$err };
}

# Wait until it ends. Errors that match $harmless are accepted; each ends its client.
sub finish_bench
{
	my ($bench, $what, $harmless) = @_;
	$bench->{handle}->finish;
	my $err = ${ $bench->{err} };
	my @errors = grep { /ERROR/ && !($harmless && /$harmless/) } split /\n/, $err;
	is(join("\n", @errors), '', "$what: every answer was right, and no error");
	like(${ $bench->{out} }, qr/number of transactions actually processed: [1-9]/,
		"$what: something ran");
	note(${ $bench->{out} } =~ /(number of transactions actually processed.*)/);
}

1;
