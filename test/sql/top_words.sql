-- ORDER BY ... LIMIT by numeric and uuid columns.  Numerics that the index could not store are read
-- from the table, and come at their places.
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/top.sql
CREATE TABLE sale (gone int, id int, k int, amount numeric(12,2), rate numeric, whole numeric(30), u uuid, v uuid, day date, body text)
	WITH (autovacuum_enabled = off);
ALTER TABLE sale DROP gone;
CREATE FUNCTION sell(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sale SELECT i, i * 7919 % 200,
		CASE i % 61 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 9999999999.99 ELSE (i * 31 % 997 - 400) / 100.0 END,
		CASE i % 47 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 'inf' WHEN 3 THEN '-inf' WHEN 4 THEN 1.5 WHEN 5 THEN 1.500
			WHEN 6 THEN 1.505 WHEN 7 THEN 1.5050001 WHEN 8 THEN -1.505 WHEN 9 THEN -1.5049 WHEN 10 THEN 1e40 WHEN 11 THEN 1e40 + 1e-40
			WHEN 12 THEN -1e40 WHEN 13 THEN 0.000 WHEN 14 THEN 0.001 WHEN 15 THEN -0.001 WHEN 16 THEN 1.50501 WHEN 17 THEN 46116860184273879.04
			WHEN 18 THEN -46116860184273879.04 WHEN 19 THEN -46116860184273879.03 WHEN 20 THEN 1e-300 WHEN 21 THEN 46116860184273879.03
			WHEN 22 THEN 46116860184273879.035 WHEN 23 THEN i ELSE round(i * 31 % 997 / 100.0 - 4, 2) END,
		CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN 10::numeric ^ 29 - i % 3 ELSE i % 100 - 50 END,
		CASE WHEN i % 17 > 0 THEN md5((i % 1000)::text)::uuid END,
		('00000000-0000-0000-' || CASE WHEN i % 3 = 0 THEN 'ffff' ELSE '0001' END || '-' || lpad(to_hex(i % 40), 12, '0'))::uuid,
		date '2020-01-01' + i % 40, 'sale ' || i
	FROM generate_series(first, last) i;
$$;
SELECT sell(1, 20000);
CREATE INDEX sale_k ON sale USING gpujoin (k) INCLUDE (id, amount, rate, whole, u, v, day);
ANALYZE sale;
SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT * FROM sale WHERE k IN (1, 2, 3) ORDER BY amount DESC, u, id LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM sale WHERE k IN (1, 2, 3) ORDER BY u DESC NULLS LAST, rate NULLS FIRST, k LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM sale WHERE k IN (1, 2, 3) ORDER BY amount + 1 LIMIT 5;

-- each column, both directions, NULLs at both ends; the id breaks ties
CREATE FUNCTION top_words(directions text[] DEFAULT '{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}') RETURNS TABLE (column_name text, ordering text, heap text, entries text, filtered text, second text)
LANGUAGE plpgsql AS $$
BEGIN
	FOR column_name, ordering IN
		SELECT c, o FROM unnest('{amount,rate,whole,u,v}'::text[]) c,
			unnest(directions) o
	LOOP
		heap := top_same(format('SELECT * FROM sale WHERE k IN (3, 5, 7, 9, 150) ORDER BY %s %s, id LIMIT 60', column_name, ordering));
		entries := top_same(format('SELECT id, %1$s FROM sale WHERE k IN (3, 5, 7, 9, 150) ORDER BY %1$s %2$s, id DESC LIMIT 300', column_name, ordering));
		filtered := top_same(format('SELECT id, %1$s FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) AND (rate > 1.5 OR day < ''2020-01-20'' OR u IS NULL)
			ORDER BY %1$s %2$s, id DESC LIMIT 700', column_name, ordering));
		second := top_same(format('SELECT id, day, rate FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) ORDER BY day DESC, %1$s %2$s, rate, u, id LIMIT 700', column_name, ordering));
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM top_words() WHERE column_name IN ('rate', 'u') OR heap || entries || filtered || second LIKE '%wrong%';
VACUUM (ANALYZE) sale;
SELECT count(*), count(*) FILTER (WHERE heap LIKE '%wrong%' OR entries LIKE '%wrong%' OR filtered LIKE '%wrong%' OR second LIKE '%wrong%') AS wrong FROM top_words();

-- rows without a value of their own column are read from the table, of others only those returned
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id, u FROM sale WHERE k IN (1, 2, 3) ORDER BY u, id LIMIT 5');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id, amount FROM sale WHERE k IN (1, 2, 3) ORDER BY amount DESC, id LIMIT 8');

-- more rows than were sorted at first, all of them, and again
SELECT top_same('SELECT id, rate FROM sale WHERE k IN (1, 2, 3) ORDER BY rate DESC, id DESC LIMIT 7 OFFSET 200');
SELECT top_same('SELECT * FROM sale WHERE k = 77 ORDER BY rate, id DESC OFFSET 90 LIMIT 100');
SELECT top_same('SELECT id, whole FROM sale WHERE k = 12345 ORDER BY whole LIMIT 3');
SELECT top_same('SELECT id, rate, u FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 39))) ORDER BY rate, u DESC, id LIMIT (SELECT 100000)');
SELECT top_same('SELECT id, rate, body FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 39))) ORDER BY rate DESC NULLS LAST, id LIMIT (SELECT 100000)');
SELECT top_same('SELECT id, u FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 39))) ORDER BY u, id DESC LIMIT (SELECT 100000)');
-- too many rows without a value for the memory: all are sorted
SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
SELECT top_same('SELECT id, rate FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) ORDER BY rate DESC, id DESC LIMIT 50');
SELECT top_same('SELECT * FROM sale WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) ORDER BY rate, u, id DESC LIMIT 50');
RESET work_mem; RESET hash_mem_multiplier;

-- rescans with other keys and filters, and rows with a NULL key
SELECT top_same('SELECT d, s.* FROM generate_series(1, 30, 7) d, LATERAL (SELECT id, rate FROM sale WHERE k IN (1, 2, 3, 4) AND day > date ''2020-01-01'' + d ORDER BY rate DESC, id LIMIT 5) s');
SELECT top_same('SELECT d, s.* FROM generate_series(1, 30, 7) d, LATERAL (SELECT id, rate, u FROM sale WHERE k = ANY (ARRAY[d, d + 1]) ORDER BY rate, u, id LIMIT 5) s');
UPDATE sale SET k = NULL WHERE id % 100 = 0;
CREATE FUNCTION some_keys() RETURNS int[] LANGUAGE plpgsql STABLE AS
	$$BEGIN RETURN array_append(array(SELECT generate_series(0, 50)), NULL); END$$;
SELECT ordering, top_same(format('SELECT id, rate, u FROM sale WHERE k = ANY (some_keys()) OR (k IS NULL AND array_position(some_keys(), NULL) IS NOT NULL) ORDER BY %s LIMIT 40', ordering))
FROM unnest('{"rate DESC, id","u, rate, id","u DESC NULLS LAST, id"}'::text[]) ordering;

-- changes: rows that are not in the index's runs, that are dead, and that other snapshots see
SELECT sell(20001, 20100);
UPDATE sale SET rate = 7.125 WHERE id % 50 = 1;
UPDATE sale SET body = 'x' WHERE id % 50 = 2;
DELETE FROM sale WHERE id % 11 = 0;
SELECT count(*), count(*) FILTER (WHERE heap LIKE '%wrong%' OR entries LIKE '%wrong%' OR filtered LIKE '%wrong%' OR second LIKE '%wrong%') AS wrong FROM top_words('{ASC NULLS FIRST,DESC}');
VACUUM sale;
SELECT gpujoin_fold('sale_k') IS NOT NULL AS folded;
SELECT count(*), count(*) FILTER (WHERE heap LIKE '%wrong%' OR entries LIKE '%wrong%' OR filtered LIKE '%wrong%' OR second LIKE '%wrong%') AS wrong FROM top_words('{ASC NULLS FIRST,DESC}');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT top_same('SELECT id, rate FROM sale WHERE k IN (1, 2, 3) ORDER BY rate DESC, id LIMIT 20');
COMMIT;

-- the file is kept when the scale becomes free, and values of other scales arrive
SELECT pg_relation_filenode('sale_k') AS node \gset
ALTER TABLE sale ALTER amount TYPE numeric;
SELECT pg_relation_filenode('sale_k') = :node AS kept;
UPDATE sale SET amount = amount / 3 WHERE id % 7 = 0;
SELECT top_same('SELECT id, amount FROM sale WHERE k IN (1, 2, 3) ORDER BY amount DESC, id LIMIT 50');
SELECT top_same('SELECT id, amount FROM sale WHERE k IN (1, 2, 3) ORDER BY amount, id LIMIT 50');

-- min and max, partitions, joins
SELECT top_same('SELECT min(rate), max(rate), min(u::text) FROM sale WHERE k IN (1, 2, 3)');
CREATE TABLE part (k int, amount numeric(12,2), u uuid) PARTITION BY HASH (k);
CREATE TABLE part_0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO part SELECT k, amount, u FROM sale WHERE k IS NOT NULL;
CREATE INDEX part_k ON part USING gpujoin (k) INCLUDE (amount, u);
VACUUM ANALYZE part;
SELECT top_same('SELECT amount, u FROM part WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) ORDER BY amount DESC, u LIMIT 30');
SELECT top_same('SELECT amount, u FROM part WHERE k IN (1, 2, 3, 4) ORDER BY u DESC NULLS LAST, amount LIMIT 30');
DROP TABLE sale, part;

-- the key is in INCLUDE, too: where its codes have no order, rows are ordered by that column
CREATE FUNCTION hash_seven(int8, int8) RETURNS int8 IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT $1 % 7 * 1000 + $2';
CREATE OPERATOR CLASS seven_ops FOR TYPE int8 USING gpujoin AS OPERATOR 1 =, FUNCTION 2 hash_seven(int8, int8), STORAGE int8;
CREATE TABLE twice (i int8, n numeric, u uuid, v int) WITH (autovacuum_enabled = off);
INSERT INTO twice SELECT i * 7919 % 300, CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN 1e40 + i ELSE i * 31 % 997 / 4.0 END,
	md5((i % 1000)::text)::uuid, i % 10 FROM generate_series(1, 3000) i;
CREATE FUNCTION ends_twice(key text, class text) RETURNS TABLE (answer text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE INDEX twice_key ON twice USING gpujoin (%1$I %2$s) INCLUDE (v, %1$I)', key, class);
	FOR answer IN SELECT replace(q, '#', key) FROM unnest('{SELECT # FROM twice WHERE # IS NOT NULL AND v NOT IN (6\, 9) ORDER BY # LIMIT 30,
		SELECT #\, v FROM twice WHERE # = ANY (ARRAY(SELECT # FROM twice WHERE v < 3)) ORDER BY # DESC NULLS LAST\, v LIMIT 40}'::text[]) q
	LOOP
		answer := top_same(answer);
		RETURN NEXT;
	END LOOP;
	DROP INDEX twice_key;
END $$;
SELECT key, class, answer FROM (VALUES ('i', 'seven_ops'), ('i', ''), ('n', ''), ('u', '')) c (key, class), ends_twice(key, class);
VACUUM ANALYZE twice;
SELECT key, class, answer FROM (VALUES ('i', 'seven_ops'), ('i', ''), ('n', ''), ('u', '')) c (key, class), ends_twice(key, class);
DROP TABLE twice CASCADE;
