--
-- Estimates of long lists: those of PostgreSQL, though not made from its statistics constant by constant
--
CREATE SCHEMA list_stats;
SET search_path = list_stats, public;
SET max_parallel_workers_per_gather = 0;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql

-- Whether the estimated rows of a query and of its scans are equal with gpujoin and without; "query"
-- has %s for the list
CREATE FUNCTION estimates(query text, list text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	rows_of text[];
BEGIN
	FOR i IN 0..1 LOOP
		PERFORM set_config('gpujoin.enabled', (i = 0)::text, true);
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || format(query, list) INTO plan;
		rows_of[i] := jsonb_path_query_array(plan, 'strict $[0].Plan."Plan Rows"')::text || ' of '
			|| jsonb_path_query_array(plan, 'strict $.**?(@."Relation Name" != "" && @."Plan Rows" > 0)."Plan Rows"')::text;
	END LOOP;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	RETURN CASE WHEN rows_of[0] = rows_of[1] THEN 'equal' ELSE rows_of[1] || ', gpujoin: ' || rows_of[0] END;
END $$;

-- 40 common values, the fourth part is NULL
CREATE TABLE big (k bigint, t text, c varchar, n numeric, u int UNIQUE, other int);
INSERT INTO big SELECT k, 'text ' || k, 'text ' || k, k, i, i % 10 FROM (
	SELECT i, CASE WHEN i % 4 > 0 THEN CASE WHEN i % 3 = 0 THEN i % 41 ELSE i END END AS k FROM generate_series(1, 20000) i) i;
CREATE INDEX ON big USING gpujoin (k);
CREATE INDEX ON big USING gpujoin (t);
CREATE INDEX ON big USING gpujoin (c);
CREATE INDEX ON big USING gpujoin (n);
CREATE INDEX ON big USING gpujoin (u);
-- The cost estimates of btree and BRIN ask for statistics, too
CREATE INDEX ON big (k);
CREATE INDEX ON big USING brin (k);
ANALYZE big;
SELECT attname, array_length(most_common_freqs, 1) > 30 AS common FROM pg_stats WHERE schemaname = 'list_stats' AND attname IN ('k', 't') ORDER BY 1;

SELECT string_agg(i::text, ',') AS few FROM generate_series(1, 20) i \gset
SELECT string_agg(i::text, ',') AS mixed, string_agg('"text ' || i || '"', ',') AS texts FROM generate_series(1, 500) i \gset
SELECT string_agg(i::text, ',') AS rare FROM generate_series(1000, 1500) i \gset
SELECT string_agg(i::text, ',') AS absent FROM generate_series(100000, 100500) i \gset
SELECT string_agg((i % 50)::text, ',') AS repeated FROM generate_series(1, 500) i \gset
SELECT string_agg((i % 41)::text, ',') AS above_one FROM generate_series(1, 5000) i \gset

SELECT name, estimates('SELECT * FROM big WHERE k = ANY (''{%s}'')', list) FROM (VALUES ('few', :'few'), ('mixed', :'mixed'),
	('rare', :'rare'), ('absent', :'absent'), ('repeated', :'repeated'), ('above one', :'above_one'),
	('with NULL', :'mixed' || ',NULL'), ('NULL', repeat('NULL,', 99) || 'NULL')) v(name, list);
SELECT estimates('SELECT * FROM big WHERE k IN (%s)', :'mixed');
-- The array that is made of constants is PostgreSQL's: with NULL, with a length, of texts, of a cast
SELECT estimates('SELECT * FROM big WHERE k IN (NULL, %s)', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k::numeric IN (%s, 1.5)', :'mixed');
SELECT string_agg(quote_literal('text ' || i), ',') AS literals FROM generate_series(1, 500) i \gset
SELECT estimates('SELECT * FROM big WHERE t IN (%s)', :'literals');
SELECT estimates('SELECT * FROM big WHERE c IN (%s)', :'literals');
SELECT query, a.* FROM (VALUES
	('SELECT * FROM big WHERE k IN (NULL, %s)', :'mixed'), ('SELECT * FROM big WHERE k NOT IN (NULL, %s)', :'mixed'),
	('SELECT * FROM big WHERE k NOT IN (%s)', :'mixed'), ('SELECT * FROM big WHERE k::numeric IN (%s, 1.5)', :'mixed'),
	('SELECT * FROM big WHERE t IN (%s)', :'literals'), ('SELECT * FROM big WHERE c IN (NULL, %s)', :'literals'),
	('SELECT * FROM big WHERE k IN (%s) OR t IN (''text 3'', ''text 600'')', :'mixed')) v(query, list), answers(format(query, list)) a;
SELECT estimates('SELECT * FROM big WHERE NOT k = ANY (''{%s}'')', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k <> ALL (''{%s}'')', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%s}''::int4[])', :'mixed');
SELECT estimates('SELECT * FROM big WHERE t = ANY (''{%s}'')', :'texts');
SELECT estimates('SELECT * FROM big WHERE t COLLATE "POSIX" = ANY (''{%s}'')', :'texts');
SELECT estimates('SELECT * FROM big WHERE c = ANY (''{%s}'')', :'texts');
SELECT estimates('SELECT * FROM big WHERE n = ANY (''{%s}'')', :'mixed');
SELECT estimates('SELECT * FROM big WHERE u = ANY (''{%s}'')', :'mixed');
-- Other conditions, of other columns and of the same one, before and after the list
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%s}'') AND other = 3', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k = 7 AND k = ANY (''{%s}'')', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%s}'') AND k > 300', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%1$s}'') AND k = ANY (''{%1$s}'')', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%s}'') AND t = ANY (''{' || :'texts' || '}'')', :'mixed');
-- What is estimated later: joins, groups, and a table twice
SELECT estimates('SELECT k, count(*) FROM big WHERE k = ANY (''{%s}'') GROUP BY k', :'mixed');
SELECT estimates('SELECT * FROM big a JOIN big b ON a.k = b.other WHERE a.k = ANY (''{%s}'')', :'mixed')
	~ '^equal|^.(\d+). of .* gpujoin: .\1. of' AS equal;
SELECT estimates('SELECT * FROM big a JOIN big b USING (other) WHERE a.k = ANY (''{%s}'') AND (a.k = 5 OR b.k = 6)', :'mixed');
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%s}'') UNION ALL SELECT * FROM big WHERE k = 5', :'mixed');

-- Extended statistics, and none
CREATE STATISTICS big_stats ON k, other FROM big;
ANALYZE big;
SELECT estimates('SELECT * FROM big WHERE k = ANY (''{%s}'') AND other = 3', :'mixed');
DROP STATISTICS big_stats;
CREATE TABLE unknown (k int);
CREATE INDEX ON unknown USING gpujoin (k);
SELECT estimates('SELECT * FROM unknown WHERE k = ANY (''{%s}'')', :'mixed');

-- Partitions and children have statistics of their own
CREATE TABLE parts (k int, v int) PARTITION BY RANGE (v);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (5000);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5000) TO (10000);
INSERT INTO parts SELECT CASE WHEN i % 2 = 0 THEN i % 97 ELSE i / 5 END, i FROM generate_series(0, 9999) i;
CREATE INDEX ON parts USING gpujoin (k);
ANALYZE parts;
SELECT estimates('SELECT * FROM parts WHERE k = ANY (''{%s}'')', :'mixed');
CREATE TABLE parent (k int);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT i % 50 FROM generate_series(1, 2000) i;
INSERT INTO child SELECT i % 500 FROM generate_series(1, 2000) i;
CREATE INDEX ON parent USING gpujoin (k);
CREATE INDEX ON child USING gpujoin (k);
ANALYZE parent, child;
SELECT estimates('SELECT * FROM parent WHERE k = ANY (''{%s}'')', :'mixed');

-- The common values are not compared with each constant: with PostgreSQL's estimate, the function
-- of "=" is called for all pairs of them
SET client_min_messages = warning;	-- for types that are only shells
CREATE TYPE counted;
CREATE FUNCTION counted_in(cstring) RETURNS counted IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION counted_out(counted) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'int4out';
CREATE TYPE counted (INPUT = counted_in, OUTPUT = counted_out, LIKE = int4);
RESET client_min_messages;
CREATE CAST (counted AS int4) WITHOUT FUNCTION;
CREATE CAST (int4 AS counted) WITHOUT FUNCTION;
CREATE SEQUENCE calls;
CREATE FUNCTION counted_eq(counted, counted) RETURNS bool LEAKPROOF STRICT LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''list_stats.calls''); RETURN $1::int4 = $2::int4; END';
CREATE FUNCTION counted_hash(counted) RETURNS int4 IMMUTABLE STRICT LANGUAGE internal AS 'hashint4';
CREATE FUNCTION counted_key(counted) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::int4::int8';
CREATE OPERATOR = (FUNCTION = counted_eq, LEFTARG = counted, RIGHTARG = counted, COMMUTATOR = =, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES);
CREATE OPERATOR CLASS counted_hash_ops DEFAULT FOR TYPE counted USING hash AS OPERATOR 1 =, FUNCTION 1 counted_hash(counted);
CREATE OPERATOR CLASS counted_ops DEFAULT FOR TYPE counted USING gpujoin AS OPERATOR 1 =, FUNCTION 1 counted_key(counted), STORAGE int8;
CREATE TABLE counts (k counted);
INSERT INTO counts SELECT (i % 50)::counted FROM generate_series(1, 500) i;
INSERT INTO counts SELECT i::counted FROM generate_series(1000, 1500) i;
ANALYZE counts;
CREATE INDEX ON counts USING gpujoin (k);
CREATE FUNCTION count_calls(enabled text, list text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	before bigint := nextval('calls');
BEGIN
	PERFORM set_config('gpujoin.enabled', enabled, true);
	EXECUTE format('EXPLAIN SELECT * FROM counts WHERE k = ANY (''{%s}'')', list);
	PERFORM set_config('gpujoin.enabled', 'on', true);
	RETURN nextval('calls') - before - 1;
END $$;
SELECT estimates('SELECT * FROM counts WHERE k = ANY (''{%s}'')', :'mixed');
SELECT count_calls('on', :'mixed') < 200 AS ours, count_calls('off', :'mixed') > 10000 AS stock;

SET client_min_messages = warning;
DROP SCHEMA list_stats CASCADE;
