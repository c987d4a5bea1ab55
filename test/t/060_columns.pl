# INCLUDE columns of numerics, texts, char(n) and uuids after a crash, on a standby, through folds
# and merges, in mirrors, and when ALTER TABLE changes a column's type but keeps the index's file.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', { allows_streaming => 1 }, "gpujoin.device = 'reference'",
	'full_page_writes = on', 'max_prepared_transactions = 2');

# Every seventh amount and every fifth status is absent.
$primary->safe_psql('postgres', q{
	CREATE TABLE sale (id int, k int, amount numeric(12, 2), rate numeric, status varchar,
		c char(20), u uuid, body text);
	CREATE FUNCTION sell(first int, last int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO sale SELECT i, i % 50, CASE WHEN i % 7 = 0 THEN 'NaN' ELSE i / 100.0 END,
			CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN 1e30 WHEN 2 THEN i + 0.125
			ELSE (i % 500)::numeric(8, 2) END,
			CASE i % 5 WHEN 0 THEN 'longer than fifteen bytes ' || i % 3 WHEN 1 THEN NULL
			ELSE left('delivered', i % 10) END,
			left('abcdefghij', i % 11), CASE WHEN i % 8 > 0 THEN md5((i % 300)::text)::uuid END,
			repeat('x', i % 100)
		FROM generate_series(first, last) i
	$$;
	SELECT sell(1, 20000);
	CREATE INDEX sale_k ON sale USING gpujoin (k) INCLUDE (id, amount, rate, status, c, u);
	CREATE TABLE pulse (n int)});
vacuum_until_visible($primary, 'sale');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;
wait_ready($standby);

my $keys = 'k = ANY (ARRAY(SELECT generate_series(0, 60, 3)))';
my @queries = (
	"SELECT id, amount, rate, status, c, u FROM sale WHERE $keys",
	"SELECT sum(amount), avg(rate), min(rate), max(amount), count(status) FROM sale WHERE $keys "
	  . "AND amount < 'NaN'",
	"SELECT status, count(*), sum(rate) FROM sale WHERE $keys GROUP BY status",
	"SELECT u, count(*) FROM sale WHERE $keys GROUP BY u",
	"SELECT id, c, octet_length(c) FROM sale WHERE $keys AND c = 'abc' AND status <> 'del'",
	"SELECT id FROM sale WHERE $keys AND amount BETWEEN 50 AND 60 AND rate > 100",
	"SELECT id, rate FROM sale WHERE $keys AND status IN ('', 'deliv') AND u IS NOT NULL",
	"SELECT s, b.status, b.amount FROM generate_series(0, 60, 3) s JOIN sale b ON b.k = s "
	  . "WHERE b.rate <> 3.125",
	"SELECT row_number() OVER () AS n, q.* FROM (SELECT id, amount FROM sale WHERE $keys "
	  . "ORDER BY amount DESC, id LIMIT 300) q",
	"SELECT row_number() OVER () AS n, q.* FROM (SELECT id, u, rate FROM sale WHERE $keys "
	  . "ORDER BY u NULLS FIRST, rate, id LIMIT 900) q");

# WAL of an uncommitted transaction is sent when another one commits.
sub catch_up
{
	$primary->safe_psql('postgres', 'INSERT INTO pulse VALUES (1)');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

sub check
{
	my ($node, $when) = @_;
	my $server = $node->name;

	is($node->safe_psql('postgres', "SELECT gpujoin_check('sale_k', true) >= count(*) FROM sale"),
		't', "$server, $when: the index has all rows")
	  unless $server eq 'standby';
	is_deeply([ differing($node, @queries) ], [], "$server, $when: answers are right");
	return;
}

sub check_both
{
	my $when = shift;

	check($primary, $when);
	catch_up();
	check($standby, $when);
	return;
}

sub crash
{
	$primary->stop('immediate');
	$primary->start;
	wait_ready($primary);
	return;
}

# ---- rows from entries ------------------------------------------------------------------------

foreach my $node ($primary, $standby)
{
	catch_up();
	my $plan = $node->safe_psql('postgres', "SET gpujoin.force = on; "
		  . "EXPLAIN (ANALYZE, COSTS off, TIMING off) SELECT id, u, c FROM sale WHERE k IN (1, 2)");
	like($plan, qr/Heap Fetches: 0\n/, $node->name . ': nothing is absent of uuids and char(20)');
	$plan = $node->safe_psql('postgres', "SET gpujoin.force = on; "
		  . "EXPLAIN (ANALYZE, COSTS off, TIMING off) SELECT status FROM sale WHERE k IN (1, 5)");
	like($plan, qr/Heap Fetches: 400\n\s+Absent Values: 400\n/, $node->name . ': long texts are');
}
check_both('after the build');

# ---- crashes, transactions that end otherwise, folds and merges ------------------------------

$primary->safe_psql('postgres', q{
	SELECT sell(20001, 26000);
	UPDATE sale SET amount = amount + 0.01, status = status || '!' WHERE id % 10 = 3;
	UPDATE sale SET rate = 2.5 WHERE id % 100 = 4;
	DELETE FROM sale WHERE id % 33 = 0;
	BEGIN; SELECT sell(30001, 30100); ROLLBACK;
	BEGIN; SELECT sell(31001, 31100); PREPARE TRANSACTION 'p'});
crash();
$primary->safe_psql('postgres', "COMMIT PREPARED 'p'");
check_both('after a crash');

$primary->safe_psql('postgres', q{VACUUM sale; SELECT gpujoin_fold('sale_k')});
crash();
check_both('after a fold and a crash');
foreach my $n (1 .. 6)
{
	$primary->safe_psql('postgres', "SELECT sell(${n}00001, ${n}01500);
		SELECT gpujoin_fold('sale_k')");
}
check_both('with several runs');
$primary->safe_psql('postgres', q{SELECT gpujoin_fold('sale_k', true)});
crash();
vacuum_until_visible($primary, 'sale');
check_both('after a merge and a crash');

# ---- ALTER TABLE keeps the file ---------------------------------------------------------------

my $file = $primary->safe_psql('postgres', q{SELECT pg_relation_filenode('sale_k')});
$primary->safe_psql('postgres', q{
	ALTER TABLE sale ALTER amount TYPE numeric, ALTER status TYPE text;
	UPDATE sale SET amount = amount / 3 WHERE id % 6 = 1;
	UPDATE sale SET amount = 1.5 WHERE id % 60 = 2;
	INSERT INTO sale SELECT i, i % 50, i * 0.001, i, repeat('s', i % 20), 'c', NULL, NULL
	FROM generate_series(800001, 801000) i});
is($primary->safe_psql('postgres', q{SELECT pg_relation_filenode('sale_k')}), $file,
	'the index keeps its file');
check_both('with values of other scales');
crash();
$primary->safe_psql('postgres', q{SELECT gpujoin_fold('sale_k', true)});
check_both('after another crash');

# ---- mirrors ----------------------------------------------------------------------------------

foreach my $node ($primary, $standby)
{
	is($node->safe_psql('postgres', q{SELECT gpujoin_load('sale_k') > 0}), 't',
		$node->name . ': a mirror is loaded');
	my $plan = $node->safe_psql('postgres', "SET gpujoin.force = on; EXPLAIN (ANALYZE) "
		  . "SELECT id FROM sale WHERE $keys AND amount < 3 AND c = 'abc'");
	like($plan, qr/Device Filter: .*amount.*c = 'abc'/, $node->name . ': which tests words');
	check($node, 'with a mirror');
}
$primary->safe_psql('postgres', q{
	UPDATE sale SET amount = 7.25, status = 'moved' WHERE id % 40 = 5;
	DELETE FROM sale WHERE id % 41 = 0});
check_both('with an outdated mirror');

# ---- the standby is promoted, and the index is written to -------------------------------------

$standby->promote;
$standby->safe_psql('postgres', q{SELECT sell(900001, 902000)});
is($standby->safe_psql('postgres', "SELECT gpujoin_check('sale_k', true) >= count(*) FROM sale"),
	't', 'promoted: the index has all rows');
check($standby, 'promoted');

log_is_clean($primary, "the primary's log");
log_is_clean($standby, "the standby's log");
$_->stop foreach $standby, $primary;
done_testing();
