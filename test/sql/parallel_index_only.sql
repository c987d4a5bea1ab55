--
-- Parallel plans whose rows come from the index: the device's matches are divided, and all
-- processes perform the CPU's search together
--
-- PostgreSQL's own nodes aggregate the rows in each process
SET gpujoin.aggregate = off;
CREATE SCHEMA parallel_index_only;
SET search_path = parallel_index_only, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql

-- Counters of all processes
CREATE FUNCTION counters(query text, OUT parallel bool, OUT index_only bool, OUT keys int,
	OUT heap_fetches int) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) ' || query INTO plan;
	plan := jsonb_path_query_first(plan, 'strict $.** ? (@."Index Only" == true)');
	parallel := plan->'Parallel Aware';
	index_only := plan->'Index Only';
	keys := plan->'Keys';
	heap_fetches := plan->'Heap Fetches';
END $$;

-- With a device: whether all processes send requests, each for some keys, and whether it answers
-- all
CREATE FUNCTION ranges(query text, OUT ranges bool, OUT only_device bool, OUT tids int)
	LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	ready bool;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) ' || query INTO plan;
	plan := jsonb_path_query_first(plan, 'strict $.** ? (@."Index Only" == true)');
	SELECT state = 'ready' INTO ready FROM gpujoin_status();
	ranges := (plan->'Device Pieces')::int > 1 OR NOT ready;
	only_device := plan->>'Device Reason' = '' AND plan->'Device Entries' = plan->'Entries Searched'
		OR NOT ready;
	tids := plan->'Matched TIDs';
END $$;

CREATE TABLE io (id int, k int, v int8, b bool, w float8, t text) WITH (parallel_workers = 3, autovacuum_enabled = off);
INSERT INTO io SELECT i, CASE WHEN i % 50 <> 0 THEN i % 1000 END, CASE WHEN i % 7 <> 0 THEN i END,
	CASE WHEN i % 3 <> 0 THEN i % 2 = 0 END, i / 3.0, repeat('x', i % 60) FROM generate_series(1, 50000) i;
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
CREATE INDEX io_k ON io USING gpujoin (k) INCLUDE (id, v, b, w);
RESET gpujoin.auto_load;
CREATE TABLE wanted AS SELECT i * 3 AS k, i AS n FROM generate_series(1, 200) i;
CREATE TABLE many AS SELECT generate_series(0, 800) AS k;
VACUUM ANALYZE io, wanted, many;

EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM io WHERE k = ANY ('{1,2,3,5,8,13,21}');
EXPLAIN (COSTS OFF) SELECT sum(w.n), sum(b.v) FROM wanted w JOIN io b ON b.k = w.k WHERE b.id > 100;
SELECT * FROM counters('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT * FROM counters('SELECT sum(b.v) FROM wanted w JOIN io b ON b.k = w.k');

-- Each row once
SELECT q, compare(q) FROM unnest(ARRAY[
	'SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))',
	'SELECT k, k AS k2, v + 1 AS v FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted)) AND b',
	'SELECT k, count(*), count(v) AS v, sum(v), bool_or(b) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted)) GROUP BY k',
	'SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))',
	'SELECT id FROM io WHERE k = ANY (ARRAY(SELECT k + 5000 FROM wanted))',
	'SELECT id FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted WHERE k < 0))',
	'SELECT id FROM io WHERE k <> ALL (ARRAY(SELECT k FROM wanted))',
	'SELECT w.k, w.n, b.id, b.v, b.w FROM wanted w JOIN io b ON b.k = w.k',
	'SELECT w.n, b.id FROM wanted w JOIN io b ON b.k = w.k AND b.id % 7 = w.n % 7 WHERE b.b IS NULL',
	'SELECT b.id, b.v FROM io b WHERE b.k IN (SELECT k FROM wanted WHERE n % 2 = 0)',
	'SELECT b.k, count(*), sum(b.v) FROM wanted w JOIN io b ON b.k = w.k GROUP BY b.k'
]) q;

-- A device's matches are divided by keys if each process has at least two of them, even if they do
-- not fit in memory; one key with too many entries is left to the CPU
SELECT * FROM ranges('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT * FROM ranges('SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT * FROM ranges('SELECT sum(b.v) FROM wanted w JOIN io b ON b.k = w.k');
SELECT * FROM ranges('SELECT sum(v) FROM io WHERE k = ANY (''{1,2,3,4,5,6,7,8}'')');
SELECT ranges = (SELECT state <> 'ready' FROM gpujoin_status()) AS blocks, tids
	FROM ranges('SELECT sum(v) FROM io WHERE k = ANY (''{1,2,3,4,5,6,7}'')');
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM ranges('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT * FROM ranges('SELECT sum(b.v) FROM many m JOIN io b ON b.k = m.k');
CREATE TABLE hot WITH (parallel_workers = 3, autovacuum_enabled = off) AS
	SELECT CASE WHEN i % 2 = 0 THEN 500 ELSE i % 1000 END AS k, i AS id FROM generate_series(1, 50000) i;
SET gpujoin.auto_load = off;
CREATE INDEX hot_k ON hot USING gpujoin (k) INCLUDE (id);
RESET gpujoin.auto_load;
VACUUM ANALYZE hot;
SELECT ranges, only_device = (SELECT state <> 'ready' FROM gpujoin_status()) AS also_cpu, tids
	FROM ranges('SELECT sum(id) FROM hot WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT compare('SELECT k, id FROM hot WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT compare('SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT compare('SELECT b.id, b.v FROM many m JOIN io b ON b.k = m.k');
SET max_parallel_workers = 0;
SELECT * FROM ranges('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT compare('SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM many))');
RESET max_parallel_workers;
RESET work_mem;
RESET hash_mem_multiplier;
SELECT compare('SELECT k, id FROM hot WHERE k = ANY (''{1,2,3,4,500,600,700,-5}'')');

-- Pages that are not all-visible: each process reads its own
UPDATE io SET v = -v WHERE id % 400 = 3;
UPDATE io SET t = 'hot' WHERE id % 500 = 7;
DELETE FROM io WHERE id % 300 = 9;
INSERT INTO io SELECT i, i % 1000, i, true, i, 'new' FROM generate_series(60001, 60600) i;
BEGIN;
INSERT INTO io SELECT i, i % 1000, i, true, i, 'gone' FROM generate_series(70001, 70600) i;
ROLLBACK;
SELECT index_only, heap_fetches > 100 AS some FROM counters('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT ranges = (SELECT state <> 'ready' FROM gpujoin_status()) AS blocks
	FROM ranges('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT w.n, b.id, b.v FROM wanted w JOIN io b ON b.k = w.k');
BEGIN;
INSERT INTO io SELECT i, i % 1000, i, true, i, 'own' FROM generate_series(80001, 80600) i;
DELETE FROM io WHERE id % 10 = 1;
SELECT compare('SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT w.n, b.id, b.v FROM wanted w JOIN io b ON b.k = w.k');
ROLLBACK;
-- so many that they do not fit in memory, and are fetched before the search continues
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
UPDATE io SET t = 'hot' WHERE id % 20 = 1;
SELECT index_only, heap_fetches > 20000 AS many FROM counters('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT compare('SELECT id, v FROM io WHERE k = ANY (ARRAY(SELECT k FROM many))');
SELECT compare('SELECT b.id, b.v FROM many m JOIN io b ON b.k = m.k');
RESET work_mem;
RESET hash_mem_multiplier;

-- Reused slots: entries of one heap page are on several pages of the index
DELETE FROM io WHERE id % 5 = 0;
VACUUM io;
INSERT INTO io SELECT i, i % 1000, -i, i % 3 = 0, i, 'again' FROM generate_series(90001, 99000) i;
SELECT compare('SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
VACUUM io;
SELECT heap_fetches FROM counters('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT id, k, v, b, w FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT w.n, b.id, b.v FROM wanted w JOIN io b ON b.k = w.k');

-- Only workers, and only the leader
SET parallel_leader_participation = off;
SELECT compare('SELECT id, v FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT * FROM counters('SELECT sum(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SET max_parallel_workers = 0;
SELECT compare('SELECT id, v FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT w.n, b.id, b.v FROM wanted w JOIN io b ON b.k = w.k');
RESET parallel_leader_participation;
SELECT compare('SELECT id, v FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
RESET max_parallel_workers;

-- Executed repeatedly, and stopped before the end
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT x, n FROM (VALUES (1), (2), (3)) w(x)
	LEFT JOIN (SELECT count(*) AS n FROM io WHERE k = ANY ('{1,2,3,4,6}')) s ON s.n > x;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*) FROM (SELECT id FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted)) LIMIT 7) s;
-- The limit decreases: PostgreSQL keeps the first execution's limit for the workers of a rescan,
-- and a worker that has all rows would send no more (ExecParallelReinitialize)
SELECT x, n FROM (VALUES (3), (2), (1)) w(x)
	CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT 1 FROM io WHERE k = ANY ('{1,2,3}') LIMIT x) s) t;

-- One process executes a join in batches; a join that marks small rows is not parallel
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT compare('SELECT b.id, s.n FROM (SELECT k % 700 AS k, n FROM wanted, generate_series(1, 15)) s JOIN io b ON b.k = s.k WHERE b.id % 9 = 0');
RESET work_mem;
RESET hash_mem_multiplier;
SELECT compare('SELECT w.n, b.id FROM wanted w LEFT JOIN io b ON b.k = w.k AND b.id % 50 = 1');

-- Partitions, and several tables of a join
CREATE TABLE parts (v int8, k int) PARTITION BY RANGE (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (300) WITH (parallel_workers = 2);
CREATE TABLE parts_2 (x text, k int, v int8) WITH (parallel_workers = 2);
ALTER TABLE parts_2 DROP x;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (300) TO (1000);
INSERT INTO parts SELECT id, k FROM io WHERE k IS NOT NULL;
SET gpujoin.auto_load = off;
CREATE INDEX parts_k ON parts USING gpujoin (k) INCLUDE (v);
RESET gpujoin.auto_load;
VACUUM ANALYZE parts;
SELECT compare('SELECT k, v FROM parts WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT w.n, p.v FROM wanted w JOIN parts p ON p.k = w.k');
SELECT * FROM counters('SELECT sum(p.v) FROM wanted w JOIN parts p ON p.k = w.k');
SELECT ranges, only_device FROM ranges('SELECT sum(p.v) FROM wanted w JOIN parts p ON p.k = w.k');
SELECT ranges, only_device FROM ranges('SELECT sum(v) FROM parts WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
-- a few pages that are not all-visible do not matter
DELETE FROM parts WHERE v BETWEEN 100 AND 103;
SELECT * FROM ranges('SELECT sum(v) FROM parts WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT k, v FROM parts WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
SELECT compare('SELECT w.n, p.v FROM wanted w JOIN parts p ON p.k = w.k');

-- Serializable transactions read the heap
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT compare('SELECT id, v FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted))');
COMMIT;

-- A function that is wrongly declared stable: only some processes have keys
CREATE FUNCTION keys_of_some() RETURNS int[] LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	IF pg_backend_pid() % 2 = 0 THEN
		RETURN ARRAY(SELECT generate_series(1, 300));
	END IF;
	RETURN '{}';
END $$;
CREATE TABLE delta (id int, k int) WITH (parallel_workers = 3, autovacuum_enabled = off);
INSERT INTO delta SELECT i, i % 1000 FROM generate_series(1, 100000) i;
CREATE INDEX delta_k ON delta USING gpujoin (k) INCLUDE (id);
INSERT INTO delta SELECT i, i % 1000 FROM generate_series(1, 50000) i;
SET parallel_leader_participation = off;
DO $$
BEGIN
	FOR i IN 1 .. 6 LOOP
		EXECUTE 'CREATE TEMP TABLE found AS SELECT k, id FROM delta WHERE k = ANY (keys_of_some())';
		DROP TABLE found;
	END LOOP;
END $$;
RESET parallel_leader_participation;

-- Errors, in any of the processes
\set VERBOSITY terse
SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted)) AND 1 / (id - 303) > 0;
SELECT count(v) FROM io WHERE k = ANY (ARRAY(SELECT k FROM wanted));
\set VERBOSITY default

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA parallel_index_only CASCADE;
