--
-- Ranges of keys in parallel plans: places and TIDs are divided among processes
--
CREATE SCHEMA form_range_parallel;
SET search_path = form_range_parallel, public;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/parallel.sql

CREATE INDEX big_kv ON big USING gpujoin (k) INCLUDE (v);
VACUUM ANALYZE big;
SELECT compare('SELECT k, v FROM big WHERE k BETWEEN 0 AND 700');
SELECT compare('SELECT k, v FROM big WHERE k NOT BETWEEN 0 AND 700');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 0 AND 700');
SELECT compare('SELECT * FROM big WHERE k > 10 AND k <> ALL (ARRAY[20, 30, 700]) OR k < -50');
UPDATE big SET k = k + 1 WHERE id % 3 = 0;
SELECT compare('SELECT k, v FROM big WHERE k BETWEEN 0 AND 700');
SELECT compare('SELECT * FROM big WHERE k BETWEEN 0 AND 700 AND id % 2 = 0');
SELECT compare('SELECT v, count(*) FROM big WHERE k >= 100 GROUP BY v');

SET client_min_messages = warning;
DROP SCHEMA form_range_parallel CASCADE;
