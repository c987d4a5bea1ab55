\set ECHO none
-- the rows of a query as one text, in their order
CREATE FUNCTION top_rows(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text := '';
BEGIN
	FOR r IN EXECUTE query LOOP
		result := result || r::text || E'\n';
	END LOOP;
	RETURN result;
END $$;
-- how many of our scans return rows in order, and by how many columns
CREATE FUNCTION top_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (SELECT string_agg(translate(k #>> '{}', '[]"', ''), '; ' ORDER BY k)
		FROM jsonb_path_query(plan,
			'strict $.** ? (@."Custom Plan Provider" == "GpuScan")."Sort Key"') k
		WHERE jsonb_typeof(k) = 'array');
END $$;
-- compare the answer with PostgreSQL's, in order; return the order, or that there is no ordered
-- scan
CREATE FUNCTION top_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ours text;
	theirs text;
	plan text;
BEGIN
	SET LOCAL gpujoin.enabled = off;
	theirs := top_rows(query);
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	plan := top_plan(query);
	ours := top_rows(query);
	IF ours = theirs THEN
		RETURN coalesce(plan, 'no order');
	END IF;
	RETURN format(E'%s\nwrong:\n%s\nright:\n%s', plan, ours, theirs);
END $$;
\set ECHO all
