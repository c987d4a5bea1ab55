--
-- GpuAgg: groups by columns of a join's small side whose equality is not bitwise
--
CREATE SCHEMA aggregate_small;
SET search_path = aggregate_small, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN word AS text;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE facts (id int, k int, a int2, c int8, y float8, s text)
	WITH (autovacuum_enabled = off);
INSERT INTO facts SELECT i, i % 97, CASE WHEN i % 7 <> 0 THEN i % 11 END, i::int8 * 1000000007,
	i / 16.0, 's' || i % 5 FROM generate_series(1, 9000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (id, a, c, y);
CREATE TABLE small (k int, name text, code char(5), n numeric, m mood, u uuid, w word, arr int[],
	p pair, sys name, y float8, v varchar(20), j json) WITH (autovacuum_enabled = off);
-- equal but not identical values: 'a' and 'a ', 1.5 and 1.50; NULLs; keys that occur twice
INSERT INTO small SELECT i % 45, CASE WHEN i % 9 <> 0 THEN 'name ' || i % 7 END,
	CASE WHEN i % 2 = 0 THEN 'a' ELSE 'a ' END,
	CASE i % 4 WHEN 0 THEN 1.5 WHEN 1 THEN 1.50 WHEN 2 THEN 0 END,
	CASE WHEN i % 3 = 0 THEN 'sad'::mood ELSE 'happy' END, md5((i % 5)::text)::uuid, 'w' || i % 4,
	CASE i % 3 WHEN 0 THEN '{1,2}'::int[] WHEN 1 THEN '{1,NULL}' END, ROW(i % 2, 'x')::pair,
	('sys' || i % 6)::name, i % 3 / 2.0, 'v' || i % 3, '{}' FROM generate_series(1, 60) i;
INSERT INTO small (k, name) VALUES (3, 'twice'), (NULL, 'never'), (1000, 'without partners');
VACUUM ANALYZE facts, small;

-- each type: from entries, from the heap, from both
PREPARE in_all_ways AS SELECT c.* FROM (VALUES
	('SELECT s.name, count(*), sum(f.id), avg(f.y) FROM small s JOIN facts f USING (k)
		GROUP BY s.name'),
	('SELECT s.code, count(*), sum(f.c) FROM small s JOIN facts f USING (k) GROUP BY s.code'),
	('SELECT s.m, s.u, s.w, count(*), max(f.a) FROM small s JOIN facts f USING (k)
		GROUP BY s.m, s.u, s.w'),
	('SELECT s.arr, s.p, s.sys, s.v, f.a, count(DISTINCT f.id) FROM small s JOIN facts f USING (k)
		GROUP BY s.arr, s.p, s.sys, s.v, f.a'),
	('SELECT s.name, s.k, f.a, min(f.id) FROM small s JOIN facts f USING (k)
		GROUP BY s.name, s.k, f.a'),
	('SELECT s.name, count(f.k), sum(f.id) FROM small s LEFT JOIN facts f USING (k)
		GROUP BY s.name'),
	('SELECT DISTINCT s.name, f.a FROM small s JOIN facts f USING (k)'),
	('SELECT count(*), sum(n) FROM (SELECT s.name, f.a, count(*) AS n FROM small s
		JOIN facts f USING (k) GROUP BY s.name, f.a) u'),
	('SELECT upper(s.name) || s.sys AS x, sum(f.id) FROM small s JOIN facts f USING (k)
		GROUP BY s.name, s.sys HAVING s.name > ''name 2'' AND count(*) > 3
		ORDER BY s.name, s.sys LIMIT 5'),
	('SELECT i, u.* FROM generate_series(1, 3) i, LATERAL (SELECT s.name, count(*) FROM small s
		JOIN facts f USING (k) WHERE s.k % 3 = i - 1 GROUP BY s.name) u'),
	('SELECT i, u.* FROM generate_series(1, 3) i, LATERAL (SELECT s.name, count(*) FROM small s
		JOIN facts f USING (k) WHERE f.id > 9000 - 2984 * i GROUP BY s.name) u'),
	('SELECT s.name, count(*) FROM small s JOIN facts f ON f.k = s.k AND f.id % 5 > s.k % 5
		GROUP BY s.name'),
	('SELECT s.ctid, count(*) FROM small s JOIN facts f USING (k) GROUP BY s.ctid'),
	('SELECT s.name, t.v, count(*) FROM small s JOIN small t ON s.k = t.k + 1
		JOIN facts f ON f.k = s.k GROUP BY s.name, t.v'),
	('SELECT s.name, count(*) FROM (SELECT name, k FROM small WHERE k > 3 OFFSET 0) s
		JOIN facts f USING (k) GROUP BY s.name'),
	-- any of several equal values may be shown
	('SELECT s.n::float8 AS n, c FROM (SELECT n, count(*) AS c FROM small s JOIN facts f USING (k)
		GROUP BY s.n) s')
) q (text), compare(q.text) c;
EXECUTE in_all_ways;
UPDATE facts SET a = a + 1 WHERE id % 20 = 0;
EXECUTE in_all_ways;
DROP INDEX facts_k;
CREATE INDEX facts_k ON facts USING gpujoin (k);
EXECUTE in_all_ways;

-- queries left to PostgreSQL: columns of the big side, floats, types without hashing, expressions,
-- values that aggregates need
SELECT * FROM compare('SELECT f.s, count(*) FROM small s JOIN facts f USING (k) GROUP BY f.s');
SELECT * FROM compare('SELECT s, count(*) FROM facts WHERE k IN (1, 2) GROUP BY s');
SELECT * FROM compare('SELECT s.y, count(*) FROM small s JOIN facts f USING (k) GROUP BY s.y');
SELECT * FROM compare('SELECT upper(s.name) AS u, count(*) FROM small s JOIN facts f USING (k)
	GROUP BY 1');
SELECT * FROM compare('SELECT s.name, max(s.name) FROM small s JOIN facts f USING (k)
	GROUP BY s.name');
SELECT * FROM compare('SELECT s.name, count(*) FILTER (WHERE s.name > ''n'') FROM small s
	JOIN facts f USING (k) GROUP BY s.name');
SELECT * FROM compare('SELECT s.name COLLATE "C" AS c, count(*) FROM small s JOIN facts f USING (k)
	GROUP BY 1');

-- toasted values, and more small rows than expected, in several batches
CREATE TABLE wide (k int, name text) WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER name SET STORAGE EXTERNAL;
INSERT INTO wide
SELECT i % 97,
	CASE WHEN i < 20 THEN repeat('wide' || i % 4, 2000) ELSE 'n' || i % 300 END
FROM generate_series(1, 2000) i;
SELECT * FROM compare('SELECT w.name, count(*), sum(f.id) FROM wide w JOIN facts f USING (k)
	GROUP BY w.name');
ANALYZE wide;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM compare('SELECT w.name, count(*), sum(f.id) FROM wide w JOIN facts f USING (k)
	GROUP BY w.name');
UPDATE pg_class SET reltuples = 10, relpages = 1 WHERE oid = 'wide'::regclass;
SELECT * FROM compare('SELECT w.name, count(*), sum(f.id) FROM wide w JOIN facts f USING (k)
	GROUP BY w.name');
-- groups in passes
SELECT * FROM compare('SELECT s.name, f.id, count(*), sum(f.c) FROM small s JOIN facts f USING (k)
	GROUP BY s.name, f.id');
RESET work_mem;
RESET hash_mem_multiplier;

-- several tables on the big side
CREATE TABLE parted (k int, v int) PARTITION BY LIST (k);
CREATE TABLE part0 PARTITION OF parted FOR VALUES IN (0, 1, 2, 3, 4);
CREATE TABLE part1 PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT i % 10, i FROM generate_series(1, 3000) i;
CREATE INDEX ON parted USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE parted;
SELECT * FROM compare('SELECT s.name, count(*), sum(parted.v) FROM small s JOIN parted USING (k)
	GROUP BY s.name');

-- a row with two partners before a gap: its entries are as many as their range is long
CREATE TABLE gap (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO gap VALUES (1, 10), (1, 200), (2, 3000);
CREATE INDEX ON gap USING gpujoin (k) INCLUDE (v);
CREATE TABLE named (k int, name text);
INSERT INTO named VALUES (1, 'first'), (1, 'second'), (2, 'third');
VACUUM ANALYZE gap, named;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT s.name, sum(g.v) FROM named s JOIN gap g USING (k) WHERE g.v <> 200
	GROUP BY s.name;
SELECT s.name, sum(g.v) FROM named s JOIN gap g USING (k) WHERE g.v <> 200 GROUP BY s.name
	ORDER BY 1;
SELECT s.name, sum(g.v) FROM named s JOIN gap g USING (k) GROUP BY s.name ORDER BY 1;
RESET gpujoin.force;

-- the privilege to call a type's equality function
CREATE ROLE regress_gpujoin_small;
GRANT USAGE ON SCHEMA aggregate_small TO regress_gpujoin_small;
GRANT SELECT ON facts, small TO regress_gpujoin_small;
REVOKE EXECUTE ON FUNCTION pg_catalog.texteq(text, text) FROM public;
SET ROLE regress_gpujoin_small;
SET gpujoin.force = on;
SELECT s.name, count(*) FROM small s JOIN facts f USING (k) GROUP BY s.name;
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_catalog.texteq(text, text) TO public;
DROP SCHEMA aggregate_small CASCADE;
DROP ROLE regress_gpujoin_small;
