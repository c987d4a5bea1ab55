--
-- ORDER BY the key with LIMIT, min() and max() of it: slices of the keys are searched, one by one
--
CREATE SCHEMA order_key;
SET search_path = order_key, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/top.sql

-- Compare the rows in their order with PostgreSQL's; return the order of our scan, if it is the same
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	digest text := format('SELECT concat_ws('' rows '', count(*), md5(string_agg(q::text, E''\n''))) FROM (%s) q', query);
	ours text;
	theirs text;
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE digest INTO theirs;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	EXECUTE digest INTO ours;
	RETURN CASE WHEN ours = theirs THEN coalesce(top_plan(query), 'no order') ELSE format('wrong: %s, not %s: %s', ours, theirs, query) END;
END $$;

-- Several runs, some with keys that others lack; unsorted entries; chains of updates and
-- dead rows.  Some keys have many rows, some codes far apart, some are the least and the greatest.
CREATE TABLE big (id int, k int NOT NULL, k8 int8, k2 int2, day date, at timestamptz, v int, n numeric(9, 2),
	hits int, body text) WITH (autovacuum_enabled = off, fillfactor = 80);
CREATE FUNCTION fill(low int, high int, base int, distinct_keys int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO big SELECT i, base + (hashint4(i) & 1048575) % distinct_keys, ((hashint4(i) & 1048575) % 977 - 400) * 9000000000,
		CASE WHEN i % 9 <> 0 THEN (hashint4(i) & 1048575) % 60000 - 30000 END,
		CASE i % 500 WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN NULL
			ELSE date '2020-01-01' + (hashint4(i) & 1048575) % 3000 END,
		CASE i % 400 WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN NULL
			ELSE timestamptz '2020-01-01 00:00+0' + (hashint4(i) & 1048575) * interval '1 second' END,
		i % 10, CASE WHEN i % 7 <> 0 THEN i % 1000 / 4.0 END, 0, 'body ' || i
	FROM generate_series(low, high) i
$$;
SELECT fill(1, 8000, -2000, 4000);
SELECT fill(12001, 13500, 1000000, 3);
SET gpujoin.auto_load = off;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (id, v);
CREATE INDEX big_k8 ON big USING gpujoin (k8);
CREATE INDEX big_k2 ON big USING gpujoin (k2) INCLUDE (id, n);
CREATE INDEX big_day ON big USING gpujoin (day) INCLUDE (id);
CREATE INDEX big_at ON big USING gpujoin (at);
INSERT INTO big (id, k, k8, k2) VALUES (100001, 2147483647, 9223372036854775807, 32767), (100002, -2147483648, -9223372036854775808, -32768),
	(100003, 2147483647, 9223372036854775807, 32767), (100004, 2147483646, -9223372036854775807, 32766);
CREATE FUNCTION fold() RETURNS void LANGUAGE sql AS $$
	SELECT sum(gpujoin_fold(indexrelid)) FROM pg_index WHERE indrelid = 'big'::regclass
$$;
SELECT fold();
SELECT fill(20001, 22000, 1500, 3000);
SELECT fold();
VACUUM ANALYZE big;
SELECT fill(30001, 30800, -3000, 9000);
SELECT fill(31501, 32300, 7, 1);
UPDATE big SET hits = hits + 1 WHERE id % 5 = 1;
UPDATE big SET k = k + 1 WHERE id % 50 = 7;
DELETE FROM big WHERE id % 31 = 0;
ANALYZE big;

-- Plans that are chosen by default
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k > 100 ORDER BY k LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k > 100 ORDER BY k DESC, id LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k BETWEEN 100 AND 5000 AND body <> 'x' ORDER BY k, body LIMIT 20;
EXPLAIN (COSTS OFF) SELECT k, id FROM big WHERE k <> 3 ORDER BY k, id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k IS NOT NULL ORDER BY k LIMIT 20 FOR UPDATE;
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE k2 > 5 ORDER BY k2 DESC, n LIMIT 10;
SELECT explain('COSTS OFF', 'SELECT max(k), min(k8), max(day) FROM big');
-- PostgreSQL 17 and later leave IS NOT NULL of such columns out
SELECT line FROM explain('COSTS OFF', 'SELECT min(at) FROM big WHERE at > ''2020-01-05'' AND v = 3') line
WHERE line !~ 'Index Filter: .* IS NOT NULL';
-- not for all rows, nor for an order that codes do not have, nor for another one
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k > -2000 ORDER BY k;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k > 100 ORDER BY -k LIMIT 20;
EXPLAIN (COSTS OFF) SELECT k, count(*) FROM big WHERE k > 100 GROUP BY k ORDER BY k LIMIT 3;

-- Each type, in both directions, a few rows and many, from the heap and from entries
CREATE FUNCTION all_types() RETURNS TABLE (order_by text, condition text, rows text, answer text) LANGUAGE plpgsql AS $$
DECLARE
	c text;
BEGIN
	FOR order_by, condition IN SELECT t.o || d, t.c FROM (VALUES
		('k', 'k > 100'), ('k', 'k <= 1000001'), ('k', 'k >= -2147483648'), ('k', 'k < 2147483647'), ('k', 'k <> 7'),
		('k', 'k NOT IN (7, 8, -2000, 1000001)'), ('k', 'k IS NOT NULL'), ('k', 'k BETWEEN -5 AND 5 OR k > 999999'),
		('k', 'k = 7 OR k BETWEEN 1000 AND 1100 OR k = 2147483647'), ('k', 'k > 5 AND k < 5'), ('k', 'k BETWEEN 3000 AND 999999'),
		('k8', 'k8 > 0'), ('k8', 'k8 < 9223372036854775807'), ('k8', 'k8 > 9223372036854775806'), ('k8', 'k8 IS NOT NULL'),
		('k2', 'k2 > -32768'), ('k2', 'k2 < 40000'), ('k2', 'k2 IS NOT NULL'), ('day', 'day > ''2021-01-01'''),
		('day', 'day < ''2021-01-01'''), ('day', 'day IS NOT NULL'), ('at', 'at >= ''2020-01-07'''), ('at', 'at <= ''infinity'''))
		t (o, c), unnest('{"", " DESC"}'::text[]) d
	LOOP
		FOREACH c IN ARRAY '{1,300 OFFSET 40,(SELECT 1000000)}'::text[] LOOP
			rows := c;
			answer := same(format('SELECT * FROM big WHERE %s ORDER BY %s, id LIMIT %s', condition, order_by, c));
			RETURN NEXT;
			answer := same(format('SELECT id, %s FROM big WHERE %s ORDER BY %s, id DESC LIMIT %s', split_part(order_by, ' ', 1), condition, order_by, c));
			RETURN NEXT;
			answer := same(format('SELECT * FROM big WHERE %s AND v IN (3, 4) AND hits = 0 ORDER BY %s NULLS %s, id LIMIT %s',
				condition, order_by, CASE WHEN order_by LIKE '% DESC' THEN 'FIRST' ELSE 'LAST' END, c));
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
CREATE TABLE answers AS SELECT * FROM all_types();
SELECT count(*), count(*) FILTER (WHERE answer LIKE '%no order%') AS unordered FROM answers;
SELECT answer, count(*) FROM answers GROUP BY answer ORDER BY answer COLLATE "C";
-- the same with little memory, when all pages are visible and sorted
VACUUM ANALYZE big;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT count(*), count(DISTINCT answer) FROM all_types() WHERE answer NOT LIKE '%wrong%';
RESET work_mem;
RESET hash_mem_multiplier;

-- The least and the greatest keys
CREATE FUNCTION ends(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT min(k), max(k), min(k8), max(k8), min(k2), max(k2), min(day), max(day), min(at), max(at) FROM big WHERE %s', condition);
	ours text;
	theirs text;
BEGIN
	SET LOCAL gpujoin.enabled = off;
	theirs := top_rows(query);
	SET LOCAL gpujoin.enabled = on;
	ours := top_rows(query);
	RETURN CASE WHEN ours = theirs THEN 'same: ' ELSE 'DIFFERENT: ' || theirs END || ours;
END $$;
SELECT ends('true');
SELECT ends('id < 100000');
SELECT ends('id < 100000 AND hits = 1');
SELECT ends('k > 1000000 AND k8 < 0');
SELECT ends('id = 12345678');
DELETE FROM big WHERE id > 100000;
SELECT ends('true');
SELECT regexp_replace(line, 'SubPlan \w+', 'SubPlan') AS line FROM explain('COSTS OFF',
	'SELECT (SELECT max(k) FROM big WHERE k < x) FROM generate_series(0, 5000, 500) x') line
WHERE line !~ 'Index Filter: .* IS NOT NULL';
SELECT x, (SELECT max(k) FROM big WHERE k < x), (SELECT min(k) FROM big WHERE k > x) FROM generate_series(-4000, 5000, 1500) x;

-- Pages after a key, by a generic plan
PREPARE page(int, int) AS SELECT k, id, body FROM big WHERE k > $1 ORDER BY k, id LIMIT $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE page(5, 3);
EXECUTE page(5, 3);
EXECUTE page(1000001, 3);
EXECUTE page(NULL, 3);
EXECUTE page(2147483647, 3);
-- all rows, also those with a NULL key, as it turns out
PREPARE others(int8[]) AS SELECT k8, id FROM big WHERE k8 <> ALL ($1) ORDER BY k8 NULLS FIRST, id LIMIT 4;
PREPARE others_last(int8[]) AS SELECT k8, id FROM big WHERE k8 <> ALL ($1) ORDER BY k8 DESC NULLS LAST, id LIMIT 4;
UPDATE big SET k8 = NULL WHERE id % 2000 = 1;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) EXECUTE others('{}');
EXECUTE others('{}');
EXECUTE others('{5}');
EXECUTE others('{5,NULL}');
EXECUTE others_last('{}');
EXECUTE others_last('{5184000000000}');
RESET gpujoin.force;
RESET plan_cache_mode;

-- Rescans, with the same keys and with others
SELECT same('SELECT x, s.* FROM generate_series(-2500, 5000, 700) x, LATERAL (SELECT k, id FROM big WHERE k > x ORDER BY k, id LIMIT 3) s');
SELECT same('SELECT x, s.* FROM generate_series(-2500, 5000, 700) x, LATERAL (SELECT k, id FROM big WHERE k < x ORDER BY k DESC, id LIMIT 200) s');
SELECT same('SELECT x, s.* FROM generate_series(1, 4) x, LATERAL (SELECT k, id FROM big WHERE k > 5 AND v > x ORDER BY k, id LIMIT x * 100) s');
SELECT same('SELECT x, s.* FROM generate_series(1, 4) x, LATERAL (SELECT k, id FROM big WHERE k > 5 ORDER BY k, id OFFSET x LIMIT 1) s');

-- A join above requests as many rows as it needs; locked rows
CREATE TABLE few AS SELECT i AS id, 'few ' || i AS name FROM generate_series(1, 33000, 50) i;
ALTER TABLE few ADD PRIMARY KEY (id);
ANALYZE few;
SELECT same('SELECT b.k, b.id, name FROM big b JOIN few USING (id) WHERE b.k > 0 ORDER BY b.k, b.id LIMIT 20');
SELECT same('SELECT k, id FROM big WHERE k > 4000 ORDER BY k, id LIMIT 5 FOR UPDATE');

-- Cursors
BEGIN;
DECLARE c CURSOR FOR SELECT k, id FROM big WHERE k >= 1000000 ORDER BY k DESC, id;
FETCH 2 FROM c;
MOVE 400 FROM c;
INSERT INTO big (id, k) VALUES (200001, 1000000), (200002, 1000001), (200003, 1000002);
DELETE FROM big WHERE k BETWEEN 1000000 AND 1000002 AND id % 3 = 0;
SELECT fold();
FETCH 2 FROM c;
MOVE FORWARD ALL FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;

-- Partitions
CREATE TABLE part (id int, k int NOT NULL, day date NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (MINVALUE) TO ('2021-01-01');
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2021-01-01') TO ('2024-01-01');
CREATE TABLE part_3 PARTITION OF part DEFAULT;
INSERT INTO part SELECT id, k, day FROM big WHERE day IS NOT NULL;
CREATE INDEX ON part USING gpujoin (k);
CREATE INDEX ON part USING gpujoin (day) INCLUDE (id);
VACUUM ANALYZE part;
EXPLAIN (COSTS OFF) SELECT * FROM part WHERE k > 100 ORDER BY k LIMIT 5;
SELECT same('SELECT * FROM part WHERE k > 100 ORDER BY k, id LIMIT 50');
SELECT same('SELECT * FROM part WHERE k < 100 ORDER BY k DESC, id LIMIT 500');
SELECT same('SELECT * FROM part WHERE day > ''2020-12-01'' ORDER BY day, id LIMIT 700');
SELECT same('SELECT * FROM part WHERE day < ''2023-12-01'' ORDER BY day DESC, id LIMIT 5');
SELECT max(day), min(k) FROM part;

-- Counters: one slice is enough; and a filter that no early row passes
CREATE TABLE counted AS SELECT i AS id, i / 10 AS k FROM generate_series(1, 100000) i;
CREATE INDEX counted_k ON counted USING gpujoin (k);
VACUUM ANALYZE counted;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT * FROM counted WHERE k > 500 ORDER BY k LIMIT 20');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT max(k) FROM counted');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT * FROM counted WHERE k > 500 AND id % 50000 = 49999 ORDER BY k LIMIT 1');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT * FROM counted WHERE k BETWEEN 500 AND 9900 ORDER BY k DESC LIMIT 20 OFFSET 2000');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT min(k) FROM counted');

-- The first and the last keys are deleted, and others come that are not sorted
DELETE FROM counted WHERE k < 3 OR k > 9990;
SELECT min(k), max(k) FROM counted;
INSERT INTO counted VALUES (1, 2), (2, 9991);
SELECT min(k), max(k) FROM counted;
SELECT same('SELECT k FROM counted WHERE k IS NOT NULL ORDER BY k LIMIT 1');
SELECT same('SELECT k FROM counted WHERE k IS NOT NULL ORDER BY k DESC LIMIT 100');

-- A range that seems to be a small part of the run, but has nearly all of its pages
CREATE TABLE skewed AS
	SELECT CASE i WHEN 0 THEN -2000000000 WHEN 1 THEN 2000000000 ELSE i / 2 END AS k, i AS id FROM generate_series(0, 60000) i;
CREATE INDEX skewed_k ON skewed USING gpujoin (k) INCLUDE (id);
VACUUM ANALYZE skewed;
SELECT same('SELECT id FROM skewed WHERE k BETWEEN 10 AND 29990 ORDER BY k, id LIMIT 50000');
SELECT same('SELECT count(*), sum(id) FROM skewed WHERE k BETWEEN 10 AND 29990');
SELECT same('SELECT count(*), sum(id) FROM skewed WHERE k BETWEEN 10 AND 29990 OR k > 1000000');

DROP SCHEMA order_key CASCADE;
