--
-- The cost of a search of short runs, and of long filters of entries
--
CREATE SCHEMA costs;
SET search_path = costs, public;
SET max_parallel_workers_per_gather = 0;

-- Return the first node of a plan that reads a table
CREATE FUNCTION node(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Scan' THEN
			RETURN regexp_replace(line, '^[ >-]+', '');
		END IF;
	END LOOP;
END $$;

-- Updates leave two short runs and a fifth of the entries dead.  A page of a short run is mostly
-- cached, and 40 keys go to the index
CREATE TABLE updated (id int, k int, note text);
INSERT INTO updated SELECT i, (i * 7919::int8) % 20000, repeat('x', 60) FROM generate_series(1, 200000) i;
CREATE INDEX updated_btree ON updated (k);
CREATE INDEX updated_k ON updated USING gpujoin (k);
VACUUM ANALYZE updated;
UPDATE updated SET k = (k + 1) % 20000 WHERE id % 10 = 1;
VACUUM updated;
SELECT gpujoin_fold('updated_k', false) > 0 AS folded;
UPDATE updated SET k = (k + 1) % 20000 WHERE id % 10 = 2;
VACUUM ANALYZE updated;
SELECT gpujoin_fold('updated_k', false) > 0 AS folded;
SELECT runs, delta_pages, dead_entries FROM gpujoin_index_info('updated_k');
SELECT n, node(format('SELECT * FROM updated WHERE k IN (%s)',
					  (SELECT string_agg(((i * 6173) % 20000)::text, ', ') FROM generate_series(1, n) i)))
	FROM unnest(ARRAY[10, 40, 1000]) n;

-- Pairs are looked up in a hash table, however many there are
CREATE TABLE members (user_id int, group_id int, PRIMARY KEY (user_id, group_id));
INSERT INTO members SELECT i % 20000, (i * 7919::int8 + i / 20000) % 4000 FROM generate_series(1, 200000) i;
CREATE INDEX members_group ON members USING gpujoin (group_id) INCLUDE (user_id);
VACUUM ANALYZE members;
SELECT n, node(format('SELECT * FROM members WHERE (user_id, group_id) IN (%s)',
					  (SELECT string_agg(format('(%s, %s)', (i * 7919) % 20000, (i * 331) % 4000), ', ')
					   FROM generate_series(1, n) i)))
	FROM unnest(ARRAY[100, 1000]) n;

-- Beside a unique index of both columns.  A scan for each pair, below a BitmapOr, takes longer than its pages say
CREATE TABLE links (a int, b int, note text, UNIQUE (a, b)) WITH (fillfactor = 20);
INSERT INTO links SELECT (i * 7919::int8) % 20000, i, repeat('x', 40) FROM generate_series(1, 200000) i;
CREATE INDEX links_a ON links USING gpujoin (a);
VACUUM ANALYZE links;
SELECT n, node(format('SELECT * FROM links WHERE (a, b) IN (%s)',
					  (SELECT string_agg(format('(%s, %s)', (i * 7919) % 20000, i), ', ')
					   FROM generate_series(1, n) i)))
	FROM unnest(ARRAY[10, 1000]) n;

-- A join by two columns.  Look-ups in the primary key do not meet the rows of a group that have other
-- users.  Without that key, or if entries have the users, GpuJoin is best
CREATE TABLE pairs (user_id int, group_id int);
CREATE FUNCTION join_node(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	TRUNCATE pairs;
	INSERT INTO pairs SELECT (i * 7919) % 20000, (i * 331) % 4000 FROM generate_series(1, n) i;
	ANALYZE pairs;
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT json) SELECT m.*, m.xmin FROM members m JOIN pairs p
		ON m.user_id = p.user_id AND m.group_id = p.group_id' INTO plan;
	RETURN coalesce(plan #>> '{0,Plan,Custom Plan Provider}', plan #>> '{0,Plan,Node Type}');
END $$;
SELECT n, join_node(n) FROM unnest(ARRAY[300, 500]) n;
DROP INDEX members_group;
CREATE INDEX members_group ON members USING gpujoin (group_id);
SELECT n, join_node(n) FROM unnest(ARRAY[300, 500]) n;
ALTER TABLE members DROP CONSTRAINT members_pkey;
SELECT n, join_node(n) FROM unnest(ARRAY[300, 500]) n;

-- PostgreSQL assumes 200 values of a column without statistics; 10,000 pairs have all 400 keys, of
-- which each has 1,000 entries
CREATE TABLE visits (place int, day int, n int);
INSERT INTO visits SELECT i % 400, i / 400, i FROM (SELECT (i * 7919::int8) % 400000 AS i FROM generate_series(1, 400000) i) q;
CREATE INDEX visits_btree ON visits (place, day);
CREATE INDEX visits_place ON visits USING gpujoin (place) INCLUDE (day);
VACUUM ANALYZE visits;
SELECT n, node(format('SELECT sum(n) FROM visits WHERE (place, day) IN (SELECT unnest(%L::int[]), unnest(%L::int[]))',
					  (SELECT array_agg(i % 400) FROM generate_series(1, n) i), (SELECT array_agg(i / 11) FROM generate_series(1, n) i)))
	FROM unnest(ARRAY[100, 10000]) n;

-- The first row of count(*) OVER () waits for the last row that it counts, so a scan in the order of a
-- btree is not cheaper if only one row is wanted.  It may be with other windows
CREATE TABLE items (id int PRIMARY KEY, k int, note text);
INSERT INTO items SELECT i, (i * 7919::int8) % 20000, repeat('x', 60) FROM generate_series(1, 200000) i;
CREATE INDEX items_k ON items USING gpujoin (k);
VACUUM ANALYZE items;
SELECT f, node(format('SELECT id, %s FROM items WHERE k IN (%s) ORDER BY id LIMIT 1', f,
					  (SELECT string_agg((40 * i)::text, ', ') FROM generate_series(1, 300) i)))
	FROM unnest(ARRAY['count(*) OVER ()', 'count(*) OVER (ROWS UNBOUNDED PRECEDING)',
					  'count(*) OVER (ORDER BY id)', 'count(*) OVER (PARTITION BY id)',
					  'row_number() OVER ()']) f;

SET client_min_messages = warning;
DROP SCHEMA costs CASCADE;
