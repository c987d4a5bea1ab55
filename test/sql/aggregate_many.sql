--
-- GpuAgg: many groups of rows that hardly ever repeat, which are looked up when all rows have
-- arrived
--
CREATE SCHEMA aggregate_many;
SET search_path = aggregate_many, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '64MB';

-- pairs of a and b in random order, one row in 13 repeats an earlier pair; NULLs from row 35000 on
CREATE TABLE facts (id int, k int, a int, b int, v int, w int8, y float8, f bool)
	WITH (autovacuum_enabled = off);
INSERT INTO facts SELECT i, i % 50, CASE WHEN i < 35000 OR i % 5 > 0 THEN hashint4(n) END,
	CASE WHEN i < 35000 OR i % 3 > 0 THEN n % 9 END, CASE WHEN i % 11 > 0 THEN i - 20000 END,
	9223372036854775807 - i, i / 8.0, i % 4 = 0
FROM (SELECT i, CASE WHEN i % 13 = 0 THEN i / 13 ELSE i END AS n FROM generate_series(1, 50000) i) r;
CREATE INDEX ON facts USING gpujoin (k) INCLUDE (id, a, b, v, w, y, f);
VACUUM (FREEZE, ANALYZE) facts;
-- keys that occur once and twice, and few keys
CREATE TABLE small AS SELECT i % 50 AS k, 'name ' || i % 3 AS name FROM generate_series(1, 70) i;
CREATE TABLE few AS SELECT i AS k, 'name ' || i % 3 AS name FROM generate_series(1, 9) i;
ANALYZE small, few;

-- for this many rows, compare their number and a sum of hashes
PREPARE hashed (text[]) AS SELECT c.* FROM unnest($1) q, compare('SELECT count(*),
	sum(hashtextextended(u::text, 0)::numeric) FROM (' || q || ' OFFSET 0) u') c;
EXECUTE hashed(ARRAY[
	'SELECT a, b, count(*), count(v), sum(v), min(v), max(w) FROM facts
		WHERE k < 45 AND k = ANY (ARRAY(SELECT k FROM small)) GROUP BY a, b',
	'SELECT a, b, count(*), sum(w), avg(v), avg(w), bool_and(f), max(y), sum(v) FILTER (WHERE f),
		min(y) FILTER (WHERE f) FROM facts JOIN small USING (k) GROUP BY a, b HAVING count(*) <> 2',
	'SELECT DISTINCT a, b FROM facts JOIN small USING (k)',
	-- with sums of floats, or with sets, no row is deferred
	'SELECT a, b, count(*), sum(y), avg(y) FROM facts JOIN small USING (k) GROUP BY a, b',
	'SELECT a, b, count(*), count(DISTINCT v) FROM facts JOIN small USING (k) GROUP BY a, b',
	-- only the requested rows
	'SELECT a, b, count(*), rank() OVER (ORDER BY count(*), a, b) FROM facts JOIN small USING (k)
		GROUP BY a, b ORDER BY 4 LIMIT 40']);
-- groups of groups, passed as arrays
SELECT * FROM compare('SELECT n, count(*), sum(s) FROM (SELECT a, b, count(*) AS n, sum(v) AS s FROM facts
	WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY a, b OFFSET 0) u GROUP BY n');
-- without memory for everything: for some of the deferred rows, and for none
SET work_mem = '4MB';
EXECUTE hashed(ARRAY['SELECT a, b, count(*), count(v), sum(w), min(v) FROM facts
	JOIN small USING (k) GROUP BY a, b']);
SET work_mem = '1MB';
EXECUTE hashed(ARRAY['SELECT a, b, count(*), count(v), sum(w), min(v) FROM facts
	JOIN small USING (k) GROUP BY a, b']);
RESET work_mem;

-- groups that are returned again, with a column whose values are numbered
SET enable_material = off;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT i, u.* FROM generate_series(1, 3) i LEFT JOIN (SELECT name, count(*) AS n, avg(v) AS m
	FROM few JOIN facts USING (k) GROUP BY name OFFSET 0) u ON true;
RESET gpujoin.force;
SELECT * FROM compare('SELECT i, u.* FROM generate_series(1, 3) i LEFT JOIN (SELECT name, count(*) AS n, avg(v) AS m
	FROM few JOIN facts USING (k) GROUP BY name OFFSET 0) u ON true');
-- ... before the last one
SELECT * FROM compare('SELECT i, count(*), bool_and(name LIKE ''name _'' AND n > 1) FROM generate_series(1, 3) i,
	LATERAL (SELECT name, count(*) AS n FROM few JOIN facts USING (k) GROUP BY name LIMIT i) u GROUP BY i');

-- rows that their consumer materializes and changes: the slot belongs to us with a partitioned
-- table
CREATE TABLE parted (a int, b int, n int8, m numeric) PARTITION BY HASH (a);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.n := NEW.n + 1000;
	RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT ON parted_1 FOR EACH ROW WHEN (NEW.b = 3) EXECUTE FUNCTION change();
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) INSERT INTO parted SELECT a, b, count(*), avg(w) FROM facts WHERE k IN (1, 2, 3) GROUP BY a, b;
INSERT INTO parted SELECT a, b, count(*), avg(w) FROM facts WHERE k IN (1, 2, 3) GROUP BY a, b;
SET gpujoin.force = off;
SET gpujoin.enabled = off;
SELECT tableoid::regclass AS part, count(*), count(*) FILTER (WHERE b = 3) AS threes,
	count(*) FILTER (WHERE n > 1000) AS changed FROM parted GROUP BY 1 ORDER BY 1;
SELECT count(*) AS wrong FROM (SELECT a, b, n % 1000 AS n, m FROM parted EXCEPT ALL
	SELECT a, b, count(*), avg(w) FROM facts WHERE k IN (1, 2, 3) GROUP BY a, b) d;
RESET gpujoin.enabled;
RESET gpujoin.force;

DROP SCHEMA aggregate_many CASCADE;
