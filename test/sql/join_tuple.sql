--
-- Joins by several equalities: one column is the index's key, the others are looked up with it
--
CREATE SCHEMA join_tuple;
SET search_path = join_tuple, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/join.sql
\i :abs_srcdir/sql/common/explain.sql
\set ECHO all

CREATE TABLE many (id int, a int8, b int4, c text, d numeric, e date);
INSERT INTO many SELECT i, i % 500, i / 500 % 20, 'c' || i % 30, (i % 40) / 2.0, date '2026-01-01' + i % 20
	FROM generate_series(1, 20000) i;
INSERT INTO many VALUES (-1, 1, NULL), (-2, NULL, 2), (-3, NULL, NULL);
CREATE INDEX many_a ON many USING gpujoin (a) INCLUDE (b);
CREATE TABLE few (x int, y int2, z varchar(10), n numeric, w date);
INSERT INTO few SELECT i % 90, i % 7, 'c' || i % 30, (i % 40) / 2.00, date '2026-01-01' + i % 20 FROM generate_series(1, 300) i;
INSERT INTO few VALUES (1, NULL, NULL, NULL), (NULL, 1, 'c1', 1), (NULL, NULL, NULL, NULL);
VACUUM ANALYZE many, few;

-- All equalities are looked up: no filter is left. Entries suffice if the index has the columns
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT m.*, f.* FROM few f JOIN many m ON m.a = f.x AND m.b = f.y AND m.c = f.z;
EXPLAIN (COSTS OFF) SELECT m.a, m.b, f.z FROM few f JOIN many m ON m.a = f.x AND f.y = m.b;
SELECT explain('COSTS OFF', 'SELECT * FROM many WHERE (a, b) IN (SELECT unnest(''{1,2,3}''::int8[]), unnest(''{2,3,4}''::int[]))');
EXPLAIN (COSTS OFF) SELECT m.id FROM unnest('{1,2,3}'::int8[], '{2,3,4}'::int[]) u (x, y) JOIN many m ON (m.a, m.b) = (u.x, u.y);
RESET gpujoin.force;

-- both key orders, all kinds of joins, duplicates on both sides, NULLs on both sides
SELECT compare('SELECT b.*, s.* FROM small s JOIN big b ON b.key = s.k AND b.v = s.x');
SELECT compare('SELECT b.*, s.* FROM big b RIGHT JOIN small s ON b.key = s.k AND s.x = b.v');
SELECT compare('SELECT b.*, s.* FROM small s LEFT JOIN big b ON b.key = s.k AND b.v = s.x WHERE b.id IS NULL OR b.id % 2 = 0');
SELECT compare('SELECT * FROM big b WHERE EXISTS (SELECT FROM small s WHERE s.k = b.key AND s.x = b.v)');
SELECT compare('SELECT * FROM small s WHERE EXISTS (SELECT FROM big b WHERE s.k = b.key AND s.x = b.v)');
SELECT compare('SELECT * FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE s.k = b.key AND s.x = b.v)');
SELECT compare('SELECT m.*, f.* FROM few f JOIN many m ON m.a = f.x AND m.b = f.y');
SELECT compare('SELECT m.*, f.* FROM few f JOIN many m ON m.a = f.x AND m.b = f.y AND m.c = f.z');
SELECT compare('SELECT m.a, m.b, f.z FROM few f JOIN many m ON m.a = f.x AND m.b = f.y');
SELECT compare('SELECT m.a, m.b FROM many m WHERE EXISTS (SELECT FROM few f WHERE m.a = f.x AND m.b = f.y)');
SELECT compare('SELECT f.* FROM few f WHERE NOT EXISTS (SELECT FROM many m WHERE m.a = f.x AND m.b = f.y AND m.d = f.n)');
SELECT compare('SELECT f.*, m.id FROM few f LEFT JOIN many m ON m.a = f.x AND m.b = f.y AND m.e = f.w');
SELECT compare('SELECT m.*, f.* FROM few f JOIN many m ON m.a = f.x AND m.d = f.n AND m.e >= f.w');
SELECT compare('SELECT m.*, f.* FROM few f JOIN many m ON m.a = f.x AND m.d = f.n + 0');
-- forms of clients
SELECT compare('SELECT * FROM many WHERE (a, b) IN (SELECT unnest(''{1,2,3,3,NULL}''::int8[]), unnest(''{2,3,4,4,5}''::int[]))');
SELECT compare('SELECT * FROM many WHERE (a, c) IN (SELECT * FROM unnest(''{1,2,3}''::int[], ''{c1,c2,c23}''::text[]))');
SELECT compare('SELECT m.* FROM many m JOIN (SELECT DISTINCT x, y FROM unnest(''{1,2,3,3}''::int8[], ''{2,3,4,4}''::int[]) u (x, y)) k ON m.a = k.x AND m.b = k.y');
SELECT compare('SELECT * FROM many m JOIN (VALUES (1, 2), (3, 4), (3, 4), (5, NULL)) v (x, y) ON (m.a, m.b) = (v.x, v.y)');
SELECT compare('SELECT * FROM many WHERE (a, b) IN (VALUES (1, 2), (3, 4), (3, 4))');
-- one small column for two of the table; one column of the table for two small ones
SELECT compare('SELECT m.* FROM few f JOIN many m ON m.a = f.x AND m.b = f.x');
SELECT compare('SELECT m.* FROM few f JOIN many m ON m.a = f.x AND m.a = f.y');
-- aggregates count rows by their partners
SELECT compare('SELECT count(*) FROM few f JOIN many m ON m.a = f.x AND m.b = f.y');
SELECT compare('SELECT m.b, count(*), sum(f.n) FROM few f JOIN many m ON m.a = f.x AND m.b = f.y GROUP BY m.b');
SELECT compare('SELECT f.y, count(*) FROM few f JOIN many m ON m.a = f.x AND m.c = f.z GROUP BY f.y');

-- Spilled small sides
CREATE TABLE medium AS SELECT i % 700 AS x, i % 23 AS y, 'c' || i % 40 AS z, repeat('x', 50) AS w FROM generate_series(1, 30000) i;
INSERT INTO medium VALUES (1, NULL, 'c1', NULL), (NULL, 1, 'c1', NULL);
ANALYZE medium;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT compare('SELECT m.id, s.y FROM medium s JOIN many m ON m.a = s.x AND m.b = s.y AND m.c = s.z');
SELECT compare('SELECT m.id FROM many m WHERE EXISTS (SELECT FROM medium s WHERE m.a = s.x AND m.b = s.y)');
SELECT compare('SELECT s.x, s.y FROM medium s WHERE NOT EXISTS (SELECT FROM many m WHERE m.a = s.x AND m.b = s.y)');
SELECT compare('SELECT s.x, m.id FROM medium s LEFT JOIN many m ON m.a = s.x AND m.b = s.y');
RESET work_mem;
RESET hash_mem_multiplier;

-- Tables of several parts: partitions, also with columns in other places, and a UNION ALL
CREATE TABLE parted (a int, b int, id int) PARTITION BY LIST (b);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (0, 1);
CREATE TABLE parted_2 (id int, b int, gone int, a int);
ALTER TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2, 3);
INSERT INTO parted SELECT i % 100, i % 4, i FROM generate_series(1, 4000) i;
CREATE INDEX ON parted USING gpujoin (a);
CREATE TABLE by_key (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE by_key_1 PARTITION OF by_key FOR VALUES FROM (0) TO (50);
CREATE TABLE by_key_2 PARTITION OF by_key FOR VALUES FROM (50) TO (100);
INSERT INTO by_key SELECT i % 100, i % 4 FROM generate_series(1, 4000) i;
CREATE INDEX ON by_key USING gpujoin (a) INCLUDE (b);
VACUUM ANALYZE parted, by_key;
SELECT compare('SELECT p.*, f.* FROM few f JOIN parted p ON p.a = f.x AND p.b = f.y');
SELECT compare('SELECT p.*, f.* FROM few f JOIN by_key p ON p.a = f.x AND p.b = f.y');
SELECT compare('SELECT u.*, f.* FROM few f JOIN (SELECT a, b FROM by_key_1 UNION ALL SELECT a, b + 1 FROM by_key_2) u ON u.a = f.x AND u.b = f.y');
SELECT compare('SELECT u.*, f.* FROM few f JOIN (SELECT a, b FROM by_key_1 UNION ALL SELECT a, b FROM by_key_2) u ON u.a = f.x AND u.b = f.y');

-- Rows change; rows are changed
UPDATE many SET b = b + 1 WHERE a < 30;
DELETE FROM many WHERE a = 7;
SELECT compare('SELECT m.a, m.b, f.y FROM few f JOIN many m ON m.a = f.x AND m.b = f.y');
SET gpujoin.force = on;
WITH changed AS (UPDATE many m SET d = -1 FROM few f WHERE m.a = f.x AND m.b = f.y RETURNING m.id) SELECT count(*) FROM changed;
WITH gone AS (DELETE FROM many m USING few f WHERE m.a = f.x AND m.b = f.y RETURNING m.id) SELECT count(*) FROM gone;
RESET gpujoin.force;
SELECT count(*) FROM many WHERE d = -1;

-- A parallel plan; a rescan with other small rows
SELECT compare('SELECT g, (SELECT count(*) FROM unnest(ARRAY[g, g + 1], ARRAY[1, g]) u (x, y) JOIN many m ON m.a = u.x AND m.b = u.y) FROM generate_series(1, 9) g');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT compare('SELECT m.id, f.y FROM few f JOIN many m ON m.a = f.x AND m.c = f.z');

DROP SCHEMA join_tuple CASCADE;
