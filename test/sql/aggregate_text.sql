--
-- GpuAgg groups by text columns of an index, and counts them; texts that the index does not store
-- come from the table
--
CREATE SCHEMA aggregate_text;
SET search_path = aggregate_text, public;
SET gpujoin.min_rows = 0;
SET max_parallel_workers_per_gather = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql

CREATE TABLE big (id int, k int, status varchar, t text COLLATE "C", v int2, w bigint, l text, far text) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 100, (ARRAY['paid', 'open', 'shipped', '', NULL])[1 + i % 5],
	CASE WHEN i % 13 > 0 THEN left('abcdefghijklmnopqr', i % 17) || CASE WHEN i % 3 = 0 THEN 'ä' ELSE '' END END, i % 10, i,
	CASE WHEN i % 40 = 0 THEN 'longer than fifteen bytes ' || i % 7 WHEN i % 41 > 0 THEN 'short ' || i % 9 END, 'far ' || i % 3
	FROM generate_series(1, 12000) i;
INSERT INTO big SELECT i, i % 20, t, t, 5, i, t FROM generate_series(1, 40) i,
	unnest(ARRAY[repeat('y', 3000), (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i), E'\x01', E'\x01\x01', '', ' ']) t;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (status, t, v, w, l);
VACUUM (FREEZE, ANALYZE) big;

CREATE TABLE queries (id serial, q text);
INSERT INTO queries (q) SELECT unnest(ARRAY[
	'SELECT status, count(*), sum(w) FROM %s GROUP BY status', 'SELECT t, l, count(*), sum(w), min(v), max(w) FROM %s GROUP BY l, t',
	'SELECT v, l, count(*), count(t) FROM %s GROUP BY l, v', 'SELECT DISTINCT t FROM %s', 'SELECT DISTINCT l, v, status FROM %s',
	'SELECT count(t), count(l), count(*) FROM %s', 'SELECT count(DISTINCT t) FROM %s', 'SELECT count(DISTINCT l), count(DISTINCT t), count(DISTINCT status), count(DISTINCT v) FROM %s',
	'SELECT v, count(DISTINCT l), count(DISTINCT status) FROM %s GROUP BY v', 'SELECT status, count(DISTINCT l) FROM %s GROUP BY status',
	'SELECT v, count(DISTINCT l) FILTER (WHERE w > 50), count(t) FILTER (WHERE v < 3) FROM %s GROUP BY v',
	'SELECT l, count(*) FROM %s GROUP BY l HAVING count(*) > 3', 'SELECT upper(l), count(*) FROM %s GROUP BY l', 'SELECT l || v, sum(w + v) FROM %s GROUP BY l, v',
	'SELECT count(*) FROM (SELECT DISTINCT l, status, v FROM %s) d', 'SELECT l, count(*) FROM (SELECT DISTINCT l, t, v FROM %s) d GROUP BY l']);
SELECT id, c.*, q FROM queries, compare(format(q, 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 60)))')) c ORDER BY id;
SELECT id, c.* FROM queries, compare(format(q, 'big WHERE k IN (1, 3, 5, 7, 19) AND status <> ''open'' AND l <> ''short 1''')) c ORDER BY id;
SELECT * FROM compare_arrays('SELECT status, count(*) FROM big WHERE k IN (41, 43) GROUP BY status');
-- not read from the index, or compared otherwise
SELECT * FROM compare('SELECT far, count(*) FROM big WHERE k IN (1, 3) GROUP BY far');
SELECT * FROM compare('SELECT status, count(far) FROM big WHERE k IN (1, 3) GROUP BY status');
SELECT * FROM compare('SELECT status, max(far) FROM big WHERE k IN (1, 3) GROUP BY status');

CREATE TABLE small (x int, y text);
INSERT INTO small SELECT i % 50, 'small ' || i % 3 || CASE WHEN i % 2 = 0 THEN ' and longer than fifteen' ELSE '' END FROM generate_series(1, 70) i;
INSERT INTO small VALUES (1, NULL), (NULL, 'x');
ANALYZE small;
SELECT c.*, q FROM unnest(ARRAY['SELECT status, count(*), sum(w) FROM small JOIN big ON k = x GROUP BY status',
	'SELECT y, l, count(*), sum(w) FROM small JOIN big ON k = x GROUP BY y, l', 'SELECT y, count(DISTINCT l), count(t) FROM small JOIN big ON k = x GROUP BY y',
	'SELECT DISTINCT l, y, status FROM small JOIN big ON k = x', 'SELECT l, count(*) FROM big WHERE EXISTS (SELECT 1 FROM small WHERE k = x) GROUP BY l',
	'SELECT y, l, status, count(*) FROM small JOIN big ON k = x AND status = y GROUP BY y, l, status']) q, compare(q) c;

SET work_mem = '64kB';
INSERT INTO big SELECT i, i % 100, 'number ' || i, NULL, i % 10, i, CASE WHEN i % 50 = 0 THEN 'a number above fifteen bytes: ' ELSE 'n' END || i FROM generate_series(20000, 60000) i;
VACUUM (FREEZE, ANALYZE) big;
SELECT c.*, q FROM unnest(ARRAY['SELECT l, count(*), sum(w) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY l',
	'SELECT count(DISTINCT l), count(DISTINCT status) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))',
	'SELECT DISTINCT l, status FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))']) q, compare(q) c;
RESET work_mem;

-- Rows that are not all-visible; rescans; parallel plans
UPDATE big SET l = 'changed to a longer value' WHERE id % 9 = 0;
UPDATE big SET status = 'moved' WHERE id % 10 = 0;
SELECT id, c.* FROM queries, compare(format(q, 'big WHERE k IN (1, 3, 5, 7, 19)')) c ORDER BY id;
SELECT * FROM compare('SELECT s, q.* FROM generate_series(1, 5) s, LATERAL (SELECT l, count(*) n FROM big WHERE k IN (s, s + 1) AND v < 3 GROUP BY l) q');
SET gpujoin.force = on;
EXPLAIN (VERBOSE, COSTS OFF) SELECT l, v, status, count(DISTINCT t), sum(w) FROM big WHERE k IN (1, 3) GROUP BY status, v, l;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT n, differ FROM answers('SELECT status, l, count(*), sum(w), count(t) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY l, status');

SET client_min_messages = warning;
DROP SCHEMA aggregate_text CASCADE;
