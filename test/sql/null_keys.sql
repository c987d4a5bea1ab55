-- NULL keys are stored: in runs, deltas and a tail of their own, at each stage of an entry's life
SET gpujoin.auto_load = off;
CREATE TABLE nk (id int, k int, u uuid, t text, n numeric(10,2), v int) WITH (autovacuum_enabled = off);
CREATE FUNCTION nk_fill(low int, high int) RETURNS void LANGUAGE sql AS $$
INSERT INTO nk SELECT i, CASE WHEN i % 3 > 0 THEN i % 500 - 250 END,
	CASE WHEN i % 4 > 0 THEN md5((i % 300)::text)::uuid END,
	CASE WHEN i % 5 > 0 THEN repeat('x', i % 40) || i % 100 END,
	nullif(i % 9, 0) / 4.0, nullif(i % 7, 0)
FROM generate_series(low, high) i $$;

-- the largest and the least key, and 0, which is the code of a NULL key, too
SELECT nk_fill(1, 9000);
INSERT INTO nk (id, k) SELECT -i, k FROM generate_series(1, 5) i, unnest(ARRAY[2147483647, -2147483648, 0]) k;
CREATE INDEX nk_k ON nk USING gpujoin (k) INCLUDE (v, n, t);
CREATE INDEX nk_u ON nk USING gpujoin (u);
CREATE INDEX nk_t ON nk USING gpujoin (t);
CREATE INDEX nk_x ON nk USING gpujoin ((k + v)) WHERE id % 2 = 0;

-- entries, and those with a NULL key, of each index, checked against the table
CREATE VIEW nk_state AS
SELECT gpujoin_check('nk_k', true) - r.n AS k, k.null_keys - r.k AS k_nulls,
	gpujoin_check('nk_u', true) - r.n AS u, u.null_keys - r.u AS u_nulls,
	gpujoin_check('nk_t', true) - r.n AS t, t.null_keys - r.t AS t_nulls,
	gpujoin_check('nk_x', true) - r.half AS x, x.null_keys - r.x AS x_nulls
FROM gpujoin_index_info('nk_k') k, gpujoin_index_info('nk_u') u, gpujoin_index_info('nk_t') t,
	gpujoin_index_info('nk_x') x,
	(SELECT count(*) AS n, count(*) - count(k) AS k, count(*) - count(u) AS u, count(*) - count(t) AS t,
		count(*) FILTER (WHERE id % 2 = 0) AS half,
		count(*) FILTER (WHERE id % 2 = 0 AND (k + v) IS NULL) AS x FROM nk) r;
SELECT * FROM nk_state;

-- on a tail; in a delta; in a second run
INSERT INTO nk (id) SELECT 10000 + i FROM generate_series(1, 10) i;
SELECT * FROM nk_state;
SELECT nk_fill(10001, 19000);
SELECT * FROM nk_state;
SELECT gpujoin_fold('nk_k') > 0 AS k, gpujoin_fold('nk_u') > 0 AS u, gpujoin_fold('nk_t') > 0 AS t, gpujoin_fold('nk_x') > 0 AS x;
SELECT * FROM nk_state;
SELECT gpujoin_fold('nk_k'), gpujoin_fold('nk_u'), gpujoin_fold('nk_t'), gpujoin_fold('nk_x');

-- many small folds: the list of these runs has four places
CREATE FUNCTION nk_fold(times int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR round IN 1 .. times LOOP
		INSERT INTO nk (id, v) SELECT 30000 + round, i FROM generate_series(1, 200) i;
		PERFORM gpujoin_fold('nk_k'), gpujoin_fold('nk_u');
	END LOOP;
END $$;
SELECT nk_fold(12);
SELECT * FROM nk_state;
SELECT runs FROM gpujoin_index_info('nk_k');

-- updates to NULL, from NULL, and of an INCLUDE column; deletion; TIDs are used again
UPDATE nk SET k = NULL, u = NULL WHERE id % 10 = 1;
UPDATE nk SET k = 7, t = NULL WHERE id % 10 = 3;
UPDATE nk SET v = v + 1 WHERE k IS NULL AND id % 10 = 5;
SELECT gpujoin_check('nk_k', true) > (SELECT count(*) FROM nk) AS old_entries;
VACUUM nk;
SELECT * FROM nk_state;
DELETE FROM nk WHERE id % 2 = 0 AND k IS NULL;
VACUUM nk;
SELECT * FROM nk_state;
SELECT nk_fill(40000, 49000);
SELECT * FROM nk_state;

-- dead entries of NULL keys are dropped without new ones, and so are runs that have no others
DELETE FROM nk WHERE k IS NULL;
VACUUM nk;
SELECT * FROM nk_state;
SELECT gpujoin_fold('nk_k') >= 0 AS folded;
VACUUM nk;
SELECT * FROM nk_state;
SELECT nk_fill(50000, 52000);
SELECT * FROM nk_state;
REINDEX TABLE nk;
SELECT * FROM nk_state;
SELECT gpujoin_fold('nk_k', true), runs, dead_entries, free_pages FROM gpujoin_index_info('nk_k');

-- nothing but NULL keys; none; and a table that is emptied
CREATE TABLE nk_only (k bigint);
INSERT INTO nk_only SELECT NULL FROM generate_series(1, 5000);
CREATE INDEX nk_only_k ON nk_only USING gpujoin (k);
SELECT gpujoin_check('nk_only_k', true), runs, null_keys FROM gpujoin_index_info('nk_only_k');
TRUNCATE nk_only;
SELECT gpujoin_check('nk_only_k', true), runs, null_keys FROM gpujoin_index_info('nk_only_k');
INSERT INTO nk_only SELECT nullif(i % 2, 0) FROM generate_series(1, 3000) i;
SELECT gpujoin_check('nk_only_k', true), gpujoin_fold('nk_only_k') > 0 AS folded, null_keys FROM gpujoin_index_info('nk_only_k');
SELECT gpujoin_check('nk_only_k', true), runs, null_keys FROM gpujoin_index_info('nk_only_k');

-- a temporary table folds itself; an unlogged one; CREATE INDEX CONCURRENTLY
CREATE TEMP TABLE nk_temp (k int, v int);
CREATE INDEX nk_temp_k ON nk_temp USING gpujoin (k) INCLUDE (v) WITH (fold_pages = 8);
INSERT INTO nk_temp SELECT CASE WHEN i % 2 = 0 THEN i END, i FROM generate_series(1, 20000) i;
SELECT gpujoin_check('nk_temp_k', true), null_keys FROM gpujoin_index_info('nk_temp_k');
CREATE UNLOGGED TABLE nk_unlogged (k int);
CREATE INDEX nk_unlogged_k ON nk_unlogged USING gpujoin (k);
INSERT INTO nk_unlogged SELECT CASE WHEN i % 2 = 0 THEN i END FROM generate_series(1, 2000) i;
SELECT gpujoin_check('nk_unlogged_k', true), null_keys FROM gpujoin_index_info('nk_unlogged_k');
CREATE INDEX CONCURRENTLY nk_only_c ON nk_only USING gpujoin (k);
SELECT gpujoin_check('nk_only_c', true), null_keys FROM gpujoin_index_info('nk_only_c');
DROP TABLE nk_only, nk_temp, nk_unlogged;
DROP VIEW nk_state;
DROP TABLE nk;
DROP FUNCTION nk_fill, nk_fold;
