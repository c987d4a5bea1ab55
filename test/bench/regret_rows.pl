# test/bench/regret_rows.pl: the points of the no-regret grid that have a name: queries whose plans
# were once slower than PostgreSQL's own. Their tables are made by regret_tables.sql; Regret.pm says
# what a point is. Settings are PostgreSQL's defaults, except for those that are given. Points with
# random_page_cost 1.1 have it because the documents recommend it for data in memory.
use strict;
use warnings;

my %defaults = (work_mem => '4MB', max_parallel_workers_per_gather => 2);

# Sets the variable "list" of psql.
sub list_of
{
	my ($value, $n) = @_;
	return "SELECT string_agg($value, ', ') AS list FROM generate_series(1, $n) i \\gset";
}

# Sets the variable "keys": n of the 20,000 values of facts.k.
sub keys_of
{
	my ($n) = @_;
	return "SELECT array_agg(i * 7919 % 20000) AS keys FROM generate_series(1, $n) i \\gset";
}

my @points;

sub point
{
	my ($name, $statement, %more) = @_;
	$more{settings} = { %defaults, %{ $more{settings} // {} } };
	push @points, { name => $name, statement => $statement, %more };
	return;
}

# Return the statements that open a cursor and use it.
sub cursor
{
	my ($name, $query, $end, %more) = @_;
	point($name, "DECLARE c CURSOR FOR $query", begin => 'BEGIN;', end => "$end; COMMIT;", %more);
	return;
}

# Partitions: the work must justify the cost of starting workers.
for my $n (30, 60, 100)
{
	my $users = list_of('(i * 997 % 100003)::text', $n);
	point("partitions_in_$n", 'SELECT * FROM events WHERE user_id IN (:list)', script => $users);
	point("partitions_by_day_$n",
		'SELECT occurred_at::date AS day, count(*) FROM events WHERE user_id IN (:list) GROUP BY 1',
		script => $users);
}
point('partitions_by_day_1000',
	'SELECT occurred_at::date AS day, count(*) FROM events WHERE user_id IN (:list) GROUP BY 1',
	script => list_of('(i * 97 % 100003)::text', 1000));

# Parallel plans of aggregates: by 2 and 4 workers, over one table, a join, partitions, which may be
# aggregated one by one, and a UNION ALL. Expected is one process wherever that is as quick.
for my $workers (2, 4)
{
	for my $n (100, 1000, 20000)
	{
		my %more = (settings => { max_parallel_workers_per_gather => $workers });
		my ($classes, $users) = map {
			"SELECT array_agg(i * $_) AS keys FROM generate_series(1, $n) i \\gset"
		} '37 % 1000000', '97 % 100003';
		my $tail = "${n}_by_$workers";

		point("parallel_sum_$tail",
			"SELECT count(*), sum(price) FROM products WHERE class_id = ANY (:'keys')",
			script => $classes, %more);
		point("parallel_rows_$tail",
			"SELECT count(title) FROM products WHERE class_id = ANY (:'keys')",
			script => $classes, %more);
		point("parallel_groups_$tail", "SELECT price, count(*), max(id) FROM products
			WHERE class_id = ANY (:'keys') GROUP BY price", script => $classes, %more);
		point("parallel_join_$tail", "SELECT section, count(*), sum(price) FROM classes
			JOIN products USING (class_id) WHERE class_id <= $n / 5 GROUP BY section", %more);
		point("parallel_union_$tail", "SELECT count(*), sum(v) FROM (SELECT k, v FROM facts_random
			UNION ALL SELECT k, v FROM facts_sorted) f WHERE k = ANY (:'keys')",
			script => keys_of($n), %more);
		for my $each ('on', 'off')
		{
			my %parts = (script => $users, settings => {
					max_parallel_workers_per_gather => $workers,
					enable_partitionwise_aggregate => $each });
			point("parallel_parts_${each}_$tail", "SELECT count(*), max(occurred_at) FROM events
				WHERE user_id = ANY (:'keys')", %parts);
			point("parallel_part_groups_${each}_$tail", "SELECT user_id, count(*) FROM events
				WHERE user_id = ANY (:'keys') GROUP BY user_id", %parts);
			point("parallel_part_days_${each}_$tail", "SELECT occurred_at, count(*) FROM events
				WHERE user_id = ANY (:'keys') GROUP BY occurred_at", %parts);
		}
	}
}

# All columns of a join.
for my $n (400, 4000)
{
	point("join_all_columns_$n",
		"SELECT count(x), sum(price) FROM (SELECT * FROM classes JOIN products USING (class_id)
			WHERE classes.class_id <= $n OFFSET 0) x");
	point("join_aggregate_$n",
		"SELECT section, count(*), sum(price), max(id) FROM classes JOIN products USING (class_id)
			WHERE classes.class_id <= $n GROUP BY section");
}

# Composite keys, as an IN list and as a join with VALUES. Every third pair exists, or none does.
my $pair = q{format('(%s, %s)', i::bigint * 3 * 7919 % 50021, i::bigint * 3 * 104729 % 20011)};
my $no_pair = q{format('(%s, %s)', i::bigint * 3 * 7919 % 50021, 50000 + i)};
my $few_pairs =
  q{format('(%s, %s)', i::bigint * 3 * 7919 % 50021, i::bigint * 3 * 104729 % 20011 + 1)};
for my $n (100, 300, 1000, 3000)
{
	point("pairs_in_$n", 'SELECT * FROM members WHERE (user_id, group_id) IN (:list)',
		script => list_of($pair, $n));
	point("pairs_values_$n",
		'SELECT m.* FROM members m JOIN (VALUES :list) p (u, g)
			ON m.user_id = p.u AND m.group_id = p.g',
		script => list_of($pair, $n));
}
point('pairs_without_match_100', 'SELECT * FROM members WHERE (user_id, group_id) IN (:list)',
	script => list_of($few_pairs, 100));
point('pairs_without_group_100', 'SELECT * FROM members WHERE (user_id, group_id) IN (:list)',
	script => list_of($no_pair, 100));

# A churned index: two runs, 210,000 dead entries, no delta.
for my $n (100, 300, 1000)
{
	for my $page_cost (4, 1.1)
	{
		point("churned_${n}_page_cost_$page_cost", 'SELECT * FROM items WHERE order_id IN (:list)',
			script => list_of('(i * 69 % 70001)::text', $n),
			settings => { random_page_cost => $page_cost });
		point("churned_sum_${n}_page_cost_$page_cost",
			'SELECT sum(qty) FROM items WHERE order_id IN (:list)',
			script => list_of('(i * 69 % 70001)::text', $n),
			settings => { random_page_cost => $page_cost });
	}
}

# Whole rows through a cursor, as drivers fetch them.
for my $n (100, 1000, 4000)
{
	cursor("cursor_rows_$n", "SELECT * FROM facts_random WHERE k = ANY (:'keys')",
		join('; ', ('FETCH 2000 FROM c') x 5, 'MOVE ALL c'), loose => 1, script => keys_of($n));
	cursor("cursor_in_table_$n",
		"SELECT f.* FROM keyset s JOIN facts_random f USING (k) WHERE s.place <= $n",
		'FETCH 2000 FROM c; MOVE ALL c', loose => 1);
}

# These queries read far into an order, in which half of all rows match. Some read only columns
# that the index has ("ts, v" are its INCLUDE columns), others read whole rows. With
# random_page_cost 4 the planner would read the table instead. It expects a hundred times the rows
# that the filters leave, which shows how slow a plan in order can become.
for my $memory ('64kB', '1MB', '4MB')
{
	my %more = (script => keys_of(10000), order => 1,
		settings => { work_mem => $memory, random_page_cost => 1.1 });
	for my $columns ('ts, v', '*')
	{
		my $half = "SELECT $columns FROM facts_random WHERE k = ANY (:'keys')";
		my $tail = ($columns eq '*' ? 'rows_' : '') . $memory;
		point("deep_limit_$tail",
			"SELECT count(*), sum(v) FROM ($half ORDER BY ts LIMIT 280000) x", %more);
		point("deep_offset_$tail", "$half ORDER BY ts OFFSET 120000 LIMIT 10", %more);
		cursor("deep_cursor_$tail", "$half ORDER BY ts", 'MOVE ALL c', %more);
		point("deep_filter_$tail", "$half AND id % 20000 = 7 ORDER BY ts DESC LIMIT 10", %more);
	}
}
point('deep_rare_filter', "SELECT id, ts FROM facts_random WHERE k = ANY (:'keys')
	AND id % 100000 = 7 ORDER BY ts DESC LIMIT 10", script => keys_of(10000), order => 1);

# Unsorted rows with more hits than fit into memory.
for my $memory ('64kB', '256kB', '1MB')
{
	my %more = (script => keys_of(10000), settings => { work_mem => $memory });
	my $half = "FROM facts_unsorted WHERE k = ANY (:'keys')";
	point("delta_count_$memory", "SELECT count(*) $half", %more);
	point("delta_sum_$memory", "SELECT sum(v) $half", %more);
	point("delta_rows_$memory", "SELECT count(pad) $half", %more);
	point("delta_filter_$memory", "SELECT count(pad) $half AND v < 500", %more);
	point("delta_order_$memory", "SELECT ts $half ORDER BY ts OFFSET 120000 LIMIT 10", %more,
		order => 1);
	cursor("delta_cursor_$memory", "SELECT ts $half ORDER BY ts", 'MOVE ALL c', %more, order => 1);
}

# Unique keys, groups, the first of an order, and rows that are deleted or updated.
for my $page_cost (4, 1.1)
{
	my %more = (settings => { random_page_cost => $page_cost });
	for my $n (10, 100, 1000, 10000)
	{
		my $tail = "${n}_page_cost_$page_cost";
		my $ids = "SELECT array_agg(i * 59) AS keys FROM generate_series(1, $n) i \\gset";
		point("unique_$tail", "SELECT * FROM facts_random WHERE id = ANY (:'keys')", %more,
			script => $ids);
		point("unique_count_$tail", "SELECT count(*) FROM facts_random WHERE id = ANY (:'keys')",
			%more, script => $ids);
		next if $n == 10;
		point("groups_$tail",
			"SELECT g, count(*), sum(v) FROM facts_random WHERE k = ANY (:'keys') GROUP BY g",
			%more, script => keys_of($n));
		point("top_$tail",
			"SELECT * FROM facts_random WHERE k = ANY (:'keys') ORDER BY ts DESC LIMIT 10",
			%more, script => keys_of($n), order => 1);
		next if $n == 10000;
		point("delete_$tail", "DELETE FROM facts_sorted WHERE k = ANY (:'keys')", %more,
			begin => 'BEGIN;', end => 'ROLLBACK;', script => keys_of($n));
		point("update_unique_$tail", "UPDATE facts_sorted SET w = w + 1 WHERE id = ANY (:'keys')",
			%more, begin => 'BEGIN;', end => 'ROLLBACK;', script => $ids)
		  if $n <= 100;
	}
}

sub named_points { return @points; }

1;
