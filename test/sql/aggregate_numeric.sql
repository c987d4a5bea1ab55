-- Aggregates of numeric columns, which an index has as integers: groups/strays.c
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpujoin;
RESET client_min_messages;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql

SET gpujoin.force = on;
SET enable_seqscan = off;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- compares the rows of a query, as they are shown, with PostgreSQL's own
CREATE FUNCTION differences(query text) RETURNS TABLE (node text, rows bigint, differences bigint)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpujoin.enabled', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		node := coalesce(node, substring(line FROM '(?:Partial )?GpuAgg'));
	END LOOP;
	EXECUTE format('CREATE TEMP TABLE ours AS SELECT q::text FROM (%s) q', query);
	PERFORM set_config('gpujoin.enabled', 'off', true);
	EXECUTE format('CREATE TEMP TABLE theirs AS SELECT q::text FROM (%s) q', query);
	SELECT count(*) INTO rows FROM theirs;
	SELECT count(*) INTO differences
	  FROM ((TABLE ours EXCEPT ALL TABLE theirs) UNION ALL (TABLE theirs EXCEPT ALL TABLE ours)) d;
	DROP TABLE ours, theirs;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	RETURN NEXT;
END $$;

CREATE TABLE sales (k int, id int, g int, price numeric(12,2), any_scale numeric, long numeric(65,30), big numeric);
INSERT INTO sales
SELECT i % 500, i, i % 500 / 10,
	   CASE WHEN i % 13 > 0 THEN (i * 7919::bigint % 2000003 - 1000000) / 100.0 END,
	   CASE WHEN i % 17 = 0 THEN CASE WHEN i % 500 = 77 THEN 'NaN'::numeric END
			WHEN i % 17 = 1 AND i % 500 < 100 AND i % 3 = 0 THEN 'Infinity'
			WHEN i % 17 = 2 AND i % 500 BETWEEN 50 AND 150 AND i % 3 = 0 THEN '-Infinity'
			WHEN i % 17 = 3 THEN 1.5 WHEN i % 17 = 4 THEN 1e30 WHEN i % 17 = 5 THEN -0.001
			ELSE (i % 1000)::numeric / 1000 END,
	   i % 5000 / 4.0,
	   (4611686018427387000 + i % 900) * CASE WHEN i % 500 < 100 THEN -1 ELSE 1 END
  FROM generate_series(1, 20000) i;
CREATE INDEX sales_gj ON sales USING gpujoin (k) INCLUDE (id, g, price, any_scale, long, big);
VACUUM (ANALYZE, FREEZE) sales;

SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT g, sum(price), avg(price), min(price), max(price), count(price), count(DISTINCT price)
  FROM sales WHERE k = ANY (ARRAY[1, 2, 3, 14, 25, 106]) GROUP BY g');
SELECT g, sum(price), avg(price), min(price), max(price), count(price), count(DISTINCT price)
  FROM sales WHERE k = ANY (ARRAY[1, 2, 3, 14, 25, 106]) GROUP BY g ORDER BY g;

CREATE TABLE keys AS SELECT array_agg(k) AS k FROM generate_series(0, 499, 2) k;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT sum(%1$s), avg(%1$s), min(%1$s), max(%1$s), count(%1$s), count(DISTINCT %1$s)
		FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[])', c)) d;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT g, sum(%1$s), avg(%1$s), min(%1$s), max(%1$s), count(%1$s), count(DISTINCT %1$s)
		FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY g', c)) d;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT k, avg(%1$s), sum(%1$s) FILTER (WHERE id %% 3 = 0), max(%1$s) FILTER (WHERE id > 10000)
		FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY k', c)) d;
SELECT * FROM differences('SELECT sum(price), avg(any_scale), max(big) FROM sales WHERE k = ANY (ARRAY[-1, -2])');
SELECT * FROM differences('SELECT k, sum(any_scale) FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY k HAVING sum(any_scale) > 5');

-- many groups, in several passes
SET work_mem = '64kB';
SELECT * FROM differences('SELECT id, sum(any_scale), avg(price), min(long), max(big), count(DISTINCT any_scale)
	FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY id');
RESET work_mem;

-- joins, in which a row counts several times
CREATE TABLE shops (k int, name text);
INSERT INTO shops SELECT i % 350, 'name ' || i % 13 FROM generate_series(1, 900) i;
ANALYZE shops;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT name, sum(%1$s), avg(%1$s), min(%1$s), max(%1$s), count(%1$s), count(DISTINCT %1$s)
		FROM shops JOIN sales USING (k) GROUP BY name', c)) d;
SELECT * FROM differences('SELECT sum(any_scale), avg(any_scale), sum(big) FROM shops JOIN sales USING (k)');

-- rows from the table, with values that are shown differently
UPDATE sales SET any_scale = trim_scale(any_scale), price = -price WHERE id % 3 = 0;
ALTER TABLE sales ALTER price TYPE numeric;
INSERT INTO sales VALUES (2, 0, 0, 1.5, 1, 1, 1), (2, 0, 0, 'NaN', 1, 1, 1), (12, 0, 1, 0.00001, 1, 1, 1);
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT g, sum(%1$s), avg(%1$s), count(%1$s), count(DISTINCT %1$s)
		FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY g', c)) d;

-- a prepared statement uses no values of an earlier execution
SET plan_cache_mode = force_generic_plan;
PREPARE sums(int[]) AS SELECT sum(any_scale), count(DISTINCT any_scale), avg(price) FROM sales WHERE k = ANY ($1);
EXECUTE sums('{3}');
EXECUTE sums('{77}');
EXECUTE sums('{3}');
SELECT k, s FROM (VALUES (3), (77), (3)) v(k), LATERAL (SELECT sum(any_scale) s FROM sales WHERE sales.k = ANY (ARRAY[v.k])) l;

-- partitions whose indexes have other scales
CREATE TABLE parts (k int, p int, v numeric) PARTITION BY LIST (p);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts SELECT i % 10, 1, (i / 100.0)::numeric(20,2) FROM generate_series(1, 1000) i;
INSERT INTO parts SELECT i % 10, 2, (i / 100.0)::numeric(20,3) FROM generate_series(1, 1000) i;
CREATE INDEX parts_gj ON parts USING gpujoin (k) INCLUDE (v);
VACUUM (ANALYZE, FREEZE) parts;
EXPLAIN (COSTS OFF) SELECT k, sum(v) FROM parts WHERE k = ANY (ARRAY[1, 2]) GROUP BY k;
SELECT * FROM differences('SELECT k, sum(v), avg(v), count(v), count(DISTINCT v) FROM parts WHERE k = ANY (ARRAY[1, 2, 3]) GROUP BY k');
SELECT * FROM differences('SELECT sum(v), avg(v), count(v), count(DISTINCT v) FROM parts WHERE k = ANY (ARRAY[1, 2, 3])');

-- parallel plans: the states are PostgreSQL's
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT g, sum(price), avg(any_scale), min(long), max(big) FROM sales WHERE k = ANY (ARRAY[1, 2, 3, 4]) GROUP BY g;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT g, sum(%1$s), avg(%1$s), trim_scale(min(%1$s)), trim_scale(max(%1$s)), count(%1$s)
		FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY g', c)) d;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT g, sum(%1$s), avg(%1$s), count(%1$s)
		FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[]) GROUP BY g', c)) d;
SELECT c, d.* FROM unnest(ARRAY['price', 'any_scale', 'long', 'big']) c,
	   differences(format('SELECT avg(%1$s), count(%1$s), sum(%1$s) FILTER (WHERE id < 0) FROM sales WHERE k = ANY ((SELECT k FROM keys)::int[])', c)) d;
SELECT * FROM differences('SELECT name, sum(any_scale), avg(price), sum(big) FROM shops JOIN sales USING (k) GROUP BY name');
RESET max_parallel_workers_per_gather;
SET max_parallel_workers_per_gather = 0;

-- groups by numerics; what is left to PostgreSQL: expressions, a column that the index lacks
SELECT * FROM differences('SELECT price, count(*) FROM sales WHERE k = ANY (ARRAY[1, 3]) GROUP BY price');
SELECT * FROM differences('SELECT DISTINCT long FROM sales WHERE k = ANY (ARRAY[1, 3]) AND any_scale <> 1.5');
SELECT * FROM differences('SELECT sum(price * 2), sum(any_scale) FILTER (WHERE price > 0) FROM sales WHERE k = ANY (ARRAY[1, 2, 3])');
ALTER TABLE sales ADD other numeric DEFAULT 1.25;
SELECT * FROM differences('SELECT sum(other) FROM sales WHERE k = ANY (ARRAY[1, 2, 3])');

DROP TABLE sales, keys, shops, parts;
DROP FUNCTION differences;
DROP FUNCTION explain(text, text);
