--
-- SELECT DISTINCT may consider values equal that a unique index with another collation
-- distinguishes
--
SELECT count(*) = 0 AS skip FROM pg_collation WHERE collprovider = 'i' \gset
\if :skip
\quit
\endif
CREATE SCHEMA distinct_collation;
SET search_path = distinct_collation, public;
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/compare.sql
SET client_min_messages = warning;
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE words (w text NOT NULL COLLATE nocase, v text COLLATE "C" NOT NULL, k int);
INSERT INTO words SELECT 'w' || i, CASE WHEN i % 2 = 0 THEN 'v' ELSE 'V' END || i / 2, i % 10
FROM generate_series(0, 199) i;
CREATE UNIQUE INDEX ON words (w);
CREATE UNIQUE INDEX ON words (v);
CREATE INDEX ON words USING gpujoin (k);
SELECT * FROM compare_nodes('SELECT DISTINCT w FROM words WHERE k IN (2, 3, 4)');
SELECT * FROM compare_nodes('SELECT DISTINCT v FROM words WHERE k IN (2, 3, 4)');
SELECT * FROM compare_nodes('SELECT count(*) FROM (SELECT DISTINCT v COLLATE nocase AS v FROM words
	WHERE k IN (2, 3, 4)) u');
DROP INDEX words_v_idx;
CREATE UNIQUE INDEX ON words (v COLLATE "POSIX");
SELECT * FROM compare_nodes('SELECT DISTINCT v FROM words WHERE k IN (2, 3, 4)');
DROP INDEX words_w_idx;
CREATE UNIQUE INDEX ON words (w COLLATE "C");
SELECT * FROM compare_nodes('SELECT DISTINCT w FROM words WHERE k IN (2, 3, 4)');

DROP SCHEMA distinct_collation CASCADE;
