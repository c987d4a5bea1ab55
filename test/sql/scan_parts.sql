-- GpuScan on the partitions of a table: each is searched for the keys that it can contain, whatever
-- the levels above it are partitioned by. The rows are those of stock plans.
CREATE SCHEMA gj_scan_parts;
SET search_path = gj_scan_parts, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql
\i :abs_srcdir/sql/common/explain.sql

-- Return for each table: the number of keys searched for, and the number that only others can
-- contain
CREATE FUNCTION searched(query text) RETURNS TABLE (relation text, keys int, elsewhere int,
													searched bool, found int)
LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) ' || query INTO plan;
	RETURN QUERY
	SELECT node ->> 'Relation Name', (node ->> 'Keys')::int,
		(node ->> 'Keys of Other Partitions')::int, (node ->> 'Entries Searched')::int > 0,
		(node ->> 'Matched TIDs')::int
	FROM jsonb_path_query(plan, 'strict $.**?(@."Custom Plan Provider" == "GpuScan")') node;
END $$;

CREATE TABLE rows AS
SELECT i AS id, CASE WHEN i % 50 > 0 THEN i * 7919 % 1000 END AS key, i % 10 AS v
FROM generate_series(1, 3000) i;

-- one level
CREATE TABLE by_range (id int, key int, v int) PARTITION BY RANGE (key);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE by_range_2 (v int, gone text, key int, id int);
ALTER TABLE by_range_2 DROP gone;
ALTER TABLE by_range ATTACH PARTITION by_range_2 FOR VALUES FROM (100) TO (200);
CREATE TABLE by_range_3 PARTITION OF by_range FOR VALUES FROM (300) TO (900);
CREATE TABLE by_range_d PARTITION OF by_range DEFAULT;
CREATE TABLE by_list (id int, key bigint, v int) PARTITION BY LIST (key);
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN (3, 6, NULL);
CREATE TABLE by_list_2 PARTITION OF by_list FOR VALUES IN (9);
CREATE TABLE by_list_d PARTITION OF by_list DEFAULT;
CREATE TABLE by_hash (id int, key smallint, v int) PARTITION BY HASH (key);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE by_hash_3 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE TABLE by_hash_4 PARTITION OF by_hash FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE by_hash_5 PARTITION OF by_hash FOR VALUES WITH (MODULUS 8, REMAINDER 6);
-- several: by the key, by another column, by the key
CREATE TABLE deep (id int, key int, v int) PARTITION BY RANGE (key);
CREATE TABLE deep_a PARTITION OF deep FOR VALUES FROM (0) TO (500) PARTITION BY LIST (v);
CREATE TABLE deep_a_1 PARTITION OF deep_a FOR VALUES IN (0, 1, 2) PARTITION BY HASH (key);
CREATE TABLE deep_a_1_0 PARTITION OF deep_a_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE deep_a_1_1 (key int, v int, id int);
ALTER TABLE deep_a_1 ATTACH PARTITION deep_a_1_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE deep_a_d PARTITION OF deep_a DEFAULT;
CREATE TABLE deep_d PARTITION OF deep DEFAULT PARTITION BY RANGE (key);
CREATE TABLE deep_d_1 PARTITION OF deep_d FOR VALUES FROM (500) TO (600);
CREATE TABLE deep_d_d PARTITION OF deep_d DEFAULT;
-- by the key and another column, by an expression, by another column: each table is searched for
-- all keys
CREATE TABLE by_two (id int, key int, v int) PARTITION BY RANGE (key, v);
CREATE TABLE by_two_1 PARTITION OF by_two FOR VALUES FROM (0, 0) TO (500, 5);
CREATE TABLE by_two_d PARTITION OF by_two DEFAULT;
CREATE TABLE by_sum (id int, key int, v int) PARTITION BY HASH ((key + 1));
CREATE TABLE by_sum_0 PARTITION OF by_sum FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_sum_1 PARTITION OF by_sum FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE by_id (id int, key int, v int) PARTITION BY RANGE (id);
CREATE TABLE by_id_1 PARTITION OF by_id FOR VALUES FROM (0) TO (1000);
CREATE TABLE by_id_d PARTITION OF by_id DEFAULT;
-- operator classes of its own: an order and a hash other than the key type's
CREATE FUNCTION odd_compare(int, int) RETURNS int IMMUTABLE STRICT LANGUAGE sql
AS 'SELECT btint4cmp($2 % 100, $1 % 100)';
CREATE FUNCTION odd_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql
AS 'SELECT ($1 / 7)::bigint';
CREATE FUNCTION odd_less(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE sql
AS 'SELECT $2 % 100 < $1 % 100';
CREATE FUNCTION odd_not_less(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE sql
AS 'SELECT $2 % 100 <= $1 % 100';
CREATE OPERATOR #< (FUNCTION = odd_less, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR #>= (FUNCTION = odd_not_less, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR CLASS odd_order FOR TYPE int USING btree AS
	OPERATOR 1 #<, OPERATOR 3 =, OPERATOR 4 #>=, FUNCTION 1 odd_compare(int, int);
CREATE OPERATOR CLASS odd_hashes FOR TYPE int USING hash AS
	OPERATOR 1 =, FUNCTION 2 odd_hash(int, bigint);
CREATE TABLE odd (id int, key int, v int) PARTITION BY RANGE (key odd_order);
CREATE TABLE odd_1 PARTITION OF odd FOR VALUES FROM (99) TO (40);
CREATE TABLE odd_2 PARTITION OF odd FOR VALUES FROM (40) TO (30) PARTITION BY HASH (key odd_hashes);
CREATE TABLE odd_2_0 PARTITION OF odd_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE odd_2_1 PARTITION OF odd_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE odd_d PARTITION OF odd DEFAULT;

SELECT format('INSERT INTO %1$s SELECT * FROM rows %2$s; CREATE INDEX ON %1$s USING gpujoin (key);',
	name, CASE WHEN name IN ('by_hash', 'odd') THEN 'WHERE key IS NOT NULL' END)
FROM unnest('{by_range,by_list,by_hash,deep,by_two,by_sum,by_id,odd}'::text[]) name \gexec
ANALYZE;
-- dead rows, new versions, rows that moved
UPDATE deep SET key = key + 1 WHERE id % 13 = 0;
UPDATE by_range SET v = v + 10 WHERE id % 17 = 0;
DELETE FROM by_range WHERE id % 23 = 0;

SET gpujoin.force = on;
SET enable_partition_pruning = off;
SELECT * FROM searched('SELECT id FROM by_range WHERE key IN (5, 99, 100, 199, 200, 250, 300, 1500)');
SELECT * FROM searched('SELECT id FROM by_list WHERE key IN (3, 6, 9, 12, 3, NULL)');
SELECT * FROM searched('SELECT id FROM by_hash WHERE key IN (9, 10, 50)');
-- outside of the column's range, for both widths
SELECT * FROM searched('SELECT id FROM by_hash WHERE key = ANY (''{9, 65545, 70000}''::int[])');
SELECT * FROM searched('SELECT id FROM by_range WHERE key = ANY (''{5, 150, 5000000000}''::bigint[])');
SELECT * FROM searched('SELECT id FROM deep WHERE key IN (5, 8, 10, 505, 700, 800)');
SELECT * FROM searched('SELECT id FROM deep_a WHERE key IN (5, 8, 10, 505, 700, 800)');
SELECT * FROM searched('SELECT id FROM deep_a_1_0 WHERE key IN (5, 8, 10, 505, 700, 800)');
SELECT * FROM searched('SELECT id FROM by_two WHERE key IN (5, 700)');
SELECT * FROM searched('SELECT id FROM by_sum WHERE key IN (5, 700)');
SELECT * FROM searched('SELECT id FROM by_id WHERE key IN (5, 700)');
SELECT * FROM searched('SELECT id FROM odd WHERE key IN (5, 55, 35, 938, 45)');
-- ranges, as those between excluded keys are, go to each partition
SELECT * FROM searched('SELECT id FROM by_range WHERE key NOT IN (5, 150, 250, 251)');
-- other conditions on the key
SELECT * FROM searched('SELECT id FROM by_range WHERE key::numeric IN (5.0, 150, 250.5)');
SELECT * FROM searched('SELECT id FROM by_range WHERE (key IN (5, 150) OR key = 250) IS TRUE');
SELECT * FROM searched('SELECT id FROM by_range
	WHERE key IN (5, 150, 250) AND key = ANY (''{150, 250, 350}'')');
-- in text format, only if there are such keys
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM by_list WHERE key IN (3, 10, 11)');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT id FROM by_list_d WHERE key IN (3, 10, 11)');
RESET enable_partition_pruning;
RESET gpujoin.force;

-- The rows
CREATE FUNCTION compare_forms(name text, OUT form text, OUT n bigint, OUT missing bigint,
							  OUT surplus bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOREACH form IN ARRAY ARRAY[
		'key IN (5, 8, 10, 55, 99, 100, 350, 505, 700, 800, 938, 3, 6, 9, NULL)',
		'key = ANY (ARRAY(SELECT generate_series(-50, 1200, 3))::bigint[])',
		'key NOT IN (5, 8, 10, 55, 99, 100, 350, 505, 700, 800, 938, 3, 6, 9)',
		'key NOT IN (5, 8, NULL)',
		'key <> ALL (''{}'')',
		'(key = ANY (ARRAY[5, 8, 700, NULL])) IS TRUE',
		'COALESCE(key = ANY (ARRAY[5, 8, 700, NULL]), false)',
		'key = ANY (ARRAY[5, 8]) OR (key IS NULL AND array_position(ARRAY[5, NULL], NULL) IS NOT NULL)',
		'key IN (5, 8, 700) AND v < 3',
		'key IN (5, 8, 700) OR key = 701 OR key IN (99, 100)']
	LOOP
		SELECT d.* INTO n, missing, surplus
		FROM both_ways(format('SELECT *, tableoid AS o FROM %I WHERE %s', name, form)) d;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT name, sum(n) AS n, sum(missing) AS missing, sum(surplus) AS surplus
FROM unnest('{by_range,by_list,by_hash,deep,by_two,by_sum,by_id,odd}'::text[]) name,
	compare_forms(name) GROUP BY name ORDER BY name;
SELECT * FROM both_ways('SELECT a.id, b.key FROM deep a JOIN deep_a b USING (id)
	WHERE a.key IN (5, 8, 10, 505) AND b.key IN (5, 8, 10, 505)');
SELECT * FROM both_ways('SELECT * FROM (SELECT id, key FROM deep UNION ALL SELECT id, key FROM by_range
	UNION ALL SELECT id, key FROM by_id_1) u WHERE key IN (5, 8, 10, 505)');
-- Parameters: the same plan with other keys, none, NULL, keys that change between rescans
SET gpujoin.force = on;
SET plan_cache_mode = force_generic_plan;
PREPARE by_keys(int[]) AS SELECT tableoid::regclass, id, key FROM by_range WHERE key = ANY ($1)
ORDER BY id;
SELECT * FROM searched('EXECUTE by_keys(''{5, 150, NULL}'')');
EXECUTE by_keys('{5, 150, NULL}');
EXECUTE by_keys('{250, 150}');
EXECUTE by_keys('{}');
EXECUTE by_keys(NULL);
EXECUTE by_keys('{{5, 150}, {250, 350}}');
-- the bounds change
BEGIN;
CREATE TABLE by_range_4 PARTITION OF by_range FOR VALUES FROM (2000) TO (2100);
INSERT INTO by_range VALUES (9001, 2040, 1), (9002, 2140, 1);
EXECUTE by_keys('{2040, 2140}');
ALTER TABLE by_range DETACH PARTITION by_range_4;
INSERT INTO by_range VALUES (9003, 2040, 1);
EXECUTE by_keys('{2040, 2140}');
ROLLBACK;
EXECUTE by_keys('{2040, 2140}');
RESET plan_cache_mode;
SELECT * FROM searched('SELECT o.x, l.n FROM (VALUES (5), (105), (205), (305)) o(x), LATERAL (
	SELECT count(*) AS n FROM by_range WHERE key = ANY (ARRAY[o.x, o.x + 1])) l');
RESET gpujoin.force;
SELECT * FROM both_ways('SELECT o.x, l.* FROM (VALUES (5), (105), (205), (305), (NULL), (5)) o(x),
	LATERAL (SELECT id, key FROM by_range WHERE key = ANY (ARRAY[o.x, o.x + 1, 700])) l');
SELECT * FROM both_ways('SELECT o.x, (SELECT sum(id) FROM deep WHERE key = ANY (o.x))
	FROM (VALUES (''{5, 505}''::int[]), (''{8, 9}''), (''{8, 9}''), (NULL), (''{}'')) o(x)');
-- A subquery that the condition does not need is not executed, not even to compare the keys; one
-- that it needs only for some rows has not been executed when the first of them are searched for
SELECT * FROM both_ways('SELECT id, key FROM by_range WHERE key = ANY (
	CASE WHEN current_setting(''search_path'') = '''' THEN ARRAY(SELECT 1 / i FROM generate_series(0, 1) i)
		ELSE ''{5, 105}'' END)');
SELECT * FROM both_ways('SELECT o.x, l.* FROM (VALUES (5), (105), (NULL), (5), (NULL)) o(x),
	LATERAL (SELECT id, key FROM by_range WHERE key = COALESCE(o.x,
		(SELECT max(i) FROM generate_series(300, 310) i)) OFFSET 0) l');
SELECT * FROM both_ways('SELECT o.x, l.* FROM (VALUES (5), (105), (NULL), (5), (NULL)) o(x),
	LATERAL (SELECT id, key FROM by_range WHERE key = COALESCE(nullif(o.x, 5),
		(SELECT max(i) + coalesce(o.x, 0) FROM generate_series(300, 310) i)) OFFSET 0) l');

-- Index-only answers, parallel plans
CREATE INDEX ON deep USING gpujoin (key) INCLUDE (id, v);
VACUUM ANALYZE deep;
SET gpujoin.force = on;
SELECT * FROM searched('SELECT id, key FROM deep WHERE key IN (5, 8, 10, 505, 700, 800)');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
RESET gpujoin.force;
SELECT sum(n) AS n, sum(missing) AS missing, sum(surplus) AS surplus FROM compare_forms('deep');
SELECT sum(n) AS n, sum(missing) AS missing, sum(surplus) AS surplus FROM compare_forms('by_range');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;

-- A key that an operator class computes in another way is not converted back to a value
CREATE FUNCTION other_key(int) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql AS 'SELECT -$1::bigint';
CREATE OPERATOR CLASS other_keys FOR TYPE int USING gpujoin AS
	OPERATOR 1 =, FUNCTION 1 other_key(int);
CREATE INDEX other ON by_range_2 USING gpujoin (key other_keys);
DROP INDEX by_range_key_idx;
CREATE INDEX another ON by_range_1 USING gpujoin (key other_keys);
SELECT * FROM both_ways('SELECT * FROM by_range WHERE key IN (5, 105, 150)');
SET gpujoin.force = on;
SELECT * FROM searched('SELECT id FROM by_range WHERE key IN (5, 105, 150)');

RESET gpujoin.force;

SET client_min_messages = warning;
DROP SCHEMA gj_scan_parts CASCADE;
