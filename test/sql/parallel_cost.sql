--
-- Parallel plans: the cost of starting workers
--
-- PostgreSQL's own nodes aggregate the rows in each process
SET gpujoin.aggregate = off;
CREATE SCHEMA parallel_cost;
SET search_path = parallel_cost, public;
-- costs depend on whether an index has a mirror
SET gpujoin.auto_load = off;
SET min_parallel_table_scan_size = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 2;

CREATE TABLE big (id int, k int, v int) WITH (parallel_workers = 2);
INSERT INTO big SELECT i, (i * 7919::int8) % 20000, i % 7 FROM generate_series(1, 100000) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v);
CREATE TABLE small WITH (parallel_workers = 0) AS SELECT i * 3 AS k FROM generate_series(1, 1000) i;
CREATE TABLE parts (id int, k int, v int) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s) WITH (parallel_workers = 2)',
	i, i * 20000, (i + 1) * 20000) FROM generate_series(0, 5) i \gexec
INSERT INTO parts SELECT * FROM big;
CREATE INDEX parts_k ON parts USING gpujoin (k);
CREATE TABLE by_key (id int, k int, v int) PARTITION BY RANGE (k);
CREATE TABLE by_key_1 PARTITION OF by_key FOR VALUES FROM (0) TO (4000) WITH (parallel_workers = 2);
CREATE TABLE by_key_2 PARTITION OF by_key FOR VALUES FROM (4000) TO (20000) WITH (parallel_workers = 2);
INSERT INTO by_key SELECT * FROM big;
CREATE INDEX by_key_k ON by_key USING gpujoin (k);
CREATE TABLE small_by_key (k int) PARTITION BY RANGE (k);
CREATE TABLE small_by_key_1 PARTITION OF small_by_key FOR VALUES FROM (0) TO (4000) WITH (parallel_workers = 0);
CREATE TABLE small_by_key_2 PARTITION OF small_by_key FOR VALUES FROM (4000) TO (20000) WITH (parallel_workers = 0);
INSERT INTO small_by_key SELECT i * 15 FROM generate_series(1, 1000) i;
VACUUM ANALYZE big, small, parts, by_key, small_by_key;

-- The cost of a query, and whether it is ours and parallel
CREATE FUNCTION plan(query text, OUT cost float8, OUT node text) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	cost := plan -> 0 -> 'Plan' -> 'Total Cost';
	node := concat_ws(' below ', jsonb_path_query_first(plan,
		'strict $.** ? (@."Custom Plan Provider" starts with "Gpu")."Custom Plan Provider"') #>> '{}',
		jsonb_path_query_first(plan, 'strict $.** ? (@."Node Type" == "Gather")."Node Type"') #>> '{}');
END $$;

-- Workers are started one by one: each of them costs parallel_setup_cost, on top of PostgreSQL's
-- charge for all; six times as much for index-only answers, whose units take a sixth of the time
CREATE FUNCTION charged(query text) RETURNS TABLE (node text, charged text) LANGUAGE plpgsql AS $$
DECLARE
	without float8;
BEGIN
	SET LOCAL parallel_setup_cost = 0;
	SELECT p.cost INTO without FROM plan(query) p;
	SET LOCAL parallel_setup_cost = 1;
	RETURN QUERY SELECT p.node, round((p.cost - without)::numeric, 0)::text FROM plan(query) p;
END $$;
SELECT * FROM charged('SELECT count(*), sum(id) FROM big WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM charged('SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM charged('SELECT count(*), sum(id) FROM big JOIN small USING (k)');
SELECT * FROM charged('SELECT count(*), sum(v) FROM big JOIN small USING (k)');
SELECT * FROM charged('SELECT count(*), sum(id) FROM parts JOIN small USING (k)');
SELECT * FROM charged('SELECT count(*) FROM parts JOIN small USING (k)');
-- The same workers scan all partitions
SELECT * FROM charged('SELECT count(*), sum(id) FROM parts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM charged('SELECT count(*) FROM parts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM charged('SELECT count(*) FROM (SELECT k FROM big UNION ALL SELECT k FROM parts) b
	WHERE k = ANY (ARRAY(SELECT k FROM small))');
SET enable_partitionwise_join = on;
SELECT * FROM charged('SELECT count(*), sum(v) FROM by_key JOIN small_by_key USING (k)');
RESET enable_partitionwise_join;

-- So workers are not started for little work: two workers must save three times as much, or
-- eighteen times if no row is fetched
SET parallel_setup_cost = 40;
SELECT node FROM plan('SELECT count(*), sum(id) FROM big JOIN small USING (k)');
SET parallel_setup_cost = 15;
SELECT node FROM plan('SELECT count(*), sum(id) FROM big JOIN small USING (k)');
SELECT node FROM plan('SELECT count(*), sum(v) FROM big JOIN small USING (k)');
SET parallel_setup_cost = 3;
SELECT node FROM plan('SELECT count(*), sum(v) FROM big JOIN small USING (k)');

-- By default, workers do not scan twelve partitions just because of the pages to be read, which are
-- charged as if none were cached
CREATE TABLE months (k int, v int, month int, note text) PARTITION BY LIST (month);
SELECT format('CREATE TABLE months_%s PARTITION OF months FOR VALUES IN (%s) WITH (fillfactor = 10)', i, i) FROM generate_series(1, 12) i \gexec
INSERT INTO months SELECT (i * 7919::int8) % 1000, i % 7, i % 12 + 1, repeat('x', 100) FROM generate_series(1, 36000) i;
CREATE INDEX months_k ON months USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE months;
SET gpujoin.min_rows = 1000;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
CREATE FUNCTION plan_for(query text, n int) RETURNS text LANGUAGE sql AS $$
	SELECT node FROM plan(format(query,
		(SELECT string_agg((i * 17 % 1000)::text, ', ') FROM generate_series(1, n) i)))
$$;
SELECT n, plan_for('SELECT * FROM months WHERE k IN (%s)', n),
	plan_for('SELECT month, count(*) FROM months WHERE k IN (%s) GROUP BY 1', n)
FROM unnest('{1, 10, 20, 30}'::int[]) n;
-- ... nor if each partition is aggregated by itself
SET enable_partitionwise_aggregate = on;
SELECT n, plan_for('SELECT month, v, count(*) FROM months WHERE k IN (%s) GROUP BY 1, 2', n),
	plan_for('SELECT month, count(DISTINCT v) FROM months WHERE k IN (%s) GROUP BY 1', n)
FROM unnest('{10, 30}'::int[]) n;
SET parallel_setup_cost = 1;
SELECT plan_for('SELECT month, v, count(*) FROM months WHERE k IN (%s) GROUP BY 1, 2', 30);
RESET parallel_setup_cost;
RESET enable_partitionwise_aggregate;
SET gpujoin.aggregate = on;
SET gpujoin.setup_cost = 500;
SELECT n, plan_for('SELECT v, count(*) FROM months WHERE k IN (%s) GROUP BY 1', n)
FROM unnest('{10, 20, 30}'::int[]) n;
RESET gpujoin.setup_cost;
-- They do if each row requires much work
SET parallel_setup_cost = 1;
SELECT n, plan_for('SELECT v, count(*) FROM months WHERE k IN (%s) GROUP BY 1', n)
FROM unnest('{10, 30, 100}'::int[]) n;

SET client_min_messages = warning;
DROP SCHEMA parallel_cost CASCADE;
