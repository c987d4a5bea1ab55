--
-- uuid in INCLUDE: two words of each entry; rows, filters, tuples, joins and their parts from
-- entries alone
--
CREATE SCHEMA include_uuid;
SET search_path = include_uuid, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql
\i :abs_srcdir/sql/common/entries.sql

-- Many rows for each uuid; the lowest and the highest; halves that are equal; domains; NULLs
CREATE DOMAIN account AS uuid CHECK (VALUE <> '11111111-1111-1111-1111-111111111111');
CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$ SELECT md5($1::text)::uuid $$;
CREATE FUNCTION half(int, int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT (lpad(to_hex($1), 16, '0') || lpad(to_hex($2), 16, '0'))::uuid $$;
CREATE TABLE big (id int, k int, u uuid, v int2, a account, w bigint, note text) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO big SELECT i, i % 400, CASE WHEN i % 13 > 0 THEN id(i % 900) END, i % 10,
		CASE WHEN i % 7 > 0 THEN half(i % 5, i % 3) END, i, 'row ' || i FROM generate_series(first, last) i;
$$;
SELECT fill(1, 12000);
INSERT INTO big SELECT i, i % 20, u::uuid, 5, u::uuid, i, 'edge' FROM generate_series(1, 40) i, unnest(ARRAY[
	'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff',
	'7fffffff-ffff-ffff-ffff-ffffffffffff', '80000000-0000-0000-8000-000000000000',
	'80000000-0000-0000-7fff-ffffffffffff', '00000000-0000-0000-8000-000000000000', NULL]) u;
INSERT INTO big VALUES (-1, NULL, id(1), 1, NULL, 1), (-2, 3, NULL, NULL, NULL, NULL);
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (u, v, a, w) WITH (lanes = 2);
VACUUM (FREEZE, ANALYZE) big;
SELECT pg_get_indexdef('big_k'::regclass);
SELECT slots_per_page, key_width, included_columns, entries, keys FROM gpujoin_index_info('big_k');
SELECT gpujoin_check('big_k', true) = count(*) AS complete FROM big;

-- Scans
EXPLAIN (COSTS OFF) SELECT k, u, a FROM big WHERE k IN (1, 2);
SELECT compare_entries('SELECT k, u, v, a, w FROM big WHERE k IN (1, 2, 3, NULL)');
SELECT compare_entries('SELECT u FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 399)))');
SELECT compare_entries('SELECT a, u, a, v, u FROM big WHERE k IN (0, 5, 7)');
SELECT compare_entries('SELECT u || note FROM big WHERE k IN (0, 5, 7)');
SELECT compare_entries('SELECT u::text || v, a::text FROM big WHERE k IN (0, 5, 7)');
SELECT compare_entries('SELECT lag(u) OVER (ORDER BY w, u), w FROM big WHERE k IN (0, 5, 7)');
SELECT compare_entries('SELECT * FROM (SELECT k, u, w FROM big WHERE k < 60 AND k IN (1, 2, 44) ORDER BY w, u LIMIT 20) q');
SELECT compare_entries('SELECT u, count(*), sum(w) FROM big WHERE k < 60 AND k = ANY (ARRAY(SELECT generate_series(0, 99))) GROUP BY u');
SELECT compare_entries('SELECT count(u), count(DISTINCT a), max(v) FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))');
SELECT compare_entries('SELECT u FROM big WHERE k IN (1, 2) UNION SELECT a FROM big WHERE k IN (1, 3)');
SELECT compare_entries('SELECT u, v FROM big WHERE k IN (1, 2, 3) ORDER BY u, v LIMIT 10');

-- Filters
SELECT compare_entries(format('SELECT k, u, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 199))) AND %s', condition)) AS result, condition
FROM unnest(ARRAY['u = id(1)', 'id(1) = u', 'u <> id(1)', 'NOT u = id(1)', 'u IS NULL', 'u IS NOT NULL',
	'u = NULL', 'u IN (id(1), id(2), NULL)', 'u NOT IN (id(1), id(2))', 'u NOT IN (id(1), NULL)',
	'u = ANY (ARRAY(SELECT id(i) FROM generate_series(1, 100) i))', 'u <> ALL (ARRAY(SELECT id(i) FROM generate_series(1, 100) i))',
	'u = ANY (''{}'')', 'u = ANY (NULL::uuid[])', 'u = (SELECT id(7))', '(u = id(1) OR v = 3)', '(u = id(1) OR u IS NULL) AND v < 7',
	'(u = id(1)) IS NOT TRUE', '(u = id(1)) IS UNKNOWN', '(u = id(1)) IS FALSE', 'NOT (u = id(1) AND v = 1)',
	'u < id(1)', 'u >= id(1)', 'u BETWEEN id(1) AND id(2)', 'u = a', 'a = half(1, 1)', 'a::uuid IN (half(1, 2), half(2, 1))', 'a IS NULL',
	'u = ''00000000-0000-0000-0000-000000000000''', 'u = ''ffffffff-ffff-ffff-ffff-ffffffffffff''',
	'u IN (''7fffffff-ffff-ffff-ffff-ffffffffffff'', ''80000000-0000-0000-7fff-ffffffffffff'')',
	'u = ''80000000-0000-0000-8000-000000000001''', 'a <> ''00000000-0000-0000-8000-000000000000''']) condition;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT u, w FROM big WHERE k IN (1, 2, 3) AND u = id(401)');
PREPARE filtered(uuid, uuid[]) AS SELECT u, w FROM big WHERE k IN (1, 2, 3) AND (u = $1 OR a = ANY ($2));
SELECT compare_generic('filtered', $$'c4ca4238-a0b9-2382-0dcc-509a6f75849b', '{NULL}'$$, $$NULL, '{00000000-0000-0001-0000-000000000001}'$$, 'NULL, NULL');
-- rescans with other values
SELECT compare_entries('SELECT s, q.* FROM generate_series(1, 9) s, LATERAL (SELECT u, w FROM big WHERE k IN (1, 2, 3) AND u = id(s)) q');

-- Tuples: the uuid is a part; two uuids
SELECT compare_entries('SELECT u, w FROM big WHERE (k, u) IN ((1, id(1)), (2, id(402)), (3, id(3)), (4, NULL))');
SELECT compare_entries('SELECT u, w FROM big WHERE (k, u, a, v) IN ((1, id(1), half(1, 1), 1), (2, id(402), half(2, 0), 2), (3, id(403), half(3, 1), 3))');
SELECT compare_entries('SELECT u, w FROM big WHERE (k = 1 AND u = id(401)) OR (k = 2 AND u = id(402)) OR (k = 3 AND u = id(1))');
SELECT compare_entries('SELECT * FROM big WHERE (k, u) IN ((1, id(1)), (2, id(402)), (3, id(3)))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT u, w FROM big WHERE (k, u) IN ((1, id(401)), (2, id(402)), (3, id(1)))');
CREATE TABLE members (team uuid, person uuid, role int) WITH (autovacuum_enabled = off);
INSERT INTO members SELECT id(i % 100), id(i % 77), i % 3 FROM generate_series(1, 5000) i;
INSERT INTO members VALUES (NULL, id(1), 1), (id(1), NULL, 1);
CREATE INDEX members_team ON members USING gpujoin (team) INCLUDE (person, role);
VACUUM (FREEZE, ANALYZE) members;
SELECT slots_per_page, included_columns, entries, keys FROM gpujoin_index_info('members_team');
SELECT gpujoin_check('members_team', true) = count(*) AS complete FROM members;
SELECT compare_entries('SELECT team, person, role FROM members WHERE (team, person) IN ((id(1), id(1)), (id(5), id(2)), (id(6), id(6)), (id(7), NULL))');
SELECT compare_entries('SELECT team, person FROM members WHERE team IN (id(1), id(2), id(1000)) AND person IN (id(1), id(5), id(20))');
SELECT compare_entries('SELECT count(*), sum(role) FROM members WHERE (team = id(1) AND person = id(1)) OR (team = id(2) AND person = id(1)) OR (team = id(3) AND person = id(3))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT team, person FROM members WHERE (team, person) IN ((id(1), id(1)), (id(5), id(5)))');
-- a key that is hashed: the other part is tested before the heap is read
CREATE TABLE named (name text, u uuid, v int);
INSERT INTO named SELECT 'a name of more than seven bytes ' || i % 50, id(i % 20), i FROM generate_series(1, 2000) i;
CREATE INDEX named_name ON named USING gpujoin (name) INCLUDE (u);
VACUUM ANALYZE named;
SELECT compare('SELECT * FROM named WHERE (name, u) IN ((''a name of more than seven bytes 1'', id(1)), (''a name of more than seven bytes 2'', id(3)), (''x'', id(3)))');

-- Joins: the uuid is returned, compared, a part of the key
CREATE TABLE small (x int, y uuid);
INSERT INTO small SELECT i, id(i + i % 3 * 400) FROM generate_series(1, 60) i;
INSERT INTO small VALUES (5, NULL), (NULL, id(1)), (7, id(7)), (7, id(7)), (8, '00000000-0000-0000-0000-000000000000');
ANALYZE small;
EXPLAIN (COSTS OFF) SELECT x, u FROM small JOIN big ON k = x AND u = y;
SELECT compare_entries('SELECT x, y, u, a FROM small JOIN big ON k = x');
SELECT compare_entries('SELECT x, y, u, w FROM small JOIN big ON k = x AND u = y');
SELECT compare_entries('SELECT x, y, u, w FROM small LEFT JOIN big ON k = x AND u = y');
SELECT compare_entries('SELECT x, y, u, w FROM small LEFT JOIN big ON k = x AND u = y AND a <> half(1, 1)');
SELECT compare_entries('SELECT u, w FROM big WHERE EXISTS (SELECT 1 FROM small WHERE k = x AND u = y)');
SELECT compare_entries('SELECT x, y FROM small WHERE EXISTS (SELECT 1 FROM big WHERE k = x AND u = y)');
SELECT compare_entries('SELECT x, y FROM small WHERE NOT EXISTS (SELECT 1 FROM big WHERE k = x AND u = y)');
SELECT compare_entries('SELECT x, count(*), sum(w), count(u) FROM small JOIN big ON k = x GROUP BY x');
SELECT compare_entries('SELECT y, count(*), sum(w) FROM small JOIN big ON k = x AND u = y GROUP BY y');
SELECT compare_entries('SELECT x, u, a FROM small JOIN big ON k = x WHERE u IN (id(1), id(7), id(402))');
SELECT compare_entries('SELECT x, note FROM small JOIN big ON k = x AND u = y');
SELECT compare_entries('SELECT y, person FROM (SELECT y, x % 3 AS r FROM small OFFSET 0) s JOIN members ON team = y AND role = r');
SELECT compare_entries('SELECT p, person, role FROM (SELECT y AS t, id(x) AS p FROM small OFFSET 0) s JOIN members ON team = t AND person = p');
SET work_mem = '64kB';
SELECT compare_entries('SELECT x, s.y, u, w FROM (SELECT i % 400 AS x, id(i % 900) AS y, repeat(''x'', 500) AS pad FROM generate_series(1, 3000) i OFFSET 0) s JOIN big ON k = x AND u = y');
RESET work_mem;

-- Cursors keep rows that come from entries
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT u, w FROM big WHERE k IN (1, 2) AND w < 900 ORDER BY w;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
CLOSE c;
DECLARE d CURSOR FOR SELECT u FROM big WHERE k = 7 AND u = id(7);
FETCH d;
UPDATE big SET note = 'found' WHERE CURRENT OF d;
SELECT u = id(7) AS same, note FROM big WHERE note = 'found';
ROLLBACK;

-- Parallel plans
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT compare_entries('SELECT u, a, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 399))) AND u <> id(3)');
SELECT compare_entries('SELECT x, y, u, w FROM small JOIN big ON k = x AND u = y');
RESET min_parallel_index_scan_size;
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;

-- Changes: tails, deltas, rows that are not all-visible, folds, merges, REINDEX
SELECT fill(12001, 12030);
UPDATE big SET u = id(id) WHERE id % 50 = 0;
UPDATE big SET u = NULL WHERE id % 50 = 1;
UPDATE big SET note = 'hot' WHERE id % 50 = 2;
DELETE FROM big WHERE id % 11 = 0;
SELECT gpujoin_check('big_k', true) >= count(*) AS complete FROM big;
CREATE TABLE queries AS SELECT unnest(ARRAY['SELECT k, u, a, w FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))',
	'SELECT k, w FROM big WHERE (k, u) IN ((1, id(1)), (2, id(402)), (50, id(450)), (100, id(12000)))',
	'SELECT x, y, u, w FROM small JOIN big ON k = x AND u = y',
	'SELECT k, u FROM big WHERE k = ANY (ARRAY(SELECT generate_series(0, 99))) AND u = id(50)']) q;
SELECT compare_entries(q) FROM queries;
SELECT fill(12031, 20000);
VACUUM big;
SELECT gpujoin_check('big_k', true) = count(*) AS complete FROM big;
SELECT compare_entries(q) FROM queries;
SELECT gpujoin_fold('big_k') IS NOT NULL AS folded;
SELECT compare_entries(q) FROM queries;
REINDEX INDEX big_k;
SELECT compare_entries(q) FROM queries;
ALTER TABLE big ALTER a TYPE uuid;
SELECT compare_entries(q) FROM queries;
ALTER TABLE big DROP a;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (w, u);
VACUUM ANALYZE big;
SELECT compare_entries('SELECT k, u, w FROM big WHERE k IN (1, 2)');
DROP TABLE big, members;

-- The key in INCLUDE, too: what a join looks up is its rest, which is not there
CREATE TABLE twice AS SELECT i AS n, id(i) AS u, i % 7 AS v FROM generate_series(1, 4000) i;
CREATE TABLE few AS SELECT id(i * 40) AS u, i * 40 % 7 AS v FROM generate_series(1, 110) i;
CREATE INDEX ON twice USING gpujoin (u) INCLUDE (v, u, n, u);
VACUUM ANALYZE twice, few;
SELECT query, compare_entries(query) FROM (VALUES
	('SELECT n, twice.u FROM few JOIN twice USING (u)'),
	('SELECT n, twice.u FROM few JOIN twice USING (u, v)'),
	('SELECT n, few.u FROM few LEFT JOIN twice USING (u)'),
	('SELECT count(twice.u) FROM few JOIN twice USING (u)'),
	('SELECT n FROM twice WHERE u IN (SELECT u FROM few)'),
	('SELECT n FROM twice WHERE (u, n) IN (SELECT u, v FROM few)'),
	('SELECT n FROM twice JOIN unnest(ARRAY[id(7), id(8), id(5000)]) u USING (u)'),
	('SELECT n, u FROM twice WHERE u = ANY (ARRAY(SELECT u FROM few))'),
	('SELECT n, u FROM twice WHERE (u, v) IN ((id(7), 0), (id(8), 0), (id(9), 2))'),
	('SELECT u FROM few WHERE NOT EXISTS (SELECT FROM twice WHERE twice.u = few.u)')) q (query);
DROP TABLE twice, few;

-- At most 30 words
CREATE TABLE wide (k int, a1 uuid, a2 uuid, a3 uuid, a4 uuid, a5 uuid, a6 uuid, a7 uuid, a8 uuid, a9 uuid,
	a10 uuid, a11 uuid, a12 uuid, a13 uuid, a14 uuid, a15 uuid, a16 uuid, u uuid, b bool);
INSERT INTO wide SELECT i % 10, id(1), id(2), id(3), id(4), id(5), id(6), id(7), id(8), id(9), id(10), id(11), id(12), id(13),
	NULL, id(i), id(16), id(i), i % 2 = 0 FROM generate_series(1, 500) i;
\set VERBOSITY terse
CREATE INDEX ON wide USING gpujoin (k) INCLUDE (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16);
CREATE INDEX ON wide USING gpujoin (k) INCLUDE (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, b);
CREATE INDEX ON wide USING gpujoin (u) INCLUDE (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15);
CREATE INDEX wide_k ON wide USING gpujoin (k) INCLUDE (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15);
CREATE INDEX wide_u ON wide USING gpujoin (u) INCLUDE (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, b);
VACUUM ANALYZE wide;
SELECT gpujoin_check('wide_k', true), gpujoin_check('wide_u', true);
SELECT compare_entries('SELECT k, a15, a14, a1 FROM wide WHERE k IN (1, 2)');
SELECT compare_entries('SELECT u, a13, a14, a1, b FROM wide WHERE u IN (id(1), id(2)) AND a13 = id(13) AND a14 IS NULL');


\set VERBOSITY default
SET client_min_messages = warning;
DROP SCHEMA include_uuid CASCADE;
