--
-- gpujoin_propose(query): which new index would pay, without building it
--
CREATE EXTENSION gpujoin_advisor SCHEMA public;
CREATE SCHEMA advise;
SET search_path = advise, public;
SET max_parallel_workers_per_gather = 0;
-- costs depend on whether an index would have a mirror
SET gpujoin.auto_load = off;

CREATE TABLE facts (id int, k int, v int, y bigint, note bytea);
INSERT INTO facts SELECT i, (i * 7919::int8) % 60000, i % 7, i % 1000, 'n' FROM generate_series(1, 120000) i;
CREATE TABLE keys (k int);
INSERT INTO keys SELECT i * 10 FROM generate_series(1, 500) i;
CREATE TABLE "Odd ones" ("The key" bigint, "Some value" smallint);
INSERT INTO "Odd ones" SELECT i % 5000, 1 FROM generate_series(1, 50000) i;
VACUUM ANALYZE facts, keys, "Odd ones";

CREATE FUNCTION advice(query text) RETURNS TABLE (relation regclass, key_column name, create_index text,
	saves boolean, note text) LANGUAGE sql AS $$
	SELECT relation, key_column, create_index, cost_with < cost_now,
		regexp_replace(regexp_replace(note, 'about \d+', 'about N'), '[0-9.]+ times', 'N times')
	FROM gpujoin_propose(query) ORDER BY create_index, relation::text, key_column
$$;

-- Lists, arrays of unknown length, joins; further columns that the query needs are included if
-- possible
SELECT * FROM advice('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM advice('SELECT count(*) FROM facts WHERE k = ANY ($1)');
SELECT * FROM advice('SELECT count(*) FROM facts WHERE k IN ($1, $2, $3)');
SELECT * FROM advice('SELECT v, sum(y) FROM facts WHERE k IN (1, 2, 3) GROUP BY v');
SELECT * FROM advice('SELECT v, sum(y) FROM facts JOIN keys USING (k) WHERE v < $1 GROUP BY v');
SELECT * FROM advice('SELECT note FROM facts WHERE k IN (SELECT k FROM keys) AND y = 5');
SELECT * FROM advice('SELECT f."The key", f."Some value" FROM "Odd ones" f JOIN keys ON f."The key" = keys.k');
SELECT include_columns, index_size BETWEEN 50000 * 4 AND 50000 * 7 AS size
FROM gpujoin_propose('SELECT f."The key", f."Some value" FROM "Odd ones" f JOIN keys ON f."The key" = keys.k')
WHERE create_index IS NOT NULL;
-- Two tables in one query; a view; a subquery that is not pulled up
SELECT * FROM advice('SELECT count(*) FROM facts, "Odd ones" WHERE facts.k IN (1, 2) AND "The key" IN (3, 4)');
CREATE VIEW seen AS SELECT k, sum(v) AS s FROM facts WHERE v > 1 GROUP BY k;
SELECT * FROM advice('SELECT * FROM seen WHERE k IN (1, 2)');
SELECT * FROM advice('SELECT (SELECT count(*) FROM (SELECT * FROM facts WHERE k IN (1, 2) OFFSET 0) q)');

-- A table that the query names twice: an index has the columns of the places that it serves
CREATE TABLE events (id int, ts timestamptz, den bigint, num bigint, cat smallint, u uuid);
INSERT INTO events SELECT g, '2026-01-01'::timestamptz + g % 400 * interval '1 day', g % 40 + 10, g % 977, g % 50, md5(g::text)::uuid
	FROM generate_series(1, 50000) g;
VACUUM ANALYZE events;
SELECT * FROM advice('SELECT o.ts, o.u, (SELECT count(*) FROM events i WHERE i.num = o.den AND i.cat = 1) FROM events o WHERE o.u = ANY ($1)');
SELECT * FROM advice('SELECT o.ts, o.id, i.den FROM events o JOIN events i ON i.num = o.num WHERE o.cat = 1 AND o.den = 10');
-- one that serves both has the columns of both
SELECT * FROM advice('SELECT count(o.den), sum(o.cat) FROM events o WHERE o.num IN (1, 2) UNION ALL SELECT count(i.ts), sum(i.id) FROM events i WHERE i.num IN (3, 4)');

-- Lists of constants as pg_stat_statements shows them from version 18 on: of unknown length
SELECT a.cost_with = b.cost_with AS same FROM gpujoin_propose('SELECT * FROM facts WHERE k IN ($1 /*, ... */)') a,
	gpujoin_propose('SELECT * FROM facts WHERE k = ANY ($1)') b;
SELECT a.cost_with = b.cost_with AS same FROM gpujoin_propose('SELECT * FROM facts WHERE k = ANY (ARRAY[$1 /*, ... */])') a,
	gpujoin_propose('SELECT * FROM facts WHERE k = ANY ($1)') b;
SELECT a.cost_now = b.cost_now AS same FROM gpujoin_propose('SELECT * FROM facts WHERE k not in ($12 /*, ... */)') a,
	gpujoin_propose('SELECT * FROM facts WHERE k <> ALL ($1)') b;
SELECT count(*) FROM gpujoin_propose('SELECT min($1 /*, ... */) FROM facts WHERE k = 1');

-- Constants as it shows them where the grammar or the types require them
SELECT query, a.key_column FROM unnest(ARRAY[
	'SELECT count(*) FROM facts WHERE k = ANY (ARRAY[$1, $2, $3])',
	'SELECT count(*) FROM facts WHERE k = ANY (ARRAY[$1,$2] || ARRAY[$3])',
	'SELECT count(*) FROM facts WHERE k IN (VALUES ($1), ($2))',
	'SELECT count(*) FROM facts JOIN unnest($1) u (k) USING (k)',
	'SELECT count(*) FROM facts WHERE k IN (SELECT generate_series($1, $2))',
	'SELECT count(*) FROM facts JOIN (SELECT $1 AS k UNION ALL SELECT $2) u USING (k)',
	'WITH RECURSIVE r (k) AS (SELECT $1 UNION ALL SELECT k + $2 FROM r WHERE k < $3) SELECT count(*) FROM facts JOIN r USING (k)',
	'SELECT count(*) FROM facts WHERE k IN ($1, $2) AND current_date - $3 > date $4 + interval $5 DAY',
	'SELECT count(*) FROM facts WHERE k IN ($1, $2) AND timestamp with time zone $3 AT TIME ZONE $4 > timestamp $5',
	'SELECT count(*) FROM facts WHERE k IN ($1, $2) AND extract($3 FROM now()) > numeric $4',
	E'SELECT count(*) FROM facts WHERE k IN ( -- the keys\n$1, $2) AND v BETWEEN $3 AND $4 ORDER BY count(*) LIMIT $5',
	'SELECT count(*) FROM facts WHERE k IN ($1, $2) AND ''nn'' LIKE $3 ESCAPE $4 AND pg_catalog.date $5 > date$6'])
	WITH ORDINALITY q (query, n), gpujoin_propose(query) a ORDER BY n;

-- Prepared statements and cursors as it shows them
SELECT * FROM advice('PREPARE p (bigint[]) AS SELECT * FROM facts WHERE k = ANY ($1)');
SELECT * FROM advice('DECLARE c CURSOR FOR SELECT * FROM facts WHERE k IN (1, 2)');

-- Two indexes with equal savings: either of the joined tables may be the small one
CREATE TABLE same AS SELECT * FROM facts;
VACUUM ANALYZE same;
SELECT key_column, create_index IS NOT NULL AS proposed, note FROM gpujoin_propose('SELECT count(*)
	FROM facts f JOIN same s USING (k) WHERE f.note LIKE ''missin_'' AND s.note LIKE ''missin_''') ORDER BY 2 DESC;
SELECT key_column, create_index IS NOT NULL AS proposed, note FROM gpujoin_propose('SELECT count(*)
	FROM facts f JOIN same s USING (k) WHERE f.k IN (1, 2)') ORDER BY 2 DESC;
DROP TABLE same;

-- An array of unknown length has as many keys in a btree's plan as in ours
CREATE INDEX facts_btree ON facts (k, id);
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1::bigint[])');
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k IN (SELECT unnest($1::int[]))');
SELECT * FROM advice('SELECT sum(v) FROM facts JOIN unnest($2) u (k) USING (k) WHERE id < $1');
SELECT * FROM advice('SELECT sum(v) FROM (SELECT * FROM facts WHERE k = ANY ($1) OR k = $2 OFFSET 0) f');
SELECT * FROM advice('SELECT sum(v) FROM facts f WHERE v + 0 > (SELECT min(v) FROM facts WHERE k = ANY ($1))');
SET gpujoin.assumed_keys = 2;
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
SET gpujoin.assumed_keys = 5000;
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
-- the costs are those that EXPLAIN shows for an array of that length
CREATE FUNCTION total_cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END
$$;
CREATE TABLE promised AS SELECT * FROM gpujoin_propose('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
CREATE VIEW listed AS SELECT total_cost(format('SELECT sum(v) FROM facts WHERE k = ANY (%L)',
	ARRAY(SELECT i * 7 FROM generate_series(1, 5000) i))) AS cost;
SELECT cost / cost_now BETWEEN 0.95 AND 1.05 AS now FROM promised, listed;
CREATE INDEX facts_wide ON facts USING gpujoin (k) INCLUDE (v);
SELECT cost / cost_with BETWEEN 0.8 AND 1.25 AS kept FROM promised, listed;
DROP INDEX facts_wide;
RESET gpujoin.assumed_keys;
DROP INDEX facts_btree;

-- each type that a key can have, with and without statistics; notes about other types
CREATE TABLE kinds (i2 smallint, i4 int, i8 bigint, o oid, d date, ts timestamp, tz timestamptz, u uuid, t text, n numeric);
INSERT INTO kinds SELECT i, i, i * 10000000000, i, date '2020-01-01' + i, timestamp '2020-01-01' + i * interval '1 hour',
	timestamptz '2020-01-01' + i * interval '1 hour', md5(i::text)::uuid, i, i FROM generate_series(1, 20000) i;
SELECT count(*) FROM gpujoin_propose('SELECT * FROM kinds WHERE i4 = ANY ($1)') WHERE note LIKE '%with 20 keys in $1';
ANALYZE kinds;
SELECT c AS column, a.create_index, a.note FROM unnest('{i2,i4,i8,o,d,ts,tz,u,t,n}'::name[]) WITH ORDINALITY q (c, i),
	gpujoin_propose(format('SELECT * FROM kinds WHERE %I = ANY ($1)', c)) a ORDER BY i;
SELECT note FROM gpujoin_propose('SELECT * FROM kinds WHERE i8 = ANY ($1::int[])');
SELECT note FROM gpujoin_propose('SELECT * FROM kinds WHERE i2 = ANY ($1::bigint[]) AND t = ANY ($2::varchar[])');
SELECT key_column, note FROM gpujoin_propose('SELECT * FROM kinds a JOIN kinds b USING (u)');
SELECT key_column, note FROM gpujoin_propose('SELECT * FROM kinds a LEFT JOIN kinds b ON a.u = b.u AND a.t = ''1''');
SELECT key_column, note FROM gpujoin_propose('SELECT * FROM kinds WHERE u = $1 OR t LIKE ANY ($2) OR t <> ALL ($3)');
-- tuples: the more selective column is the key, and the others are included if they can be
CREATE TABLE tenants (tenant int, id uuid, login text, place int, pad name);
INSERT INTO tenants SELECT i % 100, md5(i::text)::uuid, 'user ' || i / 20, i % 1000 FROM generate_series(1, 30000) i;
VACUUM ANALYZE tenants;
SELECT create_index FROM gpujoin_propose('SELECT * FROM tenants WHERE (tenant, id) IN (($1, $2), ($3, $4))');
SELECT create_index FROM gpujoin_propose('SELECT * FROM tenants WHERE (tenant = $1 AND id = ANY ($2)) OR (tenant = $3 AND id = ANY ($4))');
SELECT create_index FROM gpujoin_propose('SELECT * FROM tenants WHERE (login, place) IN (($1, $2), ($3, $4), ($5, $6))');
SELECT create_index FROM gpujoin_propose('SELECT t.* FROM tenants t JOIN unnest($1::text[], $2::int[]) u (login, place) ON t.login = u.login AND t.place = u.place');
SELECT create_index FROM gpujoin_propose('SELECT * FROM tenants WHERE id::text = ANY ($1::text[])');
-- few distinct values, all of them common
SELECT note FROM gpujoin_propose('SELECT * FROM facts WHERE v = ANY ($1)');
-- arrays with another meaning are left unchanged
SELECT a.cost_now = b.cost_now AS same, b.note FROM gpujoin_propose('SELECT * FROM facts WHERE k IN (1, 2) AND ARRAY[v] && $1') a,
	gpujoin_propose('SELECT * FROM facts WHERE k IN (1, 2) AND ARRAY[v] && ARRAY[$1::int]') b;
SELECT note FROM gpujoin_propose('SELECT * FROM facts WHERE k = ANY ($200000)');

-- Statements that change or lock rows are planned, but not executed
SELECT * FROM advice('DELETE FROM facts WHERE k IN (1, 2)');
SELECT * FROM advice('DELETE FROM facts USING keys WHERE facts.k = keys.k RETURNING *');
SELECT * FROM advice('UPDATE facts SET note = $2 WHERE k = ANY ($1) AND y < 3');
SELECT * FROM advice('UPDATE facts SET y = 0 WHERE k = ANY ($1) AND y < 30');
-- a range costs somewhat less, but the other key serves other queries, too
SELECT * FROM advice('SELECT count(*) FROM facts WHERE k = ANY ($1) AND y < 200');
SELECT * FROM advice('MERGE INTO facts f USING keys s ON f.k = s.k
	WHEN MATCHED AND y < 30 THEN UPDATE SET y = 0 WHEN NOT MATCHED THEN DO NOTHING');
SELECT * FROM advice('INSERT INTO keys SELECT v FROM facts WHERE k IN (1, 2)');
SELECT * FROM advice('INSERT INTO keys VALUES ($1), ($2)');
SELECT * FROM advice('WITH d AS (DELETE FROM facts WHERE k IN (1, 2) RETURNING *) SELECT * FROM d');
SELECT * FROM advice('SELECT * FROM facts WHERE k IN (1, 2) FOR UPDATE');
SELECT * FROM advice('PREPARE p (int[]) AS DELETE FROM facts WHERE k = ANY ($1)');
SELECT count(*), sum(y) FROM facts;

-- Indexes that do not pay, and the reasons
SELECT * FROM advice('SELECT * FROM facts WHERE k NOT IN (1, 2, 3)');
SELECT * FROM advice('SELECT * FROM keys WHERE k IN (1, 2, 3)');
SELECT * FROM advice('SELECT * FROM facts WHERE note = ''n''');
SELECT * FROM advice('SELECT * FROM facts');
SELECT * FROM advice('SELECT * FROM pg_class WHERE oid IN (1, 2)');
CREATE INDEX facts_id ON facts (id);
SELECT * FROM advice('SELECT * FROM facts WHERE id = 5');
DROP INDEX facts_id;

-- When the index has been built, the estimate is within a fifth of the promised one
CREATE FUNCTION promise(query text, OUT built text, OUT kept boolean, OUT size_kept boolean) LANGUAGE plpgsql AS $$
DECLARE
	promised record;
	plan json;
	index regclass;
BEGIN
	SELECT * INTO promised FROM gpujoin_propose(query) WHERE create_index IS NOT NULL;
	built := promised.create_index;
	EXECUTE built;
	SELECT max(indexrelid) INTO index FROM pg_index WHERE indrelid = promised.relation;
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	kept := (plan -> 0 -> 'Plan' ->> 'Total Cost')::float8 / promised.cost_with BETWEEN 0.8 AND 1.25;
	size_kept := sum(pg_relation_size(relid)) / promised.index_size BETWEEN 0.8 AND 1.25
		FROM pg_partition_tree(index);
	EXECUTE 'DROP INDEX ' || index;
END
$$;
SELECT * FROM promise('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM promise('SELECT count(*) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM keys))');
SELECT * FROM promise('SELECT v, sum(y) FROM facts WHERE k IN (1, 2, 3) GROUP BY v');
SELECT * FROM promise('SELECT v, sum(y) FROM facts JOIN keys USING (k) GROUP BY v');
SELECT * FROM promise('SELECT f.* FROM "Odd ones" f JOIN keys ON f."The key" = keys.k');
SELECT * FROM promise('SELECT id FROM facts WHERE k IN (1, 2, 3) ORDER BY y DESC LIMIT 2');

-- An existing index
CREATE INDEX facts_k ON facts USING gpujoin (k);
SELECT * FROM advice('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM advice('SELECT v, sum(y) FROM facts JOIN keys USING (k) GROUP BY v');
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
SELECT substring(note, '([0-9.]+) times')::float8 > 1.5 AS much FROM gpujoin_propose('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
-- the new one also has its columns
CREATE INDEX facts_k_id ON facts USING gpujoin (k) INCLUDE (id);
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
SELECT * FROM advice('SELECT sum(id) FROM facts WHERE k = ANY ($1)');
DROP INDEX facts_k, facts_k_id;

-- A partitioned table gets an index of its own, with one on each partition
CREATE TABLE parts (k int, v int, d int) PARTITION BY RANGE (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (5);
CREATE TABLE parts_2 (d int, gone text, v int, k int);
ALTER TABLE parts_2 DROP gone;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (5) TO (10);
INSERT INTO parts SELECT i % 40000, i, i % 10 FROM generate_series(1, 100000) i;
VACUUM ANALYZE parts;
SELECT * FROM advice('SELECT sum(v) FROM parts WHERE k IN (1, 2, 3)');
SELECT * FROM promise('SELECT sum(v) FROM parts WHERE k IN (1, 2, 3)');
SELECT * FROM advice('SELECT sum(v) FROM parts_2 JOIN keys USING (k)');
SELECT * FROM advice('SELECT sum(v) FROM (SELECT k, v FROM facts UNION ALL SELECT k, v FROM parts) u WHERE k IN (1, 2)');
-- arrays of unknown length, with the statistics of the partitions or of the table
SELECT note FROM gpujoin_propose('SELECT sum(v) FROM parts WHERE k = ANY ($1)');
CREATE TABLE unanalyzed (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE unanalyzed_1 PARTITION OF unanalyzed FOR VALUES FROM (0) TO (30000);
CREATE TABLE unanalyzed_2 PARTITION OF unanalyzed FOR VALUES FROM (30000) TO (100000);
INSERT INTO unanalyzed SELECT i % 40000, i FROM generate_series(1, 100000) i;
ANALYZE unanalyzed_1, unanalyzed_2;
SELECT note FROM gpujoin_propose('SELECT sum(v) FROM unanalyzed WHERE k = ANY ($1)');
CREATE TABLE child () INHERITS (facts);
INSERT INTO child SELECT * FROM facts;
VACUUM ANALYZE child;
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM advice('SELECT sum(v) FROM facts WHERE k = ANY ($1)');
DROP TABLE child;

-- The settings are used as they are when gpujoin is in use
SET gpujoin.enabled = off;
SELECT * FROM advice('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SHOW gpujoin.enabled;
RESET gpujoin.enabled;

-- Nothing is left behind: no lock, no transaction, no trace in a read-only transaction
BEGIN READ ONLY;
SELECT count(*) FROM gpujoin_propose('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'facts'::regclass;
SELECT count(*) FROM gpujoin_propose('DELETE FROM facts WHERE k IN (1, 2, 3)');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'facts'::regclass;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction;
COMMIT;

-- Nothing is executed except functions that the planner calls; a query inside those is not affected
CREATE SEQUENCE calls;
SELECT * FROM advice('SELECT nextval(''calls'') FROM facts WHERE k IN (1, 2, 3)');
SELECT is_called FROM calls;
CREATE FUNCTION one() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT min(id) FROM facts WHERE k = 7919); END';
SELECT * FROM advice('SELECT * FROM facts WHERE k IN (one(), 2, 3)');
-- nor is advice requested inside a function, whether or not it succeeds
CREATE FUNCTION advised() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	PERFORM gpujoin_propose('SELECT * FROM keys JOIN "Odd ones" ON k = "The key" WHERE k IN (1, 2)');
	PERFORM gpujoin_propose('SELECT * FROM keys JOIN "Odd ones" ON k = "The key" WHERE missing()');
	RETURN 1;
EXCEPTION WHEN OTHERS THEN
	RETURN 2;
END
$$;
CREATE FUNCTION missing() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RAISE ''missing''; END';
SELECT * FROM advice('SELECT * FROM facts WHERE k IN (advised(), 2, 3)');

-- Statements that are not analyzed
\set VERBOSITY terse
SELECT * FROM gpujoin_propose('SELECT 1; SELECT 2');
SELECT * FROM gpujoin_propose('SELECT * INTO other FROM facts');
SELECT * FROM gpujoin_propose('EXPLAIN SELECT 1');
CREATE RULE twice AS ON INSERT TO "Odd ones" DO ALSO SELECT 1;
SELECT * FROM gpujoin_propose('INSERT INTO "Odd ones" SELECT k FROM facts WHERE k IN (1, 2)');
DROP RULE twice ON "Odd ones";
SELECT * FROM gpujoin_propose('no query');
SELECT * FROM gpujoin_propose('SELECT * FROM missing');
SELECT * FROM gpujoin_propose('');
SELECT * FROM gpujoin_propose(NULL);
SELECT 'still here' AS session;

-- Only users who may read the tables get advice; row security is part of the query
CREATE ROLE regress_advised;
CREATE FUNCTION spy(keys int[]) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF keys[cardinality(keys)] <> cardinality(keys) THEN RAISE 'values of the column'; END IF;
	RETURN true;
END
$$;
GRANT USAGE ON SCHEMA advise TO regress_advised;
SET ROLE regress_advised;
SELECT * FROM gpujoin_propose('SELECT * FROM facts WHERE k IN (1, 2, 3)');
RESET ROLE;
GRANT SELECT ON facts, keys TO regress_advised;
ALTER TABLE facts ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON facts USING (v = 3);
SET ROLE regress_advised;
SELECT create_index, include_columns FROM gpujoin_propose('SELECT sum(id) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM gpujoin_propose('DELETE FROM facts WHERE k IN (1, 2, 3)');
-- a function does not see values that its caller may not see
SELECT note FROM gpujoin_propose('SELECT sum(id) FROM facts WHERE k = ANY ($1) AND spy($1)');
RESET ROLE;
SELECT note FROM gpujoin_propose('SELECT sum(id) FROM facts WHERE k = ANY ($1) AND spy($1)');
SELECT create_index, include_columns FROM gpujoin_propose('SELECT sum(id) FROM facts WHERE k IN (1, 2, 3)');

-- More columns than a page has room for: only as many values of this width fit
DO $$
BEGIN
	EXECUTE 'CREATE TABLE wide (k uuid, ' ||
		(SELECT string_agg('c' || i || ' bigint', ', ') FROM generate_series(1, 30) i) || ')';
	EXECUTE 'INSERT INTO wide SELECT md5((i % 2000)::text)::uuid, ' ||
		(SELECT string_agg('i', ', ') FROM generate_series(1, 30)) || ' FROM generate_series(1, 20000) i';
END
$$;
VACUUM ANALYZE wide;
SELECT n, create_index IS NOT NULL AS proposed, include_columns IS NOT NULL AS with_columns, note
FROM generate_series(27, 30) n, gpujoin_propose(
	(SELECT 'SELECT ' || string_agg('sum(c' || i || ')', ', ') FROM generate_series(1, n) i) ||
	' FROM wide WHERE k = ANY ($1)');

-- Without pg_stat_statements
SELECT * FROM gpujoin_propose();

DROP OWNED BY regress_advised;
DROP ROLE regress_advised;
SET client_min_messages = warning;
DROP SCHEMA advise CASCADE;
DROP EXTENSION gpujoin_advisor;
