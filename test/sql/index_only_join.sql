-- Index-only answers on a join's big side: chunks and pieces of the match, and all ways in which an
-- entry becomes part of a joined row.
SET max_parallel_workers_per_gather = 0;	-- they might prefer the heap
CREATE TABLE ioj (id int, k int, v int8, f bool, w int) WITH (autovacuum_enabled = off);
INSERT INTO ioj SELECT i, i % 40000 * 16, CASE WHEN i % 7 <> 0 THEN i END, i % 3 = 0,
	CASE WHEN i % 60000 < 50000 OR i % 2 = 0 THEN i END	-- NULLs in some pieces of a match, in parts of them
FROM generate_series(1, 200000) i;
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
CREATE INDEX ioj_k ON ioj USING gpujoin (k) INCLUDE (id, v, f, w);
RESET gpujoin.auto_load;
VACUUM ANALYZE ioj;

CREATE FUNCTION ioj_plan(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	SET LOCAL gpujoin.force = on;
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json, TIMING off) ' || query INTO plan;
	RETURN plan->0;
END $$;
-- whether both answers are the same, and the number of heap fetches of ours  (-1: not index-only)
CREATE FUNCTION ioj_same(query text, OUT same boolean, OUT rows bigint, OUT heap_fetches bigint)
LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	ours text[];
	theirs text[];
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO theirs;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO ours;
	plan := ioj_plan(query);
	WITH RECURSIVE n AS (
		SELECT plan->'Plan' AS j
		UNION ALL SELECT json_array_elements(n.j->'Plans') FROM n)
	SELECT coalesce(sum((j->>'Heap Fetches')::bigint), -1) FROM n WHERE (j->>'Index Only')::bool
	INTO heap_fetches;
	same := ours IS NOT DISTINCT FROM theirs;
	rows := coalesce(cardinality(ours), 0);
END $$;

-- a match in pieces needs its keys until the last one, even if other nodes need memory meanwhile
CREATE TABLE ioj_keys AS SELECT i * 16 AS k FROM generate_series(0, 39999) i;
ANALYZE ioj_keys;
SET work_mem = '16MB';
SELECT q, s.* FROM unnest(ARRAY[
	'SELECT cardinality(array_agg(b.v)), cardinality(array_agg(b.id)) FROM ioj_keys s JOIN ioj b USING (k)',
	'SELECT count(b.w), sum(b.w), count(b.id), sum(b.id), count(b.v) FROM ioj_keys s JOIN ioj b USING (k)',
	'SELECT count(*) FROM ioj_keys s JOIN ioj b USING (k) WHERE b.f']) q, ioj_same(q) s;
RESET work_mem;

-- directly from entries to the result: columns of both sides, in any order and number, with NULLs
CREATE TABLE ioj_small AS
SELECT i % 300 * 16 AS k, CASE WHEN i % 5 <> 0 THEN i END AS n, 'row ' || i AS t
FROM generate_series(1, 330) i;
INSERT INTO ioj_small VALUES (NULL, 1, 'null'), (5, 2, 'no match'), (-16, 3, NULL);
CREATE TABLE ioj_unique AS SELECT DISTINCT ON (k) * FROM ioj_small WHERE k IS NOT NULL ORDER BY k, t;
VACUUM ANALYZE ioj_small, ioj_unique;
CREATE TABLE ioj_queries (q text);
INSERT INTO ioj_queries VALUES
	-- no column of the small side is needed: one partner, several, none
	('SELECT count(*) FROM ioj_unique s JOIN ioj b USING (k)'),
	('SELECT count(*) FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT b.id, b.w, b.v FROM ioj_unique s JOIN ioj b USING (k)'),
	('SELECT b.v, b.id, b.k, b.f, b.v FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT b.* FROM ioj_unique s JOIN ioj b ON b.k = s.k'),
	('SELECT count(*), sum(b.v) FROM ioj_unique s JOIN ioj b ON b.k = s.k + 1'),
	-- some column of it is
	('SELECT s.t, b.f, s.n, b.v, s.k FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT s.t FROM ioj_unique s JOIN ioj b USING (k)'),
	('SELECT s.n, s.n FROM ioj_small s JOIN ioj b USING (k)'),
	-- all supported joins
	('SELECT s.t, b.v FROM ioj_small s LEFT JOIN ioj b USING (k)'),
	('SELECT s.t, b.v FROM ioj_unique s LEFT JOIN ioj b USING (k)'),
	('SELECT b.id, b.v FROM ioj b WHERE k IN (SELECT k FROM ioj_small)'),
	('SELECT b.id, b.v FROM ioj b WHERE EXISTS (SELECT FROM ioj_small s WHERE s.k = b.k AND s.n > b.id % 100)'),
	('SELECT s.t FROM ioj_small s WHERE EXISTS (SELECT FROM ioj b WHERE b.k = s.k)'),
	('SELECT s.t FROM ioj_small s WHERE NOT EXISTS (SELECT FROM ioj b WHERE b.k = s.k)'),
	-- the general path: quals of the join, of the result, of the table; expressions
	('SELECT s.t, b.v FROM ioj_small s JOIN ioj b ON b.k = s.k AND b.id % 3 = s.n % 3'),
	('SELECT s.t, b.v FROM ioj_small s LEFT JOIN ioj b ON b.k = s.k AND b.id % 3 = s.n % 3'),
	('SELECT s.t, b.v FROM ioj_small s LEFT JOIN ioj b USING (k) WHERE b.v IS NULL OR s.n = 4'),
	('SELECT s.t, b.v FROM ioj_small s JOIN ioj b USING (k) WHERE b.v % 2 = 0'),
	('SELECT b.v + s.n, s.t || b.id FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT s, b.v FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT s.t, b.id, b.f IS NULL FROM ioj_small s JOIN ioj b USING (k)'),
	-- rescans, with the same small rows and with others
	('SELECT x, q.* FROM generate_series(1, 3) x, LATERAL (SELECT s.t, b.v FROM ioj_small s JOIN ioj b USING (k) OFFSET x - x) q'),
	('SELECT x, (SELECT sum(b.v) FROM ioj_small s JOIN ioj b USING (k) WHERE s.n < x * 50) FROM generate_series(0, 3) x'),
	('SELECT x, (SELECT b.v FROM ioj_unique s JOIN ioj b USING (k) WHERE s.n = x LIMIT 1) IS NULL FROM generate_series(1, 30) x'),
	-- nodes above: those that keep rows must copy them
	('SELECT DISTINCT s.t, b.v FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT s.t, b.v, lag(s.t) OVER (ORDER BY b.id, s.t) FROM ioj_small s JOIN ioj b USING (k)'),
	('SELECT x.t, y.t FROM (SELECT s.t, b.id FROM ioj_small s JOIN ioj b USING (k) OFFSET 0) x JOIN (SELECT s.t, b.id FROM ioj_unique s JOIN ioj b USING (k) OFFSET 0) y USING (id)');
SELECT q, s.same, s.rows, s.heap_fetches FROM ioj_queries, ioj_same(q) s;

-- some pages are not all-visible, and some rows have changed: both paths in one scan
DELETE FROM ioj WHERE id % 10007 = 0;
UPDATE ioj SET v = -1 WHERE id % 20011 = 3;
UPDATE ioj SET k = 32 WHERE id % 30011 = 5;
INSERT INTO ioj SELECT -i, i % 50 * 16, CASE WHEN i % 2 = 0 THEN i END FROM generate_series(1, 100) i;
SELECT q, s.same, s.rows, s.heap_fetches > 0 AS some_fetched FROM ioj_queries, ioj_same(q) s;
-- in batches
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT count(*), bool_and(s.same) FROM ioj_queries, ioj_same(q) s;
RESET work_mem;
RESET hash_mem_multiplier;

-- a cursor that moves backwards has copies of the rows
VACUUM ioj;
BEGIN;
DECLARE c SCROLL CURSOR FOR
	SELECT b.k, s.t FROM ioj_unique s JOIN ioj b ON b.k = s.k WHERE s.n = 31;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 3 FROM c;
COMMIT;

-- EXPLAIN's counters: a scan's rows are those that entered the join
SELECT (j->'Plan'->'Plans'->0->>'Actual Rows')::numeric::int AS joined,
	(j->'Plan'->'Plans'->0->'Plans'->1->>'Actual Rows')::numeric::int AS scanned
FROM (SELECT 'SELECT count(*) FROM ioj_small s JOIN ioj b USING (k)') q(q), ioj_plan(q) j;

-- chunks: exactly a chunk's number of rows, one less, one more, and none
CREATE TABLE ioj_chunk (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO ioj_chunk
SELECT n, i FROM unnest(ARRAY[1, 1023, 1024, 1025, 2048, 2049]) n, generate_series(1, n) i;
CREATE INDEX ioj_chunk_k ON ioj_chunk USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE ioj_chunk;
SELECT n, s.same, s.rows, s.heap_fetches
FROM unnest(ARRAY[0, 1, 1023, 1024, 1025, 2048, 2049]) n,
	ioj_same(format('SELECT b.v, s.n FROM (VALUES (%s, 1), (7, 2)) s(k, n) JOIN ioj_chunk b USING (k)', n)) s;

DROP TABLE ioj, ioj_keys, ioj_small, ioj_unique, ioj_queries, ioj_chunk;
DROP FUNCTION ioj_same(text), ioj_plan(text);
