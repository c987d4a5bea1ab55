# The statements of the soak test's sessions: random, by role. All randomness comes from rand(). A
# script is in psql's language and leaves no transaction open.
package SoakScripts;

use strict;
use warnings;

use Digest::MD5 'md5_hex';
use Exporter 'import';

our @EXPORT_OK = qw(script %queries query);

my $keys = $ENV{SOAK_KEYS};
my $rows = $ENV{SOAK_ROWS};
my $has_device = ($ENV{SOAK_DEVICE} // 'none') ne 'none';

sub upto { return int(rand($_[0])); }
sub pick { return $_[ int(rand(@_)) ]; }
sub key { return upto($keys); }
sub id { return 1 + upto($rows * 1.2); }
sub item { return 1 + upto($keys * 12); }

# Keys of a set; some of them have no rows
sub set_of
{
	my $most = shift;
	my $shift = rand() < 0.1 ? $keys * 2 : 0;

	return join(', ', map { key() + $shift * ($_ % 2) } 0 .. upto($most));
}

# The same values as those of schema.sql's functions
sub uuid_of { return join('-', unpack('A8A4A4A4A12', md5_hex($_[0]))); }
sub id_of
{
	my $n = shift;

	return $n % 20 == 0 ? "an item without an id, number $n"
	  : substr(uuid_of($n), 0, 19) . '8' . substr(uuid_of($n), 20);
}
sub code_of
{
	my $n = $_[0] % 23;

	return $n == 0 ? "'a code that is too long'" : $n == 1 ? 'NULL' : "'code$n'";
}
# The values that the row of this number had at first
my %value_of = (
	n => sub { $_[0] % $keys },
	u => sub { q(') . uuid_of($_[0] % $keys) . q(') },
	t => sub { q('item ) . $_[0] % $keys . q(') },
	i => sub { q(') . id_of($_[0] % $keys) . q(') },
	c => sub { "'c" . $_[0] % 9 . ' ' x upto(3) . q(') },
	o => sub { q(') . uuid_of($_[0] % 90) . q(') },
	k => sub { code_of($_[0]) });
sub value { return $value_of{ $_[0] }->(upto($keys * 10)); }

# Values or tuples of these kinds: "nk" are pairs of a number and a code, most of which a row has
sub list_of
{
	my ($kinds, $most) = @_;
	my @list;

	foreach (0 .. upto($most))
	{
		my $row = upto($keys * 10);
		my $other = rand() < 0.7 ? $row : upto($keys * 10);
		my ($first, @others) = split(//, $kinds);
		my @values = ($value_of{$first}->($row), map { $value_of{$_}->($other) } @others);
		push @list, @values > 1 ? '(' . join(', ', @values) . ')' : $values[0];
	}
	return join(', ', @list);
}

# ---- questions --------------------------------------------------------------------------------

# Name: [ ways to run it (soak_answer), text ]. In the text {40} is a set of up to 40 keys, {w} a
# small number, {nk:40} a list of up to 40 pairs: see list_of().
my @any = qw(set rows cursor);
our %queries = (
	rows => [ \@any, 'SELECT * FROM big WHERE k = ANY (ARRAY[{40}])' ],
	filter => [ \@any, 'SELECT id, v, pad FROM big WHERE k IN ({40}) AND v % 3 = 0' ],
	many => [ ['set'], 'SELECT id, b, pad FROM big WHERE k = ANY (ARRAY[{900}])' ],
	only => [ \@any, 'SELECT k, v, b, id FROM big WHERE k IN ({60}) AND v < 7{w}' ],
	partial => [ \@any, 'SELECT id, k, v, pad FROM big WHERE k IN ({60}) AND v < 30' ],
	expression => [ \@any, 'SELECT id, k FROM big WHERE k / 7 IN ({60}) AND k >= 0' ],
	either => [ ['set'], 'SELECT id FROM big WHERE k IN ({20}) OR b IN ({20})' ],
	other => [ \@any, 'SELECT id, b, pad FROM big WHERE b = ANY (ARRAY[{60}]::bigint[])' ],
	sums => [ ['rows'], 'SELECT v, count(*), sum(b), min(id), max(b) FROM big
		WHERE k IN ({60}) GROUP BY v' ],
	sum => [ ['rows'], 'SELECT count(*), sum(v), avg(b), sum(length(pad)) FROM big
		WHERE k = ANY (ARRAY[{200}])' ],
	kinds => [ ['rows'], 'SELECT count(DISTINCT v), count(DISTINCT b), sum(v) FROM big
		WHERE k IN ({60})' ],
	distinct => [ ['set'], 'SELECT DISTINCT k, v FROM big WHERE k = ANY (ARRAY[{200}])' ],
	top => [ ['ordered'], 'SELECT id, b, v FROM big WHERE k IN ({60}) ORDER BY b DESC, id
		LIMIT 20' ],
	top_rows => [ ['ordered'], 'SELECT id, b, pad FROM big WHERE k IN ({60}) AND v < 8{w}
		ORDER BY b, id LIMIT 3{w}' ],
	join => [ \@any, 'SELECT b.id, b.pad, s.w FROM small s JOIN big b ON b.k = s.k
		WHERE s.w = {w}' ],
	semijoin => [ \@any, 'SELECT b.* FROM big b
		WHERE EXISTS (SELECT FROM small s WHERE s.k = b.k AND s.w = {w})' ],
	left_join => [ ['set'], 'SELECT s.k, s.w, b.id FROM small s
		LEFT JOIN big b ON b.k = s.k AND b.v < 2{w}' ],
	join_sums => [ ['rows'], 'SELECT s.w, count(*), sum(b.b), min(b.v) FROM small s
		JOIN big b ON b.k = s.k GROUP BY s.w' ],
	array => [ ['rows'], 'SELECT count(*), sum(b) FROM big
		WHERE k = ANY (ARRAY(SELECT k FROM small WHERE w < {w}))' ],
	parts => [ \@any, 'SELECT * FROM parts WHERE k IN ({60})' ],
	parts_sums => [ ['rows'], 'SELECT v, count(*), sum(b) FROM parts WHERE k IN ({200})
		GROUP BY v' ],
	parts_top => [ ['ordered'], 'SELECT id, b, k FROM parts WHERE k IN ({200})
		ORDER BY b, id, k LIMIT 20' ],
	parts_join => [ \@any, 'SELECT p.id, p.v, s.w FROM small s JOIN parts p ON p.k = s.k' ],
	side => [ \@any, 'SELECT * FROM side WHERE k IN (1, {w}, 77, 400)' ],
	uuids => [ \@any, 'SELECT * FROM items WHERE u IN ({u:40})' ],
	uuid_only => [ \@any, 'SELECT u, code, v, id FROM items
		WHERE u = ANY (ARRAY[{u:60}]::uuid[])' ],
	uuid_sums => [ ['rows'], 'SELECT u, count(*), sum(v), count(code) FROM items WHERE u IN ({u:60})
		GROUP BY u' ],
	texts => [ \@any, 'SELECT * FROM items WHERE t = ANY (ARRAY[{t:60}])' ],
	text_ids => [ \@any, 'SELECT i, c, owner, id FROM items WHERE i IN ({i:60})' ],
	text_id_sums => [ ['rows'], 'SELECT owner, count(*), count(DISTINCT i) FROM items
		WHERE i IN ({i:60}) GROUP BY owner' ],
	prices => [ ['rows'], 'SELECT code, sum(price), max(price), count(DISTINCT c) FROM items
		WHERE n IN ({60}) AND price <> 3.21 GROUP BY code' ],
	price_top => [ ['ordered'], 'SELECT price, id FROM items WHERE n IN ({60})
		ORDER BY price DESC, id LIMIT 20' ],
	tuples => [ \@any, 'SELECT * FROM items WHERE (n, code) IN ({nk:90})' ],
	tuple_only => [ \@any, 'SELECT n, c, id FROM items WHERE (n, c) IN ({nc:90})' ],
	uuid_tuples => [ \@any, 'SELECT u, id, v FROM items WHERE (u, code) IN ({uk:90})' ],
	id_tuples => [ \@any, 'SELECT i, c, id FROM items WHERE (i, owner) IN ({io:90})' ],
	text_tuples => [ \@any, 'SELECT t, pad FROM items WHERE (t, n) IN ({tn:90})' ],
	tuple_join => [ \@any, 'SELECT i.*, p.w FROM pairs p JOIN items i ON i.n = p.n
		AND i.code = p.code AND i.owner = p.owner' ],
	bpchar_join => [ \@any, 'SELECT i.n, i.c, i.id FROM items i WHERE EXISTS (SELECT FROM pairs p
		WHERE i.n = p.n AND i.c = p.c AND p.w < {w})' ],
	uuid_join => [ \@any, 'SELECT p.w, i.id, i.v FROM pairs p LEFT JOIN items i ON i.u = p.u
		AND i.code = p.code' ],
	id_join => [ ['rows'], 'SELECT p.w, count(*), max(i.id) FROM pairs p JOIN items i ON i.i = p.i
		GROUP BY p.w' ]);

my @settings = ('', '', 'work_mem=64kB', 'work_mem=64kB', 'enable_hashagg=off', 'enable_sort=off',
	'parallel_setup_cost=0 parallel_tuple_cost=0 min_parallel_table_scan_size=0 '
	  . 'max_parallel_workers_per_gather=2', 'gpujoin.aggregate=off', 'gpujoin.sync_blocks=0',
	'gpujoin.sync_blocks=100000', 'enable_bitmapscan=off', 'cursor_tuple_fraction=1');

# A query with random constants
sub query
{
	my $text = $queries{ $_[0] }->[1];

	$text =~ s/\{(\d+)\}/set_of($1)/ge;
	$text =~ s/\{(\w+):(\d+)\}/list_of($1, $2)/ge;
	$text =~ s/\{w\}/upto(10)/ge;
	return $text =~ s/\n\s+/ /gr;
}

# Some queries in one snapshot
sub compare
{
	my $level = rand() < 0.9 ? 'REPEATABLE READ' : 'SERIALIZABLE';
	my $mode = rand() < 0.5 ? ' READ ONLY' : '';
	my $standby = $_[0];
	my $script = 'BEGIN ISOLATION LEVEL '
	  . ($standby ? 'REPEATABLE READ READ ONLY' : $level . $mode) . ";\n";

	foreach (0 .. upto(3))
	{
		my $name = pick(keys %queries);
		$script .= sprintf("SELECT soak_compare('%s', '%s', \$\$%s\$\$, '%s');\n", $name,
			pick(@{ $queries{$name}->[0] }), query($name), pick(@settings));
	}
	$script .= "SELECT soak_balance();\n" if rand() < 0.3;
	return "${script}COMMIT;";
}

# ---- changes ------------------------------------------------------------------------------------

my %writes = (
	insert => sub { sprintf("INSERT INTO big (k, v, b, pad) VALUES (%d, %d, %d, repeat('y', %d));",
			key(), upto(100), upto(100000), upto(60)) },
	batch => sub { sprintf('INSERT INTO big (k, v, b) SELECT (%d + i * 13) %% %d, i %% 100,
			i * 37 %% 100000 FROM generate_series(1, %d) i;', key(), $keys, 20 + upto(400)) },
	rekey => sub { sprintf('UPDATE big SET k = %d WHERE id = %d;', key(), id()) },
	nothing => sub { sprintf('UPDATE big SET k = NULLIF(k, %d) WHERE id = %d;', key(), id()) },
	hot => sub { sprintf('UPDATE big SET pad = repeat(\'h\', %d) WHERE id IN (%d, %d);', upto(60),
			id(), id()) },
	included => sub { sprintf('UPDATE big SET v = (v + 1) %% 100, b = b + 1 WHERE id = %d;',
			id()) },
	forced => sub { sprintf("BEGIN; SET LOCAL gpujoin.force = on;
		UPDATE big SET v = (v + 7) %% 100 WHERE k = ANY (ARRAY[%s]) AND id %% 9 = %d; COMMIT;",
		set_of(5), upto(9)) },
	delete => sub { sprintf('DELETE FROM big WHERE id IN (%d, %d, %d);', id(), id(), id()) },
	forced_delete => sub { sprintf("BEGIN; SET LOCAL gpujoin.force = on;
		DELETE FROM big WHERE k = ANY (ARRAY[%s]) AND v = %d; COMMIT;", set_of(20), upto(100)) },
	undone => sub { sprintf("BEGIN; INSERT INTO big (k, v, b) SELECT %d + i %% 5, i, i
		FROM generate_series(1, 100) i; SAVEPOINT s; UPDATE big SET k = %d WHERE id = %d;
		ROLLBACK TO s; ROLLBACK;", key(), key(), id()) },
	partly => sub { sprintf("BEGIN; SAVEPOINT s; INSERT INTO big (k, v, b) VALUES (%d, 1, 1);
		DELETE FROM big WHERE id = %d; ROLLBACK TO s; SAVEPOINT t;
		INSERT INTO big (k, v, b) VALUES (%d, 2, 2); RELEASE t; %s;", key(), id(), key(),
		pick('COMMIT', 'COMMIT', 'ROLLBACK')) },
	lock => sub { sprintf("BEGIN; SET LOCAL gpujoin.force = on;
		SELECT count(*) FROM (SELECT id FROM big WHERE k = ANY (ARRAY[%s]) AND id %% 5 = 0
		FOR UPDATE SKIP LOCKED) l; COMMIT;", set_of(10)) },
	small => sub { sprintf('UPDATE small SET k = %d WHERE ctid = (SELECT ctid FROM small
		OFFSET %d LIMIT 1);', key(), upto(300)) },
	parts => sub { sprintf('INSERT INTO parts (k, v, b) SELECT (%d + i * 101) %% %d, i %% 100, i
		FROM generate_series(1, %d) i;', key(), $keys, 10 + upto(100)) },
	moved => sub { sprintf('UPDATE parts SET k = %d WHERE id = %d;', key(), 1 + upto($rows / 4)) },
	parts_swept => sub { sprintf('DELETE FROM parts WHERE id < (SELECT max(id) FROM parts) - %d;',
			$rows / 4) },
	merged => sub { sprintf("MERGE INTO side t USING (SELECT k %% 500 AS k, min(w) AS w
		FROM small WHERE w = %d GROUP BY 1) s ON t.k = s.k
		WHEN MATCHED AND t.id %% 50 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.w;",
		upto(10)) },
	side => sub { sprintf('INSERT INTO side (k, v) SELECT i, %d FROM generate_series(1, 30) i;',
			upto(100)) },
	# Delete all but the last $rows rows, so that the table's size is stable.
	swept => sub { sprintf('DELETE FROM big WHERE id IN (SELECT id FROM big WHERE id < (SELECT
		max(id) FROM big) - %d ORDER BY id LIMIT 1500 FOR UPDATE SKIP LOCKED);', $rows) },
	items => sub { sprintf('SELECT soak_items(%d, %d, %d);', upto($keys * 10), 1 + upto(60),
			$keys) },
	item_moved => sub {
		my $n = key();
		sprintf("UPDATE items SET n = %d, u = '%s', t = 'item %d', i = '%s' WHERE id = %d;", $n,
			uuid_of($n), $n, id_of($n), item()) },
	item_values => sub { sprintf("UPDATE items SET %s WHERE id IN (%d, %d);",
			pick('code = ' . value('k'), 'c = ' . value('c'), 'owner = NULL',
				'price = price + 0.01', "price = 'NaN'", 'v = v + 1'), item(), item()) },
	item_hot => sub { sprintf("UPDATE items SET pad = repeat('h', %d) WHERE id = %d;", upto(60),
			item()) },
	item_forced => sub { sprintf("BEGIN; SET LOCAL gpujoin.force = on;
		UPDATE items SET v = v + 1 WHERE (n, code) IN (%s);
		DELETE FROM items WHERE u IN (%s) AND v %% 7 = %d; COMMIT;", list_of('nk', 40),
		list_of('u', 10), upto(7)) },
	item_lock => sub { sprintf("BEGIN; SET LOCAL gpujoin.force = on; SELECT count(*) FROM (SELECT id
		FROM items WHERE (i, owner) IN (%s) FOR UPDATE SKIP LOCKED) l; COMMIT;",
			list_of('io', 40)) },
	items_swept => sub { sprintf('DELETE FROM items WHERE id IN (SELECT id FROM items WHERE id <
		(SELECT max(id) FROM items) - %d ORDER BY id LIMIT 600 FOR UPDATE SKIP LOCKED);',
			$keys * 10) },
	pair => sub { sprintf('UPDATE pairs SET (n, u, i, c, code, owner) =
		(SELECT n, u, i, c, code, owner FROM items WHERE id = %d)
		WHERE ctid = (SELECT ctid FROM pairs OFFSET %d LIMIT 1);', item(), upto(300)) },
	transfer => sub {
		my $k = upto(500);
		sprintf("BEGIN; SET LOCAL gpujoin.force = %s;
			UPDATE accounts SET balance = balance + CASE k WHEN %d THEN 1 ELSE -1 END
			WHERE k = ANY (ARRAY[%d, %d]); %s;", pick('on', 'on', 'off'), $k, $k,
			($k + 1 + upto(5)) % 500, pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK'))
	});
my @writes = (sort(keys %writes), qw(insert insert batch batch rekey rekey hot hot included delete
	transfer transfer transfer swept swept moved items items item_moved item_moved));

# ---- upkeep -------------------------------------------------------------------------------------

my @indexes = qw(big_k big_only big_b big_partial big_expression side_k accounts_k
  items_u items_t items_i items_n
  parts0_k_v_b_id_idx parts1_k_v_b_id_idx parts2_k_v_b_id_idx parts3_k_v_b_id_idx);
my $side = "INSERT INTO side (k, v) SELECT i % 500, i FROM generate_series(1, 5000) i";

# Left over from a command that was canceled
my $invalid = "SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', indexrelid::regclass)
	FROM pg_index WHERE NOT indisvalid AND indrelid NOT IN (SELECT oid FROM pg_class
	WHERE relkind = 'p') \\gexec\n";

my @ddl = (
	sub { 'REINDEX INDEX CONCURRENTLY ' . pick(@indexes) . ';' },
	sub { 'DROP INDEX CONCURRENTLY IF EXISTS big_more; CREATE INDEX CONCURRENTLY big_more ON big '
		  . 'USING gpujoin (k) ' . pick('', 'INCLUDE (v)', 'WHERE v > 50', 'WITH (lanes = 4)')
		  . ';' },
	sub { 'DROP INDEX CONCURRENTLY IF EXISTS big_more;' },
	sub { 'ALTER TABLE ' . pick('big', 'side', 'parts') . ' ADD COLUMN IF NOT EXISTS more int'
		  . pick('', ' DEFAULT 7') . ';' },
	sub { 'ALTER TABLE ' . pick('big', 'side', 'parts') . ' DROP COLUMN IF EXISTS more;' },
	sub { "BEGIN; TRUNCATE side; $side; " . pick('COMMIT;', 'ROLLBACK;') },
	sub { "BEGIN; CREATE INDEX side_more ON side USING gpujoin (v); TRUNCATE side; $side; "
		  . 'SELECT count(*) FROM side WHERE v IN (1, 2); ROLLBACK;' },
	sub { 'VACUUM FULL ' . pick('side', 'accounts') . ';' },
	sub { 'REINDEX TABLE ' . pick('side', 'accounts', 'parts') . ';' },
	sub { pick('ALTER INDEX big_only SET (preload);', 'ALTER INDEX big_only RESET (preload);') },
	sub { "CREATE TABLE brief AS SELECT i AS k FROM generate_series(1, 60000) i; "
		  . 'CREATE INDEX ON brief USING gpujoin (k); SELECT count(*) FROM brief '
		  . 'WHERE k IN (1, 2, 3); DROP TABLE brief;' },
	# In one transaction, because ATTACH alone would be visible to sessions that had queried
	# without the partition.
	sub { 'BEGIN; ALTER TABLE parts DETACH PARTITION parts3; ALTER TABLE parts ATTACH PARTITION '
		  . 'parts3 FOR VALUES FROM (' . int($keys * 3 / 4) . ') TO (MAXVALUE); COMMIT;' });

sub ddl { return 'DROP TABLE IF EXISTS brief;' . $invalid . pick(@ddl)->(); }

sub vacuum
{
	return 'VACUUM (SKIP_LOCKED) small, pairs;' . sprintf('VACUUM (%s) %s;',
		pick('SKIP_LOCKED', 'INDEX_CLEANUP ON', 'INDEX_CLEANUP ON', 'ANALYZE', 'FREEZE',
			'INDEX_CLEANUP OFF', 'DISABLE_PAGE_SKIPPING', 'PARALLEL 2, INDEX_CLEANUP ON'),
		pick('big', 'big', 'items', 'parts', 'side', 'accounts')) . pick('', '', '', 'CHECKPOINT;');
}

# A fold holds its snapshot while it waits for a lock of the table, and CREATE INDEX CONCURRENTLY
# waits for that snapshot.
sub fold
{
	my $index = pick(@indexes);
	my @kinds = (
		sprintf("SELECT gpujoin_fold('%s', %s);", $index, pick('true', 'false', 'false')),
		sprintf("SELECT gpujoin_check('%s', %s);", $index, pick('true', 'false')));

	push @kinds, "SELECT gpujoin_load('$index');", "SELECT gpujoin_unload('$index');"
	  if $has_device;
	return "SET lock_timeout = '300ms';" . pick(@kinds) . 'RESET lock_timeout;';
}

# ---- by role ------------------------------------------------------------------------------------

sub generic { return "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT soak_generic(ARRAY["
	  . set_of(60) . "]);\nCOMMIT;"; }

sub write
{
	my $name = pick(@writes);
	return $writes{$name}->();
}

# Name and text of the next script of a role. Some have a rather short time limit.
sub script
{
	my $role = shift;
	my %one_of = (ddl => ['ddl'], vacuum => ['vacuum'], fold => ['fold'],
		standby => ['standby'], generic => [ 'generic', 'write' ],
		mixed => [ 'compare', 'write', 'write' ]);
	my %make = (ddl => \&ddl, vacuum => \&vacuum, fold => \&fold, generic => \&generic,
		write => \&write, compare => sub { compare(0) }, standby => sub { compare(1) });
	my $kind = pick(@{ $one_of{$role} });
	my $text = $make{$kind}->();

	if (rand() < 0.05)
	{
		my $limit = pick('statement_timeout', 'lock_timeout');
		$text = sprintf("SET %s = '%dms';\n%s\nRESET %s;", $limit, 1 + upto(300), $text, $limit);
	}
	return ($kind, $text);
}

1;
