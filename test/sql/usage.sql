-- Usage counters of an index: exact numbers of the CPU's work, each counted once, also for scans
-- that end early or with an error
CREATE SCHEMA usage;
SET search_path = usage, public;
SET gpujoin.auto_load = off;
SET gpujoin.force = on;
SET max_parallel_workers_per_gather = 0;

-- ten rows for each key, on heap pages in random order
CREATE TABLE t (id int, k int, g int);
INSERT INTO t SELECT i, i % 1000, i % 7 FROM generate_series(1, 10000) i;
CREATE INDEX t_k ON t USING gpujoin (k) INCLUDE (g);
VACUUM ANALYZE t;

CREATE VIEW counted AS
	SELECT indexrelname AS index, searches AS n, device_answers AS device, cpu_answers AS cpu,
		keys, pages_read AS read, pages_skipped AS skipped, tids, heap_blocks AS blocks,
		heap_fetches AS fetches, groups
	FROM pg_stat_gpujoin_indexes WHERE schemaname = 'usage' ORDER BY indexrelname;

-- Only searched indexes are listed; planning alone is no search
EXPLAIN (COSTS OFF) SELECT sum(id) FROM t WHERE k IN (1, 2, 3);
SELECT * FROM counted;

-- Rows from the heap, from the index, groups
SELECT sum(id) FROM t WHERE k IN (1, 2, 3);
SELECT * FROM counted;
SELECT gpujoin_stats_reset('t_k');
SELECT * FROM counted;
SELECT count(*) FROM (SELECT g FROM t WHERE k IN (1, 2, 3) OFFSET 0) x;
SELECT * FROM counted;
SELECT gpujoin_stats_reset('t_k');
SELECT g, count(*) FROM t WHERE k IN (1, 2, 3) GROUP BY g ORDER BY g;
SELECT * FROM counted;
SELECT gpujoin_stats_reset('t_k');

-- PostgreSQL's statistics of an index count the entries, whether rows come from the heap or the index
BEGIN;
SELECT pg_stat_get_xact_tuples_returned('t_k'::regclass) AS before \gset
SELECT sum(id) FROM t WHERE k IN (1, 2, 3);
SELECT pg_stat_get_xact_tuples_returned('t_k'::regclass) - :before AS entries;
SELECT count(*) FROM (SELECT g FROM t WHERE k IN (1, 2, 3) OFFSET 0) x;
SELECT pg_stat_get_xact_tuples_returned('t_k'::regclass) - :before AS entries;
COMMIT;
SELECT gpujoin_stats_reset('t_k');

-- Rows changed since the last VACUUM are looked up in the heap
UPDATE t SET g = 8 WHERE id = 2;
SELECT count(*) FROM (SELECT g FROM t WHERE k IN (1, 2, 3) OFFSET 0) x;
SELECT n, cpu, tids, blocks, fetches FROM counted;
SELECT gpujoin_stats_reset('t_k');
VACUUM t;

-- NOT IN, a set without keys, a NULL
SELECT count(*) FROM t WHERE k NOT IN (1, 2, 3);
SELECT count(*) FROM t WHERE k = ANY ('{}');
SELECT n, cpu, keys, tids FROM counted;
SELECT cpu_reasons->'not_in' AS not_in FROM pg_stat_gpujoin_indexes WHERE indexrelname = 't_k';
SELECT gpujoin_stats_reset('t_k');

-- A join; the same with a rescan for each of three rows
SELECT count(id) FROM generate_series(1, 5) s JOIN t ON k = s;
SELECT n, cpu, keys, tids, fetches FROM counted;
SELECT gpujoin_stats_reset('t_k');
SELECT sum(n) FROM generate_series(1, 3) s,
	LATERAL (SELECT count(id) AS n FROM t WHERE k IN (s, s + 10) OFFSET 0) x;
SELECT n, cpu, keys, tids, fetches FROM counted;
SELECT gpujoin_stats_reset('t_k');

-- ORDER BY ... LIMIT; a cursor that is closed early; an error; a bitmap scan
SELECT g FROM t WHERE k IN (1, 2, 3) ORDER BY g DESC LIMIT 2;
SELECT n, cpu, keys, tids FROM counted;
SELECT gpujoin_stats_reset('t_k');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE k IN (1, 2, 3);
FETCH 1 FROM c;
CLOSE c;
SELECT n, cpu, keys, tids FROM counted;
COMMIT;
SELECT gpujoin_stats_reset('t_k');
SELECT 1 / (id - 2) FROM t WHERE k = 2;
SELECT n, cpu, keys, tids, fetches > 0 AS fetched FROM counted;
SELECT gpujoin_stats_reset('t_k');
DO $$ BEGIN
	PERFORM 1 / (id - 2) FROM t WHERE k = 2;
EXCEPTION WHEN division_by_zero THEN NULL;
END $$;
SELECT n, cpu, keys, tids, fetches > 0 AS fetched FROM counted;
SELECT gpujoin_stats_reset('t_k');
SET gpujoin.force = off;
SET gpujoin.min_rows = 1000000;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(id) FROM t WHERE k = 5;
SELECT count(id) FROM t WHERE k = 5;
SELECT n, cpu, keys, tids FROM counted;
RESET enable_seqscan;
RESET gpujoin.min_rows;
SET gpujoin.force = on;

-- Each partition's index has its own counters
CREATE TABLE parts (id int, k int) PARTITION BY RANGE (k);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
INSERT INTO parts SELECT i, i % 20 FROM generate_series(1, 1000) i;
CREATE INDEX parts_k ON parts USING gpujoin (k);
SELECT count(id) FROM parts WHERE k = ANY (ARRAY(SELECT generate_series(3, 12)));
SELECT index, n, cpu, keys, tids FROM counted WHERE index LIKE 'parts%';
-- counting begins no later than the first search; a partitioned index represents those of its
-- partitions
SELECT bool_and(stats_reset <= last_used) AS in_order FROM pg_stat_gpujoin_indexes WHERE indexrelname LIKE 'parts%';
SELECT gpujoin_stats_reset('parts_k');
SELECT index, n, cpu, keys, tids FROM counted WHERE index LIKE 'parts%';
SELECT count(id) FROM parts WHERE k = ANY (ARRAY(SELECT generate_series(3, 12)));

-- The server's counters are the sum, whatever happens to the indexes; an index whose creation was
-- rolled back is counted among the others
BEGIN;
CREATE INDEX t_gone ON t USING gpujoin (g);
SELECT count(id) FROM t WHERE g IN (2, 3);
ROLLBACK;
SELECT sum(s.cpu_answers) = min(g.cpu_answers) AS cpu,
	sum(s.device_answers) = min(g.device_answers) AS device
FROM pg_stat_gpujoin_indexes s, gpujoin_status() g;
SELECT bool_and(coalesce(n, 0) = f.count) AS reasons FROM pg_stat_gpujoin_fallbacks f
LEFT JOIN (SELECT key, sum(value::bigint) AS n FROM pg_stat_gpujoin_indexes s,
	jsonb_each_text(cpu_reasons) GROUP BY key) r ON r.key = f.reason;

-- A dropped index is not listed any more, once the transaction has committed
BEGIN;
DROP INDEX t_k;
ROLLBACK;
BEGIN;
SAVEPOINT s;
DROP TABLE t CASCADE;
ROLLBACK TO s;
COMMIT;
SELECT index, n FROM counted;
SELECT cpu_answers AS before FROM gpujoin_status() \gset
SELECT searches AS others FROM pg_stat_gpujoin_indexes WHERE indexrelid IS NULL \gset
SELECT sum(n) AS dropped FROM counted WHERE index LIKE 'parts%' \gset
DROP TABLE parts;
SELECT index, n FROM counted;
SELECT cpu_answers - :before AS lost FROM gpujoin_status();
SELECT searches - :others - :dropped AS moved FROM pg_stat_gpujoin_indexes
WHERE indexrelid IS NULL;
-- DROP INDEX CONCURRENTLY consists of several transactions
CREATE INDEX t_g ON t USING gpujoin (g);
SELECT count(id) FROM t WHERE g = 8;
SELECT index, n FROM counted;
SELECT searches AS others FROM pg_stat_gpujoin_indexes WHERE indexrelid IS NULL \gset
DROP INDEX CONCURRENTLY t_g;
SELECT searches - :others AS moved FROM pg_stat_gpujoin_indexes WHERE indexrelid IS NULL;
SELECT index, n FROM counted;
-- REINDEX keeps the counters; REINDEX CONCURRENTLY creates another index, which starts at zero
REINDEX INDEX t_k;
SELECT index, n FROM counted;
SELECT n AS replaced FROM counted WHERE index = 't_k' \gset
SELECT searches AS others FROM pg_stat_gpujoin_indexes WHERE indexrelid IS NULL \gset
REINDEX INDEX CONCURRENTLY t_k;
SELECT index, n FROM counted;
SELECT searches - :others - :replaced AS moved FROM pg_stat_gpujoin_indexes WHERE indexrelid IS NULL;
SELECT count(id) FROM t WHERE k IN (1, 2, 3);
SELECT index, n FROM counted;
-- '-', no index, resets nothing, rather than everything
SELECT gpujoin_stats_reset('-'::regclass);
SELECT index, n FROM counted;

-- All users see the counters of this database, like those of pg_stat_user_indexes, but no others
CREATE ROLE regress_gpujoin_plain;
GRANT USAGE ON SCHEMA usage TO regress_gpujoin_plain;
SET ROLE regress_gpujoin_plain;
SELECT datname = current_database() AS here, indexrelname, searches FROM pg_stat_gpujoin_indexes
WHERE searches > 0 AND (schemaname = 'usage' OR schemaname IS NULL);
SELECT * FROM gpujoin_progress;
SELECT state FROM gpujoin_devices;
SELECT gpujoin_stats_reset('t_k');
RESET ROLE;
SET ROLE pg_monitor;
SELECT count(*) > 0 AS ok FROM gpujoin_devices;
SELECT count(*) FROM pg_stat_gpujoin_indexes WHERE indexrelid IS NULL;
RESET ROLE;

-- '-', no index, does not mean all of them
SELECT gpujoin_stats_reset('-');
SELECT sum(searches) > 0 AS kept FROM pg_stat_gpujoin_indexes;

SELECT gpujoin_stats_reset();
SELECT count(*), sum(searches) FROM pg_stat_gpujoin_indexes;
DROP SCHEMA usage CASCADE;
DROP ROLE regress_gpujoin_plain;
