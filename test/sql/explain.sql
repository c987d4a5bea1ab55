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

-- A printed condition is SQL, and means what was asked
CREATE TABLE typed (k int, n int8, t text, c char(5), u uuid, d numeric, f date);
INSERT INTO typed SELECT i % 500, i % 7, 't' || i % 11, 'c' || i % 13, md5((i % 9)::text)::uuid, (i % 6) / 2.0, date '2020-01-01' + i % 8
	FROM generate_series(1, 20000) i;
INSERT INTO typed VALUES (NULL, NULL), (NULL, 1), (1, NULL);
CREATE INDEX ON typed USING gpujoin (k) INCLUDE (n);
CREATE INDEX ON typed USING gpujoin (u);
CREATE INDEX ON typed USING gpujoin (f);
VACUUM ANALYZE typed;
CREATE FUNCTION as_printed(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text; printed text; answers text[2]; answer text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT * FROM typed WHERE %s', condition) LOOP
		printed := nullif(concat_ws(' AND ', printed, substring(line from '(?:Key Condition|Filter): (.*)')), '');
	END LOOP;
	FOREACH line IN ARRAY ARRAY[condition, printed] LOOP
		EXECUTE format('SELECT count(*) || '' rows '' || sum(hashtext(t::text)::int8) FROM typed t WHERE %s', line) INTO answer;
		answers := answers || answer;
		PERFORM set_config('gpujoin.enabled', 'off', true);
	END LOOP;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	RETURN condition || ': ' || CASE WHEN answers[1] = answers[2] THEN split_part(answer, ' rows', 1) ELSE 'NOT ' || printed END;
END $$;
SELECT as_printed(condition) FROM unnest(ARRAY['k = 5', 'k IN (1, 2, NULL)', 'k NOT IN (1, 2)', 'k <> 5', 'k IN (1, 2) OR (k IS NULL AND current_date IS NULL)',
	'k IN (1, 2, 3) AND k = ANY (''{3,4}'')', 'k::text IN (''1'', ''7'')', 'k BETWEEN 3 AND 9', 'NOT (k > 3 AND k <= 490)',
	'f IN (''2020-01-02'', ''2020-01-05'')', 'f > ''2020-01-05'' OR f = ''2020-01-01''', 'u = md5(''3'')::uuid',
	'(k, n) IN ((1, 2), (3, 4), (15, 1))', '(k = 1 AND n = ANY (''{1,5}'')) OR (k = 3 AND n = 3)', '(k, t) IN ((1, ''t1''), (12, ''t1''))',
	'(k, c) IN ((1, ''c1''), (14, ''c1''))', '(u, n) IN ((md5(''3'')::uuid, 3), (md5(''4'')::uuid, 4))', '(k, d) IN ((1, 0.5), (3, 1.50))',
	'(k, n, t, f) IN ((1, 1, ''t1'', ''2020-01-02''), (3, 3, ''t3'', ''2020-01-04''))',
	'((k, n) IN ((1, 2), (3, 4))) IS TRUE', '(k, n) IN ((1, 2), (3, 4)) OR k = 7']) condition;

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
