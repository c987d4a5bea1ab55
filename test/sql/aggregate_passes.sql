--
-- Groups and distinct values that do not fit in memory: rows are spilled, and read once
--
CREATE SCHEMA aggregate_passes;
SET search_path = aggregate_passes, public;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE facts (id int, k int, a int2, b int4, c int8, f bool, y float8, n int)
	WITH (autovacuum_enabled = off);
INSERT INTO facts SELECT i, i % 100, nullif(i % 13, 0), hashint4(i % 9000) , hashint8(i % 7000)::int8 << 20,
	i % 3 = 0, i / 4.0, CASE WHEN i % 5 > 0 THEN i - 10000 END FROM generate_series(1, 20000) i;
CREATE INDEX ON facts USING gpujoin (k) INCLUDE (id, a, b, c, f, y, n);
VACUUM (FREEZE, ANALYZE) facts;
-- keys that occur once, twice and more often
CREATE TABLE small AS SELECT i % 90 AS k, i % 4 AS g FROM generate_series(1, 130) i;
ANALYZE small;

-- Run a query without and with gpujoin; return how many rows differ, and what GpuAgg reports
CREATE FUNCTION compare(query text, OUT n bigint, OUT differ bigint, OUT rows_read bigint,
	OUT passes text, OUT disk text, OUT memory text) LANGUAGE plpgsql AS $$
DECLARE
	top jsonb;
BEGIN
	PERFORM set_config('gpujoin.enabled', 'off', true);
	EXECUTE 'CREATE TEMP TABLE stock ON COMMIT DROP AS SELECT t::text AS line FROM (' || query || ') t';
	PERFORM set_config('gpujoin.enabled', 'on', true);
	PERFORM set_config('gpujoin.force', 'on', true);
	EXECUTE 'CREATE TEMP TABLE ours ON COMMIT DROP AS SELECT t::text AS line FROM (' || query || ') t';
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO top;
	PERFORM set_config('gpujoin.force', 'off', true);
	SELECT count(*) INTO n FROM stock;
	SELECT count(*) INTO differ FROM ((TABLE stock EXCEPT ALL TABLE ours) UNION ALL
		(TABLE ours EXCEPT ALL TABLE stock)) d;
	SELECT (p -> 'Rows From Arrays')::bigint + (p -> 'Rows From Slots')::bigint,
		CASE WHEN (p -> 'Passes')::int > 1 THEN 'many' ELSE 'one' END,
		CASE WHEN (p -> 'Disk Usage')::int > 0 THEN 'used' END,
		CASE WHEN (p -> 'Memory Usage')::int <= 400 THEN 'little' ELSE 'much' END
		INTO rows_read, passes, disk, memory
		FROM jsonb_path_query(top, 'strict $.**?(@."Custom Plan Provider" == "GpuAgg")') p;
	DROP TABLE stock, ours;
END $$;
-- This session's temporary files
CREATE FUNCTION files() RETURNS bigint LANGUAGE sql AS
	$$SELECT count(*) FROM pg_ls_tmpdir() WHERE name LIKE 'pgsql_tmp' || pg_backend_pid() || '.%'$$;

SET work_mem = '64kB';
-- groups by one column, whose values are close together or not; by several, with NULLs
SELECT * FROM compare('SELECT id, count(*), sum(a), max(y) FROM facts WHERE k < 90
	AND k IN (SELECT k FROM small) GROUP BY id');
SELECT * FROM compare('SELECT n, count(*), min(c) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY n');
SELECT * FROM compare('SELECT b, count(*), avg(a) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY b');
SELECT * FROM compare('SELECT c, count(a), avg(y), bool_or(f) FROM facts
	WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY c');
SELECT * FROM compare('SELECT a, b, n, f, count(*), sum(c) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))
	GROUP BY a, b, n, f');
SELECT * FROM compare('SELECT DISTINCT id, b, c, a FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))');
-- filters, and rows that represent several rows
SELECT * FROM compare('SELECT id, c, count(*) FILTER (WHERE f), sum(n) FILTER (WHERE a > 3), sum(a + 1)
	FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY id, c');
SELECT * FROM compare('SELECT id, c, count(*), sum(a), avg(y), count(n) FROM facts JOIN small USING (k)
	GROUP BY id, c');
SELECT * FROM compare('SELECT id, g, count(*), sum(a) FROM facts JOIN small USING (k) GROUP BY id, g
	HAVING count(*) > 1');
-- groups of groups
SELECT * FROM compare('SELECT n, count(*) FROM (SELECT id, b, count(*) AS n FROM facts JOIN small USING (k)
	GROUP BY id, b OFFSET 0) u GROUP BY n');

-- distinct values, without groups: close together, far apart, wide, with zero and NULL
SELECT * FROM compare('SELECT count(DISTINCT n) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM compare('SELECT count(DISTINCT b), count(DISTINCT b % 8), count(*) FROM facts JOIN small USING (k)');
SELECT * FROM compare('SELECT count(DISTINCT c), count(DISTINCT c) FILTER (WHERE f), count(DISTINCT id * 1000)
	FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM compare('SELECT count(DISTINCT CASE WHEN id < 5000 THEN id ELSE b / 2 * 2 END) FROM facts
	WHERE k = ANY (ARRAY(SELECT k FROM small))');
-- in few groups, in many, in one with most of the values
SELECT * FROM compare('SELECT a, count(DISTINCT b), count(DISTINCT c), count(DISTINCT f) FROM facts
	JOIN small USING (k) GROUP BY a');
SELECT * FROM compare('SELECT b, count(DISTINCT id), sum(c) FROM facts JOIN small USING (k) GROUP BY b');
SELECT * FROM compare('SELECT c, a, count(DISTINCT id), count(DISTINCT c) FROM facts
	WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY c, a');
SELECT * FROM compare('SELECT greatest(b, 2000000000) AS g, count(DISTINCT id), count(DISTINCT c) FROM facts
	WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY 1');
SELECT files();

-- a query that stops early does not wait for the other passes, and leaves no file behind
SET gpujoin.force = on;
CREATE FUNCTION passes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE) ' || query LOOP
		IF line ~ 'Passes|Disk' THEN
			RETURN regexp_replace(line, '\d+', 'N');
		END IF;
	END LOOP;
END $$;
SELECT passes('SELECT id, c FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY id, c');
SELECT passes('SELECT id, c FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY id, c LIMIT 10');
SELECT files();
BEGIN;
DECLARE few CURSOR FOR SELECT id, c, count(*) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))
	GROUP BY id, c;
MOVE 5000 FROM few;
SELECT files();
SAVEPOINT s;
DECLARE others CURSOR FOR SELECT id, n, count(*) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))
	GROUP BY id, n;
MOVE 5000 FROM others;
SELECT files();
ROLLBACK TO s;
SELECT files();
MOVE ALL FROM few;
CLOSE few;
SELECT files();
COMMIT;
-- nor does a query that fails: because the disk limit is reached, or in the middle
SET temp_file_limit = '128kB';
\set VERBOSITY sqlstate
SELECT id, c, count(*) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY id, c;
SELECT count(DISTINCT b) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small));
\set VERBOSITY default
RESET temp_file_limit;
SELECT files();
SELECT id, c, sum(1 / (id - 20000 + 11)) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY id, c;
SELECT id, c, count(*), 1 / (id - 20000 + 11) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) GROUP BY id, c;
SELECT files();

CREATE FUNCTION again(times int) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, FORMAT JSON) SELECT i, (SELECT count(*) FROM (SELECT id FROM facts
		WHERE k = ANY (ARRAY(SELECT k FROM small)) AND id > i GROUP BY id, c LIMIT 900) u) AS n
		FROM generate_series(1, %s) i', times) INTO plan;
	RETURN plan;
END $$;
-- repeatedly: each execution creates a new file
SELECT i, n, m FROM generate_series(1, 3) i, LATERAL (SELECT count(*) AS n, sum(m) AS m FROM (SELECT id, c,
	count(*) AS m FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) AND id > i * 1000 GROUP BY id, c) u) v;
SELECT i, (SELECT count(DISTINCT b) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) AND id > i * 1000) AS n
	FROM generate_series(1, 3) i;
SELECT i, (SELECT count(*) FROM (SELECT id FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small)) AND id > i
	GROUP BY id, c LIMIT 900) u) AS n FROM generate_series(1, 3) i;
-- ... which is no longer than that of a single execution
SELECT max(n) < 2 * min(n) AS same FROM (SELECT (jsonb_path_query(plan, 'strict $.**?(@."Custom Plan Provider"
	== "GpuAgg")') -> 'Disk Usage')::int AS n FROM generate_series(1, 20, 19) i, again(i) plan) u
	WHERE n > 0;
SELECT files();

DROP SCHEMA aggregate_passes CASCADE;
