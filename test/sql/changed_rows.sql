--
-- Few rows of one key that are changed or locked: PostgreSQL scans the index itself
--
CREATE SCHEMA changed_rows;
SET search_path = changed_rows, public;
SET max_parallel_workers_per_gather = 0;
SET gpujoin.min_rows = 0;

CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 4000);
CREATE TABLE child (id int, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, other int REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE,
	t text, pad text) WITH (autovacuum_enabled = off);
INSERT INTO child SELECT i, CASE WHEN i % 20 = 0 THEN 4000 ELSE 1 + i % 3999 END, nullif(1 + i % 4000, 4000), 'the text ' || i % 4000,
	repeat('x', 40) FROM generate_series(1, 40000) i;
CREATE INDEX child_parent ON child USING gpujoin (parent);
CREATE INDEX child_other ON child USING gpujoin (other) INCLUDE (id);
CREATE INDEX child_t ON child USING gpujoin (t);
CREATE INDEX child_half ON child USING gpujoin ((id / 8)) WHERE id > 10;
VACUUM ANALYZE parent, child;

-- Changed and locked, by constants and parameters
EXPLAIN (COSTS OFF) DELETE FROM child WHERE parent = 5;
EXPLAIN (COSTS OFF) UPDATE child SET pad = 'y' WHERE 5 = other AND id > 100;
EXPLAIN (COSTS OFF) SELECT FROM ONLY child WHERE t = 'the text 5' FOR KEY SHARE;
EXPLAIN (COSTS OFF) DELETE FROM child USING parent p WHERE child.parent = 5 AND p.id = child.other;
SET plan_cache_mode = force_generic_plan;
PREPARE remove(int) AS DELETE FROM ONLY child WHERE $1 OPERATOR(pg_catalog.=) parent;
EXPLAIN (COSTS OFF) EXECUTE remove(5);
RESET plan_cache_mode;
SELECT index, node, chosen, reason FROM gpujoin_explain_choice('DELETE FROM child WHERE parent = 5') WHERE index = 'child_parent'::regclass;
SELECT node, chosen, reason FROM gpujoin_explain_choice('SELECT FROM child WHERE parent = 5 FOR UPDATE') WHERE index = 'child_parent'::regclass;

-- Only read; a list; many rows; a partial index; by force
EXPLAIN (COSTS OFF) SELECT * FROM child WHERE parent = 5;
EXPLAIN (COSTS OFF) DELETE FROM child WHERE parent IN (5, 6);
EXPLAIN (COSTS OFF) UPDATE child SET pad = 'y' WHERE parent = 4000;
EXPLAIN (COSTS OFF) DELETE FROM child WHERE parent = 4000 AND id = 100;
EXPLAIN (COSTS OFF) DELETE FROM child WHERE id / 8 = 5 AND id > 10;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) DELETE FROM child WHERE parent = 5;
RESET gpujoin.force;

-- Rows after changes of all kinds; key 3999 has more rows than are prefetched together
CREATE TABLE expected AS TABLE child;
DELETE FROM expected WHERE parent % 40 = 7 AND parent < 1000;
UPDATE expected SET parent = 5001 WHERE parent = 9;
UPDATE expected SET other = 5001 WHERE other = 9;
UPDATE expected SET other = NULL WHERE other % 40 = 7 AND other < 1000;
DELETE FROM expected WHERE parent = 3999 OR t IN ('the text 11', 'the text 12');
BEGIN;
DELETE FROM parent WHERE id % 40 = 7 AND id < 1000;
UPDATE parent SET id = 5001 WHERE id = 9;
INSERT INTO child SELECT 50000 + i, 3999 FROM generate_series(1, 100) i;
SAVEPOINT a;
DELETE FROM parent WHERE id = 3998;
ROLLBACK TO a;
DELETE FROM child WHERE parent = 3999;
DELETE FROM child WHERE t = 'the text 11';
DO $$
DECLARE
	c CURSOR FOR SELECT id FROM child WHERE t = 'the text 12' FOR UPDATE;
BEGIN
	FOR r IN c LOOP
		DELETE FROM child WHERE CURRENT OF c;
	END LOOP;
END $$;
COMMIT;
SELECT count(*), count(*) = (SELECT count(*) FROM expected) AS equal FROM child;
SELECT count(*) FROM ((TABLE child EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE child)) d;
DELETE FROM parent WHERE id = 3998;
SELECT count(*) FROM child WHERE parent = 3998;

-- Partitions
CREATE TABLE parts (k int, v int) PARTITION BY HASH (v);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (modulus 2, remainder 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (modulus 2, remainder 1);
INSERT INTO parts SELECT i % 4000, i FROM generate_series(1, 40000) i;
CREATE INDEX parts_k ON parts USING gpujoin (k);
VACUUM ANALYZE parts;
EXPLAIN (COSTS OFF) UPDATE parts SET v = v + 1 WHERE k = 5;
UPDATE parts SET v = v + 1 WHERE k = 5;
SELECT count(*), sum(v) FROM parts WHERE k = 5;

SET client_min_messages = warning;
DROP SCHEMA changed_rows CASCADE;
