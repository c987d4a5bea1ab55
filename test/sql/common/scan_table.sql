\set ECHO none
CREATE TABLE big (id int, k int, note text);
INSERT INTO big SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE (i * 7919) % 1000 - 100 END, 'row ' || i
	FROM generate_series(1, 20000) i;
CREATE INDEX big_k ON big USING gpujoin (k);
ANALYZE big;

\ir scan.sql
