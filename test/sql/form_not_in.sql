--
-- key NOT IN (list), key <> ALL (array): all keys except the listed ones
--
CREATE SCHEMA form_not_in;
SET search_path = form_not_in, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

-- Most rows have one of a few keys, like a status column
CREATE TABLE big (id int, k int, k8 int8);
INSERT INTO big SELECT i, CASE WHEN i % 50 = 0 THEN NULL WHEN i % 100 < 97 THEN i % 4 ELSE i % 3000 END,
	CASE WHEN i % 70 = 0 THEN NULL ELSE (i % 9) * 3000000000 END FROM generate_series(1, 20000) i;
INSERT INTO big VALUES (0, 2147483647, 9223372036854775807), (0, -2147483648, -9223372036854775808);
CREATE INDEX big_k ON big USING gpujoin (k);
CREATE INDEX big_k8 ON big USING gpujoin (k8);
ANALYZE big;

EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k <> ALL ('{0,1,2,3}');
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE NOT (k = ANY ('{0,1,2,3}'));
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k <> 1 AND 2 <> k;

-- Rows with a NULL key never satisfy it, unless the list is empty
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3)');
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 0, 0)');
SELECT compare('SELECT * FROM big WHERE k <> ALL (''{0,1,2,3,-77}'')');
SELECT compare('SELECT * FROM big WHERE NOT (k = ANY (''{0,1,2,3}''))');
SELECT compare('SELECT * FROM big WHERE NOT (k = 0 OR k IN (1, 2))');
SELECT compare('SELECT * FROM big WHERE k <> 0');
SELECT compare('SELECT * FROM big WHERE 0 <> k');
SELECT compare('SELECT * FROM big WHERE k NOT IN (-77, 99999)');
SELECT compare('SELECT * FROM big WHERE k NOT IN (5000000000, -5000000000)');
SELECT compare('SELECT * FROM big WHERE k NOT IN (2147483647, -2147483648, 0, 1, 2, 3)');
SELECT compare('SELECT * FROM big WHERE k8 NOT IN (0, 3000000000, 6000000000)');
SELECT compare('SELECT * FROM big WHERE k8 NOT IN (0, 9223372036854775807, -9223372036854775808)');
SELECT compare('SELECT * FROM big WHERE k8 <> ALL (ARRAY(SELECT DISTINCT k::int8 FROM big WHERE k < 500))');
SELECT compare('SELECT * FROM big WHERE k8 <> ALL (ARRAY(SELECT i * 1000000000::int8 FROM generate_series(0, 20) i))');

-- NULLs in the list: no row satisfies it
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, NULL)');
SELECT compare('SELECT * FROM big WHERE k <> ALL (''{NULL}'')');
SELECT compare('SELECT * FROM big WHERE k <> ALL (NULL::int[])');
SELECT compare('SELECT * FROM big WHERE k <> (SELECT NULL::int)');
SELECT compare('SELECT * FROM big WHERE k <> ALL (ARRAY[[0, 1], [2, NULL]])');

-- An empty list: every row satisfies it, including rows with a NULL key
SELECT compare('SELECT * FROM big WHERE k <> ALL (''{}'')');
SELECT compare('SELECT * FROM big WHERE k <> ALL (ARRAY(SELECT 1 WHERE false))');
PREPARE not_any(int[]) AS SELECT b FROM big b WHERE k <> ALL ($1);
SELECT compare_generic('not_any', $$'{0,1,2,3}'$$, $$'{}'$$, 'NULL', $$'{NULL,1}'$$, $$'{-1}'$$);
PREPARE not_in(int, int) AS SELECT b FROM big b WHERE k NOT IN ($1, 0, $2) AND id % 2 = 0;
SELECT compare_generic('not_in', '1, 2', '3, NULL', 'NULL, NULL', '0, 0');
PREPARE other_than(int) AS SELECT b FROM big b WHERE k <> $1;
SELECT compare_generic('other_than', '0', 'NULL', '-77');

-- Together with other conditions on the key
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k IN (1, 5, 6, 7) AND k NOT IN (1, 2);
SELECT compare('SELECT * FROM big WHERE k IN (1, 5, 6, 7, 9) AND k NOT IN (1, 2, 9)');
SELECT compare('SELECT * FROM big WHERE k NOT IN (1, 2) AND k NOT IN (0, 2) AND k <> 3');
SELECT compare('SELECT * FROM big WHERE k NOT IN (1, 2) AND k = 1');
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3) AND id % 3 = 0');
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3) OR k = 1');
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3) OR k <> 2');
SELECT compare('SELECT * FROM big WHERE (k NOT IN (0, 1, 2) OR k IN (0, 7)) AND k <> 7');
SELECT compare('SELECT * FROM big WHERE k <> 1 OR k <> 2');
SELECT compare('SELECT * FROM big WHERE k <> ALL (''{}'') AND k <> ALL (''{0,1}'')');
SELECT compare('SELECT * FROM big WHERE k <> ALL (ARRAY(SELECT 1 WHERE false)) AND k IN (0, 7)');
SELECT compare('SELECT * FROM big WHERE k <> ALL (ARRAY(SELECT 1 WHERE false)) OR k IN (0, 7)');

-- Conditions with another meaning
SELECT compare('SELECT * FROM big WHERE k <> ANY (''{1,2}'')');
SELECT compare('SELECT * FROM big WHERE k = ALL (''{1,1}'')');
SELECT compare('SELECT * FROM big WHERE (k IN (1, 2)) IS NOT TRUE');
SELECT compare('SELECT * FROM big WHERE (k NOT IN (1, 2)) IS NOT FALSE');
SELECT compare('SELECT * FROM big WHERE (k NOT IN (1, 2)) IS UNKNOWN');
SELECT compare('SELECT * FROM big WHERE k IS DISTINCT FROM 1');
SELECT compare('SELECT * FROM big WHERE k NOT IN (SELECT 1)');

-- Inserted and deleted rows
BEGIN;
UPDATE big SET k = 4000 WHERE id % 1000 = 1;
DELETE FROM big WHERE id % 1000 = 3;
INSERT INTO big VALUES (-1, 5000), (-2, NULL), (-3, 0);
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3)');
ROLLBACK;
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3)');
UPDATE big SET k = NULL WHERE id % 500 = 7;
VACUUM big;
INSERT INTO big SELECT i, i FROM generate_series(1, 500) i;
SELECT compare('SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3)');

-- A set of TIDs that does not fit into memory, and whole blocks
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT compare('SELECT * FROM big WHERE k NOT IN (2, 3)');
SELECT compare('SELECT * FROM big WHERE k <> ALL (ARRAY(SELECT 1 WHERE false))');
RESET work_mem;
RESET hash_mem_multiplier;

-- It is chosen only if it pays: when few rows are left
RESET gpujoin.force;
SET gpujoin.min_rows = 10000;
ANALYZE big;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k NOT IN (0, 1, 2, 3);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k NOT IN (0);

SET client_min_messages = warning;
DROP SCHEMA form_not_in CASCADE;
