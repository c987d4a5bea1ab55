--
-- "key IS NULL AND condition": the condition is evaluated before the scan only if that is
-- unobservable
--
SET client_min_messages = warning;
CREATE SCHEMA form_null_key;
SET search_path = form_null_key, public;
SET gpujoin.force = on;
CREATE TABLE big (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 100 FROM generate_series(1, 20000) i;
CREATE INDEX big_k ON big USING gpujoin (k);
ANALYZE big;
CREATE TABLE zero (n int);
INSERT INTO zero VALUES (0);
SET enable_memoize = off;
CREATE SEQUENCE drawn;
CREATE TABLE asked (a bool);
INSERT INTO asked VALUES (true), (false);

-- If no row has a NULL key, PostgreSQL executes none of these subqueries
SELECT count(*) FROM big
	WHERE k = ANY ('{1,2}') OR (k IS NULL AND (SELECT 1 / n FROM zero) IS NOT NULL);
SELECT count(*) FROM big
	WHERE k = ANY ('{1,2}') OR (k IS NULL AND (SELECT nextval('drawn') > 0));
SELECT is_called FROM drawn;
SELECT count(*) FROM big
	WHERE k = ANY ('{1,2}')
	OR (k IS NULL AND array_position((SELECT array_agg(1 / n) FROM zero), NULL) IS NOT NULL);
SELECT count(*) FROM (SELECT DISTINCT k FROM big) pushed_down
	WHERE k = ANY ('{1,2}') OR (k IS NULL AND (SELECT 1 / n FROM zero) IS NOT NULL);
-- nor evaluates this array
SET plan_cache_mode = force_generic_plan;
PREPARE array_fails(int) AS SELECT count(*) FROM big
	WHERE k = ANY ('{1,2}') OR (k IS NULL AND array_position(ARRAY[1 / $1], NULL) IS NOT NULL);
EXECUTE array_fails(0);

-- Comparisons of integers cannot fail, but divisions can
PREPARE cannot_fail(int) AS SELECT count(*) FROM big WHERE k = 7 OR (k IS NULL AND $1 = 5);
EXPLAIN (COSTS OFF) EXECUTE cannot_fail(5);
EXECUTE cannot_fail(5);
PREPARE may_fail(int) AS SELECT count(*) FROM big WHERE k = 7 OR (k IS NULL AND 5 / $1 = 5);
EXECUTE may_fail(0);

-- These have been evaluated already, or will be anyway
PREPARE array_is_there(text) AS SELECT count(*) FROM big
	WHERE k = ANY ($1::int[]) OR (k IS NULL AND array_position($1::int[], NULL) IS NOT NULL);
EXPLAIN (COSTS OFF) EXECUTE array_is_there('{1,2}');
EXECUTE array_is_there('{1,2}');
EXECUTE array_is_there('{1,NULL}');
PREPARE elements(int, int) AS SELECT count(*) FROM big
	WHERE k = 7 OR (k IS NULL AND array_position(ARRAY[$1, $2], NULL) IS NOT NULL);
EXPLAIN (COSTS OFF) EXECUTE elements(1, 2);
INSERT INTO big VALUES (0, NULL);
EXECUTE array_is_there('{1,NULL}');
EXECUTE elements(1, 2);
EXECUTE elements(1, NULL);
EXPLAIN (COSTS OFF) SELECT * FROM asked, LATERAL (SELECT count(*) FROM big WHERE k = 5 OR (k IS NULL AND a)) n;
SELECT * FROM asked, LATERAL (SELECT count(*) FROM big WHERE k = 5 OR (k IS NULL AND a)) n ORDER BY 1;

-- With such a row they are executed
SELECT count(*) FROM big
	WHERE k = ANY ('{1,2}') OR (k IS NULL AND (SELECT nextval('drawn') > 0));
SELECT is_called FROM drawn;
SELECT count(*) FROM big
	WHERE k = ANY ('{1,2}') OR (k IS NULL AND (SELECT 1 / n FROM zero) IS NOT NULL);

-- Alone, such a condition is answered by the index, too, which stores NULL keys
PREPARE alone_coalesce(bool) AS SELECT count(*) FROM big WHERE COALESCE(k IS NULL AND $1 IS NOT NULL, false);
PREPARE alone_test(bool) AS SELECT count(*) FROM big WHERE (k IS NULL AND $1) IS TRUE;
PREPARE alone_array(int[]) AS SELECT count(*) FROM big
	WHERE COALESCE(k IS NULL AND array_position($1, NULL) IS NOT NULL, false);
PREPARE alone_nested(bool, bool) AS SELECT count(*) FROM big
	WHERE COALESCE((k IS NULL AND $1) OR COALESCE(k IS NULL AND $2, false), false);
PREPARE alone_and(bool) AS SELECT count(*) FROM big WHERE COALESCE(COALESCE(k IS NULL AND $1, false) AND id >= 0, false);
SET gpujoin.aggregate = off;
EXPLAIN (COSTS OFF) EXECUTE alone_coalesce(true);
EXPLAIN (COSTS OFF) EXECUTE alone_test(true);
EXPLAIN (COSTS OFF) EXECUTE alone_array('{1,NULL}');
EXPLAIN (COSTS OFF) EXECUTE alone_nested(true, false);
EXPLAIN (COSTS OFF) EXECUTE alone_and(true);
EXECUTE alone_coalesce(true);
EXECUTE alone_test(true);
EXECUTE alone_array('{1,NULL}');
EXECUTE alone_nested(true, false);
EXECUTE alone_and(true);
-- With keys beside it
PREPARE beside(bool) AS SELECT count(*) FROM big WHERE COALESCE((k IS NULL AND $1) OR k = 5, false);
EXPLAIN (COSTS OFF) EXECUTE beside(false);
EXECUTE beside(false);
EXECUTE beside(true);
-- Of an index whose codes have rests
CREATE TABLE ids AS
	SELECT CASE WHEN i % 10 > 0 THEN md5(i::text)::uuid END AS k FROM generate_series(1, 2000) i;
CREATE INDEX ids_k ON ids USING gpujoin (k);
ANALYZE ids;
PREPARE alone_uuid(bool) AS SELECT count(*) FROM ids WHERE COALESCE(k IS NULL AND $1, false);
EXPLAIN (COSTS OFF) EXECUTE alone_uuid(true);
EXECUTE alone_uuid(true);
EXECUTE alone_uuid(false);
RESET gpujoin.aggregate;

DROP SCHEMA form_null_key CASCADE;
