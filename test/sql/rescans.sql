--
-- Scans that are run again for each row of the query around them: which index is chosen
--
CREATE SCHEMA rescans;
SET search_path = rescans, public;
SET max_parallel_workers_per_gather = 0;

-- Rows of 1, 2, 5, 50 and 500 in random order for each key, with a btree and one of ours on each column
CREATE TABLE children (id int, k1 int, k2 int, k5 int, k50 int, k500 int, created int, note text) WITH (autovacuum_enabled = off);
CREATE TABLE parts (LIKE children) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (100001);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (100001) TO (200001);
INSERT INTO children SELECT i, n % 100000, n % 50000, n % 20000, n % 2000, n % 200, i, repeat('x', 40)
	FROM generate_series(1, 100000) i, LATERAL (SELECT i * 7919::int8 % 100003 AS n) n;
INSERT INTO parts SELECT * FROM children UNION ALL SELECT id + 100000, k1, k2, k5, k50, k500, created, note FROM children;
CREATE FUNCTION index_all(method text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	k text;
BEGIN
	FOREACH k IN ARRAY '{k1,k2,k5,k50,k500}'::text[] LOOP
		EXECUTE format('CREATE INDEX ON children USING %s (%s)', method, k);
		EXECUTE format('CREATE INDEX ON parts USING %s (%s)', method, k);
	END LOOP;
END $$;
SELECT index_all('gpujoin');
SELECT index_all('btree');
CREATE TABLE parents (id int);
INSERT INTO parents SELECT i * 31 FROM generate_series(1, 300) i;
VACUUM ANALYZE children, parts, parents;

-- The node that reads the children, where the plan is the one that is chosen by costs
CREATE FUNCTION node(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ '(children|part_1)' THEN
			RETURN substring(line from 'Gpu\w+|Bitmap Heap|Bitmap Index|Index Only|Index');
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION nodes(form text) RETURNS TABLE (k text, children text, parts text) LANGUAGE sql AS $$
	SELECT k, node(format(form, 'children', k)), node(format(form, 'parts', k)) FROM unnest('{k1,k2,k5,k50,k500}'::text[]) k
$$;
CREATE VIEW forms(name, form) AS VALUES
	('sum', 'SELECT p.id, (SELECT sum(length(c.note)) FROM %1$s c WHERE c.%2$s = p.id) FROM parents p'),
	('rows', 'SELECT p.id, c.* FROM parents p LEFT JOIN LATERAL (SELECT * FROM %1$s c WHERE c.%2$s = p.id OFFSET 0) c ON true'),
	('json', 'SELECT p.id, c.j FROM parents p LEFT JOIN LATERAL (SELECT json_agg(json_build_array(c.id, c.note)) AS j FROM %1$s c WHERE c.%2$s = p.id) c ON true'),
	('newest', 'SELECT p.id, c.* FROM parents p CROSS JOIN LATERAL (SELECT c.id, c.note FROM %1$s c WHERE c.%2$s = p.id ORDER BY c.created DESC LIMIT 3) c'),
	('two conditions', 'SELECT p.id, (SELECT sum(length(c.note)) FROM %1$s c WHERE c.%2$s = p.id AND c.created > 1000) FROM parents p'),
	('count', 'SELECT p.id, (SELECT count(*) FROM %1$s c WHERE c.%2$s = p.id) FROM parents p'),
	('exists', 'SELECT p.id, EXISTS (SELECT FROM %1$s c WHERE c.%2$s = p.id OFFSET 0) FROM parents p');
SELECT name, n.* FROM forms, nodes(form) n;

-- A search that is not run again is charged for all that it does
SELECT n, node(format('SELECT * FROM children WHERE %s = 62', n)) FROM unnest('{k1,k2,k5}'::text[]) n;
SELECT node('SELECT * FROM children WHERE k5 = (SELECT max(id) FROM parents)');

-- A correlated condition on another column does not search again
SELECT node('SELECT p.id, (SELECT sum(length(c.note)) FROM children c WHERE c.k5 = 62 AND c.id > p.id) FROM parents p');

-- The answers are right, of course
SET gpujoin.min_rows = 1000000;
CREATE TABLE stock AS SELECT p.id, (SELECT sum(c.id) FROM children c WHERE c.k5 = p.id), (SELECT sum(c.id) FROM parts c WHERE c.k50 = p.id % 2000) AS parts FROM parents p;
RESET gpujoin.min_rows;
CREATE TABLE ours AS SELECT p.id, (SELECT sum(c.id) FROM children c WHERE c.k5 = p.id), (SELECT sum(c.id) FROM parts c WHERE c.k50 = p.id % 2000) AS parts FROM parents p;
SELECT count(*), count(sum) > 100 AS some, count(parts) FROM (TABLE ours INTERSECT TABLE stock) o;

-- With our index alone, nested loops use it by plain scans, which are charged for what they do together
DROP INDEX children_k5_idx1, children_k50_idx1, children_k500_idx1;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT node('SELECT p.id, c.* FROM parents p LEFT JOIN children c ON c.k5 = ANY (ARRAY[p.id])');
RESET enable_hashjoin;
RESET enable_mergejoin;
CREATE FUNCTION cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan #> '{0,Plan,Plans,1,Total Cost}';
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_memoize = off;
SELECT cost(format(q, 300)) < 0.7 * cost(format(q, 1)) AS together_cheaper
	FROM (SELECT 'SELECT c.* FROM generate_series(1, %s) p(id) LEFT JOIN children c ON c.k5 = ANY (ARRAY[p.id])' AS q) q;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_memoize;

SET client_min_messages = warning;
DROP SCHEMA rescans CASCADE;
