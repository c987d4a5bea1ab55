--
-- Parallel plans: a subquery with OFFSET 0, which limits nothing, is shared by the outer query
--
CREATE SCHEMA parallel_subquery;
SET search_path = parallel_subquery, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql

CREATE TABLE small AS SELECT i * 3 AS k, i AS w FROM generate_series(1, 150) i;
CREATE TABLE other (id int, k int) WITH (parallel_workers = 3);
INSERT INTO other SELECT i, i % 100 FROM generate_series(1, 10000) i;
VACUUM ANALYZE small, other;

EXPLAIN (COSTS OFF)
SELECT count(id), count(v), count(w) FROM (SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k OFFSET 0) r;

-- Aggregates, joins and filters above it, and one such subquery within another
SELECT compare('SELECT count(id), sum(v), count(w) AS n FROM
	(SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k OFFSET 0) r');
SELECT compare('SELECT v, count(*), sum(id) FROM
	(SELECT * FROM big WHERE k = ANY (ARRAY(SELECT i FROM generate_series(1, 300) i)) OFFSET 0) r GROUP BY v');
SELECT compare('SELECT r.w, r.id FROM
	(SELECT b.*, s.w FROM small s JOIN big b ON b.k = s.k OFFSET 0) r WHERE r.v > 3');
SELECT compare('SELECT o.id, r.v FROM
	(SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 0) r JOIN other o ON o.id = r.id');
SELECT compare('SELECT count(*), sum(x) FROM
	(SELECT w + id AS x FROM (SELECT b.id, s.w FROM small s JOIN big b ON b.k = s.k OFFSET 0) i OFFSET 0) r');
SELECT compare('SELECT count(*) FROM
	(SELECT b.* FROM small s JOIN big b ON b.k = s.k LIMIT ALL) r');
SELECT compare('SELECT id, w FROM (SELECT b.id, s.w FROM small s JOIN big b ON b.k = s.k OFFSET 0) r
	UNION ALL SELECT id, k FROM other');
SELECT compare('SELECT DISTINCT v FROM (SELECT b.v FROM small s JOIN big b ON b.k = s.k OFFSET 0) r');

-- Actual offsets and limits: the subquery's rows come from one process
CREATE FUNCTION is_shared(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Partial ((Group|Hash)?Aggregate|GpuAgg)' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;
SELECT is_shared('SELECT count(*), sum(v) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 0) r') AS yes,
	is_shared('SELECT count(*), sum(v) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 1) r') AS skips,
	is_shared('SELECT count(*), sum(v) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k LIMIT 7) r') AS stops,
	is_shared('SELECT count(*), sum(v) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k LIMIT 7 OFFSET 0) r') AS stops_too,
	is_shared('SELECT count(*), sum(v) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k ORDER BY id OFFSET 0) r') AS sorts;
SELECT count(*) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 1) r;
SELECT count(*) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k LIMIT 7) r;

-- Expressions that no worker may compute are kept out of workers, and so are subqueries without our
-- nodes
CREATE FUNCTION only_here(int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	AS 'BEGIN RETURN $1; END';
SELECT is_shared('SELECT count(*) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 0) r
	WHERE only_here(id) > 0') AS filter,
	is_shared('SELECT sum(only_here(id)) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 0) r') AS argument,
	is_shared('SELECT sum(x) FROM (SELECT only_here(id) AS x FROM small s JOIN big b ON b.k = s.k OFFSET 0) r') AS column,
	is_shared('SELECT count(*) FROM (SELECT * FROM other OFFSET 0) r') AS not_ours;
SELECT compare('SELECT sum(only_here(id)) FROM (SELECT b.* FROM small s JOIN big b ON b.k = s.k OFFSET 0) r');
SELECT s.w, (SELECT sum(r.v + s.w) FROM (SELECT b.v FROM small s JOIN big b ON b.k = s.k OFFSET 0) r)
	FROM small s ORDER BY 1 LIMIT 3;
SELECT s.w, l.n FROM small s,
	LATERAL (SELECT count(*) AS n FROM (SELECT b.id FROM small t JOIN big b ON b.k = t.k WHERE t.w < s.w OFFSET 0) r) l
	ORDER BY 1 LIMIT 3;

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA parallel_subquery CASCADE;
