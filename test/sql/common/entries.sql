\set ECHO none
-- Compare a query's rows without and with gpujoin; say whether the heap was left out
CREATE FUNCTION compare_entries(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	collect text := format('SELECT coalesce(array_agg(q::text ORDER BY q::text), ''{}'') FROM (%s) q', query);
	stock text[];
	ours text[];
	line text;
	node text := 'NO NODE';
	entries text := 'heap';
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE collect INTO stock;
	SET LOCAL gpujoin.enabled = on;
	EXECUTE collect INTO ours;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || collect LOOP
		node := coalesce(substring(line FROM '(GpuScan|GpuJoin)\)'), node);
		IF line ~ 'Index Only: true' THEN entries := 'entries'; END IF;
	END LOOP;
	RETURN format('%s, %s: %s rows, %s', node, entries, cardinality(stock),
				  CASE WHEN stock = ours THEN 'same' ELSE 'DIFFERENT: ' || cardinality(ours) END);
END $$;
\set ECHO all
