--
-- GpuAgg: FILTER, and aggregates of expressions
--
CREATE SCHEMA aggregate_filter;
SET search_path = aggregate_filter, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE facts (id int, k int, a int2, b int4, c int8, d date, f bool, x float8, s text)
	WITH (autovacuum_enabled = off);
INSERT INTO facts
SELECT i, i % 97, CASE WHEN i % 7 <> 0 THEN i % 11 END, (i * 7919 % 1000003) - 500000,
	CASE WHEN i % 5 <> 0 THEN i::int8 * 1000000007 END, date '2020-01-01' + i % 400,
	CASE WHEN i % 6 <> 0 THEN i % 4 = 0 END, i / 8.0, 's' || i % 3
FROM generate_series(1, 12000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (id, a, b, c, d, f, x);
CREATE TABLE small AS SELECT i AS k, i % 4 AS g FROM generate_series(0, 40) i;
INSERT INTO small VALUES (3, 9), (NULL, 1);
VACUUM ANALYZE facts, small;

-- columns used as conditions, and conditions on columns
SELECT * FROM compare('SELECT count(*) FILTER (WHERE f), count(a) FILTER (WHERE f), count(*),
	sum(b) FILTER (WHERE NOT f) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM compare('SELECT k, count(*) FILTER (WHERE a > 3), sum(c) FILTER (WHERE a > 3),
	min(b) FILTER (WHERE d < ''2020-06-01'' AND a IS NOT NULL), avg(x) FILTER (WHERE b = -1),
	bool_or(f) FILTER (WHERE c IS NULL) FROM facts WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM compare('SELECT count(DISTINCT a) FILTER (WHERE b > 0), count(DISTINCT a) FILTER (WHERE b < 0),
	count(*) FILTER (WHERE a IN (1, 2) OR a IS NULL) FROM facts WHERE k IN (1, 2, 3)');
-- a condition on a grouping column, also a computed one
SELECT * FROM compare('SELECT k, count(*) FILTER (WHERE k = 2), count(*) FILTER (WHERE k + a > 8)
	FROM facts WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM compare('SELECT k % 2 AS odd, count(*) FILTER (WHERE k % 2 = 1),
	sum(k % 2) FILTER (WHERE k > 1), sum(b) FILTER (WHERE f) FROM facts WHERE k IN (1, 2, 3) GROUP BY k % 2');
-- expressions that fail for rows that the condition excludes
SELECT * FROM compare('SELECT sum(a * b), max(c / 7), avg(x * 2), count(nullif(a, 3)), min(d + a),
	count(DISTINCT b % 10), bool_and(a > 0) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM compare('SELECT a, sum(b / (a - 3)) FILTER (WHERE a <> 3), sum(b / (a - 3)) FILTER (WHERE a > 3)
	FROM facts WHERE k IN (1, 2, 3) GROUP BY a');
SET gpujoin.force = on;
SELECT sum(b / (a - 3)) FROM facts WHERE k IN (1, 2, 3);
RESET gpujoin.force;
SELECT * FROM compare('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)
	HAVING sum(a + b) FILTER (WHERE f) > 0 OR count(*) > 5');
-- joins: columns of both sides, entries that represent several rows
SELECT * FROM compare('SELECT count(*) FILTER (WHERE a > 5), sum(b) FILTER (WHERE a > 5)
	FROM facts JOIN small USING (k)');
SELECT * FROM compare('SELECT g, count(*) FILTER (WHERE a > g), sum(a * g) FROM facts JOIN small USING (k)
	GROUP BY g');
SELECT * FROM compare('SELECT s.k, count(b.k) FILTER (WHERE b.a > 5), sum(b.b + s.g)
	FROM small s LEFT JOIN facts b USING (k) GROUP BY s.k');
-- rows from the heap, DISTINCT below
SELECT * FROM compare('SELECT count(*) FILTER (WHERE a > 3), sum(b % 7) FROM facts
	WHERE k IN (1, 2, 3) AND s = ''s1''');
SELECT * FROM compare('SELECT count(*) FILTER (WHERE a > 3), sum(a * k) FROM
	(SELECT DISTINCT a, k FROM facts WHERE k IN (1, 2, 3)) u');
-- parameters: of a query, and of a subplan that is executed again while its rows stay the same
SELECT * FROM compare('SELECT s.g, (SELECT count(*) FILTER (WHERE a > s.g) FROM facts WHERE k IN (7, 8))
	FROM small s');
SELECT * FROM compare('SELECT s.g, (SELECT sum(a * s.g) FROM facts WHERE k IN (7, s.k)) FROM small s');
SET plan_cache_mode = force_generic_plan;
SET gpujoin.force = on;
PREPARE above(int) AS SELECT count(*) FILTER (WHERE a > $1), sum(a + $1) FROM facts WHERE k IN (1, 2);
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE above(3);
EXECUTE above(3);
EXECUTE above(NULL);
EXECUTE above(9);
RESET gpujoin.force;
RESET plan_cache_mode;
-- several passes
SET work_mem = '64kB';
SELECT * FROM compare('SELECT id, b, count(*) FILTER (WHERE a > 5), sum(c + 1) FROM facts b
	JOIN small s USING (k) GROUP BY id, b');
RESET work_mem;
-- partitions: columns at other positions
CREATE TABLE parted (id int, k int, a int) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF parted FOR VALUES IN (1, 2);
CREATE TABLE p2 (a int, k int, id int);
ALTER TABLE parted ATTACH PARTITION p2 FOR VALUES IN (3, 4);
INSERT INTO parted SELECT i, i % 4 + 1, i % 10 FROM generate_series(1, 1000) i;
CREATE INDEX ON parted USING gpujoin (k) INCLUDE (a);
VACUUM ANALYZE parted;
SELECT * FROM compare('SELECT k, count(*) FILTER (WHERE a > 5), sum(a * k) FROM parted WHERE k IN (1, 3, 4)
	GROUP BY k');

-- queries left to PostgreSQL
SELECT * FROM compare('SELECT count(*) FILTER (WHERE s = ''s1'') FROM facts WHERE k IN (1, 2)');
SELECT * FROM compare('SELECT count(*) FILTER (WHERE random() < 2) FROM facts WHERE k IN (1, 2)');
SELECT * FROM compare('SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM small WHERE g = a)) FROM facts
	WHERE k IN (1, 2)');
SELECT * FROM compare('SELECT sum(a::numeric) FROM facts WHERE k IN (1, 2)');

DROP SCHEMA aggregate_filter CASCADE;
