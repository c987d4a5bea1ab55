-- INCLUDE of numeric columns, which an index stores as integers: base/numeric.c
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpujoin;
RESET client_min_messages;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql

SET gpujoin.force = on;
SET enable_seqscan = off;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- compares rows from the index with those of the table, also how they are shown, bit by bit
CREATE FUNCTION differences(tab regclass, condition text) RETURNS TABLE (rows bigint, missing bigint, added bigint)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpujoin.enabled', 'on', true);
	EXECUTE format('CREATE TEMP TABLE ours AS SELECT k, id, a, b, c FROM %s WHERE %s', tab, condition);
	PERFORM set_config('gpujoin.enabled', 'off', true);
	EXECUTE format('CREATE TEMP TABLE theirs AS SELECT k, id, a, b, c FROM %s WHERE %s', tab, condition);
	SELECT count(*) INTO rows FROM theirs;
	SELECT count(*) INTO missing FROM theirs t
		WHERE NOT EXISTS (SELECT FROM ours o WHERE record_image_eq(o, t));
	SELECT count(*) - rows + missing INTO added FROM ours;
	DROP TABLE ours, theirs;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	RETURN NEXT;
END $$;

-- Which values are stored: those with the column's own display scale that fit
-- without statistics, by which the planner would refuse a column that lacks most values
CREATE TABLE amounts (k int, id int, a numeric(12,2), b numeric, c numeric(65,30)) WITH (autovacuum_enabled = off);
INSERT INTO amounts
SELECT i % 100, i,
	   CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 7919 % 200003 - 100000) / 100.0 END,
	   CASE i % 20 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN NULL
			WHEN 4 THEN 1e30 WHEN 5 THEN -1e30 WHEN 6 THEN 1.5 WHEN 7 THEN 1.50 WHEN 8 THEN 1e-30
			WHEN 9 THEN 0 WHEN 10 THEN 0.000 WHEN 11 THEN -0.001 WHEN 12 THEN 4611686018427387.903
			WHEN 13 THEN 4611686018427387.904 WHEN 14 THEN -4611686018427387.903
			WHEN 15 THEN -4611686018427387.904 ELSE (i - 1000)::numeric(20,3) / 1 END,
	   CASE WHEN i % 7 = 0 THEN 1 / 3.0 ELSE i / 8.0 END
  FROM generate_series(1, 2000) i;
UPDATE amounts SET b = b::numeric(20,3) WHERE id % 20 > 15;
CREATE INDEX amounts_gj ON amounts USING gpujoin (k) INCLUDE (a, b, c, id);
VACUUM (FREEZE) amounts;
SELECT gpujoin_check('amounts_gj', true);
SELECT included FROM gpujoin_index_info('amounts_gj');
EXPLAIN (COSTS OFF) SELECT k, id, a, b, c FROM amounts WHERE k = ANY (ARRAY[1, 2, 3]);
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])');
SELECT * FROM differences('amounts', 'k = ANY ((SELECT array_agg(g) FROM generate_series(0, 99) g)::int[])');

-- The digits of a word, on both sides of the decimal point
CREATE TABLE digits (k int, id serial, a numeric, b numeric, c numeric);
INSERT INTO digits (k, a, b, c)
SELECT 1, (s * m)::numeric(30,0), (s * m / 100.0)::numeric(30,5), (s * m / 1e10)::numeric(30,18)
  FROM unnest(ARRAY[0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 10001, 99999, 100000, 12345678,
					99999999, 100000000, 123456789012, 999999999999, 1000000000000,
					100000000000000, 4611686018427387, 10000000000000000]::numeric[]) m,
	   unnest(ARRAY[1, -1]) s;
INSERT INTO digits (k, a, b, c)
SELECT 2, ('1e' || i)::numeric(40,0), ('1e' || i - 10)::numeric(40,5),
	   ('1e' || i - 20)::numeric(40,18)
  FROM generate_series(0, 20) i;
CREATE INDEX digits_gj ON digits USING gpujoin (k) INCLUDE (a, b, c, id);
VACUUM (ANALYZE, FREEZE) digits;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT a, b, c FROM digits WHERE k = ANY (ARRAY[1, 2])');
SELECT * FROM differences('digits', 'k = ANY (ARRAY[1, 2])');

-- Insertions, folds and merges
INSERT INTO amounts SELECT k, id + 2000, a, b, c FROM amounts;
SELECT gpujoin_check('amounts_gj', true);
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])');
DELETE FROM amounts WHERE id % 9 = 0;
VACUUM (INDEX_CLEANUP on) amounts;
SELECT gpujoin_fold('amounts_gj') IS NOT NULL AS folded;
SELECT gpujoin_check('amounts_gj', true);
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])');

-- Equal values that are shown differently
UPDATE amounts SET b = trim_scale(b) WHERE id % 20 = 7;
UPDATE amounts SET b = 1.500 WHERE id % 20 = 6;
VACUUM (FREEZE) amounts;
SELECT gpujoin_check('amounts_gj', true);
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[6, 7, 26, 27])');

-- The type can lose its scale, or change to a domain, without a new index
SELECT relfilenode AS before FROM pg_class WHERE relname = 'amounts_gj' \gset
ALTER TABLE amounts ALTER a TYPE numeric;
INSERT INTO amounts VALUES (1, -1, 1.5, 1, 1), (1, -2, 1.50, 1, 1), (1, -3, 1.501, 1, 1), (1, -4, 'NaN', 1, 1);
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[1, 2])');
CREATE DOMAIN price AS numeric;
ALTER TABLE amounts ALTER a TYPE price;
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[1, 2])');
SELECT gpujoin_check('amounts_gj', true);
SELECT relfilenode = :before AS same_file FROM pg_class WHERE relname = 'amounts_gj';
VACUUM (FREEZE) amounts;
SELECT * FROM differences('amounts', 'k = ANY (ARRAY[1, 2])');

-- The first rows in an order; joins
EXPLAIN (COSTS OFF) SELECT id, a, b FROM amounts WHERE k = ANY (ARRAY[5, 6, 7]) ORDER BY id DESC LIMIT 5;
SELECT id, a, b FROM amounts WHERE k = ANY (ARRAY[5, 6, 7]) ORDER BY id DESC LIMIT 12;
CREATE TABLE small (k int, b numeric, name text);
INSERT INTO small VALUES (1, 1.5, 'one'), (6, 1.50, 'six'), (7, 'NaN', 'seven'), (4, 1e30, 'four');
ANALYZE small;
SET enable_hashagg = off;
SELECT explain('COSTS OFF', 'SELECT s.name, count(*), sum(n.a), max(n.b)
	FROM small s JOIN amounts n ON n.k = s.k GROUP BY 1 ORDER BY 1');
RESET enable_hashagg;
SELECT s.name, count(*), sum(n.a), max(n.b) FROM small s JOIN amounts n ON n.k = s.k GROUP BY 1 ORDER BY 1;
SELECT explain('COSTS OFF',
	'SELECT s.name, n.id, n.b FROM small s JOIN amounts n ON n.k = s.k AND n.b = s.b ORDER BY 1, 2');
SELECT s.name, count(*), min(n.b), max(n.b) FROM small s JOIN amounts n ON n.k = s.k AND n.b = s.b GROUP BY 1 ORDER BY 1;
SET gpujoin.enabled = off;
SELECT id, a, b FROM amounts WHERE k = ANY (ARRAY[5, 6, 7]) ORDER BY id DESC LIMIT 12;
SELECT s.name, count(*), sum(n.a), max(n.b) FROM small s JOIN amounts n ON n.k = s.k GROUP BY 1 ORDER BY 1;
SELECT s.name, count(*), min(n.b), max(n.b) FROM small s JOIN amounts n ON n.k = s.k AND n.b = s.b GROUP BY 1 ORDER BY 1;
RESET gpujoin.enabled;

-- An empty table has no sample; a scale can be too large
CREATE TABLE empty (k int, id int, a numeric, b numeric(5,-2), c numeric(10,4));
CREATE INDEX empty_gj ON empty USING gpujoin (k) INCLUDE (a, b, c, id);
INSERT INTO empty VALUES (1, 1, 1.25, 12300, 1.5), (1, 2, 1.255, -12300, 0.0001), (1, 3, NULL, NULL, NULL), (1, 4, 0, 0, 0);
VACUUM (FREEZE) empty;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT a, b, c FROM empty WHERE k = ANY (ARRAY[1, 2])');
SELECT a, b, c FROM empty WHERE k = ANY (ARRAY[1, 2]) ORDER BY id;
CREATE TABLE fine (k int, a numeric(100,64));
CREATE INDEX ON fine USING gpujoin (k) INCLUDE (a);

-- An enum has four bytes
CREATE TYPE status AS ENUM ('new', 'paid', 'sent');
CREATE TABLE orders (k int, s status);
INSERT INTO orders SELECT i % 10, (enum_range(NULL::status))[i % 4] FROM generate_series(1, 100) i;
CREATE INDEX orders_gj ON orders USING gpujoin (k) INCLUDE (s);
VACUUM (ANALYZE, FREEZE) orders;
EXPLAIN (COSTS OFF) SELECT k, s FROM orders WHERE k = ANY (ARRAY[1, 2]);
EXPLAIN (COSTS OFF) SELECT s, count(*), count(s) FROM orders WHERE k = ANY (ARRAY[1, 2]) GROUP BY s ORDER BY s;
SELECT s, count(*), count(s) FROM orders WHERE k = ANY (ARRAY[1, 2]) GROUP BY s ORDER BY s;
SELECT count(DISTINCT s), count(*) FILTER (WHERE s = 'paid') AS paid FROM orders WHERE k = ANY (ARRAY[1, 2]);
SELECT min(s), max(s) FROM orders WHERE k = ANY (ARRAY[1, 2]);
SELECT DISTINCT k, s FROM orders WHERE k = ANY (ARRAY[1, 2]) ORDER BY k, s;

-- an option says how many decimals an index on an empty table stores
CREATE TABLE chosen (k int, a numeric, b numeric(65,30), c numeric(12,2));
CREATE INDEX chosen_gj ON chosen USING gpujoin (k) INCLUDE (a, b, c) WITH (numeric_scale = 4);
INSERT INTO chosen SELECT 1, round(i / 8.0, 4), i / 4.0, i FROM generate_series(1, 100) i;
INSERT INTO chosen VALUES (1, 0.50, 0.00001, 7.25), (1, 'NaN', -1e30, NULL);
VACUUM (FREEZE) chosen;
SELECT included FROM gpujoin_index_info('chosen_gj');
SELECT gpujoin_check('chosen_gj', true);
SELECT count(*), sum(b), min(a), max(a), sum(c) FROM chosen WHERE k = ANY (ARRAY[1, 2]);
SET gpujoin.enabled = off;
SELECT count(*), sum(b), min(a), max(a), sum(c) FROM chosen WHERE k = ANY (ARRAY[1, 2]);
RESET gpujoin.enabled;
ALTER INDEX chosen_gj SET (numeric_scale = 19);
ALTER INDEX chosen_gj SET (numeric_scale = 0);
REINDEX INDEX chosen_gj;
SELECT included FROM gpujoin_index_info('chosen_gj');
SELECT count(*), sum(b), min(a), max(a), sum(c) FROM chosen WHERE k = ANY (ARRAY[1, 2]);

-- the rows of values that an index could not store cost as much as others
CREATE TABLE costly (k int, a numeric(12,2), b numeric);
INSERT INTO costly SELECT i % 1000, i / 100.0, CASE WHEN i < 2000 THEN i ELSE i / 100.0 END FROM generate_series(1, 50000) i;
CREATE INDEX costly_gj ON costly USING gpujoin (k) INCLUDE (a, b);
VACUUM (ANALYZE, FREEZE) costly;
SELECT array_agg(g) AS keys FROM generate_series(0, 199) g \gset
SET plan_cache_mode = force_custom_plan;
PREPARE stored(int[]) AS SELECT sum(a) FROM costly WHERE k = ANY ($1);
PREPARE lacking(int[]) AS SELECT sum(b) FROM costly WHERE k = ANY ($1);
CREATE FUNCTION cost_of(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Total Cost';
END $$;
SET gpujoin.force = off;
SELECT cost_of(format('EXECUTE lacking(%L)', :'keys')) > 1.5 * cost_of(format('EXECUTE stored(%L)', :'keys')) AS costs_more;
DROP FUNCTION cost_of;

DROP TABLE amounts, digits, small, empty, fine, orders, costly, chosen;
DROP DOMAIN price;
DROP TYPE status;
DROP FUNCTION differences;
DROP FUNCTION explain(text, text);
