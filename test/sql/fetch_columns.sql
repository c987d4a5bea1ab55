--
-- Columns read directly from heap tuples: their offsets, and tuples with other offsets
--
CREATE SCHEMA fetch_columns;
SET search_path = fetch_columns, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql

-- Keys that occur once, or twice with further columns that the query needs
CREATE TABLE once AS SELECT i * 3 AS k FROM generate_series(1, 60) i;
CREATE TABLE twice (k int, x int, label text);
INSERT INTO twice SELECT i * 4, i, 'label ' || i FROM generate_series(1, 40) i;
INSERT INTO twice SELECT k, -x, NULL FROM twice WHERE x % 3 = 0;
ANALYZE once, twice;

-- Read a table's columns with a scan, in joins and below nodes that materialize or sort them
CREATE FUNCTION check_columns(source text, columns text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	part text;
	query text;
	answer record;
	rows bigint = 0;
BEGIN
	PERFORM set_config('client_min_messages', 'warning', true);
	FOREACH part IN ARRAY ARRAY[replace(columns, ';', ', '), substring(columns FROM '^[^;]*'),
		substring(columns FROM '[^;]*$')] LOOP
		FOREACH query IN ARRAY ARRAY[
			'SELECT %2$s FROM %1$s b WHERE key = ANY (ARRAY(SELECT i FROM generate_series(0, 200, 7) i))',
			'SELECT DISTINCT %2$s FROM %1$s b WHERE key IN (3, 6, 9, 77)',
			'SELECT %2$s FROM once s JOIN %1$s b ON b.key = s.k',
			'SELECT %2$s, s.k AS small_k FROM once s JOIN %1$s b ON b.key = s.k',
			'SELECT label, %2$s, x FROM twice s JOIN %1$s b ON b.key = s.k',
			'SELECT %2$s FROM twice s JOIN %1$s b ON b.key = s.k ORDER BY 1',
			'SELECT %2$s FROM %1$s b WHERE key IN (SELECT k FROM twice)',
			'SELECT label, %2$s FROM twice s LEFT JOIN %1$s b ON b.key = s.k',
			'SELECT %2$s FROM once s JOIN %1$s b ON b.key = s.k, generate_series(1, 3)'] LOOP
			SELECT * INTO answer FROM both_ways(format(query, source, part));
			IF answer.missing + answer.surplus > 0 THEN
				RETURN format('DIFFERENT: ' || query, source, part);
			END IF;
			rows = rows + answer.n;
		END LOOP;
	END LOOP;
	RETURN rows || ' rows, same';
END $$;

-- All widths, by value and by reference, and columns after the first of variable width
CREATE TABLE kinds (a int2, key int, c "char", d int8, e bool, f float4, g uuid, h float8, i name,
					j date, t text, l int, m timestamptz);
INSERT INTO kinds SELECT i, i % 211, chr(65 + i % 26)::"char", i * 10000000000, i % 3 = 0, i / 7.0,
	md5(i::text)::uuid, i / 3.0, 'name ' || i, date '2000-01-01' + i, repeat('k', i % 100), -i,
	timestamptz '2000-01-01 00:00:00+00' + i * interval '1 hour' FROM generate_series(1, 3000) i;
CREATE INDEX ON kinds USING gpujoin (key);
ANALYZE kinds;
SELECT check_columns('kinds', 'a;key;c;d;e;f;g;h;i;j');
SELECT check_columns('kinds', 't;l;m');
SELECT check_columns('kinds', 'b.ctid AS place;b.tableoid::regclass AS source;b::text AS whole;a + 1 AS more');
VACUUM kinds;
SELECT check_columns('kinds', 'a;key;c;d;e;f;g;h;i;j');

-- NULLs before, in and after a column, in some tuples
UPDATE kinds SET a = NULL WHERE d / 10000000000 % 5 = 0;
UPDATE kinds SET h = NULL, m = NULL WHERE d / 10000000000 % 7 = 0;
SELECT check_columns('kinds', 'a;key;d;g;h;j');
VACUUM kinds;
SELECT check_columns('kinds', 'a;key;d;g;h;j');

-- Dropped columns, before and after, in old and in new tuples
ALTER TABLE kinds DROP COLUMN c, DROP COLUMN t;
SELECT check_columns('kinds', 'a;key;d;g;h;j;l;m');
INSERT INTO kinds SELECT i, i % 211, i * 10000000000, true, i, md5(i::text)::uuid, i, 'new ' || i,
	'2000-01-01', -i, '2000-01-01 00:00:00+00' FROM generate_series(3001, 4000) i;
SELECT check_columns('kinds', 'a;key;d;e;f;g;h;i;j;l;m');

-- Added columns: without a value, and with one that old tuples do not store
CREATE TABLE added (key int, a int);
INSERT INTO added SELECT i % 211, i FROM generate_series(1, 2000) i;
CREATE INDEX ON added USING gpujoin (key);
ALTER TABLE added ADD COLUMN b int, ADD COLUMN c int8 DEFAULT 7, ADD COLUMN d uuid
	DEFAULT '12345678-1234-1234-1234-123456789012';
INSERT INTO added SELECT i % 211, i, i, i, md5(i::text)::uuid FROM generate_series(2001, 4000) i;
UPDATE added SET a = -a WHERE a % 10 = 0;
VACUUM ANALYZE added;
SELECT check_columns('added', 'key;a;b;c;d');

-- Inline and toasted values before a column, a key after them, generated values
CREATE TABLE wide (t text, key int, v int, w int8 GENERATED ALWAYS AS (v * 2) STORED);
ALTER TABLE wide ALTER t SET STORAGE EXTERNAL;
INSERT INTO wide SELECT CASE WHEN i % 100 = 0 THEN repeat('t', 10000) ELSE repeat('t', i % 50) END,
	i % 211, i FROM generate_series(1, 2000) i;
CREATE INDEX ON wide USING gpujoin (key);
CREATE TABLE generated (key int, v int, w int8 GENERATED ALWAYS AS (v * 2) STORED);
INSERT INTO generated SELECT i % 211, CASE WHEN i % 9 > 0 THEN i END FROM generate_series(1, 2000) i;
CREATE INDEX ON generated USING gpujoin (key);
ANALYZE wide, generated;
SELECT check_columns('wide', 'length(t) AS length;key;v;w');
SELECT check_columns('generated', 'key;v;w');

-- Children whose columns have other positions, one of them without room for NULLs
CREATE TABLE parent (key int, a int8, b date);
CREATE TABLE child_1 (b date, note text, a int8, key int);
CREATE TABLE child_2 (a int8 NOT NULL, b date NOT NULL, key int NOT NULL);
ALTER TABLE child_1 INHERIT parent;
ALTER TABLE child_2 INHERIT parent;
INSERT INTO parent SELECT i % 211, i, date '2000-01-01' + i FROM generate_series(1, 1000) i;
INSERT INTO child_1 SELECT date '2000-01-01' + i, 'note', i, i % 211 FROM generate_series(1001, 2000) i;
INSERT INTO child_2 SELECT i, date '2000-01-01' + i, i % 211 FROM generate_series(2001, 3000) i;
CREATE INDEX ON parent USING gpujoin (key);
CREATE INDEX ON child_1 USING gpujoin (key);
CREATE INDEX ON child_2 USING gpujoin (key);
ANALYZE parent, child_1, child_2;
SELECT check_columns('parent', 'key;a;b');

-- Chains, redirects, dead rows, and a temporary table
CREATE TABLE chains (key int, v int, w date) WITH (fillfactor = 50, autovacuum_enabled = off);
INSERT INTO chains SELECT i % 211, i, date '2000-01-01' + i FROM generate_series(1, 3000) i;
CREATE INDEX ON chains USING gpujoin (key);
ANALYZE chains;
UPDATE chains SET v = -v WHERE v % 3 = 0;
SELECT check_columns('chains', 'key;v;w');
VACUUM chains;
UPDATE chains SET w = NULL WHERE v % 11 = 0;
DELETE FROM chains WHERE v % 13 = 0;
UPDATE chains SET key = key + 1 WHERE v % 17 = 0;
SELECT check_columns('chains', 'key;v;w');
VACUUM chains;
SELECT check_columns('chains', 'key;v;w');
CREATE TEMP TABLE own AS TABLE chains;
CREATE INDEX ON own USING gpujoin (key);
ANALYZE own;
SELECT check_columns('own', 'key;v;w');

-- Blocks whose offsets are unknown: rows with other keys are read, too
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
CREATE TABLE many (key int, v int);
INSERT INTO many SELECT i % 211, i FROM generate_series(1, 25000) i;
CREATE INDEX ON many USING gpujoin (key);
VACUUM ANALYZE many;
SELECT check_columns('many', 'key;v');
RESET work_mem;
RESET hash_mem_multiplier;

-- The current row of a cursor
SET gpujoin.force = on;
BEGIN;
DECLARE c CURSOR FOR SELECT w FROM chains WHERE key IN (40, 41);
FETCH 3 FROM c;
UPDATE chains SET v = 1000000 WHERE CURRENT OF c;
SELECT key, v, w FROM chains WHERE v = 1000000;
MOVE 2 FROM c;
DELETE FROM chains WHERE CURRENT OF c RETURNING key, v, w;
ROLLBACK;

-- Rows are counted, however they are passed on
CREATE FUNCTION counted(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Custom Scan|Recheck' THEN
			RETURN NEXT regexp_replace(line, '\.0+', '', 'g');
		END IF;
	END LOOP;
END $$;
SELECT counted('SELECT b.v, b.w FROM once s JOIN chains b ON b.key = s.k');
SELECT counted('SELECT b.v, s.x FROM twice s JOIN chains b ON b.key = s.k');
SELECT counted('SELECT w FROM chains WHERE key IN (40, 41)');

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA fetch_columns CASCADE;
