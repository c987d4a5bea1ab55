--
-- GpuScan: the same rows as PostgreSQL's own plans, in every form and context
--
CREATE SCHEMA scan;
SET search_path = scan, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan_table.sql

-- The plan, the answer of a sequential scan, and ours
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM big WHERE k = ANY ('{1,2,3,500}');
SELECT count(*), sum(id) FROM big WHERE k = ANY ('{1,2,3,500}');
SET gpujoin.enabled = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM big WHERE k = ANY ('{1,2,3,500}');
SELECT count(*), sum(id) FROM big WHERE k = ANY ('{1,2,3,500}');
RESET gpujoin.enabled;

-- Forms of the clause
SELECT compare('SELECT * FROM big WHERE k IN (1, 2, 3)');
SELECT compare('SELECT * FROM big WHERE k = 5');
SELECT compare('SELECT * FROM big WHERE 5 = k');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY[7, 7, 7, -1, -100])');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY[[1, 2], [3, 4]])');
SELECT compare('SELECT * FROM big WHERE k = ANY (''[5:7]={1,2,3}''::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{1,2,3}'') AND k = ANY (''{2,3,4}'') AND k IN (3, 9)');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{1,2,3}'') AND id > 500 AND note LIKE ''%7%''');
SELECT compare('SELECT ctid, tableoid::regclass, xmin, id FROM big WHERE k = 17');
SELECT compare('SELECT 1 FROM big WHERE k = 17');
SELECT compare('SELECT b FROM big b WHERE k = 17');
SELECT compare('SELECT note, k + id FROM big WHERE k = 17');

-- NULLs, empty sets
SELECT compare('SELECT * FROM big WHERE k = ANY (NULL::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT NULL::int[])::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT ''{}''::int[])::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{NULL,1,NULL,2}''::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{NULL,NULL}''::int[])');
SELECT compare('SELECT * FROM big WHERE k = (SELECT NULL::int)');

-- Initplans, stable functions, parameters, toasted arrays
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT i FROM generate_series(1, 30) i))');
SELECT compare('SELECT * FROM big WHERE k = (SELECT max(k) FROM big)');
CREATE FUNCTION wanted() RETURNS int[] STABLE LANGUAGE sql AS 'SELECT array_agg(i) FROM generate_series(40, 60) i';
CREATE FUNCTION moody() RETURNS int[] VOLATILE LANGUAGE plpgsql AS 'BEGIN RETURN ''{40,41,42}''; END';
SELECT compare('SELECT * FROM big WHERE k = ANY (wanted())');
SELECT compare('SELECT * FROM big WHERE k = ANY (string_to_array(''1,2,3'', '','')::int[])');
CREATE TABLE sets (id int, wanted int[]);
INSERT INTO sets SELECT 1, array_agg(i) FROM generate_series(1, 900, 3) i;
INSERT INTO sets SELECT 2, array_agg((i * 7919) % 1000) FROM generate_series(1, 50000) i;
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT wanted FROM sets WHERE id = 1)::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT wanted FROM sets WHERE id = 2)::int[])');
PREPARE by_set(int[]) AS SELECT count(*), sum(id) FROM big WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_set('{1}');
EXECUTE by_set('{1,2,3}');
EXECUTE by_set('{}');
EXECUTE by_set(NULL);
EXECUTE by_set('{900,901}');
EXECUTE by_set('{99,NULL,99}');
SET gpujoin.enabled = off;
EXPLAIN (COSTS OFF) EXECUTE by_set('{1}');
EXECUTE by_set('{1,2,3}');
RESET gpujoin.enabled;
PREPARE by_list(int, int, int) AS SELECT count(*), sum(id) FROM big WHERE k IN ($1, $2, $3);
EXPLAIN (COSTS OFF) EXECUTE by_list(1, 2, 3);
EXECUTE by_list(1, 2, 3);
EXECUTE by_list(1, NULL, 1);
RESET plan_cache_mode;

-- Conditions that must not be used
SELECT compare('SELECT * FROM big WHERE k <> ANY (''{1,2}'')');
SELECT compare('SELECT * FROM big WHERE k = ALL (''{1,1}'')');
SELECT compare('SELECT * FROM big WHERE k = ANY (moody())');
SELECT compare('SELECT * FROM big WHERE k IN (1, 2) OR id = 7');
SELECT compare('SELECT * FROM big WHERE k + 0 = 1');
SELECT compare('SELECT * FROM big WHERE k = id');
SELECT compare('SELECT * FROM big WHERE k IS NULL');
SELECT count(*) <= 20000 AS sampled FROM big TABLESAMPLE system (50) WHERE k = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big TABLESAMPLE system (50) WHERE k = 1;

-- A cancelled query leaves nothing behind; nor does the setting, which might affect the next
-- statement
SET statement_timeout = '20ms' \;
SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT i * 3 FROM generate_series(1, 10000000) i));
SELECT count(*) FROM big WHERE k = ANY (ARRAY(SELECT i * 3 FROM generate_series(1, 1000000) i));

-- Cross type comparisons and values out of the key's range
CREATE TABLE ints (id int, k2 int2, k8 int8);
INSERT INTO ints SELECT i, i % 100 - 50, (i % 100 - 50) * 3000000000 FROM generate_series(1, 5000) i;
INSERT INTO ints VALUES (0, 32767, 9223372036854775807), (0, -32768, -9223372036854775808), (0, 0, -1);
CREATE INDEX ints_k2 ON ints USING gpujoin (k2);
CREATE INDEX ints_k8 ON ints USING gpujoin (k8);
ANALYZE ints;
SELECT compare('SELECT * FROM big WHERE k = ANY (''{1,2,5000000000,-9223372036854775808}''::int8[])');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{1,2,-32768}''::int2[])');
SELECT compare('SELECT * FROM big WHERE k = 4294967297');
SELECT compare('SELECT * FROM big WHERE 17::int8 = k');
SELECT compare('SELECT * FROM ints WHERE k2 = ANY (''{1,2,32767,65537,-32768}''::int4[])');
SELECT compare('SELECT * FROM ints WHERE k2 = ANY (''{1,2,32767,4294967297}''::int8[])');
SELECT compare('SELECT * FROM ints WHERE k8 = ANY (''{0,-1,9223372036854775807,-9223372036854775808,3000000000}'')');
SELECT compare('SELECT * FROM ints WHERE k8 = ANY (''{0,-1}''::int2[]) AND k2 = 0::int8');

-- Other key types, a domain
CREATE DOMAIN small_int AS int CHECK (VALUE < 1000);
CREATE TABLE types (o oid, d date, t timestamp, z timestamptz, s small_int);
INSERT INTO types SELECT i % 90, date '2020-01-01' + i % 90, timestamp '2020-01-01' + (i % 90) * interval '1 hour',
	timestamptz '2020-01-01 00:00+00' + (i % 90) * interval '1 hour', i % 90 FROM generate_series(1, 900) i;
INSERT INTO types VALUES (4294967295, 'infinity', '-infinity', 'infinity', 0);
CREATE INDEX ON types USING gpujoin (o);
CREATE INDEX ON types USING gpujoin (d);
CREATE INDEX ON types USING gpujoin (t);
CREATE INDEX ON types USING gpujoin (z);
CREATE INDEX ON types USING gpujoin (s);
SELECT compare('SELECT * FROM types WHERE o = ANY (''{1,5,4294967295}''::oid[])');
SELECT compare('SELECT * FROM types WHERE d IN (''2020-01-05'', ''infinity'', ''2021-01-01'')');
SELECT compare('SELECT * FROM types WHERE t IN (''2020-01-01 05:00'', ''-infinity'')');
SELECT compare('SELECT * FROM types WHERE z IN (''2020-01-01 05:00+00'', ''infinity'')');
SELECT compare('SELECT * FROM types WHERE d = timestamp ''2020-01-05''');
SELECT compare('SELECT * FROM types WHERE s IN (5, 6)');

-- Expression and partial indexes
CREATE TABLE odd (id int, a int, b int);
INSERT INTO odd SELECT i, i % 300, i % 7 FROM generate_series(1, 9000) i;
CREATE INDEX odd_sum ON odd USING gpujoin ((a + b));
CREATE INDEX odd_part ON odd USING gpujoin (a) WHERE b = 3;
ANALYZE odd;
SELECT compare('SELECT * FROM odd WHERE a + b IN (10, 20, 30)');
SELECT compare('SELECT * FROM odd WHERE (a + b) = 10 AND id < 4000');
SELECT compare('SELECT * FROM odd WHERE a IN (1, 2, 3) AND b = 3');
SELECT compare('SELECT * FROM odd WHERE a IN (1, 2, 3)');
UPDATE odd SET b = 3 WHERE a < 20 AND b = 2;
UPDATE odd SET b = 5 WHERE a < 40 AND b = 3 AND id % 2 = 0;
SELECT compare('SELECT * FROM odd WHERE a IN (1, 2, 3, 11, 31) AND b = 3');
SELECT compare('SELECT * FROM odd WHERE a + b IN (10, 20, 30)');

-- Inserted, changed and deleted rows, in this transaction and before
BEGIN;
INSERT INTO big SELECT i, 77, 'new' FROM generate_series(20001, 20100) i;
UPDATE big SET k = 78 WHERE id % 400 = 1;
UPDATE big SET note = 'hot' WHERE id % 300 = 2;
DELETE FROM big WHERE k = 79;
SELECT compare('SELECT * FROM big WHERE k IN (77, 78, 79, 80)');
SAVEPOINT s;
UPDATE big SET k = 81 WHERE k = 77;
SELECT compare('SELECT * FROM big WHERE k IN (77, 81)');
ROLLBACK TO s;
SELECT compare('SELECT * FROM big WHERE k IN (77, 81)');
COMMIT;
SELECT compare('SELECT * FROM big WHERE k IN (77, 78, 79, 80)');
VACUUM big;
SELECT compare('SELECT * FROM big WHERE k IN (77, 78, 79, 80)');
INSERT INTO big SELECT i, 79, 'reused' FROM generate_series(1, 50) i;
SELECT compare('SELECT * FROM big WHERE k IN (77, 78, 79, 80)');
DELETE FROM big WHERE id > 10000;
VACUUM big;
SELECT compare('SELECT * FROM big WHERE k BETWEEN 0 AND 900 AND k = ANY (wanted())');
REINDEX INDEX big_k;
SELECT compare('SELECT * FROM big WHERE k = ANY (wanted())');
VACUUM FULL big;
SELECT compare('SELECT * FROM big WHERE k = ANY (wanted())');
INSERT INTO big SELECT i, (i * 7919) % 1000, 'again' FROM generate_series(10001, 20000) i;
ANALYZE big;

-- UPDATE and DELETE with the scan, with RETURNING
BEGIN;
EXPLAIN (COSTS OFF) UPDATE big SET note = 'u' WHERE k IN (300, 301);
WITH u AS (UPDATE big SET note = 'u', k = k + 1 WHERE k IN (300, 301) RETURNING id)
SELECT count(*), sum(id) FROM u;
EXPLAIN (COSTS OFF) DELETE FROM big WHERE k = ANY ('{302,303}');
WITH d AS (DELETE FROM big WHERE k = ANY ('{302,303}') RETURNING id) SELECT count(*), sum(id) FROM d;
SELECT compare('SELECT * FROM big WHERE k IN (300, 301, 302, 303)');
ROLLBACK;

-- Row locks
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE k = 400 FOR UPDATE;
SELECT count(*) FROM (SELECT id FROM big WHERE k = 400 FOR UPDATE) q;
SELECT count(*) FROM (SELECT id FROM big WHERE k IN (400, 401) FOR KEY SHARE SKIP LOCKED) q;

-- Cursors: forward, scroll, hold, WHERE CURRENT OF
BEGIN;
DECLARE plain CURSOR FOR SELECT id, k FROM big WHERE k IN (500, 501) AND id < 3000;
FETCH 2 FROM plain;
UPDATE big SET note = 'current' WHERE CURRENT OF plain;
FETCH 1 FROM plain;
DELETE FROM big WHERE CURRENT OF plain;
FETCH 100 FROM plain;
SELECT compare('SELECT * FROM big WHERE k IN (500, 501)');
SELECT id, k, note FROM big WHERE k IN (500, 501) AND id < 3000 ORDER BY id;
DECLARE scrolling SCROLL CURSOR FOR SELECT id, k FROM big WHERE k IN (500, 501) AND id < 3000;
FETCH LAST FROM scrolling;
FETCH BACKWARD 2 FROM scrolling;
FETCH FIRST FROM scrolling;
DECLARE early CURSOR FOR SELECT id, k FROM big WHERE k IN (500, 501) AND id < 3000;
SAVEPOINT s;
FETCH 1 FROM early;
ROLLBACK TO s;
FETCH 1 FROM early;
DROP INDEX big_k;
ROLLBACK TO s;
DECLARE holding CURSOR WITH HOLD FOR SELECT id, k FROM big WHERE k IN (500, 501) AND id < 3000;
FETCH 1 FROM holding;
COMMIT;
FETCH 2 FROM holding;
CLOSE holding;

-- Rescans: with the same set, with another one, within a correlated subquery
SELECT compare('SELECT x.i, b.id FROM generate_series(1, 3) x(i) CROSS JOIN LATERAL
	(SELECT id FROM big WHERE k = ANY (wanted()) OFFSET 0) b');
SELECT compare('SELECT x.i, b.id FROM generate_series(1, 5) x(i) CROSS JOIN LATERAL
	(SELECT id FROM big WHERE k = ANY (ARRAY[x.i, x.i + 1]) AND k = ANY (wanted() || x.i) OFFSET 0) b');
SELECT compare('SELECT x.i, (SELECT count(*) FROM big WHERE k = x.i AND id % 2 = x.i % 2)
	FROM generate_series(1, 20) x(i)');
SELECT compare('SELECT x.i, (SELECT count(*) FROM big WHERE k IN (1, 2) AND id % 5 = x.i)
	FROM generate_series(0, 5) x(i)');
SELECT compare('SELECT x.i, (SELECT id FROM big WHERE k = ANY (ARRAY[x.i, x.i]) ORDER BY id LIMIT 1)
	FROM generate_series(1, 20) x(i)');
SELECT compare('SELECT id, (SELECT count(*) FROM sets WHERE sets.id = big.id) FROM big
	WHERE k IN (1, 2, 3) AND EXISTS (SELECT FROM sets WHERE sets.id = big.id OFFSET 0) IS NOT TRUE');

-- Partitions, inheritance
CREATE TABLE parts (id int, k int, region int) PARTITION BY LIST (region);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (region int, dropped text, k int, id int);
ALTER TABLE parts_2 DROP COLUMN dropped;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
CREATE TABLE parts_rest PARTITION OF parts DEFAULT PARTITION BY RANGE (id);
CREATE TABLE parts_rest_1 PARTITION OF parts_rest FOR VALUES FROM (0) TO (5000);
CREATE TABLE parts_rest_2 PARTITION OF parts_rest FOR VALUES FROM (5000) TO (20000);
INSERT INTO parts SELECT i, i % 700, i % 4 FROM generate_series(1, 12000) i;
CREATE INDEX ON parts USING gpujoin (k);
ANALYZE parts;
EXPLAIN (COSTS OFF) SELECT * FROM parts WHERE k IN (5, 6, 7);
SELECT compare('SELECT *, tableoid::regclass FROM parts WHERE k IN (5, 6, 7)');
SELECT compare('SELECT * FROM parts WHERE k IN (5, 6, 7) AND region = 2');
SELECT compare('SELECT x.i, (SELECT count(*) FROM parts WHERE k = x.i) FROM generate_series(1, 9) x(i)');
UPDATE parts SET region = 9 WHERE k = 5;
SELECT compare('SELECT *, tableoid::regclass FROM parts WHERE k IN (5, 6, 7)');
CREATE TABLE heirs () INHERITS (big);
INSERT INTO heirs SELECT i, i % 500, 'heir' FROM generate_series(1, 3000) i;
SELECT compare('SELECT *, tableoid::regclass FROM big WHERE k IN (5, 6, 7)');
CREATE INDEX ON heirs USING gpujoin (k);
SELECT compare('SELECT *, tableoid::regclass FROM big WHERE k IN (5, 6, 7)');
SELECT compare('SELECT * FROM ONLY big WHERE k IN (5, 6, 7)');
DROP TABLE heirs;

-- Temporary tables, unlogged ones, materialized views, columns added and dropped
CREATE TEMP TABLE passing AS SELECT * FROM big;
CREATE INDEX ON passing USING gpujoin (k);
SELECT compare('SELECT * FROM passing WHERE k IN (5, 6, 7)');
CREATE MATERIALIZED VIEW seen AS SELECT * FROM big;
CREATE INDEX ON seen USING gpujoin (k);
SELECT compare('SELECT * FROM seen WHERE k IN (5, 6, 7)');
ALTER TABLE passing DROP COLUMN id, ADD COLUMN extra int DEFAULT 42;
SELECT compare('SELECT * FROM passing WHERE k IN (5, 6, 7) AND extra = 42');
ALTER TABLE passing ALTER COLUMN k TYPE int8;
SELECT compare('SELECT * FROM passing WHERE k IN (5, 6, 7) AND extra = 42');

-- Row security: only leakproof clauses are evaluated before the policy's
CREATE ROLE gpujoin_reader;
GRANT SELECT ON big TO gpujoin_reader;
GRANT USAGE ON SCHEMA scan TO gpujoin_reader;
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON big USING (id % 2 = 0);
SET ROLE gpujoin_reader;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k IN (5, 6, 7);
SELECT compare('SELECT * FROM big WHERE k IN (5, 6, 7)');
RESET ROLE;
ALTER TABLE big DISABLE ROW LEVEL SECURITY;
REVOKE ALL ON big FROM gpujoin_reader;
SET ROLE gpujoin_reader;
SELECT count(*) FROM big WHERE k IN (5, 6, 7);
RESET ROLE;
REVOKE ALL ON SCHEMA scan FROM gpujoin_reader;
DROP ROLE gpujoin_reader;

-- Foreign keys: the checks' own queries also use the index
CREATE TABLE parent (k int PRIMARY KEY);
CREATE TABLE child (id int, k int REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL);
INSERT INTO parent SELECT generate_series(1, 100);
INSERT INTO child SELECT i, i % 100 + 1 FROM generate_series(1, 3000) i;
CREATE INDEX child_k ON child USING gpujoin (k);
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM parent WHERE k = 5;
UPDATE parent SET k = 1000 WHERE k = 6;
SELECT count(*), count(k) FROM child;
SELECT pg_stat_get_xact_numscans('child_k'::regclass) AS searches;
COMMIT;

-- Isolation levels; a set that exceeds its memory
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT compare('SELECT * FROM big WHERE k IN (5, 6, 7)');
SELECT DISTINCT relation::regclass, mode FROM pg_locks
	WHERE mode = 'SIReadLock' AND locktype = 'relation' AND relation = 'big_k'::regclass;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT compare('SELECT * FROM big WHERE k IN (5, 6, 7)');
COMMIT;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 900)))');
RESET work_mem;
RESET hash_mem_multiplier;

SET client_min_messages = warning;
DROP SCHEMA scan CASCADE;
