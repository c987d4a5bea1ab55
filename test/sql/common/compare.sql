\set ECHO none
-- Run the same query with gpujoin, under gpujoin.force, and by PostgreSQL alone: return the number
-- of rows, and the number of rows in only one of the answers.  Rows are compared as text, so that 0
-- and -0 differ.  They are kept in arrays: two temporary tables per query took most of the tests'
-- time.
CREATE FUNCTION answers(query text, OUT n bigint, OUT differ bigint) LANGUAGE plpgsql AS $$
DECLARE
	rows_of text := 'SELECT array_agg(q::text) FROM (' || query || ') q';
	got text[];
	expected text[];
	workers text := current_setting('max_parallel_workers');
BEGIN
	SET LOCAL gpujoin.force = on;
	EXECUTE rows_of INTO got;
	SET LOCAL gpujoin.force = off;
	SET LOCAL gpujoin.enabled = off;
	SET LOCAL max_parallel_workers = 0;
	EXECUTE rows_of INTO expected;
	PERFORM set_config('max_parallel_workers', workers, true);
	SET LOCAL gpujoin.enabled = on;
	n := coalesce(cardinality(got), 0);
	differ := 0;
	IF got IS DISTINCT FROM expected THEN	-- otherwise even the order is the same
		SELECT count(*) INTO differ FROM (
			(SELECT unnest(got) EXCEPT ALL SELECT unnest(expected)) UNION ALL
			(SELECT unnest(expected) EXCEPT ALL SELECT unnest(got))) e;
	END IF;
END $$;

-- EXPLAIN output under gpujoin.force
CREATE FUNCTION forced_plan(query text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
	line text;
BEGIN
	SET LOCAL gpujoin.force = on;
	FOR line IN EXECUTE 'EXPLAIN (' || options || ') ' || query LOOP
		plan := concat_ws(E'\n', plan, line);
	END LOOP;
	RETURN plan;
END $$;

-- whether there is a GpuAgg
CREATE FUNCTION compare(query text, OUT node text, OUT n bigint, OUT differ bigint)
LANGUAGE plpgsql AS $$
DECLARE
	plan text := forced_plan(query, 'VERBOSE');
BEGIN
	node := CASE WHEN plan ~ 'Custom Scan \(GpuAgg\)' THEN 'GpuAgg' ELSE 'not GpuAgg' END;
	SELECT * INTO n, differ FROM answers(query);
END $$;

-- the nodes of the plan from top to bottom
CREATE FUNCTION compare_nodes(query text, OUT nodes text, OUT n bigint, OUT differ bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT string_agg(coalesce(m[1], 'GpuJoin ' || m[2]), ', ') INTO nodes
	FROM regexp_matches(forced_plan(query, 'COSTS OFF'),
						'(Unique|Aggregate|GpuAgg|GpuScan)|Join Type: (\w+)', 'g') m;
	SELECT * INTO n, differ FROM answers(query);
END $$;

-- number of rows that GpuAgg received in arrays, and one by one; number of them that the scan has
-- returned according to EXPLAIN
CREATE FUNCTION compare_arrays(query text, OUT n bigint, OUT differ bigint, OUT arrays int,
	OUT slots int, OUT scanned int)
LANGUAGE plpgsql AS $$
DECLARE
	plan text := forced_plan(query, 'ANALYZE, TIMING OFF, FORMAT JSON');
BEGIN
	arrays := substring(plan FROM '"Rows From Arrays": (\d+)');
	slots := substring(plan FROM '"Rows From Slots": (\d+)');
	scanned := substring(plan FROM '"(?:GpuScan|GpuJoinScan)".*?"Actual Rows": (\d+)');
	SELECT * INTO n, differ FROM answers(query);
END $$;

-- counters of a GpuAgg and of the nodes below it
CREATE FUNCTION rows_of(query text) RETURNS TABLE (property text, n bigint) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	node := plan -> 0 -> 'Plan';
	RETURN QUERY SELECT p, (node ->> p)::bigint FROM unnest(ARRAY['Rows From Arrays',
		'Rows From Slots']) p;
	RETURN QUERY SELECT t.child ->> 'Node Type', (t.child ->> 'Actual Rows')::numeric::bigint
		FROM json_array_elements(node -> 'Plans') t (child);
	RETURN QUERY SELECT t.child ->> 'Relation Name', (t.child ->> 'Actual Rows')::numeric::bigint
		FROM json_array_elements(node -> 'Plans' -> 0 -> 'Plans') t (child);
END $$;
\set ECHO all
