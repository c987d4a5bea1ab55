--
-- Filters tested on index entries: the clauses that are tested, their results, and the rows that
-- are fetched
--
CREATE SCHEMA filter;
SET search_path = filter, public;
SET gpujoin.min_rows = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
\i :abs_srcdir/sql/common/explain.sql

CREATE DOMAIN small AS int2 CHECK (VALUE < 32768);
CREATE TABLE f (id int, k int, i2 int2, i4 int, i8 int8, f4 float4, f8 float8, d date,
	ts timestamp, tz timestamptz, b bool, o oid, s small, t text)
	WITH (autovacuum_enabled = off, fillfactor = 70);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO f SELECT i, i % 20, (i % 9 - 4)::int2, i % 9 - 4, i % 9 - 4,
		(i % 9 - 4) / 2.0, (i % 9 - 4) / 2.0, '2020-01-05'::date + i % 9 - 4,
		'2020-01-05'::timestamp + (i % 9 - 4) * interval '1 s',
		'2020-01-05 UTC'::timestamptz + (i % 9 - 4) * interval '1 s',
		i % 2 = 0, i % 9, (i % 9 - 4)::int2, repeat('t', i % 7)
	FROM generate_series(first, last) i;
	INSERT INTO f (id, k, t) SELECT i, i % 20, 'no values' FROM generate_series(first, last, 5) i;
$$;
SELECT fill(1, 900);
INSERT INTO f SELECT -k, k, -32768, -2147483648, -9223372036854775808, '-Infinity', '-Infinity',
	'-infinity', '-infinity', '-infinity', false, 0, -32768, 'least' FROM generate_series(0, 19) k;
INSERT INTO f SELECT -k, k, 32767, 2147483647, 9223372036854775807, 'Infinity', 'NaN',
	'infinity', 'infinity', 'infinity', true, 4294967295, 32767, 'most'
	FROM generate_series(0, 19) k;
INSERT INTO f (id, k, f4, f8) SELECT -k, k, 'NaN', '-0' FROM generate_series(0, 19) k;
CREATE INDEX f_k ON f USING gpujoin (k) INCLUDE (i2, i4, i8, f4, f8, d, ts, tz, b, o, s);
VACUUM ANALYZE f;

-- Return the filter, the number of entries removed before the heap is read, and the blocks read
CREATE FUNCTION filtered(query text, OUT index_filter text, OUT removed text, OUT blocks text,
	OUT removed_later text)
LANGUAGE plpgsql SET gpujoin.force = on AS $$
DECLARE
	plan json;
	node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query
		INTO plan;
	node := plan -> 0 -> 'Plan';
	WHILE node IS NOT NULL AND node ->> 'Custom Plan Provider' IS DISTINCT FROM 'GpuScan'
		AND node ->> 'Custom Plan Provider' IS DISTINCT FROM 'GpuJoinScan' LOOP
		node := node -> 'Plans' -> -1;
	END LOOP;
	index_filter := node ->> 'Index Filter';
	removed := node ->> 'Rows Removed by Index Filter';
	blocks := node ->> 'Exact Heap Blocks';
	removed_later := coalesce(node ->> 'Rows Removed by Filter', node ->> 'Rows Removed by Filter Recheck');
END $$;

-- Test a condition for rows from the heap, from entries, counted and joined; return the wrong
-- answers
CREATE TABLE small_side AS SELECT k, 'n' || k AS name FROM generate_series(-1, 21, 2) k;
CREATE FUNCTION wrong(condition text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	stock text[];
	answer text;
	n int;
	queries text[] := ARRAY[
		'SELECT * FROM f WHERE k IN (1, 3, 5) AND',
		'SELECT i4, f8, k FROM f WHERE k IN (1, 3, 5) AND',
		'SELECT count(*) AS n FROM f WHERE k IN (1, 3, 5) AND',
		'SELECT id, name FROM small_side JOIN f USING (k) WHERE',
		'SELECT i8, b, name FROM small_side JOIN f USING (k) WHERE',
		'SELECT count(*) AS n FROM small_side JOIN f USING (k) WHERE'];
BEGIN
	FOREACH answer IN ARRAY '{off,on}'::text[] LOOP
		PERFORM set_config('gpujoin.enabled', answer, true), set_config('gpujoin.force', answer, true);
		FOR n IN 1 .. cardinality(queries) LOOP
			query := format('SELECT count(*) || md5(string_agg(q::text, '','' ORDER BY q::text))
				FROM (%s (%s)) q', queries[n], condition);
			EXECUTE query INTO answer;
			IF NOT current_setting('gpujoin.enabled')::bool THEN
				stock[n] := answer;
			ELSIF stock[n] IS DISTINCT FROM answer THEN
				RETURN NEXT query;
			END IF;
		END LOOP;
	END LOOP;
	PERFORM set_config('gpujoin.force', 'off', true);
	IF (filtered(format('SELECT * FROM f WHERE k = 1 AND (%s)', condition))).index_filter IS NULL THEN
		RETURN NEXT 'not filtered: ' || condition;
	END IF;
END $$;

-- Each comparison of each type with values within and outside the column's range
CREATE TABLE operands AS
	SELECT c AS col, v || t AS val, t
	FROM unnest('{i2,i4,i8,s}'::text[]) c, unnest('{::int2,::int4,::int8}'::text[]) t,
		unnest('{2,-32768,32767}'::text[]) n, LATERAL (SELECT quote_literal(n)) q(v)
	UNION ALL
	SELECT c, quote_literal(n) || '::int8', '::int8' FROM unnest('{i2,i4,i8}'::text[]) c,
		unnest('{-9223372036854775808,9223372036854775807,32768,-2147483649,4294967298}'::text[]) n
	UNION ALL
	SELECT c, quote_literal(n) || t, t FROM unnest('{f4,f8}'::text[]) c,
		unnest('{::float4,::float8}'::text[]) t,
		unnest('{1.5,0,-0,NaN,Infinity,-Infinity,0.1}'::text[]) n
	UNION ALL
	SELECT c, quote_literal(n) || t, t
	FROM (VALUES ('d', '::date'), ('ts', '::timestamp'), ('tz', '::timestamptz')) q(c, t),
		unnest('{2020-01-06,2020-01-05 00:00:02,infinity,-infinity}'::text[]) n
	UNION ALL
	SELECT 'b', quote_literal(n) || '::bool', '::bool' FROM unnest('{true,false}'::text[]) n
	UNION ALL
	SELECT 'o', quote_literal(n) || '::oid', '::oid' FROM unnest('{0,3,4294967295}'::text[]) n;
SELECT count(*) AS comparisons, sum((SELECT count(*) FROM wrong(format(
	CASE WHEN row % 2 = 0 THEN '%1$s %2$s %3$s' ELSE '%3$s %2$s %1$s' END, col, op, val)))) AS wrong
FROM (SELECT *, row_number() OVER () AS row
	FROM operands, unnest('{<,<=,=,<>,>=,>}'::text[]) op) q
WHERE (row + length(val)) % 3 = 0;
SELECT count(*) AS lists, sum((SELECT count(*) FROM wrong(format(
	'%s %s (ARRAY[%s]%s[])', col, op, vals, t)))) AS wrong
FROM (SELECT col, t, string_agg(val, ', ' || val || ', ') AS vals FROM operands GROUP BY col, t) q,
	unnest('{= ANY,<> ALL}'::text[]) op;

-- Other forms
SELECT condition, wrong FROM unnest(ARRAY[
	'i4 BETWEEN -2 AND 3', 'i4 NOT BETWEEN -2 AND 3', 'i2 IN (1, 2, NULL)', 'i2 NOT IN (1, 2)',
	'i2 NOT IN (1, 2, NULL)', 'i8 = ANY (NULL::int8[])', 'i8 = ANY (''{}''::int8[])',
	'i8 <> ALL (''{}''::int8[])', 'i8 = ANY (ARRAY[NULL]::int8[])',
	'i4 = ANY (ARRAY[[1, 2], [3, 4]])', 'NOT i4 = ANY (ARRAY[1, NULL])',
	'i4 = ANY (ARRAY(SELECT generate_series(-3, 300, 2)))', 'i4 IS NULL', 'i4 IS NOT NULL', 'b',
	'NOT b', 'b IS TRUE', 'b IS NOT TRUE', 'b IS FALSE', 'b IS NOT FALSE', 'b IS UNKNOWN',
	'b IS NOT UNKNOWN', '(i4 > 2) IS UNKNOWN', '(i4 > 2 AND f8 < 1) IS NOT FALSE',
	'(i4 > 2 OR f8 > 1)', 'NOT (i4 > 2 AND b)', 'NOT (i4 > 2 OR NOT b OR d IS NULL)',
	'(i4 = 1 OR i4 = 2 OR i4 = 3 OR b IS NULL)', '(b OR NULL) AND i4 <> 3',
	'((i4 > 0 AND b) OR (i4 < 0 AND NOT b) OR (i4 IS NULL AND f4 IS NULL) OR o = 3)',
	'k <> 5 AND i4 > 0', 'k = i4 + 0 AND i4 > 0', 's < 3',
	'i4 = (SELECT max(k) - 19 FROM small_side)', 'i4 = ANY ((SELECT array_agg(k) FROM small_side)::int[])',
	'd > (now() - interval ''30 years'')::date', 'tz < now()', 'i4 > 0 AND t LIKE ''tt%''',
	'i4 > 0 AND random() >= 0']) condition, wrong(condition);

-- Conditions that cannot be tested on entries, or might fail there
SELECT condition, index_filter IS NOT NULL AS filtered FROM unnest(ARRAY['t = ''tt''', 'i4 % 5 > 2',
	's::int4 = 2 OR i4 = 1', 'i4 = i8', 'f8 > 1::numeric', 'd > ''2020-01-01''::timestamp',
	'i4 > random()', 'i4 > id',
	'(i4 IS NOT NULL OR i4 IS NULL OR i8 = 1 / (SELECT 0))',
	'(i4 = 1 OR t = ''t'')', 'i4 < ALL (ARRAY[1, 2])', 'EXISTS (SELECT FROM small_side s WHERE s.k = f.i4)',
	'id > 5 AND i4 > 2', '(i8 = 9 % (SELECT 5) OR i4 = 1)']) condition,
	filtered('SELECT * FROM f WHERE k = 1 AND ' || condition);
SELECT count(*) FROM f WHERE k = 1 AND (i4 IS NOT NULL OR i8 = 1 / (SELECT 0)) AND i4 IS NOT NULL;

-- The heap is read for entries that pass, and rows from there are tested again
SELECT * FROM filtered('SELECT * FROM f WHERE k IN (1, 2, 3) AND i4 = 2 AND b');
SELECT * FROM filtered('SELECT * FROM f WHERE k IN (1, 2, 3) AND i4 = 2 AND length(t) = 3');
SELECT * FROM filtered('SELECT * FROM f WHERE k IN (1, 2, 3) AND i4 = 77');
SELECT * FROM filtered('SELECT i4 FROM f WHERE k IN (1, 2, 3) AND i4 = 2');
SELECT * FROM filtered('SELECT f.* FROM small_side JOIN f USING (k) WHERE i4 = 2 AND b');
SET gpujoin.force = on;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM f WHERE k IN (1, 2, 3) AND i4 = 2 AND b AND length(t) = 3');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT count(*) FROM f WHERE k IN (1, 2, 3) AND (i4 >= 2 OR NOT b)');
EXPLAIN (COSTS OFF) SELECT f.id, name FROM small_side JOIN f USING (k) WHERE i4 >= 2 AND id > 5;
RESET gpujoin.force;

-- Parameters, stable functions, rescans with other values
CREATE FUNCTION limit_of(n int) RETURNS int STABLE LANGUAGE sql AS
	'SELECT count(*)::int + n FROM f WHERE id = 1 AND k = 1';
SET gpujoin.force = on;
SET plan_cache_mode = force_generic_plan;
PREPARE p(int[], int, int[]) AS
	SELECT count(*), sum(id), sum(length(t)) FROM f WHERE k = ANY ($1) AND i4 >= $2
	AND (cardinality($3) = 0 OR i8 = ANY ($3)) AND ($2 IS NULL OR i2 >= $2);
EXPLAIN (COSTS OFF) EXECUTE p(NULL, NULL, NULL);
EXECUTE p('{1,2}', 2, '{}');
EXECUTE p('{1,2}', NULL, '{}');
EXECUTE p('{1,2}', 0, '{3,NULL}');
EXECUTE p('{1,2,7}', -99999, '{-4,2}');
SET gpujoin.enabled = off;
EXECUTE p('{1,2}', 2, '{}');
EXECUTE p('{1,2}', NULL, '{}');
EXECUTE p('{1,2}', 0, '{3,NULL}');
EXECUTE p('{1,2,7}', -99999, '{-4,2}');
RESET gpujoin.enabled;
RESET plan_cache_mode;
RESET gpujoin.force;
SELECT * FROM both_ways('SELECT id FROM f WHERE k IN (2, 4) AND i4 > limit_of(1)');
SELECT * FROM both_ways('SELECT x, (SELECT count(id) FROM f WHERE k = ANY (ARRAY[1, 2]) AND i4 = x) AS heap,
	(SELECT count(i8) FROM f WHERE k = ANY (ARRAY[1, 2]) AND i4 = x) AS entries,
	(SELECT count(f.id) FROM small_side s JOIN f USING (k) WHERE i4 = x) AS joined,
	(SELECT sum(f.i8) FROM small_side s JOIN f USING (k) WHERE i4 <> x) AS joined_entries
	FROM generate_series(-5, 5) x');
-- matches are filtered again, or searched once more without the filter, not for each parameter
SET gpujoin.force = on;
SELECT l FROM explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT x,
	(SELECT count(id) FROM f WHERE k = ANY (ARRAY[1, 2]) AND i4 = x) FROM generate_series(-5, 5) x') l
WHERE l ~ 'Keys|Filter|Index|Heap';
SELECT l FROM explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT x,
	(SELECT count(*) FROM f WHERE k = ANY (ARRAY[1, 2]) AND i4 = x) FROM generate_series(-5, 5) x') l
WHERE l ~ 'Keys|Index|Heap';
RESET gpujoin.force;
SELECT * FROM both_ways('SELECT x.*, y FROM generate_series(-3, 3) y,
	LATERAL (SELECT id, t FROM f WHERE k IN (1, 2) AND i4 = y AND b LIMIT 3) x');

-- All kinds of sets: empty, all except a list, rows with a NULL key, a key that is an expression
INSERT INTO f (id, k, i4) SELECT i, NULL, i FROM generate_series(1, 5) i;
SELECT * FROM both_ways('SELECT * FROM f WHERE k = ANY (''{}''::int[]) AND i4 = 2');
SELECT * FROM both_ways('SELECT * FROM f WHERE k <> ALL (''{1,2,3}''::int[]) AND i4 = 2');
SELECT * FROM both_ways('SELECT * FROM f WHERE k <> ALL (''{}''::int[]) AND i4 = 2');
SELECT * FROM both_ways('SELECT * FROM f WHERE (k = 3 OR k IS NULL AND id IS NOT NULL) AND i4 = 2');
CREATE INDEX f_expr ON f USING gpujoin ((k + 1)) INCLUDE (i4, b);
SELECT index_filter, removed > '0' AS removed
FROM filtered('SELECT * FROM f WHERE k + 1 IN (5, 6) AND i4 = 2 AND k > 1');
SELECT * FROM both_ways('SELECT * FROM f WHERE k + 1 IN (5, 6) AND i4 = 2 AND k > 1');
CREATE INDEX f_o ON f USING gpujoin (o) INCLUDE (i4);
SELECT index_filter, removed > '0' AS removed
FROM filtered('SELECT * FROM f WHERE o IN (1, 4294967295, 3) AND o > 2 AND i4 <> 1');
SELECT * FROM both_ways('SELECT * FROM f WHERE o IN (1, 4294967295, 3) AND o > 2 AND i4 <> 1');
SELECT * FROM both_ways('SELECT i4 FROM f WHERE o IN (1, 4294967295, 3) AND o > 2');

-- More entries than fit in memory: in pieces, by the CPU or a device, and a lossy set
SELECT fill(1000, 30000);
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM both_ways('SELECT * FROM f WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8) AND i4 IN (2, -3) AND b');
SELECT * FROM both_ways('SELECT id, t FROM f WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8) AND i4 >= -3');
SELECT * FROM both_ways('SELECT i4, i8 FROM f WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8) AND i4 IN (2, -3) AND b');
SELECT * FROM both_ways('SELECT id, name FROM small_side JOIN f USING (k) WHERE i4 < 0');
RESET work_mem;
RESET hash_mem_multiplier;

-- Parallel plans, using TIDs and using entries
CREATE FUNCTION in_parallel(query text, OUT workers text, OUT missing bigint, OUT surplus bigint)
LANGUAGE plpgsql SET parallel_setup_cost = 0 SET parallel_tuple_cost = 0
SET min_parallel_table_scan_size = 0 SET seq_page_cost = 0 SET random_page_cost = 0
SET gpujoin.search_cost = 0 SET gpujoin.setup_cost = 0 SET gpujoin.tid_cost = 0
SET gpujoin.device_setup_cost = 0 SET gpujoin.device_search_cost = 0
SET max_parallel_workers_per_gather = 2 AS $$
DECLARE
	line text;
BEGIN
	workers := 'none';
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		workers := coalesce(substring(line FROM 'Parallel Custom Scan \((\w+)'), workers);
	END LOOP;
	SELECT a.missing, a.surplus INTO missing, surplus FROM both_ways(query) a;
END $$;
SELECT * FROM in_parallel('SELECT id, t FROM f WHERE k IN (1, 2, 3) AND i4 IN (2, -3) AND b');
SELECT * FROM in_parallel('SELECT i4, d FROM f WHERE k IN (1, 2, 3) AND i4 IN (2, -3) AND b');
SELECT * FROM in_parallel('SELECT id, name FROM small_side JOIN f USING (k) WHERE i4 < 0 AND b');
SELECT * FROM in_parallel('SELECT i8, name FROM small_side JOIN f USING (k) WHERE i4 < 0 AND b');

-- Changes: updates that create entries and HOT updates, deleted rows, reused slots
CREATE FUNCTION changed() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT wrong FROM unnest(ARRAY['i4 = 2', 'i4 = -77 AND b', 'i4 IS NULL', 'f8 > 0 OR i8 = 5']) c,
		wrong(c)
$$;
UPDATE f SET t = t || '!' WHERE id % 5 = 1;
SELECT changed();
UPDATE f SET i4 = -77 WHERE id % 7 = 1;
SELECT changed();
UPDATE f SET i4 = 2, b = true WHERE i4 = -77 AND id % 2 = 0;
DELETE FROM f WHERE i4 = 2 AND id % 3 = 0;
SELECT changed();
VACUUM f;
SELECT changed();
INSERT INTO f (id, k, i4, b) SELECT i, i % 20, -77, true FROM generate_series(1, 900) i;
SELECT changed();
DELETE FROM f WHERE i4 = -77;
VACUUM f;
SELECT fill(30001, 31000);
INSERT INTO f (id, k, i4, f8) SELECT i, i % 20, NULL, i FROM generate_series(1, 300) i;
SELECT changed();
BEGIN;
UPDATE f SET i4 = 2, b = NOT b WHERE id % 11 = 3;
SELECT changed();
ROLLBACK;
SELECT changed();

-- Serializable transactions, which get no index-only answers
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT changed();
COMMIT;

-- Row security: a policy need not see rows that a leakproof clause removes
CREATE TABLE secret (id int, k int, v int, owner text) WITH (autovacuum_enabled = off);
INSERT INTO secret SELECT i, i % 10, i % 7, CASE WHEN i % 2 = 0 THEN 'me' ELSE 'you' END
FROM generate_series(1, 700) i;
CREATE INDEX secret_k ON secret USING gpujoin (k) INCLUDE (v);
CREATE FUNCTION tells(text) RETURNS bool LANGUAGE plpgsql COST 0.001 AS $$
BEGIN
	RAISE NOTICE 'told of %', $1;
	RETURN true;
END $$;
CREATE POLICY mine ON secret USING (owner = 'me');
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE ROLE filter_reader;
GRANT USAGE ON SCHEMA filter TO filter_reader;
GRANT SELECT ON secret TO filter_reader;
SET ROLE filter_reader;
SET gpujoin.force = on;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM secret WHERE k IN (1, 2) AND v = 3');
SELECT id FROM secret WHERE k IN (1, 2) AND v = 3 AND id < 120 AND tells(owner);
RESET gpujoin.force;
RESET ROLE;

-- Partitions whose columns have other positions
CREATE TABLE parts (id int, k int, v int, w int8) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE parts_2 (w int8, gone text, v int, k int, id int);
ALTER TABLE parts_2 DROP gone;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (1000) TO (3000);
INSERT INTO parts SELECT i, i % 20, i % 6, nullif(i % 8, 3) FROM generate_series(1, 2000) i;
CREATE INDEX ON parts USING gpujoin (k) INCLUDE (v, w);
ANALYZE parts;
SELECT * FROM both_ways('SELECT * FROM parts WHERE k IN (1, 2, 3) AND v = 2 AND w < 5');
SELECT * FROM both_ways('SELECT v FROM parts WHERE k IN (1, 2, 3) AND v >= 2 AND w IS NOT NULL');
SELECT * FROM both_ways('SELECT p.*, name FROM small_side s JOIN parts p USING (k) WHERE v IN (1, 3)');
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT p.*, name FROM small_side s JOIN parts p USING (k) WHERE v IN (1, 3);
RESET gpujoin.force;

-- The planner knows that fewer rows are fetched
CREATE FUNCTION cost_of(query text) RETURNS float LANGUAGE plpgsql SET gpujoin.force = off AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
ANALYZE f;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT cost_of('SELECT * FROM f WHERE k IN (1, 2, 3) AND i4 = -3 AND b')
	< cost_of('SELECT * FROM f WHERE k IN (1, 2, 3) AND id = -3 AND b') AS cheaper;
RESET enable_seqscan;
RESET enable_bitmapscan;

SET client_min_messages = warning;
DROP SCHEMA filter CASCADE;
DROP ROLE filter_reader;
