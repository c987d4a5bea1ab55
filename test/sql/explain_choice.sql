--
-- gpujoin_explain_choice(): which indexes a query could use, which it uses, and why not the others
--
CREATE SCHEMA choice;
SET search_path = choice, public;
SET max_parallel_workers_per_gather = 0;
-- costs depend on whether an index has a mirror
SET gpujoin.auto_load = off;

CREATE TABLE facts (id int, k int, v int, note text);
INSERT INTO facts SELECT i, (i * 7919::int8) % 60000, i % 7, 'n' FROM generate_series(1, 120000) i;
CREATE INDEX facts_k ON facts USING gpujoin (k);
CREATE TABLE keys (k int);
INSERT INTO keys SELECT i * 10 FROM generate_series(1, 500) i;
CREATE TABLE little (k int);
INSERT INTO little SELECT generate_series(1, 100);
CREATE INDEX little_k ON little USING gpujoin (k);
VACUUM ANALYZE facts, keys, little;

-- Without the costs, which are tested separately
CREATE FUNCTION choices(query text) RETURNS TABLE (relation regclass, index regclass, node text, condition text,
	chosen boolean, reason text, cheaper boolean) LANGUAGE sql AS $$
	SELECT relation, index, node, condition, chosen, reason, cost < other_cost
	FROM gpujoin_explain_choice(query) ORDER BY relation::text, index::text, node
$$;

-- Chosen
SELECT * FROM choices('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM choices('SELECT * FROM facts JOIN keys USING (k)');
SELECT cost > 0 AND cost < other_cost AS costs FROM gpujoin_explain_choice('SELECT * FROM facts WHERE k IN (1, 2, 3)');

-- With parameters: for the assumed number of keys, like advice
SELECT * FROM choices('SELECT * FROM facts WHERE k = ANY ($1)');
SELECT * FROM choices('SELECT * FROM facts WHERE v = $2 AND k IN ($1, $3) LIMIT $4');
SELECT * FROM choices('SELECT * FROM facts JOIN unnest($1) u (k) USING (k)');
SELECT * FROM choices('UPDATE facts SET note = $1 WHERE k = ANY ($2::bigint[])');
CREATE INDEX facts_btree ON facts (k, id);
SELECT * FROM choices('SELECT * FROM facts WHERE k = ANY ($1)');
SET gpujoin.assumed_keys = 2;
SELECT * FROM choices('SELECT * FROM facts WHERE k = ANY ($1)');
-- The other cost is that of the btree
SET gpujoin.assumed_keys = 50;
SELECT c.cost < c.other_cost AND c.other_cost < s.other_cost AS cheaper_than_sequential FROM
	gpujoin_explain_choice('SELECT * FROM facts WHERE k = ANY ($1)') c,
	gpujoin_explain_choice('SELECT * FROM facts WHERE k <> ALL ($1)') s;
RESET gpujoin.assumed_keys;
DROP INDEX facts_btree;

-- More expensive
SELECT * FROM choices('SELECT * FROM facts WHERE k NOT IN (1, 2, 3)');
CREATE INDEX facts_btree ON facts (k);
SELECT * FROM choices('SELECT * FROM facts WHERE k IN (1, 2, 3)');
DROP INDEX facts_btree;

-- Not offered: because of the setting, the size of the table, the form of the condition
SET gpujoin.enabled = off;
SELECT * FROM choices('SELECT * FROM facts WHERE k IN (1, 2, 3)');
RESET gpujoin.enabled;
SELECT * FROM choices('SELECT * FROM little WHERE k IN (1, 2, 3)');
SELECT * FROM choices('SELECT * FROM keys WHERE k IN (1, 2, 3)');
SELECT * FROM choices('SELECT * FROM facts WHERE v = 3');
SELECT * FROM choices('SELECT * FROM facts');
SELECT * FROM choices('SELECT * FROM facts WHERE k + 1 IN (1, 2)');
SELECT * FROM choices('SELECT * FROM facts WHERE k::text = ''1''');
SELECT * FROM choices('SELECT * FROM facts WHERE k = 1 OR k IS NULL');
SELECT * FROM choices('SELECT * FROM facts WHERE k = (random() * 5)::int');
SELECT * FROM choices('SELECT * FROM facts WHERE k = v');
SELECT * FROM choices('SELECT * FROM facts WHERE k = 1 AND false');
SELECT * FROM choices('SELECT * FROM facts TABLESAMPLE system (1) WHERE k = 1');
CREATE INDEX facts_part ON facts USING gpujoin (v) WHERE id > 100;
SELECT * FROM choices('SELECT * FROM facts WHERE v = 1 AND k = 1 AND id > 50');
DROP INDEX facts_part;
CREATE VIEW guarded WITH (security_barrier) AS SELECT * FROM facts WHERE id % 2 = 0;
CREATE FUNCTION leak(int) RETURNS int STABLE COST 1 LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
SELECT * FROM choices('SELECT * FROM guarded WHERE leak(k) = 1');

SELECT * FROM choices('SELECT * FROM facts WHERE k NOT IN (SELECT k FROM keys)');

-- Joins that no index can answer: because of the rows to return, the size of the other side, the
-- form of the condition
SELECT * FROM choices('SELECT * FROM facts LEFT JOIN keys USING (k)');
SELECT * FROM choices('SELECT * FROM keys RIGHT JOIN facts USING (k)');
SELECT * FROM choices('SELECT * FROM facts FULL JOIN keys USING (k)');
SELECT * FROM choices('SELECT * FROM facts WHERE NOT EXISTS (SELECT FROM keys WHERE keys.k = facts.k)');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON s.k = f.k + 1');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON s.k < f.k');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON s.k + f.v = f.k');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON s.k::text = f.k::text');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON abs(s.k) = abs(f.k)');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON f.k = s.k + (random() * 5)::int');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON f.v = s.k');
CREATE TABLE facts_too AS SELECT * FROM facts;
CREATE INDEX facts_too_k ON facts_too USING gpujoin (k);
VACUUM ANALYZE facts_too;
SELECT * FROM choices('SELECT * FROM facts JOIN facts_too USING (k)');
-- The small side may be the preserved one, and no reason is given for a table whose join is offered
SELECT * FROM choices('SELECT * FROM keys LEFT JOIN facts USING (k)');
SELECT * FROM choices('SELECT * FROM keys WHERE NOT EXISTS (SELECT FROM facts WHERE keys.k = facts.k)');
SELECT * FROM choices('SELECT * FROM facts f JOIN keys s ON s.k = f.k AND s.k + f.k > 5');
-- A value of the big side that is NULL if there is no match
SELECT * FROM choices('SELECT * FROM keys LEFT JOIN (SELECT k, coalesce(v, 5) AS w FROM facts) f USING (k)');
-- Partitions, each with a row of its own
CREATE TABLE halves (id int, k int) PARTITION BY RANGE (id);
CREATE TABLE halves_1 PARTITION OF halves FOR VALUES FROM (0) TO (60000);
CREATE TABLE halves_2 (k int, id int);
ALTER TABLE halves ATTACH PARTITION halves_2 FOR VALUES FROM (60000) TO (200000);
INSERT INTO halves SELECT id, k FROM facts;
CREATE INDEX halves_1_k ON halves_1 USING gpujoin (k);
VACUUM ANALYZE halves;
SELECT * FROM choices('SELECT * FROM halves JOIN keys USING (k)');
CREATE INDEX halves_2_k ON halves_2 USING gpujoin (k);
SELECT * FROM choices('SELECT * FROM halves JOIN keys USING (k)');
SELECT * FROM choices('SELECT * FROM halves LEFT JOIN keys USING (k)');
SELECT * FROM choices('SELECT * FROM halves h JOIN keys s ON s.k = h.k + 1');
SELECT * FROM choices('DELETE FROM halves h USING keys s WHERE s.k = h.k');

-- Aggregates above: a separate row beside the scan's or join's; costs are tested separately
CREATE INDEX halves_1_wide ON halves_1 USING gpujoin (k) INCLUDE (id);
CREATE FUNCTION aggregates(query text) RETURNS TABLE (relation regclass, node text, chosen boolean, reason text)
LANGUAGE sql AS $$
	SELECT relation, node, chosen, reason FROM gpujoin_explain_choice(query) WHERE node = 'GpuAgg'
$$;
SELECT * FROM aggregates('SELECT k, count(*) FROM facts WHERE k IN (1, 2, 3) GROUP BY k');
SELECT * FROM aggregates('SELECT DISTINCT facts.k, v FROM facts JOIN keys USING (k)');
SELECT * FROM aggregates('SELECT count(*) FROM halves WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT count(*) FROM facts WHERE v = 3');	-- nothing of ours below
SELECT * FROM aggregates('SELECT count(*) FILTER (WHERE note > ''n'') FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT note, count(*) FROM facts WHERE k IN (1, 2, 3) GROUP BY note');
SELECT * FROM aggregates('SELECT max(note) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT sum(v), stddev(v) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT string_agg(note, $1) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT sum(v ORDER BY v) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT sum(v + (random() * 5)::int) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT sum(length(note)) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT sum(DISTINCT v) FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM aggregates('SELECT k, v, count(*) FROM facts WHERE k IN (1, 2, 3) GROUP BY CUBE (k, v)');
SELECT * FROM aggregates('SELECT count(*) FROM facts WHERE k IN (1, 2, 3) AND v > random()');
SELECT * FROM aggregates('SELECT DISTINCT ON (v) v, k FROM facts WHERE k IN (1, 2, 3)');
SET gpujoin.aggregate = off;
SELECT * FROM aggregates('SELECT count(*) FROM facts WHERE k IN (1, 2, 3)');
RESET gpujoin.aggregate;

-- Prepared statements, data changes, long conditions
PREPARE by_keys(int[]) AS SELECT * FROM facts WHERE k = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_keys('{}');
SELECT * FROM choices('EXECUTE by_keys(''{1,2}'')');
RESET plan_cache_mode;
SELECT * FROM choices('DELETE FROM facts WHERE k IN (1, 2)');
SELECT count(*) FROM facts;
SELECT length(condition) FROM choices(format('SELECT * FROM facts WHERE k = ANY (%L)', ARRAY(SELECT generate_series(1, 1000))));

-- One statement, which is not executed
\set VERBOSITY terse
SELECT * FROM choices('DROP TABLE facts');
SELECT * FROM choices('SELECT 1; DELETE FROM facts');
SELECT * FROM choices('ANALYZE DELETE FROM facts');
SELECT * FROM choices('');
SELECT * FROM choices('VACUUM facts');
SELECT * FROM choices('SELECT nonsense');
SELECT * FROM choices('SELECT $1; DELETE FROM facts');
SELECT * FROM choices('SELECT nonsense WHERE 1 = $1');
SELECT * FROM choices('SELECT k AS new INTO new FROM facts WHERE k = ANY ($1)');
DO $$ BEGIN PERFORM * FROM choices('DELETE FROM facts WHERE k = ANY ($1)'); END $$;
SELECT * FROM choices('SELECT * FROM choices(''SELECT 1'')');
SELECT count(*) FROM facts;

-- Scans of PostgreSQL's own: of joins that ours does not take, and of several indexes; some are not chosen
CREATE TABLE spread (k int, v int);
INSERT INTO spread SELECT g % 700, g FROM generate_series(1, 100000) g;
CREATE INDEX spread_k ON spread USING gpujoin (k);
CREATE INDEX spread_v ON spread (v);
CREATE TABLE lists AS SELECT g AS id, ARRAY[g, g + 1] AS ks FROM generate_series(1, 30) g;
VACUUM ANALYZE spread, lists;
SELECT * FROM choices('SELECT * FROM lists l JOIN spread s ON s.k = ANY (l.ks)');
SELECT * FROM choices('SELECT * FROM lists l LEFT JOIN spread s ON s.k = ANY (l.ks)');
SELECT relation, index, node, chosen FROM choices('SELECT * FROM lists l JOIN spread s ON s.k = l.id OR s.k = l.id + 1');
SELECT * FROM choices('SELECT * FROM lists l WHERE EXISTS (SELECT FROM spread s WHERE s.k = ANY (l.ks) AND s.v > l.id)');
SELECT * FROM choices('SELECT * FROM spread WHERE k IN (1, 2, 3) OR v < 100');
SELECT * FROM choices('SELECT * FROM spread WHERE k = ANY ($1) OR v < 100');
SELECT * FROM choices('SELECT * FROM spread WHERE k IN (1, 2, 3) OR v < 90000');
SELECT * FROM choices('SELECT * FROM spread WHERE k IN (1, 2, 3) OR k IS NULL');

-- EXECUTE is planned again, and no other statement is: planning evaluates the function
CREATE FUNCTION told(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'planned'; RETURN n; END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE asked AS SELECT count(*) FROM spread WHERE k = told(1);
PREPARE other AS SELECT count(*) FROM spread WHERE k = told(2);
EXECUTE asked;
EXECUTE other;
SELECT DISTINCT relation, chosen FROM choices('EXECUTE asked') WHERE node = 'GpuScan';
EXECUTE asked;
EXECUTE other;
RESET plan_cache_mode;

-- The privileges required are those of EXPLAIN
CREATE ROLE regress_choice_nobody;
GRANT USAGE ON SCHEMA choice TO regress_choice_nobody;
SET ROLE regress_choice_nobody;
SELECT * FROM choices('SELECT * FROM facts WHERE k IN (1, 2, 3)');
SELECT * FROM choices('SELECT * FROM facts WHERE k = ANY ($1)');
RESET ROLE;

-- Through a view, no function gets values of the table as those of an array
CREATE FUNCTION tell(int[]) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT max(e) > 1000 FROM unnest($1) e) THEN RAISE 'these are values of the table'; END IF;
	RETURN 1;
END $$;
SELECT * FROM choices('SELECT tell($1) FROM facts WHERE k = ANY ($1)');
GRANT SELECT ON guarded TO regress_choice_nobody;
SET ROLE regress_choice_nobody;
SELECT * FROM choices('SELECT tell($1) FROM guarded WHERE k = ANY ($1)');
RESET ROLE;

-- Another library may hook the planner meanwhile. Its hook stays, and the notes are complete.
CREATE EXTENSION gpujoin_test;
SELECT DISTINCT node, chosen FROM choices('SELECT * FROM facts WHERE k IN (1, 2, 3) AND
	gpujoin_test_hook_planner() >= 0') WHERE node = 'GpuScan';
SELECT gpujoin_test_hook_planner() AS plans \gset
SELECT gpujoin_test_hook_planner() > :plans AS is_hooked;
SELECT DISTINCT node, chosen FROM choices('SELECT * FROM facts WHERE k IN (1, 2, 3)') WHERE node = 'GpuScan';
DROP EXTENSION gpujoin_test;

SET client_min_messages = warning;
DROP SCHEMA choice CASCADE;
DROP ROLE regress_choice_nobody;
