--
-- Tuples with char(n): trailing blanks are not compared, neither in the table nor in entries
--
CREATE SCHEMA form_tuple_bpchar;
SET search_path = form_tuple_bpchar, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql
\i :abs_srcdir/sql/common/entries.sql

-- b has blanks of its own, also too many for an entry; p is a key, too
CREATE FUNCTION code(int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN $1 % 23 = 0 THEN NULL WHEN $1 % 20 = 7 THEN 'a code that is too long ' || $1 % 40 ELSE left('codeäö890123456', $1 % 16) END $$;
CREATE DOMAIN letter AS char(3);
CREATE TABLE big (id int, k int, c char(9), b bpchar, p char(40), d letter, v varchar, q char(200)) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO big SELECT i, i % 97, left(code(i / 97), 9), rpad(code(i / 97), i % 19), left(code(i % 50), 40), (ARRAY['a', 'b  ', NULL, ''])[1 + i % 4],
		rpad(code(i / 97), i % 5), 'q' || i % 3
	FROM generate_series(first, last) i;
$$;
SELECT fill(1, 15000);
INSERT INTO big SELECT -1, 3, b, b, b, left(b, 3), b, b FROM unnest(ARRAY['', ' ', rpad('co', 126), rpad('co', 127), 'co' || E'\t', E'co\x01']) b;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (c, b, p, d, v, q, id);
CREATE INDEX big_p ON big USING gpujoin (p) INCLUDE (c, k);
VACUUM (FREEZE, ANALYZE) big;

SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM big WHERE (k, c) IN ((3, ''co''), (5, ''code ''), (6, ''code''), (7, ''a''))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT ctid FROM big WHERE (k, b) IN ((3, ''co''), (5, ''code ''), (6, ''code''), (7, ''a''))');

CREATE TABLE conditions AS SELECT unnest(ARRAY[
	'(k, c) IN ((3, ''co''), (5, ''code   ''), (6, ''''), (7, ''a''), (8, ''         ''))',
	'(k, b) IN ((3, ''co''), (5, ''code   ''), (6, ''''), (7, ''a''), (3, ''  ''))',
	'(k, b) IN ((3, rpad(''co'', 300)::bpchar), (5, ''a code that is too long 27   ''), (5, ''a code that is too long 7''))',
	'(k, b) IN ((3, E''co\t''), (3, E''co\x01''), (4, E''co\t''))',
	'(k, c, b) IN ((3, ''co'', ''co ''), (5, ''code '', ''code''), (6, ''co'', ''code''))',
	'(k, c, v) IN ((3, ''co'', ''co''), (3, ''co'', ''co ''), (5, ''code'', ''code ''))',
	'(k, d) IN ((3, ''a''), (5, ''b''), (6, ''b    ''), (7, NULL), (8, ''''))',
	'(k, q) IN ((3, ''q1''), (5, ''q2 ''))',
	'(k, v::bpchar) IN ((3, ''co''), (5, ''code ''))',
	'((k = 3 AND c = ANY (''{c,"co   ",NULL}''::bpchar[])) OR (k = ANY (''{4,5}'') AND c = ''code''))',
	'(c, k) IN ((''co'', 3), (NULL, 4), (''c'', NULL), (''codeä'', 5))',
	'(k, c) IN ((3, ''CO''), (5, '' code''), (3, ''c''))',
	'(k, c) IN ((3, ''co''::text), (5, ''code ''::text), (5, ''code''::text))',
	'(k, c) IN ((3, ''co''::bpchar COLLATE "C"), (5, ''code '' COLLATE "C"))',
	'(p, c) IN ((''co'', ''co''), (''code   '', ''cod''), (''a code that is too long 7'', ''a code th''), ('''', ''''))',
	'(p, k) IN ((''co'', 3), (''code   '', 5), (''a code that is too long 7 '', 8), (''codeä '', 14))']) AS condition;
SELECT compare_entries('SELECT id, c FROM big WHERE ' || condition) AS id, compare_entries('SELECT count(*), count(b), min(d) FROM big WHERE ' || condition) AS count,
	compare_entries('SELECT big FROM big WHERE ' || condition) AS heap, condition FROM conditions;
SELECT compare_entries(format('SELECT id, c FROM big WHERE (k, b) IN (%s)', string_agg(format('(%s, %L)', i % 100, rpad(code(i), i % 7 * 5)), ', '))) FROM generate_series(1, 600) i;
PREPARE tuples(int, bpchar, int, text) AS SELECT id FROM big WHERE (k, c) IN (($1, $2), ($3, $2), (9, $2)) AND b <> $4;
SELECT compare_generic('tuples', '3, ''co  '', 5, ''code''', '3, NULL, 5, ''''', 'NULL, ''co'', NULL, NULL', '9, '''', 3, ''co''');

-- Drivers whose parameters are texts cast the column, which loses its blanks: a value with one at its end equals none
SELECT compare_entries('SELECT id, c, b FROM big WHERE ' || condition) AS entries, compare_entries('SELECT big FROM big WHERE ' || condition) AS heap, condition
FROM unnest(ARRAY['(k, c) IN ((3, ''co''::text), (5, ''code ''::text), (5, ''cod''::text), (7, NULL), (6, ''''::text), (8, '' ''::text))',
	'(k, b) IN ((3, ''co''::varchar), (5, ''code ''::varchar), (3, rpad(''co'', 126)), (5, ''a code that is too long 27''::text), (5, ''a code that is too long 7 ''::text))',
	'(b::text, k) IN ((''co'', 3), (''code  '', 5), (''codeä'', 5), (E''co\t'', 3))', '(k = 3 AND ''co''::text = c) OR (c = ''cod''::text AND k = 5)',
	'(k, d) IN ((3, ''a''::text), (5, ''b''::text), (6, ''b  ''::text))', '(k, c) IN ((3, ''co''::text COLLATE "C"), (5, ''cod'' COLLATE "C"))',
	'(p, k) IN ((''co''::text, 3), (''code ''::text, 5), (''codeä''::text, 14))', '(k, c, v) IN ((3, ''co''::text, ''co''), (5, ''cod''::text, ''cod ''))',
	'(k, c) IN ((3, ''co''::text), (5, ''cod''))', '(k = 3 AND c = ANY (''{co,"cod "}''::text[])) OR (k = 5 AND c = ANY (''{cod}''::text[]))', '(k, c) IN ((3, v), (5, ''cod''::text))']) condition;
PREPARE texts(int, text, int, varchar) AS SELECT id FROM big WHERE (k, c) IN (($1, $2), ($3, $4), (9, $2 || ''), (11, 'cod'::text));
SELECT compare_generic('texts', '3, ''co'', 5, ''code''', '3, ''co '', 5, ''cod''', 'NULL, ''co'', 3, NULL', '9, '''', 3, ''a code that is too long 7''');
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE (k, c) IN ((3, 'co'::text), (5, 'code '::text));

-- Joins by both columns, with values of other lengths
CREATE TABLE small (x int, y char(12), z bpchar, t text);
INSERT INTO small SELECT i % 110, left(code(i), 12), rpad(code(i), i % 23), code(i) FROM generate_series(1, 400) i;
ANALYZE small;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT x, y, id FROM small JOIN big ON k = x AND c = y');
CREATE TABLE joins AS SELECT unnest(ARRAY[
	'SELECT x, y, id FROM small JOIN big ON k = x AND c = y',
	'SELECT x, z, id, b, octet_length(b) FROM small JOIN big ON k = x AND b = z',
	'SELECT x, y, d, c FROM small JOIN big ON k = x AND b = z AND y = c',
	'SELECT x, y, id FROM small LEFT JOIN big ON k = x AND c = y AND p <> ''co''',
	'SELECT c, sum(id), count(*) FROM small JOIN big ON k = x AND c = y GROUP BY c',
	'SELECT id FROM big WHERE (k, c) IN (SELECT x, y FROM small)',
	'SELECT x, y FROM small WHERE NOT EXISTS (SELECT FROM big WHERE k = x AND c = y AND b = z)',
	'SELECT id FROM big WHERE (k, b) IN (SELECT unnest(''{3,5,5,NULL}''::int[]), unnest(''{"co  ",code,NULL,c}''::bpchar[]))',
	'SELECT c, p FROM small JOIN big ON p = z AND c = y',
	'SELECT x, t, id FROM small JOIN big ON k = x AND c = t',
	'SELECT x, y, v FROM small JOIN big ON k = x AND v = y',
	'SELECT x, y, v FROM small JOIN big ON k = x AND v::bpchar = y']) AS query;
SELECT compare_entries(query), query FROM joins;

-- Rows that are dead, on the tail, in the delta, or on pages that are not all-visible
UPDATE big SET c = 'co', b = 'co   ' WHERE id % 60 = 3;
UPDATE big SET b = 'a code that is too long 7' WHERE id % 60 = 5;
UPDATE big SET c = NULL WHERE id % 60 = 7;
DELETE FROM big WHERE id % 60 = 8;
SELECT fill(15001, 15400);
SELECT compare_entries('SELECT id, c FROM big WHERE ' || condition) FROM conditions;
SELECT compare_entries(query) FROM joins;
VACUUM big;
SELECT gpujoin_fold('big_k') IS NOT NULL AND gpujoin_fold('big_p') IS NOT NULL AS folded;
SELECT compare_entries('SELECT id, c FROM big WHERE ' || condition) FROM conditions;
SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
SELECT compare_entries(query) FROM joins;
RESET work_mem; RESET hash_mem_multiplier;

-- A column that becomes a bpchar keeps the words of texts, blanks and all
CREATE TABLE turned (k int, v varchar, w int);
INSERT INTO turned SELECT i % 10, left('ab  ', i % 5), i FROM generate_series(1, 1000) i;
CREATE INDEX turned_k ON turned USING gpujoin (k) INCLUDE (v, w);
ALTER TABLE turned ALTER v TYPE bpchar;
CREATE TABLE few (x int, y bpchar);
INSERT INTO few VALUES (1, 'a '), (2, 'ab'), (3, 'ab    '), (4, 'a'), (5, '   ');
VACUUM ANALYZE turned, few;
SELECT compare_entries('SELECT w FROM turned WHERE (k, v) IN ((1, ''ab''), (2, ''a ''), (3, ''ab   ''))');
SELECT compare_entries('SELECT w, y FROM few JOIN turned ON k = x AND v = y');

-- Under a nondeterministic collation unequal bytes may be equal, but blanks at the end mean nothing
DO $$ BEGIN
	CREATE COLLATION nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN OTHERS THEN CREATE COLLATION nd FROM "C"; END $$;
CREATE TABLE folded (k int, c char(6) COLLATE nd, w int);
INSERT INTO folded SELECT i % 10, CASE WHEN i % 2 = 0 THEN 'ABC' ELSE 'abc' END, i FROM generate_series(1, 1000) i;
CREATE INDEX folded_k ON folded USING gpujoin (k) INCLUDE (c, w);
CREATE INDEX folded_c ON folded USING gpujoin (c) INCLUDE (k, w);
CREATE TABLE others (x int, y char(4) COLLATE nd, z bpchar COLLATE nd);
INSERT INTO others VALUES (1, 'Abc', 'aBC  '), (2, 'aBC', 'abc'), (2, 'x', 'x   ');
VACUUM ANALYZE folded, others;
SELECT compare_entries('SELECT w FROM folded WHERE (k, c) IN ((1, ''Abc''), (2, ''aBC ''))') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT w FROM folded WHERE (k, c) IN ((1, ''abc  '' COLLATE "C"), (2, ''ABC'' COLLATE "C"))') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT w FROM folded WHERE (k, c) IN ((1, ''abc''::text COLLATE "C"), (2, ''ABC''::text COLLATE "C"))') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT w FROM folded WHERE (k, c) IN ((1, ''Abc''::text), (2, ''aBC''::text))') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT w, c FROM folded WHERE (c, k) IN ((''Abc  '', 1), (''aBC'', 2), (''x'', 3))') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT w, y FROM others JOIN folded ON k = x AND c = y') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT k, w FROM others JOIN folded ON k = x AND c = z') ~ 'Gpu.* same' AS same;
SELECT compare_entries('SELECT w, c FROM others JOIN folded ON c = z AND k = x') ~ 'Gpu.* same' AS same;

SET client_min_messages = warning;
DROP SCHEMA form_tuple_bpchar CASCADE;
