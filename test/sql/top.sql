-- ORDER BY ... LIMIT: a scan returns rows in order, and fetches only the first ones.
CREATE TABLE post (gone int, id int, author int, created timestamptz, score float8, rank real,
	likes smallint, flag boolean, day date, big bigint, num oid, body text)
	WITH (autovacuum_enabled = off);
ALTER TABLE post DROP gone;
INSERT INTO post
SELECT i, i * 7919 % 200,
	CASE WHEN i % 50 <> 0 THEN timestamptz '2020-01-01 00:00+0' + i / 3 * interval '1 minute' END,
	CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' WHEN 3 THEN 0
		WHEN 4 THEN 'inf' WHEN 5 THEN '-inf' ELSE round(sin(i)::numeric, 2) END,
	CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' WHEN 3 THEN 0
		WHEN 4 THEN 'inf' WHEN 5 THEN '-inf' ELSE round(cos(i)::numeric, 2) END,
	CASE WHEN i % 13 <> 0 THEN i % 7 - 3 END,
	CASE WHEN i % 3 <> 0 THEN i % 2 = 0 END,
	CASE i % 17 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity'
		ELSE date '2020-01-01' + i % 40 END,
	CASE i % 19 WHEN 0 THEN NULL WHEN 1 THEN 9223372036854775807
		WHEN 2 THEN -9223372036854775808 ELSE i % 30 - 15 END,
	CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 4294967295 WHEN 2 THEN 0 ELSE 3000000000 + i % 10 END,
	'post ' || i
FROM generate_series(1, 20000) i;
SET gpujoin.auto_load = off;
CREATE INDEX post_author ON post USING gpujoin (author)
	INCLUDE (id, created, score, rank, likes, flag, day, big, num);
RESET gpujoin.auto_load;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/top.sql
SET gpujoin.force = on;

-- plans: from the heap, from the index alone, with a sort column that the index lacks
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE author IN (1, 2, 3) ORDER BY created DESC, id LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM post WHERE author IN (1, 2, 3)
	ORDER BY created DESC NULLS LAST, likes NULLS FIRST, author LIMIT 5;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE author IN (1, 2, 3) ORDER BY likes, body LIMIT 5;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE author IN (1, 2, 3) ORDER BY id LIMIT 5 FOR UPDATE;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM post WHERE author IN (1, 2, 3) ORDER BY big LIMIT 5;
-- not used if all rows are requested, or another order
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE author IN (1, 2, 3) ORDER BY id;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE author IN (1, 2, 3) ORDER BY body LIMIT 5;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE author IN (1, 2, 3) ORDER BY id + 1 LIMIT 5;
SELECT top_plan('SELECT author, count(*) FROM post WHERE author IN (1, 2, 3) GROUP BY author
	ORDER BY author LIMIT 2');
SELECT top_plan('SELECT DISTINCT id FROM post WHERE author IN (1, 2, 3) ORDER BY id LIMIT 2');

-- each type, both directions, NULLs at both ends; the id breaks ties
CREATE FUNCTION top_types() RETURNS TABLE (column_name text, ordering text, heap text, entries text)
LANGUAGE plpgsql AS $$
BEGIN
	FOR column_name, ordering IN
		SELECT c, o FROM unnest('{author,created,score,rank,likes,flag,day,big,num}'::text[]) c,
			unnest('{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}'::text[]) o
	LOOP
		heap := top_same(format('SELECT * FROM post WHERE author IN (3, 5, 7, 9, 150)
			ORDER BY %s %s, id LIMIT 60', column_name, ordering));
		entries := top_same(format('SELECT id, %1$s FROM post WHERE author IN (3, 5, 7, 9, 150)
			ORDER BY %1$s %2$s, id DESC LIMIT 300', column_name, ordering));
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM top_types() WHERE column_name IN ('score', 'big') OR heap || entries LIKE '%wrong%';
VACUUM (ANALYZE) post;
SELECT count(*), count(*) FILTER (WHERE heap LIKE '%wrong%' OR entries LIKE '%wrong%') AS wrong
FROM top_types();

-- several columns, and more rows than were sorted at first
SELECT top_same('SELECT id, likes, day
	FROM post WHERE author BETWEEN 0 AND 5000 AND author <> ALL (''{7}'')
	ORDER BY likes DESC, day, flag NULLS FIRST, id LIMIT 50');
SELECT top_same('SELECT * FROM post WHERE author IN (1, 2, 3)
	ORDER BY likes DESC NULLS LAST, day DESC, id DESC LIMIT 7 OFFSET 200');
SELECT top_same('SELECT * FROM post WHERE author = 77 ORDER BY id DESC OFFSET 90 LIMIT 100');
SELECT top_same('SELECT id FROM post WHERE author = 12345 ORDER BY id LIMIT 3');
SELECT top_same('SELECT id FROM post WHERE author = ANY (''{}'') ORDER BY id LIMIT 3');
SELECT top_same('SELECT id FROM post WHERE author IN (1, 2) ORDER BY id LIMIT 0');

-- rows that a filter removes do not count
SELECT top_same('SELECT * FROM post WHERE author IN (1, 2, 3, 4) AND likes = 2
	ORDER BY created DESC, id
	LIMIT 10');
SELECT top_same('SELECT * FROM post WHERE author IN (1, 2, 3, 4) AND body LIKE ''%77%''
	ORDER BY created DESC, id LIMIT 10');
SELECT top_same('SELECT id FROM post WHERE author IN (1, 2, 3, 4) AND id % 97 = 5
	ORDER BY id LIMIT 10');

SELECT top_same('SELECT id FROM post WHERE author IN (1, 2, 3, 4) AND likes > 0 AND flag
	ORDER BY created DESC, id LIMIT 10');
SELECT top_same('SELECT w, (SELECT string_agg(s::text, '' '') FROM (SELECT id, day FROM post
	WHERE author IN (1, 2, 3) AND likes = w ORDER BY day DESC, id LIMIT 3) s)
	FROM generate_series(-3, 3) w');
SELECT top_same('SELECT w, (SELECT string_agg(s::text, '' '') FROM (SELECT * FROM post
	WHERE author IN (1, 2, 3) AND likes = w ORDER BY day DESC, id LIMIT 3) s)
	FROM generate_series(-3, 3) w');

-- expressions above, ties, locks
SELECT top_same('SELECT id * 2, upper(body) FROM post WHERE author IN (1, 2)
	ORDER BY id DESC LIMIT 3');
SELECT top_same('SELECT count(*), min(day), max(day) FROM (SELECT *
	FROM post WHERE author IN (1, 2, 3)
	ORDER BY day FETCH FIRST 20 ROWS WITH TIES) s');
SELECT top_same('SELECT likes FROM post WHERE author BETWEEN 0 AND 3000 AND author <> 4
	ORDER BY likes FETCH FIRST 20 ROWS WITH TIES');
SELECT top_same('SELECT id, body FROM post WHERE author IN (1, 2, 3)
	ORDER BY id DESC LIMIT 3 FOR UPDATE');
SELECT top_same('SELECT id, ctid FROM post WHERE author IN (1, 2, 3) ORDER BY id DESC LIMIT 3');
SELECT top_same('SELECT p.id FROM post p WHERE author IN (1, 2, 3) AND EXISTS
	(SELECT FROM post q WHERE q.id = p.id + 1) ORDER BY p.id DESC LIMIT 3');

-- the smallest and the greatest
SELECT top_same('SELECT min(created), max(created), min(big), max(big)
	FROM post WHERE author IN (1, 2, 3)');
SELECT top_same('SELECT id FROM post WHERE author IN (1, 2, 3) ORDER BY created DESC LIMIT 1');
SELECT top_same('SELECT max(body) FROM post WHERE id = (SELECT max(id)
	FROM post WHERE author = 9)');

-- rows whose key is NULL at execution: the whole heap is read and sorted
UPDATE post SET author = NULL WHERE id % 100 = 3;
UPDATE post SET body = body || '?' WHERE id % 200 = 3;
SET plan_cache_mode = force_generic_plan;
PREPARE heap(text, int) AS SELECT id, author, day, body FROM post WHERE author = ANY ($1::int[])
	OR (author IS NULL AND array_position($1::int[], NULL) IS NOT NULL)
	ORDER BY author DESC, day NULLS FIRST, id LIMIT $2;
PREPARE entries(text, int) AS SELECT id, author, day FROM post WHERE author = ANY ($1::int[])
	OR (author IS NULL AND array_position($1::int[], NULL) IS NOT NULL)
	ORDER BY day NULLS FIRST, author, id LIMIT $2;
EXPLAIN (COSTS OFF) EXECUTE heap('{7,NULL}', 500);
SELECT top_same('EXECUTE heap(''{7,NULL}'', 500)');
SELECT top_same('EXECUTE entries(''{7,9,11,13,NULL}'', 500)');
SELECT top_same('EXECUTE entries(''{7,9,11,13}'', 500)');
DEALLOCATE ALL;
RESET plan_cache_mode;
SELECT top_same('SELECT id, author FROM post WHERE author IN (3, 5)
	ORDER BY author, day DESC, id LIMIT 50');

-- the number of rows sorted depends on the limit, also if a generic plan does not know the keys:
-- not on the number of keys that PostgreSQL and gpujoin assume, which differ
CREATE TABLE follow WITH (autovacuum_enabled = off) AS
	SELECT i AS id, i % 10000 AS author, i * 7919 % 20011 AS score, i % 4 AS kind
	FROM generate_series(1, 20000) i;
CREATE INDEX follow_author ON follow USING gpujoin (author) INCLUDE (id, score, kind);
VACUUM ANALYZE follow;
CREATE FUNCTION top_prepared(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	n int;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	n := jsonb_path_query_first(plan, 'strict $.**."Rows Ordered"')::int;
	RETURN CASE WHEN n < 200 THEN 'few' WHEN n < 2000 THEN 'more' ELSE 'many' END;
END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE newest(int[]) AS SELECT id, score FROM follow WHERE author = ANY ($1)
	ORDER BY score DESC LIMIT 20;
PREPARE newest_of_kind(int[]) AS SELECT id, score FROM follow WHERE author = ANY ($1) AND kind = 2
	ORDER BY score DESC LIMIT 20;
SELECT array_agg(i) AS followed FROM generate_series(0, 9999, 2) i \gset
SELECT query, top_prepared(format('EXECUTE %s(%L)', query, :'followed')),
	top_same(format('EXECUTE %s(%L)', query, :'followed'))
FROM unnest('{newest,newest_of_kind}'::text[]) query;
DEALLOCATE ALL;
RESET plan_cache_mode;
DROP TABLE follow;

-- changes: dead rows are skipped, new ones are found
UPDATE post SET created = created + interval '1 year' WHERE id % 500 = 7;
UPDATE post SET body = body || '!' WHERE id % 3 = 1;
DELETE FROM post WHERE id > 19000 AND id % 4 <> 0;
INSERT INTO post (id, author, created)
	SELECT i, i % 20, timestamptz '2021-01-01' + (i % 10) * interval '1 day'
FROM generate_series(20001, 20300) i;
SELECT top_same('SELECT * FROM post WHERE author IN (1, 2, 3, 4, 5)
	ORDER BY created DESC NULLS LAST, id LIMIT 20');
SELECT top_same('SELECT id, created FROM post WHERE author IN (1, 2, 3, 4, 5)
	ORDER BY created DESC NULLS LAST, id LIMIT 20');
SELECT top_same('SELECT id, created FROM post WHERE author IN (1, 2, 3, 4, 5)
	ORDER BY created DESC, id DESC LIMIT 400');
VACUUM post;
SELECT top_same('SELECT id, created FROM post WHERE author IN (1, 2, 3, 4, 5)
	ORDER BY created DESC NULLS LAST, id LIMIT 20');
SET gpujoin.enabled = off;
SELECT count(*) FROM post WHERE author = 8;
RESET gpujoin.enabled;

-- little memory: several batches, in pieces
BEGIN;
SET LOCAL work_mem = '64kB';
SET LOCAL hash_mem_multiplier = 1;
SELECT top_same('SELECT id, created FROM post WHERE author BETWEEN 0 AND 3000 AND author <> 4
	ORDER BY created DESC NULLS LAST, id DESC LIMIT 9000');
SELECT top_same('SELECT * FROM post WHERE author = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY created DESC NULLS LAST, id DESC LIMIT 3000');
COMMIT;

-- cursors continue beyond the rows sorted first, prepared statements get other keys and limits
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM post WHERE author = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY likes DESC, id LIMIT 5000;
SELECT top_plan('SELECT id FROM post WHERE author = ANY (ARRAY(SELECT generate_series(0, 150)))
	ORDER BY likes DESC, id LIMIT 5000');
FETCH 3 FROM c;
MOVE 4000 FROM c;
FETCH 3 FROM c;
UPDATE post SET likes = NULL WHERE author = 5;
MOVE 900 FROM c;
FETCH 2 FROM c;
ROLLBACK;
SELECT id FROM post WHERE author BETWEEN 0 AND 150 ORDER BY likes DESC, id LIMIT 3 OFFSET 4003;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM post WHERE author IN (1, 2, 3) ORDER BY id DESC LIMIT 100;
FETCH 2 FROM c;
UPDATE post SET body = 'here' WHERE CURRENT OF c RETURNING id;
FETCH 2 FROM c;
DELETE FROM post WHERE CURRENT OF c RETURNING id;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM post WHERE author IN (1, 2, 3)
	ORDER BY id DESC LIMIT 100 FOR UPDATE;
FETCH 2 FROM c;
UPDATE post SET body = 'here' WHERE CURRENT OF c RETURNING id;
ROLLBACK;
SET plan_cache_mode = force_generic_plan;
PREPARE newest(int[], int) AS SELECT id, created FROM post WHERE author = ANY ($1)
	ORDER BY created DESC NULLS LAST, id LIMIT $2;
EXPLAIN (COSTS OFF) EXECUTE newest('{1,2}', 2);
EXECUTE newest('{1,2}', 2);
EXECUTE newest('{7}', 3);
EXECUTE newest(NULL, 3);
RESET plan_cache_mode;

-- rescans: with the same keys, and with others
SELECT top_same('SELECT k, s.* FROM generate_series(1, 3) k, LATERAL (SELECT id, day FROM post
	WHERE author IN (1, 2, 3) ORDER BY day DESC, id LIMIT k) s');
SELECT top_same('SELECT k, s.* FROM generate_series(1, 3) k, LATERAL (SELECT id, day FROM post
	WHERE author = k ORDER BY day DESC, id LIMIT 3) s');
SELECT top_same('SELECT k, s.* FROM generate_series(1, 3) k, LATERAL (SELECT * FROM post
	WHERE author = ANY (ARRAY[k, k + 1]) ORDER BY day DESC, id LIMIT 150) s');

-- a join above requests the first rows
CREATE TABLE author (id int PRIMARY KEY, name text);
INSERT INTO author SELECT i, 'author ' || i FROM generate_series(0, 199, 2) i;
ANALYZE author;
SELECT top_same('SELECT p.id, a.name FROM post p JOIN author a ON a.id = p.author
	WHERE p.author BETWEEN 1 AND 50 AND p.author <> 3 ORDER BY p.created DESC, p.id LIMIT 20');

-- partitions: each returns its own first rows, MergeAppend merges them
CREATE TABLE part (id int, author int, created timestamptz) PARTITION BY RANGE (created);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (MINVALUE) TO ('2020-01-03');
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2020-01-03') TO ('2020-01-05');
CREATE TABLE part_3 PARTITION OF part DEFAULT;
INSERT INTO part SELECT id, author, created FROM post;
CREATE INDEX ON part USING gpujoin (author) INCLUDE (id, created);
VACUUM (ANALYZE) part;
EXPLAIN (COSTS OFF) SELECT * FROM part WHERE author IN (1, 2, 3) ORDER BY id DESC LIMIT 5;
SELECT top_same('SELECT * FROM part WHERE author IN (1, 2, 3) ORDER BY id DESC LIMIT 50');
SELECT top_same('SELECT * FROM part WHERE author IN (1, 2, 3) ORDER BY created DESC, id LIMIT 50');
SELECT top_same('SELECT id FROM part WHERE author IN (1, 2, 3)
	ORDER BY author, id LIMIT 5 OFFSET 150');

-- which one costs less, without force
RESET gpujoin.force;
SELECT top_plan('SELECT * FROM post WHERE author BETWEEN 0 AND 3000 AND author <> 4
	ORDER BY created DESC, id LIMIT 5');
SELECT top_plan('SELECT * FROM post WHERE author IN (1, 2, 3, 4, 5, 6, 7, 8)
	ORDER BY created DESC LIMIT 5');
SELECT top_plan('SELECT id FROM post WHERE author IN (1, 2, 3, 4, 5, 6, 7, 8)
	ORDER BY created DESC LIMIT 5');

-- the greatest value is in the first row; a join above needs no order
SELECT top_plan('SELECT max(created) FROM post WHERE author IN (1, 2, 3) AND body <> ''x''');
SELECT max(created) FROM post WHERE author IN (1, 2, 3) AND body <> 'x';
SET gpujoin.enabled = off;
SELECT max(created) FROM post WHERE author IN (1, 2, 3) AND body <> 'x';
RESET gpujoin.enabled;
SELECT top_plan('SELECT p.id, a.name FROM post p JOIN author a ON a.id = p.author
	WHERE p.author IN (1, 2, 3, 4, 5, 6, 7, 8) ORDER BY p.created DESC, p.id LIMIT 5');

-- EXPLAIN's counters
SET gpujoin.auto_load = off;
CREATE TABLE counted AS SELECT i AS id, i % 10 AS k FROM generate_series(1, 1000) i;
CREATE INDEX counted_k ON counted USING gpujoin (k) INCLUDE (id);
SET gpujoin.force = on;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM counted WHERE k IN (1, 2, 3) ORDER BY id DESC LIMIT 5');
SET plan_cache_mode = force_generic_plan;
PREPARE counted(int) AS SELECT ctid FROM counted WHERE k IN (1, 2, 3) ORDER BY id DESC LIMIT $1;
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'EXECUTE counted(280)');

-- A damaged index, in which entries have other values than their rows: a row is then omitted, as in
-- any scan of such an index, but does not appear at another row's position.
CREATE TABLE chain (id int, k int, v int, pad text)
	WITH (autovacuum_enabled = off, fillfactor = 40);
INSERT INTO chain SELECT i, i % 2, i, 'x' FROM generate_series(1, 1000) i;
CREATE INDEX chain_k ON chain USING gpujoin (k) INCLUDE (v);
UPDATE pg_index SET indislive = false WHERE indexrelid = 'chain_k'::regclass;
\c -
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS keeps_pages_from_being_all_visible;
PREPARE TRANSACTION 'top';
UPDATE chain SET v = 2000 - v WHERE id % 50 = 1;
UPDATE pg_index SET indislive = true WHERE indexrelid = 'chain_k'::regclass;
\c -
SET gpujoin.force = on;
SELECT count(*), count(*) FILTER (WHERE v < before) AS disorder
FROM (SELECT v, lag(v) OVER () AS before
	FROM (SELECT * FROM chain WHERE k IN (1, 3) ORDER BY v LIMIT 5000) q) p;

-- another filter parameter with another key
SELECT w, (SELECT v FROM chain WHERE k = ANY (ARRAY[x, 1]) AND v <> w ORDER BY v LIMIT 1) AS first
FROM (VALUES (1, 3), (5, 4), (7, 3)) o(x, w);

COMMIT PREPARED 'top';
DROP TABLE post, part, author, chain, counted;
DROP FUNCTION top_rows, top_plan, top_same, top_types;
DROP FUNCTION explain;
