#!/usr/bin/env perl
# test/bench/client_forms.pl [ROUNDS]: forms that clients send, beside the best hand-written form of
# the same question, PostgreSQL's own plan (gpujoin.enabled = off), and the part of the statement
# that is no look-up, which every plan must do (the floor): reading the list, or writing the rows.
#
# Makes its tables in the database that psql connects to (PGHOST, PGPORT, PGDATABASE), in a schema
# of its own.  Each form is a prepared statement with a custom plan.  The four take turns, ROUNDS
# times (9) after one that is not counted, each beginning a round as often as another.  The report
# has the medians of the backend's processor time for planning and execution (log_executor_stats),
# which other work on the machine hardly changes.  The answers are compared first, and must not be
# empty.
use strict;
use warnings;

my $rounds = shift // 9;

# Name, arguments' types, the client's form, the best form, the arguments, the floor
my @forms = (
	[ 'PostGraphile, 1,000 uuids', 'json',
		grafast('SELECT * FROM ids'), grafast('SELECT * FROM ids OFFSET 0'),
		uuids(1000, 'json_build_array'), identifiers() ],
	[ 'PostGraphile, 40,000 uuids', 'json',
		grafast('SELECT * FROM ids'), grafast('SELECT * FROM ids OFFSET 0'),
		uuids(40000, 'json_build_array'), identifiers() ],
	[ '`uid IN (SELECT value::uuid ...)`, 1,000', 'jsonb',
		from_list('uid IN (SELECT value::uuid FROM jsonb_array_elements_text($1))'),
		from_list('uid = ANY (ARRAY(SELECT value::uuid FROM jsonb_array_elements_text($1)))'),
		uuids(1000, ''), 'SELECT value::uuid FROM jsonb_array_elements_text($1)' ],
	[ "Prisma `_count`, by the parents' ids", 'int[]', counts('c.id = ANY ($1)'),
		counts('c.id = ANY ($1)', 'customer_id = ANY ($1)'), ids('20 * i + 7', 1000, 'int[]') ],
	[ 'Prisma `_count`, 1,000 parents of a region', 'int', counts('c.region = $1'),
		counts('c.region = $1',
			'customer_id IN (SELECT id FROM forms.customers WHERE region = $1)'), '7' ],
	[ 'Prisma `count()`, 1,000 parents', 'int[], int8',
		'SELECT count(*) FROM (SELECT id FROM forms.orders WHERE customer_id = ANY ($1) '
		  . 'OFFSET $2) s',
		'SELECT count(*) FROM forms.orders WHERE customer_id = ANY ($1) AND $2 = 0',
		ids('20 * i + 7', 1000, 'int[]') . ', 0' ],
	[ '`id::text = ANY (SELECT ...)`, 1,000', 'jsonb',
		from_list('id::text = ANY (SELECT jsonb_array_elements_text($1))'),
		from_list('id::text = ANY (ARRAY(SELECT jsonb_array_elements_text($1)))'),
		ids('i * 991', 1000, 'jsonb') ],
	[ '`id IN (SELECT value::float8 ...)`, 1,000', 'jsonb',
		from_list('id IN (SELECT value::float8 FROM jsonb_array_elements_text($1))'),
		from_list(
			'id = ANY (ARRAY(SELECT value::float8 FROM jsonb_array_elements_text($1)))'),
		ids('i * 991', 1000, 'jsonb') ],
	[ 'pg-boss 10, SELECT of its condition, 1,000 jobs', 'text, uuid[]',
		jobs_where('id IN (SELECT unnest($2))'), jobs_where('id = ANY ($2)'),
		"'b', " . jobs() ],
	[ 'pg-boss 10, UPDATE, 1,000 jobs', 'text, uuid[]',
		update('id IN (SELECT unnest($2))'), update('id = ANY ($2)'), "'b', " . jobs(),
		update('ctid = ANY (ARRAY(SELECT place FROM forms.places)) AND $2 IS NOT NULL') ]);

# Statements that are executed before each one of a form
my %before = ('pg-boss 10, UPDATE, 1,000 jobs' => "VACUUM forms.job_b;\n");

sub grafast
{
	return 'WITH ids AS NOT MATERIALIZED (' . identifiers() . ") SELECT r.*, i.idx FROM ($_[0]) i, "
	  . 'LATERAL (SELECT o.id, o.amount FROM forms.orders o WHERE o.uid = i.id0) r';
}

sub identifiers
{
	return 'SELECT ids.ordinality - 1 AS idx, (ids.value->>0)::uuid AS id0 '
	  . 'FROM json_array_elements($1) WITH ORDINALITY AS ids';
}

sub from_list { return "SELECT count(pad), sum(amount) FROM forms.orders WHERE $_[0]"; }

sub counts
{
	my ($parents, $inside) = (@_, '1 = 1');
	return 'SELECT c.id, c.region, coalesce(a.n, 0) AS n FROM forms.customers c LEFT JOIN (SELECT '
	  . "customer_id, count(*) AS n FROM forms.orders WHERE $inside GROUP BY customer_id) a "
	  . "ON a.customer_id = c.id WHERE $parents";
}

sub jobs_where
{
	return "SELECT count(*) FROM forms.job WHERE name = \$1 AND $_[0] AND state = 'active'";
}

sub update
{
	return "UPDATE forms.job SET state = 'completed', output = '{}' WHERE name = \$1 AND $_[0] "
	  . "AND state = 'active' RETURNING id";
}

sub uuids
{
	my ($n, $function) = @_;
	return "(SELECT json_agg($function(md5((i * 23)::text))) FROM generate_series(1, $n) i)";
}

sub ids
{
	my ($expr, $n, $type) = @_;
	my $list = $type eq 'jsonb' ? "jsonb_agg(($expr)::text)" : "array_agg($expr)";
	return "(SELECT $list FROM generate_series(1, $n) i)";
}

sub jobs
{
	return '(SELECT array_agg(md5((i * 3 + 1)::text)::uuid) FROM generate_series(1, 1000) i)';
}

my $tables = <<'SQL';
DROP SCHEMA IF EXISTS forms CASCADE;
CREATE SCHEMA forms;
CREATE TABLE forms.customers AS SELECT i AS id, i % 20 AS region FROM generate_series(1, 20000) i;
ALTER TABLE forms.customers ADD PRIMARY KEY (id);
CREATE TABLE forms.orders AS SELECT i AS id, 1 + abs(hashint4(i)) % 20000 AS customer_id,
	md5(i::text)::uuid AS uid, i % 1000 AS amount, repeat('x', 60) AS pad
	FROM generate_series(1, 1000000) i ORDER BY hashint4(i + 7);
CREATE INDEX ON forms.orders (id);
CREATE INDEX ON forms.orders (customer_id);
CREATE INDEX ON forms.orders (uid);
CREATE INDEX ON forms.orders USING gpujoin (id);
CREATE INDEX ON forms.orders USING gpujoin (customer_id);
CREATE INDEX ON forms.orders USING gpujoin (uid);
CREATE TABLE forms.job (name text, id uuid, state text, output text) PARTITION BY LIST (name);
CREATE TABLE forms.job_a PARTITION OF forms.job FOR VALUES IN ('a');
CREATE TABLE forms.job_b PARTITION OF forms.job FOR VALUES IN ('b');
CREATE TABLE forms.job_c PARTITION OF forms.job DEFAULT;
INSERT INTO forms.job SELECT chr(97 + i % 3), md5(i::text)::uuid, 'active'
	FROM generate_series(1, 600000) i ORDER BY hashint4(i);
CREATE INDEX ON forms.job (name, id);
CREATE INDEX ON forms.job USING gpujoin (id);
CREATE TABLE forms.places AS SELECT ctid AS place FROM forms.job
	WHERE name = 'b'
		AND id IN (SELECT md5((i * 3 + 1)::text)::uuid FROM generate_series(1, 1000) i);
VACUUM ANALYZE forms.customers, forms.orders, forms.job, forms.places;
SQL

my @names = ('client', 'best', 'stock', 'floor');
my $sql = "SET client_min_messages = warning;\n$tables"
  . "SET jit = off; SET max_parallel_workers_per_gather = 0;\n"
  . "SET plan_cache_mode = force_custom_plan;\n";
for my $i (0 .. $#forms)
{
	my (undef, $types, $client, $best, $args, $floor) = $forms[$i]->@*;
	my @all = grep { $_ ne 'floor' || $floor } @names;
	$sql .= "PREPARE client_$i($types) AS $client;\nPREPARE best_$i($types) AS $best;\n"
	  . ($floor ? "PREPARE floor_$i($types) AS $floor;\n" : '')
	  . literal($args) . join('', map { compared($_, $i) } @names[ 0 .. 2 ]);
	foreach (0 .. $rounds)
	{
		$sql .= join('', map { timed($_, $i) } @all);
		push @all, shift @all;
	}
}
run($sql);

# A subquery may not be an argument of EXECUTE, so arguments are built as literals first.
sub literal
{
	my ($args) = @_;
	return 'SELECT array_to_string(ARRAY(SELECT quote_literal(v) FROM (VALUES '
	  . join(', ', map { "(($_)::text)" } split_args($args)) . ") a (v)), ', ') AS args \\gset\n";
}

sub split_args
{
	my ($args) = @_;
	return $args =~ /^('b'), (.*)$/ ? ($1, $2) : $args =~ /^(.*\)), (0)$/ ? ($1, $2) : ($args);
}

sub settings { return 'SET gpujoin.enabled = ' . ($_[0] eq 'stock' ? 'off' : 'on') . ";\n"; }
sub statement { my ($name, $i) = @_; return ($name eq 'stock' ? 'client' : $name) . "_$i"; }

sub compared
{
	my ($name, $i) = @_;
	my $statement = statement($name, $i);
	return settings($name) . "BEGIN;\n\\o /tmp/client_forms.$$.$name.$i\n"
	  . "EXECUTE $statement(:args);\n\\o\nROLLBACK;\n";
}

sub timed
{
	my ($name, $i) = @_;
	my $statement = statement($name, $i);
	return settings($name) . ($before{ $forms[$i][0] } // '')
	  . "BEGIN;\n\\echo form $i $name\n\\warn form $i $name\n"
	  . "SET LOCAL client_min_messages = log; SET LOCAL log_executor_stats = on;\n"
	  . "EXPLAIN (ANALYZE, TIMING OFF) EXECUTE $statement(:args);\nROLLBACK;\n";
}

# Nodes are in psql's output, the statistics among its messages.
sub run
{
	my ($script) = @_;
	my ($file, $messages) = ("/tmp/client_forms.$$.sql", "/tmp/client_forms.$$.messages");
	open(my $out, '>', $file) or die "$file: $!\n";
	print $out $script;
	close $out;
	open(my $in, '-|', "psql -XqAt -v ON_ERROR_STOP=1 -f $file 2>$messages") or die "psql: $!\n";
	my ($i, $name, %ms, %nodes);
	while (<$in>)
	{
		($i, $name) = ($1, $2) if /^form (\d+) (\w+)/;
		$nodes{$i}{$name}{$1} = 1 if /Custom Scan \((\w+)\)/;
	}
	my $failed = !close $in;
	open($in, '<', $messages) or die "$messages: $!\n";
	while (<$in>)
	{
		($i, $name) = ($1, $2) if /^form (\d+) (\w+)/;
		push $ms{$i}{$name}->@*, ($1 + $2) * 1000
		  if /^!\s+([\d.]+) s user, ([\d.]+) s system, .* elapsed/;
		print STDERR $_ if /ERROR/;
	}
	die "psql failed\n" if $failed;
	unlink $file, $messages;
	report(\%ms, \%nodes);
}

# The least time and the median
sub summary
{
	my (undef, @times) = ($_[0] // [])->@*;
	@times = sort { $a <=> $b } @times;
	return [ @times[ 0, int(@times / 2) ] ];
}

sub report
{
	my ($ms, $nodes) = @_;
	print "| form | client's, ms | best, ms | stock, ms | floor, ms | client's / best | "
	  . "of the least | client's / stock | without the floor | nodes of the client's |\n"
	  . "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n";
	for my $i (0 .. $#forms)
	{
		my @times = map { summary($ms->{$i}{$_}) } @names;
		my ($client, $best, $stock, $floor) = map { $_->[1] } @times;
		my @answers = map { answer("/tmp/client_forms.$$.$_.$i") } @names[ 0 .. 2 ];
		printf "| %s | %.1f | %.1f | %.1f | %s | %.2f | %.2f | %.2f | %s | %s%s%s |\n",
		  $forms[$i][0], $client, $best, $stock, defined $floor ? sprintf('%.1f', $floor) : '',
		  $client / $best, $times[0][0] / $times[1][0], $client / $stock,
		  defined $floor ? sprintf('%.2f', ($client - $floor) / ($stock - $floor)) : '',
		  join(', ', sort keys $nodes->{$i}{client}->%*),
		  $answers[0] eq $answers[1] && $answers[0] eq $answers[2] ? '' : ' DIFFERENT ANSWERS',
		  $answers[0] =~ /[1-9]/ ? '' : ' EMPTY ANSWER';
	}
}

sub answer
{
	my ($file) = @_;
	open(my $in, '<', $file) or die "$file: $!\n";
	my $rows = join('', sort <$in>);
	close $in;
	unlink $file;
	return $rows;
}
