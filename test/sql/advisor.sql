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

-- Indexes that a gpujoin index replaces, and what they alone can do
CREATE TABLE held (id int PRIMARY KEY, k int NOT NULL, maybe int, name text NOT NULL, v int, w int);
INSERT INTO held SELECT i, i, i, i, i, i FROM generate_series(1, 100) i;
CREATE INDEX held_k ON held (k);
CREATE INDEX held_k_vw ON held (k) INCLUDE (v, w);
CREATE INDEX held_k_some ON held (k) WHERE v > 50;
CREATE INDEX held_maybe ON held (maybe);
CREATE INDEX held_name ON held (name);
CREATE INDEX held_name_hash ON held USING hash (name);
CREATE INDEX gj_k ON held USING gpujoin (k);
CREATE INDEX gj_k_w ON held USING gpujoin (k) INCLUDE (w);
CREATE INDEX gj_maybe ON held USING gpujoin (maybe);
CREATE INDEX gj_name ON held USING gpujoin (name);
-- but none of these
CREATE UNIQUE INDEX held_unique ON held (k);
CREATE INDEX held_pair ON held (k, v);
CREATE INDEX held_expr ON held ((k + 0));
CREATE INDEX held_other ON held (v);
CREATE INDEX gj_v ON held USING gpujoin (v) WHERE w > 5;
CREATE INDEX held_c ON held (name COLLATE "C");
CREATE INDEX gj_id ON held USING gpujoin (id);
CREATE INDEX held_identity ON held (w);
CREATE INDEX gj_w ON held USING gpujoin (w);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'held_identity'::regclass;
CREATE TABLE parted (k int NOT NULL, v int) PARTITION BY RANGE (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000);
CREATE INDEX parted_k ON parted (k);
CREATE INDEX parted_gj ON parted USING gpujoin (k);
CREATE INDEX parted_own ON parted_1 (k);
CREATE INDEX parted_own_gj ON parted_1 USING gpujoin (k);
CREATE TABLE dated (d date NOT NULL, k int NOT NULL);
ALTER TABLE dated REPLICA IDENTITY FULL;
CREATE INDEX dated_d ON dated (d);
CREATE INDEX gj_d ON dated USING gpujoin (d);
ALTER TABLE held CLUSTER ON held_name;
SELECT relation, index, replacement, drop_index, note FROM gpujoin_replaceable() ORDER BY index::text;
SELECT bool_and(index_size = pg_relation_size(index) AND replacement_size = pg_relation_size(replacement)
	AND scans >= 0) FROM gpujoin_replaceable() WHERE index <> 'parted_k'::regclass;
SELECT index_size = pg_relation_size('parted_1_k_idx') FROM gpujoin_replaceable() WHERE index = 'parted_k'::regclass;
-- its text is a command
SELECT regexp_replace(drop_index, 'CONCURRENTLY ', '') FROM gpujoin_replaceable() WHERE note IS NULL ORDER BY 1 \gexec
SELECT index, note FROM gpujoin_replaceable() ORDER BY index::text;
DROP TABLE held, parted, dated;

DROP EXTENSION gpujoin_advisor;
TABLE advice;
DROP VIEW advice, all_advice;
DROP OWNED BY advised;
DROP ROLE advised;
DROP SCHEMA elsewhere;
DROP SCHEMA advisor CASCADE;
