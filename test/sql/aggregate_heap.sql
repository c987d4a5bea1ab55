--
-- GpuAgg over rows fetched from the heap: columns of tuples as arrays, for tuples of all layouts
--
CREATE SCHEMA aggregate_heap;
SET search_path = aggregate_heap, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

-- every width, after a dropped column and one that is seldom NULL, before others: short values,
-- values of several pages, and none
CREATE TABLE facts (gone int8, id int, maybe int, k int, a int2, b bool, c int8, x float4,
	y float8, d date, s text, behind int) WITH (autovacuum_enabled = off);
ALTER TABLE facts ALTER s SET STORAGE EXTERNAL;
INSERT INTO facts
SELECT -i, i, CASE WHEN i % 40 <> 0 THEN i % 9 END, i % 97, i % 3000 - 1500, i % 3 = 0,
	i::int8 * 1000000007, i / 8.0, CASE WHEN i % 60 <> 0 THEN i / 16.0 END,
	date '2020-01-01' + i % 400,
	CASE i % 500 WHEN 0 THEN repeat('wide', 3000) WHEN 1 THEN NULL ELSE 'x' END, i
FROM generate_series(1, 9000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k);
CREATE TABLE small AS SELECT i AS k, i % 4 AS g, CASE WHEN i % 5 <> 0 THEN i END AS h
FROM generate_series(0, 40) i;
CREATE TABLE twice AS SELECT * FROM small UNION ALL SELECT * FROM small WHERE k % 3 = 0
	UNION ALL SELECT k, 9, 9 FROM small WHERE k % 6 = 0 UNION ALL SELECT NULL, 1, 1;
VACUUM ANALYZE facts, small, twice;

PREPARE in_all_ways AS SELECT c.* FROM (VALUES
	('SELECT count(*), sum(id), sum(maybe), count(maybe), sum(a), avg(c), sum(x), sum(y), max(d),
		bool_and(b), count(y) FROM facts WHERE k IN (1, 2, 3, 50)'),
	('SELECT k, count(*), sum(id), min(maybe), sum(a), avg(c), sum(x), sum(y), max(d), bool_or(b)
		FROM facts WHERE k IN (1, 2, 3, 50) GROUP BY k'),
	('SELECT maybe, b, count(*), min(id), max(id) FROM facts WHERE k < 90 AND k IN (SELECT k
		FROM small) GROUP BY maybe, b'),
	('SELECT count(*), sum(f.id), sum(f.y) FROM facts f JOIN small USING (k)'),
	('SELECT f.maybe, count(*), sum(f.id), count(f.y) FROM facts f JOIN twice USING (k)
		GROUP BY f.maybe'),
	('SELECT t.g, t.h, f.maybe, count(*), sum(f.id), count(DISTINCT f.a) FROM facts f
		JOIN twice t USING (k) GROUP BY t.g, t.h, f.maybe'),
	('SELECT t.g, count(f.id), sum(f.y) FROM twice t LEFT JOIN facts f USING (k) GROUP BY t.g'),
	('SELECT count(*), sum(id) FROM facts WHERE k IN (SELECT k FROM twice)'),
	('SELECT DISTINCT f.maybe, f.a, t.h FROM facts f JOIN twice t USING (k)'),
	-- a column that follows a text
	('SELECT sum(behind), count(behind) FROM facts WHERE k IN (1, 2, 3)'),
	('SELECT t.h, f.behind, sum(f.id) FROM facts f JOIN twice t USING (k) GROUP BY t.h, f.behind'),
	-- a limit, a filter, an expression below
	('SELECT count(*) FROM (SELECT f.id FROM facts f JOIN twice USING (k) LIMIT ALL) q'),
	('SELECT sum(id) FROM facts WHERE k IN (1, 2, 3) AND s <> ''x'''),
	('SELECT k % 2, sum(id) FROM facts WHERE k IN (1, 2, 3) GROUP BY k % 2')
) q (text), compare_arrays(q.text) c;
EXECUTE in_all_ways;

-- a dropped column, and added ones that old rows do not store, one of them without any value
ALTER TABLE facts DROP gone, ADD late int DEFAULT 7, ADD later int8;
INSERT INTO facts (id, maybe, k, a, b, c, x, y, d, s, late, later)
SELECT i, i % 9, i % 97, 1, true, i, i, i, '2024-02-29', 'new', i % 5, CASE WHEN i % 2 = 0 THEN i END
FROM generate_series(9001, 9300) i;
EXECUTE in_all_ways;
CREATE TABLE added (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO added SELECT i % 20, i FROM generate_series(1, 2000) i;
CREATE INDEX ON added USING gpujoin (k);
ALTER TABLE added ADD w int DEFAULT 5, ADD n int;
INSERT INTO added SELECT i % 20, i, i % 3, nullif(i % 4, 0) FROM generate_series(2001, 3000) i;
SELECT * FROM compare_arrays('SELECT w, n, count(*), sum(v) FROM added WHERE k IN (1, 2, 3) GROUP BY w, n');
SELECT * FROM compare_arrays('SELECT t.h, sum(w), count(n) FROM added JOIN twice t USING (k) GROUP BY t.h');
-- exactly the table's own columns: rows without projection
SELECT * FROM compare_arrays('SELECT k, v, w, n, count(*) FROM added WHERE k IN (1, 2, 3)
	GROUP BY k, v, w, n');

-- chains of several versions, dead roots, deleted rows, pages that are not all-visible
UPDATE facts SET a = a + 1, maybe = nullif(maybe, 3) WHERE id % 4 = 0;
UPDATE facts SET c = c - 1 WHERE id % 8 = 0;
UPDATE facts SET k = k + 1 WHERE id % 50 = 0;
DELETE FROM facts WHERE id % 11 = 0;
EXECUTE in_all_ways;
BEGIN;
DELETE FROM facts WHERE id % 5 = 0;
UPDATE facts SET y = 0 WHERE id % 7 = 0;
EXECUTE in_all_ways;
ROLLBACK;
VACUUM facts;
EXECUTE in_all_ways;

-- several batches of small rows, several parts of groups.  Whether a batch ends within a key's rows
-- depends on the version's allocator and its overhead for a row: rows of such keys are read again.
SET work_mem = '64kB';
CREATE TABLE many AS SELECT i % 97 AS k, i % 7 AS g FROM generate_series(1, 3000) i;
ANALYZE many;
SELECT n, differ, arrays, slots, scanned > 8453 AS again FROM compare_arrays('
	SELECT m.g, count(*), sum(f.id) FROM facts f JOIN many m USING (k)
	GROUP BY m.g');
SELECT n, differ, arrays, slots, scanned > 8453 AS again FROM compare_arrays('
	SELECT f.id, f.c, count(*) FROM facts f JOIN many m USING (k)
	GROUP BY f.id, f.c');
RESET work_mem;

-- entries, mixed with rows left to the heap, more than fit into memory at once; an open transaction
-- keeps PostgreSQL 19's queries from marking pages as all-visible
DROP INDEX facts_k;
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (id, maybe, a, b, c, x, y, d);
VACUUM facts;
EXECUTE in_all_ways;
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS has_xid;
PREPARE TRANSACTION 'aggregate_heap';
UPDATE facts SET y = -y WHERE id % 90 = 0;
EXECUTE in_all_ways;
UPDATE facts SET y = -y;
SET work_mem = '64kB';
EXECUTE in_all_ways;
RESET work_mem;
COMMIT PREPARED 'aggregate_heap';

-- partitions whose columns have different positions
CREATE TABLE parted (k int, v int, w int8) PARTITION BY LIST (k);
CREATE TABLE part0 (w int8, gone text, v int, k int) WITH (autovacuum_enabled = off);
ALTER TABLE part0 DROP gone;
ALTER TABLE parted ATTACH PARTITION part0 FOR VALUES IN (0, 1, 2, 3, 4);
CREATE TABLE part1 PARTITION OF parted DEFAULT WITH (autovacuum_enabled = off);
INSERT INTO parted SELECT i % 10, i, CASE WHEN i % 30 <> 0 THEN -i END FROM generate_series(1, 3000) i;
CREATE INDEX ON parted USING gpujoin (k);
VACUUM ANALYZE parted;
SELECT * FROM compare_arrays('SELECT count(*), sum(v), sum(w), count(w) FROM parted JOIN twice USING (k)');
SELECT * FROM compare_arrays('SELECT t.h, sum(v), count(w) FROM parted JOIN twice t USING (k) GROUP BY t.h');

DROP SCHEMA aggregate_heap CASCADE;
