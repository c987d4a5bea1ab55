--
-- Keys cast to text, as drivers do whose parameters are all text: char(n), uuid, integers
--
CREATE SCHEMA form_cast_text;
SET search_path = form_cast_text, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

CREATE DOMAIN session AS uuid;
CREATE TABLE big (id int8, i int4, s int2, u uuid, d session, c char(20), c1 char(1), n numeric);
INSERT INTO big SELECT i, i % 500 - 250, i % 300 - 150, md5((i % 700)::text)::uuid, md5((i % 400)::text)::uuid,
		'key ' || i % 600, chr(97 + i % 26), i % 100
	FROM generate_series(1, 10000) i;
INSERT INTO big (id, i, c, c1) VALUES (9223372036854775807, 2147483647, '', ''), (-9223372036854775808, -2147483648, ' x', ' '),
	(0, 0, E'tab\t', E'\t'), (-1, NULL, NULL, NULL), (-2, 7, 'eight ch', '8'), (-3, 7, 'seven c', '7');
CREATE INDEX ON big USING gpujoin (id);
CREATE INDEX ON big USING gpujoin (i);
CREATE INDEX ON big USING gpujoin (s);
CREATE INDEX ON big USING gpujoin (u);
CREATE INDEX ON big USING gpujoin (d);
CREATE INDEX big_c ON big USING gpujoin (c);
CREATE INDEX ON big USING gpujoin (c1);
CREATE INDEX ON big USING gpujoin (n);
VACUUM ANALYZE big;

-- char(n): a text with trailing blanks equals none
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE c::text = ANY ('{key 1,key 2}'::text[]);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE c = 'key 1'::text OR c = 'key 2'::varchar;
SELECT compare('SELECT * FROM big WHERE c = ANY (''{key 1,key 2,"key 3 ",NULL,key 4000}''::text[])');
SELECT compare('SELECT * FROM big WHERE c = ANY (''{key 1,key 2,"key 3 "}''::varchar[])');
SELECT compare('SELECT * FROM big WHERE c::varchar = ANY (''{key 1,key 2,"key 3 "}''::varchar[])');
SELECT compare('SELECT * FROM big WHERE c = ''key 1''::text OR ''key 2''::varchar = c');
SELECT compare('SELECT * FROM big WHERE c = ''key 1 ''::text');
SELECT compare('SELECT * FROM big WHERE c = ANY (ARRAY['''', '' x'', E''tab\t'', ''eight ch'', ''seven c'']::text[])');
SELECT compare('SELECT * FROM big WHERE c = ANY (ARRAY['' '', '' x '', ''tab'', ''eight ch '', ''Seven c'']::text[])');
SELECT compare('SELECT * FROM big WHERE c = ANY (ARRAY(SELECT ''key '' || i FROM generate_series(1, 1000, 3) i))');
SELECT compare('SELECT * FROM big WHERE c1 = ANY (''{a,b,"",7,NULL,"\t"}''::text[])');
SELECT compare('SELECT * FROM big WHERE c1 = ANY (''{" ",A,"a "}''::text[])');
SELECT compare('SELECT * FROM big WHERE c = ANY (''{key 1,"key 2 "}''::bpchar[])');
-- casts that change the string
SELECT compare('SELECT * FROM big WHERE c::varchar(5) = ''key 1''');
SELECT compare('SELECT * FROM big WHERE c::name = ''key 1''');
SELECT compare('SELECT * FROM big WHERE c::text <> ALL (''{key 1,key 2}'')');
SELECT compare('SELECT * FROM big WHERE c::text = ANY (''{key 1,key 2}'') AND c::text = ANY (''{key 2,key 3}'')');
PREPARE chars(text[]) AS SELECT b FROM big b WHERE c = ANY ($1);
SELECT compare_generic('chars', $$'{key 1,key 2}'$$, $$'{"key 1 ",NULL}'$$, 'NULL', $$'{}'$$);

-- uuid: only what uuid_out() prints
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE u::text = ANY ('{c4ca4238-a0b9-2382-0dcc-509a6f75849b}');
SELECT compare('SELECT * FROM big WHERE u::text = ANY (''{c4ca4238-a0b9-2382-0dcc-509a6f75849b,c81e728d-9d4c-2f63-6f06-7f89cc14862c,x,NULL}'')');
SELECT compare('SELECT * FROM big WHERE u::text = ''c4ca4238-a0b9-2382-0dcc-509a6f75849b''');
SELECT compare('SELECT * FROM big WHERE u::varchar = ''c4ca4238-a0b9-2382-0dcc-509a6f75849b''::varchar');
SELECT compare('SELECT * FROM big WHERE u::text = ANY (ARRAY(SELECT md5(i::text)::uuid::text FROM generate_series(1, 900, 2) i))');
SELECT compare('SELECT * FROM big WHERE d::text = ANY (ARRAY(SELECT md5(i::text)::uuid::text FROM generate_series(1, 900, 2) i))');
SELECT compare(format('SELECT * FROM big WHERE u::text = %L', text)) AS compare, text FROM unnest(ARRAY[
	'C4CA4238-A0B9-2382-0DCC-509A6F75849B', 'c4ca4238a0b923820dcc509a6f75849b', '{c4ca4238-a0b9-2382-0dcc-509a6f75849b}',
	'c4ca4238-a0b9-2382-0dcc-509a6f75849b ', 'c4ca-4238-a0b9-2382-0dcc-509a6f75849', 'c4ca4238-a0b9-2382-0dcc-509a6f75849', '',
	'c4ca4238-a0b9-2382-0dcc-509a6f75849g', 'c4ca4238xa0b9x2382x0dccx509a6f75849b']) text;
SELECT compare('SELECT * FROM big WHERE u::name = ''c4ca4238-a0b9-2382-0dcc-509a6f75849b''');
SELECT compare('SELECT * FROM big WHERE u::varchar(8) = ''c4ca4238''');
SELECT compare('SELECT * FROM big WHERE u::text = ''c4ca4238-a0b9-2382-0dcc-509a6f75849b'' OR u = ''c81e728d-9d4c-2f63-6f06-7f89cc14862c''');
PREPARE uuids(text[]) AS SELECT b FROM big b WHERE u::text = ANY ($1);
SELECT compare_generic('uuids', $$'{c4ca4238-a0b9-2382-0dcc-509a6f75849b}'$$, $$'{C4CA4238-A0B9-2382-0DCC-509A6F75849B,NULL}'$$, 'NULL', $$'{}'$$);

-- integers
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE i::text = ANY ('{1,2}');
SELECT compare('SELECT * FROM big WHERE id::text = ANY (''{1,2,9223372036854775807,-9223372036854775808,0,-1,NULL}'')');
SELECT compare('SELECT * FROM big WHERE i::text = ANY (''{1,-250,2147483647,-2147483648,0,4294967297}'')');
SELECT compare('SELECT * FROM big WHERE s::text = ANY (''{1,-150,65537,-0}'')');
SELECT compare('SELECT * FROM big WHERE i::text = ''7'' OR i::text = ''8'' OR i = 9');
SELECT compare('SELECT * FROM big WHERE i::varchar = ''7''');
SELECT compare(format('SELECT * FROM big WHERE i::text = %L', text)) AS compare, text FROM unnest(ARRAY[
	'07', '+7', ' 7', '7 ', '7.0', '-0', '', '-', '00', '0x7', '7a', '2147483648', '9223372036854775808', '-9223372036854775809',
	'99999999999999999999']) text;
SELECT compare('SELECT * FROM big WHERE id::text = ''9223372036854775808'' OR id::text = ''-9223372036854775809''');
SELECT compare('SELECT * FROM big WHERE i::varchar(1) = ''7''');
SELECT compare('SELECT * FROM big WHERE i::text <> ALL (''{1,2}'') AND i < 5');
SELECT compare('SELECT * FROM big WHERE i::text = id::text');
-- numeric: 1.0 and 1.00 are equal, and their texts are not
SELECT compare('SELECT * FROM big WHERE n::text = ''7''');
PREPARE ids(text[]) AS SELECT b FROM big b WHERE id::text = ANY ($1);
SELECT compare_generic('ids', $$'{1,2,3}'$$, $$'{01,+2,NULL,4}'$$, 'NULL', $$'{}'$$);

-- How these keys are stored
SELECT attname, keys FROM pg_index x JOIN pg_attribute a ON a.attrelid = indrelid AND attnum = indkey[0],
	gpujoin_index_info(indexrelid) WHERE indrelid = 'big'::regclass AND attname IN ('i', 'c', 'n') ORDER BY 1;

-- Joins compare the key itself
SELECT compare('SELECT b.* FROM big b JOIN unnest(''{1,2,3}''::text[]) x ON b.i::text = x');

-- An index on the text itself
CREATE INDEX big_text ON big USING gpujoin ((i::text));
ANALYZE big;
SELECT compare('SELECT * FROM big WHERE i::text = ANY (''{1,02}'')');
DROP INDEX big_text;

-- Operator classes whose keys are not the values, and whose equality is another
CREATE FUNCTION seven(int4, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT ($1 % 7)::int8';
CREATE OPERATOR CLASS seven_ops FOR TYPE int4 USING gpujoin AS OPERATOR 1 =, FUNCTION 2 seven(int4, int8), STORAGE int8;
CREATE FUNCTION next(int4) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::int8 + 1';
CREATE OPERATOR CLASS next_ops FOR TYPE int4 USING gpujoin AS OPERATOR 1 =, FUNCTION 1 next(int4), STORAGE int8;
CREATE FUNCTION same(uuid, uuid) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT left($1::text, 8) = left($2::text, 8)';
CREATE OPERATOR === (FUNCTION = same, LEFTARG = uuid, RIGHTARG = uuid, COMMUTATOR = ===);
CREATE FUNCTION hash_start(uuid, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT hashtextextended(left($1::text, 8), $2)';
CREATE OPERATOR CLASS start_ops FOR TYPE uuid USING gpujoin AS OPERATOR 1 ===, FUNCTION 2 hash_start(uuid, int8), STORAGE int8;
CREATE TABLE own (a int, b int, u uuid);
INSERT INTO own SELECT i % 100, i % 100, md5((i % 100)::text)::uuid FROM generate_series(1, 2000) i;
CREATE INDEX ON own USING gpujoin (a seven_ops);
CREATE INDEX ON own USING gpujoin (b next_ops);
CREATE INDEX ON own USING gpujoin (u start_ops);
ANALYZE own;
SELECT compare('SELECT * FROM own WHERE a::text = ANY (''{3,10}'')');
SELECT compare('SELECT * FROM own WHERE b::text = ANY (''{3,10}'')');
SELECT compare('SELECT * FROM own WHERE a IN (3.0, 10.5)');
SELECT compare('SELECT * FROM own WHERE b IN (3.0, 10.5)');
SELECT compare('SELECT * FROM own WHERE b = ANY (''{3,10}''::float8[])');
SELECT compare('SELECT * FROM own WHERE u::text = ''eccbc87e-4b5c-e2fe-2830-8fd9f2a7baf3''');

-- Changes, and rows behind a security barrier: the cast is not leakproof
UPDATE big SET c = 'key 1' WHERE c::text = ANY ('{key 2,key 3}');
DELETE FROM big WHERE u::text = 'c81e728d-9d4c-2f63-6f06-7f89cc14862c';
SELECT compare('SELECT * FROM big WHERE c::text = ANY (''{key 1,key 2,key 3}'')');
CREATE VIEW behind WITH (security_barrier) AS SELECT * FROM big WHERE id % 3 = 0;
SELECT compare('SELECT * FROM behind WHERE c::text = ANY (''{key 1,key 4}'')');

SET client_min_messages = warning;
DROP SCHEMA form_cast_text CASCADE;
