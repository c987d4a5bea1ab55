--
-- SELECT DISTINCT that removes nothing: a unique key distinguishes the rows
--
CREATE SCHEMA distinct_rows;
SET search_path = distinct_rows, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE patents (patent_id int PRIMARY KEY, class_id int, title text, a int, b int, n int)
	WITH (autovacuum_enabled = off);
INSERT INTO patents SELECT i, i % 200, 'title ' || i % 1000, i / 10, i % 10, nullif(i % 4000, 0)
FROM generate_series(1, 8000) i;
CREATE INDEX ON patents USING gpujoin (class_id);
CREATE TABLE top_classes AS SELECT i AS class_id, i % 3 AS weight FROM generate_series(1, 10) i;
INSERT INTO top_classes VALUES (3, 1), (3, 2), (NULL, 7);
VACUUM ANALYZE patents, top_classes;

-- one table
SELECT * FROM compare_nodes('SELECT DISTINCT * FROM patents WHERE class_id IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT title, patent_id FROM patents WHERE class_id IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT patent_id, upper(title) AS t FROM patents WHERE class_id IN (1, 2, 3)
	ORDER BY 2, 1 LIMIT 7');
SELECT * FROM compare_nodes('SELECT count(*), max(title) FROM (SELECT DISTINCT * FROM patents
	WHERE class_id IN (1, 2, 3)) u');
-- not used without the key, nor for an expression of it
SELECT * FROM compare_nodes('SELECT DISTINCT title FROM patents WHERE class_id IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT abs(patent_id), title FROM patents WHERE class_id IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT ON (title) title, patent_id FROM patents WHERE class_id IN (1, 2, 3)
	ORDER BY title, patent_id');
SELECT * FROM compare_nodes('SELECT DISTINCT patent_id, title, count(*) OVER () FROM patents
	WHERE class_id IN (1, 2, 3)');
-- again after a part of the rows
SELECT * FROM compare_nodes('SELECT i, count(*), bool_and(class_id = i) FROM generate_series(1, 5) i, LATERAL
	(SELECT DISTINCT class_id, a FROM patents WHERE class_id = i LIMIT 20) d GROUP BY i');

-- joins: a row with several partners is returned once
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM top_classes t JOIN patents p ON p.class_id = t.class_id');
SELECT * FROM compare_nodes('SELECT DISTINCT p.patent_id, p.title || p.class_id AS t FROM top_classes t
	JOIN patents p ON p.class_id = t.class_id WHERE p.b <> 4');
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM top_classes t JOIN patents p ON p.class_id = t.class_id
	AND p.b > t.weight');
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM patents p WHERE class_id IN (SELECT class_id FROM top_classes)');
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM top_classes t JOIN top_classes u USING (weight)
	JOIN patents p ON p.class_id = t.class_id WHERE u.class_id > 2');
SELECT * FROM compare_nodes('SELECT count(*) FROM (SELECT DISTINCT p.* FROM top_classes t
	JOIN patents p ON p.class_id = t.class_id) u');
-- but not if columns of the small side are needed, or each of its rows counts
SELECT * FROM compare_nodes('SELECT DISTINCT p.*, t.weight FROM top_classes t
	JOIN patents p ON p.class_id = t.class_id');
SELECT * FROM compare_nodes('SELECT DISTINCT p.patent_id, p.title, t.weight * 0 AS zero FROM top_classes t
	JOIN patents p ON p.class_id = t.class_id');
SELECT * FROM compare_nodes('SELECT DISTINCT p.title FROM top_classes t JOIN patents p ON p.class_id = t.class_id');
SELECT count(*) > 401 AS several FROM (SELECT DISTINCT p.*, random() FROM top_classes t
	JOIN patents p ON p.class_id = t.class_id) u;
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM top_classes t LEFT JOIN patents p ON p.class_id = t.class_id');

-- indexes that are keys
ALTER TABLE patents DROP CONSTRAINT patents_pkey;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2, 3)');
CREATE UNIQUE INDEX several ON patents (b, a);
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2, 3)');	-- NULL
ALTER TABLE patents ALTER a SET NOT NULL, ALTER b SET NOT NULL;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT a, title FROM patents WHERE class_id IN (1, 2, 3)');
DROP INDEX several;
CREATE UNIQUE INDEX computed ON patents ((a + 0), b);
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2, 3)');
DROP INDEX computed;
CREATE UNIQUE INDEX partial ON patents (a, b) WHERE class_id < 3;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2)');
DROP INDEX partial;
ALTER TABLE patents ADD UNIQUE (a, b) DEFERRABLE;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, title FROM patents WHERE class_id IN (1, 2, 3)');
-- a constraint that is not checked yet
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO patents SELECT patent_id, class_id, title, a, b FROM patents WHERE class_id = 1;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b FROM patents WHERE class_id IN (1, 2, 3)');
ROLLBACK;

-- tables with children have no key across all of them
CREATE TABLE parent (id int PRIMARY KEY, k int);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT i, i % 10 FROM generate_series(1, 100) i;
INSERT INTO child SELECT * FROM parent;
CREATE INDEX ON parent USING gpujoin (k);
CREATE INDEX ON child USING gpujoin (k);
SELECT * FROM compare_nodes('SELECT DISTINCT * FROM parent WHERE k IN (2, 3, 4)');
SELECT * FROM compare_nodes('SELECT DISTINCT * FROM ONLY parent WHERE k IN (2, 3, 4)');

-- partitions: a key in each, and all columns that they are partitioned by; a partitioned index is
-- not required
CREATE TABLE parts (a int NOT NULL, b int, k int, c text COLLATE "C") PARTITION BY LIST (b);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2, NULL);
CREATE TABLE parts_2 (c text COLLATE "C", gone int, k int, b int, a int NOT NULL)
	PARTITION BY RANGE (a, c);
ALTER TABLE parts_2 DROP gone;
ALTER TABLE parts ATTACH PARTITION parts_2 DEFAULT;
CREATE TABLE parts_20 PARTITION OF parts_2 FOR VALUES FROM (0, 'a') TO (500, 'a');
CREATE TABLE parts_21 (k int, c text COLLATE "C", b int, a int NOT NULL);
ALTER TABLE parts_2 ATTACH PARTITION parts_21 FOR VALUES FROM (500, 'a') TO (2000, 'a');
INSERT INTO parts SELECT i % 1000, nullif(i / 1000, 4), i % 20, 'c' FROM generate_series(0, 4999) i;
CREATE UNIQUE INDEX ON parts_1 (a, b) WHERE b IS NOT NULL;
CREATE UNIQUE INDEX ON parts_20 (a, b);
CREATE UNIQUE INDEX ON parts_21 (a, b);
ALTER TABLE parts_20 ALTER b SET NOT NULL;
ALTER TABLE parts_21 ALTER b SET NOT NULL;
CREATE INDEX ON parts USING gpujoin (k);
VACUUM ANALYZE parts;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, c FROM parts WHERE k IN (1, 2, 3)');
CREATE UNIQUE INDEX ON parts_1 (a) WHERE b = 1;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, c FROM parts WHERE k IN (1, 2, 3) AND b = 1');
ALTER TABLE parts_1 ADD UNIQUE (a, b);
DELETE FROM parts WHERE b IS NULL;
ALTER TABLE parts_1 ALTER b SET NOT NULL;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, c FROM parts WHERE k IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT c, upper(c) AS u, b, a FROM parts WHERE k IN (1, 2, 3)
	ORDER BY a DESC, b LIMIT 7');
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM parts p JOIN top_classes t ON p.k = t.class_id');
SELECT * FROM compare_nodes('SELECT count(*) FROM (SELECT DISTINCT p.a, p.b, p.c FROM parts p
	JOIN top_classes t ON p.k = t.class_id) u');
-- not without a column of each level, nor without a partition's key
SELECT * FROM compare_nodes('SELECT DISTINCT a, b FROM parts WHERE k IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT a, c FROM parts WHERE k IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT p.a, p.c FROM parts p JOIN top_classes t ON p.k = t.class_id');
DROP INDEX parts_21_a_b_idx;
SELECT * FROM compare_nodes('SELECT DISTINCT a, b, c FROM parts WHERE k IN (1, 2, 3)');
SELECT * FROM compare_nodes('SELECT DISTINCT p.* FROM parts p JOIN top_classes t ON p.k = t.class_id');
-- nor if the partition key is an expression
CREATE TABLE computed (a int NOT NULL, k int) PARTITION BY LIST ((a % 2));
CREATE TABLE computed_0 PARTITION OF computed FOR VALUES IN (0);
CREATE TABLE computed_1 PARTITION OF computed FOR VALUES IN (1);
INSERT INTO computed SELECT i, i % 20 FROM generate_series(1, 1000) i;
CREATE UNIQUE INDEX ON computed_0 (a);
CREATE UNIQUE INDEX ON computed_1 (a);
CREATE INDEX ON computed USING gpujoin (k);
SELECT * FROM compare_nodes('SELECT DISTINCT * FROM computed WHERE k IN (2, 3, 4)');
CREATE TABLE hashed (a int PRIMARY KEY, k int) PARTITION BY HASH (a);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT i, i % 20 FROM generate_series(1, 1000) i;
CREATE INDEX ON hashed USING gpujoin (k);
SELECT * FROM compare_nodes('SELECT DISTINCT * FROM hashed WHERE k IN (2, 3, 4)');
SELECT * FROM compare_nodes('SELECT DISTINCT k FROM hashed WHERE k IN (2, 3, 4)');

-- a cached plan becomes invalid with the key
ALTER TABLE patents DROP CONSTRAINT patents_a_b_key, ADD PRIMARY KEY (patent_id);
SET plan_cache_mode = force_generic_plan;
SET gpujoin.force = on;
PREPARE rows_of(int[]) AS SELECT DISTINCT p.patent_id, p.title FROM unnest($1) t JOIN patents p ON p.class_id = t
	ORDER BY 1;
EXPLAIN (COSTS OFF) EXECUTE rows_of('{8, 8}');
ALTER TABLE patents DROP CONSTRAINT patents_pkey;
INSERT INTO patents SELECT * FROM patents WHERE class_id = 8 AND b < 5;
EXPLAIN (COSTS OFF) EXECUTE rows_of('{8, 8}');
PREPARE count_of(int[]) AS SELECT count(*) FROM (SELECT DISTINCT p.patent_id, p.title FROM unnest($1) t
	JOIN patents p ON p.class_id = t) u;
EXECUTE count_of('{8, 8}');
DELETE FROM patents WHERE class_id = 8;
ALTER TABLE patents ADD PRIMARY KEY (patent_id);
EXECUTE count_of('{9, 9}');
ALTER TABLE patents DROP CONSTRAINT patents_pkey;
INSERT INTO patents SELECT * FROM patents WHERE class_id = 9;
EXECUTE count_of('{9, 9}');
-- and with the column's NOT NULL
DELETE FROM patents WHERE n IS NULL OR patent_id > 4000;
CREATE UNIQUE INDEX ON patents (n) WHERE class_id = 10;
ALTER TABLE patents ALTER n SET NOT NULL;
PREPARE of_n AS SELECT DISTINCT n FROM patents WHERE class_id = 10;
EXPLAIN (COSTS OFF) EXECUTE of_n;
ALTER TABLE patents ALTER n DROP NOT NULL;
EXPLAIN (COSTS OFF) EXECUTE of_n;

DROP SCHEMA distinct_rows CASCADE;
