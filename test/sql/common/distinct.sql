\set ECHO none
-- the same query with gpujoin and without: what the plan does, and how many rows differ
CREATE FUNCTION compare(query text, OUT nodes text, OUT n bigint, OUT differ bigint)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	SET LOCAL gpujoin.force = on;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		line := coalesce(substring(line FROM '(Unique|Aggregate|GpuAgg|GpuScan)'),
						 'GpuJoin ' || substring(line FROM 'Join Type: (.*)'));
		CONTINUE WHEN line IS NULL;
		nodes := concat_ws(', ', nodes, line);
	END LOOP;
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
\set ECHO all
