--
-- Joins by keys of which the index stores hashes; some of them collide on purpose
--
CREATE SCHEMA join_hash;
SET search_path = join_hash, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql
CREATE FUNCTION compare_join(query text) RETURNS text LANGUAGE sql AS $$ SELECT compare(query, 'GpuJoin') $$;

CREATE FUNCTION hash_seven(int8, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
	AS $$ SELECT ($1 % 7) * 1000 + $2 $$;
CREATE OPERATOR CLASS seven_ops FOR TYPE int8 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_seven(int8, int8), STORAGE int8;
CREATE TABLE big (id int, k int8, t text, c char(20), n numeric, u uuid, v int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, w, 'text number ' || w, 'char ' || w, w / 4.0, md5(w::text)::uuid, i % 10
	FROM (SELECT i, CASE WHEN i % 50 <> 0 THEN i % 211 END AS w FROM generate_series(1, 3000) i) q;
CREATE INDEX big_k ON big USING gpujoin (k seven_ops) INCLUDE (id, v);
CREATE INDEX big_t ON big USING gpujoin (t) INCLUDE (v);
CREATE INDEX big_c ON big USING gpujoin (c);
CREATE INDEX big_n ON big USING gpujoin (n);
CREATE INDEX big_u ON big USING gpujoin (u);
CREATE TABLE small (k int8, t varchar(40), c char(10), n numeric(12,4), u uuid, v int, w int);
INSERT INTO small SELECT g, 'text number ' || g, 'char ' || g, g / 4.0, md5(g::text)::uuid, i % 10, i
	FROM (SELECT i, CASE WHEN i % 9 <> 0 THEN i % 40 END AS g FROM generate_series(3, 60) i) q;
VACUUM ANALYZE big, small;

EXPLAIN (COSTS OFF) SELECT b.id, s.w FROM big b JOIN small s USING (t);
CREATE TABLE forms (number int GENERATED ALWAYS AS IDENTITY, form text);
INSERT INTO forms (form) VALUES ('SELECT b.*, s.w FROM big b JOIN small s ON b.# = s.#'),
	('SELECT b.*, s.w FROM big b JOIN small s ON b.# = s.# AND b.v = s.v'),
	('SELECT b.*, s.w FROM big b JOIN small s ON b.# = s.# AND b.v < s.v'),
	('SELECT b.* FROM big b WHERE b.# IN (SELECT # FROM small)'),
	('SELECT b.* FROM big b WHERE EXISTS (SELECT FROM small s WHERE s.# = b.# AND s.v > b.v)'),
	('SELECT s.* FROM small s WHERE EXISTS (SELECT FROM big b WHERE s.# = b.#)'),
	('SELECT s.* FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE s.# = b.#)'),
	('SELECT s.* FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE s.# = b.# AND s.v = b.v)'),
	('SELECT s.*, b.id FROM small s LEFT JOIN big b ON s.# = b.#'),
	('SELECT s.*, b.id FROM small s LEFT JOIN big b ON s.# = b.# AND b.v = 3'),
	('SELECT s.w, count(b.id), sum(b.v) FROM small s JOIN big b ON s.# = b.# GROUP BY s.w'),
	('SELECT count(*) FROM small s JOIN big b ON s.# = b.#'),
	('SELECT b.id, b.v FROM big b JOIN (SELECT DISTINCT # FROM small) s ON s.# = b.# WHERE b.v < 5');
SELECT number, c AS column, compare_join(replace(form, '#', c)) FROM forms, unnest('{k,t,c,n,u}'::text[]) c ORDER BY 1, 2;
SELECT compare_join('SELECT b.* FROM big b JOIN (VALUES (''text number 3''), (''text number 10''), (NULL)) s (t) USING (t)');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{3,10,17,NULL}''::int8[]) s (k) USING (k)');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{3,10}''::int8[], ''{3,4}''::int[]) s (k, v) USING (k, v)');
-- the small side's value is an expression: join_value.sql
SELECT compare_join('SELECT b.* FROM big b JOIN small s ON b.t = lower(s.t)');
-- spilled
SET work_mem = '64kB';
SET hash_mem_multiplier = 1.0;
SELECT compare_join('SELECT b.id, s.* FROM big b JOIN (SELECT s.*, repeat(''x'', 500) AS x FROM small s, generate_series(1, 20)) s USING (t)');
SELECT compare_join('SELECT b.id, s.* FROM big b JOIN (SELECT s.*, repeat(''x'', 500) AS x FROM small s, generate_series(1, 20)) s USING (k)');
RESET work_mem;
RESET hash_mem_multiplier;
-- changes by joins
BEGIN;
UPDATE big b SET v = s.w FROM (SELECT DISTINCT ON (t) * FROM small ORDER BY t, w) s WHERE b.t = s.t;
DELETE FROM big b USING small s WHERE b.k = s.k AND s.w < 10;
SELECT count(*), sum(v), sum(id) FROM big;
ROLLBACK;
BEGIN;
SET LOCAL gpujoin.enabled = off;
UPDATE big b SET v = s.w FROM (SELECT DISTINCT ON (t) * FROM small ORDER BY t, w) s WHERE b.t = s.t;
DELETE FROM big b USING small s WHERE b.k = s.k AND s.w < 10;
SELECT count(*), sum(v), sum(id) FROM big;
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA join_hash CASCADE;
