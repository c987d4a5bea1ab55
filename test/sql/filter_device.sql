--
-- Filters that a device tests before it sends anything: the rows and the counters are the same as
-- if the CPU tests them.  test/t/050_device_filter.pl checks that the device has tested them.
--
CREATE SCHEMA filter_device;
SET search_path = filter_device, public;
SET gpujoin.min_rows = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
\i :abs_srcdir/sql/common/explain.sql

CREATE TABLE v (id int, k int, i2 int2, i4 int, i8 int8, d date, tz timestamptz, b bool, o oid, u uuid,
	n numeric, t text, c bpchar) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO v SELECT i, i % 40, nullif(i % 13, 5) - 6, nullif(i % 11, 3) - 5,
		(nullif(i % 7, 6) - 3) * 5000000000, '2024-02-28'::date + nullif(i % 9, 2),
		'2024-02-28 UTC'::timestamptz + nullif(i % 8, 1) * interval '1 s', nullif(i % 3, 2) = 0,
		nullif(i % 5, 4), md5(nullif(i % 10, 7)::text)::uuid,
		CASE i % 23 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN '-inf' WHEN 3 THEN 1e30 WHEN 4 THEN 1.005
			WHEN 5 THEN 1.5 ELSE (i % 23 - 12)::numeric(5, 2) END,
		CASE i % 19 WHEN 0 THEN NULL WHEN 1 THEN 'longer than fifteen bytes' WHEN 2 THEN '' WHEN 3 THEN 'longer than 8'
			ELSE left('abcdefgh', i % 19 - 3) END,
		rpad(left('abcdefgh', i % 9), i % 11)
	FROM generate_series(first, last) i
$$;
SELECT fill(1, 12000);
INSERT INTO v SELECT -k, k, n, m, l, t::date, t, false, 4294967295
FROM generate_series(0, 39) k, (VALUES
	(-32768, -2147483648, -9223372036854775808, '-infinity'::timestamptz),
	(32767, 2147483647, 9223372036854775807, 'infinity')) q(n, m, l, t);
CREATE INDEX v_k ON v USING gpujoin (k) INCLUDE (i2, i4, i8, d, tz, b, o, u, n, t, c);
VACUUM ANALYZE v;

-- Rows from the heap, rows from entries, aggregates, the first rows, joined
CREATE FUNCTION wrong(condition text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT query || ': ' || a::text FROM unnest(ARRAY[
		'SELECT * FROM v WHERE k IN (1, 3, 5, 39) AND (%s)',
		'SELECT k, i4, i8, d, u FROM v WHERE k IN (1, 3, 5, 39) AND (%s)',
		'SELECT i2, count(*) n, sum(i8) s FROM v WHERE k IN (1, 3, 5, 39) AND (%s) GROUP BY i2',
		'SELECT i4, k FROM v WHERE k IN (1, 3, 5, 39) AND (%s) ORDER BY i4 DESC, k LIMIT 7',
		'SELECT v.i8, s FROM generate_series(-1, 50, 3) s JOIN v ON k = s WHERE (%s)']) q(query),
		both_ways(format(query, condition)) a
	WHERE missing + surplus > 0
$$;
CREATE TABLE conditions AS SELECT * FROM unnest(ARRAY[
	-- at and beyond the column's limits, in any combination of types
	'i2 < 32767', 'i2 <= 32767', 'i2 > -32769', 'i2 >= 32768', 'i2 = 65536', 'i2 <> 65536',
	'i2 < 9223372036854775807', 'i4 < 2147483647', 'i4 <= 2147483647', 'i4 > 2147483648',
	'i4 >= -2147483648', 'i4 < -2147483648', 'i4 = 4294967296', 'i4 <> 4294967296',
	'i4 > -9223372036854775808', 'i8 > 5000000000', 'i8 >= 9223372036854775807',
	'i8 < -9223372036854775808', 'i8 <= -9223372036854775808', 'i8 = 0::int2', 'i8 <> 5::int4',
	'0 < i4', '2::int8 >= i4', 'i4 = 2::int2',
	-- dates and times
	'd < ''infinity''', 'd <= ''infinity''', 'd = ''infinity''', 'd > ''-infinity''',
	'd <= ''-infinity''', 'd <> ''2024-02-29''', 'tz < ''infinity''', 'tz >= ''infinity''',
	'tz > ''-infinity''', 'tz = ''2024-02-28 00:00:03 UTC''', 'tz > now() - interval ''1 day''',
	'd < current_date',
	-- values that the index could not store
	'n = 1.50', 'n = 1.5', 'n = 1.005', 'n = ''NaN''', 'n = 1e30', 'n <> 1.50', 'n <> 1.005', 'n < -3', 'n <= -3',
	'n > 3', 'n >= 3', 'n > 1.005', 'n < 1.005', 'n > 1e20', 'n < 1e20', 'n < ''-inf''', 'n >= ''NaN''', 'n IS NULL',
	'n IS NOT NULL', 'n > NULL', 'NOT n > 3', 'NOT (n > 3 OR i4 > 0)', 'n > 3 AND n < 7', 'n BETWEEN -2 AND 1.5',
	't = ''''', 't = ''abc''', 't = ''abcdefgh''', 't = ''longer than 8''', 't = ''longer than fifteen bytes''',
	't <> ''abc''', 't IS NULL', 't = ''abc'' AND c = ''abc''', 'c = ''abc''', 'c = ''''', 'c = ''abc ''::text',
	'c = ''abc''::text', '(t = ''abc'') IS TRUE', 'NOT t <> ''abc''', '(n > 3 AND t = ''abc'') IS NOT TRUE',
	'n > 0 AND n < 5 AND t = ''a'' AND i4 > -9 AND i2 > -9',
	-- NULL, and conditions that are the same for each row
	'i4 IS NULL', 'i4 IS NOT NULL', 'i4 > NULL', 'i4 <> NULL::int8', 'NOT i4 IS NULL AND b IS NULL',
	'i4 = ANY (NULL::int[])', 'i4 < (SELECT NULL::int)', 'i4 < (SELECT 3)',
	-- booleans
	'b', 'NOT b', 'b = true', 'b < true', 'b IS TRUE', 'b IS FALSE', 'b IS NOT TRUE',
	'(b AND i4 > 0) IS TRUE', '(i4 > 0) IS FALSE', '(i4 > 0) IS UNKNOWN', 'NOT (i4 > 0 OR b)',
	'NOT (i4 > 0 AND b)', 'NOT (i4 IS NULL OR i2 < 3)',
	-- uuids, of two words
	'u = md5(''3'')::uuid', 'u <> md5(''3'')::uuid', 'NOT u = md5(''3'')::uuid AND b',
	'u = md5(''3'')::uuid AND i4 > 0', 'u = md5(''11'')::uuid', 'u IN (md5(''3'')::uuid, md5(''4'')::uuid)',
	'u IS NULL', 'u IS NOT NULL AND u <> md5(''4'')::uuid', 'u = NULL',
	-- the key, and conditions that a device leaves to the CPU
	'k > 3', 'k BETWEEN 4 AND 38', 'k <> 39 AND k <> 2147483648', 'o > 3', 'o = 4294967295',
	'i4 IN (1, 2) AND i8 > 0', '(i4 = 1 OR i4 = 2) AND d IS NOT NULL', 'i4 NOT IN (1, 2)',
	-- more conditions than there is room for
	'i2 > -5 AND i2 < 6 AND i4 > -4 AND i4 < 5 AND i8 IS NOT NULL AND d IS NOT NULL AND
	tz IS NOT NULL AND k > 1 AND i2 <> 1 AND i4 <> 2 AND b',
	'NOT (i2 IS NULL OR i4 IS NULL OR i8 IS NULL OR d IS NULL OR tz IS NULL OR b OR k = 1
	OR k = 2 OR k = 3) AND i4 > 0']) condition;
SELECT count(*) FROM conditions;
SELECT condition, wrong(condition) FROM conditions;

-- The numbers of matching and removed rows are consistent, and do not depend on who tests
CREATE FUNCTION figures(query text, OUT matched int, OUT removed int, OUT rows int)
LANGUAGE plpgsql SET gpujoin.force = on AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query
		INTO plan;
	plan := plan -> 0 -> 'Plan';
	IF plan ->> 'Custom Plan Provider' IN ('GpuAgg', 'GpuJoin') THEN
		plan := plan -> 'Plans' -> -1;
	END IF;
	matched := plan ->> 'Matched TIDs';
	removed := plan ->> 'Rows Removed by Index Filter';
	rows := (plan ->> 'Actual Rows')::numeric;	-- 18 has decimals
END $$;
SELECT query, f.* FROM unnest(ARRAY[
	'SELECT * FROM v WHERE k IN (1, 3, 5, 39) AND ',
	'SELECT k, i4 FROM v WHERE k IN (1, 3, 5, 39) AND ',
	'SELECT sum(i8) FROM v WHERE k IN (1, 3, 5, 39) AND ',
	'SELECT v.i8 FROM generate_series(-1, 50, 3) s JOIN v ON k = s WHERE ',
	'SELECT k, i4 FROM v WHERE k IN (1, 3, 5, 39) AND i4 <> 77 AND ']) query,
	unnest(ARRAY['i4 = 3', 'i4 > NULL', 'i4 IS NOT NULL', 'i4 IN (1, 2) AND b', 'u = md5(''3'')::uuid']) c,
	figures(query || c) f;
SELECT count(*) AS conditions, sum(abs(f.rows - counted)) AS wrong_rows,
	sum(abs(f.matched - f.removed - counted)) AS wrong_sums
FROM conditions, figures('SELECT k, i4, i2 FROM v WHERE k IN (1, 3, 5, 39) AND ' || condition) f,
	LATERAL (SELECT n::int AS counted
		FROM both_ways('SELECT id FROM v WHERE k IN (1, 3, 5, 39) AND ' || condition)) q
WHERE condition !~ 'k [>B<]|SELECT|^i4 . NULL|::int8|::int\[|\m[ntc]\M';

-- Whether a device has tested depends on the machine: without costs EXPLAIN does not show it
SET gpujoin.force = on;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT k, i4 FROM v WHERE k IN (1, 3, 5, 39) AND i4 = 3 AND i2 IN (1, 2)');

-- Parameters: other values for each execution of one plan, no value, values out of range
SET plan_cache_mode = force_generic_plan;
PREPARE p(int8, date, int8) AS SELECT count(*), sum(i8), max(d) FROM v
	WHERE k = ANY ('{1,3,5,39}') AND i4 < $1 AND d >= $2 AND i2 <> $3;
PREPARE h(int8, date, int8) AS SELECT count(id), sum(i8), max(d) FROM v
	WHERE k = ANY ('{1,3,5,39}') AND i4 < $1 AND d >= $2 AND i2 <> $3;
CREATE FUNCTION executed(arguments text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	name text;
	answer record;
BEGIN
	FOREACH name IN ARRAY '{p,h}'::text[] LOOP
		EXECUTE format('EXECUTE %s(%s)', name, arguments) INTO answer;
		RETURN NEXT answer::text;
	END LOOP;
	PERFORM set_config('gpujoin.enabled', 'off', true);
	EXECUTE format('EXECUTE h(%s)', arguments) INTO answer;
	RETURN NEXT answer::text;
	PERFORM set_config('gpujoin.enabled', 'on', true);
END $$;
SELECT arguments, answer, count(*) FROM unnest(ARRAY['3, ''2024-03-01'', 2',
	'NULL, ''2024-03-01'', 2', '3, NULL, 2', '3, ''2024-03-01'', NULL',
	'5000000000, ''-infinity'', 5000000000', '-5000000000, ''-infinity'', 0', '4, ''infinity'', 0',
	'3, ''2024-03-01'', 2']) arguments,
	executed(arguments) answer
GROUP BY 1, 2 ORDER BY 1, 2;
RESET plan_cache_mode;
RESET gpujoin.force;

-- Other values for each rescan
SELECT * FROM both_ways('SELECT x, (SELECT sum(id) FROM v WHERE k IN (1, 2) AND i4 = x) AS heap,
	(SELECT sum(i8) FROM v WHERE k IN (1, 2) AND i4 < x AND b) AS entries,
	(SELECT sum(i8) FROM v WHERE k IN (x, x + 1) AND i4 < 2) AS other_keys,
	(SELECT i4 FROM v WHERE k IN (1, 2) AND i4 < x ORDER BY i4 DESC LIMIT 1) AS first_row
	FROM generate_series(-7, 7) x');

-- An error in a value is raised, and no resource is held then
SET gpujoin.force = on;
SELECT count(*) FROM v WHERE k IN (1, 2) AND i4 > 1 / (SELECT 0);
SELECT count(*) FROM v WHERE k IN (1, 2) AND i4 > 1 / (SELECT 1);
-- but only if there is a row to compare it with
SELECT count(*), count(id) FROM v WHERE k IN (-5, -6) AND i4 > 1 / (SELECT 0);
SELECT count(id) FROM (VALUES (-5, 0), (3, 1)) o(key, z),
	LATERAL (SELECT * FROM v WHERE v.k IN (o.key, o.key + 1000) AND i4 > 2 / o.z OFFSET 0) x;
CREATE FUNCTION refuse() RETURNS int STABLE LANGUAGE plpgsql AS
	$$ BEGIN RAISE 'refused'; END $$;
SELECT count(i8) FROM v WHERE k IN (-5, -6) AND i4 > (SELECT refuse() OFFSET 0);
SET plan_cache_mode = force_generic_plan;
PREPARE divided(int) AS SELECT count(*), count(id) FROM v WHERE k IN (-5, -6) AND i4 > 1 / $1;
EXECUTE divided(0);
RESET plan_cache_mode;
-- the same if a plan is older than the value of the setting that its function reads
SET filter.least = '1';
PREPARE from_setting AS SELECT count(*), count(id) FROM v
	WHERE k IN (-5, -6) AND i4 > current_setting('filter.least')::int;
PREPARE from_setting_only AS SELECT count(i8) FROM v
	WHERE k IN (-5, -6) AND i4 > current_setting('filter.least')::int;
PREPARE with_rows AS SELECT count(i8) FROM v
	WHERE k IN (1, 2) AND i4 > current_setting('filter.least')::int;
EXECUTE from_setting;
EXECUTE from_setting_only;
EXECUTE with_rows;
SET filter.least = 'none';
EXECUTE from_setting;
EXECUTE from_setting_only;
EXECUTE with_rows;
SET filter.least = '2';
EXECUTE with_rows;
-- A value that is itself computed with a device
SELECT count(*) FROM v WHERE k IN (1, 2) AND i4 > (SELECT min(i4) FROM v WHERE k = 3 AND i4 > 1);
RESET gpujoin.force;

-- A mirror that lags: missing entries are tested elsewhere, changed ones are not trusted
CREATE TABLE few AS SELECT condition FROM conditions
	WHERE condition IN ('i4 < 2147483647', 'i4 IS NULL', 'd < current_date', 'NOT b');
SET gpujoin.sync_blocks = 1000000;
SELECT count(*) FROM few;
SELECT condition, wrong(condition) FROM few;
INSERT INTO v SELECT i, 3, 1, i, NULL, '2020-01-01', now(), false, 1 FROM generate_series(1, 300) i;
SELECT condition, wrong(condition) FROM few;
UPDATE v SET i4 = NULL, b = NOT b WHERE k = 3 AND id % 2 = 0;
UPDATE v SET d = 'infinity' WHERE k = 5 AND id % 3 = 0;
DELETE FROM v WHERE k = 1 AND id % 3 = 1;
SELECT condition, wrong(condition) FROM few;
SELECT fill(20000, 26000);
SELECT condition, wrong(condition) FROM few;
RESET gpujoin.sync_blocks;
SELECT condition, wrong(condition) FROM few;
VACUUM v;
SELECT condition, wrong(condition) FROM few;

-- More than fits in memory: a few keys at a time, and the CPU
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT both_ways('SELECT * FROM v WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND i4 = 2');
SELECT both_ways('SELECT k, i4, i8 FROM v WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND i4 = 2');
SELECT both_ways('SELECT id, i4, i8 FROM v WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND i4 <> 2');
SELECT both_ways('SELECT k, i4, i8 FROM v WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND i4 <> 2');
RESET work_mem;
RESET hash_mem_multiplier;

SET client_min_messages = warning;
DROP SCHEMA filter_device CASCADE;
