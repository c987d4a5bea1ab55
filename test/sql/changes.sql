-- UPDATE, DELETE, MERGE and row locks: each row that a set of keys finds is changed once, and
-- afterwards the tables equal those that stock plans produce.
CREATE SCHEMA gj_changes;
SET search_path = gj_changes, public;

CREATE TABLE big (id int, key int, v int, t text, twice int GENERATED ALWAYS AS (v * 2) STORED)
	WITH (autovacuum_enabled = off);
INSERT INTO big
SELECT i, CASE WHEN i % 50 > 0 THEN i * 7919 % 1000 END, i % 10, 'row ' || i
FROM generate_series(1, 3000) i;
CREATE INDEX ON big USING gpujoin (key);
UPDATE big SET v = v + 10 WHERE id % 17 = 0;
DELETE FROM big WHERE id % 23 = 0;
CREATE TABLE parts (id int, key int, v int, t text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1500);
CREATE TABLE parts_2 (t text, v int, key int, id int);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (1500) TO (90000);
INSERT INTO parts SELECT id, key, v, t FROM big;
CREATE INDEX ON parts USING gpujoin (key);
CREATE TABLE small (k int, w int, label text);
INSERT INTO small SELECT i * 3, i % 4, 'label ' || i FROM generate_series(1, 60) i;
INSERT INTO small VALUES (NULL, 1, 'null'), (5000, 1, 'absent'), (-1, NULL, 'negative');
CREATE TABLE many AS SELECT i % 1200 AS k, i AS w, repeat('x', 300) AS label
FROM generate_series(1, 1200) i;
CREATE TABLE log (what text, id int);
ANALYZE;

-- Run a statement with RETURNING, or one without, under gpujoin.force and with gpujoin off, and
-- roll it back. Return which of our nodes the forced plan has, how many rows were returned, and how
-- many rows differ: in the answer, and in the tables afterwards.
CREATE FUNCTION run(statement text, returning_rows bool, OUT answer text[], OUT tables text[])
LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	IF returning_rows THEN
		FOR r IN EXECUTE statement LOOP answer = answer || r::text; END LOOP;
	ELSE
		EXECUTE statement;
	END IF;
	SELECT array_agg(l) INTO tables FROM (
		SELECT 'big ' || big::text AS l FROM big UNION ALL SELECT 'small ' || small::text FROM small
		UNION ALL SELECT tableoid::regclass || parts::text FROM parts
		UNION ALL SELECT 'log ' || log::text FROM log) x;
	RAISE SQLSTATE 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN NULL;
END $$;
CREATE FUNCTION compare(statement text, returning_rows bool DEFAULT true, OUT nodes text,
						OUT returned bigint, OUT answer_differs bigint, OUT changed bigint,
						OUT tables_differ bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	ours record;
	stock record;
	before text[];
BEGIN
	before = (gj_changes.run('SELECT', true)).tables;
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		CONTINUE WHEN line !~ 'Join Type: |GpuScan';
		nodes = concat_ws(', ', nodes, coalesce(substring(line FROM 'Join Type: (.*)'), 'GpuScan'));
	END LOOP;
	ours = gj_changes.run(statement, returning_rows);
	PERFORM set_config('gpujoin.force', 'off', true), set_config('gpujoin.enabled', 'off', true);
	stock = gj_changes.run(statement, returning_rows);
	PERFORM set_config('gpujoin.enabled', 'on', true);
	returned = cardinality(stock.answer);
	SELECT count(*) INTO answer_differs FROM (
		(SELECT unnest(ours.answer) EXCEPT ALL SELECT unnest(stock.answer)) UNION ALL
		(SELECT unnest(stock.answer) EXCEPT ALL SELECT unnest(ours.answer))) d;
	SELECT count(*) INTO changed FROM (
		SELECT unnest(stock.tables) EXCEPT ALL SELECT unnest(before)) d;
	SELECT count(*) INTO tables_differ FROM (
		(SELECT unnest(ours.tables) EXCEPT ALL SELECT unnest(stock.tables)) UNION ALL
		(SELECT unnest(stock.tables) EXCEPT ALL SELECT unnest(ours.tables))) d;
END $$;

SET gpujoin.force = on;
EXPLAIN (COSTS OFF) UPDATE big SET v = 5 WHERE key IN (1, 2, 3) AND id > 10;
EXPLAIN (COSTS OFF) UPDATE big b SET v = s.w FROM small s WHERE b.key = s.k;
EXPLAIN (COSTS OFF) DELETE FROM big WHERE key IN (SELECT k FROM small WHERE w > 1);
EXPLAIN (COSTS OFF) MERGE INTO big b USING small s ON b.key = s.k
WHEN MATCHED THEN UPDATE SET v = s.w
WHEN NOT MATCHED THEN INSERT (id, key) VALUES (0, s.k);
EXPLAIN (COSTS OFF) SELECT b.id FROM small s JOIN big b ON b.key = s.k FOR UPDATE OF b SKIP LOCKED;
-- a partitioned target table: lists of keys for each partition, joins by stock plans
EXPLAIN (COSTS OFF) DELETE FROM parts WHERE key IN (1, 2, 3);
EXPLAIN (COSTS OFF) UPDATE small s SET w = b.v FROM parts b WHERE b.key = s.k;
RESET gpujoin.force;

-- lists of keys
SELECT * FROM compare('UPDATE big SET v = v + 1 WHERE key IN (1, 2, 3, 3, NULL) RETURNING *');
SELECT * FROM compare('UPDATE big SET key = key + 1 WHERE key = ANY (''{1, 2, 3, 4}'') RETURNING *');
SELECT * FROM compare('DELETE FROM big WHERE key IN (1, 2, 3) AND v > 3 RETURNING *');
SELECT * FROM compare('DELETE FROM big WHERE key = ANY (ARRAY(SELECT k FROM small)) RETURNING id');
SELECT * FROM compare('UPDATE parts SET v = v + 1 WHERE key IN (1, 2, 3) RETURNING *, tableoid');
SELECT * FROM compare('UPDATE parts SET id = id + 3000 WHERE key IN (1, 2, 3) RETURNING *, tableoid');
SELECT * FROM compare('DELETE FROM parts WHERE key IN (1, 2, 3) RETURNING *');
-- joins that change the big table
SELECT * FROM compare('UPDATE big b SET v = s.w, t = s.label FROM small s WHERE b.key = s.k
	RETURNING b.*, s.*');
SELECT * FROM compare('UPDATE big b SET key = b.key + 3 FROM small s WHERE b.key = s.k RETURNING *');
SELECT * FROM compare('UPDATE big SET v = 77 WHERE key IN (SELECT k FROM small WHERE w < 2)
	RETURNING *');
SELECT * FROM compare('DELETE FROM big b USING small s WHERE b.key = s.k AND b.v <> s.w
	RETURNING b.id, s.w');
SELECT * FROM compare('DELETE FROM big b WHERE EXISTS (SELECT FROM small s WHERE s.k = b.key
	AND s.w < b.v) RETURNING b');
SELECT * FROM compare('DELETE FROM big b USING (VALUES (6), (9), (NULL)) s(k) WHERE b.key = s.k
	RETURNING b.id');
SELECT * FROM compare('WITH s AS (DELETE FROM small WHERE w = 1 RETURNING k)
	UPDATE big b SET v = -1 FROM s WHERE b.key = s.k RETURNING b.id');
SELECT * FROM compare('UPDATE big b SET v = -5 FROM big c JOIN small s ON c.id = s.k
	WHERE b.key = c.key RETURNING b.*');
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM compare('UPDATE big b SET v = s.w FROM many s WHERE b.key = s.k RETURNING b.id, b.v');
RESET work_mem;
RESET hash_mem_multiplier;
-- joins that change the small table
SELECT * FROM compare('UPDATE small s SET w = 9 WHERE EXISTS (SELECT FROM big b WHERE b.key = s.k
	AND b.v > 3) RETURNING *');
SELECT * FROM compare('DELETE FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.key = s.k)
	RETURNING *');
SELECT * FROM compare('UPDATE small s SET w = 8 FROM parts b WHERE b.key = s.k AND b.id < 1000
	RETURNING s.*');
SELECT * FROM compare('INSERT INTO log SELECT ''join'', b.id FROM small s JOIN parts b
	ON b.key = s.k RETURNING *');
-- joins that change a partitioned table
SELECT * FROM compare('UPDATE parts b SET v = s.w FROM small s WHERE b.key = s.k RETURNING b.*');
SELECT * FROM compare('DELETE FROM parts b USING small s WHERE b.key = s.k RETURNING b.id');
-- MERGE
SELECT * FROM compare('MERGE INTO big b USING small s ON b.key = s.k
	WHEN MATCHED AND s.w = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.w', false);
SELECT * FROM compare('MERGE INTO big b USING small s ON b.key = s.k AND b.v > 3
	WHEN MATCHED THEN UPDATE SET t = s.label
	WHEN NOT MATCHED AND s.k > 100 THEN INSERT (id, key, t) VALUES (-1, s.k, s.label)
	WHEN NOT MATCHED THEN DO NOTHING', false);
SELECT * FROM compare('MERGE INTO small s USING (SELECT key, max(v) AS m FROM big GROUP BY key) b
	ON b.key = s.k WHEN MATCHED THEN UPDATE SET w = m', false);
SELECT * FROM compare('MERGE INTO parts b USING small s ON b.key = s.k
	WHEN MATCHED THEN UPDATE SET t = s.label
	WHEN NOT MATCHED THEN INSERT VALUES (1, s.k, 0, s.label)', false);
-- row locks
SELECT * FROM compare('SELECT b.id, s.w FROM small s JOIN big b ON b.key = s.k FOR UPDATE');
SELECT * FROM compare('SELECT b.id FROM small s JOIN big b ON b.key = s.k FOR SHARE OF b NOWAIT');
SELECT * FROM compare('SELECT s.*, b.id FROM small s LEFT JOIN big b ON b.key = s.k
	FOR NO KEY UPDATE OF s SKIP LOCKED');
SELECT * FROM compare('SELECT id FROM big WHERE key IN (SELECT k FROM small) FOR UPDATE');
SELECT * FROM compare('SELECT b FROM small s JOIN parts b ON b.key = s.k FOR UPDATE OF b');
SELECT * FROM compare('SELECT b FROM parts b WHERE key IN (1, 2, 3) FOR UPDATE');
SELECT * FROM compare('SELECT * FROM (SELECT b.id, s.k FROM small s JOIN big b ON b.key = s.k) x,
	log FOR UPDATE OF log');

-- triggers see each row once
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_LEVEL = 'STATEMENT' THEN
		INSERT INTO gj_changes.log SELECT TG_OP, id FROM gone;
		RETURN NULL;
	END IF;
	NEW.t = 'seen ' || NEW.t;
	RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE UPDATE ON big FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after AFTER UPDATE ON big REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER after_delete AFTER DELETE ON big REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION note();
SELECT * FROM compare('UPDATE big b SET v = s.w FROM small s WHERE b.key = s.k RETURNING b.*');
SELECT * FROM compare('DELETE FROM big WHERE key IN (SELECT k FROM small) RETURNING id');

-- a row that two small rows find is changed once, or raises an error if SQL requires it
INSERT INTO small VALUES (6, 1, 'twice');
SELECT * FROM compare('UPDATE big b SET v = 5 FROM small s WHERE b.key = s.k RETURNING b.id');
SET gpujoin.force = on;
MERGE INTO big b USING small s ON b.key = s.k WHEN MATCHED THEN UPDATE SET v = s.w;
-- the cursor's row is that of the locked table
BEGIN;
DECLARE c CURSOR FOR SELECT b.id, s.k FROM small s JOIN big b ON b.key = s.k AND b.id > 100
	FOR UPDATE OF b;
FETCH 2 FROM c;
UPDATE big SET v = 1000 WHERE CURRENT OF c RETURNING id, key, v, t;
DELETE FROM big WHERE CURRENT OF c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT b.id, s.k FROM small s JOIN big b ON b.key = s.k;
FETCH 1 FROM c;
UPDATE big SET v = 1000 WHERE CURRENT OF c RETURNING id, key, v;
ROLLBACK;
-- only the privileges that the statement needs
CREATE ROLE regress_gpujoin_changer;
GRANT USAGE ON SCHEMA gj_changes TO regress_gpujoin_changer;
GRANT SELECT ON big, small TO regress_gpujoin_changer;
SET ROLE regress_gpujoin_changer;
UPDATE big b SET v = s.w FROM small s WHERE b.key = s.k;
DELETE FROM big WHERE key IN (SELECT k FROM small);
SELECT b.id FROM small s JOIN big b ON b.key = s.k FOR UPDATE OF b;
RESET ROLE;
DROP OWNED BY regress_gpujoin_changer;
DROP ROLE regress_gpujoin_changer;
RESET gpujoin.force;

SET client_min_messages = warning;
DROP SCHEMA gj_changes CASCADE;
