--
-- Text keys of class text_id_ops: ids are stored as a code and a rest, which alone prove that they
-- are wanted; other texts have hashes, and are read from the heap
--
CREATE EXTENSION gpujoin_test;
CREATE SCHEMA text_id;
SET search_path = text_id, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql
\i :abs_srcdir/sql/common/entries.sql

-- The code and the rest are on disk: they must not change
SELECT value, (p).* FROM unnest('{0192f3a4-5b6c-7d8e-9f01-23456789abcd,0192f3a4-5b6c-4d8e-9f01-23456789abcd,V1StGXR8_Z5jdHi6B-myT,
	01ARZ3NDEKTSV4RRFFQ69G5FAV,01arz3ndektsv4rrffq69g5fav,00000000000000000000000000,cjld2cjxh0000qzrmn831i7rn,tz4a98xxat96iws9zmbrgj3a,
	507f1f77bcf86cd799439011,"",a,user-1234,"fifteen bytes.."}'::text[]) value, gpujoin_test_pack(value) p;
-- not packed: a wrong case, variant, letter, time, length
SELECT value, gpujoin_test_pack(value) FROM unnest('{0192F3A4-5b6c-7d8e-9f01-23456789abcd,0192f3a4-5b6c-7d8e-7f01-23456789abcd,0192f3a45b6c7d8e9f0123456789abcd,
	"{0192f3a4-5b6c-7d8e-9f01-23456789}",V1StGXR8/Z5jdHi6B+myT,81ARZ3NDEKTSV4RRFFQ69G5FAV,01ARZ3NDEKTSV4RRFFQ69G5FAU,01Arz3ndektsv4rrffq69g5fav,0GARZ3NDEKTSV4RRFFQ69G5FAV,
	Cjld2cjxh0000qzrmn831i7rn,1z4a98xxat96iws9zmbrgj3a,507F1f77bcf86cd799439011,sixteen bytes...}'::text[]) value
	WHERE gpujoin_test_pack(value) IS NOT NULL OR value LIKE '0192F%';
SELECT gpujoin_rest('user-1234'::text), gpujoin_rest('a text that is not packed'::text), gpujoin_rest(NULL::text);
SELECT gpujoin_idtext_selftest() > 500000 AS restored;

-- Few rows for each id, one of nine no id; ids that share a code; NULLs
CREATE FUNCTION id(i int) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT CASE i % 9
		WHEN 0 THEN gpujoin_test_unpack(-3000000000000000000 + i * 123456789123, i)
		WHEN 1 THEN left(translate(encode(sha256(i::text::bytea), 'base64'), '+/', '-_'), 21)
		WHEN 2 THEN '01HZ' || upper(left(md5(i::text), 22))
		WHEN 3 THEN '01hz' || left(md5(i::text), 22)
		WHEN 4 THEN 'c' || left(md5(i::text), 24)
		WHEN 5 THEN 'z' || left(md5(i::text), 23)
		WHEN 6 THEN 'id-' || i
		WHEN 7 THEN left(md5(i::text), 24)
		ELSE CASE WHEN i % 18 < 9 THEN 'a text that is no id ' || i ELSE gpujoin_test_unpack(-100000000000000000, i) END END $$;
CREATE FUNCTION alike(int) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$ SELECT gpujoin_test_unpack(-3100000000000000000, $1) $$;
CREATE TABLE big (id int, u text, v int, w bigint, note text) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, id(i % 3000), i % 10, i, 'row ' || i FROM generate_series(1, 12000) i;
INSERT INTO big SELECT i, alike(i), i % 10, i, 'alike ' || i FROM generate_series(1, 2000) i;
INSERT INTO big VALUES (-1, NULL, 1, 1), (-2, NULL, NULL, NULL), (-3, id(1), NULL, NULL),
	(-4, '', 5, 5), (-5, repeat('long', 5000), 6, 6), (-6, '0192F3A4-5B6C-7D8E-9F01-23456789ABCD', 7, 7);
CREATE INDEX big_u ON big USING gpujoin (u text_id_ops) INCLUDE (v, w);
VACUUM (FREEZE, ANALYZE) big;
SELECT key_width, included_columns, entries, keys FROM gpujoin_index_info('big_u');
SELECT gpujoin_check('big_u', true);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'text_id_ops';

-- Scans
EXPLAIN (COSTS OFF) SELECT u, v FROM big WHERE u IN ('id-6', 'z');
SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(9, 17) i)) AND w < 20 ORDER BY w;
SELECT compare_entries('SELECT u, v FROM big WHERE u IN (id(1), id(2), id(8), NULL)');
SELECT compare_entries('SELECT u, v FROM big WHERE u = '''' OR u = repeat(''long'', 5000) OR u = ''0192F3A4-5B6C-7D8E-9F01-23456789ABCD''');
SELECT compare_entries('SELECT u, v FROM big WHERE u IN (upper(id(2)), upper(id(3)), lower(id(2)), lower(id(3)), upper(id(7)), id(6) || '' '')');
SELECT compare_entries('SELECT u, w FROM big WHERE u = alike(7)');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (alike(7), alike(1999), alike(2001), id(3), id(8))');
SELECT compare_entries('SELECT * FROM big WHERE u IN (alike(7), alike(1999), alike(2001), id(3), id(8))');
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 3000, 3) i))');
SELECT compare_entries('SELECT count(*), sum(w), min(v) FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 3000, 3) i))');
SELECT compare_entries('SELECT v, count(*), sum(w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i)) GROUP BY v');
SELECT compare_entries('SELECT u, count(*), sum(w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i)) GROUP BY u');
SELECT compare_entries('SELECT DISTINCT u FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i))');
SELECT compare_entries('SELECT count(DISTINCT u), max(w), max(u) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i))');
SELECT compare_entries('SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i)) AND v < 5 AND w % 2 = 0');
SELECT compare_entries('SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i)) AND u <> id(6) AND u > id(7) AND length(u) > 10');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (id(1), id(2), id(3)) AND u IN (id(3), id(2), alike(3))');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (id(1), id(8)) OR u = alike(3)');
SELECT compare_entries('SELECT u, w, v FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 900) i)) ORDER BY w DESC LIMIT 20');
SELECT compare_entries('SELECT u, v FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 900, 7) i)) ORDER BY v, w LIMIT 20');
SELECT compare_entries('SELECT u, w, lag(u) OVER (ORDER BY w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 900) i))');
SELECT compare_entries('SELECT v FROM big WHERE u IS NULL OR u = id(1)');
SELECT compare('SELECT u FROM big WHERE u <> id(1)');
SELECT compare_entries('SELECT u, w FROM big WHERE (u, v) IN ((id(1), 1), (id(8), 8), (id(17), 3), (alike(3), 3), (alike(4), 3))');
SELECT compare_entries('SELECT u, w FROM big WHERE (u, v, note) IN ((id(1), 1, ''row 1''), (id(8), 8, ''row 8''), (alike(3), 3, ''alike 3''), (alike(3), 3, ''alike 4''))');
SELECT compare('SELECT u, w FROM big WHERE u COLLATE "C" IN (id(1), id(8))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT u, w FROM big WHERE u IN (alike(7), alike(2001), ''a text that is no id 17'')');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM big WHERE u IN (alike(7), alike(2001), ''a text that is no id 17'')');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT u, w FROM big WHERE u IN (''id-6'', ''a text that is no id 8'') ORDER BY w LIMIT 2');
PREPARE ids(text[]) AS SELECT u, w FROM big WHERE u = ANY ($1);
SELECT compare_generic('ids', $$'{id-6,a text that is no id 8,NULL}'$$, 'NULL', $$'{}'$$);

-- Joins
CREATE TABLE small (s text, x int);
INSERT INTO small SELECT id(i), i % 10 FROM generate_series(2900, 3100) i;
INSERT INTO small SELECT alike(i), i FROM generate_series(1950, 2050) i;
INSERT INTO small VALUES (NULL, 1), (NULL, 2), (id(2950), 5), (id(2951), NULL), (alike(1960), 0), (id(8), 3), (id(8), 4), (repeat('long', 5000), 6);
\i :abs_srcdir/sql/common/key_joins.sql
SELECT compare_entries('SELECT u, w FROM big JOIN (VALUES (id(1)), (id(8)), (alike(5)), (NULL)) q(k) ON u = k');
SELECT compare_entries('SELECT u, w FROM big WHERE u IN (SELECT unnest(ARRAY[id(1), id(8), alike(5), alike(9999)]))');
SELECT compare_entries('SELECT u, w FROM big JOIN unnest(ARRAY[id(1), id(1), id(8), alike(5)], ARRAY[1, 2, 8, 5]) q(k, n) ON u = k AND v = n');
SET work_mem = '64kB';
SELECT compare_entries('SELECT s, x, u, w FROM (SELECT id(i) AS s, repeat(''x'', 500) AS x FROM generate_series(1, 3200, 2) i OFFSET 0) q JOIN big ON u = s');
RESET work_mem;

-- Cursors keep rows that come from entries
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT u, w FROM big WHERE u IN (id(6), id(8), alike(7)) AND w IS NOT NULL ORDER BY w;
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
SELECT compare_entries('SELECT count(*), sum(w) FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(1, 3000, 3) i) || ARRAY(SELECT id(i) FROM generate_series(1, 900) i))');
SELECT compare_entries('SELECT s, x, u, w FROM small JOIN big ON u = s');
RESET min_parallel_index_scan_size;
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;

-- Rescans with other keys, and rows that are kept
SELECT compare_entries('SELECT s, o.* FROM (SELECT * FROM small WHERE x < 2) q, LATERAL (SELECT u, v FROM big WHERE u = ANY (ARRAY[s, id(8)]) OFFSET 0) o');
SELECT compare_entries('SELECT s, o.* FROM (SELECT * FROM small WHERE x < 2) q, LATERAL (SELECT u, w FROM big WHERE u = ANY (ARRAY[s, id(8)]) ORDER BY w DESC LIMIT 1) o');
SELECT compare_entries('SELECT s, (SELECT sum(w) FROM big WHERE u IN (s, alike(x + 100))) FROM small WHERE x < 2');
SELECT compare_entries('SELECT a.u, a.w, b.u, b.w FROM big a JOIN big b ON a.u = b.u JOIN small ON s = a.u');
SELECT compare_entries('SELECT u, w FROM (SELECT u, w FROM big UNION ALL SELECT u, w + 1 FROM big) q WHERE u IN (SELECT s FROM small)');
SELECT compare_entries('SELECT u, u AS again, u || ''!'', w FROM big WHERE u = ANY (ARRAY(SELECT s FROM small)) ORDER BY u');
SELECT compare_entries('WITH m AS MATERIALIZED (SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT s FROM small WHERE x < 4))) SELECT a.u, b.w FROM m a, m b WHERE a.u < b.u');
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT compare_entries('SELECT q.u, r.w FROM (SELECT u FROM big WHERE u = ANY (ARRAY(SELECT s FROM small)) OFFSET 0) q
	FULL JOIN (SELECT u, w FROM big WHERE u = ANY (ARRAY(SELECT s FROM small WHERE x < 5)) OFFSET 0) r ON q.u = r.u');
RESET enable_hashjoin;
RESET enable_nestloop;
SELECT compare_entries('SELECT s, u FROM small LEFT JOIN big ON u = s AND u = alike(x)');
-- bitmap scans recheck
SET gpujoin.enabled = off;
SET enable_seqscan = off;
SELECT explain('COSTS OFF',
	'SELECT * FROM big WHERE u IN (''id-6'', ''a text that is no id 8'')');
SELECT count(*) FROM big WHERE u IN ('id-6', 'a text that is no id 8');
RESET enable_seqscan;
RESET gpujoin.enabled;

-- Changes: entries whose page is not all-visible are read from the heap
DELETE FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 100) i)) OR u = alike(3);
UPDATE big SET u = alike(w::int) WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(101, 200) i));
UPDATE big SET u = 'a text that is no id ' || w WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(201, 210) i));
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(0, 300) i))');
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(0, 300) i))');
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT ''a text that is no id '' || i FROM generate_series(0, 300) i))');
SELECT gpujoin_fold('big_u') > 0 AS folded;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(0, 300) i))');
VACUUM big;
SELECT gpujoin_fold('big_u', true) > 0 AS folded;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT alike(i) FROM generate_series(0, 300) i))');
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(0, 300) i))');
SELECT gpujoin_check('big_u', true) = (SELECT count(*) FROM big) AS sound;
REINDEX INDEX big_u;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(0, 300) i))');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT compare('SELECT u, v FROM big WHERE u IN (id(250), id(251), alike(7))');
COMMIT;
-- with a device, if there is one
SET client_min_messages = warning;
SELECT count(gpujoin_load(i)) IS NOT NULL AS tried
FROM (SELECT i FROM unnest('{big_u}'::regclass[]) i WHERE EXISTS (SELECT FROM gpujoin_status() WHERE state = 'ready')) d;
RESET client_min_messages;
SET gpujoin.debug_reduce_rows = 0;
SELECT compare_entries('SELECT u, v, w FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(0, 3000, 7) i))');
SELECT compare_entries('SELECT v, count(*), sum(w) FROM big WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 4000, 5) i)) AND v < 7 GROUP BY v');
SELECT compare_entries('SELECT s, count(*), sum(w) FROM small JOIN big ON u = s GROUP BY s');
RESET gpujoin.debug_reduce_rows;

-- Partitions, varchar, a domain, a partial index, a temporary table, an expression
CREATE DOMAIN key_of AS varchar(40);
CREATE TABLE parts (u varchar(40), d key_of, n int) PARTITION BY HASH (u);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT id(i % 900), id(i % 500), i % 5 FROM generate_series(1, 4000) i;
INSERT INTO parts SELECT alike(i), alike(i % 10), i % 5 FROM generate_series(1, 1000) i;
CREATE INDEX parts_u ON parts USING gpujoin (u text_id_ops) INCLUDE (n);
CREATE INDEX parts_d ON parts USING gpujoin (d text_id_ops) INCLUDE (n) WHERE n < 3;
CREATE INDEX parts_e ON parts USING gpujoin (lower(u) text_id_ops) INCLUDE (n);
VACUUM (FREEZE, ANALYZE) parts;
PREPARE of_parts(int) AS SELECT u, n FROM parts WHERE u = ANY (ARRAY(SELECT id(i) FROM generate_series($1, $1 + 100) i) || ARRAY(SELECT alike(i) FROM generate_series($1, $1 + 100) i));
SELECT compare_generic('of_parts', '1', '850', '2000');
SELECT compare_entries('SELECT u, n FROM parts WHERE u IN (id(1), id(8), alike(7))');
SELECT compare_entries('SELECT d, n FROM parts WHERE d IN (id(1), id(8), alike(7)) AND n < 3');
SELECT compare_entries('SELECT u, n FROM parts WHERE lower(u) IN (lower(id(1)), lower(id(2)), lower(id(8)), alike(7))');
SELECT compare_entries('SELECT s, u, n FROM small JOIN parts ON u = s');
CREATE TEMP TABLE mine AS SELECT * FROM big;
CREATE INDEX mine_u ON mine USING gpujoin (u text_id_ops) INCLUDE (v);
INSERT INTO mine SELECT * FROM big LIMIT 500;
VACUUM (FREEZE, ANALYZE) mine;
SELECT compare_entries('SELECT u, v FROM mine WHERE u IN (id(250), id(251), alike(7))');
SELECT gpujoin_check('mine_u', true) = (SELECT count(*) FROM mine) AS sound;

-- Mostly no ids: the heap is read
CREATE TABLE texts (t text, n int);
INSERT INTO texts SELECT CASE WHEN i % 4 = 0 THEN 'id-' || i ELSE 'a text that is no id ' || i END, i FROM generate_series(1, 5000) i;
CREATE INDEX texts_t ON texts USING gpujoin (t text_id_ops) INCLUDE (n);
VACUUM (FREEZE, ANALYZE) texts;
SELECT compare_entries('SELECT t, n FROM texts WHERE t IN (''id-4'', ''a text that is no id 5'')');
SELECT compare_entries('SELECT t, s FROM texts JOIN small ON t = s');

-- Hashes that collide; only our own function makes rests, under PostgreSQL's own equality
CREATE FUNCTION hash_one(text, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT 1::int8';
CREATE OPERATOR CLASS one_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_one(text, int8), FUNCTION 4 gpujoin_rest(text), STORAGE int8;
DROP INDEX texts_t;
CREATE INDEX texts_t ON texts USING gpujoin (t one_ops) INCLUDE (n);
SELECT compare_entries('SELECT t, n FROM texts WHERE t IN (''id-4'', ''id-5'', ''a text that is no id 5'', ''a text that is no id 6000'')');
INSERT INTO small SELECT 'a text that is no id ' || i, i FROM generate_series(1, 30) i;
SELECT compare_entries('SELECT t, s FROM texts JOIN small ON t = s');
SELECT compare_entries('SELECT t, n FROM texts WHERE (t, n) IN ((''id-4'', 4), (''id-8'', 4), (''a text that is no id 5'', 5), (''a text that is no id 6'', 5))');
CREATE FUNCTION no_rest(text) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT 0::int8 $$;
CREATE OPERATOR CLASS bad_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hashtextextended(text, int8), FUNCTION 4 no_rest(text), STORAGE int8;
CREATE INDEX bad_t ON texts USING gpujoin (t bad_ops);
CREATE FUNCTION same(text, text) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT lower($1) = lower($2) $$;
CREATE OPERATOR === (FUNCTION = same, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR CLASS worse_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 === (text, text), FUNCTION 2 hashtextextended(text, int8), FUNCTION 4 gpujoin_rest(text), STORAGE int8;
CREATE INDEX worse_t ON texts USING gpujoin (t worse_ops);

SET client_min_messages = warning;
DROP SCHEMA text_id CASCADE;
DROP EXTENSION gpujoin_test;
