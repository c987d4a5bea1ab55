--
-- key = ANY (array), key IN (list): constants and parameters, custom and generic plans
--
CREATE SCHEMA form_any;
SET search_path = form_any, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan_table.sql

-- Constants: the plan
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k = ANY ('{1,2,3}');
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k IN (1, 2, 3);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k IN (1);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k = ANY (ARRAY[1, 2, 3]) AND id > 100;

-- and the rows: duplicates, NULLs, an empty set
SELECT compare('SELECT * FROM big WHERE k = ANY (''{1,2,3,3,2,1}'')');
SELECT compare('SELECT * FROM big WHERE k IN (5, 5, 5)');
SELECT compare('SELECT * FROM big WHERE k IN (1, NULL, 2)');
SELECT compare('SELECT * FROM big WHERE k IN (NULL, NULL)');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{}'')');
SELECT compare('SELECT * FROM big WHERE k = ANY (''{NULL}'')');
SELECT compare('SELECT * FROM big WHERE k = ANY (NULL::int[])');
SELECT compare('SELECT * FROM big WHERE k = ANY (ARRAY[[1, 2], [3, NULL]])');
SELECT compare('SELECT * FROM big WHERE k = ANY (''[7:9]={1,2,3}''::int[])');
SELECT compare('SELECT * FROM big WHERE k = SOME (''{1,2,3}'')');

-- A parameter: a generic plan does not know the array in advance
PREPARE any_array(int[]) AS SELECT b FROM big b WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE any_array('{1}');
RESET plan_cache_mode;
SELECT compare_generic('any_array', $$'{1,2,3}'$$, $$'{}'$$, 'NULL', $$'{NULL,5,NULL,5}'$$, $$'{99999}'$$,
	$$'{{1,2},{3,4}}'$$);

-- and in a custom plan it is a constant; from the sixth execution on either plan may be used
EXPLAIN (COSTS OFF) EXECUTE any_array('{1,2}');
DO $$
DECLARE
	result text := '';
	n bigint;
BEGIN
	FOR i IN 1..8 LOOP
		SELECT count(*) INTO n FROM big WHERE k = ANY (ARRAY[i, i + 1, i]);
		result := result || ' ' || n;
	END LOOP;
	RAISE NOTICE '%', result;
END $$;

-- A list of parameters, padded with the last one as Hibernate does
PREPARE padded(int, int, int, int) AS SELECT b FROM big b WHERE k IN ($1, $2, $3, $4);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE padded(1, 2, 3, 3);
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) EXECUTE padded(1, 2, 3, 3);
SELECT compare_generic('padded', '1, 2, 3, 3', '1, 1, 1, 1', 'NULL, NULL, NULL, NULL', '1, NULL, 2, NULL', '-5000, 5000, 0, 0');

-- Constants and parameters mixed
PREPARE mixed(int, int) AS SELECT b FROM big b WHERE k IN ($1, 7, $2, 9, NULL);
SELECT compare_generic('mixed', '1, 2', '7, 9', 'NULL, NULL');

-- Several conditions on one key are intersected
SELECT compare('SELECT * FROM big WHERE k IN (1, 2, 3, 4) AND k = ANY (''{2,3,4,5}'') AND k IN (4, 3)');
SELECT compare('SELECT * FROM big WHERE k IN (1, 2) AND k IN (3, 4)');
PREPARE two_arrays(int[], int[]) AS SELECT b FROM big b WHERE k = ANY ($1) AND k = ANY ($2);
SELECT compare_generic('two_arrays', $$'{1,2,3}', '{2,3,4}'$$, $$'{1,2,3}', NULL$$, $$'{}', '{1}'$$);

-- A list of thousands of literals
SELECT compare(format('SELECT * FROM big WHERE k IN (%s)', string_agg(i::text, ', '))) FROM generate_series(1, 20000, 3) i;

SET client_min_messages = warning;
DROP SCHEMA form_any CASCADE;
