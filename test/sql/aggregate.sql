--
-- GpuAgg: groups and aggregates of the rows that a scan or a join finds
--
CREATE SCHEMA aggregate;
SET search_path = aggregate, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE facts (id int, k int, a int2, b int4, c int8, d date, t timestamptz, f bool, o oid,
	x float4, y float8, s text) WITH (autovacuum_enabled = off);
INSERT INTO facts
SELECT i, i % 97, CASE WHEN i % 7 <> 0 THEN i % 11 END, (i * 7919 % 1000003) - 500000,
	CASE WHEN i % 5 <> 0 THEN i::int8 * 1000000007 END, date '2020-01-01' + i % 400,
	timestamptz '2020-01-01 UTC' + i * interval '1 minute', CASE WHEN i % 6 <> 0 THEN i % 4 = 0 END,
	i % 13, i / 8.0, CASE WHEN i % 50 <> 0 THEN i / 16.0 END, 's' || i % 3
FROM generate_series(1, 12000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (id, a, b, c, d, t, f, o, x, y);
CREATE TABLE small AS SELECT i AS k, i % 4 AS g, 'n' || i % 2 AS name FROM generate_series(0, 40) i;
INSERT INTO small VALUES (3, 9, 'twice'), (NULL, 1, 'never');
VACUUM ANALYZE facts, small;

-- number of rows that a GpuAgg took from arrays
CREATE FUNCTION arrays(query text, OUT nrows text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON, COSTS OFF, TIMING OFF) ' || query INTO nrows;
	nrows := substring(nrows FROM '"Rows From Arrays": (\d+)');
END $$;

-- all aggregates, with and without groups, of scans and joins
SELECT * FROM compare('SELECT count(*), count(a), count(c), sum(a), sum(b), sum(c), avg(a), avg(b),
	avg(c), min(a), max(b), min(c), max(d), min(t), min(o), max(o), bool_and(f), bool_or(f), every(f)
	FROM facts WHERE k IN (1, 2, 3, 50)');
SELECT * FROM compare('SELECT k, count(*), count(a), count(c), sum(a), sum(b), sum(c), avg(a),
	avg(b), avg(c), min(a), max(b), min(c), max(d), min(t), min(o), max(o), bool_and(f), bool_or(f)
	FROM facts WHERE k IN (1, 2, 3, 50) GROUP BY k');
SELECT * FROM compare('SELECT sum(x), sum(y), avg(x), avg(y), min(x), max(x), min(y), max(y), count(y)
	FROM facts WHERE k IN (1, 2, 3, 50)');
SELECT * FROM compare('SELECT a, f, min(x), max(y), count(DISTINCT b), count(DISTINCT a)
	FROM facts b JOIN small s USING (k) GROUP BY a, f');
SELECT * FROM compare('SELECT s.g, count(*), sum(b.c), avg(b.a) FROM facts b JOIN small s USING (k)
	GROUP BY s.g');
SELECT * FROM compare('SELECT count(*), sum(b.b) FROM facts b JOIN small s USING (k)');
SELECT * FROM compare('SELECT count(*), sum(b.b) FROM facts b WHERE k IN (SELECT k FROM small)');
SELECT * FROM compare('SELECT s.k, count(b.k), sum(b.b) FROM small s LEFT JOIN facts b USING (k)
	GROUP BY s.k');
-- rows that must be fetched from the heap
SELECT * FROM compare('SELECT k, count(*), sum(b), max(s) IS NULL AS no FROM facts WHERE k IN (4, 5)
	GROUP BY k');
SELECT * FROM compare('SELECT k, count(*), sum(b) FROM facts WHERE k IN (4, 5) AND s <> ''s1''
	GROUP BY k');
-- filters tested on entries, so that the remaining rows are still passed as arrays; some need the
-- heap
SELECT * FROM compare('SELECT k, count(*), sum(b), min(y) FROM facts
	WHERE k IN (1, 2, 3, 50) AND a > 3 AND (f OR y IS NULL) GROUP BY k');
SELECT * FROM compare('SELECT s.g, count(*), sum(b.c) FROM facts b JOIN small s USING (k)
	WHERE b.a IN (1, 3, 5) AND b.d >= date ''2020-03-01'' GROUP BY s.g');
SELECT * FROM compare('SELECT k, count(*), sum(b) FROM facts
	WHERE k IN (1, 2, 3, 50) AND a > 3 AND b % 2 = 0 GROUP BY k');
SELECT * FROM compare('SELECT s.g, count(*), sum(b.c) FROM facts b JOIN small s USING (k)
	WHERE b.a > 3 AND b.b % 2 = 0 GROUP BY s.g');
SET gpujoin.force = on;
SELECT arrays('SELECT k, count(*) FROM facts WHERE k IN (1, 2) AND a > 3 GROUP BY k');
SELECT arrays('SELECT count(*) FROM facts b JOIN small s USING (k) WHERE b.a > 3');
SELECT arrays('SELECT k, count(*) FROM facts WHERE k IN (1, 2) AND b % 2 = 0 GROUP BY k');
RESET gpujoin.force;
-- the same with rows from the heap and from arrays
BEGIN;
UPDATE facts SET a = 3 - a WHERE k = 2 AND id < 6000;
DELETE FROM facts WHERE k = 3 AND id > 11000;
SELECT * FROM compare('SELECT k, count(*), sum(b), min(y) FROM facts
	WHERE k IN (1, 2, 3, 50) AND a < 3 AND f GROUP BY k');
SELECT * FROM compare('SELECT s.g, count(*), sum(b.c) FROM facts b JOIN small s USING (k)
	WHERE b.a < 3 AND b.y > 10 GROUP BY s.g');
SELECT * FROM compare('SELECT s.g, count(*), sum(b.c) FROM facts b JOIN small s USING (k)
	WHERE b.a < 3 AND b.b % 2 = 0 GROUP BY s.g');
ROLLBACK;
-- distinct rows, and nodes above them
SELECT * FROM compare('SELECT DISTINCT k, a, f FROM facts WHERE k < 5 AND k IN (1, 2, 3, 4)');
SELECT * FROM compare('SELECT DISTINCT b.a, s.g FROM facts b JOIN small s USING (k)');
SELECT * FROM compare('SELECT count(*), count(a), sum(g) FROM (SELECT DISTINCT b.a, s.g
	FROM facts b JOIN small s USING (k)) u');
SELECT * FROM compare('SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM facts
	WHERE k IN (1, 2, 3, 96) GROUP BY k) u GROUP BY n');
-- expressions above and below, HAVING, ORDER BY, LIMIT
SELECT * FROM compare('SELECT k + 1 AS k1, count(*) * 2 AS n, sum(a) + max(k) AS m FROM facts
	WHERE k IN (1, 2, 3) GROUP BY k + 1 HAVING count(*) > 1 AND min(b) < 0');
SELECT * FROM compare('SELECT k % 2 AS odd, count(*) FROM facts WHERE k IN (1, 2, 3) GROUP BY k % 2
	ORDER BY 2 DESC LIMIT 1');
-- no rows
SELECT * FROM compare('SELECT count(*), sum(a), avg(c), max(y), bool_or(f) FROM facts
	WHERE k IN (1000, 2000)');
SELECT * FROM compare('SELECT k, count(*) FROM facts WHERE k IN (1000, 2000) GROUP BY k');
SELECT * FROM compare('SELECT count(*) FROM facts WHERE k IN (1, 2) HAVING count(*) > 1000000');
-- in a subplan that is executed repeatedly, with and without a parameter
SELECT * FROM compare('SELECT s.g, (SELECT count(*) FROM facts WHERE k = ANY (ARRAY[s.k, s.g])) AS n,
	(SELECT count(*) FROM facts WHERE k IN (7, 8)) AS m FROM small s');
-- queries left to PostgreSQL
SELECT * FROM compare('SELECT max(s) FROM facts WHERE k IN (1, 2)');
SELECT * FROM compare('SELECT x, count(*) FROM facts WHERE k IN (1, 2) GROUP BY x');
SELECT * FROM compare('SELECT k, a, count(*) FROM facts WHERE k IN (1, 2) GROUP BY ROLLUP (k, a)');
SELECT * FROM compare('SELECT sum(DISTINCT a) FROM facts WHERE k IN (1, 2)');

-- little memory: groups in several passes
SET work_mem = '64kB';
SELECT * FROM compare('SELECT id, b, count(*), sum(c) FROM facts b JOIN small s USING (k)
	GROUP BY id, b');
SELECT * FROM compare('SELECT DISTINCT b.* FROM (SELECT id, b, t FROM facts WHERE k < 60
	AND k IN (SELECT k FROM small)) b');
RESET work_mem;

-- overflow raises PostgreSQL's own error
CREATE TABLE big (k int, v int8) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT 1, 9223372036854775807 FROM generate_series(1, 3);
CREATE INDEX ON big USING gpujoin (k) INCLUDE (v);
VACUUM big;
SET gpujoin.force = on;
SELECT sum(v), avg(v) FROM big WHERE k IN (1, 2);
EXPLAIN (COSTS OFF) SELECT k, count(*), sum(v) FROM big WHERE k IN (1, 2) GROUP BY k;
SET gpujoin.aggregate = off;
EXPLAIN (COSTS OFF) SELECT k, count(*), sum(v) FROM big WHERE k IN (1, 2) GROUP BY k;

DROP SCHEMA aggregate CASCADE;
