-- Index-only answers of a join's big side: chunks and pieces of the match, and all that can become
-- of an entry on its way into the joined row.
CREATE TABLE ioj (id int, k int, v int8, f bool) WITH (autovacuum_enabled = off);
INSERT INTO ioj SELECT i, i % 40000 * 16, CASE WHEN i % 7 <> 0 THEN i END, i % 3 = 0
FROM generate_series(1, 200000) i;
CREATE INDEX ioj_k ON ioj USING gpujoin (k) INCLUDE (id, v, f);
VACUUM ANALYZE ioj;

-- do both sides say the same, and how many heap fetches did ours take?
CREATE FUNCTION ioj_same(query text, OUT same boolean, OUT rows bigint, OUT heap_fetches bigint)
LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	ours text[];
	theirs text[];
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO theirs;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO ours;
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json, TIMING off) ' || query INTO plan;
	WITH RECURSIVE n AS (
		SELECT plan->0->'Plan' AS j
		UNION ALL SELECT json_array_elements(n.j->'Plans') FROM n)
	SELECT sum((j->>'Heap Fetches')::bigint) FROM n WHERE (j->>'Index Only')::bool
	INTO heap_fetches;
	same := ours IS NOT DISTINCT FROM theirs;
	rows := coalesce(cardinality(ours), 0);
END $$;

-- a match in pieces needs its keys until the last one, whatever else asks for memory meanwhile
CREATE TABLE ioj_keys AS SELECT i * 16 AS k FROM generate_series(0, 39999) i;
ANALYZE ioj_keys;
SET work_mem = '16MB';
SELECT q, s.* FROM unnest(ARRAY[
	'SELECT cardinality(array_agg(b.v)), cardinality(array_agg(b.id)) FROM ioj_keys s JOIN ioj b USING (k)',
	'SELECT count(*) FROM ioj_keys s JOIN ioj b USING (k) WHERE b.f']) q, ioj_same(q) s;
RESET work_mem;
