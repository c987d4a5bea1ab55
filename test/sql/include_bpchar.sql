--
-- char(n) and bpchar in INCLUDE: up to 15 bytes before the trailing blanks, which are not compared
--
CREATE SCHEMA include_bpchar;
SET search_path = include_bpchar, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql
\i :abs_srcdir/sql/common/entries.sql

CREATE DOMAIN letter AS char(3);
-- b has blanks of its own; p is padded to more bytes than two words have, q to more than any entry
CREATE TABLE big (id int, k int, c char(2), b bpchar, p char(40), q char(130), d letter, v varchar, w bigint) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO big SELECT i, i % 400, (ARRAY['de', 'fr', 'x', '', NULL, 'ä'])[1 + i % 6],
		CASE WHEN i % 13 > 0 THEN rpad(left('abcdefghijklmnopqr', i % 17), i % 19) END, left('abcdefghijklmnopqr', i % 17),
		'q' || i % 3, (ARRAY['a', 'b  ', NULL])[1 + i % 3], left('ab ', i % 4), i
	FROM generate_series(first, last) i;
$$;
SELECT fill(1, 12000);
INSERT INTO big SELECT i, i % 20, 'x', t, left(t, 40), left(t, 130), 'x', left(t, 20), i FROM generate_series(1, 40) i,
	unnest(ARRAY[repeat('y', 3000), rpad('z', 100), rpad('z', 126), rpad('z', 127), rpad('z', 128), rpad('z', 5000), '', ' ', '               ', '                ',
	E'\x01', E'\x01 ', 'ÿÿÿÿÿÿÿ', 'ÿÿÿÿÿÿÿÿ', 'abcdefg ', 'abcdefgh ', 'abcdefghijklmno', 'abcdefghijklmno ', 'abcdefghijklmnop', NULL]) t;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (c, b, p, q, d, v, w);
VACUUM (FREEZE, ANALYZE) big;
SELECT slots_per_page, included_columns, entries, included FROM gpujoin_index_info('big_k');
SELECT gpujoin_check('big_k', true) = count(*) AS complete FROM big;

-- Each value comes back with its blanks
EXPLAIN (COSTS OFF) SELECT k, c, d FROM big WHERE k IN (1, 2);
SELECT compare_entries('SELECT k, c, b, p, q, d, v, w, octet_length(b), pg_column_size(c), b || ''|'' FROM big WHERE k IN (1, 2, 3, 7, NULL)');
SELECT compare_entries('SELECT c, d, octet_length(d), c::text || d || ''|'' FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 399)))');
SELECT compare_entries('SELECT p, octet_length(p), ''|'' || p || ''|'', p::text || ''|'' FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 399)))');
SELECT compare_entries('SELECT textsend(b::text), bpcharsend(b), format(''%s|'', b) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 399)))');
SELECT compare_entries('SELECT b, p, w FROM big WHERE k IN (1, 2, 3) ORDER BY w, b LIMIT 9');
SELECT compare_entries('SELECT c, count(*), sum(w) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY c');
SELECT compare_entries('SELECT count(DISTINCT b), max(c), min(b), count(p) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))');
SELECT compare_entries('SELECT count(DISTINCT rtrim(b)), count(*) FROM (SELECT DISTINCT b FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))) d');

-- Filters
SELECT compare_entries(format('SELECT k, c, b, p, d, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) AND %s', condition)) AS result, condition
FROM unnest(ARRAY['c = ''de''', '''x'' = c', 'c = ''x ''', 'c = ''x''::text', 'c = ''x ''::text', 'c = ''x''::varchar', '''x ''::varchar = c', 'c <> ''de''', 'c <> ''x ''::text', 'NOT c = ''de''', 'c = ''''', 'c <> '' ''',
	'c = ''''::text', 'c = '' ''::text', 'c IS NULL', 'c IS NOT NULL', 'c = NULL', 'c IN (''x'', ''de '', NULL)', 'c NOT IN (''x'', ''de '')', 'c NOT IN (''x'', NULL)', 'c = ANY (''{x,de }''::text[])', 'c = ANY (''{x,"de "}''::text[])',
	'c <> ALL (''{x,"de "}''::text[])', 'c = ANY (''{x,de}''::varchar[])', 'c = ANY (''{ä,fr}''::bpchar[])', 'b = ''abc''', 'b = ''abc   ''', 'b = ''abc''::text', 'b = ''abc ''::text', 'b <> ''abc ''::text', 'b = rpad(''z'', 4000)', 'b = rpad(''z'', 4000)::bpchar',
	'b = ''''', 'b = ''   ''', 'b = ''''::text', 'b = ''   ''::text', 'b IN ('''', ''z'', ''a'')', 'b NOT IN ('''', ''z  '', ''a'')', 'b IN (''''::text, ''z'', ''a '')', 'b = ''abcdefghijklmno''', 'b = ''abcdefghijklmnop''', 'b <> ''abcdefghijklmnop''',
	'b = repeat(''y'', 3000)', 'b = E''\x01''', 'b = E''\x01 ''::text', 'b = ''ÿÿÿÿÿÿÿ''', 'p = ''abc''', 'p IN (''abc'', ''a'', repeat(''y'', 40))', 'p <> ''abc''::text', 'd = ''b''', 'd::text = ''b''', 'd IN (''a'', ''b '')', 'v = ''ab''', 'v = ''ab ''', 'v = ''ab ''::bpchar',
	'v::bpchar = ''ab''', '(c = ''x'' OR b = ''abc'')', 'NOT (c = ''x'' OR b = ''abc'')', '(b = ''abc'') IS NOT TRUE', '(b = ''abc'') IS UNKNOWN', 'c = d', 'c < ''fr''', 'b LIKE ''abc%''', 'c = (SELECT ''de''::bpchar)', 'b = ''abc'' COLLATE "C"']) condition;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT w, c FROM big WHERE k IN (21, 22, 23) AND c = ''de''');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT w, c FROM big WHERE k IN (21, 22, 23) AND c = ''de''::text');
EXPLAIN (COSTS OFF) SELECT w FROM big WHERE k IN (21, 22, 23) AND v::bpchar = 'ab';
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM big WHERE k IN (40, 41) AND b = ''abc''');
PREPARE filtered(bpchar, text[]) AS SELECT b, w FROM big WHERE k IN (1, 2, 3) AND (c = $1 OR p = ANY ($2));
SELECT compare_generic('filtered', $$'de', '{NULL}'$$, $$NULL, '{abc,"a "}'$$, 'NULL, NULL');

-- Joins
CREATE TABLE small (x int, y char(5), z text);
INSERT INTO small SELECT i, (ARRAY['de', 'fr', 'x'])[1 + i % 3], 'x' FROM generate_series(1, 60) i;
INSERT INTO small (x, y) VALUES (5, NULL), (NULL, 'de'), (7, ''), (7, 'de');
ANALYZE small;
SELECT compare_entries('SELECT x, y, c, b FROM small JOIN big ON k = x');
SELECT compare_entries('SELECT x, y, w FROM small JOIN big ON k = x AND c = y');
SELECT compare_entries('SELECT x, y, w FROM small LEFT JOIN big ON k = x AND c = z');
SELECT compare_entries('SELECT b, w FROM big WHERE EXISTS (SELECT 1 FROM small WHERE k = x) AND b <> ''abc''');

-- Row-level security: the cast to text is not leakproof, the comparison is
CREATE TABLE guarded (k int, c char(5), owner text);
INSERT INTO guarded SELECT i % 10, 'c' || i % 3, 'nobody' FROM generate_series(1, 1000) i;
CREATE INDEX guarded_k ON guarded USING gpujoin (k) INCLUDE (c);
VACUUM ANALYZE guarded;
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON guarded USING (owner = current_user);
DO $$ BEGIN CREATE ROLE include_bpchar_user; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT USAGE ON SCHEMA include_bpchar TO include_bpchar_user;
GRANT SELECT ON guarded TO include_bpchar_user;
SET ROLE include_bpchar_user;
EXPLAIN (COSTS OFF) SELECT * FROM guarded WHERE k IN (1, 2) AND c = 'c1';
EXPLAIN (COSTS OFF) SELECT * FROM guarded WHERE k IN (1, 2) AND c = 'c1'::text;
RESET ROLE;

-- A column that becomes a bpchar keeps the file, and with it the words of texts, blanks and all
CREATE TABLE turned (k int, v varchar, w int);
INSERT INTO turned SELECT i % 10, left('ab  ', i % 5), i FROM generate_series(1, 1000) i;
CREATE INDEX turned_k ON turned USING gpujoin (k) INCLUDE (v, w);
VACUUM ANALYZE turned;
SELECT pg_relation_filenode('turned_k') AS node \gset
ALTER TABLE turned ALTER v TYPE bpchar;
SELECT pg_relation_filenode('turned_k') = :node AS kept;
INSERT INTO turned SELECT i % 10, left('ab  ', i % 5), i FROM generate_series(1, 1000) i;
VACUUM ANALYZE turned;
SELECT compare_entries('SELECT v, octet_length(v), w FROM turned WHERE k IN (1, 2, 3)');
SELECT compare_entries('SELECT v, w FROM turned WHERE k IN (1, 2, 3) AND v = ''ab''');
SELECT compare_entries('SELECT v, w FROM turned WHERE k IN (1, 2, 3) AND v = ''ab''::text');
SELECT compare_entries('SELECT v, count(*) FROM turned WHERE k IN (1, 2, 3) GROUP BY v');
REINDEX INDEX turned_k;
SELECT compare_entries('SELECT v, w FROM turned WHERE k IN (1, 2, 3) AND v = ''ab''');
-- and the other way round the table is rewritten
ALTER TABLE turned ALTER v TYPE text;
SELECT compare_entries('SELECT v, w FROM turned WHERE k IN (1, 2, 3) AND v = ''ab''');
ALTER TABLE turned ALTER v TYPE char(7);
SELECT compare_entries('SELECT v, w FROM turned WHERE k IN (1, 2, 3) AND v = ''ab''');
SELECT pg_relation_filenode('turned_k') AS node \gset
ALTER TABLE turned ALTER v TYPE bpchar;
SELECT pg_relation_filenode('turned_k') = :node AS kept;
SELECT compare_entries('SELECT v, w FROM turned WHERE k IN (1, 2, 3) AND v = ''ab''');

-- Changes
SELECT fill(12001, 12030);
UPDATE big SET b = 'now longer than fifteen bytes' WHERE id % 50 = 0;
UPDATE big SET c = NULL WHERE id % 50 = 1;
DELETE FROM big WHERE id % 11 = 0;
CREATE TABLE queries AS SELECT unnest(ARRAY['SELECT k, c, b, p, q, d, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))',
	'SELECT k, b FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) AND b <> ''abc''']) q;
SELECT compare_entries(q) FROM queries;
SELECT fill(12031, 20000);
VACUUM big;
SELECT gpujoin_check('big_k', true) = count(*) AS complete FROM big;
SELECT gpujoin_fold('big_k') IS NOT NULL AS folded;
SELECT compare_entries(q) FROM queries;

SET client_min_messages = warning;
DROP SCHEMA include_bpchar CASCADE;
DROP ROLE include_bpchar_user;
