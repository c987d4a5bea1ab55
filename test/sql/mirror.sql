-- Functions and views about mirrors: who may use them, and what they reject. Their effects with a
-- device are tested in test/t/; this test also runs without one.
SET client_min_messages = warning;
CREATE EXTENSION gpujoin_test;
CREATE SCHEMA mirror;
SET search_path = mirror, public;
CREATE TABLE t (id int, k int);
INSERT INTO t SELECT i, i % 100 FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING gpujoin (k);
CREATE INDEX t_id ON t (id);
CREATE TABLE part (k int) PARTITION BY RANGE (k);
CREATE INDEX part_k ON part USING gpujoin (k);

-- Reloption
ALTER INDEX t_k SET (preload);
SELECT reloptions FROM pg_class WHERE relname = 't_k';
ALTER INDEX t_k SET (preload = perhaps);
ALTER INDEX t_k RESET (preload);

-- Settings
SHOW gpujoin.auto_load;
SHOW gpujoin.sync_blocks;
SET gpujoin.sync_blocks = -1;
ALTER SYSTEM SET gpujoin.device_memory = '1MB';

-- Relations that are not indexes of ours
\set VERBOSITY terse
SELECT gpujoin_load('t_id');
SELECT gpujoin_load('t');
\set VERBOSITY default
SELECT gpujoin_load(NULL) IS NULL AS strict;
-- A partitioned index without partitions
SELECT gpujoin_load('part_k'), gpujoin_unload('part_k');

-- Answers are the same with and without a mirror, for all settings
SET gpujoin.force = on;
SET gpujoin.sync_blocks = 0;
SELECT count(*), sum(id) FROM t WHERE k IN (1, 5, 99, 100);
INSERT INTO t SELECT i, i % 100 FROM generate_series(20001, 25000) i;
SELECT count(*), sum(id) FROM t WHERE k IN (1, 5, 99, 100);
UPDATE t SET k = k + 1 WHERE id <= 5000;
DELETE FROM t WHERE id BETWEEN 6000 AND 9000;
SELECT count(*), sum(id) FROM t WHERE k IN (1, 5, 99, 100);
SET gpujoin.auto_load = off;
SELECT count(*), sum(id) FROM t WHERE k IN (1, 5, 99, 100);
SELECT missing, entries >= 20000 AS entries FROM gpujoin_mirror_check('t_k');
SELECT gpujoin_unload('t_k') IS NOT NULL AS unloaded;
SELECT count(*), sum(id) FROM t WHERE k IN (1, 5, 99, 100);
RESET gpujoin.auto_load;

-- A bitmap heap scan rechecks: the mirror still has entries whose TIDs other rows have reused
CREATE TABLE reused (id int, k int);
INSERT INTO reused SELECT i, i % 100 FROM generate_series(1, 60000) i;
CREATE INDEX reused_k ON reused USING gpujoin (k);
SET gpujoin.force = off;
SET gpujoin.sync_blocks = 1000000;
SET gpujoin.min_rows = 1000000000;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM reused WHERE k = 5;
SELECT count(*), sum(id) FROM reused WHERE k = 5;
DELETE FROM reused WHERE k = 5;
VACUUM reused;
INSERT INTO reused SELECT i, 6 FROM generate_series(1, 500) i;
SELECT count(*), sum(id) FROM reused WHERE k = 5;
SELECT count(*), sum(id) FROM reused WHERE k = 6;
RESET enable_seqscan;
RESET gpujoin.min_rows;

-- Temporary tables are never mirrored
SET gpujoin.force = on;
CREATE TEMP TABLE tmp AS SELECT * FROM t;
CREATE INDEX tmp_k ON tmp USING gpujoin (k);
SELECT count(*), sum(id) FROM tmp WHERE k IN (1, 5, 99, 100);
SELECT count(*) FROM gpujoin_mirrors() WHERE index = 'tmp_k'::regclass;
RESET gpujoin.force;

-- Privileges
CREATE ROLE regress_gpujoin_user;
CREATE ROLE regress_gpujoin_monitor;
GRANT pg_monitor TO regress_gpujoin_monitor;
GRANT USAGE ON SCHEMA mirror TO regress_gpujoin_user;
SET ROLE regress_gpujoin_user;
SELECT gpujoin_load('t_k');
SELECT gpujoin_unload('t_k');
SELECT state FROM pg_stat_gpujoin;
SELECT * FROM gpujoin_mirrors();
SELECT gpujoin_stats_reset();
SELECT gpujoin_mirror_check('t_k');
SET ROLE regress_gpujoin_monitor;
SELECT count(*) > 0 AS ok FROM pg_stat_gpujoin;
SELECT count(*) >= 0 AS ok FROM pg_stat_gpujoin_mirrors;
SELECT reason, description FROM pg_stat_gpujoin_fallbacks;
SELECT gpujoin_stats_reset();
RESET ROLE;
SELECT gpujoin_stats_reset();
SELECT count(*) FROM pg_stat_gpujoin_fallbacks WHERE count > 0;

DROP SCHEMA mirror CASCADE;
DROP TABLE pg_temp.tmp;
DROP ROLE regress_gpujoin_user, regress_gpujoin_monitor;
DROP EXTENSION gpujoin_test;
