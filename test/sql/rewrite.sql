--
-- Queries that are rewritten before they are planned
--
CREATE SCHEMA rewrite;
SET search_path = rewrite, public;
SET gpujoin.min_rows = 0;
SET max_parallel_workers_per_gather = 0;
-- costs depend on whether an index has a mirror
SET gpujoin.auto_load = off;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END $$;
-- Lines of the plan that match, or none
CREATE FUNCTION lines(pattern text, query text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(replace(trim(l), 'unnamed_subquery', '"ANY_subquery"'), '; ') FROM plan_of(query) l WHERE l ~ pattern $$;

CREATE TABLE big (id int, cid int, u uuid, t text, c varchar, n numeric, f float8, v int);
INSERT INTO big SELECT i, CASE WHEN i % 50 <> 0 THEN i % 211 END, md5((i % 211)::text)::uuid, 't' || i % 211, 'c' || i % 211, (i % 211)::numeric(9, 2), i % 211, i % 10
	FROM generate_series(1, 6000) i;
INSERT INTO big SELECT -i, 0, NULL, CASE i % 2 WHEN 0 THEN 'T7' END, NULL, 7.0, CASE WHEN i % 2 = 0 THEN '-0' ELSE 0 END, 3 FROM generate_series(1, 20) i;
CREATE INDEX ON big USING gpujoin (id);
CREATE INDEX ON big USING gpujoin (cid) INCLUDE (v);
CREATE INDEX ON big USING gpujoin (u);
CREATE INDEX ON big USING gpujoin (t);
CREATE INDEX ON big USING gpujoin (c);
CREATE INDEX ON big USING gpujoin (n);
CREATE TABLE plain AS SELECT * FROM big;
CREATE TABLE customers (id int, region int, name text, u uuid, t text, n numeric, f float8);
INSERT INTO customers SELECT i, i % 20, 'name ' || i, md5(i::text)::uuid, 't' || i, i::numeric(9, 3), i FROM generate_series(1, 300) i;
INSERT INTO customers SELECT i, 1, 'twin', NULL, NULL, NULL, NULL FROM generate_series(1, 30) i;
INSERT INTO customers VALUES (NULL, 1, 'none', NULL, NULL, NULL, 0);
VACUUM ANALYZE big, plain, customers;

-- x IN (SELECT unnest(array))
SELECT lines('unnest|ANY', q) FROM unnest(ARRAY['SELECT * FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]))',
	'SELECT * FROM big WHERE id = ANY (SELECT * FROM unnest(''{1,2}''::int[]))', 'SELECT * FROM big WHERE v > 3 AND (id IN (SELECT unnest(''{1,2}''::int8[])) OR v = 11)',
	'SELECT * FROM big WHERE c IN (SELECT unnest(''{c1,c2}''::varchar[]))', 'SELECT * FROM big WHERE u::text IN (SELECT unnest(ARRAY[''a'', ''b'']))',
	'DELETE FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]))', 'SELECT * FROM customers s LEFT JOIN big b ON b.cid = s.id AND b.id IN (SELECT unnest(''{1,2}''::int[]))',
	'WITH w AS MATERIALIZED (SELECT * FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]))) SELECT * FROM w']) q;
-- not these: without an index of ours; below NOT or in the target; with more than the elements; arrays that depend on a row, or are computed
SELECT lines('unnest|SubPlan|ProjectSet', q) IS NOT NULL AS left_alone FROM unnest(ARRAY['SELECT * FROM plain WHERE id IN (SELECT unnest(''{1,2}''::int[]))',
	'SELECT * FROM big WHERE id NOT IN (SELECT unnest(''{1,2}''::int[]))', 'SELECT id IN (SELECT unnest(''{1,2}''::int[])) FROM big',
	'SELECT * FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]) LIMIT 1)', 'SELECT * FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]) + 1)',
	'SELECT * FROM big WHERE id > ANY (SELECT unnest(''{1,2}''::int[])) AND id IN (SELECT e FROM unnest(''{1,2}''::int[]) e WHERE e > 1)',
	'SELECT * FROM big WHERE id IN (SELECT unnest(string_to_array(version(), ''x''))::int)', 'SELECT * FROM big b WHERE id IN (SELECT unnest(ARRAY[v]))',
	'SELECT * FROM big WHERE (id, v) IN (SELECT unnest(''{1,2}''::int[]), 3)', 'SELECT * FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]) ORDER BY 1 OFFSET 1)',
	'SELECT * FROM big WHERE id IN (SELECT unnest(''{1,2}''::int[]) UNION SELECT 7)', 'SELECT * FROM big WHERE id IN (SELECT unnest(ARRAY[(random() * 5)::int]))',
	'SELECT * FROM big WHERE (id IN (SELECT unnest(''{1,2}''::int[]))) IS NULL', 'SELECT * FROM big WHERE id = ALL (SELECT unnest(''{1,2}''::int[]))',
	'SELECT * FROM big WHERE id IN (SELECT n FROM unnest(''{1,2}''::int[]) WITH ORDINALITY u (e, n))', 'SELECT count(*) FROM big HAVING max(id) IN (SELECT unnest(''{1,2}''::int[]))']) q;
SET gpujoin.force = on;
CREATE TABLE lists (x int, i int[], c varchar[], t text[]);
INSERT INTO lists VALUES (1, '{3,10,17,17,NULL,5000}', '{c3,c4,NULL}', '{t7,T7}'), (2, '{}', '{}', '{}'), (3, NULL, NULL, NULL), (4, '{NULL}', '{NULL}', '{NULL}'), (5, '{{1,2},{3,4}}', '{{c1},{c2}}', '{{t1,t2}}');
SELECT number, x, k, compare(replace(replace(form, '%', k), '#', format('%L::%s', list, type))) FROM (VALUES (1, 'SELECT * FROM big WHERE % IN (SELECT unnest(#))'),
	(2, 'SELECT * FROM big WHERE % IN (SELECT * FROM unnest(#)) AND v < 5')) f (number, form),
	LATERAL (SELECT x, 'id' AS k, i::text, 'int[]' FROM lists UNION ALL SELECT x, 'c', c::text, 'varchar[]' FROM lists UNION ALL SELECT x, 't', t::text, 'text[]' FROM lists) l (x, k, list, type) ORDER BY 1, 2, 3;
SELECT compare('SELECT * FROM big WHERE id IN (SELECT unnest(''{3,10,NULL}''::int[])) OR cid IN (SELECT unnest(NULL::int[])) OR cid = 7');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN list AS int[];
SELECT compare('SELECT * FROM big WHERE id IN (SELECT unnest(ARRAY[3, 10]::positive[]))') AS domain, compare('SELECT * FROM big WHERE id IN (SELECT unnest(''{3,10}''::list))') AS list,
	compare('SELECT * FROM big b WHERE EXISTS (SELECT FROM customers s WHERE s.region = b.v AND b.id IN (SELECT unnest(''{3,10}''::int[])))') AS inner_query,
	compare('SELECT * FROM (SELECT * FROM big WHERE id IN (SELECT unnest(''{3,10}''::int[])) UNION ALL SELECT * FROM plain WHERE id IN (SELECT unnest(''{4}''::int[]))) s') AS appended;
-- custom and generic plans
PREPARE ids(int[]) AS SELECT b FROM big b WHERE id IN (SELECT unnest($1));
SET plan_cache_mode = force_custom_plan;
SELECT lines('unnest|ANY', 'EXECUTE ids(''{1,2}'')');
EXECUTE ids('{1,2,NULL}');
EXECUTE ids(NULL);
SET plan_cache_mode = force_generic_plan;
SELECT lines('unnest|ANY', 'EXECUTE ids(''{1,2}'')');
EXECUTE ids('{1,2,NULL}');
RESET plan_cache_mode;
-- a partitioned table that is changed
CREATE TABLE jobs (name text, id uuid, state text) PARTITION BY LIST (name);
CREATE TABLE jobs_a PARTITION OF jobs FOR VALUES IN ('a');
CREATE TABLE jobs_b PARTITION OF jobs DEFAULT;
INSERT INTO jobs SELECT chr(97 + i % 3), md5(i::text)::uuid, 'active' FROM generate_series(1, 3000) i;
CREATE INDEX ON jobs USING gpujoin (id);
VACUUM ANALYZE jobs;
PREPARE complete(text, uuid[]) AS UPDATE jobs SET state = 'completed' WHERE name = $1 AND id IN (SELECT unnest($2)) AND state = 'active' RETURNING id;
EXPLAIN (COSTS OFF) EXECUTE complete('b', ARRAY[md5('1'), md5('2')]::uuid[]);
EXECUTE complete('b', ARRAY[md5('1'), md5('2'), md5('4'), NULL]::uuid[]);
SELECT name, state, count(*) FROM jobs GROUP BY 1, 2 ORDER BY 1, 2;

-- OFFSET 0
SELECT lines('Limit|Subquery|GpuAgg', q) FROM unnest(ARRAY['SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s',
	'SELECT count(DISTINCT v) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) OFFSET NULL) s', 'SELECT sum(v), max(one) FROM (SELECT v, 1 AS one FROM big WHERE cid IN (1, 2, 3) OFFSET 0::int) s',
	'SELECT 1 + (SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s)',
	-- it remains where it keeps conditions or expressions apart, or counts
	'SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s WHERE id > 5', 'SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s JOIN customers USING (id)',
	'SELECT sum(x) FROM (SELECT id + 1 AS x FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s', 'SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) LIMIT 5 OFFSET 0) s',
	'SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) OFFSET 1) s', 'SELECT v, count(*) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s GROUP BY v',
	'SELECT count(*) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s HAVING count(*) > 5', 'SELECT DISTINCT v FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s',
	'SELECT DISTINCT count(*) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s', 'SELECT count(*), sum(count(*)) OVER () FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s',
	'SELECT count(*) FROM (SELECT DISTINCT v FROM big WHERE cid IN (1, 2, 3) OFFSET 0) s', 'SELECT array_agg(v) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) ORDER BY v OFFSET 0) s',
	'SELECT count(*) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) FOR UPDATE OFFSET 0) s', 'SELECT count(*) FROM (SELECT v FROM big WHERE cid IN (1, 2, 3) AND random() < 2 OFFSET 0) s',
	'SELECT count(*) FROM (SELECT v FROM plain WHERE cid IN (1, 2, 3) OFFSET 0) s']) q;
PREPARE pages(bigint) AS SELECT count(*) FROM (SELECT id FROM big WHERE cid IN (1, 2, 3) OFFSET $1) s;
SET plan_cache_mode = force_custom_plan;
SELECT lines('Limit', 'EXECUTE pages(0)') AS zero, lines('Limit', 'EXECUTE pages(NULL)') AS none, lines('Limit', 'EXECUTE pages(1)') AS one;
EXECUTE pages(0);
EXECUTE pages(5);
EXECUTE pages(-1);
SET plan_cache_mode = force_generic_plan;
EXECUTE pages(0);
EXECUTE pages(5);
RESET plan_cache_mode;
RESET gpujoin.force;

-- Groups that are joined by their key
EXPLAIN (COSTS OFF) SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big WHERE 1 = 1 GROUP BY cid) a ON a.cid = c.id WHERE c.id IN (3, 4, 5);
EXPLAIN (COSTS OFF) SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big WHERE 1 = 1 GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7;
-- Keys are not pushed into queries that are part of an expression, so these are executed as they are
CREATE FUNCTION rows_of(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	found text[] := '{}';
	r record;
BEGIN
	FOR r IN EXECUTE query LOOP found := found || r::text; END LOOP;
	RETURN ARRAY(SELECT f FROM unnest(found) f ORDER BY 1);
END $$;
CREATE FUNCTION compare_groups(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	stock text[];
	ours text[];
BEGIN
	SET LOCAL gpujoin.enabled = off;
	stock := rows_of(query);
	SET LOCAL gpujoin.enabled = on;
	ours := rows_of(query);
	RETURN format('%s: %s rows, %s', CASE WHEN lines(' c_1$|gpujoin|GpuJoin|Key Condition: (?!.*IS NOT NULL\) OR)', query) IS NOT NULL THEN 'pushed' ELSE 'as it is' END, cardinality(stock),
				  CASE WHEN stock = ours THEN 'same' ELSE 'DIFFERENT: ' || cardinality(ours) END);
END $$;
CREATE TABLE filters (filter text);
INSERT INTO filters VALUES ('c.id IN (3, 4, 5, 290, 0)'), ('c.region = 7'), ('c.region = 1 AND c.id < 30'), ('c.name = ''twin'''), ('c.id = 3 OR c.region = 1'), ('c.id % 17 = 3 AND 100 / (c.id - 1000) < 5'), ('c.id IS NULL'), ('false');
INSERT INTO filters VALUES ('c.t < ''t5'' COLLATE "C"'), ('c.u = md5(''7'')::uuid'), ('c.f > 280'), ('c.ctid < ''(0,9)'''), ('c IS NOT NULL AND c.id < 9'), ('c.id = ANY (ARRAY(SELECT 7))'), ('c.id BETWEEN 3 AND 5 AND random() < 2');
-- (from 19 on, the rows of 4 may be grouped before they are joined: then it is also cheaper)
SELECT filter, number, regexp_replace(compare_groups(replace(form, '#', '(' || filter || ')')), CASE number WHEN 4 THEN '^[^:]*: ' ELSE '^$' END, '') AS compare_groups FROM filters, (VALUES
	(1, 'SELECT c.*, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE #'),
	(2, 'SELECT c.*, a.* FROM customers c JOIN (SELECT cid, v, sum(id) AS n FROM big WHERE v < 5 GROUP BY v, cid HAVING sum(id) > 10) a ON a.cid = c.id WHERE #'),
	(3, 'SELECT c.*, a.* FROM customers c, (SELECT min(v), max(u::text), cid FROM big GROUP BY 3) a WHERE a.cid = c.id AND #'),
	(4, 'SELECT c.*, a.n, b.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id AND a.n > 28 LEFT JOIN (SELECT t, count(*) AS n FROM big GROUP BY t) b ON c.t = b.t WHERE #'),
	(5, 'SELECT c.*, a.* FROM customers c LEFT JOIN (SELECT n, count(*), sum(id) FROM big GROUP BY n) a ON a.n = c.n WHERE #'),
	(6, 'SELECT c.*, a.* FROM customers c JOIN (SELECT t, count(*), sum(id) FROM big GROUP BY t) a ON a.t = lower(c.t) WHERE #'),
	(8, 'SELECT c.id, a.* FROM customers c JOIN (SELECT f, count(*) AS n FROM big GROUP BY f) a ON a.f = c.f WHERE #'),
	(9, 'SELECT c.id, a.* FROM customers c JOIN (SELECT c::text AS c, count(*) AS n FROM big GROUP BY 1) a ON a.c = ''c'' || c.id WHERE #'),
	(10, 'SELECT c.id, a.* FROM customers c JOIN (SELECT x.region, b.cid, count(*) AS n FROM customers x LEFT JOIN big b ON b.cid = x.id GROUP BY 1, 2) a ON a.cid = c.id WHERE #'),
	(7, 'SELECT c.id, x.*, a.* FROM customers x JOIN customers c ON x.id = c.region LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE # AND x.region = 7')) f (number, form) ORDER BY 1, 2;
-- groups that no key may be pushed into: other joins, other columns, windows, limits, volatile functions, rows that are locked, other operators and collations
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT number, compare_groups(form) FROM (VALUES
	(1, 'SELECT c.id, a.* FROM customers c RIGHT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id AND c.region = 7'),
	(2, 'SELECT c.id, a.* FROM (SELECT * FROM customers WHERE region = 7) c FULL JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id'),
	(3, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.n = c.id WHERE c.region = 7'),
	(4, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, rank() OVER (ORDER BY cid) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7'),
	(5, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid ORDER BY cid LIMIT 40) a ON a.cid = c.id WHERE c.region = 7'),
	(6, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) FILTER (WHERE random() >= 0) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7'),
	(7, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid < c.id WHERE c.region = 7'),
	(8, 'SELECT c.id, a.* FROM customers c JOIN (SELECT t COLLATE any_case AS t, count(*) AS n FROM big GROUP BY 1) a ON a.t = c.t WHERE c.region = 7'),
	(9, 'SELECT c.id, a.* FROM customers c JOIN (SELECT t, count(*) AS n FROM big GROUP BY 1) a ON a.t = c.t COLLATE any_case WHERE c.region = 7'),
	(10, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM plain GROUP BY 1) a ON a.cid = c.id WHERE c.region = 7'),
	(11, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY ROLLUP (1)) a ON a.cid = c.id WHERE c.region = 7'),
	(13, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid < c.id AND c.id = 5'),
	(14, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid <= c.id WHERE c.id = 5'),
	(15, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid <> c.id WHERE c.id = 5'),
	(16, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id OR a.n = 28 WHERE c.id = 5'),
	(17, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid IS NOT DISTINCT FROM c.id WHERE c.region = 1'),
	(18, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON true WHERE a.cid = c.id AND c.id = 5'),
	(19, 'SELECT c.id, a.* FROM customers c, LATERAL (SELECT cid, count(*) AS n FROM big WHERE v < c.region GROUP BY cid) a WHERE a.cid = c.id AND c.id = 5'),
	(20, 'SELECT c.id, a.* FROM customers c TABLESAMPLE BERNOULLI (100) JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7'),
	(21, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY GROUPING SETS ((cid), ())) a ON a.cid = c.id WHERE c.id = 5'),
	(22, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid UNION ALL SELECT 5, 7) a ON a.cid = c.id WHERE c.id = 5'),
	(23, 'SELECT x.id, a.* FROM customers x LEFT JOIN customers c ON c.id = x.region LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY 1) a ON a.cid = c.id WHERE coalesce(c.region, 7) = 7'),
	(12, 'SELECT x.id, a.* FROM customers x LEFT JOIN (customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY 1) a ON a.cid = c.id) ON c.id = x.id + 1 AND c.region = 7')) f (number, form) ORDER BY 1;
-- and where the groups of a few keys would be much cheaper
CREATE TABLE many AS SELECT i % 211 AS cid, i % 10 AS v FROM generate_series(1, 60000) i;
CREATE INDEX ON many USING gpujoin (cid) INCLUDE (v);
ANALYZE many;
SELECT op, compare_groups(format('SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM many GROUP BY cid) a ON a.cid %s c.id AND c.id = 5', op)),
	compare_groups(format('SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM many GROUP BY cid) a ON c.id %s a.cid WHERE c.region = 7', op))
	FROM unnest('{=,<,<=,>=,>,<>}'::text[]) op;
-- unless it needs what is turned off, however cheap it is
CREATE INDEX many_btree ON many (cid);
VACUUM ANALYZE many;
SELECT compare_groups('SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM many GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7');
SET enable_seqscan = off;
SELECT compare_groups('SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) AS n FROM many GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7');
RESET enable_seqscan;
DROP INDEX many_btree;
-- The same below DISTINCT and window functions, also in a subquery of the subquery
ALTER TABLE many ADD id serial;
VACUUM ANALYZE many;
SELECT number, compare_groups(replace(form, '#', '(' || filter || ')')) AS region, compare_groups(replace(form, '#', 'c.id IN (3, 4, 290)')) AS list FROM (VALUES ('c.region = 7')) l (filter), (VALUES
	(1, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT m.*, row_number() OVER (PARTITION BY m.cid ORDER BY m.v DESC, m.id) AS row FROM many m) a ON a.cid = c.id AND a.row < 4 WHERE #'),
	(2, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT t.* FROM (SELECT m.*, row_number() OVER (PARTITION BY m.cid ORDER BY m.id) AS row FROM many m) t WHERE t.row < 4) a ON a.cid = c.id WHERE #'),
	(3, 'SELECT c.id, a.* FROM customers c JOIN (SELECT DISTINCT ON (cid) * FROM many ORDER BY cid, id DESC) a ON a.cid = c.id WHERE #'),
	(4, 'SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT DISTINCT v, cid FROM many WHERE v > 2) a ON a.cid = c.id WHERE #'),
	(6, 'SELECT c.id, a.* FROM customers c JOIN (SELECT v, cid, count(*) AS n, rank() OVER (PARTITION BY cid ORDER BY sum(id)) FROM many GROUP BY cid, v) a ON a.cid = c.id WHERE #'),
	(7, 'SELECT c.id, a.* FROM customers c JOIN (SELECT id, cid, sum(v) OVER (PARTITION BY cid), lag(id) OVER (PARTITION BY v, cid ORDER BY id) FROM many) a ON a.cid = c.id WHERE #'),
	(8, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, n, row_number() OVER (PARTITION BY cid ORDER BY v) FROM (SELECT cid, v, count(*) AS n FROM many GROUP BY 1, 2) s) a ON a.cid = c.id WHERE #'),
	(9, 'SELECT c.id, a.* FROM customers c JOIN (SELECT DISTINCT s.cid, x.name FROM (SELECT DISTINCT cid, v FROM many) s JOIN customers x ON x.id = s.v) a ON a.cid = c.id WHERE #'),
	(10, 'SELECT c.id, a.* FROM customers c JOIN (SELECT DISTINCT s.cid, x.id FROM customers x FULL JOIN (SELECT DISTINCT cid, v FROM many) s ON s.cid = x.id AND x.region = 3) a ON a.cid = c.id WHERE #'),
	(11, 'SELECT c.id, a.* FROM customers c JOIN (SELECT x.id, s.n, s.cid, count(*) OVER (PARTITION BY s.cid) AS k FROM customers x LEFT JOIN (SELECT cid, count(*) AS n FROM many GROUP BY cid) s ON s.cid = x.id) a ON a.cid = c.id WHERE #'),
	(12, 'WITH a AS (SELECT cid, sum(v) AS n FROM many GROUP BY cid) SELECT c.id, a.n FROM customers c LEFT JOIN a ON a.cid = c.id WHERE #'),
	(13, 'WITH x AS MATERIALIZED (SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT DISTINCT cid AS n FROM many) a ON a.n = c.id WHERE #) SELECT * FROM x UNION ALL SELECT x.id + n, n FROM x'),
	(14, 'SELECT max(n), count(*) FROM (SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM many GROUP BY 1) a ON a.cid = c.id WHERE # LIMIT 7000) s')) f (number, form) ORDER BY 1;
-- not where rows with another key count: windows over them, DISTINCT ON something else, limits, volatile functions, locks, collations
SELECT number, compare_groups(form) FROM (VALUES
	(1, 'SELECT c.id, a.* FROM customers c JOIN (SELECT id, cid, count(*) OVER (PARTITION BY v) FROM many) a ON a.cid = c.id WHERE c.region = 7'),
	(2, 'SELECT c.id, a.* FROM customers c JOIN (SELECT id, cid, count(*) OVER (PARTITION BY cid), count(*) OVER () AS n FROM many) a ON a.cid = c.id WHERE c.region = 7'),
	(3, 'SELECT c.id, a.* FROM customers c JOIN (SELECT DISTINCT ON (v) * FROM many ORDER BY v, id) a ON a.cid = c.id WHERE c.id = 5'),
	(4, 'SELECT c.id, count(*), count(DISTINCT a.r) > 5 AS r FROM customers c JOIN (SELECT random() AS r, * FROM many) a ON a.cid = c.id WHERE c.region = 7 GROUP BY 1'),
	(5, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) OVER (PARTITION BY cid) AS n FROM (SELECT * FROM many ORDER BY id LIMIT 3000) s) a ON a.cid = c.id WHERE c.region = 7'),
	(6, 'SELECT c.id, count(DISTINCT a.key), count(*) FROM customers c LEFT JOIN (SELECT gen_random_uuid() AS key, m.* FROM many m) a ON a.cid = c.id WHERE c.region = 7 AND c.id % 20 = 7 GROUP BY 1'),
	(16, 'SELECT c.id, a.* FROM customers c JOIN (SELECT m.cid, count(*) OVER (PARTITION BY m.cid) AS n, l.filter FROM many m, LATERAL (SELECT f.filter FROM filters f WHERE f.filter > m.v::text ORDER BY 1 LIMIT 1 FOR UPDATE) l WHERE m.id < 900) a ON a.cid = c.id WHERE c.region = 7'),
	(7, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, rank() OVER (PARTITION BY cid ORDER BY n) AS r FROM (SELECT cid, rank() OVER (ORDER BY v) AS n FROM many) s) a ON a.cid = c.id WHERE c.region = 7'),
	(8, 'SELECT c.id, a.* FROM customers c JOIN (SELECT t, id, count(*) OVER (PARTITION BY t COLLATE any_case) AS n FROM big) a ON a.t = c.t WHERE c.region = 7'),
	(9, 'SELECT c.id, a.* FROM customers c JOIN (SELECT DISTINCT ON (t COLLATE any_case) t, id FROM big ORDER BY t COLLATE any_case, id) a ON a.t = c.t WHERE c.region = 7'),
	(10, 'SELECT c.id, a.* FROM customers c JOIN (SELECT cid, count(*) OVER (PARTITION BY cid) AS n FROM (SELECT DISTINCT cid, generate_series(1, v) FROM many) s) a ON a.cid = c.id WHERE c.region = 7'),
	(11, 'SELECT c.id, a.* FROM customers c RIGHT JOIN (SELECT DISTINCT cid FROM many) a ON a.cid = c.id AND c.region = 7'),
	(12, 'SELECT c.id, a.* FROM customers c JOIN (SELECT DISTINCT cid FROM many) a ON a.cid <= c.id WHERE c.id = 5'),
	(13, 'WITH a AS (SELECT cid, count(*) AS n FROM many GROUP BY 1) SELECT c.id, a.*, (SELECT max(n) FROM a) FROM customers c JOIN a ON a.cid = c.id WHERE c.region = 7'),
	(14, 'WITH a AS MATERIALIZED (SELECT cid, count(*) AS n FROM many GROUP BY 1) SELECT c.id, a.* FROM customers c JOIN a ON a.cid = c.id WHERE c.region = 7'),
	(15, 'WITH RECURSIVE a AS (SELECT DISTINCT cid, 1 AS n FROM many UNION SELECT x.id, a.n + 1 FROM a JOIN customers x ON x.id = a.cid AND a.n < 3) SELECT c.id, a.* FROM customers c JOIN a ON a.cid = c.id WHERE c.region = 7')) f (number, form) ORDER BY 1;
-- rows and values that a user must not see are not shown to a function, nor counted
CREATE FUNCTION leak(int) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 <> 3 THEN RAISE NOTICE 'seen: %', $1; END IF; RETURN true; END $$;
CREATE VIEW barrier WITH (security_barrier) AS SELECT cid, count(*) AS n FROM big WHERE cid = 3 GROUP BY cid;
CREATE VIEW region_3 WITH (security_barrier) AS SELECT * FROM customers WHERE region = 3;
CREATE TABLE secret AS SELECT * FROM customers;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY one ON secret USING (region = 3);
CREATE ROLE regress_rewrite;
GRANT USAGE ON SCHEMA rewrite TO regress_rewrite;
GRANT SELECT ON secret, customers, big, barrier, region_3 TO regress_rewrite;
SET ROLE regress_rewrite;
SELECT c.id, a.n FROM customers c JOIN barrier a ON a.cid = c.id WHERE c.id IN (3, 4) AND leak(a.cid) ORDER BY 1;
SELECT c.id, a.n FROM region_3 c JOIN (SELECT cid, count(*) AS n FROM big WHERE cid < 50 GROUP BY cid) a ON a.cid = c.id WHERE leak(c.region) ORDER BY 1;
SELECT c.id, a.n FROM secret c JOIN (SELECT cid, count(*) AS n FROM big WHERE cid < 50 GROUP BY cid) a ON a.cid = c.id WHERE leak(c.region) ORDER BY 1;
RESET ROLE;
REVOKE SELECT ON customers FROM regress_rewrite;
SET ROLE regress_rewrite;
SELECT c.id, a.n FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 3;
RESET ROLE;
-- rows that are locked or changed, and a table that has children
SELECT lines('c_1', 'SELECT c.id, a.n FROM customers c JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7 FOR UPDATE OF c') AS locked,
	lines('c_1', 'UPDATE customers c SET name = a.n FROM (SELECT cid, count(*) AS n FROM big GROUP BY cid) a WHERE a.cid = c.id AND c.region = 7') AS changed,
	lines('c_1', 'INSERT INTO customers SELECT c.id + a.n FROM customers c JOIN (SELECT DISTINCT cid AS n FROM many) a ON a.n = c.id WHERE c.region = 7') AS inserted;
CREATE TABLE child (extra int) INHERITS (customers);
INSERT INTO child SELECT i, i % 20, 'child', NULL, NULL, NULL, NULL, 1 FROM generate_series(200, 220) i;
SELECT regexp_count(string_agg(l, ' '), 'Scan on customers') AS scans FROM plan_of('SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7') l
UNION ALL SELECT regexp_count(string_agg(l, ' '), 'Scan on customers') FROM plan_of('SELECT c.id, a.n FROM ONLY customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.region = 7') l;
DROP TABLE child;
-- prepared statements: values, and the index that goes
PREPARE counts(int) AS SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.id = $1 ORDER BY 1, 2;
EXECUTE counts(3);
SET plan_cache_mode = force_generic_plan;
EXECUTE counts(3);
EXECUTE counts(NULL);
BEGIN;
DROP INDEX big_cid_v_idx;
EXECUTE counts(3);
SELECT lines('c_1|gpujoin|GpuScan|GpuJoin', 'EXECUTE counts(3)');
ROLLBACK;
RESET plan_cache_mode;

-- an error of a condition on the key, for a value that is no key
SELECT compare_groups('SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE 12 / c.id = 3');
-- what was planned in two forms is noted once; before 16, a group by a constant costs as much as another one, and GpuAgg is chosen
SELECT relation, node, chosen OR node = 'GpuAgg' AS chosen FROM gpujoin_explain_choice('SELECT c.id, a.n FROM customers c LEFT JOIN (SELECT cid, count(*) AS n FROM big GROUP BY cid) a ON a.cid = c.id WHERE c.id = 3') WHERE index::text ~ 'cid' ORDER BY 2;
SELECT DISTINCT relation, chosen FROM gpujoin_explain_choice('SELECT c.id, a.* FROM customers c LEFT JOIN (SELECT *, row_number() OVER (PARTITION BY cid) AS n FROM many) a ON a.cid = c.id WHERE c.id = 3') WHERE node = 'GpuScan' ORDER BY 1, 2;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA rewrite CASCADE;
DROP ROLE regress_rewrite;
