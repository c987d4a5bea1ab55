--
-- Filters of many entries: a device's entries are tested as they arrive, until most turn out to
-- pass
--
CREATE SCHEMA filter_many;
SET search_path = filter_many, public;
SET gpujoin.min_rows = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE FUNCTION wrong(query text) RETURNS text LANGUAGE sql AS $$
	SELECT n || ' rows' || CASE WHEN missing + surplus > 0 THEN ', wrong' ELSE '' END
	FROM both_ways(query)
$$;

-- "late" has values where the keys are high, "early" where they are low: an uneven distribution
CREATE TABLE m (id int, k int, v int, w int2, x float8, y int8, late int, early int)
	WITH (autovacuum_enabled = off);
INSERT INTO m SELECT i, i % 2000, i % 100, nullif(i % 50, 7), i % 90,
	nullif(i % 3, 1) * 10000000000,
	CASE WHEN i % 2000 > 1500 THEN 1 END, CASE WHEN i % 2000 < 350 THEN 1 END
FROM generate_series(1, 20000) i;
CREATE INDEX m_k ON m USING gpujoin (k) INCLUDE (id, v, w, x, y, late, early);
VACUUM ANALYZE m;

CREATE TABLE conditions AS SELECT * FROM unnest(ARRAY['v < 0', 'v = 3', 'v < 49', 'v < 51',
	'v < 99', 'late = 1', 'early = 1', 'early IS NULL', 'w IS NULL', 'y IS NULL',
	'y > 0 AND x < 9', 'w IN (1, 2, 3) OR y = 0', 'k > 1750',
	'k BETWEEN 10 AND 30 AND v = 11', 'v = 3 AND late IS NULL']) WITH ORDINALITY q(condition, n);
CREATE FUNCTION compare(wanted text[]) RETURNS TABLE (condition text, heap text, entries text,
	counted text)
LANGUAGE sql AS $$
	SELECT condition,
		wrong(format('SELECT ctid AS place, * FROM m WHERE k = ANY (%L) AND (%s)', a, condition)),
		wrong(format('SELECT id, k, v, w, x, y FROM m WHERE k = ANY (%L) AND (%s)', a, condition)),
		wrong(format('SELECT v, count(*) n, sum(w) s, count(y) c, max(id) FROM m
			WHERE k = ANY (%L) AND (%s) GROUP BY v', a, condition))
	FROM conditions, (SELECT array_agg(i) FROM generate_series(0, 1950) i) q(a)
	WHERE condition = ANY (wanted) OR wanted IS NULL ORDER BY n
$$;
SELECT * FROM compare(NULL);

-- The number of removed entries covers all matches, whoever tests them
CREATE FUNCTION removed(query text) RETURNS TABLE (matched text, removed text)
LANGUAGE plpgsql SET gpujoin.force = on AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query
		INTO plan;
	plan := plan -> 0 -> 'Plan';
	RETURN QUERY SELECT plan ->> 'Matched TIDs', plan ->> 'Rows Removed by Index Filter';
END $$;
SELECT condition, r.* FROM conditions,
	removed('SELECT id, w FROM m WHERE k = ANY (ARRAY(SELECT generate_series(0, 1950))) AND ' ||
		condition) r
WHERE condition IN ('v = 3', 'v < 99', 'late = 1', 'early = 1') ORDER BY n;

-- Params: of a prepared statement; of a rescan, which needs other entries each time
SET plan_cache_mode = force_generic_plan;
SET gpujoin.force = on;
SELECT array_agg(i) AS keys FROM generate_series(0, 1950) i \gset
PREPARE p(int[], int) AS SELECT count(*), sum(id) FROM m WHERE k = ANY ($1) AND v = $2;
EXECUTE p(:'keys', 3);
EXECUTE p(:'keys', 4);
EXECUTE p(:'keys', NULL);
RESET plan_cache_mode;
RESET gpujoin.force;
-- If the guessed length is right, the plan suits all arrays: no others are made
PREPARE guessed(int[]) AS SELECT count(*), sum(v) FROM m WHERE k = ANY ($1);
SELECT array_agg(i * 3) AS keys FROM generate_series(1, 200) i \gset
EXECUTE guessed(:'keys');
EXECUTE guessed(:'keys') \g /dev/null
EXECUTE guessed(:'keys') \g /dev/null
EXECUTE guessed(:'keys') \g /dev/null
EXECUTE guessed(:'keys') \g /dev/null
EXECUTE guessed(:'keys') \g /dev/null
EXECUTE guessed(:'keys') \g /dev/null
SELECT generic_plans > 0 AS kept FROM pg_prepared_statements WHERE name = 'guessed';
SET gpujoin.force = on;
SELECT g, n, s FROM generate_series(1, 3) g, LATERAL (SELECT count(*) n, sum(w) s FROM m
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 1950))) AND v = g OFFSET 0) q;
SELECT g, n, s FROM generate_series(1, 3) g, LATERAL (SELECT count(*) + g n, sum(w) s FROM m
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 1950))) AND v = 3 OFFSET 0) q;
RESET gpujoin.force;

-- Little memory: the entries that pass fit, or do not
SET work_mem = '256kB';
SET hash_mem_multiplier = 1;
SELECT * FROM compare('{v = 3,v < 51,late = 1}');
RESET work_mem;
RESET hash_mem_multiplier;

-- Entries that are also on tail pages, or have changed
INSERT INTO m SELECT i, i % 2000, 3, 3, 3, 3, 1, 1 FROM generate_series(1, 300) i;
UPDATE m SET v = v + 1 WHERE id % 60 = 3;
DELETE FROM m WHERE id % 61 = 5;
SELECT * FROM compare('{v = 3,v < 51,late = 1}');
VACUUM m;
SELECT * FROM compare('{v = 3,v < 51,late = 1}');

SET client_min_messages = warning;
DROP SCHEMA filter_many CASCADE;
