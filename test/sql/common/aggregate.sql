\set ECHO none
-- the same query with GpuAgg and by PostgreSQL alone: its top node, and how many rows differ
CREATE FUNCTION compare(query text, OUT node text, OUT n bigint, OUT differ bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL gpujoin.force = on;
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO node;
	node := coalesce(substring(node FROM '"Custom Plan Provider": "(GpuAgg)"'), 'not GpuAgg');
	EXECUTE 'CREATE TEMP TABLE got AS SELECT q::text AS r FROM (' || query || ') q';
	SET LOCAL gpujoin.force = off;
	SET LOCAL gpujoin.enabled = off;
	EXECUTE 'CREATE TEMP TABLE expected AS SELECT q::text AS r FROM (' || query || ') q';
	SET LOCAL gpujoin.enabled = on;
	SELECT count(*) INTO n FROM got;
	SELECT count(*) INTO differ FROM (
		(SELECT r FROM got EXCEPT ALL SELECT r FROM expected) UNION ALL
		(SELECT r FROM expected EXCEPT ALL SELECT r FROM got)) e;
	DROP TABLE got, expected;
END $$;

-- what a GpuAgg and the nodes below it count
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
