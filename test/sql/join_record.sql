--
-- Columns of type record: EXPLAIN must find the names of their fields
--
CREATE SCHEMA join_record;
SET search_path = join_record, public;
SET gpujoin.force = on;

CREATE TABLE graph (f int, t int, label text);
INSERT INTO graph VALUES (1, 2, 'arc 1 -> 2'), (1, 3, 'arc 1 -> 3'), (2, 3, 'arc 2 -> 3'), (1, 4, 'arc 1 -> 4'),
	(4, 5, 'arc 4 -> 5');
INSERT INTO graph SELECT i, i + 1, 'far' FROM generate_series(1001, 3000) i;
CREATE INDEX graph_f ON graph USING gpujoin (f);
CREATE TABLE graph2 AS SELECT * FROM graph WHERE f > 1000;
CREATE INDEX graph2_f ON graph2 USING gpujoin (f);
CREATE TABLE small AS SELECT i AS k, i * 10 AS w FROM generate_series(1, 5) i;
VACUUM ANALYZE graph, graph2, small;

-- SEARCH and CYCLE add such columns to the recursive side
EXPLAIN (VERBOSE, COSTS OFF)
WITH RECURSIVE walk(f, t, label) AS (
	SELECT * FROM graph WHERE f = 1
	UNION ALL
	SELECT g.* FROM graph g, walk w WHERE g.f = w.t
) SEARCH BREADTH FIRST BY f, t SET seq
SELECT * FROM walk ORDER BY seq;
WITH RECURSIVE walk(f, t, label) AS (
	SELECT * FROM graph WHERE f = 1
	UNION ALL
	SELECT g.* FROM graph g, walk w WHERE g.f = w.t
) SEARCH BREADTH FIRST BY f, t SET seq
SELECT * FROM walk ORDER BY seq;

EXPLAIN (VERBOSE, COSTS OFF)
WITH RECURSIVE walk(f, t, label) AS (
	SELECT * FROM graph WHERE f = 1
	UNION ALL
	SELECT g.* FROM graph g, walk w WHERE g.f = w.t
) SEARCH DEPTH FIRST BY f, t SET seq CYCLE f, t SET again USING path
SELECT * FROM walk ORDER BY seq;
WITH RECURSIVE walk(f, t, label) AS (
	SELECT * FROM graph WHERE f = 1
	UNION ALL
	SELECT g.* FROM graph g, walk w WHERE g.f = w.t
) SEARCH DEPTH FIRST BY f, t SET seq CYCLE f, t SET again USING path
SELECT * FROM walk ORDER BY seq;

-- From a subquery: used in the join, and above it
EXPLAIN (VERBOSE, COSTS OFF)
SELECT (s.r).w, g.t FROM (SELECT k, x AS r FROM (SELECT * FROM small OFFSET 0) x OFFSET 0) s JOIN graph g ON g.f = s.k;
SELECT (s.r).w, g.t FROM (SELECT k, x AS r FROM (SELECT * FROM small OFFSET 0) x OFFSET 0) s JOIN graph g ON g.f = s.k
ORDER BY 1, 2;
EXPLAIN (VERBOSE, COSTS OFF)
SELECT g.t FROM (SELECT x AS r FROM (SELECT * FROM small OFFSET 0) x OFFSET 0) s JOIN graph g ON g.f = (s.r).k;
SELECT g.t FROM (SELECT x AS r FROM (SELECT * FROM small OFFSET 0) x OFFSET 0) s JOIN graph g ON g.f = (s.r).k
ORDER BY 1;
EXPLAIN (VERBOSE, COSTS OFF)
WITH s AS MATERIALIZED (SELECT k, x AS r FROM (SELECT * FROM small OFFSET 0) x)
SELECT (r).w, sum(g.t) FROM s JOIN graph g ON g.f = s.k GROUP BY 1 ORDER BY 1;
WITH s AS MATERIALIZED (SELECT k, x AS r FROM (SELECT * FROM small OFFSET 0) x)
SELECT (r).w, sum(g.t) FROM s JOIN graph g ON g.f = s.k GROUP BY 1 ORDER BY 1;

-- From the big side
EXPLAIN (VERBOSE, COSTS OFF)
SELECT s.w, (b.r).f2 FROM small s JOIN (SELECT f, ROW(f, t) AS r FROM graph UNION ALL
	SELECT f, ROW(f, -t) FROM graph2) b ON b.f = s.k;
SELECT s.w, (b.r).f2 FROM small s JOIN (SELECT f, ROW(f, t) AS r FROM graph UNION ALL
	SELECT f, ROW(f, -t) FROM graph2) b ON b.f = s.k ORDER BY 1, 2;

-- Whole rows, whose fields the range table names, work; so do unused columns
EXPLAIN (VERBOSE, COSTS OFF)
SELECT s, (s).w, g.t FROM (SELECT * FROM small OFFSET 0) s JOIN graph g ON g.f = s.k;
SELECT s, (s).w, g.t FROM (SELECT * FROM small OFFSET 0) s JOIN graph g ON g.f = s.k ORDER BY 1, 3;
EXPLAIN (COSTS OFF)
SELECT g.t FROM (SELECT k, x AS r FROM (SELECT * FROM small OFFSET 0) x OFFSET 0) s JOIN graph g ON g.f = s.k;

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA join_record CASCADE;
