\set ECHO none
-- Compare the rows of a query without and with gpujoin: return their number, whether they are the
-- same, and whether the plan has our node. PostgreSQL's own answer needs no workers.
CREATE FUNCTION compare(query text, wanted text DEFAULT 'GpuScan') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	collect text := format('SELECT coalesce(array_agg(q::text ORDER BY q::text), ''{}'') FROM (%s) q', query);
	stock text[];
	ours text[];
	line text;
	node text := 'NO ' || upper(wanted);
	workers text := current_setting('max_parallel_workers');
BEGIN
	SET LOCAL gpujoin.enabled = off;
	SET LOCAL max_parallel_workers = 0;
	EXECUTE collect INTO stock;
	PERFORM set_config('max_parallel_workers', workers, true);
	SET LOCAL gpujoin.enabled = on;
	EXECUTE collect INTO ours;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || collect LOOP
		IF line ~ wanted THEN node := wanted; END IF;
	END LOOP;
	RETURN format('%s: %s rows, %s', node, cardinality(stock),
				  CASE WHEN stock = ours THEN 'same' ELSE 'DIFFERENT: ' || cardinality(ours) END);
END $$;
-- The same for a prepared statement: its arguments one by one, with a generic plan
CREATE FUNCTION compare_generic(name text, VARIADIC arguments text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	argument text;
	line text;
	stock text[];
	ours text[];
	node text;
BEGIN
	SET LOCAL plan_cache_mode = force_generic_plan;
	FOREACH argument IN ARRAY arguments LOOP
		SET LOCAL gpujoin.enabled = off;
		stock := '{}';
		FOR line IN EXECUTE format('EXECUTE %s(%s)', name, argument) LOOP stock := stock || line; END LOOP;
		SET LOCAL gpujoin.enabled = on;
		ours := '{}';
		FOR line IN EXECUTE format('EXECUTE %s(%s)', name, argument) LOOP ours := ours || line; END LOOP;
		node := 'NO GPUSCAN';
		FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) EXECUTE %s(%s)', name, argument) LOOP
			IF line ~ 'GpuScan' THEN node := 'GpuScan'; END IF;
		END LOOP;
		RETURN NEXT format('%s: %s rows, %s', node, cardinality(stock),
			CASE WHEN ARRAY(SELECT unnest(stock) ORDER BY 1) = ARRAY(SELECT unnest(ours) ORDER BY 1)
				THEN 'same' ELSE 'DIFFERENT: ' || cardinality(ours) END);
	END LOOP;
END $$;
\set ECHO all
