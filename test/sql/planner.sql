--
-- When GpuScan is offered, and when it is chosen
--
CREATE SCHEMA planned;
SET search_path = planned, public;
SET max_parallel_workers_per_gather = 0;

-- Return the scans, joins and aggregates of a plan, one a line
CREATE FUNCTION nodes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ '(Scan|Append|Gather|Join|Loop|Aggregate)' THEN
			result := result || regexp_replace(line, '^[ >-]+', '') || E'\n';
		END IF;
	END LOOP;
	RETURN rtrim(result, E'\n');
END $$;

CREATE TABLE facts (id int, k int, plain int, a int, b int, c int, d int, e int);
INSERT INTO facts SELECT i, (i * 7919::int8) % 100000, (i * 7919::int8) % 100000, i, i, i, i, i
	FROM generate_series(1, 300000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k);
VACUUM ANALYZE facts;

-- Costs: few keys of a large table use the index, a large part of the table does not
SELECT nodes('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
SELECT nodes(format('SELECT sum(a) FROM facts WHERE k = ANY (%L)', array_agg(i))) FROM generate_series(1, 4000) i;
SELECT nodes(format('SELECT sum(a) FROM facts WHERE k = ANY (%L)', array_agg(i))) FROM generate_series(1, 95000) i;
SELECT nodes('SELECT * FROM facts WHERE k = ANY (ARRAY[]::int[]) LIMIT 1');

-- With a btree, few keys use that
CREATE INDEX facts_btree ON facts (k);
SELECT nodes('SELECT * FROM facts WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)');
SELECT nodes('SELECT * FROM facts WHERE k = 1');
SELECT nodes('SELECT * FROM facts WHERE k BETWEEN 1 AND 10');
SELECT nodes('SELECT * FROM facts ORDER BY k LIMIT 10');

-- With force our plan wins over all of PostgreSQL's
SET gpujoin.force = on;
SELECT nodes('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT nodes('SELECT k FROM facts WHERE k = 1');
SELECT nodes('SELECT * FROM facts WHERE k IN (1, 2, 3) ORDER BY k LIMIT 1');
SELECT nodes('SELECT max(k) FROM facts WHERE k IN (1, 2, 3)');
SELECT nodes('SELECT * FROM facts WHERE k BETWEEN 1 AND 10');
CREATE TABLE empty (k int PRIMARY KEY);
CREATE INDEX empty_k ON empty USING gpujoin (k);
VACUUM ANALYZE empty;
SELECT nodes('SELECT * FROM empty WHERE k = 1');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT nodes('SELECT * FROM empty WHERE k = 1');
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET gpujoin.force;
DROP INDEX facts_btree;

-- The setting disables all paths, including those of cached plans and the bitmap
PREPARE cached(int[]) AS SELECT count(*) FROM facts WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
SELECT nodes('EXECUTE cached(''{1}'')');
SET gpujoin.enabled = off;
SELECT nodes('EXECUTE cached(''{1}'')');
SET enable_seqscan = off;
SELECT nodes('EXECUTE cached(''{1}'')');
RESET enable_seqscan;
RESET gpujoin.enabled;
SELECT nodes('EXECUTE cached(''{1}'')');
RESET plan_cache_mode;

-- Small tables are not considered, unless forced
SET gpujoin.min_rows = 1000000;
SELECT nodes('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)') !~ 'GpuScan' AS left_alone;
SET gpujoin.force = on;
SELECT nodes('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
RESET gpujoin.force;
RESET gpujoin.min_rows;

-- Thousands of keys cost little compared with a scan, even if they are a fifth of the table's
CREATE TABLE middling (id int, k int, v int);
INSERT INTO middling SELECT i, (i * 7919::int8) % 60000, i % 1000 FROM generate_series(1, 30000) i;
CREATE INDEX middling_k ON middling USING gpujoin (k);
CREATE INDEX ON middling (k);
CREATE TABLE many_keys AS SELECT i * 6 AS k FROM generate_series(1, 6000) i;
ANALYZE middling, many_keys;
SELECT nodes('SELECT count(*), sum(v) FROM middling WHERE k IN (SELECT k FROM many_keys)');
SELECT nodes('SELECT count(*), sum(v) FROM middling JOIN many_keys USING (k)');
SELECT nodes('SELECT * FROM middling WHERE k IN (1, 2)') !~ 'Gpu' AS few_keys_use_btree;

-- The cost settings have their effect
SET gpujoin.search_cost = 1000;
SET gpujoin.device_search_cost = 1;
SELECT nodes('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)') !~ 'GpuScan' AS too_expensive;
RESET gpujoin.search_cost;
RESET gpujoin.device_search_cost;

-- A generic plan costs what it takes for ten keys, so the plan cache keeps it for lists of about that
-- length and longer ones; below a LIMIT, or beside another table, its cost is for the assumed length
CREATE TABLE cached AS SELECT i AS id, i % 20000 AS k FROM generate_series(1, 100000) i;
CREATE INDEX cached_k ON cached USING gpujoin (k) INCLUDE (id);
VACUUM ANALYZE cached;
PREPARE counted(int[]) AS SELECT count(*) FROM cached WHERE k = ANY ($1);
PREPARE sorted(int[]) AS SELECT id FROM cached WHERE k = ANY ($1) ORDER BY id;
PREPARE limited(int[]) AS SELECT id FROM cached WHERE k = ANY ($1) LIMIT 1 OFFSET 500;
PREPARE few(int[]) AS SELECT count(*) FROM cached WHERE k = ANY ($1);
PREPARE joined(int[]) AS SELECT count(*) FROM cached CROSS JOIN (VALUES (1), (2)) v WHERE k = ANY ($1);
DO $$
DECLARE list text;
BEGIN
	FOR i IN 1 .. 7 LOOP
		SELECT quote_literal(array_agg(j * 37 + i)) INTO list FROM generate_series(1, 12) j;
		EXECUTE format('EXECUTE counted(%s)', list);
		EXECUTE format('EXECUTE sorted(%s)', list);
		EXECUTE format('EXECUTE limited(%s)', list);
		EXECUTE format('EXECUTE joined(%s)', list);
		EXECUTE format('EXECUTE few(''{%s}'')', i);
	END LOOP;
END $$;
SELECT name, generic_plans > 0 AS kept FROM pg_prepared_statements
	WHERE name IN ('counted', 'sorted', 'limited', 'few', 'joined') ORDER BY name;
EXECUTE counted('{1,2,3,20001}');

-- Barriers: a leaky clause of a view's user is not evaluated before the view's
CREATE FUNCTION leak(int) RETURNS int STABLE COST 1 LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''saw %'', $1; RETURN $1; END';
CREATE VIEW guarded WITH (security_barrier) AS SELECT * FROM facts WHERE id % 2 = 0;
EXPLAIN (COSTS OFF) SELECT * FROM guarded WHERE k IN (1, 2, 3) AND leak(id) = 0;

-- Partitions under a parallel append: each scan runs entirely in one process
SET gpujoin.force = on;
CREATE TABLE halves (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE halves_1 PARTITION OF halves FOR VALUES FROM (0) TO (20000);
CREATE TABLE halves_2 PARTITION OF halves FOR VALUES FROM (20000) TO (40001);
INSERT INTO halves SELECT i, i % 500 FROM generate_series(1, 40000) i;
CREATE INDEX ON halves USING gpujoin (k);
ANALYZE halves;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET gpujoin.aggregate = off;	-- otherwise it would run in one process
SELECT nodes('SELECT count(*), sum(id) FROM halves WHERE k IN (1, 2, 3)')
	~ 'Gather.*Parallel Append.*GpuScan.*GpuScan' AS parallel;
SELECT count(*), sum(id) FROM halves WHERE k IN (1, 2, 3);
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
RESET gpujoin.aggregate;

-- A partition that cannot match is pruned when the scan starts
PREPARE pruned(int) AS SELECT count(*) FROM halves WHERE k = ANY ('{1,2}') AND id < $1;
SET plan_cache_mode = force_generic_plan;
SELECT nodes('EXECUTE pruned(10)');
EXECUTE pruned(1000);
RESET plan_cache_mode;

-- A setting discards cached plans, except as the SET clause of a function: planning evaluates told()
CREATE FUNCTION told(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'planned'; RETURN n; END $$;
CREATE FUNCTION without() RETURNS text LANGUAGE plpgsql SET gpujoin.enabled = off SET gpujoin.force = off
	SET gpujoin.aggregate = off SET gpujoin.device_aggregate = off AS $$
BEGIN
	RETURN current_setting('gpujoin.enabled') || current_setting('gpujoin.aggregate');
END $$;
PREPARE kept AS SELECT count(*) FROM facts WHERE k = told(1);
EXECUTE kept;
EXECUTE kept;
SELECT without() FROM generate_series(1, 2);
EXECUTE kept;
SET gpujoin.enabled = off;
EXECUTE kept;
RESET gpujoin.enabled;
EXECUTE kept;
BEGIN;
SET LOCAL gpujoin.aggregate = off;
EXECUTE kept;
COMMIT;
EXECUTE kept;
SELECT set_config('gpujoin.device_aggregate', 'off', false);
EXECUTE kept;
RESET gpujoin.device_aggregate;
EXECUTE kept;
EXECUTE kept;

SET client_min_messages = warning;
DROP SCHEMA planned CASCADE;
