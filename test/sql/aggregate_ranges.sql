--
-- GpuAgg: groups by one column whose range is found while its rows arrive, and min() beside max()
--
CREATE SCHEMA aggregate_ranges;
SET search_path = aggregate_ranges, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

-- Rows are ordered by k, 700 of each.  near: first around 100, then higher, then lower, and with a
-- NULL.  late: a value far from all others, in one of the last batches.  low, high: near the ends
-- of the type.  ends: from one end to the other.
CREATE TABLE facts (k int, near int, late int, low int8, high int8, ends int8, ends4 int4,
	ends2 int2, day date, flag bool, number oid, few int2, v int, w int8, x float4, y float8,
	f bool) WITH (autovacuum_enabled = off);
INSERT INTO facts SELECT k,
	CASE WHEN k > 20 AND n % 97 = 5 THEN NULL WHEN k < 10 THEN 100 + n % 40
		WHEN k < 20 THEN 100 + n % 3000 ELSE -n * 7 % 9000 END,
	CASE WHEN k = 28 AND n = 333 THEN -2147483648 ELSE n % 40 + 2147483600 END,
	-9223372036854775807 - 1 + n % 30 + CASE WHEN k > 15 THEN n ELSE 500 END,
	9223372036854775807 - n % 30 - CASE WHEN k > 15 THEN n ELSE 500 END,
	CASE WHEN k < 10 THEN 9223372036854775807 - n % 3 WHEN k < 20 THEN n % 5 - 2
		ELSE -9223372036854775808 + n % 3 END,
	CASE n % 5 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647 ELSE n % 4 - 2 END,
	CASE WHEN k < 3 THEN n % 10 ELSE (k * 2179 + n * 93) % 65536 - 32768 END,
	CASE n % 50 WHEN 17 THEN 'infinity'::date ELSE '2020-01-01'::date + n % 300 * (k % 4) END,
	CASE WHEN n % 3 > 0 OR k < 9 THEN n % 7 > 0 END,
	CASE WHEN k < 20 THEN n % 20 ELSE 4294967295 - n % 3 END::oid,
	CASE WHEN n % 9 > 0 THEN n % 4 END,
	CASE WHEN n % 4 > 0 AND k <> 7 THEN hashint4(n * k) END, hashint4(n) * 4294967296 + n,
	CASE n % 40 WHEN 0 THEN 'NaN' WHEN 1 THEN '-infinity' ELSE n % 10 / 3.0 - 1 END,
	CASE n % 60 WHEN 0 THEN '-0' WHEN 1 THEN '0' WHEN 2 THEN NULL ELSE n % 3 - 1 END::float8,
	n % 6 = 0
FROM generate_series(1, 30) k, generate_series(1, 700) n ORDER BY k, n;
CREATE INDEX ON facts USING gpujoin (k) INCLUDE (near, late, low, high, ends, ends4, ends2, day,
	flag, number, few, v, w, x, y, f);
VACUUM (FREEZE, ANALYZE) facts;
CREATE TABLE small AS SELECT i % 35 AS k FROM generate_series(1, 50) i;
ANALYZE small;

-- each column separately; a small row has one partner, or represents two
CREATE FUNCTION by_each(aggregates text, rows text, OUT grouped text, OUT node text, OUT n bigint,
	OUT differ bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	FOREACH grouped IN ARRAY
		'{near,late,low,high,ends,ends4,ends2,day,flag,number,few}'::text[] LOOP
		SELECT c.node, c.n, c.differ INTO node, n, differ FROM compare(
			format('SELECT %1$s, %2$s FROM %3$s GROUP BY %1$s', grouped, aggregates, rows)) c;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM by_each('count(*), sum(v)', 'facts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM by_each('count(*), count(v), min(v), max(v), max(w), min(w)',
	'facts JOIN small USING (k)');

-- min() and max() of the same rows: in any order, with filters, of all types; one with a
-- counterpart, the other without; a group without a value
PREPARE q (text[]) AS SELECT c.* FROM unnest($1) q, compare(q) c;
EXECUTE q(ARRAY[
	'SELECT few, max(v), min(v), max(v) FILTER (WHERE f), min(v) FILTER (WHERE f), min(w), sum(v)
		FROM facts JOIN small USING (k) GROUP BY few',
	'SELECT few, min(v) FILTER (WHERE f), max(v), max(w), min(few), max(few), min(day), max(day)
		FROM facts WHERE k < 25 AND k = ANY (ARRAY(SELECT k FROM small)) GROUP BY few',
	'SELECT few, min(x), max(x), max(y), min(y), min(number), max(number), min(ends), max(ends)
		FROM facts JOIN small USING (k) GROUP BY few',
	'SELECT ends, few, min(x), max(x), max(y), min(y), min(ends2), max(ends2)
		FROM facts JOIN small USING (k) GROUP BY ends, few',
	'SELECT k, min(v), max(v), min(y), max(y), max(v) FILTER (WHERE f), min(v) FILTER (WHERE f)
		FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY k',
	'SELECT near, min(v) FILTER (WHERE f), max(v) FILTER (WHERE f) FROM facts WHERE k IN (7, 8)
		GROUP BY near',
	'SELECT min(v), max(v), max(y), min(y) FROM facts JOIN small USING (k)']);

-- count(DISTINCT) with bits: a value without a bit follows new values of its batch
PREPARE d AS SELECT c.* FROM unnest(ARRAY[
	'SELECT count(DISTINCT CASE WHEN late < 0 THEN 2000000000 ELSE ends2 END), count(DISTINCT near)
		FROM facts JOIN small USING (k)',
	'SELECT count(DISTINCT CASE WHEN late < 0 THEN 9000000000000000000 ELSE ends2 END),
		count(DISTINCT low), count(DISTINCT high), count(DISTINCT ends), count(DISTINCT ends2)
		FROM facts JOIN small USING (k)']) q, compare(q) c;
EXECUTE d;

-- without memory for an array of the range, for a hash table, or for all groups
SET work_mem = '64kB';
EXECUTE d;
SELECT * FROM by_each('count(*), sum(w), max(v), min(v)', 'facts JOIN small USING (k)');
RESET work_mem;

-- the bounds of ranges also grow with rows from the heap
UPDATE facts SET near = near - 20000, ends2 = -1 - ends2 WHERE k = 25;
SELECT * FROM by_each('count(*), min(v), max(v)', 'facts JOIN small USING (k)')
	WHERE grouped IN ('near', 'ends2');

DROP SCHEMA aggregate_ranges CASCADE;
