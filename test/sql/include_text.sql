--
-- text and varchar in INCLUDE: values of up to 15 bytes are two words of each entry, the rows of
-- longer ones are read from the table
--
CREATE SCHEMA include_text;
SET search_path = include_text, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql
\i :abs_srcdir/sql/common/entries.sql

-- 0, 1, 7, 8, 9, 14, 15, 16 bytes, blanks, many bytes a character, toasted and compressed values, NULLs
CREATE DOMAIN code AS varchar(12) CHECK (VALUE <> 'forbidden');
CREATE TABLE big (id int, k int, status varchar, t text COLLATE "C", c code, w bigint, l text) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO big SELECT i, i % 400, (ARRAY['paid', 'open', 'shipped', '', NULL, 'returned  '])[1 + i % 6],
		CASE WHEN i % 13 > 0 THEN left('abcdefghijklmnopqr', i % 17) || CASE WHEN i % 3 = 0 THEN 'ä' ELSE '' END END,
		('code ' || i % 70)::code, i, CASE WHEN i % 40 = 0 THEN 'longer than fifteen bytes ' || i % 7 ELSE 'short ' || i % 9 END
	FROM generate_series(first, last) i;
$$;
SELECT fill(1, 12000);
INSERT INTO big SELECT i, i % 20, t, t, 'x', i, t FROM generate_series(1, 40) i,
	unnest(ARRAY[repeat('y', 3000), repeat('z', 100), (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i), E'\x01', 'ÿÿÿÿÿÿÿ',
	'abcdefg', 'abcdefgh', 'abcdefghijklmno', 'abcdefghijklmnop', ' ', '  ', NULL]) t;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (status, t, c, w, l);
VACUUM (FREEZE, ANALYZE) big;
SELECT slots_per_page, included_columns, entries, included FROM gpujoin_index_info('big_k');
SELECT gpujoin_check('big_k', true) = count(*) AS complete FROM big;

EXPLAIN (COSTS OFF) SELECT k, status, c FROM big WHERE k IN (1, 2);
SELECT compare_entries('SELECT k, status, t, c, w, l FROM big WHERE k IN (1, 2, 3, 7, NULL)');
SELECT compare_entries('SELECT status, t, c, l FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 399)))');
SELECT compare_entries('SELECT octet_length(t), length(l), upper(status), c || w FROM big WHERE k IN (0, 5, 7)');
SELECT compare_entries('SELECT status, count(*), sum(w) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY status');
SELECT compare_entries('SELECT t, l, count(*) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY t, l');
SELECT compare_entries('SELECT count(DISTINCT t), count(l), max(status), min(t) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))');
SELECT compare_entries('SELECT t, w FROM big WHERE k IN (1, 2, 3) ORDER BY w, t LIMIT 9');
SELECT compare_entries('SELECT t, l FROM big WHERE k IN (1, 2, 3) ORDER BY t, l LIMIT 9');
SELECT compare_entries('SELECT lag(t) OVER (ORDER BY w, t), w FROM big WHERE k IN (0, 5, 7)');

-- Filters: equality only, of short and long values
SELECT compare_entries(format('SELECT k, status, t, l, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) AND %s', condition)) AS result, condition
FROM unnest(ARRAY['status = ''paid''', '''paid'' = status', 'status <> ''paid''', 'NOT status = ''paid''', 'status IS NULL', 'status IS NOT NULL', 'status = NULL',
	'status = ''''', 'status <> ''''', 'status = ''returned''', 'status = ''returned  ''', 'status IN (''paid'', ''open'', NULL)', 'status NOT IN (''paid'', ''open'')', 'status NOT IN (''paid'', NULL)',
	'l = ''longer than fifteen bytes 3''', 'l <> ''longer than fifteen bytes 3''', 'l IN (''short 1'', ''longer than fifteen bytes 3'')', 'l NOT IN (''short 1'', ''longer than fifteen bytes 3'')',
	'(l = ''short 1'' OR status = ''paid'')', 'NOT (l = ''short 1'' OR status = ''paid'')', '(l = ''short 1'') IS NOT TRUE', '(t = ''abc'') IS UNKNOWN', '(t = ''abc'' AND l = ''short 2'') IS FALSE',
	't = ''abcdefghijklmno''', 't = ''abcdefghijklmnop''', 't = repeat(''y'', 3000)', 't <> repeat(''y'', 3000)', 't = E''\x01''', 't = ''ÿÿÿÿÿÿÿ''', 't < ''abc''', 't LIKE ''abc%''', 't = status',
	'c = ''code 7''', 'c IN (''code 7'', ''code 8'')', 'status = ANY (''{paid,open}''::varchar[])', 'status = (SELECT ''paid''::text)', 't = ''abc'' COLLATE "POSIX"']) condition;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT w, status FROM big WHERE k IN (21, 22, 23) AND status = ''paid''');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT w FROM big WHERE k IN (40, 41) AND l <> ''short 1''');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM big WHERE k IN (40, 41) AND l = ''short 1''');
PREPARE filtered(text, text[]) AS SELECT t, w FROM big WHERE k IN (1, 2, 3) AND (status = $1 OR l = ANY ($2));
SELECT compare_generic('filtered', $$'paid', '{NULL}'$$, $$NULL, '{short 1,longer than fifteen bytes 3}'$$, 'NULL, NULL');
SELECT compare('SELECT w, t FROM big WHERE (k, status) IN ((1, ''paid''), (2, ''open''), (3, ''shipped''))');

-- Joins
CREATE TABLE small (x int, y text);
INSERT INTO small SELECT i, (ARRAY['paid', 'open', 'shipped', 'longer than fifteen bytes 3', 'short 3'])[1 + i % 5] FROM generate_series(1, 60) i;
INSERT INTO small VALUES (5, NULL), (NULL, 'open'), (7, ''), (7, 'paid');
ANALYZE small;
SELECT compare_entries('SELECT x, y, status, t FROM small JOIN big ON k = x');
SELECT compare_entries('SELECT x, y, w FROM small JOIN big ON k = x AND status = y');
SELECT compare_entries('SELECT x, y, l, w FROM small LEFT JOIN big ON k = x AND l = y');
SELECT compare_entries('SELECT l, w FROM big WHERE EXISTS (SELECT 1 FROM small WHERE k = x) AND l <> ''short 1''');
SELECT compare_entries('SELECT x, y FROM small WHERE NOT EXISTS (SELECT 1 FROM big WHERE k = x AND status = y)');
SELECT compare_entries('SELECT status, y, count(*) FROM small JOIN big ON k = x GROUP BY status, y');

-- A nondeterministic collation is not tested on entries
DO $$ BEGIN
	CREATE COLLATION nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN OTHERS THEN CREATE COLLATION nd FROM "C"; END $$;
CREATE TABLE folded (k int, t text COLLATE nd);
INSERT INTO folded SELECT i % 10, CASE WHEN i % 2 = 0 THEN 'ABC' ELSE 'abc' END FROM generate_series(1, 1000) i;
CREATE INDEX folded_k ON folded USING gpujoin (k) INCLUDE (t);
VACUUM ANALYZE folded;
SELECT compare_entries('SELECT t FROM folded WHERE k IN (1, 2) AND t = ''Abc''') ~ 'entries: .* same' AS same;
SELECT compare_entries('SELECT t FROM folded WHERE k IN (1, 2) AND t = ''abc'' COLLATE "C"') ~ 'entries: .* same' AS same;
SELECT compare_entries('SELECT count(*), count(DISTINCT t) FROM folded WHERE k IN (1, 2) AND t <> ''Abc''') ~ 'entries: .* same' AS same;

-- Changes
SELECT fill(12001, 12030);
UPDATE big SET l = 'now longer than fifteen bytes' WHERE id % 50 = 0;
UPDATE big SET l = 'short' WHERE l LIKE 'long%3';
UPDATE big SET status = NULL WHERE id % 50 = 1;
DELETE FROM big WHERE id % 11 = 0;
CREATE TABLE queries AS SELECT unnest(ARRAY['SELECT k, status, t, c, l, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))',
	'SELECT x, y, w FROM small JOIN big ON k = x AND status = y', 'SELECT k, l FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) AND l <> ''short 1''']) q;
SELECT compare_entries(q) FROM queries;
SELECT fill(12031, 20000);
VACUUM big;
SELECT gpujoin_check('big_k', true) = count(*) AS complete FROM big;
SELECT compare_entries(q) FROM queries;
SELECT gpujoin_fold('big_k') IS NOT NULL AS folded;
SELECT compare_entries(q) FROM queries;
-- the file is kept, and longer values arrive
SELECT pg_relation_filenode('big_k') AS node \gset
ALTER TABLE big ALTER c TYPE text;
SELECT pg_relation_filenode('big_k') = :node AS kept;
UPDATE big SET c = 'a code of more than fifteen bytes' WHERE id % 90 = 0;
SELECT compare_entries('SELECT c, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))');
-- only long values: without the setting, rows are read from the table at once
UPDATE big SET t = 'much longer than fifteen bytes';
VACUUM ANALYZE big;
SELECT compare_entries('SELECT t, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))');
SELECT compare_entries('SELECT w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) AND t = ''abc''');

-- A join fetches rows between entries: the last one of those fails the filter
CREATE TABLE mixed (k int, id int, t text);
INSERT INTO mixed SELECT i / 100, i, CASE WHEN i % 2 = 0 THEN 'kept' ELSE 'longer than fifteen bytes' END FROM generate_series(0, 19999) i;
CREATE INDEX mixed_k ON mixed USING gpujoin (k) INCLUDE (id, t);
CREATE TABLE few AS SELECT k FROM generate_series(0, 150) k;
VACUUM ANALYZE mixed, few;
SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
CREATE TABLE joined AS SELECT m.k, m.id FROM mixed m JOIN (SELECT DISTINCT k FROM few) f USING (k) WHERE m.t = 'kept';
CREATE TABLE semi AS SELECT m.k, m.id FROM mixed m WHERE m.k IN (SELECT k FROM few) AND m.t = 'kept';
SELECT count(*), sum(id), (SELECT count(*) FROM semi), (SELECT sum(id) FROM semi) FROM joined;
RESET work_mem; RESET hash_mem_multiplier;

SET client_min_messages = warning;
DROP SCHEMA include_text CASCADE;
