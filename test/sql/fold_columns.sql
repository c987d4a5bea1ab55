-- Merges of indexes with INCLUDE columns (am/foldsource.c): columns of each width, many runs of
-- different lengths, NULLs in some of them only, deleted entries, equal keys in all runs.
SET gpujoin.auto_load = off;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE TABLE columns (id int, k int, w bigint, b boolean, s smallint, i int, l bigint, t text)
	WITH (autovacuum_enabled = off);
CREATE INDEX columns_k ON columns USING gpujoin (k) INCLUDE (b, s, i, l, t) WITH (fold_pages = 0);
CREATE INDEX columns_w ON columns USING gpujoin (w) INCLUDE (i, b) WITH (fold_pages = 0);

-- entries of each index, and the number of rows by which answers differ from PostgreSQL's
CREATE FUNCTION state(OUT k bigint, OUT w bigint, OUT runs bigint, OUT differs bigint)
LANGUAGE sql AS $$
	SELECT gpujoin_check('columns_k', true), gpujoin_check('columns_w', true),
		(SELECT r.runs FROM gpujoin_index_info('columns_k') r), sum(missing + surplus)
	FROM unnest(ARRAY[
		'SELECT k, b, s, i, l, t FROM columns WHERE k IN (-2147483648, 2147483647, 0, -1, 77)',
		'SELECT k, b, s, i, l, t FROM columns
			WHERE k = ANY (ARRAY(SELECT generate_series(-3000, 3000)))',
		'SELECT w, i, b FROM columns
			WHERE w IN (-9223372036854775808, 9223372036854775807, 5000000000)']) q, both_ways(q)
$$;
-- insert rows; those of every third call have no NULLs
CREATE PROCEDURE fill(nth int, n int) LANGUAGE sql AS $$
	INSERT INTO columns
	SELECT nth * 100000 + g,
		CASE g % 50 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647
			ELSE (g * 7919::bigint * nth % 6001 - 3000) END,
		CASE g % 40 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807
			ELSE g % 90 * 1000000000::bigint END,
		nullif(g % 2 = 0, g % 14 = 0 AND nth % 3 > 0),
		CASE WHEN g % 9 > 0 OR nth % 3 = 0 THEN g END,
		CASE WHEN g % 8 > 0 OR nth % 3 = 0 THEN g * nth END,
		CASE WHEN g % 7 > 0 OR nth % 3 = 0 THEN g * 1000000007::bigint * nth END,
		CASE WHEN g % 6 > 0 OR nth % 3 = 0 THEN 'text ' || g END
	FROM generate_series(1, n) g
$$;

CALL fill(1, 9000);
SELECT gpujoin_fold('columns_k') > 0, gpujoin_fold('columns_w') > 0;
DO $$
BEGIN
	FOR nth IN 2 .. 10 LOOP
		CALL fill(nth, 20000 >> nth);
		PERFORM gpujoin_fold('columns_k'), gpujoin_fold('columns_w');
	END LOOP;
END $$;
VACUUM columns;
SELECT * FROM state();

-- deleted entries in all runs, and all of one run; new rows reuse old heap slots
DELETE FROM columns WHERE id % 6 = 3 OR id BETWEEN 400000 AND 499999;
VACUUM (INDEX_CLEANUP ON) columns;
CALL fill(11, 1500);
VACUUM columns;
SELECT * FROM state();
SELECT gpujoin_fold('columns_k', true) > 0, gpujoin_fold('columns_w', true) > 0;
SELECT * FROM state();

-- the delta and several runs at a time, sorted in memory or in a file
SET maintenance_work_mem = '1MB';
CALL fill(12, 300);
CALL fill(13, 30000);
SELECT gpujoin_fold('columns_k') > 0, gpujoin_fold('columns_w') > 0;
VACUUM columns;
SELECT * FROM state();
RESET maintenance_work_mem;
SELECT gpujoin_fold('columns_k', true) > 0, gpujoin_fold('columns_w', true) > 0;
VACUUM columns;
SELECT * FROM state();

DROP TABLE columns;
DROP FUNCTION state, both_ways;
DROP PROCEDURE fill;
