--
-- GpuAgg: only GROUP BY makes groups.  Columns that stand outside of aggregates in a form that
-- GROUP BY does not have, because planning has changed it, have the values of one row of the group.
-- Each query is answered by default, under gpujoin.force and by PostgreSQL alone.
--
CREATE SCHEMA group_keys;
SET search_path = group_keys, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE big (id int PRIMARY KEY, key int, a int, b bigint, x float8, u uuid)
	WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 50, CASE WHEN i % 11 > 0 THEN i % 11 END, i % 7, i % 9 / 4.0,
	md5((i % 5)::text)::uuid FROM generate_series(1, 30000) i;
CREATE INDEX big_key ON big USING gpujoin (key) INCLUDE (id, a, b, x, u);
CREATE TABLE small AS SELECT i AS k, i % 3 AS w, 'name ' || i % 2 AS name FROM generate_series(1, 8) i;
ALTER TABLE small ADD PRIMARY KEY (k);
CREATE TABLE forms AS SELECT k, (1.5 || repeat('0', k))::numeric AS n, 'b' || repeat(' ', k) AS t,
	('b' || repeat(' ', k))::bpchar AS c, make_interval(days => k % 2, hours => 24 - k % 2 * 24) AS i
	FROM small;
ALTER TABLE forms ADD PRIMARY KEY (k);
VACUUM ANALYZE big, small;

CREATE FUNCTION slow_next(i int) RETURNS int IMMUTABLE COST 10000 LANGUAGE plpgsql AS
	$$BEGIN RETURN i + 1; END$$;
CREATE FUNCTION later(i int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$BEGIN RETURN i + 1; END$$;
CREATE FUNCTION inlined(i int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT i % 3';
CREATE FUNCTION not_inlined(i bool) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT NOT i';
CREATE VIEW v AS SELECT key, id, a, a > 3 AS large, key % 3 AS z, COALESCE(a, 0) AS c FROM big;

-- the rows of a query in each of the three ways, as sorted text
CREATE FUNCTION rows_of(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text[] := '{}';
BEGIN
	FOR r IN EXECUTE query LOOP result := result || r::text; END LOOP;
	RETURN ARRAY(SELECT line FROM unnest(result) line ORDER BY line COLLATE "C");
END $$;
CREATE FUNCTION answer(query text, OUT node text, OUT nrows int, OUT verdict text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	forced text[];
	chosen text[];
	stock text[];
BEGIN
	chosen := rows_of(query);
	SET LOCAL gpujoin.force = on;
	node := 'PostgreSQL';
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		IF line ~ 'Custom Scan \((Partial )?GpuAgg\)' THEN node := 'GpuAgg'; END IF;
	END LOOP;
	forced := rows_of(query);
	SET LOCAL gpujoin.force = off;
	SET LOCAL gpujoin.enabled = off;
	stock := rows_of(query);
	SET LOCAL gpujoin.enabled = on;
	nrows := cardinality(stock);
	verdict := CASE WHEN chosen = stock AND forced = stock THEN 'same'
		ELSE format('DIFFERENT: %s by default, %s forced', cardinality(chosen), cardinality(forced)) END;
END $$;

CREATE TABLE queries (i serial, of text, q text);
-- negations, and what else constant folding changes
INSERT INTO queries (of, q) VALUES
	('folded', 'SELECT NOT (a > 3), count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY (a > 3)'),
	('folded', 'SELECT count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY (a > 3) HAVING NOT (a > 3)'),
	('folded', 'SELECT count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY (a > 3) ORDER BY NOT (a > 3)'),
	('folded', 'SELECT a > 3, count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY a > 3
		HAVING NOT (a > 3) OR count(*) > 1 ORDER BY NOT (a > 3)'),
	('folded', 'SELECT NOT (a IN (1, 2)), count(*) FROM big WHERE key IN (1, 2) GROUP BY a IN (1, 2)'),
	('folded', 'SELECT NOT (a IS NULL), count(*) FROM big WHERE key IN (1, 2) GROUP BY a IS NULL'),
	('folded', 'SELECT (a > 3) = false, count(*) FROM big WHERE key IN (1, 2) GROUP BY a > 3'),
	('folded', 'SELECT (a > 3) <> true, count(*) FROM big WHERE key IN (1, 2) GROUP BY a > 3'),
	('folded', 'SELECT NOT (a BETWEEN 2 AND 5), sum(b) FROM big WHERE key IN (1, 2)
		GROUP BY a BETWEEN 2 AND 5'),
	('folded', 'SELECT NOT (ROW(a, id) = ROW(1, 1)), count(*) FROM big WHERE key IN (1, 2)
		GROUP BY ROW(a, id) = ROW(1, 1)'),
	('folded', 'SELECT NOT (ROW(a, id) < ROW(5, 1)), count(*) FROM big WHERE key IN (1, 2)
		GROUP BY ROW(a, id) < ROW(5, 1)'),
	('folded', 'SELECT CASE WHEN NOT (a > 1) THEN 7 ELSE 8 END, count(*) FROM big WHERE key IN (1, 2)
		GROUP BY a > 1'),
	('folded', 'SELECT CASE WHEN true THEN NOT (a > 1) END, count(*) FROM big WHERE key IN (1, 2)
		GROUP BY a > 1'),
	('folded', 'SELECT NOT (a IS DISTINCT FROM 3), count(*) FROM big WHERE key IN (1, 2)
		GROUP BY a IS DISTINCT FROM 3'),
	('folded', 'SELECT NOT (a > b), count(*) FROM big WHERE key IN (1, 2) GROUP BY a > b'),
	('folded', 'SELECT NOT (COALESCE(a, 0) + b > 4), count(*) FROM big WHERE key = 20 AND id >= 220
		GROUP BY COALESCE(a, 0) + b > 4'),
	('folded', 'SELECT NOT (x > 1), count(*), sum(x) FROM big WHERE key IN (1, 2) GROUP BY x > 1'),
	('folded', 'SELECT not_inlined(a > 3), count(*) FROM big WHERE key IN (1, 2) GROUP BY a > 3'),
	('folded', 'SELECT inlined(a) + 1, count(*) FROM big WHERE key IN (1, 2) GROUP BY inlined(a)'),
	('folded', 'SELECT NOT (inlined(a) > 1), count(*) FROM big WHERE key IN (1, 2)
		GROUP BY inlined(a) > 1'),
	('folded', 'SELECT NOT (a > 3), a > 3, count(*) FROM big WHERE key IN (1, 2) GROUP BY a > 3'),
	('folded', 'SELECT NOT (a > 3), NOT (b > 3), count(*) FROM big WHERE key IN (1, 2)
		GROUP BY a > 3, b > 3'),
	('folded', 'SELECT NOT (a > 3), b, count(*) FROM big WHERE key IN (1, 2) GROUP BY a > 3, b'),
	('folded', 'SELECT DISTINCT NOT (a > 3) FROM big WHERE key IN (1, 2)'),
	('folded', 'SELECT DISTINCT NOT (a > 3), a > 3 FROM big WHERE key IN (1, 2)'),
	('folded', 'SELECT DISTINCT NOT (a > 3) AS n FROM big WHERE key IN (1, 2) GROUP BY a > 3'),
	('folded', 'SELECT NOT large, count(*) FROM v WHERE key IN (1, 2) GROUP BY large'),
	('folded', 'SELECT n, sum(c) FROM (SELECT NOT (a > 3) AS n, count(*) AS c FROM big
		WHERE key IN (1, 2) GROUP BY a > 3) q GROUP BY n'),
-- several negations of one group column, and grouped columns in them
	('folded', 'SELECT NOT (a > 3), count(*) FROM small JOIN big ON key = k GROUP BY a > 3'),
	('folded', 'SELECT NOT (a > 3), NOT (w > 1), count(*) FROM small JOIN big ON key = k
		GROUP BY a > 3, w > 1'),
	('folded', 'SELECT NOT (a > 3), count(*) FROM small LEFT JOIN big ON key = k AND b > 2 GROUP BY a > 3'),
	('folded', 'SELECT NOT (a > w), count(*) FROM small LEFT JOIN big ON key = k GROUP BY a > w'),
	('folded', 'SELECT NOT large, count(*) FROM small LEFT JOIN v ON key = k AND id > 4 GROUP BY large'),
	('folded', 'SELECT NOT (c > 3), count(*) FROM small LEFT JOIN v ON key = k AND id > 4 GROUP BY c > 3'),
	('folded', 'SELECT NOT (a > 3), count(*) FROM big WHERE key IN (SELECT k FROM small WHERE w = 1)
		GROUP BY a > 3'),
	('folded', 'SELECT NOT (u > ''80000000-0000-0000-0000-000000000000''), count(*) FROM big WHERE key IN (1, 2)
		GROUP BY u > ''80000000-0000-0000-0000-000000000000'''),
-- outputs of subqueries that are pulled up
	('subquery', 'SELECT z, count(*), (SELECT max(k) FROM small WHERE k = q.z) FROM (SELECT key % 3 AS z
		FROM big WHERE key IN (1, 2, 3, 4)) q GROUP BY z'),
	('subquery', 'SELECT z, count(*) FROM (SELECT key % 3 AS z FROM big WHERE key IN (1, 2, 3, 4)) q
		GROUP BY z HAVING EXISTS (SELECT FROM small WHERE k > q.z + 6)'),
	('subquery', 'SELECT z, count(*), (SELECT max(k) FROM small WHERE k = v.z) FROM v
		WHERE key IN (1, 2, 3, 4) GROUP BY z'),
	('subquery', 'SELECT z OR o, count(*) FROM (SELECT a > 0 OR id > 0 AS z, a > 7 AS o FROM big
		WHERE key IN (1, 2)) q GROUP BY z, o'),
	('subquery', 'SELECT z AND o, count(*) FROM (SELECT a > 0 AND id > 9 AS z, a > 7 AS o FROM big
		WHERE key IN (1, 2)) q GROUP BY z, o'),
	('subquery', 'SELECT NOT z, count(*) FROM (SELECT a > 3 OR b > 2 AS z FROM big WHERE key IN (1, 2)) q
		GROUP BY z'),
	('subquery', 'SELECT COALESCE((SELECT max(k) FROM small), a) + 1, count(*) FROM big
		WHERE key IN (1, 2) GROUP BY COALESCE((SELECT max(k) FROM small), a)'),
	('subquery', 'SELECT a + (SELECT max(k) FROM small) + 1, count(*) FROM big
		WHERE key IN (1, 2) GROUP BY a + (SELECT max(k) FROM small)'),
	('subquery', 'SELECT (SELECT sum(n) FROM (SELECT COALESCE(max(k), a) + 1, count(*) AS n FROM big
		WHERE key IN (1, 2) GROUP BY COALESCE(max(k), a)) q (n1, n)) FROM small'),
	('subquery', 'SELECT w, (SELECT max(n) FROM (SELECT NOT (a > w), count(*) AS n FROM big
		WHERE key IN (1, 2) GROUP BY a > w) q) FROM small'),
	('subquery', 'SELECT w, q.* FROM small, LATERAL (SELECT NOT (a > w) AS n, count(*) FROM big
		WHERE key = k GROUP BY a > w) q'),
-- window functions above groups, and targets that are computed after sorting
	('window', 'SELECT (a % 3) + 1, count(*), sum(count(*)) OVER () FROM big WHERE key IN (1, 2, 3)
		GROUP BY a % 3'),
	('window', 'SELECT a % 3, count(*), sum(count(*)) OVER () FROM big WHERE key IN (1, 2, 3)
		GROUP BY a % 3'),
	('window', 'SELECT (a % 3) + 1, count(*), rank() OVER (ORDER BY count(*)) FROM big
		WHERE key IN (1, 2, 3) GROUP BY a % 3 ORDER BY 2'),
	('window', 'SELECT (a % 3) + 1, b, count(*), sum(count(*)) OVER (PARTITION BY b) FROM big
		WHERE key IN (1, 2, 3) GROUP BY a % 3, b'),
	('window', 'SELECT NOT (a > 3), sum(count(*)) OVER (ORDER BY NOT (a > 3)) FROM big
		WHERE key IN (1, 2, 3) GROUP BY a > 3'),
	('window', 'SELECT (a % 3) + 1 AS p, sum(sum(b)) OVER (PARTITION BY (a % 3) + 1) FROM big
		WHERE key IN (1, 2, 3) GROUP BY a % 3'),
	('window', 'SELECT name, w + 1, count(*), sum(count(*)) OVER (PARTITION BY w) FROM small
		JOIN big ON key = k GROUP BY name, w'),
	('window', 'SELECT DISTINCT (a % 3) + 1, sum(count(*)) OVER () FROM big WHERE key IN (1, 2, 3)
		GROUP BY a % 3'),
	('window', 'SELECT k, name, count(*), sum(count(*)) OVER (PARTITION BY name) FROM small
		JOIN big ON key = k GROUP BY k'),
	('window', 'SELECT slow_next(a % 3), count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY a % 3
		ORDER BY 2 LIMIT 5'),
	('window', 'SELECT later(a % 3), count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY a % 3
		ORDER BY 2 LIMIT 5'),
	('window', 'SELECT later(a), count(*) FROM big WHERE key IN (1, 2, 3) GROUP BY a
		ORDER BY 2, a LIMIT 5'),
-- columns that depend on a key that is grouped by
	('dependent', 'SELECT id, a, b, x, u, count(*) FROM big WHERE key IN (1, 2) GROUP BY id'),
	('dependent', 'SELECT id, NOT (a > 3), count(*) FROM big WHERE key IN (1, 2) GROUP BY id, a > 3'),
	('dependent', 'SELECT k, name, w, count(*) FROM small JOIN big ON key = k GROUP BY k'),
	('dependent', 'SELECT k, name, w, NOT (a > 1), count(*) FROM small JOIN big ON key = k
		GROUP BY k, a > 1'),
	('dependent', 'SELECT big.id, x, NOT (w > 1), count(*) FROM small JOIN big ON key = k
		GROUP BY big.id, w > 1'),
	('dependent', 'SELECT k, name, count(*) FROM small LEFT JOIN big ON key = k AND a > 3 GROUP BY k'),
	('dependent', 'SELECT k, upper(name), count(*), sum(count(*)) OVER () FROM small
		JOIN big ON key = k GROUP BY k HAVING name > ''name 0'''),
-- values that are equal and not the same: each group shows one of its own
	('own', 'SELECT n, k, count(*) FROM forms JOIN big ON key = k GROUP BY n, k'),
	('own', 'SELECT n, abs(k), count(*) FROM forms JOIN big ON key = k GROUP BY n, abs(k)'),
	('own', 'SELECT c || ''.'', k, count(*) FROM forms JOIN big ON key = k GROUP BY c, k'),
	('own', 'SELECT i, k, count(*) FROM forms JOIN big ON key = k GROUP BY i, k'),
	('own', 'SELECT DISTINCT n, i, k FROM forms JOIN big ON key = k'),
	('own', 'SELECT k, n, c || ''.'', t || ''.'', i, count(*) FROM forms JOIN big ON key = k GROUP BY k'),
	('own', 'SELECT k, n, NOT (a > 3), count(*) FROM forms JOIN big ON key = k GROUP BY k, a > 3'),
	('own', 'SELECT n = 1.5, count(*) FROM forms JOIN big ON key = k GROUP BY n'),
-- a group column that is a constant is one: no rows make no group
	('constant', 'SELECT count(*) FROM big WHERE key IN (1, 2) AND a = 1 GROUP BY a'),
	('constant', 'SELECT count(*) FROM big WHERE key IN (1, 2) AND a = 100 GROUP BY a'),
	('constant', 'SELECT a + 1, count(*) FROM big WHERE key IN (1, 2) AND a = 100 GROUP BY a'),
	('constant', 'SELECT count(*) FROM big WHERE key IN (1, 2) AND a % 3 = 1 GROUP BY a % 3'),
	('constant', 'SELECT (a % 3) + 1, count(*) FROM big WHERE key IN (1, 2) AND a % 3 = 7 GROUP BY a % 3'),
	('constant', 'SELECT NOT (a > 3), count(*) FROM big WHERE key IN (1, 2) AND (a > 3) GROUP BY a > 3'),
	('constant', 'SELECT key, count(*) FROM big WHERE key = 1 GROUP BY key'),
	('constant', 'SELECT key, count(*) FROM big WHERE key = -1 GROUP BY key'),
	('constant', 'SELECT 7 AS c, count(*) FROM big WHERE key IN (-1, -2) GROUP BY 1'),
	('constant', 'SELECT count(*) FROM big WHERE key IN (-1, -2)');

CREATE FUNCTION report() RETURNS TABLE (of text, queries bigint, failed text) LANGUAGE sql AS $$
	SELECT of, count(*), string_agg(q || ': ' || verdict, '; ' ORDER BY i) FILTER (WHERE verdict <> 'same')
	FROM queries, answer(q) GROUP BY 1 ORDER BY min(i)
$$;
SELECT * FROM report();
-- groups in passes
SET work_mem = '64kB';
SELECT * FROM report();
RESET work_mem;
-- partial groups
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT * FROM report();
RESET max_parallel_workers_per_gather;
DROP SCHEMA group_keys CASCADE;
