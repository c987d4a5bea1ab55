\set ECHO none
SET gpujoin.force = on;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;

-- Work that is not divided, i.e. the search and reading pages, costs nothing here, so that the
-- planner divides wherever it can.
SET seq_page_cost = 0;
SET random_page_cost = 0;
SET gpujoin.setup_cost = 0;
SET gpujoin.search_cost = 0;
SET gpujoin.tid_cost = 0;
SET gpujoin.device_setup_cost = 0;
SET gpujoin.device_search_cost = 0;

CREATE TABLE big (id int, k int, v int, pad text) WITH (parallel_workers = 3);
INSERT INTO big SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE (i * 7919) % 1000 - 100 END, i % 10,
					   repeat('x', i % 60) FROM generate_series(1, 30000) i;
CREATE INDEX big_k ON big USING gpujoin (k);

-- Compare the rows of a query without and with gpujoin, in parallel if possible: return their number,
-- whether they are the same, and how the plan uses our node. CREATE TABLE AS runs the query's plan
-- unchanged; an aggregate above would cost much more than it. PostgreSQL's own answer needs no
-- workers, which took a third of the tests' time.
CREATE FUNCTION compare(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	node text := 'NOT OURS';
	gather text := '';
	nstock bigint;
	nours bigint;
	ndifferent bigint;
	workers text := current_setting('max_parallel_workers');
BEGIN
	SET LOCAL client_min_messages = warning;
	DROP TABLE IF EXISTS pg_temp.stock, pg_temp.ours;
	SET LOCAL gpujoin.enabled = off;
	SET LOCAL max_parallel_workers = 0;
	EXECUTE format('CREATE TEMP TABLE stock AS SELECT q::text AS r FROM (%s) q', query);
	PERFORM set_config('max_parallel_workers', workers, true);
	SET LOCAL gpujoin.enabled = on;
	EXECUTE format('CREATE TEMP TABLE ours AS %s', query);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Gather' THEN gather := ' below Gather'; END IF;
		IF line ~ '\(Gpu(Scan|Join)\)' AND node !~ 'Parallel' THEN
			node := substring(line FROM '(?:Parallel )?Custom Scan \(\w+\)');
		END IF;
	END LOOP;
	SELECT count(*) INTO nstock FROM stock;
	SELECT count(*) INTO nours FROM ours;
	SELECT count(*) INTO ndifferent FROM
		((SELECT r FROM stock EXCEPT ALL SELECT q::text FROM ours q) UNION ALL
		 (SELECT q::text FROM ours q EXCEPT ALL SELECT r FROM stock)) d;
	RETURN format('%s%s: %s rows, %s', node, gather, nours,
				  CASE WHEN nstock = nours AND ndifferent = 0 THEN 'same' ELSE 'DIFFERENT: ' || nstock END);
END $$;
\set ECHO all
