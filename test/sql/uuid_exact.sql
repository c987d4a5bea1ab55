--
-- uuid keys are stored as a code and a rest: entries alone prove that they are wanted
--
CREATE EXTENSION IF NOT EXISTS gpujoin_test;
CREATE SCHEMA uuid_exact;
SET search_path = uuid_exact, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql
\i :abs_srcdir/sql/common/entries.sql

-- The code and the rest are on disk: they must not change
SELECT gpujoin_test_uuid(-9109892684361376370, -6989586621679009843) AS v7,
	gpujoin_test_uuid(0, 0) AS zero, gpujoin_test_uuid(-9223372036854775808, 1) AS low,
	gpujoin_test_uuid(9223372036854775807, -1) AS high;
SELECT gpujoin_rest('0192f3a4-5b6c-7d8e-9f01-23456789abcd');
-- different codes of one rest are different uuids, of all versions
SELECT count(DISTINCT gpujoin_test_uuid(code, 42)) AS uuids FROM generate_series(-9223372036854775808, -9223372036854707808, 1) code;
SELECT count(DISTINCT gpujoin_test_uuid(code << 12, -42)) AS uuids FROM generate_series(1, 70000) code;

-- Few rows for each uuid; counters in either half; uuids that share a code; NULLs
CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$ SELECT md5($1::text)::uuid $$;
CREATE FUNCTION alike(int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$ SELECT gpujoin_test_uuid(77, $1) $$;
CREATE TABLE big (id int, u uuid, v int, w bigint, note text) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, id(i % 3000), i % 10, i, 'row ' || i FROM generate_series(1, 12000) i;
INSERT INTO big SELECT i, alike(i), i % 10, i, 'alike ' || i FROM generate_series(1, 2000) i;
INSERT INTO big SELECT i, format('00000000-0000-0000-0000-%s', lpad(to_hex(i), 12, '0'))::uuid, 3, i FROM generate_series(1, 500) i;
INSERT INTO big SELECT i, (lpad(to_hex(1700000000000 + i / 100), 12, '0') || '7' || left(md5(i::text), 3) || '8' || right(md5(i::text), 15))::uuid, 4, i
	FROM generate_series(1, 2000) i;
INSERT INTO big VALUES (-1, NULL, 1, 1), (-2, NULL, NULL, NULL), (-3, id(1), NULL, NULL),
	(-4, '00000000-0000-0000-0000-000000000000', 5, 5), (-5, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 6, 6);
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (v, w);
VACUUM (FREEZE, ANALYZE) big;
SELECT key_width, included_columns, entries, keys FROM gpujoin_index_info('big_u');
SELECT gpujoin_check('big_u', true);

-- Scans
EXPLAIN (COSTS OFF) SELECT u, v FROM big WHERE u IN (id(1), id(2));
SELECT compare_entries('SELECT u, v FROM big WHERE u IN (id(1), id(2), NULL)');
SELECT compare_entries('SELECT u, v FROM big WHERE u = ''00000000-0000-0000-0000-000000000000'' OR u = ''ffffffff-ffff-ffff-ffff-ffffffffffff''');
SELECT compare_entries('SELECT u, w FROM big WHERE u = alike(7)');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (alike(7), alike(1999), alike(2001), id(3))');
SELECT compare_entries('SELECT * FROM big WHERE u IN (alike(7), alike(1999), alike(2001), id(3))');
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 3000, 3) i))');
SELECT compare_entries('SELECT count(*), sum(w), min(v) FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 3000, 3) i))');
SELECT compare_entries('SELECT v, count(*), sum(w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 3) i)) GROUP BY v');
SELECT compare_entries('SELECT u, count(*), sum(w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 3) i)) GROUP BY u');
SELECT compare_entries('SELECT DISTINCT u FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 3) i))');
SELECT compare_entries('SELECT count(DISTINCT u), max(w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 3) i))');
SELECT compare_entries('SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 3) i)) AND v < 5 AND w % 2 = 0');
SELECT compare_entries('SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 3) i)) AND u <> id(4) AND u > id(7)');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (id(1), id(2), id(3)) AND u IN (id(3), id(2), alike(3))');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (id(1), id(2)) OR u = alike(3)');
SELECT compare_entries('SELECT u, w, v FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 900) i)) ORDER BY w DESC LIMIT 20');
SELECT compare_entries('SELECT u, v FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 900, 7) i)) ORDER BY v, w LIMIT 20');
SELECT compare_entries('SELECT u, w, lag(u) OVER (ORDER BY w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 900) i))');
SELECT compare_entries('SELECT u::text, w FROM big WHERE u::text = ANY (ARRAY[id(1)::text, upper(id(2)::text), alike(4)::text])');
SELECT compare_entries('SELECT v FROM big WHERE u IS NULL OR u = id(1)');
SELECT compare('SELECT u FROM big WHERE u <> id(1)');
SELECT compare_entries('SELECT u, w FROM big WHERE (u, v) IN ((id(1), 1), (id(2), 7), (alike(3), 3), (alike(4), 3))');
SELECT compare_entries('SELECT u, w FROM big WHERE (u, v, note) IN ((id(1), 1, ''row 1''), (alike(3), 3, ''alike 3''), (alike(3), 3, ''alike 4''))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT u, w FROM big WHERE u IN (alike(7), alike(2001))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM big WHERE u IN (alike(7), alike(2001))');
PREPARE uuids(text[]) AS SELECT u, w FROM big WHERE u = ANY ($1::uuid[]);
SELECT compare_generic('uuids', $$'{c4ca4238-a0b9-2382-0dcc-509a6f75849b,NULL}'$$, 'NULL', $$'{}'$$);

-- Joins
CREATE TABLE small (s uuid, x int);
INSERT INTO small SELECT id(i), i % 10 FROM generate_series(2900, 3100) i;
INSERT INTO small SELECT alike(i), i FROM generate_series(1950, 2050) i;
INSERT INTO small VALUES (NULL, 1), (NULL, 2), (id(2950), 5), (id(2951), NULL), (alike(1960), 0);
\i :abs_srcdir/sql/common/key_joins.sql
SELECT compare_entries('SELECT u, w FROM big JOIN (VALUES (id(1)), (id(2)), (alike(5)), (NULL)) q(k) ON u = k');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (SELECT unnest(ARRAY[id(1), id(2), alike(5), alike(9999)]))');
SELECT compare_entries('SELECT u, w FROM big JOIN unnest(ARRAY[id(1), id(1), alike(5)], ARRAY[1, 2, 5]) q(k, n) ON u = k AND v = n');
SET work_mem = '64kB';
SELECT compare_entries('SELECT s, x, u, w FROM (SELECT id(i) AS s, repeat(''x'', 500) AS x FROM generate_series(1, 3200, 2) i OFFSET 0) q JOIN big ON u = s');
RESET work_mem;

-- A row that a cursor is on; cursors keep rows that come from entries
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT u, w FROM big WHERE u IN (id(1), alike(7)) AND w IS NOT NULL ORDER BY w;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
CLOSE c;
DECLARE d CURSOR FOR SELECT u FROM big WHERE u = alike(8);
FETCH d;
UPDATE big SET note = 'found' WHERE CURRENT OF d;
SELECT u = alike(8) AS same, note FROM big WHERE note = 'found';
ROLLBACK;

-- Parallel plans
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 3000, 3) i) || ARRAY(SELECT id(i) FROM generate_series(1, 900) i))');
SELECT compare_entries('SELECT s, x, u, w FROM small JOIN big ON u = s');
RESET min_parallel_index_scan_size;
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;

-- Rescans with other keys, and rows that are kept
SELECT compare_entries('SELECT s, o.* FROM (SELECT * FROM small WHERE x < 2) q, LATERAL (SELECT u, v FROM big WHERE u = ANY (ARRAY[s, id(x)]) OFFSET 0) o');
SELECT compare_entries('SELECT s, o.* FROM (SELECT * FROM small WHERE x < 2) q, LATERAL (SELECT u, w FROM big WHERE u = ANY (ARRAY[s, id(x)]) ORDER BY w DESC LIMIT 1) o');
SELECT compare_entries('SELECT s, (SELECT sum(w) FROM big WHERE u IN (s, alike(x + 100))) FROM small WHERE x < 2');
SELECT compare_entries('SELECT a.u, a.w, b.u, b.w FROM big a JOIN big b ON a.u = b.u JOIN small ON s = a.u');
SELECT compare_entries('SELECT u, w FROM (SELECT u, w FROM big UNION ALL SELECT u, w + 1 FROM big) q WHERE u IN (SELECT s FROM small)');
SELECT compare_entries('SELECT u, u AS again, w FROM big WHERE u = ANY (ARRAY(SELECT s FROM small)) ORDER BY u');
SELECT compare_entries('WITH m AS MATERIALIZED (SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT s FROM small WHERE x < 4))) SELECT a.u, b.w FROM m a, m b WHERE a.u < b.u');
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT compare_entries('SELECT q.u, r.w FROM (SELECT u FROM big WHERE u = ANY (ARRAY(SELECT s FROM small)) OFFSET 0) q
	FULL JOIN (SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT s FROM small WHERE x < 5)) OFFSET 0) r ON q.u = r.u');
RESET enable_hashjoin;
RESET enable_nestloop;
SELECT compare_entries('SELECT s, u FROM small LEFT JOIN big ON u = s AND u = alike(x)');

-- Changes: entries whose page is not all-visible are read from the heap
DELETE FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 100) i)) OR u = alike(3);
UPDATE big SET u = alike(w::int) WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(101, 200) i));
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(0, 300) i))');
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(0, 300) i))');
SELECT gpujoin_fold('big_u') > 0 AS folded;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(0, 300) i))');
VACUUM big;
SELECT gpujoin_fold('big_u', true) > 0 AS folded;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(0, 300) i))');
SELECT gpujoin_check('big_u', true) = (SELECT count(*) FROM big) AS sound;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT compare('SELECT u, v FROM big WHERE u IN (id(250), alike(7))');
COMMIT;

-- An index that was built before its class had function 4 has hashes; REINDEX stores rests
CREATE OPERATOR CLASS old_ops FOR TYPE uuid USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 gpujoin_hash(uuid, int8), STORAGE int8;
CREATE TABLE parts (u uuid, n int) PARTITION BY LIST (n);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts SELECT id(i % 900), 1 + i % 2 FROM generate_series(1, 4000) i;
INSERT INTO parts SELECT alike(i), 1 + i % 2 FROM generate_series(1, 1000) i;
CREATE INDEX parts1_u ON parts1 USING gpujoin (u old_ops) INCLUDE (n);
ALTER OPERATOR FAMILY old_ops USING gpujoin ADD FUNCTION 4 (uuid, uuid) gpujoin_rest(uuid);
CREATE INDEX parts2_u ON parts2 USING gpujoin (u old_ops) INCLUDE (n);
VACUUM (FREEZE, ANALYZE) parts;
SELECT i, keys FROM unnest('{parts1_u,parts2_u}'::regclass[]) i, gpujoin_index_info(i);
PREPARE of_parts(int) AS SELECT u, n FROM parts WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series($1, $1 + 100) i) || ARRAY(SELECT alike(i) FROM generate_series($1, $1 + 100) i));
INSERT INTO small SELECT id(i), i FROM generate_series(1, 50) i;
ANALYZE small;
SELECT compare_generic('of_parts', '1', '850', '2000');
SELECT compare('SELECT u, n FROM parts1 WHERE u IN (id(1), alike(7), alike(8))');
SELECT compare_entries('SELECT u, n FROM parts2 WHERE u IN (id(1), alike(7), alike(8))');
SELECT compare_entries('SELECT s, u, n FROM small JOIN parts ON u = s');
SELECT compare_entries('SELECT s, u, n FROM small JOIN parts1 ON u = s');
SELECT gpujoin_check('parts1_u', true);
REINDEX INDEX parts1_u;
SELECT i, keys FROM unnest('{parts1_u,parts2_u}'::regclass[]) i, gpujoin_index_info(i);
SELECT compare_generic('of_parts', '1', '850', '2000');
SELECT compare_entries('SELECT u, n FROM parts1 WHERE u IN (id(1), alike(7), alike(8))');
SELECT compare_entries('SELECT s, u, n FROM small JOIN parts ON u = s');

-- Only our own functions can prove that code and rest tell a value
CREATE FUNCTION no_rest(uuid) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT 0::int8 $$;
CREATE OPERATOR CLASS bad_ops FOR TYPE uuid USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 gpujoin_hash(uuid, int8), FUNCTION 4 no_rest(uuid), STORAGE int8;
CREATE INDEX bad_u ON big USING gpujoin (u bad_ops);

SET client_min_messages = warning;
DROP SCHEMA uuid_exact CASCADE;
