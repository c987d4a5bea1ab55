--
-- Keys that are uuids: hashes that keep the order of their time
--
CREATE SCHEMA form_uuid;
SET search_path = form_uuid, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

CREATE DOMAIN session AS uuid;
CREATE TABLE big (id int, u uuid, s session, v int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, md5((i % 3000)::text)::uuid, md5((i % 1000)::text)::uuid, i % 10 FROM generate_series(1, 12000) i;
INSERT INTO big (id, u) VALUES (0, NULL), (-1, '00000000-0000-0000-0000-000000000000'), (-2, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
-- counters in either half
INSERT INTO big SELECT i, format('00000000-0000-0000-0000-%s', lpad(to_hex(i), 12, '0'))::uuid FROM generate_series(1, 500) i;
INSERT INTO big SELECT i, format('%s-0000-4000-8000-000000000000', lpad(to_hex(i), 8, '0'))::uuid FROM generate_series(1, 500) i;
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (v);
CREATE INDEX big_s ON big USING gpujoin (s);
VACUUM ANALYZE big;

EXPLAIN (COSTS OFF) SELECT * FROM big WHERE u IN ('c4ca4238-a0b9-2382-0dcc-509a6f75849b', '00000000-0000-0000-0000-000000000007');
SELECT compare('SELECT * FROM big WHERE u IN (''c4ca4238-a0b9-2382-0dcc-509a6f75849b'', ''00000000-0000-0000-0000-000000000007'', NULL)');
SELECT compare('SELECT * FROM big WHERE u = ''00000000-0000-0000-0000-000000000000'' OR u = ''ffffffff-ffff-ffff-ffff-ffffffffffff''');
SELECT compare('SELECT * FROM big WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(1, 4000, 3) i)) AND v < 5');
SELECT compare('SELECT * FROM big WHERE u = ANY (ARRAY(SELECT format(''00000000-0000-0000-0000-%s'', lpad(to_hex(i), 12, ''0''))::uuid FROM generate_series(1, 1000, 3) i))');
SELECT compare('SELECT * FROM big WHERE u = ANY (ARRAY(SELECT format(''%s-0000-4000-8000-000000000000'', lpad(to_hex(i), 8, ''0''))::uuid FROM generate_series(1, 1000, 3) i))');
SELECT compare('SELECT v, count(*) FROM big WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(1, 4000, 3) i)) GROUP BY v');
SELECT compare('SELECT * FROM big WHERE s IN (''c4ca4238-a0b9-2382-0dcc-509a6f75849b'', ''00000000-0000-0000-0000-000000000007'')');
SELECT compare('SELECT * FROM big WHERE s = ANY (''{c4ca4238-a0b9-2382-0dcc-509a6f75849b}''::session[])');
SELECT compare('SELECT * FROM big WHERE u <> ''c4ca4238-a0b9-2382-0dcc-509a6f75849b''');
PREPARE uuids(text[]) AS SELECT b FROM big b WHERE u = ANY ($1::uuid[]);
SELECT compare_generic('uuids', $$'{c4ca4238-a0b9-2382-0dcc-509a6f75849b,NULL}'$$, 'NULL', $$'{}'$$);

-- Different uuids with one hash: only the wanted one is found
CREATE TABLE alike (u uuid, n int);
INSERT INTO alike SELECT md5('alike' || i)::uuid, i FROM generate_series(1, 2000) i;
INSERT INTO alike SELECT u, n + row_number() OVER () FROM alike a, LATERAL (SELECT i FROM generate_series(1, 2) i) q WHERE n < 20;
CREATE FUNCTION hash_one(uuid, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT 0::int8 $$;
CREATE OPERATOR CLASS one_ops FOR TYPE uuid USING gpujoin AS
	OPERATOR 1 =, FUNCTION 2 hash_one(uuid, int8), STORAGE int8;
CREATE INDEX alike_u ON alike USING gpujoin (u one_ops);
ANALYZE alike;
SELECT compare('SELECT * FROM alike WHERE u = ANY (ARRAY(SELECT md5(''alike'' || i)::uuid FROM generate_series(15, 60) i))');

-- Version 7: hashes are in the order of time, and differ within a millisecond
CREATE TABLE times AS SELECT i, (lpad(to_hex(1700000000000 + i / 100), 12, '0') || '7' || left(md5(i::text), 3) || '8' || right(md5(i::text), 15))::uuid AS u
	FROM generate_series(1, 10000) i;
SELECT count(*) AS ordered FROM (SELECT i / 100 AS ms, max(gpujoin_hash(u, 0)) AS high,
	lead(min(gpujoin_hash(u, 0))) OVER (ORDER BY i / 100) AS next FROM times GROUP BY 1) q WHERE high < next;
SELECT count(DISTINCT gpujoin_hash(u, 0) >> 2) > 9900 AS differ FROM times;
SELECT count(DISTINCT gpujoin_hash(u, 0) >> 2) = count(DISTINCT u) AS differ FROM big;

-- Changes
DELETE FROM big WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(1, 100) i));
UPDATE big SET u = md5(v::text)::uuid WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(101, 200) i));
SELECT compare('SELECT * FROM big WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(0, 300) i))');
SELECT gpujoin_fold('big_u', true) > 0 AS folded;
SELECT compare('SELECT * FROM big WHERE u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(0, 300) i))');
SELECT gpujoin_check('big_u', true) >= (SELECT count(*) FROM big) AS sound;

-- Hashes are on disk: they must not change
SELECT gpujoin_hash('0192f3a4-5b6c-7d8e-9f01-23456789abcd'::uuid, 0) AS v7, gpujoin_hash('0192f3a4-5b6c-4d8e-9f01-23456789abcd'::uuid, 0) AS v4,
	gpujoin_hash('0192f3a4-5b6c-4d8e-9f01-23456789abcd'::uuid, 1) = uuid_hash_extended('0192f3a4-5b6c-4d8e-9f01-23456789abcd', 1) AS seeded;

SET client_min_messages = warning;
DROP SCHEMA form_uuid CASCADE;
