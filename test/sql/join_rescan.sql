-- GpuJoin executed repeatedly: rescans with changed parameters, prepared statements, cursors; and
-- the commands that do not use it.
CREATE SCHEMA gj_rescan;
SET search_path = gj_rescan, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/join.sql

-- parameters in the small side, in its key, in a filter of the big table, in a join qual, nowhere
SET gpujoin.force = on;
EXPLAIN (COSTS OFF)
SELECT o.x, l.* FROM small o, LATERAL
	(SELECT count(*), sum(b.id) FROM big b JOIN small s ON b.key = s.k WHERE s.x = o.x) l;
RESET gpujoin.force;
SELECT * FROM compare('SELECT o.x, l.* FROM small o, LATERAL
	(SELECT count(*), sum(b.id) FROM big b JOIN small s ON b.key = s.k WHERE s.x = o.x) l');
SELECT * FROM compare('SELECT o.x, l.* FROM small o, LATERAL
	(SELECT count(*), sum(b.id) FROM big b JOIN small s ON b.key = s.k + o.x) l');
SELECT * FROM compare('SELECT o.x, l.* FROM small o, LATERAL
	(SELECT count(*), sum(b.id) FROM big b JOIN small s ON b.key = s.k WHERE b.v = o.x) l');
SELECT * FROM compare('SELECT o.x, l.* FROM small o, LATERAL
	(SELECT count(*), sum(b.id) FROM big b JOIN small s ON b.key = s.k AND b.v + s.x = o.x) l');
SELECT * FROM compare('SELECT o.x, l.* FROM small o, LATERAL
	(SELECT b.id FROM big b JOIN small s ON b.key = s.k AND s.x > o.x ORDER BY b.id LIMIT 3) l');
SELECT * FROM compare('SELECT o.x, l.* FROM small o LEFT JOIN LATERAL
	(SELECT s.k, b.id FROM small s LEFT JOIN big b ON b.key = s.k AND b.v = o.x
	 WHERE s.x > 2 OFFSET 0) l ON true');
SELECT * FROM compare('SELECT o.x, (SELECT count(*) FROM big b WHERE b.v > o.x
	AND b.key IN (SELECT k FROM small s WHERE s.x = o.x)) AS n FROM small o');
SELECT * FROM compare('SELECT o.x, (SELECT count(*) FROM small s WHERE s.x = o.x
	AND EXISTS (SELECT FROM big b WHERE b.key = s.k AND b.v = o.x)) AS n FROM small o');
SELECT * FROM compare('SELECT o.x, (SELECT count(*) FROM small s WHERE s.x = o.x
	AND NOT EXISTS (SELECT FROM big b WHERE b.key = s.k AND b.v = o.x)) AS n FROM small o');
SELECT * FROM compare('SELECT o.x, (SELECT b.id FROM big b JOIN small s ON b.key = s.k
	WHERE s.x <> o.x ORDER BY b.id LIMIT 1) AS first FROM small o');

-- a rescan without changed parameters keeps its results
CREATE SEQUENCE evaluated;
SET gpujoin.force = on;
SET enable_material = off;
SELECT count(*) FROM (VALUES (1), (2), (3)) o(x), LATERAL
	(SELECT count(*) FROM big b JOIN (SELECT k, nextval('evaluated') FROM small OFFSET 0) s
	 ON b.key = s.k WHERE b.v = o.x OFFSET 0) l;
SELECT last_value FROM evaluated;
RESET enable_material;

-- prepared statements
PREPARE by_x(int, int) AS
SELECT count(*), sum(b.id) FROM big b JOIN small s ON b.key = s.k + $2 WHERE s.x = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_x(1, 0);
EXECUTE by_x(1, 0);
EXECUTE by_x(1, 1);
EXECUTE by_x(2, 0);
EXECUTE by_x(NULL, 0);
EXECUTE by_x(1, NULL);
SET gpujoin.enabled = off;
EXECUTE by_x(1, 0);
EXECUTE by_x(1, 1);
EXECUTE by_x(2, 0);
RESET gpujoin.enabled;
RESET plan_cache_mode;
BEGIN;
INSERT INTO big VALUES (-1, 6, 0, 'new'), (-2, 6, 0, 'new');
UPDATE small SET x = 99 WHERE label = 'twice';
EXECUTE by_x(99, 0);
SET gpujoin.enabled = off;
EXECUTE by_x(99, 0);
RESET gpujoin.enabled;
ROLLBACK;

-- cursors: a fetch after a change returns what the cursor's snapshot saw
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT b.id, s.label FROM big b JOIN small s ON b.key = s.k
	WHERE s.k = 6 AND b.v < 15;
FETCH 2 FROM c;
DELETE FROM big WHERE key = 6;
INSERT INTO big SELECT -i, 6, 1, 'late' FROM generate_series(1, 100) i;
MOVE ALL FROM c;
MOVE BACKWARD ALL FROM c;
FETCH 2 FROM c;
SELECT count(*) FROM big b JOIN small s ON b.key = s.k WHERE s.k = 6 AND b.v < 15;
ROLLBACK;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT count(*) OVER () AS n FROM big b JOIN small s ON b.key = s.k;
DELETE FROM big WHERE key = 6;
COMMIT;
FETCH 1 FROM h;
CLOSE h;

-- commands that change or lock rows may use it, but not with a UNION ALL there
CREATE FUNCTION has_gpujoin(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'GpuJoin' THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
SELECT has_gpujoin('SELECT b.id FROM big b JOIN small s ON b.key = s.k');
SELECT has_gpujoin('SELECT b.id FROM big b JOIN small s ON b.key = s.k FOR UPDATE');
SELECT has_gpujoin('SELECT b.id FROM big b JOIN small s ON b.key = s.k FOR UPDATE OF s');
SELECT has_gpujoin('SELECT b.id FROM big b JOIN small s ON b.key = s.k FOR KEY SHARE OF b');
SELECT has_gpujoin('SELECT * FROM (SELECT b.id FROM big b JOIN small s ON b.key = s.k) j FOR SHARE');
SELECT has_gpujoin('UPDATE big b SET v = 0 FROM small s WHERE b.key = s.k');
SELECT has_gpujoin('UPDATE small SET x = 0 WHERE k IN (SELECT key FROM big)');
SELECT has_gpujoin('UPDATE small o SET x = 0 WHERE EXISTS
	(SELECT FROM big b JOIN small s ON b.key = s.k WHERE b.v = o.x)');
SELECT has_gpujoin('DELETE FROM big b USING small s WHERE b.key = s.k');
SELECT has_gpujoin('SELECT b.key FROM (SELECT key FROM big UNION ALL SELECT key FROM big) b
	JOIN small s ON b.key = s.k');
SELECT has_gpujoin('SELECT b.key FROM (SELECT key FROM big UNION ALL SELECT key FROM big) b
	JOIN small s ON b.key = s.k FOR UPDATE OF s');
-- so may a subquery that is planned separately
SELECT has_gpujoin('UPDATE small SET x =
	(SELECT count(*) FROM big b JOIN small s ON b.key = s.k WHERE s.x = 1)');
UPDATE small SET x = (SELECT count(*) FROM big b JOIN small s ON b.key = s.k WHERE s.x = 1)
WHERE k = 9 RETURNING x;
SET gpujoin.enabled = off;
SELECT count(*) AS x FROM big b JOIN small s ON b.key = s.k WHERE s.x = 1;
RESET gpujoin.enabled;

-- security barriers: a filter that reveals its input is not executed for rows that a policy hides
CREATE FUNCTION leak(t text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'saw %', t;
	RETURN true;
END $$;
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
CREATE POLICY nines ON big USING (t LIKE '%9' AND id < 600);
CREATE ROLE regress_gpujoin_reader;
GRANT USAGE ON SCHEMA gj_rescan TO regress_gpujoin_reader;
GRANT SELECT ON big, small TO regress_gpujoin_reader;
SET ROLE regress_gpujoin_reader;
EXPLAIN (COSTS OFF)
SELECT b.id FROM big b JOIN small s ON b.key = s.k WHERE leak(b.t);
SELECT b.id FROM big b JOIN small s ON b.key = s.k WHERE leak(b.t);
SELECT b.id FROM big b JOIN small s ON b.key = s.k AND leak(b.t || s.label);
RESET ROLE;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA gj_rescan CASCADE;
DROP ROLE regress_gpujoin_reader;
