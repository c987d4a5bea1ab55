--
-- A GpuAgg never costs less than its child plan in anything that EXPLAIN shows
--
CREATE SCHEMA aggregate_costs;
SET search_path = aggregate_costs, public;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE facts (id int, k int, v int);
INSERT INTO facts SELECT i, i * 7919 % 20000, i % 100 FROM generate_series(1, 200000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k) INCLUDE (v);
CREATE TABLE small (k int, g text);
INSERT INTO small SELECT i, 'group ' || i % 7 FROM generate_series(1, 1000) i;
CREATE TABLE parts (id int, k int, v int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100001);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100001) TO (300000);
INSERT INTO parts SELECT * FROM facts;
CREATE INDEX parts_k ON parts USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE facts, small, parts;

-- Find our nodes whose child costs more; a parallel Append divides its children's costs
CREATE FUNCTION dearer_children(query text, OUT nodes text[], OUT dearer text[]) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	WITH RECURSIVE tree AS (
		SELECT plan -> 0 -> 'Plan' AS node, NULL::jsonb AS parent
		UNION ALL
		SELECT child, node FROM tree, jsonb_array_elements(node -> 'Plans') child),
	named AS (
		SELECT coalesce(node ->> 'Custom Plan Provider', node ->> 'Node Type') AS name,
			(node ->> 'Total Cost')::float8 > (parent ->> 'Total Cost')::float8 + 0.01 AND parent ->> 'Node Type' <> 'Append' AS dear
		FROM tree)
	SELECT array_agg(name ORDER BY name COLLATE "C"), array_agg(name ORDER BY name COLLATE "C") FILTER (WHERE dear) INTO nodes, dearer FROM named;
END $$;

SELECT * FROM dearer_children('SELECT count(*), sum(v) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM dearer_children('SELECT v, count(*) FROM facts WHERE k <= 3000 AND k = ANY (ARRAY(SELECT k FROM small)) GROUP BY v');
SELECT * FROM dearer_children('SELECT count(*), sum(v) FROM facts JOIN small USING (k)');
SELECT * FROM dearer_children('SELECT g, count(*) FROM facts JOIN small USING (k) GROUP BY g');
SELECT * FROM dearer_children('SELECT DISTINCT v FROM facts JOIN small USING (k)');
SELECT * FROM dearer_children('SELECT count(*), sum(v) FROM parts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT * FROM dearer_children('SELECT count(*), sum(v) FROM parts JOIN small USING (k)');
SELECT * FROM dearer_children('SELECT count(id) FROM facts JOIN small USING (k)');

-- The same in a parallel plan, if one is chosen
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SELECT dearer FROM dearer_children('SELECT count(*), sum(v) FROM facts WHERE k = ANY (ARRAY(SELECT k FROM small))');
SELECT dearer FROM dearer_children('SELECT count(*), sum(v) FROM facts JOIN small USING (k)');

SET client_min_messages = warning;
DROP SCHEMA aggregate_costs CASCADE;
