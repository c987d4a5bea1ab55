-- Format versions of an index: one of version 2, which the first release has left, is searched,
-- filled, vacuumed and checked as it is, and the first fold turns it into one of version 3, which
-- has room for more than eight runs.
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpujoin_test;
RESET client_min_messages;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE TABLE formats (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO formats SELECT i, i % 5000 FROM generate_series(1, 48000) i;
CREATE INDEX formats_k ON formats USING gpujoin (k) WITH (lanes = 1);
CREATE VIEW about AS SELECT format_version AS format, runs, delta_pages > 0 AS delta,
	gpujoin_check('formats_k', true) AS entries FROM gpujoin_index_info('formats_k');
SELECT * FROM about;

SELECT gpujoin_use_format_2('formats_k');
SELECT * FROM about;
SET gpujoin.force = on;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4999, -1)');

-- insertions, deletions and VACUUM need no more than version 2
INSERT INTO formats SELECT i, i % 5000 FROM generate_series(48001, 49000) i;
DELETE FROM formats WHERE id % 1000 = 0;
VACUUM formats;
SELECT * FROM about;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');

-- the first fold
SELECT gpujoin_fold('formats_k') > 0 AS folded;
SELECT * FROM about;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');

-- four runs of nine pages, four of three, two of one
CREATE FUNCTION insert_and_fold(rows int, times int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR round IN 1 .. times LOOP
		INSERT INTO formats SELECT i, i * 7 % 5000 FROM generate_series(1, rows) i;
		PERFORM gpujoin_fold('formats_k');
	END LOOP;
END $$;
SELECT gpujoin_fold('formats_k', true) > 60 AS merged;
SELECT insert_and_fold(7200, 4), insert_and_fold(2400, 4), insert_and_fold(800, 2);
SELECT * FROM about;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');
DELETE FROM formats WHERE id % 1000 = 7;
VACUUM formats;
SELECT runs, dead_entries FROM gpujoin_index_info('formats_k');
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');
-- this index cannot be of version 2 any longer
SELECT gpujoin_use_format_2('formats_k');
SELECT gpujoin_fold('formats_k', true) > 60 AS merged;
SELECT * FROM about;
DROP TABLE formats CASCADE;

DROP FUNCTION insert_and_fold, both_ways;
DROP EXTENSION gpujoin_test;
