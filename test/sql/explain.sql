--
-- EXPLAIN output of GpuScan: stable with COSTS, TIMING and SUMMARY off
--
CREATE SCHEMA explained;
SET search_path = explained, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql

-- Numbers and the device depend on the machine
CREATE FUNCTION explain_masked(options text, query text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(l, '\d+(\.\d+)?', 'N', 'g'), '(Device|Reason)(</|>|: ).*', '\1\2...')
	FROM explain(options, query) l WHERE l !~ '^ +(Device |Runs:|Delta Pages:|Pages )'	-- there is a reason, or figures
$$;

CREATE TABLE wide (id int, k int, d date) WITH (fillfactor = 10);
INSERT INTO wide SELECT i, i % 100, date '2020-01-01' + i % 100 FROM generate_series(1, 40000) i;
CREATE INDEX wide_k ON wide USING gpujoin (k);
CREATE INDEX "Day of ""wide""" ON wide USING gpujoin (d);
CREATE INDEX wide_sum ON wide USING gpujoin ((k + id));
VACUUM ANALYZE wide;

CREATE FUNCTION wanted() RETURNS int[] STABLE LANGUAGE sql
	AS 'SELECT array_agg(i) FROM generate_series(1, 60) i';

-- The plan
SELECT explain('COSTS OFF', 'SELECT * FROM wide WHERE k = 5');
SELECT explain('COSTS OFF, VERBOSE', 'SELECT id FROM wide WHERE 5::int8 = k AND id > 10');
SELECT explain('COSTS OFF', 'SELECT id FROM wide WHERE k IN (1, 2) AND k = ANY (wanted()) AND id > 10');
SELECT explain('COSTS OFF', 'SELECT * FROM wide WHERE d IN (''2020-01-01'', ''2021-01-01'')');
SELECT explain('COSTS OFF', 'SELECT * FROM wide w WHERE k + id = ANY (''{1,2}''::int8[])');

-- A long list is abbreviated, so that it cannot be mistaken for the list in the query
SELECT explain('COSTS OFF', format('SELECT * FROM wide WHERE k = ANY (%L)', array_agg(i)))
	FROM generate_series(1, 32) i;
SELECT explain('COSTS OFF', format('SELECT * FROM wide WHERE k = ANY (%L)', array_agg(i)))
	FROM generate_series(1, 10000) i;
SELECT explain('COSTS OFF', format('SELECT * FROM wide WHERE d = ANY (%L)', array_agg(date '2020-01-01' + i)))
	FROM generate_series(1, 40) i;
SELECT explain('COSTS OFF', format('SELECT * FROM wide WHERE k = ANY (%L) AND k = 3',
		array_agg(CASE WHEN i <> 2 THEN ARRAY[i, i + 1] ELSE '{NULL,0}' END)))
	FROM generate_series(1, 40) i;

-- Counters
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM wide WHERE k IN (1, 2, 2, NULL) AND id <= 10000');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT * FROM wide WHERE k = ANY (''{}''::int[])');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT FROM generate_series(1, 3) x, LATERAL (SELECT FROM wide WHERE k = x OFFSET 0) w');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT FROM generate_series(1, 0) x, LATERAL (SELECT FROM wide WHERE k = x OFFSET 0) w');

-- With too little memory some blocks become lossy, and the recheck removes rows
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT explain_masked('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT count(id) FROM wide WHERE k = ANY (wanted())');
SELECT count(*) FROM wide WHERE k = ANY (wanted());
RESET work_mem;
RESET hash_mem_multiplier;

-- TIMING shows the time, ANALYZE the device, unless all options whose output no test can compare
-- are off
SELECT explain_masked('ANALYZE', 'SELECT * FROM wide WHERE k = 1');
SELECT explain_masked('ANALYZE, COSTS OFF', 'SELECT * FROM wide WHERE k = 1');
SELECT options, count(*) FILTER (WHERE l ~ 'Device: ') AS devices, count(*) FILTER (WHERE l ~ 'Memory Usage: ') AS memory
	FROM unnest(ARRAY['COSTS ON', 'ANALYZE, COSTS OFF, TIMING OFF', 'ANALYZE, COSTS OFF, SUMMARY OFF', 'ANALYZE, TIMING OFF, SUMMARY OFF',
		'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF']) AS options,
	LATERAL explain(options, 'SELECT * FROM wide JOIN (VALUES (1), (2)) s(k) USING (k)') l GROUP BY options ORDER BY options COLLATE "C";

-- Other formats: names and types
CREATE FUNCTION properties(options text, query text) RETURNS TABLE (name text, type text) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT JSON, BUFFERS OFF, %s) %s', options, query) INTO plan;
	RETURN QUERY SELECT key, jsonb_typeof(value) FROM jsonb_each(plan -> 0 -> 'Plan')
		WHERE key ~ '^(Node|Custom|Index Name|Key|Entries|Matched|Exact|Lossy|Device|Search|Rows Removed)'
		ORDER BY key COLLATE "C";
END $$;
SELECT * FROM properties('COSTS OFF', 'SELECT * FROM wide WHERE d = ''2020-01-01''');
SELECT * FROM properties('ANALYZE', 'SELECT * FROM wide WHERE k = 1');
SELECT explain_masked('ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT XML', 'SELECT * FROM wide WHERE k = 1') ~ '<Matched-TIDs>N</Matched-TIDs>' AS xml;
SELECT explain_masked('ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT YAML', 'SELECT * FROM wide WHERE k = 1') ~ 'Matched TIDs: N' AS yaml;

SET client_min_messages = warning;
DROP SCHEMA explained CASCADE;
