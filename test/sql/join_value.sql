--
-- Joins whose small side's value is an expression, or whose key is cast
--
CREATE SCHEMA join_value;
SET search_path = join_value, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql
CREATE FUNCTION compare_join(query text) RETURNS text LANGUAGE sql AS $$ SELECT compare(query, 'GpuJoin') $$;

CREATE TABLE big (id int, i int, i8 int8, i2 int2, t text, u uuid, c char(20), n numeric, s text, v int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT g, w, w, w, 'text number ' || w, md5(w::text)::uuid, 'char ' || w, w / 4.0, md5(w::text)::uuid, g % 10
	FROM (SELECT g, CASE WHEN g % 50 <> 0 THEN g % 211 END AS w FROM generate_series(1, 3000) g) q;
CREATE INDEX big_i ON big USING gpujoin (i);
CREATE INDEX big_i8 ON big USING gpujoin (i8) INCLUDE (v);
CREATE INDEX big_i2 ON big USING gpujoin (i2);
CREATE INDEX big_t ON big USING gpujoin (t);
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (v);
CREATE INDEX big_c ON big USING gpujoin (c) INCLUDE (v);
CREATE INDEX big_n ON big USING gpujoin (n);
CREATE INDEX big_s ON big USING gpujoin (s text_id_ops) INCLUDE (v);
CREATE TABLE small (i int, t text, u text, c text, n text, s text, v int, w int) WITH (autovacuum_enabled = off);
INSERT INTO small SELECT g, 'TEXT number ' || g, md5(g::text)::uuid, 'char ' || g, g / 4.0, md5(g::text)::uuid, x % 10, x
	FROM (SELECT x, CASE WHEN x % 9 <> 0 THEN x % 40 END AS g FROM generate_series(3, 60) x) q;
VACUUM ANALYZE big, small;

EXPLAIN (COSTS OFF) SELECT b.id, s.w FROM big b JOIN small s ON b.u = s.u::uuid;
EXPLAIN (COSTS OFF, VERBOSE) SELECT b.v FROM big b WHERE b.u IN (SELECT value::uuid FROM jsonb_array_elements_text('[]'));
CREATE TABLE forms (number int GENERATED ALWAYS AS IDENTITY, form text);
INSERT INTO forms (form) VALUES ('SELECT b.*, s.w FROM big b JOIN small s ON #'),
	('SELECT b.*, s.w FROM big b JOIN small s ON # AND b.v = s.v'),
	('SELECT b.*, s.w FROM big b JOIN small s ON # AND b.v < s.v'),
	('SELECT b.* FROM big b WHERE EXISTS (SELECT FROM small s WHERE #)'),
	('SELECT b.v FROM big b WHERE EXISTS (SELECT FROM small s WHERE # AND s.v > b.v)'),
	('SELECT s.* FROM small s WHERE EXISTS (SELECT FROM big b WHERE #)'),
	('SELECT s.* FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE #)'),
	('SELECT s.* FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE # AND s.v = b.v)'),
	('SELECT s.*, b.id FROM small s LEFT JOIN big b ON #'),
	('SELECT s.*, b.id FROM small s LEFT JOIN big b ON # AND b.v = 3 WHERE b.id IS NULL OR s.w > 20'),
	('SELECT s.w, count(b.id), sum(b.v) FROM small s JOIN big b ON # GROUP BY s.w'),
	('SELECT count(*), sum(b.v) FROM small s JOIN big b ON #');
CREATE TABLE conditions (name text, condition text);
INSERT INTO conditions VALUES ('hash', 'b.t = lower(s.t)'), ('uuid', 'b.u = s.u::uuid'), ('char', 'b.c = s.c::char(10)'),
	('numeric', 'b.n = s.n::numeric'), ('id', 'b.s = coalesce(s.s, ''none'')'), ('int', 'b.i = 2 * s.i + 1'), ('int8', 'b.i8 = s.i::int8 * 2');
SELECT number, name, compare_join(replace(form, '#', condition)) FROM forms, conditions ORDER BY 1, 2;
-- a value that depends on no column of the row; a column of an outer join; a whole row; of several tables
SELECT compare_join('SELECT b.* FROM big b JOIN (SELECT w, coalesce(x.u, md5(''3'')) AS u FROM small s LEFT JOIN (SELECT u, 1 AS one FROM small WHERE v = 4) x USING (u)) s ON b.u = s.u::uuid');
SELECT compare_join('SELECT b.id, s.ctid FROM big b JOIN small s ON b.u = left(s.u, 36)::uuid');
SELECT compare_join('SELECT b.id FROM small a JOIN small s USING (w) JOIN big b ON b.t = lower(a.t || substr(s.t, 1, 0))');
SELECT compare_join('SELECT (SELECT count(*) FROM big b JOIN small s ON b.t = lower(s.t) || o.x) FROM (VALUES (''''), (''1'')) o (x)');
SELECT compare_join('SELECT b.* FROM big b JOIN (SELECT value, ordinality FROM jsonb_array_elements_text(''["3", "20", null]'') WITH ORDINALITY) j ON b.u = md5(j.value)::uuid');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(ARRAY[md5(''3''), md5(''3''), NULL, md5(''8'')]) x ON b.u = x::uuid');
-- volatile: left to PostgreSQL
SELECT compare_join('SELECT count(*) FROM big b JOIN small s ON b.t = lower(s.t || CASE WHEN random() > 2 THEN ''x'' ELSE '''' END)');
-- an error is raised for a row that passes the small side's own conditions, and for no other
SELECT compare_join('SELECT b.* FROM big b JOIN (SELECT * FROM (VALUES (md5(''3''), true), (''no uuid'', false)) s (u, good)) s ON b.u = s.u::uuid AND s.good');
SELECT compare_join('SELECT b.* FROM big b JOIN (VALUES (md5(''3''), true), (''no uuid'', false)) s (u, good) ON b.u = CASE WHEN s.good THEN s.u::uuid END');
SELECT count(*) FROM big b JOIN (VALUES (md5('3')), ('no uuid')) s (u) ON b.u = s.u::uuid;
SET gpujoin.enabled = off;
SELECT count(*) FROM big b JOIN (VALUES (md5('3')), ('no uuid')) s (u) ON b.u = s.u::uuid;
RESET gpujoin.enabled;
-- with a further equality, errors of an expression in it are not raised for rows without a partner
SELECT compare_join('SELECT b.* FROM big b JOIN small s ON b.i = s.i AND b.v = 100 / (s.w - 9)');
-- spilled
SET work_mem = '64kB';
SET hash_mem_multiplier = 1.0;
SELECT compare_join('SELECT b.id, s.* FROM big b JOIN (SELECT s.*, repeat(''x'', 500) AS x FROM small s, generate_series(1, 20)) s ON b.t = lower(s.t)');
SELECT compare_join('SELECT b.id, s.* FROM big b JOIN (SELECT s.*, repeat(''x'', 500) AS x FROM small s, generate_series(1, 20)) s ON b.u::text = s.u');
SELECT compare_join('SELECT b.id, s.* FROM big b RIGHT JOIN (SELECT s.*, repeat(''x'', 500) AS x FROM small s, generate_series(1, 20)) s ON b.i::text = s.n');
RESET work_mem;
RESET hash_mem_multiplier;

-- Casts of the key
EXPLAIN (COSTS OFF) SELECT b.id, s.w FROM big b JOIN small s ON b.u::text = s.u;
EXPLAIN (COSTS OFF) SELECT b.id FROM big b WHERE b.i IN (SELECT value::float8 FROM jsonb_array_elements_text('[1]'));
CREATE TABLE texts (k text, v int, w int);
INSERT INTO texts SELECT k, row_number() OVER () % 10, row_number() OVER () FROM (SELECT unnest(ARRAY[w::text, '0' || w, ' ' || w, md5(w::text)::uuid::text, upper(md5(w::text)::uuid::text), md5(w::text), 'char ' || w, 'char ' || w || ' '])
	FROM generate_series(1, 30) w UNION ALL VALUES (NULL), (''), ('-0'), ('x'), ('99999999999999999999'), ('32768'), ('2147483648'), ('-5')) q (k);
TRUNCATE conditions;
INSERT INTO conditions VALUES ('int', 'b.i::text = s.k'), ('int2', 'b.i2::text = s.k'), ('int8', 's.k = b.i8::text'), ('uuid', 'b.u::text = s.k'), ('char', 'b.c::text = s.k'),
	('varchar', 'b.u::varchar = s.k'), ('lower', 'lower(s.k) = b.u::text');
INSERT INTO big (i, i8, i2, c) VALUES (-5, -5, -5, ''), (0, 0, 0, ' x'), (2147483647, 9223372036854775807, 32767, 'char 3');
SELECT number, name, compare_join(replace(replace(form, '#', condition), 'small', 'texts')) FROM forms, conditions ORDER BY 1, 2;
-- numbers
CREATE TABLE numbers (f float8, n numeric, v int, w int);
INSERT INTO numbers SELECT x, x, row_number() OVER () % 10, row_number() OVER () FROM (SELECT x / 2.0 FROM generate_series(-12, 100) x UNION ALL
	VALUES (NULL), ('NaN'::numeric), ('Infinity'), ('-Infinity'), (1e30), (2147483648), (9223372036854775807), (9223372036854775808), (-9223372036854775808), (9007199254740993)) q (x);
INSERT INTO big (i8, v) SELECT x + d, 4 FROM unnest('{9007199254740992,-9007199254740992,9223372036854774784,-9223372036854774784}'::int8[]) x, generate_series(-700, 700, 50) d;
INSERT INTO big (i8, v) VALUES (9223372036854775807, 4), (-9223372036854775808, 4), (9007199254740993, 4);
INSERT INTO numbers SELECT i8, i8, 3, 1000 FROM big WHERE abs(i8 / 2) > 1000000;
TRUNCATE conditions;
INSERT INTO conditions VALUES ('float8 int', 'b.i = s.f'), ('float8 int2', 's.f = b.i2'), ('float8 int8', 's.f = b.i8'), ('numeric int', 'b.i = s.n'), ('numeric int2', 'b.i2 = s.n'),
	('numeric int8', 's.n = b.i8'), ('expression', 's.n + 1 = b.i8');
-- a float8 equals several int8, so such joins do not mark small rows
SELECT number, name, compare_join(replace(replace(form, '#', condition), 'small', 'numbers')) FROM forms, conditions ORDER BY 1, 2;
-- lists
SELECT compare_join('SELECT b.*, e FROM unnest(''{3.0,3.5,NULL,NaN,9.0073e15,9007199254740993}''::float8[]) e JOIN big b ON b.i8 = e');
SELECT compare_join('SELECT e, b.id FROM unnest(''{3.0,3.5,3.0,NULL,NaN}''::float8[]) e LEFT JOIN big b ON b.i = e');
SELECT compare_join('SELECT e, b.id FROM unnest(''{3.0,3.5,3.0,NULL,NaN}''::numeric[]) e LEFT JOIN big b ON b.i8 = e');
SELECT compare_join('SELECT e, b.id FROM unnest(''{3,03,x,3,NULL,17}''::text[]) e LEFT JOIN big b ON b.i8::text = e');
SELECT compare_join('SELECT e, b.id FROM unnest(ARRAY[md5(''3'')::uuid::text, upper(md5(''3'')::uuid::text), NULL, ''x'', md5(''5'')::uuid::text]) e LEFT JOIN big b ON b.u::text = e');
SELECT compare_join('SELECT e, b.id FROM unnest(''{char 3,"char 3 ",x,NULL,char 5}''::text[]) e LEFT JOIN big b ON b.c = e');
SELECT compare_join('SELECT b.* FROM big b WHERE i::text = ANY (SELECT jsonb_array_elements_text(''["1", "17", null]''))');
SELECT compare_join('SELECT b.* FROM big b WHERE u::text = ANY (SELECT jsonb_array_elements_text(jsonb_build_array(md5(''1'')::uuid, md5(''2''))))');
-- collations that tell fewer texts apart, or none; casts that are not exact
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT compare_join('SELECT count(*) FROM big b JOIN texts s ON b.u::text = s.k COLLATE any_case');
SELECT compare_join('SELECT count(*) FROM big b JOIN texts s ON b.c::text = s.k COLLATE any_case');
SELECT compare_join('SELECT count(*) FROM big b JOIN texts s ON b.u::text = s.k COLLATE "C"');
SELECT compare_join('SELECT count(*) FROM big b JOIN texts s ON b.t = s.k COLLATE any_case');
SELECT compare_join('SELECT count(*) FROM big b JOIN texts s ON b.u::varchar(20) = s.k');
SELECT compare_join('SELECT count(*) FROM big b JOIN numbers s ON b.i = s.f::real');
-- partitions; the key of one is longer
CREATE TABLE parts (i int8, u uuid, t text) PARTITION BY LIST (i);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1, 3, 5, 7);
CREATE TABLE part_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT i8, u, t FROM big WHERE i8 IS NOT NULL;
CREATE INDEX ON parts USING gpujoin (i);
CREATE INDEX ON parts USING gpujoin (u);
VACUUM ANALYZE parts;
SELECT compare_join('SELECT p.* FROM parts p JOIN numbers s ON p.i = s.f');
SELECT compare_join('SELECT p.* FROM parts p JOIN texts s ON p.i::text = s.k');
SELECT compare_join('SELECT p.* FROM parts p JOIN small s ON p.i = s.i + 1');
SELECT compare_join('SELECT p.* FROM parts p JOIN texts s ON p.u::text = s.k');
SELECT compare_join('SELECT p.* FROM parts p JOIN small s ON p.u = s.u::uuid');
SELECT compare_join('SELECT b.* FROM (SELECT i::int8 AS k, id FROM big UNION ALL SELECT i8, id FROM big) b JOIN numbers s ON b.k = s.f');
SELECT compare_join('SELECT b.* FROM (SELECT i2 AS k, id FROM big UNION ALL SELECT i2, id FROM big) b JOIN numbers s ON b.k = s.f');
-- parallel
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT compare_join('SELECT b.id, s.w FROM big b JOIN small s ON b.t = lower(s.t)');
SELECT compare_join('SELECT b.id, s.w FROM big b JOIN texts s ON b.u::text = s.k');
RESET max_parallel_workers_per_gather;
-- rows that are changed
BEGIN;
UPDATE big b SET v = s.w FROM (SELECT DISTINCT ON (u) * FROM small ORDER BY u, w) s WHERE b.u = s.u::uuid;
DELETE FROM big b USING numbers s WHERE b.i = s.n AND s.w < 10;
SELECT count(*), sum(v), sum(id) FROM big;
ROLLBACK;
BEGIN;
SET LOCAL gpujoin.enabled = off;
UPDATE big b SET v = s.w FROM (SELECT DISTINCT ON (u) * FROM small ORDER BY u, w) s WHERE b.u = s.u::uuid;
DELETE FROM big b USING numbers s WHERE b.i = s.n AND s.w < 10;
SELECT count(*), sum(v), sum(id) FROM big;
ROLLBACK;
-- a barrier: a cast that may raise an error waits for it
CREATE FUNCTION spy(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'seen: %', $1; RETURN true; END $$;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM big WHERE v = 3;
SELECT compare_join('SELECT b.id FROM barrier b JOIN small s ON b.u = s.u::uuid');
CREATE VIEW hidden WITH (security_barrier) AS SELECT * FROM small WHERE v = 3 OR spy(u);
SELECT count(*) FROM (SELECT * FROM small WHERE v = 3 OFFSET 0) s JOIN big b ON b.u = s.u::uuid;
RESET gpujoin.force;
RESET search_path;
SELECT index, node, chosen FROM gpujoin_explain_choice('SELECT b.id FROM join_value.big b JOIN join_value.small s ON b.u = s.u::uuid') WHERE index::text ~ 'big_u';
SELECT index, node, chosen FROM gpujoin_explain_choice('SELECT s.w, b.id FROM join_value.numbers s LEFT JOIN join_value.big b ON b.i8 = s.f') WHERE index::text ~ 'big_i8';

SET client_min_messages = warning;
DROP SCHEMA join_value CASCADE;
