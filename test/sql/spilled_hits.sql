-- A delta with more hits than fit in memory is read once, however little memory there is: the
-- hits go to a temporary file. Each row comes once, and the answers are those of the stock plan.
SET gpujoin.auto_load = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE spilled (id int, k int, v int, pad text) WITH (autovacuum_enabled = off, parallel_workers = 2);
CREATE INDEX spilled_k ON spilled USING gpujoin (k) INCLUDE (id, v);
INSERT INTO spilled SELECT i, hashint4(i) & 255, NULLIF(i % 9, 0) FROM generate_series(1, 60000) i;
VACUUM (INDEX_CLEANUP off, ANALYZE) spilled;
SET gpujoin.force = on;
SET hash_mem_multiplier = 1;
SET work_mem = '64kB';

-- how often a plan reads the pages of the delta, and whether it has written a temporary file
CREATE FUNCTION reads(query text) RETURNS TABLE (times bigint, spills bool) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	npages bigint := 0;
	written bool := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off) ' || query LOOP
		npages := npages + coalesce(substring(line FROM 'Delta Pages: ([0-9]+)')::bigint, 0);
		written := written OR line ~ 'temp read=[0-9]+ written=';
	END LOOP;
	RETURN QUERY SELECT npages / delta_pages, written FROM gpujoin_index_info('spilled_k');
END $$;
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	ours text;
	stock text;
BEGIN
	EXECUTE format('SELECT md5(string_agg(q::text, '' '' ORDER BY q::text)) FROM (%s) q', query) INTO ours;
	PERFORM set_config('gpujoin.enabled', 'off', true);
	EXECUTE format('SELECT md5(string_agg(q::text, '' '' ORDER BY q::text)) FROM (%s) q', query) INTO stock;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	RETURN ours = stock;
END $$;
CREATE TABLE spilling (number serial, query text);
INSERT INTO spilling (query) SELECT replace(q, '$half', 'k = ANY (ARRAY(SELECT generate_series(0, 127)))') FROM unnest(ARRAY[
	'SELECT id, k, v FROM spilled WHERE $half',
	'SELECT count(*), sum(v) FROM spilled WHERE $half',
	'SELECT k, count(*), sum(id) FROM spilled WHERE $half GROUP BY k',
	'SELECT id FROM spilled WHERE $half AND v < 5',
	'SELECT id, v, pad FROM spilled WHERE $half AND v IS NULL',
	'SELECT s, id, v FROM generate_series(0, 127) s JOIN spilled ON k = s']) q;
SELECT number, r.*, same(query) FROM spilling, reads(query) r ORDER BY number;

-- a cursor stops, goes on, and is closed before its end, which leaves no file behind
SET cursor_tuple_fraction = 1;
BEGIN;
DECLARE c CURSOR FOR SELECT id, k FROM spilled WHERE k <> ALL (ARRAY(SELECT generate_series(128, 255)));
MOVE 5000 FROM c;
MOVE ALL FROM c;
DECLARE d CURSOR FOR SELECT id, k FROM spilled WHERE k <> ALL (ARRAY(SELECT generate_series(128, 255)));
MOVE 5000 FROM d;
CLOSE d;
DECLARE e CURSOR FOR SELECT id, k FROM spilled WHERE k <> ALL (ARRAY(SELECT generate_series(128, 255)));
MOVE 5000 FROM e;
COMMIT;
SELECT count(*) FROM (SELECT id FROM spilled WHERE k = ANY (ARRAY(SELECT generate_series(0, 127))) LIMIT 9) q;

-- the hits are limited by temp_file_limit
SET temp_file_limit = '64kB';
\set VERBOSITY sqlstate
SELECT count(v) FROM spilled WHERE k = ANY (ARRAY(SELECT generate_series(0, 127)));
\set VERBOSITY default
RESET temp_file_limit;

-- beside runs
SELECT gpujoin_fold('spilled_k') > 0 AS folded;
INSERT INTO spilled SELECT i, hashint4(i) & 255, NULLIF(i % 9, 0) FROM generate_series(60001, 120000) i;
VACUUM (INDEX_CLEANUP off, ANALYZE) spilled;
SELECT number, r.*, same(query) FROM spilling, reads(query) r ORDER BY number;

-- by several processes
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT number, same(query) FROM spilling ORDER BY number;

DROP TABLE spilled, spilling;
DROP FUNCTION reads, same;
