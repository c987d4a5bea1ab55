--
-- Keys of which the index stores hashes that collide on purpose: an operator class with seven
-- hashes, and one with a single hash. Every form must find the rows with the wanted values only.
--
CREATE SCHEMA form_hash;
SET search_path = form_hash, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql

CREATE FUNCTION hash_seven(int8, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
	AS $$ SELECT ($1 % 7) * 1000 + $2 $$;
CREATE FUNCTION hash_one(int8, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
	AS $$ SELECT 1::int8 $$;
CREATE OPERATOR CLASS seven_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_seven(int8, int8), STORAGE int8;
CREATE OPERATOR CLASS one_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_one(int8, int8), STORAGE int8;
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname IN ('seven_ops', 'one_ops') ORDER BY 1;

CREATE TABLE seven (id int, k int8, v int, note text) WITH (autovacuum_enabled = off);
INSERT INTO seven SELECT i, CASE WHEN i % 50 <> 0 THEN i % 211 END, i % 10, 'row ' || i
	FROM generate_series(1, 3000) i;
CREATE TABLE one (LIKE seven) WITH (autovacuum_enabled = off);
INSERT INTO one SELECT * FROM seven;
CREATE INDEX seven_k ON seven USING gpujoin (k seven_ops) INCLUDE (id, v);
CREATE INDEX one_k ON one USING gpujoin (k one_ops) INCLUDE (v);
VACUUM ANALYZE seven, one;

-- Strangers are counted, as rows that the recheck removes
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM seven WHERE k IN (3, 4)');

-- every form of a condition, on both tables
CREATE TABLE conditions (number int GENERATED ALWAYS AS IDENTITY, condition text);
INSERT INTO conditions (condition) VALUES ('k = ''3'''), ('''3'' = k'), ('k IN (3, 4, 5)'), ('k = ANY (''{3,4,NULL}'')'),
	('k = ANY (''{}'')'), ('k = ANY (NULL::int8[])'), ('k = ''3'' OR k = ''10'''), ('k = ''3'' OR k = ANY (''{10,17}'')'),
	('(k = ''3'' OR k = ''10'') AND (k = ''10'' OR k = ''17'')'), ('k = ''3'' AND k IN (10, 17)'), ('k IN (3, 10) AND k IN (10, 17)'),
	('k = ANY (ARRAY(SELECT g FROM generate_series(3::int8, 30, 7) g))'),
	('k = (SELECT 17::int8)'), ('k = ''3'' AND v = 3'), ('k IN (3, 10, 17) AND v < 5'),
	('k = ''3'' AND v = 1 OR k = ''10'' AND v = 2'), ('(k = ''3'') IS TRUE'), ('coalesce(k = ''3'' OR k = ''4'', false)'),
	('coalesce(k = ''3'' OR k = ''4'', false) OR k = ''5'''),
	('k = ANY (''{3,10}'') OR k IS NULL AND array_position(''{3,NULL}''::int8[], NULL) IS NOT NULL'),
	('k = ANY (''{3,10}'') OR k IS NULL AND true');
SELECT number, compare('SELECT * FROM seven WHERE ' || condition) AS seven,
	compare('SELECT * FROM one WHERE ' || condition) AS one, condition
FROM conditions ORDER BY number;
-- what excludes values is not answered by hashes
SELECT compare('SELECT * FROM seven WHERE k <> 3');
SELECT compare('SELECT * FROM seven WHERE k <> ALL (''{3,10}'')');
SELECT compare('SELECT * FROM seven WHERE k NOT IN (3, 10) AND k IN (3, 17)');

-- with an INCLUDE column: filters of entries, aggregates, order; not index-only
SELECT compare('SELECT id, v FROM seven WHERE k IN (3, 10)');
SELECT compare('SELECT v, count(*), sum(id) FROM seven WHERE k IN (3, 10, 17) GROUP BY v');
SELECT compare('SELECT count(*) FROM one WHERE k IN (3, 10, 17)');
SELECT compare('SELECT count(DISTINCT v) FROM one WHERE k IN (3, 10, 17)');
SELECT compare('SELECT * FROM (SELECT id, note FROM seven WHERE k IN (3, 10) ORDER BY id DESC LIMIT 5) q');
SELECT compare('SELECT * FROM (SELECT id, k FROM seven WHERE k IN (3, 10) AND v > 3 ORDER BY v, id LIMIT 50) q');
EXPLAIN (COSTS OFF) SELECT id, v FROM seven WHERE k IN (3, 10) ORDER BY id LIMIT 5;

-- Generic plans, cursors
PREPARE of_seven(int8[]) AS SELECT s FROM seven s WHERE k = ANY ($1);
PREPARE of_one(int8, int8) AS SELECT o FROM one o WHERE k IN ($1, $2);
PREPARE or_null(int8[]) AS SELECT s FROM seven s WHERE k = ANY ($1)
	OR (k IS NULL AND array_position($1, NULL) IS NOT NULL);
SELECT compare_generic('or_null', $$'{3,10,NULL}'$$, $$'{3,10}'$$, 'NULL', $$'{NULL}'$$);
SELECT compare_generic('of_seven', $$'{3,10,NULL}'$$, 'NULL', $$'{}'$$, $$'{500,-4}'$$);
SELECT compare_generic('of_one', '3, 10', 'NULL, 4', '1000, 2000');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM one WHERE k IN (3, 10) ORDER BY id LIMIT 7;
FETCH 3 FROM c;
FETCH 10 FROM c;
COMMIT;

-- Joins: see join_hash
SELECT compare('SELECT s.* FROM seven s JOIN (VALUES (3::int8), (10)) v (k) USING (k)');
SELECT compare('SELECT s.* FROM seven s WHERE EXISTS (SELECT FROM unnest(''{3,10}''::int8[]) u WHERE u = s.k)');

-- Bitmap scans, which PostgreSQL rechecks
SET gpujoin.force = off;
SET gpujoin.min_rows = 1000000;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM seven WHERE k = ANY ('{3,10}') AND id BETWEEN 100 AND 1500;
SELECT count(*), sum(id) FROM seven WHERE k = ANY ('{3,10}') AND id BETWEEN 100 AND 1500;
SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM seven WHERE k = ANY ('{3,10}') AND id BETWEEN 100 AND 1500;
RESET enable_bitmapscan;
-- which takes too long for each row, unless the array is a constant
CREATE INDEX seven_id ON seven (id);
SELECT explain('COSTS OFF',
	'SELECT count(*) FROM seven WHERE k = ANY (ARRAY(SELECT 3::int8)) AND id BETWEEN 100 AND 1500');
RESET enable_seqscan;
RESET gpujoin.min_rows;
SET gpujoin.force = on;
DROP INDEX seven_id;

-- Changes
UPDATE seven SET k = k + 7 WHERE k IN (3, 10);
DELETE FROM seven WHERE k = ANY ('{17,24}');
INSERT INTO seven SELECT i, i % 20, i % 10, 'new' FROM generate_series(5001, 5100) i;
SELECT compare('SELECT * FROM seven WHERE k IN (3, 10, 17, 24)');
SELECT gpujoin_check('seven_k', heapallindexed => true);
VACUUM seven;
SELECT gpujoin_fold('seven_k') > 0 AS folded;
SELECT compare('SELECT * FROM seven WHERE k IN (3, 10, 17, 24)');
SELECT gpujoin_check('seven_k', heapallindexed => true);

-- Memory for few TIDs: whole blocks are rechecked
SET work_mem = '64kB';
SET hash_mem_multiplier = 1.0;
INSERT INTO one SELECT i, i % 14, 0, repeat('x', 500) FROM generate_series(1, 20000) i;
SELECT compare('SELECT * FROM one WHERE k IN (3, 10)');
RESET work_mem;
RESET hash_mem_multiplier;

-- Values with one hash, as a list: the set of values does not depend on that hash alone
CREATE FUNCTION hash_weak(int8, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
	AS $$ SELECT CASE $2 WHEN 0 THEN 1 ELSE hashint8extended($1, $2) END $$;
CREATE OPERATOR CLASS weak_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_weak(int8, int8), STORAGE int8;
ALTER TABLE seven ADD w int8;
UPDATE seven SET w = id;
CREATE INDEX seven_w ON seven USING gpujoin (w weak_ops);
ANALYZE seven;
SELECT compare('SELECT * FROM seven WHERE w = ANY (ARRAY(SELECT generate_series(1000::int8, 100000)))');

-- The same of PostgreSQL's own hash function, which is easily inverted
CREATE EXTENSION gpujoin_test;
SELECT count(DISTINCT b), count(DISTINCT gpujoin_hash(b, 0)), count(DISTINCT gpujoin_hash(b, 1)) FROM (SELECT gpujoin_test_flood(i) FROM generate_series(1, 1000) i) f (b);
CREATE TABLE flood (b bytea, id int);
INSERT INTO flood SELECT gpujoin_test_flood(i), i FROM generate_series(1, 3000) i;
INSERT INTO flood SELECT sha256(i::text::bytea), i FROM generate_series(1, 3000) i;
CREATE INDEX flood_b ON flood USING gpujoin (b) INCLUDE (id);
CREATE TABLE guesses AS SELECT gpujoin_test_flood(i) AS b, i AS id FROM generate_series(2901, 103000) i;
ANALYZE flood, guesses;
SELECT count(*), sum(id) FROM flood WHERE b = ANY (ARRAY(SELECT b FROM guesses));
SELECT count(*), sum(f.id) FROM flood f JOIN guesses g ON f.b = g.b;
SELECT count(*), sum(id) FROM flood f WHERE (b, id) IN (SELECT b, id FROM guesses);

-- A hash function that ignores the seed cannot be helped, but searches are interruptible
CREATE OPERATOR CLASS constant_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 gpujoin_test_one_hash(int8, int8), STORAGE int8;
CREATE TABLE alike (k int8);
INSERT INTO alike SELECT generate_series(1, 1000);
CREATE INDEX ON alike USING gpujoin (k constant_ops);
ANALYZE alike;
SELECT compare('SELECT * FROM alike WHERE k IN (3, 1003, 10)');
SET statement_timeout = '300ms';
SELECT * FROM alike WHERE k = ANY (ARRAY(SELECT generate_series(1::int8, 400000)));
RESET statement_timeout;

-- Workers
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET gpujoin.aggregate = off;
SELECT compare('SELECT count(*), sum(id) FROM one WHERE k IN (3, 10, 11)');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET gpujoin.aggregate;

-- Keys that are expressions, and partial indexes
CREATE INDEX seven_e ON seven USING gpujoin ((100 / (v - 3) + k) seven_ops) WHERE v <> 3;
ANALYZE seven;
SELECT compare('SELECT * FROM seven WHERE 100 / (v - 3) + k IN (3, 10, 60) AND v <> 3');

-- Partitions
CREATE TABLE parted (id int, k int8) PARTITION BY LIST (k);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT i, i % 30 FROM generate_series(1, 3000) i;
CREATE INDEX ON parted USING gpujoin (k seven_ops);
ANALYZE parted;
SELECT compare('SELECT * FROM parted WHERE k IN (3, 10, 17)');
PREPARE of_parted(int8[]) AS SELECT p FROM parted p WHERE k = ANY ($1);
SELECT compare_generic('of_parted', $$'{3,10,17,NULL}'$$);

-- Classes that are not valid
CREATE FUNCTION image_low(int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT -9000000000000000000 $$;
CREATE OPERATOR CLASS low_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_one(int8, int8), FUNCTION 3 image_low(int8), STORAGE int8;
CREATE INDEX ON seven USING gpujoin (k low_ops);
CREATE OPERATOR CLASS both_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 1 gpujoin_key(int8), FUNCTION 2 hash_one(int8, int8), STORAGE int8;
CREATE INDEX ON seven USING gpujoin (k both_ops);
CREATE OPERATOR CLASS no_storage_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hashtextextended(text, int8);
CREATE INDEX ON seven USING gpujoin (note no_storage_ops);
CREATE UNLOGGED TABLE unlogged (note text);
CREATE INDEX ON unlogged USING gpujoin (note no_storage_ops);
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname IN ('low_ops', 'both_ops', 'no_storage_ops') ORDER BY 1;

-- PostgreSQL's hash functions and ours give the same values in each version and on each processor
SELECT hashtextextended('text', 0), gpujoin_hash('char '::char(9), 0), gpujoin_hash('\x00ff'::bytea, 0), gpujoin_hash('00000000-0000-4000-8000-00000000ffff'::uuid, 0),
	hash_numeric_extended(1.50, 0), hashinetextended('10.1.2.3', 0);
SELECT gpujoin_image('text'::text), gpujoin_image('char '::char(9)), gpujoin_image('\x00ff'::bytea), gpujoin_image(-12.00), gpujoin_rest('00000000-0000-4000-8000-00000000ffff'::uuid);

-- A hash function that has changed
CREATE FUNCTION hash_text(text, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
	AS $$ SELECT hashtextextended($1, $2) $$;
CREATE OPERATOR CLASS changing_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_text(text, int8), STORAGE int8;
CREATE TABLE changing (t text);
INSERT INTO changing SELECT 'number ' || i FROM generate_series(1, 1000) i;
CREATE INDEX changing_t ON changing USING gpujoin (t changing_ops);
ANALYZE changing;
SELECT compare('SELECT * FROM changing WHERE t IN (''number 1'', ''number 2'')');
CREATE OR REPLACE FUNCTION hash_text(text, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
	AS $$ SELECT hashtextextended($1, $2 + 1) $$;
SELECT * FROM changing WHERE t IN ('number 1', 'number 2');
INSERT INTO changing VALUES ('number 1');
SELECT gpujoin_check('changing_t', heapallindexed => true);
REINDEX INDEX changing_t;
SELECT compare('SELECT * FROM changing WHERE t IN (''number 1'', ''number 2'')');

SET client_min_messages = warning;
DROP SCHEMA form_hash CASCADE;
