-- Format versions of an index: one of version 2, which the first release has left, or of version 3,
-- is searched, filled, vacuumed and checked as it is, and the first fold turns it into one of version
-- 4, which has room for more than eight runs, and narrow pages.  Its older runs keep their plain
-- pages until they are merged.
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpujoin_test;
RESET client_min_messages;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE TABLE formats (id int, k int) WITH (autovacuum_enabled = off);
SET gpujoin.debug_step = 'plain pages';
CREATE INDEX formats_k ON formats USING gpujoin (k) INCLUDE (id) WITH (lanes = 1);
SELECT gpujoin_use_format('formats_k', 3);
INSERT INTO formats SELECT i, i % 5000 FROM generate_series(1, 48000) i;
SELECT gpujoin_fold('formats_k') > 50 AS folded;
CREATE VIEW about AS SELECT format_version AS format, runs, delta_pages > 0 AS delta,
	gpujoin_check('formats_k', true) AS entries FROM gpujoin_index_info('formats_k');
CREATE VIEW bytes AS SELECT column_bytes FROM gpujoin_index_info('formats_k');
SELECT * FROM about;
SELECT * FROM bytes;
RESET gpujoin.debug_step;

SELECT gpujoin_use_format('formats_k', 2);
SELECT * FROM about;
SET gpujoin.force = on;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4999, -1)');

-- insertions, deletions and VACUUM need no more than version 2
INSERT INTO formats SELECT i, i % 5000 FROM generate_series(48001, 49000) i;
DELETE FROM formats WHERE id % 1000 = 0;
VACUUM formats;
SELECT * FROM about;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');

-- the first fold: a run of narrow pages beside one of plain pages
SELECT gpujoin_fold('formats_k') > 0 AS folded;
SELECT * FROM about;
SELECT * FROM bytes;
CREATE VIEW answers AS SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)')
UNION ALL SELECT * FROM both_ways('SELECT id, k FROM formats WHERE k = ANY (ARRAY(SELECT generate_series(-1, 5000, 2)))')
UNION ALL SELECT * FROM both_ways('SELECT id FROM formats WHERE k BETWEEN 4000 AND 4100');
SELECT * FROM answers;

-- a mirror of both, with room for the pages of the next fold, but not for those of the next merge
CREATE VIEW devices AS SELECT device_answers > 0 AS used, reductions_failed AS failed FROM pg_stat_gpujoin_indexes WHERE indexrelname = 'formats_k';
VACUUM formats;
SELECT gpujoin_load('formats_k');
SELECT * FROM answers;
SELECT * FROM devices;
INSERT INTO formats SELECT i, 77 FROM generate_series(1, 12000) i;
SELECT gpujoin_fold('formats_k') > 0 AS folded;
SELECT * FROM answers;
SELECT gpujoin_load('formats_k');
SELECT * FROM answers;
SELECT * FROM bytes;
DELETE FROM formats WHERE k = 77 AND id > 5;
VACUUM formats;
SELECT * FROM about;
SELECT * FROM answers;

-- four runs of nine pages, four of three, two of one
CREATE FUNCTION insert_and_fold(rows int, times int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR round IN 1 .. times LOOP
		INSERT INTO formats SELECT i, i * 7 % 5000 FROM generate_series(1, rows) i;
		PERFORM gpujoin_fold('formats_k');
	END LOOP;
END $$;
SELECT gpujoin_fold('formats_k', true) >= 0 AS merged;
SELECT * FROM answers;
SELECT * FROM bytes;
SELECT gpujoin_load('formats_k');
SELECT * FROM answers;
SELECT insert_and_fold(7200, 4), insert_and_fold(2400, 4), insert_and_fold(800, 2);
SELECT * FROM about;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');
DELETE FROM formats WHERE id % 1000 = 7;
VACUUM formats;
SELECT runs, dead_entries FROM gpujoin_index_info('formats_k');
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');
-- this index cannot be of version 2 any longer
SELECT gpujoin_use_format('formats_k', 2);
SELECT gpujoin_fold('formats_k', true) > 20 AS merged;
SELECT * FROM about;

SELECT pg_relation_size('formats_k') / 8192 AS pages \gset
REINDEX INDEX formats_k;
SELECT * FROM about;
SELECT pg_relation_size('formats_k') / 8192 < 0.7 * :pages AS smaller;
SELECT * FROM both_ways('SELECT id FROM formats WHERE k IN (7, 1, 100, 4000, -1)');
SELECT gpujoin_use_format('formats_k', 3);
DROP VIEW answers, bytes, devices, about;
DROP TABLE formats;

-- a small run does not make the pages of the next one small
CREATE TABLE formats (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO formats SELECT i, i FROM generate_series(1, 20) i;
CREATE INDEX formats_k ON formats USING gpujoin (k);
INSERT INTO formats SELECT i, i FROM generate_series(1, 100000) i;
SELECT gpujoin_fold('formats_k') BETWEEN 40 AND 80 AS folded;
SELECT gpujoin_check('formats_k', true) AS entries;
DROP TABLE formats;

-- pages of one key could have twice as many entries as others, but a mirror would need room for
-- these everywhere, so a build writes more of them, although they come first
CREATE TABLE formats AS
SELECT CASE WHEN i % 10 < 3 THEN 0 ELSE i * bigint '7919' % 2000000011 END::int AS k
FROM generate_series(1, 300000) i;
CREATE INDEX formats_k ON formats USING gpujoin (k);
CREATE INDEX formats_same ON formats USING gpujoin (k) WHERE k = 0;
CREATE INDEX formats_other ON formats USING gpujoin (k) WHERE k > 0;
SELECT 2 * (k.run_pages[1] - other.run_pages[1]) > 3 * same.run_pages[1] AS more
FROM gpujoin_index_info('formats_k') k, gpujoin_index_info('formats_same') same,
	gpujoin_index_info('formats_other') other;
SELECT gpujoin_check('formats_k', true) AS entries;
DROP TABLE formats;

DROP FUNCTION insert_and_fold, both_ways;
DROP EXTENSION gpujoin_test;
