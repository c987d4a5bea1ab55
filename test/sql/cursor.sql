--
-- Cursors: most clients fetch all of a cursor's rows, so these share the cost of the search
--
CREATE SCHEMA cursor;
SET search_path = cursor, public;
SET gpujoin.auto_load = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE big (id int, k int, v int, note text) WITH (fillfactor = 30);
INSERT INTO big SELECT i, (i * 7919::int8) % 20000, i % 7, repeat('x', 100) FROM generate_series(1, 100000) i;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (v);
CREATE TABLE small AS SELECT i * 3 AS k FROM generate_series(1, 1000) i;
CREATE TABLE parts (id int, k int, v int, note text) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s) WITH (fillfactor = 30)',
	i, i * 50000, (i + 1) * 50000) FROM generate_series(0, 2) i \gexec
INSERT INTO parts SELECT * FROM big;
CREATE INDEX parts_k ON parts USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE big, small, parts;

-- The node that reads the big table, for a query and for a cursor
CREATE FUNCTION reader(query text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	keys text := (SELECT string_agg((i * 3)::text, ', ') FROM generate_series(1, n) i);
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(query, keys)
	LOOP
		IF line ~ 'Gpu(Scan|Join|Agg)\)|Seq Scan on (big|parts)|Bitmap Heap' THEN
			RETURN btrim(line, ' ->');
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION readers(query text) RETURNS TABLE (keys int, query_reads text, cursor_reads text)
LANGUAGE sql AS $$
	SELECT n, reader(query, n), reader('DECLARE c CURSOR FOR ' || query, n)
	FROM unnest('{10, 100, 1000, 3000, 6000}'::int[]) n
$$;
SELECT * FROM readers('SELECT * FROM big WHERE k IN (%s)');
SELECT * FROM readers('SELECT k, v FROM big WHERE k IN (%s)');
SELECT * FROM readers('SELECT * FROM parts WHERE k IN (%s)');
SELECT * FROM readers('SELECT big.* FROM small JOIN big USING (k) WHERE k IN (%s)');
PREPARE generic(int[]) AS SELECT * FROM big WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE generic('{1}');
RESET plan_cache_mode;

-- A lower cursor_tuple_fraction than the default, and LIMIT, ask for a fast start
SET cursor_tuple_fraction = 0.001;
SELECT * FROM readers('SELECT * FROM big WHERE k IN (%s)') WHERE keys IN (10, 1000);
RESET cursor_tuple_fraction;
SELECT * FROM readers('SELECT * FROM big WHERE k IN (%s) LIMIT 5') WHERE keys >= 1000;
SELECT reader('SELECT * FROM big WHERE k IN (%s) LIMIT 1 + length(version()) / 1000', 1000);

-- The same rows
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, k FROM big WHERE k = ANY (ARRAY(SELECT k FROM small)) AND note <> 'y';
MOVE ALL c;
MOVE BACKWARD ALL c;
FETCH 2 c;
DECLARE d CURSOR FOR SELECT * FROM big JOIN small USING (k);
MOVE ALL d;
COMMIT;
SET gpujoin.enabled = off;
SELECT count(*) FROM big JOIN small USING (k);

SET client_min_messages = warning;
DROP SCHEMA cursor CASCADE;
