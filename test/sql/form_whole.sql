--
-- The whole index in place of its table: aggregates and distinct rows without a condition on the key
--
CREATE SCHEMA form_whole;
SET search_path = form_whole, public;
SET max_parallel_workers_per_gather = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

-- Does the plan read a whole index?  Is the answer the same?
CREATE FUNCTION whole(query text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(replace(compare(query, c), c, 'whole'), '^NO [^:]*:[^:]*', 'not whole')
	FROM (VALUES ('Key Condition: \(.* IS NOT NULL\)')) w (c)
$$;

CREATE TABLE big (id int, gone text, k int NOT NULL, n int, st int2 NOT NULL, v int8, f float8, u uuid, t text)
	WITH (autovacuum_enabled = off);
ALTER TABLE big DROP COLUMN gone;
INSERT INTO big SELECT i, (i * 7919) % 3000, CASE WHEN i % 10 <> 0 THEN i % 400 END, i % 7, (i * 7919) % 1000,
	i / 8.0, md5((i % 500)::text)::uuid, 't' || i % 600 FROM generate_series(1, 30000) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (st, v);
CREATE INDEX big_n ON big USING gpujoin (n) INCLUDE (f, u);
VACUUM ANALYZE big;

-- Chosen by default
EXPLAIN (COSTS OFF) SELECT k, count(*) FROM big GROUP BY k;
EXPLAIN (COSTS OFF) SELECT count(DISTINCT k) FROM big;
EXPLAIN (COSTS OFF) SELECT DISTINCT k FROM big;
EXPLAIN (COSTS OFF) SELECT st, count(*), sum(v) FROM big WHERE v < 500 GROUP BY st HAVING count(*) > 3;
EXPLAIN (COSTS OFF) SELECT * FROM big ORDER BY v DESC LIMIT 3;
-- rows themselves are a sequential scan's
EXPLAIN (COSTS OFF) SELECT k, st FROM big;
EXPLAIN (COSTS OFF) SELECT n, f FROM big WHERE n IS NOT NULL;

SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, count(*) FROM big GROUP BY k',
	'SELECT count(*) FROM big',
	'SELECT count(DISTINCT k) FROM big',
	'SELECT DISTINCT k FROM big',
	'SELECT DISTINCT st, k FROM big',
	'SELECT sum(v), avg(v), min(k), max(st), count(v) FROM big',
	'SELECT st, count(*), sum(v) FROM big GROUP BY st',
	'SELECT st, count(*) FILTER (WHERE v > 500), sum(v) FILTER (WHERE k < 100) FROM big GROUP BY st',
	'SELECT st, count(*), sum(v) FROM big WHERE v < 500 AND st <> 3 GROUP BY st HAVING sum(v) > 1000',
	'SELECT st, count(*) FROM big WHERE v % 3 = 0 GROUP BY st',
	'SELECT st + 1, sum(v * 2) FROM big GROUP BY st + 1',
	'SELECT count(*) FROM big WHERE k IS NULL OR st = 3',
	'SELECT count(*) FROM (SELECT DISTINCT k, st FROM big) x',
	'SELECT i, (SELECT count(*) FROM big WHERE st = i) FROM generate_series(1, 3) i',
	'SELECT count(*), sum(n) FROM (SELECT st, count(*) AS n FROM big GROUP BY st) x',
	'SELECT sum(c), rank() OVER (ORDER BY k) FROM (SELECT k, count(*) AS c FROM big GROUP BY k) x GROUP BY k',
	'SELECT st, count(*) FROM big GROUP BY st ORDER BY 2 DESC, 1 LIMIT 3',
	'SELECT k, v FROM big ORDER BY v DESC, k LIMIT 5',
	'SELECT id, k, v FROM big WHERE st = 3 ORDER BY v, k, id LIMIT 5']) q;

-- Refused: columns that the index lacks, rows that it lacks, and other kinds of queries
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, count(*), max(id) FROM big GROUP BY k',
	'SELECT k, count(*) FROM big WHERE id > 3 GROUP BY k',
	'SELECT max(ctid::text), count(tableoid) FROM big',
	'SELECT count(big) FROM big',
	'SELECT k, count(*) FROM big GROUP BY ROLLUP (k)',
	'SELECT DISTINCT ON (k) k, st FROM big ORDER BY k, st',
	'SELECT generate_series(1, 2), k FROM big GROUP BY k',
	'SELECT count(*) > 0, sum(k) > 0 FROM big TABLESAMPLE SYSTEM (50)',
	'SELECT k, st FROM big',
	'SELECT array_agg(k ORDER BY k, v) FROM big',
	'SELECT b.st, count(*) FROM big b JOIN generate_series(1, 3) g ON b.st = g GROUP BY b.st']) q;

-- NULL keys are in the index, too
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT n, count(*) FROM big GROUP BY n',
	'SELECT count(*) FROM (SELECT DISTINCT n, f FROM big) x',
	'SELECT sum(f) FROM big',
	'SELECT count(f), count(n) FROM big',
	'SELECT count(*), count(n) FROM big HAVING count(n) > 0',
	'SELECT count(n) FROM big HAVING count(*) > 3',
	'SELECT count(n), sum(n) FROM big',
	'SELECT count(n) FROM big GROUP BY u',
	'SELECT DISTINCT count(n) FROM big',
	'SELECT array_agg(n ORDER BY n) FROM big',
	'SELECT count(n + 1) FROM big',
	'SELECT n FROM big ORDER BY f LIMIT 3']) q;
-- but they are not searched for strict aggregates of the key, and for queries that exclude them
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT count(n) FROM big',
	'SELECT count(DISTINCT n) FROM big',
	'SELECT count(n), count(DISTINCT n), avg(n), min(n), max(n) FROM big',
	'SELECT count(n) FILTER (WHERE f > 100) + 1 FROM big WHERE f < 3000 HAVING max(n) > 3',
	'SELECT sum(c) OVER () FROM (SELECT count(n) AS c FROM big) x',
	'SELECT n, count(*) FROM big WHERE n IS NOT NULL GROUP BY n',
	'SELECT sum(f), count(*) FROM big WHERE n IS NOT NULL',
	'SELECT u, count(*), sum(f) FROM big WHERE n IS NOT NULL AND f > 30 GROUP BY u',
	'SELECT n, f FROM big WHERE n IS NOT NULL ORDER BY f LIMIT 3']) q;

-- NOT NULL comes and goes, also beside a prepared statement
SET plan_cache_mode = force_generic_plan;
PREPARE by_key AS SELECT k, count(*) FROM big GROUP BY k ORDER BY k NULLS FIRST LIMIT 2;
EXPLAIN (COSTS OFF) EXECUTE by_key;
ALTER TABLE big ALTER k DROP NOT NULL;
EXPLAIN (COSTS OFF) EXECUTE by_key;
INSERT INTO big (k, st) VALUES (NULL, 1);
EXECUTE by_key;
SELECT whole('SELECT k, count(*) FROM big GROUP BY k');
DELETE FROM big WHERE k IS NULL;
ALTER TABLE big ALTER k SET NOT NULL;
EXECUTE by_key;
SELECT whole('SELECT k, count(*) FROM big GROUP BY k');
RESET plan_cache_mode;

-- Each operator class: the key itself, its hash, or a code with a rest
CREATE TABLE keys (id int NOT NULL, u uuid NOT NULL, t text NOT NULL, h text NOT NULL, e text NOT NULL, o oid NOT NULL, d numeric(12,2) NOT NULL,
	b bool, g int) WITH (autovacuum_enabled = off);
INSERT INTO keys SELECT i, md5((i % 700)::text)::uuid, CASE WHEN i % 50 = 0 THEN repeat('long ', 5) || i % 7 ELSE 'id_' || i % 900 END,
	repeat('text ', i % 5) || i % 800, 'k' || i % 50, i % 300, (i % 200) / 4.0, i % 3 = 0, i % 11 FROM generate_series(1, 30000) i;
CREATE INDEX keys_u ON keys USING gpujoin (u) INCLUDE (b);
CREATE INDEX keys_t ON keys USING gpujoin (t text_id_ops) INCLUDE (g);
CREATE INDEX keys_h ON keys USING gpujoin (h) INCLUDE (g, b);
CREATE INDEX keys_o ON keys USING gpujoin (o) INCLUDE (d);
CREATE INDEX keys_d ON keys USING gpujoin (d) INCLUDE (e);
VACUUM ANALYZE keys;
CREATE TABLE queries AS SELECT * FROM unnest(ARRAY[
	'SELECT b, count(*) FROM keys GROUP BY b',
	'SELECT u, count(*) FROM keys GROUP BY u',
	'SELECT count(DISTINCT u) FROM keys WHERE b',
	'SELECT g, count(*), sum(g) FROM keys GROUP BY g',
	'SELECT t, count(*) FROM keys GROUP BY t',
	'SELECT g, b, count(*) FROM keys WHERE g > 3 GROUP BY g, b',
	'SELECT h, count(*) FROM keys GROUP BY h',
	'SELECT o, count(*), sum(d) FROM keys GROUP BY o',
	'SELECT d, count(*) FROM keys GROUP BY d',
	'SELECT e, count(*) FROM keys GROUP BY e',
	'SELECT g FROM keys WHERE b ORDER BY g DESC LIMIT 7',
	'SELECT sum(id), count(*) FROM (SELECT id FROM keys ORDER BY d, id LIMIT 100) x']) q;
SELECT q, whole(q) FROM queries;

-- Rows in each part of the index: sorted, in the delta, on a tail; deleted, updated and aborted ones; mixed visibility
UPDATE keys SET g = g + 1 WHERE id % 7 = 0;
UPDATE keys SET id = id WHERE id % 13 = 0;
INSERT INTO keys SELECT i + 100000, md5(i::text)::uuid, 'new_' || i, 'new ' || i, 'n', i, i / 3.0, false, 12 FROM generate_series(1, 3000) i;
DELETE FROM keys WHERE id % 11 = 0;
BEGIN;
INSERT INTO keys SELECT 0, md5(i::text)::uuid, 'aborted', 'aborted', 'a', i, i, true, 13 FROM generate_series(1, 1000) i;
SAVEPOINT s;
DELETE FROM keys WHERE id % 3 = 0;
UPDATE keys SET h = h || '!' WHERE id % 5 = 0;
SELECT q, regexp_replace(whole(q), '^.*: ', '') FROM queries;
ROLLBACK TO s;
SELECT q, regexp_replace(whole(q), '^.*: ', '') FROM queries;
ROLLBACK;
SET gpujoin.force = on;
SELECT q, whole(q) FROM queries;
VACUUM keys;
DELETE FROM keys WHERE id BETWEEN 8000 AND 9000;
SELECT q, whole(q) FROM queries;
SELECT gpujoin_fold('keys_h', true) >= 0, gpujoin_fold('keys_u', true) >= 0, gpujoin_fold('keys_t') >= 0;
SET work_mem = '64kB';
SELECT q, whole(q) FROM queries;
RESET work_mem;
-- one range and all others are the whole
SELECT sum(n) = (SELECT count(*) FROM big), sum(s) = (SELECT sum(v) FROM big) FROM (
	SELECT count(*), sum(v) FROM big WHERE k BETWEEN 500 AND 1700 UNION ALL
	SELECT count(*), sum(v) FROM big WHERE NOT k BETWEEN 500 AND 1700) x (n, s);
RESET gpujoin.force;

-- Only a delta; an empty table, forced
CREATE TABLE young (k int NOT NULL, v int) WITH (autovacuum_enabled = off);
CREATE INDEX young_k ON young USING gpujoin (k) INCLUDE (v);
SET gpujoin.force = on;
SELECT whole('SELECT k, count(*) FROM young GROUP BY k');
SELECT whole('SELECT count(*), sum(v) FROM young');
INSERT INTO young SELECT i % 100, i FROM generate_series(1, 20000) i;
ANALYZE young;
SELECT whole('SELECT k, count(*), sum(v) FROM young GROUP BY k');
SELECT whole('SELECT count(DISTINCT k) FROM young');
RESET gpujoin.force;

-- Isolation levels: a plan that was made for another one
PREPARE groups AS SELECT st, count(*) FROM big GROUP BY st ORDER BY st;
SET plan_cache_mode = force_generic_plan;
EXECUTE groups;
BEGIN ISOLATION LEVEL SERIALIZABLE;
EXECUTE groups;
SELECT whole('SELECT st, count(*) FROM big GROUP BY st');
ROLLBACK;
RESET plan_cache_mode;
SET enable_indexonlyscan = off;
SELECT whole('SELECT st, count(*) FROM big GROUP BY st');
RESET enable_indexonlyscan;

-- Partial indexes: the query must imply the predicate
CREATE TABLE part (k int NOT NULL, n int, st int, v int) WITH (autovacuum_enabled = off);
INSERT INTO part SELECT i % 500, CASE WHEN i % 5 <> 0 THEN i % 50 END, i % 4, i FROM generate_series(1, 30000) i;
CREATE INDEX part_st ON part USING gpujoin (k) INCLUDE (v, st) WHERE st < 3;
CREATE INDEX part_n ON part USING gpujoin (n) INCLUDE (v) WHERE n IS NOT NULL;
VACUUM ANALYZE part;
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, sum(v) FROM part GROUP BY k',
	'SELECT k, sum(v) FROM part WHERE st < 3 GROUP BY k',
	'SELECT k, sum(v) FROM part WHERE st = 2 GROUP BY k',
	'SELECT k, sum(v) FROM part WHERE st < 4 GROUP BY k',
	'SELECT n, sum(v) FROM part GROUP BY n',
	'SELECT n, sum(v) FROM part WHERE n IS NOT NULL GROUP BY n',
	'SELECT count(n) FROM part']) q;

-- Expressions as keys
CREATE TABLE exprs (k int NOT NULL, v int NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO exprs SELECT i, i % 10 FROM generate_series(1, 30000) i;
CREATE INDEX exprs_k ON exprs USING gpujoin (nullif(k, 3)) INCLUDE (v);
VACUUM ANALYZE exprs;
SELECT whole('SELECT v, count(*) FROM exprs GROUP BY v');
SELECT whole('SELECT count(nullif(k, 3)) FROM exprs');
SELECT whole('SELECT v FROM exprs ORDER BY v DESC LIMIT 3');
SELECT whole('SELECT v FROM exprs WHERE nullif(k, 3) IS NOT NULL ORDER BY v DESC LIMIT 3');

-- Partitions, children, UNION ALL; columns have other numbers in the parts
CREATE TABLE sold (day int NOT NULL, k int NOT NULL, n int, v int) PARTITION BY RANGE (day);
CREATE TABLE sold_1 PARTITION OF sold FOR VALUES FROM (0) TO (100) WITH (autovacuum_enabled = off);
CREATE TABLE sold_2 (v int, dropped int, n int, k int NOT NULL, day int NOT NULL) WITH (autovacuum_enabled = off);
ALTER TABLE sold_2 DROP COLUMN dropped;
ALTER TABLE sold ATTACH PARTITION sold_2 FOR VALUES FROM (100) TO (200);
INSERT INTO sold SELECT i % 200, i % 300, CASE WHEN i % 9 <> 0 THEN i % 30 END, i FROM generate_series(1, 30000) i;
CREATE INDEX sold_k ON sold USING gpujoin (k) INCLUDE (day, v);
CREATE INDEX sold_n ON sold USING gpujoin (n);
VACUUM ANALYZE sold;
EXPLAIN (COSTS OFF) SELECT k, sum(v) FROM sold GROUP BY k;
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, sum(v) FROM sold GROUP BY k',
	'SELECT count(*), sum(v) FROM sold WHERE v > 100',
	'SELECT DISTINCT k FROM sold',
	'SELECT day / 10, sum(v) FROM sold WHERE day > 150 GROUP BY day / 10',
	'SELECT n, count(*) FROM sold GROUP BY n',
	'SELECT count(n), count(DISTINCT n) FROM sold',
	'SELECT day, v FROM sold ORDER BY v DESC LIMIT 3']) q;
SET enable_partitionwise_aggregate = on;
SELECT whole('SELECT day, sum(v) FROM sold GROUP BY day');
RESET enable_partitionwise_aggregate;
ALTER TABLE sold_2 ALTER k SET STATISTICS 10;
CREATE TABLE parent (k int NOT NULL, v int) WITH (autovacuum_enabled = off);
CREATE TABLE child (x int) INHERITS (parent) WITH (autovacuum_enabled = off);
INSERT INTO parent SELECT i % 300, i FROM generate_series(1, 20000) i;
INSERT INTO child SELECT i % 200, i, i FROM generate_series(1, 20000) i;
CREATE INDEX ON parent USING gpujoin (k) INCLUDE (v);
CREATE INDEX ON child USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE parent, child;
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, count(*), sum(v) FROM parent GROUP BY k',
	'SELECT k, count(*) FROM ONLY parent GROUP BY k',
	'SELECT count(*), sum(v) FROM (SELECT k, v FROM parent UNION ALL SELECT k, v FROM sold) x',
	'SELECT k, count(*) FROM (SELECT k FROM child UNION ALL SELECT k FROM sold_2) x GROUP BY k']) q;

-- Row security and barriers: rows that are hidden are not counted
CREATE ROLE whole_reader;
GRANT USAGE ON SCHEMA form_whole TO whole_reader;
GRANT SELECT ON big, keys TO whole_reader;
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON big USING (st IN (1, 2));
CREATE VIEW seen WITH (security_barrier) AS SELECT k, v FROM big WHERE v < 300;
GRANT SELECT ON seen TO whole_reader;
SET ROLE whole_reader;
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, count(*) FROM big GROUP BY k',
	'SELECT st, count(*), sum(v) FROM big WHERE v > 50 GROUP BY st',
	'SELECT count(*) FROM big WHERE v % 2 = 0',
	'SELECT count(*), count(DISTINCT k) FROM seen',
	'SELECT k, count(*) FROM seen WHERE v > 100 GROUP BY k']) q;
RESET ROLE;
ALTER TABLE big DISABLE ROW LEVEL SECURITY;
-- functions that make codes must not tell what they see
CREATE FUNCTION tell(int4, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'key %', $1; RETURN $1; END $$;
CREATE FUNCTION tell(int4) RETURNS int8 IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'key %', $1; RETURN $1; END $$;
CREATE OPERATOR CLASS hash_ops FOR TYPE int4 USING gpujoin AS OPERATOR 1 =, FUNCTION 2 tell(int4, int8), STORAGE int8;
CREATE OPERATOR CLASS code_ops FOR TYPE int4 USING gpujoin AS OPERATOR 1 =, FUNCTION 1 tell(int4), STORAGE int8;
CREATE TABLE secret (h int NOT NULL, c int NOT NULL, x int, v int) WITH (autovacuum_enabled = off);
INSERT INTO secret SELECT i, i, i, i % 3 FROM generate_series(1, 5) i;
SET client_min_messages = warning;
CREATE INDEX secret_h ON secret USING gpujoin (h hash_ops) INCLUDE (v);
CREATE INDEX secret_c ON secret USING gpujoin (c code_ops) INCLUDE (v);
CREATE INDEX secret_x ON secret USING gpujoin ((tell(x))) INCLUDE (x, v);
ANALYZE secret;
RESET client_min_messages;
CREATE POLICY visible ON secret USING (v < 2 AND v > 0);
GRANT SELECT ON secret TO whole_reader;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT v, count(*) FROM secret GROUP BY v;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
SET ROLE whole_reader;
EXPLAIN (COSTS OFF) SELECT v, count(*) FROM secret GROUP BY v;
SELECT v, count(*) FROM secret GROUP BY v;
SELECT x FROM secret WHERE tell(x) IS NOT NULL ORDER BY x LIMIT 1;
RESET ROLE;
RESET gpujoin.force;

-- Cursors and functions
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT st, count(*) FROM big GROUP BY st ORDER BY st;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
CREATE FUNCTION count_of(x int) RETURNS int8 STABLE LANGUAGE sql AS 'SELECT count(*) FROM big WHERE st = x';
SELECT count_of(3), count_of(4);
INSERT INTO young SELECT k, count(*) FROM big GROUP BY k;
SELECT count(*), sum(v) FROM young WHERE v < 100;

-- In parallel
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT st, count(*), sum(v) FROM big GROUP BY st;
SELECT q, whole(q) FROM unnest(ARRAY[
	'SELECT k, count(*), sum(v) FROM big GROUP BY k',
	'SELECT st, count(*), sum(v) FROM big WHERE v > 30 GROUP BY st',
	'SELECT DISTINCT k FROM big',
	'SELECT count(DISTINCT k) FROM big',
	'SELECT k, sum(v) FROM sold GROUP BY k']) q;
SELECT q, whole(q) FROM queries;
RESET max_parallel_workers_per_gather;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_index_scan_size;
RESET min_parallel_table_scan_size;

-- What gpujoin_explain_choice() says
SELECT relation, index, node, condition, chosen, reason FROM gpujoin_explain_choice('SELECT k, count(*) FROM form_whole.big GROUP BY k') ORDER BY 1, 2, 3;
SELECT relation, index, node, condition, chosen, reason FROM gpujoin_explain_choice('SELECT n, count(*), max(k) FROM form_whole.big GROUP BY n') ORDER BY 1, 2, 3;
SELECT relation, index, node, condition, chosen, reason FROM gpujoin_explain_choice('SELECT u, count(*) FROM form_whole.big GROUP BY u') ORDER BY 1, 2, 3;

DROP OWNED BY whole_reader;
DROP ROLE whole_reader;
SET client_min_messages = warning;
DROP SCHEMA form_whole CASCADE;
