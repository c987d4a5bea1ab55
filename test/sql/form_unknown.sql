--
-- Arrays of unknown length: PostgreSQL assumes ten keys, and looks up each; GpuScan costs less than that
--
CREATE SCHEMA form_unknown;
SET search_path = form_unknown, public;
SET max_parallel_workers_per_gather = 0;
SET plan_cache_mode = force_generic_plan;

CREATE TABLE big (id int PRIMARY KEY, k int, note text);
INSERT INTO big SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE (i * 7919::int8) % 100000 END, 'row ' || i
	FROM generate_series(1, 200000) i;
CREATE INDEX big_btree ON big (k);
CREATE INDEX big_k ON big USING gpujoin (k);
CREATE TABLE sets (id int, wanted int[]);
INSERT INTO sets SELECT 1, array_agg(i) FROM generate_series(1, 5) i;
INSERT INTO sets SELECT 2, array_agg(i) FROM generate_series(1, 20000) i;
INSERT INTO sets SELECT 3, array_agg(NULL::int) FROM generate_series(1, 20000) i;
INSERT INTO sets VALUES (4, '{}'), (5, NULL);
VACUUM ANALYZE big, sets;

-- The scans of big that ran, in plan order
CREATE FUNCTION ran(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text[] := '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ ' on (big|facts)( |$)' AND line !~ 'never executed' THEN
			result := result || substring(line FROM '(Custom Scan .GpuScan.|Bitmap Heap Scan|Index Only Scan|Index Scan|Seq Scan)');
		END IF;
	END LOOP;
	RETURN array_to_string(result, ', ');
END $$;

PREPARE by_keys(int[]) AS SELECT count(*), sum(id) FROM big WHERE k = ANY ($1);
EXPLAIN (COSTS OFF) EXECUTE by_keys('{1}');
SELECT ran(format('EXECUTE by_keys(%L)', wanted)) AS ran FROM sets WHERE wanted IS NOT NULL ORDER BY id;
SELECT ran('EXECUTE by_keys(NULL)');
EXECUTE by_keys('{1,2,3,4,5}');
CREATE FUNCTION by_set(set_id int) RETURNS TABLE (n bigint, total bigint) STABLE LANGUAGE plpgsql AS $$
DECLARE
	keys int[] := (SELECT wanted FROM sets WHERE id = set_id);
BEGIN
	RETURN QUERY SELECT count(*), sum(id) FROM big WHERE k = ANY (keys);
END $$;
SELECT i, (by_set(i)).* FROM generate_series(1, 5) i;
SET gpujoin.enabled = off;
SELECT i, (by_set(i)).* FROM generate_series(1, 5) i;
EXPLAIN (COSTS OFF) EXECUTE by_keys('{1}');
RESET gpujoin.enabled;

-- An index-only scan
PREPARE counted(int[]) AS SELECT count(*) FROM big WHERE k = ANY ($1);
EXPLAIN (COSTS OFF) EXECUTE counted('{1}');
SELECT ran(format('EXECUTE counted(%L)', wanted)) AS ran FROM sets WHERE wanted IS NOT NULL ORDER BY id;
EXECUTE counted('{1,2,3,4,5}');
SELECT id, (SELECT count(*) FROM (SELECT k FROM big WHERE k = ANY (sets.wanted)) x) FROM sets ORDER BY id;

-- PostgreSQL's path stays where it is the cheaper one for as many keys as are expected
CREATE TABLE facts (k int, v int);
INSERT INTO facts SELECT (i * 7919::int8) % 10000, i FROM generate_series(1, 200000) i;
CREATE INDEX facts_btree ON facts (k) INCLUDE (v);
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (v);
VACUUM (FREEZE, ANALYZE) facts;
PREPARE listed(int[]) AS SELECT k, v FROM facts WHERE k = ANY ($1);
SELECT ran('EXECUTE listed(''{1}'')');
SET gpujoin.setup_cost = 50000;
SET gpujoin.device_setup_cost = 50000;
DISCARD PLANS;
SELECT ran('EXECUTE listed(''{1}'')');
SET gpujoin.setup_cost = 400;
SET gpujoin.device_setup_cost = 400;
DISCARD PLANS;
SELECT ran('EXECUTE listed(''{1}'')');
SET gpujoin.assumed_keys = 10;
DISCARD PLANS;
SELECT ran('EXECUTE listed(''{1}'')');
RESET gpujoin.assumed_keys;
RESET gpujoin.setup_cost;
RESET gpujoin.device_setup_cost;
DISCARD PLANS;
-- The scan has the cost of PostgreSQL's
CREATE FUNCTION cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
CREATE TABLE costs AS SELECT cost('EXECUTE listed(''{1}'')') AS ours;
SET gpujoin.enabled = off;
SELECT ours / cost('EXECUTE listed(''{1}'')') BETWEEN 0.9 AND 0.99 AS slightly_less FROM costs;
RESET gpujoin.enabled;
-- For the first rows, in no order or the btree's, PostgreSQL's path remains; in another order ours is used
PREPARE few(int[]) AS SELECT k, v FROM facts WHERE k = ANY ($1) LIMIT 3;
SELECT ran('EXECUTE few(''{1}'')');
PREPARE first_key(int[]) AS SELECT k FROM facts WHERE k = ANY ($1) ORDER BY k LIMIT 1;
SELECT ran('EXECUTE first_key(''{1}'')');
SELECT ran('SELECT id FROM sets WHERE EXISTS (SELECT FROM facts WHERE k = ANY (sets.wanted) OFFSET 0)');
SELECT ran('SELECT id, (SELECT v FROM facts WHERE k = ANY (sets.wanted) LIMIT 1) FROM sets WHERE id <> 3');
-- The best of several gpujoin indexes is used, whichever is the newest
CREATE INDEX facts_newest ON facts USING gpujoin (k);
PREPARE values(int[]) AS SELECT v FROM facts WHERE k = ANY ($1);
EXPLAIN (COSTS OFF) EXECUTE values('{1}');
DROP INDEX facts_newest;
-- Aggregates read it as arrays
PREPARE summed(int[]) AS SELECT count(*), sum(v) FROM facts WHERE k = ANY ($1);
EXPLAIN (COSTS OFF) EXECUTE summed('{1}');
EXECUTE summed('{1,2,3}');

-- The sixth execution may use a generic plan
SET plan_cache_mode = auto;
PREPARE often(int[]) AS SELECT count(*), sum(id) FROM big WHERE k = ANY ($1);
SELECT i, ran(format('EXECUTE often(%L)', wanted)) AS ran FROM sets, generate_series(1, 7) i WHERE id = 2 ORDER BY i;
SELECT i, ran(format('EXECUTE often(%L)', wanted)) ~ 'Gpu' AS ours FROM sets, generate_series(1, 7) i WHERE id = 1 ORDER BY i;
SET plan_cache_mode = force_generic_plan;

-- A subquery, with further conditions and expressions above
SELECT ran('SELECT id + 1, upper(note) FROM big WHERE k = ANY ((SELECT wanted FROM sets WHERE id = 2)::int[]) AND id % 3 = 0');
SELECT ran('SELECT id + 1, upper(note) FROM big WHERE k = ANY ((SELECT wanted FROM sets WHERE id = 1)::int[]) AND id % 3 = 0');
SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) FROM
	(SELECT id + 1, upper(note) FROM big WHERE k = ANY ((SELECT wanted FROM sets WHERE id = 2)::int[]) AND id % 3 = 0) x;
SET gpujoin.enabled = off;
SELECT md5(string_agg(x::text, ',' ORDER BY x::text)) FROM
	(SELECT id + 1, upper(note) FROM big WHERE k = ANY ((SELECT wanted FROM sets WHERE id = 2)::int[]) AND id % 3 = 0) x;
RESET gpujoin.enabled;

-- Subplans
SELECT id, (SELECT count(*) FROM big WHERE k = ANY (sets.wanted)) FROM sets ORDER BY id;
SELECT ran('SELECT id, (SELECT count(*) FROM big WHERE k = ANY (sets.wanted)) FROM sets');
SELECT ran('SELECT id, (SELECT count(*) FROM big WHERE k = ANY (sets.wanted) AND big.id > sets.id) FROM sets WHERE id <> 2');
SELECT s.id, x.n, x.v FROM sets s, generate_series(1, 3) v(v), LATERAL (SELECT count(*) AS n, v.v FROM big WHERE k = ANY (s.wanted) AND big.id > v.v * 10) x
	ORDER BY s.id, v;
SET gpujoin.enabled = off;
SELECT s.id, x.n, x.v FROM sets s, generate_series(1, 3) v(v), LATERAL (SELECT count(*) AS n, v.v FROM big WHERE k = ANY (s.wanted) AND big.id > v.v * 10) x
	ORDER BY s.id, v;
RESET gpujoin.enabled;

-- Cursors, and changes of their current rows
BEGIN;
CREATE FUNCTION change_current(set_id int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	keys int[] := (SELECT wanted FROM sets WHERE id = set_id);
	c CURSOR FOR SELECT * FROM big WHERE k = ANY (keys);
	r record;
	n int := 0;
BEGIN
	OPEN c;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND OR n = 5;
		UPDATE big SET note = 'current ' || r.id WHERE CURRENT OF c;
		n := n + 1;
	END LOOP;
	CLOSE c;
	RETURN (SELECT count(*) || ' rows, ' || bool_and(note = 'current ' || id) FROM big WHERE note LIKE 'current%');
END $$;
SELECT change_current(1);
UPDATE big SET note = 'row ' || id WHERE note LIKE 'current%';
SELECT change_current(2);
ROLLBACK;
BEGIN;
CREATE FUNCTION change_current_key(set_id int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	keys int[] := (SELECT wanted FROM sets WHERE id = set_id);
	c CURSOR FOR SELECT k FROM big WHERE k = ANY (keys);
	r record;
	n int := 0;
BEGIN
	OPEN c;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND OR n = 5;
		UPDATE big SET note = 'current ' || r.k WHERE CURRENT OF c;
		n := n + 1;
	END LOOP;
	CLOSE c;
	RETURN (SELECT count(*) || ' rows, ' || bool_and(note = 'current ' || k) FROM big WHERE note LIKE 'current%');
END $$;
SELECT change_current_key(1);
UPDATE big SET note = 'row ' || id WHERE note LIKE 'current%';
SELECT change_current_key(2);
ROLLBACK;

-- Changes and locks
BEGIN;
PREPARE change(int[]) AS UPDATE big SET note = 'changed' WHERE k = ANY ($1);
SELECT ran(format('EXECUTE change(%L)', wanted)) FROM sets WHERE id < 3 ORDER BY id;
SELECT count(*) FROM big WHERE note = 'changed';
PREPARE lock(int[]) AS SELECT * FROM big WHERE k = ANY ($1) FOR UPDATE;
SELECT ran(format('EXECUTE lock(%L)', wanted)) FROM sets WHERE id < 3 ORDER BY id;
ROLLBACK;

-- The order of an index is kept
PREPARE sorted(int[]) AS SELECT k FROM big WHERE k = ANY ($1) ORDER BY k LIMIT 3;
EXECUTE sorted('{9,8,7,6}');

-- The first rows in an order by which our scan can sort entries: PostgreSQL's plan has a Sort
PREPARE newest(int[]) AS SELECT k, v FROM facts WHERE k = ANY ($1) ORDER BY v DESC LIMIT 3;
EXPLAIN (COSTS OFF) EXECUTE newest('{1}');
SELECT ran(format('EXECUTE newest(%L)', wanted)) AS ran FROM sets WHERE id < 3 ORDER BY id;
EXECUTE newest('{1,2,3,4,5}');
PREPARE newest_of_set(int) AS SELECT k, v FROM facts
	WHERE k = ANY ((SELECT wanted FROM sets WHERE id = $1)::int[]) ORDER BY v DESC LIMIT 3;
EXECUTE newest_of_set(2);
EXECUTE newest_of_set(3);
EXECUTE newest_of_set(4);
SET gpujoin.enabled = off;
EXECUTE newest('{1,2,3,4,5}');
EXECUTE newest_of_set(2);
RESET gpujoin.enabled;
-- a longer order than the index has; a column that is not returned
PREPARE newest_by_two(int[]) AS SELECT v FROM facts WHERE k = ANY ($1) ORDER BY v, k % 2 LIMIT 3;
EXECUTE newest_by_two('{1,2,3,4,5}');
SELECT sets.id, x.* FROM sets, LATERAL
	(SELECT k FROM facts WHERE k = ANY (sets.wanted) ORDER BY v LIMIT 2) x ORDER BY sets.id, k;
SELECT ran('SELECT sets.id, x.* FROM sets, LATERAL
	(SELECT k FROM facts WHERE k = ANY (sets.wanted) ORDER BY v LIMIT 2) x WHERE sets.id < 3');
SET gpujoin.enabled = off;
SELECT sets.id, x.* FROM sets, LATERAL
	(SELECT k FROM facts WHERE k = ANY (sets.wanted) ORDER BY v LIMIT 2) x ORDER BY sets.id, k;
RESET gpujoin.enabled;

-- A cursor over sorted rows: PostgreSQL's plan has no current row, unless it locks rows
BEGIN;
CREATE FUNCTION change_newest(set_id int, lock text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor := 'newest';
	r record;
BEGIN
	OPEN c FOR EXECUTE 'SELECT k, v FROM facts WHERE k = ANY ($1) ORDER BY v LIMIT 3 ' || lock
		USING (SELECT wanted FROM sets WHERE id = set_id);
	FETCH c INTO r;
	FETCH c INTO r;
	UPDATE facts SET v = -1 WHERE CURRENT OF c;
	RETURN (SELECT count(*) || ', ' || r.k || ' ' || r.v || ' ' || bool_and(k = r.k) FROM facts WHERE v = -1);
END $$;
SAVEPOINT unchanged;
SELECT change_newest(1, '');
ROLLBACK TO unchanged;
SELECT change_newest(1, 'FOR UPDATE');
ROLLBACK TO unchanged;
SELECT change_newest(2, 'FOR UPDATE');
ROLLBACK TO unchanged;
SET LOCAL gpujoin.enabled = off;
SELECT change_newest(1, '');
ROLLBACK TO unchanged;
SELECT change_newest(2, 'FOR UPDATE');
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA form_unknown CASCADE;
