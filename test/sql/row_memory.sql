-- Functions of types may leave garbage for each row: detoasted copies, results. It is freed at
-- once, wherever a row's key is converted or a row is grouped, and not at the end of the query.
-- executor_memory() returns how many bytes the queries that are being executed use in their own
-- context, while the last row is processed; growth() how many more with 40,000 rows than with 100.
-- A leak of 8 bytes a row would exceed what is allowed: an array of 40,000 numerics takes 480,000.
CREATE FUNCTION executor_memory() RETURNS bigint LANGUAGE sql AS
	$$SELECT max(used_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'$$;
CREATE FUNCTION growth(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	few bigint;
	many bigint;
BEGIN
	EXECUTE statement INTO few USING 100;
	EXECUTE statement INTO many USING 40000;
	RETURN many - few;
END $$;
CREATE FUNCTION nodes_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	nodes text = '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(statement, '$1', '100') LOOP
		CONTINUE WHEN nodes = 'Index Scan';	-- of an OR, there are two bitmap scans up to 17
		nodes = nodes || coalesce(substring(line FROM '\(Gpu[[:alpha:]]+\)|Index Scan'), '');
	END LOOP;
	RETURN nodes;
END $$;
SET gpujoin.force = on;
SET max_parallel_workers_per_gather = 0;

-- insertion, compared with that into a btree: numerics with a fraction are hashed
CREATE TABLE hashed (k numeric, n numeric, t text);
CREATE INDEX hashed_k ON hashed USING gpujoin (k) INCLUDE (n, t);
CREATE TABLE sorted (k numeric, n numeric, t text);
CREATE INDEX ON sorted (k) INCLUDE (n, t);
CREATE FUNCTION insertion(into_table text) RETURNS bigint LANGUAGE sql AS $$
	SELECT growth(format('WITH added AS (
		INSERT INTO %I SELECT i + 0.5, i + 0.25, $x$text $x$ || i FROM generate_series(1, $1) i
		RETURNING CASE WHEN k = $1 + 0.5 THEN executor_memory() END AS memory)
	SELECT max(memory) FROM added', into_table)) $$;
SELECT insertion('hashed') - insertion('sorted') < 100000 AS inserts_as_a_btree;
VACUUM ANALYZE hashed;

-- bpchars, most of which are too long for the index; the rows are so long that they are compressed
CREATE TABLE padded (k int, id int, c char(120), filler text) WITH (toast_tuple_target = 128);
ALTER TABLE padded ALTER filler SET STORAGE PLAIN;
INSERT INTO padded
	SELECT 1, i, i % 10 || CASE WHEN i % 5 > 0 THEN repeat('x', 40) ELSE '' END, repeat('-', 2000)
	FROM generate_series(1, 4000) i;
CREATE INDEX ON padded USING gpujoin (k) INCLUDE (id, c);
CREATE TABLE small AS
	SELECT i AS number, i + 0.5 AS k, i + 0.25 AS n FROM generate_series(1, 40000) i;
VACUUM ANALYZE padded, small;

CREATE TEMP TABLE statements (id int, allowed int, what text, statement text);
INSERT INTO statements VALUES
	(1, 100000, 'rows of a join', 'SELECT max(memory) FROM (SELECT executor_memory() AS memory
		FROM small s JOIN hashed h USING (k) WHERE s.number <= $1 AND h.k < 30) s'),
	(2, 100000, 'with two columns', 'SELECT max(memory) FROM (SELECT executor_memory() AS memory
		FROM small s JOIN hashed h USING (k, n) WHERE s.number <= $1 AND h.k < 30) s'),
	(3, 600000, 'elements of a list', 'SELECT max(memory) FROM (SELECT executor_memory() AS memory
		FROM unnest(ARRAY(SELECT k FROM small WHERE number <= $1)) s (k) JOIN hashed h USING (k)
		WHERE h.k < 30) s'),
	(4, 600000, 'rows of a scan', 'SELECT max(memory) FROM (SELECT CASE WHEN h.k < 2 THEN executor_memory()
		END AS memory FROM hashed h WHERE k = ANY (ARRAY(SELECT k FROM small WHERE number <= $1
		ORDER BY k DESC))) s'),
	(5, 100000, 'groups', 'SELECT max(memory) FROM (SELECT c, count(*), executor_memory() AS memory
		FROM padded WHERE k = 1 AND id <= $1 / 10 GROUP BY c) t'),
	(6, 100000, 'aggregates', 'SELECT max(memory) FROM (SELECT min(c COLLATE "C"),
		executor_memory() AS memory FROM padded WHERE k = 1 AND id <= $1) t'),
	(7, 100000, 'scans of an index', 'SELECT max(memory) FROM (SELECT CASE WHEN s.number = $1 / 10 THEN
		executor_memory() END AS memory FROM (SELECT * FROM small WHERE number <= $1 / 10) s
		JOIN hashed h ON h.k = s.k OR h.k = s.k + 1) t');
SELECT count(*) > 0 AS has_compressed FROM padded WHERE pg_column_size(c) < 100;
SELECT what, nodes_of(statement), growth(statement) < allowed AS is_small
FROM statements ORDER BY id;

-- groups by texts of a small side with far more rows than expected: the texts keep to the memory
CREATE TABLE numbered (k int, v int);
INSERT INTO numbered SELECT i, i FROM generate_series(1, 40000) i;
CREATE INDEX ON numbered USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE numbered;
CREATE FUNCTION many_texts(n int) RETURNS TABLE (k int, t text) ROWS 100 LANGUAGE plpgsql AS
	$$BEGIN RETURN QUERY SELECT i, 'text number ' || i FROM generate_series(1, n) i; END$$;
CREATE FUNCTION text_memory() RETURNS bigint LANGUAGE sql AS
	$$SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts
		WHERE name ~ '^gpujoin (stray|codes)'$$;
SET work_mem = '1MB';
SELECT count(*), sum(n), max(memory) < 2000000 AS is_small
FROM (SELECT t, count(*) AS n, CASE WHEN t LIKE '%99' THEN text_memory() END AS memory
	FROM many_texts(40000) s JOIN numbered USING (k) GROUP BY t) g;

-- other columns of a small side's row that stand beside a key, with more rows than expected
CREATE TABLE owners (id int PRIMARY KEY, k int, t text, n numeric) WITH (autovacuum_enabled = off);
INSERT INTO owners SELECT -i, 0, 'owner number ' || i, 1.5 FROM generate_series(1, 5000) i;
DELETE FROM owners WHERE id > -5000;
VACUUM ANALYZE owners;
INSERT INTO owners SELECT i, i, 'owner number ' || i, i % 100 + 1.50 FROM generate_series(1, 4500) i;
CREATE FUNCTION passes(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || statement LOOP
		IF line ~ 'Passes: ' THEN
			RETURN 'many';
		END IF;
	END LOOP;
	RETURN 'one';
END $$;
SET work_mem = '64kB';
CREATE VIEW owned AS SELECT s.id, s.t || '!' AS t, s.n, count(*) AS times, sum(v) AS v
	FROM owners s JOIN numbered USING (k) GROUP BY s.id;
SELECT passes('SELECT * FROM owned');
SELECT count(*), count(DISTINCT t), sum(n), sum(v),
	count(*) FILTER (WHERE t <> 'owner number ' || id || '!' OR n <> id % 100 + 1.50) AS different
FROM owned;
