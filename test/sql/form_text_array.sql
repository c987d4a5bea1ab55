--
-- Arrays computed by an expression: cast from text, a function, a subquery; each is evaluated once
-- per scan
--
CREATE SCHEMA form_text_array;
SET search_path = form_text_array, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan_table.sql
CREATE TABLE small (k int, w int);
INSERT INTO small SELECT nullif(i, 7), i % 5 FROM generate_series(1, 30) i;
ANALYZE small;

-- A text parameter, cast
PREPARE from_text(text) AS SELECT b FROM big b WHERE k = ANY ($1::int[]);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE from_text('{1}');
RESET plan_cache_mode;
SELECT compare_generic('from_text', $$'{1,2,3}'$$, $$'{}'$$, 'NULL', $$'{NULL,1}'$$);

-- A text parameter, split
PREPARE split(text) AS SELECT b FROM big b WHERE k = ANY (string_to_array($1, ',')::int[]);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE split('1,2');
RESET plan_cache_mode;
SELECT compare_generic('split', $$'1,2,3'$$, $$''$$, 'NULL', $$'5,5'$$);
SELECT compare('SELECT * FROM big WHERE k = ANY (string_to_array(''1,2,3'', '','')::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY (string_to_array(''1,x,3'', '','', ''x'')::int[])');

-- An error in the text remains the same error
EXECUTE split('1,two');

-- Subqueries
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM small WHERE w = 1))');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY(SELECT k FROM small WHERE false))');
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT array_agg(k) FROM small)::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT array_agg(k) FROM small WHERE false)::int[])');
SELECT compare('SELECT * FROM big WHERE k = (SELECT max(k) FROM small)');

-- Functions: stable ones are evaluated once per scan, volatile ones are not supported
CREATE SEQUENCE calls;
CREATE FUNCTION wanted(n int) RETURNS int[] STABLE LANGUAGE plpgsql AS
	'BEGIN PERFORM nextval(''calls''); RETURN ARRAY(SELECT generate_series(1, n)); END';
CREATE FUNCTION moody() RETURNS int[] VOLATILE LANGUAGE plpgsql AS 'BEGIN RETURN ''{40,41,42}''; END';
SELECT count(*) FROM big WHERE k = ANY (wanted(50));
-- once for planning, and once for the scan
SELECT last_value <= 3 AS few_calls FROM calls;
SELECT compare('SELECT * FROM big WHERE k = ANY (wanted(20) || wanted(30) || NULL::int)');
SELECT compare('SELECT * FROM big WHERE k = ANY (moody())');

-- A correlated subquery: evaluated again for each outer row
SELECT compare('SELECT w, (SELECT count(*) FROM big WHERE big.k = ANY (ARRAY[small.k, small.w])) FROM small');

-- A toasted, compressed array
CREATE TABLE sets (id int, wanted int[]);
INSERT INTO sets SELECT 1, array_agg((i * 7919) % 1000) FROM generate_series(1, 50000) i;
SELECT compare('SELECT * FROM big WHERE k = ANY ((SELECT wanted FROM sets)::int[]) AND id % 7 = 0');

SET client_min_messages = warning;
DROP SCHEMA form_text_array CASCADE;
