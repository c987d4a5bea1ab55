-- Two sets at once, on two gpujoin indexes or on one and an index of another kind: either the
-- bitmaps of the indexes are combined, or one index finds the rows and the other condition filters
-- them.
CREATE SCHEMA gj_two;
SET search_path = gj_two, public;
SET gpujoin.min_rows = 0;
SET enable_seqscan = off;
SET jit = off;

CREATE TABLE big (id int, a int, b bigint, c int, tags int[], t text)
	WITH (autovacuum_enabled = off, fillfactor = 20);
INSERT INTO big
SELECT i, CASE WHEN i % 40 > 0 THEN i * 7919 % 1000 END, i * 104729::bigint % 1009, i / 100,
	ARRAY[i % 50, i % 77], 'row ' || i || repeat('x', 60)
FROM generate_series(1, 14000) i;
CREATE INDEX big_a ON big USING gpujoin (a);
CREATE INDEX big_b ON big USING gpujoin (b);
CREATE INDEX big_c ON big USING btree (c);
CREATE INDEX big_tags ON big USING gin (tags) WITH (fastupdate = off);
CREATE INDEX big_id ON big USING brin (id) WITH (pages_per_range = 4);
-- HOT chains, dead rows, rows that moved, reused TIDs
UPDATE big SET t = 'new' WHERE id % 17 = 0;
UPDATE big SET a = a + 1 WHERE id % 19 = 0;
DELETE FROM big WHERE id % 23 = 0;
VACUUM (INDEX_CLEANUP on) big;
INSERT INTO big SELECT id + 40000, b % 1000, a, c, tags, 'again' FROM big WHERE id < 1500;
UPDATE big SET b = b - 1 WHERE id % 29 = 0;
ANALYZE big;

-- Compare the rows of a condition with the cheapest plan, with a GpuScan, and without gpujoin.
-- Return the nodes and indexes of the first plan, and how many rows of each of our answers are
-- wrong.
CREATE FUNCTION compare(condition text, OUT nodes text, OUT n bigint, OUT wrong bigint,
						OUT wrong_forced bigint) LANGUAGE plpgsql AS $$
DECLARE
	query text = 'SELECT id, a, b, ctid AS c FROM big WHERE ' || condition;
	line text;
	found text[];
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found = found || substring(line FROM '(Bitmap(?:And|Or)|Bitmap Heap|GpuScan|Seq)')
			|| substring(line FROM '(?:Index Scan (?:on|using)|Index:) (\w+)');
	END LOOP;
	SELECT string_agg(f, ' ' ORDER BY f) INTO nodes FROM unnest(found) f;
	EXECUTE 'CREATE TEMP TABLE ours AS ' || query;
	PERFORM set_config('gpujoin.force', 'on', true);
	EXECUTE 'CREATE TEMP TABLE forced AS ' || query;
	PERFORM set_config('gpujoin.force', 'off', true), set_config('gpujoin.enabled', 'off', true),
		set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE 'CREATE TEMP TABLE stock AS ' || query;
	PERFORM set_config('gpujoin.enabled', 'on', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_bitmapscan', 'on', true);
	SELECT count(*) INTO n FROM stock;
	SELECT count(*) INTO wrong FROM (
		(TABLE ours EXCEPT ALL TABLE stock) UNION ALL (TABLE stock EXCEPT ALL TABLE ours)) d;
	SELECT count(*) INTO wrong_forced FROM (
		(TABLE forced EXCEPT ALL TABLE stock) UNION ALL (TABLE stock EXCEPT ALL TABLE forced)) d;
	DROP TABLE ours, forced, stock;
END $$;

EXPLAIN (COSTS OFF) SELECT id FROM big WHERE a IN (1, 2, 3) OR b IN (4, 5, 6);
SET enable_indexscan = off;
SELECT * FROM compare('a IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND b IN (1, 2, 3, 4, 5, 6, 7, 8, 9)');
SELECT * FROM compare('a IN (1, 2, 3) OR b IN (4, 5, 6)');
SELECT * FROM compare('a IN (1, 2, 3) OR b IN (4, 5, 6) OR c = 17');
SELECT * FROM compare('(a IN (1, 2, 3) OR b IN (4, 5, 6)) AND t LIKE ''row%''');
SELECT * FROM compare('(a IN (1, 2, 3) AND id % 2 = 0) OR (b IN (4, 5, 6) AND id % 2 = 1)');
SELECT * FROM compare('a = ANY (ARRAY(SELECT generate_series(1, 100)))
	AND b = ANY (ARRAY(SELECT generate_series(1, 50)))');
SELECT * FROM compare('a = ANY (ARRAY(SELECT generate_series(1, 100)))
	OR b = ANY (ARRAY(SELECT generate_series(1, 50)))');
SELECT * FROM compare('a = ANY (ARRAY(SELECT g * 3 FROM generate_series(1, 330) g))
	AND c BETWEEN 20 AND 60');
SELECT * FROM compare('a = ANY (ARRAY(SELECT generate_series(1, 30))) OR c = 17');
SELECT * FROM compare('a = ANY (ARRAY(SELECT generate_series(1, 50))) AND tags && ''{3, 4}''');
SELECT * FROM compare('a = ANY (ARRAY(SELECT generate_series(1, 30))) OR tags @> ''{3, 4}''');
SELECT * FROM compare('a = ANY (ARRAY(SELECT generate_series(1, 200))) AND id BETWEEN 2000 AND 5000');
SELECT * FROM compare('a IN (1, 2, 3) OR id BETWEEN 2000 AND 2050');
-- empty sets, NULLs, duplicates, values that the column cannot have
SELECT * FROM compare('a = ANY (NULL::int[]) OR b = ANY (''{}'')');
SELECT * FROM compare('a = ANY (''{1, 1, NULL, 2}'') OR b = ANY (''{NULL, 5, 5}'')');
SELECT * FROM compare('a = ANY (''{1, 8589934593}''::bigint[]) OR b = ANY (''{5}''::smallint[])');
SELECT * FROM compare('a IS NULL AND b = ANY (ARRAY(SELECT generate_series(1, 200)))');

-- bitmaps that do not fit in memory keep only pages; conditions are tested again
SET work_mem = '64kB';
SET enable_indexscan = off;
SELECT * FROM compare('a = ANY (ARRAY(SELECT g * 2 FROM generate_series(1, 400) g))
	AND b = ANY (ARRAY(SELECT g * 2 FROM generate_series(1, 400) g))');
SELECT * FROM compare('a = ANY (ARRAY(SELECT g * 2 FROM generate_series(1, 400) g))
	OR b = ANY (ARRAY(SELECT g * 2 FROM generate_series(1, 400) g))');
CREATE FUNCTION lossy_blocks(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) ' || query INTO plan;
	RETURN (plan #>> '{0,Plan,Lossy Heap Blocks}')::int > 0;
END $$;
SELECT lossy_blocks('SELECT id FROM big WHERE a = ANY (ARRAY(SELECT generate_series(1, 800)))
	OR b = ANY (ARRAY(SELECT generate_series(1, 800)))');
RESET work_mem;
RESET enable_indexscan;

-- executed again, with the same sets and with others
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT o.x, count(*), sum(l.id) FROM (VALUES (1), (2), (3)) o(x),
LATERAL (SELECT id FROM big WHERE a IN (o.x, o.x + 10, o.x + 20) OR b IN (o.x, o.x + 5)) l
GROUP BY 1 ORDER BY 1;
SET gpujoin.enabled = off;
SELECT o.x, count(*), sum(l.id) FROM (VALUES (1), (2), (3)) o(x),
LATERAL (SELECT id FROM big WHERE a IN (o.x, o.x + 10, o.x + 20) OR b IN (o.x, o.x + 5)) l
GROUP BY 1 ORDER BY 1;
RESET gpujoin.enabled;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
SET plan_cache_mode = force_generic_plan;
PREPARE each(int[], bigint[]) AS
SELECT count(*), sum(id) FROM big WHERE a = ANY ($1) AND b = ANY ($2);
PREPARE either(int[], bigint[]) AS
SELECT count(*), sum(id) FROM big WHERE a = ANY ($1) OR b = ANY ($2);
SELECT array_agg(g) AS many FROM generate_series(1, 300) g \gset
EXECUTE each(:'many', :'many');
EXECUTE each('{1}', NULL);
EXECUTE either(:'many', '{7}');
EXECUTE either(NULL, '{7}');
SET gpujoin.enabled = off;
EXECUTE each(:'many', :'many');
EXECUTE each('{1}', NULL);
EXECUTE either(:'many', '{7}');
EXECUTE either(NULL, '{7}');
RESET gpujoin.enabled;
DEALLOCATE ALL;
RESET plan_cache_mode;

SET client_min_messages = warning;
DROP SCHEMA gj_two CASCADE;
