--
-- Lists of tuples: (a, b) IN (...), as the parser and ORMs write it; one exact table for all
--
CREATE SCHEMA form_tuple;
SET search_path = form_tuple, public;
SET gpujoin.force = on;

\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/common/explain.sql
\i :abs_srcdir/sql/common/scan.sql

CREATE TABLE big (id int, a int8, b int4, c text, d numeric, e uuid, f date, g int2, s varchar(10) COLLATE "C");
INSERT INTO big SELECT i, i % 500, i / 500 % 20, 'c' || i % 30, (i % 40) / 2.0,
		('00000000-0000-0000-0000-' || lpad((i % 30)::text, 12, '0'))::uuid, date '2026-01-01' + i % 20, i % 15, 's' || i % 9
	FROM generate_series(1, 20000) i;
INSERT INTO big VALUES (-1, 1, NULL), (-2, NULL, 2), (-3, NULL, NULL);
CREATE INDEX big_a ON big USING gpujoin (a) INCLUDE (b);
VACUUM ANALYZE big;

-- The other column is in the index: entries are tested
EXPLAIN (COSTS OFF) SELECT a, b FROM big WHERE (a, b) IN ((1, 2), (3, 4));
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM big WHERE (a, b) IN ((1, 2), (3, 4))');
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT count(*) FROM big WHERE (b, a) IN ((1, 2), (3, 4))');
-- it is not: rows are
SELECT explain('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF',
	'SELECT * FROM big WHERE (a, c) IN ((1, ''c1''), (3, ''c4''))');
-- each form that ORMs write
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (a = 1 AND b = 2) OR (b = 4 AND 3 = a);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE ((a = 1 AND b = ANY ('{2,3}')) OR (a = 3 AND b = 4)) AND id > 5;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE (a, b, c) IN ((1, 2, 'c1'), (3, 4, 'c2'));
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2), (3, 4))');
SELECT compare('SELECT a, b FROM big WHERE (a, b) IN ((1, 2), (3, 4), (1, 2), (5, 100))');
SELECT compare('SELECT count(*) FROM big WHERE (b, a) IN ((1, 2), (3, 4))');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b = 2) OR (b = 4 AND 3 = a)');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b = ANY (''{2,3}'')) OR (a = 3 AND b = 4)');
SELECT compare('SELECT * FROM big WHERE (a = ANY (''{1,7,NULL}'') AND b = 2) OR (a = 3 AND b = ANY (''{}''))');
SELECT compare('SELECT * FROM big WHERE (a = ANY (''{1,7}'') AND b = ANY (''{1,2}'')) OR (a = 3 AND b = 4)');
SELECT compare('SELECT * FROM big WHERE (a, b, c) IN ((1, 0, ''c1''), (3, 1, ''c23''), (3, 1, ''C23''))');
SELECT compare('SELECT a FROM big WHERE ((a, b) IN ((1, 2), (3, 4), (9, 9))) AND a IN (3, 9, 11) AND id > 100');
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2), (3, 4)) AND (a, c) IN ((1, ''c11''), (3, ''c3''), (3, ''c23''))');
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2), (3, 4)) IS TRUE');
-- types of the other column
SELECT compare('SELECT * FROM big WHERE (a, d) IN ((1, 0.5), (3, 1.50), (40, 0), (40, 0.00))');
SELECT compare('SELECT * FROM big WHERE (a, e) IN ((1, ''00000000-0000-0000-0000-000000000001''), (2, ''00000000-0000-0000-0000-000000000003''))');
SELECT compare('SELECT * FROM big WHERE (a, f) IN ((1, ''2026-01-02''), (2, ''2026-01-02''))');
SELECT compare('SELECT * FROM big WHERE (a, g) IN ((1, 1), (2, 70000), (3, 5000000000))');
SELECT compare('SELECT * FROM big WHERE (a, s) IN ((1, ''s1''), (2, ''s2 ''), (11, ''s2''))');
SELECT compare('SELECT * FROM big WHERE (a, c COLLATE "C") IN ((1, ''c1''), (3, ''c3''))');
-- literals of mixed widths: each arm may have operators of its own
EXPLAIN (COSTS OFF) SELECT a, b FROM big WHERE (a, b) IN ((1, 2), (3000000000, 4), (3, 4));
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2), (3000000000, 4), (3, 4), (5, 3000000000))');
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2), (3, 4.0), (3, 4.5))');
SELECT compare('SELECT * FROM big WHERE (a = 1::int2 AND b = 2::int8) OR (a = 3::int8 AND b = 4::int2) OR (a = 5 AND 6 = b)');
EXPLAIN (COSTS OFF) SELECT a, b FROM big WHERE (1 = a AND 2::int8 = b) OR (3::int2 = a AND 4 = b);
SELECT compare('SELECT * FROM big WHERE (1 = a AND 2::int8 = b) OR (3::int2 = a AND 4 = b)');
-- NULL: neither in the list nor in a row
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, NULL), (NULL, 2), (3, 4))');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b IS NULL) OR (a = 3 AND b = 4)');
SELECT compare('SELECT * FROM big WHERE (a, b) NOT IN ((1, 2), (3, 4))');
-- what is no list of tuples: keys are searched, rows are tested by the clause
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b = 2) OR (a = 3 AND id = 3)');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b = 2) OR a = 3');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b > 2) OR (a = 3 AND b > 4)');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND a = 2) OR (a = 3 AND a = 4)');
SELECT compare('SELECT * FROM big WHERE (a = 1 AND b = g) OR (a = 3 AND b = g)');
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2), (1, 4))');
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, 2))');
SELECT compare('SELECT * FROM big WHERE (a, b) = ANY (ARRAY[(1::int8, 2), (3::int8, 4)])');
-- many
SELECT compare(format('SELECT * FROM big WHERE (a, b) IN (%s)', string_agg(format('(%s, %s)', i % 700, i % 23), ', ')))
	FROM generate_series(1, 3000) i;
SELECT compare(format('SELECT id FROM big WHERE %s', string_agg(format('(a = %s AND c = %L)', i % 700, 'c' || i % 50), ' OR ')))
	FROM generate_series(1, 3000) i;
SELECT compare('SELECT count(*), sum(b) FROM big WHERE (a, b) IN ((1, 2), (3, 4), (7, 7)) GROUP BY a');
SELECT compare('SELECT a, b FROM big WHERE (a, b) IN ((1, 2), (3, 4), (7, 7)) ORDER BY b DESC LIMIT 2');
EXPLAIN (COSTS OFF) SELECT a, b FROM big WHERE (a, b) IN ((1, 2), (3, 4), (7, 7)) ORDER BY b DESC LIMIT 2;

-- Generic plans
PREPARE tuples(int8, int4, int8, int4) AS SELECT big FROM big WHERE (a, b) IN (($1, $2), ($3, $4), (9, $2));
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE tuples(1, 2, 3, 4);
RESET plan_cache_mode;
SELECT compare_generic('tuples', '1, 2, 3, 4', '1, NULL, 3, 4', 'NULL, 2, NULL, 4', '7, 7, 7, 7');
PREPARE lists(int8, int4[], int8, int8[], int4) AS
	SELECT big FROM big WHERE (a = $1 AND b = ANY ($2)) OR (a = $3 AND b = ANY ($2)) OR (a = ANY ($4) AND b = $5);
SELECT compare_generic('lists', $$1, '{2,3}', 3, '{5,6}', 7$$, $$NULL, '{2,3}', 3, NULL, 7$$, $$1, NULL, 3, '{}', NULL$$, $$1, '{NULL,2}', 1, '{1}', 2$$);
-- values of the query: sub-selects, laterals
SELECT compare('SELECT * FROM big WHERE (a, b) IN ((1, (SELECT 2)), ((SELECT 3), 4))');
SELECT compare('SELECT * FROM generate_series(1, 5) x, LATERAL (SELECT id FROM big WHERE (a, b) IN ((x, 2), (3, x)) OFFSET 0) y');

-- Rows change; pages are not all-visible
UPDATE big SET b = b + 1 WHERE a < 10;
DELETE FROM big WHERE a = 7;
INSERT INTO big (id, a, b) VALUES (-4, 1, 2), (-5, 3, 4), (-6, 3, NULL);
SELECT compare('SELECT a, b, id FROM big WHERE (a, b) IN ((1, 2), (3, 4), (7, 7), (8, 9))');
SELECT compare('SELECT a, b FROM big WHERE (a, b) IN ((1, 2), (3, 4), (7, 7), (8, 9), (400, 3))');
WITH gone AS (DELETE FROM big WHERE (a, b) IN ((1, 2), (3, 4), (8, 9)) RETURNING *) SELECT count(*) FROM gone;
SELECT count(*) FROM big WHERE (a, b) IN ((1, 2), (3, 4), (8, 9));

-- Partitions whose columns are in other places
CREATE TABLE parted (a int, b int, id int) PARTITION BY LIST (b);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (0, 1);
CREATE TABLE parted_2 (id int, b int, gone int, a int);
ALTER TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2, 3);
INSERT INTO parted SELECT i % 100, i % 4, i FROM generate_series(1, 4000) i;
CREATE INDEX ON parted USING gpujoin (a);
VACUUM ANALYZE parted;
SELECT compare('SELECT * FROM parted WHERE (a, b) IN ((1, 1), (2, 2), (3, 1), (7, 3))');
CREATE TABLE by_key (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE by_key_1 PARTITION OF by_key FOR VALUES FROM (0) TO (50);
CREATE TABLE by_key_2 PARTITION OF by_key FOR VALUES FROM (50) TO (100);
INSERT INTO by_key SELECT i % 100, i % 4 FROM generate_series(1, 4000) i;
CREATE INDEX ON by_key USING gpujoin (a) INCLUDE (b);
VACUUM ANALYZE by_key;
SELECT compare('SELECT * FROM by_key WHERE (a, b) IN ((1, 1), (51, 3), (52, 1), (53, 1), (100, 1))');

-- The key is an expression
CREATE INDEX big_expr ON big USING gpujoin ((a + id));
SET gpujoin.force = on;
SELECT compare('SELECT * FROM big WHERE (a + id, b) IN ((1002, 3), (2004, 5))');

-- arrays may contain a type without a hash function: their column is a filter
ALTER TABLE big ADD h money[] DEFAULT '{$1.00}';
SELECT compare('SELECT * FROM big WHERE (a, h) IN ((1, ''{$1.00}''), (3, ''{$2.00}''), (4, ''{$1.00}''))');

DROP SCHEMA form_tuple CASCADE;
