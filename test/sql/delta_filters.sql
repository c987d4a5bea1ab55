-- A process that searches an index again skips pages of the delta by filters of its own: it finds
-- the same rows as PostgreSQL, also those that were inserted, deleted or moved since.
SET gpujoin.auto_load = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE delta_filters (k int, v int) WITH (autovacuum_enabled = off);
CREATE INDEX delta_filters_k ON delta_filters USING gpujoin (k) INCLUDE (v)
	WITH (lanes = 1, fold_pages = 0);

-- of the rows with a few keys: those that gpujoin and PostgreSQL find, and the delta pages read
CREATE FUNCTION search(keys int[], OUT n bigint, OUT expected bigint, OUT pages int)
LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT count(*) FROM delta_filters WHERE k = ANY (%L::int[])', keys);
	line text;
BEGIN
	SET LOCAL gpujoin.force = on;
	EXECUTE query INTO n;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) ' || query LOOP
		pages := coalesce((regexp_match(line, 'Delta Pages: (\d+)'))[1]::int, pages);
	END LOOP;
	SET LOCAL gpujoin.force = off;
	SET LOCAL gpujoin.enabled = off;
	EXECUTE query INTO expected;
	SET LOCAL gpujoin.enabled = on;
END $$;

-- 100 pages, the last one of them open; each search but the first makes 64 filters, and search()
-- searches twice
INSERT INTO delta_filters SELECT i, i FROM generate_series(1, 100 * 544 - 10) i;
SELECT delta_pages, open_pages FROM gpujoin_index_info('delta_filters_k');
SELECT * FROM search('{1}');
SELECT * FROM search('{1}');
SELECT * FROM search('{54300, 777, -5}');
-- with many keys all pages are read
SELECT * FROM search(ARRAY(SELECT generate_series(1, 17)));

-- rows that are added to the open page, on the tail and after it has been moved
INSERT INTO delta_filters SELECT 1, i FROM generate_series(1, 5) i;
SELECT n, expected FROM search('{1}');
INSERT INTO delta_filters SELECT 1, i FROM generate_series(1, 1000) i;
SELECT n, expected FROM search('{1}');
SELECT n, expected FROM search('{1}');
SELECT * FROM search('{2}');

-- deleted rows, and rows that have taken their places
DELETE FROM delta_filters WHERE k BETWEEN 2 AND 2000 OR k > 54000;
VACUUM (INDEX_CLEANUP ON) delta_filters;
SELECT delta_pages, runs FROM gpujoin_index_info('delta_filters_k');
INSERT INTO delta_filters SELECT i % 100, i FROM generate_series(1, 40000) i;
SELECT n, expected FROM search('{2, 3, 54100}');
SELECT n, expected FROM search('{2, 3, 54100}');

-- another delta, whose pages are those of the first one
SELECT gpujoin_fold('delta_filters_k');
INSERT INTO delta_filters SELECT i % 777, i FROM generate_series(1, 50000) i;
SELECT n, expected FROM search('{5, 776}');
SELECT n, expected FROM search('{5, 776}');
SELECT n, expected FROM search('{5, 776}');

-- ALTER INDEX that is rolled back: the old file has the same numbers, and other entries
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE delta_filters_space LOCATION '';
SELECT delta_pages FROM gpujoin_index_info('delta_filters_k');
BEGIN;
ALTER INDEX delta_filters_k SET TABLESPACE delta_filters_space;
INSERT INTO delta_filters SELECT -1, i FROM generate_series(1, 600) i;
SELECT n, expected FROM search('{-1, -2}');
SELECT n, expected FROM search('{-1, -2}');
ROLLBACK;
INSERT INTO delta_filters SELECT -2, i FROM generate_series(1, 600) i;
SELECT delta_pages FROM gpujoin_index_info('delta_filters_k');
SELECT n, expected FROM search('{-2}');
SELECT n, expected FROM search('{-2}');
DROP TABLESPACE delta_filters_space;

DROP TABLE delta_filters;
DROP FUNCTION search;

-- of a few pages, too, only the open one and those with the keys are read
CREATE FUNCTION delta_pages(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	line text;
	pages int;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF)
		SELECT count(*) FROM delta_filters_%s WHERE k IN (7, -7)', i) LOOP
		pages := coalesce((regexp_match(line, 'Delta Pages: (\d+)'))[1]::int, pages);
	END LOOP;
	RETURN pages;
END $$;
CREATE TABLE delta_filters_0 (k int) WITH (autovacuum_enabled = off);
CREATE INDEX ON delta_filters_0 USING gpujoin (k) WITH (lanes = 1, fold_pages = 0);
INSERT INTO delta_filters_0 SELECT generate_series(1, 6 * 768);
SET gpujoin.force = on;
SELECT round, delta_pages(0) FROM generate_series(1, 3) round;
DROP TABLE delta_filters_0;

-- nine indexes that are searched in turn: the filters of eight are kept
DO $$ BEGIN
	FOR i IN 1 .. 9 LOOP
		EXECUTE format('CREATE TABLE delta_filters_%s (k int) WITH (autovacuum_enabled = off);
			CREATE INDEX ON delta_filters_%1$s USING gpujoin (k) WITH (lanes = 1, fold_pages = 0);
			INSERT INTO delta_filters_%1$s SELECT generate_series(1, 80 * 768)', i);
	END LOOP;
END $$;
DO $$ BEGIN
	FOR round IN 1 .. 20 LOOP
		PERFORM delta_pages(i) FROM generate_series(1, 9) i;
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE pages < 10) AS filtered, count(*) FILTER (WHERE pages > 64) AS read
	FROM (SELECT delta_pages(i) AS pages FROM generate_series(1, 9) i) searches;
-- unless that of the ninth is much larger
INSERT INTO delta_filters_9 SELECT generate_series(1, 320 * 768);
DO $$ BEGIN
	FOR round IN 1 .. 10 LOOP
		PERFORM delta_pages(i) FROM generate_series(1, 9) i;
	END LOOP;
END $$;
SELECT delta_pages(9) < 64 AS filtered;
DROP TABLE delta_filters_1, delta_filters_2, delta_filters_3, delta_filters_4, delta_filters_5,
	delta_filters_6, delta_filters_7, delta_filters_8, delta_filters_9;
RESET gpujoin.force;
DROP FUNCTION delta_pages;
