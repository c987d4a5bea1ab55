--
-- Keys that are strings, and others of which the index stores hashes or images
--
CREATE SCHEMA form_text;
SET search_path = form_text, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

CREATE DOMAIN code AS varchar(60);
CREATE TABLE big (id int, t text, v varchar(60), d code, c char(20), y bytea, n numeric, i inet) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, s, s, s, left(s, 20), convert_to(s, 'UTF8'), i % 500, '10.0.0.0'::inet + i % 500
	FROM (SELECT i, left(md5((i % 500)::text), (i % 500) % 33) AS s FROM generate_series(1, 10000) i) x;
-- NULLs; compressed and external values; bytes of zero; trailing blanks; numerics at the edges of images
INSERT INTO big (id) SELECT -i FROM generate_series(1, 10) i;
INSERT INTO big (id, t, y) VALUES (20001, repeat('a', 5000), decode(repeat('00', 5000), 'hex')),
	(20002, (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i), NULL),
	(20003, 'a', '\x00'), (20004, 'a ', '\x0000'), (20005, '', '\x'), (20006, 'abcdefg', '\x00000000000000'),
	(20007, 'abcdefgh', '\x0000000000000000'), (20008, 'abcdefg ', '\x616263'), (20009, 'ä€😀', NULL);
INSERT INTO big (id, c) VALUES (20010, 'abcdefg'), (20011, 'abcdefgh'), (20012, ' a'), (20013, '');
INSERT INTO big (id, n) SELECT 30000 + row_number() OVER (), n FROM (VALUES (0.0), (-0.5), (1.5), (1.50), (1.0), (1e0), (1e20),
	(100000000), (-100000000.00), (4611686018427387904), (-4611686018427387904), (-4611686018427387905), (9223372036854775807),
	(9223372036854775808), (-9223372036854775808), (99999999999999999999.5), (0.00001), (10000), (99990000.0000),
	('NaN'), ('Infinity'), ('-Infinity'), (1e-1000), (1e1000)) v (n);
CREATE INDEX big_t ON big USING gpujoin (t);
CREATE INDEX big_v ON big USING gpujoin (v) INCLUDE (id);
CREATE INDEX big_d ON big USING gpujoin (d);
CREATE INDEX big_c ON big USING gpujoin (c);
CREATE INDEX big_y ON big USING gpujoin (y);
CREATE INDEX big_n ON big USING gpujoin (n);
CREATE INDEX big_i ON big USING gpujoin (i);
VACUUM ANALYZE big;

-- text and varchar
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE t IN ('a', 'b');
SELECT compare('SELECT * FROM big WHERE t IN ('''', ''a'', ''a '', ''abcdefg'', ''abcdefgh'', ''ä€😀'', ''none'', NULL)');
SELECT compare('SELECT * FROM big WHERE t = ANY (ARRAY(SELECT md5(i::text) FROM generate_series(1, 499) i))');
SELECT compare('SELECT * FROM big WHERE t = ANY (ARRAY(SELECT t FROM big ORDER BY t DESC NULLS LAST LIMIT 600))');
SELECT compare('SELECT * FROM big WHERE t = repeat(''a'', 5000) OR t = ''a''');
SELECT compare('SELECT * FROM big WHERE t = ANY (ARRAY[repeat(''a'', 5000), repeat(''a'', 5001)])');
SELECT compare('SELECT * FROM big WHERE t IN (SELECT string_agg(md5(i::text), '''') FROM generate_series(1, 500) i)');
SELECT compare('SELECT * FROM big WHERE t = (SELECT string_agg(md5(i::text), '''') FROM generate_series(1, 500) i)');
SELECT compare('SELECT * FROM big WHERE v IN (''c4c'', ''c'', ''c20ad'', ''x'')');
SELECT compare('SELECT * FROM big WHERE v = ANY (ARRAY(SELECT left(md5(i::text), i % 33) FROM generate_series(1, 600, 3) i)::varchar[])');
SELECT compare('SELECT id, v FROM big WHERE v = ANY (ARRAY(SELECT left(md5(i::text), i % 33) FROM generate_series(1, 600, 3) i))');
SELECT compare('SELECT * FROM big WHERE d IN (''c4c'', ''c'', ''c20ad'', ''x'')');
SELECT compare('SELECT * FROM big WHERE d = ANY (ARRAY(SELECT left(md5(i::text), i % 33) FROM generate_series(1, 600, 3) i)::code[])');
PREPARE texts(text[]) AS SELECT b FROM big b WHERE t = ANY ($1);
PREPARE varchars(varchar[]) AS SELECT b FROM big b WHERE v = ANY ($1);
SELECT compare_generic('texts', $$'{a,"a ",abcdefgh,NULL,""}'$$, 'NULL', $$'{}'$$, $$'{c4ca4238a0b923820dcc509a6f75849b,c20ad4d76fe9}'$$);
SELECT compare_generic('varchars', $$'{c4c,c20ad,NULL,""}'$$, 'NULL');
-- a list that is not copied: its variable changes while rows are fetched, or ends before
CREATE FUNCTION loop_over(list text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE met bigint := 0;
	met_t text;
BEGIN
	FOR met_t IN SELECT t FROM big WHERE t = ANY (list) LOOP
		list := array_fill(repeat('x', 32), ARRAY[cardinality(list)]);
		met := met + 1;
	END LOOP;
	RETURN met;
END $$;
CREATE FUNCTION open_for(list text[], rows refcursor) RETURNS refcursor LANGUAGE plpgsql AS
	$$ BEGIN OPEN rows FOR SELECT id FROM big WHERE t = ANY (list); RETURN rows; END $$;
CREATE FUNCTION count_rest(rows refcursor) RETURNS bigint LANGUAGE plpgsql AS
	$$ DECLARE n bigint; BEGIN MOVE FORWARD ALL IN rows; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END $$;
SET plan_cache_mode = force_generic_plan;
SELECT loop_over(ARRAY(SELECT md5(i::text) FROM generate_series(1, 499) i)),
	(SELECT count(*) FROM big WHERE t = ANY (ARRAY(SELECT md5(i::text) FROM generate_series(1, 499) i)));
BEGIN;
SELECT open_for(ARRAY(SELECT md5(i::text) FROM generate_series(1, 499) i), 'found');
FETCH 1 FROM found;
SELECT loop_over(ARRAY(SELECT repeat('y', 32) FROM generate_series(1, 499) i));
SELECT count_rest('found');
ROLLBACK;
RESET plan_cache_mode;
-- not this type's own: no rows, and no wrong ones
SELECT compare('SELECT * FROM big WHERE t = ''a''::name');
SELECT compare('SELECT * FROM big WHERE t LIKE ''abc%''');

-- char(n): trailing blanks do not count
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE c IN ('a', 'b  ');
SELECT compare('SELECT * FROM big WHERE c IN ('''', ''  '', ''c'', ''c '', ''c20ad'', '' a'', ''a'', ''abcdefg'', ''abcdefgh   '')');
SELECT compare('SELECT * FROM big WHERE c = ANY (ARRAY(SELECT left(md5(i::text), i % 33) FROM generate_series(1, 600, 3) i)::bpchar[])');
SELECT compare('SELECT * FROM big WHERE c = ''c4ca'' OR c = ''c20ad4d76fe9''');
SELECT compare('SELECT * FROM big WHERE c = ANY (''{"c  "}''::char(5)[])');

-- bytea
SELECT compare('SELECT * FROM big WHERE y IN (''\x'', ''\x00'', ''\x0000'', ''\x00000000000000'', ''\x0000000000000000'', ''\x616263'')');
SELECT compare('SELECT * FROM big WHERE y = decode(repeat(''00'', 5000), ''hex'') OR y = decode(repeat(''00'', 4999), ''hex'')');

-- numeric
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE n IN (1, 1.5);
SELECT compare(format('SELECT * FROM big WHERE n IN (%s)', n)) FROM (VALUES ('0, -0.5, 1.500, 1.000'), ('1e20, 100000000.0'),
	('4611686018427387904, -4611686018427387904'), ('-4611686018427387905, 9223372036854775807'),
	('9223372036854775808, -9223372036854775808'), ('99999999999999999999.5, 0.00001, 0.000010'), ('10000.0, 99990000, -100000000'),
	('''NaN'', ''Infinity'''), ('''-Infinity'', ''1e-1000'', ''1e1000''')) v (n);
SELECT compare('SELECT * FROM big WHERE n = ANY (''{1,2,500}''::int8[])');
SELECT compare('SELECT * FROM big WHERE n = 17 OR n = 1.5');
SELECT compare('SELECT * FROM big WHERE n = ANY (ARRAY(SELECT g + 0.00 FROM generate_series(1, 100) g))');

-- inet and cidr
SELECT compare('SELECT * FROM big WHERE i IN (''10.0.0.1'', ''10.0.0.2/32'', ''10.0.0.3/24'', ''::1'')');
SELECT compare('SELECT * FROM big WHERE i = ANY (''{10.0.0.5/32,10.0.0.6/32}''::cidr[])');

-- Changes, and the index against the table
UPDATE big SET t = 'changed', v = 'changed ' || id, n = n + 0.5 WHERE id % 10 = 3;
DELETE FROM big WHERE id % 10 = 4;
SELECT compare('SELECT * FROM big WHERE t IN (''changed'', ''c'')');
SELECT compare('SELECT * FROM big WHERE v IN (''changed 13'', ''changed 23'', ''c'')');
SELECT compare('SELECT * FROM big WHERE n IN (3.5, 4.5, 5, 13.50)');
SELECT gpujoin_fold('big_t') > 0, gpujoin_fold('big_v', true) > 0;
SELECT compare('SELECT * FROM big WHERE t IN (''changed'', ''c'')');
SELECT compare('SELECT * FROM big WHERE v IN (''changed 13'', ''changed 23'', ''c'')');
SELECT gpujoin_check(i::regclass, true) - (SELECT count(*) FROM big) < 10000 AS sound
	FROM unnest('{big_t,big_v,big_d,big_c,big_y,big_n,big_i}'::text[]) i;
-- a scale that changes keeps the index
CREATE TABLE amounts (n numeric(12,2));
INSERT INTO amounts SELECT i / 4.0 FROM generate_series(1, 2000) i;
CREATE INDEX amounts_n ON amounts USING gpujoin (n);
ANALYZE amounts;
SELECT pg_relation_filenode('amounts_n') AS before \gset
ALTER TABLE amounts ALTER n TYPE numeric;
SELECT pg_relation_filenode('amounts_n') = :before AS kept;
INSERT INTO amounts VALUES (1.5), (1.500), (7);
SELECT compare('SELECT * FROM amounts WHERE n IN (1.5, 7.0)');

-- Expressions as keys
CREATE TABLE documents (data jsonb);
INSERT INTO documents SELECT jsonb_build_object('id', 'document ' || i % 1000) FROM generate_series(1, 3000) i;
CREATE INDEX documents_id ON documents USING gpujoin ((data->>'id'));
CREATE INDEX documents_lower ON documents USING gpujoin (lower(data->>'id'));
ANALYZE documents;
SELECT compare('SELECT * FROM documents WHERE data->>''id'' IN (''document 1'', ''document 2'')');
SELECT compare('SELECT * FROM documents WHERE lower(data->>''id'') = ANY (''{document 1,document 2}'')');

-- Row security: text has a leakproof equality, numeric has not
CREATE ROLE form_text_user;
GRANT USAGE ON SCHEMA form_text TO form_text_user;
GRANT SELECT ON big TO form_text_user;
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON big USING (id % 2 = 1);
SET ROLE form_text_user;
EXPLAIN (COSTS OFF) SELECT count(*) FROM big WHERE t IN ('changed', 'c');
SELECT count(*) FROM big WHERE t IN ('changed', 'c');
EXPLAIN (COSTS OFF) SELECT count(*) FROM big WHERE n IN (1, 2);
SELECT count(*) FROM big WHERE n IN (1, 2);
RESET ROLE;
ALTER TABLE big DISABLE ROW LEVEL SECURITY;

-- Codes are on disk: they must not change with PostgreSQL's versions
SELECT hashtextextended('Sample of gpujoin  ', 0) AS text, gpujoin_hash('Sample of gpujoin  '::bpchar, 0) AS bpchar,
	gpujoin_hash('Sample of gpujoin  '::bytea, 0) AS bytea, hash_numeric_extended(-1234567.8900, 0) AS numeric,
	hashinetextended('192.168.25.7/24', 0) AS inet;
SELECT gpujoin_image('abcdefg'::text) AS text, gpujoin_image(''::text) AS empty, gpujoin_image('abcdefgh'::text) AS long,
	gpujoin_image('abc   '::char(20)) AS bpchar, gpujoin_image('\x0001'::bytea) AS bytea, gpujoin_image(-12345678.00) AS numeric,
	gpujoin_image(1.5) AS fraction;

SET client_min_messages = warning;
DROP SCHEMA form_text CASCADE;
DROP ROLE form_text_user;
