--
-- GpuAgg groups by uuids, and counts them: of INCLUDE columns, keys, rows of the table, the small
-- side of a join and other groups
--
CREATE SCHEMA aggregate_uuid;
SET search_path = aggregate_uuid, public;
SET gpujoin.min_rows = 0;
SET max_parallel_workers_per_gather = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql

CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$ SELECT md5($1::text)::uuid $$;
-- the upper or the lower half alone distinguishes nothing
CREATE FUNCTION half(int, int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT (lpad(to_hex($1), 16, '0') || lpad(to_hex($2), 16, '0'))::uuid $$;
CREATE TABLE big (id int, k int, u uuid, v int2, h uuid, w bigint, note text, late uuid) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 100, CASE WHEN i % 13 > 0 THEN id(i % 700) END, i % 10,
	CASE WHEN i % 17 > 0 THEN half(i % 5, i % 3) END, i, 'row ' || i, CASE WHEN i % 19 > 0 THEN id(i % 50) END
	FROM generate_series(1, 12000) i;
INSERT INTO big SELECT i, i % 20, u::uuid, 5, u::uuid, i, 'edge', u::uuid FROM generate_series(1, 40) i, unnest(ARRAY[
	'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff',
	'80000000-0000-0000-8000-000000000000', '80000000-0000-0000-0000-000000000000', NULL]) u;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (u, v, h, w);
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (v, h);
VACUUM (FREEZE, ANALYZE) big;

CREATE TABLE queries (id serial, q text);
INSERT INTO queries (q) SELECT unnest(ARRAY[
	'SELECT u, count(*) FROM %s GROUP BY u', 'SELECT u, h, count(*), sum(w), min(v), max(w) FROM %s GROUP BY u, h',
	'SELECT v, h, count(*), count(u) FROM %s GROUP BY h, v', 'SELECT DISTINCT u FROM %s', 'SELECT DISTINCT h, v, u FROM %s',
	'SELECT count(u), count(h), count(*) FROM %s', 'SELECT count(DISTINCT u) FROM %s', 'SELECT count(DISTINCT h), count(DISTINCT u), count(DISTINCT v) FROM %s',
	'SELECT v, count(DISTINCT u), count(DISTINCT h) FROM %s GROUP BY v', 'SELECT u, count(DISTINCT h) FROM %s GROUP BY u',
	'SELECT v, count(DISTINCT u) FILTER (WHERE w > 50), count(u) FILTER (WHERE v < 3) FROM %s GROUP BY v',
	'SELECT u, count(*) FROM %s GROUP BY u HAVING count(*) > 3', 'SELECT u::text, count(*) FROM %s GROUP BY u', 'SELECT u, sum(w + v) FROM %s GROUP BY u, v',
	'SELECT count(*), count(u), count(DISTINCT h) FROM (SELECT DISTINCT u, h, v FROM %s) d', 'SELECT u, count(*) FROM (SELECT DISTINCT h, u, v FROM %s) d GROUP BY u',
	'SELECT h, count(DISTINCT u), sum(n) FROM (SELECT u, h, count(*) AS n FROM %s GROUP BY u, h) d GROUP BY h',
	'SELECT h, count(*) FROM %s WHERE u <> id(1) GROUP BY h']);

-- Entries; rows of the table; the key
SELECT id, c.*, q FROM queries, compare(format(q, 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 60)))')) c
WHERE q !~ ' WHERE u' ORDER BY id;
SELECT id, c.* FROM queries, compare(format(replace(q, 'WHERE u', 'AND u'), 'big WHERE k IN (1, 3, 5, 7, 19)')) c ORDER BY id;
SELECT id, c.* FROM queries, compare(format(replace(q, 'WHERE u', 'AND u'), 'big WHERE k IN (1, 3, 5, 7, 19) AND note <> ''x''')) c ORDER BY id;
SELECT id, c.* FROM queries, compare(format(replace(replace(q, ' h', ' late'), 'WHERE u', 'AND u'), 'big WHERE k IN (1, 3, 5, 7, 19)')) c ORDER BY id;
SELECT id, c.* FROM queries, compare(format(replace(replace(q, 'w', 'v'), 'WHERE u', 'AND u'), 'big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 400) i))')) c ORDER BY id;
SELECT * FROM compare_arrays('SELECT u, count(*) FROM big WHERE k IN (1, 3, 5, 7, 19) GROUP BY u');
SELECT * FROM compare_arrays('SELECT late, count(u) FROM big WHERE k IN (1, 3, 5, 7, 19) GROUP BY late');
SELECT * FROM compare_arrays('SELECT u, count(*) FROM big WHERE u IN (id(1), id(2), id(3)) GROUP BY u');

-- Joins: the big side, the small side
CREATE TABLE small (x int, y uuid, t text);
INSERT INTO small SELECT i % 50, id(i % 9), 't' || i % 3 FROM generate_series(1, 70) i;
INSERT INTO small VALUES (1, NULL, NULL), (NULL, id(1), 'x');
ANALYZE small;
SELECT c.*, q FROM unnest(ARRAY['SELECT u, count(*), sum(w) FROM small JOIN big ON k = x GROUP BY u',
	'SELECT y, count(*), sum(w) FROM small JOIN big ON k = x GROUP BY y', 'SELECT y, u, count(*) FROM small JOIN big ON k = x GROUP BY y, u',
	'SELECT y, t, h, count(DISTINCT u) FROM small JOIN big ON k = x GROUP BY t, y, h', 'SELECT count(DISTINCT y), count(DISTINCT u), count(y), count(u) FROM small JOIN big ON k = x',
	'SELECT DISTINCT y, u, t FROM small JOIN big ON k = x', 'SELECT y, count(*) FROM small LEFT JOIN big ON k = x GROUP BY y',
	'SELECT u, count(*) FROM big WHERE EXISTS (SELECT 1 FROM small WHERE k = x) GROUP BY u',
	'SELECT y, count(*), count(DISTINCT h) FROM small JOIN big ON u = y GROUP BY y', 'SELECT u, t, count(*) FROM small JOIN big ON u = y GROUP BY u, t',
	'SELECT u, y, count(*), sum(w) FROM small JOIN big ON k = x AND u = y GROUP BY u, y', 'SELECT late, y, count(*) FROM small JOIN big ON k = x GROUP BY late, y']) q, compare(q) c;

-- Little memory: groups and values are spilled
SET work_mem = '64kB';
INSERT INTO big SELECT i, i % 100, id(i), i % 10, half(i % 7, i), i, 'many' FROM generate_series(20000, 60000) i;
VACUUM (FREEZE, ANALYZE) big;
SELECT c.*, q FROM unnest(ARRAY['SELECT u, count(*), sum(w) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY u',
	'SELECT count(DISTINCT u), count(DISTINCT h) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))',
	'SELECT v, count(DISTINCT u), count(DISTINCT h) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY v',
	'SELECT DISTINCT h, u FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))',
	'SELECT count(*) FROM (SELECT DISTINCT h, u FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))) d']) q, compare(q) c;
RESET work_mem;

-- Rows that are not all-visible; rescans; EXPLAIN
UPDATE big SET u = id(7) WHERE id % 9 = 0;
SELECT id, c.* FROM queries, compare(format(replace(q, 'WHERE u', 'AND u'), 'big WHERE k IN (1, 3, 5, 7, 19)')) c ORDER BY id;
SELECT * FROM compare('SELECT s, q.* FROM generate_series(1, 5) s, LATERAL (SELECT u, count(*) n FROM big WHERE k IN (s, s + 1) AND v < 3 GROUP BY u) q');
SET gpujoin.force = on;
EXPLAIN (VERBOSE, COSTS OFF) SELECT h, v, u, count(DISTINCT u), sum(w) FROM big WHERE k IN (1, 3) GROUP BY u, v, h;

-- Parallel plans
SET max_parallel_workers_per_gather = 2;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT n, differ FROM answers('SELECT u, h, count(*), sum(w), count(u) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY h, u');
SELECT n, differ FROM answers('SELECT DISTINCT h, v FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))');

SET client_min_messages = warning;
DROP SCHEMA aggregate_uuid CASCADE;
