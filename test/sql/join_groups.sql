--
-- Joins with groups of the small side: from PostgreSQL 19 on, rows can be grouped before they are joined
--
CREATE SCHEMA join_groups;
SET search_path = join_groups, public;
SET max_parallel_workers_per_gather = 0;
-- costs depend on whether an index has a mirror
SET gpujoin.auto_load = off;
SET enable_nestloop = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_indexscan = off;
SET enable_bitmapscan = off;

CREATE TABLE big (id int, k int, g int, v int, t text, h int);
INSERT INTO big SELECT i, i % 1000, i % 50, i % 7, 'text ' || i % 3, i / 1000 % 2 FROM generate_series(1, 20000) i;
CREATE INDEX ON big USING gpujoin (k) INCLUDE (g, v, h);
CREATE TABLE small (k int, j int, w int, n numeric, f float8, h int);
INSERT INTO small SELECT nullif(i % 40 * 7, 14), i % 20, nullif(i % 1000, 13), i / 10.0, i / 8.0, i / 40 % 2 FROM generate_series(1, 6000) i;
CREATE TABLE third (j int, t text);
INSERT INTO third SELECT i, 'third ' || i % 4 FROM generate_series(0, 19) i;
VACUUM ANALYZE big, small, third;

-- Whether there is a GpuJoin, and whether PostgreSQL groups before it as it can from 19 on; rows, and those of only one answer
CREATE FUNCTION compare(groups_before bool, query text, OUT joins bool, OUT groups_as_expected bool, OUT n bigint, OUT differ bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	got text[];
	expected text[];
	groups bool = false;
BEGIN
	joins = false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		joins = joins OR line ~ '\(GpuJoin\)';
		groups = groups OR line ~ 'Partial';
	END LOOP;
	groups_as_expected = groups = (groups_before AND current_setting('server_version_num')::int >= 190000);
	EXECUTE format('SELECT array_agg(q::text) FROM (%s) q', query) INTO got;
	SET LOCAL gpujoin.enabled = off;
	SET LOCAL enable_hashjoin = on;
	EXECUTE format('SELECT array_agg(q::text) FROM (%s) q', query) INTO expected;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL enable_hashjoin = off;
	n = cardinality(got);
	SELECT count(*) INTO differ FROM ((SELECT unnest(got) EXCEPT ALL SELECT unnest(expected)) UNION ALL
		(SELECT unnest(expected) EXCEPT ALL SELECT unnest(got))) d;
END $$;
SELECT * FROM compare(true, 'SELECT g, sum(w), avg(w), min(w), count(*) FROM small s JOIN big b ON b.k = s.k GROUP BY g');
SELECT * FROM compare(true, 'SELECT g, sum(n), avg(n), max(j::text), stddev(n) FROM small s JOIN big b ON b.k = s.k WHERE b.v > 2 GROUP BY g');
SELECT * FROM compare(true, 'SELECT g, sum(f), count(w) FILTER (WHERE j > 3) FROM small s JOIN big b ON b.k = s.k GROUP BY g HAVING count(*) > 2');
SELECT * FROM compare(true, 'SELECT b.t, sum(w) FROM small s JOIN big b ON b.k = s.k + 1 GROUP BY b.t');
SELECT * FROM compare(true, 'SELECT g, sum(w), count(*) FROM small s JOIN big b ON b.k = s.k AND b.h = s.h GROUP BY g');
SELECT * FROM compare(true, 'SELECT g, sum(w) FROM small s JOIN big b ON b.k = s.k AND b.v < s.j GROUP BY g');
SELECT * FROM compare(true, 'SELECT g, sum(w), count(*), max(third.t) FROM small s JOIN third USING (j) JOIN big b ON b.k = s.k GROUP BY g');
-- not before the join: aggregates of the big side, of both, or that keep all values; few rows of a key
SELECT * FROM compare(false, 'SELECT g, count(DISTINCT w), sum(j) FROM small s JOIN big b ON b.k = s.k GROUP BY g');
SELECT * FROM compare(false, 'SELECT g, sum(w * v) FROM small s JOIN big b ON b.k = s.k GROUP BY g');
SELECT * FROM compare(false, 'SELECT g, count(DISTINCT v) FROM (SELECT DISTINCT k FROM small) s JOIN big b ON b.k = s.k GROUP BY g');

-- A search for each group is not as cheap as one of as many as there are rows; and many rows of a key are worth groups, few are not
CREATE TABLE lookups (k int NOT NULL, g int NOT NULL, v int NOT NULL);
INSERT INTO lookups SELECT i * 7919::bigint % 40000, i % 50, i % 1000 FROM generate_series(1, 400000) i;
CREATE INDEX ON lookups (k) INCLUDE (g, v);
CREATE INDEX ON lookups USING gpujoin (k) INCLUDE (g, v);
CREATE TABLE repeated (few int NOT NULL, many int NOT NULL, w int NOT NULL);
INSERT INTO repeated SELECT i % 2000 * 17, i % 200 * 37, i FROM generate_series(1, 20000) i;
VACUUM ANALYZE lookups, repeated;
RESET enable_nestloop;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_memoize;
RESET enable_indexscan;
RESET enable_bitmapscan;
SELECT * FROM compare(true, 'SELECT g, sum(w) FROM repeated s JOIN lookups b ON b.k = s.many GROUP BY g');
SELECT * FROM compare(false, 'SELECT g, sum(w), avg(w) FROM repeated s JOIN lookups b ON b.k = s.few GROUP BY g');

-- gpujoin.force joins all rows
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT g, sum(w) FROM small s JOIN big b ON b.k = s.k GROUP BY g;

SET client_min_messages = warning;
DROP SCHEMA join_groups CASCADE;
