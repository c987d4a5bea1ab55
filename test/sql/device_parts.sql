--
-- Partitions, and tables of a join, that a device is asked for with the same keys: their answers are
-- added up before groups are made of them.  The groups must be PostgreSQL's own.
--
CREATE SCHEMA device_parts;
SET search_path = device_parts, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET gpujoin.force = on;
SET gpujoin.debug_reduce_rows = 0;

-- Return the queries whose answers differ from PostgreSQL's own, and those that should have the rows
-- of several tables reduced, but have not
CREATE FUNCTION differing(queries text[], reduces bool) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text;
	ours text;
	stock text;
	plan text = '';
	line text;
BEGIN
	FOREACH q IN ARRAY queries LOOP
		EXECUTE format('SELECT string_agg(x::text, E''\n'' ORDER BY x::text) FROM (%s) x', q) INTO ours;
		PERFORM set_config('gpujoin.enabled', 'off', true);
		-- PostgreSQL compares each row with each element of such an array, but hashes rows
		EXECUTE format('SELECT string_agg(x::text, E''\n'' ORDER BY x::text) FROM (%s) x',
			regexp_replace(q, '= ANY \(\(SELECT (.*?) FROM lists\)::\w+\[\]\)', 'IN (SELECT unnest(\1) FROM lists)', 'g'))
			INTO stock;
		PERFORM set_config('gpujoin.enabled', 'on', true);
		IF ours IS DISTINCT FROM stock THEN
			RETURN NEXT q || ': ' || coalesce(ours, 'no rows') || ' instead of ' || coalesce(stock, 'no rows');
		END IF;
		CONTINUE WHEN NOT reduces OR NOT EXISTS (SELECT FROM gpujoin_status() WHERE state = 'ready');
		plan = '';
		FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || q LOOP
			plan = plan || line || E'\n';
		END LOOP;
		IF (SELECT count(*) FROM regexp_matches(plan, 'Device Reductions: 1\n', 'g')) < 2 THEN
			RETURN NEXT q || ': not reduced: ' || plan;
		END IF;
	END LOOP;
END $$;

-- Three partitions with their columns in other places.  Some keys are in one of them only, in two,
-- or in none; minima and maxima are in any of them; all values of a key are NULL in one or in all.
-- Sums of c exceed 64 bits.
CREATE TABLE parts (k int, u uuid, t text, a int2, c int8, d date, b bool, n numeric(10, 2), id int)
	PARTITION BY HASH (id);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE parts_1 (id int, n numeric(10, 2), b bool, d date, c int8, x text, a int2, t text, u uuid, k int);
ALTER TABLE parts_1 DROP x;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parts_2 (t text, c int8, id int, a int2, k int, u uuid, b bool, d date, n numeric(10, 2));
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE TABLE given AS SELECT i AS id, (i * 7919 % 1499 - 700) * 3 AS k,
	CASE WHEN i % 7 <> 0 THEN i % 23 - 11 END AS a,
	CASE WHEN i % 5 <> 0 THEN (i % 9000) * 1000000000000007 - 4500000000000000000 END AS c
FROM generate_series(1::int8, 36000) i;
INSERT INTO parts SELECT k, md5(k::text)::uuid, CASE WHEN k % 2 = 0 THEN 'a long key ' ELSE 'k' END || k,
	CASE WHEN k % 11 <> 0 OR id % 3 = 0 THEN a END, CASE WHEN k % 13 <> 0 THEN c END,
	date '2020-01-01' + (id % 1000)::int, CASE WHEN id % 3 <> 0 THEN id % 2 = 0 END, id / 4.0, id
FROM given;
DELETE FROM parts_0 WHERE k > 1200;
DELETE FROM parts_1 WHERE k BETWEEN 300 AND 600 OR k > 1500;
DELETE FROM parts_2 WHERE k < -1200;
CREATE INDEX ON parts USING gpujoin (k) INCLUDE (a, c, d, b, n, id);
CREATE INDEX ON parts USING gpujoin (u) INCLUDE (a, c, d);
CREATE INDEX ON parts USING gpujoin (t) INCLUDE (a, c);
CREATE TABLE small AS SELECT k, 'name ' || k % 9 AS name, k % 4 AS w FROM given GROUP BY k
	UNION ALL SELECT k, NULL, 77 FROM given WHERE k % 5 = 0 GROUP BY k UNION ALL VALUES (NULL, 'never', 1), (2, 'no', 2);
CREATE TABLE other AS SELECT k, 'name ' || k % 4 AS name, k % 9 AS w FROM given GROUP BY k;
CREATE TABLE lists AS SELECT array_agg(DISTINCT k) AS k, array_agg(DISTINCT md5(k::text)::uuid) AS u,
	array_agg(DISTINCT CASE WHEN k % 2 = 0 THEN 'a long key ' ELSE 'k' END || k) AS t FROM given WHERE k % 4 <> 0;
VACUUM (FREEZE, ANALYZE) parts, small, other;
SELECT count(gpujoin_load(i)) IS NOT NULL AS tried
FROM unnest('{parts_0_k_a_c_d_b_n_id_idx,parts_1_k_a_c_d_b_n_id_idx,parts_2_k_a_c_d_b_n_id_idx,parts_0_u_a_c_d_idx,
	parts_1_u_a_c_d_idx,parts_2_u_a_c_d_idx}'::regclass[]) i
WHERE EXISTS (SELECT FROM gpujoin_status() WHERE state = 'ready');

CREATE TABLE aggs (a text);
INSERT INTO aggs VALUES ('count(*), count(a), sum(a), avg(a), min(a), max(a)'),
	('count(*), sum(c), avg(c), min(c), max(c)'), ('min(d), max(d), sum(c)'), ('count(*)'), ('max(c)');
-- lists of keys, also uuid; groups by the key, and DISTINCT
SELECT differing(array_agg(format('SELECT %s, %s FROM parts WHERE %1$s = ANY ((SELECT %1$s FROM lists)::%3$s[]) GROUP BY %1$s',
	c, a, t)), true) FROM aggs, (VALUES ('k', 'int'), ('u', 'uuid')) v(c, t);
SELECT differing(ARRAY['SELECT DISTINCT k FROM parts WHERE k = ANY ((SELECT k FROM lists)::int[])',
	'SELECT k, bool_and(b), bool_or(b), every(b), sum(k) FROM parts WHERE k = ANY ((SELECT k FROM lists)::int[]) GROUP BY k',
	'SELECT k, sum(c), min(a) FROM parts WHERE k = ANY ((SELECT k FROM lists)::int[]) AND a > 3 AND d < ''2021-06-01'' GROUP BY k'],
	true);
-- joins: the key's rows are groups of each partner, or are weighed; those of several batches
SELECT differing(array_agg(format('SELECT %s, %s FROM %s USING (k) GROUP BY %1$s', g, a, j)), true)
FROM aggs, unnest('{k,name,w,"name, w","k, name"}'::text[]) g, unnest('{small JOIN parts,other JOIN parts}'::text[]) j
WHERE a LIKE CASE WHEN j LIKE 'small%' THEN '%sum%' ELSE '%max(c)' END;
SELECT differing(ARRAY['SELECT k, count(*), sum(c) FROM parts WHERE k IN (SELECT k FROM small) GROUP BY k',
	'SELECT count(*) FROM (SELECT DISTINCT name, k FROM small JOIN parts USING (k)) x'], true);
-- the device weighs keys only in tables whose groups cannot have too many rows
UPDATE pg_class SET reltuples = 2e9 WHERE oid = 'parts_1_k_a_c_d_b_n_id_idx'::regclass;
SELECT differing(array_agg(format('SELECT parts.%s, count(*), sum(c), avg(a) FROM parts JOIN small USING (k) GROUP BY parts.%1$s', g)), true)
FROM unnest('{k,a}'::text[]) g;
ANALYZE parts;
-- joins of different small sides with the same tables have different partners of one key
SELECT differing(array_agg(format('SELECT %s, sum(c), count(*) FROM (SELECT s.k, s.name, s.w, p.c FROM small s JOIN parts_0 p USING (k)
	UNION ALL SELECT s.k, s.name, s.w, p.c FROM other s JOIN parts_1 p USING (k)
	UNION ALL SELECT s.k, s.name, s.w, p.c FROM small s JOIN parts_2 p USING (k)) x GROUP BY %1$s', g)), false)
FROM unnest('{k,name,w,"name, w"}'::text[]) g;
-- the same keys in several tables, and other keys
SELECT differing(ARRAY['SELECT k, count(*), sum(c), min(c) FROM (SELECT k, c FROM parts_1 WHERE k = ANY ((SELECT k FROM lists)::int[])
	UNION ALL SELECT k, c FROM parts_2 WHERE k = ANY ((SELECT k[2:300] FROM lists)::int[])
	UNION ALL SELECT k, c FROM parts_0 WHERE k = ANY ((SELECT k[101:399] FROM lists)::int[])) x GROUP BY k',
	'SELECT k, count(*), max(c) FROM (SELECT k, c FROM parts_1 WHERE k IN (3, 6, 9, 12)
	UNION ALL SELECT k, c FROM parts_2 WHERE k IN (3, 6, 12, 15) UNION ALL SELECT k, c FROM parts_0 WHERE k IN (6, 9, 12, 15)) x GROUP BY k',
	'SELECT u, count(*), max(c) FROM (SELECT u, c FROM parts_1 WHERE u = ANY ((SELECT u[1:900] FROM lists)::uuid[])
	UNION ALL SELECT u, c FROM parts_2 WHERE u = ANY ((SELECT u[101:1000] FROM lists)::uuid[])) x GROUP BY u'], true);
-- left to the CPU: numerics, and texts whose codes are hashes
SELECT differing(ARRAY['SELECT k, sum(n), avg(n), max(n) FROM parts WHERE k = ANY ((SELECT k FROM lists)::int[]) GROUP BY k',
	'SELECT t, count(*), sum(c) FROM parts WHERE t = ANY ((SELECT t FROM lists)::text[]) GROUP BY t',
	'SELECT n, count(*) FROM parts WHERE k = ANY ((SELECT k FROM lists)::int[]) GROUP BY n'], false);
-- executed several times, with other keys
SELECT differing(ARRAY['SELECT x, p.* FROM generate_series(1, 2) x, LATERAL (SELECT k, count(*), sum(c) FROM parts
	WHERE k = ANY ((SELECT k[x * 100:x * 150] FROM lists)::int[]) GROUP BY k) p',
	'SELECT x, p.* FROM generate_series(1, 2) x, LATERAL (SELECT name, count(*), sum(c) FROM small JOIN parts USING (k)
	WHERE parts.a < x GROUP BY name) p'], false);
-- one key with many partners does not keep a device from reducing the others' rows; nor does little
-- memory, which suffices for the groups of one answer: others have the same ones
CREATE TABLE many AS SELECT * FROM small UNION ALL SELECT 3, 'many ' || i, i FROM generate_series(1, 9000) i;
ANALYZE many;
SET work_mem = '16MB';
SET hash_mem_multiplier = 1;
SELECT differing(ARRAY['SELECT name, count(*), sum(a) FROM many JOIN parts USING (k) GROUP BY name',
	'SELECT k, w, max(c) FROM many JOIN parts USING (k) GROUP BY k, w'], true);
SET work_mem = '430kB';
SELECT differing(ARRAY['SELECT k, count(*), sum(a) FROM parts WHERE k = ANY ((SELECT k FROM lists)::int[]) GROUP BY k'], true);
-- little memory: answers that are too large to be added up, groups that do not fit, and a small side
-- of several batches
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT differing(array_agg(format('SELECT %s, %s FROM %s GROUP BY %1$s', g, a, j)), false)
FROM aggs, unnest('{k,c}'::text[]) g, unnest('{parts WHERE k = ANY ((SELECT k FROM lists)::int[]),small JOIN parts USING (k)}'::text[]) j;
RESET work_mem;
RESET hash_mem_multiplier;

-- rows that the device cannot have, or must leave out
INSERT INTO parts SELECT k, md5(k::text)::uuid, 'k' || k, 1, 5, NULL, NULL, 1, id FROM given WHERE id % 100 = 0;
INSERT INTO parts SELECT NULL, NULL, NULL, 1, 5, NULL, NULL, 1, id FROM given WHERE id % 1000 = 0;
DELETE FROM parts WHERE id % 17 = 0;
UPDATE parts SET k = k + 3, c = -c WHERE id % 19 = 0;
SELECT differing(array_agg(format('SELECT %s, %s FROM parts WHERE %1$s = ANY ((SELECT %1$s FROM lists)::%3$s[]) GROUP BY %1$s',
	c, a, t)), false) FROM aggs, (VALUES ('k', 'int'), ('u', 'uuid')) v(c, t);
SELECT differing(array_agg(format('SELECT %s, %s FROM small JOIN parts USING (k) GROUP BY %1$s', g, a)), false)
FROM aggs, unnest('{k,name,w,"name, w"}'::text[]) g;

DROP SCHEMA device_parts CASCADE;
