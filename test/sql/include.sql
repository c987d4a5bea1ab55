-- INCLUDE columns: stored with their NULLs in every entry, compared with the table by
-- gpujoin_check(); everything else that uses the index works as without them.
CREATE TYPE inc_mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN inc_small AS int2 CHECK (VALUE < 1000);
CREATE TABLE inc (id int, k int, b bool, c "char", i2 int2, i8 int8, f4 float4, f8 float8,
	d date, ts timestamp, tz timestamptz, o oid, m inc_mood, s inc_small, t text)
	WITH (autovacuum_enabled = off);
CREATE FUNCTION inc_fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO inc SELECT i, i % 500, i % 2 = 0, chr(65 + i % 26)::"char", (i % 300)::int2,
		i * 10000000000, i / 3.0, -i / 7.0, '2000-01-01'::date + i,
		'2000-01-01'::timestamp + i * interval '1 min',
		'2000-01-01 UTC'::timestamptz + i * interval '1 s', i,
		(ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::inc_mood, (i % 999)::inc_small, repeat('x', i % 9)
	FROM generate_series(first, last) i;
	INSERT INTO inc (id, k) SELECT i, i % 500 FROM generate_series(first, last, 7) i;
	INSERT INTO inc (id, k, b, f8, o) SELECT i, i % 500, true, 'NaN', i
	FROM generate_series(first, last, 11) i;
$$;
SELECT inc_fill(1, 3000);
INSERT INTO inc VALUES
	(0, 7, false, '', -32768, -9223372036854775808, '-0', '-Infinity', '-infinity', '-infinity',
		'-infinity', 0, 'sad', -32768, ''),
	(0, 7, true, '\377', 32767, 9223372036854775807, 'NaN', 'Infinity', 'infinity', 'infinity',
		'infinity', 4294967295, 'happy', 998, '');
INSERT INTO inc (id, b) VALUES (-1, true);		-- NULL key: no entry
CREATE INDEX inc_all ON inc USING gpujoin (k)
	INCLUDE (b, c, i2, i8, f4, f8, d, ts, tz, o, m, s, id) WITH (lanes = 2);
CREATE INDEX inc_one ON inc USING gpujoin (i8) INCLUDE (b);
CREATE INDEX inc_key ON inc USING gpujoin (k) INCLUDE (k);
CREATE INDEX inc_expr ON inc USING gpujoin ((k + id)) INCLUDE (id, k) WHERE id % 2 = 0;
CREATE INDEX inc_none ON inc USING gpujoin (k);
SELECT pg_get_indexdef('inc_all'::regclass);

-- pages have fewer slots as columns are added
SELECT c.relname, gpujoin_check(c.oid, true) > 0 AS complete, i.key_width, i.slots_per_page,
	i.included_columns, i.format_version
FROM pg_class c, gpujoin_index_info(c.oid) i
WHERE c.relname LIKE 'inc\__%' AND c.relkind = 'i' ORDER BY 1;
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;

-- inserted: through tails, and from there into data pages
SELECT inc_fill(3001, 3020);
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
SELECT inc_fill(3021, 6000);
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;

-- an update of an included column creates a new entry (no HOT), one of another column need not
CREATE FUNCTION inc_entries() RETURNS bigint LANGUAGE sql AS $$ SELECT gpujoin_check('inc_all') $$;
SELECT inc_entries() AS before \gset
UPDATE inc SET b = NOT b WHERE id % 10 = 3 AND b IS NOT NULL;
SELECT inc_entries() - :before = count(*) AS new_entries FROM inc WHERE id % 10 = 3 AND b IS NOT NULL;
SELECT gpujoin_check('inc_all', true) > 0 AS complete;
UPDATE inc SET f8 = NULL, d = '2020-02-02' WHERE id % 10 = 4;
DELETE FROM inc WHERE id % 6 = 0;
VACUUM inc;
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
SELECT gpujoin_check('inc_expr', true) = count(*) AS complete FROM inc WHERE id % 2 = 0;
SELECT inc_fill(6001, 8000);
UPDATE inc SET i8 = i8 + 1, c = 'z' WHERE id % 10 = 5;
VACUUM inc;
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
SELECT gpujoin_check('inc_one', true) = count(*) AS complete FROM inc;

-- queries by key only
SELECT count(*), sum(id) FROM inc WHERE k IN (3, 33, 333, 499);
SET gpujoin.force = on;
SELECT count(*), sum(id) FROM inc WHERE k IN (3, 33, 333, 499);
SELECT count(*), sum(id) FROM generate_series(1, 400, 57) x JOIN inc ON k = x;
SET gpujoin.enabled = off;
SELECT count(*), sum(id) FROM generate_series(1, 400, 57) x JOIN inc ON k = x;
RESET gpujoin.enabled;
RESET gpujoin.force;

-- the life of an index
REINDEX INDEX inc_all;
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
REINDEX INDEX CONCURRENTLY inc_all;
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
DROP INDEX inc_all;
CREATE INDEX CONCURRENTLY inc_all ON inc USING gpujoin (k) INCLUDE (f8, c, i8);
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
ALTER TABLE inc ALTER c TYPE int4 USING ascii(c::text);
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
ALTER TABLE inc ADD late int2 DEFAULT 17;
CREATE INDEX inc_late ON inc USING gpujoin (k) INCLUDE (late, b);
SELECT gpujoin_check('inc_late', true) = count(*) AS complete FROM inc;
ALTER TABLE inc DROP b;
SELECT to_regclass('inc_late') IS NULL AS gone_with_its_column;
VACUUM FULL inc;
SELECT gpujoin_check('inc_all', true) = count(*) AS complete FROM inc;
TRUNCATE inc;
SELECT gpujoin_check('inc_all', true);
INSERT INTO inc (k, f8, c, i8) SELECT i, i, i, i FROM generate_series(1, 100) i;
SELECT gpujoin_check('inc_all', true);
CREATE UNLOGGED TABLE inc_loose (k int, v int8, w bool);
CREATE INDEX inc_loose_k ON inc_loose USING gpujoin (k) INCLUDE (v, w);
INSERT INTO inc_loose SELECT i, i, i % 3 = 0 FROM generate_series(1, 5000) i;
SELECT gpujoin_check('inc_loose_k', true);
ALTER TABLE inc_loose SET LOGGED;
SELECT gpujoin_check('inc_loose_k', true);
CREATE TEMP TABLE inc_temp (k int, v int8, w bool);
CREATE INDEX inc_temp_k ON inc_temp USING gpujoin (k) INCLUDE (w, v);
INSERT INTO inc_temp SELECT i, i, i % 3 = 0 FROM generate_series(1, 5000) i;
SELECT gpujoin_check('inc_temp_k', true);
CREATE TABLE inc_part (k int, v int8, w bool) PARTITION BY RANGE (k);
CREATE TABLE inc_part_1 PARTITION OF inc_part FOR VALUES FROM (0) TO (1000);
CREATE INDEX inc_part_k ON inc_part USING gpujoin (k) INCLUDE (w, v);
CREATE TABLE inc_part_2 (w bool, k int, v int8);
INSERT INTO inc_part_2 SELECT i % 5 = 0, i, i FROM generate_series(1000, 1999) i;
ALTER TABLE inc_part ATTACH PARTITION inc_part_2 FOR VALUES FROM (1000) TO (2000);
INSERT INTO inc_part SELECT i, i, i % 5 = 0 FROM generate_series(0, 1999) i;
SELECT relid, gpujoin_check(relid, true) FROM pg_partition_tree('inc_part_k') WHERE isleaf ORDER BY 1;

-- the maximum number of columns, and one more
DO $$
DECLARE
	list text := (SELECT string_agg('c' || i, ', ' ORDER BY i) FROM generate_series(1, 31) i);
BEGIN
	EXECUTE 'CREATE TABLE inc_wide (k int8, ' || replace(list, ',', ' int8,') || ' int8)';
	EXECUTE 'INSERT INTO inc_wide (k, c1, c29) SELECT i, i, -i FROM generate_series(1, 500) i';
	EXECUTE 'CREATE INDEX inc_wide_29 ON inc_wide USING gpujoin (k) INCLUDE ('
		|| substr(list, 1, strpos(list, ', c30') - 1) || ')';
END $$;
INSERT INTO inc_wide (k, c2, c28) SELECT i, i, -i FROM generate_series(501, 1000) i;
SELECT gpujoin_check('inc_wide_29', true), slots_per_page, included_columns
FROM gpujoin_index_info('inc_wide_29');
DELETE FROM inc_wide WHERE k % 3 = 0;
VACUUM inc_wide;
INSERT INTO inc_wide (k, c2, c28) SELECT i, i, -i FROM generate_series(1001, 1300) i;
SELECT gpujoin_check('inc_wide_29', true) = count(*) AS complete FROM inc_wide;
CREATE INDEX inc_wide_30 ON inc_wide USING gpujoin (k) INCLUDE (c1, c2, c3, c4, c5, c6, c7, c8, c9,
	c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23, c24, c25, c26, c27, c28,
	c29, c30);
CREATE INDEX inc_wide_31 ON inc_wide USING gpujoin (k) INCLUDE (c1, c2, c3, c4, c5, c6, c7, c8, c9,
	c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23, c24, c25, c26, c27, c28,
	c29, c30, c31);

-- types that are not stored
CREATE TABLE inc_bad (k int, t bytea, n timetz, v interval, a int[], x name);
CREATE INDEX inc_bad_t ON inc_bad USING gpujoin (k) INCLUDE (t);
\set VERBOSITY terse
CREATE INDEX inc_bad_n ON inc_bad USING gpujoin (k) INCLUDE (k, n);
CREATE INDEX inc_bad_v ON inc_bad USING gpujoin (k) INCLUDE (v);
CREATE INDEX inc_bad_a ON inc_bad USING gpujoin (k) INCLUDE (a);
CREATE INDEX inc_bad_x ON inc_bad USING gpujoin (k) INCLUDE (x);
CREATE UNLOGGED TABLE inc_bad_loose (k int, t bytea);
CREATE INDEX inc_bad_loose_t ON inc_bad_loose USING gpujoin (k) INCLUDE (t);
SELECT count(*) FROM pg_class WHERE relname LIKE 'inc\_bad%' AND relkind = 'i';

DROP TABLE inc, inc_loose, inc_temp, inc_part, inc_wide, inc_bad, inc_bad_loose;
DROP FUNCTION inc_fill(int, int), inc_entries();
DROP TYPE inc_mood;
DROP DOMAIN inc_small;
