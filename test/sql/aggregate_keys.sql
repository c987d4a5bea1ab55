--
-- GpuAgg groups by numeric columns of an index, by value: 1.5 and 1.50 are one group, shown as one
-- of its members is; and by mixed columns, with values that the index does not store
--
CREATE SCHEMA aggregate_keys;
SET search_path = aggregate_keys, public;
SET gpujoin.min_rows = 0;
SET max_parallel_workers_per_gather = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql

-- m: mostly two digits, with others, also equal ones; n: no type modifier; x: each value has one form
CREATE TABLE big (id int, k int, u uuid, status varchar, m numeric(14,2), n numeric, x numeric, t text COLLATE "C", v int2, w bigint, far numeric)
	WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 100, md5((i % 50)::text)::uuid, (ARRAY['paid', 'open', 'longer than fifteen bytes', '', NULL])[1 + i % 5],
	CASE WHEN i % 17 > 0 THEN i % 40 / 4.0 END,
	CASE i % 23 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN 1e40 WHEN 4 THEN 1.5 WHEN 5 THEN 1.50 WHEN 6 THEN 1.500 WHEN 7 THEN 0
		WHEN 8 THEN 0.00 WHEN 9 THEN NULL WHEN 10 THEN 1e40 + i % 2 WHEN 11 THEN 0.12345678901234567890 WHEN 12 THEN -7 ELSE (i % 30)::numeric(12,2) END,
	CASE i % 29 WHEN 0 THEN 'NaN' WHEN 1 THEN 1e30 + i % 3 WHEN 2 THEN NULL WHEN 3 THEN 'Infinity' ELSE (i % 300)::numeric(12,2) END,
	CASE WHEN i % 13 > 0 THEN left('abcdefghijklmnopqr', i % 17) || CASE WHEN i % 3 = 0 THEN 'z and more than fifteen' ELSE '' END END, i % 10, i, i % 7
	FROM generate_series(1, 12000) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (u, status, m, n, x, t, v, w);
VACUUM (FREEZE, ANALYZE) big;

-- Groups by n are compared by value, as each is shown like any of its members
CREATE TABLE queries (id serial, q text);
INSERT INTO queries (q) SELECT unnest(ARRAY[
	'SELECT m, count(*), sum(w) FROM %s GROUP BY m', 'SELECT x, count(*), sum(w), min(v) FROM %s GROUP BY x', 'SELECT x, m, status, count(*), sum(m), avg(x) FROM %s GROUP BY x, status, m',
	'SELECT trim_scale(n), count(*), sum(w) FROM %s GROUP BY n', 'SELECT trim_scale(n), m, v, count(*), sum(n) FROM %s GROUP BY v, n, m', 'SELECT DISTINCT x FROM %s',
	'SELECT DISTINCT u, status, m FROM %s', 'SELECT DISTINCT m, x, t FROM %s', 'SELECT count(*) FROM (SELECT DISTINCT n, v FROM %s) d', 'SELECT x, count(*) FROM (SELECT DISTINCT x, n, v FROM %s) d GROUP BY x',
	'SELECT count(DISTINCT n), count(DISTINCT m), count(DISTINCT x), count(DISTINCT t), count(DISTINCT status), count(DISTINCT u) FROM %s',
	'SELECT v, count(DISTINCT n), count(DISTINCT m) FILTER (WHERE w > 5000), count(DISTINCT t), count(DISTINCT status) FROM %s GROUP BY v',
	'SELECT m, count(DISTINCT n), count(DISTINCT m), count(DISTINCT t), max(m), min(x) FROM %s GROUP BY m', 'SELECT min(t), max(t), count(*) FROM %s', 'SELECT v, min(t), max(t), max(t) FILTER (WHERE w < 1000) FROM %s GROUP BY v',
	'SELECT status, m, min(t), max(t), min(m), max(x) FROM %s GROUP BY m, status', 'SELECT min(status COLLATE "C"), max(status COLLATE "C") FROM %s', 'SELECT x, max(status COLLATE "C") FROM %s GROUP BY x HAVING count(*) > 2',
	'SELECT t, m, min(t), count(DISTINCT t) FROM %s GROUP BY t, m', 'SELECT x * 2, x + v, count(*) FROM %s GROUP BY x, v', 'SELECT min(x), max(x), min(m), max(m), sum(n), avg(n) FROM %s']);
SELECT id, c.*, q FROM queries, compare(format(q, 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 60)))')) c ORDER BY id;
SELECT id, c.* FROM queries, compare(format(q, 'big WHERE k IN (1, 3, 5, 7, 19) AND m <> 2.5 AND status <> ''open''')) c ORDER BY id;
SELECT id, c.* FROM queries, compare(format(q, 'big WHERE k IN (1, 3, 5) AND v > 50')) c ORDER BY id;
-- Each group is shown like one of its members
SET gpujoin.force = on;
SELECT count(*), bool_and(EXISTS (SELECT FROM big b WHERE b.v = g.v AND b.n = g.n AND b.n::text = g.n::text AND b.k IN (4, 5, 7, 8, 27, 28, 30, 31, 50, 51, 73, 74)))
	FROM (SELECT v, n FROM big WHERE k IN (4, 5, 7, 8, 27, 28, 30, 31, 50, 51, 73, 74) GROUP BY v, n OFFSET 0) g WHERE n IS NOT NULL;
EXPLAIN (VERBOSE, COSTS OFF) SELECT n, status, min(t), count(DISTINCT m), sum(n) FROM big WHERE k IN (1, 3) GROUP BY status, n;
RESET gpujoin.force;
CREATE TABLE scales (k int, n numeric);
INSERT INTO scales SELECT 1, x FROM unnest(ARRAY[('1.5' || repeat('0', 5000))::numeric, 1.5, 1.50, 2, ('2.' || repeat('0', 16383))::numeric, -0.00, 0, 'NaN', '-Infinity', 1e-30, 0.0000000000000000000000000000010000, 99999999999999999999.00, 99999999999999999999]) x;
CREATE INDEX ON scales USING gpujoin (k) INCLUDE (n);
VACUUM (FREEZE, ANALYZE) scales;
SET gpujoin.force = on;
SELECT trim_scale(n), scale(n), c, EXISTS (SELECT FROM scales s WHERE s.n::text = g.n::text) FROM (SELECT n, count(*) c FROM scales WHERE k = 1 GROUP BY n OFFSET 0) g ORDER BY n;
RESET gpujoin.force;
-- not read from the index; an order that is not that of bytes; values of a join's small side
SELECT * FROM compare('SELECT far, count(*) FROM big WHERE k IN (1, 3) GROUP BY far');
SELECT * FROM compare('SELECT x, max(t COLLATE "en-x-icu") FROM big WHERE k IN (1, 3) GROUP BY x') WHERE EXISTS (SELECT FROM pg_collation WHERE collname = 'en-x-icu')
	UNION ALL SELECT 'not GpuAgg', 12, 0 WHERE NOT EXISTS (SELECT FROM pg_collation WHERE collname = 'en-x-icu');
CREATE TABLE small (x int, y text, z numeric);
INSERT INTO small SELECT i % 50, 'small ' || i % 3 || CASE WHEN i % 2 = 0 THEN ' and longer than fifteen' ELSE '' END, (i % 4)::numeric(12,2) FROM generate_series(1, 70) i;
INSERT INTO small VALUES (1, NULL, 'NaN'), (NULL, 'x', 1);
ANALYZE small;
SELECT c.*, q FROM unnest(ARRAY['SELECT big.x, count(*), sum(w) FROM small JOIN big ON k = small.x GROUP BY big.x',
	'SELECT y, z, big.x, status, count(*), sum(m) FROM small JOIN big ON k = small.x GROUP BY y, z, status, big.x', 'SELECT y, min(t), max(t), count(DISTINCT n), count(DISTINCT t) FROM small JOIN big ON k = small.x GROUP BY y',
	'SELECT DISTINCT m, y, u, status FROM small JOIN big ON k = small.x', 'SELECT big.x, max(t) FROM big WHERE EXISTS (SELECT 1 FROM small WHERE k = small.x) GROUP BY big.x',
	'SELECT z, max(n), min(m) FROM small JOIN big ON k = small.x GROUP BY z']) q, compare(q) c;

-- More values without words than fit into memory
INSERT INTO big SELECT i, i % 100, md5(i::text)::uuid, 'a status above fifteen bytes: ' || i % 5000, i % 3000, CASE WHEN i % 2 = 0 THEN i / 7.0 ELSE i END, CASE WHEN i % 50 = 0 THEN i / 8.0 ELSE 'NaN' END,
	CASE WHEN i % 5 > 0 THEN 'a number above fifteen bytes: ' ELSE 'n' END || i % 7000, i % 10, i FROM generate_series(20000, 34000) i;
VACUUM (FREEZE, ANALYZE) big;
CREATE FUNCTION passes(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text := forced_plan(q, 'ANALYZE, TIMING OFF, FORMAT JSON');
	passes int := substring(plan FROM '"Passes": (\d+)');
	memory int := substring(plan FROM '"Memory Usage": (\d+)');
BEGIN
	RETURN CASE WHEN passes > 1 THEN 'passes' ELSE 'one pass' END || CASE WHEN memory <= 1536 THEN '' ELSE ', much memory' END;
END $$;
SET work_mem = '64kB';
SELECT passes(f), c.*, q FROM unnest(ARRAY['SELECT t, count(*), sum(w), min(v) FROM %s GROUP BY t', 'SELECT status, t, count(*), max(t), sum(n) FROM %s GROUP BY status, t', 'SELECT trim_scale(n), v FROM (SELECT DISTINCT v, n FROM %s) d',
	'SELECT trim_scale(n), count(*), sum(w), max(t), sum(n) FROM %s GROUP BY n', 'SELECT DISTINCT u, status, m FROM %s', 'SELECT count(DISTINCT n), count(DISTINCT t), count(DISTINCT status) FROM %s',
	'SELECT v, count(DISTINCT n), count(DISTINCT t), count(DISTINCT status), max(status COLLATE "C") FROM %s GROUP BY v', 'SELECT status, count(DISTINCT t), count(DISTINCT n), min(t), avg(n) FROM %s GROUP BY status']) q,
	format(q, 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))') f, compare(f) c;
SET work_mem = '256kB';
SELECT c.* FROM unnest(ARRAY['SELECT t, count(*), sum(w), min(v) FROM %s GROUP BY t', 'SELECT trim_scale(n), status, count(*), sum(w), count(DISTINCT t) FROM %s GROUP BY n, status']) q,
	format(q, 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))') f, compare(f) c;
RESET work_mem;

-- Rows that are not all-visible; rescans; parallel plans
UPDATE big SET status = 'changed to a longer value', x = x + 0.5 WHERE id % 9 = 0;
UPDATE big SET m = m + 1, n = n + 1 WHERE id % 10 = 0;
SELECT id, c.* FROM queries, compare(format(q, 'big WHERE k IN (1, 3, 5, 7, 19)')) c ORDER BY id;
SELECT * FROM compare('SELECT s, q.* FROM generate_series(1, 5) s, LATERAL (SELECT x, max(t), count(*) n FROM big WHERE k IN (s, s + 1) AND v < 3 GROUP BY x) q');
SET max_parallel_workers_per_gather = 2;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT c.*, q FROM unnest(ARRAY['SELECT x, status, count(*), sum(w), sum(n), max(t), min(x) FROM %s GROUP BY x, status', 'SELECT DISTINCT u, status, m FROM %s', 'SELECT max(t), min(t), sum(x), avg(m), max(n) FROM %s',
	'SELECT trim_scale(n), m, count(*) FROM %s GROUP BY n, m', 'SELECT y, x2, count(*), max(t) FROM (SELECT small.y, big.x x2, t FROM small JOIN %s AND k = small.x) j GROUP BY y, x2']) q,
	format(q, CASE WHEN q ~ 'JOIN' THEN 'big ON v < 9' ELSE 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))' END) f, answers(f) c;
SET work_mem = '64kB';
SELECT c.*, q FROM unnest(ARRAY['SELECT t, count(*), sum(w), max(status COLLATE "C") FROM %s GROUP BY t', 'SELECT DISTINCT u, status, m FROM %s', 'SELECT trim_scale(n), count(*), sum(n) FROM %s GROUP BY n']) q,
	answers(format(q, 'big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))')) c;
RESET work_mem;

-- Partitions whose indexes have other scales
SET max_parallel_workers_per_gather = 0;
CREATE TABLE parted (k int, v int, n numeric, t text COLLATE "C") PARTITION BY LIST (v);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES IN (3);
INSERT INTO parted SELECT i % 100, 1 + i % 3, round(i % 30 / 4.0, 1 + i % 3), 'text ' || i % 8 || CASE WHEN i % 4 = 0 THEN ' above fifteen bytes' ELSE '' END FROM generate_series(1, 9000) i;
CREATE INDEX ON parted USING gpujoin (k) INCLUDE (n, t, v);
VACUUM (FREEZE, ANALYZE) parted;
SELECT c.*, q FROM unnest(ARRAY['SELECT trim_scale(n), count(*) FROM %s GROUP BY n', 'SELECT trim_scale(n), t, count(*), max(t), sum(n), count(DISTINCT n) FROM %s GROUP BY n, t', 'SELECT trim_scale(n) FROM (SELECT DISTINCT n FROM %s) d',
	'SELECT v, min(t), max(t), count(DISTINCT n), count(DISTINCT t) FROM %s GROUP BY v']) q, compare(format(q, 'parted WHERE k IN (1, 3, 5, 7)')) c;
SET max_parallel_workers_per_gather = 2;
SELECT c.*, q FROM unnest(ARRAY['SELECT trim_scale(n), t, count(*), max(t), sum(n) FROM %s GROUP BY n, t', 'SELECT trim_scale(n) FROM (SELECT DISTINCT n FROM %s) d']) q, answers(format(q, 'parted WHERE k IN (1, 3, 5, 7)')) c;

-- char(n), whose trailing blanks count for nothing; without a length, a group is shown like one of its members
SET max_parallel_workers_per_gather = 0;
CREATE TABLE fixed (k int, c char(3), d char(30), e bpchar, f char(200), w int) WITH (autovacuum_enabled = off);
INSERT INTO fixed SELECT i % 100, (ARRAY['a', 'ab', 'ä', '', NULL])[1 + i % 5], left('abcdefghijklmnopqrstuvwxyz', i % 23), (ARRAY['a', 'a  ', 'a   ', 'b', '', ' ', repeat('c', 16), repeat('c', 16) || ' ', 'a' || repeat(' ', 150)])[1 + i % 9], 'f' || i % 6, i
	FROM generate_series(1, 9000) i;
CREATE INDEX ON fixed USING gpujoin (k) INCLUDE (c, d, e, f, w);
VACUUM (FREEZE, ANALYZE) fixed;
CREATE TABLE fixed_queries (id serial, q text);
INSERT INTO fixed_queries (q) SELECT unnest(ARRAY['SELECT c, count(*), sum(w) FROM %s GROUP BY c', 'SELECT d, c, f, count(*) FROM %s GROUP BY c, d, f', 'SELECT DISTINCT c, d FROM %s', 'SELECT e::text, count(*), sum(w) FROM %s GROUP BY e', 'SELECT e::text, c, count(DISTINCT d) FROM %s GROUP BY c, e',
	'SELECT count(DISTINCT c), count(DISTINCT d), count(DISTINCT e), count(DISTINCT f), count(e) FROM %s', 'SELECT c, count(DISTINCT e), count(DISTINCT f), count(d) FROM %s GROUP BY c', 'SELECT d, count(*) FROM %s GROUP BY d HAVING d > ''abc''']);
SELECT c.*, q FROM fixed_queries, compare(format(q, 'fixed WHERE k IN (1, 3, 5, 7, 50)')) c ORDER BY id;
SET gpujoin.force = on;
SELECT count(*), bool_and(EXISTS (SELECT FROM fixed b WHERE b.c = g.c AND octet_length(b.e) = octet_length(g.e) AND b.e = g.e AND b.k IN (1, 3, 5, 7, 50))) FROM (SELECT c, e FROM fixed WHERE k IN (1, 3, 5, 7, 50) GROUP BY c, e OFFSET 0) g WHERE c IS NOT NULL;
RESET gpujoin.force;
SELECT * FROM compare('SELECT max(c) FROM fixed WHERE k IN (1, 3)');
SET work_mem = '64kB';
INSERT INTO fixed SELECT i % 100, 'abc', 'number ' || i % 7000 || CASE WHEN i % 3 > 0 THEN ' and further bytes' ELSE '' END, 'value ' || i || repeat(' ', i % 4) || CASE WHEN i % 2 = 0 THEN repeat('x', 11) ELSE '' END, 'f', i FROM generate_series(10000, 24000) i;
UPDATE fixed SET w = w + 1 WHERE w % 10 = 0;
SELECT c.*, q FROM fixed_queries, compare(format(q, 'fixed WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))')) c ORDER BY id;
SET max_parallel_workers_per_gather = 2;
SELECT c.*, q FROM fixed_queries, answers(format(q, 'fixed WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))')) c WHERE q !~ 'DISTINCT [def]' ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA aggregate_keys CASCADE;
