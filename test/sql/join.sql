-- GpuJoin, inner joins: the same rows as stock plans, for every kind of small side.
CREATE SCHEMA gj_join;
SET search_path = gj_join, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/join.sql

SET gpujoin.force = on;
EXPLAIN (COSTS OFF)
SELECT b.*, s.x FROM small s JOIN big b ON b.key = s.k;
EXPLAIN (COSTS OFF)
SELECT b.id, s.label || b.t
FROM big b JOIN small s ON b.key = s.k AND s.x <> b.v WHERE b.v > 3 AND b.t <> 'row 7' AND s.x < 9;
-- what the node reports; in structured formats each fact is a property with a type
CREATE FUNCTION explained(query text) RETURNS TABLE (property text, type text, value text)
LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) ' || query INTO plan;
	plan := plan -> 0 -> 'Plan';
	RETURN QUERY
	SELECT key, json_typeof(e.value), CASE WHEN key !~ '^(Memory|Entries)' THEN e.value #>> '{}' END
	FROM (SELECT plan AS node UNION ALL SELECT json_array_elements(plan -> 'Plans')) n,
		json_each(node) e
	WHERE node ->> 'Custom Plan Provider' LIKE 'GpuJoin%'
		AND key ~ '^(Join|Result|Index|Key|Small|Batches|Memory|Entries|Matched|Exact|Lossy|Rows Removed)';
END $$;
SELECT * FROM explained('SELECT b.id FROM big b JOIN small s ON b.key = s.k AND s.x < b.v
	WHERE b.v > 3');
SELECT * FROM explained('SELECT * FROM small s LEFT JOIN big b ON b.key = s.k AND b.v > 3
	AND b.v <> s.x WHERE b.t IS NULL OR b.t LIKE ''%1''');
RESET gpujoin.force;

-- kinds of small sides
CREATE TEMP TABLE temp_small AS SELECT k FROM small;
SELECT * FROM compare('SELECT b.*, s.* FROM small s JOIN big b ON b.key = s.k');
SELECT * FROM compare('SELECT b.*, s.* FROM big b JOIN small s ON s.k = b.key');
SELECT * FROM compare('SELECT b.* FROM big b, small s WHERE s.k = b.key');
SELECT * FROM compare('SELECT b.id FROM temp_small s JOIN big b ON b.key = s.k');
SELECT * FROM compare('SELECT * FROM big b JOIN (VALUES (6), (6), (9), (NULL)) s(k) ON b.key = s.k');
SELECT * FROM compare('WITH s AS MATERIALIZED (SELECT k, x FROM small WHERE x > 1)
	SELECT b.id, s.x FROM big b JOIN s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.o FROM big b
	JOIN unnest(ARRAY[6, 9, NULL, 6]) WITH ORDINALITY s(k, o) ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM big b JOIN generate_series(1, 30) s(k) ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.n FROM big b
	JOIN (SELECT x * 3 AS k, count(*) AS n FROM small GROUP BY 1) s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM big b
	JOIN (SELECT k FROM small UNION SELECT k + 1 FROM small) s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM big b
	JOIN (SELECT k FROM small WHERE k IS NOT NULL ORDER BY k LIMIT 7) s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM big b JOIN (SELECT 1 AS k WHERE false) s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k AND s.k IS NULL');

-- keys that are expressions of the small side
SELECT * FROM compare('SELECT b.id, s.k FROM big b JOIN small s ON b.key = s.k * 2 + 1');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = coalesce(s.x, 3)');

-- quals
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k AND b.v > s.x');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k AND b.key = s.x * 3');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k AND b.v = s.x
	WHERE b.t LIKE ''%1'' AND s.label LIKE ''%2%''');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k
	WHERE b.v > (SELECT min(x) FROM small s2 WHERE s2.k < b.v + 10)');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k
	WHERE b.v > (SELECT max(x) - 9 FROM small) AND (SELECT count(*) FROM small) > 5');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k
	WHERE (SELECT count(*) FROM small) < 5');
SELECT * FROM compare('SELECT b.id FROM big b JOIN small s ON b.key = s.k OR b.key = s.x');

-- target lists
SELECT * FROM compare('SELECT 1 FROM big b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b, s FROM big b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b.ctid AS c, b.tableoid AS o, b.xmin::text AS m, s.ctid AS sc, s.label, b.t
	FROM big b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT row(b.*, s.x)::text AS r, upper(b.t) || s.label AS u FROM big b
	JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT s.x, count(*), sum(b.v), min(b.t) FROM big b
	JOIN small s ON b.key = s.k GROUP BY s.x');
SELECT * FROM compare('SELECT DISTINCT b.v, s.x FROM big b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, generate_series(1, s.x) FROM big b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, rank() OVER (PARTITION BY s.k ORDER BY b.id) FROM big b
	JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, (SELECT max(x) FROM small s2 WHERE s2.x < b.v) FROM big b
	JOIN small s ON b.key = s.k');

-- joins below and above
SELECT * FROM compare('SELECT b.id, s2.label FROM big b JOIN small s ON b.key = s.k
	JOIN small s2 ON s2.k = b.v');
SELECT * FROM compare('SELECT b.id FROM (SELECT s.k FROM small s JOIN small s2 USING (k)) s
	JOIN big b ON b.key = s.k LEFT JOIN small s3 ON s3.x = b.v');
SELECT * FROM compare('SELECT b.id, b2.id AS id2 FROM small s JOIN big b ON b.key = s.k
	JOIN big b2 ON b2.key = b.id');
SELECT * FROM compare('SELECT b.id, c.a FROM small s LEFT JOIN
	(SELECT b.id, b.key, 1 AS a FROM big b JOIN small s2 ON b.key = s2.k) c ON c.id = s.k
	JOIN big b ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.k FROM small s FULL JOIN big b ON b.key = s.k');

-- types: values outside of the key type's range match nothing and do not wrap around
CREATE TABLE small8 (k int8, k2 int2);
INSERT INTO small8 SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO small8 VALUES (4294967296 + 6, 6), (-4294967290, -6), (9223372036854775807, 32767);
CREATE TABLE big8 AS SELECT id, key::int8 + CASE WHEN id % 2 = 0 THEN 4294967296 ELSE 0 END AS key
	FROM big;
INSERT INTO big8 VALUES (-1, 9223372036854775807), (-2, -9223372036854775808);
CREATE INDEX ON big8 USING gpujoin (key);
ANALYZE small8, big8;
SELECT * FROM compare('SELECT b.id, s.k FROM big b JOIN small8 s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.k FROM big b JOIN small8 s ON b.key = s.k2');
SELECT * FROM compare('SELECT b.id, s.k FROM big8 b JOIN small8 s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.k FROM big8 b JOIN small8 s ON b.key = s.k2');
SELECT * FROM compare('SELECT b.id, s.k FROM big8 b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b.id, s.k FROM big b JOIN small s ON b.key = s.k::numeric');

-- other kinds of big sides: dropped columns, an expression index, a partial one, a partition
ALTER TABLE big8 ADD COLUMN late text DEFAULT 'x', DROP COLUMN id;
SELECT * FROM compare('SELECT b, b.late, s.x FROM big8 b JOIN small s ON b.key = s.k');
CREATE TABLE bige AS SELECT id, key FROM big;
CREATE INDEX ON bige USING gpujoin ((key * 2));
CREATE INDEX ON bige USING gpujoin (id) WHERE key > 100;
ANALYZE bige;
SELECT * FROM compare('SELECT b.id, s.x FROM bige b JOIN small s ON b.key * 2 = s.k');
SELECT * FROM compare('SELECT b.key FROM bige b JOIN small s ON b.id = s.k AND b.key > 100');
SELECT * FROM compare('SELECT b.key FROM bige b JOIN small s ON b.id = s.k');
CREATE TABLE bigp (id int, key int) PARTITION BY RANGE (key);
CREATE TABLE bigp1 PARTITION OF bigp FOR VALUES FROM (0) TO (90);
CREATE TABLE bigp2 PARTITION OF bigp DEFAULT;
CREATE TABLE smallp (k int, x int) PARTITION BY RANGE (k);
CREATE TABLE smallp1 PARTITION OF smallp FOR VALUES FROM (0) TO (90);
CREATE TABLE smallp2 PARTITION OF smallp DEFAULT;
INSERT INTO bigp SELECT id, key FROM big;
INSERT INTO smallp SELECT k, x FROM small;
CREATE INDEX ON bigp USING gpujoin (key);
ANALYZE bigp, smallp;
SELECT * FROM compare('SELECT b.id, s.x FROM bigp1 b JOIN small s ON b.key = s.k');
SELECT * FROM compare('SELECT b, b.tableoid AS o, s.x FROM bigp b JOIN smallp s ON b.key = s.k');
SET enable_partitionwise_join = on;
SELECT * FROM compare('SELECT b, b.tableoid AS o, s.x FROM bigp b JOIN smallp s ON b.key = s.k');
-- one join for each pair of partitions, or one join of all
SELECT split_part(nodes, ',', 1) AS nodes, n, missing, surplus
FROM compare('SELECT b.id, s.x FROM bigp b JOIN smallp s ON b.key = s.k WHERE b.id < 5000');
SELECT split_part(nodes, ',', 1) AS nodes, n, missing, surplus
FROM compare('SELECT s.k, b.id FROM smallp s LEFT JOIN bigp b ON b.key = s.k');
RESET enable_partitionwise_join;

-- NOT IN: from PostgreSQL 19 on, it is a join if no column can be NULL
CREATE FUNCTION not_in(query text, OUT as_expected bool, OUT n bigint, OUT missing bigint, OUT surplus bigint) LANGUAGE sql AS $$
	SELECT coalesce(nodes, '') = CASE WHEN current_setting('server_version_num')::int >= 190000 THEN 'Right Anti' ELSE '' END,
		n, missing, surplus FROM compare(query) $$;
CREATE TABLE full_big AS SELECT id, key, v FROM big WHERE key IS NOT NULL;
CREATE TABLE full_small AS SELECT k, x FROM small WHERE k IS NOT NULL AND x IS NOT NULL;
ALTER TABLE full_big ALTER key SET NOT NULL, ALTER v SET NOT NULL;
ALTER TABLE full_small ALTER k SET NOT NULL, ALTER x SET NOT NULL;
CREATE INDEX ON full_big USING gpujoin (key) INCLUDE (v);
VACUUM ANALYZE full_big, full_small;
SELECT * FROM not_in('SELECT k, x FROM full_small WHERE k NOT IN (SELECT key FROM full_big)');
SELECT * FROM not_in('SELECT k FROM full_small WHERE k NOT IN (SELECT key FROM full_big WHERE v > 15)');
SELECT * FROM not_in('SELECT count(*), sum(x) FROM full_small WHERE (k, x) NOT IN (SELECT key, v FROM full_big)');
SELECT * FROM not_in('SELECT k FROM full_small s WHERE k NOT IN (SELECT key FROM full_big b WHERE b.v = s.x)');
-- NULLs on either side, also once a plan has been made; none of these is a join
SELECT * FROM compare('SELECT k FROM small WHERE k NOT IN (SELECT key FROM full_big)');
SELECT * FROM compare('SELECT k FROM full_small WHERE k NOT IN (SELECT key FROM big)');
SELECT * FROM compare('SELECT k FROM full_small WHERE k NOT IN (SELECT b.key FROM full_small s LEFT JOIN full_big b ON b.key = s.x)');
SET gpujoin.force = on;
PREPARE not_in AS SELECT count(*) > 0 AS finds FROM full_small WHERE k NOT IN (SELECT key FROM full_big);
EXECUTE not_in;
ALTER TABLE full_big ALTER key DROP NOT NULL;
EXECUTE not_in;
INSERT INTO full_big VALUES (0, NULL, 0);
EXECUTE not_in;
ALTER TABLE full_small ALTER k DROP NOT NULL;
DELETE FROM full_big WHERE key IS NULL;
INSERT INTO full_small VALUES (NULL, 0);
SELECT count(*) FILTER (WHERE k IS NULL) AS nulls, count(*) > 0 AS finds FROM full_small WHERE k NOT IN (SELECT key FROM full_big);
RESET gpujoin.force;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA gj_join CASCADE;
