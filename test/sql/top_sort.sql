-- ORDER BY ... LIMIT that goes on far beyond what was expected: after a few batches, all rows that
-- are left are sorted at once.
CREATE TABLE far (gone int, id int, k int, created timestamptz, flag boolean, score float8,
	likes smallint, big bigint, hits int, body text)
	WITH (autovacuum_enabled = off, fillfactor = 70);
ALTER TABLE far DROP gone;
INSERT INTO far
SELECT i, i * 7919 % 200,
	CASE WHEN i % 50 <> 0 THEN timestamptz '2020-01-01 00:00+0' + i * 7 % 20011 * interval '1 min' END,
	CASE WHEN i % 3 <> 0 THEN i % 2 = 0 END,
	CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' WHEN 3 THEN 0
		WHEN 4 THEN 'inf' WHEN 5 THEN '-inf' ELSE round(sin(i)::numeric, 2) END,
	CASE WHEN i % 13 <> 0 THEN i % 7 - 3 END,
	CASE i % 19 WHEN 0 THEN NULL WHEN 1 THEN 9223372036854775807
		WHEN 2 THEN -9223372036854775808 ELSE i % 30 - 15 END,
	0, CASE WHEN i % 10 <> 0 THEN 'far ' || i END
FROM generate_series(1, 20000) i;
ALTER TABLE far ADD late int DEFAULT 5;
SET gpujoin.auto_load = off;
CREATE INDEX far_k ON far USING gpujoin (k) INCLUDE (id, created, flag, score, likes, big);
VACUUM (ANALYZE) far;
-- chains of HOT updates, and dead rows
UPDATE far SET hits = hits + 1 WHERE id % 4 = 1;
UPDATE far SET hits = hits + 1 WHERE id % 8 = 1;
UPDATE far SET likes = 2 WHERE id % 100 = 7;
DELETE FROM far WHERE id % 31 = 0;

-- the rows of a query as a multiset, and its sort columns as they come
CREATE FUNCTION far_rows(query text, keys text, OUT rows text, OUT sorted text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || sum(hashtextextended(q::text, 0)),
		md5(string_agg((%s)::text, '' '')) FROM (%s) q', keys, query) INTO rows, sorted;
END $$;
-- Is the answer PostgreSQL's own, in an order as good, after few searches and a sort?
CREATE FUNCTION far_same(columns text, condition text, ordering text, keys text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT %s FROM far WHERE %s ORDER BY %s LIMIT (SELECT 1000000)', columns,
		condition, ordering);
	ours record;
	theirs record;
	plan jsonb;
	scan jsonb;
BEGIN
	SET LOCAL gpujoin.enabled = off;
	theirs := far_rows(query, keys);
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	ours := far_rows(query, keys);
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT json) ' || query INTO plan;
	scan := jsonb_path_query_first(plan,
		'strict $.** ? (@."Custom Plan Provider" == "GpuScan" && exists(@."Rows Sorted"))');
	RETURN concat_ws(', ',
		CASE WHEN ours.rows IS DISTINCT FROM theirs.rows THEN 'other rows' ELSE 'same rows' END,
		CASE WHEN ours.sorted IS DISTINCT FROM theirs.sorted THEN 'disorder' END,
		CASE WHEN (scan ->> 'Order Searches')::int > 6 THEN scan ->> 'Order Searches' || ' searches' END,
		CASE WHEN (scan ->> 'Rows Sorted')::int > 0 THEN 'sorted' ELSE 'no sort' END,
		CASE WHEN current_setting('work_mem') = '64kB' THEN scan ->> 'Sort Space Type' END);
END $$;
-- for each order: whole rows, some columns, the index alone
CREATE FUNCTION far_orders(condition text)
RETURNS TABLE (ordering text, whole text, part text, entries text) LANGUAGE plpgsql AS $$
DECLARE
	keys text;
BEGIN
	FOR ordering, keys IN VALUES
		('created', 'created'), ('created DESC NULLS LAST, id', 'created, id'),
		('flag', 'flag'), ('flag DESC', 'flag'), ('likes NULLS FIRST', 'likes'),
		('likes DESC NULLS LAST, flag, score DESC', 'likes, flag, score'),
		('score DESC', 'score'), ('score, big NULLS FIRST', 'score, big'),
		('big DESC NULLS LAST', 'big'), ('k, id', 'k, id')
	LOOP
		keys := format('ROW(%s)', keys);
		whole := far_same('*', condition, ordering, keys);
		part := far_same('body, late, id, k, created, flag, score, likes, big', condition, ordering,
			keys);
		entries := far_same('id, k, created, flag, score, likes, big', condition, ordering, keys);
		RETURN NEXT;
	END LOOP;
END $$;
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM far_orders('k <> ALL (''{7}'') AND k BETWEEN 0 AND 79');
RESET hash_mem_multiplier;
SET work_mem = '1MB';
SELECT * FROM far_orders('k = ANY (ARRAY(SELECT generate_series(0, 59)))');
RESET work_mem;
VACUUM far;
SET work_mem = '64kB';
SELECT * FROM far_orders('k <> ALL (''{7}'') AND k BETWEEN 0 AND 79');
-- with filters, also by columns that are not selected
SELECT * FROM far_orders('k = ANY (ARRAY(SELECT generate_series(0, 59))) AND (id + hits) % 9 = 4')
WHERE concat(whole, part, entries) ~ 'other|disorder|searches|no sort';
SELECT * FROM far_orders('k = ANY (ARRAY(SELECT generate_series(0, 59))) AND likes > -2
	AND body <> ''far 77''')
WHERE concat(whole, part, entries) ~ 'other|disorder|searches|no sort';

-- system columns, whole rows, expressions
SELECT columns, far_same(columns, 'k = ANY (ARRAY(SELECT generate_series(0, 150)))',
	'created DESC, id', 'id')
FROM unnest('{"id, ctid, tableoid::regclass","id, xmin, cmax, ctid","id, far","k, id, far",
	"id * 2 AS id, upper(body)","id, late, random() < 2","id, tableoid"}'::text[]) columns;

-- rows with a NULL key, as it turns out: all of the heap is read
CREATE FUNCTION far_keys() RETURNS int[] LANGUAGE plpgsql STABLE AS
	$$BEGIN RETURN array_append(array(SELECT generate_series(0, 150)), NULL); END$$;
UPDATE far SET k = NULL WHERE id % 100 = 3;
UPDATE far SET hits = hits + 1 WHERE id % 200 = 3;
SELECT far_same(columns, 'k = ANY (far_keys())
	OR (k IS NULL AND array_position(far_keys(), NULL) IS NOT NULL)', ordering, keys)
FROM (VALUES ('*', 'flag', 'flag'), ('*', 'created DESC', 'created'), ('id, flag', 'flag', 'flag'))
	v(columns, ordering, keys);

-- OFFSET that is known
CREATE FUNCTION far_list(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(q::text, '' '') FROM (%s) q', query) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION far_list_is_same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	theirs text;
BEGIN
	SET LOCAL gpujoin.enabled = off;
	theirs := far_list(query);
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	RETURN far_list(query) IS NOT DISTINCT FROM theirs;
END $$;
SELECT far_list_is_same('SELECT * FROM far WHERE k BETWEEN 0 AND 5000 AND k <> 7
	ORDER BY created DESC, id OFFSET 12000 LIMIT 10');
SELECT far_list_is_same('SELECT id FROM far WHERE k BETWEEN 0 AND 5000 AND k <> 7
	ORDER BY created DESC, id OFFSET 12000 LIMIT 10');
SELECT far_list_is_same('SELECT id FROM far WHERE k BETWEEN 0 AND 5000 AND k <> 7
	ORDER BY created DESC, id OFFSET 50000 LIMIT 10');

-- rescans: with the same keys and with others, with other params of the filter, and after a part
SELECT far_list_is_same('SELECT n, s.* FROM generate_series(1, 3) n, LATERAL (SELECT count(*),
	sum(id), min(place * id) FROM (SELECT id, row_number() OVER () AS place FROM (SELECT * FROM far
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 150))) ORDER BY created DESC, id
	LIMIT n * 3000) r) p) s');
SELECT far_list_is_same('SELECT n, s.* FROM generate_series(1, 3) n, LATERAL (SELECT count(*),
	sum(id), sum(place * id) FROM (SELECT id, row_number() OVER () AS place FROM (SELECT id
	FROM far WHERE k = ANY (ARRAY(SELECT generate_series(0, 50 * n))) ORDER BY created DESC, id
	LIMIT (SELECT 100000)) r) p) s');
SELECT far_list_is_same('SELECT n, s.* FROM generate_series(-3, 3) n, LATERAL (SELECT count(*),
	sum(id), sum(place * id) FROM (SELECT id, row_number() OVER () AS place FROM (SELECT * FROM far
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 150))) AND likes <> n
	ORDER BY created DESC, id LIMIT (SELECT 100000)) r) p) s');
SELECT far_list_is_same('SELECT n, s.* FROM generate_series(1, 5) n, LATERAL (SELECT id
	FROM far WHERE k = ANY (ARRAY(SELECT generate_series(0, 150))) AND id > n * 1000
	ORDER BY created DESC, id OFFSET n * 1200 LIMIT 3) s');

-- cursors: what is sorted is what the cursor's snapshot sees
CREATE FUNCTION far_files() RETURNS boolean LANGUAGE sql AS
	$$SELECT count(*) > 0 FROM pg_ls_tmpdir() WHERE name LIKE 'pgsql_tmp' || pg_backend_pid() || '.%'$$;
SET gpujoin.force = on;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM far WHERE k = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY id DESC;
DECLARE e CURSOR FOR SELECT id, flag FROM far WHERE k = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY id DESC;
FETCH 1 FROM c;
FETCH 1 FROM e;
UPDATE far SET hits = hits + 1, id = id + 1 WHERE id % 1000 = 16;
UPDATE far SET body = 'hot' WHERE id % 1000 = 17;
DELETE FROM far WHERE id % 1000 = 18;
MOVE 8000 FROM c;
MOVE 8000 FROM e;
SELECT far_files();
FETCH 3 FROM c;
FETCH 3 FROM e;
UPDATE far SET body = 'here' WHERE CURRENT OF c RETURNING id, body;
DELETE FROM far WHERE CURRENT OF e RETURNING id, body;
DELETE FROM far WHERE CURRENT OF c RETURNING id, body;
FETCH 2 FROM c;
DELETE FROM far WHERE CURRENT OF c RETURNING id, body;
MOVE ALL FROM c;
MOVE ALL FROM e;
FETCH 1 FROM c;
FETCH 1 FROM e;
SELECT far_files();
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM far
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 150))) ORDER BY created, id;
MOVE ALL FROM c;
FETCH PRIOR FROM c;
FETCH ABSOLUTE 4000 FROM c;
CLOSE c;
DECLARE c CURSOR FOR SELECT id FROM far WHERE k = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY id FOR UPDATE;
MOVE 9000 FROM c;
FETCH 2 FROM c;
UPDATE far SET body = 'locked' WHERE CURRENT OF c RETURNING id, body;
SELECT far_files();
CLOSE c;
SELECT far_files();
ROLLBACK;

-- no more files than are allowed; and nothing is left of them
SET temp_file_limit = '256kB';
\set VERBOSITY sqlstate
SELECT sum(id) FROM (SELECT * FROM far WHERE k = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY created LIMIT (SELECT 100000)) q;
\set VERBOSITY default
RESET temp_file_limit;
SELECT far_files();

-- what EXPLAIN says
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
SET plan_cache_mode = force_generic_plan;
PREPARE counted(int) AS SELECT id FROM far
	WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
	ORDER BY created DESC LIMIT $1;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'EXECUTE counted(100000)');
SELECT regexp_replace(line, 'Method: .*', 'Method: some')
FROM explain('ANALYZE, COSTS OFF, TIMING OFF', 'EXECUTE counted(100000)') line
WHERE line ~ '^ *(Order|Rows|Sort)';
SET work_mem = '4MB';
SELECT regexp_replace(line, '(Method|Type|Used): .*', '\1: some') AS line
FROM explain('ANALYZE, COSTS OFF, TIMING OFF, FORMAT yaml', 'EXECUTE counted(100000)') yaml,
	regexp_split_to_table(yaml, '\n') line
WHERE line ~ '^ *(Order|Rows (Ord|Sort)|Sort)';
DEALLOCATE ALL;
RESET plan_cache_mode;
RESET gpujoin.force;

-- Without force: a sort where many rows are taken, whatever the memory, and also by a cursor
CREATE FUNCTION far_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (SELECT string_agg(n #>> '{}', ' > ')
		FROM jsonb_path_query(plan, 'strict $.**."Node Type"') n);
END $$;
SET max_parallel_workers_per_gather = 0;
SELECT memory, set_config('work_mem', memory, false) = memory AS set, n,
	far_plan(format('SELECT id, created FROM far WHERE k <> ALL (''{7}'') AND k BETWEEN 0 AND 5000
		ORDER BY created LIMIT %s', n))
FROM unnest('{64kB,1MB,4MB}'::text[]) memory, unnest('{10,300,15000}'::int[]) n;
SELECT far_plan('DECLARE c CURSOR FOR SELECT id, created FROM far
	WHERE k <> ALL (''{7}'') AND k BETWEEN 0 AND 5000 ORDER BY created');
DROP TABLE far;
DROP FUNCTION far_keys, far_rows, far_same, far_orders, far_list, far_list_is_same, far_files, far_plan,
	explain;
