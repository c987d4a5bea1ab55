-- Folds: inserted rows become a run in key order, runs are merged into one, deleted slots are
-- dropped. Before and after each fold the index agrees with its table, and queries with
-- PostgreSQL's own answers.
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE TABLE fold (id int, k int, b bigint, s smallint, v int, f float8)
	WITH (autovacuum_enabled = off);
CREATE INDEX fold_k ON fold USING gpujoin (k) INCLUDE (v, id, f);
CREATE INDEX fold_b ON fold USING gpujoin (b);
CREATE INDEX fold_s ON fold USING gpujoin (s) INCLUDE (v) WITH (lanes = 1);
CREATE INDEX fold_x ON fold USING gpujoin ((k + 1)) INCLUDE (k) WHERE v IS NOT NULL;

-- return the number of entries of each index, and the number of queries, two for each index, that
-- give a wrong answer
CREATE FUNCTION state(OUT k bigint, OUT b bigint, OUT s bigint, OUT x bigint, OUT differs bigint)
LANGUAGE plpgsql AS $$
DECLARE
	q text;
	missing bigint;
	surplus bigint;
BEGIN
	k := gpujoin_check('fold_k', true);
	b := gpujoin_check('fold_b', true);
	s := gpujoin_check('fold_s', true);
	x := gpujoin_check('fold_x', true);
	differs := 0;
	FOREACH q IN ARRAY ARRAY[
		'SELECT id, k, v, f FROM fold WHERE k IN (7, 1, 100, 4999, -1)',
		'SELECT * FROM fold WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 17)))',
		'SELECT id FROM fold WHERE b IN (9223372036854775807, -9223372036854775808, 0, 77)',
		'SELECT b FROM fold WHERE b = ANY (ARRAY(SELECT i * 1000003::bigint
			FROM generate_series(1, 5000, 7) i))',
		'SELECT s, v FROM fold WHERE s IN (-32768, 32767, 0, 5)',
		'SELECT k FROM fold WHERE k + 1 IN (8, 2, 101) AND v IS NOT NULL']
	LOOP
		SELECT r.missing, r.surplus INTO missing, surplus FROM both_ways(q) r;
		differs := differs + missing + surplus;
	END LOOP;
END $$;

-- a page's worth and more; NULLs; one key on many pages; the ends of each type
INSERT INTO fold
SELECT i, CASE WHEN i % 3 = 0 THEN 7 WHEN i % 97 <> 0 THEN i * 7919::bigint % 5000 END,
	CASE i % 1000 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808
		ELSE i * 1000003::bigint END,
	CASE i % 500 WHEN 0 THEN -32768 WHEN 1 THEN 32767 ELSE i % 20 END,
	nullif(i % 11, 0), nullif(i % 13, 0) / 8.0
FROM generate_series(1, 15000) i;
ANALYZE fold;
SELECT * FROM state();
SELECT gpujoin_fold('fold_k') > 5 AS k, gpujoin_fold('fold_b') > 5 AS b,
	gpujoin_fold('fold_s') > 5 AS s, gpujoin_fold('fold_x') > 3 AS x;
SELECT * FROM state();
-- nothing left to do
SELECT gpujoin_fold('fold_k'), gpujoin_fold('fold_k', complete => true);

-- small runs
INSERT INTO fold SELECT i, i % 5000, i, i % 100, i, i FROM generate_series(20001, 21500) i;
SELECT gpujoin_fold('fold_k') BETWEEN 2 AND 8 AS k, gpujoin_fold('fold_b') BETWEEN 2 AND 8 AS b;
INSERT INTO fold SELECT i, 7, 7, 7, 7, 7 FROM generate_series(21501, 23000) i;
SELECT gpujoin_fold('fold_k') BETWEEN 2 AND 8 AS k, gpujoin_fold('fold_b') BETWEEN 2 AND 8 AS b;
INSERT INTO fold SELECT i, 5000 - i, i, i % 100, NULL, NULL FROM generate_series(23001, 23900) i;
SELECT * FROM state();

-- deleted and updated, before and after a fold
DELETE FROM fold WHERE id % 100 = 0;
UPDATE fold SET k = k + 1, v = -v WHERE id % 125 = 0;
VACUUM fold;
SELECT * FROM state();
SELECT gpujoin_fold('fold_k') > 0 AS k, gpujoin_fold('fold_b') > 0 AS b,
	gpujoin_fold('fold_s') > 0 AS s;
SELECT * FROM state();
SELECT gpujoin_fold('fold_k', true) > 5 AS k, gpujoin_fold('fold_b', true) > 5 AS b,
	gpujoin_fold('fold_s', true) > 5 AS s, gpujoin_fold('fold_x', true) > 3 AS x;
SELECT * FROM state();
SELECT free_slots < 2 * slots_per_page AS dense FROM gpujoin_index_info('fold_k');

-- in a transaction that is rolled back, both rows and fold
BEGIN;
INSERT INTO fold SELECT i, 7, i, 5, i, i FROM generate_series(1, 2000) i;
SELECT gpujoin_fold('fold_k') > 0 AS folded;
SELECT count(*) FROM fold WHERE k = 7 AND s = 5 AND b BETWEEN 1 AND 2000 AND id <= 2000 AND v = id;
ROLLBACK;
SELECT * FROM state();

-- a cursor continues while its transaction folds
BEGIN;
SET LOCAL gpujoin.force = on;
SET LOCAL work_mem = '64kB';
DECLARE c CURSOR FOR SELECT k, v, id FROM fold WHERE k = 7;
FETCH 3 FROM c \g /dev/null
INSERT INTO fold SELECT i, 7, i, 5, i, i FROM generate_series(1, 2000) i;
SELECT gpujoin_fold('fold_k', true) > 0 AS folded;
MOVE FORWARD ALL FROM c;
SELECT count(*) = 3 + 2000 + :ROW_COUNT AS all_rows FROM fold WHERE k = 7;
ROLLBACK;

-- all rows deleted: nothing is written, and pages are reused
DELETE FROM fold;
VACUUM fold;
SELECT * FROM state();
SELECT gpujoin_fold('fold_k', true);
INSERT INTO fold SELECT i, i, i, 1, i, i FROM generate_series(1, 20000) i;
SELECT gpujoin_fold('fold_k') > 5 AS k, gpujoin_fold('fold_b') > 5 AS b;
SELECT * FROM state();

-- VACUUM folds 64 pages, but not fewer
CREATE TABLE enough (k int) WITH (autovacuum_enabled = off);
CREATE INDEX enough_k ON enough USING gpujoin (k) WITH (lanes = 1);
INSERT INTO enough SELECT i % 1000 FROM generate_series(1, 63 * 800) i;
VACUUM enough;
SELECT open_pages, pages BETWEEN 64 AND 70 AS as_before FROM gpujoin_index_info('enough_k');
INSERT INTO enough SELECT i % 1000 FROM generate_series(1, 2 * 800) i;
VACUUM enough;
SELECT open_pages, pages > 90 AS folded FROM gpujoin_index_info('enough_k');
SELECT gpujoin_check('enough_k', true);
DROP TABLE enough;

-- a few free pages are left to the next fold; if there are many, insertions use them
CREATE TABLE spared (k int) WITH (autovacuum_enabled = off);
INSERT INTO spared SELECT i % 5000 FROM generate_series(1, 80000) i;
CREATE INDEX spared_k ON spared USING gpujoin (k) WITH (lanes = 1);
CREATE FUNCTION add_rows(folds int, OUT pages_added bigint, OUT are_free bool)
LANGUAGE plpgsql AS $$
DECLARE
	before bigint = pages FROM gpujoin_index_info('spared_k');
BEGIN
	INSERT INTO spared SELECT i % 5000 FROM generate_series(1, 7264) i;
	FOR i IN 1..folds LOOP
		PERFORM gpujoin_fold('spared_k');
	END LOOP;
	SELECT pages - before, free_pages > 0 INTO pages_added, are_free
	FROM gpujoin_index_info('spared_k');
END $$;
SELECT * FROM add_rows(folds => 1);
SELECT * FROM add_rows(folds => 0);
SELECT * FROM add_rows(folds => 1);
SELECT gpujoin_fold('spared_k', true) > 50 AS folded;
SELECT * FROM add_rows(folds => 0);
SELECT gpujoin_check('spared_k', true);
DROP TABLE spared;
DROP FUNCTION add_rows;

-- which runs are merged: five of about a delta's size; with thirteen listed, the youngest ones up to
-- one that is much larger; all of them if the small ones have twice as many entries as the base run;
-- some rows are deleted
CREATE TABLE many (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO many SELECT i % 5000, i FROM generate_series(1, 120000) i;
CREATE INDEX many_k ON many USING gpujoin (k) INCLUDE (v) WITH (lanes = 1);
CREATE INDEX many_w ON many USING gpujoin (k) WITH (lanes = 1);
CREATE FUNCTION add_runs(VARIADIC sizes int[])
RETURNS TABLE (runs int, words_runs int, base bigint, complete bool)
LANGUAGE plpgsql AS $$
DECLARE
	size int;
BEGIN
	FOREACH size IN ARRAY sizes LOOP
		INSERT INTO many SELECT (j * 7 + size) % 5000, nullif(j % 7, 0)
		FROM generate_series(1, size) j;
		PERFORM gpujoin_fold('many_k'), gpujoin_fold('many_w');
	END LOOP;
	RETURN QUERY SELECT k.runs, w.runs, k.run_entries[1],
		ARRAY[gpujoin_check('many_k', true), gpujoin_check('many_w', true)] =
		(SELECT ARRAY[count(*), count(*)] FROM many)
		FROM gpujoin_index_info('many_k') k, gpujoin_index_info('many_w') w;
END $$;
CREATE FUNCTION differ(OUT missing bigint, OUT surplus bigint) LANGUAGE sql AS $$
	SELECT sum(b.missing), sum(b.surplus) FROM unnest(ARRAY[
		'SELECT k, v FROM many WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000, 17)))',
		'SELECT * FROM many WHERE k IN (1, 7, 900, 4999)']) q, both_ways(q) b
$$;
SELECT * FROM add_runs(900, 901, 902, 903, 904);
SELECT * FROM add_runs(905);
SELECT * FROM add_runs(20000, 20000, 7000, 7000, 7000, 7000, 1700, 1700, 1700);
DELETE FROM many WHERE v = 3 AND k % 20 = 0 OR v BETWEEN 100 AND 200;
VACUUM many;
SELECT * FROM add_runs(1700, 500, 500, 500, 500);
SELECT * FROM differ();
SELECT * FROM add_runs(500);
SELECT * FROM differ();
SELECT * FROM add_runs(3000);
SELECT * FROM add_runs(1500, 7000, 7001);
SELECT * FROM differ();
SELECT * FROM add_runs(50000, 80000);
SELECT * FROM add_runs(10000);
SELECT * FROM differ();
DROP TABLE many;
DROP FUNCTION add_runs, differ;

-- built concurrently, unlogged, temporary, a partition
CREATE INDEX CONCURRENTLY fold_c ON fold USING gpujoin (k) INCLUDE (v);
INSERT INTO fold SELECT i, 7, i, 5, i, i FROM generate_series(1, 2000) i;
SELECT gpujoin_fold('fold_c') > 0 AS folded;
SELECT gpujoin_check('fold_c', true) = count(*) AS complete FROM fold;
REINDEX INDEX CONCURRENTLY fold_c;
SELECT gpujoin_fold('fold_c', true), gpujoin_check('fold_c', true) = count(*) AS complete FROM fold;
DROP INDEX fold_c;
CREATE UNLOGGED TABLE fold_unlogged (k int, v int);
CREATE INDEX fold_u ON fold_unlogged USING gpujoin (k) INCLUDE (v);
INSERT INTO fold_unlogged SELECT i % 1000, i FROM generate_series(1, 10000) i;
SELECT gpujoin_fold('fold_u') > 3 AS folded, gpujoin_check('fold_u', true);
DROP TABLE fold_unlogged;
CREATE TEMP TABLE fold_temp (k bigint, v int);
CREATE INDEX fold_t ON fold_temp USING gpujoin (k) INCLUDE (v);
INSERT INTO fold_temp SELECT i % 1000, i FROM generate_series(1, 10000) i;
SELECT gpujoin_fold('fold_t') > 3 AS folded, gpujoin_check('fold_t', true);
DROP TABLE fold_temp;
CREATE TABLE fold_parts (k int) PARTITION BY RANGE (k);
CREATE TABLE fold_part PARTITION OF fold_parts FOR VALUES FROM (0) TO (1000000);
CREATE INDEX fold_p ON fold_parts USING gpujoin (k);
INSERT INTO fold_parts SELECT generate_series(1, 5000);
SELECT gpujoin_fold('fold_part_k_idx') > 3 AS folded, gpujoin_check('fold_part_k_idx', true);
-- a partitioned index: the indexes of all partitions, including partitions of partitions
CREATE TABLE fold_more PARTITION OF fold_parts FOR VALUES FROM (1000000) TO (3000000) PARTITION BY RANGE (k);
CREATE TABLE fold_more_1 PARTITION OF fold_more FOR VALUES FROM (1000000) TO (2000000);
CREATE TABLE fold_more_2 PARTITION OF fold_more FOR VALUES FROM (2000000) TO (3000000);
INSERT INTO fold_parts SELECT i * 500 FROM generate_series(1, 5999) i;
SELECT gpujoin_fold('fold_p') > 4 AS folded, gpujoin_fold('fold_p') AS again, gpujoin_check('fold_p', true);
SELECT p.relid AS index, i.entries, i.runs, i.delta_pages FROM pg_partition_tree('fold_p') p, gpujoin_index_info(p.relid) i
WHERE p.isleaf ORDER BY p.relid::regclass::text COLLATE "C";
SELECT gpujoin_fold('fold_p', true) > 3 AS merged, gpujoin_fold('fold_p', true) AS again, gpujoin_check('fold_p', true);

-- relations that cannot be folded, and users who may not fold
\set VERBOSITY terse
SELECT gpujoin_fold('fold_parts');
SELECT gpujoin_fold('pg_class_oid_index');
CREATE ROLE regress_gpujoin_folder;
SET ROLE regress_gpujoin_folder;
SELECT gpujoin_fold('fold_k');
RESET ROLE;
DROP ROLE regress_gpujoin_folder;

-- stop at each step, then fold again
CREATE FUNCTION stop_at(step text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fold SELECT i, 7, i, 5, i, i FROM generate_series(1, 2000) i;
	PERFORM set_config('gpujoin.debug_step', step || ' error', false);
	BEGIN
		PERFORM gpujoin_fold('fold_k', true);
		RETURN 'not stopped';
	EXCEPTION WHEN internal_error THEN
		PERFORM set_config('gpujoin.debug_step', '', false);
		PERFORM gpujoin_check('fold_k', true);
		RETURN sqlerrm;
	END;
END $$;
SELECT stop_at(step) FROM unnest(ARRAY['rotated', 'closing', 'begun', 'sorted', 'writing',
	'written', 'published']) step;
SELECT * FROM state();
SELECT stop_at(step) FROM unnest(ARRAY['written', 'forgotten', 'rotated', 'closing']) step;
SELECT * FROM state();
SELECT gpujoin_fold('fold_k', true) > 5 AS folded;
SELECT * FROM state();
-- the space that the unfinished folds left is reused
SELECT pages AS before FROM gpujoin_index_info('fold_k') \gset
SELECT stop_at('written');
SELECT stop_at('written');
SELECT stop_at('written');
SELECT gpujoin_fold('fold_k', true) > 5 AS folded;
SELECT pages < 1.5 * :before AS reused FROM gpujoin_index_info('fold_k');
SELECT * FROM state();
DROP TABLE fold, fold_parts;
DROP FUNCTION state(), stop_at(text), both_ways(text);

-- a run that extends the file lies there in order: readers move forward
CREATE EXTENSION gpujoin_test;
CREATE TABLE fold_order (k int) WITH (autovacuum_enabled = off);
CREATE INDEX fold_order_k ON fold_order USING gpujoin (k);
INSERT INTO fold_order SELECT i * 7919 % 20011 FROM generate_series(1, 20000) i;
SELECT gpujoin_fold('fold_order_k') > 5 AS folded, gpujoin_blocks_backward('fold_order_k');
DROP TABLE fold_order;
DROP EXTENSION gpujoin_test;
