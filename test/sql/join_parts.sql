-- GpuJoin with a big side of several tables: partitions, children, UNION ALL. The rows are those of
-- stock plans, columns may have any position in a table, filters and barriers are respected.
CREATE SCHEMA gj_parts;
SET search_path = gj_parts, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/both_ways.sql

-- Run a query under gpujoin.force and with gpujoin off. Return which joins of the forced plan are
-- ours and how many tables they scan, how many rows are returned, and how many rows each answer
-- lacks.
CREATE FUNCTION compare(query text, OUT nodes text, OUT scans bigint, OUT n bigint,
						OUT missing bigint, OUT surplus bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	scans = 0;
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Join Type: ' THEN
			nodes = concat_ws(', ', nodes, substring(line FROM 'Join Type: (.*)'));
		END IF;
		scans = scans + (line ~ 'GpuJoinScan')::int;
	END LOOP;
	SELECT d.* INTO n, missing, surplus FROM both_ways(query) d;
END $$;

-- The join types that small and a big relation can have
CREATE FUNCTION compare_kinds(big text, OUT kind text, OUT nodes text, OUT scans bigint,
							  OUT n bigint, OUT missing bigint, OUT surplus bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOR kind, query IN VALUES
		('inner', 'SELECT b.id, b.t, s.* FROM small s JOIN %s b ON b.key = s.k'),
		('clauses', 'SELECT b.*, s.x FROM %s b JOIN small s ON s.k = b.key AND b.v <> s.x
			WHERE b.v > 2 AND b.t LIKE ''%%1%%'''),
		('in', 'SELECT b.* FROM %s b WHERE key IN (SELECT k FROM small)'),
		('exists', 'SELECT b.id FROM %s b WHERE EXISTS (SELECT FROM small s WHERE s.k = b.key
			AND s.x < b.v)'),
		('small exists', 'SELECT * FROM small s WHERE EXISTS (SELECT FROM %s b WHERE b.key = s.k
			AND b.v > 3)'),
		('left', 'SELECT s.*, b.id, b.t FROM small s LEFT JOIN %s b ON b.key = s.k AND b.v > 3'),
		('left, above', 'SELECT s.*, b.id FROM small s LEFT JOIN %s b ON b.key = s.k AND b.v > s.x
			WHERE b.t IS NULL OR b.t LIKE ''%%1'''),
		('anti', 'SELECT * FROM small s WHERE NOT EXISTS (SELECT FROM %s b WHERE b.key = s.k
			AND b.v > 3)'),
		('whole rows', 'SELECT b, s, b.tableoid AS o, b.ctid AS c, b.key FROM small s JOIN %s b
			ON b.key = s.k'),
		('left, whole', 'SELECT b, s, b.tableoid AS o FROM small s LEFT JOIN %s b ON b.key = s.k'),
		('expressions', 'SELECT b.id + s.x, coalesce(b.t, s.label), (b).v FROM small s
			JOIN %s b ON b.key = s.k + 1'),
		('aggregate', 'SELECT s.x, count(*), sum(b.v) FROM small s JOIN %s b ON b.key = s.k
			GROUP BY s.x')
	LOOP
		SELECT c.* INTO nodes, scans, n, missing, surplus FROM compare(format(query, big)) c;
		RETURN NEXT;
	END LOOP;
END $$;

CREATE TABLE small (k int, x int, label text);
INSERT INTO small SELECT i * 3, i % 4, 'label ' || i FROM generate_series(1, 60) i;
INSERT INTO small VALUES (6, 1, 'twice'), (6, 12, NULL), (NULL, 1, 'null'), (NULL, 2, 'null'),
	(5000, 1, 'absent'), (-1, NULL, 'negative');
CREATE TABLE rows AS
SELECT i AS id, CASE WHEN i % 50 > 0 THEN i * 7919 % 1000 END AS key, i % 10 AS v,
	'row ' || i AS t
FROM generate_series(1, 3000) i;

-- Partitioned by another column; one partition has another column order, one a dropped column
CREATE TABLE by_id (id int, key int, v int, t text) PARTITION BY RANGE (id);
CREATE TABLE by_id_1 PARTITION OF by_id FOR VALUES FROM (0) TO (1000);
CREATE TABLE by_id_2 (x text, t text, gone int, v int, key int, id int);
ALTER TABLE by_id_2 DROP x, DROP gone;
CREATE INDEX ON by_id_2 USING gpujoin (v);	-- not the key: it does not answer the join
ALTER TABLE by_id ATTACH PARTITION by_id_2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE by_id_rest PARTITION OF by_id DEFAULT;
CREATE INDEX ON by_id USING gpujoin (key);
INSERT INTO by_id SELECT * FROM rows;
-- partitions of a partition, by list and by hash of the key
CREATE TABLE deep (id int, key int, v int, t text) PARTITION BY LIST (v);
CREATE TABLE deep_low PARTITION OF deep FOR VALUES IN (0, 1, 2, 3) PARTITION BY HASH (key);
CREATE TABLE deep_low_0 PARTITION OF deep_low FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE deep_low_1 (v int, t text, id int, key int);
ALTER TABLE deep_low ATTACH PARTITION deep_low_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE deep_high (t text, id int, v int, key int) PARTITION BY RANGE (key);
CREATE TABLE deep_high_1 (key int, id int, v int, t text);
ALTER TABLE deep_high ATTACH PARTITION deep_high_1 FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE deep_high_2 PARTITION OF deep_high DEFAULT;
ALTER TABLE deep ATTACH PARTITION deep_high DEFAULT;
CREATE INDEX ON deep USING gpujoin (key);
INSERT INTO deep SELECT * FROM rows;
-- a table with children, one of which has additional columns, and grandchildren
CREATE TABLE parent (id int, gone int, key int, v int, t text);
ALTER TABLE parent DROP gone;
CREATE TABLE child (more text) INHERITS (parent);
CREATE TABLE grandchild (again int) INHERITS (child);
CREATE INDEX ON parent USING gpujoin (key);
CREATE INDEX ON child USING gpujoin (key);
CREATE INDEX ON grandchild USING gpujoin (key);
INSERT INTO parent SELECT * FROM rows WHERE id % 3 = 0;
INSERT INTO child SELECT * FROM rows WHERE id % 3 = 1;
INSERT INTO grandchild SELECT * FROM rows WHERE id % 3 = 2;
-- UNION ALL of a plain table and a partitioned one, with a computed column
CREATE VIEW united AS
SELECT id, key, v, t, 'parent' AS source FROM ONLY parent
UNION ALL SELECT id + 100000, key, 5, upper(t), NULL FROM by_id;
ANALYZE;
-- dead rows, new versions, rows that move to another partition
UPDATE by_id SET v = v + 10 WHERE id % 17 = 0;
UPDATE by_id SET id = id + 1000 WHERE id % 19 = 0;
UPDATE deep SET key = key + 1 WHERE id % 13 = 0;
DELETE FROM deep WHERE id % 23 = 0;
UPDATE parent SET key = key + 1 WHERE id % 11 = 0;

SET gpujoin.force = on;
EXPLAIN (COSTS OFF) SELECT b.*, s.x FROM small s JOIN by_id b ON b.key = s.k WHERE b.v > 3;
EXPLAIN (COSTS OFF) SELECT b.id, s.x FROM small s LEFT JOIN deep b ON b.key = s.k AND b.v < s.x;
EXPLAIN (COSTS OFF) SELECT id FROM parent WHERE key IN (SELECT k FROM small);
EXPLAIN (COSTS OFF, VERBOSE) SELECT u.*, s.x FROM small s JOIN united u ON u.key = s.k;
-- pruned partitions are not scanned
EXPLAIN (COSTS OFF) SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE b.id < 1000;
EXPLAIN (COSTS OFF) SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE b.id < -5;
RESET gpujoin.force;

SELECT * FROM compare_kinds('by_id');
SELECT * FROM compare_kinds('deep');
SELECT * FROM compare_kinds('parent');
SELECT * FROM compare('SELECT u, s FROM small s JOIN united u ON u.key = s.k');
SELECT * FROM compare('SELECT s.k, u.id, u.source FROM small s LEFT JOIN united u ON u.key = s.k
	AND u.v = 5');
SELECT * FROM compare('SELECT u.source, count(*), max(t) FROM united u
	WHERE key IN (SELECT k FROM small) GROUP BY 1');
SELECT * FROM compare('SELECT * FROM small s
	WHERE NOT EXISTS (SELECT FROM united u WHERE u.key = s.k AND u.source IS NULL)');
-- a limit, a sort, a join above, two of our joins in one plan
SELECT * FROM compare('SELECT b.id, s.label FROM small s JOIN by_id b ON b.key = s.k
	ORDER BY b.id, s.label LIMIT 20');
SELECT * FROM compare('SELECT b.id, c.id AS c FROM small s JOIN by_id b ON b.key = s.k
	JOIN parent c ON c.id = b.id');
SELECT * FROM compare('SELECT (SELECT count(*) FROM small s JOIN by_id b ON b.key = s.k),
	(SELECT sum(b.id) FROM small s JOIN deep b ON b.key = s.k)');

-- more small rows than fit into memory: each table is searched for each batch
CREATE TABLE many AS SELECT i % 1200 AS k, i % 7 AS x, repeat('x', 300) AS label
FROM generate_series(1, 1500) i;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM compare('SELECT b.id, s.x FROM many s JOIN by_id b ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.k, s.x, s.label FROM many s LEFT JOIN deep b ON b.key = s.k
	AND b.v = s.x');
SELECT * FROM compare('SELECT b.id FROM by_id b
	WHERE EXISTS (SELECT FROM many s WHERE s.k = b.key AND s.x < b.v)');
SELECT * FROM compare('SELECT s.k, s.x, s.label FROM many s
	WHERE NOT EXISTS (SELECT FROM deep b WHERE b.key = s.k AND b.v = s.x)');
RESET work_mem;
RESET hash_mem_multiplier;

-- executed again with other parameters and with the same ones
SELECT * FROM compare('SELECT o.x, l.* FROM (SELECT DISTINCT x FROM small) o, LATERAL
	(SELECT count(*), sum(b.id) FROM by_id b JOIN small s ON b.key = s.k WHERE s.x = o.x) l');
SELECT * FROM compare('SELECT o.x, l.* FROM (SELECT DISTINCT x FROM small) o, LATERAL
	(SELECT count(*), sum(b.id) FROM by_id b JOIN small s ON b.key = s.k WHERE b.v = o.x) l');
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT * FROM compare('SELECT o.x, l.id FROM (VALUES (1), (2), (3)) o(x) LEFT JOIN
	(SELECT b.id, b.v FROM by_id b JOIN small s ON b.key = s.k WHERE b.id % 5 = 0) l ON l.v < o.x');
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;
SET plan_cache_mode = force_generic_plan;
PREPARE above(int) AS
SELECT count(*), sum(b.id) FROM small s JOIN by_id b ON b.key = s.k WHERE b.id >= $1;
SET gpujoin.force = on;
EXECUTE above(0);
EXECUTE above(2500);
EXECUTE above(9999);
RESET gpujoin.force;
RESET plan_cache_mode;
SET enable_partitionwise_join = on;
SELECT * FROM compare('SELECT b.id, s.x FROM small s JOIN by_id b ON b.key = s.k');
RESET enable_partitionwise_join;

-- rows show their own table's name, also rows that only one table has
SET gpujoin.force = on;
SELECT b.tableoid::regclass, count(*), count(b.ctid) FROM small s JOIN deep b ON b.key = s.k
GROUP BY 1 ORDER BY b.tableoid::regclass::text;
SELECT b.tableoid::regclass, (b).id, to_json(b) FROM small s JOIN parent b ON b.key = s.k
WHERE b.id BETWEEN 480 AND 520 AND s.x < 2 ORDER BY b.id;

-- what the nodes report, for each table
CREATE FUNCTION explained(query text) RETURNS TABLE (node text, relation text, key text, value text)
LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) ' || query INTO plan;
	RETURN QUERY
	SELECT p.node ->> 'Custom Plan Provider', p.node ->> 'Relation Name', e.key,
		regexp_replace(e.value #>> '{}', '\.00$', '')	-- PostgreSQL 18 shows fractions of rows
	FROM (SELECT plan -> 0 -> 'Plan' AS node
		UNION ALL SELECT json_array_elements(plan -> 0 -> 'Plan' -> 'Plans')) p,
		json_each(p.node) e
	WHERE p.node ->> 'Custom Plan Provider' LIKE 'GpuJoin%'
		AND e.key ~ '^(Join Type|Small|Keys|Matched|Actual Rows|Actual Loops|Rows Removed)';
END $$;
SELECT * FROM explained('SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE b.v > 3');
-- when all small rows have a match, the remaining tables need not be searched
SELECT * FROM explained('SELECT * FROM small s
	WHERE s.k IN (9, 15) AND EXISTS (SELECT FROM by_id b WHERE b.key = s.k)')
WHERE key LIKE 'Actual%';
RESET gpujoin.force;

-- If the key determines the partition, each table is searched only for its own keys
CREATE TABLE by_hash (id int, key int, v int, t text) PARTITION BY HASH (key);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE by_hash_3 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE TABLE by_hash_4 PARTITION OF by_hash FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE by_hash_5 PARTITION OF by_hash FOR VALUES WITH (MODULUS 8, REMAINDER 6);
INSERT INTO by_hash SELECT * FROM rows;
CREATE TABLE by_list (id int, key bigint, v int, t text) PARTITION BY LIST (key);
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN (3, 6, NULL);
CREATE TABLE by_list_2 PARTITION OF by_list FOR VALUES IN (9) PARTITION BY RANGE (id);
CREATE TABLE by_list_2_1 PARTITION OF by_list_2 FOR VALUES FROM (0) TO (100);
CREATE TABLE by_list_2_2 PARTITION OF by_list_2 DEFAULT;
CREATE TABLE by_list_rest PARTITION OF by_list DEFAULT;
INSERT INTO by_list SELECT * FROM rows;
CREATE TABLE by_range (id int, key smallint, v int, t text) PARTITION BY RANGE (key);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (MINVALUE) TO (30);
CREATE TABLE by_range_2 PARTITION OF by_range FOR VALUES FROM (30) TO (60);
CREATE TABLE by_range_4 PARTITION OF by_range FOR VALUES FROM (90) TO (2000);
CREATE TABLE by_range_3 PARTITION OF by_range DEFAULT;
INSERT INTO by_range SELECT * FROM rows;
CREATE INDEX ON by_hash USING gpujoin (key);
CREATE INDEX ON by_list USING gpujoin (key);
CREATE INDEX ON by_range USING gpujoin (key);
ANALYZE by_hash, by_list, by_range;
INSERT INTO small VALUES (70000, 1, 'too long for smallint'), (65536 + 6, 1, 'as 6 in 16 bits');
SELECT * FROM compare_kinds('by_hash');
SELECT * FROM compare_kinds('by_list');
SELECT * FROM compare_kinds('by_range');
SELECT * FROM compare('SELECT b.id, s.k FROM (SELECT k::bigint << 32 | k AS k FROM small
	UNION ALL SELECT k::bigint FROM small) s LEFT JOIN by_range b ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_list b ON b.key = s.k WHERE b.key <> 6');
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM compare('SELECT b.id, s.k, s.x FROM many s LEFT JOIN by_hash b ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.k, s.x FROM many s LEFT JOIN by_range b ON b.key = s.k');
RESET work_mem;
RESET hash_mem_multiplier;
SET gpujoin.force = on;
SELECT relation, key, value
FROM explained('SELECT b.id FROM (VALUES (9), (10), (50)) s(k) JOIN by_hash b ON b.key = s.k')
WHERE key ~ 'Keys|Actual';
SELECT relation, key, value
FROM explained('SELECT b.id FROM (VALUES (9), (10), (50)) s(k) JOIN by_list b ON b.key = s.k')
WHERE key ~ 'Keys|Actual';
SELECT relation, key, value
FROM explained('SELECT b.id FROM (VALUES (9), (70000), (10), (50)) s(k)
	JOIN by_range b ON b.key = s.k') WHERE key ~ 'Keys|Actual';
-- lists of keys go to each partition that is not pruned, at planning time or at execution
EXPLAIN (COSTS OFF) SELECT id FROM by_range WHERE key IN (5, 40);
SET plan_cache_mode = force_generic_plan;
PREPARE pruned(int, int) AS SELECT id FROM by_range WHERE key IN ($1, $2) ORDER BY id;
EXPLAIN (COSTS OFF) EXECUTE pruned(5, 40);
EXECUTE pruned(5, 40);
EXECUTE pruned(5, NULL);
EXECUTE pruned(5, 70000);
RESET plan_cache_mode;
RESET gpujoin.force;
SELECT * FROM compare('SELECT id, key FROM by_hash
	WHERE key = ANY (ARRAY(SELECT generate_series(0, 600, 3)))');
SELECT * FROM compare('SELECT id, key FROM by_list WHERE key IN (3, 9, 12, 2000000000, NULL)');
SELECT * FROM compare('SELECT id, key, t FROM deep WHERE key IN (3, 9, 12) AND v < 3');
SELECT * FROM compare('SELECT id, key, source FROM united WHERE key IN (3, 9, 12)');
SET gpujoin.force = on;
-- other types, and a partition key different from the index's key
CREATE TABLE by_day (day date, at timestamptz, o oid, n int) PARTITION BY RANGE (day);
CREATE TABLE by_day_1 PARTITION OF by_day FOR VALUES FROM ('-infinity') TO ('2001-01-01');
CREATE TABLE by_day_2 PARTITION OF by_day FOR VALUES FROM ('2001-01-01') TO (MAXVALUE);
INSERT INTO by_day SELECT '2000-06-01'::date + i, '2001-01-01 UTC'::timestamptz + i * interval '1 h',
	4294967000 + i % 200, i FROM generate_series(1, 600) i;
INSERT INTO by_day VALUES ('infinity', 'infinity', 4294967295, 0), ('-infinity', '-infinity', 0, 0);
CREATE INDEX ON by_day USING gpujoin (day);
CREATE INDEX ON by_day USING gpujoin (at);
CREATE TABLE by_oid (LIKE by_day) PARTITION BY HASH (o);
CREATE TABLE by_oid_0 PARTITION OF by_oid FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_oid_1 PARTITION OF by_oid FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO by_oid TABLE by_day;
CREATE INDEX ON by_oid USING gpujoin (o);
CREATE TABLE by_at (LIKE by_day) PARTITION BY LIST (at);
CREATE TABLE by_at_1 PARTITION OF by_at FOR VALUES IN ('2001-01-01 05:00 UTC', 'infinity');
CREATE TABLE by_at_2 PARTITION OF by_at DEFAULT;
INSERT INTO by_at TABLE by_day;
CREATE INDEX ON by_at USING gpujoin (at);
ANALYZE by_day, by_oid, by_at;
CREATE TABLE days AS SELECT * FROM by_day WHERE n % 50 = 0;
RESET gpujoin.force;
SELECT * FROM compare('SELECT b FROM days s JOIN by_day b ON b.day = s.day');
SELECT * FROM compare('SELECT b FROM days s JOIN by_day b ON b.at = s.at');
SELECT * FROM compare('SELECT b FROM days s JOIN by_oid b ON b.o = s.o');
SELECT * FROM compare('SELECT s, b FROM days s LEFT JOIN by_at b ON b.at = s.at');
-- a partition attached or detached after planning
SET plan_cache_mode = force_generic_plan;
SET gpujoin.force = on;
PREPARE hashed AS SELECT count(*), sum(b.id) FROM small s JOIN by_hash b ON b.key = s.k;
EXECUTE hashed;
ALTER TABLE by_hash DETACH PARTITION by_hash_5;
EXECUTE hashed;
ALTER TABLE by_hash ATTACH PARTITION by_hash_5 FOR VALUES WITH (MODULUS 8, REMAINDER 6);
EXECUTE hashed;
RESET gpujoin.force;
RESET plan_cache_mode;
DELETE FROM small WHERE k > 65000;

-- A table without an index of ours, a subquery that is not pulled up, a sample: not offered
CREATE TABLE lacking (id int, key int) PARTITION BY RANGE (id);
CREATE TABLE lacking_1 PARTITION OF lacking FOR VALUES FROM (0) TO (1000);
CREATE TABLE lacking_2 PARTITION OF lacking FOR VALUES FROM (1000) TO (9000);
CREATE INDEX ON lacking_1 USING gpujoin (key);
INSERT INTO lacking SELECT id, key FROM rows;
SELECT * FROM compare('SELECT b.id FROM small s JOIN lacking b ON b.key = s.k');
-- except if only the other partitions remain after pruning
SELECT * FROM compare('SELECT b.id FROM small s JOIN lacking b ON b.key = s.k WHERE b.id < 500');
SELECT * FROM compare('SELECT b.id FROM small s JOIN (SELECT id, key FROM by_id
	UNION ALL SELECT id, key FROM parent WHERE v > 3) b ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM small s
	JOIN by_id b TABLESAMPLE BERNOULLI (30) REPEATABLE (5) ON b.key = s.k');
-- other types in a UNION ALL: the indexed expression is not the one compared
CREATE TABLE wide (id int, key bigint);
INSERT INTO wide SELECT id, key FROM rows;
CREATE INDEX ON wide USING gpujoin (key);
SELECT * FROM compare('SELECT b.id FROM small s JOIN (SELECT id, key FROM wide
	UNION ALL SELECT id, key FROM parent) b ON b.key = s.k');
CREATE INDEX ON parent USING gpujoin ((key::bigint));
CREATE INDEX ON child USING gpujoin ((key::bigint));
CREATE INDEX ON grandchild USING gpujoin ((key::bigint));
SELECT * FROM compare('SELECT b.id FROM small s JOIN (SELECT id, key FROM wide
	UNION ALL SELECT id, key FROM parent) b ON b.key = s.k');
-- an expression index, a partial one and a full one
CREATE INDEX ON by_id USING gpujoin ((key + v));
CREATE INDEX ON by_id_1 USING gpujoin (key) WHERE v > 5;
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_id b ON b.key + b.v = s.k');
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE b.v > 6');
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE b.v > 2');

-- Filters: a subquery, one that is the same for all rows, one that depends on the query's side
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_id b ON b.key = s.k
	WHERE b.id IN (SELECT id FROM parent) AND b.v <> (SELECT min(x) FROM small)');
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_id b ON b.key = s.k
	WHERE b.v + (SELECT count(*) FROM rows r WHERE r.id = b.id) > 3');
SELECT * FROM compare('SELECT b.id FROM small s JOIN by_id b ON b.key = s.k
	WHERE current_setting(''gpujoin.min_rows'')::int < 0');

-- Privileges and barriers are the parent's: a reader needs no privilege on a partition. Row
-- security and a barrier's condition are evaluated before the reader's conditions, in every table
CREATE ROLE regress_gpujoin_parts;
GRANT USAGE ON SCHEMA gj_parts TO regress_gpujoin_parts;
GRANT SELECT ON small TO regress_gpujoin_parts;
GRANT SELECT (id, key, t) ON by_id TO regress_gpujoin_parts;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM deep WHERE v < 4;
GRANT SELECT ON barrier TO regress_gpujoin_parts;
CREATE FUNCTION leak(text) RETURNS bool COST 0.0001 LANGUAGE plpgsql
AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
ALTER TABLE by_id ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON by_id TO regress_gpujoin_parts USING (id % 2 = 1 AND t LIKE '%99');
SET gpujoin.force = on;
SET ROLE regress_gpujoin_parts;
SELECT b.v FROM small s JOIN by_id b ON b.key = s.k;
SELECT b.id FROM small s JOIN by_id_1 b ON b.key = s.k;
EXPLAIN (COSTS OFF) SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE leak(t);
SELECT b.id FROM small s JOIN by_id b ON b.key = s.k WHERE leak(t);
SELECT count(*) FROM small s JOIN barrier b ON b.key = s.k WHERE leak(t) AND id < 30;
RESET ROLE;
RESET gpujoin.force;

-- changes within the transaction, partitions created and dropped
BEGIN;
CREATE TABLE by_id_new (id int, key int, v int, t text);
INSERT INTO by_id_new SELECT id + 10000, key, v, t FROM rows WHERE id < 500;
CREATE INDEX ON by_id_new USING gpujoin (key);
ALTER TABLE by_id DETACH PARTITION by_id_rest;
ALTER TABLE by_id ATTACH PARTITION by_id_new FOR VALUES FROM (10000) TO (20000);
INSERT INTO by_id VALUES (15000, 6, 1, 'new');
DELETE FROM by_id WHERE id < 300;
SELECT * FROM compare('SELECT b.* FROM small s JOIN by_id b ON b.key = s.k');
ROLLBACK;
SELECT * FROM compare('SELECT b.* FROM small s JOIN by_id b ON b.key = s.k');

DROP OWNED BY regress_gpujoin_parts;
DROP ROLE regress_gpujoin_parts;
SET client_min_messages = warning;
DROP SCHEMA gj_parts CASCADE;
