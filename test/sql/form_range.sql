--
-- Ranges of keys: <, <=, >, >=, BETWEEN, and what they are combined with
--
CREATE SCHEMA form_range;
SET search_path = form_range, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

-- Integers of each size, with the least and the greatest ones
CREATE TABLE big (id int, k2 int2, k int, k8 int8, v int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 30000 - 15000, CASE WHEN i % 50 <> 0 THEN (i * 7919) % 6000 - 1000 END,
	((i * 7919) % 6000 - 1000) * 3000000000, i % 10 FROM generate_series(1, 20000) i;
INSERT INTO big SELECT 0, v2, v4, v8, 0 FROM unnest('{32767,32766,-32768,-32767}'::int2[],
	'{2147483647,2147483646,-2147483648,-2147483647}'::int4[],
	'{9223372036854775807,9223372036854775806,-9223372036854775808,-9223372036854775807}'::int8[]) t (v2, v4, v8);
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v);
CREATE INDEX big_k2 ON big USING gpujoin (k2);
CREATE INDEX big_k8 ON big USING gpujoin (k8);
VACUUM ANALYZE big;

EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k BETWEEN 100 AND 200;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k NOT BETWEEN 100 AND 4000;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE 100 > k AND k % 2 = 0;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k < 5 AND k IN (3, 4, 5, 6);
EXPLAIN (COSTS OFF) SELECT k, v FROM big WHERE k >= 100 AND k < 200;
EXPLAIN (COSTS OFF) SELECT v, count(*) FROM big WHERE k >= 100 AND k < 200 GROUP BY v;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE NOT (k >= 5 AND k8 = 3) AND NOT k > 3000;

-- Each comparison, from both sides, with each size of the bound
SELECT o, compare(format('SELECT * FROM big WHERE k %s 1000', o)), compare(format('SELECT * FROM big WHERE 1000 %s k', o)),
	compare(format('SELECT * FROM big WHERE k %s 1000::int8', o)), compare(format('SELECT * FROM big WHERE k %s 1000::int2', o)),
	compare(format('SELECT * FROM big WHERE k2 %s 1000', o)), compare(format('SELECT * FROM big WHERE k8 %s 3000000000', o))
FROM unnest('{<,<=,>,>=}'::text[]) o;

-- Bounds that are the least and the greatest values, and beyond what the key can store
CREATE FUNCTION compare_bounds(col text, bounds text[]) RETURNS TABLE (bound text, answers text) LANGUAGE sql AS $$
	SELECT b, string_agg(o || ' ' || compare(format('SELECT * FROM big WHERE %s %s %s', col, o, b)), '; ' ORDER BY n)
	FROM unnest(bounds) WITH ORDINALITY w (b, at), unnest('{<,<=,>,>=}'::text[]) WITH ORDINALITY u (o, n) GROUP BY b, at ORDER BY at
$$;
SELECT * FROM compare_bounds('k2', '{32767,32766,-32768,-32767,32768,-32769,2147483647,-2147483648,9223372036854775807,''-9223372036854775808''::int8}');
SELECT * FROM compare_bounds('k', '{2147483647,2147483646,-2147483648,-2147483647,2147483648,-2147483649,3000000000,-3000000000,9223372036854775807,''-9223372036854775808''::int8}');
SELECT * FROM compare_bounds('k8', '{9223372036854775807,9223372036854775806,''-9223372036854775808''::int8,-9223372036854775807,0,1,3000000000,2999999999,3000000001}');
SELECT * FROM compare_bounds('k', '{-1000,4999,-1001,5000}');

-- Empty, inverted, adjacent and overlapping ranges
SELECT compare('SELECT * FROM big WHERE k BETWEEN 200 AND 100');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 100');
SELECT compare('SELECT * FROM big WHERE k > 100 AND k < 101');
SELECT compare('SELECT * FROM big WHERE k > 100 AND k < 102');
SELECT compare('SELECT * FROM big WHERE k NOT BETWEEN 200 AND 100');
SELECT compare('SELECT * FROM big WHERE k BETWEEN SYMMETRIC 200 AND 100');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200 OR k BETWEEN 201 AND 300');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200 OR k BETWEEN 150 AND 300 OR k = 301 OR k IN (50, 302, 305)');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 300 AND k <> 200');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 300 AND k NOT IN (100, 101, 150, 300, 301)');
SELECT compare('SELECT * FROM big WHERE k NOT IN (100, 101, 150, 300, 301) OR k BETWEEN 120 AND 200');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 120 AND 200 OR k <> 100');
SELECT compare('SELECT * FROM big WHERE k > -2147483648 AND k < 2147483647 AND k IN (2147483647, 4, -2147483648, 5)');
SELECT compare('SELECT * FROM big WHERE k8 >= 0 OR k8 < 0');
SELECT compare('SELECT * FROM big WHERE (k < 5 OR k > 4990) AND (k < -990 OR k > 3)');
SELECT compare('SELECT * FROM big WHERE (k < 5 AND v = 3) OR k > 4990');
SELECT compare('SELECT * FROM big WHERE (k < 5) IS TRUE OR COALESCE(k > 4990, false)');
SELECT compare('SELECT * FROM big WHERE (k < 5) IS NOT FALSE');
SELECT compare(format('SELECT * FROM big WHERE %s', string_agg(format('k BETWEEN %s AND %s', i * 20, i * 20 + i % 13), ' OR '))) FROM generate_series(-60, 300) i;
SELECT compare(format('SELECT * FROM big WHERE k8 > 0 AND NOT (%s)', string_agg(format('k8 BETWEEN %s AND %s', i * 60000000000, (i * 20 + i % 13) * 3000000000), ' OR '))) FROM generate_series(-60, 300) i;
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 3))) OR k > 2900');
SELECT compare('SELECT * FROM big WHERE k <> ALL (ARRAY(SELECT generate_series(1, 3000, 3))) AND k BETWEEN -500 AND 2900');

-- A bound that is NULL empties its comparison, not the clause
SELECT compare('SELECT * FROM big WHERE k < NULL::int');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 3 AND (SELECT NULL::int)');
SELECT compare('SELECT * FROM big WHERE k NOT BETWEEN 3 AND (SELECT NULL::int)');
SELECT compare('SELECT * FROM big WHERE k > 4990 OR k < (SELECT NULL::int)');
SELECT compare('SELECT * FROM big WHERE k > 4990 OR (k IS NULL AND (SELECT true))');
SELECT compare('SELECT * FROM big WHERE k > (SELECT min(k) + 3 FROM big) AND k < (SELECT max(v) FROM big)');

-- Casts that keep the key; others are PostgreSQL's
SELECT compare('SELECT * FROM big WHERE k::int8 < 3000000000 AND k::int8 >= 4990');
SELECT compare('SELECT * FROM big WHERE k2::int4 > 14990 OR k2::int8 < -32767');
SELECT compare('SELECT * FROM big WHERE k < 3.5');
SELECT compare('SELECT * FROM big WHERE k::float8 < 3');
SELECT compare('SELECT * FROM big WHERE k::text < ''5''');
SELECT compare('SELECT * FROM big WHERE (k, id) > (4990, 3)');
SELECT compare('SELECT * FROM big WHERE k > ALL (''{4990,3}'')');
SELECT compare('SELECT * FROM big WHERE k > id');

-- Prepared statements
PREPARE between_ints(int, int) AS SELECT * FROM big WHERE k BETWEEN $1 AND $2;
SELECT compare_generic('between_ints', '100, 200', '200, 100', 'NULL, 3', '-2147483648, 2147483647', '2147483647, 2147483647');
PREPARE outside(int8, int8, int) AS SELECT id, v FROM big WHERE (k < $1 OR k > $2) AND v > $3;
SELECT compare_generic('outside', '100, 4000, 3', '-9223372036854775808, 9223372036854775807, 0', 'NULL, 4000, 3', '9223372036854775807, 0, 5');
PREPARE one_of(int[], int) AS SELECT k, v FROM big WHERE k = ANY ($1) AND k >= $2;
SELECT compare_generic('one_of', $$'{1,2,3,4000,NULL}', 3$$, $$'{}', 3$$, $$'{1}', NULL$$);

-- Rows in each part of the index: sorted, in the delta, on a tail; deleted and updated ones
UPDATE big SET k = k + 1 WHERE id % 7 = 0 AND k < 2147483647;
INSERT INTO big SELECT i, i % 100, i, i, 1 FROM generate_series(1, 3000, 3) i;
DELETE FROM big WHERE id % 11 = 0;
INSERT INTO big VALUES (7777, 1, 100, 100, 7), (7777, 1, 200, 200, 7), (7777, 1, 99, 99, 7), (7777, 1, 201, 201, 7);
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200');
SELECT compare('SELECT k, v FROM big WHERE k BETWEEN 100 AND 200');
SELECT compare('SELECT count(*), sum(v), min(k), max(k) FROM big WHERE k NOT BETWEEN 100 AND 200');
SELECT compare('SELECT v, count(*) FROM big WHERE k > 2500 GROUP BY v');
SELECT * FROM compare_bounds('k', '{2147483647,2147483646,-2147483648,-2147483647,2147483648,-2147483649,3000000000,-3000000000,9223372036854775807,''-9223372036854775808''::int8}');
BEGIN;
INSERT INTO big SELECT i, 0, i, i, 2 FROM generate_series(100, 2000) i;
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200');
ROLLBACK;
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200');
SELECT gpujoin_fold('big_k') > 0;
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200');
VACUUM big;
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 200');
SELECT compare('SELECT k, v FROM big WHERE k > 100 AND k <= 4000');
SELECT compare('SELECT count(*), sum(v) FROM big WHERE k < 100');
SELECT gpujoin_fold('big_k', true) >= 0;
SELECT compare('SELECT k, v FROM big WHERE k > 100 AND k <= 4000');

-- Several pieces of an answer, cursors, LIMIT and locks
SET work_mem = '64kB';
SELECT compare('SELECT k, v FROM big WHERE k > -900');
SELECT compare('SELECT * FROM big WHERE k > -900');
SELECT compare('SELECT * FROM big WHERE k8 NOT BETWEEN 3000000000 AND 6000000000');
RESET work_mem;
SELECT count(*) FROM (SELECT FROM big WHERE k > 100 LIMIT 17) x;
SELECT compare('SELECT * FROM big WHERE k BETWEEN 100 AND 120 ORDER BY k, id LIMIT 7');
SELECT compare('SELECT k, v FROM big WHERE k >= 100 ORDER BY v DESC, k LIMIT 7');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM big WHERE k BETWEEN 100 AND 101 AND id < 7000;
FETCH FORWARD ALL FROM c;
FETCH BACKWARD 2 FROM c;
SELECT count(*) FROM (SELECT FROM big WHERE k BETWEEN 100 AND 120 FOR UPDATE) x;
ROLLBACK;
BEGIN;
WITH d AS (DELETE FROM big WHERE k BETWEEN 100 AND 120 RETURNING k) SELECT count(*), min(k), max(k) FROM d;
WITH u AS (UPDATE big SET k = k + 1 WHERE k > 4000 AND k < 2147483647 RETURNING k) SELECT count(*), min(k), max(k) FROM u;
SELECT compare('SELECT * FROM big WHERE k > 3990');
ROLLBACK;

-- Rescans, and a join's restriction
SELECT compare('SELECT i, (SELECT count(*) FROM big WHERE k > i AND k <= i + 3) FROM generate_series(1, 20) i');
SELECT compare('SELECT i, x.* FROM generate_series(1, 20) i, LATERAL (SELECT id FROM big WHERE k BETWEEN i AND i + 1) x');
SELECT compare('SELECT * FROM generate_series(1, 200) s (k) JOIN big b USING (k) WHERE b.k > 50', 'GpuJoin');

-- Dates and times, with infinities
CREATE TABLE days (id int, d date, t timestamp, z timestamptz) WITH (autovacuum_enabled = off);
SET timezone = 'Europe/Rome';
INSERT INTO days SELECT i, '2020-01-01'::date + i % 700, '2020-01-01'::timestamp + i % 700 * interval '7 hours',
	'2020-01-01'::timestamptz + i % 700 * interval '7 hours' FROM generate_series(1, 5000) i;
INSERT INTO days SELECT 0, d, d, d FROM unnest('{infinity,-infinity,4713-01-01 BC,NULL}'::date[]) d;
CREATE INDEX days_d ON days USING gpujoin (d);
CREATE INDEX days_t ON days USING gpujoin (t);
CREATE INDEX days_z ON days USING gpujoin (z);
VACUUM ANALYZE days;
EXPLAIN (COSTS OFF) SELECT * FROM days WHERE d >= '2020-03-01' AND d < '2020-04-01';
SELECT c, o, b, compare(format('SELECT * FROM days WHERE %s %s %L', c, o, b)) FROM unnest('{d,t,z}'::text[]) c, unnest('{<,<=,>,>=}'::text[]) o,
	unnest('{2020-03-29,infinity,-infinity}'::text[]) b;
SELECT compare('SELECT * FROM days WHERE z >= ''2020-03-29 02:00'' AND z < ''2020-03-29 03:00''::timestamptz + interval ''1 day''');
SELECT compare('SELECT * FROM days WHERE d > now() - interval ''7 days''');
SELECT compare('SELECT * FROM days WHERE d > ''2020-03-29 02:00''::timestamp');
SELECT compare('SELECT * FROM days WHERE t > ''2020-03-29 02:00''::timestamptz');
SELECT compare('SELECT * FROM days WHERE z > ''2020-03-29''::date');
SELECT compare('SELECT * FROM days WHERE d > CURRENT_DATE - 7');

-- Expressions, partial indexes, domains
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE various (id int, k positive);
INSERT INTO various SELECT i, i % 1000 + 1 FROM generate_series(1, 5000) i;
CREATE INDEX various_k ON various USING gpujoin (k);
CREATE INDEX various_expression ON various USING gpujoin ((id % 100));
CREATE INDEX various_partial ON various USING gpujoin (id) WHERE k > 500;
ANALYZE various;
SELECT compare('SELECT * FROM various WHERE k BETWEEN 10 AND 20');
SELECT compare('SELECT * FROM various WHERE id % 100 >= 98');
SELECT compare('SELECT * FROM various WHERE id < 1000 AND k > 500');
SELECT compare('SELECT * FROM various WHERE id < 1000 AND k > 400');

-- Partitions: PostgreSQL prunes those of a range, and each of the others is searched for the whole range
CREATE TABLE parted (id int, k int, v int) PARTITION BY RANGE (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200) PARTITION BY HASH (k);
CREATE TABLE parted_20 PARTITION OF parted_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_21 PARTITION OF parted_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parted_3 PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT i, i % 300, i % 7 FROM generate_series(1, 6000) i;
CREATE INDEX ON parted USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE parted;
EXPLAIN (COSTS OFF) SELECT * FROM parted WHERE k BETWEEN 90 AND 110;
SELECT compare('SELECT * FROM parted WHERE k BETWEEN 90 AND 110');
SELECT compare('SELECT * FROM parted WHERE k NOT BETWEEN 90 AND 110');
SELECT compare('SELECT v, count(*) FROM parted WHERE k > 150 GROUP BY v');
SELECT compare('SELECT * FROM parted WHERE k BETWEEN 90 AND 250 AND k IN (1, 95, 105, 240, 260)');
PREPARE parts(int, int) AS SELECT * FROM parted WHERE k >= $1 AND k < $2;
SELECT compare_generic('parts', '90, 110', '250, 400', '5, 5', 'NULL, 3');

-- Keys whose codes have another order, or whose class has functions of its own
CREATE TABLE others (o oid, u uuid, t text, n numeric(10,2), c int);
INSERT INTO others SELECT i + 2147483000::int8, md5(i::text)::uuid, i, i, i FROM generate_series(1, 2000) i;
CREATE FUNCTION negated(int) RETURNS int8 LANGUAGE sql IMMUTABLE AS 'SELECT -$1::int8';
CREATE OPERATOR CLASS negated_ops FOR TYPE int4 USING gpujoin AS OPERATOR 1 =, FUNCTION 1 negated(int), STORAGE int8;
CREATE INDEX others_o ON others USING gpujoin (o);
CREATE INDEX others_u ON others USING gpujoin (u);
CREATE INDEX others_t ON others USING gpujoin (t);
CREATE INDEX others_n ON others USING gpujoin (n);
CREATE INDEX others_c ON others USING gpujoin (c negated_ops);
ANALYZE others;
SELECT w, compare('SELECT * FROM others WHERE ' || w) FROM unnest(ARRAY['o > 2147483640', 'u < ''7fffffff-0000-0000-0000-000000000000''',
	't > ''5''', 'n < 3.5', 'c < 10', 'c = 10']) w;
SELECT c.index, c.reason FROM unnest(ARRAY['others WHERE o > 2147483640', 'others WHERE u < ''7fffffff-0000-0000-0000-000000000000''',
	'others WHERE t > ''5''', 'others WHERE n < 3.5', 'others WHERE c < 10', 'big WHERE k < 3.5', 'big WHERE k::text < ''5''',
	'days WHERE d > ''2020-03-29 02:00''::timestamp', 'days WHERE t > ''2020-03-29 02:00''::timestamptz']) q,
	LATERAL gpujoin_explain_choice('SELECT * FROM ' || q) c
WHERE c.reason LIKE '%condition%' AND c.reason NOT LIKE '%no condition%' ORDER BY 1, 2;

SELECT gpujoin_check(i) FROM unnest('{big_k,big_k2,big_k8,days_d,days_t,days_z}'::regclass[]) i;
-- Chosen by cost, and what each search did
RESET gpujoin.force;
CREATE TABLE costs (id int, k int, v int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO costs SELECT i, (i * 7919::int8) % 10000, i % 10, repeat('x', 50) FROM generate_series(1, 100000) i;
CREATE INDEX costs_k ON costs USING gpujoin (k) INCLUDE (v);
CREATE INDEX costs_b ON costs (k) INCLUDE (v);
VACUUM ANALYZE costs;
EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM costs WHERE k BETWEEN 1000 AND 2000;
EXPLAIN (COSTS OFF) SELECT v, count(*) FROM costs WHERE k >= 9000 GROUP BY v;
EXPLAIN (COSTS OFF) SELECT * FROM costs WHERE k < 9000;
DROP INDEX costs_b;
EXPLAIN (COSTS OFF) SELECT * FROM costs WHERE k BETWEEN 1000 AND 1001;
EXPLAIN (COSTS OFF) SELECT * FROM costs WHERE k > 1000;
CREATE FUNCTION counters(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Key|Matched|Heap Fetches' THEN RETURN NEXT line; END IF;
	END LOOP;
END $$;
SELECT counters('SELECT k, v FROM costs WHERE k BETWEEN 1000 AND 1100 OR k BETWEEN 1101 AND 1110 OR k = 7');
SELECT counters('SELECT k, v FROM costs WHERE k BETWEEN 1000 AND 1100 AND k IN (999, 1000, 1100, 1101)');
SELECT reason FROM gpujoin_explain_choice('SELECT * FROM costs WHERE k BETWEEN 1000 AND 1001');

SET client_min_messages = warning;
DROP SCHEMA form_range CASCADE;
