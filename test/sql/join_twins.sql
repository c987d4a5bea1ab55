--
-- GpuJoin below GpuAgg, for keys that many small rows have. If no column of these is needed, each
-- big row counts as often as its key has small rows, without a loop over the small rows.
--
CREATE SCHEMA join_twins;
SET search_path = join_twins, public;
SET max_parallel_workers_per_gather = 0;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
\i :abs_srcdir/sql/common/explain.sql
SET client_min_messages = warning;

CREATE TABLE big (id int, k int, v int, w int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 300, i % 7, i % 5 FROM generate_series(1, 6000) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v);
CREATE TABLE parts (id int, k int, v int, w int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (3000);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (3000) TO (7000);
INSERT INTO parts TABLE big;
CREATE INDEX parts_k ON parts USING gpujoin (k) INCLUDE (v);
-- keys that 0, 1, 2, ... small rows have, far apart; NULLs; keys without a big row
CREATE TABLE small (k int, x int) WITH (autovacuum_enabled = off);
INSERT INTO small SELECT CASE WHEN i % 9 <> 0 THEN i * i % 400 END, i % 3
	FROM generate_series(1, 3000) i;
VACUUM ANALYZE big, parts, small;

CREATE TABLE queries (query text);
INSERT INTO queries SELECT format(q, columns) FROM unnest(ARRAY[
	'SELECT %s FROM small s JOIN big b ON b.k = s.k',
	'SELECT b.v, %s FROM small s JOIN big b ON b.k = s.k GROUP BY b.v',
	'SELECT b.k, %s FROM small s JOIN big b ON b.k = s.k GROUP BY b.k',
	'SELECT s.x, %s FROM small s JOIN big b ON b.k = s.k GROUP BY s.x',
	'SELECT %s FROM small s LEFT JOIN big b ON b.k = s.k',
	'SELECT s.x, %s FROM small s LEFT JOIN big b ON b.k = s.k GROUP BY s.x',
	'SELECT %s FROM big b WHERE k IN (SELECT k FROM small)',
	'SELECT %s FROM small s JOIN parts b ON b.k = s.k',
	'SELECT b.v, %s FROM small s LEFT JOIN parts b ON b.k = s.k GROUP BY b.v',
	'SELECT o.x, l.* FROM generate_series(0, 2) o(x), LATERAL
		(SELECT %s FROM small s JOIN big b ON b.k = s.k WHERE b.v <> o.x OFFSET 0) l',
	'SELECT o.x, l.* FROM generate_series(0, 2) o(x), LATERAL
		(SELECT %s FROM small s JOIN big b ON b.k = s.k WHERE s.x <> o.x OFFSET 0) l',
	'SELECT o.x, l.* FROM generate_series(0, 2) o(x), LATERAL
		(SELECT %s FROM small s LEFT JOIN big b ON b.k = s.k AND b.v <> o.x OFFSET 0) l']) q,
	-- from entries; from tuples
	unnest(ARRAY['count(*) n, count(b.v) c, sum(b.v) s',
		'count(*) n, count(b.w) c, sum(b.w) s']) columns;
SELECT count(*) FROM queries;

-- the same rows as PostgreSQL's
SELECT query, r.* FROM queries, both_ways(query) r WHERE missing + surplus > 0;
-- in batches, some of which divide the rows of a key
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT query, r.* FROM queries, both_ways(query) r WHERE missing + surplus > 0;
RESET work_mem;
RESET hash_mem_multiplier;

-- as arrays, with one row for each big row, and with one for each pair
SET gpujoin.force = on;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT count(*), sum(v) FROM small s JOIN big b ON b.k = s.k');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT count(*), sum(w), sum(x) FROM small s JOIN big b ON b.k = s.k');

-- 30 billion pairs, too many to count one by one
CREATE TABLE same (k int, v int, w int) WITH (autovacuum_enabled = off);
INSERT INTO same SELECT 1, 1, 2 FROM generate_series(1, 60000);
CREATE INDEX same_k ON same USING gpujoin (k) INCLUDE (v);
CREATE TABLE many WITH (autovacuum_enabled = off) AS
SELECT 1 AS k FROM generate_series(1, 500000);
VACUUM ANALYZE same, many;
SET work_mem = '256MB';
SET statement_timeout = '60s';
SELECT count(*), sum(v) FROM many JOIN same USING (k);
SELECT count(*), sum(w) FROM many JOIN same USING (k);
SELECT count(*), sum(v) FROM many LEFT JOIN same USING (k);
SELECT v, count(*) FROM many JOIN same USING (k) GROUP BY v;
RESET statement_timeout;

DROP SCHEMA join_twins CASCADE;
