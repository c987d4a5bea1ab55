--
-- Plain index scans, which PostgreSQL plans for the inner side of a nested loop
--
CREATE SCHEMA index_scan;
SET search_path = index_scan, public;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE big (id int, k int, t text, u uuid, pad text) WITH (autovacuum_enabled = off, fillfactor = 70);
INSERT INTO big SELECT i, nullif(i % 1000, 999), 'a long text of ' || i % 1000,
	md5((i % 1000)::text)::uuid, repeat('x', 40) FROM generate_series(1, 20000) i;
CREATE INDEX big_k ON big USING gpujoin (k);
CREATE INDEX big_t ON big USING gpujoin (t);
CREATE INDEX big_u ON big USING gpujoin (u);
CREATE INDEX big_half ON big USING gpujoin ((k / 2));
CREATE INDEX big_inverse ON big USING gpujoin ((1000 / k)) WHERE k <> 0;
CREATE TABLE small (id int, ks int[], t text, u uuid);
INSERT INTO small SELECT i, CASE i WHEN 7 THEN NULL WHEN 8 THEN '{}' ELSE ARRAY[i * 9, NULL, i, i * 9, -1] END,
	'a long text of ' || i, md5(i::text)::uuid FROM generate_series(1, 30) i;
VACUUM ANALYZE big, small;

-- Number of rows, the rows of only one answer, and whether the plan has a plain scan of an index
CREATE FUNCTION compare(query text, OUT plan text, OUT n bigint, OUT differ bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := nullif(concat_ws(', ', plan, substring(line from 'Index Scan using big\w*|Memoize|Gpu\w+')), '');
	END LOOP;
	EXECUTE 'CREATE TEMP TABLE ours AS ' || query;
	SET LOCAL gpujoin.enabled = off;
	EXECUTE 'CREATE TEMP TABLE stock AS ' || query;
	SET LOCAL gpujoin.enabled = on;
	SELECT count(*) INTO n FROM ours;
	SELECT count(*) INTO differ FROM ((TABLE stock EXCEPT ALL TABLE ours) UNION ALL (TABLE ours EXCEPT ALL TABLE stock)) d;
	DROP TABLE ours, stock;
END $$;

CREATE FUNCTION compare_all() RETURNS SETOF record LANGUAGE sql AS $$
	SELECT q.name, c.* FROM (VALUES
		('any', 'SELECT s.id, b.id AS big FROM small s JOIN big b ON b.k = ANY (s.ks)'),
		('left', 'SELECT s.id, b.id AS big FROM small s LEFT JOIN big b ON b.k = ANY (s.ks) AND b.id % 3 = 0'),
		('exists', 'SELECT s.id FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.k = ANY (s.ks))'),
		('not exists', 'SELECT s.id FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.k = ANY (s.ks))'),
		('hash', 'SELECT s.id, b.id AS big FROM small s JOIN big b ON b.t = s.t'),
		('uuid', 'SELECT s.id, b.id AS big FROM small s JOIN big b ON b.u = s.u'),
		('expression', 'SELECT s.id, b.id AS big FROM small s JOIN big b ON b.k / 2 = ANY (s.ks)'),
		('partial', 'SELECT s.id, b.id AS big FROM small s JOIN big b ON 1000 / b.k = ANY (s.ks) AND b.k <> 0'),
		('two', 'SELECT s.id, b.id AS big FROM small s JOIN big b ON b.k = ANY (s.ks) AND b.k = ANY (ARRAY[s.id, s.id * 9])')
		) q(name, query), compare(query) c
$$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_memoize = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET gpujoin.min_rows = 1000000;
SELECT * FROM compare_all() AS c(name text, plan text, n bigint, differ bigint);

-- Rows on tails, in a delta, in several runs, moved by HOT and other updates, deleted, with VACUUM and without
INSERT INTO big SELECT i, i % 1000, 'a long text of ' || i % 1000, md5((i % 1000)::text)::uuid FROM generate_series(20001, 24000) i;
UPDATE big SET pad = 'y' WHERE id % 3 = 0;
UPDATE big SET k = k + 1 WHERE id % 5 = 0 AND k < 500;
DELETE FROM big WHERE id % 7 = 0;
SELECT count(*), count(*) FILTER (WHERE differ > 0 OR n = 0) FROM compare_all() AS c(name text, plan text, n bigint, differ bigint);
SELECT gpujoin_fold('big_k') FROM generate_series(1, 1);
VACUUM big;
INSERT INTO big SELECT i, i % 1000, 'a long text of ' || i % 1000, md5((i % 1000)::text)::uuid FROM generate_series(24001, 26000) i;
SELECT count(*), count(*) FILTER (WHERE differ > 0 OR n = 0) FROM compare_all() AS c(name text, plan text, n bigint, differ bigint);
DROP FUNCTION compare_all;

-- So many TIDs that blocks become lossy: keys are rechecked
INSERT INTO big SELECT i, 40 + i % 2, 'few', '00000000-0000-0000-0000-000000000001' FROM generate_series(30001, 60000) i;
VACUUM ANALYZE big;
SET work_mem = '64kB';
SELECT * FROM compare('SELECT s.id, b.id AS big FROM small s JOIN big b ON b.k = ANY (ARRAY[s.id * 20, s.id])');
RESET work_mem;

-- Stopped early, run again, backwards, with results that are kept
SELECT * FROM compare('SELECT s.id, b.id AS big FROM small s, LATERAL (SELECT id FROM big WHERE k = ANY (s.ks) ORDER BY ctid LIMIT 2) b');
SELECT * FROM compare('SELECT s.id, (SELECT min(id) FROM big b WHERE b.k = ANY (s.ks) AND b.id > s.id) FROM small s');
SET enable_memoize = on;
SELECT * FROM compare('SELECT count(b.id) FROM small s CROSS JOIN generate_series(1, 3) LEFT JOIN big b ON b.k = ANY (ARRAY[s.id % 3])');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT s.id, b.id AS big FROM small s JOIN big b ON b.k = ANY (s.ks) WHERE s.id < 4 AND b.id < 2000;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE FORWARD ALL FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
COMMIT;
RESET enable_bitmapscan;
RESET enable_memoize;

-- For joins PostgreSQL considers no bitmap scans of the index, unless the key is in another condition; the OR of a
-- join has no other plan, and a partial index no plain scans
CREATE FUNCTION scans(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found text = 'no index';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found = coalesce(substring(line from '(?:Bitmap )?Index Scan (?:using|on) big_\w+'), found);
	END LOOP;
	RETURN found;
END $$;
RESET enable_seqscan;
SET enable_indexscan = off;
SELECT scans('SELECT * FROM small s JOIN big b ON b.k = ANY (s.ks)');
SELECT scans('SELECT * FROM small s JOIN big b ON b.k = s.id OR b.k = s.id + 1');
SELECT scans('SELECT * FROM small s JOIN big b ON 1000 / b.k = ANY (s.ks) WHERE b.k <> 0');
SELECT scans('SELECT * FROM small s JOIN big b ON b.k = ANY (s.ks) WHERE b.k = ANY (''{1,2}'')');
RESET enable_indexscan;
-- A btree on the same column takes the place of plain scans
CREATE INDEX big_btree ON big (k);
SELECT scans('SELECT * FROM small s JOIN big b ON b.k = ANY (s.ks)');
DROP INDEX big_btree;
RESET gpujoin.min_rows;

-- Each search is counted once, whatever scan makes it, and so is each entry
CREATE TABLE counted (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO counted SELECT i, i % 1000 FROM generate_series(1, 20000) i;
CREATE INDEX counted_k ON counted USING gpujoin (k);
CREATE INDEX counted_id ON counted (id);
VACUUM ANALYZE counted;
BEGIN;
CREATE VIEW used AS SELECT pg_stat_get_xact_numscans('counted_k'::regclass) AS scans, pg_stat_get_xact_tuples_returned('counted_k'::regclass) AS read;
TABLE used;
SET LOCAL enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM counted WHERE k IN (1, 2) OR id < 10;
SELECT count(*) FROM counted WHERE k IN (1, 2) OR id < 10;
TABLE used;
RESET enable_indexscan;
EXPLAIN (COSTS OFF) SELECT count(*) FROM small s JOIN counted c ON c.k = ANY (ARRAY[s.id]);
SELECT count(*) FROM small s JOIN counted c ON c.k = ANY (ARRAY[s.id]);
TABLE used;
SET LOCAL gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT id FROM counted WHERE k = ANY ('{1,2}');
SELECT count(*) FROM (SELECT id FROM counted WHERE k = ANY ('{1,2}') OFFSET 0) c;
TABLE used;
SELECT count(*) FROM small s JOIN counted c ON c.k = s.id;
TABLE used;
COMMIT;

-- Exclusion constraints would search under another kind of snapshot
CREATE TABLE excluded (k int, EXCLUDE USING gpujoin (k WITH =));

SET client_min_messages = warning;
DROP SCHEMA index_scan CASCADE;
