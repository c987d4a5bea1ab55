--
-- From TIDs to tuples: HOT chains, all-visible pages, blocks tested as a whole
--
CREATE SCHEMA fetching;
SET search_path = fetching, public;
SET gpujoin.force = on;

CREATE TABLE big (id int, k int, v int) WITH (fillfactor = 50, autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 100, 0 FROM generate_series(1, 5000) i;
CREATE INDEX big_k ON big USING gpujoin (k);

-- Compare the rows that the snapshot sees, with each version's TID, using our plan and a stock
-- plan.
CREATE FUNCTION compare(keys int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT array_agg(ROW(ctid, b)::text ORDER BY ctid) FROM big b WHERE k = ANY (%L)', keys);
	stock text[];
	ours text[];
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE query INTO stock;
	SET LOCAL gpujoin.enabled = on;
	EXECUTE query INTO ours;
	RETURN format('%s rows, %s', cardinality(stock),
				  CASE WHEN stock = ours THEN 'same' ELSE 'DIFFERENT: ' || cardinality(ours) END);
END $$;

EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k = ANY ('{1,2,3}');

-- At first no page is all-visible; then all are
SELECT compare('{1,2,3}');
VACUUM big;
SELECT compare('{1,2,3}');

-- A chain of two members.  The root points to the first; once that is pruned, to the second.
UPDATE big SET v = 1 WHERE k < 10;
SELECT compare('{1,2,3}');
VACUUM big;
SELECT compare('{1,2,3}');
SELECT bool_and(v = 1), count(*) FROM big WHERE k = ANY ('{1,2,3}');
UPDATE big SET v = 2 WHERE k = 2;
VACUUM big;
SELECT compare('{1,2,3}');

-- A chain whose second member was rolled back: the first is the only one again
BEGIN;
UPDATE big SET v = -1 WHERE k = 3;
SELECT compare('{1,2,3}');
ROLLBACK;
SELECT compare('{1,2,3}');
VACUUM big;
SELECT compare('{1,2,3}');

-- A version with another key does not belong to the chain
UPDATE big SET k = k + 1000 WHERE k = 1 AND id % 2 = 0;
SELECT compare('{1,2,1001}');
VACUUM big;
SELECT compare('{1,2,1001}');

-- Deleted rows, then others that reuse their slots, on pages with and without the all-visible bit
DELETE FROM big WHERE k IN (2, 3) AND id % 3 = 0;
SELECT compare('{1,2,3,1001}');
VACUUM big;
INSERT INTO big SELECT i, i % 100, 3 FROM generate_series(5001, 5100) i;
SELECT compare('{1,2,3,1001}');

-- A query returns its snapshot's rows to the end, whatever happens to the pages meanwhile
CREATE FUNCTION change_while_reading(OUT rows int, OUT old int) LANGUAGE plpgsql AS $$
DECLARE
	c NO SCROLL CURSOR FOR SELECT id, v FROM big WHERE k = ANY ('{4,5}');
	r record;
BEGIN
	rows := 0;
	old := 0;
	FOR r IN c LOOP
		IF rows = 0 THEN
			UPDATE big SET v = 9 WHERE k = 4;
			DELETE FROM big WHERE k = 5;
		END IF;
		rows := rows + 1;
		old := old + (r.v <> 9)::int;
	END LOOP;
END $$;
SELECT * FROM change_while_reading();
SELECT compare('{4,5}');
VACUUM big;
SELECT compare('{4,5}');

-- More TIDs than fit in memory: blocks are tested as a whole, all-visible or not
CREATE TABLE whole (id int, k int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO whole SELECT i, i % 3, repeat('x', 400) FROM generate_series(1, 40000) i;
CREATE INDEX whole_k ON whole USING gpujoin (k);
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
CREATE FUNCTION lossy(query text DEFAULT 'SELECT * FROM whole WHERE k = ANY (''{0,1}'')')
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Heap Blocks: .*lossy=' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;
SELECT lossy(), count(*), sum(id) FROM whole WHERE k = ANY ('{0,1}');
UPDATE whole SET id = -id WHERE id % 1000 = 0;
SELECT lossy(), count(*), sum(id) FROM whole WHERE k = ANY ('{0,1}');
VACUUM whole;
SELECT lossy(), count(*), sum(id) FROM whole WHERE k = ANY ('{0,1}');
-- ... by a list of pairs, some of which another list leaves out
CREATE TABLE pairs (id int, k int, v int) WITH (fillfactor = 10, autovacuum_enabled = off);
INSERT INTO pairs SELECT i, i % 10, i % 3 FROM generate_series(1, 100000) i;
CREATE INDEX pairs_k ON pairs USING gpujoin (k);
ANALYZE pairs;
SELECT count(*), sum(id), min(k), max(k) FROM pairs WHERE (k, v) IN ((1, 0), (2, 1), (3, 2)) AND k IN (1, 2);
-- ... by a list of uuids: entries prove that rows have listed keys, but not that of all rows of a block
CREATE TABLE uuids (id int, u uuid) WITH (fillfactor = 10, autovacuum_enabled = off);
INSERT INTO uuids SELECT i, md5((i % 3)::text)::uuid FROM generate_series(1, 100000) i;
CREATE INDEX uuids_u ON uuids USING gpujoin (u);
ANALYZE uuids;
PREPARE of_uuids AS SELECT count(*), sum(id), count(DISTINCT u) FROM uuids WHERE u IN (md5('0')::uuid, md5('1')::uuid);
SELECT lossy('EXECUTE of_uuids');
EXECUTE of_uuids;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT lossy(), count(*), sum(id) FROM whole WHERE k = ANY ('{0,1}');
SELECT compare('{1,2,3,1001}');
COMMIT;
SET gpujoin.enabled = off;
SELECT count(*), sum(id) FROM whole WHERE k = ANY ('{0,1}');
EXECUTE of_uuids;

-- A block's buffer is guessed from the previous block's.  The buffers of two tables that are filled
-- in turns form runs of a few blocks; a cursor continues to read while the other table is emptied
-- and its buffers are reused for blocks of a third one.
RESET work_mem;
RESET hash_mem_multiplier;
RESET gpujoin.enabled;
CREATE TABLE even (id int, k int, pad text) WITH (autovacuum_enabled = off);
CREATE TABLE odd (LIKE even) WITH (autovacuum_enabled = off);
DO $$
BEGIN
	FOR part IN 0..59 LOOP
		INSERT INTO even SELECT i, i % 50, repeat('x', 400)
			FROM generate_series(part * 100 + 1, part * 100 + 100) i;
		INSERT INTO odd SELECT i, i % 50, repeat('y', 400)
			FROM generate_series(part * 100 + 1, part * 100 + 20 + part) i;
	END LOOP;
END $$;
CREATE INDEX even_k ON even USING gpujoin (k);
CREATE INDEX odd_k ON odd USING gpujoin (k);
CREATE FUNCTION digest(source text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT count(*) || '' rows, '' || md5(string_agg(t::text, '','' ORDER BY id))
		FROM %I t WHERE k = ANY (''{0,1,2,3,4,5,6,7,8,9}'')', source);
	ours text;
	stock text;
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE query INTO stock;
	SET LOCAL gpujoin.enabled = on;
	EXECUTE query INTO ours;
	RETURN CASE WHEN ours = stock THEN ours ELSE 'DIFFERENT' END;
END $$;
SELECT digest('even'), digest('odd');
VACUUM even, odd;
SELECT digest('even'), digest('odd');
BEGIN;
DECLARE reader NO SCROLL CURSOR FOR SELECT id, k FROM even WHERE k = ANY ('{0,1,2,3,4,5,6,7,8,9}');
FETCH 3 FROM reader;
TRUNCATE odd;
CREATE TABLE third AS SELECT i AS id, i % 50 AS k, repeat('z', 400) AS pad FROM generate_series(1, 3000) i;
CREATE INDEX third_k ON third USING gpujoin (k);
INSERT INTO odd SELECT * FROM third;
SELECT digest('third'), digest('odd');
MOVE FORWARD 1190 IN reader;
FETCH ALL FROM reader;
COMMIT;

-- Blocks of a temporary table, in local buffers
SET temp_buffers = '800kB';
CREATE TEMP TABLE own AS SELECT * FROM even;
CREATE INDEX own_k ON own USING gpujoin (k);
SELECT digest('own') = digest('even') AS same;

RESET ALL;
DROP SCHEMA fetching CASCADE;
