--
-- Lists of tuples whose key is a uuid, a text or another type of which the index stores hashes
--
CREATE SCHEMA form_tuple_hash;
SET search_path = form_tuple_hash, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql

CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$ SELECT md5($1::text)::uuid $$;
CREATE TABLE big (id int, u uuid, n int4, t varchar(30), c char(8), d numeric, b bytea, note text) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, id(i % 500), i / 500 % 20, 'text number ' || i % 300, 'c' || i % 40, (i % 700) / 4.0, ('\x' || md5((i % 90)::text))::bytea, 'row ' || i
	FROM generate_series(1, 10000) i;
INSERT INTO big VALUES (-1, id(1), NULL, NULL), (-2, NULL, 2, 'text number 2'), (-3, NULL, NULL, NULL), (-4, id(3), 1, '', '', 'NaN', '');
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (n);
CREATE INDEX big_t ON big USING gpujoin (t);
CREATE INDEX big_d ON big USING gpujoin (d) INCLUDE (id);
CREATE INDEX big_b ON big USING gpujoin (b);
CREATE INDEX big_c ON big USING gpujoin (c);
VACUUM ANALYZE big;

-- (uuid, int), with the other column in the index: entries are tested by it
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4));
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4), (id(3), 40))');
SELECT compare('SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4))');
SELECT compare('SELECT u, n FROM big WHERE (n, u) IN ((2, id(1)), (4, id(3)), (2, id(1)), (100, id(5)))');
SELECT compare('SELECT count(*) FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4))');
SELECT compare('SELECT n, count(*), sum(id) FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4), (id(7), 4)) GROUP BY n');
SELECT compare('SELECT * FROM big WHERE (u = id(1) AND n = 2) OR (n = 4 AND id(3) = u)');
SELECT compare('SELECT * FROM big WHERE (u = id(1) AND n = ANY (''{2,3}'')) OR (u = id(3) AND n = 4)');
SELECT compare('SELECT * FROM big WHERE (u = ANY (ARRAY[id(1), id(7), NULL]) AND n = 2) OR (u = id(3) AND n = ANY (''{}''))');
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE ((u = ANY (ARRAY[id(1), id(7)]) AND n = 2) OR (u = id(3) AND n = ANY ('{4,5}'))) AND id > 0;
SELECT compare('SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 3000000000), (id(3), 4))');
SELECT compare('SELECT * FROM big WHERE (u, n, t) IN ((id(1), 2, ''text number 1''), (id(3), 4, ''text number 203''), (id(3), 6, ''text number 3''))');
SELECT compare('SELECT * FROM big WHERE (u, n) IN ((id(1), NULL), (NULL, 2), (id(3), 4))');
SELECT compare('SELECT * FROM big WHERE (u, n) NOT IN ((id(1), 2), (id(3), 4)) AND id < 100');
SELECT compare('SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4)) AND u IN (id(3), id(4))');
SELECT compare('SELECT * FROM big WHERE u IN (id(3), id(4)) AND (u, n) IN ((id(1), 2), (id(3), 4))');
SELECT compare('SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4)) AND (u, t) IN ((id(1), ''text number 1''), (id(3), ''text number 3''))');
SELECT compare('SELECT u, n FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4), (id(7), 7)) ORDER BY n DESC, u LIMIT 2');

-- (text, int), (numeric, int), (bytea, int), (char(n), int)
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (t, n) IN (('text number 1', 2), ('text number 3', 4));
SELECT compare('SELECT * FROM big WHERE (t, n) IN ((''text number 1'', 2), (''text number 3'', 4), (''text number 1 '', 1), (''Text number 1'', 1), ('''', 1))');
SELECT compare('SELECT * FROM big WHERE (t, u) IN ((''text number 1'', id(1)), (''text number 3'', id(3)), (''text number 4'', id(3)))');
SELECT compare('SELECT * FROM big WHERE (t, c) IN ((''text number 1'', ''c1''), (''text number 3'', ''c3   ''), (''text number 4'', ''C3''))');
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (d, id) IN ((1.5, 6), (2.00, 8));
SELECT compare('SELECT * FROM big WHERE (d, id) IN ((1.50, 6), (2.00, 8), (2, 708), (2.0, 9), (''NaN'', -4), (1e30, 1))');
SELECT compare('SELECT * FROM big WHERE (b, n) IN ((''\xc4ca4238a0b923820dcc509a6f75849b'', 2), ('''', 1), (''\x00'', 1))');
SELECT compare('SELECT * FROM big WHERE (c, n) IN ((''c1'', 2), (''c3   '', 4), ('''', 1))');
SELECT compare(format('SELECT * FROM big WHERE (t, n) IN (%s)', string_agg(format('(%L, %s)', 'text number ' || i % 400, i % 23), ', ')))
	FROM generate_series(1, 400) i;
SELECT compare(format('SELECT id FROM big WHERE %s', string_agg(format('(u = %L AND n = %s)', id(i % 700), i % 30), ' OR ')))
	FROM generate_series(1, 400) i;

-- a key that is in many tuples counts once
CREATE FUNCTION cost_of(nkeys int) RETURNS float8 LANGUAGE sql SET gpujoin.force = off AS $$
	SELECT cost FROM gpujoin_explain_choice((SELECT format('SELECT * FROM big WHERE (u, n) IN (%s)',
		string_agg(format('(%L, %s)', id(i % nkeys), i), ', ')) FROM generate_series(1, 200) i)) WHERE index = 'big_u'::regclass $$;
SELECT cost_of(2) < cost_of(200) * 0.8 AS once;

-- Generic plans
PREPARE tuples(uuid, int4, uuid, int4) AS SELECT big FROM big WHERE (u, n) IN (($1, $2), ($3, $4), (id(9), $2));
SELECT compare_generic('tuples', 'id(1), 2, id(3), 4', 'id(1), NULL, id(3), 4', 'NULL, 2, NULL, 4', 'id(7), 7, id(7), 7');
PREPARE lists(text, int4[], text, text[], int4) AS
	SELECT big FROM big WHERE (t = $1 AND n = ANY ($2)) OR (t = $3 AND n = ANY ($2)) OR (t = ANY ($4) AND n = $5);
SELECT compare_generic('lists', $$'text number 1', '{2,3}', 'text number 3', '{text number 5,text number 6}', 7$$,
	$$NULL, '{2,3}', 'text number 3', NULL, 7$$, $$'text number 1', NULL, 'text number 3', '{}', NULL$$);

-- Joins by both columns
SELECT compare('SELECT b.* FROM big b JOIN unnest(ARRAY[id(1), id(3), id(3), NULL], ''{2,4,4,1}''::int[]) s (u, n) ON b.u = s.u AND b.n = s.n');
SELECT compare('SELECT * FROM big WHERE (u, n) IN (SELECT unnest(ARRAY[id(1), id(3)]), unnest(''{2,4}''::int[]))');
SELECT compare('SELECT * FROM big WHERE (t, n) IN (SELECT * FROM unnest(''{text number 1,text number 3}''::text[], ''{2,4}''::int[]))');
EXPLAIN (COSTS OFF) SELECT b.* FROM big b JOIN unnest('{text number 1,text number 3}'::varchar[], '{2,4}'::int[]) s (t, n) ON b.t = s.t AND b.n = s.n;
SELECT count(*), sum(id) FROM big b JOIN unnest('{text number 1,text number 3}'::varchar[], '{2,4}'::int[]) s (t, n) ON b.t = s.t AND b.n = s.n;
SELECT count(*), sum(id) FROM big b JOIN unnest(ARRAY[id(1), id(3), id(3)], '{2,4,4}'::int[]) s (u, n) ON b.u = s.u AND b.n = s.n;
SELECT count(*), sum(id) FROM big b WHERE EXISTS (SELECT FROM unnest(ARRAY[id(1), id(3), id(3)], '{2,4,4}'::int[]) s (u, n) WHERE b.u = s.u AND b.n = s.n);
SET gpujoin.enabled = off;
SELECT count(*), sum(id) FROM big b JOIN unnest('{text number 1,text number 3}'::varchar[], '{2,4}'::int[]) s (t, n) ON b.t = s.t AND b.n = s.n;
SELECT count(*), sum(id) FROM big b JOIN unnest(ARRAY[id(1), id(3), id(3)], '{2,4,4}'::int[]) s (u, n) ON b.u = s.u AND b.n = s.n;
SELECT count(*), sum(id) FROM big b WHERE EXISTS (SELECT FROM unnest(ARRAY[id(1), id(3), id(3)], '{2,4,4}'::int[]) s (u, n) WHERE b.u = s.u AND b.n = s.n);
SET gpujoin.enabled = on;

-- Codes that collide on purpose: an operator class with seven hashes, one with a single hash
CREATE FUNCTION hash_seven(int8, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT ($1 % 7) * 1000 + $2';
CREATE FUNCTION hash_one(text, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT 1::int8';
CREATE OPERATOR CLASS seven_ops FOR TYPE int8 USING gpujoin AS OPERATOR 1 =, FUNCTION 2 hash_seven(int8, int8), STORAGE int8;
CREATE OPERATOR CLASS one_ops FOR TYPE text USING gpujoin AS OPERATOR 1 =, FUNCTION 2 hash_one(text, int8), STORAGE int8;
CREATE TABLE alike (id int, k int8, t text, v int4, w int2) WITH (autovacuum_enabled = off);
INSERT INTO alike SELECT i, nullif(i % 211, 50), 't' || i % 61, i % 10, nullif(i % 13, 5) FROM generate_series(1, 3000) i;
CREATE INDEX alike_k ON alike USING gpujoin (k seven_ops) INCLUDE (v, w);
CREATE INDEX alike_t ON alike USING gpujoin (t one_ops) INCLUDE (v, w);
VACUUM ANALYZE alike;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM alike WHERE (k, v) IN ((''3'', 1), (''10'', 2))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM alike WHERE (t, v, w) IN ((''t3'', 1, 1), (''t10'', 2, 3))');
SELECT compare('SELECT * FROM alike WHERE (k, v) IN ((''3'', 1), (''10'', 2), (''17'', 3), (''200'', 4))');
SELECT compare('SELECT count(*), sum(v) FROM alike WHERE (k, v, w) IN ((''3'', 1, 1), (''10'', 2, 2), (''17'', 3, 3), (''200'', 4, 4))');
SELECT compare('SELECT * FROM alike WHERE (t, v) IN ((''t3'', 1), (''t10'', 2), (''t61'', 2), (''t1'', NULL))');
SELECT compare('SELECT * FROM alike WHERE (t, k) IN ((''t3'', 3), (''t10'', 10), (''t17'', 200))');
SELECT compare('SELECT * FROM alike WHERE (k = ANY (''{3,10}'') AND v = 1) OR (k = ''17'' AND v = ANY (''{1,2,3}''))');
SELECT compare(format('SELECT * FROM alike WHERE (k, v) IN (%s)', string_agg(format('(%L, %s)', i % 300, i % 11), ', ')))
	FROM generate_series(1, 400) i;
SELECT compare('SELECT id FROM alike WHERE (k, v) IN ((''3'', 1), (''10'', 2), (''17'', 3)) AND w > 3');
SELECT compare('SELECT a.* FROM alike a JOIN (VALUES (3::int8, 1), (10, 2), (10, 2), (200, 4)) s (k, v) ON a.k = s.k AND a.v = s.v');

-- Rows change: tails, the delta, pages that are not all-visible, whole blocks
UPDATE big SET n = n + 1 WHERE u IN (id(1), id(2), id(3));
DELETE FROM big WHERE u = id(7);
INSERT INTO big (id, u, n, t) VALUES (-5, id(1), 2, 'text number 1'), (-6, id(3), 4, 'x'), (-7, id(3), NULL, 'text number 3');
SELECT compare('SELECT * FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4), (id(7), 7), (id(8), 9))');
SELECT compare('SELECT * FROM big WHERE (t, n) IN ((''text number 1'', 2), (''text number 3'', 5), (''x'', 4))');
WITH gone AS (DELETE FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4), (id(8), 9)) RETURNING *) SELECT count(*) FROM gone;
SELECT count(*) FROM big WHERE (u, n) IN ((id(1), 2), (id(3), 4), (id(8), 9));
SET work_mem = '64kB';
SET hash_mem_multiplier = 1.0;
INSERT INTO alike SELECT i, i % 14, 't' || i % 3, i % 10, 0 FROM generate_series(1, 20000) i;
SELECT compare('SELECT * FROM alike WHERE (k, v) IN ((''3'', 1), (''10'', 2), (''12'', 2))');
SELECT compare('SELECT * FROM alike WHERE (t, id) IN ((''t1'', 1), (''t2'', 2), (''t0'', 4))');
RESET work_mem;
RESET hash_mem_multiplier;

-- Partitions, and a key that is an expression
CREATE TABLE parted (u uuid, b int, id int) PARTITION BY LIST (b);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (0, 1);
CREATE TABLE parted_2 (id int, b int, gone int, u uuid);
ALTER TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2, 3);
INSERT INTO parted SELECT id(i % 100), i % 4, i FROM generate_series(1, 4000) i;
CREATE INDEX ON parted USING gpujoin (u);
VACUUM ANALYZE parted;
SELECT compare('SELECT * FROM parted WHERE (u, b) IN ((id(1), 1), (id(2), 2), (id(3), 1), (id(7), 3))');
CREATE INDEX big_lower ON big USING gpujoin (lower(t));
ANALYZE big;
SELECT compare('SELECT * FROM big WHERE (lower(t), n) IN ((''text number 1'', 2), (''text number 3'', 4))');

SET client_min_messages = warning;
DROP SCHEMA form_tuple_hash CASCADE;
