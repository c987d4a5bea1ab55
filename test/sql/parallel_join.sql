--
-- Parallel plans: joins whose processes share the match of the big side
--
-- PostgreSQL's own nodes aggregate the rows in each process
SET gpujoin.aggregate = off;
CREATE SCHEMA parallel_join;
SET search_path = parallel_join, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql

CREATE TABLE small AS SELECT nullif(i * 3, 30) AS k, i AS w FROM generate_series(1, 150) i;
INSERT INTO small SELECT k, w + 1000 FROM small WHERE w % 7 = 0;
VACUUM ANALYZE big, small;

EXPLAIN (COSTS OFF) SELECT s.w, count(*), sum(b.v) FROM small s JOIN big b ON b.k = s.k GROUP BY s.w;

-- Pairs, and big rows that have a partner, each once
SELECT compare('SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k');
SELECT compare('SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k AND b.v > s.w % 10 WHERE b.id % 3 = 0');
SELECT compare('SELECT s.w, count(*), sum(b.v) FROM small s JOIN big b ON b.k = s.k GROUP BY s.w');
SELECT compare('SELECT * FROM big WHERE k IN (SELECT k FROM small)');
SELECT compare('SELECT * FROM big b WHERE EXISTS (SELECT 1 FROM small s WHERE s.k = b.k AND s.w % 10 > b.v)');
SELECT compare('SELECT b.id, s.w FROM (SELECT k, max(w) AS w FROM small GROUP BY k) s JOIN big b ON b.k = s.k');
SELECT compare('SELECT b.id, s.w FROM (SELECT * FROM small WHERE w < 0) s JOIN big b ON b.k = s.k');
SELECT compare('SELECT b.id, x.id AS other FROM small s JOIN big b ON b.k = s.k JOIN big x ON x.id = b.id');
SET parallel_leader_participation = off;
SELECT compare('SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k');
SET max_parallel_workers = 0;
SELECT compare('SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k');
RESET parallel_leader_participation;
RESET max_parallel_workers;

-- Joins that return small rows for having a match, or none: not shared
SELECT compare('SELECT s.*, b.id FROM small s LEFT JOIN big b ON b.k = s.k');
SELECT compare('SELECT * FROM small s WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.k = s.k AND b.v > 3)');
SELECT compare('SELECT * FROM small s WHERE EXISTS (SELECT 1 FROM big b WHERE b.k = s.k AND b.v > s.w)');

-- A small side that a worker cannot execute
CREATE FUNCTION only_here() RETURNS SETOF int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	AS 'BEGIN RETURN QUERY SELECT generate_series(1, 50); END';
SELECT compare('SELECT b.id FROM only_here() f JOIN big b ON b.k = f');

-- A small side larger than estimated: batches are not shared, one process does everything
CREATE FUNCTION many_rows() RETURNS SETOF int LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 100
	AS 'BEGIN RETURN QUERY SELECT i % 4000 FROM generate_series(1, 20000) i; END';
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT compare('SELECT b.id, f FROM many_rows() f JOIN big b ON b.k = f');
SELECT compare('SELECT b.id FROM big b WHERE k IN (SELECT f FROM many_rows() f)');
CREATE FUNCTION batches(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN (jsonb_path_query_first(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" == "GpuJoin")')
			->> 'Batches')::int > 1;
END $$;
SELECT batches('SELECT b.id, f FROM many_rows() f JOIN big b ON b.k = f') AS more_than_one;
RESET work_mem;
RESET hash_mem_multiplier;

-- Several tables: each has its own match, and all matches are shared
CREATE TABLE parts (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (5000) WITH (parallel_workers = 2);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5000) TO (9000) WITH (parallel_workers = 2);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (9000) TO (20000) WITH (parallel_workers = 2);
INSERT INTO parts SELECT id, k FROM big WHERE id < 20000;
CREATE INDEX parts_k ON parts USING gpujoin (k);
CREATE TABLE lists (id int, k int) PARTITION BY LIST (k);
CREATE TABLE lists_1 PARTITION OF lists FOR VALUES IN (3, 6, 9, 12);
CREATE TABLE lists_2 PARTITION OF lists FOR VALUES IN (99, 100);
CREATE TABLE lists_0 PARTITION OF lists DEFAULT;
INSERT INTO lists SELECT id, k FROM big;
CREATE INDEX lists_k ON lists USING gpujoin (k);
VACUUM ANALYZE parts, lists;
EXPLAIN (COSTS OFF) SELECT count(*) FROM small s JOIN parts p ON p.k = s.k;
SELECT compare('SELECT p.*, s.w FROM small s JOIN parts p ON p.k = s.k');
SELECT compare('SELECT p.*, s.w FROM small s JOIN lists p ON p.k = s.k');
SELECT compare('SELECT p.* FROM lists p WHERE k IN (SELECT k FROM small WHERE k < 12)');
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT compare('SELECT p.id, f FROM many_rows() f JOIN parts p ON p.k = f');
RESET work_mem;
RESET hash_mem_multiplier;

-- Executed repeatedly; stopped before the end
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF)
SELECT x, n FROM (VALUES (1), (2), (3)) w(x)
	LEFT JOIN (SELECT count(*) AS n FROM small s JOIN big b ON b.k = s.k) j ON j.n > x;
SELECT x, n FROM (VALUES (1), (2), (3)) w(x)
	LEFT JOIN (SELECT count(*) AS n FROM small s JOIN big b ON b.k = s.k) j ON j.n > x;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*) FROM (SELECT b.id FROM small s JOIN big b ON b.k = s.k LIMIT 5) l;
-- The limit decreases: PostgreSQL keeps the first execution's limit for the workers of a rescan,
-- and a worker that has all rows would send no more (ExecParallelReinitialize)
SELECT x, n FROM (VALUES (3), (2), (1)) w(x) CROSS JOIN LATERAL
	(SELECT count(*) AS n FROM (SELECT 1 FROM small s JOIN big b ON b.k = s.k LIMIT x) l) t;

-- The workers' counters are shown: the sums do not depend on the distribution of work
CREATE FUNCTION counters(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) ' || query INTO plan;
	FOR node IN SELECT jsonb_path_query(plan, 'strict $.** ? (@."Custom Plan Provider" starts with "GpuJoin")') LOOP
		RETURN NEXT (SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM jsonb_each_text(node)
			WHERE key IN ('Custom Plan Provider', 'Keys', 'Matched TIDs', 'Batches',
						  'Small Rows', 'Exact Heap Blocks', 'Lossy Heap Blocks', 'Rows Removed by Key Recheck'));
	END LOOP;
END $$;
SELECT counters('SELECT sum(v) FROM small s JOIN big b ON b.k = s.k') AS all_processes;
SET parallel_leader_participation = off;
SELECT counters('SELECT sum(v) FROM small s JOIN big b ON b.k = s.k') AS workers;
RESET parallel_leader_participation;
SET max_parallel_workers_per_gather = 0;
SELECT counters('SELECT sum(v) FROM small s JOIN big b ON b.k = s.k') AS one_process;
SET max_parallel_workers_per_gather = 4;

-- Errors, in any of the processes
\set VERBOSITY terse
SELECT count(*) FROM small s JOIN big b ON b.k = s.k AND 1 / (b.v - 5) > s.w;
SELECT count(*) FROM (SELECT 1 / (w - 20) AS k FROM small) s JOIN big b ON b.k = s.k;
\set VERBOSITY default
SELECT count(*) FROM small s JOIN big b ON b.k = s.k;

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA parallel_join CASCADE;
