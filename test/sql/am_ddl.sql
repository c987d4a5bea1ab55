-- The access method under DDL: each step ends with gpujoin_check() against the table.
SELECT opcname, opcintype::regtype, amvalidate(o.oid)
FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod
WHERE amname = 'gpujoin' ORDER BY 1;

-- an operator class with each error that the validator detects
CREATE FUNCTION wrong_key(int4) RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE OPERATOR CLASS wrong_ops FOR TYPE int4 USING gpujoin AS
	OPERATOR 1 =, OPERATOR 1 = (int4, int8), FUNCTION 1 wrong_key(int4);
CREATE OPERATOR CLASS wrong_text_ops FOR TYPE text USING gpujoin AS OPERATOR 1 =;
SELECT opcname, amvalidate(o.oid) FROM pg_opclass o WHERE opcname LIKE 'wrong%' ORDER BY 1;
DROP OPERATOR FAMILY wrong_ops USING gpujoin;
DROP OPERATOR FAMILY wrong_text_ops USING gpujoin;

-- what members of a family belong to: those of one type to its class, others to the family
CREATE FUNCTION own_key(int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION own_key(int4) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::int8';
CREATE OPERATOR FAMILY own_ops USING gpujoin;
CREATE OPERATOR CLASS own_ops FOR TYPE int8 USING gpujoin FAMILY own_ops AS
	OPERATOR 1 =, OPERATOR 1 = (int8, int4), FUNCTION 1 own_key(int8);
ALTER OPERATOR FAMILY own_ops USING gpujoin ADD FUNCTION 1 (int4, int4) own_key(int4), OPERATOR 1 = (int4, int4);
SELECT pg_describe_object(classid, objid, 0) AS member, refclassid::regclass, deptype FROM pg_depend
WHERE classid IN ('pg_amop'::regclass, 'pg_amproc'::regclass) AND refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
	AND pg_describe_object(classid, objid, 0) LIKE '%own_ops%' ORDER BY 1, 2::text;
ALTER OPERATOR FAMILY own_ops USING gpujoin DROP FUNCTION 1 (int4, int4), OPERATOR 1 (int8, int4);
ALTER OPERATOR FAMILY own_ops USING gpujoin DROP FUNCTION 1 (int8, int8);
DROP OPERATOR FAMILY own_ops USING gpujoin;
DROP FUNCTION own_key(int8), own_key(int4);

-- every type, with NULLs and extremes
CREATE TABLE am_types (i2 int2, i4 int4, i8 int8, o oid, d date, ts timestamp, tz timestamptz);
INSERT INTO am_types
SELECT i % 32767, i, i * 1000000000::int8, i::oid, '2000-01-01'::date + i % 10000,
	'2000-01-01'::timestamp + i * interval '1 min', '2000-01-01 UTC'::timestamptz + i * interval '1 s'
FROM generate_series(1, 2000) i;
INSERT INTO am_types VALUES
	(-32768, -2147483648, -9223372036854775808, 0, '-infinity', '-infinity', '-infinity'),
	(32767, 2147483647, 9223372036854775807, 4294967295, 'infinity', 'infinity', 'infinity'),
	(NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE INDEX am_i2 ON am_types USING gpujoin (i2);
CREATE INDEX am_i4 ON am_types USING gpujoin (i4);
CREATE INDEX am_i8 ON am_types USING gpujoin (i8);
CREATE INDEX am_o ON am_types USING gpujoin (o);
CREATE INDEX am_d ON am_types USING gpujoin (d);
CREATE INDEX am_ts ON am_types USING gpujoin (ts);
CREATE INDEX am_tz ON am_types USING gpujoin (tz);
SELECT c.relname, gpujoin_check(c.oid, true), i.key_width, i.slots_per_page
FROM pg_class c, gpujoin_index_info(c.oid) i
WHERE c.relname LIKE 'am\__%' AND c.relkind = 'i' ORDER BY 1;
SET gpujoin.force = on;
SELECT count(*) FROM am_types WHERE i2 = ANY ('{-32768,32767,5}'::int2[]);
SELECT count(*) FROM am_types WHERE i4 IN (-2147483648, 2147483647, -1);
SELECT count(*) FROM am_types WHERE i8 IN (-9223372036854775808, 9223372036854775807, 0);
SELECT count(*) FROM am_types WHERE o IN (0, 4294967295, 77);
SELECT count(*) FROM am_types WHERE d IN ('-infinity', 'infinity', '2000-01-02');
SELECT count(*) FROM am_types WHERE ts IN ('-infinity', 'infinity', '2000-01-01 00:01');
SELECT count(*) FROM am_types WHERE tz IN ('-infinity', 'infinity', '2000-01-01 00:00:01 UTC');
RESET gpujoin.force;

-- invalid input leaves no partial index
\set VERBOSITY terse
CREATE TABLE am_bad (a int, b int, t text, p point);
-- (19 also says where in the statement such an option is)
CREATE FUNCTION am_error(index text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE INDEX am_bad_i ON am_bad USING gpujoin %s', index);
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM;
END $$;
SELECT am_error(i) FROM unnest(ARRAY['(a, b)', '(p)', '(a DESC)', '(a NULLS FIRST)', '(a COLLATE "C")', '(a) INCLUDE (p)',
	'(a) WITH (nonsense = 1)', '(a) WITH (lanes = 0)', '(a) WITH (lanes = 65)', '(a) WITH (fillfactor = 50)']) i;
DROP FUNCTION am_error(text);
CREATE UNIQUE INDEX am_bad_i ON am_bad USING gpujoin (a);
SELECT count(*) FROM pg_class WHERE relname = 'am_bad_i';
CREATE INDEX am_bad_btree ON am_bad (a);
SELECT gpujoin_check('am_bad_btree');
SELECT gpujoin_check('am_bad');
SELECT gpujoin_check(0);
SELECT gpujoin_index_info('am_bad_btree');
CREATE TABLE am_part (a int) PARTITION BY RANGE (a);
CREATE TABLE am_part_1 PARTITION OF am_part FOR VALUES FROM (0) TO (1000);
CREATE TABLE am_part_2 PARTITION OF am_part FOR VALUES FROM (1000) TO (2000);
CREATE INDEX am_part_i ON am_part USING gpujoin (a);
CREATE INDEX am_part_btree ON am_part (a);
SELECT gpujoin_check('am_part_i');
SELECT gpujoin_index_info('am_part_i');
SELECT gpujoin_check('am_part_btree');
SELECT gpujoin_index_info('am_part_btree');
DROP INDEX am_part_btree;
SET gpujoin.no_such_setting = 1;
SET gpujoin.min_rows = -1;
CREATE ROLE am_stranger;
SET ROLE am_stranger;
SELECT gpujoin_check('am_i4');
SELECT gpujoin_check('am_part_i');
RESET ROLE;
-- in a partitioned index, each partition's index belongs to that partition's owner
ALTER TABLE am_part OWNER TO am_stranger;
ALTER TABLE am_part_1 OWNER TO am_stranger;
SET ROLE am_stranger;
SELECT gpujoin_check('am_part_i');
SELECT gpujoin_fold('am_part_i');
RESET ROLE;
ALTER TABLE am_part OWNER TO CURRENT_USER;
ALTER TABLE am_part_1 OWNER TO CURRENT_USER;
DROP ROLE am_stranger;
\set VERBOSITY default

-- partitions: one index each, created, attached and detached like any other
INSERT INTO am_part SELECT generate_series(0, 1999);
SELECT relid, gpujoin_check(relid, true) FROM pg_partition_tree('am_part_i') WHERE isleaf ORDER BY 1;
SELECT gpujoin_check('am_part_i'), gpujoin_check('am_part_i', true);

-- life of an index
CREATE TABLE am_life (id int, k int);
INSERT INTO am_life SELECT i, i % 1000 FROM generate_series(1, 10000) i;
CREATE INDEX CONCURRENTLY am_life_i ON am_life USING gpujoin (k) WITH (lanes = 2);
SELECT gpujoin_check('am_life_i', true);
SELECT lanes, open_pages, sequence, vacuum_epoch FROM gpujoin_index_info('am_life_i');
INSERT INTO am_life SELECT i, i % 1000 FROM generate_series(10001, 15000) i;
UPDATE am_life SET k = k + 1 WHERE id % 10 = 0;
DELETE FROM am_life WHERE id % 7 = 0;
-- a worker that the insertion has asked for has a snapshot while it starts
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND backend_xmin IS NOT NULL);
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END
$$;
VACUUM am_life;
SELECT gpujoin_check('am_life_i', true) = count(*) AS complete FROM am_life;
REINDEX INDEX am_life_i;
SELECT gpujoin_check('am_life_i', true) = count(*) AS complete FROM am_life;
REINDEX INDEX CONCURRENTLY am_life_i;
SELECT gpujoin_check('am_life_i', true) = count(*) AS complete FROM am_life;
VACUUM FULL am_life;
SELECT gpujoin_check('am_life_i', true) = count(*) AS complete FROM am_life;
CREATE INDEX am_life_btree ON am_life (id);
CLUSTER am_life USING am_life_btree;
SELECT gpujoin_check('am_life_i', true) = count(*) AS complete FROM am_life;
ALTER TABLE am_life ALTER k TYPE bigint;
SELECT gpujoin_check('am_life_i', true) = count(*) AS complete FROM am_life;
SELECT key_width, lanes FROM gpujoin_index_info('am_life_i');
ALTER INDEX am_life_i SET (lanes = 8);
REINDEX INDEX am_life_i;
SELECT lanes FROM gpujoin_index_info('am_life_i');
TRUNCATE am_life;
SELECT gpujoin_check('am_life_i', true);
INSERT INTO am_life SELECT i, i FROM generate_series(1, 300) i;
SELECT gpujoin_check('am_life_i', true);
-- created and truncated in one transaction: the file keeps its name
BEGIN;
CREATE TABLE am_same (k int);
CREATE INDEX am_same_i ON am_same USING gpujoin (k);
INSERT INTO am_same SELECT generate_series(1, 5000);
TRUNCATE am_same;
INSERT INTO am_same SELECT generate_series(1, 100);
SELECT gpujoin_check('am_same_i', true);
COMMIT;
SELECT gpujoin_check('am_same_i', true);
-- entries of rolled back inserts stay until VACUUM
BEGIN;
INSERT INTO am_same SELECT generate_series(101, 1000);
ROLLBACK;
SELECT gpujoin_check('am_same_i', true);
VACUUM am_same;
SELECT gpujoin_check('am_same_i', true);
-- temporary and unlogged tables
CREATE TEMP TABLE am_temp (k int) ON COMMIT DELETE ROWS;
CREATE INDEX am_temp_i ON am_temp USING gpujoin (k);
BEGIN;
INSERT INTO am_temp SELECT generate_series(1, 5000);
SELECT gpujoin_check('am_temp_i', true);
COMMIT;
SELECT gpujoin_check('am_temp_i', true);
CREATE UNLOGGED TABLE am_unlogged (k int);
CREATE INDEX am_unlogged_i ON am_unlogged USING gpujoin (k);
INSERT INTO am_unlogged SELECT generate_series(1, 5000);
SELECT gpujoin_check('am_unlogged_i', true);
ALTER TABLE am_unlogged SET LOGGED;
SELECT gpujoin_check('am_unlogged_i', true);
-- partial and expression indexes
CREATE INDEX am_life_partial ON am_life USING gpujoin (k) WHERE id % 2 = 0;
CREATE INDEX am_life_expr ON am_life USING gpujoin ((id + 1));
SELECT gpujoin_check('am_life_partial', true), gpujoin_check('am_life_expr', true);
INSERT INTO am_life SELECT i, i FROM generate_series(301, 400) i;
SELECT gpujoin_check('am_life_partial', true), gpujoin_check('am_life_expr', true);

DROP TABLE am_types, am_bad, am_part, am_life, am_same, am_temp, am_unlogged;
DROP FUNCTION wrong_key(int4);

-- the phases' names for pg_stat_progress_create_index
SELECT n, pg_indexam_progress_phasename(oid, n) FROM pg_am, generate_series(1, 6) n
WHERE amname = 'gpujoin' ORDER BY n;
