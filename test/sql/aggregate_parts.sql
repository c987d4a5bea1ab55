--
-- GpuAgg over several tables: partitions, children, UNION ALL
--
CREATE SCHEMA aggregate_parts;
SET search_path = aggregate_parts, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE parted (id int, k int, a int2, d date, s text) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF parted FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
-- other columns in another order, and a dropped one
CREATE TABLE p2 (s text, gone int, d date, a int2, k int, id int);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION p2 FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
CREATE TABLE p3 PARTITION OF parted FOR VALUES FROM ('2022-01-01') TO ('2024-01-01')
	PARTITION BY LIST (a);
CREATE TABLE p31 PARTITION OF p3 FOR VALUES IN (0, 1, 2, 3, NULL);
CREATE TABLE p32 PARTITION OF p3 DEFAULT;
INSERT INTO parted
SELECT i, i % 53, CASE WHEN i % 7 <> 0 THEN i % 11 END, date '2020-01-01' + i % 1200, 's' || i % 3
FROM generate_series(1, 9000) i;
CREATE INDEX ON p1 USING gpujoin (k) INCLUDE (id, a, d);
CREATE INDEX ON p2 USING gpujoin (k) INCLUDE (id, a, d);
CREATE INDEX ON p31 USING gpujoin (k);
CREATE INDEX ON p32 USING gpujoin (k) INCLUDE (id, a, d);
CREATE TABLE small AS SELECT i AS k, i % 4 AS g FROM generate_series(0, 20) i;
VACUUM ANALYZE parted, small;

-- one set of groups for all partitions: which rows arrived in arrays
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT k, a, count(*), sum(id), max(d) FROM parted WHERE k IN (1, 2, 3)
	GROUP BY k, a;
RESET gpujoin.force;
SELECT * FROM compare('SELECT count(*), count(a), sum(id), avg(a), min(d), max(d) FROM parted
	WHERE k IN (1, 2, 3, 50)');
SELECT * FROM compare('SELECT k, a, count(*), sum(id), max(d) FROM parted WHERE k IN (1, 2, 3)
	GROUP BY k, a');
SELECT * FROM compare('SELECT a, k % 2 AS odd, count(DISTINCT d) FROM parted WHERE k IN (1, 2, 3)
	GROUP BY a, k % 2');
SELECT * FROM compare('SELECT DISTINCT d, a FROM parted WHERE k IN (1, 2, 3)');
SELECT * FROM compare('SELECT count(*) FROM (SELECT DISTINCT d, a FROM parted WHERE k IN (1, 2, 3)) u');
SELECT * FROM compare('SELECT s.g, count(*), sum(p.id) FROM parted p JOIN small s USING (k) GROUP BY s.g');
SELECT * FROM compare('SELECT count(*), sum(a) FROM parted WHERE k IN (1, 2) AND s = ''s1''');
-- fewer partitions, one, none
SELECT * FROM compare('SELECT k, count(*) FROM parted WHERE k IN (1, 2) AND d >= ''2021-06-01''
	GROUP BY k');
SELECT * FROM compare('SELECT k, count(*) FROM parted WHERE k IN (1, 2) AND d < ''2020-06-01''
	GROUP BY k');
SELECT * FROM compare('SELECT count(*) FROM parted WHERE k IN (1, 2) AND d < ''2000-06-01''');
-- within a subquery that is executed repeatedly, with groups in several passes
SELECT * FROM compare('SELECT s.g, (SELECT sum(id) FROM parted WHERE k = ANY (ARRAY[s.k, s.g])) AS n
	FROM small s');
SET work_mem = '64kB';
SELECT * FROM compare('SELECT id, count(*), sum(a) FROM parted WHERE k < 40 AND k = ANY
	((SELECT array_agg(k) FROM small)::int[]) GROUP BY id');
RESET work_mem;

-- rows from arrays and from slots
SET gpujoin.force = on;
SELECT * FROM rows_of('SELECT k, count(*) FROM parted WHERE k IN (1, 2, 3) GROUP BY k');

-- run-time pruning is kept
SET plan_cache_mode = force_generic_plan;
PREPARE since(date) AS SELECT k, count(*), sum(id) FROM parted WHERE k IN (1, 2) AND d >= $1
	GROUP BY k;
EXPLAIN (COSTS OFF) EXECUTE since('2022-02-01');
EXECUTE since('2022-02-01');
EXPLAIN (COSTS OFF) EXECUTE since('2030-02-01');
EXECUTE since('2030-02-01');
EXECUTE since('2020-02-01');
DEALLOCATE since;
RESET plan_cache_mode;

-- a partition without an index of ours
DROP INDEX p32_k_id_a_d_idx;
SELECT * FROM rows_of('SELECT k, count(*) FROM parted WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM compare('SELECT k, count(*), sum(id) FROM parted WHERE k IN (1, 2, 3) GROUP BY k');
RESET gpujoin.force;

-- partition-wise joins, and partition-wise aggregation
CREATE TABLE hashed (k int, v int) PARTITION BY HASH (k);
CREATE TABLE h0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE tiny (k int, g int) PARTITION BY HASH (k);
CREATE TABLE t0 PARTITION OF tiny FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t1 PARTITION OF tiny FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT i % 100, i FROM generate_series(1, 5000) i;
INSERT INTO tiny SELECT i, i % 3 FROM generate_series(1, 10) i;
CREATE INDEX ON hashed USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE hashed, tiny;
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM hashed WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM compare('SELECT g, count(*), sum(v) FROM hashed JOIN tiny USING (k) GROUP BY g');
SET enable_partitionwise_join = on;
SELECT * FROM compare('SELECT g, count(*), sum(v) FROM hashed JOIN tiny USING (k) GROUP BY g');
SET enable_partitionwise_aggregate = on;
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM hashed JOIN tiny USING (k) GROUP BY k');
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM hashed WHERE k IN (1, 2, 3) GROUP BY k');
RESET enable_partitionwise_join;
RESET enable_partitionwise_aggregate;

-- tables with children, and UNION ALL: columns may be computed above
CREATE TABLE parent (k int, v int);
CREATE TABLE child (w int) INHERITS (parent);
INSERT INTO parent SELECT i % 20, i FROM generate_series(1, 1000) i;
INSERT INTO child SELECT i % 20, i, i FROM generate_series(1, 1000) i;
CREATE INDEX ON parent USING gpujoin (k) INCLUDE (v);
CREATE INDEX ON child USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE parent, child;
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM parent WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM compare('SELECT sum(v), count(k) FROM parent WHERE k IN (1, 2, 3)');
SELECT * FROM compare('SELECT v % 2 AS odd, count(*) FROM parent WHERE k IN (1, 2, 3) GROUP BY v % 2');
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM (SELECT v, k FROM parent WHERE k IN (1, 2)
	UNION ALL SELECT id, k FROM parted WHERE k IN (1, 2)) u GROUP BY k');
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM (SELECT v::int8 AS v, k FROM parent WHERE k IN (1, 2)
	UNION ALL SELECT g, k FROM small) u WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM compare('SELECT k, count(*), sum(v) FROM ((SELECT v, k FROM parent WHERE k IN (1, 2) OFFSET 0)
	UNION ALL (SELECT g, k FROM small OFFSET 0)) u GROUP BY k');
SET gpujoin.force = on;
SELECT * FROM rows_of('SELECT sum(v), count(k) FROM parent WHERE k IN (1, 2, 3)');


-- Groups in several passes: the rows are read once, so they need not be reproducible
SET work_mem = '64kB';
EXPLAIN (COSTS OFF) SELECT v, count(*) FROM (SELECT v FROM hashed WHERE k IN (1, 2)
	UNION ALL (SELECT (random() * 10000000)::int FROM hashed LIMIT 4000)) u GROUP BY v;
SELECT sum(n) FROM (SELECT v, count(*) AS n FROM (SELECT v FROM hashed WHERE k IN (1, 2)
	UNION ALL (SELECT (random() * 10000000)::int FROM hashed LIMIT 4000)) u GROUP BY v OFFSET 0) g;
EXPLAIN (COSTS OFF) SELECT v, count(*) FROM (SELECT (random() * 10000000)::int AS v FROM parent
	WHERE k < 15 AND k = ANY ('{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14}') OFFSET 0) u GROUP BY v;
SELECT sum(n) FROM (SELECT v, count(*) AS n FROM (SELECT (random() * 10000000)::int AS v FROM hashed
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 80))) OFFSET 0) u GROUP BY v OFFSET 0) g;
EXPLAIN (COSTS OFF) SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM hashed WHERE k IN (1, 2, 3)
	GROUP BY k HAVING random() < 2) u GROUP BY n;
-- a join's small side is collected once
SELECT * FROM compare('SELECT v, count(*) FROM hashed JOIN (SELECT k FROM tiny ORDER BY k LIMIT 7) t USING (k)
	GROUP BY v');

DROP SCHEMA aggregate_parts CASCADE;
