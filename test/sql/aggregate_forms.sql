--
-- GpuAgg: supported and unsupported forms of queries, rows that must be the same when they are read
-- again, privileges, plans made within plans.
--
CREATE SCHEMA aggregate_forms;
SET search_path = aggregate_forms, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE DOMAIN dom AS int;
CREATE TYPE mood AS ENUM ('a', 'b');
CREATE TABLE f (gone int, id int PRIMARY KEY, k int, a int2, b int4, c int8, d date, ts timestamp,
	t timestamptz, g bool, o oid, x float4, y float8, s text, dm dom, m mood, ch "char", n name,
	nu numeric) WITH (autovacuum_enabled = off);
ALTER TABLE f DROP gone;
INSERT INTO f SELECT i, i % 97, CASE WHEN i % 7 <> 0 THEN i % 11 END, i * 7919 % 1000003 - 500000,
	CASE WHEN i % 5 <> 0 THEN i::int8 * 1000000007 END, date '2020-01-01' + i % 400,
	timestamp '2020-01-01' + i * interval '1 s',
	timestamptz '2020-01-01 UTC' + i * interval '1 min', CASE WHEN i % 6 <> 0 THEN i % 4 = 0 END,
	i % 13, i / 8.0, CASE WHEN i % 50 <> 0 THEN i / 16.0 END, 's' || i % 3, i % 5,
	CASE WHEN i % 2 = 0 THEN 'a'::mood ELSE 'b' END, 'c', 'n' || i % 3, i / 7.0
	FROM generate_series(1, 12000) i;
CREATE INDEX fk ON f USING gpujoin (k) INCLUDE (id, a, b, c, d, ts, t, g, o, x, y);
CREATE TABLE small AS SELECT i AS k, i % 4 AS g, 'n' || i % 2 AS name FROM generate_series(0, 40) i;
INSERT INTO small VALUES (3, 9, 'twice'), (NULL, 1, 'never');
CREATE TABLE few AS SELECT * FROM small WHERE k % 5 = 3 OR k IS NULL;
VACUUM ANALYZE f, small, few;

CREATE TABLE queries (i serial, q text);
INSERT INTO queries (q) VALUES
	('select k, id, b, count(*) from f where k in (1,2) group by id'),
	('select id, k, b, a, y, count(*) from f where k in (1,2) group by id'),
	('select tableoid, count(*) from f where k in (1,2) group by tableoid'),
	('select tableoid::regclass, k, count(*) from f where k in (1,2) group by tableoid,k'),
	('select 1, k, count(*) from f where k in (1,2) group by 1, k /* by version */'),
	('select 1 as one, count(*) from f where k in (1,2) group by 1 /* by version */'),
	('select k, k, k+0, count(*), count(*) from f where k in (1,2) group by 1,2,3'),
	('select distinct k, 1, k from f where k in (1,2)'),
	('select distinct k, null::int from f where k in (1,2)'),
	('select distinct k, a+1 as x from f where k in (1,2) order by a+1, k'),
	('select distinct a from f where k in (1,2) order by a nulls first limit 3'),
	('select distinct k, random()>2 as r from f where k in (1,2)'),
	('select k, random()>2 as r, count(*) from f where k in (1,2) group by k, random()>2'),
	('select count(*) from f where k in (1,2) and random() >= 0'),
	('select k, count(*), rank() over (order by count(*)) from f where k in (1,2,3) group by k'),
	('select k, sum(count(*)) over (), sum(b) from f where k in (1,2,3) group by k'),
	('select count(*) from f where k in (1,2) union all select count(*) from f where k in (3,4)'),
	('select count(*) from f where k in (1,2) union select count(*) from f where k in (3,4)'),
	('select count(*), f2.k from f join f f2 using(id) where f.k in (1,2) group by f2.k
		/* by version */'),
	('select s.g, count(f.k), count(*), sum(f.b) from small s left join f using(k) group by s.g'),
	('select f.a, count(*) from small s left join f using(k) group by f.a'),
	('select coalesce(f.a,0::int2) as aa, count(*) from small s left join f using(k) group by 1'),
	('select u.z, count(*) from small s left join (select k, 7 as z from f where b>0) u
		using(k) group by u.z'),
	('select u.z, count(*) from small s left join (select k, coalesce(a,0::int2) as z from f)
		u using(k) group by u.z'),
	('select u.z + 1 as v, count(*), count(u.z) from small s left join (select k,
		coalesce(a,0::int2) as z from f) u using(k) group by u.z+1'),
	('select count(u.z) from small s left join (select k, coalesce(a,0::int2) as z from f) u
		using(k)'),
	('select count(u) from (select * from f) u where k in (1,2)'),
	('select count(f) from f where k in (1,2)'),
	('select count(f.*) , count(f.ctid) from f where k in (1,2)'),
	('select f, count(*) from f where k in (1,2) group by f.*'),
	('select ctid, count(*) from f where k in (1,2) group by ctid'),
	('select dm, count(*) from f where k in (1,2) group by dm'),
	('select sum(dm), max(dm), count(dm) from f where k in (1,2)'),
	('select m, max(m) from f where k in (1,2) group by m'),
	('select ch, n, count(*) from f where k in (1,2) group by 1,2'),
	('select count(ch), count(n), count(s), count(nu) from f where k in (1,2)'),
	('select sum(nu), avg(nu), stddev(b) from f where k in (1,2)'),
	('select count(null) from f where k in (1,2)'),
	('select count(1), count(0), count(''x'') from f where k in (1,2)'),
	('select count(1+1) from f where k in (1,2)'),
	('select count(distinct 1) from f where k in (1,2)'),
	('select count(distinct a), count(distinct k), count(distinct c), count(distinct g),
		count(distinct t) from f where k in (1,2)'),
	('select a, count(distinct a), count(distinct k), count(distinct c), count(distinct g),
		count(distinct t) from f where k in (1,2) group by a'),
	('select count(distinct (a,k)) from f where k in (1,2)'),
	('select count(a order by b) from f where k in (1,2)'),
	('select sum(a order by b) from f where k in (1,2)'),
	('select sum(a+b), avg(-c) from f where k in (1,2)'),
	('select sum(a::int4), sum(a::int8), avg(b::int8), max(k::int8) from f where k in (1,2)'),
	('select k::int8 as kk, count(*) from f where k in (1,2) group by k::int8'),
	('select o::int as oi, count(*) from f where k in (1,2) group by o::int'),
	('select k from f where k in (1,2) group by k'),
	('select k from f where k in (1,2) group by k having k > 1'),
	('select k from f where k in (1,2) group by k having count(*) > (select min(id) from small
		s join f using(k))'),
	('select k, (select count(*) from small s where s.k=f.k) as n from f where k in (1,2,3)
		group by k'),
	('select k, (select count(*) from small s where s.k=f.k and s.g < count(f.a)) as n from f
		where k in (1,2,3) group by k'),
	('select k, exists(select 1 from small s where s.k=f.k) as n from f where k in (1,2,3)
		group by k'),
	('select k in (select k from small) as n, count(*) from f where k in (1,2,3) group by k in
		(select k from small)'),
	('select k from f where k in (1,2,3) group by k having k in (select k from small where g = 1)'),
	('select count(*) from f where k in (1,2) having false /* by version */'),
	('select 1 as x from f where k in (1,2) having true'),
	('select count(*) from f where k = any(''{}'') '),
	('select k, count(*) from f where k = any(''{}'') group by k'),
	('select count(*) from f where k in (1,2) and false'),
	('select k, generate_series(1,2) as gs, count(*) from f where k in (1,2) group by k'),
	('select generate_series(1,2) as gs, count(*) from f where k in (1,2) group by 1'),
	('select count(*) from f, small s where f.k=s.k and f.b > s.g'),
	('select max(s.name), count(*) from f, small s where f.k=s.k group by s.g'),
	('select s.name, count(*) from f, small s where f.k=s.k group by s.name'),
	('select count(*), sum(s.g), min(s.g), avg(f.y) from f, small s where f.k=s.k'),
	('select (select count(*) from f where k = s.k) as n, s.g from few s'),
	('select (select sum(b) from f where k = any(array[s.k, s.g])) as n, s.g from few s'),
	('select s.g, u.* from few s, lateral (select a, count(*), min(b) from f where f.k = s.k
		group by a) u'),
	('select s.g, u.* from few s left join lateral (select distinct a, g as z from f where
		f.k = any(array[s.k,s.g])) u on true'),
	('select s.g, u.* from few s left join lateral (select a, s.g as sg, count(*) from f
		where f.k = any(array[s.k,s.g]) group by a, s.g) u on true /* by version */'),
	('select s.g, u.* from few s, lateral (select a, count(*) from f where f.k = 5 group by
		a having count(*) > s.g) u'),
	('with u as materialized (select k, count(*) as n from f where k in (1,2,3) group by k)
		select * from u a join u b using(k)'),
	('select count(*) from (select k, a, count(*) as n from f where k in (1,2,3) group by k, a) u'),
	('select n, count(*), max(k) from (select k, a, count(*) as n from f where k in (1,2,3)
		group by k, a) u group by n'),
	('select n, count(*) from (select k, a, count(*) as n from f where k in (1,2,3) group by
		k, a having count(*)>3) u where n > 2 group by n'),
	('select count(*), sum(n) from (select distinct n from (select k, a, count(*) as n from f
		where k in (1,2,3) group by k, a) u) v'),
	('select sum(n) as s, avg(n) as av from (select k, count(*) as n from f where k in (1,2,3)
		group by k order by k limit 2) u'),
	('select k, count(*) from f where k in (1,2,3) group by k order by count(*) desc, k limit 2'),
	('select k, sum(x), avg(x), min(y), max(y) from f where k in (1,2,3) group by k order by
		sum(x)'),
	('select count(*), s.g from small s full join f using(k) group by s.g'),
	('select count(*) from f where k in (select k from small)'),
	('select count(*) from f where k in (select k from small where g = 1) or k in (select k
		from small where g=2)'),
	('select count(*) from f where k not in (select k from small where k is not null)'),
	('select count(*), sum(k) from small s where exists (select 1 from f where f.k=s.k)'),
	('select g, count(*), sum(k) from small s where not exists (select 1 from f where f.k=s.k)
		group by g'),
	('select count(distinct s.k), count(distinct f.id) from f, small s where f.k=s.k'),
	('select f.g, s.g, count(*), bool_and(f.g), every(f.g), bool_or(f.g) from f, small s where
		f.k=s.k group by f.g, s.g'),
	('select count(*) from (select k from f where k in (1,2) offset 0) u'),
	('select count(*) from (select k from f where k in (1,2) for update) u'),
	('select a from f where k in (1,2) group by a, b%2'),
	('select distinct on (k) k, id from f where k in (1,2) order by k, id'),
	('select k, a, grouping(k) from f where k in (1,2) group by cube(k,a)'),
	('select min(id), max(id) from f where k in (1,2)'),
	('select min(k) from f where k in (1,2)'),
	('select count(*) from f tablesample bernoulli(50) repeatable(1) where k in (1,2)'),
	('select sum(a) filter (where b>0) from f where k in (1,2)'),
	('select d, ts, t, g, o, count(*) from f where k in (1,2) group by d, ts, t, g, o'),
	('select min(d), max(d), min(ts), max(ts), min(t), max(t), min(o), max(o) from f where k
		in (1,2)'),
	('select x.k from (select f.k, s.g from f join small s using(k) group by f.k, s.g) x join
		small s2 on s2.k = x.k'),
	('select case when k=1 then count(*) else sum(b) end as z from f where k in (1,2) group by k'),
	('select array[k, count(*)::int] as z, row(k,sum(b)) as r from f where k in (1,2) group by k'),
	('select array(select k) as z, count(*) from f where k in (1,2) group by k'),
	('select k is null as z, count(*) from f where k in (1,2) group by 1');
-- no answer differs, also with groups in passes, and with joins that GEQO planned and discarded.
-- The plans of "by version" queries depend on PostgreSQL's version: newer ones do not group by
-- constants, detect earlier that HAVING is false, and remove useless self-joins.
SELECT CASE WHEN q LIKE '%by version%' THEN 'by version' ELSE c.node END AS node, count(*),
	string_agg(q, '; ') FILTER (WHERE differ <> 0) AS different
FROM queries, compare(q) c GROUP BY 1 ORDER BY 1;
SET work_mem = '64kB';
SET geqo_threshold = 2;
SELECT q, c.* FROM queries, compare(q) c WHERE differ <> 0;
RESET geqo_threshold;

SET gpujoin.force = on;
-- groups in passes are recomputed for each rescan, also if the last pass was not reached
SELECT count(*), sum(n) FROM generate_series(1, 4) i, LATERAL (SELECT id, b, count(*) AS n FROM f
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 40))) GROUP BY id, b HAVING count(*) < i) u;
SELECT i, (SELECT count(*) FROM (SELECT id, b FROM f
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 40))) GROUP BY id, b HAVING count(*) < i
	LIMIT i * 1500) u) AS n FROM generate_series(1, 4) i;

-- Rows are read once, also for groups in passes: a volatile function in a subquery, a subplan or a
-- policy may decide which rows there are.
CREATE FUNCTION node(query text, OUT top text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF) ' || query INTO top;
END $$;
GRANT ALL ON SCHEMA aggregate_forms TO public;
GRANT SELECT ON ALL TABLES IN SCHEMA aggregate_forms TO public;
SELECT node('SELECT k, count(*) FROM f WHERE k IN (1, 2) GROUP BY k');
SELECT node('SELECT n, count(*) FROM (SELECT (random() * 3000)::int AS n FROM f
	WHERE k = ANY (ARRAY(SELECT generate_series(1, 40))) OFFSET 0) u GROUP BY n');
SELECT sum(c) FROM (SELECT n, count(*) AS c FROM (SELECT (random() * 3000)::int AS n FROM f
	WHERE k = ANY (ARRAY(SELECT generate_series(1, 40))) OFFSET 0) u GROUP BY n OFFSET 0) v;
SELECT node('SELECT id, count(*) FROM (SELECT * FROM f WHERE k IN (1, 2) AND random() < 2
	OFFSET 0) u GROUP BY id');
SELECT node('SELECT k, count(*) FROM (SELECT k, a, count(*) FROM f WHERE k IN (1, 2) GROUP BY k, a
	HAVING random() < 2) u GROUP BY k');
SELECT node('SELECT (SELECT (random() * f.k)::int) AS n, count(*) FROM f
	WHERE k IN (1, 2) GROUP BY 1');
SELECT node('SELECT count(*) FROM (SELECT (SELECT (random() * f.k)::int) AS n, a FROM f
	WHERE k IN (1, 2) OFFSET 0) u');
CREATE SEQUENCE visits;
GRANT ALL ON visits TO public;
CREATE POLICY p ON f USING (nextval('aggregate_forms.visits') <= 3000);
ALTER TABLE f ENABLE ROW LEVEL SECURITY;
CREATE ROLE regress_gpujoin_agg;
SET ROLE regress_gpujoin_agg;
SELECT node('SELECT id, b, count(*) FROM f WHERE k IN (1, 2) GROUP BY id, b');
SELECT sum(n) FROM (SELECT id, b, count(*) AS n FROM f
	WHERE k = ANY (ARRAY(SELECT generate_series(1, 40))) GROUP BY id, b OFFSET 0) u;
RESET ROLE;
ALTER TABLE f DISABLE ROW LEVEL SECURITY;
-- a small side is collected once, because it may be volatile
SELECT node('SELECT id, b, count(*) FROM f JOIN (SELECT (random() * 40)::int AS k
	FROM generate_series(1, 40) OFFSET 0) s USING (k) GROUP BY id, b');
RESET work_mem;
-- volatile expressions are neither skipped nor repeated: not if their result is unused, and not for
-- rows that arrive as one row with a weight; and equal expressions need not have equal values
CREATE FUNCTION visits(query text) RETURNS TABLE (node text, visits text) LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
BEGIN
	SELECT n INTO node FROM node(query) AS n;
	FOR i IN 0 .. 1 LOOP
		PERFORM set_config('gpujoin.enabled', CASE i WHEN 0 THEN 'on' ELSE 'off' END, true);
		before := nextval('visits');
		EXECUTE query;
		visits := concat_ws(', ', visits, nextval('visits') - before - 1);
	END LOOP;
	RETURN NEXT;
END $$;
CREATE TEMP TABLE twice AS SELECT i % 3 AS k FROM generate_series(1, 6) i;
SELECT * FROM visits('SELECT count(*) FROM (SELECT nextval(''visits''), k FROM f WHERE k IN (1, 2)
	OFFSET 0) u');
SELECT * FROM visits('SELECT count(*) FROM (SELECT (SELECT nextval(''visits'') + k), k FROM f
	WHERE k IN (1, 2) OFFSET 0) u');
SELECT * FROM visits('SELECT count(*), sum(b) FROM f WHERE k IN (1, 2) AND nextval(''visits'') > 0');
SELECT * FROM visits('SELECT count(*), sum(b) FROM f JOIN twice USING (k) WHERE nextval(''visits'') > 0');
SELECT * FROM visits('SELECT k, sum(b), nextval(''visits'') FROM f JOIN twice USING (k) GROUP BY k');
SELECT node('SELECT random() AS x, random() AS y, count(*) FROM f WHERE k IN (1, 2) GROUP BY 1, 2');

-- privileges on aggregate functions
REVOKE EXECUTE ON FUNCTION pg_catalog.sum(int) FROM public;
SET ROLE regress_gpujoin_agg;
SELECT sum(b) FROM f WHERE k IN (1, 2);
EXPLAIN SELECT sum(b) FROM f WHERE k IN (1, 2);
SELECT sum(a), count(*) FROM f WHERE k IN (1, 2);
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_catalog.sum(int) TO public;
-- another function with that name
CREATE AGGREGATE sum(int) (sfunc = int4larger, stype = int);
SELECT aggregate_forms.sum(b), pg_catalog.sum(b), max(b) FROM f WHERE k IN (1, 2);
DROP AGGREGATE aggregate_forms.sum(int);

-- plans within plans, one of which fails
CREATE FUNCTION inlined(int) RETURNS bigint LANGUAGE sql STABLE AS
	'SELECT count(*) FROM aggregate_forms.f WHERE k IN ($1, 3)';
CREATE FUNCTION evaluated(int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT sum(a) FROM aggregate_forms.f WHERE k IN ($1, 3) GROUP BY k ORDER BY k LIMIT 1';
CREATE FUNCTION failing(int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT 1 / ($1 - $1) FROM aggregate_forms.f WHERE k IN (1, 2) GROUP BY k';
EXPLAIN (COSTS OFF, VERBOSE) SELECT k, count(*), inlined(k), evaluated(7) FROM f
	WHERE k IN (1, 2) GROUP BY k;
SELECT k, count(*), inlined(k), evaluated(7) FROM f WHERE k IN (1, 2) GROUP BY k ORDER BY k;
SELECT k, count(*), failing(3) FROM f WHERE k IN (1, 2) GROUP BY k;
SELECT count(*), sum(n) FROM (SELECT k, count(*) AS n FROM f WHERE k IN (1, 2) GROUP BY k) u;

-- a plan whose index is dropped
SET plan_cache_mode = force_generic_plan;
PREPARE p AS SELECT k, count(*), sum(b) FROM f WHERE k = ANY ($1) GROUP BY k ORDER BY k;
EXECUTE p('{1, 2, NULL, 1}');
BEGIN;
DROP INDEX fk;
EXPLAIN (COSTS OFF) EXECUTE p('{1, 2}');
EXECUTE p('{1, 2}');
ROLLBACK;
EXECUTE p('{}');
EXECUTE p(NULL);
ALTER TABLE f ALTER k TYPE int8;
EXECUTE p('{1, 2}');
DEALLOCATE p;

-- partitions: GpuAgg above a join with all of them, but not above an Append
CREATE TABLE parts (k int, v int, w int8) PARTITION BY HASH (v);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 (w int8, x int, v int, k int);
ALTER TABLE parts_1 DROP x;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT i % 100, i % 9, i FROM generate_series(1, 6000) i;
CREATE INDEX ON parts USING gpujoin (k) INCLUDE (v, w);
CREATE TABLE child (extra int) INHERITS (small);
INSERT INTO child VALUES (3, 3, 'c', 1), (4, 4, 'd', 1);
VACUUM ANALYZE parts, small;
TRUNCATE queries;
INSERT INTO queries (q) VALUES
	('SELECT s.g, count(*), sum(w), count(DISTINCT v) FROM parts JOIN small s USING (k) GROUP
		BY s.g'),
	('SELECT DISTINCT v, s.g FROM parts JOIN small s USING (k)'),
	('SELECT parts.tableoid, v, count(*) FROM parts JOIN small s USING (k) GROUP BY 1, 2'),
	('SELECT v, count(*) FROM parts WHERE k IN (1, 2, 3) GROUP BY v'),
	('SELECT v, count(*) FROM ONLY parts WHERE k IN (1, 2, 3) GROUP BY v'),
	('SELECT v, s.g, count(*) FROM small s LEFT JOIN parts USING (k) GROUP BY v, s.g');
SELECT q, c.* FROM queries, compare(q) c ORDER BY i;
SET enable_partitionwise_aggregate = on;
SELECT q, c.* FROM queries, compare(q) c WHERE differ <> 0;

DROP ROLE regress_gpujoin_agg;
DROP SCHEMA aggregate_forms CASCADE;
