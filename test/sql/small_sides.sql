-- All sources of the small set: our nodes answer each kind of small side in each form of the query,
-- with the same rows as stock plans.
CREATE SCHEMA gj_small;
SET search_path = gj_small, public;

CREATE TABLE big (id int, key int, v int, t text);
INSERT INTO big
SELECT i, CASE WHEN i % 50 > 0 THEN i * 7919 % 2000 END, i % 10, 'row ' || i
FROM generate_series(1, 12000) i;
CREATE INDEX ON big USING gpujoin (key);
DELETE FROM big WHERE id % 23 = 0;
UPDATE big SET key = key + 1 WHERE id % 19 = 0;
ANALYZE big;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
\i :abs_srcdir/sql/common/explain.sql

-- Run each form with this small side (its key, WITH clause, item of FROM) under gpujoin.force and
-- with gpujoin off. For a form that another node than the expected one answers, "instead" shows
-- that.
CREATE FUNCTION forms(key text, small text, cte text DEFAULT '', OUT form text, OUT n bigint,
					  OUT missing bigint, OUT surplus bigint, OUT instead text)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	query text;
	wanted text;
	node text;
	line text;
BEGIN
	FOR form, wanted, query IN VALUES
		('inner', 'Inner', 'SELECT b.id, $k AS k FROM $s JOIN big b ON b.key = $k'),
		('inner, big first', 'Inner', 'SELECT b.id, $k AS k FROM big b, $s WHERE $k = b.key'),
		('whole rows', 'Inner', 'SELECT s::text, b FROM big b JOIN $s ON b.key = $k AND b.v < 7'),
		('in', 'Semi|Inner|GpuScan', 'SELECT b.id, b.t FROM big b WHERE b.key IN (SELECT $k FROM $s)'),
		('= any', 'Semi|Inner|GpuScan', 'SELECT b.id FROM big b WHERE b.key = ANY (SELECT $k FROM $s)'),
		('any array', 'GpuScan',
			'SELECT b.id, b.t FROM big b WHERE b.key = ANY (ARRAY(SELECT $k FROM $s))'),
		('exists', 'Semi|Inner',
			'SELECT b.id FROM big b WHERE EXISTS (SELECT FROM $s WHERE $k = b.key) AND v > 2'),
		('left', 'Right', 'SELECT $k AS k, b.id FROM $s LEFT JOIN big b ON b.key = $k AND b.v < 5'),
		('right', 'Right', 'SELECT $k AS k, b.id FROM big b RIGHT JOIN $s ON b.key = $k'),
		('small exists', 'Right Semi',
			'SELECT $k AS k FROM $s WHERE EXISTS (SELECT FROM big b WHERE b.key = $k)'),
		('small not exists', 'Right Anti',
			'SELECT $k AS k FROM $s WHERE NOT EXISTS (SELECT FROM big b WHERE b.key = $k)'),
		('grouped', 'Inner',
			'SELECT b.v, count(*), sum(b.id) FROM $s JOIN big b ON b.key = $k GROUP BY b.v')
	LOOP
		query = cte || replace(replace(query, '$k', key), '$s', small);
		node = '';
		PERFORM set_config('gpujoin.force', 'on', true);
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			node = node || coalesce(substring(line FROM 'Join Type: (.*)'),
									substring(line FROM 'GpuScan'), '');
		END LOOP;
		SELECT d.* INTO n, missing, surplus FROM both_ways(query) d;
		instead = CASE WHEN node !~ ('^(' || wanted || ')$') THEN coalesce(nullif(node, ''), 'stock')
			END;
		RETURN NEXT;
	END LOOP;
END $$;

CREATE TABLE wishes (k int, w int);
INSERT INTO wishes SELECT i * 3 % 900, i FROM generate_series(1, 80) i;
INSERT INTO wishes VALUES (NULL, 1), (6, 7), (6, 7), (5000, 9), (-1, NULL);
CREATE TEMP TABLE fresh AS TABLE wishes;
CREATE TEMP TABLE known AS TABLE wishes;
ANALYZE wishes, known;
CREATE TEMP TABLE keyed (k int PRIMARY KEY, w bigint);
INSERT INTO keyed SELECT DISTINCT ON (k) k, w FROM wishes WHERE k IS NOT NULL;
CREATE TEMP TABLE nothing (k int);
CREATE FUNCTION sql_keys(n int) RETURNS SETOF int STABLE LANGUAGE sql AS
'SELECT g * 3 FROM generate_series(1, n) g';
CREATE FUNCTION plpgsql_keys(n int) RETURNS TABLE (k int, w int) LANGUAGE plpgsql AS
'BEGIN RETURN QUERY SELECT g * 3, g FROM generate_series(1, n) g; END';

SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE key IN (SELECT k FROM fresh);
EXPLAIN (COSTS OFF) SELECT b.id, s.o
FROM unnest(ARRAY[6, 9, NULL, 6]) WITH ORDINALITY s(k, o) LEFT JOIN big b ON b.key = s.k;
EXPLAIN (COSTS OFF) WITH s AS MATERIALIZED (SELECT k FROM wishes WHERE w > 10)
SELECT * FROM big WHERE key IN (SELECT k FROM s);
EXPLAIN (COSTS OFF) SELECT * FROM big b JOIN (VALUES (6), (9), (NULL)) s(k) ON b.key = s.k;
RESET gpujoin.force;

-- tables
SELECT * FROM forms('s.k', 'wishes s');
SELECT * FROM forms('s.k', 'fresh s');
SELECT * FROM forms('s.k', 'known s');
SELECT * FROM forms('s.k', 'keyed s');
SELECT * FROM forms('s.k', 'nothing s');
-- lists and functions
SELECT * FROM forms('s.k', '(VALUES (6, 1), (6, 2), (9, 3), (NULL, 4), (100000, 5)) s(k, w)');
SELECT * FROM forms('s.k', 'unnest(ARRAY[6, 9, NULL, 6, 12, 5000]) s(k)');
SELECT * FROM forms('s.k', 'unnest(''{6, 9, NULL, 6, 12}''::bigint[]) WITH ORDINALITY s(k, o)');
SELECT * FROM forms('s.k', 'ROWS FROM (unnest(ARRAY[3, 6]), unnest(ARRAY[1, 2, 3])) s(k, w)');
SELECT * FROM forms('s.k', 'generate_series(1, 300, 3) s(k)');
SELECT * FROM forms('s.k', 'sql_keys(50) s(k)');
SELECT * FROM forms('s.k', 'plpgsql_keys(50) s');
SELECT * FROM forms('s.x::int', 'string_to_table(''3,6,9,6'', '','') s(x)');
SELECT * FROM forms('(s.x ->> ''id'')::int',
	'json_array_elements(''[{"id": 3}, {"id": 6}, {"id": 6}, {"no": 1}]'') s(x)');
-- subselects and CTEs
SELECT * FROM forms('s.k', '(SELECT DISTINCT k FROM wishes) s');
SELECT * FROM forms('s.k', '(SELECT k, count(*) AS w FROM wishes GROUP BY k) s');
SELECT * FROM forms('s.k', '(SELECT k FROM wishes UNION ALL SELECT k FROM fresh WHERE w < 9) s');
SELECT * FROM forms('s.k', '(SELECT k FROM wishes EXCEPT SELECT k FROM fresh WHERE w < 9) s');
SELECT * FROM forms('s.k', '(SELECT k, w FROM wishes ORDER BY w, k LIMIT 20) s');
SELECT * FROM forms('s.k', '(SELECT unnest(array_agg(k)) AS k FROM wishes) s');
SELECT * FROM forms('s.k', '(SELECT k, row_number() OVER (ORDER BY w, k) AS o FROM wishes) s');
SELECT * FROM forms('s.k', '(SELECT w.k + f.k AS k FROM wishes w JOIN fresh f USING (w)) s');
SELECT * FROM forms('s.k', 's', 'WITH s AS (SELECT k, w FROM wishes) ');
SELECT * FROM forms('s.k', 's', 'WITH s AS MATERIALIZED (SELECT k, w FROM wishes) ');
SELECT * FROM forms('s.k', 's', 'WITH RECURSIVE s(k, w) AS (VALUES (3, 1)
	UNION ALL SELECT k + 3, w FROM s WHERE k < 90) ');

-- parameters, in generic plans: a set of any size, empty, NULL
SET plan_cache_mode = force_generic_plan;
SET gpujoin.force = on;
SELECT array_agg(g % 1000) AS many FROM generate_series(1, 3000) g \gset
-- Version 16 and later sort the input of count(DISTINCT), if allowed.
DO $$ BEGIN
	PERFORM set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate';
END $$;
PREPARE inner_unnest(int[]) AS
SELECT count(*), count(DISTINCT o), sum(id) FROM unnest($1) WITH ORDINALITY s(k, o)
JOIN big b ON b.key = s.k;
PREPARE in_unnest(bigint[]) AS
SELECT count(*), sum(id) FROM big WHERE key IN (SELECT unnest($1));
PREPARE left_unnest(int[]) AS
SELECT count(*), count(id), sum(id) FROM unnest($1) s(k) LEFT JOIN big b ON b.key = s.k;
PREPARE in_values(int, int, int) AS
SELECT count(*), sum(id) FROM big WHERE key IN (VALUES ($1), ($2), ($3));
PREPARE by_sublink(int) AS
SELECT count(*), sum(id) FROM big WHERE key IN (SELECT k FROM wishes WHERE w < $1);
EXPLAIN (COSTS OFF) EXECUTE inner_unnest('{}');
SELECT explain('COSTS OFF', 'EXECUTE in_unnest(''{}'')');
EXECUTE inner_unnest('{6, 9, NULL, 6}');
EXECUTE inner_unnest('{}');
EXECUTE inner_unnest(NULL);
EXECUTE inner_unnest(:'many');
EXECUTE in_unnest('{6, 9, NULL, 6, 8589934598}');
EXECUTE in_unnest(NULL);
EXECUTE left_unnest('{6, 9, NULL, 6, 100000}');
EXECUTE left_unnest('{}');
EXECUTE in_values(6, 6, NULL);
EXECUTE by_sublink(10);
EXECUTE by_sublink(NULL);
SET gpujoin.enabled = off;
EXECUTE inner_unnest('{6, 9, NULL, 6}');
EXECUTE inner_unnest('{}');
EXECUTE inner_unnest(NULL);
EXECUTE inner_unnest(:'many');
EXECUTE in_unnest('{6, 9, NULL, 6, 8589934598}');
EXECUTE in_unnest(NULL);
EXECUTE left_unnest('{6, 9, NULL, 6, 100000}');
EXECUTE left_unnest('{}');
EXECUTE in_values(6, 6, NULL);
EXECUTE by_sublink(10);
EXECUTE by_sublink(NULL);
RESET gpujoin.enabled;
RESET gpujoin.force;
DEALLOCATE ALL;
RESET plan_cache_mode;

SET client_min_messages = warning;
DROP SCHEMA gj_small CASCADE;
