--
-- GpuAgg in parallel plans: each process groups its rows, and PostgreSQL combines the results of
-- the processes
--
CREATE SCHEMA aggregate_parallel;
SET search_path = aggregate_parallel, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql
SET max_parallel_workers_per_gather = 2;

CREATE TABLE facts (id int, k int, g int, a int2, b int4, c int8, d date, t timestamptz, f bool,
	o oid, x float4, y float8, s text) WITH (parallel_workers = 2, autovacuum_enabled = off);
-- floats are sums of quarters, whose total does not depend on the order
INSERT INTO facts
SELECT i, i % 97, i % 2000, CASE WHEN i % 7 <> 0 THEN i % 11 - 5 END, (i * 7919 % 1000003) - 500000,
	CASE WHEN i % 5 <> 0 THEN (i % 9 - 4) * 2000000000000000003 END, date '2020-01-01' + i % 400,
	timestamptz '2020-01-01 UTC' + i * interval '1 minute', CASE WHEN i % 6 <> 0 THEN i % 4 = 0 END,
	i % 13, i % 100 / 4.0, CASE WHEN i % 50 <> 0 THEN -i / 4.0 END, 's' || i % 3
FROM generate_series(1, 12000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k);
CREATE TABLE covered (LIKE facts) WITH (parallel_workers = 2, autovacuum_enabled = off);
INSERT INTO covered SELECT * FROM facts;
CREATE INDEX covered_k ON covered USING gpujoin (k) INCLUDE (id, g, a, b, c, d, t, f, o, x, y);
CREATE TABLE small AS SELECT i AS k, i % 4 AS w FROM generate_series(0, 40) i;
INSERT INTO small VALUES (3, 9), (3, 9), (3, 1), (NULL, 1);
VACUUM ANALYZE facts, covered, small;

-- Return how a query is aggregated, and whether its rows are PostgreSQL's own
CREATE FUNCTION node(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN coalesce(substring(plan FROM '"Custom Plan Provider": "(Partial GpuAgg)"'),
		substring(plan FROM '"Custom Plan Provider": "(GpuAgg)"'), 'not GpuAgg');
END $$;
CREATE OR REPLACE FUNCTION compare(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	nrows bigint;
	differ bigint;
BEGIN
	query := format('SELECT q::text AS r FROM (%s) q', query);
	SET LOCAL gpujoin.enabled = off;
	SET LOCAL max_parallel_workers_per_gather = 0;
	EXECUTE 'CREATE TEMP TABLE stock AS ' || query;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL max_parallel_workers_per_gather = 2;
	EXECUTE 'CREATE TEMP TABLE ours AS ' || query;
	SET LOCAL max_parallel_workers_per_gather = 0;
	SELECT count(*) INTO nrows FROM ours;
	SELECT count(*) INTO differ FROM ((SELECT r FROM stock EXCEPT ALL SELECT r FROM ours) UNION ALL
		(SELECT r FROM ours EXCEPT ALL SELECT r FROM stock)) d;
	SET LOCAL max_parallel_workers_per_gather = 2;
	DROP TABLE stock, ours;
	RETURN format('%s: %s rows%s', node(query), nrows, CASE WHEN differ > 0 THEN ', DIFFERENT' END);
END $$;
-- a counter of the first GpuAgg
CREATE FUNCTION counter(name text, query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan,
		'strict $.** ? (@."Custom Plan Provider" == "Partial GpuAgg")')->name;
END $$;

EXPLAIN (COSTS OFF) SELECT k, count(*), sum(c) FROM facts WHERE k < 5 AND k IN (1, 2, 3) GROUP BY k HAVING sum(b) > 0;
EXPLAIN (COSTS OFF, VERBOSE) SELECT avg(c) + 1, count(*) FILTER (WHERE f) FROM facts WHERE k IN (1, 2, 3);
EXPLAIN (COSTS OFF) SELECT DISTINCT a, f FROM covered WHERE k IN (1, 2, 3);
EXPLAIN (COSTS OFF) SELECT w, count(*) FROM small JOIN covered USING (k) GROUP BY w ORDER BY w;

-- All states, of rows from the heap and from the index
SELECT compare(q), q FROM unnest(ARRAY['facts', 'covered']) t, LATERAL (SELECT format(q, t) AS q FROM unnest(ARRAY[
	'SELECT count(*), count(a), count(c), sum(a), sum(b), sum(c), avg(a), avg(b), avg(c) FROM %s WHERE k IN (1, 2, 3, 50)',
	'SELECT min(a), max(a), min(b), max(b), min(c), max(c), min(d), max(d), min(t), max(t), min(o), max(o) FROM %s WHERE k IN (1, 2, 3, 50)',
	'SELECT sum(x), sum(y), avg(x), avg(y), min(x), max(x), min(y), max(y), bool_and(f), bool_or(f), every(f) FROM %s WHERE k IN (1, 2, 3, 50)',
	'SELECT k, count(*), count(a), count(c), sum(a), sum(b), sum(c), avg(a), avg(b), avg(c) FROM %s WHERE k < 60 AND k <> ALL (''{4,5}'') GROUP BY k',
	'SELECT k, a, min(b), max(c), min(d), max(t), min(o), bool_and(f), bool_or(f) FROM %s WHERE k <> ALL (''{4,5}'') GROUP BY k, a',
	'SELECT f, sum(x), sum(y), avg(x), avg(y), min(x), max(y) FROM %s WHERE k <> ALL (''{4,5}'') GROUP BY f',
	'SELECT DISTINCT a, f, d FROM %s WHERE k IN (1, 2, 3, 50)'
]) q) u;
-- one state for sum() and avg() of int8, whichever comes first; sums of more than 64 bits
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT sum(c), avg(c) FROM facts WHERE k <> ALL (''{4,5}'') AND c > 0',
	'SELECT avg(c), sum(c) FROM facts WHERE k <> ALL (''{4,5}'') AND c < 0',
	'SELECT sum(c) AS n FROM facts WHERE k <> ALL (''{4,5}'') AND c > 0',
	'SELECT k, sum(c), avg(c) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY k',
	'SELECT k, avg(c * 0), sum(-c % 10000) FROM facts WHERE k <> ALL (''{4,5}'') AND c > -9000000000000000000 GROUP BY k',
	'SELECT sum(c), sum(c) FILTER (WHERE f), avg(c) FILTER (WHERE f) FROM facts WHERE k <> ALL (''{4,5}'')'
]) q;
-- 128 bits, around powers of 10000 and of two
CREATE TABLE wide (n int, k int, c int8) WITH (parallel_workers = 2);
INSERT INTO wide SELECT n, j, sign * (power::numeric + d)::int8 / 2 FROM generate_series(0, 18) p, (VALUES (-1), (0), (1)) v(d),
	(VALUES (1), (-1)) s(sign), generate_series(1, 40) j, LATERAL (SELECT 10::numeric ^ p AS power, p * 10 + d * 2 + (sign + 1) / 2 AS n) o;
INSERT INTO wide SELECT 1000 + i % 4, i, CASE i % 4 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808
	WHEN 2 THEN 4294967296 ELSE i % 3 - 1 END FROM generate_series(1, 400) i;
CREATE INDEX wide_k ON wide USING gpujoin (k);
VACUUM ANALYZE wide;
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT n, sum(c), avg(c), count(*) FROM wide WHERE k <> ALL (''{41}'') GROUP BY n',
	'SELECT sum(c), avg(c) FROM wide WHERE k <> ALL (''{41}'')']) q;


-- only NULLs, no rows at all, rows excluded by a FILTER, HAVING
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT count(*), count(a), sum(a), sum(c), avg(c), avg(a), avg(y), sum(y), sum(x), min(a), bool_or(f) FROM facts WHERE k = ANY (''{1,2,3}'') AND a IS NULL AND c IS NULL AND y IS NULL AND f IS NULL',
	'SELECT count(*), count(a), sum(a), sum(c), avg(c), avg(a), avg(y), sum(y), sum(x), min(a), bool_or(f) FROM facts WHERE k = ANY (''{-5}'')',
	'SELECT k, count(*), sum(c), avg(y) FROM facts WHERE k = ANY (''{-5}'') GROUP BY k',
	'SELECT k, sum(a) FILTER (WHERE a > 100), avg(c) FILTER (WHERE f IS NULL), count(*) FILTER (WHERE f), sum(c) FILTER (WHERE id < 0), sum(b / a) FILTER (WHERE a <> 0) FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY k',
	'SELECT a, c FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY a, c',
	'SELECT 1 AS one FROM facts WHERE k = ANY (''{1,2,3}'') HAVING count(*) > 300',
	'SELECT 1 AS one FROM facts WHERE k = ANY (''{1,2,3}'') HAVING count(*) > 400',
	'SELECT k FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY k HAVING sum(c) > 0 OR avg(y) IS NULL',
	'SELECT a AS p, a AS q, a + 1 AS r, count(*) FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY 1, 2, 3',
	'SELECT DISTINCT a AS p, a AS q, f FROM facts WHERE k = ANY (''{1,2,3}'') ORDER BY p'
]) q;
-- no state, no partial groups
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT k, count(DISTINCT a), sum(b) FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY k',
	'SELECT max(s) AS s, sum(b) FROM facts WHERE k = ANY (''{1,2,3}'')']) q;

-- Joins: rows that represent several rows, and columns of the small side
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT count(*), sum(b.a), avg(b.a), sum(b.c), avg(b.c), avg(b.y), sum(b.y) FROM small s JOIN facts b USING (k)',
	'SELECT b.k, count(*), sum(b.a), avg(b.a), sum(b.c), avg(b.c), avg(b.y) FROM small s JOIN covered b USING (k) GROUP BY b.k',
	'SELECT s.w, count(*), avg(b.c), sum(s.w) FROM small s JOIN covered b USING (k) GROUP BY s.w',
	'SELECT DISTINCT s.w, b.a FROM small s JOIN facts b USING (k)',
	'SELECT b.f, count(*), sum(b.c) FROM facts b WHERE k IN (SELECT k FROM small) GROUP BY b.f',
	'SELECT b.k, count(*) FROM small s LEFT JOIN facts b USING (k) GROUP BY b.k'
]) q;

-- Errors in one process, and while combining states
\set VERBOSITY terse
SELECT k, sum(b * 100000) FROM facts WHERE k = ANY ('{1,2,3}') GROUP BY k;
SELECT avg(y * 1e304) FROM facts WHERE k = ANY ('{1,2,3}');
SELECT sum((x * 1e37::float4)::float4) FROM facts WHERE k = ANY ('{1,2,3}');
\set VERBOSITY default

-- Partitions, some without rows or parallel scans; UNION ALL; children
CREATE TABLE parts (id int, k int, a int2, c int8) PARTITION BY RANGE (id);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (2000) WITH (parallel_workers = 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (2000) TO (4000) PARTITION BY LIST (a);
CREATE TABLE parts_1_x PARTITION OF parts_1 DEFAULT WITH (parallel_workers = 2);
CREATE TABLE parts_2 (c int8, dropped int, a int2, k int, id int) WITH (parallel_workers = 2);
ALTER TABLE parts_2 DROP COLUMN dropped;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (4000) TO (100000);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (100000) TO (200000);
INSERT INTO parts SELECT id, k, a, c FROM facts;
CREATE INDEX parts_k ON parts USING gpujoin (k);
CREATE TABLE parent (id int, k int, a int2, c int8) WITH (parallel_workers = 2);
CREATE TABLE child () INHERITS (parent) WITH (parallel_workers = 2);
INSERT INTO parent SELECT id, k, a, c FROM facts WHERE id % 2 = 0;
INSERT INTO child SELECT id, k, a, c FROM facts WHERE id % 2 = 1;
CREATE INDEX parent_k ON parent USING gpujoin (k);
CREATE INDEX child_k ON child USING gpujoin (k);
VACUUM ANALYZE parts, parent, child;
EXPLAIN (COSTS OFF) SELECT k, count(*) FROM parts WHERE k IN (1, 2, 3) GROUP BY k;
CREATE TABLE asked AS SELECT q FROM unnest(ARRAY[
	'SELECT a, count(*), sum(c), avg(c) FROM parts WHERE k <> ALL (''{4,5}'') GROUP BY a',
	'SELECT count(*), sum(c), avg(a) FROM parts WHERE k = ANY (''{1,2,3}'')',
	'SELECT DISTINCT a FROM parts WHERE k = ANY (''{1,2,3}'')',
	'SELECT w, count(*), avg(c) FROM small JOIN parts USING (k) GROUP BY w',
	'SELECT k, count(*), sum(c) FROM parent WHERE k = ANY (''{1,2,3}'') GROUP BY k',
	'SELECT n, count(*), sum(c) FROM (SELECT k AS n, c FROM facts WHERE k = ANY (''{1,2,3}'') UNION ALL SELECT k AS n, c FROM parent WHERE k = ANY (''{1,9}'')) u GROUP BY n']) q;
SELECT compare(q), q FROM asked;
SET enable_parallel_append = off;
SELECT compare(q), q FROM asked;
RESET enable_parallel_append;
SET enable_partitionwise_aggregate = on;
SELECT compare(q), q FROM asked LIMIT 2;
RESET enable_partitionwise_aggregate;

-- No worker, or workers only
SET max_parallel_workers = 0;
SELECT compare(q) FROM asked;
RESET max_parallel_workers;
SET parallel_leader_participation = off;
SELECT compare(q) FROM asked LIMIT 3;
RESET parallel_leader_participation;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT compare(q) FROM asked LIMIT 1;
COMMIT;

-- Parameters, subqueries; repeated execution
PREPARE few(int[], int) AS SELECT a, count(*), sum(b + $2), avg(c) FROM facts WHERE k = ANY ($1) GROUP BY a HAVING count(*) > $2 ORDER BY a LIMIT 2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE few('{1,2}', 5);
EXECUTE few('{1,2}', 5);
EXECUTE few('{3}', 10);
EXECUTE few('{}', 10);
RESET plan_cache_mode;
SET enable_material = off;
SET enable_memoize = off;
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT k, count(*), sum(b + (SELECT max(w) FROM small)) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY k',
	'SELECT s.k, u.* FROM (SELECT * FROM small WHERE k < 2) s LEFT JOIN (SELECT a, count(*) AS n, avg(c) AS m FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY a) u ON u.a < s.w',
	'SELECT s.k, u.* FROM (SELECT * FROM small WHERE k < 2) s, LATERAL (SELECT count(*) AS n, avg(c) AS m FROM facts WHERE k = ANY (''{1,2,3}'') OFFSET s.k - s.k) u',
	'SELECT s.k, (SELECT sum(c) FROM facts WHERE k = ANY (''{1,2,3}'') OFFSET s.w * 0) AS c FROM small s WHERE k < 5',
	'SELECT s.k, (SELECT sum(b) FROM facts b WHERE b.k = s.k) AS c FROM small s WHERE k < 5',
	'WITH u AS MATERIALIZED (SELECT k, sum(c) AS c FROM facts WHERE k = ANY (''{1,2,3}'') GROUP BY k) SELECT count(*), sum(c) FROM u',
	'SELECT count(*) FROM (SELECT DISTINCT a, f FROM facts WHERE k = ANY (''{1,2,3}'')) u',
	'SELECT a, count(*) FROM (SELECT DISTINCT a, f FROM facts WHERE k = ANY (''{1,2,3}'')) u GROUP BY a'
]) q;
EXPLAIN (COSTS OFF) SELECT s.k, u.* FROM small s LEFT JOIN (SELECT a, count(*) AS n FROM facts WHERE k = ANY ('{1,2,3}') GROUP BY a) u ON u.a < s.w;
RESET enable_material;
RESET enable_memoize;
-- a cursor uses no worker
BEGIN;
DECLARE c CURSOR FOR SELECT a, count(*), avg(c) FROM facts WHERE k = ANY ('{1,2}') GROUP BY a ORDER BY a;
FETCH 2 FROM c;
FETCH 1 FROM c;
COMMIT;

-- Groups that do not fit in memory are returned early, and finalized above
SELECT counter('Flushes', 'SELECT k, count(*) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY k') AS none,
	counter('Rows From Arrays', 'SELECT k, count(*) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY k') AS all_rows;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT counter('Flushes', 'SELECT id, k, count(*) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY id, k') > 3 AS some,
	counter('Flushes', 'SELECT g, count(*) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY g') > 3 AS of_one_column,
	counter('Flushes', 'SELECT a, f, count(*) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY a, f') AS none;
SELECT compare(q), q FROM unnest(ARRAY[
	'SELECT id, k, count(*), avg(c) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY id, k',
	'SELECT g, count(*), count(a), count(c), sum(a), sum(b), sum(c), avg(a), avg(b), avg(c) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY g',
	'SELECT g, sum(x), sum(y), avg(x), avg(y), min(x), max(x), min(y), max(y) FROM covered WHERE k <> ALL (''{4,5}'') GROUP BY g',
	'SELECT g, min(a), max(b), min(c), max(d), min(t), max(o), bool_and(f), bool_or(f) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY g',
	'SELECT g, count(*), sum(b.a), avg(b.a), sum(b.c), avg(b.c), avg(b.y) FROM small s JOIN covered b USING (k) GROUP BY g',
	'SELECT DISTINCT g, f FROM facts WHERE k <> ALL (''{4,5}'')']) q;
RESET work_mem;
RESET hash_mem_multiplier;

-- Several processes have rows of each group, unless one is too fast
CREATE FUNCTION slow(int) RETURNS bool STABLE PARALLEL SAFE LANGUAGE plpgsql
	AS 'BEGIN PERFORM pg_sleep(0.004) WHERE $1 % 4 = 0; RETURN true; END';
SELECT counter('Groups', 'SELECT f, count(*) FROM facts WHERE k IN (1, 2, 3) AND slow(id) GROUP BY f') > 3 AS several;
SELECT compare('SELECT f, count(*), sum(a), sum(c), avg(c), avg(a), avg(y), min(b), max(x), bool_or(f)
	FROM facts WHERE k IN (1, 2, 3) AND slow(id) GROUP BY f');

-- Costs: groups pass through Gather, rows do not
SET gpujoin.force = off;
SET parallel_tuple_cost = 0.1;
SELECT node('SELECT k, sum(b) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY k') AS few,
	node('SELECT id, sum(b) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY id') AS many;
CREATE FUNCTION choices(query text) RETURNS TABLE (node text, chosen boolean, reason text) LANGUAGE sql
	AS 'SELECT node, chosen, reason FROM gpujoin_explain_choice(query) WHERE node ~ ''Agg'' ORDER BY node';
SELECT * FROM choices('SELECT k, sum(b) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY k');
SELECT * FROM choices('SELECT id, sum(b) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY id');
SELECT * FROM choices('SELECT k, count(DISTINCT b) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY k');
SET gpujoin.aggregate = off;
SELECT * FROM choices('SELECT k, sum(b) FROM facts WHERE k <> ALL (''{4,5}'') GROUP BY k');

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA aggregate_parallel CASCADE;
