--
-- OR chains and other expressions around conditions on one key: folded into one set
--
CREATE SCHEMA form_or;
SET search_path = form_or, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan_table.sql

-- Chains
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k = 1 OR k = 2 OR k = 2 OR 5 = k;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k = 1 OR k IN (2, 3) OR k = 4 OR k = ANY ('{5,6}');
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (k = 1 OR k = 5000000000 OR k = 7.0 OR k = 2) AND id > 5;
SELECT compare('SELECT * FROM big WHERE k = 1 OR k = 2 OR k = 2 OR 5 = k');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k IN (2, 3) OR k = 4 OR k = ANY (''{5,6}'')');
SELECT compare('SELECT * FROM big WHERE (k = 1 OR k = 5000000000 OR k = 7.0 OR k = 2) AND id > 5');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k = NULL OR k = 2');
SELECT compare('SELECT * FROM big WHERE k = ANY (NULL::int[]) OR k = 2');
SELECT compare('SELECT * FROM big WHERE k IN (1, NULL) OR k IN (NULL, 2)');
SELECT compare('SELECT * FROM big WHERE (k = 1 OR k = 2) AND (k = 2 OR k = 3)');
SELECT compare('SELECT * FROM big WHERE k = 1 OR (k = 2 OR (k = 3 OR k = 4))');
SELECT compare('SELECT * FROM big WHERE k = 1 OR (k IN (2, 3) AND k IN (3, 4))');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k = ANY (ARRAY(SELECT generate_series(5, 9)))');
SELECT compare(format('SELECT * FROM big WHERE %s', string_agg('k = ' || i, ' OR '))) FROM generate_series(1, 700, 2) i;

-- PostgreSQL makes bitmap scans only of the arms of short chains
CREATE FUNCTION has_bitmap_scans(on_table text, arms int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE (SELECT format('EXPLAIN (FORMAT json) SELECT * FROM %s WHERE id = 7 OR %s', on_table, string_agg('k = ' || i, ' OR '))
		FROM generate_series(1, arms) i) INTO plan;
	RETURN plan::text LIKE '%Bitmap Index Scan%';
END $$;
CREATE TABLE parted (id int, k int, part int) PARTITION BY LIST (part);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 (part int, gone int, k int, id int);
ALTER TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2);
INSERT INTO parted SELECT i, i % 100, 1 + i % 2 FROM generate_series(1, 2000) i;
CREATE INDEX ON parted USING gpujoin (k);
CREATE INDEX ON parted (id);
CREATE INDEX big_id ON big (id);
ANALYZE parted, big;
SET enable_seqscan = off;
SELECT t, arms, has_bitmap_scans(t, arms) FROM unnest('{big,parted,parted_2}'::text[]) t, unnest('{4,40}'::int[]) arms;
RESET enable_seqscan;
SELECT compare(format('SELECT * FROM parted WHERE %s', string_agg('k = ' || i, ' OR '))) FROM generate_series(1, 50) i;
DROP INDEX big_id;

-- Parameters
PREPARE arms(int, int, int[]) AS SELECT b FROM big b WHERE k = $1 OR k = 7 OR k = $2 OR k = ANY ($3);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE arms(1, 2, '{3}');
RESET plan_cache_mode;
SELECT compare_generic('arms', $$1, 2, '{3,4}'$$, $$NULL, 2, NULL$$, $$NULL, NULL, '{}'$$, $$8, 8, '{7,NULL}'$$);

-- Wrapping expressions: only "true" lets a row pass
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (k = ANY ('{1,2}')) IS TRUE;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE COALESCE(k = ANY ('{1,2}'), false);
SELECT compare('SELECT * FROM big WHERE (k = ANY (''{1,2,NULL}'')) IS TRUE');
SELECT compare('SELECT * FROM big WHERE COALESCE(k = ANY (''{1,2,NULL}''), false)');
SELECT compare('SELECT * FROM big WHERE COALESCE(k = ANY (''{1,2}''), NULL, false)');
SELECT compare('SELECT * FROM big WHERE (k = ANY (''{1,2}'')) = true');
SELECT compare('SELECT * FROM big WHERE (k = 1 OR COALESCE(k IN (2, 3), false) OR (k = 4) IS TRUE) IS TRUE');
SELECT compare('SELECT * FROM big WHERE NOT (k <> ALL (''{1,2}''))');
-- these also let other results pass
SELECT compare('SELECT * FROM big WHERE (k = ANY (''{1,2}'')) IS NOT FALSE');
SELECT compare('SELECT * FROM big WHERE (k = ANY (''{1,2}'')) IS UNKNOWN');
SELECT compare('SELECT * FROM big WHERE COALESCE(k = ANY (''{1,2}''), true)');
SELECT compare('SELECT * FROM big WHERE COALESCE(k = ANY (''{1,2}''), id = 7)');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k IS NULL');
SELECT compare('SELECT * FROM big WHERE k = 1 OR id = 7');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k = id');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k > 890');
SELECT compare('SELECT * FROM big WHERE k = 1 OR k = 1 + (random() * 0)::int');

-- The condition that the Entity Framework generates for a nullable column
PREPARE ef(int[]) AS SELECT b FROM big b WHERE k = ANY ($1) OR (k IS NULL AND array_position($1, NULL) IS NOT NULL);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE ef('{1,2}');
RESET plan_cache_mode;
SELECT compare_generic('ef', $$'{1,2}'$$, $$'{1,NULL,2}'$$, $$'{}'$$, 'NULL', $$'{NULL}'$$);
EXPLAIN (COSTS OFF) EXECUTE ef('{1,2}');
EXPLAIN (COSTS OFF) EXECUTE ef('{1,NULL}');
-- An array that array_position() rejects is an error only if a key is NULL
CREATE TABLE no_null AS SELECT i AS k, i AS b FROM generate_series(1, 20000) i;
CREATE INDEX ON no_null USING gpujoin (k);
PREPARE ef_full(int[]) AS SELECT count(*) FROM no_null WHERE k = ANY ($1) OR (k IS NULL AND array_position($1, NULL) IS NOT NULL);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE ef_full('{{1},{2}}');
EXECUTE ef_full('{{1},{2}}');
EXECUTE ef('{{1},{2}}');
INSERT INTO no_null VALUES (NULL, 0);
VACUUM no_null;
EXECUTE ef_full('{1,NULL}');
EXECUTE ef_full('{1,2}');
EXECUTE ef_full('{{1},{2}}');
RESET plan_cache_mode;
DROP TABLE no_null;
PREPARE ef_not(int[]) AS SELECT b FROM big b WHERE NOT (k = ANY ($1) AND (k = ANY ($1)) IS NOT NULL);
SELECT compare_generic('ef_not', $$'{1,2}'$$, $$'{1,NULL,2}'$$, $$'{}'$$, 'NULL');
-- other conditions apply to such rows, too; a clause without keys is not changed
PREPARE ef_and(int[], int) AS SELECT b FROM big b
	WHERE (k = ANY ($1) OR (k IS NULL AND array_position($1, NULL) IS NOT NULL)) AND id < $2;
SELECT compare_generic('ef_and', $$'{1,2}', 900$$, $$'{1,NULL,2}', 900$$);
PREPARE only_null(bool) AS SELECT b FROM big b WHERE (k IS NULL AND $1) OR (k IS NULL AND NOT $1);
SELECT compare_generic('only_null', 'true', 'false', 'NULL');
PREPARE both_null(int[], int[]) AS SELECT b FROM big b
	WHERE (k = ANY ($1) OR (k IS NULL AND array_position($1, NULL) IS NOT NULL))
	AND (k = ANY ($2) OR (k IS NULL AND array_position($2, NULL) IS NOT NULL));
SELECT compare_generic('both_null', $$'{1,2,NULL}', '{2,3,NULL}'$$, $$'{1,2,NULL}', '{2,3}'$$, $$'{1,2}', '{2,3}'$$);

-- A part of a clause suffices to restrict the key; the whole clause is tested on each row
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (k = 1 AND id < 1000) OR (k IN (2, 3) AND id > 19000);
SELECT compare('SELECT * FROM big WHERE (k = 1 AND id < 1000) OR (k IN (2, 3) AND id > 19000)');
SELECT compare('SELECT * FROM big WHERE (k, id) IN ((1, 11400), (2, 7), (3, 14200))');
SELECT compare('SELECT * FROM big WHERE (k IN (1, 2) AND note LIKE ''%7%'') OR k = 9');
SELECT compare('SELECT * FROM big WHERE (k = 1 AND id < 1000) OR id = 7');
PREPARE pairs(int, int) AS SELECT b FROM big b WHERE (k = $1 AND id > $2) OR (k = $2 AND id > $1);
SELECT compare_generic('pairs', '1, 2', 'NULL, 2', '-100, 899');

-- Changes through such a scan
BEGIN;
EXPLAIN (COSTS OFF) UPDATE big SET note = 'u' WHERE k = 300 OR k = 301 OR k = 302;
WITH changed AS (UPDATE big SET note = 'u' WHERE k = 300 OR k = 301 OR k = 302 RETURNING id) SELECT count(*) FROM changed;
WITH gone AS (DELETE FROM big WHERE k = 300 OR (k = 301 AND id % 2 = 0) RETURNING id) SELECT count(*) FROM gone;
SELECT compare('SELECT * FROM big WHERE k = 300 OR k = 301 OR k = 302');
ROLLBACK;

-- A security barrier evaluates the view's own condition first; folding does not change that
CREATE FUNCTION leak(int) RETURNS int STABLE COST 1 LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''saw %'', $1; RETURN $1; END';
CREATE VIEW guarded WITH (security_barrier) AS SELECT * FROM big WHERE id % 2 = 0;
SELECT compare('SELECT * FROM guarded WHERE k = 1 OR k = 2');
EXPLAIN (COSTS OFF) SELECT * FROM guarded WHERE (k = 1 AND leak(id) = 0) OR k = 2;

SET client_min_messages = warning;
DROP SCHEMA form_or CASCADE;
