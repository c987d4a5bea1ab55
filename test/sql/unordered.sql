-- Entries in another order in the index than their rows in the heap: each row is returned once in
-- all kinds of answers, and the answers are the same as without an index.
CREATE TABLE unordered (id int, k int, v int, w float8, t text)
	WITH (autovacuum_enabled = off, parallel_workers = 2);
INSERT INTO unordered SELECT i, i % 100, i, i / 4.0, repeat('x', i % 30) FROM generate_series(1, 12000) i;
-- no loader, whose snapshot might keep VACUUM from removing a row; and the CPU answers
SET gpujoin.auto_load = off;
CREATE INDEX unordered_k ON unordered USING gpujoin (k) INCLUDE (id, v, w);
CREATE TABLE wanted AS SELECT generate_series(0, 120, 2) AS k;
ANALYZE wanted;

-- slots in the index and in the heap are freed in another order than they are reused in
DELETE FROM unordered WHERE hashint4(id) % 3 = 0;
VACUUM unordered;
INSERT INTO unordered SELECT i, i % 100, i, i / 4.0, repeat('x', i % 30) FROM generate_series(20001, 24000) i;
DELETE FROM unordered WHERE hashint4(id) % 3 = 1;
VACUUM unordered;
INSERT INTO unordered SELECT i, i % 100, i, i / 4.0, repeat('x', i % 30) FROM generate_series(30001, 34000) i;
DELETE FROM unordered WHERE hashint4(id) % 5 = 2;
VACUUM unordered;
INSERT INTO unordered SELECT i, i % 100, NULLIF(i % 7, 0), i / 4.0, 'last' FROM generate_series(40001, 42500) i;
VACUUM ANALYZE unordered;

-- Check that it is so
SET gpujoin.force = on;
CREATE TEMP TABLE delivered AS SELECT id FROM unordered WHERE k = ANY (ARRAY(SELECT k FROM wanted));
SET gpujoin.force = off;
SELECT count(*) FILTER (WHERE place < before) > 20 AS unordered FROM (
	SELECT place, lag(place) OVER (ORDER BY number) AS before FROM
		(SELECT id, row_number() OVER () AS number FROM delivered) d
		JOIN (SELECT id, ctid AS place FROM unordered) u USING (id)) o;

-- Return the rows as a text, in their order if the query has one; and test for one of our nodes
CREATE FUNCTION answer(query text, ours bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('gpujoin.enabled', ours::text, true),
		set_config('gpujoin.force', ours::text, true),
		set_config('max_parallel_workers', CASE WHEN ours THEN '8' ELSE '0' END, true);
	EXECUTE format('SELECT md5(string_agg(q::text, '' '' %s)) FROM (%s) q',
		CASE WHEN query LIKE '% LIMIT %' THEN '' ELSE 'ORDER BY q::text' END, query) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION uses_ours(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found bool := false;
BEGIN
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		found := found OR line LIKE '%Custom Scan (Gpu%';
	END LOOP;
	RETURN found;
END $$;
CREATE TABLE queries (number serial, query text);
INSERT INTO queries (query)
SELECT replace(q, '$all', 'k = ANY (ARRAY(SELECT k FROM wanted))') FROM unnest(ARRAY[
	'SELECT id, k, v, w FROM unordered WHERE $all',
	'SELECT * FROM unordered WHERE $all',
	'SELECT count(*) FROM unordered WHERE $all',
	'SELECT count(*), sum(v), min(w), count(v) FROM unordered WHERE $all',
	'SELECT k, count(*), sum(id) FROM unordered WHERE $all GROUP BY k',
	'SELECT sum(length(t)), sum(v) FROM unordered WHERE $all',
	'SELECT id, w FROM unordered WHERE $all AND v > 20 AND w < 9000',
	'SELECT id, t FROM unordered WHERE $all AND v > 20 AND w < 9000',
	'SELECT id, v FROM unordered WHERE $all ORDER BY v DESC, id LIMIT 50',
	'SELECT id, v, t FROM unordered WHERE $all ORDER BY v, id LIMIT 700',
	'SELECT s.k, b.id, b.v FROM wanted s JOIN unordered b ON b.k = s.k',
	'SELECT s.k, b.id, b.t FROM wanted s JOIN unordered b ON b.k = s.k',
	'SELECT s.k, count(b.id), sum(b.v) FROM wanted s LEFT JOIN unordered b ON b.k = s.k GROUP BY s.k',
	'SELECT x, b.id FROM generate_series(1, 3) x, unordered b WHERE b.$all AND b.id % 9 = x']) q;

-- on the CPU; rows that must be read from the heap, and entries on tail pages; then on a device, if
-- there is one
SELECT number FROM queries WHERE NOT uses_ours(query) OR answer(query, true) <> answer(query, false);
UPDATE unordered SET t = 'changed' WHERE id % 50 = 3;
INSERT INTO unordered SELECT i, i % 100, i, i, 'tail' FROM generate_series(50001, 50020) i;
SELECT number FROM queries WHERE answer(query, true) <> answer(query, false);
SET gpujoin.auto_load = on;
SELECT number FROM queries WHERE answer(query, true) <> answer(query, false);

-- a mirror lacks the entries found after that
INSERT INTO unordered SELECT i, i % 100, i, i, 'later' FROM generate_series(60001, 60300) i;
SELECT number FROM queries WHERE answer(query, true) <> answer(query, false);

-- by several processes, which collide on heap blocks, where these must be fetched, and where not
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT number FROM queries WHERE answer(query, true) <> answer(query, false);
SET gpujoin.auto_load = off;
VACUUM unordered;
SELECT number FROM queries WHERE answer(query, true) <> answer(query, false);
SET gpujoin.auto_load = on;
SELECT number FROM queries WHERE answer(query, true) <> answer(query, false);

DROP TABLE unordered, wanted, queries;
DROP FUNCTION answer, uses_ours;
