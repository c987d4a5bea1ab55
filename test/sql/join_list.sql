-- Joins with unnest(array): the array's elements are the small rows, without running the function.
CREATE SCHEMA join_list;
SET search_path = join_list, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql
CREATE FUNCTION compare_join(query text) RETURNS text LANGUAGE sql AS $$ SELECT compare(query, 'GpuJoin') $$;

CREATE DOMAIN label AS text;
CREATE TABLE big (id int, i int, t text, u uuid, c char(20), n numeric, s text, v int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT g, w, 'text number ' || w, md5(w::text)::uuid, 'char ' || w, w / 4.0,
		md5(w::text)::uuid, g % 10
	FROM (SELECT g, CASE WHEN g % 50 <> 0 THEN g % 211 END AS w FROM generate_series(1, 3000) g) q;
CREATE INDEX big_i ON big USING gpujoin (i);
CREATE INDEX big_t ON big USING gpujoin (t);
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (v);
CREATE INDEX big_c ON big USING gpujoin (c);
CREATE INDEX big_n ON big USING gpujoin (n);
CREATE INDEX big_s ON big USING gpujoin (s text_id_ops) INCLUDE (v);
VACUUM ANALYZE big;
-- lists of each type; some have NULLs, values that are twice there or not in the table, two dimensions
CREATE TABLE lists (x int, i int[], t text[], u uuid[], c char(20)[], n numeric[], s text[]);
INSERT INTO lists SELECT x, i, ARRAY(SELECT 'text number ' || e FROM unnest(i) e), ARRAY(SELECT md5(e::text)::uuid FROM unnest(i) e),
		ARRAY(SELECT 'char ' || e FROM unnest(i) e), ARRAY(SELECT e / 4.0 FROM unnest(i) e), ARRAY(SELECT md5(e::text)::uuid FROM unnest(i) e)
	FROM (VALUES (1, '{3,10,17,17,NULL,5000,NULL}'::int[]), (2, '{}'), (3, NULL), (4, '{NULL}'), (5, '{{1,2,3},{4,5,6}}'),
		(6, ARRAY(SELECT g % 300 FROM generate_series(1, 1000) g))) q (x, i);
INSERT INTO lists (x, s) VALUES (7, ARRAY['no id at all', md5('3')::uuid::text, repeat('long ', 1000)]);

CREATE FUNCTION rows_of(node text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || query LOOP
		IF line ~ node THEN RETURN trim(regexp_replace(line, 'rows=(\d+)\.00', 'rows=\1')); END IF;
	END LOOP;
	RETURN NULL;
END $$;
SELECT rows_of('Function Scan', 'SELECT * FROM unnest(''{3,10,NULL,3}''::int[]) AS list (i) JOIN big USING (i)');

CREATE TABLE forms (number int GENERATED ALWAYS AS IDENTITY, form text);
INSERT INTO forms (form) VALUES ('SELECT b.*, e FROM unnest($) e JOIN big b ON b.# = e'),
	('SELECT b.*, e FROM unnest($) e JOIN big b ON b.# = e AND b.v < 5'),
	('SELECT b.* FROM big b WHERE EXISTS (SELECT FROM unnest($) e WHERE b.# = e)'),
	('SELECT e, b.id FROM unnest($) e LEFT JOIN big b ON b.# = e'),
	('SELECT e FROM unnest($) e WHERE EXISTS (SELECT FROM big b WHERE b.# = e)'),
	('SELECT e FROM unnest($) e WHERE NOT EXISTS (SELECT FROM big b WHERE b.# = e AND b.v = 3)'),
	('SELECT e, count(*), sum(v) FROM unnest($) e JOIN big b ON b.# = e GROUP BY e'),
	('SELECT count(*), sum(v) FROM unnest($) e JOIN big b ON b.# = e');
-- constants
SELECT number, c AS column, compare_join(replace(replace(form, '#', c), '$', format('%L::%s', list, type)))
FROM forms, (VALUES ('i', 'int[]', (SELECT i::text FROM lists WHERE x = 1)), ('t', 'text[]', (SELECT t::text FROM lists WHERE x = 1)),
	('u', 'uuid[]', (SELECT u::text FROM lists WHERE x = 1)), ('c', 'char(20)[]', (SELECT c::text FROM lists WHERE x = 1)),
	('n', 'numeric[]', (SELECT n::text FROM lists WHERE x = 1)), ('s', 'text[]', (SELECT s::text FROM lists WHERE x = 1))) l (c, type, list)
ORDER BY 1, 2;
-- parameters: of each row of the outer table, whose values are stored out of line or not
SELECT number, c AS column, compare_join(format('SELECT l.x, q FROM lists l, LATERAL (%s OFFSET 0) q',
	replace(replace(form, '#', c), '$', 'l.' || c)))
FROM forms, unnest('{i,t,u,c,n,s}'::text[]) c ORDER BY 1, 2;
-- of a subquery
SELECT number, compare_join(replace(replace(form, '#', 't'), '$', '(SELECT t FROM lists WHERE x = 6)')) FROM forms ORDER BY 1;
-- other types of arrays; elements that are not the key, or not the only column
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{text number 3,text number 4}''::varchar[]) e ON b.t = e');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{text number 3,text number 4}''::label[]) e ON b.t = e');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{3,4}''::int8[]) e ON b.i = e');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''3 4''::int2vector) e ON b.i = e');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{3,4}''::int[]) e ON b.i = e + 1');
SELECT compare_join('SELECT b.*, o FROM big b JOIN unnest(''{3,4}''::int[]) WITH ORDINALITY e (e, o) ON b.i = e');
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{3,4}''::int[]) e ON b.i = e AND e <> 4');
CREATE TYPE one AS (i int);
SELECT compare_join('SELECT b.* FROM big b JOIN unnest(''{(3),(4)}''::one[]) e ON b.i = e.i');

-- The rows do not fit in memory: they are copied, and sorted.
SET work_mem = '64kB';
SET hash_mem_multiplier = 1.0;
SELECT number, compare_join(replace(replace(form, '#', 't'), '$', 'ARRAY(SELECT ''text number '' || g % 3000 FROM generate_series(1, 6000) g)'))
FROM forms WHERE number NOT IN (7, 8) ORDER BY 1;
SELECT rows_of('Batches', 'SELECT e, b.id FROM unnest(ARRAY(SELECT ''text number '' || g % 3000 FROM generate_series(1, 6000) g)) e LEFT JOIN big b ON b.t = e')
	<> 'Batches: 1' AS several_batches;
RESET work_mem;
RESET hash_mem_multiplier;

-- generic plans, and cursors that begin again
SET plan_cache_mode = force_generic_plan;
PREPARE listed(text[]) AS SELECT count(*), count(e), sum(id) FROM unnest($1) e LEFT JOIN big b ON b.t = e;
EXECUTE listed('{text number 3,text number 10,NULL,text number 3}');
EXECUTE listed('{}');
EXECUTE listed(NULL);
EXECUTE listed((ARRAY['text number 3'] || ARRAY[repeat('x', 3000)]));
RESET plan_cache_mode;
BEGIN;
DECLARE again SCROLL CURSOR FOR SELECT e, b.id FROM unnest('{3,4,NULL}'::int[]) e LEFT JOIN big b ON b.i = e AND b.id < 300 ORDER BY 1, 2;
FETCH 3 FROM again;
MOVE ABSOLUTE 0 IN again;
FETCH ALL FROM again;
COMMIT;

RESET gpujoin.force;
SET client_min_messages = warning;
DROP SCHEMA join_list CASCADE;
