-- Rows with a NULL key are found in the index, at each stage of an entry's life (null_keys.sql)
SET gpujoin.auto_load = off;
SET client_min_messages = warning;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
CREATE TABLE ns (id int, k int, b bigint, u uuid, t text, n numeric(10,2), v int, f bool) WITH (autovacuum_enabled = off);
CREATE FUNCTION ns_fill(low int, high int) RETURNS void LANGUAGE sql AS $$
INSERT INTO ns SELECT i, CASE WHEN i % 3 > 0 THEN i % 500 - 250 END,
	CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN 9223372036854775807 WHEN 2 THEN 0 ELSE i % 1000 END,
	CASE WHEN i % 4 > 0 THEN md5((i % 300)::text)::uuid END,
	CASE WHEN i % 5 > 0 THEN repeat('x', i % 40) || i % 100 END,
	nullif(i % 9, 0) / 4.0, nullif(i % 7, 0), i % 13 = 0
FROM generate_series(low, high) i $$;
SELECT ns_fill(1, 6000);
CREATE INDEX ns_k ON ns USING gpujoin (k) INCLUDE (v, n, t, f);
CREATE INDEX ns_b ON ns USING gpujoin (b) INCLUDE (u);
CREATE INDEX ns_u ON ns USING gpujoin (u) INCLUDE (v);
CREATE INDEX ns_t ON ns USING gpujoin (t);
CREATE INDEX ns_n ON ns USING gpujoin (n) INCLUDE (v);
CREATE INDEX ns_x ON ns USING gpujoin ((k + v)) WHERE id % 2 = 0;
VACUUM ANALYZE ns;

CREATE TABLE ns_queries (q text);
INSERT INTO ns_queries VALUES
('SELECT * FROM ns WHERE k IS NULL'),
('SELECT * FROM ns WHERE k IS NULL OR k = 7'),
('SELECT id FROM ns WHERE k = ANY (''{1,2,0,-250,NULL}'') OR k IS NULL'),
('SELECT id FROM ns WHERE (k IN (1, 2) OR k IS NULL) AND v > 3'),
('SELECT k, v FROM ns WHERE k IS NULL'),
('SELECT k, v, n, t, f FROM ns WHERE k IS NULL OR k IN (0, 5, 249)'),
('SELECT k, v FROM ns WHERE (k IS NULL OR k = 3) AND v IS NOT NULL AND f'),
('SELECT k, v FROM ns WHERE k IS NULL AND v IS NULL'),
('SELECT id, k FROM ns WHERE k IS NULL OR k > 240'),
('SELECT id, k FROM ns WHERE k IS NULL OR k BETWEEN -5 AND 5'),
('SELECT id, k FROM ns WHERE k <> ALL (''{1,2,3}'') OR k IS NULL'),
('SELECT id, k FROM ns WHERE k NOT IN (1, 2, 3, NULL) OR k IS NULL'),
('SELECT id, k FROM ns WHERE k <> ALL (''{1,2,NULL}'')'),
('SELECT id FROM ns WHERE (k IS NULL OR k = 1) AND (k IS NULL OR k = 2)'),
('SELECT id FROM ns WHERE (k IS NULL OR k = 1) AND k IN (1, 2)'),
('SELECT count(*), count(k) AS k, sum(v), min(k), max(n) FROM ns WHERE k IS NULL'),
('SELECT k, count(*), sum(v), sum(n) AS n FROM ns WHERE k IS NULL OR k IN (1, 2, 3, 0) GROUP BY k'),
('SELECT v, count(*), count(k) AS k, count(DISTINCT k) AS d FROM ns WHERE k IS NULL OR k < -200 GROUP BY v'),
('SELECT DISTINCT k, v FROM ns WHERE k IS NULL OR k = 5'),
('SELECT t, count(*) FROM ns WHERE k IS NULL AND v = 2 GROUP BY t'),
('SELECT k, id FROM ns WHERE k IS NULL OR k < -240 ORDER BY k NULLS FIRST, id LIMIT 40'),
('SELECT k, v, id FROM ns WHERE k IS NULL OR k < -240 ORDER BY k DESC NULLS LAST, v, id LIMIT 150'),
('SELECT k, v FROM ns WHERE k IS NULL OR k = 1 ORDER BY v, k LIMIT 20'),
('SELECT id FROM ns WHERE b IS NULL OR b = 9223372036854775807'),
('SELECT id FROM ns WHERE b = 0'),
('SELECT b, u FROM ns WHERE b IS NULL'),
('SELECT b, u FROM ns WHERE b IN (0, 9223372036854775807)'),
('SELECT id FROM ns WHERE u IS NULL'),
('SELECT id, u FROM ns WHERE u IS NULL OR u = ANY (ARRAY[md5(''7''), md5(''8''), md5(''x'')]::uuid[])'),
('SELECT u, v FROM ns WHERE u IS NULL OR u IN (md5(''7'')::uuid, md5(''9'')::uuid)'),
('SELECT u, count(*), sum(v) FROM ns WHERE u IS NULL OR u IN (md5(''7'')::uuid, md5(''9'')::uuid) GROUP BY u'),
('SELECT DISTINCT u FROM ns WHERE u IS NULL OR u = md5(''9'')::uuid'),
('SELECT id, t FROM ns WHERE t IS NULL OR t IN (''1'', ''x41'')'),
('SELECT t FROM ns WHERE t IS NULL OR t = ''x1'''),
('SELECT id, n FROM ns WHERE n IS NULL OR n IN (0.25, 1.5)'),
('SELECT n, v FROM ns WHERE n IS NULL'),
('SELECT n, count(*), sum(v) FROM ns WHERE n IS NULL OR n = 2 GROUP BY n'),
('SELECT id FROM ns WHERE (k + v IS NULL OR k + v IN (5, 6)) AND id % 2 = 0'),
('SELECT id FROM ns WHERE k IS NULL AND u = md5(''6'')::uuid'),
('SELECT a.id, c.id AS other FROM ns a JOIN ns c ON c.u = a.u WHERE a.k IS NULL AND a.id < 300 AND c.id < 300'),
('SELECT id FROM ns a WHERE id < 50 AND EXISTS (SELECT FROM ns c WHERE (c.k = a.v OR c.k IS NULL) AND c.id > 5990)'),
('SELECT a.id, x.n FROM ns a, LATERAL (SELECT count(*) AS n FROM ns c WHERE c.k = a.v OR (c.k IS NULL AND a.f)) x WHERE a.id < 40');
-- the number of queries that give a wrong answer, and of rows that the right ones have
CREATE FUNCTION ns_wrong(OUT queries bigint, OUT wrong bigint, OUT rows bigint, OUT first text) LANGUAGE plpgsql AS $$
DECLARE
	query record;
	r record;
BEGIN
	queries := 0; wrong := 0; rows := 0;
	FOR query IN SELECT q FROM ns_queries LOOP
		SELECT * INTO r FROM both_ways(query.q);
		queries := queries + 1; rows := rows + r.n;
		IF r.missing + r.surplus > 0 THEN
			wrong := wrong + 1; first := coalesce(first, query.q);
		END IF;
	END LOOP;
END $$;
SELECT * FROM ns_wrong();

-- each of these is a search
CREATE FUNCTION ns_scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Scan|Index Only|Key Condition' THEN RETURN NEXT ltrim(line); END IF;
	END LOOP;
	PERFORM set_config('gpujoin.force', 'off', true);
END $$;
SELECT ns_scans('SELECT id FROM ns WHERE k IS NULL');
SELECT ns_scans('SELECT k, v FROM ns WHERE k IS NULL');
SELECT ns_scans('SELECT id FROM ns WHERE u IS NULL OR u = md5(''1'')::uuid');
SELECT ns_scans('SELECT count(*) FROM ns WHERE k IS NULL OR k = 7');
SELECT ns_scans('SELECT count(*) FROM ns WHERE k IS NULL OR k > 240');

-- nothing is read from the table, and no other page of the index
CREATE FUNCTION ns_about(query text, name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, VERBOSE, FORMAT json) ' || query INTO plan;
	RETURN substring(plan::text, '"' || name || '": ("[^"]*"|[0-9a-z.]+)');
END $$;
SET gpujoin.force = on;
SELECT ns_about('SELECT k, v FROM ns WHERE k IS NULL', 'Heap Fetches') AS fetches,
	ns_about('SELECT k, v FROM ns WHERE k IS NULL', 'Matched TIDs')::int = count(*) AS found,
	ns_about('SELECT k, v FROM ns WHERE k IS NULL', 'Pages Read')::int < i.pages / 3 AS few
FROM ns, gpujoin_index_info('ns_k') i WHERE k IS NULL GROUP BY i.pages;
RESET gpujoin.force;

-- prepared, also generic
PREPARE ns_ef(int[]) AS SELECT count(*), sum(id) FROM ns WHERE k = ANY ($1) OR (k IS NULL AND array_position($1, NULL) IS NOT NULL);
PREPARE ns_one(int) AS SELECT count(*), sum(id) FROM ns WHERE k = $1 OR (k IS NULL AND $1 IS NULL);
PREPARE ns_list(int[]) AS SELECT count(*), sum(v), count(k) FROM ns WHERE k = ANY ($1) OR k IS NULL;
SET plan_cache_mode = force_generic_plan;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) EXECUTE ns_list('{1}');
EXECUTE ns_ef('{1,2}'); EXECUTE ns_ef('{1,NULL}'); EXECUTE ns_ef(NULL); EXECUTE ns_ef('{}');
EXECUTE ns_one(7); EXECUTE ns_one(NULL);
EXECUTE ns_list('{1,2}'); EXECUTE ns_list('{}'); EXECUTE ns_list(NULL); EXECUTE ns_list('{NULL,3}');
SET gpujoin.enabled = off;
EXECUTE ns_ef('{1,2}'); EXECUTE ns_ef('{1,NULL}'); EXECUTE ns_ef(NULL); EXECUTE ns_ef('{}');
EXECUTE ns_one(7); EXECUTE ns_one(NULL);
EXECUTE ns_list('{1,2}'); EXECUTE ns_list('{}'); EXECUTE ns_list(NULL); EXECUTE ns_list('{NULL,3}');
RESET gpujoin.enabled;
RESET gpujoin.force;
RESET plan_cache_mode;

-- on a tail, and on pages that are not all-visible; in a delta; in another run
INSERT INTO ns (id) SELECT i FROM generate_series(6001, 6010) i;
SELECT * FROM ns_wrong();
SELECT ns_fill(6011, 12000);
SELECT * FROM ns_wrong();
SELECT count(gpujoin_fold(indexrelid)) FROM pg_index WHERE indrelid = 'ns'::regclass;
SELECT * FROM ns_wrong();
-- updated and deleted, before and after VACUUM, and with TIDs that are used again
UPDATE ns SET k = NULL, u = NULL, n = NULL WHERE id % 10 = 1;
UPDATE ns SET k = 7, b = NULL, t = NULL WHERE id % 10 = 3;
DELETE FROM ns WHERE id % 2 = 0 AND k IS NULL;
SELECT * FROM ns_wrong();
VACUUM ns;
SELECT * FROM ns_wrong();
SELECT ns_fill(12001, 15000);
SELECT * FROM ns_wrong();
VACUUM ns;
SELECT count(gpujoin_fold(indexrelid, true)) FROM pg_index WHERE indrelid = 'ns'::regclass;
SELECT * FROM ns_wrong();

-- by several processes
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT * FROM ns_wrong();
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;

-- with little memory
SET work_mem = '64kB';
SELECT * FROM ns_wrong();
RESET work_mem;

-- with mirrors, which do not have these entries, if there is a device
SELECT count(gpujoin_load(indexrelid)) IS NOT NULL AS tried FROM pg_index
	WHERE indrelid = 'ns'::regclass AND current_setting('shared_preload_libraries') ~ 'gpujoin';
SELECT * FROM ns_wrong();
INSERT INTO ns SELECT * FROM ns WHERE id % 50 = 7;
UPDATE ns SET k = NULL WHERE id % 10 = 5;
SELECT * FROM ns_wrong();
SELECT count(gpujoin_fold(indexrelid)) FROM pg_index WHERE indrelid = 'ns'::regclass;
DELETE FROM ns WHERE id % 20 = 5;
VACUUM ns;
SELECT * FROM ns_wrong();

-- cursors, and rows that change while they are open
BEGIN;
DECLARE c CURSOR FOR SELECT k, v FROM ns WHERE k IS NULL OR k = 7;
FETCH 2 FROM c;
UPDATE ns SET k = 3 WHERE k IS NULL;
MOVE ALL FROM c;
SELECT count(*) FROM ns WHERE k IS NULL;
ROLLBACK;
BEGIN;
UPDATE ns SET v = 100 WHERE k IS NULL;
DELETE FROM ns WHERE k IS NULL AND id % 3 = 0;
SELECT count(*) AS left, count(*) FILTER (WHERE v = 100) AS updated FROM ns WHERE k IS NULL;
ROLLBACK;

-- the planner knows how many pages NULL keys have: fewer after a fold
CREATE TABLE nc (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO nc SELECT CASE WHEN i % 10 > 0 THEN i % 1000 END, i FROM generate_series(1, 20000) i;
CREATE INDEX nc_k ON nc USING gpujoin (k);
INSERT INTO nc SELECT NULL, i FROM generate_series(1, 20000) i;
VACUUM (INDEX_CLEANUP off, ANALYZE) nc;
CREATE FUNCTION nc_cost(condition text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT v FROM nc WHERE ' || condition INTO plan;
	RETURN plan->0->'Plan'->'Total Cost';
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT nc_cost('k IS NULL') AS of_nulls, nc_cost('k IS NULL OR k = 3') AS of_both, nc_cost('k = 3') AS of_key \gset
SELECT gpujoin_fold('nc_k') > 0 AS folded;
SELECT nc_cost('k IS NULL') < :of_nulls AS of_nulls, nc_cost('k IS NULL OR k = 3') < :of_both AS of_both, nc_cost('k = 3') = :of_key AS of_key;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- partitions: by the key itself, with one for NULLs, and by another column
CREATE TABLE np (id int, k int, v int) PARTITION BY RANGE (k);
CREATE TABLE np_low PARTITION OF np FOR VALUES FROM (0) TO (100);
CREATE TABLE np_rest PARTITION OF np DEFAULT;
CREATE INDEX ON np USING gpujoin (k) INCLUDE (v);
INSERT INTO np SELECT i, CASE WHEN i % 7 > 0 THEN i % 200 END, i % 10 FROM generate_series(1, 5000) i;
VACUUM ANALYZE np;
SELECT * FROM both_ways('SELECT * FROM np WHERE k IS NULL');
SELECT * FROM both_ways('SELECT * FROM np WHERE k IS NULL OR k IN (5, 150)');
SELECT * FROM both_ways('SELECT k, v, count(*) FROM np WHERE k IS NULL OR k IN (5, 150) GROUP BY k, v');
CREATE TABLE nl (id int, k int, v int) PARTITION BY LIST (v);
CREATE TABLE nl_1 PARTITION OF nl FOR VALUES IN (1);
CREATE TABLE nl_2 PARTITION OF nl FOR VALUES IN (2);
CREATE INDEX ON nl USING gpujoin (k);
INSERT INTO nl SELECT i, CASE WHEN i % 7 > 0 THEN i % 200 END, 1 + i % 2 FROM generate_series(1, 5000) i;
ANALYZE nl;
SELECT * FROM both_ways('SELECT * FROM nl WHERE k IS NULL');
SELECT * FROM both_ways('SELECT * FROM nl WHERE k IS NULL OR k = 6');
DROP TABLE np, nl;

-- an index of a former release does not store NULL keys until it is rebuilt
SET gpujoin.debug_step = 'plain pages';
CREATE TABLE old (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO old SELECT i, CASE WHEN i % 7 > 0 THEN i % 200 END FROM generate_series(1, 5000) i;
CREATE INDEX old_k ON old USING gpujoin (k);
RESET gpujoin.debug_step;
ANALYZE old;
SELECT gpujoin_check('old_k', true), null_keys IS NULL AS lacks FROM gpujoin_index_info('old_k');
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT * FROM old WHERE k IS NULL OR k = 3;
RESET gpujoin.force;
INSERT INTO old SELECT i, CASE WHEN i % 7 > 0 THEN i % 200 END FROM generate_series(5001, 9000) i;
SELECT gpujoin_fold('old_k') > 0 AS folded, gpujoin_check('old_k', true);
SELECT * FROM both_ways('SELECT * FROM old WHERE k IS NULL OR k = 3');
SELECT * FROM both_ways('SELECT * FROM old WHERE k = 3 OR (k IS NULL AND array_position(ARRAY[(SELECT NULL::int)], NULL) IS NOT NULL)');
DELETE FROM old WHERE k IS NULL AND id % 2 = 0;
VACUUM old;
SELECT gpujoin_check('old_k', true) = count(k) AS complete, format_version, null_keys IS NULL AS lacks FROM old, gpujoin_index_info('old_k') GROUP BY 2, 3;
REINDEX INDEX old_k;
SELECT gpujoin_check('old_k', true) = count(*) AS complete, null_keys > 0 AS stored FROM old, gpujoin_index_info('old_k') GROUP BY null_keys;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT * FROM old WHERE k IS NULL OR k = 3;
RESET gpujoin.force;
SELECT * FROM both_ways('SELECT * FROM old WHERE k IS NULL OR k = 3');
DROP TABLE old, nc, ns, ns_queries;
DROP FUNCTION nc_cost, ns_fill, ns_wrong, ns_scans, ns_about, both_ways;
