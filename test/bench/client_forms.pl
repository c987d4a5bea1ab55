#!/usr/bin/env perl
# test/bench/client_forms.pl [ROUNDS]: forms that clients send, beside the best hand-written form of
# the same question, and PostgreSQL's own plan (gpujoin.enabled = off), in one session.
#
# Makes its tables in the database that psql connects to (PGHOST, PGPORT, PGDATABASE), in a schema
# of its own.  Each form is a prepared statement with a custom plan.  The three take turns, ROUNDS
# times (9) after one that is not counted; the report has the medians of planning and execution
# time, and ratios of the medians and of the least times.  The answers are compared first.
use strict;
use warnings;

my $rounds = shift // 9;

# Name, arguments' types, the client's form, the best form, the arguments
my @forms = (
	[ 'PostGraphile, 1,000 uuids', 'json',
		grafast('uid', 'uuid', '(SELECT * FROM ids) i'),
		grafast('uid', 'uuid', '(SELECT * FROM ids OFFSET 0) i'), uuids(1000) ],
	[ 'PostGraphile, 40,000 uuids', 'json',
		grafast('uid', 'uuid', '(SELECT * FROM ids) i'),
		grafast('uid', 'uuid', '(SELECT * FROM ids OFFSET 0) i'), uuids(40000) ],
	[ '`uid IN (SELECT value::uuid ...)`, 1,000', 'jsonb',
		from_list('uid IN (SELECT value::uuid FROM jsonb_array_elements_text($1))'),
		from_list('uid = ANY (ARRAY(SELECT value::uuid FROM jsonb_array_elements_text($1)))'),
		uuids(1000) ],
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
		update('id IN (SELECT unnest($2))'), update('id = ANY ($2)'), "'b', " . jobs() ]);

sub grafast
{
	my ($column, $type, $small) = @_;
	return "WITH ids AS NOT MATERIALIZED (SELECT ids.ordinality - 1 AS idx, (ids.value->>0)::$type "
	  . "AS id0 FROM json_array_elements(\$1) WITH ORDINALITY AS ids) SELECT r.*, i.idx "
	  . "FROM $small, "
	  . "LATERAL (SELECT o.id, o.amount FROM forms.orders o WHERE o.$column = i.id0) r";
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
	  . "AND state = 'active'";
}

sub uuids { return "(SELECT json_agg(md5((i * 23)::text)) FROM generate_series(1, $_[0]) i)"; }

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
VACUUM ANALYZE forms.customers, forms.orders, forms.job;
SQL

my @names = ('client', 'best', 'stock');
my $sql = "SET client_min_messages = warning;\n$tables"
  . "SET jit = off; SET max_parallel_workers_per_gather = 0;\n"
  . "SET plan_cache_mode = force_custom_plan;\n";
for my $i (0 .. $#forms)
{
	my (undef, $types, $client, $best, $args) = $forms[$i]->@*;
	$sql .= "PREPARE client_$i($types) AS $client;\nPREPARE best_$i($types) AS $best;\n"
	  . literal($args) . join('', map { compared($_, $i) } @names);
	$sql .= join('', map { timed($_, $i) } @names) for 0 .. $rounds;
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
sub statement { my ($name, $i) = @_; return ($name eq 'best' ? 'best' : 'client') . "_$i"; }

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
	return settings($name) . "BEGIN;\n\\echo form $i $name\n"
	  . "EXPLAIN (ANALYZE, TIMING OFF) EXECUTE $statement(:args);\nROLLBACK;\n";
}

sub run
{
	my ($script) = @_;
	my $file = "/tmp/client_forms.$$.sql";
	open(my $out, '>', $file) or die "$file: $!\n";
	print $out $script;
	close $out;
	open(my $in, '-|', 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $file) or die "psql: $!\n";
	my ($i, $name, %ms, %nodes);
	while (<$in>)
	{
		($i, $name) = ($1, $2) if /^form (\d+) (\w+)/;
		push $ms{$i}{$name}->@*, $1 if /^Planning Time: ([\d.]+)/;
		$ms{$i}{$name}[-1] += $1 if /^Execution Time: ([\d.]+)/;
		$nodes{$i}{$name}{$1} = 1 if /Custom Scan \((\w+)\)/;
	}
	close $in or die "psql failed\n";
	unlink $file;
	report(\%ms, \%nodes);
}

sub report
{
	my ($ms, $nodes) = @_;
	print "| form | client's, ms | best, ms | stock, ms | client's / best | of the least | "
	  . "client's / stock | nodes of the client's |\n|---|--:|--:|--:|--:|--:|--:|---|\n";
	for my $i (0 .. $#forms)
	{
		my (%median, %least);
		foreach my $name (@names)
		{
			my (undef, @times) = $ms->{$i}{$name}->@*;
			@times = sort { $a <=> $b } @times;
			($least{$name}, $median{$name}) = @times[ 0, int(@times / 2) ];
		}
		my @answers = map { answer("/tmp/client_forms.$$.$_.$i") } @names;
		printf "| %s | %.1f | %.1f | %.1f | %.2f | %.2f | %.2f | %s%s |\n", $forms[$i][0],
		  @median{@names}, $median{client} / $median{best}, $least{client} / $least{best},
		  $median{client} / $median{stock}, join(', ', sort keys $nodes->{$i}{client}->%*),
		  $answers[0] eq $answers[1] && $answers[0] eq $answers[2] ? '' : ' DIFFERENT ANSWERS';
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
