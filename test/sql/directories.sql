--
-- Processes keep copies of directories: blocks are used again for the directories of other runs
--
CREATE TABLE kept (k int, v int) WITH (autovacuum_enabled = off);
CREATE INDEX kept_k ON kept USING gpujoin (k) INCLUDE (v);
SET gpujoin.force = on;
SET gpujoin.auto_load = off;
SET gpujoin.aggregate = off;

INSERT INTO kept SELECT n % 700, n FROM generate_series(1, 9000) n;

-- Each round moves all keys, and makes one run of all rows on pages that the one before it has left. Copies are made when
-- a page is looked at for the second time, so all three searches must be right.
SELECT q FROM generate_series(1, 10) i, LATERAL (VALUES
	(1, 'UPDATE kept SET k = k + 1000'),
	(2, 'VACUUM (INDEX_CLEANUP ON) kept'),
	(3, 'SELECT gpujoin_fold(''kept_k'', true) >= 0 AS folded'),
	(4, format('SELECT count(*), min(v) FROM kept WHERE k = %s005', i)),
	(5, format('SELECT count(*), min(v) FROM kept WHERE k = %s350', i)),
	(6, format('SELECT count(*), min(v) FROM kept WHERE k = %s699', i))) q(n, q)
	ORDER BY i, n \gexec

-- Another index, with the same blocks, after TRUNCATE
TRUNCATE kept;
INSERT INTO kept SELECT n % 900, n FROM generate_series(1, 2700) n;
SELECT gpujoin_fold('kept_k', true) >= 0 AS folded;
SELECT count(*), min(v) FROM kept WHERE k = 5;
SELECT count(*), min(v) FROM kept WHERE k = 899;
REINDEX INDEX kept_k;
SELECT count(*), min(v) FROM kept WHERE k = 5;
SELECT count(*), min(v) FROM kept WHERE k = 899;
DROP TABLE kept;
