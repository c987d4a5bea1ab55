--
-- The metapage's bits of empty tails: taken back by a tail's first row, set again by a fold
--
CREATE SCHEMA tail_bits;
SET search_path = tail_bits, public;
SET gpujoin.force = on;
SET gpujoin.auto_load = off;

CREATE TABLE big (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 100 FROM generate_series(1, 4000) i;
CREATE INDEX big_k ON big USING gpujoin (k) WITH (lanes = 8, fold_pages = 0);
VACUUM ANALYZE big;

-- Pages that a search of the index reads, and rows that it finds
CREATE FUNCTION look(OUT pages int, OUT rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, FORMAT json) SELECT id FROM big WHERE k = 7' INTO plan;
	pages := plan->0->'Plan'->>'Pages Read';
	SELECT count(id) INTO rows FROM big WHERE k = 7;
END $$;
SELECT * FROM look();

-- The tail has a row; VACUUM empties it, and a search reads it nevertheless
INSERT INTO big VALUES (5001, 7);
SELECT * FROM look();
DELETE FROM big WHERE id = 5001;
VACUUM big;
SELECT * FROM look();

-- The lane has a page open when a fold finds its tail empty: the bit is set, and the next row takes it back
INSERT INTO big SELECT i, 8 FROM generate_series(6001, 6500) i;
DELETE FROM big WHERE id > 6000;
VACUUM big;
SELECT gpujoin_fold('big_k') >= 0 AS folded;
SELECT * FROM look();
INSERT INTO big VALUES (5002, 7);
SELECT * FROM look();
SELECT gpujoin_check('big_k') > 0 AS checked;

-- The lane has none, as only the next session, which most likely uses another one, has filled its tail
DELETE FROM big WHERE id = 5002;
VACUUM big;
\c -
SET search_path = tail_bits, public;
SET gpujoin.force = on;
SET gpujoin.auto_load = off;
INSERT INTO big SELECT i, 8 FROM generate_series(7001, 7500) i;
DELETE FROM big WHERE id > 7000;
VACUUM big;
SELECT gpujoin_fold('big_k') >= 0 AS folded;
SELECT * FROM look();
INSERT INTO big SELECT i, i % 10 FROM generate_series(8001, 8030) i;
SELECT * FROM look();
SELECT gpujoin_check('big_k') > 0 AS checked;

-- NULL keys have a tail without a bit
INSERT INTO big VALUES (9001, NULL);
SELECT id FROM big WHERE k IS NULL;
DELETE FROM big WHERE k IS NULL;
VACUUM big;
SELECT gpujoin_fold('big_k') >= 0 AS folded;
INSERT INTO big VALUES (9002, NULL), (9003, 7);
SELECT id FROM big WHERE k IS NULL;
SELECT * FROM look();
SELECT gpujoin_check('big_k') > 0 AS checked;

SET client_min_messages = warning;
DROP SCHEMA tail_bits CASCADE;
