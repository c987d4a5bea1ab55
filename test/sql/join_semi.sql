-- GpuJoin, semi, left and anti joins: the rows of stock plans, including NULLs and ON against
-- WHERE.
CREATE SCHEMA gj_semi;
SET search_path = gj_semi, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/join.sql

SET gpujoin.force = on;
EXPLAIN (COSTS OFF)
SELECT id FROM big WHERE key IN (SELECT k FROM small);
EXPLAIN (COSTS OFF)
SELECT * FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.key = s.k AND b.v > s.x);
EXPLAIN (COSTS OFF)
SELECT * FROM small s LEFT JOIN big b ON b.key = s.k AND b.v > 3 AND b.v <> s.x
WHERE b.t IS NULL OR b.t LIKE '%1';
EXPLAIN (COSTS OFF)
SELECT * FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.key = s.k);
RESET gpujoin.force;

-- big rows, each once
SELECT * FROM compare('SELECT * FROM big WHERE key IN (SELECT k FROM small)');
SELECT * FROM compare('SELECT * FROM big WHERE key IN (SELECT k FROM small WHERE x > 1) AND v > 4');
SELECT * FROM compare('SELECT b.* FROM big b WHERE EXISTS
	(SELECT FROM small s WHERE s.k = b.key AND s.x <> b.v)');
SELECT * FROM compare('SELECT b.*, b AS w FROM big b WHERE EXISTS
	(SELECT FROM small s WHERE s.k = b.key AND s.x > b.v OFFSET 0)');
SELECT * FROM compare('SELECT count(*), sum(id) FROM big WHERE key IN
	(SELECT a FROM (VALUES (6, 1), (6, 2), (9, 3), (NULL, 4)) v(a, b))');
SELECT * FROM compare('SELECT id FROM big WHERE key IN (SELECT unnest(ARRAY[6, 9, NULL, 6]) OFFSET 0)');
SELECT * FROM compare('SELECT id FROM big WHERE key = ANY (SELECT k * 2 FROM small)');
SELECT * FROM compare('SELECT id FROM big WHERE key IN (SELECT s.k FROM small s JOIN small s2 USING (x))');
SELECT * FROM compare('SELECT id FROM big WHERE key IN (SELECT k FROM small)
	AND v IN (SELECT x FROM small)');
SELECT * FROM compare('SELECT b.id, s2.label FROM big b JOIN small s2 ON s2.x = b.v
	WHERE b.key IN (SELECT k FROM small)');
SELECT * FROM compare('SELECT id FROM big WHERE key NOT IN (SELECT k FROM small)');
SELECT * FROM compare('SELECT id FROM big WHERE key IN (SELECT k FROM small) OR v = 3');
SELECT * FROM compare('SELECT id, key IN (SELECT k FROM small) AS is_in FROM big');

-- small rows, each once
SELECT * FROM compare('SELECT * FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.key = s.k)');
SELECT * FROM compare('SELECT * FROM small s WHERE EXISTS
	(SELECT FROM big b WHERE b.key = s.k AND b.v = s.x AND b.t LIKE ''%1%'')');
SELECT * FROM compare('SELECT * FROM small WHERE k IN (SELECT key FROM big)');
SELECT * FROM compare('SELECT s.x, s2.k FROM small s JOIN small s2 USING (x)
	WHERE EXISTS (SELECT FROM big b WHERE b.key = s.k + s2.k)');

-- small rows without a match
SELECT * FROM compare('SELECT * FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.key = s.k)');
SELECT * FROM compare('SELECT * FROM small s WHERE NOT EXISTS
	(SELECT FROM big b WHERE b.key = s.k AND b.v = s.x AND b.id > 700)');
SELECT * FROM compare('SELECT s.*, b.id, b AS w FROM small s LEFT JOIN big b ON b.key = s.k
	WHERE b.key IS NULL');
SELECT * FROM compare('SELECT * FROM small WHERE k NOT IN (SELECT key FROM big)');

-- small rows with or without a match
SELECT * FROM compare('SELECT s.*, b.* FROM small s LEFT JOIN big b ON b.key = s.k');
SELECT * FROM compare('SELECT s.*, b.* FROM big b RIGHT JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT s.k, b AS w, b.ctid AS c, b.tableoid AS o FROM small s
	LEFT JOIN big b ON b.key = s.k');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k AND b.v = s.x');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k AND b.v = 4');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k AND s.x = 1');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k
	AND (SELECT count(*) FROM small) > 5');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k
	AND (SELECT count(*) FROM small) < 5');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k
	WHERE b.v IS DISTINCT FROM 4');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k
	WHERE coalesce(b.v, s.x) > 2');
SELECT * FROM compare('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k AND b.id < 0
	WHERE s.x > 0');
SELECT * FROM compare('SELECT s.k, coalesce(b.t, ''none'') AS t FROM small s
	LEFT JOIN (SELECT key, t, v FROM big WHERE v > 5) b ON b.key = s.k');
SELECT * FROM compare('SELECT * FROM big b LEFT JOIN small s ON b.key = s.k');

-- values that must become NULL although computed from the big table, or from nothing
SELECT * FROM compare('SELECT s.k, b.one, b.c FROM small s
	LEFT JOIN (SELECT key, 1 AS one, coalesce(v, 7) AS c FROM big) b ON b.key = s.k');
SELECT * FROM compare('SELECT s.k, b.id FROM small s
	LEFT JOIN (SELECT key, 1 AS one, id FROM big) b ON b.key = s.k WHERE b.one IS NULL OR b.id < 500');
SELECT * FROM compare('SELECT s.k, b.id, b.one FROM small s JOIN
	(SELECT key, id, 1 AS one FROM big) b ON b.key = s.k');
SELECT * FROM compare('SELECT a.x, c.* FROM small a LEFT JOIN
	(SELECT s.k, b.id, 1 AS one, coalesce(b.v, s.x) AS c FROM small s JOIN big b ON b.key = s.k) c
	ON c.k = a.k + 3');
SELECT * FROM compare('SELECT c.one, b.id FROM
	(SELECT s.k, t.one FROM small s LEFT JOIN (SELECT x, 1 AS one FROM small WHERE x > 2) t
	ON t.x = s.x) c JOIN big b ON b.key = c.k');
SELECT * FROM compare('SELECT c.one, b.id FROM
	(SELECT s.k, t.one FROM small s LEFT JOIN (SELECT x, 1 AS one FROM small WHERE x > 2) t
	ON t.x = s.x) c LEFT JOIN big b ON b.key = c.k AND b.v = c.one');

-- outer joins in a row
SELECT * FROM compare('SELECT s.k, b.id, s2.label FROM small s LEFT JOIN big b ON b.key = s.k
	LEFT JOIN small s2 ON s2.k = b.v');
SELECT * FROM compare('SELECT s.k, b.id, s2.label FROM small s LEFT JOIN small s2 ON s2.k = s.x
	LEFT JOIN big b ON b.key = s2.k AND b.v <> s.x');
SELECT * FROM compare('SELECT s.k, b.id, s2.label FROM small s
	LEFT JOIN (small s2 LEFT JOIN big b ON b.key = s2.k) ON s2.x = s.k');
SELECT * FROM compare('SELECT s.k, b.id, s2.label FROM small s
	FULL JOIN (small s2 LEFT JOIN big b ON b.key = s2.k) ON s2.x = s.k');

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA gj_semi CASCADE;
