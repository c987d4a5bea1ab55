-- GpuJoin, small sides that exceed work_mem: joined in batches, the same rows in every join type.
CREATE SCHEMA gj_batches;
SET search_path = gj_batches, public;

-- Run a query under gpujoin.force and with gpujoin off. Says which GpuJoin nodes the forced plan
-- has, how many rows come, and how many rows of either answer the other one lacks.
CREATE FUNCTION compare(query text, OUT nodes text, OUT n bigint, OUT missing bigint,
						OUT surplus bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		CONTINUE WHEN line !~ 'Join Type: ';
		nodes = concat_ws(', ', nodes, substring(line FROM 'Join Type: (.*)'));
	END LOOP;
	EXECUTE 'CREATE TEMP TABLE ours AS ' || query;
	PERFORM set_config('gpujoin.force', 'off', true), set_config('gpujoin.enabled', 'off', true);
	EXECUTE 'CREATE TEMP TABLE stock AS ' || query;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	SELECT count(*) INTO n FROM ours;
	SELECT count(*) INTO missing FROM (TABLE stock EXCEPT ALL TABLE ours) d;
	SELECT count(*) INTO surplus FROM (TABLE ours EXCEPT ALL TABLE stock) d;
	DROP TABLE ours, stock;
END $$;

CREATE TABLE big (id int, key int, v int, t text);
INSERT INTO big
SELECT i, CASE WHEN i % 50 > 0 THEN i * 7919 % 1000 END, i % 10, 'row ' || i
FROM generate_series(1, 20000) i;
CREATE INDEX ON big USING gpujoin (key);
-- some HOT chains, dead rows, new entries
UPDATE big SET v = v + 10 WHERE id % 17 = 0;
UPDATE big SET key = key + 1 WHERE id % 19 = 0;
DELETE FROM big WHERE id % 23 = 0;
CREATE TABLE small (k int, x int, label text);
INSERT INTO small SELECT i * 3, i % 4, 'label ' || i FROM generate_series(1, 60) i;
INSERT INTO small VALUES (6, 1, 'twice'), (6, 12, NULL), (NULL, 1, 'null'), (NULL, 2, 'null'),
	(5000, 1, 'absent'), (-1, NULL, 'negative');
ANALYZE big, small;

-- 40,000 rows in random order: keys many times, a key with thousands of duplicates, NULL keys
CREATE TABLE wide (k int, x int, label text);
INSERT INTO wide
SELECT CASE WHEN i % 10 = 0 THEN 33 WHEN i % 97 = 0 THEN NULL ELSE i * 7 % 3000 END,
	   i % 13, repeat('x', i % 40)
FROM generate_series(1, 40000) i;
ANALYZE wide;

-- How many batches a query takes, and how many rows came from the small side
CREATE FUNCTION batches(query text, OUT small_rows int, OUT batches int) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF) ' || query LOOP
		small_rows = coalesce(small_rows, substring(line FROM 'Small Rows: (.*)')::int);
		batches = coalesce(batches, substring(line FROM 'Batches: (.*)')::int);
	END LOOP;
END $$;

SET work_mem = '64kB';
SELECT small_rows, batches > 10 AS many FROM batches(
	'SELECT count(*) FROM big b JOIN wide s ON b.key = s.k WHERE b.id < 3000');
SELECT small_rows, batches > 10 AS many FROM batches(
	'SELECT count(*) FROM big b WHERE key IN (SELECT k FROM wide)');
SELECT small_rows, batches > 10 AS many FROM batches(
	'SELECT count(*) FROM wide s WHERE NOT EXISTS (SELECT FROM big b WHERE b.key = s.k)');
SELECT * FROM compare('SELECT b.id, s.x, length(s.label) AS l FROM big b JOIN wide s ON b.key = s.k
	WHERE b.id < 3000');
SELECT * FROM compare('SELECT b.id, s.x FROM big b JOIN wide s ON b.key = s.k AND s.x = b.v');
SELECT * FROM compare('SELECT b.* FROM big b WHERE key IN (SELECT k FROM wide)');
SELECT * FROM compare('SELECT b.* FROM big b WHERE EXISTS
	(SELECT FROM wide s WHERE b.key = s.k AND s.x = b.v)');
SELECT * FROM compare('SELECT s.* FROM wide s WHERE EXISTS (SELECT FROM big b WHERE b.key = s.k)');
SELECT * FROM compare('SELECT s.* FROM wide s WHERE EXISTS
	(SELECT FROM big b WHERE b.key = s.k AND s.x = b.v)');
SELECT * FROM compare('SELECT s.* FROM wide s WHERE NOT EXISTS
	(SELECT FROM big b WHERE b.key = s.k AND s.x = b.v)');
SELECT * FROM compare('SELECT s.*, b.id FROM wide s LEFT JOIN big b ON b.key = s.k AND s.x = b.v');
SELECT * FROM compare('SELECT s.*, b.id FROM wide s LEFT JOIN big b ON b.key = s.k AND s.x = b.v
	WHERE b.id IS NULL OR b.id % 3 = 0');

-- a rescan reads the sorted rows again
SELECT * FROM compare('SELECT o.k, l.n FROM (VALUES (1), (5), (9)) o(k), LATERAL
	(SELECT count(*) AS n FROM big b JOIN wide s ON b.key = s.k WHERE b.v = o.k OFFSET 0) l');
-- a volatile small side is evaluated once
CREATE SEQUENCE evaluated;
SET gpujoin.force = on;
SELECT count(*) > 0 AS some FROM big b
JOIN (SELECT k, nextval('evaluated') AS n FROM wide OFFSET 0) s ON b.key = s.k;
SELECT last_value FROM evaluated;
-- given up in the middle
SELECT 1 AS one FROM big b JOIN wide s ON b.key = s.k LIMIT 1;
SELECT sum(1 / (b.v - 4)) FROM big b JOIN wide s ON b.key = s.k;
SELECT count(*) FROM big b JOIN wide s ON b.key = 1 / (s.x - 4);
-- begun in a subtransaction that is rolled back
BEGIN;
DECLARE c CURSOR FOR SELECT b.id FROM big b JOIN wide s ON b.key = s.k ORDER BY 1 LIMIT 3;
SAVEPOINT before;
FETCH 1 FROM c;
ROLLBACK TO before;
FETCH ALL FROM c;
COMMIT;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA gj_batches CASCADE;
