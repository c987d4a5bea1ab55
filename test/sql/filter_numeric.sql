-- Conditions on numeric columns of an index, tested on entries: rows/filter.c
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpujoin;
RESET client_min_messages;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql

SET gpujoin.force = on;
SET enable_seqscan = off;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE prices (k int, id int, price numeric(12,2), any_scale numeric, long numeric(65,30), note text);
INSERT INTO prices
SELECT i % 20, i, CASE WHEN i % 13 > 0 THEN (i % 400 - 200) / 100.0 END,
	   CASE i % 16 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN 1.5
			WHEN 4 THEN 1.50 WHEN 5 THEN 1e30 WHEN 6 THEN -1e30 WHEN 7 THEN NULL
			ELSE (i % 40 - 20)::numeric / 8 END,
	   (i % 50 - 25) / 4.0, 'note'
  FROM generate_series(1, 3000) i;
UPDATE prices SET any_scale = any_scale::numeric(10,3) WHERE id % 16 > 7;
CREATE INDEX prices_gj ON prices USING gpujoin (k) INCLUDE (price, any_scale, long, id);
VACUUM (ANALYZE, FREEZE) prices;

SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT count(*), sum(price) FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND price > 0.5');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id, note FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND any_scale IN (1.5, 2) AND price IS NOT NULL');

-- counts the conditions for which a query with gpujoin differs from PostgreSQL's own
CREATE FUNCTION differ(query text, col text) RETURNS TABLE (conditions bigint, filtered bigint, differing bigint, example text)
LANGUAGE plpgsql AS $$
DECLARE
	condition text;
	ours text;
	theirs text;
	line text;
	found bool;
BEGIN
	conditions := 0;
	filtered := 0;
	differing := 0;
	FOR condition IN
		SELECT format('%s %s %s', col, o, v)
		  FROM unnest(ARRAY['=', '<>', '<', '<=', '>', '>=']) o,
			   unnest(ARRAY['0', '1.5', '1.500', '-1.5', '0.005', '1.005', '-1.005', '0.001', '-0.001', '1.999', '-2',
			   '1e20', '-1e20', '46116860184273879.03', '46116860184273879.04', '-46116860184273879.04', '1e-40', '-1e-40',
			   '''NaN''::numeric', '''Infinity''::numeric', '''-Infinity''::numeric', 'NULL::numeric', '(SELECT 0.25)']) v
		UNION ALL
		SELECT format(c, col)
		  FROM unnest(ARRAY['%s IS NULL', '%s IS NOT NULL', '%s IN (1.5, 0, 0.75, 17, 1.005)', '%s NOT IN (1.5, 0, 2)',
			   '%s IN (''NaN'', ''Infinity'', 1)', '%s NOT IN (1.5, NULL)', '%s IN (NULL, 1.50)', '%s = ANY (''{}''::numeric[])',
			   '%s BETWEEN -0.5 AND 1.5', '%1$s NOT BETWEEN -0.5 AND 1.5', '(%1$s < -1 OR %1$s > 1.25 OR %1$s IS NULL)',
			   'NOT (%s > 0.5)', '(%s > 0.5) IS NOT TRUE', '(%s > 0.5) IS UNKNOWN', '(%1$s > 0 AND id %% 2 = 0)',
			   '(%1$s > 0 OR id < 1000)', '(%1$s > 0 AND id < 1000)', '(%1$s = 1.5) = (id < 1000)', '%s > id::numeric',
			   '%s + 1 > 2', '1 < %s', '%s = ANY (SELECT 1.5)',
			   '%s IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 1.5, 0.25, -0.25, ''-Infinity'', 1e30)']) c
	LOOP
		PERFORM set_config('gpujoin.enabled', 'on', true);
		found := false;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(query, condition) LOOP
			found := found OR line ~ 'Index Filter';
		END LOOP;
		EXECUTE format(query, condition) INTO ours;
		PERFORM set_config('gpujoin.enabled', 'off', true);
		EXECUTE format(query, condition) INTO theirs;
		PERFORM set_config('gpujoin.enabled', 'on', true);
		conditions := conditions + 1;
		filtered := filtered + found::int;
		IF ours IS DISTINCT FROM theirs THEN
			differing := differing + 1;
			example := condition;
		END IF;
	END LOOP;
	RETURN NEXT;
END $$;

\set columns 'unnest(ARRAY[''price'', ''any_scale'', ''long'']) c'
SELECT c, d.* FROM :columns, differ('SELECT (count(*), sum(id), sum(long), sum(price)) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND %s', c) d;
SELECT c, d.* FROM :columns, differ('SELECT array_agg(id ORDER BY id)::text || min(note) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND %s', c) d;
SELECT c, d.* FROM :columns, differ('SELECT array_agg(s)::text FROM (SELECT id, price, any_scale FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND %s ORDER BY id LIMIT 12) s', c) d;
SELECT c, d.* FROM :columns, differ('SELECT array_agg(s)::text FROM (SELECT id FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND %s ORDER BY id DESC LIMIT 5) s', c) d;
SELECT c, d.* FROM :columns, differ('SELECT (count(*), sum(id)) FROM prices JOIN (SELECT g %% 30 FROM generate_series(1, 40) g) s(k) USING (k) WHERE %s', c) d;

-- changes; pages that are not all-visible
UPDATE prices SET price = price + 0.01, any_scale = trim_scale(any_scale) WHERE id % 7 = 0;
SELECT c, d.* FROM :columns, differ('SELECT (count(*), sum(id), sum(long), sum(price)) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND %s', c) d;
ALTER TABLE prices ALTER price TYPE numeric;
INSERT INTO prices VALUES (1, -1, 0.005, 1, 1), (1, -2, 'NaN', 1, 1), (1, -3, 1.5, 1, 1), (1, -4, 1.0050, 1, 1);
VACUUM (FREEZE) prices;
SELECT c, d.* FROM :columns, differ('SELECT (count(*), sum(id), sum(long), sum(price)) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND %s', c) d;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*), sum(price) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND price >= 1.5;
SELECT count(*), sum(id), sum(price) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND price >= 1.5;
SET gpujoin.enabled = off;
SELECT count(*), sum(id), sum(price) FROM prices WHERE k = ANY (ARRAY[1, 2, 3, 4, 5, 6, 7]) AND price >= 1.5;
RESET gpujoin.enabled;
SET max_parallel_workers_per_gather = 0;

-- Parameters that change with each scan
SELECT v, s FROM (VALUES (0.5), (1.505), (NULL), ('NaN'), (0.5)) v(v), LATERAL
	(SELECT count(*) || ' ' || sum(id) AS s FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND any_scale >= v) l;
SET gpujoin.enabled = off;
SELECT v, s FROM (VALUES (0.5), (1.505), (NULL), ('NaN'), (0.5)) v(v), LATERAL
	(SELECT count(*) || ' ' || sum(id) AS s FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND any_scale >= v) l;
RESET gpujoin.enabled;

-- The comparisons are not leakproof, so they wait for security barriers
CREATE ROLE regress_gj_prices;
GRANT SELECT ON prices TO regress_gj_prices;
ALTER TABLE prices ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON prices USING (id > 100);
SET ROLE regress_gj_prices;
EXPLAIN (COSTS OFF) SELECT count(*) FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND price > 0.5;
SELECT count(*) FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND price > 0.5;
RESET ROLE;
SELECT count(*) FROM prices WHERE k = ANY (ARRAY[1, 2, 3]) AND price > 0.5 AND id > 100;

DROP TABLE prices;
DROP ROLE regress_gj_prices;
DROP FUNCTION differ;
DROP FUNCTION explain(text, text);
