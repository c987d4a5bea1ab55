--
-- Aggregates that a device computes where the index is, and those that are left to the CPU: the
-- answers must be PostgreSQL's own.  Without a device, the CPU computes all of them.
--
CREATE SCHEMA device_reduce;
SET search_path = device_reduce, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET gpujoin.force = on;
SET gpujoin.debug_reduce_rows = 0;

-- sums of c exceed 64 bits; NULLs; a narrow range of values; negative keys
CREATE TABLE facts (id int, k int, a int2, c int8, d date, b bool, f float8, s text)
	WITH (autovacuum_enabled = off);
INSERT INTO facts SELECT i, i % 97 - 7, CASE WHEN i % 7 <> 0 THEN i % 11 - 5 END,
	CASE WHEN i % 5 <> 0 THEN i::int8 * 1000000000000007 - 4500000000000000000 END,
	date '2020-01-01' + i % 400, CASE WHEN i % 3 <> 0 THEN i % 2 = 0 END, i / 16.0, 's' || i % 5
	FROM generate_series(1, 9000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (id, a, c, d, b, f);
CREATE TABLE small (k int8, w int, name text) WITH (autovacuum_enabled = off);
INSERT INTO small SELECT i % 45 - 3, i, CASE WHEN i % 9 <> 0 THEN 'name ' || i % 7 END
	FROM generate_series(1, 60) i;
INSERT INTO small VALUES (NULL, 1, 'never'), (1000, 2, 'without partners');
VACUUM ANALYZE facts, small;
-- without a device this does nothing
SELECT count(gpujoin_load('facts_k')) IS NOT NULL AS tried
FROM (SELECT WHERE EXISTS (SELECT FROM gpujoin_status() WHERE state = 'ready')) d;

-- Return the queries whose answers differ from PostgreSQL's own
CREATE FUNCTION differing(queries text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text;
	answers text[];
	answer text;
BEGIN
	FOREACH q IN ARRAY queries LOOP
		answers := '{}';
		FOR i IN 1 .. 3 LOOP
			PERFORM set_config('gpujoin.device_aggregate', CASE i WHEN 2 THEN 'off' ELSE 'on' END, true);
			PERFORM set_config('gpujoin.enabled', CASE i WHEN 3 THEN 'off' ELSE 'on' END, true);
			EXECUTE format('SELECT string_agg(x::text, E''\n'' ORDER BY x::text) FROM (%s) x', q)
				INTO answer;
			answers := answers || coalesce(answer, 'no rows');
		END LOOP;
		PERFORM set_config('gpujoin.enabled', 'on', true);
		IF answers[1] <> answers[2] OR answers[2] <> answers[3] THEN
			RETURN NEXT q || ': ' || answers::text;
		END IF;
	END LOOP;
END $$;

-- what a device computes: no group, groups by the key, by a column, by columns of the small side
CREATE TABLE queries (q text);
INSERT INTO queries SELECT format('SELECT %s%s FROM %s%s', g || ', ', a, t, ' GROUP BY ' || g)
FROM unnest(ARRAY[NULL, 'f.k', 'f.a', 'f.d', 's.name', 's.k', 'f.k, s.name', 's.w', 'f.b']) g,
	unnest(ARRAY['count(*)', 'count(f.a), sum(f.a), avg(f.a), min(f.a), max(f.a)',
		'count(*), sum(f.c), avg(f.c), min(f.c), max(f.c)', 'sum(f.id), min(f.d), max(f.d), count(f.b)',
		'bool_and(f.b), bool_or(f.b), every(f.b), sum(f.k), avg(f.k)', 'count(DISTINCT f.a)',
		'count(DISTINCT f.d)', 'count(DISTINCT f.c)', 'count(DISTINCT f.k)', 'count(*), count(DISTINCT f.a)',
		'sum(f.f), min(f.f)', 'count(*) FILTER (WHERE f.a > 0)', 'sum(f.id + 1)', 'count(f.s)']) a,
	unnest(ARRAY['facts f WHERE k IN (-7, 0, 1, 2, 50, 89, 500)',
		'facts f WHERE k IN (-7, 0, 1, 2, 50) AND a > 0 AND d >= ''2020-03-01''',
		'facts f WHERE k IN (-7, 0, 1, 2, 50) AND f < 400',
		'facts f WHERE k IN (-7, 0, 1, 2, 50) AND a IN (-5, -3, -1, 1, 2, 3, 4, 5, 6, 7, 8)',
		'facts f WHERE k IN (1, 2) AND id > 10000', 'facts f WHERE k = 12345',
		'small s JOIN facts f USING (k)', 'small s JOIN facts f USING (k) WHERE f.a <> 3',
		'small s JOIN facts f ON f.k = s.k AND f.id > s.w',
		'(SELECT DISTINCT ON (k) * FROM small ORDER BY k, w) s JOIN facts f USING (k)']) t
WHERE t NOT LIKE 'facts%' OR g IS NULL OR g NOT LIKE '%s.%';
-- groups of several columns, with NULLs, and of one whose range is too wide; keys with several
-- partners, whose number is a weight
INSERT INTO queries SELECT format('SELECT %s, %s FROM %s GROUP BY %1$s', g, a, t)
FROM unnest(ARRAY['f.a, f.b', 'f.c', 'f.k, f.a, f.d, f.b', 'f.b, f.c, f.a, f.id', 's.name, f.a',
		's.w, f.b, f.k', 's.name, f.c, f.b, s.k', 'f.a, f.f', 'f.a, f.s', 'f.a + 1, f.b']) g,
	unnest(ARRAY['count(*), sum(f.c), min(f.d)', 'count(f.a), avg(f.a), max(f.c)']) a,
	unnest(ARRAY['facts f WHERE k IN (-7, 0, 1, 2, 50, 89, 500)',
		'facts f WHERE k IN (-7, 0, 1, 2, 50) AND a > 0 AND d >= ''2020-03-01''',
		'small s JOIN facts f USING (k)', 'facts f WHERE k IN (SELECT k FROM small)',
		'(SELECT DISTINCT ON (k) * FROM small ORDER BY k, w) s JOIN facts f USING (k)']) t
WHERE t LIKE '%small s%' OR t LIKE '% s %' OR g NOT LIKE '%s.%' OR g LIKE '%f.s%';
-- distinct rows, and their number
INSERT INTO queries SELECT format(q, c, t)
FROM unnest(ARRAY['SELECT DISTINCT %s FROM %s', 'SELECT count(*) FROM (SELECT DISTINCT %s FROM %s) u',
		'SELECT count(*) FROM (SELECT %s FROM %s GROUP BY %1$s) u',
		'SELECT count(*), sum(a) FROM (SELECT DISTINCT %s AS a FROM %s) u',
		'SELECT y, (SELECT count(*) FROM (SELECT DISTINCT %s FROM %s AND f.id > y * 1000) u)
			FROM generate_series(1, 3) y',
		'SELECT y, u.* FROM generate_series(1, 3) y, LATERAL (SELECT count(*), y + 1 FROM
			(SELECT DISTINCT %s FROM %s) v) u']) q,
	unnest(ARRAY['f.a', 'f.k', 'f.c', 'f.a, f.b', 'f.id, f.a, f.c, f.d', 'f.k, f.d']) c,
	unnest(ARRAY['facts f WHERE k IN (-7, 0, 1, 2, 50, 89, 500)', 'facts f WHERE k = 12345',
		'small s JOIN facts f USING (k) WHERE f.k < 1000', 'facts f WHERE k IN (SELECT k FROM small)']) t
WHERE q NOT LIKE '%sum(a)%' OR c NOT LIKE '%,%';
-- ... of columns of the small side, too: keys of one group are many
INSERT INTO queries SELECT format('SELECT count(*) FROM (SELECT DISTINCT %s FROM small s JOIN facts f USING (k)) u', c)
FROM unnest(ARRAY['s.name', 's.w', 's.name, f.a', 's.name, f.k', 's.name, s.w', 'f.b, s.name, f.d']) c;
SELECT count(*) > 500 AS many FROM queries;
SELECT differing(array_agg(q)) FROM queries;

-- other forms: rescans, HAVING, DISTINCT, semijoins, subqueries, CTEs, cursors, prepared statements
SELECT differing(ARRAY[
	'SELECT x, (SELECT count(*) FROM facts WHERE k IN (x, x + 1)) FROM generate_series(1, 5) x',
	'SELECT x, (SELECT sum(c) FROM facts WHERE k IN (1, 2) AND id > x) FROM generate_series(1, 5) x',
	'SELECT x, u.* FROM generate_series(1, 3) x, LATERAL (SELECT f.k, sum(f.id) FROM small s
		JOIN facts f USING (k) WHERE s.w < x * 10 GROUP BY f.k) u',
	'SELECT x, u.* FROM generate_series(1, 3) x, LATERAL (SELECT s.name, max(f.c) FROM small s
		JOIN facts f USING (k) WHERE f.id < x * 1000 GROUP BY s.name) u',
	'SELECT x, u.* FROM generate_series(1, 3) x, LATERAL (SELECT count(*) + x FROM facts
		WHERE k IN (1, 2)) u',
	'SELECT k FROM facts WHERE k IN (1, 2, 3) GROUP BY k HAVING sum(a) > 0',
	'SELECT DISTINCT k FROM facts WHERE k IN (1, 2, 3)',
	'SELECT DISTINCT a FROM facts WHERE k IN (1, 2, 3)',
	'SELECT DISTINCT a, b FROM facts WHERE k IN (1, 2, 3)',
	'SELECT count(*), sum(c) FROM facts WHERE k IN (SELECT k FROM small)',
	'SELECT a, count(*) FROM facts WHERE k IN (SELECT k FROM small) GROUP BY a',
	'SELECT count(*), sum(c) FROM facts f WHERE EXISTS (SELECT FROM small s WHERE s.k = f.k)',
	'SELECT sum(n) FROM (SELECT k, count(*) AS n FROM facts WHERE k IN (1, 2, 3) GROUP BY k) u',
	'SELECT s.name, count(f.k) FROM small s LEFT JOIN facts f USING (k) GROUP BY s.name',
	'WITH c AS MATERIALIZED (SELECT k, avg(c) FROM facts WHERE k IN (1, 2, 3) GROUP BY k)
		SELECT * FROM c JOIN c d USING (k)',
	'SELECT count(*) FROM facts WHERE k IN (1, NULL)',
	'SELECT count(*) FROM facts WHERE k <> ALL (ARRAY[1, 2])',
	'SELECT count(*), sum(c) FROM facts WHERE (k, a) IN ((1, 2), (2, 3), (3, 70))',
	'SELECT k, count(*) FROM facts WHERE (k, a) IN ((1, 2), (2, 3), (3, 70)) AND d >= ''2020-03-01'' GROUP BY k',
	'SELECT count(*), sum(c) FROM small s JOIN facts f ON f.k = s.k AND f.a = s.w',
	'SELECT s.k, count(*) FROM small s JOIN facts f ON f.k = s.k AND f.a = s.w GROUP BY s.k',
	'SELECT count(*), sum(a) FROM facts WHERE k IN (1, 2) UNION ALL SELECT count(*), sum(a) FROM facts
		WHERE k IN (3, 4)']);

-- the children of an Append: partitions whose columns are in other places, also with pruning while
-- the plan runs, and a UNION ALL
CREATE TABLE parts (k int, id int, a int2, c int8) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (3000);
CREATE TABLE parts_2 (c int8, x text, a int2, id int, k int);
ALTER TABLE parts_2 DROP x;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (3000) TO (6000);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (6000) TO (10000);
CREATE TABLE by_key (LIKE parts) PARTITION BY LIST (k);
CREATE TABLE by_key_1 PARTITION OF by_key FOR VALUES IN (1, 2, 3);
CREATE TABLE by_key_2 PARTITION OF by_key DEFAULT;
INSERT INTO parts SELECT k, id, a, c FROM facts;
INSERT INTO by_key SELECT k, id, a, c FROM facts;
CREATE INDEX ON parts USING gpujoin (k) INCLUDE (id, a, c);
CREATE INDEX ON by_key USING gpujoin (k) INCLUDE (id, a, c);
VACUUM ANALYZE parts, by_key;
SELECT differing(array_agg(format(q, a, t))) FROM unnest(ARRAY['SELECT %s FROM %s',
		'SELECT f.a, %s FROM %s GROUP BY f.a', 'SELECT f.k, %s FROM %s GROUP BY f.k',
		'SELECT f.k, f.a, %s FROM %s GROUP BY f.k, f.a', 'SELECT f.c, %s FROM %s GROUP BY f.c',
		'SELECT y, u.* FROM generate_series(1, 7, 3) y, LATERAL (SELECT %s FROM %s AND f.id > y * 1000) u']) q,
	unnest(ARRAY['count(*), sum(f.c), min(f.id)', 'count(f.a), avg(f.a)', 'count(DISTINCT f.id)']) a,
	unnest(ARRAY['parts f WHERE k IN (-7, 0, 1, 2, 50)', 'by_key f WHERE k IN (-7, 0, 1, 2, 50)',
		'by_key f WHERE k = ANY (ARRAY(SELECT k FROM small))', 'parts f WHERE k IN (SELECT k FROM small)',
		'parts f WHERE k IN (1, 2, 3) AND id > 4000',
		'(SELECT * FROM parts UNION ALL SELECT k, id, a, c FROM facts) f WHERE f.k IN (1, 2, 3)']) t;
SELECT differing(array_agg(format('SELECT count(*) FROM (SELECT DISTINCT %s FROM %s) d', c, t)))
FROM unnest(ARRAY['k', 'a', 'a, k', 'c']) c, unnest(ARRAY['parts', 'by_key WHERE k IN (-7, 0, 1, 2)',
	'parts WHERE k IN (-7, 0, 1, 2)', 'by_key WHERE k = ANY (ARRAY(SELECT k FROM small))']) t;
PREPARE pruned AS SELECT count(*), sum(c), sum(a) FROM by_key WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXECUTE pruned ('{1,2}');
EXECUTE pruned ('{4,5,1}');
RESET plan_cache_mode;

-- keys whose codes do not prove them: hashes, some of which are images of short values, and uuid
CREATE TABLE coded (t text, n numeric, u uuid, a int) WITH (autovacuum_enabled = off);
INSERT INTO coded SELECT CASE WHEN i % 2 = 0 THEN 'k' || i % 50 ELSE 'a long key ' || i % 50 END,
	i % 50 / CASE WHEN i % 2 = 0 THEN 1 ELSE 2.0 END, md5((i % 50)::text)::uuid, i % 7
	FROM generate_series(1, 5000) i;
CREATE INDEX coded_t ON coded USING gpujoin (t) INCLUDE (a);
CREATE INDEX coded_n ON coded USING gpujoin (n) INCLUDE (a);
CREATE INDEX coded_u ON coded USING gpujoin (u) INCLUDE (a);
VACUUM ANALYZE coded;
SELECT differing(array_agg(format(q, c))) FROM unnest(ARRAY['SELECT count(*), sum(a) FROM coded WHERE %s',
		'SELECT a, count(*) FROM coded WHERE %s GROUP BY a', 'SELECT DISTINCT a FROM coded WHERE %s',
		'SELECT count(*) FROM (SELECT DISTINCT a FROM coded WHERE %s) d']) q,
	unnest(ARRAY['t IN (''k2'', ''k4'', ''a long key 3'', ''a long key 31'', ''no key'')',
		't IN (''k2'', ''k4'')', 'n IN (2, 4, 1.5, 10.5, 77)', 'n IN (2, 4)',
		'u IN (md5(''1'')::uuid, md5(''2'')::uuid)',
		'u IN (SELECT md5(i::text)::uuid FROM generate_series(1, 5) i)',
		't IN (SELECT ''k'' || i FROM generate_series(1, 9) i)']) c;

-- rows that are not all-visible, deleted, updated, on tails
INSERT INTO facts SELECT i, i % 97 - 7, i % 11, i, date '2021-06-01', true, 0, 's'
	FROM generate_series(9001, 9100) i;
DELETE FROM facts WHERE id % 13 = 0;
UPDATE facts SET a = a + 1, k = k + 1 WHERE id % 17 = 0;
UPDATE facts SET s = 'hot' WHERE id % 19 = 0;
SELECT differing(array_agg(q ORDER BY q)) FROM queries WHERE hashtext(q) % 6 = 0;
VACUUM facts;
SELECT differing(array_agg(q ORDER BY q)) FROM queries WHERE hashtext(q) % 6 = 1;
BEGIN;
DELETE FROM facts WHERE id % 29 = 0;
INSERT INTO facts SELECT i, i % 97 - 7, i % 11, i FROM generate_series(9101, 9200) i;
SELECT differing(array_agg(q ORDER BY q)) FROM queries WHERE hashtext(q) % 6 = 2;
ROLLBACK;

-- little memory: groups that do not fit are not reduced
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT differing(array_agg(q ORDER BY q)) FROM queries WHERE hashtext(q) % 3 = 0
	AND (q LIKE '%f.d%' OR q LIKE '%s.w%');
RESET work_mem;
RESET hash_mem_multiplier;

-- transactions that must read the heap, cursors, prepared statements with parameters
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(c) FROM facts WHERE k IN (1, 2, 3);
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT k, count(*), sum(c) FROM facts WHERE k IN (1, 2, 3) GROUP BY k ORDER BY k;
FETCH 1 FROM c;
DELETE FROM facts WHERE k = 2;
FETCH ALL FROM c;
ROLLBACK;
PREPARE p (int[], int) AS SELECT count(*), sum(c) FROM facts WHERE k = ANY ($1) AND id > $2;
EXECUTE p ('{1,2,3}', 100);
EXECUTE p ('{1,2,3}', 5000);
EXECUTE p ('{}', 5000);
EXECUTE p (NULL, 5000);

DROP SCHEMA device_reduce CASCADE;
