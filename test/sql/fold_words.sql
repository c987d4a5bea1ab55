-- Folds of indexes without INCLUDE columns, whose entries are sorted as single words if a key and a
-- TID fit into one (am/foldsource.c): the ends of each type, keys that leave no room for TIDs, TIDs
-- that do not ascend, runs with and without deleted entries, and too little memory.
SET gpujoin.auto_load = off;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE TABLE words (id int, i int, n bigint, w bigint, s smallint)
	WITH (autovacuum_enabled = off);
CREATE INDEX words_i ON words USING gpujoin (i);
CREATE INDEX words_n ON words USING gpujoin (n);
CREATE INDEX words_w ON words USING gpujoin (w);
CREATE INDEX words_s ON words USING gpujoin (s);

-- entries of each index, and the number of queries whose answer differs from PostgreSQL's
CREATE FUNCTION state(OUT i bigint, OUT n bigint, OUT w bigint, OUT s bigint, OUT differs bigint)
LANGUAGE sql AS $$
	SELECT gpujoin_check('words_i', true), gpujoin_check('words_n', true),
		gpujoin_check('words_w', true), gpujoin_check('words_s', true), sum(missing + surplus)
	FROM unnest(ARRAY[
		'SELECT * FROM words WHERE i IN (-2147483648, 2147483647, 0, -1, 77)',
		'SELECT id FROM words WHERE i = ANY (ARRAY(SELECT generate_series(-3000, 3000, 13)))',
		'SELECT * FROM words WHERE n IN (9000000000000000000, 9000000000000000100, 1)',
		'SELECT * FROM words WHERE w IN (-9223372036854775808, 9223372036854775807, 0)',
		'SELECT * FROM words WHERE s IN (-32768, 32767, 3)']) q, both_ways(q)
$$;
CREATE FUNCTION fold_all(complete boolean DEFAULT false)
RETURNS TABLE (index text, folded boolean, runs bigint)
LANGUAGE plpgsql AS $$
BEGIN
	FOREACH index IN ARRAY ARRAY['words_i', 'words_n', 'words_w', 'words_s'] LOOP
		folded := gpujoin_fold(index::regclass, complete) > 0;
		SELECT r.runs INTO runs FROM gpujoin_index_info(index::regclass) r;
		RETURN NEXT;
	END LOOP;
END $$;
CREATE PROCEDURE fill(first int, last int) LANGUAGE sql AS $$
	INSERT INTO words
	SELECT g, CASE g % 50 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647
			ELSE (g * 7919::bigint % 6001 - 3000) END,
		9000000000000000000 + g * 31 % 7000,
		CASE g % 40 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807
			ELSE g % 900 END,
		CASE g % 60 WHEN 0 THEN -32768 WHEN 1 THEN 32767 ELSE g % 100 END
	FROM generate_series(first, last) g
$$;

CALL fill(1, 7000);
SELECT * FROM state();
SELECT * FROM fold_all();
SELECT * FROM state();

-- small runs, each next to the base run
CALL fill(7001, 8500);
SELECT * FROM fold_all();
CALL fill(8501, 9400);
SELECT * FROM fold_all();
SELECT * FROM state();

-- deleted entries in all runs; new rows reuse old heap slots
DELETE FROM words WHERE id % 6 = 3;
VACUUM (INDEX_CLEANUP ON) words;
CALL fill(20000, 21500);
UPDATE words SET i = i / 2, n = n + 1, w = w / 3, s = s / 2 WHERE id % 11 = 0;
SELECT * FROM state();
SELECT * FROM fold_all();
SELECT * FROM state();
SELECT * FROM fold_all(complete => true);
SELECT * FROM state();

-- sorted as rows, because there is no room for words
SET maintenance_work_mem = '1MB';
CALL fill(30000, 110000);
SELECT * FROM fold_all();
SELECT * FROM state();
RESET maintenance_work_mem;
DELETE FROM words WHERE id < 100000;
VACUUM (INDEX_CLEANUP ON) words;
SELECT * FROM fold_all(complete => true);
SELECT * FROM state();

-- only one key; then no rows at all
UPDATE words SET i = 5, n = 5, w = 5, s = 5;
VACUUM (INDEX_CLEANUP ON) words;
SELECT * FROM fold_all(complete => true);
SELECT * FROM state();
DELETE FROM words;
VACUUM (INDEX_CLEANUP ON) words;
SELECT * FROM fold_all(complete => true);
SELECT * FROM state();
DROP TABLE words;
DROP FUNCTION state, fold_all, both_ways;
DROP PROCEDURE fill;
