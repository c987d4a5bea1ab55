-- A process that searches an index's small runs again and again looks up only the keys that their
-- filters have: it finds the same rows as PostgreSQL, also after deletions, and in other runs.
SET gpujoin.auto_load = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE run_filters (k int, v int) WITH (autovacuum_enabled = off);

-- the rows that gpujoin and PostgreSQL find, and all pages read
CREATE FUNCTION search(keys int[], OUT n bigint, OUT same bool, OUT pages int)
LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT count(*), sum(v) FROM run_filters WHERE k = ANY (%L::int[])', keys);
	found record;
	expected record;
	line text;
BEGIN
	SET LOCAL gpujoin.force = on;
	EXECUTE query INTO found;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) ' || query LOOP
		pages := coalesce((regexp_match(line, ' Pages Read: (\d+)'))[1]::int, pages);
	END LOOP;
	SET LOCAL gpujoin.force = off;
	SET LOCAL gpujoin.enabled = off;
	EXECUTE query INTO expected;
	SET LOCAL gpujoin.enabled = on;
	n := found.count;
	same := found IS NOT DISTINCT FROM expected;
END $$;

-- 400 keys, and four more, three of which the runs have
CREATE FUNCTION keys(first int) RETURNS int[] LANGUAGE sql IMMUTABLE AS $$
	SELECT array_agg(first + 2500 * i) || ARRAY[-2000000000, 2000000000, 7, -7]
		FROM generate_series(1, 400) i $$;

-- one run of all multiples of 10 up to a million, and two of 40,000 rows, some 74 pages each
INSERT INTO run_filters SELECT 10 * i, i FROM generate_series(1, 100000) i;
CREATE INDEX run_filters_k ON run_filters USING gpujoin (k) INCLUDE (v)
	WITH (lanes = 1, fold_pages = 0);
INSERT INTO run_filters SELECT 25 * i - 24, i FROM generate_series(1, 39990) i;
INSERT INTO run_filters SELECT -2000000000, i FROM generate_series(1, 10) i;
SELECT gpujoin_fold('run_filters_k') > 0 AS folded;
INSERT INTO run_filters SELECT 25 * i - 1, i FROM generate_series(1, 38000) i;
-- several pages of one key
INSERT INTO run_filters SELECT 7, i FROM generate_series(1, 2000) i;
INSERT INTO run_filters SELECT 2000000000, i FROM generate_series(1, 10) i;
SELECT gpujoin_fold('run_filters_k') > 0 AS folded;
SELECT runs, delta_pages FROM gpujoin_index_info('run_filters_k');

-- the keys of no run, and of each one
SELECT * FROM search(keys(3));
SELECT * FROM search(keys(0));
SELECT * FROM search(keys(1));
SELECT * FROM search(keys(24));
SELECT count(search(keys(3))) FROM generate_series(1, 3);
-- now there are filters
SELECT * FROM search(keys(3));
SELECT * FROM search(keys(0));
SELECT * FROM search(keys(1));
SELECT * FROM search(keys(24));
-- few keys, one key, and none of a run's
SELECT * FROM search('{1, 7, 24, 25}');
SELECT * FROM search('{2000000000}');
SELECT * FROM search('{3}');
-- too many keys for filters, and excluded keys
SELECT n, same FROM search(ARRAY(SELECT generate_series(1, 5000)));
SET gpujoin.force = on;
SELECT count(*), sum(v) FROM run_filters WHERE k <> ALL (keys(1));
SET gpujoin.enabled = off;
SELECT count(*), sum(v) FROM run_filters WHERE k <> ALL (keys(1));
RESET gpujoin.enabled;
RESET gpujoin.force;

-- deleted entries, whose TIDs other rows have
DELETE FROM run_filters WHERE k % 5000 = 2501 OR k = 7;
VACUUM (INDEX_CLEANUP ON) run_filters;
INSERT INTO run_filters SELECT 25 * i - 24, -i FROM generate_series(1, 5000) i;
SELECT n, same FROM search(keys(1));
SELECT n, same FROM search(keys(24));

-- other runs: of the rows in the delta, with it, and all together
SELECT gpujoin_fold('run_filters_k') > 0 AS folded;
INSERT INTO run_filters SELECT 25 * i + 3, i FROM generate_series(1, 40000) i;
SELECT gpujoin_fold('run_filters_k') > 0 AS folded;
SELECT runs > 2 AS more FROM gpujoin_index_info('run_filters_k');
SELECT n, same FROM search(keys(3));
SELECT count(search(keys(3))) FROM generate_series(1, 3);
SELECT n, same FROM search(keys(3));
SELECT n, same FROM search(keys(1));
SELECT gpujoin_fold('run_filters_k', true) > 0 AS folded;
SELECT n, same FROM search(keys(3));

-- ALTER INDEX that is rolled back: the old file gets a run with the number of another one
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE run_filters_space LOCATION '';
BEGIN;
ALTER INDEX run_filters_k SET TABLESPACE run_filters_space;
INSERT INTO run_filters SELECT 25 * i + 5, i FROM generate_series(1, 40000) i;
SELECT gpujoin_fold('run_filters_k') > 0 AS folded;
SELECT count(search(keys(5))) FROM generate_series(1, 4);
SELECT * FROM search(keys(3));
ROLLBACK;
INSERT INTO run_filters SELECT 25 * i + 4, i FROM generate_series(1, 40000) i;
SELECT gpujoin_fold('run_filters_k') > 0 AS folded;
SELECT n, same FROM search(keys(4));
SELECT n, same FROM search(keys(5));
DROP TABLESPACE run_filters_space;

-- another index with the same numbers, and keys of eight bytes
CREATE TABLE run_filters_8 (k bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO run_filters_8 SELECT 10 * i, i FROM generate_series(1, 100000) i;
CREATE INDEX run_filters_8_k ON run_filters_8 USING gpujoin (k) INCLUDE (v)
	WITH (lanes = 1, fold_pages = 0);
INSERT INTO run_filters_8 SELECT (i - 20000)::bigint << 32, i FROM generate_series(1, 40000) i;
SELECT gpujoin_fold('run_filters_8_k') > 0 AS folded;
CREATE FUNCTION search_8(OUT n bigint, OUT sum bigint) LANGUAGE sql AS $$
	SELECT count(*), sum(v) FROM run_filters_8 WHERE k = ANY (
		ARRAY(SELECT i::bigint << 32 | i % 2 FROM generate_series(-30000, 30000, 150) i)) $$;
SET gpujoin.force = on;
SELECT DISTINCT s.* FROM generate_series(1, 10), search_8() s;
SELECT count(search_8()) FROM generate_series(1, 10);
SELECT * FROM search_8();
SET gpujoin.enabled = off;
SELECT * FROM search_8();
RESET gpujoin.enabled;
RESET gpujoin.force;

DROP TABLE run_filters, run_filters_8;
DROP FUNCTION search, search_8, keys;
