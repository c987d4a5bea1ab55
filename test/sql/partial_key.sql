--
-- A partial index on an expression that fails for other rows: it is never evaluated for these,
-- wherever the scan encounters them
--
SET client_min_messages = warning;
CREATE SCHEMA partial_key;
SET search_path = partial_key, public;
SET gpujoin.force = on;
CREATE TABLE wanted (v int);
INSERT INTO wanted VALUES (1000), (50000), (7), (NULL);

-- Whole blocks, because work_mem is too low: other rows lie between the matching ones
CREATE TABLE loose (id int, x int) WITH (autovacuum_enabled = off, fillfactor = 10);
INSERT INTO loose SELECT i, i % 101 FROM generate_series(1, 40000) i;
CREATE INDEX loose_x ON loose USING gpujoin ((100000 / x)) WHERE x <> 0;
ANALYZE loose;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM loose WHERE x <> 0 AND 100000 / x <> 1000;
SELECT count(*), sum(id) FROM loose WHERE x <> 0 AND 100000 / x <> 1000;
CREATE TABLE all_keys AS SELECT DISTINCT 100000 / i AS v FROM generate_series(1, 100) i;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM loose JOIN all_keys ON 100000 / x = v WHERE x <> 0;
SELECT count(*), sum(id) FROM loose JOIN all_keys ON 100000 / x = v WHERE x <> 0;
RESET work_mem;
RESET hash_mem_multiplier;

-- The whole heap, because rows with a NULL key are requested
INSERT INTO loose VALUES (-1, NULL);
SET plan_cache_mode = force_generic_plan;
PREPARE nulls(bool) AS SELECT count(*), sum(id) FROM loose
	WHERE x <> 0 AND (100000 / x = 1000 OR (100000 / x IS NULL AND $1));
EXPLAIN (COSTS OFF) EXECUTE nulls(true);
EXECUTE nulls(true);
EXECUTE nulls(false);
RESET plan_cache_mode;

-- TIDs that a mirror still has, and that such rows have reused
CREATE TABLE e (id int, x int) WITH (autovacuum_enabled = off);
INSERT INTO e SELECT i, i % 100 + 1 FROM generate_series(1, 60000) i;
CREATE INDEX e_x ON e USING gpujoin ((100000 / x)) WHERE x <> 0;
CREATE TABLE io AS TABLE e;
ALTER TABLE io SET (autovacuum_enabled = off);
CREATE INDEX io_x ON io USING gpujoin ((100000 / x)) INCLUDE (id, x) WHERE x <> 0;
VACUUM ANALYZE e, io;
SET gpujoin.sync_blocks = 1000000;
SELECT count(*), sum(id) FROM e WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);
SELECT count(*), sum(id) FROM io WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);
DELETE FROM e WHERE x = 2 AND id % 3 = 0;
DELETE FROM io WHERE x = 2 AND id % 3 = 0;
VACUUM e, io;
INSERT INTO e SELECT -i, 0 FROM generate_series(1, 300) i;
INSERT INTO io SELECT -i, 0 FROM generate_series(1, 300) i;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM e WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);
SELECT count(*), sum(id) FROM e WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);
SELECT count(*), sum(id) FROM io WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);
SELECT count(*), sum(id) FROM e JOIN wanted ON 100000 / x = v WHERE x <> 0;
SELECT count(*), sum(id) FROM io JOIN wanted ON 100000 / x = v WHERE x <> 0;

-- A bitmap heap scan rechecks the key before the predicate: it must not get such TIDs
SET gpujoin.force = off;
SET gpujoin.min_rows = 1000000000;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM e WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);
SELECT count(*), sum(id) FROM e WHERE x <> 0 AND 100000 / x IN (1000, 50000, 7);

DROP SCHEMA partial_key CASCADE;
