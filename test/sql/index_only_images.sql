--
-- Index-only answers of an index with images and hashes: an image proves that its entry's key is
-- listed, and rows with a hash are read from the heap
--
CREATE SCHEMA index_only_images;
SET search_path = index_only_images, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql

CREATE TABLE big (id int, n numeric(25,0), d numeric(10,2), s varchar(20), c char(3), l text, v int, w int2) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 400, i % 400 / 4.0, 's' || i % 400, 'c' || i % 60, 'a long string ' || i % 400, i % 10, i % 7
	FROM generate_series(1, 10000) i;
-- values without an image, which are found in the heap
INSERT INTO big SELECT i, 1e20 + i % 40, i, 'a long string ' || i % 40, 'z', 's', i % 10, NULL FROM generate_series(1, 200) i;
INSERT INTO big (id, v) VALUES (0, 1);
CREATE INDEX big_n ON big USING gpujoin (n) INCLUDE (v, w);
CREATE INDEX big_d ON big USING gpujoin (d) INCLUDE (v);
CREATE INDEX big_s ON big USING gpujoin (s) INCLUDE (v);
CREATE INDEX big_c ON big USING gpujoin (c) INCLUDE (v);
CREATE INDEX big_l ON big USING gpujoin (l) INCLUDE (v);
VACUUM ANALYZE big;

SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT v, w FROM big WHERE n IN (1, 2.0, 7.5, 1000)');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT v FROM big WHERE n IN (1, 1e20, 100000000000000000007)');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT v FROM big WHERE s IN (''s1'', ''s2'', ''a long string 7'') AND v > 3');
EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM big WHERE c IN ('c1', 'c2 ');
-- not: the key itself is wanted, fractions, long strings, joins
EXPLAIN (COSTS OFF) SELECT n, v FROM big WHERE n IN (1, 2);
EXPLAIN (COSTS OFF) SELECT v FROM big WHERE n IN (1, 2) AND n <> 2;
EXPLAIN (COSTS OFF) SELECT v FROM big WHERE d IN (1, 2.5);
EXPLAIN (COSTS OFF) SELECT v FROM big WHERE l IN ('a', 'b');
EXPLAIN (COSTS OFF) SELECT v FROM big WHERE n IN (1, 2) ORDER BY v LIMIT 2;
EXPLAIN (COSTS OFF) SELECT v FROM big JOIN unnest('{1,2}'::numeric[]) x ON n = x;

CREATE TABLE conditions (number int GENERATED ALWAYS AS IDENTITY, condition text);
INSERT INTO conditions (condition) VALUES ('n IN (1, 2.0, 7.5, 1000)'), ('n IN (1, 1e20, 100000000000000000007, NULL)'), ('n = ANY (''{}'')'),
	('n = ANY (ARRAY(SELECT i FROM generate_series(1, 600, 3) i)::numeric[])'), ('n = 1 OR n = 1e20'), ('n IN (1, 2, 3) AND v > 2'),
	('n IN (1, 1e20, 100000000000000000007) AND v IN (1, 7)'), ('(n, v) IN ((1, 1), (2, 2), (1e20, 0), (3, 4))'), ('(n, w) IN ((1, 1), (2, NULL), (7, 0))'),
	('s IN (''s1'', ''s2'', ''a long string 7'')'), ('s = ANY (''{s1,S2,"s1 "}'') AND v = 1'), ('(s, v) IN ((''s1'', 1), (''a long string 7'', 7), (''s2'', 3))'),
	('c IN (''c1'', ''c2 '', ''z'')'), ('c = ANY (''{c1,"c2 "}''::text[])'), ('d IN (1, 2.50, 7)'), ('l IN (''s'', ''a long string 3'')');
CREATE FUNCTION compare_all() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' | ', number, compare('SELECT count(*), sum(v), min(v) FROM big WHERE ' || condition),
		compare('SELECT v FROM big WHERE ' || condition), compare('SELECT v, count(*) FROM big WHERE ' || condition || ' GROUP BY v'),
		compare('SELECT * FROM (SELECT v FROM big WHERE ' || condition || ' ORDER BY v LIMIT 7) q'))
	FROM conditions ORDER BY number $$;
SELECT compare_all();
-- pages that are not all-visible
UPDATE big SET v = v + 1 WHERE id % 9 = 1;
DELETE FROM big WHERE id % 11 = 1;
INSERT INTO big SELECT i, CASE WHEN i % 2 = 0 THEN i % 40 ELSE 1e20 + i % 40 END, 1, 's' || i % 9, 'c1', 'l', i % 10, 1 FROM generate_series(20001, 20300) i;
SELECT compare_all();
VACUUM big;
SELECT compare_all();
-- with a device, if there is one; it also adds rows up
SET client_min_messages = warning;
SELECT count(gpujoin_load(i)) IS NOT NULL AS tried
FROM (SELECT i FROM unnest('{big_n,big_s,big_c}'::regclass[]) i WHERE EXISTS (SELECT FROM gpujoin_status() WHERE state = 'ready')) d;
RESET client_min_messages;
SET gpujoin.debug_reduce_rows = 0;
SELECT compare_all();
RESET gpujoin.debug_reduce_rows;
-- workers
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT compare_all();

-- Values that collide are no images
CREATE FUNCTION hash_one(numeric, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT 1::int8';
CREATE OPERATOR CLASS one_ops FOR TYPE numeric USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_one(numeric, int8), FUNCTION 3 gpujoin_image(numeric), STORAGE int8;
CREATE TABLE alike (n numeric(25,0), v int) WITH (autovacuum_enabled = off);
INSERT INTO alike SELECT CASE WHEN i % 3 = 0 THEN 1e20 + i % 50 ELSE i % 50 END, i % 10 FROM generate_series(1, 3000) i;
CREATE INDEX alike_n ON alike USING gpujoin (n one_ops) INCLUDE (v);
VACUUM ANALYZE alike;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT v FROM alike WHERE n IN (1, 1e20)');
SELECT compare('SELECT v FROM alike WHERE n IN (1, 1e20, 100000000000000000007)');
SELECT compare('SELECT count(*), sum(v) FROM alike WHERE n IN (2, 100000000000000000007) AND v < 5');

SET client_min_messages = warning;
DROP SCHEMA index_only_images CASCADE;
