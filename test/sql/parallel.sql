--
-- Parallel plans: one match, whose rows all processes fetch
--
-- PostgreSQL's own nodes aggregate the rows in each process
SET gpujoin.aggregate = off;
CREATE SCHEMA parallel_scan;
SET search_path = parallel_scan, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql

CREATE TABLE wanted AS SELECT i * 3 AS k FROM generate_series(1, 200) i;
VACUUM ANALYZE big, wanted;

-- The plan, with a partial aggregate above
EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM big WHERE k = ANY ('{1,2,3,5,8,13,21}');
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE k IN (1, 2, 3) AND v < 5;

-- Each row once
SELECT compare('SELECT * FROM big WHERE k = ANY (''{1,2,3,5,8,13,21,34,55,89,144,233}'')');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT ctid AS tid, tableoid AS oid, k FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted)) AND v < 5');
SELECT compare('SELECT v, count(*), sum(id) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted)) GROUP BY v');
SELECT compare('SELECT id FROM big WHERE k = ANY (ARRAY(SELECT generate_series(-100, 900)))');

-- No rows: with an empty set and with keys that do not exist
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted WHERE k < 0))');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k + 5000 FROM wanted))');

-- Only workers, and only the leader
SET parallel_leader_participation = off;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SET max_parallel_workers = 0;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
RESET parallel_leader_participation;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
RESET max_parallel_workers;

-- With a prepared statement's parameter
PREPARE by_keys(int[]) AS SELECT count(*), sum(id) FROM big WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_keys('{1,2,3}');
EXECUTE by_keys('{1,2,3}');
EXECUTE by_keys('{4,NULL,4}');
EXECUTE by_keys(NULL);
RESET plan_cache_mode;

-- Below other nodes: a join's outer side, a sort for each worker, a table's partitions
SELECT compare('SELECT b.id, w.k FROM big b JOIN wanted w ON b.v = w.k WHERE b.k = ANY (ARRAY(SELECT k FROM wanted))');
EXPLAIN (COSTS OFF) SELECT id, k FROM big WHERE k = ANY ('{1,2,3,4,5}') ORDER BY id LIMIT 3;
SELECT id, k FROM big WHERE k = ANY ('{1,2,3,4,5}') ORDER BY id LIMIT 3;
CREATE TABLE parts (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (5000) WITH (parallel_workers = 2);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5000) TO (20000) WITH (parallel_workers = 2);
INSERT INTO parts SELECT id, k FROM big WHERE id < 20000;
CREATE INDEX parts_k ON parts USING gpujoin (k);
VACUUM ANALYZE parts;
EXPLAIN (COSTS OFF) SELECT count(*) FROM parts WHERE k = ANY ('{1,2,3,4,5}');
SELECT compare('SELECT * FROM parts WHERE k = ANY (ARRAY(SELECT k FROM wanted))');

-- Executed repeatedly: the inner side of a nested loop
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF)
SELECT x, n FROM (VALUES (1), (2), (3)) w(x)
	LEFT JOIN (SELECT count(*) AS n FROM big WHERE k = ANY ('{1,2,3,4,5,6}')) s ON s.n > x;
SELECT x, n FROM (VALUES (1), (2), (3)) w(x)
	LEFT JOIN (SELECT count(*) AS n FROM big WHERE k = ANY ('{1,2,3,4,5,6}')) s ON s.n > x;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- A set that depends on an outer row is evaluated where that row is: not in parallel
SELECT compare('SELECT x, (SELECT count(*) FROM big WHERE k = ANY (ARRAY[x, x + 1])) FROM generate_series(1, 5) x');

-- Stopped before the end
SELECT count(*) FROM (SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted)) LIMIT 7) s;
-- The limit decreases: PostgreSQL keeps the first execution's limit for the workers of a rescan,
-- and a worker that has all rows would send no more (ExecParallelReinitialize)
SELECT x, n FROM (VALUES (3), (2), (1)) w(x)
	CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT 1 FROM big WHERE k = ANY ('{1,2,3}') LIMIT x) s) t;

-- The workers' counters are shown: the sums do not depend on the distribution of work
CREATE FUNCTION counters(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan, 'strict $.** ? (@."Custom Plan Provider" starts with "Gpu")')
		- ARRAY(SELECT key FROM jsonb_each(jsonb_path_query_first(plan,
				'strict $.** ? (@."Custom Plan Provider" starts with "Gpu")'))
				WHERE key NOT IN ('Parallel Aware', 'Keys', 'Matched TIDs',
								  'Exact Heap Blocks', 'Lossy Heap Blocks',
								  'Rows Removed by Key Recheck'));
END $$;
SELECT counters('SELECT sum(v) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))') -> 'Parallel Aware';
SELECT counters('SELECT sum(v) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))') - 'Parallel Aware' AS all_processes;
SET parallel_leader_participation = off;
SELECT counters('SELECT sum(v) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))') - 'Parallel Aware' AS workers;
RESET parallel_leader_participation;
SET max_parallel_workers_per_gather = 0;
SELECT counters('SELECT sum(v) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))') - 'Parallel Aware' AS one_process;
SET max_parallel_workers_per_gather = 4;

-- TIDs that do not fit in memory: whole blocks are divided
CREATE TABLE whole (id int, k int, pad text) WITH (parallel_workers = 3, autovacuum_enabled = off);
INSERT INTO whole SELECT i, i % 3, repeat('x', 400) FROM generate_series(1, 60000) i;
CREATE INDEX whole_k ON whole USING gpujoin (k);
ANALYZE whole;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT count(*), sum(id) FROM whole WHERE k = ANY ('{0,1}');
SELECT counters('SELECT sum(id) FROM whole WHERE k = ANY (''{0,1}'')');
SELECT compare('SELECT id FROM whole WHERE k = ANY (''{0,1}'') AND id % 5 = 1');
RESET work_mem;
RESET hash_mem_multiplier;

-- Errors, in the set and in a filter, in any of the processes
\set VERBOSITY terse
SELECT count(*) FROM big WHERE k = ANY (ARRAY[1, 1 / (SELECT 0)]);
SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted)) AND 1 / (v - 5) > 0;
SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted));
\set VERBOSITY default

-- Serializable, and in a transaction that must see its own changes
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
COMMIT;
BEGIN;
UPDATE big SET v = -1 WHERE k = 3;
DELETE FROM big WHERE k = 6;
INSERT INTO big SELECT -i, 9, 0, '' FROM generate_series(1, 100) i;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
ROLLBACK;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM wanted))');

-- No parallel plan: a function that is not parallel-safe, in the set or elsewhere; a temporary
-- table
CREATE FUNCTION restricted_keys() RETURNS int[] LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN ''{1,2,3}''::int[]; END';
SELECT compare('SELECT id FROM big WHERE k = ANY (restricted_keys())');
CREATE TEMP TABLE temporary AS TABLE big;
CREATE INDEX ON temporary USING gpujoin (k);
SELECT compare('SELECT id FROM temporary WHERE k IN (1, 2, 3)');

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA parallel_scan CASCADE;
