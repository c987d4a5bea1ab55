-- GpuJoin, small sides that exceed work_mem: joined in batches, the same rows in every join type.
CREATE SCHEMA gj_batches;
SET search_path = gj_batches, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/join.sql

-- 40,000 rows in random order: repeated keys, a key with thousands of duplicates, NULL keys
CREATE TABLE wide (k int, x int, label text);
INSERT INTO wide
SELECT CASE WHEN i % 10 = 0 THEN 33 WHEN i % 97 = 0 THEN NULL ELSE i * 7 % 3000 END,
	   i % 13, repeat('x', i % 40)
FROM generate_series(1, 40000) i;
ANALYZE wide;

-- Return the number of batches of a query, and the number of rows from the small side
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
-- stopped in the middle
SELECT 1 AS one FROM big b JOIN wide s ON b.key = s.k LIMIT 1;
SELECT sum(1 / (b.v - 4)) FROM big b JOIN wide s ON b.key = s.k;
SELECT count(*) FROM big b JOIN wide s ON b.key = 1 / (s.x - 4);
-- started in a subtransaction that is rolled back
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
