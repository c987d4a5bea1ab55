--
-- Keys and values of different types, values that no key can have, casts of the key
--
CREATE SCHEMA form_types;
SET search_path = form_types, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

CREATE TABLE big (id int, k2 int2, k4 int4, k8 int8);
INSERT INTO big SELECT i, i % 100 - 50, i % 1000 - 500, (i % 1000 - 500) * 3000000000 FROM generate_series(1, 20000) i;
INSERT INTO big VALUES (0, NULL, NULL, NULL), (0, 32767, 2147483647, 9223372036854775807),
	(0, -32768, -2147483648, -9223372036854775808), (0, 0, 1, -1), (0, 2, 2, 2);
-- around 2^53 and 2^62, where float8 cannot represent each integer
INSERT INTO big SELECT i, i, i, 9007199254740992 + i FROM generate_series(-3, 5) i;
INSERT INTO big SELECT i, i, i, -9007199254740992 + i FROM generate_series(-5, 3) i;
INSERT INTO big SELECT i, i, i, 4611686018427387904 + i * 100 FROM generate_series(-12, 12) i;
INSERT INTO big SELECT i, i, i, 9223372036854775807 - i * 100 FROM generate_series(0, 12) i;
INSERT INTO big SELECT i, i, i, -9223372036854775808 + i * 100 FROM generate_series(0, 12) i;
CREATE INDEX big_k2 ON big USING gpujoin (k2);
CREATE INDEX big_k4 ON big USING gpujoin (k4);
CREATE INDEX big_k8 ON big USING gpujoin (k8);
ANALYZE big;

-- int2, int4 and int8 against each other
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k4 = ANY ('{1,2}'::int8[]);
SELECT compare('SELECT * FROM big WHERE k4 = ANY (''{1,2,5000000000,-9223372036854775808,4294967297}''::int8[])');
SELECT compare('SELECT * FROM big WHERE k4 = ANY (''{1,2,-32768}''::int2[])');
SELECT compare('SELECT * FROM big WHERE k4 IN (1, 5000000000)');
SELECT compare('SELECT * FROM big WHERE 17::int8 = k4');
SELECT compare('SELECT * FROM big WHERE k4 = 4294967297');
SELECT compare('SELECT * FROM big WHERE k2 = ANY (''{1,2,32767,65537,-32768}''::int4[])');
SELECT compare('SELECT * FROM big WHERE k2 = ANY (''{1,2,32767,4294967297}''::int8[])');
SELECT compare('SELECT * FROM big WHERE k8 = ANY (''{0,-1,3,9223372036854775807,-9223372036854775808,3000000000}'')');
SELECT compare('SELECT * FROM big WHERE k8 IN (1::int2, -1::int2, 0)');
PREPARE longs(bigint[]) AS SELECT b FROM big b WHERE k4 = ANY ($1);
SELECT compare_generic('longs', $$'{1,4294967297,NULL}'$$, 'NULL', $$'{}'$$);

-- A cast of the key that preserves its value
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k4::bigint = ANY ('{1,2}'::bigint[]);
SELECT compare('SELECT * FROM big WHERE k4::bigint IN (1, 2, 5000000000)');
SELECT compare('SELECT * FROM big WHERE k2::bigint = ANY (''{1,2,65537}'')');
SELECT compare('SELECT * FROM big WHERE k2::int4 = 3');

-- numeric: integral values of any scale; others match nothing
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k4 IN (1.0, 2.5);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k8 = 3.0;
SELECT compare('SELECT * FROM big WHERE k4 IN (1.0, 2.5, 3.000000000000000000000000000001, 4.00000, -5)');
SELECT compare('SELECT * FROM big WHERE k4 = 2.0');
SELECT compare('SELECT * FROM big WHERE k4 = 2.5');
SELECT compare('SELECT * FROM big WHERE -7.00 = k4');
SELECT compare('SELECT * FROM big WHERE k2 IN (1.0, 32767.0, 65537.0)');
SELECT compare('SELECT * FROM big WHERE k4 IN (''NaN''::numeric, ''Infinity'', ''-Infinity'', NULL, 7)');
SELECT compare('SELECT * FROM big WHERE k4 = ''NaN''::numeric');
SELECT compare('SELECT * FROM big WHERE k8 IN (9223372036854775807.0, 9223372036854775808, -9223372036854775808.0, -9223372036854775809, 1e30, -1e30, 1e-30, 0.0)');
SELECT compare('SELECT * FROM big WHERE k8 = 9223372036854775807.5');
SELECT compare('SELECT * FROM big WHERE k4 = ANY (''{1,2.0,2.5,NULL}''::numeric[])');
SELECT compare('SELECT * FROM big WHERE k4 = ANY (''{}''::numeric[])');
SELECT compare('SELECT * FROM big WHERE k4 NOT IN (1.0, 2.5, 3e2) AND k4 IN (1, 2, 3, 300)');
PREPARE numerics(numeric[]) AS SELECT b FROM big b WHERE k4 = ANY ($1);
SELECT compare_generic('numerics', $$'{1,2.50,3.00,NaN,1e40}'$$, 'NULL', $$'{}'$$);
SELECT compare(format('SELECT * FROM big WHERE k4 IN (%s)', string_agg((i / 2.0)::text, ', '))) FROM generate_series(1, 1000) i;

-- float8: one of its values may equal many integers
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k8 = ANY ('{1,2.5}'::float8[]);
SELECT compare('SELECT * FROM big WHERE k4 = ANY (''{1,2.5,-0,1e-300,NaN,Infinity,-Infinity,1e300,4294967297}''::float8[])');
SELECT compare('SELECT * FROM big WHERE k2 = 3::float8');
SELECT compare('SELECT * FROM big WHERE k8 = 3e9::float8');
SELECT compare('SELECT * FROM big WHERE k8 = 9007199254740991::float8');
SELECT compare('SELECT * FROM big WHERE k8 = 9007199254740992::float8');
SELECT compare('SELECT * FROM big WHERE k8 = 9007199254740994::float8');
SELECT compare('SELECT * FROM big WHERE k8 = 9007199254740996::float8');
SELECT compare('SELECT * FROM big WHERE k8 = -9007199254740992::float8');
SELECT compare('SELECT * FROM big WHERE k8 = -9007199254740996::float8');
SELECT compare('SELECT * FROM big WHERE k8 = 4611686018427387904::float8');
SELECT compare('SELECT * FROM big WHERE k8 IN (9223372036854775807::float8, 1)');
SELECT compare('SELECT * FROM big WHERE k8 = 9223372036854774784::float8');
SELECT compare('SELECT * FROM big WHERE k8 = -9223372036854775808::float8');
SELECT compare('SELECT * FROM big WHERE k8 = -9223372036854777856::float8');
SELECT compare('SELECT * FROM big WHERE k8 <> 9007199254740992::float8 AND k8 BETWEEN 9007199254740980 AND 9007199254741000');

-- Casts that are not one-to-one, or not of the key alone, are not supported
SELECT compare('SELECT * FROM big WHERE k4::float4 = 1');
SELECT compare('SELECT * FROM big WHERE k4::int2 = 1::int2 AND k4 BETWEEN -9 AND 9');
SELECT compare('SELECT * FROM big WHERE k4::text = ''1''');
SELECT compare('SELECT * FROM big WHERE (k4 % 10)::numeric IN (1.0, 2.0)');

-- Other types of keys
CREATE DOMAIN small_int AS int CHECK (VALUE < 1000);
CREATE TABLE types (o oid, d date, t timestamp, z timestamptz, s small_int);
INSERT INTO types SELECT i % 90, date '2020-01-01' + i % 90, timestamp '2020-01-01' + (i % 90) * interval '1 hour',
	timestamptz '2020-01-01 00:00+00' + (i % 90) * interval '1 hour', i % 90 FROM generate_series(1, 900) i;
INSERT INTO types VALUES (4294967295, 'infinity', '-infinity', 'infinity', 0);
CREATE INDEX ON types USING gpujoin (o);
CREATE INDEX ON types USING gpujoin (d);
CREATE INDEX ON types USING gpujoin (t);
CREATE INDEX ON types USING gpujoin (z);
CREATE INDEX ON types USING gpujoin (s);
SELECT compare('SELECT * FROM types WHERE o IN (1, 5, 4294967295)');
SELECT compare('SELECT * FROM types WHERE d IN (''2020-01-05'', ''infinity'', ''2021-01-01'')');
SELECT compare('SELECT * FROM types WHERE d = ''2020-01-05'' OR d = ''2020-01-06''');
SELECT compare('SELECT * FROM types WHERE t IN (''2020-01-01 05:00'', ''-infinity'')');
SELECT compare('SELECT * FROM types WHERE z IN (''2020-01-01 05:00+00'', ''infinity'')');
SELECT compare('SELECT * FROM types WHERE d = timestamp ''2020-01-05''');
SELECT compare('SELECT * FROM types WHERE s IN (5, 6)');
SELECT compare('SELECT * FROM types WHERE s IN (5.0, 6.5)');
SELECT compare('SELECT * FROM types WHERE s::bigint IN (5, 6)');

SET client_min_messages = warning;
DROP SCHEMA form_types CASCADE;
