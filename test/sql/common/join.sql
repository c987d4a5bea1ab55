\set ECHO none
-- both_ways() with the GpuJoin nodes of the forced plan
CREATE FUNCTION compare(query text, OUT nodes text, OUT n bigint, OUT missing bigint,
						OUT surplus bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpujoin.force', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		CONTINUE WHEN line !~ 'Join Type: ';
		nodes = concat_ws(', ', nodes, substring(line FROM 'Join Type: (.*)'));
	END LOOP;
	SELECT d.* INTO n, missing, surplus FROM both_ways(query) d;
END $$;

CREATE TABLE big (id int, key int, v int, t text);
INSERT INTO big
SELECT i, CASE WHEN i % 50 > 0 THEN i * 7919 % 1000 END, i % 10, 'row ' || i
FROM generate_series(1, 20000) i;
CREATE INDEX ON big USING gpujoin (key);
-- some HOT chains, dead rows, new entries
UPDATE big SET v = v + 10 WHERE id % 17 = 0;
UPDATE big SET key = key + 1 WHERE id % 19 = 0;
DELETE FROM big WHERE id % 23 = 0;
CREATE TABLE small (k int, x int, label text);
INSERT INTO small SELECT i * 3, i % 4, 'label ' || i FROM generate_series(1, 60) i;
INSERT INTO small VALUES (6, 1, 'twice'), (6, 12, NULL), (NULL, 1, 'null'), (NULL, 2, 'null'),
	(5000, 1, 'absent'), (-1, NULL, 'negative');
ANALYZE big, small;

\ir both_ways.sql
