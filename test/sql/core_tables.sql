--
-- Tables like those of PostgreSQL's own regression tests (tenk1, onek, num_data), with INCLUDE columns
-- of all kinds: their queries, with the rows compared
--
CREATE SCHEMA core_tables;
SET search_path = core_tables, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/entries.sql
\i :abs_srcdir/sql/common/top.sql

-- The name of a number, in letters
CREATE FUNCTION letters(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT chr(65 + n % 26) || chr(65 + n / 26 % 26) || chr(65 + n / 676 % 26) || 'xxx'
$$;
CREATE TABLE tenk (unique1 int, unique2 int, two int, four int, ten int, twenty int, hundred int, thousand int,
	fivethous int, odd int, even int, stringu1 varchar, stringu2 char(64), string4 char(8), amount numeric(10,2), share numeric, id uuid)
	WITH (autovacuum_enabled = off);
INSERT INTO tenk SELECT u, i, u % 2, u % 4, u % 10, u % 20, u % 100, u % 1000, u % 5000, 2 * (u % 100) + 1, 2 * (u % 100),
	letters(u), letters(i), (ARRAY['AAAAxx', 'HHHHxx', 'OOOOxx', 'VVVVxx'])[1 + i % 4], u / 7.0, u / 16.0, md5(u::text)::uuid
FROM generate_series(0, 9999) i, LATERAL (SELECT i * 7919 % 10000 AS u) n;
CREATE INDEX tenk_hundred ON tenk USING gpujoin (hundred) INCLUDE (unique1, two, four, ten, twenty, stringu1, stringu2, string4, amount, share, id);
CREATE INDEX tenk_unique2 ON tenk USING gpujoin (unique2) INCLUDE (unique1, stringu1, amount);
CREATE TABLE onek AS SELECT * FROM tenk WHERE unique1 < 1000;
VACUUM ANALYZE tenk, onek;
SELECT included FROM gpujoin_index_info('tenk_hundred');

SELECT compare_entries(q) AS result, q FROM unnest(ARRAY[
	'SELECT unique1, stringu1, stringu2, string4, amount, share, id FROM tenk WHERE hundred IN (1, 5, 50, 99, 100)',
	'SELECT sum(four), avg(amount), sum(amount), min(amount), max(amount) FROM tenk WHERE hundred < 10 AND hundred IN (1, 2, 3)',
	'SELECT string4, count(*), sum(amount) FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 60))) GROUP BY string4',
	'SELECT ten, sum(DISTINCT four), count(DISTINCT stringu1), avg(share) FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 60))) GROUP BY ten',
	'SELECT stringu1, string4 FROM tenk WHERE hundred IN (7, 8) AND string4 = ''VVVVxx'' AND stringu1 <> ''HAAxxx''',
	'SELECT count(*) FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 99))) AND stringu2 = ''ATAxxx''',
	'SELECT count(*) FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 99))) AND stringu2 = ''ATAxxx''::text',
	'SELECT count(*) FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 99))) AND string4 IN (''AAAAxx'', ''OOOOxx'') AND amount > 700',
	'SELECT DISTINCT string4, two FROM tenk WHERE hundred IN (1, 2, 3, 4)',
	'SELECT t.unique1, t.amount, o.stringu1 FROM onek o JOIN tenk t ON t.unique2 = o.unique1 WHERE t.amount BETWEEN 10 AND 900',
	'SELECT o.string4, sum(t.amount), count(t.stringu1) FROM onek o JOIN tenk t ON t.unique2 = o.unique2 GROUP BY o.string4',
	'SELECT t.unique1 FROM onek o LEFT JOIN tenk t ON t.unique2 = o.thousand AND t.stringu1 = o.stringu1',
	'SELECT o.ten FROM onek o WHERE NOT EXISTS (SELECT FROM tenk t WHERE t.hundred = o.unique1 AND t.amount > 1400 AND t.string4 = o.string4)',
	'SELECT sum(amount) OVER (PARTITION BY four ORDER BY unique1), unique1 FROM tenk WHERE hundred IN (3, 4)']) q;
SELECT top_same(q) FROM unnest(ARRAY[
	'SELECT unique1, amount FROM tenk WHERE hundred IN (1, 2, 3, 4) ORDER BY amount DESC, unique1 LIMIT 20',
	'SELECT * FROM tenk WHERE hundred IN (1, 2, 3, 4) ORDER BY id LIMIT 20 OFFSET 10',
	'SELECT share, id FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 60))) ORDER BY share DESC, id LIMIT 100',
	'SELECT string4, share FROM tenk WHERE hundred = ANY (ARRAY(SELECT generate_series(0, 60))) ORDER BY ten, share, unique1 LIMIT 100']) q;

-- Numerics of many forms: sums, differences, products and quotients of a few, under several types
CREATE TABLE num (id int, k int, val numeric, val10 numeric(30,10), val2 numeric(22,2), whole numeric(12,0), big numeric(65,30)) WITH (autovacuum_enabled = off);
INSERT INTO num SELECT row_number() OVER (), (row_number() OVER ()) % 9, v, round(v, 10)::numeric(30,10), CASE WHEN v NOT IN ('inf', '-inf') THEN round(v, 2) END,
	CASE WHEN abs(v) < 1e11 THEN round(v) END, CASE WHEN abs(v) < 1e34 THEN v END
FROM (SELECT unnest(ARRAY[a.v, a.v + b.v, a.v - b.v, a.v * b.v, CASE WHEN b.v <> 0 THEN a.v / b.v END, abs(a.v), round(a.v * b.v, 3)]) AS v
	FROM (VALUES (0.0), (-34338492.2153), (4.31), (7799461.4119), (16397.03849), (93901.57763026), (-83028485), (74881), (0.000000000000001), ('NaN'), (12345678901234567890123)) a(v),
		(VALUES (0.0), (-34338492.2153), (4.31), (16397.03849), (-83028485), (1e-20), (99999999999999.99)) b(v)) s
WHERE v NOT IN ('inf', '-inf') AND (v = 'NaN' OR abs(v) < 1e19) OR v IS NULL;
INSERT INTO num SELECT 10000 + n, n % 9, v, NULL, NULL, NULL, v FROM (VALUES ('inf'::numeric), ('-inf'), ('NaN')) s(v), generate_series(1, 9) n WHERE v = 'NaN';
INSERT INTO num SELECT 20000 + n, n % 9, v FROM (VALUES ('inf'::numeric), ('-inf'), ('NaN')) s(v), generate_series(1, 9) n;
CREATE INDEX num_k ON num USING gpujoin (k) INCLUDE (id, val, val10, val2, whole, big);
VACUUM ANALYZE num;
SELECT included FROM gpujoin_index_info('num_k');
SELECT compare_entries('SELECT id, val, val10, val2, whole, big, scale(val), scale(big) FROM num WHERE k IN (0, 1, 2, 3, 4, 5, 6, 7, 8)');
SELECT compare_entries(format('SELECT count(%1$s), sum(%1$s), avg(%1$s), min(%1$s), max(%1$s), count(DISTINCT %1$s) FROM num WHERE k IN (0, 1, 2, 3, 4) AND %1$s <> ''NaN''', c)) AS result, c
FROM unnest('{val,val10,val2,whole,big}'::text[]) c;
SELECT count(*) AS comparisons, count(*) FILTER (WHERE r !~ 'GpuScan, entries: .* same') AS wrong
FROM unnest('{val,val10,val2,whole,big}'::text[]) c, unnest('{<,<=,=,<>,>=,>}'::text[]) o,
	unnest('{0,0.0000000000,-34338492.2153,-34338492.22,-34338492,4.31,4.3100,NaN,1e30,-1e30,0.001,-0.001,inf,-inf,99999999999999.99}'::text[]) v,
	compare_entries(format('SELECT id, %1$s FROM num WHERE k IN (0, 2, 4, 6, 8) AND %1$s %2$s %3$L', c, o, v)) r;
SELECT count(*) AS orders, count(*) FILTER (WHERE top_same(format('SELECT id, %1$s FROM num WHERE k IN (0, 2, 4, 6, 8) ORDER BY %1$s %2$s, id LIMIT 90', c, o)) ~ 'wrong|no order') AS wrong
FROM unnest('{val,val10,val2,whole,big}'::text[]) c, unnest('{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}'::text[]) o;

SET client_min_messages = warning;
DROP SCHEMA core_tables CASCADE;
