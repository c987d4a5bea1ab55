#!/usr/bin/env perl
# test/bench/one.pl ORDERS ROUNDS PIDFILE: the statements of an application with three sets of
# indexes, in the database that psql connects to.  Prints a report in markdown.
#
# Three schemas have the same tables with the same rows, primary keys and foreign keys.  They differ
# in the indexes of columns that are looked up and not unique: a btree, both, or gpujoin alone.
# Indexes of both kinds have the same columns.  Each schema has a session of its own, which prepares
# all statements.  In each round the sessions execute each statement in turn, a batch each, with the
# same values, which differ from round to round.
#
# Time is that of a processor.  Reads: of the session's server process.  Writes: of all processes of
# the server, so that the workers that sort new entries count, and of a session's VACUUM.
use strict;
use warnings;
use IPC::Open2;
use List::Util qw(sum max);

my ($orders, $rounds, $pid_file) = @ARGV;
die "usage: one.pl ORDERS ROUNDS PIDFILE\n" unless defined $pid_file;

my $customers = max(1, int($orders / 20));
my $products = max(1, int($orders / 100));
my @schemas = ('btree', 'both', 'gpujoin');

# Columns that are looked up: table, key, INCLUDE
my @looked_up = (
	[ 'orders', 'customer_id', 'INCLUDE (status, amount)' ],
	[ 'orders', 'day', 'INCLUDE (status, amount)' ],
	[ 'items', 'order_id', '' ],
	[ 'items', 'product_id', 'INCLUDE (quantity)' ]);

# Reads: name, how often the mix has it for each time that it has the rarest, statements of a batch,
# types of the parameters, the statement, its values for a number
my @reads = (
	[ 'items of an order', 1000, 400, 'int', 'SELECT * FROM items WHERE order_id = $1',
		sub { key($_[0], $orders) } ],
	[ 'orders of a customer', 1000, 400, 'int', 'SELECT * FROM orders WHERE customer_id = $1',
		sub { key($_[0], $customers) } ],
	[ 'their number', 500, 400, 'int', 'SELECT count(*) FROM orders WHERE customer_id = $1',
		sub { key($_[0], $customers) } ],
	[ 'has the customer any?', 500, 400, 'int',
		'SELECT EXISTS (SELECT FROM orders WHERE customer_id = $1)',
		sub { key($_[0], $customers) } ],
	[ 'orders of 5 customers', 200, 200, 'int[]',
		'SELECT * FROM orders WHERE customer_id = ANY ($1)',
		sub { list($_[0], 5, $customers) } ],
	[ 'of 50', 50, 40, 'int[]', 'SELECT * FROM orders WHERE customer_id = ANY ($1)',
		sub { list($_[0], 50, $customers) } ],
	[ 'of 1,000', 5, 4, 'int[]', 'SELECT * FROM orders WHERE customer_id = ANY ($1)',
		sub { list($_[0], 1000, $customers) } ],
	[ 'items of 50 orders, by order', 100, 100, 'int[]',
		'SELECT order_id, count(*), sum(quantity) FROM items WHERE order_id = ANY ($1) '
		  . 'GROUP BY order_id',
		sub { list($_[0], 50, $orders) } ],
	[ 'newest 3 orders of 50 customers, LATERAL', 50, 20, 'int[]',
		'SELECT c.id, o.* FROM customers c, LATERAL (SELECT * FROM orders WHERE customer_id = c.id '
		  . 'ORDER BY day DESC, id LIMIT 3) o WHERE c.id = ANY ($1)',
		sub { list($_[0], 50, $customers) } ],
	[ 'customers with a JSON list of orders', 50, 20, 'int[]',
		'SELECT c.id, (SELECT json_agg(o.amount ORDER BY o.id) FROM orders o '
		  . 'WHERE o.customer_id = c.id) FROM customers c WHERE c.id = ANY ($1)',
		sub { list($_[0], 50, $customers) } ],
	[ 'a page of orders by customer', 50, 100, 'int',
		'SELECT * FROM orders WHERE customer_id > $1 ORDER BY customer_id, id LIMIT 50',
		sub { key($_[0], $customers) } ],
	[ 'the last day', 20, 100, '', 'SELECT max(day) FROM orders', sub { '' } ],
	[ 'sales of a product', 50, 40, 'int',
		'SELECT sum(quantity) FROM items WHERE product_id = $1', sub { key($_[0], $products) } ],
	[ 'orders of a region', 5, 4, 'int',
		'SELECT count(*), sum(amount) FROM orders JOIN customers c ON c.id = customer_id '
		  . 'WHERE region = $1',
		sub { key($_[0], 50) } ],
	[ 'a month, by day', 10, 4, 'date',
		'SELECT day, count(*), sum(amount) FROM orders WHERE day BETWEEN $1 AND $1 + 29 '
		  . 'GROUP BY day',
		sub { day($_[0], 900) } ],
	[ 'a quarter of all days', 2, 1, 'date',
		'SELECT count(*), sum(amount) FROM orders WHERE day >= $1 AND day < $1 + 250',
		sub { day($_[0], 700) } ],
	[ 'all orders, by status', 1, 1, '',
		'SELECT status, count(*), sum(amount) FROM orders GROUP BY status', sub { '' } ],
	[ 'customers with orders', 1, 1, '', 'SELECT count(DISTINCT customer_id) FROM orders',
		sub { '' } ]);

# Writes: as above, but not compared.  A number is used only once.
my @writes = (
	[ 'an order and its 2 items', 400, 200, 'int, int',
		[ "INSERT INTO orders SELECT \$1, id, 1, date '2023-01-01' + \$1 % 1000, 10 "
			  . 'FROM customers WHERE id = $2',
			"INSERT INTO items SELECT \$1 * 2 + i, id, 1 + (\$1 + i) % $products, i, 9 "
			  . 'FROM orders, generate_series(0, 1) i WHERE id = $1' ],
		sub { (2 * $orders + $_[0]) . ', ' . key($_[0], $customers) } ],
	[ 'the status of an order', 200, 200, 'int', 'UPDATE orders SET status = 5 WHERE id = $1',
		sub { key($_[0], $orders) } ],
	[ 'the product of the items of an order', 50, 100, 'int',
		'UPDATE items SET product_id = 1 + product_id % 7 WHERE order_id = $1',
		sub { key($_[0], $orders) } ],
	[ 'a customer is deleted, with orders and items', 10, 10, 'int',
		'DELETE FROM customers WHERE id = $1', sub { 1 + ($_[0] * 7) % $customers } ],
	[ 'the items of 50 orders are deleted', 5, 4, 'int[]',
		'DELETE FROM items WHERE order_id = ANY ($1)', sub { list($_[0], 50, $orders) } ],
	[ '20,000 items are loaded', 1, 1, 'int',
		"INSERT INTO items SELECT 8 * $orders + 20000 * \$1 + i, id, 1 + i % $products, 1, 1 "
		  . 'FROM generate_series(1, 20000) i JOIN orders ON id = 1 + abs(hashint4(i + $1)) % '
		  . $orders,
		sub { $_[0] } ],
	[ '`VACUUM` of both tables', 1, 1, '', undef, sub { '' } ]);

sub mixed { return ($_[0] * 7919 + 104729 * ($_[0] % 13)) & 0x7fffffff; }
sub key { return 1 + mixed($_[0]) % $_[1]; }
sub day { return "date '2023-01-01' + " . mixed($_[0]) % $_[1]; }

sub list
{
	my ($number, $length, $most) = @_;
	return "'{" . join(',', map { key($number * 1009 + $_ * 31, $most) } 1 .. $length) . "}'";
}

# ---------------------------------------------------------------------------------------------
# Sessions
# ---------------------------------------------------------------------------------------------

my %session;

sub open_session
{
	my ($schema) = @_;
	my $pid = open2(my $out, my $in, 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1');
	$session{$schema} = { in => $in, out => $out, psql => $pid };
	ask($schema, "SET search_path = one_$schema, public; SET max_parallel_workers_per_gather = 0;");
	ask($schema, 'SET gpujoin.enabled = off;') if $schema eq 'btree';
	($session{$schema}{backend}) = ask($schema, 'SELECT pg_backend_pid();');
	return;
}

# Execute SQL; the lines that it returns.
sub ask
{
	my ($schema, $sql) = @_;
	my ($in, $out) = $session{$schema}->@{ 'in', 'out' };
	print $in $sql, "\n\\echo \@done\n";
	$in->flush;
	my @lines;
	while (defined(my $line = <$out>))
	{
		chomp $line;
		return @lines if $line eq '@done';
		push @lines, $line;
	}
	die "a statement of schema $schema failed\n";
}

sub contents
{
	my ($file) = @_;
	open(my $in, '<', $file) or return '';
	local $/ = undef;
	my $text = <$in> // '';
	close $in;
	return $text;
}

# Processor time in ms: of a process, by the scheduler; of the server, with its ended processes.
sub time_of { return (split ' ', contents("/proc/$_[0]/schedstat"))[0] / 1e6; }

sub time_of_server
{
	my ($postmaster) = contents($pid_file) =~ /^(\d+)/ or die "no postmaster in $pid_file\n";
	my @ended = split ' ', contents("/proc/$postmaster/stat") =~ s/^.*\) //r;
	my @children = split ' ', contents("/proc/$postmaster/task/$postmaster/children");
	return 10 * ($ended[13] + $ended[14]) + sum(0, map { time_of($_) || 0 } @children);
}

# ---------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------

my %build;

sub make_tables
{
	my ($schema) = @_;
	ask($schema, <<"SQL");
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS one_$schema CASCADE;
CREATE SCHEMA one_$schema;
CREATE TABLE customers (id int PRIMARY KEY, region int NOT NULL, name text);
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, status smallint NOT NULL,
	day date NOT NULL, amount numeric(12,2) NOT NULL);
CREATE TABLE items (id int PRIMARY KEY, order_id int NOT NULL, product_id int NOT NULL,
	quantity int NOT NULL, price int NOT NULL);
INSERT INTO customers SELECT i, 1 + i % 50, 'customer ' || i FROM generate_series(1, $customers) i;
INSERT INTO orders SELECT i, 1 + abs(hashint4(i)) % $customers, i % 5,
	date '2023-01-01' + (i::int8 * 1000 / $orders)::int, i % 1000 + 0.5
	FROM generate_series(1, $orders) i;
INSERT INTO items SELECT i, 1 + abs(hashint4(i + 5)) % $orders,
	1 + abs(hashint4(i + 9)) % $products, i % 9, i % 100 FROM generate_series(1, 2 * $orders) i;
SQL
	my %access = (btree => ['btree'], both => [ 'btree', 'gpujoin' ], gpujoin => ['gpujoin']);
	my $since = time_of_server();
	foreach my $method ($access{$schema}->@*)
	{
		ask($schema, "CREATE INDEX ON $_->[0] USING $method ($_->[1]) $_->[2];") for @looked_up;
	}
	$build{$schema} = time_of_server() - $since;
	ask($schema, <<'SQL');
ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES customers ON DELETE CASCADE;
ALTER TABLE items ADD FOREIGN KEY (order_id) REFERENCES orders ON DELETE CASCADE;
VACUUM ANALYZE customers, orders, items;
SQL
	return;
}

sub prepare
{
	my ($schema) = @_;
	my $number = 0;
	foreach my $case (@reads, @writes)
	{
		my ($types, $sql) = @$case[ 3, 4 ];
		next unless defined $sql;
		my $part = 0;
		$types = "($types)" if $types ne '';
		ask($schema, "PREPARE s${number}_" . $part++ . "$types AS $_;")
		  foreach ref $sql ? @$sql : ($sql);
		$case->[6] = [ map { "s${number}_$_" } 0 .. $part - 1 ];
		$number++;
	}
	return;
}

# The text that executes a batch, of NUMBER and following ones
sub batch
{
	my ($case, $number) = @_;
	return 'VACUUM orders, items;' unless defined $case->[4];
	my $text = '';
	foreach my $i ($number .. $number + $case->[2] - 1)
	{
		my $values = $case->[5]->($i);
		$values = "($values)" if $values ne '';
		my @execute = map { "EXECUTE $_$values;" } $case->[6]->@*;
		$text .= (@execute == 1 ? $execute[0] : "BEGIN; @execute COMMIT;") . "\n";
	}
	return $text;
}

# ---------------------------------------------------------------------------------------------
# Rounds
# ---------------------------------------------------------------------------------------------

my (%ms, %wal, $different);

sub read_round
{
	my ($round) = @_;
	foreach my $case (@reads)
	{
		my $text = batch($case, $round * 1000);
		my %answer;
		foreach my $i (0 .. $#schemas)
		{
			my $schema = $schemas[ ($i + $round) % @schemas ];
			my $since = time_of($session{$schema}{backend});
			my @lines = ask($schema, $text);
			push $ms{ $case->[0] }{$schema}->@*,
			  (time_of($session{$schema}{backend}) - $since) / $case->[2]
			  if $round > 0;
			$answer{$schema} = join("\n", sort @lines);
		}
		$different .= "$case->[0]; " if grep { $_ ne $answer{btree} } values %answer;
	}
	return;
}

sub write_round
{
	my ($round) = @_;
	foreach my $case (@writes)
	{
		my $text = batch($case, $round * 1000);
		foreach my $i (0 .. $#schemas)
		{
			my $schema = $schemas[ ($i + $round) % @schemas ];
			my ($from) = ask($schema, 'SELECT pg_current_wal_insert_lsn();');
			my $since = time_of_server();
			ask($schema, $text);
			push $ms{ $case->[0] }{$schema}->@*, (time_of_server() - $since) / $case->[2]
			  if $round > 0;
			$wal{$schema} += (ask($schema, "SELECT pg_current_wal_insert_lsn() - '$from';"))[0]
			  if $round > 0;
		}
	}
	return;
}

sub median { my @v = sort { $a <=> $b } @_; return $v[ int(@v / 2) ]; }

sub show
{
	my ($title, @cases) = @_;
	my %total;
	print "\n| $title | in the mix | btree, µs | both, µs | gpujoin, µs | both / btree "
	  . "| gpujoin / btree |\n|---|--:|--:|--:|--:|--:|--:|\n";
	foreach my $case (@cases)
	{
		my %us = map { $_ => 1000 * median($ms{ $case->[0] }{$_}->@*) } @schemas;
		printf "| %s | %d | %.0f | %.0f | %.0f | %.2f | %.2f |\n", @$case[ 0, 1 ], @us{@schemas},
		  $us{both} / $us{btree}, $us{gpujoin} / $us{btree};
		$total{$_} += $case->[1] * $us{$_} foreach @schemas;
	}
	printf "| **the mix** | | %.0f | %.0f | %.0f | **%.2f** | **%.2f** |\n", @total{@schemas},
	  $total{both} / $total{btree}, $total{gpujoin} / $total{btree};
	return;
}

sub load { return (split ' ', contents('/proc/loadavg'))[0]; }

open_session($_) foreach @schemas;
ask('btree', 'CREATE EXTENSION IF NOT EXISTS gpujoin;');
make_tables($_) foreach @schemas;
prepare($_) foreach @schemas;
ask('btree', 'CHECKPOINT;');

my $load = load();
read_round($_) foreach 0 .. $rounds;
my %size = map {
	$_ => (ask($_, "SELECT sum(pg_relation_size(indexrelid)) FROM pg_index WHERE NOT indisunique "
		  . "AND indrelid IN ('orders'::regclass, 'items'::regclass);"))[0] } @schemas;
write_round($_) foreach 0 .. $rounds;

my ($version) = ask('btree', 'SHOW server_version;');
print "# One index in place of a btree\n\nPostgreSQL $version, $orders orders, " . 2 * $orders
  . " items, $customers customers, CPU only; processor time for each statement, medians of $rounds "
  . "rounds. Load of the machine before and after: $load, " . load() . ".\n"
  . ($different ? "\n**Answers differ**: $different\n" : "All answers were equal.\n");
show('Reads', @reads);
show('Writes', @writes);
print "\n| | btree | both | gpujoin | gpujoin / btree |\n|---|--:|--:|--:|--:|\n";
foreach my $row ([ 'size of the four indexes, MB', \%size, 1 << 20 ],
	[ 'their build, s', \%build, 1000 ], [ 'WAL of the writes, MB', \%wal, 1 << 20 ])
{
	my ($name, $figure, $unit) = @$row;
	printf "| %s | %.0f | %.0f | %.0f | %.2f |\n", $name, map({ $_ / $unit } @$figure{@schemas}),
	  $figure->{gpujoin} / $figure->{btree};
}
