--
-- Parallel joins in which each process executes the small side itself: only if all of them are
-- certain to get the same rows
--
CREATE SCHEMA parallel_same;
SET search_path = parallel_same, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql

-- so that the small side has no Gather
SET enable_parallel_append = off;
CREATE TABLE small WITH (parallel_workers = 0) AS
	SELECT i * 3 AS k, i AS w, i % 7 AS g, i::numeric / 4 AS n, i::float8 / 3 AS f, 'name ' || i % 9 AS t
	FROM generate_series(1, 150) i;
VACUUM ANALYZE big, small;

-- Keys that differ between processes, from a volatile function that workers may execute. All rows
-- of all nine keys are requested, whichever keys these are.
CREATE VIEW found AS
	SELECT b.k FROM (VALUES (('x' || left(gen_random_uuid()::text, 4))::bit(16)::int % 80 * 10), (5000)) f (start)
		CROSS JOIN generate_series(1, 9) i JOIN big b ON b.k = f.start + i;
EXPLAIN (COSTS OFF) SELECT * FROM found;
CREATE TABLE keys AS SELECT k, count(*) AS n FROM big GROUP BY k;
CREATE TABLE found_once AS TABLE found;
SELECT count(*) AS keys, sum(n - rows_found) AS missing
	FROM (SELECT k, count(*) AS rows_found FROM found_once GROUP BY k) f JOIN keys USING (k);

-- The same in hidden places. These volatile functions return what the others would return here.
CREATE FUNCTION vol(x int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS 'BEGIN RETURN x; END';
CREATE FUNCTION stab(x int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN x; END';
CREATE FUNCTION check_all(queries text[]) RETURNS TABLE (plan text, query text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH query IN ARRAY queries LOOP
		plan := compare(query);
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM check_all(ARRAY[
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE vol(s.w) > 9',
	'SELECT b.id, x FROM (SELECT k, vol(w) AS x FROM small) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM (VALUES (vol(3)), (6)) s (k) JOIN big b ON b.k = s.k',
	'SELECT b.id FROM generate_series(1, vol(9)) g JOIN big b ON b.k = g',
	'SELECT b.id FROM small s JOIN small t ON s.w = vol(t.g) JOIN big b ON b.k = s.k',
	'SELECT b.id FROM small s LEFT JOIN small t ON s.w = t.g AND vol(t.w) < 9 JOIN big b ON b.k = s.k',
	'SELECT id FROM big WHERE k IN (SELECT k FROM small WHERE vol(w) > 9)',
	'SELECT b.id FROM (SELECT k FROM small UNION ALL SELECT vol(w) FROM small) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE s.w NOT IN (SELECT vol(g) FROM small)']);

-- Queries that depend on the order of rows, or on chance
SELECT * FROM check_all(ARRAY[
	'SELECT b.id FROM small s TABLESAMPLE bernoulli (100) JOIN big b ON b.k = s.k',
	'SELECT b.id FROM (SELECT DISTINCT ON (g) g FROM small) s JOIN big b ON b.k = s.g',
	'SELECT b.id FROM (SELECT (array_agg(k))[1] AS k FROM small GROUP BY g) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM (SELECT g, sum(f)::int AS k FROM small GROUP BY g) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM (SELECT n, min(k) AS k FROM small GROUP BY n) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM (SELECT DISTINCT n, k FROM small) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE s.w NOT IN (SELECT g FROM small LIMIT 200)',
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE s.xmax = 0']);

-- Functions whose rows come in an order of their own: they read a table, which synchronized scans
-- do not begin at its first row. Here each process gets them in another order. All rows of all
-- keys that are found must be found.
CREATE FUNCTION ordered(most int) RETURNS SETOF int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	PERFORM pg_sleep(0.2);		-- so that all workers get some rows
	RETURN QUERY SELECT s.k FROM small s WHERE w <= most ORDER BY w * (pg_backend_pid() % 150 + 1) % 151;
END $$;
CREATE FUNCTION missing(query text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL client_min_messages = warning;
	DROP TABLE IF EXISTS pg_temp.found_now;
	EXECUTE 'CREATE TEMP TABLE found_now AS ' || query;
	RETURN (SELECT sum(n - rows_found) FROM (SELECT k, count(*) AS rows_found FROM found_now GROUP BY k) f
		JOIN keys USING (k));
END $$;
SET parallel_leader_participation = off;
SELECT missing(query) AS missing, query FROM unnest(ARRAY[
	'SELECT b.k, v FROM ordered(150) WITH ORDINALITY s (k, n) JOIN big b ON b.k = s.k AND s.n <= 75',
	'SELECT b.k, v FROM ROWS FROM (ordered(150), generate_series(1, 150)) s (k, n) JOIN big b ON b.k = s.k AND s.n <= 75',
	'SELECT b.k, v FROM (SELECT ordered(150) AS k, generate_series(1, 150) AS n) s JOIN big b ON b.k = s.k AND s.n <= 75'])
	query;
RESET parallel_leader_participation;
EXPLAIN (COSTS OFF) SELECT b.k, v FROM ordered(150) WITH ORDINALITY s (k, n) JOIN big b ON b.k = s.k AND s.n <= 75;
-- the rows of other functions do not, or their order does not matter
SELECT * FROM check_all(ARRAY[
	'SELECT b.id, n FROM unnest(ARRAY[3, 6, stab(9)]) WITH ORDINALITY s (k, n) JOIN big b ON b.k = s.k',
	'SELECT b.id, n FROM ROWS FROM (generate_series(3, 9), unnest(ARRAY[6, 9])) s (k, n) JOIN big b ON b.k = s.k',
	'SELECT b.id FROM ordered(50) s JOIN big b ON b.k = s']);
-- (before 16, these do not run in workers)
SELECT regexp_replace(compare('SELECT b.id, n FROM (SELECT generate_series(1, 9) AS k, generate_series(4, 7) AS n) s JOIN big b ON b.k = s.k'), '^.*: ', '') AS compare;

-- Queries that do not are divided: stable functions, groups of values equal only to themselves,
-- exact aggregates; and conditions that one process tests for each result row
SELECT * FROM check_all(ARRAY[
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE stab(s.w) > 9',
	'SELECT b.id FROM (SELECT DISTINCT k, t FROM small) s JOIN big b ON b.k = s.k',
	'SELECT b.id, c FROM (SELECT k, count(*) AS c, sum(w), max(t) FROM small GROUP BY k) s JOIN big b ON b.k = s.k',
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE s.w NOT IN (SELECT g FROM small)',
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE s.w > (SELECT min(vol(g)) FROM small)',
	'SELECT b.id FROM small s JOIN big b ON b.k = s.k WHERE vol(b.v) > 3',
	'SELECT b.id, vol(b.v) FROM small s JOIN big b ON b.k = s.k']);

-- A set of keys: not from a volatile function; a subquery's array is the same in all processes
SELECT * FROM check_all(ARRAY[
	'SELECT id FROM big WHERE k = ANY (ARRAY[vol(3), 6])',
	'SELECT id FROM big WHERE k = ANY (ARRAY[stab(3), 6])',
	'SELECT id FROM big WHERE k = ANY (ARRAY(SELECT vol(k) FROM small ORDER BY g LIMIT 20))']);

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA parallel_same CASCADE;
