-- Plans above our nodes, or that run them repeatedly: sorts and limits, cursors in every direction,
-- nested loops, LATERAL, correlated subqueries, grouping sets, window functions, pulled-up
-- subqueries. For a table and a partitioned one, scans and joins.
CREATE SCHEMA gj_above;
SET search_path = gj_above, public;

CREATE TABLE plain (id int, key int, v int, t text) WITH (autovacuum_enabled = off);
INSERT INTO plain
SELECT i, CASE WHEN i % 50 > 0 THEN i * 7919 % 500 END, i % 10, 'row ' || i
FROM generate_series(1, 5000) i;
CREATE INDEX ON plain USING gpujoin (key);
UPDATE plain SET v = v + 10 WHERE id % 17 = 0;
DELETE FROM plain WHERE id % 23 = 0;
CREATE TABLE parts (t text, id int, key int, v int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (2500);
CREATE TABLE parts_2 (id int, key int, v int, t text);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (2500) TO (9000);
INSERT INTO parts (id, key, v, t) TABLE plain;
CREATE INDEX ON parts USING gpujoin (key);
CREATE TABLE small (k int, w int);
INSERT INTO small SELECT i * 3, i % 4 FROM generate_series(1, 60) i;
INSERT INTO small VALUES (6, 7), (NULL, 1), (5000, 2);
ANALYZE;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql

-- Run each query on "plain" and on "parts" under gpujoin.force and with gpujoin off. Return which
-- of our nodes the forced plan has and how many rows each answer lacks.
CREATE FUNCTION compare(query text, OUT big text, OUT nodes text, OUT n bigint, OUT missing bigint,
						OUT surplus bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	line text;
	this text;
BEGIN
	FOREACH big IN ARRAY ARRAY['plain', 'parts'] LOOP
		this = replace(query, '$big', big);
		nodes = NULL;
		PERFORM set_config('gpujoin.force', 'on', true);
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || this LOOP
			CONTINUE WHEN line !~ 'Join Type: |GpuScan';
			line = coalesce(substring(line FROM 'Join Type: (.*)'), 'GpuScan');
			nodes = CASE WHEN nodes IS NULL THEN line ELSE nodes || ', ' || line END;
		END LOOP;
		SELECT d.* INTO n, missing, surplus FROM both_ways(this) d;
		RETURN NEXT;
	END LOOP;
END $$;

-- sorts, limits, offsets; a limit may stop anywhere, within a block or between two tables
SELECT * FROM compare('SELECT * FROM $big WHERE key IN (1, 2, 3, 4) ORDER BY v, id LIMIT 7');
SELECT * FROM compare('SELECT b.id, s.w FROM small s JOIN $big b ON b.key = s.k
	ORDER BY s.w DESC, b.id FETCH FIRST 3 ROWS WITH TIES');
SELECT * FROM compare('SELECT count(*) FROM (SELECT FROM $big WHERE key IN (1, 2, 3) LIMIT 5) x');
SELECT * FROM compare('SELECT count(*) FROM (SELECT FROM $big b JOIN small s ON b.key = s.k
	LIMIT 300 OFFSET 13) x');
SELECT * FROM compare('SELECT DISTINCT ON (b.v) b.v, b.id FROM small s JOIN $big b ON b.key = s.k
	ORDER BY b.v, b.id DESC');
SELECT * FROM compare('SELECT min(id), max(id) FROM $big WHERE key IN (1, 2, 3)');
SELECT * FROM compare('SELECT max(b.id) FROM $big b JOIN small s ON b.key = s.k');
-- grouping sets, windows, set operations, set-returning target lists
SELECT * FROM compare('SELECT b.v, s.w, count(*), sum(b.id), grouping(b.v, s.w)
	FROM small s JOIN $big b ON b.key = s.k GROUP BY GROUPING SETS ((b.v, s.w), (b.v), ())');
SELECT * FROM compare('SELECT v, key, count(*) FROM $big WHERE key IN (1, 2, 3)
	GROUP BY CUBE (v, key)');
SELECT * FROM compare('SELECT v, count(DISTINCT key) FILTER (WHERE id > 100),
	percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM $big
	WHERE key < 99 AND key IN (1, 2, 3, 200)
	GROUP BY ROLLUP (v) HAVING count(*) > 1');
SELECT * FROM compare('SELECT b.id, row_number() OVER w, lag(b.id) OVER w,
	sum(b.v) OVER (w ROWS 2 PRECEDING)
	FROM small s JOIN $big b ON b.key = s.k WINDOW w AS (PARTITION BY s.k, s.w ORDER BY b.id)');
SELECT * FROM compare('SELECT id, rank() OVER (ORDER BY v), ntile(3) OVER (ORDER BY id)
	FROM $big WHERE key = ANY (''{1, 2, 3}'')');
SELECT * FROM compare('SELECT id FROM $big WHERE key IN (1, 2, 3)
	UNION SELECT b.id FROM small s JOIN $big b ON b.key = s.k
	EXCEPT ALL SELECT id FROM $big WHERE key = 6');
SELECT * FROM compare('SELECT b.id, generate_series(1, s.w) FROM small s JOIN $big b ON b.key = s.k');
-- subqueries, with and without pull-up
SELECT * FROM compare('SELECT x.a, x.id, s.w FROM (SELECT id, key AS a, v + 1 AS c FROM $big) x
	JOIN (SELECT k + 0 AS k, w FROM small) s ON s.k = x.a WHERE x.c > 3');
SELECT * FROM compare('SELECT x.id FROM (SELECT id, key FROM $big ORDER BY id LIMIT 4000) x
	JOIN small s ON s.k = x.key');
SELECT * FROM compare('SELECT * FROM (SELECT s.k, b.id FROM small s JOIN $big b ON b.key = s.k
	OFFSET 0) x
	WHERE id % 7 = 0');
SELECT * FROM compare('SELECT x.n, y.n AS m FROM (SELECT key, count(*) AS n FROM $big WHERE key IN (1, 2, 3)
	GROUP BY key) x FULL JOIN (SELECT b.key, count(*) AS n FROM small s JOIN $big b ON b.key = s.k
	GROUP BY b.key) y USING (key)');
SELECT * FROM compare('WITH x AS MATERIALIZED (SELECT b.id, s.w FROM small s JOIN $big b ON b.key = s.k)
	SELECT x.id, y.id AS i FROM x JOIN x y USING (w) WHERE x.id < 300 AND y.id < 300');
SELECT * FROM compare('SELECT c.id, s.w FROM small s JOIN $big b ON b.key = s.k
	JOIN $big c ON c.key = s.w
	WHERE b.id < 500');
SELECT * FROM compare('SELECT s.k, x.id FROM small s LEFT JOIN (SELECT b.id, b.key, c.v FROM $big b
	JOIN $big c ON c.id = b.id WHERE c.v < 3) x ON x.key = s.k');

-- repeated execution: nested loops, LATERAL, correlated subqueries
SELECT * FROM compare('SELECT s.k, s.w, x.* FROM small s, LATERAL (SELECT b.id, b.v + s.w AS x FROM $big b
	WHERE b.key IN (s.k, s.k + 1) ORDER BY b.id LIMIT 2) x');
SELECT * FROM compare('SELECT s.k, x.* FROM small s LEFT JOIN LATERAL (SELECT count(*) AS n, max(b.id) AS m
	FROM $big b JOIN generate_series(s.w, s.w + 5) g(k) ON b.key = g.k) x ON x.n > 70');
SELECT * FROM compare('SELECT s.k, (SELECT count(*) FROM $big b WHERE b.key = s.k) AS a,
	(SELECT sum(b.id) FROM $big b WHERE b.key = ANY (ARRAY[s.k, s.w])) AS b FROM small s');
SELECT * FROM compare('SELECT s.k FROM small s WHERE (SELECT count(*) FROM $big b JOIN small t ON b.key = t.k
	WHERE t.w = s.w AND b.v > s.w) > 100');
SELECT * FROM compare('SELECT o.id FROM plain o WHERE o.id < 60 AND EXISTS (SELECT FROM $big b
	JOIN small s ON b.key = s.k AND s.w = o.v AND b.v = o.v OFFSET 0)');
SELECT * FROM compare('SELECT o.id, ARRAY(SELECT b.id FROM $big b WHERE b.key IN (o.id, o.v) ORDER BY 1)
	FROM plain o WHERE o.id < 40');
SELECT * FROM compare('SELECT s.k, CASE WHEN s.w > 1 THEN (SELECT min(b.id) FROM $big b WHERE b.key = s.k)
	END FROM small s');
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT * FROM compare('SELECT o.w, b.id FROM small o JOIN $big b ON b.id % 4 = o.w
	WHERE b.key IN (1, 2, 3)');
SELECT * FROM compare('SELECT o.w, x.id FROM small o LEFT JOIN (SELECT b.id, b.v FROM $big b
	JOIN small s ON b.key = s.k WHERE b.id < 900) x ON x.v = o.w');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;
WITH RECURSIVE chain(key, depth) AS (
	VALUES (3, 0), (6, 0) UNION SELECT b.id % 251, c.depth + 1 FROM chain c JOIN plain b ON b.key = c.key
	WHERE c.depth < 3)
SELECT depth, count(*), sum(key) FROM chain GROUP BY 1 ORDER BY 1;
SET gpujoin.force = on;
WITH RECURSIVE chain(key, depth) AS (
	VALUES (3, 0), (6, 0) UNION SELECT b.id % 251, c.depth + 1 FROM chain c JOIN plain b ON b.key = c.key
	WHERE c.depth < 3)
SELECT depth, count(*), sum(key) FROM chain GROUP BY 1 ORDER BY 1;

-- Cursors: the rows are in heap order, table after table
BEGIN;
DECLARE scroll_scan SCROLL CURSOR FOR SELECT id, key FROM parts WHERE key IN (1, 2, 3);
DECLARE scroll_join SCROLL CURSOR FOR SELECT b.id, s.w FROM small s JOIN parts b ON b.key = s.k
	AND s.w = 1;
DECLARE forward_scan NO SCROLL CURSOR FOR SELECT id, key FROM plain WHERE key IN (1, 2, 3);
DECLARE held_join CURSOR WITH HOLD FOR SELECT b.id, s.w FROM small s JOIN parts b ON b.key = s.k
	AND s.w = 2;
DECLARE held_scan SCROLL CURSOR WITH HOLD FOR SELECT id, key FROM plain WHERE key IN (1, 2, 3);
FETCH 2 FROM scroll_scan;
FETCH ABSOLUTE 9 FROM scroll_scan;
FETCH BACKWARD 2 FROM scroll_scan;
FETCH LAST FROM scroll_scan;
FETCH RELATIVE -1 FROM scroll_scan;
FETCH FIRST FROM scroll_scan;
MOVE FORWARD ALL FROM scroll_scan;
FETCH NEXT FROM scroll_scan;
FETCH PRIOR FROM scroll_scan;
FETCH 3 FROM scroll_join;
MOVE LAST FROM scroll_join;
FETCH BACKWARD 2 FROM scroll_join;
FETCH ABSOLUTE 2 FROM scroll_join;
FETCH 2 FROM forward_scan;
FETCH 2 FROM held_join;
FETCH 2 FROM held_scan;
-- a cursor keeps showing the state at which it was opened
DELETE FROM parts WHERE id < 4000;
UPDATE plain SET key = 999;
FETCH ABSOLUTE 5 FROM scroll_scan;
FETCH ABSOLUTE 5 FROM scroll_join;
FETCH 2 FROM forward_scan;
SAVEPOINT a;
FETCH BACKWARD 1 FROM forward_scan;
ROLLBACK TO a;
ROLLBACK;
BEGIN;
DECLARE held_join CURSOR WITH HOLD FOR SELECT b.id, s.w FROM small s JOIN parts b ON b.key = s.k
	AND s.w = 2;
DECLARE held_scan SCROLL CURSOR WITH HOLD FOR SELECT id, key FROM plain WHERE key IN (1, 2, 3);
FETCH 2 FROM held_join;
FETCH 2 FROM held_scan;
COMMIT;
BEGIN;
DELETE FROM parts;
DELETE FROM plain;
FETCH 2 FROM held_join;
FETCH 2 FROM held_scan;
FETCH LAST FROM held_scan;
FETCH ABSOLUTE 1 FROM held_scan;
ROLLBACK;
CLOSE held_join;
CLOSE held_scan;
-- a cursor that is closed, or whose transaction ends, in the middle of a table
BEGIN;
DECLARE c CURSOR FOR SELECT b.id FROM small s JOIN parts b ON b.key = s.k;
FETCH 1 FROM c;
CLOSE c;
DECLARE c CURSOR FOR SELECT b.id FROM small s JOIN parts b ON b.key = s.k;
FETCH 1 FROM c;
SAVEPOINT a;
DECLARE d CURSOR FOR SELECT id FROM parts WHERE key IN (1, 2);
FETCH 1 FROM d;
ROLLBACK TO a;
FETCH 1 FROM c;
COMMIT;
-- a portal that is executed in parts
CREATE FUNCTION in_parts(OUT n int, OUT total bigint) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	n = 0;
	total = 0;
	FOR r IN SELECT b.id, s.w FROM small s JOIN parts b ON b.key = s.k LOOP
		n = n + 1;
		total = total + r.id;
		total = total + (SELECT count(*) FROM plain WHERE key IN (r.w, r.w + 1));
	END LOOP;
END $$;
SELECT * FROM in_parts();
SET gpujoin.enabled = off;
SELECT * FROM in_parts();
RESET gpujoin.enabled;
RESET gpujoin.force;

SET client_min_messages = warning;
DROP SCHEMA gj_above CASCADE;
