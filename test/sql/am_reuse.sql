-- Free slots and free pages are reused: ten rounds of updating every row leave an index of at most
-- twice its fresh size (plus a delta of all rows, and what the lanes keep open).
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
CREATE TABLE reuse (id int, k int, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO reuse SELECT i, i * 7 % 50000, i FROM generate_series(1, 50000) i;
CREATE INDEX reuse_k ON reuse USING gpujoin (k);
CREATE INDEX reuse_b ON reuse USING gpujoin (b);
CREATE TABLE fresh AS
	SELECT pg_relation_size('reuse_k') AS k, pg_relation_size('reuse_b') AS b;
SELECT k / 50000.0 <= 8 AS "at most 8 bytes a row" FROM fresh;

-- three versions of each row, then only the last one
UPDATE reuse SET k = k + 1, b = b + 1;
UPDATE reuse SET k = k + 1, b = b + 1;
SELECT gpujoin_check('reuse_k', true) AS entries_before_vacuum;
VACUUM reuse;
SELECT gpujoin_check('reuse_k', true), gpujoin_check('reuse_b', true);
VACUUM FULL reuse;

-- the actual rounds
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
UPDATE reuse SET k = k + 1, b = b + 1; VACUUM reuse;
SELECT gpujoin_check('reuse_k', true), gpujoin_check('reuse_b', true);
SELECT pg_relation_size('reuse_k') <= 2 * k + 50000 * 11 + 8 * 8192 AS k_is_bounded,
	pg_relation_size('reuse_b') <= 2 * b + 50000 * 15 + 8 * 8192 AS b_is_bounded FROM fresh;
SELECT entries, vacuum_epoch >= 10 AS vacuumed FROM gpujoin_index_info('reuse_k');

-- the same with gaps everywhere: half of each page's entries die in turn
DELETE FROM reuse WHERE id % 2 = 0; VACUUM reuse;
INSERT INTO reuse SELECT i, i, i FROM generate_series(1, 25000) i;
DELETE FROM reuse WHERE id % 3 = 0; VACUUM reuse;
INSERT INTO reuse SELECT i, i, i FROM generate_series(1, 16000) i;
SELECT gpujoin_check('reuse_k', true) = count(*) AS complete FROM reuse;
SELECT pg_relation_size('reuse_k') <= 2 * k + 50000 * 11 + 8 * 8192 AS k_is_bounded FROM fresh;

-- a deletion judges the entries of many pages at a time: here, of two
SET gpujoin.debug_step = 'short';
DELETE FROM reuse WHERE id % 5 = 0; VACUUM reuse;
RESET gpujoin.debug_step;
SELECT gpujoin_check('reuse_k', true) = count(*) AS complete_k,
	gpujoin_check('reuse_b', true) = count(*) AS complete_b FROM reuse;

-- entries out of heap order: the answers are the same, each row once
RESET gpujoin.auto_load;
SET gpujoin.force = on;
SELECT count(*), sum(id) FROM reuse WHERE k = ANY (ARRAY(SELECT generate_series(1, 60000)));
SET gpujoin.force = off;
SET gpujoin.enabled = off;
SELECT count(*), sum(id) FROM reuse WHERE k IN (SELECT generate_series(1, 60000));
DROP TABLE reuse, fresh;

-- few keys on pages with gaps, from the index alone: places of deleted entries have other rows now
SET gpujoin.auto_load = off;
SET synchronous_commit = on;
CREATE TABLE gaps (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO gaps SELECT i / 20, i FROM generate_series(0, 19999) i;
CREATE INDEX gaps_k ON gaps USING gpujoin (k) INCLUDE (v);
DELETE FROM gaps WHERE v % 11 = 0 OR k % 70 = 0;
VACUUM (INDEX_CLEANUP on) gaps;
INSERT INTO gaps SELECT -1, -1 FROM generate_series(1, 2000);
VACUUM (FREEZE) gaps;
SELECT relallvisible = relpages AS all_visible FROM pg_class WHERE relname = 'gaps';
SET gpujoin.enabled = on;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT k, count(*), sum(v) FROM gaps WHERE k IN (70, 71, 500, 998) GROUP BY k;
SELECT k, count(*), sum(v) FROM gaps WHERE k IN (70, 71, 500, 998) GROUP BY k ORDER BY k;
SELECT count(*), sum(v), min(ctid) IS NOT NULL AS fetched FROM gaps WHERE k IN (70, 71, 500, 998);
SET gpujoin.enabled = off;
SELECT k, count(*), sum(v) FROM gaps WHERE k IN (70, 71, 500, 998) GROUP BY k ORDER BY k;
DROP TABLE gaps;
