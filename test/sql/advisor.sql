--
-- The extension gpujoin_advisor; and gpujoin_advise(), by which its functions were called in gpujoin
--
CREATE SCHEMA advisor;
SET search_path = advisor, public;
SET max_parallel_workers_per_gather = 0;
SET gpujoin.auto_load = off;
CREATE TABLE facts AS SELECT i AS id, (i * 7919::int8 % 20000)::int AS k FROM generate_series(1, 40000) i;
VACUUM ANALYZE facts;
CREATE VIEW advice AS
	SELECT create_index FROM gpujoin_advise('SELECT count(*) FROM advisor.facts WHERE k IN (1, 2, 3)');
CREATE VIEW all_advice AS SELECT queryid, statements, calls, note FROM gpujoin_advise();

-- Without the extension, calls say where the function has gone
TABLE advice;
TABLE all_advice;
SELECT count(*) FROM gpujoin_advise(NULL);
\set VERBOSITY terse
SELECT gpujoin_propose('SELECT 1');
\set VERBOSITY default
-- reasons against existing indexes need no other extension, parameters or not
CREATE INDEX ON facts USING gpujoin (k);
SELECT node, condition, chosen FROM gpujoin_explain_choice('SELECT count(*) FROM facts WHERE k IN (1, 2)') WHERE node = 'GpuScan';
SELECT node, condition, chosen FROM gpujoin_explain_choice('SELECT count(*) FROM facts WHERE k = ANY ($1)') WHERE node = 'GpuScan';
DROP INDEX facts_k_idx;

-- With it they work, wherever it is
CREATE SCHEMA elsewhere;
CREATE EXTENSION gpujoin_advisor SCHEMA elsewhere;
TABLE advice;
TABLE all_advice;
SELECT p.* FROM elsewhere.gpujoin_propose('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)') p
	EXCEPT SELECT * FROM gpujoin_advise('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
ALTER EXTENSION gpujoin_advisor SET SCHEMA advisor;
SELECT create_index FROM gpujoin_propose('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
TABLE advice;

-- Each by its own privilege
CREATE ROLE advised;
GRANT USAGE ON SCHEMA advisor TO advised;
GRANT SELECT ON facts TO advised;
REVOKE EXECUTE ON FUNCTION gpujoin_advise(text) FROM PUBLIC;
SET ROLE advised;
SELECT create_index FROM gpujoin_propose('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM gpujoin_advise('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
RESET ROLE;
GRANT EXECUTE ON FUNCTION gpujoin_advise(text) TO PUBLIC;

-- A function that returns other columns than the library
CREATE FUNCTION short(query text, OUT relation regclass) RETURNS SETOF regclass
	AS '$libdir/gpujoin_advisor', 'gpujoin_propose_query' LANGUAGE C STRICT;
CREATE FUNCTION shorter(query text, OUT relation regclass, OUT key_column name) RETURNS SETOF record
	AS '$libdir/gpujoin_advisor', 'gpujoin_propose_query' LANGUAGE C STRICT;
SELECT short('SELECT 1');
SELECT * FROM shorter('SELECT 1');

DROP FUNCTION short, shorter;
DROP EXTENSION gpujoin_advisor;
TABLE advice;
DROP VIEW advice, all_advice;
DROP OWNED BY advised;
DROP ROLE advised;
DROP SCHEMA elsewhere;
DROP SCHEMA advisor CASCADE;
