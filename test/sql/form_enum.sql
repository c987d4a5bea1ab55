--
-- Keys that are enums
--
CREATE SCHEMA form_enum;
SET search_path = form_enum, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/scan.sql

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN feeling AS mood;
CREATE TABLE big (id int, m mood, f feeling) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, x, x FROM (SELECT i, (enum_range(NULL::mood))[i % 40 + 1] AS x FROM generate_series(1, 20000) i) q;
CREATE INDEX big_m ON big USING gpujoin (m) INCLUDE (id);
CREATE INDEX big_f ON big USING gpujoin (f);
VACUUM ANALYZE big;

EXPLAIN (COSTS OFF) SELECT * FROM big WHERE m IN ('sad', 'ok');
EXPLAIN (COSTS OFF) SELECT id, m FROM big WHERE m = 'sad' OR m = 'happy';
SELECT compare('SELECT * FROM big WHERE m IN (''sad'', ''ok'')');
SELECT compare('SELECT id, m FROM big WHERE m = ''sad'' OR m = ''happy''');
SELECT compare('SELECT m, count(*) FROM big WHERE m IN (''sad'', ''happy'') GROUP BY m');
SELECT compare('SELECT * FROM big WHERE m <> ''sad''');
SELECT compare('SELECT * FROM big WHERE m NOT IN (''sad'', ''ok'')');
-- a domain over an enum has no operator of its own
SELECT compare('SELECT * FROM big WHERE f::mood IN (''sad'', ''ok'')');
EXPLAIN (COSTS OFF) SELECT b.* FROM big b JOIN unnest('{sad,ok}'::mood[]) v (m) USING (m);
SELECT count(*), sum(b.id) FROM big b JOIN unnest('{sad,ok}'::mood[]) v (m) USING (m);
SELECT count(*), sum(id) FROM big WHERE m::text IN ('sad', 'ok');
-- the order of enums is not that of their keys
SELECT compare('SELECT * FROM (SELECT id, m FROM big WHERE m IN (''sad'', ''happy'') ORDER BY m, id LIMIT 5) q');
PREPARE moods(mood[]) AS SELECT b FROM big b WHERE m = ANY ($1);
PREPARE either(mood, mood) AS SELECT b FROM big b WHERE m = $1 OR m = $2;
SELECT compare_generic('moods', $$'{sad,NULL}'$$, 'NULL', $$'{}'$$);
SELECT compare_generic('either', $$'sad', 'happy'$$, $$NULL, 'ok'$$);

-- New and renamed values
ALTER TYPE mood ADD VALUE 'fine' BEFORE 'ok';
ALTER TYPE mood RENAME VALUE 'sad' TO 'unhappy';
INSERT INTO big SELECT i, 'fine', 'fine' FROM generate_series(30001, 30100) i;
SELECT compare('SELECT * FROM big WHERE m IN (''fine'', ''unhappy'')');

-- Partitions
CREATE TABLE parted (id int, m mood) PARTITION BY LIST (m);
CREATE TABLE parted_ok PARTITION OF parted FOR VALUES IN ('ok', 'fine');
CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT id, m FROM big;
CREATE INDEX ON parted USING gpujoin (m);
ANALYZE parted;
SELECT compare('SELECT * FROM parted WHERE m IN (''fine'', ''unhappy'')');
PREPARE of_parted(mood[]) AS SELECT p FROM parted p WHERE m = ANY ($1);
SELECT compare_generic('of_parted', $$'{fine,unhappy,NULL}'$$);
SELECT gpujoin_check('big_m', true) = (SELECT count(*) FROM big) AS sound;

SET client_min_messages = warning;
DROP SCHEMA form_enum CASCADE;
