--
-- Searches of few keys, which copy single elements of directories; these have two levels
--
CREATE SCHEMA few_keys;
SET search_path = few_keys, public;
SET gpujoin.force = on;
-- not on a device, which needs no directories
SET gpujoin.auto_load = off;

CREATE TABLE big (id int, k bigint) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, (i * 7919::bigint) % 1000003 * 3 FROM generate_series(1, 500000) i;
INSERT INTO big SELECT -i, 1500000 FROM generate_series(1, 3000) i;
CREATE INDEX big_k ON big USING gpujoin (k);
CREATE INDEX big_btree ON big (k);
-- A second run, of a part of the keys, and a delta
INSERT INTO big SELECT i, 600000 + i * 3 FROM generate_series(500001, 540000) i;
SELECT gpujoin_fold('big_k');
INSERT INTO big SELECT i, i * 3 FROM generate_series(540001, 541000) i;
VACUUM (ANALYZE, INDEX_CLEANUP off) big;
SELECT runs > 1 AS runs FROM gpujoin_index_info('big_k');

-- Keys that exist, do not exist, are next to each other, or out of range
CREATE FUNCTION keys(i int) RETURNS bigint[] LANGUAGE sql AS $$
	SELECT array_agg(CASE (i + j) % 7 WHEN 0 THEN 1500000 WHEN 1 THEN j * 3 - 9 WHEN 2 THEN 3000006 + j - 3
		WHEN 3 THEN i * 10007 % 1000003 * 3 + j * 3 ELSE (i * 7919 + j * 350000) % 1000003 * 3 + i % 2 END)
	FROM generate_series(1, 1 + i % 9) j
$$;
CREATE FUNCTION answer(keys bigint[]) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s %s %s', count(*), sum(id), min(k), max(k)) FROM big WHERE k = ANY (keys)
$$;
EXPLAIN (COSTS OFF) SELECT count(*) FROM big WHERE k = ANY ('{1500000,3}');
CREATE TABLE ours AS SELECT i, answer(keys(i)) FROM generate_series(1, 700) i;
SET gpujoin.enabled = off;
SELECT count(*), count(*) FILTER (WHERE answer LIKE '0 %') AS nothing, count(*) FILTER (WHERE answer <> answer(keys(i))) AS different FROM ours;

DROP SCHEMA few_keys CASCADE;
