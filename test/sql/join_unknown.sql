--
-- Joins with unnest() of a parameter, for which PostgreSQL assumes ten rows: GpuJoin costs less than
-- a loop over these
--
CREATE SCHEMA join_unknown;
SET search_path = join_unknown, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
SET max_parallel_workers_per_gather = 0;
SET plan_cache_mode = force_generic_plan;

CREATE TABLE big (id int PRIMARY KEY, a int, b int, c text, v int);
INSERT INTO big SELECT i, CASE WHEN i % 70 <> 0 THEN i % 2000 END, CASE WHEN i % 90 <> 0 THEN i / 2000 END, 'c' || i % 2000, i % 7
	FROM (SELECT (i * 7919::int8 % 100000)::int AS i FROM generate_series(1, 100000) i) q;
CREATE INDEX big_ab ON big (a, b);
CREATE INDEX big_gj ON big USING gpujoin (a) INCLUDE (b);
VACUUM ANALYZE big;

-- Arrays of parameters: few elements, many, and arrays that are special
CREATE TABLE lists (id int, a int[], b int[]);
INSERT INTO lists SELECT n, array_agg(i % 2100), array_agg(i / 2100)
	FROM unnest('{1,10,5000}'::int[]) n, LATERAL (SELECT (i * 104729::int8 % 100003)::int AS i FROM generate_series(1, n) i) q GROUP BY n;
INSERT INTO lists SELECT 5001, a || a || NULL || 5, b || b || 3 || NULL FROM lists WHERE id = 5000;
INSERT INTO lists SELECT 5002, a, '{1,2,NULL}' FROM lists WHERE id = 5000;
INSERT INTO lists VALUES (0, '{}', '{}'), (-1, NULL, NULL), (-2, '{1,2}', NULL);
INSERT INTO lists SELECT -3, array_agg(ARRAY[i, i + 1]), array_agg(ARRAY[i % 9, i % 9]) FROM generate_series(1, 3000) i;

-- The joins of a plan
CREATE FUNCTION ran(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	RETURN (SELECT string_agg(coalesce(p ->> 'Custom Plan Provider', p ->> 'Node Type'), ', ') FROM jsonb_path_query(plan,
		'strict $.**?(@."Custom Plan Provider" == "GpuJoin" || @."Node Type" like_regex "Join$|Loop")') p);
END $$;
-- The rows of a prepared statement, for each of the lists, and with gpujoin off
CREATE FUNCTION rows_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text[] := '{}';
BEGIN
	FOR r IN EXECUTE statement LOOP result := result || r::text; END LOOP;
	RETURN (SELECT count(*) || ' ' || md5(coalesce(string_agg(line, E'\n' ORDER BY line COLLATE "C"), '')) FROM unnest(result) line);
END $$;
CREATE FUNCTION compare(name text, columns text[]) RETURNS TABLE (list int, run text, same boolean) LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	ours text;
BEGIN
	FOR list, statement IN EXECUTE format('SELECT id, format(''EXECUTE %s (%s)'', %s) FROM lists ORDER BY id', name,
			(SELECT string_agg('%L', ', ') FROM unnest(columns)), (SELECT string_agg(c, ', ') FROM unnest(columns) c)) LOOP
		run := ran(statement);
		ours := rows_of(statement);
		SET LOCAL gpujoin.enabled = off;
		same := ours = rows_of(statement);
		SET LOCAL gpujoin.enabled = on;
		RETURN NEXT;
	END LOOP;
END $$;

PREPARE pairs(int[], int[]) AS SELECT * FROM big WHERE (a, b) IN (SELECT unnest($1), unnest($2));
SELECT explain('COSTS OFF', 'EXECUTE pairs(''{1}'', ''{2}'')');
SELECT * FROM compare('pairs', '{a,b}');
PREPARE zipped(int[], int[]) AS SELECT u.*, big.* FROM unnest($1, $2) WITH ORDINALITY u (x, y, z) JOIN big ON a = x AND b = y;
EXPLAIN (COSTS OFF) EXECUTE zipped('{1}', '{2}');
SELECT * FROM compare('zipped', '{a,b}');
-- Outer joins, semijoins and antijoins
PREPARE kept(int[], int[]) AS SELECT u.*, id, c, big FROM unnest($1, $2) u (x, y) LEFT JOIN big ON a = x AND b = y AND v > 1 WHERE id IS NULL OR id % 3 > 0;
SELECT * FROM compare('kept', '{a,b}');
PREPARE unmatched(int[], int[]) AS SELECT * FROM unnest($1, $2) u (x, y) WHERE NOT EXISTS (SELECT FROM big WHERE a = x AND b = y);
SELECT * FROM compare('unmatched', '{a,b}');
PREPARE matched(int[], int[]) AS SELECT * FROM unnest($1, $2) u (x, y) WHERE EXISTS (SELECT FROM big WHERE a = x AND b = y AND v < 5);
SELECT * FROM compare('matched', '{a,b}');

-- Below other nodes: aggregates, an order, LIMIT, another join, a whole row
PREPARE counted(int[], int[]) AS SELECT count(*), sum(v), min(c) FROM big WHERE (a, b) IN (SELECT unnest($1), unnest($2));
SELECT * FROM compare('counted', '{a,b}');
PREPARE grouped(int[], int[]) AS SELECT v, count(*) FROM unnest($1, $2) u (x, y) JOIN big ON a = x AND b = y GROUP BY v;
SELECT * FROM compare('grouped', '{a,b}');
PREPARE sorted(int[], int[]) AS SELECT row_number() OVER (), q FROM (SELECT big, x FROM unnest($1, $2) u (x, y) JOIN big ON a = x AND b = y
	ORDER BY big.id, x LIMIT 30) q;
SELECT * FROM compare('sorted', '{a,b}');
PREPARE joined(int[], int[]) AS SELECT big.id, other.v, y + 1 FROM unnest($1, $2) u (x, y) JOIN big ON a = x AND b = y JOIN big other ON other.id = big.id + 1;
SELECT * FROM compare('joined', '{a,b}');
PREPARE repeated(int[], int[]) AS SELECT g, (SELECT count(*) FROM unnest($1, $2) u (x, y) JOIN big ON a = x AND b = y WHERE v <> g)
	FROM generate_series(1, 3) g;
SELECT * FROM compare('repeated', '{a,b}');

-- Variables of a function, which are parameters
CREATE FUNCTION of_list(list int) RETURNS SETOF big LANGUAGE plpgsql AS $$
DECLARE
	xs int[] := (SELECT a FROM lists WHERE id = list);
	ys int[] := (SELECT b FROM lists WHERE id = list);
BEGIN
	xs := xs || 7;
	ys := ys || 3;
	RETURN QUERY SELECT * FROM big WHERE (a, b) IN (SELECT unnest(xs), unnest(ys));
END $$;
SELECT id, rows_of(format('SELECT of_list(%s)', id)) FROM lists WHERE id <> -3 ORDER BY id;
SET gpujoin.enabled = off;
SELECT id, rows_of(format('SELECT of_list(%s)', id)) FROM lists WHERE id <> -3 ORDER BY id;
RESET gpujoin.enabled;

-- A cursor that scrolls; changes and locks
CREATE FUNCTION scrolled(list int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	xs int[] := (SELECT a FROM lists WHERE id = list);
	ys int[] := (SELECT b FROM lists WHERE id = list);
	c SCROLL CURSOR FOR SELECT id FROM unnest(xs, ys) u (x, y) JOIN big ON a = x AND b = y ORDER BY 1;
	r record;
	result text := '';
BEGIN
	OPEN c;
	FETCH RELATIVE 2 FROM c INTO r;
	result := r.id;
	FETCH LAST FROM c INTO r;
	result := result || ' ' || r.id;
	FETCH PRIOR FROM c INTO r;
	CLOSE c;
	RETURN result || ' ' || r.id;
END $$;
SELECT id, scrolled(id) FROM lists WHERE id > 9 ORDER BY id;
BEGIN;
PREPARE change(int[], int[]) AS UPDATE big SET v = v + x FROM unnest($1, $2) u (x, y) WHERE a = x AND b = y;
PREPARE remove(int[], int[]) AS DELETE FROM big USING unnest($1, $2) u (x, y) WHERE a = x AND b = y AND v % 2 = 0;
PREPARE lock(int[], int[]) AS SELECT id FROM unnest($1, $2) u (x, y) JOIN big ON a = x AND b = y FOR UPDATE OF big;
SELECT id, ran(format('EXECUTE change (%L, %L)', a, b)), ran(format('EXECUTE lock (%L, %L)', a, b)), ran(format('EXECUTE remove (%L, %L)', a, b))
	FROM lists WHERE id IN (10, 5000) ORDER BY id;
SELECT count(*), sum(v) FROM big;
ROLLBACK;
BEGIN;
SET LOCAL gpujoin.enabled = off;
SELECT id, ran(format('EXECUTE change (%L, %L)', a, b)), ran(format('EXECUTE lock (%L, %L)', a, b)), ran(format('EXECUTE remove (%L, %L)', a, b))
	FROM lists WHERE id IN (10, 5000) ORDER BY id;
SELECT count(*), sum(v) FROM big;
ROLLBACK;

-- PostgreSQL's loop stays where it is the cheaper one for as many rows as are expected, and in forms whose
-- number of rows is not that of an array
SET gpujoin.setup_cost = 1e6;
SET gpujoin.device_setup_cost = 1e6;
DISCARD PLANS;
SELECT ran('EXECUTE pairs (''{1}'', ''{2}'')');
RESET gpujoin.setup_cost;
RESET gpujoin.device_setup_cost;
PREPARE computed(int[], int[]) AS SELECT * FROM big WHERE (a, b) IN (SELECT unnest($1 || 1), unnest($2 || 2));
SELECT ran('EXECUTE computed (''{1}'', ''{2}'')');
PREPARE filtered(int[]) AS SELECT big.* FROM unnest($1) u (x) JOIN big ON a = x AND b = x WHERE x > 3;
SELECT ran('EXECUTE filtered (''{1}'')');

SET client_min_messages = warning;
DROP SCHEMA join_unknown CASCADE;
