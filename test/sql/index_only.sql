-- Index-only answers: rows of all-visible pages come from the index, all others from the heap; the
-- answer does not depend on which.
CREATE TABLE io (gone int, id int, k int, v int8, w float8, b bool, t text)
	WITH (autovacuum_enabled = off);
ALTER TABLE io DROP gone;
-- PostgreSQL 19's queries mark pages as all-visible, unless an older transaction is open
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS has_xid;
PREPARE TRANSACTION 'index_only';
INSERT INTO io
SELECT i, CASE WHEN i % 50 <> 0 THEN i % 200 END, CASE WHEN i % 7 <> 0 THEN i END, i / 3.0,
	CASE WHEN i % 3 <> 0 THEN i % 2 = 0 END, repeat('x', 20)
FROM generate_series(1, 20000) i;
-- no loader, whose snapshot might keep VACUUM from removing a row
SET gpujoin.auto_load = off;
CREATE INDEX io_k ON io USING gpujoin (k) INCLUDE (id, v, b, w);
RESET gpujoin.auto_load;

-- number of our nodes in a query's plan, rows returned, and rows fetched from the heap
CREATE FUNCTION io_fetches(query text, OUT nodes bigint, OUT rows bigint, OUT heap_fetches bigint)
LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json, TIMING off) ' || query INTO plan;
	WITH RECURSIVE n AS (
		SELECT plan->0->'Plan' AS j
		UNION ALL SELECT json_array_elements(n.j->'Plans') FROM n)
	SELECT count(*), sum((j->>'Actual Rows')::numeric), sum((j->>'Heap Fetches')::bigint)
	FROM n WHERE (j->>'Index Only')::bool INTO nodes, rows, heap_fetches;
END $$;
CREATE FUNCTION io_same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	ours text[];
	theirs text[];
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO theirs;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO ours;
	RETURN ours IS NOT DISTINCT FROM theirs;
END $$;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
SET gpujoin.force = on;

-- offered: the index has every column that the scan returns or filters on
EXPLAIN (COSTS OFF) SELECT count(*) FROM io WHERE k IN (1, 2, 3);
EXPLAIN (COSTS OFF) SELECT k, v, b FROM io WHERE k = ANY (ARRAY[1, 2]) AND id > 100;
EXPLAIN (COSTS OFF) SELECT v + id FROM io WHERE k = 77 AND w < 1000 ORDER BY v;
SELECT nodes FROM io_fetches('SELECT EXISTS (SELECT FROM io WHERE k IN (1, 2))');
SELECT nodes FROM io_fetches('SELECT DISTINCT id, k, v, w, b FROM io WHERE k IN (1, 2)');
-- not offered
SELECT nodes FROM io_fetches('SELECT t FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT id FROM io WHERE k IN (1, 2) AND t IS NOT NULL');
SELECT nodes FROM io_fetches('SELECT io FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT * FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT ctid FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT tableoid, xmin FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT id FROM io WHERE k IN (1, 2) FOR UPDATE');
SELECT nodes FROM io_fetches('SELECT id FROM io WHERE k IN (1, 2) FOR KEY SHARE');
BEGIN;
SELECT nodes FROM io_fetches('UPDATE io SET v = 1 WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('DELETE FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('UPDATE io SET v = 1 FROM io o WHERE o.k IN (1, 2) AND o.id = io.id');
ROLLBACK;
SET enable_indexonlyscan = off;
SELECT nodes FROM io_fetches('SELECT count(*) FROM io WHERE k IN (1, 2)');
RESET enable_indexonlyscan;

-- at first nothing is all-visible; then everything; then everything except the changed pages
SELECT * FROM io_fetches('SELECT id FROM io WHERE k IN (1, 2)');
COMMIT PREPARED 'index_only';
VACUUM ANALYZE io;
SELECT * FROM io_fetches('SELECT id FROM io WHERE k IN (1, 2)');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT id, b FROM io WHERE k IN (1, 2)');
SELECT relpages > 1 AS several_pages FROM pg_class WHERE relname = 'io';
DELETE FROM io WHERE id = 1;
SELECT rows, heap_fetches BETWEEN 1 AND 10 AS some FROM io_fetches('SELECT id FROM io WHERE k IN (1, 2)');
INSERT INTO io VALUES (0, 1, -1, NULL, true, 'new');
UPDATE io SET t = 'hot' WHERE id = 10001;
UPDATE io SET v = -1 WHERE id = 12002;
SELECT io_same('SELECT id, k, v, w, b FROM io WHERE k IN (1, 2)');
BEGIN;
INSERT INTO io VALUES (-2, 2, -2, NULL, true, 'own');
UPDATE io SET v = -3 WHERE id = 14002;
DELETE FROM io WHERE id = 16002;
SELECT io_same('SELECT id, k, v, w, b FROM io WHERE k IN (1, 2)');
DECLARE io_c CURSOR FOR SELECT id FROM io WHERE k IN (2, -1) AND id < 1000;
FETCH 2 FROM io_c;
DELETE FROM io WHERE id = 402;
FETCH ALL FROM io_c;
ROLLBACK;
SELECT io_same('SELECT id, k, v, w, b FROM io WHERE k IN (1, 2)');

-- all kinds of target lists: no column, one, all, expressions, filters, NULLs
SELECT q, io_same(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 200, 3)))',
	'SELECT count(*), count(v), sum(v), sum(w::numeric), count(b), bool_or(b) FROM io WHERE k IN (3, 4, 5, 99)',
	'SELECT k, count(*) FROM io WHERE k IN (3, 4, 5, 99) GROUP BY k',
	'SELECT w, b, v, id, k FROM io WHERE k IN (3, 4, 5, 99)',
	'SELECT k, k, v, v + 1, b FROM io WHERE k IN (3, 4, 5, 99)',
	'SELECT 1 FROM io WHERE k IN (3, 4, 5, 99)',
	'SELECT b, id FROM io WHERE k IN (3, 4, 5, 99) AND v IS NULL',
	'SELECT id FROM io WHERE k IN (3, 4, 5, 99) AND b AND v % 2 = 0 AND w > 100',
	'SELECT id FROM io WHERE k = 5 AND k IN (4, 5)',
	'SELECT id FROM io WHERE k IN (NULL, 1000000)',
	'SELECT id FROM io WHERE k = ANY (''{}''::int[])',
	'SELECT id, v FROM io WHERE k IN (3, 4, 5, 99) ORDER BY id LIMIT 7',
	'SELECT x, (SELECT count(*) FROM io WHERE k IN (x, x + 1)) FROM generate_series(0, 300, 37) x',
	'SELECT x, l.id FROM generate_series(0, 300, 37) x, LATERAL (SELECT id FROM io WHERE k = ANY (ARRAY[x]) ORDER BY id LIMIT 2) l',
	'SELECT o.id, i.v FROM io o JOIN io i ON i.id = o.id WHERE o.k IN (1, 2) AND i.k IN (1, 2)'
]) q;
-- a nested loop scans again, with the same entries
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT io_same('SELECT x, id, v FROM generate_series(1, 3) x, io WHERE k IN (1, 2, 33) AND id % 3 = x % 3');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

-- entries that do not fit in memory come in several pieces; also in rescans by a nested loop
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
VACUUM io;
SELECT rows, heap_fetches FROM io_fetches('SELECT v FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT io_same('SELECT count(*), sum(v), sum(id) FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT rows, heap_fetches FROM io_fetches('SELECT v FROM io WHERE k IN (1, 2)');
SET enable_material = off;
SELECT io_same('SELECT x, (SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198))) AND id > x)
	FROM generate_series(1, 2) x');
SELECT io_same('SELECT x, v FROM generate_series(1, 2) x, io
	WHERE k = ANY (ARRAY(SELECT generate_series(0, 198))) AND id % 5 = x');
RESET enable_material;
UPDATE io SET v = v WHERE id % 50 = 7;
SELECT rows, heap_fetches > 5000 AS many FROM io_fetches('SELECT v FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT io_same('SELECT id, v, w FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT io_same('SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
-- a single piece, with more rows to fetch than fit in memory, and a rescan of it
SET enable_material = off;
SELECT io_same('SELECT x, v FROM generate_series(1, 2) x, io
	WHERE k = ANY (ARRAY(SELECT generate_series(1, 25))) AND id % 5 >= x');
RESET enable_material;
VACUUM io;
-- the first ones are looked up in the heap
UPDATE io SET t = 'first' WHERE id < 4000;
SELECT rows, heap_fetches > 2000 AS many FROM io_fetches('SELECT v FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT io_same('SELECT id, v FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
VACUUM io;
RESET work_mem;
RESET hash_mem_multiplier;

-- reused slots: entries are no longer in heap order
DELETE FROM io WHERE id % 5 = 0;
VACUUM io;
INSERT INTO io SELECT i, i % 200, -i, i, i % 3 = 0, 'again' FROM generate_series(30001, 36000) i;
DELETE FROM io WHERE id % 7 = 0;
VACUUM io;
INSERT INTO io SELECT i, i % 200, -i, i, i % 3 = 0, 'again' FROM generate_series(40001, 42000) i;
VACUUM io;
SELECT heap_fetches FROM io_fetches('SELECT v FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT io_same('SELECT id, k, v, w, b FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT heap_fetches FROM io_fetches('SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');
SELECT io_same('SELECT count(*) FROM io WHERE k = ANY (ARRAY(SELECT generate_series(0, 198)))');

-- serializable transactions read the heap, because a deletion must meet their predicate locks. A
-- plan made in such a transaction is not index-only, and one made before is executed with the heap
SET plan_cache_mode = force_generic_plan;
PREPARE io_before AS SELECT v FROM io WHERE k IN (1, 2);
PREPARE io_within AS SELECT v FROM io WHERE k IN (1, 2);
SELECT nodes, heap_fetches FROM io_fetches('EXECUTE io_before');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT nodes FROM io_fetches('SELECT v FROM io WHERE k IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT b.v FROM (VALUES (1), (2)) s(k) JOIN io b ON b.k = s.k');
SELECT nodes FROM io_fetches('EXECUTE io_within');
SELECT nodes, heap_fetches > 100 AS heap FROM io_fetches('EXECUTE io_before');
COMMIT;
SELECT nodes, heap_fetches FROM io_fetches('EXECUTE io_before');
SELECT nodes FROM io_fetches('EXECUTE io_within');
DEALLOCATE ALL;
RESET plan_cache_mode;

-- cursors: held beyond the end of the transaction, and in both directions
BEGIN;
DECLARE io_h CURSOR WITH HOLD FOR SELECT id, v FROM io WHERE k IN (8, -1) AND id < 1000;
DECLARE io_s SCROLL CURSOR FOR SELECT id, v FROM io WHERE k IN (8, -1) AND id < 1000;
FETCH 2 FROM io_s;
FETCH ABSOLUTE 4 FROM io_s;
FETCH PRIOR FROM io_s;
FETCH FIRST FROM io_s;
COMMIT;
FETCH 3 FROM io_h;
CLOSE io_h;

-- a generic plan
SET plan_cache_mode = force_generic_plan;
PREPARE io_p(int[]) AS SELECT k, count(*), sum(v) FROM io WHERE k = ANY ($1) GROUP BY k ORDER BY k;
EXECUTE io_p('{1,2}');
EXECUTE io_p('{2,3,NULL}');
DELETE FROM io WHERE k = 2 AND id < 10000;
EXECUTE io_p('{2,3,NULL}');
RESET plan_cache_mode;

-- keys and columns of each type are returned unchanged
CREATE TABLE io_types (i2 int2, i4 int4, i8 int8, o oid, d date, ts timestamp, tz timestamptz,
	f4 float4, f8 float8, b bool, c "char");
INSERT INTO io_types
SELECT i - 50, i * 40000000::int8 - 2000000000, i * 90000000000000000 - 4500000000000000000,
	i::int8 * 42000000, '2000-01-01'::date + i * 1000 - 50000,
	'2000-01-01'::timestamp + (i - 50) * interval '77 days 1 us',
	'2000-01-01 UTC'::timestamptz + (i - 50) * interval '33 days 1 us', i / 7.0, -i / 7.0, i % 2 = 0,
	chr(i)::"char"
FROM generate_series(1, 100) i;
INSERT INTO io_types VALUES
	(-32768, -2147483648, -9223372036854775808, 0, '-infinity', '-infinity', '-infinity', '-0',
		'-infinity', false, ''),
	(32767, 2147483647, 9223372036854775807, 4294967295, 'infinity', 'infinity', 'infinity', 'NaN',
		'NaN', true, '\377');
DO $$
DECLARE
	types text[] := '{i2,i4,i8,o,d,ts,tz}';
	columns text := 'i2, i4, i8, o, d, ts, tz, f4, f8, b, c';
	c text;
BEGIN
	FOREACH c IN ARRAY types LOOP
		EXECUTE format('CREATE INDEX io_types_%s ON io_types USING gpujoin (%1$s) INCLUDE (%s)', c,
			(SELECT string_agg(quote_ident(n), ', ') FROM regexp_split_to_table(columns, ', ') n
			WHERE n <> c));
	END LOOP;
END $$;
VACUUM ANALYZE io_types;
SELECT c, io_same(format('SELECT * FROM io_types WHERE %I = ANY (ARRAY(SELECT %1$I FROM io_types))', c)),
	io_same(format('SELECT %I FROM io_types WHERE %1$I = ANY (ARRAY(SELECT %1$I FROM io_types))', c)),
	nodes, rows, heap_fetches
FROM unnest('{i2,i4,i8,o,d,ts,tz}'::text[]) c,
	io_fetches(format('SELECT * FROM io_types WHERE %I = ANY (ARRAY(SELECT %1$I FROM io_types))', c));

-- domains, partial indexes, expressions, user-defined key functions
CREATE DOMAIN io_domain AS int4;
CREATE TABLE io_odd (a io_domain, b int, c int);
INSERT INTO io_odd SELECT i % 100, i % 3, i FROM generate_series(1, 2000) i;
CREATE INDEX io_odd_a ON io_odd USING gpujoin (a) INCLUDE (c) WHERE b = 1;
CREATE INDEX io_odd_e ON io_odd USING gpujoin ((a + c)) INCLUDE (c);
CREATE FUNCTION io_key(int4) RETURNS int8 LANGUAGE sql IMMUTABLE AS 'SELECT ($1 * 3)::int8';
CREATE OPERATOR CLASS io_key_ops FOR TYPE int4 USING gpujoin AS
	OPERATOR 1 =, FUNCTION 1 io_key(int4);
CREATE INDEX io_odd_c ON io_odd USING gpujoin (c io_key_ops) INCLUDE (b);
VACUUM ANALYZE io_odd;
SELECT nodes FROM io_fetches('SELECT a, c FROM io_odd WHERE a IN (1, 2) AND b = 1');
SELECT nodes FROM io_fetches('SELECT c FROM io_odd WHERE a + c IN (1, 2)');
SELECT nodes FROM io_fetches('SELECT b FROM io_odd WHERE c IN (1, 2)');
SELECT io_same('SELECT b, c FROM io_odd WHERE c IN (1, 2)');
CREATE INDEX io_odd_b ON io_odd USING gpujoin (a) INCLUDE (c, b) WHERE b = 1;
SELECT nodes, rows, heap_fetches FROM io_fetches('SELECT a, c FROM io_odd WHERE a IN (1, 2) AND b = 1');
SELECT io_same('SELECT a, c FROM io_odd WHERE a IN (1, 2) AND b = 1');

-- partitions of different shapes, and children
CREATE TABLE io_part (k int, v int8, w bool) PARTITION BY RANGE (k);
CREATE TABLE io_part_1 PARTITION OF io_part FOR VALUES FROM (0) TO (1000);
CREATE TABLE io_part_2 (x text, w bool, k int, v int8);
ALTER TABLE io_part_2 DROP x;
ALTER TABLE io_part ATTACH PARTITION io_part_2 FOR VALUES FROM (1000) TO (2000);
CREATE INDEX io_part_k ON io_part USING gpujoin (k) INCLUDE (w, v);
INSERT INTO io_part SELECT i, i * 10, i % 5 = 0 FROM generate_series(0, 1999) i, generate_series(1, 3);
VACUUM ANALYZE io_part;
SELECT * FROM io_fetches('SELECT v, w FROM io_part WHERE k IN (5, 500, 1005, 1500)');
SELECT io_same('SELECT v, w, k FROM io_part WHERE k IN (5, 500, 1005, 1500)');
SELECT io_same('SELECT count(*) FROM io_part WHERE k IN (5, 500, 1005, 1500) AND w');

-- the big side of joins: rows from the index and from the heap find their partners
CREATE TABLE io_small (k int, w int);
INSERT INTO io_small SELECT i % 210, i FROM generate_series(1, 300) i;
INSERT INTO io_small VALUES (NULL, 1), (-5, 2), (7, 3), (7, 4);
VACUUM ANALYZE io_small;
VACUUM ANALYZE io;
EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM io_small s JOIN io USING (k);
EXPLAIN (COSTS OFF) SELECT DISTINCT b.id, b.k, b.v, b.w, b.b FROM io_small s JOIN io b ON b.k = s.k WHERE b.v > 5;
SELECT * FROM io_fetches('SELECT b.v, s.w FROM io_small s JOIN io b ON b.k = s.k');
SELECT * FROM io_fetches('SELECT b.t FROM io_small s JOIN io b ON b.k = s.k');
DELETE FROM io WHERE id IN (7, 8, 207);
UPDATE io SET t = 'hot' WHERE id = 9;
UPDATE io SET v = 123456 WHERE id IN (33, 34);
INSERT INTO io VALUES (50007, 7, 50007, 1, true, 'new');
SELECT rows > 20000 AS rows, heap_fetches BETWEEN 1 AND 2000 AS some
FROM io_fetches('SELECT b.v, s.w FROM io_small s JOIN io b ON b.k = s.k');
SELECT q, io_same(q) FROM unnest(ARRAY[
	'SELECT count(*), sum(v) FROM io_small s JOIN io USING (k)',
	'SELECT b.v, s.w FROM io_small s JOIN io b ON b.k = s.k',
	'SELECT b.id, b.v, b.b, s.w FROM io_small s JOIN io b ON b.k = s.k AND b.id % 7 = s.w % 7 WHERE b.v > 5 OR b.b',
	'SELECT b.k, s.k, b.k = s.k, b.v + s.w FROM io_small s, io b WHERE b.k = s.k AND b.v IS NULL',
	'SELECT DISTINCT b.id, b.k, b.v, b.w, b.b FROM io_small s JOIN io b ON b.k = s.k',
	'SELECT s.*, b.id, b.v FROM io_small s LEFT JOIN io b ON b.k = s.k AND b.v % 9 = 0',
	'SELECT s.* FROM io_small s WHERE NOT EXISTS (SELECT FROM io b WHERE b.k = s.k AND b.b)',
	'SELECT s.* FROM io_small s WHERE EXISTS (SELECT FROM io b WHERE b.k = s.k AND b.id > 35990)',
	'SELECT b.id, b.k, b.v FROM io b WHERE b.k IN (SELECT k FROM io_small WHERE w % 2 = 0)',
	'SELECT s.w, b.v, b.w FROM io_small s JOIN io_part b ON b.k = s.k WHERE b.w',
	'SELECT x, (SELECT sum(b.v) FROM io_small s JOIN io b ON b.k = s.k WHERE s.w < x) FROM generate_series(1, 9, 4) x'
]) q;
-- in batches, and in pieces
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT io_same('SELECT b.v, s.w FROM (SELECT k % 500 AS k, w FROM io_small, generate_series(1, 10)) s JOIN io b ON b.k = s.k');
SELECT io_same('SELECT sum(b.v), count(*) FROM io_small s JOIN io b ON b.k = s.k');
RESET work_mem;
RESET hash_mem_multiplier;
-- of two indexes the smaller one is used, unless the bigger one avoids heap access
CREATE INDEX io_k_alone ON io USING gpujoin (k);
VACUUM (ANALYZE, INDEX_CLEANUP on) io;
SELECT nodes, heap_fetches FROM io_fetches('SELECT count(*), sum(v) FROM io_small s JOIN io USING (k)');
SELECT nodes FROM io_fetches('SELECT count(*), max(t) FROM io_small s JOIN io USING (k)');
DROP INDEX io_k_alone;
-- rows that are locked or changed must be read
BEGIN;
SELECT nodes FROM io_fetches('SELECT b.id FROM io_small s JOIN io b ON b.k = s.k WHERE s.w = 5 FOR UPDATE OF b');
SELECT nodes FROM io_fetches('UPDATE io b SET v = 0 FROM io_small s WHERE b.k = s.k AND s.w = 5');
SELECT nodes FROM io_fetches('UPDATE io_small s SET w = 0 FROM io b WHERE b.k = s.k AND b.id = 5');
ROLLBACK;

-- a cursor is positioned on a row, wherever it was read from
CREATE FUNCTION io_change_current(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
	n int := 0;
BEGIN
	OPEN c FOR EXECUTE query;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		UPDATE io SET t = 'current ' || r.id WHERE CURRENT OF c;
	END LOOP;
	CLOSE c;
	RETURN (SELECT format('%s rows, %s changed, right: %s', n, count(*), bool_and(t = 'current ' || id))
		FROM io WHERE t LIKE 'current%');
END $$;
BEGIN;
SELECT io_change_current('SELECT id FROM io WHERE k IN (11, 12)');
ROLLBACK;
BEGIN;
UPDATE io SET t = 'changed' WHERE id % 1000 = 11;
SELECT io_change_current('SELECT id FROM io WHERE k IN (11, 12)');
ROLLBACK;
BEGIN;
SELECT io_change_current('SELECT id, v + 1 FROM io WHERE k IN (11, 12) AND id > 500');
ROLLBACK;

-- if VACUUM has left only a redirect to the row's newer version
CREATE TABLE io_hot (id int, k int, t text) WITH (fillfactor = 50);
INSERT INTO io_hot SELECT i, i % 50, 'old' FROM generate_series(1, 3000) i;
CREATE INDEX io_hot_k ON io_hot USING gpujoin (k) INCLUDE (id);
UPDATE io_hot SET t = 'new';
VACUUM io_hot;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM io_hot WHERE k IN (1, 2);
MOVE 5 FROM c;
UPDATE io_hot SET t = 'current' WHERE CURRENT OF c RETURNING t;
MOVE 5 FROM c;
DELETE FROM io_hot WHERE CURRENT OF c RETURNING t;
ROLLBACK;
-- from the second FETCH on, a function in the query may refer to the row being computed
CREATE FUNCTION io_hot_changed() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	UPDATE io_hot SET t = 'current ' || id WHERE CURRENT OF c RETURNING t INTO result;
	RETURN result;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT CASE WHEN id > 1 THEN io_hot_changed() = 'current ' || id END AS same
	FROM io_hot WHERE k IN (1, 2);
MOVE 1 FROM c;
FETCH 3 FROM c;
ROLLBACK;
-- such a function may be called by a STABLE one, or by a domain
CREATE FUNCTION io_hot_same(i int) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
	RETURN i = 1 OR coalesce(io_hot_changed() = 'current ' || i, false);
END $$;
CREATE DOMAIN io_hot_id AS int CHECK (io_hot_same(VALUE));
VACUUM io_hot;
BEGIN;
DECLARE c CURSOR FOR SELECT io_hot_same(id) AS same FROM io_hot WHERE k IN (1, 2);
MOVE 1 FROM c;
FETCH 3 FROM c;
ROLLBACK;
VACUUM io_hot;
BEGIN;
DECLARE c CURSOR FOR SELECT id::io_hot_id IS NOT NULL AS same FROM io_hot WHERE k IN (1, 2);
MOVE 1 FROM c;
FETCH 3 FROM c;
ROLLBACK;
-- otherwise a FETCH looks up only one row in the heap: the one on which the cursor stops
VACUUM io_hot;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM io_hot WHERE k IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
SELECT pg_stat_get_xact_blocks_fetched('io_hot'::regclass) AS before \gset
MOVE 599 FROM c;
SELECT pg_stat_get_xact_blocks_fetched('io_hot'::regclass) - :before < 50 AS few_blocks;
DELETE FROM io_hot WHERE CURRENT OF c RETURNING t;
ROLLBACK;
-- and none if the cursor can go backwards: then it is on a copy of the row
VACUUM io_hot;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM io_hot WHERE k IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
SELECT pg_stat_get_xact_blocks_fetched('io_hot'::regclass) AS before \gset
MOVE 599 FROM c;
SELECT pg_stat_get_xact_blocks_fetched('io_hot'::regclass) - :before < 50 AS few_blocks;
MOVE BACKWARD 100 FROM c;
DELETE FROM io_hot WHERE CURRENT OF c RETURNING t;
ROLLBACK;

-- a cursor has left the first partition, so that partition's last row is not the current one any
-- more
CREATE TABLE io_parted (id int, k int, t text) PARTITION BY RANGE (id);
CREATE TABLE io_parted_1 PARTITION OF io_parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE io_parted_2 PARTITION OF io_parted FOR VALUES FROM (1000) TO (2000);
INSERT INTO io_parted SELECT i, i % 50, 'old' FROM generate_series(0, 1999) i;
CREATE INDEX io_parted_k ON io_parted USING gpujoin (k) INCLUDE (id);
VACUUM io_parted;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM io_parted WHERE k IN (1, 2);
MOVE 41 FROM c;
UPDATE io_parted SET t = 'current' WHERE CURRENT OF c RETURNING tableoid::regclass;
MOVE 38 FROM c;
DELETE FROM io_parted WHERE CURRENT OF c RETURNING tableoid::regclass;
ROLLBACK;

-- temporary and unlogged tables
CREATE TEMP TABLE io_temp AS SELECT i % 50 AS k, i AS v FROM generate_series(1, 3000) i;
CREATE INDEX io_temp_k ON io_temp USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE io_temp;
SELECT * FROM io_fetches('SELECT sum(v) FROM io_temp WHERE k IN (1, 2)');
SELECT io_same('SELECT sum(v) FROM io_temp WHERE k IN (1, 2)');
CREATE UNLOGGED TABLE io_loose AS SELECT i % 50 AS k, i AS v FROM generate_series(1, 3000) i;
CREATE INDEX io_loose_k ON io_loose USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE io_loose;
SELECT * FROM io_fetches('SELECT sum(v) FROM io_loose WHERE k IN (1, 2)');
SELECT io_same('SELECT sum(v) FROM io_loose WHERE k IN (1, 2)');

DROP TABLE io, io_hot, io_parted, io_small, io_types, io_odd, io_part, io_temp, io_loose;
DROP DOMAIN io_domain;
DROP FUNCTION io_fetches(text), io_same(text), io_change_current(text), explain(text, text);
DROP OPERATOR FAMILY io_key_ops USING gpujoin;
DROP FUNCTION io_key(int4);
