-- INSERT ... SELECT joins like a SELECT; so do UPDATE and DELETE (more of them in changes.sql).
CREATE TABLE ji_big (id int, k int);
INSERT INTO ji_big SELECT i, i % 1000 FROM generate_series(1, 20000) i;
CREATE INDEX ON ji_big USING gpujoin (k);
CREATE TABLE ji_small AS SELECT generate_series(1, 300) AS k;
CREATE TABLE ji_out (id int PRIMARY KEY, k int);
ANALYZE ji_big, ji_small;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF)
INSERT INTO ji_out SELECT b.id, b.k FROM ji_small s JOIN ji_big b ON b.k = s.k;
INSERT INTO ji_out SELECT b.id, b.k FROM ji_small s JOIN ji_big b ON b.k = s.k;
SELECT count(*), sum(id) FROM ji_out;
INSERT INTO ji_out SELECT b.id, b.k FROM ji_small s JOIN ji_big b ON b.k = s.k
ON CONFLICT (id) DO UPDATE SET k = excluded.k + 1;
SELECT count(*), sum(id), sum(k) FROM ji_out;
-- into the table being read: the command does not see the rows that it inserts
INSERT INTO ji_big SELECT b.id + 100000, b.k FROM ji_small s JOIN ji_big b ON b.k = s.k;
SELECT count(*) FROM ji_big;
EXPLAIN (COSTS OFF) DELETE FROM ji_big b USING ji_small s WHERE b.k = s.k;
EXPLAIN (COSTS OFF) UPDATE ji_big b SET id = 0 FROM ji_small s WHERE b.k = s.k;
RESET gpujoin.force;
DROP TABLE ji_big, ji_small, ji_out;
